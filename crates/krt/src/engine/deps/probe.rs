//! Whom a change of an object concerns.
//!
//! A dependency on the objects is concerned if it matched the old or matches the new one; one on whether there are any, if exactly
//! one of both; one on a projection, if exactly one, or both and the projections differ. Nothing else holds a run back.

use smallvec::SmallVec;

use super::super::graph::Graph;
use super::super::id::NodeId;
use super::super::key_ids::KeyOf;
use super::super::panics;
use super::super::planted::{self, Bug};
use super::labels::Atom;
use super::rows::{Inner, Kind, Readers, SCOPES, Scope, index_value};
use super::{DepId, Deps};
use crate::query::Mode;
use crate::selector::{Demand, SelectorRef};
use crate::spec::{IndexAt, Spec};

/// An object before or after a change.
pub(crate) struct Probe<'a, T> {
    pub(crate) object: Option<&'a T>,
    /// (index, value)
    pub(crate) values: &'a [(u32, u32)],
}

impl<'a, T: 'static> Probe<'a, T> {
    /// The object, if there is one and it matches.
    fn matched(&self, spec: &Spec<T>, key: KeyOf<'_>) -> Option<&'a T> {
        let object = self.object?;
        let has_value = |at: &IndexAt<T>| self.values.contains(&(at.number, at.id));
        spec.matches(|keys| key.is_one_of(keys), object, has_value)
            .then_some(object)
    }
}

