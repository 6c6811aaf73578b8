//! A server with controllers, and requests to it.

use bytes::Bytes;
use fake_apiserver::{Controller, FakeApiServer};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// A server with controllers.
pub(crate) struct Cluster {
    pub(crate) fake: FakeApiServer,
}

impl Cluster {
    pub(crate) fn with(controllers: &[Controller]) -> Self {
        let builder = FakeApiServer::builder().start_time(1_700_000_000);
        Self {
            fake: builder
                .controllers(controllers.iter().copied())
                .build()
                .expect("the options fit"),
        }
    }

    /// Sends a request; the code and the JSON of the answer.
    pub(crate) async fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let content_type = if method == "PATCH" {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("user-agent", "tests/1")
            .header("content-type", content_type);
        let body = if body.is_null() {
            Bytes::new()
        } else {
            body.to_string().into()
        };
        let response = self
            .fake
            .service()
            .oneshot(request.body(Full::new(body)).expect("a request"))
            .await
            .expect("no fault is injected");
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.expect("a whole body").to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    /// Sends a request that succeeds.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let (code, answer) = self.send(method, path, body).await;
        assert!((200..300).contains(&code), "{method} {path}: {code} {answer}");
        answer
    }

    /// Creates an object in a collection.
    pub(crate) async fn create(&self, collection: &str, object: &Value) -> Value {
        self.ask("POST", collection, object).await
    }

    /// Creates a config map with owners.
    pub(crate) async fn map(&self, name: &str, owners: &[Value]) -> Value {
        let object = json!({"metadata": {"name": name, "ownerReferences": owners}});
        self.create("/api/v1/namespaces/default/configmaps", &object).await
    }

    /// Deletes with a propagation policy.
    pub(crate) async fn delete(&self, path: &str, policy: &str) -> Value {
        self.ask("DELETE", path, &json!({"propagationPolicy": policy})).await
    }

    /// A config map, once the controllers have nothing left to do.
    pub(crate) async fn settled_map(&self, name: &str) -> Option<Value> {
        self.settled("configmaps", "default", name).await
    }

    /// An object, once the controllers have nothing left to do.
    pub(crate) async fn settled(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        self.fake.wait_for_controllers().await;
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        self.fake.object(resource, namespace, name)
    }
}

/// A path to a config map of the namespace `default`.
pub(crate) fn map_path(name: &str) -> String {
    format!("/api/v1/namespaces/default/configmaps/{name}")
}

/// A reference to an owner.
pub(crate) fn owner(object: &Value) -> Value {
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"],
        "name": object["metadata"]["name"], "uid": object["metadata"]["uid"],
    })
}

/// A reference to an owner that has to wait.
pub(crate) fn blocking(object: &Value) -> Value {
    let mut owner = owner(object);
    owner["blockOwnerDeletion"] = true.into();
    owner
}
