//! Each merge rule by itself, and seeded histories that compare a lagging handler's fold with the cache.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::testing::{Item, fold, item};

fn added(name: &str, version: u64, initial: bool) -> Event<Item> {
    Event::Added {
        object: item(name, "u", version),
        initial,
    }
}

fn updated(name: &str, old: u64, new: u64) -> Event<Item> {
    Event::Updated {
        old: item(name, "u", old),
        new: item(name, "u", new),
    }
}

fn deleted(name: &str, version: u64, stale: bool) -> Event<Item> {
    Event::Deleted {
        object: item(name, "u", version),
        stale,
    }
}

/// Appends a batch; what that lets go of is dropped.
fn push(backlog: &mut Backlog<Item>, batch: &[Event<Item>]) -> Exempt {
    backlog.push(&Batch::from(batch.to_vec()), Exempt::of(batch), &mut Garbage::default())
}

/// A backlog that merges from the first event on.
fn merging(events: &[Event<Item>]) -> (Backlog<Item>, usize) {
    let mut backlog = Backlog::new(0);
    let mut lost = 0;
    for event in events {
        lost += push(&mut backlog, std::slice::from_ref(event)).initial;
    }
    (backlog, lost)
}

/// What is left, readable.
fn drain(backlog: &mut Backlog<Item>) -> Vec<String> {
    let mut left = Vec::new();
    while let Some(taken) = backlog.take() {
        left.extend(taken.events().iter().map(|event| match event {
            Event::Added { object, initial } => format!("+{}{}", object.value, if *initial { " initial" } else { "" }),
            Event::Updated { old, new } => format!("{} > {}", old.value, new.value),
            Event::Deleted { object, stale } => format!("-{}{}", object.value, if *stale { " stale" } else { "" }),
        }));
    }
    assert_eq!(backlog.len(), 0);
    left
}

// [I34] each merge rule
#[test]
fn merge_keeps_the_net_effect_of_each_pair() {
    let cases: [(&[Event<Item>], &[&str]); 8] = [
        (&[added("a", 1, false), updated("a", 1, 2)], &["+a@2"]),
        (&[updated("a", 1, 2), updated("a", 2, 3)], &["a@1 > a@3"]),
        (&[updated("a", 1, 2), deleted("a", 3, false)], &["-a@3"]),
        (&[updated("a", 1, 2), deleted("a", 2, true)], &["-a@2 stale"]),
        (&[added("a", 1, false), deleted("a", 1, false)], &[]),
        (&[deleted("a", 1, false), added("a", 2, false)], &["-a@1", "+a@2"]),
        (
            &[
                deleted("a", 1, false),
                added("a", 2, false),
                deleted("a", 2, false),
                added("a", 3, false),
            ],
            &["-a@1", "+a@3"],
        ),
        // the place of the first is kept
        (
            &[updated("a", 1, 2), updated("b", 1, 2), updated("a", 2, 3)],
            &["a@1 > a@3", "b@1 > b@2"],
        ),
    ];
    for (events, expected) in cases {
        assert_eq!(drain(&mut merging(events).0), expected, "{events:?}");
    }
}

// [I34] an initial Added stays initial when merged, and counts as delivered when merged away
#[test]
fn merged_away_initial_events_are_reported() {
    let (mut backlog, lost) = merging(&[added("a", 1, true), updated("a", 1, 2), updated("b", 1, 2)]);
    assert_eq!(lost, 0);
    assert_eq!(drain(&mut backlog), ["+a@2 initial", "b@1 > b@2"]);
    let (backlog, lost) = merging(&[updated("b", 1, 2), added("a", 1, true), deleted("a", 1, false)]);
    assert_eq!((lost, backlog.len()), (1, 1));
}

#[test]
fn below_the_limit_every_event_is_given_out() {
    let mut backlog = Backlog::new(3);
    for version in 1..=3 {
        let lost = push(&mut backlog, &[updated("a", version, version + 1)]);
        assert_eq!(lost, Exempt::default());
    }
    assert_eq!(backlog.coalesced(), 0);
    assert_eq!(drain(&mut backlog), ["a@1 > a@2", "a@2 > a@3", "a@3 > a@4"]);
}

#[test]
fn initial_state_does_not_count_towards_the_limit() {
    let mut backlog = Backlog::new(2);
    let initial: Vec<Event<Item>> = (0..1000).map(|n| added(&format!("i{n}"), 1, true)).collect();
    push(&mut backlog, &initial);
    push(&mut backlog, &[updated("i0", 1, 2), updated("i0", 2, 3)]);
    assert_eq!(backlog.coalesced(), 0);
    push(&mut backlog, &[updated("i0", 3, 4)]);
    assert_eq!((backlog.coalesced(), backlog.len()), (3, 1000));
    assert_eq!(drain(&mut backlog)[0], "+i0@4 initial");
}

