//! The numbers that things have inside of an engine.

/// A collection inside of its engine: dense, so that tables are indexed by it. Used again once the node is gone and nothing refers to
/// it any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(pub(crate) u32);

impl NodeId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A count as one of the engine's 32-bit ids: four billion objects of one collection do not fit into memory.
pub(crate) fn id32(number: usize) -> u32 {
    u32::try_from(number).expect("fewer than 2^32 objects")
}
