//! Which objects belong to a controller: those of its selector that it owns. It takes on what nobody owns, and lets go what its
//! selector does not select any more.

use std::sync::Arc;

use serde_json::{Value, json};

use super::world::{Agent, Change, Failure, Key, World, shown, text};
use crate::kinds::Resource;
use crate::object::{Meta, Object, OwnerReference};
use crate::selector::selects;
use crate::storage::ResourceId;

/// The owner of an object that controls it.
pub(super) fn controller(meta: &Meta) -> Option<&OwnerReference> {
    meta.owner_references
        .iter()
        .find(|owner| owner.controller == Some(true))
}

/// The controllers of `kind` that a change of an object concerns, by name; nothing if it has none, so that any may be
/// concerned whose selector selects it.
pub(super) fn concerned(change: &Change, kind: &str) -> Option<Vec<String>> {
    let of = |object: &Option<Object>| {
        let owner = object.as_ref().and_then(|object| controller(&object.meta).cloned());
        owner.filter(|owner| owner.kind == kind).map(|owner| owner.name)
    };
    let is_free = change
        .cur
        .as_ref()
        .is_some_and(|object| controller(&object.meta).is_none());
    let mut names: Vec<String> = [of(&change.prev), of(&change.cur)].into_iter().flatten().collect();
    names.dedup();
    (!is_free || !names.is_empty()).then_some(names)
}

/// The reference by which an object is controlled.
pub(super) fn reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    })
}

/// Whether an object of a controller still counts, and may be taken on or let go.
type Counts = fn(&Object) -> bool;

/// The objects of a resource that belong to `owner`, in the order of their keys.
pub(super) async fn claim(
    world: &World<'_>,
    owner: &Value,
    (resource, id): (&Arc<Resource>, ResourceId),
    counts: Counts,
) -> Result<Vec<Value>, Failure> {
    let uid = text(owner, "/metadata/uid");
    let selector = &owner["spec"]["selector"];
    let is_going = owner["metadata"]["deletionTimestamp"].is_string();
    let mut claimed = Vec::new();
    for (object, version) in world.stored_in(id, text(owner, "/metadata/namespace")) {
        let stored = version.object.object();
        if !counts(&stored) {
            continue;
        }
        let key = Key { resource: id, object };
        let meta = &stored.meta;
        let is_selected = selects(selector, |name| meta.labels.get(name));
        match controller(meta) {
            Some(of) if of.uid == uid && is_selected => claimed.push(shown(resource, &version)),
            Some(of) if of.uid == uid && !is_going => {
                let mut value = shown(resource, &version);
                if let Some(owners) = value["metadata"]["ownerReferences"].as_array_mut() {
                    owners.retain(|owner| owner["uid"] != uid);
                }
                world
                    .set_owners(
                        Agent::ControllerManager,
                        resource,
                        &key,
                        &version,
                        &value["metadata"]["ownerReferences"],
                    )
                    .await?;
            }
            None if is_selected && !is_going && meta.deletion_timestamp.is_none() => {
                let mut value = shown(resource, &version);
                let mut owners = value["metadata"]["ownerReferences"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default();
                owners.push(reference(owner));
                value["metadata"]["ownerReferences"] = owners.into();
                let owners = &value["metadata"]["ownerReferences"];
                claimed.push(
                    world
                        .set_owners(Agent::ControllerManager, resource, &key, &version, owners)
                        .await?,
                );
            }
            _ => {}
        }
    }
    Ok(claimed)
}

/// A number of an object; 0 if it is absent.
pub(super) fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}
