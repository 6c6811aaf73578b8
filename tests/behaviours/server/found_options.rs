//! Odd options and forms on which the random comparison (`differential`) found differences, each kind of them once.

use serde_json::{Value, json};

use super::texts::UNKNOWN_FORMAT;
use crate::harness::{CustomKind, Server, cases, unique};

const IGNORE: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

// [F12] the option for objects that cannot be read: all can be, and few options go with it
async fn unsafe_deletes_are_refused(server: Server) {
    let namespace = server.namespace().await;
    namespace.config_map("a").await;
    let delete = async |rest: &str| server.delete(&namespace.at(&format!("configmaps{rest}"))).await;
    let key = format!("/registry/configmaps/{}/a", namespace.name());
    let text = format!(
        "Operation cannot be fulfilled on configmaps \"a\": StorageError: invalid object, Code: 4, Key: {key}, \
         ResourceVersion: 0, AdditionalErrorMsg: unsafe deletion is not allowed because the object is decodable from \
         storage"
    );
    let details = json!({"name": "a", "kind": "configmaps"});
    delete(&format!("/a?{IGNORE}=true"))
        .await
        .is(409, "Conflict", &text, details.clone());
    delete(&format!("/a?{IGNORE}"))
        .await
        .is(409, "Conflict", &text, details);
    assert_eq!(delete(&format!("/absent?{IGNORE}=true")).await.code, 404);
    let cause = |why: &str| format!("Invalid value: true: {why}");
    let together = |other: &str| cause(&format!("cannot be set together with .{other}"));
    delete(&format!(
        "/a?{IGNORE}=true&gracePeriodSeconds=0&propagationPolicy=Orphan"
    ))
    .await
    .invalid(
        "meta.k8s.io",
        "DeleteOptions",
        "",
        &[
            ("FieldValueInvalid", IGNORE, &together("propagationPolicy")),
            ("FieldValueInvalid", IGNORE, &together("gracePeriodSeconds")),
        ],
    );
    let options = json!({IGNORE: true, "preconditions": {"uid": "x"}});
    server
        .delete_with(&namespace.at("configmaps/a"), &options)
        .await
        .invalid(
            "meta.k8s.io",
            "DeleteOptions",
            "",
            &[("FieldValueInvalid", IGNORE, &together("preconditions"))],
        );
    let collection = cause("is not allowed with DELETECOLLECTION, try again after removing the option");
    delete(&format!("?{IGNORE}=true")).await.invalid(
        "meta.k8s.io",
        "DeleteOptions",
        "",
        &[("FieldValueInvalid", IGNORE, &collection)],
    );
    // Some kinds have no such delete.
    let why = format!("no unsafe deleter provided, can not honor {IGNORE}");
    let role = namespace.of("rbac.authorization.k8s.io/v1", &format!("roles/absent?{IGNORE}=true"));
    server.delete(&role).await.is(
        500,
        "InternalError",
        &format!("Internal error occurred: {why}"),
        json!({"causes": [{"message": why}]}),
    );
    assert_eq!(delete(&format!("/a?{IGNORE}=false")).await.code, 200);
}

// [F12] jobs deleted together warn as one alone does, also if their list is refused by the storage
async fn jobs_deleted_together_warn(server: Server) {
    let namespace = server.namespace().await;
    let jobs = async |query: &str| server.delete(&namespace.of("batch/v1", &format!("jobs{query}"))).await;
    for (query, code, warns) in [
        ("", 200, true),
        ("?continue=e30", 400, true),
        ("?propagationPolicy=Orphan", 200, false),
        ("?limit=x", 400, false),
    ] {
        let answer = jobs(query).await;
        assert_eq!(
            (answer.code, !answer.header("warning").is_empty()),
            (code, warns),
            "{answer}"
        );
    }
}

