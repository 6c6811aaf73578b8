//! Odd requests on which random comparison of the two servers found differences: queries, paths, media types, options
//! and the order in which an API server finds what is wrong.

use serde_json::{Value, json};

use super::texts::{MODIFIED, NO_RESOURCE, NOT_ALLOWED, SUBDOMAIN, UNKNOWN_FORMAT};
use crate::harness::{CustomKind, Server, cases};

fn parse_int(text: &str) -> String {
    format!("strconv.ParseInt: parsing {text:?}: invalid syntax")
}

// [F1] [F2] [F3] [F18] a query is read as Go reads it: what is malformed is not there, numbers come before selectors,
// selectors before combinations of options, and those before the names of fields
async fn queries_are_checked_in_order(server: Server) {
    let namespace = server.namespace().await;
    let list = async |query: &str| server.get(&namespace.at(&format!("configmaps?{query}"))).await;
    for query in [
        "limit=1;x",
        "limit=%zz",
        "fieldSelector=%",
        "limit=%4&a;b=c",
        "fieldSelector=%3D",
    ] {
        assert_eq!(list(query).await.ok()["kind"], "ConfigMapList", "{query}");
    }
    for (query, text) in [
        ("limit=", parse_int("")),
        ("timeoutSeconds=", parse_int("")),
        ("limit=x&timeoutSeconds=", parse_int("")),
        ("limit=&labelSelector=a+in+b", parse_int("")),
        ("limit=x&fieldSelector=nope%3D1&sendInitialEvents=true", parse_int("x")),
        (
            "continue=a%3Db&resourceVersion=-1",
            "invalid continue token: continue key is not valid: illegal base64 data at input byte 1".to_owned(),
        ),
        (
            "continue=e30",
            "invalid continue token: continue key is not valid: server does not recognize this encoded version "
                .to_owned(),
        ),
    ] {
        list(query).await.is(400, "BadRequest", &text, Value::Null);
    }
    list("sendInitialEvents=true&fieldSelector=nope%3D1").await.invalid(
        "meta.k8s.io",
        "ListOptions",
        "",
        &[(
            "FieldValueForbidden",
            "sendInitialEvents",
            "Forbidden: sendInitialEvents is forbidden for list",
        )],
    );
    let delete = async |query: &str| {
        server
            .request("DELETE", &namespace.at(&format!("configmaps/x?{query}")))
            .send()
            .await
    };
    delete("gracePeriodSeconds=")
        .await
        .is(400, "BadRequest", &parse_int(""), Value::Null);
    delete("gracePeriodSeconds=99999999999999999999").await.is(
        400,
        "BadRequest",
        "strconv.ParseInt: parsing \"99999999999999999999\": value out of range",
        Value::Null,
    );
    delete("propagationPolicy=").await.invalid(
        "meta.k8s.io",
        "DeleteOptions",
        "",
        &[(
            "FieldValueNotSupported",
            "propagationPolicy",
            r#"Unsupported value: "": supported values: "Foreground", "Background", "Orphan", "nil""#,
        )],
    );
    delete("dryRun=All&dryRun=x").await.invalid(
        "meta.k8s.io",
        "DeleteOptions",
        "",
        &[(
            "FieldValueNotSupported",
            "dryRun",
            r#"Unsupported value: ["All","x"]: supported values: "All""#,
        )],
    );
}

// [F5] a timeout beyond what Go's nanoseconds hold wraps, and a negative one ends the watch at once
async fn an_enormous_timeout_ends_a_watch_at_once(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps?watch=1&resourceVersion=0&timeoutSeconds=9223372036854775807");
    let answer = server.get(&path).await;
    assert_eq!((answer.code, answer.text()), (200, ""));
}

// [F18] paths and methods that nothing serves
async fn odd_paths_have_their_own_answers(server: Server) {
    let namespace = server.namespace().await;
    for path in [
        "/%zz".to_owned(),
        "/api/v1/%".to_owned(),
        namespace.at("configmaps/%zz"),
    ] {
        let answer = server.get(&path).await;
        assert_eq!((answer.code, answer.text()), (400, "400 Bad Request"), "{path}");
    }
    for (method, path) in [
        ("DELETE", "/api/v2".to_owned()),
        ("PUT", "/apis/apps/v9".to_owned()),
        ("OPTIONS", namespace.at("configmaps/a/nope")),
    ] {
        let answer = server.request(method, &path).send().await;
        answer.is(404, "NotFound", NO_RESOURCE, json!({}));
    }
    for path in ["/api", "/version/"] {
        let answer = server.request("PUT", path).send().await;
        answer.is(405, "MethodNotAllowed", NOT_ALLOWED, json!({}));
    }
    for (path, kind) in [
        ("/apis", "APIGroupList"),
        ("/apis/", "APIGroupList"),
        ("/apis/apps", "APIGroup"),
    ] {
        let answer = server.request("PUT", path).send().await;
        assert_eq!(answer.ok()["kind"], kind, "{path}");
    }
    let absent = server.get(&namespace.at("configmaps/a%22b")).await;
    absent.is(
        404,
        "NotFound",
        r#"configmaps "a\"b" not found"#,
        json!({"name": "a\"b", "kind": "configmaps"}),
    );
}

