//! Who depends on whom: edges between collections, their heights, and the cycles that are refused.
//!
//! # Design
//!
//! An edge goes from a consumer to a source that it reads. It is held by the consumer's inputs (for as long as the consumer
//! lives) and by dependencies (each counts one); it goes at the end of the epoch in which nothing holds it any more. A node is
//! higher than everything it has an edge to, so a walk by ascending height sees each node after all that it
//! reads. Heights never fall.

use std::collections::BTreeSet;

use super::id::NodeId;
use super::planted::{self, Bug};

#[derive(Debug, Default)]
struct Vertex {
    /// Invariant: greater than the height of each node in `sources`.
    height: u32,
    /// Whom this node reads, and how much holds the edge.
    sources: Vec<(NodeId, u32)>,
    /// Invariant: the nodes that have this one in `sources`, each once.
    consumers: Vec<NodeId>,
}

#[derive(Debug, Default)]
pub(crate) struct Graph {
    vertices: Vec<Vertex>,
    /// Edges that may have lost their last holder in this epoch. Invariant: all edges held by nothing are in it.
    loose: BTreeSet<(NodeId, NodeId)>,
}

/// A node whose height was raised.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Raised {
    pub(crate) node: NodeId,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

impl Graph {
    fn vertex(&mut self, node: NodeId) -> &mut Vertex {
        if node.index() >= self.vertices.len() {
            self.vertices.resize_with(node.index() + 1, Vertex::default);
        }
        &mut self.vertices[node.index()]
    }

    fn get(&self, node: NodeId) -> Option<&Vertex> {
        self.vertices.get(node.index())
    }

    pub(crate) fn height(&self, node: NodeId) -> u32 {
        self.get(node).map_or(0, |vertex| vertex.height)
    }

    pub(crate) fn sources(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let sources = self.get(node).map(|vertex| vertex.sources.as_slice());
        sources.unwrap_or_default().iter().map(|(source, _)| *source)
    }

    pub(crate) fn consumers(&self, node: NodeId) -> &[NodeId] {
        self.get(node).map_or(&[], |vertex| &vertex.consumers)
    }

    pub(crate) fn has_edge(&self, consumer: NodeId, source: NodeId) -> bool {
        self.sources(consumer).any(|own| own == source)
    }

    /// The way along which `source` reads `consumer`, if there is one: from `source` to `consumer`. An edge the other way
    /// round would close a cycle.
    pub(crate) fn path(&self, source: NodeId, consumer: NodeId) -> Option<Vec<NodeId>> {
        // Only what is at least as high as the one that is looked for can read it.
        let least = self.height(consumer);
        let mut seen = BTreeSet::from([source]);
        let mut path = vec![source];
        let mut rest = vec![self.sources(source).collect::<Vec<_>>()];
        if source == consumer {
            return Some(path);
        }
        while let Some(open) = rest.last_mut() {
            let Some(next) = open.pop() else {
                rest.pop();
                path.pop();
                continue;
            };
            if next == consumer {
                path.push(next);
                return Some(path);
            }
            if self.height(next) > least && seen.insert(next) {
                path.push(next);
                rest.push(self.sources(next).collect());
            }
        }
        None
    }

    /// Adds an edge that nothing holds yet; it stays until the end of the epoch at least. Tells who was raised. Precondition: it
    /// closes no cycle.
    pub(crate) fn add_edge(&mut self, consumer: NodeId, source: NodeId) -> Vec<Raised> {
        if self.has_edge(consumer, source) {
            return Vec::new();
        }
        self.vertex(consumer).sources.push((source, 0));
        self.vertex(source).consumers.push(consumer);
        self.loose.insert((consumer, source));
        let least = self.height(source) + 1;
        self.raise(consumer, least)
    }

    fn raise(&mut self, node: NodeId, least: u32) -> Vec<Raised> {
        let mut raised = Vec::new();
        let mut work = vec![(node, least)];
        while let Some((node, least)) = work.pop() {
            let vertex = self.vertex(node);
            if vertex.height >= least {
                continue;
            }
            raised.push(Raised {
                node,
                from: vertex.height,
                to: least,
            });
            vertex.height = least;
            work.extend(vertex.consumers.iter().map(|consumer| (*consumer, least + 1)));
        }
        raised
    }

    /// One more holder of an edge. Precondition: the edge is there.
    pub(crate) fn hold(&mut self, consumer: NodeId, source: NodeId) {
        let edge = self.vertex(consumer).sources.iter_mut().find(|(own, _)| *own == source);
        debug_assert!(edge.is_some(), "an edge is added before it is held");
        if let Some((_, holders)) = edge {
            *holders += 1;
        }
    }

