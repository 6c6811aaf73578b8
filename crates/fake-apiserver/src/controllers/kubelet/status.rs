//! The status of pods on their way to running.

use serde_json::{Map, Value, json};

use crate::controllers::world::{Agent, Failure, Key, World, text};

/// How far a pod with a node has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nothing is told of its containers.
    New,
    /// Its containers are being made.
    Creating,
    /// Something that is not written here.
    Other,
}

const CREATING: &str = "ContainerCreating";

/// The stage of a pod that is pending.
pub(super) fn stage(pod: &Value) -> Stage {
    if !matches!(text(pod, "/status/phase"), "" | "Pending") {
        return Stage::Other;
    }
    let statuses = pod["status"]["containerStatuses"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let is_creating = |status: &Value| text(status, "/state/waiting/reason") == CREATING;
    if statuses.is_empty() {
        Stage::New
    } else if statuses.iter().all(is_creating) {
        Stage::Creating
    } else {
        Stage::Other
    }
}

/// The containers of a pod in one of its lists.
fn containers<'a>(pod: &'a Value, list: &str) -> &'a [Value] {
    pod["spec"][list].as_array().map_or(&[], Vec::as_slice)
}

fn names(pod: &Value) -> String {
    let names: Vec<&str> = containers(pod, "containers")
        .iter()
        .map(|container| text(container, "/name"))
        .collect();
    names.join(" ")
}

/// Sets conditions, each with its time if its status changes.
fn set_conditions(world: &World<'_>, pod: &mut Value, conditions: &[(&str, bool, &str, &str)]) {
    let generation = pod["metadata"]["generation"].clone();
    let status = &mut pod["status"];
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(known) = status["conditions"].as_array_mut() else {
        return;
    };
    for (kind, holds, reason, message) in conditions {
        let holds = if *holds { "True" } else { "False" };
        let mut new = json!({
            "type": kind, "status": holds, "lastProbeTime": null, "lastTransitionTime": world.now(),
            "observedGeneration": generation,
        });
        for (field, value) in [("reason", reason), ("message", message)] {
            if !value.is_empty() {
                new[field] = (*value).into();
            }
        }
        match known.iter_mut().find(|condition| condition["type"] == *kind) {
            Some(old) => {
                if old["status"] == holds {
                    new["lastTransitionTime"] = old["lastTransitionTime"].clone();
                }
                *old = new;
            }
            None => known.push(new),
        }
    }
}

/// The containers of a pod are being made.
pub(super) fn creating(world: &World<'_>, pod: &mut Value, host: &str) {
    let unready = format!("containers with unready status: [{}]", names(pod));
    let why = "ContainersNotReady";
    set_conditions(
        world,
        pod,
        &[
            ("PodReadyToStartContainers", false, "", ""),
            ("Initialized", true, "", ""),
            ("Ready", false, why, &unready),
            ("ContainersReady", false, why, &unready),
            ("PodScheduled", true, "", ""),
        ],
    );
    let waiting = |container: &Value| {
        json!({
            "name": container["name"], "image": container["image"], "imageID": "", "ready": false, "started": false,
            "restartCount": 0, "state": {"waiting": {"reason": CREATING}}, "lastState": {},
        })
    };
    let statuses: Vec<Value> = containers(pod, "containers").iter().map(waiting).collect();
    let more = [
        ("phase", json!("Pending")),
        ("observedGeneration", pod["metadata"]["generation"].clone()),
        ("hostIP", json!(host)),
        ("hostIPs", json!([{"ip": host}])),
        ("startTime", json!(world.now())),
        ("containerStatuses", json!(statuses)),
    ];
    extend(pod, more);
}

/// The containers of a pod run, and those that come before them have run.
pub(super) fn running(world: &World<'_>, pod: &mut Value, address: &str) {
    set_conditions(
        world,
        pod,
        &[
            ("PodReadyToStartContainers", true, "", ""),
            ("Initialized", true, "", ""),
            ("Ready", true, "", ""),
            ("ContainersReady", true, "", ""),
        ],
    );
    let now = world.now();
    let uid = text(pod, "/metadata/uid").replace('-', "");
    let mut index = 0;
    let mut status = |container: &Value, runs: bool| {
        index += 1;
        let id = format!("containerd://{uid}{index:032x}");
        let state = if runs {
            json!({"running": {"startedAt": now}})
        } else {
            let ended = json!({
                "exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now, "containerID": id,
            });
            json!({ "terminated": ended })
        };
        json!({
            "name": container["name"], "image": container["image"], "imageID": container["image"], "containerID": id,
            "ready": true, "started": runs, "restartCount": 0, "state": state, "lastState": {},
        })
    };
    // One that is always restarted runs beside the others.
    let before = containers(pod, "initContainers").iter();
    let before: Vec<Value> = before
        .map(|container| status(container, container["restartPolicy"] == "Always"))
        .collect();
    let main: Vec<Value> = containers(pod, "containers")
        .iter()
        .map(|container| status(container, true))
        .collect();
    let more = [
        ("phase", json!("Running")),
        ("podIP", json!(address)),
        ("podIPs", json!([{"ip": address}])),
        ("containerStatuses", json!(main)),
    ];
    extend(pod, more);
    if !before.is_empty() {
        extend(pod, [("initContainerStatuses", json!(before))]);
    }
}

fn extend<const N: usize>(pod: &mut Value, fields: [(&str, Value); N]) {
    if let Some(status) = pod["status"].as_object_mut() {
        let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
        status.extend(fields.collect::<Map<_, _>>());
    }
}

/// No node takes a pod.
pub(super) async fn unschedulable(world: &World<'_>, key: &Key, pod: &Value, nodes: usize) -> Result<(), Failure> {
    let Some((resource, _)) = world.built_in("", "pods") else {
        return Ok(());
    };
    let mut pod = pod.clone();
    let message = format!("0/{nodes} nodes are available.");
    set_conditions(world, &mut pod, &[("PodScheduled", false, "Unschedulable", &message)]);
    debug_assert_eq!(text(&pod, "/metadata/name"), key.name());
    world
        .update(Agent::Scheduler, resource, Some("status"), &pod)
        .await
        .map(drop)
}
