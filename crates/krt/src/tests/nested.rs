//! Nested joins and collections that transformations make.

use super::*;
use crate::Lend;
use crate::engine::planted::{self, Bug};

/// Lends a collection of items.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lender {
    name: String,
    items: Collection<Item>,
}

impl Keyed for Lender {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::Plain(&self.name)
    }
}

impl Lend<Item> for Lender {
    fn lend(&self) -> &Collection<Item> {
        assert!(self.name != "panics", "unlucky");
        &self.items
    }
}

pub(super) fn lender(name: &str, items: &Collection<Item>) -> Lender {
    Lender {
        name: name.into(),
        items: items.clone(),
    }
}

fn summed(items: &[Arc<Item>]) -> Item {
    let value = items.iter().fold(0, |all, item| all * 10 + item.value);
    Item {
        value,
        ..(*items[0]).clone()
    }
}

// [K19] members come and go: an update, and a delete with the last one; added again it is Added
#[test]
fn members_of_a_nested_join_come_and_go() {
    let mut rig = Rig::new();
    let one = items(&rig, "one", &[("a", 1), ("b", 1)]);
    let two = items(&rig, "two", &[("a", 2)]);
    let lenders = rig.krt.static_collection("lenders", [lender("2", &two)]);
    let first = rig.krt.nested_join("first", &lenders);
    let merged = rig
        .krt
        .nested_join_with_merge("merged", &lenders, |items| Some(summed(items)));
    let (log, merges) = (Log::default(), Log::default());
    let (registration, more) = (log.follow(&first), merges.follow(&merged));
    rig.settle();
    assert!(registration.has_synced());
    assert_eq!(
        (log.take(), merges.take()),
        (vec!["+a=2".to_owned()], vec!["+a=2".to_owned()])
    );
    // The order is that of the lenders' keys, whoever came first.
    lenders.update(lender("1", &one));
    rig.settle();
    assert_eq!(log.take(), ["+b=1", "a=2>1"]);
    assert_eq!(merges.take(), ["+b=1", "a=2>12"]);
    two.update(Item::new("a", 3));
    one.update(Item::new("c", 4));
    rig.settle();
    assert_eq!(log.take(), ["+c=4"], "what is shadowed is silent");
    assert_eq!(merges.take(), ["+c=4", "a=12>13"]);
    lenders.delete("1");
    rig.settle();
    assert_eq!(log.take(), ["-b=1", "-c=4", "a=1>3"]);
    lenders.delete("2");
    rig.settle();
    assert_eq!(log.take(), ["-a=3"]);
    lenders.update(lender("2", &two));
    rig.settle();
    assert_eq!(log.take(), ["+a=3"]);
    // The same collection twice, then under one lender less.
    lenders.update(lender("3", &two));
    lenders.delete("2");
    rig.settle();
    assert_eq!(log.take(), [""; 0]);
    drop((one, two, lenders, first, merged, registration, more));
    rig.settle();
    assert_eq!((rig.stepper.collections(), rig.stepper.handlers()), (0, 0));
}

// [K19] a member that changes in the epoch in which it is lent contributes what it is at the end of it, and that is told once
#[test]
fn a_member_that_changes_while_it_is_lent_contributes_once() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1), ("gone", 1)]);
    let middle = source.collection_of(&rig.krt, "middle");
    let deep = middle.collection_of(&rig.krt, "deep");
    let lenders = rig.krt.static_collection::<Lender>("lenders", []);
    let join = rig.krt.nested_join("join", &lenders);
    let log = Log::default();
    let _handler = log.follow(&join);
    rig.settle();
    lenders.update(lender("x", &deep));
    source.update(Item::new("a", 2));
    source.update(Item::new("b", 1));
    source.delete("gone");
    rig.settle();
    assert_eq!(log.take(), ["+a=2", "+b=1"]);
    assert_eq!(content(&join), ["a=2", "b=1"]);
}

