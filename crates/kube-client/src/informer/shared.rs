//! Cache and dispatch list under one lock: what makes "exactly once" hold.
//!
//! A change of the store, the push of its events to every handler's queue, and the registration of a handler with its
//! initial snapshot each happen under the write lock, so they have one order. Code of the user's (index extractors,
//! drops of objects, wakers) runs before or after, never under it. Synchronous, without tokio types.

use std::sync::Arc;
use std::task::{Context, Poll};

use crate::error::Stopped;
use crate::event::Event;
use crate::informer::dispatch::{HandlerQueue, HandlerStats, Wake};
use crate::informer::index::{IndexDef, Values};
use crate::informer::relist::Relist;
use crate::informer::store::{Change, Mode, Outcome, Store};
use crate::key::{KeyRef, ObjectKey};
use crate::object::Object;
use crate::sync::{RwLock, Waiters, wake_all};

/// The synchronous core of an informer.
pub(crate) struct Shared<K: Object> {
    state: RwLock<State<K>>,
}

struct State<K> {
    store: Store<K>,
    handlers: Vec<Arc<HandlerQueue<K>>>,
    // The first list is in the store. Never goes back.
    filled: bool,
    stopped: bool,
    // The resource version up to which the store is current.
    version: String,
    waiters: Waiters,
}

/// A received change, before its index values are known.
pub(crate) enum Received<K> {
    Upsert(Arc<K>),
    Delete { key: ObjectKey, last: Option<Arc<K>> },
}

