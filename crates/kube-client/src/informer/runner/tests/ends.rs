//! Ends that nobody asked for: the runtime goes, or what is dropped at an end panics.

use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use kube::core::GroupVersionResource;
use tokio::runtime::Builder;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::client::Client;
use crate::error::SyncError;
use crate::informer::handler::BlockingHandler;

// [I23] who waits elsewhere for a client whose runtime is gone is told, and so is who registers with it: nothing of it goes on
#[test]
fn client_whose_runtime_is_gone_is_stopped() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (client, informer, registrations, mut kinds) = runtime.block_on(async {
        let (client, informer) = rig();
        let never = on_event_async(|_: Event<ConfigMap>| std::future::pending());
        let registrations = [
            informer.add_handler(never, HandlerOptions::default()),
            informer.add_handler(
                BlockingHandler::new(on_event(|_: &Event<ConfigMap>| ())),
                HandlerOptions::default(),
            ),
        ];
        let maps = GroupVersionResource::gvr("", "v1", "configmaps");
        let kinds = client.crd_watcher().subscribe(&maps);
        client.sync().await;
        (client, informer, registrations, kinds)
    });
    drop(runtime);
    let elsewhere = Builder::new_current_thread().enable_all().build().unwrap();
    elsewhere.block_on(async {
        let patience = Duration::from_secs(10);
        for registration in &registrations {
            timeout(patience, registration.removed()).await.expect("it has ended");
            assert!(registration.is_stopped());
        }
        assert!(informer.is_stopped());
        let told = async { while kinds.next().await.is_some() {} };
        timeout(patience, told).await.expect("nobody tells of kinds any more");
        let late = informer.add_handler(on_event(|_: &Event<ConfigMap>| ()), HandlerOptions::default());
        assert_eq!(timeout(patience, late.synced()).await, Ok(Err(Stopped)));
        let waiting = CancellationToken::new();
        let waited = timeout(patience, client.run_and_wait(&waiting)).await;
        assert!(matches!(waited, Ok(Err(SyncError::Stopped))), "{waited:?}");
        assert!(client.is_stopped());
        client.end().await;
    });
}

/// What a handler captures, of which the drop panics.
struct Undroppable;

impl Drop for Undroppable {
    fn drop(&mut self) {
        panic!("not to be dropped");
    }
}

fn undroppable<K: 'static>() -> impl EventHandler<K> {
    let captured = Undroppable;
    on_event(move |_: &Event<K>| {
        std::hint::black_box(&captured);
    })
}

// [I39] handlers that never ran and whose drops panic keep neither each other nor other informers from being stopped
#[tokio::test]
async fn stop_reaches_everyone_whatever_drops_panic() {
    let client = TestClient::fake();
    let informers = client.informers();
    let maps = informers.typed::<ConfigMap>(InformerOptions::default()).unwrap();
    let secrets = informers.typed::<Secret>(InformerOptions::default()).unwrap();
    let pods = informers.typed::<Pod>(InformerOptions::default()).unwrap();
    let nodes = informers.typed::<Node>(InformerOptions::default()).unwrap();
    let mut registrations = Vec::new();
    for _ in 0..2 {
        registrations.extend([
            maps.add_handler(undroppable(), HandlerOptions::default()),
            secrets.add_handler(undroppable(), HandlerOptions::default()),
            pods.add_handler(undroppable(), HandlerOptions::default()),
            nodes.add_handler(undroppable(), HandlerOptions::default()),
        ]);
    }
    registrations[0].remove();
    client.shutdown().await;
    assert!(maps.is_stopped() && secrets.is_stopped() && pods.is_stopped() && nodes.is_stopped());
    assert!(registrations.iter().all(crate::Registration::is_stopped));
    client.end().await;
}

// [I39] what is dropped uncalled, because a handler ends before it has synced, may panic
#[tokio::test]
async fn stop_goes_on_when_an_uncalled_callback_cannot_be_dropped() {
    let (client, informer) = rig();
    let registration = informer.add_handler(on_event(|_: &Event<ConfigMap>| ()), HandlerOptions::default());
    let (before, after) = (registration.synced(), registration.synced());
    let mut waiting = Box::pin(async { tokio::join!(before, after) });
    for _ in 0..2 {
        let captured = Undroppable;
        registration.on_synced(move || drop(captured));
    }
    assert!(futures_util::FutureExt::now_or_never(&mut waiting).is_none());
    client.end().await;
    assert_eq!(waiting.await, (Err(Stopped), Err(Stopped)));
}

// [I9] a call that never returns keeps no cache, whatever its handler asked for
#[tokio::test]
async fn blocked_handler_with_resyncs_keeps_no_cache() {
    let server = FakeApiServer::new();
    load(&server, "a");
    let client = Client::new(kube::Client::new(server.service(), "default")).unwrap();
    let informer: Informer<ConfigMap> = client.informers().typed(InformerOptions::default()).unwrap();
    let (go_on, gate) = std::sync::mpsc::channel::<()>();
    let called = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let calling = Arc::clone(&called);
    let handler = on_event(move |_: &Event<ConfigMap>| {
        calling.store(true, std::sync::atomic::Ordering::SeqCst);
        let _ = gate.recv();
    });
    let options = HandlerOptions::default().resync_every(Duration::from_hours(1));
    informer.add_handler(BlockingHandler::new(handler), options);
    client.run_and_wait(&CancellationToken::new()).await.unwrap();
    until(|| called.load(std::sync::atomic::Ordering::SeqCst)).await;
    load(&server, "b");
    let key = "default/b".parse().unwrap();
    until(|| informer.get(&key).is_some()).await;
    let cached = Arc::downgrade(&informer.get(&key).unwrap());
    drop((client, informer));
    until(|| cached.strong_count() == 0).await;
    go_on.send(()).unwrap();
}
