//! Dependencies: which inputs of which node fetched what, and, the other way round, whom a change concerns.
//!
//! Start with [`Deps::ask`] (a fetch becomes a dependency), [`Deps::select`] (what it gives), [`Deps::commit`] (an input now has these
//! and no others) and [`Deps::probe`] (an object changed).
//!
//! # Design
//!
//! Equal queries of one node are one dependency, however many inputs ask: it has a posting list of inputs, and the memo of what the
//! query gave, so that a thousand pods that ask for the services of one application share one result. An input and
//! a dependency are joined by a link, which knows its place in both lists: removing it costs O(1).
//!
//! For the way back, each dependency is registered in rows, under hashes of *access atoms*: a scope (one of its keys, a value of
//! an index, a namespace, or anything) and inside of that a label pair or nothing. A change looks into the rows of the atoms of the
//! object before and after, and asks each dependency it finds there whether it really matches; so equal hashes cost time and nothing
//! else. Closures have no atoms: they are found in the rows of what else they are combined with.
//!
//! Which labels make a dependency one of its own is a matter of `selectors`; how few objects a fetch looks at, one of `objects`.

mod interned;
mod labels;
mod links;
mod objects;
mod probe;
mod rows;
mod selectors;

use std::any::Any;
use std::sync::Arc;

use hashbrown::{HashMap, HashTable};
use smallvec::SmallVec;

use super::by_id;
#[cfg(test)]
use super::graph::Graph;
use super::id::NodeId;
use super::store::Store;
use crate::key::Hashing;
use crate::query::{Filter, Mode};
use crate::spec::{self, Spec};

use labels::{Atom, Cut, LabelSets, NO_SET, SetId};
use links::Link;
pub(crate) use links::{Asked, NO_LINK};
use objects::PerFacet;
pub(crate) use probe::Probe;
use rows::{Kind, SourceRows};

/// A dependency's number. Used again once it has no inputs.
pub(crate) type DepId = u32;

/// What a query gave: known to the fetch that fills and reads it.
pub(crate) trait Answer: Any + Send + Sync {
    /// Reads something of what was found. See [`by_id::warm`].
    fn peek(&self) -> usize;
}

impl Answer for bool {
    fn peek(&self) -> usize {
        0
    }
}

pub(crate) type Memo = Arc<dyn Answer>;

/// A `Spec<T>` of the source's `T`.
trait AnySpec: Any + Send + Sync {
    /// Reads something of it. See [`by_id::warm`].
    fn peek(&self) -> usize;
}

impl<T: 'static> AnySpec for Spec<T> {
    fn peek(&self) -> usize {
        Self::peek(self)
    }
}

impl dyn AnySpec {
    fn of<T: 'static>(&self) -> Option<&Spec<T>> {
        (self as &dyn Any).downcast_ref()
    }
}

/// What each fetch reads comes first, so that it is together in memory.
#[repr(C)]
struct Dep {
    consumer: NodeId,
    source: NodeId,
    /// The last run that asked.
    asked: u64,
    spec: Box<dyn AnySpec>,
    /// What the query gave. Invariant: `None` or what it would give now, if the source's state is final.
    memo: Option<Memo>,
    /// The last look that came by, so that each looks once.
    seen: u64,
    /// The hash of the consumer, the source and the query without the labels that are cut.
    base: u64,
    /// That of `base` and `cut`.
    hash: u64,
    /// What matters of the labels that the query's first selecting filter asks with; nothing if it has none.
    cut: Cut,
    /// The links to the inputs. Invariant: between runs at least one; their `position` is the place here.
    links: Vec<u32>,
    /// The rows this is in and its place in each.
    rows: SmallVec<[(u64, u32); 2]>,
    kind: Kind,
    /// What it filters by.
    facets: PerFacet,
}

/// How many references from a link lead to the objects that were found.
pub(crate) const DEPTH: usize = 3;

