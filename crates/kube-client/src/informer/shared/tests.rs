//! Store and dispatch together: relists, and registration while a writer is at work on another thread.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use super::*;
use crate::informer::handler::HandlerOptions;
use crate::informer::relist::Relist;
use crate::key::ObjectKey;
use crate::sample::{Item, fold, item, item_in};
use crate::sync::checked::assert_none_held;

fn cx() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn relist(shared: &Shared<Item>, items: &[Arc<Item>], version: &str) {
    let mut relist = Relist::new(true);
    for item in items {
        drop(shared.with_store(|store| relist.upsert(store, Arc::new(Item::clone(item)))));
    }
    shared.replace(0, &relist, version.to_owned());
    shared.check_invariants();
}

fn register(shared: &Shared<Item>) -> Arc<HandlerQueue<Item>> {
    let options = HandlerOptions::default().coalesce_above(usize::MAX);
    let queue = Arc::new(HandlerQueue::new(options));
    assert!(shared.register(&queue));
    queue
}

/// Everything that waits in the queue, handled.
fn take_all(queue: &HandlerQueue<Item>) -> Vec<Event<Item>> {
    let mut all = Vec::new();
    while let Poll::Ready(Some(taken)) = queue.poll_take(&cx()) {
        assert!(queue.begin());
        all.extend(taken.events().iter().cloned());
        queue.finish(taken.events(), false);
    }
    all
}

fn text(events: &[Event<Item>]) -> Vec<String> {
    events.iter().map(|event| format!("{event:?}")).collect()
}

// [I16] a relist tells deletes that were missed, and keeps the `Arc` of what is unchanged
#[test]
fn relist_tells_the_difference_in_one_step() {
    let shared = Shared::new(&Namespaces::All);
    let queue = register(&shared);
    relist(&shared, &[item("a", "1", 1), item("b", "1", 2), item("c", "1", 3)], "3");
    assert_eq!(
        text(&take_all(&queue)),
        [
            "Added(n/a, initial: true)",
            "Added(n/b, initial: true)",
            "Added(n/c, initial: true)"
        ]
    );
    let kept = shared.get(ObjectKey::namespaced("n", "a").as_ref()).unwrap();
    relist(&shared, &[item("a", "1", 1), item("b", "1", 9), item("d", "1", 8)], "9");
    assert_eq!(
        text(&take_all(&queue)),
        [
            "Deleted(n/c, stale: true)",
            "Updated(n/b)",
            "Added(n/d, initial: false)"
        ]
    );
    assert!(Arc::ptr_eq(
        &kept,
        &shared.get(ObjectKey::namespaced("n", "a").as_ref()).unwrap()
    ));
    assert_eq!(shared.version(), "9");
}

#[test]
fn relist_takes_updates_and_deletes_before_it_is_whole() {
    let shared = Shared::new(&Namespaces::All);
    relist(&shared, &[item("a", "1", 1), item("b", "1", 2)], "2");
    let queue = register(&shared);
    take_all(&queue);
    let mut list = Relist::new(true);
    let key = |name: &str| ObjectKey::namespaced("n", name);
    for item in [
        item("a", "1", 1),
        item("c", "1", 3),
        item("c", "1", 4),
        item("d", "1", 5),
        item("a", "1", 6),
    ] {
        drop(shared.with_store(|store| list.upsert(store, item)));
    }
    drop(shared.with_store(|store| list.remove(store, key("d").as_ref())));
    drop(shared.with_store(|store| list.keep(store, key("b").as_ref(), "")));
    shared.replace(0, &list, "6".to_owned());
    shared.check_invariants();
    assert_eq!(text(&take_all(&queue)), ["Added(n/c, initial: false)", "Updated(n/a)"]);
    assert_eq!(shared.get(key("c").as_ref()).unwrap().value, "c@4");
}

// [I6] handlers that register while a writer is at work see every object and change exactly once
#[test]
fn registration_amid_changes_loses_and_repeats_nothing() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let shared: Arc<Shared<Item>> = Arc::new(Shared::new(&Namespaces::All));
    relist(&shared, &[], "0");
    let done = Arc::new(AtomicBool::new(false));
    let writer = std::thread::spawn({
        let (shared, done) = (Arc::clone(&shared), Arc::clone(&done));
        move || {
            let mut random = fastrand::Rng::with_seed(seed);
            for version in 1..3000 {
                let name = format!("i{}", random.u8(0..50));
                let mut changes = vec![if random.u8(..) < 80 {
                    Received::Delete {
                        key: ObjectKey::namespaced("n", &name),
                        last: None,
                    }
                } else {
                    Received::Upsert(item(&name, "u", version))
                }];
                shared.apply(0, &mut changes, Some(version.to_string()));
            }
            done.store(true, Ordering::SeqCst);
        }
    });
    let mut handlers = Vec::new();
    while !done.load(Ordering::SeqCst) {
        if handlers.len() < 50 {
            handlers.push((register(&shared), BTreeMap::new()));
        }
        for (queue, state) in &mut handlers {
            fold(state, &take_all(queue));
        }
        std::thread::yield_now();
    }
    writer.join().unwrap();
    let mut expected = shared.list(None);
    expected.sort_unstable_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    for (queue, state) in &mut handlers {
        fold(state, &take_all(queue));
        let mut seen: Vec<Arc<Item>> = state.values().cloned().collect();
        seen.sort_unstable_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        assert_eq!(seen, expected);
        assert!(queue.has_synced());
    }
    shared.check_invariants();
}

