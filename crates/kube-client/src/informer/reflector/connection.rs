//! One open watch: a response body, unpacked and cut into lines, with a bound on its silence.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::{Instant, timeout_at};

use crate::decode::inflate::{Damaged, Inflate, PACKED_PIECE};
use crate::decode::lines::{LineTooLong, Lines};

/// An open watch.
pub(crate) struct Connection {
    body: Body,
    inflate: Inflate,
    // The packed bytes that are not unpacked yet; they wait until the lines before them are taken.
    packed: Bytes,
    lines: Lines,
    last_data: Instant,
    // When the server should have closed it, and a little more.
    deadline: Instant,
    // The server has closed it.
    over: bool,
    // How long what is awaited may take from here, and when that is over; until it is lifted.
    limit: Option<(Duration, Instant)>,
}

/// What reading brought.
#[derive(Debug)]
pub(crate) enum Read {
    /// Lines may have come.
    Data,
    /// The server closed the stream.
    End,
}

/// Why reading failed.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// Nothing came for so long.
    Silent(Duration),
    /// What came was not what is awaited, for so long.
    Late(Duration),
    /// The server should have closed it by now.
    Overdue,
    /// The connection broke.
    Broken(Box<kube::Error>),
}

/// What the stream brought are no lines.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotLines {
    #[error(transparent)]
    TooLong(#[from] LineTooLong),
    #[error(transparent)]
    Damaged(#[from] Damaged),
}

impl Connection {
    /// `timeout` is how long the server was asked to keep it open.
    pub(crate) fn new(body: Body, inflate: Inflate, timeout: Duration) -> Self {
        let now = Instant::now();
        Self {
            body,
            inflate,
            packed: Bytes::new(),
            lines: Lines::default(),
            last_data: now,
            deadline: now + timeout + Duration::from_secs(30),
            over: false,
            limit: None,
        }
    }

    /// Whether the server has closed it; the last line may be left.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Counts as late after so long from now, whatever comes, until this is called again or [`lift_limit`](Self::lift_limit).
    pub(crate) fn limit(&mut self, after: Duration) {
        self.limit = Some((after, Instant::now() + after));
    }

    pub(crate) fn lift_limit(&mut self) {
        self.limit = None;
    }

    /// Waits for the next chunk, at most `silence` after the last one. Every line must have been taken before. What stands
    /// after the last newline as the stream ends is a line, too: the last event, or something that is none.
    pub(crate) async fn read(&mut self, silence: Option<Duration>) -> Result<Read, ReadError> {
        if self.over {
            return Ok(Read::End);
        }
        let silence = silence.map(|silence| (self.last_data + silence, ReadError::Silent(silence)));
        let late = self.limit.map(|(after, at)| (at, ReadError::Late(after)));
        let (mut limit, mut missed) = (self.deadline, ReadError::Overdue);
        for (at, error) in silence.into_iter().chain(late) {
            if at < limit {
                (limit, missed) = (at, error);
            }
        }
        loop {
            match timeout_at(limit, self.body.frame()).await {
                Err(_) => return Err(missed),
                Ok(None) => {
                    self.over = true;
                    return Ok(if self.lines.end() { Read::Data } else { Read::End });
                }
                Ok(Some(Err(error))) => return Err(ReadError::Broken(Box::new(error))),
                Ok(Some(Ok(frame))) => {
                    if let Ok(chunk) = frame.into_data() {
                        self.take(chunk);
                        return Ok(Read::Data);
                    } // else trailers: they say nothing
                }
            }
        }
    }

    fn take(&mut self, chunk: Bytes) {
        self.last_data = Instant::now();
        if self.inflate.is_plain() {
            self.lines.push(chunk);
        } else {
            self.packed = chunk;
        }
    }

    /// Calls `f` with the next whole line that is there.
    pub(crate) fn next_line<R>(&mut self, mut f: impl FnMut(&[u8]) -> R) -> Result<Option<R>, NotLines> {
        loop {
            if let Some(line) = self.lines.next(&mut f)? {
                return Ok(Some(line));
            }
            if self.packed.is_empty() {
                return Ok(None);
            }
            let piece = self.packed.split_to(self.packed.len().min(PACKED_PIECE));
            let unpacked = self.inflate.push(&piece)?.into_owned();
            self.lines.push(unpacked.into());
        }
    }
}
