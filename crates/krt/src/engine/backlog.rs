//! What waits for one consumer: batches in order, merged by whole epochs when there are too many.
//!
//! # Design
//!
//! A consumer that lags has its whole backlog merged into one batch, which leads from the state that it knows to that of the last
//! epoch. It does so itself when it comes to it. So that a consumer that never comes costs neither memory nor time without bound,
//! the engine's thread, which is the only one to add batches, does it too, but not before there is twice as much as was left
//! the last time: the cost of merging is paid by the events that came in between. No lock is held for it; the consumer finds
//! nothing meanwhile, and is told afterwards.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashTable;

use super::panics;
use super::planted::{self, Bug};
use super::store::Equal;
use crate::event::{Batch, Event};
use crate::key::Hashing;
use crate::traits::Keyed;

/// How the values of a collection are compared for those who are told of them.
pub(crate) struct Compare<T> {
    /// Whether nothing has to be told.
    pub(crate) equal: Option<Equal<T>>,
    /// Tells one individual from another of its key, where that matters: the change is told as a delete and an add then.
    pub(crate) same: Option<Equal<T>>,
}

impl<T> Clone for Compare<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Compare<T> {}

/// What a consumer gets at once.
pub(crate) trait Load: Send + Sized + 'static {
    /// How the values in it are compared.
    type Equal: Copy + Send + Sync + 'static;
    /// How many events it has.
    fn len(&self) -> usize;
    /// Whether there is anything to tell.
    fn is_told(&self) -> bool {
        self.len() > 0
    }
    /// One that leads to the same state, with the same start. Precondition: there is at least one.
    fn merge(backlog: Vec<Self>, equal: Self::Equal) -> Self;
}

/// A load that waits, and what it stands for.
pub(crate) struct Waiting<L> {
    /// The first of the epochs that it stands for.
    pub(super) first: u64,
    pub(super) load: L,
    /// Whether what is followed was synced with the last of its epochs.
    pub(super) synced: bool,
}

impl<L: Load> Waiting<L> {
    pub(crate) fn new(epoch: u64, load: L, synced: bool) -> Self {
        Self {
            first: epoch,
            load,
            synced,
        }
    }

    /// What it counts in a backlog: its events, and itself, since an empty one is not free either.
    fn size(&self) -> usize {
        self.load.len() + 1
    }

    /// Precondition: there is at least one.
    pub(super) fn merge(backlog: impl IntoIterator<Item = Self>, equal: L::Equal) -> Self {
        let (mut first, mut synced) = (u64::MAX, false);
        let loads = backlog.into_iter().map(|waiting| {
            first = first.min(waiting.first);
            synced |= waiting.synced;
            waiting.load
        });
        let loads: Vec<_> = loads.collect();
        let load = L::merge(loads, equal);
        Self { first, load, synced }
    }
}

pub(super) struct Backlog<L> {
    waiting: VecDeque<Waiting<L>>,
    /// Invariant: how much waits.
    size: usize,
    /// More than this is merged by the engine.
    merge_over: usize,
    /// More than this, in more than one batch, is merged.
    limit: usize,
    /// The first epoch of the batches that are being merged by the engine.
    merging: Option<u64>,
}

impl<L: Load> Backlog<L> {
    /// Without a limit, nothing is merged.
    pub(super) fn new(limit: Option<usize>) -> Self {
        let limit = limit.unwrap_or(usize::MAX);
        Self {
            waiting: VecDeque::new(),
            size: 0,
            merge_over: limit,
            limit,
            merging: None,
        }
    }

    /// Adds a batch. What is returned has to be merged, without locks, and given to [`put_merged`](Self::put_merged).
    pub(super) fn push(&mut self, batch: Waiting<L>) -> VecDeque<Waiting<L>> {
        self.size += batch.size();
        self.waiting.push_back(batch);
        if self.size <= self.merge_over || self.waiting.len() < 2 {
            return VecDeque::new();
        }
        self.merging = self.waiting.front().map(|one| one.first);
        self.size = 0;
        std::mem::take(&mut self.waiting)
    }

