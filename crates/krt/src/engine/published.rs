//! What readers see of a collection: its content as of the last published epoch, and older versions for those who pinned them.
//!
//! # Design
//!
//! Content is by the engine's ids; which keys these are of is shared with the engine, and looked up under the lock of the content: see
//! [`super::key_ids`]. Old versions are by key, since ids are used again.
//!
//! Since when a value is there matters to none but pins that are older, so it is known only of what changed while there were some.
//!
//! Lock order: the pins, a collection's content, its keys. No user code runs under any.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::by_id;
use super::key_ids::KeyIds;
use super::pins;
use super::planted::{self, Bug};
use super::postings::Postings;
use super::store::{Change, Store};
use crate::key::KeyRef;
use crate::sync::{AtomicBool, RwLock};

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
    /// By the engine's ids. Invariant: each id that has a value has the key that it was published under.
    values: Vec<Option<Arc<T>>>,
    /// How many values there are.
    count: usize,
    /// By id: the epoch that published the value, if some pin is older, or was until the engine gets to know that it has gone.
    since: HashMap<u32, u64, foldhash::fast::RandomState>,
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
    keys: Arc<KeyIds>,
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
    pub(crate) fn new(keys: Arc<KeyIds>) -> Self {
        Self {
            keys,
            content: RwLock::new(Content {
                values: Vec::new(),
                count: 0,
                since: HashMap::default(),
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
        let length = store.delta.iter().map(|change| change.id as usize + 1).max();
        by_id::lengthen(&mut content.values, length.unwrap_or(0), || None);
        let values = store.delta.iter().map(|change| &content.values[change.id as usize]);
        by_id::warm(values.map(|value| usize::from(value.is_some())));
        // All pins there are were taken before this epoch.
        let is_pinned = pins.see(0, epoch);
        for Change { id, new, .. } in &store.delta {
            let old = std::mem::replace(&mut content.values[*id as usize], new.clone());
            content.count = content.count + usize::from(new.is_some()) - usize::from(old.is_some());
            let since = if content.since.is_empty() {
                None
            } else {
                content.since.remove(id)
            };
            if is_pinned && new.is_some() {
                content.since.insert(*id, epoch);
            }
            let Some(value) = old else { continue };
            let from = since.unwrap_or(0);
            let is_seen = is_pinned && pins.see(from, epoch) && !planted::has(Bug::ReclaimPinned);
            let key = if is_seen { self.keys.text(*id) } else { None };
            match key {
                Some(key) => content.retained.entry(key).or_default().push(Version {
                    from,
                    until: epoch,
                    value,
                }),
                None => dropped.push(value),
            }
        }
        store.dropped = dropped;
        content.keeps_for_pins()
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
        content.since.retain(|_, since| pins.see(0, *since));
        if content.since.is_empty() {
            content.since = HashMap::default();
        }
        content.keeps_for_pins()
    }

    pub(crate) fn get(&self, hash: u64, key: KeyRef<'_>, at: At) -> Option<Arc<T>> {
        let find = || self.keys.find(hash, key);
        let early = planted::has(Bug::KeyFirst).then(find);
        let content = self.content.read();
        let id = early.unwrap_or_else(find);
        if let Some(value) = id.and_then(|id| content.get(id, at)) {
            return Some(Arc::clone(value));
        }
        let At::Epoch(epoch) = at else { return None };
        if content.retained.is_empty() {
            return None;
        }
        let version = content
            .retained
            .get(&*key.to_arc())?
            .iter()
            .find(|version| version.is_at(epoch))?;
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
        let ids = postings.row(u64::from(value)).iter().copied();
        // What changed since an epoch had its values there, but in another version.
        Some(content.with_keys(ids, &self.keys, at))
    }

    /// All objects with their keys, in no order.
    pub(crate) fn list(&self, at: At) -> Vec<(Arc<str>, Arc<T>)> {
        let content = self.content.read();
        let ids = (0..).zip(&content.values).map(|(id, _)| id);
        content.with_keys(ids, &self.keys, at)
    }

    pub(crate) fn values(&self) -> Vec<Arc<T>> {
        let content = self.content.read();
        content.values.iter().flatten().cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.content.read().count
    }

    /// How many old versions are kept.
    #[cfg(test)]
    pub(crate) fn retained(&self) -> usize {
        self.content.read().retained.values().map(Vec::len).sum()
    }

    /// Of how many values it is known since when they are there.
    #[cfg(test)]
    pub(crate) fn dated(&self) -> usize {
        self.content.read().since.len()
    }

    /// Whether readers see what the engine has.
    #[cfg(test)]
    pub(crate) fn check_invariants(&self, store: &Store<T>) {
        let content = self.content.read();
        assert_eq!(content.count, content.values.iter().flatten().count());
        assert_eq!(content.count, store.len());
        for (id, own) in store.iter() {
            let shown = content.get(id, At::Newest);
            assert!(
                shown.is_some_and(|shown| Arc::ptr_eq(shown, own)),
                "another value is shown"
            );
        }
        assert!(content.since.keys().all(|id| content.get(*id, At::Newest).is_some()));
    }
}

impl<T> Content<T> {
    /// The value of an id, if it is not newer than what is read.
    fn get(&self, id: u32, at: At) -> Option<&Arc<T>> {
        let value = self.values.get(id as usize)?.as_ref()?;
        match at {
            At::Newest => Some(value),
            At::Epoch(epoch) => {
                let since = if self.since.is_empty() {
                    None
                } else {
                    self.since.get(&id)
                };
                since.is_none_or(|since| *since <= epoch).then_some(value)
            }
        }
    }

    /// Those of these objects that are not newer than what is read, with their keys, and all old versions that belong to it.
    fn with_keys(&self, ids: impl Iterator<Item = u32>, keys: &KeyIds, at: At) -> Vec<(Arc<str>, Arc<T>)> {
        let values = ids.filter_map(|id| Some((id, self.get(id, at)?)));
        let mut found = Vec::new();
        keys.with_each(values, |keys, (id, value)| {
            found.extend(keys.get(id).map(|key| (Arc::clone(key), Arc::clone(value))));
        });
        let At::Epoch(epoch) = at else { return found };
        for (key, versions) in &self.retained {
            let seen = versions.iter().filter(|version| version.is_at(epoch));
            found.extend(seen.map(|version| (Arc::clone(key), Arc::clone(&version.value))));
        }
        found
    }

    fn keeps_for_pins(&self) -> bool {
        !self.retained.is_empty() || !self.since.is_empty()
    }
}

impl<T> Version<T> {
    fn is_at(&self, epoch: u64) -> bool {
        self.from <= epoch && epoch < self.until
    }
}
