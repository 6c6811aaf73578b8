//! The watcher's core: what is known from where, and that a callback is called exactly once, on threads that race.

mod followers;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use kube::core::GroupVersionResource;
use tokio::time::Instant;

use super::definition::Definition;
use super::definition::tests::{definition, document};
use super::options::CrdOptions;
use super::report::KindStatus;
use super::state::{Adopted, Call, Source, State};
use super::subscription::KindState;
use crate::discovery::ServedApis;
use crate::event::Event;
use crate::object::Scope;
use crate::sync::checked::assert_none_held;

const NAME: &str = "widgets.x.io";

fn widgets() -> GroupVersionResource {
    GroupVersionResource::gvr("x.io", "v1", "widgets")
}

fn state(options: CrdOptions) -> State {
    State::new(options.check().unwrap())
}

fn added(definition: Definition) -> [Event<Definition>; 1] {
    [Event::Added {
        object: Arc::new(definition),
        initial: false,
    }]
}

fn deleted(definition: Definition) -> [Event<Definition>; 1] {
    [Event::Deleted {
        object: Arc::new(definition),
        stale: false,
    }]
}

fn ready(uid: &str) -> Definition {
    definition(NAME, uid, &["v1"], true)
}

fn known(state: &State, kind: &GroupVersionResource) -> bool {
    state.is_known(kind).0
}

/// What discovery lists.
fn apis(kinds: &[(&str, &str)]) -> Arc<ServedApis> {
    Arc::new(ServedApis::listing(kinds))
}

/// The source is the definitions, and discovery lists these.
fn started(options: CrdOptions, kinds: &[(&str, &str)]) -> State {
    let state = state(options);
    state.begin_feed();
    state.discovered(apis(kinds), Instant::now());
    state.set_source(Source::Definitions);
    state
}

/// Takes changes in from the first feed, and makes the calls that are due, as the driver does. True if what the server serves
/// has changed.
fn apply(state: &State, events: &[Event<Definition>]) -> bool {
    let changed = state.apply(1, events);
    make_calls(state);
    changed
}

fn make_calls(state: &State) {
    while let Some(call) = state.next_call() {
        assert_none_held();
        match call {
            Call::Once(callback) => callback(),
            Call::Change {
                kind,
                id,
                state: told,
                mut change,
            } => {
                change(told);
                drop(state.put_back(&kind, id, change));
            }
        }
    }
}

// [I29] a definition that is added while somebody registers: exactly one of "known" and a call, 1,000 rounds on two threads
#[test]
fn registration_that_races_with_a_definition_is_known_or_called_once() {
    let (mut known, mut called) = (0, 0);
    for round in 0..1000 {
        let state = Arc::new(started(CrdOptions::default(), &[]));
        let calls = Arc::new(AtomicU32::new(0));
        let barrier = Arc::new(Barrier::new(2));
        let adding = std::thread::spawn({
            let (state, barrier) = (Arc::clone(&state), Arc::clone(&barrier));
            move || {
                barrier.wait();
                apply(&state, &added(ready("1")));
            }
        });
        barrier.wait();
        for _ in 0..round % 50 {
            std::hint::spin_loop();
        }
        let counter = Arc::clone(&calls);
        let was_known = state.known_or_callback(
            &widgets(),
            Box::new(move || {
                counter.fetch_add(1, Ordering::SeqCst);
            }),
        );
        adding.join().unwrap();
        apply(&state, &added(ready("1")));
        let calls = calls.load(Ordering::SeqCst);
        assert_eq!(calls, u32::from(!was_known), "round {round}");
        known += u32::from(was_known);
        called += calls;
    }
    assert_eq!(known + called, 1000);
}

