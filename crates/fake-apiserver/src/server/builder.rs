//! Options of a server, and the objects that it starts with.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::{Activity, FakeApiServer, OpenWatches, Options, Shared, bootstrap, manifest};
use crate::clock::{Clock, Names, time_text};
use crate::codec::{ContentType, FieldValidation, decode};
use crate::controllers::{self, Controller};
use crate::crd;
use crate::faults::Faults;
use crate::kinds::Registry;
use crate::namespaces;
use crate::request_log::RequestLog;
use crate::services::Addresses;
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
    bootstrap_objects: bool,
    objects: Vec<Initial>,
    controllers: Vec<Controller>,
}

/// An object that exists from the start.
#[derive(Clone, Debug)]
struct Initial {
    object: Value,
    /// The manifest that it is of, and the number of its document there.
    place: Option<(Arc<str>, usize)>,
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
            bootstrap_objects: false,
            objects: Vec::new(),
            controllers: Vec::new(),
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
    /// The document of a manifest is no object.
    #[error("{0}")]
    Malformed(String),
    /// The document of a manifest cannot be loaded, for the reason that is the source of this error.
    #[error("document {document} of {manifest} cannot be loaded")]
    Manifest {
        /// The name that was given to the manifest.
        manifest: String,
        /// The number of the document in the manifest, from 1.
        document: usize,
        /// Why it cannot be loaded.
        source: Box<BuildError>,
    },
    /// The server has controllers, and is not made on a tokio runtime that could run them.
    #[error("controllers need a tokio runtime to run on")]
    NoRuntime,
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

