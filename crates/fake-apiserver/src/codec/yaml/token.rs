//! What the scanner gives to the parser.

/// A token, with the lines where it begins and ends, counted from 0.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) start: u64,
    pub(super) end: u64,
}

#[derive(Debug, PartialEq)]
pub(super) enum Kind {
    StreamEnd,
    VersionDirective { major: u8, minor: u8 },
    TagDirective { handle: String, prefix: String },
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(String),
    Anchor(String),
    Tag { handle: String, suffix: String },
    Scalar { value: String, is_plain: bool },
}

/// A mistake: what is wrong, and the line, counted from 0, that the text names.
#[derive(Debug)]
pub(super) struct Mistake {
    pub(super) what: String,
    pub(super) line: u64,
    /// Whether the scanner has found it, which has not yet counted the line.
    pub(super) of_scanner: bool,
}

impl Mistake {
    /// One that the parser finds.
    pub(super) fn of_parser(line: u64, what: &str) -> Self {
        Self {
            what: what.to_owned(),
            line,
            of_scanner: false,
        }
    }
}

impl std::fmt::Display for Mistake {
    /// The real parser's text, which names no place in the first line.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("yaml: ")?;
        if self.line > 0 {
            write!(f, "line {}: ", self.line + u64::from(self.of_scanner))?;
        }
        f.write_str(&self.what)
    }
}
