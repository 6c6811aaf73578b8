//! The example `inventory`: its whole show with faults in the way, and the same tool on both servers.

#[path = "../../examples/inventory/inventory.rs"]
#[expect(
    clippy::module_inception,
    reason = "the example's own file has the name of the example"
)]
mod inventory;
#[path = "../../examples/inventory/world.rs"]
mod world;

/// What `inventory` takes from the program around it.
mod program {
    pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;
}

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube_client::testing::{FakeApiServer, Fault, Rule, ServerExt, TestClient, Verb, assert_no_watches};
use kube_client::{Namespaces, SyncError};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::client::{cluster, key, pod, typed};
use crate::harness::{Server, cases, limited};
use inventory::{Inventory, Is, Line};

/// An inventory that runs.
struct Running {
    lines: mpsc::UnboundedReceiver<Line>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    async fn start(cluster: &TestClient, kind: &str, namespaces: Namespaces) -> Self {
        let inventory = Arc::new(Inventory::new(cluster, kind, namespaces).await.unwrap());
        assert_eq!(cluster.stats().tasks, 0, "construction starts nothing");
        let stop = CancellationToken::new();
        cluster.run_and_wait(&stop).await.unwrap();
        inventory.synced(cluster, &stop).await.unwrap();
        let (sender, lines) = mpsc::unbounded_channel();
        let task = tokio::spawn({
            let (inventory, stop) = (Arc::clone(&inventory), stop.clone());
            async move { inventory.run(|line| sender.send(line).unwrap(), &stop).await }
        });
        Self { lines, stop, task }
    }

    async fn line(&mut self) -> String {
        let line = limited("a line", self.lines.recv()).await.unwrap();
        let text = line.to_string();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Stops it; nothing more was to be said.
    async fn end(mut self) {
        self.stop.cancel();
        limited("the end", self.task).await.unwrap();
        assert_eq!(self.lines.recv().await, None);
    }
}

// [I1] [I6] [I16] [I18] everything that the example shows, though the server is down at first, breaks the connection before each
// change, is not to be reached while it happens, and has forgotten the history when it is back
#[tokio::test(start_paused = true)]
async fn the_show_is_the_same_whatever_happens_to_the_connection() {
    let server = FakeApiServer::new();
    let cluster = TestClient::new(world::create(&server).unwrap());
    let down = server.inject(Rule::new(Fault::status(503)).verb(Verb::Watch).times(4));
    let mut running = Running::start(&cluster, "rs", Namespaces::All).await;
    down.wait_fired(4).await;
    assert_eq!(running.line().await, "shop/db 0 pods, 0 ready");
    assert_eq!(running.line().await, "shop/web 2 pods, 2 ready");
    let expected = [
        "shop/web 3 pods, 2 ready",
        "shop/web 3 pods, 3 ready",
        "shop/web 2 pods, 2 ready",
        "shop/cache 0 pods, 0 ready",
        "shop/cache 1 pods, 0 ready",
        "shop/db gone",
        "shop/cache 0 pods, 0 ready",
    ];
    assert_eq!(expected.len(), world::STEPS);
    for (number, expected) in expected.into_iter().enumerate() {
        // Long enough that the back-off begins anew.
        tokio::time::sleep(Duration::from_mins(3)).await;
        let away = server.inject(Rule::new(Fault::Refuse).verb(Verb::Watch));
        server.close_all_watches();
        world::step(&cluster, number).await.unwrap();
        away.wait_fired(2).await;
        server.compact_now();
        away.remove();
        assert_eq!(running.line().await, expected, "step {number}");
    }
    // The one of the other kind may be in its back-off.
    limited("the pods' watch", server.wait_for_watches("pods", 1)).await;
    limited("the sets' watch", server.wait_for_watches("replicasets.apps", 1)).await;
    assert_eq!(server.watches_of::<Pod>(), 1, "one watch for each kind");
    assert_eq!(server.watches_of::<ReplicaSet>(), 1);
    let restarts = cluster.stats().informers.into_iter().map(|stats| stats.restarts);
    let missed: u64 = restarts.filter_map(|reasons| reasons.get("expired").copied()).sum();
    assert!(missed > 0, "it had to list again");
    running.end().await;
    cluster.end().await;
    assert_no_watches(&server).await;
}

// [I1] [I2] a kind that is found by its short name, and its pods, from the first line to the last
async fn an_inventory_follows_what_others_do(server: Server) {
    let namespace = server.namespace().await;
    let web = key(&namespace, "web");
    let users = cluster(&server);
    let sets = users.api_in::<ReplicaSet>(namespace.name());
    let pods = users.api_in::<Pod>(namespace.name());
    let labels = json!({"app": "web"});
    let container = json!({"name": "main", "image": "registry.example/app:1"});
    let set: ReplicaSet = typed(json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }));
    let create = PostParams::default();
    let set = sets.create(&create, &set).await.unwrap();
    let owner = kube::Resource::controller_owner_ref(&set, &()).unwrap();

    let cluster = cluster(&server);
    let mut running = Running::start(&cluster, "rs", Namespaces::one(namespace.name())).await;
    let mut told = async || limited("a line", running.lines.recv()).await.unwrap();
    let there = |pods, ready| Line {
        key: web.clone(),
        is: Is::There { pods, ready },
    };
    assert_eq!(told().await, there(0, 0), "what was there before");
    let mut owned = pod(&namespace, "web-1");
    owned.metadata.owner_references = Some(vec![owner]);
    pods.create(&create, &owned).await.unwrap();
    assert_eq!(told().await, there(1, 0));
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    pods.patch_status("web-1", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    assert_eq!(told().await, there(1, 1));
    // A pod that is nobody's changes nothing.
    pods.create(&create, &pod(&namespace, "free")).await.unwrap();
    let at_once = DeleteParams::default().grace_period(0);
    pods.delete("web-1", &at_once).await.unwrap();
    assert_eq!(told().await, there(0, 0));
    sets.delete("web", &DeleteParams::default()).await.unwrap();
    assert_eq!(
        told().await,
        Line {
            key: web.clone(),
            is: Is::Gone
        }
    );
    running.end().await;
    cluster.end().await;
}

cases!(an_inventory_follows_what_others_do);

// A kind that is not there is told with what comes near; one that is stopped while it waits says so.
#[tokio::test(start_paused = true)]
async fn an_inventory_says_what_it_cannot_do() {
    let cluster = TestClient::fake();
    let refused = Inventory::new(&cluster, "replicasetz", Namespaces::All).await;
    let text = refused.err().unwrap().to_string();
    assert_eq!(
        text,
        r#"the server does not serve "replicasetz" (did you mean replicasets?)"#
    );
    let inventory = Inventory::new(&cluster, "rs", Namespaces::All).await.unwrap();
    assert_eq!(inventory.kind(), "ReplicaSet");
    let stop = CancellationToken::new();
    stop.cancel();
    assert!(matches!(
        inventory.synced(&cluster, &stop).await,
        Err(SyncError::Stopped)
    ));
    cluster.end().await;
}
