//! What an apply must say and may say: parameters, bodies, names. [F11]

use serde_json::{Value, json};

use super::{TYPE, apply, apply_with, map, owners};
use crate::harness::{Server, cases, version};

// [F11] an apply without a manager is refused
async fn a_manager_is_required(server: Server) {
    let namespace = server.namespace().await;
    for query in ["", "?fieldManager="] {
        let path = format!("{}{query}", namespace.at("configmaps/a"));
        server.patch(TYPE, &path, &map("a", &json!({}))).await.invalid(
            "meta.k8s.io",
            "PatchOptions",
            "",
            &[(
                "FieldValueRequired",
                "fieldManager",
                "Required value: is required for apply patch",
            )],
        );
    }
    let path = format!("{}?dryRun=x", namespace.at("configmaps/a"));
    server.patch(TYPE, &path, &map("a", &json!({}))).await.invalid(
        "meta.k8s.io",
        "PatchOptions",
        "",
        &[
            (
                "FieldValueRequired",
                "fieldManager",
                "Required value: is required for apply patch",
            ),
            (
                "FieldValueNotSupported",
                "dryRun",
                "Unsupported value: [\"x\"]: supported values: \"All\"",
            ),
        ],
    );
}

// [F11] only an apply may be forced
async fn force_is_for_apply_alone(server: Server) {
    let namespace = server.namespace().await;
    namespace
        .create("configmaps", &json!({"metadata": {"name": "a"}}))
        .await;
    let path = format!("{}?force=true", namespace.at("configmaps/a"));
    server.merge(&path, &json!({})).await.invalid(
        "meta.k8s.io",
        "PatchOptions",
        "",
        &[(
            "FieldValueForbidden",
            "force",
            "Forbidden: may not be specified for non-apply patch",
        )],
    );
}

// [F11] every value of force but 0 and false forces
async fn force_reads_as_on_the_real_server(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    apply(&server, &path, "one", &map("a", &json!({"v": "0"})))
        .await
        .created();
    for (at, force, code) in [
        (1, "0", 409),
        (2, "false", 409),
        (3, "true", 200),
        (4, "1", 200),
        (5, "maybe", 200),
        (6, "", 200),
    ] {
        let wanted = map("a", &json!({"v": at.to_string()}));
        let answer = apply_with(&server, &path, &format!("m{at}"), &format!("&force={force}"), &wanted).await;
        assert_eq!(answer.code, code, "{answer}");
    }
}

// [F11] managed fields in an apply are refused, be they none; null is as absent
async fn managed_fields_may_not_be_applied(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    for fields in [json!([]), json!([{}]), json!([{"manager": "x"}])] {
        let mut wanted = map("a", &json!({"v": "1"}));
        wanted["metadata"]["managedFields"] = fields;
        apply(&server, &path, "m", &wanted).await.is(
            400,
            "BadRequest",
            "metadata.managedFields must be nil",
            Value::Null,
        );
    }
    let mut wanted = map("a", &json!({"v": "1"}));
    wanted["metadata"]["managedFields"] = Value::Null;
    apply(&server, &path, "m", &wanted).await.created();
}

// [F11] the object must be of the kind and version of the path
async fn the_type_must_be_that_of_the_path(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    for (body, shown) in [
        (
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}),
            "/v1, Kind=Secret",
        ),
        (json!({"apiVersion": "v2", "kind": "ConfigMap"}), "/v2, Kind=ConfigMap"),
        (
            json!({"apiVersion": "apps/v1", "kind": "ConfigMap"}),
            "apps/v1, Kind=ConfigMap",
        ),
        (json!({"apiVersion": "v1"}), "/v1, Kind="),
        (json!({"kind": "ConfigMap"}), "/, Kind=ConfigMap"),
        (json!({}), "/, Kind="),
    ] {
        apply(&server, &path, "m", &body).await.is(
            400,
            "BadRequest",
            &format!("invalid object type: {shown}"),
            Value::Null,
        );
    }
}

// [F11] the name may be left out of what is applied to an object that is there, and nowhere else
async fn names_and_namespaces_must_be_those_of_the_path(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    let nameless = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": "1"}});
    let text = "the name of the object (a based on URL) was undeterminable: name must be provided";
    apply(&server, &path, "m", &nameless)
        .await
        .is(400, "BadRequest", text, Value::Null);
    apply(&server, &path, "m", &map("a", &json!({}))).await.created();
    assert_eq!(
        apply(&server, &path, "m", &nameless).await.ok()["data"],
        json!({"v": "1"})
    );
    let text = "the name of the object (b) does not match the name on the URL (a)";
    let other = map("b", &json!({}));
    apply(&server, &path, "m", &other)
        .await
        .is(400, "BadRequest", text, Value::Null);
    let mut other = map("a", &json!({}));
    other["metadata"]["namespace"] = "other".into();
    let text = "the namespace of the provided object does not match the namespace sent on the request";
    apply(&server, &path, "m", &other)
        .await
        .is(400, "BadRequest", text, Value::Null);
}

