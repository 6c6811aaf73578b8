//! Updates that are tried again on a conflict. [W3]

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kclient::{ObjectKey, Patch, PatchParams, Subresource, Writer, WriterExt};
use kube_client::Object;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{cluster, key, map, maps, value};
use crate::harness::{Server, cases};

/// A `ConfigMap` of which our program knows one entry only.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Slice {
    metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    data: SliceData,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct SliceData {
    v: String,
}

impl Object for Slice {
    type DynamicType = ();

    fn api_resource((): &()) -> kube::core::ApiResource {
        kube::core::ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&())
    }

    fn scope((): &()) -> kube_client::Scope {
        kube_client::Scope::Namespaced
    }

    fn metadata(&self) -> kube_client::Metadata<'_> {
        kube_client::Metadata {
            name: self.metadata.name.as_deref().unwrap_or_default(),
            namespace: self.metadata.namespace.as_deref(),
            uid: self.metadata.uid.as_deref().unwrap_or_default(),
            resource_version: self.metadata.resource_version.as_deref().unwrap_or_default(),
            ..kube_client::Metadata::default()
        }
    }
}

// [W3] a field unknown to our struct survives update_with_retry
async fn unknown_fields_survive(server: Server) {
    let namespace = server.namespace().await;
    let (maps, key) = (maps(&server), key(&namespace, "a"));
    maps.create_object(&map(&namespace, "a", "1")).await.unwrap();
    let unknown = Patch::Merge(json!({"data": {"unknown": "kept"}, "immutable": false}));
    maps.patch(&key, &unknown, Subresource::Main, &PatchParams::default())
        .await
        .unwrap();

    let slices = kclient::Client::<Slice>::new(&cluster(&server)).unwrap();
    let updated = slices
        .update_with_retry(&key, |slice| slice.data.v = String::from("2"))
        .await
        .unwrap();
    assert_eq!(updated.data.v, "2");
    let whole = maps.fetch(&key).await.unwrap();
    assert_eq!(
        (value(&whole), whole.data.as_ref().unwrap()["unknown"].as_str()),
        ("2", "kept")
    );
    assert_eq!(whole.immutable, Some(false));
}

// [W3] concurrent updates all count: a conflict reads and edits again
async fn concurrent_updates_lose_nothing(server: Server) {
    let namespace = server.namespace().await;
    let (maps, key) = (maps(&server), key(&namespace, "a"));
    maps.create_object(&map(&namespace, "a", "0")).await.unwrap();
    // Three at once conflict at most twice each: always within the attempts.
    let increments = (0..3).map(|_| {
        maps.update_with_retry(&key, |map| {
            let count: u32 = value(map).parse().unwrap();
            map.data = Some([("v".to_owned(), (count + 1).to_string())].into());
        })
    });
    for updated in join_all(increments).await {
        updated.unwrap();
    }
    assert_eq!(value(&maps.fetch(&key).await.unwrap()), "3");
}

// [W3] an edit that changes nothing sends nothing; an object that is gone is an error
async fn no_change_is_no_write(server: Server) {
    let namespace = server.namespace().await;
    let (maps, key) = (maps(&server), key(&namespace, "a"));
    let created = maps.create_object(&map(&namespace, "a", "1")).await.unwrap();
    let same = maps.update_with_retry(&key, |_| {}).await.unwrap();
    assert_eq!(same.metadata.resource_version, created.metadata.resource_version);
    maps.delete_object(&key).await.unwrap();
    assert!(maps.update_with_retry(&key, |_| {}).await.unwrap_err().is_not_found());
}

// [W3] create_or_update creates what is missing and edits what is there, unknown fields included
async fn create_or_update_ends_in_the_edited_state(server: Server) {
    let namespace = server.namespace().await;
    let (maps, key) = (maps(&server), key(&namespace, "a"));
    let set = |value: &'static str| {
        move |map: &mut ConfigMap| {
            map.data
                .get_or_insert_default()
                .insert("v".to_owned(), value.to_owned());
        }
    };
    let initial = || {
        let mut initial = map(&namespace, "a", "initial");
        initial.metadata.labels = Some([("made".to_owned(), "here".to_owned())].into());
        initial
    };
    let created = maps.create_or_update(&key, initial, set("1")).await.unwrap();
    let created = created.into_object();
    assert_eq!((value(&created), created.metadata.labels.is_some()), ("1", true));
    let unknown = Patch::Merge(json!({"data": {"unknown": "kept"}}));
    maps.patch(&key, &unknown, Subresource::Main, &PatchParams::default())
        .await
        .unwrap();

    let slices = kclient::Client::<Slice>::new(&cluster(&server)).unwrap();
    let never = || unreachable!("the object exists");
    slices
        .create_or_update(&key, never, |slice| slice.data.v = String::from("2"))
        .await
        .unwrap();
    let whole = maps.fetch(&key).await.unwrap();
    assert_eq!(
        (value(&whole), whole.data.as_ref().unwrap()["unknown"].as_str()),
        ("2", "kept")
    );

    // A missing namespace is not a missing object: it is the create that fails.
    let lost = ObjectKey::namespaced(&crate::harness::unique(), "a");
    let homeless = || {
        let mut object = map(&namespace, "a", "1");
        object.metadata.namespace = lost.namespace().map(str::to_owned);
        object
    };
    assert!(
        maps.create_or_update(&lost, homeless, set("1"))
            .await
            .unwrap_err()
            .is_not_found()
    );
}

cases!(
    unknown_fields_survive,
    concurrent_updates_lose_nothing,
    no_change_is_no_write,
    create_or_update_ends_in_the_edited_state,
);

// [W3] whoever is created between our read and our create is updated instead
#[tokio::test(start_paused = true)]
async fn create_or_update_survives_a_race() {
    let server = Server::fake();
    let namespace = server.namespace().await;
    let (maps, key) = (maps(&server), key(&namespace, "a"));
    let memory = server.in_memory().unwrap();
    maps.create_object(&map(&namespace, "a", "theirs")).await.unwrap();
    // The first read is told that there is nothing, as it would be a moment earlier.
    let missing = fake_apiserver::StatusFault::new(404).reason("NotFound");
    let rule = fake_apiserver::Rule::new(missing)
        .verb(fake_apiserver::Verb::Get)
        .resource("configmaps")
        .times(1);
    let early = memory.inject(rule);
    let ours = |map: &mut ConfigMap| map.immutable = Some(false);
    let result = maps
        .create_or_update(&key, || super::map(&namespace, "a", "ours"), ours)
        .await
        .unwrap()
        .into_object();
    assert_eq!(
        (value(&result), result.immutable, early.fired()),
        ("theirs", Some(false), 1)
    );
}

// [W3] an endless stream of conflicts ends with the conflict, after five attempts
#[tokio::test(start_paused = true)]
async fn endless_conflicts_are_returned() {
    let server = Server::fake();
    let namespace = server.namespace().await;
    let (maps, key) = (maps(&server), key(&namespace, "a"));
    maps.create_object(&map(&namespace, "a", "1")).await.unwrap();
    let conflict = fake_apiserver::StatusFault::new(409).reason("Conflict");
    let rule = fake_apiserver::Rule::new(conflict).verb(fake_apiserver::Verb::Patch);
    let storm = server.in_memory().unwrap().inject(rule);
    let mut edits = 0;
    let result = maps
        .update_with_retry(&key, |map| {
            edits += 1;
            map.data = None;
        })
        .await;
    assert!(result.unwrap_err().is_conflict());
    assert_eq!((edits, storm.fired()), (5, 5));
}
