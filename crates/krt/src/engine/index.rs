//! A secondary index of a collection: which objects have which values.
//!
//! # Design
//!
//! Values are interned: each has an id for as long as an object has it, as readers see the object, a dependency asks for it, or a query
//! is on its way. Postings and dependencies then deal in numbers. Values that nobody holds are swept when there may be as many of them
//! as of others, so that the cost of a sweep is paid by the inserts before it.

use std::borrow::Borrow;
use std::hash::Hash;
use std::sync::Arc;

use hashbrown::HashTable;
use smallvec::SmallVec;

use super::by_id;
use super::id::id32;
use super::panics;
use super::spare;
use super::store::StoreIndex;
use crate::index::Keys;
use crate::key::Hashing;
use crate::spec::IndexValue;
use crate::sync::Mutex;

/// The user's code: names the values of an object.
pub(crate) type Extract<K, T> = dyn Fn(&T, &mut Keys<'_, K>) + Send + Sync;

/// What takes the values that are named.
pub(crate) trait Sink<K> {
    fn push(&mut self, key: K);
    /// Takes a value if it is known. `is` tells whether one is it, `hash` gives its hash.
    fn push_known(&mut self, hash: &dyn Fn(&Hashing) -> u64, is: &dyn Fn(&K) -> bool) -> bool;
}

/// What a type must be to be the value of an index.
pub(crate) trait IndexKey: Eq + Hash + Clone + Send + Sync + 'static {}

impl<K: Eq + Hash + Clone + Send + Sync + 'static> IndexKey for K {}

pub(crate) struct Value<K, T> {
    pub(crate) id: u32,
    hash: u64,
    pub(crate) key: K,
    extract: Arc<Extract<K, T>>,
}

impl<K: IndexKey, T: 'static> IndexValue<T> for Value<K, T> {
    fn is_of(&self, object: &T) -> bool {
        let mut wanted = Wanted {
            key: &self.key,
            found: false,
        };
        // An object about which the user's code panics is not in the index, whoever asks.
        let named = panics::contain(|| (self.extract)(object, &mut Keys::new(&mut wanted)));
        named.is_ok() && wanted.found
    }
}

/// Looks for one value among those that are named.
struct Wanted<'a, K> {
    key: &'a K,
    found: bool,
}

impl<K: IndexKey> Sink<K> for Wanted<'_, K> {
    fn push(&mut self, key: K) {
        self.found |= key == *self.key;
    }

    fn push_known(&mut self, _: &dyn Fn(&Hashing) -> u64, is: &dyn Fn(&K) -> bool) -> bool {
        self.found |= is(self.key);
        true
    }
}

struct State<K, T> {
    /// Invariant: holds each value that anybody else holds.
    table: HashTable<Arc<Value<K, T>>>,
    free: Vec<u32>,
    next: u32,
    /// The number of values at which the next sweep is due.
    sweep_at: usize,
}

impl<K, T> State<K, T> {
    /// Takes out the values that nobody holds, if there may be many; they are to be dropped without the lock.
    fn sweep_if_due(&mut self) -> Vec<Arc<Value<K, T>>> {
        if self.table.len() < self.sweep_at {
            return Vec::new();
        }
        // Who holds none cannot come by one while the lock is held.
        let swept = self.table.extract_if(|value| Arc::strong_count(value) == 1);
        let swept: Vec<_> = swept.collect();
        self.free.extend(swept.iter().map(|value| value.id));
        self.sweep_at = FEW.max(2 * self.table.len());
        swept
    }
}

/// The values of one index, shared by the engine and the handles of the index.
pub(crate) struct Values<K, T> {
    hashing: Hashing,
    extract: Arc<Extract<K, T>>,
    state: Mutex<State<K, T>>,
}

/// Below this, nobody minds what is left over.
const FEW: usize = 64;

