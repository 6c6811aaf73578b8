//! Creating objects. [F8]

use serde_json::{Value, json};

use super::texts::{LABEL_1123, LABEL_VALUE, NAME_PART, QUALIFIED, SUBDOMAIN};
use crate::harness::{CustomKind, Server, cases, version};

const INVALID: &str = "FieldValueInvalid";
const REQUIRED: &str = "FieldValueRequired";

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

fn deployment(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }})
}

// [F8] the answer is the stored object: kind, uid, version and time are the server's
async fn answers_with_the_stored_object(server: Server) {
    let namespace = server.namespace().await;
    let object =
        json!({"metadata": {"name": "a", "labels": {"l": "1"}, "annotations": {"n": "2"}}, "data": {"k": "v"}});
    let created = namespace.create("configmaps", &object).await;
    assert_eq!(created["kind"], "ConfigMap");
    assert_eq!(created["apiVersion"], "v1");
    assert_eq!(created["data"], json!({"k": "v"}));
    let metadata = &created["metadata"];
    assert_eq!(metadata["name"], "a");
    assert_eq!(metadata["namespace"], namespace.name());
    assert_eq!(metadata["labels"], json!({"l": "1"}));
    assert_eq!(metadata["annotations"], json!({"n": "2"}));
    let uid = metadata["uid"].as_str().unwrap();
    assert_eq!((uid.len(), uid.matches('-').count()), (36, 4), "{uid}");
    let time = metadata["creationTimestamp"].as_str().unwrap();
    assert!(time.len() == 20 && time.ends_with('Z'), "{time}");
    assert!(metadata.get("generation").is_none() && metadata.get("selfLink").is_none());
    assert!(version(&created) > 0);
    assert_eq!(server.get(&namespace.at("configmaps/a")).await.ok(), created);
}

// [F8] what a client sends of the server's fields is replaced; a kind that manages no generation keeps the client's
async fn replaces_the_fields_that_are_the_servers(server: Server) {
    let namespace = server.namespace().await;
    let uid = "11111111-1111-1111-1111-111111111111";
    let object = json!({"metadata": {
        "name": "a", "uid": uid, "generation": 7, "creationTimestamp": "2001-01-01T00:00:00Z", "selfLink": "/x",
        "deletionTimestamp": "2001-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5, "namespace": namespace.name(),
    }});
    let created = namespace.create("configmaps", &object).await;
    let metadata = created["metadata"].as_object().unwrap();
    assert_ne!(metadata["uid"], uid);
    assert!(!metadata["creationTimestamp"].as_str().unwrap().starts_with("2001"));
    assert_eq!(metadata["generation"], 7);
    for absent in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        assert!(!metadata.contains_key(absent), "{absent}");
    }
}

// [F8] generation: managed kinds start at 1, PriorityClass is always 1, the others store the client's value
async fn generation_starts_as_the_kind_manages_it(server: Server) {
    let namespace = server.namespace().await;
    let generation = |object: Value| {
        let mut object = object;
        object["metadata"]["generation"] = 5.into();
        object
    };
    let deployments = namespace.of("apps/v1", "deployments");
    let created = server.post(&deployments, &generation(deployment("d"))).await.created();
    assert_eq!(created["metadata"]["generation"], 1);
    let leases = namespace.of("coordination.k8s.io/v1", "leases");
    let created = server.post(&leases, &generation(named("l"))).await.created();
    assert_eq!(created["metadata"]["generation"], 5);
    let name = server.unique();
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let created = server
        .post(classes, &generation(json!({"metadata": {"name": name}, "value": 5})))
        .await
        .created();
    assert_eq!(created["metadata"]["generation"], 1);
    server.delete(&format!("{classes}/{name}")).await.ok();
    let kind = CustomKind::register(&server, |_| {}).await;
    let created = server
        .post(&kind.at(&namespace, ""), &generation(kind.object("w", &json!({}))))
        .await
        .created();
    assert_eq!(created["metadata"]["generation"], 1);
}

