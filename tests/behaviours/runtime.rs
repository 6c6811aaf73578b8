//! The parts of kube-runtime, unchanged, on both servers; in `leases`, a crate that elects leaders. [F21]

mod leases;
mod patterns;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::{Controller, finalizer, wait, watcher};
use kube::{Client, Resource, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::harness::{CustomKind, Server, cases, eventually, limited, unique};

fn map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map
}

/// A watcher tells the initial objects, then each change.
async fn follows(server: &Server, config: watcher::Config) {
    let namespace = server.namespace().await;
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), namespace.name());
    for name in ["a", "b"] {
        maps.create(&PostParams::default(), &map(name)).await.unwrap();
    }
    // What others put into a new namespace is not ours.
    let config = config.fields("metadata.name!=kube-root-ca.crt");
    let mut events = std::pin::pin!(watcher(maps.clone(), config));
    let mut next = async || {
        let event = limited("an event of the watcher", events.try_next()).await;
        match event.unwrap().expect("a watcher does not end") {
            watcher::Event::Init => "init".to_owned(),
            watcher::Event::InitApply(map) => format!("init {}", map.name_any()),
            watcher::Event::InitDone => "done".to_owned(),
            watcher::Event::Apply(map) => format!("apply {}", map.name_any()),
            watcher::Event::Delete(map) => format!("delete {}", map.name_any()),
        }
    };
    assert_eq!(next().await, "init");
    let initial: BTreeSet<_> = [next().await, next().await].into();
    assert_eq!(initial, BTreeSet::from(["init a".to_owned(), "init b".to_owned()]));
    assert_eq!(next().await, "done");
    maps.create(&PostParams::default(), &map("c")).await.unwrap();
    assert_eq!(next().await, "apply c");
    let patch = Patch::Merge(json!({"data": {"k": "v"}}));
    maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(next().await, "apply a");
    maps.delete("b", &DeleteParams::default()).await.unwrap();
    assert_eq!(next().await, "delete b");
}

// [F21] the watcher by list and watch, with pages
async fn watcher_lists_and_watches(server: Server) {
    follows(&server, watcher::Config::default().page_size(1)).await;
}

// [F21] the watcher by streaming lists
async fn watcher_streams_lists(server: Server) {
    follows(&server, watcher::Config::default().streaming_lists()).await;
}

/// What a controller of the tests works with.
struct Work {
    client: Client,
    reconciled: Mutex<Vec<String>>,
}

/// Makes sure that the map has a secret of its name, which it owns.
async fn reconcile(map: Arc<ConfigMap>, work: Arc<Work>) -> Result<Action, kube::Error> {
    let name = map.name_any();
    let secrets: Api<Secret> = Api::namespaced(work.client.clone(), &map.namespace().unwrap_or_default());
    let owner = map.controller_owner_ref(&()).expect("a stored object has a uid");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "ownerReferences": [owner]}, "stringData": map.data,
    });
    let parameters = PatchParams::apply("tests").force();
    secrets.patch(&name, &parameters, &Patch::Apply(&secret)).await?;
    work.reconciled.lock().unwrap().push(name);
    Ok(Action::await_change())
}

// [F21] a controller follows its objects and those that they own
async fn controller_keeps_owned_objects(server: Server) {
    let namespace = server.namespace().await;
    let client = server.client();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace.name());
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace.name());
    let work = Arc::new(Work {
        client,
        reconciled: Mutex::default(),
    });
    let (stop, stopped) = oneshot::channel::<()>();
    let ours = watcher::Config::default().labels("app=tests");
    let controller = Controller::new(maps.clone(), ours)
        .owns(secrets.clone(), watcher::Config::default())
        .graceful_shutdown_on(async {
            // Also when the sender is gone because the test has failed.
            let _ = stopped.await;
        })
        .run(reconcile, |_, _, _| Action::await_change(), Arc::clone(&work));
    let running = tokio::spawn(controller.for_each(|result| async move {
        result.expect("the controller works");
    }));

    let mut wanted = map("a");
    wanted.labels_mut().insert("app".to_owned(), "tests".to_owned());
    wanted.data = Some([("k".to_owned(), "v".to_owned())].into());
    maps.create(&PostParams::default(), &wanted).await.unwrap();
    let made = async |value: &'static str| {
        eventually("the secret", || async {
            let secret = secrets.get_opt("a").await.unwrap()?;
            let data = secret.data.clone().unwrap_or_default();
            (data.get("k").map(|bytes| &*bytes.0) == Some(value.as_bytes())).then_some(secret)
        })
        .await
    };
    let secret = made("v").await;
    assert_eq!(secret.owner_references()[0].kind, "ConfigMap");
    let change = Patch::Merge(json!({"data": {"k": "w"}}));
    maps.patch("a", &PatchParams::default(), &change).await.unwrap();
    made("w").await;
    // What is owned comes back.
    secrets.delete("a", &DeleteParams::default()).await.unwrap();
    let again = made("w").await;
    assert_ne!(again.uid(), secret.uid());
    stop.send(()).expect("the controller runs");
    limited("the end of the controller", running).await.unwrap();
    assert!(work.reconciled.lock().unwrap().iter().all(|name| name == "a"));
}

