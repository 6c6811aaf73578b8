//! What the selectors of a collection look at, and the dependencies on whom they select.
//!
//! # Design
//!
//! Labels that are different for each object would make each dependency on "who selects me" one of its own. Yet most of them are
//! in no selector. So a dependency is known by its labels cut to what the selectors of the collection look at, which is counted. When a
//! selector looks at something that none did before, the inputs whose labels have it move to dependencies that tell them apart;
//! when the last one is gone that did, they move back. Nothing runs for that: what a moved input knows is what its new dependency
//! would give. The change itself is looked into when the inputs have moved apart, and before they move together.

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::super::by_id;
use super::super::graph::Graph;
use super::super::id::{NodeId, id32};
use super::super::panics;
use super::super::planted::{self, Bug};
use super::super::postings::{EVERYBODY, Postings};
use super::labels::{Atom, Cut, LabelSets, NO_SET, SetId};
use super::{DepId, Deps};
use crate::selector::{Demand, SelectorRef};
use crate::spec::Spec;

/// The selectors of one collection.
#[derive(Default)]
pub(super) struct Selectors {
    /// By object: what its selector looks at, which it holds.
    atoms: Vec<Atoms>,
    /// Invariant: how often each atom is in `atoms`; not zero.
    counts: HashMap<Atom, u32, foldhash::fast::RandomState>,
    /// By one thing that labels must have to be selected.
    pub(super) postings: Postings,
}

type Atoms = SmallVec<[Atom; 2]>;

impl Selectors {
    pub(super) fn matters(&self, atom: Atom) -> bool {
        self.counts.contains_key(&atom)
    }

    /// How many things the selectors look at.
    pub(super) fn len(&self) -> usize {
        self.counts.len()
    }

    /// Puts an object's selector in the place of its last one. Returns what no selector looked at before, and what the last one did,
    /// which counts until [`forget`](Self::forget).
    pub(super) fn replace(
        &mut self,
        labels: &mut LabelSets,
        id: u32,
        selector: Option<&SelectorRef<'_>>,
    ) -> (Atoms, Atoms) {
        let index = id as usize;
        by_id::lengthen(&mut self.atoms, index + 1, Atoms::new);
        let mut atoms = Atoms::new();
        let mut first = Atoms::new();
        if let Some(selector) = selector {
            selector.looks_at(|key, value| {
                let atom = labels.hold(key, value);
                atoms.push(atom);
                let count = self.counts.entry(atom).or_default();
                *count += 1;
                if *count == 1 {
                    first.push(atom);
                }
            });
        }
        let rows = selector.map(|selector| self.rows(labels, selector)).unwrap_or_default();
        self.postings.replace(id, &rows);
        (first, std::mem::replace(&mut self.atoms[index], atoms))
    }

    /// An object that cannot be read: it may select anybody.
    pub(super) fn replace_unread(&mut self, labels: &mut LabelSets, id: u32) -> Atoms {
        let (_, last) = self.replace(labels, id, None);
        self.postings.replace(id, &[EVERYBODY]);
        last
    }

    /// The rows in which an object is to be found.
    fn rows(&self, labels: &LabelSets, selector: &SelectorRef<'_>) -> SmallVec<[u64; 2]> {
        let row = |key: &str, value: Option<&str>| labels.find(key, value).map(Atom::number);
        match selector.demand() {
            Demand::Never => SmallVec::new(),
            Demand::Any => SmallVec::from_iter([EVERYBODY]),
            Demand::Key(key) => row(key, None).into_iter().collect(),
            Demand::OneOf(key, values) => values.iter().filter_map(|value| row(key, Some(value))).collect(),
            Demand::All(wanted) => {
                let rows = wanted.iter().filter_map(|(key, value)| row(key, Some(value)));
                let shortest = rows.min_by_key(|row| self.postings.row(*row).len());
                shortest.into_iter().collect()
            }
        }
    }

    /// What a selector looked at counts no more; returns what no selector looks at any more, which is still held.
    fn forget(&mut self, last: &[Atom]) -> Atoms {
        let mut gone = Atoms::new();
        for atom in last {
            if let Some(count) = self.counts.get_mut(atom) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(atom);
                    gone.push(*atom);
                }
            }
        }
        gone
    }

    /// Gives back what it holds.
    pub(super) fn release(self, labels: &mut LabelSets) {
        for atom in self.atoms.into_iter().flatten() {
            labels.release(atom);
        }
    }

    #[cfg(test)]
    pub(super) fn check_invariants(&self, objects: &std::collections::BTreeSet<u32>) {
        let mut counts: HashMap<Atom, u32, foldhash::fast::RandomState> = HashMap::default();
        for atom in self.atoms.iter().flatten() {
            *counts.entry(*atom).or_default() += 1;
        }
        assert_eq!(self.len(), counts.len());
        assert_eq!(self.counts, counts);
        self.postings.check_invariants(objects);
    }

    /// How often an atom is held.
    #[cfg(test)]
    pub(super) fn holds(&self, atom: Atom) -> u32 {
        self.counts.get(&atom).copied().unwrap_or(0)
    }

    /// Whether what is known of an object is what its selector says.
    #[cfg(test)]
    pub(super) fn knows(&self, labels: &LabelSets, id: u32, selector: &SelectorRef<'_>) -> bool {
        let mut atoms = Atoms::new();
        selector.looks_at(|key, value| atoms.extend(labels.find(key, value)));
        let rows = self.postings.rows_of(id);
        let is_there = match selector.demand() {
            // Which of the pairs it is depends on what was there when it came.
            Demand::All(_) => rows.len() == 1 && atoms.iter().any(|atom| atom.number() == rows[0]),
            _ => rows[..] == self.rows(labels, selector)[..],
        };
        self.atoms.get(id as usize).unwrap_or(&Atoms::new()) == &atoms && is_there
    }
}

