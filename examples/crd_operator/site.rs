//! The kind that the operator is for: a web site, and its definition, made of the same Rust types.
//!
//! Owns: `Site` and how it gets onto a cluster. What is done about one is in `operator.rs`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, CustomResourceExt};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use watershed::kclient::{ObjectKey, Outcome, WriteClient, WriteError, WriterExt};
use watershed::kube_client;

/// What a user asks for.
#[derive(CustomResource, JsonSchema, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "crd-operator.example",
    version = "v1",
    kind = "Site",
    namespaced,
    status = "SiteStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Host", "type": "string", "jsonPath": ".spec.host"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#
)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SiteSpec {
    /// The image that serves the pages.
    pub(crate) image: String,
    /// The name under which the site is found.
    pub(crate) host: String,
    /// How many pods serve it.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub(crate) replicas: i32,
}

fn one() -> i32 {
    1
}

/// What the operator tells of it.
#[derive(JsonSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SiteStatus {
    /// How many pods serve it now.
    #[serde(default)]
    pub(crate) available_replicas: i32,
    /// `Ready`: whether that is as many as were asked for.
    #[serde(default)]
    #[schemars(schema_with = "conditions")]
    pub(crate) conditions: Vec<Condition>,
}

/// Conditions as every kind has them: one per type, so that several operators may each apply theirs.
fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": {"type": "string"},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "reason": {"type": "string", "minLength": 1},
                "message": {"type": "string"},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "observedGeneration": {"type": "integer", "format": "int64"},
            },
        },
    })
}

/// Installs the definition, or brings the one there is up to date. The operator need not be told: it watches for it.
pub(crate) async fn install(cluster: &kube_client::Client) -> Result<Outcome<CustomResourceDefinition>, WriteError> {
    let definitions = WriteClient::<CustomResourceDefinition>::new(cluster);
    let key = ObjectKey::cluster(Site::crd_name());
    // The versions are what this program knows of. All else, such as how versions are converted, is left as it is.
    let update = |definition: &mut CustomResourceDefinition| definition.spec.versions = Site::crd().spec.versions;
    definitions.create_or_update(&key, Site::crd, update).await
}
