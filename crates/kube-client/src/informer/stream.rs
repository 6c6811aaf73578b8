//! The changes of an informer as a `Stream`.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use crate::event::Event;
use crate::informer::backlog::Taken;
use crate::informer::dispatch::HandlerQueue;
use crate::informer::registration::{Registration, RegistrationGuard};
use crate::informer::resync::Resync;
use crate::object::Object;

/// A handler that is a stream; made by [`Informer::events`](crate::Informer::events).
///
/// # Guarantees
///
/// Those of a handler. An event counts as handled when the next one is asked for, or the stream is dropped. A stream that is
/// not polled is a handler that lags: it slows down nobody, and what waits for it is
/// [bounded](crate::HandlerOptions::coalesce_above).
pub struct EventStream<K: Object> {
    queue: Arc<HandlerQueue<K>>,
    guard: RegistrationGuard,
    taken: Option<Taken<K>>,
    // Events of `taken` that were given out; the last of them is being handled.
    given: usize,
    resync: Option<Resync<K>>,
}

impl<K: Object> EventStream<K> {
    pub(crate) fn new(queue: Arc<HandlerQueue<K>>, guard: RegistrationGuard, resync: Option<Resync<K>>) -> Self {
        Self {
            queue,
            guard,
            taken: None,
            given: 0,
            resync,
        }
    }

    /// The registration, to see whether the stream's reader has caught up.
    pub fn registration(&self) -> &Registration {
        self.guard.registration()
    }

    /// The event given out last is handled.
    fn finish_last(&mut self) {
        if let Some(taken) = &self.taken
            && let Some(at) = self.given.checked_sub(1)
        {
            self.queue.finish(&taken.events()[at..=at], false);
        }
    }
}

impl<K: Object> Stream for EventStream<K> {
    type Item = Event<K>;

    /// On `Pending` the queue keeps the waker.
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event<K>>> {
        let this = &mut *self;
        this.finish_last();
        if this
            .taken
            .as_ref()
            .is_none_or(|taken| this.given == taken.events().len())
        {
            this.taken = None;
            this.given = 0;
            if let Some(resync) = &mut this.resync {
                resync.poll(&this.queue, cx);
            }
            match this.queue.poll_take(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(taken) => this.taken = taken,
            }
            this.queue.report();
        }
        let Some(taken) = &this.taken else {
            return Poll::Ready(None);
        };
        if !this.queue.begin() {
            this.taken = None;
            this.given = 0;
            return Poll::Ready(None);
        }
        let event = taken.events()[this.given].clone();
        this.given += 1;
        Poll::Ready(Some(event))
    }
}

impl<K: Object> Drop for EventStream<K> {
    fn drop(&mut self) {
        self.finish_last();
    }
}

impl<K: Object> fmt::Debug for EventStream<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream")
            .field("registration", self.registration())
            .finish_non_exhaustive()
    }
}
