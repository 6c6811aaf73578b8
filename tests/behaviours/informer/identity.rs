//! One informer per identity, and when it starts. [I1] [I2] [I3] [I4] [I5] [I28]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fake_apiserver::{Fault, Rule, Verb};
use futures_util::FutureExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::{ApiResource, DynamicObject, Expression, Selector};
use kube_client::{
    HandlerOptions, InformerOptions, RegisterError, SyncError, SyncOptions, Transform, WatchErrorKind, on_event_async,
};
use tokio_util::sync::CancellationToken;

use super::{Rig, cached, create, key, next, update};
use crate::harness::{Server, cases};

fn labelled(value: &str) -> Selector {
    Selector::from(Expression::Equal("app".into(), value.into()))
}

// [I1] however many ask for a kind, there is one list and one watch; another selector is another one
async fn everyone_shares_one_watch_per_identity(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    let first = rig.maps_in(&namespace);
    let second = rig.maps_in(&namespace);
    rig.run().await;
    let third = rig.maps_in(&namespace);
    create(&namespace, "a", "1").await;
    let mut events = third.events(HandlerOptions::default());
    next(&mut events).await;
    for informer in [&first, &second, &third] {
        assert_eq!(cached(informer).len(), 1);
    }
    let stats = rig.client.stats();
    assert_eq!((stats.informers.len(), stats.watches_open()), (1, 1));
    assert_eq!(stats.informers[0].lists, 1);
    assert!(stats.watched_twice.is_empty());

    let other = rig.maps(InformerOptions::default().labels(labelled("web")));
    other.synced().await.unwrap();
    let stats = rig.client.stats();
    assert_eq!(stats.informers.len(), 2);
    assert_eq!(stats.watched_twice, ["configmaps/v1"]);
    drop(events);
    rig.end().await;
}

cases!(everyone_shares_one_watch_per_identity);

// [I1] as the server counts: the streaming list is list and watch in one request
#[tokio::test(start_paused = true)]
async fn server_sees_one_request_per_identity() {
    let rig = Rig::fake();
    let (_one, _two) = (
        rig.maps(InformerOptions::default()),
        rig.maps(InformerOptions::default()),
    );
    rig.run().await;
    let requests = |verb| rig.memory().request_count(verb, "configmaps");
    assert_eq!((requests(Verb::List), requests(Verb::Watch)), (0, 1));
    assert_eq!(rig.memory().open_watches("configmaps"), 1);
    assert_eq!(rig.memory().requests()[0].user_agent, "informer-case");
    let web = || InformerOptions::default().labels(labelled("web"));
    let (other, _same) = (rig.maps(web()), rig.maps(web()));
    other.synced().await.unwrap();
    assert_eq!((requests(Verb::List), requests(Verb::Watch)), (0, 2));
    rig.end().await;
}

// [I2] typed, dynamic and metadata informers are distinct; each is shared
#[tokio::test(start_paused = true)]
async fn representations_are_distinct_and_shared() {
    let rig = Rig::fake();
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    let resource = ApiResource::erase::<ConfigMap>(&());
    let informers = rig.client.informers();
    let typed = rig.maps(InformerOptions::default());
    let dynamic = informers.dynamic(&resource, InformerOptions::default()).unwrap();
    let metadata = informers.metadata(&resource, InformerOptions::default()).unwrap();
    let _again = informers
        .of::<DynamicObject>(&resource, InformerOptions::default())
        .unwrap();
    rig.run().await;
    assert_eq!(rig.client.stats().informers.len(), 3);
    assert_eq!(rig.memory().open_watches("configmaps"), 3);
    let key = key(&namespace, "a");
    assert_eq!(super::value(&typed.get(&key).unwrap()), "1");
    let whole = dynamic.get(&key).unwrap();
    assert_eq!(whole.data["data"]["v"], "1");
    let partial = metadata.get(&key).unwrap();
    assert_eq!(partial.metadata.name.as_deref(), Some("a"));
    for types in [&whole.types, &partial.types] {
        let types = types.as_ref().unwrap();
        assert_eq!((types.kind.as_str(), types.api_version.as_str()), ("ConfigMap", "v1"));
    }
    rig.end().await;
}

