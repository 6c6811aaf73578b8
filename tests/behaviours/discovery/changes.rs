//! `CrdWatcher::on_change`, and what stands on it: a client of a kind that comes and goes.

use std::sync::{Arc, Mutex};

use fake_apiserver::{Fault, Rule};
use futures_util::FutureExt;
use kube::core::{ApiResource, DynamicObject};
use kube_client::testing::{EventLog, assert_eventually};
use kube_client::{Client, HandlerOptions, Informer, InformerOptions, KindGuard, KindState, ObjectKey};
use serde_json::json;

use super::Widgets;
use crate::harness::{Namespace, Server, cases, eventually, limited};
use crate::informer::Rig;

/// The least that a client of a kind that may be absent does: an informer while the kind is known.
#[derive(Clone)]
struct Follower {
    active: Arc<Mutex<Option<Informer<DynamicObject>>>>,
    told: Arc<Mutex<Vec<KindState>>>,
    log: EventLog<DynamicObject>,
    _guard: Arc<KindGuard>,
}

impl Follower {
    fn new(rig: &Rig, widgets: &Widgets) -> Self {
        let active: Arc<Mutex<Option<Informer<DynamicObject>>>> = Arc::default();
        let told: Arc<Mutex<Vec<KindState>>> = Arc::default();
        let log = EventLog::new();
        // A clone of the client itself would keep it alive.
        let client = Client::clone(&rig.client);
        let change = {
            let (active, told, log, resource) =
                (Arc::clone(&active), Arc::clone(&told), log.clone(), widgets.resource());
            move |state| {
                told.lock().unwrap().push(state);
                let informers = client.informers();
                let before = active.lock().unwrap().take();
                if let Some(before) = before {
                    informers.remove(&before);
                }
                if state == KindState::Known {
                    *active.lock().unwrap() = Some(activate(&client, &resource, &log));
                }
            }
        };
        let guard = Arc::new(rig.client.crd_watcher().on_change(&widgets.kind(), change));
        Self {
            active,
            told,
            log,
            _guard: guard,
        }
    }

    fn informer(&self) -> Option<Informer<DynamicObject>> {
        self.active.lock().unwrap().clone()
    }

    fn told(&self) -> Vec<KindState> {
        self.told.lock().unwrap().clone()
    }

    async fn told_last(&self, state: KindState) {
        eventually("the last call", || async {
            (self.told().last() == Some(&state)).then_some(())
        })
        .await;
    }
}

fn activate(client: &Client, resource: &ApiResource, log: &EventLog<DynamicObject>) -> Informer<DynamicObject> {
    let informer = client
        .informers()
        .dynamic(resource, InformerOptions::default())
        .unwrap();
    informer.add_handler(log.handler(), HandlerOptions::named("follower"));
    informer
}

/// Creates an object; a real server accepts it a moment after the kind is known.
async fn create(server: &Server, namespace: &Namespace, widgets: &Widgets, name: &str) {
    let path = namespace.of(&format!("{}/v1", widgets.group), "widgets");
    let object = json!({
        "apiVersion": format!("{}/v1", widgets.group), "kind": "Widget", "metadata": {"name": name},
    });
    eventually("the object is accepted", || async {
        (server.post(&path, &object).await.code == 201).then_some(())
    })
    .await;
}

// [D2] [D4] [I29] of a kind that is there at the start, the call has returned, and what it asked for is filled, when the
// start has
async fn start_waits_for_what_a_change_asks_for(server: Server) {
    let (namespace, rig) = (server.namespace().await, Rig::new(server));
    let (widgets, absent) = (Widgets::new(&rig.server), Widgets::new(&rig.server));
    widgets.define().await;
    create(&rig.server, &namespace, &widgets, "a").await;
    let (follower, other) = (Follower::new(&rig, &widgets), Follower::new(&rig, &absent));
    assert!(
        follower.told().is_empty(),
        "nothing is called before the start, nor inside of on_change"
    );
    limited("the start", rig.run()).await;
    assert_eq!(other.told(), [KindState::Unknown]);
    assert!(other.informer().is_none());
    let informer = follower.informer().unwrap();
    assert!(informer.has_synced());
    assert!(informer.get(&ObjectKey::namespaced(namespace.name(), "a")).is_some());
    drop((follower, other));
    widgets.remove().await;
    rig.end().await;
}

