//! Dependencies: which inputs of which node fetched what, and, the other way round, whom a change concerns.
//!
//! Start with [`Deps::intern`] (a fetch becomes a dependency), [`Deps::commit`] (an input now has these and no others) and
//! [`Deps::probe`] (an object changed).
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

mod links;
mod probe;
mod rows;

use std::any::Any;

use hashbrown::{HashMap, HashTable};
use smallvec::SmallVec;

#[cfg(test)]
use super::graph::Graph;
use super::id::{NodeId, id32};
use crate::key::Hashing;
use crate::query::{Filter, Mode};
use crate::spec::{self, Spec};

use links::Link;
pub(crate) use links::NO_LINK;
pub(crate) use probe::Probe;
use rows::{Kind, SourceRows};

/// A dependency's number. Used again once it has no inputs.
pub(crate) type DepId = u32;

/// What a memo holds is known to the fetch that fills and reads it.
pub(crate) type Memo = Box<dyn Any + Send + Sync>;

struct Dep {
    consumer: NodeId,
    source: NodeId,
    /// Of the consumer, the source and the query.
    hash: u64,
    /// A `Spec<T>` of the source's `T`.
    spec: Box<dyn Any + Send + Sync>,
    /// What the query gave. Invariant: `None` or what it would give now, if the source's state is final.
    memo: Option<Memo>,
    /// The links to the inputs. Invariant: between runs at least one; their `position` is the place here.
    links: Vec<u32>,
    kind: Kind,
    /// The rows this is in and its place in each.
    rows: SmallVec<[(u64, u32); 2]>,
    /// The last look that came by, so that each looks once.
    seen: u64,
    /// The last run that asked.
    asked: u64,
}

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
    /// Dependencies made by the present run. Invariant: all that have no links are in it.
    fresh: Vec<DepId>,
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
}

impl Deps {
    pub(crate) fn new(hashing: Hashing) -> Self {
        Self {
            hashing,
            slots: Vec::new(),
            free: Vec::new(),
            table: HashTable::new(),
            links: Vec::new(),
            free_links: Vec::new(),
            rows: HashMap::default(),
            sources: HashMap::default(),
            fresh: Vec::new(),
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

    /// The dependency of a query; a new one, without inputs yet, if nobody asked for it before.
    pub(crate) fn intern<T: Send + Sync + 'static>(
        &mut self,
        consumer: NodeId,
        source: NodeId,
        filters: SmallVec<[Filter<'_, T>; 2]>,
        mode: Mode<T>,
    ) -> DepId {
        let mut hasher = self.hashing.start();
        std::hash::Hasher::write_u64(&mut hasher, u64::from(consumer.0) << 32 | u64::from(source.0));
        spec::hash_query(&filters, &mode, &self.hashing, &mut hasher);
        let hash = self.hashing.end(&hasher);
        let is = |id: &DepId| {
            let dep = self.dep(*id);
            dep.consumer == consumer
                && dep.source == source
                && dep
                    .spec
                    .downcast_ref::<Spec<T>>()
                    .is_some_and(|spec| spec.is(&filters, &mode))
        };
        if let Some(id) = self.table.find(hash, is) {
            return *id;
        }
        let conditions = filters.into_iter().map(Filter::into_condition).collect();
        self.insert(consumer, source, hash, Spec { conditions, mode })
    }

    fn insert<T: Send + Sync + 'static>(
        &mut self,
        consumer: NodeId,
        source: NodeId,
        hash: u64,
        spec: Spec<T>,
    ) -> DepId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            id32(self.slots.len() - 1)
        });
        let (kind, rows) = self.register(id, source, &spec);
        self.slots[id as usize] = Some(Dep {
            consumer,
            source,
            hash,
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
        self.fresh.push(id);
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
        self.unregister(dep.source, dep.kind, &dep.rows);
        self.free.push(id);
        super::panics::drop_each([(dep.spec, dep.memo)]);
    }

    /// Forgets what the present run made and nobody took over.
    pub(crate) fn drop_fresh(&mut self) {
        while let Some(id) = self.fresh.pop() {
            if self.slots[id as usize].as_ref().is_some_and(|dep| dep.links.is_empty()) {
                self.remove(id);
            }
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
        let spec = self.dep(id).spec.downcast_ref();
        spec.expect("a dependency is asked by the type it was made with")
    }

    pub(crate) fn memo<M: 'static>(&mut self, id: DepId) -> Option<&M> {
        let dep = self.slots[id as usize].as_ref()?;
        let memo = dep.memo.as_ref()?.downcast_ref();
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
        if self.affected.is_empty() {
            self.affected = affected;
        }
    }

    /// The inputs that fetched anything from a source.
    pub(crate) fn inputs_of(&self, source: NodeId) -> Vec<(NodeId, u32)> {
        let deps = self.slots.iter().flatten().filter(|dep| dep.source == source);
        let inputs = deps.flat_map(|dep| {
            dep.links
                .iter()
                .map(|link| (dep.consumer, self.links[*link as usize].input))
        });
        inputs.collect()
    }

    /// How much there is of each: dependencies, links, rows, sources.
    pub(crate) fn sizes(&self) -> [usize; 4] {
        [
            self.table.len(),
            self.links.len() - self.free_links.len(),
            self.rows.len(),
            self.sources.len(),
        ]
    }

    #[cfg(test)]
    pub(crate) fn check_invariants(&self, graph: &Graph) {
        use std::collections::BTreeMap;
        assert!(self.fresh.is_empty() && self.affected.is_empty());
        let mut edges: BTreeMap<(NodeId, NodeId), u32> = BTreeMap::new();
        let mut in_rows = 0;
        assert_eq!(self.slots.iter().filter(|dep| dep.is_none()).count(), self.free.len());
        assert!(self.free.iter().all(|id| self.slots[*id as usize].is_none()));
        for (id, dep) in (0..).zip(&self.slots) {
            let Some(dep) = dep else { continue };
            assert!(!dep.links.is_empty(), "a dependency without inputs stayed");
            assert!(self.table.find(dep.hash, |other| *other == id).is_some());
            *edges.entry((dep.consumer, dep.source)).or_default() += 1;
            for (place, link) in (0..).zip(&dep.links) {
                let link = &self.links[*link as usize];
                assert_eq!((link.dep, link.position), (id, place));
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
            rows.check_invariants(deps.map(|dep| dep.kind));
        }
        for ((consumer, source), deps) in edges {
            assert!(graph.holders(consumer, source) >= deps);
        }
    }
}
