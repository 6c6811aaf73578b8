//! The cache of one informer: objects by key, by namespace, and by each secondary index.
//!
//! Owns the tables and the rule that turns a received object into an event. Knows no locks (see `shared`), no handlers
//! and no network. Each object has one writer, the reflector of its namespace. Of the user's code, only
//! [`Object::metadata`] is called here.
//!
//! # Design
//!
//! Objects live in slots of one vector. Every table holds slot numbers, so a key is stored once and a set member costs
//! four bytes. A slot number stays valid as long as its object is not deleted, which lets a relist remember "kept"
//! objects by number.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashTable};

use crate::event::Event;
use crate::informer::deferred::discard_each;
use crate::informer::index::{IndexDef, IndexTable, Posting, Values};
use crate::key::{KeyRef, ObjectKey};
use crate::object::{Metadata, Object};

/// One object and its key.
struct Entry<K> {
    key: ObjectKey,
    object: Arc<K>,
}

/// The tables.
pub(crate) struct Store<K> {
    entries: Vec<Option<Entry<K>>>,
    // Invariant: exactly the numbers of the `None` entries.
    free: Vec<u32>,
    // Invariant: exactly the numbers of the `Some` entries, hashed by key.
    table: HashTable<u32>,
    hasher: RandomState,
    // Invariant: the slots of each namespace's objects; no set is empty. The key's text is shared by `Entry::key`.
    namespaces: HashMap<Arc<str>, Posting, RandomState>,
    indexes: Vec<IndexTable<K>>,
}

/// One change to apply, with the index values that were computed for it outside of the lock.
pub(crate) enum Change<K> {
    /// The object as received.
    Upsert { object: Arc<K>, values: Vec<Values> },
    /// The object is gone; `last` is its final state, if the server sent one that decodes.
    Delete {
        key: ObjectKey,
        last: Option<Arc<K>>,
        stale: bool,
    },
}

/// How changes are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The first list: what is added is initial.
    Fill,
    /// A later list or a watch event.
    Update,
    /// A list after the resource version went back: equal versions do not mean equal objects.
    Rebuild,
}

/// What changes came to.
pub(crate) struct Outcome<K> {
    pub(crate) events: Vec<Event<K>>,
    // Objects to drop once the lock is released.
    pub(crate) garbage: Vec<Arc<K>>,
}

impl<K> Default for Outcome<K> {
    fn default() -> Self {
        Self {
            events: Vec::new(),
            garbage: Vec::new(),
        }
    }
}

impl<K: Object> Store<K> {
    pub(crate) fn new() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            table: HashTable::new(),
            hasher: RandomState::default(),
            namespaces: HashMap::default(),
            indexes: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    fn hash(&self, key: KeyRef<'_>) -> u64 {
        self.hasher.hash_one(key)
    }

    fn entry(&self, slot: u32) -> Option<&Entry<K>> {
        self.entries.get(slot as usize).and_then(Option::as_ref)
    }

    /// The slot of a key.
    pub(crate) fn find(&self, key: KeyRef<'_>) -> Option<u32> {
        let matches = |slot: &u32| self.entry(*slot).is_some_and(|entry| key.matches(&entry.key));
        self.table.find(self.hash(key), matches).copied()
    }

    pub(crate) fn object(&self, slot: u32) -> Option<&Arc<K>> {
        self.entry(slot).map(|entry| &entry.object)
    }

    pub(crate) fn get(&self, key: KeyRef<'_>) -> Option<&Arc<K>> {
        self.find(key).and_then(|slot| self.object(slot))
    }

