//! The wake-up times of slots that are not ready yet.
//!
//! Owns: at most one deadline per slot, and their order. It never looks at a clock and starts no timer: its caller says
//! what time it is, and a waiting consumer sleeps until [`Delays::next`].
//!
//! # Design
//!
//! A binary heap with lazy deletion: each deadline has a sequence number, and a heap entry counts only while its slot
//! carries the same deadline and number. Replacing or cancelling is O(1) and leaves a stale entry behind; when stale entries
//! outnumber live ones the heap is rebuilt, so memory stays proportional to the number of slots.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU32;

use super::slots::Slots;
use super::time::Tick;

/// Stale entries that are tolerated before the heap is rebuilt.
const SLACK: usize = 64;

/// When a slot is due. Equal times fire in the order in which they were set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Deadline {
    at: Tick,
    /// One is never used twice at once: see `next_sequence`.
    sequence: NonZeroU32,
}

impl Deadline {
    pub(super) fn at(self) -> Tick {
        self.at
    }
}

/// A [`Deadline`] and whose it is, in sixteen bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: Tick,
    sequence: NonZeroU32,
    slot: u32,
}

impl Entry {
    #[inline]
    fn deadline(self) -> Deadline {
        let Self { at, sequence, .. } = self;
        Deadline { at, sequence }
    }

    #[inline]
    fn is_live<T>(self, slots: &Slots<T>) -> bool {
        slots[self.slot].deadline == Some(self.deadline())
    }
}

/// The deadline of each delayed slot. Invariant: a slot has a deadline iff the heap holds an entry with it.
pub(super) struct Delays {
    heap: BinaryHeap<Reverse<Entry>>,
    /// Invariant: the number of slots with a deadline.
    live: usize,
    /// The next to be given out. Invariant: all in the heap are less.
    sequence: NonZeroU32,
}

impl Delays {
    pub(super) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            live: 0,
            sequence: NonZeroU32::MIN,
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Delays a slot until `at`, or until the deadline that it already has, whichever is earlier.
    pub(super) fn set<T>(&mut self, slots: &mut Slots<T>, slot: u32, at: Tick) {
        match slots[slot].deadline {
            Some(pending) if pending.at <= at => return,
            Some(_) => {}
            None => self.live += 1,
        }
        if self.heap.len() >= 2 * self.live + SLACK {
            // What this call replaces may stay once more.
            self.heap.retain(|Reverse(entry)| entry.is_live(slots));
        }
        let sequence = self.next_sequence(slots);
        slots[slot].deadline = Some(Deadline { at, sequence });
        self.heap.push(Reverse(Entry { at, sequence, slot }));
    }

    /// Forgets the deadline of a slot; returns whether it had one.
    #[inline]
    pub(super) fn cancel<T>(&mut self, slots: &mut Slots<T>, slot: u32) -> bool {
        let had_one = slots[slot].deadline.take().is_some();
        self.live -= usize::from(had_one);
        had_one
    }

    /// The earliest deadline.
    pub(super) fn next<T>(&mut self, slots: &Slots<T>) -> Option<Tick> {
        while let Some(&Reverse(entry)) = self.heap.peek() {
            if entry.is_live(slots) {
                return Some(entry.at);
            }
            self.heap.pop();
        }
        None
    }

    /// Takes the slot with the earliest deadline if that is not after `now`.
    #[inline]
    pub(super) fn take_due<T>(&mut self, slots: &mut Slots<T>, now: Tick) -> Option<(u32, Tick)> {
        loop {
            // Whether it is stale is asked only of those that are due.
            let &Reverse(entry) = self.heap.peek()?;
            if entry.at > now {
                return None;
            }
            self.heap.pop();
            if entry.is_live(slots) {
                self.cancel(slots, entry.slot);
                return Some((entry.slot, entry.at));
            }
        }
    }

    /// Forgets every deadline and gives memory back; returns the slots that were delayed.
    pub(super) fn clear<T>(&mut self, slots: &mut Slots<T>) -> Vec<u32> {
        let entries = std::mem::take(&mut self.heap).into_iter();
        let delayed: Vec<u32> = entries
            .filter(|Reverse(entry)| entry.is_live(slots))
            .map(|Reverse(entry)| entry.slot)
            .collect();
        for slot in &delayed {
            slots[*slot].deadline = None;
        }
        *self = Self::new();
        delayed
    }

    /// How many slots have a deadline.
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// A number greater than all in the heap.
    fn next_sequence<T>(&mut self, slots: &mut Slots<T>) -> NonZeroU32 {
        if self.sequence == NonZeroU32::MAX {
            // Once in four thousand million deadlines they are numbered anew, in their order.
            let entries = std::mem::take(&mut self.heap).into_sorted_vec().into_iter().rev();
            self.sequence = NonZeroU32::MIN;
            for Reverse(mut entry) in entries {
                if entry.is_live(slots) {
                    entry.sequence = self.count();
                    slots[entry.slot].deadline = Some(entry.deadline());
                    self.heap.push(Reverse(entry));
                }
            }
        }
        self.count()
    }

    fn count(&mut self) -> NonZeroU32 {
        let sequence = self.sequence;
        self.sequence = sequence.saturating_add(1);
        sequence
    }

    /// The slots by their deadlines, the earliest first. Costs as much as is taken of it, and a little for every stale entry on
    /// the way: it walks down the heap instead of sorting it.
    pub(super) fn iter<T>(&self, slots: &Slots<T>) -> impl Iterator<Item = (u32, Tick)> {
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
                if entry.is_live(slots) {
                    return Some((entry.slot, entry.at));
                }
            }
        })
    }

    #[cfg(test)]
    pub(super) fn check_invariants<T: Clone + Eq>(&self, slots: &Slots<T>) {
        let delayed = slots.iter().filter_map(|(slot, one)| Some((one.deadline?, slot)));
        let mut expected: Vec<_> = delayed.collect();
        expected.sort_unstable();
        assert_eq!(expected.len(), self.live);
        for (Deadline { at, sequence }, slot) in expected.iter().copied() {
            assert!(self.heap.iter().any(|queued| queued.0 == Entry { at, sequence, slot }));
        }
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(deadline, slot)| (slot, deadline.at))
            .collect();
        assert_eq!(self.iter(slots).collect::<Vec<_>>(), expected);
        assert!(self.heap.iter().all(|queued| queued.0.sequence < self.sequence));
        assert!(
            self.heap.len() <= 2 * self.live.max(1) + SLACK + 1,
            "stale entries are bounded"
        );
    }

    /// As if only so many numbers were left.
    #[cfg(test)]
    pub(super) fn leave_numbers(&mut self, left: u32) {
        self.sequence = NonZeroU32::new(u32::MAX - left).unwrap();
    }
}
