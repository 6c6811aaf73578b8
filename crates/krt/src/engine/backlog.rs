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
        let is_touch = |batch: &Self, number: usize, event: &Event<T>| {
            let before = batch.touched.as_ref();
            before.is_some_and(|touched| touched.binary_search(&number).is_ok())
                || matches!(event, Event::Updated { old, new } if is_same(old, new))
        };
        let mut epoch = 0;
        let mut found = Nets {
            hashing: Hashing::new(),
            of: Vec::new(),
            places: HashTable::new(),
        };
        for batch in backlog {
            epoch = batch.epoch;
            for (number, event) in batch.changes.iter().enumerate() {
                let new = event.new().cloned();
                if let Some(net) = found.get(event.latest()) {
                    panics::drop_each(std::mem::replace(&mut net.new, new));
                    if planted::has(Bug::MergedOld) {
                        net.old = event.old().cloned();
                    }
                    net.touched |= is_touch(&batch, number, event);
                } else {
                    found.of.push(Net {
                        like: Arc::clone(event.latest()),
                        old: event.old().cloned(),
                        new,
                        touched: is_touch(&batch, number, event),
                    });
                }
            }
            panics::drop_each([batch]);
        }
        let (mut told, mut touches) = (Vec::with_capacity(found.of.len()), Vec::new());
        for Net {
            like,
            old,
            new,
            touched,
        } in found.of
        {
            panics::drop_each([like]);
            let is_told = match (&old, &new) {
                (Some(old), Some(new)) => touched || !is_same(old, new),
                _ => true,
            };
            if !is_told {
                panics::drop_each([old, new]);
                continue;
            }
            if touched {
                touches.push(told.len());
            }
            told.extend(Event::apart(old, new, same.unwrap_or(|_, _| true)));
        }
        Self {
            epoch,
            changes: Arc::new(told),
            touched: (!touches.is_empty()).then(|| touches.into()),
        }
    }
}
