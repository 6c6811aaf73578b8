//! Views: what some filters show of the cache, and the handlers that are told of that alone.
//!
//! # Design
//!
//! A view is a set of visible slots beside the store, under the same lock: visibility changes in the same step as the
//! store, so that reads, indexes and the order of events always agree. The filters are the user's code and are asked
//! without a lock:
//!
//! - A change of the store is judged first and committed under the lock if every view is still at the *generation* under
//!   which it was judged; otherwise those that moved on are judged again ([`Judged`]).
//! - A step of a filter begins a new generation, then looks at the objects that it may concern: collects them, asks, and
//!   commits if the generation is still the same; otherwise all over again ([`Shared::filter_changed`]). An object that
//!   changed meanwhile is left alone: its own change was judged under this generation.
//!
//! So whatever crosses, the last verdict about each object was asked of the filters as they are now; and an object whose
//! visibility does not change is told to nobody. One thread at a time runs passes of a view; steps that come meanwhile
//! are noted and taken along, so what waits is bounded by the number of namespaces.
//!
//! A view goes through three stages ([`Stage`]): nothing is asked before its filters are synced; then everything is
//! judged once, during which the view still shows nothing; then it is live, and its handlers get what is visible as
//! their initial state.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use super::{Fills, Shared, State};
use crate::error::Stopped;
use crate::event::Event;
use crate::filter::{FilterChange, FilterSubscription};
use crate::informer::backlog::{Batch, Taken};
use crate::informer::deferred::{Deferred, discard_each};
use crate::informer::dispatch::HandlerQueue;
use crate::informer::index::Posting;
use crate::informer::shared::slots::Slots;
use crate::informer::store::{Change, Store};
use crate::informer::view::criteria::{Criteria, Verdict};
use crate::key::KeyRef;
use crate::object::Object;

/// Buffers that a large change has made larger than this are let go.
const KEEP_BUFFER: usize = 256;

/// Numbers the views of one informer; never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ViewId(u64);

/// How far a view is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Its filters are not synced: nothing is asked of them.
    Waiting,
    /// Changes are judged, and the pass over what was there before is under way.
    Priming,
    /// It shows what is visible.
    Live,
}

/// What a pass has to look at.
#[derive(Debug)]
enum Dirty {
    Namespaces(BTreeSet<Arc<str>>),
    All,
}

impl Dirty {
    fn nothing() -> Self {
        Self::Namespaces(BTreeSet::new())
    }

    fn add(&mut self, change: &FilterChange) {
        match (&mut *self, change) {
            (Dirty::All, _) => {}
            (Dirty::Namespaces(known), FilterChange::Namespaces(more)) => known.extend(more.iter().cloned()),
            (Dirty::Namespaces(_), FilterChange::All) => *self = Dirty::All,
        }
    }
}

/// One view, under the lock of the cache.
pub(super) struct ViewState<K: Object> {
    id: ViewId,
    criteria: Arc<Criteria>,
    stage: Stage,
    // Counts the steps of the filters that we were told of, and the begin of the priming.
    generation: u64,
    // Somebody runs passes, and will take `dirty` along.
    passing: bool,
    dirty: Dirty,
    // Invariant: slots that are filled. Empty while waiting; shown once live.
    visible: Slots,
    pub(super) handlers: Vec<Arc<HandlerQueue<K>>>,
    // What the change under way comes to for the handlers. Invariant: empty between changes.
    events: Vec<Event<K>>,
    // Invariant: the view stays while this can be upgraded or there are handlers.
    claim: Weak<Claim<K>>,
    subscriptions: Vec<FilterSubscription>,
    // The kind may be absent: then the view has its first whole state without a list.
    delayed: bool,
}

/// What users hold of a view; with the last of them, and the last handler, the view ends.
pub(crate) struct Claim<K: Object> {
    shared: Arc<Shared<K>>,
    id: ViewId,
}

