//! Odd bytes and bodies on whose texts the random comparison (`differential`) found differences, each kind of them once.

use serde_json::{Value, json};

use super::texts::NAME_PART;
use crate::harness::{CustomKind, Server, cases};

// [F1] [F3] [F18] bytes of a query that are no text: in quotes as Go writes them, elsewhere replaced one by one
async fn queries_may_hold_any_bytes(server: Server) {
    let namespace = server.namespace().await;
    let get = async |query: &str| server.get(&namespace.at(&format!("configmaps?{query}"))).await;
    let bad = async |query: &str, text: &str| get(query).await.is(400, "BadRequest", text, Value::Null);
    bad(
        "limit=1%8A%22%07%C2%A0%F4%8F%BE%8A",
        r#"strconv.ParseInt: parsing "1\x8a\"\a\u00a0\U0010ff8a": invalid syntax"#,
    )
    .await;
    bad(
        "labelSelector=a%E2%82b",
        &format!(r#"unable to parse requirement: <nil>: Invalid value: "a\xe2\x82b": {NAME_PART}"#),
    )
    .await;
    bad(
        "labelSelector=a+%E2%82",
        "unable to parse requirement: found '\u{fffd}\u{fffd}', expected: in, notin, =, ==, !=, gt, lt",
    )
    .await;
    bad(
        "fieldSelector=%FF",
        "invalid selector: '\u{fffd}'; can't understand '\u{fffd}'",
    )
    .await;
    bad(
        "fieldSelector=no%91%3Dx",
        r#""no\x91" is not a known field selector: only "metadata.name", "metadata.namespace""#,
    )
    .await;
    let cause = |kind: &str, message: &str, field: &str| json!({"reason": kind, "message": message, "field": field});
    let refused = get("resourceVersion=1&resourceVersionMatch=%8A").await;
    // A value that is no plain string in Go is written as JSON, where such a byte is an escape.
    let text = r#"Unsupported value: "\ufffd": supported values: "Exact", "NotOlderThan", """#;
    assert_eq!(
        refused.json()["details"]["causes"],
        json!([cause("FieldValueNotSupported", text, "resourceVersionMatch")])
    );
}

// [F8] [F14] the options of a write may hold any bytes too
async fn options_may_hold_any_bytes(server: Server) {
    let namespace = server.namespace().await;
    let path = |query: &str| namespace.at(&format!("configmaps?{query}"));
    let create = async |query: &str| server.post(&path(query), &json!({"metadata": {"name": "a"}})).await;
    create("fieldValidation=%8A&dryRun=%8A").await.invalid(
        "meta.k8s.io",
        "CreateOptions",
        "",
        &[
            (
                "FieldValueNotSupported",
                "dryRun",
                r#"Unsupported value: ["\ufffd"]: supported values: "All""#,
            ),
            (
                "FieldValueNotSupported",
                "fieldValidation",
                r#"Unsupported value: "\x8a": supported values: "", "Ignore", "Strict", "Warn""#,
            ),
        ],
    );
    // Every character that cannot be printed is told, with its place in the bytes.
    let character =
        |code: &str, at: u8| format!(r#"Invalid value: "\x8aé\a\u00a0": invalid character {code} (at position {at})"#);
    create("fieldManager=%8A%C3%A9%07%C2%A0").await.invalid(
        "meta.k8s.io",
        "CreateOptions",
        "",
        &[
            ("FieldValueInvalid", "fieldManager", &character("U+0007", 3)),
            ("FieldValueInvalid", "fieldManager", &character("U+00A0", 4)),
        ],
    );
    create("fieldManager=%8A").await.created();
}

// [F18] names in paths may hold any bytes
async fn names_may_hold_any_bytes(server: Server) {
    let namespace = server.namespace().await;
    server.get(&namespace.at("configmaps/a%8A")).await.is(
        404,
        "NotFound",
        r#"configmaps "a\x8a" not found"#,
        json!({"name": "a\u{fffd}", "kind": "configmaps"}),
    );
    let put = json!({"metadata": {"name": "a\u{fffd}"}});
    server.put(&namespace.at("configmaps/a%8A"), &put).await.is(
        400,
        "BadRequest",
        "the name of the object (a\u{fffd}) does not match the name on the URL (a\u{fffd})",
        Value::Null,
    );
}

// [F10] [F18] a body is read as what it says to be, before that is found to be something else
async fn bodies_of_another_kind_are_read_first(server: Server) {
    let namespace = server.namespace().await;
    namespace.config_map("a").await;
    let path = namespace.at("configmaps/a");
    for (patch, why) in [
        (
            json!({"kind": "Pod"}),
            "converting (v1.Pod) to (core.ConfigMap): unknown conversion",
        ),
        (
            json!({"kind": "PodList"}),
            "converting (v1.PodList) to (core.ConfigMap): unknown conversion",
        ),
        (
            json!({"kind": "Deployment", "apiVersion": "apps/v1"}),
            "converting (v1.Deployment) to (core.ConfigMap): unknown conversion",
        ),
        (
            json!({"kind": "Status"}),
            "converting (v1.Status) to (core.ConfigMap): unknown conversion",
        ),
        (
            json!({"kind": "DeleteOptions"}),
            "converting (v1.DeleteOptions) to (core.ConfigMap): unknown conversion",
        ),
        (
            json!({"kind": "Pod", "spec": 5}),
            "json: cannot unmarshal number into Go struct field Pod.spec of type v1.PodSpec",
        ),
        (
            json!({"kind": "PodList", "items": 5}),
            "json: cannot unmarshal number into",
        ),
        (
            json!({"kind": "Status", "status": 5}),
            "json: cannot unmarshal number into",
        ),
        (
            json!({"kind": "Nope"}),
            "no kind \"Nope\" is registered for version \"v1\"",
        ),
        (
            json!({"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1"}),
            "no kind \"CustomResourceDefinition\" is registered for version \"apiextensions.k8s.io/v1\"",
        ),
    ] {
        let answer = server.merge(&path, &patch).await;
        let cause = answer.json()["details"]["causes"][0].clone();
        let message = cause["message"].as_str().unwrap_or_default();
        assert!(
            answer.code == 422 && cause["field"] == "patch" && message.contains(&format!("}}\": {why}")),
            "{patch}: {answer}"
        );
        let mut body = patch.clone();
        if body["apiVersion"].is_null() {
            body["apiVersion"] = "v1".into();
        }
        body["metadata"] = json!({"name": "a"});
        let (kind, version) = (body["kind"].as_str().unwrap(), body["apiVersion"].as_str().unwrap());
        let version = version.split('/').next_back().unwrap_or_default();
        let text = format!("{kind} in version {version:?} cannot be handled as a ConfigMap: {why}");
        for answer in [
            server.put(&path, &body).await,
            server.post(&namespace.at("configmaps"), &body).await,
        ] {
            let message = answer.json()["message"].as_str().unwrap_or_default().to_owned();
            assert!(answer.code == 400 && message.starts_with(&text), "{answer}");
        }
    }
    // Definitions are served by another program, which does not know the other kinds.
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}});
    let message = server.post(definition, &pod).await.json()["message"].clone();
    let text = "Pod in version \"v1\" cannot be handled as a CustomResourceDefinition: no kind \"Pod\" is registered";
    assert!(
        message.as_str().is_some_and(|message| message.starts_with(text)),
        "{message}"
    );
}

