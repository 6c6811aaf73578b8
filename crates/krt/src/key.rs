//! The identity of an object inside of a collection: borrowed as objects lend it, and owned as the engine keeps it.
//!
//! Does not know what an object is; see [`crate::traits`] for who has a key.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

/// The key of an object, lent by the object itself: no allocation per look.
///
/// A key is the text that it displays: `namespace/name`, or just the one part. Two keys are equal if their texts are, however they
/// are put together; they are ordered by the bytes of their texts.
///
/// ```
/// use krt::KeyRef;
/// let key = KeyRef::namespaced("default", "web");
/// assert_eq!(key, KeyRef::Plain("default/web"));
/// assert_eq!(key.to_string(), "default/web");
/// assert_eq!(KeyRef::namespaced("", "node-1"), KeyRef::Plain("node-1"));
/// ```
#[derive(Debug, Clone, Copy)]
pub enum KeyRef<'a> {
    /// The whole key as one text.
    Plain(&'a str),
    /// A name in a namespace; in the empty namespace it is the name alone.
    Namespaced {
        /// The namespace.
        ns: &'a str,
        /// The name.
        name: &'a str,
    },
}

impl<'a> KeyRef<'a> {
    /// The key of a name in a namespace.
    pub fn namespaced(ns: &'a str, name: &'a str) -> Self {
        Self::Namespaced { ns, name }
    }

    /// Whether the text is empty. No object may have such a key.
    pub fn is_empty(self) -> bool {
        matches!(self, Self::Plain("") | Self::Namespaced { ns: "", name: "" })
    }

    /// What is before the slash, the slash, what is after it; or the text and nothing.
    fn parts(self) -> [&'a str; 3] {
        match self {
            Self::Plain(text) | Self::Namespaced { ns: "", name: text } => [text, "", ""],
            Self::Namespaced { ns, name } => [ns, "/", name],
        }
    }

    /// Whether the key has this text.
    pub(crate) fn is(self, text: &str) -> bool {
        match self {
            Self::Plain(own) | Self::Namespaced { ns: "", name: own } => own == text,
            Self::Namespaced { ns, name } => text
                .strip_prefix(ns)
                .and_then(|rest| rest.strip_prefix('/'))
                .is_some_and(|rest| rest == name),
        }
    }

    /// Reads something of each part, for nothing but to have it near.
    pub(crate) fn peek(self) -> usize {
        let first = |part: &str| part.as_bytes().first().map_or(0, |byte| usize::from(*byte));
        match self {
            Self::Plain(text) => first(text),
            Self::Namespaced { ns, name } => first(ns) ^ first(name),
        }
    }

    pub(crate) fn to_arc(self) -> Arc<str> {
        match self {
            Self::Plain(text) | Self::Namespaced { ns: "", name: text } => text.into(),
            Self::Namespaced { .. } => self.to_string().into(),
        }
    }
}

impl fmt::Display for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts().iter().try_for_each(|part| f.write_str(part))
    }
}

impl PartialEq for KeyRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Plain(own), key) | (key, Self::Plain(own)) => key.is(own),
            // Then the slash is at the same place.
            (
                Self::Namespaced { ns, name },
                Self::Namespaced {
                    ns: other,
                    name: others,
                },
            ) if ns.len() == other.len() => name == others && ns == other,
            _ => self.cmp(other) == Ordering::Equal,
        }
    }
}

impl Eq for KeyRef<'_> {}

impl PartialOrd for KeyRef<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for KeyRef<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let (own, other) = (self.parts(), other.parts());
        own.iter()
            .flat_map(|part| part.bytes())
            .cmp(other.iter().flat_map(|part| part.bytes()))
    }
}

impl<'a> From<&'a str> for KeyRef<'a> {
    fn from(text: &'a str) -> Self {
        Self::Plain(text)
    }
}

impl<'a> From<&'a String> for KeyRef<'a> {
    fn from(text: &'a String) -> Self {
        Self::Plain(text)
    }
}

impl<'a> From<(&'a str, &'a str)> for KeyRef<'a> {
    fn from((ns, name): (&'a str, &'a str)) -> Self {
        Self::Namespaced { ns, name }
    }
}

/// A key that the engine keeps, with its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) text: Arc<str>,
    pub(crate) hash: u64,
}

