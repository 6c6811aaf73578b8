//! Small types of a pod: what a user keeps who needs the address, the phase and the labels only.

use std::fmt;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ApiResource;
use kube_client::{Labels, Metadata, Object, Scope};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

/// A slim pod: a `kube::Resource` with little in it.
#[derive(Debug, Clone, Deserialize, kube::Resource)]
#[resource(inherit = Pod)]
pub(crate) struct SlimPod {
    #[serde(deserialize_with = "kube_client::slim::metadata")]
    metadata: ObjectMeta,
    #[serde(default)]
    #[expect(dead_code, reason = "kept to be measured")]
    status: SlimStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "kept to be measured")]
struct SlimStatus {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
}

/// A tiny pod: metadata of its own, and nothing that has room to grow.
#[derive(Debug, Deserialize)]
pub(crate) struct TinyPod {
    metadata: TinyMeta,
    #[serde(default)]
    #[expect(dead_code, reason = "kept to be measured")]
    status: TinyStatus,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TinyMeta {
    name: Box<str>,
    namespace: Box<str>,
    uid: Box<str>,
    resource_version: Box<str>,
    #[serde(default, deserialize_with = "sorted_labels")]
    labels: Box<[(Box<str>, Box<str>)]>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "kept to be measured")]
struct TinyStatus {
    phase: Option<Phase>,
    #[serde(rename = "podIP")]
    pod_ip: Option<std::net::IpAddr>,
}

/// The phases of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
    #[serde(other)]
    Unknown,
}

fn sorted_labels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<[(Box<str>, Box<str>)]>, D::Error> {
    struct Pairs;

    impl<'de> Visitor<'de> for Pairs {
        type Value = Vec<(Box<str>, Box<str>)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("labels")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut pairs = Vec::new();
            while let Some(pair) = map.next_entry()? {
                pairs.push(pair);
            }
            pairs.sort_unstable();
            Ok(pairs)
        }
    }

    deserializer.deserialize_map(Pairs).map(Vec::into_boxed_slice)
}

impl Object for TinyPod {
    type DynamicType = ();

    fn api_resource((): &()) -> ApiResource {
        ApiResource::erase::<Pod>(&())
    }

    fn scope((): &()) -> Scope {
        Scope::Namespaced
    }

    fn metadata(&self) -> Metadata<'_> {
        Metadata {
            name: &self.metadata.name,
            namespace: Some(&self.metadata.namespace),
            uid: &self.metadata.uid,
            resource_version: &self.metadata.resource_version,
            labels: Labels::Sorted(&self.metadata.labels),
            ..Metadata::default()
        }
    }
}
