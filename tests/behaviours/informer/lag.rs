//! Handlers that stand still or are told everything again, and lists amid writes. [I9] [I11] [I27]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::{Expression, Selector};
use kube_client::{
    BlockingHandler, Event, HandlerOptions, InformerOptions, Namespaces, on_batch_async, on_event, on_event_async,
};
use serde_json::json;

use super::{Diary, Rig, cached, create, delete, key, next, update, value};
use crate::harness::{Server, cases, eventually};

// [I9] handlers of each form that stand still: the others, the cache and the watch go on
async fn handlers_that_stand_still_stop_nobody(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "0").await;
    let informer = rig.maps_in(&namespace);
    let calls = Arc::new(AtomicUsize::new(0));
    let (one, two) = (Arc::clone(&calls), Arc::clone(&calls));
    let never = on_event_async(move |_: Event<ConfigMap>| {
        one.fetch_add(1, Ordering::SeqCst);
        std::future::pending::<()>()
    });
    let never_batch = on_batch_async(move |_: Vec<Event<ConfigMap>>| {
        two.fetch_add(1, Ordering::SeqCst);
        std::future::pending::<()>()
    });
    let (wake, asleep) = mpsc::channel::<()>();
    let sleeps = BlockingHandler::new(on_event(move |_: &Event<ConfigMap>| {
        let _ = asleep.recv(); // until the test ends
    }));
    let few = |name| HandlerOptions::named(name).coalesce_above(8);
    let stuck = [
        informer.add_handler(never, few("never")),
        informer.add_handler(never_batch, few("never-batch")),
        informer.add_handler(sleeps, few("sleeps")),
    ];
    let unpolled = informer.events(few("unpolled"));
    let diary = Diary::default();
    let neighbour = diary.register(&informer);
    rig.run().await;
    neighbour.synced().await.unwrap();
    for round in 1..=50 {
        update(&rig.server, &namespace, "a", &round.to_string()).await;
        create(&namespace, "b", &round.to_string()).await;
        delete(&rig.server, &namespace, "b").await;
    }
    let entries = diary.wait(1 + 3 * 50).await;
    assert_eq!(entries.len(), 1 + 3 * 50, "every change, once");
    eventually("the last change", || async {
        (cached(&informer) == BTreeMap::from([("a".to_owned(), "50".to_owned())])).then_some(())
    })
    .await;
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert!(stuck.iter().all(|registration| !registration.has_synced()));
    for handler in informer.stats().handlers {
        // Three objects at most, the server's own included: two events each.
        assert!(handler.queue_depth <= 6, "{handler:?}");
        assert_eq!(handler.coalesced > 100, handler.name != "diary", "{handler:?}");
    }
    drop((wake, unpolled));
    rig.client.shutdown().await; // first without a limit: a paused clock does not wait for the thread
    rig.end().await;
}

// [I11] a resync tells the handler that wants it everything again; a neighbour notices nothing
async fn resync_tells_everything_again(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    let informer = rig.maps_in(&namespace);
    let diary = Diary::default();
    diary.register(&informer);
    rig.run().await;
    let mut events = informer.events(HandlerOptions::named("resync").resync_every(Duration::from_secs(1)));
    assert!(next(&mut events).await.is_initial());
    for expected in ["1", "2"] {
        let again = loop {
            let event = next(&mut events).await;
            if event.is_resync() {
                break event;
            }
            assert_eq!(
                value(event.object()),
                expected,
                "the change comes before it is told again"
            );
        };
        assert!(!again.is_initial());
        assert!(Arc::ptr_eq(again.old().unwrap(), again.object()));
        assert_eq!(value(again.object()), expected);
        if expected == "1" {
            update(&rig.server, &namespace, "a", "2").await;
            diary.wait(2).await;
        }
    }
    assert_eq!(diary.entries(), ["+a=1!", "a=1>2"]);
    assert_eq!(informer.stats().lists, 1);
    drop(events);
    rig.end().await;
}

cases!(handlers_that_stand_still_stop_nobody, resync_tells_everything_again);

