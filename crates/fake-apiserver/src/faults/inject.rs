//! Faults inside a body: cuts, ends, errors and withheld bookmarks, between the verb's parts and the client.

use std::task::{Context, Poll};

use bytes::Bytes;

use super::{BodyFault, Cut};
use crate::body::{BodyError, Part, PartKind, Source};

/// A source that misbehaves as its faults say.
pub(crate) struct FaultySource {
    inner: Box<dyn Source>,
    faults: Vec<BodyFault>,
    /// Events, or pieces of a body that is no watch, delivered so far.
    delivered: usize,
    /// What follows the part that was just delivered.
    then: Then,
}

enum Then {
    Continue,
    End,
    /// Let what was delivered reach the client, then break.
    FlushThenReset,
    Reset,
}

impl FaultySource {
    pub(crate) fn new(inner: Box<dyn Source>, faults: Vec<BodyFault>) -> Self {
        Self {
            inner,
            faults,
            delivered: 0,
            then: Then::Continue,
        }
    }

    /// The first of the faults whose events have all been delivered.
    fn due(&self) -> Option<&BodyFault> {
        self.faults.iter().find(|fault| match fault {
            BodyFault::End { after }
            | BodyFault::Silence { after }
            | BodyFault::Error { after, .. }
            | BodyFault::Reset { after, .. } => self.delivered >= *after,
            BodyFault::WithholdBookmarks | BodyFault::WithholdInitialEventsEnd => false,
        })
    }

    fn withheld(&self, kind: PartKind) -> bool {
        self.faults.iter().any(|fault| match fault {
            BodyFault::WithholdBookmarks => kind == PartKind::Bookmark,
            BodyFault::WithholdInitialEventsEnd => kind == PartKind::InitialEventsEnd,
            BodyFault::End { .. } | BodyFault::Silence { .. } | BodyFault::Error { .. } | BodyFault::Reset { .. } => {
                false
            }
        })
    }
}

impl Source for FaultySource {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Part, BodyError>>> {
        loop {
            match self.then {
                Then::End => return Poll::Ready(None),
                Then::FlushThenReset => {
                    self.then = Then::Reset;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Then::Reset => return Poll::Ready(Some(Err(BodyError::reset()))),
                Then::Continue => {}
            }
            let mut cuts_next = false;
            match self.due() {
                Some(BodyFault::Error { status, .. }) => {
                    let mut line = br#"{"type":"ERROR","object":"#.to_vec();
                    line.extend_from_slice(&status.to_json());
                    line.extend_from_slice(b"}\n");
                    self.then = Then::End;
                    return Poll::Ready(Some(Ok(Part {
                        bytes: line.into(),
                        kind: PartKind::Event,
                    })));
                }
                // Nothing will ever happen here, so nobody needs to be woken.
                Some(BodyFault::Silence { .. }) => return Poll::Pending,
                // The half of a part is sent first.
                Some(BodyFault::Reset { cut: Cut::MidLine, .. }) => cuts_next = true,
                Some(BodyFault::Reset { .. }) => {
                    self.then = Then::FlushThenReset;
                    continue;
                }
                Some(_) => {
                    self.then = Then::End;
                    continue;
                }
                None => {}
            }
            // The inner source registers the waker whenever it is pending.
            let Some(part) = std::task::ready!(self.inner.poll_part(cx)) else {
                return Poll::Ready(None);
            };
            let part = part?;
            if self.withheld(part.kind) {
                continue;
            }
            if cuts_next {
                self.then = Then::FlushThenReset;
                let half: Bytes = part.bytes.slice(..part.bytes.len() / 2);
                return Poll::Ready(Some(Ok(Part {
                    bytes: half,
                    kind: part.kind,
                })));
            }
            if matches!(part.kind, PartKind::Event | PartKind::Data) {
                self.delivered += 1;
            }
            return Poll::Ready(Some(Ok(part)));
        }
    }
}

/// A source that comes in chunks of one size, whatever they cut.
pub(crate) struct Chunked {
    inner: Box<dyn Source>,
    size: usize,
    rest: Option<Part>,
}

impl Chunked {
    pub(crate) fn new(inner: Box<dyn Source>, size: usize) -> Self {
        Self {
            inner,
            size,
            rest: None,
        }
    }
}

impl Source for Chunked {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Part, BodyError>>> {
        let mut part = match self.rest.take() {
            Some(part) => part,
            // The inner source registers the waker.
            None => match std::task::ready!(self.inner.poll_part(cx)) {
                Some(Ok(part)) => part,
                end => return Poll::Ready(end),
            },
        };
        let chunk = part.bytes.split_to(part.bytes.len().min(self.size));
        let kind = part.kind;
        if !part.bytes.is_empty() {
            self.rest = Some(part);
        }
        Poll::Ready(Some(Ok(Part { bytes: chunk, kind })))
    }
}