pub(crate) struct Deps {
    hashing: Hashing,
    slots: Vec<Option<Dep>>,
    free: Vec<DepId>,
    /// By `Dep::hash`. Invariant: exactly the dependencies there are.
    table: HashTable<DepId>,
    links: Vec<Link>,
    free_links: Vec<u32>,
    rows: HashMap<u64, Vec<DepId>, foldhash::fast::RandomState>,
    /// By source. Invariant: exactly the sources that some dependency has.
    sources: HashMap<NodeId, SourceRows, foldhash::fast::RandomState>,
    labels: LabelSets,
    /// Dependencies made by the present run. Invariant: all that have no links are in it.
    fresh: Vec<DepId>,
    /// The label sets that the present run asked with, which it holds.
    fresh_sets: Vec<SetId>,
    /// A source whose selectors were made known for a dependency that is not there yet: how environments of closures are compared is
    /// the user's code, and may panic in between.
    fresh_source: Option<NodeId>,
    looks: u64,
    runs: u64,
    /// The inputs that changes concerned, to be taken by the engine: (consumer, input).
    affected: Vec<(NodeId, u32)>,
    pub(crate) counters: Counters,
}

/// What was asked and found, for tests and for figures.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Dependencies that were asked whether a change concerns them.
    pub(crate) asked: u64,
    /// Those that said yes.
    pub(crate) concerned: u64,
    /// Fetches that were answered by a memo.
    pub(crate) memo_hits: u64,
    /// Fetches that had to look.
    pub(crate) memo_misses: u64,
    /// Objects that they looked at.
    pub(crate) looked: u64,
    /// Those of them that looked at all objects of a collection.
    pub(crate) scans: u64,
    /// Dependencies that were found without a hash: what the input asked the last time.
    pub(crate) asked_again: u64,
}

impl Deps {
    pub(crate) fn new(hashing: Hashing) -> Self {
        Self {
            labels: LabelSets::new(hashing.clone()),
            hashing,
            slots: Vec::new(),
            free: Vec::new(),
            table: HashTable::new(),
            links: Vec::new(),
            free_links: Vec::new(),
            rows: HashMap::default(),
            sources: HashMap::default(),
            fresh: Vec::new(),
            fresh_sets: Vec::new(),
            fresh_source: None,
            looks: 0,
            runs: 0,
            affected: Vec::new(),
            counters: Counters::default(),
        }
    }

    pub(crate) fn is_fetched(&self, source: NodeId) -> bool {
        self.sources.contains_key(&source)
    }

    fn dep(&self, id: DepId) -> &Dep {
        self.slots[id as usize]
            .as_ref()
            .expect("a dependency that is referred to")
    }

    fn dep_mut(&mut self, id: DepId) -> &mut Dep {
        self.slots[id as usize]
            .as_mut()
            .expect("a dependency that is referred to")
    }

    /// The dependency of a query; a new one, without inputs yet, if nobody asked for it before. `last` is the link to what the input
    /// asked the last time at this place, which is looked at first.
    pub(crate) fn ask<T: Send + Sync + 'static>(
        &mut self,
        last: u32,
        (consumer, source): (NodeId, NodeId),
        filters: SmallVec<[Filter<'_, T>; 2]>,
        mode: Mode<T>,
        store: Option<&Store<T>>,
    ) -> Asked {
        if let Some(asked) = self.again((last, consumer, source), &filters, &mode) {
            self.counters.asked_again += 1;
            return asked;
        }
        let mut hasher = self.hashing.start();
        std::hash::Hasher::write_u64(&mut hasher, u64::from(consumer.0) << 32 | u64::from(source.0));
        spec::hash_query(&filters, &mode, &self.hashing, &mut hasher);
        let base = self.hashing.end(&hasher);
        let (mut set, mut cut) = (NO_SET, Cut::new());
        if let Some((labels, read)) = spec::selects_by(&filters) {
            self.know_selectors(source, read, store);
            self.fresh_source = Some(source);
            set = self.labels.hold_set(labels);
            self.fresh_sets.push(set);
            cut = self.cut(source, set);
        }
        let hash = self.cut_hash(base, &cut);
        let is = |id: &DepId| {
            let dep = self.dep(*id);
            dep.consumer == consumer
                && dep.source == source
                && dep.cut == cut
                && dep.spec.of::<T>().is_some_and(|spec| spec.is(&filters, &mode))
        };
        if let Some(dep) = self.table.find(hash, is) {
            return Asked { dep: *dep, set };
        }
        let spec = Spec::new(filters, mode, self.labels.texts(&cut));
        let dep = self.insert(consumer, source, [base, hash], cut, spec);
        self.fresh.push(dep);
        self.fresh_source = None;
        Asked { dep, set }
    }

