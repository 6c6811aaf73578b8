//! The engine on its own thread, and handlers on theirs.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::Error;

/// Long enough for any machine: a test that gets here has failed.
pub(super) const LONG: Duration = Duration::from_mins(1);

/// Polls on this thread until it is ready.
pub(super) fn block_on<F: Future + Unpin>(mut future: F) -> F::Output {
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

pub(super) fn started() -> Krt {
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
    krt.transaction(|t| t.delete(&source, "a"));
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

// Objects are the user's: to drop a great one may take long, and nobody is to wait for that.
#[test]
fn settled_does_not_wait_for_what_was_replaced_to_be_dropped() {
    /// Its drop takes as long as the test wants.
    struct Slow(i64, Option<Arc<Mutex<mpsc::Receiver<()>>>>);
    impl Drop for Slow {
        fn drop(&mut self) {
            if let Some(end) = &self.1 {
                end.lock().recv().ok();
            }
        }
    }
    impl PartialEq for Slow {
        fn eq(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }
    impl Keyed for Slow {
        fn key(&self) -> KeyRef<'_> {
            "slow".into()
        }
    }
    let (end, wait) = mpsc::channel();
    let wait = Arc::new(Mutex::new(wait));
    // The last to hold what was replaced is the engine, or a batch of the handler.
    for is_handled in [false, true] {
        let krt = started();
        let source = krt.static_collection("source", [Slow(0, Some(Arc::clone(&wait)))]);
        let derived = krt.collection("derived", &source, |_, slow| Some(Item::new("a", slow.0)));
        let log = Log::default();
        let _handler = log.follow(&derived);
        let told = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&told);
        let _handles = is_handled.then(|| {
            source.on_change(move |_| {
                counted.fetch_add(1, Ordering::Relaxed);
            })
        });
        krt.wait_settled_blocking(LONG).unwrap();
        source.update(Slow(1, None));
        krt.wait_settled_blocking(LONG).unwrap();
        assert_eq!(log.take(), ["+a=0", "a=0>1"]);
        assert_eq!(told.load(Ordering::Relaxed), if is_handled { 2 } else { 0 });
        end.send(()).unwrap();
        block_on(Box::pin(krt.shutdown())).unwrap();
    }
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
    let handler_tells = tell.clone();
    let (inner, synced) = (krt.clone(), source.clone());
    let registration = source.on_change(move |_| {
        let waited = inner.wait_settled_blocking(LONG);
        let ended = block_on(Box::pin(inner.shutdown()));
        handler_tells
            .send((waited, synced.wait_synced_blocking(LONG), ended))
            .ok();
    });
    let (inner, unsynced) = (krt.clone(), krt.unsynced_collection::<Item>("unsynced"));
    let _derived = krt.collection("derived", &source, move |_, item| {
        let waited = inner.wait_settled_blocking(LONG);
        let ended = block_on(Box::pin(inner.shutdown()));
        tell.send((waited, unsynced.wait_synced_blocking(LONG), ended)).ok();
        Some((**item).clone())
    });
    // The handler, and the transformation.
    for _ in 0..2 {
        let (waited, synced, ended) = told.recv_timeout(LONG).unwrap();
        assert!(matches!(waited, Err(Error::InsideEngine)));
        assert!(matches!(synced, Err(Error::InsideEngine)));
        assert!(matches!(ended, Err(Error::InsideEngine)));
    }
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

/// What three collections have, as one number.
fn digest<'a>(collections: [&'a [Arc<Item>]; 3]) -> u64 {
    // A sum, since lists have no order.
    let of = |number: u64, item: &'a Item| {
        let mut hasher = std::hash::DefaultHasher::new();
        (number, &item.name, item.value).hash(&mut hasher);
        hasher.finish()
    };
    let items = (0..)
        .zip(collections)
        .flat_map(|(number, items)| items.iter().map(move |item| of(number, item)));
    items.fold(0, u64::wrapping_add)
}

