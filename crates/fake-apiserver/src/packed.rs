//! Answers packed with gzip, where the client accepts it and a real server does it: bodies of more than 128 KiB, and
//! streaming lists, of which each flush is a gzip member of its own. Plain watches are never packed.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::Write as _;
use std::task::{Context, Poll};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderValue, VARY};

use crate::answer::Answer;
use crate::body::{Body, BodyError, Part, PartKind, Source};
use crate::request::{Request, Verb};

/// An answer has to be longer than this.
const THRESHOLD: usize = 128 << 10;
/// What a piece of a packed body has at least, but for the last.
const PIECE: usize = 16 << 10;
/// The level of the real server: as little processor time as possible.
const LEVEL: u32 = 1;

/// Packs the answer, if it is one that a real server packs.
pub(crate) async fn pack_large(request: &Request, answer: Answer) -> Answer {
    let accepts = request
        .header(ACCEPT_ENCODING)
        .split(',')
        .any(|coding| coding.trim() == "gzip");
    if !accepts || answer.body.known_length().is_some_and(|length| length <= THRESHOLD) {
        return answer;
    }
    let streaming_list = request.query.non_empty("sendInitialEvents") == Some("true");
    if request.verb == Verb::Watch && (!streaming_list || answer.code != 200) {
        return answer;
    }
    pack_above(THRESHOLD, request, answer).await
}

/// Packs the answer, however short it is.
pub(crate) async fn pack(request: &Request, answer: Answer) -> Answer {
    pack_above(0, request, answer).await
}

/// Packs the answer, if it is a watch or longer than so many bytes.
async fn pack_above(threshold: usize, request: &Request, mut answer: Answer) -> Answer {
    if request.verb == Verb::Watch {
        answer.body = Body::stream(Members(answer.body.into_source()));
    } else {
        let mut source = answer.body.into_source();
        let mut held = Held::default();
        while held.length <= threshold {
            // What ends or breaks before it is long enough is sent as it is.
            match poll_fn(|cx| source.poll_part(cx)).await {
                Some(Ok(part)) => {
                    held.length += part.bytes.len();
                    held.parts.push_back(Ok(part));
                }
                Some(Err(error)) => {
                    held.parts.push_back(Err(error));
                    answer.body = Body::stream(held);
                    return answer;
                }
                None => {
                    answer.body = Body::stream(held);
                    return answer;
                }
            }
        }
        answer.body = Body::stream(OneMember {
            held,
            inner: source,
            encoder: Some(GzEncoder::new(Vec::new(), Compression::new(LEVEL))),
            broken: None,
        });
    }
    answer
        .headers
        .push((CONTENT_ENCODING, HeaderValue::from_static("gzip")));
    answer.headers.push((VARY, HeaderValue::from_static("Accept-Encoding")));
    answer
}

fn data(bytes: Vec<u8>) -> Part {
    Part {
        bytes: Bytes::from(bytes),
        kind: PartKind::Data,
    }
}

/// Parts that were read to see how long the body is.
#[derive(Default)]
struct Held {
    parts: VecDeque<Result<Part, BodyError>>,
    length: usize,
}

impl Source for Held {
    fn poll_part(&mut self, _cx: &mut Context<'_>) -> Poll<Option<Result<Part, BodyError>>> {
        Poll::Ready(self.parts.pop_front())
    }
}

/// A body as one gzip member.
struct OneMember {
    held: Held,
    inner: Box<dyn Source>,
    /// Invariant: absent after the end.
    encoder: Option<GzEncoder<Vec<u8>>>,
    /// How the body broke; told after what came before it.
    broken: Option<BodyError>,
}

impl Source for OneMember {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Part, BodyError>>> {
        loop {
            let Some(encoder) = &mut self.encoder else {
                return Poll::Ready(self.broken.take().map(Err));
            };
            let next = match self.held.parts.pop_front() {
                Some(part) => Some(part),
                // The inner source registers the waker.
                None => match self.inner.poll_part(cx) {
                    Poll::Ready(next) => next,
                    Poll::Pending => return Poll::Pending,
                },
            };
            // Writing into memory does not fail.
            match next {
                Some(Ok(part)) => {
                    let _ = encoder.write_all(&part.bytes);
                    if encoder.get_ref().len() >= PIECE {
                        return Poll::Ready(Some(Ok(data(std::mem::take(encoder.get_mut())))));
                    }
                }
                Some(Err(error)) => {
                    let _ = encoder.flush();
                    let rest = std::mem::take(encoder.get_mut());
                    self.encoder = None;
                    self.broken = Some(error);
                    return Poll::Ready(Some(Ok(data(rest))));
                }
                None => {
                    let rest = self.encoder.take().map(GzEncoder::finish);
                    return Poll::Ready(rest.and_then(Result::ok).map(|rest| Ok(data(rest))));
                }
            }
        }
    }
}

/// A stream of which each part is a gzip member.
struct Members(Box<dyn Source>);

impl Source for Members {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Part, BodyError>>> {
        // The inner source registers the waker.
        let part = std::task::ready!(self.0.poll_part(cx));
        Poll::Ready(part.map(|part| {
            let part = part?;
            let mut encoder = GzEncoder::new(Vec::new(), Compression::new(LEVEL));
            // Flushed before it is finished: Go's reader gives out what comes before a flush at once, but what comes with the
            // end of a member only when the next one begins. Writing into memory does not fail.
            let written = encoder
                .write_all(&part.bytes)
                .and_then(|()| encoder.flush())
                .and_then(|()| encoder.finish());
            Ok(Part {
                bytes: written.unwrap_or_default().into(),
                kind: part.kind,
            })
        }))
    }
}
