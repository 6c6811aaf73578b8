//! Roles, budgets, autoscalers, network policies, ingresses, claims and classes.

use serde_json::Value;

use super::service::balancer_ingress;
use super::values::{at_most_all, count_or_percent, milli, quantity_not_negative, selector};
use super::{At, Bodies, Findings, net};
use crate::gotext::go_quote;
use crate::object::Object;
use crate::validation::{ErrorKind, label_errors, subdomain_errors};

const RBAC: &str = "rbac.authorization.k8s.io";

fn policy_rules(bodies: &Bodies<'_>, namespaced: bool, found: &mut Findings) {
    for rule in bodies.at("rules").items() {
        let (verbs, urls) = (rule.field("verbs"), rule.field("nonResourceURLs"));
        if verbs.is_empty() {
            found.required_late(&verbs);
        }
        let of_resources = ["apiGroups", "resources", "resourceNames"];
        if !urls.is_empty() {
            if namespaced {
                found.invalid(&urls, "namespaced rules cannot apply to non-resource URLs");
            }
            if of_resources.iter().any(|field| !rule.field(field).is_empty()) {
                found.invalid(
                    &urls,
                    "rules cannot apply to both regular resources and non-resource URLs",
                );
            }
            continue;
        }
        for (field, what) in [("apiGroups", "api group"), ("resources", "resource")] {
            if rule.field(field).is_empty() {
                found.required(
                    &rule.field(field),
                    &format!("resource rules must supply at least one {what}"),
                );
            }
        }
    }
}

pub(super) fn role(bodies: &Bodies<'_>, found: &mut Findings) {
    policy_rules(bodies, true, found);
}

pub(super) fn cluster_role(bodies: &Bodies<'_>, found: &mut Findings) {
    policy_rules(bodies, false, found);
    let aggregation = bodies.at("aggregationRule");
    if aggregation.is_set() {
        let selectors = aggregation.field("clusterRoleSelectors");
        if selectors.is_empty() {
            let text = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            found.required(&selectors, text);
        }
        for at in selectors.items() {
            selector(found, &at);
        }
    }
}

pub(super) fn role_binding(bodies: &Bodies<'_>, found: &mut Findings) {
    binding(bodies, true, found);
}

pub(super) fn cluster_role_binding(bodies: &Bodies<'_>, found: &mut Findings) {
    binding(bodies, false, found);
}

