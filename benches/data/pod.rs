//! The pod that every benchmark of informers is about: about 4.5 KB of JSON with two managers, as a controller and a
//! kubelet leave it, of which `managedFields` is about 1.5 KB. Included by path where it is used.

use serde_json::{Value, json};

/// The pod number `n` at a resource version, as the server writes it.
pub(crate) fn pod(n: u64, version: u64, managed_fields: bool) -> Value {
    let mut pod = json!({
        "metadata": {
            "name": format!("web-7c5ddbdf54-{n:05}"),
            "generateName": "web-7c5ddbdf54-",
            "namespace": format!("team-{}", n % 20),
            "uid": format!("6b1f7c62-0d1e-4a55-9f0e-{n:012}"),
            "resourceVersion": version.to_string(),
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": {"app": "web", "pod-template-hash": "7c5ddbdf54", "app.kubernetes.io/part-of": "shop"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7c5ddbdf54",
                "uid": "0e0b6e6b-7d1c-4ed8-9a60-2f1d7e6b2a11", "controller": true, "blockOwnerDeletion": true
            }],
        },
        "spec": {
            "volumes": [
                {"name": "config", "configMap": {"name": "web-config", "defaultMode": 420}},
                {"name": "kube-api-access-x2v9p", "projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                    {"downwardAPI": {"items": [{
                        "path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
                    }]}}
                ]}}
            ],
            "containers": [{
                "name": "web", "image": "registry.example.com/shop/web:1.27.3",
                "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                "env": [
                    {"name": "LOG_LEVEL", "value": "info"},
                    {"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}}
                ],
                "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
                "volumeMounts": [
                    {"name": "config", "mountPath": "/etc/web"},
                    {"name": "kube-api-access-x2v9p", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
                ],
                "readinessProbe": {
                    "httpGet": {"path": "/ready", "port": "http", "scheme": "HTTP"},
                    "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3
                },
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent"
            }],
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "web", "serviceAccount": "web", "nodeName": format!("node-{}", n % 100),
            "securityContext": {}, "schedulerName": "default-scheduler", "priority": 0, "enableServiceLinks": true,
            "preemptionPolicy": "PreemptLowerPriority",
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            ]
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": "PodReadyToStartContainers", "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-01-02T03:04:09Z"},
                {"type": "Initialized", "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-01-02T03:04:05Z"},
                {"type": "Ready", "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-01-02T03:04:12Z"},
                {"type": "ContainersReady", "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-01-02T03:04:12Z"},
                {"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-01-02T03:04:05Z"}
            ],
            "hostIP": "10.0.0.17", "hostIPs": [{"ip": "10.0.0.17"}], "podIP": "10.244.3.41", "podIPs": [{"ip": "10.244.3.41"}],
            "startTime": "2026-01-02T03:04:05Z",
            "containerStatuses": [{
                "name": "web", "state": {"running": {"startedAt": "2026-01-02T03:04:11Z"}}, "lastState": {}, "ready": true,
                "restartCount": 0, "image": "registry.example.com/shop/web:1.27.3",
                "imageID": "registry.example.com/shop/web@sha256:9b1d4f3b9f8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c5b4a392817065544",
                "containerID": "containerd://4f3b9f8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c5b4a3928170655449b1d", "started": true
            }],
            "qosClass": "Burstable"
        }
    });
    if managed_fields {
        let controller = json!({
            "f:metadata": {"f:annotations": {".": {}, "f:prometheus.io/port": {}, "f:prometheus.io/scrape": {}}, "f:generateName": {},
                "f:labels": {".": {}, "f:app": {}, "f:app.kubernetes.io/part-of": {}, "f:pod-template-hash": {}},
                "f:ownerReferences": {".": {}, "k:{\"uid\":\"0e0b6e6b-7d1c-4ed8-9a60-2f1d7e6b2a11\"}": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"web\"}": {".": {}, "f:env": {".": {}, "k:{\"name\":\"LOG_LEVEL\"}": {".": {}, "f:name": {}, "f:value": {}}},
                "f:image": {}, "f:imagePullPolicy": {}, "f:name": {}, "f:ports": {".": {}, "k:{\"containerPort\":8080,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}, "f:name": {}, "f:protocol": {}}},
                "f:readinessProbe": {}, "f:resources": {}, "f:terminationMessagePath": {}, "f:terminationMessagePolicy": {}, "f:volumeMounts": {}}},
                "f:dnsPolicy": {}, "f:enableServiceLinks": {}, "f:restartPolicy": {}, "f:schedulerName": {}, "f:securityContext": {}, "f:terminationGracePeriodSeconds": {}, "f:volumes": {}}
        });
        let kubelet = json!({"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {".": {}, "f:lastTransitionTime": {}, "f:status": {}, "f:type": {}}},
            "f:containerStatuses": {}, "f:hostIP": {}, "f:phase": {}, "f:podIP": {}, "f:podIPs": {".": {}, "k:{\"ip\":\"10.244.3.41\"}": {".": {}, "f:ip": {}}}, "f:startTime": {}}});
        pod["metadata"]["managedFields"] = json!([
            {"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1", "time": "2026-01-02T03:04:05Z", "fieldsType": "FieldsV1", "fieldsV1": controller},
            {"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": "2026-01-02T03:04:12Z", "fieldsType": "FieldsV1", "fieldsV1": kubelet, "subresource": "status"}
        ]);
    }
    pod
}

/// A list body of so many pods, `kind` first and `items` last, as the server writes it.
pub(crate) fn list(pods: u64) -> String {
    let mut body =
        format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{pods}"}},"items":["#);
    for n in 0..pods {
        if n > 0 {
            body.push(',');
        }
        body.push_str(&pod(n, n + 1, true).to_string());
    }
    body.push_str("]}");
    body
}

/// A watch event's object: unlike a list item it carries its type.
pub(crate) fn typed(n: u64, version: u64, managed_fields: bool) -> Value {
    let mut pod = pod(n, version, managed_fields);
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod
}

/// One line of a watch.
pub(crate) fn modified(object: &Value) -> String {
    format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}\n")
}
