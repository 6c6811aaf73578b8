//! Writes that are never seen half done: transactions, resets, deletes by a condition.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::threads::{LONG, started};
use super::*;
use crate::Snapshot;

// [K33] [K36] nothing is written before the function has returned, and then all of it is of one epoch
#[test]
fn a_transaction_is_one_epoch_of_all_its_sources() {
    let mut rig = Rig::new();
    let krt = rig.krt.clone();
    let left = items(&rig, "left", &[("a", 1), ("b", 2)]);
    let right = items(&rig, "right", &[("c", 3)]);
    let single = krt.static_singleton("single", Some(Item::new("s", 10)));
    let late = krt.unsynced_collection::<Item>("late");
    let trigger = krt.trigger("trigger");
    trigger.mark_synced();
    let (runs, log, epochs) = (Log::default(), Log::default(), Log::default());
    let (fetched, logged) = (left.clone(), runs.clone());
    let _sum = krt.collection("sum", &right, move |cx, item| {
        let left: i64 = cx.fetch(fetched.query()).iter().map(|item| item.value).sum();
        logged.add(format!("{} with {left}", item.key()));
        Some(Item::new(&item.name, item.value + left))
    });
    let (fired, logged) = (trigger.clone(), runs.clone());
    let _fired = krt.singleton("fired", move |cx| {
        cx.depend_on(&fired);
        logged.add("fired");
        None::<Item>
    });
    let _handlers = [&left, &right, &*single, &late].map(|source| log.follow(source));
    let _batches = [&*left, &*right, &single].map(|source| {
        let epochs = epochs.clone();
        source.on_batch(move |batch| epochs.add(batch.epoch().to_string()))
    });
    rig.settle();
    let _ = [&runs, &log, &epochs].map(Log::take);
    let returned = krt.transaction(|t| {
        t.delete(&left, "a");
        t.update(&right, Item::new("a", 1));
        t.conditional_update(&right, Item::new("c", 3));
        t.set(&single, Item::new("s", 11));
        assert!(!rig.step(), "nothing is written yet");
        t.update(&left, Item::new("d", 50));
        // It knows what was written before it, and not what comes after.
        t.delete_where(&left, |item| item.value > 40);
        t.update(&left, Item::new("e", 60));
        t.update(&late, Item::new("f", 1));
        t.mark_synced(&late);
        t.fire(&trigger);
        7
    });
    assert_eq!(returned, 7);
    assert!(rig.step());
    assert!(!rig.step());
    rig.settle();
    assert_eq!(runs.take(), ["a with 62", "c with 62", "fired"]);
    assert_eq!(log.take(), ["+a=1", "+e=60", "+f=1", "-a=1", "s=10>11"]);
    let epochs = epochs.take();
    assert_eq!(epochs.len(), 3);
    assert_eq!(epochs[0], epochs[2], "one epoch");
    assert!(late.has_synced());
}

// [K33] a condition holds for what is there when the transaction takes effect, also for what came in between
#[test]
fn a_condition_is_asked_again_if_somebody_writes_meanwhile() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1), ("b", 7)]);
    let other = items(&rig, "other", &[]);
    let log = Log::default();
    let _handler = log.follow(&source);
    rig.settle();
    log.take();
    let interrupted = AtomicBool::new(false);
    rig.krt.transaction(|t| {
        t.update(&other, Item::new("o", 1));
        t.delete_where(&source, |item| {
            if !interrupted.swap(true, Ordering::Relaxed) {
                source.update(Item::new("c", 8));
                source.update(Item::new("a", 2));
            }
            item.value > 5
        });
    });
    rig.settle();
    assert_eq!(log.take(), ["-b=7", "a=1>2"]);
    assert_eq!([content(&source), content(&other)].concat(), ["a=2", "o=1"]);
}

// [K33] a transaction that fails writes nothing
#[test]
fn a_transaction_that_panics_writes_nothing() {
    let mut rig = Rig::new();
    let (source, foreign) = (items(&rig, "source", &[("a", 1)]), items(&Rig::new(), "foreign", &[]));
    rig.settle();
    let fails = |f: &dyn Fn(&mut crate::Transaction<'_>)| {
        let call = || {
            rig.krt.transaction(|t| {
                t.update(&source, Item::new("b", 2));
                f(t);
            });
        };
        assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
    };
    fails(&|_| panic!("the user's"));
    fails(&|t| t.update(&source, Item::new("", 1)));
    fails(&|t| t.update(&foreign, Item::new("a", 1)));
    fails(&|t| t.delete_where(&source, |_| panic!("the user's")));
    assert!(!rig.step());
    rig.krt.transaction(|_| ());
    assert!(!rig.step(), "nothing to write");
    assert_eq!(content(&source), ["a=1"]);
}

// A transaction over a source that was stopped writes to the others.
#[test]
fn a_transaction_passes_over_what_was_stopped() {
    let mut rig = Rig::new();
    let (one, two) = (items(&rig, "one", &[("a", 1)]), items(&rig, "two", &[("a", 1)]));
    one.stop();
    rig.settle();
    rig.krt.transaction(|t| {
        t.delete_where(&one, |_| true);
        t.reset(&one, [Item::new("b", 2)]);
        t.reset(&two, [Item::new("b", 2)]);
    });
    rig.settle();
    assert_eq!([content(&one), content(&two)].concat(), ["a=1", "b=2"]);
}

