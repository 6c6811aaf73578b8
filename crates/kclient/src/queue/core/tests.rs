//! The state machine against the rules written naively, on random histories; and its races, one turn of the lock at a time.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::*;
use crate::queue::oracle::Oracle;

fn at(millis: u64) -> Tick {
    Tick::START.after(Duration::from_millis(millis))
}

/// What is to be done after the lock is released, done; returns how many were woken.
fn follow<T: Clone + Eq>(core: &mut Core<T>) -> usize {
    let effects = core.effects().unwrap_or_default();
    usize::from(effects.wake.is_some()) + effects.wake_too.len()
}

/// One random history; the core and the oracle must agree at every step.
fn history(seed: u64, keys: u32, steps: usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut core, mut oracle) = (Core::new(true), Oracle::default());
    let mut held: Vec<(u32, u32)> = Vec::new();
    let (mut adds, mut retries, mut depth) = (0, 0, 0);
    for step in 0..steps {
        let now = at(oracle.now);
        let key = random.u32(..keys);
        let priority = random.i32(-1..=1);
        let hash = u64::from(key % 3); // collisions on purpose
        match random.u32(..11) {
            0..=2 => {
                core.add(hash, &key, priority, Some(now));
                oracle.add(key, priority);
            }
            3..=4 => {
                let delay = random.u64(..20);
                core.add_at(hash, &key, priority, at(oracle.now + delay), now);
                oracle.add_after(key, priority, delay);
            }
            5..=6 => {
                let taken = match core.take(Some(now)) {
                    Take::Item(handout) => {
                        held.push((handout.slot, handout.key));
                        Some((handout.key, handout.priority))
                    }
                    Take::Empty => None,
                    Take::Closed => panic!("nobody shut it down"),
                };
                assert_eq!(taken, oracle.take(), "seed {seed}, step {step}");
            }
            7..=8 if !held.is_empty() => {
                let (slot, key) = held.swap_remove(random.usize(..held.len()));
                let requeue = random.bool().then(|| (priority, random.u64(..10)));
                let finish = Finish {
                    requeue: requeue.map(|(priority, delay)| (at(oracle.now + delay), priority)),
                    ..Finish::default()
                };
                core.finish(slot, finish, Some(now));
                oracle.done(key, requeue);
            }
            9 if random.u32(..20) == 0 => {
                // Everything at once, so that bursts end and memory is given back.
                while let Take::Item(handout) = core.take(Some(now)) {
                    assert_eq!(Some((handout.key, handout.priority)), oracle.take(), "seed {seed}");
                    core.finish(handout.slot, Finish::default(), Some(now));
                    oracle.done(handout.key, None);
                }
                assert_eq!(oracle.take(), None);
            }
            _ => oracle.now += random.u64(..10),
        }
        core.check_invariants();
        let now = at(oracle.now);
        core.promote(Some(now));
        oracle.promote();
        let metrics = core.metrics("", now);
        assert_eq!(
            (metrics.depth, metrics.adds_total, metrics.retries_total),
            (oracle.depth(), oracle.adds, oracle.retries),
            "seed {seed}, step {step}"
        );
        follow(&mut core);
        let report = core.report().unwrap_or_default();
        adds += report.adds;
        retries += report.retries;
        depth += report.depth;
        assert_eq!(
            (adds, retries, depth),
            (oracle.adds, oracle.retries, i64::try_from(oracle.depth()).unwrap()),
            "what was reported adds up, seed {seed}, step {step}"
        );
        assert_eq!(core.len(), oracle.len());
        assert_eq!(
            core.known(),
            oracle.known(),
            "seed {seed}, step {step}: nothing is kept for longer than needed"
        );
        check_snapshot(&core, &oracle, random.usize(..6));
    }
}

/// The snapshot shows what the oracle knows, cut off at the limit.
fn check_snapshot(core: &Core<u32>, oracle: &Oracle, limit: usize) {
    let snapshot = core.snapshot(limit, at(oracle.now));
    let queued: Vec<_> = snapshot.queued.iter().map(|one| (one.key, one.priority)).collect();
    let (expected, total) = (oracle.queued(), snapshot.queued_total);
    assert_eq!((queued, total), (first(&expected, limit), expected.len()));

    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap();
    let delayed: Vec<_> = snapshot
        .delayed
        .iter()
        .map(|one| (one.key, millis(one.ready_in)))
        .collect();
    let (expected, total) = (oracle.delayed(), snapshot.delayed_total);
    assert_eq!((delayed, total), (first(&expected, limit), expected.len()));

    let expected = oracle.processing();
    assert_eq!(snapshot.processing_total, expected.len());
    assert_eq!(snapshot.processing.len(), expected.len().min(limit));
    for one in &snapshot.processing {
        assert_eq!(one.again_in.map(millis), expected[&one.key], "key {}", one.key);
    }
    let running = snapshot.processing.iter().map(|one| one.running);
    assert!(
        running.is_sorted_by(|one, next| one >= next),
        "the longest-running first"
    );
}

