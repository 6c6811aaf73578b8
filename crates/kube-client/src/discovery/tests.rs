//! Discovery against a scripted server: forms of answers, pace, sharing, failures. Every test ends its client, which asserts
//! that nothing is left of it.

mod partial;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use http::{Request, Response, header};
use kube::client::Body;
use kube::core::{GroupVersionKind, GroupVersionResource};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::*;
use crate::client::Client;
use crate::error::WatchErrorKind;
use crate::object::Scope;
use crate::sync::Mutex;
use crate::testing::TestClient;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const PLAIN: &str = "application/json";

/// Code, content type, `ETag`, body.
type Answer = (u16, &'static str, Option<&'static str>, Value);

/// A server that answers by path, and remembers what it was asked.
#[derive(Default)]
struct Script {
    answers: Mutex<HashMap<String, Answer>>,
    // Path and If-None-Match.
    asked: Mutex<Vec<(String, String)>>,
    // If set, each request waits for a permit.
    gate: Mutex<Option<Arc<Semaphore>>>,
}

impl Script {
    fn new() -> Arc<Self> {
        Arc::default()
    }

    fn answer(&self, path: &str, code: u16, content_type: &'static str, body: Value) {
        let answer = (code, content_type, None, body);
        self.answers.lock().insert(path.to_owned(), answer);
    }

    fn asked(&self) -> usize {
        self.asked.lock().len()
    }

    fn client(self: &Arc<Self>) -> TestClient {
        let script = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<Body>| {
            let script = Arc::clone(&script);
            async move {
                let path = request.uri().path().to_owned();
                let etag = request.headers().get(header::IF_NONE_MATCH);
                let etag = etag.map_or("", |etag| etag.to_str().unwrap()).to_owned();
                script.asked.lock().push((path.clone(), etag.clone()));
                let gate = script.gate.lock().clone();
                if let Some(gate) = gate {
                    gate.acquire().await.unwrap().forget();
                }
                let missing = (404, "text/plain", None, json!("404 page not found"));
                let (mut code, content_type, tag, mut body) =
                    script.answers.lock().get(&path).cloned().unwrap_or(missing);
                if tag.is_some_and(|tag| tag == etag) {
                    (code, body) = (304, Value::Null);
                }
                let mut response = Response::builder().status(code).header("content-type", content_type);
                if let Some(tag) = tag {
                    response = response.header("etag", tag);
                }
                let body = if code == 304 {
                    Vec::new()
                } else {
                    body.to_string().into_bytes()
                };
                Ok::<_, Infallible>(response.body(Body::from(body)).unwrap())
            }
        });
        TestClient::new(Client::new(kube::Client::new(service, "default")).unwrap())
    }

    /// Answers as a server since 1.26, with these groups beside the core group.
    fn aggregated(&self, groups: &[Value]) {
        let list = |items: Value| json!({"kind": "APIGroupDiscoveryList", "metadata": {}, "items": items});
        let pods = resource("pods", "Pod", &["po"]);
        let core =
            json!([{"versions": [{"version": "v1", "resources": [pods, resource("events", "Event", &["ev"])]}]}]);
        self.answer("/api", 200, AGGREGATED, list(core));
        self.answer("/apis", 200, AGGREGATED, list(json!(groups)));
    }

    /// Answers as an older server.
    fn plain(&self) {
        self.answer(
            "/api",
            200,
            PLAIN,
            json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
        );
        let version =
            |group: &str, version: &str| json!({"groupVersion": format!("{group}/{version}"), "version": version});
        let groups = json!([
            {"name": "autoscaling", "versions": [version("autoscaling", "v1"), version("autoscaling", "v2")],
             "preferredVersion": version("autoscaling", "v2")},
            {"name": "metrics.k8s.io", "versions": [version("metrics.k8s.io", "v1beta1")],
             "preferredVersion": version("metrics.k8s.io", "v1beta1")},
        ]);
        self.answer("/apis", 200, PLAIN, json!({"kind": "APIGroupList", "groups": groups}));
        let list = |group_version: &str, resources: Value| json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": resources});
        let verbs = json!(["get", "list"]);
        let pods = json!([
            {"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod", "verbs": verbs,
             "shortNames": ["po"], "categories": ["all"]},
            {"name": "pods/status", "singularName": "", "namespaced": true, "kind": "Pod", "verbs": verbs},
            {"name": "pods/eviction", "singularName": "", "namespaced": true, "kind": "Eviction", "verbs": ["create"],
             "group": "policy", "version": "v1"},
            {"name": "nodes", "singularName": "node", "namespaced": false, "kind": "Node", "verbs": verbs},
        ]);
        self.answer("/api/v1", 200, PLAIN, list("v1", pods));
        let scalers = json!([{"name": "horizontalpodautoscalers", "singularName": "horizontalpodautoscaler",
            "namespaced": true, "kind": "HorizontalPodAutoscaler", "verbs": verbs, "shortNames": ["hpa"]}]);
        for version in ["v1", "v2"] {
            let path = format!("/apis/autoscaling/{version}");
            self.answer(
                &path,
                200,
                PLAIN,
                list(&format!("autoscaling/{version}"), scalers.clone()),
            );
        }
        let metrics =
            json!([{"name": "pods", "singularName": "", "namespaced": true, "kind": "PodMetrics", "verbs": verbs}]);
        self.answer(
            "/apis/metrics.k8s.io/v1beta1",
            200,
            PLAIN,
            list("metrics.k8s.io/v1beta1", metrics),
        );
    }
}

