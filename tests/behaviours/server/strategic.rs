//! Strategic merge patch. [F10]

use serde_json::{Value, json};

use super::texts::MODIFIED;
use crate::harness::{Answer, Namespace, Server, cases, version};

const STRATEGIC: &str = "application/strategic-merge-patch+json";

async fn patch(server: &Server, path: &str, patch: &Value) -> Answer {
    server.patch(STRATEGIC, path, patch).await
}

/// A namespace with the deployment `d`, and its path.
async fn deployment(server: &Server) -> (Namespace, String) {
    let namespace = server.namespace().await;
    let deployment = json!({
        "metadata": {"name": "d", "labels": {"app": "d"}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "d"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {"labels": {"app": "d"}},
                "spec": {
                    "containers": [
                        {
                            "name": "one", "image": "one:1", "args": ["a", "b"],
                            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                            "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 90}],
                        },
                        {"name": "two", "image": "two:1"},
                    ],
                    "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "c"}}],
                    "tolerations": [{"key": "t", "operator": "Exists"}],
                },
            },
        },
    });
    let path = namespace.of("apps/v1", "deployments");
    server.post(&path, &deployment).await.created();
    (namespace, format!("{path}/d"))
}

/// Of each item the members that are compared: those of the expected one, so that defaults do not count.
fn as_expected(found: &Value, expected: &Value) -> Value {
    match (found, expected) {
        (Value::Array(found), Value::Array(wanted)) => {
            let pairs = found.iter().enumerate();
            pairs
                .map(|(at, found)| {
                    wanted
                        .get(at)
                        .map_or_else(|| found.clone(), |wanted| as_expected(found, wanted))
                })
                .collect()
        }
        (Value::Object(found), Value::Object(wanted)) => {
            let members = wanted
                .keys()
                .filter_map(|key| Some((key.clone(), as_expected(found.get(key)?, &wanted[key]))));
            Value::Object(members.collect())
        }
        _ => found.clone(),
    }
}

// [F10] lists of a pod's template are merged by their keys, others are replaced; order and directives count
async fn merges_lists_by_their_keys(server: Server) {
    let (_, path) = deployment(&server).await;
    let table = [
        // an item is merged, another one is added before those that the patch does not name
        (
            json!({"containers": [{"name": "one", "image": "one:2"}, {"name": "three", "image": "three:1"}]}),
            "containers",
            json!([
                {"name": "one", "image": "one:2", "args": ["a", "b"]}, {"name": "three", "image": "three:1"},
                {"name": "two", "image": "two:1"},
            ]),
        ),
        (
            json!({"containers": [{"name": "three", "$patch": "delete"}]}),
            "containers",
            json!([{"name": "one"}, {"name": "two"}]),
        ),
        // lists in items: env by name, ports by number, args as a whole
        (
            json!({"containers": [{
                "name": "one", "args": ["c"], "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}],
                "ports": [{"containerPort": 90, "name": "admin"}, {"containerPort": 80, "$patch": "delete"}],
            }]}),
            "containers",
            json!([
                {
                    "name": "one", "args": ["c"], "ports": [{"containerPort": 90, "name": "admin"}],
                    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}, {"name": "C", "value": "4"}],
                },
                {"name": "two"},
            ]),
        ),
        (
            json!({"$setElementOrder/containers": [{"name": "two"}, {"name": "one"}], "containers": [{"name": "two", "image": "two:2"}]}),
            "containers",
            json!([{"name": "two", "image": "two:2"}, {"name": "one"}]),
        ),
        // a volume keeps what the patch says that it keeps: else it would have two sources
        (
            json!({"volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}]}),
            "volumes",
            json!([{"name": "v", "emptyDir": null, "secret": {"secretName": "s"}}, {"name": "w"}]),
        ),
        // a list without a key is replaced
        (
            json!({"tolerations": [{"key": "u", "operator": "Exists"}]}),
            "tolerations",
            json!([{"key": "u", "operator": "Exists"}]),
        ),
        (
            json!({"containers": [{"$patch": "replace"}, {"name": "only", "image": "only:1"}]}),
            "containers",
            json!([{"name": "only", "image": "only:1", "args": null}]),
        ),
    ];
    for (spec, field, expected) in table {
        let before = server.get(&path).await.ok();
        let body = json!({"spec": {"template": {"spec": spec}}});
        let patched = patch(&server, &path, &body).await.ok();
        let found = &patched["spec"]["template"]["spec"][field];
        let mut expected = expected;
        // What is expected to be absent is.
        without_nulls(&mut expected, found);
        assert_eq!(as_expected(found, &expected), expected, "{body}");
        assert!(version(&patched) > version(&before), "{body}");
        let again = patch(&server, &path, &json!({})).await.ok();
        assert_eq!(again, patched);
    }
}

