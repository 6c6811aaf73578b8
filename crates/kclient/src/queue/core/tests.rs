//! The state machine against a naive model, on random histories.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;

/// What the model knows of a key: the rules of the queue, written down without regard to cost.
#[derive(Clone, Default)]
struct Known {
    /// (order inside of the priority, age, priority)
    ready: Option<(u64, u64, i32)>,
    /// (deadline in ms, order among equal deadlines, priority)
    delayed: Option<(u64, u64, i32)>,
    processing: bool,
    dirty: Option<i32>,
}

#[derive(Default)]
struct Model {
    keys: BTreeMap<u32, Known>,
    sequence: u64,
    takes: u64,
    now: u64,
    adds: u64,
}

impl Model {
    fn next(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    fn promote(&mut self) {
        loop {
            let due = self
                .keys
                .iter()
                .filter_map(|(key, known)| known.delayed.map(|delayed| (delayed, *key)));
            let Some(((deadline, _, priority), key)) = due.min() else {
                return;
            };
            if deadline > self.now {
                return;
            }
            self.want(key, priority);
        }
    }

    fn want(&mut self, key: u32, priority: i32) {
        let sequence = self.next();
        let known = self.keys.entry(key).or_default();
        if let Some((order, age, old)) = known.ready {
            known.ready = Some(if priority > old {
                (sequence, age, priority)
            } else {
                (order, age, old)
            });
            return;
        }
        if let Some(old) = known.dirty {
            known.dirty = Some(old.max(priority));
            return;
        }
        let priority = known.delayed.take().map_or(priority, |(_, _, old)| old.max(priority));
        self.adds += 1;
        if known.processing {
            known.dirty = Some(priority);
        } else {
            known.ready = Some((sequence, sequence, priority));
        }
    }

    fn add(&mut self, key: u32, priority: i32) {
        self.promote();
        self.want(key, priority);
    }

    fn add_after(&mut self, key: u32, priority: i32, delay: u64) {
        self.promote();
        if delay == 0 {
            return self.want(key, priority);
        }
        let (sequence, deadline) = (self.next(), self.now + delay);
        let known = self.keys.entry(key).or_default();
        if known.ready.is_some() || known.dirty.is_some() {
            return self.want(key, priority);
        }
        known.delayed = Some(match known.delayed {
            Some((old, order, p)) if old <= deadline => (old, order, p.max(priority)),
            Some((_, _, p)) => (deadline, sequence, p.max(priority)),
            None => (deadline, sequence, priority),
        });
    }

    fn take(&mut self) -> Option<(u32, i32)> {
        self.promote();
        let ready = || {
            self.keys
                .iter()
                .filter_map(|(key, known)| known.ready.map(|ready| (ready, *key)))
        };
        let oldest = ready().min_by_key(|((_, age, _), _)| *age)?;
        let first = ready().min_by_key(|((order, _, priority), _)| (-priority, *order))?;
        self.takes += 1;
        let ((_, _, priority), key) = if self.takes.is_multiple_of(8) { oldest } else { first };
        let known = self.keys.get_mut(&key).unwrap();
        known.ready = None;
        known.processing = true;
        Some((key, priority))
    }

    fn done(&mut self, key: u32) {
        self.promote();
        let sequence = self.next();
        let known = self.keys.get_mut(&key).unwrap();
        known.processing = false;
        if let Some(priority) = known.dirty.take() {
            known.ready = Some((sequence, sequence, priority));
        } else if known.delayed.is_none() {
            self.keys.remove(&key);
        }
    }
}

/// One random history; the core and the model must agree at every step.
fn history(seed: u64, keys: u32, steps: usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut core, mut model) = (Core::new(true), Model::default());
    let start = Instant::now();
    let mut held: Vec<(u32, u32)> = Vec::new();
    for step in 0..steps {
        let now = start + Duration::from_millis(model.now);
        let key = random.u32(..keys);
        let priority = random.i32(-1..=1);
        let hash = u64::from(key % 3); // collisions on purpose
        match random.u32(..10) {
            0..=2 => {
                core.add(hash, &key, priority, Some(now));
                model.add(key, priority);
            }
            3..=4 => {
                let delay = random.u64(..20);
                core.add_at(hash, &key, priority, now + Duration::from_millis(delay), now);
                model.add_after(key, priority, delay);
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
                assert_eq!(taken, model.take(), "seed {seed}, step {step}");
            }
            7..=8 if !held.is_empty() => {
                let (slot, key) = held.swap_remove(random.usize(..held.len()));
                core.finish(slot, Finish::default(), Some(now));
                model.done(key);
            }
            _ => model.now += random.u64(..10),
        }
        core.check_invariants();
        let now = start + Duration::from_millis(model.now);
        core.promote(Some(now));
        model.promote();
        let metrics = core.metrics("", now);
        let depth = model
            .keys
            .values()
            .filter(|known| known.ready.is_some() || known.dirty.is_some())
            .count();
        assert_eq!(
            (metrics.depth, metrics.adds_total),
            (depth, model.adds),
            "seed {seed}, step {step}"
        );
        assert_eq!(
            core.len(),
            model.keys.values().filter(|known| known.ready.is_some()).count()
        );
        assert_eq!(
            core.index.len(),
            model.keys.len(),
            "seed {seed}, step {step}: nothing is kept for longer than needed"
        );
    }
}

