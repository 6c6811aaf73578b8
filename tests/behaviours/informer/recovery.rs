//! What breaks and how the cache comes back: expired versions, ended watches, refusals, rights. [I12] [I16] [I17] [I18]
//! [I24]

use std::time::Duration;

use fake_apiserver::{Fault, Rule, StatusFault, Verb};
use kube::core::ApiResource;
use kube_client::testing::EventLog;
use kube_client::{InformerOptions, Phase, WatchErrorKind};
use tokio::time::Instant;

use super::{Diary, Rig, assert_folds_to_the_servers_state, cached, create, delete, update};
use crate::harness::{Namespace, eventually};

/// Waits until the informer has seen everything that the server holds.
async fn caught_up(informer: &kube_client::Informer<k8s_openapi::api::core::v1::ConfigMap>, version: &str) {
    eventually("the last write", || async {
        (informer.last_version().as_deref() == Some(version)).then_some(())
    })
    .await;
}

/// While watches are refused: changes a, deletes b, re-creates c, adds e; d stays.
async fn change_everything(rig: &Rig, namespace: &Namespace) -> String {
    update(&rig.server, namespace, "a", "2").await;
    delete(&rig.server, namespace, "b").await;
    delete(&rig.server, namespace, "c").await;
    create(namespace, "c", "3").await;
    create(namespace, "e", "1").await
}

async fn relist_after(expire: impl FnOnce(&Rig)) {
    let rig = Rig::fake();
    let namespace = rig.server.namespace().await;
    for name in ["a", "b", "c", "d"] {
        create(&namespace, name, "1").await;
    }
    let informer = rig.maps_in(&namespace);
    let diary = Diary::default();
    let registration = diary.register(&informer);
    rig.run().await;
    registration.synced().await.unwrap();
    let kept = informer.get(&super::key(&namespace, "d")).unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    // away: no watch while everything changes
    let away = rig
        .memory()
        .inject(Rule::new(Fault::Refuse).verb(Verb::Watch).resource("configmaps"));
    rig.memory().close_watches("configmaps");
    away.wait_fired(1).await;
    let version = change_everything(&rig, &namespace).await;
    expire(&rig);
    away.remove();
    caught_up(&informer, &version).await;
    let mut told = diary.wait(4 + 5).await.split_off(4);
    // the order across keys is the relist's own business, the order per key is not
    let position = |entries: &[String], entry: &str| entries.iter().position(|told| told == entry).expect("told");
    assert!(
        position(&told, "-c=1?") < position(&told, "+c=3"),
        "[I12] Deleted, then Added: {told:?}"
    );
    told.sort_unstable();
    assert_eq!(
        told,
        ["+c=3", "+e=1", "-b=1?", "-c=1?", "a=1>2"],
        "[I16] nothing about d, deletes are stale"
    );
    assert!(std::sync::Arc::ptr_eq(
        &kept,
        &informer.get(&super::key(&namespace, "d")).unwrap()
    ));
    assert!(rig.errors().iter().any(|error| error.kind == WatchErrorKind::Expired));
    assert_eq!(informer.stats().lists, 2);
    rig.end().await;
}

// [I16] [I12] 410 as the server sends it: an ERROR event on a watch from a compacted version
#[tokio::test(start_paused = true)]
async fn relist_after_an_expired_event_tells_the_difference() {
    relist_after(|rig| rig.memory().compact_now()).await;
}

// [I16] [I12] 410 as an HTTP status, as proxies and old servers send it
#[tokio::test(start_paused = true)]
async fn relist_after_an_expired_status_tells_the_difference() {
    relist_after(|rig| {
        rig.memory().inject(
            Rule::new(Fault::status(410))
                .verb(Verb::Watch)
                .resource("configmaps")
                .times(1),
        );
    })
    .await;
}

