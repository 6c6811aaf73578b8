//! Pods and services, each pod with the services of its namespace that select it, one handler: the scenario of the benches, by the engine
//! and by hand. The comparison with Istio in `benches/peers` runs it, too.
//!
//! Namespaces and apps are dealt out in turn, as in Istio's own benchmark: so each service selects twenty pods.
//!
//! By hand is what somebody would write over the same structs: hash maps, and an index of services by namespace; incremental, with
//! the same outputs and the same gate.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use krt::{KeyRef, Keyed, Krt, Labels, Selecting, SelectorRef, StaticCollection};

/// Texts are shared, as those of Go are.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pod {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) labels: Labels,
    pub(crate) ip: Arc<str>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Service {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) selector: Labels,
    /// What pods do not care about.
    pub(crate) revision: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Workload {
    namespace: Arc<str>,
    name: Arc<str>,
    ip: Arc<str>,
    services: Vec<Arc<str>>,
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

impl Size {
    /// The app of the object with this number.
    fn app(self, number: usize) -> Labels {
        Labels::from([("app".to_owned(), format!("app-{}", number % self.apps))])
    }

    pub(crate) fn pod(self, number: usize, ip: u64) -> Pod {
        let mut labels = self.app(number);
        if self.labels == PodLabels::Unique {
            labels.insert("statefulset.kubernetes.io/pod-name".to_owned(), format!("pod-{number}"));
        }
        Pod {
            namespace: format!("ns-{}", number % self.namespaces).into(),
            name: format!("pod-{number}").into(),
            labels,
            ip: format!("10.{}.{}.{}", ip >> 16 & 255, ip >> 8 & 255, ip & 255).into(),
        }
    }

    pub(crate) fn service(self, number: usize, revision: u64) -> Service {
        Service {
            namespace: format!("ns-{}", number % self.namespaces).into(),
            name: format!("service-{number}").into(),
            selector: self.app(number),
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

fn workload(pod: &Pod, services: Vec<Arc<str>>) -> Workload {
    Workload {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        ip: pod.ip.clone(),
        services,
    }
}

fn collection<T: Keyed + PartialEq>(krt: &Krt, name: &str, objects: &[Arc<T>]) -> StaticCollection<T> {
    let collection = krt.unsynced_collection(name);
    for object in objects {
        collection.update(Arc::clone(object));
    }
    collection.mark_synced();
    collection
}

/// The collections, whoever drives their engine.
pub(crate) struct Graph {
    pub(crate) pods: StaticCollection<Pod>,
    pub(crate) services: StaticCollection<Service>,
    seen: Arc<Seen>,
    _keep: Box<dyn Any>,
}

/// What the handler was told.
#[derive(Default)]
struct Seen {
    count: AtomicU64,
    /// The change that is waited for.
    target: AtomicU64,
    /// When that was told.
    reached: Mutex<Option<Instant>>,
}

impl Seen {
    fn one(&self) {
        if self.count.fetch_add(1, Ordering::Relaxed) + 1 == self.target.load(Ordering::Relaxed) {
            *self.reached.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
    }
}

impl Graph {
    pub(crate) fn new(krt: &Krt, pods: &[Arc<Pod>], services: &[Arc<Service>], fetch: Fetch) -> Self {
        let pods = collection(krt, "pods", pods);
        let services = collection(krt, "services", services);
        let by_namespace = services
            .index_by("namespace", |service| service.namespace.clone())
            .expect("the first");
        let workloads = krt.collection("workloads", &pods, move |cx, pod| {
            let query = by_namespace.at(&pod.namespace).selecting_non_empty(&pod.labels);
            let names: Vec<Arc<str>> = match fetch {
                Fetch::Services => cx.fetch(query).iter().map(|service| service.name.clone()).collect(),
                Fetch::Names => {
                    let names = cx.fetch_map(query, |service| service.name.clone());
                    names.iter().map(|name| (**name).clone()).collect()
                }
            };
            Some(workload(pod, names))
        });
        let seen = Arc::<Seen>::default();
        let told = Arc::clone(&seen);
        let handler = workloads.on_change(move |event| {
            black_box(event);
            told.one();
        });
        Self {
            pods,
            services,
            seen,
            _keep: Box::new((workloads, handler)),
        }
    }

    /// How many changes its handler was told.
    pub(crate) fn seen(&self) -> u64 {
        self.seen.count.load(Ordering::Relaxed)
    }

    /// So many more changes are waited for. None may be on its way.
    pub(crate) fn expect(&self, more: u64) {
        *self.seen.reached.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.seen.target.store(self.seen() + more, Ordering::Relaxed);
    }

    /// When the last of those was told.
    pub(crate) fn reached(&self) -> Option<Instant> {
        *self.seen.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Services by a label that they select: the label's value, and the services.
type ByLabel = HashMap<String, HashMap<String, Vec<Arc<Service>>>>;

/// By hand, for pods that change.
#[derive(Default)]
pub(crate) struct ByHand {
    pods: HashMap<String, Arc<Pod>>,
    /// Of each namespace: by one of the labels that they select.
    services: HashMap<Arc<str>, ByLabel>,
    workloads: HashMap<String, Arc<Workload>>,
    pub(crate) seen: u64,
}

impl ByHand {
    pub(crate) fn new(pods: &[Arc<Pod>], services: &[Arc<Service>]) -> Self {
        let mut own = Self::default();
        for service in services {
            // One that selects nothing belongs to no pod.
            let Some((label, value)) = service.selector.first_key_value() else {
                continue;
            };
            let of_namespace = own.services.entry(service.namespace.clone()).or_default();
            let of_label = of_namespace.entry(label.clone()).or_default();
            of_label.entry(value.clone()).or_default().push(Arc::clone(service));
        }
        for pod in pods {
            own.set(Arc::clone(pod));
        }
        own
    }

    pub(crate) fn set(&mut self, pod: Arc<Pod>) {
        let key = pod.key().to_string();
        let mut services = Vec::new();
        if let Some(of_namespace) = self.services.get(&pod.namespace) {
            for (label, value) in &pod.labels {
                let some = of_namespace.get(label).and_then(|values| values.get(value));
                let matching = some.into_iter().flatten().filter(|service| {
                    let mut selector = service.selector.iter();
                    selector.all(|(label, value)| pod.labels.get(label) == Some(value))
                });
                services.extend(matching.map(|service| service.name.clone()));
            }
        }
        services.sort_unstable();
        let new = Arc::new(workload(&pod, services));
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

    fn distinct(&mut self, count: usize, of: usize) -> Vec<usize> {
        let mut known = HashSet::new();
        let mut chosen = Vec::new();
        while chosen.len() < count {
            let number = self.random.usize(..of);
            if known.insert(number) {
                chosen.push(number);
            }
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
