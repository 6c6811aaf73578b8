//! Replacing objects (PUT) and their status. [F9]

use serde_json::{Value, json};

use super::texts::{MODIFIED, NAME_PART, NO_RESOURCE, NOT_ALLOWED, SUBDOMAIN};
use crate::harness::{CustomKind, Namespace, Server, cases, version};

const INVALID: &str = "FieldValueInvalid";

/// The object after `change`, without its version unless `change` sets one.
fn changed(object: &Value, change: impl FnOnce(&mut Value)) -> Value {
    let mut object = object.clone();
    object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    change(&mut object);
    object
}

fn deployment(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }})
}

async fn deployed(server: &Server, namespace: &Namespace) -> (String, Value) {
    let path = namespace.of("apps/v1", "deployments");
    let created = server.post(&path, &deployment("d")).await.created();
    (format!("{path}/d"), created)
}

// [F9] the new content replaces the old, with a new version; what is not sent is gone
async fn replaces_the_object(server: Server) {
    let namespace = server.namespace().await;
    let object = json!({"metadata": {"name": "a", "labels": {"l": "1"}}, "data": {"k": "1", "gone": "x"}});
    let created = namespace.create("configmaps", &object).await;
    let mut next = created.clone();
    next["data"] = json!({"k": "2"});
    next["metadata"]["labels"] = json!({"m": "2"});
    let updated = server.put(&namespace.at("configmaps/a"), &next).await.ok();
    assert_eq!(updated["data"], json!({"k": "2"}));
    assert_eq!(updated["metadata"]["labels"], json!({"m": "2"}));
    for kept in ["uid", "creationTimestamp", "name", "namespace"] {
        assert_eq!(updated["metadata"][kept], created["metadata"][kept], "{kept}");
    }
    assert!(version(&updated) > version(&created));
    assert_eq!(server.get(&namespace.at("configmaps/a")).await.ok(), updated);
}

// [F9] any version but the newest is a conflict, also one of the future; what is no number is 500
async fn refuses_another_version(server: Server) {
    let namespace = server.namespace().await;
    let created = namespace.config_map("a").await;
    let path = namespace.at("configmaps/a");
    let text = format!("Operation cannot be fulfilled on configmaps \"a\": {MODIFIED}");
    for other in ["1", "99999999999"] {
        let object = changed(&created, |object| object["metadata"]["resourceVersion"] = other.into());
        server
            .put(&path, &object)
            .await
            .is(409, "Conflict", &text, json!({"name": "a", "kind": "configmaps"}));
    }
    let object = changed(&created, |object| object["metadata"]["resourceVersion"] = "abc".into());
    server.put(&path, &object).await.is(
        500,
        "",
        "strconv.ParseUint: parsing \"abc\": invalid syntax",
        Value::Null,
    );
    let (path, deployed) = deployed(&server, &namespace).await;
    let object = changed(&deployed, |object| object["metadata"]["resourceVersion"] = "1".into());
    let text = format!("Operation cannot be fulfilled on deployments.apps \"d\": {MODIFIED}");
    let details = json!({"name": "d", "group": "apps", "kind": "deployments"});
    server.put(&path, &object).await.is(409, "Conflict", &text, details);
}

// [F9] no version: an unconditional update for most kinds, refused for leases and custom resources
async fn a_missing_version_is_the_kinds_choice(server: Server) {
    let namespace = server.namespace().await;
    let created = namespace.config_map("a").await;
    for missing in [None, Some("0"), Some("")] {
        let object = changed(&created, |object| {
            object["data"] = json!({"k": missing});
            if let Some(missing) = missing {
                object["metadata"]["resourceVersion"] = missing.into();
            }
        });
        server.put(&namespace.at("configmaps/a"), &object).await.ok();
    }
    let cause = (
        INVALID,
        "metadata.resourceVersion",
        "Invalid value: 0: must be specified for an update",
    );
    let leases = namespace.of("coordination.k8s.io/v1", "leases");
    server
        .post(&leases, &json!({"metadata": {"name": "l"}}))
        .await
        .created();
    for lease in [
        json!({"metadata": {"name": "l"}}),
        json!({"metadata": {"name": "l", "resourceVersion": "0"}}),
    ] {
        // This 422 names the plural, unlike those of validation.
        server
            .put(&format!("{leases}/l"), &lease)
            .await
            .invalid("coordination.k8s.io", "leases", "l", &[cause]);
    }
    let kind = CustomKind::register(&server, |_| {}).await;
    server
        .post(&kind.at(&namespace, ""), &kind.object("w", &json!({})))
        .await
        .created();
    let widget = kind.object("w", &json!({"spec": {"x": 1}}));
    server
        .put(&kind.at(&namespace, "/w"), &widget)
        .await
        .invalid(&kind.group, "widgets", "w", &[cause]);
}

