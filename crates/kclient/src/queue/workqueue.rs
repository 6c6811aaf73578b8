//! The work queue: the state machine of [`super::core`] behind a lock.
//!
//! Owns: [`WorkQueue`], its settings, hashing, the clock reads, and what follows an operation outside of the lock. Waiting for
//! a key is in [`super::consumer`], what is handed out in [`super::item`]. It runs no reconciler: see [`Queue`](super::Queue)
//! for that.
//!
//! # Design
//!
//! Every operation is one turn of one lock: hashing comes before it, and wake-ups, metrics and the drop of forgotten keys after
//! it. Without timings and delays nothing reads the clock.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::consumer::Consumer;
use super::core::{Core, Effects, Finish, Take};
use super::export::WorkQueueSeries;
use super::item::Item;
use super::limiter::{RateLimiter, controller_default};
use super::metrics::{Timings, WorkQueueMetrics};
use super::snapshot::Snapshot;
use super::time::{Epoch, Tick};
use crate::sync::Mutex;

/// A queue of distinct keys for concurrent workers, with client-go's semantics, delays, rate limits and priorities.
///
/// Cheap to clone; clones are the same queue. For a queue that runs your reconciler, see [`Queue`](super::Queue).
///
/// # Guarantees
///
/// - **One entry per key.** A key that waits is not queued twice; a key is never handed out to two workers at once. A key
///   added while it is processed is handed out once more after it is done, however often it was added. This holds across
///   [`add`](Self::add), [`add_after`](Self::add_after) and [`add_rate_limited`](Self::add_rate_limited): the earliest of
///   the times wins and consumes the others. (client-go may hand such a key out twice.)
/// - **Order.** Higher priority first. Inside a priority first in, first out, counted from the instant at which the key
///   became ready (or was raised to this priority). An add with a higher priority raises a waiting key; nothing lowers it.
/// - **Ageing.** Every eighth hand-out serves the key that has been ready for longest, so under an endless stream of higher
///   priority the p-th oldest key is handed out within 8 p hand-outs.
/// - **Nothing is lost.** An accepted key is handed out, unless the queue is dropped or shut down first while the key is
///   delayed.
/// - **Memory** is proportional to the number of distinct keys that wait or are processed, at most of late; a key that is done is dropped.
/// - The queue starts no task. Delayed keys become ready by the calls of waiting consumers and readers.
/// - An add wakes a consumer only if one sleeps, and then one. Metrics go through the `metrics` facade under client-go's names.
///
/// Not promised: anything about the order of keys that become ready at the same instant on different threads.
///
/// `T`'s `Hash` and `Drop` run outside of the queue's lock, its `Eq` and `Clone` inside: they must not call the queue.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use kclient::queue::WorkQueue;
///
/// let queue = WorkQueue::new("emails");
/// queue.add(&"a@example.org");
/// queue.add(&"b@example.org");
/// queue.add(&"a@example.org"); // collapses into the first
///
/// let item = queue.get().await.unwrap();
/// assert_eq!(*item, "a@example.org");
/// item.done(); // or drop it
/// assert_eq!(queue.len(), 1);
/// # });
/// ```
pub struct WorkQueue<T> {
    pub(super) shared: Arc<Shared<T>>,
}

/// One queue, shared by its handles, items and waiting consumers.
pub(super) struct Shared<T> {
    core: Mutex<Core<T>>,
    epoch: Epoch,
    timings: Timings,
    hasher: foldhash::fast::RandomState,
    limiter: Arc<dyn RateLimiter<T>>,
    /// Cancelled once the last of the keys that `mark_queued` marked was handled.
    handled: CancellationToken,
    series: WorkQueueSeries,
    name: String,
}

/// Settings of a [`WorkQueue`]; see [`WorkQueue::builder`].
pub struct WorkQueueBuilder<T> {
    name: String,
    limiter: Option<Arc<dyn RateLimiter<T>>>,
    timings: Timings,
}

