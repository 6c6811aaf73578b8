//! How long a key waits before its next attempt.
//!
//! Owns: [`RateLimiter`] and the limiters that client-go has, with its figures. Limiters only answer with a delay; the
//! queue does the waiting. None of them overflows: a delay too long to count is the longest one. What cannot work, such as a
//! rate of zero, is refused at construction with a [`LimiterError`].

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::error::LimiterError;
use super::time::{Epoch, Tick, saturating_nanos};
use crate::sync::Mutex;

/// Up to so many keys the memory for them is kept when all are forgotten.
const KEPT_FAILURES: usize = 1024;

/// Decides how long a key waits before it is tried again.
///
/// # Contract
///
/// 1. `when` counts as one more failure of the key and returns how long to wait for the next attempt (not checked).
/// 2. `forget` makes the next `when` of the key behave as its first one (not checked).
/// 3. No method calls the queue or blocks: they run on the worker that just failed (not checked).
/// 4. A panic in `when` is contained by [`Queue`](super::Queue): that retry waits one second.
pub trait RateLimiter<T>: Send + Sync {
    /// Counts a failure of `key` and says how long to wait.
    fn when(&self, key: &T) -> Duration;

    /// The key needs no more retries, because it succeeded or was given up.
    fn forget(&self, key: &T);

    /// How many failures were counted for `key` since it was last forgotten; 0 from limiters that do not count per key.
    fn num_requeues(&self, key: &T) -> u32;
}

impl<T, L: RateLimiter<T> + ?Sized> RateLimiter<T> for Box<L> {
    fn when(&self, key: &T) -> Duration {
        (**self).when(key)
    }
    fn forget(&self, key: &T) {
        (**self).forget(key);
    }
    fn num_requeues(&self, key: &T) -> u32 {
        (**self).num_requeues(key)
    }
}

impl<T, L: RateLimiter<T> + ?Sized> RateLimiter<T> for Arc<L> {
    fn when(&self, key: &T) -> Duration {
        (**self).when(key)
    }
    fn forget(&self, key: &T) {
        (**self).forget(key);
    }
    fn num_requeues(&self, key: &T) -> u32 {
        (**self).num_requeues(key)
    }
}

/// Failures per key.
struct Failures<T> {
    hasher: foldhash::fast::RandomState,
    counts: Mutex<HashTable<(T, u32)>>,
    /// How many keys have failures. Invariant: written under the lock only. Without it, every success would take the lock.
    len: AtomicUsize,
}

impl<T: Clone + Eq + Hash> Failures<T> {
    fn new() -> Self {
        Self {
            hasher: foldhash::fast::RandomState::default(),
            counts: Mutex::new(HashTable::new()),
            len: AtomicUsize::new(0),
        }
    }

    /// Counts one more failure; returns how many there were before.
    fn increment(&self, key: &T) -> u32 {
        let hash = self.hasher.hash_one(key);
        let mut counts = self.counts.lock();
        match counts.entry(
            hash,
            |(known, _)| known == key,
            |(known, _)| self.hasher.hash_one(known),
        ) {
            Entry::Occupied(mut entry) => {
                let count = &mut entry.get_mut().1;
                let before = *count;
                *count = count.saturating_add(1);
                before
            }
            Entry::Vacant(entry) => {
                entry.insert((key.clone(), 1));
                self.len.store(counts.len(), Ordering::Relaxed);
                0
            }
        }
    }

    fn forget(&self, key: &T) {
        // Whoever saw this key fail handed it on through some lock, so its failure is seen here.
        if self.len.load(Ordering::Relaxed) == 0 {
            return;
        }
        let hash = self.hasher.hash_one(key);
        let mut counts = self.counts.lock();
        let forgotten = counts
            .find_entry(hash, |(known, _)| known == key)
            .map(|entry| entry.remove().0)
            .ok();
        self.len.store(counts.len(), Ordering::Relaxed);
        let burst = (counts.is_empty() && counts.capacity() > KEPT_FAILURES).then(|| std::mem::take(&mut *counts));
        // A key's `Drop` is not ours: not under the lock.
        drop(counts);
        drop((forgotten, burst));
    }

    fn get(&self, key: &T) -> u32 {
        let hash = self.hasher.hash_one(key);
        self.counts
            .lock()
            .find(hash, |(known, _)| known == key)
            .map_or(0, |(_, count)| *count)
    }
}

impl<T> std::fmt::Debug for Failures<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Failures")
            .field("keys", &self.len)
            .finish_non_exhaustive()
    }
}

/// `base`, twice that, four times that … up to `max`, for each key on its own.
#[derive(Debug)]
pub struct ExponentialFailure<T> {
    /// In nanoseconds.
    base: u64,
    max: Duration,
    failures: Failures<T>,
}

