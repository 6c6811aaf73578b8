//! What a transformation may read: the context through which each read is recorded as a dependency.
//!
//! The same reads outside of transformations are in [`crate::snapshot`].

use std::any::TypeId;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::collection::Collection;
use crate::engine::Nodes;
use crate::engine::deps::{Answer, Asked, Deps};
use crate::engine::graph::Graph;
use crate::engine::id::NodeId;
use crate::engine::node::Run;
use crate::engine::planted::{self, Bug};
use crate::engine::schedule::Schedule;
use crate::engine::store::Store;
use crate::key::KeyRef;
use crate::query::{Mode, Query};
use crate::scope::Child;
use crate::shared::Shared;
use crate::traits::Keyed;

/// The objects that a query matched, in the order of their keys (by bytes).
///
/// It is a cheap clone and borrows nothing, so it may go into an output; inputs that fetch the same share one.
pub struct Fetched<T>(Arc<[Arc<T>]>);

impl<T> Fetched<T> {
    pub(crate) fn new(objects: impl IntoIterator<Item = Arc<T>>) -> Self {
        Self(objects.into_iter().collect())
    }
}

impl<T: Send + Sync + 'static> Answer for Fetched<T> {
    fn peek(&self) -> usize {
        self.first().map_or(0, Arc::strong_count)
    }
}

impl<T> Clone for Fetched<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Fetched<T> {
    type Target = [Arc<T>];

    fn deref(&self) -> &[Arc<T>] {
        &self.0
    }
}

impl<'a, T> IntoIterator for &'a Fetched<T> {
    type Item = &'a Arc<T>;
    type IntoIter = std::slice::Iter<'a, Arc<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T: PartialEq> PartialEq for Fetched<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl<T: Eq> Eq for Fetched<T> {}

impl<T: fmt::Debug> fmt::Debug for Fetched<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

/// Reads by queries, so that a function of the user's works inside of transformations and outside: see [`Context`],
/// [`Snapshot`](crate::Snapshot) and [`Live`](crate::Live). Outside, a query without keys and without a value of an index looks at each
/// object of the collection.
pub trait Read {
    /// The objects that match, in the order of their keys.
    fn fetch<T: Keyed>(&mut self, query: Query<'_, T>) -> Fetched<T>;

    /// The match with the smallest key.
    fn fetch_one<T: Keyed>(&mut self, query: Query<'_, T>) -> Option<Arc<T>> {
        self.fetch(query).first().cloned()
    }
}

/// What a run gathers while the transformation runs.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// The dependencies, in the order in which they were asked for, each once.
    pub(crate) fetched: Vec<Asked>,
    /// New edges, and whether their sources were final.
    pub(crate) edges: Vec<(NodeId, bool)>,
    /// The collections that were fetched and are not synced, each once.
    pub(crate) unsynced: Vec<NodeId>,
    /// Collections that were fetched though they are not added yet.
    pub(crate) awaited: Vec<NodeId>,
    /// The transformation asked for its last output to stay.
    pub(crate) discarded: bool,
    /// What the input's runs made and keep.
    pub(crate) children: Vec<Child>,
}

impl Scratch {
    pub(crate) fn clear(&mut self) {
        self.fetched.clear();
        self.edges.clear();
        self.unsynced.clear();
        self.awaited.clear();
        self.discarded = false;
    }

    fn park(&mut self, source: NodeId) {
        if !self.unsynced.contains(&source) {
            self.unsynced.push(source);
        }
    }
}

/// The reads of one run of a transformation.
///
/// # Guarantees
///
/// Everything that is fetched is of one epoch, the same one that the input is of. What was fetched decides when the transformation
/// runs again: when a change concerns it, and never otherwise. A fetch that is not made again by the next run is no longer
/// followed.
///
/// A run may be made whose result is not used: if a collection is fetched for the first time, and is not up to date yet. A fetch
/// from a collection that is not synced gives what is there; the result of the run is not used either, and the input runs again
/// when the collection is synced.
pub struct Context<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    consumer: NodeId,
    nodes: &'a Nodes,
    graph: &'a Graph,
    schedule: &'a Schedule,
    deps: &'a mut Deps,
    pub(crate) scratch: &'a mut Scratch,
    /// The link to what the input asked the last time at the place where this run is.
    last: u32,
}

impl<'a> Context<'a> {
    /// `chain` is what the input asked the last time.
    pub(crate) fn new(run: &'a mut Run<'_>, scratch: &'a mut Scratch, chain: u32) -> Self {
        Self {
            last: chain,
            shared: run.shared,
            consumer: run.node,
            nodes: run.nodes,
            graph: run.graph,
            schedule: run.schedule,
            deps: run.deps,
            scratch,
        }
    }

