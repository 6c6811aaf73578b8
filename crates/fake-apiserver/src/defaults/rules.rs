//! Defaults that depend on several fields: one function for each type that has some, named in the table of defaults.

use serde_json::{Value, json};

use super::{Fields, default, items};
use crate::services::is_reachable;

fn text<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(_) => false,
    }
}

/// The object in a field, if there is one.
fn child<'a>(fields: &'a mut Fields, name: &str) -> Option<&'a mut Fields> {
    fields.get_mut(name).and_then(Value::as_object_mut)
}

/// The object in a field, made if it is absent.
fn made<'a>(fields: &'a mut Fields, name: &str) -> Option<&'a mut Fields> {
    default(fields, name, Fields::new());
    child(fields, name)
}

pub(super) fn pod(pod: &mut Fields) {
    let Some(spec) = made(pod, "spec") else { return };
    if spec
        .get("terminationGracePeriodSeconds")
        .and_then(Value::as_i64)
        .is_some_and(|seconds| seconds < 0)
    {
        spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
    }
    default(spec, "enableServiceLinks", true);
    let of_host = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for containers in ["containers", "initContainers"] {
        for container in items(spec, containers) {
            if let Some(resources) = child(container, "resources") {
                requests_from_limits(resources);
            }
            if of_host {
                for port in items(container, "ports") {
                    if port.get("hostPort").is_none_or(|port| port == 0) {
                        let port_of_container = port.get("containerPort").cloned().unwrap_or_default();
                        port.insert("hostPort".to_owned(), port_of_container);
                    }
                }
            }
        }
    }
}

/// What is limited is requested, unless less is.
fn requests_from_limits(resources: &mut Fields) {
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else {
        return;
    };
    if let Some(requests) = made(resources, "requests") {
        for (name, limit) in limits {
            requests.entry(name).or_insert(limit);
        }
    }
}

pub(super) fn pod_spec(spec: &mut Fields) {
    let account = match text(spec, "serviceAccountName") {
        "" => text(spec, "serviceAccount"),
        name => name,
    };
    let account = account.to_owned();
    if !account.is_empty() {
        spec.insert("serviceAccountName".to_owned(), account.clone().into());
        spec.insert("serviceAccount".to_owned(), account.into());
    }
}

pub(super) fn pod_status(status: &mut Fields) {
    let of_list = status
        .get("podIPs")
        .and_then(|list| list[0]["ip"].as_str())
        .map(str::to_owned);
    let single = text(status, "podIP").to_owned();
    if single.is_empty() {
        if let Some(first) = of_list {
            status.insert("podIP".to_owned(), first.into());
        }
    } else if of_list.as_ref() != Some(&single) {
        status.insert("podIPs".to_owned(), json!([{"ip": single}]));
    }
}

pub(super) fn container(container: &mut Fields) {
    if text(container, "imagePullPolicy").is_empty() {
        let policy = pull_policy(text(container, "image"));
        container.insert("imagePullPolicy".to_owned(), policy.into());
    }
}

/// An image that may change under its name is always pulled; what is no name of an image never changes.
fn pull_policy(image: &str) -> &'static str {
    let (named, digest) = match image.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (image, None),
    };
    let last = named.rsplit('/').next().unwrap_or_default();
    let (name, tag) = match last.split_once(':') {
        Some((_, tag)) => (&named[..named.len() - tag.len() - 1], Some(tag)),
        None => (named, None),
    };
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_tag = |tag: &str| {
        tag.len() <= 128 && tag.starts_with(is_word) && tag.chars().all(|c| is_word(c) || matches!(c, '.' | '-'))
    };
    let is_digest = |digest: &str| {
        digest
            .split_once(':')
            .is_some_and(|(_, hex)| hex.len() >= 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    let valid = is_image_name(name) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest);
    match (valid, tag, digest) {
        (true, Some("latest"), _) | (true, None, None) => "Always",
        _ => "IfNotPresent",
    }
}

