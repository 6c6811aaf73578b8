//! Objects as the server stores them: parsed metadata and canonical JSON segments.
//!
//! [`Object`] = [`Meta`] + the other top-level fields as canonical bytes. Canonical bytes are Go's form of the object
//! without `apiVersion`, `kind` and `metadata.resourceVersion`, which the output splices in. This module knows no
//! kind and no schema: the codec makes objects, verbs change them. Start at [`Object`].

mod input;
mod output;

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use jiff::Timestamp;

pub(crate) use output::{TypeMeta, owner_reference as write_owner, write_metadata, write_metadata_of, write_output};

use crate::json::{scan, write};

/// The name of a top-level field.
pub(crate) type FieldName = Cow<'static, str>;

/// A map of strings in key order: labels or annotations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct StringMap {
    /// Invariant: sorted by key, no key twice.
    entries: Vec<(String, String)>,
}

impl StringMap {
    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.position(key).ok().map(|at| self.entries[at].1.as_str())
    }

    /// Sets a key; returns the value it had.
    pub(crate) fn insert(&mut self, key: impl Into<String>, value: impl Into<String>) -> Option<String> {
        let (key, value) = (key.into(), value.into());
        match self.position(&key) {
            Ok(at) => Some(std::mem::replace(&mut self.entries[at].1, value)),
            Err(at) => {
                self.entries.insert(at, (key, value));
                None
            }
        }
    }

    /// The entries in key order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn position(&self, key: &str) -> Result<usize, usize> {
        self.entries.binary_search_by(|(k, _)| k.as_str().cmp(key))
    }
}

impl FromIterator<(String, String)> for StringMap {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(iter: T) -> Self {
        let mut entries: Vec<(String, String)> = iter.into_iter().collect();
        if !entries.is_sorted_by(|a, b| a.0 < b.0) {
            // A stable sort keeps the last of equal keys last; reversed, it is the first, which `dedup_by` keeps.
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            entries.reverse();
            entries.dedup_by(|a, b| a.0 == b.0);
            entries.reverse();
        }
        Self { entries }
    }
}

/// One entry of `metadata.ownerReferences`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct OwnerReference {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) controller: Option<bool>,
    pub(crate) block_owner_deletion: Option<bool>,
}

/// `metadata`, parsed. An empty string or 0 stands for an absent field, as in Go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Meta {
    pub(crate) name: String,
    pub(crate) generate_name: String,
    pub(crate) namespace: String,
    pub(crate) self_link: String,
    pub(crate) uid: String,
    /// As the client gave it; never part of the canonical bytes.
    pub(crate) resource_version: String,
    pub(crate) generation: i64,
    pub(crate) creation_timestamp: Option<Timestamp>,
    pub(crate) deletion_timestamp: Option<Timestamp>,
    pub(crate) deletion_grace_period_seconds: Option<i64>,
    pub(crate) labels: StringMap,
    pub(crate) annotations: StringMap,
    pub(crate) owner_references: Vec<OwnerReference>,
    pub(crate) finalizers: Vec<String>,
    /// The canonical JSON array; `None` when the field was absent, `[]` when it was there and empty.
    pub(crate) managed_fields: Option<Bytes>,
}

/// An object: metadata and the other top-level fields (`spec`, `status`, `data` …) as canonical JSON.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Object {
    pub(crate) meta: Meta,
    /// In output order. `apiVersion`, `kind` and `metadata` are never among them.
    pub(crate) fields: Vec<(FieldName, Bytes)>,
}

impl Object {
    /// The canonical JSON of a top-level field.
    pub(crate) fn field(&self, name: &str) -> Option<&Bytes> {
        self.fields
            .iter()
            .find(|(field, _)| field == name)
            .map(|(_, value)| value)
    }

    /// Removes a top-level field.
    pub(crate) fn remove_field(&mut self, name: &str) -> Option<Bytes> {
        let at = self.fields.iter().position(|(field, _)| field == name)?;
        Some(self.fields.remove(at).1)
    }

    /// Sets a top-level field in place, or as the last one. `value` must be canonical.
    pub(crate) fn set_field(&mut self, name: impl Into<FieldName>, value: Bytes) {
        let name = name.into();
        match self.fields.iter_mut().find(|(field, _)| *field == name) {
            Some((_, old)) => *old = value,
            None => self.fields.push((name, value)),
        }
    }

    /// The canonical form: no `apiVersion`, `kind` and `metadata.resourceVersion`. Equal objects give equal bytes.
    pub(crate) fn to_canonical(&self) -> Bytes {
        self.to_indexed().bytes
    }

    /// The canonical form, and where things are in it.
    pub(crate) fn to_indexed(&self) -> Canonical {
        let fields: usize = self
            .fields
            .iter()
            .map(|(name, value)| name.len() + value.len() + 4)
            .sum();
        let mut out = Vec::with_capacity(fields + 384 + self.meta.managed_fields.as_ref().map_or(0, Bytes::len));
        out.extend_from_slice(METADATA);
        let labels = output::metadata(&self.meta, &mut out);
        let metadata_end = out.len();
        self.write_fields(&mut out);
        Canonical {
            // What is stored must not hold the room that it did not need.
            bytes: Bytes::from(out.into_boxed_slice()),
            labels,
            metadata_end,
        }
    }

    /// Appends all but the metadata, up to the end.
    fn write_fields(&self, out: &mut Vec<u8>) {
        for (name, value) in &self.fields {
            write::comma(out);
            write::string(out, name);
            out.push(b':');
            out.extend_from_slice(value);
        }
        out.push(b'}');
    }

    /// Reads the canonical form back; the fields share the memory of `canonical`.
    ///
    /// # Panics
    ///
    /// Only on bytes that [`Object::to_canonical`] did not make.
    pub(crate) fn from_canonical(canonical: &Bytes) -> Self {
        input::read(canonical)
    }
}

/// The canonical form of an object, and where things are in it.
#[derive(Debug)]
pub(crate) struct Canonical {
    pub(crate) bytes: Bytes,
    /// Where the labels are; empty if there are none.
    pub(crate) labels: Range<usize>,
    metadata_end: usize,
}

impl Canonical {
    /// The other top-level fields of the object that this is the form of: name, where the value starts, and the value.
    pub(crate) fn fields<'o>(&self, object: &'o Object) -> impl Iterator<Item = (&'o str, usize, &'o [u8])> {
        let mut end = self.metadata_end;
        object.fields.iter().map(move |(name, value)| {
            let start = scan::value_end(&self.bytes, end + 1) + 1;
            end = start + value.len();
            (&**name, start, &**value)
        })
    }
}

/// Appends the canonical form without `managedFields`.
pub(crate) fn write_unmanaged(object: &Object, out: &mut Vec<u8>) {
    out.extend_from_slice(METADATA);
    output::unmanaged(&object.meta, out);
    object.write_fields(out);
}

/// What canonical bytes start with; the metadata follow.
const METADATA: &[u8] = b"{\"metadata\":";
