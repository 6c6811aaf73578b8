//! A collection whose content the program sets, and the buffer in which its writes wait for the engine.
//!
//! # Design
//!
//! The buffer knows the latest value of each key, so that writes that read (delete what matches) are exact in the program's
//! order. It also gives out the ids of the collection's objects: a key is looked up once, when it is written, and the engine finds
//! the object by number. A key's id is free again once the engine has taken its delete.

use std::any::Any;
use std::sync::Arc;

use hashbrown::HashTable;

use super::super::id::id32;
use super::super::ingress::Buffer;
use super::super::node::{Operator, Run, Step};
use super::super::planted::{self, Bug};
use super::super::store::{Equal, IdsFrom, Store};
use crate::key::Key;

struct Entry<T> {
    key: Key,
    value: Option<Arc<T>>,
    /// Invariant: whether it is in `queued`.
    is_queued: bool,
    /// The engine does not know the key yet.
    is_new: bool,
    /// Dependants and handlers are told even if nothing changed.
    is_touched: bool,
}

/// One key's writes, coalesced.
struct Write<T> {
    id: u32,
    /// Of a key that is new.
    key: Option<Key>,
    value: Option<Arc<T>>,
    is_touched: bool,
}

/// What the engine takes from a buffer.
struct Writes<T> {
    writes: Vec<Write<T>>,
    synced: bool,
}

/// The writes to one source that the engine has not taken.
pub(crate) struct SourceBuffer<T> {
    entries: Vec<Option<Entry<T>>>,
    table: HashTable<u32>,
    free: Vec<u32>,
    queued: Vec<u32>,
    synced: bool,
    /// Counts the writes.
    version: u64,
}

/// Whether an equal value counts as a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    Always,
    IfDifferent,
}

impl<T: Send + Sync + 'static> SourceBuffer<T> {
    pub(crate) fn new(synced: bool) -> Self {
        Self {
            entries: Vec::new(),
            table: HashTable::new(),
            free: Vec::new(),
            queued: Vec::new(),
            synced,
            version: 0,
        }
    }

    fn find(&self, hash: u64, key: &str) -> Option<u32> {
        let is = |id: &u32| {
            let entry = self.entries[*id as usize].as_ref();
            entry.is_some_and(|entry| *entry.key.text == *key)
        };
        self.table.find(hash, is).copied()
    }

    /// Sets a key's value; returns the one before, to be dropped without the lock.
    pub(crate) fn set(&mut self, key: &Key, value: Arc<T>, touch: Touch) -> Option<Arc<T>> {
        self.version += 1;
        let id = self
            .find(key.hash, &key.text)
            .unwrap_or_else(|| self.insert(key.clone()));
        self.write(id, Some(value), touch)
    }

    /// Deletes a key; returns its value, to be dropped without the lock.
    pub(crate) fn delete(&mut self, hash: u64, key: &str) -> Option<Arc<T>> {
        self.version += 1;
        let id = self.find(hash, key)?;
        self.write(id, None, Touch::IfDifferent)
    }

    /// Deletes every key.
    pub(crate) fn clear(&mut self) -> Vec<Arc<T>> {
        self.version += 1;
        let live = (0..)
            .zip(&self.entries)
            .filter(|(_, entry)| entry.as_ref().is_some_and(|entry| entry.value.is_some()));
        let live: Vec<u32> = live.map(|(id, _)| id).collect();
        live.into_iter()
            .filter_map(|id| self.write(id, None, Touch::IfDifferent))
            .collect()
    }

    fn insert(&mut self, key: Key) -> u32 {
        let id = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            id32(self.entries.len() - 1)
        });
        let hash = key.hash;
        self.entries[id as usize] = Some(Entry {
            key,
            value: None,
            is_queued: false,
            is_new: true,
            is_touched: false,
        });
        let entries = &self.entries;
        self.table.insert_unique(hash, id, |id| {
            entries[*id as usize].as_ref().map_or(0, |entry| entry.key.hash)
        });
        id
    }

    fn write(&mut self, id: u32, value: Option<Arc<T>>, touch: Touch) -> Option<Arc<T>> {
        let entry = self.entries[id as usize].as_mut().expect("a key that was found");
        // A value that comes after a delete is new, whoever had the key before: it is no touch.
        let touches = touch == Touch::Always && entry.value.is_some();
        entry.is_touched = value.is_some() && (touches || entry.is_touched);
        if !std::mem::replace(&mut entry.is_queued, true) {
            self.queued.push(id);
        }
        std::mem::replace(&mut entry.value, value)
    }

    pub(crate) fn mark_synced(&mut self) {
        self.synced = true;
    }

    /// The latest value of each key.
    pub(crate) fn latest(&self) -> Vec<(Key, Arc<T>)> {
        let live = self.entries.iter().flatten();
        let live = live.filter_map(|entry| Some((entry.key.clone(), Arc::clone(entry.value.as_ref()?))));
        live.collect()
    }

    /// The number of the last write.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }
}

impl<T: Send + Sync + 'static> Buffer for SourceBuffer<T> {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }

    fn take(&mut self) -> Box<dyn Any + Send> {
        let mut writes = Vec::with_capacity(self.queued.len());
        for id in self.queued.drain(..) {
            let place = &mut self.entries[id as usize];
            let Some(entry) = place else { continue };
            entry.is_queued = false;
            let is_new = std::mem::replace(&mut entry.is_new, false);
            if !is_new || entry.value.is_some() {
                writes.push(Write {
                    id,
                    key: is_new.then(|| entry.key.clone()),
                    value: entry.value.clone(),
                    is_touched: std::mem::take(&mut entry.is_touched),
                });
            }
            if entry.value.is_none() {
                let hash = entry.key.hash;
                *place = None;
                if let Ok(found) = self.table.find_entry(hash, |other| *other == id) {
                    found.remove();
                }
                self.free.push(id);
            }
        }
        Box::new(Writes {
            writes,
            synced: self.synced,
        })
    }
}

/// The engine's end of a source.
pub(crate) struct Source<T> {
    equal: Option<Equal<T>>,
    pending: Option<Writes<T>>,
    synced: bool,
}

impl<T> Source<T> {
    /// `equal` tells which writes change nothing; without it, each does.
    pub(crate) fn new(equal: Option<Equal<T>>) -> Self {
        Self {
            equal,
            pending: None,
            synced: false,
        }
    }
}

impl<T: Send + Sync + 'static> Operator<T> for Source<T> {
    fn ingest(&mut self, changes: Box<dyn Any + Send>) {
        if let Ok(writes) = changes.downcast::<Writes<T>>() {
            debug_assert!(self.pending.is_none(), "each cut is run before the next one");
            self.pending = Some(*writes);
        }
    }

    fn run(&mut self, store: &mut Store<T>, _run: &mut Run<'_>) -> Step {
        if let Some(Writes { writes, synced }) = self.pending.take() {
            self.synced |= synced;
            for write in writes {
                if let Some(key) = write.key {
                    store.place(write.id, key);
                }
                match self.equal.filter(|_| !write.is_touched || planted::has(Bug::LostTouch)) {
                    Some(equal) => store.update(write.id, write.value, equal),
                    None => store.put(write.id, write.value),
                }
            }
        }
        Step::Finished { synced: self.synced }
    }

    fn ids(&self) -> IdsFrom {
        IdsFrom::Ingress
    }
}
