//! Servers that are behind, of a cluster of several: what a cache shows when it meets one, and how it gets on. [I19] [I35]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use fake_apiserver::{FakeService, Fault, Rule, ServerView, ServiceError, Verb};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use kube_client::{CaughtUpError, InformerOptions, ListMode, Namespaces, WatchErrorKind};
use tokio::time::{Instant, sleep};
use tower::Service;

use super::{Diary, Rig, cached, create, delete, key, update, value};
use crate::harness::Server;

/// A load balancer: each request goes to the server that is chosen when it comes.
#[derive(Clone)]
struct Balancer(Arc<Mutex<FakeService>>);

impl Balancer {
    fn choose(&self, server: &ServerView) {
        *self.0.lock().unwrap() = server.service();
    }
}

impl Service<http::Request<Body>> for Balancer {
    type Response = http::Response<fake_apiserver::Body>;
    type Error = ServiceError;
    type Future = <FakeService as Service<http::Request<Body>>>::Future;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let mut chosen = self.0.lock().unwrap().clone();
        chosen.call(request)
    }
}

/// A client that talks to the view "one" first, and what sends it elsewhere. Writes of the case itself go to the log.
fn balanced() -> (Rig, Balancer) {
    let server = Server::fake();
    let one = server.in_memory().unwrap().view("one");
    let balancer = Balancer(Arc::new(Mutex::new(one.service())));
    let kube = kube::Client::new(balancer.clone(), "default");
    (Rig::through(server, kube, |builder| builder), balancer)
}

fn entries(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    entries.iter().map(owned).collect()
}

// [F22] [I19] the watch breaks and is resumed on a server that has not seen what the cache has
#[tokio::test(start_paused = true)]
async fn cache_does_not_go_back_when_it_meets_a_server_that_is_behind() {
    for mode in [ListMode::Auto, ListMode::Paged] {
        let (rig, balancer) = balanced();
        let namespace = rig.server.namespace().await;
        create(&namespace, "a", "1").await;
        let other = rig.memory().view("other");
        other.freeze();
        let options = InformerOptions::default().namespaces(Namespaces::one(namespace.name()));
        let informer = rig.maps(options.list_mode(mode));
        let diary = Diary::default();
        diary.register(&informer);
        rig.run().await;
        create(&namespace, "b", "1").await;
        delete(&rig.server, &namespace, "a").await;
        let told = ["+a=1!", "+b=1", "-a=1"];
        assert_eq!(diary.wait(3).await, told);

        balancer.choose(&other);
        rig.memory().close_watches("configmaps");
        let ahead = async || {
            rig.memory()
                .watches()
                .iter()
                .any(|watch| watch.view.as_deref() == Some("other"))
        };
        crate::harness::eventually("the watch on the other server", || async {
            ahead().await.then_some(())
        })
        .await;
        create(&namespace, "c", "1").await;
        sleep(Duration::from_secs(40)).await;
        assert_eq!(cached(&informer), entries(&[("b", "1")]), "neither back nor on");
        assert_eq!(diary.entries(), told);

        other.thaw();
        assert_eq!(diary.wait(4).await, ["+a=1!", "+b=1", "-a=1", "+c=1"]);
        assert_eq!(informer.stats().lists, 1, "no need to list anew");
        rig.end().await;
    }
}

