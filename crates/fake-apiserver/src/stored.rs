//! What the log stores for one object: canonical bytes, and what selectors look at.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::json::{Tape, scan};
use crate::kinds::{Defined, Resource};
use crate::object::{Canonical, Object};
use crate::schemas::Shape;
use crate::selector::{FieldSelector, FieldSet, LabelSelector};

/// One stored version of an object, without type and resourceVersion, which answers add. What selectors look at is read off
/// the bytes: many small objects take little more memory than their JSON.
#[derive(Debug)]
pub(crate) struct Stored {
    /// Go's canonical JSON of the stored version. Equal objects have equal bytes.
    pub(crate) canonical: Bytes,
    /// Where the labels are in the canonical bytes; empty if there are none.
    labels: Range<u32>,
    /// Whether the object is being deleted.
    pub(crate) terminating: bool,
    fields: FieldSet,
    /// Of a custom resource: the definition by which the canonical bytes have their form, and the fields were looked for.
    defined: Option<Arc<Defined>>,
}

impl Stored {
    /// Makes the stored form of an object of `resource`.
    pub(crate) fn of(resource: &Resource, object: &Object) -> Self {
        let object = resource.to_stored(object);
        let canonical = object.to_indexed();
        let fields = FieldSet::of(resource, &object, &canonical);
        let Canonical { bytes, labels, .. } = canonical;
        // Bodies are far shorter than 4 GiB.
        let place = |at: usize| u32::try_from(at).unwrap_or_default();
        Self {
            canonical: bytes,
            labels: place(labels.start)..place(labels.end),
            terminating: object.meta.deletion_timestamp.is_some(),
            fields,
            defined: resource.defined.clone(),
        }
    }

    /// The value of a label.
    fn label(&self, key: &str) -> Option<Cow<'_, str>> {
        let labels = &self.canonical[self.labels.start as usize..self.labels.end as usize];
        if labels.contains(&b'\\') {
            let tape = Tape::parse(labels).ok()?;
            let value = tape.root().get(key)?.as_str()?;
            return Some(Cow::Owned(value.into_owned()));
        }
        let value = scan::member(labels, key)?;
        let text = std::str::from_utf8(&value[1..value.len() - 1]).ok()?;
        Some(Cow::Borrowed(text))
    }

    /// The object in the version of `resource`.
    pub(crate) fn object_as(&self, resource: &Resource) -> Object {
        self.reshaped(resource)
            .unwrap_or_else(|| resource.to_served(self.object()))
    }

    fn reshaped(&self, resource: &Resource) -> Option<Object> {
        resource.reshaped(|| self.object(), self.form())
    }

    fn form(&self) -> Option<&Shape> {
        self.defined.as_ref().map(|defined| &*defined.stored)
    }

    /// Whether the fields of selectors were read off the object as the resource shows it now.
    fn has_fields_of(&self, resource: &Resource) -> bool {
        resource.defined.as_ref().is_none_or(|wanted| {
            self.defined.as_ref().is_some_and(|defined| {
                defined.stored.is_same(&wanted.stored) && defined.selectable == wanted.selectable
            })
        })
    }

    /// Go's canonical JSON in the version of `resource`.
    pub(crate) fn canonical_as(&self, resource: &Resource) -> Cow<'_, [u8]> {
        match (&resource.stored_as, self.reshaped(resource)) {
            (Some(_), _) => Cow::Owned(self.object_as(resource).to_canonical().into()),
            (None, Some(object)) => Cow::Owned(object.to_canonical().into()),
            (None, None) => Cow::Borrowed(&self.canonical),
        }
    }

    /// The object in the stored version; its fields share the memory of the stored bytes.
    pub(crate) fn object(&self) -> Object {
        Object::from_canonical(&self.canonical)
    }
}

/// Which objects a list, watch or deletecollection covers.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    /// The custom resource that is selected from by its fields: what was stored before its definition changed is looked at
    /// anew.
    pub(crate) custom: Option<Arc<Resource>>,
}

impl Selection {
    /// True if it selects everything.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Whether the object stored under `key` is selected.
    pub(crate) fn matches(&self, key: &str, stored: &Stored) -> bool {
        let (namespace, name) = split_key(key);
        if !self.labels.matches(|key| stored.label(key)) {
            return false;
        }
        if self.fields.is_everything() {
            return true;
        }
        let custom = self.custom.as_ref().filter(|resource| !stored.has_fields_of(resource));
        match custom {
            Some(resource) => {
                let object = stored.object_as(resource);
                let canonical = object.to_indexed();
                let fields = FieldSet::of(resource, &object, &canonical);
                self.fields.matches(name, namespace, &fields, &canonical.bytes)
            }
            None => self.fields.matches(name, namespace, &stored.fields, &stored.canonical),
        }
    }
}

/// The storage key of an object: `namespace/name`, or `name` for a cluster-scoped one.
pub(crate) fn key_of(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) if !namespace.is_empty() => format!("{namespace}/{name}"),
        _ => name.to_owned(),
    }
}

/// Namespace (empty if there is none) and name of a storage key.
pub(crate) fn split_key(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}
