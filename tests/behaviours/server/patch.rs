//! JSON patch and merge patch. [F10]

use serde_json::{Value, json};

use super::texts::{MODIFIED, NAME_PART};
use crate::harness::{Answer, CustomKind, Namespace, Server, cases, version};

const INVALID: &str = "FieldValueInvalid";
const REJECTED: &str = "the server rejected our request due to an error in our request";

/// A namespace with the ConfigMap `a`, and its path.
async fn one(server: &Server) -> (Namespace, String) {
    let namespace = server.namespace().await;
    namespace
        .create(
            "configmaps",
            &json!({"metadata": {"name": "a"}, "data": {"a": "1", "b": "2"}}),
        )
        .await;
    let path = namespace.at("configmaps/a");
    (namespace, path)
}

/// Asserts the 422 about a patch whose result cannot be decoded: only its last part has a text of its own.
#[track_caller]
fn undecodable(answer: &Answer, problem: &str) {
    assert_eq!(answer.code, 422, "{answer}");
    let body = answer.json();
    assert_eq!(body["reason"], "Invalid", "{answer}");
    let message = body["message"].as_str().unwrap();
    assert!(
        message.starts_with(" \"\" is invalid: patch: Invalid value: \"{"),
        "{answer}"
    );
    assert!(message.contains(problem), "{answer}");
    let cause = &body["details"]["causes"][0];
    assert_eq!(
        (&cause["reason"], &cause["field"]),
        (&json!(INVALID), &json!("patch")),
        "{answer}"
    );
    assert_eq!(
        message,
        format!(" \"\" is invalid: patch: {}", cause["message"].as_str().unwrap())
    );
    assert_eq!(body["details"].as_object().unwrap().len(), 1, "{answer}");
}

// [F10] the operations of RFC 6902, with the leniencies of the server
async fn applies_json_patches(server: Server) {
    let (_, path) = one(&server).await;
    let table = [
        (json!([]), json!({"a": "1", "b": "2"})),
        (
            json!([{"op": "test", "path": "/data/a", "value": "1"}]),
            json!({"a": "1", "b": "2"}),
        ),
        (
            json!([{"op": "test", "path": "/data/absent", "value": null}]),
            json!({"a": "1", "b": "2"}),
        ),
        (
            json!([{"op": "add", "path": "/data/c", "value": "3"}]),
            json!({"a": "1", "b": "2", "c": "3"}),
        ),
        (
            json!([{"op": "add", "path": "/data/c", "value": "4"}]),
            json!({"a": "1", "b": "2", "c": "4"}),
        ),
        (
            json!([{"op": "replace", "path": "/data/c", "value": "5"}]),
            json!({"a": "1", "b": "2", "c": "5"}),
        ),
        // replace adds what is missing
        (
            json!([{"op": "replace", "path": "/data/d", "value": "6"}]),
            json!({"a": "1", "b": "2", "c": "5", "d": "6"}),
        ),
        (
            json!([{"op": "remove", "path": "/data/d"}]),
            json!({"a": "1", "b": "2", "c": "5"}),
        ),
        (
            json!([{"op": "copy", "from": "/data/a", "path": "/data/c"}]),
            json!({"a": "1", "b": "2", "c": "1"}),
        ),
        // a copy of nothing, and an add without a value, are null, which a map of strings reads as empty
        (
            json!([{"op": "copy", "from": "/data/absent", "path": "/data/c"}]),
            json!({"a": "1", "b": "2", "c": ""}),
        ),
        (
            json!([{"op": "move", "from": "/data/b", "path": "/data/c"}]),
            json!({"a": "1", "c": "2"}),
        ),
        (
            json!([{"op": "add", "path": "/data/b"}]),
            json!({"a": "1", "b": "", "c": "2"}),
        ),
        (
            json!([{"op": "remove", "path": "/data/b"}, {"op": "remove", "path": "/data/c"}]),
            json!({"a": "1"}),
        ),
        (
            json!([{"op": "add", "path": "/data/x-y", "value": "7"}]),
            json!({"a": "1", "x-y": "7"}),
        ),
        (
            json!([{"op": "replace", "path": "/data", "value": {"z": "8"}}]),
            json!({"z": "8"}),
        ),
    ];
    for (patch, data) in table {
        let before = server.get(&path).await.ok();
        let patched = server.json_patch(&path, &patch).await.ok();
        assert_eq!(patched["data"], data, "{patch}");
        assert_eq!(version(&patched) > version(&before), before["data"] != data, "{patch}");
    }
}

