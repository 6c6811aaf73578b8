//! The task of one handler: takes events from its queue and calls the handler, panics contained.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::FutureExt;
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

/// Reports the call as over however it ends: a dropped future must not leave the queue "running".
struct Call<'a, K: Object> {
    queue: &'a HandlerQueue<K>,
    events: &'a [Event<K>],
    panicked: bool,
}

impl<K: Object> Drop for Call<'_, K> {
    fn drop(&mut self) {
        self.queue.finish(self.events, self.panicked);
    }
}

impl<K: Object> Runner<K> {
    /// Runs until the handler is removed or the informer stopped.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let queue = Arc::clone(&self.queue);
        let work = async {
            while let Some(taken) = std::future::poll_fn(|cx| queue.poll_take(cx)).await {
                let size = self.handler.batch_size().max(1);
                for events in taken.events().chunks(size) {
                    if !queue.begin() {
                        return;
                    }
                    let mut call = Call {
                        queue: &queue,
                        events,
                        panicked: false,
                    };
                    call.panicked = !call_handler(&mut *self.handler, events).await;
                    if call.panicked {
                        tracing::error!(informer = %self.informer, handler = queue.name(), "event handler panicked");
                    }
                    drop(call);
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
