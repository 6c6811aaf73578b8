//! What an informer shows of itself: its phase, counters and last failure.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::error::WatchError;
use crate::informer::dispatch::HandlerStats;
use crate::informer::options::InformerId;
use crate::key::ObjectKey;
use crate::serialize::{seconds, text};
use crate::sync::Mutex;

/// What an informer is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
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
    /// The kind is not installed, and a [delayed client](crate::ViewOptions::delayed) waits for it.
    Absent,
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
            Phase::Idle | Phase::Absent => 2,
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
            Phase::Absent => "not installed",
            Phase::WatchNotSupported => "watch not supported",
            Phase::Stopped => "stopped",
        })
    }
}

/// The status and counters of one informer.
///
/// If it covers several namespaces, counters add up over them, `phase` is the one farthest from watching, `error` and
/// `last_error` are the first in the order of names, and [`namespaces`](Self::namespaces) tells each.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct InformerStats {
    /// Which informer.
    pub informer: InformerId,
    /// The Rust type of its objects, which tells informers of one resource apart.
    pub object_type: &'static str,
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
    /// How often a list or watch had to begin again, by reason: `closed` where the server ended a watch, as it does every
    /// few minutes; `panicked` where code of the type did; otherwise [`WatchErrorKind::as_str`](crate::WatchErrorKind::as_str).
    pub restarts: BTreeMap<&'static str, u64>,
    /// About how many bytes the cached objects are as the server's JSON, managed fields included: their number times the
    /// mean size of those received last. The cache itself holds each in a tenth of that (tiny types) to five times of it
    /// (whole pods).
    pub json_bytes: u64,
    /// How long ago the server last brought a list, a change or a bookmark; `None` before the first list. With bookmarks,
    /// more than about a minute means that the connection is in trouble. Over several namespaces: the longest ago.
    #[serde(serialize_with = "seconds")]
    pub last_heard: Option<Duration>,
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
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct NamespaceStats {
    /// Which namespace.
    #[serde(serialize_with = "text")]
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
    pub(crate) restarts: BTreeMap<&'static str, u64>,
    pub(crate) size: MeanSize,
    // When a list, a change or a bookmark came last.
    pub(crate) heard: Option<Instant>,
    pub(crate) error: Option<WatchError>,
    pub(crate) last_error: Option<WatchError>,
    // Objects that do not decode, until a good version or a delete comes. Bounded by the number of keys.
    pub(crate) undecodable: HashMap<ObjectKey, String, RandomState>,
}

/// The mean size of the objects received last, as many as the cache holds. Nothing is kept per object.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct MeanSize {
    bytes: f64,
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate of sizes and counts that memory can hold"
)]
impl MeanSize {
    /// A whole list came.
    pub(crate) fn listed(&mut self, objects: usize, bytes: usize) {
        self.bytes = bytes as f64 / objects.max(1) as f64;
    }

    /// Changes came; each stands for one of the objects that are cached.
    pub(crate) fn changed(&mut self, changes: usize, bytes: usize, cached: usize) {
        let mean = bytes as f64 / changes.max(1) as f64;
        let weight = changes as f64 / cached.max(changes).max(1) as f64;
        self.bytes += (mean - self.bytes) * weight;
    }

    /// The size of so many objects.
    pub(crate) fn of(self, objects: usize) -> u64 {
        (self.bytes * objects as f64).round() as u64
    }
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
        for (reason, count) in &status.restarts {
            *total.restarts.entry(reason).or_default() += count;
        }
        total.heard = match (total.heard, status.heard) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_size_follows_what_was_received_last() {
        let mut size = MeanSize::default();
        assert_eq!(size.of(10), 0);
        size.listed(4, 4_000);
        assert_eq!(size.of(4), 4_000);
        // one of four objects is replaced by one of twice the size: the mean is 1,250
        size.changed(1, 2_000, 4);
        assert_eq!(size.of(4), 5_000);
        // more changes than objects: what came last is all there is to go by
        size.changed(10, 5_000, 2);
        assert_eq!(size.of(2), 1_000);
        size.changed(0, 0, 2);
        assert_eq!(size.of(2), 1_000);
        size.listed(0, 0);
        assert_eq!(size.of(0), 0);
    }
}