impl<T: Clone + Eq + Hash + Send + Sync + 'static> WorkQueueBuilder<T> {
    /// The limiter behind [`WorkQueue::add_rate_limited`]; [`controller_default`] if none is set.
    #[must_use]
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<T> + 'static) -> Self {
        self.limiter = Some(Arc::new(limiter));
        self
    }

    /// Whether durations are measured; [`Timings::On`] by default.
    #[must_use]
    pub fn timings(mut self, timings: Timings) -> Self {
        self.timings = timings;
        self
    }

    /// Makes the queue, and takes its handles from the recorder of `metrics` that is installed by now, if there is one.
    pub fn build(self) -> WorkQueue<T> {
        WorkQueue {
            shared: Arc::new(Shared {
                core: Mutex::new(Core::new(self.timings == Timings::On)),
                epoch: Epoch::now(),
                timings: self.timings,
                hasher: foldhash::fast::RandomState::default(),
                limiter: self.limiter.unwrap_or_else(|| Arc::new(controller_default())),
                handled: CancellationToken::new(),
                series: WorkQueueSeries::new(&self.name),
                name: self.name,
            }),
        }
    }
}

/// How [`WorkQueue::add_with`] adds a key. The default is an immediate add with priority 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct AddOptions {
    /// Higher is handed out first.
    pub priority: i32,
    /// How long the key waits before it is ready.
    pub after: Duration,
}

impl AddOptions {
    /// An immediate add with this priority.
    pub fn priority(priority: i32) -> Self {
        Self {
            priority,
            ..Self::default()
        }
    }

    /// The same, but delayed.
    #[must_use]
    pub fn after(mut self, after: Duration) -> Self {
        self.after = after;
        self
    }
}

