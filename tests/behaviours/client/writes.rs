//! Each writer with its options, on built-in and custom kinds. [W1] [W2]

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kclient::{
    Client, DeleteParams, Deleted, Filter, ObjectKey, Patch, PatchParams, Preconditions, PropagationPolicy, Selection,
    Subresource, Writer, WriterExt,
};
use kube::core::{ApiResource, DynamicObject, Expression, Selector};
use serde_json::{Value, json};

use super::{cluster, default, dry_run, key, map, maps, pod, typed, value};
use crate::harness::{CustomKind, Namespace, Server, cases};

/// The object as anybody else reads it.
async fn stored(server: &Server, namespace: &Namespace, path: &str) -> Value {
    server.get(&namespace.at(path)).await.ok()
}

// [W1] create, update and delete: what is returned is the server's object, not what was sent
async fn create_update_and_delete_return_the_servers_object(server: Server) {
    let namespace = server.namespace().await;
    let maps = maps(&server);
    let created = maps.create(&map(&namespace, "a", "1"), &default()).await.unwrap();
    let metadata = &created.metadata;
    assert!(metadata.uid.is_some() && metadata.resource_version.is_some() && metadata.creation_timestamp.is_some());
    assert_eq!(value(&created), "1");

    let mut changed = created.clone();
    changed.data = Some([("v".to_owned(), "2".to_owned())].into());
    let updated = maps.update(&changed, &default()).await.unwrap();
    assert_eq!((value(&updated), &updated.metadata.uid), ("2", &metadata.uid));
    assert_ne!(updated.metadata.resource_version, metadata.resource_version);
    assert_eq!(maps.fetch(&key(&namespace, "a")).await.unwrap(), updated);

    let Deleted::Status(status) = maps.delete_object(&key(&namespace, "a")).await.unwrap() else {
        panic!("a ConfigMap is gone at once")
    };
    assert_eq!(status.details.unwrap().uid, metadata.uid.clone().unwrap());
    assert!(maps.fetch(&key(&namespace, "a")).await.unwrap_err().is_not_found());
}

// [W1] a name that the server makes up
async fn create_with_generate_name(server: Server) {
    let namespace = server.namespace().await;
    let mut nameless = map(&namespace, "", "1");
    nameless.metadata.name = None;
    nameless.metadata.generate_name = Some("made-up-".to_owned());
    let created = maps(&server).create_object(&nameless).await.unwrap();
    assert!(created.metadata.name.unwrap().starts_with("made-up-"));
}

// [W1] update_status and patch_status write the status alone, update writes the rest alone
async fn status_and_main_resource_are_separate(server: Server) {
    let namespace = server.namespace().await;
    let pods = Client::<Pod>::new(&cluster(&server)).unwrap();
    let mut pod = pods.create_object(&pod(&namespace, "p")).await.unwrap();
    let spec = pod.spec.clone();

    pod.spec.as_mut().unwrap().containers[0].image = Some("other".to_owned());
    pod.status = Some(typed(json!({"phase": "Running", "message": "by update_status"})));
    let pod = pods.update_status(&pod, &default()).await.unwrap();
    assert_eq!(pod.spec, spec, "the spec that was sent along is ignored");
    assert_eq!(
        pod.status.as_ref().unwrap().message.as_deref(),
        Some("by update_status")
    );

    let patch = Patch::Merge(json!({"status": {"message": "by patch_status"}}));
    let pod = pods
        .patch_status(&key(&namespace, "p"), &patch, &PatchParams::default())
        .await
        .unwrap();
    let status = pod.status.as_ref().unwrap();
    assert_eq!(
        (status.message.as_deref(), status.phase.as_deref()),
        (Some("by patch_status"), Some("Running"))
    );

    let mut changed = pod.clone();
    changed.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    changed.status = Some(typed(json!({"message": "by update"})));
    let updated = pods.update_object(&changed).await.unwrap();
    assert_eq!(updated.metadata.labels, changed.metadata.labels);
    assert_eq!(updated.status, pod.status, "the status that was sent along is ignored");
}

