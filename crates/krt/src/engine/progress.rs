//! Waiting for the engine: futures and threads that wait until something they can check is true.
//!
//! No runtime is involved: whoever makes progress calls [`Progress::notify`], and each waiter looks again.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crate::sync::Mutex;

#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Invariant: a waiter that found its condition false after it came in here is woken by the next `notify`.
    waiting: Mutex<Vec<Waker>>,
}

impl Progress {
    /// Something may have come true. No lock is held while the wakers, which are the user's, are called.
    pub(crate) fn notify(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        for waker in waiting {
            waker.wake();
        }
    }

    fn register(&self, waker: &Waker) {
        let new = waker.clone();
        let mut waiting = self.waiting.lock();
        if !waiting.iter().any(|own| own.will_wake(&new)) {
            waiting.push(new);
        }
    }

    /// A future that is ready once `is_true` is.
    pub(crate) fn until<F: Fn() -> bool>(self: Arc<Self>, is_true: F) -> Until<F> {
        Until {
            progress: self,
            is_true,
        }
    }

    /// Blocks the thread until `is_true` is, or until the time is up; tells whether it is true.
    pub(crate) fn block_until(self: &Arc<Self>, timeout: Duration, is_true: impl Fn() -> bool + Unpin) -> bool {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let deadline = Instant::now().checked_add(timeout);
        let mut until = Arc::clone(self).until(is_true);
        loop {
            if Pin::new(&mut until).poll(&mut Context::from_waker(&waker)).is_ready() {
                return true;
            }
            let Some(deadline) = deadline else {
                std::thread::park();
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            std::thread::park_timeout(left);
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
}

impl<F: Fn() -> bool + Unpin> Future for Until<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // Registered before the look that counts, so that nothing can come true unnoticed in between.
        if (self.is_true)() {
            return Poll::Ready(());
        }
        self.progress.register(context.waker());
        if (self.is_true)() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}
