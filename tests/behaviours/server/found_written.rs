//! Requests of clients that make mistakes, on which a comparison by hand (`differential::written`) found differences, each
//! kind of them once.

use serde_json::{Value, json};

use super::texts::{LABEL_1035, NO_RESOURCE, NOT_ALLOWED, SUBDOMAIN};
use crate::harness::{CustomKind, Server, cases, unique};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const INVALID: &str = "FieldValueInvalid";
const REQUIRED: &str = "FieldValueRequired";
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
        ("bnVsbA", "server does not recognize this encoded version "),
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

/// A definition with these changes, which are told from the spec on.
async fn define(server: &Server, group: &str, change: impl FnOnce(&mut Value)) -> crate::harness::Answer {
    let mut definition = CustomKind::definition(group);
    change(&mut definition["spec"]);
    server.post(&format!("{DEFINITIONS}?dryRun=All"), &definition).await
}

// [F17] [F18] what versions of a definition may have is told beside them where all have the same
async fn parts_of_definitions_are_validated(server: Server) {
    let group = format!("{}.example.com", unique());
    let name = format!("widgets.{group}");
    let invalid = |value: &str, why: &str| format!("Invalid value: {value:?}: {why}");
    let version = json!({
        "subresources": {"scale": {"specReplicasPath": "x", "labelSelectorPath": ".x"}},
        "additionalPrinterColumns": [{"type": "int", "format": "x", "jsonPath": "x"}],
        "deprecationWarning": "w",
    });
    let add = |version: &mut Value, more: &Value| {
        version
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
    };
    let simple = invalid("x", "must be a simple json path starting with .");
    let below = invalid(".x", "should be a json path under either .spec or .status");
    let kinds = invalid("int", "must be one of boolean,date,integer,number,string");
    let formats = invalid(
        "x",
        "must be one of byte,date,date-time,double,float,int32,int64,password",
    );
    let deprecated = invalid("w", "can only be set for deprecated versions");
    let one = define(&server, &group, |spec| add(&mut spec["versions"][0], &version)).await;
    let two = define(&server, &group, |spec| {
        let mut other = spec["versions"][0].clone();
        other["name"] = "v2".into();
        other["storage"] = false.into();
        add(&mut other, &version);
        spec["versions"].as_array_mut().unwrap().push(other);
    })
    .await;
    for (answer, warned, at) in [(one, 0, "spec"), (two, 1, "spec.versions[1]")] {
        let warning = format!("spec.versions[{warned}].deprecationWarning");
        let field = |field: &str| format!("{at}.{field}");
        let fields = [
            field("subresources.scale.specReplicasPath"),
            field("subresources.scale.statusReplicasPath"),
            field("subresources.scale.labelSelectorPath"),
            field("additionalPrinterColumns[0].name"),
            field("additionalPrinterColumns[0].type"),
            field("additionalPrinterColumns[0].format"),
            field("additionalPrinterColumns[0].JSONPath"),
        ];
        answer.invalid(
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            &name,
            &[
                (INVALID, &*warning, &*deprecated),
                (INVALID, &fields[0], &simple),
                (REQUIRED, &fields[1], "Required value"),
                (INVALID, &fields[2], &below),
                (REQUIRED, &fields[3], "Required value"),
                (INVALID, &fields[4], &kinds),
                (INVALID, &fields[5], &formats),
                (INVALID, &fields[6], &simple),
            ],
        );
    }
}

// [F17] [F18] groups, names and conversions of definitions
async fn definitions_are_validated(server: Server) {
    let group = format!("{}.example.com", unique());
    let name = format!("widgets.{group}");
    let invalid = |value: &str, why: &str| format!("Invalid value: {value:?}: {why}");
    let check = |answer: crate::harness::Answer, causes: &[(&str, &str, &str)]| {
        answer.invalid("apiextensions.k8s.io", "CustomResourceDefinition", &name, causes);
    };
    let same = invalid("Widget", "kind and listKind may not be the same");
    let answer = define(&server, &group, |spec| spec["names"]["listKind"] = "Widget".into()).await;
    check(answer, &[(INVALID, "spec.names.listKind", &same)]);
    let named = invalid(&name, "must be spec.names.plural+\".\"+spec.group");
    for (other, why) in [
        ("nodots", "should be a domain with at least one dot"),
        ("Bad_.x", SUBDOMAIN),
    ] {
        let answer = define(&server, &group, |spec| spec["group"] = other.into()).await;
        let why = invalid(other, why);
        check(
            answer,
            &[(INVALID, "metadata.name", &named), (INVALID, "spec.group", &why)],
        );
    }
    let long = "a".repeat(64);
    let answer = define(&server, &group, |spec| {
        spec["versions"][0]["name"] = long.clone().into()
    })
    .await;
    let why = invalid(&long, "must be no more than 63 characters");
    check(
        answer,
        &[
            (INVALID, "spec.versions[0].name", &why),
            (INVALID, "spec.version", &why),
        ],
    );
    let preserve = "Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                    spec.versions[*].schema instead";
    let answer = define(&server, &group, |spec| spec["preserveUnknownFields"] = true.into()).await;
    check(answer, &[(INVALID, "spec.preserveUnknownFields", preserve)]);
    let conversion = json!({
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"url": "http://u@/?a=b#c"}, "conversionReviewVersions": ["v2", "A"]},
    });
    let answer = define(&server, &group, |spec| spec["conversion"] = conversion).await;
    let url = "spec.conversion.webhookClientConfig.url";
    let form = "; desired format: https://host[/path]";
    let texts = [
        invalid("http", &format!("'https' is the only allowed URL scheme{form}")),
        invalid("", &format!("host must be specified{form}")),
        invalid("u", "user information is not permitted in the URL"),
        invalid("c", "fragments are not permitted in the URL"),
        invalid("a=b", "query parameters are not permitted in the URL"),
        invalid("A", LABEL_1035),
    ];
    let reviews = r#"Invalid value: ["v2","A"]: must include at least one of v1, v1beta1"#;
    check(
        answer,
        &[
            (INVALID, url, &texts[0]),
            (INVALID, url, &texts[1]),
            (INVALID, url, &texts[2]),
            (INVALID, url, &texts[3]),
            (INVALID, url, &texts[4]),
            (INVALID, "spec.conversion.conversionReviewVersions[1]", &texts[5]),
            (INVALID, "spec.conversion.conversionReviewVersions", reviews),
        ],
    );
}