#[test]
fn callbacks_run_without_the_lock_and_may_register_again() {
    let state = Arc::new(started(CrdOptions::default(), &[]));
    let calls = Arc::new(AtomicU32::new(0));
    let register = {
        let (state, calls) = (Arc::clone(&state), Arc::clone(&calls));
        move || {
            let other = GroupVersionResource::gvr("x.io", "v2", "widgets");
            let calls = Arc::clone(&calls);
            let known = state.known_or_callback(&other, Box::new(move || _ = calls.fetch_add(1, Ordering::SeqCst)));
            assert!(!known);
        }
    };
    assert!(!state.known_or_callback(&widgets(), Box::new(register)));
    apply(&state, &added(ready("1")));
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    apply(&state, &added(definition(NAME, "1", &["v1", "v2"], true)));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert_eq!(state.summary().1, 0, "nobody waits any more");
}

// [I30] the definition decides, whatever discovery says
#[test]
fn definition_decides_before_discovery() {
    let state = started(
        CrdOptions::default(),
        &[("pods", ""), ("widgets", "x.io"), ("gizmos", "y.io")],
    );
    let gizmos = GroupVersionResource::gvr("y.io", "v1", "gizmos");
    let pods = GroupVersionResource::gvr("", "v1", "pods");
    assert!(known(&state, &pods) && known(&state, &gizmos));
    assert!(!known(&state, &GroupVersionResource::gvr("", "v2", "pods")));
    apply(&state, &added(definition(NAME, "1", &["v1"], false)));
    assert!(!known(&state, &widgets()), "not established");
    apply(&state, &added(definition(NAME, "1", &["v2"], true)));
    assert!(!known(&state, &widgets()), "served in another version");
    apply(&state, &added(ready("1")));
    assert!(known(&state, &widgets()));
}

// [I32] discovery lags behind: a definition that is gone is gone, though it is still listed
#[tokio::test(start_paused = true)]
async fn kind_whose_definition_went_away_is_unknown_though_discovery_lags() {
    let listed = [("widgets", "x.io")];
    let state = started(CrdOptions::default(), &listed);
    apply(&state, &added(ready("1")));
    let begun_before = Instant::now();
    apply(&state, &deleted(ready("1")));
    assert!(!known(&state, &widgets()));
    tokio::time::advance(Duration::from_secs(5)).await;
    state.discovered(apis(&listed), begun_before);
    assert!(!known(&state, &widgets()), "an answer from before");
    state.discovered(apis(&listed), Instant::now());
    assert!(!known(&state, &widgets()), "an answer that lags");
    assert_eq!(state.kept().1, 1);
    state.discovered(apis(&[]), Instant::now());
    assert_eq!(state.kept().1, 0, "nothing is left to find out");
    state.discovered(apis(&listed), Instant::now());
    assert!(known(&state, &widgets()), "an aggregated API serves it now");

    apply(&state, &added(ready("2")));
    apply(&state, &deleted(ready("2")));
    tokio::time::advance(Duration::from_secs(31)).await;
    assert!(!known(&state, &widgets()));
    state.discovered(apis(&listed), Instant::now());
    assert!(
        known(&state, &widgets()),
        "still listed after half a minute: something else serves it"
    );
}

// [I31] what does not count is known neither by its definition nor by discovery; an upgrade makes it known
#[test]
fn kinds_that_do_not_count_are_not_known_by_discovery_either() {
    let options = CrdOptions::default()
        .ignore("*.y.io")
        .minimum_version(NAME, "1.1.0")
        .version_annotation("version");
    let state = started(options, &[("gizmos", "y.io"), ("widgets", "x.io")]);
    assert!(!known(&state, &GroupVersionResource::gvr("y.io", "v1", "gizmos")));
    assert!(!known(&state, &widgets()), "its version cannot be told");
    apply(&state, &added(ready("1"))); // annotated with 1.0.0
    assert!(!known(&state, &widgets()));
    assert_eq!(
        state.summary().2[NAME],
        "it needs version 1.1.0 or later, but has 1.0.0"
    );
    let upgraded = |version: &str| {
        let mut document = document(NAME, "1", &["v1"], true);
        document["metadata"]["annotations"]["version"] = version.into();
        serde_json::from_value::<Definition>(document).unwrap()
    };
    apply(&state, &added(upgraded("1.1.0-rc.2")));
    assert!(known(&state, &widgets()));
    assert!(state.summary().2.is_empty());
    apply(&state, &added(upgraded("broken")));
    assert!(!known(&state, &widgets()));
    state.set_source(Source::Discovery);
    assert!(!known(&state, &widgets()), "also when discovery alone decides");
}

