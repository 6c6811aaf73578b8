//! One object under two APIs: events of the core group and of `events.k8s.io`. [F26]

use serde_json::{Value, json};

use crate::harness::{Namespace, Server, cases, version};

const EVENTS: &str = "events.k8s.io/v1";

/// An event as kubelets of old write it.
fn core_event(namespace: &Namespace) -> Value {
    json!({
        "metadata": {"name": "of-core"},
        "involvedObject": {"kind": "Pod", "name": "web", "namespace": namespace.name(), "uid": "u-1"},
        "reason": "Started",
        "message": "it runs",
        "source": {"component": "kubelet"},
        "firstTimestamp": "2026-01-02T03:04:05Z",
        "lastTimestamp": "2026-01-02T03:04:05Z",
        "count": 3,
        "type": "Normal",
    })
}

/// An event as newer controllers write it.
fn new_event(namespace: &Namespace) -> Value {
    json!({
        "metadata": {"name": "of-events"},
        "eventTime": "2026-01-02T03:04:05.123456Z",
        "reportingController": "example.com/scheduler",
        "reportingInstance": "scheduler-1",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding": {"kind": "Pod", "name": "db", "namespace": namespace.name(), "uid": "u-2"},
        "note": "it has a node",
        "type": "Normal",
    })
}

/// The fields of an event without type and metadata.
fn content(mut event: Value) -> Value {
    for name in ["apiVersion", "kind", "metadata"] {
        event.as_object_mut().unwrap().remove(name);
    }
    event
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

// [F26] events written through either API are read through the other, in its own fields
async fn events_are_shown_in_the_fields_of_each_api(server: Server) {
    let namespace = server.namespace().await;
    namespace.create("events", &core_event(&namespace)).await;
    let new = server
        .post(&namespace.of(EVENTS, "events"), &new_event(&namespace))
        .await;
    new.created();

    let seen = server.get(&namespace.of(EVENTS, "events/of-core")).await.ok();
    assert_eq!(seen["apiVersion"], EVENTS);
    let expected = json!({
        "eventTime": null,
        "reason": "Started",
        "regarding": {"kind": "Pod", "name": "web", "namespace": namespace.name(), "uid": "u-1"},
        "note": "it runs",
        "type": "Normal",
        "deprecatedSource": {"component": "kubelet"},
        "deprecatedFirstTimestamp": "2026-01-02T03:04:05Z",
        "deprecatedLastTimestamp": "2026-01-02T03:04:05Z",
        "deprecatedCount": 3,
    });
    assert_eq!(content(seen), expected);

    let seen = server.get(&namespace.at("events/of-events")).await.ok();
    assert_eq!(seen["apiVersion"], "v1");
    let expected = json!({
        "involvedObject": {"kind": "Pod", "name": "db", "namespace": namespace.name(), "uid": "u-2"},
        "reason": "Scheduled",
        "message": "it has a node",
        "source": {},
        "firstTimestamp": null,
        "lastTimestamp": null,
        "type": "Normal",
        "eventTime": "2026-01-02T03:04:05.123456Z",
        "action": "Binding",
        "reportingComponent": "example.com/scheduler",
        "reportingInstance": "scheduler-1",
    });
    assert_eq!(content(seen), expected);
}

// [F3] [F26] the field selectors of each API find the events of both
async fn events_are_selected_by_the_labels_of_each_api(server: Server) {
    let namespace = server.namespace().await;
    namespace.create("events", &core_event(&namespace)).await;
    let new = server
        .post(&namespace.of(EVENTS, "events"), &new_event(&namespace))
        .await;
    new.created();
    for (selector, expected) in [
        ("involvedObject.name=db", "of-events"),
        ("involvedObject.uid=u-2", "of-events"),
        ("involvedObject.uid=u-1", "of-core"),
        ("reportingComponent=example.com/scheduler", "of-events"),
    ] {
        let list = server
            .get(&namespace.at(&format!("events?fieldSelector={selector}")))
            .await
            .ok();
        assert_eq!(names(&list), [expected], "{selector}");
    }
    for (selector, expected) in [
        ("regarding.name=web", "of-core"),
        ("reportingController=example.com/scheduler", "of-events"),
        ("reason=Started", "of-core"),
    ] {
        let path = namespace.of(EVENTS, &format!("events?fieldSelector={selector}"));
        let list = server.get(&path).await.ok();
        assert_eq!(names(&list), [expected], "{selector}");
    }
}

// [F26] a write through one API is an event of the watches of both, and keeps what the other wrote
async fn events_are_changed_and_watched_through_each_api(server: Server) {
    let namespace = server.namespace().await;
    let created = namespace.create("events", &core_event(&namespace)).await;
    let from = version(&created);
    let mut watch = server
        .watch(&namespace.of(EVENTS, &format!("events?watch=1&resourceVersion={from}")))
        .await;

    let path = namespace.of(EVENTS, "events/of-core");
    let label = json!({"metadata": {"labels": {"seen": "yes"}}});
    server.merge(&path, &label).await.ok();
    let seen = watch.next().await;
    assert_eq!(seen.brief(), ("MODIFIED", "of-core"));
    assert_eq!(seen.object["note"], "it runs");
    assert_eq!(seen.object["apiVersion"], EVENTS);

    let stored = server.get(&namespace.at("events/of-core")).await.ok();
    assert_eq!((&stored["message"], &stored["count"]), (&json!("it runs"), &json!(3)));
    let path = namespace.at("events/of-core");
    server.merge(&path, &json!({"count": 4})).await.ok();
    assert_eq!(watch.next().await.object["deprecatedCount"], 4);
}

cases![
    events_are_shown_in_the_fields_of_each_api,
    events_are_selected_by_the_labels_of_each_api,
    events_are_changed_and_watched_through_each_api,
];
