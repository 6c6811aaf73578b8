//! The CRD watcher: kinds that come and go, and exactly one call for whoever waits. [I29] [I30] [I32]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fake_apiserver::{Fault, Rule, Verb};
use kube::core::GroupVersionResource;
use kube_client::{CrdSource, KindState, Lookup, Stopped, SyncError, SyncOptions};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{DEFINITIONS, Widgets, pods};
use crate::harness::{CustomKind, Server, cases, eventually, limited};
use crate::informer::Rig;

/// How often something was called.
#[derive(Clone, Default)]
struct Calls(Arc<AtomicU32>);

impl Calls {
    fn callback(&self) -> impl FnOnce() + Send + 'static {
        let calls = Arc::clone(&self.0);
        move || {
            calls.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    async fn once(&self) {
        eventually("the call", || async { (self.count() > 0).then_some(()) }).await;
        assert_eq!(self.count(), 1);
    }
}

async fn next(states: &mut kube_client::KindSubscription) -> KindState {
    limited("the next state", states.next()).await.expect("it goes on")
}

// [I29] a definition that is created while somebody registers: exactly one of "known" and one call
async fn registration_that_races_with_a_definition_is_known_or_called_once(server: Server) {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let rounds = if server.in_memory().is_some() { 1000 } else { 12 };
    let rig = Rig::new(server);
    let crds = rig.client.crd_watcher();
    assert!(!crds.known(&pods()), "nothing is known before the start");
    rig.run().await;
    let mut outcomes = [0, 0];
    let mut all = Vec::new();
    for round in 0..rounds {
        let widgets = Widgets::new(&rig.server);
        let defining = tokio::spawn({
            let widgets = widgets.clone();
            async move { widgets.define().await }
        });
        for _ in 0..random.u32(..10) {
            tokio::task::yield_now().await;
        }
        if rounds < 1000 {
            tokio::time::sleep(std::time::Duration::from_millis(random.u64(..120))).await; // spreads the race, waits for nothing
        }
        let calls = Calls::default();
        let known = crds.known_or_callback(&widgets.kind(), calls.callback());
        defining.await.unwrap();
        limited("the kind", crds.wait_for(&widgets.kind(), &rig.stop))
            .await
            .unwrap();
        if !known {
            calls.once().await;
        }
        outcomes[usize::from(known)] += 1;
        widgets.remove().await;
        all.push((round, known, calls));
    }
    println!("called and known: {outcomes:?}");
    for (round, known, calls) in all {
        assert_eq!(calls.count(), u32::from(!known), "round {round}");
    }
    rig.end().await;
}

// [I30] a version that is not served is unknown, and becomes known when it is; other versions do not matter
async fn version_is_known_while_it_is_served(server: Server) {
    let rig = Rig::new(server);
    let crds = rig.client.crd_watcher();
    let widgets = Widgets::new(&rig.server);
    let (old, new) = (widgets.kind(), widgets.version("v2"));
    let calls = Calls::default();
    assert!(!crds.known_or_callback(&new, calls.callback()));
    let mut states = crds.subscribe(&new);
    rig.run().await;
    assert_eq!(next(&mut states).await, KindState::Unknown);
    widgets.define().await;
    crds.wait_for(&old, &rig.stop).await.unwrap();
    assert!(!crds.known(&new));
    assert_eq!(calls.count(), 0);
    widgets.serve(&[("v1", true), ("v2", true)]).await;
    assert_eq!(next(&mut states).await, KindState::Known);
    calls.once().await;
    assert!(crds.known(&new) && crds.known(&old));
    widgets.serve(&[("v1", true), ("v2", false)]).await;
    assert_eq!(next(&mut states).await, KindState::Unknown);
    assert!(!crds.known(&new) && crds.known(&old));
    assert_eq!(calls.count(), 1);
    widgets.remove().await;
    rig.end().await;
}

// [I30] a definition whose names are taken is not established: unknown, until they are free
async fn definition_is_unknown_before_it_is_established(server: Server) {
    let rig = Rig::new(server);
    let crds = rig.client.crd_watcher();
    let widgets = Widgets::new(&rig.server);
    let gizmos = GroupVersionResource::gvr(&widgets.group, "v1", "gizmos");
    let gizmos_path = format!("{DEFINITIONS}/gizmos.{}", widgets.group);
    rig.run().await;
    widgets.define().await;
    crds.wait_for(&widgets.kind(), &rig.stop).await.unwrap();
    // Another plural for the same kind.
    let mut taken = CustomKind::definition(&widgets.group);
    taken["metadata"]["name"] = format!("gizmos.{}", widgets.group).into();
    taken["spec"]["names"]["plural"] = "gizmos".into();
    taken["spec"]["names"]["singular"] = "gizmo".into();
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "Case", "message": ""});
    if rig.server.in_memory().is_some() {
        // The in-memory server accepts any names: the status says what the real one would.
        taken["spec"]["versions"][0]["served"] = false.into();
        rig.server.post(DEFINITIONS, &taken).await.created();
        let status =
            json!({"status": {"conditions": [condition("NamesAccepted", "False"), condition("Established", "False")]}});
        rig.server.merge(&format!("{gizmos_path}/status"), &status).await.ok();
        let served = json!({"spec": {"versions": [{"name": "v1", "served": true, "storage": true,
            "schema": taken["spec"]["versions"][0]["schema"]}]}});
        rig.server.merge(&gizmos_path, &served).await.ok();
    } else {
        rig.server.post(DEFINITIONS, &taken).await.created();
    }
    let conditions = eventually("the verdict on the names", || async {
        let conditions = rig.server.get(&gizmos_path).await.ok()["status"]["conditions"].clone();
        conditions.is_array().then_some(conditions)
    })
    .await;
    let accepted = conditions
        .as_array()
        .unwrap()
        .iter()
        .find(|found| found["type"] == "NamesAccepted");
    assert_eq!(accepted.unwrap()["status"], "False", "{conditions}");
    let calls = Calls::default();
    assert!(!crds.known_or_callback(&gizmos, calls.callback()));
    // The watcher has seen this definition when it has seen a later change of the other one.
    let later = Widgets::new(&rig.server);
    later.define().await;
    crds.wait_for(&later.kind(), &rig.stop).await.unwrap();
    assert!(!crds.known(&gizmos));
    assert_eq!(calls.count(), 0);
    widgets.undefine().await;
    if rig.server.in_memory().is_some() {
        let status =
            json!({"status": {"conditions": [condition("NamesAccepted", "True"), condition("Established", "True")]}});
        rig.server.merge(&format!("{gizmos_path}/status"), &status).await.ok();
    }
    limited("the names are free", crds.wait_for(&gizmos, &rig.stop))
        .await
        .unwrap();
    calls.once().await;
    rig.server.delete(&gizmos_path).await.ok();
    later.remove().await;
    rig.end().await;
}

