//! What the engine itself knows of a collection's content: the objects by dense ids, this epoch's changes, the indexes.
//!
//! Only the engine's thread sees it, so nothing here is locked; what readers see is in [`super::published`].
//!
//! # Design
//!
//! A key that is in the collection has an id, which stays its own until the epoch in which it was deleted is over: whoever refers
//! to objects by id gets the delete in the same epoch. A node changes its store once per epoch, so a key has at most
//! one change, from what it was in the epoch before to what it is in this one.

use std::sync::Arc;

use hashbrown::HashTable;
use smallvec::SmallVec;

use super::by_id;
use super::deps::{Deps, Probe};
use super::graph::Graph;
use super::id::{NodeId, id32};
use super::panics;
use super::planted::{self, Bug};
use super::postings::Postings;
use super::published::Moved;
use super::spare;
use crate::key::{Key, KeyRef};
use crate::spec::{IndexAt, Spec};

/// One key's change in one epoch. The key itself is [`Store::key`] of the id until the epoch ends, also if it was deleted: most who look at
/// changes do not need it, and to hold it is to touch its memory. Invariant: not both `old` and `new` are `None`.
#[derive(Debug)]
pub(crate) struct Change<T> {
    pub(crate) id: u32,
    pub(crate) old: Option<Arc<T>>,
    pub(crate) new: Option<Arc<T>>,
}

/// Whether two values are equal, so that nobody has to be told.
pub(crate) type Equal<T> = fn(&T, &T) -> bool;

/// An index of a store, with its values' type erased.
pub(crate) trait StoreIndex<T>: Send {
    /// Puts an object in the place of the one with the same id; tells the values before and after.
    fn replace(&mut self, id: u32, new: Option<&T>, old_values: &mut Vec<u32>, new_values: &mut Vec<u32>);
    /// The ids of the objects with this value, in no order.
    fn ids(&self, value: u32) -> &[u32];
    fn holds(&self, id: u32, value: u32) -> bool;
    /// The epoch is published: forgets values that nothing refers to, if there may be many.
    fn collect(&mut self);
    /// The values of an object.
    fn values(&self, id: u32) -> SmallVec<[u64; 1]>;
    /// How many values objects have, and how many times.
    #[cfg(test)]
    fn live(&self) -> [usize; 2];
    #[cfg(test)]
    fn check_invariants(&self);
}

struct Slot<T> {
    /// Invariant: `Some` iff the id is in `table`.
    key: Option<Key>,
    /// Invariant: `None` only in free slots, and during the epoch that deletes or reserves it.
    value: Option<Arc<T>>,
}

pub(crate) struct Store<T> {
    slots: Vec<Slot<T>>,
    table: HashTable<u32>,
    /// Ids that may be given out. Not used for sources, whose ids are given by their ingress buffer.
    free: Vec<u32>,
    /// Ids whose keys were deleted in this epoch.
    released: Vec<u32>,
    /// What this epoch changed. Invariant: at most one change for each id.
    pub(crate) delta: Vec<Change<T>>,
    /// What nobody needs any more, to be dropped when everybody was told. Invariant: empty between steps.
    pub(crate) dropped: Vec<Arc<T>>,
    /// By number; `None` until the boundary at which it is added.
    indexes: Vec<Option<Box<dyn StoreIndex<T>>>>,
    /// The indexes that are kept for lookups as well.
    lookups: SmallVec<[u32; 2]>,
    /// What changed in them in this epoch.
    pub(crate) moved: Vec<Moved>,
    /// Whether the initial state is complete, as of this epoch.
    pub(crate) synced: bool,
}

