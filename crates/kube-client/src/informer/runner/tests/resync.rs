//! Resyncs: to whom, what, when, and never piled up.

use fake_apiserver::FakeApiServer;
use futures_util::{FutureExt, StreamExt};
use kube::core::Selector;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::informer::handler::BlockingHandler;

const PERIOD: Duration = Duration::from_mins(1);

type Log = Arc<Mutex<Vec<Event<ConfigMap>>>>;

struct Resyncs {
    server: FakeApiServer,
    client: TestClient,
    informer: Informer<ConfigMap>,
}

/// An informer of two objects.
fn two() -> Resyncs {
    let server = FakeApiServer::new();
    load(&server, "a");
    load(&server, "b");
    let client = TestClient::on(&server);
    let informer = client.informers().typed(InformerOptions::default()).unwrap();
    Resyncs {
        server,
        client,
        informer,
    }
}

/// A handler that logs.
fn writes(log: &Log) -> impl EventHandler<ConfigMap> + use<> {
    let log = Arc::clone(log);
    on_event(move |event: &Event<ConfigMap>| log.lock().unwrap().push(event.clone()))
}

impl Resyncs {
    async fn run(&self) {
        self.client.sync().await;
    }
}

/// Takes what was logged; names, with `=` for a resync, `+` for an add and `>` for a change.
fn take(log: &Log) -> Vec<String> {
    let mut texts: Vec<String> = std::mem::take(&mut *log.lock().unwrap())
        .iter()
        .map(|event| {
            let sign = match event {
                _ if event.is_resync() => "=",
                Event::Added { .. } => "+",
                Event::Updated { .. } => ">",
                Event::Deleted { .. } => "-",
            };
            format!("{sign}{}", event.key().name())
        })
        .collect();
    texts.sort_unstable();
    texts
}

// [I11] only to the handler that is due, with the cached object as old and new, and not as an initial event
#[tokio::test(start_paused = true)]
async fn resync_goes_to_the_handler_that_is_due() {
    let rig = two();
    let (minute, hour, never, shortest) = (Log::default(), Log::default(), Log::default(), Log::default());
    let options = |name: &'static str, every| HandlerOptions::named(name).resync_every(every);
    for (log, options) in [
        (&minute, options("minute", PERIOD)),
        (&hour, options("hour", 60 * PERIOD)),
        (&never, options("never", Duration::ZERO)),
        (&shortest, options("shortest", Duration::from_nanos(1))),
    ] {
        rig.informer.add_handler(writes(log), options);
    }
    rig.run().await;
    until(|| never.lock().unwrap().len() == 2).await;
    for log in [&minute, &hour, &never] {
        assert_eq!(take(log), ["+a", "+b"]);
    }
    tokio::time::sleep(PERIOD + Duration::from_millis(1)).await;
    for event in minute.lock().unwrap().iter() {
        let (Some(old), new) = (event.old(), event.object()) else {
            panic!("{event:?}")
        };
        let cached = rig.informer.get(&event.key()).unwrap();
        assert!(Arc::ptr_eq(old, new) && Arc::ptr_eq(new, &cached));
        assert!(event.is_resync() && !event.is_initial());
    }
    assert_eq!(take(&minute), ["=a", "=b"]);
    // The shortest period is a second, whatever is asked for.
    let count = shortest.lock().unwrap().len();
    assert!((120..=124).contains(&count), "{count} events in a minute");
    assert!(hour.lock().unwrap().is_empty() && never.lock().unwrap().is_empty());
    tokio::time::sleep(59 * PERIOD).await;
    assert_eq!(take(&hour), ["=a", "=b"]);
    assert_eq!(minute.lock().unwrap().len(), 118);
    assert!(never.lock().unwrap().is_empty());
    assert_eq!(rig.client.stats().informers[0].lists, 1, "the server is not asked");
    rig.client.end().await;
}

// [I11] a handler on a thread is told by the runtime's clock too
#[tokio::test(start_paused = true)]
async fn resync_reaches_a_handler_on_a_thread() {
    let rig = two();
    let (told, mut telling) = tokio::sync::mpsc::unbounded_channel();
    let handler = BlockingHandler::new(on_event(move |event: &Event<ConfigMap>| {
        let _ = told.send(event.clone()); // the test may have heard enough
    }));
    let options = HandlerOptions::default().resync_every(PERIOD);
    let registration = rig.informer.add_handler(handler, options);
    rig.run().await;
    registration.synced().await.unwrap();
    // The paused clock does not wait for the thread, so how many periods pass is open.
    let mut log = Vec::new();
    while log.len() < 6 {
        log.push(telling.recv().await.unwrap());
    }
    let initial = log.iter().take_while(|event| event.is_initial()).count();
    assert_eq!(initial, 2, "{log:?}");
    assert!(log[initial..].iter().all(Event::is_resync), "{log:?}");
    rig.client.shutdown().await; // first without a limit: the paused clock does not wait for the thread
    rig.client.end().await;
}

