//! Every change of the cache: what a watch brought, a whole list, the end of the kind. Objects that come are prepared without a lock
//! (the user's code is asked: index extractors, filters); the change is committed and told to the handlers in one step under it. If
//! something that has to be asked came in between, they are prepared again.

use std::sync::Arc;

use crate::event::Event;
use crate::informer::backlog::{Batch, Taken};
use crate::informer::deferred::Deferred;
use crate::informer::index::IndexDef;
use crate::informer::progress::Source;
use crate::informer::relist::Relist;
use crate::informer::returns::Returns;
use crate::informer::shared::views::{Judged, show, show_gone};
use crate::informer::shared::{Shared, State};
use crate::informer::store::{Change, Mode, Outcome, Store};
use crate::key::ObjectKey;
use crate::object::Object;
use crate::sync::{RwLockWriteGuard, wake_all};

/// A received change, before its index values are known.
pub(crate) enum Received<K> {
    Upsert(Arc<K>),
    Delete { key: ObjectKey, last: Option<Arc<K>> },
}

/// What a change completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fills {
    /// Nothing: it is one of many.
    Nothing,
    /// The first list of a section is there, and others are still to come.
    Section,
    /// The first list of the last section is there.
    Informer,
}

impl Fills {
    /// How many events of the step are of a first list.
    pub(super) fn initial<K>(self, events: &[Event<K>]) -> usize {
        match self {
            Fills::Nothing => 0,
            Fills::Section | Fills::Informer => events.iter().filter(|event| event.is_initial()).count(),
        }
    }
}

/// What the changes of one step are prepared for, and what the filters say of them. Kept from step to step.
pub(super) struct Prepared<K> {
    // That of the state for which it is: see `State::epoch`.
    epoch: u64,
    // Each upsert has the values of these indexes, in this order.
    defs: Vec<IndexDef<K>>,
    judged: Judged,
}

impl<K> Default for Prepared<K> {
    fn default() -> Self {
        Self {
            epoch: 0,
            defs: Vec::new(),
            judged: Judged::default(),
        }
    }
}

impl<K: Object> Shared<K> {
    /// Applies what a section's watch brought, up to `version`, and tells the handlers.
    pub(crate) fn apply(&self, at: usize, received: &mut Vec<Received<K>>, version: Option<String>) {
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
        let (prepared, mut state) = self.prepare(&mut changes);
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
            show(views, &prepared.judged, number, slot, &outcome.events, told);
        }
        if let Some(version) = version {
            state.sections[at].version = version;
        }
        let mut progressed = state.progressed(at, &outcome, Source::Watch);
        let mut deferred = state.publish(outcome, Fills::Nothing, Some(&self.returns));
        deferred.wakers.append(&mut progressed);
        let unused = self.keep(prepared, &mut state);
        drop(state);
        drop(unused);
        deferred.run();
    }

    /// Prepares changes, and gives the lock under which they still are. What is given first is to be [kept](Self::keep), or dropped
    /// without the lock: it may hold the last of the user's functions.
    fn prepare(&self, changes: &mut [Change<K>]) -> (Prepared<K>, RwLockWriteGuard<'_, State<K>>) {
        // As the last step left it, which nearly always still holds. Another reflector may have it: then this one begins anew.
        let mut prepared = std::mem::take(&mut *self.prepared.lock());
        prepared.judged.begin();
        loop {
            prepared.compute(changes);
            let state = self.state.write();
            if prepared.epoch == state.epoch {
                debug_assert!(
                    prepared.is_current(&state),
                    "the epoch did not move with an index or a view"
                );
                return (prepared, state);
            }
            let outdated = prepared.renew(&state);
            drop(state);
            drop(outdated);
        }
    }

    /// Keeps what a step was prepared for, for the next one. Under the lock: a view that ends later finds it here. What this gives
    /// back is to be dropped without the lock.
    #[must_use = "drop it after the lock is released: it may hold the last of the user's functions"]
    fn keep(&self, prepared: Prepared<K>, _state: &mut State<K>) -> Prepared<K> {
        std::mem::replace(&mut *self.prepared.lock(), prepared)
    }

    /// Gives back what is kept for the next step, filters of views that ended among it. A step that is under way finds out by itself.
    #[must_use = "drop it without a lock held: it may hold the last of the user's functions"]
    pub(super) fn take_prepared(&self) -> Prepared<K> {
        std::mem::take(&mut *self.prepared.lock())
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
        let upserts = relist.fresh().map(|object| Change::Upsert {
            object: Arc::clone(object),
            values: Vec::new(),
        });
        let mut changes: Vec<Change<K>> = upserts.collect();
        let (prepared, mut state) = self.prepare(&mut changes);
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
            show_gone(views, slot, &outcome.events, told);
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
            show(views, &prepared.judged, number, slot, &outcome.events, told);
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
        let unused = self.keep(prepared, &mut state);
        drop(state);
        drop(unused);
        deferred.run();
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
                show_gone(views, slot, &outcome.events, told);
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
}

impl<K: Object> Prepared<K> {
    /// Adds the values of indexes that are new, and what the filters say that were not asked yet. Runs user code: no lock is held.
    fn compute(&mut self, changes: &mut [Change<K>]) {
        for change in &mut *changes {
            if let Change::Upsert { object, values } = change {
                values.extend(self.defs[values.len()..].iter().map(|def| def.values(object)));
            }
        }
        self.judged.ask(changes);
    }

    /// Notes what there is to compute and to ask; gives back what is no longer.
    #[must_use = "drop it after the lock is released: it may hold the last of the user's filters"]
    fn renew(&mut self, state: &State<K>) -> Judged {
        self.epoch = state.epoch;
        self.defs.extend(state.store.indexes().skip(self.defs.len()).cloned());
        self.judged.renew(&state.views)
    }

    /// Whether it is for all the indexes and views that there are, as they are.
    fn is_current(&self, state: &State<K>) -> bool {
        state.store.indexes().len() == self.defs.len() && self.judged.is_current(&state.views)
    }
}

impl<K: Object> State<K> {
    /// Pushes the events to every handler, to be given back to `returns`.
    fn publish(&mut self, outcome: Outcome<K>, fills: Fills, returns: Option<&Arc<Returns<K>>>) -> Deferred<K> {
        let mut deferred = Deferred::default();
        let Outcome { events, garbage } = outcome;
        deferred.garbage.objects = garbage;
        let is_heard = !self.handlers.is_empty() && (!events.is_empty() || fills == Fills::Informer);
        let mut is_shared = false;
        for view in &mut self.views {
            is_shared |= view.takes_all(&events);
        }
        let all = if is_heard || is_shared {
            Some(match returns {
                Some(returns) => Batch::returning(events, returns),
                None => Batch::from(events),
            })
        } else {
            deferred.garbage.events = events;
            None
        };
        for view in &mut self.views {
            view.publish(all.as_ref(), fills, &mut deferred);
        }
        if let Some(all) = all {
            if is_heard {
                let initial = fills.initial(&all);
                for queue in &self.handlers {
                    deferred.merge(queue.push(&all, initial, fills == Fills::Informer));
                }
            }
            deferred.garbage.batches.push(Taken::whole(all));
        }
        deferred
    }
}
