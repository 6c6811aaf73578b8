//! Events of tokens: which collection begins and ends where, and what is left out. It goes from state to state, as the real
//! parser, whose texts name what it has missed.

use std::collections::HashMap;

use super::scanner::Scanner;
use super::token::{Kind, Mistake, Token};

pub(super) struct Event {
    pub(super) kind: EventKind,
    /// Where it begins, counted from 0.
    pub(super) line: u64,
}

pub(super) enum EventKind {
    StreamEnd,
    DocumentStart,
    DocumentEnd,
    Alias(String),
    Scalar(Scalar),
    SequenceStart { anchor: Option<String> },
    SequenceEnd,
    MappingStart { anchor: Option<String> },
    MappingEnd,
}

pub(super) struct Scalar {
    pub(super) anchor: Option<String>,
    /// In its long form, as [`long_tag`] has it; empty if there is none.
    pub(super) tag: String,
    pub(super) value: String,
    /// Whether it has neither quotes nor a tag that counts.
    pub(super) is_plain: bool,
}

pub(super) struct Parser<'a> {
    scanner: Scanner<'a>,
    state: State,
    /// Where to go on after what has begun.
    states: Vec<State>,
    /// Handles of tags and what they stand for.
    tags: HashMap<String, String>,
}

/// The longest tag that counts.
const LONGEST_TAG: &str = "tag:yaml.org,2002:timestamp";

/// What comes next.
#[derive(Clone, Copy)]
enum State {
    /// A document, or nothing.
    Document,
    /// What is in a document that has begun with `---`.
    Content,
    DocumentEnd,
    BlockNode,
    BlockSequenceEntry,
    IndentlessEntry,
    BlockKey,
    BlockValue,
    FlowSequenceEntry {
        is_first: bool,
    },
    /// A pair in a flow sequence.
    PairKey,
    PairValue,
    PairEnd,
    FlowKey {
        is_first: bool,
    },
    FlowValue {
        is_empty: bool,
    },
}

/// Which node may come.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Block,
    /// A value of a block mapping, where a sequence need not be further in.
    BlockValue,
    Flow,
}

impl<'a> Parser<'a> {
    pub(super) fn new(body: &'a [u8]) -> Self {
        Self {
            scanner: Scanner::new(body),
            state: State::Document,
            states: Vec::new(),
            tags: HashMap::new(),
        }
    }

    /// The next event.
    pub(super) fn next(&mut self) -> Result<Event, Mistake> {
        match self.state {
            State::Document => self.document_start(),
            State::Content => {
                let token = self.scanner.peek()?;
                let line = token.start;
                if is_document_mark(&token.kind) {
                    self.leave();
                    return Ok(empty(line));
                }
                self.node(Place::Block)
            }
            State::DocumentEnd => {
                let token = self.scanner.peek()?;
                let line = token.start;
                if token.kind == Kind::DocumentEnd {
                    self.scanner.take();
                }
                self.state = State::Document;
                Ok(event(EventKind::DocumentEnd, line))
            }
            State::BlockNode => self.node(Place::Block),
            State::BlockSequenceEntry => self.block_entry(),
            State::IndentlessEntry => self.indentless_entry(),
            State::BlockKey => self.block_key(),
            State::BlockValue => self.block_value(),
            State::FlowSequenceEntry { is_first } => self.flow_entry(is_first),
            State::PairKey => self.pair_key(),
            State::PairValue => self.pair_value(),
            State::PairEnd => {
                let line = self.scanner.peek()?.start;
                self.state = State::FlowSequenceEntry { is_first: false };
                Ok(event(EventKind::MappingEnd, line))
            }
            State::FlowKey { is_first } => self.flow_key(is_first),
            State::FlowValue { is_empty } => self.flow_value(is_empty),
        }
    }

    /// Goes on where what has ended was in.
    fn leave(&mut self) {
        self.state = self.states.pop().unwrap_or(State::Document);
    }