/// Drops the expected nulls, which stand for absent members.
#[track_caller]
fn without_nulls(expected: &mut Value, found: &Value) {
    match expected {
        Value::Array(items) => {
            for (at, item) in items.iter_mut().enumerate() {
                without_nulls(item, &found[at]);
            }
        }
        Value::Object(members) => members.retain(|key, member| {
            if member.is_null() {
                assert_eq!(found.get(key), None, "{key} of {found}");
                return false;
            }
            without_nulls(member, &found[key]);
            true
        }),
        _ => {}
    }
}

// [F10] maps: null removes, `$patch` replaces or empties, `$retainKeys` says what stays
async fn merges_maps(server: Server) {
    let (namespace, path) = deployment(&server).await;
    let patched = patch(
        &server,
        &path,
        &json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
    )
    .await
    .ok();
    assert_eq!(patched["spec"]["strategy"], json!({"type": "Recreate"}));
    assert_eq!(patched["metadata"]["generation"], 2);
    namespace
        .create(
            "configmaps",
            &json!({"metadata": {"name": "a", "labels": {"a": "1"}}, "data": {"a": "1", "b": "2"}}),
        )
        .await;
    let path = namespace.at("configmaps/a");
    let table = [
        (json!({"a": null, "c": "3"}), json!({"b": "2", "c": "3"})),
        (json!({"absent": null}), json!({"b": "2", "c": "3"})),
        (json!({"$patch": "replace", "d": "4"}), json!({"d": "4"})),
        (json!({"$retainKeys": ["e"], "e": "5"}), json!({"e": "5"})),
        (json!({"$patch": "delete"}), Value::Null),
        (json!({"f": "6"}), json!({"f": "6"})),
        (Value::Null, Value::Null),
    ];
    for (data, expected) in table {
        let patched = patch(&server, &path, &json!({"data": data})).await.ok();
        assert_eq!(patched["data"], expected, "{data}");
        assert_eq!(patched["metadata"]["labels"], json!({"a": "1"}));
    }
}

// [F10] lists of texts: merged as sets, items go by a list of their own
async fn merges_lists_of_texts(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    let object = json!({"metadata": {"name": "a", "finalizers": ["x.io/a", "x.io/b"]}});
    namespace.create("configmaps", &object).await;
    let table = [
        (
            json!({"finalizers": ["x.io/b", "x.io/c"]}),
            json!(["x.io/a", "x.io/b", "x.io/c"]),
        ),
        (
            json!({"$deleteFromPrimitiveList/finalizers": ["x.io/a", "x.io/absent"]}),
            json!(["x.io/b", "x.io/c"]),
        ),
        (
            json!({"$setElementOrder/finalizers": ["x.io/d", "x.io/c", "x.io/b"], "finalizers": ["x.io/d"]}),
            json!(["x.io/d", "x.io/c", "x.io/b"]),
        ),
        (json!({"finalizers": null}), Value::Null),
    ];
    for (metadata, expected) in table {
        let patched = patch(&server, &path, &json!({"metadata": metadata})).await.ok();
        assert_eq!(patched["metadata"]["finalizers"], expected, "{metadata}");
    }
}

