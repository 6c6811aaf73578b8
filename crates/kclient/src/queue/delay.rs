//! The wake-up times of slots that are not ready yet.
//!
//! Owns: at most one deadline per slot, and their order. It never looks at a clock and starts no timer: its caller says
//! what time it is, and a waiting consumer sleeps until [`Delays::next`].
//!
//! # Design
//!
//! A binary heap with lazy deletion: each deadline has a unique sequence number, and a heap entry counts only while it
//! carries the number that its slot remembers. Replacing or cancelling is O(1) and leaves a stale entry behind; when
//! stale entries outnumber live ones the heap is rebuilt, so memory stays proportional to the number of slots.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::time::Tick;

/// Stale entries that are tolerated before the heap is rebuilt.
const SLACK: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    deadline: Tick,
    /// Equal deadlines fire in the order in which they were set.
    sequence: u64,
    slot: u32,
}

/// The deadline of each delayed slot.
pub(super) struct Delays {
    heap: BinaryHeap<Reverse<Entry>>,
    /// By slot. Invariant: `Some(entry)` iff the slot is delayed, and then the heap holds exactly this entry.
    pending: Vec<Option<Entry>>,
    /// Invariant: the number of `Some` in `pending`.
    live: usize,
    sequence: u64,
}

impl Delays {
    pub(super) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            pending: Vec::new(),
            live: 0,
            sequence: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live == 0
    }

    pub(super) fn contains(&self, slot: u32) -> bool {
        self.pending.get(slot as usize).is_some_and(Option::is_some)
    }

    /// Delays a slot until `deadline`, or until the deadline that it already has, whichever is earlier.
    pub(super) fn set(&mut self, slot: u32, deadline: Tick) {
        let index = slot as usize;
        if index >= self.pending.len() {
            self.pending.resize(index + 1, None);
        }
        match self.pending[index] {
            Some(pending) if pending.deadline <= deadline => return,
            Some(_) => {}
            None => self.live += 1,
        }
        self.sequence += 1;
        let entry = Entry {
            deadline,
            sequence: self.sequence,
            slot,
        };
        self.pending[index] = Some(entry);
        if self.heap.len() >= 2 * self.live + SLACK {
            let pending = &self.pending;
            self.heap
                .retain(|Reverse(entry)| pending[entry.slot as usize] == Some(*entry));
        }
        self.heap.push(Reverse(entry));
    }

    /// Forgets the deadline of a slot; returns whether it had one.
    pub(super) fn cancel(&mut self, slot: u32) -> bool {
        let had_one = self
            .pending
            .get_mut(slot as usize)
            .is_some_and(|pending| pending.take().is_some());
        self.live -= usize::from(had_one);
        had_one
    }

    /// The earliest deadline.
    pub(super) fn next(&mut self) -> Option<Tick> {
        while let Some(&Reverse(entry)) = self.heap.peek() {
            if self.pending[entry.slot as usize] == Some(entry) {
                return Some(entry.deadline);
            }
            self.heap.pop();
        }
        None
    }

    /// Takes the slot with the earliest deadline if that is not after `now`.
    pub(super) fn take_due(&mut self, now: Tick) -> Option<(u32, Tick)> {
        if self.next()? > now {
            return None;
        }
        let Reverse(entry) = self.heap.pop()?;
        self.cancel(entry.slot);
        Some((entry.slot, entry.deadline))
    }

    /// Forgets every deadline and gives memory back; returns the slots that were delayed.
    pub(super) fn clear(&mut self) -> Vec<u32> {
        self.heap = BinaryHeap::new();
        self.live = 0;
        std::mem::take(&mut self.pending)
            .into_iter()
            .flatten()
            .map(|entry| entry.slot)
            .collect()
    }

    /// How many slots have a deadline.
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// The deadline of a slot, if it has one.
    pub(super) fn get(&self, slot: u32) -> Option<Tick> {
        let entry = self.pending.get(slot as usize)?;
        entry.map(|entry| entry.deadline)
    }

    /// The slots by their deadlines, the earliest first. Costs as much as is taken of it, and a little for every stale entry on
    /// the way: it walks down the heap instead of sorting it.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, Tick)> + '_ {
        let entries = self.heap.as_slice();
        let mut frontier: BinaryHeap<Reverse<(Entry, usize)>> = BinaryHeap::new();
        let reach = |frontier: &mut BinaryHeap<_>, at: usize| {
            if let Some(Reverse(entry)) = entries.get(at) {
                frontier.push(Reverse((*entry, at)));
            }
        };
        reach(&mut frontier, 0);
        std::iter::from_fn(move || {
            loop {
                let Reverse((entry, at)) = frontier.pop()?;
                reach(&mut frontier, 2 * at + 1);
                reach(&mut frontier, 2 * at + 2);
                if self.pending[entry.slot as usize] == Some(entry) {
                    return Some((entry.slot, entry.deadline));
                }
            }
        })
    }

    #[cfg(test)]
    pub(super) fn check_invariants(&self) {
        assert_eq!(self.pending.iter().flatten().count(), self.live);
        let mut expected: Vec<_> = self.pending.iter().flatten().collect();
        expected.sort_unstable();
        let expected: Vec<_> = expected.into_iter().map(|entry| (entry.slot, entry.deadline)).collect();
        assert_eq!(self.iter().collect::<Vec<_>>(), expected);
        for entry in self.pending.iter().flatten() {
            assert!(self.heap.iter().any(|Reverse(queued)| queued == entry));
        }
        assert!(
            self.heap.len() <= 2 * self.live.max(1) + SLACK + 1,
            "stale entries are bounded"
        );
    }
}
