//! `labelSelector=`.

use super::SelectorError;
use crate::object::StringMap;

/// A parsed label selector: all requirements must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LabelSelector {}

impl LabelSelector {
    /// Parses the query parameter; the empty text selects everything.
    ///
    /// # Errors
    ///
    /// The parser's text, `unable to parse requirement: …` included.
    pub(crate) fn parse(_text: &str) -> Result<Self, SelectorError> {
        unimplemented!()
    }

    /// Whether every object matches.
    pub(crate) fn is_everything(&self) -> bool {
        unimplemented!()
    }

    /// Whether these labels match.
    pub(crate) fn matches(&self, _labels: &StringMap) -> bool {
        unimplemented!()
    }
}