// [I16] an unchanged relist says nothing to anyone
#[tokio::test(start_paused = true)]
async fn relist_of_the_same_state_says_nothing() {
    let rig = Rig::fake();
    let namespace = rig.server.namespace().await;
    for n in 0..50 {
        create(&namespace, &format!("m{n}"), "1").await;
    }
    let informer = rig.maps_in(&namespace);
    let diary = Diary::default();
    diary.register(&informer);
    rig.run().await;
    diary.wait(50).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let expired = Rule::new(Fault::WatchError {
        after: 0,
        status: StatusFault::new(410),
    });
    rig.memory()
        .inject(expired.verb(Verb::Watch).resource("configmaps").times(1));
    rig.memory().close_watches("configmaps");
    eventually("a second list", || async {
        (informer.stats().lists == 2).then_some(())
    })
    .await;
    let version = create(&namespace, "last", "1").await;
    caught_up(&informer, &version).await;
    assert_eq!(diary.wait(51).await.len(), 51);
    rig.end().await;
}

// [I17] a watch that ends at once, 1,000 times: paced by the back-off, no relist, nothing lost
#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_are_paced() {
    let rig = Rig::fake();
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    create(&namespace, "b", "1").await;
    let informer = rig.maps_in(&namespace);
    let log = EventLog::new();
    log.register(&informer);
    rig.run().await;
    let start = Instant::now();
    let rule = Rule::new(Fault::EndWatch { after: 0 })
        .verb(Verb::Watch)
        .resource("configmaps")
        .times(1000);
    let rule = rig.memory().inject(rule);
    rig.memory().close_watches("configmaps");
    // Everything changes meanwhile, and is told when a watch lives long enough.
    for fired in [1, 10, 100, 1000] {
        rule.wait_fired(fired).await;
        update(&rig.server, &namespace, "a", &format!("after {fired}")).await;
        create(&namespace, &format!("new-{fired}"), "1").await;
        create(&namespace, "gone", "1").await;
        delete(&rig.server, &namespace, "gone").await;
    }
    delete(&rig.server, &namespace, "b").await;
    create(&namespace, "b", "2").await;
    let elapsed = start.elapsed();
    // 0.8 + 1.6 + … + 25.6 s, then 30 s each, so 990 of them and more; at most half as much again with jitter
    let least = Duration::from_mins(495);
    assert!(elapsed >= least && elapsed <= least.mul_f64(1.6), "{elapsed:?}");
    rig.memory()
        .wait_for_requests(Verb::Watch, "configmaps", 1 + 1000 + 1)
        .await;
    let version = create(&namespace, "last", "1").await;
    caught_up(&informer, &version).await;
    assert_eq!(informer.stats().lists, 1);
    assert_eq!(rig.errors().len(), 0, "a clean end is no failure");
    assert_folds_to_the_servers_state(&rig.server, &namespace.at("configmaps"), &informer, &log).await;
    let told = log.lines(super::value);
    let of = |name: &str| told.iter().filter(|line| line.contains(&format!("/{name}="))).count();
    // Nothing is skipped: the watches went on at the same version.
    assert_eq!((of("a"), of("b"), of("gone")), (1 + 4, 1 + 2, 8), "{told:?}");
    rig.end().await;
}

// [I17] a watch that lived for a while is taken up again at once
#[tokio::test(start_paused = true)]
async fn watch_that_ends_after_a_while_is_resumed_at_once() {
    let rig = Rig::fake();
    let namespace = rig.server.namespace().await;
    let informer = rig.maps_in(&namespace);
    rig.run().await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let start = Instant::now();
    rig.memory().close_watches("configmaps");
    rig.memory().wait_for_requests(Verb::Watch, "configmaps", 2).await;
    assert!(start.elapsed() < Duration::from_millis(5), "{:?}", start.elapsed());
    let version = create(&namespace, "a", "1").await;
    caught_up(&informer, &version).await;
    rig.end().await;
}

