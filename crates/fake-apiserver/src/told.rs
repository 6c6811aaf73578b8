//! What is told of one body: the texts about its mistakes, up to a number of bytes, and how many there were beyond.
//!
//! A finding names the whole path of its field, so that many of them below one long name would make texts many times the size
//! of the body. Who finds something asks [`Told`] for room before it makes the text, and at the end for the [rest](Told::rest). No
//! client but one that means harm ever sees that there is one.

use std::fmt;

/// So many bytes are told of a body: more than the longest one has.
pub(crate) const MOST: usize = 4 << 20;

/// What a finding takes beside its text.
const EACH: usize = 64;

/// A finding in words.
pub(crate) trait Text {
    /// How many bytes it has.
    fn size(&self) -> usize;
}

impl Text for String {
    fn size(&self) -> usize {
        self.len()
    }
}

/// How much has been told.
///
/// # Guarantees
/// What is told is at most [`MOST`] bytes, and one finding more; what is left out has cost no words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Told {
    bytes: usize,
    left_out: usize,
}

impl Told {
    /// Words a finding, or counts it where there is no more room.
    pub(crate) fn word<T: Text>(&mut self, word: impl FnOnce() -> T) -> Option<T> {
        if self.bytes >= MOST {
            self.left_out += 1;
            return None;
        }
        let text = word();
        self.bytes += text.size() + EACH;
        Some(text)
    }

    /// How many findings there were that are not told.
    pub(crate) const fn left_out(&self) -> usize {
        self.left_out
    }

    /// What is said in their place.
    pub(crate) fn rest(&self) -> Option<Rest> {
        (self.left_out > 0).then_some(Rest(self.left_out))
    }
}

/// So many findings are not told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rest(usize);

impl fmt::Display for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "there is more to tell of this body than this server does: at least {} more",
            self.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_ends_at_the_limit_and_the_rest_is_counted() {
        // [F25]
        let mut told = Told::default();
        assert_eq!(told.rest(), None);
        let texts: Vec<String> = (0..100).filter_map(|_| told.word(|| "x".repeat(MOST / 10))).collect();
        assert_eq!(texts.len(), 10);
        let rest = told.rest().unwrap().to_string();
        assert!(rest.ends_with("at least 90 more"), "{rest}");
        assert!(told.word(|| -> String { unreachable!("there is no room") }).is_none());
    }
}