// [F8] a given resource version is refused; 0, and what is no number, count as none
async fn refuses_a_given_resource_version(server: Server) {
    let namespace = server.namespace().await;
    let object = |name: &str, version: &str| json!({"metadata": {"name": name, "resourceVersion": version}});
    let refused = server.post(&namespace.at("configmaps"), &object("a", "5")).await;
    refused.is(
        500,
        "",
        "resourceVersion should not be set on objects to be created",
        Value::Null,
    );
    namespace.create("configmaps", &object("b", "0")).await;
    namespace.create("configmaps", &object("c", "abc")).await;
    namespace.create("configmaps", &object("d", "")).await;
}

// [F8] generateName: five characters behind the prefix; a name wins
async fn generates_names(server: Server) {
    let namespace = server.namespace().await;
    let mut names = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let created = namespace
            .create("configmaps", &json!({"metadata": {"generateName": "g-"}}))
            .await;
        assert_eq!(created["metadata"]["generateName"], "g-");
        let name = created["metadata"]["name"].as_str().unwrap().to_owned();
        let suffix = name.strip_prefix("g-").unwrap();
        // Neither vowels nor digits that look like letters: no words come out.
        assert!(
            suffix.len() == 5 && suffix.chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)),
            "{name}"
        );
        assert!(names.insert(name));
    }
    let created = namespace
        .create("configmaps", &json!({"metadata": {"name": "n", "generateName": "g-"}}))
        .await;
    assert_eq!(created["metadata"]["name"], "n");
}

// [F8] no name at all: 422
async fn refuses_an_object_without_a_name(server: Server) {
    let namespace = server.namespace().await;
    let cause = (
        REQUIRED,
        "metadata.name",
        "Required value: name or generateName is required",
    );
    for object in [
        json!({}),
        json!({"metadata": {}}),
        named(""),
        json!({"metadata": {"generateName": ""}}),
        Value::Null,
    ] {
        server
            .post(&namespace.at("configmaps"), &object)
            .await
            .invalid("", "ConfigMap", "", &[cause]);
    }
    let kind = CustomKind::register(&server, |_| {}).await;
    let mut widget = kind.object("x", &json!({}));
    widget.as_object_mut().unwrap().remove("metadata");
    server
        .post(&kind.at(&namespace, ""), &widget)
        .await
        .invalid(&kind.group, "Widget", "", &[cause]);
}

