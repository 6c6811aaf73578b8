//! Every way to make a client: whole or half, of any kind, with a transform, with indexes.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kclient::{
    Client, Filter, Informer, InformerExt, Patch, PatchParams, ReadClient, Reader, RegisterError, Selector,
    Subresource, Transform, WriteClient, WriteError, Writer, WriterExt,
};
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube_client::testing::assert_eventually;
use serde_json::json;

use super::{cluster, key, map, maps, value};
use crate::harness::{Server, cases};

// A client that only writes neither lists nor watches; one that only reads sees what it wrote
async fn halves_of_a_client(server: Server) {
    let namespace = server.namespace().await;
    let (writing, reading) = (cluster(&server), cluster(&server));
    let writer = WriteClient::<ConfigMap>::new(&writing);
    writing.sync().await;
    writer.create_object(&map(&namespace, "a", "1")).await.unwrap();
    let a = key(&namespace, "a");
    let updated = writer.update_with_retry(&a, |map| {
        map.data.get_or_insert_default().insert("v".to_owned(), "2".to_owned());
    });
    assert_eq!(value(&updated.await.unwrap()), "2");
    assert!(writing.stats().informers.is_empty());
    let reader = ReadClient::<ConfigMap>::filtered(&reading, Filter::default().namespace(namespace.name())).unwrap();
    let late = |map: &ConfigMap| map.data.clone().unwrap_or_default().into_values().collect::<Vec<_>>();
    reading.sync().await;
    reader.synced().await.unwrap();
    assert_eq!(value(&reader.get(&key(&namespace, "a")).unwrap()), "2");
    let by_value = reader.index("late", late).unwrap();
    assert_eq!(by_value.get("2").len(), 1, "complete at once");
    let other = WriteClient::<DynamicObject>::of(&writing, &ApiResource::erase::<ConfigMap>(&()));
    other.delete_object(&key(&namespace, "a")).await.unwrap();
    assert_eventually("the delete", async || by_value.get("2").len(), |found| *found == 0).await;
    writing.end().await;
    reading.end().await;
}

// A kind by its Rust type, by its resource, and by its metadata alone: each sees the same objects
async fn one_kind_by_every_constructor(server: Server) {
    let (namespace, other) = (server.namespace().await, server.namespace().await);
    for namespace in [&namespace, &other] {
        maps(&server).create_object(&map(namespace, "a", "1")).await.unwrap();
    }
    let (cluster, resource) = (cluster(&server), ApiResource::erase::<ConfigMap>(&()));
    let here = |namespaces: &crate::harness::Namespace| namespaces.name().to_owned();
    let typed = Client::<ConfigMap>::of(&cluster, &(), Filter::default()).unwrap();
    let same = Client::<ConfigMap>::new(&cluster).unwrap();
    let dynamic = Client::dynamic(&cluster, &resource, Filter::default()).unwrap();
    let partial = Client::metadata(&cluster, &resource, Filter::default()).unwrap();
    let reading = ReadClient::<PartialObjectMeta<DynamicObject>>::of(&cluster, &resource, Filter::default()).unwrap();
    let index = |map: &ConfigMap| map.metadata.namespace.clone();
    let by_namespace = typed.index("namespace", index).unwrap();
    cluster.sync().await;
    assert_eq!(cluster.stats().informers.len(), 3, "typed, dynamic and metadata");
    for namespace in [&namespace, &other] {
        let key = key(namespace, "a");
        assert!(Arc::ptr_eq(&typed.get(&key).unwrap(), &same.get(&key).unwrap()));
        assert!(dynamic.get(&key).is_some() && Arc::ptr_eq(&partial.get(&key).unwrap(), &reading.get(&key).unwrap()));
        assert_eq!(
            by_namespace.get(&here(namespace)).len(),
            typed.list(Some(namespace.name()), &Selector::default()).len()
        );
    }
    let taken = same.index("namespace", |_: &ConfigMap| ["x"]);
    assert!(matches!(taken, Err(RegisterError::IndexConflict(_))));
    cluster.end().await;
}

// [W3] a client with a transform has a part of each object: it cannot replace, but create, patch and delete
async fn client_with_a_transform_is_partial(server: Server) {
    let namespace = server.namespace().await;
    maps(&server).create_object(&map(&namespace, "a", "1")).await.unwrap();
    let cluster = cluster(&server);
    let without_data = Transform::new("no data", |map: &mut ConfigMap| map.data = None);
    let filter = || Filter::default().namespace(namespace.name());
    let client = Client::filtered(&cluster, filter().transform(without_data.clone())).unwrap();
    let same = ReadClient::filtered(&cluster, filter().transform(without_data)).unwrap();
    let Err(conflict) = Client::<ConfigMap>::filtered(&cluster, filter()) else {
        panic!("one informer has one transform")
    };
    assert!(matches!(conflict, RegisterError::TransformConflict(_)));
    cluster.sync().await;
    let read = client.get(&key(&namespace, "a")).unwrap();
    assert!(read.data.is_none() && Arc::ptr_eq(&read, &same.get(&key(&namespace, "a")).unwrap()));
    assert!(matches!(
        client.update_object(&read).await,
        Err(WriteError::PartialObject { .. })
    ));
    let status = client.update_status(&read, &super::default()).await;
    assert!(matches!(status, Err(WriteError::PartialObject { .. })));
    let patch = Patch::Merge(json!({"data": {"v": "2"}}));
    let params = PatchParams::default();
    let patched = client
        .patch(&key(&namespace, "a"), &patch, Subresource::Main, &params)
        .await;
    assert_eq!(value(&patched.unwrap()), "2");
    client.create_object(&map(&namespace, "b", "1")).await.unwrap();
    client.delete_object(&key(&namespace, "b")).await.unwrap();
    cluster.end().await;
}

cases!(
    halves_of_a_client,
    one_kind_by_every_constructor,
    client_with_a_transform_is_partial,
);
