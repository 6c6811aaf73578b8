//! When a handler is told everything again.
//!
//! Whoever empties the queue asks between two events whether the time has come, so a handler that is busy, or a stream that
//! is not polled, is not told twice: resyncs cannot pile up. One that falls due before the handler is ready for it, because
//! it has not synced or is at the one before, stays due and comes as soon as it is.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::Context;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Sleep;

use crate::informer::dispatch::HandlerQueue;
use crate::informer::shared::Shared;
use crate::object::Object;

/// The clock of one handler's resyncs.
pub(crate) struct Resync<K: Object> {
    // A call that never returns must not keep the cache.
    shared: Weak<Shared<K>>,
    every: Duration,
    runtime: Handle,
    // Until the next one; the first begins with the first poll.
    sleep: Option<Pin<Box<Sleep>>>,
    // Its time has come, and the handler was not ready for it.
    due: bool,
}

impl<K: Object> Resync<K> {
    /// `None` if the handler did not ask for it.
    pub(crate) fn of(queue: &HandlerQueue<K>, shared: &Arc<Shared<K>>, runtime: &Handle) -> Option<Self> {
        Some(Self {
            shared: Arc::downgrade(shared),
            every: queue.resync_every()?,
            runtime: runtime.clone(),
            sleep: None,
            due: false,
        })
    }

    /// Tells the queue everything again if it is time. The task is woken when the next time comes; and if it has come too
    /// early, by the events that the handler has to handle before, after which it polls again.
    pub(crate) fn poll(&mut self, queue: &HandlerQueue<K>, cx: &mut Context<'_>) {
        loop {
            if !self.due {
                let sleep = self.sleep.get_or_insert_with(|| {
                    // Streams are polled anywhere, timers are made in the runtime.
                    let _context = self.runtime.enter();
                    Box::pin(tokio::time::sleep(self.every))
                });
                if sleep.as_mut().poll(cx).is_pending() {
                    return;
                }
                self.sleep = None;
            }
            let Some(shared) = self.shared.upgrade() else { return };
            self.due = !shared.resync(queue);
            if self.due {
                return;
            }
        }
    }
}
