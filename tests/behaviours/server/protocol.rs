//! Paths, methods, media types and bodies: the errors that every client meets. [F18]

use serde_json::{Value, json};

use super::texts::{NO_RESOURCE, NOT_ALLOWED, UNKNOWN_FORMAT};
use crate::harness::{Server, cases};

// [F18] absent objects: a Status with the resource's name and group
async fn absent_objects_are_not_found(server: Server) {
    let namespace = server.namespace().await;
    let table = [
        (namespace.at("configmaps/x"), "configmaps", ""),
        (namespace.at("pods/x"), "pods", ""),
        (namespace.of("apps/v1", "deployments/x"), "deployments", "apps"),
        (
            namespace.of("coordination.k8s.io/v1", "leases/x"),
            "leases",
            "coordination.k8s.io",
        ),
        ("/api/v1/nodes/x".to_owned(), "nodes", ""),
        ("/api/v1/namespaces/x".to_owned(), "namespaces", ""),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/x".to_owned(),
            "clusterroles",
            "rbac.authorization.k8s.io",
        ),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/x".to_owned(),
            "customresourcedefinitions",
            "apiextensions.k8s.io",
        ),
        ("/api/v1/namespaces/absent/configmaps/x".to_owned(), "configmaps", ""),
    ];
    for (path, resource, group) in table {
        let (subject, details) = if group.is_empty() {
            (resource.to_owned(), json!({"name": "x", "kind": resource}))
        } else {
            (
                format!("{resource}.{group}"),
                json!({"name": "x", "group": group, "kind": resource}),
            )
        };
        server
            .get(&path)
            .await
            .is(404, "NotFound", &format!("{subject} \"x\" not found"), details);
    }
    let upper = server.get(&namespace.at("configmaps/UPPER")).await;
    upper.is(
        404,
        "NotFound",
        "configmaps \"UPPER\" not found",
        json!({"name": "UPPER", "kind": "configmaps"}),
    );
    let empty = server.get("/api/v1/namespaces/absent/configmaps").await.ok();
    assert_eq!(
        empty["items"],
        json!([]),
        "a namespace that is absent is an empty one to a list"
    );
}

// [F18] absent paths: a Status inside a served group, plain text elsewhere
async fn absent_paths_are_not_found(server: Server) {
    let namespace = server.namespace().await;
    let here = namespace.name();
    let inside = [
        "/api/v2".to_owned(),
        "/api/v2/pods".to_owned(),
        "/api/v1/nope".to_owned(),
        namespace.at("nope"),
        namespace.at("nope/x"),
        "/apis/apps/v9".to_owned(),
        "/apis/apps/v9/deployments".to_owned(),
        "/apis/apps/v1/nope".to_owned(),
        "/api/v1/configmaps/a".to_owned(),
        "/api/v1/configmaps/a/b".to_owned(),
        namespace.at("configmaps/a/b/c/d"),
        namespace.at("nodes"),
        namespace.at("namespaces"),
        "/api/v1//configmaps".to_owned(),
        namespace.at("configmaps/a%2Fb"),
    ];
    for path in inside {
        server.get(&path).await.is(404, "NotFound", NO_RESOURCE, json!({}));
    }
    for path in [
        "/nope",
        "/apis/nope.example.com",
        "/apis/nope.example.com/v1",
        "/apis/nope.example.com/v1/x",
        "/API/v1/pods",
    ] {
        let answer = server.get(path).await;
        assert_eq!((answer.code, answer.text()), (404, "404 page not found\n"), "{path}");
        assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8", "{path}");
    }
    for path in [
        format!("/api/v1/namespaces/{here}/"),
        format!("/api/v1/namespaces/{here}/status"),
    ] {
        assert_eq!(server.get(&path).await.ok()["metadata"]["name"], here, "{path}");
    }
    assert_eq!(
        server.get(&namespace.at("configmaps/")).await.ok()["kind"],
        "ConfigMapList"
    );
    for path in ["..", "%2e%2e"] {
        let answer = server.get(&namespace.at(&format!("configmaps/{path}"))).await;
        answer.is(
            400,
            "BadRequest",
            "Name parameter invalid: \"..\": may not be '..'",
            Value::Null,
        );
    }
}

