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
//! | tell handlers | `handler`, run by `pool` |

mod boundary;
pub(crate) mod deps;
pub(crate) mod graph;
pub(crate) mod handler;
pub(crate) mod id;
pub(crate) mod index;
pub(crate) mod ingress;
pub(crate) mod inside;
pub(crate) mod node;
pub(crate) mod operator;
pub(crate) mod panics;
pub(crate) mod pins;
pub(crate) mod planted;
pub(crate) mod pool;
pub(crate) mod progress;
pub(crate) mod published;
pub(crate) mod schedule;
pub(crate) mod store;

use std::collections::BTreeSet;
use std::sync::Arc;

use deps::Deps;
use graph::Graph;
use id::NodeId;
use ingress::Cut;
use node::{Awaited, Node, Refused, Run, Step};
use schedule::Schedule;
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

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Box<dyn Node>> {
        self.0.iter_mut().flatten()
    }
}

/// What the engine knows of a node beside the node itself.
struct Meta {
    name: Arc<str>,
    uid: u64,
    /// What it reads for as long as it lives.
    sources: Vec<NodeId>,
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
    refused: Vec<Refused>,
    /// Invariant: between epochs, about nodes that the ingress is about to add.
    awaited: Vec<Awaited>,
    /// The nodes that finished in this epoch, and may have something to publish.
    finished: BTreeSet<NodeId>,
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
            refused: Vec::new(),
            awaited: Vec::new(),
            finished: BTreeSet::new(),
            shared,
        }
    }

    /// Applies everything that is pending; tells whether there was anything.
    pub(crate) fn step(&mut self) -> bool {
        let cut = self.shared.ingress.take();
        if cut.is_empty() {
            return false;
        }
        self.apply(cut);
        true
    }

    /// Applies a cut, and what follows from it in later epochs.
    pub(crate) fn apply(&mut self, cut: Cut) {
        let _inside = inside::enter();
        let written = cut.written;
        self.epoch(cut);
        // An edge that went may allow what was refused because of it.
        while !self.schedule.is_empty() {
            self.epoch(Cut::default());
        }
        self.shared.set_applied(written, self.epoch);
    }

    fn epoch(&mut self, cut: Cut) {
        self.epoch += 1;
        self.schedule.begin(self.epoch);
        self.operate(cut.operations);
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
    }

    /// Has one node do its part in this epoch, and schedules those whom it concerns.
    fn run(&mut self, id: NodeId) {
        let Some(mut node) = self.nodes.take(id) else { return };
        let step = node.run(&mut Run {
            epoch: self.epoch,
            node: id,
            shared: &self.shared,
            nodes: &self.nodes,
            graph: &mut self.graph,
            schedule: &mut self.schedule,
            deps: &mut self.deps,
            refused: &mut self.refused,
            awaited: &mut self.awaited,
            meta: &self.meta,
        });
        let (has_news, is_newly_synced) = (node.has_news(), node.is_newly_synced());
        self.nodes.put(id, node);
        match step {
            Step::Superseded => self.schedule.push(id, &self.graph),
            Step::Finished { .. } => {
                self.schedule.finish(id);
                self.finished.insert(id);
                if has_news {
                    self.schedule_consumers(id, is_newly_synced);
                }
            }
        }
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
        let shared = Arc::clone(&self.shared);
        let finished = std::mem::take(&mut self.finished);
        {
            let mut pins = shared.pins.lock();
            for id in &finished {
                if let Some(node) = self.nodes.get_mut(*id) {
                    node.publish(self.epoch, &pins);
                }
            }
            pins.publish(self.epoch);
            if unpinned {
                self.nodes.iter_mut().for_each(|node| node.reclaim(&pins));
            }
        }
        if unpinned {
            self.nodes.iter_mut().for_each(|node| node.drop_values());
        }
        for id in &finished {
            if let Some(node) = self.nodes.get_mut(*id) {
                node.deliver(self.epoch, &shared.pool);
            }
        }
    }

    /// Removes the edges that nothing holds any more, lets run again whom a cycle along them was refused, and ends the nodes that
    /// nobody reads any more.
    fn retire_edges(&mut self) {
        let removed = self.graph.remove_loose();
        for edge in &removed {
            let is_on = |refused: &&Refused| refused.path.windows(2).any(|pair| (pair[0], pair[1]) == *edge);
            let free: Vec<_> = self
                .refused
                .iter()
                .filter(is_on)
                .map(|one| (one.consumer, one.input))
                .collect();
            for (consumer, input) in free {
                self.mark(consumer, input);
            }
        }
        for (_, source) in removed {
            self.remove_if_unused(source);
        }
    }

    /// The names along the cycles that are refused at present.
    pub(crate) fn cycles(&self) -> Vec<Vec<String>> {
        let paths = self.refused.iter().map(|refused| names(&self.meta, &refused.path));
        paths.collect()
    }

    pub(crate) fn deps(&self) -> &Deps {
        &self.deps
    }

    /// How many nodes there are.
    pub(crate) fn len(&self) -> usize {
        self.meta.iter().flatten().count()
    }

    /// Checks everything that is to be true between epochs.
    #[cfg(test)]
    pub(crate) fn check_invariants(&self) {
        self.graph.check_invariants();
        self.deps.check_invariants(&self.graph);
        assert!(self.schedule.is_empty() && self.finished.is_empty());
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
                node.check_invariants();
                let id = NodeId(id::id32(index));
                for source in &meta.sources {
                    assert!(self.graph.has_edge(id, *source), "{} lost its source", meta.name);
                }
            }
        }
    }
}

/// What the user calls these nodes.
fn names(meta: &[Option<Meta>], nodes: &[NodeId]) -> Vec<String> {
    let name = |node: &NodeId| {
        let meta = meta.get(node.index()).and_then(Option::as_ref);
        meta.map_or_else(|| format!("collection {}", node.0), |meta| meta.name.to_string())
    };
    nodes.iter().map(name).collect()
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.meta.iter().flatten().map(|meta| (meta.uid, &meta.name));
        f.debug_struct("Engine")
            .field("epoch", &self.epoch)
            .field("nodes", &names.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
