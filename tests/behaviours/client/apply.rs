//! Strategic merge patch, server-side apply and field managers. [W1]

use k8s_openapi::api::core::v1::Pod;
use kclient::{Client, Patch, PatchParams, PostParams, Subresource, Writer, WriterExt};
use serde_json::json;

use super::{cluster, key, map, maps, pod, value};
use crate::harness::{Server, cases};

// [W1] strategic merge patch: lists merge by key
async fn strategic_patches_merge_lists_by_key(server: Server) {
    let namespace = server.namespace().await;
    let pods = Client::<Pod>::new(&cluster(&server)).unwrap();
    pods.create_object(&pod(&namespace, "p")).await.unwrap();
    let container = json!({"name": "main", "image": "registry.example/app:2"});
    let patch = Patch::Strategic(json!({"spec": {"containers": [container]}}));
    let key = key(&namespace, "p");
    let patched = pods
        .patch(&key, &patch, Subresource::Main, &PatchParams::default())
        .await
        .unwrap();
    let container = &patched.spec.unwrap().containers[0];
    assert_eq!(
        (container.name.as_str(), container.image.as_deref()),
        ("main", Some("registry.example/app:2"))
    );
    assert!(container.termination_message_path.is_some(), "the other fields stay");
}

// [W1] server-side apply creates, owns, conflicts and forces
async fn apply_owns_fields_and_conflicts(server: Server) {
    let namespace = server.namespace().await;
    let (maps, key) = (maps(&server), key(&namespace, "a"));
    let wanted = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": value}});
    let applied = maps
        .apply(&key, &wanted("1"), &PatchParams::apply("one"))
        .await
        .unwrap();
    assert_eq!(value(&applied), "1");
    assert_eq!(
        applied.metadata.managed_fields.unwrap()[0].manager.as_deref(),
        Some("one")
    );

    let conflict = maps
        .apply(&key, &wanted("2"), &PatchParams::apply("two"))
        .await
        .unwrap_err();
    assert!(conflict.is_conflict());
    let causes = &conflict.status().unwrap().details.as_ref().unwrap().causes;
    assert_eq!(
        (causes[0].reason.as_str(), causes[0].field.as_str()),
        ("FieldManagerConflict", ".data.v")
    );

    let force = PatchParams::apply("two").force();
    let dry = maps.apply(&key, &wanted("2"), &force.clone().dry_run()).await.unwrap();
    assert_eq!(value(&dry), "2");
    assert_eq!(value(&maps.fetch(&key).await.unwrap()), "1", "it was a dry run");
    let forced = maps.apply(&key, &wanted("2"), &force).await.unwrap();
    assert_eq!(value(&forced), "2");
    let strict = PatchParams::apply("two").validation_strict();
    let odd = json!({"apiVersion": "v1", "kind": "ConfigMap", "dota": {"v": "3"}});
    let error = maps.apply(&key, &odd, &strict).await.unwrap_err();
    assert!(error.to_string().contains("dota"), "{error}");
}

// [W1] the client's own field manager stands in where none is named, also in an apply
async fn clients_have_a_field_manager(server: Server) {
    let namespace = server.namespace().await;
    let maps = maps(&server).with_field_manager("house");
    let managers = |map: k8s_openapi::api::core::v1::ConfigMap| {
        let entries = map.metadata.managed_fields.unwrap();
        let mut managers: Vec<_> = entries.into_iter().filter_map(|entry| entry.manager).collect();
        managers.sort();
        managers
    };
    let created = maps.create_object(&map(&namespace, "a", "1")).await.unwrap();
    assert_eq!(managers(created), ["house"]);
    let edit = |map: &mut k8s_openapi::api::core::v1::ConfigMap| map.immutable = Some(false);
    let edited = maps.update_with_retry(&key(&namespace, "a"), edit).await.unwrap();
    assert_eq!(managers(edited), ["house"]);
    let fields = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"w": "2"}});
    let silent = PatchParams::default();
    let applied = maps.apply(&key(&namespace, "b"), &fields, &silent).await.unwrap();
    assert_eq!(managers(applied), ["house"]);
    let named = PatchParams::apply("guest");
    let applied = maps.apply(&key(&namespace, "c"), &fields, &named).await.unwrap();
    assert_eq!(managers(applied), ["guest"]);
}

// [W1] apply_status applies to the status alone
async fn apply_status_writes_the_status(server: Server) {
    let namespace = server.namespace().await;
    let pods = Client::<Pod>::new(&cluster(&server)).unwrap();
    let spec = pods.create_object(&pod(&namespace, "p")).await.unwrap().spec;
    let status = json!({"apiVersion": "v1", "kind": "Pod", "status": {"message": "applied"}});
    let applied = pods
        .apply_status(&key(&namespace, "p"), &status, &PatchParams::apply("kubelet"))
        .await
        .unwrap();
    assert_eq!(applied.status.unwrap().message.as_deref(), Some("applied"));
    assert_eq!(applied.spec, spec);
}

// [W1] the field managers of a create and of an update are recorded
async fn field_managers_are_recorded(server: Server) {
    let namespace = server.namespace().await;
    let maps = maps(&server);
    let by = |manager: &str| PostParams {
        field_manager: Some(manager.to_owned()),
        ..PostParams::default()
    };
    let mut created = maps.create(&map(&namespace, "a", "1"), &by("creator")).await.unwrap();
    created.data.as_mut().unwrap().insert("w".to_owned(), "2".to_owned());
    let updated = maps.update(&created, &by("updater")).await.unwrap();
    let entries = updated.metadata.managed_fields.unwrap();
    let mut managers: Vec<_> = entries.into_iter().filter_map(|entry| entry.manager).collect();
    managers.sort();
    assert_eq!(managers, ["creator", "updater"]);
}

cases!(
    strategic_patches_merge_lists_by_key,
    apply_owns_fields_and_conflicts,
    clients_have_a_field_manager,
    apply_status_writes_the_status,
    field_managers_are_recorded,
);
