//! Horizontal pod autoscalers under two versions: `autoscaling/v1` has one metric in its spec and the rest in annotations. [F26]

use serde_json::{Value, json};

use super::apply::{apply, apply_with, conflicts, owners};
use crate::harness::{Event, Namespace, Server, cases, version};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// The path of autoscalers, or of one, in a version.
fn at(namespace: &Namespace, version: u8, rest: &str) -> String {
    let rest = format!("horizontalpodautoscalers{rest}");
    namespace.of(&format!("autoscaling/v{version}"), &rest)
}

fn target() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"})
}

/// A document of a version with these fields of its spec.
fn document(version: u8, name: &str, spec: &Value) -> Value {
    let api_version = format!("autoscaling/v{version}");
    json!({
        "apiVersion": api_version, "kind": "HorizontalPodAutoscaler", "metadata": {"name": name}, "spec": spec,
    })
}

/// An autoscaler of a version, with these fields of its spec beside those that all have.
fn autoscaler(version: u8, name: &str, more: &Value) -> Value {
    let mut object = document(version, name, more);
    object["spec"]["scaleTargetRef"] = target();
    object["spec"]["maxReplicas"] = 3.into();
    object
}

fn of_cpu(percentage: u8) -> Value {
    json!({"type": "Resource", "resource": {
        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": percentage},
    }})
}

/// Metrics of all types. Those of the processor are the ones that `v1` has a field for.
fn metrics() -> Value {
    let labels = json!({"matchLabels": {"b": "1", "a": "x"}});
    let described = json!({"kind": "Service", "name": "s"});
    json!([
        {"type": "Object", "object": {
            "describedObject": described, "metric": {"name": "m", "selector": labels}, "target": {"type": "Value", "value": "1000m"},
        }},
        {"type": "Object", "object": {
            "describedObject": described, "metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1.5"},
        }},
        of_cpu(60),
        {"type": "Pods", "pods": {
            "metric": {"name": "p", "selector": {}}, "target": {"type": "AverageValue", "averageValue": "1k"},
        }},
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "100m"}}},
        {"type": "ContainerResource", "containerResource": {
            "name": "cpu", "container": "c", "target": {"type": "Utilization", "averageUtilization": 10},
        }},
        {"type": "External", "external": {
            "metric": {"name": "e", "selector": labels}, "target": {"type": "Value", "value": "5"},
        }},
        {"type": "External", "external": {"metric": {"name": "e"}, "target": {"type": "AverageValue", "averageValue": "7"}}},
    ])
}

/// What `v1` says of them in an annotation.
const METRICS_OF_V1: &str = concat!(
    r#"[{"type":"Object","object":{"target":{"kind":"Service","name":"s"},"metricName":"m","targetValue":"1","#,
    r#""selector":{"matchLabels":{"a":"x","b":"1"}}}},"#,
    r#"{"type":"Object","object":{"target":{"kind":"Service","name":"s"},"metricName":"m","targetValue":"0","#,
    r#""averageValue":"1500m"}},"#,
    r#"{"type":"Pods","pods":{"metricName":"p","targetAverageValue":"1k","selector":{}}},"#,
    r#"{"type":"Resource","resource":{"name":"cpu","targetAverageValue":"100m"}},"#,
    r#"{"type":"ContainerResource","containerResource":{"name":"cpu","targetAverageUtilization":10,"container":"c"}},"#,
    r#"{"type":"External","external":{"metricName":"e","metricSelector":{"matchLabels":{"a":"x","b":"1"}},"#,
    r#""targetValue":"5"}},"#,
    r#"{"type":"External","external":{"metricName":"e","targetAverageValue":"7"}}]"#,
);

fn behavior() -> Value {
    let policy = json!({"type": "Pods", "value": 2, "periodSeconds": 30});
    json!({
        "scaleUp": {"stabilizationWindowSeconds": 5, "policies": [policy], "tolerance": "0.10"},
        "scaleDown": {"selectPolicy": "Disabled"},
    })
}