    /// What a link stands for, if it is this query.
    fn again<T: 'static>(
        &self,
        (last, consumer, source): (u32, NodeId, NodeId),
        filters: &[Filter<'_, T>],
        mode: &Mode<T>,
    ) -> Option<Asked> {
        let link = self.links.get(last as usize)?;
        let dep = self.dep(link.dep);
        let is_same = dep.source == source
            && dep.consumer == consumer
            && dep.spec.of::<T>()?.is(filters, mode)
            && spec::selects_by(filters).is_none_or(|(labels, _)| self.labels.is_set(link.set, labels));
        is_same.then_some(Asked {
            dep: link.dep,
            set: link.set,
        })
    }

    /// Reads what a fetch with this link needs: `depth` tells how many references are followed for it, at most [`DEPTH`].
    /// See [`by_id::warm`].
    pub(crate) fn peek(&self, link: u32, depth: usize) -> usize {
        let Some(link) = self.links.get(link as usize) else {
            return 0;
        };
        let labels = || {
            if link.set == NO_SET {
                0
            } else {
                self.labels.peek(link.set, depth - 1)
            }
        };
        let Some(Some(dep)) = self.slots.get(link.dep as usize).filter(|_| depth > 0) else {
            return link.dep as usize;
        };
        match depth {
            1 => usize::from(dep.asked == 0) ^ labels(),
            2 => dep.spec.peek() ^ dep.memo.as_ref().map_or(0, Arc::strong_count) ^ labels(),
            _ => dep.memo.as_ref().map_or(0, |memo| memo.peek()) ^ labels(),
        }
    }

    /// The link after this one.
    pub(crate) fn next_link(&self, link: u32) -> u32 {
        self.links.get(link as usize).map_or(NO_LINK, |link| link.next)
    }

    fn cut_hash(&self, base: u64, cut: &[Atom]) -> u64 {
        if cut.is_empty() {
            return base;
        }
        self.hashing.of(&(base, cut))
    }

