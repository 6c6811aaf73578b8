//! Something to watch: an in-memory API server with a few pods, and a task that keeps changing them.
//!
//! None of this belongs to a controller. On a real cluster the users and the kubelets do it.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use watershed::kclient::{
    Client, DeleteParams, ObjectKey, Patch, PatchParams, PostParams, Subresource, WriteError, Writer,
};
use watershed::kube_client::{self, FakeError};

use crate::controller::GREET;

const NAMESPACE: &str = "default";
const PACE: Duration = Duration::from_millis(600);

/// A cluster in memory, with three pods.
pub(crate) fn create() -> Result<kube_client::Client, FakeError> {
    let mut cluster = kube_client::Client::fake_builder();
    for name in ["db-0", "web-0", "web-1"] {
        cluster = cluster.object(&pod(name))?;
    }
    cluster.build()
}

/// Creates, starts, labels and deletes pods, one step after the other, until `stop` is cancelled.
pub(crate) async fn keep_changing(cluster: &kube_client::Client, stop: &CancellationToken) -> Result<(), WriteError> {
    // This client only writes: its informer is the one that the controller uses, so it costs no second watch.
    let pods = match Client::<Pod>::new(cluster) {
        Ok(pods) => pods,
        Err(error) => unreachable!("no transform was asked for: {error}"),
    };
    for round in 2.. {
        let name = format!("web-{round}");
        for step in 0..4 {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(PACE) => change(&pods, &name, step).await?,
            }
        }
    }
    Ok(())
}

async fn change(pods: &Client<Pod>, name: &str, step: u32) -> Result<(), WriteError> {
    let key = ObjectKey::namespaced(NAMESPACE, name);
    let merge = async |fields, subresource| {
        pods.patch(&key, &Patch::Merge(fields), subresource, &PatchParams::default())
            .await
            .map(drop)
    };
    match step {
        0 => pods.create(&pod(name), &PostParams::default()).await.map(drop),
        1 => merge(json!({"status": {"phase": "Running"}}), Subresource::Status).await,
        2 => merge(json!({"metadata": {"labels": {GREET: "please"}}}), Subresource::Main).await,
        _ => pods.delete(&key, &DeleteParams::default()).await.map(drop),
    }
}

fn pod(name: &str) -> Pod {
    use k8s_openapi::api::core::v1::{Container, PodSpec};
    let container = Container {
        name: "main".to_owned(),
        image: Some("registry.example/app:1".to_owned()),
        ..Container::default()
    };
    let mut pod = Pod {
        spec: Some(PodSpec {
            containers: vec![container],
            ..PodSpec::default()
        }),
        ..Pod::default()
    };
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.namespace = Some(NAMESPACE.to_owned());
    pod
}
