//! Views: servers of one cluster that are behind. All share the log; each has a place in it.
//!
//! Owns how far each view has got, for each resource, and what holds it there ([`Replica`]). What is read through a view, and
//! what is read past it, is for the verbs; [`ServerView`] is the handle for tests. Start at [`Replica::seen`].
//!
//! # Design
//!
//! On a real cluster each server keeps a cache of each resource, which follows the store. What a server reads from the cache may
//! be old; what it reads from the store is not. A view is such a server whose caches are late: it has no copy of anything, only
//! the revision up to which its caches have got, and the log shows every state that it remembers. A hold stops the cache of one
//! resource before an event. Nothing runs in the background: whoever reads asks how far the view has got by now, and a watch
//! that waits is woken by commits, by changes of the view, and by the clock.

mod handle;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

pub use handle::{HoldHandle, ServerView};

use crate::signal::{Listener, Signal};
use crate::storage::{ResourceId, Revision, Storage};
use crate::stored::Stored;

/// How far a view has got.
///
/// # Guarantees
/// What it has shown of a resource never goes back, but for a restore of the storage.
#[derive(Debug)]
pub(crate) struct Replica {
    name: String,
    /// Lock order: before that of the storage.
    state: Mutex<State>,
    /// Tells of each change of the state that may let the view get further.
    changed: Signal,
}

#[derive(Debug)]
struct State {
    pace: Pace,
    /// The view has got here, holds apart. Invariant: falls by a restore only.
    reached: Revision,
    holds: Vec<Hold>,
    /// The number of the next hold.
    next_hold: u64,
}

/// How a view follows the log.
#[derive(Clone, Copy, Debug)]
enum Pace {
    /// At once.
    Follow,
    /// Each commit that long after it was made.
    Lag(Duration),
    /// At once, up to a revision.
    UpTo(Revision),
}

/// The events of one key do not get into the cache of its resource.
#[derive(Debug)]
struct Hold {
    number: u64,
    resource: ResourceId,
    key: String,
    /// No event about the key is between where the hold began and here.
    searched: Revision,
    /// The event that is held. Invariant: above `searched`.
    held: Option<Revision>,
}

/// What a hold holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// Nothing yet.
    Nothing,
    /// The event of this revision, and what follows it.
    Change(Revision),
    /// Nothing any more.
    Released,
}

impl Replica {
    /// A view that follows the log at once.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            state: Mutex::new(State {
                pace: Pace::Follow,
                reached: 0,
                holds: Vec::new(),
                next_hold: 0,
            }),
            changed: Signal::default(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The revision up to which the view sees a resource by now.
    pub(crate) fn seen(&self, storage: &Storage<Stored>, resource: ResourceId) -> Revision {
        let mut state = self.state();
        let reached = state.advance(storage);
        state.before_holds(storage, resource, reached)
    }

    /// The revision up to which the view will see a resource if nothing happens but that time passes.
    pub(crate) fn will_see(&self, storage: &Storage<Stored>, resource: ResourceId) -> Revision {
        let mut state = self.state();
        let reached = state.advance(storage);
        let end = match state.pace {
            Pace::Lag(_) => storage.current(),
            Pace::Follow | Pace::UpTo(_) => reached,
        };
        state.before_holds(storage, resource, end)
    }

    /// The revision that the view has got to, holds apart.
    fn reached(&self, storage: &Storage<Stored>) -> Revision {
        self.state().advance(storage)
    }

    /// When the view gets further if nothing is changed; none if it does not, or at once with the log.
    pub(crate) fn due(&self, storage: &Storage<Stored>) -> Option<Instant> {
        let Pace::Lag(lag) = self.state().pace else {
            return None;
        };
        let late = storage.first_commit_after(Instant::now().checked_sub(lag)?)?;
        late.checked_add(lag)
    }

    /// Tells of changes of the view itself.
    pub(crate) fn changes(&self) -> Listener {
        self.changed.subscribe()
    }

    /// Waits until the view sees a revision of a resource.
    pub(crate) async fn sees(&self, storage: &Storage<Stored>, resource: ResourceId, rv: Revision) {
        self.until(storage, || self.seen(storage, resource) >= rv).await;
    }

    /// Waits until something is true that only commits, changes of the view and the clock make true.
    async fn until(&self, storage: &Storage<Stored>, mut done: impl FnMut() -> bool) {
        let (mut changes, mut commits) = (self.changes(), storage.advances());
        loop {
            // Marked before looking, so that what happens later is noticed.
            changes.mark_unchanged();
            commits.mark_unchanged();
            if done() {
                return;
            }
            let due = due_or_never(self.due(storage));
            tokio::select! {
                () = changes.changed() => {}
                () = commits.changed() => {}
                () = due => {}
            }
        }
    }

    fn set_pace(&self, storage: &Storage<Stored>, pace: impl FnOnce(Revision) -> Pace) {
        {
            let mut state = self.state();
            let reached = state.advance(storage);
            state.pace = pace(reached);
        }
        self.changed.send();
    }

    /// Holds back the next event about a key that the view has not seen.
    fn hold(&self, storage: &Storage<Stored>, resource: ResourceId, key: String) -> u64 {
        let mut state = self.state();
        let reached = state.advance(storage);
        let searched = state.before_holds(storage, resource, reached);
        let number = state.next_hold;
        state.next_hold += 1;
        state.holds.push(Hold {
            number,
            resource,
            key,
            searched,
            held: None,
        });
        number
    }

    fn release(&self, number: u64) {
        self.state().holds.retain(|hold| hold.number != number);
        self.changed.send();
    }

    fn release_all(&self) {
        self.state().holds.clear();
        self.changed.send();
    }

    /// What a hold holds back.
    fn held(&self, storage: &Storage<Stored>, number: u64) -> Held {
        let mut state = self.state();
        let Some(hold) = state.holds.iter_mut().find(|hold| hold.number == number) else {
            return Held::Released;
        };
        hold.search(storage);
        hold.held.map_or(Held::Nothing, Held::Change)
    }

    /// The storage went back to a revision.
    pub(crate) fn restored(&self, rv: Revision) {
        {
            let mut state = self.state();
            if let Pace::UpTo(end) = state.pace
                && end <= state.reached
            {
                state.pace = Pace::UpTo(end.min(rv));
            }
            state.reached = state.reached.min(rv);
            for hold in &mut state.holds {
                hold.searched = hold.searched.min(rv);
                hold.held = hold.held.filter(|held| *held <= rv);
            }
        }
        self.changed.send();
    }
}

