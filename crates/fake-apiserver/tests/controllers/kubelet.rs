//! The scheduler and the kubelets.

use std::time::Duration;

use fake_apiserver::{Controller, HistoryEntry};
use serde_json::{Value, json};

use crate::cluster::Cluster;

const PODS: &str = "/api/v1/namespaces/default/pods";

fn cluster() -> Cluster {
    Cluster::with(&[Controller::Kubelet])
}

fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": spec});
    pod["spec"]["containers"] = json!([{"name": "c", "image": "i:1"}]);
    pod
}

fn node(name: &str, spec: &Value) -> Value {
    json!({"metadata": {"name": name, "labels": {"name": name}}, "spec": spec})
}

fn ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

// [F13]
#[tokio::test(start_paused = true)]
async fn a_pod_is_scheduled_and_runs() {
    let cluster = cluster();
    cluster.create(PODS, &pod("a", &json!({}))).await;
    let running = cluster.settled("pods", "default", "a").await.unwrap();
    assert_eq!(running["spec"]["nodeName"], "node-1");
    let status = &running["status"];
    assert_eq!(
        (&status["phase"], &status["podIP"]),
        (&json!("Running"), &json!("10.244.0.1"))
    );
    assert_eq!(status["podIPs"], json!([{"ip": "10.244.0.1"}]));
    assert_eq!(status["hostIP"], "172.18.0.2");
    assert!(ready(&running));
    let container = &status["containerStatuses"][0];
    assert_eq!((&container["name"], &container["ready"]), (&json!("c"), &json!(true)));
    assert!(container["state"]["running"]["startedAt"].is_string());
    // Each step is a write of its own: created, bound, containers made, running.
    let phases: Vec<(Value, Value)> = cluster
        .fake
        .history("pods", 0)
        .into_iter()
        .filter_map(|HistoryEntry { object, .. }| object)
        .map(|pod| (pod["spec"]["nodeName"].clone(), pod["status"]["phase"].clone()))
        .collect();
    let on = json!("node-1");
    let expected = [
        (Value::Null, json!("Pending")),
        (on.clone(), json!("Pending")),
        (on.clone(), json!("Pending")),
        (on, json!("Running")),
    ];
    assert_eq!(phases, expected);
    let node = cluster.settled("nodes", "", "node-1").await.unwrap();
    let conditions = node["status"]["conditions"].as_array().unwrap();
    assert!(
        conditions
            .iter()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    );
}

// [F13]
#[tokio::test(start_paused = true)]
async fn addresses_are_the_same_each_time_and_not_given_twice() {
    for _ in 0..2 {
        let cluster = cluster();
        for name in ["a", "b", "c"] {
            cluster.create(PODS, &pod(name, &json!({}))).await;
            cluster.fake.wait_for_controllers().await;
        }
        let options = json!({"gracePeriodSeconds": 0});
        cluster.ask("DELETE", &format!("{PODS}/b"), &options).await;
        cluster.create(PODS, &pod("d", &json!({}))).await;
        cluster.create(PODS, &pod("host", &json!({"hostNetwork": true}))).await;
        cluster.fake.wait_for_controllers().await;
        let pods = cluster.fake.objects("pods");
        let addresses: Vec<&str> = pods
            .iter()
            .map(|pod| pod["status"]["podIP"].as_str().unwrap())
            .collect();
        assert_eq!(addresses, ["10.244.0.1", "10.244.0.3", "10.244.0.4", "172.18.0.2"]);
    }
}

// [F13]
#[tokio::test(start_paused = true)]
async fn a_scheduled_pod_ends_when_its_grace_period_is_over() {
    let cluster = cluster();
    cluster
        .create(PODS, &pod("a", &json!({"terminationGracePeriodSeconds": 20})))
        .await;
    cluster.fake.wait_for_controllers().await;
    cluster.ask("DELETE", &format!("{PODS}/a"), &Value::Null).await;
    tokio::time::sleep(Duration::from_secs(19)).await;
    assert!(cluster.settled("pods", "default", "a").await.is_some());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(cluster.settled("pods", "default", "a").await, None);

    // Less time than at first, and finalizers that hold the pod longer.
    let mut held = pod("b", &json!({}));
    held["metadata"]["finalizers"] = json!(["x.io/held"]);
    cluster.create(PODS, &held).await;
    cluster.fake.wait_for_controllers().await;
    cluster.ask("DELETE", &format!("{PODS}/b"), &Value::Null).await;
    let options = json!({"gracePeriodSeconds": 5});
    cluster.ask("DELETE", &format!("{PODS}/b"), &options).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    let held = cluster.settled("pods", "default", "b").await.unwrap();
    assert_eq!(held["metadata"]["deletionGracePeriodSeconds"], 0);
    let released = json!({"metadata": {"finalizers": null}});
    cluster.ask("PATCH", &format!("{PODS}/b"), &released).await;
    assert_eq!(cluster.settled("pods", "default", "b").await, None);
}

