//! Waiting for the engine: futures and threads that wait until something they can check is true.
//!
//! No runtime is involved: whoever makes progress calls [`Progress::notify`], and each waiter looks again. Mostly nobody waits, so
//! that is what costs nothing.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use super::panics;
use super::planted::{self, Bug};
use crate::sync::thread::{self, Thread};
use crate::sync::{AtomicBool, Mutex};

/// How often a thread that was woken too early looks again before it sleeps: for some tens of microseconds, which is what it takes a
/// thread to wake.
const AGAIN: usize = if cfg!(test) { 1 } else { 64 };

#[derive(Debug, Default)]
pub(crate) struct Progress {
    waiting: Mutex<Waiting>,
    /// Whether anybody may wait. Each side replaces it, and so sees what the other did before: a waiter that finds `false` here
    /// sees everything that came true before the notification that left it, and a notification that finds `true` wakes.
    any: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiting {
    /// By waiter. Invariant: a waiter that found its condition false after it came in here is woken by the next `notify`; one that
    /// was dropped is not in here.
    wakers: BTreeMap<u64, Waker>,
    /// The number of the last waiter.
    last: u64,
}

impl Progress {
    /// Something may have come true. No lock is held while the wakers, which are the user's, are called.
    pub(crate) fn notify(&self) {
        if !self.any.swap(false, Ordering::AcqRel) || planted::has(Bug::WaiterNotWoken) {
            return;
        }
        let wakers = std::mem::take(&mut self.waiting.lock().wakers);
        for waker in wakers.into_values() {
            if let Err(text) = panics::contain(|| waker.wake()) {
                tracing::error!(panic = text, "a waker panicked");
            }
        }
    }

    /// Has a waiter woken by the next `notify`. It gets its number here.
    fn register(&self, number: &mut Option<u64>, waker: &Waker) {
        let new = waker.clone();
        let replaced = {
            let mut waiting = self.waiting.lock();
            let number = *number.get_or_insert_with(|| {
                waiting.last += 1;
                waiting.last
            });
            waiting.wakers.insert(number, new)
        };
        self.any.swap(true, Ordering::AcqRel);
        panics::drop_each(replaced);
    }

    fn forget(&self, number: u64) {
        let waker = self.waiting.lock().wakers.remove(&number);
        panics::drop_each(waker);
    }

    /// A future that is ready once `is_true` is.
    pub(crate) fn until<F: FnMut() -> bool>(self: Arc<Self>, is_true: F) -> Until<F> {
        Until {
            progress: self,
            is_true,
            number: None,
        }
    }

    /// Blocks the thread until `is_true` is, or until the time is up; tells whether it is true.
    pub(crate) fn block_until(self: &Arc<Self>, timeout: Duration, is_true: impl FnMut() -> bool + Unpin) -> bool {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let deadline = Instant::now().checked_add(timeout);
        let mut until = Arc::clone(self).until(is_true);
        let mut is_woken = false;
        loop {
            if Pin::new(&mut until).poll(&mut Context::from_waker(&waker)).is_ready() {
                return true;
            }
            // Mostly the engine has applied what is waited for, and handlers are about to be done with it: sooner than a thread wakes.
            for _ in 0..if is_woken { AGAIN } else { 0 } {
                thread::yield_now();
                if (until.is_true)() {
                    return true;
                }
            }
            is_woken = true;
            let Some(deadline) = deadline else {
                thread::park();
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            thread::park_timeout(left);
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[must_use = "futures do nothing unless awaited"]
pub(crate) struct Until<F> {
    progress: Arc<Progress>,
    is_true: F,
    /// Its number, once it waits.
    number: Option<u64>,
}

impl<F: FnMut() -> bool + Unpin> Future for Until<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let own = self.get_mut();
        // Registered before the look that counts, so that nothing can come true unnoticed in between.
        if (own.is_true)() {
            return Poll::Ready(());
        }
        own.progress.register(&mut own.number, context.waker());
        if !planted::has(Bug::NotLookedAgain) && (own.is_true)() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl<F> Drop for Until<F> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.progress.forget(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker of the user's");
        }
    }

    fn poll(until: &mut (impl Future<Output = ()> + Unpin), waker: &Waker) -> Poll<()> {
        Pin::new(until).poll(&mut Context::from_waker(waker))
    }

    #[test]
    fn a_waiter_that_is_dropped_leaves_nothing() {
        let progress = Arc::new(Progress::default());
        let mut waits = Arc::clone(&progress).until(|| false);
        for _ in 0..3 {
            assert_eq!(poll(&mut waits, Waker::noop()), Poll::Pending);
            assert_eq!(progress.waiting.lock().wakers.len(), 1);
        }
        drop(waits);
        assert_eq!(progress.waiting.lock().wakers.len(), 0);
    }

    #[test]
    fn a_waker_that_panics_keeps_nobody_asleep() {
        let progress = Arc::new(Progress::default());
        let [mut first, mut second] = [(); 2].map(|()| Arc::clone(&progress).until(|| false));
        let woken = Arc::new(Unpark(thread::current()));
        assert_eq!(poll(&mut first, &Waker::from(Arc::new(Panics))), Poll::Pending);
        assert_eq!(poll(&mut second, &Waker::from(Arc::clone(&woken))), Poll::Pending);
        progress.notify();
        thread::park();
        assert_eq!(Arc::strong_count(&woken), 1, "woken, and forgotten");
    }
}
