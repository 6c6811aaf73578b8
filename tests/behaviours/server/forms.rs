//! What a real server makes of what it is told: the form of values, fields that are empty, what is added, who wrote it; and what
//! it says of itself. [F26]

use serde_json::{Value, json};

use super::apply::owners;
use crate::harness::{CustomKind, Server, cases, eventually};

// [F26] values are stored in Go's form; fields that do not exist and nulls are dropped
async fn values_have_the_form_of_go(server: Server) {
    let namespace = server.namespace().await;
    let map = json!({
        "metadata": {"name": "a", "labels": {"l": null}, "unknown": 1}, "data": {"b": "2", "a": null}, "unknown": {"x": 1},
        "binaryData": null,
    });
    let map = namespace.create("configmaps", &map).await;
    assert_eq!(map["data"], json!({"a": "", "b": "2"}));
    assert_eq!(map["metadata"]["labels"], json!({"l": ""}));
    for name in ["unknown", "binaryData"] {
        assert!(map.get(name).is_none() && map["metadata"].get(name).is_none(), "{map}");
    }

    let limits = json!({
        "cpu": "1000m", "memory": "1024Mi", "ephemeral-storage": "1.50Gi", "example.com/a": 3, "example.com/b": "1e3",
    });
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": limits}}]}});
    let pod = namespace.create("pods", &pod).await;
    let expected = json!({
        "cpu": "1", "memory": "1Gi", "ephemeral-storage": "1536Mi", "example.com/a": "3", "example.com/b": "1e3",
    });
    assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"], expected);

    let lease = json!({"metadata": {"name": "l"}, "spec": {
        "acquireTime": "2026-01-02T03:04:05.123400+01:00", "renewTime": "2026-01-02T03:04:05.123456Z",
    }});
    let leases = namespace.of("coordination.k8s.io/v1", "leases");
    let lease = server.post(&leases, &lease).await.created();
    let expected = json!({"acquireTime": "2026-01-02T02:04:05.123400Z", "renewTime": "2026-01-02T03:04:05.123456Z"});
    assert_eq!(lease["spec"], expected);
    let event = json!({
        "metadata": {"name": "e"}, "involvedObject": {"namespace": namespace.name()},
        "firstTimestamp": "2026-01-02T03:04:05+01:00", "lastTimestamp": null,
    });
    let event = namespace.create("events", &event).await;
    assert_eq!(event["firstTimestamp"], "2026-01-02T02:04:05Z");

    // Whole numbers have no point, and what is larger than Go's integers is a float; zero has no sign.
    let kind = CustomKind::register(&server, |_| {}).await;
    let numbers = r#"{"a":1.0,"b":1.50,"c":9223372036854775808,"d":1e2,"e":-0.0}"#;
    let mut object = kind.object("n", &json!({}));
    object["spec"] = serde_json::from_str(numbers).expect("JSON");
    let stored = server.post(&kind.at(&namespace, ""), &object).await.created();
    assert_eq!(
        stored["spec"].to_string(),
        r#"{"a":1,"b":1.5,"c":9223372036854776000,"d":100,"e":0}"#
    );
}

// [F26] fields that Go writes when they are empty are there, and no others
async fn empty_fields_are_written_as_go_writes_them(server: Server) {
    let namespace = server.namespace().await;
    let fields = |object: &Value| {
        let mut object = object.clone();
        for name in ["apiVersion", "kind", "metadata"] {
            object.as_object_mut().unwrap().remove(name);
        }
        object
    };
    let map = json!({"metadata": {"name": "a", "annotations": {}, "finalizers": []}, "data": {}});
    let map = namespace.create("configmaps", &map).await;
    assert_eq!(fields(&map), json!({}));
    for name in ["annotations", "finalizers"] {
        assert!(map["metadata"].get(name).is_none(), "{map}");
    }
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": namespace.name()}});
    let event = namespace.create("events", &event).await;
    let expected = json!({
        "involvedObject": {"namespace": namespace.name()}, "source": {}, "firstTimestamp": null, "lastTimestamp": null,
        "eventTime": null, "reportingComponent": "", "reportingInstance": "",
    });
    assert_eq!(fields(&event), expected);
    let role = json!({"metadata": {"name": "r"}});
    let roles = namespace.of("rbac.authorization.k8s.io/v1", "roles");
    assert_eq!(
        fields(&server.post(&roles, &role).await.created()),
        json!({"rules": null})
    );
    let lease = json!({"metadata": {"name": "l"}});
    let leases = namespace.of("coordination.k8s.io/v1", "leases");
    assert_eq!(
        fields(&server.post(&leases, &lease).await.created()),
        json!({"spec": {}})
    );
    let account = json!({"metadata": {"name": "s"}});
    assert_eq!(fields(&namespace.create("serviceaccounts", &account).await), json!({}));
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": {
        "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    }});
    let deployments = namespace.of("apps/v1", "deployments");
    let deployment = json!({"metadata": {"name": "d"}, "spec": spec});
    let deployment = server.post(&deployments, &deployment).await.created();
    assert_eq!(deployment["status"], json!({}));
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["resources"], json!({}));
    assert_eq!(deployment["spec"]["template"]["spec"]["securityContext"], json!({}));
}

