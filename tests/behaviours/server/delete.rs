//! Deleting objects and collections. [F12]

use serde_json::{Value, json};

use super::list_version::names;
use super::texts::{NOT_ALLOWED, UNKNOWN_FORMAT};
use crate::harness::{CustomKind, Namespace, Server, cases, version};

const UNSUPPORTED: &str = "FieldValueNotSupported";

async fn config_map(namespace: &Namespace, name: &str, finalizers: &[&str]) -> Value {
    namespace
        .create(
            "configmaps",
            &json!({"metadata": {"name": name, "finalizers": finalizers}}),
        )
        .await
}

async fn pod(namespace: &Namespace, name: &str, spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": spec});
    pod["spec"]["containers"] = json!([{"name": "c", "image": "i"}]);
    namespace.create("pods", &pod).await
}

// [F12] the answer is a Status with the uid for most kinds, the object for twenty of them
async fn answers_with_a_status_or_the_object(server: Server) {
    let namespace = server.namespace().await;
    let created = namespace.config_map("a").await;
    let uid = &created["metadata"]["uid"];
    let status = |details: Value| json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
    let deleted = server.delete(&namespace.at("configmaps/a")).await.ok();
    assert_eq!(deleted, status(json!({"name": "a", "kind": "configmaps", "uid": uid})));
    let details = json!({"name": "a", "kind": "configmaps"});
    for path in ["configmaps/a", "configmaps/a?dryRun=All"] {
        let again = server.delete(&namespace.at(path)).await;
        again.is(404, "NotFound", "configmaps \"a\" not found", details.clone());
    }
    server
        .get(&namespace.at("configmaps/a"))
        .await
        .is(404, "NotFound", "configmaps \"a\" not found", details);
    let leases = namespace.of("coordination.k8s.io/v1", "leases");
    let lease = server
        .post(&leases, &json!({"metadata": {"name": "l"}}))
        .await
        .created();
    let details =
        json!({"name": "l", "group": "coordination.k8s.io", "kind": "leases", "uid": lease["metadata"]["uid"]});
    assert_eq!(server.delete(&format!("{leases}/l")).await.ok(), status(details));
    for (resource, object) in [
        (
            "services",
            json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}),
        ),
        ("serviceaccounts", json!({"metadata": {"name": "s"}})),
    ] {
        let created = namespace.create(resource, &object).await;
        let deleted = server.delete(&namespace.at(&format!("{resource}/s"))).await.ok();
        assert_eq!(deleted["kind"], created["kind"]);
        assert_eq!(deleted["metadata"]["uid"], created["metadata"]["uid"]);
        assert!(deleted["metadata"].get("deletionTimestamp").is_none(), "{deleted}");
        assert_eq!(server.get(&namespace.at(&format!("{resource}/s"))).await.code, 404);
    }
    let kind = CustomKind::register(&server, |_| {}).await;
    let created = server
        .post(&kind.at(&namespace, ""), &kind.object("w", &json!({})))
        .await
        .created();
    let details = json!({"name": "w", "group": kind.group, "kind": "widgets", "uid": created["metadata"]["uid"]});
    assert_eq!(server.delete(&kind.at(&namespace, "/w")).await.ok(), status(details));
}

