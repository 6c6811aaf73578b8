//! Jobs and cron jobs.

use serde_json::{Value, json};

use super::values::{selector, selector_shown, selects};
use super::workloads::{UNSELECTED, not_negative};
use super::{At, Bodies, Findings, pod};
use crate::validation::ErrorKind;

const NAME: &str = "batch.kubernetes.io/job-name";
const UID: &str = "batch.kubernetes.io/controller-uid";
const OLD_NAME: &str = "job-name";
const OLD_UID: &str = "controller-uid";

pub(super) fn job(bodies: &Bodies<'_>, found: &mut Findings) {
    let spec = bodies.at("spec");
    if !bodies.is_update() {
        finds_own_pods(bodies, &spec, found);
    }
    job_numbers(&spec, found);
    let select = spec.field("selector");
    if select.is_set() {
        selector(found, &select);
    } else {
        found.required(&select, "");
    }
    let of_template = spec.deep(&["template", "metadata", "labels"]);
    if selects(&select, &of_template) == Some(false) {
        found.invalid(&of_template, UNSELECTED);
    }
    job_template(&spec, found);
    if bodies.is_update() {
        changes(bodies, &spec, found);
    }
}

/// Finds labels of the pods of a new job, and a selector, that are not those by which jobs find their pods.
fn finds_own_pods(bodies: &Bodies<'_>, spec: &At<'_>, found: &mut Findings) {
    let select = spec.field("selector");
    if spec.field("manualSelector").flag() || !select.is_set() {
        return;
    }
    let meta = &bodies.written.new.meta;
    let labels = spec.deep(&["template", "metadata", "labels"]);
    for (key, wanted) in [
        (OLD_UID, &meta.uid),
        (OLD_NAME, &meta.name),
        (UID, &meta.uid),
        (NAME, &meta.name),
    ] {
        let label = labels.key(key);
        let detail = format!("must be '{wanted}'");
        if !label.is_set() {
            found.required(&label, &detail);
        } else if !label.is(wanted) {
            found.invalid_as(&label, &labels.value.to_string(), &detail);
        }
    }
    let wanted = json!({ UID: meta.uid, NAME: meta.name, OLD_UID: meta.uid, OLD_NAME: meta.name });
    if selects(&select, &At::new("", &wanted)) == Some(false) {
        found.invalid_as(&select, &selector_shown(&select), "`selector` not auto-generated");
    }
}

/// Finds changes of what stays as it is once a job is there.
fn changes(bodies: &Bodies<'_>, spec: &At<'_>, found: &mut Findings) {
    let old = bodies.old("spec");
    let select = spec.field("selector");
    let (completions, mode) = (spec.field("completions"), spec.field("completionMode"));
    if completions.value != old.field("completions").value && !mode.is("Indexed") {
        found.immutable(&completions, &old.field("completions"));
    }
    if select.value != old.field("selector").value {
        found.invalid_as(&select, &selector_shown(&select), "field is immutable");
    }
    template_changes(bodies, spec, found);
    found.immutable(&mode, &old.field("completionMode"));
    for field in ["podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        found.immutable(&spec.field(field), &old.field(field));
    }
}

/// Finds changes of the template. While a job rests, pods may be told to go elsewhere and to take more.
fn template_changes(bodies: &Bodies<'_>, spec: &At<'_>, found: &mut Findings) {
    let old = bodies.old("spec");
    let status = bodies.old("status");
    let new = spec.field("template");
    let is_suspended = old.field("suspend").flag();
    let has_paused =
        |condition: &At<'_>| condition.field("type").is("Suspended") && condition.field("status").is("True");
    let rests = !status.field("startTime").is_set() || status.field("conditions").items().any(|c| has_paused(&c));
    let is_open = is_suspended && rests && status.field("active").int() == 0;
    let mut allowed = old.field("template").value.clone();
    if is_open {
        take_scheduling(new.value, &mut allowed);
        for list in ["containers", "initContainers"] {
            take_resources(&new.value["spec"][list], allowed["spec"].get_mut(list));
        }
        let of_spec = new.field("spec");
        if of_spec.value != &allowed["spec"] {
            found.invalid(&At::new("spec.template.spec", of_spec.value), "field is immutable");
        }
    } else if new.value != &allowed {
        // The real server shows its own struct.
        found.invalid(&new, "field is immutable");
    }
}

