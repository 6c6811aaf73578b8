//! The queue that reconciles: workers over a [`WorkQueue`], retries, stop.
//!
//! Owns: [`Queue`], the workers' loop, and what the outcome of a reconcile means. Which key is next, and when, is decided
//! by [`super::workqueue`].
//!
//! # Design
//!
//! `run` owns its workers in a `JoinSet`: when it returns, or is dropped, none is left. Every worker and `run` itself hold
//! one shared guard; the last of them to go closes the queue, so "closed" always means that no reconcile runs.

use std::any::Any;
use std::convert::Infallible;
use std::fmt;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
#[cfg(feature = "client")]
use kube_client::ObjectKey;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::builder::{Options, QueueBuilder, Reconcile};
use super::error::{NotClosed, Panicked, QueueClosed, ReconcileError, RunError, TimedOut};
use super::export::Outcome;
use super::item::Item;
use super::metrics::QueueMetrics;
use super::outcomes::{Active, Outcomes};
use super::snapshot::Snapshot;
use super::workqueue::{AddOptions, WorkQueue};

/// How often the gauges of unfinished work are brought up to date, as in client-go.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);

/// The wait before a retry whose rate limiter panicked.
const LIMITER_PANIC_DELAY: Duration = Duration::from_secs(1);

/// What came first, in `Inner::begun`; it never changes again.
const NOTHING: u8 = 0;
const RUN: u8 = 1;
const SHUT_DOWN: u8 = 2;

/// What a reconciler wants after it succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nothing, until the key is added again.
    Done,
    /// To see the key again after this time, or earlier if it is added. The back-off starts anew. Zero is at once; a time too
    /// long to count is as long as can be counted.
    RequeueAfter(Duration),
}

/// A work queue together with the reconciler that works it off.
///
/// Cheap to clone; clones are the same queue. Built by [`Queue::builder`]; keys may be added at once, and are reconciled
/// while [`run`](Self::run) runs.
///
/// # Guarantees
///
/// - The keys, their order and their merging are as [`WorkQueue`] says. A key is never reconciled twice at once.
/// - A reconcile that fails, panics or [takes too long](QueueBuilder::timeout) is retried after the rate limiter's delay, with the priority that it had, until it
///   succeeds, fails terminally or used up [`max_attempts`](QueueBuilder::max_attempts). Adding a key during its back-off
///   reconciles it at once and does not reset the number of its failures.
/// - After the stop nothing new is started (but see [`drain_on_stop`](QueueBuilder::drain_on_stop)); what runs is given the
///   grace period; what waits is discarded.
/// - [`has_synced`](Self::has_synced) never goes back to false.
/// - Dropping a queue that never ran leaves nothing behind. A panic of the reconciler harms no other key.
///
/// Panics are contained only if the program is built with `panic = "unwind"`, the default.
///
/// The default key is there with feature `client` only; without it the queue knows nothing of Kubernetes.
pub struct Queue<#[cfg(feature = "client")] T = ObjectKey, #[cfg(not(feature = "client"))] T> {
    inner: Arc<Inner<T>>,
}

struct Inner<T> {
    work: WorkQueue<T>,
    reconcile: Reconcile<T>,
    options: Options,
    begun: AtomicU8,
    /// Cancelled by `shut_down`.
    shut_down: CancellationToken,
    /// Cancelled once no reconcile runs and none will.
    closed: CancellationToken,
    outcomes: Outcomes,
}

impl<T: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static> Queue<T> {
    /// Settings for a new queue. The name is used in logs and metrics.
    pub fn builder(name: impl Into<String>) -> QueueBuilder<T> {
        QueueBuilder::new(name.into())
    }

    pub(super) fn new(work: WorkQueue<T>, reconcile: Reconcile<T>, options: Options) -> Self {
        let outcomes = Outcomes::new(work.name());
        Self {
            inner: Arc::new(Inner {
                work,
                reconcile,
                options,
                begun: AtomicU8::new(NOTHING),
                shut_down: CancellationToken::new(),
                closed: CancellationToken::new(),
                outcomes,
            }),
        }
    }

