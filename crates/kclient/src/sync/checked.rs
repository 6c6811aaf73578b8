//! The locks of this crate's unit tests.
//!
//! Outside of a model run they are those of `std`, and know whether this thread holds one: what stands in for code of the
//! user's calls [`assert_none_held`]. Inside of [`model`], they are the model checker's, which decides at each of them which
//! thread goes on. Deciding at run time instead of by `cfg` lets `cargo test` run the models without building anything twice.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};

thread_local! {
    // Locks of `std` that this thread holds.
    static HELD: Cell<usize> = const { Cell::new(0) };
    // The model checker runs its threads as coroutines on this one.
    static IN_MODEL: Cell<bool> = const { Cell::new(false) };
}

/// Panics if this thread holds a lock: what stands in for code of the user's calls it.
pub(crate) fn assert_none_held() {
    if !std::thread::panicking() {
        assert_eq!(HELD.get(), 0, "user code runs under a lock");
    }
}

/// Runs `body` under many schedules of its threads: at random, and by priorities with few changes, which finds what needs
/// one thread to be very slow. `MODEL_SCHEDULES` in the environment replaces their number, and `SHUTTLE_RANDOM_SEED` the
/// seed, which is printed.
pub(crate) fn model(schedules: usize, body: impl Fn() + Send + Sync + Copy + 'static) {
    let wanted = std::env::var("MODEL_SCHEDULES")
        .ok()
        .and_then(|wanted| wanted.parse().ok());
    let (schedules, seed): (usize, u64) = (wanted.unwrap_or(schedules), fastrand::u64(..));
    println!("{schedules} schedules, SHUTTLE_RANDOM_SEED={seed}");
    run(RandomScheduler::new_from_seed(seed, schedules.div_ceil(2)), body);
    run(PctScheduler::new_from_seed(seed, 4, schedules / 2), body);
}

fn run(scheduler: impl Scheduler + 'static, body: impl Fn() + Send + Sync + 'static) {
    struct Outside;
    impl Drop for Outside {
        fn drop(&mut self) {
            IN_MODEL.set(false);
        }
    }
    let _outside = Outside;
    IN_MODEL.set(true);
    shuttle::Runner::new(scheduler, shuttle::Config::new()).run(body);
}

/// Counts a lock of `std` as held.
pub(crate) struct Held;

impl Held {
    fn new() -> Self {
        HELD.set(HELD.get() + 1);
        Self
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HELD.set(HELD.get() - 1);
    }
}

/// Either of two.
#[derive(Debug)]
pub(crate) enum Mutex<T> {
    Std(std::sync::Mutex<T>),
    Model(shuttle::sync::Mutex<T>),
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        if IN_MODEL.get() {
            Self::Model(shuttle::sync::Mutex::new(value))
        } else {
            Self::Std(std::sync::Mutex::new(value))
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        match self {
            Self::Std(lock) => MutexGuard::Std(super::lock(lock), Held::new()),
            Self::Model(lock) => MutexGuard::Model(lock.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

pub(crate) enum MutexGuard<'a, T> {
    Std(std::sync::MutexGuard<'a, T>, Held),
    Model(shuttle::sync::MutexGuard<'a, T>),
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Std(guard, _) => guard,
            Self::Model(guard) => guard,
        }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match self {
            Self::Std(guard, _) => guard,
            Self::Model(guard) => guard,
        }
    }
}