/// How one engine hashes. Keys and labels are input of users, so each engine has a secret seed.
///
/// Nothing is ever concluded from equal hashes alone; unit tests cut them to two bits to prove it.
#[derive(Debug, Clone)]
pub(crate) struct Hashing {
    state: foldhash::fast::RandomState,
    mask: u64,
}

impl Hashing {
    pub(crate) fn new() -> Self {
        Self {
            state: foldhash::fast::RandomState::default(),
            mask: u64::MAX,
        }
    }

    /// Hashes with so many collisions that code which trusts them fails. The high bits are those that hash tables
    /// compare, the low ones choose the place: one of each.
    #[cfg(test)]
    pub(crate) fn weak() -> Self {
        Self {
            mask: 1 | 1 << 63,
            ..Self::new()
        }
    }

    /// The hash of a key's text, the same for each way to put it together.
    pub(crate) fn key(&self, key: KeyRef<'_>) -> u64 {
        /// Nearly all keys are shorter.
        const USUAL: usize = 96;
        match key {
            KeyRef::Plain(text) | KeyRef::Namespaced { ns: "", name: text } => self.bytes(text.as_bytes()),
            KeyRef::Namespaced { ns, name } => {
                let (slash, end) = (ns.len(), ns.len() + 1 + name.len());
                let mut buffer = [0; USUAL];
                let Some(text) = buffer.get_mut(..end) else {
                    return self.bytes(key.to_string().as_bytes());
                };
                text[..slash].copy_from_slice(ns.as_bytes());
                text[slash] = b'/';
                text[slash + 1..].copy_from_slice(name.as_bytes());
                self.bytes(text)
            }
        }
    }

    /// The key as the engine keeps it.
    pub(crate) fn keep(&self, key: KeyRef<'_>) -> Key {
        Key {
            text: key.to_arc(),
            hash: self.key(key),
        }
    }

    fn bytes(&self, bytes: &[u8]) -> u64 {
        let mut hasher = self.state.build_hasher();
        hasher.write(bytes);
        hasher.finish() & self.mask
    }

    pub(crate) fn of(&self, value: &(impl Hash + ?Sized)) -> u64 {
        self.state.hash_one(value) & self.mask
    }

    /// Builds a hash piece by piece; [`end`](Self::end) cuts it as the others are cut.
    pub(crate) fn start(&self) -> impl Hasher + use<> {
        self.state.build_hasher()
    }

    pub(crate) fn end(&self, hasher: &impl Hasher) -> u64 {
        hasher.finish() & self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_their_texts_however_they_are_put_together() {
        let hashing = Hashing::new();
        let texts = ["a", "a/b", "a/b/c", "b", "a-b/c", "/a", "a/", "ab/c"];
        let pairs = [
            ("", "a"),
            ("a", "b"),
            ("a", "b/c"),
            ("a/b", "c"),
            ("a-b", "c"),
            ("ab", "c"),
            ("a", ""),
        ];
        let keys = || {
            let plain = texts.iter().map(|text| KeyRef::Plain(text));
            plain.chain(pairs.iter().map(|(ns, name)| KeyRef::Namespaced { ns, name }))
        };
        for one in keys() {
            for other in keys() {
                let (left, right) = (one.to_string(), other.to_string());
                assert_eq!(one == other, left == right, "{one} {other}");
                assert_eq!(one.cmp(&other), left.as_bytes().cmp(right.as_bytes()), "{one} {other}");
                assert_eq!(one.is(&right), left == right, "{one} {other}");
                if left == right {
                    assert_eq!(hashing.key(one), hashing.key(other));
                }
            }
            assert_eq!(&*one.to_arc(), one.to_string());
        }
    }

    #[test]
    fn keys_of_any_length_hash_like_their_texts() {
        let hashing = Hashing::new();
        for length in [1, 30, 46, 47, 48, 49, 60, 200] {
            let (ns, name) = ("n".repeat(length), "m".repeat(length));
            let text = format!("{ns}/{name}");
            assert_eq!(
                hashing.key(KeyRef::namespaced(&ns, &name)),
                hashing.key(KeyRef::Plain(&text))
            );
        }
    }

    #[test]
    fn only_keys_without_text_are_empty() {
        assert!(KeyRef::Plain("").is_empty());
        assert!(KeyRef::namespaced("", "").is_empty());
        assert!(!KeyRef::namespaced("a", "").is_empty());
        assert!(!KeyRef::Plain("a").is_empty());
    }
}
