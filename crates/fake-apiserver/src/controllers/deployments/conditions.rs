//! The conditions of deployments, and how a rollout is judged.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::codec::time;
use crate::controllers::owned::number;
use crate::controllers::world::text;

pub(super) const PROGRESSING: &str = "Progressing";
pub(super) const AVAILABLE: &str = "Available";
pub(super) const REPLICA_FAILURE: &str = "ReplicaFailure";
pub(super) const NEW_AVAILABLE: &str = "NewReplicaSetAvailable";
pub(super) const TIMED_OUT: &str = "ProgressDeadlineExceeded";
pub(super) const PAUSED: &str = "DeploymentPaused";

/// A condition as of now.
pub(super) fn condition(now: &str, kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": kind, "status": status, "lastUpdateTime": now, "lastTransitionTime": now,
        "reason": reason, "message": message,
    })
}

/// A condition of a status.
pub(super) fn find<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.find(|condition| condition["type"] == kind)
}

/// Takes a condition away.
pub(super) fn remove(status: &mut Value, kind: &str) {
    if let Some(conditions) = status["conditions"].as_array_mut() {
        conditions.retain(|condition| condition["type"] != kind);
    }
}

/// Sets a condition, unless the one that is there has the same status and reason.
pub(super) fn set(status: &mut Value, mut condition: Value) {
    let kind = text(&condition, "/type").to_owned();
    if let Some(old) = find(status, &kind)
        && old["status"] == condition["status"]
    {
        if old["reason"] == condition["reason"] {
            return;
        }
        condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
    }
    remove(status, &kind);
    match status["conditions"].as_array_mut() {
        Some(conditions) => conditions.push(condition),
        None => status["conditions"] = json!([condition]),
    }
}

/// The time that a rollout may make no progress, in seconds.
pub(super) fn deadline(deployment: &Value) -> Option<i64> {
    let seconds = deployment["spec"]["progressDeadlineSeconds"].as_i64()?;
    (seconds != i64::from(i32::MAX)).then_some(seconds)
}

/// Whether nothing is left to be rolled out.
pub(super) fn is_complete(deployment: &Value, status: &Value) -> bool {
    let wanted = number(deployment, "/spec/replicas");
    ["updatedReplicas", "replicas", "availableReplicas"]
        .iter()
        .all(|name| status[name].as_i64().unwrap_or_default() == wanted)
        && number(status, "/observedGeneration") >= number(deployment, "/metadata/generation")
}

/// Whether a status is nearer to the end of the rollout than the one before.
pub(super) fn is_progress(old: &Value, new: &Value) -> bool {
    let more = |name: &str| new[name].as_i64().unwrap_or_default() > old[name].as_i64().unwrap_or_default();
    let of_old = |status: &Value| number(status, "/replicas") - number(status, "/updatedReplicas");
    more("updatedReplicas") || of_old(new) < of_old(old) || more("readyReplicas") || more("availableReplicas")
}

/// When a rollout will have made no progress for too long; none if it is not under way.
pub(super) fn ends(deployment: &Value, status: &Value) -> Option<Timestamp> {
    let seconds = deadline(deployment)?;
    let progressing = find(status, PROGRESSING)?;
    if matches!(text(progressing, "/reason"), NEW_AVAILABLE | TIMED_OUT) {
        return None;
    }
    let since = time::parse(text(progressing, "/lastUpdateTime")).ok()?;
    since.checked_add(SignedDuration::from_secs(seconds)).ok()
}
