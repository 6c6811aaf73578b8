//! Stop and drop: every task ends, at once, whatever it does. [I23] [I39]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fake_apiserver::{Fault, Rule, StatusFault};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::testing::{TestClient, assert_eventually};
use kube_client::{
    Client, Event, HandlerOptions, Informer, InformerOptions, InitialList, ListMode, Phase, Registration, Transform,
    on_event_async,
};
use tokio::time::Instant;

use super::{Rig, cached, create, update};
use crate::harness::{Server, eventually};

/// What a client is doing when its end comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// The first request was sent, the server has not answered.
    StreamingListUnanswered,
    /// The streaming list's objects came, its end bookmark did not.
    StreamingListWithoutItsEnd,
    /// Between two pages of a list.
    PagesOfAList,
    /// Waiting to try again after a failure.
    BackOff,
    /// Waiting because the server said how long.
    RetryAfter,
    /// Following changes.
    OpenWatch,
    /// A handler waits for something that never comes.
    HandlerWork,
    /// A handler has more to do than it can.
    Backlog,
}

const ALL: [Doing; 8] = [
    Doing::StreamingListUnanswered,
    Doing::StreamingListWithoutItsEnd,
    Doing::PagesOfAList,
    Doing::BackOff,
    Doing::RetryAfter,
    Doing::OpenWatch,
    Doing::HandlerWork,
    Doing::Backlog,
];

/// A started client in that state; what it gives back lives as long as the test.
async fn client_in(doing: Doing) -> (Rig, Informer<ConfigMap>, Registration) {
    let rig = Rig::fake();
    let namespace = rig.server.namespace().await;
    for name in ["a", "b", "c"] {
        create(&namespace, name, "1").await;
    }
    let hour = Fault::Latency(Duration::from_hours(1));
    let on_maps = |fault: Fault| Rule::new(fault).resource("configmaps");
    let mut options = InformerOptions::default();
    let rules: Vec<Rule> = match doing {
        Doing::StreamingListUnanswered => vec![on_maps(hour)],
        Doing::StreamingListWithoutItsEnd => vec![on_maps(Fault::WithholdInitialEventsEnd)],
        Doing::PagesOfAList => {
            options = options
                .list_mode(ListMode::Paged)
                .initial_list(InitialList::Consistent)
                .page_size(1);
            vec![on_maps(hour).page(2)]
        }
        Doing::BackOff => vec![on_maps(Fault::Refuse)],
        Doing::RetryAfter => vec![on_maps(StatusFault::new(429).retry_after(100).into())],
        Doing::OpenWatch | Doing::HandlerWork | Doing::Backlog => Vec::new(),
    };
    let rules: Vec<_> = rules.into_iter().map(|rule| rig.memory().inject(rule)).collect();
    let informer = rig.maps(options);
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let handler = on_event_async(move |_: Event<ConfigMap>| {
        counter.fetch_add(1, Ordering::SeqCst);
        std::future::pending::<()>()
    });
    let registration = informer.add_handler(handler, HandlerOptions::default().coalesce_above(1));
    rig.client.start();
    for rule in rules {
        rule.wait_fired(1).await;
    }
    let phase = match doing {
        Doing::StreamingListUnanswered | Doing::StreamingListWithoutItsEnd => Phase::ListingStream,
        Doing::PagesOfAList => Phase::ListingPages,
        Doing::BackOff | Doing::RetryAfter => Phase::Backoff,
        Doing::OpenWatch | Doing::HandlerWork | Doing::Backlog => Phase::Watching,
    };
    assert_eventually("the phase", async || informer.stats().phase, |now| *now == phase).await;
    if doing == Doing::StreamingListWithoutItsEnd {
        assert_eventually(
            "the open stream",
            async || informer.stats().watches,
            |watches| *watches == 1,
        )
        .await;
    }
    if matches!(doing, Doing::HandlerWork | Doing::Backlog) {
        assert_eventually("the call", async || calls.load(Ordering::SeqCst), |calls| *calls == 1).await;
    }
    if doing == Doing::Backlog {
        for n in 0..10 {
            update(&rig.server, &namespace, "a", &n.to_string()).await;
        }
        let coalesced = async || informer.stats().handlers[0].coalesced;
        assert_eventually("a merged backlog", coalesced, |events| *events > 0).await;
    }
    (rig, informer, registration)
}