    pub(super) fn put_merged(&mut self, merged: Waiting<L>) {
        self.merging = None;
        self.size = merged.size();
        self.merge_over = self.limit.max(2 * merged.size());
        self.waiting.push_back(merged);
    }

    /// The next batch, and those that have to be merged into it, without locks.
    pub(super) fn pop(&mut self) -> Option<(Waiting<L>, VecDeque<Waiting<L>>)> {
        let next = self.waiting.pop_front()?;
        let more = if self.size > self.limit {
            self.size = 0;
            std::mem::take(&mut self.waiting)
        } else {
            self.size -= next.size();
            VecDeque::new()
        };
        self.merge_over = self.limit;
        Some((next, more))
    }

    /// Forgets everything, which is returned to be dropped.
    pub(super) fn clear(&mut self) -> VecDeque<Waiting<L>> {
        self.merging = None;
        self.size = 0;
        std::mem::take(&mut self.waiting)
    }

    /// The first epoch of what waits.
    pub(super) fn first(&self) -> Option<u64> {
        let waiting = self.waiting.front().map(|one| one.first);
        // What is being merged came before anything else.
        self.merging.or(waiting)
    }
}

/// What happened to one key over the epochs that are merged.
struct Net<T> {
    /// Any object with the key.
    like: Arc<T>,
    /// As the consumer knows it.
    old: Option<Arc<T>>,
    new: Option<Arc<T>>,
    /// Whether it was touched: told though nothing had changed.
    touched: bool,
}

/// What happened to each key.
struct Nets<T> {
    hashing: Hashing,
    of: Vec<Net<T>>,
    /// By the key's hash: places in `of`.
    places: HashTable<usize>,
}

impl<T: Keyed> Nets<T> {
    /// What happened to the key of an object so far; nothing if this is the first time.
    ///
    /// It is users who say what the key of an object is. One of which they cannot say it is alone.
    fn get(&mut self, object: &Arc<T>) -> Option<&mut Net<T>> {
        let place = panics::contain(|| {
            let key = object.key();
            let hash = self.hashing.key(key);
            let is = |place: &usize| self.of[*place].like.key() == key;
            if let Some(place) = self.places.find(hash, is) {
                return Some(*place);
            }
            let hash_of = |place: &usize| self.hashing.key(self.of[*place].like.key());
            self.places.insert_unique(hash, self.of.len(), hash_of);
            None
        });
        self.of.get_mut(place.ok()??)
    }
}

impl<T: Keyed> Load for Batch<T> {
    type Equal = Compare<T>;

    fn len(&self) -> usize {
        Self::len(self)
    }

