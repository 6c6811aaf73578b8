//! Requests about custom kinds with a status and with several versions, and about what goes away, on which the comparisons
//! (`differential`) found differences, each kind of them once.

use serde_json::{Value, json};

use super::texts::SUBDOMAIN;
use crate::harness::{CustomKind, Server, cases, eventually, unique, version};

/// A custom kind with a status and the versions `v2` and `v1beta1`, which go, besides `v1`.
async fn versioned(server: &Server) -> CustomKind {
    CustomKind::register(server, |definition| {
        let mut first = definition["spec"]["versions"][0].clone();
        first["subresources"] = json!({"status": {}});
        let old = |name: &str, warning: Value| {
            let mut version = first.clone();
            version["name"] = name.into();
            version["storage"] = false.into();
            version["deprecated"] = true.into();
            if !warning.is_null() {
                version["deprecationWarning"] = warning;
            }
            version
        };
        let (second, beta, alpha) = (
            old("v2", Value::Null),
            old("v1beta1", Value::Null),
            old("v1alpha1", "gone soon".into()),
        );
        definition["spec"]["versions"] = json!([first, second, beta, alpha]);
    })
    .await
}

// [F8] [F18] odd names of what makes pods, lists in the place of objects, and versions that are null
async fn odd_names_lists_and_versions(server: Server) {
    let namespace = server.namespace().await;
    let kind = CustomKind::register(&server, |_| {}).await;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let controller =
        json!({"metadata": {"generateName": "a."}, "spec": {"selector": {"a": "b"}, "template": template}});
    let answer = server.post(&namespace.at("replicationcontrollers"), &controller).await;
    let warning = "299 - \"metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a \
                   DNS label is recommended: [must not contain dots]\"";
    assert_eq!((answer.code, answer.header("warning")), (201, warning));
    let labels = &answer.json()["metadata"]["labels"];
    assert_eq!(*labels, json!({"a": "b"}), "it has the labels of its template");
    for (list, why) in [
        (
            json!({"kind": "ConfigMapList", "metadata": true}),
            "bool into Go struct field ConfigMapList.metadata of type v1.ListMeta",
        ),
        (
            json!({"kind": "ConfigMapList", "items": {}}),
            "object into Go struct field ConfigMapList.items of type []v1.ConfigMap",
        ),
        (
            json!({"kind": "ConfigMapList", "items": [{"metadata": {"name": 5}}]}),
            "number into Go struct field ObjectMeta.items.metadata.name of type string",
        ),
    ] {
        let text =
            format!("ConfigMapList in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal {why}");
        let answer = server.post(&namespace.at("configmaps"), &list).await;
        assert_eq!(answer.expect(400)["message"], text);
    }
    let null = json!({"apiVersion": null, "kind": "Widget", "metadata": 5});
    let text = "Widget in version \"\" cannot be handled as a Widget: .apiVersion accessor error: <nil> is of the type <nil>, \
                expected string";
    let answer = server.post(&kind.at(&namespace, ""), &null).await;
    answer.is(400, "BadRequest", text, Value::Null);
    let slice = json!({"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": []});
    let slices = namespace.of("discovery.k8s.io/v1", "endpointslices");
    server.post(&slices, &slice).await.created();
    let patch = json!({"metadata": {"labels": {"a": "b"}}});
    let labelled = server.merge(&format!("{slices}/a"), &patch).await;
    assert_eq!(labelled.ok()["metadata"]["generation"], 2);
}

// [F1] [F8] statuses of components are named otherwise where there are none, and warned of
async fn components_have_a_name_of_their_own(server: Server) {
    let answer = server.get("/api/v1/componentstatuses/nope").await;
    let details = json!({"name": "nope", "kind": "componentstatus"});
    answer.is(404, "NotFound", "componentstatus \"nope\" not found", details);
    assert_eq!(
        answer.header("warning"),
        "299 - \"v1 ComponentStatus is deprecated in v1.19+\""
    );
}