// [F8] names that the kind's rule does not allow: 422 with the rule
async fn refuses_bad_names(server: Server) {
    let namespace = server.namespace().await;
    let kind = CustomKind::register(&server, |_| {}).await;
    let spec = json!({"ports": [{"port": 80}]});
    let containers = json!({"containers": [{"name": "c", "image": "i"}]});
    let roles = namespace.of("rbac.authorization.k8s.io/v1", "roles");
    let long = "x".repeat(254);
    let with = |name: &str, spec: &Value| json!({"metadata": {"name": name}, "spec": spec});
    let table: Vec<(String, Value, &str, &str, &str)> = vec![
        (
            namespace.at("configmaps"),
            named("Bad_Name"),
            "",
            "ConfigMap",
            SUBDOMAIN,
        ),
        (namespace.at("configmaps"), named(".a"), "", "ConfigMap", SUBDOMAIN),
        (
            namespace.at("configmaps"),
            named(&long),
            "",
            "ConfigMap",
            "must be no more than 253 characters",
        ),
        (namespace.at("pods"), with("P_3", &containers), "", "Pod", SUBDOMAIN),
        (namespace.at("services"), with("Sv_", &spec), "", "Service", LABEL_1123),
        (
            "/api/v1/namespaces".to_owned(),
            named("a.b"),
            "",
            "Namespace",
            "must not contain dots",
        ),
        (
            "/api/v1/namespaces".to_owned(),
            named("Bad.Name"),
            "",
            "Namespace",
            LABEL_1123,
        ),
        (
            roles.clone(),
            named("a/b"),
            "rbac.authorization.k8s.io",
            "Role",
            "may not contain '/'",
        ),
        (
            roles.clone(),
            named("a%b"),
            "rbac.authorization.k8s.io",
            "Role",
            "may not contain '%'",
        ),
        (
            roles.clone(),
            named(".."),
            "rbac.authorization.k8s.io",
            "Role",
            "may not be '..'",
        ),
        (
            kind.at(&namespace, ""),
            kind.object("Bad_", &json!({})),
            &kind.group,
            "Widget",
            SUBDOMAIN,
        ),
    ];
    for (path, object, group, kind, rule) in table {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let cause = format!("Invalid value: {name:?}: {rule}");
        server
            .post(&path, &object)
            .await
            .invalid(group, kind, &name, &[(INVALID, "metadata.name", &cause)]);
    }
    server.post(&roles, &named("system:x")).await.created();
    // Several faults of one name are several causes.
    let name = format!("{}_", "x".repeat(254));
    let long = format!("Invalid value: {name:?}: must be no more than 253 characters");
    let bad = format!("Invalid value: {name:?}: {SUBDOMAIN}");
    let causes = [
        (INVALID, "metadata.name", long.as_str()),
        (INVALID, "metadata.name", &bad),
    ];
    server
        .post(&namespace.at("configmaps"), &named(&name))
        .await
        .invalid("", "ConfigMap", &name, &causes);
}

