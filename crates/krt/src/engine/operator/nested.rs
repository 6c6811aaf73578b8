//! Several collections as one, which come and go: each object of a collection, the lender, lends one. What becomes of a key is the
//! business of [`super::combine`].
//!
//! # Design
//!
//! Each lender has a place, which is also the slot of its member. The current member of a place contributes; the next one waits until
//! it is synced, and then takes over in one epoch. The edges to both are held by this node: they go and come with the members. A
//! member that is not final yet sends the node up, like any new edge; one that is not added yet, because it was made in this
//! epoch, is tried again when it is; one that would close a cycle is tried again when an edge of that cycle goes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::super::deps::Deps;
use super::super::graph::Graph;
use super::super::id::NodeId;
use super::super::node::{Awaited, Operator, Run, Step};
use super::super::panics;
use super::super::planted::{self, Bug};
use super::super::store::{Equal, Store};
use super::combine::{Combine, Combined};
use crate::collection::Collection;
use crate::shared::Counters;
use crate::traits::Keyed;

/// A member that is to take over.
struct Next<T: Keyed> {
    member: Collection<T>,
    link: Link,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    /// There is no edge to it yet.
    Missing,
    /// The edge to it is held.
    Held,
    /// The edge to it would close a cycle.
    Refused,
}

/// A lender, and what it has lent.
struct Place<T: Keyed> {
    key: Arc<str>,
    /// The member that contributes. Invariant: the edge to it is held; there is none before the join is synced.
    current: Option<Collection<T>>,
    next: Option<Next<T>>,
    /// The sync of the join waits for it.
    is_initial: bool,
    /// The lender went in this epoch. Invariant: false between epochs.
    is_gone: bool,
}

pub(crate) struct Nested<C: Keyed, T: Keyed> {
    lenders: Collection<C>,
    lend: fn(&C) -> &Collection<T>,
    /// By the lender's id.
    places: Vec<Option<Place<T>>>,
    /// The places with a next member, and those of lenders that went. Invariant: between epochs, all that have a next member.
    open: BTreeSet<u32>,
    combined: Combined<T>,
    /// Whether the lenders were synced, so that they are followed.
    started: bool,
    synced: bool,
    /// The last epoch whose changes of the lenders were taken.
    taken: u64,
    /// This node. Invariant: known if an edge is held.
    node: Option<NodeId>,
    counters: Arc<Counters>,
}

impl<C: Keyed, T: Keyed> Nested<C, T> {
    pub(crate) fn new(
        lenders: Collection<C>,
        lend: fn(&C) -> &Collection<T>,
        combine: Combine<T>,
        equal: Equal<T>,
        counters: Arc<Counters>,
    ) -> Self {
        let disjoint = Arc::new(AtomicBool::new(false));
        Self {
            lenders,
            lend,
            places: Vec::new(),
            open: BTreeSet::new(),
            combined: Combined::new(combine, equal, disjoint, Arc::clone(&counters)),
            started: false,
            synced: false,
            taken: 0,
            node: None,
            counters,
        }
    }

    fn place(&mut self, id: u32) -> Option<&mut Place<T>> {
        self.places.get_mut(id as usize)?.as_mut()
    }

    /// Takes this epoch's changes of the lenders.
    fn take_lenders(&mut self, lenders: &Store<C>, run: &mut Run<'_>) {
        if self.started {
            for change in &lenders.delta {
                match &change.new {
                    Some(lender) => self.take(change.id, lenders, lender, run),
                    None => self.leave(change.id, run),
                }
            }
        } else {
            for (id, lender) in lenders.iter() {
                self.take(id, lenders, lender, run);
            }
        }
        self.started = true;
    }

