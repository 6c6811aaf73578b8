//! The state machine of the work queue: every rule, no tasks, no clock, no lock.
//!
//! Owns: which keys the queue knows and in which state each is. [`super::workqueue`] puts it behind a lock, tells it the
//! time and wakes whom it names. Start with [`State`] and [`Core::add`].
//!
//! # Design
//!
//! A key that the queue knows has a slot in one vector; a hash table holds slot numbers only, so a key is stored once,
//! and an item that was handed out carries its slot, so `done` hashes nothing. Order is kept by [`Ready`], time by
//! [`Delays`]. Every operation is O(1), but for those on delays, which are O(log delayed).

use hashbrown::HashTable;
use tokio::time::Instant;

use super::delay::Delays;
use super::metrics::{Counters, WorkQueueMetrics};
use super::ready::Ready;

/// Up to this many slots stay allocated when the queue runs empty.
const KEPT_SLOTS: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// Adds are refused; somebody waits until nothing is queued or processed.
    Draining,
    /// Adds are refused.
    ShutDown,
}

struct Slot<T> {
    /// Invariant: `None` iff the state is `Free`.
    key: Option<T>,
    hash: u64,
    state: State,
    /// The priority of the pending run. Invariant: meaningful iff the slot is `Queued`, `ProcessingDirty` or has a
    /// deadline.
    priority: i32,
    /// Failed attempts in a row, as told by [`Core::finish`].
    failures: u32,
    /// Whether `mark_queued` saw it and it was not handled since.
    marked: bool,
    /// When the pending run became ready. Invariant: `None` without timings.
    added: Option<Instant>,
    /// When the current run was handed out. Invariant: `None` without timings.
    started: Option<Instant>,
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
    pub(super) requeue: Option<(Instant, i32)>,
    /// Whether the key really was handled, as opposed to dropped on the way.
    pub(super) handled: bool,
}

/// Whom to wake after the lock is released.
#[derive(Default)]
pub(super) struct Wakes {
    /// How many waiting consumers have something to do.
    pub(super) consumers: usize,
    /// Whether those who wait for the drain have to look: it is over, or was called off.
    pub(super) drained: bool,
    /// Whether all consumers have to look, because the queue was shut down.
    pub(super) everybody: bool,
}

/// What happened under the present lock that somebody asleep has to be told.
#[derive(Default)]
struct News {
    /// Items that became ready and that no consumer was told of.
    fresh: usize,
    /// Whether the earliest deadline is now earlier than the timekeeper knows, or there is no timekeeper.
    rearm: bool,
    /// Whether the drain ended.
    drained: bool,
    /// Whether the queue was shut down.
    shut_down: bool,
}

/// All that a work queue knows.
pub(super) struct Core<T> {
    slots: Vec<Slot<T>>,
    /// Slots in state `Free`.
    free: Vec<u32>,
    /// Invariant: the numbers of all slots that are not `Free`, by the hash of their key.
    index: HashTable<u32>,
    /// Invariant: exactly the slots in state `Queued`.
    ready: Ready,
    /// Invariant: all slots in state `Delayed`, and some in state `Processing`.
    delays: Delays,
    /// Invariant: the number of slots in state `Processing` or `ProcessingDirty`.
    processing: usize,
    /// Invariant: the number of slots in state `ProcessingDirty`.
    dirty: usize,
    /// Marked keys that were not handled yet. Invariant: at least the number of slots with `marked`; a marked key that is
    /// dropped unhandled counts for ever, because nothing can be said to have handled it.
    marked: usize,
    phase: Phase,
    pub(super) counters: Counters,
    timings: bool,

    /// Invariant: at least the number of consumers that sleep and that nobody has decided to wake. One that its timer woke
    /// stays counted, because a wake-up may have crossed its way and counted it out already: a wake-up too many only makes
    /// somebody look in vain, one too few would lose an item.
    waiting: usize,
    /// The consumer that sleeps no longer than the earliest deadline that it knew: its id and that deadline. The others
    /// sleep without a timer. Invariant, between two operations: if somebody sleeps and something is delayed, the
    /// timekeeper's deadline is the earliest one, or a consumer was woken that has not looked yet; when it looks it becomes
    /// the timekeeper or, by leaving, wakes the next one.
    timekeeper: Option<(u64, Instant)>,
    consumers_seen: u64,
    news: News,
}

