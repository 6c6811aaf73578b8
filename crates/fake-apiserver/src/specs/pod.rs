//! Pods, and templates of pods.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::values::{labels, milli, not_found, quantity_not_negative};
use super::{At, Bodies, Findings, net};
use crate::gotext::go_quote;
use crate::validation::{label_errors, label_key_errors, label_value_errors, subdomain_errors};

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

/// What a spec is of: what a template leaves out is filled in when a pod is made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Pod,
    Template,
}

pub(super) fn validate(bodies: &Bodies<'_>, found: &mut Findings) {
    let spec = bodies.at("spec");
    pod_spec(&spec, Of::Pod, found);
    if bodies.is_update() {
        update(&spec, &bodies.old("spec"), found);
        return;
    }
    let ephemeral = spec.field("ephemeralContainers");
    if !ephemeral.is_empty() {
        found.forbidden(&ephemeral, "cannot be set on create");
    }
    let node = spec.field("nodeName");
    if !node.is_empty() && !spec.field("schedulingGates").is_empty() {
        found.forbidden(&node, "cannot be set until all schedulingGates have been cleared");
    }
}

/// What is wrong with a template of pods, whose metadata has a place of its own.
pub(super) fn template(template: &At<'_>, found: &mut Findings) {
    let of_labels = template.deep(&["metadata", "labels"]);
    labels(found, &At::new(format!("{}.labels", template.path), of_labels.value));
    pod_spec(&template.field("spec"), Of::Template, found);
    let ephemeral = template.deep(&["spec", "ephemeralContainers"]);
    if !ephemeral.is_empty() {
        found.forbidden(&ephemeral, "ephemeral containers not allowed in pod template");
    }
}

fn pod_spec(spec: &At<'_>, of: Of, found: &mut Findings) {
    let volumes = volumes(&spec.field("volumes"), found);
    let containers = spec.field("containers");
    if containers.is_empty() {
        found.required(&containers, "");
    }
    let mut names = HashSet::new();
    for container in containers.items() {
        of_all_containers(&container, &volumes, found);
        let name = container.field("name");
        if !names.insert(name.text()) {
            found.duplicate(&name);
        }
        handlers(&container, found);
    }
    host_ports(&containers, found);
    for container in spec.field("initContainers").items() {
        init_container(&container, &volumes, &mut names, found);
    }
    of_host_network(spec, of, found);
    found.one_of(&spec.field("restartPolicy"), &["Always", "OnFailure", "Never"]);
    found.one_of(
        &spec.field("dnsPolicy"),
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
    );
    labels(found, &spec.field("nodeSelector"));
    gates(&spec.field("schedulingGates"), found);
    names_in(spec, found);
    tolerations(&spec.field("tolerations"), found);
}

/// Single names and numbers of a pod.
fn names_in(spec: &At<'_>, found: &mut Findings) {
    for field in ["serviceAccountName", "nodeName"] {
        let at = spec.field(field);
        if !at.is_empty() {
            found.text_errors(&at, subdomain_errors(at.text()));
        }
    }
    let deadline = spec.field("activeDeadlineSeconds");
    if deadline.is_set() && !(1..=i64::from(i32::MAX)).contains(&deadline.int()) {
        found.invalid_int(&deadline, "must be between 1 and 2147483647, inclusive");
    }
    for field in ["hostname", "subdomain"] {
        let at = spec.field(field);
        if !at.is_empty() {
            found.text_errors(&at, label_errors(at.text()));
        }
    }
    for field in ["priorityClassName", "runtimeClassName"] {
        let at = spec.field(field);
        if !at.is_empty() {
            found.text_errors(&at, subdomain_errors(at.text()));
        }
    }
    let preemption = spec.field("preemptionPolicy");
    if preemption.is_set() && !["Never", "PreemptLowerPriority"].contains(&preemption.text()) {
        found.not_supported(&preemption, &["PreemptLowerPriority", "Never"]);
    }
}