// [I32] a definition that is deleted: unknown again, subscribers are told; a new one: callbacks again
async fn deleted_definition_makes_the_kind_unknown_until_it_is_back(server: Server) {
    let rig = Rig::new(server);
    let crds = rig.client.crd_watcher();
    let widgets = Widgets::new(&rig.server);
    let kind = widgets.kind();
    widgets.define().await;
    let mut states = crds.subscribe(&kind);
    let mut late = crds.subscribe(&kind);
    let first = Calls::default();
    assert!(!crds.known_or_callback(&kind, first.callback()));
    rig.run().await;
    for subscription in [&mut states, &mut late] {
        // A real server takes a moment to establish it.
        while next(subscription).await != KindState::Known {}
    }
    first.once().await;
    let unused = Calls::default();
    assert!(crds.known_or_callback(&kind, unused.callback()));

    widgets.undefine().await;
    assert_eq!(next(&mut states).await, KindState::Unknown);
    assert!(!crds.known(&kind));
    let again = Calls::default();
    assert!(!crds.known_or_callback(&kind, again.callback()));
    widgets.define().await;
    assert_eq!(next(&mut states).await, KindState::Known);
    again.once().await;
    assert_eq!((first.count(), unused.count()), (1, 0));
    // Whoever did not look meanwhile learns that it is another definition.
    assert_eq!(next(&mut late).await, KindState::Unknown);
    assert_eq!(next(&mut late).await, KindState::Known);
    widgets.undefine().await;
    assert_eq!(next(&mut late).await, KindState::Unknown);
    rig.end().await;
}