impl<K: IndexKey, T: 'static> Values<K, T> {
    pub(crate) fn new(hashing: Hashing, extract: Arc<Extract<K, T>>) -> Self {
        Self {
            hashing,
            extract,
            state: Mutex::new(State {
                table: HashTable::new(),
                free: Vec::new(),
                next: 0,
                sweep_at: FEW,
            }),
        }
    }

    /// The value that equals `key`. Under the lock, the key's `Eq` and `to_owned` are called.
    pub(crate) fn intern<Q>(&self, key: &Q) -> Arc<Value<K, T>>
    where
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        K: Borrow<Q>,
    {
        let hash = self.hashing.of(key);
        let mut state = self.state.lock();
        let found = state.table.find(hash, |value| value.key.borrow() == key);
        if let Some(found) = found {
            return Arc::clone(found);
        }
        // Who asks for values that no object has may do so without end, and without the engine's doing anything.
        let swept = state.sweep_if_due();
        let id = state.free.pop().unwrap_or_else(|| {
            state.next += 1;
            state.next - 1
        });
        let value = Arc::new(Value {
            id,
            hash,
            key: key.to_owned(),
            extract: Arc::clone(&self.extract),
        });
        state.table.insert_unique(hash, Arc::clone(&value), |value| value.hash);
        drop(state);
        panics::drop_each(swept);
        value
    }

    /// The value that `is` tells, if it is known. Under the lock, the key's `Eq` is called.
    fn find(&self, hash: u64, is: &dyn Fn(&K) -> bool) -> Option<Arc<Value<K, T>>> {
        let state = self.state.lock();
        state.table.find(hash, |value| is(&value.key)).cloned()
    }

    fn sweep_if_due(&self) {
        let swept = self.state.lock().sweep_if_due();
        panics::drop_each(swept);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.state.lock().table.len()
    }

    /// How many values somebody holds; those that nobody does are swept when they are many.
    #[cfg(test)]
    fn held(&self) -> usize {
        let state = self.state.lock();
        assert!(state.table.len() <= state.sweep_at);
        let held = state.table.iter().filter(|value| Arc::strong_count(value) > 1);
        held.count()
    }
}

/// One value of one object.
struct Held<K, T> {
    value: Arc<Value<K, T>>,
    /// The object's place in the value's posting list.
    position: u32,
}

/// The values of one object.
type Several<K, T> = SmallVec<[Arc<Value<K, T>>; 1]>;

/// Gathers the values that are named for an object, given those that it had. Nothing is looked up, or counted, for as long as they
/// are the same.
struct Found<'a, K, T> {
    values: &'a Values<K, T>,
    held: &'a [Held<K, T>],
    /// How many of the first ones are those that are held.
    same: usize,
    /// The others, from there on.
    others: Several<K, T>,
}

impl<K: IndexKey, T: 'static> Found<'_, K, T> {
    fn is_next(&mut self, is: impl FnOnce(&K) -> bool) -> bool {
        let next = self.held.get(self.same).filter(|_| self.others.is_empty());
        let is_next = next.is_some_and(|held| is(&held.value.key));
        self.same += usize::from(is_next);
        is_next
    }

    /// The values, unless they are those that are held.
    fn changed(self) -> Option<Several<K, T>> {
        if self.others.is_empty() && self.same == self.held.len() {
            return None;
        }
        let same = self.held[..self.same].iter().map(|held| Arc::clone(&held.value));
        Some(same.chain(self.others).collect())
    }
}

impl<K: IndexKey, T: 'static> Sink<K> for Found<'_, K, T> {
    fn push(&mut self, key: K) {
        if !self.is_next(|next| *next == key) {
            self.others.push(self.values.intern(&key));
        }
    }

    fn push_known(&mut self, hash: &dyn Fn(&Hashing) -> u64, is: &dyn Fn(&K) -> bool) -> bool {
        if self.is_next(is) {
            return true;
        }
        let known = self.values.find(hash(&self.values.hashing), is);
        let is_known = known.is_some();
        self.others.extend(known);
        is_known
    }
}

/// The engine's end of an index.
pub(crate) struct TypedIndex<K, T> {
    values: Arc<Values<K, T>>,
    /// By object: the values it has, each once.
    held: Vec<SmallVec<[Held<K, T>; 1]>>,
    /// By value: the objects that have it.
    postings: Vec<Vec<u32>>,
    /// The values that objects lost in this epoch: until it is published, readers look them up by the ids that they have.
    lost: Vec<Arc<Value<K, T>>>,
}

