//! Tests of the whole server through its service: faults in the transport, the request log, watches.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::ServiceExt as _;

use crate::{Body, Cut, FakeApiServer, FakeService, Fault, Rule, ServerView, ServiceError, StatusFault, Verb};

mod bounds;
mod idle;
mod promises;
mod same_run;
mod views;
mod writes;

/// Something that answers requests.
trait Serves {
    fn service(&self) -> FakeService;
}

impl Serves for FakeApiServer {
    fn service(&self) -> FakeService {
        self.service()
    }
}

impl Serves for ServerView {
    fn service(&self) -> FakeService {
        self.service()
    }
}

async fn send(fake: &impl Serves, method: &str, uri: &str, body: Bytes) -> Result<http::Response<Body>, ServiceError> {
    let request = http::Request::builder()
        .method(method)
        .uri(uri)
        .header("user-agent", "tests/1");
    let request = request.header(
        "content-type",
        if method == "PATCH" {
            "application/merge-patch+json"
        } else {
            "application/json"
        },
    );
    fake.service().oneshot(request.body(Full::new(body)).unwrap()).await
}

/// Sends a request; the code and the JSON of the answer.
async fn call(fake: &impl Serves, method: &str, uri: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() {
        Bytes::new()
    } else {
        body.to_string().into()
    };
    let response = send(fake, method, uri, body).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

async fn create(fake: &impl Serves, name: &str, labels: Value) -> u64 {
    let body = json!({"metadata": {"name": name, "labels": labels}, "data": {"k": "v"}});
    let (code, created) = call(fake, "POST", "/api/v1/namespaces/default/configmaps", body).await;
    assert_eq!(code, 201, "{created}");
    rv(&created)
}

fn rv(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// An open watch, read line by line.
struct Watch(Body);

enum Next {
    Event(Value),
    End,
    Reset,
}

impl Watch {
    async fn open(fake: &impl Serves, query: &str) -> Self {
        let response = send(
            fake,
            "GET",
            &format!("/api/v1/configmaps?watch=1&{query}"),
            Bytes::new(),
        )
        .await
        .unwrap();
        assert_eq!(response.status(), 200);
        Self(response.into_body())
    }

    async fn next(&mut self) -> Next {
        match self.0.frame().await {
            None => Next::End,
            Some(Err(_)) => Next::Reset,
            Some(Ok(frame)) => Next::Event(serde_json::from_slice(&frame.into_data().unwrap()).unwrap()),
        }
    }

    async fn event(&mut self) -> (String, Value) {
        match self.next().await {
            Next::Event(event) => (event["type"].as_str().unwrap().to_owned(), event["object"].clone()),
            Next::End => panic!("the watch ended"),
            Next::Reset => panic!("the watch broke"),
        }
    }

    /// Type, name and resourceVersion of the next event.
    async fn brief(&mut self) -> (String, String, u64) {
        let (kind, object) = self.event().await;
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let version = if object["kind"] == "Status" { 0 } else { rv(&object) };
        (kind, name, version)
    }

    async fn ends(&mut self) -> bool {
        matches!(self.next().await, Next::End)
    }
}

fn brief(kind: &str, name: &str, version: u64) -> (String, String, u64) {
    (kind.to_owned(), name.to_owned(), version)
}

#[tokio::test(start_paused = true)]
async fn watch_from_a_revision_delivers_every_later_change_in_order() {
    // [F5] [F6] DELETED carries the revision of the deletion and the last state.
    let fake = FakeApiServer::new();
    let start = create(&fake, "a", json!({})).await;
    let mut watch = Watch::open(&fake, &format!("resourceVersion={start}")).await;
    let second = create(&fake, "b", json!({})).await;
    let patch = json!({"data": {"k": "w"}});
    let (code, patched) = call(&fake, "PATCH", "/api/v1/namespaces/default/configmaps/a", patch).await;
    assert_eq!(code, 200, "{patched}");
    let (code, _) = call(&fake, "DELETE", "/api/v1/namespaces/default/configmaps/a", Value::Null).await;
    assert_eq!(code, 200);
    assert_eq!(watch.brief().await, brief("ADDED", "b", second));
    assert_eq!(watch.brief().await, brief("MODIFIED", "a", rv(&patched)));
    let (kind, last) = watch.event().await;
    assert_eq!((kind.as_str(), &last["data"]["k"]), ("DELETED", &json!("w")));
    assert_eq!(rv(&last), rv(&patched) + 1);
}

#[tokio::test(start_paused = true)]
async fn watch_without_a_revision_sends_the_state_first() {
    // [F5] the real server marks its end with a bookmark, where bookmarks are allowed.
    let fake = FakeApiServer::new();
    let b = create(&fake, "b", json!({})).await;
    let a = create(&fake, "a", json!({})).await;
    for query in ["", "resourceVersion=0"] {
        let mut watch = Watch::open(&fake, &format!("{query}&timeoutSeconds=1")).await;
        assert_eq!(watch.brief().await, brief("ADDED", "a", a));
        assert_eq!(watch.brief().await, brief("ADDED", "b", b));
        assert!(watch.ends().await);
        let mut watch = Watch::open(&fake, &format!("{query}&allowWatchBookmarks=true&timeoutSeconds=1")).await;
        assert_eq!(watch.brief().await, brief("ADDED", "a", a));
        assert_eq!(watch.brief().await, brief("ADDED", "b", b));
        let (kind, bookmark) = watch.event().await;
        assert_eq!(
            (
                kind.as_str(),
                &bookmark["metadata"]["annotations"]["k8s.io/initial-events-end"]
            ),
            ("BOOKMARK", &json!("true"))
        );
        assert!(watch.ends().await);
    }
}

#[tokio::test(start_paused = true)]
async fn initial_events_end_with_a_bookmark_only_where_bookmarks_are_allowed() {
    // [F5]
    let fake = FakeApiServer::new();
    let a = create(&fake, "a", json!({})).await;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1";
    let mut watch = Watch::open(&fake, &format!("{query}&allowWatchBookmarks=true")).await;
    assert_eq!(watch.brief().await, brief("ADDED", "a", a));
    let (kind, bookmark) = watch.event().await;
    assert_eq!(kind, "BOOKMARK");
    let expected = json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"resourceVersion": a.to_string(), "annotations": {"k8s.io/initial-events-end": "true"}},
    });
    assert_eq!(bookmark, expected);
    let mut watch = Watch::open(&fake, query).await;
    assert_eq!(watch.brief().await, brief("ADDED", "a", a));
    assert!(watch.ends().await);
}

