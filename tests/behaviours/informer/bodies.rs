//! What comes over the wire and what becomes of it: objects that do not decode, transforms, large bodies, kinds that are not there.
//! [I21] [I24] [I26]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::{ApiResource, DynamicObject};
use kube_client::testing::EventLog;
use kube_client::{
    InformerOptions, InitialList, ListMode, Namespaces, ObjectKey, Scope, SyncError, SyncOptions, Transform,
    WatchErrorKind,
};
use serde_json::json;

use super::histories::note::Note;
use super::{Rig, assert_folds_to_the_servers_state, create, delete, key, update, value};
use crate::harness::{CustomKind, Namespace, Server, cases, eventually};

const PATIENCE: Duration = Duration::from_mins(2);

pub(super) fn in_namespace<K>(namespace: &Namespace, mode: ListMode) -> InformerOptions<K> {
    InformerOptions::default()
        .scope(Scope::Namespaced) // dynamic kinds do not tell theirs
        .namespaces(Namespaces::one(namespace.name()))
        .list_mode(mode)
        .initial_list(InitialList::Consistent) // a real server's cache may be a little old
}

/// Waits until an informer has seen everything written to a namespace so far, by one more write.
async fn seen<K: kube_client::Object>(rig: &Rig, namespace: &Namespace, informer: &kube_client::Informer<K>) {
    let mark = json!({"metadata": {"generateName": "mark-"}, "data": {"v": "0"}});
    let mark = namespace.create("configmaps", &mark).await;
    let mark: DynamicObject = serde_json::from_value(mark).unwrap();
    if let Err(error) = informer.caught_up(&mark, PATIENCE).await {
        panic!("{error}; {:?}; {:?}", informer.stats(), rig.errors());
    }
}

