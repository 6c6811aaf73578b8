//! The example `multi_kind`: its whole show on the in-memory server, each version of the configuration as it is printed; the
//! same controller on both servers; and what it makes of the objects, without any server.

#[path = "../../examples/multi_kind/policy.rs"]
mod policy;
#[path = "../../examples/multi_kind/snapshot.rs"]
mod snapshot;
#[path = "../../examples/multi_kind/watcher.rs"]
mod watcher;
#[path = "../../examples/multi_kind/world.rs"]
mod world;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kclient::testing::{EventTracker, TestClient, TestWriter};
use kclient::{DiscoveryNamespaces, ObjectKey, PostParams, Writer};
use kube_client::CrdOptions;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::client::typed;
use crate::harness::{Server, cases, eventually, limited, unique};
use policy::RoutePolicy;
use snapshot::{Config, ConfigKey, Kind, Snapshot};
use watcher::{DEBOUNCE, HIDDEN, Report, Watcher};

/// A watcher that runs.
struct Running {
    watcher: Arc<Watcher>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), kclient::Stopped>>,
}

impl Running {
    /// Starts the client and the watcher.
    async fn start(cluster: &TestClient, report: Report) -> Self {
        let watcher = Arc::new(Watcher::new(cluster, report).unwrap());
        assert_eq!(cluster.stats().tasks, 0, "construction starts nothing");
        cluster.sync().await;
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let (watcher, stop) = (Arc::clone(&watcher), stop.clone());
            async move { watcher.run(&stop).await }
        });
        limited("the first version", watcher.queue().synced()).await.unwrap();
        Self { watcher, stop, task }
    }

    /// Stops the watcher; returns how often it looked.
    async fn end(self) -> u64 {
        self.stop.cancel();
        limited("the watcher's end", self.task).await.unwrap().unwrap();
        self.watcher.queue().metrics().succeeded_total
    }
}

// [V2] [V6] [D3] [D5] everything that the example shows, from its start to its end
#[tokio::test(start_paused = true)]
async fn the_show_publishes_what_changes_and_nothing_else() {
    let discovery = DiscoveryNamespaces::new([world::in_mesh()]).unwrap();
    let options = watcher::options(&discovery, CrdOptions::default());
    let cluster = TestClient::new(world::create(options).unwrap());
    let tracker = EventTracker::new();
    let running = Running::start(&cluster, {
        let tracker = tracker.clone();
        Arc::new(move |snapshot: Snapshot| tracker.record(snapshot.to_string()))
    })
    .await;
    let changed = world::keep_changing(&cluster, &running.stop);
    // The example ends after ten seconds.
    tokio::time::timeout(Duration::from_secs(9), changed)
        .await
        .unwrap()
        .unwrap();
    tokio::time::sleep(2 * DEBOUNCE).await;

    let db = "    shop/db [80] -> nobody\n";
    let trial = "    lab/trial [80] -> 10.1.9.1\n";
    let second = "    shop/web [80] -> 10.1.0.2 (node-a, v2)";
    tracker
        .wait_ordered([
            format!(
                "version 1: Service shop/db, Service shop/web, EndpointSlice shop/web, Pod shop/web-1\n{db}    \
                 shop/web [80] -> 10.1.0.1 (node-a, v1)\n"
            ),
            format!(
                "version 2: EndpointSlice shop/web, Pod shop/web-2\n{db}    shop/web [80] -> 10.1.0.1 (node-a, v1) \
                 10.1.0.2 (node-a, v2)\n"
            ),
            format!("version 3: EndpointSlice shop/web\n{db}{second}\n"),
            format!("version 4: RoutePolicy shop/patience\n{db}{second}; patience: 5 s, 0 retries\n"),
            format!(
                "version 5: Service lab/trial, EndpointSlice lab/trial\n{trial}{db}{second}; patience: 5 s, 0 retries\n"
            ),
            format!("version 6: Service shop/db\n{trial}{second}; patience: 5 s, 0 retries\n"),
            format!("version 7: RoutePolicy shop/patience\n{trial}{second}; patience: 9 s, 0 retries\n"),
            format!("version 8: RoutePolicy shop/patience\n{trial}{second}\n"),
            format!("version 9: Service lab/trial, EndpointSlice lab/trial\n{second}\n"),
        ])
        .await;
    assert_eq!(running.end().await, 10, "one look for each step, and one at the start");
    cluster.end().await;
}