// [F26] a body of the other version that shares the storage is the wrong one for a write, and fine for a patch
async fn events_of_the_other_group_are_known(server: Server) {
    let namespace = server.namespace().await;
    let event = json!({
        "metadata": {"name": "a"}, "reason": "r", "message": "m", "type": "Normal",
        "involvedObject": {"kind": "Pod", "namespace": namespace.name(), "name": "p"},
    });
    server.post(&namespace.at("events"), &event).await.created();
    let mut other = event.clone();
    other["apiVersion"] = "events.k8s.io/v1".into();
    other["kind"] = "Event".into();
    let text = "the API version in the data (events.k8s.io/v1) does not match the expected API version (v1)";
    server
        .put(&namespace.at("events/a"), &other)
        .await
        .is(400, "BadRequest", text, Value::Null);
    let patch = json!({"apiVersion": "events.k8s.io/v1", "note": "n", "message": null, "involvedObject": null});
    let patch = [
        patch,
        json!({"regarding": event["involvedObject"], "deprecatedCount": 3}),
    ]
    .into_iter()
    .fold(json!({}), |mut all, part| {
        all.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
        all
    });
    let patched = server.merge(&namespace.at("events/a"), &patch).await.ok();
    assert_eq!(
        (&patched["apiVersion"], &patched["message"], &patched["count"]),
        (&json!("v1"), &json!("n"), &json!(3))
    );
}

