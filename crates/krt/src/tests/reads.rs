//! Reads outside of transformations: snapshots, the newest state, and helpers that work everywhere.

use super::*;
use crate::Read;

// [K33] a snapshot shows all collections at one epoch, for as long as it is held
#[test]
fn a_snapshot_stays_at_its_epoch() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1), ("b", 2), ("c", 3)]);
    let double = rig
        .krt
        .collection("double", &source, |_, item| Some(Item::new(&item.name, item.value * 2)));
    rig.settle();
    let snapshot = rig.krt.snapshot();
    source.update(Item::new("a", 10));
    source.delete("b");
    source.update(Item::new("d", 4));
    rig.settle();
    source.update(Item::new("a", 11));
    source.update(Item::new("b", 12));
    rig.settle();
    let show = |collection: &Collection<Item>| {
        let mut lines: Vec<_> = snapshot
            .list(collection)
            .iter()
            .map(|item| format!("{}={}", item.name, item.value))
            .collect();
        lines.sort();
        lines
    };
    assert_eq!(show(&source), ["a=1", "b=2", "c=3"]);
    assert_eq!(show(&double), ["a=2", "b=4", "c=6"]);
    let get = |key| snapshot.get(&double, key).map(|item| item.value);
    assert_eq!(["a", "b", "c", "d"].map(get), [Some(2), Some(4), Some(6), None]);
    assert_eq!(content(&double), ["a=22", "b=24", "c=6", "d=8"]);
    drop(snapshot);
    rig.settle();
    assert_eq!(
        (source.retained(), double.retained()),
        (0, 0),
        "what nobody sees is gone"
    );
}

#[test]
fn versions_are_kept_only_for_pins_that_see_them() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 0)]);
    rig.settle();
    for value in 1..10 {
        source.update(Item::new("a", value));
        rig.settle();
    }
    assert_eq!(source.retained(), 0);
    let first = rig.krt.snapshot();
    for value in 10..20 {
        source.update(Item::new("a", value));
        rig.settle();
    }
    assert_eq!(source.retained(), 1);
    let second = rig.krt.snapshot();
    source.update(Item::new("a", 20));
    rig.settle();
    assert_eq!(source.retained(), 2);
    let value = |snapshot: &crate::Snapshot| snapshot.get(&source, "a").map(|item| item.value);
    assert_eq!([value(&first), value(&second)], [Some(9), Some(19)]);
    drop(first);
    rig.settle();
    assert_eq!((source.retained(), value(&second)), (1, Some(19)));
}

// [K33] a value is told from those that are newer than a pin, for as long as there is one, also if its key came, went and came
#[test]
fn values_are_dated_only_for_pins_that_are_older() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1), ("b", 1), ("c", 1)]);
    rig.settle();
    source.update(Item::new("a", 2));
    rig.settle();
    assert_eq!(source.dated(), 0, "nobody looks");
    let get = |snapshot: &crate::Snapshot| {
        ["a", "b", "c", "d"].map(|key| snapshot.get(&source, key).map_or(0, |item| item.value))
    };
    let first = rig.krt.snapshot();
    source.update(Item::new("a", 3));
    source.delete("b");
    source.update(Item::new("d", 3));
    rig.settle();
    assert_eq!(source.dated(), 2);
    let second = rig.krt.snapshot();
    source.update(Item::new("b", 4));
    source.delete("d");
    rig.settle();
    let third = rig.krt.snapshot();
    source.update(Item::new("c", 5));
    rig.settle();
    assert_eq!(get(&first), [2, 1, 1, 0]);
    assert_eq!(get(&second), [3, 0, 1, 3]);
    assert_eq!(get(&third), [3, 4, 1, 0]);
    drop(first);
    rig.settle();
    assert_eq!(source.dated(), 2, "`a` is older than all pins that are left");
    assert_eq!((get(&second), get(&third)), ([3, 0, 1, 3], [3, 4, 1, 0]));
    drop((second, third));
    rig.settle();
    assert_eq!((source.dated(), source.retained()), (0, 0));
    assert_eq!(content(&source), ["a=3", "b=4", "c=5"]);
}

/// A helper that works inside and outside.
fn sum(read: &mut impl Read, items: &Collection<Item>) -> i64 {
    read.fetch(items.query().where_(|item| item.value > 1))
        .iter()
        .map(|item| item.value)
        .sum()
}

#[test]
fn one_helper_reads_inside_and_outside() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1), ("b", 2), ("c", 3)]);
    let by_value = source.index_by("value", |item| item.value % 2).unwrap();
    let fetched = source.clone();
    let inside = rig
        .krt
        .singleton("inside", move |cx| Some(Item::new("sum", sum(cx, &fetched))));
    rig.settle();
    let mut snapshot = rig.krt.snapshot();
    source.update(Item::new("c", 30));
    rig.settle();
    assert_eq!(inside.get().unwrap().value, 32);
    assert_eq!(sum(&mut rig.krt.live(), &source), 32);
    assert_eq!(sum(&mut snapshot, &source), 5);
    let odd = snapshot.fetch(by_value.at(&1));
    assert_eq!(odd.iter().map(|item| &*item.name).collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!(snapshot.fetch_one(source.query().key("b")).unwrap().value, 2);
}

