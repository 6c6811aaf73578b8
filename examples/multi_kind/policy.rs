//! The custom kind of the example: a `RoutePolicy` says how long calls to a service may take and how often they are tried.
//!
//! Its definition may be installed while the program runs, or never.

use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The spec of a `RoutePolicy`; the derive makes the kind of it.
#[derive(CustomResource, Debug, Clone, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "mesh.example",
    version = "v1",
    kind = "RoutePolicy",
    plural = "routepolicies",
    namespaced,
    schema = "disabled",
    doc = "How calls to a service are made."
)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RoutePolicySpec {
    /// The name of the service, in the policy's namespace.
    pub(crate) service: String,
    /// How long a call may take.
    pub(crate) timeout_seconds: u32,
    /// How often a call is tried again.
    #[serde(default)]
    pub(crate) retries: u32,
}

/// The definition, as one would apply it with kubectl.
pub(crate) fn definition() -> Value {
    let count = json!({"type": "integer", "minimum": 0});
    let spec = json!({
        "type": "object",
        "required": ["service", "timeoutSeconds"],
        "properties": {"service": {"type": "string"}, "timeoutSeconds": count, "retries": count},
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "routepolicies.mesh.example"},
        "spec": {
            "group": "mesh.example",
            "scope": "Namespaced",
            "names": {"plural": "routepolicies", "singular": "routepolicy", "kind": "RoutePolicy", "listKind": "RoutePolicyList"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    })
}
