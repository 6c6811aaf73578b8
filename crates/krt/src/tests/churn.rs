//! What comes and goes leaves nothing behind.

use super::*;
use crate::Singleton;

/// How many objects come and go; `CHURN=1000000` is the whole of it.
fn count() -> usize {
    let given = std::env::var("CHURN").ok();
    given.map_or(100_000, |given| given.parse().unwrap())
}

/// A pod that shares neither its name nor all of its labels with any other.
fn pod(n: usize) -> Item {
    let name = format!("pod-{n}");
    Item::new(&format!("ns-{}/{name}", n % 7), 1).labels(&[("app", &format!("app-{}", n % 50)), ("pod-name", &name)])
}

/// A service of one application, and for some of one pod.
fn service(n: usize) -> Item {
    let name = format!("service-{n}");
    let own = format!("pod-{n}");
    let app = format!("app-{}", n % 50);
    let pairs = [("app", app.as_str()), ("pod-name", own.as_str())];
    Item::new(&format!("ns-{}/{name}", n % 7), 1)
        .labels(&[("service", &name)])
        .selecting(&pairs[..=n % 2])
}

/// Pods and services in both directions, by every kind of table there is.
struct Cluster {
    rig: Rig,
    pods: StaticCollection<Item>,
    services: StaticCollection<Item>,
    _keep: (Collection<Item>, Collection<Item>, Collection<Item>, Singleton<Item>),
    _handler: crate::Registration,
}

impl Cluster {
    fn new() -> Self {
        let mut rig = Rig::with_strong_hashes();
        let pods = rig.krt.static_collection::<Item>("pods", []);
        let services = rig.krt.static_collection::<Item>("services", []);
        let by_namespace = services.index_by("namespace", |service| service.ns.clone()).unwrap();
        let by_label = pods
            .index("labels", |pod: &Item| pod.labels.values().cloned().collect::<Vec<_>>())
            .unwrap();
        let fetched = services.clone();
        let workloads = rig.krt.collection("workloads", &pods, move |cx, pod| {
            let near = cx.fetch(by_namespace.at(&pod.ns).selecting(&pod.labels)).len();
            let all = cx.fetch(fetched.query().selecting_non_empty(&pod.labels)).len();
            Some(Item {
                value: i64::try_from(near + 100 * all).unwrap(),
                ..(**pod).clone()
            })
        });
        let fetched = pods.clone();
        let endpoints = rig.krt.many_collection("endpoints", &services, move |cx, service| {
            let wanted = service.selector.clone().unwrap_or_default();
            let pods = cx.fetch(fetched.query().labels(&wanted).namespace(&service.ns));
            let named = cx.exists(by_label.at(&service.name));
            let first = pods.first().map_or("none", |pod| pod.name.as_str());
            let shared = Item::new(&format!("app-of-{}", service.value), 1);
            let own = Item::new(&format!("{}-{first}", service.name), i64::from(named));
            [shared, own]
        });
        let joined = rig.krt.join("joined", [workloads.clone(), endpoints.clone()]);
        let fetched = joined.clone();
        let first = rig.krt.singleton("first", move |cx| {
            cx.fetch(fetched.query().name("pod-1"))
                .first()
                .map(|one| (**one).clone())
        });
        let handler = joined.on_change(|_| {});
        rig.stepper.settle();
        Self {
            rig,
            pods,
            services,
            _keep: (workloads, endpoints, (*joined).clone(), first),
            _handler: handler,
        }
    }

    /// The content that both engines have at the end.
    fn fill(&mut self) {
        self.pods.reset((0..20).map(pod));
        self.services.reset((0..10).map(service));
        self.rig.stepper.settle();
    }
}

// [K31] objects with names and labels of their own come and go: every table is as that of a fresh engine with the same content
#[test]
fn what_comes_and_goes_leaves_every_table_as_it_was() {
    let mut fresh = Cluster::new();
    fresh.fill();
    let mut old = Cluster::new();
    let mut random = fastrand::Rng::with_seed(31);
    let (count, mut pods, mut services) = (count(), Vec::new(), Vec::new());
    for n in 0..count {
        // One service for ten pods, about a hundred pods at a time.
        if n % 11 == 10 {
            old.services.update(service(n));
            services.push(n);
        } else {
            old.pods.update(pod(n));
            pods.push(n);
        }
        if pods.len() > 100 {
            old.pods.delete(pod(pods.swap_remove(random.usize(..pods.len()))).key());
        }
        if services.len() > 10 {
            old.services
                .delete(service(services.swap_remove(random.usize(..services.len()))).key());
        }
        if random.u32(..20) == 0 {
            old.rig.stepper.settle();
        }
    }
    old.rig.stepper.settle();
    old.rig.stepper.engine().check_invariants();
    old.fill();
    old.rig.stepper.engine().check_invariants();
    assert_eq!(old.rig.stepper.engine().tables(), fresh.rig.stepper.engine().tables());
}
