//! What the in-memory server costs: start, creates, lists, and a watch event to many watches.
//!
//! `cargo bench -p fake-apiserver --bench server`. Managed fields are recorded, as by default, and every answer is read.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fake_apiserver::FakeApiServer;
use http_body_util::BodyExt as _;

#[path = "scenario/objects.rs"]
mod objects;

use objects::{CONFIG_MAPS, JSON, Make, PODS, Request, config_map, granted, list, pod, request, send, small_pod};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime with a clock")
}

fn start(criterion: &mut Criterion) {
    let runtime = runtime();
    criterion.bench_function("start to first answer", |bencher| {
        bencher.iter(|| {
            runtime.block_on(async {
                let fake = FakeApiServer::new();
                let namespaces = request("GET", "/api/v1/namespaces", JSON, Bytes::new());
                assert_eq!(send(&fake, namespaces).await.status(), 200);
            });
        });
    });
}

fn creates(criterion: &mut Criterion) {
    let runtime = runtime();
    let mut group = criterion.benchmark_group("creates");
    group.throughput(Throughput::Elements(1));
    let kinds: [(&str, &str, Make); 3] = [
        ("a small ConfigMap", CONFIG_MAPS, config_map),
        ("a small pod", PODS, small_pod),
        ("a pod of 4 KB", PODS, pod),
    ];
    for (name, uri, make) in kinds {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|count| {
                let fake = FakeApiServer::new();
                let count = usize::try_from(count).expect("fewer than fit in memory");
                let requests: Vec<Request> = (0..count).map(|n| request("POST", uri, JSON, make(n))).collect();
                runtime.block_on(async {
                    let begin = Instant::now();
                    for request in requests {
                        black_box(granted(&fake, request).await);
                    }
                    begin.elapsed()
                })
            });
        });
    }
    group.finish();
}

fn lists(criterion: &mut Criterion) {
    const OBJECTS: usize = 20_000;
    let runtime = runtime();
    let mut group = criterion.benchmark_group("lists");
    group.sample_size(20);
    let kinds: [(&str, &str, Make); 2] = [
        ("20,000 small ConfigMaps", CONFIG_MAPS, config_map),
        ("20,000 pods of 4 KB", PODS, pod),
    ];
    for (name, uri, make) in kinds {
        let fake = FakeApiServer::new();
        let bytes = runtime.block_on(async {
            for n in 0..OBJECTS {
                granted(&fake, request("POST", uri, JSON, make(n))).await;
            }
            list(&fake, uri, |_| {}).await
        });
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let read = list(&fake, uri, |part| {
                    black_box(part);
                });
                assert_eq!(runtime.block_on(read), bytes);
            });
        });
    }
    group.finish();
}

fn fan_out(criterion: &mut Criterion) {
    const WATCHES: u64 = 1_000;
    let runtime = runtime();
    let mut group = criterion.benchmark_group("watch");
    group.throughput(Throughput::Elements(WATCHES));
    group.measurement_time(Duration::from_secs(8));
    group.bench_function("one create to 1,000 watches", |bencher| {
        bencher.iter_custom(|count| {
            let fake = FakeApiServer::new();
            runtime.block_on(async {
                let uri = format!("/api/v1/configmaps?watch=1&resourceVersion={}", fake.resource_version());
                let mut watches = Vec::new();
                for _ in 0..WATCHES {
                    let watch = request("GET", &uri, JSON, Bytes::new());
                    watches.push(send(&fake, watch).await.into_body());
                }
                let begin = Instant::now();
                for n in 0..count {
                    let n = usize::try_from(n).expect("fewer than fit in memory");
                    granted(&fake, request("POST", CONFIG_MAPS, JSON, config_map(n))).await;
                    for watch in &mut watches {
                        black_box(watch.frame().await.expect("an event").expect("no fault rules"));
                    }
                }
                begin.elapsed()
            })
        });
    });
    group.finish();
}

criterion_group!(benches, start, creates, lists, fan_out);
criterion_main!(benches);
