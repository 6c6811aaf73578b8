//! The one place where this crate's locks and threads come from, so that a model checker can replace them.
//!
//! Owns: `Mutex`, `RwLock` and `Condvar`, without poisoning: what runs under a lock of this crate changes nothing before it can panic, so a
//! lock that a panic went through guards a sound state; `AtomicBool`; and the threads of the engine, which nobody joins.
//!
//! In unit tests these are those of `checked`: they know whether a lock is held, and inside of a model run they are the model
//! checker's.

#[cfg(test)]
pub(crate) mod checked;

use std::sync::PoisonError;
use std::time::Duration;

#[cfg(test)]
use checked as imp;
#[cfg(not(test))]
use std::sync as imp;

#[cfg(test)]
pub(crate) use imp::AtomicBool;
pub(crate) use imp::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(test))]
pub(crate) use std::sync::atomic::AtomicBool;

/// A mutual exclusion lock that ignores poisoning.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lock for many readers or one writer that ignores poisoning.
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(imp::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a thread waits for that holds a [`Mutex`].
#[derive(Debug, Default)]
pub(crate) struct Condvar(imp::Condvar);

impl Condvar {
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells also whether the time was up.
    pub(crate) fn wait_timeout<'a, T>(&self, guard: MutexGuard<'a, T>, timeout: Duration) -> (MutexGuard<'a, T>, bool) {
        let waited = self.0.wait_timeout(guard, timeout);
        let (guard, result) = waited.unwrap_or_else(PoisonError::into_inner);
        (guard, result.timed_out())
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Threads that end by themselves, and waiting for another thread.
pub(crate) mod thread {
    #[cfg(test)]
    pub(crate) use super::checked::thread::{Thread, current, park, park_timeout, spawn, yield_now};
    #[cfg(not(test))]
    pub(crate) use std::thread::{Thread, current, park, park_timeout, yield_now};

    /// Starts a thread.
    #[cfg(not(test))]
    pub(crate) fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        std::thread::Builder::new().name(name).spawn(work).map(drop)
    }
}