// [W1] JSON patch and merge patch
async fn json_and_merge_patches(server: Server) {
    let namespace = server.namespace().await;
    let (maps, key) = (maps(&server), key(&namespace, "a"));
    maps.create_object(&map(&namespace, "a", "1")).await.unwrap();
    let patch = async |patch: Patch| {
        maps.patch(&key, &patch, Subresource::Main, &PatchParams::default())
            .await
            .unwrap()
    };

    let patched = patch(Patch::Json(typed(json!([
        {"op": "test", "path": "/data/v", "value": "1"},
        {"op": "add", "path": "/data/w", "value": "2"},
        {"op": "copy", "from": "/data/w", "path": "/data/x"},
        {"op": "move", "from": "/data/x", "path": "/data/y"},
        {"op": "remove", "path": "/data/y"},
    ]))))
    .await;
    assert_eq!(
        patched.data.unwrap(),
        [("v".to_owned(), "1".to_owned()), ("w".to_owned(), "2".to_owned())].into()
    );

    let patched = patch(Patch::Merge(json!({"data": {"v": null, "x": "3"}}))).await;
    assert_eq!(
        patched.data.unwrap(),
        [("w".to_owned(), "2".to_owned()), ("x".to_owned(), "3".to_owned())].into()
    );

    let failing = Patch::Json(typed(json!([{"op": "test", "path": "/data/w", "value": "other"}])));
    let error = maps
        .patch(&key, &failing, Subresource::Main, &PatchParams::default())
        .await
        .unwrap_err();
    assert!(error.is_invalid() && !error.is_conflict(), "{error}");
    assert_eq!(error.status().unwrap().code, 422);
}

// [W1] preconditions of a delete hold, by uid and by resourceVersion
async fn delete_with_preconditions(server: Server) {
    let namespace = server.namespace().await;
    let (maps, key) = (maps(&server), key(&namespace, "a"));
    let object = maps.create_object(&map(&namespace, "a", "1")).await.unwrap().metadata;
    let only_if = |uid: Option<&str>, version: Option<&str>| {
        let (uid, resource_version) = (uid.map(str::to_owned), version.map(str::to_owned));
        DeleteParams {
            preconditions: Some(Preconditions { resource_version, uid }),
            ..DeleteParams::default()
        }
    };
    assert!(
        maps.delete(&key, &only_if(Some("other"), None))
            .await
            .unwrap_err()
            .is_conflict()
    );
    assert!(
        maps.delete(&key, &only_if(None, Some("1")))
            .await
            .unwrap_err()
            .is_conflict()
    );
    let right = only_if(object.uid.as_deref(), object.resource_version.as_deref());
    assert!(matches!(maps.delete(&key, &right).await.unwrap(), Deleted::Status(_)));
}

// [W1] propagation: in the foreground an object waits for its dependents, and says so
async fn delete_in_the_foreground_returns_the_waiting_object(server: Server) {
    let namespace = server.namespace().await;
    let sets = Client::<ReplicaSet>::new(&cluster(&server)).unwrap();
    let template = json!({
        "metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]},
    });
    let set: ReplicaSet = typed(json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "a", "namespace": namespace.name()},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "a"}}, "template": template},
    }));
    sets.create_object(&set).await.unwrap();
    let foreground = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Foreground),
        ..DeleteParams::default()
    };
    let Deleted::Object(waiting) = sets.delete(&key(&namespace, "a"), &foreground).await.unwrap() else {
        panic!("it waits for its dependents")
    };
    assert!(waiting.metadata.deletion_timestamp.is_some());
    assert_eq!(waiting.metadata.finalizers.unwrap(), ["foregroundDeletion"]);
}

// [W1] delete_collection takes what the selector matches, in one namespace
async fn delete_collection_by_labels(server: Server) {
    let (namespace, other) = (server.namespace().await, server.namespace().await);
    let maps = maps(&server);
    for (namespace, name, label) in [
        (&namespace, "a", "x"),
        (&namespace, "b", "x"),
        (&namespace, "c", "y"),
        (&other, "a", "x"),
    ] {
        let mut object = map(namespace, name, "1");
        object.metadata.labels = Some([("l".to_owned(), label.to_owned())].into());
        maps.create_object(&object).await.unwrap();
    }
    let x = Selector::from_iter([Expression::Equal("l".to_owned(), "x".to_owned())]);
    let mut deleted: Vec<_> = maps
        .delete_collection(Some(namespace.name()), &x.clone().into(), &DeleteParams::default())
        .await
        .unwrap()
        .into_iter()
        .filter_map(|map| map.metadata.name)
        .collect();
    deleted.sort();
    assert_eq!(deleted, ["a", "b"]);
    assert!(maps.fetch(&key(&namespace, "a")).await.unwrap_err().is_not_found());
    maps.fetch(&key(&namespace, "c")).await.unwrap();
    maps.fetch(&key(&other, "a")).await.unwrap();
    let error = maps
        .delete_collection(
            Some(other.name()),
            &Selection::default().fields("data.v=1"),
            &DeleteParams::default(),
        )
        .await
        .unwrap_err();
    assert!(error.is_bad_request(), "a field that the kind does not know: {error}");
    maps.fetch(&key(&other, "a")).await.unwrap();
}