// [F4] [F18] the texts of a 406 and a 415: the router's, or the handler's where the router knows the media type
async fn media_types_that_cannot_be_had(server: Server) {
    let namespace = server.namespace().await;
    let known = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    let streams = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
    let router = format!("406: Not Acceptable\n\nAvailable representations: {known}");
    let table = [
        ("GET", "configmaps", "garbage", format!("{router}, {streams}")),
        ("GET", "configmaps/a", "garbage", router.clone()),
        ("POST", "configmaps", "garbage", router.clone()),
        ("DELETE", "configmaps", "text/html;as=Table;v=v1;g=meta.k8s.io", router),
    ];
    for (method, path, accept, text) in table {
        let request = server.request(method, &namespace.at(path)).header("accept", accept);
        request.send().await.is(406, "NotAcceptable", &text, json!({}));
    }
    for path in ["configmaps", "configmaps/a"] {
        for accept in [
            "application/json;as=Table",
            "application/json;as=Nope;v=v1;g=meta.k8s.io",
        ] {
            let request = server.request("GET", &namespace.at(path)).header("accept", accept);
            let text = format!("only the following media types are accepted: {known}");
            request.send().await.is(406, "NotAcceptable", &text, Value::Null);
        }
    }
    let kind = CustomKind::register(&server, |_| {}).await;
    for (method, path) in [("POST", ""), ("PUT", "/a"), ("DELETE", "/a")] {
        let request = server.request(method, &kind.at(&namespace, path));
        let answer = request.body("text/plain", "{}").send().await;
        answer.is(415, "UnsupportedMediaType", UNKNOWN_FORMAT, Value::Null);
    }
}

// [F10] a patch that is no JSON is refused before the object is looked for
async fn broken_patches_are_refused_before_absent_objects(server: Server) {
    let namespace = server.namespace().await;
    for kind in ["application/json-patch+json", "application/merge-patch+json"] {
        for body in ["", "[", "{} x"] {
            let request = server.request("PATCH", &namespace.at("configmaps/absent"));
            let answer = request.body(kind, body).send().await;
            answer.is(400, "BadRequest", "invalid JSON patch", Value::Null);
        }
        let request = server.request("PATCH", &namespace.at("configmaps/absent"));
        assert_eq!(request.body(kind, "null").send().await.code, 404, "{kind}");
    }
}

// [F8] [F9] names from a prefix, and what is found wrong before a given version
async fn creates_find_what_is_wrong_in_order(server: Server) {
    let namespace = server.namespace().await;
    namespace.config_map("a").await;
    let maps = namespace.at("configmaps");
    let taken = json!({"metadata": {"name": "a", "generateName": "g-"}});
    server.post(&maps, &taken).await.is(
        409,
        "AlreadyExists",
        "configmaps \"a\" already exists, the server was not able to generate a unique name for the object",
        json!({"name": "a", "kind": "configmaps", "retryAfterSeconds": 1}),
    );
    let invalid = |field: &'static str, name: &str| {
        (
            "FieldValueInvalid",
            field,
            format!("Invalid value: {name:?}: {SUBDOMAIN}"),
        )
    };
    let (reason, field, text) = invalid("metadata.generateName", "G_");
    let bad = json!({"metadata": {"name": "b", "generateName": "G_", "resourceVersion": "1"}});
    server
        .post(&maps, &bad)
        .await
        .invalid("", "ConfigMap", "b", &[(reason, field, &text)]);
    let created = json!({"metadata": {"name": "b", "generateName": "A-"}});
    assert_eq!(
        server.post(&maps, &created).await.code,
        201,
        "the letter before the dash is not looked at"
    );
    let lease = json!({"metadata": {"name": "l", "resourceVersion": "0x1"}});
    let path = namespace.of("coordination.k8s.io/v1", "leases/l");
    server.put(&path, &lease).await.is(
        500,
        "",
        "strconv.ParseUint: parsing \"0x1\": invalid syntax",
        Value::Null,
    );
    let stale = json!({"metadata": {"name": "a", "resourceVersion": "1"}});
    let text = format!("Operation cannot be fulfilled on configmaps \"a\": {MODIFIED}");
    let details = json!({"name": "a", "kind": "configmaps"});
    server
        .put(&namespace.at("configmaps/a"), &stale)
        .await
        .is(409, "Conflict", &text, details);
}

