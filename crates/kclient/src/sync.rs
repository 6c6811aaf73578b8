//! The one place where this crate's locks come from, so that a model checker can replace them.
//!
//! Owns: `Mutex`, without poisoning: what runs under a lock of this crate changes nothing before it can panic, so a lock that
//! a panic went through guards a sound state. Knows nothing of tokio.
//!
//! In unit tests the locks are those of `checked`: they know whether one is held, and inside of a model run they are the
//! model checker's.

#[cfg(test)]
pub(crate) mod checked;

use std::sync::PoisonError;

#[cfg(test)]
use checked as imp;
#[cfg(not(test))]
use std::sync as imp;

pub(crate) use imp::MutexGuard;

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
