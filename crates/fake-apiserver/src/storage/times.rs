//! When commits were, for readers who lag behind by a time. Nothing is kept until one asks for it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::Revision;

/// The times of the commits that the log holds, as far as they were made since times are kept.
///
/// Lock order: within the lock of the state.
#[derive(Debug, Default)]
pub(super) struct Times {
    kept: AtomicBool,
    /// Invariant: ascending by revision and by time.
    commits: Mutex<VecDeque<(Revision, Instant)>>,
}

impl Times {
    fn commits(&self) -> MutexGuard<'_, VecDeque<(Revision, Instant)>> {
        self.commits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn keep(&self) {
        self.kept.store(true, Ordering::SeqCst);
    }

    /// A commit, of a log that holds what is above `compacted`. The caller holds the lock of the state.
    pub(super) fn committed(&self, rv: Revision, compacted: Revision) {
        if !self.kept.load(Ordering::SeqCst) {
            return;
        }
        let mut commits = self.commits();
        while commits.front().is_some_and(|(old, _)| *old <= compacted) {
            commits.pop_front();
        }
        commits.push_back((rv, Instant::now()));
    }

    /// What came after a revision never was.
    pub(super) fn restored(&self, rv: Revision) {
        let mut commits = self.commits();
        let kept = commits.partition_point(|(commit, _)| *commit <= rv);
        commits.truncate(kept);
    }

    pub(super) fn first_after(&self, time: Instant) -> Option<(Revision, Instant)> {
        let commits = self.commits();
        commits.get(commits.partition_point(|(_, at)| *at <= time)).copied()
    }
}
