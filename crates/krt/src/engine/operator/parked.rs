//! The inputs of a derived collection that wait for what they fetched to be synced.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use smallvec::SmallVec;

use super::super::id::NodeId;

/// How many inputs are named to users.
const NAMED: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct Parked {
    inputs: BTreeMap<u32, Input>,
    /// Invariant: `inputs` the other way round.
    sources: BTreeMap<NodeId, BTreeSet<u32>>,
}

#[derive(Debug)]
struct Input {
    key: Arc<str>,
    /// What it waits for. Invariant: not empty.
    sources: SmallVec<[NodeId; 1]>,
}

impl Parked {
    pub(crate) fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// An input waits for these from now on. Precondition: there are some.
    pub(super) fn set(&mut self, input: u32, key: Arc<str>, sources: &[NodeId]) {
        self.remove(input);
        for source in sources {
            self.sources.entry(*source).or_default().insert(input);
        }
        let sources = SmallVec::from_slice(sources);
        self.inputs.insert(input, Input { key, sources });
    }

    /// An input waits for nothing.
    pub(super) fn remove(&mut self, input: u32) {
        // Nearly always nobody waits.
        if self.inputs.is_empty() {
            return;
        }
        let Some(old) = self.inputs.remove(&input) else { return };
        for source in old.sources {
            if let Some(inputs) = self.sources.get_mut(&source) {
                inputs.remove(&input);
                if inputs.is_empty() {
                    self.sources.remove(&source);
                }
            }
        }
    }

    /// Whether any input waits for this.
    pub(crate) fn is_for(&self, source: NodeId) -> bool {
        self.sources.contains_key(&source)
    }

    /// What is waited for, by how many inputs, and the keys of some of these.
    pub(crate) fn by_source(&self) -> impl Iterator<Item = (NodeId, usize, Vec<Arc<str>>)> {
        self.sources.iter().map(|(source, inputs)| {
            let named = inputs.iter().filter_map(|input| self.inputs.get(input));
            let keys = named.take(NAMED).map(|input| Arc::clone(&input.key));
            (*source, inputs.len(), keys.collect())
        })
    }

    #[cfg(test)]
    pub(super) fn check_invariants(&self) {
        for (input, Input { sources, .. }) in &self.inputs {
            assert!(!sources.is_empty());
            assert!(sources.iter().all(|source| self.sources[source].contains(input)));
        }
        let back: usize = self.sources.values().map(BTreeSet::len).sum();
        let there: usize = self.inputs.values().map(|input| input.sources.len()).sum();
        assert_eq!(back, there);
        assert!(self.sources.values().all(|inputs| !inputs.is_empty()));
    }
}
