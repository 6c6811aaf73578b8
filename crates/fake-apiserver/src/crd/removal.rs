//! The end of a definition: its objects go first, and those with finalizers keep it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::names::set;
use super::{CLEANUP, Outcome, change, set_field};
use crate::clock::time_text;
use crate::kinds::Resource;
use crate::object::Object;
use crate::server::Shared;
use crate::status::{Status, Subject};
use crate::storage::{Change, Range, ResourceId, Versioned};
use crate::stored::Stored;

/// Checks that the kind of a new object is not going away.
///
/// # Errors
/// 403.
pub(crate) fn check_create(
    server: &Shared,
    resource: &Resource,
    subject: Subject<'_>,
    name: &str,
) -> Result<(), Status> {
    if !resource.custom || !is_terminating(server, resource) {
        return Ok(());
    }
    let why = "create not allowed while custom resource definition is terminating";
    Err(Status::forbidden(subject, name, why))
}

/// Whether the definition of a resource waits for its objects to be gone.
pub(crate) fn is_terminating(server: &Shared, resource: &Resource) -> bool {
    let definitions = server
        .definitions
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    !definitions.terminating.is_empty()
        && definitions
            .terminating
            .contains(&format!("{}.{}", resource.plural, resource.group))
}

/// Deletes all objects of a kind; returns whether none is left.
pub(super) fn delete_objects(server: &Shared, resource: &Resource, id: ResourceId) -> bool {
    for (key, _) in server.storage.all(id, Range::All) {
        let deleted: Result<_, std::convert::Infallible> =
            server.storage.update(id, &key, |old: Option<&Versioned<Stored>>| {
                let Some(old) = old else { return Ok(Change::Keep) };
                let mut object = old.object.object_as(resource);
                if object.meta.finalizers.is_empty() {
                    return Ok(Change::Delete);
                }
                if object.meta.deletion_timestamp.is_some() {
                    return Ok(Change::Keep);
                }
                object.meta.deletion_timestamp = Some(server.clock.now());
                object.meta.deletion_grace_period_seconds = Some(0);
                if object.meta.generation > 0 {
                    object.meta.generation += 1;
                }
                Ok(Change::Put(Arc::new(Stored::of(resource, &object))))
            });
        match deleted {
            Ok(_) => {}
            Err(never) => match never {},
        }
    }
    server.storage.count(id) == 0
}

/// Says in the status that the objects are going.
pub(super) fn say_in_progress(server: &Shared, id: ResourceId, name: &str) {
    let now = time_text(server.clock.now());
    let condition = [
        "True",
        "InstanceDeletionInProgress",
        "CustomResource deletion is in progress",
    ];
    change(server, id, name, |resource, object| {
        set_terminating(resource, object, condition, &now);
        Outcome::Store
    });
}

/// Says in the status how far the deletion is.
pub(super) fn set_terminating(resource: &Resource, object: &mut Object, condition: [&str; 3], now: &str) {
    let status = object
        .field("status")
        .and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
    let mut status = status.unwrap_or_else(|| json!({}));
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    set(&mut conditions, "Terminating", condition, now);
    status["conditions"] = conditions.into();
    set_field(resource, object, "status", &status);
}

/// Takes the finalizer of the cleanup away, and the definition with it if nothing else keeps it.
pub(super) fn finish(server: &Shared, id: ResourceId, name: &str) {
    change(server, id, name, |_, object| {
        object.meta.finalizers.retain(|finalizer| finalizer != CLEANUP);
        if object.meta.finalizers.is_empty() {
            Outcome::Remove
        } else {
            Outcome::Store
        }
    });
}
