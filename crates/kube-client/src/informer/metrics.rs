//! What informers and handlers export through the `metrics` facade: every name, and the handles of one of each.
//!
//! `docs/metrics.md` explains the names to users. The handles are resolved once, when an informer starts and when a handler
//! is registered; afterwards a measurement is one call on a handle, which does nothing if no recorder was installed by then.
//! No measurement is made while a lock is held: a recorder is somebody else's code. If it panics as it gives out a handle, that
//! one measures nothing; where else its panics could reach a user of the informer, or a drop, they are [`contained`] as well.
//!
//! Series of the same labels add up: gauges that count only ever move by differences, and what an informer or handler added is
//! taken back when it ends. A time cannot be added up: that of the last version is set, so of several with the same labels it
//! shows the one that moved last, and it stays when the informer ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use metrics::{Counter, Gauge, Histogram, IntoF64, Key, Label, Metadata, Recorder, SharedString, Unit, with_recorder};

use crate::informer::options::InformerId;

const LISTS: &str = "watershed_informer_lists_total";
const LIST_DURATION: &str = "watershed_informer_list_duration_seconds";
const WATCHES: &str = "watershed_informer_watches_total";
const WATCHES_OPEN: &str = "watershed_informer_watches_open";
const WATCH_DURATION: &str = "watershed_informer_watch_duration_seconds";
const EVENTS: &str = "watershed_informer_events_total";
const DECODE_FAILURES: &str = "watershed_informer_decode_failures_total";
const UNDECODABLE: &str = "watershed_informer_undecodable_objects";
const FAILING: &str = "watershed_informer_failing";
const RESTARTS: &str = "watershed_informer_restarts_total";
const OBJECTS: &str = "watershed_informer_objects";
const LAST_VERSION: &str = "watershed_informer_last_version_timestamp_seconds";
const QUEUE_DEPTH: &str = "watershed_informer_handler_queue_depth";
const COALESCED: &str = "watershed_informer_handler_coalesced_total";
const HANDLED: &str = "watershed_informer_handler_events_total";
const HANDLER_DURATION: &str = "watershed_informer_handler_duration_seconds";
const PANICS: &str = "watershed_informer_handler_panics_total";
const CALL_STARTED: &str = "watershed_informer_handler_call_started_timestamp_seconds";

/// The label of a list's form.
pub(crate) const STREAMING: &str = "streaming";
/// The label of a list's form.
pub(crate) const PAGED: &str = "paged";

const METADATA: Metadata<'static> = Metadata::new("kube_client", metrics::Level::INFO, Some("kube_client"));

/// What kind of metric a name is.
#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// Every metric: name, kind, unit, meaning.
const DESCRIPTIONS: [(&str, Kind, Option<Unit>, &str); 18] = [
    (LISTS, Kind::Counter, None, "Lists finished, by form and result."),
    (
        LIST_DURATION,
        Kind::Histogram,
        Some(Unit::Seconds),
        "From the request of a list to the cache being filled with it, by form.",
    ),
    (
        WATCHES,
        Kind::Counter,
        None,
        "Watches opened, those of streaming lists included.",
    ),
    (WATCHES_OPEN, Kind::Gauge, None, "Watches that are being followed now."),
    (
        WATCH_DURATION,
        Kind::Histogram,
        Some(Unit::Seconds),
        "How long a watch was open, observed at its end.",
    ),
    (EVENTS, Kind::Counter, None, "Changes of objects received by watch."),
    (
        DECODE_FAILURES,
        Kind::Counter,
        None,
        "Objects received that are not of the informer's type.",
    ),
    (
        UNDECODABLE,
        Kind::Gauge,
        None,
        "Objects left out now because they are not of the informer's type.",
    ),
    (
        FAILING,
        Kind::Gauge,
        None,
        "1 while a failure keeps the informer from going on.",
    ),
    (
        RESTARTS,
        Kind::Counter,
        None,
        "Lists and watches that had to begin again, by reason.",
    ),
    (OBJECTS, Kind::Gauge, None, "Objects in the cache."),
    (
        LAST_VERSION,
        Kind::Gauge,
        Some(Unit::Seconds),
        "Unix time at which the cache's resource version last moved.",
    ),
    (QUEUE_DEPTH, Kind::Gauge, None, "Events that wait for the handler."),
    (
        COALESCED,
        Kind::Counter,
        None,
        "Events merged into others because the handler lagged.",
    ),
    (
        HANDLED,
        Kind::Counter,
        None,
        "Events that the handler finished, by return or panic.",
    ),
    (
        HANDLER_DURATION,
        Kind::Histogram,
        Some(Unit::Seconds),
        "How long one call of the handler took.",
    ),
    (PANICS, Kind::Counter, None, "Calls of the handler that panicked."),
    (
        CALL_STARTED,
        Kind::Gauge,
        Some(Unit::Seconds),
        "Unix time at which the call of the handler that is under way began, 0 while there is none.",
    ),
];

