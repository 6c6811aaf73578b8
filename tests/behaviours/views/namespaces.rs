//! The filter by labels of namespaces, on a server: it learns the namespaces by itself.

use std::sync::Arc;
use std::time::Duration;

use fake_apiserver::{Fault, Rule, Verb};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kclient::{Client, DiscoveryNamespaces, Filter, Informer, Selector, WriterExt};
use kube_client::testing::{TestClient, assert_eventually};
use serde_json::json;

use super::{cluster_with, lines, log, names, sorted, told};
use crate::client::{map, maps};
use crate::harness::{Server, cases, unique};

fn team(name: &str) -> LabelSelector {
    LabelSelector {
        match_labels: Some([("team".to_owned(), name.to_owned())].into()),
        ..LabelSelector::default()
    }
}

fn has(key: &str, operator: &str, values: &[&str]) -> LabelSelector {
    let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
    LabelSelector {
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: (!values.is_empty()).then_some(values),
        }]),
        ..LabelSelector::default()
    }
}

async fn label(server: &Server, namespace: &str, team: Option<&str>) {
    let patch = json!({"metadata": {"labels": {"team": team}}});
    server
        .merge(&format!("/api/v1/namespaces/{namespace}"), &patch)
        .await
        .ok();
}

// [V2] [V6] namespaces are selected and deselected by their labels, by what is asked, and by coming; each object once
async fn namespaces_are_selected_by_their_labels(server: Server) {
    let (one, two) = (server.namespace().await, server.namespace().await);
    // No other case has teams of these names.
    let (red, blue) = (unique(), unique());
    label(&server, one.name(), Some(&red)).await;
    for (namespace, name) in [(&one, "a"), (&one, "b"), (&two, "c")] {
        maps(&server).create_object(&map(namespace, name, "1")).await.unwrap();
    }
    let discovery = DiscoveryNamespaces::new([team(&red)]).unwrap();
    let cluster = cluster_with(&server, discovery.clone());
    let client = Client::<ConfigMap>::new(&cluster).unwrap();
    let everything = Client::<ConfigMap>::filtered(&cluster, Filter::default().ignoring_client_filter()).unwrap();
    let namespaces = Client::<Namespace>::new(&cluster).unwrap();
    let ((objects, _), (spaces, _)) = (log(&client), log(&namespaces));
    assert!(!client.has_synced());
    cluster.sync().await;
    client.synced().await.unwrap();
    namespaces.synced().await.unwrap();
    assert_eq!(sorted(lines(&objects)), ["+a!", "+b!"]);
    assert_eq!(lines(&spaces), [format!("+{}!", one.name())]);
    assert_eq!(names(&client, None), ["a", "b"]);
    assert_eq!(names(&everything, Some(two.name())), ["c"]);
    assert_eq!(
        cluster.stats().informers.len(),
        2,
        "one watch of namespaces, one of maps"
    );

    // Labels: another namespace appears with what it had before, the first one goes.
    label(&server, two.name(), Some(&red)).await;
    assert_eq!(told(&objects, 1).await, ["+c"]);
    assert_eq!(told(&spaces, 1).await, [format!("+{}", two.name())]);
    label(&server, one.name(), None).await;
    assert_eq!(told(&objects, 2).await, ["-a", "-b"]);
    // The namespace changes, and is found to be selected no longer.
    let expected = [format!("-{}", one.name()), one.name().to_owned()];
    assert_eq!(told(&spaces, 2).await, expected);
    assert_eq!(names(&client, None), ["c"]);

    // What is hidden tells nothing; what is visible goes on.
    client.update_object(&map(&one, "a", "2")).await.unwrap();
    client.update_object(&map(&two, "c", "2")).await.unwrap();
    assert_eq!(told(&objects, 1).await, ["c"]);

    // Selectors: expressions, several of them, none at all, and one that cannot be.
    label(&server, one.name(), Some(&blue)).await;
    assert_eventually(
        "the label",
        async || discovery.selected().len(),
        |selected| *selected == 1,
    )
    .await;
    discovery.set_selectors([has("team", "In", &[&blue])]).unwrap();
    assert_eq!(told(&objects, 3).await, ["+a", "+b", "-c"]);
    discovery.set_selectors([team(&red), team(&blue)]).unwrap();
    assert_eq!(told(&objects, 1).await, ["+c"]);
    assert!(discovery.set_selectors([has("team", "Like", &[])]).is_err());
    assert_eq!(names(&client, None), ["a", "b", "c"]);
    objects.take();
    discovery.set_selectors([]).unwrap();
    for namespace in [one.name(), two.name()] {
        assert_eq!(
            names(&client, Some(namespace)),
            names(&everything, Some(namespace)),
            "no selectors: everything"
        );
    }
    discovery
        .set_selectors([has("team", "Exists", &[]), team(&red)])
        .unwrap();
    assert!(names(&client, Some(one.name())).contains(&"a".to_owned()));
    cluster.end().await;
}

