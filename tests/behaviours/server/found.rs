//! Odd requests on which the random comparison (`differential`) found differences, each kind of them once.

use serde_json::{Value, json};

use super::texts::{LABEL_VALUE, MODIFIED, NAME_PART, NO_RESOURCE, NOT_ALLOWED, SUBDOMAIN, UNKNOWN_FORMAT};
use crate::harness::{Answer, CustomKind, Server, cases, unique};

const KNOWN: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const JOB_WARNING: &str = "299 - \"child pods are preserved by default when jobs are deleted; set \
    propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning\"";

/// The fields of the causes of a 422, in order.
#[track_caller]
fn fields(answer: &Answer) -> Vec<String> {
    let status = answer.expect(422);
    let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
    causes
        .iter()
        .map(|cause| cause["field"].as_str().unwrap_or_default().replace("metadata.", ""))
        .collect()
}

// [F14] what is unknown in a body is warned of, also if something else refuses the request later
async fn warnings_come_with_errors_too(server: Server) {
    let namespace = server.namespace().await;
    namespace.config_map("a").await;
    let nope = "299 - \"unknown field \\\"nope\\\"\"";
    let (a, absent) = (namespace.at("configmaps/a"), namespace.at("configmaps/absent"));
    let body = |metadata: Value| json!({"nope": 1, "metadata": metadata});
    for (code, answer) in [
        (
            422,
            server.put(&a, &body(json!({"name": "a", "labels": {"-": ""}}))).await,
        ),
        (
            409,
            server
                .put(&a, &body(json!({"name": "a", "resourceVersion": "1"})))
                .await,
        ),
        (404, server.put(&absent, &body(json!({"name": "absent"}))).await),
        (
            409,
            server
                .post(&namespace.at("configmaps"), &body(json!({"name": "a"})))
                .await,
        ),
        (
            400,
            server
                .post(&namespace.at("configmaps"), &body(json!({"namespace": "x"})))
                .await,
        ),
        (422, server.merge(&a, &body(json!({"labels": {"-": ""}}))).await),
        (409, server.merge(&a, &body(json!({"resourceVersion": "1"}))).await),
        (400, server.merge(&a, &body(json!({"name": "b"}))).await),
    ] {
        assert_eq!((answer.code, answer.header("warning")), (code, nope), "{answer}");
    }
    for (code, answer) in [
        (404, server.merge(&absent, &body(json!({}))).await),
        (422, server.merge(&a, &json!({"nope": 1, "data": 5})).await),
        (400, server.put(&a, &json!({"nope": 1, "data": 5})).await),
    ] {
        assert_eq!((answer.code, answer.header("warning")), (code, ""), "{answer}");
    }
    // What a delete warns of does not depend on whether there is something to delete.
    let job = server.delete(&namespace.of("batch/v1", "jobs/absent")).await;
    assert_eq!((job.code, job.header("warning")), (404, JOB_WARNING));
}

// [F8] the warning of an old kind comes from its handler, which paths and methods that are not there do not reach
async fn old_kinds_warn_only_where_they_are_served(server: Server) {
    let namespace = server.namespace().await;
    for (method, path, warns) in [
        ("GET", "endpoints/absent", true),
        ("DELETE", "endpoints/absent", true),
        ("GET", "endpoints/a/nope", false),
        ("PUT", "endpoints", false),
        ("OPTIONS", "endpoints/a", false),
    ] {
        let answer = server.request(method, &namespace.at(path)).send().await;
        assert_eq!(answer.header("warning").is_empty(), !warns, "{answer}");
    }
    let request = server
        .request("GET", &namespace.at("endpoints"))
        .header("accept", "text/html");
    assert_eq!(request.send().await.header("warning"), "");
}

