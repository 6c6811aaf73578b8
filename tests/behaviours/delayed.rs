//! Clients of kinds that may not be installed: every order of the kind's life and the client's. `changes` is what happens
//! to the kind while clients look on.

mod changes;

use k8s_openapi::api::core::v1::ConfigMap;
use kclient::{
    Activation, Client, DeleteParams, Filter, Index, Informer, InformerExt, ObjectKey, Patch, PatchParams,
    Registration, Selection, Subresource, SubresourceCall, WriteError, Writer, WriterExt,
};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube_client::testing::{EventLog, TestClient, assert_eventually};
use serde_json::json;

use crate::discovery::Widgets;
use crate::harness::{CustomKind, Namespace, Server, cases, limited};
use crate::views::{lines, log, names, told};

/// A delayed client of widgets, and what its handler was told.
pub(super) struct Watching {
    pub(super) client: Client<DynamicObject>,
    pub(super) by_name: Index<DynamicObject>,
    pub(super) log: EventLog<DynamicObject>,
    pub(super) registration: Registration,
}

pub(super) fn resource(widgets: &Widgets, version: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(&widgets.group, version, "Widget"), "widgets")
}

pub(super) fn watch(cluster: &TestClient, widgets: &Widgets, version: &str) -> Watching {
    let client = Client::delayed_of(cluster, &resource(widgets, version), Filter::default()).unwrap();
    let by_name = client
        .index("name", |widget: &DynamicObject| widget.metadata.name.clone())
        .unwrap();
    let (log, registration) = log(&client);
    Watching {
        client,
        by_name,
        log,
        registration,
    }
}

impl Watching {
    pub(super) async fn reach(&self, wanted: Activation) {
        let mut activation = self.client.activation();
        let reached = limited("the activation", activation.wait_for(|now| *now == wanted)).await;
        assert_eq!(*reached.unwrap(), wanted);
    }

    pub(super) fn assert_empty(&self) {
        assert!(self.client.view().is_empty() && names(&self.client, None).is_empty());
        assert!(self.by_name.get("a").is_empty() && self.by_name.values().is_empty());
    }
}

/// Creates a widget by plain HTTP.
pub(super) async fn create(server: &Server, widgets: &Widgets, namespace: &Namespace, name: &str) {
    let kind = CustomKind {
        group: widgets.group.clone(),
    };
    kind.served(server).await;
    server
        .post(&kind.at(namespace, ""), &kind.object(name, &json!({})))
        .await
        .created();
}

pub(super) fn cluster(server: &Server) -> TestClient {
    let options = kube_client::Client::builder().user_agent("delayed-case");
    TestClient::new(options.build_with(server.client()).unwrap())
}

fn widget(widgets: &Widgets, namespace: &Namespace, name: &str) -> DynamicObject {
    DynamicObject::new(name, &resource(widgets, "v1")).within(namespace.name())
}

fn is_not_installed<T: std::fmt::Debug>(result: Result<T, WriteError>) -> bool {
    let error = result.expect_err("the kind is absent");
    assert!(error.is_not_found() && !error.to_string().is_empty());
    matches!(error, WriteError::KindNotInstalled { .. })
}

// [D1] [D2] the kind is never there: empty, synced with the watcher, nothing asked about it, writes refused by name
async fn absent_kind(server: Server) {
    let (namespace, widgets) = (server.namespace().await, Widgets::new(&server));
    let cluster = cluster(&server);
    let watching = watch(&cluster, &widgets, "v1");
    assert!(!watching.client.has_synced() && !watching.registration.has_synced());
    assert_eq!(*watching.client.activation().borrow(), Activation::Absent);
    assert_eq!(cluster.stats().tasks, 0, "construction starts nothing");
    cluster.sync().await;
    limited("the sync", watching.client.synced()).await.unwrap();
    assert!(watching.client.has_synced() && watching.registration.has_synced());
    watching.assert_empty();
    let (late, registration) = log(&watching.client);
    limited("the late handler", registration.synced()).await.unwrap();
    assert!(late.events().is_empty() && watching.log.events().is_empty());
    assert_eq!(*watching.client.activation().borrow(), Activation::Absent);

    let (client, key) = (&watching.client, ObjectKey::namespaced(namespace.name(), "a"));
    let object = widget(&widgets, &namespace, "a");
    let before = server.in_memory().map(|fake| fake.requests().len());
    assert!(is_not_installed(client.create_object(&object).await));
    assert!(is_not_installed(client.update_object(&object).await));
    assert!(is_not_installed(
        client.update_status(&object, &crate::client::default()).await
    ));
    assert!(is_not_installed(client.fetch(&key).await));
    let patch = Patch::Merge(json!({"spec": {"n": 1}}));
    let params = PatchParams::default();
    assert!(is_not_installed(
        client.patch(&key, &patch, Subresource::Main, &params).await
    ));
    assert!(is_not_installed(client.delete_object(&key).await));
    let (all, params) = (Selection::default(), DeleteParams::default());
    let error = client
        .delete_collection(Some(namespace.name()), &all, &params)
        .await
        .unwrap_err();
    assert!(matches!(error, WriteError::KindNotInstalled { .. }));
    let scale = client.subresource(&key, "scale", &SubresourceCall::Get).await;
    assert!(matches!(scale, Err(WriteError::KindNotInstalled { .. })));
    let absent = client.ensure_absent(&key, &params).await.unwrap();
    assert!(!absent.was_there(), "what has no kind is not there");
    assert_eq!(
        client.delete_object(&key).await.unwrap_err().to_string(),
        format!("cannot delete Widget {key}: the kind is not installed")
    );
    if let Some(fake) = server.in_memory() {
        assert_eq!(Some(fake.requests().len()), before, "refused without a request");
        assert!(fake.requests().iter().all(|request| request.resource != "widgets"));
    }
    let stats = cluster.stats();
    let informer = stats.informer(&format!("widgets.{}/v1", widgets.group)).unwrap();
    assert_eq!(informer.phase, kube_client::Phase::Absent);
    assert!(informer.failures == 0 && informer.watches_open == 0);
    cluster.end().await;
}

