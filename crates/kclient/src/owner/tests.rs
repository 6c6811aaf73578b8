//! What may own what, and what becomes of the references there are.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use kube::core::{ApiResource, DynamicObject};
use serde_json::json;

use super::*;

fn map(namespace: &str, name: &str, uid: &str) -> ConfigMap {
    let metadata = json!({"name": name, "namespace": namespace, "uid": uid});
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

fn secret(references: &serde_json::Value) -> Secret {
    let metadata = json!({"name": "child", "namespace": "ns", "ownerReferences": references});
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

fn owner(name: &str) -> Owner {
    Owner::new(&map("ns", name, name)).unwrap()
}

fn references(child: &Secret) -> serde_json::Value {
    serde_json::to_value(child.metadata.owner_references.as_ref().unwrap()).unwrap()
}

#[test]
fn controller_reference_is_as_the_api_has_it() {
    let mut child = secret(&json!([]));
    owner("a").controls(&mut child).unwrap();
    let expected = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "a",
        "controller": true, "blockOwnerDeletion": true,
    }]);
    assert_eq!(references(&child), expected);
    owner("a").controls(&mut child).unwrap();
    assert_eq!(references(&child), expected, "again changes nothing");
    assert!(owner("a").is_owner_of(&child));
    assert_eq!(controller_of(&child).unwrap().name, "a");

    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "ns", "uid": "u"},
    }))
    .unwrap();
    let mut child = secret(&json!([]));
    Owner::new(&deployment).unwrap().owns(&mut child).unwrap();
    let plain = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u"}]);
    assert_eq!(references(&child), plain);
    assert_eq!(controller_of(&child), None);
}

#[test]
fn object_has_one_controller_and_any_owners() {
    let mut child = secret(&json!([]));
    owner("a").controls(&mut child).unwrap();
    let before = child.clone();
    let error = owner("b").controls(&mut child).unwrap_err();
    let OwnerError::AlreadyOwned { object, owner: theirs } = &error else {
        panic!("{error}")
    };
    assert_eq!((object.to_string().as_str(), theirs.name.as_str()), ("ns/child", "a"));
    assert_eq!(child, before, "nothing was changed");

    owner("b").owns(&mut child).unwrap();
    owner("a").owns(&mut child).unwrap();
    assert_eq!(controller_of(&child).unwrap().name, "a", "it stays the controller");
    assert_eq!(references(&child).as_array().unwrap().len(), 2);
    assert!(owner("a").releases(&mut child));
    assert!(!owner("a").releases(&mut child), "there is none");
    owner("b").controls(&mut child).unwrap();
    assert_eq!(controller_of(&child).unwrap().name, "b", "free again");
    assert!(!owner("a").releases(&mut Secret::default()));
}

// The reference to a former object of the name, or in another version of the group, is the same one
#[test]
fn references_are_brought_up_to_date() {
    let former =
        json!({"apiVersion": "apps/v1beta1", "kind": "Deployment", "name": "web", "uid": "old", "controller": true});
    // Of another group, and malformed: both are none of ours.
    let other = json!({"apiVersion": "v1", "kind": "Deployment", "name": "web", "uid": "x"});
    let odd = json!({"apiVersion": "a/b/c", "kind": "", "name": "", "uid": ""});
    let mut child = secret(&json!([other, former, odd]));
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "ns", "uid": "new"},
    }))
    .unwrap();
    let owner = Owner::new(&deployment).unwrap();
    assert!(!owner.is_owner_of(&child), "that was another object");
    owner.controls(&mut child).unwrap();
    let ours = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "new",
        "controller": true, "blockOwnerDeletion": true,
    });
    assert_eq!(references(&child), json!([other, ours, odd]));
}