// What is looked up is there whatever the engine keeps: it may not have seen the index yet, or not keep it any more.
#[test]
fn a_lookup_finds_what_is_there_before_and_after_the_index_is_kept() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1), ("b", 2), ("c", 1)]);
    rig.settle();
    let index = |name: &str| source.index_by(name, |item| item.value).unwrap();
    let ones = |index: &crate::Index<i64, Item>| -> Vec<String> {
        let found = index.lookup(&1);
        found.iter().map(|item| item.name.clone()).collect()
    };
    let by_value = index("value");
    assert_eq!(ones(&by_value), ["a", "c"], "the engine has not seen it");
    rig.settle();
    assert_eq!(ones(&by_value), ["a", "c"]);
    assert!(by_value.lookup(&3).is_empty());
    source.stop();
    rig.settle();
    // Values that only queries ask for push out those that nobody holds any more.
    for value in 100..1100 {
        let _ = by_value.at(&value);
    }
    assert_eq!(ones(&by_value), ["a", "c"], "what was stopped stays readable");
    let late = index("late");
    rig.settle();
    assert_eq!(ones(&late), ["a", "c"]);
}

// The same of an index that is told its values by reference.
#[test]
fn a_lookup_finds_values_that_were_lent() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("x/a", 1), ("y/b", 2), ("x/c", 3)]);
    rig.settle();
    let by_part = source
        .index_into("part", |item: &Item, keys: &mut crate::Keys<'_, String>| {
            keys.push_ref(item.ns.as_str());
            keys.push_ref(item.name.as_str());
        })
        .unwrap();
    let found = |part: &str| names(&by_part.lookup(part));
    let expected = ["x/a x/c", "y/b", "x/a", ""];
    assert_eq!(["x", "y", "a", "z"].map(found), expected, "the engine has not seen it");
    rig.settle();
    assert_eq!(["x", "y", "a", "z"].map(found), expected);
    assert_eq!(["x", "y", "a", "z"].map(found), expected, "it is kept for lookups");
    source.stop();
    rig.settle();
    assert_eq!(["x", "y", "a", "z"].map(found), expected);
}

fn names(items: &[Arc<Item>]) -> String {
    let names: Vec<_> = items.iter().map(|item| item.key().to_string()).collect();
    names.join(" ")
}

// The first lookup has the index kept for those that follow, which ask only the objects that they find.
#[test]
fn a_lookup_looks_at_every_object_but_once() {
    let mut rig = Rig::with_strong_hashes();
    let source = rig
        .krt
        .static_collection("source", (0..100).map(|n| Item::new(&format!("k{n}"), n)));
    let log = Log::default();
    let calls = log.clone();
    let by_digit = source
        .index_by("digit", move |item| {
            calls.add(&*item.name);
            item.value % 10
        })
        .unwrap();
    let looked = |rig: &mut Rig| {
        rig.settle();
        log.take();
        assert_eq!(by_digit.lookup(&3).len(), 10);
        log.take().len()
    };
    assert_eq!([looked(&mut rig), looked(&mut rig)], [100, 10]);
    source.update(Item::new("k3", 4));
    source.update(Item::new("k4", 3));
    assert_eq!(looked(&mut rig), 10);
    source.stop();
    assert_eq!(looked(&mut rig), 100, "what was stopped keeps no indexes");
}

// [K33] each time a pin goes, what was kept for it alone goes
#[test]
fn versions_go_with_each_pin_that_saw_them() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 0)]);
    let other = items(&rig, "other", &[("b", 0)]);
    rig.settle();
    for value in 1..5 {
        let pin = rig.krt.snapshot();
        source.update(Item::new("a", value));
        rig.settle();
        assert_eq!((source.retained(), other.retained()), (1, 0));
        assert_eq!(pin.get(&source, "a").unwrap().value, value - 1);
        drop(pin);
        rig.settle();
        assert_eq!((source.retained(), other.retained()), (0, 0));
    }
}

// A clone of a singleton is one.
#[test]
fn a_singleton_that_is_cloned_is_read_and_set_as_before() {
    let mut rig = Rig::new();
    let set = rig.krt.static_singleton("set", Some(Item::new("a", 1)));
    let fetched = set.clone();
    let read = rig.krt.singleton("read", move |cx| {
        cx.fetch_one(fetched.query()).map(|item| (*item).clone())
    });
    let (set, read) = (set.clone(), read.clone());
    set.set(Item::new("a", 2));
    rig.settle();
    assert_eq!((set.get().unwrap().value, read.get().unwrap().value), (2, 2));
}

// [K33] what a pin shows does not depend on how far the epoch is that is being computed: values that nobody has any more are found until
// it is published
#[test]
fn a_lookup_by_a_value_that_is_about_to_go_finds_it() {
    let mut rig = Rig::with_strong_hashes();
    let item = |number: i64| Item::new(&format!("k{number}"), number);
    let source = rig.krt.static_collection("source", (0..64).map(item));
    let by_value = source.index_by("value", |item| item.value).unwrap();
    rig.settle();
    assert_eq!(by_value.lookup(&0).len(), 1);
    let (pin, index, log) = (rig.krt.snapshot(), by_value.clone(), Log::default());
    let seen = log.clone();
    let _derived = rig.krt.collection("derived", &source, move |_, item| {
        if item.value == 999 {
            let found = [pin.lookup(&index, &0), index.lookup(&0)];
            seen.add(found.map(|found| found.len().to_string()).join(" "));
        }
        Some((**item).clone())
    });
    rig.settle();
    // So many values that those that nobody has are forgotten.
    source.delete("k0");
    for number in 900..1000 {
        source.update(item(number));
    }
    rig.settle();
    assert_eq!(log.take(), ["1 1"], "the epoch was not published yet");
    assert_eq!(by_value.lookup(&0).len(), 0);
}
