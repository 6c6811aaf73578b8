//! Something to watch: those who use the cluster, and change it and the file of the mesh's configuration step by step.
//!
//! None of this belongs to a control plane.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use watershed::kclient::{
    DeleteParams, Object, ObjectKey, Patch, PatchParams, Subresource, WriteClient, WriteError, Writer, WriterExt,
};
use watershed::kube_client::Client;

use super::mesh::MESH;
use super::policy::{self, AccessPolicy};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// What happens in each step.
pub(crate) const STEPS: [&str; 10] = [
    "a second pod of the service web runs, on node-b",
    "somebody installs policies, and says who may call web",
    "the policy is written in another order: nobody has to know",
    "there is a mistake in the policy: until it is mended, it lets nobody in",
    "the mistake is mended",
    "the namespace lab joins the mesh",
    "the mesh is renamed in its file: every workload, on both nodes, at once",
    "there is a mistake in the file: what was there before holds",
    "web-1 leaves the service, and with it the policy",
    "the policies are uninstalled",
];

/// Writes the configuration of the mesh, so that nobody sees half of it.
pub(crate) fn write_config(path: &Path, text: &str) -> std::io::Result<()> {
    let fresh = path.with_extension("fresh");
    std::fs::write(&fresh, text)?;
    std::fs::rename(fresh, path)
}

/// Those who use the cluster. They only write, so they need no caches.
pub(crate) struct Users {
    namespaces: WriteClient<Namespace>,
    nodes: WriteClient<Node>,
    pods: WriteClient<Pod>,
    services: WriteClient<Service>,
    definitions: WriteClient<CustomResourceDefinition>,
    policies: WriteClient<AccessPolicy>,
    config: PathBuf,
    suffix: String,
}

impl Users {
    /// The names of namespaces and nodes get the suffix, so that several may use one cluster.
    pub(crate) fn new(cluster: &Client, config: &Path, suffix: &str) -> Self {
        Self {
            namespaces: WriteClient::new(cluster),
            nodes: WriteClient::new(cluster),
            pods: WriteClient::new(cluster),
            services: WriteClient::new(cluster),
            definitions: WriteClient::new(cluster),
            policies: WriteClient::new(cluster),
            config: config.to_owned(),
            suffix: suffix.to_owned(),
        }
    }

    /// What there is from the start: two nodes, a namespace in the mesh, and one that is not.
    pub(crate) async fn prepare(&self) -> Result<(), Error> {
        write_config(&self.config, "trustDomain: cluster.local")?;
        for node in ["node-a", "node-b"] {
            let node = json!({"metadata": {"name": self.name(node)}});
            add(&self.nodes, node).await?;
        }
        for (namespace, mesh) in [("shop", "on"), ("lab", "off")] {
            let metadata = json!({"name": self.name(namespace), "labels": {MESH: mesh}});
            add(&self.namespaces, json!({"metadata": metadata})).await?;
        }
        add(&self.services, self.service("shop", "web")).await?;
        add(&self.services, self.service("lab", "trial")).await?;
        self.run("shop", "web-1", "web", "node-a", "10.1.0.1").await?;
        self.run("lab", "trial-1", "trial", "node-b", "10.2.0.1").await
    }

    pub(crate) async fn step(&self, number: usize) -> Result<(), Error> {
        let policy = self.key("shop", "web-callers");
        let caller = format!("{}/trial", self.name("lab"));
        let allow = |callers: &[&str]| json!({"spec": {"allow": callers}});
        match number {
            0 => self.run("shop", "web-2", "web", "node-b", "10.1.0.2").await,
            1 => {
                add(&self.definitions, policy::definition()).await?;
                let metadata = json!({"name": "web-callers", "namespace": self.name("shop")});
                let spec = json!({"selector": {"app": "web"}, "allow": [caller, "ops/admin"]});
                let policy = serde_json::from_value(json!({
                    "apiVersion": "mesh.example/v1", "kind": "AccessPolicy", "metadata": metadata, "spec": spec,
                }))?;
                self.create_as_soon_as_served(&policy).await
            }
            2 => merge(&self.policies, &policy, allow(&["ops/admin", &caller])).await,
            3 => merge(&self.policies, &policy, allow(&["everybody"])).await,
            4 => merge(&self.policies, &policy, allow(&[&caller])).await,
            5 => {
                let lab = ObjectKey::cluster(&self.name("lab"));
                merge(&self.namespaces, &lab, json!({"metadata": {"labels": {MESH: "on"}}})).await
            }
            6 => Ok(write_config(&self.config, "trustDomain: example.org")?),
            7 => Ok(write_config(&self.config, "trustDomain: [")?),
            8 => {
                let web = self.key("shop", "web-1");
                merge(&self.pods, &web, json!({"metadata": {"labels": {"app": "other"}}})).await
            }
            _ => self.uninstall().await,
        }
    }

    /// Removes the definition of policies, and the policies with it.
    pub(crate) async fn uninstall(&self) -> Result<(), Error> {
        let (name, params) = (ObjectKey::cluster(policy::DEFINITION), DeleteParams::default());
        let gone = self.definitions.ensure_absent(&name, &params).await;
        Ok(gone.map(drop)?)
    }

    pub(crate) fn name(&self, name: &str) -> String {
        format!("{name}{}", self.suffix)
    }

    fn key(&self, namespace: &str, name: &str) -> ObjectKey {
        ObjectKey::namespaced(&self.name(namespace), name)
    }

    /// Creates a policy; a moment after its definition, the server may not know it yet.
    async fn create_as_soon_as_served(&self, policy: &AccessPolicy) -> Result<(), Error> {
        loop {
            match self.policies.create_object(policy).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_not_found() || error.is_too_many_requests() => {
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Creates a pod, and says that it runs: what a kubelet does.
    async fn run(&self, namespace: &str, name: &str, app: &str, node: &str, address: &str) -> Result<(), Error> {
        let key = self.key(namespace, name);
        let pod = json!({
            "metadata": {"name": name, "namespace": self.name(namespace), "labels": {"app": app}},
            "spec": {
                "nodeName": self.name(node),
                "serviceAccountName": app,
                "containers": [{"name": "main", "image": "registry.example/app:1"}],
            },
        });
        add(&self.pods, pod).await?;
        let status = json!({"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}});
        let (patch, params) = (Patch::Merge(status), PatchParams::default());
        let told = self.pods.patch(&key, &patch, Subresource::Status, &params);
        Ok(told.await.map(drop)?)
    }

    fn service(&self, namespace: &str, name: &str) -> Value {
        json!({
            "metadata": {"name": name, "namespace": self.name(namespace)},
            "spec": {"selector": {"app": name}, "ports": [{"port": 80}]},
        })
    }
}

async fn add<K: Object>(client: &impl Writer<K>, object: Value) -> Result<(), Error> {
    let object: K = serde_json::from_value(object)?;
    Ok(client.create_object(&object).await.map(drop)?)
}

async fn merge<K: Object>(client: &impl Writer<K>, key: &ObjectKey, fields: Value) -> Result<(), Error> {
    let (patch, params) = (Patch::Merge(fields), PatchParams::default());
    let patched: Result<K, WriteError> = client.patch(key, &patch, Subresource::Main, &params).await;
    Ok(patched.map(drop)?)
}