fn binding(bodies: &Bodies<'_>, namespaced: bool, found: &mut Findings) {
    let role = bodies.at("roleRef");
    let (group, kind, name) = (role.field("apiGroup"), role.field("kind"), role.field("name"));
    if !group.is(RBAC) {
        found.not_supported(&group, &[RBAC]);
    }
    let kinds: &[&str] = if namespaced {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    if !kinds.contains(&kind.text()) {
        found.not_supported(&kind, kinds);
    }
    if name.is_empty() {
        found.required_late(&name);
    }
    for subject in bodies.at("subjects").items() {
        let (name, group, kind) = (subject.field("name"), subject.field("apiGroup"), subject.field("kind"));
        let namespace = subject.field("namespace");
        if name.is_empty() {
            found.required_late(&name);
        }
        match kind.text() {
            "ServiceAccount" => {
                if !name.is_empty() {
                    found.text_errors(&name, subdomain_errors(name.text()));
                }
                if !group.is_empty() {
                    found.not_supported(&group, &[""]);
                }
                if !namespaced && namespace.is_empty() {
                    found.required(&namespace, "");
                }
            }
            "User" | "Group" => {
                if !group.is(RBAC) {
                    found.not_supported(&group, &[RBAC]);
                }
            }
            _ => found.not_supported(&kind, &["ServiceAccount", "User", "Group"]),
        }
    }
    if bodies.is_update() && role.value != bodies.old("roleRef").value {
        let text = |field: &str| go_quote(role.field(field).text());
        let shown = format!(
            "{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}",
            text("apiGroup"),
            text("kind"),
            text("name")
        );
        found.invalid_as(&role, &shown, "field is immutable");
    }
}

pub(super) fn budget(bodies: &Bodies<'_>, found: &mut Findings) {
    let spec = bodies.at("spec");
    let (least, most) = (spec.field("minAvailable"), spec.field("maxUnavailable"));
    if least.is_set() && most.is_set() {
        // The real server shows its own struct.
        found.invalid(&spec, "minAvailable and maxUnavailable cannot be both set");
    }
    for at in [&least, &most] {
        if at.is_set() {
            count_or_percent(found, at);
            at_most_all(found, at);
        }
    }
    selector(found, &spec.field("selector"));
    let policy = spec.field("unhealthyPodEvictionPolicy");
    let known = ["AlwaysAllow", "IfHealthyBudget"];
    if policy.is_set() && !known.contains(&policy.text()) {
        found.not_supported(&policy, &known);
    }
}

pub(super) fn autoscaler(bodies: &Bodies<'_>, found: &mut Findings) {
    let spec = bodies.at("spec");
    let (least, most) = (spec.field("minReplicas"), spec.field("maxReplicas"));
    if least.is_set() && least.int() < 0 {
        found.below_late(&least, 0);
    }
    match most.int() {
        0 => found.required_late(&most),
        ..0 => found.below_late(&most, 1),
        _ => {}
    }
    if least.is_set() && most.int() < least.int() {
        found.invalid_int(&most, "must be greater than or equal to `minReplicas`");
    }
    let target = spec.field("scaleTargetRef");
    for field in ["kind", "name", "apiVersion"] {
        let at = target.field(field);
        if at.is_empty() && field == "apiVersion" {
            found.invalid_text(&at, "apiVersion must specify API group");
        } else if at.is_empty() {
            found.required(&at, "");
        }
    }
    let metrics = spec.field("metrics");
    let scales_to_zero = metrics
        .items()
        .any(|metric| ["Object", "External"].contains(&metric.field("type").text()));
    if least.is_set() && least.int() == 0 && !scales_to_zero {
        let text = "must specify at least one Object or External metric to support scaling to zero replicas";
        found.forbidden(&metrics, text);
    }
}

pub(super) fn network_policy(bodies: &Bodies<'_>, found: &mut Findings) {
    let spec = bodies.at("spec");
    selector(found, &spec.field("podSelector"));
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.field(direction).items() {
            for port in rule.field("ports").items() {
                policy_port(&port, found);
            }
            for peer in rule.field(peers).items() {
                policy_peer(&peer, found);
            }
        }
    }
    let types = spec.field("policyTypes");
    if types.len() > 2 {
        found.invalid(&types, "may not specify more than two policyTypes");
        return;
    }
    for at in types.items() {
        if !["Ingress", "Egress"].contains(&at.text()) {
            found.not_supported(&at, &["Ingress", "Egress"]);
        }
    }
}

fn policy_port(at: &At<'_>, found: &mut Findings) {
    let (protocol, port, end) = (at.field("protocol"), at.field("port"), at.field("endPort"));
    if protocol.is_set() && !["TCP", "UDP", "SCTP"].contains(&protocol.text()) {
        found.not_supported(&protocol, &["TCP", "UDP", "SCTP"]);
    }
    if !port.is_set() {
        if end.is_set() {
            found.invalid_int(&end, "may not be specified when `port` is not specified");
        }
    } else if port.value.is_string() {
        if end.is_set() {
            found.invalid_int(&end, "may not be specified when `port` is non-numeric");
        }
        found.text_errors(&port, net::port_name(port.text()));
    } else {
        net::port(found, &port);
        if end.is_set() {
            if end.int() < port.int() {
                found.invalid_int(&end, "must be greater than or equal to `port`");
            }
            net::port(found, &end);
        }
    }
}

fn policy_peer(at: &At<'_>, found: &mut Findings) {
    let block = at.field("ipBlock");
    let mut count = 0;
    for field in ["podSelector", "namespaceSelector"] {
        if at.field(field).is_set() {
            count += 1;
            selector(found, &at.field(field));
        }
    }
    if block.is_set() {
        count += 1;
        let range = block.field("cidr");
        if range.is_empty() {
            found.required_late(&range);
        } else {
            net::cidr(found, &range, range.text());
        }
    }
    if count == 0 {
        found.required(at, "must specify a peer");
    } else if count > 1 && block.is_set() {
        found.forbidden(at, "may not specify both ipBlock and another peer");
    }
}

