//! The scale of workloads. [F10]

use serde_json::{Value, json};

use super::texts::{MODIFIED, NOT_ALLOWED};
use crate::harness::{Namespace, Server, cases, version};

const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";

/// The workloads that have a scale.
const KINDS: [(&str, &str); 4] = [
    ("v1", "replicationcontrollers"),
    ("apps/v1", "replicasets"),
    ("apps/v1", "deployments"),
    ("apps/v1", "statefulsets"),
];

/// Creates the workload `w` with two replicas, and gives back its path.
async fn workload(server: &Server, namespace: &Namespace, group_version: &str, plural: &str) -> String {
    let selector = match group_version {
        "v1" => json!({"b": "2", "a": "1"}),
        _ => json!({
            "matchLabels": {"b": "2", "a": "1"},
            "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["2", "1"]}, {"key": "z", "operator": "DoesNotExist"},
                {"key": "b", "operator": "Exists"}, {"key": "c", "operator": "NotIn", "values": ["x"]},
            ],
        }),
    };
    let mut object = json!({
        "metadata": {"name": "w", "labels": {"x": "y"}},
        "spec": {
            "replicas": 2,
            "selector": selector,
            "template": {
                "metadata": {"labels": {"a": "1", "b": "2"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    });
    if plural == "statefulsets" {
        object["spec"]["serviceName"] = "s".into();
    }
    let path = match group_version {
        "v1" => namespace.at(plural),
        _ => namespace.of(group_version, plural),
    };
    server
        .post(&format!("{path}?fieldManager=creator"), &object)
        .await
        .created();
    format!("{path}/w")
}

/// The scale that a workload should have.
fn scale(workload: &Value, replicas: u32, selector: &str) -> Value {
    let metadata = &workload["metadata"];
    let mut scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": "w", "namespace": metadata["namespace"], "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"], "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {"replicas": replicas},
        "status": {"replicas": 0, "selector": selector},
    });
    if replicas == 0 {
        scale["spec"] = json!({});
    }
    scale
}

// [F10] get, put and all patches of all workloads; the workload's number changes, and its generation
async fn scales_workloads(server: Server) {
    let namespace = server.namespace().await;
    for (group_version, plural) in KINDS {
        let path = workload(&server, &namespace, group_version, plural).await;
        let of_scale = format!("{path}/scale");
        let selector = match group_version {
            "v1" => "a=1,b=2",
            _ => "a=1,a in (1,2),b=2,b,c notin (x),!z",
        };
        let created = server.get(&path).await.ok();
        assert_eq!(
            server.get(&of_scale).await.ok(),
            scale(&created, 2, selector),
            "{plural}"
        );
        let put = json!({
            "metadata": {"name": "w", "labels": {"dropped": "x"}},
            "spec": {"replicas": 3}, "status": {"replicas": 9, "selector": "x"},
        });
        let answer = server.put(&of_scale, &put).await.ok();
        let stored = server.get(&path).await.ok();
        assert_eq!(answer, scale(&stored, 3, selector), "{plural}");
        let patches = [
            (MERGE, json!({"spec": {"replicas": 4}}), 4),
            (
                "application/strategic-merge-patch+json",
                json!({"spec": {"replicas": 5}}),
                5,
            ),
            (
                "application/json-patch+json",
                json!([
                    {"op": "test", "path": "/spec/replicas", "value": 5},
                    {"op": "replace", "path": "/spec/replicas", "value": 6},
                ]),
                6,
            ),
            (MERGE, json!({"spec": {"replicas": null}}), 0),
            (
                MERGE,
                json!({"spec": {"replicas": 7}, "metadata": {"labels": {"dropped": "x"}}}),
                7,
            ),
        ];
        for (content_type, patch, replicas) in patches {
            let answer = server.patch(content_type, &of_scale, &patch).await.ok();
            let stored = server.get(&path).await.ok();
            assert_eq!(stored["spec"]["replicas"], replicas, "{plural} {patch}");
            assert_eq!(answer, scale(&stored, replicas, selector), "{plural} {patch}");
        }
        let stored = server.get(&path).await.ok();
        // Some kinds have no generation.
        if let Some(generation) = created["metadata"]["generation"].as_u64() {
            assert_eq!(stored["metadata"]["generation"], generation + 6, "{plural}");
        }
        assert_eq!(stored["metadata"]["labels"], json!({"x": "y"}));
        assert_eq!(stored["spec"]["template"], created["spec"]["template"]);
    }
}

// [F10] versions and uids are preconditions, numbers are checked, dry runs store nothing, the same number is no change
async fn refuses_what_does_not_fit(server: Server) {
    let namespace = server.namespace().await;
    let path = workload(&server, &namespace, "apps/v1", "deployments").await;
    let of_scale = format!("{path}/scale");
    let before = server.get(&path).await.ok();
    let uid = before["metadata"]["uid"].as_str().unwrap();
    let with = |metadata: Value, replicas: Value| {
        let mut scale = json!({"metadata": metadata, "spec": {"replicas": replicas}});
        scale["metadata"]["name"] = "w".into();
        scale
    };
    let conflict = |text: &str| format!("Operation cannot be fulfilled on deployments.apps \"w\": {text}");
    let details = json!({"name": "w", "group": "apps", "kind": "deployments"});
    let stale = with(json!({"resourceVersion": "1"}), json!(3));
    for answer in [
        server.put(&of_scale, &stale).await,
        server.merge(&of_scale, &stale).await,
    ] {
        answer.is(409, "Conflict", &conflict(MODIFIED), details.clone());
    }
    let other = with(json!({"uid": "q"}), json!(3));
    let why = format!("Precondition failed: UID in precondition: q, UID in object meta: {uid}");
    let key = format!("/registry/deployments/{}/w", namespace.name());
    let text =
        format!("StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}");
    server
        .put(&of_scale, &other)
        .await
        .is(409, "Conflict", &conflict(&text), details);
    server.merge(&of_scale, &other).await.is(
        409,
        "Conflict",
        &format!("Operation cannot be fulfilled on deployments/scale.apps \"w\": {why}"),
        json!({"name": "w", "group": "apps", "kind": "deployments/scale"}),
    );
    let negative = with(json!({}), json!(-1));
    for answer in [
        server.put(&of_scale, &negative).await,
        server.merge(&of_scale, &negative).await,
    ] {
        let cause = "Invalid value: -1: must be greater than or equal to 0";
        answer.invalid(
            "autoscaling",
            "Scale",
            "w",
            &[("FieldValueInvalid", "spec.replicas", cause)],
        );
    }
    let wrong = [
        (
            with(json!({}), json!("x")),
            "Scale in version \"v1\" cannot be handled as a Scale: json: cannot unmarshal string into Go struct field \
             ScaleSpec.spec.replicas of type int32",
        ),
        (
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}}),
            "Deployment in version \"v1\" cannot be handled as a Scale: converting (v1.Deployment) to (autoscaling.Scale): \
             unknown conversion",
        ),
        (
            json!({"metadata": {"name": "v"}}),
            "the name of the object (v) does not match the name on the URL (w)",
        ),
        (
            json!({"spec": {"replicas": 3}}),
            "the name of the object (w based on URL) was undeterminable: name must be provided",
        ),
        (
            with(json!({"namespace": "q"}), json!(3)),
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ];
    for (body, text) in wrong {
        server
            .put(&of_scale, &body)
            .await
            .is(400, "BadRequest", text, Value::Null);
    }
    let dry = server
        .merge(&format!("{of_scale}?dryRun=All"), &with(json!({}), json!(9)))
        .await
        .ok();
    assert_eq!(dry["spec"]["replicas"], 9);
    assert_eq!(server.get(&path).await.ok(), before);
}

