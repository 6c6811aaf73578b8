//! The event log: one totally ordered history of every object, with one server-wide resourceVersion.
//!
//! Owns versions, the log, compaction, snapshots and cursors. It knows no HTTP, no kinds and no JSON: it is
//! generic over the stored value `T` and identifies a collection by [`ResourceId`].
//! Start at [`Storage::update`] (the one way to write), [`Storage::list`] and [`Storage::read`] (a watch).
//!
//! # Design
//!
//! Every commit takes the next resourceVersion and appends one [`Entry`] to the log and to the suffix of its
//! resource, so that a watch of one resource never scans the events of another. A resource is an ordered map from
//! the string key `namespace/name` (or `name`) to the chain of its versions; exact reads, continued pages and
//! snapshots pick a version of the chain. Compaction trims the log, the suffixes and the chains together and costs
//! as much as it removes. A watch is a [`Cursor`], not a queue: a slow reader costs nothing, never delays a writer,
//! and is cut off when compaction has removed an event that it has not read.

mod chain;
mod entry;
mod keys;
mod state;
#[cfg(test)]
mod tests;
mod times;

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::watch;
use tokio::time::Instant;

pub(crate) use entry::{Encoding, Entry};
use state::{Resource, State};
use times::Times;

use crate::signal::{Listener, Signal};

/// A resourceVersion: position in the log.
pub(crate) type Revision = u64;

/// One collection of objects in the log, such as all pods. Versions of one API share a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ResourceId(u32);

/// An object with the revision that wrote it.
#[derive(Debug)]
pub(crate) struct Versioned<T> {
    /// The commit that wrote this version.
    pub(crate) rv: Revision,
    /// The value, shared with the log and with readers.
    pub(crate) object: Arc<T>,
}

impl<T> Clone for Versioned<T> {
    fn clone(&self) -> Self {
        Self {
            rv: self.rv,
            object: Arc::clone(&self.object),
        }
    }
}

/// What a transaction wants to happen to its key.
#[derive(Debug)]
pub(crate) enum Change<T> {
    /// Leave the key as it is; no event.
    Keep,
    /// Create or replace the object.
    Put(Arc<T>),
    /// Remove the object.
    Delete,
}

/// What a transaction did.
#[derive(Debug)]
pub(crate) enum Outcome<T> {
    /// Nothing was written; the state that the closure saw.
    Kept(Option<Versioned<T>>),
    /// The new version.
    Written(Versioned<T>),
    /// The last version before the removal, and the revision of the removal.
    Deleted { last: Versioned<T>, rv: Revision },
}

/// Which part of a resource a read covers.
#[derive(Clone, Debug)]
pub(crate) enum Range {
    /// Every key.
    All,
    /// The keys of one namespace.
    Namespace(String),
    /// One key.
    Key(String),
}

/// One page of a list.
#[derive(Debug)]
pub(crate) struct Page<T> {
    /// Key and version of each item, in the byte order of the keys.
    pub(crate) items: Vec<(Arc<str>, Versioned<T>)>,
    /// The revision that the page shows.
    pub(crate) rv: Revision,
    /// More items follow after the last key of `items`.
    pub(crate) more: bool,
    /// How many keys of the range, filtered or not, follow the page.
    pub(crate) remaining: usize,
}

/// Why a read at a revision failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReadError {
    /// The revision was compacted away; `oldest` is the oldest that can be read.
    Compacted { oldest: Revision },
    /// The revision has not been reached.
    Future { current: Revision },
}

/// Which items a list returns.
pub(crate) struct ListQuery<'a, T> {
    /// The keys covered.
    pub(crate) range: Range,
    /// Only keys greater than this one.
    pub(crate) after: Option<&'a str>,
    /// Read this revision instead of the latest.
    pub(crate) at: Option<Revision>,
    /// At most that many matching items; 0 means all.
    pub(crate) limit: usize,
    /// Which items count.
    pub(crate) filter: &'a dyn Fn(&str, &T) -> bool,
}