impl<T: Clone + Eq + Hash + Send + Sync + 'static> WorkQueue<T> {
    /// An empty queue with the default rate limiter and all metrics.
    pub fn new(name: impl Into<String>) -> Self {
        Self::builder(name).build()
    }

    /// Settings for a new queue. The name is the label of its metrics: queues of one program should differ in it.
    pub fn builder(name: impl Into<String>) -> WorkQueueBuilder<T> {
        WorkQueueBuilder {
            name: name.into(),
            limiter: None,
            timings: Timings::default(),
        }
    }

    /// The name given at construction.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Adds a key with priority 0, to be handed out as soon as its turn comes. Clones it only if the queue does not know
    /// it. After a shut-down this does nothing.
    ///
    /// Synchronous, never waits for a worker, and works on any thread, also outside of a runtime.
    pub fn add(&self, key: &T) {
        self.add_with_priority(key, 0);
    }

    /// Adds a key that becomes ready after `delay`, or earlier if another add says so. A delay of zero is [`add`](Self::add);
    /// one that is too long to count (more than 584 years) is as long as can be counted.
    ///
    /// The time is tokio's clock. Outside of a runtime that is the system's monotonic clock, which is the same unless a
    /// test has paused the runtime's clock; so tests with a paused clock add from inside of the runtime.
    pub fn add_after(&self, key: &T, delay: Duration) {
        self.add_delayed(key, 0, delay);
    }

    /// Adds a key after the delay that the rate limiter prescribes. Call [`forget`](Self::forget) once the key succeeded.
    pub fn add_rate_limited(&self, key: &T) {
        self.add_after(key, self.shared.limiter.when(key));
    }

    /// Adds a key with a priority, a delay, or both. If the key is known already, the earlier time and the higher priority
    /// of the two hold.
    pub fn add_with(&self, key: &T, options: AddOptions) {
        if options.after.is_zero() {
            self.add_with_priority(key, options.priority);
        } else {
            self.add_delayed(key, options.priority, options.after);
        }
    }

    fn add_delayed(&self, key: &T, priority: i32, delay: Duration) {
        let hash = self.shared.hasher.hash_one(key);
        let now = self.shared.epoch.tick();
        self.shared
            .with(|core| core.add_at(hash, key, priority, now.after(delay), now));
    }

    fn add_with_priority(&self, key: &T, priority: i32) {
        let hash = self.shared.hasher.hash_one(key);
        self.shared.with_time(|core, now| core.add(hash, key, priority, now));
    }

    /// Waits for the next key. `None` once the queue is shut down and nothing waits to be handed out; a key that is
    /// processed and was added again waits from the instant it is done, so the worker that calls `done` asks once more.
    ///
    /// Many consumers may wait at once; each key goes to one of them. A worker's loop is a little cheaper with
    /// [`Item::next`].
    ///
    /// # Cancel safety
    ///
    /// A key is handed out only by the call that returns it: dropping this future at any point loses nothing, and a wake-up
    /// meant for it goes to another consumer.
    ///
    /// # Panics
    ///
    /// If a key is delayed and the call does not run in a tokio runtime with time enabled. Without delayed keys any
    /// executor will do.
    pub async fn get(&self) -> Option<Item<T>> {
        // A worker that always finds something must not starve its neighbours on the runtime.
        tokio::task::coop::consume_budget().await;
        match self.shared.with_time(Core::take) {
            Take::Item(handout) => Some(Item::new(handout, Arc::clone(&self.shared))),
            Take::Closed => None,
            Take::Empty => {
                let handout = Consumer::new(&self.shared).wait().await?;
                Some(Item::new(handout, Arc::clone(&self.shared)))
            }
        }
    }

    /// Takes the next key if one is ready now.
    pub fn try_get(&self) -> Option<Item<T>> {
        match self.shared.with_time(Core::take) {
            Take::Item(handout) => Some(Item::new(handout, Arc::clone(&self.shared))),
            Take::Empty | Take::Closed => None,
        }
    }

    /// Tells the rate limiter that a key needs no more retries.
    pub fn forget(&self, key: &T) {
        self.shared.limiter.forget(key);
    }

    /// How often the rate limiter delayed this key since it was last forgotten.
    pub fn num_requeues(&self, key: &T) -> u32 {
        self.shared.limiter.num_requeues(key)
    }

    /// How many keys are ready to be handed out.
    pub fn len(&self) -> usize {
        self.shared.read(|core, _| core.len())
    }

    /// Whether no key is ready to be handed out.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the queue counted and measured so far.
    pub fn metrics(&self) -> WorkQueueMetrics {
        self.shared.read(|core, now| core.metrics(&self.shared.name, now))
    }

    /// What is queued, processed and delayed: at most `limit` keys of each, and how many there are. For a debug page.
    ///
    /// The keys are cloned under the queue's lock, so a limit of some hundreds is sensible. What is not shown costs nothing.
    pub fn snapshot(&self, limit: usize) -> Snapshot<T> {
        self.shared.read(|core, now| core.snapshot(limit, now))
    }

    /// Brings the gauges of unfinished work up to date, which nothing else does while a key is worked on.
    pub fn report_unfinished(&self) {
        let unfinished = self.shared.read(|core, now| core.unfinished(now));
        self.shared.series.unfinished(unfinished);
    }

    /// Refuses new keys from now on. Keys that are ready are still handed out, also those that were added again while they
    /// are processed; delayed keys are dropped. Ends a running [`shut_down_with_drain`](Self::shut_down_with_drain).
    pub fn shut_down(&self) {
        self.begin_shut_down(false);
    }

    /// Refuses new keys, then waits until every ready key was handed out and everything that was handed out is done. Somebody
    /// has to keep consuming. A [`shut_down`](Self::shut_down) meanwhile ends the wait.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the wait; the queue stays shut down.
    pub async fn shut_down_with_drain(&self) {
        self.begin_shut_down(true);
        super::consumer::drained(&self.shared).await;
    }

    fn begin_shut_down(&self, draining: bool) {
        let dropped = self.shared.with(|core| core.shut_down(draining));
        drop(dropped);
    }

    /// Whether the queue refuses new keys.
    pub fn is_shutting_down(&self) -> bool {
        self.shared.with(|core| core.is_shutting_down())
    }

    /// Shuts down and drops all that is queued or delayed; returns how many keys were dropped.
    pub(super) fn discard(&self) -> usize {
        let dropped = self.shared.with(|core| {
            let mut dropped = core.shut_down(false);
            dropped.extend(core.discard_queued());
            dropped
        });
        dropped.len()
    }

    /// Marks the keys that are ready now; [`all_handled`](Self::all_handled) is cancelled once each was handled.
    pub(super) fn mark_queued(&self) {
        if self.shared.read(|core, _| core.mark_queued()) == 0 {
            self.shared.handled.cancel();
        }
    }

    pub(super) fn all_handled(&self) -> &CancellationToken {
        &self.shared.handled
    }

    pub(super) fn limiter(&self) -> &dyn RateLimiter<T> {
        &*self.shared.limiter
    }

    #[cfg(test)]
    pub(super) fn with_core<R>(&self, read: impl FnOnce(&mut Core<T>) -> R) -> R {
        self.shared.with(read)
    }
}

