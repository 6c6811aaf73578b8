//! Watches: where they start, what their events carry, and how they end. [F5] [F6]

use serde_json::{Value, json};

use super::list_version::{FUTURE, three};
use crate::harness::{CustomKind, Event, Server, cases, version};

fn brief(events: &[Event]) -> Vec<(&str, &str)> {
    events.iter().map(Event::brief).collect()
}

const ADDED_ALL: [(&str, &str); 3] = [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")];

/// Asserts that this is the bookmark that ends the initial events.
#[track_caller]
fn is_end_of_initial_events(event: &Event) {
    assert_eq!(event.kind, "BOOKMARK");
    let metadata = json!({
        "resourceVersion": event.object["metadata"]["resourceVersion"],
        "annotations": {"k8s.io/initial-events-end": "true"},
    });
    assert_eq!(
        event.object,
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata})
    );
}

// [F5] without a version, or from 0, the state comes first, as ADDED events in key order
async fn starts_with_the_state_when_no_version_is_given(server: Server) {
    let (namespace, newest) = three(&server).await;
    for query in [
        "",
        "&resourceVersion=0",
        "&resourceVersion=",
        "&limit=1",
        "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
    ] {
        let mut watch = server.watch(&namespace.at(&format!("configmaps?watch=1{query}"))).await;
        let events = watch.take(3).await;
        assert_eq!(brief(&events), ADDED_ALL, "{query}");
        assert_eq!(events[2].version(), newest, "{query}");
        assert_eq!(events[0].object["kind"], "ConfigMap", "{query}");
        assert_eq!(events[0].object["apiVersion"], "v1", "{query}");
        assert_eq!(events[0].object["metadata"]["labels"], json!({"name": "a"}), "{query}");
        // No bookmark in between: the next event is the next change.
        let changed = version(
            &server
                .merge(&namespace.at("configmaps/a"), &json!({"data": {"q": query}}))
                .await
                .ok(),
        );
        let event = watch.next().await;
        assert_eq!(
            (event.brief(), event.version()),
            (("MODIFIED", "a"), changed),
            "{query}"
        );
    }
}

// [F5] from a version, the changes after it come, and nothing else
async fn continues_after_a_version(server: Server) {
    let namespace = server.namespace().await;
    let first = version(&namespace.config_map("a").await);
    let second = version(&namespace.config_map("b").await);
    let third = version(
        &server
            .merge(&namespace.at("configmaps/a"), &json!({"data": {"k": "v"}}))
            .await
            .ok(),
    );
    server.delete(&namespace.at("configmaps/b")).await.ok();
    let mut watch = server
        .watch(&namespace.at(&format!("configmaps?watch=1&resourceVersion={first}")))
        .await;
    let events = watch.take(3).await;
    assert_eq!(brief(&events), [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]);
    assert_eq!((events[0].version(), events[1].version()), (second, third));
    assert!(events[2].version() > third, "the deletion has a version of its own");
    assert!(
        events[0].object.get("data").is_none(),
        "each event carries the object of its time"
    );
    let mut later = server
        .watch(&namespace.at(&format!("configmaps?watch=1&resourceVersion={third}")))
        .await;
    assert_eq!(later.next().await, events[2]);
    namespace.config_map("c").await;
    assert_eq!(later.next().await.brief(), ("ADDED", "c"));
}