// [D3] [D5] a kind that comes, goes and comes again: objects, then no watch and no loop of failures, then objects
async fn kind_that_comes_and_goes_is_followed(server: Server) {
    let (namespace, rig) = (server.namespace().await, Rig::new(server));
    let widgets = Widgets::new(&rig.server);
    let follower = Follower::new(&rig, &widgets);
    limited("the start", rig.run()).await;
    for round in 1..=2 {
        widgets.define().await;
        follower.told_last(KindState::Known).await;
        create(&rig.server, &namespace, &widgets, "a").await;
        let key = ObjectKey::namespaced(namespace.name(), "a");
        eventually("the object", || async { follower.informer()?.get(&key) }).await;
        let events = limited("its event", follower.log.wait_for(1)).await;
        assert!(matches!(events[0], kube_client::Event::Added { .. }), "{events:?}");
        widgets.undefine().await;
        follower.told_last(KindState::Unknown).await;
        assert!(follower.informer().is_none());
        assert_eq!(rig.client.stats().informers.len(), 1, "only that of the definitions");
        follower.log.take();
        if let Some(fake) = rig.server.in_memory() {
            fake.clear_requests();
            tokio::time::sleep(std::time::Duration::from_mins(10)).await; // on a paused clock
            let asked = fake.requests();
            assert!(asked.iter().all(|asked| asked.resource != "widgets"), "{asked:?}");
        }
        let told = follower.told();
        // A real server establishes a definition a moment after it exists, which shows as nothing more.
        assert_eq!(told.len(), 1 + 2 * round, "{told:?}");
        assert!(told.windows(2).all(|pair| pair[0] != pair[1]), "{told:?}");
    }
    drop(follower);
    rig.end().await;
}

cases!(
    start_waits_for_what_a_change_asks_for,
    kind_that_comes_and_goes_is_followed,
);

// Two served versions are two kinds: one that is no longer served ends for its followers alone.
#[tokio::test(start_paused = true)]
async fn version_that_is_taken_out_ends_for_its_followers_alone() {
    let rig = Rig::fake();
    let widgets = Widgets::new(&rig.server);
    widgets.define().await;
    widgets.serve(&[("v1", true), ("v2", true)]).await;
    let crds = rig.client.crd_watcher();
    let told = |kind| {
        let told: Arc<Mutex<Vec<KindState>>> = Arc::default();
        let sink = Arc::clone(&told);
        let guard = crds.on_change(&kind, move |state| sink.lock().unwrap().push(state));
        (guard, told)
    };
    let (_one, of_one) = told(widgets.kind());
    let (_two, of_two) = told(widgets.version("v2"));
    rig.run().await;
    let seen = |told: &Arc<Mutex<Vec<KindState>>>| told.lock().unwrap().clone();
    assert_eq!(
        (seen(&of_one), seen(&of_two)),
        (vec![KindState::Known], vec![KindState::Known])
    );
    widgets.serve(&[("v1", true)]).await;
    assert_eventually("the end of v2", async || seen(&of_two), |told| told.len() == 2).await;
    assert_eq!(
        crds.status(&widgets.version("v2")).reason,
        "its definition serves v1, not v2"
    );
    widgets.serve(&[("v1", true), ("v2", true)]).await;
    assert_eventually("v2 again", async || seen(&of_two), |told| told.len() == 3).await;
    assert_eq!(seen(&of_one), [KindState::Known], "it was served all the time");
    rig.end().await;
}

