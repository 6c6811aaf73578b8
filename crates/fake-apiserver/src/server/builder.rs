//! Options of a server, and the objects that it starts with.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::{FakeApiServer, OpenWatches, Options, Shared};
use crate::clock::{Clock, Names};
use crate::codec::{ContentType, FieldValidation, decode};
use crate::crd;
use crate::faults::Faults;
use crate::kinds::Registry;
use crate::namespaces;
use crate::request_log::RequestLog;
use crate::storage::Storage;
use crate::verbs::create_object;

/// Options of a [`FakeApiServer`]; each has a default that suits tests.
#[derive(Clone, Debug)]
pub struct Builder {
    seed: u64,
    start_time: Option<jiff::Timestamp>,
    bookmark_interval: Duration,
    max_log: usize,
    max_page: Option<usize>,
    max_requests: usize,
    objects: Vec<Value>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            seed: 0,
            start_time: None,
            bookmark_interval: Duration::from_mins(1),
            max_log: 100_000,
            max_page: None,
            max_requests: 10_000,
            objects: Vec::new(),
        }
    }
}

/// An object that a server cannot start with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The value does not become JSON.
    #[error("the object cannot be written as JSON")]
    Encode(#[source] serde_json::Error),
    /// The value has no `apiVersion` and `kind` that the server knows.
    #[error(
        "no kind {kind:?} in version {api_version:?} is served (a custom kind needs its definition: among the objects to start with, \
         or loaded before)"
    )]
    UnknownKind {
        /// `apiVersion` of the value.
        api_version: String,
        /// `kind` of the value.
        kind: String,
    },
    /// The server refuses the object as it would refuse a create.
    #[error("the object {name:?} of kind {kind:?} is refused: {message}")]
    Refused {
        /// `kind` of the value.
        kind: String,
        /// `metadata.name` of the value.
        name: String,
        /// The text of the server.
        message: String,
    },
}

impl Builder {
    /// Seeds uids, generated names and [`Rule::chance`](crate::Rule::chance): the same seed gives the same ones.
    /// The default is 0.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// What the server's clock shows at the start, in seconds since 1970; it then follows tokio's clock.
    /// The default is the time of the machine.
    #[must_use]
    pub fn start_time(mut self, unix_seconds: i64) -> Self {
        self.start_time = jiff::Timestamp::from_second(unix_seconds).ok();
        self
    }

    /// How often a quiet watch sends a bookmark. The default is a minute, as on a real server.
    #[must_use]
    pub fn bookmark_interval(mut self, interval: Duration) -> Self {
        self.bookmark_interval = interval;
        self
    }

    /// How many events the log holds before the server forgets the oldest quarter. The default is 100,000.
    #[must_use]
    pub fn max_log(mut self, events: usize) -> Self {
        self.max_log = events;
        self
    }

    /// The largest page of a list that has a limit: smaller than what clients ask for, it makes them page.
    /// A list without a limit is whole all the same. The default is no bound.
    #[must_use]
    pub fn max_page(mut self, items: usize) -> Self {
        self.max_page = Some(items.max(1));
        self
    }

    /// How many requests the log of requests keeps. The default is 10,000; counts are exact all the same.
    #[must_use]
    pub fn max_requests(mut self, requests: usize) -> Self {
        self.max_requests = requests;
        self
    }

    /// Adds an object that exists from the start, with the status that it has. It needs `apiVersion` and `kind`, as
    /// all Kubernetes types in Rust write them. Its namespace is made if it is not among the objects and does not exist;
    /// the order in which objects are added does not matter.
    ///
    /// # Errors
    /// [`BuildError::Encode`] if the value does not become JSON.
    pub fn object(mut self, object: &impl Serialize) -> Result<Self, BuildError> {
        self.objects
            .push(serde_json::to_value(object).map_err(BuildError::Encode)?);
        Ok(self)
    }

    /// Makes the server.
    ///
    /// # Errors
    /// [`BuildError`] for an object that cannot be stored.
    pub fn build(mut self) -> Result<FakeApiServer, BuildError> {
        let mut objects = std::mem::take(&mut self.objects);
        // What others need comes first: their kinds, and namespaces before one is made for them.
        objects.sort_by_key(|object| match object["kind"].as_str() {
            Some("CustomResourceDefinition") => 0,
            Some("Namespace") => 1,
            _ => 2,
        });
        let server = self.empty();
        for object in &objects {
            server.load(object)?;
        }
        Ok(server)
    }

