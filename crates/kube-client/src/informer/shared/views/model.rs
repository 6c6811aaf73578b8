//! Views under the model checker: steps of a filter, changes of objects, handlers and handles that come and go.

use std::collections::BTreeMap;

use shuttle::future::block_on;
use shuttle::thread::{self, JoinHandle};

use super::tests::{Switch, criteria, delete, queue, relist, shared, upsert};
use super::*;
use crate::filter::NamespaceFilter;
use crate::key::ObjectKey;
use crate::sample::{Item, fold, item_in};
use crate::sync::checked::model;

/// Schedules of each model in a plain test run; CI asks for many more.
const SCHEDULES: usize = 200;

type Objects = BTreeMap<ObjectKey, Arc<Item>>;

/// Handles events until `z/end` was seen and nothing more waits, or the queue ends.
fn consumer(queue: &Arc<HandlerQueue<Item>>) -> JoinHandle<Objects> {
    let queue = Arc::clone(queue);
    thread::spawn(move || {
        let mut state = Objects::new();
        loop {
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
            if state.contains_key(&ObjectKey::namespaced("z", "end")) && queue.stats().queue_depth == 0 {
                return state;
            }
        }
    })
}

fn shown(shared: &Shared<Item>, id: ViewId) -> Objects {
    let objects = shared.list_in(id, None).into_iter();
    objects.map(|object| (object.metadata().key(), object)).collect()
}

fn allowed(shared: &Shared<Item>, namespaces: &[&str]) -> Objects {
    let objects = shared.list(None).into_iter();
    let objects = objects.map(|object| (object.metadata().key(), object));
    objects
        .filter(|(key, _)| namespaces.contains(&key.namespace().unwrap()))
        .collect()
}

/// A list, changes in two namespaces, and another list.
fn history(shared: &Shared<Item>) {
    relist(shared, &[item_in("m", "a", "u", 1), item_in("n", "a", "u", 1)]);
    upsert(shared, &[item_in("m", "a", "u", 2), item_in("n", "b", "u", 2)]);
    delete(shared, "n", "a");
    relist(
        shared,
        &[
            item_in("m", "a", "v", 3),
            item_in("n", "b", "u", 2),
            item_in("n", "c", "u", 3),
        ],
    );
}

// [V1] [V2] whatever crosses, the handler is told each change once, and in the end what the filter allows is what is shown
#[test]
fn model_view_filter_change_against_events() {
    model(SCHEDULES, || {
        let (shared, filter) = (shared(), Arc::new(NamespaceFilter::new(["m", "z"])));
        let claim = shared.view(criteria(&filter));
        let queue = queue(1);
        assert!(shared.register_in(claim.id(), &queue));
        let handled = consumer(&queue);
        let writer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || history(&shared)
        });
        let other = thread::spawn({
            let filter = Arc::clone(&filter);
            move || filter.set(["m", "n", "z"])
        });
        filter.set(["z"]);
        filter.set(["n", "z"]);
        other.join().unwrap();
        writer.join().unwrap();
        let namespaces = filter.namespaces();
        let namespaces: Vec<&str> = namespaces.iter().map(AsRef::as_ref).collect();
        upsert(&shared, &[item_in("z", "end", "u", 9)]);
        let expected = allowed(&shared, &namespaces);
        assert_eq!(shown(&shared, claim.id()), expected);
        assert_eq!(handled.join().unwrap(), expected);
        shared.check_view(claim.id());
        shared.check_invariants();
    });
}

// [V5] views and handlers that come and go amid steps and changes: nothing is left, and nothing is told twice
#[test]
fn model_view_made_and_dropped_amid_changes() {
    model(SCHEDULES, || {
        let (shared, filter) = (shared(), Arc::new(NamespaceFilter::new(["m", "z"])));
        let writer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || history(&shared)
        });
        let users = [(); 2].map(|()| {
            let (shared, filter) = (Arc::clone(&shared), Arc::clone(&filter));
            thread::spawn(move || {
                let claim = shared.view(criteria(&filter));
                let queue = queue(usize::MAX);
                assert!(shared.register_in(claim.id(), &queue));
                drop(claim);
                let handled = consumer(&queue);
                thread::yield_now();
                queue.remove();
                shared.unregister(&queue);
                handled.join().unwrap();
            })
        });
        filter.set(["n", "z"]);
        for thread in users.into_iter().chain([writer]) {
            thread.join().unwrap();
        }
        assert_eq!(shared.views(), 0);
        assert!(shared.handler_stats().is_empty());
        assert_eq!(
            Arc::strong_count(&filter),
            1,
            "a step keeps the filter of a view that ended"
        );
    });
}

// [V7] the filter syncs while the cache fills: whoever waits is told when all that is visible is there, and never before
#[test]
fn model_view_filter_syncs_amid_the_first_list() {
    model(SCHEDULES, || {
        let (shared, filter) = (shared(), Switch::new(false, |metadata| metadata.namespace == Some("n")));
        let claim = shared.view(criteria(&filter));
        let queue = queue(usize::MAX);
        assert!(shared.register_in(claim.id(), &queue));
        let waiter = thread::spawn({
            let (shared, id) = (Arc::clone(&shared), claim.id());
            move || {
                let mut ticket = None;
                let ready = block_on(std::future::poll_fn(|cx| shared.poll_ready(id, &mut ticket, cx)));
                assert_eq!(ready, Ok(()));
                assert_eq!(shown(&shared, id).len(), 2);
            }
        });
        let handler = thread::spawn({
            let queue = Arc::clone(&queue);
            move || {
                let mut state = Objects::new();
                while !queue.has_synced() {
                    let taken = block_on(std::future::poll_fn(|cx| queue.poll_take(cx))).unwrap();
                    assert!(queue.begin());
                    fold(&mut state, taken.events());
                    queue.finish(taken.events(), false);
                }
                assert_eq!(state.len(), 2, "synced with half a world");
            }
        });
        let syncs = thread::spawn({
            let filter = Arc::clone(&filter);
            move || filter.sync()
        });
        let items = [
            item_in("n", "a", "u", 1),
            item_in("m", "a", "u", 1),
            item_in("n", "b", "u", 1),
        ];
        relist(&shared, &items);
        for thread in [syncs, waiter, handler] {
            thread.join().unwrap();
        }
        shared.check_view(claim.id());
    });
}