impl<T: Clone + Eq + Hash> ExponentialFailure<T> {
    /// Delays from `base` to `max`.
    ///
    /// # Errors
    ///
    /// [`LimiterError::ZeroBase`] if `base` is zero, [`LimiterError::MaxBelowBase`] if `max` is less than `base`.
    pub fn new(base: Duration, max: Duration) -> Result<Self, LimiterError> {
        if base.is_zero() {
            return Err(LimiterError::ZeroBase { max });
        }
        if max < base {
            return Err(LimiterError::MaxBelowBase { base, max });
        }
        Ok(Self::unchecked(base, max))
    }

    fn unchecked(base: Duration, max: Duration) -> Self {
        Self {
            base: saturating_nanos(base),
            max,
            failures: Failures::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> Default for ExponentialFailure<T> {
    /// From 5 ms to 1,000 s, the figures of client-go's controllers.
    fn default() -> Self {
        Self::unchecked(Duration::from_millis(5), Duration::from_secs(1000))
    }
}

impl<T: Clone + Eq + Hash + Send + Sync> RateLimiter<T> for ExponentialFailure<T> {
    fn when(&self, key: &T) -> Duration {
        exponential(self.base, self.failures.increment(key), self.max)
    }
    fn forget(&self, key: &T) {
        self.failures.forget(key);
    }
    fn num_requeues(&self, key: &T) -> u32 {
        self.failures.get(key)
    }
}

/// `base * 2^exponent`, at most `max`. Precondition: `base`, in nanoseconds, is not zero.
fn exponential(base: u64, exponent: u32, max: Duration) -> Duration {
    if exponent < base.leading_zeros() {
        Duration::from_nanos(base << exponent).min(max)
    } else {
        // More than 292 years.
        max
    }
}

/// A short delay for the first failures of a key, a long one for all after.
#[derive(Debug)]
pub struct FastSlow<T> {
    fast: Duration,
    slow: Duration,
    max_fast_attempts: u32,
    failures: Failures<T>,
}

impl<T: Clone + Eq + Hash> FastSlow<T> {
    /// `fast` for the first `max_fast_attempts` failures of a key, then `slow`. Equal delays are a constant back-off.
    ///
    /// # Errors
    ///
    /// [`LimiterError::SlowBelowFast`] if `slow` is less than `fast`.
    pub fn new(fast: Duration, slow: Duration, max_fast_attempts: u32) -> Result<Self, LimiterError> {
        if slow < fast {
            return Err(LimiterError::SlowBelowFast { fast, slow });
        }
        Ok(Self {
            fast,
            slow,
            max_fast_attempts,
            failures: Failures::new(),
        })
    }
}

impl<T: Clone + Eq + Hash + Send + Sync> RateLimiter<T> for FastSlow<T> {
    fn when(&self, key: &T) -> Duration {
        if self.failures.increment(key) < self.max_fast_attempts {
            self.fast
        } else {
            self.slow
        }
    }
    fn forget(&self, key: &T) {
        self.failures.forget(key);
    }
    fn num_requeues(&self, key: &T) -> u32 {
        self.failures.get(key)
    }
}

/// A bucket of tokens shared by all keys: `burst` attempts at once, then an even rate.
///
/// Every call books a token, if need be one that the future brings, and returns the time until then: three calls beyond the
/// burst at 10 per second return 100, 200 and 300 ms. `forget` gives no token back. The time is tokio's clock.
#[derive(Debug)]
pub struct TokenBucket {
    /// Time per token. Invariant: not zero.
    interval: Duration,
    /// How far the booked time may run ahead before a caller has to wait.
    tolerance: Duration,
    epoch: Epoch,
    /// When the bucket will be full again.
    full_at: Mutex<Tick>,
}

impl TokenBucket {
    /// A full bucket of `burst` tokens that gains `per_second` tokens a second.
    ///
    /// # Errors
    ///
    /// [`LimiterError::Rate`] if `per_second` is not a positive finite number, [`LimiterError::Burst`] if `burst` is zero: such
    /// a bucket would never let anything pass.
    pub fn new(per_second: f64, burst: u32) -> Result<Self, LimiterError> {
        if !per_second.is_finite() || per_second <= 0.0 {
            return Err(LimiterError::Rate { per_second });
        }
        if burst == 0 {
            return Err(LimiterError::Burst { burst });
        }
        let interval = Duration::try_from_secs_f64(per_second.recip()).unwrap_or(Duration::MAX);
        Ok(Self::unchecked(interval.max(Duration::from_nanos(1)), burst))
    }

    fn unchecked(interval: Duration, burst: u32) -> Self {
        Self {
            interval,
            tolerance: interval.saturating_mul(burst - 1),
            epoch: Epoch::now(),
            full_at: Mutex::new(Tick::START),
        }
    }

    fn reserve(&self) -> Duration {
        let now = self.epoch.tick();
        let mut full_at = self.full_at.lock();
        let booked = (*full_at).max(now);
        *full_at = booked.after(self.interval);
        booked.since(now).saturating_sub(self.tolerance)
    }
}

impl<T> RateLimiter<T> for TokenBucket {
    fn when(&self, _key: &T) -> Duration {
        self.reserve()
    }
    fn forget(&self, _key: &T) {}
    fn num_requeues(&self, _key: &T) -> u32 {
        0
    }
}

/// The longest of the delays of several limiters; each of them counts every failure.
pub struct MaxOf<T> {
    limiters: Vec<Box<dyn RateLimiter<T>>>,
}

impl<T> MaxOf<T> {
    /// Combines limiters. Without any there is never a delay: a key that keeps failing is then tried without a pause.
    pub fn new(limiters: impl IntoIterator<Item = Box<dyn RateLimiter<T>>>) -> Self {
        Self {
            limiters: limiters.into_iter().collect(),
        }
    }
}

impl<T> RateLimiter<T> for MaxOf<T> {
    fn when(&self, key: &T) -> Duration {
        self.limiters
            .iter()
            .map(|limiter| limiter.when(key))
            .max()
            .unwrap_or_default()
    }
    fn forget(&self, key: &T) {
        for limiter in &self.limiters {
            limiter.forget(key);
        }
    }
    fn num_requeues(&self, key: &T) -> u32 {
        self.limiters
            .iter()
            .map(|limiter| limiter.num_requeues(key))
            .max()
            .unwrap_or_default()
    }
}

impl<T> std::fmt::Debug for MaxOf<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MaxOf").field("limiters", &self.limiters.len()).finish()
    }
}

/// Another limiter's delay, but at most a given one.
#[derive(Debug)]
pub struct WithMaxWait<L> {
    limiter: L,
    max: Duration,
}

impl<L> WithMaxWait<L> {
    /// Caps the delays of `limiter` at `max`.
    pub fn new(limiter: L, max: Duration) -> Self {
        Self { limiter, max }
    }
}

impl<T, L: RateLimiter<T>> RateLimiter<T> for WithMaxWait<L> {
    fn when(&self, key: &T) -> Duration {
        self.limiter.when(key).min(self.max)
    }
    fn forget(&self, key: &T) {
        self.limiter.forget(key);
    }
    fn num_requeues(&self, key: &T) -> u32 {
        self.limiter.num_requeues(key)
    }
}

/// Another limiter's delay, lengthened by a random part of it, so that keys that failed together do not return together.
#[derive(Debug)]
pub struct WithJitter<L> {
    limiter: L,
    factor: f64,
    random: Mutex<fastrand::Rng>,
}

impl<L> WithJitter<L> {
    /// Delays from `d` to `d * (1 + factor)`, where `d` is the delay of `limiter`.
    ///
    /// # Errors
    ///
    /// [`LimiterError::Jitter`] if `factor` is negative or not finite.
    pub fn new(limiter: L, factor: f64) -> Result<Self, LimiterError> {
        Self::with_rng(limiter, factor, fastrand::Rng::new())
    }

