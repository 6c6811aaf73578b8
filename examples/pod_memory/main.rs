//! What a cached pod costs, by the type that an informer keeps: the memory tool of `docs/memory.md`, measured.
//!
//! Run it with `cargo run --example pod_memory`. It fills one cache after the other from an in-memory API server, counts the
//! bytes that are requested of the allocator for each, prints them per pod, and ends by itself after some seconds.
//! Start at [`SlimPod`] and [`TinyPod`], which show how to write such types; `pods` makes the server.

mod pods;

use std::alloc::System;
use std::hint::black_box;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::ApiResource;
use serde::Deserialize;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio_util::sync::CancellationToken;
use watershed::kube_client::{
    Client, Informer, InformerOptions, Labels, ListMode, Metadata, Object, RegisterError, Scope, slim,
};

/// Counts what is requested and given back.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Enough that the cache's own tables do not show.
const PODS: usize = 1_000;

/// Slim: the fields that are read, and metadata cut down to what caches and selectors need.
#[derive(Debug, Clone, Deserialize, Resource)]
#[resource(inherit = Pod)]
struct SlimPod {
    #[serde(deserialize_with = "slim::metadata")]
    metadata: ObjectMeta,
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

/// Tiny: metadata of one's own too, each text in exactly the room it needs.
#[derive(Debug, Deserialize)]
struct TinyPod {
    metadata: TinyMeta,
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

/// What both keep of `spec`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    node_name: Option<Box<str>>,
}

/// What both keep of `status`.
#[derive(Debug, Clone, Default, Deserialize)]
struct PodStatus {
    phase: Option<Box<str>>,
    #[serde(rename = "podIP")]
    pod_ip: Option<Box<str>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TinyMeta {
    name: Box<str>,
    namespace: Box<str>,
    uid: Box<str>,
    resource_version: Box<str>,
    #[serde(default, deserialize_with = "slim::sorted_labels")]
    labels: slim::SortedLabels,
}

/// What a controller reads of a pod, of either type.
fn line(metadata: &Metadata<'_>, spec: &PodSpec, status: &PodStatus) -> String {
    let shown = |text: &Option<Box<str>>| text.as_deref().unwrap_or("-").to_owned();
    format!(
        "{} on {}: {}, {}",
        metadata.name,
        shown(&spec.node_name),
        shown(&status.phase),
        shown(&status.pod_ip)
    )
}

impl Object for TinyPod {
    type DynamicType = ();

    fn api_resource((): &()) -> ApiResource {
        ApiResource::erase::<Pod>(&())
    }

    fn scope((): &()) -> Scope {
        Scope::Namespaced
    }

    fn metadata(&self) -> Metadata<'_> {
        Metadata {
            name: &self.metadata.name,
            namespace: Some(&self.metadata.namespace),
            uid: &self.metadata.uid,
            resource_version: &self.metadata.resource_version,
            labels: Labels::Sorted(&self.metadata.labels),
            ..Metadata::default()
        }
    }
}

/// Bytes requested of the allocator and not given back.
fn requested() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// Fills a cache of `K` and gives the bytes per pod that dropping it frees: objects, keys and tables.
async fn bytes_per_pod<K: Object>(
    server: &kube::Client,
    informer: impl FnOnce(&Client) -> Result<Informer<K>, RegisterError>,
) -> Result<usize, Box<dyn std::error::Error>> {
    let client = Client::new(server.clone())?;
    let pods = informer(&client)?;
    client.run_and_wait(&CancellationToken::new()).await?;
    assert_eq!(pods.len(), PODS);
    // Only the cache is left; it outlives its client.
    client.shutdown().await;
    drop(client);
    let filled = requested();
    drop(black_box(pods));
    Ok((filled - requested()) / PODS)
}

/// Pages, so that nothing of the request is left when the list is in the cache.
fn options<K>() -> InformerOptions<K> {
    InformerOptions::default().list_mode(ListMode::Paged)
}

/// Each form with its bytes per pod, from large to small.
async fn measure() -> Result<Vec<(&'static str, usize)>, Box<dyn std::error::Error>> {
    let server = pods::server(PODS)?;
    let pod = ApiResource::erase::<Pod>(&());
    Ok(vec![
        (
            "typed, managed fields kept",
            bytes_per_pod(&server, |client| {
                client.informers().typed::<Pod>(options().keep_managed_fields())
            })
            .await?,
        ),
        (
            "dynamic",
            bytes_per_pod(&server, |client| client.informers().dynamic(&pod, options())).await?,
        ),
        (
            "typed",
            bytes_per_pod(&server, |client| client.informers().typed::<Pod>(options())).await?,
        ),
        (
            "metadata only",
            bytes_per_pod(&server, |client| client.informers().metadata(&pod, options())).await?,
        ),
        (
            "slim",
            bytes_per_pod(&server, |client| client.informers().typed::<SlimPod>(options())).await?,
        ),
        (
            "tiny",
            bytes_per_pod(&server, |client| client.informers().typed::<TinyPod>(options())).await?,
        ),
    ])
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "{} bytes of JSON per pod, {PODS} pods; requested bytes per pod in the cache:",
        pods::json_size()
    );
    for (form, bytes) in measure().await? {
        println!("{form:<28}{bytes:>8}");
    }
    let slim: SlimPod = serde_json::from_value(pods::pod(7))?;
    println!(
        "slim reads: {}",
        line(&Object::metadata(&slim), &slim.spec, &slim.status)
    );
    let tiny: TinyPod = serde_json::from_value(pods::pod(7))?;
    println!("tiny reads: {}", line(&tiny.metadata(), &tiny.spec, &tiny.status));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // The figures are exact on every machine of one word size: the same requests are made each time.
    #[tokio::test]
    async fn each_form_costs_what_the_guide_says() {
        let figures = measure().await.unwrap();
        println!("{} bytes of JSON per pod: {figures:?}", pods::json_size());
        let cost = |form: &str| figures.iter().find(|(name, _)| *name == form).unwrap().1;
        assert!(
            cost("typed, managed fields kept") > cost("typed") + 5_000,
            "{figures:?}"
        );
        assert!(cost("typed") < 23_000, "{figures:?}");
        assert!(cost("metadata only") < cost("typed") / 3, "{figures:?}");
        assert!(cost("slim") <= 2_300, "{figures:?}");
        assert!(cost("tiny") <= 500, "{figures:?}");
    }

    #[test]
    fn slim_and_tiny_read_what_the_pod_says() {
        let pod = pods::pod(7);
        let slim: SlimPod = serde_json::from_value(pod.clone()).unwrap();
        let tiny: TinyPod = serde_json::from_value(pod).unwrap();
        for (metadata, spec, status) in [
            (Object::metadata(&slim), &slim.spec, &slim.status),
            (tiny.metadata(), &tiny.spec, &tiny.status),
        ] {
            assert_eq!(metadata.key().to_string(), "team-7/web-7c5ddbdf54-00007");
            assert_eq!(metadata.labels.get("app"), Some("web"));
            assert_eq!(
                line(&metadata, spec, status),
                "web-7c5ddbdf54-00007 on node-7: Running, 10.0.0.7"
            );
        }
    }
}