cases!(namespaces_are_selected_by_their_labels);

fn labelled(name: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": "web"}}})
}

fn settings(namespace: &str, name: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}})
}

/// A client on an in-memory server whose namespaces come late, with the web team's namespaces selected.
fn late_namespaces(server: &fake_apiserver::FakeApiServer, verb: Verb) -> TestClient {
    let late = Rule::new(Fault::Latency(Duration::from_secs(20))).resource("namespaces");
    server.inject(late.verb(verb).user_agent("watershed"));
    let options = kube_client::Client::builder()
        .user_agent("watershed")
        .object_filter(Arc::new(DiscoveryNamespaces::new([team("web")]).unwrap()));
    TestClient::build_on(server, options)
}

// [V7] one selected namespace holds 1,000 objects and the list of namespaces is late: nobody syncs with fewer
#[tokio::test(start_paused = true)]
async fn nobody_syncs_before_the_namespaces_are_known() {
    let server = fake_apiserver::FakeApiServer::new();
    server.load(&labelled("full")).unwrap();
    for n in 0..1000 {
        server.load(&settings("full", &format!("map-{n}"))).unwrap();
    }
    server.load(&settings("other", "map")).unwrap();
    let cluster = late_namespaces(&server, Verb::Watch);
    let client = Client::<ConfigMap>::new(&cluster).unwrap();
    let (early, early_registration) = log(&client);
    cluster.start();
    assert_eventually(
        "the maps in the cache",
        async || client.informer().len(),
        |len| *len == 1001,
    )
    .await;
    let (late, late_registration) = log(&client);
    assert!(!client.has_synced() && !client.has_synced_ignoring_handlers());
    assert!(!early_registration.has_synced() && !late_registration.has_synced());
    assert!(names(&client, None).is_empty() && client.view().is_empty());
    for (log, registration) in [(&early, early_registration), (&late, late_registration)] {
        registration.synced().await.unwrap();
        assert_eq!(log.events().len(), 1000);
        assert!(log.events().iter().all(kclient::Event::is_initial));
    }
    client.synced().await.unwrap();
    assert_eq!(client.list_unfiltered(None, &Selector::default()).len(), 1001);
    assert_eq!(client.view().len(), 1000);
    cluster.end().await;
}

// [V6] the news of a namespace comes long after those of the objects in it
#[tokio::test(start_paused = true)]
async fn namespace_that_is_seen_after_its_objects() {
    let server = fake_apiserver::FakeApiServer::new();
    let cluster = late_namespaces(&server, Verb::Get);
    let client = Client::<ConfigMap>::new(&cluster).unwrap();
    let (log, _) = log(&client);
    cluster.sync().await;
    client.synced().await.unwrap();
    assert!(log.events().is_empty());
    // The watch of namespaces breaks, and comes back late: meanwhile namespace and objects appear.
    server.inject(
        Rule::new(Fault::Latency(Duration::from_secs(20)))
            .resource("namespaces")
            .verb(Verb::Watch),
    );
    server.close_watches("namespaces");
    server.wait_for_watches("namespaces", 0).await;
    server.load(&labelled("late")).unwrap();
    server.load(&settings("late", "a")).unwrap();
    assert_eventually(
        "the map in the cache",
        async || client.informer().len(),
        |len| *len == 1,
    )
    .await;
    assert!(log.events().is_empty() && names(&client, None).is_empty());
    assert_eq!(told(&log, 1).await, ["+a"]);
    assert_eq!(names(&client, None), ["a"]);
    cluster.end().await;
}

