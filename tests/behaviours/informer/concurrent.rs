//! Handlers and indexes that come while several clients write at once, on several threads. The writers' own records are the
//! judge. [I6] [I25]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::{DynamicObject, Selector};
use kube_client::testing::{EventLog, assert_eventually};
use kube_client::{Event, HandlerOptions, IndexDef, Informer, Registration, on_event};
use serde_json::{Value, json};

use super::{Rig, key, value};
use crate::harness::{Namespace, Server, threaded_cases, version};

const WRITERS: usize = 8;

/// The versions that each object has had, in order; the last one is that of its deletion if `gone`.
#[derive(Debug, Clone, Default)]
struct Past {
    versions: Vec<u64>,
    gone: bool,
}

/// Every write so far, by name.
type Record = Arc<Mutex<BTreeMap<String, Past>>>;

/// Creates objects of its own, changes every second one and deletes every third.
async fn write(
    server: Server,
    namespace: Namespace,
    writer: usize,
    objects: usize,
    record: Record,
    done: Arc<AtomicUsize>,
) {
    let note = |name: &str, written: &Value, gone: bool| {
        let mut record = record.lock().unwrap();
        let past = record.entry(name.to_owned()).or_default();
        past.versions.push(version(written));
        past.gone = gone;
    };
    for n in 0..objects {
        let name = format!("w{writer}-{n}");
        let object = json!({"metadata": {"name": name}, "data": {"v": "1"}});
        note(&name, &namespace.create("configmaps", &object).await, false);
        if n % 2 == 0 {
            let changed = super::update(&server, &namespace, &name, "2").await;
            note(&name, &changed, false);
        }
        if n % 3 == 0 {
            let path = namespace.at(&format!("configmaps/{name}"));
            let deleted = server.delete(&path).await.ok();
            // The answer tells the last version, not that of the delete.
            assert_eq!(deleted["status"], "Success");
            record.lock().unwrap().get_mut(&name).unwrap().gone = true;
        }
        done.fetch_add(1, Ordering::SeqCst);
    }
}

/// Asserts that a handler was told every object exactly once as Added, and every later change of it exactly once; one that was
/// there from the begin, every object from its first version on.
fn told_everything_once(told: &[Event<ConfigMap>], record: &BTreeMap<String, Past>, who: &str, from_the_begin: bool) {
    let mut by_name: BTreeMap<String, Vec<&Event<ConfigMap>>> = BTreeMap::new();
    for event in told {
        by_name.entry(event.key().name().to_owned()).or_default().push(event);
    }
    let number = |map: &ConfigMap| map.metadata.resource_version.as_ref().unwrap().parse::<u64>().unwrap();
    for (name, past) in record {
        let events = by_name.remove(name).unwrap_or_default();
        let Some((first, rest)) = events.split_first() else {
            assert!(past.gone && !from_the_begin, "{who}: never told of {name}");
            continue;
        };
        let Event::Added { object, .. } = first else {
            panic!("{who}: {first:?} comes first")
        };
        let mut versions = vec![number(object)];
        let mut gone = false;
        for event in rest {
            assert!(!gone, "{who}: {event:?} after the end");
            match event {
                Event::Updated { old, new } => {
                    assert_eq!(number(old), *versions.last().unwrap(), "{who}: {event:?}");
                    versions.push(number(new));
                }
                Event::Deleted { stale: false, .. } => gone = true,
                other => panic!("{who}: {other:?} after it was added"),
            }
        }
        assert!(
            !from_the_begin || versions[0] == past.versions[0],
            "{who}: {first:?} is late"
        );
        let from = past.versions.iter().position(|version| *version == versions[0]);
        let from = from.unwrap_or_else(|| panic!("{who}: {name} never was at {}", versions[0]));
        assert_eq!(versions, past.versions[from..], "{who}: {name}");
        assert_eq!(gone, past.gone, "{who}: {name}");
    }
    assert!(by_name.is_empty(), "{who}: {by_name:?}");
}

// [I6] registered before the start, after the sync, and from other threads amid 1,000 creates by eight clients at once: each
// sees every object exactly once as Added, and every later change exactly once
async fn handlers_amid_concurrent_creates_see_everything_once(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    let informer = rig.own_maps_in(&namespace);
    let register = |informer: &Informer<ConfigMap>| {
        let log = EventLog::new();
        // Nothing is merged: every change is to be told.
        let options = HandlerOptions::named("log").coalesce_above(usize::MAX);
        let registration = informer.add_handler(log.handler(), options);
        (log, registration)
    };
    let mut logs: Vec<(String, EventLog<ConfigMap>, Registration)> = Vec::new();
    let (log, registration) = register(&informer);
    logs.push(("before the start".to_owned(), log, registration));
    rig.run().await;
    let (log, registration) = register(&informer);
    logs.push(("after the sync".to_owned(), log, registration));

    let (record, done) = (Record::default(), Arc::new(AtomicUsize::new(0)));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (server, namespace) = (rig.server.clone(), namespace.clone());
            let (record, done) = (Arc::clone(&record), Arc::clone(&done));
            tokio::spawn(write(server, namespace, writer, 1_000 / WRITERS, record, done))
        })
        .collect();
    for amid in 1..=20 {
        let progress = async || done.load(Ordering::SeqCst);
        assert_eventually("the writers", progress, |done| *done >= amid * 45).await;
        let own = informer.clone();
        let registering = std::thread::spawn(move || register(&own));
        let (log, registration) = tokio::task::spawn_blocking(|| registering.join().unwrap())
            .await
            .unwrap();
        logs.push((format!("amid the creates, {amid}"), log, registration));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let last = namespace
        .create("configmaps", &json!({"metadata": {"name": "last"}}))
        .await;
    let record = {
        let mut record = record.lock().unwrap();
        let versions = vec![version(&last)];
        record.insert("last".to_owned(), Past { versions, gone: false });
        record.clone()
    };
    assert_eq!(record.len(), 1_001);
    for (at, (who, log, registration)) in logs.iter().enumerate() {
        registration.synced().await.unwrap();
        let told = async || log.events().last().map(|event| event.key().name().to_owned());
        assert_eventually(who, told, |last| last.as_deref() == Some("last")).await;
        told_everything_once(&log.events(), &record, who, at < 2);
    }
    assert!(
        logs.iter().any(|(_, log, _)| {
            let told = log.events();
            let initial = told.iter().filter(|event| event.is_initial()).count();
            initial > 0 && initial < told.len()
        }),
        "no handler came amid the creates"
    );
    rig.end().await;
}

