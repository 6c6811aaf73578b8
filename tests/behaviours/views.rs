//! What a client shows through filters that change their mind: `objects` are the rows of the table, `namespaces` the filter
//! by labels of namespaces, `scope` what is never filtered, `histories` all of it at random against a model.

mod histories;
mod namespaces;
mod objects;
mod scope;

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kclient::{Client, HandlerOptions, Informer, Reader, Registration};
use kube::core::Selector;
use kube_client::testing::{EventLog, TestClient};
use kube_client::{Metadata, Object, ObjectFilter};

use crate::harness::{Server, limited};

/// A client of everything on a server, with this filter.
pub(crate) fn cluster_with(server: &Server, filter: impl ObjectFilter) -> TestClient {
    let options = kube_client::Client::builder()
        .user_agent("view-case")
        .object_filter(Arc::new(filter));
    TestClient::new(options.build_with(server.client()).unwrap())
}

/// Writes down what a handler of this client is told.
pub(crate) fn log<K: Object>(client: &impl Informer<K>) -> (EventLog<K>, Registration) {
    let log = EventLog::new();
    let registration = client.add_handler(Box::new(log.handler()), HandlerOptions::named("log"));
    (log, registration)
}

/// The names of the objects that a client lists, sorted.
pub(crate) fn names<K: Object>(client: &impl Reader<K>, namespace: Option<&str>) -> Vec<String> {
    let objects = client.list(namespace, &Selector::default());
    let mut names: Vec<String> = objects.iter().map(|object| object.metadata().name.to_owned()).collect();
    names.sort_unstable();
    names
}

/// An event in short: `+a` added, `+a!` added as initial, `a` updated, `-a` deleted.
pub(crate) fn lines<K: Object>(log: &EventLog<K>) -> Vec<String> {
    let short = |event: &kclient::Event<K>| {
        let name = event.object().metadata().name.to_owned();
        match event {
            kclient::Event::Added { initial: true, .. } => format!("+{name}!"),
            kclient::Event::Added { .. } => format!("+{name}"),
            kclient::Event::Updated { .. } => name,
            kclient::Event::Deleted { .. } => format!("-{name}"),
        }
    };
    log.take().iter().map(short).collect()
}

pub(crate) fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort_unstable();
    lines
}

/// Waits until the log has that many events, and gives them in short, sorted.
pub(crate) async fn told<K: Object>(log: &EventLog<K>, count: usize) -> Vec<String> {
    log.wait_for(count).await;
    sorted(lines(log))
}

/// Waits until the informer below a client has seen a write.
pub(crate) async fn seen(client: &Client<ConfigMap>, written: &ConfigMap) {
    let caught_up = client
        .informer()
        .caught_up(written, std::time::Duration::from_secs(100));
    limited("the write in the cache", caught_up).await.unwrap();
}

/// The label `shown` of an object.
pub(crate) fn is_shown(metadata: &Metadata<'_>) -> bool {
    metadata.labels.get("shown") == Some("yes")
}
