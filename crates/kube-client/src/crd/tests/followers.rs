//! Subscriptions and calls on changes: what they are told, that no lock is held, that nothing stays.

use std::task::{Context, Wake, Waker};

use futures_util::FutureExt;

use super::*;
use crate::crd::subscription::{KindGuard, KindSubscription};
use crate::sync::Mutex;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;

fn subscribe(state: &Arc<State>, kind: &GroupVersionResource) -> KindSubscription {
    state.subscribe(kind);
    KindSubscription::new(state, kind)
}

/// Everything that there is to tell now.
fn told(subscription: &mut KindSubscription) -> Vec<KindState> {
    std::iter::from_fn(|| subscription.next().now_or_never().flatten()).collect()
}

type Diary = Arc<Mutex<Vec<KindState>>>;

/// Writes down what it is called with.
fn on_change(state: &Arc<State>, kind: &GroupVersionResource) -> (KindGuard, Diary) {
    let diary: Diary = Arc::default();
    let sink = Arc::clone(&diary);
    let id = state.add_handler(kind, Box::new(move |told| sink.lock().push(told)));
    (KindGuard::new(state, kind, id), diary)
}

#[test]
fn subscribers_learn_nothing_before_it_can_be_said() {
    let state = Arc::new(state(CrdOptions::default()));
    state.begin_feed();
    let others = GroupVersionResource::gvr("x.io", "v1", "others");
    let (mut other, mut topic) = (subscribe(&state, &others), subscribe(&state, &widgets()));
    assert!(told(&mut topic).is_empty());
    apply(&state, &added(ready("1")));
    assert_eq!(
        told(&mut topic),
        [KindState::Known],
        "the definition tells before all were read"
    );
    state.discovered(apis(&[]), Instant::now());
    assert!(told(&mut other).is_empty());
    state.set_source(Source::Definitions);
    assert_eq!(told(&mut other), [KindState::Unknown]);
    apply(&state, &added(ready("2")));
    assert_eq!(told(&mut topic), [KindState::Unknown, KindState::Known]);
    apply(&state, &deleted(ready("2")));
    state.stop();
    assert_eq!(told(&mut topic), [KindState::Unknown], "the last state, then the end");
    assert_eq!(topic.next().now_or_never(), Some(None));
    assert_eq!(
        subscribe(&state, &others).next().now_or_never(),
        Some(Some(KindState::Unknown))
    );
}

// [I32] a definition that was replaced shows, also where discovery has answered in between
#[tokio::test(start_paused = true)]
async fn replaced_definition_shows_though_discovery_answers_in_between() {
    use KindState::{Known, Unknown};
    let listed = [("widgets", "x.io")];
    let state = Arc::new(started(CrdOptions::default(), &listed));
    let mut late = subscribe(&state, &widgets());
    let (_guard, diary) = on_change(&state, &widgets());
    apply(&state, &added(ready("1")));
    assert_eq!(told(&mut late), [Known]);
    // Refused, read again: what serves the kind all the time is another definition.
    state.set_source(Source::Discovery);
    state.discovered(apis(&listed), Instant::now());
    make_calls(&state);
    assert_eq!(told(&mut late), [], "the same, for all that is known");
    state.begin_feed();
    state.apply(2, &added(ready("2")));
    state.set_source(Source::Definitions);
    make_calls(&state);
    assert_eq!(told(&mut late), [Unknown, Known]);
    // Gone for half a minute, but for discovery: then it looks as if something else served it.
    state.apply(2, &deleted(ready("2")));
    tokio::time::advance(Duration::from_secs(31)).await;
    state.discovered(apis(&listed), Instant::now());
    assert!(known(&state, &widgets()));
    state.apply(2, &added(ready("3")));
    assert_eq!(told(&mut late), [Unknown, Known]);
    make_calls(&state);
    assert_eq!(*diary.lock(), [Known, Unknown, Known, Unknown, Known]);
}