// [F5] bookmarks allowed: the end of the initial events is marked, whether they were asked for or are the default
async fn marks_the_end_of_the_initial_events(server: Server) {
    let (namespace, newest) = three(&server).await;
    let streaming = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let queries = [
        streaming.to_owned(),
        format!("{streaming}&resourceVersion=0"),
        format!("{streaming}&resourceVersion={newest}"),
        format!("{streaming}&resourceVersion=1"),
        "&allowWatchBookmarks=true".to_owned(),
        "&allowWatchBookmarks=true&resourceVersion=0".to_owned(),
    ];
    for query in queries {
        let mut watch = server.watch(&namespace.at(&format!("configmaps?watch=1{query}"))).await;
        let events = watch.take(4).await;
        assert_eq!(brief(&events[..3]), ADDED_ALL, "{query}");
        is_end_of_initial_events(&events[3]);
        assert!(events[3].version() >= newest, "{query}");
        server
            .merge(&namespace.at("configmaps/b"), &json!({"data": {"q": query}}))
            .await
            .ok();
        assert_eq!(watch.next().await.brief(), ("MODIFIED", "b"), "{query}");
    }
    let empty = server.namespace().await;
    let mut watch = server.watch(&empty.at(&format!("configmaps?watch=1{streaming}"))).await;
    is_end_of_initial_events(&watch.next().await);
    let mut watch = server
        .watch(&namespace.at(&format!("configmaps?watch=1&labelSelector=name%3Db{streaming}")))
        .await;
    let events = watch.take(2).await;
    assert_eq!(events[0].brief(), ("ADDED", "b"));
    is_end_of_initial_events(&events[1]);
}

// [F5] sendInitialEvents=false: only what comes later, from the newest or the given version
async fn sends_no_initial_events_when_told_not_to(server: Server) {
    let (namespace, newest) = three(&server).await;
    let base = "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let path = namespace.at(&format!("configmaps?{base}&resourceVersion={}", newest - 1));
    let mut past = server.watch(&path).await;
    assert_eq!(past.next().await.brief(), ("ADDED", "c"));
    for query in ["", "&resourceVersion=0", "&allowWatchBookmarks=true"] {
        let mut watch = server.watch(&namespace.at(&format!("configmaps?{base}{query}"))).await;
        server
            .merge(&namespace.at("configmaps/a"), &json!({"data": {"q": query}}))
            .await
            .ok();
        let event = watch.next().await;
        assert_eq!(event.brief(), ("MODIFIED", "a"), "{query}");
        assert_eq!(event.object["data"], json!({"q": query}));
    }
}

// [F5] timeoutSeconds ends the watch cleanly; a negative one at once
async fn ends_after_the_timeout(server: Server) {
    let (namespace, newest) = three(&server).await;
    let watch = server.watch(&namespace.at("configmaps?watch=1&timeoutSeconds=1")).await;
    assert_eq!(brief(&watch.rest().await), ADDED_ALL);
    let watch = server
        .watch(&namespace.at(&format!("configmaps?watch=1&timeoutSeconds=1&resourceVersion={newest}")))
        .await;
    assert_eq!(brief(&watch.rest().await), []);
}

// [F5] a watch that may have bookmarks gets one a moment before its timeout, with the newest version and no annotation
async fn sends_a_bookmark_before_the_timeout(server: Server) {
    let (namespace, newest) = three(&server).await;
    let path = namespace.at(&format!(
        "configmaps?watch=1&timeoutSeconds=4&allowWatchBookmarks=true&resourceVersion={newest}"
    ));
    let events = server.watch(&path).await.rest().await;
    // One, or two where the server's own interval falls into these seconds.
    assert!(!events.is_empty() && events.len() <= 2, "{events:?}");
    for bookmark in &events {
        assert_eq!(bookmark.kind, "BOOKMARK");
        let metadata = json!({"resourceVersion": bookmark.object["metadata"]["resourceVersion"]});
        assert_eq!(
            bookmark.object,
            json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata})
        );
        assert!(bookmark.version() >= newest);
    }
}

// [F5] a version in the future: a plain watch is silent until then, one with initial events fails after three seconds
async fn a_watch_from_the_future_is_silent_or_fails(server: Server) {
    let (namespace, _) = three(&server).await;
    let silent = namespace.at(&format!("configmaps?watch=1&timeoutSeconds=1&resourceVersion={FUTURE}"));
    assert_eq!(brief(&server.watch(&silent).await.rest().await), []);
    let streaming = namespace.at(&format!(
        "configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion={FUTURE}"
    ));
    let mut events = server.watch(&streaming).await.rest().await;
    assert_eq!(events.len(), 1, "{events:?}");
    let mut error = events.remove(0);
    assert_eq!(error.kind, "ERROR");
    let message = error.object["message"].as_str().expect("a message").to_owned();
    assert!(
        message.starts_with(&format!("Timeout: Too large resource version: {FUTURE}, current: ")),
        "{message}"
    );
    error.object["message"] = Value::Null;
    let details = json!({
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    });
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": null,
        "reason": "Timeout", "details": details, "code": 504,
    });
    assert_eq!(error.object, status);
}

