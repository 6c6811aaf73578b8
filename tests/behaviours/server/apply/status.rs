//! Apply to the status. [F11]

use serde_json::{Value, json};

use super::custom::kind;
use super::{apply, conflicts, owners};
use crate::harness::{Server, cases, version};

fn status(value: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": value})
}

// [F11] the status of a custom resource has managers of its own
async fn status_is_applied_apart(server: Server) {
    let kind = kind(&server).await;
    let namespace = server.namespace().await;
    let (path, of_status) = (kind.at(&namespace, "/a"), kind.at(&namespace, "/a/status"));
    let group = &kind.group;
    let spec = kind.object("a", &json!({"spec": {"a": "x"}, "status": {"phase": "no"}}));
    let created = apply(&server, &path, "m", &spec).await.created();
    assert!(created.get("status").is_none());
    let main = json!({"f:spec": {"f:a": {}}});
    assert_eq!(owners(&created), json!({format!("Apply m {group}/v1"): main}));

    let conditions = json!([{"type": "A", "status": "True"}]);
    let wanted = kind.object(
        "a",
        &json!({"spec": {"a": "no"}, "status": {"phase": "x", "conditions": conditions}}),
    );
    let one = apply(&server, &of_status, "s1", &wanted).await.ok();
    assert_eq!(
        (&one["spec"], &one["status"]["phase"]),
        (&json!({"a": "x"}), &json!("x"))
    );
    assert_eq!(one["metadata"]["generation"], created["metadata"]["generation"]);
    let first = json!({"f:status": {
        "f:conditions": {"k:{\"type\":\"A\"}": {".": {}, "f:status": {}, "f:type": {}}}, "f:phase": {},
    }});
    assert_eq!(
        owners(&one),
        json!({format!("Apply m {group}/v1"): main, format!("Apply s1 {group}/v1 status"): first})
    );
    // Conditions of several managers live side by side.
    let wanted = |conditions: &Value| kind.object("a", &json!({"status": {"conditions": conditions}}));
    let both = apply(
        &server,
        &of_status,
        "s2",
        &wanted(&json!([{"type": "B", "status": "True"}])),
    )
    .await
    .ok();
    let types: Vec<_> = both["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["type"].clone())
        .collect();
    assert_eq!(types, ["A", "B"]);
    let answer = apply(
        &server,
        &of_status,
        "s2",
        &wanted(&json!([{"type": "A", "status": "False"}])),
    )
    .await;
    conflicts(
        &answer,
        &[(
            "\"s1\" with subresource \"status\"",
            ".status.conditions[type=\"A\"].status",
        )],
    );
    let left = apply(&server, &of_status, "s2", &wanted(&json!([]))).await.ok();
    assert_eq!(left["status"], one["status"]);
    assert_eq!(owners(&left), owners(&one));
    let again = apply(&server, &of_status, "s2", &wanted(&json!([]))).await.ok();
    assert_eq!(version(&again), version(&left));
}

// [F11] nothing is created by an apply to the status
async fn an_absent_object_has_no_status(server: Server) {
    let namespace = server.namespace().await;
    let wanted = status(&json!({"message": "m"}));
    apply(&server, &namespace.at("pods/p/status"), "m", &wanted).await.is(
        404,
        "NotFound",
        "pods \"p\" not found",
        json!({"name": "p", "kind": "pods"}),
    );
}

// [F11] the status of a built-in kind; a conflict names the subresource, and the version of who updates
async fn status_of_a_pod(server: Server) {
    let namespace = server.namespace().await;
    let body = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    namespace.create("pods?fieldManager=hand", &body).await;
    let (path, of_status) = (namespace.at("pods/p"), namespace.at("pods/p/status"));
    let conditions = json!([{"type": "Ready", "status": "True", "lastTransitionTime": null}]);
    let one = apply(
        &server,
        &of_status,
        "s",
        &status(&json!({"conditions": conditions, "message": "m"})),
    )
    .await
    .ok();
    assert_eq!(one["status"]["message"], "m");
    assert_eq!(one["status"]["phase"], "Pending");
    let condition = json!({".": {}, "f:lastTransitionTime": {}, "f:status": {}, "f:type": {}});
    let first = json!({"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": condition}, "f:message": {}}});
    assert_eq!(owners(&one)["Apply s v1 status"], first);
    let answer = apply(
        &server,
        &of_status,
        "t",
        &status(&json!({"message": "n", "reason": "r"})),
    )
    .await;
    conflicts(&answer, &[("\"s\" with subresource \"status\"", ".status.message")]);

    let mut object = server.get(&path).await.ok();
    object["status"]["reason"] = "r".into();
    let put = server.put(&format!("{of_status}?fieldManager=xy"), &object).await.ok();
    assert_eq!(
        owners(&put)["Update xy v1 status"],
        json!({"f:status": {"f:reason": {}}})
    );
    assert_eq!(owners(&put)["Apply s v1 status"], first);
    let answer = apply(&server, &of_status, "t", &status(&json!({"reason": "n"}))).await;
    conflicts(
        &answer,
        &[("\"xy\" with subresource \"status\" using v1", ".status.reason")],
    );
    // The main resource takes no status, and nobody owns it by that.
    let main = apply(&server, &path, "m", &status(&json!({"message": "zzz"})))
        .await
        .ok();
    assert_eq!(main["status"]["message"], "m");
    assert_eq!(owners(&main), owners(&put));
}

// [F11] metadata that the status of a kind takes over is owned, what it holds back is not
async fn metadata_by_the_status(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.of("apps/v1", "deployments/d");
    let spec = json!({
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    });
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec});
    apply(&server, &path, "m", &object).await.created();
    let wanted = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "labels": {"q": "1"}, "annotations": {"q": "1"}}, "status": {"replicas": 3},
    });
    let applied = apply(&server, &format!("{path}/status"), "st", &wanted).await.ok();
    assert!(applied["metadata"].get("labels").is_none());
    assert_eq!(applied["metadata"]["annotations"], json!({"q": "1"}));
    assert_eq!(applied["status"], json!({"replicas": 3}));
    assert_eq!(
        owners(&applied)["Apply st apps/v1 status"],
        json!({"f:metadata": {"f:annotations": {"f:q": {}}}, "f:status": {"f:replicas": {}}})
    );
}

cases!(
    status_is_applied_apart,
    an_absent_object_has_no_status,
    status_of_a_pod,
    metadata_by_the_status,
);
