//! Shared informers on an API server: one watch per kind, exactly-once delivery, recovery, clean ends.
//!
//! Cases that both servers can show work in a namespace of their own, on `ConfigMaps`. Those that need faults, a paused
//! clock or the request log run on the in-memory server alone. Every case ends with [`Rig::end`], which asserts that
//! nothing is left: no task, no watch, no handler.

mod bodies;
mod connection;
mod expired;
mod faults;
mod handlers;
mod histories;
mod identity;
mod index;
mod lifecycle;
mod lists;
mod namespaces;
mod packed;
mod real_only;
mod recovery;
mod writes;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fake_apiserver::FakeApiServer;
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::Selector;
use kube_client::{
    Client, Event, HandlerOptions, Informer, InformerOptions, Namespaces, ObjectKey, Registration, WatchError, on_event,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::harness::{Namespace, Server, eventually};

/// A client on a server, and what its informers reported.
pub(crate) struct Rig {
    pub(crate) server: Server,
    pub(crate) client: Client,
    pub(crate) stop: CancellationToken,
    errors: Arc<Mutex<Vec<WatchError>>>,
}

impl Rig {
    pub(crate) fn new(server: Server) -> Self {
        let errors: Arc<Mutex<Vec<WatchError>>> = Arc::default();
        let sink = Arc::clone(&errors);
        let client = Client::builder()
            .user_agent("informer-case")
            .watch_error_handler(move |_, error| sink.lock().unwrap().push(error.clone()))
            .build_with(server.client())
            .unwrap();
        Self {
            server,
            client,
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

    /// Starts everything and waits for the caches.
    pub(crate) async fn run(&self) {
        self.client.run_and_wait(&self.stop).await.unwrap();
    }

    /// Stops, and asserts that nothing is left.
    pub(crate) async fn end(self) {
        self.client.shutdown().await;
        let stats = self.client.stats();
        assert_eq!(stats.tasks, 0, "tasks left");
        assert_eq!(stats.watches_open(), 0, "watches left");
        assert_eq!(stats.handlers(), 0, "handlers left");
        if let Some(fake) = self.server.in_memory() {
            fake.wait_for_no_watches().await;
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
#[derive(Clone, Default)]
pub(crate) struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    pub(crate) fn register(&self, informer: &Informer<ConfigMap>) -> Registration {
        let entries = Arc::clone(&self.0);
        let write = on_event(move |event: &Event<ConfigMap>| {
            if event.key().name() != "kube-root-ca.crt" {
                entries.lock().unwrap().push(entry(event));
            }
        });
        informer.add_handler(write, HandlerOptions::named("diary"))
    }

    pub(crate) fn entries(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
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

pub(crate) fn key(namespace: &Namespace, name: &str) -> ObjectKey {
    ObjectKey::namespaced(namespace.name(), name)
}
