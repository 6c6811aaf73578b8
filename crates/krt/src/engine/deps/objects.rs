//! Where the objects of a query are found, so that a fetch looks at few of them.
//!
//! # Design
//!
//! A collection has postings of its objects by namespace, by name, by label and by selector, each for as long as some dependency
//! filters by it: made when the first one does, and kept in line with each change from then on. A fetch that no memo
//! answers takes the filter that leaves the fewest objects, and looks at these.

use smallvec::SmallVec;

use super::super::graph::Graph;
use super::super::id::NodeId;
use super::super::panics;
use super::super::planted::{self, Bug};
use super::super::postings::{EVERYBODY, Postings};
use super::super::store::Store;
use super::labels::Atom;
use super::rows::Readers;
use super::selectors::Selectors;
use super::{DepId, Deps};
use crate::key::{Hashing, KeyRef};
use crate::spec::{Condition, Spec};

/// What objects are posted by. The numbers are places in tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Facet {
    Namespace,
    Name,
    Label,
    Selector,
}

/// The facets whose postings are alike; selectors have more to them.
pub(super) const PLAIN: [Facet; 3] = [Facet::Namespace, Facet::Name, Facet::Label];

/// A number for each facet.
pub(super) type PerFacet = [u32; PLAIN.len() + 1];

impl Facet {
    /// What a condition filters by, if there are postings of it.
    pub(super) fn of<T>(condition: &Condition<T>) -> Option<Self> {
        match condition {
            Condition::Namespace(..) => Some(Self::Namespace),
            Condition::Name(..) => Some(Self::Name),
            Condition::Labels(labels, _) if !labels.is_empty() => Some(Self::Label),
            Condition::Selecting(..) => Some(Self::Selector),
            Condition::Labels(..) | Condition::Keys(_) | Condition::Index(_) | Condition::Where(_) => None,
        }
    }
}

/// The rows of an object.
type Rows = SmallVec<[u64; 4]>;

impl<T> Readers<T> {
    #[cfg(test)]
    fn can_read(&self, facet: Facet) -> bool {
        match facet {
            Facet::Namespace => self.namespace.is_some(),
            Facet::Name => self.name.is_some(),
            Facet::Label => self.labels.is_some(),
            Facet::Selector => self.selector.is_some(),
        }
    }

    /// The rows of an object. One that cannot be read may be in any.
    fn rows(&self, facet: Facet, hashing: &Hashing, object: &T) -> Rows {
        let text = |read: Option<fn(&T) -> &str>| read.map(|read| hashing.of(read(object))).into_iter().collect();
        let rows = panics::contain(|| match facet {
            Facet::Namespace => text(self.namespace),
            Facet::Name => text(self.name),
            Facet::Label => {
                let labels = self.labels.into_iter().flat_map(|read| read(object));
                labels
                    .map(|(key, value)| hashing.of(&(key.as_str(), value.as_str())))
                    .collect()
            }
            Facet::Selector => Rows::new(),
        });
        rows.unwrap_or_else(|_| Rows::from_iter([EVERYBODY]))
    }
}

