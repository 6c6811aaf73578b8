//! The cost of the work queue per item, on 100,000 string keys: run with `cargo bench -p kclient --bench queue`.
//!
//! Durations are not recorded ([`Timings::Off`]), as a client-go queue without a metrics provider does not record them; one
//! case shows what they cost. Keys are `Arc<str>`, which share their text as Go's strings do.
//!
//! As a test build this one has tokio's pausable clock, which is slower than a program's: what reads the clock (durations,
//! delays) is measured soundly by `benches/peers/run queue` only.

#![forbid(unsafe_code)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use kclient::queue::{AddOptions, ExponentialFailure, RateLimiter, Timings, WorkQueue};

const KEYS: usize = 100_000;

type Key = Arc<str>;

fn keys() -> Vec<Key> {
    (0..KEYS)
        .map(|number| format!("namespace-{}/object-{number}", number % 100).into())
        .collect()
}

fn queue(timings: Timings) -> WorkQueue<Key> {
    WorkQueue::builder("bench").timings(timings).build()
}

/// The clock of a whole round, so that setting up and dropping are not measured.
fn rounds(iterations: u64, mut round: impl FnMut() -> Duration) -> Duration {
    (0..iterations).map(|_| round()).sum()
}

fn one_by_one(c: &mut Criterion, keys: &[Key]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let mut group = c.benchmark_group("queue");
    group.throughput(Throughput::Elements(KEYS as u64)).sample_size(20);
    for (name, timings) in [
        ("add+get+done", Timings::Off),
        ("add+get+done, durations on", Timings::On),
    ] {
        let queue = queue(timings);
        group.bench_function(name, |b| {
            b.iter(|| {
                runtime.block_on(tokio::task::unconstrained(async {
                    for key in keys {
                        queue.add(key);
                        queue.get().await.expect("an item").done();
                    }
                }));
            });
        });
    }
    let priorities = queue(Timings::Off);
    group.bench_function("add+get+done, 1,000 waiting at 3 priorities", |b| {
        for (number, key) in (0_i32..).zip(&keys[..1000]) {
            priorities.add_with(key, AddOptions::priority(number % 3));
        }
        b.iter(|| {
            runtime.block_on(tokio::task::unconstrained(async {
                for (number, key) in (0_i32..).zip(keys) {
                    priorities.add_with(key, AddOptions::priority(number % 3));
                    priorities.get().await.expect("an item").done();
                }
            }));
        });
    });
    let draining = queue(Timings::Off);
    group.bench_function("1,000 adds then drain", |b| {
        b.iter(|| {
            for chunk in keys.chunks(1000) {
                for key in chunk {
                    draining.add(key);
                }
                while let Some(item) = draining.try_get() {
                    item.done();
                }
            }
        });
    });
    let working = queue(Timings::Off);
    group.bench_function("1,000 adds then drain with next", |b| {
        b.iter(|| {
            runtime.block_on(tokio::task::unconstrained(async {
                for chunk in keys.chunks(1000) {
                    for key in chunk {
                        working.add(key);
                    }
                    let mut item = working.get().await.expect("an item");
                    for _ in 1..chunk.len() {
                        item = item.next().await.expect("an item");
                    }
                }
            }));
        });
    });
    let full = queue(Timings::Off);
    for key in keys {
        full.add(key);
    }
    group.bench_function("add of a waiting key, same key", |b| {
        b.iter(|| {
            for _ in 0..KEYS {
                full.add(black_box(&keys[0]));
            }
        });
    });
    group.bench_function("add of a waiting key, 100,000 keys", |b| {
        b.iter(|| {
            for key in keys {
                full.add(key);
            }
        });
    });
    group.finish();
}

fn contended(c: &mut Criterion, keys: &[Key]) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("a runtime");
    let keys: Arc<[Key]> = keys.into();
    let mut group = c.benchmark_group("queue");
    group.throughput(Throughput::Elements(KEYS as u64)).sample_size(20);
    group.bench_function("4 producers + 4 consumers", |b| {
        b.iter_custom(|iterations| {
            rounds(iterations, || {
                let queue = queue(Timings::Off);
                let start = Instant::now();
                runtime.block_on(async {
                    let consumers: Vec<_> = (0..4)
                        .map(|_| {
                            let queue = queue.clone();
                            tokio::spawn(async move { while queue.get().await.is_some() {} })
                        })
                        .collect();
                    let producers: Vec<_> = (0..4)
                        .map(|producer| {
                            let (queue, keys) = (queue.clone(), Arc::clone(&keys));
                            tokio::spawn(async move {
                                for key in keys.iter().skip(producer).step_by(4) {
                                    queue.add(key);
                                }
                            })
                        })
                        .collect();
                    for producer in producers {
                        producer.await.expect("no panic");
                    }
                    queue.shut_down();
                    for consumer in consumers {
                        consumer.await.expect("no panic");
                    }
                });
                start.elapsed()
            })
        });
    });
    group.finish();
}

fn delayed(c: &mut Criterion, keys: &[Key]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let mut group = c.benchmark_group("queue");
    group.throughput(Throughput::Elements(KEYS as u64)).sample_size(20);
    group.bench_function("add_after, end to end", |b| {
        b.iter_custom(|iterations| {
            rounds(iterations, || {
                let queue = queue(Timings::Off);
                runtime.block_on(tokio::task::unconstrained(async {
                    let start = Instant::now();
                    for (number, key) in (0_u64..).zip(keys) {
                        queue.add_after(key, Duration::from_micros(1 + number * 7919 % 1000));
                    }
                    for _ in keys {
                        queue.get().await.expect("an item").done();
                    }
                    start.elapsed()
                }))
            })
        });
    });
    group.bench_function("limiter when+forget", |b| {
        let limiter = ExponentialFailure::default();
        b.iter(|| {
            for key in keys {
                black_box(limiter.when(key));
                limiter.forget(key);
            }
        });
    });
    group.bench_function("drop of 100,000 waiting keys", |b| {
        b.iter_batched(
            || {
                let queue = queue(Timings::Off);
                for key in keys {
                    queue.add(key);
                }
                queue
            },
            drop,
            BatchSize::LargeInput,
        );
    });
    group.finish();

    let shown = queue(Timings::Off);
    for key in keys {
        shown.add(key);
        shown.add_after(&format!("later-{key}").into(), Duration::from_hours(1));
    }
    c.bench_function("queue/snapshot of 100 and 100 among 200,000", |b| {
        b.iter(|| black_box(shown.snapshot(100)));
    });
}

fn benches(c: &mut Criterion) {
    let keys = keys();
    one_by_one(c, &keys);
    contended(c, &keys);
    delayed(c, &keys);
}

criterion_group!(queue_benches, benches);
criterion_main!(queue_benches);