// [F22] [I19] the cache has to be listed anew on a server that has not got to its version: refused there as too large, it
// comes from the store, or when the server has caught up
#[tokio::test(start_paused = true)]
async fn relist_on_a_server_that_is_behind_recovers_and_never_shows_the_past() {
    for mode in [ListMode::Auto, ListMode::Paged] {
        let (rig, balancer) = balanced();
        let namespace = rig.server.namespace().await;
        create(&namespace, "a", "1").await;
        let other = rig.memory().view("other");
        other.freeze();
        let options = InformerOptions::default().namespaces(Namespaces::one(namespace.name()));
        let informer = rig.maps(options.list_mode(mode));
        let diary = Diary::default();
        diary.register(&informer);
        rig.run().await;
        create(&namespace, "b", "1").await;
        update(&rig.server, &namespace, "a", "2").await;
        let told = ["+a=1!", "+b=1", "a=1>2"];
        assert_eq!(diary.wait(3).await, told);

        balancer.choose(&other);
        rig.memory().close_watches("configmaps");
        create(&namespace, "c", "1").await;
        // The watch has nothing to tell, for so long that the client streams a list; or it is refused so often that the client
        // lists, at the version that it has.
        let refused = Rule::new(Fault::status(500)).verb(Verb::Watch).view("other");
        let refused = (mode == ListMode::Paged).then(|| rig.memory().inject(refused));
        let too_large = |error: &kube_client::WatchError| error.kind == WatchErrorKind::VersionTooLarge;
        in_hours("a refusal", || rig.errors().iter().any(too_large)).await;
        assert_eq!(diary.entries()[..3], told, "the past was not shown");
        if let Some(refused) = refused {
            refused.remove();
        }
        if mode == ListMode::Auto {
            // A streaming list is of the server's cache. A paged one comes from the store, whatever the cache has.
            other.thaw();
        }
        in_hours("the new object", || diary.entries().len() > 3).await;
        assert_eq!(
            diary.entries(),
            ["+a=1!", "+b=1", "a=1>2", "+c=1"],
            "nothing but what is new"
        );
        other.thaw();
        update(&rig.server, &namespace, "c", "2").await;
        in_hours("the change", || diary.entries().len() > 4).await;
        assert_eq!(diary.entries()[4], "c=1>2");
        rig.end().await;
    }
}

/// Waits for what takes a client its time: retries and the lives of watches.
async fn in_hours(what: &str, mut happened: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if happened() {
            return;
        }
        sleep(Duration::from_secs(10)).await;
    }
    panic!("{what}: not in hours");
}

// [F22] [I35] one's own write is not in the cache of a server that is behind, however it was answered
#[tokio::test(start_paused = true)]
async fn own_write_is_waited_for_on_a_server_that_is_behind() {
    let (rig, _balancer) = balanced();
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    let informer = rig.maps_in(&namespace);
    rig.run().await;
    let one = rig.memory().view("one");
    one.lag(Duration::from_secs(50));
    let maps: kube::Api<ConfigMap> = kube::Api::namespaced(rig.client.kube().clone(), namespace.name());
    let patch = kube::api::Patch::Merge(serde_json::json!({"data": {"v": "2"}}));
    let written = maps
        .patch("a", &kube::api::PatchParams::default(), &patch)
        .await
        .unwrap();
    let start = Instant::now();
    let early = informer.caught_up(&written, Duration::from_secs(30)).await;
    assert!(matches!(early, Err(CaughtUpError::TimedOut { .. })));
    assert_eq!(cached(&informer), entries(&[("a", "1")]));
    informer.caught_up(&written, Duration::from_mins(2)).await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 50);
    assert_eq!(value(&informer.get(&key(&namespace, "a")).unwrap()), "2");
    rig.end().await;
}

// [F22] what is held of one object keeps back what follows it in the cache, and comes in order
#[tokio::test(start_paused = true)]
async fn held_changes_come_in_order_when_they_are_released() {
    let (rig, _balancer) = balanced();
    let namespace = rig.server.namespace().await;
    create(&namespace, "a", "1").await;
    let informer = rig.maps_in(&namespace);
    let diary = Diary::default();
    diary.register(&informer);
    rig.run().await;
    diary.wait(1).await;
    let hold = rig.memory().view("one").hold("configmaps", Some(namespace.name()), "a");
    create(&namespace, "b", "1").await;
    update(&rig.server, &namespace, "a", "transient").await;
    delete(&rig.server, &namespace, "a").await;
    create(&namespace, "c", "1").await;
    create(&namespace, "a", "2").await;
    hold.wait_held().await;
    diary.wait(2).await;
    sleep(Duration::from_secs(40)).await;
    assert_eq!(diary.entries(), ["+a=1!", "+b=1"]);
    assert_eq!(cached(&informer), entries(&[("a", "1"), ("b", "1")]));
    hold.release();
    let told = ["+a=1!", "+b=1", "a=1>transient", "-a=transient", "+c=1", "+a=2"];
    assert_eq!(diary.wait(6).await, told);
    rig.end().await;
}