// [F10] no workload, and verbs that a scale has not
async fn refuses_scales_of_nothing(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.of("apps/v1", "deployments/absent/scale");
    let body = json!({"metadata": {"name": "absent"}, "spec": {"replicas": 1}});
    for answer in [
        server.get(&path).await,
        server.put(&path, &body).await,
        server.merge(&path, &body).await,
    ] {
        answer.is(
            404,
            "NotFound",
            "deployments.apps \"absent\" not found",
            json!({"name": "absent", "group": "apps", "kind": "deployments"}),
        );
    }
    for answer in [server.post(&path, &body).await, server.delete(&path).await] {
        answer.is(405, "MethodNotAllowed", NOT_ALLOWED, json!({}));
    }
    server.patch("application/json", &path, &body).await.is(
        415,
        "UnsupportedMediaType",
        "415: Unsupported Media Type",
        json!({}),
    );
}

/// The managers of a workload: name, operation, subresource, and whether it owns the number.
fn managers(workload: &Value) -> Vec<(String, String, String, bool)> {
    let entries = workload["metadata"]["managedFields"].as_array().into_iter().flatten();
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    entries
        .map(|entry| {
            assert_eq!(entry["apiVersion"], "apps/v1", "{entry}");
            let owns = entry.pointer("/fieldsV1/f:spec/f:replicas").is_some();
            (
                text(entry, "manager"),
                text(entry, "operation"),
                text(entry, "subresource"),
                owns,
            )
        })
        .collect()
}

