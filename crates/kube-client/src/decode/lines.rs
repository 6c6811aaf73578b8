//! Cuts a watch body into lines without copying what one chunk holds whole.

use bytes::Bytes;

use crate::decode::list::room;

/// The longest line that is accepted. The server's storage refuses objects of more than a few MiB.
const LONGEST: usize = 64 << 20;

/// A line is longer than any object can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a line of the watch stream exceeds {} MiB", LONGEST >> 20)]
pub(crate) struct LineTooLong;

/// Collects chunks and gives out whole lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    // The part of a line that came in earlier chunks. Contains no newline.
    partial: Vec<u8>,
    chunk: Bytes,
}

impl Lines {
    /// Takes the next chunk; every line of the one before must have been taken out.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        debug_assert!(self.chunk.is_empty());
        self.chunk = chunk;
    }

    /// The stream is over: what came after the last newline is a line. False if nothing did.
    pub(crate) fn end(&mut self) -> bool {
        let rest = !self.partial.is_empty();
        if rest {
            self.push(Bytes::from_static(b"\n"));
        }
        rest
    }

    /// Calls `f` with the next whole line, without its newline.
    pub(crate) fn next<R>(&mut self, mut f: impl FnMut(&[u8]) -> R) -> Result<Option<R>, LineTooLong> {
        let Some(end) = memchr::memchr(b'\n', &self.chunk) else {
            if self.partial.len() + self.chunk.len() > LONGEST {
                return Err(LineTooLong);
            }
            self.partial.extend_from_slice(&self.chunk);
            self.chunk = Bytes::new();
            return Ok(None);
        };
        let line = self.chunk.split_to(end);
        bytes::Buf::advance(&mut self.chunk, 1);
        if self.partial.is_empty() {
            return Ok(Some(f(&line)));
        }
        self.partial.extend_from_slice(&line);
        let result = f(&self.partial);
        self.partial.clear();
        if self.partial.capacity() > 1 << 20 {
            self.partial = Vec::new(); // do not keep the room of one giant for ever
        }
        Ok(Some(result))
    }
}

/// Lines of a streaming list that are decoded together.
#[derive(Debug)]
pub(crate) struct LinePiece {
    text: Vec<u8>,
    // How much text makes a piece.
    piece: usize,
}

impl LinePiece {
    pub(crate) fn new(piece: usize) -> Self {
        Self {
            text: Vec::new(),
            piece,
        }
    }

    /// Takes a line that is about an object of the list, as servers write it; not any other.
    pub(crate) fn push(&mut self, line: &[u8]) -> bool {
        let is_object = line.starts_with(br#"{"type":"ADDED","#);
        if is_object {
            if self.text.is_empty() {
                self.text.reserve(room(self.piece));
            }
            self.text.extend_from_slice(line);
            self.text.push(b'\n');
        }
        is_object
    }

    /// What was pushed since the last time.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::new(self.piece))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.text.len() >= self.piece
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_for_every_split_of_the_stream() {
        let stream = b"{\"a\":1}\n\n{\"bb\":22}\ntail";
        for size in 1..=stream.len() {
            let mut lines = Lines::default();
            let mut seen = Vec::new();
            for chunk in stream.chunks(size) {
                lines.push(Bytes::copy_from_slice(chunk));
                while let Some(line) = lines.next(<[u8]>::to_vec).unwrap() {
                    seen.push(line);
                }
            }
            assert_eq!(
                seen,
                [b"{\"a\":1}".to_vec(), b"".to_vec(), b"{\"bb\":22}".to_vec()],
                "chunks of {size}"
            );
            assert_eq!(lines.partial, b"tail");
            assert!(lines.end());
            assert_eq!(lines.next(<[u8]>::to_vec).unwrap(), Some(b"tail".to_vec()));
            assert!(!lines.end());
        }
    }

    #[test]
    fn endless_line_is_refused() {
        let mut lines = Lines::default();
        let chunk = Bytes::from(vec![b'x'; 1 << 20]);
        let refused = (0..65).any(|_| {
            lines.push(chunk.clone());
            lines.next(|_| ()) == Err(LineTooLong)
        });
        assert!(refused);
    }
}