fn of_host_network(spec: &At<'_>, of: Of, found: &mut Findings) {
    if !spec.field("hostNetwork").flag() {
        return;
    }
    for container in spec.field("containers").items() {
        for port in container.field("ports").items() {
            let (own, of_host) = (port.field("containerPort"), port.field("hostPort"));
            let is_wanted = of == Of::Pod || of_host.int() != 0;
            if is_wanted && own.int() != of_host.int() {
                found.invalid_int(&of_host, "must match `containerPort` when `hostNetwork` is true");
            }
        }
    }
}

/// What keeps a pod from being scheduled.
fn gates(gates: &At<'_>, found: &mut Findings) {
    let mut names = HashSet::new();
    for gate in gates.items() {
        let name = At::new(gate.path, &gate.value["name"]);
        found.text_errors(&name, label_key_errors(name.text()));
        if !names.insert(name.text()) {
            found.duplicate_as(&name, &go_quote(name.text()));
        }
    }
}

fn of_all_containers(container: &At<'_>, volumes: &BTreeMap<String, Value>, found: &mut Findings) {
    let name = container.field("name");
    if name.is_empty() {
        found.required(&name, "");
    } else {
        found.text_errors(&name, label_errors(name.text()));
    }
    let image = container.field("image");
    if image.is_empty() {
        found.required(&image, "");
    }
    found.one_of(
        &container.field("terminationMessagePolicy"),
        &["File", "FallbackToLogsOnError"],
    );
    ports(&container.field("ports"), found);
    environment(container, found);
    mounts(&container.field("volumeMounts"), volumes, found);
    found.one_of(
        &container.field("imagePullPolicy"),
        &["Always", "IfNotPresent", "Never"],
    );
    resources(&container.field("resources"), found);
}

fn init_container<'a>(
    container: &At<'a>,
    volumes: &BTreeMap<String, Value>,
    names: &mut HashSet<&'a str>,
    found: &mut Findings,
) {
    of_all_containers(container, volumes, found);
    let (name, policy) = (container.field("name"), container.field("restartPolicy"));
    if !name.is_empty() && !names.insert(name.text()) {
        found.duplicate(&name);
    }
    if policy.is("Always") {
        handlers(container, found);
        return;
    }
    for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        let at = container.field(field);
        if at.is_set() {
            found.forbidden(&at, "may not be set for init containers without restartPolicy=Always");
        }
    }
}

fn ports(ports: &At<'_>, found: &mut Findings) {
    let mut names = HashSet::new();
    for at in ports.items() {
        let (name, own, of_host) = (at.field("name"), at.field("containerPort"), at.field("hostPort"));
        if !name.is_empty() {
            let errors = net::port_name(name.text());
            if errors.is_empty() && !names.insert(name.text()) {
                found.duplicate(&name);
            }
            found.text_errors(&name, errors);
        }
        if own.int() == 0 {
            found.required(&own, "");
        } else {
            net::port(found, &own);
        }
        if of_host.int() != 0 {
            net::port(found, &of_host);
        }
        found.one_of(&at.field("protocol"), PROTOCOLS);
    }
}

fn host_ports(containers: &At<'_>, found: &mut Findings) {
    let mut used = HashSet::new();
    for container in containers.items() {
        for port in container.field("ports").items() {
            let host = port.field("hostPort");
            if host.int() == 0 {
                continue;
            }
            let key = format!(
                "{}/{}/{}",
                port.field("protocol").text(),
                port.field("hostIP").text(),
                host.int()
            );
            if !used.insert(key.clone()) {
                found.duplicate_as(&host, &go_quote(&key));
            }
        }
    }
}

