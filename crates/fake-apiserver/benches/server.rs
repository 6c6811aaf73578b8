//! What the in-memory server costs: start, creates, lists, and a watch event to many watches.
//!
//! `cargo bench -p fake-apiserver`. Requests go into the service as bytes, with no HTTP client in between.
#![expect(missing_docs, reason = "the macros of criterion make undocumented items")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fake_apiserver::{Body, FakeApiServer};
use http_body_util::{BodyExt as _, Full};
use tower::ServiceExt as _;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime with a clock")
}

async fn send(fake: &FakeApiServer, method: &str, uri: &str, body: String) -> http::Response<Body> {
    let request = http::Request::builder()
        .method(method)
        .uri(uri)
        .header("user-agent", "bench/1");
    let request = request.header("content-type", "application/json");
    let request = request
        .body(Full::new(Bytes::from(body)))
        .expect("a well-formed request");
    fake.service().oneshot(request).await.expect("no fault rules")
}

async fn create(fake: &FakeApiServer, index: u64) {
    let body = format!(
        r#"{{"metadata":{{"name":"c{index}","labels":{{"app":"bench"}}}},"data":{{"key":"value","n":"{index}"}}}}"#
    );
    let response = send(fake, "POST", "/api/v1/namespaces/default/configmaps", body).await;
    assert_eq!(response.status(), 201);
    black_box(response.into_body().collect().await.expect("a whole body"));
}

fn start(criterion: &mut Criterion) {
    let runtime = runtime();
    criterion.bench_function("start to first answer", |bencher| {
        bencher.iter(|| {
            runtime.block_on(async {
                let fake = FakeApiServer::new();
                let response = send(&fake, "GET", "/api/v1/namespaces", String::new()).await;
                assert_eq!(response.status(), 200);
            });
        });
    });
}

fn creates(criterion: &mut Criterion) {
    let runtime = runtime();
    let mut group = criterion.benchmark_group("writes");
    group.throughput(Throughput::Elements(1));
    group.bench_function("create a small ConfigMap", |bencher| {
        bencher.iter_custom(|count| {
            let fake = FakeApiServer::new();
            runtime.block_on(async {
                let begin = Instant::now();
                for index in 0..count {
                    create(&fake, index).await;
                }
                begin.elapsed()
            })
        });
    });
    group.finish();
}

fn lists(criterion: &mut Criterion) {
    let runtime = runtime();
    let fake = FakeApiServer::new();
    runtime.block_on(async {
        for index in 0..10_000 {
            create(&fake, index).await;
        }
    });
    let mut group = criterion.benchmark_group("reads");
    group.throughput(Throughput::Elements(10_000));
    group.bench_function("list 10,000 small ConfigMaps", |bencher| {
        bencher.iter(|| {
            runtime.block_on(async {
                let response = send(&fake, "GET", "/api/v1/configmaps", String::new()).await;
                black_box(response.into_body().collect().await.expect("a whole body"));
            });
        });
    });
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
                    watches.push(send(&fake, "GET", &uri, String::new()).await.into_body());
                }
                let begin = Instant::now();
                for index in 0..count {
                    create(&fake, index).await;
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
