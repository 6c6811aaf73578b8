//! The replica set controller: as many pods as a replica set wants.

mod order;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::owned::{claim, controller, number, reference};
use super::owners::Owners;
use super::world::{Agent, Change, Failure, Key, World, shown, text};
use crate::codec::time;
use crate::json::scan;
use crate::object::Object;

const WHO: Agent = Agent::ControllerManager;
const KIND: &str = "ReplicaSet";
/// How many pods are made or deleted at once.
const BURST: usize = 500;
const FAILURE: &str = "ReplicaFailure";

/// The state of the replica set controller: the time of a set is when its pods will have been ready for long enough.
#[derive(Debug, Default)]
pub(super) struct ReplicaSets(Owners);

impl ReplicaSets {
    /// Takes note of a change.
    pub(super) fn observe(&mut self, change: &Change) {
        if change.is_of("apps", "replicasets") {
            self.0.observe(change);
        } else if change.is_of("", "pods") {
            self.0.observe_owned(change, KIND);
        }
    }

    /// When there is something to do although nothing changes.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.0.due()
    }

    /// Works on one replica set; false if none waits.
    pub(super) async fn work(&mut self, world: &World<'_>) -> bool {
        let Some(key) = self.0.pop(world.server.clock.now()) else {
            return false;
        };
        match sync(world, &key).await {
            Ok(next) => self.0.set_time(&key, next),
            Err(failure) if failure.is_conflict() => self.0.push(key),
            Err(failure) if failure.is_not_found() => {}
            Err(failure) => tracing::warn!(set = &*key.object, "the replica set controller was refused: {failure}"),
        }
        true
    }
}

/// A pod that runs or will run.
fn is_active(pod: &Object) -> bool {
    let phase = pod.field("status").and_then(|status| scan::member(status, "phase"));
    pod.meta.deletion_timestamp.is_none()
        && !phase.is_some_and(|phase| phase == b"\"Succeeded\"" || phase == b"\"Failed\"")
}

/// Brings a replica set one step nearer to what it wants; when to look at it again, if only time has to pass.
async fn sync(world: &World<'_>, key: &Key) -> Result<Option<Timestamp>, Failure> {
    let (Some(set), Some(resource), Some(pods)) = (world.show(key), world.resource(key), world.built_in("", "pods"))
    else {
        return Ok(None);
    };
    let active = claim(world, &set, pods, is_active).await?;
    let failure = if set["metadata"]["deletionTimestamp"].is_string() {
        None
    } else {
        manage(world, &set, &active).await
    };
    let (status, next) = status(world, &set, &active, failure.as_ref());
    if !is_same(&set["status"], &status)
        || number(&set, "/metadata/generation") != number(&set, "/status/observedGeneration")
    {
        let mut changed = set.clone();
        changed["status"] = status;
        changed["status"]["observedGeneration"] = set["metadata"]["generation"].clone();
        world.update(WHO, resource, Some("status"), &changed).await?;
    }
    match failure {
        Some(failure) if failure.is_conflict() => Err(failure),
        _ => Ok(next),
    }
}

/// Whether two statuses say the same, beside the generation that they are of.
fn is_same(old: &Value, new: &Value) -> bool {
    let counts = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "terminatingReplicas",
    ];
    let list = |status: &Value| status["conditions"].as_array().cloned().unwrap_or_default();
    counts
        .iter()
        .all(|name| old[name].as_i64().unwrap_or_default() == new[name].as_i64().unwrap_or_default())
        && old["terminatingReplicas"].is_i64()
        && list(old) == list(new)
}