impl<T: Send + Sync + 'static> Store<T> {
    pub(crate) fn new() -> Self {
        Self {
            slots: Vec::new(),
            table: HashTable::new(),
            free: Vec::new(),
            released: Vec::new(),
            delta: Vec::new(),
            dropped: Vec::new(),
            indexes: Vec::new(),
            lookups: SmallVec::new(),
            moved: Vec::new(),
            synced: false,
        }
    }

    /// How many objects there are, between epochs.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Arc<T>> {
        self.slots.get(id as usize)?.value.as_ref()
    }

    /// The key of what changed in this epoch.
    pub(crate) fn changed_key(&self, change: &Change<T>) -> &Key {
        self.key(change.id)
            .expect("what changed has a key until its epoch ends")
    }

    /// The key of an id that has one.
    pub(crate) fn key(&self, id: u32) -> Option<&Key> {
        self.slots.get(id as usize)?.key.as_ref()
    }

    pub(crate) fn find(&self, hash: u64, key: &str) -> Option<u32> {
        let is = |id: &u32| {
            let slot = &self.slots[*id as usize];
            slot.key
                .as_ref()
                .is_some_and(|own| *own.text == *key || planted::has(Bug::HashOnly))
        };
        self.table.find(hash, is).copied()
    }

    /// Reads what is known of an id. See [`by_id::warm`].
    pub(crate) fn peek(&self, id: u32) -> usize {
        let slot = self.slots.get(id as usize);
        slot.map_or(0, |slot| usize::from(slot.value.is_some()))
    }

    /// The same of its key and object.
    pub(crate) fn peek_deep(&self, id: u32) -> usize {
        let Some(Slot {
            key: Some(key),
            value: Some(value),
        }) = self.slots.get(id as usize)
        else {
            return 0;
        };
        usize::from(key.text.as_bytes()[0]) ^ Arc::strong_count(value)
    }

    pub(crate) fn has_key(&self, id: u32, key: KeyRef<'_>) -> bool {
        self.key(id).is_some_and(|own| key.is(&own.text))
    }

    /// All objects, with their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Arc<T>)> {
        (0..)
            .zip(&self.slots)
            .filter_map(|(id, slot)| Some((id, slot.value.as_ref()?)))
    }

    /// The id of a key, a new one if it has none. Without a value at the end of the epoch it is taken back.
    pub(crate) fn reserve(&mut self, key: &Key) -> u32 {
        if let Some(id) = self.find(key.hash, &key.text) {
            return id;
        }
        let id = self.free.pop().unwrap_or_else(|| id32(self.slots.len()));
        self.place(id, key.clone());
        id
    }

    /// Gives an id to a key. Precondition: neither is in use.
    pub(crate) fn place(&mut self, id: u32, key: Key) {
        let index = id as usize;
        by_id::lengthen(&mut self.slots, index + 1, || Slot { key: None, value: None });
        debug_assert!(self.slots[index].key.is_none());
        let hash = key.hash;
        self.slots[index].key = Some(key);
        let slots = &self.slots;
        self.table.insert_unique(hash, id, |id| {
            slots[*id as usize].key.as_ref().map_or(0, |key| key.hash)
        });
    }

    /// Sets the value of an id that has a key, unless it is equal to the one that is there.
    pub(crate) fn update(&mut self, id: u32, new: Option<Arc<T>>, equal: Equal<T>) {
        if let (Some(old), Some(own)) = (self.get(id), &new)
            && (Arc::ptr_eq(old, own)
                || panics::contain(|| equal(old, own)).unwrap_or(false)
                || planted::has(Bug::GateClosed))
            && !planted::has(Bug::GateOpen)
        {
            self.dropped.extend(new);
            return;
        }
        self.put(id, new);
    }

    /// Sets the value of an id that has a key. Precondition: it was not set in this epoch yet.
    pub(crate) fn put(&mut self, id: u32, new: Option<Arc<T>>) {
        let slot = &mut self.slots[id as usize];
        let old = slot.value.take();
        slot.value.clone_from(&new);
        if new.is_none() {
            self.released.push(id);
        }
        if old.is_none() && new.is_none() {
            return;
        }
        self.delta.push(Change { id, old, new });
    }

    /// Brings the indexes in line with this epoch's changes, and tells the dependencies.
    pub(crate) fn finalize(&mut self, node: NodeId, deps: &mut Deps, graph: &mut Graph) {
        if self.indexes.is_empty() && !deps.is_fetched(node) {
            return;
        }
        let (mut old_values, mut new_values) = (Vec::new(), Vec::new());
        let (mut old_ids, mut new_ids) = (Vec::new(), Vec::new());
        for change in &self.delta {
            old_values.clear();
            new_values.clear();
            for (number, index) in (0..).zip(&mut self.indexes) {
                let Some(index) = index else { continue };
                old_ids.clear();
                new_ids.clear();
                index.replace(change.id, change.new.as_deref(), &mut old_ids, &mut new_ids);
                if old_ids != new_ids && self.lookups.contains(&number) {
                    self.moved.push(Moved {
                        index: number,
                        id: change.id,
                        values: index.values(change.id),
                    });
                }
                old_values.extend(old_ids.iter().map(|value| (number, *value)));
                new_values.extend(new_ids.iter().map(|value| (number, *value)));
            }
            let key = self.slots[change.id as usize].key.as_ref();
            deps.probe(
                node,
                graph,
                (change.id, key.expect("what changed has a key")),
                &Probe {
                    object: change.old.as_deref(),
                    values: &old_values,
                },
                &Probe {
                    object: change.new.as_deref(),
                    values: &new_values,
                },
            );
        }
    }

    /// Adds an index over what is there.
    pub(crate) fn add_index(&mut self, number: u32, mut index: Box<dyn StoreIndex<T>>) {
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for (id, object) in self.iter() {
            index.replace(id, Some(object), &mut old, &mut new);
        }
        let number = number as usize;
        if number >= self.indexes.len() {
            self.indexes.resize_with(number + 1, || None);
        }
        self.indexes[number] = Some(index);
    }

    /// What an index has, to be kept for lookups from now on. `None` if the index is not there.
    pub(crate) fn post(&mut self, number: u32) -> Option<Postings> {
        let mut postings = Postings::default();
        let index = self.index(number)?;
        for (id, _) in self.iter() {
            postings.replace(id, &index.values(id));
        }
        self.lookups.push(number);
        Some(postings)
    }

    fn index(&self, number: u32) -> Option<&dyn StoreIndex<T>> {
        self.indexes.get(number as usize)?.as_deref()
    }

    /// The ids of the objects that have a value, if the index is there already.
    pub(crate) fn ids_of(&self, at: &IndexAt<T>) -> Option<&[u32]> {
        self.index(at.number).map(|index| index.ids(at.id))
    }

    /// Whether an object matches a query.
    pub(crate) fn is_match(&self, id: u32, spec: &Spec<T>) -> bool {
        let slot = &self.slots[id as usize];
        let (Some(key), Some(object)) = (&slot.key, &slot.value) else {
            return false;
        };
        spec.matches(&key.text, object, |at| match self.index(at.number) {
            Some(index) => index.holds(id, at.id),
            // Made while this epoch runs, and added at the next boundary.
            None => at.value.is_of(object),
        })
    }

    /// This epoch's changes, to be told. The list is to be [given back](Self::end_epoch).
    pub(crate) fn take_delta(&mut self) -> Vec<Change<T>> {
        std::mem::take(&mut self.delta)
    }

    /// Ends an epoch: frees the ids of what it deleted, unless somebody else gives out the ids of this store. Takes the list of changes back, for
    /// the next epoch. Precondition: it is empty.
    pub(crate) fn end_epoch(&mut self, ids: IdsFrom, mut delta: Vec<Change<T>>) {
        spare::keep(&mut delta);
        self.delta = delta;
        for id in self.released.drain(..) {
            let slot = &mut self.slots[id as usize];
            if slot.value.is_some() {
                continue;
            }
            let Some(key) = slot.key.take() else { continue };
            if let Ok(entry) = self.table.find_entry(key.hash, |other| *other == id) {
                entry.remove();
            }
            if ids == IdsFrom::Store {
                self.free.push(id);
            }
        }
        spare::keep(&mut self.released);
        self.moved.clear();
        spare::keep(&mut self.moved);
        for index in self.indexes.iter_mut().flatten() {
            index.collect();
        }
    }

    /// Frees the indexes.
    pub(crate) fn drop_indexes(&mut self) {
        self.indexes.clear();
        self.lookups.clear();
    }

    /// How many objects there are, and of each index, what it has.
    #[cfg(test)]
    pub(crate) fn live(&self) -> Vec<usize> {
        let indexes = self.indexes.iter().flatten().flat_map(|index| index.live());
        std::iter::once(self.len()).chain(indexes).collect()
    }

    #[cfg(test)]
    pub(crate) fn check_invariants(&self, ids: IdsFrom) {
        let live = self.slots.iter().filter(|slot| slot.value.is_some()).count();
        assert_eq!(
            live,
            self.table.len(),
            "between epochs, a key without a value is not in the table"
        );
        for (id, slot) in (0..).zip(&self.slots) {
            assert_eq!(slot.key.is_some(), slot.value.is_some());
            if let Some(key) = &slot.key {
                assert_eq!(self.find(key.hash, &key.text), Some(id));
            }
        }
        if ids == IdsFrom::Store {
            assert_eq!(self.free.len() + live, self.slots.len(), "an id is in use or free");
        }
        assert!(self.delta.is_empty() && self.released.is_empty());
        for index in self.indexes.iter().flatten() {
            index.check_invariants();
        }
    }
}

/// Who gives out the ids of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdsFrom {
    /// The store itself.
    Store,
    /// The ingress buffer of a source.
    Ingress,
}
