//! The engine on its own thread, and handlers on theirs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::Error;

/// Long enough for any machine: a test that gets here has failed.
const LONG: Duration = Duration::from_mins(1);

/// Polls on this thread until it is ready.
fn block_on<F: Future + Unpin>(mut future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    loop {
        match std::pin::Pin::new(&mut future).poll(&mut std::task::Context::from_waker(&waker)) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

fn started() -> Krt {
    let krt = Krt::builder("test").weak_hashes().build();
    krt.start().unwrap();
    krt
}

// [K36] settled: all earlier writes are applied and handled
#[test]
fn settled_is_not_waited_for_after_what_leaves_nothing_to_do() {
    let krt = started();
    let source = krt.static_collection("source", [Item::new("a", 1)]);
    krt.wait_settled_blocking(LONG).unwrap();
    source.stop();
    krt.wait_settled_blocking(LONG).unwrap();
    // Nobody takes this any more.
    source.update(Item::new("b", 1));
    krt.wait_settled_blocking(LONG).unwrap();
    block_on(krt.settled());
    assert_eq!(content(&source), ["a=1"]);
}

#[test]
fn settled_means_that_handlers_have_handled_all_earlier_writes() {
    let krt = started();
    let source = krt.static_collection::<Item>("source", []);
    let double = krt.collection("double", &source, |_, item| Some(Item::new(&item.name, item.value * 2)));
    let sum = Arc::new(AtomicU64::new(0));
    let (added, count) = (Arc::clone(&sum), 2000);
    let _handler = double.on_change(move |event| {
        added.fetch_add(u64::try_from(event.latest().value).unwrap(), Ordering::Relaxed);
    });
    block_on(double.synced());
    for number in 0..count {
        source.update(Item::new(&format!("k{number}"), number));
        if number % 500 == 0 {
            block_on(krt.settled());
            let expected = (0..=number)
                .map(|number| u64::try_from(number * 2).unwrap())
                .sum::<u64>();
            assert_eq!(sum.load(Ordering::Relaxed), expected);
        }
    }
    krt.wait_settled_blocking(LONG).unwrap();
    assert_eq!(double.len(), 2000);
    block_on(Box::pin(krt.shutdown())).unwrap();
}

// [K2] a handler that blocks is not synced; all others go on, and new ones register
#[test]
fn a_blocked_handler_blocks_only_itself() {
    let krt = started();
    let source = krt.static_collection("source", [Item::new("a", 1)]);
    let (release, wait) = mpsc::channel::<()>();
    let (entered, has_entered) = mpsc::channel();
    let blocked = source.on_change(move |_| {
        entered.send(()).ok();
        wait.recv().ok();
    });
    has_entered.recv_timeout(LONG).unwrap();
    let log = Log::default();
    let other = log.follow(&source);
    block_on(other.synced());
    for value in 2..10 {
        source.update(Item::new("a", value));
    }
    let late = Log::default();
    let registered = late.follow(&source);
    block_on(registered.synced());
    assert!(!blocked.has_synced());
    assert!(matches!(
        krt.wait_settled_blocking(Duration::from_millis(1)),
        Err(Error::Timeout(_))
    ));
    drop(release);
    krt.wait_settled_blocking(LONG).unwrap();
    assert!(blocked.has_synced());
    assert_eq!(log.take().last().unwrap().split('>').next_back(), Some("9"));
    block_on(Box::pin(krt.shutdown())).unwrap();
}

// [K36] waiting for the engine from code that it runs is an error
#[test]
fn waiting_inside_of_the_engine_is_an_error() {
    let krt = started();
    let source = krt.static_collection("source", [Item::new("a", 1)]);
    let (tell, told) = mpsc::channel();
    let inner = krt.clone();
    let registration = source.on_change(move |_| {
        let waited = inner.wait_settled_blocking(LONG);
        let ended = block_on(Box::pin(inner.shutdown()));
        tell.send((waited, ended)).ok();
    });
    let (waited, ended) = told.recv_timeout(LONG).unwrap();
    assert!(matches!(waited, Err(Error::InsideEngine)));
    assert!(matches!(ended, Err(Error::InsideEngine)));
    registration.remove();
    block_on(Box::pin(krt.shutdown())).unwrap();
}

#[test]
fn an_engine_that_ended_leaves_its_collections_readable() {
    let krt = started();
    let source = krt.static_collection("source", [Item::new("a", 1)]);
    let derived = source.collection_of(&krt, "derived");
    krt.wait_settled_blocking(LONG).unwrap();
    block_on(Box::pin(krt.shutdown())).unwrap();
    source.update(Item::new("a", 2));
    assert_eq!(content(&derived), ["a=1"]);
    assert!(matches!(krt.start(), Err(Error::NotStartable)));
    block_on(krt.settled());
}

// [K26] readers see one epoch in all collections, and epochs never go back
#[test]
fn snapshots_of_several_threads_are_of_one_epoch_each() {
    let krt = started();
    let source = krt.static_collection("source", (0..4).map(|number| Item::new(&format!("k{number}"), 0)));
    let double = krt.collection("double", &source, |_, item| Some(Item::new(&item.name, item.value * 2)));
    let fetched = double.clone();
    let total = krt.singleton("total", move |cx| {
        Some(Item::new(
            "total",
            cx.fetch(fetched.query()).iter().map(|item| item.value).sum(),
        ))
    });
    krt.wait_settled_blocking(LONG).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let snapshot = krt.snapshot();
                    assert!(snapshot.epoch() >= last);
                    last = snapshot.epoch();
                    let sum = |of: &Collection<Item>| -> i64 { snapshot.list(of).iter().map(|item| item.value).sum() };
                    let doubled = sum(&double);
                    assert_eq!(sum(&source) * 2, doubled);
                    assert_eq!(snapshot.get(&total, "total").unwrap().value, doubled);
                }
            });
        }
        for value in 0..3000 {
            source.update(Item::new(&format!("k{}", value % 4), value));
        }
        krt.wait_settled_blocking(LONG).unwrap();
        done.store(true, Ordering::Relaxed);
    });
    drop(krt);
}

#[test]
fn dropping_the_last_handle_ends_the_engine() {
    let krt = started();
    let source = krt.static_collection("source", [Item::new("a", 1)]);
    let object = Arc::new(());
    let held = Arc::clone(&object);
    let derived = krt.collection("derived", &source, move |_, item| {
        assert!(Arc::strong_count(&held) > 1);
        Some((**item).clone())
    });
    krt.wait_settled_blocking(LONG).unwrap();
    let shared = Arc::clone(krt.shared());
    drop(krt);
    assert!(shared.progress.block_until(LONG, || shared.applied().ended));
    assert_eq!(Arc::strong_count(&object), 1, "the transformation is gone");
    assert_eq!(content(&derived), ["a=1"]);
}
