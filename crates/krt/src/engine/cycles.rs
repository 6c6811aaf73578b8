//! The edges that were refused because they would have closed a cycle.
//!
//! # Design
//!
//! Cycles are of collections, not of objects: an input may not fetch what is computed from its own collection, even if by another object. It
//! is refused for as long as the way along the cycle is there: whenever an edge goes, the inputs that were refused because of it
//! run again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::id::NodeId;
use crate::error::Error;

/// From a consumer to what it asked for, and on to the consumer again.
pub(crate) type Path = Vec<NodeId>;

/// The inputs that one path was refused to, with their keys.
type Inputs = BTreeMap<u32, Arc<str>>;

#[derive(Debug, Default)]
pub(crate) struct Cycles {
    /// By consumer. Invariant: no map in it is empty.
    refused: BTreeMap<NodeId, BTreeMap<Path, Inputs>>,
    /// The consumers about whom something changed since it was last told.
    changed: BTreeSet<NodeId>,
    /// Who was refused what since the present epoch began, also if it has been forgotten since.
    #[cfg(test)]
    pub(super) made: Vec<(NodeId, Arc<str>, Path)>,
}

impl Cycles {
    /// An input was refused these edges, by the way along each.
    pub(crate) fn refuse(&mut self, consumer: NodeId, input: u32, key: &Arc<str>, paths: Vec<Path>) {
        let refused = self.refused.entry(consumer).or_default();
        for path in paths {
            #[cfg(test)]
            self.made.push((consumer, Arc::clone(key), path.clone()));
            refused.entry(path).or_default().insert(input, Arc::clone(key));
        }
        self.changed.insert(consumer);
    }

    /// Forgets what was refused to an input.
    pub(crate) fn allow(&mut self, consumer: NodeId, input: u32) {
        let Some(refused) = self.refused.get_mut(&consumer) else {
            return;
        };
        refused.retain(|_, inputs| {
            inputs.remove(&input);
            !inputs.is_empty()
        });
        if refused.is_empty() {
            self.refused.remove(&consumer);
        }
        self.changed.insert(consumer);
    }

    /// Forgets what was refused to a node.
    pub(crate) fn forget(&mut self, consumer: NodeId) {
        if self.refused.remove(&consumer).is_some() {
            self.changed.insert(consumer);
        }
    }

    /// The inputs that were refused something because of this edge.
    pub(crate) fn along(&self, edge: (NodeId, NodeId)) -> Vec<(NodeId, u32)> {
        let is_on = |path: &Path| path.windows(2).any(|pair| (pair[0], pair[1]) == edge);
        let mut found = Vec::new();
        for (consumer, refused) in &self.refused {
            let paths = refused.iter().filter(|(path, _)| is_on(path));
            found.extend(paths.flat_map(|(_, inputs)| inputs.keys().map(|input| (*consumer, *input))));
        }
        found
    }

    pub(crate) fn take_changed(&mut self) -> BTreeSet<NodeId> {
        std::mem::take(&mut self.changed)
    }

    /// What is told of a node, one error for each path.
    pub(crate) fn errors(&self, consumer: NodeId, names: impl Fn(&[NodeId]) -> Vec<String>) -> Vec<Error> {
        let refused = self.refused.get(&consumer).into_iter().flatten();
        let errors = refused.filter_map(|(path, inputs)| {
            Some(Error::Cycle {
                path: names(path),
                input: inputs.values().next()?.to_string(),
                inputs: inputs.len(),
            })
        });
        errors.collect()
    }

    /// The paths that are refused at present.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.refused.values().flat_map(BTreeMap::keys)
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, &Arc<str>, &Path)> {
        self.refused.iter().flat_map(|(consumer, refused)| {
            let inputs = refused
                .iter()
                .flat_map(|(path, inputs)| inputs.values().map(move |key| (key, path)));
            inputs.map(|(key, path)| (*consumer, key, path))
        })
    }

    #[cfg(test)]
    pub(crate) fn check_invariants(&self) {
        assert!(self.changed.is_empty(), "everything is told at the end of an epoch");
        for (consumer, refused) in &self.refused {
            assert!(!refused.is_empty());
            for (path, inputs) in refused {
                assert!(!inputs.is_empty());
                assert_eq!((path.first(), path.last()), (Some(consumer), Some(consumer)));
            }
        }
    }
}
