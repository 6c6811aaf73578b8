//! Collections that the program sets: what is told, what is coalesced, what counts as initial.

use super::*;
use crate::Text;

// [K22] an identical update tells, a conditional one does not
#[test]
fn an_update_tells_even_if_equal_and_a_conditional_one_does_not() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1)]);
    let runs = Log::default();
    let logged = runs.clone();
    let derived = rig.krt.collection("derived", &source, move |_, item| {
        logged.add(format!("run {}", item.value));
        Some((**item).clone())
    });
    let (log, further) = (Log::default(), Log::default());
    let _handlers = (log.follow(&source), further.follow(&derived));
    rig.settle();
    let _ = [&log, &further, &runs].map(Log::take);
    source.update(Item::new("a", 1));
    rig.settle();
    assert_eq!(log.take(), ["a=1>1"]);
    assert_eq!(runs.take(), ["run 1"], "dependants run");
    assert_eq!(further.take(), [""; 0], "but what they give is gated");
    source.conditional_update(Item::new("a", 1));
    rig.settle();
    assert_eq!([log.take(), runs.take()].concat(), [""; 0]);
    source.conditional_update(Item::new("a", 2));
    rig.settle();
    assert_eq!(log.take(), ["a=1>2"]);
}

// [K22] a reset tells the difference
#[test]
fn a_reset_tells_the_difference() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1), ("b", 2), ("c", 3)]);
    let log = Log::default();
    let _handler = log.follow(&source);
    rig.settle();
    log.take();
    source.reset([Item::new("b", 2), Item::new("c", 4), Item::new("d", 5)]);
    rig.settle();
    assert_eq!(log.take(), ["+d=5", "-a=1", "c=3>4"]);
    source.delete_where(|item| item.value > 2);
    rig.settle();
    assert_eq!(log.take(), ["-c=4", "-d=5"]);
}

// [K22] the key of a singleton changes: deleted and added
#[test]
fn a_singleton_whose_key_changes_is_deleted_and_added() {
    let mut rig = Rig::new();
    let single = rig.krt.static_singleton("single", Some(Item::new("a", 1)));
    let log = Log::default();
    let _handler = log.follow(&single);
    rig.settle();
    single.set(Item::new("b", 1));
    rig.settle();
    single.set(Item::new("b", 2));
    rig.settle();
    single.set(None);
    rig.settle();
    assert_eq!(log.take(), ["+a=1", "+b=1", "-a=1", "-b=2", "b=1>2"]);
    assert_eq!(single.get(), None);
}

// [K22] what is set before the source is marked synced is its initial state
#[test]
fn what_is_set_before_the_mark_is_the_initial_state() {
    let mut rig = Rig::new();
    let source = rig.krt.unsynced_collection::<Item>("source");
    let derived = source.collection_of(&rig.krt, "derived");
    let batches = Log::default();
    let logged = batches.clone();
    let registration = derived.on_batch(move |batch| logged.add(format!("{}", batch.len())));
    source.update(Item::new("a", 1));
    rig.settle();
    source.update(Item::new("b", 1));
    rig.settle();
    assert!(!source.has_synced() && !derived.has_synced() && !registration.has_synced());
    assert!(derived.is_empty());
    source.mark_synced();
    rig.settle();
    assert!(source.has_synced() && derived.has_synced() && registration.has_synced());
    assert_eq!(batches.take(), ["2"], "the initial state is told whole");
}

// [K30] delete and create of one key in one epoch is one update, silent if equal; create and delete is nothing
#[test]
fn a_key_that_is_deleted_and_created_in_one_epoch_is_updated() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1)]);
    let log = Log::default();
    let _handler = log.follow(&source);
    rig.settle();
    log.take();
    source.delete("a");
    source.update(Item::new("a", 2));
    rig.settle();
    assert_eq!(log.take(), ["a=1>2"]);
    source.delete("a");
    source.update(Item::new("a", 2));
    rig.settle();
    assert_eq!(log.take(), [""; 0]);
    source.update(Item::new("b", 2));
    source.delete("b");
    rig.settle();
    assert_eq!(log.take(), [""; 0]);
    assert_eq!(content(&source), ["a=2"]);
}

#[test]
fn deleting_what_matches_counts_what_was_written_before() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1)]);
    source.update(Item::new("b", 5));
    source.delete_where(|item| item.value > 2);
    source.update(Item::new("c", 5));
    rig.settle();
    assert_eq!(content(&source), ["a=1", "c=5"]);
}