    /// A node, after which it goes on in a state.
    fn node_then(&mut self, place: Place, then: State) -> Result<Event, Mistake> {
        self.states.push(then);
        self.node(place)
    }

    /// A node that is not there, after which it goes on in a state.
    fn empty_then(&mut self, line: u64, then: State) -> Event {
        self.state = then;
        empty(line)
    }

    /// Takes the token that was peeked at; the next one.
    fn after(&mut self) -> Result<&Token, Mistake> {
        self.scanner.take();
        self.scanner.peek()
    }

    fn document_start(&mut self) -> Result<Event, Mistake> {
        let token = self.scanner.peek()?;
        let line = token.start;
        match token.kind {
            Kind::StreamEnd => return Ok(event(EventKind::StreamEnd, line)),
            Kind::VersionDirective { .. } | Kind::TagDirective { .. } | Kind::DocumentStart => {
                self.directives()?;
                let token = self.scanner.peek()?;
                if token.kind != Kind::DocumentStart {
                    return Err(Mistake::of_parser(
                        token.start,
                        "did not find expected <document start>",
                    ));
                }
                self.scanner.take();
                self.state = State::Content;
            }
            _ => {
                self.directives()?;
                self.state = State::BlockNode;
            }
        }
        self.states.push(State::DocumentEnd);
        Ok(event(EventKind::DocumentStart, line))
    }

    fn directives(&mut self) -> Result<(), Mistake> {
        let mut has_version = false;
        loop {
            let token = self.scanner.peek()?;
            let line = token.start;
            let wrong = |what| Err(Mistake::of_parser(line, what));
            match &token.kind {
                Kind::VersionDirective { .. } if has_version => return wrong("found duplicate %YAML directive"),
                Kind::VersionDirective { major: 1, minor: 1 } => has_version = true,
                Kind::VersionDirective { .. } => return wrong("found incompatible YAML document"),
                Kind::TagDirective { handle, prefix } => {
                    if self.tags.insert(handle.clone(), prefix.clone()).is_some() {
                        return wrong("found duplicate %TAG directive");
                    }
                }
                _ => break,
            }
            self.scanner.take();
        }
        for (handle, prefix) in [("!", "!"), ("!!", "tag:yaml.org,2002:")] {
            self.tags.entry(handle.to_owned()).or_insert_with(|| prefix.to_owned());
        }
        Ok(())
    }

    fn node(&mut self, place: Place) -> Result<Event, Mistake> {
        let line = self.scanner.peek()?.start;
        let mut anchor = None;
        let mut tag = None;
        loop {
            let token = self.scanner.peek()?;
            match &token.kind {
                Kind::Alias(name) if anchor.is_none() && tag.is_none() => {
                    let name = name.clone();
                    self.scanner.take();
                    self.leave();
                    return Ok(event(EventKind::Alias(name), line));
                }
                Kind::Anchor(name) if anchor.is_none() => anchor = Some(name.clone()),
                Kind::Tag { handle, suffix } if tag.is_none() => {
                    tag = Some((handle.clone(), suffix.clone(), token.start));
                }
                _ => break,
            }
            self.scanner.take();
        }
        let tag = match tag {
            None => String::new(),
            Some((handle, suffix, _)) if handle.is_empty() => suffix,
            Some((handle, suffix, line)) => match self.tags.get(&handle) {
                Some(prefix) => long_tag(prefix, &suffix),
                None => return Err(Mistake::of_parser(line, "found undefined tag handle")),
            },
        };
        let token = self.scanner.peek()?;
        let token_line = token.start;
        let (kind, state) = match &token.kind {
            Kind::BlockEntry if place == Place::BlockValue => {
                (EventKind::SequenceStart { anchor }, State::IndentlessEntry)
            }
            Kind::Scalar { value, is_plain } => {
                let scalar = Scalar {
                    anchor,
                    value: value.clone(),
                    is_plain: *is_plain && tag.is_empty() || tag == "!",
                    tag,
                };
                self.scanner.take();
                self.leave();
                return Ok(event(EventKind::Scalar(scalar), line));
            }
            Kind::FlowSequenceStart => (
                EventKind::SequenceStart { anchor },
                State::FlowSequenceEntry { is_first: true },
            ),
            Kind::FlowMappingStart => (EventKind::MappingStart { anchor }, State::FlowKey { is_first: true }),
            Kind::BlockSequenceStart if place != Place::Flow => {
                (EventKind::SequenceStart { anchor }, State::BlockSequenceEntry)
            }
            Kind::BlockMappingStart if place != Place::Flow => (EventKind::MappingStart { anchor }, State::BlockKey),
            _ if anchor.is_some() || !tag.is_empty() => {
                let scalar = Scalar {
                    anchor,
                    value: String::new(),
                    is_plain: tag.is_empty(),
                    tag,
                };
                self.leave();
                return Ok(event(EventKind::Scalar(scalar), line));
            }
            _ => return Err(Mistake::of_parser(token_line, "did not find expected node content")),
        };
        // The entry without an indentation of its own is looked at again.
        if !matches!(state, State::IndentlessEntry) {
            self.scanner.take();
        }
        self.state = state;
        Ok(event(kind, line))
    }

