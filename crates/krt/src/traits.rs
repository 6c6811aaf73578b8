//! What a type must tell about itself to be in a collection, and what it may tell so that fetches can filter by it.
//!
//! A filter that a type does not support is a compile error: each filter of [`Query`](crate::Query) asks for its trait.

use std::collections::BTreeMap;

use crate::key::KeyRef;
use crate::selector::SelectorRef;

/// The labels of an object.
pub type Labels = BTreeMap<String, String>;

/// A type that may be in a collection: it has a key that is unique there.
///
/// # Contract
///
/// The key of a value never changes and is not empty. An empty key is refused by a panic: that of the call that sets the value, or
/// of the transformation that gives it, where it is contained. A key that changes cannot be noticed.
pub trait Keyed: Send + Sync + 'static {
    /// The key of this object.
    fn key(&self) -> KeyRef<'_>;
}

/// A type with a name, for [`Query::name`](crate::Query::name).
pub trait Named: Keyed {
    /// The name of this object, without its namespace.
    fn name(&self) -> &str;
}

/// A type whose objects are in namespaces, for [`Query::namespace`](crate::Query::namespace).
pub trait Namespaced: Keyed {
    /// The namespace of this object.
    fn namespace(&self) -> &str;
}

/// A type with labels, for [`Query::labels`](crate::Query::labels).
pub trait Labeled: Keyed {
    /// The labels of this object.
    fn labels(&self) -> &Labels;
}

/// A type that selects others by their labels, for [`Query::selecting`](crate::Query::selecting).
pub trait Selecting: Keyed {
    /// What this object selects.
    fn selector(&self) -> SelectorRef<'_>;
}

/// A string as an item of a collection; it is its own key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(pub String);

impl Keyed for Text {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::Plain(&self.0)
    }
}

impl<S: Into<String>> From<S> for Text {
    fn from(text: S) -> Self {
        Self(text.into())
    }
}