/// What `v1` says of it in an annotation: Go's own names, and what was filled in.
const BEHAVIOR_OF_V1: &str = concat!(
    r#"{"ScaleUp":{"StabilizationWindowSeconds":5,"SelectPolicy":"Max","#,
    r#""Policies":[{"Type":"Pods","Value":2,"PeriodSeconds":30}],"Tolerance":"100m"},"#,
    r#""ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":"Disabled","#,
    r#""Policies":[{"Type":"Percent","Value":100,"PeriodSeconds":15}],"Tolerance":null}}"#,
);

fn annotation<'o>(object: &'o Value, name: &str) -> &'o str {
    object["metadata"]["annotations"][name].as_str().unwrap_or_default()
}

// [F16] [F26] each version has its defaults, and shows what was written through the other one
async fn an_autoscaler_is_filled_in_and_shown_in_both_versions(server: Server) {
    let namespace = server.namespace().await;
    for (name, written, more, of_v1, of_v2) in [
        (
            "a",
            1,
            json!({}),
            json!({"minReplicas": 1, "percentage": 80}),
            json!({"minReplicas": 1, "metrics": [of_cpu(80)]}),
        ),
        (
            "b",
            1,
            json!({"targetCPUUtilizationPercentage": 50, "minReplicas": 2}),
            json!({"minReplicas": 2, "percentage": 50}),
            json!({"minReplicas": 2, "metrics": [of_cpu(50)]}),
        ),
        (
            "c",
            2,
            json!({}),
            json!({"minReplicas": 1, "percentage": 80}),
            json!({"minReplicas": 1, "metrics": [of_cpu(80)]}),
        ),
    ] {
        let mut object = autoscaler(written, name, &more);
        object["status"] = json!({"currentReplicas": 5, "desiredReplicas": 5});
        let created = server.post(&at(&namespace, written, ""), &object).await.created();
        let old = server.get(&at(&namespace, 1, &format!("/{name}"))).await.ok();
        let new = server.get(&at(&namespace, 2, &format!("/{name}"))).await.ok();
        assert_eq!(created, if written == 1 { old.clone() } else { new.clone() });
        let expected = json!({
            "scaleTargetRef": target(), "minReplicas": of_v1["minReplicas"], "maxReplicas": 3,
            "targetCPUUtilizationPercentage": of_v1["percentage"],
        });
        assert_eq!(
            (&old["apiVersion"], &old["spec"]),
            (&json!("autoscaling/v1"), &expected)
        );
        let expected = json!({
            "scaleTargetRef": target(), "minReplicas": of_v2["minReplicas"], "maxReplicas": 3, "metrics": of_v2["metrics"],
        });
        assert_eq!(
            (&new["apiVersion"], &new["spec"]),
            (&json!("autoscaling/v2"), &expected)
        );
        assert_eq!(old["status"], json!({"currentReplicas": 0, "desiredReplicas": 0}));
        assert_eq!(new["status"], json!({"desiredReplicas": 0, "currentMetrics": null}));
        assert_eq!(old["metadata"], new["metadata"]);
    }
    let rules = json!({"behavior": {"scaleUp": {}}});
    let path = at(&namespace, 2, "");
    let created = server.post(&path, &autoscaler(2, "rules", &rules)).await.created();
    let policy = |kind: &str, value: u8| json!({"type": kind, "value": value, "periodSeconds": 15});
    let expected = json!({
        "scaleUp": {
            "stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [policy("Pods", 4), policy("Percent", 100)],
        },
        "scaleDown": {"selectPolicy": "Max", "policies": [policy("Percent", 100)]},
    });
    assert_eq!(created["spec"]["behavior"], expected);
}

