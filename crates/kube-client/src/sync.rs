//! The one place where locks come from, so that a model checker can replace them, and hand-kept wakers.
//!
//! Owns: `Mutex`, `RwLock` (without poisoning: no user code ever runs while one is held, so a poisoned lock could only
//! follow a bug of this crate, and going on beats a second panic) and `Waiters`. Knows nothing of tokio.

use std::sync::PoisonError;
use std::task::{Context, Waker};

#[cfg(shuttle)]
use shuttle::sync as imp;
#[cfg(not(shuttle))]
use std::sync as imp;

pub(crate) use imp::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

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

/// A reader-writer lock that ignores poisoning.
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

/// The wakers of the futures that wait for one fact.
///
/// Each future holds one ticket and gives it back when dropped, so the list is bounded by the number of live futures.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    // Invariant: tickets are unique and below `next`.
    wakers: Vec<(u64, Waker)>,
    next: u64,
}

impl Waiters {
    /// Stores the task's waker under `ticket`, which is handed out at the first call.
    pub(crate) fn register(&mut self, ticket: &mut Option<u64>, cx: &Context<'_>) {
        let id = *ticket.get_or_insert_with(|| {
            self.next += 1;
            self.next
        });
        match self.wakers.iter_mut().find(|(known, _)| *known == id) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => self.wakers.push((id, cx.waker().clone())),
        }
    }

    /// Forgets a future that was dropped.
    pub(crate) fn forget(&mut self, ticket: Option<u64>) {
        if let Some(id) = ticket {
            self.wakers.retain(|(known, _)| *known != id);
        }
    }

    /// Takes every waker out; the caller wakes them after it let go of its lock.
    pub(crate) fn take(&mut self) -> Vec<Waker> {
        self.wakers.drain(..).map(|(_, waker)| waker).collect()
    }
}

/// Wakes all of them; call it without a lock held.
pub(crate) fn wake_all(wakers: Vec<Waker>) {
    for waker in wakers {
        waker.wake();
    }
}
