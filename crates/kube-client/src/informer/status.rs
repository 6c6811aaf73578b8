//! What an informer shows of itself: its phase, counters and last failure.

use std::fmt;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use tokio::sync::Notify;

use crate::error::WatchError;
use crate::informer::dispatch::HandlerStats;
use crate::informer::options::InformerId;
use crate::key::ObjectKey;
use crate::sync::Mutex;

/// What an informer is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Phase {
    /// Registered; `run_and_wait` or `start` has not been called.
    #[default]
    Idle,
    /// Fetching the whole state as a streaming list.
    ListingStream,
    /// Fetching the whole state as a paged list.
    ListingPages,
    /// Following changes.
    Watching,
    /// Waiting before the next try.
    Backoff,
    /// The server has this kind but cannot watch it. Final.
    WatchNotSupported,
    /// Stopped. Final.
    Stopped,
}

impl Phase {
    /// How far it is from following changes, to tell the phase of several reflectors: the farthest counts.
    fn distance(self) -> u8 {
        match self {
            Phase::Watching => 0,
            Phase::Stopped => 1,
            Phase::Idle => 2,
            Phase::ListingStream | Phase::ListingPages => 3,
            Phase::Backoff => 4,
            Phase::WatchNotSupported => 5,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Idle => "not started",
            Phase::ListingStream => "listing (streaming)",
            Phase::ListingPages => "listing (paged)",
            Phase::Watching => "watching",
            Phase::Backoff => "waiting to retry",
            Phase::WatchNotSupported => "watch not supported",
            Phase::Stopped => "stopped",
        })
    }
}

/// The status and counters of one informer.
///
/// If it covers several namespaces, counters add up over them, `phase` is the one farthest from watching, `error` and
/// `last_error` are the first in the order of names, and [`namespaces`](Self::namespaces) tells each.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct InformerStats {
    /// Which informer.
    pub informer: InformerId,
    /// What it is doing.
    pub phase: Phase,
    /// Whether the cache was filled.
    pub has_synced: bool,
    /// Objects in the cache.
    pub objects: usize,
    /// The resource version up to which the cache is current; empty before the first list. Over several namespaces: the
    /// smallest of theirs, or empty while there is none to name.
    pub last_version: String,
    /// Watches open now: at most one per namespace covered.
    pub watches_open: usize,
    /// Lists completed.
    pub lists: u64,
    /// Watches opened.
    pub watches: u64,
    /// Objects received by watch.
    pub events: u64,
    /// Failures met.
    pub failures: u64,
    /// The failure that keeps the informer from going on; `None` while all is well.
    pub error: Option<WatchError>,
    /// The last failure, also if it was overcome since.
    pub last_error: Option<WatchError>,
    /// Objects left out because they do not decode.
    pub undecodable: usize,
    /// Each handler.
    pub handlers: Vec<HandlerStats>,
    /// Each namespace, in order, if the informer covers several; otherwise empty.
    pub namespaces: Vec<NamespaceStats>,
}

/// One namespace of an informer over several.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NamespaceStats {
    /// Which namespace.
    pub namespace: Arc<str>,
    /// What the informer is doing there.
    pub phase: Phase,
    /// Whether this namespace's objects are in the cache.
    pub has_synced: bool,
    /// The resource version up to which they are current; empty before the first list.
    pub last_version: String,
    /// The failure that keeps this namespace from going on; `None` while all is well.
    pub error: Option<WatchError>,
    /// The last failure, also if it was overcome since.
    pub last_error: Option<WatchError>,
}

/// A part of an informer that its first sync waits for.
pub(crate) struct Unfilled {
    /// The namespace; `None` if it is all that the informer covers.
    pub(crate) namespace: Option<Arc<str>>,
    /// What keeps it from going on.
    pub(crate) error: Option<WatchError>,
}

/// The counters behind [`InformerStats`], written by one reflector.
#[derive(Debug, Default)]
pub(crate) struct Status {
    pub(crate) phase: Phase,
    pub(crate) watches_open: usize,
    pub(crate) lists: u64,
    pub(crate) watches: u64,
    pub(crate) events: u64,
    pub(crate) failures: u64,
    pub(crate) error: Option<WatchError>,
    pub(crate) last_error: Option<WatchError>,
    // Objects that do not decode, until a good version or a delete comes. Bounded by the number of keys.
    pub(crate) undecodable: HashMap<ObjectKey, String, RandomState>,
}

/// What the statuses of an informer's reflectors come to; without the objects that do not decode.
pub(crate) fn sum<'a>(statuses: impl IntoIterator<Item = &'a StatusCell>) -> Status {
    let mut total = Status {
        phase: Phase::Watching,
        ..Status::default()
    };
    for cell in statuses {
        let status = cell.status.lock();
        if status.phase.distance() > total.phase.distance() {
            total.phase = status.phase;
        }
        total.watches_open += status.watches_open;
        total.lists += status.lists;
        total.watches += status.watches;
        total.events += status.events;
        total.failures += status.failures;
        total.error = total.error.or_else(|| status.error.clone());
        total.last_error = total.last_error.or_else(|| status.last_error.clone());
    }
    total
}

/// A status and whom to tell when it changes.
#[derive(Debug)]
pub(crate) struct StatusCell {
    status: Mutex<Status>,
    changed: Arc<Notify>,
}

impl StatusCell {
    pub(crate) fn new(changed: Arc<Notify>) -> Self {
        Self {
            status: Mutex::new(Status::default()),
            changed,
        }
    }

    /// Changes the status without telling anyone: counters.
    pub(crate) fn update<R>(&self, f: impl FnOnce(&mut Status) -> R) -> R {
        f(&mut self.status.lock())
    }

    /// Changes the status and wakes whoever waits for a sync.
    pub(crate) fn announce(&self, f: impl FnOnce(&mut Status)) {
        self.update(f);
        self.changed.notify_waiters();
    }
}
