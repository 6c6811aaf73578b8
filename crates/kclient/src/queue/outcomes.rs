//! What became of the reconciles of a queue, counted.
//!
//! Owns: the counters of [`super::runner`], as values and for the `metrics` facade. What follows from an outcome is decided there.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Notify;

use super::export::{Outcome, ReconcileSeries};
use super::metrics::{QueueMetrics, WorkQueueMetrics};

/// What became of the reconciles. Counters are independent of each other: nothing is ordered by them.
pub(super) struct Outcomes {
    /// By [`Outcome`].
    ended: [AtomicU64; 6],
    gave_up: AtomicU64,
    active: AtomicUsize,
    /// Told when the first reconcile begins to run.
    busy: Notify,
    series: ReconcileSeries,
}

impl Outcomes {
    pub(super) fn new(queue: &str) -> Self {
        Self {
            ended: Default::default(),
            gave_up: AtomicU64::new(0),
            active: AtomicUsize::new(0),
            busy: Notify::new(),
            series: ReconcileSeries::new(queue),
        }
    }

    pub(super) fn ended(&self, outcome: Outcome) {
        self.ended[outcome as usize].fetch_add(1, Ordering::Relaxed);
        self.series.ended(outcome);
    }

    pub(super) fn gave_up(&self) {
        self.gave_up.fetch_add(1, Ordering::Relaxed);
        self.series.gave_up();
    }

    fn count(&self, outcome: Outcome) -> u64 {
        self.ended[outcome as usize].load(Ordering::Relaxed)
    }

    /// How many reconciles run now.
    pub(super) fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// Waits until a reconcile begins to run beside which no other does, or one did since the last call.
    pub(super) async fn busy(&self) {
        self.busy.notified().await;
    }

    pub(super) fn metrics(&self, workqueue: WorkQueueMetrics) -> QueueMetrics {
        let terminal_errors_total = self.count(Outcome::Terminal);
        let panics_total = self.count(Outcome::Panic);
        let timeouts_total = self.count(Outcome::Timeout);
        QueueMetrics {
            workqueue,
            succeeded_total: self.count(Outcome::Done),
            requeue_after_total: self.count(Outcome::RequeueAfter),
            errors_total: self.count(Outcome::Error) + terminal_errors_total + panics_total + timeouts_total,
            terminal_errors_total,
            panics_total,
            timeouts_total,
            gave_up_total: self.gave_up.load(Ordering::Relaxed),
            active_workers: self.active(),
        }
    }
}

/// Counts a reconcile as running, also if it is dropped half-way.
pub(super) struct Active<'a>(&'a Outcomes);

impl<'a> Active<'a> {
    pub(super) fn new(outcomes: &'a Outcomes) -> Self {
        if outcomes.active.fetch_add(1, Ordering::Relaxed) == 0 {
            outcomes.busy.notify_one();
        }
        outcomes.series.active(1);
        Self(outcomes)
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::Relaxed);
        self.0.series.active(-1);
    }
}
