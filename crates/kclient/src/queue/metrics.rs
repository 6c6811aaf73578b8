//! What a queue measures, as plain values.
//!
//! Owns: the counters kept under the queue's lock, the histogram, and the public values. Names and meanings are those
//! of client-go's `workqueue_*` metrics, so that existing dashboards and alerts apply. [`super::export`] exports them.

use std::time::Duration;

use super::time::saturating_nanos;

/// Upper bounds in seconds of the histogram buckets: powers of ten from 10 ns to 1,000 s.
const BOUNDS: [f64; 12] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3];

/// The first of them in nanoseconds; each is ten times the one before.
const FIRST_BOUND: u64 = 10;

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
        // How many bounds are below it: a bound belongs to its own bucket.
        let above_first = saturating_nanos(duration).saturating_sub(1) / FIRST_BOUND;
        let below = above_first.checked_ilog10().map_or(0, |tens| tens as usize + 1);
        self.counts[below.min(BOUNDS.len())] += 1;
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
    /// Reconciles that ended with an error, terminal ones, panics and timeouts included.
    pub errors_total: u64,
    /// Reconciles that ended with a terminal error.
    pub terminal_errors_total: u64,
    /// Reconciles that panicked.
    pub panics_total: u64,
    /// Reconciles that were dropped because they took longer than [`timeout`](super::QueueBuilder::timeout).
    pub timeouts_total: u64,
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
    /// How long the key waited that was handed out, and that was worked on that is done, until they are told to the metrics.
    pub(super) last_queue_duration: Option<Duration>,
    pub(super) last_work_duration: Option<Duration>,
    /// What of these, and of the depth, was told to the metrics.
    pub(super) reported_adds: u64,
    pub(super) reported_retries: u64,
    pub(super) reported_depth: usize,
}

/// What the metrics are to be told of one turn of the lock.
#[derive(Default, Clone, Copy)]
pub(super) struct Report {
    pub(super) adds: u64,
    pub(super) retries: u64,
    pub(super) depth: i64,
    pub(super) queue_duration: Option<Duration>,
    pub(super) work_duration: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use super::*;

    // [Q6] a duration is counted in the bucket whose bound it does not exceed, bounds included
    #[test]
    fn durations_go_into_the_bucket_that_bounds_them() {
        for (nanos, bound) in [
            (0, 1e-8),
            (10, 1e-8),
            (11, 1e-7),
            (100, 1e-7),
            (101, 1e-6),
            (1_000_000_000, 1e0),
            (1_000_000_001, 1e1),
            (1_000_000_000_000, 1e3),
        ] {
            let mut histogram = Histogram::default();
            histogram.observe(Duration::from_nanos(nanos));
            let first = histogram.buckets().find(|(_, count)| *count == 1);
            assert_eq!(first, Some((bound, 1)), "{nanos} ns");
        }
        let mut histogram = Histogram::default();
        histogram.observe(Duration::from_nanos(1_000_000_000_001));
        histogram.observe(Duration::MAX);
        assert!(histogram.buckets().all(|(_, count)| count == 0), "above the last bound");
        assert_eq!(histogram.count, 2);
    }
}
