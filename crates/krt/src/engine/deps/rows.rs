//! Under which atoms a dependency is registered, so that a change finds it.

use std::any::Any;

use smallvec::{SmallVec, smallvec};

use super::super::by_id;
use super::super::id::NodeId;
use super::super::postings::Postings;
use super::labels::Atom;
use super::objects::{Facet, PLAIN, PerFacet};
use super::selectors::Selectors;
use super::{Dep, DepId, Deps};
use crate::key::KeyRef;
use crate::selector::SelectorRef;
use crate::spec::{Condition, Spec};
use crate::traits::Labels;

/// Where a dependency looks, as far as a row can tell. The numbers are places in tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Key,
    Index,
    Namespace,
    Any,
}

/// What it looks for there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inner {
    /// A label that each match has.
    Label,
    /// Something that the selector of a match may look at.
    Selecting,
    /// The name of each match.
    Name,
    Any,
}

pub(super) const SCOPES: [Scope; 4] = [Scope::Key, Scope::Index, Scope::Namespace, Scope::Any];
const INNERS: [Inner; 4] = [Inner::Label, Inner::Selecting, Inner::Name, Inner::Any];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) scope: Scope,
    pub(super) inner: Inner,
}

/// How the objects of a source are read, known once a dependency needs it.
pub(super) struct Readers<T> {
    pub(super) namespace: Option<fn(&T) -> &str>,
    pub(super) name: Option<fn(&T) -> &str>,
    pub(super) labels: Option<fn(&T) -> &Labels>,
    pub(super) selector: Option<fn(&T) -> SelectorRef<'_>>,
}

/// Which kinds of dependencies a source has, so that a change looks into no rows in vain; and its objects by what they filter by.
pub(super) struct SourceRows {
    /// Invariant: by scope and inner, how many dependencies there are.
    counts: [[u32; INNERS.len()]; SCOPES.len()],
    /// A `Readers<T>` of the source's `T`.
    pub(super) readers: Box<dyn Any + Send>,
    /// Invariant: how many dependencies filter by each facet.
    pub(super) facets: PerFacet,
    /// Invariant: `None` if nothing filters by the facet.
    pub(super) postings: [Option<Postings>; PLAIN.len()],
    /// Invariant: `Some` iff some dependency filters by selectors.
    pub(super) selectors: Option<Selectors>,
}

impl SourceRows {
    pub(super) fn new<T: 'static>() -> Self {
        Self {
            counts: Default::default(),
            readers: Box::new(Readers::<T> {
                namespace: None,
                name: None,
                labels: None,
                selector: None,
            }),
            facets: PerFacet::default(),
            postings: Default::default(),
            selectors: None,
        }
    }

    /// How many rows of objects there are.
    pub(super) fn objects_in_rows(&self) -> usize {
        let plain = self.postings.iter().flatten().map(Postings::len).sum::<usize>();
        let selectors = self.selectors.as_ref();
        plain + selectors.map_or(0, |selectors| selectors.postings.len() + selectors.len())
    }

    pub(super) fn has(&self, scope: Scope, inner: Inner) -> bool {
        self.counts[scope as usize][inner as usize] > 0
    }

    pub(super) fn has_scope(&self, scope: Scope) -> bool {
        self.counts[scope as usize].iter().any(|count| *count > 0)
    }

    #[cfg(test)]
    pub(super) fn check_invariants(&self, deps: impl Iterator<Item = (Kind, PerFacet)>) {
        let mut counts = [[0; INNERS.len()]; SCOPES.len()];
        let mut facets = PerFacet::default();
        for (kind, own) in deps {
            counts[kind.scope as usize][kind.inner as usize] += 1;
            for (count, more) in facets.iter_mut().zip(own) {
                *count += more;
            }
        }
        assert_eq!((self.counts, self.facets), (counts, facets));
        assert!(counts.iter().flatten().any(|count| *count > 0));
    }
}

impl Deps {
    /// A row's number. That two rows may have the same one is no harm: see [`super`].
    pub(super) fn row(&self, source: NodeId, kind: Kind, scope: u64, inner: u64) -> u64 {
        self.hashing
            .of(&(source.0, kind.scope as u8, kind.inner as u8, scope, inner))
    }

    pub(super) fn pair(&self, key: &str, value: &str) -> u64 {
        self.hashing.of(&(key, value))
    }

    /// Which of the rows for selectors is looked into for a selector that asks for nothing in particular.
    pub(super) const NO_PAIR: u64 = 0;

