//! What the inputs of a collection made for themselves: which of it is kept after a run.

use hashbrown::HashMap;

use super::super::panics;
use super::super::planted::{self, Bug};
use crate::scope::Child;

/// What becomes of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Its outputs are the input's from now on.
    Outputs,
    /// The input's outputs stay what they were.
    Kept,
    /// Nothing of it is used, and the input runs again.
    Superseded,
}

#[derive(Default)]
pub(super) struct Children {
    /// By input. Invariant: no list is empty.
    of: HashMap<u32, Vec<Child>, foldhash::fast::RandomState>,
}

impl Children {
    /// Lends an input's children to its run.
    pub(super) fn lend(&mut self, input: u32) -> Vec<Child> {
        // Nearly always there are none at all.
        let children = if self.of.is_empty() {
            None
        } else {
            self.of.remove(&input)
        };
        let mut children = children.unwrap_or_default();
        for child in &mut children {
            (child.is_new, child.is_asked) = (false, false);
        }
        children
    }

    /// Takes the children back from a run.
    pub(super) fn take_back(&mut self, input: u32, mut children: Vec<Child>, used: Use) {
        if children.is_empty() {
            return;
        }
        let dropped = children.extract_if(.., |child| match used {
            Use::Outputs => {
                child.is_kept = child.is_asked;
                !child.is_asked
            }
            Use::Kept => !child.is_asked && !child.is_kept,
            Use::Superseded => child.is_new && !planted::has(Bug::SupersededChild),
        });
        panics::drop_each(dropped.collect::<Vec<_>>());
        if !children.is_empty() {
            self.of.insert(input, children);
        }
    }

    /// The input went.
    pub(super) fn forget(&mut self, input: u32) {
        if !self.of.is_empty() {
            panics::drop_each(self.of.remove(&input).into_iter().flatten());
        }
    }
}
