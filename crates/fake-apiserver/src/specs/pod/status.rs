//! The status of a pod.

use std::collections::HashSet;

use serde_json::Value;

use crate::gotext::go_quote;
use crate::specs::{At, Bodies, Findings, net};
use crate::validation::{label_key_errors, subdomain_errors};

/// What is wrong with a status that is written.
pub(in crate::specs) fn validate(bodies: &Bodies<'_>, found: &mut Findings) {
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
