//! A custom kind of one case.

use serde_json::{Value, json};

use super::{Namespace, Server, eventually};

/// A registered and served CustomResourceDefinition, with a group of its own.
#[derive(Clone)]
pub(crate) struct CustomKind {
    /// The API group.
    pub(crate) group: String,
}

impl CustomKind {
    /// The definition of the namespaced kind `Widget` (`widgets`, version `v1`, any fields) in `group`.
    pub(crate) fn definition(group: &str) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("widgets.{group}")},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [{
                    "name": "v1",
                    "served": true,
                    "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                }],
            },
        })
    }

    /// Registers [`definition`](Self::definition) after `change` and waits until its objects are served.
    pub(crate) async fn register(server: &Server, change: impl FnOnce(&mut Value)) -> CustomKind {
        let group = format!("{}.example.com", server.unique());
        let mut definition = CustomKind::definition(&group);
        change(&mut definition);
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        server.post(path, &definition).await.created();
        let kind = CustomKind { group };
        kind.served(server).await;
        kind
    }

    /// Waits until reads and writes are accepted: the real server answers 404, then 429, for a moment.
    pub(crate) async fn served(&self, server: &Server) {
        let (list, watch) = (self.everywhere(), format!("{}?watch=1", self.everywhere()));
        eventually("the custom kind is served", || async {
            // A watch is refused for longer than a list: it needs the kind's cache.
            let served = server.get(&list).await.code == 200 && server.request("GET", &watch).code().await == 200;
            served.then_some(())
        })
        .await;
    }

    /// The path of the objects of all namespaces.
    pub(crate) fn everywhere(&self) -> String {
        format!("/apis/{}/v1/widgets", self.group)
    }

    /// The path of the objects of a namespace.
    pub(crate) fn at(&self, namespace: &Namespace, rest: &str) -> String {
        namespace.of(&format!("{}/v1", self.group), &format!("widgets{rest}"))
    }

    /// An object with these fields beside `apiVersion`, `kind` and `metadata.name`.
    pub(crate) fn object(&self, name: &str, fields: &Value) -> Value {
        let mut object = fields.clone();
        object["apiVersion"] = format!("{}/v1", self.group).into();
        object["kind"] = "Widget".into();
        object["metadata"]["name"] = name.into();
        object
    }
}