// [D2] [D4] the kind is there before the client: as any client, which has synced when the objects were handled
async fn kind_present_before_construction(server: Server) {
    let (namespace, widgets) = (server.namespace().await, Widgets::new(&server));
    widgets.define().await;
    create(&server, &widgets, &namespace, "a").await;
    let cluster = cluster(&server);
    let watching = watch(&cluster, &widgets, "v1");
    let (gate, held) = (
        std::sync::Arc::new(tokio::sync::Notify::new()),
        std::sync::Arc::new(tokio::sync::Notify::new()),
    );
    let slow = watching.client.on_event_async("slow", {
        let (gate, held) = (gate.clone(), held.clone());
        move |_| {
            let (gate, held) = (gate.clone(), held.clone());
            async move {
                held.notify_one();
                gate.notified().await;
            }
        }
    });
    cluster.sync().await;
    assert!(
        watching.client.has_synced_ignoring_handlers(),
        "the list was waited for"
    );
    limited("the slow handler", held.notified()).await;
    assert!(
        !watching.client.has_synced() && !slow.has_synced(),
        "an object is yet to be handled"
    );
    assert_eq!(*watching.client.activation().borrow(), Activation::Syncing);
    gate.notify_one();
    limited("the sync", watching.client.synced()).await.unwrap();
    watching.reach(Activation::Active).await;
    assert_eq!(lines(&watching.log), ["+a!"]);
    assert_eq!(names(&watching.client, None), ["a"]);
    assert_eq!(watching.by_name.get("a").len(), 1);
    widgets.remove().await;
    cluster.end().await;
}

// [D2] the kind comes between construction and start
async fn kind_comes_before_the_start(server: Server) {
    let (namespace, widgets) = (server.namespace().await, Widgets::new(&server));
    let cluster = cluster(&server);
    let watching = watch(&cluster, &widgets, "v1");
    widgets.define().await;
    create(&server, &widgets, &namespace, "a").await;
    cluster.sync().await;
    limited("the sync", watching.client.synced()).await.unwrap();
    assert_eq!(lines(&watching.log), ["+a!"], "synced with what was there");
    watching.reach(Activation::Active).await;
    widgets.remove().await;
    cluster.end().await;
}

// [D2] [D3] the kind comes after the start: handlers get Added, indexes fill, late handlers and clients work
async fn kind_comes_after_the_start(server: Server) {
    let (namespace, widgets) = (server.namespace().await, Widgets::new(&server));
    let cluster = cluster(&server);
    let watching = watch(&cluster, &widgets, "v1");
    cluster.sync().await;
    limited("the sync", watching.client.synced()).await.unwrap();
    let mut activation = watching.client.activation();
    assert_eq!(*activation.borrow_and_update(), Activation::Absent);
    widgets.define().await;
    create(&server, &widgets, &namespace, "a").await;
    watching.reach(Activation::Active).await;
    // Listed before or after the object came: one Added either way.
    let events = watching.log.wait_for(1).await;
    assert_eq!(events[0].object().metadata.name.as_deref(), Some("a"));
    assert!(
        watching.client.has_synced() && watching.registration.has_synced(),
        "it never went back"
    );
    assert_eq!(watching.by_name.get("a").len(), 1);
    watching.log.take();

    let (late, registration) = log(&watching.client);
    limited("the late handler", registration.synced()).await.unwrap();
    assert_eq!(lines(&late), ["+a!"]);
    let other = watch(&cluster, &widgets, "v1");
    limited("the late client", other.client.synced()).await.unwrap();
    other.reach(Activation::Active).await;
    assert_eq!(lines(&other.log), ["+a!"]);
    watching
        .client
        .create_object(&widget(&widgets, &namespace, "b"))
        .await
        .unwrap();
    for log in [&watching.log, &late, &other.log] {
        assert_eq!(told(log, 1).await, ["+b"]);
    }
    let resource = format!("widgets.{}/v1", widgets.group);
    assert_eq!(
        cluster.stats().informer(&resource).unwrap().watches_open,
        1,
        "one watch for all"
    );

    // [D6] one handler is removed, and no other
    watching.client.shutdown_handler(&watching.registration).unwrap();
    watching
        .client
        .delete_object(&ObjectKey::namespaced(namespace.name(), "b"))
        .await
        .unwrap();
    for log in [&late, &other.log] {
        assert_eq!(told(log, 1).await, ["-b"]);
    }
    assert!(watching.log.events().is_empty());
    widgets.remove().await;
    cluster.end().await;
}

