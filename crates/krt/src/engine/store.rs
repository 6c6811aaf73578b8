//! What the engine itself knows of a collection's content: the objects by dense ids, this epoch's changes, the indexes.
//!
//! Only the engine's thread sees it, so nothing here is locked; what readers see is in [`super::published`].
//!
//! # Design
//!
//! A key that is in the collection has an id, which stays its own until the epoch in which it was deleted is over: whoever refers
//! to objects by id gets the delete in the same epoch. Which keys have which ids is known to [`KeyIds`]. A node changes its store once
//! per epoch, so a key has at most one change, from what it was in the epoch before to what it is in this one.

use std::sync::Arc;

use smallvec::SmallVec;

use super::by_id;
use super::deps::{Deps, Probe};
use super::graph::Graph;
use super::id::NodeId;
use super::key_ids::{KeyIds, KeyOf};
use super::panics;
use super::planted::{self, Bug};
use super::postings::Postings;
use super::published::Moved;
use super::spare;
use crate::key::{Key, KeyRef};
use crate::spec::{IndexAt, Spec};

/// One key's change in one epoch. The key itself is [`Store::key`] of the id: most who look at changes do not need it, and to hold it is to
/// touch its memory. Invariant: not both `old` and `new` are `None`.
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

pub(crate) struct Store<T> {
    /// Shared with readers, and with who writes if this is a source.
    keys: Arc<KeyIds>,
    /// By id. Invariant: an id that has a value has a key, and between epochs the other way round, but for the keys of a source that
    /// are written to.
    values: Vec<Option<Arc<T>>>,
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
    pub(crate) fn new(keys: Arc<KeyIds>) -> Self {
        Self {
            keys,
            values: Vec::new(),
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
        self.values.iter().flatten().count()
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Arc<T>> {
        self.values.get(id as usize)?.as_ref()
    }

    /// The keys of the objects, by their ids.
    pub(crate) fn keys(&self) -> &Arc<KeyIds> {
        &self.keys
    }

    /// The key of an id that has one. What changed in an epoch has it until the epoch ends, also if it was deleted.
    pub(crate) fn key(&self, id: u32) -> Option<Key> {
        self.keys.key(id)
    }

    pub(crate) fn find(&self, hash: u64, key: &str) -> Option<u32> {
        self.keys.find(hash, KeyRef::Plain(key))
    }

    /// Reads what is known of an id. See [`by_id::warm`].
    pub(crate) fn peek(&self, id: u32) -> usize {
        usize::from(self.get(id).is_some())
    }

    pub(crate) fn has_key(&self, id: u32, key: KeyRef<'_>) -> bool {
        self.keys.read().get(id).is_some_and(|own| key.is(own))
    }

    /// One more than the greatest id that was given out.
    pub(crate) fn ids(&self) -> usize {
        self.values.len()
    }

    /// All objects, with their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Arc<T>)> {
        (0..)
            .zip(&self.values)
            .filter_map(|(id, value)| Some((id, value.as_ref()?)))
    }

    /// The id of a key, a new one if it has none. Without a value at the end of the epoch it is taken back.
    pub(crate) fn reserve(&mut self, key: &Key) -> u32 {
        let id = self.keys.reserve(key);
        self.make_room(id);
        id
    }

    /// There will be so many more objects.
    pub(crate) fn expect(&mut self, more: usize) {
        by_id::make_room(&mut self.values, more);
        self.delta.reserve(more);
        self.keys.expect(more);
    }

    /// Has room for the value of an id, and of all before it.
    pub(crate) fn make_room(&mut self, id: u32) {
        by_id::lengthen(&mut self.values, id as usize + 1, || None);
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
        let old = std::mem::replace(&mut self.values[id as usize], new.clone());
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
            deps.probe(
                node,
                graph,
                KeyOf {
                    keys: &self.keys,
                    id: change.id,
                },
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
        let Some(object) = self.get(id) else { return false };
        let key = KeyOf { keys: &self.keys, id };
        let has_value = |at: &IndexAt<T>| match self.index(at.number) {
            Some(index) => index.holds(id, at.id),
            // Made while this epoch runs, and added at the next boundary.
            None => at.value.is_of(object),
        };
        spec.matches(|keys| key.is_one_of(keys), object, has_value)
    }

    /// This epoch's changes, to be told. The list is to be [given back](Self::end_epoch).
    pub(crate) fn take_delta(&mut self) -> Vec<Change<T>> {
        std::mem::take(&mut self.delta)
    }

    /// Everybody was told this epoch's changes. Takes their list back, for the next epoch. Precondition: it is empty.
    pub(crate) fn end_epoch(&mut self, mut delta: Vec<Change<T>>) {
        spare::keep(&mut delta);
        self.delta = delta;
        self.moved.clear();
        spare::keep(&mut self.moved);
        for index in self.indexes.iter_mut().flatten() {
            index.collect();
        }
    }

    /// Whether this epoch left ids without values, which are to be released.
    pub(crate) fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// Takes the ids of what this epoch deleted back, but for those that somebody goes on using. Precondition: readers were shown that they
    /// have no values.
    pub(crate) fn release(&mut self, is_kept: impl Fn(u32) -> bool) {
        let values = &self.values;
        let gone = self.released.drain(..);
        self.keys
            .release(gone.filter(|id| values[*id as usize].is_none() && !is_kept(*id)));
        spare::keep(&mut self.released);
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

    /// `is_kept` tells whether somebody goes on using an id that has no value.
    #[cfg(test)]
    pub(crate) fn check_invariants(&self, is_kept: impl Fn(u32) -> bool) {
        self.keys.check_invariants();
        let ids = self.keys.ids();
        for id in &ids {
            assert!(
                self.get(*id).is_some() || is_kept(*id),
                "between epochs, a key without a value is not known"
            );
        }
        for (id, _) in self.iter() {
            assert!(ids.binary_search(&id).is_ok(), "a value has a key");
        }
        assert!(self.delta.is_empty() && self.released.is_empty());
        for index in self.indexes.iter().flatten() {
            index.check_invariants();
        }
    }
}
