//! Stop and drop: every task ends, at once, whatever it does. [I23] [I39]

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use fake_apiserver::{Fault, Rule, StatusFault};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::testing::{TestClient, assert_eventually, assert_no_watches};
use kube_client::{
    BlockingHandler, Client, Event, EventHandler, HandlerOptions, Informer, InformerOptions, InitialList, ListMode,
    Phase, Registration, SyncError, Transform, on_event, on_event_async,
};
use tokio::time::Instant;

use super::bodies::in_namespace;
use super::{Rig, cached, create, update};
use crate::harness::{Namespace, Server, cases, eventually, limited};

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

/// What a handler on a thread of its own is doing when the end comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnThread {
    /// It waits for events.
    Idle,
    /// It is in a call that blocks until it is let go.
    InACall,
}

const THREADS: [OnThread; 2] = [OnThread::Idle, OnThread::InACall];

/// What a thread of the test holds of a blocking handler.
struct Gate {
    /// Gets a message from each call, and ends with the handler.
    calls: mpsc::Receiver<()>,
    /// Lets one call go.
    go_on: mpsc::Sender<()>,
}

impl Gate {
    /// A handler that reports each call and blocks until it is let go, or the test is over.
    fn new() -> (Self, impl EventHandler<ConfigMap> + use<>) {
        let ((called, calls), (go_on, gate)) = (mpsc::channel(), mpsc::channel());
        let block = on_event(move |_: &Event<ConfigMap>| {
            let _ = called.send(());
            let _ = gate.recv();
        });
        (Self { calls, go_on }, BlockingHandler::new(block))
    }

    /// Waits for a call, or for the end of the handler: then false. The paused clock stands still meanwhile.
    async fn called(self) -> (Self, bool) {
        let waiting = tokio::task::spawn_blocking(move || {
            let called = self.calls.recv().is_ok();
            (self, called)
        });
        waiting.await.unwrap()
    }
}

/// A started client with a handler on a thread, in that state, and the gate of the handler.
async fn client_with_thread(doing: OnThread, server: Server) -> (Rig, Informer<ConfigMap>, Registration, Gate) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    for name in ["a", "b"] {
        create(&namespace, name, "1").await;
    }
    let informer = rig.own_maps_in(&namespace);
    let (mut gate, handler) = Gate::new();
    let registration = informer.add_handler(handler, HandlerOptions::named("blocking"));
    rig.run().await;
    (gate, _) = gate.called().await;
    if doing == OnThread::Idle {
        gate.go_on.send(()).unwrap();
        (gate, _) = gate.called().await;
        gate.go_on.send(()).unwrap();
        registration.synced().await.unwrap();
    }
    (rig, informer, registration, gate)
}

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

// [I23] a handler on a thread: one that waits ends at once, and a call that blocks is waited for and is the last; no timer is
// waited for
async fn stop_ends_handlers_on_threads_with_their_call(server: Server) {
    for doing in THREADS {
        let (rig, informer, registration, gate) = client_with_thread(doing, server.clone()).await;
        let now = Instant::now();
        let mut shutdown = std::pin::pin!(rig.client.shutdown());
        let polled = futures_util::poll!(shutdown.as_mut());
        assert_eq!(informer.stats().phase, Phase::Stopped, "{doing:?}");
        assert!(registration.is_stopped(), "{doing:?}");
        if doing == OnThread::InACall {
            assert!(polled.is_pending(), "the call has not ended");
            gate.go_on.send(()).unwrap();
        }
        if rig.server.in_memory().is_some() {
            shutdown.await; // without a limit of ours, which would be the one timer that the paused clock could go to
            assert_eq!(now.elapsed(), Duration::ZERO, "{doing:?}");
        } else {
            limited("the shutdown", shutdown).await;
        }
        registration.removed().await;
        let (_gate, called) = gate.called().await;
        assert!(!called, "{doing:?}: another call began");
        rig.end().await;
    }
}

// [I23] [I39] dropping the last client ends the threads too, and does not wait for a call that blocks
async fn drop_ends_handlers_on_threads_with_their_call(server: Server) {
    for doing in THREADS {
        let (rig, informer, registration, gate) = client_with_thread(doing, server.clone()).await;
        let ended = Cell::new(false);
        let dropping = async {
            rig.end_by_drop().await;
            ended.set(true);
        };
        let letting_go = async {
            eventually("the stop", || async { registration.is_stopped().then_some(()) }).await;
            assert!(informer.is_stopped(), "{doing:?}");
            if doing == OnThread::InACall {
                assert!(!ended.get(), "the call has not ended");
                gate.go_on.send(()).unwrap();
            }
            let (_gate, called) = gate.called().await;
            assert!(!called, "{doing:?}: another call began");
        };
        tokio::join!(dropping, letting_go);
    }
}

