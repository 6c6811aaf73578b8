//! Handlers of several collections, and streams.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context as Task, Poll, Wake, Waker};

use futures_core::Stream;

use super::threads::{LONG, block_on, started};
use super::*;
use crate::{Batch, Read, Subscription};

fn lines(batch: &Batch<Item>) -> String {
    let mut lines: Vec<_> = batch.events().map(line).collect();
    lines.sort();
    lines.join(",")
}

// [K36] one call for each epoch, with all changes and a snapshot of exactly that epoch
#[test]
fn an_epoch_is_told_whole() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1)]);
    let single = rig.krt.static_singleton("single", Some(Item::new("s", 1)));
    let derived = rig.krt.collection("derived", &source, |_, item| {
        (item.value > 0).then(|| Item::new(&item.name, item.value / 10))
    });
    let fetched = derived.clone();
    let count = rig.krt.singleton("count", move |cx| {
        let count = cx.fetch(fetched.query()).len();
        Some(Item::new("count", i64::try_from(count).unwrap()))
    });
    let other = items(&rig, "other", &[("o", 1)]);
    let log = Log::default();
    let (logged, read) = (log.clone(), (derived.clone(), other.clone()));
    let registration = rig.krt.on_epoch((&source, &single, &derived, &count), move |epoch| {
        let (source, single, derived, count) = epoch.changes();
        let told = [source, single, derived, count].map(lines).join("|");
        let mut snapshot = epoch.snapshot();
        let seen = snapshot.fetch(read.0.query()).len() + snapshot.list(&read.1).len();
        let epochs = [source, single, derived, count].map(Batch::epoch);
        assert!(epochs.iter().all(|own| *own == epoch.epoch()));
        logged.add(format!("{told} {seen} {}", epoch.is_synced()));
    });
    rig.settle();
    assert!(registration.has_synced());
    assert_eq!(log.take(), ["+a=1|+s=1|+a=0|+count=1 2 true"]);
    source.update(Item::new("a", 2));
    rig.settle();
    assert_eq!(log.take(), ["a=1>2||| 2 true"], "what is equal is no change");
    source.update(Item::new("b", 30));
    other.delete("o");
    single.set(Item::new("s", 2));
    rig.settle();
    assert_eq!(log.take(), ["+b=30|s=1>2|+b=3|count=1>2 2 true"]);
    other.update(Item::new("p", 1));
    rig.settle();
    assert_eq!(log.take(), [""; 0], "it is not followed");
    registration.remove();
    source.delete("a");
    rig.settle();
    assert_eq!(log.take(), [""; 0]);
    assert_eq!(rig.stepper.handlers(), 0);
}

// [K36] it is told when the last collection is synced, and what is stopped holds up nobody
#[test]
fn an_epoch_tells_when_all_are_synced() {
    let mut rig = Rig::new();
    let slow = rig.krt.unsynced_collection::<Item>("slow");
    let never = rig.krt.unsynced_collection::<Item>("never");
    let ready = items(&rig, "ready", &[("r", 1)]);
    let frozen = items(&rig, "frozen", &[("f", 1)]);
    frozen.stop();
    rig.settle();
    let log = Log::default();
    let logged = log.clone();
    let registration = rig.krt.on_epoch((&slow, &never, &ready, &frozen), move |epoch| {
        let (slow, never, ready, frozen) = epoch.changes();
        logged.add(format!(
            "{} {}",
            [slow, never, ready, frozen].map(lines).join("|"),
            epoch.is_synced()
        ));
    });
    rig.settle();
    assert_eq!(log.take(), ["||+r=1|+f=1 false"]);
    slow.update(Item::new("s", 1));
    slow.mark_synced();
    rig.settle();
    assert_eq!(log.take(), ["+s=1||| false"]);
    assert!(!registration.has_synced());
    never.stop();
    rig.settle();
    assert_eq!(log.take(), ["||| true"], "it is synced with what it has");
    assert!(registration.has_synced());
    slow.stop();
    ready.stop();
    rig.settle();
    assert_eq!(
        (log.take().len(), rig.stepper.handlers()),
        (0, 0),
        "nothing can come any more"
    );
}