/// Whether this is the name of a repository: parts in lower case, the first of which may be a host.
fn is_image_name(name: &str) -> bool {
    let is_host = |part: &str| part == "localhost" || part.contains(['.', ':']) || part.chars().any(char::is_uppercase);
    let path = match name.split_once('/') {
        Some((host, path)) if is_host(host) => {
            let of_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
            if !host.chars().all(of_host) {
                return false;
            }
            path
        }
        _ => name,
    };
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    path.split('/').all(|part| {
        part.starts_with(edge) && part.ends_with(edge) && part.chars().all(|c| edge(c) || matches!(c, '.' | '_' | '-'))
    })
}

pub(super) fn volume(volume: &mut Fields) {
    if volume.keys().all(|name| name == "name") {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    if let Some(image) = child(volume, "image")
        && text(image, "pullPolicy").is_empty()
    {
        let policy = pull_policy(text(image, "reference"));
        image.insert("pullPolicy".to_owned(), policy.into());
    }
}

pub(super) fn node_status(status: &mut Fields) {
    if let Some(capacity) = status.get("capacity").cloned() {
        default(status, "allocatable", capacity);
    }
}

pub(super) fn limit_range_item(item: &mut Fields) {
    if text(item, "type") != "Container" {
        return;
    }
    for (to, sources) in [("default", &["max"][..]), ("defaultRequest", &["default", "min"])] {
        for from in sources {
            let Some(Value::Object(values)) = item.get(*from).cloned() else {
                continue;
            };
            if let Some(defaults) = made(item, to) {
                for (name, value) in values {
                    defaults.entry(name).or_insert(value);
                }
            }
        }
    }
}

pub(super) fn replication_controller(spec: &mut Fields) {
    let labels = spec
        .get("template")
        .and_then(|template| template.pointer("/metadata/labels"));
    if let Some(labels) = labels.cloned()
        && is_empty(spec.get("selector"))
    {
        spec.insert("selector".to_owned(), labels);
    }
}

pub(super) fn service(service: &mut Fields) {
    if service.get("spec").is_none_or(|spec| spec["type"] != "LoadBalancer") {
        return;
    }
    let balancer = child(service, "status").and_then(|status| child(status, "loadBalancer"));
    if let Some(balancer) = balancer {
        for ingress in items(balancer, "ingress") {
            if !text(ingress, "ip").is_empty() {
                default(ingress, "ipMode", "VIP");
            }
        }
    }
}

pub(super) fn service_spec(spec: &mut Fields) {
    let kind = text(spec, "type").to_owned();
    match text(spec, "sessionAffinity") {
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            let config = spec.get("sessionAffinityConfig");
            if config.is_none_or(|config| config.pointer("/clientIP/timeoutSeconds").is_none()) {
                let config = json!({"clientIP": {"timeoutSeconds": 10_800}});
                spec.insert("sessionAffinityConfig".to_owned(), config);
            }
        }
        _ => {}
    }
    if is_reachable(spec) && text(spec, "externalTrafficPolicy").is_empty() {
        spec.insert("externalTrafficPolicy".to_owned(), "Cluster".into());
    }
    if matches!(kind.as_str(), "LoadBalancer" | "NodePort" | "ClusterIP") {
        default(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        default(spec, "allocateLoadBalancerNodePorts", true);
    }
}

pub(super) fn service_port(port: &mut Fields) {
    let target = port.get("targetPort");
    if target.is_none_or(|target| target == 0 || target == "") {
        let own = port.get("port").cloned().unwrap_or_else(|| 0.into());
        port.insert("targetPort".to_owned(), own);
    }
}

/// Fills in how a rolling update goes, if that is what the strategy is.
fn rolling_update(strategy: &mut Fields, unavailable: impl Into<Value>, surge: impl Into<Value>) {
    if text(strategy, "type") == "RollingUpdate"
        && let Some(rolling) = made(strategy, "rollingUpdate")
    {
        default(rolling, "maxUnavailable", unavailable);
        default(rolling, "maxSurge", surge);
    }
}

pub(super) fn deployment_strategy(strategy: &mut Fields) {
    rolling_update(strategy, "25%", "25%");
}

pub(super) fn daemon_set_strategy(strategy: &mut Fields) {
    rolling_update(strategy, 1, 0);
}

/// The templates of claims are stored as whole objects.
pub(super) fn stateful_set(spec: &mut Fields) {
    for claim in items(spec, "volumeClaimTemplates") {
        for (field, value) in [("apiVersion", "v1"), ("kind", "PersistentVolumeClaim")] {
            if text(claim, field).is_empty() {
                claim.insert(field.to_owned(), value.into());
            }
        }
    }
}

pub(super) fn stateful_set_strategy(strategy: &mut Fields) {
    if text(strategy, "type").is_empty() {
        strategy.insert("type".to_owned(), "RollingUpdate".into());
        default(strategy, "rollingUpdate", Fields::new());
    }
    if text(strategy, "type") == "RollingUpdate"
        && let Some(rolling) = child(strategy, "rollingUpdate")
    {
        default(rolling, "partition", 0);
        default(rolling, "maxUnavailable", 1);
    }
}

pub(super) fn job(job: &mut Fields) {
    let Some(spec) = made(job, "spec") else { return };
    if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
        default(spec, "completions", 1);
    }
    default(spec, "parallelism", 1);
    let limit = if spec.contains_key("backoffLimitPerIndex") {
        i32::MAX
    } else {
        6
    };
    default(spec, "backoffLimit", limit);
    default(spec, "completionMode", "NonIndexed");
    default(spec, "suspend", false);
    let replacement = if spec.contains_key("podFailurePolicy") {
        "Failed"
    } else {
        "TerminatingOrFailed"
    };
    default(spec, "podReplacementPolicy", replacement);
    default(spec, "manualSelector", false);
}