/// The place of a watch in the log of one resource.
#[derive(Debug)]
pub(crate) struct Cursor {
    resource: ResourceId,
    /// Invariant: every event of the resource up to here was handed out.
    after: Revision,
    epoch: u64,
    wake: Listener,
}

impl Cursor {
    /// Every event of the resource up to this revision was handed out.
    pub(crate) fn position(&self) -> Revision {
        self.after
    }

    /// Waits until something may have happened to the resource since the last read.
    pub(crate) async fn changed(&mut self) {
        self.wake.changed().await;
    }
}

/// What a cursor found.
#[derive(Debug)]
pub(crate) enum Batch<T> {
    /// The next events, in order.
    Events(Vec<Arc<Entry<T>>>),
    /// Nothing new: the cursor has seen all events of its resource up to the server's current revision.
    Idle,
    /// Compaction removed events that the cursor has not read.
    Behind,
    /// The resource was withdrawn or changed its shape; every event before that was handed out.
    Closed,
}

/// A place in the log of all resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// Invariant: every event up to here was handed out.
    after: Revision,
    /// Invariant: the history that `after` belongs to.
    restores: u64,
}

impl Position {
    /// Every event up to this revision was handed out.
    pub(crate) fn revision(self) -> Revision {
        self.after
    }
}

/// An object with its place.
pub(crate) type Located<T> = (ResourceId, Arc<str>, Versioned<T>);

/// What is in the log of all resources after a [`Position`].
#[derive(Debug)]
pub(crate) enum Tail<T> {
    /// The next events, in order.
    Events(Vec<Arc<Entry<T>>>),
    /// Nothing: every event was handed out.
    Idle,
    /// Events are missing, or never happened: the reader has to start from [`Storage::everything`] again.
    Lost,
}

/// The whole history of a server.
#[derive(Debug)]
pub(crate) struct Storage<T> {
    state: RwLock<State<T>>,
    revision: watch::Sender<Revision>,
    /// Tells of commits those whose order matters.
    advanced: Signal,
    times: Times,
}

impl<T> Storage<T> {
    /// An empty history that keeps at most `max_log` events before it compacts itself.
    pub(crate) fn new(max_log: usize) -> Self {
        Self {
            state: RwLock::new(State::new(max_log.max(1))),
            revision: watch::Sender::new(0),
            advanced: Signal::default(),
            times: Times::default(),
        }
    }

    fn read_state(&self) -> RwLockReadGuard<'_, State<T>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_state(&self) -> RwLockWriteGuard<'_, State<T>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an empty resource. Its history starts now: a watch from an older revision is too old,
    /// unless the resource is `ancient`, there since before the first write.
    pub(crate) fn add_resource(&self, ancient: bool) -> ResourceId {
        self.write_state().add_resource(ancient)
    }

    /// Removes every object of a resource, each with its event, then ends its watches for good.
    pub(crate) fn close_resource(&self, resource: ResourceId) {
        let keys: Vec<Arc<str>> = {
            let state = self.read_state();
            state.resource(resource).live_keys()
        };
        for key in keys {
            let removed: Result<_, std::convert::Infallible> = self.update(resource, &key, |_| Ok(Change::Delete));
            match removed {
                Ok(_) => {}
                Err(never) => match never {},
            }
        }
        let wake = {
            let mut state = self.write_state();
            let resource = state.resource_mut(resource);
            resource.closed = true;
            resource.wake.clone()
        };
        wake.send();
    }

    /// As [`end_watches`](Self::end_watches), and a watch from a revision before now is too old from now on.
    pub(crate) fn begin_watches_anew(&self, resource: ResourceId) {
        {
            let mut state = self.write_state();
            let now = state.rv;
            state.resource_mut(resource).created = now;
        }
        self.end_watches(resource);
    }

