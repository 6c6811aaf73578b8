//! What is wrong with the body of an object of a built-in kind: the findings of a 422, in the server's order and words.
//!
//! One file for each family of kinds; all of them walk JSON with [`at::At`], which knows its path, and add to
//! [`found::Findings`]. They see objects that have their defaults. What is not looked at is in the README's table.
//! Start at [`validate`].

mod at;
mod cluster;
mod config;
mod cron;
mod found;
mod jobs;
mod net;
mod pod;
mod service;
mod values;
mod workloads;

pub(crate) use at::At;
pub(crate) use found::Findings;
pub(crate) use net::is_ipv6;
pub(crate) use service::addresses as addresses_of_service;

use serde_json::{Map, Value};

use crate::kinds::Resource;
use crate::object::Object;
use crate::validation::{FieldError, Written};

/// What is looked at: the fields of an object beside its metadata, of the one that is written and of the one that it
/// replaces.
pub(crate) struct Bodies<'a> {
    pub(crate) written: &'a Written<'a>,
    pub(crate) new: Value,
    pub(crate) old: Option<Value>,
}

impl Bodies<'_> {
    /// A top-level field.
    pub(crate) fn at(&self, field: &str) -> At<'_> {
        At::new(field, &self.new[field])
    }

    /// The same of what is replaced; null if nothing is.
    pub(crate) fn old(&self, field: &str) -> At<'_> {
        At::new(field, self.old.as_ref().map_or(&Value::Null, |old| &old[field]))
    }

    /// Whether an object is replaced.
    pub(crate) fn is_update(&self) -> bool {
        self.old.is_some()
    }
}

/// The fields of an object beside its metadata.
pub(crate) fn body(object: &Object) -> Value {
    let fields: Map<String, Value> = object
        .fields
        .iter()
        // Canonical bytes of a decoded object.
        .filter_map(|(name, bytes)| Some((name.to_string(), serde_json::from_slice(bytes).ok()?)))
        .collect();
    Value::Object(fields)
}

type Validate = fn(&Bodies<'_>, &mut Findings);

/// What looks at objects of a resource, or at their status where that is written.
fn rules(resource: &Resource, of_status: bool) -> Option<Validate> {
    let kind = (resource.group.as_ref(), resource.plural.as_ref());
    if of_status {
        return rules_of_status(kind);
    }
    Some(match kind {
        ("", "services") => service::validate,
        ("", "pods") => pod::validate,
        ("", "podtemplates") => workloads::pod_template,
        ("", "replicationcontrollers") => workloads::replication_controller,
        ("apps", "deployments") => workloads::deployment,
        ("apps", "replicasets") => workloads::replica_set,
        ("apps", "daemonsets") => workloads::daemon_set,
        ("apps", "statefulsets") => workloads::stateful_set,
        ("batch", "jobs") => jobs::job,
        ("batch", "cronjobs") => jobs::cron_job,
        ("", "configmaps") => config::config_map,
        ("", "secrets") => config::secret,
        ("", "persistentvolumeclaims") => cluster::claim,
        ("", "persistentvolumes") => cluster::volume,
        ("rbac.authorization.k8s.io", "roles") => cluster::role,
        ("rbac.authorization.k8s.io", "clusterroles") => cluster::cluster_role,
        ("rbac.authorization.k8s.io", "rolebindings") => cluster::role_binding,
        ("rbac.authorization.k8s.io", "clusterrolebindings") => cluster::cluster_role_binding,
        ("policy", "poddisruptionbudgets") => cluster::budget,
        ("autoscaling", "horizontalpodautoscalers") => cluster::autoscaler,
        ("networking.k8s.io", "networkpolicies") => cluster::network_policy,
        ("networking.k8s.io", "ingresses") => cluster::ingress,
        ("storage.k8s.io", "storageclasses") => cluster::storage_class,
        ("scheduling.k8s.io", "priorityclasses") => cluster::priority_class,
        ("coordination.k8s.io", "leases") => cluster::lease,
        _ => return None,
    })
}

fn rules_of_status(kind: (&str, &str)) -> Option<Validate> {
    Some(match kind {
        ("", "services") => service::validate_status,
        ("", "pods") => pod::status::validate,
        ("apps", "deployments") => workloads::deployment_status,
        ("", "replicationcontrollers") | ("apps", "replicasets") => workloads::replica_set_status,
        ("apps", "daemonsets") => workloads::daemon_set_status,
        ("apps", "statefulsets") => workloads::stateful_set_status,
        ("policy", "poddisruptionbudgets") => cluster::budget_status,
        ("autoscaling", "horizontalpodautoscalers") => cluster::autoscaler_status,
        ("networking.k8s.io", "ingresses") => cluster::ingress_status,
        _ => return None,
    })
}

/// What is wrong with the body of an object.
pub(crate) fn validate(resource: &Resource, written: &Written<'_>) -> Vec<FieldError> {
    if resource.custom {
        return Vec::new();
    }
    let Some(validate) = rules(resource, written.of_status) else {
        return Vec::new();
    };
    let bodies = Bodies {
        written,
        new: body(written.new),
        old: written.old.map(body),
    };
    let mut found = Findings::default();
    validate(&bodies, &mut found);
    found.into_errors()
}