/// A view as a watch follows it.
#[derive(Debug)]
pub(crate) struct Follower {
    replica: Arc<Replica>,
    changes: Listener,
}

impl Follower {
    pub(crate) fn new(replica: &Arc<Replica>) -> Self {
        Self {
            replica: Arc::clone(replica),
            changes: replica.changes(),
        }
    }

    pub(crate) fn replica(&self) -> &Replica {
        &self.replica
    }

    /// The revision up to which the view sees a resource by now.
    pub(crate) fn seen(&mut self, storage: &Storage<Stored>, resource: ResourceId) -> Revision {
        // Marked before looking, so that a later change ends the wait.
        self.changes.mark_unchanged();
        self.replica.seen(storage, resource)
    }

    /// Waits until the view may have got further, for another reason than a commit.
    pub(crate) async fn moved(&mut self, storage: &Storage<Stored>) {
        let due = due_or_never(self.replica.due(storage));
        tokio::select! {
            () = self.changes.changed() => {}
            () = due => {}
        }
    }
}

/// Waits until a time, or for ever.
async fn due_or_never(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

impl State {
    /// Notes how far the view has got by now, holds apart.
    fn advance(&mut self, storage: &Storage<Stored>) -> Revision {
        let current = storage.current();
        let now = match self.pace {
            Pace::Follow => current,
            Pace::UpTo(rv) => rv.min(current),
            // A time before the clock began: nothing is that old.
            Pace::Lag(lag) => Instant::now()
                .checked_sub(lag)
                .map_or(0, |time| storage.committed_by(time)),
        };
        // A server that has lost its place in the log reads the state anew, which here is the oldest one that is remembered.
        self.reached = self.reached.max(now).max(storage.oldest());
        self.reached
    }

    /// How far the cache of a resource gets, if all others get to `reached`.
    fn before_holds(&mut self, storage: &Storage<Stored>, resource: ResourceId, reached: Revision) -> Revision {
        let mut seen = reached;
        for hold in self.holds.iter_mut().filter(|hold| hold.resource == resource) {
            hold.search(storage);
            if let Some(held) = hold.held {
                seen = seen.min(held - 1);
            }
        }
        seen
    }
}

impl Hold {
    /// Looks for an event to hold.
    fn search(&mut self, storage: &Storage<Stored>) {
        let oldest = storage.oldest();
        // The event is part of the oldest state by now.
        if self.held.is_some_and(|held| held <= oldest) {
            self.held = None;
        }
        self.searched = self.searched.max(oldest);
        if self.held.is_none() {
            // Read first: an event in between is found by the next search.
            let current = storage.current();
            self.held = storage.next_change(self.resource, &self.key, self.searched);
            if self.held.is_none() {
                self.searched = self.searched.max(current);
            }
        }
    }
}
