//! Starts, stops and ends of collections and engines amid everything else.

use futures_util::StreamExt;

use super::*;
use crate::Error;

// [K38] an engine is started while others write and register: one start counts, and nothing from before it is lost
#[test]
fn model_starts_amid_writes() {
    model(SCHEDULES, || {
        let krt = built();
        let source = krt.static_collection("source", [Item::new("a", 0)]);
        let derived = source.collection_of(&krt, "derived");
        let (early, late) = (Fold::default(), Fold::default());
        let registration = early.follow(&derived);
        let starts = [(); 2].map(|()| {
            let krt = krt.clone();
            thread::spawn(move || krt.start())
        });
        let writer = {
            let source = source.clone();
            thread::spawn(move || (1..3).for_each(|value| source.update(Item::new("a", value))))
        };
        let other = late.follow(&derived);
        writer.join().unwrap();
        let started = starts.map(|start| start.join().unwrap());
        assert_eq!(started.iter().filter(|start| start.is_ok()).count(), 1);
        assert!(started.iter().any(|start| matches!(start, Err(Error::NotStartable))));
        block_on(krt.settled());
        assert_eq!(content(&derived), ["a=2"]);
        assert!(registration.has_synced() && other.has_synced());
        early.assert_is(&derived);
        late.assert_is(&derived);
        end(krt);
    });
}

// [K38] an engine that is started and ended at once ends
#[test]
fn model_starts_amid_ends() {
    model(SCHEDULES, || {
        let krt = built();
        let source = krt.static_collection("source", [Item::new("a", 0)]);
        let witness = Arc::new(());
        let held = Arc::clone(&witness);
        let registration = source.on_batch(move |_| drop(Arc::clone(&held)));
        let starts = {
            let krt = krt.clone();
            move || match krt.start() {
                Ok(()) | Err(Error::NotStartable) => {}
                Err(other) => panic!("{other}"),
            }
        };
        let ends = {
            let krt = krt.clone();
            move || block_on(krt.shutdown()).unwrap()
        };
        at_once([Box::new(starts), Box::new(ends)]);
        assert!(matches!(krt.start(), Err(Error::NotStartable)));
        drop((source, registration));
        end(krt);
        assert_eq!(Arc::strong_count(&witness), 1);
    });
}

// [K5] [K38] the engine is ended amid writes, registrations and new collections: what it has stays readable and consistent, nobody is told
// a delete, and nothing is left of its transformations and handlers
#[test]
fn model_the_end_amid_writes() {
    model(SCHEDULES, the_end_amid_writes);
}

pub(super) fn the_end_amid_writes() {
    let krt = started();
    let source = krt.static_collection("source", [Item::new("a", 1)]);
    let witness = Arc::new(());
    let held = Arc::clone(&witness);
    let derived = krt.collection("derived", &source, move |_, item| {
        drop(Arc::clone(&held));
        Some((**item).clone())
    });
    let fold = Fold::default();
    let (told, held) = (fold.clone(), Arc::clone(&witness));
    let registration = derived.on_batch(move |batch| {
        drop(Arc::clone(&held));
        told.take(batch);
    });
    let mut stream = derived.subscribe();
    block_on(registration.synced());
    let writer = {
        let (krt, source) = (krt.clone(), source.clone());
        move || {
            source.update(Item::new("a", 2));
            krt.transaction(|t| {
                t.update(&source, Item::new("b", 1));
                t.update(&source, Item::new("c", 1));
            });
        }
    };
    let maker = {
        let (krt, source, held) = (krt.clone(), source.clone(), Arc::clone(&witness));
        move || {
            let late = krt.collection("late", &source, move |_, item| {
                drop(Arc::clone(&held));
                Some((**item).clone())
            });
            let registration = Fold::default().follow(&late);
            thread::yield_now();
            drop((late, registration));
        }
    };
    let ends = {
        let krt = krt.clone();
        move || block_on(krt.shutdown()).unwrap()
    };
    at_once([Box::new(writer), Box::new(maker), Box::new(ends)]);
    let lines = content(&derived);
    let states: [&[&str]; 3] = [&["a=1"], &["a=2"], &["a=2", "b=1", "c=1"]];
    assert!(states.iter().any(|state| lines == *state), "{lines:?}");
    assert!(fold.0.lock().wrong.is_empty());
    assert!(fold.0.lock().content.contains_key("a"), "nobody is told a delete");
    block_on(async { while stream.next().await.is_some() {} });
    source.update(Item::new("a", 9));
    assert_eq!(content(&derived), lines, "nothing moves any more");
    drop(registration);
    end(krt);
    assert_eq!(Arc::strong_count(&witness), 1, "everything is dropped");
}

