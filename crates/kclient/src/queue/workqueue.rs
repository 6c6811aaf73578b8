//! The work queue: the state machine of [`super::core`] behind a lock, with waiting consumers.
//!
//! Owns: [`WorkQueue`], [`Item`], hashing, the clock reads and the wake-ups. It runs no reconciler: see
//! [`Queue`](super::Queue) for that.
//!
//! # Design
//!
//! Hashing happens outside of the lock, and so do wake-ups. A consumer tries first; only when nothing is ready it
//! registers for a wake-up, looks again (so that no add falls between the two) and sleeps. An add wakes a consumer only if
//! one sleeps. One of the sleeping consumers, the timekeeper, sleeps no longer than the earliest deadline; when it leaves
//! it names a successor, so a deadline is never forgotten and a hundred consumers do not set a hundred timers.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::ops::Deref;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::core::{Core, Finish, Handout, Take};
use super::limiter::{RateLimiter, controller_default};
use super::metrics::{Timings, WorkQueueMetrics};

/// A deadline so far away that it never comes, for delays that no clock can add.
const FAR_FUTURE: Duration = Duration::from_hours(24 * 365 * 30);

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
/// - **Memory** is proportional to the number of distinct keys that wait or are processed; a key that is done is dropped.
/// - The queue starts no task. Delayed keys become ready by the calls of waiting consumers and readers.
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
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    name: String,
    core: Mutex<Core<T>>,
    /// Invariant: a consumer that counts as waiting in the core is registered here, or was woken and will look again.
    consumers: Notify,
    drained: Notify,
    hasher: foldhash::fast::RandomState,
    limiter: Arc<dyn RateLimiter<T>>,
    timings: Timings,
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

    /// Makes the queue.
    pub fn build(self) -> WorkQueue<T> {
        WorkQueue {
            shared: Arc::new(Shared {
                name: self.name,
                core: Mutex::new(Core::new(self.timings == Timings::On)),
                consumers: Notify::new(),
                drained: Notify::new(),
                hasher: foldhash::fast::RandomState::default(),
                limiter: self.limiter.unwrap_or_else(|| Arc::new(controller_default())),
                timings: self.timings,
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

    /// Settings for a new queue. The name is the label of its metrics.
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

    /// Adds a key that becomes ready after `delay`, or earlier if another add says so. A delay of zero is [`add`](Self::add).
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
        let now = Instant::now();
        let deadline = deadline(now, delay);
        self.shared.with(|core| core.add_at(hash, key, priority, deadline, now));
    }

    fn add_with_priority(&self, key: &T, priority: i32) {
        let hash = self.shared.hasher.hash_one(key);
        let now = self.shared.clock();
        self.shared.with(|core| {
            let now = now.or_else(|| core.has_delays().then(Instant::now));
            core.add(hash, key, priority, now);
        });
    }

    /// Waits for the next key. `None` once the queue is shut down and nothing waits to be handed out; a key that is
    /// processed and was added again waits from the instant it is done, so the worker that calls `done` asks once more.
    ///
    /// Many consumers may wait at once; each key goes to one of them.
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
        match self.shared.take() {
            Take::Item(handout) => return Some(self.item(handout)),
            Take::Closed => return None,
            Take::Empty => {}
        }
        let mut consumer = Consumer::new(&self.shared);
        loop {
            // Registered before the queue is looked at again, so that no add can fall in between.
            let mut woken = pin!(self.shared.consumers.notified());
            if woken.as_mut().enable() {
                // A wake-up that had found nobody asleep. The look below answers it.
                continue;
            }
            let deadline = match consumer.take_or_sleep() {
                Ok(Take::Item(handout)) => return Some(self.item(handout)),
                Ok(_) => return None,
                Err(deadline) => deadline,
            };
            match deadline {
                None => woken.await,
                Some(deadline) => tokio::select! {
                    () = woken => {}
                    () = sleep_until(deadline) => {}
                },
            }
            consumer.asleep = false;
        }
    }

    /// Takes the next key if one is ready now.
    pub fn try_get(&self) -> Option<Item<T>> {
        match self.shared.take() {
            Take::Item(handout) => Some(self.item(handout)),
            Take::Empty | Take::Closed => None,
        }
    }

    fn item(&self, handout: Handout<T>) -> Item<T> {
        Item {
            handout,
            finish: Finish::default(),
            shared: Arc::clone(&self.shared),
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
        let now = Instant::now();
        self.shared.with(|core| {
            core.promote(Some(now));
            core.len()
        })
    }

    /// Whether no key is ready to be handed out.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the queue counted and measured so far.
    pub fn metrics(&self) -> WorkQueueMetrics {
        let now = Instant::now();
        self.shared.with(|core| {
            core.promote(Some(now));
            core.metrics(&self.shared.name, now)
        })
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
        loop {
            let mut drained = pin!(self.shared.drained.notified());
            drained.as_mut().enable();
            if self.shared.with(|core| core.is_drained()) {
                return;
            }
            drained.await;
        }
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

    /// Marks the keys that are ready now; returns how many there are.
    pub(super) fn mark_queued(&self) -> usize {
        let now = Instant::now();
        self.shared.with(|core| {
            core.promote(Some(now));
            core.mark_queued()
        })
    }

    /// How many marked keys were not handled yet.
    pub(super) fn marked(&self) -> usize {
        self.shared.with(|core| core.marked())
    }

    pub(super) fn limiter(&self) -> &dyn RateLimiter<T> {
        &*self.shared.limiter
    }

    #[cfg(test)]
    pub(super) fn with_core<R>(&self, read: impl FnOnce(&mut Core<T>) -> R) -> R {
        self.shared.with(read)
    }
}

fn deadline(now: Instant, delay: Duration) -> Instant {
    now.checked_add(delay).unwrap_or_else(|| now + FAR_FUTURE)
}

impl<T: Clone + Eq> Shared<T> {
    /// The time, if durations are measured.
    fn clock(&self) -> Option<Instant> {
        (self.timings == Timings::On).then(Instant::now)
    }

    fn take(&self) -> Take<T> {
        let now = self.clock();
        self.with(|core| {
            let now = now.or_else(|| core.has_delays().then(Instant::now));
            core.take(now)
        })
    }

    fn finish(&self, slot: u32, finish: Finish) {
        let now = self.clock();
        let forgotten = self.with(|core| {
            let needs_time = core.has_delays() || finish.requeue.is_some();
            let now = now.or_else(|| needs_time.then(Instant::now));
            core.finish(slot, finish, now)
        });
        drop(forgotten);
    }

    /// Runs one step of the state machine, then wakes whom it concerns, outside of the lock.
    fn with<R>(&self, step: impl FnOnce(&mut Core<T>) -> R) -> R {
        let (result, wakes) = {
            // A panic in `T::eq` or `T::clone` happens before anything is changed, so the state is sound.
            let mut core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
            let result = step(&mut core);
            (result, core.wakes())
        };
        for _ in 0..wakes.consumers {
            self.consumers.notify_one();
        }
        if wakes.everybody {
            self.consumers.notify_waiters();
        }
        if wakes.drained {
            self.drained.notify_waiters();
        }
        result
    }
}

/// A consumer inside of `get` that found nothing ready.
struct Consumer<'a, T: Clone + Eq> {
    shared: &'a Shared<T>,
    /// Invariant: `Some` once it has slept, until it left.
    id: Option<u64>,
    /// Whether it sleeps, or was dropped asleep.
    asleep: bool,
}

impl<'a, T: Clone + Eq> Consumer<'a, T> {
    fn new(shared: &'a Shared<T>) -> Self {
        Self {
            shared,
            id: None,
            asleep: false,
        }
    }

    /// Takes the next key, or says until when at most to sleep.
    fn take_or_sleep(&mut self) -> Result<Take<T>, Option<Instant>> {
        let now = self.shared.clock();
        self.shared.with(|core| {
            let now = now.or_else(|| core.has_delays().then(Instant::now));
            match core.take(now) {
                Take::Empty => {
                    let id = *self.id.get_or_insert_with(|| core.consumer_id());
                    self.asleep = true;
                    Err(core.sleep(id))
                }
                found => {
                    if let Some(id) = self.id.take() {
                        core.leave(id, self.asleep);
                    }
                    Ok(found)
                }
            }
        })
    }
}

impl<T: Clone + Eq> Drop for Consumer<'_, T> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.shared.with(|core| core.leave(id, self.asleep));
        }
    }
}