// [I25] an index added while a writer is at work is complete when `add_index` returns
#[test]
fn index_added_amid_changes_is_complete() {
    let shared: Arc<Shared<Item>> = Arc::new(Shared::new(&Namespaces::All));
    let items: Vec<Arc<Item>> = (0..500).map(|n| item(&format!("i{n}"), "u", 1)).collect();
    relist(&shared, &items, "1");
    let writer = std::thread::spawn({
        let shared = Arc::clone(&shared);
        move || {
            for version in 2..2000_u64 {
                let name = format!("i{}", version % 700);
                shared.apply(
                    0,
                    &mut vec![Received::Upsert(item(&name, "u", version))],
                    Some(version.to_string()),
                );
            }
        }
    });
    let def = IndexDef::new("name", |item: &Item| [item.metadata.name.clone()]);
    let adders: Vec<_> = (0..2)
        .map(|_| {
            let (shared, def) = (Arc::clone(&shared), def.clone());
            std::thread::spawn(move || {
                let index = shared.add_index(&def).map_err(|_| ()).unwrap();
                for n in 0..500 {
                    assert_eq!(shared.by_index(index, &format!("i{n}")).len(), 1, "i{n}");
                }
                index
            })
        })
        .collect();
    let ids: Vec<usize> = adders.into_iter().map(|adder| adder.join().unwrap()).collect();
    writer.join().unwrap();
    assert_eq!(ids, [0, 0]);
    shared.check_invariants();
}

// [I25] the same name with another definition is refused
#[test]
fn index_of_the_same_name_needs_the_same_definition() {
    fn by_value(item: &Item) -> [String; 1] {
        [item.value.clone()]
    }
    let shared: Shared<Item> = Shared::new(&Namespaces::All);
    let first = IndexDef::new("x", by_value);
    assert_eq!(shared.add_index(&first).ok(), Some(0));
    assert_eq!(
        shared.add_index(&IndexDef::new("x", by_value)).ok(),
        Some(0),
        "the same function"
    );
    assert_eq!(shared.add_index(&first.clone()).ok(), Some(0), "the same handle");
    let captured = 1;
    let other = IndexDef::new("x", move |_: &Item| Some(captured.to_string()));
    let known = shared.add_index(&other).err().unwrap();
    assert_eq!(known.at(), first.at());
}

// [I39] a panicking extractor costs that object its values, nothing else
#[test]
fn panicking_extractor_gives_no_values() {
    let shared: Shared<Item> = Shared::new(&Namespaces::All);
    let index = shared.add_index(&IndexDef::new("x", |item: &Item| {
        assert_ne!(item.metadata.name, "bad", "a panic on purpose");
        Some("v")
    }));
    relist(&shared, &[item("good", "u", 1), item("bad", "u", 2)], "2");
    let found = shared.by_index(index.ok().unwrap(), "v");
    assert_eq!(found.len(), 1);
    assert_eq!(shared.len(), 2);
}

// [I13] after a stop: refused, reported, the cache stays readable
#[test]
fn registration_after_stop_is_refused() {
    let shared: Shared<Item> = Shared::new(&Namespaces::All);
    relist(&shared, &[item("a", "u", 1)], "1");
    shared.stop();
    let queue = Arc::new(HandlerQueue::new(HandlerOptions::default()));
    assert!(!shared.register(&queue));
    assert!(queue.is_ended());
    assert_eq!(shared.list(None).len(), 1);
}

/// Stands in for a task of the user's executor: waking and dropping it run code of theirs.
struct Task;

impl std::task::Wake for Task {
    fn wake(self: Arc<Self>) {
        assert_none_held();
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        assert_none_held();
    }
}