#[test]
fn stop_drops_callbacks_uncalled_and_keeps_no_new_ones() {
    let state = started(CrdOptions::default(), &[]);
    let token = Arc::new(());
    let callback = |token: &Arc<()>| {
        let token = Arc::clone(token);
        Box::new(move || panic!("called after the stop: {token:?}"))
    };
    assert!(!state.known_or_callback(&widgets(), callback(&token)));
    state.stop();
    assert!(!state.known_or_callback(&widgets(), callback(&token)));
    assert_eq!(Arc::strong_count(&token), 1);
    state.apply(1, &added(ready("1")));
    assert!(state.next_call().is_none());
}

// [I30] what the server serves is of the version of its definition's, which is told in words
#[test]
fn status_tells_state_scope_and_reason() {
    let options = CrdOptions::default()
        .ignore("*.y.io")
        .minimum_version("gadgets.x.io", "1.0.0");
    let state = state(options);
    let status = |kind: &GroupVersionResource| {
        let KindStatus {
            state, scope, reason, ..
        } = state.status(kind);
        (state, scope, reason)
    };
    let says = |state, scope, reason: &str| (state, scope, reason.to_owned());
    let (is, not) = (Some(KindState::Known), Some(KindState::Unknown));
    let unknown = Scope::Unknown;
    assert_eq!(
        status(&widgets()),
        says(None, unknown, "nothing has been read of the server yet")
    );
    state.begin_feed();
    state.discovered(apis(&[("pods", "")]), Instant::now());
    state.set_source(Source::Definitions);
    let none = "it has no definition, and discovery does not list it";
    assert_eq!(status(&widgets()), says(not, unknown, none));
    let pods = GroupVersionResource::gvr("", "v1", "pods");
    assert_eq!(status(&pods), says(is, Scope::Namespaced, "discovery lists it"));
    let gizmos = GroupVersionResource::gvr("y.io", "v1", "gizmos");
    assert_eq!(
        status(&gizmos),
        says(not, unknown, "it matches a pattern that is ignored")
    );
    let gadgets = GroupVersionResource::gvr("x.io", "v1", "gadgets");
    let minimum = "it needs a minimum version, and there is no definition to tell it";
    assert_eq!(status(&gadgets), says(not, unknown, minimum));
    state.apply(1, &added(definition(NAME, "1", &["v1"], false)));
    let young = "its definition is not established yet";
    assert_eq!(status(&widgets()), says(not, unknown, young));
    state.apply(1, &added(ready("1")));
    assert_eq!(
        status(&widgets()),
        says(is, Scope::Namespaced, "its definition serves it")
    );
    let later = GroupVersionResource::gvr("x.io", "v2", "widgets");
    assert_eq!(status(&later), says(not, unknown, "its definition serves v1, not v2"));
    state.apply(1, &deleted(ready("1")));
    assert_eq!(status(&widgets()), says(not, unknown, "its definition was deleted"));
}

// What was read before a right was lost is not believed again: the next feed's first list takes the place of all of it.
#[test]
fn definitions_of_an_earlier_feed_go_when_the_next_one_is_adopted() {
    let state = started(CrdOptions::default(), &[]);
    let gadgets = |uid: &str| definition("gadgets.x.io", uid, &["v1"], true);
    state.apply(1, &added(ready("1")));
    state.apply(1, &added(gadgets("1")));
    state.set_source(Source::Discovery);
    assert!(!known(&state, &widgets()), "discovery alone decides");
    assert_eq!(state.begin_feed(), 2);
    assert!(!state.apply(1, &added(ready("7"))), "what the old feed says late");
    state.apply(2, &added(gadgets("1")));
    let adopted = Adopted {
        source_changed: true,
        served_changed: true,
    };
    assert_eq!(state.set_source(Source::Definitions), adopted);
    assert!(!known(&state, &widgets()), "it went away meanwhile");
    assert!(known(&state, &GroupVersionResource::gvr("x.io", "v1", "gadgets")));
    assert_eq!(state.summary().0, 1);
    // The same without discovery in between, which may not have answered.
    assert_eq!(state.begin_feed(), 3);
    let adopted = state.set_source(Source::Definitions);
    assert!(!adopted.source_changed && adopted.served_changed);
    assert_eq!(state.summary().0, 0);
    let again = state.set_source(Source::Definitions);
    assert!(!again.source_changed && !again.served_changed);
}

