//! What an informer costs per watch event and per listed object, beside a plain decode of the same bytes.
//!
//! The object is a pod of about 4.5 KB with two managers, of which `managedFields` is about 1.5 KB; the baseline decodes
//! the pod with `managedFields` cut out beforehand, which no client can do. Run with `cargo bench -p kube-client@0.1.0`.
#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{StreamBody, combinators::UnsyncBoxBody};
use k8s_openapi::api::core::v1::Pod;
use kube_client::{Client, Event, HandlerOptions, Informer, InformerOptions, ListMode, on_batch};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

/// Pods in a list.
const LISTED: u64 = 20_000;
/// Pods that watch events are about.
const WATCHED: u64 = 1_000;

/// The pod number `n` at a resource version, as the server writes it.
fn pod(n: u64, version: u64, managed_fields: bool) -> Value {
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

type Chunks = mpsc::UnboundedReceiver<Vec<Bytes>>;

/// Serves one list, then one watch whose chunks come from a channel.
#[derive(Clone)]
struct Server {
    list: Arc<Vec<Bytes>>,
    watch: Arc<std::sync::Mutex<Option<Chunks>>>,
}

impl tower::Service<Request<kube::client::Body>> for Server {
    type Response = Response<UnsyncBoxBody<Bytes, Infallible>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let mut chunks = self
            .watch
            .lock()
            .ok()
            .filter(|_| is_watch)
            .and_then(|mut watch| watch.take());
        let mut ready = if is_watch {
            Vec::new().into_iter()
        } else {
            self.list.as_ref().clone().into_iter()
        };
        let frames = futures_util::stream::poll_fn(move |cx| {
            loop {
                if let Some(chunk) = ready.next() {
                    return Poll::Ready(Some(Ok(Frame::data(chunk))));
                }
                match &mut chunks {
                    None if is_watch => return Poll::Pending,
                    None => return Poll::Ready(None),
                    Some(chunks) => match chunks.poll_recv(cx) {
                        Poll::Ready(Some(more)) => ready = more.into_iter(),
                        Poll::Ready(None) => return Poll::Ready(None),
                        Poll::Pending => return Poll::Pending,
                    },
                }
            }
        });
        Box::pin(async move { Ok(Response::new(UnsyncBoxBody::new(StreamBody::new(frames)))) })
    }
}

/// A list body of so many pods, in chunks as a socket gives them.
fn list_body(pods: u64) -> Vec<Bytes> {
    let items: Vec<String> = (0..pods).map(|n| pod(n, n + 1, true).to_string()).collect();
    let body = format!(
        r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{pods}"}},"items":[{}]}}"#,
        items.join(",")
    );
    Bytes::from(body).chunks(64 << 10).map(Bytes::copy_from_slice).collect()
}

fn start(list: &Arc<Vec<Bytes>>) -> (Client, Informer<Pod>, mpsc::UnboundedSender<Vec<Bytes>>) {
    let (chunks, watch) = mpsc::unbounded_channel();
    let server = Server {
        list: Arc::clone(list),
        watch: Arc::new(std::sync::Mutex::new(Some(watch))),
    };
    let client = Client::new(kube::Client::new(server, "default")).expect("inside a runtime");
    let options = InformerOptions::default().list_mode(ListMode::Paged);
    let informer = client.informers().typed::<Pod>(options).expect("a fresh client");
    (client, informer, chunks)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime")
}

fn baseline(criterion: &mut Criterion) {
    let whole = pod(1, 1, true).to_string();
    let lean = pod(1, 1, false).to_string();
    println!(
        "pod: {} B, of which managedFields {} B",
        whole.len(),
        whole.len() - lean.len()
    );
    criterion.bench_function("decode/from_slice without managedFields", |bencher| {
        bencher.iter(|| serde_json::from_slice::<Pod>(std::hint::black_box(lean.as_bytes())).expect("a pod"));
    });
    criterion.bench_function("decode/from_slice with managedFields", |bencher| {
        bencher.iter(|| serde_json::from_slice::<Pod>(std::hint::black_box(whole.as_bytes())).expect("a pod"));
    });
}

fn watch_events(criterion: &mut Criterion) {
    let runtime = runtime();
    let list = Arc::new(list_body(WATCHED));
    let (client, informer, chunks) = runtime.block_on(async { start(&list) });
    let (seen, all_seen) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
    let (counter, notify) = (Arc::clone(&seen), Arc::clone(&all_seen));
    let count = on_batch(move |events: &[Event<Pod>]| {
        counter.fetch_add(events.len() as u64, Ordering::SeqCst);
        notify.notify_one();
    });
    // No merging: every event is delivered.
    let registration = informer.add_handler(count, HandlerOptions::named("count").coalesce_above(usize::MAX));
    informer.start();
    runtime.block_on(registration.synced()).expect("synced");
    let mut version = 1_000_000;
    criterion.bench_function("informer/watch event", |bencher| {
        bencher.iter_custom(|events| {
            let mut elapsed = Duration::ZERO;
            let mut left = events;
            while left > 0 {
                let part = left.min(5_000);
                left -= part;
                let lines: Vec<Bytes> = (0..part)
                    .map(|_| {
                        version += 1;
                        let object = pod(version % WATCHED, version, true);
                        Bytes::from(format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}\n"))
                    })
                    .collect();
                let target = seen.load(Ordering::SeqCst) + part;
                let start = Instant::now();
                chunks.send(lines).expect("the watch is open");
                runtime.block_on(async {
                    while seen.load(Ordering::SeqCst) < target {
                        all_seen.notified().await;
                    }
                });
                elapsed += start.elapsed();
            }
            elapsed
        });
    });
    runtime.block_on(client.shutdown());
}

fn listed_pods(criterion: &mut Criterion) {
    let runtime = runtime();
    let list = Arc::new(list_body(LISTED));
    let mut group = criterion.benchmark_group("informer");
    group.sample_size(10);
    group.bench_function("listed pod", |bencher| {
        bencher.iter_custom(|pods| {
            // Whole lists only; the time is scaled to the number asked for.
            let rounds = pods.div_ceil(LISTED);
            let mut elapsed = Duration::ZERO;
            for _ in 0..rounds {
                let (client, informer, _chunks) = runtime.block_on(async { start(&list) });
                let start = Instant::now();
                informer.start();
                runtime.block_on(informer.synced()).expect("synced");
                elapsed += start.elapsed();
                assert_eq!(informer.len() as u64, LISTED);
                runtime.block_on(client.shutdown());
            }
            #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
            elapsed.mul_f64(pods as f64 / (rounds * LISTED) as f64)
        });
    });
    group.finish();
}

criterion_group!(benches, baseline, watch_events, listed_pods);
criterion_main!(benches);
