//! Label and field selectors on list, watch and deletecollection. [F3]

use serde_json::{Value, json};

use super::list_version::names;
use super::texts::{LABEL_VALUE, NAME_PART, QUALIFIED};
use crate::harness::{CustomKind, Namespace, Server, cases, unique};

/// Everything but unreserved characters as `%XX`.
fn escape(text: &str) -> String {
    use std::fmt::Write;
    let mut escaped = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            write!(escaped, "%{byte:02X}").expect("a String takes everything");
        }
    }
    escaped
}

async fn labelled(server: &Server) -> Namespace {
    let namespace = server.namespace().await;
    for (name, labels) in [
        ("a", json!({"env": "prod", "tier": "1"})),
        ("b", json!({"env": "dev", "tier": "2"})),
        ("c", json!({})),
        ("d", json!({"env": "", "x.io/y": "z"})),
    ] {
        namespace
            .create("configmaps", &json!({"metadata": {"name": name, "labels": labels}}))
            .await;
    }
    namespace
}

// [F3] all operators of label selectors
async fn label_selectors_choose_objects(server: Server) {
    let namespace = labelled(&server).await;
    let table = [
        ("", "a,b,c,d"),
        ("env=prod", "a"),
        ("env==prod", "a"),
        (" env = prod ", "a"),
        ("env!=prod", "b,c,d"),
        ("env!=", "a,b,c"),
        ("env=", "d"),
        ("env", "a,b,d"),
        ("!env", "c"),
        ("! env", "c"),
        ("env in (prod,dev)", "a,b"),
        ("env in (,prod)", "a,d"),
        ("env in (prod, ),tier", "a"),
        ("env in ()", "d"),
        ("env notin (prod)", "b,c,d"),
        ("env notin ()", "a,b,c"),
        ("tier>1", "b"),
        ("tier<2", "a"),
        ("env>1", ""),
        ("x.io/y=z", "d"),
        ("x.io/y", "d"),
        ("env=prod,tier=1", "a"),
        ("env=prod,tier=2", ""),
        ("env=,tier=1", ""),
        ("env in (prod,dev),tier!=1", "b"),
        ("tier,tier", "a,b"),
        // The words of the grammar may be keys and values too.
        ("in=x", ""),
        ("in", ""),
        ("notin in (a)", ""),
        ("env=in", ""),
    ];
    for (selector, expected) in table {
        let list = server
            .get(&namespace.at(&format!("configmaps?labelSelector={}", escape(selector))))
            .await
            .ok();
        assert_eq!(names(&list), expected, "{selector:?}");
    }
}

