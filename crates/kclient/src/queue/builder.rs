//! How a [`Queue`] is configured.
//!
//! Owns: the builder and the options that the runner reads. Building starts nothing.

use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::marker::PhantomData;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::error::ReconcileError;
use super::limiter::{RateLimiter, controller_default};
use super::metrics::Timings;
use super::runner::{Action, Queue};
use super::workqueue::WorkQueue;

/// The reconciler, with its type erased.
pub(super) type Reconcile<T> =
    Box<dyn Fn(T, CancellationToken) -> BoxFuture<'static, Result<Action, ReconcileError>> + Send + Sync>;

/// What a builder has before [`QueueBuilder::reconciler`] is called.
#[derive(Debug, Clone, Copy)]
pub struct NoReconciler;

/// What the runner needs to know.
pub(super) struct Options {
    pub(super) max_attempts: Option<NonZeroU32>,
    pub(super) concurrency: NonZeroUsize,
    pub(super) grace: Duration,
    pub(super) drain_on_stop: bool,
    pub(super) timeout: Option<Duration>,
}

/// Settings of a [`Queue`]; see [`Queue::builder`].
pub struct QueueBuilder<T, R = NoReconciler> {
    name: String,
    reconcile: R,
    limiter: Option<Arc<dyn RateLimiter<T>>>,
    timings: Timings,
    options: Options,
    key: PhantomData<fn(T)>,
}

/// A builder that has its reconciler.
pub struct Ready<T>(Reconcile<T>);

impl<T> QueueBuilder<T> {
    pub(super) fn new(name: String) -> Self {
        let options = Options {
            max_attempts: None,
            concurrency: NonZeroUsize::MIN,
            grace: Duration::from_secs(30),
            drain_on_stop: false,
            timeout: None,
        };
        Self {
            name,
            reconcile: NoReconciler,
            limiter: None,
            timings: Timings::default(),
            options,
            key: PhantomData,
        }
    }

    /// What to do with a key. Called again for a key until it returns `Ok`, a terminal error, or the attempts are used up.
    ///
    /// # Contract
    ///
    /// 1. It comes to an end. One that never does keeps its worker for ever, and its key is not reconciled again; the other
    ///    workers go on. [`timeout`](Self::timeout) ends it, `workqueue_longest_running_processor_seconds` and
    ///    [`snapshot`](Queue::snapshot) show it (not checked).
    /// 2. It awaits rather than blocks its thread: nobody can end code that blocks, neither a timeout nor the stop (not
    ///    checked).
    /// 3. It can be dropped at each of its awaits, by a timeout or at the end of the grace period, and be called again (not
    ///    checked).
    ///
    /// A panic, of the closure or of its future, counts as an error of that key: it is logged, counted and retried, and harms
    /// no other key.
    pub fn reconciler<F, Fut>(self, reconcile: F) -> QueueBuilder<T, Ready<T>>
    where
        F: Fn(T) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Action, ReconcileError>> + Send + 'static,
    {
        self.reconciler_with_stop(move |key, _stop| reconcile(key))
    }

    /// The same for a reconciler that may run long: the token is cancelled when the queue stops, and the reconcile is
    /// dropped when the grace period is over.
    pub fn reconciler_with_stop<F, Fut>(self, reconcile: F) -> QueueBuilder<T, Ready<T>>
    where
        F: Fn(T, CancellationToken) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Action, ReconcileError>> + Send + 'static,
    {
        let Self {
            name,
            limiter,
            timings,
            options,
            key,
            ..
        } = self;
        let reconcile = Ready(Box::new(move |key, stop| reconcile(key, stop).boxed()));
        QueueBuilder {
            name,
            reconcile,
            limiter,
            timings,
            options,
            key,
        }
    }
}

impl<T, R> QueueBuilder<T, R> {
    /// How often a key is tried in total before it is given up: logged, counted in
    /// [`gave_up_total`](super::QueueMetrics::gave_up_total) and forgotten until it is added again. 1 is no retry. Without
    /// this a key is retried until it succeeds.
    ///
    /// # Panics
    ///
    /// If `attempts` is zero.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        let some = NonZeroU32::new(attempts);
        assert!(some.is_some(), "a key needs at least one attempt, not {attempts}");
        self.options.max_attempts = some;
        self
    }

    /// How long a failed key waits; [`controller_default`] if none is set.
    #[must_use]
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<T> + 'static) -> Self {
        self.limiter = Some(Arc::new(limiter));
        self
    }

    /// How many keys are reconciled at the same time, each by a task of its own; 1 by default. One key is never reconciled
    /// twice at once.
    ///
    /// # Panics
    ///
    /// If `workers` is zero.
    #[must_use]
    pub fn concurrency(mut self, workers: usize) -> Self {
        let Some(workers) = NonZeroUsize::new(workers) else {
            panic!("a queue needs at least one worker, not {workers}")
        };
        self.options.concurrency = workers;
        self
    }

    /// How long one reconcile may take; without this, any time. One that takes longer is dropped at its next await, and counts as
    /// an error of its key: logged, counted in [`timeouts_total`](super::QueueMetrics::timeouts_total) and retried.
    ///
    /// # Panics
    ///
    /// If `timeout` is zero: nothing would ever be reconciled.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        assert!(
            !timeout.is_zero(),
            "a reconcile needs some time, not a timeout of {timeout:?}"
        );
        self.options.timeout = Some(timeout);
        self
    }

    /// How long running reconciles may go on after the stop before they are dropped; 30 s by default.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.options.grace = grace;
        self
    }

    /// Whether keys that are ready at the stop are still reconciled, within the grace period. By default they are discarded:
    /// the next start reads the world anew.
    #[must_use]
    pub fn drain_on_stop(mut self, drain: bool) -> Self {
        self.options.drain_on_stop = drain;
        self
    }

    /// Whether durations are measured; [`Timings::On`] by default.
    #[must_use]
    pub fn timings(mut self, timings: Timings) -> Self {
        self.timings = timings;
        self
    }
}

impl<T: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static> QueueBuilder<T, Ready<T>> {
    /// Makes the queue. Nothing runs yet: keys may be added at once, and wait for [`Queue::run`]. The recorder of `metrics` has to
    /// be installed by now.
    pub fn build(self) -> Queue<T> {
        let limiter = self.limiter.unwrap_or_else(|| Arc::new(controller_default()));
        let work = WorkQueue::builder(self.name)
            .rate_limiter(limiter)
            .timings(self.timings)
            .build();
        Queue::new(work, self.reconcile.0, self.options)
    }
}

impl<T, R> fmt::Debug for QueueBuilder<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueBuilder")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Ready<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ready")
    }
}
