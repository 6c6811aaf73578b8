//! What a pod is told about itself, when it is created and when its status is written.

use serde_json::Value;

use crate::clock::time_text;
use crate::defaults;
use crate::json::scan;
use crate::kinds::Resource;
use crate::object::Object;
use crate::specs;

/// A member of a top-level field, from the canonical bytes, which have none that is empty.
fn member<'a>(pod: &'a Object, field: &str, name: &str) -> Option<&'a [u8]> {
    pod.field(field).and_then(|bytes| scan::member(bytes, name))
}

/// The status of a new pod.
pub(super) fn initial_status(pod: &Object) -> String {
    let quality = quality_of_service(pod);
    if member(pod, "spec", "schedulingGates").is_none() {
        return format!(r#"{{"phase":"Pending","qosClass":"{quality}"}}"#);
    }
    let since = pod.meta.creation_timestamp.map(time_text).unwrap_or_default();
    format!(
        r#"{{"phase":"Pending","conditions":[{{"type":"PodScheduled","status":"False","lastProbeTime":null,"lastTransitionTime":"{since}","reason":"SchedulingGated","message":"Scheduling is blocked due to non-empty scheduling gates"}}],"qosClass":"{quality}"}}"#
    )
}

/// Keeps what is asked for a pod as a whole, where an update says nothing of it.
pub(super) fn keep_resources(resource: &Resource, old: &Object, pod: &mut Object) {
    if member(pod, "spec", "resources").is_some() || member(old, "spec", "resources").is_none() {
        return;
    }
    let before = specs::body(old)["spec"]["resources"].take();
    defaults::change(resource, pod, |fields| {
        if let Some(spec) = fields.get_mut("spec") {
            spec["resources"] = before;
        }
    });
}

/// What a status keeps that says nothing of it.
const KEPT: [&str; 5] = [
    "observedGeneration",
    "qosClass",
    "resourceClaimStatuses",
    "extendedResourceClaimStatus",
    "nodeAllocatableResourceClaimStatuses",
];

/// Keeps what clients that do not know it leave out of a status: how well the pod is served, and which generation it is
/// about.
pub(super) fn keep_in_status(resource: &Resource, old: &Object, pod: &mut Object) {
    const GENERATION: &str = "observedGeneration";
    let lacks = |field: &&str| member(pod, "status", field).is_none() && member(old, "status", field).is_some();
    let of_old = member(old, "status", "conditions").unwrap_or_default();
    let is_counted = of_old
        .windows(GENERATION.len())
        .any(|text| text == GENERATION.as_bytes());
    if !is_counted && !KEPT.iter().any(lacks) {
        return;
    }
    let before = specs::body(old)["status"].take();
    defaults::change(resource, pod, |fields| {
        let status = fields
            .entry("status")
            .or_insert_with(|| Value::Object(serde_json::Map::new()));
        for field in KEPT {
            if status[field].is_null() {
                status[field] = before[field].clone();
            }
        }
        let mut known: Vec<&Value> = before["conditions"].as_array().into_iter().flatten().collect();
        let conditions = status.get_mut("conditions").and_then(Value::as_array_mut);
        for condition in conditions.into_iter().flatten() {
            let Some(at) = known.iter().position(|old| old["type"] == condition["type"]) else {
                continue;
            };
            let old = known.remove(at);
            if condition[GENERATION].is_null() {
                condition[GENERATION] = old[GENERATION].clone();
            }
        }
    });
}

/// How well a pod is served when its node runs short: by what its containers ask for and are limited to.
fn quality_of_service(pod: &Object) -> &'static str {
    const COUNTED: [&str; 2] = ["cpu", "memory"];
    let body = specs::body(pod);
    let spec = &body["spec"];
    let containers = ["containers", "initContainers"]
        .into_iter()
        .filter_map(|list| spec[list].as_array())
        .flatten()
        .map(|container| &container["resources"]);
    let whole = &spec["resources"];
    let says_something = ["requests", "limits"]
        .iter()
        .any(|what| whole[*what].as_object().is_some_and(|amounts| !amounts.is_empty()));
    let all: Vec<&Value> = if says_something {
        // What is asked for the pod as a whole decides.
        vec![whole]
    } else {
        containers.collect()
    };
    let amount = |resources: &Value, what: &str, name: &str| {
        let amount = resources[what][name].as_str().unwrap_or("0").to_owned();
        (amount != "0").then_some(amount)
    };
    let of = |resources: &&Value, what: &str| COUNTED.map(|name| amount(resources, what, name));
    let has = |what: &str| {
        all.iter()
            .any(|resources| of(resources, what).iter().any(Option::is_some))
    };
    if !has("requests") && !has("limits") {
        return "BestEffort";
    }
    let guaranteed = all.iter().all(|resources| {
        let limits = of(resources, "limits");
        limits.iter().all(Option::is_some) && limits == of(resources, "requests")
    });
    if guaranteed { "Guaranteed" } else { "Burstable" }
}