// [I23] the token given to the start ends everything at once: while a watch is open, a handler is at work, and a kind that is
// not there is waited for
async fn token_of_the_start_ends_at_once(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    let informer = rig.own_maps_in(&namespace);
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let registration = informer.add_handler(
        on_event_async(move |_: Event<ConfigMap>| {
            counter.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<()>()
        }),
        HandlerOptions::default(),
    );
    let missing = super::identity::missing(&rig);
    let (client, stop) = (rig.client.clone(), rig.stop.clone());
    let starting = tokio::spawn(async move { client.run_and_wait(&stop).await });
    informer.synced().await.unwrap();
    let phase = async || missing.stats().phase;
    assert_eventually("the back-off", phase, |phase| *phase == Phase::Backoff).await;
    assert_eventually("the call", async || calls.load(Ordering::SeqCst), |calls| *calls == 1).await;
    assert_eq!(informer.stats().phase, Phase::Watching);
    let now = Instant::now();
    rig.stop.cancel();
    assert_eventually("no tasks", async || rig.client.stats().tasks, |tasks| *tasks == 0).await;
    if rig.server.in_memory().is_some() {
        assert_eq!(now.elapsed(), Duration::ZERO);
    }
    assert!(matches!(starting.await.unwrap(), Err(SyncError::Stopped)));
    for phase in [informer.stats().phase, missing.stats().phase] {
        assert_eq!(phase, Phase::Stopped);
    }
    assert!(registration.is_stopped() && !registration.has_synced());
    rig.end().await;
}

cases!(
    stop_ends_handlers_on_threads_with_their_call,
    token_of_the_start_ends_at_once,
    dropping_the_last_client_ends_everything,
    removed_informer_stops_alone,
    failing_transform_makes_the_object_undecodable,
);

mod threaded {
    use super::drop_ends_handlers_on_threads_with_their_call;
    use crate::harness::threaded_cases;

    threaded_cases!(drop_ends_handlers_on_threads_with_their_call);
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
async fn running(server: &Server, namespace: &Namespace) -> (TestClient, Informer<ConfigMap>, Arc<()>) {
    let client = TestClient::new(Client::new(server.client()).unwrap());
    let informer = client
        .informers()
        .typed::<ConfigMap>(in_namespace(namespace, ListMode::Auto))
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
async fn dropping_the_last_client_ends_everything(server: Server) {
    let namespace = server.namespace().await;
    create(&namespace, "a", "1").await;
    let (client, informer, token) = running(&server, &namespace).await;
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
    if let Some(fake) = server.in_memory() {
        assert_no_watches(fake).await;
    }
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

// [I39] dropping every handle of an informer ends nothing; a removed informer stops alone; asking again makes a new one
async fn removed_informer_stops_alone(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    let (all, one) = (rig.own_maps_in(&namespace), rig.maps_in(&namespace));
    let diary = super::Diary::default();
    diary.register(&one);
    rig.run().await;
    drop(one);
    create(&namespace, "b", "1").await;
    assert_eq!(diary.wait(2).await.last().unwrap(), "+b=1", "its list and watch go on");
    let one = rig.maps_in(&namespace);
    assert!(one.has_synced(), "the same one, as it is by now");
    assert_eq!((one.stats().lists, rig.client.stats().watches_open()), (1, 2));
    rig.client.informers().remove(&one);
    assert!(one.is_stopped() && !all.is_stopped());
    let open = async || rig.client.stats().watches_open();
    assert_eventually("one watch", open, |open| *open == 1).await;
    if let Some(fake) = rig.server.in_memory() {
        fake.wait_for_watches("configmaps", 1).await;
    }
    assert_eq!(cached(&one).len(), 2);
    let again = rig.maps_in(&namespace);
    again.synced().await.unwrap();
    assert!(one.is_stopped());
    assert_eq!(rig.client.stats().informers.len(), 2);
    rig.end().await;
}

// [I39] a transform that panics, or changes what identifies the object, makes it undecodable; nothing else
async fn failing_transform_makes_the_object_undecodable(server: Server) {
    let rig = Rig::new(server);
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