// [K19] [K33] all members are exchanged at once: one epoch, in which each key is told once, and nobody sees a mix
#[test]
fn members_are_exchanged_in_one_epoch() {
    let mut rig = Rig::new();
    let generation = |value: i64| {
        [0, 1].map(|half| {
            let keys = (0..4).map(|number| format!("k{}", number * 2 + half));
            let items = keys.map(|key| Item::new(&key, value));
            rig.krt.static_collection(format!("{value} {half}"), items)
        })
    };
    let (old, new) = (generation(1), generation(2));
    let lenders = rig
        .krt
        .static_collection("lenders", [lender("x", &old[0]), lender("y", &old[1])]);
    let join = rig.krt.nested_join("join", &lenders);
    let fetched = join.clone();
    let seen = Log::default();
    let log = seen.clone();
    let sums = rig.krt.singleton("sum", move |cx| {
        let items = cx.fetch(fetched.query());
        log.add(items.iter().map(|item| item.value.to_string()).collect::<String>());
        Some(Item::new("sum", items.iter().map(|item| item.value).sum()))
    });
    let batches = Log::default();
    let log = batches.clone();
    let _handler = join.on_batch(move |batch| {
        let mut lines: Vec<_> = batch.events().map(line).collect();
        lines.sort();
        log.add(lines.join(" "));
    });
    rig.settle();
    let _ = (batches.take(), seen.take());
    let before = rig.krt.snapshot();
    // The halves change places, too.
    lenders.reset([lender("x", &new[1]), lender("y", &new[0])]);
    rig.settle();
    let lines: Vec<_> = (0..8).map(|number| format!("k{number}=1>2")).collect();
    assert_eq!(batches.take(), [lines.join(" ")]);
    assert_eq!(seen.take(), ["22222222"]);
    assert_eq!(before.list(&join).iter().map(|item| item.value).sum::<i64>(), 8);
    assert_eq!(sums.get().unwrap().value, 16);
}

// [K34] a new member contributes when it is synced; a replaced one stays until then; both swap in one epoch
#[test]
fn a_member_is_replaced_when_the_next_one_is_synced() {
    let mut rig = Rig::new();
    let old = items(&rig, "old", &[("a", 1), ("b", 1)]);
    let lenders = rig.krt.static_collection("lenders", [lender("x", &old)]);
    let join = rig.krt.nested_join("join", &lenders);
    let log = Log::default();
    let _handler = log.follow(&join);
    rig.settle();
    log.take();
    let next = rig.krt.unsynced_collection::<Item>("next");
    next.update(Item::new("a", 2));
    lenders.update(lender("x", &next));
    let late = rig.krt.unsynced_collection::<Item>("late");
    late.update(Item::new("l", 9));
    lenders.update(lender("y", &late));
    rig.settle();
    assert_eq!(log.take(), [""; 0]);
    assert!(join.has_synced(), "it does not wait for members that come late");
    // The old one is still followed.
    old.update(Item::new("b", 5));
    next.update(Item::new("c", 3));
    rig.settle();
    assert_eq!(log.take(), ["b=1>5"]);
    next.mark_synced();
    assert!(rig.step());
    assert_eq!(content(&join), ["a=2", "c=3"]);
    rig.settle();
    assert_eq!(log.take(), ["+c=3", "-b=5", "a=1>2"]);
    late.mark_synced();
    rig.settle();
    assert_eq!(log.take(), ["+l=9"]);
    // Before it could take over, the next one is replaced itself, by what was there.
    let never = rig.krt.unsynced_collection::<Item>("never");
    lenders.update(lender("x", &never));
    rig.settle();
    lenders.update(lender("x", &next));
    rig.settle();
    never.mark_synced();
    rig.settle();
    assert_eq!(log.take(), [""; 0]);
    drop((never, old));
    rig.settle();
    assert_eq!(rig.stepper.collections(), 4, "those that are members no more are gone");
}

// [K34] the join waits for the members that are there at its start
#[test]
fn a_nested_join_waits_for_its_first_members() {
    let mut rig = Rig::new();
    let ready = items(&rig, "ready", &[("a", 1)]);
    let [one, two] = ["one", "two"].map(|name| rig.krt.unsynced_collection::<Item>(name));
    let lenders = rig.krt.unsynced_collection::<Lender>("lenders");
    let join = rig.krt.nested_join("join", &lenders);
    for (name, items) in [("r", &ready), ("1", &one), ("2", &two)] {
        lenders.update(lender(name, items));
    }
    rig.settle();
    assert!(!join.has_synced() && join.is_empty(), "the lenders are not synced");
    lenders.mark_synced();
    rig.settle();
    assert!(!join.has_synced() && join.is_empty());
    one.mark_synced();
    lenders.update(lender("late", &rig.krt.unsynced_collection::<Item>("late")));
    rig.settle();
    assert!(!join.has_synced() && join.is_empty(), "the initial state appears whole");
    lenders.delete("2");
    rig.settle();
    assert!(join.has_synced());
    assert_eq!(content(&join), ["a=1"]);
}

