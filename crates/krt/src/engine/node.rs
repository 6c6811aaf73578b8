//! A collection inside of the engine: its content, what computes it, and who is told.
//!
//! [`Cell`] is the same for every kind of collection; how content comes about is an [`Operator`], one file each in
//! [`super::operator`].

use std::any::Any;
use std::sync::Arc;

use super::backlog::Waiting;
use super::cycles::Cycles;
use super::deps::Deps;
use super::graph::Graph;
use super::id::NodeId;
use super::ingress::Ingress;
use super::key_ids::KeyIds;
use super::operator::parked::Parked;
use super::pins;
use super::planted::{self, Bug};
use super::published::{At, Published};
use super::schedule::Schedule;
use super::sink::{Delivery, Sink};
use super::store::{Equal, Store, StoreIndex};
use super::{Meta, Nodes, panics, spare};
use crate::event::{Batch, Event};
use crate::shared::Shared;
use crate::traits::Keyed;

/// What a node may use while it runs.
pub(crate) struct Run<'a> {
    pub(crate) epoch: u64,
    pub(crate) node: NodeId,
    pub(crate) shared: &'a Arc<Shared>,
    /// All nodes but this one.
    pub(crate) nodes: &'a Nodes,
    pub(crate) graph: &'a mut Graph,
    pub(crate) schedule: &'a mut Schedule,
    pub(crate) deps: &'a mut Deps,
    /// The edges that are refused.
    pub(crate) cycles: &'a mut Cycles,
    /// Whether everything is synced that the node was declared to wait for.
    pub(crate) may_sync: bool,
    /// Inputs that asked for nodes which are not added yet.
    pub(crate) awaited: &'a mut Vec<Awaited>,
    /// For the names of nodes.
    pub(super) meta: &'a [Option<Meta>],
}

/// An input that asked for a node which was made in the same epoch, and runs again when it is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Awaited {
    pub(crate) source: NodeId,
    pub(crate) consumer: NodeId,
    pub(crate) input: u32,
}

/// How far a run came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A fetch met a collection that is not final yet: the node runs again, higher. Nothing of it is applied.
    Superseded,
    /// The content is that of this epoch.
    Finished {
        /// Whether the initial state is complete.
        synced: bool,
    },
}