impl<K: Object> Claim<K> {
    pub(crate) fn id(&self) -> ViewId {
        self.id
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<K>> {
        &self.shared
    }
}

impl<K: Object> Drop for Claim<K> {
    fn drop(&mut self) {
        self.shared.drop_unused_views();
    }
}

/// What the filters of each view say of some changes.
#[derive(Default)]
pub(super) struct Judged {
    columns: Vec<Column>,
}

/// What one view's filters say.
struct Column {
    id: ViewId,
    generation: u64,
    // `None` if nothing has to be asked.
    criteria: Option<Arc<Criteria>>,
    // Of the first change, and of those after it: most batches have one.
    first: Option<Verdict>,
    rest: Vec<Verdict>,
}

impl Column {
    fn verdict(&self, at: usize) -> Verdict {
        match (&self.criteria, at.checked_sub(1)) {
            (None, _) => Verdict::Visible,
            (Some(_), None) => self.first.unwrap_or(Verdict::Hidden),
            (Some(_), Some(at)) => self.rest.get(at).copied().unwrap_or(Verdict::Hidden),
        }
    }
}

impl Judged {
    /// Whether these are all views, each at the generation under which it was asked.
    pub(super) fn is_current<K: Object>(&self, views: &[ViewState<K>]) -> bool {
        let same = |(column, view): (&Column, &ViewState<K>)| column.is_of(view);
        self.columns.len() == views.len() && self.columns.iter().zip(views).all(same)
    }

    /// Forgets what is no longer current, and notes what there is to ask.
    pub(super) fn renew<K: Object>(&mut self, views: &[ViewState<K>]) {
        let mut known = std::mem::take(&mut self.columns);
        self.columns.reserve_exact(views.len());
        for view in views {
            let at = known.iter().position(|column| column.is_of(view));
            self.columns.push(
                at.map_or_else(
                    || Column {
                        id: view.id,
                        generation: view.generation,
                        criteria: (view.stage != Stage::Waiting && !view.criteria.shows_all())
                            .then(|| Arc::clone(&view.criteria)),
                        first: None,
                        rest: Vec::new(),
                    },
                    |at| known.swap_remove(at),
                ),
            );
        }
    }

    /// Asks what was not asked yet. Runs user code: no lock is held.
    pub(super) fn ask<K: Object>(&mut self, changes: &[Change<K>]) {
        for column in self.columns.iter_mut().filter(|column| column.first.is_none()) {
            let Some(criteria) = &column.criteria else { continue };
            let mut verdicts = changes.iter().map(|change| match change {
                Change::Upsert { object, .. } => criteria.judge(&**object),
                Change::Delete { .. } => Verdict::Hidden,
            });
            column.first = verdicts.next();
            column.rest.extend(verdicts);
        }
    }
}

impl Column {
    fn is_of<K: Object>(&self, view: &ViewState<K>) -> bool {
        self.id == view.id && self.generation == view.generation
    }
}

/// Shows each view what one change of the store came to.
pub(super) fn show<K: Object>(
    views: &mut [ViewState<K>],
    judged: &Judged,
    at: usize,
    slot: Option<u32>,
    events: &[Event<K>],
) {
    let Some(slot) = slot else { return };
    for (view, column) in views.iter_mut().zip(&judged.columns) {
        view.show(slot, column.verdict(at), events);
    }
}

/// Shows each view that an object is gone.
pub(super) fn show_gone<K: Object>(views: &mut [ViewState<K>], slot: u32, events: &[Event<K>]) {
    for view in views {
        view.show(slot, Verdict::Hidden, events);
    }
}

impl<K: Object> ViewState<K> {
    pub(super) fn is_live(&self) -> bool {
        self.stage == Stage::Live
    }

    /// Whether readers see what is in this slot.
    pub(super) fn shows(&self, slot: u32) -> bool {
        self.is_live() && self.visible.contains(slot)
    }

    pub(super) fn has(&self, queue: &HandlerQueue<K>) -> bool {
        self.handlers
            .iter()
            .any(|known| std::ptr::eq(Arc::as_ptr(known), queue))
    }

    pub(super) fn take_subscriptions(&mut self) -> Vec<FilterSubscription> {
        std::mem::take(&mut self.subscriptions)
    }

    fn is_used(&self) -> bool {
        self.claim.strong_count() > 0 || !self.handlers.is_empty()
    }

