//! The core under the model checker: every model is a handful of threads that the checker interleaves at each lock, half of
//! the schedules at random and half by priorities. A wake-up that is lost shows as a deadlock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll};

use futures_util::StreamExt;
use shuttle::future::block_on;
use shuttle::thread::{self, JoinHandle};

use super::*;
use crate::error::Stopped;
use crate::informer::handler::HandlerOptions;
use crate::informer::progress::Goal;
use crate::informer::registration::{Registered, Registration};
use crate::informer::relist::Relist;
use crate::informer::stream::EventStream;
use crate::key::ObjectKey;
use crate::sample::{Item, fold, item, item_in};
use crate::sync::checked::model;

/// Schedules of each model in a plain test run; CI asks for many more.
const SCHEDULES: usize = 200;

type State = BTreeMap<ObjectKey, Arc<Item>>;

fn shared(namespaces: &Namespaces) -> Arc<Shared<Item>> {
    Arc::new(Shared::new(namespaces))
}

fn queue(coalesce_above: usize) -> Arc<HandlerQueue<Item>> {
    Arc::new(HandlerQueue::new(
        HandlerOptions::default().coalesce_above(coalesce_above),
    ))
}

fn relist(shared: &Shared<Item>, at: usize, items: &[Arc<Item>]) {
    let mut relist = Relist::new(true);
    for item in items {
        drop(shared.with_store(|store| relist.upsert(store, Arc::new(Item::clone(item)))));
    }
    shared.replace(at, &relist, "1".to_owned());
}

fn upsert(shared: &Shared<Item>, at: usize, items: &[Arc<Item>]) {
    let mut changes = items.iter().cloned().map(Received::Upsert).collect();
    shared.apply(at, &mut changes, Some("2".to_owned()));
}

fn delete(shared: &Shared<Item>, name: &str) {
    let key = ObjectKey::namespaced("n", name);
    shared.apply(0, &mut vec![Received::Delete { key, last: None }], None);
}

/// Handles events until the queue ends, or the object `end` was seen and nothing more waits.
fn consume(queue: &HandlerQueue<Item>, mut before_each: impl FnMut(&HandlerQueue<Item>)) -> State {
    let mut state = State::new();
    loop {
        before_each(queue);
        let Some(taken) = block_on(std::future::poll_fn(|cx| queue.poll_take(cx))) else {
            return state;
        };
        for events in taken.events().chunks(1) {
            if !queue.begin() {
                return state;
            }
            fold(&mut state, events);
            queue.finish(events, false);
        }
        if state.contains_key(&ObjectKey::namespaced("n", "end")) && queue.stats().queue_depth == 0 {
            return state;
        }
    }
}

fn consumer(queue: &Arc<HandlerQueue<Item>>) -> JoinHandle<State> {
    let queue = Arc::clone(queue);
    thread::spawn(move || consume(&queue, |_| ()))
}

fn synced(queue: &HandlerQueue<Item>) -> Result<(), Stopped> {
    let mut ticket = None;
    let result = block_on(std::future::poll_fn(|cx| queue.poll_synced(&mut ticket, cx)));
    queue.forget(ticket);
    result
}

fn cached(shared: &Shared<Item>) -> State {
    let objects = shared.list(None).into_iter();
    objects.map(|object| (object.metadata().key(), object)).collect()
}

/// A list, changes, and another list; the object `end` last.
fn history(shared: &Shared<Item>) {
    relist(shared, 0, &[item("a", "u", 1), item("b", "u", 1)]);
    upsert(shared, 0, &[item("a", "u", 2), item("c", "u", 2)]);
    delete(shared, "b");
    relist(shared, 0, &[item("a", "u", 3), item("b", "u2", 3)]);
    upsert(shared, 0, &[item("end", "u", 4)]);
}

// [I6] [I34] whenever a handler is registered, lagging or not, its events fold to the cache and it becomes synced
#[test]
fn model_registration_amid_changes() {
    model(SCHEDULES, || {
        let shared = shared(&Namespaces::All);
        let early = queue(usize::MAX);
        assert!(shared.register(&early));
        let writer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || history(&shared)
        });
        let late = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let late = queue(0);
                assert!(shared.register(&late));
                let consumer = consumer(&late);
                assert_eq!(synced(&late), Ok(()));
                assert!(late.has_synced());
                consumer.join().unwrap()
            }
        });
        let early = consumer(&early);
        writer.join().unwrap();
        let expected = cached(&shared);
        assert_eq!(late.join().unwrap(), expected);
        assert_eq!(early.join().unwrap(), expected);
    });
}