/// Finds what is no name of a host, of which the first part may be any.
fn host(at: &At<'_>, found: &mut Findings) {
    let text = at.text();
    if text.contains('*') {
        let rest = text.strip_prefix("*.").unwrap_or_default();
        if rest.is_empty() || !subdomain_errors(rest).is_empty() {
            let words = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must \
                         consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character \
                         (e.g. '*.example.com', regex used for validation is \
                         '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
            found.invalid_text(at, words);
        }
    } else {
        found.text_errors(at, subdomain_errors(text));
    }
}

pub(super) fn ingress(bodies: &Bodies<'_>, found: &mut Findings) {
    let spec = bodies.at("spec");
    let (rules, backend) = (spec.field("rules"), spec.field("defaultBackend"));
    if rules.is_empty() && !backend.is_set() {
        found.invalid_as(&spec, "null", "either `defaultBackend` or `rules` must be specified");
    }
    if backend.is_set() {
        ingress_backend(&backend, found);
    }
    for rule in rules.items() {
        let name = rule.field("host");
        if !name.is_empty() {
            if net::parse_ip(name.text()).is_ok() {
                found.invalid_text(&name, "must be a DNS name, not an IP address");
            }
            host(&name, found);
        }
        let http = rule.field("http");
        if http.is_set() {
            let paths = http.field("paths");
            if paths.is_empty() {
                found.required(&paths, "");
            }
            for path in paths.items() {
                ingress_path(&path, found);
            }
        }
    }
    for tls in spec.field("tls").items() {
        for name in tls.field("hosts").items() {
            host(&name, found);
        }
        let secret = tls.field("secretName");
        if !secret.is_empty() {
            found.text_errors(&secret, subdomain_errors(secret.text()));
        }
    }
    let class = spec.field("ingressClassName");
    if class.is_set() {
        found.text_errors(&class, subdomain_errors(class.text()));
    }
}

fn ingress_path(at: &At<'_>, found: &mut Findings) {
    const ABSOLUTE: &str = "must be an absolute path";
    let (kind, path) = (at.field("pathType"), at.field("path"));
    match kind.text() {
        _ if !kind.is_set() => {
            found.required(&kind, "pathType must be specified");
            return;
        }
        "Exact" | "Prefix" => {
            if !path.text().starts_with('/') {
                found.invalid_text(&path, ABSOLUTE);
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if path.text().contains(part) {
                    found.invalid_text(&path, &format!("must not contain '{part}'"));
                }
            }
            for end in ["/..", "/."] {
                if path.text().ends_with(end) {
                    found.invalid_text(&path, &format!("cannot end with '{end}'"));
                }
            }
        }
        "ImplementationSpecific" => {
            if !path.is_empty() && !path.text().starts_with('/') {
                found.invalid_text(&path, ABSOLUTE);
            }
        }
        _ => found.not_supported(&kind, &["Exact", "ImplementationSpecific", "Prefix"]),
    }
    ingress_backend(&at.field("backend"), found);
}

fn ingress_backend(at: &At<'_>, found: &mut Findings) {
    let (service, resource) = (at.field("service"), at.field("resource"));
    match (resource.is_set(), service.is_set()) {
        (true, true) => found.invalid_as(at, "\"\"", "cannot set both resource and service backends"),
        (true, false) => {
            for field in ["kind", "name"] {
                if resource.field(field).is_empty() {
                    found.required(&resource.field(field), "");
                }
            }
        }
        (false, true) => {
            let name = service.field("name");
            if name.is_empty() {
                found.required(&name, "");
            } else {
                found.text_errors(&name, label_errors(name.text()));
            }
            let (of_name, number) = (service.deep(&["port", "name"]), service.deep(&["port", "number"]));
            match (!of_name.is_empty(), number.int() != 0) {
                (true, true) => found.invalid_as(at, "\"\"", "cannot set both port name & port number"),
                (true, false) => found.text_errors(&of_name, net::port_name(of_name.text())),
                (false, true) => net::port(found, &number),
                (false, false) => found.required(at, "port name or number is required"),
            }
        }
        (false, false) => found.invalid_as(at, "\"\"", "resource or service backend is required"),
    }
}

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

fn access_modes(spec: &At<'_>, found: &mut Findings) {
    let modes = spec.field("accessModes");
    for mode in modes.items() {
        if !ACCESS_MODES.contains(&mode.text()) {
            found.not_supported(&At::new(modes.path.clone(), mode.value), ACCESS_MODES);
        }
    }
    let once = modes.items().any(|mode| mode.is("ReadWriteOncePod"));
    if once
        && modes
            .items()
            .any(|mode| !mode.is("ReadWriteOncePod") && ACCESS_MODES.contains(&mode.text()))
    {
        found.forbidden(&modes, "may not use ReadWriteOncePod with other access modes");
    }
}

pub(super) fn claim_spec(spec: &At<'_>, found: &mut Findings) {
    let modes = spec.field("accessModes");
    if modes.is_empty() {
        found.required(&modes, "at least 1 access mode is required");
    }
    selector(found, &spec.field("selector"));
    access_modes(spec, found);
    let asked = spec.deep(&["resources", "requests"]).key("storage");
    let place = At::new(format!("{}[storage]", spec.field("resources").path), asked.value);
    if !asked.is_set() {
        found.required(&place, "");
    } else if milli(asked.text()).is_some_and(|milli| milli <= 0) {
        found.invalid_text(&place, "must be greater than zero");
    }
    let (class, mode) = (spec.field("storageClassName"), spec.field("volumeMode"));
    if !class.is_empty() {
        found.text_errors(&class, subdomain_errors(class.text()));
    }
    if mode.is_set() && !["Block", "Filesystem"].contains(&mode.text()) {
        found.not_supported(&mode, &["Block", "Filesystem"]);
    }
}

pub(super) fn claim(bodies: &Bodies<'_>, found: &mut Findings) {
    const TEXT: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound \
                        claims";
    let spec = bodies.at("spec");
    claim_spec(&spec, found);
    if !bodies.is_update() {
        return;
    }
    let old = bodies.old("spec");
    let mut munged = spec.value.clone();
    let mut before = old.value.clone();
    if old.field("volumeName").is_empty() {
        before["volumeName"] = munged["volumeName"].clone();
    }
    class_of_claim(bodies, &old, &mut munged, found);
    if bodies.at("status").field("phase").is("Bound") {
        munged["resources"]["requests"]["storage"] = before["resources"]["requests"]["storage"].clone();
        munged["volumeAttributesClassName"] = before["volumeAttributesClassName"].clone();
    }
    let set = |value: &Value| -> Vec<(String, Value)> {
        let fields = value.as_object().into_iter().flatten();
        fields
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    if set(&munged) != set(&before) {
        // A text of the real server goes on with a comparison of its own structs.
        found.forbidden(&spec, TEXT);
    }
    let size = |spec: &At<'_>| milli(spec.deep(&["resources", "requests", "storage"]).text());
    if size(&spec) < size(&old) {
        let of_status = milli(bodies.at("status").deep(&["capacity", "storage"]).text()).unwrap_or(0);
        if size(&spec).unwrap_or(0) <= of_status {
            let place = spec.deep(&["resources", "requests", "storage"]);
            found.forbidden(&place, "field can not be less than status.capacity");
        }
    }
    let mode = At::new("volumeMode", spec.field("volumeMode").value);
    found.immutable(&mode, &old.field("volumeMode"));
}

/// A claim may get a storage class once, which is the one that an annotation says, if it does; takes that back in the copy that
/// is compared with the old spec.
fn class_of_claim(bodies: &Bodies<'_>, old: &At<'_>, munged: &mut Value, found: &mut Findings) {
    const ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
    let annotation = |object: &Object| object.meta.annotations.get(ANNOTATION).map(str::to_owned);
    let now = annotation(bodies.written.new);
    let before = bodies.written.old.and_then(annotation);
    let class = bodies.at("spec").field("storageClassName");
    let is_given = class.is_set() && !old.field("storageClassName").is_set();
    let fits = before.as_deref().is_none_or(|before| class.is(before));
    if is_given && fits {
        munged["storageClassName"] = Value::Null;
    }
    // The annotation may go when the class takes its place.
    let moves = is_given && fits && before.is_some() && now.is_none();
    let (now, before) = (now.unwrap_or_default(), before.unwrap_or_default());
    if !moves && now != before {
        let place = format!("metadata.annotations.{ANNOTATION}");
        found.invalid_text(&At::new(place, &now.into()), "field is immutable");
    }
}

/// What a volume may be made of.
const VOLUMES: [&str; 22] = [
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "csi",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "glusterfs",
    "hostPath",
    "iscsi",
    "local",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

pub(super) fn volume(bodies: &Bodies<'_>, found: &mut Findings) {
    let spec = bodies.at("spec");
    let (modes, capacity) = (spec.field("accessModes"), spec.field("capacity"));
    if modes.is_empty() {
        found.required(&modes, "");
    }
    access_modes(&spec, found);
    if capacity.is_empty() {
        found.required(&capacity, "");
    }
    let storage = capacity.key("storage");
    if !storage.is_set() || capacity.len() > 1 {
        let text = format!("{}: supported values: \"storage\"", capacity.value);
        found.add(ErrorKind::NotSupported, &capacity, &text);
    } else {
        quantity_not_negative(found, &storage);
        if milli(storage.text()) == Some(0) {
            found.invalid_text(&storage, "must be greater than zero");
        }
    }
    if !VOLUMES.iter().any(|source| spec.field(source).is_set()) {
        found.required(&spec, "must specify a volume type");
    }
    let policy = spec.field("persistentVolumeReclaimPolicy");
    if !policy.is_empty() && !["Delete", "Recycle", "Retain"].contains(&policy.text()) {
        found.not_supported(&policy, &["Delete", "Recycle", "Retain"]);
    }
    let (class, mode) = (spec.field("storageClassName"), spec.field("volumeMode"));
    if !class.is_empty() {
        found.text_errors(&class, subdomain_errors(class.text()));
    }
    if mode.is_set() && !["Block", "Filesystem"].contains(&mode.text()) {
        found.not_supported(&mode, &["Block", "Filesystem"]);
    }
}

pub(super) fn storage_class(bodies: &Bodies<'_>, found: &mut Findings) {
    let provisioner = bodies.at("provisioner");
    if bodies.is_update() {
        for field in ["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"] {
            let new = bodies.at(field);
            if new.value != bodies.old(field).value {
                // The server does not show what it was to become.
                found.invalid_as(&new, "null", "field is immutable");
            }
        }
    }
    if provisioner.is_empty() {
        found.required(&provisioner, "");
    }
    let policy = bodies.at("reclaimPolicy");
    if policy.is_set() && !["Delete", "Retain"].contains(&policy.text()) {
        found.not_supported(&policy, &["Delete", "Retain"]);
    }
    let mode = bodies.at("volumeBindingMode");
    if mode.is_set() && !["Immediate", "WaitForFirstConsumer"].contains(&mode.text()) {
        found.not_supported(&mode, &["Immediate", "WaitForFirstConsumer"]);
    }
}

pub(super) fn priority_class(bodies: &Bodies<'_>, found: &mut Findings) {
    let value = bodies.at("value");
    if !bodies.is_update() && value.int() > 1_000_000_000 && !bodies.written.new.meta.name.starts_with("system-") {
        let text = "maximum allowed value of a user defined priority is 1000000000";
        found.forbidden(&value, text);
    }
    let policy = bodies.at("preemptionPolicy");
    let known = ["PreemptLowerPriority", "Never"];
    if !bodies.is_update() && policy.is_set() && !known.contains(&policy.text()) {
        found.not_supported(&policy, &known);
    }
    if bodies.is_update() && value.int() != bodies.old("value").int() {
        found.forbidden(&value, "may not be changed in an update.");
    }
    if bodies.is_update() && bodies.at("preemptionPolicy").value != bodies.old("preemptionPolicy").value {
        found.immutable(&bodies.at("preemptionPolicy"), &bodies.old("preemptionPolicy"));
    }
}

pub(super) fn lease(bodies: &Bodies<'_>, found: &mut Findings) {
    let spec = bodies.at("spec");
    let seconds = spec.field("leaseDurationSeconds");
    if seconds.is_set() && seconds.int() <= 0 {
        found.invalid_int(&seconds, "must be greater than 0");
    }
    let transitions = spec.field("leaseTransitions");
    if transitions.is_set() && transitions.int() < 0 {
        found.invalid_int(&transitions, "must be greater than or equal to 0");
    }
}

pub(super) fn budget_status(bodies: &Bodies<'_>, found: &mut Findings) {
    let status = bodies.at("status");
    for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        found.not_negative(&status.field(field));
    }
}

pub(super) fn autoscaler_status(bodies: &Bodies<'_>, found: &mut Findings) {
    let status = bodies.at("status");
    for condition in status.field("conditions").items() {
        found.not_negative(&condition.field("observedGeneration"));
    }
    for field in ["currentReplicas", "desiredReplicas"] {
        found.not_negative(&status.field(field));
    }
}

pub(super) fn ingress_status(bodies: &Bodies<'_>, found: &mut Findings) {
    const PLACE: &[&str] = &["loadBalancer", "ingress"];
    let (new, old) = (bodies.at("status").deep(PLACE), bodies.old("status").deep(PLACE));
    balancer_ingress(&new, &old, false, found);
}