#[test]
fn texts_are_items() {
    let mut rig = Rig::new();
    let texts = rig.krt.static_collection("texts", ["a", "b"].map(Text::from));
    rig.settle();
    assert_eq!(texts.get("b").as_deref(), Some(&Text::from("b")));
}

// [K31] a source that is filled and emptied again and again uses the same ids
#[test]
fn keys_that_come_and_go_leave_nothing() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("keep", 1)]);
    let by_name = source.index_by("name", |item| item.name.clone()).unwrap();
    let wanted = items(&rig, "wanted", &[("keep", 1)]);
    let index = by_name.clone();
    let found = rig.krt.collection("found", &wanted, move |cx, item| {
        cx.fetch_one(index.at(&item.name)).map(|found| (*found).clone())
    });
    rig.settle();
    let fresh = rig.stepper.dependencies();
    for round in 0..300 {
        let key = format!("k{round}");
        source.update(Item::new(&key, 1).labels(&[("unique", &key)]));
        wanted.update(Item::new(&key, 1));
        rig.settle();
        assert_eq!(found.len(), 2);
        source.delete(&key);
        wanted.delete(&key);
        rig.settle();
    }
    assert_eq!(rig.stepper.dependencies(), fresh);
    assert_eq!(content(&found), ["keep=1"]);
}

// [K23] a trigger blocks sync until marked, and has its dependants run each time though nothing is unequal
#[test]
fn a_trigger_has_its_dependants_run() {
    let mut rig = Rig::new();
    let trigger = rig.krt.trigger("outside");
    let input = items(&rig, "input", &[("a", 1), ("b", 2)]);
    let outside = Arc::new(Mutex::new(0));
    let (log, runs) = (Log::default(), Log::default());
    let (state, fired, logged) = (Arc::clone(&outside), trigger.clone(), runs.clone());
    let out = rig.krt.collection("out", &input, move |cx, item| {
        logged.add(&*item.name);
        if item.value == 1 {
            cx.depend_on(&fired);
        }
        Some(Item::new(&item.name, item.value + *state.lock()))
    });
    let _handler = log.follow(&out);
    rig.settle();
    assert!(!out.has_synced());
    trigger.mark_synced();
    rig.settle();
    assert!(out.has_synced());
    assert_eq!(log.take(), ["+a=1", "+b=2"]);
    runs.take();
    trigger.fire();
    trigger.fire();
    rig.settle();
    assert_eq!((runs.take(), log.take()), (vec!["a".to_owned()], Vec::new()));
    *outside.lock() = 10;
    trigger.fire();
    rig.settle();
    assert_eq!(
        (runs.take(), log.take()),
        (vec!["a".to_owned()], vec!["a=1>11".to_owned()])
    );
}

// [K23] protected state: readers run at each modification, and see the value of their epoch
#[test]
fn protected_state_has_its_readers_run() {
    let mut rig = Rig::new();
    let state = rig.krt.recompute_protected("state", 10);
    let input = items(&rig, "input", &[("a", 1), ("b", 2)]);
    let (log, runs) = (Log::default(), Log::default());
    let reads = |name: &str| {
        let (read, logged) = (state.clone(), runs.clone());
        rig.krt.collection(name, &input, move |cx, item| {
            logged.add(&*item.name);
            let state = if item.value == 1 { *read.get(cx) } else { 0 };
            Some(Item::new(&item.name, item.value + state))
        })
    };
    let (out, other) = (reads("out"), reads("other"));
    let together = rig
        .krt
        .join_with_merge("together", [out.clone(), other.clone()], |items| {
            assert!(items.iter().all(|item| item.value == items[0].value), "of two epochs");
            Some((*items[0]).clone())
        });
    let handlers = (log.follow(&out), log.follow(&together));
    assert_eq!(state.published(), None);
    rig.settle();
    assert!(out.has_synced(), "the first value is there from the start");
    assert_eq!(log.take(), ["+a=11", "+a=11", "+b=2", "+b=2"]);
    runs.take();
    state.modify(|value| value + 5);
    state.modify(|value| value * 2);
    assert_eq!(state.published().as_deref(), Some(&10), "until the next epoch");
    rig.settle();
    assert_eq!(runs.take(), ["a", "a"], "once in each collection that reads it");
    assert_eq!(log.take(), ["a=11>31", "a=11>31"]);
    assert_eq!(state.published().as_deref(), Some(&30));
    // Nothing differs: it runs, and nobody is told.
    state.modify(|value| *value);
    rig.settle();
    assert_eq!((runs.take(), log.take()), (vec!["a".to_owned(); 2], Vec::new()));
    assert_eq!(together.stats().panics, 0);
    // State that a transformation makes for itself is there in the next epoch.
    let own = rig.krt.singleton("own", move |cx| {
        let state = cx.scoped("state", |scope| scope.recompute_protected("made", 7));
        Some(Item::new("own", *state.get(cx)))
    });
    rig.settle();
    assert_eq!(content(&own), ["own=7"]);
    // It goes with its last handle and reader, and after the end nothing happens.
    drop((handlers, out, other, together, own));
    rig.settle();
    assert_eq!(rig.stepper.collections(), 2);
    rig.krt.end();
    state.modify(|_| panic!("nothing is left to modify"));
    drop((state, input));
}