// [F26] what admission adds to pods, and that nobody owns it
async fn admission_adds_to_pods(server: Server) {
    let namespace = server.namespace().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pod = namespace.create("pods", &pod).await;
    let spec = &pod["spec"];
    assert_eq!(
        (&spec["priority"], &spec["preemptionPolicy"]),
        (&json!(0), &json!("PreemptLowerPriority"))
    );
    let toleration = |key: &str| {
        let key = format!("node.kubernetes.io/{key}");
        json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
    };
    assert_eq!(
        spec["tolerations"],
        json!([toleration("not-ready"), toleration("unreachable")])
    );
    let owned = owners(&pod).to_string();
    for field in ["f:priority", "f:preemptionPolicy", "f:tolerations"] {
        assert!(!owned.contains(field), "{owned}");
    }
    assert!(owned.contains("f:restartPolicy"), "{owned}");
}

// [F26] who wrote an object is named by the parameter, or by the agent up to its version
async fn managers_are_named(server: Server) {
    let namespace = server.namespace().await;
    let long = "m".repeat(200);
    for (at, (agent, parameter, expected)) in [
        (Some("tool/v1.2 (linux) x/y"), "", "tool"),
        (Some("tool with words"), "", "tool with words"),
        (Some("/v1"), "", "unknown"),
        (Some(long.as_str()), "", &long[..128]),
        (Some("tool/v1"), "?fieldManager=named", "named"),
        (Some("tool/v1"), "?fieldManager=", "tool"),
        (Some("tool/v1"), "?fieldManager=a%2Fb", "a/b"),
    ]
    .into_iter()
    .enumerate()
    {
        let map = json!({"metadata": {"name": format!("m{at}")}, "data": {"a": "b"}});
        let path = namespace.at(&format!("configmaps{parameter}"));
        let mut request = server.request("POST", &path).json(&map);
        if let Some(agent) = agent {
            request = request.header("user-agent", agent);
        }
        let created = request.send().await.created();
        let manager = &created["metadata"]["managedFields"][0]["manager"];
        assert_eq!(*manager, expected, "{agent:?} {parameter}");
    }
    let long = namespace.at(&format!("configmaps?fieldManager={long}"));
    let answer = server.post(&long, &json!({"metadata": {"name": "long"}})).await;
    let text = "Too long: may not be more than 128 bytes";
    answer.invalid(
        "meta.k8s.io",
        "CreateOptions",
        "",
        &[("FieldValueTooLong", "fieldManager", text)],
    );
}

// [F14] [F26] what is odd is warned of, in a header
async fn warnings_come_in_headers(server: Server) {
    let namespace = server.namespace().await;
    let warnings = |answer: &crate::harness::Answer| -> Vec<String> {
        let all = answer.headers.get_all("warning").iter();
        all.map(|value| value.to_str().unwrap().to_owned()).collect()
    };
    let endpoints = server.get(&namespace.at("endpoints")).await;
    let text = "299 - \"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice\"";
    assert_eq!(warnings(&endpoints), [text]);
    let odd = r#"{"metadata":{"name":"a"},"data":{"k":"1","k":"2"},"nope":{}}"#;
    let sent = server
        .request("POST", &namespace.at("configmaps"))
        .body("application/json", odd)
        .send()
        .await;
    assert_eq!(sent.code, 201);
    assert_eq!(
        warnings(&sent),
        [
            "299 - \"duplicate field \\\"data.k\\\"\"",
            "299 - \"unknown field \\\"nope\\\"\""
        ]
    );
    let ignored = server
        .request("POST", &namespace.at("configmaps?fieldValidation=Ignore&dryRun=All"))
        .body("application/json", odd.replace("\"a\"", "\"b\""))
        .send()
        .await;
    assert_eq!((ignored.code, warnings(&ignored)), (201, Vec::new()));
}

