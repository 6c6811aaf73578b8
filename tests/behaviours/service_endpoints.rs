//! The example `service_endpoints`: its whole show on the in-memory server, and the same steps on both servers.

#[path = "../../examples/service_endpoints/endpoints.rs"]
mod endpoints;
#[path = "../../examples/service_endpoints/world.rs"]
mod world;

use std::sync::{Arc, Mutex};

use kclient::testing::{TestClient, TestWriter};
use krt::testing::Stepper;
use krt::{Krt, Registration};
use kube_client::Namespaces;
use kube_client::testing::assert_eventually;

use crate::client::typed;
use crate::harness::{Server, cases};
use endpoints::{endpoints, line};

/// The example's collections on an engine that a test drives, and what would be printed.
struct Show {
    stepper: Stepper,
    lines: Arc<Mutex<Vec<String>>>,
    _handler: Registration,
}

impl Show {
    fn new(cluster: &TestClient, namespaces: &Namespaces) -> Self {
        let krt = Krt::builder("endpoints").build();
        let stepper = Stepper::new(&krt).unwrap();
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let log = Arc::clone(&lines);
        let collection = endpoints(&krt, cluster, namespaces).unwrap();
        let handler = collection.on_change(move |event| log.lock().unwrap().push(line(event)));
        Self {
            stepper,
            lines,
            _handler: handler,
        }
    }

    /// What was printed since the last time.
    fn take(&mut self) -> Vec<String> {
        self.stepper.settle();
        std::mem::take(&mut *self.lines.lock().unwrap())
    }

    /// Waits until this many lines were printed, and sorts them.
    async fn wait(&mut self, count: usize) -> Vec<String> {
        let mut printed = Vec::new();
        let look = async || {
            printed.extend(self.take());
            printed.len()
        };
        assert_eventually("the lines", look, |found| *found >= count).await;
        printed.sort_unstable();
        printed
    }
}

/// What each step prints in a namespace.
fn expected(namespace: &str) -> Vec<Vec<String>> {
    let web = |addresses: &str| format!("{namespace}/web [80] -> {addresses}");
    let db = |addresses: &str| format!("{namespace}/db [80] -> {addresses}");
    vec![
        vec![],
        vec![web("10.1.0.1 10.1.0.2")],
        vec![],
        vec![web("10.1.0.2")],
        vec![db("10.1.0.2"), web("nobody")],
        vec![web("10.1.0.1")],
        vec![db("10.1.0.1")],
        vec![format!("{namespace}/db is gone")],
        vec![format!("{namespace}/web is gone")],
    ]
}

// [K7] everything that the example shows, step by step
#[tokio::test(start_paused = true)]
async fn the_show_prints_what_changes_and_nothing_else() {
    let cluster = TestClient::new(world::create(kube_client::Client::builder()).unwrap());
    let mut show = Show::new(&cluster, &Namespaces::All);
    cluster.sync().await;
    let first = show.wait(2).await;
    assert_eq!(first, ["shop/db [80] -> nobody", "shop/web [80] -> 10.1.0.1"]);
    let users = world::Users::new(&cluster, "shop");
    assert_eq!(expected("shop").len(), usize::try_from(world::STEPS).unwrap());
    for (number, expected) in (0..).zip(expected("shop")) {
        users.step(number).await.unwrap();
        assert_eq!(show.wait(expected.len()).await, expected, "step {number}");
    }
    assert_eq!(show.take(), [""; 0]);
    cluster.end().await;
}

// [K7] the same on a server, where pods are created without a status
async fn endpoints_of_a_server(server: Server) {
    let namespace = server.namespace().await;
    let cluster = crate::client::cluster(&server);
    let services = TestWriter::<k8s_openapi::api::core::v1::Service>::new(&cluster);
    let pods = TestWriter::<k8s_openapi::api::core::v1::Pod>::new(&cluster).in_namespace(namespace.name());
    for app in ["web", "db"] {
        services
            .create(&typed(world::service(namespace.name(), app, app)))
            .await;
    }
    pods.create(&typed(world::pod(namespace.name(), "web-1", "web"))).await;
    let status = serde_json::json!({"status": world::running("10.1.0.1", true)});
    pods.merge_status("web-1", status).await;
    let mut show = Show::new(&cluster, &Namespaces::one(namespace.name()));
    cluster.sync().await;
    let first = show.wait(2).await;
    let name = namespace.name();
    assert_eq!(
        first,
        [
            format!("{name}/db [80] -> nobody"),
            format!("{name}/web [80] -> 10.1.0.1")
        ]
    );
    let users = world::Users::new(&cluster, name);
    for (number, expected) in (0..).zip(expected(name)) {
        users.step(number).await.unwrap();
        assert_eq!(show.wait(expected.len()).await, expected, "step {number}");
    }
    assert_eq!(show.take(), [""; 0]);
    cluster.end().await;
}

cases!(endpoints_of_a_server);
