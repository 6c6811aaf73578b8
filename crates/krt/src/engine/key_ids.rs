//! The keys of one collection, by the ids of its objects.
//!
//! # Design
//!
//! All who have something of an object have it by its id: the engine's store, what readers see, and the buffer in which writes to a
//! source wait. Which key an id is of is known here alone, once for all of them.
//!
//! A key has its id from when somebody means to give it a value, until the epoch is over in which readers lost the last one. So as
//! long as readers see a value under an id, the id is of the key that the value was published under, however ids come and go
//! meanwhile; and a key under which nothing was published yet leads to no value. Who reads values by key therefore locks the
//! values first, and looks here then.
//!
//! Ids are given out and taken back by the engine's thread; those of a source by whoever holds the lock of the ingress.
//!
//! Keys are found by their hashes, which are not kept: a key that goes is hashed again, and when the table grows, all are.
//!
//! Lock order: the ingress, these keys; the pins, a collection's content, these keys. No user code runs under the lock.

use std::sync::Arc;

use hashbrown::HashTable;

use super::by_id;
use super::planted::{self, Bug};
use crate::key::{Hashing, Key, KeyRef};
use crate::sync::{RwLock, RwLockReadGuard};

/// So many keys are looked at under one lock: who writes a new key waits for it, with the ingress locked.
const AT_ONCE: usize = 1_024;

#[derive(Debug, Default)]
struct State {
    /// By id. Invariant: `None` iff the id is in `free`.
    texts: Vec<Option<Arc<str>>>,
    /// Invariant: exactly the ids that have a text.
    table: HashTable<u32>,
    free: Vec<u32>,
}

#[derive(Debug)]
pub(crate) struct KeyIds {
    hashing: Hashing,
    state: RwLock<State>,
}

impl KeyIds {
    pub(crate) fn new(hashing: &Hashing) -> Self {
        Self {
            hashing: hashing.clone(),
            state: RwLock::default(),
        }
    }

    pub(crate) fn find(&self, hash: u64, key: KeyRef<'_>) -> Option<u32> {
        self.state.read().find(hash, key)
    }

    /// The key of an id that has one.
    pub(crate) fn key(&self, id: u32) -> Option<Key> {
        let text = self.text(id)?;
        let hash = self.hash(&text);
        Some(Key { text, hash })
    }

    /// Its text alone.
    pub(crate) fn text(&self, id: u32) -> Option<Arc<str>> {
        self.read().get(id).cloned()
    }

    /// Those of several ids that have keys.
    pub(crate) fn texts(&self, ids: impl Iterator<Item = u32>) -> Vec<Arc<str>> {
        let mut texts = Vec::with_capacity(ids.size_hint().0);
        self.with_each(ids, |keys, id| texts.extend(keys.get(id).cloned()));
        texts
    }

    /// Calls for each item with the keys locked. No user code may be called, nor run by the iterator.
    pub(crate) fn with_each<I>(&self, items: impl Iterator<Item = I>, mut call: impl FnMut(&Texts<'_>, I)) {
        let mut items = items.peekable();
        while items.peek().is_some() {
            let keys = self.read();
            items.by_ref().take(AT_ONCE).for_each(|item| call(&keys, item));
        }
    }

    /// Puts ids that have keys into the order of these.
    pub(crate) fn sort(&self, ids: &mut Vec<u32>) {
        if ids.len() <= AT_ONCE {
            let keys = self.read();
            ids.sort_unstable_by(|one, other| keys.get(*one).cmp(&keys.get(*other)));
            return;
        }
        let mut keyed: Vec<_> = self.texts(ids.iter().copied()).into_iter().zip(ids.drain(..)).collect();
        keyed.sort_unstable();
        ids.extend(keyed.into_iter().map(|(_, id)| id));
    }

    /// The key of an id as it is kept, if it is this one.
    pub(crate) fn share(&self, id: u32, key: KeyRef<'_>) -> Option<Key> {
        let text = self.read().get(id).filter(|text| key.is(text)).cloned()?;
        let hash = self.hashing.key(key);
        Some(Key { text, hash })
    }

    /// All keys, locked.
    pub(crate) fn read(&self) -> Texts<'_> {
        Texts(self.state.read())
    }

    /// The id of a key, a new one if it has none.
    pub(crate) fn reserve(&self, key: &Key) -> u32 {
        let mut state = self.state.write();
        let found = state.find(key.hash, KeyRef::Plain(&key.text));
        found.unwrap_or_else(|| state.insert(&self.hashing, key.clone()))
    }

    /// There will be so many more keys.
    pub(crate) fn expect(&self, more: usize) {
        let mut state = self.state.write();
        by_id::make_room(&mut state.texts, more);
        if state.table.capacity() - state.table.len() < more {
            state.make_room(&self.hashing, more);
        }
    }

    /// Gives an id to a key. Precondition: it has none.
    pub(crate) fn insert(&self, key: Key) -> u32 {
        self.state.write().insert(&self.hashing, key)
    }

    /// Takes ids back, which may be given to others from now on. Those that have no key are passed over.
    pub(crate) fn release(&self, ids: impl Iterator<Item = u32>) {
        let mut state = self.state.write();
        let State { texts, table, free } = &mut *state;
        for id in ids {
            let Some(text) = texts.get_mut(id as usize).and_then(Option::take) else {
                continue;
            };
            if let Ok(entry) = table.find_entry(self.hash(&text), |other| *other == id) {
                entry.remove();
            }
            free.push(id);
        }
    }

    /// The whole key's hash.
    fn hash(&self, text: &str) -> u64 {
        self.hashing.key(KeyRef::Plain(text))
    }