/// One random history of a few keys, pushed in batches, taken at random, compared with the cache at the end.
fn random_history(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let limit = random.usize(0..20);
    let mut backlog: Backlog<Item> = Backlog::new(limit);
    let mut cache: BTreeMap<String, Arc<Item>> = BTreeMap::new();
    let mut seen = BTreeMap::new();
    let mut version = 0;
    let keys = ["a", "b", "c", "d", "e"];
    for _ in 0..random.usize(1..400) {
        let mut batch = Vec::new();
        for _ in 0..random.usize(1..4) {
            version += 1;
            let name = *random.choice(&keys).unwrap();
            match cache.get(name).cloned() {
                None => {
                    let object = item(name, &version.to_string(), version);
                    cache.insert(name.to_owned(), Arc::clone(&object));
                    batch.push(Event::Added { object, initial: false });
                }
                Some(old) if random.bool() => {
                    let new = item(name, &old.metadata.uid, version);
                    cache.insert(name.to_owned(), Arc::clone(&new));
                    batch.push(Event::Updated { old, new });
                }
                Some(object) => {
                    cache.remove(name);
                    batch.push(Event::Deleted {
                        object,
                        stale: random.bool(),
                    });
                }
            }
        }
        push(&mut backlog, &batch);
        if backlog.coalesced() > 0 && backlog.merged.is_some() {
            assert!(
                backlog.len() <= 2 * keys.len(),
                "seed {seed}: {} pending",
                backlog.len()
            );
        }
        if random.u8(..) < 40
            && let Some(taken) = backlog.take()
        {
            fold(&mut seen, taken.events());
        }
    }
    while let Some(taken) = backlog.take() {
        fold(&mut seen, taken.events());
    }
    let expected: Vec<&Arc<Item>> = cache.values().collect();
    assert_eq!(seen.values().collect::<Vec<_>>(), expected, "seed {seed}");
}

// [I34] memory at most two events per key, and the fold equals the store
#[test]
fn fold_of_a_lagging_handler_equals_the_cache() {
    for seed in 0..500 {
        random_history(seed);
    }
}

// [K33] what is taken in whole steps ends where a batch ended, merged or not; in parts, at most so many at once
#[test]
fn whole_steps_are_never_taken_in_parts() {
    let list: Vec<Event<Item>> = (0..1000).map(|n| added(&format!("i{n}"), 1, false)).collect();
    let mut parts = Backlog::new(5000);
    push(&mut parts, &list);
    assert_eq!(parts.take().unwrap().events().len(), TAKE);
    for limit in [5000, 10] {
        let mut whole = Backlog::new(limit).in_whole_steps();
        push(&mut whole, &list);
        push(&mut whole, &[updated("i1", 1, 2), updated("i2", 1, 2)]);
        let merges = limit == 10;
        assert_eq!(whole.take().unwrap().events().len(), 1000, "merged: {merges}");
        let rest = whole.take().map_or(0, |taken| taken.events().len());
        assert_eq!(rest, if merges { 0 } else { 2 });
        assert_eq!(whole.len(), 0);
        // What was cleared away does not make it forget.
        drop(whole.clear());
        push(&mut whole, &list);
        assert_eq!(whole.take().unwrap().events().len(), 1000);
    }
}

fn resync(name: &str, version: u64) -> Event<Item> {
    let object = item(name, "u", version);
    Event::Updated {
        old: Arc::clone(&object),
        new: object,
    }
}

// [I11] a resync merges into what waits: it never hides a change, nor makes one
#[test]
fn resync_merges_into_changes_and_changes_into_it() {
    type Case<'a> = (&'a [Event<Item>], &'a [&'a str], usize);
    let cases: [Case<'_>; 5] = [
        (&[added("a", 1, true), resync("a", 1)], &["+a@1 initial"], 1),
        (&[updated("a", 1, 2), resync("a", 2)], &["a@1 > a@2"], 1),
        (&[resync("a", 1), updated("a", 1, 2)], &["a@1 > a@2"], 1),
        (&[resync("a", 1), deleted("a", 1, false)], &["-a@1"], 1),
        (&[resync("a", 1), resync("b", 1)], &["a@1 > a@1", "b@1 > b@1"], 0),
    ];
    for (events, expected, merged_away) in cases {
        // A change without a key in common puts the backlog into the mode that merges.
        let (mut backlog, lost) = merging(&[]);
        assert_eq!(lost, 0);
        push(&mut backlog, &[updated("first", 1, 2)]);
        let lost: usize = events
            .iter()
            .map(|event| push(&mut backlog, std::slice::from_ref(event)).resync)
            .sum();
        assert_eq!(lost, merged_away, "{events:?}");
        assert_eq!(drain(&mut backlog)[1..], *expected, "{events:?}");
        assert_eq!(backlog.exempt, Exempt::default(), "{events:?}");
    }
}

// [I11] [I34] a resync of many objects costs the handler no change in between
#[test]
fn resync_does_not_count_towards_the_limit() {
    let mut backlog = Backlog::new(2);
    let all: Vec<Event<Item>> = (0..1000).map(|n| resync(&format!("i{n}"), 1)).collect();
    push(&mut backlog, &all);
    push(&mut backlog, &[updated("i0", 1, 2), updated("i0", 2, 3)]);
    assert_eq!((backlog.coalesced(), backlog.len()), (0, 1002));
    assert_eq!(drain(&mut backlog).last().map(String::as_str), Some("i0@2 > i0@3"));
}

// The last reference to an object may be in what a merge lets go of: it is handed out, since the caller holds locks.
#[test]
fn merged_away_objects_are_handed_out() {
    let mut backlog = Backlog::new(0);
    let (first, second) = (item("a", "u", 1), item("a", "u", 2));
    let weak = [Arc::downgrade(&first), Arc::downgrade(&second)];
    let mut garbage = Garbage::default();
    let steps = [
        Event::Updated {
            old: Arc::clone(&first),
            new: Arc::clone(&second),
        },
        Event::Updated {
            old: second,
            new: item("a", "u", 3),
        },
        Event::Deleted {
            object: item("a", "u", 4),
            stale: false,
        },
    ];
    drop(first);
    for event in steps {
        backlog.push(&Batch::from(vec![event]), Exempt::default(), &mut garbage);
    }
    assert!(weak.iter().all(|object| object.strong_count() > 0), "dropped inside");
    assert_eq!(drain(&mut backlog), ["-a@4"]);
    assert!(
        weak.iter().all(|object| object.strong_count() > 0),
        "only garbage holds them"
    );
    drop(garbage);
    assert!(weak.iter().all(|object| object.strong_count() == 0), "kept for ever");
}