/// Where to look for the objects of a query.
enum Access<'a> {
    Keys(&'a [std::sync::Arc<str>]),
    Rows(SmallVec<[&'a [u32]; 4]>),
    All,
}

impl Access<'_> {
    fn size(&self) -> usize {
        match self {
            Access::Keys(keys) => keys.len(),
            Access::Rows(rows) => rows.iter().map(|row| row.len()).sum(),
            Access::All => usize::MAX,
        }
    }
}

impl Deps {
    /// The ids of the objects that a dependency matches, in the order of their keys.
    pub(crate) fn select<T: Send + Sync + 'static>(&mut self, dep: DepId, store: &Store<T>) -> Vec<u32> {
        self.post::<T>(dep, store);
        let (mut found, looked, is_scan) = self.look_up(dep, store);
        self.counters.looked += looked;
        self.counters.scans += u64::from(is_scan);
        if planted::has(Bug::OrderById) {
            found.sort_unstable();
        } else {
            store.keys().sort(&mut found);
        }
        // An object may be in several of the rows.
        found.dedup();
        found
    }

    /// The matches in no order, how many objects were looked at, and whether that is all of them.
    fn look_up<T: Send + Sync + 'static>(&self, dep: DepId, store: &Store<T>) -> (Vec<u32>, u64, bool) {
        let spec = self.spec::<T>(dep);
        let access = self.narrowest(dep, spec, store);
        let mut looked = 0;
        let mut look = |id: &u32| {
            looked += 1;
            store.is_match(*id, spec)
        };
        let found = match &access {
            Access::Keys(keys) => {
                let ids = keys
                    .iter()
                    .filter_map(|key| store.find(self.hashing.key(KeyRef::Plain(key)), key));
                ids.filter(|id| look(id)).collect()
            }
            Access::Rows(rows) => rows.iter().copied().flatten().copied().filter(|id| look(id)).collect(),
            Access::All => store.iter().map(|(id, _)| id).filter(|id| look(id)).collect(),
        };
        (found, looked, matches!(access, Access::All))
    }

    /// The smallest set of objects in which all matches are.
    fn narrowest<'a, T: Send + Sync + 'static>(
        &'a self,
        dep: DepId,
        spec: &'a Spec<T>,
        store: &'a Store<T>,
    ) -> Access<'a> {
        let own = self.dep(dep);
        let Some(source) = self.sources.get(&own.source) else {
            return Access::All;
        };
        let row_of = |facet: Facet, row: u64| {
            let postings = source.postings[facet as usize].as_ref()?;
            let rows = [postings.row(row), postings.row(EVERYBODY)];
            Some(Access::Rows(rows.into_iter().collect()))
        };
        let mut best = Access::All;
        // A dependency is cut to what its first selecting condition asks with.
        let mut is_cut = true;
        for condition in &spec.conditions {
            let access = match condition {
                Condition::Keys(keys) => return Access::Keys(keys),
                Condition::Index(at) => store.ids_of(at).map(|ids| Access::Rows(SmallVec::from_iter([ids]))),
                Condition::Namespace(text, _) => row_of(Facet::Namespace, self.hashing.of(&**text)),
                Condition::Name(text, _) => row_of(Facet::Name, self.hashing.of(&**text)),
                Condition::Labels(labels, _) => {
                    let pairs = labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
                    let rows = pairs.filter_map(|pair| row_of(Facet::Label, self.hashing.of(&pair)));
                    rows.min_by_key(Access::size)
                }
                Condition::Selecting(..) if std::mem::take(&mut is_cut) => source.selectors.as_ref().map(|selectors| {
                    let atoms = own.cut.iter().copied().map(Atom::number);
                    let rows = std::iter::once(EVERYBODY).chain(atoms);
                    Access::Rows(rows.map(|row| selectors.postings.row(row)).collect())
                }),
                Condition::Selecting(..) | Condition::Where(_) => None,
            };
            if let Some(access) = access
                && access.size() < best.size()
                && !planted::has(Bug::FullScan)
            {
                best = access;
            }
        }
        best
    }

    /// Posts the objects by what a dependency filters by, if they are not yet.
    fn post<T: Send + Sync + 'static>(&mut self, dep: DepId, store: &Store<T>) {
        let own = self.slots[dep as usize].as_ref().expect("a dependency that is asked");
        let spec = own.spec.of::<T>();
        let conditions = spec.map(|spec| &spec.conditions[..]).unwrap_or_default();
        if conditions.iter().any(|one| matches!(one, Condition::Keys(_))) {
            return;
        }
        let Some(source) = self.sources.get_mut(&own.source) else {
            return;
        };
        let Some(readers) = source.readers.downcast_ref::<Readers<T>>() else {
            return;
        };
        for facet in conditions.iter().filter_map(Facet::of) {
            if facet == Facet::Selector || source.postings[facet as usize].is_some() {
                continue;
            }
            let mut postings = Postings::default();
            for (id, object) in store.iter() {
                postings.replace(id, &readers.rows(facet, &self.hashing, object));
            }
            source.postings[facet as usize] = Some(postings);
        }
    }

    /// Makes sure that it is known what the selectors of a source look at.
    pub(super) fn know_selectors<T: Send + Sync + 'static>(
        &mut self,
        source: NodeId,
        read: fn(&T) -> crate::selector::SelectorRef<'_>,
        store: Option<&Store<T>>,
    ) {
        let rows = self
            .sources
            .entry(source)
            .or_insert_with(super::rows::SourceRows::new::<T>);
        if rows.selectors.is_some() {
            return;
        }
        let mut selectors = Selectors::default();
        for (id, object) in store.into_iter().flat_map(Store::iter) {
            match panics::contain(|| read(object)) {
                Ok(selector) => {
                    selectors.replace(&mut self.labels, id, Some(&selector));
                }
                Err(_) => {
                    selectors.replace_unread(&mut self.labels, id);
                }
            }
        }
        rows.selectors = Some(selectors);
    }

    /// An object changed: brings the postings in line, and moves apart the inputs that its selector tells apart. Returns what the
    /// selector before looked at, if it is another one.
    pub(super) fn repost<T: Send + Sync + 'static>(
        &mut self,
        source: NodeId,
        graph: &mut Graph,
        id: u32,
        old: Option<&T>,
        new: Option<&T>,
    ) -> SmallVec<[Atom; 2]> {
        let none = SmallVec::new();
        let Some(rows) = self.sources.get_mut(&source) else {
            return none;
        };
        let Some(readers) = rows.readers.downcast_ref::<Readers<T>>() else {
            return none;
        };
        for facet in PLAIN {
            if let Some(postings) = &mut rows.postings[facet as usize] {
                let own = new.map(|object| readers.rows(facet, &self.hashing, object));
                postings.replace(id, &own.unwrap_or_default());
            }
        }
        let (Some(read), true) = (readers.selector, rows.selectors.is_some()) else {
            return none;
        };
        let is_same = |old: &T, new: &T| panics::contain(|| read(old) == read(new)).unwrap_or(false);
        if let (Some(old), Some(new)) = (old, new)
            && is_same(old, new)
        {
            return none;
        }
        match new.map(|new| panics::contain(|| read(new))) {
            None => self.replace_selector::<T>(source, graph, id, None),
            Some(Ok(selector)) => self.replace_selector::<T>(source, graph, id, Some(&selector)),
            Some(Err(_)) => {
                let selectors = self.sources.get_mut(&source).and_then(|rows| rows.selectors.as_mut());
                selectors
                    .map(|selectors| selectors.replace_unread(&mut self.labels, id))
                    .unwrap_or_default()
            }
        }
    }

    /// A dependency comes: what it filters by is needed. Goes by the conditions of its query.
    pub(super) fn facets<T>(spec: &Spec<T>) -> PerFacet {
        let mut facets = PerFacet::default();
        for facet in spec.conditions.iter().filter_map(Facet::of) {
            facets[facet as usize] = 1;
        }
        facets
    }

    /// Whether what is posted of the objects of a source is what they say.
    #[cfg(test)]
    pub(crate) fn check_postings<T: Send + Sync + 'static>(&self, source: NodeId, store: &Store<T>) {
        let Some(rows) = self.sources.get(&source) else { return };
        let Some(readers) = rows.readers.downcast_ref::<Readers<T>>() else {
            return;
        };
        let objects: std::collections::BTreeSet<u32> = store.iter().map(|(id, _)| id).collect();
        for facet in PLAIN {
            let Some(postings) = &rows.postings[facet as usize] else {
                continue;
            };
            assert!(rows.facets[facet as usize] > 0, "postings that nobody needs");
            assert!(readers.can_read(facet));
            postings.check_invariants(&objects);
            for (id, object) in store.iter() {
                let mut expected: Vec<u64> = Vec::new();
                for row in readers.rows(facet, &self.hashing, object) {
                    if !expected.contains(&row) {
                        expected.push(row);
                    }
                }
                assert_eq!(postings.rows_of(id), expected, "{facet:?}");
            }
        }
        assert_eq!(rows.selectors.is_some(), rows.facets[Facet::Selector as usize] > 0);
        if let (Some(selectors), Some(read)) = (&rows.selectors, readers.selector) {
            selectors.check_invariants(&objects);
            for (id, object) in store.iter() {
                if let Ok(selector) = panics::contain(|| read(object)) {
                    assert!(selectors.knows(&self.labels, id, &selector), "{selector:?}");
                }
            }
        }
    }
}
