//! Bodies that must come in time: a client that sends a byte now and then would hold its connection for ever.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

/// How long a body may take, all in all, once something of it was waited for.
pub(super) const BODY_TIME: Duration = Duration::from_mins(1);

/// A body that breaks off if it takes too long.
#[derive(Debug)]
pub(super) struct Impatient<B> {
    body: B,
    /// Set when the body is first waited for: most are there at once.
    end: Option<Pin<Box<Sleep>>>,
}

/// Why there is no more of a body.
#[derive(Debug, thiserror::Error)]
pub(super) enum BrokenBody<E> {
    #[error("it did not come within {} seconds", BODY_TIME.as_secs())]
    Late,
    #[error(transparent)]
    Broken(E),
}

impl<B> Impatient<B> {
    pub(super) fn new(body: B) -> Self {
        Self { body, end: None }
    }
}

impl<B: Body + Unpin> Body for Impatient<B> {
    type Data = B::Data;
    type Error = BrokenBody<B::Error>;

    // The body and the clock both wake whoever waits for it.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(BrokenBody::Broken)));
        }
        let end = self.end.get_or_insert_with(|| Box::pin(sleep(BODY_TIME)));
        ready!(end.as_mut().poll(cx));
        Poll::Ready(Some(Err(BrokenBody::Late)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
