//! Secondary indexes follow the cache. [I25]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::Selector;
use kube_client::{Event, HandlerOptions, Index, IndexDef, Informer, RegisterError, on_event};
use serde_json::json;

use super::{Rig, create, delete, next, update, value};
use crate::harness::{Server, cases, eventually};

/// A map is found under each letter of its value.
fn letters(map: &ConfigMap) -> BTreeSet<String> {
    value(map).chars().map(String::from).collect()
}

/// Asserts that the index says what a scan of the cache says.
#[track_caller]
fn equals_scan(index: &Index<ConfigMap>, informer: &Informer<ConfigMap>) {
    let all = informer.list(None, &Selector::default());
    let values: BTreeSet<String> = all.iter().flat_map(|map| letters(map)).collect();
    let known: BTreeSet<String> = index.values().iter().map(ToString::to_string).collect();
    assert_eq!(known, values);
    for wanted in &values {
        let names = |maps: Vec<Arc<ConfigMap>>| -> BTreeSet<Option<String>> {
            maps.iter().map(|map| map.metadata.name.clone()).collect()
        };
        let scan = all
            .iter()
            .filter(|map| letters(map).contains(wanted))
            .cloned()
            .collect();
        assert_eq!(names(index.get(wanted)), names(scan), "{wanted}");
    }
}

// [I25] added before the start and after the sync; values that grow, shrink and move; deletes
async fn index_equals_a_scan(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "xy").await;
    let informer = rig.maps_in(&namespace);
    let before = informer.add_index(&IndexDef::new("before", letters)).unwrap();
    rig.run().await;
    let after = informer.add_index(&IndexDef::new("after", letters)).unwrap();
    let mut events = informer.events(HandlerOptions::default());
    next(&mut events).await;
    for step in ["x", "xyz", "ab", ""] {
        update(&rig.server, &namespace, "a", step).await;
        next(&mut events).await;
        equals_scan(&before, &informer);
        equals_scan(&after, &informer);
    }
    create(&namespace, "b", "ax").await;
    next(&mut events).await;
    equals_scan(&before, &informer);
    delete(&rig.server, &namespace, "b").await;
    next(&mut events).await;
    equals_scan(&after, &informer);
    assert!(before.values().is_empty());
    drop(events);
    rig.end().await;
}

cases!(
    index_equals_a_scan,
    index_is_current_when_a_handler_runs,
    panicking_extractor_leaves_the_object_without_values,
);

// [I25] what a handler is told is already in the index
async fn index_is_current_when_a_handler_runs(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    let informer = rig.own_maps_in(&namespace);
    let index = informer.add_index(&IndexDef::new("letters", letters)).unwrap();
    let seen = Arc::new(Mutex::new(0));
    let (reads, count) = (index.clone(), Arc::clone(&seen));
    let registration = informer.add_handler(
        on_event(move |event: &Event<ConfigMap>| {
            if let Event::Updated { new, .. } = event {
                for letter in letters(new) {
                    assert!(
                        reads.get(&letter).iter().any(|found| Arc::ptr_eq(found, new)),
                        "{letter} is missing"
                    );
                }
                *count.lock().unwrap() += 1;
            }
        }),
        HandlerOptions::default(),
    );
    rig.run().await;
    registration.synced().await.unwrap();
    create(&namespace, "a", "a").await;
    for n in 0..20 {
        update(&rig.server, &namespace, "a", &format!("b{n}")).await;
        eventually("the update", || async {
            (*seen.lock().unwrap() == n + 1).then_some(())
        })
        .await;
    }
    assert_eq!(informer.stats().handlers[0].panics, 0);
    rig.end().await;
}

// [I25] added while events flow
#[tokio::test(start_paused = true)]
async fn index_added_amid_events_equals_a_scan() {
    let rig = Rig::fake();
    let namespace = rig.server.namespace().await;
    let informer = rig.maps_in(&namespace);
    rig.run().await;
    let mut indexes = Vec::new();
    for n in 0..200 {
        let name = format!("m{}", n % 17);
        if n < 17 {
            create(&namespace, &name, &format!("{n}")).await;
        } else {
            update(&rig.server, &namespace, &name, &format!("{}", n * 7)).await;
        }
        if n % 20 == 0 {
            indexes.push(informer.add_index(&IndexDef::new(format!("i{n}"), letters)).unwrap());
        }
    }
    let version = create(&namespace, "last", "z").await;
    eventually("the last write", || async {
        (informer.last_version() == Some(version.clone())).then_some(())
    })
    .await;
    for index in &indexes {
        equals_scan(index, &informer);
    }
    rig.end().await;
}

// [I25] one name, one definition
#[tokio::test(start_paused = true)]
async fn index_of_the_same_name_is_shared_or_refused() {
    let rig = Rig::fake();
    let namespace = rig.server.namespace().await;
    let informer = rig.maps_in(&namespace);
    informer.add_index(&IndexDef::new("letters", letters)).unwrap();
    informer.add_index(&IndexDef::new("letters", letters)).unwrap();
    let error = informer
        .add_index(&IndexDef::new("letters", |map: &ConfigMap| [value(map)]))
        .unwrap_err();
    let RegisterError::IndexConflict(conflict) = &error else {
        panic!("{error}")
    };
    assert_eq!(conflict.name, "letters");
    assert!(conflict.first_at.file().ends_with("index.rs"), "{error}");
    assert!(conflict.first_at.line() < conflict.second_at.line(), "{error}");
    let places = [conflict.first_at.to_string(), conflict.second_at.to_string()];
    for part in ["configmaps/v1", "\"letters\"", &places[0], &places[1]] {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
    rig.end().await;
}

// [I39] an extractor that panics costs that object its values
async fn panicking_extractor_leaves_the_object_without_values(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    namespace
        .create("configmaps", &json!({"metadata": {"name": "bad"}}))
        .await;
    create(&namespace, "good", "v").await;
    let informer = rig.own_maps_in(&namespace);
    let index = informer
        .add_index(&IndexDef::new("v", |map: &ConfigMap| {
            [map.data.as_ref().expect("a panic on purpose")["v"].clone()]
        }))
        .unwrap();
    rig.run().await;
    assert_eq!(informer.len(), 2);
    assert_eq!(
        index.values().iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["v"]
    );
    // and it comes back with the next good version
    update(&rig.server, &namespace, "bad", "w").await;
    eventually("the new value", || async { (index.get("w").len() == 1).then_some(()) }).await;
    rig.end().await;
}
