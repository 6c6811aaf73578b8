//! The one place where locks come from, so that a model checker can replace them, and hand-kept wakers.
//!
//! Owns: `Mutex`, `RwLock` (without poisoning: no user code ever runs while one is held, so a poisoned lock could only
//! follow a bug of this crate, and going on beats a second panic) and `Waiters`. Knows nothing of tokio.
//!
//! In unit tests the locks are those of `checked`: they know whether one is held, and inside of a model run they are the
//! model checker's.

#[cfg(test)]
pub(crate) mod checked;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::task::Waker;

#[cfg(test)]
use checked as imp;
#[cfg(not(test))]
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
/// Wakers are code of whoever polls: they are cloned before the lock is taken, and what comes out of here is woken or
/// dropped after it was released.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    // Invariant: tickets are unique and at most `next`.
    wakers: Vec<(u64, Waker)>,
    next: u64,
}

impl Waiters {
    /// Stores the waker under `ticket`, which is handed out at the first call. Returns the one it replaces.
    #[must_use = "drop it after the lock is released"]
    pub(crate) fn register(&mut self, ticket: &mut Option<u64>, waker: Waker) -> Option<Waker> {
        let id = *ticket.get_or_insert_with(|| {
            self.next += 1;
            self.next
        });
        if let Some((_, known)) = self.wakers.iter_mut().find(|(known, _)| *known == id) {
            return Some(std::mem::replace(known, waker));
        }
        self.wakers.push((id, waker));
        None
    }

    /// Forgets a future that was dropped.
    #[must_use = "drop it after the lock is released"]
    pub(crate) fn forget(&mut self, ticket: Option<u64>) -> Option<Waker> {
        let at = self.wakers.iter().position(|(known, _)| Some(*known) == ticket)?;
        Some(self.wakers.swap_remove(at).1)
    }

    /// Takes every waker out; the caller wakes them after it let go of its lock.
    pub(crate) fn take(&mut self) -> Vec<Waker> {
        self.wakers.drain(..).map(|(_, waker)| waker).collect()
    }
}

/// Wakes all of them; call it without a lock held. A panic of one is contained, so that the others are woken.
pub(crate) fn wake_all(wakers: Vec<Waker>) {
    for waker in wakers {
        if catch_unwind(AssertUnwindSafe(|| waker.wake())).is_err() {
            tracing::error!("a waker panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    struct Counting(AtomicUsize);

    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    struct Panicking;

    impl Wake for Panicking {
        fn wake(self: Arc<Self>) {
            panic!("on purpose");
        }
    }

    // wakers are code of whoever polls: one that panics keeps nobody else asleep
    #[test]
    fn panicking_waker_keeps_nobody_else_asleep() {
        let counting = Arc::new(Counting(AtomicUsize::new(0)));
        let wakers = vec![
            Waker::from(Arc::clone(&counting)),
            Waker::from(Arc::new(Panicking)),
            Waker::from(Arc::clone(&counting)),
        ];
        let woken = catch_unwind(AssertUnwindSafe(|| wake_all(wakers)));
        assert!(woken.is_ok());
        assert_eq!(counting.0.load(Ordering::SeqCst), 2);
    }
}
