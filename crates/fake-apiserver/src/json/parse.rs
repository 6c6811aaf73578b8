//! The parser: a loop over an explicit stack of open containers. Texts are those of Go's `encoding/json` scanner.

use super::{Kind, Node, PLAIN};
use crate::steps::step;

/// Nesting deeper than this is refused.
const MAX_DEPTH: usize = 10_000;

/// Why a text is no JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ParseError(pub(crate) String);

fn unexpected_end() -> ParseError {
    ParseError("unexpected end of JSON input".into())
}

/// The byte, or what Go puts in the place of the end: a text may end only where a space may stand.
fn or_space(byte: Option<&u8>) -> u8 {
    byte.copied().unwrap_or(b' ')
}

/// A byte as Go prints it: each byte counts as one Latin-1 character.
fn quote(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".into(),
        b'"' => "'\"'".into(),
        b'\\' => r"'\\'".into(),
        b'\n' => r"'\n'".into(),
        b'\r' => r"'\r'".into(),
        b'\t' => r"'\t'".into(),
        7 => r"'\a'".into(),
        8 => r"'\b'".into(),
        11 => r"'\v'".into(),
        12 => r"'\f'".into(),
        0..0x20 | 0x7f => format!(r"'\x{byte:02x}'"),
        0x80..=0xa0 | 0xad => format!(r"'\u{byte:04x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    nodes: Vec<Node>,
}

/// What the loop expects next.
enum Expect {
    Value,
    /// A value, or the end of the array that has just begun.
    FirstItem,
    /// A key, or the end of the object that has just begun.
    FirstKey,
    Key,
    /// A comma or the end of the innermost container, or the end of the text.
    After,
}

/// Parses a complete text into its nodes.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Node>, ParseError> {
    if u32::try_from(text.len()).is_err() {
        return Err(ParseError("text is too long".into()));
    }
    let mut parser = Parser {
        text,
        at: 0,
        nodes: Vec::with_capacity(text.len() / 12 + 4),
    };
    parser.run()?;
    Ok(parser.nodes)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a text has less than u32::MAX bytes, and no more nodes than bytes"
)]
impl Parser<'_> {
    fn run(&mut self) -> Result<(), ParseError> {
        let mut open: Vec<u32> = Vec::with_capacity(16);
        let mut expect = Expect::Value;
        loop {
            step();
            self.skip_space();
            let Some(&byte) = self.text.get(self.at) else {
                return if open.is_empty() && matches!(expect, Expect::After) {
                    Ok(())
                } else {
                    Err(unexpected_end())
                };
            };
            expect = match expect {
                Expect::FirstItem if byte == b']' => self.close(&mut open),
                Expect::Value | Expect::FirstItem => match byte {
                    b'{' | b'[' => {
                        open.push(self.nodes.len() as u32);
                        if open.len() > MAX_DEPTH {
                            return Err(Self::invalid(byte, "exceeded max depth"));
                        }
                        let kind = if byte == b'{' { Kind::Object } else { Kind::Array };
                        self.push(kind, false, self.at, self.at);
                        self.at += 1;
                        if byte == b'{' {
                            Expect::FirstKey
                        } else {
                            Expect::FirstItem
                        }
                    }
                    _ => {
                        self.scalar(byte)?;
                        Expect::After
                    }
                },
                Expect::FirstKey if byte == b'}' => self.close(&mut open),
                Expect::FirstKey | Expect::Key => {
                    if byte != b'"' {
                        return Err(Self::invalid(byte, "looking for beginning of object key string"));
                    }
                    self.string()?;
                    self.skip_space();
                    match self.text.get(self.at) {
                        Some(b':') => self.at += 1,
                        Some(&byte) => return Err(Self::invalid(byte, "after object key")),
                        None => return Err(unexpected_end()),
                    }
                    Expect::Value
                }
                Expect::After => {
                    let container = open.last().map(|&at| self.nodes[at as usize].kind);
                    match (container, byte) {
                        (Some(Kind::Object), b',') => {
                            self.at += 1;
                            Expect::Key
                        }
                        (Some(Kind::Array), b',') => {
                            self.at += 1;
                            Expect::Value
                        }
                        (Some(Kind::Object), b'}') | (Some(Kind::Array), b']') => self.close(&mut open),
                        (Some(Kind::Object), _) => return Err(Self::invalid(byte, "after object key:value pair")),
                        (Some(_), _) => return Err(Self::invalid(byte, "after array element")),
                        (None, _) => return Err(Self::invalid(byte, "after top-level value")),
                    }
                }
            };
        }
    }

    fn invalid(byte: u8, context: &str) -> ParseError {
        ParseError(format!("invalid character {} {context}", quote(byte)))
    }

    fn skip_space(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn push(&mut self, kind: Kind, plain: bool, start: usize, end: usize) {
        let next = self.nodes.len() as u32 + 1;
        self.nodes.push(Node {
            kind,
            plain,
            start: start as u32,
            end: end as u32,
            next,
        });
    }

    fn close(&mut self, open: &mut Vec<u32>) -> Expect {
        self.at += 1;
        if let Some(at) = open.pop() {
            let next = self.nodes.len() as u32;
            let node = &mut self.nodes[at as usize];
            node.end = self.at as u32;
            node.next = next;
        }
        Expect::After
    }

    fn scalar(&mut self, byte: u8) -> Result<(), ParseError> {
        match byte {
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.literal("true", Kind::True),
            b'f' => self.literal("false", Kind::False),
            b'n' => self.literal("null", Kind::Null),
            _ => Err(Self::invalid(byte, "looking for beginning of value")),
        }
    }

    fn literal(&mut self, word: &str, kind: Kind) -> Result<(), ParseError> {
        let start = self.at;
        for expected in word.bytes() {
            match self.text.get(self.at) {
                Some(&byte) if byte == expected => self.at += 1,
                other => {
                    return Err(Self::invalid(
                        or_space(other),
                        &format!("in literal {word} (expecting {})", quote(expected)),
                    ));
                }
            }
        }
        self.push(kind, false, start, self.at);
        Ok(())
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.text.get(self.at), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    fn need_digits(&mut self, context: &str) -> Result<(), ParseError> {
        if self.digits() > 0 {
            return Ok(());
        }
        Err(Self::invalid(or_space(self.text.get(self.at)), context))
    }

    fn number(&mut self) -> Result<(), ParseError> {
        let start = self.at;
        if self.text.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        if self.text.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.need_digits("in numeric literal")?;
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.need_digits("after decimal point in numeric literal")?;
        }
        if matches!(self.text.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.text.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.need_digits("in exponent of numeric literal")?;
        }
        self.push(Kind::Number, false, start, self.at);
        Ok(())
    }

    fn string(&mut self) -> Result<(), ParseError> {
        self.at += 1;
        let start = self.at;
        let mut ascii = true;
        let mut plain = true;
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            self.at += rest
                .iter()
                .position(|byte| !PLAIN[usize::from(*byte)])
                .unwrap_or(rest.len());
            let Some(&byte) = self.text.get(self.at) else {
                return Err(unexpected_end());
            };
            match byte {
                b'"' => break,
                b'\\' => {
                    plain = false;
                    self.at += 1;
                    self.escape()?;
                }
                0..0x20 => return Err(Self::invalid(byte, "in string literal")),
                0x80.. => {
                    ascii = false;
                    self.at += 1;
                }
                // `<`, `>` and `&`, which are written as escapes.
                0x20..0x80 => {
                    plain = false;
                    self.at += 1;
                }
            }
        }
        if plain && !ascii {
            plain = std::str::from_utf8(&self.text[start..self.at])
                .is_ok_and(|text| !text.contains(['\u{2028}', '\u{2029}']));
        }
        self.push(Kind::String, plain, start, self.at);
        self.at += 1;
        Ok(())
    }

    /// Checks what follows a backslash.
    fn escape(&mut self) -> Result<(), ParseError> {
        match self.text.get(self.at) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    match self.text.get(self.at) {
                        Some(byte) if byte.is_ascii_hexdigit() => self.at += 1,
                        other => {
                            return Err(Self::invalid(or_space(other), r"in \u hexadecimal character escape"));
                        }
                    }
                }
            }
            other => return Err(Self::invalid(or_space(other), "in string escape code")),
        }
        Ok(())
    }
}