fn first<T: Clone>(all: &[T], limit: usize) -> Vec<T> {
    all.iter().take(limit).cloned().collect()
}

// [Q2] [Q4] [Q7] [Q15] random adds, delays, priorities, hand-outs and dones, against the rules written naively
#[test]
fn every_history_agrees_with_the_oracle() {
    let base = fastrand::u64(..);
    println!("base seed {base}");
    for round in 0..200 {
        history(base.wrapping_add(round), 1 + (round % 12) as u32, 400);
    }
}

// [Q8] memory is that of the keys of late, not of all that ever were: a burst's is given back once the queue needs little again
#[test]
fn memory_of_a_burst_is_given_back() {
    let mut core = Core::new(false);
    let now = at(0);
    for key in 0..100_000_u32 {
        core.add(u64::from(key), &key, 0, None);
    }
    for key in 100_000..200_000_u32 {
        core.add_at(u64::from(key), &key, 0, at(1), now);
    }
    assert!(core.allocated_slots() >= 200_000);
    while let Take::Item(item) = core.take(Some(at(1))) {
        core.finish(item.slot, Finish::default(), Some(at(1)));
    }
    core.check_invariants();
    assert!(core.allocated_slots() >= 200_000, "another burst may be near");

    core.add(7, &7, 0, None);
    let Take::Item(item) = core.take(None) else {
        panic!("the key is ready")
    };
    core.finish(item.slot, Finish::default(), None);
    core.check_invariants();
    assert_eq!(core.allocated_slots(), 0);

    // The queue is as good as new.
    core.add(7, &7, 0, None);
    assert!(matches!(core.take(None), Take::Item(Handout { key: 7, .. })));
}

// [Q4] equal deadlines fire in the order in which they were set, also when their numbers run out and start again
#[test]
fn equal_deadlines_keep_their_order_when_their_numbers_run_out() {
    let mut core = Core::new(false);
    core.delays.leave_numbers(3);
    for key in 0..8_u32 {
        core.add_at(u64::from(key), &key, 0, at(10), at(0));
        // Some are set to an earlier time meanwhile, which leaves stale entries.
        if key % 3 == 0 {
            core.add_at(u64::from(key), &key, 0, at(5), at(0));
        }
        core.check_invariants();
    }
    let order = std::iter::from_fn(|| match core.take(Some(at(10))) {
        Take::Item(item) => Some(item.key),
        Take::Empty | Take::Closed => None,
    });
    assert_eq!(order.collect::<Vec<_>>(), [0, 3, 6, 1, 2, 4, 5, 7]);
}

// [Q8] one key that is delayed and added over and over leaves nothing behind
#[test]
fn stale_deadlines_do_not_pile_up() {
    let mut core = Core::new(false);
    let now = at(0);
    for _ in 0..10_000 {
        core.add_at(0, &0, 0, at(3_600_000), now);
        core.add(0, &0, 0, Some(now));
        let Take::Item(item) = core.take(Some(now)) else {
            panic!("the key is ready")
        };
        core.finish(item.slot, Finish::default(), Some(now));
        core.check_invariants();
    }
}

// A consumer that its timer wakes while an add, too, wakes it, and that then finds nothing, sleeps as any other: the next
// add wakes it. Each line is one turn of the lock, in the order of the race.
// [Q16]
#[test]
fn a_wake_up_that_crosses_a_timer_leaves_the_sleeper_asleep() {
    let mut core = Core::<u32>::new(false);
    core.add_at(1, &1, 0, at(10), at(0));
    assert_eq!(follow(&mut core), 0, "nobody sleeps");

    // The consumer finds nothing and sleeps until the deadline.
    let mut consumer = None;
    let look = core.look(&mut consumer, Waker::noop().clone(), Some(at(0))).0;
    assert!(matches!(look, Look::Asleep(Some(until)) if until == at(10)));
    assert_eq!(follow(&mut core), 0);
    // Its timer fires; before it comes to look, others take what is due, and an add wakes it.
    let Take::Item(due) = core.take(Some(at(10))) else {
        panic!("the delayed key is due")
    };
    assert_eq!(follow(&mut core), 0, "the key that became ready is taken already");
    core.add(2, &2, 0, Some(at(10)));
    assert_eq!(follow(&mut core), 1, "the add wakes it");
    let Take::Item(added) = core.take(Some(at(10))) else {
        panic!("the added key is ready")
    };
    follow(&mut core);
    // It looks in vain, and sleeps again.
    let look = core.look(&mut consumer, Waker::noop().clone(), Some(at(10))).0;
    assert!(matches!(look, Look::Asleep(None)));
    assert_eq!((follow(&mut core), core.sleepers()), (0, 1));
    // Whatever comes now wakes it.
    core.add(3, &3, 0, Some(at(11)));
    assert_eq!(follow(&mut core), 1, "the sleeper is told");
    for handout in [due, added] {
        core.finish(handout.slot, Finish::default(), Some(at(12)));
    }
    core.check_invariants();
}

