//! What every namespace has.

use fake_apiserver::Controller;
use serde_json::{Value, json};

use crate::cluster::Cluster;

// [F15]
#[tokio::test(start_paused = true)]
async fn every_namespace_has_a_service_account_and_a_certificate() {
    let cluster = Cluster::with(&[Controller::ServiceAccounts]);
    let namespace = json!({"metadata": {"name": "shop"}});
    cluster.create("/api/v1/namespaces", &namespace).await;
    for namespace in ["default", "kube-system", "kube-public", "kube-node-lease", "shop"] {
        let account = cluster.settled("serviceaccounts", namespace, "default").await;
        assert!(account.is_some(), "{namespace}");
        let map = cluster
            .settled("configmaps", namespace, "kube-root-ca.crt")
            .await
            .unwrap();
        let certificate = map["data"]["ca.crt"].as_str().unwrap();
        assert!(certificate.starts_with("-----BEGIN CERTIFICATE-----\n"));
        let described = &map["metadata"]["annotations"]["kubernetes.io/description"];
        assert!(described.as_str().unwrap().starts_with("Contains a CA bundle"));
    }
}

// [F15]
#[tokio::test(start_paused = true)]
async fn what_a_namespace_has_comes_back() {
    let cluster = Cluster::with(&[Controller::ServiceAccounts]);
    let first = cluster.settled("serviceaccounts", "default", "default").await.unwrap();
    let path = "/api/v1/namespaces/default/serviceaccounts/default";
    cluster.ask("DELETE", path, &Value::Null).await;
    let second = cluster.settled("serviceaccounts", "default", "default").await.unwrap();
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);

    let path = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt";
    let original = cluster
        .settled("configmaps", "default", "kube-root-ca.crt")
        .await
        .unwrap();
    let changed = json!({"data": {"ca.crt": "x", "more": "y"}, "metadata": {"annotations": null}});
    cluster.ask("PATCH", path, &changed).await;
    let mended = cluster
        .settled("configmaps", "default", "kube-root-ca.crt")
        .await
        .unwrap();
    assert_eq!(mended["data"], original["data"]);
    assert_eq!(mended["metadata"]["annotations"], original["metadata"]["annotations"]);
}

// [F15]
#[tokio::test(start_paused = true)]
async fn a_namespace_that_goes_gets_nothing_new() {
    let cluster = Cluster::with(&[Controller::Namespaces, Controller::ServiceAccounts]);
    let namespace = json!({"metadata": {"name": "shop"}});
    cluster.create("/api/v1/namespaces", &namespace).await;
    assert!(cluster.settled("serviceaccounts", "shop", "default").await.is_some());
    cluster.ask("DELETE", "/api/v1/namespaces/shop", &Value::Null).await;
    assert_eq!(cluster.settled("namespaces", "", "shop").await, None);
    assert_eq!(cluster.settled("serviceaccounts", "shop", "default").await, None);
    assert_eq!(cluster.settled("configmaps", "shop", "kube-root-ca.crt").await, None);
}
