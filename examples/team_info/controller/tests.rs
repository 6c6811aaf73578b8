//! The reconciler with mocks, and the controller on an API server in memory.

use std::sync::Arc;

use serde_json::Value;
use watershed::kclient::Operation;
use watershed::kclient::mock::{MockClient, MockReader, refused};
use watershed::kclient::testing::{EventTracker, Fault, Rule, TestClient, TestWriter, Verb};

use super::*;

fn namespace(name: &str, team: Option<&str>) -> Namespace {
    let labels = team.map(|team| BTreeMap::from([(TEAM.to_owned(), team.to_owned())]));
    Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels,
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    }
}

/// The cache of namespaces: `shop`, of the team `web`.
fn shop() -> MockReader<Namespace> {
    let mut namespaces = MockReader::new();
    namespaces
        .expect_get()
        .returning(|key| Some(Arc::new(namespace(key.name(), Some("web")))));
    namespaces
}

/// A client of config maps whose cache says this.
fn cached(map: Option<ConfigMap>) -> MockClient<ConfigMap> {
    let mut maps = MockClient::new();
    maps.expect_get().returning(move |_| map.clone().map(Arc::new));
    maps
}

#[tokio::test]
async fn a_missing_map_is_created() {
    let mut maps = cached(None);
    let wanted = config_map(&ObjectKey::namespaced("shop", INFO), "web");
    maps.expect_create()
        .withf(move |map, _| *map == wanted)
        .times(1)
        .returning(|map, _| Ok(map.clone()));
    reconcile(&shop(), &maps, &ObjectKey::cluster("shop")).await.unwrap();
}

#[tokio::test]
async fn a_map_that_is_right_is_left_alone() {
    // A mock that is called for what it does not expect fails the test: here, for any write.
    let maps = cached(Some(config_map(&ObjectKey::namespaced("shop", INFO), "web")));
    reconcile(&shop(), &maps, &ObjectKey::cluster("shop")).await.unwrap();
}

#[tokio::test]
async fn a_refused_write_is_an_error() {
    let mut maps = cached(None);
    let info = ObjectKey::namespaced("shop", INFO);
    maps.expect_create()
        .returning(move |_, _| Err(refused(Operation::Create, "ConfigMap", &info, 403, "Forbidden")));
    let outcome = reconcile(&shop(), &maps, &ObjectKey::cluster("shop")).await;
    assert!(outcome.is_err(), "the queue tries again");
}

/// The label of a namespace, as a merge patch.
fn label(team: Option<&str>) -> Value {
    json!({"metadata": {"labels": {TEAM: team}}})
}

#[tokio::test(start_paused = true)]
async fn maps_follow_their_namespaces() {
    // What there is before the controller comes, and the people who use the cluster.
    let cluster = TestClient::with_objects([namespace("shop", Some("web")), namespace("lab", None)]);
    let namespaces = TestWriter::<Namespace>::new(&cluster);
    let maps = TestWriter::<ConfigMap>::new(&cluster).in_namespace("shop");

    let (controller, stop) = (TeamInfo::new(&cluster).unwrap(), CancellationToken::new());
    let tracker = EventTracker::new().with_namespaces();
    tracker.register(&controller.maps);
    cluster.sync().await;
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { controller.run(&stop).await }
    });
    tracker.wait_ordered(["add/shop/team-info"]).await;
    assert_eq!(team_of(&maps.fetch(INFO).await).unwrap(), "web");

    // What others do to the map is put right.
    maps.delete(INFO).await;
    tracker
        .wait_ordered(["delete/shop/team-info", "add/shop/team-info"])
        .await;
    maps.merge(INFO, json!({"data": {"team": "nobody"}})).await;
    tracker
        .wait_ordered(["update/shop/team-info", "update/shop/team-info"])
        .await;
    assert_eq!(team_of(&maps.fetch(INFO).await).unwrap(), "web");

    // The map follows the label.
    namespaces.merge("shop", label(Some("ledger"))).await;
    tracker.wait_ordered(["update/shop/team-info"]).await;
    assert_eq!(team_of(&maps.fetch(INFO).await).unwrap(), "ledger");
    namespaces.merge("shop", label(None)).await;
    tracker.wait_ordered(["delete/shop/team-info"]).await;
    namespaces.merge("lab", label(Some("web"))).await;
    tracker.wait_ordered(["add/lab/team-info"]).await;

    // It ends, and leaves no task, watch or handler behind.
    stop.cancel();
    running.await.unwrap().unwrap();
    tracker.empty().await;
    cluster.end().await;
}

#[tokio::test(start_paused = true)]
async fn failures_are_tried_again() {
    let cluster = TestClient::with_objects([namespace("shop", Some("web"))]);
    let failing = Rule::new(Fault::status(500)).resource("configmaps").verb(Verb::Create);
    let failing = cluster.server().inject(failing);

    let (controller, stop) = (TeamInfo::new(&cluster).unwrap(), CancellationToken::new());
    let tracker = EventTracker::new();
    tracker.register(&controller.maps);
    cluster.sync().await;
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { controller.run(&stop).await }
    });
    failing.wait_fired(3).await; // with back-off in between, which costs no time on a paused clock
    failing.remove();
    tracker.wait_ordered(["add/team-info"]).await;

    stop.cancel();
    running.await.unwrap().unwrap();
    cluster.end().await;
}