/// The four hex digits of a `\u` escape at the start of `raw`; `None` when there is no such escape.
fn hex4(raw: &[u8]) -> Option<u32> {
    let digits = raw.strip_prefix(b"\\u")?.get(..4)?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Unescapes a string that the parser has accepted.
pub(super) fn unescape(raw: &[u8]) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        push_lossy(&mut out, &rest[..at]);
        rest = &rest[at..];
        let used = match rest.get(1) {
            Some(b'u') => {
                let unit = hex4(rest).unwrap_or(0xfffd);
                let low = rest.get(6..).and_then(hex4);
                let pair = low.filter(|low| (0xd800..0xdc00).contains(&unit) && (0xdc00..0xe000).contains(low));
                // A surrogate without its other half is no character.
                let code = pair.map_or(unit, |low| 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
                out.push(char::from_u32(code).unwrap_or('\u{fffd}'));
                if pair.is_some() { 12 } else { 6 }
            }
            Some(&escaped) => {
                out.push(match escaped {
                    b'b' => '\u{8}',
                    b'f' => '\u{c}',
                    b'n' => '\n',
                    b'r' => '\r',
                    b't' => '\t',
                    other => char::from(other),
                });
                2
            }
            None => 1,
        };
        rest = rest.get(used..).unwrap_or_default();
    }
    push_lossy(&mut out, rest);
    out
}

/// Appends bytes, each invalid one as U+FFFD (Go replaces byte by byte, not by maximal subpart).
fn push_lossy(out: &mut String, mut bytes: &[u8]) {
    loop {
        match std::str::from_utf8(bytes) {
            Ok(text) => return out.push_str(text),
            Err(error) => {
                let valid = error.valid_up_to();
                out.push_str(std::str::from_utf8(&bytes[..valid]).unwrap_or_default());
                out.push('\u{fffd}');
                bytes = &bytes[valid + 1..];
            }
        }
    }
}
