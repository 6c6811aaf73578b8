//! A collection whose content comes from outside, and the buffer in which what is written to it waits for the engine.
//!
//! # Design
//!
//! The buffer knows the latest value of each key, so that writes that read (delete what matches) are exact in the program's
//! order. It also gives out the ids of the collection's objects: a key is looked up once, when it is written, and the engine finds
//! the object by number. A key's id is free again once the engine has taken its delete.
//!
//! What fills a source may be an upstream with a life of its own, which the engine's end of the source ends: see
//! [`Source::fed_by`].

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashTable;

use super::super::by_id;
use super::super::ingress::Buffer;
use super::super::node::{Operator, Run, Step};
use super::super::planted::{self, Bug};
use super::super::spare;
use super::super::store::{Equal, IdsFrom, Store};
use crate::key::{Key, KeyRef};
use crate::sync::Mutex;

struct Entry<T> {
    key: Key,
    value: Option<Arc<T>>,
    /// Invariant: whether it is in `queued`.
    is_queued: bool,
    /// The engine does not know the key yet.
    is_new: bool,
    /// Of the writes since the engine took the last one.
    touch: Touch,
}

/// One key's writes, coalesced.
struct Write<T> {
    id: u32,
    /// Of a key that is new.
    key: Option<Key>,
    value: Option<Arc<T>>,
    touch: Touch,
}

/// What the engine takes from a buffer.
struct Writes<T> {
    lists: Lists<T>,
    synced: bool,
    /// Where to give the lists back, for their memory.
    home: Home<T>,
}

struct Lists<T> {
    writes: Vec<Write<T>>,
    /// The values that the engine knew, and that are to be dropped: at its leisure, so that who writes does not have to touch them. One for
    /// each key at most.
    replaced: Vec<Arc<T>>,
}

impl<T> Default for Lists<T> {
    fn default() -> Self {
        Self {
            writes: Vec::new(),
            replaced: Vec::new(),
        }
    }
}

/// Lists that are empty, if the engine has given them back.
type Home<T> = Arc<Mutex<Lists<T>>>;

/// The writes to one source that the engine has not taken.
pub(crate) struct SourceBuffer<T> {
    entries: Vec<Option<Entry<T>>>,
    table: HashTable<u32>,
    free: Vec<u32>,
    queued: Vec<u32>,
    /// See [`Lists`].
    replaced: Vec<Arc<T>>,
    home: Home<T>,
    synced: bool,
    /// Counts the writes.
    version: u64,
    /// Set if it counts as synced only because its time was up.
    timed_out: Arc<AtomicBool>,
}

/// Whether an equal value counts as a change. Of several writes to a key, the last one in this order counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Touch {
    /// If it is not equal.
    IfDifferent,
    /// If it is not the same value in the same place.
    IfOther,
    /// In any case: dependants and handlers are told even if nothing changed.
    Always,
}

