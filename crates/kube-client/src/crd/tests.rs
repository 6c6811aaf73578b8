//! The watcher's core: what is known from where, and that a callback is called exactly once, on threads that race.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use kube::core::GroupVersionResource;
use tokio::time::Instant;

use super::definition::Definition;
use super::definition::tests::{definition, document};
use super::options::CrdOptions;
use super::state::{Source, State, Verdict};
use crate::discovery::ServedApis;
use crate::event::Event;

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

/// What discovery lists.
fn apis(kinds: &[(&str, &str)]) -> Arc<ServedApis> {
    Arc::new(ServedApis::listing(kinds))
}

/// The source is the definitions, and discovery lists these.
fn started(options: CrdOptions, kinds: &[(&str, &str)]) -> State {
    let state = state(options);
    state.discovered(apis(kinds), Instant::now());
    state.set_source(Source::Definitions);
    state
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
                for callback in state.apply(&added(ready("1"))).0 {
                    callback();
                }
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
        for callback in state.apply(&added(ready("1"))).0 {
            callback();
        }
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
    for callback in state.apply(&added(ready("1"))).0 {
        callback();
    }
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    for callback in state.apply(&added(definition(NAME, "1", &["v1", "v2"], true))).0 {
        callback();
    }
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
    assert!(state.is_known(&pods) && state.is_known(&gizmos));
    assert!(!state.is_known(&GroupVersionResource::gvr("", "v2", "pods")));
    state.apply(&added(definition(NAME, "1", &["v1"], false)));
    assert!(!state.is_known(&widgets()), "not established");
    state.apply(&added(definition(NAME, "1", &["v2"], true)));
    assert!(!state.is_known(&widgets()), "served in another version");
    state.apply(&added(ready("1")));
    assert!(state.is_known(&widgets()));
}

// [I32] discovery lags behind: a definition that is gone is gone, though it is still listed
#[tokio::test(start_paused = true)]
async fn kind_whose_definition_went_away_is_unknown_though_discovery_lags() {
    let listed = [("widgets", "x.io")];
    let state = started(CrdOptions::default(), &listed);
    state.apply(&added(ready("1")));
    let begun_before = Instant::now();
    state.apply(&deleted(ready("1")));
    assert!(!state.is_known(&widgets()));
    tokio::time::advance(Duration::from_secs(5)).await;
    state.discovered(apis(&listed), begun_before);
    assert!(!state.is_known(&widgets()), "an answer from before");
    state.discovered(apis(&listed), Instant::now());
    assert!(!state.is_known(&widgets()), "an answer that lags");
    assert!(state.needs_discovery());
    state.discovered(apis(&[]), Instant::now());
    assert!(!state.needs_discovery(), "nothing is left to find out");
    state.discovered(apis(&listed), Instant::now());
    assert!(state.is_known(&widgets()), "an aggregated API serves it now");

    state.apply(&added(ready("2")));
    state.apply(&deleted(ready("2")));
    tokio::time::advance(Duration::from_secs(31)).await;
    assert!(!state.is_known(&widgets()));
    state.discovered(apis(&listed), Instant::now());
    assert!(
        state.is_known(&widgets()),
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
    assert!(!state.is_known(&GroupVersionResource::gvr("y.io", "v1", "gizmos")));
    assert!(!state.is_known(&widgets()), "its version cannot be told");
    state.apply(&added(ready("1"))); // annotated with 1.0.0
    assert!(!state.is_known(&widgets()));
    assert_eq!(
        state.summary().2[NAME],
        "it needs version 1.1.0 or later, but has 1.0.0"
    );
    let upgraded = |version: &str| {
        let mut document = document(NAME, "1", &["v1"], true);
        document["metadata"]["annotations"]["version"] = version.into();
        serde_json::from_value::<Definition>(document).unwrap()
    };
    state.apply(&added(upgraded("1.1.0-rc.2")));
    assert!(state.is_known(&widgets()));
    assert!(state.summary().2.is_empty());
    state.apply(&added(upgraded("broken")));
    assert!(!state.is_known(&widgets()));
    state.set_source(Source::Discovery);
    assert!(!state.is_known(&widgets()), "also when discovery alone decides");
}

#[tokio::test(start_paused = true)]
async fn subscribers_learn_nothing_before_it_can_be_said() {
    let state = state(CrdOptions::default());
    let mut other = state.subscribe(&GroupVersionResource::gvr("x.io", "v1", "others"));
    let topic = state.subscribe(&widgets());
    assert_eq!(*topic.borrow(), None);
    state.apply(&added(ready("1")));
    assert_eq!(*topic.borrow(), Some(Verdict::Known(Some("1".into()))));
    assert_eq!(*other.borrow_and_update(), None);
    state.discovered(apis(&[]), Instant::now());
    assert!(!other.has_changed().unwrap());
    state.set_source(Source::Definitions);
    assert_eq!(*other.borrow_and_update(), Some(Verdict::Unknown));
    state.apply(&added(ready("2")));
    assert_eq!(*topic.borrow(), Some(Verdict::Known(Some("2".into()))));
    state.stop();
    assert!(other.changed().await.is_err());
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
    assert!(state.apply(&added(ready("1"))).0.is_empty());
}

#[test]
fn topics_without_listeners_are_forgotten() {
    let state = started(CrdOptions::default(), &[]);
    for n in 0..100 {
        let kind = GroupVersionResource::gvr("x.io", "v1", &format!("kind{n}"));
        drop(state.subscribe(&kind));
    }
    assert!(!state.needs_discovery(), "nobody listens");
}