/// Calls a recorder; a panic of it is logged and goes no further.
pub(crate) fn contained<R>(call: impl FnOnce() -> R) -> Option<R> {
    let called = catch_unwind(AssertUnwindSafe(call));
    if called.is_err() {
        tracing::error!("the metrics recorder panicked");
    }
    called.ok()
}

/// The time of day, looked at only if somebody records it.
struct Now;

impl IntoF64 for Now {
    fn into_f64(self) -> f64 {
        SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs_f64()
    }
}

/// Tells the recorder what each metric means; once per client.
pub(crate) fn describe(once: &Once) {
    let describe_all = |recorder: &dyn Recorder| {
        for (name, kind, unit, meaning) in DESCRIPTIONS {
            let meaning = SharedString::const_str(meaning);
            match kind {
                Kind::Counter => recorder.describe_counter(name.into(), unit, meaning),
                Kind::Gauge => recorder.describe_gauge(name.into(), unit, meaning),
                Kind::Histogram => recorder.describe_histogram(name.into(), unit, meaning),
            }
        }
    };
    once.call_once(|| {
        contained(|| with_recorder(describe_all));
    });
}

/// The labels that all series of one informer carry.
#[derive(Debug, Clone)]
struct Labels(Vec<Label>);

impl Labels {
    fn of(id: &InformerId, cluster: &str, namespace: Option<&str>) -> Self {
        Self(vec![
            Label::new("cluster", cluster.to_owned()),
            Label::new("gvr", id.resource.clone()),
            Label::new("namespace", namespace.unwrap_or_default().to_owned()),
        ])
    }

    fn with(&self, key: &'static str, value: impl Into<SharedString>) -> Self {
        let mut labels = self.0.clone();
        labels.push(Label::new(key, value));
        Self(labels)
    }

    fn key(&self, name: &'static str) -> Key {
        Key::from_parts(name, self.0.clone())
    }

    fn counter(&self, name: &'static str) -> Counter {
        let handle = contained(|| with_recorder(|recorder| recorder.register_counter(&self.key(name), &METADATA)));
        handle.unwrap_or_else(Counter::noop)
    }

    fn gauge(&self, name: &'static str) -> Gauge {
        let handle = contained(|| with_recorder(|recorder| recorder.register_gauge(&self.key(name), &METADATA)));
        handle.unwrap_or_else(Gauge::noop)
    }

    fn histogram(&self, name: &'static str) -> Histogram {
        let handle = contained(|| with_recorder(|recorder| recorder.register_histogram(&self.key(name), &METADATA)));
        handle.unwrap_or_else(Histogram::noop)
    }
}

/// A gauge that several of the same labels share: each adds and takes back its own part.
#[derive(Debug)]
struct Share {
    gauge: Gauge,
    // What of the gauge is ours. Written by one task only.
    part: AtomicUsize,
}

impl Share {
    fn new(gauge: Gauge) -> Self {
        Self {
            gauge,
            part: AtomicUsize::new(0),
        }
    }

    fn set(&self, value: usize) {
        let before = self.part.swap(value, Ordering::Relaxed);
        add(&self.gauge, difference(before, value));
    }
}

impl Drop for Share {
    /// Several of them are dropped together: a second panic while the first unwinds would abort the process.
    fn drop(&mut self) {
        contained(|| self.set(0));
    }
}

fn difference(before: usize, after: usize) -> i64 {
    let signed = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
    signed(after) - signed(before)
}

#[expect(clippy::cast_precision_loss, reason = "exact below 2^53")]
fn add(gauge: &Gauge, difference: i64) {
    if difference != 0 {
        gauge.increment(difference as f64);
    }
}

/// The handles of one informer, or of one of the namespaces it covers.
#[derive(Debug)]
pub(crate) struct InformerMetrics {
    labels: Labels,
    watches: Counter,
    watches_open: Share,
    watch_duration: Histogram,
    events: Counter,
    decode_failures: Counter,
    undecodable: Share,
    failing: Share,
    objects: Share,
    last_version: Gauge,
}

impl InformerMetrics {
    pub(crate) fn new(id: &InformerId, cluster: &str, namespace: Option<&str>) -> Self {
        let labels = Labels::of(id, cluster, namespace);
        Self {
            watches: labels.counter(WATCHES),
            watches_open: Share::new(labels.gauge(WATCHES_OPEN)),
            watch_duration: labels.histogram(WATCH_DURATION),
            events: labels.counter(EVENTS),
            decode_failures: labels.counter(DECODE_FAILURES),
            undecodable: Share::new(labels.gauge(UNDECODABLE)),
            failing: Share::new(labels.gauge(FAILING)),
            objects: Share::new(labels.gauge(OBJECTS)),
            last_version: labels.gauge(LAST_VERSION),
            labels,
        }
    }

