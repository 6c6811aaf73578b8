//! Cache and dispatch list under one lock: what makes "exactly once" hold.
//!
//! A change of the store, the push of its events to every handler's queue, and the registration of a handler with its
//! initial snapshot each happen under the write lock, so they have one order. Code of the user's (index extractors,
//! drops of objects, wakers) runs before or after, never under it. Synchronous, without tokio types.
//!
//! Reflectors write through a [`Part`](crate::informer::part::Part). What belongs to one of them, of which an informer over
//! several namespaces has one each, is a [`Section`]: its namespace, its version, whether its first list is there. All
//! else is one: store, indexes, handlers, and "filled", which means every section. What filters hide of it, from whom, is in
//! `views`, under the same lock.

use std::cmp::Ordering;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::error::Stopped;
use crate::event::Event;
use crate::informer::backlog::{Batch, Taken};
use crate::informer::deferred::{Deferred, discard_each};
use crate::informer::dispatch::{HandlerQueue, HandlerStats};
use crate::informer::index::{IndexDef, Values};
use crate::informer::options::Namespaces;
use crate::informer::progress::{Goal, Now, Progress, Source};
use crate::informer::reflector::version;
use crate::informer::relist::Relist;
use crate::informer::returns::Returns;
use crate::informer::shared::views::{Judged, ViewState, show, show_gone};
use crate::informer::store::{Change, Mode, Outcome, Store};
use crate::key::{KeyRef, ObjectKey};
use crate::object::Object;
use crate::sync::{RwLock, Waiters, wake_all};

/// The synchronous core of an informer.
pub(crate) struct Shared<K: Object> {
    state: RwLock<State<K>>,
    returns: Arc<Returns<K>>,
}

struct State<K: Object> {
    store: Store<K>,
    // Those who are told of everything; those who look through a filter are in `views`.
    handlers: Vec<Arc<HandlerQueue<K>>>,
    views: Vec<ViewState<K>>,
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

/// What a change completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fills {
    /// Nothing: it is one of many.
    Nothing,
    /// The first list of a section is there, and others are still to come.
    Section,
    /// The first list of the last section is there.
    Informer,
}

/// One who waits for the store to have seen a write; [`Shared::forget_wait`] ends it.
#[derive(Debug)]
pub(crate) struct Wait {
    goal: Goal,
    // Invariant: known to the `progress` of the goal's section while present.
    ticket: Option<u64>,
}

impl Wait {
    pub(crate) fn for_goal(goal: Goal) -> Self {
        Self { goal, ticket: None }
    }
}

