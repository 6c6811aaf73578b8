//! The CRD watcher without the right to read definitions: discovery alone decides, and the status says so. [I24]

use std::time::Duration;

use fake_apiserver::{Fault, Rule, RuleHandle};
use futures_util::FutureExt;
use kube_client::testing::{assert_eventually, assert_eventually_within};
use kube_client::{CrdOptions, CrdSource, CrdWatcherStats, KindState, SyncOptions, WatchErrorKind};
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

/// Lists and watches of definitions meet this from now on, but not the case's own requests.
fn fail_definitions(rig: &Rig, fault: Fault) -> RuleHandle {
    let rule = Rule::new(fault).resource(RESOURCE).user_agent("informer-case");
    let handle = rig.memory().inject(rule);
    rig.memory().close_watches(RESOURCE);
    handle
}

fn stats(rig: &Rig) -> CrdWatcherStats {
    rig.client.stats().crd_watcher.unwrap()
}

// What was read before the right was lost is out of date, whatever comes next: other failures, and the moment in which the
// definitions can be read again.
#[tokio::test(start_paused = true)]
async fn definitions_read_before_the_right_was_lost_are_not_believed_again() {
    for (later, kind) in [
        (Fault::status(500), WatchErrorKind::Server { code: 500 }),
        (Fault::status(503), WatchErrorKind::Server { code: 503 }),
        (Fault::status(401), WatchErrorKind::Unauthorized),
        (Fault::Refuse, WatchErrorKind::Unreachable),
        (Fault::Latency(Duration::from_mins(10)), WatchErrorKind::NoAnswer),
    ] {
        let rig = Rig::fake();
        let (widgets, stays) = (Widgets::new(&rig.server), Widgets::new(&rig.server));
        widgets.define().await;
        stays.define().await;
        let crds = rig.client.crd_watcher();
        let (mut states, mut of_stays) = (crds.subscribe(&widgets.kind()), crds.subscribe(&stays.kind()));
        rig.run().await;
        assert_eq!(states.next().await, Some(KindState::Known));
        assert_eq!(of_stays.next().await, Some(KindState::Known));
        let forbidden = fail_definitions(&rig, Fault::status(403));
        assert_eventually(
            "discovery decides",
            async || stats(&rig).source,
            |source| *source == CrdSource::Discovery,
        )
        .await;
        widgets.undefine().await;
        assert_eq!(states.next().await, Some(KindState::Unknown));

        forbidden.remove();
        let failing = fail_definitions(&rig, later);
        let told = assert_eventually_within(
            Duration::from_mins(5),
            "the other failure",
            async || stats(&rig).refused.map(|error| error.kind),
            |told| told.as_ref() == Some(&kind),
        )
        .await;
        failing.wait_fired(3).await;
        assert_eq!(stats(&rig).source, CrdSource::Discovery, "{told:?}");
        assert!(!crds.known(&widgets.kind()) && crds.known(&stays.kind()));
        // Discovery goes on meanwhile.
        let new = Widgets::new(&rig.server);
        new.define().await;
        let begin = Instant::now();
        crds.wait_for(&new.kind(), &rig.stop).await.unwrap();
        assert!(begin.elapsed() <= Duration::from_secs(31), "{:?}", begin.elapsed());

        failing.remove();
        assert_eventually_within(
            Duration::from_mins(20),
            "the definitions decide",
            async || stats(&rig),
            |stats| stats.source == CrdSource::Definitions && stats.refused.is_none(),
        )
        .await;
        assert_eq!(stats(&rig).definitions, 2);
        assert!(!crds.known(&widgets.kind()) && crds.known(&stays.kind()) && crds.known(&new.kind()));
        assert_eq!(
            states.next().now_or_never(),
            None,
            "{kind:?}: nothing was told in between"
        );
        assert_eq!(of_stays.next().now_or_never(), None, "{kind:?}: nothing has changed");
        rig.end().await;
    }
}

// [I32] replaced while only discovery could be read, which has listed the kind all the time
#[tokio::test(start_paused = true)]
async fn definition_replaced_while_the_right_was_lost_shows_when_it_is_back() {
    let rig = Rig::fake();
    let widgets = Widgets::new(&rig.server);
    widgets.define().await;
    let crds = rig.client.crd_watcher();
    let mut states = crds.subscribe(&widgets.kind());
    rig.run().await;
    assert_eq!(states.next().await, Some(KindState::Known));
    let forbidden = fail_definitions(&rig, Fault::status(403));
    assert_eventually(
        "discovery decides",
        async || stats(&rig).source,
        |source| *source == CrdSource::Discovery,
    )
    .await;
    widgets.undefine().await;
    widgets.define().await;
    tokio::time::sleep(Duration::from_mins(2)).await; // discovery is asked again and again, on a paused clock
    assert_eq!(states.next().now_or_never(), None, "the same, for all that is known");
    forbidden.remove();
    assert_eq!(states.next().await, Some(KindState::Unknown));
    assert_eq!(states.next().await, Some(KindState::Known));
    assert_eq!(stats(&rig).source, CrdSource::Definitions);
    rig.end().await;
}

// A server without definitions: discovery decides, and the watcher has synced.
#[tokio::test(start_paused = true)]
async fn server_without_definitions_is_asked_by_discovery() {
    for code in [404, 405] {
        let rig = Rig::fake();
        fail_definitions(&rig, Fault::status(code));
        let crds = rig.client.crd_watcher();
        assert!(!crds.known(&pods()));
        let started = rig.client.run_and_wait_with(&rig.stop, SyncOptions::fail_fast());
        limited("the start", started).await.unwrap();
        assert!(crds.has_synced() && crds.known(&pods()), "{code}");
        assert_eq!(stats(&rig).source, CrdSource::Discovery);
        rig.end().await;
    }
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
