//! Keys come and go, and their ids are given to others, while everybody else looks.

use super::*;
use crate::engine::published::At;
use crate::{Index, Keyed as _};

// [K26] [K31] whatever becomes of the ids of keys that come and go: nobody finds the object of one key under another, and what a
// snapshot shows stays
#[test]
fn model_reads_amid_ids_that_are_used_again() {
    model(SCHEDULES, reads_amid_ids_that_are_used_again);
}

pub(super) fn reads_amid_ids_that_are_used_again() {
    let krt = started();
    let source = krt.static_collection("source", [Item::new("a", 0)]);
    let derived = krt.collection("derived", &source, |_, item| {
        Some(Item::new(&format!("{}-too", item.name), item.value))
    });
    let by_parity = source.index_by("parity", |item| item.value % 2).unwrap();
    // From its first lookup on, the index is kept for readers.
    by_parity.lookup(&0);
    block_on(krt.settled());
    let writer = {
        let (krt, source) = (krt.clone(), source.clone());
        move || {
            source.delete("a");
            block_on(krt.settled());
            source.update(Item::new("b", 1));
            block_on(krt.settled());
            source.delete("b");
            source.update(Item::new("a", 2));
        }
    };
    let newest = {
        let (source, derived) = (source.clone(), derived.clone());
        move || {
            for _ in 0..3 {
                for key in ["a", "b"] {
                    assert_has_key(&source, key);
                    assert_has_key(&derived, &format!("{key}-too"));
                }
                for collection in [&*source, &derived] {
                    for (key, item) in collection.list_at(At::Newest) {
                        assert_eq!(*key, *item.name);
                    }
                }
            }
        }
    };
    let pinned = {
        let (krt, source, derived) = (krt.clone(), source.clone(), derived.clone());
        move || {
            for _ in 0..2 {
                let snapshot = krt.snapshot();
                let first = seen(&snapshot, &source, &derived, &by_parity);
                assert_eq!(first, seen(&snapshot, &source, &derived, &by_parity), "it stays");
            }
        }
    };
    at_once([Box::new(writer), Box::new(newest), Box::new(pinned)]);
    block_on(krt.settled());
    assert_eq!(content(&source), ["a=2"]);
    assert_eq!(content(&derived), ["a-too=2"]);
    eventually(|| [source.retained(), source.dated(), derived.retained(), derived.dated()] == [0; 4]);
    end(krt);
}

// [K26] the same of nothing but an object that is looked for, and whose id another key gets
#[test]
fn model_gets_amid_ids_that_are_used_again() {
    model(SCHEDULES, gets_amid_ids_that_are_used_again);
}

pub(super) fn gets_amid_ids_that_are_used_again() {
    let krt = started();
    let source = krt.static_collection("source", [Item::new("a", 0)]);
    block_on(krt.settled());
    let writer = {
        let (krt, source) = (krt.clone(), source.clone());
        move || {
            source.delete("a");
            block_on(krt.settled());
            source.update(Item::new("b", 1));
            block_on(krt.settled());
        }
    };
    let reader = {
        let source = source.clone();
        move || (0..10).for_each(|_| assert_has_key(&source, "a"))
    };
    at_once([Box::new(writer), Box::new(reader)]);
    end(krt);
}

#[track_caller]
fn assert_has_key(collection: &Collection<Item>, key: &str) {
    let item = collection.get(key);
    assert!(
        item.as_ref().is_none_or(|item| item.name == key),
        "{item:?} is found under {key}"
    );
}

/// What a snapshot shows, by each way to look, which must agree.
fn seen(
    snapshot: &crate::Snapshot,
    source: &Collection<Item>,
    derived: &Collection<Item>,
    by_parity: &Index<i64, Item>,
) -> Vec<String> {
    let mut listed: Vec<String> = snapshot.list(source).iter().map(|item| item.name.clone()).collect();
    listed.sort();
    let found = ["a", "b"].map(|key| snapshot.get(source, key));
    let found = found.iter().flatten().map(|item| item.name.clone());
    assert_eq!(listed, found.collect::<Vec<_>>());
    let mut looked_up: Vec<String> = [0, 1]
        .iter()
        .flat_map(|parity| snapshot.lookup(by_parity, parity).iter().cloned().collect::<Vec<_>>())
        .map(|item| item.name.clone())
        .collect();
    looked_up.sort();
    assert_eq!(listed, looked_up);
    let mut others: Vec<String> = snapshot
        .list(derived)
        .iter()
        .map(|item| item.key().to_string())
        .collect();
    others.sort();
    assert_eq!(
        others,
        listed.iter().map(|key| format!("{key}-too")).collect::<Vec<_>>()
    );
    listed
}

// [K26] [K31] a key that is written to again while the engine takes its id back is not lost, and shares its id with nobody
#[test]
fn model_keys_that_are_written_again_as_they_go() {
    model(SCHEDULES, keys_that_are_written_again_as_they_go);
}

pub(super) fn keys_that_are_written_again_as_they_go() {
    let krt = started();
    let source = krt.static_collection("source", [Item::new("a", 0)]);
    let derived = krt.collection("derived", &source, |_, item| Some(Item::new(&item.name, -item.value)));
    let (all, merged) = (Fold::default(), Fold::default());
    let registrations = [all.follow_all(&source), merged.follow(&derived)];
    let again = {
        let source = source.clone();
        move || {
            for value in 1..4 {
                source.delete("a");
                source.update(Item::new("a", value));
            }
        }
    };
    let others = {
        let source = source.clone();
        move || {
            source.update(Item::new("b", 1));
            source.delete("b");
            source.update(Item::new("c", 1));
            source.delete("a");
            source.update(Item::new("d", 1));
            source.delete("d");
        }
    };
    let cleaner = {
        let source = source.clone();
        move || {
            source.delete_where(|item| item.value == 2);
            source.update(Item::new("e", 1));
        }
    };
    at_once([Box::new(again), Box::new(others), Box::new(cleaner)]);
    source.update(Item::new("a", 9));
    block_on(krt.settled());
    for name in ["a", "b", "c", "d", "e"] {
        assert_has_key(&source, name);
        let is_there = ["a", "c", "e"].contains(&name);
        assert_eq!(source.get(name).is_some(), is_there, "{name} is lost");
    }
    assert_eq!(content(&source), ["a=9", "c=1", "e=1"]);
    assert_eq!(content(&derived), ["a=-9", "c=-1", "e=-1"]);
    all.assert_is(&source);
    merged.assert_is(&derived);
    drop(registrations);
    end(krt);
}
