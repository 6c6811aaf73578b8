//! What the random comparison (`differential`) found about single kinds and the order of refusals, each kind of it once.

use serde_json::{Value, json};

use super::list_version::FUTURE;
use crate::harness::{Server, cases, unique};

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

// [F9] [F26] a daemon set counts the changes of its template where old versions look for them
async fn daemon_sets_count_their_templates(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.of("apps/v1", "daemonsets");
    let set = json!({
        "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template("i")},
    });
    let count = |object: &Value| object["metadata"]["annotations"]["deprecated.daemonset.template.generation"].clone();
    assert_eq!(count(&server.post(&path, &set).await.created()), "1");
    let item = format!("{path}/a");
    for (patch, counted) in [
        (json!({"metadata": {"annotations": null}}), "1"),
        (json!({"spec": {"minReadySeconds": 1}}), "1"),
        (json!({"spec": {"template": template("j")}}), "2"),
    ] {
        assert_eq!(count(&server.merge(&item, &patch).await.ok()), counted, "{patch}");
    }
}

// [F18] [F26] events of both groups are one kind, which has no group where the kind is named
async fn events_are_one_kind(server: Server) {
    let namespace = server.namespace().await;
    let event = json!({
        "metadata": {"name": "a", "labels": {"a": "-"}}, "reason": "r", "type": "Normal", "action": "a",
        "eventTime": "2024-01-01T00:00:00.000000Z", "reportingController": "x.io/y", "reportingInstance": "i",
        "regarding": {"kind": "Pod", "namespace": namespace.name(), "name": "p"},
    });
    let refused = server.post(&namespace.of("events.k8s.io/v1", "events"), &event).await;
    let body = refused.json();
    assert_eq!(
        (refused.code, &body["details"]["kind"], &body["details"]["group"]),
        (422, &json!("Event"), &Value::Null)
    );
    assert!(
        body["message"]
            .as_str()
            .is_some_and(|text| text.starts_with("Event \"a\" is invalid: "))
    );
}

// [F1] the status is read at a version, as the object is
async fn versions_of_a_status_are_checked(server: Server) {
    let namespace = server.namespace().await;
    let text = "resourceVersion: Invalid value: \"+1\": strconv.ParseUint: parsing \"+1\": invalid syntax";
    server
        .get(&namespace.of("apps/v1", "deployments/a/status?resourceVersion=%2B1"))
        .await
        .is(500, "", text, Value::Null);
}