// [Q2] [Q4] [Q7] [Q15] random adds, delays, priorities, hand-outs and dones, against the rules written naively
#[test]
fn every_history_agrees_with_the_model() {
    let base = fastrand::u64(..);
    println!("base seed {base}");
    for round in 0..200 {
        history(base.wrapping_add(round), 1 + (round % 12) as u32, 400);
    }
}

// [Q8] a burst of keys leaves no memory behind
#[test]
fn memory_is_given_back_after_a_burst() {
    let mut core = Core::new(false);
    for key in 0..100_000_u32 {
        core.add(u64::from(key), &key, 0, None);
    }
    assert!(core.allocated_slots() >= 100_000);
    while let Take::Item(item) = core.take(None) {
        core.finish(item.slot, Finish::default(), None);
    }
    core.check_invariants();
    assert!(core.allocated_slots() <= KEPT_SLOTS, "{}", core.allocated_slots());
}

// [Q15] waking a key early again and again leaves no trail of old deadlines
#[test]
fn superseded_deadlines_do_not_pile_up() {
    let mut core = Core::new(false);
    let now = Instant::now();
    for _ in 0..10_000 {
        core.add_at(0, &0, 0, now + Duration::from_hours(1), now);
        core.add(0, &0, 0, Some(now));
        let Take::Item(item) = core.take(Some(now)) else {
            panic!("the key is ready")
        };
        core.finish(item.slot, Finish::default(), Some(now));
        core.check_invariants();
    }
}

// [Q16] a consumer that its timer wakes while an add, too, has decided to wake it, and that then finds nothing, sleeps counted:
// the next add wakes it. Each line is one turn of the lock, in the order of the race.
#[test]
fn a_wake_up_that_crosses_a_timer_leaves_the_sleeper_counted() {
    let start = Instant::now();
    let at = |millis| start + Duration::from_millis(millis);
    let mut core = Core::<u32>::new(false);
    core.add_at(1, &1, 0, at(10), at(0));
    assert_eq!(core.wakes().consumers, 0, "nobody sleeps");

    // The consumer finds nothing and sleeps until the deadline.
    let consumer = core.consumer_id();
    assert!(matches!(core.take(Some(at(0))), Take::Empty));
    assert_eq!(core.sleep(consumer), Some(at(10)));
    assert_eq!(core.wakes().consumers, 0);
    // Its timer fires; before it comes to look, others take what is due, and an add decides to wake it.
    let Take::Item(due) = core.take(Some(at(10))) else {
        panic!("the delayed key is due")
    };
    core.wakes();
    core.add(2, &2, 0, Some(at(10)));
    assert_eq!(core.wakes().consumers, 1, "the add decides to wake it");
    let Take::Item(added) = core.take(Some(at(10))) else {
        panic!("the added key is ready")
    };
    core.wakes();
    // It looks in vain, and sleeps again.
    assert!(matches!(core.take(Some(at(10))), Take::Empty));
    assert_eq!(core.sleep(consumer), None);
    core.wakes();
    // Whatever comes now has to wake it.
    core.add(3, &3, 0, Some(at(11)));
    assert_eq!(core.wakes().consumers, 1, "the sleeper is told");
    for handout in [due, added] {
        core.finish(handout.slot, Finish::default(), Some(at(12)));
    }
    core.check_invariants();
}