// [F2] a token that names a key has it on its page
async fn tokens_name_the_first_key_of_a_page(server: Server) {
    let namespace = server.namespace().await;
    for name in ["a", "b"] {
        namespace.config_map(name).await;
    }
    // {"v":"meta.k8s.io/v1","rv":-1,"start":"a"}, and the same with "a\u0000", as a server makes it
    for (token, names) in [
        (
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYSJ9",
            vec!["a", "b"],
        ),
        (
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYVx1MDAwMCJ9",
            vec!["b"],
        ),
    ] {
        let list = server
            .get(&namespace.at(&format!("configmaps?continue={token}")))
            .await
            .ok();
        let items = list["items"].as_array().unwrap();
        let found: Vec<_> = items
            .iter()
            .map(|item| item["metadata"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(found, names, "{token}");
    }
}

// [F12] a delete without a body has its preconditions in the query; those of a collection hold for each object
async fn queries_have_preconditions(server: Server) {
    let namespace = server.namespace().await;
    let stored = namespace.config_map("a").await;
    let uid = stored["metadata"]["uid"].as_str().unwrap();
    let delete = async |rest: &str| server.delete(&namespace.at(&format!("configmaps{rest}"))).await;
    let text = format!(
        "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (x) does not match the UID in record \
         ({uid}). The object might have been deleted and then recreated"
    );
    for path in ["/a?uid=x", "?uid=x"] {
        delete(path)
            .await
            .is(409, "Conflict", &text, json!({"name": "a", "kind": "ConfigMap"}));
    }
    // Of a collection, the version also says which state is listed, exactly: the object was not yet there.
    assert_eq!(delete("?resourceVersion=1").await.ok()["items"], json!([]));
    assert_eq!(delete("/a?resourceVersion=1").await.code, 409);
    assert_eq!(delete(&format!("/a?uid={uid}&resourceVersion=")).await.code, 200);
}

// [F1] a version that is no number has another text for events, which no cache holds
async fn events_are_read_from_the_store(server: Server) {
    let namespace = server.namespace().await;
    let why = "resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid syntax";
    let events = server.get(&namespace.at("events/a?resourceVersion=x")).await;
    events.is(
        400,
        "BadRequest",
        &format!("invalid resource version: {why}"),
        Value::Null,
    );
    let maps = server.get(&namespace.at("configmaps/a?resourceVersion=x")).await;
    maps.is(500, "", why, Value::Null);
    let bad_name = server.get(&namespace.at("configmaps/%2e%2e?resourceVersion=x")).await;
    assert_eq!(bad_name.code, 400, "the name comes first: {bad_name}");
}

// [F5] what a watch with a continue token is told
async fn watches_with_a_token_are_refused_where_a_match_is_set(server: Server) {
    const MATCH: &str = "resourceVersionMatch";
    let namespace = server.namespace().await;
    let forbidden = |why: &str| ("FieldValueForbidden", MATCH, format!("Forbidden: {why}"));
    let continues = forbidden("resourceVersionMatch is forbidden when continue is provided");
    let requires = forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    let unless = forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
    let unknown = |value: &str| {
        let text = format!("Unsupported value: {value}: supported values: \"NotOlderThan\"");
        ("FieldValueNotSupported", MATCH, text)
    };
    for (query, causes) in [
        ("continue=x", vec![&continues]),
        ("continue=x&sendInitialEvents=true", vec![&requires]),
        (
            "continue=x&resourceVersionMatch=NotOlderThan",
            vec![&unless, &continues],
        ),
        (
            "sendInitialEvents=0&resourceVersionMatch=Exact&continue=x",
            vec![&requires, &unknown("\"Exact\""), &continues],
        ),
        // Values of types of their own are shown as JSON.
        (
            "resourceVersionMatch=%00%3C",
            vec![&unless, &unknown(r#""\u0000\u003c""#)],
        ),
    ] {
        let causes: Vec<_> = causes
            .iter()
            .map(|(reason, field, text)| (*reason, *field, text.as_str()))
            .collect();
        let path = namespace.at(&format!("configmaps?watch=1&{query}"));
        server
            .get(&path)
            .await
            .invalid("meta.k8s.io", "ListOptions", "", &causes);
    }
    // The old form is checked as a list.
    let old = format!(
        "/api/v1/watch/namespaces/{}/configmaps?timeoutSeconds=1",
        namespace.name()
    );
    assert_eq!(server.request("GET", &format!("{old}&continue=x")).code().await, 200);
    let list = "Forbidden: sendInitialEvents is forbidden for list";
    server.get(&format!("{old}&sendInitialEvents=1")).await.invalid(
        "meta.k8s.io",
        "ListOptions",
        "",
        &[("FieldValueForbidden", "sendInitialEvents", list)],
    );
    // The deletion of a collection may say that it is one.
    let deletion = server
        .delete(&namespace.at("configmaps?watch=1&sendInitialEvents=1"))
        .await;
    deletion.invalid(
        "meta.k8s.io",
        "ListOptions",
        "",
        &[(requires.0, requires.1, &requires.2)],
    );
    let from = namespace.at("configmaps?watch=1&continue=x&resourceVersion=1&timeoutSeconds=1");
    assert_eq!(server.request("GET", &from).code().await, 200);
}

// [F14] [F18] a create looks at the format of the body before the options, an update after them
async fn formats_and_options_have_an_order(server: Server) {
    let namespace = server.namespace().await;
    let send = async |method: &str, path: &str| {
        let request = server.request(method, &namespace.at(path));
        request.body("text/plain", "[]").send().await
    };
    let create = send("POST", "configmaps?dryRun=x").await;
    create.is(415, "UnsupportedMediaType", UNKNOWN_FORMAT, Value::Null);
    assert_eq!(send("PUT", "configmaps/a?dryRun=x").await.code, 422);
}

// [F4] [F17] forms that custom resources do not have
async fn custom_resources_have_fewer_forms(server: Server) {
    let namespace = server.namespace().await;
    let kind = CustomKind::register(&server, |_| {}).await;
    server
        .post(&kind.at(&namespace, ""), &kind.object("a", &json!({})))
        .await
        .created();
    let get = async |rest: &str, accept: &str| {
        let request = server
            .request("GET", &kind.at(&namespace, rest))
            .header("accept", accept);
        request.send().await
    };
    assert_eq!(get("/a", "application/vnd.kubernetes.protobuf").await.code, 406);
    let second = get("/a", "application/vnd.kubernetes.protobuf,application/json;q=0.1").await;
    assert_eq!(second.ok()["kind"], "Widget");
    let list = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    get("/a", list).await.is(500, "", "content is not a list", Value::Null);
    let one = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let text =
        "you requested PartialObjectMetadata, but the requested object is a list (*unstructured.UnstructuredList)";
    get("", one).await.is(406, "NotAcceptable", text, Value::Null);
    let patch = server.request("PATCH", &kind.at(&namespace, "")).send().await;
    assert_eq!(patch.code, 415, "{patch}");
}

// [F9] [F15] the finalizers of a namespace have a subresource; an update of the rest does not touch them
async fn updates_keep_the_finalizers_of_a_namespace(server: Server) {
    let name = unique();
    let path = format!("/api/v1/namespaces/{name}");
    let namespace = json!({"metadata": {"name": name}});
    server.post("/api/v1/namespaces", &namespace).await.created();
    let updated = server.put(&path, &namespace).await.ok();
    assert_eq!(updated["spec"]["finalizers"], json!(["kubernetes"]));
    let patched = server.merge(&path, &json!({"spec": {"finalizers": []}})).await.ok();
    assert_eq!(patched["spec"]["finalizers"], json!(["kubernetes"]));
}

// [F5] the old form of a watch names an object; a field selector beside it must name the same
async fn old_watches_of_one_object_take_no_other_name(server: Server) {
    let namespace = server.namespace().await;
    let path = format!("/api/v1/watch/namespaces/{}/configmaps/a", namespace.name());
    let text = "fieldSelector metadata.name doesn't match requested name";
    for selector in ["metadata.name=b", "metadata.name!=a", "metadata.namespace=x"] {
        let query = format!("{path}?timeoutSeconds=1&fieldSelector={selector}");
        server.get(&query).await.is(400, "BadRequest", text, Value::Null);
    }
    let same = format!("{path}?timeoutSeconds=1&fieldSelector=metadata.name=a,metadata.namespace!=x");
    assert_eq!(server.request("GET", &same).code().await, 200);
}

cases![
    old_watches_of_one_object_take_no_other_name,
    unsafe_deletes_are_refused,
    jobs_deleted_together_warn,
    tokens_name_the_first_key_of_a_page,
    queries_have_preconditions,
    events_are_read_from_the_store,
    watches_with_a_token_are_refused_where_a_match_is_set,
    formats_and_options_have_an_order,
    custom_resources_have_fewer_forms,
    updates_keep_the_finalizers_of_a_namespace,
];