/// What a handler knows by what it was told.
fn fold(known: &mut BTreeMap<String, i64>, batch: &crate::Batch<Item>) {
    for event in batch.events() {
        let key = event.latest().key().to_string();
        match event.new() {
            Some(new) => known.insert(key, new.value),
            None => known.remove(&key),
        };
    }
}

const ACCOUNTS: i64 = 8;
const TOTAL: i64 = 100 * ACCOUNTS;

/// Sources with invariants that only whole writes keep.
struct Bank {
    /// The values of both together are always the same.
    left: StaticCollection<Item>,
    right: StaticCollection<Item>,
    /// All have the same value.
    reset: StaticCollection<Item>,
    /// `a` and `b` of a value are there, or neither.
    pairs: StaticCollection<Item>,
}

fn is_uniform<'a>(values: impl Iterator<Item = &'a i64>) -> bool {
    let values: Vec<_> = values.collect();
    values.len() == usize::try_from(ACCOUNTS).unwrap() && values.iter().all(|value| *value == values[0])
}

fn are_pairs(keys: impl Iterator<Item = String>) -> bool {
    let keys: std::collections::BTreeSet<_> = keys.collect();
    let twin = |key: &String| format!("{}{}", if key.starts_with('a') { 'b' } else { 'a' }, &key[1..]);
    keys.iter().all(|key| keys.contains(&twin(key)))
}

impl Bank {
    fn new(krt: &Krt) -> Self {
        let accounts = |value| (0..ACCOUNTS).map(move |number| Item::new(&format!("k{number}"), value));
        Self {
            left: krt.static_collection("left", accounts(100)),
            right: krt.static_collection("right", accounts(0)),
            reset: krt.static_collection("reset", accounts(0)),
            pairs: krt.static_collection("pairs", []),
        }
    }

    fn write(&self, krt: &Krt, round: i64, amounts: &mut [i64]) {
        let number = usize::try_from(round % ACCOUNTS).unwrap();
        amounts[number] = (amounts[number] + 37) % 101;
        let (key, amount) = (format!("k{number}"), amounts[number]);
        krt.transaction(|t| {
            t.update(&self.left, Item::new(&key, 100 - amount));
            t.update(&self.right, Item::new(&key, amount));
            t.update(&self.pairs, Item::new(&format!("a{}", round % 5), round));
            t.update(&self.pairs, Item::new(&format!("b{}", round % 5), round));
        });
        let items = (0..ACCOUNTS).map(|number| Item::new(&format!("k{number}"), round));
        self.reset.reset(items);
        if round % 3 == 0 {
            self.pairs.delete_where(|item| item.value % 2 == 0);
        }
    }

    fn check(&self, snapshot: &Snapshot) {
        let sum = |of: &Collection<Item>| -> i64 { snapshot.list(of).iter().map(|item| item.value).sum() };
        assert_eq!(sum(&self.left) + sum(&self.right), TOTAL);
        let values: Vec<_> = snapshot.list(&self.reset).iter().map(|item| item.value).collect();
        assert!(is_uniform(values.iter()), "{values:?}");
        assert!(are_pairs(
            snapshot.list(&self.pairs).iter().map(|item| item.name.clone())
        ));
    }
}

// [K33] neither transactions nor resets nor deletes are seen half done, by no handler, snapshot or transformation
#[test]
fn nobody_sees_a_write_half_done() {
    let krt = started();
    let bank = Arc::new(Bank::new(&krt));
    let (seen, wrong) = (Arc::new(AtomicU64::new(0)), Log::default());
    let (left, right, reset) = (bank.left.clone(), bank.right.clone(), bank.reset.clone());
    let (logged, counted) = (wrong.clone(), Arc::clone(&seen));
    let sum = krt.singleton("sum", move |cx| {
        let total: i64 = [&left, &right]
            .map(|side| cx.fetch(side.query()).iter().map(|item| item.value).sum::<i64>())
            .iter()
            .sum();
        let values: Vec<_> = cx.fetch(reset.query()).iter().map(|item| item.value).collect();
        if total != TOTAL || !is_uniform(values.iter()) {
            logged.add(format!("a transformation saw {total} and {values:?}"));
        }
        counted.fetch_add(1, Ordering::Relaxed);
        Some(Item::new("sum", total))
    });
    let (mut known, logged) = (BTreeMap::new(), wrong.clone());
    let _reset = bank.reset.handler().keep_all().on_batch(move |batch| {
        fold(&mut known, batch);
        if !is_uniform(known.values()) {
            logged.add(format!("a handler saw {known:?}"));
        }
    });
    let (mut known, logged) = (BTreeMap::new(), wrong.clone());
    let _pairs = bank.pairs.handler().merge_over(4).on_batch(move |batch| {
        fold(&mut known, batch);
        if !are_pairs(known.keys().cloned()) {
            logged.add(format!("a handler saw {known:?}"));
        }
    });
    krt.wait_settled_blocking(LONG).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    bank.check(&krt.snapshot());
                }
            });
        }
        let mut amounts = vec![0; usize::try_from(ACCOUNTS).unwrap()];
        for round in 1..1500 {
            bank.write(&krt, round, &mut amounts);
        }
        let settled = krt.wait_settled_blocking(LONG);
        done.store(true, Ordering::Relaxed);
        settled.unwrap();
    });
    assert_eq!(wrong.take(), [""; 0]);
    assert_eq!(content(&sum), [format!("sum={TOTAL}")]);
    assert!(seen.load(Ordering::Relaxed) > 1);
    assert!(is_uniform(
        bank.reset
            .list()
            .iter()
            .map(|item| item.value)
            .collect::<Vec<_>>()
            .iter()
    ));
}
