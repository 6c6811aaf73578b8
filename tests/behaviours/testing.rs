//! One controller, tested three times: with mocks, on the in-memory server, and on a real API server. What is to be seen is how
//! each of the three is done, and what each can show.
//!
//! The mocks show which calls follow from which state. The two servers show that these calls do what they are meant to do: there
//! it is one case, written once.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kclient::handler::QueueHandlers;
use kclient::mock::{MockClient, MockHandlers, refused};
use kclient::queue::{Action, Queue, ReconcileError};
use kclient::testing::{EventTracker, TestWriter};
use kclient::{
    Client, Event, Filter, HandlerOptions, ObjectKey, Operation, Patch, PatchParams, ReadWrite, Stopped, Subresource,
    ignore_not_found,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::client::cluster;
use crate::harness::{Server, cases, limited};

/// The annotation that says how many entries a map has.
const ENTRIES: &str = "counter.example/entries";

/// Keeps the annotation [`ENTRIES`] of every config map right. It takes a trait object, so that it runs on anything.
struct Counter {
    maps: Arc<dyn ReadWrite<ConfigMap>>,
    queue: Queue,
}

impl Counter {
    fn new(maps: Arc<dyn ReadWrite<ConfigMap>>) -> Self {
        let queue = Queue::builder("counter")
            .reconciler({
                let maps = Arc::clone(&maps);
                move |key| count(Arc::clone(&maps), key)
            })
            .build();
        maps.add_handler(queue.handler::<ConfigMap>().boxed(), HandlerOptions::named("counter"));
        Self { maps, queue }
    }

    async fn run(&self, stop: &CancellationToken) -> Result<(), Stopped> {
        self.maps.synced().await?;
        let ran = self.queue.run(stop).await;
        self.maps.shutdown_handlers();
        ran.map_err(|_already_run| Stopped)
    }
}

async fn count(maps: Arc<dyn ReadWrite<ConfigMap>>, key: ObjectKey) -> Result<Action, ReconcileError> {
    let Some(map) = maps.get(&key) else {
        return Ok(Action::Done);
    };
    let entries = map.data.as_ref().map_or(0, std::collections::BTreeMap::len).to_string();
    if annotation(&map) != Some(&entries) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {ENTRIES: entries}}}));
        let written = maps
            .patch(&key, &patch, Subresource::Main, &PatchParams::default())
            .await;
        ignore_not_found(written)?;
    }
    Ok(Action::Done)
}

fn annotation(map: &ConfigMap) -> Option<&String> {
    map.metadata.annotations.as_ref()?.get(ENTRIES)
}

fn map(name: &str, data: &Value) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": data})).unwrap()
}

// [W2] With mocks: a map that needs it is patched, exactly so; a conflict is tried again; one that is right, or gone, is left
// alone.
#[tokio::test(start_paused = true)]
async fn with_mocks() {
    let (mut maps, tracker) = (MockClient::<ConfigMap>::new(), EventTracker::new());
    let mut handlers = MockHandlers::new();
    maps.expect_add_handler().times(1).returning(handlers.accept());
    maps.expect_synced().times(1).returning(|| Box::pin(async { Ok(()) }));
    maps.expect_shutdown_handlers().times(1).return_const(());
    // The cache, and the server: the first write meets a conflict.
    maps.expect_get().returning(|key| match key.name() {
        "new" => Some(Arc::new(map("new", &json!({"a": "1", "b": "2"})))),
        "right" => {
            let mut right = map("right", &json!({}));
            right.metadata.annotations = Some([(ENTRIES.to_owned(), "0".to_owned())].into());
            Some(Arc::new(right))
        }
        _ => None,
    });
    let mut refusals = 1;
    maps.expect_patch().times(2).returning({
        let tracker = tracker.clone();
        move |key, patch, subresource, _| {
            let wanted = json!({"metadata": {"annotations": {ENTRIES: "2"}}});
            assert_eq!((patch, subresource), (&Patch::Merge(wanted), Subresource::Main));
            if refusals > 0 {
                refusals -= 1;
                tracker.record(format!("conflict/{key}"));
                return Err(refused(Operation::Patch, "ConfigMap", key, 409, "Conflict"));
            }
            tracker.record(format!("patch/{key}"));
            Ok(map(key.name(), &json!({})))
        }
    });

    let (counter, stop) = (Arc::new(Counter::new(Arc::new(maps))), CancellationToken::new());
    for name in ["new", "right", "gone"] {
        let object = Arc::new(map(name, &json!({})));
        handlers.tell(Event::Added { object, initial: true }).await;
    }
    let running = tokio::spawn({
        let (counter, stop) = (Arc::clone(&counter), stop.clone());
        async move { counter.run(&stop).await }
    });
    tracker.wait_ordered(["conflict/new", "patch/new"]).await;
    tracker.empty().await;
    let metrics = counter.queue.metrics();
    assert_eq!((metrics.succeeded_total, metrics.errors_total), (3, 1));
    stop.cancel();
    running.await.unwrap().unwrap();
    // What was expected and did not happen would fail here, where the mock is dropped.
}

// [W1] On a server, whichever: maps that were there, that come, that change. The same case is the test on the in-memory server
// and, ignored without one, on a real one.
async fn on_a_server(server: Server) {
    let namespace = server.namespace().await;
    let cluster = cluster(&server);
    let users = TestWriter::<ConfigMap>::new(&cluster).in_namespace(namespace.name());
    users.create(&map("old", &json!({"a": "1"}))).await;

    let filter = || Filter::<ConfigMap>::default().namespace(namespace.name());
    let maps = Client::filtered(&cluster, filter()).unwrap();
    let tracker = EventTracker::new();
    tracker.register(&maps);
    let (counter, stop) = (Counter::new(Arc::new(maps)), CancellationToken::new());
    cluster.sync().await;
    tracker.wait_ordered(["add/old"]).await;
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { counter.run(&stop).await }
    });
    tracker.wait_ordered(["update/old"]).await;
    assert_eq!(annotation(&users.fetch("old").await).unwrap(), "1");
    users.create(&map("new", &json!({"a": "1", "b": "2"}))).await;
    tracker.wait_ordered(["add/new", "update/new"]).await;
    assert_eq!(annotation(&users.fetch("new").await).unwrap(), "2");
    users.merge("new", json!({"data": {"a": null}})).await;
    tracker.wait_ordered(["update/new", "update/new"]).await;
    assert_eq!(annotation(&users.fetch("new").await).unwrap(), "1");
    // No write follows from its own writes: the delete is the next that comes.
    users.delete("new").await;
    users.delete("old").await;
    tracker.wait_ordered(["delete/new", "delete/old"]).await;

    stop.cancel();
    limited("the controller's end", running).await.unwrap().unwrap();
    tracker.empty().await;
    cluster.end().await;
}

cases!(on_a_server);
