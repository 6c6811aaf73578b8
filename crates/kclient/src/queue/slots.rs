//! Where the keys of a queue are kept.
//!
//! Owns: one slot per known key, and the table that finds it. What a slot's state means, and how it changes, is the business of
//! [`super::core`].
//!
//! # Design
//!
//! Slots live in one vector, and a hash table holds their numbers and the hashes, so a key is stored once, growing the table
//! looks at no slot, and whoever remembers a slot's number needs not hash its key. Free slots are re-used, the one given up last
//! first.
//!
//! All that the queue knows of a key is in its slot, the links of [`super::ready`] and the deadline of [`super::delay`] included:
//! an operation on one of very many keys waits for memory more than for anything else, and this is one place instead of three.

use hashbrown::HashTable;

use super::delay::Deadline;
use super::ready::Link;
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

/// What is kept of a key's hash: its lower half.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Hash(u32);

impl Hash {
    #[inline]
    fn new(hash: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "one half of a good hash is a good hash")]
        Self(hash as u32)
    }

    /// Spread over 64 bits: the table looks at the highest and the lowest of them. The factor is 2^64 over the golden ratio; it
    /// is odd, so no two hashes become one.
    #[inline]
    fn spread(self) -> u64 {
        u64::from(self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// Where the slot of a key is.
#[derive(Clone, Copy)]
struct Indexed {
    hash: Hash,
    number: u32,
}

pub(super) struct Slot<T> {
    /// Invariant: `None` iff the state is `Free`.
    key: Option<T>,
    hash: Hash,
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
    /// Where it is among the ready ones: the business of `Ready`.
    pub(super) link: Link,
    /// Until when it is delayed, if it is: the business of `Delays`.
    pub(super) deadline: Option<Deadline>,
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
    index: HashTable<Indexed>,
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
        let hash = Hash::new(hash);
        let is_key = |one: &Indexed| one.hash == hash && self.all[one.number as usize].key.as_ref() == Some(key);
        self.index.find(hash.spread(), is_key).map(|one| one.number)
    }

    /// A slot for a key that has none.
    pub(super) fn insert(&mut self, hash: u64, key: T, state: State) -> u32 {
        let hash = Hash::new(hash);
        let slot = Slot {
            key: Some(key),
            hash,
            state,
            marked: false,
            priority: 0,
            failures: 0,
            position: 0,
            added: Tick::START,
            link: Link::UNLINKED,
            deadline: None,
        };
        let number = if let Some(number) = self.free.pop() {
            self.all[number as usize] = slot;
            number
        } else {
            // 2^32 slots are more than 300 GB.
            let number = u32::try_from(self.all.len()).expect("fewer than 2^32 distinct keys");
            self.all.push(slot);
            number
        };
        let indexed = Indexed { hash, number };
        self.index
            .insert_unique(hash.spread(), indexed, |one| one.hash.spread());
        self.most = self.most.max(self.index.len());
        number
    }

    /// Gives a slot up. The key has to be dropped outside of the lock.
    pub(super) fn release(&mut self, number: u32) -> Option<T> {
        let slot = &mut self.all[number as usize];
        slot.state = State::Free;
        let key = slot.key.take();
        if let Ok(entry) = self.index.find_entry(slot.hash.spread(), |one| one.number == number) {
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
