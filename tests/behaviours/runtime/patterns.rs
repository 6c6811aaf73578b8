//! What kube's own examples do beside controllers: caches, metadata alone, kinds that are found at run time, and objects that are
//! got, changed or made. [F21]

use futures_util::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{GroupVersionKind, PartialObjectMeta};
use kube::discovery::{ApiGroup, Discovery, Scope, pinned_kind};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Resource, ResourceExt};
use serde_json::json;

use super::map;
use crate::harness::{CustomKind, Server, cases, limited};

// [F21] a reflector fills a store, and touches the objects that changed
async fn reflector_fills_a_store(server: Server) {
    let namespace = server.namespace().await;
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), namespace.name());
    maps.create(&PostParams::default(), &map("a")).await.unwrap();
    let (store, writer) = reflector::store();
    let config = watcher::Config::default().fields("metadata.name!=kube-root-ca.crt");
    let touched = watcher(maps.clone(), config)
        .default_backoff()
        .reflect(writer)
        .touched_objects();
    let mut touched = std::pin::pin!(touched);
    let mut next = async || {
        let object = limited("an object of the reflector", touched.try_next()).await;
        object.unwrap().expect("a reflector does not end").name_any()
    };
    assert_eq!(next().await, "a");
    maps.create(&PostParams::default(), &map("b")).await.unwrap();
    assert_eq!(next().await, "b");
    limited("the store", store.wait_until_ready()).await.unwrap();
    let mut names: Vec<String> = store.state().iter().map(|map| map.name_any()).collect();
    names.sort();
    assert_eq!(names, ["a", "b"]);
    maps.delete("a", &kube::api::DeleteParams::default()).await.unwrap();
    assert_eq!(next().await, "a");
    assert_eq!(store.len(), 1);
}

// [F4] [F21] a watcher of metadata gets nothing else
async fn metadata_is_watched_alone(server: Server) {
    let namespace = server.namespace().await;
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), namespace.name());
    let mut object = map("a");
    object.data = Some([("k".to_owned(), "v".to_owned())].into());
    object.labels_mut().insert("l".to_owned(), "m".to_owned());
    maps.create(&PostParams::default(), &object).await.unwrap();
    let config = watcher::Config::default().labels("l=m");
    let metadata: Api<PartialObjectMeta<ConfigMap>> = Api::namespaced(server.client(), namespace.name());
    let mut objects = std::pin::pin!(watcher(metadata, config).applied_objects());
    let mut next = async || {
        let object = limited("an object of the watcher", objects.try_next()).await;
        object.unwrap().expect("a watcher does not end")
    };
    let first = next().await;
    assert_eq!(
        (first.name_any().as_str(), &first.labels()["l"]),
        ("a", &"m".to_owned())
    );
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"n": "1"}}}));
    maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(next().await.annotations()["n"], "1");
}

// [F18] [F21] kinds are found by discovery, and their objects are used without types
async fn kinds_are_found_at_run_time(server: Server) {
    let kind = CustomKind::register(&server, |_| {}).await;
    let namespace = server.namespace().await;
    let client = server.client();
    let discovery = Discovery::new(client.clone())
        .filter(&[kind.group.as_str(), "apps"])
        .run()
        .await
        .unwrap();
    let groups: Vec<&str> = discovery.groups().map(ApiGroup::name).collect();
    assert!(
        groups.contains(&"apps") && groups.contains(&kind.group.as_str()),
        "{groups:?}"
    );
    let gvk = GroupVersionKind::gvk(&kind.group, "v1", "Widget");
    let (resource, capabilities) = discovery.resolve_gvk(&gvk).expect("a kind that is served");
    assert_eq!(
        (resource.plural.as_str(), capabilities.scope),
        ("widgets", Scope::Namespaced)
    );
    let (pinned, _) = pinned_kind(&client, &gvk).await.unwrap();
    assert_eq!(pinned, resource);

    let widgets: Api<DynamicObject> = Api::namespaced_with(client, namespace.name(), &resource);
    let widget = DynamicObject::new("w", &resource).data(json!({"spec": {"x": 1}}));
    let applied = widgets
        .patch("w", &PatchParams::apply("tests"), &Patch::Apply(&widget))
        .await
        .unwrap();
    assert_eq!(applied.data["spec"], json!({"x": 1}));
    let listed = widgets.list(&kube::api::ListParams::default()).await.unwrap();
    assert_eq!(listed.items.len(), 1);
    assert_eq!(listed.items[0].types.as_ref().expect("a type").kind, "Widget");
}

// [F8] [F9] [F21] an object is got, changed or made, and a change of another one is a conflict
async fn entries_are_changed_or_made(server: Server) {
    let namespace = server.namespace().await;
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), namespace.name());
    let set = |map: &mut ConfigMap, value: &str| {
        map.data
            .get_or_insert_default()
            .insert("k".to_owned(), value.to_owned());
    };
    for value in ["made", "changed"] {
        let entry = maps.entry("a").await.unwrap().and_modify(|map| set(map, value));
        let mut entry = entry.or_insert(|| {
            let mut new = map("a");
            set(&mut new, value);
            new
        });
        entry.commit(&PostParams::default()).await.unwrap();
        let stored = maps.get("a").await.unwrap();
        assert_eq!(stored.data.expect("data")["k"], value);
    }
    let mut late = maps
        .entry("a")
        .await
        .unwrap()
        .or_insert(|| map("a"))
        .and_modify(|map| set(map, "late"));
    let patch = Patch::Merge(json!({"data": {"k": "first"}}));
    maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
    let refused = late
        .commit(&PostParams::default())
        .await
        .expect_err("somebody else was first");
    let text = format!("{refused:?}");
    assert!(text.contains("Conflict"), "{text}");
    assert!(late.get().meta().resource_version.is_some());
}

cases![
    reflector_fills_a_store,
    metadata_is_watched_alone,
    kinds_are_found_at_run_time,
    entries_are_changed_or_made,
];