// [F5] combinations that are refused, with the text and the causes
async fn refuses_forbidden_watch_options(server: Server) {
    let namespace = server.namespace().await;
    let field = "resourceVersionMatch";
    let forbidden = |text: &'static str| ("FieldValueForbidden", field, text);
    let unasked =
        forbidden("Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
    let required = forbidden("Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    let continued = forbidden("Forbidden: resourceVersionMatch is forbidden when continue is provided");
    let exact = (
        "FieldValueNotSupported",
        field,
        r#"Unsupported value: "Exact": supported values: "NotOlderThan""#,
    );
    let foo = (
        "FieldValueNotSupported",
        field,
        r#"Unsupported value: "foo": supported values: "NotOlderThan""#,
    );
    let table: &[(&str, &[(&str, &str, &str)])] = &[
        ("resourceVersionMatch=NotOlderThan", &[unasked]),
        ("resourceVersionMatch=NotOlderThan&resourceVersion=0", &[unasked]),
        ("resourceVersionMatch=Exact", &[unasked, exact]),
        ("resourceVersionMatch=foo&resourceVersion=1", &[unasked, foo]),
        ("sendInitialEvents=true", &[required]),
        ("sendInitialEvents=false", &[required]),
        ("sendInitialEvents=true&resourceVersionMatch=Exact", &[required, exact]),
        (
            "sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1",
            &[required, exact],
        ),
        ("continue=abc", &[continued]),
        ("continue=abc&resourceVersion=0", &[continued]),
    ];
    for (query, causes) in table {
        let answer = server.get(&namespace.at(&format!("configmaps?watch=1&{query}"))).await;
        answer.invalid("meta.k8s.io", "ListOptions", "", causes);
    }
    for value in ["abc", "-1"] {
        let answer = server
            .get(&namespace.at(&format!("configmaps?watch=1&resourceVersion={value}")))
            .await;
        let text =
            format!("resourceVersion: Invalid value: {value:?}: strconv.ParseUint: parsing {value:?}: invalid syntax");
        answer.is(500, "", &text, Value::Null);
    }
    for query in ["timeoutSeconds=abc", "limit=abc"] {
        let answer = server.get(&namespace.at(&format!("configmaps?watch=1&{query}"))).await;
        answer.is(
            400,
            "BadRequest",
            "strconv.ParseInt: parsing \"abc\": invalid syntax",
            Value::Null,
        );
    }
}

// [F5] `watch` is on for everything but 0 and false
async fn the_watch_parameter_is_on_unless_it_says_no(server: Server) {
    let (namespace, _) = three(&server).await;
    for value in [
        "watch",
        "watch=",
        "watch=1",
        "watch=true",
        "watch=TRUE",
        "watch=yes",
        "watch=2",
    ] {
        let mut watch = server.watch(&namespace.at(&format!("configmaps?{value}"))).await;
        assert_eq!(watch.next().await.brief(), ("ADDED", "a"), "{value}");
    }
    for value in ["watch=0", "watch=false", "watch=False"] {
        let list = server.get(&namespace.at(&format!("configmaps?{value}"))).await.ok();
        assert_eq!(list["kind"], "ConfigMapList", "{value}");
    }
}

// [F5] the old form of the path, for a collection and for one object
async fn the_watch_prefix_watches_too(server: Server) {
    let (namespace, _) = three(&server).await;
    let path = format!("/api/v1/watch/namespaces/{}/configmaps", namespace.name());
    let mut collection = server.watch(&path).await;
    assert_eq!(brief(&collection.take(3).await), ADDED_ALL);
    let mut one = server.watch(&format!("{path}/b")).await;
    assert_eq!(one.next().await.brief(), ("ADDED", "b"));
    server
        .merge(&namespace.at("configmaps/a"), &json!({"data": {"k": "v"}}))
        .await
        .ok();
    server
        .merge(&namespace.at("configmaps/b"), &json!({"data": {"k": "v"}}))
        .await
        .ok();
    assert_eq!(one.next().await.brief(), ("MODIFIED", "b"));
}

// [F5] a watch over all namespaces sees each one's changes; one of a namespace only its own
async fn watches_see_their_namespace_or_all(server: Server) {
    let (one, two) = (server.namespace().await, server.namespace().await);
    let start = server.current_version().await;
    let mut all = server
        .watch(&format!(
            "/api/v1/secrets?watch=1&resourceVersion={start}&labelSelector=case%3D{}",
            one.name()
        ))
        .await;
    let mut only = server
        .watch(&two.at(&format!("secrets?watch=1&resourceVersion={start}")))
        .await;
    let object = |name: &str| json!({"metadata": {"name": name, "labels": {"case": one.name()}}});
    one.create("secrets", &object("x")).await;
    two.create("secrets", &object("y")).await;
    assert_eq!(brief(&all.take(2).await), [("ADDED", "x"), ("ADDED", "y")]);
    assert_eq!(only.next().await.brief(), ("ADDED", "y"));
}

// [F5] too old: 200, one ERROR event with 410, the end
async fn a_watch_from_before_the_kind_was_served_is_too_old(server: Server) {
    let start = server.current_version().await;
    let kind = CustomKind::register(&server, |_| {}).await;
    let mut events = server
        .watch(&format!("{}?watch=1&resourceVersion={start}", kind.everywhere()))
        .await
        .rest()
        .await;
    assert_eq!(events.len(), 1, "{events:?}");
    let mut error = events.remove(0);
    assert_eq!(error.kind, "ERROR");
    let message = error.object["message"].as_str().expect("a message").to_owned();
    assert!(
        message.starts_with(&format!("too old resource version: {start} (")),
        "{message}"
    );
    error.object["message"] = Value::Null;
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": null,
        "reason": "Expired", "code": 410,
    });
    assert_eq!(error.object, status);
}