    fn insert<T: Send + Sync + 'static>(
        &mut self,
        consumer: NodeId,
        source: NodeId,
        [base, hash]: [u64; 2],
        cut: Cut,
        spec: Spec<T>,
    ) -> DepId {
        let free = self.free.pop();
        let id = free.unwrap_or_else(|| by_id::push(&mut self.slots, None));
        let (kind, rows) = self.register(id, source, &cut, &spec);
        self.slots[id as usize] = Some(Dep {
            consumer,
            source,
            base,
            hash,
            cut,
            facets: Self::facets(&spec),
            spec: Box::new(spec),
            memo: None,
            links: Vec::new(),
            kind,
            rows,
            seen: 0,
            asked: 0,
        });
        let slots = &self.slots;
        let hash_of = |id: &DepId| slots[*id as usize].as_ref().map_or(0, |dep| dep.hash);
        self.table.insert_unique(hash, id, hash_of);
        id
    }

    /// Forgets a dependency without inputs, with its memo and its rows.
    fn remove(&mut self, id: DepId) {
        let Some(dep) = self.slots[id as usize].take() else {
            return;
        };
        debug_assert!(dep.links.is_empty());
        if let Ok(entry) = self.table.find_entry(dep.hash, |other| *other == id) {
            entry.remove();
        }
        self.unregister(&dep);
        self.free.push(id);
        super::panics::drop_each([(dep.spec, dep.memo)]);
    }

    /// Forgets what the present run made and nobody took over.
    pub(crate) fn drop_fresh(&mut self) {
        while let Some(set) = self.fresh_sets.pop() {
            self.labels.release_set(set);
        }
        while let Some(id) = self.fresh.pop() {
            if self.slots[id as usize].as_ref().is_some_and(|dep| dep.links.is_empty()) {
                self.remove(id);
            }
        }
        if let Some(source) = self.fresh_source.take() {
            self.give_up_unneeded(source);
        }
    }

    /// A run begins.
    pub(crate) fn begin_run(&mut self) {
        self.runs += 1;
    }

    /// Whether the present run asks for the first time.
    pub(crate) fn is_first_ask(&mut self, id: DepId) -> bool {
        let run = self.runs;
        std::mem::replace(&mut self.dep_mut(id).asked, run) != run
    }

    pub(crate) fn spec<T: 'static>(&self, id: DepId) -> &Spec<T> {
        self.dep(id)
            .spec
            .of()
            .expect("a dependency is asked by the type it was made with")
    }

    pub(crate) fn memo<M: 'static>(&mut self, id: DepId) -> Option<&M> {
        let dep = self.slots[id as usize].as_ref()?;
        let memo: &dyn Any = &**dep.memo.as_ref()?;
        let memo = memo.downcast_ref();
        self.counters.memo_hits += u64::from(memo.is_some());
        memo
    }

    pub(crate) fn set_memo(&mut self, id: DepId, memo: Memo) {
        self.counters.memo_misses += 1;
        self.dep_mut(id).memo = Some(memo);
    }

    /// The inputs that changes concerned since this was last asked.
    pub(crate) fn take_affected(&mut self) -> Vec<(NodeId, u32)> {
        std::mem::take(&mut self.affected)
    }

    /// Gives the list back, so that its memory is used again.
    pub(crate) fn reuse(&mut self, mut affected: Vec<(NodeId, u32)>) {
        affected.clear();
        super::spare::keep(&mut affected);
        if self.affected.is_empty() {
            self.affected = affected;
        }
    }

    /// The inputs that fetched anything from a source.
    pub(crate) fn inputs_of(&self, source: NodeId) -> Vec<(NodeId, u32)> {
        if !self.is_fetched(source) {
            return Vec::new();
        }
        let deps = self.slots.iter().flatten().filter(|dep| dep.source == source);
        let inputs = deps.flat_map(|dep| {
            dep.links
                .iter()
                .map(|link| (dep.consumer, self.links[*link as usize].input))
        });
        inputs.collect()
    }

    /// How much there is of each: dependencies, links, rows of dependencies, and what is known of the sources, their objects and labels.
    pub(crate) fn sizes(&self) -> [usize; 4] {
        let objects = self.sources.values().map(SourceRows::objects_in_rows).sum::<usize>();
        [
            self.table.len(),
            self.links.len() - self.free_links.len(),
            self.rows.len(),
            self.sources.len() + objects + self.labels.len(),
        ]
    }

    #[cfg(test)]
    pub(crate) fn check_invariants(&self, graph: &Graph) {
        use std::collections::BTreeMap;
        assert!(self.fresh.is_empty() && self.fresh_sets.is_empty() && self.affected.is_empty());
        let mut edges: BTreeMap<(NodeId, NodeId), u32> = BTreeMap::new();
        let mut in_rows = 0;
        assert_eq!(self.slots.iter().filter(|dep| dep.is_none()).count(), self.free.len());
        assert!(self.free.iter().all(|id| self.slots[*id as usize].is_none()));
        for (id, dep) in (0..).zip(&self.slots) {
            let Some(dep) = dep else { continue };
            assert!(!dep.links.is_empty(), "a dependency without inputs stayed");
            assert!(self.table.find(dep.hash, |other| *other == id).is_some());
            *edges.entry((dep.consumer, dep.source)).or_default() += 1;
            let mut inputs = std::collections::BTreeSet::new();
            for (place, link) in (0..).zip(&dep.links) {
                let link = &self.links[*link as usize];
                assert_eq!((link.dep, link.position), (id, place));
                assert!(
                    inputs.insert((link.input, link.set)),
                    "an input depends twice on the same"
                );
                if link.set != NO_SET {
                    assert_eq!(dep.cut, self.cut(dep.source, link.set), "an input is not with its like");
                }
            }
            for (row, place) in &dep.rows {
                assert_eq!(self.rows[row][*place as usize], id);
            }
            in_rows += dep.rows.len();
        }
        assert_eq!(in_rows, self.rows.values().map(Vec::len).sum::<usize>());
        assert!(self.rows.values().all(|row| !row.is_empty()));
        let linked: usize = self.slots.iter().flatten().map(|dep| dep.links.len()).sum();
        assert_eq!(linked, self.links.len() - self.free_links.len());
        assert_eq!(self.slots.iter().flatten().count(), self.table.len());
        for (source, rows) in &self.sources {
            let deps = self.slots.iter().flatten().filter(|dep| dep.source == *source);
            rows.check_invariants(deps.map(|dep| (dep.kind, dep.facets)));
        }
        let held = |atom| {
            let selectors = self.sources.values().filter_map(|rows| rows.selectors.as_ref());
            selectors.map(|selectors| selectors.holds(atom)).sum()
        };
        self.labels.check_invariants(held, |link| {
            let link = &self.links[link as usize];
            (link.set, link.set_place)
        });
        for ((consumer, source), deps) in edges {
            assert!(graph.holders(consumer, source) >= deps);
        }
    }
}