// [F10] list indexes: insert, append, move, the last by -1; ~0 and ~1 in keys
async fn json_patches_work_on_lists_and_escaped_keys(server: Server) {
    let (_, path) = one(&server).await;
    let patch = json!([
        {"op": "add", "path": "/metadata/finalizers", "value": ["x.io/a", "x.io/b"]},
        {"op": "add", "path": "/metadata/finalizers/0", "value": "x.io/c"},
        {"op": "move", "from": "/metadata/finalizers/2", "path": "/metadata/finalizers/0"},
        {"op": "add", "path": "/metadata/finalizers/-", "value": "x.io/d"},
    ]);
    let patched = server.json_patch(&path, &patch).await.ok();
    assert_eq!(
        patched["metadata"]["finalizers"],
        json!(["x.io/b", "x.io/c", "x.io/a", "x.io/d"])
    );
    let patch = json!([{"op": "remove", "path": "/metadata/finalizers/-1"}]);
    let patched = server.json_patch(&path, &patch).await.ok();
    assert_eq!(patched["metadata"]["finalizers"], json!(["x.io/b", "x.io/c", "x.io/a"]));
    for bad in ["9", "x"] {
        let patch = json!([{"op": "add", "path": format!("/metadata/finalizers/{bad}"), "value": "x.io/e"}]);
        server
            .json_patch(&path, &patch)
            .await
            .is(422, "Invalid", REJECTED, json!({}));
    }
    let patch = json!([
        {"op": "remove", "path": "/metadata/finalizers"},
        {"op": "add", "path": "/metadata/annotations", "value": {"x.io/y": "1"}},
        {"op": "replace", "path": "/metadata/annotations/x.io~1y", "value": "2"},
    ]);
    let patched = server.json_patch(&path, &patch).await.ok();
    assert_eq!(patched["metadata"]["annotations"], json!({"x.io/y": "2"}));
    assert!(patched["metadata"].get("finalizers").is_none());
}

// [F10] what cannot be applied: 422, one text for all, and nothing of the patch is stored
async fn refuses_json_patches_that_cannot_be_applied(server: Server) {
    let (_, path) = one(&server).await;
    let before = server.get(&path).await.ok();
    let patches = [
        json!([{"op": "test", "path": "/data/a", "value": "2"}]),
        json!([{"op": "add", "path": "/data/c", "value": "3"}, {"op": "test", "path": "/data/a", "value": "2"}]),
        json!([{"op": "remove", "path": "/data/absent"}]),
        json!([{"op": "move", "from": "/data/absent", "path": "/data/c"}]),
        json!([{"op": "bogus", "path": "/data/a"}]),
        json!([{"path": "/data/a"}]),
        json!([{"op": "add"}]),
        json!([{"op": "add", "path": "/x/y/z", "value": "x"}]),
    ];
    for patch in patches {
        server
            .json_patch(&path, &patch)
            .await
            .is(422, "Invalid", REJECTED, json!({}));
    }
    assert_eq!(server.get(&path).await.ok(), before);
}