// The filter is not kept by what it told of itself, and ends with its client
#[tokio::test(start_paused = true)]
async fn filter_goes_with_its_client() {
    let server = fake_apiserver::FakeApiServer::new();
    server.load(&labelled("web")).unwrap();
    let discovery = DiscoveryNamespaces::new([team("web")]).unwrap();
    let options = kube_client::Client::builder().object_filter(Arc::new(discovery.clone()));
    let cluster = TestClient::build_on(&server, options);
    let client = Client::<ConfigMap>::new(&cluster).unwrap();
    cluster.sync().await;
    client.synced().await.unwrap();
    cluster.drop_and_assert_idle().await;
    discovery.set_selectors([]).unwrap();
    assert!(names(&client, None).is_empty() && client.has_synced());
}

// A filter that learns from one client hides nothing of another: it would go by the namespaces of another cluster, also when that
// client is gone
#[tokio::test(start_paused = true)]
async fn filter_of_another_client_is_refused() {
    let server = fake_apiserver::FakeApiServer::new();
    let discovery = DiscoveryNamespaces::new([]).unwrap();
    let of = |discovery: &DiscoveryNamespaces| {
        let options = kube_client::Client::builder().object_filter(Arc::new(discovery.clone()));
        options.build_with(kube::Client::new(server.service(), "default"))
    };
    let first = of(&discovery).unwrap();
    let again = Filter::default().objects(Arc::new(discovery.clone()));
    Client::<ConfigMap>::filtered(&first, again).unwrap();
    for _ in 0..2 {
        let refused = of(&discovery).unwrap_err();
        let kube_client::ClientError::ObjectFilter(cause) = &refused else {
            panic!("{refused}")
        };
        assert!(matches!(cause, kclient::RegisterError::ForeignFilter { .. }), "{cause}");
        first.shutdown().await;
    }
    assert!(of(&DiscoveryNamespaces::new([]).unwrap()).is_ok());
}

// Whoever wants to be called when a handler has synced is called once, at once if it has, and forgotten if it never will
#[tokio::test(start_paused = true)]
async fn call_when_a_handler_has_synced() {
    let server = fake_apiserver::FakeApiServer::new();
    server.load(&settings("default", "a")).unwrap();
    let cluster = TestClient::on(&server);
    let client = Client::<ConfigMap>::new(&cluster).unwrap();
    let (log, registration) = log(&client);
    let (_, removed) = super::log(&client);
    let calls = Arc::new(());
    let call = |told: &Arc<std::sync::Mutex<Vec<usize>>>| {
        let (told, calls, log) = (Arc::clone(told), Arc::clone(&calls), log.clone());
        move || {
            let _ = &calls; // held as long as the call
            told.lock().unwrap().push(log.events().len());
        }
    };
    let told: Arc<std::sync::Mutex<Vec<usize>>> = Arc::default();
    registration.on_synced(call(&told));
    registration.on_synced(|| panic!("a call panics"));
    removed.on_synced(call(&told));
    removed.remove();
    assert_eq!(Arc::strong_count(&calls), 2, "what can no longer be called is dropped");
    assert!(told.lock().unwrap().is_empty());
    cluster.sync().await;
    registration.synced().await.unwrap();
    assert_eventually("the call", async || told.lock().unwrap().clone(), |told| *told == [1]).await;
    registration.on_synced(call(&told));
    assert_eq!(*told.lock().unwrap(), [1, 1]);
    assert_eq!(Arc::strong_count(&calls), 1);
    cluster.end().await;
}