// [I10] no call begins once `remove` has returned, and `removed` waits for the one that runs
#[test]
fn model_removal_amid_changes() {
    model(SCHEDULES, || {
        let shared = shared(&Namespaces::All);
        let queue = queue(1);
        assert!(shared.register(&queue));
        let (gone, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let writer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || history(&shared)
        });
        let consumer = thread::spawn({
            let (queue, gone, over) = (Arc::clone(&queue), Arc::clone(&gone), Arc::clone(&over));
            move || {
                while let Some(taken) = block_on(std::future::poll_fn(|cx| queue.poll_take(cx))) {
                    for events in taken.events().chunks(1) {
                        let was_gone = gone.load(SeqCst);
                        if !queue.begin() {
                            return;
                        }
                        assert!(!was_gone, "a call begins after the removal");
                        thread::yield_now(); // the call
                        assert!(!over.load(SeqCst), "a call runs after the removal is over");
                        queue.finish(events, false);
                    }
                }
            }
        });
        let remover = thread::spawn({
            let (shared, queue) = (Arc::clone(&shared), Arc::clone(&queue));
            move || {
                queue.remove();
                shared.unregister(&queue);
                gone.store(true, SeqCst);
                let mut ticket = None;
                block_on(std::future::poll_fn(|cx| queue.poll_removed(&mut ticket, cx)));
                queue.forget(ticket);
                over.store(true, SeqCst);
                queue.remove();
            }
        });
        for thread in [writer, consumer, remover] {
            thread.join().unwrap();
        }
        assert!(shared.handler_stats().is_empty());
        assert_eq!(queue.stats().queue_depth, 0);
    });
}

// [I13] [I23] a stop ends every handler and every wait, whichever way it crosses with them
#[test]
fn model_stop_amid_registrations_and_waits() {
    model(SCHEDULES, || {
        let shared = shared(&Namespaces::All);
        let early = queue(1);
        assert!(shared.register(&early));
        let waits = thread::spawn({
            let (shared, early) = (Arc::clone(&shared), Arc::clone(&early));
            move || {
                let mut ticket = None;
                let filled = block_on(std::future::poll_fn(|cx| shared.poll_filled(&mut ticket, cx)));
                shared.forget(ticket);
                assert!(filled.is_err() || shared.is_filled());
                let synced = synced(&early);
                assert!(synced.is_ok() || early.is_ended());
                let mut ticket = None;
                block_on(std::future::poll_fn(|cx| early.poll_removed(&mut ticket, cx)));
            }
        });
        let registers = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let late = queue(1);
                let registered = shared.register(&late);
                assert!(registered || late.is_ended(), "refused without a word");
                consume(&late, |_| ());
                late
            }
        });
        let stops = thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.stop()
        });
        let handles = consumer(&early);
        relist(&shared, 0, &[item("a", "u", 1)]);
        upsert(&shared, 0, &[item("a", "u", 2)]);
        stops.join().unwrap();
        waits.join().unwrap();
        handles.join().unwrap();
        assert!(registers.join().unwrap().is_ended());
        assert!(shared.handler_stats().is_empty());
    });
}

// [I11] a resync tells no state that is older than what was told before, and never two at once
#[test]
fn model_resync_amid_changes() {
    model(SCHEDULES, || {
        let shared = shared(&Namespaces::All);
        let queue = queue(2);
        assert!(shared.register(&queue));
        let writer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || history(&shared)
        });
        // The checker decides when; a runner does it between two batches too.
        let resyncs = thread::spawn({
            let (shared, queue) = (Arc::clone(&shared), Arc::clone(&queue));
            move || {
                for _ in 0..3 {
                    shared.resync(&queue);
                    thread::yield_now();
                }
            }
        });
        let mut left = 3; // or an unfair schedule would never let the writer run
        let state = consume(&queue, |queue| {
            if left > 0 {
                left -= 1;
                shared.resync(queue);
            }
        });
        writer.join().unwrap();
        resyncs.join().unwrap();
        assert_eq!(state, cached(&shared));
    });
}

// [I25] an index is complete when `add_index` returns, whatever two writers do meanwhile
#[test]
fn model_index_amid_two_writers() {
    model(SCHEDULES, || {
        let shared = shared(&Namespaces::many(["m", "n"]));
        upsert(&shared, 1, &[item("still", "u", 1), item("b", "u", 1)]);
        let writers = ["m", "n"].map(|namespace| {
            let shared = Arc::clone(&shared);
            let at = usize::from(namespace == "n");
            thread::spawn(move || {
                upsert(&shared, at, &[item_in(namespace, "b", "u", 2)]);
                if at == 0 {
                    relist(&shared, at, &[item_in(namespace, "c", "u", 3)]);
                }
            })
        });
        let def = IndexDef::new("name", |item: &Item| [item.metadata.name.clone()]);
        let adders = [(); 2].map(|()| {
            let (shared, def) = (Arc::clone(&shared), def.clone());
            thread::spawn(move || {
                let id = shared.add_index(&def).ok().unwrap();
                assert_eq!(shared.by_index(id, "still").len(), 1);
            })
        });
        for thread in writers.into_iter().chain(adders) {
            thread.join().unwrap();
        }
        shared.check_invariants();
    });
}