// [I23] the stop drops what is called, and everything that it holds
#[tokio::test(start_paused = true)]
async fn stop_and_drop_end_the_calls() {
    for dropped in [false, true] {
        let rig = Rig::fake();
        let widgets = Widgets::new(&rig.server);
        let token = Arc::new(());
        let held = Arc::clone(&token);
        let guard = rig
            .client
            .crd_watcher()
            .on_change(&widgets.kind(), move |_| drop(Arc::clone(&held)));
        let crds = rig.client.crd_watcher();
        rig.run().await;
        widgets.define().await;
        crds.wait_for(&widgets.kind(), &rig.stop).await.unwrap();
        assert_eq!(Arc::strong_count(&token), 2);
        if dropped {
            rig.end_by_drop().await;
        } else {
            rig.end().await;
        }
        assert_eq!(Arc::strong_count(&token), 1);
        drop(guard);
        // Afterwards nothing is kept.
        drop(crds.on_change(&widgets.kind(), |_| panic!("called after the stop")));
        assert!(crds.known(&widgets.kind()), "as it was");
    }
}

// A call that registers another one, without an end, holds neither the others up nor the stop.
#[tokio::test(start_paused = true)]
async fn calls_that_lead_to_calls_without_an_end_leave_room_for_others() {
    fn again(crds: &kube_client::CrdWatcher, kind: &kube::core::GroupVersionResource, guards: &Guards) {
        let (watcher, of, kept) = (crds.clone(), kind.clone(), guards.clone());
        let guard = crds.on_change(kind, move |_| again(&watcher, &of, &kept));
        let before = guards.0.lock().unwrap().replace(guard);
        drop(before);
    }
    #[derive(Clone, Default)]
    struct Guards(Arc<Mutex<Option<KindGuard>>>);

    let rig = Rig::fake();
    let crds = rig.client.crd_watcher();
    let guards = Guards::default();
    let widgets = Widgets::new(&rig.server);
    again(&crds, &super::pods(), &guards);
    rig.run().await;
    widgets.define().await;
    crds.wait_for(&widgets.kind(), &rig.stop).await.unwrap();
    rig.client.shutdown().await;
    drop(guards.0.lock().unwrap().take());
    rig.end().await;
}

// A wait that is dropped, and waits that end by their own token, leave nothing.
#[tokio::test(start_paused = true)]
async fn waits_that_are_cancelled_leave_nothing() {
    let rig = Rig::fake();
    let crds = rig.client.crd_watcher();
    let widgets = Widgets::new(&rig.server);
    let kind = widgets.kind();
    rig.run().await;
    for _ in 0..1000 {
        let mut wait = Box::pin(crds.wait_for(&kind, &rig.stop));
        assert!(wait.as_mut().now_or_never().is_none());
        drop(wait);
        let own = rig.stop.child_token();
        let (ended, ()) = tokio::join!(crds.wait_for(&kind, &own), async { own.cancel() });
        assert!(ended.is_err());
    }
    // Nobody waits any more, so nobody has discovery asked.
    rig.memory().clear_requests();
    tokio::time::sleep(std::time::Duration::from_hours(1)).await;
    let asked = rig
        .memory()
        .requests()
        .iter()
        .filter(|asked| asked.path == "/apis")
        .count();
    assert!(asked <= 1, "{asked} questions in an hour");
    rig.end().await;
}

// A call that panics is called again, and harms no other.
#[tokio::test(start_paused = true)]
async fn panic_in_a_call_on_changes_harms_nothing() {
    let rig = Rig::fake();
    let crds = rig.client.crd_watcher();
    let widgets = Widgets::new(&rig.server);
    let told: Arc<Mutex<Vec<KindState>>> = Arc::default();
    let sink = Arc::clone(&told);
    let _guard = crds.on_change(&widgets.kind(), move |state| {
        sink.lock().unwrap().push(state);
        panic!("a call panics");
    });
    let down = rig.memory().inject(Rule::new(Fault::Refuse).times(3));
    rig.run().await;
    widgets.define().await;
    crds.wait_for(&widgets.kind(), &rig.stop).await.unwrap();
    widgets.undefine().await;
    let told = assert_eventually(
        "three calls",
        async || told.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone(),
        |told| told.len() == 3,
    )
    .await;
    assert_eq!(told, [KindState::Unknown, KindState::Known, KindState::Unknown]);
    down.remove();
    rig.end().await;
}