// [F10] bodies that are no JSON patch: 400
async fn refuses_bodies_that_are_no_json_patch(server: Server) {
    let (_, path) = one(&server).await;
    let send = async |body: &str| {
        server
            .request("PATCH", &path)
            .body("application/json-patch+json", body)
            .send()
            .await
    };
    for body in ["{", "", "\"x", "[{]", "nope"] {
        send(body)
            .await
            .is(400, "BadRequest", "invalid JSON patch", Value::Null);
    }
    for (body, kind) in [(r#"{"op":"add"}"#, "object"), ("5", "number"), (r#""x""#, "string")] {
        let text = format!("error decoding patch: json: cannot unmarshal {kind} into Go value of type …");
        send(body).await.is(400, "BadRequest", &text, Value::Null);
    }
    send("[5]").await.is(
        400,
        "BadRequest",
        "error decoding patch: json: cannot unmarshal number into Go value of type …",
        Value::Null,
    );
}

// [F10] more than 10,000 operations: 413
async fn refuses_too_many_operations(server: Server) {
    let (_, path) = one(&server).await;
    let operations = |count: usize| Value::from(vec![json!({"op": "test", "path": "/data/a", "value": "1"}); count]);
    server.json_patch(&path, &operations(10_000)).await.ok();
    let text = "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001";
    server
        .json_patch(&path, &operations(10_001))
        .await
        .is(413, "RequestEntityTooLarge", text, Value::Null);
}

// [F10] merge patch: members are set, nulls remove, lists are replaced as a whole
async fn applies_merge_patches(server: Server) {
    let (_, path) = one(&server).await;
    let table = [
        (json!({}), json!({"a": "1", "b": "2"})),
        (json!({"data": {"a": null, "z": "9"}}), json!({"b": "2", "z": "9"})),
        (json!({"data": {"absent": null}}), json!({"b": "2", "z": "9"})),
        (json!({"data": null}), Value::Null),
        (json!({"data": {"k": "1"}}), json!({"k": "1"})),
    ];
    for (patch, data) in table {
        let before = server.get(&path).await.ok();
        let patched = server.merge(&path, &patch).await.ok();
        assert_eq!(patched["data"], data, "{patch}");
        assert_eq!(
            version(&patched) > version(&before),
            before["data"] != patched["data"],
            "{patch}"
        );
    }
    let patched = server
        .merge(&path, &json!({"metadata": {"labels": {"a": "b", "c": null}}}))
        .await
        .ok();
    assert_eq!(patched["metadata"]["labels"], json!({"a": "b"}));
    for finalizers in [json!(["x.io/a", "x.io/b"]), json!(["x.io/b"])] {
        let patched = server
            .merge(&path, &json!({"metadata": {"finalizers": finalizers}}))
            .await
            .ok();
        assert_eq!(patched["metadata"]["finalizers"], finalizers);
    }
}

// [F10] bodies that are no merge patch: 400
async fn refuses_bodies_that_are_no_merge_patch(server: Server) {
    let (_, path) = one(&server).await;
    let send = async |body: &str| {
        server
            .request("PATCH", &path)
            .body("application/merge-patch+json", body)
            .send()
            .await
    };
    for body in ["{", "", "data: {y: \"1\"}", "nope"] {
        send(body)
            .await
            .is(400, "BadRequest", "invalid JSON patch", Value::Null);
    }
    for (body, kind) in [("[1]", "array"), ("5", "number"), (r#""x""#, "string")] {
        let text = format!(
            "error decoding patch: json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        );
        send(body).await.is(400, "BadRequest", &text, Value::Null);
    }
}

// [F10] what an update refuses, a patch refuses too
async fn patches_follow_the_rules_of_updates(server: Server) {
    let (_, path) = one(&server).await;
    let before = server.get(&path).await.ok();
    let metadata = |key: &str, value: Value| json!({"metadata": {key: value}});
    let conflict = format!("Operation cannot be fulfilled on configmaps \"a\": {MODIFIED}");
    let details = json!({"name": "a", "kind": "configmaps"});
    let old = server.merge(&path, &metadata("resourceVersion", json!("1"))).await;
    old.is(409, "Conflict", &conflict, details.clone());
    let old = server
        .json_patch(
            &path,
            &json!([{"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}]),
        )
        .await;
    old.is(409, "Conflict", &conflict, details);
    let text = "strconv.ParseUint: parsing \"abc\": invalid syntax";
    server
        .merge(&path, &metadata("resourceVersion", json!("abc")))
        .await
        .is(500, "", text, Value::Null);
    let text = "the name of the object (q) does not match the name on the URL (a)";
    server
        .merge(&path, &metadata("name", json!("q")))
        .await
        .is(400, "BadRequest", text, Value::Null);
    let text = "the name of the object (a based on URL) was undeterminable: name must be provided";
    server
        .merge(&path, &json!({"metadata": null}))
        .await
        .is(400, "BadRequest", text, Value::Null);
    let whole = json!([{"op": "replace", "path": "", "value": {}}]);
    server
        .json_patch(&path, &whole)
        .await
        .is(400, "BadRequest", text, Value::Null);
    let text = "the namespace of the provided object does not match the namespace sent on the request";
    server
        .merge(&path, &metadata("namespace", json!("q")))
        .await
        .is(400, "BadRequest", text, Value::Null);
    let uid = server.merge(&path, &metadata("uid", json!("q"))).await;
    uid.invalid(
        "",
        "ConfigMap",
        "a",
        &[(INVALID, "metadata.uid", "Invalid value: \"q\": field is immutable")],
    );
    let label = server.merge(&path, &metadata("labels", json!({"a b": "c"}))).await;
    let cause = format!("Invalid value: \"a b\": {NAME_PART}");
    label.invalid("", "ConfigMap", "a", &[(INVALID, "metadata.labels", &cause)]);
    assert_eq!(server.get(&path).await.ok(), before);
    // These change nothing, or not what they say.
    for (key, value) in [
        ("resourceVersion", json!("")),
        ("resourceVersion", Value::Null),
        ("uid", Value::Null),
        ("creationTimestamp", Value::Null),
        ("generation", json!(77)),
    ] {
        assert_eq!(
            server.merge(&path, &metadata(key, value.clone())).await.ok(),
            before,
            "{key}: {value}"
        );
    }
    let newest = metadata("resourceVersion", before["metadata"]["resourceVersion"].clone());
    assert_eq!(server.merge(&path, &newest).await.ok(), before);
    let other = server.merge(&path, &json!({"kind": "Pod"})).await;
    undecodable(&other, "converting (v1.Pod) to (core.ConfigMap): unknown conversion");
    undecodable(
        &server.merge(&path, &json!({"apiVersion": "v2"})).await,
        "no kind \"ConfigMap\" is registered for version \"v2\"",
    );
    undecodable(
        &server.merge(&path, &json!({"data": {"k": 5}})).await,
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
    );
    undecodable(
        &server.merge(&path, &json!({"data": [1]})).await,
        "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string",
    );
    let number = json!([{"op": "replace", "path": "/data/a", "value": 5}]);
    undecodable(
        &server.json_patch(&path, &number).await,
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
    );
}

// [F10] an absent object: 404, whatever the patch; a collection cannot be patched
async fn refuses_patches_of_nothing(server: Server) {
    let namespace = server.namespace().await;
    let details = json!({"name": "absent", "kind": "configmaps"});
    let path = namespace.at("configmaps/absent");
    server.merge(&path, &json!({"data": {}})).await.is(
        404,
        "NotFound",
        "configmaps \"absent\" not found",
        details.clone(),
    );
    server
        .json_patch(&path, &json!([]))
        .await
        .is(404, "NotFound", "configmaps \"absent\" not found", details);
    let status = server
        .merge(&namespace.at("pods/absent/status"), &json!({"status": {}}))
        .await;
    status.is(
        404,
        "NotFound",
        "pods \"absent\" not found",
        json!({"name": "absent", "kind": "pods"}),
    );
    let collection = server.merge(&namespace.at("configmaps"), &json!({})).await;
    collection.is(405, "MethodNotAllowed", super::texts::NOT_ALLOWED, json!({}));
}

// [F10] types that are no patch: 415; for custom resources strategic merge is one of them
async fn refuses_other_content_types(server: Server) {
    let (namespace, path) = one(&server).await;
    let body = r#"{"data":{"k":"1"}}"#;
    for kind in [
        "application/json",
        "text/plain",
        "application/garbage+json",
        "application/yaml",
        "",
    ] {
        let answer = server.request("PATCH", &path).body(kind, body).send().await;
        answer.is(415, "UnsupportedMediaType", "415: Unsupported Media Type", json!({}));
    }
    let answer = server
        .request("PATCH", &path)
        .body("application/merge-patch+json; charset=utf-8", body)
        .send()
        .await;
    assert_eq!(answer.ok()["data"]["k"], "1");
    let kind = CustomKind::register(&server, |_| {}).await;
    server
        .post(&kind.at(&namespace, ""), &kind.object("w", &json!({})))
        .await
        .created();
    for content_type in [
        "application/strategic-merge-patch+json",
        "text/plain",
        "application/json",
    ] {
        let answer = server
            .request("PATCH", &kind.at(&namespace, "/w"))
            .body(content_type, "{}")
            .send()
            .await;
        let text = "the body of the request was in an unknown format - accepted media types include: \
            application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
        answer.is(415, "UnsupportedMediaType", text, Value::Null);
    }
}

// [F10] custom resources take both patches, null members of lists stay
async fn custom_resources_are_patched(server: Server) {
    let namespace = server.namespace().await;
    let kind = CustomKind::register(&server, |_| {}).await;
    let path = kind.at(&namespace, "/w");
    server
        .post(
            &kind.at(&namespace, ""),
            &kind.object("w", &json!({"spec": {"x": 1, "list": [1, null]}})),
        )
        .await
        .created();
    let patched = server
        .merge(&path, &json!({"spec": {"x": null, "z": {"deep": true}}}))
        .await
        .ok();
    assert_eq!(patched["spec"], json!({"list": [1, null], "z": {"deep": true}}));
    let patch = json!([{"op": "add", "path": "/spec/list/1", "value": "s"}, {"op": "remove", "path": "/spec/z"}]);
    let patched = server.json_patch(&path, &patch).await.ok();
    assert_eq!(patched["spec"], json!({"list": [1, "s", null]}));
    assert_eq!(patched["metadata"]["generation"], 3);
    let details = json!({"name": "w", "group": kind.group, "kind": "widgets"});
    let text = format!(
        "Operation cannot be fulfilled on widgets.{} \"w\": {MODIFIED}",
        kind.group
    );
    let old = server
        .merge(&path, &json!({"metadata": {"resourceVersion": "1"}}))
        .await;
    old.is(409, "Conflict", &text, details);
}

// [F10] sixteen writers that patch one object without a version: no conflict, nothing lost
async fn parallel_patches_never_conflict(server: Server) {
    let (_, path) = one(&server).await;
    let writers = (0..16).map(|writer| {
        let (server, path) = (server.clone(), path.clone());
        async move {
            for step in 0..5 {
                let patch = json!({"data": {format!("w{writer}-{step}"): "x"}});
                server.merge(&path, &patch).await.ok();
            }
        }
    });
    futures_util::future::join_all(writers).await;
    assert_eq!(
        server.get(&path).await.ok()["data"].as_object().unwrap().len(),
        2 + 16 * 5
    );
}

// [F10] dry runs, and options that are none: 422 with kind PatchOptions
async fn patch_options_are_checked(server: Server) {
    let (_, path) = one(&server).await;
    let before = server.get(&path).await.ok();
    let patch = json!({"data": {"dry": "1"}});
    let dry = server.merge(&format!("{path}?dryRun=All"), &patch).await.ok();
    assert_eq!(dry["data"]["dry"], "1");
    assert_eq!(server.get(&path).await.ok(), before);
    let table = [
        (
            "dryRun=x",
            "FieldValueNotSupported",
            "dryRun",
            r#"Unsupported value: ["x"]: supported values: "All""#,
        ),
        (
            "force=true",
            "FieldValueForbidden",
            "force",
            "Forbidden: may not be specified for non-apply patch",
        ),
        (
            "fieldManager=%01",
            INVALID,
            "fieldManager",
            "Invalid value: \"\\x01\": invalid character U+0001 (at position 0)",
        ),
    ];
    for (query, reason, field, message) in table {
        let answer = server.merge(&format!("{path}?{query}"), &patch).await;
        answer.invalid("meta.k8s.io", "PatchOptions", "", &[(reason, field, message)]);
    }
}

cases![
    applies_json_patches,
    json_patches_work_on_lists_and_escaped_keys,
    refuses_json_patches_that_cannot_be_applied,
    refuses_bodies_that_are_no_json_patch,
    refuses_too_many_operations,
    applies_merge_patches,
    refuses_bodies_that_are_no_merge_patch,
    patches_follow_the_rules_of_updates,
    refuses_patches_of_nothing,
    refuses_other_content_types,
    custom_resources_are_patched,
    parallel_patches_never_conflict,
    patch_options_are_checked,
];