// [F17] [F18] every request for a version that goes is warned, whatever becomes of it
async fn versions_that_go_warn(server: Server) {
    let namespace = server.namespace().await;
    let kind = versioned(&server).await;
    let group = &kind.group;
    for (version, warning) in [
        ("v1", String::new()),
        ("v2", format!("299 - \"{group}/v2 Widget is deprecated\"")),
        (
            "v1beta1",
            format!("299 - \"{group}/v1beta1 Widget is deprecated; use {group}/v1 Widget\""),
        ),
        ("v1alpha1", "299 - \"gone soon\"".to_owned()),
    ] {
        let path = |rest: &str| namespace.of(&format!("{group}/{version}"), &format!("widgets{rest}"));
        for (method, path, code) in [
            ("GET", path(""), 200),
            ("GET", path("/absent"), 404),
            ("GET", path("/absent/nope"), 404),
            ("GET", path("?limit=x"), 400),
            ("PATCH", path("/absent"), 415),
            ("POST", path(""), 400),
            ("OPTIONS", path(""), 405),
        ] {
            let answer = server.request(method, &path).send().await;
            assert_eq!((answer.code, answer.header("warning")), (code, &*warning), "{answer}");
        }
    }
}

// [F9] [F17] a write of the status does not write finalizers, and is not warned of them
async fn writes_of_a_status_are_not_warned_of_finalizers(server: Server) {
    let namespace = server.namespace().await;
    let kind = versioned(&server).await;
    let path = kind.at(&namespace, "/a");
    let object = kind.object("a", &json!({}));
    server.post(&kind.at(&namespace, ""), &object).await.created();
    let patch = json!({"metadata": {"finalizers": ["plain"]}, "status": {"x": 1}});
    let patched = server.merge(&format!("{path}/status"), &patch).await;
    assert_eq!((patched.code, patched.header("warning")), (200, ""), "{patched}");
    let patched = server.merge(&path, &patch).await;
    assert!(
        patched.header("warning").contains("prefer a domain-qualified"),
        "{patched}"
    );
}

// [F9] a write of the status writes all metadata that is not held back: the kinds that hold it back do not hold all back
async fn the_metadata_of_a_status_is_checked(server: Server) {
    let namespace = server.namespace().await;
    let name = unique();
    let node = json!({"metadata": {"name": name}});
    server.post("/api/v1/nodes", &node).await.created();
    let claim = json!({"metadata": {"name": "a"}, "spec": {"devices": {}}});
    let claims = namespace.of("resource.k8s.io/v1", "resourceclaims");
    server.post(&claims, &claim).await.created();
    let schema = json!({"metadata": {"name": name}, "spec": {"priorityLevelConfiguration": {"name": "exempt"}}});
    let schemas = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
    server.post(schemas, &schema).await.created();
    let patch = json!({"metadata": {
        "uid": "x", "generateName": "a/", "deletionTimestamp": "2024-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5,
        "labels": {"-": ""},
    }});
    for (path, fields) in [
        (
            format!("/api/v1/nodes/{name}"),
            vec![
                "generateName",
                "labels",
                "uid",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
            ],
        ),
        (
            format!("{claims}/a"),
            vec!["generateName", "uid", "deletionGracePeriodSeconds"],
        ),
    ] {
        let refused = server.merge(&format!("{path}/status"), &patch).await;
        let refused = refused.expect(422);
        let causes = refused["details"]["causes"].as_array().unwrap();
        let found: Vec<&str> = causes
            .iter()
            .map(|cause| {
                cause["field"]
                    .as_str()
                    .unwrap_or_default()
                    .trim_start_matches("metadata.")
            })
            .collect();
        assert_eq!(found, fields, "{path}");
    }
    let kept = server.merge(&format!("{schemas}/{name}/status"), &patch).await;
    assert_eq!(kept.ok()["metadata"]["generateName"], Value::Null);
}

