//! Tables: the columns and cells of the kinds that users look at most, the same on both servers.

use serde_json::{Value, json};

use crate::harness::{CustomKind, Server, cases, unique};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

fn template() -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]}})
}

/// The names of the columns and the cells of the one object of a table, without its age.
async fn shown(server: &Server, path: &str) -> (Vec<String>, Vec<Value>) {
    let table = server.request("GET", path).header("accept", TABLE).send().await.ok();
    let columns = table["columnDefinitions"].as_array().cloned().unwrap_or_default();
    let names: Vec<String> = columns
        .iter()
        .map(|column| column["name"].as_str().unwrap_or_default().to_owned())
        .collect();
    let mut cells = table["rows"][0]["cells"].as_array().cloned().unwrap_or_default();
    for (name, cell) in names.iter().zip(&mut cells) {
        if matches!(name.as_str(), "Age" | "Last Seen" | "First Seen" | "Created At") {
            *cell = "AGE".into();
        }
    }
    (names, cells)
}

// [F4] what a table shows of the kinds that users look at most
async fn kinds_have_their_columns_and_cells(server: Server) {
    let namespace = server.namespace().await;
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template()});
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let cases = [
        (
            namespace.of("apps/v1", "deployments"),
            json!({ "spec": spec }),
            json!(["a", "0/1", 0, 0, "AGE", "c,d", "i,j", "a=b"]),
        ),
        (
            namespace.of("apps/v1", "replicasets"),
            json!({ "spec": spec }),
            json!(["a", 1, 0, 0, "AGE", "c,d", "i,j", "a=b"]),
        ),
        (
            namespace.of("apps/v1", "statefulsets"),
            json!({ "spec": spec }),
            json!(["a", "0/1", "AGE", "c,d", "i,j"]),
        ),
        (
            namespace.of("apps/v1", "daemonsets"),
            json!({ "spec": spec }),
            json!(["a", 0, 0, 0, 0, 0, "<none>", "AGE", "c,d", "i,j", "a=b"]),
        ),
        (
            namespace.at("services"),
            json!({"spec": {"clusterIP": "None", "ports": [{"port": 80}], "selector": {"a": "b", "c": "d"}}}),
            json!(["a", "ClusterIP", "None", "<none>", "80/TCP", "AGE", "a=b,c=d"]),
        ),
        (
            namespace.at("persistentvolumeclaims"),
            json!({ "spec": claim }),
            json!(["a", "Pending", "", "", "", "", "<unset>", "AGE", "Filesystem"]),
        ),
        (
            namespace.of("coordination.k8s.io/v1", "leases"),
            json!({"spec": {"holderIdentity": "h"}}),
            json!(["a", "h", "AGE"]),
        ),
        (
            namespace.of("networking.k8s.io/v1", "ingresses"),
            json!({"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}, "rules": [{"host": "a.b"}]}}),
            json!(["a", "<none>", "a.b", "", "80", "AGE"]),
        ),
        (
            namespace.of("policy/v1", "poddisruptionbudgets"),
            json!({"spec": {"minAvailable": "50%"}}),
            json!(["a", "50%", "N/A", 0, "AGE"]),
        ),
        (
            namespace.of("rbac.authorization.k8s.io/v1", "roles"),
            json!({"rules": []}),
            json!(["a", "AGE"]),
        ),
        (
            namespace.of("batch/v1", "cronjobs"),
            json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec":
                {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}}}),
            json!([
                "a",
                "* * * * *",
                "<none>",
                "False",
                0,
                "<none>",
                "AGE",
                "c",
                "i",
                "<none>"
            ]),
        ),
    ];
    for (path, mut object, expected) in cases {
        object["metadata"] = json!({"name": "a"});
        server.post(&path, &object).await.created();
        let (columns, cells) = shown(&server, &format!("{path}/a")).await;
        assert_eq!(Value::from(cells.clone()), expected, "{path}");
        assert_eq!(columns.len(), cells.len(), "{path}: {columns:?}");
        assert_eq!(
            shown(&server, &path).await,
            (columns, cells),
            "{path}: a list is like an object"
        );
    }
}

// [F4] what a table shows of a node
async fn nodes_have_their_columns_and_cells(server: Server) {
    let name = unique();
    let node = json!({
        "metadata": {"name": name, "labels": {"node-role.kubernetes.io/worker": ""}},
        "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1", "osImage": "o",
            "kernelVersion": "k", "architecture": "x", "machineID": "", "systemUUID": "", "bootID": "", "containerRuntimeVersion": "",
            "kubeProxyVersion": "", "operatingSystem": ""},
            "addresses": [{"type": "InternalIP", "address": "10.1.1.1"}]},
    });
    let created = server.post("/api/v1/nodes", &node).await.created();
    assert_eq!(
        created["spec"]["taints"],
        json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])
    );
    let (_, cells) = shown(&server, &format!("/api/v1/nodes/{name}")).await;
    let expected = json!([
        name,
        "Ready,SchedulingDisabled",
        "worker",
        "AGE",
        "v1",
        "10.1.1.1",
        "<none>",
        "o",
        "k (x)",
        "<unknown>"
    ]);
    assert_eq!(Value::from(cells), expected);
    server.delete(&format!("/api/v1/nodes/{name}")).await;
}