#[tokio::test(start_paused = true)]
async fn watch_ends_in_time_however_much_happens() {
    // [F5] the time is over also for a reader that always finds something new
    let fake = FakeApiServer::new();
    let start = create(&fake, "a", json!({})).await;
    let mut watch = Watch::open(&fake, &format!("resourceVersion={start}&timeoutSeconds=1")).await;
    let before = create(&fake, "b", json!({})).await;
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(
        watch.brief().await,
        brief("ADDED", "b", before),
        "what was there in time is sent"
    );
    create(&fake, "c", json!({})).await;
    assert!(watch.ends().await);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_each_minute_and_before_the_end() {
    // [F5] a bookmark carries the revision of the whole server.
    let fake = FakeApiServer::new();
    let a = create(&fake, "a", json!({})).await;
    let query = format!("resourceVersion={a}&allowWatchBookmarks=true&timeoutSeconds=100");
    let mut watch = Watch::open(&fake, &query).await;
    let start = Instant::now();
    let (code, namespace) = call(&fake, "POST", "/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await;
    assert_eq!(code, 201);
    assert_eq!(watch.brief().await, brief("BOOKMARK", "", rv(&namespace)));
    assert_eq!(start.elapsed().as_secs(), 60);
    assert_eq!(watch.brief().await.0, "BOOKMARK");
    assert_eq!(start.elapsed().as_secs(), 98);
    assert!(watch.ends().await);
    assert_eq!(start.elapsed().as_secs(), 100);
}

#[tokio::test(start_paused = true)]
async fn selector_transitions_show_as_added_and_deleted() {
    // [F6] what leaves the selection is DELETED with the old content and the revision of the change.
    let fake = FakeApiServer::new();
    create(&fake, "a", json!({"app": "x"})).await;
    let start = create(&fake, "b", json!({"app": "y"})).await;
    let mut watch = Watch::open(&fake, &format!("labelSelector=app%3Dx&resourceVersion={start}")).await;
    let to = |label: &str| json!({"metadata": {"labels": {"app": label}}});
    let (_, left) = call(&fake, "PATCH", "/api/v1/namespaces/default/configmaps/a", to("y")).await;
    let (_, entered) = call(&fake, "PATCH", "/api/v1/namespaces/default/configmaps/b", to("x")).await;
    let (kind, object) = watch.event().await;
    assert_eq!((kind.as_str(), rv(&object)), ("DELETED", rv(&left)));
    assert_eq!(object["metadata"]["labels"]["app"], "x");
    assert_eq!(watch.brief().await, brief("ADDED", "b", rv(&entered)));
}

#[tokio::test(start_paused = true)]
async fn watch_from_a_compacted_revision_is_an_error_event() {
    // [F5] HTTP 200 and one ERROR event 410.
    let fake = FakeApiServer::new();
    let old = create(&fake, "a", json!({})).await;
    let new = create(&fake, "b", json!({})).await;
    fake.compact_now();
    let mut watch = Watch::open(&fake, &format!("resourceVersion={old}")).await;
    let (kind, status) = watch.event().await;
    assert_eq!(kind, "ERROR");
    assert_eq!((&status["code"], &status["reason"]), (&json!(410), &json!("Expired")));
    assert_eq!(status["message"], format!("too old resource version: {old} ({new})"));
    assert!(watch.ends().await);
    let mut watch = Watch::open(&fake, &format!("resourceVersion={new}&timeoutSeconds=1")).await;
    assert!(watch.ends().await);
}

#[tokio::test(start_paused = true)]
async fn watch_from_a_future_revision_is_silent_until_then() {
    // [F5]
    let fake = FakeApiServer::new();
    let a = create(&fake, "a", json!({})).await;
    let mut watch = Watch::open(&fake, &format!("resourceVersion={}", a + 1)).await;
    create(&fake, "b", json!({})).await;
    let c = create(&fake, "c", json!({})).await;
    assert_eq!(watch.brief().await, brief("ADDED", "c", c));
}

#[tokio::test(start_paused = true)]
async fn list_of_a_future_revision_times_out_after_three_seconds() {
    // [F1]
    let fake = FakeApiServer::new();
    let start = Instant::now();
    let current = fake.resource_version();
    let (code, status) = call(&fake, "GET", "/api/v1/configmaps?resourceVersion=999", Value::Null).await;
    assert_eq!((code, start.elapsed().as_secs()), (504, 3));
    assert_eq!(
        status["message"],
        format!("Timeout: Too large resource version: 999, current: {current}")
    );
    assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
}

#[tokio::test(start_paused = true)]
async fn pages_keep_the_first_revision_and_expire_with_it() {
    // [F2]
    let fake = FakeApiServer::new();
    for name in ["a", "b", "c"] {
        create(&fake, name, json!({})).await;
    }
    let uri = "/api/v1/namespaces/default/configmaps";
    let (_, first) = call(&fake, "GET", &format!("{uri}?limit=1"), Value::Null).await;
    assert_eq!(first["metadata"]["remainingItemCount"], 2);
    let token = first["metadata"]["continue"].as_str().unwrap();
    create(&fake, "aa", json!({})).await;
    let (_, second) = call(&fake, "GET", &format!("{uri}?limit=2&continue={token}"), Value::Null).await;
    let names: Vec<_> = second["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["metadata"]["name"])
        .collect();
    assert_eq!(names, ["b", "c"]);
    assert_eq!(
        second["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    fake.compact_now();
    let (code, expired) = call(&fake, "GET", &format!("{uri}?limit=2&continue={token}"), Value::Null).await;
    assert_eq!((code, &expired["reason"]), (410, &json!("Expired")));
    let fresh = expired["metadata"]["continue"].as_str().unwrap();
    let (code, rest) = call(&fake, "GET", &format!("{uri}?limit=9&continue={fresh}"), Value::Null).await;
    assert_eq!(
        (code, rest["items"].as_array().unwrap().len()),
        (200, 3),
        "continues at the latest revision"
    );
}

#[tokio::test(start_paused = true)]
async fn status_fault_answers_without_effect() {
    // [F22]
    let fake = FakeApiServer::new();
    let rule = fake.inject(
        Rule::new(StatusFault::new(429).retry_after(3))
            .verb(Verb::Create)
            .times(1),
    );
    let before = fake.resource_version();
    let body = json!({"metadata": {"name": "a"}}).to_string();
    let response = send(&fake, "POST", "/api/v1/namespaces/default/configmaps", body.into())
        .await
        .unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["retry-after"]),
        (429, &"3".parse().unwrap())
    );
    assert_eq!((fake.resource_version(), rule.fired()), (before, 1));
    create(&fake, "a", json!({})).await;
}

#[tokio::test(start_paused = true)]
async fn latency_delays_on_the_paused_clock() {
    // [F22]
    let fake = FakeApiServer::new();
    fake.inject(
        Rule::new(Fault::Latency(Duration::from_secs(30)))
            .verb(Verb::List)
            .resource("configmaps"),
    );
    let start = Instant::now();
    call(&fake, "GET", "/api/v1/configmaps", Value::Null).await;
    assert_eq!(start.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn refused_request_has_no_effect_and_a_lost_answer_has() {
    // [F22] drop before the commit; commit, then drop the response
    let fake = FakeApiServer::new();
    let uri = "/api/v1/namespaces/default/configmaps";
    let body = |name: &str| Bytes::from(json!({"metadata": {"name": name}}).to_string());
    fake.inject(Rule::new(Fault::Refuse).verb(Verb::Create).times(1));
    assert!(matches!(
        send(&fake, "POST", uri, body("a")).await,
        Err(ServiceError::Refused)
    ));
    assert_eq!(fake.object("configmaps", Some("default"), "a"), None);
    fake.inject(Rule::new(Fault::LoseResponse).verb(Verb::Create).times(1));
    assert!(matches!(
        send(&fake, "POST", uri, body("b")).await,
        Err(ServiceError::Reset)
    ));
    assert!(fake.object("configmaps", Some("default"), "b").is_some());
    let statuses: Vec<_> = fake.requests().into_iter().map(|record| record.status).collect();
    assert_eq!(statuses, [None, None]);
}

#[tokio::test(start_paused = true)]
async fn compaction_fault_expires_what_came_before() {
    // [F22]
    let fake = FakeApiServer::new();
    let old = create(&fake, "a", json!({})).await;
    create(&fake, "b", json!({})).await;
    fake.inject(Rule::new(Fault::Compact).verb(Verb::Watch).times(1));
    let mut watch = Watch::open(&fake, &format!("resourceVersion={old}")).await;
    assert_eq!(watch.event().await.1["code"], 410);
}

#[tokio::test(start_paused = true)]
async fn watch_faults_reach_the_client() {
    // [F22] clean EOF right after open, reset mid-line, withheld initial-events end
    let fake = FakeApiServer::new();
    create(&fake, "a", json!({})).await;
    fake.inject(Rule::new(Fault::EndWatch { after: 0 }).times(1));
    assert!(Watch::open(&fake, "").await.ends().await);
    fake.inject(
        Rule::new(Fault::Reset {
            after: 0,
            cut: Cut::MidLine,
        })
        .verb(Verb::Watch)
        .times(1),
    );
    let mut watch = Watch::open(&fake, "").await;
    let half = watch.0.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(half.starts_with(b"{\"type\":\"ADDED\"") && !half.ends_with(b"\n"));
    assert!(matches!(watch.next().await, Next::Reset));
    fake.inject(Rule::new(Fault::WithholdInitialEventsEnd).times(1));
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=70";
    let mut watch = Watch::open(&fake, query).await;
    assert_eq!(watch.brief().await.0, "ADDED");
    let (kind, bookmark) = watch.event().await;
    assert_eq!(
        (kind.as_str(), bookmark["metadata"].get("annotations")),
        ("BOOKMARK", None)
    );
}

#[tokio::test(start_paused = true)]
async fn open_watches_are_counted_until_dropped_or_ended() {
    let fake = FakeApiServer::new();
    let first = Watch::open(&fake, "").await;
    let mut second = Watch::open(&fake, "").await;
    fake.wait_for_watches("configmaps", 2).await;
    drop(first);
    assert_eq!(fake.open_watches("configmaps"), 1);
    fake.close_watches("configmaps");
    assert!(second.ends().await);
    fake.wait_for_no_watches().await;
}

#[tokio::test(start_paused = true)]
async fn slow_watch_delays_nobody_and_is_cut_off() {
    // [F6]
    let fake = FakeApiServer::builder().max_log(50).build().unwrap();
    let start = create(&fake, "a", json!({})).await;
    let mut slow = Watch::open(&fake, &format!("resourceVersion={start}")).await;
    for index in 0..200 {
        create(&fake, &format!("b{index}"), json!({})).await;
    }
    assert!(slow.ends().await, "events are missing, so nothing more comes");
    assert!(fake.log_len() <= 50);
}

#[tokio::test(start_paused = true)]
async fn request_log_tells_verb_path_client_and_status() {
    let fake = FakeApiServer::new();
    create(&fake, "a", json!({})).await;
    call(&fake, "GET", "/api/v1/namespaces/default/configmaps/b", Value::Null).await;
    let requests = fake.requests();
    let brief: Vec<_> = requests
        .iter()
        .map(|r| (r.verb, r.resource.as_str(), r.name.as_deref(), r.status))
        .collect();
    assert_eq!(
        brief,
        [
            (Verb::Create, "configmaps", None, Some(201)),
            (Verb::Get, "configmaps", Some("b"), Some(404))
        ]
    );
    assert_eq!(requests[0].user_agent, "tests/1");
    assert_eq!(fake.request_count(Verb::Create, "configmaps"), 1);
    fake.wait_for_requests(Verb::Get, "configmaps", 1).await;
}

#[tokio::test(start_paused = true)]
async fn same_seed_gives_the_same_objects() {
    // [F22] the same seed gives the same run.
    let run = |seed| async move {
        let fake = FakeApiServer::builder()
            .seed(seed)
            .start_time(1_000_000_000)
            .build()
            .unwrap();
        let body = json!({"metadata": {"generateName": "g-"}});
        call(&fake, "POST", "/api/v1/namespaces/default/configmaps", body).await;
        fake.dump()
    };
    assert_eq!(run(1).await, run(1).await);
    assert_ne!(run(1).await, run(2).await);
}

#[tokio::test(start_paused = true)]
async fn custom_resource_is_served_at_once_and_gone_with_its_definition() {
    // [F17]
    let fake = FakeApiServer::new();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.ex.io"},
        "spec": {
            "group": "ex.io", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let foos = "/apis/ex.io/v1/namespaces/default/foos";
    assert_eq!(call(&fake, "GET", foos, Value::Null).await.0, 404);
    let (code, created) = call(&fake, "POST", crds, definition).await;
    assert_eq!(code, 201, "{created}");
    let foo = json!({"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": "f"}, "spec": {"b": 1, "a": 2}});
    let (code, created) = call(&fake, "POST", foos, foo).await;
    assert_eq!(code, 201, "{created}");
    let definition = fake
        .object("customresourcedefinitions.apiextensions.k8s.io", None, "foos.ex.io")
        .unwrap();
    let conditions = definition["status"]["conditions"].as_array().unwrap();
    let states: Vec<_> = conditions
        .iter()
        .map(|c| (c["type"].as_str().unwrap(), &c["status"]))
        .collect();
    assert_eq!(
        states,
        [("NamesAccepted", &json!("True")), ("Established", &json!("True"))]
    );
    let (_, resources) = call(&fake, "GET", "/apis/ex.io/v1", Value::Null).await;
    assert_eq!(resources["resources"][0]["name"], "foos");
    let response = send(
        &fake,
        "GET",
        &format!("{foos}?watch=1&resourceVersion={}", rv(&created)),
        Bytes::new(),
    )
    .await;
    let mut watch = Watch(response.unwrap().into_body());
    let (code, _) = call(&fake, "DELETE", &format!("{crds}/foos.ex.io"), Value::Null).await;
    assert_eq!(code, 200);
    assert_eq!(watch.brief().await.0, "DELETED");
    assert!(watch.ends().await);
    assert_eq!(call(&fake, "GET", foos, Value::Null).await.0, 404);
    assert_eq!(
        call(&fake, "GET", &format!("{crds}/foos.ex.io"), Value::Null).await.0,
        404
    );
}

#[tokio::test(start_paused = true)]
async fn pod_on_a_node_is_deleted_gracefully() {
    // [F12]
    let fake = FakeApiServer::new();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |name: &str, node: &str| json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
    call(&fake, "POST", pods, pod("a", "n")).await;
    let (code, left) = call(&fake, "DELETE", &format!("{pods}/a"), Value::Null).await;
    assert_eq!(
        (code, &left["metadata"]["deletionGracePeriodSeconds"]),
        (200, &json!(30))
    );
    assert!(fake.object("pods", Some("default"), "a").is_some());
    let before = fake.resource_version();
    let (code, gone) = call(&fake, "DELETE", &format!("{pods}/a"), json!({"gracePeriodSeconds": 0})).await;
    assert_eq!((code, rv(&gone)), (200, before + 2), "a mark, then the removal");
    assert!(fake.object("pods", Some("default"), "a").is_none());
}

#[tokio::test(start_paused = true)]
async fn finalizer_keeps_a_deleted_object_until_it_is_taken_away() {
    // [F12] the write that takes the last finalizer away answers with the old revision.
    let fake = FakeApiServer::new();
    let uri = "/api/v1/namespaces/default/configmaps";
    let body = json!({"metadata": {"name": "a", "finalizers": ["x.io/y"]}});
    call(&fake, "POST", uri, body).await;
    let (code, marked) = call(&fake, "DELETE", &format!("{uri}/a"), Value::Null).await;
    assert_eq!(code, 200);
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    let (code, _) = call(&fake, "POST", uri, json!({"metadata": {"name": "a"}})).await;
    assert_eq!(code, 409);
    let patch = json!({"metadata": {"finalizers": null}});
    let (code, last) = call(&fake, "PATCH", &format!("{uri}/a"), patch).await;
    assert_eq!((code, rv(&last)), (200, rv(&marked)));
    assert_eq!(call(&fake, "GET", &format!("{uri}/a"), Value::Null).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn hostile_requests_get_an_answer() {
    // [F25] a clear 4xx, the real server's answer, or a closed connection, never a panic.
    let fake = FakeApiServer::new();
    let mut random = fastrand::Rng::with_seed(7);
    let pieces = [
        "/api/v1",
        "/apis",
        "/namespaces",
        "/default",
        "/pods",
        "/configmaps",
        "/x",
        "//",
        "/%00",
        "/%zz",
        "/..",
        "/status",
        "/watch",
        "/apps/v1",
        "/deployments",
        "?watch=1",
        "&limit=-1",
        "&limit=99999999999999999999",
        "&continue=%7B%7D",
        "&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJ6In0",
        "&resourceVersion=18446744073709551615",
        "&labelSelector=a%20in%20(",
        "&fieldSelector=%3D%3D",
        "&timeoutSeconds=1",
        "&fieldSelector=metadata.name%3D",
        "&resourceVersion=1&resourceVersionMatch=Exact",
        "&dryRun=All",
        "&dryRun=x",
        "&gracePeriodSeconds=-1",
    ];
    let bodies: [&[u8]; 9] = [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"{\"metadata\":{\"name\":\"a\"}}",
        b"{\"metadata\":[]}",
        b"\xff\xfe",
        b"k8s\x00\x0a\xff\xff",
        b"{\"metadata\":{\"name\":\"a\",\"finalizers\":[\"\"]},\"data\":{\"a\":1e400}}",
    ];
    let methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"];
    for round in 0..3000 {
        let count = random.usize(1..7);
        let uri: String = (0..count).map(|_| pieces[random.usize(..pieces.len())]).collect();
        let uri = if uri.starts_with('/') { uri } else { format!("/{uri}") };
        let method = methods[random.usize(..methods.len())];
        let body = Bytes::from_static(bodies[random.usize(..bodies.len())]);
        let response = send(&fake, method, &uri, body).await.unwrap();
        let code = response.status().as_u16();
        assert!((200..600).contains(&code), "round {round}: {method} {uri}");
        drop(tokio::time::timeout(Duration::from_secs(5), response.into_body().collect()).await);
    }
}

#[tokio::test(start_paused = true)]
async fn body_over_the_limit_is_refused() {
    // [F18] 413
    let fake = FakeApiServer::new();
    let body = Bytes::from(vec![b'x'; 3 * 1024 * 1024 + 1]);
    let response = send(&fake, "POST", "/api/v1/namespaces/default/configmaps", body)
        .await
        .unwrap();
    assert_eq!(response.status(), 413);
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let status: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(status["message"], "Request entity too large: limit is 3145728");
}

/// A GET that accepts gzip, as [`get_coded`].
async fn get_packed(fake: &FakeApiServer, uri: &str) -> (bool, String) {
    get_coded(fake, uri, "br, gzip").await
}

/// A GET that accepts these codings: whether it came packed, and what it holds; of a watch, only what came until its first
/// pause.
async fn get_coded(fake: &FakeApiServer, uri: &str, accepted: &str) -> (bool, String) {
    use std::io::Write as _;

    let request = http::Request::get(uri).header("accept-encoding", accepted);
    let request = request.body(Full::new(Bytes::new())).unwrap();
    let response = fake.service().oneshot(request).await.unwrap();
    let packed = response
        .headers()
        .get("content-encoding")
        .is_some_and(|coding| coding == "gzip");
    let mut body = response.into_body();
    let mut unpacked = flate2::write::MultiGzDecoder::new(Vec::new());
    let mut plain = Vec::new();
    while let Ok(Some(frame)) = tokio::time::timeout(Duration::from_secs(1), body.frame()).await {
        let bytes = frame.unwrap().into_data().unwrap();
        if packed {
            unpacked.write_all(&bytes).unwrap();
        } else {
            plain.extend_from_slice(&bytes);
        }
    }
    if packed {
        plain = unpacked.finish().unwrap();
    }
    (packed, String::from_utf8(plain).unwrap())
}

#[tokio::test(start_paused = true)]
async fn large_answers_are_packed_for_clients_that_accept_it() {
    // [F18] gzip: lists of more than 128 KiB and streaming lists; small lists and plain watches never
    let fake = FakeApiServer::new();
    create(&fake, "small", json!({})).await;
    let list = "/api/v1/namespaces/default/configmaps";
    let (packed, text) = get_packed(&fake, list).await;
    assert!(!packed && text.contains("\"small\""));
    for n in 0..3 {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("big-{n}"), "namespace": "default"}, "data": {"v": "x".repeat(50_000)}
        });
        fake.load(&object).unwrap();
    }
    let plain = send(&fake, "GET", list, Bytes::new()).await.unwrap();
    let plain = plain.into_body().collect().await.unwrap().to_bytes();
    let (packed, text) = get_packed(&fake, list).await;
    assert!(packed);
    assert_eq!(text.as_bytes(), plain);
    let (packed, text) = get_packed(&fake, &format!("{list}/big-0")).await;
    assert!(!packed && text.len() > 50_000);

    let streaming = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let (packed, text) = get_packed(&fake, &format!("{list}?{streaming}")).await;
    assert!(packed);
    assert_eq!(text.lines().count(), 5, "four objects and the bookmark");
    let (packed, text) = get_packed(&fake, &format!("{list}?watch=1")).await;
    assert!(!packed);
    assert_eq!(text.lines().count(), 4);
}

#[tokio::test(start_paused = true)]
async fn packed_fault_packs_whatever_succeeds_and_changes_nothing_else() {
    // [F22]
    let fake = FakeApiServer::new();
    create(&fake, "small", json!({})).await;
    let list = "/api/v1/namespaces/default/configmaps";
    let streaming = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    for uri in [
        list.to_owned(),
        format!("{list}/small"),
        format!("{list}?watch=1"),
        format!("{list}?{streaming}"),
    ] {
        let read = async |packed: bool| {
            let rule = packed.then(|| fake.inject(Rule::new(Fault::Packed)));
            let read = get_coded(&fake, &uri, "identity").await;
            if let Some(rule) = rule {
                assert_eq!(rule.fired(), 1);
                rule.remove();
            }
            read
        };
        let (plain, packed) = (read(false).await, read(true).await);
        assert_eq!((plain.0, packed.0), (false, true), "{uri}");
        assert!(
            plain.1.contains("\"small\"") && plain.1 == packed.1,
            "{uri}: {}",
            packed.1
        );
    }
    fake.inject(Rule::new(Fault::Packed));
    let missing = send(&fake, "GET", &format!("{list}/missing"), Bytes::new())
        .await
        .unwrap();
    assert!(missing.headers().get("content-encoding").is_none(), "an error");
}

#[tokio::test(start_paused = true)]
async fn watch_from_the_future_is_silent_until_then() {
    // [F5] no bookmark either
    let fake = FakeApiServer::new();
    let now = create(&fake, "a", json!({})).await;
    let mut watch = Watch::open(
        &fake,
        &format!(
            "resourceVersion={}&allowWatchBookmarks=true&timeoutSeconds=600",
            now + 2
        ),
    )
    .await;
    let silence = tokio::time::timeout(Duration::from_secs(590), watch.brief()).await;
    assert!(silence.is_err(), "{silence:?}");
    create(&fake, "b", json!({})).await;
    create(&fake, "c", json!({})).await;
    let later = create(&fake, "d", json!({})).await;
    assert_eq!(
        watch.brief().await.2,
        later,
        "what came before that version is not shown"
    );
}

#[tokio::test]
async fn history_and_objects_show_the_log() {
    let fake = FakeApiServer::new();
    let first = create(&fake, "a", json!({})).await;
    let second = create(&fake, "b", json!({})).await;
    call(&fake, "DELETE", "/api/v1/namespaces/default/configmaps/a", Value::Null).await;
    let history = fake.history("configmaps", first);
    assert_eq!(history.len(), 2);
    assert_eq!((history[0].name.as_str(), history[0].resource_version), ("b", second));
    assert_eq!(rv(history[0].object.as_ref().unwrap()), second);
    assert_eq!(history[1].namespace.as_deref(), Some("default"));
    assert_eq!((history[1].name.as_str(), &history[1].object), ("a", &None));
    assert_eq!(fake.objects("configmaps").len(), 1);
    assert_eq!(fake.objects("nothing"), Vec::<Value>::new());
}
