//! The garbage collector.

use fake_apiserver::{Controller, FakeApiServer};
use serde_json::{Value, json};

use crate::cluster::{Cluster, blocking, map_path, owner};

fn cluster() -> Cluster {
    Cluster::with(&[Controller::GarbageCollector])
}

const WIDGETS: &str = "/apis/x.io/v1/namespaces/default/widgets";

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.x.io"},
        "spec": {
            "group": "x.io", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    })
}

async fn define(cluster: &Cluster) {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    cluster.create(path, &definition()).await;
}

// [F13]
#[tokio::test(start_paused = true)]
async fn dependents_follow_their_owner_through_all_generations() {
    let cluster = cluster();
    let root = cluster.map("root", &[]).await;
    let child = cluster.map("child", &[owner(&root)]).await;
    cluster.map("grandchild", &[owner(&child)]).await;
    assert!(cluster.settled_map("grandchild").await.is_some());
    let answer = cluster.delete(&map_path("root"), "Background").await;
    assert_eq!(answer["status"], "Success");
    for name in ["child", "grandchild"] {
        assert_eq!(cluster.settled_map(name).await, None, "{name}");
    }
}

// [F13]
#[tokio::test(start_paused = true)]
async fn a_foreground_delete_waits_for_the_dependents_that_block() {
    let cluster = cluster();
    let root = cluster.map("root", &[]).await;
    let held = json!({"metadata": {
        "name": "held", "finalizers": ["x.io/held"], "ownerReferences": [blocking(&root)],
    }});
    cluster.create("/api/v1/namespaces/default/configmaps", &held).await;
    let free = json!({"metadata": {
        "name": "free", "finalizers": ["x.io/held"], "ownerReferences": [owner(&root)],
    }});
    cluster.create("/api/v1/namespaces/default/configmaps", &free).await;
    let answer = cluster.delete(&map_path("root"), "Foreground").await;
    assert_eq!(answer["metadata"]["finalizers"], json!(["foregroundDeletion"]));

    // Both are asked to go, and the owner waits for the one that blocks it.
    let root = cluster.settled_map("root").await.unwrap();
    assert_eq!(root["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    for name in ["held", "free"] {
        let dependent = cluster.settled_map(name).await.unwrap();
        assert!(dependent["metadata"]["deletionTimestamp"].is_string(), "{dependent}");
    }
    let released = json!({"metadata": {"finalizers": null}});
    cluster.ask("PATCH", &map_path("held"), &released).await;
    for name in ["held", "root"] {
        assert_eq!(cluster.settled_map(name).await, None, "{name}");
    }
    assert!(cluster.settled_map("free").await.is_some());
}

// [F13]
#[tokio::test(start_paused = true)]
async fn a_foreground_delete_goes_down_through_dependents_that_have_some() {
    let cluster = cluster();
    let root = cluster.map("root", &[]).await;
    let child = cluster.map("child", &[blocking(&root)]).await;
    let held = json!({"metadata": {
        "name": "grandchild", "finalizers": ["x.io/held"], "ownerReferences": [blocking(&child)],
    }});
    cluster.create("/api/v1/namespaces/default/configmaps", &held).await;
    cluster.delete(&map_path("root"), "Foreground").await;
    for name in ["root", "child"] {
        let found = cluster.settled_map(name).await.unwrap();
        assert_eq!(found["metadata"]["finalizers"], json!(["foregroundDeletion"]), "{name}");
    }
    // Who gives up the reference does not hold the owner any longer.
    let released = json!({"metadata": {"ownerReferences": null}});
    cluster.ask("PATCH", &map_path("grandchild"), &released).await;
    for name in ["root", "child"] {
        assert_eq!(cluster.settled_map(name).await, None, "{name}");
    }
    let stays = cluster.settled_map("grandchild").await.unwrap();
    assert!(stays["metadata"]["deletionTimestamp"].is_string());
}

// [F13]
#[tokio::test(start_paused = true)]
async fn an_owner_is_released_by_a_dependent_that_blocks_no_more() {
    let cluster = cluster();
    let root = cluster.map("root", &[]).await;
    let held = json!({"metadata": {
        "name": "held", "finalizers": ["x.io/held"], "ownerReferences": [blocking(&root)],
    }});
    cluster.create("/api/v1/namespaces/default/configmaps", &held).await;
    cluster.delete(&map_path("root"), "Foreground").await;
    assert!(cluster.settled_map("root").await.is_some());
    let loose = json!({"metadata": {"ownerReferences": [owner(&root)]}});
    cluster.ask("PATCH", &map_path("held"), &loose).await;
    assert_eq!(cluster.settled_map("root").await, None);
}

// [F13]
#[tokio::test(start_paused = true)]
async fn objects_that_wait_for_each_other_go_all_the_same() {
    let cluster = cluster();
    let a = cluster.map("a", &[]).await;
    let b = cluster.map("b", &[blocking(&a)]).await;
    let c = cluster.map("c", &[blocking(&b)]).await;
    let circle = json!({"metadata": {"ownerReferences": [blocking(&c)]}});
    cluster.ask("PATCH", &map_path("a"), &circle).await;
    cluster.delete(&map_path("a"), "Foreground").await;
    for name in ["a", "b", "c"] {
        assert_eq!(cluster.settled_map(name).await, None, "{name}");
    }
}

// [F13]
#[tokio::test(start_paused = true)]
async fn an_orphaning_delete_strips_the_owner_from_its_dependents() {
    let cluster = cluster();
    let root = cluster.map("root", &[]).await;
    let other = cluster.map("other", &[]).await;
    cluster.map("one", &[owner(&root)]).await;
    cluster.map("two", &[blocking(&root), owner(&other)]).await;
    let answer = cluster.delete(&map_path("root"), "Orphan").await;
    assert_eq!(answer["metadata"]["finalizers"], json!(["orphan"]));
    assert_eq!(cluster.settled_map("root").await, None);
    let one = cluster.settled_map("one").await.unwrap();
    assert_eq!(one["metadata"].get("ownerReferences"), None);
    let two = cluster.settled_map("two").await.unwrap();
    assert_eq!(two["metadata"]["ownerReferences"], json!([owner(&other)]));
    // They do not follow later either.
    assert!(cluster.settled_map("one").await.is_some());
}

// [F13]
#[tokio::test(start_paused = true)]
async fn an_object_goes_with_its_last_owner() {
    let cluster = cluster();
    let first = cluster.map("first", &[]).await;
    let second = cluster.map("second", &[]).await;
    cluster.map("child", &[owner(&first), owner(&second)]).await;
    cluster.delete(&map_path("first"), "Background").await;
    let child = cluster.settled_map("child").await.unwrap();
    assert_eq!(child["metadata"]["ownerReferences"], json!([owner(&second)]));
    // An owner that waits counts as gone while there is another one.
    let third = cluster.map("third", &[]).await;
    let both = json!({"metadata": {"ownerReferences": [blocking(&second), owner(&third)]}});
    cluster.ask("PATCH", &map_path("child"), &both).await;
    cluster.delete(&map_path("second"), "Foreground").await;
    let child = cluster.settled_map("child").await.unwrap();
    assert_eq!(child["metadata"]["ownerReferences"], json!([owner(&third)]));
    assert_eq!(cluster.settled_map("second").await, None);
    cluster.delete(&map_path("third"), "Background").await;
    assert_eq!(cluster.settled_map("child").await, None);
}

// [F13]
#[tokio::test(start_paused = true)]
async fn an_object_whose_owner_is_not_the_one_it_names_is_collected() {
    let cluster = cluster();
    let root = cluster.map("root", &[]).await;
    let mut stranger = owner(&root);
    stranger["uid"] = "11111111-2222-4333-8444-555555555555".into();
    cluster.map("other-uid", &[stranger]).await;
    let mut misnamed = owner(&root);
    misnamed["name"] = "nobody".into();
    cluster.map("other-name", &[misnamed]).await;
    let elsewhere = json!({"metadata": {"name": "elsewhere"}});
    cluster.create("/api/v1/namespaces", &elsewhere).await;
    let away = json!({"metadata": {"name": "away", "ownerReferences": [owner(&root)]}});
    cluster.create("/api/v1/namespaces/elsewhere/configmaps", &away).await;
    for name in ["other-uid", "other-name"] {
        assert_eq!(cluster.settled_map(name).await, None, "{name}");
    }
    assert_eq!(cluster.settled("configmaps", "elsewhere", "away").await, None);
    assert!(cluster.settled_map("root").await.is_some());
}

// [F13]
#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_owner_has_dependents_in_any_namespace() {
    let cluster = cluster();
    let role = json!({"metadata": {"name": "system:a b"}});
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = cluster.create(roles, &role).await;
    cluster.map("child", &[owner(&role)]).await;
    let cluster_child = json!({"metadata": {"name": "system:c d", "ownerReferences": [owner(&role)]}});
    cluster.create(roles, &cluster_child).await;
    assert!(cluster.settled_map("child").await.is_some());
    cluster.delete(&format!("{roles}/system:a%20b"), "Background").await;
    assert_eq!(cluster.settled_map("child").await, None);
    let child = cluster.settled("clusterroles.rbac.authorization.k8s.io", "", "system:c d");
    assert_eq!(child.await, None);
}