// [F12] finalizers keep the object, marked; the last one's removal deletes it
async fn finalizers_keep_the_object(server: Server) {
    let namespace = server.namespace().await;
    let created = config_map(&namespace, "a", &["x.io/f", "x.io/g"]).await;
    let path = namespace.at("configmaps/a");
    let deleted = server.delete(&path).await.ok();
    assert_eq!(deleted["kind"], "ConfigMap");
    assert!(deleted["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(deleted["metadata"]["deletionGracePeriodSeconds"], 0);
    assert!(version(&deleted) > version(&created));
    assert_eq!(server.get(&path).await.ok(), deleted);
    for options in [json!({}), json!({"gracePeriodSeconds": 0})] {
        assert_eq!(
            server.delete_with(&path, &options).await.ok(),
            deleted,
            "a second delete changes nothing"
        );
    }
    let fewer = server
        .merge(&path, &json!({"metadata": {"finalizers": ["x.io/g"]}}))
        .await
        .ok();
    assert_eq!(fewer["metadata"]["finalizers"], json!(["x.io/g"]));
    let more = server
        .merge(&path, &json!({"metadata": {"finalizers": ["x.io/g", "x.io/new"]}}))
        .await;
    assert_eq!(more.code, 422, "{more}");
    let cause = more.json()["details"]["causes"][0].clone();
    assert_eq!(cause["field"], "metadata.finalizers");
    let text = "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"x.io/new\"}";
    assert_eq!(cause["message"], text);
    let labelled = server
        .merge(&path, &json!({"metadata": {"labels": {"l": "1"}}}))
        .await
        .ok();
    assert_eq!(labelled["metadata"]["labels"], json!({"l": "1"}));
    let cleared = server
        .merge(&path, &json!({"metadata": {"deletionTimestamp": null}}))
        .await
        .ok();
    assert_eq!(
        cleared["metadata"]["deletionTimestamp"],
        deleted["metadata"]["deletionTimestamp"]
    );
    let last = server
        .merge(&path, &json!({"metadata": {"finalizers": null}}))
        .await
        .ok();
    assert_eq!(last["metadata"]["uid"], created["metadata"]["uid"]);
    assert_eq!(server.get(&path).await.code, 404);
    // The same by PUT.
    config_map(&namespace, "b", &["x.io/f"]).await;
    let mut marked = server.delete(&namespace.at("configmaps/b")).await.ok();
    marked["metadata"]["finalizers"] = json!([]);
    server.put(&namespace.at("configmaps/b"), &marked).await.ok();
    assert_eq!(server.get(&namespace.at("configmaps/b")).await.code, 404);
}

// [F12] a managed generation rises with the deletion timestamp
async fn a_deletion_raises_the_generation(server: Server) {
    let namespace = server.namespace().await;
    let deployments = namespace.of("apps/v1", "deployments");
    let object = json!({"metadata": {"name": "d", "finalizers": ["x.io/f"]}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }});
    server.post(&deployments, &object).await.created();
    assert_eq!(
        server.delete(&format!("{deployments}/d")).await.ok()["metadata"]["generation"],
        2
    );
    config_map(&namespace, "a", &["x.io/f"]).await;
    assert!(
        server.delete(&namespace.at("configmaps/a")).await.ok()["metadata"]
            .get("generation")
            .is_none()
    );
}

// [F12] uid and version preconditions: 409 names the Kind
async fn preconditions_protect_the_object(server: Server) {
    let namespace = server.namespace().await;
    let created = namespace.config_map("a").await;
    let path = namespace.at("configmaps/a");
    let uid = created["metadata"]["uid"].as_str().unwrap();
    let newest = created["metadata"]["resourceVersion"].as_str().unwrap();
    let about_uid = format!(
        "the UID in the precondition (zzz) does not match the UID in record ({uid}). The object might have been deleted and \
         then recreated"
    );
    let about_version = |given: &str| {
        format!(
            "the ResourceVersion in the precondition ({given}) does not match the ResourceVersion in record ({newest}). The \
             object might have been modified"
        )
    };
    let table = [
        (json!({"uid": "zzz"}), about_uid.clone()),
        (json!({"resourceVersion": "1"}), about_version("1")),
        (json!({"resourceVersion": "abc"}), about_version("abc")),
        (json!({"uid": "zzz", "resourceVersion": "1"}), about_uid),
        (json!({"uid": uid, "resourceVersion": "1"}), about_version("1")),
    ];
    for (preconditions, problem) in table {
        let answer = server
            .delete_with(&path, &json!({"preconditions": preconditions}))
            .await;
        let text = format!("Operation cannot be fulfilled on ConfigMap \"a\": {problem}");
        answer.is(409, "Conflict", &text, json!({"name": "a", "kind": "ConfigMap"}));
    }
    let absent = server
        .delete_with(
            &namespace.at("configmaps/absent"),
            &json!({"preconditions": {"uid": "zzz"}}),
        )
        .await;
    absent.is(
        404,
        "NotFound",
        "configmaps \"absent\" not found",
        json!({"name": "absent", "kind": "configmaps"}),
    );
    server
        .delete_with(
            &path,
            &json!({"preconditions": {"uid": uid, "resourceVersion": newest}}),
        )
        .await
        .ok();
}

// [F12] propagation: foreground and orphan are finalizers, background is none; body and query
async fn propagation_is_a_finalizer(server: Server) {
    let namespace = server.namespace().await;
    // (body, query, code when it stays, finalizers that it adds)
    let table = [
        (
            json!({"propagationPolicy": "Foreground"}),
            "",
            200,
            Some("foregroundDeletion"),
        ),
        (json!({"propagationPolicy": "Orphan"}), "", 200, Some("orphan")),
        (json!({"propagationPolicy": "Background"}), "", 200, None),
        (json!({"orphanDependents": true}), "", 200, Some("orphan")),
        (json!({"orphanDependents": false}), "", 202, None),
        (
            Value::Null,
            "propagationPolicy=Foreground",
            200,
            Some("foregroundDeletion"),
        ),
        (Value::Null, "orphanDependents=true", 200, Some("orphan")),
        (json!({"gracePeriodSeconds": 7}), "", 200, None),
    ];
    for (number, (body, query, code, added)) in table.into_iter().enumerate() {
        let delete = async |name: &str| {
            let path = namespace.at(&format!("configmaps/{name}?{query}"));
            if body.is_null() {
                server.delete(&path).await
            } else {
                server.delete_with(&path, &body).await
            }
        };
        let (held, free) = (format!("held-{number}"), format!("free-{number}"));
        config_map(&namespace, &held, &["x.io/f"]).await;
        namespace.config_map(&free).await;
        let kept = delete(&held).await.expect(code);
        let expected: Vec<_> = ["x.io/f"].into_iter().chain(added).collect();
        assert_eq!(kept["metadata"]["finalizers"], json!(expected), "{body} {query}");
        assert_eq!(kept["metadata"]["deletionGracePeriodSeconds"], 0, "{body} {query}");
        let answer = delete(&free).await.ok();
        if let Some(added) = added {
            assert_eq!(answer["metadata"]["finalizers"], json!([added]), "{body} {query}");
        } else {
            assert_eq!(answer["status"], "Success", "{body} {query}");
        }
    }
    // A later policy replaces an earlier one.
    let path = namespace.at("configmaps/held-0");
    let background = server
        .delete_with(&path, &json!({"propagationPolicy": "Background"}))
        .await
        .ok();
    assert_eq!(background["metadata"]["finalizers"], json!(["x.io/f"]));
    let foreground = server
        .delete_with(&path, &json!({"propagationPolicy": "Foreground"}))
        .await
        .ok();
    assert_eq!(
        foreground["metadata"]["finalizers"],
        json!(["x.io/f", "foregroundDeletion"])
    );
}

// [F12] options that are none: 422 with kind DeleteOptions, 400 for bodies that cannot be read, 415
async fn refuses_bad_options(server: Server) {
    let namespace = server.namespace().await;
    namespace.config_map("a").await;
    let path = namespace.at("configmaps/a");
    let policy = (
        UNSUPPORTED,
        "propagationPolicy",
        r#"Unsupported value: "Foo": supported values: "Foreground", "Background", "Orphan", "nil""#,
    );
    let dry = (
        UNSUPPORTED,
        "dryRun",
        r#"Unsupported value: ["x"]: supported values: "All""#,
    );
    let both = (
        "FieldValueInvalid",
        "propagationPolicy",
        r#"Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set"#,
    );
    for (options, cause) in [
        (json!({"propagationPolicy": "Foo"}), policy),
        (json!({"dryRun": ["x"]}), dry),
        (json!({"propagationPolicy": "Orphan", "orphanDependents": true}), both),
    ] {
        server
            .delete_with(&path, &options)
            .await
            .invalid("meta.k8s.io", "DeleteOptions", "", &[cause]);
    }
    for (query, cause) in [("propagationPolicy=Foo", policy), ("dryRun=x", dry)] {
        server
            .delete(&format!("{path}?{query}"))
            .await
            .invalid("meta.k8s.io", "DeleteOptions", "", &[cause]);
    }
    for (options, text) in [
        (
            json!({"gracePeriodSeconds": "x"}),
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
        ),
        (
            json!({"preconditions": 5}),
            "json: cannot unmarshal number into Go struct field DeleteOptions.preconditions of type v1.Preconditions",
        ),
        (
            json!({"kind": "Pod", "apiVersion": "v1"}),
            "no kind \"Pod\" is registered for version \"v1\" in scheme …",
        ),
    ] {
        server
            .delete_with(&path, &options)
            .await
            .is(400, "BadRequest", text, Value::Null);
    }
    let broken = server
        .request("DELETE", &path)
        .body("application/json", "{")
        .send()
        .await;
    broken.is(
        400,
        "BadRequest",
        "couldn't get version/kind; json parse error: unexpected end of JSON input",
        Value::Null,
    );
    let query = server.delete(&format!("{path}?gracePeriodSeconds=x")).await;
    query.is(
        400,
        "BadRequest",
        "strconv.ParseInt: parsing \"x\": invalid syntax",
        Value::Null,
    );
    let text = server.request("DELETE", &path).body("text/plain", "x").send().await;
    text.is(415, "UnsupportedMediaType", UNKNOWN_FORMAT, Value::Null);
    assert_eq!(server.get(&path).await.code, 200, "nothing of all that deleted it");
}

// [F12] dry runs, by body (of several versions) and by query
async fn a_dry_run_deletes_nothing(server: Server) {
    let namespace = server.namespace().await;
    let created = namespace.config_map("a").await;
    let path = namespace.at("configmaps/a");
    for options in [
        json!({"dryRun": ["All"]}),
        json!({"kind": "DeleteOptions", "dryRun": ["All"]}),
        json!({"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}),
        json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"]}),
        json!({"kind": "DeleteOptions", "apiVersion": "apps/v1", "dryRun": ["All"]}),
        json!({"unknown": 1, "dryRun": ["All"]}),
    ] {
        let answer = server.delete_with(&path, &options).await.ok();
        assert_eq!(
            (&answer["kind"], &answer["status"]),
            (&json!("Status"), &json!("Success")),
            "{options}"
        );
    }
    server
        .delete(&format!("{path}?dryRun=All&gracePeriodSeconds=-5"))
        .await
        .ok();
    server
        .request("DELETE", &path)
        .body("application/yaml", "dryRun: [All]\n")
        .send()
        .await
        .ok();
    assert_eq!(server.get(&path).await.ok(), created);
}

// [F12] pods: an unscheduled one goes at once, a scheduled one has its grace period, which can only be shortened
async fn scheduled_pods_have_a_grace_period(server: Server) {
    let namespace = server.namespace().await;
    let seconds = |pod: &Value| pod["metadata"]["deletionGracePeriodSeconds"].as_i64();
    pod(&namespace, "unscheduled", json!({})).await;
    let deleted = server.delete(&namespace.at("pods/unscheduled")).await.ok();
    assert_eq!((deleted["kind"].as_str(), seconds(&deleted)), (Some("Pod"), Some(0)));
    assert_eq!(deleted["metadata"]["generation"], 2);
    assert_eq!(server.get(&namespace.at("pods/unscheduled")).await.code, 404);

    pod(&namespace, "p", json!({"nodeName": "n"})).await;
    let path = namespace.at("pods/p");
    let marked = server.delete(&path).await.ok();
    assert_eq!(
        (seconds(&marked), &marked["metadata"]["generation"]),
        (Some(30), &json!(2))
    );
    assert_eq!(server.get(&path).await.ok(), marked);
    assert_eq!(server.delete(&path).await.ok(), marked);
    let longer = server.delete_with(&path, &json!({"gracePeriodSeconds": 60})).await.ok();
    assert_eq!(longer, marked);
    let shorter = server.delete_with(&path, &json!({"gracePeriodSeconds": 5})).await.ok();
    assert_eq!(
        (seconds(&shorter), &shorter["metadata"]["generation"]),
        (Some(5), &json!(2))
    );
    assert!(shorter["metadata"]["deletionTimestamp"].as_str() < marked["metadata"]["deletionTimestamp"].as_str());
    let now = server.delete_with(&path, &json!({"gracePeriodSeconds": 0})).await.ok();
    assert_eq!(seconds(&now), Some(0));
    assert_eq!(server.get(&path).await.code, 404);

    for (name, spec, query, grace) in [
        (
            "own",
            json!({"nodeName": "n", "terminationGracePeriodSeconds": 7}),
            "",
            7,
        ),
        ("query", json!({"nodeName": "n"}), "?gracePeriodSeconds=9", 9),
        ("negative", json!({"nodeName": "n"}), "?gracePeriodSeconds=-3", 1),
    ] {
        pod(&namespace, name, spec).await;
        let marked = server.delete(&namespace.at(&format!("pods/{name}{query}"))).await.ok();
        assert_eq!(seconds(&marked), Some(grace), "{name}");
    }
    for (name, spec, query) in [
        ("at-once", json!({"nodeName": "n"}), "?gracePeriodSeconds=0"),
        (
            "no-grace",
            json!({"nodeName": "n", "terminationGracePeriodSeconds": 0}),
            "",
        ),
    ] {
        pod(&namespace, name, spec).await;
        server.delete(&namespace.at(&format!("pods/{name}{query}"))).await.ok();
        assert_eq!(
            server.get(&namespace.at(&format!("pods/{name}"))).await.code,
            404,
            "{name}"
        );
    }
    let created = pod(&namespace, "dry", json!({"nodeName": "n"})).await;
    let dry = server.delete(&namespace.at("pods/dry?dryRun=All")).await.ok();
    assert_eq!(seconds(&dry), Some(30));
    assert_eq!(server.get(&namespace.at("pods/dry")).await.ok(), created);
}

// [F12] jobs orphan their pods by default, with a warning for old clients
async fn jobs_orphan_by_default(server: Server) {
    let namespace = server.namespace().await;
    let jobs = namespace.of("batch/v1", "jobs");
    let spec = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}});
    server
        .post(&jobs, &json!({"metadata": {"name": "j"}, "spec": spec}))
        .await
        .created();
    let answer = server.delete(&format!("{jobs}/j")).await;
    assert_eq!(answer.ok()["metadata"]["finalizers"], json!(["orphan"]));
    assert!(
        answer
            .header("warning")
            .contains("child pods are preserved by default when jobs are deleted"),
        "{answer:?}"
    );
}

