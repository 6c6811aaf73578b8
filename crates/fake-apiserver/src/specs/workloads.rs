//! What makes pods: deployments and their like. Jobs have a file of their own.

use std::collections::HashSet;

use serde_json::Value;

use super::values::{at_most_all, count_of, count_or_percent, labels, percent, selector, selector_shown, selects};
use super::{At, Bodies, Findings, cluster, pod};
use crate::validation::{ErrorKind, label_errors};

pub(super) const UNSELECTED: &str = "`selector` does not match template `labels`";

/// Finds a selector that is missing, wrong or empty, and a template that it does not select.
fn selector_and_template(spec: &At<'_>, kind: &str, found: &mut Findings) {
    let (select, template) = (spec.field("selector"), spec.field("template"));
    if select.is_set() {
        selector(found, &select);
        if select.field("matchLabels").is_empty() && select.field("matchExpressions").is_empty() {
            let text = format!("empty selector is invalid for {kind}");
            found.invalid_as(&select, &selector_shown(&select), &text);
        }
    } else {
        found.required(&select, "");
    }
    let of_template = template.deep(&["metadata", "labels"]);
    match selects(&select, &of_template) {
        Some(true) => {}
        Some(false) => found.invalid(&of_template, UNSELECTED),
        None => {
            let detail = if kind == "statefulset" {
                ""
            } else {
                "invalid label selector"
            };
            found.invalid_as(&select, &selector_shown(&select), detail);
            return;
        }
    }
    pod::template(&template, found);
}

fn restart_always(spec: &At<'_>, kind: &str, found: &mut Findings) {
    let of_pod = spec.deep(&["template", "spec"]);
    let policy = of_pod.field("restartPolicy");
    if !policy.is("Always") {
        found.not_supported(&policy, &["Always"]);
    }
    let deadline = of_pod.field("activeDeadlineSeconds");
    if deadline.is_set() {
        found.forbidden(&deadline, &format!("activeDeadlineSeconds in {kind} is not Supported"));
    }
}

/// Finds pods that end, unless it is not known which pods are meant.
fn of_replicas(spec: &At<'_>, found: &mut Findings) {
    if selects(&spec.field("selector"), &At::new("", &Value::Null)).is_some() {
        restart_always(spec, "ReplicaSet", found);
    }
}

/// A strategy as texts show it, in the words of Go.
fn strategy_shown(strategy: &At<'_>, fields: &[&str]) -> String {
    let rolling = strategy.field("rollingUpdate");
    let inner: Vec<String> = fields
        .iter()
        .map(|field| {
            let mut name = (*field).to_owned();
            name[..1].make_ascii_uppercase();
            let value = match (rolling.field(field).value, *field) {
                (Value::Null, "partition") => "0".to_owned(),
                (value, _) => value.to_string(),
            };
            format!("\"{name}\":{value}")
        })
        .collect();
    if rolling.is_set() {
        format!("{{{}}}", inner.join(","))
    } else {
        "null".to_owned()
    }
}

fn unknown_strategy(strategy: &At<'_>, kind: &str, known: &[&str], found: &mut Findings) {
    let rolling = strategy_shown(strategy, &["maxUnavailable", "maxSurge"]);
    let known: Vec<String> = known.iter().map(|kind| format!("{kind:?}")).collect();
    let text = format!(
        "{{\"Type\":{kind:?},\"RollingUpdate\":{rolling}}}: supported values: {}",
        known.join(", ")
    );
    found.add(ErrorKind::NotSupported, strategy, &text);
}

fn immutable_selector(bodies: &Bodies<'_>, found: &mut Findings) {
    let (new, old) = (
        bodies.at("spec").field("selector"),
        bodies.old("spec").field("selector"),
    );
    if bodies.is_update() && new.value != old.value {
        found.invalid_as(&new, &selector_shown(&new), "field is immutable");
    }
}

pub(super) fn not_negative(spec: &At<'_>, fields: &[&str], found: &mut Findings) {
    for field in fields {
        found.not_negative(&spec.field(field));
    }
}

pub(super) fn deployment(bodies: &Bodies<'_>, found: &mut Findings) {
    let spec = bodies.at("spec");
    not_negative(&spec, &["replicas"], found);
    selector_and_template(&spec, "deployment", found);
    of_replicas(&spec, found);
    let strategy = spec.field("strategy");
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "Recreate" => {
            if rolling.is_set() {
                found.forbidden(&rolling, "may not be specified when strategy `type` is 'Recreate'");
            }
        }
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
            count_or_percent(found, &unavailable);
            count_or_percent(found, &surge);
            if count_of(&unavailable) == 0 && count_of(&surge) == 0 {
                found.invalid(&unavailable, "may not be 0 when `maxSurge` is 0");
            }
            at_most_all(found, &unavailable);
        }
        kind => unknown_strategy(&strategy, kind, &["Recreate", "RollingUpdate"], found),
    }
    not_negative(
        &spec,
        &["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"],
        found,
    );
    let (deadline, ready) = (spec.field("progressDeadlineSeconds"), spec.field("minReadySeconds"));
    if deadline.is_set() && deadline.int() <= ready.int() {
        found.invalid_int(&deadline, "must be greater than minReadySeconds");
    }
    immutable_selector(bodies, found);
}

