//! Reconciles whose cache is behind what they have written themselves, or what others have: nothing is done twice, and nothing to
//! the wrong object. [Q7] [W3]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fake_apiserver::{FakeApiServer, Fault, Rule, ServerView, Verb};
use k8s_openapi::api::core::v1::ConfigMap;
use kclient::handler::QueueHandlers;
use kclient::queue::{Action, Queue, ReconcileError};
use kclient::{Client, DeleteParams, HandlerOptions, Informer, ObjectKey, Preconditions, Reader, Writer};
use kube_client::testing::{TestClient, assert_no_watches};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{default, typed, value};

/// Longer than the queue backs off here.
const QUIET: Duration = Duration::from_mins(1);

fn on(view: &ServerView) -> TestClient {
    let kube = kube::Client::new(view.service(), "default");
    TestClient::new(kube_client::Client::builder().build_with(kube).unwrap())
}

fn map(name: &str, value: &str) -> ConfigMap {
    let metadata = json!({"name": name, "namespace": "default"});
    typed(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"v": value}}))
}

/// A reconciler that counts `v` up to three, one at a time, from what its cache shows, and does not wait for the cache.
struct Counting {
    cluster: TestClient,
    queue: Queue,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<Result<(), kclient::queue::RunError>>,
    written: Arc<AtomicU32>,
    failed: Arc<AtomicU32>,
}

impl Counting {
    async fn start(view: &ServerView) -> Self {
        let cluster = on(view);
        let maps = Client::<ConfigMap>::new(&cluster).unwrap();
        let (written, failed) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let queue = Queue::builder("counting")
            .reconciler({
                let (maps, written, failed) = (maps.clone(), Arc::clone(&written), Arc::clone(&failed));
                move |key: ObjectKey| count(maps.clone(), key, Arc::clone(&written), Arc::clone(&failed))
            })
            .build();
        maps.add_handler(queue.handler::<ConfigMap>().boxed(), HandlerOptions::named("counting"));
        let stop = CancellationToken::new();
        cluster.run_and_wait(&stop).await.unwrap();
        let running = tokio::spawn({
            let (queue, stop) = (queue.clone(), stop.clone());
            async move { queue.run(&stop).await }
        });
        Self {
            cluster,
            queue,
            stop,
            running,
            written,
            failed,
        }
    }

    async fn end(self, server: &FakeApiServer) {
        assert!(self.queue.has_synced());
        self.stop.cancel();
        self.running.await.unwrap().unwrap();
        self.cluster.end().await;
        assert_no_watches(server).await;
    }
}

async fn count(
    maps: Client<ConfigMap>,
    key: ObjectKey,
    written: Arc<AtomicU32>,
    failed: Arc<AtomicU32>,
) -> Result<Action, ReconcileError> {
    let Some(found) = maps.get(&key) else {
        return Ok(Action::Done);
    };
    let next = value(&found).parse::<u32>()? + 1;
    if next > 3 {
        return Ok(Action::Done);
    }
    let mut map = (*found).clone();
    map.data = Some([("v".to_owned(), next.to_string())].into());
    match maps.update(&map, &default()).await {
        Ok(_) => {
            written.fetch_add(1, Ordering::SeqCst);
            // At once, whatever the cache shows by then.
            Ok(Action::RequeueAfter(Duration::ZERO))
        }
        Err(error) => {
            failed.fetch_add(1, Ordering::SeqCst);
            Err(error.into())
        }
    }
}

fn stored(server: &FakeApiServer, name: &str) -> String {
    let map = server.object("configmaps", Some("default"), name).unwrap();
    map["data"]["v"].as_str().unwrap().to_owned()
}

// [F22] [Q7] the cache is behind the reconciler's own writes: those that stand on it conflict, and are tried again until it has
// caught up, so that each step is done once
#[tokio::test(start_paused = true)]
async fn reconciler_with_a_stale_cache_does_every_step_once() {
    let server = FakeApiServer::builder()
        .object(&map("a", "0"))
        .unwrap()
        .build()
        .unwrap();
    let slow = server.view("slow");
    slow.lag(Duration::from_secs(2));
    let counting = Counting::start(&slow).await;
    server.wait_idle(QUIET).await;
    assert_eq!(
        (stored(&server, "a"), counting.written.load(Ordering::SeqCst)),
        ("3".to_owned(), 3)
    );
    assert!(
        counting.failed.load(Ordering::SeqCst) >= 3,
        "each write was followed by a try that came too early"
    );
    let conflicts = server
        .requests()
        .into_iter()
        .filter(|request| request.status == Some(409))
        .count();
    assert_eq!(
        conflicts,
        counting.failed.load(Ordering::SeqCst) as usize,
        "and nothing else failed"
    );
    counting.end(&server).await;
}

// [F22] [Q7] answers get lost after the write is done, and others are refused: still each step once
#[tokio::test(start_paused = true)]
async fn reconciler_does_every_step_once_whatever_happens_to_its_writes() {
    let server = FakeApiServer::builder()
        .seed(7)
        .object(&map("a", "0"))
        .unwrap()
        .build()
        .unwrap();
    let view = server.view("only");
    view.lag(Duration::from_millis(300));
    let updates = |fault: Fault| Rule::new(fault).verb(Verb::Update).resource("configmaps").name("a");
    let lost = server.inject(updates(Fault::LoseResponse).times(1));
    let refused = server.inject(updates(Fault::Refuse).times(2));
    let storm = server.inject(updates(Fault::status(409)).times(3));
    let broken = server.inject(updates(Fault::status(503)).times(1));
    let counting = Counting::start(&view).await;
    server.wait_idle(QUIET).await;
    assert_eq!(stored(&server, "a"), "3");
    assert_eq!(
        (lost.fired(), refused.fired(), storm.fired(), broken.fired()),
        (1, 2, 3, 1)
    );
    // One of the three was written without being told so.
    assert_eq!(counting.written.load(Ordering::SeqCst), 2);
    assert_eq!(
        server.history("configmaps", 0).len(),
        1 + 3,
        "created, and one write for each step"
    );
    counting.end(&server).await;
}

// [F22] [W3] the cache still has an object that others have deleted and made anew: its uid keeps the new one safe
#[tokio::test(start_paused = true)]
async fn delete_by_a_stale_cache_spares_the_successor_if_it_says_which_it_means() {
    let server = FakeApiServer::builder()
        .object(&map("a", "old"))
        .unwrap()
        .build()
        .unwrap();
    let stale = server.view("stale");
    let cluster = on(&stale);
    let maps = Client::<ConfigMap>::new(&cluster).unwrap();
    cluster.run_and_wait(&CancellationToken::new()).await.unwrap();
    let hold = stale.hold("configmaps", Some("default"), "a");
    assert!(server.remove("configmaps", Some("default"), "a"));
    server.load(&map("a", "new")).unwrap();
    hold.wait_held().await;

    let key = ObjectKey::namespaced("default", "a");
    let old = maps.get(&key).unwrap();
    assert_eq!(value(&old), "old");
    let this_one = Preconditions {
        uid: old.metadata.uid.clone(),
        ..Preconditions::default()
    };
    let refused = maps
        .delete(&key, &DeleteParams::default().preconditions(this_one))
        .await;
    assert!(refused.unwrap_err().is_conflict());
    assert_eq!(stored(&server, "a"), "new");
    hold.release();
    server.wait_idle(QUIET).await;
    assert_eq!(value(&maps.get(&key).unwrap()), "new");
    cluster.end().await;
}