// [F18] methods that a path does not have: 405
async fn refuses_other_methods(server: Server) {
    let namespace = server.namespace().await;
    let (list, item) = (namespace.at("configmaps"), namespace.at("configmaps/a"));
    let all = "/api/v1/configmaps".to_owned();
    let table = [
        ("POST", item.clone()),
        ("PUT", list.clone()),
        ("PATCH", list.clone()),
        ("PATCH", all.clone()),
        ("POST", all.clone()),
        ("PUT", all.clone()),
        ("DELETE", all),
        ("DELETE", "/api/v1/namespaces".to_owned()),
        ("POST", "/api/v1/namespaces/x".to_owned()),
        ("OPTIONS", list.clone()),
        ("OPTIONS", item.clone()),
        ("FOO", list.clone()),
        ("GET", namespace.at("bindings")),
        ("POST", namespace.at("pods/x/status")),
        ("DELETE", namespace.at("pods/x/status")),
        ("GET", namespace.at("pods/x/binding")),
        ("GET", format!("/api/v1/namespaces/{}/finalize", namespace.name())),
        (
            "GET",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned(),
        ),
        ("POST", "/version".to_owned()),
        ("PUT", "/apis/apps/v1".to_owned()),
    ];
    for (method, path) in table {
        let answer = server.request(method, &path).json(&json!({})).send().await;
        answer.is(405, "MethodNotAllowed", NOT_ALLOWED, json!({}));
    }
    for path in [list, item] {
        assert_eq!(server.request("HEAD", &path).code().await, 405, "{path}");
    }
}

// [F18] bodies that are no object of the kind: 400
async fn refuses_bodies_that_are_no_object(server: Server) {
    let namespace = server.namespace().await;
    let send = async |body: &str| {
        server
            .request("POST", &namespace.at("configmaps"))
            .body("application/json", body)
            .send()
            .await
    };
    let unrecognized =
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error:";
    for (body, problem) in [
        ("", "unexpected end of JSON input (<empty>)"),
        ("{", "unexpected end of JSON input ({)"),
        ("[]", "json: cannot unmarshal array into Go value of type …"),
        ("\"x\"", "json: cannot unmarshal string into Go value of type …"),
        ("5", "json: cannot unmarshal number into Go value of type …"),
        (
            r#"{"metadata":{"name":"x"}} trailing"#,
            "invalid character 't' after top-level value …",
        ),
    ] {
        send(body)
            .await
            .is(400, "BadRequest", &format!("{unrecognized} {problem}"), Value::Null);
    }
    let handled = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap:";
    for (body, problem) in [
        (
            r#"{"metadata":5}"#,
            "json: cannot unmarshal number into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
        ),
        (
            r#"{"metadata":{"name":5}}"#,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
        ),
        (
            r#"{"metadata":{"name":"x","labels":{"a":5}}}"#,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            r#"{"metadata":{"name":"x"},"data":{"a":5}}"#,
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            r#"{"metadata":{"name":"x"},"data":[]}"#,
            "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            r#"{"metadata":{"name":"x","generation":"5"}}"#,
            "json: cannot unmarshal string into Go struct field ObjectMeta.metadata.generation of type int64",
        ),
        (
            r#"{"metadata":{"name":"x","generation":1.5}}"#,
            "json: cannot unmarshal number 1.5 into Go struct field ObjectMeta.metadata.generation of type int64",
        ),
        (
            r#"{"metadata":{"name":"x","generation":1e400}}"#,
            "json: cannot unmarshal number 1e400 into Go struct field ObjectMeta.metadata.generation of type int64",
        ),
        (
            r#"{"metadata":{"name":"x"},"binaryData":{"a":"!!"}}"#,
            "illegal base64 data at input byte 0",
        ),
        (
            r#"{"metadata":{"name":"x","creationTimestamp":"yesterday"}}"#,
            "parsing time \"yesterday\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"yesterday\" as \"2006\"",
        ),
    ] {
        send(body)
            .await
            .is(400, "BadRequest", &format!("{handled} {problem}"), Value::Null);
    }
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(20_000), "]".repeat(20_000));
    send(&deep).await.is(
        400,
        "BadRequest",
        &format!("{unrecognized} invalid character '[' exceeded max depth …"),
        Value::Null,
    );
}

