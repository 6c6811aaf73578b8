//! What the log stores for one object: canonical bytes, and what selectors look at.

use bytes::Bytes;

use crate::kinds::Resource;
use crate::object::{Object, StringMap};
use crate::selector::{FieldSelector, FieldSet, LabelSelector};

/// One stored version of an object, without type and resourceVersion, which answers add.
#[derive(Debug)]
pub(crate) struct Stored {
    /// Go's canonical JSON of the stored version. Equal objects have equal bytes.
    pub(crate) canonical: Bytes,
    labels: StringMap,
    fields: FieldSet,
}

impl Stored {
    /// Makes the stored form of an object of `resource`.
    pub(crate) fn of(resource: &Resource, object: &Object) -> Self {
        let object = resource.to_stored(object);
        Self {
            canonical: object.to_canonical(),
            labels: object.meta.labels.clone(),
            fields: FieldSet::of(resource, &object),
        }
    }

    /// The object in the version of `resource`.
    pub(crate) fn object_as(&self, resource: &Resource) -> Object {
        resource.to_served(self.object())
    }

    /// Go's canonical JSON in the version of `resource`.
    pub(crate) fn canonical_as(&self, resource: &Resource) -> Bytes {
        match resource.stored_as {
            Some(_) => self.object_as(resource).to_canonical(),
            None => self.canonical.clone(),
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
}

impl Selection {
    /// True if it selects everything.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Whether the object stored under `key` is selected.
    pub(crate) fn matches(&self, key: &str, stored: &Stored) -> bool {
        let (namespace, name) = split_key(key);
        self.labels.matches(&stored.labels) && self.fields.matches(name, namespace, &stored.fields)
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
