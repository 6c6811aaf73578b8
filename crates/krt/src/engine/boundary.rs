//! Operations on the graph, which happen between epochs: nodes come and go, handlers and indexes are added.

use super::Engine;
use super::id::NodeId;
use super::ingress::{Edit, NodeInfo, Operation};
use super::node::Node;
use super::sink::Delivery;
use super::{Meta, panics};

impl Engine {
    /// Does what was asked for, in order, and what that leads to: a node that goes may be the last one to hold another.
    pub(super) fn operate(&mut self, operations: Vec<Operation>) {
        for operation in operations {
            match operation {
                Operation::Add(id, node, info) => self.add(id, node, info),
                Operation::Release(id) => {
                    if let Some(meta) = self.meta.get_mut(id.index()).and_then(Option::as_mut) {
                        meta.is_released = true;
                    }
                    self.remove_if_unused(id);
                }
                Operation::Stop(id) => self.stop(id),
                Operation::Edit(id, edit) => {
                    if let Some(node) = self.nodes.get_mut(id) {
                        let mut with = Edit {
                            epoch: self.epoch,
                            delivery: Delivery {
                                pool: &self.shared.pool,
                                gathers: &mut self.gathers,
                            },
                        };
                        edit(node.cell(), &mut with);
                    }
                }
            }
        }
        // What they were told is the state of the epoch before, which is still the published one.
        self.flush(self.epoch - 1);
    }

    /// Hands on what was gathered from several nodes.
    pub(super) fn flush(&mut self, epoch: u64) {
        for gather in self.gathers.drain(..) {
            gather.flush(epoch, &self.shared);
        }
    }

    fn add(&mut self, id: NodeId, node: Box<dyn Node>, info: NodeInfo) {
        self.nodes.put(id, node);
        if id.index() >= self.meta.len() {
            self.meta.resize_with(id.index() + 1, || None);
        }
        let mut declared = info.declared;
        declared.retain(|node| !info.sources.contains(node));
        let mut sources = info.sources;
        sources.extend(&declared);
        sources.sort_unstable();
        sources.dedup();
        for source in &sources {
            // A handle of a source comes from a node that is there or was added before, and nobody has an edge to a node that is not
            // there: so nothing can reach this one from it.
            let raised = self.graph.add_edge(id, *source);
            self.schedule.follow(&raised);
            self.graph.hold(id, *source);
        }
        self.meta[id.index()] = Some(Meta {
            status: info.status,
            sources,
            declared,
            is_released: false,
        });
        self.schedule.push(id, &self.graph);
        let awaited = self.awaited.extract_if(.., |one| one.source == id);
        for one in awaited.collect::<Vec<_>>() {
            self.mark(one.consumer, one.input);
        }
    }

    /// Gives back what a node holds in the engine; its content stays.
    fn stop(&mut self, id: NodeId) {
        let Some(mut node) = self.nodes.take(id) else { return };
        node.stop(&mut self.deps, &mut self.graph);
        self.nodes.put(id, node);
        self.cycles.forget(id);
        self.awaited.retain(|awaited| awaited.consumer != id);
        if let Some(status) = self.status(id) {
            status.set_stopped();
        }
        let meta = self.meta.get_mut(id.index()).and_then(Option::as_mut);
        let sources = meta.map(|meta| std::mem::take(&mut meta.sources)).unwrap_or_default();
        for source in sources {
            self.graph.release(id, source);
        }
        let buffer = self.shared.ingress.write(|state| state.remove_source(id));
        panics::drop_each([buffer]);
        // It may be synced by this, which is news.
        self.schedule.push(id, &self.graph);
    }

    /// Ends a node that has neither handles nor dependants.
    pub(super) fn remove_if_unused(&mut self, id: NodeId) {
        let meta = self.meta.get(id.index()).and_then(Option::as_ref);
        if !meta.is_some_and(|meta| meta.is_released) || !self.graph.consumers(id).is_empty() {
            return;
        }
        self.schedule.forget(id, &self.graph);
        self.stop(id);
        self.schedule.forget(id, &self.graph);
        // The number may be another node's only after the edges of this one are gone.
        self.retire_edges();
        self.graph.remove(id);
        self.meta[id.index()] = None;
        let node = self.nodes.take(id);
        panics::drop_each(node);
        let buffer = self.shared.ingress.write(|state| state.free(id));
        panics::drop_each([buffer]);
    }
}