// [F9] a write of the status writes all metadata that is not held back: of pods, the owners are
async fn writes_of_a_status_write_metadata(server: Server) {
    let namespace = server.namespace().await;
    let claim = json!({
        "metadata": {"name": "a"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    namespace.create("persistentvolumeclaims", &claim).await;
    let pod = json!({"metadata": {"name": "a"}, "spec": template("i")["spec"]});
    namespace.create("pods", &pod).await;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"});
    let patch = json!({"metadata": {"generateName": "g-", "ownerReferences": [owner]}});
    for (resource, owners) in [("persistentvolumeclaims", json!([owner])), ("pods", Value::Null)] {
        let patched = server
            .merge(&namespace.at(&format!("{resource}/a/status")), &patch)
            .await
            .ok();
        let metadata = &patched["metadata"];
        assert_eq!(
            (&metadata["generateName"], &metadata["ownerReferences"]),
            (&json!("g-"), &owners)
        );
    }
}

// [F8] [F18] a time is read by a parser of its own, so that the first thing wrong with one is what is told
async fn times_of_a_wrong_type_come_first(server: Server) {
    let namespace = server.namespace().await;
    let body = json!({"metadata": {"creationTimestamp": -1, "deletionTimestamp": ""}});
    server.post(&namespace.at("configmaps"), &body).await.is(
        400,
        "BadRequest",
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal …",
        Value::Null,
    );
}

// [F8] bytes may come as a list of numbers
async fn bytes_may_be_numbers(server: Server) {
    let namespace = server.namespace().await;
    let create = async |value: Value| {
        let object = json!({"metadata": {"name": unique()}, "binaryData": {"k": value}});
        server.post(&namespace.at("configmaps"), &object).await
    };
    for (sent, stored) in [(json!([]), ""), (json!([118, null]), "dgA=")] {
        assert_eq!(create(sent).await.created()["binaryData"]["k"], stored);
    }
    for wrong in [json!([256]), json!(["x"]), json!(5)] {
        assert_eq!(create(wrong.clone()).await.code, 400, "{wrong}");
    }
}

// [F8] of some kinds the name is looked at that is made, not what it is made of
async fn prefixes_of_some_kinds_are_not_checked(server: Server) {
    let namespace = server.namespace().await;
    let controllers = namespace.at("replicationcontrollers?dryRun=All");
    let classes = "/apis/resource.k8s.io/v1/deviceclasses?dryRun=All".to_owned();
    let spec = json!({"selector": {"a": "b"}, "template": template("i")});
    for (path, spec) in [(controllers, spec), (classes, json!({}))] {
        let create = async |metadata: Value| server.post(&path, &json!({"metadata": metadata, "spec": spec})).await;
        create(json!({"name": "a", "generateName": "Bad-"})).await.created();
        let refused = create(json!({"name": "a", "generateName": "a/"})).await;
        let cause = &refused.json()["details"]["causes"][0];
        assert_eq!(
            (refused.code, &cause["field"], &cause["message"]),
            (
                422,
                &json!("metadata.generateName"),
                &json!("Invalid value: \"a/\": may not contain '/'")
            )
        );
        let causes = create(json!({"generateName": "Bad-"})).await.json()["details"]["causes"].clone();
        assert_eq!(causes.as_array().map(Vec::len), Some(1), "{causes}");
        assert_eq!(causes[0]["field"], "metadata.name");
    }
}

// [F9] [F14] a self link is dropped on the way to the store, which a dry run does not take
async fn dry_runs_show_self_links(server: Server) {
    let namespace = server.namespace().await;
    namespace.config_map("a").await;
    let patch = json!({"metadata": {"selfLink": "/x"}});
    let path = namespace.at("configmaps/a");
    let dry = server.merge(&format!("{path}?dryRun=All"), &patch).await.ok();
    assert_eq!(dry["metadata"]["selfLink"], "/x");
    assert_eq!(
        server.merge(&path, &patch).await.ok()["metadata"]["selfLink"],
        Value::Null
    );
}

// [F12] [F18] what may stand in the place of the options of a delete, as far as it is known there
async fn other_kinds_are_no_options(server: Server) {
    let namespace = server.namespace().await;
    let delete = async |options: Value| server.delete_with(&namespace.at("configmaps/absent"), &options).await;
    for (version, kind, known) in [
        ("", "WatchEvent", true),
        ("meta.k8s.io/v1", "PatchOptions", true),
        ("v1", "PatchOptions", false),
        ("v1", "CreateOptions", true),
        ("v7", "Status", true),
        ("v1", "Pod", false),
    ] {
        let text = if known {
            format!("converting (v1.{kind}) to (v1.DeleteOptions): unknown conversion")
        } else {
            format!("no kind \"{kind}\" is registered for version \"{version}\" in scheme…")
        };
        delete(json!({"apiVersion": version, "kind": kind}))
            .await
            .is(400, "BadRequest", &text, Value::Null);
    }
    delete(json!({"kind": "Status", "status": 5}))
        .await
        .is(400, "BadRequest", "json: cannot unmarshal …", Value::Null);
}

// [F12] [F15] a namespace is told what becomes of its dependents when its deletion begins, and not again
async fn namespaces_begin_their_deletion_once(server: Server) {
    let delete = async |first: &str, second: &str| {
        let name = unique();
        let created = server
            .post("/api/v1/namespaces", &json!({"metadata": {"name": name}}))
            .await;
        created.created();
        let path = format!("/api/v1/namespaces/{name}");
        server.delete(&format!("{path}{first}")).await;
        server.delete(&format!("{path}{second}")).await;
        server.get(&path).await.ok()["metadata"]["finalizers"].clone()
    };
    assert_eq!(delete("", "?propagationPolicy=Orphan").await, Value::Null);
    assert_eq!(delete("?propagationPolicy=Orphan", "").await, json!(["orphan"]));
    assert_eq!(
        delete("?orphanDependents=false", "").await,
        json!(["foregroundDeletion"])
    );
}

// [F12] [F15] the first delete of a namespace begins its deletion, also if no finalizer keeps it; the second ends it
async fn finalized_namespaces_are_deleted_twice(server: Server) {
    let name = unique();
    let object = json!({"metadata": {"name": name}});
    server.post("/api/v1/namespaces", &object).await.created();
    let path = format!("/api/v1/namespaces/{name}");
    let finalized = server.put(&format!("{path}/finalize"), &object).await.ok();
    assert_eq!(finalized["spec"], json!({}));
    let begun = server.delete(&path).await.ok();
    assert_eq!(begun["status"]["phase"], "Terminating");
    assert!(begun["metadata"]["deletionTimestamp"].is_string(), "{begun}");
    assert_eq!(server.get(&path).await.ok()["status"]["phase"], "Terminating");
    server.delete(&path).await.ok();
    assert_eq!(server.get(&path).await.code, 404);
}

// [F4] [F18] there are no tables of the status of some kinds, nor of the finalizers of a namespace
async fn some_subresources_have_no_tables(server: Server) {
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let send = async |method: &str, path: &str, accept: &str| {
        let request = server.request(method, path).header("accept", accept);
        request.body("application/json", "{}").send().await
    };
    let text = "only the following media types are accepted: application/json, application/yaml, \
                application/vnd.kubernetes.protobuf";
    for collection in [
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/apiregistration.k8s.io/v1/apiservices",
        "/apis/resource.k8s.io/v1/devicetaintrules",
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
    ] {
        let path = format!("{collection}/no.nope");
        let status = format!("{path}/status");
        for method in ["GET", "PUT"] {
            let refused = send(method, &status, table).await;
            refused.is(406, "NotAcceptable", text, Value::Null);
        }
        // The next form is taken; other forms, and tables of the object, are there.
        for (path, accept) in [
            (&status, format!("{table},application/json")),
            (
                &status,
                "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io".to_owned(),
            ),
            (&path, table.to_owned()),
        ] {
            assert_eq!(send("GET", path, &accept).await.code, 404, "{path}: {accept}");
        }
    }
    for status in [
        "/api/v1/namespaces/nope/status",
        "/apis/apps/v1/namespaces/default/deployments/nope/status",
    ] {
        assert_eq!(send("GET", status, table).await.code, 404, "{status}");
    }
    let finalize = send("PUT", "/api/v1/namespaces/nope/finalize", table).await;
    finalize.is(406, "NotAcceptable", text, Value::Null);
}

// [F1] [F18] events are read from the store, which names no time for the next attempt at a version that is yet to come
async fn future_events_name_no_time(server: Server) {
    let namespace = server.namespace().await;
    let details = json!({"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]});
    for path in [
        namespace.at("events"),
        namespace.of("events.k8s.io/v1", "events"),
        namespace.at("events/a"),
    ] {
        for version in [FUTURE, u64::MAX] {
            let answer = server.get(&format!("{path}?resourceVersion={version}")).await;
            let text = format!("Timeout: Too large resource version: {version}, current: …");
            answer.is(504, "Timeout", &text, details.clone());
            assert_eq!(answer.header("retry-after"), "");
        }
    }
}

// [F4] a list of metadata without objects has no items
async fn empty_lists_of_metadata_have_no_items(server: Server) {
    let namespace = server.namespace().await;
    let list = server.request("GET", &namespace.at("secrets")).header(
        "accept",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    );
    let list = list.send().await.ok();
    assert_eq!(
        (&list["kind"], &list["items"]),
        (&json!("PartialObjectMetadataList"), &Value::Null)
    );
    assert!(list.as_object().unwrap().contains_key("items"));
}

// [F2] a token goes with no version, whatever that is
async fn tokens_go_with_no_version(server: Server) {
    let namespace = server.namespace().await;
    let token = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYSJ9";
    for version in ["abc", "00", "5"] {
        let path = namespace.at(&format!("configmaps?continue={token}&resourceVersion={version}"));
        let text = "specifying resource version is not allowed when using continue";
        server.get(&path).await.is(400, "BadRequest", text, Value::Null);
    }
}

// [F10] [F18] the type of a patch is looked at before the form of the answer
async fn types_of_patches_come_first(server: Server) {
    let namespace = server.namespace().await;
    for accept in [
        "text/html",
        "application/*",
        "application/json;as=Nope;v=v1;g=meta.k8s.io",
    ] {
        let request = server
            .request("PATCH", &namespace.at("configmaps/a"))
            .header("accept", accept);
        let answer = request.body("text/plain", "{}").send().await;
        answer.is(415, "UnsupportedMediaType", "415: Unsupported Media Type", json!({}));
    }
}

// [F10] [F14] without field validation, a patch is not looked at before it is applied
async fn ignored_patches_are_refused_later(server: Server) {
    let namespace = server.namespace().await;
    namespace.config_map("a").await;
    let send = async |form: &str, patch: &str| {
        let path = namespace.at("configmaps/a?fieldValidation=Ignore");
        let request = server.request("PATCH", &path);
        request
            .body(&format!("application/{form}-patch+json"), patch)
            .send()
            .await
    };
    let unfit = "the server rejected our request due to an error in our request";
    for patch in [r#"[{"path":[]}]"#, r#"[{"op":5}]"#, "[null]"] {
        send("json", patch).await.is(422, "Invalid", unfit, json!({}));
    }
    for (patch, text) in [
        (
            "{}",
            "json: cannot unmarshal object into Go value of type jsonpatch.Patch",
        ),
        (
            "[5]",
            "json: cannot unmarshal number into Go value of type jsonpatch.Operation",
        ),
    ] {
        send("json", patch).await.is(400, "BadRequest", text, Value::Null);
    }
    for patch in ["5", "null", "\"x\""] {
        send("merge", patch)
            .await
            .is(400, "BadRequest", "Invalid JSON Patch", Value::Null);
    }
    let refused = send("merge", "[1]").await;
    let message = refused.json()["details"]["causes"][0]["message"].clone();
    let text = "Invalid value: \"[1]\": couldn't get version/kind; json parse error: json: cannot unmarshal array";
    assert!(
        refused.code == 422 && message.as_str().is_some_and(|message| message.starts_with(text)),
        "{refused}"
    );
    send("merge", r#"{"nope":1e400}"#).await.ok();
}

cases![
    daemon_sets_count_their_templates,
    events_are_one_kind,
    versions_of_a_status_are_checked,
    writes_of_a_status_write_metadata,
    times_of_a_wrong_type_come_first,
    bytes_may_be_numbers,
    prefixes_of_some_kinds_are_not_checked,
    dry_runs_show_self_links,
    other_kinds_are_no_options,
    namespaces_begin_their_deletion_once,
    finalized_namespaces_are_deleted_twice,
    some_subresources_have_no_tables,
    future_events_name_no_time,
    empty_lists_of_metadata_have_no_items,
    tokens_go_with_no_version,
    types_of_patches_come_first,
    ignored_patches_are_refused_later,
];