/// Takes from a template what says where its pods go.
fn take_scheduling(new: &Value, old: &mut Value) {
    let affinity = new["spec"]["affinity"]["nodeAffinity"].clone();
    set(&mut old["spec"], "nodeSelector", &new["spec"]["nodeSelector"]);
    set(&mut old["spec"], "tolerations", &new["spec"]["tolerations"]);
    set(&mut old["spec"], "schedulingGates", &new["spec"]["schedulingGates"]);
    set(&mut old["metadata"], "annotations", &new["metadata"]["annotations"]);
    set(&mut old["metadata"], "labels", &new["metadata"]["labels"]);
    let has_affinity = (new["spec"]["affinity"].is_object(), old["spec"]["affinity"].is_object());
    match has_affinity {
        (_, true) => set(&mut old["spec"]["affinity"], "nodeAffinity", &affinity),
        (true, false) => {
            let mut whole = json!({});
            set(&mut whole, "nodeAffinity", &affinity);
            set(&mut old["spec"], "affinity", &whole);
        }
        (false, false) => {}
    }
    // The affinity may go if it is all about nodes.
    if has_affinity == (false, true) && old["spec"]["affinity"] == json!({}) {
        set(&mut old["spec"], "affinity", &Value::Null);
    }
}

/// Takes from containers of the same names what they ask for.
fn take_resources(new: &Value, old: Option<&mut Value>) {
    let (Some(new), Some(old)) = (new.as_array(), old.and_then(Value::as_array_mut)) else {
        return;
    };
    if new.len() != old.len() {
        return;
    }
    for (new, old) in new.iter().zip(old) {
        if new["name"] == old["name"] {
            set(old, "resources", &new["resources"]);
        }
    }
}

/// Sets a field, or takes it away.
fn set(object: &mut Value, field: &str, value: &Value) {
    let Some(members) = object.as_object_mut() else { return };
    if value.is_null() {
        members.remove(field);
    } else {
        members.insert(field.to_owned(), value.clone());
    }
}

fn job_numbers(spec: &At<'_>, found: &mut Findings) {
    not_negative(
        spec,
        &[
            "parallelism",
            "completions",
            "activeDeadlineSeconds",
            "backoffLimit",
            "ttlSecondsAfterFinished",
            "backoffLimitPerIndex",
            "maxFailedIndexes",
        ],
        found,
    );
    let mode = spec.field("completionMode");
    if mode.is_set() {
        if !["Indexed", "NonIndexed"].contains(&mode.text()) {
            found.not_supported(&mode, &["NonIndexed", "Indexed"]);
        }
        if mode.is("Indexed") {
            let (completions, parallelism) = (spec.field("completions"), spec.field("parallelism"));
            if !completions.is_set() {
                found.required(&completions, &format!("when completion mode is {}", mode.text()));
            }
            if parallelism.int() > 100_000 {
                found.invalid_int(
                    &parallelism,
                    "must be less than or equal to 100000 when completion mode is Indexed",
                );
            }
        }
    }
}

fn job_template(spec: &At<'_>, found: &mut Findings) {
    pod::template(&spec.field("template"), found);
    let policy = spec.deep(&["template", "spec", "restartPolicy"]);
    if policy.is("Always") {
        found.required(&policy, "valid values: \"OnFailure\", \"Never\"");
    } else if !["OnFailure", "Never"].contains(&policy.text()) {
        found.not_supported(&policy, &["OnFailure", "Never"]);
    } else if spec.field("podFailurePolicy").is_set() && !policy.is("Never") {
        found.invalid_text(
            &policy,
            "only \"Never\" is supported when podFailurePolicy is specified",
        );
    }
}

pub(super) fn cron_job(bodies: &Bodies<'_>, found: &mut Findings) {
    let spec = bodies.at("spec");
    let of_job = spec.deep(&["jobTemplate", "spec"]);
    job_numbers(&of_job, found);
    job_template(&of_job, found);
    let manual = of_job.field("manualSelector");
    if manual.flag() {
        found.add(
            ErrorKind::NotSupported,
            &manual,
            "true: supported values: \"nil\", \"false\"",
        );
    }
    let schedule = spec.field("schedule");
    if schedule.is_empty() {
        found.required(&schedule, "");
    } else if let Some(text) = super::cron::error(schedule.text()) {
        found.invalid_text(&schedule, &text);
    }
    not_negative(&spec, &["startingDeadlineSeconds"], found);
    let zone = spec.field("timeZone");
    if zone.is_set() && zone.is_empty() {
        found.invalid_text(&zone, "timeZone must be nil or non-empty string");
    }
    found.one_of(&spec.field("concurrencyPolicy"), &["Allow", "Forbid", "Replace"]);
    not_negative(&spec, &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"], found);
}
