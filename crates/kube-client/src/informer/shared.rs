//! Cache and dispatch list under one lock: what makes "exactly once" hold.
//!
//! A change of the store, the push of its events to every handler's queue, and the registration of a handler with its
//! initial snapshot each happen under the write lock, so they have one order. Code of the user's (index extractors,
//! drops of objects, wakers) runs before or after, never under it. Synchronous: it needs no runtime.
//!
//! Reflectors write through a [`Part`](crate::informer::part::Part). What belongs to one of them, of which an informer over
//! several namespaces has one each, is a [`Section`]: its namespace, its version, whether its first list is there. All
//! else is one: store, indexes, handlers, and "filled", which means every section.
//!
//! Here are the state, what is read of it, and the handlers' coming and going. `changes` is what changes it, `waits` who waits for
//! that, `views` what filters hide of it and from whom; all under the same lock.

use std::cmp::Ordering;
use std::sync::Arc;
use std::task::Waker;

pub(crate) use self::changes::Received;
use self::changes::{Fills, Prepared};
use self::views::ViewState;
pub(crate) use self::waits::Wait;
use crate::event::Event;
use crate::informer::backlog::Batch;
use crate::informer::deferred::discard_each;
use crate::informer::dispatch::{HandlerQueue, HandlerStats};
use crate::informer::index::{IndexDef, Values};
use crate::informer::options::Namespaces;
use crate::informer::progress::Progress;
use crate::informer::reflector::version;
use crate::informer::returns::Returns;
use crate::informer::store::Store;
use crate::key::KeyRef;
use crate::object::Object;
use crate::sync::{Mutex, RwLock, Waiters, wake_all};

/// The synchronous core of an informer.
pub(crate) struct Shared<K: Object> {
    // Lock order: this one, then `prepared`.
    state: RwLock<State<K>>,
    // What the last step was prepared for, if no step is under way.
    prepared: Mutex<Prepared<K>>,
    returns: Arc<Returns<K>>,
}

struct State<K: Object> {
    store: Store<K>,
    // Those who are told of everything; those who look through a filter are in `views`.
    handlers: Vec<Arc<HandlerQueue<K>>>,
    views: Vec<ViewState<K>>,
    // Counts what changes what a step has to be prepared for: an index or a view that comes, a view that goes or whose filters make
    // a step. 0 only if there never was any.
    epoch: u64,
    // The number of the view made last.
    last_view: u64,
    // Invariant: never empty; sorted by namespace; objects of a section are changed through it alone.
    sections: Box<[Section]>,
    // Invariant: the number of sections that are not filled; 0 means that the informer is. Never grows.
    unfilled: usize,
    // The kind was known to be absent once, so that delayed views need not wait for its first list. Never goes back.
    excused: bool,
    stopped: bool,
    waiters: Waiters,
}

/// What one reflector keeps current.
struct Section {
    // `None` if it is the only one: then the whole store is its own.
    namespace: Option<Arc<str>>,
    // The first list is in the store. Never goes back.
    filled: bool,
    // That, or since the kind is there again: the first list then. Goes back when the kind goes.
    listed: bool,
    // The resource version up to which its objects are current.
    version: String,
    // Who waits for the store to have seen a write to one of its objects.
    progress: Progress,
}

impl<K: Object> Shared<K> {
    /// One section per part of `namespaces`, in the same order.
    pub(crate) fn new(namespaces: &Namespaces) -> Self {
        let parts = namespaces.parts();
        let only = parts.len() == 1;
        let sections: Box<[Section]> = parts
            .into_iter()
            .map(|namespace| Section {
                namespace: namespace.filter(|_| !only),
                filled: false,
                listed: false,
                version: String::new(),
                progress: Progress::default(),
            })
            .collect();
        Self {
            state: RwLock::new(State {
                store: Store::new(),
                handlers: Vec::new(),
                views: Vec::new(),
                epoch: 0,
                last_view: 0,
                unfilled: sections.len(),
                excused: false,
                sections,
                stopped: false,
                waiters: Waiters::default(),
            }),
            prepared: Mutex::default(),
            returns: Arc::default(),
        }
    }

    pub(crate) fn get(&self, key: KeyRef<'_>) -> Option<Arc<K>> {
        self.state.read().store.get(key).map(Arc::clone)
    }

    pub(crate) fn list(&self, namespace: Option<&str>) -> Vec<Arc<K>> {
        self.state.read().store.list(namespace)
    }

    pub(crate) fn len(&self) -> usize {
        self.state.read().store.len()
    }

    pub(crate) fn by_index(&self, id: usize, value: &str) -> Vec<Arc<K>> {
        self.state.read().store.by_index(id, value)
    }

    pub(crate) fn index_values(&self, id: usize) -> Vec<Arc<str>> {
        let state = self.state.read();
        state
            .store
            .index(id)
            .into_iter()
            .flat_map(|table| table.known_values().map(Arc::clone))
            .collect()
    }

    /// The version up to which the whole store is current: the smallest of the sections', empty if there is none.
    pub(crate) fn version(&self) -> String {
        let state = self.state.read();
        let mut smallest = &state.sections[0].version;
        for section in &state.sections[1..] {
            match version::compare(&section.version, smallest) {
                Some(Ordering::Less) => smallest = &section.version,
                Some(Ordering::Equal | Ordering::Greater) => {}
                None => return String::new(),
            }
        }
        smallest.clone()
    }

    /// The version up to which a section's objects are current.
    pub(crate) fn section_version(&self, at: usize) -> String {
        self.state.read().sections[at].version.clone()
    }