// [D6] a handler that is removed while the kind is absent hears nothing when it comes; the others do
async fn handler_removed_while_the_kind_is_absent(server: Server) {
    let (namespace, widgets) = (server.namespace().await, Widgets::new(&server));
    let cluster = cluster(&server);
    let watching = watch(&cluster, &widgets, "v1");
    let (other, registration) = log(&watching.client);
    cluster.sync().await;
    watching.client.shutdown_handler(&registration).unwrap();
    limited("its end", registration.removed()).await;
    widgets.define().await;
    create(&server, &widgets, &namespace, "a").await;
    watching.log.wait_for(1).await;
    watching.reach(Activation::Active).await;
    assert!(other.events().is_empty());
    assert_eq!(
        cluster
            .stats()
            .informer(&format!("widgets.{}/v1", widgets.group))
            .unwrap()
            .handlers
            .len(),
        1
    );
    widgets.remove().await;
    cluster.end().await;
}

// One informer for those who wait for the kind and those who do not: these do not sync before it was listed
async fn delayed_and_other_clients_share_a_watch(server: Server) {
    let (namespace, widgets) = (server.namespace().await, Widgets::new(&server));
    let cluster = cluster(&server);
    let watching = watch(&cluster, &widgets, "v1");
    let plain = Client::dynamic(&cluster, &resource(&widgets, "v1"), Filter::default()).unwrap();
    let (plain_log, plain_registration) = log(&plain);
    cluster.start();
    limited("the sync", watching.client.synced()).await.unwrap();
    assert!(!plain.has_synced() && !plain_registration.has_synced());
    let stop = tokio_util::sync::CancellationToken::new();
    let fail_fast = kube_client::SyncOptions::fail_fast();
    let error = limited("the refusal", cluster.run_and_wait_with(&stop, fail_fast))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("not installed"), "{error}");
    widgets.define().await;
    create(&server, &widgets, &namespace, "a").await;
    limited("the sync of the other", plain.synced()).await.unwrap();
    watching.log.wait_for(1).await;
    plain_log.wait_for(1).await;
    let resource = format!("widgets.{}/v1", widgets.group);
    assert_eq!(cluster.stats().informer(&resource).unwrap().watches_open, 1);
    assert_eq!(
        cluster
            .stats()
            .watched_twice
            .iter()
            .filter(|name| **name == resource)
            .count(),
        0
    );
    widgets.remove().await;
    cluster.end().await;
}

// A built-in kind may be delayed as well: it is there
async fn built_in_kind_is_active(server: Server) {
    let namespace = server.namespace().await;
    crate::informer::create(&namespace, "a", "1").await;
    let cluster = cluster(&server);
    let filter = || Filter::default().namespace(namespace.name());
    let client = Client::<ConfigMap>::delayed(&cluster, filter()).unwrap();
    let plain = Client::<ConfigMap>::filtered(&cluster, filter()).unwrap();
    assert_eq!(*plain.activation().borrow(), Activation::Active);
    cluster.sync().await;
    limited("the sync", client.synced()).await.unwrap();
    assert!(names(&client, None).contains(&"a".to_owned()));
    assert_eventually(
        "activation",
        async || *client.activation().borrow(),
        |now| *now == Activation::Active,
    )
    .await;
    assert_eq!(cluster.stats().watches_open(), 2, "of maps and of definitions");
    cluster.end().await;
}

cases!(
    absent_kind,
    kind_present_before_construction,
    kind_comes_before_the_start,
    kind_comes_after_the_start,
    handler_removed_while_the_kind_is_absent,
    delayed_and_other_clients_share_a_watch,
    built_in_kind_is_active,
);