// [F11] who scales owns the number, as of the subresource; conflicts of an apply name the managers of the workload
async fn scalers_own_the_number(server: Server) {
    let namespace = server.namespace().await;
    let path = workload(&server, &namespace, "apps/v1", "deployments").await;
    let of_scale = format!("{path}/scale");
    let apply = |replicas: u32| {
        json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}, "spec": {"replicas": replicas},
        })
    };
    let row = |manager: &str, operation: &str, subresource: &str, owns: bool| {
        (manager.to_owned(), operation.to_owned(), subresource.to_owned(), owns)
    };
    let creator = || row("creator", "Update", "", false);
    let steps = [
        // an apply of the same number shares it, which parts the entry of the one who had it
        (
            (APPLY, "ap", apply(2)),
            vec![
                row("ap", "Apply", "scale", true),
                row("creator", "Update", "", true),
                creator(),
            ],
        ),
        (
            (APPLY, "ap", apply(3)),
            vec![row("ap", "Apply", "scale", true), creator()],
        ),
        (
            (MERGE, "m", json!({"spec": {"replicas": 3}})),
            vec![row("ap", "Apply", "scale", true), creator()],
        ),
        (
            (MERGE, "m", json!({"spec": {"replicas": 4}})),
            vec![row("m", "Update", "scale", true), creator()],
        ),
        (
            (MERGE, "n", json!({"spec": {"replicas": 5}})),
            vec![row("n", "Update", "scale", true), creator()],
        ),
    ];
    for ((content_type, manager, patch), expected) in steps {
        let before = server.get(&path).await.ok();
        let of_manager = format!("{of_scale}?fieldManager={manager}");
        server.patch(content_type, &of_manager, &patch).await.ok();
        let stored = server.get(&path).await.ok();
        assert_eq!(managers(&stored), expected, "{manager} {patch}");
        assert_eq!(
            managers(&before) == expected,
            version(&before) == version(&stored),
            "{manager} {patch}"
        );
    }
    let refused = server
        .patch(APPLY, &format!("{of_scale}?fieldManager=ap"), &apply(6))
        .await;
    let conflict = "conflict with \"n\" with subresource \"scale\" using autoscaling/v1";
    refused.is(
        409,
        "Conflict",
        &format!("Apply failed with 1 conflict: {conflict}: .spec.replicas"),
        json!({"causes": [{"reason": "FieldManagerConflict", "message": conflict, "field": ".spec.replicas"}]}),
    );
    let forced = format!("{of_scale}?fieldManager=ap&force=true");
    assert_eq!(
        server.patch(APPLY, &forced, &apply(6)).await.ok()["spec"]["replicas"],
        6
    );
    // A write to the workload itself takes the number over.
    let main = format!("{path}?fieldManager=main");
    server.merge(&main, &json!({"spec": {"replicas": 7}})).await.ok();
    let stored = server.get(&path).await.ok();
    assert_eq!(managers(&stored), [creator(), row("main", "Update", "", true)]);
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Scale", "metadata": {"name": "w"}});
    server.patch(APPLY, &forced, &deployment).await.is(
        400,
        "BadRequest",
        "invalid object type: apps/v1, Kind=Scale",
        Value::Null,
    );
    let absent = format!(
        "{}?fieldManager=ap",
        namespace.of("apps/v1", "deployments/absent/scale")
    );
    assert_eq!(server.patch(APPLY, &absent, &apply(1)).await.code, 404);
}

// [F4] tables and metadata of a scale
async fn shows_scales_as_tables(server: Server) {
    let namespace = server.namespace().await;
    let path = workload(&server, &namespace, "apps/v1", "deployments").await;
    let get = async |form: &str| {
        let accept = format!("application/json;as={form};v=v1;g=meta.k8s.io");
        let path = format!("{path}/scale");
        server.request("GET", &path).header("accept", &accept).send().await.ok()
    };
    let table = get("Table").await;
    let names: Vec<_> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| (&column["name"], &column["type"]))
        .collect();
    let column = |name: &str, kind: &str| (json!(name), json!(kind));
    let columns = [
        column("Name", "string"),
        column("Desired", "integer"),
        column("Available", "integer"),
        column("Age", "string"),
    ];
    assert_eq!(names, columns.each_ref().map(|(name, kind)| (name, kind)));
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(cells[..3], [json!("w"), json!(2), json!(0)]);
    let metadata = get("PartialObjectMetadata").await;
    assert_eq!(
        (&metadata["kind"], &metadata["metadata"]["name"]),
        (&json!("PartialObjectMetadata"), &json!("w"))
    );
    assert_eq!(metadata["metadata"].get("labels"), None);
}

// [F10] sixteen writers that scale one workload: no conflict
async fn parallel_scaling_never_conflicts(server: Server) {
    let namespace = server.namespace().await;
    let path = workload(&server, &namespace, "apps/v1", "deployments").await;
    let writers = (0..16).map(|writer| {
        let (server, path) = (server.clone(), format!("{path}/scale"));
        async move {
            for step in 0..5 {
                server
                    .merge(&path, &json!({"spec": {"replicas": writer * 10 + step}}))
                    .await
                    .ok();
            }
        }
    });
    futures_util::future::join_all(writers).await;
    let generation = &server.get(&path).await.ok()["metadata"]["generation"];
    assert!(
        generation.as_u64().is_some_and(|generation| generation > 16),
        "{generation}"
    );
}

cases![
    scales_workloads,
    refuses_what_does_not_fit,
    refuses_scales_of_nothing,
    scalers_own_the_number,
    shows_scales_as_tables,
    parallel_scaling_never_conflicts,
];