fn resource(plural: &str, kind: &str, short: &[&str]) -> Value {
    json!({
        "resource": plural, "responseKind": {"group": "", "version": "", "kind": kind}, "scope": "Namespaced",
        "singularResource": kind.to_lowercase(), "verbs": ["get", "list"], "shortNames": short,
        "subresources": [{"subresource": "status", "responseKind": {"group": "", "version": "", "kind": kind},
            "verbs": ["get"]}],
    })
}

fn group(name: &str, versions: &Value) -> Value {
    json!({"metadata": {"name": name}, "versions": versions})
}

fn widgets() -> Value {
    let versions = json!([
        {"version": "v1", "freshness": "Current", "resources": [resource("widgets", "Widget", &["wd"])]},
        {"version": "v1beta1", "freshness": "Current",
         "resources": [resource("widgets", "Widget", &["wd"]), resource("gadgets", "Gadget", &[])]},
    ]);
    group("x.io", &versions)
}

fn not_served(error: &DiscoveryError) -> (&str, &[String], &[String]) {
    match error {
        DiscoveryError::NotServed {
            what,
            close,
            unavailable,
        } => (what, close, unavailable),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn aggregated_answers_are_looked_up_in_every_direction() {
    let script = Script::new();
    let events = json!([{"version": "v1", "resources": [resource("events", "Event", &["ev"])]}]);
    script.aggregated(&[widgets(), group("events.k8s.io", &events)]);
    let client = script.client();
    let discovery = client.discovery();
    assert_eq!(script.asked(), 0, "construction asks nothing");
    let found = discovery.find(Lookup::named("wd")).await.unwrap();
    assert_eq!(found.gvk(), GroupVersionKind::gvk("x.io", "v1", "Widget"));
    assert_eq!(found.gvr(), GroupVersionResource::gvr("x.io", "v1", "widgets"));
    assert_eq!(found.versions, ["v1", "v1beta1"]);
    assert_eq!(found.preferred_version(), "v1");
    assert_eq!(found.scope(), Scope::Namespaced);
    assert!(found.supports("list") && !found.supports("watch"));
    let (status, capabilities) = found.subresource("status").unwrap();
    assert_eq!(
        (status.kind.as_str(), status.api_version.as_str()),
        ("Widget", "x.io/v1")
    );
    assert!(capabilities.supports_operation("get"));

    let find = |lookup: Lookup| {
        let discovery = discovery.clone();
        async move { discovery.find(lookup).await.unwrap().resource.clone() }
    };
    let gadget = find(Lookup::kind("Gadget")).await;
    assert_eq!(
        (gadget.plural.as_str(), gadget.version.as_str()),
        ("gadgets", "v1beta1")
    );
    assert_eq!(find(Lookup::from(&found.gvk())).await, found.resource);
    assert_eq!(find(Lookup::from(&found.gvr())).await, found.resource);
    assert_eq!(
        find(Lookup::named("WIDGET").version("v1beta1")).await.version,
        "v1beta1"
    );
    assert_eq!(
        find(Lookup::kind("Event")).await.api_version,
        "v1",
        "the core group first"
    );
    assert_eq!(
        find(Lookup::kind("Event").group("events.k8s.io")).await.group,
        "events.k8s.io"
    );
    let apis = discovery.served().await.unwrap();
    assert_eq!(apis.find_all(&Lookup::named("ev")).len(), 2);
    assert_eq!(script.asked(), 2, "one aggregated document for each root");
    let error = discovery.find(Lookup::kind("widgets")).await.unwrap_err();
    assert!(error.is_not_served(), "a plural is no kind: {error}");
    client.end().await;
}

#[tokio::test(start_paused = true)]
async fn older_servers_are_asked_group_by_group() {
    let script = Script::new();
    script.plain();
    let client = script.client();
    let discovery = client.discovery();
    let pods = discovery.find(Lookup::named("po")).await.unwrap();
    assert_eq!(pods.resource.api_version, "v1");
    assert_eq!(pods.categories, ["all"]);
    let (eviction, _) = pods.subresource("eviction").unwrap();
    assert_eq!(
        (eviction.api_version.as_str(), eviction.kind.as_str()),
        ("policy/v1", "Eviction")
    );
    let (status, _) = pods.subresource("status").unwrap();
    assert_eq!(status.api_version, "v1");
    assert_eq!(
        discovery.find(Lookup::kind("Node")).await.unwrap().scope(),
        Scope::Cluster
    );
    let scaler = discovery.find(Lookup::named("hpa")).await.unwrap();
    assert_eq!(
        scaler.resource.version, "v2",
        "the preferred version, not the first one listed"
    );
    assert_eq!(scaler.versions, ["v2", "v1"]);
    let apis = discovery.cached().unwrap();
    let all: Vec<_> = apis.category("all").map(|found| found.resource.kind.as_str()).collect();
    assert_eq!(all, ["Pod"]);
    assert_eq!(script.asked(), 6);
    client.end().await;
}

#[tokio::test(start_paused = true)]
async fn group_that_fails_is_named_and_breaks_no_other() {
    let script = Script::new();
    script.plain();
    script.answer(
        "/apis/metrics.k8s.io/v1beta1",
        503,
        PLAIN,
        json!({"kind": "Status", "code": 503, "message": "no endpoints"}),
    );
    let client = script.client();
    let discovery = client.discovery();
    assert!(discovery.find(Lookup::named("hpa")).await.is_ok());
    let apis = discovery.served().await.unwrap();
    let [silent] = apis.unavailable() else {
        panic!("{apis:?}")
    };
    assert_eq!(
        (silent.group.as_str(), silent.version.as_str()),
        ("metrics.k8s.io", "v1beta1")
    );
    assert_eq!(
        silent.reason,
        "server error 503: cannot discover API groups: no endpoints"
    );
    let in_group = discovery
        .find(Lookup::kind("PodMetrics").group("metrics.k8s.io"))
        .await
        .unwrap_err();
    assert!(
        matches!(&in_group, DiscoveryError::Unavailable { group_version, .. } if group_version == "metrics.k8s.io/v1beta1")
    );
    assert!(in_group.is_retryable());
    let anywhere = discovery.find(Lookup::kind("PodMetrics")).await.unwrap_err();
    assert_eq!(not_served(&anywhere).2, ["metrics.k8s.io/v1beta1"]);
    assert!(anywhere.is_retryable());

    script.plain();
    discovery.refresh().await.unwrap();
    assert!(discovery.find(Lookup::kind("PodMetrics")).await.is_ok());
    script.answer("/apis/metrics.k8s.io/v1beta1", 503, PLAIN, json!({}));
    let apis = discovery.refresh().await.unwrap();
    assert_eq!(apis.unavailable().len(), 1);
    assert!(
        discovery.find(Lookup::kind("PodMetrics")).await.is_ok(),
        "what was known of it stays"
    );
    client.end().await;
}

#[tokio::test(start_paused = true)]
async fn stale_aggregated_group_is_named_and_keeps_what_was_known() {
    let script = Script::new();
    let metrics = |resources: Value, freshness: &str| {
        group(
            "metrics.k8s.io",
            &json!([{"version": "v1beta1", "freshness": freshness, "resources": resources}]),
        )
    };
    script.aggregated(&[
        widgets(),
        metrics(json!([resource("pods", "PodMetrics", &[])]), "Current"),
    ]);
    let client = script.client();
    let discovery = client.discovery();
    assert!(discovery.find(Lookup::kind("PodMetrics")).await.is_ok());
    script.aggregated(&[widgets(), metrics(json!([]), "Stale")]);
    let apis = discovery.refresh().await.unwrap();
    assert_eq!(apis.unavailable()[0].group, "metrics.k8s.io");
    let kept = discovery.find(Lookup::kind("PodMetrics")).await.unwrap();
    assert_eq!(kept.versions, ["v1beta1"]);
    assert!(discovery.find(Lookup::kind("Widget")).await.is_ok());
    script.aggregated(&[widgets()]);
    discovery.refresh().await.unwrap();
    let gone = discovery.find(Lookup::kind("PodMetrics")).await.unwrap_err();
    assert!(
        gone.is_not_served() && !gone.is_retryable(),
        "the group itself is gone: {gone}"
    );
    client.end().await;
}

#[tokio::test(start_paused = true)]
async fn entries_without_a_name_or_kind_are_skipped() {
    let script = Script::new();
    let odd = json!([
        {"version": "v1", "resources": [{"resource": "only-subresources", "responseKind": {"kind": ""}, "scope": "Cluster"},
            {"responseKind": {"kind": "Nameless"}}, resource("widgets", "Widget", &[])]},
        {"resources": [resource("lost", "Lost", &[])]},
    ]);
    script.aggregated(&[group("x.io", &odd)]);
    let client = script.client();
    let discovery = client.discovery();
    let apis = discovery.served().await.unwrap();
    let of_group: Vec<_> = apis.iter().filter(|found| found.resource.group == "x.io").collect();
    assert_eq!(of_group.len(), 1);
    assert_eq!(of_group[0].resource.kind, "Widget");
    client.end().await;
}

#[tokio::test(start_paused = true)]
async fn unchanged_documents_are_not_sent_again() {
    let script = Script::new();
    script.aggregated(&[widgets()]);
    for (path, tag) in [("/api", "\"core\""), ("/apis", "\"named\"")] {
        script.answers.lock().get_mut(path).unwrap().2 = Some(tag);
    }
    let client = script.client();
    let discovery = client.discovery();
    let first = discovery.served().await.unwrap();
    let second = discovery.refresh().await.unwrap();
    assert!(Arc::ptr_eq(&first, &second), "nothing was decoded again");
    let asked = |path: &str, tag: &str| (path.to_owned(), tag.to_owned());
    let mut log = script.asked.lock().clone();
    log[..2].sort();
    log[2..].sort();
    assert_eq!(
        log,
        [
            asked("/api", ""),
            asked("/apis", ""),
            asked("/api", "\"core\""),
            asked("/apis", "\"named\"")
        ]
    );
    // One root changes: the other one's part is kept.
    let gadgets = json!([{"version": "v1", "resources": [resource("gizmos", "Gizmo", &[])]}]);
    let core = script.answers.lock().remove("/api").unwrap();
    script.aggregated(&[group("y.io", &gadgets)]);
    script.answers.lock().insert("/api".to_owned(), core);
    let third = discovery.refresh().await.unwrap();
    assert!(third.find(&Lookup::kind("Gizmo")).is_some() && third.find(&Lookup::named("po")).is_some());
    assert!(third.find(&Lookup::kind("Widget")).is_none());
    client.end().await;
}

#[tokio::test(start_paused = true)]
async fn misses_ask_again_at_a_bounded_pace() {
    let script = Script::new();
    script.aggregated(&[]);
    let client = script.client();
    let discovery = client.discovery();
    let start = tokio::time::Instant::now();
    let mut misses = 0;
    while start.elapsed() < Duration::from_secs(59) {
        for _ in 0..100 {
            let error = discovery.find(Lookup::kind("Widget")).await.unwrap_err();
            assert!(error.is_not_served());
            misses += 1;
        }
        tokio::time::advance(Duration::from_millis(100)).await;
    }
    assert!(misses > 50_000);
    assert_eq!(script.asked(), 2 * 12, "two requests in 5 s");
    script.aggregated(&[widgets()]);
    tokio::time::advance(Duration::from_secs(5)).await;
    assert!(discovery.find(Lookup::kind("Widget")).await.is_ok());
    client.end().await;
}

#[tokio::test(start_paused = true)]
async fn callers_share_one_attempt() {
    let script = Script::new();
    script.aggregated(&[widgets()]);
    let gate = Arc::new(Semaphore::new(0));
    *script.gate.lock() = Some(Arc::clone(&gate));
    let client = script.client();
    let discovery = client.discovery();
    let first = tokio::spawn({
        let discovery = discovery.clone();
        async move { discovery.find(Lookup::kind("Widget")).await }
    });
    while script.asked() < 2 {
        tokio::task::yield_now().await;
    }
    // Others come while the first attempt is under way; and the one who makes it goes away.
    let others: Vec<_> = (0..100)
        .map(|_| {
            let discovery = discovery.clone();
            tokio::spawn(async move { discovery.find(Lookup::kind("Widget")).await })
        })
        .collect();
    tokio::task::yield_now().await;
    first.abort();
    gate.add_permits(100);
    for found in join_all(others).await {
        assert!(found.unwrap().is_ok());
    }
    assert_eq!(
        script.asked(),
        4,
        "the attempt that was dropped, and one for everybody else"
    );

    // Explicit refreshes that come while one is under way need one that begins after them: one for all.
    let gate = Arc::new(Semaphore::new(0));
    *script.gate.lock() = Some(Arc::clone(&gate));
    let mut early = Box::pin(discovery.refresh());
    assert!(early.as_mut().now_or_never().is_none());
    let late = join_all((0..100).map(|_| discovery.refresh()));
    gate.add_permits(100);
    let (early, late) = tokio::join!(early, late);
    assert!(early.is_ok() && late.iter().all(Result::is_ok));
    assert_eq!(script.asked(), 8);
    client.end().await;
}

#[tokio::test(start_paused = true)]
async fn invalidation_has_the_next_lookup_ask_and_falls_back_to_what_was_known() {
    let script = Script::new();
    script.aggregated(&[widgets()]);
    let client = script.client();
    let discovery = client.discovery();
    discovery.find(Lookup::kind("Widget")).await.unwrap();
    script.aggregated(&[]);
    discovery.find(Lookup::kind("Widget")).await.expect("still remembered");
    discovery.invalidate();
    let error = discovery.find(Lookup::kind("Widget")).await.unwrap_err();
    assert!(error.is_not_served());
    script.aggregated(&[widgets()]);
    discovery.refresh().await.unwrap();
    discovery.invalidate();
    for path in ["/api", "/apis"] {
        script.answer(path, 500, PLAIN, json!({}));
    }
    discovery
        .find(Lookup::kind("Widget"))
        .await
        .expect("the last known answer");
    assert!(discovery.served().await.is_ok());
    let error = discovery.find(Lookup::kind("Gizmo")).await.unwrap_err();
    assert!(matches!(error, DiscoveryError::Request(_)), "{error:?}");
    client.end().await;
}

#[tokio::test(start_paused = true)]
async fn failures_are_typed_and_not_repeated_in_a_hot_loop() {
    let script = Script::new();
    let client = script.client();
    let discovery = client.discovery();
    let kind_of = |error: &DiscoveryError| match error {
        DiscoveryError::Request(error) => error.kind.clone(),
        other => panic!("{other:?}"),
    };
    let error = discovery.find(Lookup::kind("Widget")).await.unwrap_err();
    assert_eq!(kind_of(&error), WatchErrorKind::NotKubernetes, "neither /api nor /apis");
    assert!(!error.is_retryable());
    for _ in 0..100 {
        discovery.find(Lookup::kind("Widget")).await.unwrap_err();
    }
    assert_eq!(script.asked(), 2);
    for path in ["/api", "/apis"] {
        script.answer(
            path,
            403,
            PLAIN,
            json!({"kind": "Status", "code": 403, "message": "no"}),
        );
    }
    tokio::time::advance(Duration::from_secs(1)).await;
    let error = discovery.find(Lookup::kind("Widget")).await.unwrap_err();
    assert_eq!(kind_of(&error), WatchErrorKind::Forbidden);
    assert_eq!(
        crate::error::chain(&error),
        "cannot find out what the server serves: forbidden: cannot discover API groups: no"
    );
    script.aggregated(&[widgets()]);
    script.answer("/api", 403, PLAIN, json!({"message": "no"}));
    let apis = discovery.refresh().await.unwrap();
    assert_eq!(
        apis.unavailable()[0].to_string(),
        "v1: forbidden: cannot discover API groups: no"
    );
    script.answer("/apis", 200, "text/html", json!("<html>"));
    let error = discovery.refresh().await.unwrap_err();
    assert_eq!(kind_of(&error), WatchErrorKind::NotKubernetes);
    script.answer("/apis", 200, AGGREGATED, json!({"items": 3}));
    let error = discovery.refresh().await.unwrap_err();
    assert_eq!(kind_of(&error), WatchErrorKind::Protocol);
    let silent = Arc::new(Semaphore::new(0));
    *script.gate.lock() = Some(silent);
    let error = discovery.refresh().await.unwrap_err();
    assert_eq!(kind_of(&error), WatchErrorKind::NoAnswer);
    assert!(error.is_retryable());
    client.end().await;
}

#[tokio::test(start_paused = true)]
async fn unreachable_server_is_told_as_such() {
    let service = tower::service_fn(|_: Request<Body>| async {
        Err::<Response<Body>, _>(std::io::Error::from(std::io::ErrorKind::ConnectionRefused))
    });
    let client = TestClient::new(Client::new(kube::Client::new(service, "default")).unwrap());
    let error = client.discovery().find(Lookup::kind("Pod")).await.unwrap_err();
    assert!(
        matches!(&error, DiscoveryError::Request(error) if error.kind == WatchErrorKind::Unreachable),
        "{error:?}"
    );
    assert!(error.is_retryable());
    client.end().await;
}

#[tokio::test(start_paused = true)]
async fn miss_names_what_comes_near() {
    let script = Script::new();
    script.aggregated(&[widgets()]);
    let client = script.client();
    let discovery = client.discovery();
    let close = |lookup: Lookup| {
        let discovery = discovery.clone();
        async move {
            let error = discovery.find(lookup).await.unwrap_err();
            not_served(&error).1.to_vec()
        }
    };
    assert_eq!(close(Lookup::kind("Wigdet")).await, ["Widget"]);
    assert_eq!(close(Lookup::resource("widget")).await, ["widgets"]);
    assert_eq!(close(Lookup::named("gadgts")).await, ["gadgets"]);
    assert_eq!(
        close(Lookup::kind("Widget").group("y.io")).await,
        ["Widget of x.io/v1", "Widget of x.io/v1beta1"]
    );
    assert_eq!(close(Lookup::kind("Xyz")).await, [""; 0]);
    assert_eq!(close(Lookup::kind("x".repeat(10_000))).await, [""; 0]);
    let error = discovery.find(Lookup::kind("Wigdet").group("x.io")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the server does not serve kind Wigdet in group x.io (did you mean Widget?)"
    );
    client.end().await;
}
