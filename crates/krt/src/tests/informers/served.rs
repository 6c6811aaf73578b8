//! On an in-memory API server: sync, relists, filters, and random histories in which nothing may be lost.

use std::time::Duration;

use kclient::testing::{Fault, Rule, TestClient, TestWriter, Verb};
use kclient::{Client, Filter, Informer, Namespaces};
use kube_client::testing::assert_eventually;

use super::*;
use crate::InformerCollection;

fn object(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "n"},
        "data": {"v": value},
    }))
    .unwrap()
}

/// The maps of one namespace: the server makes some of its own in others.
fn maps(rig: &Rig, cluster: &TestClient) -> InformerCollection<ConfigMap> {
    let filter = Filter::default().namespaces(Namespaces::one("n"));
    rig.krt.from_client(cluster, filter).unwrap()
}

/// Steps until the collection has this content.
async fn reach(rig: &mut Rig, collection: &Collection<ConfigMap>, expected: &[&str]) {
    let look = async || {
        rig.settle();
        content(collection)
    };
    assert_eventually("the content", look, |content| content == expected).await;
}

// [K25] what was there first comes as a whole, and then the sync, down a chain
#[tokio::test(start_paused = true)]
async fn sync_comes_behind_the_last_object_of_the_first_list() {
    let mut rig = Rig::new();
    let cluster = TestClient::with_objects((0..1000).map(|n| object(&format!("m{n}"), "1")));
    let source = maps(&rig, &cluster);
    let derived = rig.krt.collection("derived", &source, |_, map| Some((**map).clone()));
    let last = rig.krt.collection("last", &derived, |_, map| Some((**map).clone()));
    let told = Told::default();
    let registration = told.follow(&last);
    rig.settle();
    assert!(!source.has_synced(), "nothing is known before the client runs");
    cluster.sync().await;
    let look = async || {
        rig.step();
        assert_eq!(
            source.has_synced(),
            derived.has_synced() && last.has_synced(),
            "in one epoch"
        );
        assert!(!source.has_synced() || (source.len(), last.len()) == (1000, 1000));
        assert!(source.has_synced() || last.is_empty());
        source.has_synced()
    };
    assert_eventually("the sync", look, |synced| *synced).await;
    rig.settle();
    assert_eq!(told.take().iter().map(Vec::len).collect::<Vec<_>>(), [1000]);
    assert!(registration.has_synced());
    cluster.end().await;
}

// [K33] a relist is one step: no epoch has a part of it
#[tokio::test(start_paused = true)]
async fn a_relist_is_never_seen_half_done() {
    const COUNT: usize = 600;
    let mut rig = Rig::with_strong_hashes();
    let cluster = TestClient::with_objects((0..COUNT).map(|n| object(&format!("old{n}"), "1")));
    let source = maps(&rig, &cluster);
    let told = Told::default();
    let _handler = told.follow(&source);
    cluster.sync().await;
    let look = async || {
        rig.settle();
        source.len()
    };
    assert_eventually("the first list", look, |count| *count == COUNT).await;
    told.take();

    // While no watch works, everything is replaced, and the history is forgotten.
    let away = cluster
        .server()
        .inject(Rule::new(Fault::Refuse).verb(Verb::Watch).resource("configmaps"));
    cluster.server().close_watches("configmaps");
    away.wait_fired(1).await;
    for n in 0..COUNT {
        cluster.delete::<ConfigMap>(&kclient::ObjectKey::namespaced("n", &format!("old{n}")));
        cluster.load(&object(&format!("new{n}"), "2"));
    }
    cluster.server().compact_now();
    away.remove();
    let look = async || {
        rig.step();
        let olds = source.list().iter().filter(|map| value(map) == "1").count();
        assert!(
            (olds, source.len()) == (COUNT, COUNT) || (olds, source.len()) == (0, COUNT),
            "{olds} of {} are old",
            source.len()
        );
        olds
    };
    assert_eventually("the relist", look, |olds| *olds == 0).await;
    rig.settle();
    assert_eq!(told.take().iter().map(Vec::len).collect::<Vec<_>>(), [2 * COUNT]);
    cluster.end().await;
}

