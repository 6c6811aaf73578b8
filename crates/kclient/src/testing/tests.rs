//! The helpers fail when they should, and say why.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube_client::{Event, EventHandler};
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::client::Client;
use crate::traits::{Informer, Reader, Writer};
use crate::write::{Deleted, Patch};
use crate::{ObjectKey, PostParams};

/// The text of the panic that the future ends in.
async fn panic_of<T>(future: impl Future<Output = T>) -> String {
    let Err(panic) = AssertUnwindSafe(future).catch_unwind().await else {
        panic!("it did not fail")
    };
    let fixed = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    fixed
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .expect("a panic with a text")
}

/// The text of the panic, without the place of the caller.
async fn failure<T>(future: impl Future<Output = T>) -> String {
    without_caller(&panic_of(future).await)
}

/// The text without the place of the caller, which has to be in this file.
fn without_caller(text: &str) -> String {
    let (before, rest) = text.split_once("(at ").expect("the caller is named");
    let (caller, after) = rest.split_once(')').expect("the caller is named");
    assert!(caller.contains("testing/tests.rs:"), "{text}");
    format!("{before}@{after}")
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

fn maps(cluster: &TestClient) -> TestWriter<ConfigMap> {
    TestWriter::new(cluster).in_namespace("shop")
}

fn shop() -> TestClient {
    TestClient::with_objects([json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})])
}

fn name(deleted: &Deleted<ConfigMap>) -> &str {
    match deleted {
        Deleted::Object(map) => map.metadata.name.as_deref().unwrap_or_default(),
        Deleted::Status(status) => status.details.as_ref().map_or("", |details| &details.name),
    }
}

#[tokio::test(start_paused = true)]
async fn writer_returns_what_the_server_stored() {
    let cluster = shop();
    let maps = maps(&cluster);
    let created = maps.create(&map("a")).await;
    assert_eq!(created.metadata.namespace.as_deref(), Some("shop"));
    assert!(created.metadata.uid.is_some() && created.metadata.resource_version.is_some());
    let red = maps.merge("a", json!({"data": {"color": "red"}})).await;
    assert_eq!(red.data.as_ref().unwrap()["color"], "red");
    let blue = json!([{"op": "replace", "path": "/data/color", "value": "blue"}]);
    let blue = Patch::Json(serde_json::from_value(blue).unwrap());
    assert_eq!(maps.patch("shop/a", blue).await.data.unwrap()["color"], "blue");
    let edited = maps
        .edit(ObjectKey::namespaced("shop", "a"), |map| map.data = None)
        .await;
    assert_eq!(edited.data, None);
    assert_eq!(
        maps.fetch(&ObjectKey::cluster("a")).await,
        edited,
        "the default namespace"
    );
    let mut new = map("a");
    new.immutable = Some(true);
    assert_eq!(maps.create_or_replace(&new).await.immutable, Some(true));
    assert_eq!(
        maps.create_or_replace(&map("b")).await.metadata.name.as_deref(),
        Some("b")
    );
    let labelled = |mut map: ConfigMap| {
        map.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
        map
    };
    assert!(
        maps.update(&labelled(maps.fetch("b").await))
            .await
            .metadata
            .labels
            .is_some()
    );
    assert_eq!(name(&maps.delete("a").await), "a");
    assert_eq!(name(&maps.delete_now("b").await), "b");
    assert_eq!(cluster.server().objects_of::<ConfigMap>(), 0);
}

#[tokio::test(start_paused = true)]
async fn writer_writes_the_status_and_cluster_scoped_objects() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "shop"},
        "spec": {"containers": [{"name": "main", "image": "app:1"}]}});
    let cluster = TestClient::with_objects([pod]);
    let pods = TestWriter::<Pod>::new(&cluster).in_namespace("shop");
    let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap();
    let mut running = pods.merge_status("a", json!({"status": {"phase": "Running"}})).await;
    assert_eq!(phase(&running), "Running");
    running.status.as_mut().unwrap().phase = Some("Failed".to_owned());
    assert_eq!(phase(&pods.update_status(&running).await), "Failed");
    let done = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    assert_eq!(phase(&pods.patch_status("a", done).await), "Succeeded");

    let namespaces = TestWriter::<Namespace>::new(&cluster);
    let bank = serde_json::from_value(json!({"metadata": {"name": "bank"}})).unwrap();
    namespaces.create(&bank).await;
    assert!(namespaces.clone().fetch("bank").await.metadata.uid.is_some());
}