    /// Ends the open watches of a resource after they have delivered what is in the log.
    pub(crate) fn end_watches(&self, resource: ResourceId) {
        let wake = {
            let mut state = self.write_state();
            let resource = state.resource_mut(resource);
            resource.epoch += 1;
            resource.wake.clone()
        };
        wake.send();
    }

    /// The revision of the last commit.
    pub(crate) fn current(&self) -> Revision {
        *self.revision.borrow()
    }

    /// The oldest revision that can be read or watched from.
    pub(crate) fn oldest(&self) -> Revision {
        self.read_state().compacted
    }

    /// How many events the log holds.
    pub(crate) fn log_len(&self) -> usize {
        self.read_state().log.len()
    }

    /// How many live objects a resource holds.
    pub(crate) fn count(&self, resource: ResourceId) -> usize {
        self.read_state().resource(resource).live
    }

    /// Waits until the server has reached `rv`.
    pub(crate) async fn reached(&self, rv: Revision) {
        let mut advances = self.advances();
        while self.current() < rv {
            advances.changed().await;
        }
    }

    /// The latest version of a key.
    pub(crate) fn get(&self, resource: ResourceId, key: &str) -> Option<Versioned<T>> {
        self.read_state().resource(resource).get(key)
    }

    /// The version of a key that a reader sees who has got to `seen`, or to the oldest revision that is remembered.
    pub(crate) fn get_seen(&self, resource: ResourceId, key: &str, seen: Revision) -> Option<Versioned<T>> {
        let state = self.read_state();
        state.resource(resource).get_at(key, seen.max(state.compacted))
    }

    /// The one way to write: reads the key, lets `change` decide without any lock held, commits only if the key has
    /// not changed meanwhile, and otherwise tries again with what is there now.
    ///
    /// # Errors
    /// Whatever `change` returns; nothing is written then.
    pub(crate) fn update<E>(
        &self,
        resource: ResourceId,
        key: &str,
        mut change: impl FnMut(Option<&Versioned<T>>) -> Result<Change<T>, E>,
    ) -> Result<Outcome<T>, E> {
        loop {
            let old = self.get(resource, key);
            let new = match change(old.as_ref())? {
                Change::Keep => return Ok(Outcome::Kept(old)),
                Change::Put(object) => Some(object),
                Change::Delete if old.is_none() => return Ok(Outcome::Kept(None)),
                Change::Delete => None,
            };
            let (wake, compacted, rv, awaited) = {
                let mut state = self.write_state();
                let oldest = state.compacted;
                let Some(rv) = state.commit(resource, key, old.as_ref(), new.as_ref()) else {
                    continue;
                };
                let wake = state.resource(resource).wake.clone();
                let compacted = if state.compacted > oldest {
                    state.wakes()
                } else {
                    Vec::new()
                };
                self.times.committed(rv, state.compacted);
                let awaited = self.publish(&state, rv);
                (wake, compacted, rv, awaited)
            };
            self.announce(awaited);
            wake.send();
            send_all(compacted);
            return Ok(match (new, old) {
                (Some(object), _) => Outcome::Written(Versioned { rv, object }),
                (None, Some(last)) => Outcome::Deleted { last, rv },
                (None, None) => Outcome::Kept(None),
            });
        }
    }

    /// Lists a range, at the latest or at an exact revision.
    ///
    /// # Errors
    /// [`ReadError`] when `query.at` is compacted or not reached.
    pub(crate) fn list(&self, resource: ResourceId, query: &ListQuery<'_, T>) -> Result<Page<T>, ReadError> {
        let state = self.read_state();
        state.check_readable(query.at)?;
        Ok(state.resource(resource).list(query, state.rv))
    }

    /// A cursor that reads the events after `after`.
    ///
    /// # Errors
    /// [`ReadError::Compacted`] when events after `after` may be missing. A future revision is allowed: the cursor
    /// stays silent until the server gets there.
    pub(crate) fn watch_from(&self, resource: ResourceId, after: Revision) -> Result<Cursor, ReadError> {
        let state = self.read_state();
        let oldest = state.compacted.max(state.resource(resource).created);
        if after < oldest {
            return Err(ReadError::Compacted { oldest });
        }
        Ok(state.resource(resource).cursor(resource, after))
    }