/// Makes the pods that are missing, or deletes those that are too many. What went wrong first.
async fn manage(world: &World<'_>, set: &Value, active: &[Value]) -> Option<Failure> {
    let (resource, id) = world.built_in("", "pods")?;
    let wanted = usize::try_from(number(set, "/spec/replicas")).unwrap_or_default();
    if active.len() < wanted {
        let pod = pod_of(set);
        for _ in 0..(wanted - active.len()).min(BURST) {
            match world.create(WHO, resource, &pod).await {
                Ok(_) => {}
                // Nothing is made in a namespace that goes.
                Err(failure) if failure.is_forbidden() || failure.is_not_found() => return None,
                Err(failure) => return Some(failure),
            }
        }
        return None;
    }
    let too_many = (active.len() - wanted).min(BURST);
    if too_many == 0 {
        return None;
    }
    let related = related_on_nodes(world, set);
    let mut sorted: Vec<&Value> = active.iter().collect();
    sorted.sort_by(|a, b| order::expendable(a, b, &related));
    for pod in &sorted[..too_many] {
        let object = format!("{}/{}", text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
        let key = Key {
            resource: id,
            object: object.into(),
        };
        match world.delete(WHO, resource, &key, &json!({})).await {
            Err(failure) if !failure.is_not_found() => return Some(failure),
            _ => {}
        }
    }
    None
}

/// A new pod.
fn pod_of(set: &Value) -> Value {
    let template = &set["spec"]["template"];
    let mut metadata = json!({
        "generateName": format!("{}-", text(set, "/metadata/name")),
        "namespace": set["metadata"]["namespace"],
        "ownerReferences": [reference(set)],
    });
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    json!({"metadata": metadata, "spec": template["spec"]})
}

/// How many pods of all replica sets with the same controller there are on each node.
fn related_on_nodes(world: &World<'_>, set: &Value) -> BTreeMap<String, usize> {
    let mut owners = set["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let of = owners
        .find(|owner| owner["controller"] == true)
        .map(|owner| owner["uid"].clone());
    let namespace = text(set, "/metadata/namespace");
    let sets = world
        .list("apps", "replicasets", namespace)
        .into_iter()
        .filter(|other| {
            let mut owners = other["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            other["metadata"]["uid"] == set["metadata"]["uid"]
                || of.is_some() && owners.any(|owner| owner["controller"] == true && Some(&owner["uid"]) == of.as_ref())
        });
    let uids: BTreeSet<String> = sets.map(|set| text(&set, "/metadata/uid").to_owned()).collect();
    let mut counts = BTreeMap::new();
    let Some((resource, id)) = world.built_in("", "pods") else {
        return counts;
    };
    for (_, version) in world.stored_in(id, namespace) {
        let pod = version.object.object();
        if is_active(&pod) && controller(&pod.meta).is_some_and(|owner| uids.contains(&owner.uid)) {
            let node = text(&shown(resource, &version), "/spec/nodeName").to_owned();
            *counts.entry(node).or_default() += 1;
        }
    }
    counts
}

/// The time of a condition that holds.
pub(super) fn since(object: &Value, kind: &str) -> Option<Timestamp> {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == kind && condition["status"] == "True")?;
    Some(time::parse(text(found, "/lastTransitionTime")).unwrap_or(Timestamp::MIN))
}

/// The status of a replica set, and when more pods count as available.
fn status(world: &World<'_>, set: &Value, active: &[Value], failure: Option<&Failure>) -> (Value, Option<Timestamp>) {
    let now = world.server.clock.now();
    let seconds = SignedDuration::from_secs(number(set, "/spec/minReadySeconds").max(0));
    let labels = set["spec"]["template"]["metadata"]["labels"].as_object();
    let is_labelled = |pod: &&Value| {
        let mut wanted = labels.into_iter().flatten();
        wanted.all(|(key, value)| pod["metadata"]["labels"][key] == *value)
    };
    let ready: Vec<Timestamp> = active.iter().filter_map(|pod| since(pod, "Ready")).collect();
    let counts_at = |since: &Timestamp| since.checked_add(seconds).unwrap_or(Timestamp::MAX);
    let available = ready
        .iter()
        .filter(|since| seconds.is_zero() || counts_at(since) <= now)
        .count();
    let next = ready.iter().map(counts_at).filter(|time| *time > now).min();
    let mut status = json!({
        "replicas": active.len(),
        "fullyLabeledReplicas": active.iter().filter(is_labelled).count(),
        "readyReplicas": ready.len(),
        "availableReplicas": available,
        "terminatingReplicas": terminating(world, set),
    });
    let mut conditions = set["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let known = conditions.iter().any(|condition| condition["type"] == FAILURE);
    match failure {
        Some(failure) if !known => {
            let is_short = i64::try_from(active.len()).unwrap_or(i64::MAX) < number(set, "/spec/replicas");
            conditions.push(json!({
                "type": FAILURE, "status": "True", "lastTransitionTime": world.now(),
                "reason": if is_short { "FailedCreate" } else { "FailedDelete" }, "message": failure.message(),
            }));
        }
        Some(_) => {}
        None => conditions.retain(|condition| condition["type"] != FAILURE),
    }
    if !conditions.is_empty() {
        status["conditions"] = conditions.into();
    }
    (status, next)
}

/// How many pods of a replica set are on their way out.
fn terminating(world: &World<'_>, set: &Value) -> usize {
    let uid = text(set, "/metadata/uid");
    let Some((_, id)) = world.built_in("", "pods") else {
        return 0;
    };
    let pods = world.stored_in(id, text(set, "/metadata/namespace"));
    let is_going = |pod: &Object| {
        let phase = pod.field("status").and_then(|status| scan::member(status, "phase"));
        pod.meta.deletion_timestamp.is_some()
            && !phase.is_some_and(|phase| phase == b"\"Succeeded\"" || phase == b"\"Failed\"")
            && controller(&pod.meta).is_some_and(|owner| owner.uid == uid)
    };
    pods.iter()
        .filter(|(_, version)| is_going(&version.object.object()))
        .count()
}