// [F9] an update is checked as any object, then for what may not change, then by the strategy of its kind
async fn updates_are_checked_in_the_order_of_the_kind(server: Server) {
    let namespace = server.namespace().await;
    let kind = CustomKind::register(&server, |_| {}).await;
    let patch = json!({"metadata": {
        "uid": "x", "generateName": "a b/", "labels": {"-": "b"}, "finalizers": ["plain"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o"}],
    }});
    let named = |name: &str| json!({"metadata": {"name": name}});
    let (config_map, secret) = (namespace.at("configmaps"), namespace.at("secrets"));
    let (lease, role) = (
        namespace.of("coordination.k8s.io/v1", "leases"),
        namespace.of("rbac.authorization.k8s.io/v1", "roles"),
    );
    let range = namespace.at("limitranges");
    let custom = kind.at(&namespace, "");
    let owner = "ownerReferences[0].uid";
    let all = ["generateName", "labels", owner, "uid"];
    for (collection, rest) in [
        (&config_map, vec!["finalizers[0]", "generateName"]),
        (&secret, vec!["finalizers[0]", "generateName"]),
        (&range, vec!["generateName", "finalizers[0]"]),
        (&role, vec!["finalizers[0]"]),
        (&lease, vec![]),
        (&custom, vec!["labels", owner, "uid", "labels", owner]),
    ] {
        let object = if *collection == custom {
            kind.object("a", &json!({}))
        } else {
            named("a")
        };
        server.post(collection, &object).await.created();
        let answer = server.merge(&format!("{collection}/a"), &patch).await;
        assert_eq!(fields(&answer), [&all, rest.as_slice()].concat(), "{answer}");
        let message = answer.json()["message"].as_str().unwrap_or_default().to_owned();
        assert_eq!(
            message.matches("ownerReferences").count(),
            1,
            "the text says each once: {message}"
        );
    }
    // The rule about finalizers without a domain is one of most kinds.
    for (collection, accepted) in [(&lease, true), (&config_map, false)] {
        let object = json!({"metadata": {"name": "f", "finalizers": ["plain"]}});
        let answer = server.post(collection, &object).await;
        assert_eq!(answer.code, if accepted { 201 } else { 422 }, "{answer}");
    }
    let answer = server
        .merge(
            &format!("{config_map}/a"),
            &json!({"metadata": {"labels": {"a": "-"}, "uid": "x"}}),
        )
        .await;
    answer.invalid(
        "",
        "ConfigMap",
        "a",
        &[
            (
                "FieldValueInvalid",
                "metadata.labels",
                &format!("Invalid value: \"-\": {LABEL_VALUE}"),
            ),
            (
                "FieldValueInvalid",
                "metadata.uid",
                "Invalid value: \"x\": field is immutable",
            ),
        ],
    );
}

// [F17] names of definitions: the rule of all names, then that of the kind, and none for one that is missing
async fn names_of_definitions_have_two_rules(server: Server) {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let must = "must be spec.names.plural+\".\"+spec.group";
    let group = format!("{}.example.com", unique());
    let mut definition = CustomKind::definition(&group);
    definition["metadata"] = json!({"name": "-a", "generateName": "G_", "labels": {"-": ""}});
    let invalid = |name: &str, text: &str| format!("Invalid value: {name:?}: {text}");
    server.post(path, &definition).await.invalid(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "-a",
        &[
            ("FieldValueInvalid", "metadata.generateName", &invalid("G_", SUBDOMAIN)),
            ("FieldValueInvalid", "metadata.generateName", &invalid("G_", must)),
            ("FieldValueInvalid", "metadata.name", &invalid("-a", SUBDOMAIN)),
            ("FieldValueInvalid", "metadata.name", &invalid("-a", must)),
            ("FieldValueInvalid", "metadata.labels", &invalid("-", NAME_PART)),
        ],
    );
    definition["metadata"] = json!({});
    server.post(path, &definition).await.invalid(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "",
        &[(
            "FieldValueRequired",
            "metadata.name",
            "Required value: name or generateName is required",
        )],
    );
}

// [F4] [F18] an Accept header is ranked by its qualities; a form that does not fit is refused when it is shown
async fn accept_headers_are_ranked(server: Server) {
    let namespace = server.namespace().await;
    namespace.config_map("a").await;
    let get = async |path: &str, accept: &str| {
        server
            .request("GET", &namespace.at(path))
            .header("accept", accept)
            .send()
            .await
    };
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    for (accept, kind) in [
        ("application/json;q=0", "ConfigMap"),
        (&format!("application/json;q=0.5,{table}"), "Table"),
        (&format!("*/*,{table}"), "Table"),
        (&format!("{table};q=0.5,application/json"), "ConfigMap"),
        ("application/*,application/json;q=0.1", "ConfigMap"),
    ] {
        assert_eq!(get("configmaps/a", accept).await.ok()["kind"], kind, "{accept}");
    }
    // Half of a form is none.
    for accept in ["application/json;v=v1", "application/json;g=meta.k8s.io"] {
        let text = format!("only the following media types are accepted: {KNOWN}");
        get("configmaps/a?resourceVersion=x", accept)
            .await
            .is(406, "NotAcceptable", &text, Value::Null);
    }
    let list = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    assert_eq!(get("configmaps/absent", list).await.code, 404);
    get("configmaps/a", list).await.is(
        406,
        "NotAcceptable",
        "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)",
        Value::Null,
    );
    let one = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    assert_eq!(get("configmaps?limit=x", one).await.code, 400);
    get("configmaps", one).await.is(
        406,
        "NotAcceptable",
        "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)",
        Value::Null,
    );
    let create = server
        .request("POST", &namespace.at("configmaps"))
        .header("accept", list)
        .json(&json!({"metadata": {"name": "b"}}));
    assert_eq!(create.send().await.code, 406);
    assert_eq!(
        server.get(&namespace.at("configmaps/b")).await.code,
        200,
        "it was created all the same"
    );
}

// [F18] the documents of discovery have forms too
async fn documents_are_not_tables(server: Server) {
    let kind = CustomKind::register(&server, |_| {}).await;
    let get = async |path: &str, accept: &str| server.request("GET", path).header("accept", accept).send().await;
    let (group, version) = (format!("/apis/{}", kind.group), format!("/apis/{}/v1", kind.group));
    for path in [
        "/api",
        "/apis",
        "/api/v1",
        "/apis/apps",
        "/apis/apps/v1",
        &group,
        &version,
    ] {
        let text = format!("only the following media types are accepted: {KNOWN}");
        let answer = get(path, "application/json;as=Table;v=v1;g=meta.k8s.io").await;
        answer.is(406, "NotAcceptable", &text, Value::Null);
    }
    for path in ["/api", "/api/v1", "/apis/apps/v1"] {
        let text = format!("406: Not Acceptable\n\nAvailable representations: {KNOWN}");
        get(path, "text/html").await.is(406, "NotAcceptable", &text, json!({}));
    }
    let text = "406: Not Acceptable\n\nAvailable representations: application/json";
    get("/version", "text/html")
        .await
        .is(406, "NotAcceptable", text, json!({}));
    for method in ["GET", "POST"] {
        let answer = server.request(method, "/openapi/v3/nope").send().await;
        assert_eq!((answer.code, answer.text()), (404, ""));
        let answer = server.request(method, &version).send().await;
        assert_eq!(
            answer.ok()["kind"],
            "APIResourceList",
            "custom groups do not look at the method"
        );
    }
}

// [F18] a Content-Type is read as Go reads it; those of patches are compared as they are written
async fn malformed_content_types_name_nothing(server: Server) {
    let namespace = server.namespace().await;
    namespace.config_map("a").await;
    for content_type in [
        ";",
        "application/json;x",
        "application/json; x=y; x=z",
        "application",
        "application/json x",
    ] {
        let request = server.request("POST", &namespace.at("configmaps"));
        let answer = request.body(content_type, "{}").send().await;
        answer.is(415, "UnsupportedMediaType", UNKNOWN_FORMAT, Value::Null);
    }
    for content_type in [
        "application/json;",
        "APPLICATION/JSON",
        "application/json; charset=latin1",
    ] {
        let request = server.request("POST", &namespace.at("configmaps?dryRun=All"));
        let body = r#"{"metadata": {"name": "b"}}"#;
        request.body(content_type, body).send().await.created();
    }
    for (content_type, code) in [
        ("application/merge-patch+json;x", 200),
        ("APPLICATION/MERGE-PATCH+JSON", 415),
    ] {
        let request = server.request("PATCH", &namespace.at("configmaps/a"));
        assert_eq!(
            request.body(content_type, "{}").send().await.code,
            code,
            "{content_type}"
        );
    }
}

// [F18] a path with nothing in the place of a namespace or of a name
async fn empty_segments_are_parameters_that_are_missing(server: Server) {
    const MISSING: &str = "Namespace parameter required.";
    let kind = CustomKind::register(&server, |_| {}).await;
    let namespace = server.namespace().await;
    let of_nobody = "/api/v1/namespaces//configmaps";
    for path in [format!("{of_nobody}/a"), "/api/v1/namespaces//pods/a/status".to_owned()] {
        server.get(&path).await.is(400, "BadRequest", MISSING, Value::Null);
        server
            .merge(&path, &json!({}))
            .await
            .is(400, "BadRequest", MISSING, Value::Null);
    }
    // A collection is read before anything of it is deleted, and it is read in all namespaces.
    let none = format!("{of_nobody}?labelSelector=of%3D{}", namespace.name());
    assert_eq!(server.delete(&none).await.ok()["items"], json!([]));
    let labelled = json!({"metadata": {"name": "a", "labels": {"of": namespace.name()}}});
    server.post(&namespace.at("configmaps"), &labelled).await.created();
    for path in [none.as_str(), of_nobody] {
        server.delete(path).await.is(400, "BadRequest", MISSING, Value::Null);
    }
    server.get(&namespace.at("configmaps/a")).await.ok();
    let named = json!({"metadata": {"name": "a"}});
    server.post(of_nobody, &named).await.invalid(
        "",
        "ConfigMap",
        "a",
        &[("FieldValueRequired", "metadata.namespace", "Required value")],
    );
    assert_eq!(server.get(of_nobody).await.ok()["kind"], "ConfigMapList");
    server
        .get("/api/v1/namespaces//status")
        .await
        .is(400, "BadRequest", "name must be provided", Value::Null);
    let custom = server
        .get(&format!("/apis/{}/v1/namespaces//widgets/a", kind.group))
        .await;
    assert_eq!((custom.code, custom.text()), (404, "404 page not found\n"));
}

// [F5] the old form of a watch has one method, but for custom resources
async fn old_watches_of_custom_resources_take_all_methods(server: Server) {
    let namespace = server.namespace().await;
    let kind = CustomKind::register(&server, |_| {}).await;
    for method in ["PUT", "DELETE", "OPTIONS"] {
        let built_in = format!("/api/v1/watch/namespaces/{}/configmaps/a", namespace.name());
        let answer = server.request(method, &built_in).send().await;
        answer.is(405, "MethodNotAllowed", NOT_ALLOWED, json!({}));
        let custom = format!(
            "/apis/{}/v1/watch/namespaces/{}/widgets/a",
            kind.group,
            namespace.name()
        );
        let answer = server
            .request(method, &format!("{custom}?timeoutSeconds=1"))
            .send()
            .await;
        assert_eq!((answer.code, answer.text()), (200, ""));
    }
    let path = format!("/api/v1/watch/namespaces/{}/configmaps/a/status", namespace.name());
    server.get(&path).await.is(404, "NotFound", NO_RESOURCE, json!({}));
}

// [F9] [F18] a name that no object can have is found by the storage: after what is wrong with a body
async fn impossible_names_are_found_late(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a%25b");
    let text = "Name parameter invalid: \"a%b\": may not contain '%'";
    server.get(&path).await.is(400, "BadRequest", text, Value::Null);
    server.delete(&path).await.is(400, "BadRequest", text, Value::Null);
    server.put(&path, &json!({"metadata": {"name": "a"}})).await.is(
        400,
        "BadRequest",
        "the name of the object (a) does not match the name on the URL (a%b)",
        Value::Null,
    );
    server
        .put(&path, &json!({"metadata": {"name": "a%b"}}))
        .await
        .is(400, "BadRequest", text, Value::Null);
}

// [F9] the status of a Service, too, is created by a PUT
async fn the_status_of_an_absent_service_is_created(server: Server) {
    let namespace = server.namespace().await;
    let service = json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}});
    server.put(&namespace.at("services/a/status"), &service).await.created();
    assert_eq!(server.get(&namespace.at("services/a")).await.code, 200);
    let bad = json!({"metadata": {"name": "b", "resourceVersion": "1"}});
    let stale = server
        .put(
            &namespace.at("services/a"),
            &json!({"metadata": {"name": "a", "resourceVersion": "1"}}),
        )
        .await;
    let text = format!("Operation cannot be fulfilled on services \"a\": {MODIFIED}");
    stale.is(409, "Conflict", &text, json!({"name": "a", "kind": "services"}));
    assert_eq!(server.put(&namespace.at("configmaps/b/status"), &bad).await.code, 404);
}

