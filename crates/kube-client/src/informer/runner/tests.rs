//! Handlers that are dropped half-way, misbehave, or never come to run.

use std::sync::Arc;

use fake_apiserver::FakeApiServer;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::sync::Notify;

use crate::Informer;
use crate::error::Stopped;
use crate::event::Event;
use crate::informer::handler::{EventHandler, Handled, HandlerOptions, on_event, on_event_async};
use crate::informer::options::InformerOptions;
use crate::testing::TestClient;

/// A client of a server that holds one object, and its informer.
fn rig() -> (TestClient, Informer<ConfigMap>) {
    let server = FakeApiServer::new();
    let metadata = json!({"name": "a", "namespace": "default"});
    server
        .load(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
        .unwrap();
    let client = TestClient::on(&server);
    let informer = client.informers().typed(InformerOptions::default()).unwrap();
    (client, informer)
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

/// Its batch size is not to be had.
struct Sizeless;

impl EventHandler<ConfigMap> for Sizeless {
    fn handle<'a>(&'a mut self, _: &'a [Event<ConfigMap>]) -> Handled<'a> {
        Handled::Done
    }

    fn batch_size(&self) -> usize {
        panic!("no size")
    }
}

// [I39] a panic of any method of a handler is contained
#[tokio::test(start_paused = true)]
async fn panicking_batch_size_does_not_end_the_handler() {
    let (client, informer) = rig();
    let registration = informer.add_handler(Sizeless, HandlerOptions::default());
    client.sync().await;
    assert_eq!(registration.synced().await, Ok(()));
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
