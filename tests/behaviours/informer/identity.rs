//! One informer per identity, and when it starts. [I1] [I2] [I3] [I4] [I5] [I28]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fake_apiserver::{Fault, Rule, Verb};
use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kube::core::{ApiResource, DynamicObject, Expression, Selector};
use kube_client::testing::EventLog;
use kube_client::{
    Event, HandlerOptions, Informer, InformerOptions, ListMode, Object, ObjectKey, Phase, RegisterError, SyncError,
    SyncOptions, Transform, WatchErrorKind, on_event_async,
};
use tokio_util::sync::CancellationToken;

use super::bodies::in_namespace;
use super::{Rig, cached, create, delete, key, next, update};
use crate::harness::{Namespace, Server, cases, eventually};

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

cases!(
    everyone_shares_one_watch_per_identity,
    representations_are_distinct_and_shared,
    informers_start_with_run_and_afterwards_at_once,
    one_informer_starts_alone,
    run_and_wait_is_ok_when_every_store_is_filled,
    run_and_wait_ends_with_the_stop,
    second_token_bounds_only_its_wait,
    fail_fast_names_the_kind_that_is_missing,
    objects_are_shared,
);

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

/// Asserts that both show the very same object, and gives it.
#[track_caller]
fn same<K: Object>(both: &[Informer<K>; 2], key: &ObjectKey) -> Arc<K> {
    let [one, other] = both.each_ref().map(|informer| informer.get(key).unwrap());
    assert!(Arc::ptr_eq(&one, &other), "{}: two caches", std::any::type_name::<K>());
    one
}