// [I3] a second transform is refused with both call sites; the same one is not
#[tokio::test(start_paused = true)]
async fn conflicting_transforms_are_refused_by_name_and_place() {
    fn drop_data(map: &mut ConfigMap) {
        map.data = None;
    }
    let rig = Rig::fake();
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    let informers = rig.client.informers();
    let with = |transform| InformerOptions::default().transform(transform);
    let first = informers.typed(with(Transform::new("drop-data", drop_data))).unwrap();
    informers
        .typed(with(Transform::new("same-function", drop_data)))
        .unwrap();
    let captured = String::from("x");
    let other = Transform::new("other", move |map: &mut ConfigMap| {
        map.metadata.generate_name = Some(captured.clone());
    });
    for (options, second) in [(with(other), Some("other")), (InformerOptions::default(), None)] {
        let error = informers.typed(options).unwrap_err();
        let RegisterError::TransformConflict(conflict) = &error else {
            panic!("{error}")
        };
        assert_eq!(
            (conflict.first.as_deref(), conflict.second.as_deref()),
            (Some("drop-data"), second)
        );
        for place in [conflict.first_at, conflict.second_at] {
            assert!(place.file().ends_with("identity.rs"), "{place}");
        }
        assert_ne!(conflict.first_at.line(), conflict.second_at.line());
        let places = [conflict.first_at.to_string(), conflict.second_at.to_string()];
        let second = second.map_or("no transform".to_owned(), |name| format!("transform {name:?}"));
        for part in [
            "configmaps/v1",
            "transform \"drop-data\"",
            &second,
            &places[0],
            &places[1],
        ] {
            assert!(error.to_string().contains(part), "{part}: {error}");
        }
    }
    rig.run().await;
    assert_eq!(super::value(&first.get(&key(&namespace, "a")).unwrap()), "");
    rig.end().await;
}

// [I4] nothing runs before the start; after it a new informer starts at once
#[tokio::test(start_paused = true)]
async fn informers_start_with_run_and_afterwards_at_once() {
    let rig = Rig::fake();
    let maps = rig.maps(InformerOptions::default());
    let diary = super::Diary::default();
    let registration = diary.register(&maps);
    tokio::time::sleep(std::time::Duration::from_mins(1)).await;
    assert_eq!(rig.client.stats().tasks, 0, "construction starts nothing");
    assert!(rig.memory().requests().is_empty());
    rig.run().await;
    registration.synced().await.unwrap();
    let secrets = rig
        .client
        .informers()
        .typed::<Secret>(InformerOptions::default())
        .unwrap();
    secrets.synced().await.unwrap();
    assert_eq!(rig.memory().open_watches("secrets"), 1);
    rig.end().await;
}

// [I4] one informer can be started alone
#[tokio::test(start_paused = true)]
async fn one_informer_starts_alone() {
    let rig = Rig::fake();
    let maps = rig.maps(InformerOptions::default());
    let secrets = rig
        .client
        .informers()
        .typed::<Secret>(InformerOptions::default())
        .unwrap();
    maps.start();
    maps.synced().await.unwrap();
    assert!(!secrets.has_synced());
    assert_eq!(rig.memory().open_watches_total(), 1);
    rig.end().await;
}

// [I5] Ok means that every store is filled, also of informers that come meanwhile; handlers are not waited for
#[tokio::test(start_paused = true)]
async fn run_and_wait_waits_for_every_store_and_no_handler() {
    let rig = Rig::fake();
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    let maps = rig.maps(InformerOptions::default());
    let never = maps.add_handler(
        on_event_async(|_| std::future::pending::<()>()),
        HandlerOptions::named("never"),
    );
    let late = rig
        .memory()
        .inject(Rule::new(Fault::Latency(std::time::Duration::from_secs(20))).resource("secrets"));
    let client = rig.client.clone();
    let (stop, waiting) = (rig.stop.clone(), Arc::new(AtomicU64::new(0)));
    let done = Arc::clone(&waiting);
    let wait = tokio::spawn(async move {
        let result = client.run_and_wait(&stop).await;
        done.store(1, Ordering::SeqCst);
        result
    });
    let secrets = rig
        .client
        .informers()
        .typed::<Secret>(InformerOptions::default())
        .unwrap();
    late.wait_fired(1).await;
    maps.synced().await.unwrap();
    assert_eq!(waiting.load(Ordering::SeqCst), 0, "the secrets are not there yet");
    wait.await.unwrap().unwrap();
    assert!(maps.has_synced() && secrets.has_synced());
    assert!(!never.has_synced());
    rig.end().await;
}

// [I5] a stop ends the wait
#[tokio::test(start_paused = true)]
async fn run_and_wait_ends_with_the_stop() {
    let rig = Rig::fake();
    rig.memory().inject(Rule::new(Fault::Refuse));
    let _maps = rig.maps(InformerOptions::default());
    let (client, stop) = (rig.client.clone(), rig.stop.clone());
    let wait = tokio::spawn(async move { client.run_and_wait(&stop).await });
    rig.memory().wait_for_requests(Verb::Watch, "configmaps", 3).await;
    assert!(!wait.is_finished());
    rig.stop.cancel();
    assert!(matches!(wait.await.unwrap(), Err(SyncError::Stopped)));
    assert!(rig.client.is_stopped(), "the first token given stops the client");
    assert!(matches!(
        rig.client.run_and_wait(&rig.stop).await,
        Err(SyncError::Stopped)
    ));
    rig.end().await;
}