// [F9] name, namespace and uid must be those of the path and of the object
async fn refuses_another_identity(server: Server) {
    let namespace = server.namespace().await;
    let created = namespace.config_map("a").await;
    let path = namespace.at("configmaps/a");
    let put = async |key: &str, value: Value| {
        server
            .put(&path, &changed(&created, |object| object["metadata"][key] = value))
            .await
    };
    let text = "the name of the object (b) does not match the name on the URL (a)";
    put("name", json!("b")).await.is(400, "BadRequest", text, Value::Null);
    let text = "the name of the object (a based on URL) was undeterminable: name must be provided";
    put("name", Value::Null).await.is(400, "BadRequest", text, Value::Null);
    let text = "the namespace of the provided object does not match the namespace sent on the request";
    put("namespace", json!("other"))
        .await
        .is(400, "BadRequest", text, Value::Null);
    put("namespace", Value::Null).await.ok();
    put("uid", Value::Null).await.ok();
    let uid = created["metadata"]["uid"].as_str().unwrap();
    let text = format!(
        "Operation cannot be fulfilled on configmaps \"a\": StorageError: invalid object, Code: 4, Key: \
         /registry/configmaps/{}/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: zzz, \
         UID in object meta: {uid}",
        namespace.name()
    );
    put("uid", json!("zzz"))
        .await
        .is(409, "Conflict", &text, json!({"name": "a", "kind": "configmaps"}));
}