// No lock is held while wakers run: they are code of whoever polls, and may come back.
#[test]
fn wakers_run_without_a_lock_and_may_use_the_watcher() {
    struct Comes(Arc<State>, AtomicU32);
    impl Wake for Comes {
        fn wake(self: Arc<Self>) {
            assert_none_held();
            self.0.is_known(&widgets());
            self.1.fetch_add(1, Ordering::SeqCst);
        }
    }
    let state = Arc::new(started(CrdOptions::default(), &[]));
    let mut subscription = subscribe(&state, &widgets());
    assert_eq!(told(&mut subscription), [KindState::Unknown]);
    let comes = Arc::new(Comes(Arc::clone(&state), AtomicU32::new(0)));
    let waker = Waker::from(Arc::clone(&comes));
    let mut poll = || {
        let mut next = std::pin::pin!(subscription.next());
        next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending()
    };
    let wakes = || comes.1.load(Ordering::SeqCst);
    assert!(poll() && poll());
    apply(&state, &added(ready("1")));
    assert_eq!(wakes(), 1, "once, however often it was polled");
    assert!(!poll() && poll());
    state.set_source(Source::Discovery);
    assert_eq!(wakes(), 2);
    assert!(!poll() && poll());
    state.discovered(apis(&[("widgets", "x.io")]), Instant::now());
    assert_eq!(wakes(), 3);
    assert!(!poll() && poll());
    state.stop();
    assert_eq!(wakes(), 4);
    assert!(!poll(), "the end");
    drop(subscription);
    drop(waker);
    assert_eq!(Arc::strong_count(&comes), 1, "no waker stays");
}

