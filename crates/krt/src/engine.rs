//! The deterministic core: it is driven by steps, owns no thread, and knows neither Kubernetes nor tokio nor a clock.
//!
//! Start reading at [`Engine::step`]. One step is an epoch: it takes all that is pending as one atomic cut and carries it through
//! the nodes in order of height.
//!
//! | step | file |
//! | --- | --- |
//! | take what is pending | `ingress` |
//! | operations on the graph | `boundary` |
//! | walk by height | `schedule`, over `graph` |
//! | compute a node | `node`, by its `operator` |
//! | find whom its changes concern | `store` (indexes), `deps` |
//! | show it to readers | `published`, `pins` |
//! | tell handlers | `sink`: `handler`, run by `pool`, `stream`, `gather`; `backlog` merges what waits for them |
//! | tell what waits and what is refused | `status`, `cycles` |

pub(crate) mod backlog;
mod boundary;
mod by_id;
pub(crate) mod cycles;
pub(crate) mod deps;
pub(crate) mod gather;
pub(crate) mod graph;
pub(crate) mod handler;
pub(crate) mod id;
pub(crate) mod index;
pub(crate) mod ingress;
pub(crate) mod inside;
pub(crate) mod key_ids;
pub(crate) mod node;
pub(crate) mod operator;
pub(crate) mod panics;
pub(crate) mod pins;
pub(crate) mod planted;
pub(crate) mod pool;
pub(crate) mod postings;
pub(crate) mod progress;
pub(crate) mod published;
pub(crate) mod schedule;
pub(crate) mod sink;
pub(crate) mod spare;
pub(crate) mod status;
pub(crate) mod store;
pub(crate) mod stream;

use std::collections::BTreeSet;
use std::sync::Arc;

use cycles::Cycles;
use deps::Deps;
use graph::Graph;
use id::NodeId;
use ingress::{Cut, Operation};
use node::{Awaited, Node, Run, Step};
use operator::parked::Parked;
use planted::Bug;
use schedule::Schedule;
use sink::{Delivery, Gather};
use status::Status;
use store::Store;

use crate::shared::Shared;

/// The nodes by number. The one that runs is taken out meanwhile.
#[derive(Default)]
pub(crate) struct Nodes(Vec<Option<Box<dyn Node>>>);

impl Nodes {
    /// The content of a node. `None` if the node is not there, or is the one that runs.
    pub(crate) fn store<T: 'static>(&self, node: NodeId) -> Option<&Store<T>> {
        let node = self.0.get(node.index())?.as_ref()?;
        node.store().downcast_ref()
    }

    /// Whether a node is synced, if it is there.
    fn is_synced(&self, node: NodeId) -> Option<bool> {
        Some(self.0.get(node.index())?.as_ref()?.is_synced())
    }

    fn parked(&self, node: NodeId) -> Option<&Parked> {
        self.0.get(node.index())?.as_ref()?.parked()
    }

    fn members(&self, node: NodeId) -> Vec<(NodeId, Arc<str>)> {
        let node = self.0.get(node.index()).and_then(Option::as_ref);
        node.map(|node| node.members()).unwrap_or_default()
    }

    /// Whether a node is there, and is not the one that runs.
    pub(crate) fn has(&self, node: NodeId) -> bool {
        self.0.get(node.index()).is_some_and(Option::is_some)
    }

    fn get_mut(&mut self, node: NodeId) -> Option<&mut Box<dyn Node>> {
        self.0.get_mut(node.index())?.as_mut()
    }

    fn take(&mut self, node: NodeId) -> Option<Box<dyn Node>> {
        self.0.get_mut(node.index())?.take()
    }

    fn put(&mut self, id: NodeId, node: Box<dyn Node>) {
        if id.index() >= self.0.len() {
            self.0.resize_with(id.index() + 1, || None);
        }
        self.0[id.index()] = Some(node);
    }
}