pub(super) fn replica_set(bodies: &Bodies<'_>, found: &mut Findings) {
    let spec = bodies.at("spec");
    not_negative(&spec, &["replicas", "minReadySeconds"], found);
    selector_and_template(&spec, "deployment", found);
    of_replicas(&spec, found);
    immutable_selector(bodies, found);
}

pub(super) fn daemon_set(bodies: &Bodies<'_>, found: &mut Findings) {
    immutable_selector(bodies, found);
    let spec = bodies.at("spec");
    let (select, template) = (spec.field("selector"), spec.field("template"));
    selector(found, &select);
    let of_template = template.deep(&["metadata", "labels"]);
    let empty = select.field("matchLabels").is_empty() && select.field("matchExpressions").is_empty();
    if selects(&select, &of_template) == Some(false) {
        found.invalid(&of_template, UNSELECTED);
    }
    if select.is_set() && empty {
        found.invalid_as(
            &select,
            &selector_shown(&select),
            "empty selector is invalid for daemonset",
        );
    }
    pod::template(&template, found);
    restart_always(&spec, "DaemonSet", found);
    not_negative(&spec, &["minReadySeconds"], found);
    let strategy = spec.field("updateStrategy");
    let rolling = strategy.field("rollingUpdate");
    if strategy.field("type").is("RollingUpdate") {
        let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
        count_or_percent(found, &unavailable);
        count_or_percent(found, &surge);
        at_most_all(found, &unavailable);
        at_most_all(found, &surge);
        match (count_of(&unavailable) != 0, count_of(&surge) != 0) {
            (true, true) => found.invalid(&surge, "may not be set when maxUnavailable is non-zero"),
            (false, false) => found.required(&unavailable, "cannot be 0 when maxSurge is 0"),
            _ => {}
        }
    } else if !strategy.field("type").is("OnDelete") {
        let kind = strategy.field("type").text();
        unknown_strategy(&strategy, kind, &["RollingUpdate", "OnDelete"], found);
    }
    not_negative(&spec, &["revisionHistoryLimit"], found);
}

pub(super) fn stateful_set(bodies: &Bodies<'_>, found: &mut Findings) {
    let spec = bodies.at("spec");
    let management = spec.field("podManagementPolicy");
    if !["OrderedReady", "Parallel"].contains(&management.text()) {
        found.invalid_text(&management, "must be 'OrderedReady' or 'Parallel'");
    }
    let strategy = spec.field("updateStrategy");
    let rolling = strategy.field("rollingUpdate");
    if strategy.field("type").is("RollingUpdate") && rolling.is_set() {
        let (partition, unavailable) = (rolling.field("partition"), rolling.field("maxUnavailable"));
        found.not_negative(&partition);
        if unavailable.is_set() {
            count_or_percent(found, &unavailable);
            if count_of(&unavailable) == 0 && (percent(unavailable.text()).is_some() || unavailable.value.is_number()) {
                found.invalid(&unavailable, "cannot be 0");
            }
            at_most_all(found, &unavailable);
        }
    }
    let kind = strategy.field("type").text();
    let shown = strategy_shown(&strategy, &["partition", "maxUnavailable"]);
    if kind == "OnDelete" && rolling.is_set() {
        found.invalid_as(&rolling, &shown, "only allowed for updateStrategy 'RollingUpdate'");
    } else if !["OnDelete", "RollingUpdate"].contains(&kind) {
        let shown = format!("{{\"Type\":{kind:?},\"RollingUpdate\":{shown}}}");
        found.invalid_as(&strategy, &shown, "must be 'RollingUpdate' or 'OnDelete'");
    }
    let retention = spec.field("persistentVolumeClaimRetentionPolicy");
    for field in ["whenDeleted", "whenScaled"] {
        let at = retention.field(field);
        if !["Retain", "Delete"].contains(&at.text()) {
            found.not_supported(&at, &["Retain", "Delete"]);
        }
    }
    for claim in spec.field("volumeClaimTemplates").items() {
        cluster::claim_spec(&claim.field("spec"), found);
    }
    not_negative(&spec, &["replicas", "minReadySeconds"], found);
    let service = spec.field("serviceName");
    if !service.is_empty() {
        found.text_errors(&service, label_errors(service.text()));
    }
    of_stateful_template(&spec, found);
    restart_always(&spec, "StatefulSet", found);
    if bodies.is_update() {
        stateful_update(&spec, &bodies.old("spec"), found);
    }
}