    /// A lender came or changed.
    fn take(&mut self, id: u32, lenders: &Store<C>, lender: &Arc<C>, run: &mut Run<'_>) {
        let lent = panics::contain(|| {
            let member = (self.lend)(lender);
            assert!(
                member.is_of(run.shared),
                "collection {} belongs to another Krt",
                member.name()
            );
            member.clone()
        });
        let member = match lent {
            Ok(member) => member,
            Err(text) => {
                Counters::add(&self.counters.panics, 1);
                let key = lenders.keys().text(id);
                tracing::error!(collection = %self.counters.name, lender = key.as_deref(), panic = text, "a lender lends nothing: what it lent before stays");
                return;
            }
        };
        let Some(key) = lenders.keys().text(id) else { return };
        let index = id as usize;
        if index >= self.places.len() {
            self.places.resize_with(index + 1, || None);
        }
        let is_initial = !self.started;
        let place = self.places[index].get_or_insert_with(|| Place {
            key,
            current: None,
            next: None,
            is_initial,
            is_gone: false,
        });
        if place.next.as_ref().is_some_and(|next| next.member == member) {
            return;
        }
        let next = (place.current.as_ref() != Some(&member)).then_some(Next {
            member,
            link: Link::Missing,
        });
        if next.is_some() {
            self.open.insert(id);
        } else {
            self.open.remove(&id);
        }
        let before = std::mem::replace(&mut place.next, next);
        forget(before, id, run);
    }

    /// A lender went.
    fn leave(&mut self, id: u32, run: &mut Run<'_>) {
        let Some(place) = self.place(id) else { return };
        let next = place.next.take();
        if place.current.is_some() {
            place.is_gone = true;
            self.open.insert(id);
        } else {
            self.places[id as usize] = None;
            self.open.remove(&id);
        }
        forget(next, id, run);
    }

    /// Adds the edges to the members that have none yet.
    fn link(&mut self, run: &mut Run<'_>) -> Result<(), Superseded> {
        let mut superseded = false;
        for id in &self.open {
            let Some(place) = self.places[*id as usize].as_mut() else {
                continue;
            };
            let Some(next) = place.next.as_mut().filter(|next| next.link == Link::Missing) else {
                continue;
            };
            let member = next.member.id();
            run.cycles.allow(run.node, *id);
            if let Some(mut path) = run.graph.path(member, run.node) {
                path.insert(0, run.node);
                let names = super::super::names(run.meta, &path).join(" -> ");
                tracing::error!(collection = %self.counters.name, lender = %place.key, path = names, "a member would close a cycle");
                Counters::add(&self.counters.cycles, 1);
                next.link = Link::Refused;
                run.cycles.refuse(run.node, *id, &place.key, vec![path]);
            } else if run.nodes.store::<T>(member).is_none() {
                run.awaited.push(Awaited {
                    source: member,
                    consumer: run.node,
                    input: *id,
                });
            } else {
                let is_final = run.graph.has_edge(run.node, member) || run.schedule.is_final(member, run.graph);
                let raised = run.graph.add_edge(run.node, member);
                run.schedule.follow(&raised);
                run.graph.hold(run.node, member);
                next.link = Link::Held;
                superseded |= !is_final;
            }
        }
        if superseded { Err(Superseded) } else { Ok(()) }
    }

    /// Whether a member that the sync waits for is still to come.
    fn is_incomplete(&self, run: &Run<'_>) -> bool {
        self.open.iter().any(|id| {
            let place = self.places[*id as usize].as_ref();
            let place = place.filter(|place| place.is_initial);
            let next = place.and_then(|place| place.next.as_ref());
            next.is_some_and(|next| next.link != Link::Refused && !is_ready(next, run))
        })
    }

