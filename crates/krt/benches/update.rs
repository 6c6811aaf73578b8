//! What one change costs: of a pod, and of a service that matches pods and changes nothing for them.
//!
//! Beside the engine, in the same run, the loop by hand over the same structs: only the ratio of both says anything. `single` is
//! an epoch for each update, `batch` one for a hundred of them, which is what happens under load. `initial` is everything
//! computed once; what that takes of memory is in the bench `memory`.

#[path = "scenario/pods.rs"]
mod pods;
#[path = "scenario/stepped.rs"]
mod stepped;

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

use pods::{ByHand, Fetch, PodLabels, Size, Updates};
use stepped::{Engine, LARGE, MIDDLE, SMALL};

/// An epoch for each, and one for a hundred.
const KINDS: [(&str, usize); 2] = [("single", 1), ("batch", 100)];

/// `MIDDLE` with a hundred times as many pods.
const MILLION: Size = Size {
    pods: 1_000_000,
    ..MIDDLE
};

fn pod_updates(criterion: &mut Criterion) {
    let unique = Size {
        labels: PodLabels::Unique,
        ..MIDDLE
    };
    for size in [SMALL, MIDDLE, unique, LARGE, MILLION] {
        let (pods, services) = (size.all_pods(), size.all_services());
        let mut engine = Engine::new(&pods, &services, Fetch::Services);
        let mut by_hand = ByHand::new(&pods, &services);
        drop((pods, services));
        // One for all kinds: another one would begin with what is there already.
        let mut updates = Updates::new(size);
        for (kind, count) in KINDS {
            let mut group = criterion.benchmark_group(format!("pod/{kind}"));
            group.throughput(Throughput::Elements(count as u64));
            group.bench_function(BenchmarkId::new("krt", size.name()), |bencher| {
                let before = engine.seen();
                let apply = |pods| engine.apply(pods);
                bencher.iter_batched(|| updates.pods(count), apply, BatchSize::SmallInput);
                assert!(engine.seen() > before, "the handler is told");
            });
            group.bench_function(BenchmarkId::new("by hand", size.name()), |bencher| {
                let before = by_hand.seen;
                let apply = |pods| by_hand.apply(pods);
                bencher.iter_batched(|| updates.pods(count), apply, BatchSize::SmallInput);
                assert!(by_hand.seen > before);
            });
            group.finish();
        }
    }
}

fn service_updates(criterion: &mut Criterion) {
    let size = MIDDLE;
    let (pods, services) = (size.all_pods(), size.all_services());
    for (name, fetch) in [("fetch", Fetch::Services), ("fetch_map", Fetch::Names)] {
        let mut engine = Engine::new(&pods, &services, fetch);
        for (kind, count) in KINDS {
            let mut group = criterion.benchmark_group(format!("service/{kind}"));
            group.throughput(Throughput::Elements(count as u64));
            let (mut updates, before) = (Updates::new(size), engine.seen());
            group.bench_function(BenchmarkId::new(name, size.name()), |bencher| {
                let apply = |services| engine.apply_services(services);
                bencher.iter_batched(|| updates.services(count), apply, BatchSize::SmallInput);
            });
            assert_eq!(engine.seen(), before, "no workload changes");
            group.finish();
        }
    }
}

fn initial(criterion: &mut Criterion) {
    let size = LARGE;
    let (pods, services) = (size.all_pods(), size.all_services());
    let mut group = criterion.benchmark_group("initial");
    group.sample_size(10).measurement_time(Duration::from_secs(5));
    group.bench_function(BenchmarkId::new("krt", size.name()), |bencher| {
        bencher.iter_with_large_drop(|| Engine::new(black_box(&pods), &services, Fetch::Services));
    });
    group.bench_function(BenchmarkId::new("by hand", size.name()), |bencher| {
        bencher.iter_with_large_drop(|| ByHand::new(black_box(&pods), &services));
    });
    group.finish();
}

criterion_group!(benches, pod_updates, service_updates, initial);
criterion_main!(benches);
