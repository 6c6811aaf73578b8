//! The kind that the histories are about: `ConfigMaps` whose entry `v` is a number. Any other does not decode.

use kube::core::ApiResource;
use kube_client::{Metadata, Object, Scope};
use serde::{Deserialize, Deserializer};

/// A `ConfigMap` that holds a number.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(in crate::informer) struct Note {
    pub(in crate::informer) metadata: NoteMeta,
    pub(in crate::informer) data: NoteData,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::informer) struct NoteMeta {
    pub(in crate::informer) name: String,
    pub(in crate::informer) namespace: String,
    pub(in crate::informer) uid: String,
    pub(in crate::informer) resource_version: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(in crate::informer) struct NoteData {
    #[serde(deserialize_with = "number")]
    pub(in crate::informer) v: u32,
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}

impl Note {
    pub(in crate::informer) fn version(&self) -> u64 {
        self.metadata
            .resource_version
            .parse()
            .expect("the server's versions are numbers")
    }
}

impl Object for Note {
    type DynamicType = ();

    fn api_resource((): &()) -> ApiResource {
        ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&())
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
            ..Metadata::default()
        }
    }
}
