//! Pods, and templates of pods. Containers, what an update may change, and the status have files of their own.

mod containers;
pub(super) mod status;
mod update;

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::values::labels;
use super::{At, Bodies, Findings};
use crate::gotext::go_quote;
use crate::validation::{label_errors, label_key_errors, label_value_errors, subdomain_errors};

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
        update::validate(&spec, &bodies.old("spec"), found);
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
        containers::validate(&container, &volumes, found);
        let name = container.field("name");
        if !names.insert(name.text()) {
            found.duplicate(&name);
        }
        containers::handlers(&container, found);
    }
    containers::host_ports(&containers, found);
    for container in spec.field("initContainers").items() {
        containers::validate_init(&container, &volumes, &mut names, found);
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