    /// The objects that match, in the order of their keys.
    ///
    /// # Panics
    ///
    /// If the collection belongs to another [`Krt`](crate::Krt). The panic ends the run of this input, which keeps its last output.
    pub fn fetch<T: Keyed>(&mut self, query: Query<'_, T>) -> Fetched<T> {
        let none = || Fetched::new([]);
        self.ask(query, Mode::Objects, none, |store, ids| {
            Fetched::new(ids.iter().filter_map(|id| store.get(*id)).cloned())
        })
    }

    /// The match with the smallest key.
    ///
    /// # Panics
    ///
    /// As [`fetch`](Self::fetch).
    pub fn fetch_one<T: Keyed>(&mut self, query: Query<'_, T>) -> Option<Arc<T>> {
        self.fetch(query).first().cloned()
    }

    /// A part of each match, in the order of their keys. A change of a match that leaves its part equal does not concern this input.
    ///
    /// The projection must not capture anything, which is checked when the program is compiled.
    ///
    /// # Panics
    ///
    /// As [`fetch`](Self::fetch).
    pub fn fetch_map<T: Keyed, P, F>(&mut self, query: Query<'_, T>, project: F) -> Fetched<P>
    where
        P: PartialEq + Send + Sync + 'static,
        F: Fn(&T) -> P + Copy + Send + Sync + 'static,
    {
        const {
            assert!(
                size_of::<F>() == 0,
                "a projection that captures something cannot be shared"
            );
        }
        let differ = move |old: &T, new: &T| project(old) != project(new);
        let mode = Mode::Projection(TypeId::of::<F>(), Box::new(differ));
        let none = || Fetched::new([]);
        self.ask(query, mode, none, |store, ids| {
            let objects = ids.iter().filter_map(|id| store.get(*id));
            Fetched::new(objects.map(|object| Arc::new(project(object))))
        })
    }

    /// Whether anything matches. Only a change of this answer concerns this input.
    ///
    /// # Panics
    ///
    /// As [`fetch`](Self::fetch).
    pub fn exists<T: Keyed>(&mut self, query: Query<'_, T>) -> bool {
        self.ask(query, Mode::Exists, || false, |_, ids| !ids.is_empty())
    }

    /// Whether there is an object with this key: [`exists`](Self::exists) for the usual case.
    ///
    /// # Panics
    ///
    /// As [`fetch`](Self::fetch).
    pub fn has_key<'q, T: Keyed>(&mut self, collection: &'q Collection<T>, key: impl Into<KeyRef<'q>>) -> bool {
        self.exists(collection.query().key(key))
    }

    /// Has the input keep its last output, whatever the transformation returns. If there is none, what it returns counts.
    /// What was fetched counts in any case.
    pub fn discard_result(&mut self) {
        self.scratch.discarded = true;
    }

    /// Records what is asked as a dependency, and answers it: from its memo, if nothing has changed since. `none` makes the answer that nothing
    /// matches.
    fn ask<T: Keyed, A: Clone + Answer>(
        &mut self,
        query: Query<'_, T>,
        mode: Mode<T>,
        none: impl FnOnce() -> A,
        answer: impl FnOnce(&Store<T>, &[u32]) -> A,
    ) -> A {
        let collection = query.collection;
        assert!(
            collection.is_of(self.shared),
            "collection {} belongs to another Krt",
            collection.name()
        );
        let source = collection.id();
        if source != self.consumer && !self.nodes.has(source) {
            // Made while this epoch runs, and added at the next boundary.
            self.scratch.park(source);
            self.scratch.awaited.push(source);
            return none();
        }
        let known = self.graph.has_edge(self.consumer, source);
        let is_final = known || self.schedule.is_final(source, self.graph) || planted::has(Bug::NotSuperseded);
        if !known && !self.scratch.edges.iter().any(|(own, _)| *own == source) {
            self.scratch.edges.push((source, is_final));
        }
        if source == self.consumer {
            // A cycle of one, which is refused when the run is over.
            return none();
        }
        let store = self.nodes.store::<T>(source);
        let asked = self
            .deps
            .ask(self.last, (self.consumer, source), query.filters, mode, store);
        self.last = self.deps.next_link(self.last);
        if self.deps.is_first_ask(asked.dep) || !self.scratch.fetched.contains(&asked) {
            self.scratch.fetched.push(asked);
        }
        let dep = asked.dep;
        let Some(store) = store else {
            return none();
        };
        if !store.synced {
            self.scratch.park(source);
        }
        if is_final && let Some(memo) = self.deps.memo::<A>(dep) {
            return memo.clone();
        }
        let ids = self.deps.select(dep, store);
        let answer = answer(store, &ids);
        if is_final || planted::has(Bug::SupersededMemo) {
            self.deps.set_memo(dep, Arc::new(answer.clone()));
        }
        answer
    }
}

impl Read for Context<'_> {
    fn fetch<T: Keyed>(&mut self, query: Query<'_, T>) -> Fetched<T> {
        Context::fetch(self, query)
    }
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("consumer", &self.consumer)
            .finish_non_exhaustive()
    }
}
