//! Something to watch: an in-memory API server with two services, and those who change it step by step.
//!
//! None of this belongs to a controller.

use k8s_openapi::api::core::v1::{Pod, Service};
use serde_json::{Value, json};
use watershed::kclient::{
    Object, ObjectKey, Patch, PatchParams, Subresource, WriteClient, WriteError, Writer, WriterExt,
};
use watershed::kube_client::{Client, ClientBuilder, FakeError};

/// The number of steps.
pub(crate) const STEPS: u32 = 9;

/// A cluster in memory, in which one service has a pod.
pub(crate) fn create(options: ClientBuilder) -> Result<Client, FakeError> {
    let mut first = pod("shop", "web-1", "web");
    first["status"] = running("10.1.0.1", true);
    let objects = [service("shop", "web", "web"), service("shop", "db", "db"), first];
    let mut cluster = Client::fake_builder().client(options);
    for object in objects {
        cluster = cluster.object(&object)?;
    }
    cluster.build()
}

/// Those who use the cluster, in one namespace. They only write, so they need no caches.
pub(crate) struct Users {
    namespace: String,
    services: WriteClient<Service>,
    pods: WriteClient<Pod>,
}

impl Users {
    pub(crate) fn new(cluster: &Client, namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            services: WriteClient::new(cluster),
            pods: WriteClient::new(cluster),
        }
    }

    pub(crate) async fn step(&self, number: u32) -> Result<(), WriteError> {
        match number {
            // A second pod, which is not ready: nothing to tell.
            0 => add(&self.pods, pod(&self.namespace, "web-2", "web")).await,
            1 => self.report("web-2", running("10.1.0.2", true)).await,
            // A kubelet says that it is alive: nothing to tell.
            2 => {
                let mut status = running("10.1.0.2", true);
                status["conditions"][0]["message"] = json!("alive");
                self.report("web-2", status).await
            }
            3 => self.report("web-1", running("10.1.0.1", false)).await,
            // A pod changes sides by its label: two services change, in one step.
            4 => self.merge(&self.pods, "web-2", label("db")).await,
            5 => self.report("web-1", running("10.1.0.1", true)).await,
            // The service wants other pods.
            6 => {
                self.merge(&self.services, "db", json!({"spec": {"selector": {"app": "web"}}}))
                    .await
            }
            // And looks after its endpoints itself.
            7 => {
                self.merge(&self.services, "db", json!({"spec": {"selector": null}}))
                    .await
            }
            _ => self.services.delete_object(&self.key("web")).await.map(drop),
        }
    }

    fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::namespaced(&self.namespace, name)
    }

    /// What a kubelet does.
    async fn report(&self, pod: &str, status: Value) -> Result<(), WriteError> {
        let patch = Patch::Merge(json!({"status": status}));
        let (key, params) = (self.key(pod), PatchParams::default());
        let patched = self.pods.patch(&key, &patch, Subresource::Status, &params);
        patched.await.map(drop)
    }

    async fn merge<K: Object>(&self, client: &impl Writer<K>, name: &str, fields: Value) -> Result<(), WriteError> {
        let (key, patch, params) = (self.key(name), Patch::Merge(fields), PatchParams::default());
        let patched = client.patch(&key, &patch, Subresource::Main, &params);
        patched.await.map(drop)
    }
}

async fn add<K: Object>(client: &impl Writer<K>, object: Value) -> Result<(), WriteError> {
    let object: K = serde_json::from_value(object).expect("an object of its kind");
    client.create_object(&object).await.map(drop)
}

fn label(app: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}})
}

pub(crate) fn service(namespace: &str, name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"app": app}, "ports": [{"port": 80}]},
    })
}

pub(crate) fn pod(namespace: &str, name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]},
    })
}

/// The status of a pod that runs.
pub(crate) fn running(address: &str, ready: bool) -> Value {
    let ready = if ready { "True" } else { "False" };
    json!({
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": ready}],
    })
}
