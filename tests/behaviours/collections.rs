//! Collections of `krt` over what an API server has: what a source shows, and what is derived from it. The engine is driven step by
//! step, so a case sees each epoch.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kclient::testing::{TestClient, TestWriter};
use kclient::{Client, Filter};
use krt::testing::Stepper;
use krt::{Collection, Event, InformerCollection, KeyRef, Keyed, Krt};
use kube::core::DynamicObject;
use kube_client::NamespaceFilter;
use serde_json::json;

use crate::client::{cluster, map, pod, typed, value};
use crate::delayed::{create, resource};
use crate::discovery::Widgets;
use crate::harness::{Namespace, Server, cases, eventually};

/// An engine that a case drives.
struct Rig {
    krt: Krt,
    stepper: Stepper,
}

impl Rig {
    fn new() -> Self {
        let krt = Krt::builder("case").build();
        let stepper = Stepper::new(&krt).unwrap();
        Self { krt, stepper }
    }

    /// Steps until this holds.
    async fn until(&mut self, what: &str, mut holds: impl FnMut() -> bool) {
        let stepper = &mut self.stepper;
        eventually(what, || {
            stepper.settle();
            std::future::ready(holds().then_some(()))
        })
        .await;
    }
}

/// The names of the objects, sorted.
fn names<K: krt::Named>(collection: &Collection<K>) -> Vec<String> {
    let objects = collection.list();
    let mut names: Vec<String> = objects.iter().map(|object| object.name().to_owned()).collect();
    names.sort_unstable();
    names
}

/// The batches that a handler was told, each event as `+a=1`, `a=1>2` or `-a=2`.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Vec<String>>>>);

impl Told {
    fn follow(&self, collection: &Collection<ConfigMap>) -> krt::Registration {
        let told = Arc::clone(&self.0);
        collection.on_batch(move |batch| {
            let line = |event: &Event<ConfigMap>| {
                let name = krt::Named::name(&**event.latest());
                match event {
                    Event::Added(new) => format!("+{name}={}", value(new)),
                    Event::Updated { old, new } => format!("{name}={}>{}", value(old), value(new)),
                    Event::Deleted(old) => format!("-{name}={}", value(old)),
                }
            };
            told.lock().unwrap().push(batch.events().map(line).collect());
        })
    }

    fn take(&self) -> Vec<Vec<String>> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

fn maps_of(rig: &Rig, cluster: &TestClient, namespace: &Namespace) -> InformerCollection<ConfigMap> {
    let filter = Filter::default().namespace(namespace.name());
    rig.krt.from_client(cluster, filter).unwrap()
}

/// The value of an object of the collection.
fn value_of(source: &Collection<ConfigMap>, namespace: &Namespace, name: &str) -> Option<String> {
    let found = source.get((namespace.name(), name));
    found.map(|map| value(&map).to_owned())
}

// [K30] a source follows its client; of what happens between two epochs the net change is told, and another object of the same
// name is deleted and added
async fn source_follows_its_client(server: Server) {
    let namespace = server.namespace().await;
    let (mut rig, cluster) = (Rig::new(), cluster(&server));
    let maps = TestWriter::<ConfigMap>::new(&cluster).in_namespace(namespace.name());
    maps.create(&map(&namespace, "a", "1")).await;
    let source = maps_of(&rig, &cluster, &namespace);
    let told = Told::default();
    let _handler = told.follow(&source);
    cluster.sync().await;
    rig.until("the sync", || source.has_synced()).await;
    // A real server puts the certificates of its own into each namespace.
    let ours = |told: &Told| {
        let mut batches = told.take();
        for batch in &mut batches {
            batch.retain(|line| !line.contains("kube-root-ca.crt"));
        }
        batches.retain(|batch| !batch.is_empty());
        batches
    };
    assert_eq!(ours(&told), [["+a=1"]]);
    maps.edit("a", |map| {
        map.data = Some(BTreeMap::from([("v".to_owned(), "2".to_owned())]));
    })
    .await;
    rig.until("the update", || {
        value_of(&source, &namespace, "a").as_deref() == Some("2")
    })
    .await;
    assert_eq!(ours(&told), [["a=1>2"]]);

    // The cache has seen everything before the engine takes it.
    maps.delete("a").await;
    let again = maps.create(&map(&namespace, "a", "3")).await;
    let passing = maps.create(&map(&namespace, "b", "1")).await;
    maps.delete("b").await;
    let last = maps.create(&map(&namespace, "c", "1")).await;
    let client = Client::<ConfigMap>::filtered(&cluster, Filter::default().namespace(namespace.name())).unwrap();
    crate::views::seen(&client, &last).await;
    eventually("the handler", || async {
        let stats = cluster.stats();
        let mut handlers = stats.informers.iter().flat_map(|informer| &informer.handlers);
        let idle = handlers.all(|handler| handler.queue_depth == 0 && handler.running_for.is_none());
        idle.then_some(())
    })
    .await;
    rig.until("what came last", || value_of(&source, &namespace, "c").is_some())
        .await;
    assert_eq!(ours(&told), [["-a=2", "+a=3", "+c=1"]]);
    let uid = source.get((namespace.name(), "a")).unwrap().metadata.uid.clone();
    assert_eq!(uid, again.metadata.uid);
    assert!(uid.is_some() && uid != passing.metadata.uid);
    cluster.end().await;
}

/// The addresses of a service.
#[derive(Debug, Clone, PartialEq)]
struct Endpoints {
    service: String,
    addresses: Vec<String>,
}

impl Keyed for Endpoints {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::Plain(&self.service)
    }
}

