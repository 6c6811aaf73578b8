//! Tokens of characters: indentation, simple keys, and which character begins what. [`scalars`](super::scalars) reads what
//! tokens hold.
//!
//! A key is found out to be one when its colon comes: until then the place of a possible key is kept, and the tokens from
//! there on wait.

use std::collections::{HashMap, VecDeque};

use super::reader::Reader;
use super::token::{Kind, Mistake, Token};
use crate::steps::step;

/// How deep the real parser goes.
const MAX_DEPTH: usize = 10_000;
/// How many characters a simple key may have.
const KEY_LENGTH: u64 = 1024;

/// What comes after all tokens.
static END: Token = Token {
    kind: Kind::StreamEnd,
    start: 0,
    end: 0,
};

pub(super) struct Scanner<'a> {
    reader: Reader<'a>,
    /// The place of the next character.
    pub(super) mark: Mark,
    /// Scanned, and not yet taken.
    tokens: VecDeque<Token>,
    /// How many tokens were taken.
    taken: usize,
    /// The last indentation; -1 outside of all.
    pub(super) indent: i64,
    indents: Vec<i64>,
    /// Whether a simple key may begin here.
    pub(super) key_allowed: bool,
    /// The possible key of each open bracket, and that outside of all.
    ///
    /// Invariant: there is at least one.
    keys: Vec<SimpleKey>,
    /// The place in `keys` of the key that begins with a token, by the number of the token.
    keys_by_token: HashMap<usize, usize>,
    has_ended: bool,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Mark {
    /// In characters.
    pub(super) index: u64,
    /// Counted from 0, as the column.
    pub(super) line: u64,
    pub(super) column: i64,
}

#[derive(Clone, Copy, Default)]
struct SimpleKey {
    is_possible: bool,
    is_required: bool,
    token: usize,
    mark: Mark,
}

pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

pub(super) fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

/// Whether a line or the text ends here.
pub(super) fn is_end(c: char) -> bool {
    c == '\0' || is_break(c)
}

pub(super) fn is_blank_or_end(c: char) -> bool {
    is_blank(c) || is_end(c)
}

impl<'a> Scanner<'a> {
    pub(super) fn new(body: &'a [u8]) -> Self {
        Self {
            reader: Reader::new(body),
            mark: Mark::default(),
            tokens: VecDeque::new(),
            taken: 0,
            indent: -1,
            indents: Vec::new(),
            key_allowed: true,
            keys: vec![SimpleKey::default()],
            keys_by_token: HashMap::new(),
            has_ended: false,
        }
    }

    /// The next token; the end of the stream again and again at the end.
    pub(super) fn peek(&mut self) -> Result<&Token, Mistake> {
        // At the end it is looked at once more, whether a key that must have a colon has none.
        while self.needs_more()? && !self.has_ended {
            self.fetch()?;
        }
        Ok(self.tokens.front().unwrap_or(&END))
    }

    /// Takes the token that was peeked at.
    pub(super) fn take(&mut self) -> Option<Token> {
        self.taken += 1;
        self.tokens.pop_front()
    }

    /// Whether the next token may still turn out to begin a key.
    fn needs_more(&mut self) -> Result<bool, Mistake> {
        if self.tokens.is_empty() {
            return Ok(true);
        }
        match self.keys_by_token.get(&self.taken) {
            Some(&key) => self.is_valid(key),
            None => Ok(false),
        }
    }

    pub(super) fn mistake<T>(&self, what: &str) -> Result<T, Mistake> {
        Err(Mistake {
            what: what.to_owned(),
            line: self.mark.line,
            of_scanner: true,
        })
    }

    /// Has so many characters at hand.
    pub(super) fn need(&mut self, count: usize) -> Result<(), Mistake> {
        self.reader.need(count).map_err(|what| Mistake {
            what: what.to_owned(),
            line: 0,
            of_scanner: false,
        })
    }

    pub(super) fn at(&self, place: usize) -> char {
        self.reader.at(place)
    }

    /// Takes a character that ends no line.
    pub(super) fn skip(&mut self) -> char {
        step();
        self.mark.index += 1;
        self.mark.column += 1;
        self.reader.take()
    }

    /// Takes a line end.
    pub(super) fn line_end(&mut self) -> Result<char, Mistake> {
        self.need(2)?;
        let c = self.skip();
        if c == '\r' && self.at(0) == '\n' {
            self.skip();
        }
        self.mark.line += 1;
        self.mark.column = 0;
        Ok(if matches!(c, '\u{2028}' | '\u{2029}') { c } else { '\n' })
    }

    /// Takes blanks.
    pub(super) fn blanks(&mut self) -> Result<(), Mistake> {
        self.need(1)?;
        while is_blank(self.at(0)) {
            self.skip();
            self.need(1)?;
        }
        Ok(())
    }