// [F13]
#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_object_with_a_namespaced_owner_is_left_alone() {
    let cluster = cluster();
    let root = cluster.map("root", &[]).await;
    let mut nobody = owner(&root);
    nobody["uid"] = "11111111-2222-4333-8444-555555555555".into();
    let node = json!({"metadata": {"name": "n", "ownerReferences": [nobody]}});
    cluster.create("/api/v1/nodes", &node).await;
    assert!(cluster.settled("nodes", "", "n").await.is_some());
}

// [F13]
#[tokio::test(start_paused = true)]
async fn owners_of_unknown_kinds_are_judged_when_the_kind_is_served() {
    let cluster = cluster();
    let unknown = json!({
        "apiVersion": "x.io/v1", "kind": "Widget", "name": "w", "uid": "11111111-2222-4333-8444-555555555555",
    });
    cluster.map("child", &[unknown]).await;
    assert!(cluster.settled_map("child").await.is_some());
    define(&cluster).await;
    assert_eq!(cluster.settled_map("child").await, None);
}

// [F13]
#[tokio::test(start_paused = true)]
async fn custom_resources_own_and_are_owned_and_take_dependents_along_with_their_kind() {
    let cluster = cluster();
    define(&cluster).await;
    let widget = json!({"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w"}});
    let widget = cluster.create(WIDGETS, &widget).await;
    cluster.map("child", &[owner(&widget)]).await;
    let root = cluster.map("root", &[]).await;
    let owned = json!({"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {
        "name": "owned", "ownerReferences": [owner(&root)],
    }});
    cluster.create(WIDGETS, &owned).await;
    cluster.delete(&map_path("root"), "Background").await;
    assert_eq!(cluster.settled("widgets.x.io", "default", "owned").await, None);
    assert!(cluster.settled_map("child").await.is_some());
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.x.io";
    cluster.ask("DELETE", path, &Value::Null).await;
    assert_eq!(cluster.settled_map("child").await, None);
}

