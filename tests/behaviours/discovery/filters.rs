//! Which definitions count: lists and minimum versions. [I31]

use kube_client::{CrdOptions, KindState};

use super::Widgets;
use crate::harness::{Log, Server, cases, eventually, limited};
use crate::informer::Rig;

const ANNOTATION: &str = "example.com/bundle";

/// Why the definition does not count, once the watcher has seen it.
async fn objection(rig: &Rig, widgets: &Widgets) -> String {
    eventually("the definition is ignored", || async {
        rig.client.stats().crd_watcher?.ignored.get(&widgets.name()).cloned()
    })
    .await
}

// [I31] an ignored kind is never known, whether the watcher sees its definition or discovery lists it
async fn ignore_and_include_lists_decide_which_kinds_count(server: Server) {
    let (ignored, included, other) = (Widgets::new(&server), Widgets::new(&server), Widgets::new(&server));
    let options = CrdOptions::default()
        .ignore(format!("*.{}", ignored.group))
        .ignore(format!("*.{}", included.group))
        .include(included.name());
    let rig = Rig::with(server, |builder| builder.crds(options));
    ignored.define().await;
    let crds = rig.client.crd_watcher();
    let mut states = crds.subscribe(&ignored.kind());
    rig.run().await;
    included.define().await;
    other.define().await;
    limited("the included kind", crds.wait_for(&included.kind(), &rig.stop))
        .await
        .unwrap();
    limited("the other kind", crds.wait_for(&other.kind(), &rig.stop))
        .await
        .unwrap();
    assert_eq!(objection(&rig, &ignored).await, "it matches a pattern that is ignored");
    assert_eq!(limited("a state", states.next()).await, Some(KindState::Unknown));
    assert!(!crds.known(&ignored.kind()));
    let stats = rig.client.stats().crd_watcher.unwrap();
    assert!(!stats.ignored.contains_key(&included.name()) && !stats.ignored.contains_key(&other.name()));
    for widgets in [ignored, included, other] {
        widgets.remove().await;
    }
    rig.end().await;
}

// [I31] below the minimum: unknown; an upgrade makes it known; a pre-release counts as its release; a bad version does not
// count, and is logged once as an error that names the definition
async fn minimum_version_is_met_by_an_upgrade(server: Server) {
    let (log, _logging) = Log::capture();
    let widgets = Widgets::new(&server);
    let options = CrdOptions::default()
        .minimum_version(widgets.name(), "1.4.0")
        .version_annotation(ANNOTATION);
    let rig = Rig::with(server, |builder| builder.crds(options));
    let crds = rig.client.crd_watcher();
    let mut states = crds.subscribe(&widgets.kind());
    rig.run().await;
    assert_eq!(limited("a state", states.next()).await, Some(KindState::Unknown));
    widgets.define().await;
    assert_eq!(
        objection(&rig, &widgets).await,
        format!("it needs version 1.4.0 or later, but has no annotation {ANNOTATION}")
    );
    for (version, objection) in [
        ("v1.3.9", Some("it needs version 1.4.0 or later, but has v1.3.9")),
        ("v1.4.0-rc.1", None),
        (
            "latest",
            Some("it needs version 1.4.0 or later, but annotation example.com/bundle is no version: \"latest\""),
        ),
        ("v2.0.0", None),
        ("v1.3.0", Some("it needs version 1.4.0 or later, but has v1.3.0")),
    ] {
        widgets.annotate(ANNOTATION, version).await;
        eventually("the version is seen", || async {
            let ignored = rig.client.stats().crd_watcher?.ignored;
            (ignored.get(&widgets.name()).map(String::as_str) == objection).then_some(())
        })
        .await;
        let known = objection.is_none();
        let line = objection.map(|objection| format!("ignoring the definition {}: {objection}", widgets.name()));
        if let Some(line) = line {
            let lines = log.with(&line);
            assert!(
                lines.len() == 1 && lines[0].starts_with("ERROR"),
                "{version}: {lines:?}"
            );
        }
        if known {
            limited("the kind", crds.wait_for(&widgets.kind(), &rig.stop))
                .await
                .unwrap();
        }
        assert_eq!(crds.known(&widgets.kind()), known, "{version}");
    }
    widgets.remove().await;
    rig.end().await;
}

cases!(
    ignore_and_include_lists_decide_which_kinds_count,
    minimum_version_is_met_by_an_upgrade,
);

// [I31] options that mean nothing are refused when the client is built
#[tokio::test]
async fn bad_options_are_refused_by_name() {
    let build = |options| {
        kube_client::Client::builder()
            .crds(options)
            .build_with(Server::fake().client())
    };
    let error = build(CrdOptions::default().ignore("*istio.io")).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(
        cause,
        "not a pattern of definitions, expected `plural.group` or `*.group`: \"*istio.io\""
    );
    let error = build(CrdOptions::default().minimum_version("a.b", "new")).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(cause, "not a version, expected `1.2.3`: \"new\", the minimum of a.b");
}
