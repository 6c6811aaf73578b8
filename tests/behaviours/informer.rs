//! Shared informers on an API server: one watch per kind, exactly-once delivery, recovery, clean ends.
//!
//! Cases that both servers can show work in a namespace of their own, on `ConfigMaps`. Those that need faults, a paused
//! clock or the request log run on the in-memory server alone. Every case ends with [`Rig::end`], which asserts that
//! nothing is left: no task, no watch, no handler.

mod bodies;
mod concurrent;
mod connection;
mod drops;
mod expired;
mod faults;
mod handlers;
mod histories;
mod identity;
mod index;
mod lag;
mod lifecycle;
mod lists;
mod namespaces;
mod packed;
mod real_only;
mod recovery;
mod representations;
mod stale;
mod writes;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fake_apiserver::FakeApiServer;
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::Selector;
use kube_client::testing::{EventLog, TestClient, assert_eventually, assert_no_watches};
use kube_client::{
    Client, ClientBuilder, Event, HandlerOptions, Informer, InformerOptions, Namespaces, Object, ObjectKey,
    Registration, WatchError,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::harness::{Namespace, Server, eventually};

/// A client on a server, and what its informers reported.
pub(crate) struct Rig {
    pub(crate) server: Server,
    pub(crate) client: TestClient,
    pub(crate) stop: CancellationToken,
    errors: Arc<Mutex<Vec<WatchError>>>,
}

impl Rig {
    pub(crate) fn new(server: Server) -> Self {
        Self::with(server, |builder| builder)
    }

    /// With other than the default choices for the client.
    pub(crate) fn with(server: Server, choose: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Self {
        let kube = server.client();
        Self::through(server, kube, choose)
    }

    /// Over a connection of its own to the server.
    fn through(server: Server, kube: kube::Client, choose: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Self {
        let errors: Arc<Mutex<Vec<WatchError>>> = Arc::default();
        let sink = Arc::clone(&errors);
        let builder = Client::builder()
            .user_agent("informer-case")
            .watch_error_handler(move |_, error| sink.lock().unwrap().push(error.clone()));
        let client = choose(builder).build_with(kube).unwrap();
        Self {
            server,
            client: TestClient::new(client),
            stop: CancellationToken::new(),
            errors,
        }
    }

    /// On an in-memory server of its own.
    pub(crate) fn fake() -> Self {
        Self::new(Server::fake())
    }

    pub(crate) fn memory(&self) -> &FakeApiServer {
        self.server.in_memory().expect("a case of the in-memory server")
    }

    pub(crate) fn errors(&self) -> Vec<WatchError> {
        self.errors.lock().unwrap().clone()
    }

    pub(crate) fn maps(&self, options: InformerOptions<ConfigMap>) -> Informer<ConfigMap> {
        self.client.informers().typed(options).unwrap()
    }

    /// The `ConfigMaps` of a namespace.
    pub(crate) fn maps_in(&self, namespace: &Namespace) -> Informer<ConfigMap> {
        self.maps(InformerOptions::default().namespaces(Namespaces::one(namespace.name())))
    }

    /// The `ConfigMaps` of a namespace, but for what the server itself puts into every one.
    pub(crate) fn own_maps_in(&self, namespace: &Namespace) -> Informer<ConfigMap> {
        let options = InformerOptions::default().namespaces(Namespaces::one(namespace.name()));
        self.maps(options.fields("metadata.name!=kube-root-ca.crt"))
    }

    /// Starts everything and waits for the caches.
    pub(crate) async fn run(&self) {
        self.client.run_and_wait(&self.stop).await.unwrap();
    }

    /// Stops, and asserts that nothing is left.
    pub(crate) async fn end(self) {
        self.client.end().await;
        if let Some(fake) = self.server.in_memory() {
            assert_no_watches(fake).await;
        }
    }

    /// Drops the client instead, and asserts that everything ends by itself.
    pub(crate) async fn end_by_drop(self) {
        self.client.drop_and_assert_idle().await;
        if let Some(fake) = self.server.in_memory() {
            assert_no_watches(fake).await;
        }
    }
}

/// Creates a `ConfigMap` with one entry `v`, and gives its resource version.
pub(crate) async fn create(namespace: &Namespace, name: &str, value: &str) -> String {
    let object = json!({"metadata": {"name": name}, "data": {"v": value}});
    let created = namespace.create("configmaps", &object).await;
    created["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

/// Sets the entry `v`.
pub(crate) async fn update(server: &Server, namespace: &Namespace, name: &str, value: &str) -> Value {
    let path = namespace.at(&format!("configmaps/{name}"));
    server.merge(&path, &json!({"data": {"v": value}})).await.ok()
}

pub(crate) async fn delete(server: &Server, namespace: &Namespace, name: &str) {
    server.delete(&namespace.at(&format!("configmaps/{name}"))).await.ok();
}

/// The entry `v`.
pub(crate) fn value(map: &ConfigMap) -> String {
    map.data
        .as_ref()
        .and_then(|data| data.get("v"))
        .cloned()
        .unwrap_or_default()
}

/// Names and values in the cache, but for what the server itself puts into every namespace.
pub(crate) fn cached(informer: &Informer<ConfigMap>) -> BTreeMap<String, String> {
    let maps = informer.list(None, &Selector::default());
    let named = maps
        .iter()
        .map(|map| (map.metadata.name.clone().unwrap_or_default(), value(map)));
    named.filter(|(name, _)| name != "kube-root-ca.crt").collect()
}

/// A handler that writes down what it is told: `+a=1` (`!` if initial), `a=1>2`, `-a=2` (`?` if stale).
///
/// Leaves out what the server itself puts into every namespace.
#[derive(Clone, Default)]
pub(crate) struct Diary(EventLog<ConfigMap>);

impl Diary {
    pub(crate) fn register(&self, informer: &Informer<ConfigMap>) -> Registration {
        informer.add_handler(self.0.handler(), HandlerOptions::named("diary"))
    }

    pub(crate) fn entries(&self) -> Vec<String> {
        let events = self.0.events();
        let own = events.iter().filter(|event| event.key().name() != "kube-root-ca.crt");
        own.map(entry).collect()
    }

    /// Waits until there are so many entries.
    pub(crate) async fn wait(&self, count: usize) -> Vec<String> {
        eventually("the diary's entries", || async {
            Some(self.entries()).filter(|entries| entries.len() >= count)
        })
        .await
    }
}

pub(crate) fn entry(event: &Event<ConfigMap>) -> String {
    let name = event.key().name().to_owned();
    match event {
        Event::Added { object, initial } => format!("+{name}={}{}", value(object), if *initial { "!" } else { "" }),
        Event::Updated { old, new } => format!("{name}={}>{}", value(old), value(new)),
        Event::Deleted { object, stale } => format!("-{name}={}{}", value(object), if *stale { "?" } else { "" }),
    }
}

/// The next event of a stream that is about none of the server's own objects.
pub(crate) async fn next(events: &mut kube_client::EventStream<ConfigMap>) -> Event<ConfigMap> {
    loop {
        let event = events.next().await.expect("the stream goes on");
        if event.key().name() != "kube-root-ca.crt" {
            return event;
        }
    }
}

/// Asserts that the cache is what the server's list at `path` holds, and that a handler that was there from the start was told
/// events that fold to the very same objects.
pub(crate) async fn assert_folds_to_the_servers_state<K: Object>(
    server: &Server,
    path: &str,
    informer: &Informer<K>,
    log: &EventLog<K>,
) {
    let list = server.get(path).await.ok();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let held: BTreeMap<ObjectKey, (String, String)> = (list["items"].as_array().expect("a list").iter())
        .map(|object| {
            let meta = &object["metadata"];
            let key = ObjectKey::new(meta["namespace"].as_str(), &text(&meta["name"]));
            (key, (text(&meta["uid"]), text(&meta["resourceVersion"])))
        })
        .collect();
    assert!(!held.is_empty(), "nothing to compare");
    let identity = |object: &Arc<K>| {
        let meta = object.metadata();
        (meta.uid.to_owned(), meta.resource_version.to_owned())
    };
    let told = async || {
        log.folded()
            .into_iter()
            .map(|(key, object)| (key, identity(&object)))
            .collect::<BTreeMap<_, _>>()
    };
    assert_eventually("the events fold to what the server holds", told, |told| *told == held).await;
    let cached = informer.list(None, &Selector::default());
    let same = cached.iter().map(|object| (object.metadata().key(), identity(object)));
    assert_eq!(same.collect::<BTreeMap<_, _>>(), held);
    let folded = log.folded();
    assert!(
        cached
            .iter()
            .all(|object| Arc::ptr_eq(object, &folded[&object.metadata().key()]))
    );
}

pub(crate) fn key(namespace: &Namespace, name: &str) -> ObjectKey {
    ObjectKey::namespaced(namespace.name(), name)
}
