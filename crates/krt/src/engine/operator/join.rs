//! Several collections as one, the same ones for as long as it lives. What becomes of a key is the business of [`super::combine`].

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::super::node::{Operator, Run, Step};
use super::super::store::{Equal, Store};
use super::combine::{Combine, Combined};
use crate::collection::Collection;
use crate::shared::Counters;
use crate::traits::Keyed;

pub(crate) struct Join<T: Keyed> {
    members: Vec<Collection<T>>,
    /// A member's slot is its place.
    combined: Combined<T>,
    started: bool,
}

impl<T: Keyed> Join<T> {
    pub(crate) fn new(
        members: Vec<Collection<T>>,
        combine: Combine<T>,
        disjoint: Arc<AtomicBool>,
        equal: Equal<T>,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            members,
            combined: Combined::new(combine, equal, disjoint, counters),
            started: false,
        }
    }
}

impl<T: Keyed> Operator<T> for Join<T> {
    fn run(&mut self, store: &mut Store<T>, run: &mut Run<'_>) -> Step {
        let members = self.members.iter().map(|member| run.nodes.store::<T>(member.id()));
        let Some(members) = members.collect::<Option<Vec<_>>>() else {
            return Step::Finished { synced: self.started };
        };
        if !self.started && !members.iter().all(|member| member.synced) {
            return Step::Finished { synced: false };
        }
        for (slot, member) in (0..).zip(&members) {
            if self.started {
                for change in &member.delta {
                    match change.new {
                        Some(_) => self.combined.set(store, (slot, change.id), member),
                        None => self.combined.remove(store, (slot, change.id), member),
                    }
                }
            } else {
                for (id, _) in member.iter() {
                    self.combined.set(store, (slot, id), member);
                }
            }
        }
        self.started = true;
        let object = |(slot, id): (u32, u32)| members[slot as usize].get(id);
        self.combined.decide(store, object, |one, other| one.cmp(&other));
        Step::Finished { synced: true }
    }

    #[cfg(test)]
    fn check_invariants(&self, store: &Store<T>) {
        self.combined.check_invariants(store);
    }
}