// [F13]
#[tokio::test(start_paused = true)]
async fn events_are_not_collected() {
    let cluster = cluster();
    let root = cluster.map("root", &[]).await;
    let event = json!({
        "metadata": {"name": "e", "ownerReferences": [owner(&root)]},
        "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "root"},
    });
    cluster.create("/api/v1/namespaces/default/events", &event).await;
    cluster.delete(&map_path("root"), "Background").await;
    assert!(cluster.settled("events", "default", "e").await.is_some());
}

// [F13]
#[tokio::test(start_paused = true)]
async fn what_was_there_before_is_collected_too() {
    let lost = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": "lost", "namespace": "default",
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "no"}],
    }});
    let builder = FakeApiServer::builder().controller(Controller::GarbageCollector);
    let fake = builder.object(&lost).unwrap().build().unwrap();
    let cluster = Cluster { fake };
    assert_eq!(cluster.settled_map("lost").await, None);
}

// [F13]
#[tokio::test(start_paused = true)]
async fn the_collector_writes_as_the_controller_manager_and_is_no_request() {
    let cluster = cluster();
    let root = cluster.map("root", &[]).await;
    cluster.map("child", &[owner(&root)]).await;
    cluster.fake.clear_requests();
    cluster.delete(&map_path("root"), "Orphan").await;
    let child = cluster.settled_map("child").await.unwrap();
    assert_eq!(child["metadata"].get("ownerReferences"), None);
    assert_eq!(cluster.fake.requests().len(), 1);
}

// [F13]
#[tokio::test(start_paused = true)]
async fn a_plain_server_collects_nothing() {
    let cluster = Cluster::with(&[]);
    let root = cluster.map("root", &[]).await;
    cluster.map("child", &[owner(&root)]).await;
    cluster.delete(&map_path("root"), "Background").await;
    assert!(cluster.settled_map("child").await.is_some());
}
