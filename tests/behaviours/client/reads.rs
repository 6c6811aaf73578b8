//! What a client reads, and when it has synced: filters, handlers, shared watches.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kclient::handler::{QueueHandlers, object_handler};
use kclient::queue::{Action, Queue};
use kclient::{
    Client, Event, Filter, HandlerOptions, Informer, InformerExt, ObjectKey, Reader, RegisterError, WriterExt,
};
use kube::core::{Expression, Selector};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::{cluster, key, map, maps};
use crate::harness::{Server, cases};

fn labelled(app: &str) -> Selector {
    Selector::from_iter([Expression::Equal("app".to_owned(), app.to_owned())])
}

// [I1] two clients of one kind and filter share a watch; a filtered client sees what its selectors select
async fn filtered_clients_see_what_they_select(server: Server) {
    let (namespace, other) = (server.namespace().await, server.namespace().await);
    for (namespace, name, app) in [(&namespace, "a", "web"), (&namespace, "b", "db"), (&other, "c", "web")] {
        let mut object = map(namespace, name, "1");
        object.metadata.labels = Some([("app".to_owned(), app.to_owned())].into());
        maps(&server).create_object(&object).await.unwrap();
    }
    let (cluster, stop) = (cluster(&server), CancellationToken::new());
    let web = || Filter::default().labels(labelled("web"));
    let here = Client::<ConfigMap>::filtered(&cluster, web().namespace(namespace.name())).unwrap();
    let again = Client::<ConfigMap>::filtered(&cluster, web().namespace(namespace.name())).unwrap();
    let by_name = Client::<ConfigMap>::filtered(
        &cluster,
        Filter::default().fields("metadata.name=b").namespace(namespace.name()),
    )
    .unwrap();
    assert!(
        !here.has_synced() && here.get(&key(&namespace, "a")).is_none(),
        "construction starts nothing"
    );
    cluster.run_and_wait(&stop).await.unwrap();
    assert!(here.has_synced());

    let names = |client: &Client<ConfigMap>| -> Vec<String> {
        client
            .list(None, &Selector::default())
            .iter()
            .filter_map(|map| map.metadata.name.clone())
            .collect()
    };
    assert_eq!(names(&here), ["a"]);
    assert_eq!(names(&by_name), ["b"]);
    let (one, two) = (
        here.get(&key(&namespace, "a")).unwrap(),
        again.get(&key(&namespace, "a")).unwrap(),
    );
    assert!(Arc::ptr_eq(&one, &two), "one cache");
    assert_eq!(here.list(Some("elsewhere"), &Selector::default()).len(), 0);
    assert_eq!(here.list(Some(namespace.name()), &labelled("db")).len(), 0);
    assert_eq!(here.list_unfiltered(None, &labelled("web")).len(), 1);
    assert_eq!(cluster.stats().informers.len(), 2, "two informers for three clients");
    cluster.end().await;
}