// [F3] malformed label selectors: 400 with the parser's text, on every verb that takes one
#[expect(clippy::too_many_lines, reason = "a table")]
async fn refuses_malformed_label_selectors(server: Server) {
    let namespace = labelled(&server).await;
    let invalid = |field: &str, value: &str, text: &str| {
        format!("unable to parse requirement: {field}: Invalid value: {value:?}: {text}")
    };
    let operators = "expected: in, notin, =, ==, !=, gt, lt";
    let long = "x".repeat(64);
    let table = [
        (
            "env=prod,".to_owned(),
            "found '', expected: identifier after ','".to_owned(),
        ),
        (
            ",env".to_owned(),
            "found ',', expected: !, identifier, or 'end of string'".to_owned(),
        ),
        (
            "=prod".to_owned(),
            "found '=', expected: !, identifier, or 'end of string'".to_owned(),
        ),
        (
            "(a)".to_owned(),
            "found '(', expected: !, identifier, or 'end of string'".to_owned(),
        ),
        (
            "env in prod".to_owned(),
            "unable to parse requirement: found 'prod' expected: '('".to_owned(),
        ),
        (
            "env in (prod".to_owned(),
            "unable to parse requirement: found '', expected: ',' or ')'".to_owned(),
        ),
        (
            "env notin".to_owned(),
            "unable to parse requirement: found '' expected: '('".to_owned(),
        ),
        (
            "env=prod=dev".to_owned(),
            "found '=', expected: ',' or 'end of string'".to_owned(),
        ),
        (
            "!env=a".to_owned(),
            "found '=', expected: ',' or 'end of string'".to_owned(),
        ),
        (
            "env=a b".to_owned(),
            "found 'b', expected: ',' or 'end of string'".to_owned(),
        ),
        (
            "env===a".to_owned(),
            "unable to parse requirement: found '=', expected: identifier".to_owned(),
        ),
        (
            "!".to_owned(),
            "unable to parse requirement: found '', expected: identifier".to_owned(),
        ),
        (
            "env!".to_owned(),
            format!("unable to parse requirement: found '!', {operators}"),
        ),
        (
            "env ~ x".to_owned(),
            format!("unable to parse requirement: found '~', {operators}"),
        ),
        (
            "env exists".to_owned(),
            format!("unable to parse requirement: found 'exists', {operators}"),
        ),
        ("-a=b".to_owned(), invalid("<nil>", "-a", NAME_PART)),
        ("a/b/c=d".to_owned(), invalid("<nil>", "a/b/c", QUALIFIED)),
        (
            format!("{long}=a"),
            invalid("<nil>", &long, "name part must be no more than 63 bytes"),
        ),
        ("a=-b".to_owned(), invalid("values[0][a]", "-b", LABEL_VALUE)),
        ("a=b;c".to_owned(), invalid("values[0][a]", "b;c", LABEL_VALUE)),
        ("a=é".to_owned(), invalid("values[0][a]", "é", LABEL_VALUE)),
        (
            format!("a={long}"),
            invalid("values[0][a]", &long, "must be no more than 63 bytes"),
        ),
        ("tier>-1".to_owned(), invalid("values[0][tier]", "-1", LABEL_VALUE)),
        (
            "tier>a".to_owned(),
            invalid(
                "values[0]",
                "a",
                "for 'Gt', 'Lt' operators, the value must be an integer",
            ),
        ),
        (
            "tier>1.5".to_owned(),
            invalid(
                "values[0]",
                "1.5",
                "for 'Gt', 'Lt' operators, the value must be an integer",
            ),
        ),
        (
            "tier>".to_owned(),
            invalid(
                "values[0]",
                "",
                "for 'Gt', 'Lt' operators, the value must be an integer",
            ),
        ),
    ];
    for (selector, text) in table {
        let path = namespace.at(&format!("configmaps?labelSelector={}", escape(&selector)));
        server.get(&path).await.is(400, "BadRequest", &text, Value::Null);
        server
            .get(&format!("{path}&watch=1"))
            .await
            .is(400, "BadRequest", &text, Value::Null);
        server.delete(&path).await.is(400, "BadRequest", &text, Value::Null);
    }
}

// [F3] field selectors: operators, escapes, empty terms
async fn field_selectors_choose_objects(server: Server) {
    let namespace = labelled(&server).await;
    let here = format!("metadata.name=a,metadata.namespace={}", namespace.name());
    let table = [
        ("metadata.name=a", "a"),
        ("metadata.name==a", "a"),
        ("metadata.name!=a", "b,c,d"),
        (&here, "a"),
        ("metadata.namespace=other", ""),
        ("metadata.namespace!=other,metadata.name!=a", "b,c,d"),
        ("metadata.name=", ""),
        ("metadata.name=a,", "a"),
        (",metadata.name=a", "a"),
        ("metadata.name=a,,", "a"),
        ("metadata.name=a,metadata.name=b", ""),
        ("metadata.name=a\\,b", ""),
        ("metadata.name=UPPER/!", ""),
        ("", "a,b,c,d"),
    ];
    for (selector, expected) in table {
        let list = server
            .get(&namespace.at(&format!("configmaps?fieldSelector={}", escape(selector))))
            .await
            .ok();
        assert_eq!(names(&list), expected, "{selector:?}");
    }
    let both = format!(
        "configmaps?fieldSelector={}&labelSelector=env",
        escape("metadata.name!=a")
    );
    assert_eq!(names(&server.get(&namespace.at(&both)).await.ok()), "b,d");
}