impl<K: Object> Shared<K> {
    pub(crate) fn new() -> Self {
        Self {
            state: RwLock::new(State {
                store: Store::new(),
                handlers: Vec::new(),
                filled: false,
                stopped: false,
                version: String::new(),
                waiters: Waiters::default(),
            }),
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

    pub(crate) fn version(&self) -> String {
        self.state.read().version.clone()
    }

    pub(crate) fn is_filled(&self) -> bool {
        self.state.read().filled
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state.read().stopped
    }

    pub(crate) fn handler_stats(&self) -> Vec<HandlerStats> {
        let handlers = self.state.read().handlers.clone();
        handlers.iter().map(|queue| queue.stats()).collect()
    }

    /// Adds a handler and hands it the state of this instant. False if stopped: then it was only told so.
    pub(crate) fn register(&self, queue: &Arc<HandlerQueue<K>>) -> bool {
        let wake = {
            let mut state = self.state.write();
            if state.stopped {
                drop(state);
                queue.stop();
                return false;
            }
            state.handlers.push(Arc::clone(queue));
            let objects = state.store.iter().map(|(_, object)| Arc::clone(object));
            let snapshot: Arc<[Event<K>]> = objects.map(|object| Event::Added { object, initial: true }).collect();
            queue.push(&snapshot, snapshot.len(), state.filled)
        };
        wake.wake();
        queue.report();
        true
    }

    /// Shows in the metrics what the queue of each handler holds now.
    pub(crate) fn report(&self) {
        let handlers = self.state.read().handlers.clone();
        for queue in handlers {
            queue.report();
        }
    }

    /// Takes a handler out of the list; its queue must have been ended before.
    pub(crate) fn unregister(&self, queue: &Arc<HandlerQueue<K>>) {
        self.state.write().handlers.retain(|known| !Arc::ptr_eq(known, queue));
    }

    /// Applies what a watch brought, up to `version`, and tells the handlers.
    pub(crate) fn apply(&self, received: &mut Vec<Received<K>>, version: Option<String>) {
        let mut defs: Vec<IndexDef<K>> = Vec::new();
        let mut changes: Vec<Change<K>> = Vec::with_capacity(received.len());
        changes.extend(received.drain(..).map(|one| match one {
            Received::Upsert(object) => Change::Upsert {
                object,
                values: Vec::new(),
            },
            Received::Delete { key, last } => Change::Delete {
                key,
                last,
                stale: false,
            },
        }));
        loop {
            self.compute_values(&mut defs, &mut changes);
            let mut state = self.state.write();
            if state.store.indexes().len() != defs.len() {
                continue; // an index was added meanwhile: compute its values too
            }
            let mut outcome = Outcome::default();
            for change in changes {
                state.store.apply(change, Mode::Update, &mut outcome);
            }
            if let Some(version) = version {
                state.version = version;
            }
            let wake = state.publish(&mut outcome, false);
            drop(state);
            wake.wake();
            return;
        }
    }

    /// Adds the values of indexes that `defs` does not know yet. Runs user code: no lock is held.
    fn compute_values(&self, defs: &mut Vec<IndexDef<K>>, changes: &mut [Change<K>]) {
        let known = defs.len();
        defs.extend(self.state.read().store.indexes().skip(known).cloned());
        for change in changes {
            if let Change::Upsert { object, values } = change {
                values.extend(defs[known..].iter().map(|def| def.values(object)));
            }
        }
    }

    /// Only the resource version moved (a bookmark).
    pub(crate) fn set_version(&self, version: String) {
        self.state.write().version = version;
    }

    /// Reads the store while a list is collected; `f` must not call user code.
    pub(crate) fn with_store<R>(&self, f: impl FnOnce(&Store<K>) -> R) -> R {
        f(&self.state.read().store)
    }

    /// Puts a whole list in the place of the old state, in one step, and tells the handlers the difference.
    pub(crate) fn replace(&self, relist: &Relist<K>, version: String) {
        let mut defs: Vec<IndexDef<K>> = Vec::new();
        let upserts = relist.fresh().map(|object| Change::Upsert {
            object: Arc::clone(object),
            values: Vec::new(),
        });
        let mut changes: Vec<Change<K>> = upserts.collect();
        loop {
            self.compute_values(&mut defs, &mut changes);
            let mut state = self.state.write();
            if state.store.indexes().len() != defs.len() {
                continue;
            }
            let mut outcome = Outcome::default();
            let store = &mut state.store;
            let gone: Vec<u32> = store
                .iter()
                .filter(|(slot, object)| !relist.contains(*slot, object.metadata().key_ref()))
                .map(|(slot, _)| slot)
                .collect();
            for slot in gone {
                store.delete(slot, None, true, &mut outcome);
            }
            let initial = !state.filled;
            let mode = match initial {
                true => Mode::Fill,
                false if relist.keeps_unchanged() => Mode::Update,
                false => Mode::Rebuild,
            };
            for change in changes {
                state.store.apply(change, mode, &mut outcome);
            }
            state.version = version;
            state.filled = true;
            let mut wake = state.publish(&mut outcome, initial);
            if initial {
                wake.merge(Wake::of(state.waiters.take()));
            }
            drop(state);
            wake.wake();
            return;
        }
    }

    /// Adds an index, or finds the one of this name.
    ///
    /// `Err` carries the other definition of that name.
    pub(crate) fn add_index(&self, def: &IndexDef<K>) -> Result<usize, IndexDef<K>> {
        let id = {
            let mut state = self.state.write();
            match state.store.index_named(def.name()) {
                Some(id) => {
                    let known = state.store.index(id).map(|table| table.def.clone());
                    match known {
                        Some(known) if !known.same(def) => return Err(known),
                        _ => id,
                    }
                }
                None => state.store.push_index(def.clone()),
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
        let outcome = self.state.write().store.fill_index(id, computed);
        drop(outcome);
        Ok(id)
    }

    /// Ends every handler and refuses new ones. The cache stays readable.
    pub(crate) fn stop(&self) {
        let (handlers, waiters) = {
            let mut state = self.state.write();
            state.stopped = true;
            (std::mem::take(&mut state.handlers), state.waiters.take())
        };
        for queue in handlers {
            queue.stop();
        }
        wake_all(waiters);
    }

    pub(crate) fn poll_filled(&self, ticket: &mut Option<u64>, cx: &Context<'_>) -> Poll<Result<(), Stopped>> {
        let mut state = self.state.write();
        if state.filled {
            return Poll::Ready(Ok(()));
        }
        if state.stopped {
            return Poll::Ready(Err(Stopped));
        }
        state.waiters.register(ticket, cx);
        Poll::Pending
    }

    pub(crate) fn forget(&self, ticket: Option<u64>) {
        if ticket.is_some() {
            self.state.write().waiters.forget(ticket);
        }
    }

    #[cfg(test)]
    pub(crate) fn check_invariants(&self) {
        self.state.read().store.check_invariants();
    }
}

impl<K: Object> State<K> {
    /// Pushes the events to every handler. `fills`: this is the first state.
    fn publish(&self, outcome: &mut Outcome<K>, fills: bool) -> Wake {
        let mut wake = Wake::default();
        if self.handlers.is_empty() || (outcome.events.is_empty() && !fills) {
            return wake;
        }
        let initial = if fills { outcome.events.len() } else { 0 };
        let batch: Arc<[Event<K>]> = std::mem::take(&mut outcome.events).into();
        for queue in &self.handlers {
            wake.merge(queue.push(&batch, initial, fills));
        }
        wake
    }
}

#[cfg(test)]
mod tests;