// [I27] by namespace and selector, while several write: each object of a list fits the question, and at rest it equals a
// filtered scan
async fn lists_amid_writes_equal_a_filtered_scan(server: Server) {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let rig = Rig::new(server);
    let namespaces = [rig.server.namespace().await, rig.server.namespace().await];
    let all = rig.maps(InformerOptions::default());
    let names: Vec<String> = namespaces.iter().map(|namespace| namespace.name().to_owned()).collect();
    let both = rig.maps(InformerOptions::default().namespaces(Namespaces::many(&names)));
    rig.run().await;

    let done = Arc::new(AtomicBool::new(false));
    let selects = |value: &str| Selector::from(Expression::Equal("app".into(), value.into()));
    let readers: Vec<_> = [all.clone(), both.clone()]
        .into_iter()
        .map(|informer| {
            let (done, names) = (Arc::clone(&done), names.clone());
            tokio::task::spawn_blocking(move || {
                let mut lists = 0;
                while !done.load(Ordering::SeqCst) {
                    for namespace in &names {
                        for app in ["x", "y"] {
                            for map in informer.list(Some(namespace), &selects(app)) {
                                assert_eq!(map.metadata.namespace.as_ref(), Some(namespace));
                                let labels = map.metadata.labels.as_ref().unwrap();
                                assert_eq!(labels["app"], app);
                                // Label and value are written together: neither is seen without the other.
                                assert!(value(&map).starts_with(app), "half of a write");
                            }
                        }
                    }
                    lists += 1;
                    std::thread::yield_now(); // the server may need the processor as well
                }
                lists
            })
        })
        .collect();
    let random = Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)));
    let writers = namespaces.iter().map(|namespace| {
        let (random, server) = (Arc::clone(&random), rig.server.clone());
        async move {
            let rounds = if server.in_memory().is_some() { 200 } else { 60 };
            for round in 0..rounds {
                let (name, app, act) = {
                    let mut random = random.lock().unwrap();
                    let app = if random.bool() { "x" } else { "y" };
                    (format!("m{}", random.u8(0..10)), app, random.u8(0..4))
                };
                let body = json!({
                    "metadata": {"name": name, "labels": {"app": app}},
                    "data": {"v": format!("{app}{round}")},
                });
                let at = namespace.at(&format!("configmaps/{name}"));
                // Whether the object is there decides whether it works.
                if act == 0 {
                    server.delete(&at).await;
                } else if server.merge(&at, &body).await.code == 404 {
                    namespace.create("configmaps", &body).await;
                }
            }
            create(namespace, "last", "1").await;
        }
    });
    futures_util::future::join_all(writers).await;
    for informer in [&all, &both] {
        for namespace in &namespaces {
            eventually("the last write", || async { informer.get(&key(namespace, "last")) }).await;
        }
    }
    done.store(true, Ordering::SeqCst);
    for reader in readers {
        assert!(reader.await.unwrap() > 0);
    }
    let scan = all.list(None, &Selector::default());
    for namespace in &names {
        for selector in [Selector::default(), selects("x"), selects("y")] {
            let fits = |map: &&Arc<ConfigMap>| {
                let empty = BTreeMap::new();
                map.metadata.namespace.as_ref() == Some(namespace)
                    && kube::core::SelectorExt::matches(&selector, map.metadata.labels.as_ref().unwrap_or(&empty))
            };
            let texts = |maps: &mut dyn Iterator<Item = &Arc<ConfigMap>>| {
                let mut texts: Vec<String> = maps
                    .map(|map| format!("{} {}", map.metadata.name.as_deref().unwrap_or_default(), value(map)))
                    .collect();
                texts.sort_unstable();
                texts
            };
            let expected = texts(&mut scan.iter().filter(fits));
            for informer in [&all, &both] {
                assert_eq!(texts(&mut informer.list(Some(namespace), &selector).iter()), expected);
            }
        }
    }
    rig.end().await;
}

mod threaded {
    use super::lists_amid_writes_equal_a_filtered_scan;
    use crate::harness::threaded_cases;

    threaded_cases!(lists_amid_writes_equal_a_filtered_scan);
}
