//! The helpers fail when they should, and say why.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::informer::handler::{HandlerOptions, on_event};
use crate::informer::options::InformerOptions;
use crate::{Event, Informer};

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

fn maps(client: &TestClient) -> Informer<ConfigMap> {
    client.informers().typed(InformerOptions::default()).unwrap()
}

fn load(server: &FakeApiServer, name: &str) {
    let metadata = json!({"name": name, "namespace": "default"});
    server
        .load(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn assert_eventually_says_what_it_saw_last() {
    let begun = Instant::now();
    let text = panic_of(assert_eventually("a seven", async || 6, |seen| *seen == 7)).await;
    assert!(text.starts_with("a seven: not within 30s (at "), "{text}");
    assert!(text.contains("testing/tests.rs:"), "the caller is named: {text}");
    assert!(text.ends_with("; last seen: 6"), "{text}");
    assert_eq!(begun.elapsed().as_secs(), 30);
    let patience = Duration::from_hours(1);
    let sum = async || begun.elapsed().as_secs();
    assert_eventually_within(patience, "half an hour", sum, |seconds| *seconds >= 1_800).await;
}

// What needs no time takes none.
#[tokio::test(start_paused = true)]
async fn assert_eventually_lets_others_run_before_time_passes() {
    let begun = Instant::now();
    let client = TestClient::fake();
    load(client.server(), "a");
    let maps = maps(&client);
    client.start();
    assert_eventually("the map", async || maps.len(), |len| *len == 1).await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
    client.end().await;
}

#[tokio::test(start_paused = true)]
async fn client_dropped_while_it_runs_fails_the_test() {
    let text = panic_of(async {
        let client = TestClient::fake();
        let _maps = maps(&client);
        client.sync().await;
    })
    .await;
    assert!(text.contains("dropped without `end` while it runs"), "{text}");
    assert!(text.contains("configmaps/v1 is watching with 1 watches"), "{text}");
    drop(TestClient::fake()); // nothing ever ran
}

#[tokio::test(start_paused = true)]
async fn end_names_what_is_left() {
    let client = TestClient::fake();
    let maps = maps(&client);
    client.sync().await;
    // Another client of this server is what is left.
    let other = TestClient::on(client.server());
    let _others = other
        .informers()
        .typed::<ConfigMap>(InformerOptions::default())
        .unwrap();
    other.sync().await;
    let text = panic_of(client.end()).await;
    assert_eq!(text, "1 watches stay open at the server");
    assert!(maps.is_stopped());
    other.end().await;
}

#[tokio::test(start_paused = true)]
async fn drop_and_assert_idle_notices_a_clone() {
    let client = TestClient::fake();
    let maps = maps(&client);
    client.sync().await;
    let clone = (*client).clone();
    let text = panic_of(client.drop_and_assert_idle()).await;
    assert_eq!(text, "a clone of the client is left, so it goes on");
    let client = TestClient::new(clone);
    client.drop_and_assert_idle().await;
    assert!(maps.is_stopped());
}

#[tokio::test(start_paused = true)]
async fn sync_says_what_does_not_fill() {
    let client = TestClient::fake();
    client.server().fault_on::<ConfigMap>(Fault::status(403));
    let _maps = maps(&client);
    let text = panic_of(client.sync()).await;
    assert!(
        text.starts_with("the caches do not fill within 30s: configmaps/v1 is waiting to retry"),
        "{text}"
    );
    assert!(
        text.contains("last failure: forbidden: cannot list configmaps"),
        "{text}"
    );
    client.end().await;
}

#[tokio::test(start_paused = true)]
async fn event_log_shows_and_folds_what_came() {
    let client = TestClient::fake();
    load(client.server(), "a");
    let maps = maps(&client);
    let (log, late) = (EventLog::new(), EventLog::new());
    let registration = log.register(&maps);
    client.sync().await;
    registration.synced().await.unwrap();
    load(client.server(), "b");
    assert_eq!(log.wait_for(2).await.len(), 2);
    assert_eq!(log.lines(|_| "x".to_owned()), ["+default/a=x!", "+default/b=x"]);
    late.register(&maps).synced().await.unwrap();
    assert_eq!(late.folded(), log.folded());
    assert_eq!(late.take().len(), 2);
    assert!(late.events().is_empty());
    let text = panic_of(late.wait_for(1)).await;
    assert_eq!(text, "1 events: not within 30s; 0 came: []");
    client.end().await;
}

#[tokio::test]
async fn event_log_refuses_histories_that_do_not_fit() {
    let first = item("a", "u", 1);
    let second = item("a", "u", 2);
    let added = |object: &std::sync::Arc<Item>| Event::Added {
        object: object.clone(),
        initial: false,
    };
    let updated = |old: &std::sync::Arc<Item>| Event::Updated {
        old: old.clone(),
        new: second.clone(),
    };
    let deleted = Event::Deleted {
        object: first.clone(),
        stale: false,
    };
    for (events, complaint) in [
        (vec![added(&first), added(&second)], "n/a is added twice"),
        (vec![updated(&first)], "n/a is updated and was not there"),
        (
            vec![added(&first), updated(&second)],
            "n/a is updated from another object than the last one",
        ),
        (vec![deleted], "n/a is deleted and was not there"),
    ] {
        let log = EventLog::new();
        let mut handler = log.handler();
        let _done = crate::EventHandler::handle(&mut handler, &events);
        assert_eq!(panic_of(async { log.folded() }).await, complaint);
    }
}

#[tokio::test(start_paused = true)]
async fn server_answers_by_type() {
    let client = TestClient::fake();
    load(client.server(), "a");
    let maps = maps(&client);
    let handler = on_event(|_: &Event<ConfigMap>| {});
    maps.add_handler(handler, HandlerOptions::default());
    client.sync().await;
    let server = client.server();
    assert_eq!(
        (server.watches_of::<ConfigMap>(), server.objects_of::<ConfigMap>()),
        (1, 1)
    );
    assert_eq!(
        (
            server.requests_of::<ConfigMap>(Verb::Watch),
            server.requests_of::<ConfigMap>(Verb::List)
        ),
        (1, 0)
    );
    assert_eq!(server.watches_of::<k8s_openapi::api::apps::v1::Deployment>(), 0);
    client.end().await;
}

// [W1] what was loaded can be deleted again, and is seen; what is not there is told
#[tokio::test(start_paused = true)]
async fn delete_is_the_counterpart_of_load() {
    let client = TestClient::fake();
    let metadata = json!({"name": "a", "namespace": "shop", "finalizers": ["example.com/never"]});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    client.load(&map);
    let key = "shop/a".parse().unwrap();
    let maps = maps(&client);
    let log = EventLog::new();
    log.register(&maps);
    client.sync().await;
    client.delete::<ConfigMap>(&key);
    assert_eq!(client.server().objects_of::<ConfigMap>(), 0);
    let events = log.wait_for(2).await;
    assert_eq!(format!("{:?}", events[1]), "Deleted(shop/a, stale: false)");
    let text = panic_of(async { client.delete::<ConfigMap>(&key) }).await;
    assert_eq!(text, "the in-memory server has no configmaps shop/a to delete");
    client.load(&map); // nothing is left of the first one
    assert_eq!(log.wait_for(3).await[2].key(), key);
    assert_eq!(client.server().requests_of::<ConfigMap>(Verb::Delete), 0);
    client.end().await;
}