// [I2] typed, dynamic and metadata informers of one kind are distinct; each is shared by those who ask for it before the start
// and after it: one watch and one cache for each of the three
async fn representations_are_distinct_and_shared(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    let resource = ApiResource::erase::<ConfigMap>(&());
    let informers = rig.client.informers();
    let of_typed = || rig.maps_in(&namespace);
    let of_dynamic = || {
        informers
            .dynamic(&resource, in_namespace(&namespace, ListMode::Auto))
            .unwrap()
    };
    let of_metadata = || {
        informers
            .metadata(&resource, in_namespace(&namespace, ListMode::Auto))
            .unwrap()
    };
    let (typed, dynamic, metadata) = (of_typed(), of_dynamic(), of_metadata());
    let by_type = informers
        .of::<DynamicObject>(&resource, in_namespace(&namespace, ListMode::Auto))
        .unwrap();
    let mut seen = metadata.events(HandlerOptions::default());
    rig.run().await;
    let (typed, dynamic, metadata) = ([typed, of_typed()], [dynamic, of_dynamic()], [metadata, of_metadata()]);
    let key = key(&namespace, "a");
    for round in ["1", "2"] {
        if round == "2" {
            let written = update(&rig.server, &namespace, "a", round).await;
            let written: DynamicObject = serde_json::from_value(written).unwrap();
            let patience = std::time::Duration::from_mins(2);
            typed[1].caught_up(&written, patience).await.unwrap();
            dynamic[1].caught_up(&written, patience).await.unwrap();
            metadata[1].caught_up(&written, patience).await.unwrap();
        }
        assert_eq!(super::value(&same(&typed, &key)), round);
        let whole = same(&dynamic, &key);
        assert_eq!(whole.data["data"]["v"], round);
        assert!(Arc::ptr_eq(&whole, &by_type.get(&key).unwrap()));
        let partial = same(&metadata, &key);
        assert_eq!(partial.metadata.name.as_deref(), Some("a"));
        for types in [&whole.types, &partial.types] {
            let types = types.as_ref().unwrap();
            assert_eq!((types.kind.as_str(), types.api_version.as_str()), ("ConfigMap", "v1"));
        }
        // A handler that one of them registered is told the object that all of them read.
        let told = loop {
            let event = seen.next().await.unwrap();
            if event.key() == key {
                break event;
            }
        };
        assert!(Arc::ptr_eq(told.object(), &partial));
    }
    let stats = rig.client.stats();
    assert_eq!((stats.informers.len(), stats.watches_open()), (3, 3));
    assert!(stats.informers.iter().all(|informer| informer.lists == 1));
    if let Some(fake) = rig.server.in_memory() {
        assert_eq!(fake.request_count(Verb::Watch, "configmaps"), 3);
    }
    drop(seen);
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

/// The secrets of a namespace.
fn secrets_in(rig: &Rig, namespace: &Namespace) -> Informer<Secret> {
    let options = in_namespace(namespace, ListMode::Auto);
    rig.client.informers().typed::<Secret>(options).unwrap()
}

/// The informer of a kind that no server has.
pub(super) fn missing(rig: &Rig) -> Informer<DynamicObject> {
    let resource = ApiResource {
        group: "absent.example.com".into(),
        version: "v1".into(),
        api_version: "absent.example.com/v1".into(),
        kind: "Widget".into(),
        plural: "widgets".into(),
    };
    let informers = rig.client.informers();
    informers.dynamic(&resource, InformerOptions::default()).unwrap()
}

// [I4] nothing runs before the start; after it a new informer starts at once
async fn informers_start_with_run_and_afterwards_at_once(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    let maps = rig.maps_in(&namespace);
    let diary = super::Diary::default();
    let registration = diary.register(&maps);
    if let Some(fake) = rig.server.in_memory() {
        fake.clear_requests();
        tokio::time::sleep(std::time::Duration::from_mins(1)).await;
        assert!(fake.requests().is_empty());
    } else {
        rig.server.get("/api/v1/nodes").await.ok(); // time enough for a request
    }
    let stats = rig.client.stats();
    assert_eq!(stats.tasks, 0, "construction starts nothing");
    assert_eq!((stats.informers[0].phase, stats.informers[0].watches), (Phase::Idle, 0));
    assert!(!maps.has_synced() && diary.entries().is_empty());
    rig.run().await;
    registration.synced().await.unwrap();
    assert_eq!(diary.entries(), ["+a=1!"]);
    let secrets = secrets_in(&rig, &namespace);
    secrets.synced().await.unwrap();
    assert_eq!(rig.client.stats().watches_open(), 2);
    rig.end().await;
}

// [I4] one informer can be started alone
async fn one_informer_starts_alone(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    let maps = rig.maps_in(&namespace);
    let secrets = secrets_in(&rig, &namespace);
    maps.start();
    maps.synced().await.unwrap();
    assert!(!secrets.has_synced());
    assert_eq!(
        (secrets.stats().phase, rig.client.stats().watches_open()),
        (Phase::Idle, 1)
    );
    if let Some(fake) = rig.server.in_memory() {
        assert_eq!(fake.open_watches_total(), 1);
    }
    rig.end().await;
}

// [I5] Ok means that every store is filled, also of what was asked for after an earlier start; a handler that never finishes is
// not waited for
async fn run_and_wait_is_ok_when_every_store_is_filled(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    for n in 0..50 {
        create(&namespace, &format!("m{n}"), "1").await;
    }
    let maps = rig.own_maps_in(&namespace);
    let called = Arc::new(AtomicU64::new(0));
    let calls = Arc::clone(&called);
    let never = maps.add_handler(
        on_event_async(move |_| {
            calls.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<()>()
        }),
        HandlerOptions::named("never"),
    );
    let secrets = secrets_in(&rig, &namespace);
    rig.run().await;
    assert!(maps.has_synced() && secrets.has_synced());
    assert_eq!(cached(&maps).len(), 50);
    let others = rig
        .client
        .informers()
        .typed::<ServiceAccount>(in_namespace(&namespace, ListMode::Auto));
    let others = others.unwrap();
    rig.run().await;
    assert!(others.has_synced());
    eventually("the call", || async {
        (called.load(Ordering::SeqCst) == 1).then_some(())
    })
    .await;
    assert!(!never.has_synced());
    rig.end().await;
}

// [I5] fail_fast names the kind that the server does not have, and not the one beside it
async fn fail_fast_names_the_kind_that_is_missing(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    let maps = rig.maps_in(&namespace);
    let widgets = missing(&rig);
    let waiting = rig.client.run_and_wait_with(&rig.stop, SyncOptions::fail_fast());
    let error = waiting.await.unwrap_err();
    let SyncError::Blocked { informers } = &error else {
        panic!("{error}")
    };
    assert_eq!(informers.len(), 1);
    assert_eq!(informers[0].informer.resource, "widgets.absent.example.com/v1");
    assert_eq!(informers[0].error.kind, WatchErrorKind::NotFound);
    // Both go on, and the one beside it fills.
    maps.synced().await.unwrap();
    assert!(!widgets.is_stopped());
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
async fn run_and_wait_ends_with_the_stop(server: Server) {
    let rig = Rig::new(server);
    let widgets = missing(&rig);
    let (client, stop) = (rig.client.clone(), rig.stop.clone());
    let wait = tokio::spawn(async move { client.run_and_wait(&stop).await });
    eventually("three failures", || async {
        (widgets.stats().failures >= 3).then_some(())
    })
    .await;
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
async fn second_token_bounds_only_its_wait(server: Server) {
    let rig = Rig::new(server);
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
    // Deleted brings the last state as the server tells it with the delete: one object for all handlers.
    let mut others = two.events(HandlerOptions::default());
    assert!(Arc::ptr_eq(next(&mut others).await.object(), &cached));
    delete(&rig.server, &namespace, "a").await;
    let (gone, same) = (next(&mut events).await, next(&mut others).await);
    assert!(matches!(&gone, Event::Deleted { stale: false, .. }), "{gone:?}");
    assert!(Arc::ptr_eq(gone.object(), same.object()));
    assert!(!Arc::ptr_eq(gone.object(), &cached), "it has the version of the delete");
    assert_eq!(super::value(gone.object()), "2");
    drop((events, others));
    rig.end().await;
}

// [I28] of a delete that was not seen itself, the object is the very one that the cache held, for every handler; likewise where
// another object took the name
#[tokio::test(start_paused = true)]
async fn stale_deletes_carry_the_object_that_was_cached() {
    let rig = Rig::fake();
    let namespace = rig.server.namespace().await;
    for name in ["a", "b", "kept"] {
        create(&namespace, name, "1").await;
    }
    let informer = rig.maps_in(&namespace);
    let logs = [EventLog::new(), EventLog::new()];
    for log in &logs {
        log.register(&informer);
    }
    rig.run().await;
    for log in &logs {
        log.wait_for(3).await;
    }
    let object = |name: &str| informer.get(&key(&namespace, name)).unwrap();
    let (a, b, kept) = (object("a"), object("b"), object("kept"));
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let away = Rule::new(Fault::Refuse).verb(Verb::Watch).resource("configmaps");
    let away = rig.memory().inject(away);
    rig.memory().close_watches("configmaps");
    away.wait_fired(1).await;
    delete(&rig.server, &namespace, "a").await;
    delete(&rig.server, &namespace, "b").await;
    create(&namespace, "b", "2").await;
    rig.memory().compact_now();
    away.remove();
    for log in &logs {
        let told = log.wait_for(6).await;
        for (name, cached) in [("a", &a), ("b", &b)] {
            let deleted = told
                .iter()
                .find(|event| matches!(event, Event::Deleted { .. }) && event.key().name() == name);
            let Some(Event::Deleted { object, stale: true }) = deleted else {
                panic!("{told:?}")
            };
            assert!(Arc::ptr_eq(object, cached), "{name}");
        }
        assert!(
            matches!(told.last().unwrap(), Event::Added { initial: false, .. }),
            "{told:?}"
        );
        assert!(Arc::ptr_eq(told.last().unwrap().object(), &object("b")));
    }
    assert!(Arc::ptr_eq(&kept, &object("kept")));
    rig.end().await;
}