/// A key that was handed out. Dropping it is `done`: the key may then be handed out again.
///
/// It dereferences to the key.
#[must_use = "dropping an item marks it as done"]
pub struct Item<T: Clone + Eq> {
    handout: Handout<T>,
    finish: Finish,
    shared: Arc<Shared<T>>,
}

impl<T: Clone + Eq> Item<T> {
    /// The key.
    pub fn key(&self) -> &T {
        &self.handout.key
    }

    /// The priority with which it was handed out.
    pub fn priority(&self) -> i32 {
        self.handout.priority
    }

    /// Marks the key as done, the same as dropping the item.
    pub fn done(self) {}

    /// How many attempts at this key failed in a row.
    pub(super) fn failures(&self) -> u32 {
        self.handout.failures
    }

    /// Done, and really handled: `failures` is the key's new count; it is wanted again after `requeue`, with the same
    /// priority.
    pub(super) fn handled(mut self, failures: u32, requeue: Option<Duration>) {
        let requeue = requeue.map(|delay| (deadline(Instant::now(), delay), self.handout.priority));
        self.finish = Finish {
            failures,
            requeue,
            handled: true,
        };
    }
}

impl<T: Clone + Eq> Drop for Item<T> {
    fn drop(&mut self) {
        self.shared.finish(self.handout.slot, self.finish);
    }
}

impl<T: Clone + Eq> Deref for Item<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.key()
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

impl<T: Clone + Eq + fmt::Debug> fmt::Debug for Item<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Item").field(self.key()).finish()
    }
}

#[cfg(test)]
mod tests;
