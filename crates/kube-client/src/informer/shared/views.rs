//! Views: what some filters show of the cache, and the handlers that are told of that alone.
//!
//! # Design
//!
//! A view is a set of visible slots beside the store, under the same lock: visibility changes in the same step as the
//! store, so that reads, indexes and the order of events always agree. The filters are the user's code and are asked
//! without a lock:
//!
//! - A change of the store is judged first and committed under the lock if every view is still at the *generation* under
//!   which it was judged; otherwise those that moved on are judged again ([`Judged`]). One number tells whether any did: the
//!   state's epoch.
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
//!
//! Here is one view and its life; `judged` holds what filters say of a change, `passes` looks at what a step of theirs concerns,
//! `reads` is what readers see.

use std::sync::{Arc, Weak};

pub(super) use self::judged::{Judged, show, show_gone};
use self::passes::Dirty;
use super::{Fills, Shared, State};
use crate::event::Event;
use crate::filter::{FilterChange, FilterSubscription};
use crate::informer::backlog::{Batch, Taken};
use crate::informer::deferred::{Deferred, discard_each};
use crate::informer::dispatch::HandlerQueue;
use crate::informer::shared::slots::Slots;
use crate::informer::store::Store;
use crate::informer::view::criteria::{Criteria, Verdict};
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
    // What the step under way comes to for the handlers: its first `same` events as they are, or `events` of its own.
    // Invariant: both empty between steps, and never both filled.
    same: usize,
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

    fn is_heard(&self) -> bool {
        self.is_live() && !self.handlers.is_empty()
    }

    /// Tells the handlers, if there are any yet, of an event of the step as it is. Most views hide little, so that most steps come to
    /// all views as they are: nothing is copied until one differs.
    fn tell_same(&mut self, events: &[Event<K>], at: usize) {
        if !self.is_heard() {
            return;
        }
        if self.events.is_empty() && self.same == at {
            self.same += 1;
        } else {
            self.differ(events);
            self.events.push(events[at].clone());
        }
    }

    /// Tells the handlers, if there are any yet, of what an event of the step is to this view.
    fn tell(&mut self, events: &[Event<K>], event: impl FnOnce() -> Event<K>) {
        if self.is_heard() {
            self.differ(events);
            self.events.push(event());
        }
    }

    /// From here on the view has events of its own.
    fn differ(&mut self, events: &[Event<K>]) {
        let same = std::mem::take(&mut self.same);
        self.events.extend_from_slice(&events[..same]);
    }

    /// Takes in what a change of the store came to: the events of the step from `told` on.
    fn show(&mut self, slot: u32, verdict: Verdict, events: &[Event<K>], told: usize) {
        if self.stage == Stage::Waiting {
            return;
        }
        for at in told..events.len() {
            match &events[at] {
                Event::Added { .. } => {
                    let now = verdict == Verdict::Visible;
                    self.visible.set(slot, now);
                    if now {
                        self.tell_same(events, at);
                    }
                }
                Event::Updated { old, new } => {
                    let now = verdict == Verdict::Visible || verdict == Verdict::Unsure && self.visible.contains(slot);
                    match (self.visible.set(slot, now), now) {
                        (false, false) => {}
                        (true, true) => self.tell_same(events, at),
                        (false, true) => self.tell(events, || appeared(new)),
                        (true, false) => self.tell(events, || vanished(old)),
                    }
                }
                Event::Deleted { .. } => {
                    if self.visible.set(slot, false) {
                        self.tell_same(events, at);
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
            (false, true) => self.tell(&[], || appeared(object)),
            (true, false) => self.tell(&[], || vanished(object)),
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

    /// Whether the step under way came to this view as it is. If not, it has events of its own from here on.
    pub(super) fn takes_all(&mut self, events: &[Event<K>]) -> bool {
        let takes_all = self.same > 0 && self.same == events.len();
        if !takes_all {
            self.differ(events);
        }
        takes_all
    }

    /// Pushes what the step under way came to to every handler; `all` holds its events, if they are this view's too.
    pub(super) fn publish(&mut self, all: Option<&Batch<K>>, fills: Fills, deferred: &mut Deferred<K>) {
        if std::mem::take(&mut self.same) > 0
            && let Some(all) = all
        {
            self.push(all, fills, deferred);
        } else if !self.events.is_empty() || fills == Fills::Informer {
            let own: Batch<K> = self.events.drain(..).collect();
            if self.events.capacity() > KEEP_BUFFER {
                self.events = Vec::new();
            }
            self.push(&own, fills, deferred);
            deferred.garbage.batches.push(Taken::whole(own));
        }
    }

    fn push(&self, batch: &Batch<K>, fills: Fills, deferred: &mut Deferred<K>) {
        let ends_first = fills == Fills::Informer && self.is_live();
        if batch.is_empty() && !ends_first {
            return;
        }
        let initial = fills.initial(batch);
        for queue in &self.handlers {
            deferred.merge(queue.push(batch, initial, ends_first));
        }
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
            state.epoch += 1;
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
                same: 0,
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
            let ended: Vec<ViewState<K>> = state.views.extract_if(.., |view| !view.is_used()).collect();
            state.epoch += u64::from(!ended.is_empty());
            ended
        };
        if ended.is_empty() {
            return;
        }
        // Filters and their subscriptions are the user's: not under the lock.
        drop(self.take_prepared());
        discard_each(ended);
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

    /// Panics if what a view holds does not fit to the store, or to what its filters say now (if they are at rest).
    #[cfg(test)]
    pub(crate) fn check_view(&self, id: ViewId) {
        let state = self.state.read();
        let view = state.view(id).expect("the view is there");
        assert!(view.events.is_empty() && view.same == 0 && !view.passing);
        let filled: Vec<u32> = state.store.iter().map(|(slot, _)| slot).collect();
        let visible = filled.iter().filter(|slot| view.visible.contains(**slot)).count();
        assert_eq!(visible, view.visible.len(), "a visible slot is empty");
    }

    #[cfg(test)]
    pub(crate) fn views(&self) -> usize {
        self.state.read().views.len()
    }
}

mod judged;
#[cfg(test)]
mod model;
mod passes;
mod reads;
#[cfg(test)]
mod tests;