fn environment(container: &At<'_>, found: &mut Findings) {
    const NAME: &str =
        "a valid environment variable name must consist only of printable ASCII characters other than '='";
    let printable = |text: &str| text.chars().all(|c| (' '..='~').contains(&c) && c != '=');
    for variable in container.field("env").items() {
        let (name, from) = (variable.field("name"), variable.field("valueFrom"));
        if name.is_empty() {
            found.required(&name, "");
        } else if !printable(name.text()) {
            found.invalid_text(&name, NAME);
        }
        if from.is_set() {
            value_from(&from, !variable.field("value").is_empty(), found);
        }
    }
    let all = container.field("envFrom");
    for source in all.items() {
        let prefix = source.field("prefix");
        if !prefix.is_empty() && !printable(prefix.text()) {
            found.invalid_text(&prefix, NAME);
        }
        let mut count = 0;
        for field in ["configMapRef", "secretRef"] {
            let at = source.field(field);
            if at.is_set() {
                count += 1;
                if at.field("name").is_empty() {
                    found.required(&at.field("name"), "");
                }
            }
        }
        match count {
            0 => found.invalid_as(&all, "\"\"", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => found.invalid_as(&all, "\"\"", "may not have more than one field specified at a time"),
        }
    }
}

fn value_from(from: &At<'_>, has_value: bool, found: &mut Findings) {
    let mut count = 0;
    let of_field = from.field("fieldRef");
    if of_field.is_set() {
        count += 1;
        let path = of_field.field("fieldPath");
        if path.is_empty() {
            found.required(&path, "");
        } else {
            field_path(&of_field, &path, found);
        }
    }
    let of_resource = from.field("resourceFieldRef");
    if of_resource.is_set() {
        count += 1;
        if of_resource.field("resource").is_empty() {
            found.required(&of_resource.field("resource"), "");
        }
    }
    for field in ["configMapKeyRef", "secretKeyRef"] {
        let at = from.field(field);
        if at.is_set() {
            count += 1;
            let (name, key) = (at.field("name"), at.field("key"));
            found.text_errors(&name, subdomain_errors(name.text()));
            if key.is_empty() {
                found.required(&key, "");
            }
        }
    }
    if from.field("fileKeyRef").is_set() {
        count += 1;
    }
    let text = match (count, has_value) {
        (0, _) => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        (_, true) => "may not be specified when `value` is not empty",
        (1, false) => return,
        (_, false) => "may not have more than one field specified at a time",
    };
    found.invalid_as(from, "\"\"", text);
}

/// Finds fields of a pod that its containers cannot be told.
fn field_path(selector: &At<'_>, path: &At<'_>, found: &mut Findings) {
    const OF_VARIABLES: &[&str] = &[
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    const KNOWN: &[&str] = &[
        "metadata.annotations",
        "metadata.labels",
        "spec.restartPolicy",
        "status.phase",
    ];
    if let Some((field, key)) = path.text().split_once("['")
        && let Some(key) = key.strip_suffix("']")
        && matches!(field, "metadata.labels" | "metadata.annotations")
    {
        for error in label_key_errors(key) {
            found.invalid_as(selector, &go_quote(key), &error);
        }
    } else if !OF_VARIABLES.contains(&path.text()) {
        if KNOWN.contains(&path.text()) {
            found.not_supported(path, OF_VARIABLES);
        } else {
            let text = format!("error converting fieldPath: field label not supported: {}", path.text());
            found.invalid_text(path, &text);
        }
    }
}

fn mounts(mounts: &At<'_>, volumes: &BTreeMap<String, Value>, found: &mut Findings) {
    let mut paths = HashSet::new();
    for mount in mounts.items() {
        let (name, path) = (mount.field("name"), mount.field("mountPath"));
        if name.is_empty() {
            found.required(&name, "");
        }
        if !volumes.contains_key(name.text()) {
            not_found(
                found,
                &At::new(name.path.clone(), &Value::String(name.text().to_owned())),
            );
        }
        if path.is_empty() {
            found.required(&path, "");
        }
        if !paths.insert(path.text()) {
            found.invalid_text(&path, "must be unique");
        }
        for field in ["subPath", "subPathExpr"] {
            let sub = mount.field(field);
            let at = At::new(format!("{}.{field}", mounts.path), sub.value);
            if sub.text().starts_with('/') {
                found.invalid_text(&at, "must be a relative path");
            }
            if sub.text().split('/').any(|part| part == "..") {
                found.invalid_text(&at, "must not contain '..'");
            }
        }
    }
}

/// Resources that everybody knows, of which a container may ask for some.
const OF_CONTAINERS: &[&str] = &["cpu", "ephemeral-storage", "memory"];

fn resources(resources: &At<'_>, found: &mut Findings) {
    let (limits, requests) = (resources.field("limits"), resources.field("requests"));
    for list in [&limits, &requests] {
        for (name, amount) in list.entries() {
            resource_name(name, &amount, found);
            quantity_not_negative(found, &amount);
            if name.contains('/') && milli(amount.text()).is_some_and(|milli| milli % 1000 != 0) {
                found.invalid_text(&amount, "must be an integer");
            }
            if list.path == limits.path {
                continue;
            }
            let limit = limits.key(name);
            let overcommitted = !name.contains('/') && !name.starts_with("hugepages-");
            if !limit.is_set() {
                if !overcommitted {
                    found.required(&limits, "Limit must be set for non overcommitable resources");
                }
                continue;
            }
            let shown = go_quote(amount.text());
            let (asked, most) = (milli(amount.text()), milli(limit.text()));
            if asked != most && !overcommitted {
                let text = format!("must be equal to {name} limit of {}", limit.text());
                found.invalid_as(&requests, &shown, &text);
            } else if asked > most {
                let text = format!("must be less than or equal to {name} limit of {}", limit.text());
                found.invalid_as(&requests, &shown, &text);
            }
        }
    }
}

fn resource_name(name: &str, at: &At<'_>, found: &mut Findings) {
    let shown = go_quote(name);
    let errors = label_key_errors(name);
    for error in &errors {
        found.invalid_as(at, &shown, error);
    }
    if !name.contains('/') {
        if !OF_CONTAINERS.contains(&name) && !name.starts_with("hugepages-") {
            if errors.is_empty() {
                found.invalid_as(at, &shown, "must be a standard resource type or fully qualified");
            }
            found.invalid_as(at, &shown, "must be a standard resource for containers");
        }
    } else if !name.contains("kubernetes.io/") && (name.starts_with("requests.") || !errors.is_empty()) {
        found.invalid_as(at, &shown, "doesn't follow extended resource name standard");
    }
}

/// The probes of a container and what it does when it begins and ends.
fn handlers(container: &At<'_>, found: &mut Findings) {
    for field in ["postStart", "preStop"] {
        let at = container.deep(&["lifecycle", field]);
        if at.is_set() {
            handler(&at, found);
        }
    }
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.field(field);
        if !probe.is_set() {
            continue;
        }
        handler(&probe, found);
        for field in [
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        ] {
            found.not_negative(&probe.field(field));
        }
        let (grace, successes) = (
            probe.field("terminationGracePeriodSeconds"),
            probe.field("successThreshold"),
        );
        if grace.is_set() && grace.int() <= 0 {
            found.invalid_int(&grace, "must be greater than 0");
        }
        if field == "readinessProbe" {
            if grace.is_set() {
                found.invalid_int(&grace, "must not be set for readinessProbes");
            }
        } else if successes.int() != 1 {
            found.invalid_int(&successes, "must be 1");
        }
    }
}

fn handler(handler: &At<'_>, found: &mut Findings) {
    let mut count = 0;
    for field in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let at = handler.field(field);
        if !at.is_set() {
            continue;
        }
        count += 1;
        if count > 1 {
            found.forbidden(&at, "may not specify more than 1 handler type");
            continue;
        }
        match field {
            "exec" if at.field("command").is_empty() => found.required(&at.field("command"), ""),
            "httpGet" => {
                net::port_or_name(found, &at.field("port"));
                let scheme = at.field("scheme");
                if !["HTTP", "HTTPS"].contains(&scheme.text()) {
                    found.not_supported(&scheme, &["HTTP", "HTTPS"]);
                }
                for header in at.field("httpHeaders").items() {
                    let name = header.field("name").text();
                    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
                        let text = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', \
                                    regex used for validation is '[-A-Za-z0-9]+')";
                        found.invalid_as(&at.field("httpHeaders"), &go_quote(name), text);
                    }
                }
            }
            "tcpSocket" => net::port_or_name(found, &at.field("port")),
            "grpc" => net::port(found, &at.field("port")),
            _ => {}
        }
    }
    if count == 0 {
        found.required(handler, "must specify a handler type");
    }
}