// [I21] in a list and in a watch: the rest goes on, status names it, the last good version stays until a good one or a
// delete comes
async fn undecodable_objects_break_nothing_and_are_named(server: Server) {
    for mode in [ListMode::Streaming, ListMode::Paged] {
        let rig = Rig::new(server.clone());
        let namespace = rig.server.namespace().await;
        create(&namespace, "a", "1").await;
        create(&namespace, "b", "not a number").await;
        create(&namespace, "c", "3").await;
        let notes = rig
            .client
            .informers()
            .typed::<Note>(in_namespace(&namespace, mode))
            .unwrap();
        rig.run().await;
        let values = || {
            let get = |name: &str| notes.get(&key(&namespace, name)).map(|note| note.data.v);
            ["a", "b", "c"].map(get)
        };
        let named = || {
            let mut named: Vec<ObjectKey> = notes.undecodable().into_iter().map(|(key, _)| key).collect();
            named.sort();
            named.iter().map(|key| key.name().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            (values(), named()),
            ([Some(1), None, Some(3)], vec!["b".to_owned()]),
            "{mode:?}"
        );
        assert!(
            notes.undecodable()[0].1.contains("invalid digit"),
            "{:?}",
            notes.undecodable()
        );
        // on the watch: bad to good, good to bad, bad all along
        update(&rig.server, &namespace, "b", "2").await;
        update(&rig.server, &namespace, "c", "bad").await;
        create(&namespace, "d", "bad").await;
        seen(&rig, &namespace, &notes).await;
        assert_eq!(
            (values(), named()),
            ([Some(1), Some(2), Some(3)], vec!["c".to_owned(), "d".to_owned()])
        );
        assert_eq!(notes.stats().undecodable, 2);
        // a delete clears it, whether there was a good version or not; so does a good version
        delete(&rig.server, &namespace, "c").await;
        delete(&rig.server, &namespace, "d").await;
        update(&rig.server, &namespace, "a", "bad").await;
        update(&rig.server, &namespace, "a", "10").await;
        seen(&rig, &namespace, &notes).await;
        assert_eq!((values(), named()), ([Some(10), Some(2), None], vec![]));
        let decode = |error: &kube_client::WatchError| error.kind == WatchErrorKind::Undecodable;
        let errors = rig.errors();
        assert!(errors.iter().all(decode), "{errors:?}");
        assert!(
            errors
                .iter()
                .any(|error| error.to_string().contains(&format!("{}/b", namespace.name())))
        );
        rig.end().await;
    }
}

/// A transform that counts its calls and leaves a mark in each object.
fn counting(calls: &Arc<AtomicUsize>) -> Transform<ConfigMap> {
    let calls = Arc::clone(calls);
    Transform::new("mark", move |map: &mut ConfigMap| {
        calls.fetch_add(1, Ordering::SeqCst);
        map.data
            .get_or_insert_default()
            .entry("v".into())
            .or_default()
            .push('!');
    })
}

// [I26] once for each object that is received: in a list of either form, and in each event
async fn transform_runs_once_per_received_object(server: Server) {
    for mode in [ListMode::Streaming, ListMode::Paged] {
        let rig = Rig::new(server.clone());
        let namespace = rig.server.namespace().await;
        for n in 0..5 {
            create(&namespace, &format!("m{n}"), "1").await;
        }
        let calls = Arc::new(AtomicUsize::new(0));
        let maps = rig.maps(in_namespace(&namespace, mode).transform(counting(&calls)));
        rig.run().await;
        let called = || calls.load(Ordering::SeqCst);
        assert_eq!(called(), maps.len(), "{mode:?}: each object of the list");
        let before = called();
        let m = |n: u32| value(&maps.get(&key(&namespace, &format!("m{n}"))).unwrap());
        assert_eq!(m(0), "1!");
        update(&rig.server, &namespace, "m0", "2").await;
        update(&rig.server, &namespace, "m0", "3").await;
        delete(&rig.server, &namespace, "m1").await;
        seen(&rig, &namespace, &maps).await;
        assert_eq!(
            called(),
            before + 4,
            "{mode:?}: two updates, the deleted object, and the mark"
        );
        assert_eq!((m(0), m(2)), ("3!".to_owned(), "1!".to_owned()));
        rig.end().await;
    }
}

// Lists and events of any size, with text of several bytes a character, in both forms.
async fn large_objects_and_long_lists_come_whole(server: Server) {
    let rig = Rig::new(server);
    let namespace = rig.server.namespace().await;
    let large = "ü€😀\\\"\n".repeat(60_000); // about 800 kB as JSON
    create(&namespace, "large", &large).await;
    for n in 0..120 {
        create(&namespace, &format!("m{n}"), &format!("{n} {}", "x".repeat(2_000))).await;
    }
    for mode in [ListMode::Streaming, ListMode::Paged] {
        let maps = rig.maps(in_namespace(&namespace, mode).fields(match mode {
            ListMode::Streaming => "metadata.name!=x",
            _ => "metadata.name!=y",
        }));
        maps.start();
        maps.synced().await.unwrap();
        assert_eq!(value(&maps.get(&key(&namespace, "large")).unwrap()), large);
        assert_eq!(super::cached(&maps).len(), 121, "{mode:?}");
        let changed = format!("{mode:?} {large}");
        update(&rig.server, &namespace, "large", &changed).await;
        seen(&rig, &namespace, &maps).await;
        assert_eq!(value(&maps.get(&key(&namespace, "large")).unwrap()), changed);
        update(&rig.server, &namespace, "large", &large).await;
        rig.client.informers().remove(&maps);
        for (name, _) in super::cached(&maps) {
            if name.starts_with("mark-") {
                delete(&rig.server, &namespace, &name).await;
            }
        }
    }
    rig.end().await;
}

// [I24] a kind that the server does not serve is told as such
async fn missing_kind_is_told(server: Server) {
    let rig = Rig::new(server);
    let resource = ApiResource {
        group: "absent.example.com".into(),
        version: "v1".into(),
        api_version: "absent.example.com/v1".into(),
        kind: "Widget".into(),
        plural: "widgets".into(),
    };
    let _widgets = rig
        .client
        .informers()
        .dynamic(&resource, InformerOptions::default())
        .unwrap();
    let waiting = rig.client.run_and_wait_with(&rig.stop, SyncOptions::fail_fast());
    let Err(SyncError::Blocked { informers }) = waiting.await else {
        panic!("not blocked");
    };
    assert_eq!(informers[0].error.kind, WatchErrorKind::NotFound);
    assert_eq!(
        informers[0].error.to_string(),
        "not found: the server does not serve widgets.absent.example.com in version v1 (is its CRD installed?): \
         404 page not found"
    );
    rig.end().await;
}

cases!(
    undecodable_objects_break_nothing_and_are_named,
    transform_runs_once_per_received_object,
    large_objects_and_long_lists_come_whole,
    missing_kind_is_told,
);

// Larger than anything the real store takes: 4 MiB, in a list and in an event, cut into small chunks.
#[tokio::test(start_paused = true)]
async fn object_of_four_mebibytes_comes_whole() {
    use fake_apiserver::{Fault, Rule};

    let rig = Rig::fake();
    let definition = CustomKind::definition("large.example.com");
    rig.memory().load(&definition).unwrap();
    let object = |name: &str, text: &str| {
        json!({
            "apiVersion": "large.example.com/v1", "kind": "Widget",
            "metadata": {"name": name, "namespace": "default"}, "text": text
        })
    };
    let text = "é0123456789".repeat((4 << 20) / 12);
    rig.memory().load(&object("a", &text)).unwrap();
    rig.memory()
        .inject(Rule::new(Fault::Chunks { size: 1_000 }).resource("widgets.large.example.com"));
    let resource = ApiResource {
        group: "large.example.com".into(),
        version: "v1".into(),
        api_version: "large.example.com/v1".into(),
        kind: "Widget".into(),
        plural: "widgets".into(),
    };
    for mode in [ListMode::Streaming, ListMode::Paged] {
        let options = InformerOptions::default().list_mode(mode).labels(match mode {
            ListMode::Paged => kube::core::Expression::DoesNotExist("paged".into()).into(),
            _ => kube::core::Selector::default(),
        });
        let widgets = rig.client.informers().dynamic(&resource, options).unwrap();
        let log = EventLog::new();
        log.register(&widgets);
        widgets.start();
        widgets.synced().await.unwrap();
        let cached = widgets.get(&ObjectKey::namespaced("default", "a")).unwrap();
        assert_eq!(cached.data["text"], text, "{mode:?}");
        let name = format!("{mode:?}").to_lowercase();
        rig.memory().load(&object(&name, &text)).unwrap();
        let key = ObjectKey::namespaced("default", &name);
        eventually("the event", || async { widgets.get(&key) }).await;
        assert_eq!(widgets.get(&key).unwrap().data["text"], text, "{mode:?}");
        // changed, as it is and with another beside it, and deleted: each event brings it whole
        let path = |name: &str| format!("/apis/large.example.com/v1/namespaces/default/widgets/{name}");
        let changed = json!({"metadata": {"labels": {"changed": name}}});
        for name in ["a", &name] {
            rig.server.merge(&path(name), &changed).await.ok();
        }
        rig.memory().load(&object("gone", &text)).unwrap();
        rig.server.delete(&path("gone")).await.ok();
        assert_folds_to_the_servers_state(&rig.server, path("").trim_end_matches('/'), &widgets, &log).await;
        let told: Vec<String> = log.lines(|widget| widget.data["text"].as_str().unwrap().len().to_string());
        let size = text.len();
        let last = [
            format!("+default/{name}={size}"),
            format!("default/a={size}>{size}"),
            format!("default/{name}={size}>{size}"),
            format!("+default/gone={size}"),
            format!("-default/gone={size}"),
        ];
        assert_eq!(told[told.len() - 5..], last, "{mode:?}");
    }
    rig.end().await;
}

// [I26] a relist runs it once for each object that it brings, kept or not; nothing that is kept is changed again
#[tokio::test(start_paused = true)]
async fn transform_runs_once_per_object_of_a_relist() {
    use fake_apiserver::{Fault, Rule, StatusFault, Verb};

    for mode in [ListMode::Streaming, ListMode::Paged] {
        let rig = Rig::fake();
        let namespace = rig.server.namespace().await;
        for n in 0..5 {
            create(&namespace, &format!("m{n}"), "1").await;
        }
        let calls = Arc::new(AtomicUsize::new(0));
        let maps = rig.maps(in_namespace(&namespace, mode).transform(counting(&calls)));
        rig.run().await;
        assert_eq!(calls.load(Ordering::SeqCst), 5);
        let expired = Fault::WatchError {
            after: 0,
            status: StatusFault::new(410),
        };
        rig.memory()
            .inject(Rule::new(expired).verb(Verb::Watch).resource("configmaps").times(1));
        rig.memory().close_watches("configmaps");
        eventually("a second list", || async { (maps.stats().lists == 2).then_some(()) }).await;
        assert_eq!(calls.load(Ordering::SeqCst), 10, "{mode:?}");
        let marks = super::cached(&maps);
        assert!(marks.values().all(|value| value == "1!"), "{mode:?}: {marks:?}");
        rig.end().await;
    }
}