// [F17] [F18] groups of Kubernetes itself need to be approved
async fn groups_of_kubernetes_need_approval(server: Server) {
    let field = "metadata.annotations[api-approved.kubernetes.io]";
    let must = "protected groups must have approval annotation \"api-approved.kubernetes.io\"";
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    for (annotation, cause) in [
        (None, Some((REQUIRED, format!("Required value: {must}, {see}")))),
        (
            Some("yes"),
            Some((
                INVALID,
                format!(
                    "Invalid value: \"yes\": {must} with either a URL or a reason starting with \"unapproved\", {see}"
                ),
            )),
        ),
        (Some("https://example.com/pull/1"), None),
        (Some("unapproved, a test"), None),
    ] {
        let mut definition = CustomKind::definition("case.k8s.io");
        if let Some(text) = annotation {
            definition["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": text});
        }
        let answer = server.post(&format!("{DEFINITIONS}?dryRun=All"), &definition).await;
        match cause {
            Some((reason, text)) => answer.invalid(
                "apiextensions.k8s.io",
                "CustomResourceDefinition",
                "widgets.case.k8s.io",
                &[(reason, field, &text)],
            ),
            None => assert_eq!(answer.code, 201, "{answer}"),
        }
    }
}

// [F17] [F18] what may not change in a definition, and what is filled in anew
async fn definitions_keep_their_names(server: Server) {
    let kind = CustomKind::register(&server, |_| {}).await;
    let path = format!("{DEFINITIONS}/widgets.{}", kind.group);
    let stored = server.get(&path).await.ok();
    let put = async |change: fn(&mut Value)| {
        let mut definition = stored.clone();
        change(&mut definition["spec"]);
        server.put(&format!("{path}?dryRun=All"), &definition).await
    };
    let named = |field: &str, value: &str| {
        (
            format!("spec.{field}"),
            format!("Invalid value: {value:?}: field is immutable"),
        )
    };
    let answer = put(|spec| {
        spec["scope"] = "Cluster".into();
        spec["names"]["kind"] = "Gadget".into();
        spec["names"]["plural"] = "gadgets".into();
    })
    .await;
    let wrong = [
        named("scope", "Cluster"),
        named("names.kind", "Gadget"),
        named("names.plural", "gadgets"),
    ];
    let causes: Vec<_> = wrong.iter().map(|(field, text)| (INVALID, &**field, &**text)).collect();
    let name = format!("widgets.{}", kind.group);
    answer.invalid("apiextensions.k8s.io", "CustomResourceDefinition", &name, &causes);
    let answer = put(|spec| spec["versions"][0]["name"] = "v2".into()).await;
    let text = "Invalid value: \"v1\": missing from spec.versions; v1 was previously a storage version, and must remain in \
                spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from \
                status.storedVersions";
    let causes = [(INVALID, "status.storedVersions[0]", text)];
    answer.invalid("apiextensions.k8s.io", "CustomResourceDefinition", &name, &causes);
    let answer = put(|spec| {
        let names = spec["names"].as_object_mut().unwrap();
        names.remove("singular");
        names.remove("listKind");
    })
    .await;
    let names = &answer.ok()["spec"]["names"];
    assert_eq!(
        (&names["singular"], &names["listKind"]),
        (&json!("widget"), &json!("WidgetList"))
    );
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
    parts_of_definitions_are_validated,
    definitions_are_validated,
    groups_of_kubernetes_need_approval,
    definitions_keep_their_names,
];
