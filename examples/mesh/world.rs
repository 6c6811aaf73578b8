//! Something to watch: an in-memory API server with a small mesh and the file of its configuration, and those who change both
//! step by step.
//!
//! None of this belongs to a control plane.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use watershed::kclient::{Object, ObjectKey, Patch, PatchParams, Subresource, WriteClient, Writer, WriterExt};
use watershed::kube_client::{Client, ClientBuilder, FakeError};

use super::mesh::MESH;
use super::policy::{self, AccessPolicy};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The number of steps.
pub(crate) const STEPS: u32 = 9;

/// A cluster in memory: two nodes, a namespace in the mesh, and one that is not.
pub(crate) fn create(options: ClientBuilder) -> Result<Client, FakeError> {
    let objects = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {MESH: "on"}}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}}),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}}),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-b"}}),
        service("shop", "web"),
        service("lab", "trial"),
        pod("shop", "web-1", "web", "node-a", "10.1.0.1"),
        pod("lab", "trial-1", "trial", "node-b", "10.2.0.1"),
    ];
    let mut cluster = Client::fake_builder().client(options);
    for object in objects {
        cluster = cluster.object(&object)?;
    }
    cluster.build()
}

/// Writes the configuration of the mesh, so that nobody sees half of it.
pub(crate) fn write_config(path: &Path, text: &str) -> std::io::Result<()> {
    let fresh = path.with_extension("fresh");
    std::fs::write(&fresh, text)?;
    std::fs::rename(fresh, path)
}

/// Those who use the cluster. They only write, so they need no caches.
pub(crate) struct Users {
    namespaces: WriteClient<Namespace>,
    pods: WriteClient<Pod>,
    definitions: WriteClient<CustomResourceDefinition>,
    policies: WriteClient<AccessPolicy>,
    config: PathBuf,
}

impl Users {
    pub(crate) fn new(cluster: &Client, config: &Path) -> Self {
        Self {
            namespaces: WriteClient::new(cluster),
            pods: WriteClient::new(cluster),
            definitions: WriteClient::new(cluster),
            policies: WriteClient::new(cluster),
            config: config.to_owned(),
        }
    }

    pub(crate) async fn step(&self, number: u32) -> Result<(), Error> {
        let lab = ObjectKey::cluster("lab");
        let web = ObjectKey::namespaced("shop", "web-1");
        let open = ObjectKey::namespaced("shop", "web-callers");
        match number {
            // A second pod of the service, on the other node.
            0 => self.run(pod("shop", "web-2", "web", "node-b", "10.1.0.2")).await,
            // The definition of policies is installed, and a policy with it.
            1 => {
                add(&self.definitions, policy::definition()).await?;
                let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "allow": ["lab/trial"]});
                add(&self.policies, access_policy("shop", "web-callers", &spec)).await
            }
            // It says the same in other words: no configuration changes.
            2 => {
                let expression = json!({"key": "app", "operator": "In", "values": ["web"]});
                let selector = json!({"matchLabels": null, "matchExpressions": [expression]});
                merge(&self.policies, &open, json!({"spec": {"selector": selector}})).await
            }
            // A namespace joins the mesh: what is in it was there before.
            3 => merge(&self.namespaces, &lab, json!({"metadata": {"labels": {MESH: "on"}}})).await,
            // The mesh gets another name: every workload of it, on both nodes, in one epoch.
            4 => Ok(write_config(&self.config, "trustDomain: example.org")?),
            // Somebody makes a mistake in the file: it stays as it was.
            5 => Ok(write_config(&self.config, "trustDomain: [")?),
            // A pod leaves the service, and with it the policy.
            6 => merge(&self.pods, &web, json!({"metadata": {"labels": {"app": "other"}}})).await,
            7 => Ok(self.pods.delete_object(&web).await.map(drop)?),
            // The definition is removed, and the policy with it.
            _ => {
                let name = ObjectKey::cluster("accesspolicies.mesh.example");
                Ok(self.definitions.delete_object(&name).await.map(drop)?)
            }
        }
    }
}

impl Users {
    /// Creates a pod, and says that it runs: what a kubelet does.
    async fn run(&self, pod: Value) -> Result<(), Error> {
        let status = Patch::Merge(json!({"status": pod["status"]}));
        let key = ObjectKey::new(
            pod["metadata"]["namespace"].as_str(),
            pod["metadata"]["name"].as_str().unwrap_or_default(),
        );
        add(&self.pods, pod).await?;
        let params = PatchParams::default();
        let patched = self.pods.patch(&key, &status, Subresource::Status, &params);
        Ok(patched.await.map(drop)?)
    }
}

async fn add<K: Object>(client: &impl Writer<K>, object: Value) -> Result<(), Error> {
    let object: K = serde_json::from_value(object)?;
    Ok(client.create_object(&object).await.map(drop)?)
}

async fn merge<K: Object>(client: &impl Writer<K>, key: &ObjectKey, fields: Value) -> Result<(), Error> {
    let (patch, params) = (Patch::Merge(fields), PatchParams::default());
    let patched = client.patch(key, &patch, Subresource::Main, &params);
    Ok(patched.await.map(drop)?)
}

fn service(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80}]},
    })
}

/// A running pod.
fn pod(namespace: &str, name: &str, app: &str, node: &str, address: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": app}},
        "spec": {
            "nodeName": node,
            "serviceAccountName": app,
            "containers": [{"name": "main", "image": "registry.example/app:1"}],
        },
        "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]},
    })
}

fn access_policy(namespace: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "mesh.example/v1",
        "kind": "AccessPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    })
}