// [F26] what v1 has no field for is in annotations, and survives a write through it, but for the order of metrics
async fn annotations_carry_what_the_older_version_lacks(server: Server) {
    let namespace = server.namespace().await;
    let mut object = autoscaler(2, "a", &json!({"metrics": metrics(), "behavior": behavior()}));
    object["metadata"]["annotations"] = json!({"x": "y", METRICS: "[]"});
    let created = server.post(&at(&namespace, 2, ""), &object).await.created();
    assert_eq!(created["metadata"]["annotations"], json!({"x": "y"}));
    let path = at(&namespace, 1, "/a");
    let old = server.get(&path).await.ok();
    assert_eq!(old["spec"]["targetCPUUtilizationPercentage"], 60);
    assert_eq!(
        old["metadata"]["annotations"],
        json!({"x": "y", METRICS: METRICS_OF_V1, BEHAVIOR: BEHAVIOR_OF_V1})
    );
    let mut changed = old.clone();
    changed["metadata"]["annotations"]["n"] = "1".into();
    let put = server.put(&path, &changed).await.ok();
    assert_eq!(put["spec"], old["spec"]);
    assert_eq!(
        put["metadata"]["generation"], 2,
        "the metric of the processor comes last now"
    );
    let new = server.get(&at(&namespace, 2, "/a")).await.ok();
    let mut moved = created["spec"]["metrics"].as_array().unwrap().clone();
    let last = moved.remove(2);
    moved.push(last);
    assert_eq!(new["spec"]["metrics"], json!(moved));
    assert_eq!(new["spec"]["behavior"], created["spec"]["behavior"]);
    assert_eq!(new["metadata"]["annotations"], json!({"x": "y", "n": "1"}));
    // The same again is no change.
    let again = server.put(&path, &put).await.ok();
    assert_eq!(version(&again), version(&put));
}

// [F26] annotations are read as Go reads them; what cannot be read counts as none
async fn annotations_of_the_older_version_are_read(server: Server) {
    let namespace = server.namespace().await;
    let rules = json!({
        "scaleUp": {"stabilizationWindowSeconds": 3, "selectPolicy": "Max", "policies": [
            {"type": "Pods", "value": 1, "periodSeconds": 20},
        ]},
        "scaleDown": {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]},
    });
    let pods = |value: &str| json!([{"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": value}}}]);
    let nothing = json!([of_cpu(80)]);
    for (at_line, (annotation, text, metrics, behavior)) in [
        (METRICS, "nope", nothing.clone(), Value::Null),
        (METRICS, "[]", nothing.clone(), Value::Null),
        (METRICS, "null", nothing.clone(), Value::Null),
        (METRICS, r#"[{"type":"Pods","pods":{"metricName":5}}]"#, nothing.clone(), Value::Null),
        (METRICS, r#"[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"x"}}]"#, nothing.clone(), Value::Null),
        (METRICS, r#"[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"1000m"}}]"#, pods("1"), Value::Null),
        (
            METRICS,
            r#"[{"TYPE":"Object","Object":{"target":{"kind":"S","name":"n"},"METRICNAME":"m","targetValue":"0","averageValue":"5"}}]"#,
            json!([{"type": "Object", "object": {
                "describedObject": {"kind": "S", "name": "n"}, "metric": {"name": "m"},
                "target": {"type": "AverageValue", "averageValue": "5"},
            }}]),
            Value::Null,
        ),
        (
            METRICS,
            r#"[{"type":"External","external":{"metricName":"m","targetAverageValue":2}},{"type":"Resource","resource":{"name":"memory","targetAverageUtilization":7}}]"#,
            json!([
                {"type": "External", "external": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "2"}}},
                {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 7}}},
            ]),
            Value::Null,
        ),
        (BEHAVIOR, "{}", nothing.clone(), Value::Null),
        (BEHAVIOR, r#"{"ScaleUp":5}"#, nothing.clone(), Value::Null),
        (
            BEHAVIOR,
            r#"{"scaleUp":{"stabilizationWindowSeconds":3,"selectPolicy":"Max","policies":[{"type":"Pods","value":1,"periodSeconds":20}]}}"#,
            nothing.clone(),
            rules,
        ),
        // Only a status says these.
        (CONDITIONS, r#"[{"type":"Z","status":"True"}]"#, nothing.clone(), Value::Null),
        ("autoscaling.alpha.kubernetes.io/scale-up-tolerance", "1", nothing.clone(), Value::Null),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("a{at_line}");
        let mut object = autoscaler(1, &name, &json!({}));
        object["metadata"]["annotations"] = json!({annotation: text});
        server.post(&at(&namespace, 1, ""), &object).await.created();
        let new = server.get(&at(&namespace, 2, &format!("/{name}"))).await.ok();
        assert_eq!((&new["spec"]["metrics"], &new["spec"]["behavior"]), (&metrics, &behavior), "{text}");
        assert_eq!(new["metadata"].get("annotations"), None, "{text}");
        assert_eq!(new["status"], json!({"desiredReplicas": 0, "currentMetrics": null}), "{text}");
        // As it is shown, it stays, but for rules that were filled in after they were stored: a real server stores them now.
        let old = server.get(&at(&namespace, 1, &format!("/{name}"))).await.ok();
        let put = server
            .put(&at(&namespace, 1, &format!("/{name}")), &old)
            .await
            .ok();
        if behavior.is_null() {
            assert_eq!(version(&put), version(&old), "{text}");
        }
    }
}

