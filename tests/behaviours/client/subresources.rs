//! Subresources that have a form of their own. The in-memory server serves `status`, `finalize` and `scale` only. [W6]

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::{Binding, Namespace, Pod, ServiceAccount};
use k8s_openapi::api::policy::v1::{Eviction, PodDisruptionBudget};
use kclient::{
    Client, ObjectKey, Patch, PatchParams, PostParams, Subresource, WriteClient, WriteError, Writer, WriterExt,
};
use kube::core::Status;
use serde_json::json;

use super::{cluster, key, map, maps, pod, typed};
use crate::harness::{Server, cases};

// [W6] `finalize` is written by PUT, in the object's own form
async fn namespaces_are_finalized(server: Server) {
    let namespaces = WriteClient::<Namespace>::new(&cluster(&server));
    let name = crate::harness::unique();
    let of = ObjectKey::cluster(&name);
    let namespace: Namespace = typed(json!({"metadata": {"name": name}}));
    namespaces.create_object(&namespace).await.unwrap();
    namespaces.delete_object(&of).await.unwrap();
    let mut dying = namespaces.fetch(&of).await.unwrap();
    dying.spec = Some(typed(json!({"finalizers": []})));
    let finalized: Namespace = namespaces
        .replace_subresource(&of, "finalize", &dying, &PostParams::default())
        .await
        .unwrap();
    assert_eq!(finalized.metadata.uid, dying.metadata.uid);
    assert!(namespaces.fetch(&of).await.unwrap_err().is_not_found());
}

// [W6] a subresource that the kind does not have, and one of an object that is not there
async fn missing_subresources_are_not_found(server: Server) {
    let namespace = server.namespace().await;
    let (maps, of) = (maps(&server), key(&namespace, "a"));
    maps.create_object(&map(&namespace, "a", "1")).await.unwrap();
    let none: Result<Scale, WriteError> = maps.scale(&of).await;
    assert!(none.unwrap_err().is_not_found());
    let set = maps.set_scale(&of, 1).await;
    assert!(set.unwrap_err().is_not_found());
    let status = Patch::Merge(json!({"status": {}}));
    let patched = maps.patch_status(&of, &status, &PatchParams::default()).await;
    let error = patched.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    assert!(error.to_string().contains("ConfigMap/status"), "{error}");
}

// [W6] scale is read, patched and replaced, for a kind of replicas
async fn replicas_are_scaled(server: Server) {
    let namespace = server.namespace().await;
    let sets = Client::<ReplicaSet>::new(&cluster(&server)).unwrap();
    let of = key(&namespace, "a");
    let template = json!({
        "metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]},
    });
    let set: ReplicaSet = typed(json!({
        "metadata": {"name": "a", "namespace": namespace.name()},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "a"}}, "template": template},
    }));
    sets.create_object(&set).await.unwrap();
    let scale = sets.scale(&of).await.unwrap();
    assert_eq!(scale.spec.as_ref().unwrap().replicas, Some(1));
    assert_eq!(scale.status.unwrap().selector.as_deref(), Some("app=a"));
    let scaled = sets.set_scale(&of, 3).await.unwrap();
    assert_eq!(scaled.spec.as_ref().unwrap().replicas, Some(3));
    let mut wanted = scaled.clone();
    wanted.spec = Some(typed(json!({"replicas": 2})));
    let params = PostParams::default();
    let replaced: Scale = sets.replace_subresource(&of, "scale", &wanted, &params).await.unwrap();
    assert_eq!(replaced.spec.unwrap().replicas, Some(2));
    let stale: Result<Scale, _> = sets.replace_subresource(&of, "scale", &wanted, &params).await;
    assert!(stale.unwrap_err().is_conflict(), "it has the old resourceVersion");
    let error = sets.set_scale(&of, -1).await.unwrap_err();
    assert!(
        error.is_invalid() && error.to_string().starts_with("cannot patch ReplicaSet/scale "),
        "{error}"
    );
    assert_eq!(sets.fetch(&of).await.unwrap().spec.replicas, Some(2));
}

cases!(
    namespaces_are_finalized,
    missing_subresources_are_not_found,
    replicas_are_scaled,
    pods_are_bound_and_evicted,
);

