//! What a client finds out of its server: discovery, the CRD watcher, and the restriction to namespaces. Cases on both
//! servers use definitions with a group of their own; every case ends with [`Rig::end`](crate::informer::Rig::end).

mod aggregated;
mod bad_input;
mod changes;
mod crds;
mod filters;
mod flapping;
mod mapper;
mod restriction;
mod rights;

use kube::core::{ApiResource, GroupVersionKind, GroupVersionResource};
use serde_json::{Value, json};

use crate::harness::{CustomKind, Server, eventually, unique};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The kind `widgets` of a group that nobody else uses. It may be defined or not.
#[derive(Clone)]
pub(super) struct Widgets {
    server: Server,
    pub(super) group: String,
}

impl Widgets {
    pub(super) fn new(server: &Server) -> Self {
        Self {
            server: server.clone(),
            group: format!("{}.example.com", unique()),
        }
    }

    pub(super) fn kind(&self) -> GroupVersionResource {
        self.version("v1")
    }

    pub(super) fn version(&self, version: &str) -> GroupVersionResource {
        GroupVersionResource::gvr(&self.group, version, "widgets")
    }

    /// As dynamic informers are asked for it.
    pub(super) fn resource(&self) -> ApiResource {
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(&self.group, "v1", "Widget"), "widgets")
    }

    /// The name of the definition.
    pub(super) fn name(&self) -> String {
        format!("widgets.{}", self.group)
    }

    fn path(&self) -> String {
        format!("{DEFINITIONS}/{}", self.name())
    }

    /// Creates the definition.
    pub(super) async fn define(&self) {
        self.define_as(|_| {}).await;
    }

    pub(super) async fn define_as(&self, change: impl FnOnce(&mut Value)) {
        let mut definition = CustomKind::definition(&self.group);
        change(&mut definition);
        self.server.post(DEFINITIONS, &definition).await.created();
    }

    /// Deletes the definition, and leaves it to the server when it goes.
    pub(super) async fn remove(&self) {
        self.server.delete(&self.path()).await.ok();
    }

    /// Deletes the definition and waits until it is gone.
    pub(super) async fn undefine(&self) {
        self.remove().await;
        eventually("the end of the definition", || async {
            (self.server.get(&self.path()).await.code == 404).then_some(())
        })
        .await;
    }

    /// Serves these versions from now on.
    pub(super) async fn serve(&self, versions: &[(&str, bool)]) {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let version = |(at, (name, served)): (usize, &(&str, bool))| json!({"name": name, "served": served, "storage": at == 0, "schema": schema});
        let versions: Vec<Value> = versions.iter().enumerate().map(version).collect();
        let patch = json!({"spec": {"versions": versions}});
        self.server.merge(&self.path(), &patch).await.ok();
    }

    /// Sets an annotation of the definition.
    pub(super) async fn annotate(&self, key: &str, value: &str) {
        let patch = json!({"metadata": {"annotations": {key: value}}});
        self.server.merge(&self.path(), &patch).await.ok();
    }
}

pub(super) fn pods() -> GroupVersionResource {
    GroupVersionResource::gvr("", "v1", "pods")
}
