//! Typed clients on an API server: what writes do, what they return, how they fail, and what reads and handlers see.

mod apply;
mod constructors;
mod ensure;
mod errors;
mod finalizers;
mod owners;
mod races;
mod reads;
mod retry;
mod stale;
mod subresources;
mod writes;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kclient::{Client, ObjectKey, PostParams};
use kube_client::testing::TestClient;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::harness::{Namespace, Server};

/// A client of everything on a server. Writes need no start; what is started has to be ended.
pub(crate) fn cluster(server: &Server) -> TestClient {
    let options = kube_client::Client::builder().user_agent("client-case");
    TestClient::new(options.build_with(server.client()).unwrap())
}

pub(crate) fn maps(server: &Server) -> Client<ConfigMap> {
    Client::new(&cluster(server)).unwrap()
}

pub(crate) fn key(namespace: &Namespace, name: &str) -> ObjectKey {
    ObjectKey::namespaced(namespace.name(), name)
}

pub(crate) fn typed<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

pub(crate) fn map(namespace: &Namespace, name: &str, value: &str) -> ConfigMap {
    let metadata = json!({"name": name, "namespace": namespace.name()});
    typed(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"v": value}}))
}

pub(crate) fn pod(namespace: &Namespace, name: &str) -> Pod {
    typed(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace.name()},
        "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]},
    }))
}

pub(crate) fn value(map: &ConfigMap) -> &str {
    map.data
        .as_ref()
        .and_then(|data| data.get("v"))
        .map_or("", String::as_str)
}

pub(crate) fn default() -> PostParams {
    PostParams::default()
}

pub(crate) fn dry_run() -> PostParams {
    PostParams {
        dry_run: true,
        ..PostParams::default()
    }
}
