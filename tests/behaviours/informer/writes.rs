//! Reading one's own writes. [I35]

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::{ApiResource, DynamicObject};
use kube_client::{CaughtUpError, InformerOptions, Namespaces, Scope};
use serde_json::Value;

use super::{Rig, create, delete, key, update, value};
use crate::harness::{Server, cases};

const PATIENCE: Duration = Duration::from_mins(2);

fn written(object: Value) -> DynamicObject {
    serde_json::from_value(object).unwrap()
}

/// The object as the server has it.
async fn stored(rig: &Rig, path: &str) -> Value {
    rig.server.get(path).await.ok()
}

// [I35] after each write, the cache has it; after each delete, it has not; whatever type the informer keeps
async fn own_writes_are_read_after_catching_up(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    let maps = rig.maps_in(&namespace);
    let names = rig
        .client
        .informers()
        .metadata(
            &ApiResource::erase::<ConfigMap>(&()),
            InformerOptions::default()
                .scope(Scope::Namespaced)
                .namespaces(Namespaces::one(namespace.name())),
        )
        .unwrap();
    rig.run().await;
    let key = key(&namespace, "a");
    let path = namespace.at("configmaps/a");
    for round in 0..5 {
        create(&namespace, "a", "0").await;
        let created = written(stored(&rig, &path).await);
        maps.caught_up(&created, PATIENCE).await.unwrap();
        assert_eq!(value(&maps.get(&key).unwrap()), "0");
        for n in 1..6 {
            let updated = update(&rig.server, &namespace, "a", &n.to_string()).await;
            let updated: ConfigMap = serde_json::from_value(updated).unwrap();
            let (one, two) = tokio::join!(maps.caught_up(&updated, PATIENCE), names.caught_up(&updated, PATIENCE));
            one.unwrap();
            two.unwrap();
            assert_eq!(value(&maps.get(&key).unwrap()), n.to_string(), "round {round}");
            let seen = names.get(&key).unwrap();
            assert_eq!(seen.metadata.resource_version, updated.metadata.resource_version);
        }
        delete(&rig.server, &namespace, "a").await;
        let uid = created.metadata.uid.unwrap();
        maps.caught_up_deleted(&key, &uid, PATIENCE).await.unwrap();
        assert!(maps.get(&key).is_none(), "round {round}");
        names.caught_up_deleted(&key, &uid, PATIENCE).await.unwrap();
        assert!(names.get(&key).is_none(), "round {round}");
        maps.caught_up_deleted(&key, &uid, PATIENCE).await.unwrap();
    }
    rig.end().await;
}

// [I35] an object that is created and deleted at once, before the cache has heard of either: it never shows up afterwards
async fn object_that_lived_for_a_moment_does_not_show_up_later(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    let maps = rig.maps_in(&namespace);
    rig.run().await;
    for round in 0..20 {
        let name = format!("m{round}");
        create(&namespace, &name, "1").await;
        let uid = stored(&rig, &namespace.at(&format!("configmaps/{name}"))).await["metadata"]["uid"].clone();
        delete(&rig.server, &namespace, &name).await;
        let key = key(&namespace, &name);
        maps.caught_up_deleted(&key, uid.as_str().unwrap(), PATIENCE)
            .await
            .unwrap();
        assert!(maps.get(&key).is_none());
        // the next write passes the delete; had the object been yet to come, it would be there now
        let mark = format!("mark{round}");
        create(&namespace, &mark, "1").await;
        let mark = written(stored(&rig, &namespace.at(&format!("configmaps/{mark}"))).await);
        maps.caught_up(&mark, PATIENCE).await.unwrap();
        assert!(maps.get(&key).is_none());
    }
    rig.end().await;
}

cases!(
    own_writes_are_read_after_catching_up,
    object_that_lived_for_a_moment_does_not_show_up_later
);

// [I35] a write that the informer's selectors leave out is seen with a bookmark
#[tokio::test(start_paused = true)]
async fn write_that_is_not_shown_is_seen_with_a_bookmark() {
    let rig = Rig::fake();
    let namespace = rig.server.namespace().await;
    let other = rig.server.namespace().await;
    let maps = rig.maps_in(&namespace);
    rig.run().await;
    create(&other, "a", "1").await;
    let elsewhere = written(stored(&rig, &other.at("configmaps/a")).await);
    let start = tokio::time::Instant::now();
    maps.caught_up(&elsewhere, PATIENCE).await.unwrap();
    assert!(start.elapsed() <= Duration::from_secs(61), "{:?}", start.elapsed());
    assert!(maps.is_empty());
    rig.end().await;
}

// [I35] the time that runs out, and the stop, are errors that say what was waited for
#[tokio::test(start_paused = true)]
async fn catching_up_ends_with_time_or_stop() {
    let rig = Rig::fake();
    let namespace = rig.server.namespace().await;
    let maps = rig.maps_in(&namespace);
    rig.run().await;
    let version = maps.last_version().unwrap();
    let away = rig.memory().inject(
        fake_apiserver::Rule::new(fake_apiserver::Fault::Refuse)
            .verb(fake_apiserver::Verb::Watch)
            .resource("configmaps"),
    );
    rig.memory().close_watches("configmaps");
    away.wait_fired(1).await;
    create(&namespace, "a", "1").await;
    let unseen = written(stored(&rig, &namespace.at("configmaps/a")).await);
    let start = tokio::time::Instant::now();
    let error = maps.caught_up(&unseen, Duration::from_secs(5)).await.unwrap_err();
    assert_eq!(start.elapsed().as_secs(), 5);
    let wanted = unseen.metadata.resource_version.clone().unwrap();
    assert_eq!(
        error.to_string(),
        format!(
            "configmaps/v1 in namespace {0} has not seen {0}/a at resource version {wanted} within 5s, it is at resource \
             version {version:?}",
            namespace.name()
        )
    );
    let waiting = maps.caught_up(&unseen, PATIENCE);
    let deleted = maps.caught_up_deleted(&key(&namespace, "a"), "uid", PATIENCE);
    let (waiting, deleted, ()) = tokio::join!(waiting, deleted, rig.client.shutdown());
    for error in [waiting.unwrap_err(), deleted.unwrap_err()] {
        assert!(matches!(error, CaughtUpError::Stopped { .. }), "{error}");
    }
    let late = maps.caught_up(&unseen, PATIENCE).await;
    assert!(matches!(late, Err(CaughtUpError::Stopped { .. })), "{late:?}");
    rig.end().await;
}
