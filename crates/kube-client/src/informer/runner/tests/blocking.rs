//! Handlers on threads of their own: where they run, what a stop means for a call that blocks, and that they end.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::ThreadId;

use futures_util::FutureExt;

use tokio_util::sync::CancellationToken;

use super::*;
use crate::informer::handler::BlockingHandler;

/// A handler that reports each call and blocks until it is told to go on, or nobody is left to tell it.
struct Gate {
    calls: Arc<AtomicUsize>,
    go_on: mpsc::Sender<()>,
}

fn gated(handled: &Arc<AtomicBool>) -> (Gate, impl EventHandler<ConfigMap> + use<>) {
    let (go_on, gate) = mpsc::channel();
    let calls = Arc::new(AtomicUsize::new(0));
    let (counter, handled) = (Arc::clone(&calls), Arc::clone(handled));
    let block = on_event(move |_: &Event<ConfigMap>| {
        counter.fetch_add(1, Ordering::SeqCst);
        let _ = gate.recv();
        handled.store(true, Ordering::SeqCst);
    });
    (Gate { calls, go_on }, BlockingHandler::new(block))
}

// A thread of its own, on which the runtime can be used and even be waited for
#[tokio::test]
async fn blocking_handler_runs_on_its_own_thread() {
    let (client, informer) = rig();
    let ran: Arc<Mutex<Option<(ThreadId, String)>>> = Arc::default();
    let sink = Arc::clone(&ran);
    let handler = on_event(move |_: &Event<ConfigMap>| {
        let waited = tokio::runtime::Handle::current().block_on(async { tokio::spawn(async { 7 }).await.unwrap() });
        let thread = std::thread::current();
        *sink.lock().unwrap() = Some((thread.id(), format!("{} {waited}", thread.name().unwrap())));
    });
    let registration = informer.add_handler(BlockingHandler::new(handler), HandlerOptions::named("disk"));
    client.sync().await;
    registration.synced().await.unwrap();
    let (id, text) = ran.lock().unwrap().take().unwrap();
    assert_ne!(id, std::thread::current().id());
    assert_eq!(text, "disk 7");
    client.end().await;
}

// [I9] [I23] a call that blocks delays no neighbour; the shutdown waits for it and begins no other
#[tokio::test]
async fn shutdown_waits_for_the_blocking_call_that_runs() {
    let server = FakeApiServer::new();
    load(&server, "a");
    load(&server, "b");
    let client = TestClient::on(&server);
    let informer: Informer<ConfigMap> = client.informers().typed(InformerOptions::default()).unwrap();
    let handled = Arc::new(AtomicBool::new(false));
    let (gate, handler) = gated(&handled);
    let blocked = informer.add_handler(handler, HandlerOptions::named("blocked"));
    let neighbour = informer.add_handler(on_event(|_: &Event<ConfigMap>| ()), HandlerOptions::named("neighbour"));
    client.sync().await;
    neighbour.synced().await.unwrap();
    until(|| gate.calls.load(Ordering::SeqCst) == 1).await;
    assert!(!blocked.has_synced());

    let removed = blocked.removed();
    let mut shutdown = std::pin::pin!(client.shutdown());
    assert!(shutdown.as_mut().now_or_never().is_none());
    until(|| client.stats().tasks == 1).await; // all that can end has ended: the thread is left
    let mut removed = std::pin::pin!(removed);
    assert!(removed.as_mut().now_or_never().is_none(), "the call is still running");
    assert!(blocked.is_stopped());
    gate.go_on.send(()).unwrap();
    shutdown.await;
    removed.await;
    assert!(handled.load(Ordering::SeqCst), "the call ran to its end");
    assert_eq!(gate.calls.load(Ordering::SeqCst), 1, "no other begins");
    assert_eq!(client.stats().tasks, 0);
    assert_eq!(blocked.synced().await, Err(Stopped));
}

