//! Which nodes have something to do in this epoch, lowest first.

use super::graph::{Graph, Raised};
use super::id::NodeId;

#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// Invariant: each node once, with its present height; the lowest is the last. Few nodes have something to do in one epoch, and
    /// a list of them is used again in the next one.
    queue: Vec<(u32, NodeId)>,
    /// The height at which the walk is.
    height: u32,
    /// By node: the last epoch in which it finished.
    finished: Vec<u64>,
    epoch: u64,
}

impl Schedule {
    pub(crate) fn begin(&mut self, epoch: u64) {
        self.epoch = epoch;
        self.height = 0;
    }

    /// Where an entry is, or would be.
    fn find(&self, entry: (u32, NodeId)) -> Result<usize, usize> {
        self.queue.binary_search_by(|own| entry.cmp(own))
    }

    fn insert(&mut self, entry: (u32, NodeId)) {
        if let Err(place) = self.find(entry) {
            self.queue.insert(place, entry);
        }
    }

    /// Tells whether it was there.
    fn remove(&mut self, entry: (u32, NodeId)) -> bool {
        let found = self.find(entry);
        found.is_ok_and(|place| self.queue.remove(place) == entry)
    }

    /// Has a node run in this epoch.
    pub(crate) fn push(&mut self, node: NodeId, graph: &Graph) {
        self.insert((graph.height(node), node));
    }

    /// The lowest of the nodes that are to run.
    pub(crate) fn pop(&mut self) -> Option<NodeId> {
        let (height, node) = self.queue.pop()?;
        debug_assert!(height >= self.height, "a walk never goes down");
        self.height = height;
        Some(node)
    }

    /// Takes back what [`push`](Self::push) did.
    pub(crate) fn forget(&mut self, node: NodeId, graph: &Graph) {
        self.remove((graph.height(node), node));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Follows heights that were raised.
    pub(crate) fn follow(&mut self, raised: &[Raised]) {
        for Raised { node, from, to } in raised {
            if self.remove((*from, *node)) {
                self.insert((*to, *node));
            }
        }
    }

    /// Notes that a node has finished; tells whether it is for the first time in this epoch.
    pub(crate) fn finish(&mut self, node: NodeId) -> bool {
        if node.index() >= self.finished.len() {
            self.finished.resize(node.index() + 1, 0);
        }
        std::mem::replace(&mut self.finished[node.index()], self.epoch) != self.epoch
    }

    /// Whether a node's state is already what it will be at the end of this epoch: it has run, or nothing can make it
    /// run any more, because all that is as low as it and lower has.
    pub(crate) fn is_final(&self, node: NodeId, graph: &Graph) -> bool {
        let height = graph.height(node);
        self.finished.get(node.index()) == Some(&self.epoch)
            || (height <= self.height && self.find((height, node)).is_err())
    }
}