// [I11] a handler that lags is told once per key, however many periods passed
#[tokio::test(start_paused = true)]
async fn resyncs_do_not_pile_up() {
    let rig = two();
    let (log, gate) = (Log::default(), Arc::new(Semaphore::new(2)));
    let (sink, permits) = (Arc::clone(&log), Arc::clone(&gate));
    let slow = on_event_async(move |event: Event<ConfigMap>| {
        let (sink, permits) = (Arc::clone(&sink), Arc::clone(&permits));
        async move {
            sink.lock().unwrap().push(event);
            permits.acquire().await.unwrap().forget();
        }
    });
    let registration = rig
        .informer
        .add_handler(slow, HandlerOptions::named("slow").resync_every(PERIOD));
    rig.run().await;
    registration.synced().await.unwrap();
    assert_eq!(take(&log), ["+a", "+b"]);
    // It is stuck in the first event of a resync while ten more periods pass.
    tokio::time::sleep(11 * PERIOD).await;
    assert_eq!(log.lock().unwrap().len(), 1);
    let depth = || rig.informer.stats().handlers[0].queue_depth;
    assert!(depth() <= 1, "{} events wait", depth());
    // What fell due meanwhile comes once, and then a period passes as usual.
    gate.add_permits(100);
    tokio::time::sleep(PERIOD / 2).await;
    assert_eq!(take(&log), ["=a", "=a", "=b", "=b"]);
    tokio::time::sleep(PERIOD).await;
    assert_eq!(take(&log), ["=a", "=b"]);
    rig.client.end().await;
}

// [I11] one that falls due while the handler is at its initial state, or at the resync before, is late, not left out
#[tokio::test(start_paused = true)]
async fn resync_that_falls_due_too_early_comes_late() {
    let server = FakeApiServer::new();
    for n in 0..300 {
        load(&server, &format!("m{n}"));
    }
    let client = TestClient::on(&server);
    let informer: Informer<ConfigMap> = client.informers().typed(InformerOptions::default()).unwrap();
    let told: Arc<Mutex<Vec<(Duration, bool)>>> = Arc::default();
    let (sink, begun) = (Arc::clone(&told), tokio::time::Instant::now());
    // More than are taken at once, and all of them take longer than a period: 90 s.
    let slow = on_event_async(move |event: Event<ConfigMap>| {
        sink.lock().unwrap().push((begun.elapsed(), event.is_resync()));
        tokio::time::sleep(Duration::from_millis(300))
    });
    informer.add_handler(slow, HandlerOptions::named("slow").resync_every(PERIOD));
    client.sync().await;
    tokio::time::sleep(Duration::from_secs(200)).await;
    let told = told.lock().unwrap().clone();
    let at = |n: usize| (told[n].0.as_secs(), told[n].1);
    assert!(!at(299).1);
    assert_eq!(at(300), (90, true), "due after 60 s, when it had not synced");
    assert_eq!(at(599), (179, true));
    assert_eq!(at(600), (180, true), "due after 150 s, when it was at the one before");
    client.end().await;
}

// [I11] not before the initial state was handled
#[tokio::test(start_paused = true)]
async fn no_resync_before_the_handler_has_synced() {
    let rig = two();
    let log = Log::default();
    rig.informer
        .add_handler(writes(&log), HandlerOptions::default().resync_every(PERIOD));
    // The handler's task runs, but the server does not answer for long.
    let slow = fake_apiserver::Fault::Latency(10 * PERIOD + PERIOD / 2);
    let rule = rig.server.inject(fake_apiserver::Rule::new(slow).times(1));
    rig.client.run_and_wait(&CancellationToken::new()).await.unwrap();
    drop(rule);
    until(|| log.lock().unwrap().len() == 4).await;
    // Of those that fell due, one comes late, after the initial state.
    let resyncs: Vec<bool> = log.lock().unwrap().iter().map(Event::is_resync).collect();
    assert_eq!(resyncs, [false, false, true, true]);
    assert_eq!(take(&log), ["+a", "+b", "=a", "=b"]);
    tokio::time::sleep(PERIOD).await;
    assert_eq!(take(&log), ["=a", "=b"]);
    rig.client.end().await;
}

// [I11] in order with changes: what is told again is never older than what was told before
#[tokio::test(start_paused = true)]
async fn resync_keeps_the_order_of_changes() {
    let rig = two();
    let mut events = rig.informer.events(HandlerOptions::default().resync_every(PERIOD));
    rig.run().await;
    let mut told = std::collections::BTreeMap::new();
    for _ in 0..2 {
        let event = events.next().await.unwrap();
        told.insert(event.key(), Arc::clone(event.object()));
    }
    // A stream is told when it is polled, once.
    tokio::time::sleep(5 * PERIOD).await;
    let api: kube::Api<ConfigMap> = kube::Api::namespaced(rig.client.kube().clone(), "default");
    for round in 0..20 {
        let patch = json!({"data": {"round": round.to_string()}});
        let name = if round % 3 == 0 { "a" } else { "b" };
        api.patch(
            name,
            &kube::api::PatchParams::default(),
            &kube::api::Patch::Merge(patch),
        )
        .await
        .unwrap();
        tokio::time::sleep(PERIOD * (round % 4) / 2).await;
        while let Some(event) = events.next().now_or_never() {
            let event = event.unwrap();
            let before = told.insert(event.key(), Arc::clone(event.object()));
            let (Some(old), Some(before)) = (event.old(), before) else {
                panic!("{event:?}")
            };
            assert!(
                Arc::ptr_eq(old, &before),
                "{event:?} does not fit to what was told before"
            );
        }
    }
    for object in rig.informer.list(None, &Selector::default()) {
        assert!(Arc::ptr_eq(&told[&crate::Object::metadata(&*object).key()], &object));
    }
    drop(events);
    rig.client.end().await;
}
