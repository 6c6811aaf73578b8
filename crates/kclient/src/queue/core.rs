//! The state machine of the work queue: every rule, no tasks, no clock, no lock.
//!
//! Owns: which keys the queue knows, in which state each is, and which consumers sleep. [`super::workqueue`] puts it behind a
//! lock, tells it the time and wakes whom it names. Start with [`State`] and [`Core::add`].
//!
//! # Design
//!
//! A key that the queue knows has a slot in [`Slots`]; an item that was handed out carries its slot's number, so `done` hashes
//! nothing. Order is kept by [`Ready`], time by [`Delays`]. Every operation is O(1), but for those on delays, which are
//! O(log delayed).
//!
//! Consumers that find nothing sleep under the same lock, so that no add can fall between their look and their sleep; how they
//! are woken is the part `sleep`.

mod read;
mod sleep;

use super::delay::Delays;
use super::metrics::Counters;
use super::ready::Ready;
use super::slots::{Slots, State};
use super::time::Tick;
use super::waiters::Waiters;

pub(super) use sleep::{Effects, Look};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// Adds are refused; somebody waits until nothing is queued or processed.
    Draining,
    /// Adds are refused.
    ShutDown,
}

/// What a consumer gets.
pub(super) struct Handout<T> {
    pub(super) key: T,
    pub(super) slot: u32,
    pub(super) priority: i32,
    pub(super) failures: u32,
}

/// What [`Core::take`] found.
pub(super) enum Take<T> {
    Item(Handout<T>),
    Empty,
    /// Shut down and nothing is left to hand out.
    Closed,
}

/// How a run ended.
#[derive(Clone, Copy, Default)]
pub(super) struct Finish {
    /// The failure count of the key from now on.
    pub(super) failures: u32,
    /// When the key is wanted again, and with which priority.
    pub(super) requeue: Option<(Tick, i32)>,
    /// Whether the key really was handled, as opposed to dropped on the way.
    pub(super) handled: bool,
}

/// A key that was handed out.
#[derive(Clone, Copy)]
struct Run {
    slot: u32,
    /// When it was handed out. Invariant: meaningful with timings.
    started: Tick,
}

/// All that a work queue knows.
///
/// Operations take the time as an option: it is needed with timings, or if something is delayed ([`Core::needs_time`]).
pub(super) struct Core<T> {
    slots: Slots<T>,
    /// Invariant: exactly the slots in state `Queued`.
    ready: Ready,
    /// Invariant: all slots in state `Delayed`, and some in state `Processing`.
    delays: Delays,
    /// Invariant: exactly the slots in state `Processing` or `ProcessingDirty`, each at its `position`.
    processing: Vec<Run>,
    /// Invariant: the number of slots in state `ProcessingDirty`.
    dirty: usize,
    /// Marked keys that were not handled yet. Invariant: at least the number of slots with `marked`; a marked key that is
    /// dropped unhandled counts for ever, because nothing can be said to have handled it.
    marked: usize,
    phase: Phase,
    counters: Counters,
    timings: bool,

    /// Consumers that found nothing. See the part `sleep` for its invariant.
    consumers: Waiters,
    timekeeper: Option<(u64, Tick)>,
    /// Those who wait for the end of a drain.
    drainers: Waiters,
    news: sleep::News,
}

impl<T: Clone + Eq> Core<T> {
    pub(super) fn new(timings: bool) -> Self {
        Self {
            slots: Slots::new(),
            ready: Ready::new(),
            delays: Delays::new(),
            processing: Vec::new(),
            dirty: 0,
            marked: 0,
            phase: Phase::Open,
            counters: Counters::default(),
            timings,
            consumers: Waiters::default(),
            timekeeper: None,
            drainers: Waiters::default(),
            news: sleep::News::default(),
        }
    }

    /// Whether operations need to know the time even without timings.
    #[inline]
    pub(super) fn needs_time(&self) -> bool {
        !self.delays.is_empty()
    }

    /// Whether [`finish`](Self::finish) needs to know the time even without timings: a key that is wanted again at once queues up
    /// behind those that were due before, and a requeue may be due already.
    #[inline]
    pub(super) fn finish_needs_time(&self, number: u32, finish: &Finish) -> bool {
        finish.requeue.is_some() || (self.needs_time() && self.slots[number].state == State::ProcessingDirty)
    }

    pub(super) fn len(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.phase != Phase::Open
    }

    /// Wants a key to be handed out as soon as its turn comes.
    pub(super) fn add(&mut self, hash: u64, key: &T, priority: i32, now: Option<Tick>) {
        if self.is_shutting_down() {
            return;
        }
        // What was due before now is ahead in the order of readiness.
        self.promote(now);
        match self.slots.find(hash, key) {
            None => {
                let slot = self.slots.insert(hash, key.clone(), State::Queued);
                self.make_ready(slot, priority);
                self.count_add(slot, now);
            }
            Some(slot) => self.want(slot, priority, now),
        }
    }

