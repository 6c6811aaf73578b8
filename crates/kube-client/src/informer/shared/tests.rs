//! Store and dispatch together: relists, and registration while a writer is at work on another thread.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use super::*;
use crate::informer::handler::HandlerOptions;
use crate::testing::{Item, fold, item};

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
    shared.with_store(|store| {
        for item in [
            item("a", "1", 1),
            item("c", "1", 3),
            item("c", "1", 4),
            item("d", "1", 5),
            item("a", "1", 6),
        ] {
            list.upsert(store, item);
        }
        list.remove(store, key("d").as_ref());
        list.keep(store, key("b").as_ref(), "");
    });
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