// [F18] a body of another kind or version: 400; missing ones are filled in for built-in kinds
async fn refuses_bodies_of_another_kind(server: Server) {
    let namespace = server.namespace().await;
    let maps = namespace.at("configmaps");
    let object = |kind: &str, version: &str| json!({"kind": kind, "apiVersion": version, "metadata": {"name": "x"}});
    for (kind, version, problem) in [
        (
            "Pod",
            "v1",
            "converting (v1.Pod) to (core.ConfigMap): unknown conversion",
        ),
        (
            "DeleteOptions",
            "v1",
            "converting (v1.DeleteOptions) to (core.ConfigMap): unknown conversion",
        ),
        (
            "ConfigMap",
            "v2",
            "no kind \"ConfigMap\" is registered for version \"v2\" in scheme …",
        ),
        (
            "Nope",
            "v1",
            "no kind \"Nope\" is registered for version \"v1\" in scheme …",
        ),
        (
            "configmap",
            "v1",
            "no kind \"configmap\" is registered for version \"v1\" in scheme …",
        ),
    ] {
        let text = format!("{kind} in version {version:?} cannot be handled as a ConfigMap: {problem}");
        server
            .post(&maps, &object(kind, version))
            .await
            .is(400, "BadRequest", &text, Value::Null);
    }
    let text = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is registered for version \"apps/v1\" in scheme …";
    server
        .post(&maps, &object("ConfigMap", "apps/v1"))
        .await
        .is(400, "BadRequest", text, Value::Null);
    for (name, partial) in [
        ("k", json!({"kind": "ConfigMap"})),
        ("v", json!({"apiVersion": "v1"})),
        ("n", json!({})),
    ] {
        let mut partial = partial;
        partial["metadata"] = json!({"name": name});
        let created = server.post(&maps, &partial).await.created();
        assert_eq!(
            (&created["kind"], &created["apiVersion"]),
            (&json!("ConfigMap"), &json!("v1"))
        );
    }
}

