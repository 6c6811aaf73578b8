//! Something to work on: an in-memory API server, people who make sites, and what the controllers of a cluster would do.
//!
//! None of this belongs to an operator.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use watershed::kclient::{
    DeleteParams, ObjectKey, Patch, PatchParams, PostParams, Subresource, WriteClient, WriteError, Writer, WriterExt,
    ignore_not_found,
};
use watershed::kube_client;

use crate::site::{Site, SiteSpec, install};

const NAMESPACE: &str = "default";
const PACE: Duration = Duration::from_millis(500);

/// Installs the definition a while after the operator has started, then makes, changes and deletes sites, until `stop` is
/// cancelled.
pub(crate) async fn keep_changing(cluster: &kube_client::Client, stop: &CancellationToken) -> Result<(), WriteError> {
    // They only write: no cache, no watch.
    let sites = WriteClient::<Site>::new(cluster);
    let deployments = WriteClient::<Deployment>::new(cluster);
    let pause = async || {
        tokio::select! {
            () = stop.cancelled() => false,
            () = tokio::time::sleep(PACE) => true,
        }
    };
    if !pause().await {
        return Ok(());
    }
    install(cluster).await?;
    for round in 1.. {
        let name = format!("site-{round}");
        for step in 0..6 {
            if !pause().await {
                return Ok(());
            }
            change(&sites, &deployments, &name, step).await?;
        }
    }
    Ok(())
}

async fn change(
    sites: &WriteClient<Site>,
    deployments: &WriteClient<Deployment>,
    name: &str,
    step: u32,
) -> Result<(), WriteError> {
    let (key, params) = (ObjectKey::namespaced(NAMESPACE, name), PatchParams::default());
    let available = async |pods: i32| {
        let status = json!({"replicas": pods, "readyReplicas": pods, "availableReplicas": pods});
        let patch = Patch::Merge(json!({"status": status}));
        // On a slow machine it may not be made yet; nobody starts its pods then.
        ignore_not_found(deployments.patch_status(&key, &patch, &params).await).map(drop)
    };
    match step {
        // A user makes a site.
        0 => sites.create(&site(name), &PostParams::default()).await.map(drop),
        // The controller of deployments has started its pods.
        1 | 2 => available(step.cast_signed()).await,
        // A user wants another image.
        3 => {
            let patch = Patch::Merge(json!({"spec": {"image": "registry.example/pages:2"}}));
            sites.patch(&key, &patch, Subresource::Main, &params).await.map(drop)
        }
        // A user deletes the site.
        4 => sites.delete(&key, &DeleteParams::default()).await.map(drop),
        // The garbage collector finds that the owner of the deployment is gone.
        _ => ignore_not_found(deployments.delete(&key, &DeleteParams::default()).await).map(drop),
    }
}

fn site(name: &str) -> Site {
    let spec = SiteSpec {
        image: "registry.example/pages:1".to_owned(),
        host: format!("{name}.example.org"),
        replicas: 2,
    };
    let mut site = Site::new(name, spec);
    site.metadata.namespace = Some(NAMESPACE.to_owned());
    site
}