    /// Every object with its slot.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Arc<K>)> {
        let numbered = (0_u32..).zip(&self.entries);
        numbered.filter_map(|(slot, entry)| entry.as_ref().map(|entry| (slot, &entry.object)))
    }

    /// Every object of one namespace, or of all, with its slot.
    pub(crate) fn iter_in(&self, namespace: Option<&str>) -> impl Iterator<Item = (u32, &Arc<K>)> {
        let (all, some) = match namespace {
            None => (Some(self.iter()), None),
            Some(namespace) => (None, self.namespaces.get(namespace)),
        };
        let some = some.into_iter().flat_map(Posting::iter);
        let some = some.filter_map(|slot| self.object(slot).map(|object| (slot, object)));
        all.into_iter().flatten().chain(some)
    }

    /// How many objects there are, or in one namespace.
    pub(crate) fn len_in(&self, namespace: Option<&str>) -> usize {
        namespace.map_or(self.len(), |name| self.namespaces.get(name).map_or(0, Posting::len))
    }

    /// Every object, or those of one namespace.
    pub(crate) fn list(&self, namespace: Option<&str>) -> Vec<Arc<K>> {
        match namespace {
            None => self.iter().map(|(_, object)| Arc::clone(object)).collect(),
            Some(namespace) => self.collect(self.namespaces.get(namespace)),
        }
    }

    fn collect(&self, posting: Option<&Posting>) -> Vec<Arc<K>> {
        let slots = posting.into_iter().flat_map(Posting::iter);
        slots.filter_map(|slot| self.object(slot).map(Arc::clone)).collect()
    }

    /// Whether the store holds this very state of the object, so that what was just received can be dropped.
    pub(crate) fn find_unchanged(&self, meta: &Metadata<'_>) -> Option<u32> {
        let slot = self.find(meta.key_ref())?;
        self.object(slot)?.metadata().is_unchanged(meta).then_some(slot)
    }

    /// Applies one change. Gives the slot that the events are about, if there is any.
    pub(crate) fn apply(&mut self, change: Change<K>, mode: Mode, outcome: &mut Outcome<K>) -> Option<u32> {
        match change {
            Change::Upsert { object, values } => self.upsert(object, values, mode, outcome),
            Change::Delete { key, last, stale } => {
                let Some(slot) = self.find(key.as_ref()) else {
                    outcome.garbage.extend(last);
                    return None;
                };
                self.delete(slot, last, stale, outcome);
                Some(slot)
            }
        }
    }

    fn upsert(&mut self, object: Arc<K>, values: Vec<Values>, mode: Mode, outcome: &mut Outcome<K>) -> Option<u32> {
        let meta = object.metadata();
        let Some(slot) = self.find(meta.key_ref()) else {
            let slot = self.insert(Arc::clone(&object), values);
            outcome.events.push(Event::Added {
                object,
                initial: mode == Mode::Fill,
            });
            return Some(slot);
        };
        let entry = self.entries[slot as usize].as_mut()?;
        let known = entry.object.metadata();
        if mode != Mode::Rebuild && known.is_unchanged(&meta) {
            outcome.garbage.push(object);
            return None;
        }
        let recreated = !known.uid.is_empty() && !meta.uid.is_empty() && known.uid != meta.uid;
        let old = std::mem::replace(&mut entry.object, Arc::clone(&object));
        for (index, values) in self.indexes.iter_mut().zip(values) {
            index.set(slot, values);
        }
        if recreated {
            // The delete in between was not seen, so the last state of the old object is unknown.
            outcome.events.push(Event::Deleted {
                object: old,
                stale: true,
            });
            outcome.events.push(Event::Added { object, initial: false });
        } else {
            outcome.events.push(Event::Updated { old, new: object });
        }
        Some(slot)
    }

    fn insert(&mut self, object: Arc<K>, values: Vec<Values>) -> u32 {
        let meta = object.metadata();
        let key_ref = meta.key_ref();
        let hash = self.hash(key_ref);
        let namespace = key_ref.namespace.map(|name| {
            self.namespaces
                .get_key_value(name)
                .map_or_else(|| Arc::from(name), |(known, _)| Arc::clone(known))
        });
        let key = ObjectKey {
            namespace,
            name: Arc::from(key_ref.name),
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 objects fit in memory")
        });
        if let Some(namespace) = &key.namespace {
            if let Some(slots) = self.namespaces.get_mut(namespace) {
                slots.insert(slot);
            } else {
                self.namespaces.insert(Arc::clone(namespace), Posting::One(slot));
            }
        }
        self.entries[slot as usize] = Some(Entry { key, object });
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.table.insert_unique(hash, slot, |slot| {
            let key = entries[*slot as usize].as_ref().map(|entry| entry.key.as_ref());
            key.map_or(0, |key| hasher.hash_one(key))
        });
        for (index, values) in self.indexes.iter_mut().zip(values) {
            index.set(slot, values);
        }
        slot
    }

    /// Deletes a slot's object.
    pub(crate) fn delete(&mut self, slot: u32, last: Option<Arc<K>>, stale: bool, outcome: &mut Outcome<K>) {
        let Some(entry) = self.entries[slot as usize].take() else {
            return;
        };
        let hash = self.hash(entry.key.as_ref());
        if let Ok(found) = self.table.find_entry(hash, |known| *known == slot) {
            found.remove();
        }
        if let Some(namespace) = &entry.key.namespace
            && self
                .namespaces
                .get_mut(namespace)
                .is_some_and(|slots| slots.remove(slot))
        {
            self.namespaces.remove(namespace);
        }
        for index in &mut self.indexes {
            index.clear(slot);
        }
        self.free.push(slot);
        let object = match last {
            Some(last) => {
                outcome.garbage.push(entry.object);
                last
            }
            None => entry.object,
        };
        outcome.events.push(Event::Deleted { object, stale });
    }

    pub(crate) fn indexes(&self) -> impl ExactSizeIterator<Item = &IndexDef<K>> {
        self.indexes.iter().map(|table| &table.def)
    }

    /// The number of the index with this name.
    pub(crate) fn index_named(&self, name: &str) -> Option<usize> {
        self.indexes.iter().position(|table| table.def.name() == name)
    }

    pub(crate) fn index(&self, id: usize) -> Option<&IndexTable<K>> {
        self.indexes.get(id)
    }

    /// Appends an index whose values are yet to be computed; [`fill_index`](Self::fill_index) brings them.
    pub(crate) fn push_index(&mut self, def: IndexDef<K>) -> usize {
        self.indexes.push(IndexTable::new(def));
        self.indexes.len() - 1
    }

    /// Objects whose values in this index are not computed yet.
    pub(crate) fn missing_in_index(&self, id: usize) -> Vec<(u32, Arc<K>)> {
        let Some(table) = self.indexes.get(id) else {
            return Vec::new();
        };
        let missing = self.iter().filter(|(slot, _)| !table.is_computed(*slot));
        missing.map(|(slot, object)| (slot, Arc::clone(object))).collect()
    }

    /// Sets computed values, except where the object has changed since (then its writer has set them).
    /// Returns the objects, to be dropped once the lock is released.
    pub(crate) fn fill_index(&mut self, id: usize, computed: Vec<(u32, Arc<K>, Values)>) -> Vec<Arc<K>> {
        let mut garbage = Vec::with_capacity(computed.len());
        for (slot, object, values) in computed {
            let current = self.object(slot).is_some_and(|known| Arc::ptr_eq(known, &object));
            if current
                && let Some(table) = self.indexes.get_mut(id)
                && !table.is_computed(slot)
            {
                table.set(slot, values);
            }
            garbage.push(object);
        }
        garbage
    }

    pub(crate) fn by_index(&self, id: usize, value: &str) -> Vec<Arc<K>> {
        self.collect(self.indexes.get(id).and_then(|table| table.lookup(value)))
    }

    /// Panics if an invariant of the tables does not hold.
    #[cfg(test)]
    pub(crate) fn check_invariants(&self) {
        let live: Vec<u32> = self.iter().map(|(slot, _)| slot).collect();
        assert_eq!(live.len(), self.table.len());
        assert_eq!(live.len() + self.free.len(), self.entries.len());
        let mut namespaced = 0;
        for slots in self.namespaces.values() {
            let count = slots.iter().count();
            assert!(count > 0, "an empty namespace set stays");
            namespaced += count;
        }
        let mut expected = 0;
        for slot in &live {
            let entry = self.entry(*slot).unwrap();
            assert_eq!(self.find(entry.key.as_ref()), Some(*slot));
            assert_eq!(entry.object.metadata().key(), entry.key);
            expected += usize::from(entry.key.namespace.is_some());
            for table in &self.indexes {
                for value in table.def.values(&entry.object) {
                    assert!(
                        table
                            .lookup(&value)
                            .is_some_and(|posting| posting.iter().any(|known| known == *slot))
                    );
                }
            }
        }
        assert_eq!(namespaced, expected);
        for table in &self.indexes {
            for value in table.known_values() {
                for slot in table.lookup(value).unwrap().iter() {
                    let object = self.object(slot).expect("an index names an empty slot");
                    assert!(table.def.values(object).contains(value));
                }
            }
        }
    }
}

/// Drops the objects one by one, with panics of their own `Drop` contained.
impl<K> Drop for Store<K> {
    fn drop(&mut self) {
        discard_each(self.entries.drain(..).flatten().map(|entry| entry.object));
    }
}

#[cfg(test)]
mod tests;