    /// Takes what is left of a line but for its end: blanks and a comment.
    pub(super) fn comment(&mut self) -> Result<(), Mistake> {
        if self.at(0) == '#' {
            while !is_end(self.at(0)) {
                self.skip();
                self.need(1)?;
            }
        }
        Ok(())
    }

    pub(super) fn in_flow(&self) -> bool {
        self.keys.len() > 1
    }

    fn push(&mut self, kind: Kind, start: Mark) {
        let end = self.mark.line;
        self.tokens.push_back(Token {
            kind,
            start: start.line,
            end,
        });
    }

    /// Takes an indicator of so many characters.
    fn indicator(&mut self, kind: Kind, length: usize) {
        let start = self.mark;
        for _ in 0..length {
            self.skip();
        }
        self.push(kind, start);
    }

    /// Scans the next token.
    fn fetch(&mut self) -> Result<(), Mistake> {
        self.find_next()?;
        self.unroll(self.mark.column);
        self.need(4)?;
        let c = self.at(0);
        let next = self.at(1);
        let in_flow = self.in_flow();
        if c == '\0' {
            return self.stream_end();
        }
        if self.mark.column == 0 && c == '%' {
            self.unroll(-1);
            self.remove_key()?;
            self.key_allowed = false;
            let start = self.mark;
            let kind = self.directive()?;
            self.push(kind, start);
            return Ok(());
        }
        if let Some(kind) = self.document_indicator() {
            self.unroll(-1);
            self.remove_key()?;
            self.key_allowed = false;
            self.indicator(kind, 3);
            return Ok(());
        }
        match c {
            '[' => self.open(Kind::FlowSequenceStart),
            '{' => self.open(Kind::FlowMappingStart),
            ']' => self.close(Kind::FlowSequenceEnd),
            '}' => self.close(Kind::FlowMappingEnd),
            ',' => {
                self.remove_key()?;
                self.key_allowed = true;
                self.indicator(Kind::FlowEntry, 1);
                Ok(())
            }
            '-' if is_blank_or_end(next) => self.block_entry(),
            '?' if in_flow || is_blank_or_end(next) => self.key(),
            ':' if in_flow || is_blank_or_end(next) => self.value(),
            '*' | '&' => self.content(|scanner| scanner.anchor(c == '*')),
            '!' => self.content(Self::tag),
            '|' | '>' if !in_flow => {
                self.remove_key()?;
                self.key_allowed = true;
                let start = self.mark;
                let value = self.block_scalar(c == '|')?;
                self.push(Kind::Scalar { value, is_plain: false }, start);
                Ok(())
            }
            '\'' | '"' => self.content(|scanner| scanner.quoted(c == '\'')),
            '-' if !is_blank(next) => self.content(Self::plain),
            '?' | ':' if !in_flow && !is_blank_or_end(next) => self.content(Self::plain),
            '-' | '?' | ':' | '#' | '|' | '>' | '%' | '@' | '`' => {
                self.mistake("found character that cannot start any token")
            }
            c if is_blank_or_end(c) => self.mistake("found character that cannot start any token"),
            _ => self.content(Self::plain),
        }
    }

    /// Whether a document begins or ends here.
    pub(super) fn document_indicator(&self) -> Option<Kind> {
        let first = self.at(0);
        let is_one = self.mark.column == 0
            && matches!(first, '-' | '.')
            && self.at(1) == first
            && self.at(2) == first
            && is_blank_or_end(self.at(3));
        is_one.then_some(if first == '-' {
            Kind::DocumentStart
        } else {
            Kind::DocumentEnd
        })
    }

    /// Takes what may begin a simple key, and cannot follow one.
    fn content(&mut self, scan: impl FnOnce(&mut Self) -> Result<(Kind, u64), Mistake>) -> Result<(), Mistake> {
        self.save_key()?;
        self.key_allowed = false;
        let start = self.mark.line;
        let (kind, end) = scan(self)?;
        self.tokens.push_back(Token { kind, start, end });
        Ok(())
    }

    /// Takes blanks, comments and line ends.
    fn find_next(&mut self) -> Result<(), Mistake> {
        loop {
            self.need(1)?;
            while self.at(0) == ' ' || self.at(0) == '\t' && (self.in_flow() || !self.key_allowed) {
                self.skip();
                self.need(1)?;
            }
            self.comment()?;
            if !is_break(self.at(0)) {
                return Ok(());
            }
            self.line_end()?;
            if !self.in_flow() {
                self.key_allowed = true;
            }
        }
    }

    fn stream_end(&mut self) -> Result<(), Mistake> {
        if self.mark.column != 0 {
            self.mark.column = 0;
            self.mark.line += 1;
        }
        self.unroll(-1);
        self.remove_key()?;
        self.key_allowed = false;
        self.push(Kind::StreamEnd, self.mark);
        self.has_ended = true;
        Ok(())
    }

