//! The queue between the cache and one handler: a synchronous state machine with hand-kept wakers.
//!
//! The cache pushes shared batches while it holds its own lock, so the queue's order is the cache's order. The
//! handler's task takes runs of events and reports each finished call. Lock order: the cache's lock, then this one;
//! nothing is woken and nothing of the user's is dropped while either is held.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use crate::error::Stopped;
use crate::event::Event;
use crate::informer::backlog::{Backlog, Batch, Exempt, Taken};
use crate::informer::deferred::Deferred;
use crate::informer::handler::{HandlerOptions, Steps};
use crate::informer::metrics::{HandlerMetrics, Reported};
use crate::object::Object;
use crate::serialize::seconds;
use crate::sync::{Mutex, Waiters, wake_all};

/// The queue of one handler.
pub(crate) struct HandlerQueue<K> {
    name: String,
    resync_every: Option<Duration>,
    metrics: HandlerMetrics,
    state: Mutex<State<K>>,
}

struct State<K> {
    backlog: Backlog<K>,
    // The cache's first state has been pushed, be it empty.
    filled: bool,
    // Invariant: initial and resync events that are pending, taken or running. No initial ones and `filled` means synced.
    left: Exempt,
    // That was so once. Initial events that come later, with a kind that comes again, do not take it back.
    synced: bool,
    // A call of the handler is under way.
    running: bool,
    // Since when, if it is one of a handler: an item of a stream is no call. Invariant: `None` unless `running`.
    called_at: Option<Instant>,
    end: Option<End>,
    runner: Option<Waker>,
    waiters: Waiters,
    handled: u64,
    panics: u64,
    reported: Reported,
}

/// Why no call starts any more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Removed,
    Stopped,
}

/// What one handler has done and has yet to do, for statistics.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HandlerStats {
    /// The name given at registration.
    pub name: String,
    /// Whether the handler has finished its initial state.
    pub has_synced: bool,
    /// Events that wait.
    pub queue_depth: usize,
    /// Events handled, panicked ones included.
    pub handled: u64,
    /// Events merged away because the handler lagged.
    pub coalesced: u64,
    /// Calls that panicked.
    pub panics: u64,
    /// How long the call that is under way has been running; `None` if the handler is not being called. It grows without end if the
    /// handler is stuck. Streams have no calls.
    #[serde(serialize_with = "seconds")]
    pub running_for: Option<Duration>,
}

impl<K: Object> State<K> {
    fn is_synced(&self) -> bool {
        self.synced
    }

    /// After every change of what it depends on.
    fn note_synced(&mut self) {
        self.synced |= self.filled && self.left.initial == 0;
    }

    /// Appends events, unless no call starts any more.
    fn append(&mut self, batch: &Batch<K>, exempt: Exempt, fills: bool) -> Deferred<K> {
        let mut deferred = Deferred::default();
        if self.end.is_some() {
            return deferred;
        }
        self.left += exempt;
        self.left -= self.backlog.push(batch, exempt, &mut deferred.garbage);
        self.filled |= fills;
        self.note_synced();
        deferred.wakers.extend(self.runner.take());
        if self.is_synced() {
            deferred.wakers.append(&mut self.waiters.take());
        }
        deferred
    }
}

impl<K: Object> HandlerQueue<K> {
    pub(crate) fn new(options: HandlerOptions) -> Self {
        Self {
            resync_every: options.resync_period(),
            name: options.name.into_owned(),
            metrics: HandlerMetrics::default(),
            state: Mutex::new(State {
                backlog: match options.steps {
                    Steps::Parts => Backlog::new(options.coalesce_above),
                    Steps::Whole => Backlog::new(options.coalesce_above).in_whole_steps(),
                },
                filled: false,
                left: Exempt::default(),
                synced: false,
                running: false,
                called_at: None,
                end: None,
                runner: None,
                waiters: Waiters::default(),
                handled: 0,
                panics: 0,
                reported: Reported::default(),
            }),
        }
    }

    /// The same queue, measured.
    pub(crate) fn with_metrics(mut self, metrics: HandlerMetrics) -> Self {
        self.metrics = metrics;
        self
    }

    pub(crate) fn metrics(&self) -> &HandlerMetrics {
        &self.metrics
    }

