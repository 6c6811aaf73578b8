//! How long a key waits before its next attempt.
//!
//! Owns: [`RateLimiter`] and the limiters that client-go has, with its figures. Limiters only answer with a delay; the
//! queue does the waiting. None of them overflows: a delay too long to count is the longest one.

use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use tokio::time::Instant;

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
#[derive(Debug)]
struct Failures<T> {
    hasher: foldhash::fast::RandomState,
    counts: Mutex<HashTable<(T, u32)>>,
}

impl<T: Clone + Eq + Hash> Failures<T> {
    fn new() -> Self {
        Self {
            hasher: foldhash::fast::RandomState::default(),
            counts: Mutex::new(HashTable::new()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashTable<(T, u32)>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more failure; returns how many there were before.
    fn increment(&self, key: &T) -> u32 {
        let hash = self.hasher.hash_one(key);
        let mut counts = self.lock();
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
                0
            }
        }
    }

    fn forget(&self, key: &T) {
        let hash = self.hasher.hash_one(key);
        let mut counts = self.lock();
        let forgotten = counts
            .find_entry(hash, |(known, _)| known == key)
            .map(|entry| entry.remove().0)
            .ok();
        // A key's `Drop` is not ours: not under the lock.
        drop(counts);
        drop(forgotten);
    }

    fn get(&self, key: &T) -> u32 {
        let hash = self.hasher.hash_one(key);
        self.lock()
            .find(hash, |(known, _)| known == key)
            .map_or(0, |(_, count)| *count)
    }
}

/// `base`, twice that, four times that … up to `max`, for each key on its own.
#[derive(Debug)]
pub struct ExponentialFailure<T> {
    base: Duration,
    max: Duration,
    failures: Failures<T>,
}

impl<T: Clone + Eq + Hash> ExponentialFailure<T> {
    /// Delays from `base` to `max`.
    pub fn new(base: Duration, max: Duration) -> Self {
        Self {
            base,
            max,
            failures: Failures::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> Default for ExponentialFailure<T> {
    /// From 5 ms to 1,000 s, the figures of client-go's controllers.
    fn default() -> Self {
        Self::new(Duration::from_millis(5), Duration::from_secs(1000))
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

/// `base * 2^exponent`, at most `max`.
fn exponential(base: Duration, exponent: u32, max: Duration) -> Duration {
    let nanos = base.as_nanos();
    if nanos == 0 {
        return Duration::ZERO.min(max);
    }
    if exponent >= nanos.leading_zeros() || nanos << exponent >= max.as_nanos() {
        return max;
    }
    Duration::from_nanos_u128(nanos << exponent)
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
    /// `fast` for the first `max_fast_attempts` failures of a key, then `slow`.
    pub fn new(fast: Duration, slow: Duration, max_fast_attempts: u32) -> Self {
        Self {
            fast,
            slow,
            max_fast_attempts,
            failures: Failures::new(),
        }
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
    /// Nanoseconds per token.
    interval: u64,
    /// How far the booked time may run ahead before a caller has to wait.
    tolerance: u64,
    origin: Instant,
    /// Nanoseconds after `origin` at which the bucket will be full again.
    full_at: Mutex<u64>,
}

impl TokenBucket {
    /// A full bucket of `burst` tokens that gains `per_second` tokens a second.
    ///
    /// # Panics
    ///
    /// If `per_second` is not a positive finite number, or `burst` is zero: such a bucket would never let anything pass.
    pub fn new(per_second: f64, burst: u32) -> Self {
        assert!(
            per_second.is_finite() && per_second > 0.0,
            "tokens per second must be positive: {per_second}"
        );
        assert!(burst > 0, "a bucket needs room for at least one token");
        let interval = duration_nanos(Duration::try_from_secs_f64(per_second.recip()).unwrap_or(Duration::MAX)).max(1);
        let tolerance = interval.saturating_mul(u64::from(burst - 1));
        Self {
            interval,
            tolerance,
            origin: Instant::now(),
            full_at: Mutex::new(0),
        }
    }

    fn reserve(&self) -> Duration {
        let now = duration_nanos(self.origin.elapsed());
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let booked = (*full_at).max(now);
        *full_at = booked.saturating_add(self.interval);
        Duration::from_nanos(booked.saturating_sub(self.tolerance).saturating_sub(now))
    }
}

/// Saturates after 584 years.
fn duration_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
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
    /// Combines limiters. Without any there is never a delay.
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
    /// # Panics
    ///
    /// If `factor` is negative or not finite.
    pub fn new(limiter: L, factor: f64) -> Self {
        Self::with_rng(limiter, factor, fastrand::Rng::new())
    }

    /// The same with a given source of randomness, for reproducible runs.
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    pub fn with_rng(limiter: L, factor: f64, random: fastrand::Rng) -> Self {
        assert!(
            factor.is_finite() && factor >= 0.0,
            "the jitter factor must not be negative: {factor}"
        );
        Self {
            limiter,
            factor,
            random: Mutex::new(random),
        }
    }
}

impl<T, L: RateLimiter<T>> RateLimiter<T> for WithJitter<L> {
    fn when(&self, key: &T) -> Duration {
        let delay = self.limiter.when(key);
        let share = self.random.lock().unwrap_or_else(PoisonError::into_inner).f64() * self.factor;
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
        Box::new(TokenBucket::new(10.0, 100)),
    ])
}

#[cfg(test)]
mod tests;