/// What computes a collection.
///
/// # Contract
///
/// 1. `run` changes the store only if it finishes, and then each key at most once.
/// 2. The store stays as it was until the operator says `synced`, unless it is a source.
/// 3. After `end`, no dependency of this node is left.
pub(crate) trait Operator<T>: Send {
    /// Takes what was written to a source.
    fn ingest(&mut self, _changes: Box<dyn Any + Send>) {}
    /// A change concerns this input.
    fn mark(&mut self, _input: u32) {}
    fn run(&mut self, store: &mut Store<T>, run: &mut Run<'_>) -> Step;
    /// The inputs that wait for what they fetched.
    fn parked(&self) -> Option<&Parked> {
        None
    }
    /// The collections that are to contribute, and do not yet, with the keys of those who lend them.
    fn members(&self) -> Vec<(NodeId, Arc<str>)> {
        Vec::new()
    }
    /// Gives back what it holds in the engine.
    fn end(&mut self, _deps: &mut Deps, _graph: &mut Graph) {}
    /// The keys, if this is a source: then who writes gives them their ids.
    fn keys(&self) -> Option<&Arc<KeyIds>> {
        None
    }
    /// Tells whether two values of a key are the same individual, if handlers are to be told.
    fn same(&self) -> Option<Equal<T>> {
        None
    }
    #[cfg(test)]
    fn check_invariants(&self, _store: &Store<T>) {}
    /// How much there is in its tables.
    #[cfg(test)]
    fn live(&self) -> Vec<usize> {
        Vec::new()
    }
}

/// A node with its type erased.
pub(crate) trait Node: Send {
    /// The `Store<T>`.
    fn store(&self) -> &dyn Any;
    /// The `Cell<T>`.
    fn cell(&mut self) -> &mut dyn Any;
    fn ingest(&mut self, changes: Box<dyn Any + Send>);
    fn mark(&mut self, input: u32);
    fn run(&mut self, run: &mut Run<'_>) -> Step;
    /// Whether this epoch changed anything that consumers have to look at.
    fn has_news(&self) -> bool;
    /// Whether this epoch completed the initial state.
    fn is_newly_synced(&self) -> bool;
    /// Whether the initial state is complete, as of this epoch.
    fn is_synced(&self) -> bool;
    /// The inputs that wait for what they fetched.
    fn parked(&self) -> Option<&Parked>;
    /// The collections that are to contribute, and do not yet, with the keys of those who lend them.
    fn members(&self) -> Vec<(NodeId, Arc<str>)>;
    /// Whether it waits for anything, or readers were told so the last time.
    fn is_to_be_told(&self) -> bool;
    /// Readers were told whether it waits for anything.
    fn set_told(&mut self, waits: bool);
    /// Shows this epoch to readers; tells whether it keeps older versions. The pins are locked.
    fn publish(&mut self, epoch: u64, pins: &pins::State) -> bool;
    /// Tells the handlers, and forgets this epoch's changes. What nobody needs any more stays, to be dropped by
    /// [`drop_values`](Self::drop_values).
    fn deliver(&mut self, epoch: u64, to: &mut Delivery<'_>);
    /// Gives up the versions that no pin sees any more, in the same way. The pins are locked.
    fn reclaim(&mut self, pins: &pins::State) -> bool;
    /// Takes back the ids of what this epoch deleted, unless who writes to the source goes on using them.
    fn release(&mut self, id: NodeId, ingress: &Ingress);
    /// Drops what was given up, without locks.
    fn drop_values(&mut self);
    /// Freezes the content: drops the operator, the indexes and the handlers.
    fn stop(&mut self, deps: &mut Deps, graph: &mut Graph);
    #[cfg(test)]
    fn check_invariants(&self, id: NodeId, deps: &Deps, ingress: &Ingress);
    /// How much there is in its tables.
    #[cfg(test)]
    fn live(&self) -> Vec<usize>;
}

pub(crate) struct Cell<T> {
    pub(crate) store: Store<T>,
    is_source: bool,
    /// `None` once stopped.
    operator: Option<Box<dyn Operator<T>>>,
    published: Arc<Published<T>>,
    /// Who is told its changes.
    sinks: Vec<Box<dyn Sink<T>>>,
    /// Set in the epoch that completes the initial state, until it is delivered.
    newly_synced: bool,
    /// Whether readers were told that it waits for something.
    told: bool,
}

impl<T: Keyed> Cell<T> {
    /// What readers see has these keys, too.
    pub(crate) fn new(keys: Arc<KeyIds>, published: Arc<Published<T>>, operator: Box<dyn Operator<T>>) -> Self {
        Self {
            store: Store::new(keys),
            is_source: operator.keys().is_some(),
            operator: Some(operator),
            published,
            sinks: Vec::new(),
            newly_synced: false,
            told: true,
        }
    }

    /// Adds somebody to be told, the present state first if he wants to know.
    pub(crate) fn add_sink(&mut self, sink: Box<dyn Sink<T>>, initial: bool, epoch: u64, to: &mut Delivery<'_>) {
        // The published state is that of the epoch before, which is complete.
        let present = initial.then(|| self.published.list(At::Newest));
        let told = present.into_iter().flatten().map(|(_, object)| Event::Added(object));
        let told: Vec<_> = told.collect();
        let epoch = epoch.saturating_sub(1);
        let synced = self.published.is_synced();
        let is_news = !told.is_empty() || synced;
        let changes = Arc::new(told);
        let batch = Waiting::new(epoch, Batch::new(epoch, changes), synced);
        // If it was stopped just now, and is synced by that, this is yet to be told.
        if self.operator.is_none() && !self.newly_synced {
            sink.push_last(batch, to);
            return;
        }
        if is_news {
            sink.push(batch, to);
        }
        // There may never be anything to deliver, and yet many who come and go.
        self.forget_ended();
        self.sinks.push(sink);
    }

    /// Forgets those who want to be told no more.
    fn forget_ended(&mut self) {
        self.sinks.retain(|sink| !sink.has_ended());
    }

    pub(crate) fn add_index(&mut self, number: u32, index: Box<dyn StoreIndex<T>>) {
        if self.operator.is_some() {
            self.store.add_index(number, index);
        }
    }

    /// Keeps an index for lookups from now on.
    pub(crate) fn add_lookup(&mut self, number: u32) {
        // Between epochs, what the engine has is what was published.
        if let Some(postings) = self.store.post(number) {
            self.published.add_index(number, postings);
        }
    }
}

/// Nobody will be told anything any more.
fn end<T>(sinks: &mut Vec<Box<dyn Sink<T>>>) {
    for sink in sinks.drain(..) {
        sink.end();
        panics::drop_each([sink]);
    }
}

impl<T> Drop for Cell<T> {
    fn drop(&mut self) {
        end(&mut self.sinks);
        panics::drop_each(self.store.dropped.drain(..));
    }
}

impl<T: Keyed> Node for Cell<T> {
    fn store(&self) -> &dyn Any {
        &self.store
    }

    fn cell(&mut self) -> &mut dyn Any {
        self
    }

    fn ingest(&mut self, changes: Box<dyn Any + Send>) {
        match &mut self.operator {
            Some(operator) => operator.ingest(changes),
            None => panics::drop_each([changes]),
        }
    }

    fn mark(&mut self, input: u32) {
        if let Some(operator) = &mut self.operator {
            operator.mark(input);
        }
    }

    fn run(&mut self, run: &mut Run<'_>) -> Step {
        let synced = self.store.synced;
        let Some(operator) = &mut self.operator else {
            return Step::Finished { synced };
        };
        let may_sync = run.may_sync || synced;
        if !may_sync && !self.is_source {
            // It starts with everything once it may. Sources take what was written in any case.
            return Step::Finished { synced };
        }
        let step = operator.run(&mut self.store, run);
        if let Step::Finished { synced } = step {
            let synced = synced && may_sync;
            self.newly_synced = synced && !self.store.synced;
            self.store.synced |= synced;
            self.store.finalize(run.node, run.deps, run.graph);
        }
        step
    }

    fn has_news(&self) -> bool {
        self.newly_synced || !self.store.delta.is_empty()
    }

    fn is_newly_synced(&self) -> bool {
        self.newly_synced
    }

    fn is_synced(&self) -> bool {
        self.store.synced
    }

    fn parked(&self) -> Option<&Parked> {
        self.operator.as_ref()?.parked()
    }

    fn members(&self) -> Vec<(NodeId, Arc<str>)> {
        let operator = self.operator.as_ref();
        operator.map(|operator| operator.members()).unwrap_or_default()
    }

    fn is_to_be_told(&self) -> bool {
        self.told
            || !self.store.synced
            || self.parked().is_some_and(|parked| !parked.is_empty())
            || !self.members().is_empty()
    }

    fn set_told(&mut self, waits: bool) {
        self.told = waits;
    }

    fn publish(&mut self, epoch: u64, pins: &pins::State) -> bool {
        let retains = self.published.publish(epoch, &mut self.store, pins);
        if self.newly_synced {
            self.published.set_synced();
        }
        retains
    }

    fn deliver(&mut self, epoch: u64, to: &mut Delivery<'_>) {
        let mut delta = self.store.take_delta();
        let synced = std::mem::take(&mut self.newly_synced);
        let is_last = self.operator.is_none();
        self.forget_ended();
        if self.sinks.is_empty() || (delta.is_empty() && !synced) {
            let old = delta.drain(..).filter_map(|change| change.old);
            self.store.dropped.extend(old);
            self.store.end_epoch(delta);
            if is_last {
                end(&mut self.sinks);
            }
            return;
        }
        let same = self.operator.as_ref().and_then(|operator| operator.same());
        let mut told = Vec::with_capacity(delta.len());
        for change in delta.drain(..) {
            match same {
                Some(same) => told.extend(Event::apart(change.old, change.new, same)),
                None => told.extend(Event::between(change.old, change.new)),
            }
        }
        self.store.end_epoch(delta);
        let changes = Arc::new(told);
        let batch = || {
            let changes = Arc::clone(&changes);
            Waiting::new(epoch, Batch::new(epoch, changes), synced)
        };
        if is_last {
            for sink in self.sinks.drain(..) {
                sink.push_last(batch(), to);
                panics::drop_each([sink]);
            }
        } else {
            self.sinks.iter().for_each(|sink| sink.push(batch(), to));
        }
        panics::drop_each([changes]);
    }

    fn release(&mut self, id: NodeId, ingress: &Ingress) {
        if !self.store.has_released() {
            return;
        }
        if self.is_source && !planted::has(Bug::TakenBack) {
            // Whoever writes to a key again has the lock, too: so either he finds the id, or it is given out anew.
            ingress.look(|state| self.store.release(|own| state.is_kept(id, own)));
        } else {
            self.store.release(|_| false);
        }
    }

    fn drop_values(&mut self) {
        panics::drop_each(self.store.dropped.drain(..));
        spare::keep(&mut self.store.dropped);
    }

    fn reclaim(&mut self, pins: &pins::State) -> bool {
        self.published.reclaim(pins, &mut self.store.dropped)
    }

    fn stop(&mut self, deps: &mut Deps, graph: &mut Graph) {
        if let Some(mut operator) = self.operator.take() {
            operator.end(deps, graph);
            // The user's closures, and with them handles of other collections.
            panics::drop_each([operator]);
        }
        // It may be stopped twice before this is delivered.
        self.newly_synced |= !self.store.synced;
        self.store.synced = true;
        // Those of readers first: the others hold the values.
        self.published.drop_indexes();
        self.store.drop_indexes();
    }

    #[cfg(test)]
    fn live(&self) -> Vec<usize> {
        let mut live = vec![
            self.published.len(),
            self.published.retained() + self.published.dated(),
            self.sinks.len(),
        ];
        live.extend(self.store.live());
        live.extend(self.operator.iter().flat_map(|operator| operator.live()));
        live
    }

    #[cfg(test)]
    fn check_invariants(&self, id: NodeId, deps: &Deps, ingress: &Ingress) {
        if self.is_source {
            ingress.look(|state| self.store.check_invariants(|own| state.is_kept(id, own)));
        } else {
            self.store.check_invariants(|_| false);
        }
        deps.check_postings(id, &self.store);
        assert!(self.store.dropped.is_empty(), "what was given up was dropped");
        self.published.check_invariants(&self.store);
        assert_eq!(self.store.synced, self.published.is_synced());
        if let Some(operator) = &self.operator {
            operator.check_invariants(&self.store);
        }
    }
}