impl Deps {
    /// A selector came or changed: inputs whose labels have what only it looks at move apart. Returns what to pass to
    /// [`retire_selector`](Self::retire_selector) when the change was looked into.
    pub(super) fn replace_selector<T: Send + Sync + 'static>(
        &mut self,
        source: NodeId,
        graph: &mut Graph,
        id: u32,
        selector: Option<&SelectorRef<'_>>,
    ) -> Atoms {
        let Some(selectors) = self.sources.get_mut(&source).and_then(|rows| rows.selectors.as_mut()) else {
            return Atoms::new();
        };
        let (first, last) = selectors.replace(&mut self.labels, id, selector);
        if !first.is_empty() && !planted::has(Bug::NotRekeyed) {
            self.rekey::<T>(source, graph, &first);
        }
        last
    }

    /// What a selector looked at is over: inputs that only it told apart move together.
    pub(super) fn retire_selector<T: Send + Sync + 'static>(
        &mut self,
        source: NodeId,
        graph: &mut Graph,
        last: &[Atom],
    ) {
        let selectors = self.sources.get_mut(&source).and_then(|rows| rows.selectors.as_mut());
        let gone = selectors.map(|selectors| selectors.forget(last)).unwrap_or_default();
        if !gone.is_empty() {
            self.rekey::<T>(source, graph, &gone);
        }
        for atom in last {
            self.labels.release(*atom);
        }
    }

    /// What of a set the selectors of a source look at.
    pub(super) fn cut(&self, source: NodeId, set: SetId) -> Cut {
        let selectors = self.sources.get(&source).and_then(|rows| rows.selectors.as_ref());
        let matters = |atom| selectors.is_some_and(|selectors| selectors.matters(atom));
        self.labels.cut(set, matters)
    }

    /// These atoms begin to matter, or cease to: moves the inputs that asked with labels that have them to the dependencies which are
    /// theirs now.
    fn rekey<T: Send + Sync + 'static>(&mut self, source: NodeId, graph: &mut Graph, atoms: &[Atom]) {
        for link in self.labels.links_with(atoms) {
            let (dep, set) = {
                let link = &self.links[link as usize];
                (link.dep, link.set)
            };
            if self.dep(dep).source != source {
                continue;
            }
            let cut = self.cut(source, set);
            if self.dep(dep).cut == cut {
                continue;
            }
            if let Some(to) = self.twin::<T>(dep, cut) {
                self.move_link(graph, link, to);
            }
        }
    }

    /// The dependency that differs from this one only in its cut.
    fn twin<T: Send + Sync + 'static>(&mut self, dep: DepId, cut: Cut) -> Option<DepId> {
        let own = self.dep(dep);
        let spec: &Spec<T> = own.spec.of()?;
        let (consumer, source, base) = (own.consumer, own.source, own.base);
        let hash = self.cut_hash(base, &cut);
        // Environments of closures are compared by the user's code. If that panics, the two stay apart.
        let is_twin = |other: &Spec<T>| panics::contain(|| other.is_twin(spec)).unwrap_or(false);
        let is = |id: &DepId| {
            let other = self.dep(*id);
            (other.consumer, other.source) == (consumer, source)
                && other.cut == cut
                && other.spec.of().is_some_and(is_twin)
        };
        let memo = own.memo.clone();
        let found = self.table.find(hash, is).copied();
        let to = if let Some(to) = found {
            to
        } else {
            let spec = spec.with_cut(self.labels.texts(&cut));
            self.insert(consumer, source, [base, hash], cut, spec)
        };
        let to_memo = &mut self.dep_mut(to).memo;
        if to_memo.is_none() {
            *to_memo = memo;
        }
        Some(to)
    }

    fn move_link(&mut self, graph: &mut Graph, link: u32, to: DepId) {
        let place = id32(self.dep(to).links.len());
        self.dep_mut(to).links.push(link);
        if place == 0 {
            let (consumer, source) = (self.dep(to).consumer, self.dep(to).source);
            graph.hold(consumer, source);
        }
        let own = &mut self.links[link as usize];
        debug_assert!(own.set != NO_SET);
        let (from, position) = (own.dep, own.position);
        own.dep = to;
        own.position = place;
        self.take_from(graph, from, position);
    }
}