pub(super) fn scaling_behavior(behavior: &mut Fields) {
    let policy = |kind: &str, value: i32| json!({"type": kind, "value": value, "periodSeconds": 15});
    let up = json!([policy("Pods", 4), policy("Percent", 100)]);
    let down = json!([policy("Percent", 100)]);
    for (direction, policies) in [("scaleUp", up), ("scaleDown", down)] {
        if let Some(rules) = made(behavior, direction) {
            default(rules, "selectPolicy", "Max");
            default(rules, "policies", policies);
            if direction == "scaleUp" {
                default(rules, "stabilizationWindowSeconds", 0);
            }
        }
    }
}

/// Fills in which directions a network policy is about.
pub(super) fn network_policy(spec: &mut Fields) {
    if is_empty(spec.get("policyTypes")) {
        let types: &[&str] = if is_empty(spec.get("egress")) {
            &["Ingress"]
        } else {
            &["Ingress", "Egress"]
        };
        spec.insert("policyTypes".to_owned(), json!(types));
    }
}

pub(super) fn subject(subject: &mut Fields) {
    if matches!(text(subject, "kind"), "User" | "Group") && text(subject, "apiGroup").is_empty() {
        subject.insert("apiGroup".to_owned(), "rbac.authorization.k8s.io".into());
    }
}

pub(super) fn exact_count(request: &mut Fields) {
    if text(request, "allocationMode") == "ExactCount" && request.get("count").is_none_or(|count| count == 0) {
        request.insert("count".to_owned(), 1.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_pulled_always_unless_its_tag_or_digest_is_fixed() {
        for image in ["i", "i:latest", "host:5000/i", "host:5000/a/i:latest", "a.io/b/c"] {
            assert_eq!(pull_policy(image), "Always", "{image}");
        }
        let digest = format!("i@sha256:{}", "0".repeat(64));
        for image in [
            "",
            "i:1",
            "host:5000/i:1.2",
            "i@sha256:0",
            "i:latest@sha256:0",
            "I",
            "a b",
            &digest,
        ] {
            assert_eq!(pull_policy(image), "IfNotPresent", "{image}");
        }
    }
}