// [K7] endpoints of real services and pods: labels move on either side
async fn endpoints_follow_services_and_pods(server: Server) {
    let namespace = server.namespace().await;
    let (mut rig, cluster) = (Rig::new(), cluster(&server));
    let filter = || Filter::default().namespace(namespace.name());
    let services = rig
        .krt
        .informer(&Client::<Service>::filtered(&cluster, filter()).unwrap());
    let pods = rig
        .krt
        .from_client::<Pod>(&cluster, Filter::default().namespace(namespace.name()))
        .unwrap();
    let input = pods.clone();
    let endpoints = rig.krt.collection("endpoints", &services, move |cx, service| {
        let selector = service.spec.as_ref()?.selector.as_ref()?;
        let pods = cx.fetch(
            input
                .query()
                .namespace(krt::Namespaced::namespace(&**service))
                .labels(selector),
        );
        Some(Endpoints {
            service: krt::Named::name(&**service).to_owned(),
            addresses: pods.iter().map(|pod| krt::Named::name(&**pod).to_owned()).collect(),
        })
    });
    let selected = rig.krt.collection("selected", &pods, {
        let services = services.clone();
        move |cx, pod| {
            let services = cx.fetch(services.query().selecting_non_empty(krt::Labeled::labels(&**pod)));
            Some(Endpoints {
                service: krt::Named::name(&**pod).to_owned(),
                addresses: services
                    .iter()
                    .map(|service| krt::Named::name(&**service).to_owned())
                    .collect(),
            })
        }
    });
    let of = |collection: &Collection<Endpoints>, key: &str| {
        let found = collection.get(key);
        found.map(|found| found.addresses.join(" "))
    };
    cluster.sync().await;
    rig.until("the sync", || selected.has_synced() && endpoints.has_synced())
        .await;

    let writer = TestWriter::<Service>::new(&cluster).in_namespace(namespace.name());
    let service = |name: &str, app: &str| -> Service {
        typed(json!({
            "metadata": {"name": name, "namespace": namespace.name()},
            "spec": {"selector": {"app": app}, "ports": [{"port": 80}]},
        }))
    };
    writer.create(&service("web", "web")).await;
    let pods = TestWriter::<Pod>::new(&cluster).in_namespace(namespace.name());
    for (name, app) in [("one", "web"), ("two", "web"), ("other", "db")] {
        let mut pod = pod(&namespace, name);
        pod.metadata.labels = Some([("app".to_owned(), app.to_owned())].into());
        pods.create(&pod).await;
    }
    rig.until("two pods", || of(&endpoints, "web").as_deref() == Some("one two"))
        .await;
    assert_eq!(of(&selected, "one").as_deref(), Some("web"));
    let label = |app: &str| json!({"metadata": {"labels": {"app": app}}});
    pods.merge("two", label("db")).await;
    rig.until("a pod less", || of(&endpoints, "web").as_deref() == Some("one"))
        .await;
    rig.until("no service", || of(&selected, "two").as_deref() == Some(""))
        .await;
    writer.merge("web", json!({"spec": {"selector": {"app": "db"}}})).await;
    rig.until("other pods", || of(&endpoints, "web").as_deref() == Some("other two"))
        .await;
    rig.until("selected", || of(&selected, "two").as_deref() == Some("web"))
        .await;
    writer.merge("web", json!({"spec": {"selector": null}})).await;
    rig.until("no selector", || of(&endpoints, "web").is_none()).await;
    rig.until("selected by none", || of(&selected, "other").as_deref() == Some(""))
        .await;
    cluster.end().await;
}

