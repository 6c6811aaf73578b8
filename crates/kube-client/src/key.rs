//! The identity of an object within its kind: namespace and name.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

/// Namespace and name of an object, cheap to clone.
///
/// Prints as `namespace/name`, or `name` for a cluster-scoped object, and parses from the same form.
///
/// ```
/// use kube_client::ObjectKey;
///
/// let key = ObjectKey::namespaced("prod", "web-0");
/// assert_eq!(key.to_string(), "prod/web-0");
/// assert_eq!("prod/web-0".parse::<ObjectKey>().unwrap(), key);
/// assert_eq!(ObjectKey::cluster("node-1").namespace(), None);
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The namespace; `None` for a cluster-scoped object.
    pub namespace: Option<Arc<str>>,
    /// The name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// A key from its parts.
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        Self {
            namespace: namespace.map(Arc::from),
            name: Arc::from(name),
        }
    }

    /// The key of an object in a namespace.
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        Self::new(Some(namespace), name)
    }

    /// The key of a cluster-scoped object.
    pub fn cluster(name: &str) -> Self {
        Self::new(None, name)
    }

    /// The namespace, if the object has one.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn as_ref(&self) -> KeyRef<'_> {
        KeyRef {
            namespace: self.namespace.as_deref(),
            name: &self.name,
        }
    }
}

impl Hash for ObjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_ref().hash(state);
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectKey({self})")
    }
}

/// The text is not `name` or `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an object key, expected `name` or `namespace/name`: {text:?}")]
pub struct ParseKeyError {
    /// What was given.
    pub text: String,
}

impl FromStr for ObjectKey {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, ParseKeyError> {
        let (namespace, name) = match text.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, text),
        };
        if name.is_empty() || name.contains('/') || namespace.is_some_and(str::is_empty) {
            return Err(ParseKeyError { text: text.to_owned() });
        }
        Ok(Self::new(namespace, name))
    }
}

/// A borrowed [`ObjectKey`]: look-ups need no allocation. Hashes as the owned form does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyRef<'a> {
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: &'a str,
}

impl KeyRef<'_> {
    pub(crate) fn to_owned(self) -> ObjectKey {
        ObjectKey::new(self.namespace, self.name)
    }

    pub(crate) fn matches(self, key: &ObjectKey) -> bool {
        self == key.as_ref()
    }
}

impl fmt::Display for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(self.name),
        }
    }
}

impl hashbrown::Equivalent<ObjectKey> for KeyRef<'_> {
    fn equivalent(&self, key: &ObjectKey) -> bool {
        self.matches(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::BuildHasher;

    #[test]
    fn key_parses_what_it_prints() {
        for text in ["web", "prod/web-0"] {
            assert_eq!(text.parse::<ObjectKey>().unwrap().to_string(), text);
        }
        for text in ["", "/", "a/", "/a", "a/b/c"] {
            assert_eq!(text.parse::<ObjectKey>(), Err(ParseKeyError { text: text.to_owned() }));
        }
    }

    #[test]
    fn borrowed_key_hashes_and_compares_as_the_owned_one() {
        let hasher = foldhash::fast::RandomState::default();
        for key in [ObjectKey::cluster("a"), ObjectKey::namespaced("n", "a")] {
            assert_eq!(hasher.hash_one(&key), hasher.hash_one(key.as_ref()));
            assert!(key.as_ref().matches(&key));
        }
        assert!(
            !ObjectKey::cluster("a")
                .as_ref()
                .matches(&ObjectKey::namespaced("n", "a"))
        );
    }
}
