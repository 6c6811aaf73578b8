//! The task of one handler: takes events from its queue and calls the handler, panics contained.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::event::Event;
use crate::informer::dispatch::HandlerQueue;
use crate::informer::handler::{EventHandler, Handled};
use crate::informer::options::InformerId;
use crate::object::Object;

/// A handler and its queue, ready to run.
pub(crate) struct Runner<K: Object> {
    pub(crate) queue: Arc<HandlerQueue<K>>,
    pub(crate) handler: Box<dyn EventHandler<K>>,
    pub(crate) informer: InformerId,
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
        }
    }
}

impl<K: Object> Runner<K> {
    /// Runs until the handler is removed or the informer stopped.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let queue = Arc::clone(&self.queue);
        let work = async {
            while let Some(taken) = std::future::poll_fn(|cx| queue.poll_take(cx)).await {
                queue.report();
                // The end of a call is the begin of the next one: one look at the clock per call.
                let mut begun = Instant::now();
                let size = batch_size(&*self.handler);
                for events in taken.events().chunks(size) {
                    if !queue.begin() {
                        return;
                    }
                    let call = Call {
                        queue: &queue,
                        events: Some(events),
                    };
                    let panicked = !call_handler(&mut *self.handler, events).await;
                    if panicked {
                        tracing::error!(informer = %self.informer, handler = queue.name(), "event handler panicked");
                    }
                    call.finish(panicked);
                    let ended = Instant::now();
                    queue.metrics().called(ended - begun);
                    begun = ended;
                }
                // Share the worker with the neighbours between batches.
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = work => {}
        }
        queue.stop();
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
        Ok(Handled::Later(future)) => AssertUnwindSafe(future).catch_unwind().await.is_ok(),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests;