    /// Everything in a range as it is now, ordered by key.
    pub(crate) fn all(&self, resource: ResourceId, range: Range) -> Vec<(Arc<str>, Versioned<T>)> {
        let query = ListQuery {
            range,
            after: None,
            at: None,
            limit: 0,
            filter: &|_, _| true,
        };
        self.snapshot(resource, &query).0.items
    }

    /// The current state of a range and a cursor that continues exactly after it.
    pub(crate) fn snapshot(&self, resource: ResourceId, query: &ListQuery<'_, T>) -> (Page<T>, Cursor) {
        self.snapshot_seen(resource, query, Revision::MAX)
    }

    /// As [`snapshot`](Self::snapshot), for a reader who has got to `seen`: the state there, or at the oldest revision that is
    /// remembered, and a cursor that continues after that.
    pub(crate) fn snapshot_seen(
        &self,
        resource: ResourceId,
        query: &ListQuery<'_, T>,
        seen: Revision,
    ) -> (Page<T>, Cursor) {
        let state = self.read_state();
        let rv = seen.max(state.compacted).min(state.rv);
        let found = state.resource(resource);
        let page = if rv < state.rv {
            let range = query.range.clone();
            let at = Some(rv);
            found.list(&ListQuery { range, at, ..*query }, rv)
        } else {
            found.list(query, rv)
        };
        (page, found.cursor(resource, rv))
    }

    /// The next events for a cursor, at most `max`.
    pub(crate) fn read(&self, cursor: &mut Cursor, max: usize) -> Batch<T> {
        self.read_seen(cursor, max, Revision::MAX)
    }

    /// As [`read`](Self::read), for a reader who has got to `seen`: later events are not there yet.
    pub(crate) fn read_seen(&self, cursor: &mut Cursor, max: usize, seen: Revision) -> Batch<T> {
        let state = self.read_state();
        let resource: &Resource<T> = state.resource(cursor.resource);
        // Marked before looking, so that an event committed later wakes the cursor.
        cursor.wake.mark_unchanged();
        if cursor.epoch < resource.restored {
            return Batch::Closed;
        }
        if resource.trimmed > cursor.after {
            return Batch::Behind;
        }
        let mut events = resource.after(cursor.after, max);
        if seen < state.rv {
            events.truncate(events.partition_point(|entry| entry.rv <= seen));
        }
        if let Some(last) = events.last() {
            cursor.after = last.rv;
            return Batch::Events(events);
        }
        if resource.closed || resource.epoch != cursor.epoch {
            return Batch::Closed;
        }
        cursor.after = cursor.after.max(state.rv.min(seen));
        Batch::Idle
    }

    /// Goes back to the state at `rv`: what was written later is gone, its revisions will be given out again, and every
    /// watch ends. False, and nothing happens, if that state is not known any more or not yet.
    pub(crate) fn restore(&self, rv: Revision) -> bool {
        let (wakes, awaited) = {
            let mut state = self.write_state();
            if !state.restore(rv) {
                return false;
            }
            self.times.restored(rv);
            (state.wakes(), self.publish(&state, rv))
        };
        self.announce(awaited);
        send_all(wakes);
        true
    }

    /// The next commit gets a revision that is higher by `revisions`, and nothing before now is remembered.
    pub(crate) fn skip(&self, revisions: Revision) {
        let (wakes, awaited) = {
            let mut state = self.write_state();
            state.rv += revisions;
            let rv = state.rv;
            state.compact(rv);
            (state.wakes(), self.publish(&state, rv))
        };
        self.announce(awaited);
        send_all(wakes);
    }

