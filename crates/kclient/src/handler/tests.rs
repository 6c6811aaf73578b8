//! What each handler makes of events, without an informer.

use std::hash::{Hash, Hasher};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use k8s_openapi::jiff::Timestamp;
use kube_client::{Event, EventHandler, Handled, ObjectKey};

use super::*;
use crate::queue::{Action, Queue};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;

fn queue() -> Queue<ObjectKey> {
    Queue::builder("q")
        .reconciler(|_: ObjectKey| async { Ok(Action::Done) })
        .build()
}

fn key(text: &str) -> ObjectKey {
    text.parse().unwrap()
}

fn pod(name: &str, change: impl FnOnce(&mut ObjectMeta)) -> Arc<Pod> {
    let mut metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some("ns".to_owned()),
        uid: Some(format!("uid-{name}")),
        resource_version: Some("1".to_owned()),
        ..ObjectMeta::default()
    };
    change(&mut metadata);
    Arc::new(Pod {
        metadata,
        ..Pod::default()
    })
}

fn plain(name: &str) -> Arc<Pod> {
    pod(name, |_| {})
}

fn owner(api_version: &str, kind: &str, name: &str, controller: Option<bool>) -> OwnerReference {
    OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: "u".to_owned(),
        controller,
        block_owner_deletion: None,
    }
}

fn owned(owners: &[OwnerReference]) -> Arc<Pod> {
    pod("child", |metadata| metadata.owner_references = Some(owners.to_vec()))
}

fn added(object: Arc<Pod>) -> Event<Pod> {
    Event::Added { object, initial: false }
}

fn updated(old: Arc<Pod>, new: Arc<Pod>) -> Event<Pod> {
    Event::Updated { old, new }
}

fn tell(handler: &mut dyn EventHandler<Pod>, events: &[Event<Pod>]) {
    assert!(matches!(handler.handle(events), Handled::Done));
}

/// The keys that a handler adds to a queue for some events.
fn keys(queue: &Queue<ObjectKey>, handler: &mut dyn EventHandler<Pod>, events: &[Event<Pod>]) -> Vec<String> {
    tell(handler, events);
    queue.take_ready().into_iter().map(|(key, _)| key.to_string()).collect()
}

type Names = Arc<Mutex<Vec<String>>>;

/// A closure that notes the names it is called with.
fn names() -> (Names, impl FnMut(&Arc<Pod>) + Send + 'static) {
    let names = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&names);
    (names, move |pod: &Arc<Pod>| {
        noted.lock().unwrap().push(pod.metadata.name.clone().unwrap());
    })
}

// [H1] group and kind match, in any version; the owner's name, the object's namespace
#[tokio::test]
async fn parents_match_by_group_and_kind_in_any_version() {
    let queue = queue();
    let mut handler = enqueue_for_parent::<ReplicaSet>(&queue);
    let pod = owned(&[
        owner("apps/v1", "ReplicaSet", "same", None),
        owner("apps/v1beta2", "ReplicaSet", "old-version", None),
        owner("extensions/v1beta1", "ReplicaSet", "other-group", None),
        owner("v1", "ReplicaSet", "core-group", None),
        owner("apps/v1", "Deployment", "other-kind", None),
    ]);
    assert_eq!(keys(&queue, &mut handler, &[added(pod)]), ["ns/same", "ns/old-version"]);

    // The core group is the empty one, in both directions.
    let mut pods = enqueue_for_parent::<Pod>(&queue);
    let child = owned(&[
        owner("v1", "Pod", "core", None),
        owner("example.com/v1", "Pod", "other", None),
    ]);
    assert_eq!(keys(&queue, &mut pods, &[added(child)]), ["ns/core"]);
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

// [H1] malformed references are logged and skipped, the others count
#[tokio::test]
async fn malformed_owner_references_are_logged_and_skipped() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    // A listener that stays: without one, another test can have a line switched off for good just as this one begins.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(LevelFilter::DEBUG));
    let _logged = tracing::subscriber::set_default(subscriber);
    let queue = queue();
    let mut handler = enqueue_for_parent::<ReplicaSet>(&queue);
    let pod = owned(&[
        owner("apps/v1/more", "ReplicaSet", "three-parts", None),
        owner("apps/", "ReplicaSet", "no-version", None),
        owner("", "ReplicaSet", "nothing", None),
        owner("apps/v1", "", "no-kind", None),
        owner("apps/v1", "ReplicaSet", "", None),
        owner("apps/v1", "ReplicaSet", "good", None),
    ]);
    assert_eq!(keys(&queue, &mut handler, &[added(pod)]), ["ns/good"]);
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert_eq!(
        text.lines()
            .filter(|line| line.contains("malformed owner reference"))
            .count(),
        5,
        "{text}"
    );
    assert!(text.contains("ns/child"), "the child is named: {text}");
}