    /// Makes the server without the objects.
    pub(super) fn empty(self) -> FakeApiServer {
        let shared = Arc::new(Shared {
            storage: Storage::new(self.max_log),
            registry: Registry::new(),
            resources: RwLock::new(HashMap::new()),
            definitions: Mutex::default(),
            clock: Clock::starting_at(self.start_time.unwrap_or_else(jiff::Timestamp::now)),
            names: Names::seeded(self.seed),
            faults: Faults::seeded(self.seed),
            log: RequestLog::new(self.max_requests),
            watches: OpenWatches::new(),
            options: Options {
                bookmark_interval: self.bookmark_interval,
                max_page: self.max_page,
            },
        });
        let kinds = shared.registry.snapshot();
        for resource in kinds
            .groups()
            .iter()
            .flat_map(|group| &group.versions)
            .flat_map(|version| &version.resources)
        {
            shared.add_storage(&resource.storage, true);
        }
        let server = FakeApiServer { shared };
        for namespace in namespaces::INITIAL {
            server.ensure_namespace(namespace);
        }
        server
    }
}

impl FakeApiServer {
    /// Puts an object there without a request, with the status that it has; its namespace is made if it does not
    /// exist. Watches see it like any other.
    ///
    /// # Errors
    /// [`BuildError`] for an object that cannot be stored, such as one that exists already: a namespace does once an
    /// object in it was loaded.
    pub fn load(&self, object: &impl Serialize) -> Result<(), BuildError> {
        let object = serde_json::to_value(object).map_err(BuildError::Encode)?;
        let text = |path: &str| {
            object
                .pointer(path)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let (api_version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let kinds = self.shared.registry.snapshot();
        let resource = kinds.resource_of_kind(group, version, &kind);
        let found = resource.and_then(|resource| Some((resource, self.shared.resource_id(resource)?)));
        let Some((resource, id)) = found else {
            return Err(BuildError::UnknownKind { api_version, kind });
        };
        let refused = |message: String| BuildError::Refused {
            kind: kind.clone(),
            name: name.clone(),
            message,
        };
        let bytes = object.to_string();
        let decoded = decode(resource, ContentType::Json, bytes.as_bytes(), FieldValidation::Ignore)
            .map_err(|error| refused(error.to_string()))?;
        if resource.namespaced() {
            self.ensure_namespace(&text("/metadata/namespace"));
        }
        create_object(&self.shared, resource, id, decoded.object).map_err(|status| refused(status.message))?;
        if crd::is_definition(resource) {
            crd::reconcile(&self.shared);
        }
        Ok(())
    }

    /// Makes a namespace unless it exists.
    fn ensure_namespace(&self, name: &str) {
        let kinds = self.shared.registry.snapshot();
        let Some(resource) = namespaces::namespaces(&kinds) else {
            return;
        };
        let Some(id) = self.shared.resource_id(resource) else {
            return;
        };
        if name.is_empty() || self.shared.storage.get(id, name).is_some() {
            return;
        }
        // A name that is not valid is refused again, with its text, when the object in it is stored.
        let body = serde_json::json!({"metadata": {"name": name}}).to_string();
        if let Ok(decoded) = decode(resource, ContentType::Json, body.as_bytes(), FieldValidation::Ignore) {
            let mut object = decoded.object;
            object.set_field("status", bytes::Bytes::from_static(br#"{"phase":"Active"}"#));
            let _ = create_object(&self.shared, resource, id, object);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_come_in_any_order_and_bring_their_namespaces() {
        let map = |namespace: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": namespace}});
        let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"a": "b"}}});
        let widget = json!({"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "shop"}});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.x.io"},
            "spec": {
                "group": "x.io", "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
            },
        });
        let mut builder = FakeApiServer::builder();
        for object in [widget, map("shop"), map("other"), shop, definition] {
            builder = builder.object(&object).unwrap();
        }
        let server = builder.build().unwrap();
        let shop = server.object("namespaces", None, "shop").unwrap();
        assert_eq!(shop["metadata"]["labels"]["a"], "b");
        let other = server.object("namespaces", None, "other").unwrap();
        assert_eq!(other["status"]["phase"], "Active");
        assert!(server.object("configmaps", Some("other"), "a").is_some());
        assert!(server.object("widgets.x.io", Some("shop"), "w").is_some());
    }

    #[test]
    fn namespace_is_refused_once_an_object_in_it_was_loaded() {
        let server = FakeApiServer::new();
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"}});
        server.load(&map).unwrap();
        let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        let refused = server.load(&shop).unwrap_err().to_string();
        assert!(refused.contains("namespaces \"shop\" already exists"), "{refused}");
        // An object that is refused leaves no namespace behind.
        let bad =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}, "data": 5});
        server.load(&bad).unwrap_err();
        assert!(server.object("namespaces", None, "b").is_none());
    }
}