    /// Every live object, ordered by resource and key, and the place in the log of all resources that continues exactly
    /// after it.
    pub(crate) fn everything(&self) -> (Vec<Located<T>>, Position) {
        let state = self.read_state();
        let position = Position {
            after: state.rv,
            restores: state.restores,
        };
        (state.everything(), position)
    }

    /// The next events of all resources, at most `max`, in the order in which they were committed.
    pub(crate) fn read_log(&self, position: &mut Position, max: usize) -> Tail<T> {
        let state = self.read_state();
        if position.restores != state.restores || position.after < state.compacted {
            return Tail::Lost;
        }
        let events = state.after(position.after, max);
        match events.last() {
            Some(last) => {
                position.after = last.rv;
                Tail::Events(events)
            }
            None => Tail::Idle,
        }
    }

    /// Tells of each commit; it fails when the storage is gone.
    pub(crate) fn commits(&self) -> watch::Receiver<Revision> {
        // Under the lock: see `publish`.
        let _state = self.read_state();
        self.revision.subscribe()
    }

    /// The same for those whose order matters: who waited first goes on first.
    pub(crate) fn advances(&self) -> Listener {
        self.advanced.subscribe()
    }

    /// Makes a revision the current one, and says whether somebody waits for that. Inside the lock, so that it goes backwards for
    /// no reader, and nobody begins to wait between the question and the answer: to wake nobody costs more than the rest.
    #[must_use]
    fn publish(&self, _locked: &RwLockWriteGuard<'_, State<T>>, rv: Revision) -> Awaited {
        self.revision.send_if_modified(|current| {
            *current = rv;
            false
        });
        Awaited(self.revision.receiver_count() > 0)
    }

    /// Wakes who waits for any commit. Outside the lock: what is woken is not ours.
    fn announce(&self, awaited: Awaited) {
        if awaited.0 {
            self.revision.send_modify(|_| ());
        }
        self.advanced.send();
    }

    /// From now on, commits are remembered with their times, for [`committed_by`](Self::committed_by).
    pub(crate) fn keep_times(&self) {
        self.times.keep();
    }

    /// The newest revision whose commit was at `time` or before. What was committed before times were kept counts as old.
    pub(crate) fn committed_by(&self, time: Instant) -> Revision {
        // Read first: a commit in between is later than `time`, or has its time already.
        let current = self.current();
        self.times.first_after(time).map_or(current, |(rv, _)| rv - 1)
    }

    /// When the first commit after `time` was, if there was one.
    pub(crate) fn first_commit_after(&self, time: Instant) -> Option<Instant> {
        self.times.first_after(time).map(|(_, at)| at)
    }

    /// The revision of the newest event of a resource up to `seen`.
    pub(crate) fn last_change(&self, resource: ResourceId, seen: Revision) -> Revision {
        self.read_state().resource(resource).last_change(seen)
    }

    /// The revision of the first event about a key after a revision, if it is remembered.
    pub(crate) fn next_change(&self, resource: ResourceId, key: &str, after: Revision) -> Option<Revision> {
        self.read_state().resource(resource).next_change(key, after)
    }

    /// The events of a resource after `after` that are remembered, oldest first.
    pub(crate) fn events_after(&self, resource: ResourceId, after: Revision) -> Vec<Arc<Entry<T>>> {
        self.read_state().resource(resource).after(after, usize::MAX)
    }

    /// Forgets every event and every old version up to `rv` (at most the current revision).
    /// Reads and watches from older revisions then fail as expired.
    pub(crate) fn compact(&self, rv: Revision) {
        let wakes = {
            let mut state = self.write_state();
            state.compact(rv);
            state.wakes()
        };
        // Whoever waits to get somewhere may be there by that, or have lost its place.
        self.advanced.send();
        send_all(wakes);
    }
}

/// Whether somebody waits for commits of whatever resource.
#[derive(Clone, Copy, Debug)]
struct Awaited(bool);

/// Wakes the watches of resources.
fn send_all(wakes: Vec<Signal>) {
    for wake in wakes {
        wake.send();
    }
}