    /// Tells the handlers, if there are any yet.
    fn tell(&mut self, event: impl FnOnce() -> Event<K>) {
        if self.is_live() && !self.handlers.is_empty() {
            self.events.push(event());
        }
    }

    /// Takes in what a change of the store came to.
    fn show(&mut self, slot: u32, verdict: Verdict, events: &[Event<K>]) {
        if self.stage == Stage::Waiting {
            return;
        }
        for event in events {
            match event {
                Event::Added { .. } => {
                    let now = verdict == Verdict::Visible;
                    self.visible.set(slot, now);
                    if now {
                        self.tell(|| event.clone());
                    }
                }
                Event::Updated { old, new } => {
                    let now = verdict == Verdict::Visible || verdict == Verdict::Unsure && self.visible.contains(slot);
                    match (self.visible.set(slot, now), now) {
                        (false, false) => {}
                        (true, true) => self.tell(|| event.clone()),
                        (false, true) => self.tell(|| appeared(new)),
                        (true, false) => self.tell(|| vanished(old)),
                    }
                }
                Event::Deleted { .. } => {
                    if self.visible.set(slot, false) {
                        self.tell(|| event.clone());
                    }
                }
            }
        }
    }

    /// Takes in what the filters say now of an object that did not change.
    fn settle(&mut self, slot: u32, object: &Arc<K>, verdict: Verdict) {
        let now = match verdict {
            Verdict::Unsure => return,
            Verdict::Visible => true,
            Verdict::Hidden => false,
        };
        match (self.visible.set(slot, now), now) {
            (false, true) => self.tell(|| appeared(object)),
            (true, false) => self.tell(|| vanished(object)),
            (false, false) | (true, true) => {}
        }
    }

    /// Whether the first whole state is shown, if so many sections are not filled.
    fn is_complete(&self, unfilled: usize, excused: bool) -> bool {
        self.is_live() && (unfilled == 0 || self.delayed && excused)
    }

    /// The kind is absent, for the first time: what waits for it waits no longer.
    pub(super) fn excuse(&self, deferred: &mut Deferred<K>) {
        if self.delayed && self.is_live() {
            let nothing = Batch::from(Vec::new());
            for queue in &self.handlers {
                deferred.merge(queue.push(&nothing, 0, true));
            }
        }
    }

    /// Everything visible, as the initial state of a handler.
    fn snapshot(&self, store: &Store<K>) -> Batch<K> {
        let visible = store.iter().filter(|(slot, _)| self.visible.contains(*slot));
        let added = visible.map(|(_, object)| Event::Added {
            object: Arc::clone(object),
            initial: true,
        });
        added.collect()
    }

    /// Pushes what the change under way came to to every handler.
    pub(super) fn publish(&mut self, fills: Fills, deferred: &mut Deferred<K>) {
        let ends_first = fills == Fills::Informer && self.is_live();
        if self.events.is_empty() && !ends_first {
            return;
        }
        let initial = match fills {
            Fills::Nothing => 0,
            Fills::Section | Fills::Informer => self.events.iter().filter(|event| event.is_initial()).count(),
        };
        let batch: Batch<K> = self.events.drain(..).collect();
        if self.events.capacity() > KEEP_BUFFER {
            self.events = Vec::new();
        }
        for queue in &self.handlers {
            deferred.merge(queue.push(&batch, initial, ends_first));
        }
        deferred.garbage.batches.push(Taken::whole(batch));
    }
}

fn appeared<K>(object: &Arc<K>) -> Event<K> {
    Event::Added {
        object: Arc::clone(object),
        initial: false,
    }
}

fn vanished<K>(object: &Arc<K>) -> Event<K> {
    Event::Deleted {
        object: Arc::clone(object),
        stale: false,
    }
}

impl<K: Object> State<K> {
    fn view(&self, id: ViewId) -> Option<&ViewState<K>> {
        self.views.iter().find(|view| view.id == id)
    }

    fn view_mut(&mut self, id: ViewId) -> Option<&mut ViewState<K>> {
        self.views.iter_mut().find(|view| view.id == id)
    }