// [F8] the keys of config maps and secrets
async fn keys_are_names_of_files(server: Server) {
    const WORDS: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
        'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
    let namespace = server.namespace().await;
    for (resource, kind) in [("configmaps", "ConfigMap"), ("secrets", "Secret")] {
        for (key, problem) in [
            ("a b", WORDS),
            ("", WORDS),
            (".", "must not be '.'"),
            ("..", "must not be '..'"),
            ("..a", "must not start with '..'"),
            (&"x".repeat(254), "must be no more than 253 characters"),
        ] {
            let object = json!({"metadata": {"name": "a"}, "data": {key: "dg=="}});
            let text = format!("Invalid value: {key:?}: {problem}");
            server.post(&namespace.at(resource), &object).await.invalid(
                "",
                kind,
                "a",
                &[("FieldValueInvalid", &format!("data[{key}]"), &text)],
            );
        }
    }
    let twice = json!({"metadata": {"name": "a"}, "data": {"k": ""}, "binaryData": {"k": ""}});
    server.post(&namespace.at("configmaps"), &twice).await.invalid(
        "",
        "ConfigMap",
        "a",
        &[(
            "FieldValueInvalid",
            "data[k]",
            "Invalid value: \"k\": duplicate of key present in binaryData",
        )],
    );
}

// [F8] default values of small kinds, and the warning of one that is old
async fn small_kinds_have_their_defaults(server: Server) {
    let namespace = server.namespace().await;
    let secret = namespace.create("secrets", &json!({"metadata": {"name": "a"}})).await;
    assert_eq!(secret["type"], "Opaque");
    let policies = namespace.of("networking.k8s.io/v1", "networkpolicies");
    for (name, spec, types) in [
        ("a", json!({"podSelector": {}}), json!(["Ingress"])),
        (
            "b",
            json!({"podSelector": {}, "egress": [{}]}),
            json!(["Ingress", "Egress"]),
        ),
        (
            "c",
            json!({"podSelector": {}, "policyTypes": ["Egress"]}),
            json!(["Egress"]),
        ),
    ] {
        let policy = json!({"metadata": {"name": name}, "spec": spec});
        let created = server.post(&policies, &policy).await.created();
        assert_eq!(created["spec"]["policyTypes"], types, "{name}");
    }
    let class = json!({"metadata": {"name": crate::harness::unique()}, "value": 1});
    let created = server
        .post("/apis/scheduling.k8s.io/v1/priorityclasses", &class)
        .await
        .created();
    assert_eq!(created["preemptionPolicy"], "PreemptLowerPriority");
    let endpoints = server.get(&namespace.at("endpoints")).await;
    assert_eq!(
        endpoints.header("warning"),
        "299 - \"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice\""
    );
}

// [F18] the times of leases have exactly six digits of a second
async fn times_of_leases_have_six_digits(server: Server) {
    let namespace = server.namespace().await;
    let leases = namespace.of("coordination.k8s.io/v1", "leases");
    for (time, rest, element) in [
        ("x", "x", "2006"),
        ("2024-01-01T00:00:00Z", "Z", ".000000"),
        ("2024-01-01T00:00:00.123Z", ".123Z", ".000000"),
        ("2024-01-01T00:00:00.1234567Z", "7Z", "Z07:00"),
    ] {
        let lease = json!({"metadata": {"name": "a"}, "spec": {"renewTime": time}});
        let text = format!(
            "Lease in version \"v1\" cannot be handled as a Lease: parsing time {time:?} as \
             \"2006-01-02T15:04:05.000000Z07:00\": cannot parse {rest:?} as {element:?}"
        );
        server
            .post(&leases, &lease)
            .await
            .is(400, "BadRequest", &text, Value::Null);
    }
}

cases![
    queries_are_checked_in_order,
    an_enormous_timeout_ends_a_watch_at_once,
    odd_paths_have_their_own_answers,
    media_types_that_cannot_be_had,
    broken_patches_are_refused_before_absent_objects,
    creates_find_what_is_wrong_in_order,
    keys_are_names_of_files,
    small_kinds_have_their_defaults,
    times_of_leases_have_six_digits,
];