// A group that cannot be asked: what was known of it holds; what was never seen can neither be said to be there nor not.
#[tokio::test(start_paused = true)]
async fn kind_of_a_group_that_cannot_be_asked_is_neither_known_nor_unknown() {
    let state = started(CrdOptions::default(), &[]);
    let metrics = GroupVersionResource::gvr("metrics.k8s.io", "v1", "pods");
    let remembering = |kinds: &[(&str, &str)]| Arc::new(ServedApis::remembering(kinds));
    state.discovered(remembering(&[]), Instant::now());
    let status = state.status(&metrics);
    assert_eq!(status.state, None);
    assert_eq!(status.reason, "discovery cannot tell: every named group: no");
    state.discovered(remembering(&[("pods", "metrics.k8s.io")]), Instant::now());
    assert!(known(&state, &metrics));

    // Nor does it prove that something else serves what a definition has served.
    state.apply(1, &added(ready("1")));
    state.apply(1, &deleted(ready("1")));
    tokio::time::advance(Duration::from_mins(1)).await;
    state.discovered(remembering(&[("widgets", "x.io")]), Instant::now());
    assert!(!known(&state, &widgets()));
    state.discovered(apis(&[("widgets", "x.io")]), Instant::now());
    assert!(known(&state, &widgets()));
}

// [I32] memory: ten thousand definitions that come and go while discovery fails leave nothing
#[tokio::test(start_paused = true)]
async fn definitions_that_went_away_are_forgotten_though_discovery_fails() {
    let state = started(CrdOptions::default(), &[("kind7", "x.io")]);
    for n in 0..10_000 {
        let one = || definition(&format!("kind{n}.x.io"), "1", &["v1"], true);
        state.apply(1, &added(one()));
        state.apply(1, &deleted(one()));
    }
    assert_eq!(state.kept().1, 10_000);
    let begun = Instant::now();
    state.not_discovered(begun);
    assert_eq!(state.kept().1, 10_000, "an attempt that began before");
    tokio::time::advance(Duration::from_secs(1)).await;
    state.not_discovered(Instant::now());
    assert_eq!(state.kept().1, 1, "what the last answer lists");
    assert!(!known(&state, &GroupVersionResource::gvr("x.io", "v1", "kind7")));
    assert_eq!(state.summary().0, 0);
}

// Asking about kinds that only discovery can tell of keeps it asked for two minutes, and no longer.
#[tokio::test(start_paused = true)]
async fn asking_about_a_kind_without_a_definition_keeps_discovery_asked() {
    let state = started(CrdOptions::default().ignore("*.y.io"), &[("pods", "")]);
    let pods = GroupVersionResource::gvr("", "v1", "pods");
    let gizmos = GroupVersionResource::gvr("y.io", "v1", "gizmos");
    state.apply(1, &added(ready("1")));
    assert_eq!(state.is_known(&widgets()), (true, false), "its definition tells");
    assert_eq!(state.is_known(&gizmos), (false, false), "nothing matters");
    assert!(!state.needs_discovery());
    assert_eq!(state.is_known(&pods), (true, true), "asked for the first time");
    assert_eq!(state.is_known(&pods), (true, false));
    tokio::time::advance(Duration::from_secs(119)).await;
    assert!(state.needs_discovery());
    assert_eq!(state.is_known(&pods), (true, false));
    tokio::time::advance(Duration::from_secs(121)).await;
    assert!(!state.needs_discovery());
    assert_eq!(state.is_known(&pods), (true, true));
}