    /// Whether a view shows its first whole state.
    fn is_ready(&self, view: &ViewState<K>) -> bool {
        view.is_complete(self.unfilled, self.excused)
    }
}

impl<K: Object> Shared<K> {
    /// The view of these criteria: one for all who ask the same filters.
    pub(crate) fn view(self: &Arc<Self>, criteria: Criteria) -> Arc<Claim<K>> {
        let same: Vec<Weak<Claim<K>>> = {
            let state = self.state.read();
            let shared = |view: &&ViewState<K>| !view.delayed && view.criteria.same(&criteria);
            let same = state.views.iter().filter(shared);
            same.map(|view| Weak::clone(&view.claim)).collect()
        };
        // Upgraded without the lock: letting go of the last one takes it.
        same.iter()
            .find_map(Weak::upgrade)
            .unwrap_or_else(|| self.add_view(criteria, false))
    }

    /// A view of a kind that may be absent. It is nobody else's: how far it is depends on its own handlers.
    pub(crate) fn delayed_view(self: &Arc<Self>, criteria: Criteria) -> Arc<Claim<K>> {
        self.add_view(criteria, true)
    }

    fn add_view(self: &Arc<Self>, criteria: Criteria, delayed: bool) -> Arc<Claim<K>> {
        let criteria = Arc::new(criteria);
        let claim = {
            let mut state = self.state.write();
            state.last_view += 1;
            let id = ViewId(state.last_view);
            let claim = Arc::new(Claim {
                shared: Arc::clone(self),
                id,
            });
            state.views.push(ViewState {
                id,
                criteria: Arc::clone(&criteria),
                stage: Stage::Waiting,
                generation: 0,
                passing: true, // ours, below
                dirty: Dirty::All,
                visible: Slots::default(),
                handlers: Vec::new(),
                events: Vec::new(),
                claim: Arc::downgrade(&claim),
                subscriptions: Vec::new(),
                delayed,
            });
            claim
        };
        // Subscribed before the first look, so that no step falls in between.
        let subscriptions: Vec<FilterSubscription> = criteria
            .filters()
            .map(|filter| {
                let (shared, id) = (Arc::downgrade(self), claim.id);
                filter.subscribe(Arc::new(move |change: &FilterChange| {
                    if let Some(shared) = shared.upgrade() {
                        shared.filter_changed(id, change);
                    }
                }))
            })
            .collect();
        let unused = {
            let mut state = self.state.write();
            let stopped = state.stopped;
            match state.view_mut(claim.id) {
                Some(view) if !stopped => {
                    view.subscriptions = subscriptions;
                    Vec::new()
                }
                _ => subscriptions,
            }
        };
        drop(unused);
        self.run_passes(claim.id);
        claim
    }

    /// Ends the views that nobody holds and nobody listens to.
    pub(super) fn drop_unused_views(&self) {
        let ended: Vec<ViewState<K>> = {
            let mut state = self.state.write();
            state.views.extract_if(.., |view| !view.is_used()).collect()
        };
        discard_each(ended); // filters and their subscriptions are the user's: not under the lock
    }

    /// Adds a handler to a view and hands it the state of this instant. False if stopped: then it was only told so.
    pub(crate) fn register_in(&self, id: ViewId, queue: &Arc<HandlerQueue<K>>) -> bool {
        let deferred = {
            let mut state = self.state.write();
            let State {
                store,
                views,
                stopped,
                unfilled,
                excused,
                ..
            } = &mut *state;
            let view = views.iter_mut().find(|view| view.id == id);
            let Some(view) = view.filter(|_| !*stopped) else {
                drop(state);
                queue.stop();
                return false;
            };
            view.handlers.push(Arc::clone(queue));
            if view.is_live() {
                let snapshot = view.snapshot(store);
                queue.push(&snapshot, snapshot.len(), view.is_complete(*unfilled, *excused))
            } else {
                Deferred::default()
            }
        };
        deferred.run();
        queue.report();
        true
    }

    pub(crate) fn get_in(&self, id: ViewId, key: KeyRef<'_>) -> Option<Arc<K>> {
        let state = self.state.read();
        let slot = state.store.find(key)?;
        state.view(id)?.shows(slot).then(|| state.store.object(slot).cloned())?
    }