    /// One holder less. Precondition: it held the edge.
    pub(crate) fn release(&mut self, consumer: NodeId, source: NodeId) {
        let edge = self.vertex(consumer).sources.iter_mut().find(|(own, _)| *own == source);
        if let Some((_, holders)) = edge {
            *holders -= 1;
            if *holders == 0 {
                self.loose.insert((consumer, source));
            }
        }
    }

    /// Removes the edges that nothing holds, and tells which: (consumer, source).
    pub(crate) fn remove_loose(&mut self) -> Vec<(NodeId, NodeId)> {
        let mut removed = Vec::new();
        if planted::has(Bug::KeptEdge) {
            self.loose.clear();
        }
        for (consumer, source) in std::mem::take(&mut self.loose) {
            let sources = &mut self.vertex(consumer).sources;
            let Some(at) = sources.iter().position(|edge| *edge == (source, 0)) else {
                continue;
            };
            sources.swap_remove(at);
            self.vertex(source).consumers.retain(|own| *own != consumer);
            removed.push((consumer, source));
        }
        removed
    }

    /// Forgets a node. Precondition: it has no edges, so its number may be another's.
    pub(crate) fn remove(&mut self, node: NodeId) {
        let vertex = self.vertex(node);
        debug_assert!(vertex.sources.is_empty() && vertex.consumers.is_empty());
        *vertex = Vertex::default();
    }

    #[cfg(test)]
    pub(crate) fn check_invariants(&self) {
        for (node, vertex) in (0..).map(NodeId).zip(&self.vertices) {
            for (source, holders) in &vertex.sources {
                assert!(vertex.height > self.height(*source), "{node:?} is not above {source:?}");
                let consumers = self.consumers(*source);
                assert_eq!(consumers.iter().filter(|own| **own == node).count(), 1);
                assert!(*holders > 0, "an edge without holders outlived its epoch");
            }
            for consumer in &vertex.consumers {
                assert!(self.has_edge(*consumer, node));
            }
        }
        assert!(self.loose.is_empty());
    }

    #[cfg(test)]
    pub(crate) fn holders(&self, consumer: NodeId, source: NodeId) -> u32 {
        let edges = self.get(consumer).map(|vertex| vertex.sources.as_slice());
        let edge = edges.unwrap_or_default().iter().find(|(own, _)| *own == source);
        edge.map_or(0, |(_, holders)| *holders)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes<const N: usize>() -> [NodeId; N] {
        std::array::from_fn(|number| NodeId(u32::try_from(number).unwrap()))
    }

    fn linked(graph: &mut Graph, consumer: NodeId, source: NodeId) {
        graph.add_edge(consumer, source);
        graph.hold(consumer, source);
    }

    #[test]
    fn a_new_edge_raises_everything_above_it() {
        let [low, middle, high, other] = nodes();
        let mut graph = Graph::default();
        linked(&mut graph, high, middle);
        linked(&mut graph, other, high);
        assert_eq!([low, middle, high, other].map(|node| graph.height(node)), [0, 0, 1, 2]);
        linked(&mut graph, middle, low);
        assert_eq!([low, middle, high, other].map(|node| graph.height(node)), [0, 1, 2, 3]);
        graph.remove_loose();
        graph.check_invariants();
    }

    #[test]
    fn an_edge_goes_when_its_last_holder_has_gone_and_the_epoch_ends() {
        let [source, consumer] = nodes();
        let mut graph = Graph::default();
        linked(&mut graph, consumer, source);
        graph.hold(consumer, source);
        graph.release(consumer, source);
        assert!(graph.remove_loose().is_empty());
        graph.release(consumer, source);
        assert!(graph.has_edge(consumer, source));
        graph.hold(consumer, source);
        assert!(graph.remove_loose().is_empty(), "held again before the epoch ended");
        graph.release(consumer, source);
        assert_eq!(graph.remove_loose(), [(consumer, source)]);
        assert!(!graph.has_edge(consumer, source));
        graph.check_invariants();
    }

    #[test]
    fn a_number_that_is_used_again_begins_at_the_bottom() {
        let [low, high, above] = nodes();
        let mut graph = Graph::default();
        linked(&mut graph, high, low);
        graph.release(high, low);
        graph.remove_loose();
        assert_eq!(graph.height(high), 1, "heights never fall");
        graph.remove(high);
        assert_eq!(graph.height(high), 0);
        linked(&mut graph, above, high);
        assert_eq!(graph.height(above), 1);
    }

    #[test]
    fn the_path_of_a_cycle_names_each_node_on_it() {
        let [one, two, three, apart] = nodes();
        let mut graph = Graph::default();
        linked(&mut graph, two, one);
        linked(&mut graph, three, two);
        linked(&mut graph, three, apart);
        // `one` wants to read `three`, which reads `one`.
        assert_eq!(graph.path(three, one), Some(vec![three, two, one]));
        assert_eq!(graph.path(apart, one), None);
        assert_eq!(graph.path(one, one), Some(vec![one]));
    }
}