// No code of the user's runs under a lock: wakers, index extractors, and the drop of objects (which every test's items
// check). A lagging handler is where objects lose their last reference in the middle of a push.
#[test]
fn user_code_runs_without_a_lock() {
    let shared: Shared<Item> = Shared::new(&Namespaces::All);
    let def = IndexDef::new("checked", |item: &Item| {
        assert_none_held();
        [item.metadata.name.clone()]
    });
    let poll_with_a_new_waker = |poll: &dyn Fn(&Context<'_>)| {
        let waker = Waker::from(Arc::new(Task));
        poll(&Context::from_waker(&waker));
    };
    let lagging = Arc::new(HandlerQueue::new(HandlerOptions::default().coalesce_above(0)));
    assert!(shared.register(&lagging));
    let (filled, synced, removed) = (Mutex::new(None), Mutex::new(None), Mutex::new(None));
    for _ in 0..2 {
        // The second waker replaces the first one.
        poll_with_a_new_waker(&|cx| assert!(shared.poll_filled(&mut filled.lock().unwrap(), cx).is_pending()));
        poll_with_a_new_waker(&|cx| assert!(lagging.poll_synced(&mut synced.lock().unwrap(), cx).is_pending()));
        poll_with_a_new_waker(&|cx| assert!(lagging.poll_removed(&mut removed.lock().unwrap(), cx).is_pending()));
        poll_with_a_new_waker(&|cx| assert!(lagging.poll_take(cx).is_pending()));
    }
    shared.add_index(&def).ok().unwrap();
    // Not by `relist`, which goes on to check the indexes under a lock.
    let mut list = Relist::new(true);
    for object in [item("a", "u", 1), item("b", "u", 1)] {
        drop(shared.with_store(|store| list.upsert(store, object)));
    }
    shared.replace(0, &list, "1".to_owned());
    let later = IndexDef::new("later", |item: &Item| {
        assert_none_held();
        Some(item.value.clone())
    });
    let later = shared.add_index(&later).ok().unwrap();
    assert_eq!(
        shared.by_index(0, "a").len(),
        1,
        "an assertion that fails would leave the index empty"
    );
    assert_eq!(shared.by_index(later, "a@1").len(), 1);
    poll_with_a_new_waker(&|cx| {
        let mut ticket = None;
        assert!(lagging.poll_synced(&mut ticket, cx).is_pending());
        lagging.forget(ticket);
    });
    for version in 2..20 {
        let change = match version % 3 {
            0 => Received::Delete {
                key: ObjectKey::namespaced("n", "a"),
                last: Some(item("a", "u", version)),
            },
            _ => Received::Upsert(item("a", "u", version)),
        };
        shared.apply(0, &mut vec![change], None);
    }
    // A list that changes its mind: an object comes, comes unchanged, and goes.
    let mut list = Relist::new(true);
    for object in [
        item("b", "u", 5),
        item("b", "u", 1),
        item("b", "u", 6),
        item("c", "u", 1),
    ] {
        drop(shared.with_store(|store| list.upsert(store, object)));
    }
    drop(shared.with_store(|store| list.remove(store, ObjectKey::namespaced("n", "b").as_ref())));
    shared.replace(0, &list, "20".to_owned());
    assert_eq!(shared.by_index(0, "c").len(), 1);
    shared.resync(&lagging);
    lagging.remove();
    shared.unregister(&lagging);
    shared.stop();
}

// Registering copies no object, and what a handler holds is what it has yet to handle.
#[test]
fn registering_shares_every_object() {
    let shared: Shared<Item> = Shared::new(&Namespaces::All);
    let items: Vec<Arc<Item>> = (0..1000).map(|n| item(&format!("i{n}"), "u", 1)).collect();
    relist(&shared, &items, "1");
    drop(items);
    let counts = |shared: &Shared<Item>| -> Vec<usize> {
        let mut counts: Vec<usize> = shared
            .list(None)
            .iter()
            .map(|object| Arc::strong_count(object) - 1)
            .collect();
        counts.dedup();
        counts
    };
    assert_eq!(counts(&shared), [1], "the cache alone");
    let queues: Vec<_> = (0..3).map(|_| register(&shared)).collect();
    assert_eq!(counts(&shared), [4], "and the initial state of each handler");
    for queue in &queues {
        let cached = shared.list(None);
        for event in take_all(queue) {
            assert!(cached.iter().any(|object| Arc::ptr_eq(object, event.object())));
        }
    }
    assert_eq!(counts(&shared), [1], "a handler that keeps up holds nothing");
    // A change costs one event for all handlers together.
    shared.apply(0, &mut vec![Received::Upsert(item("i0", "u", 2))], None);
    let changed = shared.get(ObjectKey::namespaced("n", "i0").as_ref()).unwrap();
    assert_eq!(Arc::strong_count(&changed), 3, "cache, batch, and this");
    assert!(queues.iter().all(|queue| queue.stats().queue_depth == 1));
    for queue in &queues {
        take_all(queue);
    }
    assert_eq!(Arc::strong_count(&changed), 2);
}