// [F9] [F15] the phase of a namespace fits what becomes of it; its finalizers are written with its metadata
async fn parts_of_namespaces_are_checked(server: Server) {
    let name = unique();
    let path = format!("/api/v1/namespaces/{name}");
    let object = json!({"metadata": {"name": name}});
    server.post("/api/v1/namespaces", &object).await.created();
    let patch = json!({"status": {"phase": "Terminating"}});
    server.merge(&format!("{path}/status"), &patch).await.invalid(
        "",
        "Namespace",
        &name,
        &[(
            "FieldValueInvalid",
            "status.Phase",
            "Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty",
        )],
    );
    let finalize = format!("{path}/finalize");
    let put = json!({"metadata": {"name": name, "labels": {"x": "y"}}, "spec": {"finalizers": ["plain"]}});
    server.put(&finalize, &put).await.invalid(
        "",
        "Namespace",
        &name,
        &[(
            "FieldValueInvalid",
            "spec.finalizers[0]",
            "Invalid value: \"plain\": name is neither a standard finalizer name nor is it fully qualified",
        )],
    );
    let put = json!({"metadata": {"name": name, "labels": {"x": "y"}}, "spec": {"finalizers": ["x.io/y"]}});
    assert_eq!(server.put(&finalize, &put).await.ok()["metadata"]["labels"]["x"], "y");
}

// [F12] [F17] the options of a delete are read in every form
async fn options_may_be_protobuf(server: Server) {
    let namespace = server.namespace().await;
    let kind = CustomKind::register(&server, |_| {}).await;
    for path in [kind.at(&namespace, "/absent"), namespace.at("configmaps/absent")] {
        let request = server.request("DELETE", &path);
        let answer = request.body("application/vnd.kubernetes.protobuf", "{}").send().await;
        let text = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
        answer.is(400, "BadRequest", text, Value::Null);
    }
}

// [F17] [F18] whether there is such a subresource comes before whether there is a name; what follows it does not count
async fn subresources_come_before_names(server: Server) {
    let namespace = server.namespace().await;
    let kind = versioned(&server).await;
    let details = json!({"group": kind.group, "kind": "widgets"});
    server.get(&kind.at(&namespace, "//nope")).await.is(
        404,
        "NotFound",
        &format!("widgets.{} \"\" not found", kind.group),
        details.clone(),
    );
    server.get(&kind.at(&namespace, "//status")).await.is(
        405,
        "MethodNotAllowed",
        &format!("list is not supported on resources of kind \"widgets.{}\"", kind.group),
        details.clone(),
    );
    let unnamed = kind.at(&namespace, "//status");
    assert_eq!(server.merge(&unnamed, &json!({})).await.code, 400);
    assert_eq!(server.patch("text/plain", &unnamed, &json!({})).await.code, 415);
    let object = kind.object("a", &json!({}));
    server.post(&kind.at(&namespace, ""), &object).await.created();
    assert_eq!(
        server.get(&kind.at(&namespace, "/a/status/x")).await.ok()["kind"],
        "Widget"
    );
    server.delete(&kind.at(&namespace, "/a/status/x")).await.is(
        405,
        "MethodNotAllowed",
        &format!(
            "delete is not supported on resources of kind \"widgets.{}\"",
            kind.group
        ),
        details,
    );
}

// [F15] [F18] what cannot be created in a namespace that goes is named by what its name would be made of
async fn refusals_name_prefixes(server: Server) {
    let name = unique();
    let path = format!("/api/v1/namespaces/{name}");
    let namespace = json!({"metadata": {"name": name}});
    server.post("/api/v1/namespaces", &namespace).await.created();
    server.delete(&path).await.ok();
    let why = format!("unable to create new content in namespace {name} because it is being terminated");
    for (metadata, shown) in [
        (json!({"name": "a", "generateName": "b-"}), "a"),
        (json!({"generateName": "b-"}), "b-"),
        (json!({}), "Unknown"),
    ] {
        let object = json!({"metadata": metadata});
        let refused = server.post(&format!("{path}/configmaps"), &object).await;
        let refused = refused.expect(403);
        assert_eq!(
            refused["message"],
            format!("configmaps \"{shown}\" is forbidden: {why}")
        );
        assert_eq!(refused["details"]["name"], shown);
    }
}

