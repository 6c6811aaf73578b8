//! Where the keys of a queue are kept.
//!
//! Owns: one slot per known key, and the table that finds it. What a slot's state means, and how it changes, is the business of
//! [`super::core`].
//!
//! # Design
//!
//! Slots live in one vector, and a hash table holds their numbers only, so a key is stored once, growing the table moves four
//! bytes per key, and whoever remembers a slot's number needs no hash. Free slots are re-used, the one given up last first.

use hashbrown::HashTable;

use super::time::Tick;

/// Up to this many slots stay allocated for ever.
const KEPT_SLOTS: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Not in use: its number is in `free`.
    Free,
    /// Waits for its deadline only.
    Delayed,
    /// Ready to be handed out.
    Queued,
    /// Handed out. It may have a deadline, which counts from then on as for any other slot.
    Processing,
    /// Handed out, and wanted again: ready as soon as it is done.
    ProcessingDirty,
}

pub(super) struct Slot<T> {
    /// Invariant: `None` iff the state is `Free`.
    key: Option<T>,
    hash: u64,
    pub(super) state: State,
    /// Whether `mark_queued` saw it and it was not handled since.
    pub(super) marked: bool,
    /// The priority of the pending run. Invariant: meaningful iff the slot is `Queued`, `ProcessingDirty` or has a
    /// deadline.
    pub(super) priority: i32,
    /// Failed attempts in a row, as told by `Core::finish`.
    pub(super) failures: u32,
    /// Where it is in the list of those in process. Invariant: meaningful iff the slot is `Processing` or `ProcessingDirty`.
    pub(super) position: u32,
    /// When the pending run became ready. Invariant: meaningful iff the slot is `Queued` or `ProcessingDirty`, with timings.
    pub(super) added: Tick,
    /// When the current run was handed out. Invariant: meaningful iff it is handed out, with timings.
    pub(super) started: Tick,
}

impl<T> Slot<T> {
    pub(super) fn key(&self) -> &T {
        match &self.key {
            Some(key) => key,
            None => unreachable!("a slot in use has a key"),
        }
    }
}

/// All slots.
pub(super) struct Slots<T> {
    all: Vec<Slot<T>>,
    /// Slots in state `Free`.
    free: Vec<u32>,
    /// Invariant: the numbers of all slots that are not `Free`, by the hash of their key.
    index: HashTable<u32>,
    /// The most keys that were known at once since none was known.
    most: usize,
}

impl<T: Clone + Eq> Slots<T> {
    pub(super) fn new() -> Self {
        Self {
            all: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            most: 0,
        }
    }

    /// How many keys are known.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    #[inline]
    pub(super) fn find(&self, hash: u64, key: &T) -> Option<u32> {
        let is_key = |number: &u32| {
            let slot = &self.all[*number as usize];
            slot.hash == hash && slot.key.as_ref() == Some(key)
        };
        self.index.find(hash, is_key).copied()
    }

    /// A slot for a key that has none. The second value says whether it is one more than there ever were.
    pub(super) fn insert(&mut self, hash: u64, key: T, state: State) -> (u32, bool) {
        let slot = Slot {
            key: Some(key),
            hash,
            state,
            marked: false,
            priority: 0,
            failures: 0,
            position: 0,
            added: Tick::START,
            started: Tick::START,
        };
        let (number, is_new) = if let Some(number) = self.free.pop() {
            self.all[number as usize] = slot;
            (number, false)
        } else {
            // The links of 2^32 slots alone are 80 GB.
            let number = u32::try_from(self.all.len()).expect("fewer than 2^32 distinct keys");
            self.all.push(slot);
            (number, true)
        };
        let Self { index, all, .. } = self;
        index.insert_unique(hash, number, |number| all[*number as usize].hash);
        self.most = self.most.max(self.index.len());
        (number, is_new)
    }

    /// Gives a slot up. The key has to be dropped outside of the lock.
    pub(super) fn release(&mut self, number: u32) -> Option<T> {
        let slot = &mut self.all[number as usize];
        slot.state = State::Free;
        let key = slot.key.take();
        if let Ok(entry) = self.index.find_entry(slot.hash, |candidate| *candidate == number) {
            entry.remove();
        }
        self.free.push(number);
        key
    }

    /// Whether a burst is over: nothing is known, and most of the memory was not used since that was last so. (At the very end of
    /// the burst the next one may be near.)
    #[inline]
    pub(super) fn is_oversized(&mut self) -> bool {
        if !self.index.is_empty() {
            return false;
        }
        let most = std::mem::take(&mut self.most);
        self.all.len() > KEPT_SLOTS && most < self.all.len() / 4
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slot<T>> {
        self.all.iter_mut()
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Slot<T>)> {
        (0..).zip(&self.all)
    }

    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        self.all.capacity()
    }

    #[cfg(test)]
    pub(super) fn check_invariants(&self) {
        let free = self.all.iter().filter(|slot| slot.state == State::Free).count();
        assert_eq!(free, self.free.len());
        assert_eq!(self.all.len() - free, self.index.len());
        for slot in &self.all {
            assert_eq!(slot.key.is_none(), slot.state == State::Free);
        }
    }
}

impl<T> std::ops::Index<u32> for Slots<T> {
    type Output = Slot<T>;

    #[inline]
    fn index(&self, number: u32) -> &Slot<T> {
        &self.all[number as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slots<T> {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut Slot<T> {
        &mut self.all[number as usize]
    }
}