// [K34] a member that reaches back to the join is refused with the path, and may be one when the path is broken
#[test]
fn a_member_that_reads_the_join_is_refused() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1)]);
    let lenders = rig.krt.static_collection("lenders", [lender("x", &source)]);
    let join = rig.krt.nested_join("join", &lenders);
    let reads = items(&rig, "reads", &[("r", 1)]);
    let fetched = join.clone();
    let looped = rig.krt.collection("looped", &reads, move |cx, item| {
        let found = if item.value == 1 {
            cx.fetch(fetched.query()).len()
        } else {
            0
        };
        Some(Item::new(&item.name, 10 * item.value + i64::try_from(found).unwrap()))
    });
    rig.settle();
    assert_eq!(content(&looped), ["r=11"]);
    lenders.update(lender("x", &looped));
    rig.settle();
    assert_eq!(rig.stepper.cycles(), [["join", "looped", "join"]]);
    assert_eq!(content(&join), ["a=1"], "what its lender had before stays");
    assert_eq!(join.stats().cycles, 1);
    source.update(Item::new("a", 2));
    lenders.update(lender("y", &join));
    rig.settle();
    assert_eq!(content(&join), ["a=2"], "everything else works");
    let mut cycles = rig.stepper.cycles();
    cycles.sort();
    assert_eq!(cycles, [vec!["join", "join"], vec!["join", "looped", "join"]]);
    lenders.delete("y");
    reads.update(Item::new("r", 2));
    rig.settle();
    assert_eq!(rig.stepper.cycles(), [[""; 0]; 0]);
    assert_eq!(content(&join), ["r=20"]);
    // Now it is the other edge that would close the cycle.
    reads.update(Item::new("r", 1));
    rig.settle();
    assert_eq!(rig.stepper.cycles(), [["looped", "join", "looped"]]);
    assert_eq!(content(&join), ["r=20"]);
}

// A lender that panics, and one that lends a collection of another engine, lend nothing.
#[test]
fn a_bad_lender_lends_nothing() {
    let mut rig = Rig::new();
    let other = Rig::new();
    let foreign = items(&other, "foreign", &[("f", 1)]);
    let source = items(&rig, "source", &[("a", 1)]);
    let lenders = rig.krt.static_collection(
        "lenders",
        [
            lender("panics", &source),
            lender("foreign", &foreign),
            lender("good", &source),
        ],
    );
    let join = rig.krt.nested_join("join", &lenders);
    rig.settle();
    assert!(join.has_synced());
    assert_eq!(content(&join), ["a=1"]);
    assert_eq!(join.stats().panics, 2);
    lenders.update(lender("good", &foreign));
    rig.settle();
    assert_eq!(content(&join), ["a=1"], "what it lent before stays");
    lenders.reset([]);
    rig.settle();
    assert!(join.is_empty());
}

/// For each wanted name: the items in that namespace, by a collection that the transformation makes.
fn by_namespace(rig: &Rig, wanted: &Collection<Item>, all: &Collection<Item>, made: &Log) -> Collection<Lender> {
    let (all, made) = (all.clone(), made.clone());
    rig.krt.collection("lenders", wanted, move |cx, item| {
        let child = |cx: &mut crate::Context<'_>| {
            let namespace = item.name.clone();
            let (all, made, value) = (all.clone(), made.clone(), item.value);
            cx.scoped(&format!("child {}", item.value / 10), move |scope| {
                made.add(format!("{namespace} {value}"));
                scope.collection("child", &all, move |_, item| {
                    (item.ns == namespace).then(|| (**item).clone())
                })
            })
        };
        if item.value % 10 == 7 {
            return None;
        }
        let items = child(cx);
        assert!(items == child(cx), "the same child within one run");
        assert!(item.value % 10 != 8, "unlucky");
        if item.value % 10 == 9 {
            cx.discard_result();
        }
        Some(lender(&item.name, &items))
    })
}

