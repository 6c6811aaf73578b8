//! Joins: who wins, take-overs, merges.

use super::*;

// [K18] the first wins; take-over and fall-back are updates; what is shadowed is silent; the initial state comes once
#[test]
fn the_first_member_that_has_a_key_wins() {
    let mut rig = Rig::new();
    let first = items(&rig, "first", &[("a", 1)]);
    let second = items(&rig, "second", &[("a", 10), ("b", 20)]);
    let join = rig.krt.join("join", [(*first).clone(), (*second).clone()]);
    let log = Log::default();
    let registration = log.follow(&join);
    rig.settle();
    assert!(registration.has_synced());
    assert_eq!(log.take(), ["+a=1", "+b=20"]);
    second.update(Item::new("a", 11));
    rig.settle();
    assert_eq!(log.take(), [""; 0], "shadowed");
    first.update(Item::new("b", 2));
    first.delete("a");
    rig.settle();
    assert_eq!(log.take(), ["a=1>11", "b=20>2"]);
    second.delete("a");
    second.delete("b");
    rig.settle();
    assert_eq!(log.take(), ["-a=11"]);
}

// [K18] an index on a join has only the winners
#[test]
fn an_index_on_a_join_has_the_winners() {
    let mut rig = Rig::new();
    let first = items(&rig, "first", &[("a", 1)]);
    let second = items(&rig, "second", &[("a", 1), ("b", 1)]);
    let join = rig.krt.join("join", [(*first).clone(), (*second).clone()]);
    let by_value = join.index_by("value", |item| item.value).unwrap();
    let found = rig.krt.many_from_nothing("found", move |cx| {
        cx.fetch(by_value.at(&1))
            .iter()
            .map(|item| (**item).clone())
            .collect::<Vec<_>>()
    });
    rig.settle();
    assert_eq!(content(&found), ["a=1", "b=1"]);
    first.update(Item::new("a", 2));
    rig.settle();
    assert_eq!(content(&found), ["b=1"]);
}

#[test]
fn a_join_waits_for_all_members() {
    let mut rig = Rig::new();
    let first = items(&rig, "first", &[("a", 1)]);
    let second = rig.krt.unsynced_collection::<Item>("second");
    let join = rig.krt.join("join", [(*first).clone(), (*second).clone()]);
    rig.settle();
    assert!(!join.has_synced() && join.is_empty());
    second.update(Item::new("b", 2));
    second.mark_synced();
    rig.settle();
    assert!(join.has_synced());
    assert_eq!(content(&join), ["a=1", "b=2"]);
}

// Merging sees the members in their order; a panic, or a change of the key, keeps the last object.
#[test]
fn a_merge_gets_the_objects_in_the_order_of_the_members() {
    let mut rig = Rig::new();
    let first = items(&rig, "first", &[("a", 1)]);
    let second = items(&rig, "second", &[("a", 2), ("b", 3)]);
    let merged = rig
        .krt
        .join_with_merge("merged", [(*first).clone(), (*second).clone()], |items| {
            let value = items.iter().fold(0, |all, item| all * 10 + item.value);
            assert!(value < 1000, "too large");
            let key = if value == 77 { "other" } else { &items[0].name };
            (value != 66).then(|| Item::new(key, value))
        });
    let log = Log::default();
    let _handler = log.follow(&merged);
    rig.settle();
    assert_eq!(log.take(), ["+a=12", "+b=3"]);
    first.update(Item::new("b", 5));
    second.delete("a");
    rig.settle();
    assert_eq!(log.take(), ["a=12>1", "b=3>53"]);
    first.update(Item::new("b", 500));
    first.update(Item::new("a", 77));
    rig.settle();
    assert_eq!(log.take(), [""; 0]);
    assert_eq!(merged.stats().panics, 2);
    first.update(Item::new("a", 66));
    rig.settle();
    assert_eq!(log.take(), ["-a=1"]);
    first.delete("b");
    second.delete("b");
    rig.settle();
    assert_eq!(log.take(), ["-b=53"]);
}

// [K18] keys that are said to be disjoint and are not: the first member wins, and it is counted
#[test]
fn an_overlap_of_unchecked_members_is_counted() {
    let mut rig = Rig::new();
    let first = items(&rig, "first", &[("a", 1)]);
    let second = items(&rig, "second", &[("b", 2)]);
    let third = items(&rig, "third", &[]);
    let members = || [&first, &second, &third].map(|member| (**member).clone());
    let join = rig.krt.join("join", members()).unchecked();
    let checked = rig.krt.join("checked", members());
    let log = Log::default();
    let registration = log.follow(&join);
    rig.settle();
    assert!(registration.has_synced());
    assert_eq!(log.take(), ["+a=1", "+b=2"]);
    assert_eq!(join.stats().conflicts, 0);
    // A key moves from one member to another: never an overlap.
    first.delete("a");
    third.update(Item::new("a", 3));
    rig.settle();
    assert_eq!(log.take(), ["a=1>3"]);
    assert_eq!(join.stats().conflicts, 0);
    second.update(Item::new("a", 4));
    rig.settle();
    assert_eq!(log.take(), ["a=3>4"]);
    assert_eq!(join.stats().conflicts, 1);
    third.update(Item::new("a", 5));
    rig.settle();
    assert_eq!(log.take(), [""; 0]);
    assert_eq!(join.stats().conflicts, 2);
    second.delete("a");
    rig.settle();
    assert_eq!(log.take(), ["a=4>5"]);
    assert_eq!(join.stats().conflicts, 2);
    assert_eq!(content(&join), content(&checked));
    assert_eq!(checked.stats().conflicts, 0, "there it is no conflict");
}

// [K19] merges of one and of several members; a key that the merge leaves out comes back when its objects change
#[test]
fn a_merge_may_leave_keys_out() {
    let mut rig = Rig::new();
    let first = items(&rig, "first", &[("a", 0), ("b", 0)]);
    let second = items(&rig, "second", &[("a", 0)]);
    let members = [(*first).clone(), (*second).clone()];
    let merged = rig.krt.join_with_merge("merged", members, |items| {
        let sum = items.iter().map(|item| item.value).sum();
        (sum > 0).then(|| Item::new(&items[0].name, sum))
    });
    let log = Log::default();
    let _handler = log.follow(&merged);
    rig.settle();
    assert_eq!(log.take(), [""; 0]);
    assert!(merged.has_synced());
    second.update(Item::new("a", 2));
    second.update(Item::new("b", 3));
    rig.settle();
    assert_eq!(log.take(), ["+a=2", "+b=3"]);
    second.update(Item::new("a", 0));
    rig.settle();
    assert_eq!(log.take(), ["-a=2"]);
    // While it is left out, one of its objects goes and comes back, and its number is another key's meanwhile.
    second.delete("a");
    rig.settle();
    first.update(Item::new("c", 7));
    second.update(Item::new("a", 4));
    rig.settle();
    assert_eq!(log.take(), ["+a=4", "+c=7"]);
    first.reset([]);
    second.reset([]);
    rig.settle();
    assert_eq!(log.take(), ["-a=4", "-b=3", "-c=7"]);
}