    fn block_entry(&mut self) -> Result<Event, Mistake> {
        let token = self.scanner.peek()?;
        let (line, end) = (token.start, token.end);
        match token.kind {
            Kind::BlockEntry => {
                let next = &self.after()?.kind;
                if matches!(next, Kind::BlockEntry | Kind::BlockEnd) {
                    return Ok(self.empty_then(end, State::BlockSequenceEntry));
                }
                self.node_then(Place::Block, State::BlockSequenceEntry)
            }
            Kind::BlockEnd => Ok(self.end(EventKind::SequenceEnd, line)),
            _ => Err(Mistake::of_parser(line, "did not find expected '-' indicator")),
        }
    }

    fn indentless_entry(&mut self) -> Result<Event, Mistake> {
        let token = self.scanner.peek()?;
        let (line, end) = (token.start, token.end);
        if token.kind != Kind::BlockEntry {
            self.leave();
            return Ok(event(EventKind::SequenceEnd, line));
        }
        let next = &self.after()?.kind;
        if matches!(next, Kind::BlockEntry | Kind::Key | Kind::Value | Kind::BlockEnd) {
            return Ok(self.empty_then(end, State::IndentlessEntry));
        }
        self.node_then(Place::Block, State::IndentlessEntry)
    }

    fn block_key(&mut self) -> Result<Event, Mistake> {
        let token = self.scanner.peek()?;
        let (line, end) = (token.start, token.end);
        match token.kind {
            Kind::Key => {
                let next = &self.after()?.kind;
                if matches!(next, Kind::Key | Kind::Value | Kind::BlockEnd) {
                    return Ok(self.empty_then(end, State::BlockValue));
                }
                self.node_then(Place::BlockValue, State::BlockValue)
            }
            Kind::BlockEnd => Ok(self.end(EventKind::MappingEnd, line)),
            _ => Err(Mistake::of_parser(line, "did not find expected key")),
        }
    }

    fn block_value(&mut self) -> Result<Event, Mistake> {
        let token = self.scanner.peek()?;
        let (line, end) = (token.start, token.end);
        if token.kind != Kind::Value {
            return Ok(self.empty_then(line, State::BlockKey));
        }
        let next = &self.after()?.kind;
        if matches!(next, Kind::Key | Kind::Value | Kind::BlockEnd) {
            return Ok(self.empty_then(end, State::BlockKey));
        }
        self.node_then(Place::BlockValue, State::BlockKey)
    }

    /// Ends a collection with its last token.
    fn end(&mut self, kind: EventKind, line: u64) -> Event {
        self.scanner.take();
        self.leave();
        event(kind, line)
    }