// [F18] media types of bodies: JSON and YAML, JSON when none is given, otherwise 415
async fn reads_json_and_yaml(server: Server) {
    let namespace = server.namespace().await;
    let maps = namespace.at("configmaps");
    let send = async |kind: &str, body: &str| server.request("POST", &maps).body(kind, body).send().await;
    send("application/json; charset=utf-8", r#"{"metadata":{"name":"a"}}"#)
        .await
        .created();
    send("application/yaml", "metadata:\n  name: b\ndata:\n  k: \"1\"\n")
        .await
        .created();
    let mut bare = server.request("POST", &maps);
    bare = bare.raw(r#"{"metadata":{"name":"c"}}"#);
    bare.send().await.created();
    for kind in [
        "text/plain",
        "application/xml",
        "application/cbor",
        "garbage",
        "application/merge-patch+json",
        "*/*",
    ] {
        send(kind, r#"{"metadata":{"name":"d"}}"#)
            .await
            .is(415, "UnsupportedMediaType", UNKNOWN_FORMAT, Value::Null);
    }
    let yaml = send("application/yaml", "metadata:\n\tname: e\n").await;
    yaml.is(
        400,
        "BadRequest",
        "the object provided is unrecognized (must be of type ConfigMap): …",
        Value::Null,
    );
    let protobuf = send("application/vnd.kubernetes.protobuf", "no protobuf").await;
    let text = "the object provided is unrecognized (must be of type ConfigMap): provided data does not appear to be a protobuf \
        message, expected prefix …";
    protobuf.is(400, "BadRequest", text, Value::Null);
    let broken = send("application/vnd.kubernetes.protobuf", "k8s\0garbage").await;
    broken.is(
        400,
        "BadRequest",
        "the object provided is unrecognized (must be of type ConfigMap): …",
        Value::Null,
    );
}

// [F18] media types of answers: JSON unless another is asked for, otherwise 406
async fn refuses_to_answer_in_other_types(server: Server) {
    let namespace = server.namespace().await;
    for accept in ["application/json", "*/*", "", "application/json;q=0.5, */*;q=0.1"] {
        let answer = server
            .request("GET", &namespace.at("configmaps"))
            .header("accept", accept)
            .send()
            .await;
        assert_eq!(answer.ok()["kind"], "ConfigMapList", "{accept}");
        assert_eq!(answer.header("content-type"), "application/json", "{accept}");
    }
    for accept in ["text/html", "garbage", "application/*"] {
        let answer = server
            .request("GET", &namespace.at("configmaps/x"))
            .header("accept", accept)
            .send()
            .await;
        let body = answer.json();
        assert_eq!(
            (answer.code, &body["reason"]),
            (406, &json!("NotAcceptable")),
            "{answer}"
        );
    }
}

// [F18] bodies over 3 MiB: 413; a ConfigMap over 1 MiB: 422
async fn refuses_large_bodies(server: Server) {
    let namespace = server.namespace().await;
    namespace.config_map("a").await;
    let limit = 3 * 1024 * 1024;
    let object = |size: usize| {
        format!(
            r#"{{"metadata":{{"name":"big"}},"data":{{"a":"{}"}}}}"#,
            "x".repeat(size)
        )
    };
    let text = "Request entity too large: limit is 3145728";
    for (method, path, kind) in [
        ("POST", "configmaps", "application/json"),
        ("PUT", "configmaps/a", "application/json"),
        ("PATCH", "configmaps/a", "application/merge-patch+json"),
        ("DELETE", "configmaps/a", "application/json"),
    ] {
        let answer = server
            .request(method, &namespace.at(path))
            .body(kind, object(limit))
            .send()
            .await;
        answer.is(413, "RequestEntityTooLarge", text, Value::Null);
    }
    for size in [limit - 200, 1024 * 1024 + 1] {
        let answer = server
            .request("POST", &namespace.at("configmaps"))
            .body("application/json", object(size))
            .send()
            .await;
        answer.invalid(
            "",
            "ConfigMap",
            "big",
            &[(
                "FieldValueTooLong",
                "[]",
                "Too long: may not be more than 1048576 bytes",
            )],
        );
    }
    server
        .request("POST", &namespace.at("configmaps"))
        .body("application/json", object(1024 * 1024))
        .send()
        .await
        .created();
}

// [F18] [F14] what a body has too much or twice is named in warnings, or refused when strict
async fn unknown_and_duplicate_fields_are_warned_about(server: Server) {
    let namespace = server.namespace().await;
    let send = async |name: &str, query: &str| {
        let body = format!(r#"{{"metadata":{{"name":"{name}"}},"nope":1,"data":{{"a":"1","a":"2"}}}}"#);
        server
            .request("POST", &namespace.at(&format!("configmaps{query}")))
            .body("application/json", body)
            .send()
            .await
    };
    for (name, query) in [("a", ""), ("b", "?fieldValidation=Warn"), ("c", "?fieldValidation=")] {
        let answer = send(name, query).await;
        assert_eq!(answer.created()["data"], json!({"a": "2"}));
        let warnings: Vec<_> = answer
            .headers
            .get_all("warning")
            .iter()
            .map(|value| value.to_str().unwrap())
            .collect();
        assert_eq!(
            warnings,
            [
                r#"299 - "unknown field \"nope\"""#,
                r#"299 - "duplicate field \"data.a\"""#
            ],
            "{query}"
        );
    }
    let ignored = send("d", "?fieldValidation=Ignore").await;
    ignored.created();
    assert_eq!(ignored.header("warning"), "");
    let text = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"nope\", duplicate field \"data.a\"";
    send("e", "?fieldValidation=Strict")
        .await
        .is(400, "BadRequest", text, Value::Null);
}

// [F18] version and health
async fn tells_its_version_and_health(server: Server) {
    let answer = server.get("/version").await.ok();
    assert_eq!(
        (&answer["major"], &answer["minor"], &answer["gitVersion"]),
        (&json!("1"), &json!("37"), &json!("v1.37.2"))
    );
    for path in ["/healthz", "/livez", "/readyz"] {
        let answer = server.get(path).await;
        assert_eq!((answer.code, answer.text()), (200, "ok"), "{path}");
    }
}

// [F18] discovery: the old form of groups and resources
async fn discovery_lists_groups_and_resources(server: Server) {
    let core = server.get("/api").await.ok();
    assert_eq!(
        (&core["kind"], &core["versions"]),
        (&json!("APIVersions"), &json!(["v1"]))
    );
    let groups = server.get("/apis").await.ok();
    let find = |name: &str| {
        groups["groups"]
            .as_array()
            .unwrap()
            .iter()
            .find(|group| group["name"] == name)
            .cloned()
    };
    let apps = json!({"groupVersion": "apps/v1", "version": "v1"});
    assert_eq!(
        find("apps").unwrap(),
        json!({"name": "apps", "versions": [apps], "preferredVersion": apps})
    );
    assert_eq!(find("autoscaling").unwrap()["preferredVersion"]["version"], "v2");
    let group = server.get("/apis/apps").await.ok();
    let kind =
        json!({"kind": "APIGroup", "apiVersion": "v1", "name": "apps", "versions": [apps], "preferredVersion": apps});
    assert_eq!(group, kind);
    let list = server.get("/apis/apps/v1").await.ok();
    assert_eq!(
        (&list["kind"], &list["apiVersion"], &list["groupVersion"]),
        (&json!("APIResourceList"), &json!("v1"), &json!("apps/v1"))
    );
    let resource = |list: &Value, name: &str| {
        let mut found = list["resources"]
            .as_array()
            .unwrap()
            .iter()
            .find(|resource| resource["name"] == name)
            .cloned()
            .unwrap();
        found.as_object_mut().unwrap().remove("storageVersionHash");
        found
    };
    let verbs = json!([
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch"
    ]);
    let deployments = json!({"name": "deployments", "singularName": "deployment", "namespaced": true, "kind": "Deployment",
        "verbs": verbs, "shortNames": ["deploy"], "categories": ["all"]});
    assert_eq!(resource(&list, "deployments"), deployments);
    let status = json!({"name": "deployments/status", "singularName": "", "namespaced": true, "kind": "Deployment",
        "verbs": ["get", "patch", "update"]});
    assert_eq!(resource(&list, "deployments/status"), status);
    let list = server.get("/api/v1").await.ok();
    assert_eq!(list["groupVersion"], "v1");
    let namespaces = json!({"name": "namespaces", "singularName": "namespace", "namespaced": false, "kind": "Namespace",
        "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"], "shortNames": ["ns"]});
    assert_eq!(resource(&list, "namespaces"), namespaces);
}

cases![
    absent_objects_are_not_found,
    absent_paths_are_not_found,
    refuses_other_methods,
    refuses_bodies_that_are_no_object,
    refuses_bodies_of_another_kind,
    reads_json_and_yaml,
    refuses_to_answer_in_other_types,
    refuses_large_bodies,
    unknown_and_duplicate_fields_are_warned_about,
    tells_its_version_and_health,
    discovery_lists_groups_and_resources,
];