    /// How many requests the log of requests keeps, fewer if their paths and the names of clients are long. The default is 10,000;
    /// counts are exact all the same.
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
        let object = serde_json::to_value(object).map_err(BuildError::Encode)?;
        self.objects.push(Initial { object, place: None });
        Ok(self)
    }

    /// Adds the objects of a manifest, as they stand in files for kubectl: YAML documents between lines of `---`, or JSON
    /// values one after the other; the items of lists count as objects. An object that needs a namespace and names none
    /// gets the namespace `default`. Otherwise as [`object`](Self::object). `name` is what errors call the manifest, such
    /// as its path.
    ///
    /// ```
    /// let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: b}\n";
    /// let server = fake_apiserver::FakeApiServer::builder().manifest("a.yaml", manifest)?.build()?;
    /// assert!(server.object("configmaps", Some("default"), "a").is_some());
    /// # Ok::<(), fake_apiserver::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// [`BuildError::Manifest`] with [`BuildError::Malformed`] for a document that is no object of a named kind. What the
    /// server refuses, [`build`](Self::build) tells.
    pub fn manifest(mut self, name: &str, text: &str) -> Result<Self, BuildError> {
        let name: Arc<str> = name.into();
        for (document, object) in manifest::objects(text) {
            let object = object.map_err(|message| in_manifest(&name, document, BuildError::Malformed(message)))?;
            let place = Some((Arc::clone(&name), document));
            self.objects.push(Initial { object, place });
        }
        Ok(self)
    }

    /// Whether there are the objects from the start that a real server makes of itself: service and service range `kubernetes` with
    /// the address `10.0.0.1`, the priority classes `system-node-critical` and `system-cluster-critical`, and the owner of what
    /// namespaces have from the start. The default is that there are not: a test begins with the namespaces and with what it puts
    /// there. An object that is among those of
    /// [`object`](Self::object) or [`manifest`](Self::manifest) is as it is given.
    ///
    /// ```
    /// let server = fake_apiserver::FakeApiServer::builder().bootstrap_objects(true).build()?;
    /// assert!(server.object("services", Some("default"), "kubernetes").is_some());
    /// # Ok::<(), fake_apiserver::BuildError>(())
    /// ```
    #[must_use]
    pub fn bootstrap_objects(mut self, are_there: bool) -> Self {
        self.bootstrap_objects = are_there;
        self
    }

    /// Lets the server stand in for a part of a cluster that acts on its own. The default is none: nothing but requests changes
    /// objects.
    ///
    /// # Guarantees
    /// All controllers of a server share one task, on the tokio runtime (with time enabled) that [`build`](Self::build) is called
    /// on. It is aborted when the last handle of the server is dropped, and ends with its runtime.
    ///
    /// # Examples
    /// ```
    /// use fake_apiserver::{Controller, FakeApiServer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), fake_apiserver::BuildError> {
    /// let fake = FakeApiServer::builder().controller(Controller::ServiceAccounts).build()?;
    /// fake.wait_for_controllers().await;
    /// assert!(fake.object("serviceaccounts", Some("default"), "default").is_some());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn controller(self, controller: Controller) -> Self {
        self.controllers([controller])
    }

    /// Adds several [controllers](Self::controller), such as [`Controller::ALL`].
    #[must_use]
    pub fn controllers(mut self, controllers: impl IntoIterator<Item = Controller>) -> Self {
        self.controllers.extend(controllers);
        self.controllers.sort_unstable();
        self.controllers.dedup();
        self
    }

    /// Makes the server, and starts its controllers if it has any.
    ///
    /// # Errors
    /// [`BuildError`] for an object that cannot be stored, inside of [`BuildError::Manifest`] if it is of a manifest; and for controllers
    /// where no tokio runtime is.
    pub fn build(mut self) -> Result<FakeApiServer, BuildError> {
        let controllers = std::mem::take(&mut self.controllers);
        let runtime = match tokio::runtime::Handle::try_current() {
            Ok(runtime) => Some(runtime),
            Err(_) if controllers.is_empty() => None,
            Err(_) => return Err(BuildError::NoRuntime),
        };
        let mut initial = std::mem::take(&mut self.objects);
        // What others need comes first: their kinds, and namespaces before one is made for them.
        initial.sort_by_key(|initial| match initial.object["kind"].as_str() {
            Some("CustomResourceDefinition") => 0,
            Some("Namespace") => 1,
            _ => 2,
        });
        let bootstraps = self.bootstrap_objects;
        let server = self.bare();
        // Those of the objects are not made beforehand, so that what was read off a cluster can be loaded.
        let given = |wanted: &Value| {
            let namespace = |object: &Value| object["metadata"]["namespace"].as_str().unwrap_or("default").to_owned();
            initial.iter().any(|Initial { object, .. }| {
                object["kind"] == wanted["kind"]
                    && object["apiVersion"] == wanted["apiVersion"]
                    && object["metadata"]["name"] == wanted["metadata"]["name"]
                    && namespace(object) == namespace(wanted)
            })
        };
        let now = time_text(server.shared.clock.now());
        for name in namespaces::INITIAL {
            let namespace = bootstrap::namespace(name, &now);
            if given(&namespace) {
                continue;
            }
            if bootstraps {
                server.load_value(namespace, None)?;
            } else {
                server.ensure_namespace(name);
            }
        }
        if bootstraps {
            for object in bootstrap::objects(&now) {
                if !given(&object) {
                    server.load_value(object, None)?;
                }
            }
        }
        for Initial { object, place } in initial {
            match place {
                None => server.load(&object)?,
                Some((manifest, document)) => server
                    .load_value(object, Some("default"))
                    .map_err(|error| in_manifest(&manifest, document, error))?,
            }
        }
        if let Some(runtime) = runtime
            && !controllers.is_empty()
        {
            let shared = &server.shared;
            shared
                .controllers
                .get_or_init(|| controllers::start(shared, &controllers, &runtime));
        }
        Ok(server)
    }

    /// Makes the server without the objects.
    pub(super) fn empty(self) -> FakeApiServer {
        let server = self.bare();
        for namespace in namespaces::INITIAL {
            server.ensure_namespace(namespace);
        }
        server
    }

    /// Makes the server without any object.
    fn bare(self) -> FakeApiServer {
        let shared = Arc::new(Shared {
            storage: Storage::new(self.max_log),
            registry: Registry::new(),
            resources: RwLock::new(HashMap::new()),
            definitions: Mutex::default(),
            clock: Clock::starting_at(self.start_time.unwrap_or_else(jiff::Timestamp::now)),
            names: Names::seeded(self.seed),
            addresses: Addresses::default(),
            faults: Faults::seeded(self.seed),
            log: RequestLog::new(self.max_requests),
            watches: OpenWatches::new(),
            activity: Activity::new(),
            replicas: Mutex::default(),
            options: Options {
                bookmark_interval: self.bookmark_interval,
                max_page: self.max_page,
            },
            controllers: OnceLock::new(),
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
        FakeApiServer { shared }
    }
}

fn in_manifest(manifest: &str, document: usize, error: BuildError) -> BuildError {
    BuildError::Manifest {
        manifest: manifest.to_owned(),
        document,
        source: Box::new(error),
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
        self.load_value(serde_json::to_value(object).map_err(BuildError::Encode)?, None)
    }

    /// As [`load`](Self::load); an object that needs a namespace and names none gets the given one.
    fn load_value(&self, mut object: Value, namespace: Option<&str>) -> Result<(), BuildError> {
        let text = |object: &Value, path: &str| {
            object
                .pointer(path)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let (api_version, kind) = (text(&object, "/apiVersion"), text(&object, "/kind"));
        let name = text(&object, "/metadata/name");
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
        if let Some(namespace) = namespace
            && resource.namespaced()
            && text(&object, "/metadata/namespace").is_empty()
            && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.insert("namespace".to_owned(), namespace.into());
        }
        let bytes = object.to_string();
        let decoded = decode(resource, ContentType::Json, bytes.as_bytes(), FieldValidation::Ignore)
            .map_err(|error| refused(error.to_string()))?;
        if resource.namespaced() {
            self.ensure_namespace(&text(&object, "/metadata/namespace"));
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
    fn what_a_server_makes_of_itself_is_as_it_is_given() {
        // [F15] the objects of a real server's start, of which one is loaded from elsewhere
        let of_another_cluster = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "system-node-critical", "labels": {"from": "elsewhere"}}, "value": 2_000_001_000,
        });
        let builder = FakeApiServer::builder().bootstrap_objects(true);
        let server = builder.object(&of_another_cluster).unwrap().build().unwrap();
        let class = server
            .object("priorityclasses.scheduling.k8s.io", None, "system-node-critical")
            .unwrap();
        assert_eq!(class["metadata"]["labels"], json!({"from": "elsewhere"}));
        let service = server.object("services", Some("default"), "kubernetes").unwrap();
        assert_eq!(service["spec"]["clusterIP"], "10.0.0.1");
        assert!(
            FakeApiServer::new()
                .object("services", Some("default"), "kubernetes")
                .is_none()
        );
    }

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
