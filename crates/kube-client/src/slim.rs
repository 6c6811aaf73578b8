//! Types that keep little: the memory tool.
//!
//! A cache costs what its type keeps. A whole `Pod` of k8s-openapi takes about 20 KB, most of it for fields that a given
//! controller never reads. There are four sizes to choose from, from large to small; `docs/memory.md` has the figures, and
//! `cargo run --example pod_memory` measures them:
//!
//! 1. the whole type, by default without `managedFields`;
//! 2. metadata alone ([`Informers::metadata`](crate::Informers::metadata)), which the server sends as such;
//! 3. *slim*: a struct of your own with the fields that you read, and an `ObjectMeta` cut down by [`metadata`];
//! 4. *tiny*: a struct whose metadata is your own as well, by implementing [`Object`](crate::Object) directly.
//!
//! The skipped fields are never built: decoding a slim type is also three times faster.
//!
//! ```
//! use k8s_openapi::api::core::v1::Pod;
//! use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
//! use kube::Resource; // the derive needs feature `derive` of `kube`
//! use kube_client::{Client, InformerOptions, ObjectKey};
//! use serde::Deserialize;
//! use serde_json::json;
//! use tokio_util::sync::CancellationToken;
//!
//! /// A pod as a load balancer sees it.
//! #[derive(Debug, Clone, Deserialize, Resource)]
//! #[resource(inherit = Pod)]
//! struct SlimPod {
//!     #[serde(deserialize_with = "kube_client::slim::metadata")]
//!     metadata: ObjectMeta,
//!     #[serde(default)]
//!     status: SlimStatus,
//! }
//!
//! #[derive(Debug, Clone, Default, Deserialize)]
//! #[serde(rename_all = "camelCase")]
//! struct SlimStatus {
//!     #[serde(rename = "podIP")]
//!     pod_ip: Option<Box<str>>,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = fake_apiserver::FakeApiServer::new();
//! server.load(&json!({
//!     "apiVersion": "v1",
//!     "kind": "Pod",
//!     "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}, "annotations": {"long": "text"}},
//!     "spec": {"containers": [{"name": "c", "image": "i"}]},
//!     "status": {"podIP": "10.0.0.1"},
//! }))?;
//! let client = Client::new(kube::Client::new(server.service(), "default"))?;
//! let pods = client.informers().typed::<SlimPod>(InformerOptions::default())?;
//! client.run_and_wait(&CancellationToken::new()).await?;
//! let pod = pods.get(&ObjectKey::namespaced("default", "web")).expect("cached");
//! assert_eq!(pod.status.pod_ip.as_deref(), Some("10.0.0.1"));
//! assert_eq!(pod.metadata.labels.as_ref().map(|labels| labels["app"].as_str()), Some("web"));
//! assert_eq!(pod.metadata.annotations, None);
//! client.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! A slim type is for reading. To change an object, patch it, or fetch it whole first: writing a slim one back would delete
//! what it does not keep.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

/// Labels or annotations as pairs sorted by key, the smallest form that selectors can search: see
/// [`Labels::Sorted`](crate::Labels::Sorted).
pub type SortedLabels = Box<[(Box<str>, Box<str>)]>;

/// Decodes a map of texts as pairs sorted by key. For `#[serde(default, deserialize_with = "kube_client::slim::sorted_labels")]`.
///
/// # Errors
///
/// The deserializer's, if it is no map of texts.
pub fn sorted_labels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SortedLabels, D::Error> {
    let labels = BTreeMap::<Box<str>, Box<str>>::deserialize(deserializer)?;
    Ok(labels.into_iter().collect())
}

/// Decodes an `ObjectMeta` of which only name, namespace, uid, resourceVersion, labels, generation and deletionTimestamp are
/// kept: what caches, selectors and most controllers read. For `#[serde(deserialize_with = "kube_client::slim::metadata")]`.
///
/// Everything else is skipped while decoding and `None` afterwards; owner references too, so that work cannot be enqueued for
/// an owner from such an object.
///
/// # Errors
///
/// The deserializer's, if a kept field is not of its type.
pub fn metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    const FIELDS: &[&str] = &[
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "labels",
        "generation",
        "deletionTimestamp",
    ];
    deserializer.deserialize_struct("ObjectMeta", FIELDS, SlimMeta)
}