// [F11] uid and resourceVersion in an apply: of a new object, and of one that is there
async fn identity_in_an_apply(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    let with = |name: &str, value: &str| {
        let mut wanted = map("a", &json!({"v": "1"}));
        wanted["metadata"][name] = value.into();
        wanted
    };
    let text = "Operation cannot be fulfilled on configmaps \"a\": uid mismatch: the provided object specified uid x, and no \
                existing object was found";
    apply(&server, &path, "m", &with("uid", "x")).await.is(
        409,
        "Conflict",
        text,
        json!({"name": "a", "kind": "configmaps"}),
    );
    let created = apply(&server, &path, "m", &with("resourceVersion", "5"))
        .await
        .created();
    let text = "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to \
                the latest version and try again";
    apply(&server, &path, "m", &with("resourceVersion", "5")).await.is(
        409,
        "Conflict",
        text,
        json!({"name": "a", "kind": "configmaps"}),
    );
    apply(&server, &path, "m", &with("uid", "x")).await.invalid(
        "",
        "ConfigMap",
        "a",
        &[(
            "FieldValueInvalid",
            "metadata.uid",
            "Invalid value: \"x\": field is immutable",
        )],
    );
    let own = with(
        "resourceVersion",
        created["metadata"]["resourceVersion"].as_str().unwrap(),
    );
    let again = apply(&server, &path, "m", &own).await.ok();
    assert_eq!(version(&again), version(&created), "nothing changed");
    assert_eq!(owners(&again), json!({"Apply m v1": {"f:data": {"f:v": {}}}}));
}

// [F11] a body is YAML, of which JSON is a part
async fn bodies_are_yaml(server: Server) {
    let namespace = server.namespace().await;
    let path = format!("{}?fieldManager=m", namespace.at("configmaps/a"));
    let send = async |body: &str| server.request("PATCH", &path).body(TYPE, body).send().await;
    let yaml = "# a comment\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: {l: \"1\"}\ndata:\n  text: |\n    x\n    z\n";
    let created = send(yaml).await.created();
    assert_eq!(created["data"], json!({"text": "x\nz\n"}));
    assert_eq!(created["metadata"]["labels"], json!({"l": "1"}));
    assert_eq!(
        owners(&created),
        json!({"Apply m v1": {"f:data": {"f:text": {}}, "f:metadata": {"f:labels": {"f:l": {}}}}})
    );
    let no_map = "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal";
    let go = "into Go value of type map[string]interface {}";
    for (body, text) in [
        ("[]", format!("{no_map} array {go}")),
        ("\"x\"", format!("{no_map} string {go}")),
        ("", "invalid object type: /, Kind=".to_owned()),
        (
            "{",
            "error decoding patch: error converting YAML to JSON: yaml: line 1: did not find expected node content"
                .to_owned(),
        ),
        (
            "a: b: c",
            "error encoding patch: yaml: mapping values are not allowed in this context".to_owned(),
        ),
    ] {
        send(body).await.is(400, "BadRequest", &text, Value::Null);
    }
}

// [F11] keys that repeat: refused, warned of, or passed over, in YAML and in JSON
async fn keys_that_repeat(server: Server) {
    let namespace = server.namespace().await;
    let path = format!("{}?fieldManager=m", namespace.at("configmaps/a"));
    let send = async |validation: &str, body: &str| {
        let path = format!("{path}{validation}");
        server.request("PATCH", &path).body(TYPE, body).send().await
    };
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  a: \"1\"\n  a: \"2\"\n";
    let json = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"1","a":"2"}}"#;
    for (body, line) in [(yaml, 7), (json, 1)] {
        let text = format!(
            "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:\n  line {line}: key \"a\" \
             already set in map"
        );
        send("&fieldValidation=Strict", body)
            .await
            .is(400, "BadRequest", &text, Value::Null);
        let warned = send("", body).await;
        assert!(matches!(warned.code, 200 | 201), "{warned}");
        assert_eq!(warned.json()["data"], json!({"a": "2"}));
        assert_eq!(
            warned.header("warning"),
            format!("299 - \"line {line}: key \\\"a\\\" already set in map\"")
        );
        let silent = send("&fieldValidation=Ignore", body).await;
        assert_eq!((silent.code, silent.header("warning")), (200, ""), "{silent}");
    }
}

