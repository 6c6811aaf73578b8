//! The end of namespaces.

use std::time::Duration;

use fake_apiserver::Controller;
use serde_json::{Value, json};

use crate::cluster::Cluster;

const SHOP: &str = "/api/v1/namespaces/shop";

async fn shop(controllers: &[Controller]) -> Cluster {
    let cluster = Cluster::with(controllers);
    let namespace = json!({"metadata": {"name": "shop"}});
    cluster.create("/api/v1/namespaces", &namespace).await;
    cluster
}

/// Type, status, reason and message of the conditions.
fn conditions(namespace: &Value) -> Vec<(&str, &str, &str, &str)> {
    let all = namespace["status"]["conditions"].as_array().into_iter().flatten();
    all.map(|condition| {
        let part = |field: &str| condition[field].as_str().unwrap_or_default();
        (part("type"), part("status"), part("reason"), part("message"))
    })
    .collect()
}

// [F15]
#[tokio::test(start_paused = true)]
async fn a_namespace_goes_with_all_that_is_in_it() {
    let cluster = shop(&[Controller::Namespaces]).await;
    for collection in ["configmaps", "secrets", "services", "pods"] {
        let spec = if collection == "pods" {
            json!({"containers": [{"name": "c", "image": "i"}]})
        } else if collection == "services" {
            json!({"ports": [{"port": 80}]})
        } else {
            Value::Null
        };
        let mut object = json!({"metadata": {"name": "a"}});
        if !spec.is_null() {
            object["spec"] = spec;
        }
        cluster.create(&format!("{SHOP}/{collection}"), &object).await;
    }
    cluster.map("stays", &[]).await;
    let answer = cluster.ask("DELETE", SHOP, &Value::Null).await;
    assert_eq!(answer["status"]["phase"], "Terminating");
    assert_eq!(cluster.settled("namespaces", "", "shop").await, None);
    for resource in ["configmaps", "secrets", "services", "pods"] {
        let left = cluster.settled(resource, "shop", "a").await;
        assert_eq!(left, None, "{resource}");
    }
    assert!(cluster.settled_map("stays").await.is_some());
    // It can come again.
    let namespace = json!({"metadata": {"name": "shop"}});
    cluster.create("/api/v1/namespaces", &namespace).await;
    assert!(cluster.settled("namespaces", "", "shop").await.is_some());
}

// [F15]
#[tokio::test(start_paused = true)]
async fn a_namespace_tells_what_remains_and_waits_for_it() {
    let cluster = shop(&[Controller::Namespaces]).await;
    for (name, finalizers) in [("a", json!(["x.io/one", "x.io/two"])), ("b", json!(["x.io/one"]))] {
        let object = json!({"metadata": {"name": name, "finalizers": finalizers}});
        cluster.create(&format!("{SHOP}/configmaps"), &object).await;
    }
    let secret = json!({"metadata": {"name": "s", "finalizers": ["x.io/two"]}});
    cluster.create(&format!("{SHOP}/secrets"), &secret).await;
    cluster.ask("DELETE", SHOP, &Value::Null).await;
    let namespace = cluster.settled("namespaces", "", "shop").await.unwrap();
    let ok = "All content successfully deleted, may be waiting on finalization";
    assert_eq!(
        conditions(&namespace),
        [
            (
                "NamespaceDeletionDiscoveryFailure",
                "False",
                "ResourcesDiscovered",
                "All resources successfully discovered"
            ),
            (
                "NamespaceDeletionGroupVersionParsingFailure",
                "False",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed"
            ),
            ("NamespaceDeletionContentFailure", "False", "ContentDeleted", ok),
            (
                "NamespaceContentRemaining",
                "True",
                "SomeResourcesRemain",
                "Some resources are remaining: configmaps. has 2 resource instances, secrets. has 1 resource instances"
            ),
            (
                "NamespaceFinalizersRemaining",
                "True",
                "SomeFinalizersRemain",
                "Some content in the namespace has finalizers remaining: x.io/one in 2 resource instances, x.io/two in 2 \
                 resource instances"
            ),
        ]
    );
    assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));

    let released = json!({"metadata": {"finalizers": null}});
    for path in ["configmaps/a", "secrets/s"] {
        cluster.ask("PATCH", &format!("{SHOP}/{path}"), &released).await;
    }
    let namespace = cluster.settled("namespaces", "", "shop").await.unwrap();
    let (_, _, _, text) = conditions(&namespace)[3];
    assert_eq!(
        text,
        "Some resources are remaining: configmaps. has 1 resource instances"
    );
    cluster.ask("PATCH", &format!("{SHOP}/configmaps/b"), &released).await;
    assert_eq!(cluster.settled("namespaces", "", "shop").await, None);
}