// [I27] lists under concurrent writes: each is one state of the cache, by namespace the same as a filtered scan
#[test]
fn lists_are_never_torn() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let shared: Arc<Shared<Item>> = Arc::new(Shared::new(&Namespaces::many(["m", "n"])));
    let done = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = ["m", "n"]
        .into_iter()
        .enumerate()
        .map(|(at, namespace)| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed + at as u64);
                // Each step gives all objects of the namespace one version, by a list or by changes.
                for version in 1..1500 {
                    let all = (0..random.usize(1..20)).map(|n| item_in(namespace, &format!("i{n}"), "u", version));
                    if version == 1 || random.u8(..) < 100 {
                        let mut list = Relist::new(true);
                        for item in all {
                            drop(shared.with_store(|store| list.upsert(store, item)));
                        }
                        shared.replace(at, &list, version.to_string());
                    } else {
                        let all: Vec<_> = shared.list(Some(namespace));
                        let names = all.iter().map(|item| item.metadata.name.clone());
                        let mut changes = names
                            .map(|name| Received::Upsert(item_in(namespace, &name, "u", version)))
                            .collect();
                        shared.apply(at, &mut changes, Some(version.to_string()));
                    }
                }
            })
        })
        .collect();
    let versions = |objects: &[Arc<Item>], namespace: &str| -> Vec<String> {
        let of = objects
            .iter()
            .filter(|item| item.metadata.namespace.as_deref() == Some(namespace));
        let mut versions: Vec<String> = of.map(|item| item.metadata.resource_version.clone()).collect();
        versions.dedup();
        versions
    };
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (shared, done) = (Arc::clone(&shared), Arc::clone(&done));
            std::thread::spawn(move || {
                let mut lists = 0_u64;
                while !done.load(Ordering::SeqCst) {
                    let all = shared.list(None);
                    for namespace in ["m", "n"] {
                        assert!(versions(&all, namespace).len() <= 1, "a list is half of a step");
                        let own = shared.list(Some(namespace));
                        assert_eq!(versions(&own, namespace).len(), usize::from(!own.is_empty()));
                        assert!(
                            own.iter()
                                .all(|item| item.metadata.namespace.as_deref() == Some(namespace))
                        );
                    }
                    lists += 1;
                }
                lists
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    done.store(true, Ordering::SeqCst);
    for reader in readers {
        assert!(reader.join().unwrap() > 0);
    }
    for namespace in ["m", "n"] {
        let scan = shared.list(None).into_iter();
        let mut scan: Vec<_> = scan
            .filter(|item| item.metadata.namespace.as_deref() == Some(namespace))
            .collect();
        let mut own = shared.list(Some(namespace));
        for list in [&mut scan, &mut own] {
            list.sort_unstable_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        }
        assert_eq!(own, scan);
    }
    shared.check_invariants();
}

// [I37] a section's list changes that section alone, and the last first list fills the informer
#[test]
fn sections_fill_and_relist_by_themselves() {
    let shared: Shared<Item> = Shared::new(&Namespaces::many(["m", "n"]));
    let queue = register(&shared);
    let list = |at: usize, namespace: &str, names: &[&str], version: &str| {
        let mut list = Relist::new(true);
        for name in names {
            drop(shared.with_store(|store| list.upsert(store, item_in(namespace, name, "u", 1))));
        }
        shared.replace(at, &list, version.to_owned());
        shared.check_invariants();
    };
    list(1, "n", &["a"], "20");
    assert_eq!(text(&take_all(&queue)), ["Added(n/a, initial: true)"]);
    assert!(!shared.is_filled() && !queue.has_synced());
    assert_eq!(
        (shared.version(), shared.section_version(1)),
        (String::new(), "20".to_owned())
    );
    list(1, "n", &["a", "b"], "21");
    assert_eq!(text(&take_all(&queue)), ["Added(n/b, initial: false)"], "a relist");
    let late = register(&shared);
    assert_eq!(take_all(&late).len(), 2);
    list(0, "m", &["a"], "9");
    for queue in [&queue, &late] {
        assert!(!queue.has_synced());
        assert_eq!(text(&take_all(queue)), ["Added(m/a, initial: true)"]);
        assert!(queue.has_synced());
    }
    assert_eq!(shared.version(), "9", "up to which all is current");
    list(1, "n", &["b"], "30");
    assert_eq!(text(&take_all(&queue)), ["Deleted(n/a, stale: true)"]);
    assert_eq!(shared.len(), 2);
}