// [W1] delete_collection by fields, as a dry run, and with a finalizer that keeps one object
async fn delete_collection_with_options(server: Server) {
    let namespace = server.namespace().await;
    let maps = maps(&server);
    for name in ["a", "b", "c"] {
        let mut object = map(&namespace, name, "1");
        object.metadata.finalizers = (name == "b").then(|| vec!["example.com/kept".to_owned()]);
        maps.create_object(&object).await.unwrap();
    }
    let deleted = async |fields: &str, options: DeleteParams| {
        let selection = Selection::default().fields(fields);
        let deleted = maps
            .delete_collection(Some(namespace.name()), &selection, &options)
            .await;
        let names = deleted.unwrap().into_iter().filter_map(|map| map.metadata.name);
        names.collect::<std::collections::BTreeSet<_>>()
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let dry_run = || DeleteParams::default().dry_run();
    assert_eq!(deleted("metadata.name!=a", dry_run()).await, names(&["b", "c"]));
    for name in ["a", "b", "c"] {
        let kept = maps.fetch(&key(&namespace, name)).await.unwrap();
        assert_eq!(kept.metadata.deletion_timestamp, None);
    }
    let foreground = DeleteParams::foreground().grace_period(0);
    assert_eq!(deleted("metadata.name!=a", foreground).await, names(&["b", "c"]));
    let kept = maps.fetch(&key(&namespace, "b")).await.unwrap().metadata;
    assert!(kept.deletion_timestamp.is_some());
    let finalizers = kept.finalizers.unwrap();
    assert!(finalizers.contains(&"example.com/kept".to_owned()), "{finalizers:?}");
    maps.fetch(&key(&namespace, "a")).await.unwrap();
}

// [W1] grace periods: at once, the longest that there is; the type has no negative ones
async fn delete_with_a_grace_period(server: Server) {
    let namespace = server.namespace().await;
    let pods = Client::<Pod>::new(&cluster(&server)).unwrap();
    let key = key(&namespace, "p");
    let mut scheduled = pod(&namespace, "p");
    // A pod on a node waits for its kubelet; one without goes at once, whatever the period.
    scheduled.spec.as_mut().unwrap().node_name = Some("n".to_owned());
    pods.create_object(&scheduled).await.unwrap();
    let grace = |seconds| DeleteParams::default().grace_period(seconds);
    let Deleted::Object(waiting) = pods.delete(&key, &grace(u32::MAX)).await.unwrap() else {
        panic!("the kubelet is asked first")
    };
    assert_eq!(
        waiting.metadata.deletion_grace_period_seconds,
        Some(i64::from(u32::MAX)),
        "as it was asked for"
    );
    let shorter = pods.delete(&key, &grace(5)).await.unwrap();
    let Deleted::Object(waiting) = shorter else {
        panic!("it still waits")
    };
    assert_eq!(waiting.metadata.deletion_grace_period_seconds, Some(5));
    pods.delete(&key, &grace(0)).await.unwrap();
    assert!(pods.fetch(&key).await.unwrap_err().is_not_found());
}

// [W1] cluster-scoped kinds, with keys that have no namespace
async fn cluster_scoped_writes(server: Server) {
    let nodes = Client::<Node>::new(&cluster(&server)).unwrap();
    let name = crate::harness::unique();
    let node: Node = typed(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}));
    nodes.create_object(&node).await.unwrap();
    let key = ObjectKey::cluster(&name);
    let patch = Patch::Merge(json!({"spec": {"unschedulable": true}}));
    let patched = nodes
        .patch(&key, &patch, Subresource::Main, &PatchParams::default())
        .await
        .unwrap();
    assert_eq!(patched.spec.unwrap().unschedulable, Some(true));
    nodes.delete_object(&key).await.unwrap();
    assert!(nodes.fetch(&key).await.unwrap_err().is_not_found());
}