    fn merge(mut backlog: Vec<Self>, Compare { equal, same }: Compare<T>) -> Self {
        if backlog.len() == 1
            && let Some(only) = backlog.pop()
        {
            return only;
        }
        let is_same = |old: &Arc<T>, new: &Arc<T>| {
            Arc::ptr_eq(old, new) || equal.is_some_and(|equal| panics::contain(|| equal(old, new)).unwrap_or(false))
        };
        let is_touch = |event: &Event<T>| matches!(event, Event::Updated { old, new } if is_same(old, new));
        let mut epoch = 0;
        let mut found = Nets {
            hashing: Hashing::new(),
            of: Vec::new(),
            places: HashTable::new(),
        };
        for batch in backlog {
            epoch = batch.epoch;
            for event in &*batch.changes {
                let new = event.new().cloned();
                if let Some(net) = found.get(event.latest()) {
                    panics::drop_each(std::mem::replace(&mut net.new, new));
                    if planted::has(Bug::MergedOld) {
                        net.old = event.old().cloned();
                    }
                    net.touched |= is_touch(event);
                } else {
                    found.of.push(Net {
                        like: Arc::clone(event.latest()),
                        old: event.old().cloned(),
                        new,
                        touched: is_touch(event),
                    });
                }
            }
            panics::drop_each([batch]);
        }
        let told = found.of.into_iter().flat_map(|net| {
            let Net {
                like,
                old,
                new,
                touched,
            } = net;
            panics::drop_each([like]);
            let is_told = match (&old, &new) {
                (Some(old), Some(new)) => touched || !is_same(old, new),
                _ => true,
            };
            if !is_told {
                panics::drop_each([old, new]);
                return None.into_iter().chain(None);
            }
            let mut events = Event::apart(old, new, same.unwrap_or(|_, _| true));
            events.next().into_iter().chain(events.next())
        });
        Self {
            epoch,
            changes: Arc::new(told.collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many events.
    struct Events(usize);

    impl Load for Events {
        type Equal = ();

        fn len(&self) -> usize {
            self.0
        }

        fn merge(backlog: Vec<Self>, (): ()) -> Self {
            Self(backlog.iter().map(|load| load.0).sum())
        }
    }

    fn push(backlog: &mut Backlog<Events>, epoch: u64, events: usize) -> usize {
        backlog.push(Waiting::new(epoch, Events(events), true)).len()
    }

    /// The first epoch of what is next, and of how many batches it is made.
    fn pop(backlog: &mut Backlog<Events>) -> Option<(u64, usize)> {
        backlog.pop().map(|(next, more)| (next.first, 1 + more.len()))
    }

    #[test]
    fn a_backlog_up_to_its_limit_is_not_merged() {
        let mut backlog = Backlog::new(Some(10));
        assert_eq!(push(&mut backlog, 1, 4), 0);
        for epoch in 2..20 {
            // Each counts its events and itself, so these are ten.
            assert_eq!(push(&mut backlog, epoch, 4), 0);
            assert_eq!(pop(&mut backlog), Some((epoch - 1, 1)));
            assert_eq!(backlog.first(), Some(epoch));
        }
        assert_eq!(push(&mut backlog, 20, 4), 0);
        assert_eq!(push(&mut backlog, 21, 0), 3, "eleven");
    }

    #[test]
    fn one_batch_is_never_too_much_and_two_may_be() {
        let mut backlog = Backlog::new(Some(1));
        assert_eq!(push(&mut backlog, 1, 9), 0);
        assert_eq!(push(&mut backlog, 2, 0), 2);
        let mut all = Backlog::new(None);
        assert!((0..100).all(|epoch| push(&mut all, epoch, 1000) == 0));
        assert_eq!(pop(&mut all), Some((0, 1)));
    }

    #[test]
    fn what_was_merged_is_merged_again_when_it_has_doubled_or_is_asked_for() {
        let mut backlog = Backlog::new(Some(10));
        let fill = |backlog: &mut Backlog<Events>| {
            assert_eq!(push(backlog, 1, 9), 0);
            let parts = backlog.push(Waiting::new(2, Events(9), false));
            assert_eq!(
                (parts.len(), backlog.first()),
                (2, Some(1)),
                "it waits, though it is away"
            );
            assert!(pop(backlog).is_none());
            let merged = Waiting::merge(parts, ());
            assert_eq!((merged.first, merged.load.0, merged.synced), (1, 18, true));
            backlog.put_merged(merged);
            // Nineteen; nothing is merged up to twice as many.
            assert_eq!(push(backlog, 3, 9), 0);
            assert_eq!(push(backlog, 4, 8), 0);
        };
        let mut other = Backlog::new(Some(10));
        fill(&mut other);
        assert_eq!(push(&mut other, 5, 0), 4);
        fill(&mut backlog);
        assert_eq!(pop(&mut backlog), Some((1, 3)), "all of it");
        assert_eq!(backlog.first(), None);
        assert_eq!(push(&mut backlog, 6, 5), 0);
        assert_eq!(push(&mut backlog, 7, 5), 2, "from the start again");
    }
}