    /// The name given at construction.
    pub fn name(&self) -> &str {
        self.inner.work.name()
    }

    /// Adds a key with priority 0. Works on any thread, never waits; after the stop it does nothing.
    pub fn add(&self, key: &T) {
        self.inner.work.add(key);
    }

    /// Adds a key that becomes ready after `delay`, or earlier if another add says so.
    pub fn add_after(&self, key: &T, delay: Duration) {
        self.inner.work.add_after(key, delay);
    }

    /// Adds a key with a priority, a delay, or both.
    pub fn add_with(&self, key: &T, options: AddOptions) {
        self.inner.work.add_with(key, options);
    }

    /// Everything that is ready, in order and with its priority, taken out of the queue.
    #[cfg(test)]
    pub(crate) fn take_ready(&self) -> Vec<(T, i32)> {
        std::iter::from_fn(|| {
            self.inner
                .work
                .try_get()
                .map(|item| (item.key().clone(), item.priority()))
        })
        .collect()
    }

    /// How many keys are ready and wait for a worker.
    pub fn len(&self) -> usize {
        self.inner.work.len()
    }

    /// Whether no key is ready.
    pub fn is_empty(&self) -> bool {
        self.inner.work.is_empty()
    }

    /// Reconciles until `stop` is cancelled or [`shut_down`](Self::shut_down) is called, then returns once every worker has
    /// ended: at the latest after the grace period, when reconciles that still run are dropped. (One that blocks its thread
    /// instead of awaiting cannot be dropped; `run` then waits for it.)
    ///
    /// # Errors
    ///
    /// [`RunError::AlreadyStarted`] if `run` was called before, [`RunError::ShutDown`] if the queue was shut down before.
    /// Neither gets better with a retry.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the running reconciles at their next await and closes the queue; it cannot be run again.
    ///
    /// # Panics
    ///
    /// If called outside of a tokio runtime with time enabled.
    pub async fn run(&self, stop: &CancellationToken) -> Result<(), RunError> {
        let inner = &self.inner;
        match inner.begin(RUN) {
            NOTHING => {}
            SHUT_DOWN => return Err(RunError::ShutDown),
            _ => return Err(RunError::AlreadyStarted),
        }
        let alive = Arc::new(Alive(Arc::clone(inner)));
        inner.work.mark_queued();
        let stopping = stop.child_token();
        let _cancel_when_dropped = stopping.clone().drop_guard();
        // Reconciles learn of the stop at once; those of a drain only when the time for it is over.
        let drain = inner.options.drain_on_stop;
        let token = if drain {
            CancellationToken::new()
        } else {
            stopping.clone()
        };

        let mut workers = JoinSet::new();
        for _ in 0..inner.options.concurrency.get() {
            workers.spawn(work(Arc::clone(&alive), stopping.clone(), token.clone()));
        }
        let run = async {
            tokio::select! {
                () = stopping.cancelled() => {}
                () = inner.shut_down.cancelled() => stopping.cancel(),
            }
            if drain {
                inner.work.shut_down();
            } else {
                let discarded = inner.work.discard();
                tracing::debug!(queue = self.name(), discarded, "queue stopped");
            }
            let grace = inner.options.grace;
            if tokio::time::timeout(grace, join(&mut workers)).await.is_err() {
                let dropped = inner.outcomes.active();
                tracing::warn!(
                    queue = self.name(),
                    dropped,
                    ?grace,
                    "dropping reconciles that did not end within the grace period"
                );
                token.cancel();
                inner.work.discard();
                workers.shutdown().await;
            }
        };
        tokio::select! {
            () = run => {}
            never = inner.report_unfinished() => match never {},
        }
        Ok(())
    }

