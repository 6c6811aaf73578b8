//! Something to look at: an in-memory API server with replica sets and their pods, and somebody who changes them.
//!
//! None of this belongs to a tool. On a real cluster the users and the controllers do it.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube_client::fake_apiserver::FakeApiServer;
use kube_client::{Client, FakeError};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(crate) const NAMESPACE: &str = "shop";

/// How many steps [`step`] has.
pub(crate) const STEPS: usize = 7;

/// A client of a server with two replica sets, of which one has two pods that are ready.
pub(crate) fn create(server: &FakeApiServer) -> Result<Client, FakeError> {
    let mut cluster = Client::fake_builder().server(server);
    for set in ["db", "web"] {
        cluster = cluster.object(&replica_set(set))?;
    }
    let web = server.object("replicasets.apps", Some(NAMESPACE), "web");
    let uid = web.as_ref().and_then(|web| web["metadata"]["uid"].as_str());
    for name in ["web-1", "web-2"] {
        let mut pod = pod(name, "web", uid.unwrap_or_default());
        pod["status"] = ready();
        cluster = cluster.object(&pod)?;
    }
    cluster.build()
}

/// Changes one thing.
pub(crate) async fn step(cluster: &Client, number: usize) -> Result<(), kube::Error> {
    // Writes need no cache: this is the API of `kube`, over the connection of the client.
    let (sets, pods) = (
        cluster.api_in::<ReplicaSet>(NAMESPACE),
        cluster.api_in::<Pod>(NAMESPACE),
    );
    let (create, delete) = (PostParams::default(), DeleteParams::default());
    match number {
        0 => {
            let web = sets.get("web").await?.metadata.uid.unwrap_or_default();
            pods.create(&create, &typed(pod("web-3", "web", &web))).await?;
        }
        1 => {
            let status = Patch::Merge(json!({"status": ready()}));
            pods.patch_status("web-3", &PatchParams::default(), &status).await?;
        }
        2 => drop(pods.delete("web-1", &delete).await?),
        3 => drop(sets.create(&create, &typed(replica_set("cache"))).await?),
        4 => {
            let cache = sets.get("cache").await?.metadata.uid.unwrap_or_default();
            pods.create(&create, &typed(pod("cache-1", "cache", &cache))).await?;
        }
        5 => drop(sets.delete("db", &delete).await?),
        _ => drop(pods.delete("cache-1", &delete).await?),
    }
    Ok(())
}

fn replica_set(name: &str) -> Value {
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container()]}},
        },
    })
}

/// A pod that belongs to a replica set.
fn pod(name: &str, set: &str, uid: &str) -> Value {
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "uid": uid, "controller": true});
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": set}, "ownerReferences": [owner]},
        "spec": {"containers": [container()]},
    })
}

fn container() -> Value {
    json!({"name": "main", "image": "registry.example/app:1"})
}

fn ready() -> Value {
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
}

fn typed<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).expect("the object is one of its type")
}
