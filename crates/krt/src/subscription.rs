//! The changes of a collection as a stream.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use crate::collection::Collection;
use crate::engine::stream::Queue;
use crate::event::Batch;
use crate::traits::Keyed;

/// The changes of a collection, one [`Batch`] for each epoch, the present state first. Made by [`Collection::subscribe`].
///
/// It keeps the collection, and holds what nobody has polled yet.
///
/// # Guarantees
///
/// As for handlers: batches come in order, and each event's old object is the one that this stream gave last for its key. If nobody
/// polls for long, what waits is merged into one batch by whole epochs, which leads to the same state, so that it has at most one event for
/// each key; it costs nobody else anything.
///
/// It ends when the collection is stopped or the engine has ended, after everything that was told before.
///
/// # Cancel safety
///
/// A batch is taken only by the poll that gives it, so a `next` that is dropped loses nothing.
#[must_use = "streams do nothing unless polled"]
pub struct Subscription<T: Keyed> {
    collection: Collection<T>,
    queue: Arc<Queue<T>>,
}

impl<T: Keyed> Subscription<T> {
    pub(crate) fn new(collection: Collection<T>, queue: Arc<Queue<T>>) -> Self {
        Self { collection, queue }
    }

    /// The collection whose changes these are.
    pub fn collection(&self) -> &Collection<T> {
        &self.collection
    }
}

impl<T: Keyed> Stream for Subscription<T> {
    type Item = Batch<T>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Batch<T>>> {
        self.queue.poll(context.waker())
    }
}

impl<T: Keyed> Drop for Subscription<T> {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl<T: Keyed> fmt::Debug for Subscription<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("collection", &self.collection.name())
            .finish_non_exhaustive()
    }
}