// Kinds that are ignored are not there, whatever the cluster serves: no policy is ever seen.
#[tokio::test(start_paused = true)]
async fn ignored_kinds_are_left_out() {
    let discovery = DiscoveryNamespaces::new([world::in_mesh()]).unwrap();
    let options = watcher::options(&discovery, CrdOptions::default().ignore("*.example"));
    let cluster = TestClient::new(world::create(options).unwrap());
    let (last, versions) = watch::channel(None);
    let running = Running::start(
        &cluster,
        Arc::new(move |snapshot| drop(last.send_replace(Some(snapshot)))),
    )
    .await;
    world::keep_changing(&cluster, &running.stop).await.unwrap();
    tokio::time::sleep(2 * DEBOUNCE).await;
    let last = versions.borrow().clone().unwrap();
    assert_eq!(last.version, 6, "three versions less, those of the policy");
    let by_policy = |snapshot: &Snapshot| snapshot.changed.iter().any(|key| key.kind == Kind::RoutePolicy);
    assert!(!by_policy(&last));
    running.end().await;
    cluster.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_watcher_can_be_stopped_before_it_has_begun() {
    let discovery = DiscoveryNamespaces::new([]).unwrap();
    let cluster = TestClient::new(world::create(watcher::options(&discovery, CrdOptions::default())).unwrap());
    let watcher = Watcher::new(&cluster, Arc::new(|_| ())).unwrap();
    let stop = CancellationToken::new();
    stop.cancel();
    assert!(watcher.run(&stop).await.is_err());
    assert!(!watcher.queue().has_synced());
}

fn mesh(name: &str) -> LabelSelector {
    LabelSelector {
        match_labels: Some([(world::MESH.to_owned(), name.to_owned())].into()),
        ..LabelSelector::default()
    }
}

// [V2] [D2] [D5] the controller on a server: namespaces by labels and by what is selected, services by labels, pods by their
// phase, a kind that comes and goes
async fn the_watcher_follows_four_kinds(server: Server) {
    let (one, two) = (server.namespace().await, server.namespace().await);
    let (ours, theirs) = (one.name(), two.name());
    let users = TestClient::new(kube_client::Client::new(server.client()).unwrap());
    let namespaces = TestWriter::<Namespace>::new(&users);
    let services = TestWriter::<Service>::new(&users);
    let pods = TestWriter::<Pod>::new(&users).in_namespace(ours);
    // No other case has meshes of these names.
    let (red, blue) = (unique(), unique());
    for (namespace, mesh) in [(ours, &red), (theirs, &blue)] {
        let label = json!({"metadata": {"labels": {world::MESH: mesh}}});
        namespaces.merge(namespace, label).await;
        services.create(&typed(world::service(namespace, "web"))).await;
    }

    let discovery = DiscoveryNamespaces::new([mesh(&red)]).unwrap();
    let options = watcher::options(&discovery, CrdOptions::default());
    let cluster = TestClient::new(options.build_with(server.client()).unwrap());
    let (all, mut seen) = watch::channel(Vec::<Snapshot>::new());
    let running = Running::start(
        &cluster,
        Arc::new(move |snapshot| all.send_modify(|all| all.push(snapshot))),
    )
    .await;
    let mut reach = async |wanted: String| {
        let reached = seen.wait_for(|all| all.last().is_some_and(|last| last.config.to_string() == wanted));
        drop(limited(&wanted, reached).await.unwrap());
    };
    reach(format!("    {ours}/web [80] -> nobody\n")).await;

    // A pod counts once it runs; a slice says where it is.
    let mut waiting: Value = world::pod(ours, "web-1", "v1");
    waiting.as_object_mut().unwrap().remove("status");
    pods.create(&typed(waiting)).await;
    let slices = TestWriter::<EndpointSlice>::new(&users);
    slices
        .create(&typed(world::slice(ours, "web", &[("10.1.0.1", "web-1", true)])))
        .await;
    reach(format!("    {ours}/web [80] -> 10.1.0.1\n")).await;
    pods.merge_status("web-1", json!({"status": {"phase": "Running"}}))
        .await;
    let web = format!("    {ours}/web [80] -> 10.1.0.1 (node-a, v1)");
    reach(format!("{web}\n")).await;

    // The kind is installed, and has an object at once.
    let definitions = TestWriter::<CustomResourceDefinition>::new(&users);
    definitions.create(&typed(policy::definition())).await;
    let policies = TestWriter::<RoutePolicy>::new(&users);
    let patience: RoutePolicy = typed(world::route_policy(ours, "patience", "web", 5));
    eventually("the kind is served", async || {
        (*policies).create(&patience, &PostParams::default()).await.ok()
    })
    .await;
    reach(format!("{web}; patience: 5 s, 0 retries\n")).await;
    policies
        .edit(&ObjectKey::namespaced(ours, "patience"), |policy| {
            policy.spec.retries = 2;
        })
        .await;
    reach(format!("{web}; patience: 5 s, 2 retries\n")).await;

    // Another mesh is selected too, in which a service is then hidden.
    discovery.set_selectors([mesh(&red), mesh(&blue)]).unwrap();
    let mut both = [
        format!("{web}; patience: 5 s, 2 retries\n"),
        format!("    {theirs}/web [80] -> nobody\n"),
    ];
    both.sort_unstable(); // by namespace, whose names are random
    reach(both.concat()).await;
    let hide = json!({"metadata": {"labels": {HIDDEN: "true"}}});
    services.merge(&ObjectKey::namespaced(theirs, "web"), hide).await;
    reach(format!("{web}; patience: 5 s, 2 retries\n")).await;

    // The kind goes, then the namespace leaves the mesh: nothing is left.
    definitions.delete("routepolicies.mesh.example").await;
    reach(format!("{web}\n")).await;
    namespaces
        .merge(ours, json!({"metadata": {"labels": {world::MESH: null}}}))
        .await;
    reach(String::new()).await;

    running.end().await;
    cluster.end().await;
    let all = seen.borrow().clone();
    for (at, pair) in all.windows(2).enumerate() {
        assert_eq!((pair[0].version, pair[1].version), (at as u64 + 1, at as u64 + 2));
        assert_ne!(pair[0].config, pair[1].config, "a version is a change");
        assert!(!pair[1].changed.is_empty(), "that something led to");
    }
}

cases!(the_watcher_follows_four_kinds);

fn shared<K: DeserializeOwned>(objects: impl IntoIterator<Item = Value>) -> Vec<Arc<K>> {
    objects.into_iter().map(|object| Arc::new(typed(object))).collect()
}

// What is made of the objects, without client or server.
#[test]
fn config_joins_what_belongs_together() {
    let services = [world::service("shop", "web"), world::service("lab", "web")];
    let mut unknown = world::slice("shop", "web", &[("10.0.0.3", "web-3", true)]);
    unknown["endpoints"][0]["conditions"] = json!({});
    unknown["endpoints"][0]["targetRef"]["kind"] = json!("VirtualMachine");
    let slices = [
        world::slice(
            "shop",
            "web",
            &[("10.0.0.1", "web-1", true), ("10.0.0.2", "web-2", false)],
        ),
        unknown,
        world::slice("shop", "gone", &[("10.0.0.4", "gone-1", true)]),
        json!({"addressType": "IPv4", "metadata": {"name": "by-hand", "namespace": "shop"}, "endpoints": [{"addresses": ["10.0.0.5"]}]}),
    ];
    let pods = [world::pod("shop", "web-1", "v1"), world::pod("lab", "web-3", "v9")];
    let policy = |name: &str, created: &str| {
        let mut policy = world::route_policy("shop", name, "web", 5);
        policy["metadata"]["creationTimestamp"] = json!(created);
        policy
    };
    let policies = [
        policy("a", "2026-02-01T00:00:00Z"),
        policy("z", "2026-01-01T00:00:00Z"),
        world::route_policy("shop", "other", "db", 1),
    ];
    let config = Config::build(&shared(services), &shared(slices), &shared(pods), &shared(policies));
    assert_eq!(
        config.to_string(),
        "    lab/web [80] -> nobody\n    shop/web [80] -> 10.0.0.1 (node-a, v1) 10.0.0.3; z: 5 s, 0 retries\n",
        "the older policy holds; an address that is not known to be unready counts; only pods of the namespace are its"
    );
    assert_eq!(Config::build(&[], &[], &[], &[]), Config::default());

    // As it is printed: the first four changes by name, and the number of the others.
    let changed = |names: &[&str]| Snapshot {
        version: 7,
        changed: names
            .iter()
            .map(|name| ConfigKey {
                kind: Kind::Pod,
                object: ObjectKey::namespaced("shop", name),
            })
            .collect(),
        config: Config::default(),
    };
    assert_eq!(changed(&[]).to_string(), "version 7\n");
    assert_eq!(
        changed(&["a", "b", "c", "d", "e", "f"]).to_string(),
        "version 7: Pod shop/a, Pod shop/b, Pod shop/c, Pod shop/d and 2 more\n"
    );
}
