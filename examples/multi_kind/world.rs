//! Something to watch: an in-memory API server with a small mesh, and a task that changes it step by step.
//!
//! None of this belongs to a controller.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use watershed::kclient::{
    Object, ObjectKey, Patch, PatchParams, Subresource, WriteClient, WriteError, Writer, WriterExt,
};
use watershed::kube_client::{Client, ClientBuilder, FakeError};

use super::policy::{self, RoutePolicy};
use super::watcher::HIDDEN;

/// The label of the namespaces that are in the mesh.
pub(crate) const MESH: &str = "mesh";

/// How long the world rests between two steps.
pub(crate) const PACE: Duration = Duration::from_millis(800);

/// Selects the namespaces that are in the mesh.
pub(crate) fn in_mesh() -> LabelSelector {
    LabelSelector {
        match_labels: Some([(MESH.to_owned(), "on".to_owned())].into()),
        ..LabelSelector::default()
    }
}

/// A cluster in memory: the namespaces `shop`, which is in the mesh, and `lab`, which is not.
pub(crate) fn create(options: ClientBuilder) -> Result<Client, FakeError> {
    let objects = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {MESH: "on"}}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}}),
        service("shop", "web"),
        pod("shop", "web-1", "v1"),
        slice("shop", "web", &[("10.1.0.1", "web-1", true)]),
        service("shop", "db"),
        service("lab", "trial"),
        slice("lab", "trial", &[("10.1.9.1", "trial-1", true)]),
    ];
    let mut cluster = Client::fake_builder().client(options);
    for object in objects {
        cluster = cluster.object(&object)?;
    }
    cluster.build()
}

/// Changes the world, one step after the other, until there is no step left or `stop` is cancelled.
pub(crate) async fn keep_changing(cluster: &Client, stop: &CancellationToken) -> Result<(), WriteError> {
    let users = Users::new(cluster);
    for step in 0..=LAST_STEP {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(PACE) => {}
        }
        users.step(step).await?;
    }
    Ok(())
}

/// The number of the last step.
const LAST_STEP: u32 = 8;

/// Those who use the cluster. They only write, so they need no caches.
struct Users {
    namespaces: WriteClient<Namespace>,
    services: WriteClient<Service>,
    slices: WriteClient<EndpointSlice>,
    pods: WriteClient<Pod>,
    definitions: WriteClient<CustomResourceDefinition>,
    policies: WriteClient<RoutePolicy>,
}

impl Users {
    fn new(cluster: &Client) -> Self {
        Self {
            namespaces: WriteClient::new(cluster),
            services: WriteClient::new(cluster),
            slices: WriteClient::new(cluster),
            pods: WriteClient::new(cluster),
            definitions: WriteClient::new(cluster),
            policies: WriteClient::new(cluster),
        }
    }

    async fn step(&self, number: u32) -> Result<(), WriteError> {
        let web = ObjectKey::namespaced("shop", "web");
        match number {
            // A second pod, and its address: two changes, one snapshot.
            0 => {
                add(&self.pods, pod("shop", "web-2", "v2")).await?;
                run(&self.pods, &ObjectKey::namespaced("shop", "web-2")).await?;
                let both = [("10.1.0.1", "web-1", true), ("10.1.0.2", "web-2", true)];
                merge(&self.slices, &web, slice("shop", "web", &both)).await
            }
            // The first pod is not ready any more.
            1 => {
                let second = [("10.1.0.1", "web-1", false), ("10.1.0.2", "web-2", true)];
                merge(&self.slices, &web, slice("shop", "web", &second)).await
            }
            // The definition of policies is installed, and a policy with it.
            2 => {
                add(&self.definitions, policy::definition()).await?;
                add(&self.policies, route_policy("shop", "patience", "web", 5)).await
            }
            // A namespace joins the mesh: what is in it was there before.
            3 => merge(&self.namespaces, &ObjectKey::cluster("lab"), labels(MESH, "on")).await,
            // A service is hidden.
            4 => {
                merge(
                    &self.services,
                    &ObjectKey::namespaced("shop", "db"),
                    labels(HIDDEN, "true"),
                )
                .await
            }
            // A change that changes nothing for anybody: no snapshot.
            5 => merge(&self.services, &web, labels("owner", "team-web")).await,
            6 => {
                merge(
                    &self.policies,
                    &ObjectKey::namespaced("shop", "patience"),
                    json!({"spec": {"timeoutSeconds": 9}}),
                )
                .await
            }
            // The definition is removed, and its objects with it.
            7 => {
                let name = ObjectKey::cluster("routepolicies.mesh.example");
                self.definitions.delete_object(&name).await.map(drop)
            }
            // The namespace leaves the mesh.
            _ => merge(&self.namespaces, &ObjectKey::cluster("lab"), labels(MESH, "off")).await,
        }
    }
}

async fn add<K: Object>(client: &impl Writer<K>, object: Value) -> Result<(), WriteError> {
    client.create_object(&typed(object)).await.map(drop)
}

async fn merge<K: Object>(client: &impl Writer<K>, key: &ObjectKey, fields: Value) -> Result<(), WriteError> {
    let patch = Patch::Merge(fields);
    client
        .patch(key, &patch, Subresource::Main, &PatchParams::default())
        .await
        .map(drop)
}

/// What a kubelet does.
async fn run(pods: &impl Writer<Pod>, key: &ObjectKey) -> Result<(), WriteError> {
    let patch = Patch::Merge(json!({"status": {"phase": "Running"}}));
    pods.patch(key, &patch, Subresource::Status, &PatchParams::default())
        .await
        .map(drop)
}

fn typed<K: Object>(object: Value) -> K {
    serde_json::from_value(object).expect("an object of its kind")
}

fn labels(key: &str, value: &str) -> Value {
    json!({"metadata": {"labels": {key: value}}})
}

pub(crate) fn service(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"ports": [{"port": 80}]},
    })
}

/// A running pod on `node-a`.
pub(crate) fn pod(namespace: &str, name: &str, version: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"version": version}},
        "spec": {"nodeName": "node-a", "containers": [{"name": "main", "image": "registry.example/app:1"}]},
        "status": {"phase": "Running"},
    })
}

/// The addresses of a service: each with its pod, and whether it is ready.
pub(crate) fn slice(namespace: &str, service: &str, addresses: &[(&str, &str, bool)]) -> Value {
    let endpoint = |(address, pod, ready): &(&str, &str, bool)| json!({"addresses": [address], "conditions": {"ready": ready}, "targetRef": {"kind": "Pod", "name": pod}});
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": service, "namespace": namespace, "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4",
        "endpoints": addresses.iter().map(endpoint).collect::<Vec<_>>(),
    })
}

pub(crate) fn route_policy(namespace: &str, name: &str, service: &str, timeout_seconds: u32) -> Value {
    json!({
        "apiVersion": "mesh.example/v1",
        "kind": "RoutePolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"service": service, "timeoutSeconds": timeout_seconds},
    })
}