    pub(crate) fn is_filled(&self) -> bool {
        self.state.read().unfilled == 0
    }

    pub(crate) fn is_section_filled(&self, at: usize) -> bool {
        self.state.read().sections[at].filled
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state.read().stopped
    }

    pub(crate) fn handler_stats(&self) -> Vec<HandlerStats> {
        let handlers = self.state.read().all_handlers();
        handlers.iter().map(|queue| queue.stats()).collect()
    }

    /// Adds a handler and hands it the state of this instant. False if stopped: then it was only told so.
    pub(crate) fn register(&self, queue: &Arc<HandlerQueue<K>>) -> bool {
        let deferred = {
            let mut state = self.state.write();
            if state.stopped {
                drop(state);
                queue.stop();
                return false;
            }
            state.handlers.push(Arc::clone(queue));
            let objects = state.store.iter().map(|(_, object)| Arc::clone(object));
            let snapshot: Batch<K> = objects.map(|object| Event::Added { object, initial: true }).collect();
            queue.push(&snapshot, snapshot.len(), state.unfilled == 0)
        };
        deferred.run();
        queue.report();
        true
    }

    /// Tells a handler everything again; false if it is not ready for it. No change falls in between: those that the handler
    /// was not told of yet are behind.
    pub(crate) fn resync(&self, queue: &HandlerQueue<K>) -> bool {
        let deferred = {
            // Writers wait, readers do not.
            let state = self.state.read();
            if !queue.may_resync() {
                return false;
            }
            let view = state.views.iter().find(|view| view.has(queue));
            let shown = |slot: u32| view.is_none_or(|view| view.shows(slot));
            let objects = state.store.iter().filter(|(slot, _)| shown(*slot));
            let again = objects.map(|(_, object)| Event::Updated {
                old: Arc::clone(object),
                new: Arc::clone(object),
            });
            queue.push_resync(&again.collect())
        };
        deferred.run();
        queue.report();
        true
    }

    /// Shows in the metrics what the queue of each handler holds now.
    pub(crate) fn report(&self) {
        let handlers = self.state.read().all_handlers();
        for queue in handlers {
            queue.report();
        }
    }

    /// Where handlers give back the events of changes.
    pub(crate) fn returns(&self) -> &Arc<Returns<K>> {
        &self.returns
    }

    /// Takes a handler out of the list; its queue must have been ended before.
    pub(crate) fn unregister(&self, queue: &Arc<HandlerQueue<K>>) {
        {
            let mut state = self.state.write();
            let State { handlers, views, .. } = &mut *state;
            for handlers in std::iter::once(handlers).chain(views.iter_mut().map(|view| &mut view.handlers)) {
                handlers.retain(|known| !Arc::ptr_eq(known, queue));
            }
        }
        self.drop_unused_views();
    }

    /// Whether the kind was listed since it is there.
    pub(crate) fn is_listed(&self) -> bool {
        self.state.read().is_listed()
    }

    pub(crate) fn is_section_listed(&self, at: usize) -> bool {
        self.state.read().sections[at].listed
    }

    /// Adds an index, or finds the one of this name.
    ///
    /// `Err` carries the other definition of that name.
    pub(crate) fn add_index(&self, def: &IndexDef<K>) -> Result<usize, IndexDef<K>> {
        let id = {
            let mut state = self.state.write();
            if let Some(id) = state.store.index_named(def.name()) {
                let known = state.store.index(id).map(|table| table.def.clone());
                match known {
                    Some(known) if !known.same(def) => return Err(known),
                    _ => id,
                }
            } else {
                state.epoch += 1;
                state.store.push_index(def.clone())
            }
        };
        // From here on the writer sets the values of what it changes; we compute those of what was there before. Two
        // threads that add the same index both do: each returns only when the index is complete.
        let missing = self.state.read().store.missing_in_index(id);
        let computed: Vec<(u32, Arc<K>, Values)> = missing
            .into_iter()
            .map(|(slot, object)| {
                let values = def.values(&object);
                (slot, object, values)
            })
            .collect();
        let garbage = self.state.write().store.fill_index(id, computed);
        discard_each(garbage);
        Ok(id)
    }

    /// Ends every handler and refuses new ones. The cache stays readable.
    pub(crate) fn stop(&self) {
        let (handlers, subscriptions, waiters, waiting) = {
            let mut state = self.state.write();
            state.stopped = true;
            let waiting: Vec<Waker> = state
                .sections
                .iter_mut()
                .flat_map(|section| section.progress.take_wakers())
                .collect();
            let mut handlers = std::mem::take(&mut state.handlers);
            let mut subscriptions = Vec::new();
            for view in &mut state.views {
                handlers.append(&mut view.handlers);
                subscriptions.append(&mut view.take_subscriptions());
            }
            (handlers, subscriptions, state.waiters.take(), waiting)
        };
        drop(subscriptions); // code of the filters: not under the lock
        for queue in handlers {
            queue.stop();
        }
        self.drop_unused_views();
        wake_all(waiters);
        wake_all(waiting);
    }

    #[cfg(test)]
    pub(crate) fn check_invariants(&self) {
        self.state.read().store.check_invariants();
    }
}

impl<K: Object> State<K> {
    fn is_listed(&self) -> bool {
        self.sections.iter().all(|section| section.listed)
    }

    fn all_handlers(&self) -> Vec<Arc<HandlerQueue<K>>> {
        let in_views = self.views.iter().flat_map(|view| &view.handlers);
        self.handlers.iter().chain(in_views).cloned().collect()
    }
}

mod changes;
mod slots;
pub(crate) mod views;
mod waits;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
