//! Odd objects on which the random comparison (`differential`) found differences, each kind of them once.

use serde_json::{Value, json};

use crate::harness::{CustomKind, Server, cases, unique};

/// The texts of the `Warning` headers.
fn warnings(answer: &crate::harness::Answer) -> Vec<&str> {
    let values = answer.headers.get_all("warning").iter();
    values.map(|value| value.to_str().unwrap()).collect()
}

// [F17] finalizers of custom resources without a domain or a path are warned of when they are added
async fn finalizers_of_custom_resources_are_warned_of(server: Server) {
    let namespace = server.namespace().await;
    let kind = CustomKind::register(&server, |_| {}).await;
    let warning = |name: &str, path: &str| {
        format!(
            "299 - \"metadata.finalizers: \\\"{name}\\\": prefer a domain-qualified finalizer name{path} to avoid \
             accidental conflicts with other finalizer writers\""
        )
    };
    let path = kind.at(&namespace, "");
    let finalizers = |names: Value| kind.object("a", &json!({"metadata": {"finalizers": names}}));
    let created = server
        .post(&path, &finalizers(json!(["x", "kubernetes", "a.b", "c.d/e"])))
        .await;
    created.created();
    assert_eq!(
        warnings(&created),
        [warning("a.b", " including a path (/)"), warning("x", "")]
    );
    let again = server.post(&path, &finalizers(json!(["x"]))).await;
    assert_eq!((again.code, warnings(&again)), (409, vec![warning("x", "").as_str()]));
    let item = format!("{path}/a");
    let patched = server
        .merge(&item, &json!({"metadata": {"finalizers": ["x", "z"]}}))
        .await;
    assert_eq!(
        (patched.code, warnings(&patched)),
        (200, vec![warning("z", "").as_str()])
    );
    let labelled = server.merge(&item, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!((labelled.code, warnings(&labelled).len()), (200, 0));
}

// [F8] [F9] owners named twice are warned of, unless the object is not the one of the path
async fn repeated_owners_are_warned_of(server: Server) {
    let namespace = server.namespace().await;
    namespace.config_map("a").await;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"});
    let object = |mut metadata: Value| {
        metadata["ownerReferences"] = json!([owner, owner]);
        json!({ "metadata": metadata })
    };
    let (maps, a) = (namespace.at("configmaps"), namespace.at("configmaps/a"));
    for (code, warned, answer) in [
        (409, true, server.post(&maps, &object(json!({"name": "a"}))).await),
        (422, true, server.post(&maps, &object(json!({"name": "A_"}))).await),
        (
            400,
            false,
            server
                .post(&maps, &object(json!({"name": "b", "namespace": "x"})))
                .await,
        ),
        (
            409,
            true,
            server
                .put(&a, &object(json!({"name": "a", "resourceVersion": "1"})))
                .await,
        ),
        (400, false, server.put(&a, &object(json!({"name": "b"}))).await),
        (
            409,
            true,
            server.merge(&a, &object(json!({"resourceVersion": "1"}))).await,
        ),
        (400, false, server.merge(&a, &object(json!({"name": "b"}))).await),
    ] {
        assert_eq!(
            (answer.code, warnings(&answer).len()),
            (code, usize::from(warned)),
            "{answer}"
        );
    }
}

// [F10] a patch that takes the API version away leaves an object of no type
async fn patches_without_an_api_version_have_no_name(server: Server) {
    let namespace = server.namespace().await;
    namespace.config_map("a").await;
    for version in [Value::Null, json!("")] {
        let answer = server
            .merge(&namespace.at("configmaps/a"), &json!({"apiVersion": version}))
            .await;
        assert_eq!(warnings(&answer), ["299 - \"unknown field \\\"metadata\\\"\""]);
        let text = "the name of the object (a based on URL) was undeterminable: name must be provided";
        answer.is(400, "BadRequest", text, Value::Null);
    }
    let kind = CustomKind::register(&server, |_| {}).await;
    server
        .post(&kind.at(&namespace, ""), &kind.object("a", &json!({})))
        .await
        .created();
    let answer = server
        .merge(&kind.at(&namespace, "/a"), &json!({"apiVersion": null}))
        .await;
    let why = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
    let text = format!("Internal error occurred: {why}");
    answer.is(500, "InternalError", &text, json!({"causes": [{"message": why}]}));
    // Without a kind the built-in kinds do not mind.
    server
        .merge(&namespace.at("configmaps/a"), &json!({"kind": null}))
        .await
        .ok();
}

// [F9] zero, however it is written, is no version
async fn a_version_of_zeros_is_none(server: Server) {
    let namespace = server.namespace().await;
    namespace.config_map("a").await;
    let object = json!({"metadata": {"name": "a", "resourceVersion": "00"}});
    server.put(&namespace.at("configmaps/a"), &object).await.ok();
    let patch = json!({"metadata": {"resourceVersion": "000"}});
    server.merge(&namespace.at("configmaps/a"), &patch).await.ok();
    // A patch that takes the version away is no exception where a version is required.
    let kind = CustomKind::register(&server, |_| {}).await;
    server
        .post(&kind.at(&namespace, ""), &kind.object("a", &json!({})))
        .await
        .created();
    for none in [json!("00"), json!(""), Value::Null] {
        let patch = json!({"metadata": {"resourceVersion": none}});
        let answer = server.merge(&kind.at(&namespace, "/a"), &patch).await;
        let text = "Invalid value: 0: must be specified for an update";
        answer.invalid(
            &kind.group,
            "widgets",
            "a",
            &[("FieldValueInvalid", "metadata.resourceVersion", text)],
        );
    }
}

// [F9] [F10] of a wrong namespace and a wrong name the namespace is told
async fn namespaces_come_before_names(server: Server) {
    let namespace = server.namespace().await;
    namespace.config_map("a").await;
    let path = namespace.at("configmaps/a");
    let text = "the namespace of the provided object does not match the namespace sent on the request";
    for metadata in [
        json!({"name": "b", "namespace": "x"}),
        json!({"name": null, "namespace": "x"}),
    ] {
        let body = json!({ "metadata": metadata });
        server.put(&path, &body).await.is(400, "BadRequest", text, Value::Null);
        server
            .merge(&path, &body)
            .await
            .is(400, "BadRequest", text, Value::Null);
    }
}

// [F8] a LimitRange without a name is given one
async fn limit_ranges_name_themselves(server: Server) {
    let namespace = server.namespace().await;
    let created = namespace.create("limitranges", &json!({"spec": {"limits": []}})).await;
    assert_eq!(created["metadata"]["name"].as_str().unwrap().len(), 36, "a uid");
    let prefixed = namespace
        .create("limitranges", &json!({"metadata": {"generateName": "g-"}}))
        .await;
    assert!(prefixed["metadata"]["name"].as_str().unwrap().starts_with("g-"));
}

// [F15] the label with the name of a namespace is there whatever a client writes
async fn namespaces_are_labelled_with_their_name(server: Server) {
    const LABEL: &str = "kubernetes.io/metadata.name";
    let prefix = format!("{}-", unique());
    let path = "/api/v1/namespaces";
    let created = server
        .post(path, &json!({"metadata": {"generateName": prefix}}))
        .await
        .created();
    let name = created["metadata"]["name"].as_str().unwrap();
    assert_eq!(created["metadata"]["labels"][LABEL], name);
    let item = format!("{path}/{name}");
    let updated = server.put(&item, &json!({"metadata": {"name": name}})).await.ok();
    assert_eq!(updated["metadata"]["labels"], json!({LABEL: name}));
    let patched = server
        .merge(&item, &json!({"metadata": {"labels": {LABEL: "other"}}}))
        .await
        .ok();
    assert_eq!(patched["metadata"]["labels"][LABEL], name);
}

// [F5] [F4] YAML cannot be sent event by event
async fn watches_are_not_written_in_yaml(server: Server) {
    let namespace = server.namespace().await;
    let watch = async |query: &str, accept: &str| {
        let path = namespace.at(&format!("configmaps?watch=1&timeoutSeconds=1&{query}"));
        server.request("GET", &path).header("accept", accept).send().await.code
    };
    assert_eq!(watch("", "application/yaml").await, 406);
    assert_eq!(
        watch("", "application/yaml,application/json").await,
        406,
        "the first that is known counts"
    );
    assert_eq!(watch("", "application/yaml;q=0.5,application/json").await, 200);
    assert_eq!(watch("resourceVersionMatch=x", "application/yaml").await, 422);
}

// [F8] a dry run of a create does not look at a given version
async fn dry_runs_take_a_version(server: Server) {
    let namespace = server.namespace().await;
    namespace.config_map("a").await;
    let path = namespace.at("configmaps?dryRun=All");
    for (name, code) in [("a", 409), ("b", 201)] {
        let object = json!({"metadata": {"name": name, "resourceVersion": "5"}});
        assert_eq!(server.post(&path, &object).await.code, code, "{name}");
    }
}

// [F9] a dry run names the key of an object without the root of all keys
async fn dry_runs_name_other_keys(server: Server) {
    let namespace = server.namespace().await;
    let stored = namespace.config_map("a").await;
    let uid = stored["metadata"]["uid"].as_str().unwrap();
    let object = json!({"metadata": {"name": "a", "uid": "x"}});
    for (query, root) in [("", "/registry"), ("?dryRun=All", "")] {
        let text = format!(
            "Operation cannot be fulfilled on configmaps \"a\": StorageError: invalid object, Code: 4, Key: \
             {root}/configmaps/{}/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: x, \
             UID in object meta: {uid}",
            namespace.name()
        );
        let answer = server
            .put(&namespace.at(&format!("configmaps/a{query}")), &object)
            .await;
        answer.is(409, "Conflict", &text, json!({"name": "a", "kind": "configmaps"}));
    }
}

// [F14] [F17] without field validation a custom resource without a kind is told of another way
async fn custom_resources_without_a_kind_have_two_texts(server: Server) {
    let namespace = server.namespace().await;
    let kind = CustomKind::register(&server, |_| {}).await;
    let path = kind.at(&namespace, "");
    let missing = "Object 'Kind' is missing in '{}'";
    for (query, text) in [
        (
            "",
            format!("the object provided is unrecognized (must be of type Widget): {missing} ({{}})"),
        ),
        (
            "?fieldValidation=Ignore",
            format!("Widget in version \"v1\" cannot be handled as a Widget: {missing}"),
        ),
    ] {
        let answer = server.post(&format!("{path}{query}"), &json!({})).await;
        answer.is(400, "BadRequest", &text, Value::Null);
    }
}

cases![
    finalizers_of_custom_resources_are_warned_of,
    repeated_owners_are_warned_of,
    patches_without_an_api_version_have_no_name,
    a_version_of_zeros_is_none,
    namespaces_come_before_names,
    limit_ranges_name_themselves,
    namespaces_are_labelled_with_their_name,
    watches_are_not_written_in_yaml,
    dry_runs_take_a_version,
    dry_runs_name_other_keys,
    custom_resources_without_a_kind_have_two_texts,
];
