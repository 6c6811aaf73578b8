//! JSON as the real server reads and writes it.
//!
//! [`Tape`] is a parsed text: one flat list of nodes over the borrowed bytes, so that a body is parsed once and then
//! walked without copies. The parser is the crate's own because its behaviour is part of the wire contract and no JSON
//! library offers it: Go's error texts, invalid UTF-8 read as U+FFFD, duplicate keys kept for field validation, and
//! 10,000 levels of nesting without a stack overflow (nothing here recurses). [`write`] is the output side.
//! Start at [`Tape::parse`].

pub(crate) mod canonical;
mod parse;
pub(crate) mod scan;
pub(crate) mod write;

use std::borrow::Cow;

pub(crate) use parse::ParseError;

/// The bytes of which most texts are made, and which mean nothing in them.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0x20_u8;
    while byte < 0x80 {
        plain[byte as usize] = !matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&');
        byte += 1;
    }
    plain
};

/// The type of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    False,
    True,
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    /// The type's name in the error texts of Go's decoder.
    pub(crate) const fn go_name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::False | Self::True => "bool",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Node {
    kind: Kind,
    /// For a string: the text between the quotes is already the canonical output.
    plain: bool,
    /// Bytes of the value in the text; for a string without the quotes.
    start: u32,
    end: u32,
    /// Invariant: the node after this value and all that it holds.
    next: u32,
}

/// A parsed text.
#[derive(Debug)]
pub(crate) struct Tape<'a> {
    text: &'a [u8],
    /// Invariant: never empty; in document order; an object's children alternate between key (a string) and value.
    nodes: Vec<Node>,
}

impl<'a> Tape<'a> {
    /// Parses a complete text.
    ///
    /// # Errors
    ///
    /// The text of Go's scanner.
    pub(crate) fn parse(text: &'a [u8]) -> Result<Self, ParseError> {
        parse::parse(text).map(|nodes| Self { text, nodes })
    }

    /// The outermost value.
    pub(crate) fn root(&self) -> Value<'_> {
        Value { tape: self, at: 0 }
    }

    /// The first number, of all there are, that is too large for a float.
    pub(crate) fn too_large_number(&self) -> Option<&str> {
        let numbers = self.nodes.iter().filter(|node| node.kind == Kind::Number);
        let mut texts =
            numbers.filter_map(|node| std::str::from_utf8(&self.text[node.start as usize..node.end as usize]).ok());
        texts.find(|text| text.parse().is_ok_and(f64::is_infinite))
    }
}

/// One value of a [`Tape`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Value<'t> {
    tape: &'t Tape<'t>,
    at: u32,
}

impl<'t> Value<'t> {
    fn node(self) -> &'t Node {
        &self.tape.nodes[self.at as usize]
    }

    pub(crate) fn kind(self) -> Kind {
        self.node().kind
    }

    pub(crate) fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    /// Where the value starts in the text, for putting findings into document order.
    pub(crate) fn offset(self) -> u32 {
        self.node().start
    }

    /// The bytes of the value as they are in the text; of a string without the quotes.
    pub(crate) fn raw(self) -> &'t [u8] {
        let node = self.node();
        &self.tape.text[node.start as usize..node.end as usize]
    }

    /// The bytes of the value with the quotes of a string.
    pub(crate) fn raw_quoted(self) -> &'t [u8] {
        let node = self.node();
        let quote = usize::from(node.kind == Kind::String);
        &self.tape.text[node.start as usize - quote..node.end as usize + quote]
    }

    /// Whether the raw text of a string is also its canonical output.
    pub(crate) fn is_plain(self) -> bool {
        self.node().plain
    }

    /// The text of a string, unescaped; invalid UTF-8 and lone surrogates become U+FFFD. `None` for other kinds.
    pub(crate) fn as_str(self) -> Option<Cow<'t, str>> {
        let node = self.node();
        (node.kind == Kind::String).then(|| {
            let raw = self.raw();
            match std::str::from_utf8(raw) {
                Ok(text) if node.plain || !raw.contains(&b'\\') => Cow::Borrowed(text),
                _ => Cow::Owned(parse::unescape(raw)),
            }
        })
    }

    /// The digits of a number. `None` for other kinds.
    pub(crate) fn as_number(self) -> Option<&'t str> {
        (self.kind() == Kind::Number).then(|| std::str::from_utf8(self.raw()).unwrap_or_default())
    }

    pub(crate) fn as_bool(self) -> Option<bool> {
        match self.kind() {
            Kind::True => Some(true),
            Kind::False => Some(false),
            _ => None,
        }
    }

    /// The items of an array; none for other kinds.
    pub(crate) fn items(self) -> Items<'t> {
        let node = self.node();
        let end = if node.kind == Kind::Array {
            node.next
        } else {
            self.at + 1
        };
        Items {
            tape: self.tape,
            at: self.at + 1,
            end,
        }
    }

    /// The entries of an object in document order, duplicates included; none for other kinds.
    pub(crate) fn entries(self) -> Entries<'t> {
        let node = self.node();
        let end = if node.kind == Kind::Object {
            node.next
        } else {
            self.at + 1
        };
        Entries(Items {
            tape: self.tape,
            at: self.at + 1,
            end,
        })
    }

    /// The value of a key; the last one of duplicates.
    pub(crate) fn get(self, key: &str) -> Option<Value<'t>> {
        self.entries().filter(|(k, _)| k.is(key)).last().map(|(_, value)| value)
    }

    /// Whether the value may hold this text somewhere: not if its bytes hold neither the text nor an escape, which could
    /// hide it.
    pub(crate) fn may_hold(self, text: &str) -> bool {
        let holds = |text: &[u8]| memchr::memmem::find(self.raw(), text).is_some();
        holds(text.as_bytes()) || holds(b"\\u")
    }

    /// Whether this string is `text`.
    pub(crate) fn is(self, text: &str) -> bool {
        let node = self.node();
        if node.plain {
            self.raw() == text.as_bytes()
        } else {
            self.as_str().is_some_and(|s| s == text)
        }
    }

    /// The number of nodes of this value, itself included.
    pub(crate) fn size(self) -> usize {
        (self.node().next - self.at) as usize
    }
}

/// See [`Value::items`].
#[derive(Debug, Clone)]
pub(crate) struct Items<'t> {
    tape: &'t Tape<'t>,
    at: u32,
    end: u32,
}

impl<'t> Iterator for Items<'t> {
    type Item = Value<'t>;

    fn next(&mut self) -> Option<Value<'t>> {
        (self.at < self.end).then(|| {
            let value = Value {
                tape: self.tape,
                at: self.at,
            };
            self.at = value.node().next;
            value
        })
    }
}

/// See [`Value::entries`].
#[derive(Debug, Clone)]
pub(crate) struct Entries<'t>(Items<'t>);

impl<'t> Iterator for Entries<'t> {
    type Item = (Value<'t>, Value<'t>);

    fn next(&mut self) -> Option<Self::Item> {
        Some((self.0.next()?, self.0.next()?))
    }
}