// [F3] [F17] the fields of custom kinds have the names of their paths, also where built-in kinds mean something else by a name
async fn selects_fields_of_custom_kinds_by_their_paths(server: Server) {
    let namespace = server.namespace().await;
    let kind = CustomKind::register(&server, |definition| {
        let (text, number) = (json!({"type": "string"}), json!({"type": "integer"}));
        let version = &mut definition["spec"]["versions"][0];
        version["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {
            "source": text,
            "spec": {"type": "object", "properties": {"host": text}},
            "status": {"type": "object", "properties": {"replicas": number, "successful": number}},
        }});
        let paths = [".source", ".spec.host", ".status.replicas", ".status.successful"];
        version["selectableFields"] = paths.map(|path| json!({"jsonPath": path})).into_iter().collect();
    })
    .await;
    let object = kind.object("a", &json!({"source": "x", "spec": {"host": "red"}}));
    server.post(&kind.at(&namespace, ""), &object).await.created();
    for (selector, expected) in [
        ("spec.host=red", "a"),
        ("spec.host!=red", ""),
        ("spec.host=", ""),
        ("source=x", "a"),
        ("source!=x", ""),
        ("status.replicas=0", ""),
        ("status.replicas=", "a"),
        ("status.successful=0", ""),
        ("status.successful=", "a"),
    ] {
        let path = kind.at(&namespace, &format!("?fieldSelector={}", escape(selector)));
        assert_eq!(names(&server.get(&path).await.ok()), expected, "{selector:?}");
    }
}

// [F3] malformed and unknown field selectors: 400
async fn refuses_malformed_field_selectors(server: Server) {
    let namespace = labelled(&server).await;
    let only = r#"is not a known field selector: only "metadata.name", "metadata.namespace""#;
    let table = [
        ("metadata.foo=a", format!("\"metadata.foo\" {only}")),
        ("metadata.labels=a", format!("\"metadata.labels\" {only}")),
        ("a=b,metadata.name=a", format!("\"a\" {only}")),
        ("=a", format!("\"\" {only}")),
        (
            "metadata.name",
            "invalid selector: 'metadata.name'; can't understand 'metadata.name'".to_owned(),
        ),
        (
            "metadata.name>a",
            "invalid selector: 'metadata.name>a'; can't understand 'metadata.name>a'".to_owned(),
        ),
        (
            "metadata.name in (a)",
            "invalid selector: 'metadata.name in (a)'; can't understand 'metadata.name in (a)'".to_owned(),
        ),
        (
            "metadata.name=a\\x",
            "invalid field selector: invalid escape sequence: \\x".to_owned(),
        ),
        (
            "metadata.name=a\\",
            "invalid field selector: invalid escape sequence: \\".to_owned(),
        ),
        (
            "metadata.name=a=b",
            "invalid field selector: unescaped character in value: 61".to_owned(),
        ),
    ];
    for (selector, text) in table {
        let path = namespace.at(&format!("configmaps?fieldSelector={}", escape(selector)));
        server.get(&path).await.is(400, "BadRequest", &text, Value::Null);
        server
            .get(&format!("{path}&watch=1"))
            .await
            .is(400, "BadRequest", &text, Value::Null);
        server.delete(&path).await.is(400, "BadRequest", &text, Value::Null);
    }
}

// [F3] the selectable fields differ by kind, and so does the text about an unknown one
async fn each_kind_has_its_own_fields(server: Server) {
    let namespace = server.namespace().await;
    let supported = "field label not supported: bogus";
    let known = r#""bogus" is not a known field selector: only "metadata.name", "metadata.namespace""#;
    let table = [
        (namespace.at("pods"), supported),
        (namespace.at("secrets"), supported),
        (namespace.at("services"), supported),
        (namespace.at("events"), supported),
        (namespace.of("events.k8s.io/v1", "events"), supported),
        (namespace.at("replicationcontrollers"), supported),
        ("/api/v1/nodes".to_owned(), supported),
        ("/api/v1/namespaces".to_owned(), supported),
        (
            "/apis/certificates.k8s.io/v1/certificatesigningrequests".to_owned(),
            supported,
        ),
        (
            namespace.of("batch/v1", "jobs"),
            "field label \"bogus\" not supported for Job",
        ),
        (namespace.of("apps/v1", "deployments"), known),
        (namespace.of("coordination.k8s.io/v1", "leases"), known),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned(),
            known,
        ),
    ];
    for (path, text) in table {
        server
            .get(&format!("{path}?fieldSelector=bogus%3D1"))
            .await
            .is(400, "BadRequest", text, Value::Null);
    }
    let nodes = server.get("/api/v1/nodes?fieldSelector=metadata.namespace%3Dx").await;
    nodes.is(
        400,
        "BadRequest",
        "field label not supported: metadata.namespace",
        Value::Null,
    );
}