// [I23] whatever the client does, its stop ends every task within one turn: no timer is waited for
#[tokio::test(start_paused = true)]
async fn stop_in_every_state_ends_at_once() {
    for doing in ALL {
        let (rig, informer, registration) = client_in(doing).await;
        assert!(rig.client.stats().tasks > 0, "{doing:?}");
        let now = Instant::now();
        rig.client.shutdown().await;
        assert_eq!(now.elapsed(), Duration::ZERO, "{doing:?}");
        assert_eq!(informer.stats().phase, Phase::Stopped, "{doing:?}");
        assert!(registration.is_stopped(), "{doing:?}");
        registration.removed().await;
        rig.end().await;
        assert_eq!(now.elapsed(), Duration::ZERO, "{doing:?}");
    }
}

// [I23] the token given to the start does the same
#[tokio::test(start_paused = true)]
async fn token_of_the_start_ends_at_once() {
    let rig = Rig::fake();
    let informer = rig.maps(InformerOptions::default());
    rig.run().await;
    let now = Instant::now();
    rig.stop.cancel();
    assert_eventually("no tasks", async || rig.client.stats().tasks, |tasks| *tasks == 0).await;
    assert_eq!(
        (now.elapsed(), informer.stats().phase),
        (Duration::ZERO, Phase::Stopped)
    );
    rig.end().await;
}

// [I23] [I39] so does dropping the last client, without a shutdown
#[tokio::test(start_paused = true)]
async fn drop_in_every_state_ends_at_once() {
    for doing in ALL {
        let (rig, informer, registration) = client_in(doing).await;
        assert!(rig.client.stats().tasks > 0, "{doing:?}");
        let now = Instant::now();
        rig.end_by_drop().await;
        assert_eq!(now.elapsed(), Duration::ZERO, "{doing:?}");
        assert_eq!(informer.stats().phase, Phase::Stopped, "{doing:?}");
        assert!(informer.is_stopped() && registration.is_stopped(), "{doing:?}");
    }
}

/// A client of its own on a server, with a handler and an informer that has synced.
async fn running(server: &Server) -> (TestClient, Informer<ConfigMap>, Arc<()>) {
    let client = TestClient::on(server.in_memory().unwrap());
    let informer = client
        .informers()
        .typed::<ConfigMap>(InformerOptions::default())
        .unwrap();
    let token = Arc::new(());
    let held = Arc::clone(&token);
    informer.add_handler(
        kube_client::on_event(move |_: &Event<ConfigMap>| drop(Arc::clone(&held))),
        HandlerOptions::default(),
    );
    client.sync().await;
    (client, informer, token)
}

// [I39] dropping the last client ends every task; what survives shows the last state
#[tokio::test(start_paused = true)]
async fn dropping_the_last_client_ends_everything() {
    let server = Server::fake();
    let namespace = server.namespace().await;
    create(&namespace, "a", "1").await;
    let (client, informer, token) = running(&server).await;
    let first = client.clone(); // of the client itself, not of what guards it
    drop(first);
    assert!(!informer.is_stopped(), "a clone is left");
    update(&server, &namespace, "a", "2").await;
    eventually("the update", || async { (cached(&informer)["a"] == "2").then_some(()) }).await;
    client.drop_and_assert_idle().await;
    assert!(informer.is_stopped());
    eventually("the handler is dropped", || async {
        (Arc::strong_count(&token) == 1).then_some(())
    })
    .await;
    assert_eq!(cached(&informer)["a"], "2");
    assert_eq!(informer.stats().phase, Phase::Stopped);
}

