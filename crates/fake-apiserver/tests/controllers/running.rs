//! How controllers run: their task, and what they make of a log that forgets or goes back.

use std::time::Duration;

use fake_apiserver::{BuildError, Controller, FakeApiServer};
use serde_json::json;

use crate::cluster::{Cluster, map_path, owner};

// [F13]
#[tokio::test(start_paused = true)]
async fn the_task_ends_with_the_last_handle_of_the_server() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert_eq!(tasks(), 0);
    let cluster = Cluster::with(&Controller::ALL);
    cluster.fake.wait_for_controllers().await;
    assert_eq!(tasks(), 1);
    let service = cluster.fake.service();
    drop(cluster);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(tasks(), 1, "a service is a handle too");
    drop(service);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(tasks(), 0);
}

// [F13]
#[test]
fn controllers_need_a_runtime() {
    let built = FakeApiServer::builder().controllers(Controller::ALL).build();
    assert!(matches!(built, Err(BuildError::NoRuntime)));
    assert!(FakeApiServer::builder().build().is_ok());
}

// [F13]
#[tokio::test(start_paused = true)]
async fn the_log_may_forget_more_than_was_read() {
    let builder = FakeApiServer::builder().max_log(4);
    let fake = builder.controller(Controller::GarbageCollector).build().unwrap();
    let cluster = Cluster { fake };
    let root = cluster.map("root", &[]).await;
    for index in 0..20 {
        cluster.map(&format!("child-{index}"), &[owner(&root)]).await;
    }
    cluster.delete(&map_path("root"), "Background").await;
    cluster.fake.wait_for_controllers().await;
    assert_eq!(cluster.fake.object_count("configmaps"), 0);
}

// [F13]
#[tokio::test(start_paused = true)]
async fn a_restored_log_is_read_anew() {
    let cluster = Cluster::with(&[Controller::GarbageCollector]);
    let root = cluster.map("root", &[]).await;
    cluster.map("child", &[owner(&root)]).await;
    cluster.fake.wait_for_controllers().await;
    let before = cluster.fake.resource_version();
    cluster.delete(&map_path("root"), "Background").await;
    assert_eq!(cluster.settled_map("child").await, None);
    assert!(cluster.fake.restore(before));
    assert!(cluster.settled_map("child").await.is_some());
    cluster.fake.skip_versions(1000);
    assert!(cluster.settled_map("child").await.is_some());
    cluster.delete(&map_path("root"), "Background").await;
    assert_eq!(cluster.settled_map("child").await, None);
}

// [F13]
#[tokio::test(start_paused = true)]
async fn the_same_requests_lead_to_the_same_writes() {
    let mut histories = Vec::new();
    for _ in 0..2 {
        let cluster = Cluster::with(&Controller::ALL);
        let namespace = json!({"metadata": {"name": "a"}});
        cluster.create("/api/v1/namespaces", &namespace).await;
        let root = cluster.map("root", &[]).await;
        for index in 0..5 {
            cluster.map(&format!("child-{index}"), &[owner(&root)]).await;
        }
        cluster.delete(&map_path("root"), "Foreground").await;
        cluster.ask("DELETE", "/api/v1/namespaces/a", &json!({})).await;
        cluster.fake.wait_for_controllers().await;
        let history = |resource: &str| cluster.fake.history(resource, 0);
        histories.push((history("configmaps"), history("namespaces"), history("serviceaccounts")));
    }
    assert_eq!(histories[0], histories[1]);
}
