//! The one place where this crate's locks come from, so that a model checker can replace them.
//!
//! Owns: `Mutex`, without poisoning: what runs under a lock of this crate changes nothing before it can panic, so a lock that
//! a panic went through guards a sound state. Knows nothing of tokio.
//!
//! In unit tests the locks are those of `checked`: they know whether one is held, and inside of a model run they are the
//! model checker's.

#[cfg(test)]
pub(crate) mod checked;

use std::hint::spin_loop;
use std::sync::{PoisonError, TryLockError};

#[cfg(test)]
use checked as imp;
#[cfg(not(test))]
use std::sync as imp;

pub(crate) use imp::MutexGuard;

/// How often [`lock`] tries again before it lets the thread sleep; the pause doubles from one try to the next. All of them
/// together last some microseconds, as long as putting a thread to sleep and waking it.
const TRIES: u32 = 9;

/// A mutual exclusion lock that ignores poisoning.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        #[cfg(test)]
        return self.0.lock();
        #[cfg(not(test))]
        lock(&self.0)
    }
}

/// Locks, ignoring poisoning.
///
/// What this crate does under a lock takes some tens of nanoseconds, so whoever finds it locked waits a moment before it asks the
/// system to put it to sleep: sleeping costs the sleeper and its waker some microseconds each. The pauses grow, so that a holder
/// who comes back at once gets several turns while the lock and what it guards are in its cache; they are bounded, because
/// the holder may have lost its processor.
#[inline]
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    try_lock(mutex).unwrap_or_else(|| lock_contended(mutex))
}

#[cold]
fn lock_contended<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    for doubling in 0..TRIES {
        for _ in 0..1_u32 << doubling {
            spin_loop();
        }
        if let Some(guard) = try_lock(mutex) {
            return guard;
        }
    }
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[inline]
fn try_lock<T>(mutex: &std::sync::Mutex<T>) -> Option<std::sync::MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    // Threads that find it locked for a moment and for longer than they care to spin: each has its turns, one at a time.
    #[test]
    fn contended_locks_are_taken_by_one_at_a_time() {
        let count = Arc::new(Mutex::new(0));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let count = Arc::clone(&count);
                thread::spawn(move || {
                    for turn in 0..2000 {
                        let mut count = count.lock();
                        let before = *count;
                        if turn % 50 == 0 {
                            (0..20).for_each(|_| thread::yield_now());
                        }
                        *count = before + 1;
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(*count.lock(), 8000);
    }

    #[test]
    fn a_lock_that_a_panic_went_through_is_taken() {
        let lock = Arc::new(Mutex::new(1));
        let panicking = Arc::clone(&lock);
        let panicked = thread::spawn(move || {
            let _guard = panicking.lock();
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());
        assert_eq!(*lock.lock(), 1);
    }
}