// [F13]
#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_a_node_that_takes_it() {
    let cluster = cluster();
    let taint = json!({"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]});
    cluster.create("/api/v1/nodes", &node("tainted", &taint)).await;
    cluster
        .create("/api/v1/nodes", &node("closed", &json!({"unschedulable": true})))
        .await;
    cluster.create(PODS, &pod("a", &json!({}))).await;
    let waiting = cluster.settled("pods", "default", "a").await.unwrap();
    let condition = &waiting["status"]["conditions"][0];
    assert_eq!(condition["type"], "PodScheduled");
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("Unschedulable"))
    );
    assert_eq!(condition["message"], "0/2 nodes are available.");
    let tolerated = json!({"tolerations": [{"key": "a", "operator": "Exists"}]});
    cluster.create(PODS, &pod("b", &tolerated)).await;
    let running = cluster.settled("pods", "default", "b").await.unwrap();
    assert_eq!(running["spec"]["nodeName"], "tainted");
    let open = json!({"spec": {"unschedulable": null}});
    cluster.ask("PATCH", "/api/v1/nodes/closed", &open).await;
    let running = cluster.settled("pods", "default", "a").await.unwrap();
    assert_eq!(
        (&running["spec"]["nodeName"], ready(&running)),
        (&json!("closed"), true)
    );
}

// [F13]
#[tokio::test(start_paused = true)]
async fn pods_are_spread_over_nodes() {
    let cluster = cluster();
    for name in ["n1", "n2"] {
        cluster.create("/api/v1/nodes", &node(name, &json!({}))).await;
    }
    for name in ["a", "b", "c", "d"] {
        cluster.create(PODS, &pod(name, &json!({}))).await;
    }
    cluster
        .create(PODS, &pod("e", &json!({"nodeSelector": {"name": "n2"}})))
        .await;
    cluster.fake.wait_for_controllers().await;
    let pods = cluster.fake.objects("pods");
    let nodes: Vec<&str> = pods
        .iter()
        .map(|pod| pod["spec"]["nodeName"].as_str().unwrap())
        .collect();
    assert_eq!(nodes, ["n1", "n2", "n1", "n2", "n2"]);
}

// [F13]
#[tokio::test(start_paused = true)]
async fn what_others_do_with_a_pod_is_left_alone() {
    let cluster = cluster();
    for (name, spec) in [
        ("gated", json!({"schedulingGates": [{"name": "x.io/g"}]})),
        ("other", json!({"schedulerName": "mine"})),
        ("nowhere", json!({"nodeName": "nowhere"})),
    ] {
        cluster.create(PODS, &pod(name, &spec)).await;
        let pod = cluster.settled("pods", "default", name).await.unwrap();
        assert_eq!(pod["status"]["phase"], "Pending", "{name}");
        assert_eq!(pod["status"].get("containerStatuses"), None, "{name}");
    }
    // A node that comes runs what was put on it.
    cluster.create("/api/v1/nodes", &node("nowhere", &json!({}))).await;
    let pod_of_node = cluster.settled("pods", "default", "nowhere").await.unwrap();
    assert_eq!(pod_of_node["status"]["phase"], "Running");
    // A test that lets a pod fail is not contradicted.
    let failed = json!({"status": {"phase": "Failed", "reason": "Evicted"}});
    cluster.ask("PATCH", &format!("{PODS}/nowhere/status"), &failed).await;
    let pod_of_node = cluster.settled("pods", "default", "nowhere").await.unwrap();
    assert_eq!(pod_of_node["status"]["phase"], "Failed");
}