// [F6] a selector sees objects come and go: enter is ADDED, leave is DELETED with the old content and the change's version
async fn selectors_turn_changes_into_comings_and_goings(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    let start = version(
        &namespace
            .create("configmaps", &json!({"metadata": {"name": "a"}, "data": {"k": "0"}}))
            .await,
    );
    let query = format!("configmaps?watch=1&resourceVersion={start}&labelSelector=in%3Dyes");
    let mut watch = server.watch(&namespace.at(&query)).await;
    let change = async |labels: Value, k: &str| {
        version(
            &server
                .merge(&path, &json!({"metadata": {"labels": labels}, "data": {"k": k}}))
                .await
                .ok(),
        )
    };
    change(json!({"in": "no"}), "1").await; // outside before and after: no event
    let entered = change(json!({"in": "yes"}), "2").await;
    let modified = change(json!({"in": "yes"}), "3").await;
    let left = change(json!({"in": null}), "4").await;
    change(json!({"other": "x"}), "5").await;
    let returned = change(json!({"in": "yes"}), "6").await;
    server.delete(&path).await.ok();
    let events = watch.take(5).await;
    let seen: Vec<_> = events
        .iter()
        .map(|event| (event.kind.as_str(), event.object["data"]["k"].as_str().unwrap()))
        .collect();
    assert_eq!(
        seen,
        [
            ("ADDED", "2"),
            ("MODIFIED", "3"),
            ("DELETED", "3"),
            ("ADDED", "6"),
            ("DELETED", "6")
        ]
    );
    let versions: Vec<_> = events[..4].iter().map(Event::version).collect();
    assert_eq!(versions, [entered, modified, left, returned]);
    assert_eq!(
        events[2].object["metadata"]["labels"],
        json!({"in": "yes"}),
        "the content before it left"
    );
    assert!(events[4].version() > returned);
}

