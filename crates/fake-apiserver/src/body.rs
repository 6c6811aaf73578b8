//! Response bodies: streams of [`Bytes`], complete or produced as the client reads.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// What a part of a body is, so that fault rules can count and withhold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartKind {
    /// Part of an answer that is no watch.
    Data,
    /// A watch event about an object, or an ERROR event.
    Event,
    /// A bookmark.
    Bookmark,
    /// The bookmark that ends the initial events.
    InitialEventsEnd,
}

/// A part of a body. A watch sends each event as one part, with its line end.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) bytes: Bytes,
    pub(crate) kind: PartKind,
}

/// Produces the parts of a body when asked.
///
/// # Contract
/// 1. A source that returns `Pending` has registered the waker.
/// 2. It is not polled after it returned `None` or an error.
pub(crate) trait Source: Send {
    /// The next part; none at the end.
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Part, BodyError>>>;
}

/// The body of an answer.
///
/// # Guarantees
/// A watch hands out each event as one data frame that ends with a line end. Memory is bounded: a watch holds at
/// most a small batch of events however slowly it is read.
pub struct Body(Inner);

enum Inner {
    Full(Bytes),
    Stream(Box<dyn Source>),
    Done,
}

/// The connection broke while the body was read. Only fault rules cause it.
#[derive(Debug, thiserror::Error)]
#[error("connection reset by peer")]
pub struct BodyError(());

impl BodyError {
    pub(crate) fn reset() -> Self {
        Self(())
    }
}

impl Body {
    pub(crate) fn stream(source: impl Source + 'static) -> Self {
        Self(Inner::Stream(Box::new(source)))
    }

    /// Its length, unless it is produced while it is read.
    pub(crate) fn known_length(&self) -> Option<usize> {
        match &self.0 {
            Inner::Full(bytes) => Some(bytes.len()),
            Inner::Stream(_) => None,
            Inner::Done => Some(0),
        }
    }

    pub(crate) fn into_source(self) -> Box<dyn Source> {
        match self.0 {
            Inner::Full(bytes) => Box::new(Once(Some(bytes))),
            Inner::Stream(source) => source,
            Inner::Done => Box::new(Once(None)),
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self(Inner::Full(bytes))
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Inner::Full(_) => "Body::Full",
            Inner::Stream(_) => "Body::Stream",
            Inner::Done => "Body::Done",
        })
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.0 {
            Inner::Done => Poll::Ready(None),
            Inner::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                self.0 = Inner::Done;
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Inner::Stream(source) => {
                // The source registers the waker on every pending path.
                let part = std::task::ready!(source.poll_part(cx));
                match part {
                    Some(Ok(part)) => Poll::Ready(Some(Ok(Frame::data(part.bytes)))),
                    Some(Err(error)) => {
                        self.0 = Inner::Done;
                        Poll::Ready(Some(Err(error)))
                    }
                    None => {
                        self.0 = Inner::Done;
                        Poll::Ready(None)
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Inner::Full(bytes) => bytes.is_empty(),
            Inner::Stream(_) => false,
            Inner::Done => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Inner::Stream(_) => SizeHint::default(),
            Inner::Done => SizeHint::with_exact(0),
        }
    }
}

/// A source of one part.
struct Once(Option<Bytes>);

impl Source for Once {
    fn poll_part(&mut self, _cx: &mut Context<'_>) -> Poll<Option<Result<Part, BodyError>>> {
        Poll::Ready(self.0.take().map(|bytes| {
            Ok(Part {
                bytes,
                kind: PartKind::Data,
            })
        }))
    }
}