// [K34] the same child while its key stays; another key is another child; one that is not asked for is dropped
#[test]
fn a_child_lives_while_it_is_asked_for() {
    let mut rig = Rig::new();
    let all = items(&rig, "all", &[("x/a", 1), ("x/b", 2), ("y/c", 3)]);
    let wanted = items(&rig, "wanted", &[("x", 0)]);
    let made = Log::default();
    let lenders = by_namespace(&rig, &wanted, &all, &made);
    let join = rig.krt.nested_join("join", &lenders);
    let log = Log::default();
    let handler = log.follow(&join);
    rig.settle();
    assert_eq!(made.take(), ["x 0"]);
    assert_eq!(log.take(), ["+x/a=1", "+x/b=2"]);
    assert!(
        join.has_synced(),
        "the first members are waited for though they are added later"
    );
    let child = lenders.get("x").unwrap().items.clone();
    wanted.update(Item::new("x", 1));
    wanted.update(Item::new("y", 0));
    rig.settle();
    assert_eq!(made.take(), ["y 0"]);
    assert!(
        lenders.get("x").unwrap().items == child,
        "its input changed, and its key did not"
    );
    assert_eq!(log.take(), ["+y/c=3"]);
    // Another key: the members are exchanged, and as they are equal nobody hears of it.
    wanted.update(Item::new("x", 10));
    rig.settle();
    assert_eq!(made.take(), ["x 10"]);
    assert!(lenders.get("x").unwrap().items != child);
    assert_eq!(log.take(), [""; 0]);
    assert_eq!(rig.stepper.collections(), 7, "the test still has the first child");
    drop(child);
    rig.settle();
    assert_eq!(rig.stepper.collections(), 6);
    // Not asked for, then asked for again.
    wanted.update(Item::new("x", 17));
    rig.settle();
    assert_eq!(log.take(), ["-x/a=1", "-x/b=2"]);
    assert_eq!(rig.stepper.collections(), 5);
    wanted.update(Item::new("x", 11));
    rig.settle();
    assert_eq!(made.take(), ["x 11"]);
    wanted.reset([]);
    rig.settle();
    assert_eq!(rig.stepper.collections(), 4, "children go with their inputs");
    drop((wanted, all, lenders, join, handler));
    rig.settle();
    assert_eq!(rig.stepper.collections(), 0);
}

// [K34] runs whose result is not used keep what the last outputs need
#[test]
fn a_child_survives_runs_whose_result_is_not_used() {
    let mut rig = Rig::new();
    let all = items(&rig, "all", &[("x/a", 1)]);
    let wanted = items(&rig, "wanted", &[("x", 0)]);
    let made = Log::default();
    let lenders = by_namespace(&rig, &wanted, &all, &made);
    rig.settle();
    let child = lenders.get("x").unwrap().items.clone();
    for value in [18, 28, 19, 29] {
        wanted.update(Item::new("x", value));
        rig.settle();
    }
    assert!(lenders.get("x").unwrap().items == child);
    assert_eq!(made.take(), ["x 0", "x 18", "x 19", "x 28", "x 29"]);
    assert_eq!(
        rig.stepper.collections(),
        5,
        "of the children of such runs the last one"
    );
    wanted.update(Item::new("x", 3));
    rig.settle();
    assert_eq!(made.take(), [""; 0]);
    assert!(lenders.get("x").unwrap().items == child);
    assert_eq!(rig.stepper.collections(), 4);
}

/// A child that captures what its transformation fetched, in an epoch in which that changes from 1 to 2. Returns what it shows.
fn captured_by_a_child() -> Vec<String> {
    let mut rig = Rig::new();
    let wanted = items(&rig, "wanted", &[("x", 0)]);
    let version = items(&rig, "version", &[("v", 1)]);
    let high = version.collection_of(&rig.krt, "one").collection_of(&rig.krt, "two");
    let all = items(&rig, "all", &[("a", 0)]);
    let input = all.clone();
    let lenders = rig.krt.collection("lenders", &wanted, move |cx, item| {
        let version = if item.value == 0 {
            0
        } else {
            cx.fetch_one(high.query())?.value
        };
        let all = input.clone();
        let child = cx.scoped(&item.value.to_string(), move |scope| {
            scope.collection("child", &all, move |_, item| Some(Item::new(&item.name, version)))
        });
        Some(lender(&item.name, &child))
    });
    let join = rig.krt.nested_join("join", &lenders);
    rig.settle();
    assert_eq!(content(&join), ["a=0"]);
    // The first fetch of `high`, in an epoch that changes it.
    wanted.update(Item::new("x", 1));
    version.update(Item::new("v", 2));
    rig.settle();
    assert_eq!(lenders.stats().superseded, 1);
    content(&join)
}

