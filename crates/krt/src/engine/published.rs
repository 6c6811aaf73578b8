//! What readers see of a collection: its content as of the last published epoch, and older versions for those who pinned them.
//!
//! Lock order: the pins, then a collection's content. No user code runs under either.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hashbrown::{HashMap, HashTable};
use smallvec::SmallVec;

use super::by_id;
use super::pins;
use super::planted::{self, Bug};
use super::postings::Postings;
use super::store::{Change, Store};
use crate::sync::{AtomicBool, RwLock};

#[derive(Debug)]
struct Slot<T> {
    /// Its hash is known to the store.
    key: Arc<str>,
    value: Arc<T>,
    /// The epoch that published the value.
    since: u64,
}

/// A value that was replaced or deleted, and is still pinned.
#[derive(Debug)]
struct Version<T> {
    from: u64,
    /// The first epoch that does not have it any more.
    until: u64,
    value: Arc<T>,
}

#[derive(Debug)]
struct Content<T> {
    /// By the engine's ids.
    slots: Vec<Option<Slot<T>>>,
    /// Invariant: exactly the ids of the filled slots.
    table: HashTable<u32>,
    /// By key. Invariant: each version is seen by a pin, or the pin has just gone and the engine knows.
    retained: HashMap<Arc<str>, Vec<Version<T>>, foldhash::fast::RandomState>,
    /// By number: the objects by the values of an index, from the first lookup on.
    indexes: Vec<Option<Postings>>,
}

/// An object whose values in an index changed.
#[derive(Debug)]
pub(crate) struct Moved {
    pub(crate) index: u32,
    pub(crate) id: u32,
    pub(crate) values: SmallVec<[u64; 1]>,
}

#[derive(Debug)]
pub(crate) struct Published<T> {
    content: RwLock<Content<T>>,
    synced: AtomicBool,
}

/// Which state is read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum At {
    Newest,
    /// An epoch that is pinned for as long as it is read.
    Epoch(u64),
}

