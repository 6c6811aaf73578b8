//! One pod changes among many: pods and services, each pod with the services that select it, one handler.
//!
//! Beside it, in the same run, the loop that somebody would write by hand over the same structs: hash maps and an index of
//! services by namespace, incremental, with the same outputs and the same gate. Only the ratio of both says anything.
//!
//! `single` is an epoch for each update, `batch` one for a hundred of them, which is what happens under load.

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use krt::testing::Stepper;
use krt::{KeyRef, Keyed, Krt, Labels, Selecting, SelectorRef, StaticCollection};

#[derive(Debug, Clone, PartialEq)]
struct Pod {
    namespace: String,
    name: String,
    labels: Labels,
    ip: String,
}

#[derive(Debug, Clone, PartialEq)]
struct Service {
    namespace: String,
    name: String,
    selector: Labels,
}

#[derive(Debug, Clone, PartialEq)]
struct Workload {
    namespace: String,
    name: String,
    ip: String,
    services: Vec<String>,
}

impl Keyed for Pod {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::namespaced(&self.namespace, &self.name)
    }
}

impl Keyed for Service {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::namespaced(&self.namespace, &self.name)
    }
}

impl Selecting for Service {
    fn selector(&self) -> SelectorRef<'_> {
        SelectorRef::Equals(&self.selector)
    }
}

impl Keyed for Workload {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::namespaced(&self.namespace, &self.name)
    }
}

#[derive(Debug, Clone, Copy)]
struct Size {
    pods: usize,
    services: usize,
    apps: usize,
    namespaces: usize,
}

const SIZES: [Size; 2] = [
    Size {
        pods: 1_000,
        services: 50,
        apps: 25,
        namespaces: 2,
    },
    Size {
        pods: 10_000,
        services: 1_000,
        apps: 500,
        namespaces: 20,
    },
];

fn app(number: usize, size: Size) -> Labels {
    Labels::from([("app".to_owned(), format!("app-{}", number % size.apps))])
}

fn pod(number: usize, ip: u64, size: Size) -> Pod {
    Pod {
        namespace: format!("ns-{}", number % size.namespaces),
        name: format!("pod-{number}"),
        labels: app(number / size.namespaces, size),
        ip: format!("10.{}.{}.{}", ip >> 16 & 255, ip >> 8 & 255, ip & 255),
    }
}

fn service(number: usize, size: Size) -> Service {
    Service {
        namespace: format!("ns-{}", number % size.namespaces),
        name: format!("service-{number}"),
        selector: app(number / size.namespaces, size),
    }
}

fn workload(pod: &Pod, services: Vec<String>) -> Workload {
    Workload {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        ip: pod.ip.clone(),
        services,
    }
}

/// What both do with the changes of an epoch.
struct Seen(AtomicU64);

struct Engine {
    pods: StaticCollection<Pod>,
    stepper: Stepper,
    seen: Arc<Seen>,
    _keep: Box<dyn std::any::Any>,
}

impl Engine {
    fn new(size: Size) -> Self {
        let krt = Krt::builder("bench").build();
        let mut stepper = Stepper::new(&krt).expect("a new engine");
        let pods = krt.static_collection("pods", (0..size.pods).map(|number| pod(number, 0, size)));
        let services = krt.static_collection("services", (0..size.services).map(|number| service(number, size)));
        let by_namespace = services
            .index_by("namespace", |service| service.namespace.clone())
            .expect("the first");
        let workloads = krt.collection("workloads", &pods, move |cx, pod| {
            let services = cx.fetch(by_namespace.at(&pod.namespace).selecting_non_empty(&pod.labels));
            Some(workload(
                pod,
                services.iter().map(|service| service.name.clone()).collect(),
            ))
        });
        let seen = Arc::new(Seen(AtomicU64::new(0)));
        let count = Arc::clone(&seen);
        let handler = workloads.on_change(move |event| {
            black_box(event);
            count.0.fetch_add(1, Ordering::Relaxed);
        });
        stepper.settle();
        assert_eq!(workloads.len(), size.pods);
        Self {
            pods,
            stepper,
            seen,
            _keep: Box::new((services, workloads, handler)),
        }
    }