// [F9] [F26] a status is written through each version, and leaves the spec alone, wherever the version shows either
async fn statuses_are_written_through_both_versions(server: Server) {
    let namespace = server.namespace().await;
    let (old_path, new_path) = (at(&namespace, 1, "/a"), at(&namespace, 2, "/a"));
    let created = server
        .post(
            &at(&namespace, 2, ""),
            &autoscaler(2, "a", &json!({"metrics": metrics()})),
        )
        .await;
    let created = created.created();
    let status = json!({
        "observedGeneration": 1, "lastScaleTime": "2026-01-02T03:04:05Z", "currentReplicas": 2, "desiredReplicas": 3,
        "currentMetrics": [
            {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 12, "averageValue": "3m"}}},
            {"type": "External", "external": {"metric": {"name": "e"}, "current": {"averageValue": "2"}}},
        ],
        "conditions": [{"type": "X", "status": "True", "message": "a \"b\" <c>", "lastTransitionTime": "2026-01-02T03:04:05Z"}],
    });
    let written = server
        .merge(&format!("{new_path}/status"), &json!({"status": status}))
        .await
        .ok();
    assert_eq!(written["status"], status);
    let old = server.get(&old_path).await.ok();
    let expected = json!({
        "observedGeneration": 1, "lastScaleTime": "2026-01-02T03:04:05Z", "currentReplicas": 2, "desiredReplicas": 3,
        "currentCPUUtilizationPercentage": 12,
    });
    assert_eq!(old["status"], expected);
    assert_eq!(
        annotation(&old, CURRENT),
        concat!(
            r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":12,"currentAverageValue":"3m"}},"#,
            r#"{"type":"External","external":{"metricName":"e","currentValue":"0","currentAverageValue":"2"}}]"#,
        )
    );
    assert_eq!(
        annotation(&old, CONDITIONS),
        r#"[{"type":"X","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z","message":"a \"b\" \u003cc\u003e"}]"#
    );

    let mut object = old.clone();
    object["status"]["currentReplicas"] = 9.into();
    object["spec"]["maxReplicas"] = 77.into();
    object["metadata"]["annotations"][CONDITIONS] = r#"[{"type":"Y","status":"True"}]"#.into();
    object["metadata"]["annotations"][METRICS] = "[]".into();
    server.put(&format!("{old_path}/status"), &object).await.ok();
    let new = server.get(&new_path).await.ok();
    assert_eq!(
        new["spec"], created["spec"],
        "the spec is not even put in another order"
    );
    assert_eq!(new["status"]["currentReplicas"], 9);
    assert_eq!(
        new["status"]["conditions"],
        json!([{"type": "Y", "status": "True", "lastTransitionTime": null}])
    );
    assert_eq!(new["metadata"]["generation"], 1);

    // Nor does a write of the spec change the status by annotations.
    let mut object = server.get(&old_path).await.ok();
    object["metadata"]["annotations"][CONDITIONS] = "[]".into();
    object["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove(CURRENT);
    server.put(&old_path, &object).await.ok();
    assert_eq!(server.get(&new_path).await.ok()["status"], new["status"]);

    // Without a raw value there is none.
    server
        .post(&at(&namespace, 1, ""), &autoscaler(1, "b", &json!({})))
        .await
        .created();
    let percentage = json!({"status": {"currentCPUUtilizationPercentage": 40}});
    server.merge(&at(&namespace, 1, "/b/status"), &percentage).await.ok();
    let new = server.get(&at(&namespace, 2, "/b")).await.ok();
    let current = json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 40}}}]);
    assert_eq!(new["status"]["currentMetrics"], current);
}

