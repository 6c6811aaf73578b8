//! Handlers that are dropped half-way, misbehave, or never come to run; threads, resyncs and lag have files of their own.

mod blocking;
mod ends;
mod lag;
mod resync;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use fake_apiserver::FakeApiServer;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::sync::Notify;

use crate::Informer;
use crate::error::Stopped;
use crate::event::Event;
use crate::informer::handler::{
    EventHandler, Handled, HandlerOptions, RunsOn, on_batch, on_batch_async, on_event, on_event_async,
};
use crate::informer::options::InformerOptions;
use crate::testing::TestClient;

/// A client of a server that holds one object, and its informer.
fn rig() -> (TestClient, Informer<ConfigMap>) {
    let server = FakeApiServer::new();
    load(&server, "a");
    let client = TestClient::on(&server);
    let informer = client.informers().typed(InformerOptions::default()).unwrap();
    (client, informer)
}

/// Puts an object into the server.
fn load(server: &FakeApiServer, name: &str) {
    let metadata = json!({"name": name, "namespace": "default"});
    server
        .load(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
        .unwrap();
}

/// Lets the others run, and the clock move, until this holds.
async fn until(mut holds: impl FnMut() -> bool) {
    for _ in 0..100_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("never came true");
}

// [I7] [I23] a call that the stop drops half-way did not handle its events: the handler never becomes synced
#[tokio::test(start_paused = true)]
async fn handler_dropped_by_the_stop_is_not_synced() {
    let (client, informer) = rig();
    let called = Arc::new(Notify::new());
    let calling = Arc::clone(&called);
    let handler = on_event_async(move |_: Event<ConfigMap>| {
        calling.notify_one();
        std::future::pending()
    });
    let registration = informer.add_handler(handler, HandlerOptions::default());
    client.sync().await;
    called.notified().await;
    let (synced, removed) = (registration.synced(), registration.removed());
    client.end().await;
    assert_eq!(synced.await, Err(Stopped));
    assert!(!registration.has_synced());
    removed.await;
}

// [I10] a removed handler finishes the call that runs, and what it handled counts
#[tokio::test(start_paused = true)]
async fn handler_removed_in_a_call_finishes_it() {
    let (client, informer) = rig();
    let (called, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = on_event_async({
        let (called, go_on) = (Arc::clone(&called), Arc::clone(&go_on));
        move |_: Event<ConfigMap>| {
            let (called, go_on) = (Arc::clone(&called), Arc::clone(&go_on));
            async move {
                called.notify_one();
                go_on.notified().await;
            }
        }
    });
    let registration = informer.add_handler(handler, HandlerOptions::default());
    client.sync().await;
    called.notified().await;
    registration.remove();
    assert!(!registration.has_synced());
    go_on.notify_one();
    registration.removed().await;
    assert!(registration.has_synced());
    client.end().await;
}

/// Everything but handling panics: it tells neither its batch size nor where it runs, and its futures cannot be dropped.
struct Hostile;

impl EventHandler<ConfigMap> for Hostile {
    fn handle<'a>(&'a mut self, _: &'a [Event<ConfigMap>]) -> Handled<'a> {
        Handled::Later(Box::pin(Undroppable))
    }

    fn batch_size(&self) -> usize {
        panic!("no size")
    }

    fn runs_on(&self) -> RunsOn {
        panic!("nowhere")
    }
}

struct Undroppable;

impl Future for Undroppable {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

impl Drop for Undroppable {
    fn drop(&mut self) {
        panic!("not to be dropped");
    }
}

// [I39] a panic of any method of a handler, or of the drop of its future, is contained
#[tokio::test(start_paused = true)]
async fn panics_around_a_handler_do_not_end_it() {
    let (client, informer) = rig();
    let registration = informer.add_handler(Hostile, HandlerOptions::default());
    client.sync().await;
    assert_eq!(registration.synced().await, Ok(()));
    let again = informer.add_handler(Hostile, HandlerOptions::default());
    assert_eq!(again.synced().await, Ok(()));
    assert_eq!(informer.stats().handlers.len(), 2);
    assert_eq!(informer.stats().handlers[0].handled, 1);
    client.end().await;
}

/// A metrics recorder that panics when it is told this metric of the handler `doomed`.
#[derive(Debug)]
struct FailingRecorder(&'static str);

impl FailingRecorder {
    fn fails(&self, key: &metrics::Key) -> bool {
        key.name() == self.0 && key.labels().any(|label| label.value() == "doomed")
    }
}

struct Failing;

impl metrics::CounterFn for Failing {
    fn increment(&self, _: u64) {
        panic!("on purpose");
    }

    fn absolute(&self, _: u64) {
        panic!("on purpose");
    }
}

impl metrics::GaugeFn for Failing {
    fn increment(&self, _: f64) {
        panic!("on purpose");
    }

    fn decrement(&self, _: f64) {
        panic!("on purpose");
    }

    fn set(&self, _: f64) {
        panic!("on purpose");
    }
}

impl metrics::Recorder for FailingRecorder {
    fn describe_counter(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}

    fn describe_gauge(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}

    fn describe_histogram(&self, _: metrics::KeyName, _: Option<metrics::Unit>, _: metrics::SharedString) {}

    fn register_counter(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Counter {
        if self.fails(key) {
            metrics::Counter::from_arc(Arc::new(Failing))
        } else {
            metrics::Counter::noop()
        }
    }

    fn register_gauge(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        if self.fails(key) {
            metrics::Gauge::from_arc(Arc::new(Failing))
        } else {
            metrics::Gauge::noop()
        }
    }

    fn register_histogram(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Histogram {
        metrics::Histogram::noop()
    }
}

// [I39] should what is around a handler panic, before or after a call, on a task or a thread: the handler is gone from the list,
// its registration says so, and its neighbours go on
#[tokio::test]
async fn handler_that_cannot_be_called_any_more_is_taken_out() {
    let before = FailingRecorder("watershed_informer_handler_call_started_timestamp_seconds");
    let after = FailingRecorder("watershed_informer_handler_events_total");
    for (recorder, on_thread) in [(&before, false), (&before, true), (&after, false), (&after, true)] {
        let _recorder = metrics::set_default_local_recorder(recorder);
        let server = FakeApiServer::new();
        load(&server, "a");
        let client = TestClient::on(&server);
        let informer: Informer<ConfigMap> = client.informers().typed(InformerOptions::default()).unwrap();
        let captured = Arc::new(());
        let held = Arc::clone(&captured);
        let handler = on_event(move |_: &Event<ConfigMap>| drop(Arc::clone(&held)));
        let options = HandlerOptions::named("doomed");
        let doomed = if on_thread {
            informer.add_handler(crate::BlockingHandler::new(handler), options)
        } else {
            informer.add_handler(handler, options)
        };
        let seen = Arc::new(Mutex::new(0));
        let count = Arc::clone(&seen);
        let neighbour = on_event(move |_: &Event<ConfigMap>| *count.lock().unwrap() += 1);
        informer.add_handler(neighbour, HandlerOptions::named("neighbour"));
        client.sync().await;
        until(|| doomed.is_stopped()).await;
        doomed.removed().await;
        until(|| informer.stats().handlers.len() == 1).await;
        assert_eq!(informer.stats().handlers[0].name, "neighbour");
        until(|| Arc::strong_count(&captured) == 1).await;
        load(&server, "b");
        until(|| *seen.lock().unwrap() == 2).await;
        client.end().await;
    }
}

// Batches hold what has come since the last call, in order, at most a few hundred; sync and async alike.
#[tokio::test(start_paused = true)]
async fn batches_hold_what_has_come_since() {
    let server = FakeApiServer::new();
    for n in 0..600 {
        load(&server, &format!("m{n:03}"));
    }
    let client = TestClient::on(&server);
    let informer: Informer<ConfigMap> = client.informers().typed(InformerOptions::default()).unwrap();
    let batches: Arc<Mutex<[Vec<Vec<String>>; 2]>> = Arc::default();
    let names = |events: &[Event<ConfigMap>]| events.iter().map(|event| event.key().name().to_owned()).collect();
    let (sink, async_sink) = (Arc::clone(&batches), Arc::clone(&batches));
    let handlers = [
        informer.add_handler(
            on_batch(move |events: &[Event<ConfigMap>]| sink.lock().unwrap()[0].push(names(events))),
            HandlerOptions::named("sync"),
        ),
        informer.add_handler(
            on_batch_async(move |events: Vec<Event<ConfigMap>>| {
                async_sink.lock().unwrap()[1].push(names(&events));
                tokio::task::yield_now()
            }),
            HandlerOptions::named("async"),
        ),
    ];
    client.sync().await;
    for handler in &handlers {
        handler.synced().await.unwrap();
    }
    for batches in batches.lock().unwrap().iter() {
        assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [256, 256, 88]);
        let mut names: Vec<&String> = batches.iter().flatten().collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 600);
    }
    client.end().await;
}

// [I10] a handler that is removed before the start is dropped at once, with what it captured
#[tokio::test]
async fn handler_removed_before_the_start_is_dropped() {
    let (_client, informer) = rig();
    let captured = Arc::new(());
    for _ in 0..3 {
        let held = Arc::clone(&captured);
        let handler = on_event(move |_: &Event<ConfigMap>| drop(Arc::clone(&held)));
        informer.add_handler(handler, HandlerOptions::default()).remove();
    }
    assert_eq!(Arc::strong_count(&captured), 1);
}
