//! A JSON document that can be changed: nodes are the parsed bytes until somebody changes something below them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::json::{Kind, Value, canonical, write};

/// The entries of an object: patches set and remove many.
pub(crate) type Entries<'t> = BTreeMap<Cow<'t, str>, Node<'t>>;

/// A node. Unchanged parts stay as they were parsed.
#[derive(Debug, Clone)]
pub(crate) enum Node<'t> {
    Parsed(Value<'t>),
    Null,
    Object(Entries<'t>),
    Array(Vec<Node<'t>>),
}

impl<'t> Node<'t> {
    pub(super) fn is_null(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Parsed(value) => value.is_null(),
            _ => false,
        }
    }

    /// The entries of an object, made changeable; `None` for other nodes. The last of duplicate keys stays.
    pub(super) fn object(&mut self) -> Option<&mut Entries<'t>> {
        if let Self::Parsed(value) = self
            && value.kind() == Kind::Object
        {
            let entries = canonical::sorted_entries(*value)
                .into_iter()
                .map(|(key, value)| (key.as_str().unwrap_or_default(), Self::Parsed(value)))
                .collect();
            *self = Self::Object(entries);
        }
        if let Self::Object(entries) = self {
            Some(entries)
        } else {
            None
        }
    }

    /// The items of an array, made changeable; `None` for other nodes.
    pub(super) fn array(&mut self) -> Option<&mut Vec<Node<'t>>> {
        if let Self::Parsed(value) = self
            && value.kind() == Kind::Array
        {
            *self = Self::Array(value.items().map(Self::Parsed).collect());
        }
        if let Self::Array(items) = self {
            Some(items)
        } else {
            None
        }
    }

    /// The value of a key of an object.
    pub(crate) fn member(&mut self, key: &str) -> Option<&mut Self> {
        get(self.object()?, key)
    }

    /// Sets a key of an object.
    pub(crate) fn set_member(&mut self, key: &'t str, value: Self) {
        if let Some(entries) = self.object() {
            set(entries, Cow::Borrowed(key), value);
        }
    }

    /// Removes a key of an object.
    pub(crate) fn remove_member(&mut self, key: &str) {
        if let Some(entries) = self.object() {
            remove(entries, key);
        }
    }

    /// Takes the nulls out of objects, at any depth; those that are items of arrays stay.
    ///
    /// Recurses: the caller limits the depth of what may hold a null.
    pub(super) fn discard_nulls(&mut self) {
        if let Self::Parsed(value) = self
            && !value.may_hold("null")
        {
            return;
        }
        if let Some(entries) = self.object() {
            entries.retain(|_, node| !node.is_null());
            entries.values_mut().for_each(Self::discard_nulls);
        } else if let Some(items) = self.array() {
            items.iter_mut().for_each(Self::discard_nulls);
        }
    }

    /// Appends the JSON text.
    ///
    /// Recurses over changed parts only, whose depth a patch's paths and its own nesting limit.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Parsed(value) => out.extend_from_slice(value.raw_quoted()),
            Self::Object(entries) => {
                out.push(b'{');
                for (key, value) in entries {
                    write::comma(out);
                    write::string(out, key);
                    out.push(b':');
                    value.write(out);
                }
                out.push(b'}');
            }
            Self::Array(items) => {
                out.push(b'[');
                for item in items {
                    write::comma(out);
                    item.write(out);
                }
                out.push(b']');
            }
        }
    }
}

/// The value of a key.
pub(super) fn get<'n, 't>(entries: &'n mut Entries<'t>, key: &str) -> Option<&'n mut Node<'t>> {
    entries.get_mut(key)
}

/// Sets a key.
pub(super) fn set<'t>(entries: &mut Entries<'t>, key: Cow<'t, str>, value: Node<'t>) {
    entries.insert(key, value);
}

/// Removes a key; returns its value.
pub(super) fn remove<'t>(entries: &mut Entries<'t>, key: &str) -> Option<Node<'t>> {
    entries.remove(key)
}
