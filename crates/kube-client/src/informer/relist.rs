//! A fresh list on its way into the cache: what differs is held, what is unchanged is only ticked off.
//!
//! Collects the objects of a paged or streaming list until the server says that it is whole, so that readers see the
//! old state until the new one is complete, and the peak of memory stays near the steady state.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::{HashSet, HashTable};

use crate::informer::deferred::discard_each;
use crate::informer::store::Store;
use crate::key::KeyRef;
use crate::object::Object;

/// The list so far.
pub(crate) struct Relist<K> {
    // In the order received; `None` was deleted again before the list was whole.
    fresh: Vec<Option<Arc<K>>>,
    // Invariant: exactly the positions of the `Some` in `fresh`, hashed by key.
    table: HashTable<u32>,
    hasher: RandomState,
    // Slots of the store whose object came again unchanged. Disjoint from the keys in `fresh`.
    kept: HashSet<u32, RandomState>,
    keep_unchanged: bool,
    /// The number of this list, if it asks for the newest state.
    pub(crate) newest: Option<u64>,
}

impl<K: Object> Relist<K> {
    /// An empty list. `keep_unchanged` is false when equal versions may not mean equal objects any more.
    pub(crate) fn new(keep_unchanged: bool) -> Self {
        Self {
            fresh: Vec::new(),
            table: HashTable::new(),
            hasher: RandomState::default(),
            kept: HashSet::default(),
            keep_unchanged,
            newest: None,
        }
    }

    pub(crate) fn keeps_unchanged(&self) -> bool {
        self.keep_unchanged
    }

    fn position(&self, key: KeyRef<'_>) -> Option<u32> {
        let matches = |at: &u32| {
            let object = self.fresh[*at as usize].as_ref();
            object.is_some_and(|object| object.metadata().key_ref() == key)
        };
        self.table.find(self.hasher.hash_one(key), matches).copied()
    }

    /// Takes a received object. Returns what is to be dropped once the store's lock is released.
    #[must_use = "drop it after the lock is released"]
    pub(crate) fn upsert(&mut self, store: &Store<K>, object: Arc<K>) -> [Option<Arc<K>>; 2] {
        let meta = object.metadata();
        if self.keep_unchanged
            && let Some(slot) = store.find_unchanged(&meta)
        {
            self.kept.insert(slot);
            let known = self.discard(meta.key_ref());
            return [known, Some(object)];
        }
        if let Some(slot) = store.find(meta.key_ref()) {
            self.kept.remove(&slot);
        }
        if let Some(at) = self.position(meta.key_ref()) {
            return [self.fresh[at as usize].replace(object), None];
        }
        let at = u32::try_from(self.fresh.len()).expect("fewer than 2^32 objects fit in memory");
        let hash = self.hasher.hash_one(meta.key_ref());
        self.fresh.push(Some(object));
        let (fresh, hasher) = (&self.fresh, &self.hasher);
        self.table.insert_unique(hash, at, |at| {
            let object = fresh[*at as usize].as_ref();
            object.map_or(0, |object| hasher.hash_one(object.metadata().key_ref()))
        });
        [None, None]
    }

    /// The object was deleted before the list was whole. Returns what is to be dropped once the store's lock is released.
    #[must_use = "drop it after the lock is released"]
    pub(crate) fn remove(&mut self, store: &Store<K>, key: KeyRef<'_>) -> Option<Arc<K>> {
        if let Some(slot) = store.find(key) {
            self.kept.remove(&slot);
        }
        self.discard(key)
    }

    /// An object of this key came that cannot be decoded: the last good version of it stays, if there is one. With another
    /// uid it is another object, and the one that is known is gone. After the version went back nothing stays: what is known
    /// may be of a history that was lost, and its version be given out again.
    /// Returns what is to be dropped once the store's lock is released.
    #[must_use = "drop it after the lock is released"]
    pub(crate) fn keep(&mut self, store: &Store<K>, key: KeyRef<'_>, uid: &str) -> Option<Arc<K>> {
        let same = |known: &str| known.is_empty() || uid.is_empty() || known == uid;
        if let Some(at) = self.position(key) {
            let known = self.fresh[at as usize].as_ref();
            if known.is_some_and(|object| !same(object.metadata().uid)) {
                return self.discard(key);
            }
        } else if let Some(slot) = store.find(key) {
            let known = store.object(slot);
            if self.keep_unchanged && known.is_some_and(|object| same(object.metadata().uid)) {
                self.kept.insert(slot);
            } else {
                self.kept.remove(&slot);
            }
        }
        None
    }

    fn discard(&mut self, key: KeyRef<'_>) -> Option<Arc<K>> {
        let at = self.position(key)?;
        if let Ok(found) = self.table.find_entry(self.hasher.hash_one(key), |known| *known == at) {
            found.remove();
        }
        self.fresh[at as usize].take()
    }

    /// How many objects the list has so far.
    pub(crate) fn len(&self) -> usize {
        self.table.len() + self.kept.len()
    }

    /// Whether the list has this key.
    pub(crate) fn contains(&self, slot: u32, key: KeyRef<'_>) -> bool {
        self.kept.contains(&slot) || self.position(key).is_some()
    }

    /// The objects that differ from the store, in the order received.
    pub(crate) fn fresh(&self) -> impl Iterator<Item = &Arc<K>> {
        self.fresh.iter().flatten()
    }
}

/// Drops the objects one by one, with panics of their own `Drop` contained.
impl<K> Drop for Relist<K> {
    fn drop(&mut self) {
        discard_each(self.fresh.drain(..).flatten());
    }
}
