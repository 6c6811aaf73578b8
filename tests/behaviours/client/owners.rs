//! Owner references as servers take them. What is refused before that is tested where they are made. [W5]

use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use kclient::owner::{Owner, OwnerError, controller_of};
use kclient::{Client, DeleteParams, ObjectKey, Outcome, WriteError, Writer, WriterExt};
use serde_json::json;

use super::{cluster, key, map, maps, typed};
use crate::harness::{Namespace, Server, cases};

fn secret(namespace: &Namespace) -> Secret {
    typed(json!({"metadata": {"name": "child", "namespace": namespace.name()}}))
}

// [W5] an owned object is made, found by its owner, and refused to another; the server takes the references
async fn owned_objects_have_one_controller(server: Server) {
    let namespace = server.namespace().await;
    let (maps, secrets) = (maps(&server), Client::<Secret>::new(&cluster(&server)).unwrap());
    let one = maps.create_object(&map(&namespace, "one", "1")).await.unwrap();
    let two = maps.create_object(&map(&namespace, "two", "2")).await.unwrap();
    let (owner, other) = (Owner::new(&one).unwrap(), Owner::new(&two).unwrap());
    let (of, initial) = (key(&namespace, "child"), || secret(&namespace));

    let created = secrets
        .create_or_update(&of, initial, |child: &mut Secret| owner.controls(child))
        .await
        .unwrap();
    let Outcome::Created(child) = created else {
        panic!("there was none: {created:?}")
    };
    let reference = controller_of(&child).unwrap();
    let expected = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "one", "uid": one.metadata.uid,
        "controller": true, "blockOwnerDeletion": true,
    });
    assert_eq!(serde_json::to_value(reference).unwrap(), expected);
    let again = secrets
        .create_or_update(&of, initial, |child: &mut Secret| owner.controls(child))
        .await
        .unwrap();
    assert!(matches!(again, Outcome::Unchanged(_)), "{again:?}");

    let refused = secrets
        .create_or_update(&of, initial, |child: &mut Secret| other.controls(child))
        .await
        .unwrap_err();
    let WriteError::Edit { source, .. } = &refused else {
        panic!("{refused}")
    };
    let cause = source.downcast_ref::<OwnerError>().unwrap();
    assert!(matches!(cause, OwnerError::AlreadyOwned { .. }), "{cause}");
    assert_eq!(secrets.fetch(&of).await.unwrap(), child, "nothing was written");

    // A second owner that does not manage it is fine, and so is taking it over.
    let shared = secrets.update_with_retry(&of, |child| other.owns(child)).await.unwrap();
    assert_eq!(shared.metadata.owner_references.as_ref().unwrap().len(), 2);
    let handed_over = secrets
        .update_with_retry(&of, |child| {
            owner.releases(child);
            other.controls(child)
        })
        .await
        .unwrap();
    assert_eq!(controller_of(&handed_over).unwrap().name, "two");
    assert!(other.is_owner_of(&handed_over) && !owner.is_owner_of(&handed_over));

    // By hand, the server refuses a second controller, too.
    let mut twice = handed_over.clone();
    let references = twice.metadata.owner_references.as_mut().unwrap();
    references.push(typed(expected));
    let error = secrets.update_object(&twice).await.unwrap_err();
    assert!(error.is_invalid(), "{error}");
}

// [W5] a cluster-scoped owner, and an owner that was made anew
async fn owners_of_other_scopes_and_times(server: Server) {
    let namespace = server.namespace().await;
    let nodes = Client::<Node>::new(&cluster(&server)).unwrap();
    let secrets = Client::<Secret>::new(&cluster(&server)).unwrap();
    let name = crate::harness::unique();
    let node: Node = typed(json!({"metadata": {"name": name}}));
    let mut child = secret(&namespace);
    assert!(matches!(
        Owner::new(&node),
        Err(OwnerError::Unknown { missing: "uid", .. })
    ));
    let first = nodes.create_object(&node).await.unwrap();
    Owner::new(&first).unwrap().controls(&mut child).unwrap();
    secrets.create_object(&child).await.unwrap();
    let of = ObjectKey::cluster(&name);
    nodes.delete(&of, &DeleteParams::default()).await.unwrap();
    let second = nodes.create_object(&node).await.unwrap();
    let owner = Owner::new(&second).unwrap();
    let taken = secrets
        .update_with_retry(&key(&namespace, "child"), |child| owner.controls(child))
        .await
        .unwrap();
    let references = taken.metadata.owner_references.unwrap();
    assert_eq!(
        (references.len(), Some(&references[0].uid)),
        (1, second.metadata.uid.as_ref())
    );
    nodes.ensure_absent(&of, &DeleteParams::default()).await.unwrap();
}

// [W5] a custom kind owns by the resource it was read by
async fn custom_kinds_own(server: Server) {
    let namespace = server.namespace().await;
    let custom = crate::harness::CustomKind::register(&server, |_| ()).await;
    let stored = server
        .post(&custom.at(&namespace, ""), &custom.object("w", &json!({})))
        .await
        .created();
    let resource = kube::core::ApiResource {
        group: custom.group.clone(),
        version: "v1".to_owned(),
        api_version: format!("{}/v1", custom.group),
        kind: "Widget".to_owned(),
        plural: "widgets".to_owned(),
    };
    let widget: kube::core::DynamicObject = typed(stored);
    let owner = Owner::of(&widget, &resource).unwrap();
    let initial = || map(&namespace, "child", "1");
    let child = maps(&server)
        .create_or_update(&key(&namespace, "child"), initial, |map: &mut ConfigMap| {
            owner.controls(map)
        })
        .await
        .unwrap()
        .into_object();
    assert!(owner.is_owner_of(&child));
    let reference = controller_of(&child).unwrap();
    assert_eq!(
        (&reference.api_version, reference.kind.as_str()),
        (&resource.api_version, "Widget")
    );
}

cases!(
    owned_objects_have_one_controller,
    owners_of_other_scopes_and_times,
    custom_kinds_own,
);