// A consumer that its timer woke and that finds a key no longer counts as asleep: no later add wakes anybody in vain.
#[test]
fn a_consumer_that_its_timer_woke_is_not_woken_again() {
    let mut core = Core::<u32>::new(false);
    for round in 0..100 {
        let (start, due) = (at(20 * round), at(20 * round + 10));
        core.add_at(1, &1, 0, due, start);
        follow(&mut core);
        let mut consumer = None;
        let look = core.look(&mut consumer, Waker::noop().clone(), Some(start)).0;
        assert!(matches!(look, Look::Asleep(Some(until)) if until == due));
        assert_eq!((follow(&mut core), core.sleepers()), (0, 1));

        // Nobody but its timer wakes it.
        let look = core.look(&mut consumer, Waker::noop().clone(), Some(due)).0;
        let Look::Found(Take::Item(item)) = look else {
            panic!("the key is due")
        };
        assert_eq!((follow(&mut core), core.sleepers(), consumer), (0, 0, None));
        core.finish(item.slot, Finish::default(), Some(due));
        core.add(2, &2, 0, Some(due));
        assert_eq!(follow(&mut core), 0, "nobody sleeps, so nobody is woken");
        let Take::Item(item) = core.take(Some(due)) else {
            panic!("the key is ready")
        };
        core.finish(item.slot, Finish::default(), Some(due));
    }
}

// A consumer that was woken for one key, and that finds another one due when it comes to look, takes the first and wakes
// somebody for the second: its own wake-up was for the one that it took.
// [Q16]
#[test]
fn a_key_that_falls_due_as_a_woken_consumer_looks_wakes_another() {
    let mut core = Core::<u32>::new(false);
    for (key, due) in [(1, 10), (2, 10), (3, 30)] {
        core.add_at(u64::from(key), &key, 0, at(due), at(0));
    }
    assert_eq!(follow(&mut core), 0, "nobody sleeps");
    let mut consumers = [None; 3];
    for consumer in &mut consumers {
        let look = core.look(consumer, Waker::noop().clone(), Some(at(0))).0;
        assert!(matches!(look, Look::Asleep(_)));
    }
    assert_eq!((follow(&mut core), core.sleepers()), (0, 3));
    // The first one keeps the time. It takes one of the two keys that are due, and wakes somebody for the other one.
    let mut slots = Vec::new();
    let mut look = |core: &mut Core<u32>, consumer: usize, now: u64| {
        let Look::Found(Take::Item(item)) = core
            .look(&mut consumers[consumer], Waker::noop().clone(), Some(at(now)))
            .0
        else {
            panic!("a key is ready")
        };
        slots.push(item.slot);
        follow(core)
    };
    assert_eq!(look(&mut core, 0, 10), 1);
    // Who was woken comes late: the third key is due, too.
    assert_eq!(look(&mut core, 2, 30), 1, "the third key wakes the last sleeper");
    assert_eq!(look(&mut core, 1, 30), 0);
    assert_eq!(core.sleepers(), 0);
    for slot in slots {
        core.finish(slot, Finish::default(), Some(at(30)));
    }
    core.check_invariants();
}

// An add spares the timekeeper while another consumer sleeps, so that the timer need not change hands.
#[test]
fn an_add_wakes_the_timekeeper_last() {
    let mut core = Core::<u32>::new(false);
    core.add_at(1, &1, 0, at(10), at(0));
    assert_eq!(follow(&mut core), 0, "nobody sleeps");
    let (mut other, mut keeper) = (None, None);
    // The first to sleep keeps the time.
    core.look(&mut keeper, Waker::noop().clone(), Some(at(0)));
    core.look(&mut other, Waker::noop().clone(), Some(at(0)));
    core.add(2, &2, 0, Some(at(1)));
    assert_eq!(follow(&mut core), 1);
    assert!(core.sleeps(keeper.unwrap()) && !core.sleeps(other.unwrap()));
    core.add(3, &3, 0, Some(at(1)));
    assert_eq!(follow(&mut core), 1, "now it is needed too");
    assert_eq!(core.sleepers(), 0);
}

// A key whose `Clone` panics when it is handed out stays where it was.
#[test]
fn a_clone_that_panics_loses_no_key() {
    use std::sync::atomic::{AtomicBool, Ordering};

    struct Switch(Arc<AtomicBool>);
    impl PartialEq for Switch {
        fn eq(&self, _: &Self) -> bool {
            true
        }
    }
    impl Eq for Switch {}
    impl Clone for Switch {
        fn clone(&self) -> Self {
            assert!(!self.0.load(Ordering::SeqCst), "on purpose");
            Self(Arc::clone(&self.0))
        }
    }
    let broken = Arc::new(AtomicBool::new(false));
    let mut core = Core::new(false);
    core.add(1, &Switch(Arc::clone(&broken)), 0, None);
    broken.store(true, Ordering::SeqCst);
    let taken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| core.take(None)));
    assert!(taken.is_err());
    core.check_invariants();
    broken.store(false, Ordering::SeqCst);
    assert!(matches!(core.take(None), Take::Item(_)));
}