// [I18] 429 with Retry-After and a refused connection: the same version, no relist
#[tokio::test(start_paused = true)]
async fn throttled_and_refused_watches_resume_without_a_list() {
    let rig = Rig::fake();
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    let informer = rig.maps_in(&namespace);
    let diary = Diary::default();
    diary.register(&informer);
    rig.run().await;
    diary.wait(1).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let version = informer.last_version().unwrap();
    rig.memory().clear_requests();
    let watches = |fault: Fault| Rule::new(fault).verb(Verb::Watch).resource("configmaps").times(1);
    rig.memory()
        .inject(watches(StatusFault::new(429).retry_after(23).into()));
    rig.memory().inject(watches(Fault::Refuse));
    let start = Instant::now();
    rig.memory().close_watches("configmaps");
    rig.memory().wait_for_requests(Verb::Watch, "configmaps", 2).await;
    assert_eq!(start.elapsed().as_secs(), 23, "as long as the server said");
    rig.memory().wait_for_watches("configmaps", 1).await;
    create(&namespace, "b", "1").await;
    assert_eq!(diary.wait(2).await, ["+a=1!", "+b=1"]);
    for request in rig
        .memory()
        .requests()
        .iter()
        .filter(|request| request.verb == Verb::Watch)
    {
        assert!(
            request.query.contains(&format!("resourceVersion={version}")),
            "{}",
            request.query
        );
    }
    assert_eq!(rig.memory().request_count(Verb::List, "configmaps"), 0);
    let kinds: Vec<WatchErrorKind> = rig.errors().iter().map(|error| error.kind.clone()).collect();
    let retry_after = Some(Duration::from_secs(23));
    assert_eq!(
        kinds,
        [
            WatchErrorKind::TooManyRequests { retry_after },
            WatchErrorKind::Unreachable
        ]
    );
    rig.end().await;
}

// [I24] a denied list and a missing kind show at once, in status and error handler, and heal
#[tokio::test(start_paused = true)]
async fn denied_and_missing_kinds_are_visible_within_a_step() {
    let rig = Rig::fake();
    let namespace = rig.server.namespace().await;
    let forbid = rig
        .memory()
        .inject(Rule::new(Fault::status(403)).resource("configmaps"));
    let maps = rig.maps_in(&namespace);
    let missing = ApiResource {
        group: "example.com".into(),
        version: "v1".into(),
        api_version: "example.com/v1".into(),
        kind: "Widget".into(),
        plural: "widgets".into(),
    };
    let widgets = rig
        .client
        .informers()
        .dynamic(&missing, InformerOptions::default())
        .unwrap();
    let start = Instant::now();
    rig.client.start();
    eventually("both failures", || async { (rig.errors().len() >= 2).then_some(()) }).await;
    assert!(start.elapsed() < Duration::from_millis(800), "{:?}", start.elapsed());
    let error = |stats: kube_client::InformerStats| stats.error.expect("a failure");
    let denied = error(maps.stats());
    assert_eq!(denied.kind, WatchErrorKind::Forbidden);
    assert!(
        denied.to_string().starts_with(&format!(
            "forbidden: cannot list configmaps in namespace {}: ",
            namespace.name()
        )),
        "{denied}"
    );
    let absent = error(widgets.stats());
    assert_eq!(absent.kind, WatchErrorKind::NotFound);
    assert!(
        absent
            .to_string()
            .starts_with("not found: the server does not serve widgets.example.com in version v1"),
        "{absent}"
    );
    assert_eq!(
        (maps.stats().phase, widgets.stats().phase),
        (Phase::Backoff, Phase::Backoff)
    );
    assert_eq!(rig.client.stats().failing().count(), 2);
    forbid.remove();
    maps.synced().await.unwrap();
    assert!(maps.stats().error.is_none());
    assert!(cached(&maps).is_empty());
    assert!(!widgets.has_synced());
    rig.end().await;
}

// [I24] rights that are lost later: the cache stays, the failure shows
#[tokio::test(start_paused = true)]
async fn lost_rights_keep_the_cache_and_show() {
    let rig = Rig::fake();
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    let informer = rig.maps_in(&namespace);
    rig.run().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let forbid = rig
        .memory()
        .inject(Rule::new(Fault::status(403)).resource("configmaps"));
    rig.memory().close_watches("configmaps");
    forbid.wait_fired(3).await;
    eventually("the failure", || async { informer.stats().error }).await;
    assert_eq!(
        informer
            .stats()
            .error
            .unwrap()
            .to_string()
            .split(": ")
            .take(2)
            .collect::<Vec<_>>(),
        [
            "forbidden",
            &format!("cannot watch configmaps in namespace {}", namespace.name())
        ]
    );
    assert_eq!(cached(&informer).len(), 1);
    forbid.remove();
    let version = create(&namespace, "b", "1").await;
    caught_up(&informer, &version).await;
    assert!(informer.stats().error.is_none());
    rig.end().await;
}