    /// Wants a key to be handed out once `deadline` has passed.
    pub(super) fn add_at(&mut self, hash: u64, key: &T, priority: i32, deadline: Tick, now: Tick) {
        if self.is_shutting_down() {
            return;
        }
        self.counters.retries += 1;
        if deadline <= now {
            return self.add(hash, key, priority, Some(now));
        }
        self.promote(Some(now));
        let slot = self
            .slots
            .find(hash, key)
            .unwrap_or_else(|| self.slots.insert(hash, key.clone(), State::Delayed));
        self.delay(slot, priority, deadline);
    }

    /// Hands out the next key, if one is ready.
    pub(super) fn take(&mut self, now: Option<Tick>) -> Take<T> {
        self.promote(now);
        let Some(number) = self.ready.first() else {
            return if self.is_shutting_down() {
                Take::Closed
            } else {
                Take::Empty
            };
        };
        let slot = &mut self.slots[number];
        // `T::clone` may panic: nothing is changed before it.
        let key = slot.key().clone();
        slot.state = State::Processing;
        // There are no more slots than a u32 can number.
        slot.position = u32::try_from(self.processing.len()).unwrap_or(u32::MAX);
        let (priority, failures) = (slot.priority, slot.failures);
        self.processing.push(Run {
            slot: number,
            started: now.unwrap_or(Tick::START),
        });
        self.news.fresh = self.news.fresh.saturating_sub(1);
        if let Some(now) = now
            && self.timings
        {
            let waited = now.since(slot.added);
            self.counters.queue_duration.observe(waited);
            self.counters.last_queue_duration = Some(waited);
        }
        self.ready.serve(&mut self.slots, number);
        Take::Item(Handout {
            key,
            slot: number,
            priority,
            failures,
        })
    }

    /// Ends the run of a slot. Precondition: the slot was handed out and not finished since. Returns the key if the
    /// queue forgot it, to be dropped outside of the lock.
    pub(super) fn finish(&mut self, number: u32, finish: Finish, now: Option<Tick>) -> Option<T> {
        self.promote(now);
        let slot = &mut self.slots[number];
        debug_assert!(matches!(slot.state, State::Processing | State::ProcessingDirty));
        slot.failures = finish.failures;
        if let Some(now) = now
            && self.timings
        {
            let worked = now.since(self.processing[slot.position as usize].started);
            self.counters.work_duration.observe(worked);
            self.counters.last_work_duration = Some(worked);
        }
        if finish.handled && slot.marked {
            slot.marked = false;
            self.marked -= 1;
            self.news.all_handled |= self.marked == 0;
        }
        if let Some((deadline, priority)) = finish.requeue
            && !self.is_shutting_down()
        {
            self.counters.retries += 1;
            if now.is_some_and(|now| deadline <= now) {
                self.want(number, priority, now);
            } else {
                self.delay(number, priority, deadline);
            }
        }
        let slot = &mut self.slots[number];
        let position = slot.position;
        let forgotten = match slot.state {
            State::ProcessingDirty => {
                self.dirty -= 1;
                let priority = slot.priority;
                // The wait was counted from the add; it is no new add.
                self.make_ready(number, priority);
                None
            }
            _ if slot.deadline.is_some() => {
                slot.state = State::Delayed;
                None
            }
            _ => self.slots.release(number),
        };
        self.end_processing(position);
        self.trim();
        self.news.drained |= self.is_shutting_down() && self.processing.is_empty() && self.ready.len() == 0;
        forgotten
    }

    /// Makes the slots ready whose deadline has passed, in the order of their deadlines.
    #[inline]
    pub(super) fn promote(&mut self, now: Option<Tick>) {
        if let Some(now) = now
            && !self.delays.is_empty()
        {
            self.promote_due(now);
        }
    }

    fn promote_due(&mut self, now: Tick) {
        while let Some((number, deadline)) = self.delays.take_due(&mut self.slots, now) {
            let priority = self.slots[number].priority;
            self.want(number, priority, Some(deadline));
        }
    }

    /// Marks the keys that are ready now; returns how many there are.
    pub(super) fn mark_queued(&mut self) -> usize {
        for slot in self.slots.iter_mut().filter(|slot| slot.state == State::Queued) {
            slot.marked = true;
        }
        self.marked = self.ready.len();
        self.marked
    }

    /// Refuses new keys from now on and forgets the delayed ones, which are returned to be dropped outside of the lock.
    pub(super) fn shut_down(&mut self, draining: bool) -> Vec<T> {
        self.phase = if draining { Phase::Draining } else { Phase::ShutDown };
        self.news.shut_down = true;
        let mut dropped = Vec::new();
        for number in self.delays.clear(&mut self.slots) {
            if self.slots[number].state == State::Delayed {
                dropped.extend(self.slots.release(number));
            }
        }
        self.trim();
        dropped
    }

