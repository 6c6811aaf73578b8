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
    /// The resource version up to which the cache is current; empty before the first list.
    pub last_version: String,
    /// Watches open now: 0 or 1.
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
}

/// The counters behind [`InformerStats`], written by the reflector.
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

    pub(crate) fn phase(&self) -> Phase {
        self.status.lock().phase
    }
}