// [F3] fields of pods, secrets, nodes and namespaces that people select by
async fn kinds_are_selected_by_their_fields(server: Server) {
    let namespace = server.namespace().await;
    for (name, node) in [("a", None), ("b", Some("node-1")), ("c", Some("node-2"))] {
        let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        if let Some(node) = node {
            pod["spec"]["nodeName"] = node.into();
        }
        namespace.create("pods", &pod).await;
    }
    server
        .merge(
            &namespace.at("pods/c/status"),
            &json!({"status": {"phase": "Running", "podIP": "10.1.2.3"}}),
        )
        .await
        .ok();
    for (name, kind) in [("s1", "example.com/x"), ("s2", "Opaque")] {
        namespace
            .create("secrets", &json!({"metadata": {"name": name}, "type": kind}))
            .await;
    }
    let table = [
        ("pods", "spec.nodeName=", "a"),
        ("pods", "spec.nodeName=node-1", "b"),
        ("pods", "spec.nodeName!=", "b,c"),
        ("pods", "status.phase=Pending", "a,b"),
        ("pods", "status.phase!=Pending", "c"),
        ("pods", "status.podIP=10.1.2.3", "c"),
        ("pods", "spec.restartPolicy=Always,status.phase=Running", "c"),
        ("pods", "spec.schedulerName=default-scheduler", "a,b,c"),
        ("pods", "spec.hostNetwork=false", "a,b,c"),
        ("secrets", "type=Opaque", "s2"),
        ("secrets", "type!=Opaque", "s1"),
    ];
    for (resource, selector, expected) in table {
        let list = server
            .get(&namespace.at(&format!("{resource}?fieldSelector={}", escape(selector))))
            .await
            .ok();
        assert_eq!(names(&list), expected, "{resource} {selector}");
    }
    let found = server
        .get(&format!(
            "/api/v1/namespaces?fieldSelector=metadata.name%3D{}",
            namespace.name()
        ))
        .await
        .ok();
    assert_eq!(names(&found), namespace.name());
    let active = format!(
        "/api/v1/namespaces?fieldSelector=status.phase%3DActive,metadata.name%3D{}",
        namespace.name()
    );
    assert_eq!(names(&server.get(&active).await.ok()), namespace.name());
    let node = unique();
    server
        .post(
            "/api/v1/nodes",
            &json!({"metadata": {"name": node}, "spec": {"unschedulable": true}}),
        )
        .await
        .created();
    for (value, expected) in [("true", node.as_str()), ("false", "")] {
        let selector = escape(&format!("spec.unschedulable={value},metadata.name={node}"));
        let list = server
            .get(&format!("/api/v1/nodes?fieldSelector={selector}"))
            .await
            .ok();
        assert_eq!(names(&list), expected, "unschedulable={value}");
    }
    server.delete(&format!("/api/v1/nodes/{node}")).await.ok();
}

// [F3] custom resources: name and namespace, labels; other fields are refused
async fn custom_resources_are_selected_by_name_and_label(server: Server) {
    let namespace = server.namespace().await;
    let kind = CustomKind::register(&server, |_| {}).await;
    for (name, label) in [("a", "1"), ("b", "2")] {
        let widget = kind.object(name, &json!({"metadata": {"labels": {"l": label}}}));
        server.post(&kind.at(&namespace, ""), &widget).await.created();
    }
    for (query, expected) in [
        ("fieldSelector=metadata.name%3Da".to_owned(), "a"),
        (
            format!("fieldSelector=metadata.namespace%3D{}", namespace.name()),
            "a,b",
        ),
        ("labelSelector=l%3D2".to_owned(), "b"),
    ] {
        let list = server.get(&kind.at(&namespace, &format!("?{query}"))).await.ok();
        assert_eq!(names(&list), expected, "{query}");
    }
    let unknown = server.get(&kind.at(&namespace, "?fieldSelector=spec.x%3D1")).await;
    unknown.is(400, "BadRequest", "field label not supported: spec.x", Value::Null);
}

cases![
    label_selectors_choose_objects,
    refuses_malformed_label_selectors,
    field_selectors_choose_objects,
    selects_fields_of_custom_kinds_by_their_paths,
    refuses_malformed_field_selectors,
    each_kind_has_its_own_fields,
    kinds_are_selected_by_their_fields,
    custom_resources_are_selected_by_name_and_label,
];
