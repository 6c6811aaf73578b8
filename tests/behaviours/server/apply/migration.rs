//! Objects on their way to server-side apply: from before it, and from client-side apply. [F11]

use serde_json::{Value, json};

use super::{apply, conflicts, map, owners};
use crate::harness::{Namespace, Server, cases};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

// [F11] what nobody owned belongs to a manager of its own from the first apply on
async fn what_was_there_before_the_first_apply(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    let body = json!({"metadata": {"name": "a", "labels": {"l": "1"}}, "data": {"v": "1"}});
    let mut object = namespace.create("configmaps", &body).await;
    object["metadata"]["managedFields"] = json!([{}]);
    let put = server.put(&path, &object).await.ok();
    assert!(put["metadata"].get("managedFields").is_none());
    // Nobody owns what is changed until then.
    let patched = server
        .merge(&format!("{path}?fieldManager=u"), &json!({"data": {"w": "1"}}))
        .await
        .ok();
    assert!(patched["metadata"].get("managedFields").is_none());
    let answer = apply(&server, &path, "m", &map("a", &json!({"v": "2"}))).await;
    conflicts(&answer, &[("\"before-first-apply\" using v1", ".data.v")]);
    let applied = apply(&server, &path, "m", &map("a", &json!({"v": "1", "x": "1"})))
        .await
        .ok();
    let before = json!({
        "f:data": {".": {}, "f:v": {}, "f:w": {}}, "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
    });
    assert_eq!(
        owners(&applied),
        json!({"Apply m v1": {"f:data": {"f:v": {}, "f:x": {}}}, "Update before-first-apply v1": before})
    );
}

/// A config map that client-side apply made of `a` and `b`; somebody else has set `c`.
async fn applied_by_the_client(namespace: &Namespace) -> String {
    let last = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"annotations": {}, "name": "l", "namespace": namespace.name()},
        "data": {"a": "1", "b": "2"},
    });
    let annotations = json!({ANNOTATION: format!("{last}\n")});
    let body = json!({"metadata": {"name": "l", "annotations": annotations}, "data": {"a": "1", "b": "2", "c": "3"}});
    namespace
        .create("configmaps?fieldManager=kubectl-client-side-apply", &body)
        .await;
    namespace.at("configmaps/l")
}

// [F11] kubectl may take over what its client-side apply has set, and nothing else; others may not
async fn kubectl_takes_over_from_its_client_side_apply(server: Server) {
    let namespace = server.namespace().await;
    let path = applied_by_the_client(&namespace).await;
    let client = "\"kubectl-client-side-apply\" using v1";
    let answer = apply(&server, &path, "other", &map("l", &json!({"a": "9"}))).await;
    conflicts(&answer, &[(client, ".data.a")]);
    let answer = apply(&server, &path, "kubectl", &map("l", &json!({"a": "9", "c": "9"}))).await;
    conflicts(&answer, &[(client, ".data.c")]);

    let applied = apply(&server, &path, "kubectl", &map("l", &json!({"a": "9", "b": "2"})))
        .await
        .ok();
    assert_eq!(applied["data"], json!({"a": "9", "b": "2", "c": "3"}));
    let annotation = json!({".": {}, "f:kubectl.kubernetes.io/last-applied-configuration": {}});
    assert_eq!(
        owners(&applied),
        json!({
            "Apply kubectl v1": {"f:data": {"f:a": {}, "f:b": {}}},
            "Update kubectl-client-side-apply v1": {
                "f:data": {".": {}, "f:b": {}, "f:c": {}}, "f:metadata": {"f:annotations": annotation},
            },
        })
    );
    // The annotation follows, so that client-side apply could go on.
    assert_eq!(
        applied["metadata"]["annotations"][ANNOTATION],
        "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"9\",\"b\":\"2\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"l\"}}\n"
    );
}

// [F11] an updater's fields become an applier's by an edit of the managed fields, as kubectl does it
async fn an_update_becomes_an_apply(server: Server) {
    let namespace = server.namespace().await;
    let path = applied_by_the_client(&namespace).await;
    let object = server.get(&path).await.ok();
    let mut entry = object["metadata"]["managedFields"][0].clone();
    entry["manager"] = "kubectl".into();
    entry["operation"] = "Apply".into();
    let patch = json!([
        {"op": "test", "path": "/metadata/resourceVersion", "value": object["metadata"]["resourceVersion"]},
        {"op": "replace", "path": "/metadata/managedFields", "value": [entry]},
    ]);
    let moved = server.json_patch(&path, &patch).await.ok();
    let fields: &Value = &moved["metadata"]["managedFields"][0];
    assert_eq!(
        (&fields["operation"], &fields["manager"]),
        (&json!("Apply"), &json!("kubectl"))
    );
    // What it gives up now goes.
    let applied = apply(&server, &path, "kubectl", &map("l", &json!({"a": "5"})))
        .await
        .ok();
    assert_eq!(applied["data"], json!({"a": "5"}));
    assert_eq!(owners(&applied), json!({"Apply kubectl v1": {"f:data": {"f:a": {}}}}));
}

cases!(
    what_was_there_before_the_first_apply,
    kubectl_takes_over_from_its_client_side_apply,
    an_update_becomes_an_apply,
);