/// The three collections as they must be after each edit, computed without the engine: numbers, their doubles if they are even, and
/// the sum of these.
fn digests(edits: &[(usize, Option<i64>)]) -> Vec<u64> {
    let mut numbers = std::collections::BTreeMap::<usize, i64>::new();
    let mut after = Vec::new();
    for number in 0..=edits.len() {
        let all: Vec<_> = numbers
            .iter()
            .map(|(key, value)| Arc::new(Item::new(&format!("k{key}"), *value)))
            .chain([Arc::new(Item::new("edits", i64::try_from(number).unwrap()))])
            .collect();
        let even = numbers.iter().filter(|(_, value)| **value % 2 == 0);
        let doubled: Vec<_> = even
            .map(|(key, value)| Arc::new(Item::new(&format!("k{key}"), value * 2)))
            .collect();
        let sum = doubled.iter().map(|item| item.value).sum();
        after.push(digest([&all, &doubled, &[Arc::new(Item::new("sum", sum))]]));
        match edits.get(number) {
            Some((key, Some(value))) => drop(numbers.insert(*key, *value)),
            Some((key, None)) => drop(numbers.remove(key)),
            None => {}
        }
    }
    after
}

// [K26] four readers log epochs and digests over three collections during 10,000 edits: epochs never go back, and each digest is
// the one that a computation from scratch gives
#[test]
fn snapshots_of_several_threads_are_of_one_epoch_each() {
    let mut random = fastrand::Rng::with_seed(26);
    let edits: Vec<_> = (0..10_000)
        .map(|number| (random.usize(..7), (random.u8(..4) > 0).then_some(number)))
        .collect();
    let expected = digests(&edits);
    let krt = started();
    let source = krt.static_collection("source", [Item::new("edits", 0)]);
    let doubled = krt.collection("doubled", &source, |_, item| {
        (item.name != "edits" && item.value % 2 == 0).then(|| Item::new(&item.name, item.value * 2))
    });
    let fetched = doubled.clone();
    let sum = krt.singleton("sum", move |cx| {
        let sum = cx.fetch(fetched.query()).iter().map(|item| item.value).sum();
        Some(Item::new("sum", sum))
    });
    krt.wait_settled_blocking(LONG).unwrap();
    let done = AtomicBool::new(false);
    let read = || {
        let mut log = Vec::new();
        let mut last = false;
        while !last {
            last = done.load(Ordering::Acquire);
            let snapshot = krt.snapshot();
            let edits = snapshot.get(&source, "edits").unwrap().value;
            let lists = [&*source, &doubled, &*sum].map(|collection| snapshot.list(collection));
            log.push((snapshot.epoch(), edits, digest([&lists[0], &lists[1], &lists[2]])));
        }
        log
    };
    let logs = std::thread::scope(|scope| {
        let readers = [(); 4].map(|()| scope.spawn(read));
        for (number, (key, value)) in (1..).zip(&edits) {
            krt.transaction(|t| {
                let key = format!("k{key}");
                match value {
                    Some(value) => t.update(&source, Item::new(&key, *value)),
                    None => t.delete(&source, &key),
                }
                t.update(&source, Item::new("edits", number));
            });
        }
        let settled = krt.wait_settled_blocking(LONG);
        done.store(true, Ordering::Release);
        let logs = readers.map(|reader| reader.join().unwrap());
        settled.unwrap();
        logs
    });
    for log in logs {
        assert!(
            log.is_sorted_by_key(|(epoch, edits, _)| (*epoch, *edits)),
            "nothing goes back"
        );
        for (epoch, edits, digest) in &log {
            let edits = usize::try_from(*edits).unwrap();
            assert_eq!(*digest, expected[edits], "epoch {epoch}, after {edits} edits");
        }
        assert_eq!(log.last().unwrap().1, 10_000);
    }
    // The readers' last snapshots went after that.
    krt.wait_settled_blocking(LONG).unwrap();
    assert_eq!([source.retained(), doubled.retained(), sum.retained()], [0; 3]);
}