    /// Whether what may be a key still may.
    fn is_valid(&mut self, key: usize) -> Result<bool, Mistake> {
        step();
        let SimpleKey {
            is_possible,
            is_required,
            mark,
            ..
        } = self.keys[key];
        if !is_possible {
            return Ok(false);
        }
        if mark.line < self.mark.line || mark.index + KEY_LENGTH < self.mark.index {
            if is_required {
                return self.mistake("could not find expected ':'");
            }
            self.keys[key].is_possible = false;
            return Ok(false);
        }
        Ok(true)
    }

    fn save_key(&mut self) -> Result<(), Mistake> {
        if !self.key_allowed {
            return Ok(());
        }
        let key = SimpleKey {
            is_possible: true,
            is_required: !self.in_flow() && self.indent == self.mark.column,
            token: self.taken + self.tokens.len(),
            mark: self.mark,
        };
        self.remove_key()?;
        let last = self.keys.len() - 1;
        self.keys[last] = key;
        self.keys_by_token.insert(key.token, last);
        Ok(())
    }

    fn remove_key(&mut self) -> Result<(), Mistake> {
        let last = self.keys.len() - 1;
        let key = self.keys[last];
        if key.is_possible {
            if key.is_required {
                return self.mistake("could not find expected ':'");
            }
            self.keys[last].is_possible = false;
            self.keys_by_token.remove(&key.token);
        }
        Ok(())
    }

    fn open(&mut self, kind: Kind) -> Result<(), Mistake> {
        self.save_key()?;
        self.keys.push(SimpleKey {
            token: self.taken + self.tokens.len(),
            mark: self.mark,
            ..SimpleKey::default()
        });
        if self.keys.len() > MAX_DEPTH + 1 {
            return self.mistake(&format!("exceeded max depth of {MAX_DEPTH}"));
        }
        self.key_allowed = true;
        self.indicator(kind, 1);
        Ok(())
    }

    fn close(&mut self, kind: Kind) -> Result<(), Mistake> {
        self.remove_key()?;
        if self.in_flow()
            && let Some(key) = self.keys.pop()
        {
            self.keys_by_token.remove(&key.token);
        }
        self.key_allowed = false;
        self.indicator(kind, 1);
        Ok(())
    }

    /// Puts a token of no length before the one of this number, or behind all.
    ///
    /// The one of this number may be gone: the bracket of an empty collection is no longer waited for, although a colon may
    /// still make a key of it. The real scanner then puts the token behind all, too.
    fn insert(&mut self, before: Option<usize>, kind: Kind, mark: Mark) {
        let place = before.and_then(|number| number.checked_sub(self.taken));
        let token = Token {
            kind,
            start: mark.line,
            end: mark.line,
        };
        self.tokens.insert(place.unwrap_or(self.tokens.len()), token);
    }

    /// Begins a block at a column if that is further in, with a token before the one of this number.
    fn roll(&mut self, column: i64, before: Option<usize>, kind: Kind, mark: Mark) -> Result<(), Mistake> {
        if self.in_flow() || self.indent >= column {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = column;
        if self.indents.len() > MAX_DEPTH {
            return self.mistake(&format!("exceeded max depth of {MAX_DEPTH}"));
        }
        self.insert(before, kind, mark);
        Ok(())
    }

    /// Begins a block here, with what belongs to a block only, where that may stand; in a flow nothing begins.
    fn begin_block(&mut self, kind: Kind, not_here: &str) -> Result<(), Mistake> {
        if !self.in_flow() && !self.key_allowed {
            return self.mistake(not_here);
        }
        self.roll(self.mark.column, None, kind, self.mark)
    }

    /// Ends the blocks that are further in than a column.
    fn unroll(&mut self, column: i64) {
        while !self.in_flow() && self.indent > column {
            self.push(Kind::BlockEnd, self.mark);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    fn block_entry(&mut self) -> Result<(), Mistake> {
        self.begin_block(
            Kind::BlockSequenceStart,
            "block sequence entries are not allowed in this context",
        )?;
        self.remove_key()?;
        self.key_allowed = true;
        self.indicator(Kind::BlockEntry, 1);
        Ok(())
    }

    fn key(&mut self) -> Result<(), Mistake> {
        self.begin_block(Kind::BlockMappingStart, "mapping keys are not allowed in this context")?;
        self.remove_key()?;
        self.key_allowed = !self.in_flow();
        self.indicator(Kind::Key, 1);
        Ok(())
    }

    fn value(&mut self) -> Result<(), Mistake> {
        let last = self.keys.len() - 1;
        if self.is_valid(last)? {
            let key = self.keys[last];
            self.insert(Some(key.token), Kind::Key, key.mark);
            self.roll(key.mark.column, Some(key.token), Kind::BlockMappingStart, key.mark)?;
            self.keys[last].is_possible = false;
            self.keys_by_token.remove(&key.token);
            self.key_allowed = false;
        } else {
            self.begin_block(
                Kind::BlockMappingStart,
                "mapping values are not allowed in this context",
            )?;
            self.key_allowed = !self.in_flow();
        }
        self.indicator(Kind::Value, 1);
        Ok(())
    }
}
