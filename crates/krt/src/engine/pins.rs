//! Which epochs somebody still looks at.
//!
//! # Design
//!
//! A pin is taken, and an epoch published, under the same lock. So a pin is on one side of each epoch in all collections, and who
//! publishes knows all pins that there are: a version that an epoch replaces is kept iff one of them sees it.

use std::collections::{BTreeMap, BTreeSet};

use super::id::NodeId;
use crate::sync::{Mutex, MutexGuard};

#[derive(Debug, Default)]
pub(crate) struct Pins {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    published: u64,
    /// How often each epoch is pinned.
    pinned: BTreeMap<u64, usize>,
    /// The nodes that keep versions for pins. Invariant: all of them, and those that are gone since.
    retaining: BTreeSet<NodeId>,
}

impl Pins {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Pins the last published epoch.
    pub(crate) fn pin(&self) -> u64 {
        let mut state = self.lock();
        let epoch = state.published;
        *state.pinned.entry(epoch).or_default() += 1;
        epoch
    }

    /// Takes a pin back; tells whether versions may be given up because of that. The newest state is kept without pins.
    pub(crate) fn unpin(&self, epoch: u64) -> bool {
        let mut state = self.lock();
        let Some(count) = state.pinned.get_mut(&epoch) else {
            return false;
        };
        *count -= 1;
        let last = *count == 0;
        if last {
            state.pinned.remove(&epoch);
        }
        last && epoch < state.published && !state.retaining.is_empty()
    }
}

impl State {
    /// Whether some pin sees a version that was there from one epoch until before another.
    pub(crate) fn see(&self, from: u64, until: u64) -> bool {
        self.pinned.range(from..until).next().is_some()
    }

    pub(crate) fn publish(&mut self, epoch: u64) {
        self.published = epoch;
    }

    /// A node keeps versions for pins.
    pub(crate) fn retain(&mut self, node: NodeId) {
        self.retaining.insert(node);
    }

    /// The nodes that kept versions. Those that go on doing so have to be named again.
    pub(crate) fn take_retaining(&mut self) -> BTreeSet<NodeId> {
        std::mem::take(&mut self.retaining)
    }

    /// How many epochs are pinned.
    #[cfg(test)]
    pub(crate) fn pinned(&self) -> usize {
        self.pinned.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_seen_from_its_epoch_until_before_the_next_one() {
        let pins = Pins::default();
        pins.lock().publish(5);
        assert_eq!(pins.pin(), 5);
        assert_eq!(pins.pin(), 5);
        let seen = |from, until| pins.lock().see(from, until);
        assert!(seen(5, 6) && seen(3, 6));
        assert!(!seen(3, 5) && !seen(6, 9));
        assert!(!pins.unpin(5));
        assert!(seen(5, 6));
        assert!(!pins.unpin(5), "what it sees is the newest state");
        assert!(!seen(0, 99));
        assert_eq!(pins.pin(), 5);
        pins.lock().publish(6);
        assert!(!pins.unpin(5), "nothing is kept for it");
        assert_eq!(pins.pin(), 6);
        pins.lock().publish(7);
        pins.lock().retain(NodeId(1));
        assert!(pins.unpin(6));
        assert_eq!([pins.pin(), pins.pin(), pins.pin()], [7; 3]);
        pins.lock().publish(8);
        assert!(!pins.unpin(7) && !pins.unpin(7), "somebody else sees the same");
        assert!(pins.unpin(7));
        assert_eq!(pins.pin(), 8);
        assert!(!pins.unpin(8), "the newest state stays");
        assert!(!pins.unpin(8), "there is none");
        assert_eq!(pins.lock().pinned(), 0);
    }
}