// [H2] add, update, delete and stale delete each call the handler with the newest object
#[test]
fn object_handler_hears_of_every_event() {
    let (heard, note) = names();
    let mut handler = object_handler(note);
    let events = [
        Event::Added {
            object: plain("initial"),
            initial: true,
        },
        added(plain("added")),
        updated(plain("old"), plain("new")),
        Event::Deleted {
            object: plain("deleted"),
            stale: false,
        },
        Event::Deleted {
            object: plain("stale"),
            stale: true,
        },
    ];
    tell(&mut handler, &events);
    assert_eq!(*heard.lock().unwrap(), ["initial", "added", "new", "deleted", "stale"]);
}

// [H2] the same for the handler of a queue, with a low priority for what is not news
#[tokio::test]
async fn queue_handler_adds_every_key_and_initial_ones_with_low_priority() {
    let queue = queue();
    let same = plain("resynced");
    let events = [
        Event::Added {
            object: plain("initial"),
            initial: true,
        },
        added(plain("added")),
        updated(
            plain("updated"),
            pod("updated", |meta| meta.resource_version = Some("2".to_owned())),
        ),
        updated(Arc::clone(&same), same),
        Event::Deleted {
            object: plain("deleted"),
            stale: false,
        },
        Event::Deleted {
            object: plain("stale"),
            stale: true,
        },
    ];
    tell(&mut queue.handler::<Pod>(), &events);
    let expected = [
        ("ns/added", 0),
        ("ns/updated", 0),
        ("ns/deleted", 0),
        ("ns/stale", 0),
        ("ns/initial", -100),
        ("ns/resynced", -100),
    ];
    assert_eq!(
        queue.take_ready(),
        expected.map(|(name, priority)| (key(name), priority))
    );

    // Configurable, and narrowed by gates.
    let mut handler = queue
        .handler::<Pod>()
        .low_priority(7)
        .only(spec_changed)
        .only(|event| event.old().is_none());
    tell(&mut handler, &events[..2]);
    assert_eq!(queue.take_ready(), [(key("ns/initial"), 7), (key("ns/added"), 0)]);

    queue.add_object(&*plain("direct"));
    queue.add_object(&Namespace {
        metadata: ObjectMeta {
            name: Some("cluster".to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    });
    assert_eq!(queue.take_ready(), [(key("ns/direct"), 0), (key("cluster"), 0)]);
}

// [H2] the filtered handler looks at old OR new on update
#[test]
fn filtered_handler_looks_at_old_or_new() {
    let (heard, note) = names();
    let mut handler = filtered_object_handler(note, |pod: &Pod| pod.metadata.labels.is_some());
    let labelled = |name: &str| {
        pod(name, |meta| {
            meta.labels = Some([("a".to_owned(), "b".to_owned())].into());
        })
    };
    let events = [
        added(plain("no")),
        added(labelled("added")),
        updated(plain("x"), plain("no")),
        updated(plain("x"), labelled("enters")),
        updated(labelled("x"), plain("leaves")),
        updated(labelled("x"), labelled("stays")),
        Event::Deleted {
            object: plain("no"),
            stale: false,
        },
        Event::Deleted {
            object: labelled("deleted"),
            stale: true,
        },
    ];
    tell(&mut handler, &events);
    assert_eq!(
        *heard.lock().unwrap(),
        ["added", "enters", "leaves", "stays", "deleted"]
    );
}

// [H2] spec_change_handler ignores updates of status, labels and annotations: the generation decides
#[test]
fn spec_change_follows_the_generation() {
    let (heard, note) = names();
    let mut handler = spec_change_handler(note);
    let at = |name: &str, generation: i64, version: &str| {
        pod(name, |meta| {
            meta.generation = Some(generation);
            meta.resource_version = Some(version.to_owned());
        })
    };
    let labelled = pod("labelled", |meta| {
        meta.generation = Some(3);
        meta.resource_version = Some("9".to_owned());
        meta.labels = Some([("a".to_owned(), "b".to_owned())].into());
    });
    let deleting = pod("deleting", |meta| {
        meta.generation = Some(3);
        meta.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    });
    let events = [
        added(at("added", 1, "1")),
        updated(at("x", 1, "1"), at("status", 1, "2")),
        updated(at("x", 3, "1"), labelled),
        updated(at("x", 1, "2"), at("spec", 2, "3")),
        updated(at("x", 3, "2"), deleting),
        Event::Deleted {
            object: at("deleted", 3, "4"),
            stale: false,
        },
    ];
    tell(&mut handler, &events);
    assert_eq!(*heard.lock().unwrap(), ["added", "spec", "deleting", "deleted"]);
}

// [H3] without a generation, or with 0, on either side, the resourceVersion decides
#[test]
fn spec_change_falls_back_to_the_resource_version() {
    let with = |generation: Option<i64>, version: &str| {
        pod("pod", |meta| {
            meta.generation = generation;
            meta.resource_version = Some(version.to_owned());
        })
    };
    for (old, new) in [
        (None, None),
        (Some(0), Some(0)),
        (None, Some(1)),
        (Some(1), None),
        (Some(0), Some(1)),
    ] {
        assert!(
            spec_changed(&updated(with(old, "1"), with(new, "2"))),
            "{old:?} {new:?}"
        );
        assert!(
            !spec_changed(&updated(with(old, "1"), with(new, "1"))),
            "{old:?} {new:?}"
        );
    }
    assert!(!spec_changed(&updated(with(Some(1), "1"), with(Some(1), "2"))));
}

// [H3] the key of a cluster-scoped owner has no namespace, although the object has one
#[tokio::test]
async fn cluster_scoped_owners_have_no_namespace() {
    let queue = queue();
    let mut handler = enqueue_for_parent::<Node>(&queue);
    let mirror = owned(&[owner("v1", "Node", "worker-1", Some(true))]);
    assert_eq!(keys(&queue, &mut handler, &[added(mirror.clone())]), ["worker-1"]);

    // The same by the kind at run time.
    let resource = kube::core::ApiResource::erase::<Node>(&());
    let mut dynamic = enqueue_for_parent_kind(&queue, &resource, kube_client::Scope::Cluster);
    assert_eq!(keys(&queue, &mut dynamic, &[added(mirror)]), ["worker-1"]);
}

// [H1] an object without a namespace cannot say in which one its owner is: skipped, instead of a key that names nothing
#[tokio::test]
async fn namespaced_owners_of_objects_without_a_namespace_are_skipped() {
    let queue = queue();
    let homeless = |namespace: Option<&str>| {
        pod("child", |meta| {
            meta.namespace = namespace.map(str::to_owned);
            meta.owner_references = Some(vec![owner("apps/v1", "ReplicaSet", "web", None)]);
        })
    };
    let resource = kube::core::ApiResource::erase::<ReplicaSet>(&());
    for namespace in [None, Some("")] {
        let mut handler = enqueue_for_parent::<ReplicaSet>(&queue);
        assert_eq!(keys(&queue, &mut handler, &[added(homeless(namespace))]), [""; 0]);
        // Whoever does not know the scope gets what there is.
        let mut unknown = enqueue_for_parent_kind(&queue, &resource, kube_client::Scope::Unknown);
        assert_eq!(keys(&queue, &mut unknown, &[added(homeless(namespace))]), ["web"]);
    }
    let mut unknown = enqueue_for_parent_kind(&queue, &resource, kube_client::Scope::Unknown);
    assert_eq!(keys(&queue, &mut unknown, &[added(homeless(Some("ns")))]), ["ns/web"]);
}

/// A key that counts how often two of its kind are compared.
#[derive(Clone, Debug)]
struct Counted(u32, Arc<AtomicUsize>);

impl PartialEq for Counted {
    fn eq(&self, other: &Self) -> bool {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0 == other.0
    }
}

impl Eq for Counted {}

impl Hash for Counted {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

// [H3] one object that names very many keys costs a step for each, not for each pair: it may be anybody's annotation
#[tokio::test]
async fn very_many_keys_are_told_once_each() {
    let queue = Queue::builder("many")
        .reconciler(|_: Counted| async { Ok(Action::Done) })
        .build();
    let compared = Arc::new(AtomicUsize::new(0));
    let mut handler = enqueue_for(&queue, {
        let compared = Arc::clone(&compared);
        move |_: &Pod| {
            let compared = Arc::clone(&compared);
            (0..5_000).map(move |n| Counted(n, Arc::clone(&compared)))
        }
    });
    tell(&mut handler, &[updated(plain("a"), plain("a"))]);
    assert_eq!(queue.len(), 5_000);
    let compared = compared.load(Ordering::Relaxed);
    assert!(compared < 50_000, "{compared} comparisons");
}

// [H3] owners of old and new, each once
#[tokio::test]
async fn owners_of_old_and_new_are_told_once() {
    let queue = queue();
    let mut handler = enqueue_for_parent::<ReplicaSet>(&queue);
    let set = |name: &str| owner("apps/v1", "ReplicaSet", name, None);
    let event = updated(owned(&[set("left"), set("kept")]), owned(&[set("kept"), set("new")]));
    assert_eq!(
        keys(&queue, &mut handler, std::slice::from_ref(&event)),
        ["ns/left", "ns/kept", "ns/new"]
    );
    let deleted = Event::Deleted {
        object: owned(&[set("gone")]),
        stale: true,
    };
    assert_eq!(keys(&queue, &mut handler, &[deleted]), ["ns/gone"]);
}

// [H3] controller_only passes the managing owner only
#[tokio::test]
async fn controller_only_ignores_other_owners() {
    let queue = queue();
    let mut handler = enqueue_for_parent::<Deployment>(&queue).controller_only();
    let pod = owned(&[
        owner("apps/v1", "Deployment", "plain", None),
        owner("apps/v1", "Deployment", "not", Some(false)),
        owner("apps/v1", "Deployment", "managing", Some(true)),
    ]);
    assert_eq!(keys(&queue, &mut handler, &[added(pod)]), ["ns/managing"]);
}

// [H3] enqueue_for maps old and new, each key once, keys of any type
#[tokio::test]
async fn enqueue_for_maps_old_and_new() {
    let queue = Queue::builder("nodes")
        .reconciler(|_: String| async { Ok(Action::Done) })
        .build();
    let mut handler = enqueue_for(&queue, |pod: &Pod| {
        pod.metadata
            .labels
            .iter()
            .flatten()
            .map(|(_, node)| node.clone())
            .collect::<Vec<_>>()
    });
    let on = |nodes: &[&str]| {
        pod("pod", |meta| {
            meta.labels = Some(
                nodes
                    .iter()
                    .enumerate()
                    .map(|(at, node)| (at.to_string(), (*node).to_owned()))
                    .collect(),
            );
        })
    };
    tell(&mut handler, &[updated(on(&["a", "b"]), on(&["b", "c"]))]);
    tell(
        &mut handler,
        &[Event::Added {
            object: on(&["d", "d"]),
            initial: true,
        }],
    );
    let expected = [("a", 0), ("b", 0), ("c", 0), ("d", -100)];
    assert_eq!(
        queue.take_ready(),
        expected.map(|(node, priority)| (node.to_owned(), priority))
    );
}

#[test]
fn event_closures_are_called_by_kind_of_event() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let note = |what: &'static str| {
        let log = Arc::clone(&log);
        move |pod: &Arc<Pod>, flag: bool| {
            log.lock()
                .unwrap()
                .push(format!("{what} {} {flag}", pod.metadata.name.as_deref().unwrap()));
        }
    };
    let updates = Arc::clone(&log);
    let mut handler = event_handler::<Pod>()
        .on_add(note("add"))
        .on_update(move |old, new| {
            updates
                .lock()
                .unwrap()
                .push(format!("update {:?} {:?}", old.metadata.name, new.metadata.name));
        })
        .on_delete(note("delete"));
    let events = [
        Event::Added {
            object: plain("a"),
            initial: true,
        },
        updated(plain("b"), plain("c")),
        Event::Deleted {
            object: plain("d"),
            stale: false,
        },
    ];
    tell(&mut handler, &events);
    assert_eq!(
        *log.lock().unwrap(),
        ["add a true", "update Some(\"b\") Some(\"c\")", "delete d false"]
    );
    tell(&mut event_handler::<Pod>(), &events);
}

// [H1] annotations may name keys: malformed ones are logged and skipped, the others count
#[tokio::test]
async fn malformed_keys_in_annotations_are_logged_and_skipped() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    // A listener that stays: without one, another test can have a line switched off for good just as this one begins.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(LevelFilter::DEBUG));
    let _logged = tracing::subscriber::set_default(subscriber);
    let queue = queue();
    let mut handler = enqueue_for::<Pod, _, _>(&queue, annotated_keys("example.com/used-by"));
    let used_by = |text: &str| {
        pod("secret", |meta| {
            meta.annotations = Some([("example.com/used-by".to_owned(), text.to_owned())].into());
        })
    };
    let mut named = |text: &str| keys(&queue, &mut handler, &[added(used_by(text))]);
    assert_eq!(named("ns/web"), ["ns/web"]);
    assert_eq!(named(" ns/web , node-1,ns/web,"), ["ns/web", "node-1"]);
    assert_eq!(named(""), [""; 0]);
    assert_eq!(named(" , "), [""; 0]);
    assert!(log.0.lock().unwrap().is_empty(), "nothing was wrong so far");
    assert_eq!(named("a/b/c,/x,x/,/,ns/good"), ["ns/good"]);
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for part in [
        "\"a/b/c\"",
        "\"/x\"",
        "\"x/\"",
        "\"/\"",
        "ns/secret",
        "example.com/used-by",
    ] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    assert_eq!(text.lines().count(), 4, "{text}");
    assert_eq!(named(&"a/b/c,".repeat(1_000)), [""; 0]);
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert_eq!(text.lines().count(), 4 + 8 + 1, "{text}");
    assert!(text.contains("more=992"), "{text}");
    assert_eq!(keys(&queue, &mut handler, &[added(plain("none"))]), [""; 0]);
    // Whom the old annotation named is told as well.
    let moved = updated(used_by("ns/old"), used_by("ns/new"));
    assert_eq!(keys(&queue, &mut handler, &[moved]), ["ns/old", "ns/new"]);
}

// [H1] any handler can be narrowed by a predicate
#[tokio::test]
async fn parents_hear_only_what_the_predicate_wants() {
    let queue = queue();
    let mut handler = only(enqueue_for_parent::<ReplicaSet>(&queue), predicate::labels_changed);
    let child = |change: fn(&mut ObjectMeta)| {
        pod("child", |meta| {
            meta.owner_references = Some(vec![owner("apps/v1", "ReplicaSet", "web", None)]);
            change(meta);
        })
    };
    let plain = || child(|_| {});
    let labelled = child(|meta| meta.labels = Some([("a".to_owned(), "b".to_owned())].into()));
    assert_eq!(keys(&queue, &mut handler, &[updated(plain(), plain())]), [""; 0]);
    assert_eq!(keys(&queue, &mut handler, &[updated(plain(), labelled)]), ["ns/web"]);
}