    /// Takes the comma before an entry that is not the first one.
    fn comma(&mut self, is_first: bool, or_end: &Kind, wanted: &str) -> Result<(), Mistake> {
        let token = self.scanner.peek()?;
        if is_first || token.kind == *or_end {
            return Ok(());
        }
        if token.kind != Kind::FlowEntry {
            return Err(Mistake::of_parser(token.start, wanted));
        }
        self.scanner.take();
        Ok(())
    }

    fn flow_entry(&mut self, is_first: bool) -> Result<Event, Mistake> {
        self.comma(is_first, &Kind::FlowSequenceEnd, "did not find expected ',' or ']'")?;
        let token = self.scanner.peek()?;
        let line = token.start;
        match token.kind {
            Kind::FlowSequenceEnd => Ok(self.end(EventKind::SequenceEnd, line)),
            Kind::Key => {
                self.scanner.take();
                self.state = State::PairKey;
                Ok(event(EventKind::MappingStart { anchor: None }, line))
            }
            _ => self.node_then(Place::Flow, State::FlowSequenceEntry { is_first: false }),
        }
    }

    fn pair_key(&mut self) -> Result<Event, Mistake> {
        let token = self.scanner.peek()?;
        let end = token.end;
        if matches!(token.kind, Kind::Value | Kind::FlowEntry | Kind::FlowSequenceEnd) {
            // The real parser takes it, too.
            self.scanner.take();
            return Ok(self.empty_then(end, State::PairValue));
        }
        self.node_then(Place::Flow, State::PairValue)
    }

    fn pair_value(&mut self) -> Result<Event, Mistake> {
        let token = self.scanner.peek()?;
        let line = token.start;
        if token.kind == Kind::Value {
            let next = &self.after()?.kind;
            if !matches!(next, Kind::FlowEntry | Kind::FlowSequenceEnd) {
                return self.node_then(Place::Flow, State::PairEnd);
            }
        }
        Ok(self.empty_then(line, State::PairEnd))
    }

    fn flow_key(&mut self, is_first: bool) -> Result<Event, Mistake> {
        self.comma(is_first, &Kind::FlowMappingEnd, "did not find expected ',' or '}'")?;
        let token = self.scanner.peek()?;
        let line = token.start;
        match token.kind {
            Kind::FlowMappingEnd => Ok(self.end(EventKind::MappingEnd, line)),
            Kind::Key => {
                let next = self.after()?;
                let line = next.start;
                if matches!(next.kind, Kind::Value | Kind::FlowEntry | Kind::FlowMappingEnd) {
                    return Ok(self.empty_then(line, State::FlowValue { is_empty: false }));
                }
                self.node_then(Place::Flow, State::FlowValue { is_empty: false })
            }
            _ => self.node_then(Place::Flow, State::FlowValue { is_empty: true }),
        }
    }

    fn flow_value(&mut self, is_empty: bool) -> Result<Event, Mistake> {
        let then = State::FlowKey { is_first: false };
        let mut token = self.scanner.peek()?;
        if !is_empty && token.kind == Kind::Value {
            token = self.after()?;
            if !matches!(token.kind, Kind::FlowEntry | Kind::FlowMappingEnd) {
                return self.node_then(Place::Flow, then);
            }
        }
        let line = token.start;
        Ok(self.empty_then(line, then))
    }
}

fn event(kind: EventKind, line: u64) -> Event {
    Event { kind, line }
}

/// A node that is not there.
fn empty(line: u64) -> Event {
    let scalar = Scalar {
        anchor: None,
        tag: String::new(),
        value: String::new(),
        is_plain: true,
    };
    event(EventKind::Scalar(scalar), line)
}

/// A tag of two parts. Of one that is too long to count it is only the beginning, since a short handle may stand for much at
/// many places.
fn long_tag(prefix: &str, suffix: &str) -> String {
    prefix
        .chars()
        .chain(suffix.chars())
        .take(LONGEST_TAG.len() + 1)
        .collect()
}

fn is_document_mark(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::VersionDirective { .. }
            | Kind::TagDirective { .. }
            | Kind::DocumentStart
            | Kind::DocumentEnd
            | Kind::StreamEnd
    )
}
