//! What a queue measures, as plain values.
//!
//! Owns: the counters kept under the queue's lock, the histogram, and the public snapshots. Names and meanings are those
//! of client-go's `workqueue_*` metrics, so that existing dashboards and alerts apply. Exporting them is not done here.

use std::time::Duration;

/// Upper bounds in seconds of the histogram buckets: powers of ten from 10 ns to 1,000 s.
const BOUNDS: [f64; 12] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3];

/// Whether a queue measures durations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timings {
    /// Durations are measured: a few clock reads per item.
    #[default]
    On,
    /// Only counters are kept; every duration of the snapshot is zero or empty.
    Off,
}

/// A histogram of durations with fixed buckets, ten times apart.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Histogram {
    /// Observations per bucket, not cumulative; the last one is everything above the last bound.
    counts: [u64; BOUNDS.len() + 1],
    /// How many durations were observed.
    pub count: u64,
    /// Their sum.
    pub sum: Duration,
}

impl Histogram {
    pub(super) fn observe(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let bucket = BOUNDS
            .iter()
            .position(|bound| seconds <= *bound)
            .unwrap_or(BOUNDS.len());
        self.counts[bucket] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(duration);
    }

    /// The cumulative buckets as Prometheus wants them: (upper bound in seconds, observations not above it). The bucket
    /// `+Inf` is [`count`](Self::count).
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        BOUNDS.iter().zip(&self.counts).scan(0, |total, (bound, count)| {
            *total += count;
            Some((*bound, *total))
        })
    }
}

/// A snapshot of the metrics of a [`WorkQueue`](super::WorkQueue), with client-go's names and meanings.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct WorkQueueMetrics {
    /// The name of the queue, the label `name` of every metric.
    pub name: String,
    /// `workqueue_depth`: items that wait to be handed out, those included that were added while they are processed.
    pub depth: usize,
    /// `workqueue_adds_total`: accepted adds. An add that collapses into a waiting one does not count; a delayed item
    /// counts when it becomes ready.
    pub adds_total: u64,
    /// `workqueue_queue_duration_seconds`: from the accepted add to the hand-out.
    pub queue_duration_seconds: Histogram,
    /// `workqueue_work_duration_seconds`: from the hand-out to done.
    pub work_duration_seconds: Histogram,
    /// `workqueue_unfinished_work_seconds`: how long the items in process have been worked on, summed.
    pub unfinished_work_seconds: f64,
    /// `workqueue_longest_running_processor_seconds`: the longest of them.
    pub longest_running_processor_seconds: f64,
    /// `workqueue_retries_total`: delayed and rate-limited adds.
    pub retries_total: u64,
}

/// A snapshot of the metrics of a [`Queue`](super::Queue).
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct QueueMetrics {
    /// The metrics of the work queue below.
    pub workqueue: WorkQueueMetrics,
    /// Reconciles that ended with [`Action::Done`](super::Action::Done).
    pub succeeded_total: u64,
    /// Reconciles that ended with [`Action::RequeueAfter`](super::Action::RequeueAfter).
    pub requeue_after_total: u64,
    /// Reconciles that ended with an error, terminal ones and panics included.
    pub errors_total: u64,
    /// Reconciles that ended with a terminal error.
    pub terminal_errors_total: u64,
    /// Reconciles that panicked.
    pub panics_total: u64,
    /// Items that were forgotten after the last permitted attempt failed.
    pub gave_up_total: u64,
    /// Reconciles that run now.
    pub active_workers: usize,
}

/// The counters that a work queue keeps under its lock.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) adds: u64,
    pub(super) retries: u64,
    pub(super) queue_duration: Histogram,
    pub(super) work_duration: Histogram,
}