/// A received change, before its index values are known.
pub(crate) enum Received<K> {
    Upsert(Arc<K>),
    Delete { key: ObjectKey, last: Option<Arc<K>> },
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
                last_view: 0,
                unfilled: sections.len(),
                excused: false,
                sections,
                stopped: false,
                waiters: Waiters::default(),
            }),
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

    /// Applies what a section's watch brought, up to `version`, and tells the handlers.
    pub(crate) fn apply(&self, at: usize, received: &mut Vec<Received<K>>, version: Option<String>) {
        let mut defs: Vec<IndexDef<K>> = Vec::new();
        let mut changes: Vec<Change<K>> = Vec::with_capacity(received.len());
        changes.extend(received.drain(..).map(|one| match one {
            Received::Upsert(object) => Change::Upsert {
                object,
                values: Vec::new(),
            },
            Received::Delete { key, last } => Change::Delete {
                stale: last.is_none(),
                key,
                last,
            },
        }));
        let mut judged = Judged::default();
        loop {
            self.prepare(&mut defs, &mut judged, &mut changes);
            let mut state = self.state.write();
            if !state.is_prepared(&defs, &judged) {
                continue;
            }
            let mut outcome = Outcome::default();
            let State {
                store, views, sections, ..
            } = &mut *state;
            for (number, change) in changes.into_iter().enumerate() {
                if let Change::Delete {
                    key, last: Some(last), ..
                } = &change
                    && store.find(key.as_ref()).is_none()
                {
                    sections[at].progress.note_gone(last.metadata().uid);
                }
                let told = outcome.events.len();
                let slot = store.apply(change, Mode::Update, &mut outcome);
                show(views, &judged, number, slot, &outcome.events[told..]);
            }
            if let Some(version) = version {
                state.sections[at].version = version;
            }
            let mut progressed = state.progressed(at, &outcome, Source::Watch);
            let mut deferred = state.publish(outcome, Fills::Nothing, Some(&self.returns));
            deferred.wakers.append(&mut progressed);
            drop(state);
            deferred.run();
            return;
        }
    }

    /// Adds the values of indexes that `defs` does not know yet, and what the filters say that were not asked yet. Runs user
    /// code: no lock is held.
    fn prepare(&self, defs: &mut Vec<IndexDef<K>>, judged: &mut Judged, changes: &mut [Change<K>]) {
        let known = defs.len();
        {
            let state = self.state.read();
            defs.extend(state.store.indexes().skip(known).cloned());
            if !judged.is_current(&state.views) {
                judged.renew(&state.views);
            }
        }
        for change in &mut *changes {
            if let Change::Upsert { object, values } = change {
                values.extend(defs[known..].iter().map(|def| def.values(object)));
            }
        }
        judged.ask(changes);
    }

    /// Only a section's resource version moved (a bookmark).
    pub(crate) fn set_version(&self, at: usize, version: String) {
        let progressed = {
            let mut state = self.state.write();
            state.sections[at].version = version;
            state.progressed(at, &Outcome::default(), Source::Watch)
        };
        wake_all(progressed);
    }

    /// A list of a section's newest state is about to be asked for; gives its number.
    pub(crate) fn begin_list(&self, at: usize) -> u64 {
        self.state.write().sections[at].progress.begin_list()
    }

    /// Reads the store while a list is collected; `f` must not call user code.
    pub(crate) fn with_store<R>(&self, f: impl FnOnce(&Store<K>) -> R) -> R {
        f(&self.state.read().store)
    }

    /// Puts a whole list in the place of a section's old state, in one step, and tells the handlers the difference.
    pub(crate) fn replace(&self, at: usize, relist: &Relist<K>, version: String) {
        let mut defs: Vec<IndexDef<K>> = Vec::new();
        let upserts = relist.fresh().map(|object| Change::Upsert {
            object: Arc::clone(object),
            values: Vec::new(),
        });
        let mut changes: Vec<Change<K>> = upserts.collect();
        let mut judged = Judged::default();
        loop {
            self.prepare(&mut defs, &mut judged, &mut changes);
            let mut state = self.state.write();
            if !state.is_prepared(&defs, &judged) {
                continue;
            }
            let mut outcome = Outcome::default();
            let State {
                store, views, sections, ..
            } = &mut *state;
            let section = &mut sections[at];
            let gone: Vec<u32> = store
                .iter_in(section.namespace.as_deref())
                .filter(|(slot, object)| !relist.contains(*slot, object.metadata().key_ref()))
                .map(|(slot, _)| slot)
                .collect();
            for slot in gone {
                let told = outcome.events.len();
                store.delete(slot, None, true, &mut outcome);
                show_gone(views, slot, &outcome.events[told..]);
            }
            let first = !std::mem::replace(&mut section.filled, true);
            let begins = !std::mem::replace(&mut section.listed, true);
            section.version = version;
            let mode = match begins {
                true => Mode::Fill,
                false if relist.keeps_unchanged() => Mode::Update,
                false => Mode::Rebuild,
            };
            for (number, change) in changes.into_iter().enumerate() {
                let told = outcome.events.len();
                let slot = store.apply(change, mode, &mut outcome);
                show(views, &judged, number, slot, &outcome.events[told..]);
            }
            state.unfilled -= usize::from(first);
            let fills = match (first, begins) {
                (true, _) if state.unfilled == 0 => Fills::Informer,
                (true, _) | (false, true) => Fills::Section,
                (false, false) => Fills::Nothing,
            };
            let source = Source::List {
                newest: relist.newest,
                first,
            };
            let mut progressed = state.progressed(at, &outcome, source);
            let mut deferred = state.publish(outcome, fills, None);
            deferred.wakers.append(&mut progressed);
            if fills != Fills::Nothing {
                deferred.wakers.append(&mut state.waiters.take());
            }
            drop(state);
            deferred.run();
            return;
        }
    }

    /// The kind is gone, or known not to be there: nothing is left of it, and delayed views wait for it no longer. Until the
    /// next list, which is a first one again.
    pub(crate) fn clear(&self) {
        let deferred = {
            let mut state = self.state.write();
            let mut outcome = Outcome::default();
            let State {
                store, views, sections, ..
            } = &mut *state;
            let slots: Vec<u32> = store.iter().map(|(slot, _)| slot).collect();
            for slot in slots {
                let told = outcome.events.len();
                store.delete(slot, None, true, &mut outcome);
                show_gone(views, slot, &outcome.events[told..]);
            }
            for section in sections.iter_mut() {
                section.listed = false;
                section.version.clear();
            }
            let mut wakers = Vec::new();
            for at in 0..state.sections.len() {
                wakers.append(&mut state.progressed(at, &outcome, Source::Watch));
            }
            let mut deferred = state.publish(outcome, Fills::Nothing, None);
            if !std::mem::replace(&mut state.excused, true) {
                for view in &state.views {
                    view.excuse(&mut deferred);
                }
            }
            wakers.append(&mut state.waiters.take());
            deferred.wakers.append(&mut wakers);
            deferred
        };
        deferred.run();
        self.report();
    }

    /// Whether the kind was listed since it is there.
    pub(crate) fn is_listed(&self) -> bool {
        self.state.read().is_listed()
    }

    pub(crate) fn is_section_listed(&self, at: usize) -> bool {
        self.state.read().sections[at].listed
    }

    /// Waits for [`is_listed`](Self::is_listed); pending for ever once stopped.
    pub(crate) fn poll_listed(&self, ticket: &mut Option<u64>, cx: &Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let replaced = {
            let mut state = self.state.write();
            if state.is_listed() {
                return Poll::Ready(());
            }
            state.waiters.register(ticket, waker)
        };
        drop(replaced);
        Poll::Pending
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

    /// Whether the store has seen a write. On `Pending` the waker is kept; drop the wait through
    /// [`forget_wait`](Self::forget_wait).
    pub(crate) fn poll_reached(&self, wait: &mut Wait, cx: &Context<'_>) -> Poll<Result<(), Stopped>> {
        let waker = cx.waker().clone();
        let (result, replaced) = {
            let mut state = self.state.write();
            let stopped = state.stopped;
            let at = state.section_of(wait.goal.key());
            match wait.ticket {
                Some(ticket) => {
                    let progress = &mut state.sections[at].progress;
                    match progress.poll(ticket, waker) {
                        (false, replaced) if !stopped => (Poll::Pending, replaced),
                        (reached, replaced) => {
                            wait.ticket = None;
                            let forgotten = progress.forget(ticket);
                            drop(state);
                            drop((forgotten, replaced));
                            return Poll::Ready(if reached { Ok(()) } else { Err(Stopped) });
                        }
                    }
                }
                None if state.sections[at].progress.is_reached(&wait.goal, &state.now(at)) => {
                    (Poll::Ready(Ok(())), Some(waker))
                }
                None if stopped => (Poll::Ready(Err(Stopped)), Some(waker)),
                None => {
                    wait.ticket = Some(state.sections[at].progress.wait(wait.goal.clone(), waker));
                    (Poll::Pending, None)
                }
            }
        };
        drop(replaced);
        result
    }

    pub(crate) fn forget_wait(&self, wait: &mut Wait) {
        if let Some(ticket) = wait.ticket.take() {
            let forgotten = {
                let mut state = self.state.write();
                let at = state.section_of(wait.goal.key());
                state.sections[at].progress.forget(ticket)
            };
            drop(forgotten);
        }
    }

    #[cfg(test)]
    pub(crate) fn waiting_for_progress(&self) -> usize {
        let state = self.state.read();
        state.sections.iter().map(|section| section.progress.len()).sum()
    }

    pub(crate) fn poll_filled(&self, ticket: &mut Option<u64>, cx: &Context<'_>) -> Poll<Result<(), Stopped>> {
        let waker = cx.waker().clone();
        let replaced = {
            let mut state = self.state.write();
            if state.unfilled == 0 {
                return Poll::Ready(Ok(()));
            }
            if state.stopped {
                return Poll::Ready(Err(Stopped));
            }
            state.waiters.register(ticket, waker)
        };
        drop(replaced);
        Poll::Pending
    }

    pub(crate) fn forget(&self, ticket: Option<u64>) {
        if ticket.is_some() {
            let forgotten = self.state.write().waiters.forget(ticket);
            drop(forgotten);
        }
    }

    #[cfg(test)]
    pub(crate) fn check_invariants(&self) {
        self.state.read().store.check_invariants();
    }
}

