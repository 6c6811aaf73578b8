//! Containers of pods.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use crate::gotext::go_quote;
use crate::specs::values::{milli, not_found, quantity_not_negative};
use crate::specs::{At, Findings, net};
use crate::validation::{label_errors, label_key_errors, subdomain_errors};

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

pub(super) fn validate(container: &At<'_>, volumes: &BTreeMap<String, Value>, found: &mut Findings) {
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

pub(super) fn validate_init<'a>(
    container: &At<'a>,
    volumes: &BTreeMap<String, Value>,
    names: &mut HashSet<&'a str>,
    found: &mut Findings,
) {
    validate(container, volumes, found);
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

pub(super) fn host_ports(containers: &At<'_>, found: &mut Findings) {
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
pub(super) fn handlers(container: &At<'_>, found: &mut Findings) {
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