    /// A list ended; `filled` says whether it came into the cache. Lists are rare: their handles are not kept.
    pub(crate) fn list_ended(&self, form: &'static str, took: Duration, filled: bool) {
        let labels = self.labels.with("form", form);
        let result = if filled { "ok" } else { "error" };
        labels.with("result", result).counter(LISTS).increment(1);
        if filled {
            labels.histogram(LIST_DURATION).record(took);
        }
    }

    pub(crate) fn watch_opened(&self) {
        self.watches.increment(1);
    }

    pub(crate) fn watch_followed(&self) {
        self.watches_open.set(1);
    }

    pub(crate) fn watch_ended(&self, was_open: Duration) {
        self.watches_open.set(0);
        self.watch_duration.record(was_open);
    }

    /// The watch that was followed is gone, nobody knows since when.
    pub(crate) fn watch_lost(&self) {
        self.watches_open.set(0);
    }

    pub(crate) fn received(&self, changes: usize) {
        self.events.increment(changes as u64);
    }

    pub(crate) fn decode_failed(&self) {
        self.decode_failures.increment(1);
    }

    /// So many objects are left out now.
    pub(crate) fn left_out(&self, objects: usize) {
        self.undecodable.set(objects);
    }

    pub(crate) fn failing(&self, failing: bool) {
        self.failing.set(usize::from(failing));
    }

    /// A list or watch has to begin again. Rare: the handle is not kept.
    pub(crate) fn restarted(&self, reason: &'static str) {
        self.labels.with("reason", reason).counter(RESTARTS).increment(1);
    }

    pub(crate) fn cached(&self, objects: usize) {
        self.objects.set(objects);
    }

    pub(crate) fn version_moved(&self) {
        self.last_version.set(Now);
    }
}

/// The handles of one handler. The default ones measure nothing.
#[derive(Debug)]
pub(crate) struct HandlerMetrics {
    queue_depth: Gauge,
    coalesced: Counter,
    handled: Counter,
    duration: Histogram,
    panics: Counter,
    call_started: Gauge,
}

impl Default for HandlerMetrics {
    fn default() -> Self {
        Self {
            queue_depth: Gauge::noop(),
            coalesced: Counter::noop(),
            handled: Counter::noop(),
            duration: Histogram::noop(),
            panics: Counter::noop(),
            call_started: Gauge::noop(),
        }
    }
}

impl HandlerMetrics {
    pub(crate) fn new(id: &InformerId, cluster: &str, handler: &str) -> Self {
        let labels = Labels::of(id, cluster, id.namespaces.as_one()).with("handler", handler.to_owned());
        Self {
            queue_depth: labels.gauge(QUEUE_DEPTH),
            coalesced: labels.counter(COALESCED),
            handled: labels.counter(HANDLED),
            duration: labels.histogram(HANDLER_DURATION),
            panics: labels.counter(PANICS),
            call_started: labels.gauge(CALL_STARTED),
        }
    }

    /// The queue grew or shrank, and events were merged away. Among others, whoever registers and removes handlers calls this.
    pub(crate) fn queue(&self, unreported: Unreported) {
        if unreported == Unreported::default() {
            return;
        }
        contained(|| {
            add(&self.queue_depth, unreported.depth);
            if unreported.coalesced > 0 {
                self.coalesced.increment(unreported.coalesced);
            }
        });
    }

    pub(crate) fn handled(&self, events: usize, panicked: bool) {
        self.handled.increment(events as u64);
        if panicked {
            self.panics.increment(1);
        }
    }

    pub(crate) fn called(&self, took: Duration) {
        self.duration.record(took);
    }

    /// A call begins.
    pub(crate) fn call_began(&self) {
        self.call_started.set(Now);
    }

    /// No call is under way, nor will one begin at once.
    pub(crate) fn calls_ended(&self) {
        self.call_started.set(0.0);
    }
}

/// What a queue has reported of itself. Kept under the queue's lock, so that differences are taken in order.
#[derive(Debug, Default)]
pub(crate) struct Reported {
    depth: usize,
    coalesced: u64,
}

/// What happened to a queue since it was last asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Unreported {
    depth: i64,
    coalesced: u64,
}

impl Reported {
    /// The difference to what was reported before, which then counts as reported.
    pub(crate) fn take(&mut self, depth: usize, coalesced: u64) -> Unreported {
        let unreported = Unreported {
            depth: difference(self.depth, depth),
            coalesced: coalesced.saturating_sub(self.coalesced),
        };
        *self = Self { depth, coalesced };
        unreported
    }
}

#[cfg(test)]
mod tests;
