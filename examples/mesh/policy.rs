//! The custom kind of the example: an `AccessPolicy` says who may call the workloads of its namespace that it selects.
//!
//! Its definition may be installed while the program runs, or never.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use watershed::kclient::WriteClient;
use watershed::krt::kube::conditions;
use watershed::krt::{Collection, Labels, StatusWriter, WithStatus};
use watershed::kube_client::Client;

/// The name of the definition.
pub(crate) const DEFINITION: &str = "accesspolicies.mesh.example";

/// The spec of an `AccessPolicy`; the derive makes the kind of it.
#[derive(CustomResource, Debug, Clone, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "mesh.example",
    version = "v1",
    kind = "AccessPolicy",
    plural = "accesspolicies",
    namespaced,
    status = "PolicyStatus",
    schema = "disabled",
    derive = "PartialEq",
    doc = "Who may call some workloads."
)]
pub(crate) struct AccessPolicySpec {
    /// The labels of the workloads that it is about; without any, it is about all of its namespace.
    #[serde(default)]
    pub(crate) selector: Labels,
    /// The service accounts that may call them, as `namespace/name`.
    #[serde(default)]
    pub(crate) allow: Vec<String>,
}

/// What the control plane tells of a policy.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub(crate) struct PolicyStatus {
    /// How many workloads it is about.
    #[serde(default)]
    pub(crate) workloads: usize,
    /// `Accepted`: whether it holds.
    #[serde(default)]
    pub(crate) conditions: Vec<Condition>,
}

impl AccessPolicy {
    /// What is wrong with it, if anything is.
    pub(crate) fn mistake(&self) -> Option<String> {
        let is_account = |text: &str| text.split('/').filter(|part| !part.is_empty()).count() == 2;
        let wrong = self.spec.allow.iter().find(|account| !is_account(account))?;
        Some(format!("{wrong:?} is no namespace/name"))
    }

    /// The status as a line for people; `None` as long as nobody has told any.
    pub(crate) fn told(&self) -> Option<String> {
        let status = self.status.as_ref()?;
        let accepted = status
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Accepted")?;
        let workloads = match status.workloads {
            1 => "1 workload".to_owned(),
            count => format!("{count} workloads"),
        };
        Some(match &*accepted.status {
            "True" => format!("accepted, for {workloads}"),
            _ => format!("{}: {}", accepted.reason, accepted.message),
        })
    }
}

/// Writes the statuses of policies. Since when a condition is as it is, it finds out when it writes: transformations read no clocks.
pub(crate) fn writer(
    cluster: &Client,
    statuses: &Collection<WithStatus<AccessPolicy, PolicyStatus>>,
) -> StatusWriter<AccessPolicy, PolicyStatus> {
    let client = WriteClient::new(cluster);
    StatusWriter::builder("mesh.example/status", client, statuses, |policy: &AccessPolicy| {
        policy.status.as_ref()
    })
    .prepare(|policy, status| {
        let live = policy.status.as_ref().map_or(&[][..], |status| &status.conditions);
        conditions::merge(live, &mut status.conditions, &Time(Timestamp::now()));
    })
    .build()
}

/// The definition, as one would apply it with kubectl.
pub(crate) fn definition() -> Value {
    let text = || json!({"type": "string"});
    let condition = json!({
        "type": "object",
        "required": ["type", "status", "reason", "message", "lastTransitionTime"],
        "properties": {
            "type": text(), "status": text(), "reason": text(), "message": text(),
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "observedGeneration": {"type": "integer", "format": "int64"},
        },
    });
    let spec = json!({"type": "object", "properties": {
        "selector": {"type": "object", "additionalProperties": text()},
        "allow": {"type": "array", "items": text()},
    }});
    let status = json!({"type": "object", "properties": {
        "workloads": {"type": "integer"},
        // One condition of each type: so others may have theirs beside ours.
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": condition,
        },
    }});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": DEFINITION},
        "spec": {
            "group": "mesh.example",
            "scope": "Namespaced",
            "names": {"plural": "accesspolicies", "singular": "accesspolicy", "kind": "AccessPolicy", "listKind": "AccessPolicyList"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
            }],
        },
    })
}