    pub(crate) fn list_in(&self, id: ViewId, namespace: Option<&str>) -> Vec<Arc<K>> {
        let state = self.state.read();
        let Some(view) = state.view(id) else { return Vec::new() };
        let objects = state.store.iter_in(namespace).filter(|(slot, _)| view.shows(*slot));
        objects.map(|(_, object)| Arc::clone(object)).collect()
    }

    /// The handlers of a view.
    pub(crate) fn handlers_in(&self, id: ViewId) -> Vec<Arc<HandlerQueue<K>>> {
        self.state
            .read()
            .view(id)
            .map_or_else(Vec::new, |view| view.handlers.clone())
    }

    pub(crate) fn len_in(&self, id: ViewId) -> usize {
        let state = self.state.read();
        let view = state.view(id).filter(|view| view.is_live());
        view.map_or(0, |view| view.visible.len())
    }

    pub(crate) fn by_index_in(&self, id: ViewId, index: usize, value: &str) -> Vec<Arc<K>> {
        let state = self.state.read();
        let (Some(view), Some(table)) = (state.view(id), state.store.index(index)) else {
            return Vec::new();
        };
        let slots = table.lookup(value).into_iter().flat_map(Posting::iter);
        let visible = slots.filter(|slot| view.shows(*slot));
        visible.filter_map(|slot| state.store.object(slot).cloned()).collect()
    }

    pub(crate) fn index_values_in(&self, id: ViewId, index: usize) -> Vec<Arc<str>> {
        let state = self.state.read();
        let (Some(view), Some(table)) = (state.view(id), state.store.index(index)) else {
            return Vec::new();
        };
        let is_shown = |value: &&Arc<str>| {
            let posting = table.lookup(value);
            posting.is_some_and(|posting| posting.iter().any(|slot| view.shows(slot)))
        };
        table.known_values().filter(is_shown).cloned().collect()
    }

    /// Whether the view shows its first whole state: cache filled, filters synced, everything judged.
    pub(crate) fn is_ready(&self, id: ViewId) -> bool {
        let state = self.state.read();
        state.view(id).is_some_and(|view| state.is_ready(view))
    }