    fn apply(&mut self, updates: Vec<Pod>) {
        for pod in updates {
            self.pods.update(pod);
        }
        self.stepper.settle();
    }
}

/// The loop by hand.
#[derive(Default)]
struct ByHand {
    pods: HashMap<String, Arc<Pod>>,
    services: HashMap<String, Arc<Service>>,
    by_namespace: HashMap<String, Vec<String>>,
    workloads: HashMap<String, Arc<Workload>>,
    seen: u64,
}

impl ByHand {
    fn new(size: Size) -> Self {
        let mut own = Self::default();
        for number in 0..size.services {
            let service = service(number, size);
            let key = service.key().to_string();
            own.by_namespace
                .entry(service.namespace.clone())
                .or_default()
                .push(key.clone());
            own.services.insert(key, Arc::new(service));
        }
        own.apply((0..size.pods).map(|number| pod(number, 0, size)).collect());
        own
    }

    fn apply(&mut self, updates: Vec<Pod>) {
        for pod in updates {
            let key = pod.key().to_string();
            let pod = Arc::new(pod);
            let selects = |service: &Arc<Service>| {
                !service.selector.is_empty()
                    && service
                        .selector
                        .iter()
                        .all(|(key, value)| pod.labels.get(key) == Some(value))
            };
            let of_namespace = self.by_namespace.get(&pod.namespace).into_iter().flatten();
            let services = of_namespace
                .filter_map(|key| self.services.get(key))
                .filter(|service| selects(service));
            let new = Arc::new(workload(&pod, services.map(|service| service.name.clone()).collect()));
            self.pods.insert(key.clone(), pod);
            let old = self.workloads.get(&key);
            if old.is_none_or(|old| **old != *new) {
                black_box((old, &new));
                self.seen += 1;
                self.workloads.insert(key, new);
            }
        }
    }
}

/// Updates of pods drawn evenly, each with an address that it did not have before.
struct Updates {
    random: fastrand::Rng,
    ip: u64,
    size: Size,
}

impl Updates {
    fn new(size: Size) -> Self {
        Self {
            random: fastrand::Rng::with_seed(7),
            ip: 0,
            size,
        }
    }

    /// As many updates, of distinct pods.
    fn next(&mut self, count: usize) -> Vec<Pod> {
        let mut chosen = BTreeMap::new();
        while chosen.len() < count {
            self.ip += 1;
            chosen.insert(self.random.usize(..self.size.pods), self.ip);
        }
        chosen
            .into_iter()
            .map(|(number, ip)| pod(number, ip, self.size))
            .collect()
    }
}

fn updates(criterion: &mut Criterion) {
    for size in SIZES {
        for (kind, count) in [("single", 1), ("batch", 100)] {
            let mut group = criterion.benchmark_group(format!("update/{kind}"));
            group.throughput(Throughput::Elements(count as u64));
            let name = format!("{}x{}", size.pods, size.services);
            let (mut engine, mut updates) = (Engine::new(size), Updates::new(size));
            group.bench_function(BenchmarkId::new("krt", &name), |bencher| {
                bencher.iter_batched(
                    || updates.next(count),
                    |pods| engine.apply(pods),
                    criterion::BatchSize::SmallInput,
                );
            });
            assert!(engine.seen.0.load(Ordering::Relaxed) > size.pods as u64);
            let (mut by_hand, mut updates) = (ByHand::new(size), Updates::new(size));
            group.bench_function(BenchmarkId::new("by hand", &name), |bencher| {
                bencher.iter_batched(
                    || updates.next(count),
                    |pods| by_hand.apply(pods),
                    criterion::BatchSize::SmallInput,
                );
            });
            assert!(by_hand.seen > size.pods as u64);
            group.finish();
        }
    }
}

criterion_group!(benches, updates);
criterion_main!(benches);
