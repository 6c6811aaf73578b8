//! What a server makes of itself while it starts. [F15]

use serde_json::{Value, json};

use crate::harness::{Server, cases, eventually};

/// Takes away what differs from one server to the next; says of the times of managers that they are there.
fn settle(object: &mut Value) {
    let metadata = object["metadata"].as_object_mut().expect("metadata");
    for own in ["uid", "resourceVersion", "creationTimestamp"] {
        assert!(metadata.remove(own).is_some(), "{own} is there");
    }
    for manager in metadata["managedFields"].as_array_mut().expect("managers") {
        let time = manager.as_object_mut().expect("a manager").remove("time");
        assert!(time.is_some_and(|time| time.is_string()));
    }
}

fn owned(manager: &str, api_version: &str, fields: &Value) -> Value {
    json!({"manager": manager, "operation": "Update", "apiVersion": api_version, "fieldsType": "FieldsV1", "fieldsV1": fields})
}

// [F15] namespaces are the apiserver's
async fn namespaces(server: Server) {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        let mut namespace = server.get(&format!("/api/v1/namespaces/{name}")).await.ok();
        settle(&mut namespace);
        let of_label = json!({"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}});
        let expected = json!({
            "kind": "Namespace", "apiVersion": "v1",
            "metadata": {
                "name": name, "labels": {"kubernetes.io/metadata.name": name},
                "managedFields": [owned("apiserver", "v1", &of_label)],
            },
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        });
        assert_eq!(namespace, expected);
    }
}

// [F15] the service through which pods find the server, its address, and the range that it is of
async fn own_service(server: Server) {
    let mut service = server.get("/api/v1/namespaces/default/services/kubernetes").await.ok();
    settle(&mut service);
    let port = service["spec"]["ports"][0]["targetPort"].take();
    assert!(port.is_u64(), "each server has its own: {port}");
    let fields = json!({
        "f:metadata": {"f:labels": {".": {}, "f:component": {}, "f:provider": {}}},
        "f:spec": {
            "f:clusterIP": {}, "f:internalTrafficPolicy": {}, "f:ipFamilyPolicy": {},
            "f:ports": {".": {}, "k:{\"port\":443,\"protocol\":\"TCP\"}": {
                ".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {},
            }},
            "f:sessionAffinity": {}, "f:type": {},
        },
    });
    let expected = json!({
        "kind": "Service", "apiVersion": "v1",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
            "managedFields": [owned("apiserver", "v1", &fields)],
        },
        "spec": {
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": null}],
            "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "type": "ClusterIP", "sessionAffinity": "None",
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster",
        },
        "status": {"loadBalancer": {}},
    });
    assert_eq!(service, expected);

    let mut address = server.get("/apis/networking.k8s.io/v1/ipaddresses/10.0.0.1").await.ok();
    settle(&mut address);
    let fields = json!({
        "f:metadata": {"f:labels": {
            ".": {}, "f:ipaddress.kubernetes.io/ip-family": {}, "f:ipaddress.kubernetes.io/managed-by": {},
        }},
        "f:spec": {"f:parentRef": {".": {}, "f:name": {}, "f:namespace": {}, "f:resource": {}}},
    });
    let expected = json!({
        "kind": "IPAddress", "apiVersion": "networking.k8s.io/v1",
        "metadata": {
            "name": "10.0.0.1",
            "labels": {
                "ipaddress.kubernetes.io/ip-family": "IPv4",
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
            "managedFields": [owned("apiserver", "networking.k8s.io/v1", &fields)],
        },
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "kubernetes"}},
    });
    assert_eq!(address, expected);

    // A controller of the server says that the range is ready.
    let range = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes";
    let mut range = eventually("the range is ready", async || {
        let range = server.get(range).await.ok();
        range["status"]["conditions"].is_array().then_some(range)
    })
    .await;
    settle(&mut range);
    let since = range["status"]["conditions"][0]["lastTransitionTime"].take();
    assert!(since.is_string());
    let fields = json!({"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {
        ".": {}, "f:lastTransitionTime": {}, "f:message": {}, "f:status": {}, "f:type": {},
    }}}});
    let mut of_controller = owned("kubernetes-service-cidr-controller", "networking.k8s.io/v1", &fields);
    of_controller["operation"] = "Apply".into();
    of_controller["subresource"] = "status".into();
    let of_server = owned("apiserver", "networking.k8s.io/v1", &json!({"f:spec": {"f:cidrs": {}}}));
    let expected = json!({
        "kind": "ServiceCIDR", "apiVersion": "networking.k8s.io/v1",
        "metadata": {"name": "kubernetes", "managedFields": [of_controller, of_server]},
        "spec": {"cidrs": ["10.0.0.0/24"]},
        "status": {"conditions": [{
            "type": "Ready", "status": "True", "lastTransitionTime": null, "reason": "",
            "message": "Kubernetes default Service CIDR is ready",
        }]},
    });
    assert_eq!(range, expected);
}

// [F15] the priority classes that there always are
async fn priority_classes(server: Server) {
    let node = "Used for system critical pods that must not be moved from their current node.";
    let cluster =
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.";
    for (name, value, description) in [
        ("system-node-critical", 2_000_001_000, node),
        ("system-cluster-critical", 2_000_000_000, cluster),
    ] {
        let path = format!("/apis/scheduling.k8s.io/v1/priorityclasses/{name}");
        let mut class = server.get(&path).await.ok();
        settle(&mut class);
        let fields = json!({"f:description": {}, "f:preemptionPolicy": {}, "f:value": {}});
        let expected = json!({
            "kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1",
            "metadata": {
                "name": name, "generation": 1,
                "managedFields": [owned("apiserver", "scheduling.k8s.io/v1", &fields)],
            },
            "value": value, "description": description, "preemptionPolicy": "PreemptLowerPriority",
        });
        assert_eq!(class, expected);
    }
}

cases![namespaces, own_service, priority_classes];