// [F9] the server's fields are reset without a word; those of a deletion cannot be set
async fn keeps_the_fields_that_are_the_servers(server: Server) {
    let namespace = server.namespace().await;
    let created = namespace
        .create("configmaps", &json!({"metadata": {"name": "a", "generation": 3}}))
        .await;
    let path = namespace.at("configmaps/a");
    let object = changed(&created, |object| {
        object["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z".into();
        object["metadata"]["generation"] = 9.into();
        object["metadata"]["selfLink"] = "/x".into();
    });
    let updated = server.put(&path, &object).await.ok();
    assert_eq!(updated, created, "nothing has changed, so not the version either");
    let named = changed(&created, |object| object["metadata"]["generateName"] = "gen-".into());
    assert_eq!(server.put(&path, &named).await.ok()["metadata"]["generateName"], "gen-");
    for (key, value, shown) in [
        (
            "deletionTimestamp",
            json!("2001-01-01T00:00:00Z"),
            "\"2001-01-01T00:00:00Z\"",
        ),
        ("deletionGracePeriodSeconds", json!(5), "5"),
    ] {
        let object = changed(&created, |object| object["metadata"][key] = value);
        let cause = format!("Invalid value: {shown}: field is immutable");
        let field = format!("metadata.{key}");
        server
            .put(&path, &object)
            .await
            .invalid("", "ConfigMap", "a", &[(INVALID, &field, &cause)]);
    }
    let labelled = changed(&created, |object| object["metadata"]["labels"] = json!({"a b": "c"}));
    let cause = format!("Invalid value: \"a b\": {NAME_PART}");
    server
        .put(&path, &labelled)
        .await
        .invalid("", "ConfigMap", "a", &[(INVALID, "metadata.labels", &cause)]);
}

// [F9] a body of another kind or version: 400
async fn refuses_another_kind(server: Server) {
    let namespace = server.namespace().await;
    let created = namespace.config_map("a").await;
    let path = namespace.at("configmaps/a");
    let pod = server
        .put(&path, &changed(&created, |object| object["kind"] = "Pod".into()))
        .await;
    let text = "Pod in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Pod) to (core.ConfigMap): unknown conversion";
    pod.is(400, "BadRequest", text, Value::Null);
    let newer = server
        .put(&path, &changed(&created, |object| object["apiVersion"] = "v9".into()))
        .await;
    let text = "ConfigMap in version \"v9\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is registered for version \"v9\" in scheme …";
    newer.is(400, "BadRequest", text, Value::Null);
}

// [F9] an absent object is 404, except for the kinds that a PUT creates
async fn creates_only_the_kinds_that_allow_it(server: Server) {
    let namespace = server.namespace().await;
    let named = |name: &str| json!({"metadata": {"name": name}});
    let leases = namespace.of("coordination.k8s.io/v1", "leases");
    let creating = [
        (format!("{leases}/new"), named("new")),
        (namespace.of("rbac.authorization.k8s.io/v1", "roles/new"), named("new")),
        (namespace.at("limitranges/new"), named("new")),
        (
            namespace.at("services/new"),
            json!({"metadata": {"name": "new"}, "spec": {"ports": [{"port": 80}]}}),
        ),
        // A version counts as little as on an update of nothing.
        (
            format!("{leases}/versioned"),
            json!({"metadata": {"name": "versioned", "resourceVersion": "5"}}),
        ),
    ];
    for (path, object) in creating {
        let created = server.put(&path, &object).await.created();
        assert!(
            created["metadata"]["uid"].is_string() && version(&created) > 0,
            "{path}"
        );
        assert_eq!(server.get(&path).await.ok(), created);
    }
    for (path, object, resource, group) in [
        (namespace.at("configmaps/new"), named("new"), "configmaps", ""),
        (namespace.at("secrets/new"), named("new"), "secrets", ""),
        (namespace.at("pods/new"), named("new"), "pods", ""),
        (
            namespace.of("apps/v1", "deployments/new"),
            named("new"),
            "deployments",
            "apps",
        ),
    ] {
        let (subject, details) = if group.is_empty() {
            (resource.to_owned(), json!({"name": "new", "kind": resource}))
        } else {
            (
                format!("{resource}.{group}"),
                json!({"name": "new", "group": group, "kind": resource}),
            )
        };
        server
            .put(&path, &object)
            .await
            .is(404, "NotFound", &format!("{subject} \"new\" not found"), details);
    }
    let kind = CustomKind::register(&server, |_| {}).await;
    let widget = server
        .put(&kind.at(&namespace, "/new"), &kind.object("new", &json!({})))
        .await;
    let details = json!({"name": "new", "group": kind.group, "kind": "widgets"});
    widget.is(
        404,
        "NotFound",
        &format!("widgets.{} \"new\" not found", kind.group),
        details,
    );
    let bad = server.put(&format!("{leases}/Bad_"), &named("Bad_")).await;
    let cause = format!("Invalid value: \"Bad_\": {SUBDOMAIN}");
    bad.invalid(
        "coordination.k8s.io",
        "Lease",
        "Bad_",
        &[(INVALID, "metadata.name", &cause)],
    );
    let elsewhere = server
        .put("/apis/coordination.k8s.io/v1/namespaces/absent/leases/l", &named("l"))
        .await;
    let details = json!({"name": "absent", "kind": "namespaces"});
    elsewhere.is(404, "NotFound", "namespaces \"absent\" not found", details);
    let uid = server
        .put(
            &format!("{leases}/uid"),
            &json!({"metadata": {"name": "uid", "uid": "5"}}),
        )
        .await;
    let text = format!(
        "Operation cannot be fulfilled on leases.coordination.k8s.io \"uid\": StorageError: invalid object, Code: 4, Key: \
         /registry/leases/{}/uid, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: 5, UID \
         in object meta: ",
        namespace.name()
    );
    uid.is(
        409,
        "Conflict",
        &text,
        json!({"name": "uid", "group": "coordination.k8s.io", "kind": "leases"}),
    );
}

// [F9] a dry run answers with the result and stores nothing
async fn a_dry_run_changes_nothing(server: Server) {
    let namespace = server.namespace().await;
    let created = namespace.config_map("a").await;
    let object = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    let dry = server.put(&namespace.at("configmaps/a?dryRun=All"), &object).await.ok();
    assert_eq!(dry["data"], json!({"k": "v"}));
    assert_eq!(version(&dry), version(&created));
    assert_eq!(server.get(&namespace.at("configmaps/a")).await.ok(), created);
    let cause = (
        "FieldValueNotSupported",
        "dryRun",
        r#"Unsupported value: ["x"]: supported values: "All""#,
    );
    let refused = server.put(&namespace.at("configmaps/a?dryRun=x"), &object).await;
    refused.invalid("meta.k8s.io", "UpdateOptions", "", &[cause]);
}

// [F9] generation rises with the spec (and a deployment's annotations), not with labels or the status
async fn generation_rises_with_the_spec(server: Server) {
    let namespace = server.namespace().await;
    let (path, created) = deployed(&server, &namespace).await;
    let step = async |change: Value| {
        server.merge(&path, &change).await.ok()["metadata"]["generation"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(created["metadata"]["generation"], 1);
    assert_eq!(step(json!({"metadata": {"labels": {"l": "1"}}})).await, 1);
    assert_eq!(step(json!({"spec": {"replicas": 4}})).await, 2);
    assert_eq!(step(json!({"spec": {"replicas": 4}})).await, 2);
    assert_eq!(step(json!({"metadata": {"annotations": {"n": "1"}}})).await, 3);
    let status = server
        .merge(&format!("{path}/status"), &json!({"status": {"replicas": 4}}))
        .await
        .ok();
    assert_eq!(status["metadata"]["generation"], 3);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    namespace.create("pods", &pod).await;
    let annotated = server
        .merge(
            &namespace.at("pods/p"),
            &json!({"metadata": {"annotations": {"n": "1"}}}),
        )
        .await
        .ok();
    assert_eq!(annotated["metadata"]["generation"], 1);
    let image = json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "j"}]);
    let patched = server.json_patch(&namespace.at("pods/p"), &image).await.ok();
    assert_eq!(patched["metadata"]["generation"], 2);
    // Custom resources: everything but the metadata, and with a status subresource everything but the status too.
    let kind = CustomKind::register(&server, |_| {}).await;
    let path = kind.at(&namespace, "/w");
    server
        .post(&kind.at(&namespace, ""), &kind.object("w", &json!({"spec": {"x": 1}})))
        .await
        .created();
    for (change, generation) in [
        (json!({"metadata": {"labels": {"l": "1"}}}), 1),
        (json!({"spec": {"x": 2}}), 2),
        (json!({"status": {"s": 1}}), 3),
        (json!({"other": 1}), 4),
        (json!({"other": 1}), 4),
    ] {
        assert_eq!(
            server.merge(&path, &change).await.ok()["metadata"]["generation"],
            generation,
            "{change}"
        );
    }
}