// [F14] [F17] the metadata of custom resources is looked at in the order of its names
async fn metadata_of_custom_resources_is_sorted(server: Server) {
    let namespace = server.namespace().await;
    let kind = CustomKind::register(&server, |_| {}).await;
    let send = async |metadata: &str, query: &str| {
        let group = &kind.group;
        let body = format!(r#"{{"apiVersion":"{group}/v1","kind":"Widget","metadata":{metadata}}}"#);
        let request = server.request("POST", &format!("{}{query}", kind.at(&namespace, "")));
        request.body("application/json", body).send().await
    };
    let answer = send(
        r#"{"name":"a","z\"":1,"b":1,"deletionTimestamp":null}"#,
        "?fieldValidation=Strict",
    )
    .await;
    let text = r#"Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "metadata.b", unknown field "metadata.z"""#;
    answer.is(400, "BadRequest", text, Value::Null);
    let answer = send(r#"{"deletionTimestamp":"x","creationTimestamp":"y","name":5}"#, "").await;
    let message = answer.json()["message"].as_str().unwrap_or_default().to_owned();
    assert!(
        answer.code == 400
            && message.ends_with(r#"parsing time "y" as "2006-01-02T15:04:05Z07:00": cannot parse "y" as "2006""#),
        "{answer}"
    );
}

// [F8] [F26] a pod whose name is no good host name is warned of
async fn names_of_pods_are_warned_of(server: Server) {
    let namespace = server.namespace().await;
    let create = async |metadata: Value| {
        let pod = json!({"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let answer = server.post(&namespace.at("pods"), &pod).await;
        let values = answer.headers.get_all("warning").iter();
        let warnings: Vec<String> = values.map(|value| value.to_str().unwrap().to_owned()).collect();
        (answer.code, warnings)
    };
    let warning = "299 - \"metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS \
                   label is recommended: [must not contain dots]\"";
    for (metadata, code, warned) in [
        (json!({"name": "a.b"}), 201, true),
        (json!({"name": "a.b"}), 409, true),
        (json!({"generateName": "a.b-"}), 201, true),
        (json!({"name": "a"}), 201, false),
        (json!({"name": "a.b", "labels": {"-": ""}}), 422, false),
    ] {
        let expected = if warned { vec![warning.to_owned()] } else { Vec::new() };
        assert_eq!(create(metadata.clone()).await, (code, expected), "{metadata}");
    }
}

// [F18] paths that end where they should say what they are about, and paths that begin with nothing
async fn paths_without_a_target(server: Server) {
    for path in ["/api/v1/watch", "/apis/apps/v1/proxy/", "/api/v1/watch?a=b&timeout=x"] {
        let answer = server.get(path).await;
        let shown = path.replace('&', "&amp;");
        let text = format!(
            "Internal Server Error: \"{shown}\": failed to create RequestInfo: unable to determine kind and namespace from \
             url, {shown}\n"
        );
        assert_eq!((answer.code, answer.text()), (500, text.as_str()), "{path}");
    }
    for path in ["//api/v1/nodes", "//apis/apps/v1/deployments", "//apis//apps/v1"] {
        let answer = server.get(path).await;
        assert_eq!((answer.code, answer.text()), (404, "404 page not found\n"), "{path}");
    }
}

// [F8] [F18] what a body has twice is read into the same place: objects come together, a wrong type is one anywhere. Of a
// merge patch the last counts.
async fn repeated_fields_come_together(server: Server) {
    let namespace = server.namespace().await;
    let send = async |method: &str, path: &str, form: &str, body: &str| {
        let request = server.request(method, &namespace.at(path));
        request.body(form, body.to_owned()).send().await
    };
    let json = "application/json";
    let twice =
        r#"{"metadata":{"name":"a"},"data":{"a":"1","b":"2"},"metadata":{"labels":{"x":"y"}},"data":{"b":"3"}}"#;
    let made = send("POST", "configmaps", json, twice).await.created();
    assert_eq!(made["data"], json!({"a": "1", "b": "3"}));
    assert_eq!(
        (&made["metadata"]["name"], &made["metadata"]["labels"]),
        (&json!("a"), &json!({"x": "y"}))
    );
    let wrong = send(
        "POST",
        "configmaps",
        json,
        r#"{"metadata":{"name":"b"},"data":{"a":{},"a":"b"}}"#,
    )
    .await;
    let text = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal object into Go struct \
                field ConfigMap.data of type string";
    assert_eq!(wrong.expect(400)["message"], text);
    let patch = r#"{"metadata":{"labels":{"p":"q"},"name":"c"},"metadata":{"labels":{"r":"s"}}}"#;
    let patched = send("PATCH", "configmaps/a", "application/merge-patch+json", patch)
        .await
        .ok();
    assert_eq!(patched["metadata"]["labels"], json!({"x": "y", "r": "s"}));
}

// [F8] [F18] YAML as the real server's library reads it: indented, with merges, with keys that are no texts
async fn yaml_is_that_of_go(server: Server) {
    let namespace = server.namespace().await;
    let create = async |body: &str| {
        let request = server.request("POST", &namespace.at("configmaps?dryRun=All"));
        request.body("application/yaml", body.to_owned()).send().await
    };
    let data = create(" metadata:\n   name: a\n data:\n   <<: {a: x, b: w}\n   a: z\n   1: 'on'\n").await;
    assert_eq!(data.created()["data"], json!({"a": "z", "b": "w", "1": "on"}));
    for (body, why) in [
        ("%YAML 1.2\n---\n{}", "yaml: found incompatible YAML document"),
        ("metadata: {name: \"a\\/\"}", "yaml: found unknown escape character"),
        (
            "data: {~: x}",
            "unsupported map key of type: %!s(<nil>), key: <nil>, value: \"x\"",
        ),
        ("data: .inf", "json: unsupported value: +Inf"),
        ("data: &d [*d]", "yaml: anchor 'd' value contains itself"),
    ] {
        let refused = create(body).await;
        let message = refused.expect(400)["message"].as_str().unwrap_or_default().to_owned();
        let text = format!("the object provided is unrecognized (must be of type ConfigMap): {why} (");
        assert!(message.starts_with(&text), "{body}: {message}");
    }
}

// [F4] metadata alone has the version that was asked for
async fn metadata_has_the_version_asked_for(server: Server) {
    let namespace = server.namespace().await;
    namespace.config_map("a").await;
    for (path, form) in [
        ("configmaps/a", "PartialObjectMetadata"),
        ("configmaps", "PartialObjectMetadataList"),
    ] {
        for version in ["v1", "v1beta1"] {
            let accept = format!("application/json;as={form};g=meta.k8s.io;v={version}");
            let answer = server
                .request("GET", &namespace.at(path))
                .header("accept", &accept)
                .send()
                .await;
            assert_eq!(answer.ok()["apiVersion"], format!("meta.k8s.io/{version}"));
        }
    }
}

cases![
    paths_without_a_target,
    repeated_fields_come_together,
    yaml_is_that_of_go,
    metadata_has_the_version_asked_for,
    queries_may_hold_any_bytes,
    options_may_hold_any_bytes,
    names_may_hold_any_bytes,
    bodies_of_another_kind_are_read_first,
    events_of_the_other_group_are_known,
    metadata_of_custom_resources_is_sorted,
    names_of_pods_are_warned_of,
];