// [I5] the token of a later call bounds that wait alone
#[tokio::test(start_paused = true)]
async fn second_token_bounds_only_its_wait() {
    let rig = Rig::fake();
    rig.run().await;
    let second = CancellationToken::new();
    second.cancel();
    assert!(matches!(
        rig.client.run_and_wait(&second).await,
        Err(SyncError::Stopped)
    ));
    assert!(!rig.client.is_stopped());
    rig.run().await;
    rig.end().await;
}

// [I5] fail_fast names what blocks and why; the informer goes on and can still succeed
#[tokio::test(start_paused = true)]
async fn fail_fast_names_kind_and_cause() {
    let rig = Rig::fake();
    let maps = rig.maps(InformerOptions::default());
    let _secrets = rig
        .client
        .informers()
        .typed::<Secret>(InformerOptions::default())
        .unwrap();
    let forbid = rig
        .memory()
        .inject(Rule::new(Fault::status(403)).resource("configmaps"));
    let error = rig
        .client
        .run_and_wait_with(&rig.stop, SyncOptions::fail_fast())
        .await
        .unwrap_err();
    let SyncError::Blocked { informers } = &error else {
        panic!("{error}")
    };
    assert_eq!(informers.len(), 1);
    assert_eq!(informers[0].informer.resource, "configmaps/v1");
    assert_eq!(informers[0].error.kind, WatchErrorKind::Forbidden);
    assert!(
        error
            .to_string()
            .starts_with("cannot fill the cache: configmaps/v1: forbidden: cannot list configmaps"),
        "{error}"
    );
    forbid.remove();
    rig.run().await;
    assert!(maps.has_synced());
    rig.end().await;
}

// [I5] caches and handlers can be waited for together, by name
#[tokio::test(start_paused = true)]
async fn wait_for_cache_sync_waits_for_all_or_the_stop() {
    let rig = Rig::fake();
    let maps = rig.maps(InformerOptions::default());
    let slow = maps.add_handler(
        on_event_async(|_| tokio::time::sleep(std::time::Duration::from_secs(12))),
        HandlerOptions::named("slow"),
    );
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    rig.client.start();
    let start = tokio::time::Instant::now();
    let caches = || [("maps", maps.synced().boxed()), ("slow", slow.synced().boxed())];
    rig.client
        .wait_for_cache_sync("case", &rig.stop, caches())
        .await
        .unwrap();
    assert_eq!(start.elapsed().as_secs(), 12);
    let stop = CancellationToken::new();
    stop.cancel();
    let stopped = rig.client.wait_for_cache_sync("case", &stop, caches()).await;
    assert!(matches!(stopped, Err(SyncError::Stopped)));
    slow.remove();
    rig.client.shutdown().await;
    let late = [("late", rig.maps(InformerOptions::default()).synced().boxed())];
    let stopped = rig.client.wait_for_cache_sync("case", &rig.stop, late).await;
    assert!(matches!(stopped, Err(SyncError::Stopped)));
    rig.end().await;
}

// [I28] the object in the cache, in events, in indexes and in other users' reads is the same one
async fn objects_are_shared(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    let (one, two) = (rig.maps_in(&namespace), rig.maps_in(&namespace));
    let index = one
        .add_index(&kube_client::IndexDef::new("v", |map: &ConfigMap| [super::value(map)]))
        .unwrap();
    let mut events = one.events(HandlerOptions::default());
    rig.run().await;
    let key = key(&namespace, "a");
    let initial = next(&mut events).await;
    assert!(Arc::ptr_eq(initial.object(), &one.get(&key).unwrap()));
    update(&rig.server, &namespace, "a", "2").await;
    let changed = next(&mut events).await;
    assert!(Arc::ptr_eq(changed.old().unwrap(), initial.object()));
    let cached = two.get(&key).unwrap();
    assert!(Arc::ptr_eq(changed.object(), &cached));
    assert!(Arc::ptr_eq(&index.get("2")[0], &cached));
    let listed = two.list(Some(namespace.name()), &Selector::default());
    assert!(listed.iter().any(|object| Arc::ptr_eq(object, &cached)));
    drop(events);
    rig.end().await;
}

mod shared {
    use super::*;

    cases!(objects_are_shared);
}