    /// Shows in the metrics what the queue holds now. Call it after a change, while no lock is held.
    pub(crate) fn report(&self) {
        let unreported = {
            let mut state = self.state.lock();
            let (depth, coalesced) = (state.backlog.len(), state.backlog.coalesced());
            state.reported.take(depth, coalesced)
        };
        self.metrics.queue(unreported);
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// How often the handler is to be told everything again.
    pub(crate) fn resync_every(&self) -> Option<Duration> {
        self.resync_every
    }

    /// Appends a batch. `initial` counts its initial events; `fills` says that the cache's first state ends with it.
    pub(crate) fn push(&self, batch: &Batch<K>, initial: usize, fills: bool) -> Deferred<K> {
        let exempt = Exempt { initial, resync: 0 };
        self.state.lock().append(batch, exempt, fills)
    }

    /// Whether a resync may begin: after the initial state, and one at a time.
    pub(crate) fn may_resync(&self) -> bool {
        let state = self.state.lock();
        state.end.is_none() && state.is_synced() && state.left.resync == 0
    }

    /// Appends a resync.
    pub(crate) fn push_resync(&self, batch: &Batch<K>) -> Deferred<K> {
        let resync = batch.len();
        self.state.lock().append(batch, Exempt { initial: 0, resync }, false)
    }

    /// The next events; `None` when the handler is to end. On `Pending` the runner's waker is kept.
    pub(crate) fn poll_take(&self, cx: &Context<'_>) -> Poll<Option<Taken<K>>> {
        let waker = cx.waker().clone();
        let replaced = {
            let mut state = self.state.lock();
            if state.end.is_some() {
                return Poll::Ready(None);
            }
            if let Some(taken) = state.backlog.take() {
                return Poll::Ready(Some(taken));
            }
            state.runner.replace(waker)
        };
        drop(replaced);
        Poll::Pending
    }

    /// Whether the next item of a stream may be given out; if so, it counts as running until [`finish`](Self::finish).
    pub(crate) fn begin(&self) -> bool {
        self.begins(None)
    }

    /// Whether the next call may begin, now; if so, it counts as running until [`finish`](Self::finish).
    pub(crate) fn begin_call(&self, now: Instant) -> bool {
        self.begins(Some(now))
    }

    fn begins(&self, called_at: Option<Instant>) -> bool {
        let mut state = self.state.lock();
        if state.end.is_some() {
            return false;
        }
        state.running = true;
        state.called_at = called_at;
        true
    }

    /// A call is over, by return or panic, and these events count as handled.
    pub(crate) fn finish(&self, events: &[Event<K>], panicked: bool) {
        let exempt = Exempt::of(events);
        let wakers = {
            let mut state = self.state.lock();
            state.running = false;
            state.called_at = None;
            state.handled += events.len() as u64;
            state.panics += u64::from(panicked);
            state.left -= exempt;
            state.note_synced();
            if state.is_synced() || state.end.is_some() {
                state.waiters.take()
            } else {
                Vec::new()
            }
        };
        wake_all(wakers);
        self.metrics.handled(events.len(), panicked);
    }

    /// A call was dropped half-way, because the informer stopped: it is over, but its events were not handled.
    pub(crate) fn abandon(&self) {
        let wakers = {
            let mut state = self.state.lock();
            state.running = false;
            state.called_at = None;
            state.waiters.take()
        };
        wake_all(wakers);
    }

    pub(crate) fn remove(&self) {
        self.end(End::Removed);
    }

    pub(crate) fn stop(&self) {
        self.end(End::Stopped);
    }

    fn end(&self, end: End) {
        let (backlog, runner, wakers) = {
            let mut state = self.state.lock();
            if state.end.is_some() {
                return;
            }
            state.end = Some(end);
            (state.backlog.clear(), state.runner.take(), state.waiters.take())
        };
        wake_all(runner.into_iter().collect());
        wake_all(wakers);
        drop(backlog); // its parts take care of their own events
        self.report();
    }

    pub(crate) fn has_synced(&self) -> bool {
        self.state.lock().is_synced()
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.state.lock().end.is_some()
    }

    pub(crate) fn poll_synced(&self, ticket: &mut Option<u64>, cx: &Context<'_>) -> Poll<Result<(), Stopped>> {
        self.poll_until(ticket, cx, |state| match state.end {
            _ if state.is_synced() => Some(Ok(())),
            Some(_) => Some(Err(Stopped)),
            None => None,
        })
    }

    pub(crate) fn poll_removed(&self, ticket: &mut Option<u64>, cx: &Context<'_>) -> Poll<()> {
        self.poll_until(ticket, cx, |state| {
            (state.end.is_some() && !state.running).then_some(())
        })
    }

    /// Waits until no initial event is left, or the queue has ended.
    pub(crate) fn poll_settled(&self, ticket: &mut Option<u64>, cx: &Context<'_>) -> Poll<()> {
        self.poll_until(ticket, cx, |state| {
            (state.end.is_some() || (state.is_synced() && state.left.initial == 0)).then_some(())
        })
    }

    /// Gives the answer if there is one. On `Pending` the waker is kept under the ticket; it is cloned, and the one that it replaces
    /// dropped, while no lock is held.
    fn poll_until<R>(
        &self,
        ticket: &mut Option<u64>,
        cx: &Context<'_>,
        answer: impl FnOnce(&State<K>) -> Option<R>,
    ) -> Poll<R> {
        let waker = cx.waker().clone();
        let replaced = {
            let mut state = self.state.lock();
            if let Some(answer) = answer(&state) {
                return Poll::Ready(answer);
            }
            state.waiters.register(ticket, waker)
        };
        drop(replaced);
        Poll::Pending
    }

    pub(crate) fn forget(&self, ticket: Option<u64>) {
        if ticket.is_some() {
            let forgotten = self.state.lock().waiters.forget(ticket);
            drop(forgotten);
        }
    }

    pub(crate) fn stats(&self) -> HandlerStats {
        let state = self.state.lock();
        HandlerStats {
            name: self.name.clone(),
            has_synced: state.is_synced(),
            queue_depth: state.backlog.len(),
            handled: state.handled,
            coalesced: state.backlog.coalesced(),
            panics: state.panics,
            running_for: state.called_at.map(|at| at.elapsed()),
        }
    }
}

#[cfg(test)]
mod tests;