#[tokio::test(start_paused = true)]
async fn writer_panics_with_the_error_and_the_caller() {
    let cluster = shop();
    let maps = maps(&cluster);
    maps.create(&map("a")).await;
    assert_eq!(
        failure(maps.create(&map("a"))).await,
        "cannot create ConfigMap shop/a: configmaps \"a\" already exists @"
    );
    let missing = "ConfigMap shop/b: configmaps \"b\" not found @";
    assert_eq!(failure(maps.fetch("b")).await, format!("cannot fetch {missing}"));
    assert_eq!(failure(maps.delete("b")).await, format!("cannot delete {missing}"));
    assert_eq!(
        failure(maps.merge("b", json!({}))).await,
        format!("cannot patch {missing}")
    );
    assert_eq!(failure(maps.edit("b", |_| ())).await, format!("cannot fetch {missing}"));
    assert_eq!(
        failure(async { maps.fetch("a/b/c").await }).await,
        "not an object key, expected `name` or `namespace/name`: \"a/b/c\" @"
    );
    assert_eq!(
        failure(TestWriter::<ConfigMap>::new(&cluster).create(&map("a"))).await,
        "cannot create ConfigMap \"a\": the kind lives in namespaces and no namespace was given @"
    );
    // What an error has below it is told too.
    cluster.server().fault_on::<ConfigMap>(Fault::Refuse);
    let text = failure(maps.fetch("a")).await;
    assert!(
        text.starts_with("cannot fetch ConfigMap shop/a: no answer of the server: "),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn writer_is_the_client_below_for_all_else() {
    let cluster = shop();
    let maps = TestWriter::over(Client::<ConfigMap>::new(&cluster).unwrap()).in_namespace("shop");
    cluster.sync().await;
    let key = ObjectKey::namespaced("shop", "a");
    maps.create(&map("a")).await;
    assert_eventually("the map", async || maps.get(&key), Option::is_some).await;
    assert!(maps.has_synced());
    let refused = (*maps).create(&map("b"), &PostParams::default()).await;
    assert!(refused.is_err(), "no default namespace below");
    cluster.end().await;
}

#[tokio::test]
async fn with_objects_says_what_it_does_not_take() {
    let text = panic_of(async { drop(TestClient::with_objects([json!({"apiVersion": "v1", "kind": "Pot"})])) }).await;
    assert_eq!(
        text,
        "the in-memory server does not take what it should hold: no kind \"Pot\" in version \"v1\" is served (a custom kind \
         needs its definition: among the objects to start with, or loaded before)"
    );
    let cluster = shop();
    let again = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let text = panic_of(async { cluster.load(&again) }).await;
    assert!(
        text.starts_with("the in-memory server does not take the object: the object \"shop\" of kind \"Namespace\""),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn tracker_awaits_what_an_informer_tells() {
    let cluster = shop();
    let (client, tracker) = (Client::<ConfigMap>::new(&cluster).unwrap(), EventTracker::new());
    let keys = EventTracker::new().with_namespaces();
    let registration = tracker.register(&client);
    keys.register(client.reader());
    let users = maps(&cluster);
    users.create(&map("a")).await;
    users.create(&map("b")).await;
    cluster.sync().await;
    registration.synced().await.unwrap();
    tracker.wait_unordered(["add/b", "add/a"]).await;
    users.merge("a", json!({"data": {"x": "y"}})).await;
    users.delete("a").await;
    users.create(&map("a")).await;
    tracker.wait_ordered(["update/a", "delete/a", "add/a"]).await;
    tracker.empty().await;
    keys.wait_unordered([
        "add/shop/a",
        "add/shop/a",
        "update/shop/a",
        "delete/shop/a",
        "add/shop/b",
    ])
    .await;
    cluster.end().await;
}

fn tracked(events: &[&str]) -> EventTracker {
    let tracker = EventTracker::new();
    for event in events {
        tracker.record(*event);
    }
    tracker
}

#[tokio::test(start_paused = true)]
async fn ordered_wait_fails_at_the_first_other_event() {
    let tracker = tracked(&["add/a", "delete/a", "add/b"]);
    let text = panic_of(tracker.wait_ordered(["add/a", "update/a", "delete/a"])).await;
    assert_eq!(
        without_caller(&text),
        "wait_ordered @: expected `update/a`, but `delete/a` came; of `add/a`, `update/a`, `delete/a`, all that came: \
         `add/a`, `delete/a`, `add/b`"
    );
    // What was met counts as awaited.
    assert_eq!(tracker.events(), ["add/b"]);
    tracker.wait_ordered(["add/b"]).await;
    let text = panic_of(tracked(&["add/a", "add/b"]).wait_ordered(["add/a"])).await;
    assert_eq!(
        without_caller(&text),
        "wait_ordered @: expected nothing more, but `add/b` came; of `add/a`, all that came: `add/a`, `add/b`"
    );
}

#[tokio::test(start_paused = true)]
async fn unordered_wait_counts_and_fails_at_the_first_other_event() {
    tracked(&["b", "a", "a"]).wait_unordered(["a", "a", "b"]).await;
    let text = panic_of(tracked(&["b", "a", "a"]).wait_unordered(["a", "b", "c"])).await;
    assert_eq!(
        without_caller(&text),
        "wait_unordered @: expected `c`, but `a` came; of `a`, `b`, `c`, all that came: `b`, `a`, `a`"
    );
    let text = panic_of(tracked(&["b", "a"]).wait_unordered(["b"])).await;
    assert_eq!(
        without_caller(&text),
        "wait_unordered @: expected nothing more, but `a` came; of `b`, all that came: `b`, `a`"
    );
}

#[tokio::test(start_paused = true)]
async fn waits_end_when_nothing_comes() {
    let (tracker, begun) = (tracked(&["a"]), Instant::now());
    let text = panic_of(tracker.wait_unordered(["a", "b", "c"])).await;
    assert_eq!(
        without_caller(&text),
        "wait_unordered @: expected `b`, `c`, but nothing came for 30s; of `a`, `b`, `c`, all that came: `a`"
    );
    assert_eq!(begun.elapsed(), Duration::from_secs(30));
    let text = panic_of(EventTracker::new().wait_ordered(["a"])).await;
    assert_eq!(
        without_caller(&text),
        "wait_ordered @: expected `a`, but nothing came for 30s; of `a`, all that came: nothing"
    );
    // What comes late is awaited.
    let late = tokio::spawn({
        let tracker = tracker.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(29)).await;
            tracker.record("late");
        }
    });
    tracker.wait_ordered(["late"]).await;
    late.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn empty_waits_for_tasks_that_run() {
    let tracker = tracked(&["a"]);
    let text = panic_of(tracker.empty()).await;
    assert_eq!(
        without_caller(&text),
        "empty @: expected nothing more, but `a` came; of nothing, all that came: `a`"
    );
    tracker.wait_ordered(["a"]).await;
    let busy = tokio::spawn({
        let tracker = tracker.clone();
        async move {
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
            tracker.record("b");
        }
    });
    let text = panic_of(tracker.empty()).await;
    assert!(text.contains("but `b` came"), "{text}");
    busy.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn tracker_names_every_form_of_event() {
    let tracker = EventTracker::default();
    let mut handler = tracker.handler::<ConfigMap>();
    let object = Arc::new(map("a"));
    let events = [
        Event::Added {
            object: Arc::clone(&object),
            initial: true,
        },
        Event::Updated {
            old: Arc::clone(&object),
            new: Arc::clone(&object),
        },
        Event::Deleted { object, stale: true },
    ];
    let _done = handler.handle(&events);
    tracker.wait_ordered(["add/a", "update/a", "delete/a"]).await;
    assert!(format!("{tracker:?}").contains("awaited: 3"));
}