// [F12] [F15] [F17] namespaces and definitions look at preconditions themselves, and have texts of their own
async fn some_kinds_have_their_own_preconditions(server: Server) {
    let name = unique();
    let namespaces = "/api/v1/namespaces";
    let created = server
        .post(namespaces, &json!({"metadata": {"name": name}}))
        .await
        .created();
    let kind = CustomKind::register(&server, |_| {}).await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = format!("widgets.{}", kind.group);
    let stored = server.get(&format!("{definitions}/{definition}")).await.ok();
    for (collection, plural, group, name, head, uid) in [
        (namespaces, "namespaces", "", &name, "P", &created["metadata"]["uid"]),
        (
            definitions,
            "customresourcedefinitions",
            "apiextensions.k8s.io",
            &definition,
            "p",
            &stored["metadata"]["uid"],
        ),
    ] {
        let options = json!({"preconditions": {"uid": "x", "resourceVersion": "1"}});
        let refused = server.delete_with(&format!("{collection}/{name}"), &options).await;
        let mut details = json!({"name": name, "kind": plural});
        let mut resource = plural.to_owned();
        if !group.is_empty() {
            details["group"] = group.into();
            resource = format!("{plural}.{group}");
        }
        let uid = uid.as_str().unwrap();
        let text = format!(
            "Operation cannot be fulfilled on {resource} {name:?}: {head}recondition failed: UID in precondition: x, UID in \
             object meta: {uid}"
        );
        refused.is(409, "Conflict", &text, details);
        let options = json!({"preconditions": {"uid": uid, "resourceVersion": "1"}});
        let refused = server.delete_with(&format!("{collection}/{name}"), &options).await;
        let message = refused.expect(409)["message"].as_str().unwrap_or_default().to_owned();
        assert!(
            message.contains("ResourceVersion in precondition: 1, ResourceVersion in object meta: "),
            "{message}"
        );
    }
}

// [F8] [F18] [F26] what an event is about is looked at first, and alone in the old group
async fn events_are_looked_at_in_an_order(server: Server) {
    let namespace = server.namespace().await;
    let bad = "Invalid value: \"\": does not match event.namespace";
    let about = ("FieldValueInvalid", "involvedObject.namespace", bad);
    let event = json!({"metadata": {"name": "A_"}});
    server
        .post(&namespace.at("events"), &event)
        .await
        .invalid("", "Event", "A_", &[about]);
    let name = format!("Invalid value: \"A_\": {SUBDOMAIN}");
    server
        .post(&namespace.of("events.k8s.io/v1", "events"), &event)
        .await
        .invalid(
            "",
            "Event",
            "A_",
            &[
                about,
                ("FieldValueInvalid", "metadata.name", &name),
                ("FieldValueRequired", "eventTime", "Required value"),
                ("FieldValueInvalid", "type", "Invalid value: \"\": has invalid value: "),
            ],
        );
    let timed = json!({
        "metadata": {"name": "a"}, "involvedObject": {"namespace": namespace.name()},
        "eventTime": "2024-01-01T00:00:00.000000Z", "reportingComponent": "a", "reportingInstance": "i",
        "reason": "r".repeat(129),
    });
    server.post(&namespace.at("events"), &timed).await.invalid(
        "",
        "Event",
        "a",
        &[
            ("FieldValueRequired", "action", "Required value"),
            (
                "FieldValueInvalid",
                "reason",
                "Invalid value: \"\": can have at most 128 characters",
            ),
        ],
    );
}

// [F5] [F17] after a change of the definition, a watch cannot go on where the last one ended
async fn watches_begin_anew_when_a_definition_changes(server: Server) {
    let namespace = server.namespace().await;
    let kind = CustomKind::register(&server, |_| {}).await;
    let list = kind.at(&namespace, "");
    let old = server.post(&list, &kind.object("a", &json!({}))).await.created();
    let from = format!("{list}?watch=1&timeoutSeconds=1&resourceVersion={}", version(&old));
    let mut watch = server.watch(&from).await;
    let definition = format!(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{}",
        kind.group
    );
    let unchanged = json!({"metadata": {"labels": {"a": "b"}}});
    server.merge(&definition, &unchanged).await.ok();
    assert!(
        watch.try_next().await.is_none(),
        "labels are nothing to a watch, its time is"
    );
    let change = json!({"spec": {"names": {"shortNames": ["wdg"]}}});
    server.merge(&definition, &change).await.ok();
    let error = eventually("the watch is refused", || async {
        if server.request("GET", &from).code().await != 200 {
            return None; // the real server is not ready yet
        }
        server.watch(&from).await.try_next().await
    })
    .await;
    assert_eq!((&*error.kind, &error.object["reason"]), ("ERROR", &json!("Expired")));
    let text = error.object["message"].as_str().expect("a text");
    let start = format!("too old resource version: {} (", version(&old));
    assert!(text.starts_with(&start), "{text}");
    let all = server.get(&list).await.ok();
    assert_eq!(all["items"][0]["metadata"]["name"], "a", "what is there can be read");
}