/// A map is found under each letter of its value.
fn letters(map: &ConfigMap) -> BTreeSet<String> {
    value(map).chars().map(String::from).collect()
}

// [I25] indexes added while several clients write and others read: what an index gives always has that value, a handler finds
// what it is told, and at rest every index equals a scan
async fn indexes_added_amid_concurrent_writes_equal_a_scan(server: Server) {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    let informer = rig.own_maps_in(&namespace);
    let first = informer.add_index(&IndexDef::new("first", letters)).unwrap();
    let (reads, misses) = (first.clone(), Arc::new(Mutex::new(Vec::new())));
    let (missed, cache) = (Arc::clone(&misses), informer.clone());
    informer.add_handler(
        on_event(move |event: &Event<ConfigMap>| {
            // What it is told is in the index, or something newer of the same name is.
            let map = event.object();
            let current = cache.get(&event.key()).is_some_and(|cached| Arc::ptr_eq(&cached, map));
            for letter in letters(map) {
                let found = reads.get(&letter).iter().any(|found| Arc::ptr_eq(found, map));
                let still = cache.get(&event.key()).is_some_and(|cached| Arc::ptr_eq(&cached, map));
                if current && still && !found {
                    missed.lock().unwrap().push(format!("{event:?}: {letter}"));
                }
            }
        }),
        HandlerOptions::named("reads"),
    );
    rig.run().await;
    let done = Arc::new(AtomicUsize::new(0));
    let writers: Vec<_> = (0..4_u64)
        .map(|writer| {
            let (server, namespace, done) = (rig.server.clone(), namespace.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                let mut rng = fastrand::Rng::with_seed(seed.wrapping_add(writer));
                for _ in 0..150 {
                    // Objects of its own: values that grow, shrink and move, deletes, and creates anew.
                    let name = format!("w{writer}-{}", rng.u8(..5));
                    let text: String = (0..rng.usize(..4)).map(|_| char::from(b'a' + rng.u8(..6))).collect();
                    let at = namespace.at(&format!("configmaps/{name}"));
                    let body = json!({"metadata": {"name": name}, "data": {"v": text}});
                    // Whether the object is there decides what works.
                    if rng.u8(..5) == 0 {
                        server.delete(&at).await;
                    } else if server.merge(&at, &body).await.code == 404 {
                        namespace.create("configmaps", &body).await;
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    let mut indexes = vec![first];
    for round in 1..=20 {
        let progress = async || done.load(Ordering::SeqCst);
        assert_eventually("the writers", progress, |done| *done >= round * 28).await;
        let own = informer.clone();
        let adding = tokio::task::spawn_blocking(move || {
            let index = own.add_index(&IndexDef::new(format!("i{round}"), letters)).unwrap();
            for letter in index.values() {
                for map in index.get(&letter) {
                    assert!(letters(&map).contains(&*letter), "{letter}: {}", value(&map));
                }
            }
            index
        });
        indexes.push(adding.await.unwrap());
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let last = json!({"metadata": {"name": "last"}, "data": {"v": "z"}});
    let last: DynamicObject = serde_json::from_value(namespace.create("configmaps", &last).await).unwrap();
    informer
        .caught_up(&last, std::time::Duration::from_mins(2))
        .await
        .unwrap();
    assert!(informer.get(&key(&namespace, "last")).is_some());
    let all = informer.list(None, &Selector::default());
    for index in &indexes {
        let known: BTreeSet<String> = index.values().iter().map(ToString::to_string).collect();
        let expected: BTreeSet<String> = all.iter().flat_map(|map| letters(map)).collect();
        assert_eq!(known, expected, "{}", index.name());
        for letter in &expected {
            let names = |maps: &mut dyn Iterator<Item = &Arc<ConfigMap>>| -> BTreeSet<Option<String>> {
                maps.map(|map| map.metadata.name.clone()).collect()
            };
            let scan = names(&mut all.iter().filter(|map| letters(map).contains(letter)));
            assert_eq!(names(&mut index.get(letter).iter()), scan, "{}: {letter}", index.name());
        }
    }
    assert!(misses.lock().unwrap().is_empty(), "{misses:?}");
    rig.end().await;
}

threaded_cases!(
    handlers_amid_concurrent_creates_see_everything_once,
    indexes_added_amid_concurrent_writes_equal_a_scan,
);