// [F26] the index lists the paths of groups and versions, those of definitions too, and answers whatever the method
async fn the_index_lists_paths(server: Server) {
    let kind = CustomKind::register(&server, |_| {}).await;
    let paths = async |method: &str, path: &str| {
        let answer = server.request(method, path).send().await;
        assert_eq!((answer.code, answer.header("content-type")), (200, "application/json"));
        assert!(
            answer.text().starts_with("{\n  \"paths\": [\n    \"/"),
            "{}",
            answer.text()
        );
        let paths = answer.json()["paths"].as_array().expect("a list").clone();
        paths
            .iter()
            .map(|path| path.as_str().expect("a text").to_owned())
            .collect::<Vec<_>>()
    };
    let own = format!("/apis/{}", kind.group);
    let all = eventually("the definition's paths", || async {
        let all = paths("GET", "/").await;
        all.contains(&format!("{own}/v1")).then_some(all)
    })
    .await;
    assert!(all.contains(&own));
    assert!(all.is_sorted(), "{all:?}");
    for path in [
        "/api",
        "/api/v1",
        "/apis",
        "/apis/",
        "/apis/apps",
        "/apis/apps/v1",
        "/apis/autoscaling/v1",
        "/apis/autoscaling/v2",
        "/healthz",
        "/healthz/etcd",
        "/healthz/log",
        "/healthz/ping",
        "/livez/ping",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz/ping",
        "/version",
    ] {
        assert!(all.iter().any(|found| found == path), "{path} is not in {all:?}");
    }
    // Each built-in group that discovery knows, in each version, and no other.
    let groups = server.get("/apis").await.ok();
    let groups = groups["groups"].as_array().expect("groups").iter();
    let versions = groups.flat_map(|group| group["versions"].as_array().expect("versions").clone());
    let mut expected: Vec<String> = versions
        .map(|version| format!("/apis/{}", version["groupVersion"].as_str().expect("a text")))
        .filter(|path| path.contains(".k8s.io/") || !path.contains(".example.com/"))
        .collect();
    expected.sort();
    let found = all
        .iter()
        .filter(|path| path.starts_with("/apis/") && path.matches('/').count() == 3);
    let found: Vec<_> = found.filter(|path| !path.contains(".example.com/")).cloned().collect();
    assert_eq!(found, expected);
    assert!(paths("POST", "/").await.contains(&"/version".to_owned()));
    assert!(paths("GET", "/index.html").await.contains(&"/version".to_owned()));
}

// [F18] [F26] health checks tell their parts, and leave out those that are excluded
async fn health_checks_tell_their_parts(server: Server) {
    for check in ["healthz", "livez", "readyz"] {
        for part in ["ping", "log", "etcd"] {
            let answer = server.get(&format!("/{check}/{part}")).await;
            assert_eq!((answer.code, answer.text()), (200, "ok"), "{check}/{part}");
        }
        let answer = server.get(&format!("/{check}/nonsense")).await;
        assert_eq!((answer.code, answer.text()), (404, "404 page not found\n"));
        let long = server
            .get(&format!("/{check}?verbose&exclude=etcd&exclude=no&exclude=ano"))
            .await;
        let lines: Vec<_> = long.text().lines().collect();
        for line in ["[+]ping ok", "[+]log ok", "[+]etcd excluded: ok"] {
            assert!(lines.contains(&line), "{line} is not in {lines:?}");
        }
        let warning = "warn: some health checks cannot be excluded: no matches for \"ano\",\"no\"";
        let last = format!("{check} check passed");
        assert_eq!(lines[lines.len() - 2..], [warning, last.as_str()]);
        let posted = server.request("POST", &format!("/{check}")).send().await;
        assert_eq!((posted.code, posted.text()), (200, "ok"));
    }
}

cases![
    values_have_the_form_of_go,
    empty_fields_are_written_as_go_writes_them,
    admission_adds_to_pods,
    managers_are_named,
    warnings_come_in_headers,
    the_index_lists_paths,
    health_checks_tell_their_parts,
];
