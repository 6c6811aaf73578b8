//! What is to be looked at when a time has come.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use jiff::Timestamp;

/// Times of keys, at most one of each.
#[derive(Debug)]
pub(super) struct Timers<K> {
    times: HashMap<K, Timestamp>,
    /// Invariant: exactly the entries of `times`.
    order: BTreeSet<(Timestamp, K)>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self {
            times: HashMap::new(),
            order: BTreeSet::new(),
        }
    }
}

impl<K: Clone + Eq + Hash + Ord> Timers<K> {
    /// Sets the time of a key, in place of the one that it had.
    pub(super) fn set(&mut self, key: &K, time: Timestamp) {
        self.clear(key);
        self.times.insert(key.clone(), time);
        self.order.insert((time, key.clone()));
    }

    /// Forgets a key.
    pub(super) fn clear(&mut self, key: &K) {
        if let Some(time) = self.times.remove(key) {
            self.order.remove(&(time, key.clone()));
        }
    }

    /// Takes the key whose time came first, if it has come.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<K> {
        let (time, _) = self.order.first()?;
        if *time > now {
            return None;
        }
        let (_, key) = self.order.pop_first()?;
        self.times.remove(&key);
        Some(key)
    }

    /// When the next time comes.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.order.first().map(|(time, _)| *time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_time_that_was_set_last() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let mut timers = Timers::default();
        timers.set(&"a", at(5));
        timers.set(&"b", at(4));
        timers.set(&"a", at(3));
        timers.set(&"c", at(1));
        timers.clear(&"c");
        assert_eq!((timers.next(), timers.pop(at(2))), (Some(at(3)), None));
        let popped = [timers.pop(at(9)), timers.pop(at(9)), timers.pop(at(9))];
        assert_eq!(popped, [Some("a"), Some("b"), None]);
    }
}
