//! What can be read off a queue: metrics, what is new of them, and the snapshot.

use std::time::Duration;

use super::Core;
use crate::queue::metrics::{Report, WorkQueueMetrics};
use crate::queue::slots::State;
use crate::queue::snapshot::{DelayedKey, ProcessingKey, QueuedKey, Snapshot};
use crate::queue::time::Tick;

impl<T> Core<T> {
    /// What the metrics were told of the depth.
    pub(in crate::queue) fn reported_depth(&self) -> i64 {
        i64::try_from(self.counters.reported_depth).unwrap_or(i64::MAX)
    }
}

impl<T: Clone + Eq> Core<T> {
    /// `workqueue_depth`: what waits to be handed out, and what is handed out and wanted again.
    fn depth(&self) -> usize {
        self.ready.len() + self.dirty
    }

    /// What was counted and measured since the last call, if anything was.
    #[inline]
    pub(in crate::queue) fn report(&mut self) -> Option<Report> {
        let depth = self.depth();
        let signed = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let counters = &mut self.counters;
        if counters.adds == counters.reported_adds
            && counters.retries == counters.reported_retries
            && depth == counters.reported_depth
            && counters.last_queue_duration.is_none()
            && counters.last_work_duration.is_none()
        {
            return None;
        }
        let report = Report {
            adds: counters.adds - counters.reported_adds,
            retries: counters.retries - counters.reported_retries,
            depth: signed(depth) - signed(counters.reported_depth),
            queue_duration: counters.last_queue_duration.take(),
            work_duration: counters.last_work_duration.take(),
        };
        counters.reported_adds = counters.adds;
        counters.reported_retries = counters.retries;
        counters.reported_depth = depth;
        Some(report)
    }

    /// How long the keys in process have been worked on, summed and at most.
    pub(in crate::queue) fn unfinished(&self, now: Tick) -> (Duration, Duration) {
        if !self.timings {
            return (Duration::ZERO, Duration::ZERO);
        }
        let running = self.processing.iter().map(|run| now.since(run.started));
        running.fold((Duration::ZERO, Duration::ZERO), |(sum, longest), one| {
            (sum.saturating_add(one), longest.max(one))
        })
    }

    pub(in crate::queue) fn metrics(&self, name: &str, now: Tick) -> WorkQueueMetrics {
        let (unfinished, longest) = self.unfinished(now);
        WorkQueueMetrics {
            name: name.to_owned(),
            depth: self.depth(),
            adds_total: self.counters.adds,
            queue_duration_seconds: self.counters.queue_duration.clone(),
            work_duration_seconds: self.counters.work_duration.clone(),
            unfinished_work_seconds: unfinished.as_secs_f64(),
            longest_running_processor_seconds: longest.as_secs_f64(),
            retries_total: self.counters.retries,
        }
    }

    /// At most `limit` keys of each kind.
    pub(in crate::queue) fn snapshot(&self, limit: usize, now: Tick) -> Snapshot<T> {
        let since = |tick: Tick| self.timings.then(|| now.since(tick));
        let queued = self.ready.in_order(&self.slots).take(limit).map(|number| {
            let slot = &self.slots[number];
            QueuedKey {
                key: slot.key().clone(),
                priority: slot.priority,
                failures: slot.failures,
                waited: since(slot.added),
            }
        });
        let mut in_process = self.processing.clone();
        if self.timings {
            in_process.sort_unstable_by_key(|run| run.started);
        }
        let processing = in_process.iter().take(limit).map(|run| {
            let slot = &self.slots[run.slot];
            let deadline = slot.deadline.map(|deadline| deadline.at().since(now));
            ProcessingKey {
                key: slot.key().clone(),
                failures: slot.failures,
                running: since(run.started),
                again_in: match slot.state {
                    State::ProcessingDirty => Some(Duration::ZERO),
                    _ => deadline,
                },
            }
        });
        let only_delayed = |number: u32| self.slots[number].state == State::Delayed;
        let delayed = self
            .delays
            .iter(&self.slots)
            .filter(|(number, _)| only_delayed(*number));
        let delayed = delayed.take(limit).map(|(number, deadline)| {
            let slot = &self.slots[number];
            DelayedKey {
                key: slot.key().clone(),
                priority: slot.priority,
                failures: slot.failures,
                ready_in: deadline.since(now),
            }
        });
        let processing_and_delayed = self
            .processing
            .iter()
            .filter(|run| self.slots[run.slot].deadline.is_some());
        Snapshot {
            queued: queued.collect(),
            queued_total: self.ready.len(),
            processing: processing.collect(),
            processing_total: self.processing.len(),
            delayed: delayed.collect(),
            delayed_total: self.delays.len() - processing_and_delayed.count(),
            shutting_down: self.is_shutting_down(),
        }
    }
}