// Several references to former objects of the name, as when they were made without looking: one is left, or the server would find
// two controllers and refuse it for ever
#[test]
fn several_references_become_one() {
    let former = |uid: &str, controller: bool| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": uid, "controller": controller});
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "b", "uid": "b"});
    let ours = |controller: bool| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "a", "controller": controller});
    let mut child = secret(&json!([
        former("1", false),
        other,
        former("2", true),
        former("3", false)
    ]));
    owner("a").owns(&mut child).unwrap();
    assert_eq!(references(&child), json!([other, ours(true)]), "it manages it still");
    let mut child = secret(&json!([former("1", false), former("2", false), other]));
    owner("a").owns(&mut child).unwrap();
    assert_eq!(references(&child), json!([ours(false), other]));
    let mut child = secret(&json!([former("1", false), other, former("2", true)]));
    owner("a").controls(&mut child).unwrap();
    let managing: Vec<_> = child.metadata.owner_references.iter().flatten().collect();
    let managing = managing.iter().filter(|reference| reference.controller == Some(true));
    assert_eq!(managing.count(), 1);
}

#[test]
fn owners_stay_in_their_namespace() {
    let refused = |owner: &Owner, child: &mut dyn FnMut(&Owner) -> Result<(), OwnerError>| {
        let error = child(owner).unwrap_err();
        assert!(matches!(error, OwnerError::OtherNamespace { .. }), "{error}");
        error.to_string()
    };
    let elsewhere = Owner::new(&map("other", "a", "u")).unwrap();
    let mut child = secret(&json!([]));
    for text in [
        refused(&elsewhere, &mut |owner| owner.controls(&mut child)),
        refused(&elsewhere, &mut |owner| owner.owns(&mut child)),
    ] {
        assert_eq!(
            text,
            "other/a cannot own ns/child: an owner in a namespace owns only objects of that namespace"
        );
    }
    // A cluster-scoped object cannot be owned from a namespace, and a namespaced one that lacks its namespace not yet.
    let mut node = Node::default();
    node.metadata.name = Some("n".to_owned());
    refused(&elsewhere, &mut |owner| owner.controls(&mut node));
    refused(&elsewhere, &mut |owner| owner.controls(&mut Secret::default()));

    // The other way round is fine, in any namespace.
    node.metadata.uid = Some("u".to_owned());
    let cluster = Owner::new(&node).unwrap();
    cluster.controls(&mut child).unwrap();
    assert!(cluster.is_owner_of(&child));
    cluster.controls(&mut Node::default()).unwrap();
}

#[test]
fn owner_that_the_server_does_not_know_is_refused() {
    for (owner, missing) in [
        (map("ns", "", "u"), "name"),
        (map("ns", "a", ""), "uid"),
        (map("", "a", "u"), "namespace"),
    ] {
        let error = Owner::new(&owner).unwrap_err();
        assert!(
            matches!(&error, OwnerError::Unknown { missing: found, .. } if *found == missing),
            "{error}"
        );
    }
    let error = Owner::new(&map("ns", "a", "")).unwrap_err();
    assert_eq!(error.to_string(), "ConfigMap ns/a cannot own anything: it has no uid");
}

// A kind that is known at run time only: its group and kind come from the resource
#[test]
fn dynamic_objects_own_by_their_resource() {
    let resource = ApiResource {
        group: "example.com".to_owned(),
        version: "v1".to_owned(),
        api_version: "example.com/v1".to_owned(),
        kind: "Widget".to_owned(),
        plural: "widgets".to_owned(),
    };
    let mut widget = DynamicObject::new("w", &resource).within("ns");
    widget.metadata.uid = Some("u".to_owned());
    let mut child = secret(&json!([]));
    Owner::of(&widget, &resource).unwrap().controls(&mut child).unwrap();
    let reference = controller_of(&child).unwrap();
    assert_eq!(
        (reference.api_version.as_str(), reference.kind.as_str()),
        ("example.com/v1", "Widget")
    );
    let mut owned = DynamicObject::new("x", &resource).within("elsewhere");
    assert!(Owner::of(&widget, &resource).unwrap().owns(&mut owned).is_err());
}