/// Finds what is wrong with volumes; returns those that containers may mount.
fn volumes(volumes: &At<'_>, found: &mut Findings) -> BTreeMap<String, Value> {
    let mut names = HashSet::new();
    let mut good = BTreeMap::new();
    for volume in volumes.items() {
        let before = found.len();
        volume_source(&volume, found);
        let name = volume.field("name");
        if name.is_empty() {
            found.required(&name, "");
        } else {
            found.text_errors(&name, label_errors(name.text()));
        }
        if names.contains(name.text()) {
            found.duplicate(&name);
        }
        if found.len() == before {
            names.insert(name.text());
            good.insert(name.text().to_owned(), volume.value.clone());
        }
    }
    good
}

/// The sources of a volume that name one thing, by the field that must be there.
const NAMED: &[(&str, &str)] = &[
    ("secret", "secretName"),
    ("persistentVolumeClaim", "claimName"),
    ("configMap", "name"),
    ("csi", "driver"),
    ("hostPath", "path"),
];

fn volume_source(volume: &At<'_>, found: &mut Findings) {
    const ORDER: [&str; 8] = [
        "emptyDir",
        "hostPath",
        "secret",
        "nfs",
        "persistentVolumeClaim",
        "configMap",
        "csi",
        "ephemeral",
    ];
    let mut count = 0;
    for field in ORDER {
        let at = volume.field(field);
        if !at.is_set() {
            continue;
        }
        count += 1;
        if count > 1 {
            found.forbidden(&at, "may not specify more than 1 volume type");
            continue;
        }
        if let Some((_, name)) = NAMED.iter().find(|(source, _)| *source == field)
            && at.field(name).is_empty()
        {
            found.required(&at.field(name), "");
        }
        if field == "nfs" {
            for part in ["server", "path"] {
                if at.field(part).is_empty() {
                    found.required(&at.field(part), "");
                }
            }
            if !at.field("path").text().starts_with('/') {
                found.invalid_text(&at.field("path"), "must be an absolute path");
            }
        }
        let mode = at.field("defaultMode");
        if mode.is_set() && !(0..=0o777).contains(&mode.int()) {
            let text = "must be a number between 0 and 0777 (octal), both inclusive";
            found.invalid_int(&mode, text);
        }
    }
}