// [F18] bodies of kinds that every version of the API knows
async fn kinds_of_every_group_are_known(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps");
    for (kind, version, known) in [
        ("Status", "x/v1", true),
        ("APIGroup", "v1", true),
        ("ListOptions", "apps/v1", true),
        ("WatchEvent", "v1", true),
        ("List", "v1", true),
        ("List", "apps/v1", false),
        ("DeleteOptions", "meta.k8s.io/v1", false),
        ("Table", "v1", false),
    ] {
        let why = if known {
            format!("converting (v1.{kind}) to (core.ConfigMap): unknown conversion")
        } else {
            format!("no kind {kind:?} is registered for version {version:?} in scheme …")
        };
        let text = format!("{kind} in version \"v1\" cannot be handled as a ConfigMap: {why}");
        let body = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}});
        server
            .post(&path, &body)
            .await
            .is(400, "BadRequest", &text, Value::Null);
    }
}

// [F14] [F17] a custom resource is decoded before its version is looked at
async fn custom_resources_are_decoded_before_their_version_counts(server: Server) {
    let namespace = server.namespace().await;
    let kind = CustomKind::register(&server, |_| {}).await;
    let path = kind.at(&namespace, "");
    let other = json!({"apiVersion": "x.io/v7", "kind": "Widget", "metadata": {"name": "a", "nope": 1}});
    let answer = server.post(&path, &other).await;
    let warning = "299 - \"unknown field \\\"metadata.nope\\\"\"";
    assert_eq!(answer.header("warning"), warning);
    let text = format!(
        "the API version in the data (x.io/v7) does not match the expected API version ({}/v1)",
        kind.group
    );
    answer.is(400, "BadRequest", &text, Value::Null);
    let strict = server.post(&format!("{path}?fieldValidation=Strict"), &other).await;
    let text = "Widget in version \"v7\" cannot be handled as a Widget: strict decoding error: unknown field \
                \"metadata.nope\"";
    strict.is(400, "BadRequest", text, Value::Null);
    let bad_time = json!({"kind": "Widget", "metadata": {"creationTimestamp": "2024-13-01T00:00:00Z"}});
    let text = "Widget in version \"\" cannot be handled as a Widget: parsing time \"2024-13-01T00:00:00Z\": month out of \
                range";
    server
        .post(&path, &bad_time)
        .await
        .is(400, "BadRequest", text, Value::Null);
}

cases![
    warnings_come_with_errors_too,
    old_kinds_warn_only_where_they_are_served,
    updates_are_checked_in_the_order_of_the_kind,
    names_of_definitions_have_two_rules,
    accept_headers_are_ranked,
    documents_are_not_tables,
    malformed_content_types_name_nothing,
    empty_segments_are_parameters_that_are_missing,
    old_watches_of_custom_resources_take_all_methods,
    impossible_names_are_found_late,
    the_status_of_an_absent_service_is_created,
    kinds_of_every_group_are_known,
    custom_resources_are_decoded_before_their_version_counts,
];