// [K36] a source that does not sync in time counts as synced, and says so; what comes late is taken
#[tokio::test(start_paused = true)]
async fn a_source_whose_time_is_up_counts_as_synced_and_is_taken_late() {
    let mut rig = Rig::new();
    let cluster = TestClient::with_objects([object("a", "1")]);
    rig.stepper.advance(Duration::from_secs(100));
    let source = maps(&rig, &cluster).sync_timeout(Duration::from_secs(5));
    let derived = rig.krt.collection("derived", &source, |_, map| Some((**map).clone()));
    let prompt = maps(&rig, &cluster);
    rig.settle();
    rig.stepper.advance(Duration::from_secs(4));
    rig.settle();
    assert!(!source.has_synced() && !source.has_timed_out());
    rig.stepper.advance(Duration::from_secs(1));
    rig.settle();
    assert!(source.has_synced() && derived.has_synced() && source.has_timed_out());
    assert!(derived.is_empty() && !prompt.has_synced() && !prompt.has_timed_out());
    cluster.sync().await;
    reach(&mut rig, &derived, &["a=1"]).await;
    assert!(source.has_synced() && !source.has_timed_out(), "it has really synced");
    // In time: the end of the time changes nothing.
    let other = maps(&rig, &cluster).sync_timeout(Duration::from_secs(5));
    reach(&mut rig, &other, &["a=1"]).await;
    assert!(other.has_synced());
    rig.stepper.advance(Duration::from_secs(10));
    rig.settle();
    assert!(!other.has_timed_out());
    cluster.end().await;
}

// [K36] the engine's own thread looks at the time
#[tokio::test]
async fn the_thread_of_an_engine_ends_the_wait_for_a_source() {
    let krt = crate::Krt::builder("test").build();
    let cluster = TestClient::fake();
    let client = Client::<ConfigMap>::new(&cluster).unwrap();
    let source = krt.informer(&client).sync_timeout(Duration::from_millis(1));
    krt.start().unwrap();
    source.synced().await;
    assert!(source.has_timed_out());
    // One that is added while the engine sleeps.
    let late = krt.informer(&client).sync_timeout(Duration::from_millis(1));
    late.synced().await;
    assert!(late.has_timed_out());
    krt.shutdown().await.unwrap();
}

// [K1] [K3] a client that has run for long: a source of it has everything at once, and loses nothing that happens meanwhile
#[tokio::test(start_paused = true)]
async fn a_source_of_a_running_client_starts_with_what_is_there() {
    let mut rig = Rig::new();
    let cluster = TestClient::with_objects([object("a", "1"), object("b", "1")]);
    let client = Client::<ConfigMap>::filtered(&cluster, Filter::default().namespace("n")).unwrap();
    cluster.sync().await;
    client.synced().await.unwrap();
    let writer = TestWriter::<ConfigMap>::new(&cluster).in_namespace("n");
    let source = rig.krt.informer(&client);
    writer.create(&object("c", "1")).await;
    writer.delete("a").await;
    reach(&mut rig, &source, &["b=1", "c=1"]).await;
    assert!(source.has_synced());
    cluster.end().await;
    rig.settle();
    assert_eq!(content(&source), ["b=1", "c=1"], "the last state stays");
}

// [K3] random histories, an engine that steps when it likes, watches that break, a history that is forgotten: in the end the
// collection, what is derived of it and what a handler was told are what the server has
#[tokio::test(start_paused = true)]
async fn nothing_is_lost_in_random_histories() {
    for seed in 0..30 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut rig = Rig::new();
        let cluster = TestClient::with_objects([object("a", "first")]);
        let source = maps(&rig, &cluster);
        let derived = rig.krt.collection("derived", &source, |_, map| Some((**map).clone()));
        let (told, lagging) = (Told::default(), Told::default());
        let log = lagging.clone();
        let _handlers = (
            told.follow(&source),
            source.handler().merge_over(random.usize(0..5)).on_batch(move |batch| {
                log.0.lock().batches.push(batch.events().map(line).collect());
            }),
        );
        cluster.sync().await;
        let writer = TestWriter::<ConfigMap>::new(&cluster).in_namespace("n");
        for round in 0..random.usize(5..60) {
            let name = *random.choice(&["a", "b", "c"]).unwrap();
            match random.u8(0..10) {
                0..4 => drop(writer.create_or_replace(&object(name, &round.to_string())).await),
                4..6 if cluster.server().object("configmaps", Some("n"), name).is_some() => {
                    drop(writer.delete(name).await);
                }
                6 => drop(rig.step()),
                7 => rig.settle(),
                8 => cluster.server().close_watches("configmaps"),
                _ => cluster.server().compact_now(),
            }
            if random.bool() {
                tokio::task::yield_now().await;
            }
        }
        let served = cluster.server().objects("configmaps");
        let served = served.into_iter().filter(|map| map["metadata"]["namespace"] == "n");
        let mut expected: Vec<String> = served
            .map(|map| {
                format!(
                    "{}={}",
                    map["metadata"]["name"].as_str().unwrap(),
                    map["data"]["v"].as_str().unwrap()
                )
            })
            .collect();
        expected.sort_unstable();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        println!("seed {seed}");
        reach(&mut rig, &derived, &expected).await;
        rig.settle();
        assert_eq!(content(&source), expected, "seed {seed}");
        assert_eq!(told.folded(), expected, "seed {seed}");
        cluster.end().await;
    }
}
