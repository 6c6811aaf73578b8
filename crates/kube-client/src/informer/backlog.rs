//! What one handler has yet to handle: shared batches while it keeps up, the net change per key when it lags.
//!
//! # Design
//!
//! A [`Batch`] is shared by all handlers, so that the cost of dispatch is one pointer per handler. Only a
//! handler that is more than `limit` events behind pays for a table by key: from then on, until it has caught up, a
//! key's pending events merge into their net effect at the place of the first one. At most two events per key remain
//! (`Deleted`, then `Added`). The initial state and a resync do not count towards the limit: they are bounded by the
//! number of keys, and must not cost the handler changes in between.
//!
//! Pure data: no locks, no wakers, no clock. What a push lets go of is handed out, since dropping it may run code of the
//! user's and the caller holds locks.

use std::collections::VecDeque;
use std::ops::{AddAssign, Deref, Range, SubAssign};
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::event::Event;
use crate::informer::deferred::{Garbage, discard_event};
use crate::informer::returns::Returns;
use crate::key::ObjectKey;
use crate::object::Object;

/// The most events that one [`Backlog::take`] gives out, unless whole steps are asked for.
pub(crate) const TAKE: usize = 256;

/// Pending events, oldest first.
pub(crate) struct Backlog<K> {
    // Invariant: `merged.is_some()` implies `batches.is_empty()`.
    batches: VecDeque<Taken<K>>,
    merged: Option<Merged<K>>,
    // Invariant: the number of events in `batches` and `merged`; `exempt` of them do not count towards `limit`.
    len: usize,
    exempt: Exempt,
    limit: usize,
    // The most events that are taken at once.
    most: usize,
    coalesced: u64,
}

/// How many of some events are of the kinds that do not count towards the limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Exempt {
    pub(crate) initial: usize,
    pub(crate) resync: usize,
}

impl Exempt {
    pub(crate) fn of<K>(events: &[Event<K>]) -> Self {
        let mut exempt = Self::default();
        for event in events {
            exempt.initial += usize::from(event.is_initial());
            exempt.resync += usize::from(event.is_resync());
        }
        exempt
    }
}

impl AddAssign for Exempt {
    fn add_assign(&mut self, other: Self) {
        self.initial += other.initial;
        self.resync += other.resync;
    }
}

impl SubAssign for Exempt {
    fn sub_assign(&mut self, other: Self) {
        self.initial -= other.initial;
        self.resync -= other.resync;
    }
}

/// Events that came in one step, shared by every handler. Whoever drops the last clone gives the events back, or drops them
/// one by one, with panics of the objects' own `Drop` contained.
pub(crate) struct Batch<K> {
    // Invariant: `None` only while it is dropped.
    events: Option<Arc<Shared<K>>>,
}

struct Shared<K> {
    events: Vec<Event<K>>,
    returns: Option<Arc<Returns<K>>>,
}

impl<K> Batch<K> {
    fn new(mut events: Vec<Event<K>>, returns: Option<Arc<Returns<K>>>) -> Self {
        if events.capacity() > 2 * events.len().max(TAKE) {
            events.shrink_to_fit(); // it may wait for a handler for long
        }
        Self {
            events: Some(Arc::new(Shared { events, returns })),
        }
    }

    /// Events that are given back in the end.
    pub(crate) fn returning(events: Vec<Event<K>>, to: &Arc<Returns<K>>) -> Self {
        Self::new(events, Some(Arc::clone(to)))
    }
}

impl<K> From<Vec<Event<K>>> for Batch<K> {
    fn from(events: Vec<Event<K>>) -> Self {
        Self::new(events, None)
    }
}

impl<K> FromIterator<Event<K>> for Batch<K> {
    fn from_iter<I: IntoIterator<Item = Event<K>>>(events: I) -> Self {
        events.into_iter().collect::<Vec<_>>().into()
    }
}

impl<K> Deref for Batch<K> {
    type Target = [Event<K>];

    fn deref(&self) -> &[Event<K>] {
        self.events.as_deref().map_or(&[], |shared| shared.events.as_slice())
    }
}

impl<K> Clone for Batch<K> {
    fn clone(&self) -> Self {
        Self {
            events: self.events.clone(),
        }
    }
}

impl<K> Drop for Batch<K> {
    fn drop(&mut self) {
        match self.events.take().and_then(Arc::into_inner) {
            None => {}
            Some(Shared {
                events,
                returns: Some(returns),
            }) => returns.give(events),
            Some(Shared { events, returns: None }) => events.into_iter().for_each(discard_event),
        }
    }
}

