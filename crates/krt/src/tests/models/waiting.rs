//! Everybody who waits for the engine is woken, whichever way the waits and what they are for cross.

use std::time::Duration;

use super::*;
use crate::Error;

// [K25] [K36] threads and tasks that wait for sync, for handlers and for everything: all are woken, and those that give up leave nothing
#[test]
fn model_everybody_who_waits_is_woken() {
    model(SCHEDULES, everybody_is_woken);
}

pub(super) fn everybody_is_woken() {
    let krt = started();
    let source = krt.unsynced_collection::<Item>("source");
    let derived = source.collection_of(&krt, "derived");
    let fold = Fold::default();
    let registration = fold.follow(&derived);
    let blocked = derived.clone();
    let blocks = move || blocked.wait_synced_blocking(Duration::MAX).unwrap();
    let synced = registration.synced();
    let awaits = move || block_on(synced);
    let gives_up = derived.synced();
    let fickle = move || {
        let mut gives_up = gives_up;
        let waker = std::task::Waker::noop();
        let _ = std::pin::Pin::new(&mut gives_up).poll(&mut std::task::Context::from_waker(waker));
        thread::yield_now();
    };
    let settles = {
        let (krt, source) = (krt.clone(), source.clone());
        move || {
            source.update(Item::new("b", 1));
            krt.wait_settled_blocking(Duration::MAX).unwrap();
        }
    };
    let writer = move || {
        source.update(Item::new("a", 1));
        source.mark_synced();
    };
    at_once([
        Box::new(blocks),
        Box::new(awaits),
        Box::new(fickle),
        Box::new(settles),
        Box::new(writer),
    ]);
    block_on(krt.settled());
    assert_eq!(content(&derived), ["a=1", "b=1"]);
    fold.assert_is(&derived);
    end(krt);
}

// [K36] settled means that what the same thread wrote before is there and handled, whatever the others do
#[test]
fn model_settled_is_about_what_was_written_before() {
    model(SCHEDULES, || {
        let krt = started();
        let source = krt.static_collection::<Item>("source", []);
        let derived = source.collection_of(&krt, "derived");
        let (merged, all) = (Fold::default(), Fold::default());
        let registrations = [merged.follow(&derived), all.follow_all(&derived)];
        let writers = ["a", "b"].map(|key| {
            let (krt, source, derived) = (krt.clone(), source.clone(), derived.clone());
            let folds = [merged.clone(), all.clone()];
            let body = move || {
                for value in 1..4 {
                    source.update(Item::new(key, value));
                    block_on(krt.settled());
                    assert_eq!(derived.get(key).unwrap().value, value);
                    for fold in &folds {
                        assert_eq!(fold.0.lock().content.get(key), Some(&value), "it is handled");
                    }
                }
            };
            Box::new(body) as Box<dyn FnOnce() + Send>
        });
        at_once(writers);
        merged.assert_is(&derived);
        all.assert_is(&derived);
        registrations.into_iter().for_each(Registration::remove);
        end(krt);
    });
}

// [K36] what transformations make comes in later epochs, and belongs to what led to it
#[test]
fn model_settled_waits_for_what_transformations_make() {
    model(SCHEDULES, || {
        let krt = started();
        let wanted = krt.static_collection::<Item>("wanted", []);
        let all = krt.static_collection("all", [Item::new("a", 1)]);
        let inner = all.clone();
        let lenders = krt.collection("lenders", &wanted, move |cx, item| {
            let child = cx.scoped("child", |scope| {
                scope.collection("child", &inner, |_, item| Some((**item).clone()))
            });
            Some(nested::lender(&item.name, &child))
        });
        let join = krt.nested_join("join", &lenders);
        let lends = {
            let (krt, join, wanted) = (krt.clone(), join.clone(), wanted.clone());
            move || {
                wanted.update(Item::new("w", 1));
                block_on(krt.settled());
                assert_eq!(join.get("a").map(|item| item.value > 0), Some(true));
            }
        };
        let writes = {
            let all = all.clone();
            move || {
                all.update(Item::new("a", 2));
                all.update(Item::new("b", 2));
            }
        };
        at_once([Box::new(lends), Box::new(writes)]);
        block_on(krt.settled());
        assert_eq!(content(&join), ["a=2", "b=2"]);
        wanted.delete("w");
        block_on(krt.settled());
        assert_eq!(content(&join), [""; 0]);
        end(krt);
    });
}

// [K36] who waits for an engine that ends is told so, and does not wait for ever
#[test]
fn model_waits_end_with_the_engine() {
    model(SCHEDULES, || {
        let krt = started();
        let source = krt.unsynced_collection::<Item>("source");
        let waits = {
            let source = source.clone();
            move || {
                let waited = source.wait_synced_blocking(Duration::MAX);
                assert!(matches!(waited, Err(Error::NotSynced { .. })), "{waited:?}");
            }
        };
        let settles = {
            let (krt, source) = (krt.clone(), source.clone());
            move || {
                source.update(Item::new("a", 1));
                krt.wait_settled_blocking(Duration::MAX).unwrap();
            }
        };
        let ends = [krt.clone(), krt.clone()].map(|krt| move || block_on(krt.shutdown()).unwrap());
        let [first, second] = ends;
        at_once([Box::new(waits), Box::new(settles), Box::new(first), Box::new(second)]);
        end(krt);
    });
}
