//! Which pods of a replica set go first when there are too many.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::Value;

use super::since;
use crate::controllers::world::text;

/// The annotation that says how much a pod is worth.
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Compares two pods; the smaller one goes first. `related` is how many pods of the same kind there are on each node. What
/// nothing tells apart is ordered by name, so that the same pods go each time.
pub(super) fn expendable(a: &Value, b: &Value, related: &BTreeMap<String, usize>) -> Ordering {
    let node = |pod: &Value| text(pod, "/spec/nodeName").to_owned();
    let phase = |pod: &Value| match text(pod, "/status/phase") {
        "Running" => 2,
        "Unknown" => 1,
        _ => 0,
    };
    let cost = |pod: &Value| -> i32 {
        let text = pod["metadata"]["annotations"][COST].as_str();
        text.and_then(|text| text.parse().ok()).unwrap_or_default()
    };
    let ready = |pod: &Value| since(pod, "Ready");
    let on_node = |pod: &Value| related.get(&node(pod)).copied().unwrap_or_default();
    let restarts = |pod: &Value| {
        let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
        statuses
            .filter_map(|status| status["restartCount"].as_i64())
            .max()
            .unwrap_or_default()
    };
    let created = |pod: &Value| text(pod, "/metadata/creationTimestamp").to_owned();
    let newest_ready = match (ready(a), ready(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        _ => Ordering::Equal,
    };
    node(a)
        .is_empty()
        .cmp(&node(b).is_empty())
        .reverse()
        .then_with(|| phase(a).cmp(&phase(b)))
        .then_with(|| ready(a).is_some().cmp(&ready(b).is_some()))
        .then_with(|| cost(a).cmp(&cost(b)))
        .then_with(|| on_node(b).cmp(&on_node(a)))
        .then(newest_ready)
        .then_with(|| restarts(b).cmp(&restarts(a)))
        .then_with(|| created(b).cmp(&created(a)))
        .then_with(|| text(a, "/metadata/name").cmp(text(b, "/metadata/name")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_that_are_worth_less_go_first() {
        let pod = |node: &str, phase: &str, ready: &str, cost: &str, created: &str| {
            let status = if ready.is_empty() { "False" } else { "True" };
            json!({
                "metadata": {"name": created, "creationTimestamp": created, "annotations": {COST: cost}},
                "spec": {"nodeName": node},
                "status": {"phase": phase, "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": ready}]},
            })
        };
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        let sorted = [
            pod("", "Pending", "", "0", early),
            pod("n", "Pending", "", "0", early),
            pod("n", "Running", "", "0", early),
            pod("n", "Running", late, "-1", early),
            pod("full", "Running", early, "0", early),
            pod("n", "Running", late, "0", early),
            pod("n", "Running", early, "0", late),
            pod("n", "Running", early, "0", early),
            pod("n", "Running", early, "1", early),
        ];
        let related = BTreeMap::from([("full".to_owned(), 2), ("n".to_owned(), 1)]);
        for (at, a) in sorted.iter().enumerate() {
            for (other, b) in sorted.iter().enumerate() {
                assert_eq!(expendable(a, b, &related), at.cmp(&other), "{a} {b}");
            }
        }
    }
}