// [K32] [K36] a backlog is merged by whole epochs, and the snapshot is that of the last one
#[test]
fn a_backlog_of_epochs_is_merged() {
    let mut rig = Rig::with_strong_hashes();
    let source = items(&rig, "source", &[]);
    let twice = rig
        .krt
        .collection("twice", &source, |_, item| Some(Item::new(&item.name, item.value * 2)));
    let log = Log::default();
    let (logged, read) = (log.clone(), twice.clone());
    let mut known = 0;
    let _registration = rig.krt.on_epoch((&source, &twice), move |epoch| {
        let (source, twice) = epoch.changes();
        assert_eq!((source.epoch(), twice.epoch()), (epoch.epoch(), epoch.epoch()));
        known += source.len();
        assert_eq!(epoch.snapshot().list(&read).len(), known);
        logged.add(format!("{}+{}", source.len(), twice.len()));
    });
    rig.settle();
    log.take();
    for number in 0..5000 {
        source.update(Item::new(&format!("k{number}"), number));
        rig.stepper.step();
    }
    let snapshots = rig.krt.shared().pins.lock().pinned();
    assert!(snapshots < 2100, "{snapshots} epochs are kept for a handler that lags");
    rig.settle();
    assert_eq!(log.take(), ["5000+5000"]);
    assert_eq!(rig.krt.shared().pins.lock().pinned(), 0);
    assert_eq!((source.retained(), twice.retained()), (0, 0));
}

// [K36] each batch is of the epoch that is told, also those of collections that changed earlier, or not at all
#[test]
fn all_batches_of_an_epoch_are_of_that_epoch() {
    let mut rig = Rig::with_strong_hashes();
    let [many, other, quiet] = ["many", "other", "quiet"].map(|name| items(&rig, name, &[]));
    let log = Log::default();
    let logged = log.clone();
    let _registration = rig.krt.on_epoch((&many, &other, &quiet), move |epoch| {
        let (many, other, quiet) = epoch.changes();
        logged.add(format!("{}+{}+{}", many.len(), other.len(), quiet.len()));
        for own in [many, other, quiet].map(Batch::epoch) {
            assert_eq!(own, epoch.epoch());
        }
        logged.add("so it is");
    });
    rig.settle();
    log.take();
    // The first epoch alone is so much that it is merged with the second one.
    many.reset((0..5000).map(|number| Item::new(&format!("k{number}"), number)));
    assert!(rig.step());
    other.update(Item::new("o", 1));
    rig.settle();
    assert_eq!(log.take(), ["5000+1+0", "so it is"]);
    quiet.update(Item::new("q", 1));
    rig.settle();
    assert_eq!(log.take(), ["0+0+1", "so it is"]);
}

// A snapshot that is dropped before the next epoch leaves nothing to reclaim.
#[test]
fn handling_an_epoch_in_time_costs_no_further_epoch() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1)]);
    let _registration = rig.krt.on_epoch((&source,), |_| {});
    rig.settle();
    source.update(Item::new("a", 2));
    assert!(rig.step());
    assert!(rig.stepper.run_handlers());
    assert!(!rig.step());
}

#[test]
fn a_handler_of_epochs_that_is_removed_leaves_nothing() {
    let mut rig = Rig::new();
    let sources = ["one", "two"].map(|name| items(&rig, name, &[("a", 1)]));
    rig.settle();
    let before = rig.stepper.engine().tables();
    let registrations = [(); 3].map(|()| rig.krt.on_epoch((&sources[0], &sources[1]), |_| {}));
    rig.settle();
    assert_ne!(rig.stepper.engine().tables(), before);
    for registration in registrations {
        registration.remove();
    }
    for source in &sources {
        source.update(Item::new("a", 1));
    }
    rig.settle();
    assert_eq!(rig.stepper.engine().tables(), before);
}

#[test]
#[should_panic(expected = "collection foreign belongs to another Krt than test")]
fn following_another_engine_is_refused() {
    let (rig, other) = (Rig::new(), Rig::new());
    let foreign = items(&other, "foreign", &[]);
    rig.krt.on_epoch((&foreign,), |_| {});
}

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicU64);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn poll(stream: &mut Subscription<Item>, woken: &Arc<Woken>) -> Poll<Option<Batch<Item>>> {
    let waker = Waker::from(Arc::clone(woken));
    Pin::new(stream).poll_next(&mut Task::from_waker(&waker))
}

/// The next batch as lines; `None` if there is none yet.
fn next(stream: &mut Subscription<Item>) -> Option<String> {
    match poll(stream, &Arc::default()) {
        Poll::Ready(batch) => Some(batch.map_or_else(|| "end".to_owned(), |batch| lines(&batch))),
        Poll::Pending => None,
    }
}

