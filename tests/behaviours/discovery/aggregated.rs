//! Kinds that have no definition, as those of aggregated APIs, which may be down: what discovery tells is what there is. [I30]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fake_apiserver::FakeApiServer;
use futures_util::FutureExt;
use kube::client::Body;
use kube::core::GroupVersionResource;
use kube_client::testing::{TestClient, assert_eventually_within, assert_no_watches};
use kube_client::{Client, KindState};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Widgets;
use crate::harness::Server;

/// An in-memory server whose `/apis` says what the case wants.
#[derive(Clone)]
struct Aggregator {
    server: FakeApiServer,
    // Code and groups.
    answer: Arc<Mutex<(u16, Vec<Value>)>>,
    // When it was asked.
    asked: Arc<Mutex<Vec<Instant>>>,
}

impl Aggregator {
    fn new() -> Self {
        Self {
            server: FakeApiServer::new(),
            answer: Arc::new(Mutex::new((200, Vec::new()))),
            asked: Arc::default(),
        }
    }

    fn client(&self) -> TestClient {
        let this = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let this = this.clone();
            async move {
                if request.uri().path() != "/apis" {
                    return kube::Client::new(this.server.service(), "default").send(request).await;
                }
                this.asked.lock().unwrap().push(Instant::now());
                let (code, groups) = this.answer.lock().unwrap().clone();
                let list = json!({"kind": "APIGroupDiscoveryList", "metadata": {}, "items": groups});
                let form = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
                let answer = http::Response::builder().status(code).header("content-type", form);
                Ok(answer.body(Body::from(list.to_string().into_bytes())).unwrap())
            }
        });
        TestClient::new(Client::new(kube::Client::new(service, "default")).unwrap())
    }

    fn answers(&self, code: u16, groups: &[Value]) {
        *self.answer.lock().unwrap() = (code, groups.to_vec());
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    async fn end(self, client: TestClient) {
        client.end().await;
        assert_no_watches(&self.server).await;
    }
}

fn metrics() -> GroupVersionResource {
    GroupVersionResource::gvr("metrics.k8s.io", "v1beta1", "pods")
}

/// The group of metrics, whose server is up.
fn up() -> Value {
    group(
        "Current",
        &json!([{
            "resource": "pods", "responseKind": {"group": "", "version": "", "kind": "PodMetrics"},
            "scope": "Namespaced", "singularResource": "", "verbs": ["get", "list"],
        }]),
    )
}

/// The same while it is down.
fn down() -> Value {
    group("Stale", &json!([]))
}

fn group(freshness: &str, resources: &Value) -> Value {
    let versions = json!([{"version": "v1beta1", "freshness": freshness, "resources": resources}]);
    json!({"metadata": {"name": "metrics.k8s.io"}, "versions": versions})
}

// [I30] asked now and then and by nothing else, `known` learns of a kind without a definition, and of its end
#[tokio::test(start_paused = true)]
async fn known_alone_follows_kinds_that_have_no_definition() {
    let aggregator = Aggregator::new();
    let client = aggregator.client();
    let crds = client.crd_watcher();
    assert!(!crds.known(&metrics()));
    client.sync().await;
    let known = async || crds.known(&metrics());
    for (groups, expected) in [(vec![up()], true), (vec![], false), (vec![up()], true)] {
        tokio::time::sleep(Duration::from_secs(20)).await;
        aggregator.answers(200, &groups);
        let patience = Duration::from_secs(61);
        assert_eventually_within(patience, "what discovery says", known, |known| *known == expected).await;
    }
    // About once a minute, however often it is asked.
    let (before, begin) = (aggregator.asked(), Instant::now());
    while begin.elapsed() < Duration::from_mins(10) {
        crds.known(&metrics());
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let asked = aggregator.asked() - before;
    assert!((9..=11).contains(&asked), "{asked} in 10 min");
    // Not at all once nobody asks; after a pause, the first call has it asked at once.
    tokio::time::sleep(Duration::from_mins(5)).await;
    let before = aggregator.asked();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(aggregator.asked(), before);
    aggregator.answers(200, &[]);
    assert!(crds.known(&metrics()), "as it was known before the pause");
    let at_once = Duration::from_secs(1);
    assert_eventually_within(at_once, "what discovery says", known, |known| !known).await;
    aggregator.end(client).await;
}

// [I30] an aggregated API that is down: what was never seen is neither known nor unknown, what was seen stays
#[tokio::test(start_paused = true)]
async fn kind_of_an_aggregated_api_that_is_down_is_not_taken_for_absent() {
    let aggregator = Aggregator::new();
    aggregator.answers(200, &[down()]);
    let client = aggregator.client();
    let crds = client.crd_watcher();
    let mut states = crds.subscribe(&metrics());
    client.sync().await;
    assert!(crds.has_synced(), "one group that is down does not hold the others up");
    assert!(!crds.known(&metrics()));
    let status = crds.status(&metrics());
    assert_eq!(status.state, None);
    assert_eq!(
        status.reason,
        "discovery cannot tell: metrics.k8s.io/v1beta1: the server behind this aggregated API does not answer"
    );
    assert_eq!(states.next().now_or_never(), None);
    for (code, groups, told) in [
        (200, vec![up()], Some(KindState::Known)),
        (200, vec![down()], None),
        (403, vec![], None),
        (500, vec![], None),
        (404, vec![], None),
        (200, vec![up()], None),
        (200, vec![], Some(KindState::Unknown)),
        (200, vec![down()], None),
        (200, vec![up()], Some(KindState::Known)),
    ] {
        aggregator.answers(code, &groups);
        let before = aggregator.asked();
        assert_eventually_within(
            Duration::from_mins(3),
            "two more questions",
            async || aggregator.asked() - before,
            |asked| *asked >= 2,
        )
        .await;
        assert_eq!(states.next().now_or_never().flatten(), told, "{code} {groups:?}");
    }
    assert_eq!(
        client.crd_watcher().status(&metrics()).scope,
        kube_client::Scope::Namespaced
    );
    aggregator.end(client).await;
}

// A server that takes a question of discovery and never answers holds nothing up that is known without it.
#[tokio::test(start_paused = true)]
async fn silent_discovery_does_not_hold_up_definitions() {
    let rig = Server::fake();
    let server = rig.in_memory().unwrap().clone();
    let inner = rig.client();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let inner = inner.clone();
        async move {
            if request.uri().path().starts_with("/apis/") {
                return inner.send(request).await;
            }
            std::future::pending().await
        }
    });
    let client = TestClient::new(Client::new(kube::Client::new(service, "default")).unwrap());
    let widgets = Widgets::new(&rig);
    widgets.define().await;
    let crds = client.crd_watcher();
    let mut states = crds.subscribe(&widgets.kind());
    client.start();
    let stop = CancellationToken::new();
    let begin = Instant::now();
    crds.wait_for(&widgets.kind(), &stop).await.unwrap();
    assert_eq!(states.next().await, Some(KindState::Known));
    widgets.undefine().await;
    assert_eq!(states.next().await, Some(KindState::Unknown));
    widgets.define().await;
    assert_eq!(states.next().await, Some(KindState::Known));
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert!(!crds.has_synced(), "nothing is known of kinds without a definition");
    client.end().await;
    assert_no_watches(&server).await;
}
