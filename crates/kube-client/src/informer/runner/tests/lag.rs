//! Handlers that stand still while a hundred thousand changes come: nobody else notices, and memory stays bounded.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Weak, mpsc};
use std::task::Waker;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::Client;
use crate::informer::backlog::Batch;
use crate::informer::dispatch::HandlerQueue;
use crate::informer::handler::BlockingHandler;
use crate::informer::runner::Runner;
use crate::sample::{Item, fold};

const KEYS: usize = 100;
const CHANGES: usize = 100_000;

fn line(kind: &str, n: usize, version: usize) -> String {
    let object = format!(
        r#"{{"metadata":{{"name":"i{n}","namespace":"n","uid":"u{n}","resourceVersion":"{version}"}},"value":"{version}"}}"#
    );
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

/// A watch that sends the objects, the end bookmark, and then the changes as fast as they are read.
fn churn() -> impl Iterator<Item = Bytes> {
    let first: String = (0..KEYS).map(|n| line("ADDED", n, n + 1)).collect();
    let end = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"100","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
    let changes = (0..CHANGES / KEYS).map(|round| {
        let change = |n: usize| {
            let (turn, version) = (round * KEYS + n, KEYS + 1 + round * KEYS + n);
            // Every seventh round deletes what the next one creates again.
            match turn / KEYS % 7 {
                2 => line("DELETED", n, version),
                3 => line("ADDED", n, version),
                _ => line("MODIFIED", n, version),
            }
        };
        (0..KEYS).map(change).collect::<String>()
    });
    let lines = [first, format!("{end}\n")].into_iter().chain(changes);
    lines.map(Bytes::from)
}

fn client() -> TestClient {
    let service = tower::service_fn(|_: Request<Body>| async {
        let frames = churn().map(|chunk| Ok::<_, Infallible>(http_body::Frame::data(chunk)));
        let frames =
            futures_util::StreamExt::chain(futures_util::stream::iter(frames), futures_util::stream::pending());
        Ok::<_, Infallible>(Response::new(UnsyncBoxBody::new(StreamBody::new(frames))))
    });
    TestClient::new(Client::new(kube::Client::new(service, "default")).unwrap())
}

// [I9] an async handler that never completes, a blocking one that sleeps, a stream that nobody polls
#[tokio::test(start_paused = true)]
async fn handlers_that_stand_still_slow_nobody_and_hold_little() {
    let client = client();
    let informer: Informer<Item> = client.informers().typed(InformerOptions::default()).unwrap();
    let calls = Arc::new(Mutex::new(0));
    let counter = Arc::clone(&calls);
    informer.add_handler(
        on_event_async(move |_: Event<Item>| {
            *counter.lock().unwrap() += 1;
            std::future::pending::<()>()
        }),
        HandlerOptions::named("never"),
    );
    let (wake, asleep) = mpsc::channel::<()>();
    let (fell_asleep, sleeping) = mpsc::channel();
    informer.add_handler(
        BlockingHandler::new(on_event(move |_: &Event<Item>| {
            let _ = fell_asleep.send(());
            let _ = asleep.recv();
        })),
        HandlerOptions::named("asleep"),
    );
    let unpolled = informer.events(HandlerOptions::named("unpolled"));
    let seen: Arc<Mutex<BTreeMap<_, Arc<Item>>>> = Arc::default();
    let sink = Arc::clone(&seen);
    let healthy = on_batch(move |events: &[Event<Item>]| fold(&mut sink.lock().unwrap(), events));
    informer.add_handler(healthy, HandlerOptions::named("healthy"));

    let start = Instant::now();
    client.sync().await;
    let last = (KEYS + CHANGES).to_string();
    let mut most = 0;
    while informer.last_version().as_deref() != Some(&last) {
        for handler in informer.stats().handlers {
            most = most.max(handler.queue_depth);
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(start.elapsed(), Duration::ZERO, "the watch is read without a pause");
    sleeping.recv().expect("the thread is in its call");
    while seen.lock().unwrap().values().map(|item| item.value.clone()).max() != Some(last.clone()) {
        tokio::task::yield_now().await;
    }
    assert_eq!(*calls.lock().unwrap(), 1);

    // Up to 1,024 changes are kept as they are, the initial state besides; beyond, at most two events per key.
    assert!(most <= 1024 + KEYS + 64, "{most} events waited");
    let stats = informer.stats();
    assert_eq!(stats.events, CHANGES as u64);
    for handler in &stats.handlers {
        let lags = handler.name != "healthy";
        assert!(handler.queue_depth <= if lags { 2 * KEYS } else { 0 }, "{handler:?}");
        let all = handler.handled + handler.queue_depth as u64 + handler.coalesced;
        assert!(handler.coalesced > CHANGES as u64 / 2 || !lags, "{handler:?}");
        // What one call has in hand is neither waiting nor handled: at most a take.
        let total = (KEYS + CHANGES) as u64;
        assert!(
            (total - 256..=total).contains(&all),
            "{handler:?}: an event is lost or counted twice"
        );
    }
    let cached = informer.list(None, &kube::core::Selector::default());
    assert_eq!(cached.len(), seen.lock().unwrap().len());
    for object in cached {
        let key = crate::Object::metadata(&*object).key();
        assert!(Arc::ptr_eq(&seen.lock().unwrap()[&key], &object));
    }
    drop(unpolled);
    drop(wake);
    client.shutdown().await; // first without a limit: the paused clock does not wait for the thread
    client.end().await;
}

// [I34] many small steps are handled in one turn: a task that got one step per turn would fall behind a flood
#[tokio::test(start_paused = true)]
async fn turn_of_a_handler_is_more_than_one_step() {
    let (client, informer) = rig();
    let handled = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&handled);
    let queue = Arc::new(HandlerQueue::new(HandlerOptions::default()));
    let runner = Runner {
        queue: Arc::clone(&queue),
        handler: Box::new(on_event(move |_: &Event<ConfigMap>| {
            counting.fetch_add(1, Ordering::SeqCst);
        })),
        informer: informer.id().clone(),
        resync: None,
        shared: Weak::new(),
    };
    let step = || {
        let object = Arc::new(ConfigMap::default());
        Batch::from(vec![Event::Added { object, initial: false }])
    };
    for _ in 0..100 {
        queue.push(&step(), 0, false).run();
    }
    let mut running = Box::pin(runner.run(CancellationToken::new()));
    let mut cx = Context::from_waker(Waker::noop());
    for after in [64, 100] {
        assert!(running.as_mut().poll(&mut cx).is_pending());
        assert_eq!(handled.load(Ordering::SeqCst), after);
    }
    drop(running);
    client.end().await;
}
