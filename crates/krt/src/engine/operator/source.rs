//! A collection whose content comes from outside, and the buffer in which what is written to it waits for the engine.
//!
//! # Design
//!
//! The buffer knows the latest value of each key, so that writes that read (delete what matches) are exact in the program's
//! order. It also gives out the ids of the collection's objects: a key is looked up once, when it is written, and the engine finds
//! the object by number. A key's id is free again at the end of the epoch in which the engine took its delete, unless the key was
//! written to meanwhile.
//!
//! Who writes puts down what the engine is to do, and the engine takes that as it is: it touches nothing of the buffer's tables, which
//! are near to who writes and far from the engine's thread.
//!
//! What fills a source may be an upstream with a life of its own, which the engine's end of the source ends: see
//! [`Source::fed_by`].

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::by_id;
use super::super::id::id32;
use super::super::ingress::Buffer;
use super::super::key_ids::KeyIds;
use super::super::node::{Operator, Run, Step};
use super::super::planted::{self, Bug};
use super::super::spare;
use super::super::store::{Equal, Store};
use crate::key::{Hashing, Key, KeyRef};
use crate::sync::Mutex;

/// One key's writes, coalesced.
struct Write<T> {
    id: u32,
    touch: Touch,
    value: Option<Arc<T>>,
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
    keys: Arc<KeyIds>,
    /// By id: what was written last. `None` if that was a delete, or the id has no key.
    values: Vec<Option<Arc<T>>>,
    /// By id: its place in the list of writes, if it was written to since the engine took the last ones: then, and only then, the id is
    /// there.
    places: Vec<u32>,
    /// What the engine is to take. Invariant: at most one write for each id.
    lists: Lists<T>,
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
    pub(crate) fn new(hashing: &Hashing, synced: bool) -> Self {
        Self {
            keys: Arc::new(KeyIds::new(hashing)),
            values: Vec::new(),
            places: Vec::new(),
            lists: Lists::default(),
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

    /// Sets a key's value; returns the one before if the engine did not get it, to be dropped without the lock.
    pub(crate) fn set(&mut self, key: &Key, value: Arc<T>, touch: Touch) -> Option<Arc<T>> {
        let found = self.keys.find(key.hash, KeyRef::Plain(&key.text));
        let id = found.unwrap_or_else(|| self.keys.insert(key.clone()));
        self.write(id, Some(value), touch)
    }

    /// [`set`](Self::set) for a key that is lent, and kept only if it is new.
    pub(crate) fn set_lent(&mut self, hash: u64, key: KeyRef<'_>, value: Arc<T>, touch: Touch) -> Option<Arc<T>> {
        let id = self.keys.find(hash, key).unwrap_or_else(|| {
            let text = key.to_arc();
            self.keys.insert(Key { text, hash })
        });
        self.write(id, Some(value), touch)
    }

    /// Deletes a key; returns its value if the engine did not get it, to be dropped without the lock.
    pub(crate) fn delete(&mut self, hash: u64, key: KeyRef<'_>) -> Option<Arc<T>> {
        let id = self.keys.find(hash, key)?;
        self.write(id, None, Touch::IfDifferent)
    }

    /// Deletes every key.
    pub(crate) fn clear(&mut self) -> Vec<Arc<T>> {
        let live = (0..).zip(&self.values).filter(|(_, value)| value.is_some());
        let live: Vec<u32> = live.map(|(id, _)| id).collect();
        live.into_iter()
            .filter_map(|id| self.write(id, None, Touch::IfDifferent))
            .collect()
    }

    /// Writes to an id that has a key.
    fn write(&mut self, id: u32, value: Option<Arc<T>>, touch: Touch) -> Option<Arc<T>> {
        self.version += 1;
        let index = id as usize;
        by_id::lengthen(&mut self.values, index + 1, || None);
        by_id::lengthen(&mut self.places, index + 1, || 0);
        let (own, place) = (&mut self.values[index], &mut self.places[index]);
        if own.is_none() && value.is_none() {
            // The engine gets its delete already, or has it.
            return None;
        }
        let queued = self.lists.writes.get_mut(*place as usize);
        let mut queued = queued.filter(|write| write.id == id);
        let touch = match (&*own, &value) {
            (_, None) => Touch::IfDifferent,
            // A value that comes after a delete is new, whoever had the key before: it is no touch.
            (None, Some(_)) if touch == Touch::Always => Touch::IfDifferent,
            (None, Some(_)) => touch,
            (Some(_), Some(_)) => queued.as_ref().map_or(touch, |write| touch.max(write.touch)),
        };
        let old = std::mem::replace(own, value.clone());
        if let Some(queued) = &mut queued {
            queued.touch = touch;
            // The same one as `old`, which is therefore not the last one to be dropped here.
            queued.value = value;
            return old;
        }
        *place = id32(self.lists.writes.len());
        self.lists.writes.push(Write { id, touch, value });
        self.lists.replaced.extend(old);
        None
    }

    pub(crate) fn mark_synced(&mut self) {
        self.synced = true;
        self.timed_out.store(false, Ordering::Release);
    }

    /// The latest value of each key.
    pub(crate) fn latest(&self) -> Vec<(Key, Arc<T>)> {
        let live = (0..).zip(&self.values);
        let live = live.filter_map(|(id, value)| Some((self.keys.key(id)?, Arc::clone(value.as_ref()?))));
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
        self.keys.len()
    }

    fn is_kept(&self, id: u32) -> bool {
        let place = self.places.get(id as usize);
        let write = place.and_then(|place| self.lists.writes.get(*place as usize));
        write.is_some_and(|write| write.id == id)
    }

    fn take(&mut self) -> Box<dyn Any + Send> {
        let home = Arc::clone(&self.home);
        let empty = std::mem::take(&mut *home.lock());
        Box::new(Writes {
            lists: std::mem::replace(&mut self.lists, empty),
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
    keys: Arc<KeyIds>,
    equal: Option<Equal<T>>,
    same: Option<Equal<T>>,
    pending: Option<Writes<T>>,
    synced: bool,
    /// What fills the source; dropped with it.
    upstream: Option<Box<dyn Any + Send>>,
}

impl<T> Source<T> {
    /// `equal` tells which writes change nothing; without it, each does.
    pub(crate) fn new(buffer: &SourceBuffer<T>, equal: Option<Equal<T>>) -> Self {
        Self {
            keys: Arc::clone(&buffer.keys),
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
            if let Some(last) = lists.writes.iter().map(|write| write.id).max() {
                store.make_room(last);
            }
            by_id::warm(lists.writes.iter().map(|write| store.peek(write.id)));
            for write in lists.writes.drain(..) {
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

    fn keys(&self) -> Option<&Arc<KeyIds>> {
        Some(&self.keys)
    }

    fn same(&self) -> Option<Equal<T>> {
        self.same
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: KeyRef<'_> = KeyRef::Plain("a");

    fn buffer() -> (SourceBuffer<i64>, Key) {
        let hashing = Hashing::new();
        (SourceBuffer::new(&hashing, true), hashing.keep(A))
    }

    fn take(buffer: &mut SourceBuffer<i64>) -> Writes<i64> {
        *buffer.take().downcast().unwrap()
    }

    // Who decides by what there is looks at this number before and after.
    #[test]
    fn every_write_counts() {
        let (mut buffer, key) = buffer();
        let mut versions = vec![buffer.version()];
        buffer.set(&key, Arc::new(1), Touch::IfDifferent);
        versions.push(buffer.version());
        buffer.set_lent(key.hash, A, Arc::new(2), Touch::IfDifferent);
        versions.push(buffer.version());
        buffer.delete(key.hash, A);
        versions.push(buffer.version());
        buffer.delete(key.hash, A);
        buffer.clear();
        versions.push(buffer.version());
        buffer.set(&key, Arc::new(3), Touch::IfDifferent);
        buffer.clear();
        versions.push(buffer.version());
        take(&mut buffer);
        versions.push(buffer.version());
        assert_eq!(versions, [0, 1, 2, 3, 4, 6, 6]);
    }

    // A touch is of the value that is there. Another version is another one also if the key was deleted in between.
    #[test]
    fn what_a_write_after_a_delete_counts_as() {
        for (touch, expected) in [
            (Touch::IfDifferent, Touch::IfDifferent),
            (Touch::IfOther, Touch::IfOther),
            (Touch::Always, Touch::IfDifferent),
        ] {
            let (mut buffer, key) = buffer();
            buffer.set(&key, Arc::new(1), Touch::IfDifferent);
            take(&mut buffer);
            buffer.delete(key.hash, A);
            buffer.set(&key, Arc::new(1), touch);
            let writes = take(&mut buffer).lists.writes;
            assert_eq!(writes.iter().map(|write| write.touch).collect::<Vec<_>>(), [expected]);
            // And the next one begins anew.
            buffer.set(&key, Arc::new(1), Touch::IfDifferent);
            assert_eq!(take(&mut buffer).lists.writes[0].touch, Touch::IfDifferent);
        }
    }

    #[test]
    fn a_source_whose_time_is_up_counts_as_synced_and_says_so_until_it_is() {
        let mut buffer = SourceBuffer::<i64>::new(&Hashing::new(), false);
        let timed_out = buffer.timed_out();
        assert!(!take(&mut buffer).synced);
        buffer.time_is_up();
        assert!(take(&mut buffer).synced && timed_out.load(Ordering::Acquire));
        buffer.mark_synced();
        assert!(take(&mut buffer).synced && !timed_out.load(Ordering::Acquire));
        buffer.time_is_up();
        assert!(!timed_out.load(Ordering::Acquire), "it was in time");
    }

    #[test]
    fn what_waits_is_bounded_by_the_number_of_keys() {
        let hashing = Hashing::weak();
        let mut buffer = SourceBuffer::new(&hashing, true);
        let set = |buffer: &mut SourceBuffer<u32>, key: &str, value| {
            let hash = hashing.key(key.into());
            drop(buffer.set_lent(hash, key.into(), Arc::new(value), Touch::IfDifferent));
        };
        set(&mut buffer, "old", 0);
        drop(buffer.take());
        for value in 0..100 {
            for key in ["old", "new"] {
                set(&mut buffer, key, value);
                drop(buffer.delete(hashing.key(key.into()), key.into()));
            }
        }
        assert_eq!(buffer.lists.writes.len(), 2);
        assert_eq!(buffer.lists.replaced.len(), 1, "what the engine had");
        assert_eq!(buffer.live(), 2);
    }
}