// [F9] a write to the object leaves its status alone, a write to the status leaves the spec alone
async fn main_and_status_are_written_apart(server: Server) {
    let namespace = server.namespace().await;
    let (path, created) = deployed(&server, &namespace).await;
    let both = changed(&created, |object| {
        object["status"] = json!({"replicas": 5});
        object["spec"]["replicas"] = 3.into();
        object["metadata"]["labels"] = json!({"q": "1"});
        object["metadata"]["annotations"] = json!({"q": "1"});
        object["metadata"]["finalizers"] = json!(["x.io/y"]);
    });
    let updated = server.put(&format!("{path}/status"), &both).await.ok();
    assert_eq!(updated["kind"], "Deployment");
    assert_eq!(updated["status"], json!({"replicas": 5}));
    assert_eq!(updated["spec"]["replicas"], 1);
    assert_eq!(updated["metadata"]["generation"], 1);
    // Which metadata a status write takes over is the kind's choice: a deployment's labels are not.
    assert!(updated["metadata"].get("labels").is_none());
    assert_eq!(updated["metadata"]["annotations"], json!({"q": "1"}));
    assert_eq!(updated["metadata"]["finalizers"], json!(["x.io/y"]));
    assert_eq!(server.get(&format!("{path}/status")).await.ok(), updated);
    let only_status = changed(&updated, |object| object["status"] = json!({"replicas": 9}));
    assert_eq!(
        server.put(&path, &only_status).await.ok(),
        updated,
        "nothing that counts has changed"
    );
    let spec_too = changed(&updated, |object| {
        object["status"] = json!({"replicas": 9});
        object["spec"]["replicas"] = 2.into();
    });
    let updated = server.put(&path, &spec_too).await.ok();
    assert_eq!(
        (&updated["spec"]["replicas"], &updated["status"]),
        (&json!(2), &json!({"replicas": 5}))
    );
}