// [I10] removed in a call, from another thread: the call ends, the thread too, and the handler is dropped
#[tokio::test]
async fn removed_blocking_handler_ends_its_thread() {
    let (client, informer) = rig();
    let handled = Arc::new(AtomicBool::new(false));
    let (gate, handler) = gated(&handled);
    let registration = informer.add_handler(handler, HandlerOptions::default());
    // One that is removed before the start never gets a thread.
    let never = informer.add_handler(
        BlockingHandler::new(on_event(|_: &Event<ConfigMap>| unreachable!("removed before"))),
        HandlerOptions::default(),
    );
    never.remove();
    client.sync().await;
    until(|| gate.calls.load(Ordering::SeqCst) == 1).await;
    let tasks = client.stats().tasks;
    registration.remove();
    gate.go_on.send(()).unwrap();
    registration.removed().await;
    assert!(
        registration.has_synced(),
        "what the last call was given counts as handled"
    );
    until(|| client.stats().tasks == tasks - 1).await;
    until(|| gate.go_on.send(()).is_err()).await; // the handler is dropped
    client.end().await;
}

// [I39] dropping the last client waits for nobody; the thread ends with its call
#[tokio::test]
async fn dropping_the_client_does_not_wait_for_a_blocking_call() {
    let server = FakeApiServer::new();
    load(&server, "a");
    let client = crate::Client::new(kube::Client::new(server.service(), "default")).unwrap(); // to be dropped as it runs
    let informer = client.informers().typed(InformerOptions::default()).unwrap();
    let handled = Arc::new(AtomicBool::new(false));
    let (gate, handler) = gated(&handled);
    let registration = informer.add_handler(handler, HandlerOptions::default());
    client.run_and_wait(&CancellationToken::new()).await.unwrap();
    until(|| gate.calls.load(Ordering::SeqCst) == 1).await;
    drop(client);
    assert!(registration.is_stopped() && !handled.load(Ordering::SeqCst));
    gate.go_on.send(()).unwrap();
    registration.removed().await;
    assert!(handled.load(Ordering::SeqCst));
    until(|| gate.go_on.send(()).is_err()).await;
}

// [I8] panics and futures on a thread: contained, awaited
#[tokio::test]
async fn blocking_handler_contains_panics_and_awaits_futures() {
    let (client, informer) = rig();
    let panics = informer.add_handler(
        BlockingHandler::new(on_event(|_: &Event<ConfigMap>| panic!("on purpose"))),
        HandlerOptions::named("panics"),
    );
    let awaits = informer.add_handler(
        BlockingHandler::new(on_event_async(|_: Event<ConfigMap>| {
            tokio::time::sleep(Duration::from_millis(1))
        })),
        HandlerOptions::named("awaits"),
    );
    let hostile = informer.add_handler(BlockingHandler::new(Hostile), HandlerOptions::named("hostile"));
    client.sync().await;
    for registration in [&panics, &awaits, &hostile] {
        registration.synced().await.unwrap();
    }
    let stats = informer.stats().handlers;
    assert_eq!(
        stats.iter().map(|handler| handler.panics).collect::<Vec<_>>(),
        [1, 0, 0]
    );
    client.end().await;
}

// [I10] registering and removing inside of a blocking handler
#[tokio::test]
async fn blocking_handler_may_register_and_remove() {
    let (client, informer) = rig();
    let nested: Arc<Mutex<Option<crate::Registration>>> = Arc::default();
    let (slot, inner) = (Arc::clone(&nested), informer.clone());
    let own: Arc<Mutex<Option<crate::Registration>>> = Arc::default();
    let me = Arc::clone(&own);
    let handler = on_event(move |_: &Event<ConfigMap>| {
        let count = BlockingHandler::new(on_event(|_: &Event<ConfigMap>| ()));
        *slot.lock().unwrap() = Some(inner.add_handler(count, HandlerOptions::named("nested")));
        if let Some(own) = me.lock().unwrap().take() {
            own.remove();
        }
    });
    let registration = informer.add_handler(BlockingHandler::new(handler), HandlerOptions::default());
    *own.lock().unwrap() = Some(registration.clone());
    client.sync().await;
    registration.removed().await;
    let nested = nested.lock().unwrap().take().unwrap();
    nested.synced().await.unwrap();
    client.end().await;
}
