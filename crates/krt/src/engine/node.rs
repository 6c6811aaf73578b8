//! A collection inside of the engine: its content, what computes it, and who is told.
//!
//! [`Cell`] is the same for every kind of collection; how content comes about is an [`Operator`], one file each in
//! [`super::operator`].

use std::any::Any;
use std::sync::Arc;

use super::deps::Deps;
use super::graph::Graph;
use super::handler::{Handler, Waiting};
use super::id::NodeId;
use super::pins;
use super::pool::{Job, Pool};
use super::published::Published;
use super::schedule::Schedule;
use super::store::{Equal, IdsFrom, Store, StoreIndex};
use super::{Meta, Nodes, panics};
use crate::event::{Event, Told};
use crate::shared::Shared;

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
    /// Inputs whose fetches would close a cycle, with the way along it.
    pub(crate) refused: &'a mut Vec<Refused>,
    /// Inputs that asked for nodes which are not added yet.
    pub(crate) awaited: &'a mut Vec<Awaited>,
    /// For the names of nodes.
    pub(super) meta: &'a [Option<Meta>],
}

/// An input that asked for an edge which cannot be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) consumer: NodeId,
    pub(crate) input: u32,
    /// From the consumer to what it asked for, and on to the consumer again.
    pub(crate) path: Vec<NodeId>,
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
    /// Gives back what it holds in the engine.
    fn end(&mut self, _deps: &mut Deps, _graph: &mut Graph) {}
    fn ids(&self) -> IdsFrom {
        IdsFrom::Store
    }
    /// Tells whether two values of a key are the same individual, if handlers are to be told.
    fn same(&self) -> Option<Equal<T>> {
        None
    }
    #[cfg(test)]
    fn check_invariants(&self, _store: &Store<T>) {}
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
    /// Shows this epoch to readers. The pins are locked.
    fn publish(&mut self, epoch: u64, pins: &pins::State);
    /// Tells the handlers, and forgets this epoch's changes.
    fn deliver(&mut self, epoch: u64, pool: &Arc<Pool>);
    /// Gives up the versions that no pin sees any more. The pins are locked.
    fn reclaim(&mut self, pins: &pins::State);
    /// Drops what was given up, without locks.
    fn drop_values(&mut self);
    /// Freezes the content: drops the operator, the indexes and the handlers.
    fn stop(&mut self, deps: &mut Deps, graph: &mut Graph);
    #[cfg(test)]
    fn check_invariants(&self);
}

pub(crate) struct Cell<T> {
    pub(crate) store: Store<T>,
    /// `None` once stopped.
    operator: Option<Box<dyn Operator<T>>>,
    published: Arc<Published<T>>,
    handlers: Vec<Arc<Handler<T>>>,
    /// Set in the epoch that completes the initial state, until it is delivered.
    newly_synced: bool,
    /// What readers do not see any more, to be dropped without locks.
    dropped: Vec<Arc<T>>,
}

impl<T: Send + Sync + 'static> Cell<T> {
    pub(crate) fn new(published: Arc<Published<T>>, operator: Box<dyn Operator<T>>) -> Self {
        Self {
            store: Store::new(),
            operator: Some(operator),
            published,
            handlers: Vec::new(),
            newly_synced: false,
            dropped: Vec::new(),
        }
    }

    /// Adds a handler, which is told the present state first if it wants to know.
    pub(crate) fn add_handler(&mut self, handler: Arc<Handler<T>>, initial: bool, epoch: u64, pool: &Arc<Pool>) {
        if self.operator.is_none() {
            handler.end();
            return;
        }
        // The published state is that of the epoch before, which is complete.
        let told = self.published.list(super::published::At::Newest).into_iter();
        let told = told.filter(|_| initial).map(|(key, object)| Told {
            key,
            event: Event::Added(object),
        });
        let told: Vec<_> = told.collect();
        if !told.is_empty() || self.store.synced {
            let waiting = Waiting::new(epoch.saturating_sub(1), Arc::new(told), self.store.synced);
            handler.push(waiting, pool);
        }
        self.handlers.push(handler);
    }

    pub(crate) fn add_index(&mut self, number: u32, index: Box<dyn StoreIndex<T>>) {
        if self.operator.is_some() {
            self.store.add_index(number, index);
        }
    }

    fn ids(&self) -> IdsFrom {
        self.operator.as_ref().map_or(IdsFrom::Store, |operator| operator.ids())
    }
}

impl<T: Send + Sync + 'static> Node for Cell<T> {
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
        let step = operator.run(&mut self.store, run);
        if let Step::Finished { synced } = step {
            self.newly_synced = synced && !self.store.synced;
            self.store.synced |= synced;
            self.store.finalize(run.node, run.deps);
        }
        step
    }

    fn has_news(&self) -> bool {
        self.newly_synced || !self.store.delta.is_empty()
    }

    fn is_newly_synced(&self) -> bool {
        self.newly_synced
    }

    fn publish(&mut self, epoch: u64, pins: &pins::State) {
        self.published
            .publish(epoch, &self.store.delta, pins, &mut self.dropped);
        if self.newly_synced {
            self.published.set_synced();
        }
    }

    fn deliver(&mut self, epoch: u64, pool: &Arc<Pool>) {
        let ids = self.ids();
        let delta = self.store.end_epoch(ids);
        let synced = std::mem::take(&mut self.newly_synced);
        self.handlers.retain(|handler| !handler.has_ended());
        if self.handlers.is_empty() || (delta.is_empty() && !synced) {
            panics::drop_each(delta);
        } else {
            let same = self.operator.as_ref().and_then(|operator| operator.same());
            let told: Vec<_> = if let Some(same) = same {
                let told = delta
                    .into_iter()
                    .flat_map(|change| Told::between(change.key.text, change.old, change.new, same));
                told.collect()
            } else {
                let told = delta.into_iter().filter_map(|change| {
                    let event = Event::between(change.old, change.new)?;
                    Some(Told {
                        key: change.key.text,
                        event,
                    })
                });
                told.collect()
            };
            let told = Arc::new(told);
            for handler in &self.handlers {
                handler.push(Waiting::new(epoch, Arc::clone(&told), synced), pool);
            }
            panics::drop_each([told]);
        }
        self.drop_values();
    }

    fn drop_values(&mut self) {
        panics::drop_each(self.dropped.drain(..));
    }

    fn reclaim(&mut self, pins: &pins::State) {
        self.published.reclaim(pins, &mut self.dropped);
    }

    fn stop(&mut self, deps: &mut Deps, graph: &mut Graph) {
        if let Some(mut operator) = self.operator.take() {
            operator.end(deps, graph);
            // The user's closures, and with them handles of other collections.
            panics::drop_each([operator]);
        }
        self.newly_synced = !self.store.synced;
        self.store.synced = true;
        self.store.drop_indexes();
        for handler in self.handlers.drain(..) {
            handler.end();
        }
    }

    #[cfg(test)]
    fn check_invariants(&self) {
        self.store.check_invariants(self.ids());
        assert_eq!(self.store.len(), self.published.len());
        assert_eq!(self.store.synced, self.published.is_synced());
        if let Some(operator) = &self.operator {
            operator.check_invariants(&self.store);
        }
    }
}
