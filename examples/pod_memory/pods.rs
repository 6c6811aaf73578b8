//! Pods as a cluster has them, and an in-memory API server that serves them with their managed fields.

use bytes::Bytes;
use fake_apiserver::FakeApiServer;
use http::{Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Body = UnsyncBoxBody<Bytes, BoxError>;

/// A pod of a web server, as a cluster shows it some time after its start, but for its managed fields.
pub(crate) fn pod(n: usize) -> Value {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-01-02T03:04:09Z"});
    let conditions = [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ]
    .map(condition);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("web-7c5ddbdf54-{n:05}"),
            "generateName": "web-7c5ddbdf54-",
            "namespace": format!("team-{}", n % 20),
            "uid": format!("6b1f7c62-0d1e-4a55-9f0e-{n:012}"),
            "resourceVersion": "1",
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
                    {"name": "kube-api-access-x2v9p", "readOnly": true,
                     "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
                ],
                "readinessProbe": {
                    "httpGet": {"path": "/ready", "port": "http", "scheme": "HTTP"},
                    "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3
                }
            }],
            "serviceAccountName": "web", "nodeName": format!("node-{}", n % 100),
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            ]
        },
        "status": {
            "phase": "Running",
            "conditions": conditions,
            "hostIP": "192.168.0.1", "podIP": format!("10.0.{}.{}", n / 250, n % 250),
            "podIPs": [{"ip": format!("10.0.{}.{}", n / 250, n % 250)}],
            "startTime": "2026-01-02T03:04:05Z", "qosClass": "Burstable",
            "containerStatuses": [{
                "name": "web", "state": {"running": {"startedAt": "2026-01-02T03:04:08Z"}}, "lastState": {},
                "ready": true, "restartCount": 0, "started": true, "image": "registry.example.com/shop/web:1.27.3",
                "imageID": "registry.example.com/shop/web@sha256:4a1c4b21597c1b4415bdbecb28a3296c6b5e23ca4f9feeb599860a1dac6a0108",
                "containerID": "containerd://8b3c7f0e6d1a5b9c2e4f7a8d0b1c3e5f7a9b2d4c6e8f0a1b3c5d7e9f1a2b4c6d"
            }]
        }
    })
}

/// What two managers, a controller and a kubelet, own of such a pod.
fn managed_fields() -> Value {
    let all = |keys: &[&str]| -> Value {
        keys.iter()
            .map(|key| ((*key).to_owned(), json!({})))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let container = all(&[
        ".",
        "f:env",
        "f:image",
        "f:imagePullPolicy",
        "f:name",
        "f:ports",
        "f:readinessProbe",
        "f:resources",
        "f:terminationMessagePath",
        "f:terminationMessagePolicy",
        "f:volumeMounts",
    ]);
    let conditions: serde_json::Map<String, Value> =
        ["ContainersReady", "Initialized", "PodReadyToStartContainers", "Ready"]
            .iter()
            .map(|kind| {
                let fields = all(&[".", "f:lastProbeTime", "f:lastTransitionTime", "f:status", "f:type"]);
                (format!("k:{{\"type\":\"{kind}\"}}"), fields)
            })
            .collect();
    json!([
        {
            "manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
            "time": "2026-01-02T03:04:05Z", "fieldsType": "FieldsV1", "fieldsV1": {
                "f:metadata": {
                    "f:annotations": all(&[".", "f:prometheus.io/port", "f:prometheus.io/scrape"]),
                    "f:generateName": {},
                    "f:labels": all(&[".", "f:app", "f:app.kubernetes.io/part-of", "f:pod-template-hash"]),
                    "f:ownerReferences": {".": {}, "k:{\"uid\":\"0e0b6e6b-7d1c-4ed8-9a60-2f1d7e6b2a11\"}": {}}
                },
                "f:spec": {
                    "f:containers": {"k:{\"name\":\"web\"}": container},
                    "f:dnsPolicy": {}, "f:enableServiceLinks": {}, "f:restartPolicy": {}, "f:schedulerName": {},
                    "f:securityContext": {}, "f:serviceAccountName": {}, "f:terminationGracePeriodSeconds": {},
                    "f:volumes": {".": {}, "k:{\"name\":\"config\"}": all(&[".", "f:configMap", "f:name"])}
                }
            }
        },
        {
            "manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": "2026-01-02T03:04:09Z",
            "subresource": "status", "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {
                "f:conditions": conditions, "f:containerStatuses": {}, "f:hostIP": {}, "f:phase": {}, "f:podIP": {},
                "f:podIPs": {".": {}, "k:{\"ip\":\"10.0.0.7\"}": all(&[".", "f:ip"])}, "f:startTime": {}
            }}
        }
    ])
}

/// The size of a pod on the wire, managed fields included.
pub(crate) fn json_size() -> usize {
    let mut pod = pod(0);
    pod["metadata"]["managedFields"] = managed_fields();
    pod.to_string().len()
}

/// A connection to an in-memory server that holds so many pods.
pub(crate) fn server(pods: usize) -> Result<kube::Client, Box<dyn std::error::Error>> {
    let server = FakeApiServer::new();
    for n in 0..pods {
        server.load(&pod(n))?;
    }
    // This server records no managers, so lists get them on their way.
    let managed_fields = managed_fields();
    let service = server.service();
    let service = tower::service_fn(move |mut request: Request<kube::client::Body>| {
        request.headers_mut().remove(header::ACCEPT_ENCODING);
        let (service, managed_fields) = (service.clone(), managed_fields.clone());
        async move {
            let is_list = request.uri().query().is_none_or(|query| !query.contains("watch=true"));
            let response = service.oneshot(request).await?;
            let response = response.map(|body| body.map_err(BoxError::from).boxed_unsync());
            if is_list {
                with_managed_fields(response, &managed_fields).await
            } else {
                Ok(response)
            }
        }
    });
    Ok(kube::Client::new(service, "default"))
}

/// The same list, its items with managed fields.
async fn with_managed_fields(response: Response<Body>, managed_fields: &Value) -> Result<Response<Body>, BoxError> {
    let (mut head, body) = response.into_parts();
    let mut list: Value = serde_json::from_slice(&body.collect().await?.to_bytes())?;
    for item in list["items"].as_array_mut().into_iter().flatten() {
        item["metadata"]["managedFields"] = managed_fields.clone();
    }
    head.headers.remove(header::CONTENT_LENGTH);
    let body = Full::new(Bytes::from(list.to_string()));
    Ok(Response::from_parts(
        head,
        body.map_err(|never| match never {}).boxed_unsync(),
    ))
}
