//! Objects whose own `Drop` panics: contained wherever the informer drops them, one by one. [I39]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fake_apiserver::{Fault, Rule, StatusFault, Verb};
use kube::core::ApiResource;
use kube_client::{
    Event, HandlerOptions, InformerOptions, ListMode, Metadata, Namespaces, Object, Scope, WatchErrorKind, on_event,
    on_event_async,
};
use serde::Deserialize;

use super::histories::note::Note;
use super::{Rig, create, delete, update};
use crate::harness::eventually;

/// How often one was dropped.
static DROPPED: AtomicUsize = AtomicUsize::new(0);

/// A `ConfigMap` that cannot be dropped in peace.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct Undroppable(Note);

impl Drop for Undroppable {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::SeqCst);
        panic!("on purpose");
    }
}

impl Object for Undroppable {
    type DynamicType = ();

    fn api_resource((): &()) -> ApiResource {
        Note::api_resource(&())
    }

    fn scope((): &()) -> Scope {
        Note::scope(&())
    }

    fn metadata(&self) -> Metadata<'_> {
        self.0.metadata()
    }
}

/// What is told, as text: a handler that kept an object would be the one to drop it.
fn text(event: &Event<Undroppable>) -> String {
    let value = |object: &Arc<Undroppable>| object.0.data.v;
    let name = &event.object().0.metadata.name;
    match event {
        Event::Added { object, .. } => format!("+{name}={}", value(object)),
        Event::Updated { old, new } => format!("{name}={}>{}", value(old), value(new)),
        Event::Deleted { object, stale } => format!("-{name}={}{}", value(object), if *stale { "?" } else { "" }),
    }
}

// [I39] replaced, merged away, unchanged in a relist, deleted, in the queue of a handler that goes, in a stream that is not
// polled, in the cache at its end: no panic gets through, nothing is told twice or left out, and the informer never starts over
#[tokio::test(start_paused = true)]
async fn panics_of_an_objects_own_drop_are_contained() {
    for mode in [ListMode::Streaming, ListMode::Paged] {
        let before = DROPPED.load(Ordering::SeqCst);
        let rig = Rig::fake();
        let namespace = rig.server.namespace().await;
        let names = ["a", "b", "c", "d", "e"];
        for name in names {
            create(&namespace, name, "1").await;
        }
        let options = InformerOptions::<Undroppable>::default()
            .namespaces(Namespaces::one(namespace.name()))
            .list_mode(mode);
        let informer = rig.client.informers().typed(options).unwrap();
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let sink = Arc::clone(&told);
        let write = on_event(move |event: &Event<Undroppable>| sink.lock().unwrap().push(text(event)));
        let prompt = informer.add_handler(write, HandlerOptions::named("prompt"));
        let stuck = on_event_async(|event: Event<Undroppable>| async move {
            std::mem::forget(event); // what a handler takes is its own
            std::future::pending::<()>().await;
        });
        let stuck = informer.add_handler(stuck, HandlerOptions::named("stuck").coalesce_above(1));
        let unpolled = informer.events(HandlerOptions::named("unpolled"));
        rig.run().await;
        prompt.synced().await.unwrap();
        let wait = async |count: usize| {
            eventually("the events", || async {
                let told = told.lock().unwrap().clone();
                (told.len() >= count).then_some(told)
            })
            .await
        };
        for value in 2..6 {
            for name in names {
                update(&rig.server, &namespace, name, &value.to_string()).await;
            }
        }
        delete(&rig.server, &namespace, "a").await;
        create(&namespace, "a", "6").await;
        delete(&rig.server, &namespace, "b").await;
        let entries = wait(5 + 20 + 3).await;
        assert_eq!(entries[25..], ["-a=5", "+a=6", "-b=5"], "{mode:?}");
        assert!(informer.stats().handlers[1].coalesced > 0, "{mode:?}");

        // A relist: c is gone, d is another one, e is changed, a is as it was.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let away = Rule::new(Fault::Refuse).verb(Verb::Watch).resource("configmaps");
        let away = rig.memory().inject(away);
        rig.memory().close_watches("configmaps");
        away.wait_fired(1).await;
        delete(&rig.server, &namespace, "c").await;
        delete(&rig.server, &namespace, "d").await;
        create(&namespace, "d", "7").await;
        update(&rig.server, &namespace, "e", "7").await;
        rig.memory().compact_now();
        away.remove();
        let mut entries = wait(28 + 4).await.split_off(28);
        entries.sort_unstable();
        assert_eq!(entries, ["+d=7", "-c=5?", "-d=5?", "e=5>7"], "{mode:?}");
        // A list that breaks drops what it has brought; one of nothing new drops all of it.
        let broken = Fault::WatchError {
            after: 0,
            status: StatusFault::new(410),
        };
        rig.memory()
            .inject(Rule::new(broken).verb(Verb::Watch).resource("configmaps").times(1));
        let cut = Fault::Reset {
            after: 2,
            cut: fake_apiserver::Cut::MidLine,
        };
        rig.memory()
            .inject(Rule::new(cut).verb(Verb::List).resource("configmaps").times(1));
        rig.memory().close_watches("configmaps");
        eventually("another list", || async { (informer.stats().lists >= 3).then_some(()) }).await;

        stuck.remove();
        drop(unpolled);
        create(&namespace, "last", "8").await;
        assert_eq!(wait(33).await[32..], ["+last=8"], "{mode:?}");
        let stats = informer.stats();
        assert!(
            !stats.restarts.contains_key("panicked"),
            "{mode:?}: {:?}",
            stats.restarts
        );
        let decode = |error: &kube_client::WatchError| error.kind == WatchErrorKind::Undecodable;
        assert!(!rig.errors().iter().any(decode), "{mode:?}");
        assert_eq!(stats.handlers.len(), 1);
        assert_eq!(stats.handlers[0].panics, 0);
        rig.end().await;
        assert_eq!(informer.len(), 4);
        drop(informer);
        assert!(
            DROPPED.load(Ordering::SeqCst) > before + 30,
            "{mode:?}: they were dropped all the same"
        );
    }
}
