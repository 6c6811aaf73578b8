//! The rules of the work queue written down naively, without regard to cost: what random tests compare the queue with.

use std::collections::BTreeMap;

/// What is known of a key.
#[derive(Debug, Clone, Default)]
struct Known {
    /// (order inside of the priority, age, priority)
    ready: Option<(u64, u64, i32)>,
    /// (deadline in ms, order among equal deadlines, priority)
    delayed: Option<(u64, u64, i32)>,
    processing: bool,
    dirty: Option<i32>,
}

/// A queue of numbers, in which the time is a number of milliseconds.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    keys: BTreeMap<u32, Known>,
    sequence: u64,
    takes: u64,
    /// The time, to be moved forward by the test.
    pub(super) now: u64,
    pub(super) adds: u64,
    pub(super) retries: u64,
    shutting_down: bool,
}

impl Oracle {
    fn next(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Makes ready what is due, in the order of the deadlines.
    pub(super) fn promote(&mut self) {
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

    fn delay(&mut self, key: u32, priority: i32, delay: u64) {
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

    pub(super) fn add(&mut self, key: u32, priority: i32) {
        if !self.shutting_down {
            self.promote();
            self.want(key, priority);
        }
    }

    pub(super) fn add_after(&mut self, key: u32, priority: i32, delay: u64) {
        if !self.shutting_down {
            self.retries += 1;
            self.promote();
            self.delay(key, priority, delay);
        }
    }

    /// The next key and its priority.
    pub(super) fn take(&mut self) -> Option<(u32, i32)> {
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

    /// The run of a key ends; it may be wanted again with this priority after this delay.
    pub(super) fn done(&mut self, key: u32, requeue: Option<(i32, u64)>) {
        self.promote();
        if let Some((priority, delay)) = requeue
            && !self.shutting_down
        {
            self.retries += 1;
            self.delay(key, priority, delay);
        }
        let sequence = self.next();
        let known = self.keys.get_mut(&key).unwrap();
        known.processing = false;
        if let Some(priority) = known.dirty.take() {
            known.ready = Some((sequence, sequence, priority));
        } else if known.delayed.is_none() {
            self.keys.remove(&key);
        }
    }

    /// Adds are refused from now on, delayed keys forgotten.
    pub(super) fn shut_down(&mut self) {
        self.shutting_down = true;
        for known in self.keys.values_mut() {
            known.delayed = None;
        }
        self.keys
            .retain(|_, known| known.ready.is_some() || known.processing || known.dirty.is_some());
    }

    /// How many keys are ready.
    pub(super) fn len(&self) -> usize {
        self.keys.values().filter(|known| known.ready.is_some()).count()
    }

    /// How many keys are ready, or wanted again.
    pub(super) fn depth(&self) -> usize {
        let wanted = |known: &&Known| known.ready.is_some() || known.dirty.is_some();
        self.keys.values().filter(wanted).count()
    }

    /// How many keys are known.
    pub(super) fn known(&self) -> usize {
        self.keys.len()
    }

    /// Whether nothing is ready or in process.
    pub(super) fn is_drained(&self) -> bool {
        !self
            .keys
            .values()
            .any(|known| known.ready.is_some() || known.processing)
    }

    /// The ready keys with their priorities, as they would be served without ageing.
    pub(super) fn queued(&self) -> Vec<(u32, i32)> {
        let ready = self.keys.iter().filter_map(|(key, known)| {
            let (order, _, priority) = known.ready?;
            Some(((-priority, order), (*key, priority)))
        });
        let sorted: BTreeMap<_, _> = ready.collect();
        sorted.into_values().collect()
    }

    /// The keys that are only delayed, with the milliseconds that are left.
    pub(super) fn delayed(&self) -> Vec<(u32, u64)> {
        let delayed = self.keys.iter().filter_map(|(key, known)| {
            let (deadline, order, _) = known.delayed.filter(|_| !known.processing)?;
            Some(((deadline, order), (*key, deadline - self.now)))
        });
        let sorted: BTreeMap<_, _> = delayed.collect();
        sorted.into_values().collect()
    }

    /// The keys in process; those wanted again with the milliseconds until then.
    pub(super) fn processing(&self) -> BTreeMap<u32, Option<u64>> {
        let processing = self.keys.iter().filter(|(_, known)| known.processing);
        let again = |known: &Known| {
            let later = known.delayed.map(|(deadline, _, _)| deadline - self.now);
            known.dirty.map(|_| 0).or(later)
        };
        processing.map(|(key, known)| (*key, again(known))).collect()
    }
}