impl<T: Clone + Eq> Shared<T> {
    /// One step that takes the time if it is needed.
    #[inline]
    pub(super) fn with_time<R>(&self, step: impl FnOnce(&mut Core<T>, Option<Tick>) -> R) -> R {
        // Rather before the lock than under it.
        let now = (self.timings == Timings::On).then(|| self.epoch.tick());
        self.with(|core| {
            let now = now.or_else(|| core.needs_time().then(|| self.epoch.tick()));
            step(core, now)
        })
    }

    /// One step that looks at the present.
    pub(super) fn read<R>(&self, step: impl FnOnce(&mut Core<T>, Tick) -> R) -> R {
        let now = self.epoch.tick();
        self.with(|core| {
            core.promote(Some(now));
            step(core, now)
        })
    }

    /// Runs one step of the state machine, then does what follows from it, outside of the lock.
    #[inline]
    pub(super) fn with<R>(&self, step: impl FnOnce(&mut Core<T>) -> R) -> R {
        let (result, report, effects) = {
            // A panic in `T::eq` or `T::clone` happens before anything is changed, so the state is sound.
            let mut core = self.core.lock();
            let result = step(&mut core);
            (result, core.report(), core.effects())
        };
        if let Some(report) = report {
            self.series.report(report);
        }
        if let Some(effects) = effects {
            self.follow(effects);
        }
        result
    }

    fn follow(&self, effects: Effects) {
        if effects.all_handled {
            self.handled.cancel();
        }
        if let Some(waker) = effects.wake {
            waker.wake();
        }
        for waker in effects.wake_too {
            waker.wake();
        }
    }

    /// The time of a delay from now on.
    pub(super) fn deadline(&self, delay: Duration) -> Tick {
        self.epoch.tick().after(delay)
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Ends a run.
    #[inline]
    pub(super) fn finish(&self, slot: u32, finish: Finish) {
        let now = (self.timings == Timings::On).then(|| self.epoch.tick());
        let forgotten = self.with(|core| {
            let needs_time = core.finish_needs_time(slot, &finish);
            let now = now.or_else(|| needs_time.then(|| self.epoch.tick()));
            core.finish(slot, finish, now)
        });
        drop(forgotten);
    }

    /// Ends a run and takes the next key, in one step.
    #[inline]
    pub(super) fn finish_and_take(&self, slot: u32, finish: Finish) -> Take<T> {
        let now = (self.timings == Timings::On).then(|| self.epoch.tick());
        let (forgotten, take) = self.with(|core| {
            let needs_time = core.needs_time() || core.finish_needs_time(slot, &finish);
            let now = now.or_else(|| needs_time.then(|| self.epoch.tick()));
            (core.finish(slot, finish, now), core.take(now))
        });
        drop(forgotten);
        take
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        self.series.end(self.core.lock().reported_depth());
    }
}

impl<T> Clone for WorkQueue<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T> fmt::Debug for WorkQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue")
            .field("name", &self.shared.name)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for WorkQueueBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueueBuilder")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