// [F9] a pod's status write takes labels over, a custom resource's takes nothing but the status
async fn status_writes_take_the_metadata_that_the_kind_allows(server: Server) {
    let namespace = server.namespace().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    namespace.create("pods", &pod).await;
    let change = json!({"status": {"phase": "Running"}, "metadata": {"labels": {"x": "y"}}});
    let updated = server.merge(&namespace.at("pods/p/status"), &change).await.ok();
    assert_eq!(updated["metadata"]["labels"], json!({"x": "y"}));
    assert_eq!(updated["status"]["phase"], "Running");
    let kind = CustomKind::register(&server, |crd| {
        crd["spec"]["versions"][0]["subresources"] = json!({"status": {}})
    })
    .await;
    let path = kind.at(&namespace, "/w");
    let created = server
        .post(&kind.at(&namespace, ""), &kind.object("w", &json!({"spec": {"x": 1}})))
        .await
        .created();
    let mut both = created.clone();
    both["status"] = json!({"s": 1});
    both["spec"] = json!({"x": 2});
    both["metadata"]["labels"] = json!({"l": "1"});
    let updated = server.put(&format!("{path}/status"), &both).await.ok();
    assert_eq!(updated["status"], json!({"s": 1}));
    assert_eq!(updated["spec"], json!({"x": 1}));
    assert!(updated["metadata"].get("labels").is_none());
    assert_eq!(updated["metadata"]["generation"], 1);
    both["metadata"]["resourceVersion"] = updated["metadata"]["resourceVersion"].clone();
    both["status"] = json!({"s": 2});
    let updated = server.put(&path, &both).await.ok();
    assert_eq!(
        (&updated["status"], &updated["spec"]),
        (&json!({"s": 1}), &json!({"x": 2}))
    );
    assert_eq!(updated["metadata"]["generation"], 2);
}

// [F9] [F18] subresources that are not there, and methods that they do not have
async fn refuses_absent_subresources(server: Server) {
    let namespace = server.namespace().await;
    let (path, created) = deployed(&server, &namespace).await;
    namespace.config_map("a").await;
    for absent in [
        namespace.at("configmaps/a/status"),
        format!("{path}/nope"),
        format!("{path}/status/x"),
    ] {
        server.get(&absent).await.is(404, "NotFound", NO_RESOURCE, json!({}));
    }
    server
        .put(&namespace.at("configmaps/a/status"), &created)
        .await
        .is(404, "NotFound", NO_RESOURCE, json!({}));
    server
        .post(&format!("{path}/status"), &created)
        .await
        .is(405, "MethodNotAllowed", NOT_ALLOWED, json!({}));
    server
        .delete(&format!("{path}/status"))
        .await
        .is(405, "MethodNotAllowed", NOT_ALLOWED, json!({}));
    let absent = namespace.of("apps/v1", "deployments/absent/status");
    let details = json!({"name": "absent", "group": "apps", "kind": "deployments"});
    server.get(&absent).await.is(
        404,
        "NotFound",
        "deployments.apps \"absent\" not found",
        details.clone(),
    );
    let put = server.put(&absent, &deployment("absent")).await;
    put.is(404, "NotFound", "deployments.apps \"absent\" not found", details);
    let kind = CustomKind::register(&server, |_| {}).await;
    server
        .post(&kind.at(&namespace, ""), &kind.object("w", &json!({})))
        .await
        .created();
    // A custom kind without the subresource denies the object.
    let details = json!({"name": "w", "group": kind.group, "kind": "widgets"});
    let text = format!("widgets.{} \"w\" not found", kind.group);
    for absent in ["/w/status", "/w/scale", "/w/nope"] {
        server
            .get(&kind.at(&namespace, absent))
            .await
            .is(404, "NotFound", &text, details.clone());
    }
}

// [F9] sixteen writers that read, change and put: each success is one step, none is lost
async fn concurrent_updates_lose_nothing(server: Server) {
    let namespace = server.namespace().await;
    namespace
        .create("configmaps", &json!({"metadata": {"name": "a"}, "data": {"n": "0"}}))
        .await;
    let path = namespace.at("configmaps/a");
    let writers = (0..16).map(|_| async {
        let mut done = 0;
        while done < 5 {
            let mut object = server.get(&path).await.ok();
            let number: u32 = object["data"]["n"].as_str().unwrap().parse().unwrap();
            object["data"]["n"] = (number + 1).to_string().into();
            let answer = server.put(&path, &object).await;
            match answer.code {
                200 => done += 1,
                409 => {}
                _ => panic!("{answer}"),
            }
        }
    });
    futures_util::future::join_all(writers).await;
    assert_eq!(server.get(&path).await.ok()["data"]["n"], "80");
}

cases![
    replaces_the_object,
    refuses_another_version,
    a_missing_version_is_the_kinds_choice,
    refuses_another_identity,
    keeps_the_fields_that_are_the_servers,
    refuses_another_kind,
    creates_only_the_kinds_that_allow_it,
    a_dry_run_changes_nothing,
    generation_rises_with_the_spec,
    main_and_status_are_written_apart,
    status_writes_take_the_metadata_that_the_kind_allows,
    refuses_absent_subresources,
    concurrent_updates_lose_nothing,
];