// [I32] deleted and created anew while the watch is down: noticed by the uid
#[tokio::test(start_paused = true)]
async fn definition_that_was_replaced_unseen_shows_as_unknown_then_known() {
    let rig = Rig::fake();
    let widgets = Widgets::new(&rig.server);
    widgets.define().await;
    let crds = rig.client.crd_watcher();
    let mut states = crds.subscribe(&widgets.kind());
    rig.run().await;
    assert_eq!(next(&mut states).await, KindState::Known);
    let definitions = "customresourcedefinitions.apiextensions.k8s.io";
    let down = rig.memory().inject(
        Rule::new(Fault::Refuse)
            .resource(definitions)
            .user_agent("informer-case"),
    );
    rig.memory().close_watches(definitions);
    down.wait_fired(1).await;
    widgets.undefine().await;
    widgets.define().await;
    down.remove();
    assert_eq!(next(&mut states).await, KindState::Unknown);
    assert_eq!(next(&mut states).await, KindState::Known);
    rig.end().await;
}

// [I29] `run_and_wait` waits for the watcher, and the watcher for the calls that are due at the start
async fn start_waits_for_the_watcher_and_its_calls(server: Server) {
    let rig = Rig::new(server);
    let widgets = Widgets::new(&rig.server);
    widgets.define().await;
    let other = Rig::new(rig.server.clone());
    other.client.start();
    let established = other.client.crd_watcher();
    limited("the kind", established.wait_for(&widgets.kind(), &other.stop))
        .await
        .unwrap();

    let crds = rig.client.crd_watcher();
    let (custom, built_in, absent) = (Calls::default(), Calls::default(), Calls::default());
    assert!(!crds.known_or_callback(&widgets.kind(), custom.callback()));
    assert!(!crds.known_or_callback(&pods(), built_in.callback()));
    assert!(!crds.known_or_callback(&widgets.version("v7"), absent.callback()));
    assert!(!crds.has_synced());
    assert!(
        rig.client.stats().crd_watcher.is_none(),
        "nothing runs before the start"
    );
    rig.run().await;
    assert!(crds.has_synced());
    assert_eq!((custom.count(), built_in.count(), absent.count()), (1, 1, 0));
    assert!(crds.known(&pods()) && !crds.known(&GroupVersionResource::gvr("", "v2", "pods")));
    let stats = rig.client.stats().crd_watcher.unwrap();
    assert_eq!(
        (stats.source, stats.waiting, stats.has_synced),
        (CrdSource::Definitions, 1, true)
    );
    assert!(stats.definitions >= 1);
    widgets.remove().await;
    other.client.shutdown().await;
    rig.end().await;
    other.end().await;
}

// Discovery follows the definitions while the watcher runs: no pause after a miss.
async fn known_kinds_can_be_looked_up(server: Server) {
    let rig = Rig::new(server);
    let crds = rig.client.crd_watcher();
    crds.known(&pods());
    rig.run().await;
    let discovery = rig.client.discovery();
    let widgets = Widgets::new(&rig.server);
    let lookup = Lookup::from(&widgets.kind());
    assert!(discovery.find(&lookup).await.unwrap_err().is_not_served());
    widgets.define().await;
    limited("the kind", crds.wait_for(&widgets.kind(), &rig.stop))
        .await
        .unwrap();
    // A real server's discovery lags behind its definitions.
    let found = eventually("the kind in discovery", || async { discovery.find(&lookup).await.ok() }).await;
    assert_eq!(found.resource.kind, "Widget");
    widgets.undefine().await;
    eventually("the end of the kind in discovery", || async {
        let error = discovery.find(&lookup).await.err()?;
        error.is_not_served().then_some(())
    })
    .await;
    rig.end().await;
}