    /// Has the members that are ready take over, and combines what all of them have.
    fn apply(&mut self, store: &mut Store<T>, run: &mut Run<'_>) {
        let mut open = BTreeSet::new();
        let mut moved = BTreeSet::new();
        for id in std::mem::take(&mut self.open) {
            let Some(place) = self.places[id as usize].as_mut() else {
                continue;
            };
            let next = place.next.take_if(|next| is_ready(next, run));
            if place.next.is_some() {
                open.insert(id);
                if !planted::has(Bug::MemberLeavesEarly) {
                    continue;
                }
            }
            if let Some(old) = place.current.take() {
                self.combined.remove_all(store, id);
                run.graph.release(run.node, old.id());
                panics::drop_each([old]);
            }
            if let Some(Next { member, .. }) = next {
                if let Some(objects) = run.nodes.store::<T>(member.id()) {
                    for (object, _) in objects.iter() {
                        self.combined.set(store, (id, object), objects);
                    }
                }
                place.current = Some(member);
                moved.insert(id);
            } else if place.is_gone {
                self.places[id as usize] = None;
            }
        }
        self.open = open;
        let members: Vec<Option<&Store<T>>> = self
            .places
            .iter()
            .map(|place| {
                let member = place.as_ref()?.current.as_ref()?;
                run.nodes.store(member.id())
            })
            .collect();
        for (slot, member) in (0..).zip(&members) {
            let Some(member) = member.filter(|_| !moved.contains(&slot)) else {
                continue;
            };
            for change in &member.delta {
                match change.new {
                    Some(_) => self.combined.set(store, (slot, change.id), member),
                    None => self.combined.remove(store, (slot, change.id), member),
                }
            }
        }
        let key = |slot: u32| {
            let place = self.places[slot as usize].as_ref();
            place.map(|place| place.key.as_bytes())
        };
        self.combined.decide(
            store,
            |(slot, id)| members[slot as usize]?.get(id),
            |one, other| key(one).cmp(&key(other)),
        );
    }
}

/// A member is not final.
struct Superseded;

/// Whether a member can take over.
fn is_ready<T: Keyed>(next: &Next<T>, run: &Run<'_>) -> bool {
    let member = run.nodes.store::<T>(next.member.id());
    next.link == Link::Held && member.is_some_and(|member| member.synced || planted::has(Bug::MemberUnsynced))
}

/// A member does not become one.
fn forget<T: Keyed>(next: Option<Next<T>>, lender: u32, run: &mut Run<'_>) {
    if let Some(Next { member, link }) = &next {
        match link {
            Link::Missing => run
                .awaited
                .retain(|one| (one.consumer, one.input) != (run.node, lender)),
            Link::Held => run.graph.release(run.node, member.id()),
            Link::Refused => run.cycles.allow(run.node, lender),
        }
    }
    panics::drop_each(next);
}

impl<C: Keyed, T: Keyed> Operator<T> for Nested<C, T> {
    /// A member that was not there, or closed a cycle, may be linked now.
    fn mark(&mut self, lender: u32) {
        let next = self.place(lender).and_then(|place| place.next.as_mut());
        if let Some(next) = next.filter(|next| next.link == Link::Refused) {
            next.link = Link::Missing;
        }
    }

    fn run(&mut self, store: &mut Store<T>, run: &mut Run<'_>) -> Step {
        self.node = Some(run.node);
        let nodes = run.nodes;
        let Some(lenders) = nodes.store::<C>(self.lenders.id()) else {
            return Step::Finished { synced: self.synced };
        };
        if !self.started && !lenders.synced {
            return Step::Finished { synced: false };
        }
        if self.taken != run.epoch {
            self.taken = run.epoch;
            self.take_lenders(lenders, run);
        }
        if let Err(Superseded) = self.link(run) {
            return Step::Superseded;
        }
        if !self.synced && self.is_incomplete(run) {
            return Step::Finished { synced: false };
        }
        self.apply(store, run);
        self.synced = true;
        Step::Finished { synced: true }
    }

    fn members(&self) -> Vec<(NodeId, Arc<str>)> {
        let places = self.open.iter().filter_map(|id| self.places[*id as usize].as_ref());
        let waiting = places.filter_map(|place| {
            let next = place.next.as_ref().filter(|next| next.link != Link::Refused)?;
            Some((next.member.id(), Arc::clone(&place.key)))
        });
        waiting.collect()
    }

    fn end(&mut self, _deps: &mut Deps, graph: &mut Graph) {
        let Some(node) = self.node else { return };
        for place in self.places.iter().flatten() {
            let next = place.next.as_ref().filter(|next| next.link == Link::Held);
            let held = place.current.iter().chain(next.map(|next| &next.member));
            for member in held {
                graph.release(node, member.id());
            }
        }
    }

    #[cfg(test)]
    fn check_invariants(&self, store: &Store<T>) {
        self.combined.check_invariants(store);
        for (id, place) in (0..).zip(&self.places) {
            let Some(place) = place else { continue };
            assert_eq!(place.next.is_some(), self.open.contains(&id));
            assert!(!place.is_gone);
            assert!(self.synced || place.current.is_none());
        }
    }
}
