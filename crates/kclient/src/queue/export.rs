//! What queues export through the `metrics` facade: every name, and the handles of one queue.
//!
//! `docs/metrics.md` explains the names to users. The handles are resolved when a queue is built; afterwards a measurement is
//! one call on a handle, which does nothing if no recorder was installed by then. No measurement is made under the queue's lock:
//! a recorder is somebody else's code. What a queue added to a gauge is taken back when it is dropped.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, Label, Metadata, SharedString, Unit, with_recorder};

use super::metrics::Report;

const DEPTH: &str = "workqueue_depth";
const ADDS: &str = "workqueue_adds_total";
const QUEUE_DURATION: &str = "workqueue_queue_duration_seconds";
const WORK_DURATION: &str = "workqueue_work_duration_seconds";
const UNFINISHED: &str = "workqueue_unfinished_work_seconds";
const LONGEST_RUNNING: &str = "workqueue_longest_running_processor_seconds";
const RETRIES: &str = "workqueue_retries_total";
const RECONCILES: &str = "watershed_queue_reconciles_total";
const GAVE_UP: &str = "watershed_queue_gave_up_total";
const ACTIVE: &str = "watershed_queue_active_workers";

const METADATA: Metadata<'static> = Metadata::new("kclient::queue", metrics::Level::INFO, Some("kclient::queue"));

/// What kind of metric a name is.
#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// Every metric: name, kind, unit, meaning.
const DESCRIPTIONS: [(&str, Kind, Option<Unit>, &str); 10] = [
    (DEPTH, Kind::Gauge, None, "Keys that wait to be handed out."),
    (ADDS, Kind::Counter, None, "Accepted adds."),
    (
        QUEUE_DURATION,
        Kind::Histogram,
        Some(Unit::Seconds),
        "How long a key waits before it is handed out.",
    ),
    (
        WORK_DURATION,
        Kind::Histogram,
        Some(Unit::Seconds),
        "How long it takes to process a key.",
    ),
    (
        UNFINISHED,
        Kind::Gauge,
        Some(Unit::Seconds),
        "How long the keys in process have been worked on, summed.",
    ),
    (
        LONGEST_RUNNING,
        Kind::Gauge,
        Some(Unit::Seconds),
        "How long the longest-running key in process has been worked on.",
    ),
    (RETRIES, Kind::Counter, None, "Delayed and rate-limited adds."),
    (RECONCILES, Kind::Counter, None, "Reconciles that ended, by result."),
    (
        GAVE_UP,
        Kind::Counter,
        None,
        "Keys given up after the last permitted attempt.",
    ),
    (ACTIVE, Kind::Gauge, None, "Reconciles that run now."),
];

/// Tells the recorder what each metric means. Once more does no harm, and once for all might be before it is installed.
fn describe() {
    with_recorder(|recorder| {
        for (name, kind, unit, meaning) in DESCRIPTIONS {
            let meaning = SharedString::const_str(meaning);
            match kind {
                Kind::Counter => recorder.describe_counter(name.into(), unit, meaning),
                Kind::Gauge => recorder.describe_gauge(name.into(), unit, meaning),
                Kind::Histogram => recorder.describe_histogram(name.into(), unit, meaning),
            }
        }
    });
}

fn labels(queue: &str) -> Vec<Label> {
    vec![Label::new("name", queue.to_owned())]
}

fn counter(name: &'static str, labels: Vec<Label>) -> Counter {
    with_recorder(|recorder| recorder.register_counter(&Key::from_parts(name, labels), &METADATA))
}

fn gauge(name: &'static str, labels: Vec<Label>) -> Gauge {
    with_recorder(|recorder| recorder.register_gauge(&Key::from_parts(name, labels), &METADATA))
}

fn histogram(name: &'static str, labels: Vec<Label>) -> Histogram {
    with_recorder(|recorder| recorder.register_histogram(&Key::from_parts(name, labels), &METADATA))
}

/// The handles of one work queue.
pub(super) struct WorkQueueSeries {
    depth: Gauge,
    adds: Counter,
    retries: Counter,
    queue_duration: Histogram,
    work_duration: Histogram,
    unfinished: Gauge,
    longest_running: Gauge,
}

impl WorkQueueSeries {
    pub(super) fn new(queue: &str) -> Self {
        describe();
        Self {
            depth: gauge(DEPTH, labels(queue)),
            adds: counter(ADDS, labels(queue)),
            retries: counter(RETRIES, labels(queue)),
            queue_duration: histogram(QUEUE_DURATION, labels(queue)),
            work_duration: histogram(WORK_DURATION, labels(queue)),
            unfinished: gauge(UNFINISHED, labels(queue)),
            longest_running: gauge(LONGEST_RUNNING, labels(queue)),
        }
    }

    /// Tells what one operation counted and measured.
    #[inline]
    pub(super) fn report(&self, report: Report) {
        if report.adds > 0 {
            self.adds.increment(report.adds);
        }
        if report.retries > 0 {
            self.retries.increment(report.retries);
        }
        if report.depth != 0 {
            add(&self.depth, report.depth);
        }
        if let Some(duration) = report.queue_duration {
            self.queue_duration.record(duration);
        }
        if let Some(duration) = report.work_duration {
            self.work_duration.record(duration);
        }
    }

    /// Sets the gauges of what is not finished yet.
    pub(super) fn unfinished(&self, (sum, longest): (Duration, Duration)) {
        self.unfinished.set(sum.as_secs_f64());
        self.longest_running.set(longest.as_secs_f64());
    }

    /// Takes back what the queue, which is no more, had added to the gauges.
    pub(super) fn end(&self, depth: i64) {
        add(&self.depth, -depth);
        self.unfinished((Duration::ZERO, Duration::ZERO));
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact below 2^53")]
fn add(gauge: &Gauge, difference: i64) {
    gauge.increment(difference as f64);
}

/// How a reconcile ended: the label `result`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    RequeueAfter,
    Error,
    Terminal,
    Panic,
    Timeout,
}

impl Outcome {
    const ALL: [Self; 6] = [
        Self::Done,
        Self::RequeueAfter,
        Self::Error,
        Self::Terminal,
        Self::Panic,
        Self::Timeout,
    ];

    fn label(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::RequeueAfter => "requeue_after",
            Self::Error => "error",
            Self::Terminal => "terminal_error",
            Self::Panic => "panic",
            Self::Timeout => "timeout",
        }
    }
}

/// The handles of one queue that reconciles.
pub(super) struct ReconcileSeries {
    /// By [`Outcome`].
    reconciles: [Counter; Outcome::ALL.len()],
    gave_up: Counter,
    active: Gauge,
}

impl ReconcileSeries {
    pub(super) fn new(queue: &str) -> Self {
        let reconciles = Outcome::ALL.map(|outcome| {
            let mut labels = labels(queue);
            labels.push(Label::from_static_parts("result", outcome.label()));
            counter(RECONCILES, labels)
        });
        Self {
            reconciles,
            gave_up: counter(GAVE_UP, labels(queue)),
            active: gauge(ACTIVE, labels(queue)),
        }
    }

    pub(super) fn ended(&self, outcome: Outcome) {
        self.reconciles[outcome as usize].increment(1);
    }

    pub(super) fn gave_up(&self) {
        self.gave_up.increment(1);
    }

    pub(super) fn active(&self, difference: i64) {
        add(&self.active, difference);
    }
}

#[cfg(test)]
mod tests;