impl Deps {
    /// Marks the inputs that a change concerns, forgets the memos that it outdates, and brings what is known of the source's objects
    /// in line.
    pub(crate) fn probe<T: Send + Sync + 'static>(
        &mut self,
        source: NodeId,
        graph: &mut Graph,
        key: KeyOf<'_>,
        old: &Probe<'_, T>,
        new: &Probe<'_, T>,
    ) {
        if !self.is_fetched(source) {
            return;
        }
        let last = self.repost(source, graph, key.id, old.object, new.object);
        self.look_into(source, key, old, new);
        if !last.is_empty() {
            self.retire_selector::<T>(source, graph, &last);
        }
    }

    fn look_into<T: Send + Sync + 'static>(
        &mut self,
        source: NodeId,
        key: KeyOf<'_>,
        old: &Probe<'_, T>,
        new: &Probe<'_, T>,
    ) {
        self.looks += 1;
        let mut found: SmallVec<[DepId; 16]> = SmallVec::new();
        let is_alike = panics::contain(|| self.is_alike(source, old, new)).unwrap_or(false);
        for side in [old, new].into_iter().skip(usize::from(is_alike)) {
            if let Some(object) = side.object {
                // A panic while it is read: whoever may be concerned is.
                let start = found.len();
                if panics::contain(|| self.candidates(source, key, object, side.values, &mut found)).is_err() {
                    found.truncate(start);
                    self.everybody(source, &mut found);
                }
            }
        }
        for id in found {
            let Some(dep) = self.slots[id as usize].as_mut() else {
                continue;
            };
            if dep.source != source || dep.seen == self.looks {
                continue;
            }
            dep.seen = self.looks;
            self.counters.asked += 1;
            let concerned = panics::contain(|| {
                let spec: &Spec<T> = dep.spec.of()?;
                Some(is_concerned(spec, key, old, new))
            });
            if !matches!(concerned, Ok(Some(false))) {
                self.counters.concerned += 1;
                let is_forgotten =
                    planted::has(Bug::StaleMemo) || (planted::has(Bug::SupersededMemo) && dep.links.is_empty());
                if !is_forgotten {
                    panics::drop_each([dep.memo.take()]);
                }
                let consumer = dep.consumer;
                let inputs = dep
                    .links
                    .iter()
                    .map(|link| (consumer, self.links[*link as usize].input));
                self.affected.extend(inputs);
            }
        }
    }

    /// Whether an object before and after a change is to be found in the same rows.
    fn is_alike<T: 'static>(&self, source: NodeId, old: &Probe<'_, T>, new: &Probe<'_, T>) -> bool {
        let (Some(before), Some(after)) = (old.object, new.object) else {
            return false;
        };
        let rows = &self.sources[&source];
        let Some(readers) = rows.readers.downcast_ref::<Readers<T>>() else {
            return false;
        };
        old.values == new.values
            && readers.namespace.is_none_or(|read| read(before) == read(after))
            && readers.name.is_none_or(|read| read(before) == read(after))
            && readers.labels.is_none_or(|read| read(before) == read(after))
            && readers.selector.is_none_or(|read| read(before) == read(after))
    }

    /// The dependencies in the rows of one object.
    fn candidates<T: 'static>(
        &self,
        source: NodeId,
        key: KeyOf<'_>,
        object: &T,
        values: &[(u32, u32)],
        found: &mut SmallVec<[DepId; 16]>,
    ) {
        let rows = &self.sources[&source];
        let Some(readers) = rows.readers.downcast_ref::<Readers<T>>() else {
            return;
        };
        for scope in SCOPES.into_iter().filter(|scope| rows.has_scope(*scope)) {
            if scope == Scope::Any && planted::has(Bug::NoAnyRow) {
                continue;
            }
            let atoms: SmallVec<[u64; 2]> = match scope {
                Scope::Key => key.hash().into_iter().collect(),
                Scope::Index => values
                    .iter()
                    .map(|(number, value)| index_value(*number, *value))
                    .collect(),
                Scope::Namespace => {
                    let namespace = readers.namespace.map(|read| self.hashing.of(read(object)));
                    namespace.into_iter().collect()
                }
                Scope::Any => SmallVec::from_iter([0]),
            };
            for atom in atoms {
                if rows.has(scope, Inner::Any) {
                    let kind = Kind {
                        scope,
                        inner: Inner::Any,
                    };
                    self.look(source, kind, atom, 0, found);
                }
                if rows.has(scope, Inner::Label)
                    && let Some(read) = readers.labels
                {
                    let kind = Kind {
                        scope,
                        inner: Inner::Label,
                    };
                    for (key, value) in read(object) {
                        self.look(source, kind, atom, self.pair(key, value), found);
                    }
                }
                if rows.has(scope, Inner::Selecting)
                    && let Some(read) = readers.selector
                {
                    let kind = Kind {
                        scope,
                        inner: Inner::Selecting,
                    };
                    self.selected(source, kind, atom, &read(object), found);
                }
                if rows.has(scope, Inner::Name)
                    && let Some(read) = readers.name
                {
                    let kind = Kind {
                        scope,
                        inner: Inner::Name,
                    };
                    self.look(source, kind, atom, self.hashing.of(read(object)), found);
                }
            }
        }
    }

    /// The dependencies in the rows for selectors that this selector may match. A selector of the source that looks at something was
    /// made known before, so that each dependency whose labels have it is in the row of it.
    fn selected(
        &self,
        source: NodeId,
        kind: Kind,
        scope: u64,
        selector: &SelectorRef<'_>,
        found: &mut SmallVec<[DepId; 16]>,
    ) {
        let row = |key: &str, value: Option<&str>| {
            let atom = self.labels.find(key, value).map(Atom::number)?;
            self.rows.get(&self.row(source, kind, scope, atom))
        };
        match selector.demand() {
            Demand::Never => {}
            Demand::Any if planted::has(Bug::EmptySelector) => {}
            Demand::Any => self.look(source, kind, scope, Self::NO_PAIR, found),
            Demand::Key(key) => found.extend(row(key, None).into_iter().flatten().copied()),
            Demand::OneOf(key, values) => {
                let rows = values.iter().filter_map(|value| row(key, Some(value)));
                found.extend(rows.flatten().copied());
            }
            Demand::All(wanted) => {
                // Who matches has all of these pairs: the shortest row has everybody.
                let rows = wanted.iter().map(|(key, value)| row(key, Some(value)));
                let shortest = rows.min_by_key(|row| row.map_or(0, Vec::len));
                found.extend(shortest.flatten().into_iter().flatten().copied());
            }
        }
    }

    fn look(&self, source: NodeId, kind: Kind, scope: u64, inner: u64, found: &mut SmallVec<[DepId; 16]>) {
        let row = self.row(source, kind, scope, inner);
        found.extend(self.rows.get(&row).into_iter().flatten().copied());
    }

    fn everybody(&self, source: NodeId, found: &mut SmallVec<[DepId; 16]>) {
        let all = (0..).zip(&self.slots);
        found.extend(all.filter_map(|(id, dep)| dep.as_ref().filter(|dep| dep.source == source).map(|_| id)));
    }
}

fn is_concerned<T: 'static>(spec: &Spec<T>, key: KeyOf<'_>, old: &Probe<'_, T>, new: &Probe<'_, T>) -> bool {
    let (mut old, mut new) = (old.matched(spec, key), new.matched(spec, key));
    if planted::has(Bug::ProbeOldOnly) {
        new = None;
    }
    if planted::has(Bug::ProbeNewOnly) {
        old = None;
    }
    match &spec.mode {
        Mode::Objects => old.is_some() || new.is_some(),
        Mode::Exists => old.is_some() != new.is_some(),
        Mode::Projection(_, differ) => match (old, new) {
            (Some(old), Some(new)) => differ.differ(old, new),
            (old, new) => old.is_some() != new.is_some() && !planted::has(Bug::ProjectionFirst),
        },
    }
}