impl<K: Object> State<K> {
    /// The section that the objects of this key's namespace belong to. A key that no section covers waits with the first.
    fn section_of(&self, key: &ObjectKey) -> usize {
        let namespace = key.namespace();
        let own = |section: &Section| section.namespace.as_deref() == namespace;
        self.sections.iter().position(own).unwrap_or_default()
    }

    /// A section as one who waits for a write sees it.
    fn now(&self, at: usize) -> Now<'_, K> {
        let section = &self.sections[at];
        Now {
            store: &self.store,
            version: &section.version,
            filled: section.filled,
        }
    }

    /// Tells those who wait for writes to a section's objects what has changed; gives who is to be woken.
    fn progressed(&mut self, at: usize, outcome: &Outcome<K>, source: Source) -> Vec<Waker> {
        let mut progress = std::mem::take(&mut self.sections[at].progress);
        let wakers = progress.advance(&outcome.events, source, &self.now(at));
        self.sections[at].progress = progress;
        wakers
    }

    /// Whether changes can be committed: nothing was added meanwhile that has to be computed for them, and no filter moved on.
    fn is_prepared(&self, defs: &[IndexDef<K>], judged: &Judged) -> bool {
        self.store.indexes().len() == defs.len() && judged.is_current(&self.views)
    }

    fn is_listed(&self) -> bool {
        self.sections.iter().all(|section| section.listed)
    }

    fn all_handlers(&self) -> Vec<Arc<HandlerQueue<K>>> {
        let in_views = self.views.iter().flat_map(|view| &view.handlers);
        self.handlers.iter().chain(in_views).cloned().collect()
    }

    /// Pushes the events to every handler, to be given back to `returns`.
    fn publish(&mut self, outcome: Outcome<K>, fills: Fills, returns: Option<&Arc<Returns<K>>>) -> Deferred<K> {
        let mut deferred = Deferred::default();
        deferred.garbage.objects = outcome.garbage;
        for view in &mut self.views {
            view.publish(fills, &mut deferred);
        }
        if self.handlers.is_empty() || (outcome.events.is_empty() && fills != Fills::Informer) {
            deferred.garbage.events = outcome.events;
            return deferred;
        }
        let initial = match fills {
            Fills::Nothing => 0,
            Fills::Section | Fills::Informer => outcome.events.len(),
        };
        let batch = match returns {
            Some(returns) => Batch::returning(outcome.events, returns),
            None => Batch::from(outcome.events),
        };
        for queue in &self.handlers {
            deferred.merge(queue.push(&batch, initial, fills == Fills::Informer));
        }
        deferred.garbage.batches.push(Taken::whole(batch));
        deferred
    }
}

mod slots;
pub(crate) mod views;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
