//! Objects that change across a filter, and reads that come from everywhere while they do.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kclient::{Client, Event, Filter, Informer, InformerExt, ReadClient, Reader, WriterExt};
use kube::core::{GroupVersionKind, Selector};
use kube_client::{FilterSubscriber, FilterSubscribers, FilterSubscription, Metadata, NamespaceFilter, ObjectFilter};

use super::{cluster_with, is_shown, lines, log, names, seen, told};
use crate::client::{cluster, key, map, maps};
use crate::harness::{Namespace, Server, cases, limited};

/// Shows the objects that a function allows.
struct By<F>(F, FilterSubscribers);

impl<F: Fn(&Metadata<'_>) -> bool + Send + Sync + 'static> By<F> {
    fn new(rule: F) -> Arc<Self> {
        Arc::new(Self(rule, FilterSubscribers::new()))
    }
}

impl<F: Fn(&Metadata<'_>) -> bool + Send + Sync + 'static> ObjectFilter for By<F> {
    fn allows(&self, _: &GroupVersionKind, metadata: &Metadata<'_>) -> bool {
        (self.0)(metadata)
    }

    fn has_synced(&self) -> bool {
        true
    }

    fn subscribe(&self, subscriber: FilterSubscriber) -> FilterSubscription {
        self.1.subscribe(subscriber)
    }
}

fn shown(namespace: &Namespace, name: &str, value: &str, shown: &str) -> ConfigMap {
    let mut map = map(namespace, name, value);
    map.metadata.labels = Some([("shown".to_owned(), shown.to_owned())].into());
    map
}

// [V1] an object becomes visible, changes, and is hidden; get, list, index and events agree after each step
async fn object_crosses_the_filter(server: Server) {
    let namespace = server.namespace().await;
    let writer = maps(&server);
    for (name, visible) in [("always", "yes"), ("crossing", "no"), ("never", "no")] {
        let object = shown(&namespace, name, "1", visible);
        writer.create_object(&object).await.unwrap();
    }
    let cluster = cluster(&server);
    let filter = Filter::default().namespace(namespace.name()).objects(By::new(is_shown));
    let client = Client::<ConfigMap>::filtered(&cluster, filter).unwrap();
    let by_value = client
        .index("value", |map: &ConfigMap| Some(crate::client::value(map).to_owned()))
        .unwrap();
    let (log, _) = log(&client);
    cluster.sync().await;
    client.synced().await.unwrap();
    assert_eq!(lines(&log), ["+always!"]);

    let crossing = key(&namespace, "crossing");
    for (value, visible, line) in [
        ("2", "no", None),
        ("3", "yes", Some("+crossing")),
        ("4", "yes", Some("crossing")),
        ("5", "no", Some("-crossing")),
        ("6", "no", None),
        ("7", "yes", Some("+crossing")),
    ] {
        let written = writer
            .update_object(&shown(&namespace, "crossing", value, visible))
            .await;
        seen(&client, &written.unwrap()).await;
        // [V8] what was written is visible, or hidden, at once
        let read = client.get(&crossing);
        assert_eq!(
            read.as_deref().map(crate::client::value),
            (visible == "yes").then_some(value)
        );
        let expected: &[&str] = if visible == "yes" {
            &["always", "crossing"]
        } else {
            &["always"]
        };
        assert_eq!(names(&client, None), expected);
        assert_eq!(names(&client, Some(namespace.name())), expected);
        assert_eq!(by_value.get(value).len(), usize::from(visible == "yes"));
        assert_eq!(by_value.values().len(), expected.len());
        let all = client.list_unfiltered(None, &Selector::default());
        assert_eq!(all.len(), 3, "the informer below shows everything");
        if let Some(line) = line {
            let events = log.wait_for(1).await;
            if let Event::Deleted { object, stale } = &events[0] {
                assert_eq!(
                    (crate::client::value(object), *stale),
                    ("4", false),
                    "the last visible version"
                );
            }
            assert_eq!(lines(&log), [line]);
        } else {
            assert!(log.events().is_empty());
        }
    }
    writer.delete_object(&key(&namespace, "never")).await.unwrap();
    writer.delete_object(&crossing).await.unwrap();
    assert_eq!(told(&log, 1).await, ["-crossing"]);
    assert_eq!(names(&client, None), ["always"]);
    cluster.end().await;
}

// [V3] a handler lists through its own client, and so does the filter
async fn handler_and_filter_list(server: Server) {
    let namespace = server.namespace().await;
    let writer = maps(&server);
    for name in ["a", "b"] {
        writer.create_object(&map(&namespace, name, "1")).await.unwrap();
    }
    let cluster = cluster(&server);
    let own: Arc<Mutex<Option<ReadClient<ConfigMap>>>> = Arc::default();
    let asked = Arc::new(AtomicUsize::new(0));
    let filter = By::new({
        let (own, asked) = (Arc::downgrade(&own), Arc::clone(&asked));
        move |_: &Metadata<'_>| {
            let client = own.upgrade().and_then(|own| own.lock().unwrap().clone());
            if let Some(client) = client {
                asked.fetch_add(1, Ordering::Relaxed);
                assert!(client.list(None, &Selector::default()).len() <= 3);
            }
            true
        }
    });
    let subscribers: Weak<_> = Arc::downgrade(&filter);
    let filter = Filter::default().namespace(namespace.name()).objects(filter);
    let client = ReadClient::<ConfigMap>::filtered(&cluster, filter).unwrap();
    *own.lock().unwrap() = Some(client.clone());
    let listed: Arc<Mutex<Vec<usize>>> = Arc::default();
    client.on_event("lists", {
        let (client, listed) = (client.clone(), Arc::clone(&listed));
        move |event: &Event<ConfigMap>| {
            let there = client.get(&event.key()).is_some();
            assert!(there, "what is told is there");
            listed
                .lock()
                .unwrap()
                .push(client.list(None, &Selector::default()).len());
        }
    });
    let (log, _) = log(&client);
    cluster.sync().await;
    limited("the sync", client.synced()).await.unwrap();
    subscribers.upgrade().unwrap().1.notify(&kube_client::FilterChange::All);
    writer.create_object(&map(&namespace, "c", "1")).await.unwrap();
    log.wait_for(3).await;
    assert!(
        asked.load(Ordering::Relaxed) >= 4,
        "two objects twice, or once and a new one"
    );
    kube_client::testing::assert_eventually(
        "the handler",
        async || listed.lock().unwrap().clone(),
        |listed| listed.len() == 3,
    )
    .await;
    *own.lock().unwrap() = None;
    cluster.end().await;
}

// [V8] whoever waits for a write reads it through a view, or something newer, whatever else goes on
async fn own_writes_are_read_through_a_view(server: Server) {
    let (namespace, other) = (server.namespace().await, server.namespace().await);
    let filter = Arc::new(NamespaceFilter::new([namespace.name()]));
    let cluster = cluster(&server);
    let client = Client::<ConfigMap>::filtered(&cluster, Filter::default().objects(Arc::clone(&filter) as _)).unwrap();
    cluster.sync().await;
    client.synced().await.unwrap();
    client.create_object(&map(&namespace, "a", "0")).await.unwrap();
    for round in 1..=50 {
        // Steps of the filter that do not concern the object, before, while and after it is written.
        let flip = [namespace.name(), other.name()];
        filter.set(&flip[..=round % 2]);
        let written = client
            .update_object(&map(&namespace, "a", &round.to_string()))
            .await
            .unwrap();
        let caught_up = client.informer().caught_up(&written, Duration::from_secs(100));
        let (caught_up, ()) = tokio::join!(caught_up, async { filter.set(&flip[..=(round + 1) % 2]) });
        caught_up.unwrap();
        let read = client.get(&key(&namespace, "a")).unwrap();
        let read: usize = crate::client::value(&read).parse().unwrap();
        assert!(read >= round, "{read} after {round}");
    }
    cluster.end().await;
}

// [V5] who was removed hears nothing of a later step; the others do; the informer shows what is hidden
async fn removed_handler_hears_nothing(server: Server) {
    let (one, two) = (server.namespace().await, server.namespace().await);
    for namespace in [&one, &two] {
        maps(&server).create_object(&map(namespace, "a", "1")).await.unwrap();
    }
    let filter = Arc::new(NamespaceFilter::new([one.name()]));
    let cluster = cluster_with(&server, Shared(Arc::clone(&filter)));
    let client = Client::<ConfigMap>::new(&cluster).unwrap();
    let ((stays, _), (goes, registration)) = (log(&client), log(&client));
    cluster.sync().await;
    client.synced().await.unwrap();
    assert_eq!(
        (lines(&stays), lines(&goes)),
        (vec!["+a!".to_owned()], vec!["+a!".to_owned()])
    );
    client.shutdown_handler(&registration).unwrap();
    registration.removed().await;
    filter.set([two.name()]);
    assert_eq!(told(&stays, 2).await, ["+a", "-a"]);
    assert!(client.get(&key(&one, "a")).is_none() && client.get(&key(&two, "a")).is_some());
    let all = client.list_unfiltered(Some(one.name()), &Selector::default());
    assert_eq!(all.len(), 1);
    client.shutdown_handlers();
    filter.set([one.name()]);
    assert!(
        client.get(&key(&one, "a")).is_some(),
        "reads follow, with or without handlers"
    );
    assert!(stays.events().is_empty() && goes.events().is_empty());
    cluster.end().await;
}

/// A filter that the test keeps a hand on.
pub(super) struct Shared(pub(super) Arc<NamespaceFilter>);

impl ObjectFilter for Shared {
    fn allows(&self, kind: &GroupVersionKind, metadata: &Metadata<'_>) -> bool {
        self.0.allows(kind, metadata)
    }

    fn has_synced(&self) -> bool {
        self.0.has_synced()
    }

    fn subscribe(&self, subscriber: FilterSubscriber) -> FilterSubscription {
        self.0.subscribe(subscriber)
    }
}

cases!(
    object_crosses_the_filter,
    handler_and_filter_list,
    own_writes_are_read_through_a_view,
    removed_handler_hears_nothing,
);