// [F10] directives that mean nothing, items without their key: 500 without reason, or 400
async fn refuses_patches_that_make_no_sense(server: Server) {
    let (_, path) = deployment(&server).await;
    let before = server.get(&path).await.ok();
    let table = [
        (
            500,
            json!({"spec": {"$patch": "bogus"}}),
            "unknown patch type: bogus in map: map[$patch:bogus]",
        ),
        (
            500,
            json!({"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}}),
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            500,
            json!({"spec": {"template": {"spec": {"containers": [{"name": "x", "$patch": "merge"}]}}}}),
            "merging lists cannot yet be specified in the patch",
        ),
        (
            500,
            json!({"spec": {"template": {"spec": {"containers": ["x"]}}}}),
            "list element types are not identical: …",
        ),
        (
            500,
            json!({"spec": {"$setElementOrder/nope": []}}),
            "unable to find api field in struct DeploymentSpec for the json field \"nope\"",
        ),
        (
            400,
            json!({"spec": {"$setElementOrder": []}}),
            "invalid patch format of setElementOrder list",
        ),
        (
            400,
            json!({"spec": {"$deleteFromPrimitiveList": []}}),
            "invalid patch format of primitive list",
        ),
        (
            400,
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}}),
            "invalid patch format of retainKeys",
        ),
        (
            400,
            json!([]),
            "json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
    ];
    for (code, body, text) in table {
        let reason = if code == 400 { "BadRequest" } else { "" };
        patch(&server, &path, &body).await.is(code, reason, text, Value::Null);
    }
    assert_eq!(server.get(&path).await.ok(), before);
}

// [F10] what the patch makes must be of the kind: 422 that shows the patch; its version and kind do not count
async fn refuses_results_of_wrong_types(server: Server) {
    let (_, path) = deployment(&server).await;
    let before = server.get(&path).await.ok();
    let table = [
        (
            json!({"spec": {"replicas": "x"}}),
            "map[spec:map[replicas:x]]",
            "unrecognized type: int32",
        ),
        (
            json!({"spec": {"replicas": 1.5}}),
            "map[spec:map[replicas:1.5]]",
            "cannot convert float64 to int32",
        ),
        (json!({"spec": 5}), "map[spec:5]", "cannot restore struct from: int64"),
        (
            json!({"metadata": {"labels": {"a": 5, "b": null}}}),
            "map[metadata:map[labels:map[a:5 b:<nil>]]]",
            "cannot convert int64 to string",
        ),
        (
            json!({"spec": {"template": {"spec": {"containers": {}}}}}),
            "map[spec:map[template:map[spec:map[containers:map[]]]]]",
            "cannot restore slice from map",
        ),
    ];
    for (body, shown, text) in table {
        let message = format!("Invalid value: \"{shown}\": {text}");
        let answer = patch(&server, &path, &body).await;
        answer.is(
            422,
            "Invalid",
            &format!(" \"\" is invalid: patch: {message}"),
            json!({"causes": [{"reason": "FieldValueInvalid", "message": message, "field": "patch"}]}),
        );
    }
    let other = patch(&server, &path, &json!({"kind": "Pod", "apiVersion": "v7"})).await;
    assert_eq!(other.ok(), before);
}

// [F14] unknown and duplicate fields: 422 if strict, else a warning, or nothing
async fn validates_fields(server: Server) {
    let (_, path) = deployment(&server).await;
    let body = r#"{"spec":{"nope":{"a":null},"template":{"spec":{"containers":[{"name":"one","x":1}]}}},"spec":{"b":1,"a":1}}"#;
    let send = async |validation: &str| {
        let path = format!("{path}?fieldValidation={validation}&dryRun=All");
        server.request("PATCH", &path).body(STRATEGIC, body).send().await
    };
    let strict = send("Strict").await;
    let message = "Invalid value: \"map[spec:map[a:1 b:1]]\": strict decoding error: duplicate field \"spec\", unknown field \
                   \"spec.a\", unknown field \"spec.b\"";
    strict.is(
        422,
        "Invalid",
        &format!(" \"\" is invalid: patch: {message}"),
        json!({"causes": [{"reason": "FieldValueInvalid", "message": message, "field": "patch"}]}),
    );
    for (validation, warnings) in [("", 3), ("Warn", 3), ("Ignore", 0)] {
        let answer = send(validation).await;
        assert_eq!(
            answer.headers.get_all("warning").iter().count(),
            warnings,
            "{validation}"
        );
        answer.ok();
    }
}

