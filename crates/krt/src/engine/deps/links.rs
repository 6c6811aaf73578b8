//! The links between inputs and dependencies.
//!
//! An input has its links as a chain, in the order in which it fetched; its consumer keeps the first of them. A dependency has its
//! links in a list without order.

use super::super::by_id;
use super::super::graph::Graph;
use super::super::id::{NodeId, id32};
use super::super::planted::{self, Bug};
use super::labels::{NO_SET, SetId};
use super::{DepId, Deps};

/// The end of a chain, and the chain of an input without dependencies.
pub(crate) const NO_LINK: u32 = u32::MAX;

pub(super) struct Link {
    pub(super) dep: DepId,
    pub(super) input: u32,
    /// The place in the dependency's list.
    pub(super) position: u32,
    /// The next link of the same input.
    pub(super) next: u32,
    /// The labels that the input asked with, of which the dependency knows only those that matter.
    pub(super) set: SetId,
    /// The place in the set's list.
    pub(super) set_place: u32,
}

/// What a run asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) dep: DepId,
    /// The labels it asked with.
    pub(crate) set: SetId,
}

impl Deps {
    /// From now on the input depends on exactly these dependencies, each named once. `chain` is the input's first link, which
    /// changes.
    pub(crate) fn commit(&mut self, graph: &mut Graph, input: u32, chain: &mut u32, deps: &[Asked]) {
        if !self.is_chain(*chain, deps) {
            // The new ones first: a dependency that stays is not to lose its last input in between.
            let mut old = std::mem::replace(chain, NO_LINK);
            if planted::has(Bug::KeptDependencies) {
                std::mem::swap(&mut old, chain);
            }
            for dep in deps.iter().rev() {
                *chain = self.link(graph, *dep, input, *chain);
            }
            self.unlink(graph, old);
        }
        self.drop_fresh();
    }

    fn is_chain(&self, mut chain: u32, deps: &[Asked]) -> bool {
        for asked in deps {
            match self.links.get(chain as usize) {
                Some(link) if (link.dep, link.set) == (asked.dep, asked.set) => chain = link.next,
                _ => return false,
            }
        }
        chain == NO_LINK
    }

    fn link(&mut self, graph: &mut Graph, asked: Asked, input: u32, next: u32) -> u32 {
        let id = self.free_links.pop();
        let id = id.unwrap_or_else(|| id32(self.links.len()));
        let Asked { dep, set } = asked;
        let set_place = if set == NO_SET { 0 } else { self.labels.link(set, id) };
        let own = self.dep_mut(dep);
        let link = Link {
            dep,
            input,
            position: by_id::push(&mut own.links, id),
            next,
            set,
            set_place,
        };
        if own.links.len() == 1 {
            let (consumer, source) = (own.consumer, own.source);
            graph.hold(consumer, source);
        }
        match self.links.get_mut(id as usize) {
            Some(place) => *place = link,
            None => {
                by_id::push(&mut self.links, link);
            }
        }
        id
    }

    fn unlink(&mut self, graph: &mut Graph, mut chain: u32) {
        while chain != NO_LINK {
            let Link {
                dep,
                position,
                next,
                set,
                set_place,
                ..
            } = self.links[chain as usize];
            if set != NO_SET
                && let Some(moved) = self.labels.unlink(set, set_place)
            {
                self.links[moved as usize].set_place = set_place;
            }
            self.free_links.push(chain);
            self.take_from(graph, dep, position);
            chain = next;
        }
    }

    /// Takes a link out of its dependency's list; forgets the dependency if it was the last one.
    pub(super) fn take_from(&mut self, graph: &mut Graph, dep: DepId, position: u32) {
        let own = self.slots[dep as usize].as_mut().expect("a link has its dependency");
        own.links.swap_remove(position as usize);
        if let Some(moved) = own.links.get(position as usize) {
            self.links[*moved as usize].position = position;
        }
        if own.links.is_empty() {
            let (consumer, source) = (own.consumer, own.source);
            graph.release(consumer, source);
            self.remove(dep);
        }
    }

    /// The source of a dependency.
    pub(crate) fn source(&self, dep: DepId) -> NodeId {
        self.dep(dep).source
    }
}