impl<K: IndexKey, T: 'static> TypedIndex<K, T> {
    pub(crate) fn new(values: Arc<Values<K, T>>) -> Self {
        Self {
            values,
            held: Vec::new(),
            postings: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// A value that an object has, by its id.
    pub(crate) fn value(&self, id: u32, value: u32) -> Option<&Arc<Value<K, T>>> {
        let held = self.held.get(id as usize)?.iter();
        held.map(|held| &held.value).find(|held| held.id == value)
    }

    fn remove(&mut self, held: &Held<K, T>) {
        let posting = &mut self.postings[held.value.id as usize];
        posting.swap_remove(held.position as usize);
        if let Some(moved) = posting.get(held.position as usize) {
            let others = self.held[*moved as usize].iter_mut();
            for other in others.filter(|other| other.value.id == held.value.id) {
                other.position = held.position;
            }
        }
    }

    fn add(&mut self, id: u32, value: Arc<Value<K, T>>) {
        let index = value.id as usize;
        if index >= self.postings.len() {
            self.postings.resize_with(index + 1, Vec::new);
        }
        let position = id32(self.postings[index].len());
        self.postings[index].push(id);
        self.held[id as usize].push(Held { value, position });
    }
}

impl<K: IndexKey, T: Send + Sync + 'static> StoreIndex<T> for TypedIndex<K, T> {
    fn replace(&mut self, id: u32, new: Option<&T>, old_values: &mut Vec<u32>, new_values: &mut Vec<u32>) {
        let index = id as usize;
        by_id::lengthen(&mut self.held, index + 1, SmallVec::new);
        old_values.extend(self.held[index].iter().map(|held| held.value.id));
        let values = &*self.values;
        let mut found = Found {
            values,
            held: &self.held[index],
            same: 0,
            others: SmallVec::new(),
        };
        // All that is the user's: the function, and what the type of its values says of their equality, hashes and clones.
        let changed = panics::contain(|| {
            if let Some(new) = new {
                (values.extract)(new, &mut Keys::new(&mut found));
            }
            found.changed()
        });
        let changed = changed.unwrap_or_else(|text| {
            tracing::error!(
                panic = text,
                "the function of an index panicked: the object leaves the index"
            );
            Some(SmallVec::new())
        });
        if let Some(changed) = changed {
            for held in std::mem::take(&mut self.held[index]) {
                self.remove(&held);
                self.lost.push(held.value);
            }
            for value in changed {
                if !self.held[index].iter().any(|held| held.value.id == value.id) {
                    self.add(id, value);
                }
            }
        }
        new_values.extend(self.held[index].iter().map(|held| held.value.id));
    }

    fn ids(&self, value: u32) -> &[u32] {
        self.postings.get(value as usize).map_or(&[], Vec::as_slice)
    }

    fn holds(&self, id: u32, value: u32) -> bool {
        let held = self.held.get(id as usize);
        held.is_some_and(|held| held.iter().any(|held| held.value.id == value))
    }

    fn values(&self, id: u32) -> SmallVec<[u64; 1]> {
        let held = self.held.get(id as usize).into_iter().flatten();
        held.map(|held| u64::from(held.value.id)).collect()
    }

    fn collect(&mut self) {
        self.lost.clear();
        spare::keep(&mut self.lost);
        self.values.sweep_if_due();
    }

    #[cfg(test)]
    fn live(&self) -> [usize; 2] {
        let held = self.held.iter().map(SmallVec::len).sum();
        [self.values.held(), held]
    }

    #[cfg(test)]
    fn check_invariants(&self) {
        assert!(self.lost.is_empty());
        let mut entries = 0;
        for (id, held) in (0..).zip(&self.held) {
            for held in held {
                assert_eq!(self.postings[held.value.id as usize][held.position as usize], id);
            }
            entries += held.len();
        }
        assert_eq!(entries, self.postings.iter().map(Vec::len).sum::<usize>());
        assert!(self.values.len() >= self.postings.iter().filter(|posting| !posting.is_empty()).count());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A sweep looks at all values, so it has to be paid by as many that came since the last one.
    #[test]
    fn values_that_nobody_holds_are_swept_when_they_are_as_many_as_others() {
        let values = Values::<u32, ()>::new(Hashing::new(), Arc::new(|(), _| {}));
        let lengths = |asked: std::ops::Range<u32>| -> Vec<usize> {
            let length = |value| {
                assert!(values.intern(&value).id < 200, "ids are used again");
                values.len()
            };
            asked.map(length).collect()
        };
        let few = lengths(0..500);
        assert_eq!((few.iter().max(), few.last()), (Some(&64), Some(&(499 % 64 + 1))));
        let held: Vec<_> = (1000..1100).map(|value| values.intern(&value)).collect();
        let more = lengths(2000..3000);
        assert_eq!(more.iter().max(), Some(&200));
        assert_eq!(more.iter().filter(|length| **length == 101).count(), 11);
        assert!(
            held.iter()
                .zip(1000..)
                .all(|(held, value)| values.intern(&value).id == held.id)
        );
        drop(held);
        assert_eq!(lengths(3000..3100).iter().min(), Some(&1));
    }
}