/// The keys of `metadata` that are kept.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Field {
    Name,
    Namespace,
    Uid,
    ResourceVersion,
    Labels,
    Generation,
    DeletionTimestamp,
    #[serde(other)]
    Other,
}

struct SlimMeta;

impl<'de> Visitor<'de> for SlimMeta {
    type Value = ObjectMeta;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the metadata of an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ObjectMeta, A::Error> {
        let mut meta = ObjectMeta::default();
        while let Some(field) = map.next_key()? {
            match field {
                Field::Name => meta.name = map.next_value()?,
                Field::Namespace => meta.namespace = map.next_value()?,
                Field::Uid => meta.uid = map.next_value()?,
                Field::ResourceVersion => meta.resource_version = map.next_value()?,
                Field::Labels => meta.labels = map.next_value()?,
                Field::Generation => meta.generation = map.next_value()?,
                Field::DeletionTimestamp => meta.deletion_timestamp = map.next_value()?,
                Field::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(meta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::lean::Lean;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    #[derive(Debug, Clone, Deserialize, kube::Resource)]
    #[resource(inherit = Pod)]
    struct SlimPod {
        #[serde(deserialize_with = "super::metadata")]
        metadata: ObjectMeta,
    }

    fn pod() -> serde_json::Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
            "annotations": {"a": "b"},
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": 30,
            "deletionTimestamp": "2026-01-02T00:00:00Z",
            "finalizers": ["f"],
            "generateName": "web-",
            "generation": 7,
            "labels": {"app": "web"},
            "managedFields": [{"manager": "m", "operation": "Update", "fieldsV1": {"f:metadata": {}}}],
            "name": "web-0",
            "namespace": "prod",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "o"}],
            "resourceVersion": "42",
            "selfLink": "/x",
            "uid": "u",
        }, "spec": {"containers": []}})
    }

    /// The metadata that is to be left of [`pod`], by way of the whole type.
    fn expected() -> ObjectMeta {
        let whole: Pod = serde_json::from_value(pod()).unwrap();
        ObjectMeta {
            annotations: None,
            creation_timestamp: None,
            deletion_grace_period_seconds: None,
            finalizers: None,
            generate_name: None,
            managed_fields: None,
            owner_references: None,
            self_link: None,
            ..whole.metadata
        }
    }

    #[test]
    fn slim_metadata_keeps_what_caches_read_and_nothing_else() {
        let text = pod().to_string();
        let plain: SlimPod = serde_json::from_str(&text).unwrap();
        let Lean(lean) = serde_json::from_str::<Lean<SlimPod>>(&text).unwrap();
        for slim in [plain, lean] {
            assert_eq!(slim.metadata, expected());
        }
        assert!(expected().deletion_timestamp.is_some());
    }

    #[test]
    fn slim_metadata_takes_null_and_absent_fields() {
        let sparse = r#"{"metadata":{"name":"a","labels":null,"namespace":null}}"#;
        let slim: SlimPod = serde_json::from_str(sparse).unwrap();
        let name = Some("a".to_owned());
        assert_eq!(
            slim.metadata,
            ObjectMeta {
                name,
                ..ObjectMeta::default()
            }
        );
    }

    #[test]
    fn slim_metadata_refuses_what_is_not_metadata() {
        for (bad, error) in [
            (r#"{"metadata":"x"}"#, "expected the metadata of an object"),
            (r#"{"metadata":{"name":1}}"#, "expected a string"),
            (r#"{"metadata":{"generation":"1"}}"#, "expected i64"),
        ] {
            let refused = serde_json::from_str::<SlimPod>(bad).unwrap_err().to_string();
            assert!(refused.contains(error), "{bad}: {refused}");
        }
    }
}
