//! The custom kind of the example: an `AccessPolicy` says who may call the workloads that its selector selects.
//!
//! Its definition may be installed while the program runs, or never.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use watershed::krt::kube::selector_of;
use watershed::krt::{Selecting, SelectorRef};

/// The spec of an `AccessPolicy`; the derive makes the kind of it.
#[derive(CustomResource, Debug, Clone, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "mesh.example",
    version = "v1",
    kind = "AccessPolicy",
    plural = "accesspolicies",
    namespaced,
    schema = "disabled",
    doc = "Who may call some workloads."
)]
pub(crate) struct AccessPolicySpec {
    /// The workloads of the policy's namespace that it is about; without one, it is about none.
    #[serde(default)]
    pub(crate) selector: Option<LabelSelector>,
    /// The service accounts that may call them, as `namespace/name`.
    #[serde(default)]
    pub(crate) allow: Vec<String>,
}

/// So that fetches find the policies of a workload by its labels.
impl Selecting for AccessPolicy {
    fn selector(&self) -> SelectorRef<'_> {
        selector_of(self, self.spec.selector.as_ref())
    }
}

/// The definition, as one would apply it with kubectl.
pub(crate) fn definition() -> Value {
    let selector = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let allow = json!({"type": "array", "items": {"type": "string"}});
    let spec = json!({"type": "object", "properties": {"selector": selector, "allow": allow}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "accesspolicies.mesh.example"},
        "spec": {
            "group": "mesh.example",
            "scope": "Namespaced",
            "names": {"plural": "accesspolicies", "singular": "accesspolicy", "kind": "AccessPolicy", "listKind": "AccessPolicyList"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    })
}