// [I39] a client that was never started leaves nothing either
#[tokio::test(start_paused = true)]
async fn dropping_a_client_that_never_ran_drops_its_handlers() {
    let client = TestClient::fake();
    let informer = client
        .informers()
        .typed::<ConfigMap>(InformerOptions::default())
        .unwrap();
    let token = Arc::new(());
    let held = Arc::clone(&token);
    let registration = informer.add_handler(
        kube_client::on_event(move |_: &Event<ConfigMap>| drop(Arc::clone(&held))),
        HandlerOptions::default(),
    );
    client.drop_and_assert_idle().await;
    assert_eq!(Arc::strong_count(&token), 1);
    assert!(registration.is_stopped());
}

// [I39] a handler that holds its own client is a cycle that shutdown breaks
#[tokio::test(start_paused = true)]
async fn shutdown_ends_a_client_held_by_its_own_handler() {
    let rig = Rig::fake();
    let informer = rig.maps(InformerOptions::default());
    let own = rig.client.clone();
    informer.add_handler(
        kube_client::on_event(move |_: &Event<ConfigMap>| drop(own.clone())),
        HandlerOptions::default(),
    );
    rig.run().await;
    rig.end().await;
}

// [I39] a removed informer stops alone; asking again makes a new one
#[tokio::test(start_paused = true)]
async fn removed_informer_stops_alone() {
    let rig = Rig::fake();
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    let (all, one) = (rig.maps(InformerOptions::default()), rig.maps_in(&namespace));
    rig.run().await;
    rig.client.informers().remove(&one);
    assert!(one.is_stopped() && !all.is_stopped());
    rig.memory().wait_for_watches("configmaps", 1).await;
    assert_eq!(cached(&one).len(), 1);
    let again = rig.maps_in(&namespace);
    again.synced().await.unwrap();
    assert!(one.is_stopped());
    assert_eq!(rig.client.stats().informers.len(), 2);
    rig.end().await;
}

// [I39] a transform that panics, or changes what identifies the object, makes it undecodable; nothing else
#[tokio::test(start_paused = true)]
async fn failing_transform_makes_the_object_undecodable() {
    let rig = Rig::fake();
    let namespace = rig.server.namespace().await;
    for (name, value) in [("good", "1"), ("panics", "1"), ("renames", "1")] {
        create(&namespace, name, value).await;
    }
    let transform = Transform::new("fails", |map: &mut ConfigMap| match map.metadata.name.as_deref() {
        Some("panics") if super::value(map) == "1" => panic!("on purpose"),
        Some("renames") => map.metadata.name = Some("other".into()),
        _ => {}
    });
    let options = InformerOptions::default()
        .namespaces(kube_client::Namespaces::one(namespace.name()))
        .transform(transform);
    let informer = rig.maps(options);
    rig.run().await;
    assert_eq!(cached(&informer).into_keys().collect::<Vec<_>>(), ["good"]);
    let mut undecodable = informer.undecodable();
    undecodable.sort_unstable();
    let texts: Vec<String> = undecodable
        .iter()
        .map(|(key, error)| format!("{}: {error}", key.name()))
        .collect();
    assert_eq!(
        texts,
        [
            "panics: transform \"fails\" panicked",
            "renames: transform \"fails\" changed name, namespace, uid or resourceVersion",
        ]
    );
    update(&rig.server, &namespace, "panics", "2").await;
    eventually("the good version", || async {
        (cached(&informer).len() == 2).then_some(())
    })
    .await;
    assert_eq!(informer.undecodable().len(), 1);
    rig.end().await;
}

// [I23] no runtime, no client: a typed error
#[test]
fn client_outside_of_a_runtime_is_an_error() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let kube = runtime.block_on(async { Server::fake().client() });
    assert!(matches!(Client::new(kube), Err(kube_client::ClientError::NoRuntime)));
}