// [F12] deletecollection: selectors, dry run, finalizers; the answer is the list
async fn deletes_collections(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps");
    for (name, label, finalizers) in [
        ("a", "a", json!([])),
        ("b", "b", json!([])),
        ("c", "z", json!([])),
        ("d", "z", json!(["x.io/f"])),
    ] {
        let object = json!({"metadata": {"name": name, "labels": {"k": label}, "finalizers": finalizers}});
        namespace.create("configmaps", &object).await;
    }
    let remaining = async || names(&server.get(&path).await.ok());
    let deleted = server.delete(&format!("{path}?labelSelector=k%3Da")).await.ok();
    assert_eq!(
        (deleted["kind"].as_str(), names(&deleted)),
        (Some("ConfigMapList"), "a".to_owned())
    );
    assert_eq!(remaining().await, "b,c,d");
    assert_eq!(
        names(
            &server
                .delete(&format!("{path}?fieldSelector=metadata.name%3Db"))
                .await
                .ok()
        ),
        "b"
    );
    assert_eq!(names(&server.delete(&format!("{path}?dryRun=All")).await.ok()), "c,d");
    assert_eq!(remaining().await, "c,d");
    assert_eq!(names(&server.delete(&path).await.ok()), "c,d");
    assert_eq!(remaining().await, "d");
    assert!(server.get(&namespace.at("configmaps/d")).await.ok()["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(
        names(&server.delete("/api/v1/namespaces/absent/configmaps").await.ok()),
        ""
    );
}

// [F12] deletecollection with a limit deletes one page and says how to go on
async fn deletes_collections_by_pages(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps");
    for name in ["a", "b", "c", "d"] {
        namespace.config_map(name).await;
    }
    let page = server.delete(&format!("{path}?limit=1")).await.ok();
    assert_eq!(names(&page), "a");
    assert_eq!(page["metadata"]["remainingItemCount"], 3);
    let go_on = page["metadata"]["continue"].as_str().unwrap();
    let next = server.delete(&format!("{path}?limit=2&continue={go_on}")).await.ok();
    assert_eq!(names(&next), "b,c");
    assert_eq!(names(&server.get(&path).await.ok()), "d");
}

// [F12] deletecollection refuses what a list or a delete refuses, and some paths do not have it
async fn refuses_bad_collection_deletes(server: Server) {
    let namespace = server.namespace().await;
    let created = namespace.config_map("a").await;
    let path = namespace.at("configmaps");
    let unless = (
        "FieldValueForbidden",
        "resourceVersionMatch",
        "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
    );
    let initial = (
        "FieldValueForbidden",
        "sendInitialEvents",
        "Forbidden: sendInitialEvents is forbidden for list",
    );
    let policy = (
        UNSUPPORTED,
        "propagationPolicy",
        r#"Unsupported value: "x": supported values: "Foreground", "Background", "Orphan", "nil""#,
    );
    let matched = server.delete(&format!("{path}?resourceVersionMatch=Exact")).await;
    matched.invalid("meta.k8s.io", "ListOptions", "", &[unless]);
    server.delete(&format!("{path}?sendInitialEvents=true")).await.invalid(
        "meta.k8s.io",
        "ListOptions",
        "",
        &[initial],
    );
    server
        .delete(&format!("{path}?propagationPolicy=x"))
        .await
        .invalid("meta.k8s.io", "DeleteOptions", "", &[policy]);
    let limit = server.delete(&format!("{path}?limit=x")).await;
    limit.is(
        400,
        "BadRequest",
        "strconv.ParseInt: parsing \"x\": invalid syntax",
        Value::Null,
    );
    let version = server.delete(&format!("{path}?resourceVersion=abc")).await;
    let text = "invalid resource version: resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax";
    version.is(400, "BadRequest", text, Value::Null);
    let uid = server.delete_with(&path, &json!({"preconditions": {"uid": "x"}})).await;
    let text = format!(
        "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (x) does not match the UID in record \
         ({}). The object might have been deleted and then recreated",
        created["metadata"]["uid"].as_str().unwrap()
    );
    uid.is(409, "Conflict", &text, json!({"name": "a", "kind": "ConfigMap"}));
    assert_eq!(names(&server.get(&path).await.ok()), "a");
    for path in ["/api/v1/configmaps", "/api/v1/namespaces"] {
        server
            .delete(path)
            .await
            .is(405, "MethodNotAllowed", NOT_ALLOWED, json!({}));
    }
}

// [F15] the namespaces that cannot be deleted: 403
async fn refuses_to_delete_the_basic_namespaces(server: Server) {
    for name in ["default", "kube-system", "kube-public"] {
        let answer = server.delete(&format!("/api/v1/namespaces/{name}")).await;
        let text = format!("namespaces {name:?} is forbidden: this namespace may not be deleted");
        answer.is(403, "Forbidden", &text, json!({"name": name, "kind": "namespaces"}));
    }
}

cases![
    answers_with_a_status_or_the_object,
    finalizers_keep_the_object,
    a_deletion_raises_the_generation,
    preconditions_protect_the_object,
    propagation_is_a_finalizer,
    refuses_bad_options,
    a_dry_run_deletes_nothing,
    scheduled_pods_have_a_grace_period,
    jobs_orphan_by_default,
    deletes_collections,
    deletes_collections_by_pages,
    refuses_bad_collection_deletes,
    refuses_to_delete_the_basic_namespaces,
];
