//! Versions that the server itself has forgotten. [I16] [I22]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::{ApiResource, DynamicObject};
use kube_client::testing::TestClient;
use kube_client::{Client, InitialList, ListMode, Scope, WatchErrorKind};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::bodies::in_namespace;
use super::create;
use crate::harness::{CustomKind, Server, eventually, own_server_cases};

/// A client whose requests pass through `change` first.
pub(super) fn through<F, Fut>(server: &Server, change: F) -> kube::Client
where
    F: Fn(http::Request<kube::client::Body>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = http::Request<kube::client::Body>> + Send,
{
    let inner = server.client();
    let service = tower::service_fn(move |request| {
        let (inner, change) = (inner.clone(), change.clone());
        async move { inner.send(change(request).await).await }
    });
    kube::Client::new(service, "default")
}

// [I22] the history is compacted between two pages: the token is expired, and the list is complete all the same
async fn list_survives_a_compaction_between_its_pages(server: Server) {
    let namespace = server.namespace().await;
    for name in ["a", "b", "c"] {
        create(&namespace, name, "1").await;
    }
    let pages = Arc::new(AtomicUsize::new(0));
    let (asked, at, writes) = (Arc::clone(&pages), server.clone(), namespace.clone());
    let kube = through(&server, move |request| {
        let (asked, at, writes) = (Arc::clone(&asked), at.clone(), writes.clone());
        async move {
            let is_next_page = request.uri().query().is_some_and(|query| query.contains("continue="));
            if is_next_page && asked.fetch_add(1, Ordering::SeqCst) == 1 {
                let newest = create(&writes, "d", "1").await;
                at.compact(newest.parse().unwrap()).await;
            }
            request
        }
    });
    let client = TestClient::new(Client::new(kube).unwrap());
    let options = in_namespace::<ConfigMap>(&namespace, ListMode::Paged);
    let maps = client
        .informers()
        .typed(options.initial_list(InitialList::Consistent).page_size(1))
        .unwrap();
    client.run_and_wait(&CancellationToken::new()).await.unwrap();
    let names: Vec<String> = super::cached(&maps).into_keys().collect();
    assert_eq!(names, ["a", "b", "c", "d"]);
    let last = maps.stats().last_error.unwrap();
    assert_eq!(last.kind, WatchErrorKind::Expired, "{last}");
    client.end().await;
}

// [I16] a watch from a version that the server has forgotten: its own 410, and a relist
async fn watch_from_a_forgotten_version_is_listed_again(server: Server) {
    let ancient = server.current_version().await;
    // The history of a new kind begins with it: what was before is forgotten.
    let kind = CustomKind::register(&server, |_| {}).await;
    let namespace = server.namespace().await;
    let put = |name: &'static str| {
        let (server, kind, namespace) = (server.clone(), kind.clone(), namespace.clone());
        async move {
            let object = kind.object(name, &json!({"metadata": {}}));
            server.post(&kind.at(&namespace, ""), &object).await.created();
        }
    };
    put("a").await;
    put("b").await;
    let watches = Arc::new(AtomicUsize::new(0));
    let asked = Arc::clone(&watches);
    let kube = through(&server, move |mut request| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        if query.contains("watch=true") && asked.fetch_add(1, Ordering::SeqCst) == 0 {
            let old: Vec<&str> = query
                .split('&')
                .filter(|part| !part.starts_with("resourceVersion="))
                .collect();
            let uri = format!("{}?{}&resourceVersion={ancient}", request.uri().path(), old.join("&"));
            *request.uri_mut() = uri.parse().unwrap();
        }
        async { request }
    });
    let client = TestClient::new(Client::new(kube).unwrap());
    let resource = ApiResource {
        group: kind.group.clone(),
        version: "v1".into(),
        api_version: format!("{}/v1", kind.group),
        kind: "Widget".into(),
        plural: "widgets".into(),
    };
    let options = in_namespace::<DynamicObject>(&namespace, ListMode::Paged).scope(Scope::Namespaced);
    let widgets = client.informers().dynamic(&resource, options).unwrap();
    widgets.start();
    eventually("a second list", || async { (widgets.stats().lists >= 2).then_some(()) }).await;
    let last = widgets.stats().last_error.unwrap();
    assert_eq!(last.kind, WatchErrorKind::Expired, "{last}");
    assert!(last.to_string().contains("too old resource version: "), "{last}");
    put("c").await;
    eventually("the watch goes on", || async { (widgets.len() == 3).then_some(()) }).await;
    client.end().await;
}

own_server_cases!(
    list_survives_a_compaction_between_its_pages,
    watch_from_a_forgotten_version_is_listed_again
);