cases!(
    registration_that_races_with_a_definition_is_known_or_called_once,
    version_is_known_while_it_is_served,
    definition_is_unknown_before_it_is_established,
    deleted_definition_makes_the_kind_unknown_until_it_is_back,
    start_waits_for_the_watcher_and_its_calls,
    known_kinds_can_be_looked_up,
);

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_before_the_watcher_is_used() {
    let rig = Rig::fake();
    let crds = rig.client.crd_watcher();
    let maps = rig.maps(kube_client::InformerOptions::default());
    rig.run().await;
    let foreign = |rig: &Rig| {
        rig.memory()
            .requests()
            .iter()
            .filter(|asked| asked.resource != "configmaps")
            .count()
    };
    assert!(maps.has_synced() && !crds.has_synced());
    assert_eq!(foreign(&rig), 0);
    assert!(!crds.known(&pods()), "not yet");
    crds.synced().await.unwrap();
    assert!(crds.known(&pods()));
    assert_eq!(
        rig.memory()
            .open_watches("customresourcedefinitions.apiextensions.k8s.io"),
        1
    );
    assert_eq!(foreign(&rig), 3, "/api, /apis and one watch");
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn waits_end_with_their_token_and_with_the_client() {
    let rig = Rig::fake();
    let crds = rig.client.crd_watcher();
    let widgets = Widgets::new(&rig.server);
    rig.run().await;
    let own = CancellationToken::new();
    own.cancel();
    assert_eq!(crds.wait_for(&widgets.kind(), &own).await, Err(Stopped));
    let token = Arc::new(());
    let held = Arc::clone(&token);
    assert!(!crds.known_or_callback(&widgets.kind(), move || panic!("called after the stop: {held:?}")));
    let mut states = crds.subscribe(&widgets.kind());
    assert_eq!(next(&mut states).await, KindState::Unknown);
    let kind = widgets.kind();
    let (wait, shutdown) = tokio::join!(crds.wait_for(&kind, &rig.stop), rig.client.shutdown());
    assert_eq!((wait, shutdown), (Err(Stopped), ()));
    assert_eq!(states.next().await, None);
    assert_eq!(Arc::strong_count(&token), 1, "the callback was dropped");
    assert_eq!(crds.wait_for(&widgets.kind(), &own).await, Err(Stopped));
    assert!(!crds.known_or_callback(&widgets.kind(), || panic!("called after the stop")));
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn panic_in_a_callback_harms_no_other() {
    let rig = Rig::fake();
    let crds = rig.client.crd_watcher();
    let widgets = Widgets::new(&rig.server);
    rig.run().await;
    let calls = Calls::default();
    assert!(!crds.known_or_callback(&widgets.kind(), || panic!("a callback panics")));
    assert!(!crds.known_or_callback(&widgets.kind(), calls.callback()));
    widgets.define().await;
    calls.once().await;
    widgets.undefine().await;
    crds.subscribe(&widgets.kind());
    let mut states = crds.subscribe(&widgets.kind());
    while next(&mut states).await != KindState::Unknown {}
    rig.end().await;
}

// [I5] a start that fails fast says that the watcher is what it waits for
#[tokio::test(start_paused = true)]
async fn start_that_fails_fast_names_the_definitions() {
    let rig = Rig::fake();
    rig.memory().inject(Rule::new(Fault::Refuse));
    rig.client.crd_watcher().known(&pods());
    let error = rig
        .client
        .run_and_wait_with(&rig.stop, SyncOptions::fail_fast())
        .await
        .unwrap_err();
    assert!(
        matches!(&error, SyncError::Blocked { informers } if informers.len() == 1),
        "{error:?}"
    );
    let text = error.to_string();
    assert!(
        text.starts_with(
            "cannot fill the cache: customresourcedefinitions.apiextensions.k8s.io/v1: unreachable: cannot "
        ),
        "{text}"
    );
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn schemas_do_not_stay_in_memory() {
    let rig = Rig::fake();
    let widgets = Widgets::new(&rig.server);
    widgets
        .define_as(|definition| {
            definition["metadata"]["annotations"]["note"] = "x".repeat(1000).into();
            definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "x".repeat(100_000).into();
        })
        .await;
    rig.client.crd_watcher().known(&pods());
    rig.run().await;
    let text = format!("{:?}", rig.client.crd_watcher());
    assert!(text.len() < 1000, "{text}");
    assert_eq!(
        rig.memory()
            .request_count(Verb::List, "customresourcedefinitions.apiextensions.k8s.io"),
        0
    );
    rig.end().await;
}
