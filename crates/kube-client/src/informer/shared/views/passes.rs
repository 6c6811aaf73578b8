//! Steps of the filters: what each may concern is looked at anew, one thread at a time for each view.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Stage, ViewId};
use crate::filter::FilterChange;
use crate::informer::backlog::Taken;
use crate::informer::deferred::{Deferred, discard_each};
use crate::informer::shared::changes::Fills;
use crate::informer::shared::{Shared, State};
use crate::informer::view::criteria::Verdict;
use crate::key::KeyRef;
use crate::object::Object;

/// What a pass has to look at.
#[derive(Debug)]
pub(super) enum Dirty {
    Namespaces(BTreeSet<Arc<str>>),
    All,
}

impl Dirty {
    pub(super) fn nothing() -> Self {
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

impl<K: Object> Shared<K> {
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
            let ours = !std::mem::replace(&mut view.passing, true);
            state.epoch += 1;
            ours
        };
        if ours {
            self.run_passes(id);
        }
    }

    pub(super) fn run_passes(&self, id: ViewId) {
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
                state.epoch += 1;
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
                view.publish(None, Fills::Nothing, &mut deferred);
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
}
