//! The objects that a real server makes of itself while it starts.

use serde_json::{Value, json};

/// The user agent, and so the field manager, under which a real server writes to itself.
const MANAGER: &str = "apiserver";

/// The objects as a real server has them some moments after its start, with their field managers. Left out are those that only
/// the server itself looks at: its lease, flow schemas, and priority levels.
pub(super) fn objects(now: &str) -> [Value; 5] {
    let class = |name: &str, value: i64, description: &str| {
        let owned = json!({"f:description": {}, "f:preemptionPolicy": {}, "f:value": {}});
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name, "managedFields": [update("scheduling.k8s.io/v1", &owned, now)]},
            "value": value, "description": description, "preemptionPolicy": "PreemptLowerPriority",
        })
    };
    [
        service_cidr(now),
        class(
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
        class(
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        address(now),
        service(now),
    ]
}

/// A namespace that there is from the start, with its field managers.
pub(super) fn namespace(name: &str, now: &str) -> Value {
    let owned = json!({"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}});
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "managedFields": [update("v1", &owned, now)]},
        "status": {"phase": "Active"},
    })
}

/// An entry of `managedFields`.
fn update(api_version: &str, owned: &Value, now: &str) -> Value {
    json!({
        "manager": MANAGER, "operation": "Update", "apiVersion": api_version,
        "time": now, "fieldsType": "FieldsV1", "fieldsV1": owned,
    })
}

fn service_cidr(now: &str) -> Value {
    let of_status = json!({"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {
        ".": {}, "f:lastTransitionTime": {}, "f:message": {}, "f:status": {}, "f:type": {},
    }}}});
    let controller = json!({
        "manager": "kubernetes-service-cidr-controller", "operation": "Apply", "apiVersion": "networking.k8s.io/v1",
        "time": now, "fieldsType": "FieldsV1", "fieldsV1": of_status, "subresource": "status",
    });
    let own = update("networking.k8s.io/v1", &json!({"f:spec": {"f:cidrs": {}}}), now);
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": "kubernetes", "managedFields": [controller, own]},
        "spec": {"cidrs": ["10.0.0.0/24"]},
        "status": {"conditions": [{
            "type": "Ready", "status": "True", "reason": "", "lastTransitionTime": now,
            "message": "Kubernetes default Service CIDR is ready",
        }]},
    })
}

fn address(now: &str) -> Value {
    let owned = json!({
        "f:metadata": {"f:labels": {
            ".": {}, "f:ipaddress.kubernetes.io/ip-family": {}, "f:ipaddress.kubernetes.io/managed-by": {},
        }},
        "f:spec": {"f:parentRef": {".": {}, "f:name": {}, "f:namespace": {}, "f:resource": {}}},
    });
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": {
            "name": "10.0.0.1",
            "labels": {
                "ipaddress.kubernetes.io/ip-family": "IPv4",
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
            "managedFields": [update("networking.k8s.io/v1", &owned, now)],
        },
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "kubernetes"}},
    })
}

fn service(now: &str) -> Value {
    let owned = json!({
        "f:metadata": {"f:labels": {".": {}, "f:component": {}, "f:provider": {}}},
        "f:spec": {
            "f:clusterIP": {}, "f:internalTrafficPolicy": {}, "f:ipFamilyPolicy": {},
            "f:ports": {".": {}, "k:{\"port\":443,\"protocol\":\"TCP\"}": {
                ".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {},
            }},
            "f:sessionAffinity": {}, "f:type": {},
        },
    });
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
            "managedFields": [update("v1", &owned, now)],
        },
        "spec": {
            "type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster",
            "sessionAffinity": "None",
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}],
        },
    })
}
