//! What a pod is told about itself when it is created.

use serde_json::Value;

use crate::defaults;
use crate::kinds::Resource;
use crate::object::Object;
use crate::specs;

/// Keeps how well a pod is served, where a status says nothing of it.
pub(super) fn keep_quality_of_service(resource: &Resource, old: &Object, pod: &mut Object) {
    let before = specs::body(old)["status"]["qosClass"].take();
    defaults::change(resource, pod, |fields| {
        let status = fields
            .entry("status")
            .or_insert_with(|| Value::Object(serde_json::Map::new()));
        if status["qosClass"].as_str().unwrap_or_default().is_empty() {
            status["qosClass"] = before;
        }
    });
}

/// How well a pod is served when its node runs short: by what its containers ask for and are limited to.
pub(super) fn quality_of_service(pod: &Object) -> &'static str {
    const COUNTED: [&str; 2] = ["cpu", "memory"];
    let body = specs::body(pod);
    let spec = &body["spec"];
    let containers = ["containers", "initContainers"]
        .into_iter()
        .filter_map(|list| spec[list].as_array())
        .flatten()
        .map(|container| &container["resources"]);
    let all: Vec<&Value> = match &spec["resources"] {
        Value::Null => containers.collect(),
        // What is asked for the pod as a whole decides.
        whole => vec![whole],
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
