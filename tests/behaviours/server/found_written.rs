//! Requests of clients that make mistakes, on which a comparison by hand (`differential::written`) found differences, each
//! kind of them once.

use serde_json::{Value, json};

use super::texts::{NO_RESOURCE, NOT_ALLOWED};
use crate::harness::{CustomKind, Server, cases, unique};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const INVALID: &str = "FieldValueInvalid";
const UNFIT: &str = "the object provided is unrecognized (must be of type ConfigMap)";

// [F8] [F18] times are read as Go reads them, and quoted in a way of their own
async fn times_are_go_s(server: Server) {
    let namespace = server.namespace().await;
    let create = async |time: &str| {
        let map = json!({"metadata": {"name": unique(), "creationTimestamp": time}});
        server.post(&namespace.at("configmaps?dryRun=All"), &map).await
    };
    create("2024-01-01T1:02:03Z").await.created();
    let layout = "\"2006-01-02T15:04:05Z07:00\"";
    for (time, why) in [
        (
            "é\"",
            format!(r#""\xc3\xa9\"" as {layout}: cannot parse "\xc3\xa9\"" as "2006""#),
        ),
        (
            "2024-01-01T:02:03Z",
            format!(r#""2024-01-01T:02:03Z" as {layout}: cannot parse ":02:03Z" as "15""#),
        ),
        (
            "2024-01-01T00:00:00x25:00",
            r#""2024-01-01T00:00:00x25:00": time zone offset hour out of range"#.to_owned(),
        ),
    ] {
        let text = format!("ConfigMap in version \"v1\" cannot be handled as a ConfigMap: parsing time {why}");
        create(time).await.is(400, "BadRequest", &text, Value::Null);
    }
}

// [F8] [F12] [F18] a group without a version is no API version, unless it is the group that is meant
async fn groups_without_a_version_name_nothing(server: Server) {
    let namespace = server.namespace().await;
    let body = json!({"apiVersion": "v1/", "kind": "ConfigMap"});
    let missing = format!("Object 'apiVersion' is missing in '{body}'");
    let text = format!("ConfigMap in version \"\" cannot be handled as a ConfigMap: {missing}");
    server
        .post(&namespace.at("configmaps"), &body)
        .await
        .is(400, "BadRequest", &text, Value::Null);
    server
        .delete_with(&namespace.at("configmaps/absent"), &body)
        .await
        .is(400, "BadRequest", &missing, Value::Null);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/", "metadata": {"name": "a"}});
    server
        .post(&namespace.of("rbac.authorization.k8s.io/v1", "roles"), &role)
        .await
        .created();
}

// [F8] [F18] versions that are no longer served are known all the same
async fn old_versions_are_known(server: Server) {
    let namespace = server.namespace().await;
    let deployments = namespace.of("apps/v1", "deployments");
    for version in ["apps/v1beta1", "extensions/v1beta1"] {
        let body = json!({"apiVersion": version, "kind": "Deployment", "metadata": {"name": "a"}});
        let text = format!("the API version in the data ({version}) does not match the expected API version (apps/v1)");
        server
            .post(&deployments, &body)
            .await
            .is(400, "BadRequest", &text, Value::Null);
        let text = "Deployment in version \"v1beta1\" cannot be handled as a ConfigMap: converting (v1beta1.Deployment) to \
                    (core.ConfigMap): unknown conversion";
        server
            .post(&namespace.at("configmaps"), &body)
            .await
            .is(400, "BadRequest", text, Value::Null);
    }
    // They are read as what they say to be.
    let other = json!({"apiVersion": "v1", "metadata": {"name": "a"}, "regarding": {}});
    let events = namespace.of("events.k8s.io/v1", "events");
    let answer = server.post(&events, &other).await;
    let text = "the API version in the data (v1) does not match the expected API version (events.k8s.io/v1)";
    answer.is(400, "BadRequest", text, Value::Null);
    assert_eq!(answer.header("warning"), "299 - \"unknown field \\\"regarding\\\"\"");
    let strict = server.post(&format!("{events}?fieldValidation=Strict"), &other).await;
    let text =
        "Event in version \"v1\" cannot be handled as a Event: strict decoding error: unknown field \"regarding\"";
    strict.is(400, "BadRequest", text, Value::Null);
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition"});
    let text = "the API version in the data (apiextensions.k8s.io/v1beta1) does not match the expected API version \
                (apiextensions.k8s.io/v1)";
    server
        .post(DEFINITIONS, &definition)
        .await
        .is(400, "BadRequest", text, Value::Null);
}

// [F8] [F18] the names of the system's own priority classes are not for others
async fn priority_classes_of_the_system_have_their_names(server: Server) {
    let path = "/apis/scheduling.k8s.io/v1/priorityclasses?dryRun=All";
    for (name, why) in [
        ("system-x", "system-x is not a known system priority class"),
        (
            "system-node-critical",
            "value of system-node-critical PriorityClass must be 2000001000",
        ),
    ] {
        let class = json!({"metadata": {"name": name, "labels": {"-": ""}}, "value": 5});
        let refused = server.post(path, &class).await;
        let causes = &refused.expect(422)["details"]["causes"];
        assert_eq!(
            causes[0]["field"], "metadata.labels",
            "what is wrong with any object comes first"
        );
        let text = format!(
            "Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: {why}"
        );
        let cause = json!({"reason": "FieldValueForbidden", "message": text, "field": "metadata.name"});
        assert_eq!(causes[1], cause);
    }
}

// [F8] [F18] what is wrong with YAML, in the words of the parser, with the line if it is not the first
async fn mistakes_in_yaml_are_told(server: Server) {
    let namespace = server.namespace().await;
    let create = async |body: &[u8]| {
        let request = server.request("POST", &namespace.at("configmaps?dryRun=All"));
        request.body("application/yaml", body).send().await
    };
    for (body, why) in [
        (b"metadata: *nope".as_slice(), "unknown anchor 'nope' referenced"),
        (b"a: b: c", "mapping values are not allowed in this context"),
        (
            b"x: y\na: b: c",
            "line 2: mapping values are not allowed in this context",
        ),
        (
            b"metadata:\n\tname: a\n",
            "line 2: found character that cannot start any token",
        ),
        (b"@bad", "found character that cannot start any token"),
        (b"metadata: {name: a\n", "line 1: did not find expected ',' or '}'"),
        (b"{unclosed", "line 1: did not find expected ',' or '}'"),
        (b"a: [\n", "line 1: did not find expected node content"),
        (b"\"unclosed", "found unexpected end of stream"),
        (
            b"metadata:\n  name: a\n data:\n  k: v\n",
            "line 2: did not find expected key",
        ),
        (b"\0", "control characters are not allowed"),
        (b"a: \"\xff\"", "invalid leading UTF-8 octet"),
        (b"a: \"\xc3\"", "invalid trailing UTF-8 octet"),
        (b"a: \xc3", "incomplete UTF-8 octet sequence"),
        (b"%BAD 1\n---\na: b\n", "found unknown directive name"),
    ] {
        let answer = create(body).await;
        let message = answer.expect(400)["message"].as_str().unwrap_or_default().to_owned();
        let text = format!("{UNFIT}: yaml: {why} (");
        assert!(message.starts_with(&text), "{}: {message}", body.escape_ascii());
    }
    let repeated = create(b"metadata:\n  name: a\n  name: b\n").await;
    assert_eq!(
        (repeated.code, repeated.header("warning")),
        (201, r#"299 - "line 3: key \"name\" already set in map""#)
    );
}

// [F18] paths: slashes at the end do not count, and neither does a path that no verb of the resource needs
async fn paths_that_nobody_serves(server: Server) {
    let namespace = server.namespace().await;
    let kind = CustomKind::register(&server, |_| {}).await;
    for path in [namespace.at("configmaps//"), kind.at(&namespace, "//")] {
        assert_eq!(server.get(&path).await.code, 200, "{path}");
    }
    let watch = format!("/api/v1/watch/namespaces/{}/bindings", namespace.name());
    for path in ["/api/v1/bindings", &watch, &namespace.at("bindings/a"), "/version/x"] {
        let answer = server.get(path).await;
        answer.is(404, "NotFound", NO_RESOURCE, json!({}));
    }
    let answer = server.get(&namespace.at("bindings")).await;
    answer.is(405, "MethodNotAllowed", NOT_ALLOWED, json!({}));
    let nobody = server.get("/apis//v1/pods").await;
    assert_eq!((nobody.code, nobody.text()), (404, "404 page not found\n"));
}

// [F2] [F18] tokens are read as JSON
async fn tokens_are_json(server: Server) {
    let namespace = server.namespace().await;
    for (token, why) in [
        // null, [], {"v":"meta.k8s.io/v1","rv":"a","start":"a"}, {"V":5}
        ("bnVs%0AbA", "server does not recognize this encoded version "),
        ("%0D%0A", "unexpected end of JSON input"),
        (
            "W10",
            "json: cannot unmarshal array into Go value of type storage.continueToken",
        ),
        (
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6ImEiLCJzdGFydCI6ImEifQ",
            "json: cannot unmarshal string into Go struct field continueToken.rv of type int64",
        ),
        (
            "eyJWIjo1fQ",
            "json: cannot unmarshal number into Go struct field continueToken.v of type string",
        ),
    ] {
        let text = format!("invalid continue token: continue key is not valid: {why}");
        let refused = server.get(&namespace.at(&format!("configmaps?continue={token}"))).await;
        assert_eq!(refused.expect(400)["message"], text);
    }
}

// [F10] [F14] what is unknown or twice in a JSON patch is told in the order of the patch
async fn findings_of_json_patches_have_an_order(server: Server) {
    let namespace = server.namespace().await;
    namespace.config_map("a").await;
    let patch = r#"[{"nope":{"a":1,"a":2},"op":"add","op":"add","path":"/data","value":{"b":"1","b":"2"}}]"#;
    let request = server.request("PATCH", &namespace.at("configmaps/a"));
    let answer = request.body("application/json-patch+json", patch).send().await;
    let warnings = answer.headers.get_all("warning").iter();
    let warnings: Vec<&str> = warnings.map(|value| value.to_str().unwrap()).collect();
    assert_eq!(answer.code, 200, "{answer}");
    assert_eq!(
        warnings,
        [
            r#"299 - "json patch unknown field \"[0].nope\"""#,
            r#"299 - "json patch duplicate field \"[0].op\"""#,
            r#"299 - "json patch duplicate field \"[0].value.b\"""#,
            r#"299 - "duplicate field \"data.b\"""#,
        ]
    );
}

// [F10] [F17] a custom resource of another group is refused under its own name
async fn other_groups_are_named(server: Server) {
    let namespace = server.namespace().await;
    let kind = CustomKind::register(&server, |_| {}).await;
    let path = kind.at(&namespace, "");
    server.post(&path, &kind.object("a", &json!({}))).await.created();
    let must = format!("Invalid value: \"x.io/v1\": must be {}/v1", kind.group);
    server
        .merge(&format!("{path}/a"), &json!({"apiVersion": "x.io/v1"}))
        .await
        .invalid("x.io", "Widget", "a", &[(INVALID, "apiVersion", &must)]);
}

// [F18] a body is too large for those who read it only
async fn large_bodies_are_refused_late(server: Server) {
    let namespace = server.namespace().await;
    let kind = CustomKind::register(&server, |_| {}).await;
    let body = format!("{{\"data\":\"{}\"}}", "a".repeat(3_200_000));
    let send = async |method: &str, path: &str, form: &str| {
        let request = server.request(method, path);
        request.body(form, body.clone()).send().await.code
    };
    let json = "application/json";
    for (method, path, form, code) in [
        ("POST", namespace.at("configmaps?dryRun=x"), json, 413),
        ("PUT", namespace.at("configmaps/a?dryRun=x"), json, 413),
        (
            "PATCH",
            namespace.at("configmaps/a"),
            "application/merge-patch+json",
            413,
        ),
        ("DELETE", namespace.at("configmaps/a"), json, 413),
        ("POST", namespace.at("configmaps"), "text/plain", 415),
        ("POST", namespace.at("configmaps/a"), json, 405),
        ("POST", namespace.at("nopes"), json, 404),
        ("POST", kind.everywhere(), json, 404),
        ("POST", kind.at(&namespace, ""), json, 413),
    ] {
        assert_eq!(send(method, &path, form).await, code, "{method} {path}");
    }
}

// [F18] the time that a client gives a request is checked before all else
async fn times_of_requests_are_durations(server: Server) {
    let namespace = server.namespace().await;
    let head = "invalid timeout specified in the request URL - time:";
    for (path, why) in [
        (namespace.at("configmaps?timeout=5"), r#"missing unit in duration "5""#),
        (namespace.at("nopes?timeout=x"), r#"invalid duration "x""#),
        (
            "/nope?timeout=5%C3%A9".to_owned(),
            r#"unknown unit "\xc3\xa9" in duration "5\xc3\xa9""#,
        ),
    ] {
        let answer = server.get(&path).await;
        answer.is(400, "BadRequest", &format!("{head} {why}"), Value::Null);
    }
    let watch = namespace.at("configmaps?watch=1&timeoutSeconds=1&timeout=x");
    assert_eq!(server.request("GET", &watch).code().await, 200);
    server.get(&namespace.at("configmaps?timeout=1m0.5s")).await.ok();
}

// [F8] [F18] the fields of embedded structs are found there
async fn embedded_structs_are_named(server: Server) {
    let namespace = server.namespace().await;
    for (spec, field) in [
        (
            json!({"containers": [{"livenessProbe": {"httpGet": 5}}]}),
            "number into Go struct field Probe.spec.containers.livenessProbe.ProbeHandler.httpGet of type \
             v1.HTTPGetAction",
        ),
        (
            json!({"volumes": [{"name": "v", "emptyDir": "x"}]}),
            "string into Go struct field Volume.spec.volumes.VolumeSource.emptyDir of type v1.EmptyDirVolumeSource",
        ),
    ] {
        let pod = json!({"metadata": {"name": "a"}, "spec": spec});
        let answer = server.post(&namespace.at("pods"), &pod).await;
        let text = format!("Pod in version \"v1\" cannot be handled as a Pod: json: cannot unmarshal {field}");
        assert_eq!(answer.expect(400)["message"], text);
    }
}

cases![
    times_are_go_s,
    groups_without_a_version_name_nothing,
    old_versions_are_known,
    priority_classes_of_the_system_have_their_names,
    mistakes_in_yaml_are_told,
    paths_that_nobody_serves,
    tokens_are_json,
    findings_of_json_patches_have_an_order,
    other_groups_are_named,
    large_bodies_are_refused_late,
    times_of_requests_are_durations,
    embedded_structs_are_named,
];