/// What the rows of a table show of their objects: the kind, and the names of the fields.
fn objects(table: &Value) -> Value {
    let rows = table["rows"].as_array().cloned().unwrap_or_default();
    let object = |row: &Value| match row["object"].as_object() {
        Some(object) => json!([object["kind"], object.keys().collect::<Vec<_>>()]),
        None => row["object"].clone(),
    };
    rows.iter().map(object).collect()
}

// [F4] rows show as much of their objects as was asked for, alone, in lists and in watches
async fn rows_include_as_much_of_their_objects_as_is_wanted(server: Server) {
    const UNKNOWN: &str = "Unable to convert to Table as requested: includeObject: Invalid value: \"X\": must be 'Metadata', 'Object', 'None', or empty";
    let namespace = server.namespace().await;
    let map = json!({"metadata": {"name": "a"}, "data": {"a": "b"}});
    server.post(&namespace.at("configmaps"), &map).await.created();
    let one = namespace.at("configmaps/a");
    let all = namespace.at("configmaps");
    let metadata = json!([["PartialObjectMetadata", ["apiVersion", "kind", "metadata"]]]);
    let object = json!([["ConfigMap", ["apiVersion", "data", "kind", "metadata"]]]);
    for (parameter, expected) in [
        ("", &metadata),
        ("Metadata", &metadata),
        ("Object", &object),
        ("None", &json!([null])),
    ] {
        for path in [&one, &format!("{all}?fieldSelector=metadata.name=a")] {
            let mark = if path.contains('?') { '&' } else { '?' };
            let path = format!("{path}{mark}includeObject={parameter}");
            let table = server.request("GET", &path).header("accept", TABLE).send().await.ok();
            assert_eq!(&objects(&table), expected, "{path}");
        }
        let path = format!(
            "{all}?fieldSelector=metadata.name=a&watch=1&timeoutSeconds=1&sendInitialEvents=true\
             &resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&includeObject={parameter}"
        );
        let answer = server.request("GET", &path).header("accept", TABLE).send().await;
        let events: Vec<Value> = answer
            .text()
            .lines()
            .map(|line| serde_json::from_str(line).expect("events are JSON"))
            .collect();
        assert_eq!(events[0]["type"], "ADDED");
        assert_eq!(&objects(&events[0]["object"]), expected, "{path}");
        // What ends the initial events says so, whatever else rows show.
        let end = &events[1]["object"]["rows"][0]["object"]["metadata"]["annotations"];
        assert_eq!(end, &json!({"k8s.io/initial-events-end": "true"}), "{path}");
    }
    for path in [&one, &all, &format!("{all}?watch=1")] {
        let mark = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{mark}includeObject=X");
        let answer = server.request("GET", &path).header("accept", TABLE).send().await;
        answer.is(400, "BadRequest", UNKNOWN, json!(null));
    }
    // What a write asks to see is looked at once it is done.
    let map = json!({"metadata": {"name": "b"}});
    let path = format!("{all}?includeObject=X");
    let answer = server
        .request("POST", &path)
        .header("accept", TABLE)
        .json(&map)
        .send()
        .await;
    answer.is(400, "BadRequest", UNKNOWN, json!(null));
    server.get(&namespace.at("configmaps/b")).await.ok();
}

// [F4] the columns of a custom resource say what its definition says of them
async fn columns_of_custom_resources_are_described(server: Server) {
    let kind = CustomKind::register(&server, |definition| {
        definition["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "How large it is."},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "priority": 1},
        ]);
    })
    .await;
    let namespace = server.namespace().await;
    kind.served(&server).await;
    let path = kind.at(&namespace, "");
    let table = server.request("GET", &path).header("accept", TABLE).send().await.ok();
    let columns = table["columnDefinitions"].as_array().cloned().unwrap_or_default();
    assert_eq!(
        columns[1..],
        [
            json!({"name": "Size", "type": "integer", "format": "", "description": "How large it is.", "priority": 0}),
            json!({"name": "Age", "type": "date", "format": "", "priority": 1,
                "description": "Custom resource definition column (in JSONPath format): .metadata.creationTimestamp"}),
        ]
    );
}

cases![
    kinds_have_their_columns_and_cells,
    nodes_have_their_columns_and_cells,
    rows_include_as_much_of_their_objects_as_is_wanted,
    columns_of_custom_resources_are_described,
];
