//! Pods and services, each pod with the services of its namespace that select it, one handler: the scenario of the benches, by the engine
//! and by hand.
//!
//! By hand is what somebody would write over the same structs: hash maps, and an index of services by namespace; incremental, with
//! the same outputs and the same gate.

use std::any::Any;
use std::collections::{BTreeSet, HashMap};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use krt::testing::Stepper;
use krt::{KeyRef, Keyed, Krt, Labels, Selecting, SelectorRef, StaticCollection};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) labels: Labels,
    pub(crate) ip: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Service {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) selector: Labels,
    /// What pods do not care about.
    pub(crate) revision: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Workload {
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

/// Whether pods have a label that no other pod has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PodLabels {
    Shared,
    Unique,
}

/// What of a service a pod asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fetch {
    Services,
    Names,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) pods: usize,
    pub(crate) services: usize,
    pub(crate) apps: usize,
    pub(crate) namespaces: usize,
    pub(crate) labels: PodLabels,
}

const fn size(pods: usize, services: usize, apps: usize, namespaces: usize) -> Size {
    Size {
        pods,
        services,
        apps,
        namespaces,
        labels: PodLabels::Shared,
    }
}

pub(crate) const SMALL: Size = size(1_000, 50, 25, 2);
pub(crate) const MIDDLE: Size = size(10_000, 1_000, 500, 20);
pub(crate) const LARGE: Size = size(100_000, 10_000, 5_000, 200);

impl Size {
    pub(crate) fn name(self) -> String {
        let labels = if self.labels == PodLabels::Unique {
            ", unique labels"
        } else {
            ""
        };
        format!("{}x{}{labels}", self.pods, self.services)
    }

    fn app(self, number: usize) -> Labels {
        Labels::from([("app".to_owned(), format!("app-{}", number % self.apps))])
    }

    pub(crate) fn pod(self, number: usize, ip: u64) -> Pod {
        let mut labels = self.app(number / self.namespaces);
        if self.labels == PodLabels::Unique {
            labels.insert("statefulset.kubernetes.io/pod-name".to_owned(), format!("pod-{number}"));
        }
        Pod {
            namespace: format!("ns-{}", number % self.namespaces),
            name: format!("pod-{number}"),
            labels,
            ip: format!("10.{}.{}.{}", ip >> 16 & 255, ip >> 8 & 255, ip & 255),
        }
    }

    pub(crate) fn service(self, number: usize, revision: u64) -> Service {
        Service {
            namespace: format!("ns-{}", number % self.namespaces),
            name: format!("service-{number}"),
            selector: self.app(number / self.namespaces),
            revision,
        }
    }

    pub(crate) fn all_pods(self) -> Vec<Arc<Pod>> {
        (0..self.pods).map(|number| Arc::new(self.pod(number, 0))).collect()
    }

    pub(crate) fn all_services(self) -> Vec<Arc<Service>> {
        (0..self.services)
            .map(|number| Arc::new(self.service(number, 0)))
            .collect()
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

/// By the engine.
pub(crate) struct Engine {
    pub(crate) pods: StaticCollection<Pod>,
    pub(crate) services: StaticCollection<Service>,
    stepper: Stepper,
    seen: Arc<AtomicU64>,
    _keep: Box<dyn Any>,
}

impl Engine {
    /// Everything is computed when this returns.
    pub(crate) fn new(pods: &[Arc<Pod>], services: &[Arc<Service>], fetch: Fetch) -> Self {
        let krt = Krt::builder("bench").build();
        let mut stepper = Stepper::new(&krt).expect("a new engine");
        let pods_in = krt.unsynced_collection::<Pod>("pods");
        let services_in = krt.unsynced_collection::<Service>("services");
        for pod in pods {
            pods_in.update(Arc::clone(pod));
        }
        for service in services {
            services_in.update(Arc::clone(service));
        }
        pods_in.mark_synced();
        services_in.mark_synced();
        let by_namespace = services_in
            .index_by("namespace", |service| service.namespace.clone())
            .expect("the first");
        let workloads = krt.collection("workloads", &pods_in, move |cx, pod| {
            let query = by_namespace.at(&pod.namespace).selecting_non_empty(&pod.labels);
            let names: Vec<String> = match fetch {
                Fetch::Services => cx.fetch(query).iter().map(|service| service.name.clone()).collect(),
                Fetch::Names => {
                    let names = cx.fetch_map(query, |service| service.name.clone());
                    names.iter().map(|name| (**name).clone()).collect()
                }
            };
            Some(workload(pod, names))
        });
        let seen = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&seen);
        let handler = workloads.on_change(move |event| {
            black_box(event);
            count.fetch_add(1, Ordering::Relaxed);
        });
        stepper.settle();
        assert_eq!(workloads.len(), pods.len());
        Self {
            pods: pods_in,
            services: services_in,
            stepper,
            seen,
            _keep: Box::new((workloads, handler)),
        }
    }

    /// How many changes its handler was told.
    pub(crate) fn seen(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }

    pub(crate) fn apply(&mut self, updates: Vec<Pod>) {
        for pod in updates {
            self.pods.update(pod);
        }
        self.stepper.settle();
    }

    pub(crate) fn apply_services(&mut self, updates: Vec<Service>) {
        for service in updates {
            self.services.update(service);
        }
        self.stepper.settle();
    }
}

/// By hand.
#[derive(Default)]
pub(crate) struct ByHand {
    pods: HashMap<String, Arc<Pod>>,
    services: HashMap<String, Arc<Service>>,
    by_namespace: HashMap<String, Vec<String>>,
    workloads: HashMap<String, Arc<Workload>>,
    pub(crate) seen: u64,
}

impl ByHand {
    pub(crate) fn new(pods: &[Arc<Pod>], services: &[Arc<Service>]) -> Self {
        let mut own = Self::default();
        for service in services {
            let key = service.key().to_string();
            own.by_namespace
                .entry(service.namespace.clone())
                .or_default()
                .push(key.clone());
            own.services.insert(key, Arc::clone(service));
        }
        for pod in pods {
            own.set(Arc::clone(pod));
        }
        own
    }

    pub(crate) fn apply(&mut self, updates: Vec<Pod>) {
        for pod in updates {
            self.set(Arc::new(pod));
        }
    }

    fn set(&mut self, pod: Arc<Pod>) {
        let key = pod.key().to_string();
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

/// Updates of objects drawn evenly, each with something that it did not have before.
pub(crate) struct Updates {
    random: fastrand::Rng,
    count: u64,
    size: Size,
}

impl Updates {
    pub(crate) fn new(size: Size) -> Self {
        Self {
            random: fastrand::Rng::with_seed(7),
            count: 0,
            size,
        }
    }

    fn distinct(&mut self, count: usize, of: usize) -> BTreeSet<usize> {
        let mut chosen = BTreeSet::new();
        while chosen.len() < count {
            chosen.insert(self.random.usize(..of));
        }
        chosen
    }

    /// As many pods, each with another address.
    pub(crate) fn pods(&mut self, count: usize) -> Vec<Pod> {
        let chosen = self.distinct(count, self.size.pods).into_iter();
        let pods = chosen.map(|number| {
            self.count += 1;
            self.size.pod(number, self.count)
        });
        pods.collect()
    }

    /// As many services, each with another revision.
    pub(crate) fn services(&mut self, count: usize) -> Vec<Service> {
        let chosen = self.distinct(count, self.size.services).into_iter();
        let services = chosen.map(|number| {
            self.count += 1;
            self.size.service(number, self.count)
        });
        services.collect()
    }
}