impl<T: Send + Sync + 'static> Published<T> {
    pub(crate) fn new() -> Self {
        Self {
            content: RwLock::new(Content {
                slots: Vec::new(),
                table: HashTable::new(),
                retained: HashMap::default(),
                indexes: Vec::new(),
            }),
            synced: AtomicBool::new(false),
        }
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    pub(crate) fn set_synced(&self) {
        self.synced.store(true, Ordering::Release);
    }

    /// Takes an epoch's changes over. What nobody sees any more is left in the store to be dropped. Tells whether anything of
    /// the epochs before is kept.
    pub(crate) fn publish(&self, epoch: u64, store: &mut Store<T>, pins: &pins::State) -> bool {
        if store.delta.is_empty() {
            return false;
        }
        let mut dropped = std::mem::take(&mut store.dropped);
        let mut content = self.content.write();
        let content = &mut *content;
        for Moved { index, id, values } in &store.moved {
            if let Some(Some(postings)) = content.indexes.get_mut(*index as usize) {
                postings.replace(*id, values);
            }
        }
        let slots = store.delta.iter().map(|change| content.slots.get(change.id as usize));
        by_id::warm(slots.map(|slot| usize::from(matches!(slot, Some(Some(_))))));
        for change in &store.delta {
            let Change { id, new, .. } = change;
            let index = *id as usize;
            by_id::lengthen(&mut content.slots, index + 1, || None);
            let place = &mut content.slots[index];
            let old = match (place.as_mut(), new) {
                (Some(slot), Some(new)) => {
                    let value = std::mem::replace(&mut slot.value, Arc::clone(new));
                    let from = std::mem::replace(&mut slot.since, epoch);
                    Some((from, value))
                }
                (Some(_), None) => {
                    let hash = store.changed_key(change).hash;
                    if let Ok(entry) = content.table.find_entry(hash, |other| other == id) {
                        entry.remove();
                    }
                    place.take().map(|slot| (slot.since, slot.value))
                }
                (None, Some(new)) => {
                    let key = store.changed_key(change);
                    *place = Some(Slot {
                        key: Arc::clone(&key.text),
                        value: Arc::clone(new),
                        since: epoch,
                    });
                    let hash = |id: &u32| store.key(*id).map_or(0, |key| key.hash);
                    content.table.insert_unique(key.hash, *id, hash);
                    None
                }
                (None, None) => None,
            };
            let Some((from, value)) = old else { continue };
            if pins.see(from, epoch) && !planted::has(Bug::ReclaimPinned) {
                let versions = content
                    .retained
                    .entry(Arc::clone(&store.changed_key(change).text))
                    .or_default();
                versions.push(Version {
                    from,
                    until: epoch,
                    value,
                });
            } else {
                dropped.push(value);
            }
        }
        store.dropped = dropped;
        !content.retained.is_empty()
    }

    /// Gives up the versions that no pin sees any more; tells whether there are others.
    pub(crate) fn reclaim(&self, pins: &pins::State, dropped: &mut Vec<Arc<T>>) -> bool {
        let mut content = self.content.write();
        content.retained.retain(|_, versions| {
            for index in (0..versions.len()).rev() {
                if !pins.see(versions[index].from, versions[index].until) {
                    dropped.push(versions.swap_remove(index).value);
                }
            }
            !versions.is_empty()
        });
        !content.retained.is_empty()
    }

    pub(crate) fn get(&self, hash: u64, key: &str, at: At) -> Option<Arc<T>> {
        let content = self.content.read();
        let is = |id: &u32| {
            content.slots[*id as usize]
                .as_ref()
                .is_some_and(|slot| *slot.key == *key)
        };
        let slot = content.table.find(hash, is);
        let slot = slot.and_then(|id| content.slots[*id as usize].as_ref());
        if let Some(slot) = slot.filter(|slot| at.includes(slot.since)) {
            return Some(Arc::clone(&slot.value));
        }
        let At::Epoch(epoch) = at else { return None };
        let version = content.retained.get(key)?.iter().find(|version| version.is_at(epoch))?;
        Some(Arc::clone(&version.value))
    }

    /// Keeps an index for lookups from now on.
    pub(crate) fn add_index(&self, number: u32, postings: Postings) {
        let mut content = self.content.write();
        let number = number as usize;
        if number >= content.indexes.len() {
            content.indexes.resize_with(number + 1, || None);
        }
        content.indexes[number] = Some(postings);
    }

    pub(crate) fn drop_indexes(&self) {
        self.content.write().indexes.clear();
    }

    /// Objects with their keys, all those that have a value among them. `None` if the index is not kept for lookups.
    pub(crate) fn lookup(&self, number: u32, value: u32, at: At) -> Option<Vec<(Arc<str>, Arc<T>)>> {
        let content = self.content.read();
        let postings = content.indexes.get(number as usize)?.as_ref()?;
        let slots = postings.row(u64::from(value)).iter();
        let slots = slots.filter_map(|id| content.slots[*id as usize].as_ref());
        // What changed since an epoch had its values there, but in another version.
        let slots = slots.filter(|slot| at.includes(slot.since));
        let mut found: Vec<_> = slots
            .map(|slot| (Arc::clone(&slot.key), Arc::clone(&slot.value)))
            .collect();
        content.add_retained(at, &mut found);
        Some(found)
    }

    /// All objects with their keys, in no order.
    pub(crate) fn list(&self, at: At) -> Vec<(Arc<str>, Arc<T>)> {
        let content = self.content.read();
        let slots = content.slots.iter().flatten().filter(|slot| at.includes(slot.since));
        let mut all: Vec<_> = slots
            .map(|slot| (Arc::clone(&slot.key), Arc::clone(&slot.value)))
            .collect();
        content.add_retained(at, &mut all);
        all
    }

    pub(crate) fn values(&self) -> Vec<Arc<T>> {
        let content = self.content.read();
        content
            .slots
            .iter()
            .flatten()
            .map(|slot| Arc::clone(&slot.value))
            .collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.content.read().table.len()
    }

    /// How many old versions are kept.
    #[cfg(test)]
    pub(crate) fn retained(&self) -> usize {
        self.content.read().retained.values().map(Vec::len).sum()
    }
}

impl<T> Content<T> {
    /// Adds the old versions that an epoch sees.
    fn add_retained(&self, at: At, found: &mut Vec<(Arc<str>, Arc<T>)>) {
        let At::Epoch(epoch) = at else { return };
        for (key, versions) in &self.retained {
            let seen = versions.iter().filter(|version| version.is_at(epoch));
            found.extend(seen.map(|version| (Arc::clone(key), Arc::clone(&version.value))));
        }
    }
}

impl At {
    fn includes(self, since: u64) -> bool {
        match self {
            Self::Newest => true,
            Self::Epoch(epoch) => since <= epoch,
        }
    }
}

impl<T> Version<T> {
    fn is_at(&self, epoch: u64) -> bool {
        self.from <= epoch && epoch < self.until
    }
}
