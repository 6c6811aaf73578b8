//! The task or thread of one handler: takes events from its queue and calls the handler, panics contained.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::task::{Context, Wake, Waker};
use std::thread::Thread;

use futures_util::FutureExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::event::Event;
use crate::informer::deferred::discard;
use crate::informer::dispatch::HandlerQueue;
use crate::informer::handler::{EventHandler, Handled, RunsOn};
use crate::informer::metrics::contained;
use crate::informer::options::InformerId;
use crate::informer::resync::Resync;
use crate::informer::shared::Shared;
use crate::informer::turn::pass_turn;
use crate::object::Object;

/// A handler and its queue, ready to run.
pub(crate) struct Runner<K: Object> {
    pub(crate) queue: Arc<HandlerQueue<K>>,
    pub(crate) handler: Box<dyn EventHandler<K>>,
    pub(crate) informer: InformerId,
    pub(crate) resync: Option<Resync<K>>,
    // Where the queue is registered. A call that never returns must not keep the cache.
    pub(crate) shared: Weak<Shared<K>>,
}

/// Reports the call as over however it ends: a dropped future must not leave the queue "running", nor its events "handled".
struct Call<'a, K: Object> {
    queue: &'a HandlerQueue<K>,
    // `None` once it was reported as finished.
    events: Option<&'a [Event<K>]>,
}

impl<K: Object> Call<'_, K> {
    fn finish(mut self, panicked: bool) {
        if let Some(events) = self.events.take() {
            self.queue.finish(events, panicked);
        }
    }
}

impl<K: Object> Drop for Call<'_, K> {
    fn drop(&mut self) {
        if self.events.is_some() {
            self.queue.abandon();
            // It may be dropped while a panic unwinds.
            contained(|| self.queue.metrics().calls_ended());
        }
    }
}

/// However it ends, be it with its runtime: nobody calls the handler any more, so its queue takes nothing, and says so.
impl<K: Object> Drop for Runner<K> {
    fn drop(&mut self) {
        self.queue.stop();
        if let Some(shared) = self.shared.upgrade() {
            shared.unregister(&self.queue);
        }
        discard(std::mem::replace(&mut self.handler, Box::new(Gone)));
    }
}

/// In the place of a handler that was dropped.
struct Gone;

impl<K> EventHandler<K> for Gone {
    fn handle<'a>(&'a mut self, _: &'a [Event<K>]) -> Handled<'a> {
        Handled::Done
    }
}

impl<K: Object> Runner<K> {
    /// Where the handler wants to run. User code: if it panics, where most do.
    pub(crate) fn runs_on(&self) -> RunsOn {
        catch_unwind(AssertUnwindSafe(|| self.handler.runs_on())).unwrap_or_else(|_| {
            tracing::error!(
                handler = self.queue.name(),
                "an event handler panicked as it was asked where to run"
            );
            RunsOn::Task
        })
    }

    /// Runs until the handler is removed or the informer stopped, which drops a call at its next await.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let working = async {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.work() => {}
            }
        };
        // The drop of a call half-way is code of the user's, too.
        if AssertUnwindSafe(working).catch_unwind().await.is_err() {
            self.tell_panic();
        }
    }

    /// Runs on this thread until the handler is removed or the informer stopped; a call is never dropped.
    pub(crate) fn run_here(mut self) {
        if catch_unwind(AssertUnwindSafe(|| block_on(self.work()))).is_err() {
            self.tell_panic();
        }
    }

    /// Something around the handler panicked, which itself is contained: the timers of a runtime that is gone, or a metrics
    /// recorder.
    fn tell_panic(&self) {
        let handler = self.queue.name();
        tracing::error!(informer = %self.informer, handler, "what runs an event handler panicked; it is called no more");
    }

    async fn work(&mut self) {
        let Self {
            queue,
            handler,
            informer,
            resync,
            shared: _,
        } = self;
        let mut next = |cx: &mut Context<'_>| {
            if let Some(resync) = resync {
                resync.poll(queue, cx);
            }
            queue.poll_take(cx)
        };
        let mut turn = 0;
        while let Some(taken) = std::future::poll_fn(&mut next).await {
            queue.report();
            // The end of a call is the begin of the next one: one look at the clock per call.
            let mut begun = Instant::now();
            let size = batch_size(&**handler);
            for events in taken.events().chunks(size) {
                if !queue.begin_call(begun) {
                    break;
                }
                let call = Call {
                    queue,
                    events: Some(events),
                };
                queue.metrics().call_began();
                let panicked = !call_handler(&mut **handler, events).await;
                if panicked {
                    tracing::error!(%informer, handler = queue.name(), "event handler panicked");
                }
                call.finish(panicked);
                let ended = Instant::now();
                queue.metrics().called(ended - begun);
                begun = ended;
            }
            queue.metrics().calls_ended();
            turn += taken.events().len();
            drop(taken); // takes care of its own events
            if turn >= TURN {
                turn = 0;
                pass_turn().await;
            }
        }
    }
}

/// After so many events a handler lets its neighbours run. Many small batches, not one, so that it catches up with a flood.
const TURN: usize = 64;

/// Wakes a thread that waits in [`block_on`].
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread. Not the runtime's `block_on`: inside of that, a handler could not use it itself.
fn block_on(future: impl Future<Output = ()>) {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    while future.as_mut().poll(&mut cx).is_pending() {
        // Returns at once if the waker was called since; returning without a reason costs one more poll.
        std::thread::park();
    }
}

/// How many events the next calls take. User code: if it panics, one, so that the handler goes on.
fn batch_size<K: Object>(handler: &dyn EventHandler<K>) -> usize {
    let size = catch_unwind(AssertUnwindSafe(|| handler.batch_size()));
    size.unwrap_or_else(|_| {
        tracing::error!("the batch size of an event handler panicked");
        1
    })
    .max(1)
}

/// Calls the handler; false if it panicked.
async fn call_handler<K: Object>(handler: &mut dyn EventHandler<K>, events: &[Event<K>]) -> bool {
    let call = (handler, events);
    // Taking the pair apart inside makes the closure one that is called once and may give its borrows away.
    let start = AssertUnwindSafe(move || {
        let (handler, events) = call;
        handler.handle(events)
    });
    match catch_unwind(start) {
        Ok(Handled::Done) => true,
        Ok(Handled::Later(mut future)) => {
            let handled = AssertUnwindSafe(&mut future).catch_unwind().await.is_ok();
            discard(future);
            handled
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests;
