//! The rule that turns objects into events, and seeded histories against a plain map.

use std::collections::BTreeMap;

use super::*;
use crate::testing::{Item, fold, item};

fn upsert(store: &Store<Item>, object: &Arc<Item>) -> Change<Item> {
    let values = store.indexes().map(|def| def.values(object)).collect();
    Change::Upsert {
        object: Arc::clone(object),
        values,
    }
}

fn apply(store: &mut Store<Item>, change: Change<Item>) -> Vec<Event<Item>> {
    let mut outcome = Outcome::default();
    store.apply(change, Mode::Update, &mut outcome);
    store.check_invariants();
    outcome.events
}

fn put(store: &mut Store<Item>, object: &Arc<Item>) -> Vec<String> {
    let change = upsert(store, object);
    apply(store, change).iter().map(|event| format!("{event:?}")).collect()
}

// [I36] only equal, non-empty uid and version are "unchanged"
#[test]
fn object_is_unchanged_only_with_known_uid_and_version() {
    let mut store = Store::new();
    assert_eq!(put(&mut store, &item("a", "u", 1)), ["Added(n/a, initial: false)"]);
    assert!(put(&mut store, &item("a", "u", 1)).is_empty());
    assert_eq!(put(&mut store, &item("a", "u", 2)), ["Updated(n/a)"]);
    let nameless = |value: &str| {
        let mut object = (*item("b", "", 0)).clone();
        object.metadata.resource_version.clear();
        value.clone_into(&mut object.value);
        Arc::new(object)
    };
    assert_eq!(put(&mut store, &nameless("1")), ["Added(n/b, initial: false)"]);
    assert_eq!(put(&mut store, &nameless("1")), ["Updated(n/b)"]);
}

// [I12] another uid under one name is a delete and an add
#[test]
fn recreated_object_is_deleted_then_added() {
    let mut store = Store::new();
    put(&mut store, &item("a", "u1", 1));
    assert_eq!(
        put(&mut store, &item("a", "u2", 2)),
        ["Deleted(n/a, stale: true)", "Added(n/a, initial: false)"]
    );
}

#[test]
fn delete_tells_the_last_state_it_knows() {
    let mut store = Store::new();
    put(&mut store, &item("a", "u", 1));
    let key = ObjectKey::namespaced("n", "a");
    let last = item("a", "u", 2);
    let delete = |last| Change::Delete {
        key: key.clone(),
        last,
        stale: false,
    };
    let events = apply(&mut store, delete(Some(Arc::clone(&last))));
    assert!(matches!(&events[..], [Event::Deleted { object, stale: false }] if Arc::ptr_eq(object, &last)));
    assert!(
        apply(&mut store, delete(None)).is_empty(),
        "a second delete says nothing"
    );
    assert_eq!(store.len(), 0);
}

/// The values of an item: its name's letters up to the digit of its version.
fn letters(item: &Item) -> Vec<String> {
    let version: usize = item.metadata.resource_version.parse().unwrap();
    item.metadata.name.chars().take(version % 4).map(String::from).collect()
}

// [I25] multi-valued keys that grow, shrink and move: the index equals a scan after every step
#[test]
fn index_equals_a_scan_in_random_histories() {
    for seed in 0..100 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut store = Store::new();
        let index = store.push_index(IndexDef::new("letters", letters));
        let mut cache: BTreeMap<ObjectKey, Arc<Item>> = BTreeMap::new();
        for version in 1..200 {
            let name = *random.choice(&["abc", "bcd", "cab", "xyz"]).unwrap();
            let change = if random.u8(..) < 60 {
                Change::Delete {
                    key: ObjectKey::namespaced("n", name),
                    last: None,
                    stale: false,
                }
            } else {
                upsert(&store, &item(name, "u", version))
            };
            fold(&mut cache, &apply(&mut store, change));
            for value in ["a", "b", "c", "x", "z"] {
                let mut found: Vec<String> = store
                    .by_index(index, value)
                    .iter()
                    .map(|item| item.value.clone())
                    .collect();
                found.sort_unstable();
                let scan = cache.values().filter(|item| letters(item).contains(&value.to_owned()));
                let mut expected: Vec<String> = scan.map(|item| item.value.clone()).collect();
                expected.sort_unstable();
                assert_eq!(found, expected, "seed {seed}, value {value}");
            }
            assert_eq!(store.list(Some("n")).len(), cache.len(), "seed {seed}");
            assert!(store.list(Some("other")).is_empty());
        }
    }
}