// [F8] labels, annotations, finalizers and owners that the rules do not allow: 422
async fn refuses_bad_metadata(server: Server) {
    let namespace = server.namespace().await;
    let quoted = |value: &str, text: &str| format!("Invalid value: {value:?}: {text}");
    let long = "x".repeat(64);
    let empty = (REQUIRED, "Required value: must not be empty".to_owned());
    let table = vec![
        (json!({"labels": {"a b": "c"}}), vec![(INVALID, "metadata.labels", quoted("a b", NAME_PART))]),
        (json!({"labels": {"a": "-c"}}), vec![(INVALID, "metadata.labels", quoted("-c", LABEL_VALUE))]),
        (json!({"labels": {"": "c"}}), vec![
            (INVALID, "metadata.labels", quoted("", "name part must be non-empty")),
            (INVALID, "metadata.labels", quoted("", NAME_PART)),
        ]),
        (json!({"labels": {"a/b/c": "c"}}), vec![(INVALID, "metadata.labels", quoted("a/b/c", QUALIFIED))]),
        (
            json!({"labels": {"ok": long}}),
            vec![(INVALID, "metadata.labels", quoted(&long, "must be no more than 63 bytes"))],
        ),
        (json!({"annotations": {"a b": "c"}}), vec![(INVALID, "metadata.annotations", quoted("a b", NAME_PART))]),
        (
            json!({"annotations": {"a": "x".repeat(262_145)}}),
            vec![("FieldValueTooLong", "metadata.annotations", "Too long: may not be more than 262144 bytes".to_owned())],
        ),
        (
            json!({"finalizers": ["foo"]}),
            vec![(
                INVALID,
                "metadata.finalizers[0]",
                quoted("foo", "name is neither a standard finalizer name nor is it fully qualified"),
            )],
        ),
        (
            json!({"finalizers": ["a b/c"]}),
            vec![(INVALID, "metadata.finalizers", quoted("a b/c", &format!("prefix part {SUBDOMAIN}")))],
        ),
        (
            json!({"finalizers": ["orphan", "foregroundDeletion"]}),
            vec![(
                INVALID,
                "metadata.finalizers",
                r#"Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion cannot be both set"#
                    .to_owned(),
            )],
        ),
        (
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x"}]}),
            vec![(empty.0, "metadata.ownerReferences[0].uid", empty.1.clone())],
        ),
        (
            json!({"ownerReferences": [{"apiVersion": "a/b/c", "kind": "", "name": "", "uid": ""}]}),
            vec![
                (INVALID, "metadata.ownerReferences[0].apiVersion", quoted("a/b/c", "must be <group>/<version> or <version>")),
                (empty.0, "metadata.ownerReferences[0].kind", empty.1.clone()),
                (empty.0, "metadata.ownerReferences[0].name", empty.1.clone()),
                (empty.0, "metadata.ownerReferences[0].uid", empty.1.clone()),
            ],
        ),
        (
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "x", "uid": "u"}]}),
            vec![(
                INVALID,
                "metadata.ownerReferences[0]",
                r#"Invalid value: {"apiVersion":"v1","kind":"Event","name":"x","uid":"u"}: /v1, Kind=Event is disallowed from being an owner"#
                    .to_owned(),
            )],
        ),
        (
            json!({"ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u", "controller": true},
                {"apiVersion": "v1", "kind": "Pod", "name": "y", "uid": "v", "controller": true},
            ]}),
            vec![(
                INVALID,
                "metadata.ownerReferences",
                r#"Invalid value: [{"apiVersion":"v1","kind":"Pod","name":"x","uid":"u","controller":true},{"apiVersion":"v1","kind":"Pod","name":"y","uid":"v","controller":true}]: Only one reference can have Controller set to true. Found "true" in references for Pod/x and Pod/y"#
                    .to_owned(),
            )],
        ),
    ];
    for (metadata, causes) in table {
        let mut object = json!({"metadata": metadata});
        object["metadata"]["name"] = "a".into();
        let causes: Vec<_> = causes
            .iter()
            .map(|(reason, field, message)| (*reason, *field, message.as_str()))
            .collect();
        server
            .post(&namespace.at("configmaps"), &object)
            .await
            .invalid("", "ConfigMap", "a", &causes);
    }
    // Duplicate finalizers are stored as they are.
    let twice = json!({"metadata": {"name": "f", "finalizers": ["x.io/a", "x.io/a"]}});
    assert_eq!(
        namespace.create("configmaps", &twice).await["metadata"]["finalizers"],
        json!(["x.io/a", "x.io/a"])
    );
}

// [F8] [F18] where an object cannot go: it exists, it is being deleted, its namespace is absent, terminating or another
async fn refuses_objects_that_have_no_place(server: Server) {
    let namespace = server.namespace().await;
    let maps = namespace.at("configmaps");
    let details = |name: &str, kind: &str| json!({"name": name, "kind": kind});
    namespace.config_map("a").await;
    let twice = server.post(&maps, &named("a")).await;
    twice.is(
        409,
        "AlreadyExists",
        r#"configmaps "a" already exists"#,
        details("a", "configmaps"),
    );
    let dry = server.post(&format!("{maps}?dryRun=All"), &named("a")).await;
    dry.is(
        409,
        "AlreadyExists",
        r#"configmaps "a" already exists"#,
        details("a", "configmaps"),
    );
    namespace
        .create(
            "configmaps",
            &json!({"metadata": {"name": "t", "finalizers": ["x.io/f"]}}),
        )
        .await;
    server.delete(&namespace.at("configmaps/t")).await.ok();
    let over = server.post(&maps, &named("t")).await;
    let text = r#"object is being deleted: configmaps "t" already exists"#;
    over.is(409, "AlreadyExists", text, details("t", "configmaps"));
    for (place, object) in [
        ("absent", named("a")),
        ("absent", named("Bad_Name")),
        ("Bad_NS", named("a")),
    ] {
        let answer = server
            .post(&format!("/api/v1/namespaces/{place}/configmaps"), &object)
            .await;
        answer.is(
            404,
            "NotFound",
            &format!("namespaces {place:?} not found"),
            details(place, "namespaces"),
        );
    }
    let other = json!({"metadata": {"name": "b", "namespace": "other"}});
    let text = "the namespace of the provided object does not match the namespace sent on the request";
    server
        .post(&maps, &other)
        .await
        .is(400, "BadRequest", text, Value::Null);
    let again = server.post("/api/v1/namespaces", &named(namespace.name())).await;
    let text = format!("namespaces {:?} already exists", namespace.name());
    again.is(409, "AlreadyExists", &text, details(namespace.name(), "namespaces"));
    let role = json!({"metadata": {"name": "r"}});
    let roles = namespace.of("rbac.authorization.k8s.io/v1", "roles");
    server.post(&roles, &role).await.created();
    let group = json!({"name": "r", "group": "rbac.authorization.k8s.io", "kind": "roles"});
    server.post(&roles, &role).await.is(
        409,
        "AlreadyExists",
        r#"roles.rbac.authorization.k8s.io "r" already exists"#,
        group,
    );
}