// [F15]
#[tokio::test(start_paused = true)]
async fn pods_go_before_everything_else() {
    let cluster = shop(&[Controller::Namespaces]).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "nodeName": "n", "containers": [{"name": "c", "image": "i"}],
    }});
    cluster.create(&format!("{SHOP}/pods"), &pod).await;
    let map = json!({"metadata": {"name": "a"}});
    cluster.create(&format!("{SHOP}/configmaps"), &map).await;
    cluster.ask("DELETE", SHOP, &Value::Null).await;
    let pod = cluster.settled("pods", "shop", "p").await.unwrap();
    assert!(pod["metadata"]["deletionTimestamp"].is_string());
    let map = cluster.settled("configmaps", "shop", "a").await.unwrap();
    assert_eq!(map["metadata"].get("deletionTimestamp"), None);
    let options = json!({"gracePeriodSeconds": 0});
    cluster.ask("DELETE", &format!("{SHOP}/pods/p"), &options).await;
    assert_eq!(cluster.settled("namespaces", "", "shop").await, None);
}

// [F15]
#[tokio::test(start_paused = true)]
async fn a_namespace_goes_when_its_running_pods_have_ended() {
    let cluster = shop(&[Controller::Namespaces, Controller::Kubelet]).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "terminationGracePeriodSeconds": 5, "containers": [{"name": "c", "image": "i"}],
    }});
    cluster.create(&format!("{SHOP}/pods"), &pod).await;
    cluster.fake.wait_for_controllers().await;
    cluster.ask("DELETE", SHOP, &Value::Null).await;
    assert!(cluster.settled("namespaces", "", "shop").await.is_some());
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(cluster.settled("namespaces", "", "shop").await, None);
}

// [F15]
#[tokio::test(start_paused = true)]
async fn a_namespace_waits_for_finalizers_of_its_own() {
    let cluster = Cluster::with(&[Controller::Namespaces]);
    let namespace = json!({"metadata": {"name": "shop", "finalizers": ["x.io/held"]}});
    cluster.create("/api/v1/namespaces", &namespace).await;
    cluster.ask("DELETE", SHOP, &Value::Null).await;
    let namespace = cluster.settled("namespaces", "", "shop").await.unwrap();
    assert_eq!(namespace["spec"], json!({}));
    let released = json!({"metadata": {"finalizers": null}});
    cluster.ask("PATCH", SHOP, &released).await;
    assert_eq!(cluster.settled("namespaces", "", "shop").await, None);
}

// [F15]
#[tokio::test(start_paused = true)]
async fn custom_resources_and_events_are_content_too() {
    let cluster = shop(&[Controller::Namespaces]).await;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.x.io"},
        "spec": {
            "group": "x.io", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    cluster.create(path, &definition).await;
    let widget = json!({"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w"}});
    let widgets = "/apis/x.io/v1/namespaces/shop/widgets";
    cluster.create(widgets, &widget).await;
    let event = json!({
        "metadata": {"name": "e"}, "involvedObject": {"kind": "ConfigMap", "namespace": "shop", "name": "a"},
    });
    cluster.create(&format!("{SHOP}/events"), &event).await;
    cluster.ask("DELETE", SHOP, &Value::Null).await;
    assert_eq!(cluster.settled("namespaces", "", "shop").await, None);
    assert_eq!(cluster.fake.object_count("widgets.x.io"), 0);
    assert_eq!(cluster.fake.object_count("events"), 0);
}

// [F15]
#[tokio::test(start_paused = true)]
async fn without_the_controller_a_namespace_stays_terminating() {
    let cluster = shop(&[]).await;
    cluster.ask("DELETE", SHOP, &Value::Null).await;
    let namespace = cluster.settled("namespaces", "", "shop").await.unwrap();
    assert_eq!(namespace["status"]["phase"], "Terminating");
}