// [K34] a child that a superseded run made is dropped: it may have captured what was old
#[test]
fn a_child_of_a_superseded_run_is_dropped() {
    assert_eq!(captured_by_a_child(), ["a=2"]);
}

// The test before is tested itself.
#[test]
fn a_child_of_a_superseded_run_that_stays_is_found() {
    planted::plant(Some(Bug::SupersededChild));
    let shown = captured_by_a_child();
    planted::plant(None);
    assert_eq!(shown, ["a=1"]);
}

// [K34] [K17] a child may be fetched by the transformation that made it: the input runs again once it is there
#[test]
fn a_child_can_be_fetched_by_its_own_transformation() {
    let mut rig = Rig::new();
    let all = items(&rig, "all", &[("a", 1), ("b", 2)]);
    let wanted = items(&rig, "wanted", &[("x", 2)]);
    let input = all.clone();
    let counts = rig.krt.collection("counts", &wanted, move |cx, item| {
        let (all, least) = (input.clone(), item.value);
        let child = cx.scoped(&least.to_string(), move |scope| {
            scope.collection("child", &all, move |_, item| {
                (item.value >= least).then(|| (**item).clone())
            })
        });
        Some(Item::new(
            &item.name,
            i64::try_from(cx.fetch(child.query()).len()).unwrap(),
        ))
    });
    let log = Log::default();
    let handler = log.follow(&counts);
    rig.settle();
    assert_eq!(log.take(), ["+x=1"]);
    all.update(Item::new("c", 3));
    rig.settle();
    assert_eq!(log.take(), ["x=1>2"]);
    wanted.update(Item::new("x", 1));
    rig.settle();
    assert_eq!(log.take(), ["x=2>3"]);
    assert_eq!(rig.stepper.collections(), 4);
    drop((wanted, all, counts, handler));
    rig.settle();
    assert_eq!((rig.stepper.collections(), rig.stepper.dependencies()), (0, [0; 4]));
}

// [K34] a child that reads the join it is to be a member of, and one that reads the collection that makes it
#[test]
fn a_child_that_closes_a_cycle_is_refused() {
    let mut rig = Rig::new();
    let wanted = items(&rig, "wanted", &[("x", 1)]);
    let back: Arc<Mutex<Option<Collection<Item>>>> = Arc::default();
    let lent = Arc::clone(&back);
    let lenders = rig.krt.collection("lenders", &wanted, move |cx, item| {
        let back = lent.lock().clone()?;
        let child = cx.scoped("child", move |scope| {
            scope.collection("child", &back, |_, item| Some((**item).clone()))
        });
        Some(lender(&item.name, &child))
    });
    let join = rig.krt.nested_join("join", &lenders);
    rig.settle();
    assert!(join.has_synced());
    *back.lock() = Some(join.clone());
    wanted.update(Item::new("x", 2));
    rig.settle();
    assert_eq!(rig.stepper.cycles(), [["join", "child", "join"]]);
    assert!(join.is_empty());

    let own: Arc<Mutex<Option<Collection<Item>>>> = Arc::default();
    let lent = Arc::clone(&own);
    let eater = rig.krt.collection("eater", &wanted, move |cx, item| {
        let own = lent.lock().clone()?;
        let child = cx.scoped("tail", move |scope| {
            scope.collection("tail", &own, |_, item| Some((**item).clone()))
        });
        cx.fetch(child.query());
        Some((**item).clone())
    });
    rig.settle();
    *own.lock() = Some(eater.clone());
    wanted.update(Item::new("x", 3));
    rig.settle();
    assert!(
        rig.stepper
            .cycles()
            .contains(&vec!["eater".into(), "tail".into(), "eater".into()])
    );
    assert!(eater.is_empty());
    back.lock().take();
    own.lock().take();
}
