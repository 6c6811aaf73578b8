//! What an informer costs per watch event and per listed object, beside a plain decode of the same bytes.
//!
//! The object is a pod of about 4.5 KB with two managers, of which `managedFields` is about 1.5 KB; the baseline decodes
//! the pod with `managedFields` cut out beforehand, which no client can do. Run with `cargo bench -p kube-client@0.1.0`.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use k8s_openapi::api::core::v1::Pod;
use kube_client::{Client, Event, HandlerOptions, Informer, InformerOptions, ListMode, on_batch};
use tokio::sync::{Notify, mpsc};

#[path = "../../../benches/data/pod.rs"]
mod pod;
#[path = "support/scripted.rs"]
mod scripted;

use scripted::Server;

/// Pods in a list.
const LISTED: u64 = 20_000;
/// Pods that watch events are about.
const WATCHED: u64 = 1_000;

/// A list body of so many pods, in chunks as a socket gives them.
fn list_body(pods: u64) -> Vec<Bytes> {
    Bytes::from(pod::list(pods))
        .chunks(64 << 10)
        .map(Bytes::copy_from_slice)
        .collect()
}

fn start(list: &Arc<Vec<Bytes>>) -> (Client, Informer<Pod>, mpsc::UnboundedSender<Vec<Bytes>>) {
    let (server, chunks) = Server::new(list);
    let client = Client::new(kube::Client::new(server, "default")).expect("inside a runtime");
    let options = InformerOptions::default().list_mode(ListMode::Paged);
    let informer = client.informers().typed::<Pod>(options).expect("a fresh client");
    (client, informer, chunks)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime")
}

fn baseline(criterion: &mut Criterion) {
    let whole = pod::typed(1, 1, true).to_string();
    let lean = pod::typed(1, 1, false).to_string();
    println!(
        "pod: {} B, of which managedFields {} B",
        whole.len(),
        whole.len() - lean.len()
    );
    criterion.bench_function("decode/from_slice without managedFields", |bencher| {
        bencher.iter(|| serde_json::from_slice::<Pod>(std::hint::black_box(lean.as_bytes())).expect("a pod"));
    });
    criterion.bench_function("decode/from_slice with managedFields", |bencher| {
        bencher.iter(|| serde_json::from_slice::<Pod>(std::hint::black_box(whole.as_bytes())).expect("a pod"));
    });
}

fn watch_events(criterion: &mut Criterion) {
    let runtime = runtime();
    let list = Arc::new(list_body(WATCHED));
    let (client, informer, chunks) = runtime.block_on(async { start(&list) });
    let (seen, all_seen) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
    let (counter, notify) = (Arc::clone(&seen), Arc::clone(&all_seen));
    let count = on_batch(move |events: &[Event<Pod>]| {
        counter.fetch_add(events.len() as u64, Ordering::SeqCst);
        notify.notify_one();
    });
    // No merging: every event is delivered.
    let registration = informer.add_handler(count, HandlerOptions::named("count").coalesce_above(usize::MAX));
    informer.start();
    runtime.block_on(registration.synced()).expect("synced");
    let mut version = 1_000_000;
    criterion.bench_function("informer/watch event", |bencher| {
        bencher.iter_custom(|events| {
            let mut elapsed = Duration::ZERO;
            let mut left = events;
            while left > 0 {
                let part = left.min(5_000);
                left -= part;
                let lines: Vec<Bytes> = (0..part)
                    .map(|_| {
                        version += 1;
                        Bytes::from(pod::modified(&pod::typed(version % WATCHED, version, true)))
                    })
                    .collect();
                let target = seen.load(Ordering::SeqCst) + part;
                let start = Instant::now();
                chunks.send(lines).expect("the watch is open");
                runtime.block_on(async {
                    while seen.load(Ordering::SeqCst) < target {
                        all_seen.notified().await;
                    }
                });
                elapsed += start.elapsed();
            }
            elapsed
        });
    });
    runtime.block_on(client.shutdown());
}

fn listed_pods(criterion: &mut Criterion) {
    let runtime = runtime();
    let list = Arc::new(list_body(LISTED));
    let mut group = criterion.benchmark_group("informer");
    group.sample_size(10);
    group.bench_function("listed pod", |bencher| {
        bencher.iter_custom(|pods| {
            // Whole lists only; the time is scaled to the number asked for.
            let rounds = pods.div_ceil(LISTED);
            let mut elapsed = Duration::ZERO;
            for _ in 0..rounds {
                let (client, informer, _chunks) = runtime.block_on(async { start(&list) });
                let start = Instant::now();
                informer.start();
                runtime.block_on(informer.synced()).expect("synced");
                elapsed += start.elapsed();
                assert_eq!(informer.len() as u64, LISTED);
                runtime.block_on(client.shutdown());
            }
            #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
            elapsed.mul_f64(pods as f64 / (rounds * LISTED) as f64)
        });
    });
    group.finish();
}

criterion_group!(benches, baseline, watch_events, listed_pods);
criterion_main!(benches);