/// What the engine knows of a node beside the node itself.
struct Meta {
    status: Arc<Status>,
    /// What it reads or waits for as long as it lives.
    sources: Vec<NodeId>,
    /// Those that it only waits for.
    declared: Vec<NodeId>,
    /// Nobody has a handle any more.
    is_released: bool,
}

pub(crate) struct Engine {
    shared: Arc<Shared>,
    epoch: u64,
    nodes: Nodes,
    /// By node. Invariant: `Some` iff the node is there.
    meta: Vec<Option<Meta>>,
    graph: Graph,
    schedule: Schedule,
    deps: Deps,
    cycles: Cycles,
    /// Invariant: between epochs, about nodes that the ingress is about to add.
    awaited: Vec<Awaited>,
    /// The nodes that finished in this epoch, each once, and may have something to publish.
    finished: Vec<NodeId>,
    /// The nodes of which readers are to be told whether they wait. Invariant: empty between epochs.
    untold: BTreeSet<NodeId>,
    /// Who was told something that is to be handed on. Invariant: empty but while an epoch is delivered or operations are done.
    gathers: Vec<Arc<dyn Gather>>,
    /// The nodes that have something to drop. Invariant: empty between steps.
    littered: Vec<NodeId>,
    /// Operations that have to wait for the next epoch, which follows at once: stops of sources that were written to before.
    late: Vec<Operation>,
}

