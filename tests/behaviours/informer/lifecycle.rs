//! Stop and drop: every task ends, at once, whatever it does. [I23] [I39]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fake_apiserver::{Fault, Rule, Verb};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Client, Event, HandlerOptions, Informer, InformerOptions, Phase, Transform, on_event_async};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Rig, cached, create, update};
use crate::harness::{Server, eventually};

/// Stops, and asserts that everything ends without the clock moving.
async fn ends_at_once(rig: Rig) {
    assert!(rig.client.stats().tasks > 0);
    let now = Instant::now();
    rig.stop.cancel();
    rig.client.shutdown().await;
    assert_eq!(now.elapsed(), Duration::ZERO, "the end does not wait for a timer");
    for stats in rig.client.stats().informers {
        assert_eq!(stats.phase, Phase::Stopped);
    }
    rig.end().await;
}

/// An informer that has been started with the rig's stop token.
fn started(rig: &Rig) -> Informer<ConfigMap> {
    let informer = rig.maps(InformerOptions::default());
    let (client, stop) = (rig.client.clone(), rig.stop.clone());
    tokio::spawn(async move { client.run_and_wait(&stop).await });
    informer
}

// [I23] during a back-off
#[tokio::test(start_paused = true)]
async fn stop_during_back_off_ends_at_once() {
    let rig = Rig::fake();
    let refuse = rig.memory().inject(Rule::new(Fault::Refuse));
    let informer = started(&rig);
    refuse.wait_fired(4).await;
    eventually("the back-off", || async {
        (informer.stats().phase == Phase::Backoff).then_some(())
    })
    .await;
    ends_at_once(rig).await;
}

// [I23] during a list of either form
#[tokio::test(start_paused = true)]
async fn stop_during_a_list_ends_at_once() {
    for verb in [Verb::Watch, Verb::List] {
        let rig = Rig::fake();
        if verb == Verb::List {
            rig.memory().inject(Rule::new(Fault::status(422)).verb(Verb::Watch));
        }
        let slow = rig
            .memory()
            .inject(Rule::new(Fault::Latency(Duration::from_secs(3600))).verb(verb));
        let informer = started(&rig);
        slow.wait_fired(1).await;
        assert!(!informer.has_synced());
        ends_at_once(rig).await;
    }
}

// [I23] during an open watch and during a handler's work
#[tokio::test(start_paused = true)]
async fn stop_during_watch_and_handler_work_ends_at_once() {
    let rig = Rig::fake();
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    let informer = started(&rig);
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let registration = informer.add_handler(
        on_event_async(move |_: Event<ConfigMap>| {
            counter.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<()>()
        }),
        HandlerOptions::default(),
    );
    informer.synced().await.unwrap();
    eventually("the call", || async {
        (calls.load(Ordering::SeqCst) == 1).then_some(())
    })
    .await;
    assert_eq!(rig.client.stats().watches_open(), 1);
    ends_at_once(rig).await;
    assert!(registration.is_stopped());
    registration.removed().await;
}

/// A client of its own on a server, with a handler and an informer that has synced.
async fn running(server: &Server) -> (Client, Informer<ConfigMap>, Arc<()>) {
    let client = Client::new(server.client()).unwrap();
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
    client.run_and_wait(&CancellationToken::new()).await.unwrap();
    (client, informer, token)
}

// [I39] dropping the last client ends every task; what survives shows the last state
#[tokio::test(start_paused = true)]
async fn dropping_the_last_client_ends_everything() {
    let server = Server::fake();
    let namespace = server.namespace().await;
    create(&namespace, "a", "1").await;
    let (client, informer, token) = running(&server).await;
    let clone = client.clone();
    drop(client);
    assert!(!informer.is_stopped(), "a clone is left");
    update(&server, &namespace, "a", "2").await;
    eventually("the update", || async { (cached(&informer)["a"] == "2").then_some(()) }).await;
    drop(clone);
    assert!(informer.is_stopped());
    server.in_memory().unwrap().wait_for_no_watches().await;
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
    let server = Server::fake();
    let client = Client::new(server.client()).unwrap();
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
    drop(client);
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