// [F8] [F15] a namespace that is going away takes nothing new
async fn refuses_objects_of_a_terminating_namespace(server: Server) {
    let namespace = server.namespace().await;
    let path = format!("/api/v1/namespaces/{}", namespace.name());
    namespace.config_map("old").await; // also keeps the namespace where something empties it
    let deleted = server.delete(&path).await.ok();
    assert_eq!(deleted["status"]["phase"], "Terminating");
    assert!(deleted["metadata"]["deletionTimestamp"].is_string());
    let answer = server.post(&namespace.at("configmaps"), &named("a")).await;
    let name = namespace.name();
    let details = json!({"name": "a", "kind": "configmaps", "causes": [{
        "reason": "NamespaceTerminating",
        "message": format!("namespace {name} is being terminated"),
        "field": "metadata.namespace",
    }]});
    let text = format!(
        "configmaps \"a\" is forbidden: unable to create new content in namespace {name} because it is being terminated"
    );
    answer.is(403, "Forbidden", &text, details);
}

// [F8] the status of a kind with a status subresource is dropped, a node's is kept
async fn drops_the_status_where_it_is_a_subresource(server: Server) {
    let namespace = server.namespace().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running", "podIP": "10.0.0.9"}});
    let created = namespace.create("pods", &pod).await;
    assert_eq!(created["status"]["phase"], "Pending");
    assert!(created["status"].get("podIP").is_none());
    let mut replicas = deployment("d");
    replicas["status"] = json!({"replicas": 3});
    let created = server
        .post(&namespace.of("apps/v1", "deployments"), &replicas)
        .await
        .created();
    assert_eq!(created["status"], json!({}));
    let name = server.unique();
    let node =
        json!({"metadata": {"name": name}, "status": {"phase": "Pending", "nodeInfo": {"kubeletVersion": "v1"}}});
    let created = server.post("/api/v1/nodes", &node).await.created();
    assert_eq!(created["status"]["phase"], "Pending");
    assert_eq!(created["status"]["nodeInfo"]["kubeletVersion"], "v1");
    server.delete(&format!("/api/v1/nodes/{name}")).await.ok();
    // A custom kind without the subresource keeps it, one with it does not.
    let with = |kind: &CustomKind| kind.object("w", &json!({"status": {"s": 1}}));
    let kind = CustomKind::register(&server, |_| {}).await;
    assert_eq!(
        server.post(&kind.at(&namespace, ""), &with(&kind)).await.created()["status"],
        json!({"s": 1})
    );
    let kind = CustomKind::register(&server, |crd| {
        crd["spec"]["versions"][0]["subresources"] = json!({"status": {}})
    })
    .await;
    assert!(
        server
            .post(&kind.at(&namespace, ""), &with(&kind))
            .await
            .created()
            .get("status")
            .is_none()
    );
}