// [F6] the same with a field selector
async fn field_selectors_turn_changes_into_comings_and_goings(server: Server) {
    let namespace = server.namespace().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let start = version(&namespace.create("pods", &pod).await);
    let query = format!("pods?watch=1&resourceVersion={start}&fieldSelector=status.phase%3DRunning");
    let mut watch = server.watch(&namespace.at(&query)).await;
    for phase in ["Running", "Succeeded"] {
        server
            .merge(&namespace.at("pods/p/status"), &json!({"status": {"phase": phase}}))
            .await
            .ok();
    }
    let events = watch.take(2).await;
    assert_eq!(brief(&events), [("ADDED", "p"), ("DELETED", "p")]);
    assert_eq!(events[1].object["status"]["phase"], "Running");
    let by_name = namespace.at(&format!(
        "pods?watch=1&resourceVersion={start}&fieldSelector=metadata.name%3Dq"
    ));
    let mut watch = server.watch(&by_name).await;
    let mut other = pod.clone();
    other["metadata"]["name"] = "q".into();
    namespace.create("pods", &other).await;
    assert_eq!(watch.next().await.brief(), ("ADDED", "q"));
}

// [F6] DELETED carries the last state and the version of the deletion
async fn a_deletion_carries_its_own_version_and_the_last_state(server: Server) {
    let namespace = server.namespace().await;
    let created = namespace
        .create("configmaps", &json!({"metadata": {"name": "a"}, "data": {"k": "v"}}))
        .await;
    let mut watch = server
        .watch(&namespace.at(&format!("configmaps?watch=1&resourceVersion={}", version(&created))))
        .await;
    server.delete(&namespace.at("configmaps/a")).await.ok();
    let event = watch.next().await;
    assert_eq!(event.brief(), ("DELETED", "a"));
    assert!(event.version() > version(&created));
    let mut object = event.object.clone();
    object["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"].clone();
    assert_eq!(object, created);
}

// [F6] deleting a pod is two events: MODIFIED with the deletion timestamp, then DELETED
async fn deleting_a_pod_is_two_events(server: Server) {
    let namespace = server.namespace().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let start = version(&namespace.create("pods", &pod).await);
    let mut watch = server
        .watch(&namespace.at(&format!("pods?watch=1&resourceVersion={start}")))
        .await;
    server.delete(&namespace.at("pods/p")).await.ok();
    let events = watch.take(2).await;
    assert_eq!(brief(&events), [("MODIFIED", "p"), ("DELETED", "p")]);
    assert_eq!(events[0].object["metadata"]["deletionGracePeriodSeconds"], 0);
    assert!(events[0].object["metadata"]["deletionTimestamp"].is_string());
    assert!(events[1].version() > events[0].version());
}

// [F6] the last finalizer's removal: the answer has the old version, the DELETED event a new one
async fn removing_the_last_finalizer_is_a_deletion(server: Server) {
    let namespace = server.namespace().await;
    let path = namespace.at("configmaps/a");
    let start = version(
        &namespace
            .create(
                "configmaps",
                &json!({"metadata": {"name": "a", "finalizers": ["x.io/f"]}}),
            )
            .await,
    );
    let mut watch = server
        .watch(&namespace.at(&format!("configmaps?watch=1&resourceVersion={start}")))
        .await;
    let terminating = version(&server.delete(&path).await.ok());
    let last = server
        .merge(&path, &json!({"metadata": {"finalizers": null}}))
        .await
        .ok();
    assert_eq!(version(&last), terminating);
    let events = watch.take(2).await;
    assert_eq!(brief(&events), [("MODIFIED", "a"), ("DELETED", "a")]);
    assert_eq!(events[0].version(), terminating);
    assert!(events[1].version() > terminating);
    assert_eq!(
        events[1].object["metadata"]["finalizers"],
        json!(["x.io/f"]),
        "the last state that was stored"
    );
}

