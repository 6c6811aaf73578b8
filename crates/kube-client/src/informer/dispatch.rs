//! The queue between the cache and one handler: a synchronous state machine with hand-kept wakers.
//!
//! The cache pushes shared batches while it holds its own lock, so the queue's order is the cache's order. The
//! handler's task takes runs of events and reports each finished call. Lock order: the cache's lock, then this one;
//! nothing is woken and nothing of the user's is dropped while either is held.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::error::Stopped;
use crate::event::Event;
use crate::informer::backlog::{Backlog, Taken};
use crate::informer::handler::HandlerOptions;
use crate::informer::metrics::{HandlerMetrics, Reported};
use crate::object::Object;
use crate::sync::{Mutex, Waiters, wake_all};

/// The queue of one handler.
pub(crate) struct HandlerQueue<K> {
    name: String,
    metrics: HandlerMetrics,
    state: Mutex<State<K>>,
}

struct State<K> {
    backlog: Backlog<K>,
    // The cache's first state has been pushed, be it empty.
    filled: bool,
    // Invariant: initial events that are pending, taken or running; 0 and `filled` means synced.
    initial_left: usize,
    // A call of the handler is under way.
    running: bool,
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
#[derive(Debug, Clone, PartialEq, Eq)]
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
}

/// Wakers to call once no lock is held.
#[must_use = "wake them after the lock is released"]
#[derive(Default)]
pub(crate) struct Wake(Vec<Waker>);

impl Wake {
    pub(crate) fn of(wakers: Vec<Waker>) -> Self {
        Self(wakers)
    }

    pub(crate) fn merge(&mut self, other: Wake) {
        self.0.extend(other.0);
    }

    pub(crate) fn wake(self) {
        wake_all(self.0);
    }
}

impl<K> State<K> {
    fn is_synced(&self) -> bool {
        self.filled && self.initial_left == 0
    }
}

impl<K: Object> HandlerQueue<K> {
    pub(crate) fn new(options: HandlerOptions) -> Self {
        Self {
            name: options.name.into_owned(),
            metrics: HandlerMetrics::default(),
            state: Mutex::new(State {
                backlog: Backlog::new(options.coalesce_above),
                filled: false,
                initial_left: 0,
                running: false,
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

    /// Appends a batch. `initial` counts its initial events; `fills` says that the cache's first state ends with it.
    pub(crate) fn push(&self, batch: &Arc<[Event<K>]>, initial: usize, fills: bool) -> Wake {
        let mut state = self.state.lock();
        if state.end.is_some() {
            return Wake::default();
        }
        state.initial_left += initial;
        let merged_away = state.backlog.push(batch, initial);
        state.initial_left -= merged_away;
        state.filled |= fills;
        let mut wake: Vec<Waker> = state.runner.take().into_iter().collect();
        if state.is_synced() {
            wake.extend(state.waiters.take());
        }
        Wake(wake)
    }

    /// The next events; `None` when the handler is to end. On `Pending` the runner's waker is kept.
    pub(crate) fn poll_take(&self, cx: &Context<'_>) -> Poll<Option<Taken<K>>> {
        let mut state = self.state.lock();
        if state.end.is_some() {
            return Poll::Ready(None);
        }
        if let Some(taken) = state.backlog.take() {
            return Poll::Ready(Some(taken));
        }
        state.runner = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Whether the next call may begin; if so, it counts as running until [`finish`](Self::finish).
    pub(crate) fn begin(&self) -> bool {
        let mut state = self.state.lock();
        if state.end.is_some() {
            return false;
        }
        state.running = true;
        true
    }

    /// A call is over, by return or panic, and these events count as handled.
    pub(crate) fn finish(&self, events: &[Event<K>], panicked: bool) {
        let initial = events.iter().filter(|event| event.is_initial()).count();
        let wakers = {
            let mut state = self.state.lock();
            state.running = false;
            state.handled += events.len() as u64;
            state.panics += u64::from(panicked);
            state.initial_left -= initial;
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
            let backlog = std::mem::replace(&mut state.backlog, Backlog::new(0));
            (backlog, state.runner.take(), state.waiters.take())
        };
        drop(backlog); // objects of the user's type: not under the lock
        wake_all(runner.into_iter().collect());
        wake_all(wakers);
        self.report();
    }

    pub(crate) fn has_synced(&self) -> bool {
        self.state.lock().is_synced()
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.state.lock().end.is_some()
    }

    pub(crate) fn poll_synced(&self, ticket: &mut Option<u64>, cx: &Context<'_>) -> Poll<Result<(), Stopped>> {
        let mut state = self.state.lock();
        if state.is_synced() {
            return Poll::Ready(Ok(()));
        }
        if state.end.is_some() {
            return Poll::Ready(Err(Stopped));
        }
        state.waiters.register(ticket, cx);
        Poll::Pending
    }

    pub(crate) fn poll_removed(&self, ticket: &mut Option<u64>, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.end.is_some() && !state.running {
            return Poll::Ready(());
        }
        state.waiters.register(ticket, cx);
        Poll::Pending
    }

    pub(crate) fn forget(&self, ticket: Option<u64>) {
        if ticket.is_some() {
            self.state.lock().waiters.forget(ticket);
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
        }
    }
}

#[cfg(test)]
mod tests;