impl Engine {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            epoch: 0,
            nodes: Nodes::default(),
            meta: Vec::new(),
            graph: Graph::default(),
            schedule: Schedule::default(),
            deps: Deps::new(shared.hashing.clone()),
            cycles: Cycles::default(),
            awaited: Vec::new(),
            finished: Vec::new(),
            untold: BTreeSet::new(),
            gathers: Vec::new(),
            littered: Vec::new(),
            late: Vec::new(),
            shared,
        }
    }

    /// Applies everything that is pending; tells whether there was anything. What that replaced is left to be [dropped](Self::drop_values).
    pub(crate) fn step(&mut self) -> bool {
        let cut = self.shared.ingress.take();
        if cut.is_empty() {
            return false;
        }
        self.apply(cut);
        true
    }

    /// Applies a cut, and what follows from it in later epochs. What that replaced is left to be [dropped](Self::drop_values).
    pub(crate) fn apply(&mut self, cut: Cut) {
        let _inside = inside::enter();
        let written = cut.written;
        self.epoch(cut);
        // An edge that went may allow what was refused because of it.
        while !self.is_quiet() {
            self.epoch(Cut::default());
        }
        self.shared.set_applied(written, self.epoch);
    }

    /// Drops what the epochs replaced. All that are to be told were told before, so nobody waits for it.
    pub(crate) fn drop_values(&mut self) {
        let _inside = inside::enter();
        while let Some(id) = self.littered.pop() {
            if let Some(node) = self.nodes.get_mut(id) {
                node.drop_values();
            }
        }
        spare::keep(&mut self.littered);
    }

    /// One epoch: what follows from the last one, or else what is pending; tells whether there was anything.
    #[cfg(test)]
    pub(crate) fn step_once(&mut self) -> bool {
        let cut = if self.is_quiet() {
            self.shared.ingress.take()
        } else {
            Cut::default()
        };
        if self.is_quiet() && cut.is_empty() {
            return false;
        }
        {
            let _inside = inside::enter();
            self.epoch(cut);
        }
        self.drop_values();
        true
    }

    /// Whether nothing follows from the last epoch.
    pub(crate) fn is_quiet(&self) -> bool {
        self.schedule.is_empty() && self.late.is_empty()
    }

    /// Who is refused what: consumer, key of the input, path.
    #[cfg(test)]
    pub(crate) fn refused(&self) -> impl Iterator<Item = (NodeId, &Arc<str>, &cycles::Path)> {
        self.cycles.iter()
    }

    /// Who was refused something in the last epoch, and did not outlive it.
    #[cfg(test)]
    pub(crate) fn refused_in_vain(&self) -> impl Iterator<Item = (NodeId, &Arc<str>, &cycles::Path)> {
        let gone = self
            .cycles
            .made
            .iter()
            .filter(|(consumer, ..)| !self.nodes.has(*consumer));
        gone.map(|(consumer, key, path)| (*consumer, key, path))
    }

    fn epoch(&mut self, cut: Cut) {
        self.epoch += 1;
        #[cfg(test)]
        self.cycles.made.clear();
        self.schedule.begin(self.epoch);
        let mut operations = std::mem::take(&mut self.late);
        operations.extend(cut.operations);
        let is_written = |node: &NodeId| cut.changes.iter().any(|(written, _)| written == node);
        let is_late = |one: &mut Operation| matches!(one, Operation::Stop(node) if is_written(node));
        self.late = operations.extract_if(.., is_late).collect();
        self.operate(operations);
        for (node, changes) in cut.changes {
            match self.nodes.get_mut(node) {
                Some(own) => {
                    own.ingest(changes);
                    self.schedule.push(node, &self.graph);
                }
                None => panics::drop_each([changes]),
            }
        }
        while let Some(node) = self.schedule.pop() {
            self.run(node);
        }
        self.publish(cut.unpinned);
        self.retire_edges();
        self.tell();
    }

    /// Has one node do its part in this epoch, and schedules those whom it concerns.
    fn run(&mut self, id: NodeId) {
        let Some(mut node) = self.nodes.take(id) else { return };
        let may_sync = self.may_sync(id);
        let step = node.run(&mut Run {
            epoch: self.epoch,
            node: id,
            shared: &self.shared,
            nodes: &self.nodes,
            graph: &mut self.graph,
            schedule: &mut self.schedule,
            deps: &mut self.deps,
            cycles: &mut self.cycles,
            may_sync,
            awaited: &mut self.awaited,
            meta: &self.meta,
        });
        let (has_news, is_newly_synced) = (node.has_news(), node.is_newly_synced());
        self.nodes.put(id, node);
        match step {
            Step::Superseded => self.schedule.push(id, &self.graph),
            Step::Finished { .. } => {
                if self.schedule.finish(id) {
                    self.finished.push(id);
                }
                if has_news {
                    self.schedule_consumers(id, is_newly_synced);
                }
            }
        }
    }

    /// Whether everything is synced that a node was declared to wait for.
    fn may_sync(&self, id: NodeId) -> bool {
        let meta = self.meta.get(id.index()).and_then(Option::as_ref);
        let declared = meta.map_or(&[][..], |meta| &meta.declared);
        declared.iter().all(|node| self.nodes.is_synced(*node) != Some(false)) || planted::has(Bug::UndeclaredSync)
    }

    fn schedule_consumers(&mut self, id: NodeId, is_newly_synced: bool) {
        for consumer in self.graph.consumers(id) {
            self.schedule.push(*consumer, &self.graph);
        }
        let affected = self.deps.take_affected();
        for (consumer, input) in &affected {
            self.mark(*consumer, *input);
        }
        self.deps.reuse(affected);
        if is_newly_synced {
            // Whoever fetched from it was parked.
            for (consumer, input) in self.deps.inputs_of(id) {
                self.mark(consumer, input);
            }
        }
    }

    /// An input has to run.
    fn mark(&mut self, consumer: NodeId, input: u32) {
        if let Some(node) = self.nodes.get_mut(consumer) {
            node.mark(input);
            self.schedule.push(consumer, &self.graph);
        }
    }

    /// Shows this epoch to readers, then tells the handlers.
    fn publish(&mut self, unpinned: bool) {
        let Self {
            shared,
            epoch,
            nodes,
            finished,
            untold,
            gathers,
            littered,
            ..
        } = self;
        let mut reclaimed = BTreeSet::new();
        {
            let mut pins = shared.pins.lock();
            for id in &*finished {
                if let Some(node) = nodes.get_mut(*id)
                    && node.publish(*epoch, &pins)
                {
                    pins.retain(*id);
                }
            }
            pins.publish(*epoch);
            if unpinned {
                reclaimed = pins.take_retaining();
                for id in &reclaimed {
                    if let Some(node) = nodes.get_mut(*id)
                        && node.reclaim(&pins)
                    {
                        pins.retain(*id);
                    }
                }
            }
        }
        littered.extend(reclaimed);
        let mut delivery = Delivery {
            pool: &shared.pool,
            gathers,
        };
        for id in finished.drain(..) {
            if let Some(node) = nodes.get_mut(id) {
                node.deliver(*epoch, &mut delivery);
                node.release(id, &shared.ingress);
                littered.push(id);
                if node.is_to_be_told() {
                    untold.insert(id);
                }
            }
        }
        self.flush(self.epoch);
    }

    /// Removes the edges that nothing holds any more, lets run again whom a cycle along them was refused, and ends the nodes that
    /// nobody reads any more.
    fn retire_edges(&mut self) {
        let removed = self.graph.remove_loose();
        for edge in removed.iter().filter(|_| !planted::has(Bug::RefusedForever)) {
            for (consumer, input) in self.cycles.along(*edge) {
                self.mark(consumer, input);
            }
        }
        for (_, source) in removed {
            self.remove_if_unused(source);
        }
    }

    /// The names along the cycles that are refused at present.
    pub(crate) fn cycles(&self) -> Vec<Vec<String>> {
        self.cycles.paths().map(|path| names(&self.meta, path)).collect()
    }

    pub(crate) fn deps(&self) -> &Deps {
        &self.deps
    }

    /// How many nodes there are.
    pub(crate) fn len(&self) -> usize {
        self.meta.iter().flatten().count()
    }

    /// How much there is in each table: what it holds, not what it may hold without growing.
    #[cfg(test)]
    pub(crate) fn tables(&self) -> Vec<(String, Vec<usize>)> {
        let nodes = self.meta.iter().flatten().zip(self.nodes.0.iter().flatten());
        let mut tables: Vec<_> = nodes
            .map(|(meta, node)| (meta.status.name.to_string(), node.live()))
            .collect();
        tables.push(("dependencies".into(), self.deps.sizes().into()));
        tables.push(("handlers".into(), vec![self.shared.live_handlers()]));
        tables.push(("refused".into(), vec![self.refused().count()]));
        tables.push(("written".into(), self.shared.ingress.write(|state| state.live())));
        tables
    }

    /// Checks everything that is to be true between epochs.
    #[cfg(test)]
    pub(crate) fn check_invariants(&self) {
        self.graph.check_invariants();
        self.deps.check_invariants(&self.graph);
        assert!(self.is_quiet() && self.finished.is_empty() && self.untold.is_empty());
        assert!(self.littered.is_empty());
        self.cycles.check_invariants();
        let is_there = |id: NodeId| self.meta.get(id.index()).is_some_and(Option::is_some);
        assert!(
            self.awaited
                .iter()
                .all(|one| is_there(one.consumer) && !is_there(one.source))
        );
        for (index, meta) in self.meta.iter().enumerate() {
            let node = self.nodes.0.get(index).and_then(Option::as_ref);
            assert_eq!(node.is_some(), meta.is_some());
            if let (Some(node), Some(meta)) = (node, meta) {
                let id = NodeId(id::id32(index));
                node.check_invariants(id, &self.deps, &self.shared.ingress);
                for source in &meta.sources {
                    assert!(self.graph.has_edge(id, *source), "{} lost its source", meta.status.name);
                }
            }
        }
    }
}

/// What the user calls these nodes.
fn names(meta: &[Option<Meta>], nodes: &[NodeId]) -> Vec<String> {
    let name = |node: &NodeId| {
        let meta = meta.get(node.index()).and_then(Option::as_ref);
        meta.map_or_else(|| format!("collection {}", node.0), |meta| meta.status.name.to_string())
    };
    nodes.iter().map(name).collect()
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self
            .meta
            .iter()
            .flatten()
            .map(|meta| (meta.status.uid, &meta.status.name));
        f.debug_struct("Engine")
            .field("epoch", &self.epoch)
            .field("nodes", &names.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