// [F6] a write that changes nothing sends no event
async fn a_write_without_a_change_is_no_event(server: Server) {
    let namespace = server.namespace().await;
    let created = namespace
        .create("configmaps", &json!({"metadata": {"name": "a"}, "data": {"k": "v"}}))
        .await;
    let path = namespace.at("configmaps/a");
    let mut watch = server
        .watch(&namespace.at(&format!("configmaps?watch=1&resourceVersion={}", version(&created))))
        .await;
    assert_eq!(server.put(&path, &created).await.ok(), created);
    assert_eq!(
        version(&server.merge(&path, &json!({"data": {"k": "v"}})).await.ok()),
        version(&created)
    );
    assert_eq!(
        version(&server.json_patch(&path, &json!([])).await.ok()),
        version(&created)
    );
    server.merge(&path, &json!({"data": {"k": "w"}})).await.ok();
    let event = watch.next().await;
    assert_eq!(
        (event.brief(), &event.object["data"]),
        (("MODIFIED", "a"), &json!({"k": "w"}))
    );
}

// [F6] a reader that does not read holds up nobody: the writes go on, and it gets all of a small backlog in order
async fn a_slow_reader_blocks_no_writer(server: Server) {
    let namespace = server.namespace().await;
    let start = version(&namespace.config_map("a").await);
    let mut slow = server
        .watch(&namespace.at(&format!("configmaps?watch=1&resourceVersion={start}")))
        .await;
    let mut versions = Vec::new();
    for number in 0..50 {
        let patch = json!({"data": {"n": number.to_string()}});
        versions.push(version(&server.merge(&namespace.at("configmaps/a"), &patch).await.ok()));
    }
    let seen: Vec<_> = slow.take(50).await.iter().map(Event::version).collect();
    assert_eq!(seen, versions);
}

// [F6] [F17] watches of custom resources and of cluster-scoped kinds
async fn custom_and_cluster_kinds_are_watched_too(server: Server) {
    let namespace = server.namespace().await;
    let kind = CustomKind::register(&server, |_| {}).await;
    let mut watch = server.watch(&kind.at(&namespace, "?watch=1")).await;
    let created = server
        .post(&kind.at(&namespace, ""), &kind.object("w", &json!({"spec": {"x": 1}})))
        .await
        .created();
    let event = watch.next().await;
    assert_eq!((event.kind.as_str(), &event.object), ("ADDED", &created));
    server.delete(&kind.at(&namespace, "/w")).await.ok();
    assert_eq!(watch.next().await.brief(), ("DELETED", "w"));
    let name = server.unique();
    let start = server.current_version().await;
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let mut watch = server
        .watch(&format!(
            "{path}?watch=1&resourceVersion={start}&fieldSelector=metadata.name%3D{name}"
        ))
        .await;
    server.post(path, &json!({"metadata": {"name": name}})).await.created();
    server.delete(&format!("{path}/{name}")).await.ok();
    assert_eq!(
        brief(&watch.take(2).await),
        [("ADDED", name.as_str()), ("DELETED", &name)]
    );
}

cases![
    starts_with_the_state_when_no_version_is_given,
    continues_after_a_version,
    marks_the_end_of_the_initial_events,
    sends_no_initial_events_when_told_not_to,
    ends_after_the_timeout,
    sends_a_bookmark_before_the_timeout,
    a_watch_from_the_future_is_silent_or_fails,
    refuses_forbidden_watch_options,
    the_watch_parameter_is_on_unless_it_says_no,
    the_watch_prefix_watches_too,
    watches_see_their_namespace_or_all,
    a_watch_from_before_the_kind_was_served_is_too_old,
    selectors_turn_changes_into_comings_and_goings,
    field_selectors_turn_changes_into_comings_and_goings,
    a_deletion_carries_its_own_version_and_the_last_state,
    deleting_a_pod_is_two_events,
    removing_the_last_finalizer_is_a_deletion,
    a_write_without_a_change_is_no_event,
    a_slow_reader_blocks_no_writer,
    custom_and_cluster_kinds_are_watched_too,
];