// [I31] a definition that does not count is logged, once, as an error unless that was chosen. No lock is held meanwhile: what
// logs may read the watcher's state.
#[test]
fn ignored_definitions_are_logged_without_a_lock() {
    #[derive(Clone)]
    struct Reads(Arc<State>, Arc<Mutex<String>>);
    impl std::io::Write for Reads {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            assert_none_held();
            self.0.summary();
            self.1.lock().push_str(&String::from_utf8_lossy(bytes));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let options = CrdOptions::default()
        .ignore("*.y.io")
        .minimum_version(NAME, "1.1.0")
        .version_annotation("version");
    let state = Arc::new(started(options, &[]));
    let reads = Reads(Arc::clone(&state), Arc::default());
    let log = Arc::clone(&reads.1);
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .with_writer(move || reads.clone())
        .finish();
    let annotated = |version: &str| {
        let mut document = document(NAME, "1", &["v1"], true);
        document["metadata"]["annotations"]["version"] = version.into();
        added(serde_json::from_value(document).unwrap())
    };
    let take = || std::mem::take(&mut *log.lock());
    // A listener that stays: without one, another test can have a line switched off for good just as this one begins.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(LevelFilter::DEBUG));
    tracing::subscriber::with_default(subscriber, || {
        state.apply(1, &annotated("1.0.9"));
        let told = take();
        let expected = "ignoring the definition widgets.x.io: it needs version 1.1.0 or later, but has 1.0.9";
        assert!(told.contains("ERROR") && told.contains(expected), "{told}");
        state.apply(1, &annotated("1.0.9"));
        assert_eq!(take(), "", "it was said");
        state.apply(1, &annotated("latest"));
        let told = take();
        let expected = "but annotation version is no version: \"latest\"";
        assert!(told.contains("ERROR") && told.contains(expected), "{told}");
        state.apply(1, &annotated("v1.1.0-rc.1"));
        assert_eq!(take(), "", "it counts");
        state.apply(1, &added(definition("gizmos.y.io", "1", &["v1"], true)));
        let told = take();
        assert!(told.contains("DEBUG") && !told.contains("ERROR"), "{told}");
    });
}

// [I32] a kind that comes and goes a thousand times: a handler is told each step, or the net effect if it lags; one call is
// queued at most
#[test]
fn flapping_kind_is_told_in_steps_or_as_net_effect_with_one_call_queued() {
    use KindState::{Known, Unknown};
    let state = Arc::new(started(CrdOptions::default(), &[]));
    let (guard, steps) = on_change(&state, &widgets());
    make_calls(&state);
    for n in 0..1000 {
        apply(&state, &added(ready(&n.to_string())));
        apply(&state, &deleted(ready(&n.to_string())));
    }
    let expected: Vec<KindState> = [Unknown].into_iter().chain([Known, Unknown].repeat(1000)).collect();
    assert_eq!(*steps.lock(), expected);
    drop(guard);
    let (_guard, net) = on_change(&state, &widgets());
    state.apply(1, &added(ready("a")));
    make_calls(&state);
    for n in 0..1000 {
        state.apply(1, &deleted(ready("a")));
        state.apply(1, &added(ready(&n.to_string())));
        assert_eq!(state.calls_due(), 1);
    }
    make_calls(&state);
    assert_eq!(*net.lock(), [Known, Unknown, Known], "one end, however many there were");
    assert_eq!(steps.lock().len(), 2001, "nothing after the guard was dropped");
}

// Inside a call: its own guard may be dropped, others registered and dropped, the state read.
#[test]
fn calls_may_drop_their_guard_and_register_others() {
    let state = Arc::new(started(CrdOptions::default(), &[]));
    let own: Arc<Mutex<Option<KindGuard>>> = Arc::default();
    let calls = Arc::new(AtomicU32::new(0));
    let token = Arc::new(());
    let change = {
        let (state, own, calls, token) = (
            Arc::clone(&state),
            Arc::clone(&own),
            Arc::clone(&calls),
            Arc::clone(&token),
        );
        move |told: KindState| {
            let _ = &token;
            calls.fetch_add(1, Ordering::SeqCst);
            let (guard, _) = on_change(&state, &widgets());
            drop(guard);
            if told == KindState::Known {
                let guard = own.lock().take();
                drop(guard);
                assert!(known(&state, &widgets()));
            }
        }
    };
    let id = state.add_handler(&widgets(), Box::new(change));
    *own.lock() = Some(KindGuard::new(&state, &widgets(), id));
    make_calls(&state);
    apply(&state, &added(ready("1")));
    apply(&state, &deleted(ready("1")));
    apply(&state, &added(ready("2")));
    assert_eq!(calls.load(Ordering::SeqCst), 2, "unknown, known, then it left");
    assert_eq!(Arc::strong_count(&token), 1, "what it captured was dropped");
    assert_eq!(state.kept().0, 0, "nobody follows the kind");
}

#[test]
fn nothing_stays_of_followers_that_left() {
    let state = Arc::new(started(CrdOptions::default(), &[]));
    for n in 0..100 {
        let kind = GroupVersionResource::gvr("x.io", "v1", &format!("kind{n}"));
        let mut subscription = subscribe(&state, &kind);
        let other = subscribe(&state, &kind);
        assert_eq!(told(&mut subscription), [KindState::Unknown]);
        let (guard, _) = on_change(&state, &kind);
        assert_eq!(state.kept().0, 1);
        drop((subscription, guard, other));
    }
    assert_eq!(state.kept().0, 0);
    assert!(!state.needs_discovery(), "nobody listens");
    assert!(
        state.next_call().is_none(),
        "calls that were due are gone with their handlers"
    );
}

#[test]
fn stop_drops_what_is_called_and_keeps_nothing_new() {
    let state = Arc::new(started(CrdOptions::default(), &[]));
    let token = Arc::new(());
    let change = |token: &Arc<()>| {
        let token = Arc::clone(token);
        Box::new(move |_: KindState| panic!("called after the stop: {token:?}"))
    };
    let id = state.add_handler(&widgets(), change(&token));
    let guard = KindGuard::new(&state, &widgets(), id);
    state.stop();
    assert_eq!(Arc::strong_count(&token), 1);
    state.add_handler(&widgets(), change(&token));
    assert_eq!(Arc::strong_count(&token), 1);
    assert!(state.next_call().is_none());
    drop(guard);
    assert_eq!(state.kept().0, 0);
}