    /// Forgets the keys that wait to be handed out, and those that would be wanted again.
    pub(super) fn discard_queued(&mut self) -> Vec<T> {
        let mut dropped = Vec::new();
        let waiting: Vec<u32> = self.ready.iter(&self.slots).collect();
        for number in waiting {
            self.ready.remove(&mut self.slots, number);
            dropped.extend(self.slots.release(number));
        }
        for slot in self.slots.iter_mut() {
            if slot.state == State::ProcessingDirty {
                slot.state = State::Processing;
            }
        }
        self.dirty = 0;
        self.news.fresh = 0;
        self.news.drained |= self.is_shutting_down() && self.processing.is_empty();
        self.trim();
        dropped
    }

    /// Whether `shut_down_with_drain` has nothing to wait for.
    pub(super) fn is_drained(&self) -> bool {
        self.phase != Phase::Draining || (self.processing.is_empty() && self.ready.len() == 0)
    }

    /// Wants a known slot to be handed out as soon as its turn comes.
    fn want(&mut self, number: u32, priority: i32, ready_at: Option<Tick>) {
        let slot = &mut self.slots[number];
        let merged = priority.max(slot.priority);
        match slot.state {
            State::Free => unreachable!("a free slot has no key to add"),
            State::Delayed => {
                self.delays.cancel(&mut self.slots, number);
                self.make_ready(number, merged);
                self.count_add(number, ready_at);
            }
            State::Queued => self.raise(number, priority),
            State::Processing => {
                let was_delayed = self.delays.cancel(&mut self.slots, number);
                let slot = &mut self.slots[number];
                slot.priority = if was_delayed { merged } else { priority };
                slot.state = State::ProcessingDirty;
                self.dirty += 1;
                self.count_add(number, ready_at);
            }
            State::ProcessingDirty => slot.priority = merged,
        }
    }

    /// Gives a known slot a deadline; one that is wanted earlier than that only takes over the priority.
    fn delay(&mut self, number: u32, priority: i32, deadline: Tick) {
        let slot = &mut self.slots[number];
        let merged = priority.max(slot.priority);
        match slot.state {
            State::Free => unreachable!("a free slot has no key to add"),
            State::Queued => self.raise(number, priority),
            State::ProcessingDirty => slot.priority = merged,
            State::Delayed | State::Processing => {
                slot.priority = if slot.deadline.is_some() { merged } else { priority };
                self.delays.set(&mut self.slots, number, deadline);
                self.note_deadline(deadline);
            }
        }
    }

    fn raise(&mut self, number: u32, priority: i32) {
        if priority > self.slots[number].priority {
            self.ready.raise(&mut self.slots, number, priority);
        }
    }

    fn make_ready(&mut self, number: u32, priority: i32) {
        self.slots[number].state = State::Queued;
        self.ready.push(&mut self.slots, number, priority);
        self.news.fresh += 1;
    }

    /// Counts an accepted add, which made the slot ready, or will when it is done.
    fn count_add(&mut self, number: u32, ready_at: Option<Tick>) {
        self.counters.adds += 1;
        if let Some(ready_at) = ready_at {
            self.slots[number].added = ready_at;
        }
    }

    /// Removes the slot at this position from the list of those in process; the last one takes its place.
    fn end_processing(&mut self, position: u32) {
        self.processing.swap_remove(position as usize);
        if let Some(moved) = self.processing.get(position as usize) {
            self.slots[moved.slot].position = position;
        }
    }

    /// Gives memory back when a burst is over. Nothing is known then, so nothing refers to a slot.
    #[inline]
    fn trim(&mut self) {
        if self.slots.is_oversized() {
            self.delays.clear(&mut self.slots);
            self.slots = Slots::new();
            self.processing = Vec::new();
        }
    }

    #[cfg(test)]
    pub(super) fn check_invariants(&self) {
        self.ready.check_invariants(&self.slots);
        self.delays.check_invariants(&self.slots);
        self.slots.check_invariants();
        let count = |wanted: State| self.slots.iter().filter(|(_, slot)| slot.state == wanted).count();
        assert_eq!(count(State::Queued), self.ready.len());
        assert_eq!(
            count(State::Processing) + count(State::ProcessingDirty),
            self.processing.len()
        );
        for (position, run) in (0..).zip(&self.processing) {
            let slot = &self.slots[run.slot];
            assert!(matches!(slot.state, State::Processing | State::ProcessingDirty));
            assert_eq!(slot.position, position);
        }
        assert_eq!(count(State::ProcessingDirty), self.dirty);
        assert!(self.slots.iter().filter(|(_, slot)| slot.marked).count() <= self.marked);
        for (_, slot) in self.slots.iter() {
            let delayed = slot.deadline.is_some();
            match slot.state {
                State::Delayed => assert!(delayed),
                State::Processing => {}
                State::Free | State::Queued | State::ProcessingDirty => assert!(!delayed),
            }
        }
    }

    #[cfg(test)]
    pub(super) fn allocated_slots(&self) -> usize {
        self.slots.allocated()
    }

    #[cfg(test)]
    pub(super) fn known(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests;