// [I7] a client has synced when its handlers have handled the initial state, and never goes back
#[tokio::test(start_paused = true)]
async fn synced_waits_for_handlers_and_never_goes_back() {
    let server = Server::fake();
    let namespace = server.namespace().await;
    maps(&server).create_object(&map(&namespace, "a", "1")).await.unwrap();
    let (cluster, stop) = (cluster(&server), CancellationToken::new());
    let client = Client::<ConfigMap>::filtered(&cluster, Filter::default().namespace(namespace.name())).unwrap();
    let (started, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let slow = || {
        let (started, gate) = (Arc::clone(&started), Arc::clone(&gate));
        move |_: Event<ConfigMap>| {
            let (started, gate) = (Arc::clone(&started), Arc::clone(&gate));
            async move {
                started.notify_one();
                gate.notified().await;
            }
        }
    };
    client.on_event_async("slow", slow());
    cluster.run_and_wait(&stop).await.unwrap();
    started.notified().await;
    assert!(client.has_synced_ignoring_handlers());
    assert!(!client.has_synced(), "its handler is still at work");
    gate.notify_one();
    client.synced().await.unwrap();
    assert!(client.has_synced());

    let late = client.on_event_async("late", slow());
    started.notified().await;
    assert!(
        client.has_synced() && !late.has_synced(),
        "a later handler has a state of its own"
    );

    client.shutdown_handlers();
    assert!(late.is_stopped());
    gate.notify_waiters();
    let foreign = maps(&server);
    assert!(
        foreign.shutdown_handler(&late).is_err(),
        "registered on another client's informer"
    );
    cluster.end().await;
    assert!(client.synced().await.is_ok(), "it has synced once");
}

// [D6] a client removes its own handlers, and not those of others who share the informer
#[tokio::test(start_paused = true)]
async fn handlers_of_another_client_are_not_removed() {
    let cluster = cluster(&Server::fake());
    let (one, other) = (
        Client::<ConfigMap>::new(&cluster).unwrap(),
        Client::<ConfigMap>::new(&cluster).unwrap(),
    );
    let (ours, theirs) = (one.on_event("ours", |_| {}), other.on_event("theirs", |_| {}));
    let error = one.shutdown_handler(&theirs).unwrap_err();
    assert!(matches!(error, RegisterError::ForeignRegistration { .. }));
    assert_eq!(
        error.to_string(),
        "the handler was registered elsewhere than on this one of configmaps/v1"
    );
    assert!(!theirs.is_stopped());
    // A clone is the same client, and a second time is no error.
    for _ in 0..2 {
        one.clone().shutdown_handler(&ours).unwrap();
        assert!(ours.is_stopped() && !theirs.is_stopped());
    }
    cluster.end().await;
}

// A client whose cluster was stopped shows the last state, goes on writing, and says of new handlers that they will hear nothing
#[tokio::test(start_paused = true)]
async fn stopped_client_shows_the_last_state() {
    let server = Server::fake();
    let namespace = server.namespace().await;
    maps(&server).create_object(&map(&namespace, "a", "1")).await.unwrap();
    let cluster = cluster(&server);
    let client = Client::<ConfigMap>::new(&cluster).unwrap();
    let unsynced = Client::<ConfigMap>::filtered(&cluster, Filter::default().labels(labelled("late"))).unwrap();
    let by_name = |map: &ConfigMap| map.metadata.name.clone();
    let before = client.index("name", by_name).unwrap();
    for verb in [fake_apiserver::Verb::List, fake_apiserver::Verb::Watch] {
        let late = fake_apiserver::Fault::Latency(std::time::Duration::from_secs(1000));
        let rule = fake_apiserver::Rule::new(late).resource("configmaps").verb(verb);
        server.in_memory().unwrap().inject(rule);
    }
    cluster.start();
    let waiting = (client.synced(), unsynced.synced());
    cluster.end().await;
    assert_eq!(waiting.0.await, Err(kclient::Stopped));
    assert_eq!(waiting.1.await, Err(kclient::Stopped));

    let a = key(&namespace, "a");
    assert!(client.get(&a).is_none() && before.get("a").is_empty() && !client.has_synced());
    let late = client.on_event("late", |_| panic!("it hears nothing"));
    assert!(late.is_stopped() && !late.has_synced());
    assert_eq!(late.synced().await, Err(kclient::Stopped));
    client.shutdown_handler(&late).unwrap();
    client.shutdown_handlers();
    client.start();
    client.delete_object(&a).await.unwrap();
}

// [H2] on a server: create, update and delete reach the queue's reconciler, which finds the state in the cache
async fn changes_reach_the_reconciler(server: Server) {
    let namespace = server.namespace().await;
    let writer = maps(&server);
    writer.create_object(&map(&namespace, "before", "1")).await.unwrap();
    let (cluster, stop) = (cluster(&server), CancellationToken::new());
    let client = Client::<ConfigMap>::filtered(
        &cluster,
        Filter::default()
            .namespace(namespace.name())
            .fields("metadata.name!=kube-root-ca.crt"),
    )
    .unwrap();
    let (seen, mut reconciled) = mpsc::unbounded_channel();
    let queue = Queue::builder("maps")
        .reconciler({
            let client = client.clone();
            move |key: ObjectKey| {
                let state = client.get(&key).map(|map| super::value(&map).to_owned());
                let _test_is_over = seen.send((key.name().to_owned(), state));
                async { Ok(Action::Done) }
            }
        })
        .build();
    client.add_handler(queue.handler::<ConfigMap>().boxed(), HandlerOptions::named("queue"));
    let (heard, mut objects) = mpsc::unbounded_channel();
    let handler = object_handler(move |map: &Arc<ConfigMap>| {
        let _test_is_over = heard.send(map.metadata.name.clone());
    });
    client.add_handler(Box::new(handler), HandlerOptions::named("closure"));

    cluster.run_and_wait(&stop).await.unwrap();
    client.synced().await.unwrap();
    assert_eq!(queue.len(), 1, "synced means: the queue knows all");
    let running = tokio::spawn({
        let (queue, stop) = (queue.clone(), stop.clone());
        async move { queue.run(&stop).await }
    });
    queue.synced().await.unwrap();
    assert_eq!(
        reconciled.recv().await.unwrap(),
        ("before".to_owned(), Some("1".to_owned()))
    );

    writer.create_object(&map(&namespace, "a", "1")).await.unwrap();
    assert_eq!(reconciled.recv().await.unwrap(), ("a".to_owned(), Some("1".to_owned())));
    writer.update_object(&map(&namespace, "a", "2")).await.unwrap();
    assert_eq!(reconciled.recv().await.unwrap(), ("a".to_owned(), Some("2".to_owned())));
    writer.delete_object(&key(&namespace, "a")).await.unwrap();
    assert_eq!(reconciled.recv().await.unwrap(), ("a".to_owned(), None));
    for name in ["before", "a", "a", "a"] {
        assert_eq!(objects.recv().await.unwrap().as_deref(), Some(name));
    }

    stop.cancel();
    running.await.unwrap().unwrap();
    cluster.end().await;
}

cases!(filtered_clients_see_what_they_select, changes_reach_the_reconciler);