// [F8] [F14] dry run: a whole answer, with a uid but no version, and nothing stored
async fn a_dry_run_stores_nothing(server: Server) {
    let namespace = server.namespace().await;
    for query in ["dryRun=All", "dryRun=All&dryRun=All"] {
        let created = server
            .post(&namespace.at(&format!("configmaps?{query}")), &named("a"))
            .await
            .created();
        assert!(created["metadata"]["uid"].is_string());
        assert!(created["metadata"]["creationTimestamp"].is_string());
        assert!(created["metadata"].get("resourceVersion").is_none(), "{created}");
    }
    assert_eq!(server.get(&namespace.at("configmaps/a")).await.code, 404);
}

// [F8] [F14] options of a create that are none: 422 with kind CreateOptions
async fn refuses_unknown_options(server: Server) {
    let namespace = server.namespace().await;
    let long = format!("fieldManager={}", "x".repeat(129));
    let unsupported = "FieldValueNotSupported";
    let table = [
        (
            "dryRun=Some",
            unsupported,
            "dryRun",
            r#"Unsupported value: ["Some"]: supported values: "All""#,
        ),
        (
            "dryRun=",
            unsupported,
            "dryRun",
            r#"Unsupported value: [""]: supported values: "All""#,
        ),
        (
            "fieldValidation=foo",
            unsupported,
            "fieldValidation",
            r#"Unsupported value: "foo": supported values: "", "Ignore", "Strict", "Warn""#,
        ),
        (
            &long,
            "FieldValueTooLong",
            "fieldManager",
            "Too long: may not be more than 128 bytes",
        ),
        (
            "fieldManager=%01",
            INVALID,
            "fieldManager",
            "Invalid value: \"\\x01\": invalid character U+0001 (at position 0)",
        ),
    ];
    for (query, reason, field, message) in table {
        let answer = server
            .post(&namespace.at(&format!("configmaps?{query}")), &named("a"))
            .await;
        answer.invalid("meta.k8s.io", "CreateOptions", "", &[(reason, field, message)]);
    }
}

// [F8] [F26] what a namespace gets: its finalizer, its phase and the label with its name
async fn a_namespace_gets_its_label_and_finalizer(server: Server) {
    let name = server.unique();
    let created = server.post("/api/v1/namespaces", &named(&name)).await.created();
    assert_eq!(
        created["metadata"]["labels"],
        json!({"kubernetes.io/metadata.name": name})
    );
    assert_eq!(created["spec"], json!({"finalizers": ["kubernetes"]}));
    assert_eq!(created["status"], json!({"phase": "Active"}));
    assert!(created["metadata"].get("generation").is_none());
}

// [F8] nulls in a map of strings are empty strings, null fields are absent
async fn nulls_are_stored_as_go_reads_them(server: Server) {
    let namespace = server.namespace().await;
    let object = json!({"metadata": {"name": "a", "labels": null, "annotations": {"x": null}}, "data": {"k": null}, "binaryData": null});
    let created = namespace.create("configmaps", &object).await;
    assert_eq!(created["data"], json!({"k": ""}));
    assert_eq!(created["metadata"]["annotations"], json!({"x": ""}));
    assert!(
        created["metadata"].get("labels").is_none() && created.get("binaryData").is_none(),
        "{created}"
    );
}

cases![
    answers_with_the_stored_object,
    replaces_the_fields_that_are_the_servers,
    generation_starts_as_the_kind_manages_it,
    refuses_a_given_resource_version,
    generates_names,
    refuses_an_object_without_a_name,
    refuses_bad_names,
    refuses_bad_metadata,
    refuses_objects_that_have_no_place,
    refuses_objects_of_a_terminating_namespace,
    drops_the_status_where_it_is_a_subresource,
    a_dry_run_stores_nothing,
    refuses_unknown_options,
    a_namespace_gets_its_label_and_finalizer,
    nulls_are_stored_as_go_reads_them,
];
