//! What of the spec of a pod an update may change.

use serde_json::Value;

use crate::gotext::go_quote;
use crate::specs::{At, Findings};

const UPDATABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
                         `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to \
                         existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
                         previously negative)";

pub(super) fn validate(spec: &At<'_>, old: &At<'_>, found: &mut Findings) {
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
