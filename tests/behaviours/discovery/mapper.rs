//! Discovery on both servers, and that its requests count like any other.

use std::num::NonZeroU32;
use std::time::Duration;

use fake_apiserver::{Fault, Rule};
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::core::{GroupVersionKind, GroupVersionResource};
use kube_client::{DiscoveryError, InformerOptions, Lookup, Scope};
use tokio::time::Instant;

use super::Widgets;
use crate::harness::{Server, cases, eventually};
use crate::informer::Rig;

async fn kinds_are_found_in_every_direction(server: Server) {
    let rig = Rig::new(server);
    let discovery = rig.client.discovery();
    for (text, api_version, kind) in [
        ("po", "v1", "Pod"),
        ("pod", "v1", "Pod"),
        ("PODS", "v1", "Pod"),
        ("deploy", "apps/v1", "Deployment"),
        ("deployments.apps", "apps/v1", "Deployment"),
        ("hpa", "autoscaling/v2", "HorizontalPodAutoscaler"),
        ("hpa.v1.autoscaling", "autoscaling/v1", "HorizontalPodAutoscaler"),
        ("ev", "v1", "Event"),
        ("events.events.k8s.io", "events.k8s.io/v1", "Event"),
        ("crd", "apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ] {
        let lookup: Lookup = text.parse().unwrap();
        let found = discovery.find(&lookup).await.unwrap();
        let resource = &found.resource;
        assert_eq!(
            (resource.api_version.as_str(), resource.kind.as_str()),
            (api_version, kind),
            "{text}"
        );
        assert_eq!(discovery.find(&found.gvk()).await.unwrap().resource, *resource);
        assert_eq!(discovery.find(&found.gvr()).await.unwrap().resource, *resource);
    }
    let deployments = discovery
        .find(&GroupVersionKind::gvk("apps", "v1", "Deployment"))
        .await
        .unwrap();
    assert_eq!(
        deployments.gvr(),
        GroupVersionResource::gvr("apps", "v1", "deployments")
    );
    assert_eq!(deployments.scope(), Scope::Namespaced);
    assert_eq!(deployments.singular, "deployment");
    assert!(deployments.supports("watch") && !deployments.supports("bind"));
    let (scale, capabilities) = deployments.subresource("scale").unwrap();
    assert_eq!(
        (scale.api_version.as_str(), scale.kind.as_str()),
        ("autoscaling/v1", "Scale")
    );
    assert!(capabilities.supports_operation("patch") && !capabilities.supports_operation("create"));
    let (status, _) = deployments.subresource("status").unwrap();
    assert_eq!(
        (status.api_version.as_str(), status.kind.as_str()),
        ("apps/v1", "Deployment")
    );
    let scalers = discovery.find(Lookup::named("hpa")).await.unwrap();
    assert_eq!(scalers.versions, ["v2", "v1"]);
    assert_eq!(
        discovery.find(Lookup::kind("Node")).await.unwrap().scope(),
        Scope::Cluster
    );
    let apis = discovery.served().await.unwrap();
    let all: Vec<_> = apis
        .category("all")
        .map(|found| found.resource.plural.as_str())
        .collect();
    for plural in ["pods", "services", "deployments", "jobs"] {
        assert_eq!(
            all.iter().filter(|found| **found == plural).count(),
            1,
            "{plural} in {all:?}"
        );
    }
    assert!(apis.unavailable().is_empty(), "{apis:?}");
    let error = discovery.find(Lookup::kind("Deploymnt")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the server does not serve kind Deploymnt (did you mean Deployment?)"
    );
    rig.end().await;
}

async fn kinds_that_come_and_go_are_seen_by_a_refresh(server: Server) {
    let rig = Rig::new(server);
    let discovery = rig.client.discovery();
    let widgets = Widgets::new(&rig.server);
    let lookup = Lookup::from(&widgets.kind());
    let error = discovery.find(&lookup).await.unwrap_err();
    // Other cases have widgets of their own, which the error may suggest.
    let wanted = format!(
        "the server does not serve resource widgets in group {}, version v1",
        widgets.group
    );
    assert!(
        error.is_not_served() && error.to_string().starts_with(&wanted),
        "{error}"
    );
    widgets
        .define_as(|definition| {
            definition["spec"]["names"]["shortNames"] = serde_json::json!(["wd"]);
            definition["spec"]["names"]["categories"] = serde_json::json!(["toys"]);
        })
        .await;
    let found = eventually("the kind", || async {
        discovery.refresh().await.unwrap().find(&lookup).cloned()
    })
    .await;
    assert_eq!(
        (found.resource.kind.as_str(), found.singular.as_str()),
        ("Widget", "widget")
    );
    assert_eq!(
        (found.short_names.as_slice(), found.categories.as_slice()),
        (&["wd".to_owned()][..], &["toys".to_owned()][..])
    );
    assert_eq!(found.scope(), Scope::Namespaced);
    let short = discovery.find(Lookup::named("wd").group(&widgets.group)).await.unwrap();
    assert_eq!(short.resource, found.resource);
    widgets.undefine().await;
    eventually("the end of the kind", || async {
        discovery.refresh().await.unwrap().find(&lookup).is_none().then_some(())
    })
    .await;
    rig.end().await;
}

cases!(
    kinds_are_found_in_every_direction,
    kinds_that_come_and_go_are_seen_by_a_refresh
);

#[tokio::test(start_paused = true)]
async fn unreachable_server_heals() {
    let rig = Rig::fake();
    let down = rig.memory().inject(Rule::new(Fault::Refuse));
    let discovery = rig.client.discovery();
    let error = discovery.find(Lookup::named("po")).await.unwrap_err();
    assert!(matches!(error, DiscoveryError::Request(_)) && error.is_retryable());
    down.remove();
    assert!(
        discovery.find(Lookup::named("po")).await.is_err(),
        "not asked again at once"
    );
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(discovery.find(Lookup::named("po")).await.is_ok());
    rig.end().await;
}

#[tokio::test(start_paused = true)]
async fn limit_counts_lists_watches_discovery_and_single_requests_alike() {
    let one = NonZeroU32::MIN;
    let rig = Rig::with(Server::fake(), |builder| builder.qps(one, one));
    let start = Instant::now();
    let maps = rig.maps(InformerOptions::default().list_mode(kube_client::ListMode::Paged));
    rig.client.start();
    let single = async {
        for _ in 0..2 {
            rig.client.api::<Node>().list(&ListParams::default()).await.unwrap();
        }
    };
    let discovery = rig.client.discovery();
    let ((), served, synced) = tokio::join!(single, discovery.served(), maps.synced());
    assert!(served.is_ok() && synced.is_ok());
    eventually("the watch", || async { (maps.stats().watches_open == 1).then_some(()) }).await;
    assert_eq!(
        rig.memory().requests().len(),
        6,
        "list, watch, /api, /apis, two lists of nodes"
    );
    let took = start.elapsed();
    assert!(
        (5000..5100).contains(&took.as_millis()),
        "one at once, then one in each second: {took:?}"
    );
    rig.end().await;
}