    /// Stops the queue as the token of [`run`](Self::run) does. A queue that was never started is closed at once.
    pub fn shut_down(&self) {
        let inner = &self.inner;
        inner.shut_down.cancel();
        if inner.begin(SHUT_DOWN) == NOTHING {
            inner.close();
        }
    }

    /// Whether everything that was ready when [`run`](Self::run) started was reconciled at least once, with whatever
    /// outcome. Delayed keys do not count.
    pub fn has_synced(&self) -> bool {
        self.inner.work.all_handled().is_cancelled()
    }

    /// Waits until [`has_synced`](Self::has_synced).
    ///
    /// # Errors
    ///
    /// [`QueueClosed`] if the queue closed first, so that it will never be.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only watches.
    pub async fn synced(&self) -> Result<(), QueueClosed> {
        tokio::select! {
            biased;
            () = self.inner.work.all_handled().cancelled() => Ok(()),
            () = self.inner.closed.cancelled() => Err(QueueClosed),
        }
    }

    /// Waits until the queue was stopped and no reconcile runs any more. Cancel safe.
    pub async fn closed(&self) {
        self.inner.closed.cancelled().await;
    }

    /// Whether the queue was stopped and no reconcile runs any more.
    pub fn is_closed(&self) -> bool {
        self.inner.closed.is_cancelled()
    }

    /// [`closed`](Self::closed), but not for ever.
    ///
    /// # Errors
    ///
    /// [`NotClosed`] if the queue is not closed after `timeout`. Waiting again can help.
    pub async fn wait_for_close(&self, timeout: Duration) -> Result<(), NotClosed> {
        tokio::time::timeout(timeout, self.closed())
            .await
            .map_err(|_elapsed| NotClosed { waited: timeout })
    }

    /// What the queue counted and measured so far.
    pub fn metrics(&self) -> QueueMetrics {
        self.inner.outcomes.metrics(self.inner.work.metrics())
    }

    /// What is queued, processed and delayed, as [`WorkQueue::snapshot`].
    pub fn snapshot(&self, limit: usize) -> Snapshot<T> {
        self.inner.work.snapshot(limit)
    }
}

async fn join(workers: &mut JoinSet<()>) {
    while workers.join_next().await.is_some() {}
}

/// One worker: takes keys until there are no more.
async fn work<T: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static>(
    alive: Arc<Alive<T>>,
    stopping: CancellationToken,
    token: CancellationToken,
) {
    let inner = &alive.0;
    let mut next = inner.work.get().await;
    while let Some(mut item) = next {
        // The stop may have come while this key was taken, before `run` saw it.
        if stopping.is_cancelled() && !inner.options.drain_on_stop {
            break;
        }
        let active = Active::new(&inner.outcomes);
        let outcome = inner.attempt(item.key().clone(), token.clone()).await;
        drop(active);
        inner.settle(&mut item, outcome);
        next = item.next().await;
    }
}

/// How one attempt ended.
enum Attempt {
    Ended(Result<Action, ReconcileError>),
    Panicked(Box<dyn Any + Send>),
    TimedOut(Duration),
}

impl<T: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static> Inner<T> {
    /// Calls the reconciler, and survives it.
    async fn attempt(&self, key: T, token: CancellationToken) -> Attempt {
        let reconcile = AssertUnwindSafe(async { (self.reconcile)(key, token).await }).catch_unwind();
        let ended = match self.options.timeout {
            None => reconcile.await,
            Some(timeout) => match tokio::time::timeout(timeout, reconcile).await {
                Ok(ended) => ended,
                Err(_elapsed) => return Attempt::TimedOut(timeout),
            },
        };
        match ended {
            Ok(result) => Attempt::Ended(result),
            Err(panic) => Attempt::Panicked(panic),
        }
    }

