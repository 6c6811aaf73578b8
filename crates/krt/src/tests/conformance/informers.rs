//! What a client shows as a kind of collection: a client that a test plays, and one of an in-memory server.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kclient::ReadClient;
use kclient::testing::TestClient;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use super::super::informers::fed::{Feed, added, deleted};
use super::super::informers::named;
use super::*;
use crate::InformerCollection;

/// A map with this key.
fn of(key: &str) -> Arc<ConfigMap> {
    let (namespace, name) = key.split_once('/').unwrap();
    named((namespace, name), &format!("uid of {key}"), 1, "1")
}

pub(super) struct Fed {
    feed: Feed,
    collection: InformerCollection<ConfigMap>,
}

impl Subject for Fed {
    type Object = ConfigMap;

    fn new(krt: &Krt, options: Options) -> Self {
        let feed = Feed::default();
        let collection = krt.named_informer(options, &feed);
        Self { feed, collection }
    }

    fn collection(&self) -> &Collection<ConfigMap> {
        &self.collection
    }

    fn create(&self, key: &str) {
        self.feed.tell(&[added(&of(key))]);
    }

    fn replace(&self, old: &str, new: &str) {
        self.feed.tell(&[deleted(&of(old)), added(&of(new))]);
    }
}

/// Secrets, since the server makes maps of its own.
pub(super) struct Served {
    cluster: TestClient,
    collection: InformerCollection<Secret>,
    /// Behind the client, which needs it.
    runtime: Runtime,
}

fn secret(key: &str) -> serde_json::Value {
    let (namespace, name) = key.split_once('/').unwrap();
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": namespace, "name": name}})
}

impl Subject for Served {
    type Object = Secret;

    fn new(krt: &Krt, options: Options) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let entered = runtime.enter();
        let cluster = TestClient::fake();
        let collection = krt.named_informer(options, &ReadClient::new(&cluster).unwrap());
        drop(entered);
        runtime.block_on(cluster.sync());
        Self {
            cluster,
            collection,
            runtime,
        }
    }

    fn collection(&self) -> &Collection<Secret> {
        &self.collection
    }

    fn create(&self, key: &str) {
        self.cluster.load(&secret(key));
    }

    fn replace(&self, old: &str, new: &str) {
        self.cluster.delete::<Secret>(&old.parse().unwrap());
        self.create(new);
    }

    fn end(self) -> Box<dyn FnOnce()> {
        drop(self.collection);
        Box::new(move || self.runtime.block_on(self.cluster.end()))
    }
}