// [K5] [K38] all handles are dropped by several threads at once, and by a handler: the engine ends by itself, with everything
#[test]
fn model_the_last_handles_are_dropped_anywhere() {
    model(SCHEDULES, || {
        let krt = started();
        let shared = Arc::clone(krt.shared());
        let source = krt.static_collection("source", [Item::new("a", 1)]);
        let witness = Arc::new(());
        let held = Arc::clone(&witness);
        let derived = krt.collection("derived", &source, move |_, item| {
            drop(Arc::clone(&held));
            Some((**item).clone())
        });
        let (victim, held) = (Mutex::new(Some((krt.clone(), derived.clone()))), Arc::clone(&witness));
        let registration = derived.on_batch(move |_| {
            drop(Arc::clone(&held));
            let victim = victim.lock().take();
            drop(victim);
        });
        let stream = derived.subscribe();
        let writes = move || {
            source.update(Item::new("a", 2));
            drop(source);
        };
        at_once([
            Box::new(writes),
            Box::new(move || drop(krt)),
            Box::new(move || drop((derived, stream))),
            Box::new(move || {
                // Until it was called, it keeps the engine.
                block_on(registration.synced());
                drop(registration);
            }),
        ]);
        wait_for_end(&shared);
        assert_eq!(Arc::strong_count(&witness), 1, "everything is dropped");
    });
}

// [K5] [K38] collections are made, stopped and dropped amid writes: the others go on, what is stopped stays as it was and tells its end,
// what is dropped is gone
#[test]
fn model_collections_come_and_go_amid_writes() {
    model(SCHEDULES, || {
        let krt = started();
        let source = krt.static_collection("source", [Item::new("a", 0)]);
        let stays = source.collection_of(&krt, "stays");
        let stopped = source.collection_of(&krt, "stopped");
        let (fold, mut stream) = (Fold::default(), stopped.subscribe());
        let followed = fold.follow(&stays);
        let witness = Arc::new(());
        let maker = {
            let (krt, stays, held) = (krt.clone(), stays.clone(), Arc::clone(&witness));
            move || {
                let fold = Fold::default();
                let inner = Arc::clone(&held);
                let short = krt.collection("short", &stays, move |_, item| {
                    drop(Arc::clone(&inner));
                    Some((**item).clone())
                });
                let told = fold.clone();
                let registration = short.on_batch(move |batch| {
                    drop(Arc::clone(&held));
                    told.take(batch);
                });
                block_on(registration.synced());
                assert!(fold.0.lock().wrong.is_empty());
                assert!(fold.0.lock().content.contains_key("a"));
                drop(short);
                drop(registration);
            }
        };
        let stopper = {
            let stopped = stopped.clone();
            move || stopped.stop()
        };
        let writer = {
            let source = source.clone();
            move || (1..4).for_each(|value| source.update(Item::new("a", value)))
        };
        at_once([Box::new(maker), Box::new(stopper), Box::new(writer)]);
        block_on(krt.settled());
        // What was dropped is gone, a handler that was being called then right after that.
        eventually(|| Arc::strong_count(&witness) == 1);
        assert_eq!(content(&stays), ["a=3"]);
        fold.assert_is(&stays);
        assert!(stopped.is_stopped() && stopped.has_synced());
        let streamed = Fold::default();
        block_on(async {
            while let Some(batch) = stream.next().await {
                streamed.take(&batch);
            }
        });
        streamed.assert_is(&stopped);
        let frozen = content(&stopped);
        source.update(Item::new("a", 4));
        block_on(krt.settled());
        assert_eq!(content(&stopped), frozen);
        drop(followed);
        end(krt);
    });
}