impl<T: Send + Sync + 'static> SourceBuffer<T> {
    pub(crate) fn new(synced: bool) -> Self {
        Self {
            entries: Vec::new(),
            table: HashTable::new(),
            free: Vec::new(),
            queued: Vec::new(),
            replaced: Vec::new(),
            home: Arc::default(),
            synced,
            version: 0,
            timed_out: Arc::default(),
        }
    }

    /// Whether the source counts as synced only because its time was up. Shared by all who ask.
    pub(crate) fn timed_out(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.timed_out)
    }

    fn find(&self, hash: u64, key: KeyRef<'_>) -> Option<u32> {
        let is = |id: &u32| {
            let entry = self.entries[*id as usize].as_ref();
            entry.is_some_and(|entry| key.is(&entry.key.text))
        };
        self.table.find(hash, is).copied()
    }

    /// Sets a key's value; returns the one before if the engine did not get it, to be dropped without the lock.
    pub(crate) fn set(&mut self, key: &Key, value: Arc<T>, touch: Touch) -> Option<Arc<T>> {
        self.version += 1;
        let id = self
            .find(key.hash, KeyRef::Plain(&key.text))
            .unwrap_or_else(|| self.insert(key.clone()));
        self.write(id, Some(value), touch)
    }

    /// [`set`](Self::set) for a key that is lent, and kept only if it is new.
    pub(crate) fn set_lent(&mut self, hash: u64, key: KeyRef<'_>, value: Arc<T>, touch: Touch) -> Option<Arc<T>> {
        self.version += 1;
        let id = self.find(hash, key).unwrap_or_else(|| {
            let text = key.to_arc();
            self.insert(Key { text, hash })
        });
        self.write(id, Some(value), touch)
    }

    /// Deletes a key; returns its value if the engine did not get it, to be dropped without the lock.
    pub(crate) fn delete(&mut self, hash: u64, key: KeyRef<'_>) -> Option<Arc<T>> {
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
        let free = self.free.pop();
        let id = free.unwrap_or_else(|| by_id::push(&mut self.entries, None));
        let hash = key.hash;
        self.entries[id as usize] = Some(Entry {
            key,
            value: None,
            is_queued: false,
            is_new: true,
            touch: Touch::IfDifferent,
        });
        let entries = &self.entries;
        self.table.insert_unique(hash, id, |id| {
            entries[*id as usize].as_ref().map_or(0, |entry| entry.key.hash)
        });
        id
    }

    fn write(&mut self, id: u32, value: Option<Arc<T>>, touch: Touch) -> Option<Arc<T>> {
        let entry = self.entries[id as usize].as_mut().expect("a key that was found");
        entry.touch = match (&entry.value, &value) {
            (_, None) => Touch::IfDifferent,
            // A value that comes after a delete is new, whoever had the key before: it is no touch.
            (None, Some(_)) if touch == Touch::Always => Touch::IfDifferent,
            (None, Some(_)) => touch,
            (Some(_), Some(_)) => touch.max(entry.touch),
        };
        let old = std::mem::replace(&mut entry.value, value);
        if std::mem::replace(&mut entry.is_queued, true) {
            return old;
        }
        self.queued.push(id);
        self.replaced.extend(old);
        None
    }

    pub(crate) fn mark_synced(&mut self) {
        self.synced = true;
        self.timed_out.store(false, Ordering::Release);
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

    #[cfg(test)]
    fn live(&self) -> usize {
        assert_eq!(self.entries.len() - self.free.len(), self.table.len());
        self.table.len()
    }

    fn take(&mut self) -> Box<dyn Any + Send> {
        let home = Arc::clone(&self.home);
        let Lists { mut writes, replaced } = std::mem::take(&mut *home.lock());
        let replaced = std::mem::replace(&mut self.replaced, replaced);
        writes.reserve(self.queued.len());
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
                    touch: std::mem::replace(&mut entry.touch, Touch::IfDifferent),
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
        spare::keep(&mut self.queued);
        Box::new(Writes {
            lists: Lists { writes, replaced },
            synced: self.synced,
            home,
        })
    }

    fn time_is_up(&mut self) {
        if !std::mem::replace(&mut self.synced, true) {
            self.timed_out.store(true, Ordering::Release);
        }
    }
}

/// The engine's end of a source.
pub(crate) struct Source<T> {
    equal: Option<Equal<T>>,
    same: Option<Equal<T>>,
    pending: Option<Writes<T>>,
    synced: bool,
    /// What fills the source; dropped with it.
    upstream: Option<Box<dyn Any + Send>>,
}

impl<T> Source<T> {
    /// `equal` tells which writes change nothing; without it, each does.
    pub(crate) fn new(equal: Option<Equal<T>>) -> Self {
        Self {
            equal,
            same: None,
            pending: None,
            synced: false,
            upstream: None,
        }
    }

    /// The source is filled by something that ends when it is dropped, which happens when the source is stopped or goes.
    pub(crate) fn fed_by(mut self, upstream: Box<dyn Any + Send>) -> Self {
        debug_assert!(self.upstream.is_none(), "one upstream for each source");
        self.upstream = Some(upstream);
        self
    }

    /// Handlers are told if a key's value is not the same individual any more, which `same` tells.
    pub(crate) fn telling_apart(mut self, same: Equal<T>) -> Self {
        self.same = Some(same);
        self
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
        if let Some(Writes {
            mut lists,
            synced,
            home,
        }) = self.pending.take()
        {
            self.synced |= synced;
            store.dropped.append(&mut lists.replaced);
            by_id::warm(lists.writes.iter().map(|write| store.peek(write.id)));
            for write in lists.writes.drain(..) {
                if let Some(key) = write.key {
                    store.place(write.id, key);
                }
                let equal: Option<Equal<T>> = match write.touch {
                    Touch::Always if !planted::has(Bug::LostTouch) => None,
                    Touch::IfOther if !planted::has(Bug::LostVersion) => Some(|_, _| false),
                    _ => self.equal,
                };
                match equal {
                    Some(equal) => store.update(write.id, write.value, equal),
                    None => store.put(write.id, write.value),
                }
            }
            spare::keep(&mut lists.writes);
            spare::keep(&mut lists.replaced);
            *home.lock() = lists;
        }
        Step::Finished { synced: self.synced }
    }

    fn ids(&self) -> IdsFrom {
        IdsFrom::Ingress
    }

    fn same(&self) -> Option<Equal<T>> {
        self.same
    }
}