// [I35] who waits for a write is told when the cache has it, or that the informer stopped: never neither
#[test]
fn model_caught_up_amid_changes_and_stop() {
    model(SCHEDULES, || {
        let shared = shared(&Namespaces::All);
        let waiters = [false, true].map(|deleted| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (key, uid) = (
                    ObjectKey::namespaced("n", if deleted { "b" } else { "a" }),
                    "u".to_owned(),
                );
                let mut wait = Wait::for_goal(if deleted {
                    Goal::Deleted { key: key.clone(), uid }
                } else {
                    let version = "2".to_owned();
                    Goal::Written {
                        key: key.clone(),
                        version,
                    }
                });
                let reached = block_on(std::future::poll_fn(|cx| shared.poll_reached(&mut wait, cx)));
                shared.forget_wait(&mut wait);
                let cached = shared
                    .get(key.as_ref())
                    .map(|item| item.metadata.resource_version.clone());
                match reached {
                    Err(Stopped) => assert!(shared.is_stopped()),
                    Ok(()) if deleted => assert_eq!(cached, None),
                    Ok(()) => assert_eq!(cached.as_deref(), Some("2")),
                }
            })
        });
        relist(&shared, 0, &[item("a", "u", 1), item("b", "u", 1)]);
        let stops = thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.stop()
        });
        upsert(&shared, 0, &[item("a", "u", 2)]);
        delete(&shared, "b");
        stops.join().unwrap();
        for waiter in waiters {
            waiter.join().unwrap();
        }
        assert_eq!(shared.waiting_for_progress(), 0);
    });
}

/// A registration that takes its handler out of `shared`.
struct Loose {
    queue: Arc<HandlerQueue<Item>>,
    shared: Arc<Shared<Item>>,
}

impl Registered for Loose {
    fn has_synced(&self) -> bool {
        self.queue.has_synced()
    }

    fn is_stopped(&self) -> bool {
        self.queue.is_ended()
    }

    fn poll_synced(&self, ticket: &mut Option<u64>, cx: &mut Context<'_>) -> Poll<Result<(), Stopped>> {
        self.queue.poll_synced(ticket, cx)
    }

    fn poll_removed(&self, ticket: &mut Option<u64>, cx: &mut Context<'_>) -> Poll<()> {
        self.queue.poll_removed(ticket, cx)
    }

    fn forget(&self, ticket: Option<u64>) {
        self.queue.forget(ticket);
    }

    fn remove(&self) {
        self.queue.remove();
        self.shared.unregister(&self.queue);
    }

    fn owner(&self) -> usize {
        0
    }
}

// [I39] a stream that is dropped between any two steps is removed, and whoever waits for it is told
#[test]
fn model_stream_dropped_amid_changes() {
    model(SCHEDULES, || {
        let shared = shared(&Namespaces::All);
        let queue = queue(1);
        assert!(shared.register(&queue));
        let registration = Registration::new(Arc::new(Loose {
            queue: Arc::clone(&queue),
            shared: Arc::clone(&shared),
        }));
        let (synced, removed) = (registration.synced(), registration.removed());
        let reader = thread::spawn({
            let mut events = EventStream::new(Arc::clone(&queue), registration.guard(), None);
            move || {
                let mut state = State::new();
                for _ in 0..2 {
                    fold(&mut state, [&block_on(events.next()).unwrap()]);
                }
            }
        });
        let waiter = thread::spawn(move || {
            let synced = block_on(synced);
            block_on(removed);
            synced
        });
        history(&shared);
        reader.join().unwrap();
        // Two initial events were handled, or merged away: which of it came first decides.
        let told = waiter.join().unwrap();
        assert!(told.is_ok() || !queue.has_synced());
        assert!(queue.is_ended());
        assert!(shared.handler_stats().is_empty());
    });
}

// [I37] [I27] several reflectors fill one informer: a handler syncs with the last of them, a list is never half of a step
#[test]
fn model_several_sections() {
    model(SCHEDULES, || {
        let shared = shared(&Namespaces::many(["m", "n"]));
        let other = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                relist(&shared, 0, &[item_in("m", "a", "u", 1), item_in("m", "b", "u", 1)]);
                upsert(&shared, 0, &[item_in("m", "a", "u", 2), item_in("m", "b", "u", 2)]);
                relist(&shared, 0, &[item_in("m", "a", "u", 3), item_in("m", "b", "u", 3)]);
            }
        });
        let reader = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                for _ in 0..3 {
                    let versions: Vec<String> = shared
                        .list(Some("m"))
                        .iter()
                        .map(|item| item.metadata.resource_version.clone())
                        .collect();
                    assert!(matches!(&versions[..], [] | [_, _]), "half of a step");
                    assert!(versions.first() == versions.last(), "half of a step: {versions:?}");
                }
            }
        });
        let queue = queue(1);
        assert!(shared.register(&queue));
        let waiter = thread::spawn({
            let (shared, queue) = (Arc::clone(&shared), Arc::clone(&queue));
            move || {
                assert_eq!(synced(&queue), Ok(()));
                assert!(shared.is_section_filled(0) && shared.is_section_filled(1));
            }
        });
        let handled = consumer(&queue);
        relist(&shared, 1, &[item("a", "u", 1)]);
        other.join().unwrap();
        upsert(&shared, 1, &[item("end", "u", 2)]);
        reader.join().unwrap();
        waiter.join().unwrap();
        assert_eq!(handled.join().unwrap(), cached(&shared));
        shared.check_invariants();
    });
}
