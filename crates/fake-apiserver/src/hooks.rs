//! What single kinds do beyond their policy: found by resource once per write, never asked inside a verb.

use bytes::Bytes;
use jiff::Timestamp;

use crate::codec::{ContentType, FieldValidation, decode};
use crate::crd;
use crate::kinds::Resource;
use crate::object::Object;
use crate::validation::FieldError;

/// What a kind does beyond its policy.
#[derive(Clone, Copy)]
struct Hooks {
    /// The status of a new object, which no client sets.
    initial_status: Option<fn(&Object) -> &'static str>,
    /// Changes a new object.
    on_create: fn(&Resource, &mut Object),
    /// Changes an object whose deletion begins and that stays for now.
    on_delete: fn(&Resource, &mut Object, Timestamp) -> Marked,
    /// Whether something in the body keeps a deleted object.
    keeps: fn(&Object) -> Kept,
    /// What is wrong with the body of a new object.
    validate: fn(&Object) -> Vec<FieldError>,
}

/// Whether a deleted object stays, for a reason other than its finalizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Yes,
    No,
}

/// How the deletion timestamp is set: namespaces and definitions get neither a grace period nor a new generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marked {
    Here,
    ByHook,
}

const NONE: Hooks = Hooks {
    initial_status: None,
    on_create: |_, _| {},
    on_delete: |_, _, _| Marked::Here,
    keeps: |_| Kept::No,
    validate: |_| Vec::new(),
};

const NAMESPACE: Hooks = Hooks {
    initial_status: Some(|_| r#"{"phase":"Active"}"#),
    on_create: |_, object| {
        let name = object.meta.name.clone();
        object.meta.labels.insert("kubernetes.io/metadata.name", name);
        object.set_field("spec", Bytes::from_static(br#"{"finalizers":["kubernetes"]}"#));
    },
    on_delete: |_, object, _| {
        object.set_field("status", Bytes::from_static(br#"{"phase":"Terminating"}"#));
        Marked::ByHook
    },
    keeps: spec_finalizers,
    ..NONE
};

const DEFINITION: Hooks = Hooks {
    on_create: crd::on_create,
    on_delete: |resource, object, now| {
        crd::on_delete(resource, object, now);
        Marked::ByHook
    },
    // A definition goes when the server has removed its objects, never at once.
    keeps: |object| {
        if object.meta.deletion_timestamp.is_some() {
            Kept::No
        } else {
            Kept::Yes
        }
    },
    validate: crd::validate,
    ..NONE
};

const POD: Hooks = Hooks {
    initial_status: Some(|_| r#"{"phase":"Pending","qosClass":"BestEffort"}"#),
    ..NONE
};

fn hooks(resource: &Resource) -> Hooks {
    match (resource.group.as_ref(), resource.plural.as_ref()) {
        ("", "namespaces") => NAMESPACE,
        ("", "pods") => POD,
        ("apiextensions.k8s.io", "customresourcedefinitions") => DEFINITION,
        _ => NONE,
    }
}

/// A namespace stays until its `spec.finalizers` are empty.
fn spec_finalizers(object: &Object) -> Kept {
    #[derive(serde::Deserialize)]
    struct Spec {
        #[serde(default)]
        finalizers: Vec<String>,
    }
    let spec = object
        .field("spec")
        .and_then(|spec| serde_json::from_slice::<Spec>(spec).ok());
    if spec.is_some_and(|spec| !spec.finalizers.is_empty()) {
        Kept::Yes
    } else {
        Kept::No
    }
}

/// Replaces the status that the client sent with the one that a new object has.
pub(crate) fn reset_status(resource: &Resource, object: &mut Object) {
    match hooks(resource).initial_status {
        Some(status) => object.set_field("status", Bytes::from_static(status(object).as_bytes())),
        None => match empty_status(resource) {
            Some(status) => object.set_field("status", status),
            None => {
                object.remove_field("status");
            }
        },
    }
}

/// The status of an empty object, as Go writes it; custom resources have none.
fn empty_status(resource: &Resource) -> Option<Bytes> {
    let empty = decode(resource, ContentType::Json, b"{}", FieldValidation::Ignore).ok()?;
    empty.object.field("status").cloned()
}

/// Changes a new object before it is validated and stored.
pub(crate) fn before_create(resource: &Resource, object: &mut Object) {
    (hooks(resource).on_create)(resource, object);
}

/// Changes an object whose deletion begins and that stays for now.
pub(crate) fn on_delete(resource: &Resource, object: &mut Object, now: Timestamp) -> Marked {
    (hooks(resource).on_delete)(resource, object, now)
}

/// Whether something in the body keeps a deleted object.
pub(crate) fn keeps(resource: &Resource, object: &Object) -> Kept {
    (hooks(resource).keeps)(object)
}

/// What is wrong with the body of a new object.
pub(crate) fn validate_create(resource: &Resource, object: &Object) -> Vec<FieldError> {
    (hooks(resource).validate)(object)
}
