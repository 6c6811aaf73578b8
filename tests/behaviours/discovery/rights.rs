//! The CRD watcher without the right to read definitions: discovery alone decides, and the status says so. [I24]

use std::time::Duration;

use fake_apiserver::{Fault, Rule};
use kube_client::{CrdOptions, CrdSource, KindState, SyncOptions, WatchErrorKind};
use tokio::time::Instant;

use super::{Widgets, pods};
use crate::harness::{Server, limited};
use crate::informer::Rig;

const RESOURCE: &str = "customresourcedefinitions.apiextensions.k8s.io";

#[tokio::test(start_paused = true)]
async fn forbidden_definitions_are_replaced_by_discovery_until_they_are_allowed() {
    let server = Server::fake();
    let (widgets, versioned) = (Widgets::new(&server), Widgets::new(&server));
    let options = CrdOptions::default().minimum_version(versioned.name(), "1.0.0");
    let rig = Rig::with(server, |builder| builder.crds(options));
    let forbid = rig.memory().inject(
        Rule::new(Fault::status(403))
            .resource(RESOURCE)
            .user_agent("informer-case"),
    );
    let crds = rig.client.crd_watcher();
    let mut states = crds.subscribe(&widgets.kind());
    // The missing right does not end a start that fails fast: discovery does instead.
    rig.client
        .run_and_wait_with(&rig.stop, SyncOptions::fail_fast())
        .await
        .unwrap();
    assert!(crds.known(&pods()));
    assert_eq!(states.next().await, Some(KindState::Unknown));
    let stats = rig.client.stats().crd_watcher.unwrap();
    assert_eq!((stats.source, stats.has_synced), (CrdSource::Discovery, true));
    let refused = stats.refused.unwrap();
    assert_eq!(refused.kind, WatchErrorKind::Forbidden);
    assert!(refused.to_string().starts_with("forbidden: cannot "), "{refused}");

    widgets.define().await;
    versioned.define().await;
    let begin = Instant::now();
    assert_eq!(states.next().await, Some(KindState::Known));
    assert!(begin.elapsed() <= Duration::from_secs(31), "{:?}", begin.elapsed());
    assert!(!crds.known(&versioned.kind()), "its version cannot be told");
    widgets.undefine().await;
    let begin = Instant::now();
    assert_eq!(states.next().await, Some(KindState::Unknown));
    assert!(begin.elapsed() <= Duration::from_secs(31), "{:?}", begin.elapsed());

    forbid.remove();
    widgets.define().await;
    assert_eq!(states.next().await, Some(KindState::Known));
    tokio::time::sleep(Duration::from_secs(40)).await; // the longest back-off, on a paused clock
    let stats = rig.client.stats().crd_watcher.unwrap();
    assert_eq!(stats.source, CrdSource::Definitions);
    assert!(stats.refused.is_none());
    widgets.undefine().await;
    let begin = Instant::now();
    assert_eq!(states.next().await, Some(KindState::Unknown));
    assert!(
        begin.elapsed() < Duration::from_secs(1),
        "told by the watch: {:?}",
        begin.elapsed()
    );
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn right_that_is_lost_later_changes_nothing_that_is_known() {
    let rig = Rig::fake();
    let widgets = Widgets::new(&rig.server);
    let crds = rig.client.crd_watcher();
    let mut states = crds.subscribe(&widgets.kind());
    rig.run().await;
    assert_eq!(states.next().await, Some(KindState::Unknown));
    widgets.define().await;
    assert_eq!(states.next().await, Some(KindState::Known));
    let forbid = rig.memory().inject(
        Rule::new(Fault::status(403))
            .resource(RESOURCE)
            .user_agent("informer-case"),
    );
    rig.memory().close_watches(RESOURCE);
    forbid.wait_fired(3).await;
    assert_eq!(rig.client.stats().crd_watcher.unwrap().source, CrdSource::Discovery);
    assert!(crds.known(&widgets.kind()));
    widgets.undefine().await;
    assert_eq!(
        states.next().await,
        Some(KindState::Unknown),
        "nothing was told in between"
    );
    rig.end().await;
}

/// The real server alone has rights.
mod real {
    use super::*;

    #[tokio::test]
    #[ignore = "needs the API server rig"]
    async fn user_without_rights_still_learns_which_kinds_there_are() {
        let rig = Rig::new(Server::without_rights().await);
        let crds = rig.client.crd_watcher();
        let absent = Widgets::new(&rig.server).kind();
        crds.known(&pods());
        limited(
            "the start",
            rig.client.run_and_wait_with(&rig.stop, SyncOptions::fail_fast()),
        )
        .await
        .unwrap();
        assert!(crds.known(&pods()) && !crds.known(&absent));
        let stats = rig.client.stats().crd_watcher.unwrap();
        assert_eq!(stats.source, CrdSource::Discovery);
        assert_eq!(stats.refused.unwrap().kind, WatchErrorKind::Forbidden);
        rig.end().await;
    }
}