/// A run of events out of a shared batch.
pub(crate) struct Taken<K> {
    batch: Batch<K>,
    range: Range<usize>,
}

impl<K> Taken<K> {
    pub(crate) fn whole(batch: Batch<K>) -> Self {
        let range = 0..batch.len();
        Self { batch, range }
    }

    pub(crate) fn events(&self) -> &[Event<K>] {
        &self.batch[self.range.clone()]
    }
}

impl<K: Object> Backlog<K> {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            batches: VecDeque::new(),
            merged: None,
            len: 0,
            exempt: Exempt::default(),
            limit,
            most: TAKE,
            coalesced: 0,
        }
    }

    /// The same, from which each batch, or all that was merged, is taken at once: what is taken ends where a batch ended.
    pub(crate) fn in_whole_steps(mut self) -> Self {
        self.most = usize::MAX;
        self
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Events that were merged away so far.
    pub(crate) fn coalesced(&self) -> u64 {
        self.coalesced
    }

    /// Appends a batch of which so many events are `exempt`. Returns how many of those were merged away.
    pub(crate) fn push(&mut self, batch: &Batch<K>, exempt: Exempt, garbage: &mut Garbage<K>) -> Exempt {
        if batch.is_empty() {
            return Exempt::default();
        }
        self.len += batch.len();
        self.exempt += exempt;
        if self.merged.is_none() {
            self.batches.push_back(Taken::whole(batch.clone()));
            if self.len - self.exempt.initial - self.exempt.resync <= self.limit {
                return Exempt::default();
            }
            self.merged = Some(Merged::default());
            let mut lost = Exempt::default();
            for batch in std::mem::take(&mut self.batches) {
                lost += self.merge(batch.events(), garbage);
                garbage.batches.push(batch);
            }
            lost
        } else {
            self.merge(batch, garbage)
        }
    }

    fn merge(&mut self, events: &[Event<K>], garbage: &mut Garbage<K>) -> Exempt {
        let mut lost = Exempt::default();
        let Some(merged) = &mut self.merged else { return lost };
        for event in events {
            let gone = merged.push(event, garbage);
            self.len -= gone.events;
            self.coalesced += gone.events as u64;
            self.exempt -= gone.exempt;
            lost += gone.exempt;
        }
        lost
    }

    /// Takes out everything, to be dropped once the locks are released. What was counted stays counted.
    #[must_use = "drop it after the lock is released"]
    pub(crate) fn clear(&mut self) -> Self {
        let mut empty = Self::new(self.limit);
        empty.most = self.most;
        empty.coalesced = self.coalesced;
        std::mem::replace(self, empty)
    }

    /// The oldest events, at most [`TAKE`] or of whole steps.
    pub(crate) fn take(&mut self) -> Option<Taken<K>> {
        let taken = if let Some(merged) = &mut self.merged {
            let events = merged.take(self.most);
            if merged.live == 0 {
                self.merged = None;
            }
            Taken::whole(events.into())
        } else {
            let front = self.batches.front_mut()?;
            let end = front.range.end.min(front.range.start.saturating_add(self.most));
            let taken = Taken {
                batch: front.batch.clone(),
                range: front.range.start..end,
            };
            front.range.start = end;
            if front.range.is_empty() {
                self.batches.pop_front();
            }
            taken
        };
        self.len -= taken.events().len();
        self.exempt -= Exempt::of(taken.events());
        (!taken.events().is_empty()).then_some(taken)
    }
}

/// Pending events merged per key.
struct Merged<K> {
    // Entry `at` has the sequence number `base + at`; `None` was merged away. The front is never `None`.
    entries: VecDeque<Option<Event<K>>>,
    base: u64,
    // Invariant: the number of `Some` in `entries`.
    live: usize,
    // Invariant: names exactly the `Some` entries of each key, oldest first.
    by_key: HashMap<ObjectKey, Pending, RandomState>,
}

#[derive(Clone, Copy)]
struct Pending {
    first: u64,
    second: Option<u64>,
}

/// What one push merged away.
#[derive(Default)]
struct Gone {
    events: usize,
    exempt: Exempt,
}

impl<K> Default for Merged<K> {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            base: 0,
            live: 0,
            by_key: HashMap::default(),
        }
    }
}