    /// How many keys there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.state.read().table.len()
    }

    /// The ids that have a key.
    #[cfg(test)]
    pub(crate) fn ids(&self) -> Vec<u32> {
        let state = self.state.read();
        let used = (0..).zip(&state.texts).filter(|(_, text)| text.is_some());
        used.map(|(id, _)| id).collect()
    }

    #[cfg(test)]
    pub(crate) fn check_invariants(&self) {
        let state = self.state.read();
        assert_eq!(
            state.table.len() + state.free.len(),
            state.texts.len(),
            "an id has a key or is free"
        );
        assert!(state.free.iter().all(|id| state.texts[*id as usize].is_none()));
        for (id, text) in (0..).zip(&state.texts) {
            let Some(text) = text else { continue };
            assert_eq!(state.find(self.hash(text), KeyRef::Plain(text)), Some(id));
        }
    }
}

impl State {
    fn find(&self, hash: u64, key: KeyRef<'_>) -> Option<u32> {
        let is = |id: &u32| {
            let text = self.texts[*id as usize].as_ref();
            text.is_some_and(|text| key.is(text) || planted::has(Bug::HashOnly))
        };
        self.table.find(hash, is).copied()
    }

    /// A table that grows by itself goes by its own order. In that of the ids, texts follow each other in memory as they were made.
    fn make_room(&mut self, hashing: &Hashing, more: usize) {
        let mut table = HashTable::with_capacity(self.table.len() + more);
        for (id, text) in (0..).zip(&self.texts) {
            if let Some(text) = text {
                let hash = hashing.key(KeyRef::Plain(text));
                table.insert_unique(hash, id, |_| unreachable!("there is room for all"));
            }
        }
        self.table = table;
    }

    fn insert(&mut self, hashing: &Hashing, key: Key) -> u32 {
        let hash_of = |text: &Option<Arc<str>>| text.as_ref().map(|text| hashing.key(KeyRef::Plain(text)));
        if self.table.len() == self.table.capacity() {
            self.make_room(hashing, self.table.len() / 2 + 1);
        }
        let id = match self.free.pop() {
            Some(id) => id,
            None => by_id::push(&mut self.texts, None),
        };
        let texts = &self.texts;
        let hash_of = |id: &u32| hash_of(&texts[*id as usize]).unwrap_or_default();
        self.table.insert_unique(key.hash, id, hash_of);
        self.texts[id as usize] = Some(key.text);
        id
    }
}

/// The keys of a collection, locked.
pub(crate) struct Texts<'a>(RwLockReadGuard<'a, State>);

impl Texts<'_> {
    /// The key of an id that has one.
    pub(crate) fn get(&self, id: u32) -> Option<&Arc<str>> {
        self.0.texts.get(id as usize)?.as_ref()
    }
}

/// The key of one object, for those who nearly never have to know it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyOf<'a> {
    pub(crate) keys: &'a KeyIds,
    pub(crate) id: u32,
}

impl KeyOf<'_> {
    pub(crate) fn hash(self) -> Option<u64> {
        self.keys.read().get(self.id).map(|text| self.keys.hash(text))
    }

    pub(crate) fn is_one_of(self, texts: &[Arc<str>]) -> bool {
        let keys = self.keys.read();
        let own = keys.get(self.id);
        own.is_some_and(|own| texts.contains(own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(keys: &KeyIds, text: &str) -> Key {
        keys.hashing.keep(KeyRef::Plain(text))
    }

    // Seeds are printed, so that a failure can be seen again.
    #[test]
    fn ids_are_given_out_and_taken_back_as_in_a_map() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for hashing in [Hashing::new(), Hashing::weak()] {
            let keys = KeyIds::new(&hashing);
            let mut known = std::collections::BTreeMap::new();
            for _ in 0..3_000 {
                let text = format!("key-{}", random.u32(..200));
                let own = key(&keys, &text);
                assert_eq!(keys.find(own.hash, KeyRef::Plain(&text)), known.get(&text).copied());
                if random.u32(..3) == 0 {
                    let id = known.remove(&text);
                    keys.release(id.into_iter());
                    assert!(id.is_none_or(|id| keys.key(id).is_none()));
                } else {
                    let id = keys.reserve(&own);
                    assert_eq!(*known.entry(text.clone()).or_insert(id), id);
                    assert_eq!(keys.key(id), Some(own.clone()));
                    assert_eq!(keys.share(id, KeyRef::Plain(&text)), Some(own));
                    assert_eq!(keys.share(id, KeyRef::Plain("other")), None);
                }
            }
            keys.check_invariants();
            let mut ids: Vec<u32> = known.into_values().collect();
            ids.sort_unstable();
            assert_eq!(ids, keys.ids(), "no two keys have one id");
        }
    }

    #[test]
    fn ids_are_sorted_by_their_keys_however_many_there_are() {
        let keys = KeyIds::new(&Hashing::new());
        for count in [0, 1, AT_ONCE, 3 * AT_ONCE + 1] {
            let mut ids: Vec<u32> = (0..count)
                .map(|number| keys.reserve(&key(&keys, &number.to_string())))
                .collect();
            fastrand::shuffle(&mut ids);
            keys.sort(&mut ids);
            let mut expected: Vec<String> = (0..count).map(|number| number.to_string()).collect();
            expected.sort();
            let texts = keys.texts(ids.iter().copied());
            assert!(texts.iter().map(|text| &**text).eq(&expected));
        }
    }

    #[test]
    fn ids_that_have_no_key_may_be_taken_back_again() {
        let keys = KeyIds::new(&Hashing::new());
        let id = keys.insert(key(&keys, "a"));
        keys.release([id, id, 7].into_iter());
        keys.check_invariants();
        assert_eq!([keys.reserve(&key(&keys, "b")), keys.reserve(&key(&keys, "c"))], [0, 1]);
    }
}