    /// Draws the consequences of one reconcile.
    fn settle(&self, item: &mut Item<T>, attempt: Attempt) {
        match attempt {
            Attempt::Ended(Ok(action)) => {
                let (outcome, requeue) = match action {
                    Action::Done => (Outcome::Done, None),
                    Action::RequeueAfter(delay) => (Outcome::RequeueAfter, Some(delay)),
                };
                self.outcomes.ended(outcome);
                self.forget(item);
                item.handled(0, requeue);
            }
            Attempt::Ended(Err(error)) => {
                let terminal = error.is_terminal();
                let outcome = if terminal { Outcome::Terminal } else { Outcome::Error };
                self.fail(item, outcome, &error);
            }
            Attempt::Panicked(panic) => {
                let text = panic_text(&*panic);
                drop_contained(panic);
                self.fail(item, Outcome::Panic, &Panicked(text).into());
            }
            Attempt::TimedOut(timeout) => self.fail(item, Outcome::Timeout, &TimedOut(timeout).into()),
        }
    }

    fn fail(&self, item: &mut Item<T>, outcome: Outcome, error: &ReconcileError) {
        self.outcomes.ended(outcome);
        let attempts = item.failures().saturating_add(1);
        let queue = self.work.name();
        // Both are texts of the user's code, and this worker has to survive them.
        let key = text_of(|| format!("{:?}", item.key()));
        let error_text = text_of(|| format!("{error:#}"));
        if error.is_terminal() {
            tracing::error!(
                queue,
                %key,
                attempts,
                error = error_text,
                "reconcile failed, not retried"
            );
        } else if self.options.max_attempts.is_some_and(|max| attempts >= max.get()) {
            self.outcomes.gave_up();
            tracing::error!(queue, %key, attempts, error = error_text, "reconcile failed, giving up");
        } else {
            let delay =
                catch_unwind(AssertUnwindSafe(|| self.work.limiter().when(item.key()))).unwrap_or_else(|panic| {
                    tracing::error!(queue, %key, panic = panic_text(&*panic), "the rate limiter panicked");
                    LIMITER_PANIC_DELAY
                });
            tracing::warn!(
                queue,
                %key,
                attempts,
                ?delay,
                error = error_text,
                "reconcile failed, will retry"
            );
            return item.handled(attempts, Some(delay));
        }
        self.forget(item);
        item.handled(0, None);
    }

    /// Brings the gauges of unfinished work up to date, for ever; without a timer while nothing runs.
    async fn report_unfinished(&self) -> Infallible {
        loop {
            self.outcomes.busy().await;
            loop {
                tokio::time::sleep(REPORT_INTERVAL).await;
                self.work.report_unfinished();
                if self.outcomes.active() == 0 {
                    break;
                }
            }
        }
    }

    fn forget(&self, item: &Item<T>) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.work.forget(item.key()))) {
            let panic = panic_text(&*panic);
            let key = text_of(|| format!("{:?}", item.key()));
            tracing::error!(queue = self.work.name(), %key, panic, "the rate limiter panicked");
        }
    }
}

impl<T: Clone + Eq + Hash + Send + Sync + 'static> Inner<T> {
    /// Notes what begins, unless something else has; returns what came before.
    fn begin(&self, what: u8) -> u8 {
        self.begun
            .compare_exchange(NOTHING, what, Ordering::SeqCst, Ordering::SeqCst)
            .unwrap_or_else(|before| before)
    }

    fn close(&self) {
        self.work.discard();
        self.closed.cancel();
    }
}

/// A text that the user's code makes, or that it could not.
fn text_of(make: impl FnOnce() -> String) -> String {
    catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|_| "(panicked while it was formatted)".to_owned())
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no text)")
        .to_owned()
}

/// Drops the payload of a panic, whose `Drop` may panic in its turn.
fn drop_contained(panic: Box<dyn Any + Send>) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // A third one would be an attack.
        std::mem::forget(second);
    }
}

/// Held by `run` and by each worker; the last one to go closes the queue.
struct Alive<T: Clone + Eq + Hash + Send + Sync + 'static>(Arc<Inner<T>>);

impl<T: Clone + Eq + Hash + Send + Sync + 'static> Drop for Alive<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<T> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("work", &self.inner.work)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