// [K38] the last handles of everything are dropped inside of a handler: nothing is joined, nothing is told, everything ends
#[test]
fn everything_may_be_dropped_inside_of_a_handler() {
    let krt = started();
    let source = krt.static_collection("source", [Item::new("a", 1)]);
    let derived = source.collection_of(&krt, "derived");
    let shared = Arc::clone(krt.shared());
    let object = Arc::new(());
    let held = Arc::new(Mutex::new(None));
    let (victims, kept) = (Arc::clone(&held), Arc::clone(&object));
    let log = Log::default();
    let logged = log.clone();
    let registration = derived.on_change(move |event| {
        assert!(Arc::strong_count(&kept) > 1);
        logged.add(line(event));
        if event.latest().value > 1 {
            drop(victims.lock().take());
        }
    });
    krt.wait_settled_blocking(LONG).unwrap();
    *held.lock() = Some((krt, source.clone(), derived, registration));
    source.update(Item::new("a", 2));
    drop(source);
    assert!(
        shared
            .progress
            .block_until(LONG, || shared.applied().ended && shared.pool.threads() == 0)
    );
    assert_eq!(log.take(), ["+a=1", "a=1>2"], "no delete");
    assert_eq!(Arc::strong_count(&object), 1, "the handler is gone, too");
}

// [K38] the last handle of the engine is dropped inside of a transformation: the epoch ends, then the engine does
#[test]
fn the_engine_may_be_dropped_inside_of_a_transformation() {
    let krt = started();
    let source = krt.static_collection("source", [Item::new("a", 1)]);
    let shared = Arc::clone(krt.shared());
    let last: Arc<Mutex<Option<Krt>>> = Arc::default();
    let victim = Arc::clone(&last);
    let derived = krt.collection("derived", &source, move |_, item| {
        drop(victim.lock().take());
        Some((**item).clone())
    });
    krt.wait_settled_blocking(LONG).unwrap();
    *last.lock() = Some(krt);
    source.update(Item::new("a", 2));
    assert!(
        shared
            .progress
            .block_until(LONG, || shared.applied().ended && shared.pool.threads() == 0)
    );
    assert_eq!(content(&derived), ["a=2"], "what it was at is published");
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

// [K36] what a write leads to may take several epochs, if transformations make collections: settled waits for all of them
#[test]
fn settled_waits_for_what_transformations_make() {
    let krt = started();
    let wanted = krt.static_collection::<Item>("wanted", []);
    let all = krt.static_collection("all", [Item::new("a", 1)]);
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel::<()>();
    let (may_go_on, tell) = (Arc::new(Mutex::new(may_go_on)), Arc::new(Mutex::new(tell)));
    let lenders = krt.collection("lenders", &wanted, move |cx, item| {
        let child = cx.scoped("child", |scope| {
            // Nothing is made before the test says so; and the child, in its own epoch, says that it is there.
            may_go_on.lock().recv().unwrap();
            let (tell, may_go_on) = (Arc::clone(&tell), Arc::clone(&may_go_on));
            scope.collection("child", &all, move |_, item| {
                tell.lock().send(()).unwrap();
                may_go_on.lock().recv().unwrap();
                Some((**item).clone())
            })
        });
        Some(nested::lender(&item.name, &child))
    });
    let join = krt.nested_join("join", &lenders);
    krt.wait_settled_blocking(LONG).unwrap();
    wanted.update(Item::new("w", 1));
    let mut settled = krt.settled();
    go_on.send(()).unwrap();
    told.recv().unwrap();
    let waker = std::task::Waker::noop();
    let poll = std::pin::Pin::new(&mut settled).poll(&mut std::task::Context::from_waker(waker));
    assert!(poll.is_pending(), "the child is being computed");
    go_on.send(()).unwrap();
    block_on(settled);
    assert_eq!(content(&join), ["a=1"]);
}