fn tolerations(tolerations: &At<'_>, found: &mut Findings) {
    for at in tolerations.items() {
        let (key, operator, effect) = (at.field("key"), at.field("operator"), at.field("effect"));
        let value = at.field("value");
        if !key.is_empty() {
            found.text_errors(&key, label_key_errors(key.text()));
        } else if !operator.is("Exists") {
            let text = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            found.invalid_text(&operator, text);
        }
        if at.field("tolerationSeconds").is_set() && !effect.is("NoExecute") {
            found.invalid_text(&effect, "effect must be 'NoExecute' when `tolerationSeconds` is set");
        }
        match operator.text() {
            "" | "Equal" => {
                let errors = label_value_errors(value.text());
                if !errors.is_empty() {
                    found.invalid_as(&operator, &go_quote(value.text()), &errors.join(";"));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    found.invalid_as(
                        &operator,
                        &go_quote(value.text()),
                        "value must be empty when `operator` is 'Exists'",
                    );
                }
            }
            _ => found.not_supported(&operator, &["Equal", "Exists"]),
        }
        if !effect.is_empty() && !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect.text()) {
            found.not_supported(&effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
        }
    }
}

const UPDATABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
                         `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to \
                         existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
                         previously negative)";

fn update(spec: &At<'_>, old: &At<'_>, found: &mut Findings) {
    for field in ["containers", "initContainers"] {
        let (new, old) = (spec.field(field), old.field(field));
        if new.len() != old.len() {
            found.forbidden(&new, "pod updates may not add or remove containers");
            return;
        }
        for image in new.items().map(|container| container.field("image")) {
            if image.is_empty() {
                found.required(&image, "");
            }
            if image.text().trim() != image.text() {
                found.invalid_text(&image, "must not have leading or trailing whitespace");
            }
        }
    }
    let (deadline, before) = (spec.field("activeDeadlineSeconds"), old.field("activeDeadlineSeconds"));
    if deadline.is_set() {
        if !(0..=i64::from(i32::MAX)).contains(&deadline.int()) {
            found.invalid_int(&deadline, "must be between 0 and 2147483647, inclusive");
            return;
        }
        if before.is_set() && before.int() < deadline.int() {
            found.invalid_int(&deadline, "must be less than or equal to previous value");
            return;
        }
    } else if before.is_set() {
        found.invalid(&deadline, "must not update from a positive integer to nil value");
    }
    added_tolerations(&spec.field("tolerations"), &old.field("tolerations"), found);
    deleted_gates(&spec.field("schedulingGates"), &old.field("schedulingGates"), found);
    let mut munged = spec.value.clone();
    for list in ["containers", "initContainers"] {
        for (index, container) in old.field(list).items().enumerate() {
            munged[list][index]["image"] = container.field("image").value.clone();
        }
    }
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        munged[field] = old.field(field).value.clone();
    }
    if !old.field("schedulingGates").is_empty() {
        narrowed(spec, old, &mut munged, found);
    }
    if !same(&munged, old.value) {
        // A text of the real server goes on with a comparison of its own structs.
        found.forbidden(spec, UPDATABLE);
    }
}

/// Finds tolerations that have changed, but for how long they last.
fn added_tolerations(new: &At<'_>, old: &At<'_>, found: &mut Findings) {
    let is_kept = |toleration: &At<'_>| {
        new.items().any(|new| {
            ["key", "operator", "value", "effect"]
                .iter()
                .all(|field| new.field(field).value == toleration.field(field).value)
        })
    };
    if !old.items().all(|toleration| is_kept(&toleration)) {
        let text = "existing toleration can not be modified except its tolerationSeconds";
        found.forbidden(new, text);
    }
}

/// Finds gates that a pod did not have.
fn deleted_gates(new: &At<'_>, old: &At<'_>, found: &mut Findings) {
    for gate in new.items() {
        let name = gate.field("name");
        if !old.items().any(|old| old.field("name").value == name.value) {
            let text = format!(
                "only deletion is allowed, but found new scheduling gate '{}'",
                name.text()
            );
            found.forbidden(&name, &text);
        }
    }
}

/// A pod that is not to be scheduled yet may ask for fewer nodes: finds where it asks for others, and takes all of it back in
/// the copy that is compared with the old spec.
fn narrowed(spec: &At<'_>, old: &At<'_>, munged: &mut Value, found: &mut Findings) {
    const OF_NODES: &[&str] = &["affinity", "nodeAffinity"];
    let (nodes, before) = (spec.field("nodeSelector"), old.field("nodeSelector"));
    if before.entries().any(|(key, value)| nodes.value[key] != *value.value) {
        let text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        found.invalid(&nodes, text);
    }
    munged["nodeSelector"] = before.value.clone();
    let (new, before) = (spec.deep(OF_NODES), old.deep(OF_NODES));
    if same(new.value, before.value) {
        return;
    }
    narrowed_terms(&new, &before, found);
    let affinity = spec.field("affinity");
    let of_pods = ["podAffinity", "podAntiAffinity"];
    if !affinity.is_set() {
        munged["affinity"] = serde_json::json!({"nodeAffinity": before.value});
    } else if !old.field("affinity").is_set() && of_pods.iter().all(|field| !affinity.field(field).is_set()) {
        munged["affinity"] = Value::Null;
    } else {
        munged["affinity"]["nodeAffinity"] = before.value.clone();
    }
}

/// Finds terms that are new, gone or less strict.
fn narrowed_terms(new: &At<'_>, old: &At<'_>, found: &mut Findings) {
    const LISTS: [&str; 2] = ["matchExpressions", "matchFields"];
    const TERMS: &[&str] = &["requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"];
    let (terms, before) = (new.deep(TERMS), old.deep(TERMS));
    if before.is_empty() {
        return;
    }
    if terms.len() != before.len() {
        let shown: Vec<String> = terms.items().map(|term| term_shown(&term)).collect();
        let shown = if terms.is_set() {
            format!("[{}]", shown.join(","))
        } else {
            "null".to_owned()
        };
        let text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        found.invalid_as(&terms, &shown, text);
        return;
    }
    for (term, before) in terms.items().zip(before.items()) {
        let is_empty = |term: &At<'_>| LISTS.iter().all(|list| term.field(list).is_empty());
        let goes_on = LISTS.iter().all(|list| {
            let (new, old) = (term.field(list), before.field(list));
            old.len() <= new.len() && old.items().zip(new.items()).all(|(old, new)| old.value == new.value)
        });
        if !goes_on || is_empty(&before) && !is_empty(&term) {
            let text = "only additions are allowed (no mutations or deletions)";
            found.invalid_as(&term, &term_shown(&term), text);
        }
    }
}

/// A term as the server shows it, in the words of Go.
fn term_shown(term: &At<'_>) -> String {
    let list = |name: &str| {
        let list = term.field(name);
        let parts: Vec<String> = list
            .items()
            .map(|part| {
                let text = |field: &str| go_quote(part.field(field).text());
                let values = part.field("values").value;
                format!(
                    "{{\"Key\":{},\"Operator\":{},\"Values\":{values}}}",
                    text("key"),
                    text("operator")
                )
            })
            .collect();
        if list.is_set() {
            format!("[{}]", parts.join(","))
        } else {
            "null".to_owned()
        }
    };
    format!(
        "{{\"MatchExpressions\":{},\"MatchFields\":{}}}",
        list("matchExpressions"),
        list("matchFields")
    )
}

/// What is wrong with a status that is written.
pub(super) fn validate_status(bodies: &Bodies<'_>, found: &mut Findings) {
    const GENERATION: &str = "observedGeneration";
    const NOT_NEGATIVE: &str = "must be a non-negative integer";
    let (status, old, spec) = (bodies.at("status"), bodies.old("status"), bodies.at("spec"));
    for condition in status.field("conditions").items() {
        let (kind, generation) = (condition.field("type"), condition.field(GENERATION));
        if generation.int() < 0 {
            found.invalid_int(&generation, NOT_NEGATIVE);
        }
        if !["PodScheduled", "Ready", "Initialized"].contains(&kind.text()) {
            let kind = At::new(format!("{}.Type", condition.path), kind.value);
            found.text_errors(&kind, label_key_errors(kind.text()));
        }
    }
    let (node, before) = (status.field("nominatedNodeName"), old.field("nominatedNodeName"));
    if !node.is_empty() && node.value != before.value {
        found.text_errors(&node, subdomain_errors(node.text()));
        if !bodies.old("spec").field("nodeName").is_empty() {
            found.forbidden(&node, "may not be set on pods that are already bound to a node");
        }
    }
    let generation = status.field(GENERATION);
    if generation.int() < 0 {
        found.invalid_int(&generation, NOT_NEGATIVE);
    }
    let class = status.field("qosClass");
    if class.value != old.field("qosClass").value {
        found.invalid_text(&class, "field is immutable");
    }
    for (statuses, containers) in [
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
    ] {
        restarts(&status.field(statuses), &old.field(statuses), &spec, containers, found);
    }
    let (ephemeral, before) = ("ephemeralContainerStatuses", old.field("ephemeralContainerStatuses"));
    for ended in begun_again(&status.field(ephemeral), &before) {
        found.forbidden(&ended.field("state"), NOT_AGAIN);
    }
    of_claims(
        &status.field("resourceClaimStatuses"),
        &spec.field("resourceClaims"),
        found,
    );
    for (single, list) in [("podIP", "podIPs"), ("hostIP", "hostIPs")] {
        addresses_of_status(&status.field(single), &status.field(list), &old.field(list), found);
    }
}

const NOT_AGAIN: &str = "may not be transitioned to non-terminated state";

/// The old statuses of containers that have ended, and now have not.
fn begun_again<'a>(new: &At<'a>, old: &At<'a>) -> impl Iterator<Item = At<'a>> + use<'a> {
    let new = new.clone();
    let has_ended = |status: &At<'_>| status.deep(&["state", "terminated"]).is_set();
    old.items().filter(move |old| {
        let same = |status: &At<'_>| status.field("name").value == old.field("name").value;
        has_ended(old) && new.items().any(|new| same(&new) && !has_ended(&new))
    })
}

/// Finds containers that have ended and begin again, though they do not restart.
fn restarts(new: &At<'_>, old: &At<'_>, spec: &At<'_>, containers: &str, found: &mut Findings) {
    let mut all = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| spec.field(list).items());
    let restarts_all = |container: At<'_>| {
        let mut rules = container.field("restartPolicyRules").items();
        rules.any(|rule| rule.field("action").is("RestartAllContainers"))
    };
    if all.any(restarts_all) {
        return;
    }
    for ended in begun_again(new, old) {
        let code = ended.deep(&["state", "terminated", "exitCode"]).int();
        let mut own = spec.field(containers).items();
        let own = own.find(|container| container.field("name").value == ended.field("name").value);
        if !own.is_some_and(|container| restarts_after(&container, spec, code)) {
            found.forbidden(&ended.field("state"), NOT_AGAIN);
        }
    }
}

/// Whether a container restarts that has ended with a code.
fn restarts_after(container: &At<'_>, spec: &At<'_>, code: i64) -> bool {
    let own = container.field("restartPolicy");
    let applies = |rule: &At<'_>| {
        let codes = rule.field("exitCodes");
        let is_listed = codes.field("values").items().any(|value| value.int() == code);
        match codes.field("operator").text() {
            "In" => is_listed,
            "NotIn" => !is_listed,
            _ => false,
        }
    };
    let mut rules = container.field("restartPolicyRules").items();
    if own.is_set() && rules.any(|rule| applies(&rule)) {
        return true;
    }
    let policy = if own.is_set() { own } else { spec.field("restartPolicy") };
    match policy.text() {
        "Never" => false,
        "OnFailure" => code != 0,
        _ => true,
    }
}

/// What is said of claims of resources, which are those of the pod.
fn of_claims(statuses: &At<'_>, claims: &At<'_>, found: &mut Findings) {
    let mut names = HashSet::new();
    for status in statuses.items() {
        let (name, claim) = (status.field("name"), status.field("resourceClaimName"));
        if !claims.items().any(|claim| claim.field("name").value == name.value) {
            found.invalid_text(&name, "must match the name of an entry in `spec.resourceClaims`");
        }
        if !names.insert(name.text()) {
            found.duplicate(&name);
        }
        if claim.is_set() {
            found.text_errors(&claim, subdomain_errors(claim.text()));
        }
    }
}

/// The addresses of a pod or of its host: the first is also told alone, and there is one of each family.
fn addresses_of_status(single: &At<'_>, list: &At<'_>, old: &At<'_>, found: &mut Findings) {
    let addresses = |list: &At<'_>| -> Vec<Value> { list.items().map(|item| item.field("ip").value.clone()).collect() };
    let of_old = Value::Array(addresses(old));
    let first = list.item(0).field("ip");
    let is_of_host = list.path.ends_with("hostIPs");
    if is_of_host && !list.is_empty() && first.text() != single.text() {
        found.invalid_text(&first, "must be equal to `hostIP`");
    }
    for item in list.items() {
        // The place that is told is that of the item.
        let ip = At::new(item.path, &item.value["ip"]);
        net::ip(found, &ip, &At::new("", &of_old));
    }
    let of_six = list
        .items()
        .filter(|item| net::is_ipv6(item.field("ip").text()))
        .count();
    if list.len() > 2 || list.len() == 2 && of_six != 1 {
        let shown: Vec<String> = list
            .items()
            .map(|item| format!("{{\"IP\":{}}}", go_quote(item.field("ip").text())))
            .collect();
        let text = "may specify no more than one IP for each IP family";
        found.invalid_as(list, &format!("[{}]", shown.join(",")), text);
    }
}

/// Whether two values are the same but for members that are null in one and absent in the other.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(left), Value::Object(right)) => left
            .keys()
            .chain(right.keys())
            .all(|key| same(&a[key.as_str()], &b[key.as_str()])),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(a, b)| same(a, b))
        }
        _ => a == b,
    }
}