impl<K: Object> Merged<K> {
    fn entry(&mut self, seq: u64) -> &mut Option<Event<K>> {
        let at = usize::try_from(seq - self.base).unwrap_or(usize::MAX);
        &mut self.entries[at]
    }

    fn append(&mut self, event: &Event<K>) -> u64 {
        self.entries.push_back(Some(event.clone()));
        self.live += 1;
        self.base + self.entries.len() as u64 - 1
    }

    fn push(&mut self, event: &Event<K>, garbage: &mut Garbage<K>) -> Gone {
        let meta = event.object().metadata();
        let Some(pending) = self.by_key.get(&meta.key_ref()).copied() else {
            let first = self.append(event);
            self.by_key.insert(meta.key(), Pending { first, second: None });
            return Gone::default();
        };
        let last = pending.second.unwrap_or(pending.first);
        let slot = self.entry(last);
        let merged = match (&*slot, event) {
            (Some(Event::Added { initial, .. }), Event::Updated { new, .. } | Event::Added { object: new, .. }) => {
                Some(Event::Added {
                    object: Arc::clone(new),
                    initial: *initial,
                })
            }
            (Some(Event::Updated { old, .. }), Event::Updated { new, .. }) => Some(Event::Updated {
                old: Arc::clone(old),
                new: Arc::clone(new),
            }),
            (Some(Event::Updated { .. }), Event::Deleted { .. }) => Some(event.clone()),
            (Some(Event::Added { .. }), Event::Deleted { .. }) => {
                let added = slot.take();
                let exempt = Exempt::of(added.as_slice());
                garbage.events.extend(added);
                self.live -= 1;
                self.drop_last(event, pending);
                return Gone { events: 2, exempt };
            }
            _ => None,
        };
        if let Some(merged) = merged {
            let mut exempt = Exempt::of(slot.as_slice());
            exempt += Exempt::of(std::slice::from_ref(event));
            exempt -= Exempt::of(std::slice::from_ref(&merged));
            garbage.events.extend(slot.replace(merged));
            return Gone { events: 1, exempt };
        }
        // A delete stays an event of its own; what follows it is the key's second one.
        let second = self.append(event);
        if let Some(entry) = self.by_key.get_mut(&meta.key_ref()) {
            entry.second = Some(second);
        }
        Gone::default()
    }

    /// The key's last event is gone: forget it, and holes at the front.
    fn drop_last(&mut self, event: &Event<K>, pending: Pending) {
        let key = event.object().metadata().key_ref();
        if pending.second.is_some() {
            if let Some(entry) = self.by_key.get_mut(&key) {
                entry.second = None;
            }
        } else {
            self.by_key.remove(&key);
        }
        self.trim();
    }

    fn trim(&mut self) {
        while let Some(None) = self.entries.front() {
            self.entries.pop_front();
            self.base += 1;
        }
        // Holes in the middle cost a word each; give the memory back when they are most of it.
        if self.entries.len() > 64 && self.live * 4 < self.entries.len() {
            self.compact();
        }
    }

    fn compact(&mut self) {
        let old_base = self.base;
        let mut renumbered = vec![0_u64; self.entries.len()];
        let mut next = old_base;
        for (at, entry) in self.entries.iter().enumerate() {
            renumbered[at] = next;
            next += u64::from(entry.is_some());
        }
        self.entries.retain(Option::is_some);
        let renumber = |seq: u64| usize::try_from(seq - old_base).map_or(seq, |at| renumbered[at]);
        for pending in self.by_key.values_mut() {
            pending.first = renumber(pending.first);
            pending.second = pending.second.map(renumber);
        }
    }

    fn take(&mut self, most: usize) -> Vec<Event<K>> {
        let mut taken = Vec::with_capacity(most.min(self.live));
        while taken.len() < most
            && let Some(entry) = self.entries.pop_front()
        {
            self.base += 1;
            let Some(event) = entry else { continue };
            self.live -= 1;
            let key = event.object().metadata().key_ref();
            match self.by_key.get_mut(&key) {
                Some(pending) if pending.second.is_some() => {
                    pending.first = pending.second.take().unwrap_or(pending.first);
                }
                _ => {
                    self.by_key.remove(&key);
                }
            }
            taken.push(event);
        }
        self.trim();
        taken
    }
}

/// Drops the events one by one, with panics of the objects' own `Drop` contained.
impl<K> Drop for Merged<K> {
    fn drop(&mut self) {
        self.entries.drain(..).flatten().for_each(discard_event);
    }
}

#[cfg(test)]
mod tests;