impl<T: Clone + Eq> Core<T> {
    pub(super) fn new(timings: bool) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            ready: Ready::new(),
            delays: Delays::new(),
            processing: 0,
            dirty: 0,
            marked: 0,
            phase: Phase::Open,
            counters: Counters::default(),
            timings,
            waiting: 0,
            timekeeper: None,
            consumers_seen: 0,
            news: News::default(),
        }
    }

    /// Whether the operations that take an optional time need one now even without timings.
    pub(super) fn has_delays(&self) -> bool {
        !self.delays.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.phase != Phase::Open
    }

    /// Wants a key to be handed out as soon as its turn comes.
    pub(super) fn add(&mut self, hash: u64, key: &T, priority: i32, now: Option<Instant>) {
        if self.is_shutting_down() {
            return;
        }
        // What was due before now is ahead in the order of readiness.
        self.promote(now);
        match self.find(hash, key) {
            None => {
                let slot = self.insert(hash, key.clone(), State::Queued);
                self.make_ready(slot, priority, now, true);
            }
            Some(slot) => self.want(slot, priority, now),
        }
    }

    /// Wants a key to be handed out once `deadline` has passed.
    pub(super) fn add_at(&mut self, hash: u64, key: &T, priority: i32, deadline: Instant, now: Instant) {
        if self.is_shutting_down() {
            return;
        }
        self.counters.retries += 1;
        if deadline <= now {
            return self.add(hash, key, priority, Some(now));
        }
        self.promote(Some(now));
        let slot = self
            .find(hash, key)
            .unwrap_or_else(|| self.insert(hash, key.clone(), State::Delayed));
        self.delay(slot, priority, deadline);
    }

    /// Hands out the next key, if one is ready.
    pub(super) fn take(&mut self, now: Option<Instant>) -> Take<T> {
        self.promote(now);
        let Some(number) = self.ready.take() else {
            return if self.is_shutting_down() {
                Take::Closed
            } else {
                Take::Empty
            };
        };
        self.news.fresh = self.news.fresh.saturating_sub(1);
        self.processing += 1;
        let slot = &mut self.slots[number as usize];
        slot.state = State::Processing;
        let Some(key) = slot.key.clone() else {
            unreachable!("a slot in use has a key")
        };
        let handout = Handout {
            key,
            slot: number,
            priority: slot.priority,
            failures: slot.failures,
        };
        if self.timings {
            slot.started = now;
            if let (Some(added), Some(now)) = (slot.added.take(), now) {
                self.counters
                    .queue_duration
                    .observe(now.saturating_duration_since(added));
            }
        }
        Take::Item(handout)
    }

    /// Ends the run of a slot. Precondition: the slot was handed out and not finished since. Returns the key if the
    /// queue forgot it, to be dropped outside of the lock.
    pub(super) fn finish(&mut self, number: u32, finish: Finish, now: Option<Instant>) -> Option<T> {
        self.promote(now);
        let slot = &mut self.slots[number as usize];
        debug_assert!(matches!(slot.state, State::Processing | State::ProcessingDirty));
        slot.failures = finish.failures;
        if self.timings
            && let (Some(started), Some(now)) = (slot.started.take(), now)
        {
            self.counters
                .work_duration
                .observe(now.saturating_duration_since(started));
        }
        if finish.handled && slot.marked {
            slot.marked = false;
            self.marked -= 1;
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
        self.processing -= 1;
        let slot = &mut self.slots[number as usize];
        let forgotten = if slot.state == State::ProcessingDirty {
            self.dirty -= 1;
            let priority = slot.priority;
            // The wait was counted from the add; it is no new add.
            self.make_ready(number, priority, None, false);
            None
        } else if self.delays.contains(number) {
            slot.state = State::Delayed;
            None
        } else {
            self.release(number)
        };
        self.news.drained |= self.is_shutting_down() && self.processing == 0 && self.ready.len() == 0;
        forgotten
    }

    /// Makes the slots ready whose deadline has passed, in the order of their deadlines.
    pub(super) fn promote(&mut self, now: Option<Instant>) {
        if self.delays.is_empty() {
            return;
        }
        let Some(now) = now else { return };
        while let Some((number, deadline)) = self.delays.take_due(now) {
            let priority = self.slots[number as usize].priority;
            self.want(number, priority, Some(deadline));
        }
    }

    /// Marks the keys that are ready now; returns how many there are.
    pub(super) fn mark_queued(&mut self) -> usize {
        for number in self.ready.iter() {
            self.slots[number as usize].marked = true;
        }
        self.marked = self.ready.len();
        self.marked
    }

    /// How many marked keys were not handled yet.
    pub(super) fn marked(&self) -> usize {
        self.marked
    }

    /// Refuses new keys from now on and forgets the delayed ones, which are returned to be dropped outside of the lock.
    pub(super) fn shut_down(&mut self, draining: bool) -> Vec<T> {
        self.phase = if draining { Phase::Draining } else { Phase::ShutDown };
        self.news.shut_down = true;
        let mut dropped = Vec::new();
        for number in self.delays.clear() {
            if self.slots[number as usize].state == State::Delayed {
                dropped.extend(self.release(number));
            }
        }
        dropped
    }

    /// Forgets the keys that wait to be handed out, and those that would be wanted again.
    pub(super) fn discard_queued(&mut self) -> Vec<T> {
        let mut dropped = Vec::new();
        let waiting: Vec<u32> = self.ready.iter().collect();
        for number in waiting {
            self.ready.remove(number);
            dropped.extend(self.release(number));
        }
        for slot in &mut self.slots {
            if slot.state == State::ProcessingDirty {
                slot.state = State::Processing;
                slot.added = None;
            }
        }
        self.dirty = 0;
        self.news.fresh = 0;
        self.news.drained |= self.is_shutting_down() && self.processing == 0;
        dropped
    }

    /// Whether `shut_down_with_drain` has nothing to wait for.
    pub(super) fn is_drained(&self) -> bool {
        self.phase != Phase::Draining || (self.processing == 0 && self.ready.len() == 0)
    }

    pub(super) fn metrics(&self, name: &str, now: Instant) -> WorkQueueMetrics {
        let running = || {
            let in_process = self.slots.iter().filter_map(|slot| slot.started);
            in_process.map(|started| now.saturating_duration_since(started).as_secs_f64())
        };
        WorkQueueMetrics {
            name: name.to_owned(),
            depth: self.ready.len() + self.dirty,
            adds_total: self.counters.adds,
            queue_duration_seconds: self.counters.queue_duration.clone(),
            work_duration_seconds: self.counters.work_duration.clone(),
            // Not `sum`: the sum of nothing is -0.0.
            unfinished_work_seconds: running().fold(0.0, |sum, seconds| sum + seconds),
            longest_running_processor_seconds: running().fold(0.0, f64::max),
            retries_total: self.counters.retries,
        }
    }

    /// Wants a known slot to be handed out as soon as its turn comes.
    fn want(&mut self, number: u32, priority: i32, ready_at: Option<Instant>) {
        let slot = &mut self.slots[number as usize];
        let merged = priority.max(slot.priority);
        match slot.state {
            State::Free => unreachable!("a free slot has no key to add"),
            State::Delayed => {
                self.delays.cancel(number);
                self.make_ready(number, merged, ready_at, true);
            }
            State::Queued => self.raise(number, priority),
            State::Processing => {
                slot.priority = if self.delays.contains(number) { merged } else { priority };
                slot.state = State::ProcessingDirty;
                slot.added = if self.timings { ready_at } else { None };
                self.delays.cancel(number);
                self.dirty += 1;
                self.counters.adds += 1;
            }
            State::ProcessingDirty => slot.priority = merged,
        }
    }

    /// Gives a known slot a deadline; one that is wanted earlier than that only takes over the priority.
    fn delay(&mut self, number: u32, priority: i32, deadline: Instant) {
        let was_delayed = self.delays.contains(number);
        let slot = &mut self.slots[number as usize];
        let merged = priority.max(slot.priority);
        match slot.state {
            State::Free => unreachable!("a free slot has no key to add"),
            State::Queued => self.raise(number, priority),
            State::ProcessingDirty => slot.priority = merged,
            State::Delayed | State::Processing => {
                slot.priority = if was_delayed { merged } else { priority };
                self.delays.set(number, deadline);
                // Whoever sleeps until a later time, or without a time, has to look again.
                self.news.rearm |= self.timekeeper.is_none_or(|(_, armed)| deadline < armed);
            }
        }
    }

    fn raise(&mut self, number: u32, priority: i32) {
        if priority > self.ready.priority(number) {
            self.slots[number as usize].priority = priority;
            self.ready.raise(number, priority);
        }
    }

    fn make_ready(&mut self, number: u32, priority: i32, ready_at: Option<Instant>, is_add: bool) {
        let slot = &mut self.slots[number as usize];
        slot.state = State::Queued;
        slot.priority = priority;
        if is_add {
            slot.added = if self.timings { ready_at } else { None };
            self.counters.adds += 1;
        }
        self.ready.push(number, priority);
        self.news.fresh += 1;
    }

    fn find(&self, hash: u64, key: &T) -> Option<u32> {
        let is_key = |number: &u32| self.slots[*number as usize].key.as_ref() == Some(key);
        self.index.find(hash, is_key).copied()
    }

    fn insert(&mut self, hash: u64, key: T, state: State) -> u32 {
        let slot = Slot {
            key: Some(key),
            hash,
            state,
            priority: 0,
            failures: 0,
            marked: false,
            added: None,
            started: None,
        };
        let number = if let Some(number) = self.free.pop() {
            self.slots[number as usize] = slot;
            number
        } else {
            // The links of 2^32 slots alone are 80 GB.
            let number = u32::try_from(self.slots.len()).expect("fewer than 2^32 distinct keys");
            self.slots.push(slot);
            self.ready.grow();
            number
        };
        let Self { index, slots, .. } = self;
        index.insert_unique(hash, number, |number| slots[*number as usize].hash);
        number
    }

    fn release(&mut self, number: u32) -> Option<T> {
        let slot = &mut self.slots[number as usize];
        slot.state = State::Free;
        slot.marked = false;
        let key = slot.key.take();
        if let Ok(entry) = self.index.find_entry(slot.hash, |candidate| *candidate == number) {
            entry.remove();
        }
        self.free.push(number);
        if self.index.is_empty() && self.slots.len() > KEPT_SLOTS {
            // A burst is over: give its memory back.
            self.slots = Vec::new();
            self.free = Vec::new();
            self.index = HashTable::new();
            self.ready.reset();
            self.delays.clear();
        }
        key
    }

    /// A new identity for a consumer that may have to sleep.
    pub(super) fn consumer_id(&mut self) -> u64 {
        self.consumers_seen += 1;
        self.consumers_seen
    }

    /// A consumer is about to sleep: returns until when at most.
    pub(super) fn sleep(&mut self, id: u64) -> Option<Instant> {
        self.waiting += 1;
        let next = self.delays.next();
        let keeps_time = |(keeper, armed): (u64, Instant)| keeper == id || next.is_some_and(|next| next < armed);
        if self.timekeeper.is_none_or(keeps_time) {
            self.timekeeper = next.map(|next| (id, next));
            return next;
        }
        None
    }

    /// A consumer that slept leaves, with or without an item. If it kept the time, or was woken to do so and found
    /// something better to do, another has to.
    ///
    /// `asleep` says that it is dropped while it sleeps. Then either it was waiting, or a wake-up was on its way to it and
    /// now reaches another consumer: one fewer is waiting in both cases.
    pub(super) fn leave(&mut self, id: u64, asleep: bool) {
        self.waiting = self.waiting.saturating_sub(usize::from(asleep));
        self.timekeeper = self.timekeeper.filter(|(keeper, _)| *keeper != id);
        let timekeeper = self.timekeeper;
        self.news.rearm |= self
            .delays
            .next()
            .is_some_and(|next| timekeeper.is_none_or(|(_, armed)| next < armed));
    }

    /// Whom to wake for what happened since the last call.
    pub(super) fn wakes(&mut self) -> Wakes {
        let News {
            fresh,
            rearm,
            drained,
            shut_down,
        } = std::mem::take(&mut self.news);
        if shut_down {
            self.waiting = 0;
            return Wakes {
                consumers: 0,
                drained: true,
                everybody: true,
            };
        }
        let consumers = fresh.max(usize::from(rearm)).min(self.waiting);
        self.waiting -= consumers;
        Wakes {
            consumers,
            drained,
            everybody: false,
        }
    }

    #[cfg(test)]
    pub(super) fn check_invariants(&self) {
        self.ready.check_invariants();
        self.delays.check_invariants();
        let count = |wanted: &[State]| self.slots.iter().filter(|slot| wanted.contains(&slot.state)).count();
        assert_eq!(count(&[State::Free]), self.free.len());
        assert_eq!(self.slots.len() - self.free.len(), self.index.len());
        assert_eq!(count(&[State::Queued]), self.ready.len());
        assert_eq!(count(&[State::Processing, State::ProcessingDirty]), self.processing);
        assert_eq!(count(&[State::ProcessingDirty]), self.dirty);
        assert!(self.slots.iter().filter(|slot| slot.marked).count() <= self.marked);
        for (number, slot) in self.slots.iter().enumerate() {
            assert_eq!(slot.key.is_none(), slot.state == State::Free);
            let delayed = self.delays.contains(u32::try_from(number).unwrap());
            match slot.state {
                State::Delayed => assert!(delayed),
                State::Processing => {}
                State::Free | State::Queued | State::ProcessingDirty => assert!(!delayed),
            }
        }
    }

    #[cfg(test)]
    pub(super) fn allocated_slots(&self) -> usize {
        self.slots.capacity()
    }
}

#[cfg(test)]
mod tests;