// [K33] a filter that moves on: what it shows and hides of several namespaces is one epoch
async fn filter_that_moves_on_is_one_step(server: Server) {
    let (one, two) = (server.namespace().await, server.namespace().await);
    let filter = Arc::new(NamespaceFilter::new([one.name()]));
    let options = kube_client::Client::builder().user_agent("collections-case");
    let options = options.object_filter(filter.clone());
    let cluster = TestClient::new(options.build_with(server.client()).unwrap());
    let users = crate::client::cluster(&server);
    let writer = TestWriter::<Pod>::new(&users);
    for n in 0..10 {
        for namespace in [&one, &two] {
            writer
                .create(&pod(
                    namespace,
                    &format!("{}-{n}", if namespace.name() == one.name() { "one" } else { "two" }),
                ))
                .await;
        }
    }
    let mut rig = Rig::new();
    let source = rig.krt.from_client::<Pod>(&cluster, Filter::default()).unwrap();
    let of = |prefix: &str| names(&source).iter().filter(|name| name.starts_with(prefix)).count();
    let half_done = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&half_done);
    let _handler = source.on_batch(move |batch| log.lock().unwrap().push(batch.len()));
    cluster.sync().await;
    rig.until("the sync", || source.has_synced()).await;
    assert_eq!((of("one"), of("two")), (10, 0));
    filter.set([two.name()]);
    let mut seen = Vec::new();
    rig.until("the other namespace", || {
        seen.push((of("one"), of("two")));
        of("two") == 10
    })
    .await;
    assert!(seen.iter().all(|seen| [(10, 0), (0, 10)].contains(seen)), "{seen:?}");
    assert_eq!(
        *half_done.lock().unwrap(),
        [10, 20],
        "one batch for the sync, one for the step"
    );
    cluster.end().await;
}

// [K25] a kind that is absent at first: its source counts as synced, and fills when the kind comes; and empties when it goes
async fn source_of_a_kind_that_comes_and_goes(server: Server) {
    let (namespace, widgets) = (server.namespace().await, Widgets::new(&server));
    let (mut rig, cluster) = (Rig::new(), crate::delayed::cluster(&server));
    let client = Client::<DynamicObject>::delayed_of(&cluster, &resource(&widgets, "v1"), Filter::default()).unwrap();
    let source = rig.krt.named_informer("widgets", &client);
    let derived = rig.krt.collection("names", &source, |_, widget| {
        Some(krt::Text(krt::Named::name(&**widget).to_owned()))
    });
    drop(client);
    cluster.sync().await;
    rig.until("the sync", || derived.has_synced()).await;
    assert!(source.is_empty() && derived.is_empty());
    for _ in 0..2 {
        widgets.define().await;
        for name in ["a", "b"] {
            create(&server, &widgets, &namespace, name).await;
        }
        rig.until("the widgets", || names(&source) == ["a", "b"] && derived.len() == 2)
            .await;
        widgets.undefine().await;
        rig.until("no widgets", || source.is_empty() && derived.is_empty())
            .await;
    }
    drop((source, derived));
    rig.stepper.settle();
    assert_eq!(rig.stepper.collections(), 0);
    let stats = cluster.stats();
    let informer = stats.informer(&format!("widgets.{}/v1", widgets.group)).unwrap();
    assert!(informer.handlers.is_empty(), "{informer:?}");
    cluster.end().await;
}

cases!(
    source_follows_its_client,
    endpoints_follow_services_and_pods,
    filter_that_moves_on_is_one_step,
    source_of_a_kind_that_comes_and_goes,
);