// [F11] [F26] managers own fields of their version, and lose what is changed through the other one
async fn managers_speak_of_either_version(server: Server) {
    let namespace = server.namespace().await;
    let (old_path, new_path) = (at(&namespace, 1, "/a"), at(&namespace, 2, "/a"));
    let wanted = json!({"scaleTargetRef": target(), "maxReplicas": 3, "targetCPUUtilizationPercentage": 50});
    let one = apply(&server, &old_path, "m1", &document(1, "a", &wanted))
        .await
        .created();
    let spec = |fields: Value| json!({ "f:spec": fields });
    let whole = json!({"f:maxReplicas": {}, "f:scaleTargetRef": {}, "f:targetCPUUtilizationPercentage": {}});
    assert_eq!(owners(&one), json!({"Apply m1 autoscaling/v1": spec(whole)}));

    let wanted = json!({"scaleTargetRef": target(), "maxReplicas": 4});
    let refused = apply(&server, &new_path, "m2", &document(2, "a", &wanted)).await;
    conflicts(&refused, &[("\"m1\"", ".spec.maxReplicas")]);
    let force = async |path: &str, manager: &str, object: &Value| {
        apply_with(&server, path, manager, "&force=true", object).await.ok()
    };
    let two = force(&new_path, "m2", &document(2, "a", &wanted)).await;
    let of_one = spec(json!({"f:scaleTargetRef": {}, "f:targetCPUUtilizationPercentage": {}}));
    let parts = json!({"f:apiVersion": {}, "f:kind": {}, "f:name": {}});
    let of_two = spec(json!({"f:maxReplicas": {}, "f:scaleTargetRef": parts}));
    let expected = json!({"Apply m1 autoscaling/v1": of_one, "Apply m2 autoscaling/v2": of_two});
    assert_eq!(owners(&two), expected);

    // One metric is a list in the newer version and a number in the older one.
    let wanted = json!({"maxReplicas": 4, "metrics": [of_cpu(70)]});
    let refused = apply(&server, &new_path, "m2", &document(2, "a", &wanted)).await;
    conflicts(&refused, &[("\"m1\"", ".spec.targetCPUUtilizationPercentage")]);
    let two = force(&new_path, "m2", &document(2, "a", &wanted)).await;
    let expected = json!({
        "Apply m1 autoscaling/v1": spec(json!({"f:scaleTargetRef": {}})),
        "Apply m2 autoscaling/v2": spec(json!({"f:maxReplicas": {}, "f:metrics": {}})),
    });
    assert_eq!(owners(&two), expected);

    // A manager may go on in the other version: what it gives up goes, where something else is left.
    let wanted = json!({"maxReplicas": 4, "minReplicas": 2, "targetCPUUtilizationPercentage": 70});
    let older = apply(&server, &old_path, "m2", &document(1, "a", &wanted)).await.ok();
    assert_eq!(
        owners(&older)["Apply m2 autoscaling/v1"],
        spec(json!({"f:maxReplicas": {}, "f:minReplicas": {}, "f:targetCPUUtilizationPercentage": {}}))
    );
    let newer = apply(&server, &new_path, "m2", &document(2, "a", &json!({"maxReplicas": 4})))
        .await
        .ok();
    assert_eq!(newer["spec"]["minReplicas"], 1);
    // The metric stays: there is always one.
    assert_eq!(newer["spec"]["metrics"], json!([of_cpu(70)]));
    assert_eq!(
        owners(&newer)["Apply m2 autoscaling/v2"],
        spec(json!({"f:maxReplicas": {}}))
    );

    // An update through either version.
    let patch = json!({"spec": {"maxReplicas": 5, "targetCPUUtilizationPercentage": 10}});
    let updated = server.merge(&format!("{old_path}?fieldManager=u1"), &patch).await.ok();
    let expected = json!({
        "Apply m1 autoscaling/v1": spec(json!({"f:scaleTargetRef": {}})),
        "Update u1 autoscaling/v1": spec(json!({"f:maxReplicas": {}, "f:targetCPUUtilizationPercentage": {}})),
    });
    assert_eq!(owners(&updated), expected);
    let patch = json!({"spec": {"metrics": [of_cpu(20)]}});
    let updated = server.merge(&format!("{new_path}?fieldManager=u2"), &patch).await.ok();
    let expected = json!({
        "Apply m1 autoscaling/v1": spec(json!({"f:scaleTargetRef": {}})),
        "Update u1 autoscaling/v1": spec(json!({"f:maxReplicas": {}})),
        "Update u2 autoscaling/v2": spec(json!({"f:metrics": {}})),
    });
    assert_eq!(owners(&updated), expected);
}