    /// Enters a new dependency into its rows: the narrowest scope, and inside of it the narrowest inner.
    pub(super) fn register<T: Send + Sync + 'static>(
        &mut self,
        id: DepId,
        source: NodeId,
        cut: &[Atom],
        spec: &Spec<T>,
    ) -> (Kind, SmallVec<[(u64, u32); 2]>) {
        let (scope, scopes) = self.scopes(spec);
        let (inner, inners) = self.inners(source, scope, &scopes, cut, spec);
        let kind = Kind { scope, inner };
        let mut rows: SmallVec<[(u64, u32); 2]> = SmallVec::new();
        for scope in &scopes {
            for inner in &inners {
                let row = self.row(source, kind, *scope, *inner);
                if rows.iter().any(|(own, _)| *own == row) {
                    continue;
                }
                let entries = self.rows.entry(row).or_default();
                rows.push((row, by_id::push(entries, id)));
            }
        }
        let own = self.sources.entry(source).or_insert_with(SourceRows::new::<T>);
        for (count, more) in own.facets.iter_mut().zip(Self::facets(spec)) {
            *count += more;
        }
        own.counts[scope as usize][inner as usize] += 1;
        if let Some(readers) = own.readers.downcast_mut::<Readers<T>>() {
            for condition in &spec.conditions {
                match condition {
                    Condition::Namespace(_, read) => readers.namespace = Some(*read),
                    Condition::Name(_, read) => readers.name = Some(*read),
                    Condition::Labels(_, read) => readers.labels = Some(*read),
                    Condition::Selecting(_, _, read) => readers.selector = Some(*read),
                    _ => {}
                }
            }
        }
        (kind, rows)
    }

    fn scopes<T: 'static>(&self, spec: &Spec<T>) -> (Scope, SmallVec<[u64; 1]>) {
        let mut best = (Scope::Any, smallvec![0]);
        for condition in &spec.conditions {
            match condition {
                Condition::Keys(keys) => {
                    let hashes = keys.iter().map(|key| self.hashing.key(KeyRef::Plain(key)));
                    return (Scope::Key, hashes.collect());
                }
                Condition::Index(at) => best = (Scope::Index, smallvec![index_value(at.number, at.id)]),
                Condition::Namespace(namespace, _) if best.0 == Scope::Any => {
                    best = (Scope::Namespace, smallvec![self.hashing.of(&**namespace)]);
                }
                _ => {}
            }
        }
        best
    }

    fn inners<T: 'static>(
        &self,
        source: NodeId,
        scope: Scope,
        scopes: &[u64],
        cut: &[Atom],
        spec: &Spec<T>,
    ) -> (Inner, SmallVec<[u64; 4]>) {
        let mut best = (Inner::Any, smallvec![0]);
        for condition in &spec.conditions {
            match condition {
                Condition::Name(name, _) => return (Inner::Name, smallvec![self.hashing.of(&**name)]),
                Condition::Selecting(..) => {
                    let atoms = cut.iter().copied().map(Atom::number);
                    best = (Inner::Selecting, std::iter::once(Self::NO_PAIR).chain(atoms).collect());
                }
                Condition::Labels(labels, _) if !labels.is_empty() && best.0 == Inner::Any => {
                    // The pair of which there are the fewest.
                    let kind = Kind {
                        scope,
                        inner: Inner::Label,
                    };
                    let size = |pair: &u64| {
                        let rows = scopes.iter().map(|scope| self.row(source, kind, *scope, *pair));
                        rows.map(|row| self.rows.get(&row).map_or(0, Vec::len)).sum::<usize>()
                    };
                    let pairs = labels.iter().map(|(key, value)| self.pair(key, value));
                    if let Some(rarest) = pairs.min_by_key(size) {
                        best = (Inner::Label, smallvec![rarest]);
                    }
                }
                _ => {}
            }
        }
        best
    }

    /// Takes a dependency out of its rows, and gives up what only it needed of the objects.
    pub(super) fn unregister(&mut self, dep: &Dep) {
        let Dep {
            source,
            kind,
            rows,
            facets,
            ..
        } = dep;
        for (row, place) in rows {
            let Some(entries) = self.rows.get_mut(row) else {
                continue;
            };
            entries.swap_remove(*place as usize);
            if let Some(moved) = entries.get(*place as usize) {
                let moved = self.slots[*moved as usize].as_mut().expect("a row has its dependency");
                if let Some((_, own)) = moved.rows.iter_mut().find(|(own, _)| own == row) {
                    *own = *place;
                }
            } else if entries.is_empty() {
                self.rows.remove(row);
            }
        }
        let Some(own) = self.sources.get_mut(source) else {
            return;
        };
        own.counts[kind.scope as usize][kind.inner as usize] -= 1;
        for (count, less) in own.facets.iter_mut().zip(facets) {
            *count -= less;
        }
        self.give_up_unneeded(*source);
    }

    /// Forgets what no dependency needs to be known of a source.
    pub(super) fn give_up_unneeded(&mut self, source: NodeId) {
        let Some(own) = self.sources.get_mut(&source) else {
            return;
        };
        for (postings, count) in own.postings.iter_mut().zip(own.facets) {
            if count == 0 {
                *postings = None;
            }
        }
        if own.facets[Facet::Selector as usize] == 0
            && let Some(selectors) = own.selectors.take()
        {
            selectors.release(&mut self.labels);
        }
        if own.counts.iter().flatten().all(|count| *count == 0) {
            self.sources.remove(&source);
        }
    }
}

/// A value of an index as one number.
pub(super) fn index_value(number: u32, value: u32) -> u64 {
    u64::from(number) << 32 | u64::from(value)
}
