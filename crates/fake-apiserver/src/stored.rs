//! What the log stores for one object: canonical bytes, and what selectors look at.

use std::sync::Arc;

use bytes::Bytes;

use crate::kinds::{Resource, SelectableField};
use crate::object::{Object, StringMap};
use crate::schemas::Shape;
use crate::selector::{FieldSelector, FieldSet, LabelSelector};

/// One stored version of an object, without type and resourceVersion, which answers add.
#[derive(Debug)]
pub(crate) struct Stored {
    /// Go's canonical JSON of the stored version. Equal objects have equal bytes.
    pub(crate) canonical: Bytes,
    labels: StringMap,
    fields: FieldSet,
    /// Of a custom resource: the form that the canonical bytes are in.
    form: Option<Arc<Shape>>,
    /// Of a custom resource: the selectable fields that were looked for.
    selectable: Option<Arc<[SelectableField]>>,
}

impl Stored {
    /// Makes the stored form of an object of `resource`.
    pub(crate) fn of(resource: &Resource, object: &Object) -> Self {
        let object = resource.to_stored(object);
        Self {
            canonical: object.to_canonical(),
            labels: object.meta.labels.clone(),
            fields: FieldSet::of(resource, &object),
            form: resource.defined.as_ref().map(|defined| Arc::clone(&defined.stored)),
            selectable: resource.defined.as_ref().map(|defined| Arc::clone(&defined.selectable)),
        }
    }

    /// The object in the version of `resource`.
    pub(crate) fn object_as(&self, resource: &Resource) -> Object {
        self.reshaped(resource)
            .unwrap_or_else(|| resource.to_served(self.object()))
    }

    fn reshaped(&self, resource: &Resource) -> Option<Object> {
        resource.reshaped(|| self.object(), self.form.as_deref())
    }

    /// Whether the fields of selectors were read off the object as the resource shows it now.
    fn has_fields_of(&self, resource: &Resource) -> bool {
        resource.defined.as_ref().is_none_or(|defined| {
            self.form.as_deref().is_some_and(|form| form.is_same(&defined.stored))
                && self.selectable.as_deref() == Some(&*defined.selectable)
        })
    }

    /// Go's canonical JSON in the version of `resource`.
    pub(crate) fn canonical_as(&self, resource: &Resource) -> Bytes {
        match (&resource.stored_as, self.reshaped(resource)) {
            (Some(_), _) => self.object_as(resource).to_canonical(),
            (None, Some(object)) => object.to_canonical(),
            (None, None) => self.canonical.clone(),
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
        if !self.labels.matches(&stored.labels) {
            return false;
        }
        let custom = self.custom.as_ref().filter(|resource| !stored.has_fields_of(resource));
        match custom {
            Some(resource) => {
                let fields = FieldSet::of(resource, &stored.object_as(resource));
                self.fields.matches(name, namespace, &fields)
            }
            None => self.fields.matches(name, namespace, &stored.fields),
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