// [K23] several threads modify it, and nothing is lost
#[test]
fn no_modification_of_protected_state_is_lost() {
    let krt = super::threads::started();
    let state = krt.recompute_protected("state", 0);
    let read = state.clone();
    let seen = krt.singleton("seen", move |cx| Some(Item::new("seen", *read.get(cx))));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..500).for_each(|_| state.modify(|value| value + 1)));
        }
    });
    krt.wait_settled_blocking(super::threads::LONG).unwrap();
    assert_eq!(content(&seen), ["seen=2000"]);
    assert_eq!(state.published().as_deref(), Some(&2000));
}

/// A handle of another collection, as an item: dropping it calls the engine.
#[derive(PartialEq)]
struct Lends(Collection<Item>);

impl Keyed for Lends {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::Plain("lends")
    }
}

// What is written in vain is dropped without the lock that dropping a handle takes.
#[test]
fn writes_after_a_stop_or_the_end_are_dropped() {
    let mut rig = Rig::new();
    let lent = || Lends((*items(&rig, "lent", &[])).clone());
    let [before, after, late] = [lent(), lent(), lent()];
    let source = rig.krt.static_collection("source", [before]);
    rig.settle();
    source.stop();
    rig.settle();
    source.update(after);
    rig.settle();
    assert_eq!(
        rig.stepper.collections(),
        3,
        "the source, what it has, and what is not written yet"
    );
    source.delete("lends");
    rig.krt.end();
    let never = rig.krt.static_collection("never", [late]);
    assert!(never.is_empty() && source.get("lends").is_some());
}

#[test]
fn an_engine_that_ended_has_nothing_to_step() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1)]);
    rig.settle();
    source.update(Item::new("a", 2));
    rig.krt.end();
    assert!(!rig.stepper.step());
    assert_eq!(content(&source), ["a=1"]);
}

// [K22] [K31] a key whose delete the engine is applying is written to: it is a new object, as if the write had come later
#[test]
fn a_key_that_is_written_to_while_its_delete_is_applied_is_there_again() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1), ("b", 2)]);
    let other = items(&rig, "other", &[("x", 0)]);
    let written = source.clone();
    // What runs in an epoch stands for another thread that writes meanwhile.
    let _echo = rig.krt.collection("echo", &other, move |_, item| {
        match item.value {
            1 => written.update(Item::new("a", 10)),
            2 => {
                written.update(Item::new("a", 20));
                written.delete("a");
            }
            3 => written.delete("a"),
            _ => {}
        }
        Some((**item).clone())
    });
    let log = Log::default();
    let _handler = log.follow(&source);
    rig.settle();
    log.take();
    let snapshot = rig.krt.snapshot();
    for (value, told, left) in [
        (1, &["+a=10", "-a=1"][..], &["a=10", "b=2"][..]),
        (2, &["-a=10"], &["b=2"]),
        (3, &[], &["b=2"]),
    ] {
        source.delete("a");
        other.update(Item::new("x", value));
        rig.settle();
        assert_eq!(log.take(), told);
        assert_eq!(content(&source), left);
    }
    // Ids are given out anew.
    source.reset(["c", "d", "a"].map(|name| Item::new(name, 3)));
    rig.settle();
    assert_eq!(content(&source), ["a=3", "c=3", "d=3"]);
    assert_eq!(snapshot.get(&source, "a").map(|item| item.value), Some(1));
    assert_eq!(snapshot.list(&source).len(), 2);
    drop(snapshot);
    rig.settle();
    assert_eq!((source.dated(), source.retained()), (0, 0));
}