// [F10] as for other patches: a version is a precondition, a dry run stores nothing, what changes nothing keeps the version
async fn follows_the_rules_of_updates(server: Server) {
    let (_, path) = deployment(&server).await;
    let before = server.get(&path).await.ok();
    let text = format!("Operation cannot be fulfilled on deployments.apps \"d\": {MODIFIED}");
    let details = json!({"name": "d", "group": "apps", "kind": "deployments"});
    let old = patch(&server, &path, &json!({"metadata": {"resourceVersion": "1"}})).await;
    old.is(409, "Conflict", &text, details);
    let same = json!({
        "metadata": {"labels": {"app": "d"}},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "two", "image": "two:1"}]}}},
    });
    assert_eq!(patch(&server, &path, &same).await.ok(), before);
    let dry = patch(
        &server,
        &format!("{path}?dryRun=All"),
        &json!({"spec": {"replicas": 5}}),
    )
    .await;
    assert_eq!(dry.ok()["spec"]["replicas"], 5);
    assert_eq!(server.get(&path).await.ok(), before);
    let owned = patch(
        &server,
        &format!("{path}?fieldManager=m"),
        &json!({"spec": {"template": {"spec": {"containers": [{"name": "two", "image": "two:2"}]}}}}),
    )
    .await
    .ok();
    let managers = owned["metadata"]["managedFields"].as_array().unwrap();
    let manager = managers.iter().find(|entry| entry["manager"] == "m").unwrap();
    let image = json!({"f:containers": {"k:{\"name\":\"two\"}": {"f:image": {}}}});
    assert_eq!(
        manager["fieldsV1"],
        json!({"f:spec": {"f:template": {"f:spec": image}}})
    );
    let details = json!({"name": "absent", "group": "apps", "kind": "deployments"});
    let absent = path.replace("/deployments/d", "/deployments/absent");
    patch(&server, &absent, &json!({"spec": 5})).await.is(
        404,
        "NotFound",
        "deployments.apps \"absent\" not found",
        details,
    );
}

// [F10] a status is patched by its conditions' types
async fn patches_statuses(server: Server) {
    let (_, path) = deployment(&server).await;
    let path = format!("{path}/status");
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "reason": "r", "message": "m",
            "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    for (conditions, expected) in [
        (
            json!([condition("Available", "True")]),
            json!([condition("Available", "True")]),
        ),
        (
            json!([condition("Progressing", "True")]),
            json!([condition("Progressing", "True"), condition("Available", "True")]),
        ),
        (
            json!([{"type": "Available", "status": "False"}]),
            json!([condition("Progressing", "True"), condition("Available", "False")]),
        ),
        (
            json!([{"type": "Available", "$patch": "delete"}]),
            json!([condition("Progressing", "True")]),
        ),
    ] {
        let patched = patch(&server, &path, &json!({"status": {"conditions": conditions}}))
            .await
            .ok();
        assert_eq!(patched["status"]["conditions"], expected, "{conditions}");
    }
}

// [F10] sixteen writers that add to one list: no conflict, nothing lost
async fn parallel_patches_never_conflict(server: Server) {
    let namespace = server.namespace().await;
    namespace.config_map("a").await;
    let path = namespace.at("configmaps/a");
    let writers = (0..16).map(|writer| {
        let (server, path) = (server.clone(), path.clone());
        async move {
            for step in 0..5 {
                let body = json!({"metadata": {"finalizers": [format!("x.io/w{writer}-{step}")]}});
                patch(&server, &path, &body).await.ok();
            }
        }
    });
    futures_util::future::join_all(writers).await;
    let stored = server.get(&path).await.ok();
    assert_eq!(stored["metadata"]["finalizers"].as_array().unwrap().len(), 16 * 5);
    patch(&server, &path, &json!({"metadata": {"finalizers": null}}))
        .await
        .ok();
}

cases![
    merges_lists_by_their_keys,
    merges_maps,
    merges_lists_of_texts,
    refuses_patches_that_make_no_sense,
    refuses_results_of_wrong_types,
    validates_fields,
    follows_the_rules_of_updates,
    patches_statuses,
    parallel_patches_never_conflict,
];