// [W6] pods are bound and evicted; a disruption budget says when not, and when to come again
async fn pods_are_bound_and_evicted(server: Server) {
    let namespace = server.namespace().await;
    let pods = Client::<Pod>::new(&cluster(&server)).unwrap();
    let (of, params) = (key(&namespace, "p"), PostParams::default());
    let mut labelled = pod(&namespace, "p");
    labelled.metadata.labels = Some([("app".to_owned(), "a".to_owned())].into());
    pods.create_object(&labelled).await.unwrap();
    let binding: Binding = typed(json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}));
    let bound: Status = pods
        .create_subresource(&of, "binding", &binding, &params)
        .await
        .unwrap();
    assert!(bound.is_success());
    let spec = pods.fetch(&of).await.unwrap().spec.unwrap();
    assert_eq!(spec.node_name.as_deref(), Some("n"));
    let again: Result<Status, _> = pods.create_subresource(&of, "binding", &binding, &params).await;
    assert!(again.unwrap_err().is_conflict());

    let budgets = Client::<PodDisruptionBudget>::new(&cluster(&server)).unwrap();
    let budget: PodDisruptionBudget = typed(json!({
        "metadata": {"name": "all", "namespace": namespace.name()},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    }));
    let mut budget = budgets.create_object(&budget).await.unwrap();
    // The controller of budgets, which this server does not run, would have counted. A pod that is not ready may be evicted
    // anyhow, so it has to be.
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    let running = Patch::Merge(json!({"status": ready}));
    pods.patch_status(&of, &running, &PatchParams::default()).await.unwrap();
    budget.status = Some(typed(json!({
        "observedGeneration": budget.metadata.generation,
        "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1, "disruptionsAllowed": 0,
    })));
    budgets.update_status(&budget, &params).await.unwrap();
    let eviction: Eviction = typed(json!({"metadata": {"name": "p", "namespace": namespace.name()}}));
    let evict = async || {
        pods.create_subresource::<_, Status>(&of, "eviction", &eviction, &params)
            .await
    };
    let error = evict().await.unwrap_err();
    assert!(error.is_too_many_requests() && error.is_retryable(), "{error}");
    pods.fetch(&of).await.unwrap();
    budgets.delete_object(&key(&namespace, "all")).await.unwrap();
    assert!(evict().await.unwrap().is_success());
    assert!(pods.fetch(&of).await.unwrap().metadata.deletion_timestamp.is_some());
}

// [W6] the token of a service account; other subresources in the object's own form
async fn tokens_and_named_subresources(server: Server) {
    let namespace = server.namespace().await;
    let accounts = WriteClient::<ServiceAccount>::new(&cluster(&server));
    let account: ServiceAccount = typed(json!({"metadata": {"name": "a", "namespace": namespace.name()}}));
    accounts.create_object(&account).await.unwrap();
    let request: TokenRequest = typed(json!({"spec": {"audiences": ["x"], "expirationSeconds": 600}}));
    let token: TokenRequest = accounts
        .create_subresource(&key(&namespace, "a"), "token", &request, &PostParams::default())
        .await
        .unwrap();
    assert!(!token.status.unwrap().token.unwrap().is_empty());

    let pods = Client::<Pod>::new(&cluster(&server)).unwrap();
    let of = key(&namespace, "p");
    pods.create_object(&pod(&namespace, "p")).await.unwrap();
    let debug = json!({"name": "debug", "image": "registry.example/debug:1", "terminationMessagePolicy": "File"});
    let patch = Patch::Strategic(json!({"spec": {"ephemeralContainers": [debug]}}));
    let debugged = pods
        .patch(
            &of,
            &patch,
            Subresource::Named("ephemeralcontainers"),
            &PatchParams::default(),
        )
        .await
        .unwrap();
    assert_eq!(debugged.spec.unwrap().ephemeral_containers.unwrap()[0].name, "debug");
}

mod real_only {
    use crate::harness::Server;

    #[tokio::test]
    #[ignore = "needs the API server rig"]
    async fn tokens_and_named_subresources() {
        super::tokens_and_named_subresources(Server::real().await).await;
    }
}