// [F11] what is not of the kind's type: 500 without reason, whatever the field validation
async fn what_is_not_of_the_type(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    let who = "failed to create typed patch object (/a; /v1, Kind=ConfigMap):";
    let mut unknown = map("a", &json!({}));
    unknown["foo"] = 1.into();
    for validation in ["", "&fieldValidation=Ignore", "&fieldValidation=Strict"] {
        let text = format!("{who} .foo: field not declared in schema");
        apply_with(&server, &path, "m", validation, &unknown)
            .await
            .is(500, "", &text, Value::Null);
    }
    let text = format!("{who} .data.x: expected string, got &value.valueUnstructured{{Value:1}}");
    apply(&server, &path, "m", &map("a", &json!({"x": 1})))
        .await
        .is(500, "", &text, Value::Null);
    let text = format!("{who} .data: expected map, got &{{[1]}}");
    apply(&server, &path, "m", &map("a", &json!([1])))
        .await
        .is(500, "", &text, Value::Null);
    let mut two = map("a", &json!({"x": 1}));
    two["metadata"]["bar"] = 2.into();
    let answer = apply(&server, &path, "m", &two).await;
    assert_eq!(answer.code, 500, "{answer}");
    assert!(
        answer.json()["message"]
            .as_str()
            .unwrap()
            .starts_with(&format!("{who} errors:\n  .")),
        "{answer}"
    );
    assert_eq!(server.get(&path).await.code, 404);
}

// [F11] null is a value: of a map as a whole nothing, of an entry the empty string
async fn nulls_are_applied(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    apply(&server, &path, "one", &map("a", &json!({"v": "1"})))
        .await
        .created();
    let whole = apply(&server, &path, "two", &map("a", &Value::Null)).await.ok();
    assert_eq!(whole["data"], json!({"v": "1"}));
    assert_eq!(
        owners(&whole),
        json!({"Apply one v1": {"f:data": {"f:v": {}}}, "Apply two v1": {"f:data": {}}})
    );
    let entry = apply(&server, &path, "two", &map("a", &json!({"n": null}))).await.ok();
    assert_eq!(entry["data"], json!({"n": "", "v": "1"}));
    let empty = apply(&server, &path, "two", &map("a", &json!({}))).await.ok();
    assert_eq!(empty["data"], json!({"v": "1"}));
    assert_eq!(
        owners(&empty),
        json!({"Apply one v1": {"f:data": {"f:v": {}}}, "Apply two v1": {"f:data": {}}})
    );
}

// [F11] a dry run answers as if, and stores nothing
async fn dry_runs_store_nothing(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    let dry = apply_with(&server, &path, "m", "&dryRun=All", &map("a", &json!({"v": "1"})))
        .await
        .created();
    assert!(
        dry["metadata"].get("resourceVersion").is_none() && dry["metadata"].get("uid").is_some(),
        "{dry}"
    );
    assert_eq!(server.get(&path).await.code, 404);
    let created = apply(&server, &path, "m", &map("a", &json!({"v": "1"})))
        .await
        .created();
    let dry = apply_with(&server, &path, "n", "&dryRun=All", &map("a", &json!({"w": "2"})))
        .await
        .ok();
    assert_eq!(dry["data"], json!({"v": "1", "w": "2"}));
    assert_eq!(
        owners(&dry),
        json!({"Apply m v1": {"f:data": {"f:v": {}}}, "Apply n v1": {"f:data": {"f:w": {}}}})
    );
    assert_eq!(server.get(&path).await.ok(), created);
}

// [F11] nothing is created in a namespace that is not there, or of a type that is not for apply
async fn what_cannot_be_created(server: Server) {
    let namespace = server.namespace().await;
    let absent = format!("/api/v1/namespaces/{}-x/configmaps/a", namespace.name());
    let name = format!("{}-x", namespace.name());
    apply(&server, &absent, "m", &map("a", &json!({}))).await.is(
        404,
        "NotFound",
        &format!("namespaces \"{name}\" not found"),
        json!({"name": name, "kind": "namespaces"}),
    );
    let path = format!("{}?fieldManager=m", namespace.at("configmaps/a"));
    server
        .patch("application/apply-patch+json", &path, &map("a", &json!({})))
        .await
        .is(415, "UnsupportedMediaType", "415: Unsupported Media Type", json!({}));
}

cases!(
    a_manager_is_required,
    force_is_for_apply_alone,
    force_reads_as_on_the_real_server,
    managed_fields_may_not_be_applied,
    the_type_must_be_that_of_the_path,
    names_and_namespaces_must_be_those_of_the_path,
    identity_in_an_apply,
    bodies_are_yaml,
    keys_that_repeat,
    what_is_not_of_the_type,
    nulls_are_applied,
    dry_runs_store_nothing,
    what_cannot_be_created,
);
