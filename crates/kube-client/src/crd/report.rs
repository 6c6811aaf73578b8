//! What a [`CrdWatcher`](crate::CrdWatcher) says of itself and of a kind.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::crd::subscription::KindState;
use crate::error::WatchError;
use crate::object::Scope;

/// What is known of a kind now, and why; made by [`CrdWatcher::status`](crate::CrdWatcher::status).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindStatus {
    /// Whether it is known; `None` while that cannot be said: before anything was read of the server, and while the group
    /// of a kind that was never seen cannot be asked.
    pub state: Option<KindState>,
    /// Whether its objects live in namespaces; [`Scope::Unknown`] unless the kind is known.
    pub scope: Scope,
    /// The reason in words, as part of a sentence: `its definition serves v1, not v2`.
    pub reason: String,
}

/// Where a [`CrdWatcher`](crate::CrdWatcher) has its knowledge from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CrdSource {
    /// Nothing has answered yet.
    Starting,
    /// The definitions, and discovery for kinds that have none.
    Definitions,
    /// Discovery alone: the definitions cannot be read.
    Discovery,
}

/// The state of the CRD watcher; part of [`Stats`](crate::Stats).
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct CrdWatcherStats {
    /// Where the knowledge comes from.
    pub source: CrdSource,
    /// As [`CrdWatcher::has_synced`](crate::CrdWatcher::has_synced).
    pub has_synced: bool,
    /// Definitions in the cache. While discovery alone decides, those that were read before.
    pub definitions: usize,
    /// Callbacks that wait for a kind.
    pub waiting: usize,
    /// The definitions that do not count, by name, and why.
    pub ignored: BTreeMap<String, String>,
    /// Why the definitions cannot be read, while discovery alone decides.
    pub refused: Option<WatchError>,
    /// What keeps discovery from answering now.
    pub discovery_error: Option<WatchError>,
}