/// The template with the volumes that its claims bring.
fn of_stateful_template(spec: &At<'_>, found: &mut Findings) {
    let mut with_claims = spec.value.clone();
    let claims: Vec<Value> = spec
        .field("volumeClaimTemplates")
        .items()
        .map(|claim| {
            let name = claim.deep(&["metadata", "name"]).value.clone();
            serde_json::json!({"name": name, "persistentVolumeClaim": {"claimName": name}})
        })
        .collect();
    if !claims.is_empty() {
        let names: HashSet<String> = claims.iter().map(|claim| claim["name"].to_string()).collect();
        let own = spec.deep(&["template", "spec", "volumes"]);
        let others = own
            .items()
            .filter(|volume| !names.contains(&volume.field("name").value.to_string()));
        let all: Vec<Value> = claims
            .iter()
            .cloned()
            .chain(others.map(|volume| volume.value.clone()))
            .collect();
        with_claims["template"]["spec"]["volumes"] = all.into();
    }
    let with_claims = At::new(spec.path.clone(), &with_claims);
    selector_and_template(&with_claims, "statefulset", found);
    let of_labels = spec.deep(&["template", "metadata", "labels"]);
    labels(found, &At::new("spec.template.labels", of_labels.value));
}

fn stateful_update(spec: &At<'_>, old: &At<'_>, found: &mut Findings) {
    for field in ["selector", "volumeClaimTemplates", "podManagementPolicy", "serviceName"] {
        let (new, old) = (spec.field(field), old.field(field));
        if new.value == old.value {
            continue;
        }
        match field {
            "selector" => found.invalid_as(&new, &selector_shown(&new), "field is immutable"),
            // The real server shows its own structs.
            "volumeClaimTemplates" => found.invalid(&new, "field is immutable"),
            _ => found.invalid_text(&new, "field is immutable"),
        }
    }
}

pub(super) fn replication_controller(bodies: &Bodies<'_>, found: &mut Findings) {
    let spec = bodies.at("spec");
    not_negative(&spec, &["minReadySeconds"], found);
    let select = spec.field("selector");
    if select.is_empty() {
        found.required(&select, "");
    }
    not_negative(&spec, &["replicas"], found);
    let template = spec.field("template");
    if !template.is_set() {
        found.required(&template, "");
        return;
    }
    let of_template = template.deep(&["metadata", "labels"]);
    let selected = select
        .entries()
        .all(|(key, value)| of_template.value[key] == *value.value);
    if !select.is_empty() && !selected {
        found.invalid(&of_template, UNSELECTED);
    }
    pod::template(&template, found);
    restart_always(&spec, "ReplicationController", found);
}

pub(super) fn pod_template(bodies: &Bodies<'_>, found: &mut Findings) {
    pod::template(&bodies.at("template"), found);
}

const MORE_THAN_ALL: &str = "cannot be greater than status.replicas";

/// Finds counts of a status that are greater than that of all.
fn parts_of_all(status: &At<'_>, fields: &[&str], found: &mut Findings) {
    for field in fields {
        let part = status.field(field);
        if part.int() > status.field("replicas").int() {
            found.invalid_int(&part, MORE_THAN_ALL);
        }
    }
}

/// Finds pods that are available and not ready.
fn available(status: &At<'_>, text: &str, found: &mut Findings) {
    let part = status.field("availableReplicas");
    if part.int() > status.field("readyReplicas").int() {
        found.invalid_int(&part, text);
    }
}

/// Finds a count of collisions that has become less.
fn collisions(bodies: &Bodies<'_>, found: &mut Findings) {
    const FIELD: &str = "collisionCount";
    let (new, old) = (bodies.at("status").field(FIELD), bodies.old("status").field(FIELD));
    if old.is_set() && (!new.is_set() || new.int() < old.int()) {
        found.invalid_int(&new, "cannot be decremented");
    }
}

const NOT_READY: &str = "cannot be greater than readyReplicas";

pub(super) fn deployment_status(bodies: &Bodies<'_>, found: &mut Findings) {
    let status = bodies.at("status");
    let fields = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    not_negative(&status, &fields, found);
    parts_of_all(
        &status,
        &["updatedReplicas", "readyReplicas", "availableReplicas"],
        found,
    );
    available(&status, NOT_READY, found);
    collisions(bodies, found);
}

/// Of replica sets, and of replication controllers, which have no count of those that terminate.
pub(super) fn replica_set_status(bodies: &Bodies<'_>, found: &mut Findings) {
    let status = bodies.at("status");
    let parts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    not_negative(&status, &["replicas"], found);
    not_negative(&status, &parts, found);
    not_negative(&status, &["observedGeneration", "terminatingReplicas"], found);
    parts_of_all(&status, &parts, found);
    available(&status, NOT_READY, found);
}

pub(super) fn daemon_set_status(bodies: &Bodies<'_>, found: &mut Findings) {
    let fields = [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ];
    not_negative(&bodies.at("status"), &fields, found);
    collisions(bodies, found);
}

pub(super) fn stateful_set_status(bodies: &Bodies<'_>, found: &mut Findings) {
    let status = bodies.at("status");
    let parts = [
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
    ];
    not_negative(&status, &["replicas"], found);
    not_negative(&status, &parts, found);
    not_negative(&status, &["observedGeneration", "collisionCount"], found);
    parts_of_all(&status, &parts, found);
    available(&status, "cannot be greater than status.readyReplicas", found);
    collisions(bodies, found);
}
