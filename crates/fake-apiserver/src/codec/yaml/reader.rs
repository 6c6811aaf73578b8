//! The bytes of a body as characters, chunk by chunk as the real reader takes them: bytes that are no text are found out only
//! when the scanner comes near to them, after the mistakes before.

use std::collections::VecDeque;

/// How many bytes the real reader has at once.
const CHUNK: usize = 512;

/// The characters that are still to come, without the mark of the order of bytes.
pub(super) struct Reader<'a> {
    /// What is not decoded yet.
    rest: &'a [u8],
    encoding: Encoding,
    /// How much of the first chunk the mark takes.
    mark: usize,
    decoded: VecDeque<char>,
}

#[derive(Clone, Copy)]
enum Encoding {
    Utf8,
    Utf16([usize; 2]),
}

impl<'a> Reader<'a> {
    pub(super) fn new(body: &'a [u8]) -> Self {
        let (encoding, mark) = match body {
            [0xff, 0xfe, ..] => (Encoding::Utf16([0, 1]), 2),
            [0xfe, 0xff, ..] => (Encoding::Utf16([1, 0]), 2),
            [0xef, 0xbb, 0xbf, ..] => (Encoding::Utf8, 3),
            _ => (Encoding::Utf8, 0),
        };
        Self {
            rest: &body[mark..],
            encoding,
            mark,
            decoded: VecDeque::with_capacity(2 * CHUNK),
        }
    }

    /// Has so many characters at hand, or all that there are.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub(super) fn need(&mut self, count: usize) -> Result<(), &'static str> {
        while self.decoded.len() < count && !self.rest.is_empty() {
            self.decode()?;
        }
        Ok(())
    }

    /// A character that is at hand; NUL after the last one, as none is in a text.
    pub(super) fn at(&self, place: usize) -> char {
        self.decoded.get(place).copied().unwrap_or('\0')
    }

    /// Takes a character that is at hand.
    pub(super) fn take(&mut self) -> char {
        self.decoded.pop_front().unwrap_or('\0')
    }

    /// Decodes the next chunk: as many whole characters as there are in it.
    fn decode(&mut self) -> Result<(), &'static str> {
        let size = CHUNK - std::mem::take(&mut self.mark);
        let chunk = &self.rest[..self.rest.len().min(size)];
        let mut at = 0;
        while at < chunk.len() {
            let found = match self.encoding {
                Encoding::Utf8 => utf8(&chunk[at..]),
                Encoding::Utf16(order) => utf16(&chunk[at..], order),
            };
            let (value, width) = match found {
                Ok(found) => found,
                // The rest of the character is in the next chunk, or nowhere.
                Err(Bad::Incomplete(_)) if at > 0 => break,
                Err(Bad::Incomplete(why) | Bad::Wrong(why)) => return Err(why),
            };
            let c = char::from_u32(value).filter(|c| is_allowed(*c));
            self.decoded.push_back(c.ok_or("control characters are not allowed")?);
            at += width;
        }
        self.rest = &self.rest[at..];
        Ok(())
    }
}

/// Why no character was read.
enum Bad {
    Incomplete(&'static str),
    Wrong(&'static str),
}

/// The first character of some bytes, and its width.
fn utf8(bytes: &[u8]) -> Result<(u32, usize), Bad> {
    let first = bytes[0];
    let (width, bits) = match first {
        0..0x80 => return Ok((first.into(), 1)),
        0xc0..0xe0 => (2, 0x1f),
        0xe0..0xf0 => (3, 0x0f),
        0xf0..0xf8 => (4, 0x07),
        _ => return Err(Bad::Wrong("invalid leading UTF-8 octet")),
    };
    let Some(others) = bytes.get(1..width) else {
        return Err(Bad::Incomplete("incomplete UTF-8 octet sequence"));
    };
    let mut value = u32::from(first & bits);
    for &byte in others {
        if byte & 0xc0 != 0x80 {
            return Err(Bad::Wrong("invalid trailing UTF-8 octet"));
        }
        value = value << 6 | u32::from(byte & 0x3f);
    }
    if value < [0x80, 0x800, 0x1_0000][width - 2] {
        return Err(Bad::Wrong("invalid length of a UTF-8 sequence"));
    }
    if char::from_u32(value).is_none() {
        return Err(Bad::Wrong("invalid Unicode character"));
    }
    Ok((value, width))
}

fn utf16(bytes: &[u8], [low, high]: [usize; 2]) -> Result<(u32, usize), Bad> {
    let unit = |at: usize| {
        let pair = bytes.get(at..at + 2)?;
        Some(u32::from(pair[low]) | u32::from(pair[high]) << 8)
    };
    let first = unit(0).ok_or(Bad::Incomplete("incomplete UTF-16 character"))?;
    match first & 0xfc00 {
        0xdc00 => Err(Bad::Wrong("unexpected low surrogate area")),
        0xd800 => {
            let second = unit(2).ok_or(Bad::Incomplete("incomplete UTF-16 surrogate pair"))?;
            if second & 0xfc00 != 0xdc00 {
                return Err(Bad::Wrong("expected low surrogate area"));
            }
            Ok((0x1_0000 + ((first & 0x3ff) << 10) + (second & 0x3ff), 4))
        }
        _ => Ok((first, 2)),
    }
}

fn is_allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..)
}