// [K32] a stream gives the present state, then each epoch, then its end
#[test]
fn a_stream_gives_each_epoch() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1), ("b", 2)]);
    rig.settle();
    let mut stream = source.subscribe();
    let mut later = source.handler().without_initial().subscribe();
    let woken = Arc::new(Woken::default());
    assert!(poll(&mut stream, &woken).is_pending());
    rig.settle();
    assert_eq!(woken.0.load(Ordering::Relaxed), 1, "woken once, from empty to not");
    assert_eq!(next(&mut stream).as_deref(), Some("+a=1,+b=2"));
    assert!(poll(&mut stream, &woken).is_pending());
    source.update(Item::new("a", 3));
    rig.settle();
    source.delete("b");
    source.update(Item::new("c", 1));
    rig.settle();
    assert_eq!(woken.0.load(Ordering::Relaxed), 2);
    assert_eq!(next(&mut stream).as_deref(), Some("a=1>3"));
    source.stop();
    rig.settle();
    assert_eq!(next(&mut stream).as_deref(), Some("+c=1,-b=2"));
    assert_eq!(next(&mut stream).as_deref(), Some("end"));
    assert_eq!(next(&mut stream).as_deref(), Some("end"));
    let rest: Vec<_> = std::iter::from_fn(|| next(&mut later)).take(3).collect();
    assert_eq!(rest, ["a=1>3", "+c=1,-b=2", "end"]);
    assert_eq!(next(&mut source.subscribe()), None, "it is told at the next epoch");
    let mut frozen = source.subscribe();
    rig.settle();
    assert_eq!(
        next(&mut frozen).as_deref(),
        Some("+a=3,+c=1"),
        "what is stopped still has its content"
    );
    assert_eq!(next(&mut frozen).as_deref(), Some("end"));
}

// [K32] a stream that nobody polls is merged, costs at most an event for each key, and leads to the same state
#[test]
fn a_stream_that_lags_is_merged() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 0)]);
    let mut stream = source.handler().merge_over(4).subscribe();
    let mut exact = source.handler().keep_all().subscribe();
    rig.settle();
    assert_eq!(next(&mut stream).as_deref(), Some("+a=0"));
    for value in 1..100 {
        source.update(Item::new("a", value));
        source.update(Item::new(&format!("k{}", value % 2), value));
        rig.settle();
        source.delete(&format!("k{}", value % 2));
        rig.settle();
    }
    assert_eq!(next(&mut stream).as_deref(), Some("a=0>99"));
    assert_eq!(next(&mut stream), None);
    assert_eq!(std::iter::from_fn(|| next(&mut exact)).count(), 1 + 2 * 99);
}

// [K5] a stream that is dropped is told nothing; one that is dropped as the last handle frees its collection
#[test]
fn a_stream_that_is_dropped_leaves_nothing() {
    let mut rig = Rig::new();
    let source = items(&rig, "source", &[("a", 1)]);
    let object = {
        rig.settle();
        source.get("a").unwrap()
    };
    let stream = source.subscribe();
    let held = source.subscribe();
    rig.settle();
    drop(stream);
    drop(source);
    rig.settle();
    assert_eq!(rig.stepper.collections(), 1, "a stream keeps its collection");
    drop(held);
    rig.settle();
    assert_eq!(rig.stepper.collections(), 0);
    assert_eq!(Arc::strong_count(&object), 1);
}

// [K38] streams end with the engine, however it ends, and whoever waits is woken
#[test]
fn a_stream_ends_with_the_engine() {
    struct Next<'a>(&'a mut Subscription<Item>);
    impl Future for Next<'_> {
        type Output = Option<String>;
        fn poll(mut self: Pin<&mut Self>, context: &mut Task<'_>) -> Poll<Self::Output> {
            let next = Pin::new(&mut *self.0).poll_next(context);
            next.map(|batch| batch.map(|batch| lines(&batch)))
        }
    }
    let krt = started();
    let source = krt.static_collection("source", [Item::new("a", 1)]);
    let mut stream = source.subscribe();
    assert_eq!(block_on(Next(&mut stream)).as_deref(), Some("+a=1"));
    source.update(Item::new("a", 2));
    krt.wait_settled_blocking(LONG).unwrap();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(block_on(Next(&mut stream)).as_deref(), Some("a=1>2"));
            assert_eq!(block_on(Next(&mut stream)), None);
            ended.store(true, Ordering::Relaxed);
        });
        block_on(Box::pin(krt.shutdown())).unwrap();
    });
    assert!(ended.load(Ordering::Relaxed));
    assert_eq!(block_on(Next(&mut source.subscribe())), None, "too late");
    let never = Krt::builder("never started").build();
    let mut waits = never.static_collection("source", [Item::new("a", 1)]).subscribe();
    drop(never);
    assert_eq!(block_on(Next(&mut waits)), None);
}
