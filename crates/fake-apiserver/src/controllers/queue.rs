//! Distinct keys in the order in which they came: what a stand-in still has to look at.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;

/// A queue that holds each key at most once.
#[derive(Debug)]
pub(super) struct Queue<K> {
    order: VecDeque<K>,
    /// Invariant: exactly the keys of `order`.
    queued: HashSet<K>,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self {
            order: VecDeque::new(),
            queued: HashSet::new(),
        }
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// Adds a key at the end, unless it waits already.
    pub(super) fn push(&mut self, key: K) {
        if self.queued.insert(key.clone()) {
            self.order.push_back(key);
        }
    }

    /// Takes the key that has waited the longest.
    pub(super) fn pop(&mut self) -> Option<K> {
        let key = self.order.pop_front()?;
        self.queued.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_waits_once_and_in_its_first_place() {
        let mut queue = Queue::default();
        for key in ["a", "b", "a"] {
            queue.push(key);
        }
        assert_eq!(queue.pop(), Some("a"));
        queue.push("a");
        assert_eq!([queue.pop(), queue.pop(), queue.pop()], [Some("b"), Some("a"), None]);
    }
}
