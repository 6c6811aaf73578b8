//! A JSON document that can be changed: nodes are the parsed bytes until somebody changes something below them.

use std::borrow::Cow;

use crate::json::{Kind, Value, write};

/// A node. Unchanged parts stay as they were parsed.
#[derive(Debug, Clone)]
pub(super) enum Node<'t> {
    Parsed(Value<'t>),
    Null,
    Object(Vec<(Cow<'t, str>, Node<'t>)>),
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
    pub(super) fn object(&mut self) -> Option<&mut Vec<(Cow<'t, str>, Node<'t>)>> {
        if let Self::Parsed(value) = self
            && value.kind() == Kind::Object
        {
            let mut entries: Vec<(Cow<'t, str>, Node<'t>)> = Vec::new();
            for (key, value) in value.entries() {
                set(&mut entries, key.as_str().unwrap_or_default(), Self::Parsed(value));
            }
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

    /// Appends the JSON text.
    ///
    /// Recurses over changed parts only, whose depth a patch's paths and its own nesting limit.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
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

/// Sets a key of an object's entries. Large objects pay for the search, but keep their order.
pub(super) fn set<'t>(entries: &mut Vec<(Cow<'t, str>, Node<'t>)>, key: Cow<'t, str>, value: Node<'t>) {
    match entries.iter_mut().find(|(existing, _)| *existing == key) {
        Some((_, old)) => *old = value,
        None => entries.push((key, value)),
    }
}

/// Removes a key; returns its value.
pub(super) fn remove<'t>(entries: &mut Vec<(Cow<'t, str>, Node<'t>)>, key: &str) -> Option<Node<'t>> {
    let at = entries.iter().position(|(existing, _)| existing == key)?;
    Some(entries.remove(at).1)
}