// [W1] a custom kind with a status subresource, through a client of a kind known at run time only
async fn custom_kinds_are_written_alike(server: Server) {
    let custom = CustomKind::register(&server, |definition| {
        definition["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    })
    .await;
    let namespace = server.namespace().await;
    let resource = ApiResource {
        group: custom.group.clone(),
        version: "v1".to_owned(),
        api_version: format!("{}/v1", custom.group),
        kind: "Widget".to_owned(),
        plural: "widgets".to_owned(),
    };
    let widgets = Client::dynamic(&cluster(&server), &resource, Filter::default()).unwrap();
    let (key, params) = (key(&namespace, "w"), PatchParams::default());
    let object = |spec: Value| -> DynamicObject {
        let metadata = json!({"name": "w", "namespace": namespace.name()});
        typed(json!({"apiVersion": resource.api_version, "kind": "Widget", "metadata": metadata, "spec": spec}))
    };
    let created = widgets.create_object(&object(json!({"size": 1}))).await.unwrap();
    assert_eq!(
        (&created.data["spec"]["size"], created.metadata.generation),
        (&json!(1), Some(1))
    );

    let mut changed = created.clone();
    changed.data["spec"]["size"] = json!(2);
    let updated = widgets.update_object(&changed).await.unwrap();
    assert_eq!(
        (&updated.data["spec"]["size"], updated.metadata.generation),
        (&json!(2), Some(2))
    );
    assert!(widgets.update_object(&changed).await.unwrap_err().is_conflict());

    let mut with_status = updated.clone();
    with_status.data["status"] = json!({"ready": 1});
    let updated = widgets.update_status(&with_status, &default()).await.unwrap();
    assert_eq!(
        (&updated.data["status"]["ready"], updated.metadata.generation),
        (&json!(1), Some(2))
    );
    let merge = Patch::Merge(json!({"status": {"ready": 2}}));
    let patched = widgets.patch_status(&key, &merge, &params).await.unwrap();
    assert_eq!(patched.data["status"]["ready"], 2);
    let json_patch = Patch::Json(typed(json!([{"op": "replace", "path": "/spec/size", "value": 7}])));
    let patched = widgets
        .patch(&key, &json_patch, Subresource::Main, &params)
        .await
        .unwrap();
    assert_eq!(
        (&patched.data["spec"]["size"], &patched.data["status"]["ready"]),
        (&json!(7), &json!(2))
    );

    widgets.delete_object(&key).await.unwrap();
    assert!(widgets.fetch(&key).await.unwrap_err().is_not_found());
}

// [W2] dry run answers as if, and changes nothing
async fn dry_run_changes_nothing(server: Server) {
    let namespace = server.namespace().await;
    let (maps, key) = (maps(&server), key(&namespace, "a"));
    let created = maps.create(&map(&namespace, "a", "1"), &dry_run()).await.unwrap();
    assert_eq!(value(&created), "1");
    assert!(maps.fetch(&key).await.unwrap_err().is_not_found());

    let real = maps.create_object(&map(&namespace, "a", "1")).await.unwrap();
    let before = stored(&server, &namespace, "configmaps/a").await;
    let mut changed = real.clone();
    changed.data = Some([("v".to_owned(), "2".to_owned())].into());
    assert_eq!(value(&maps.update(&changed, &dry_run()).await.unwrap()), "2");
    let patch = Patch::Merge(json!({"data": {"v": "3"}}));
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    assert_eq!(
        value(&maps.patch(&key, &patch, Subresource::Main, &params).await.unwrap()),
        "3"
    );
    maps.delete(
        &key,
        &DeleteParams {
            dry_run: true,
            ..DeleteParams::default()
        },
    )
    .await
    .unwrap();
    assert_eq!(stored(&server, &namespace, "configmaps/a").await, before);
}

cases!(
    create_update_and_delete_return_the_servers_object,
    create_with_generate_name,
    status_and_main_resource_are_separate,
    json_and_merge_patches,
    delete_with_preconditions,
    delete_in_the_foreground_returns_the_waiting_object,
    delete_collection_by_labels,
    delete_collection_with_options,
    delete_with_a_grace_period,
    cluster_scoped_writes,
    custom_kinds_are_written_alike,
    dry_run_changes_nothing,
);