// [F21] the finalizer is put there before an object is applied, and taken away after it is cleaned up
async fn finalizer_holds_an_object(server: Server) {
    let namespace = server.namespace().await;
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), namespace.name());
    let seen = Mutex::new(Vec::new());
    let step = async || {
        let map = Arc::new(maps.get("a").await.unwrap());
        finalizer(&maps, "example.com/tests", map, |event| {
            seen.lock().unwrap().push(match event {
                finalizer::Event::Apply(_) => "apply",
                finalizer::Event::Cleanup(_) => "cleanup",
            });
            std::future::ready(Ok::<_, std::convert::Infallible>(Action::await_change()))
        })
        .await
        .unwrap();
    };
    maps.create(&PostParams::default(), &map("a")).await.unwrap();
    step().await;
    assert_eq!(maps.get("a").await.unwrap().finalizers(), ["example.com/tests"]);
    step().await;
    let deleted = maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(deleted.left().is_some(), "the object stays");
    step().await;
    assert!(maps.get_opt("a").await.unwrap().is_none());
    assert_eq!(*seen.lock().unwrap(), ["apply", "cleanup"]);
}

// [F21] the recorder of events makes an event, and counts the same one again
async fn recorder_publishes_events(server: Server) {
    let namespace = server.namespace().await;
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), namespace.name());
    let map = maps.create(&PostParams::default(), &map("a")).await.unwrap();
    let reporter = Reporter {
        controller: "tests".to_owned(),
        instance: Some("tests-0".to_owned()),
    };
    let recorder = Recorder::new(server.client(), reporter);
    let event = Event {
        type_: EventType::Warning,
        reason: "Tired".to_owned(),
        note: Some("it sleeps".to_owned()),
        action: "Sleeping".to_owned(),
        secondary: None,
    };
    for _ in 0..2 {
        recorder.publish(&event, &map.object_ref(&())).await.unwrap();
    }
    let path = namespace.of("events.k8s.io/v1", "events");
    let events = server.get(&path).await.ok();
    let events = events["items"].as_array().expect("items");
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(
        (&events[0]["reason"], &events[0]["series"]["count"]),
        (&json!("Tired"), &json!(2))
    );
    assert_eq!(events[0]["regarding"]["name"], "a");
}

// [F21] waiting for a condition, and for the end of an object
async fn waits_for_objects(server: Server) {
    let definitions: Api<CustomResourceDefinition> = Api::all(server.client());
    let group = format!("{}.example.com", unique());
    let name = format!("widgets.{group}");
    let established = tokio::spawn({
        let (definitions, name) = (definitions.clone(), name.clone());
        async move { wait::await_condition(definitions, &name, wait::conditions::is_crd_established()).await }
    });
    let definition: CustomResourceDefinition = serde_json::from_value(CustomKind::definition(&group)).unwrap();
    definitions.create(&PostParams::default(), &definition).await.unwrap();
    let definition = limited("the condition", established).await.unwrap().unwrap();
    let conditions = serde_json::to_value(definition.expect("a definition")).unwrap()["status"]["conditions"].clone();
    let is_true = |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
    assert!(conditions.as_array().expect("conditions").iter().any(is_true));
    let parameters = DeleteParams::default();
    let deleted = wait::delete::delete_and_finalize(definitions.clone(), &name, &parameters);
    Box::pin(limited("the end of the definition", deleted)).await.unwrap();
    assert!(definitions.get_opt(&name).await.unwrap().is_none());
}

cases![
    watcher_lists_and_watches,
    watcher_streams_lists,
    controller_keeps_owned_objects,
    finalizer_holds_an_object,
    recorder_publishes_events,
    waits_for_objects,
];