    /// The same with a given source of randomness, for reproducible runs.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_rng(limiter: L, factor: f64, random: fastrand::Rng) -> Result<Self, LimiterError> {
        if !factor.is_finite() || factor < 0.0 {
            return Err(LimiterError::Jitter { factor });
        }
        Ok(Self {
            limiter,
            factor,
            random: Mutex::new(random),
        })
    }
}

impl<T, L: RateLimiter<T>> RateLimiter<T> for WithJitter<L> {
    fn when(&self, key: &T) -> Duration {
        let delay = self.limiter.when(key);
        let share = self.random.lock().f64() * self.factor;
        let extra = Duration::try_from_secs_f64(delay.as_secs_f64() * share).unwrap_or(Duration::MAX);
        delay.saturating_add(extra)
    }
    fn forget(&self, key: &T) {
        self.limiter.forget(key);
    }
    fn num_requeues(&self, key: &T) -> u32 {
        self.limiter.num_requeues(key)
    }
}

/// The limiter of client-go's controllers: exponential from 5 ms to 1,000 s per key, and never more than 10 retries a
/// second overall after a burst of 100.
pub fn controller_default<T: Clone + Eq + Hash + Send + Sync + 'static>() -> MaxOf<T> {
    MaxOf::new([
        Box::new(ExponentialFailure::default()) as Box<dyn RateLimiter<T>>,
        Box::new(TokenBucket::unchecked(Duration::from_millis(100), 100)),
    ])
}

#[cfg(test)]
mod tests;