// [F5] [F12] [F26] lists and watches of each version show what is written through the other, and a delete through either is one
async fn both_versions_are_listed_watched_and_deleted(server: Server) {
    let namespace = server.namespace().await;
    let created = server
        .post(&at(&namespace, 1, ""), &autoscaler(1, "a", &json!({})))
        .await
        .created();
    let from = version(&created);
    let mut watches = Vec::new();
    for served in [1, 2] {
        let path = at(&namespace, served, &format!("?watch=1&resourceVersion={from}"));
        watches.push(server.watch(&path).await);
    }
    server
        .post(
            &at(&namespace, 2, ""),
            &autoscaler(2, "b", &json!({"metrics": metrics()})),
        )
        .await
        .created();
    server
        .merge(
            &at(&namespace, 1, "/a"),
            &json!({"spec": {"targetCPUUtilizationPercentage": 9}}),
        )
        .await
        .ok();
    server
        .merge(
            &at(&namespace, 2, "/b"),
            &json!({"metadata": {"finalizers": ["example.com/f"]}}),
        )
        .await
        .ok();
    let gone = server.delete(&at(&namespace, 1, "/b")).await.ok();
    assert_eq!(gone["apiVersion"], "autoscaling/v1");
    server
        .merge(&at(&namespace, 1, "/b"), &json!({"metadata": {"finalizers": null}}))
        .await
        .ok();
    for (served, watch) in [1, 2].into_iter().zip(&mut watches) {
        let events = watch.take(5).await;
        let briefs: Vec<_> = events.iter().map(Event::brief).collect();
        assert_eq!(
            briefs,
            [
                ("ADDED", "b"),
                ("MODIFIED", "a"),
                ("MODIFIED", "b"),
                ("MODIFIED", "b"),
                ("DELETED", "b")
            ]
        );
        let api_version = format!("autoscaling/v{served}");
        assert!(events.iter().all(|event| event.object["apiVersion"] == api_version));
        for event in &events {
            let spec = &event.object["spec"];
            let (number, list) = (spec.get("targetCPUUtilizationPercentage"), spec.get("metrics"));
            assert_eq!((number.is_some(), list.is_some()), (served == 1, served == 2), "{spec}");
        }
        // The order of metrics is as it was written, also when a delete through the older version has marked the object.
        let deleted = &events[4].object;
        if served == 2 {
            assert_eq!(deleted["spec"]["metrics"][2], of_cpu(60));
        } else {
            assert_eq!(annotation(deleted, METRICS), METRICS_OF_V1);
        }
        let list = server.get(&at(&namespace, served, "")).await.ok();
        assert_eq!(list["apiVersion"], api_version);
        let items = list["items"].as_array().unwrap();
        let shown = if served == 1 { json!(9) } else { json!([of_cpu(9)]) };
        let field = if served == 1 {
            "targetCPUUtilizationPercentage"
        } else {
            "metrics"
        };
        assert_eq!((items.len(), &items[0]["spec"][field]), (1, &shown));
    }
}

cases![
    an_autoscaler_is_filled_in_and_shown_in_both_versions,
    annotations_carry_what_the_older_version_lacks,
    annotations_of_the_older_version_are_read,
    statuses_are_written_through_both_versions,
    managers_speak_of_either_version,
    both_versions_are_listed_watched_and_deleted,
];