    pub(crate) fn poll_ready(
        &self,
        id: ViewId,
        ticket: &mut Option<u64>,
        cx: &Context<'_>,
    ) -> Poll<Result<(), Stopped>> {
        let waker = cx.waker().clone();
        let replaced = {
            let mut state = self.state.write();
            if state.view(id).is_some_and(|view| state.is_ready(view)) {
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

    /// A filter of a view has made a step. Looks at what it may concern before it returns, unless another thread is about
    /// to.
    pub(crate) fn filter_changed(&self, id: ViewId, change: &FilterChange) {
        let ours = {
            let mut state = self.state.write();
            let stopped = state.stopped;
            let Some(view) = state.view_mut(id).filter(|_| !stopped) else {
                return;
            };
            view.generation += 1;
            view.dirty.add(change);
            !std::mem::replace(&mut view.passing, true)
        };
        if ours {
            self.run_passes(id);
        }
    }

    fn run_passes(&self, id: ViewId) {
        while self.pass(id) {}
    }

    /// One pass over what is dirty. True if the filters moved on meanwhile, so that another one is needed.
    fn pass(&self, id: ViewId) -> bool {
        let (criteria, generation, waiting) = {
            let state = self.state.read();
            let Some(view) = state.view(id) else { return false };
            (
                Arc::clone(&view.criteria),
                view.generation,
                view.stage == Stage::Waiting,
            )
        };
        if waiting && !criteria.has_synced() {
            return self.rest(id, generation);
        }
        let Some((generation, objects)) = self.collect(id, generation) else {
            return true;
        };
        let judged: Vec<(u32, Arc<K>, Verdict)> = objects
            .into_iter()
            .map(|(slot, object)| {
                let verdict = criteria.judge(&*object);
                (slot, object, verdict)
            })
            .collect();
        let again = self.commit(id, generation, &judged);
        discard_each(judged);
        again
    }

    /// Ends the passes until the next step, unless there was one since `generation`.
    fn rest(&self, id: ViewId, generation: u64) -> bool {
        let mut state = self.state.write();
        let Some(view) = state.view_mut(id) else { return false };
        if view.generation != generation {
            return true;
        }
        view.passing = false;
        false
    }

    /// The objects to look at, and the generation to which that answer belongs; `None` if there was a step since
    /// `generation`.
    #[expect(clippy::type_complexity, reason = "a pair, taken apart at once")]
    fn collect(&self, id: ViewId, mut generation: u64) -> Option<(u64, Vec<(u32, Arc<K>)>)> {
        {
            let mut state = self.state.write();
            let view = state.view_mut(id).filter(|view| view.generation == generation)?;
            if view.stage == Stage::Waiting {
                // From here on changes are judged; those in flight were not, and have to begin again.
                view.stage = Stage::Priming;
                view.generation += 1;
                generation = view.generation;
            }
        }
        let state = self.state.read();
        let view = state.view(id).filter(|view| view.generation == generation)?;
        let numbered = |(slot, object): (u32, &Arc<K>)| (slot, Arc::clone(object));
        let objects = match &view.dirty {
            Dirty::Namespaces(names) if view.stage == Stage::Live => {
                let mut objects: Vec<(u32, Arc<K>)> = Vec::new();
                for name in names {
                    objects.extend(state.store.iter_in(Some(name)).map(numbered));
                    if view.criteria.is_of_namespaces() {
                        let slot = state.store.find(KeyRef { namespace: None, name });
                        let object = slot.and_then(|slot| Some((slot, state.store.object(slot)?)));
                        objects.extend(object.map(numbered));
                    }
                }
                objects
            }
            Dirty::Namespaces(_) | Dirty::All => state.store.iter().map(numbered).collect(),
        };
        Some((generation, objects))
    }

    /// Takes in what a pass was told, unless there was a step since: then true.
    fn commit(&self, id: ViewId, generation: u64, judged: &[(u32, Arc<K>, Verdict)]) -> bool {
        let (deferred, handlers) = {
            let mut state = self.state.write();
            let State {
                store,
                views,
                unfilled,
                excused,
                waiters,
                ..
            } = &mut *state;
            let Some(view) = views.iter_mut().find(|view| view.id == id) else {
                return false;
            };
            if view.generation != generation {
                return true;
            }
            for (slot, object, verdict) in judged {
                let is_current = store.object(*slot).is_some_and(|known| Arc::ptr_eq(known, object));
                if is_current {
                    view.settle(*slot, object, *verdict);
                }
            }
            view.dirty = Dirty::nothing();
            view.passing = false;
            let mut deferred = Deferred::default();
            if view.is_live() {
                view.publish(Fills::Nothing, &mut deferred);
            } else {
                view.stage = Stage::Live;
                let complete = view.is_complete(*unfilled, *excused);
                if !view.handlers.is_empty() {
                    let snapshot = view.snapshot(store);
                    for queue in &view.handlers {
                        deferred.merge(queue.push(&snapshot, snapshot.len(), complete));
                    }
                    deferred.garbage.batches.push(Taken::whole(snapshot));
                }
                deferred.wakers.append(&mut waiters.take());
            }
            (deferred, view.handlers.clone())
        };
        deferred.run();
        for queue in handlers {
            queue.report();
        }
        false
    }

    /// Panics if what a view holds does not fit to the store, or to what its filters say now (if they are at rest).
    #[cfg(test)]
    pub(crate) fn check_view(&self, id: ViewId) {
        let state = self.state.read();
        let view = state.view(id).expect("the view is there");
        assert!(view.events.is_empty() && !view.passing);
        let filled: Vec<u32> = state.store.iter().map(|(slot, _)| slot).collect();
        let visible = filled.iter().filter(|slot| view.visible.contains(**slot)).count();
        assert_eq!(visible, view.visible.len(), "a visible slot is empty");
    }

    #[cfg(test)]
    pub(crate) fn views(&self) -> usize {
        self.state.read().views.len()
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
