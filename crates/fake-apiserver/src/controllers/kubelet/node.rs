//! Nodes: the one that is made when there is none, and which pods may be on one.

use serde_json::{Value, json};

use crate::controllers::world::{Agent, Failure, World, text};

/// The node of a cluster that has none.
const NAME: &str = "node-1";
const ADDRESS: &str = "172.18.0.2";

/// Makes the node.
pub(super) async fn create(world: &World<'_>) -> Result<Value, Failure> {
    let Some((resource, _)) = world.built_in("", "nodes") else {
        return Ok(Value::Null);
    };
    let now = world.now();
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        })
    };
    let resources = json!({"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"});
    let node = json!({
        "metadata": {"name": NAME, "labels": {
            "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": NAME, "kubernetes.io/os": "linux",
            "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
        }},
        "spec": {"podCIDR": "10.244.0.0/16", "podCIDRs": ["10.244.0.0/16"]},
        "status": {
            "capacity": resources, "allocatable": resources,
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
                condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
            ],
            "addresses": [{"type": "InternalIP", "address": ADDRESS}, {"type": "Hostname", "address": NAME}],
            "nodeInfo": {
                "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "6.12.0", "osImage": "Linux",
                "containerRuntimeVersion": "containerd://2.1.0", "kubeletVersion": "v1.37.2", "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": "amd64",
            },
        },
    });
    match world.create(Agent::Kubelet, resource, &node).await {
        Err(failure) if failure.is_already_exists() => Ok(world.get("", "nodes", "", NAME).unwrap_or_default()),
        result => result,
    }
}

/// The address of a node.
pub(super) fn address(node: &Value) -> String {
    let mut addresses = node["status"]["addresses"].as_array().into_iter().flatten();
    let internal = addresses.find(|address| address["type"] == "InternalIP");
    internal.map_or(ADDRESS, |address| text(address, "/address")).to_owned()
}

/// Whether a pod may be on a node: by its node selector, and by what the node does not tolerate.
pub(super) fn fits(pod: &Value, node: &Value) -> bool {
    let mut wanted = pod["spec"]["nodeSelector"].as_object().into_iter().flatten();
    let labels = &node["metadata"]["labels"];
    let mut taints = node["spec"]["taints"].as_array().into_iter().flatten();
    node["spec"]["unschedulable"] != true
        && wanted.all(|(key, value)| labels[key] == *value)
        && taints.all(|taint| taint["effect"] == "PreferNoSchedule" || is_new(taint) || is_tolerated(pod, taint))
}

/// A node has this from when it is made until its kubelet is ready, which it is here from the start.
fn is_new(taint: &Value) -> bool {
    taint["key"] == "node.kubernetes.io/not-ready" && taint["effect"] == "NoSchedule"
}

fn is_tolerated(pod: &Value, taint: &Value) -> bool {
    let mut tolerations = pod["spec"]["tolerations"].as_array().into_iter().flatten();
    tolerations.any(|toleration| {
        let (key, effect) = (text(toleration, "/key"), text(toleration, "/effect"));
        let exists = text(toleration, "/operator") == "Exists";
        (key == text(taint, "/key") || key.is_empty() && exists)
            && (effect.is_empty() || effect == text(taint, "/effect"))
            && (exists || text(toleration, "/value") == text(taint, "/value"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_fits_by_labels_and_taints() {
        let node = json!({
            "metadata": {"labels": {"disk": "ssd"}},
            "spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]},
        });
        let fits = |tolerations: Value, selector: Value| {
            super::fits(
                &json!({"spec": {"tolerations": tolerations, "nodeSelector": selector}}),
                &node,
            )
        };
        for toleration in [
            json!({"operator": "Exists"}),
            json!({"key": "a", "operator": "Exists", "effect": "NoSchedule"}),
            json!({"key": "a", "value": "b"}),
        ] {
            assert!(fits(json!([toleration]), json!({"disk": "ssd"})), "{toleration}");
            assert!(!fits(json!([toleration]), json!({"disk": "hdd"})), "{toleration}");
        }
        for toleration in [
            json!({"key": "a", "value": "c"}),
            json!({"key": "b", "operator": "Exists"}),
            json!({"key": "a", "operator": "Exists", "effect": "NoExecute"}),
        ] {
            assert!(!fits(json!([toleration]), Value::Null), "{toleration}");
        }
        assert!(!super::fits(&Value::Null, &json!({"spec": {"unschedulable": true}})));
    }
}
