//! What filters and restrictions by namespace leave alone: kinds that live in none.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kclient::{Client, Filter, Informer, Reader, Selector, WriterExt};
use kube::core::ApiResource;
use kube_client::testing::TestClient;
use kube_client::{NamespaceFilter, Namespaces, ObjectKey};

use super::objects::Shared;
use super::{cluster_with, lines, log, names, told};
use crate::client::{cluster, map, maps};
use crate::harness::{Server, cases, unique};

fn class() -> PriorityClass {
    let mut class = PriorityClass {
        value: Some(7),
        ..PriorityClass::default()
    };
    class.metadata.name = Some(unique());
    class
}

// [V4] a filter by namespaces shows every cluster-scoped object, typed or not, but for the namespaces it leaves out
async fn cluster_scoped_kinds_pass_the_filter(server: Server) {
    let (shown, hidden) = (server.namespace().await, server.namespace().await);
    let filter = Arc::new(NamespaceFilter::new([shown.name()]));
    let cluster = cluster_with(&server, Shared(Arc::clone(&filter)));
    let classes = Client::<PriorityClass>::new(&cluster).unwrap();
    let resource = ApiResource::erase::<PriorityClass>(&());
    let untyped = Client::dynamic(&cluster, &resource, Filter::default()).unwrap();
    let namespaces = Client::<Namespace>::new(&cluster).unwrap();
    let ignoring = Client::<Namespace>::filtered(&cluster, Filter::default().ignoring_client_filter()).unwrap();
    let (log, _) = log(&namespaces);
    cluster.sync().await;
    namespaces.synced().await.unwrap();
    let class = classes.create_object(&class()).await.unwrap();
    let key = ObjectKey::cluster(class.metadata.name.as_deref().unwrap());
    kube_client::testing::assert_eventually(
        "the class in both clients",
        async || (classes.get(&key).is_some(), untyped.get(&key).is_some()),
        |there| *there == (true, true),
    )
    .await;
    assert_eq!(cluster.stats().informers.len(), 3, "no view of its own costs a watch");

    // [V2] a Namespace object goes by its own name, once
    let expected = |name: &str| vec![name.to_owned()];
    assert_eq!(names(&namespaces, None), expected(shown.name()));
    assert_eq!(lines(&log), [format!("+{}!", shown.name())]);
    assert!(names(&ignoring, None).len() >= 2);
    assert_eq!(
        namespaces.list_unfiltered(None, &Selector::default()).len(),
        names(&ignoring, None).len()
    );
    filter.set([hidden.name()]);
    assert_eq!(
        told(&log, 2).await,
        super::sorted(vec![format!("-{}", shown.name()), format!("+{}", hidden.name())])
    );
    assert_eq!(names(&namespaces, None), expected(hidden.name()));
    assert!(classes.get(&key).is_some());
    classes.delete_object(&key).await.unwrap();
    cluster.end().await;
}

// [V4] a restriction to a namespace is never applied to them
async fn cluster_scoped_kinds_pass_the_restriction(server: Server) {
    let (own, other) = (server.namespace().await, server.namespace().await);
    for namespace in [&own, &other] {
        maps(&server).create_object(&map(namespace, "a", "1")).await.unwrap();
    }
    let options = kube_client::Client::builder().namespaces(Namespaces::one(own.name()));
    let restricted = TestClient::new(options.build_with(server.client()).unwrap());
    let plain = cluster(&server);
    let classes = Client::<PriorityClass>::new(&restricted).unwrap();
    let only_here = Client::<PriorityClass>::filtered(&plain, Filter::default().namespace(own.name())).unwrap();
    let namespaces = Client::<Namespace>::new(&restricted).unwrap();
    let maps = Client::<ConfigMap>::new(&restricted).unwrap();
    let class = classes.create_object(&class()).await.unwrap();
    let key = ObjectKey::cluster(class.metadata.name.as_deref().unwrap());
    restricted.sync().await;
    plain.sync().await;
    for client in [&classes, &only_here] {
        assert!(client.get(&key).is_some());
    }
    let all = names(&namespaces, None);
    assert!(all.contains(&own.name().to_owned()) && all.contains(&other.name().to_owned()));
    assert_eq!(maps.list(Some(other.name()), &Selector::default()).len(), 0);
    assert_eq!(names(&maps, Some(own.name())), ["a"]);
    classes.delete_object(&key).await.unwrap();
    restricted.end().await;
    plain.end().await;
}

cases!(
    cluster_scoped_kinds_pass_the_filter,
    cluster_scoped_kinds_pass_the_restriction
);
