//! Handlers and streams that come and go, are slow, or panic, while several threads write.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;

use super::*;

// [K2] [K3] handlers are registered and removed amid writes: each gets the present state once and then each change, none is called anew
// after its removal, and none is left
#[test]
fn model_handlers_come_and_go_amid_writes() {
    model(SCHEDULES, handlers_come_and_go);
}

pub(super) fn handlers_come_and_go() {
    let krt = started();
    let source = krt.static_collection("source", [Item::new("a", 0), Item::new("b", 0)]);
    let calls = Arc::new(AtomicUsize::new(0));
    let witness = Arc::clone(&calls);
    let short = {
        let source = source.clone();
        move || {
            let registration = source.on_batch(move |_| {
                calls.fetch_add(1, Ordering::SeqCst);
            });
            thread::yield_now();
            registration.remove();
        }
    };
    let stays = Fold::default();
    let long = {
        let (stays, source) = (stays.clone(), source.clone());
        move || {
            let registration = stays.follow(&source);
            block_on(registration.synced());
            drop(registration);
        }
    };
    let writer = {
        let source = source.clone();
        move || {
            source.update(Item::new("a", 1));
            source.delete("b");
            source.update(Item::new("c", 1));
        }
    };
    let (short, others) = (thread::spawn(short), [thread::spawn(long), thread::spawn(writer)]);
    short.join().unwrap();
    let called = witness.load(Ordering::SeqCst);
    for other in others {
        other.join().unwrap();
    }
    block_on(krt.settled());
    stays.assert_is(&source);
    assert!(
        witness.load(Ordering::SeqCst) <= called + 1,
        "only a call that was about to begin may be seen after the removal"
    );
    source.update(Item::new("a", 2));
    block_on(krt.settled());
    // What was removed is dropped, if it was being called then right after that.
    eventually(|| Arc::strong_count(&witness) == 1);
    stays.assert_is(&source);
    assert_eq!(krt.shared().live_handlers(), 1);
    end(krt);
}

// [K2] a handler that is stuck delays neither the others nor new ones, and is told everything when it goes on; until then, what it has
// not handled is not settled
#[test]
fn model_a_handler_that_is_stuck_delays_nobody() {
    model(SCHEDULES, || {
        let krt = started();
        let source = krt.static_collection("source", [Item::new("a", 0)]);
        let (gate, slow, quick, late) = (Gate::default(), Fold::default(), Fold::default(), Fold::default());
        let (passes, fold) = (gate.clone(), slow.clone());
        let stuck = source.handler().merge_over(0).on_batch(move |batch| {
            passes.pass();
            fold.take(batch);
        });
        let registration = quick.follow(&source);
        let writers = [1, 2].map(|number| {
            let source = source.clone();
            let body = move || {
                for value in 1..4 {
                    source.update(Item::new(&format!("k{number}"), value));
                }
            };
            Box::new(body) as Box<dyn FnOnce() + Send>
        });
        at_once(writers);
        let new = late.follow(&source);
        block_on(registration.synced());
        block_on(new.synced());
        assert!(!stuck.has_synced());
        let mut settled = krt.settled();
        let poll = std::pin::Pin::new(&mut settled).poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
        assert!(poll.is_pending());
        gate.open();
        block_on(settled);
        assert!(stuck.has_synced());
        assert_eq!(content(&source), ["a=0", "k1=3", "k2=3"]);
        for fold in [slow, quick, late] {
            fold.assert_is(&source);
        }
        end(krt);
    });
}

// [K14] a handler and a transformation that panic cost nobody anything: the batch counts as handled, the input keeps its last object
#[test]
fn model_panics_amid_writes() {
    model(SCHEDULES, || {
        let krt = started();
        let source = krt.static_collection("source", [Item::new("a", 0)]);
        // Not by `panic`, which the model checker takes for a failure of the test.
        let unlucky = |item: &Item| {
            if item.value == 1 {
                resume_unwind(Box::new("unlucky"));
            }
        };
        let derived = krt.collection("derived", &source, move |_, item| {
            unlucky(item);
            Some((**item).clone())
        });
        let (calls, fold) = (Arc::new(AtomicUsize::new(0)), Fold::default());
        let called = Arc::clone(&calls);
        let panicking = source.on_change(move |event| {
            called.fetch_add(1, Ordering::SeqCst);
            unlucky(event.latest());
        });
        let registration = fold.follow(&derived);
        let writers = ["a", "b"].map(|key| {
            let source = source.clone();
            let body = move || (0..3).for_each(|value| source.update(Item::new(key, value)));
            Box::new(body) as Box<dyn FnOnce() + Send>
        });
        at_once(writers);
        block_on(krt.settled());
        assert!(panicking.has_synced() && registration.has_synced());
        assert_eq!(content(&derived), ["a=2", "b=2"]);
        fold.assert_is(&derived);
        let before = calls.load(Ordering::SeqCst);
        source.update(Item::new("a", 3));
        block_on(krt.settled());
        assert_eq!(calls.load(Ordering::SeqCst), before + 1, "it goes on");
        end(krt);
    });
}

// [K3] [K5] streams that are dropped at any point leave nothing; who polls the others is woken for each batch, and told the end
#[test]
fn model_streams_are_dropped_amid_writes() {
    model(SCHEDULES, streams_are_dropped);
}

pub(super) fn streams_are_dropped() {
    let krt = started();
    let source = krt.static_collection("source", [Item::new("a", 0)]);
    let (fold, mut stream) = (Fold::default(), source.subscribe());
    let told = fold.clone();
    let reads = move || {
        block_on(async {
            // It is woken for what comes, not only for the end.
            while told.0.lock().content.get("a") != Some(&3) {
                told.take(&stream.next().await.unwrap());
            }
        });
        stream
    };
    let mut fickle = source.subscribe();
    let drops = move || {
        block_on(fickle.next()).unwrap();
        let mut next = fickle.next();
        let waker = std::task::Waker::noop();
        let _ = std::pin::Pin::new(&mut next).poll(&mut std::task::Context::from_waker(waker));
        thread::yield_now();
        drop(fickle);
    };
    let writer = {
        let source = source.clone();
        move || (1..4).for_each(|value| source.update(Item::new("a", value)))
    };
    let (reads, drops, writer) = (thread::spawn(reads), thread::spawn(drops), thread::spawn(writer));
    writer.join().unwrap();
    drops.join().unwrap();
    let mut stream = reads.join().unwrap();
    fold.assert_is(&source);
    source.stop();
    assert!(block_on(stream.next()).is_none(), "the end is told");
    drop(stream);
    end(krt);
}