// [F11] [F17] an apply that says null where there must be a value is refused, where other writes leave the field out
async fn nulls_are_refused_in_applies(server: Server) {
    let namespace = server.namespace().await;
    let text = json!({"type": "string"});
    let kind = CustomKind::register(&server, |definition| {
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {
            "a": text, "n": {"type": "string", "nullable": true}, "d": {"type": "string", "default": "x"},
            "i": {"x-kubernetes-int-or-string": true}, "l": {"type": "array", "items": text},
            "o": {"type": "object", "properties": {"x": text}}, "r": {"type": "object", "required": ["x"], "properties": {"x": text}},
            "m": {"type": "object", "additionalProperties": text}, "u": {"x-kubernetes-preserve-unknown-fields": true},
        }});
    })
    .await;
    for (at, (fields, field, wanted)) in [
        (json!({"a": null}), "a", "string"),
        (json!({"i": null}), "i", "integer,string"),
        (json!({"l": null}), "l", "array"),
        (json!({"l": [null]}), "l[0]", "string"),
        (json!({"o": {"x": null}}), "o.x", "string"),
        (json!({"r": {"x": null}}), "r.x", "string"),
        (json!({"m": {"q": null}}), "m.q", "string"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("a{at}");
        let path = format!("{}?fieldManager=m", kind.at(&namespace, &format!("/{name}")));
        let patch = kind.object(&name, &fields);
        let answer = server.patch("application/apply-patch+yaml", &path, &patch).await;
        let message = format!("Invalid value: \"null\": {field} in body must be of type {wanted}: \"null\"");
        answer.invalid(
            &kind.group,
            "Widget",
            &name,
            &[("FieldValueTypeInvalid", field, &message)],
        );
    }
    for (name, fields) in [
        ("n", json!({"n": null})),
        ("d", json!({"d": null})),
        ("u", json!({"u": null})),
    ] {
        let path = format!("{}?fieldManager=m", kind.at(&namespace, &format!("/{name}")));
        let patch = kind.object(name, &fields);
        let object = server
            .patch("application/apply-patch+yaml", &path, &patch)
            .await
            .created();
        assert_eq!(object["d"], "x", "{name}");
    }
    // A map of which an apply gives everything up is null, unless it goes itself.
    let path = format!("{}?fieldManager=m", kind.at(&namespace, "/e"));
    let apply = async |fields| {
        let patch = kind.object("e", &fields);
        server.patch("application/apply-patch+yaml", &path, &patch).await
    };
    apply(json!({"o": {"x": "1"}})).await.created();
    let message = "Invalid value: \"null\": o in body must be of type object: \"null\"";
    let causes = [("FieldValueTypeInvalid", "o", message)];
    apply(json!({"o": {}}))
        .await
        .invalid(&kind.group, "Widget", "e", &causes);
    assert_eq!(apply(json!({})).await.ok().get("o"), None);
    let created = server
        .post(&kind.at(&namespace, ""), &kind.object("c", &json!({"a": null})))
        .await;
    assert_eq!(created.created().get("a"), None);
}

cases![
    odd_names_lists_and_versions,
    components_have_a_name_of_their_own,
    the_metadata_of_a_status_is_checked,
    options_may_be_protobuf,
    parts_of_namespaces_are_checked,
    versions_that_go_warn,
    writes_of_a_status_are_not_warned_of_finalizers,
    subresources_come_before_names,
    refusals_name_prefixes,
    some_kinds_have_their_own_preconditions,
    events_are_looked_at_in_an_order,
    nulls_are_refused_in_applies,
    watches_begin_anew_when_a_definition_changes,
];
