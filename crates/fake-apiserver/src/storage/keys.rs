//! The chains of a resource in the order of their keys.
//!
//! # Design
//!
//! A list of chunks, each a sorted list of at most [`MAX`] entries: a tree of two levels. One binary search finds the
//! chunk, another one the entry. A chunk has room for little more than it holds, whatever the order in which keys come: for
//! small objects, half-empty nodes would take more memory than the rest of what is kept beside their JSON. An addition moves
//! at most one chunk, and of the list of chunks what comes after it when a chunk is parted.

use std::ops::Bound;
use std::sync::Arc;

use super::chain::Chain;

/// How many entries a chunk holds at most.
const MAX: usize = 64;

/// A key and its versions.
type Slot<T> = (Arc<str>, Chain<T>);

/// Where a key is, or would be. Good until the next change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    chunk: usize,
    slot: usize,
}

/// A map from keys to chains.
#[derive(Debug)]
pub(super) struct Keys<T> {
    /// Invariant: none is empty or longer than [`MAX`]; all their keys ascend, within and across chunks.
    chunks: Vec<Vec<Slot<T>>>,
}

impl<T> Keys<T> {
    pub(super) fn new() -> Self {
        Self { chunks: Vec::new() }
    }

    /// The place of a key; as an error, the one where it belongs.
    pub(super) fn find(&self, key: &str) -> Result<Place, Place> {
        let starts_before = |chunk: &Vec<Slot<T>>| chunk.first().is_some_and(|(first, _)| **first <= *key);
        let chunk = self.chunks.partition_point(starts_before).saturating_sub(1);
        let slots = self.chunks.get(chunk).map_or(&[][..], Vec::as_slice);
        match slots.binary_search_by(|(candidate, _)| (**candidate).cmp(key)) {
            Ok(slot) => Ok(Place { chunk, slot }),
            Err(slot) => Err(Place { chunk, slot }),
        }
    }

    /// The entry at the place of a key.
    pub(super) fn at(&self, place: Place) -> &Slot<T> {
        &self.chunks[place.chunk][place.slot]
    }

    /// The entry at the place of a key.
    pub(super) fn at_mut(&mut self, place: Place) -> &mut Slot<T> {
        &mut self.chunks[place.chunk][place.slot]
    }

    /// The chain of a key.
    pub(super) fn get(&self, key: &str) -> Option<&Chain<T>> {
        self.find(key).ok().map(|place| &self.at(place).1)
    }

    /// Adds a key at the place where it belongs.
    pub(super) fn insert(&mut self, place: Place, key: Arc<str>, chain: Chain<T>) {
        let Place { mut chunk, mut slot } = place;
        let last = self.chunks.len().saturating_sub(1);
        match self.chunks.get_mut(chunk) {
            Some(slots) if slots.len() < MAX => {}
            // Keys that come in order leave full chunks behind.
            Some(_) if chunk < last || slot < MAX => {
                let slots = &mut self.chunks[chunk];
                let upper = slots.split_off(MAX / 2);
                slots.shrink_to_fit();
                self.chunks.insert(chunk + 1, upper);
                if slot > MAX / 2 {
                    (chunk, slot) = (chunk + 1, slot - MAX / 2);
                }
            }
            _ => {
                (chunk, slot) = (self.chunks.len(), 0);
                self.chunks.push(Vec::new());
            }
        }
        let slots = &mut self.chunks[chunk];
        if slots.len() == slots.capacity() {
            slots.reserve_exact((slots.len() / 4).clamp(4, MAX));
        }
        slots.insert(slot, (key, chain));
    }

    /// Removes the key at a place.
    pub(super) fn remove(&mut self, place: Place) {
        let slots = &mut self.chunks[place.chunk];
        slots.remove(place.slot);
        let left = slots.len();
        if left == 0 {
            self.chunks.remove(place.chunk);
            return;
        }
        if left > MAX / 4 {
            return;
        }
        if let Some(next) = self.chunks.get_mut(place.chunk + 1)
            && left + next.len() <= MAX / 2
        {
            let next = std::mem::take(next);
            self.chunks.remove(place.chunk + 1);
            self.chunks[place.chunk].extend(next);
        }
        let slots = &mut self.chunks[place.chunk];
        if slots.capacity() > 2 * slots.len() {
            slots.shrink_to_fit();
        }
    }

    /// All entries.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot<T>> {
        self.chunks.iter().flatten()
    }

    /// The entries from one key to another.
    pub(super) fn range<'k>(
        &'k self,
        low: Bound<&str>,
        high: Bound<&'k str>,
    ) -> impl Iterator<Item = &'k Slot<T>> + use<'k, T> {
        let start = match low {
            Bound::Unbounded => Place { chunk: 0, slot: 0 },
            Bound::Included(key) => self.find(key).unwrap_or_else(|place| place),
            Bound::Excluded(key) => match self.find(key) {
                Ok(place) => Place {
                    slot: place.slot + 1,
                    ..place
                },
                Err(place) => place,
            },
        };
        let mut chunks = self.chunks.iter().skip(start.chunk);
        let first = chunks.next().map_or(&[][..], |slots| &slots[start.slot..]);
        first
            .iter()
            .chain(chunks.flatten())
            .take_while(move |(key, _)| match high {
                Bound::Unbounded => true,
                Bound::Included(high) => **key <= *high,
                Bound::Excluded(high) => **key < *high,
            })
    }

    /// Panics if a stated invariant does not hold.
    #[cfg(test)]
    pub(super) fn check_invariants(&self) {
        assert!(self.chunks.iter().all(|chunk| (1..=MAX).contains(&chunk.len())));
        assert!(self.iter().zip(self.iter().skip(1)).all(|(a, b)| a.0 < b.0));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::chain::Version;
    use super::*;

    fn chain(rv: u64) -> Chain<u64> {
        Chain::new(Version {
            rv,
            object: Some(Arc::new(rv)),
        })
    }

    fn put(keys: &mut Keys<u64>, key: &str, rv: u64) {
        match keys.find(key) {
            Ok(place) => keys.at_mut(place).1 = chain(rv),
            Err(place) => keys.insert(place, key.into(), chain(rv)),
        }
    }

    fn shown<'k>(entries: impl Iterator<Item = &'k Slot<u64>>) -> Vec<(String, u64)> {
        entries
            .map(|(key, chain)| (key.to_string(), *chain.latest().unwrap().object))
            .collect()
    }

    #[test]
    fn keys_are_those_of_an_ordered_map_whatever_happens_to_them() {
        for seed in 0..60 {
            let mut random = fastrand::Rng::with_seed(seed);
            let span = random.u32(1..2_000);
            let grows = random.f32();
            let (mut keys, mut model) = (Keys::new(), BTreeMap::new());
            for step in 0..1_500 {
                let key = format!("{:04}", random.u32(..span));
                if random.f32() < grows {
                    put(&mut keys, &key, step);
                    model.insert(key.clone(), step);
                } else if let Ok(place) = keys.find(&key) {
                    keys.remove(place);
                    assert!(model.remove(&key).is_some(), "seed {seed} step {step}");
                } else {
                    assert!(!model.contains_key(&key), "seed {seed} step {step}");
                }
                keys.check_invariants();
                if step % 50 > 0 {
                    continue;
                }
                let model_of = |range: (Bound<String>, Bound<String>)| -> Vec<(String, u64)> {
                    let entries = model.range(range);
                    entries.map(|(key, rv)| (key.clone(), *rv)).collect()
                };
                let (low, high) = (format!("{:04}", random.u32(..span)), "~".to_owned());
                for low in [
                    Bound::Unbounded,
                    Bound::Included(low.clone()),
                    Bound::Excluded(low.clone()),
                ] {
                    for high in [
                        Bound::Unbounded,
                        Bound::Included(high.clone()),
                        Bound::Excluded(high.clone()),
                        Bound::Included(key.clone()),
                    ] {
                        if matches!((&low, &high), (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high)) if low >= high)
                        {
                            continue;
                        }
                        let found = keys.range(low.as_ref().map(String::as_str), high.as_ref().map(String::as_str));
                        assert_eq!(
                            shown(found),
                            model_of((low.clone(), high.clone())),
                            "seed {seed} step {step}"
                        );
                    }
                }
                assert_eq!(shown(keys.iter()), model_of((Bound::Unbounded, Bound::Unbounded)));
            }
        }
    }

    #[test]
    fn a_range_that_ends_before_it_begins_is_empty() {
        let mut keys = Keys::new();
        for key in ["a", "b", "c"] {
            put(&mut keys, key, 1);
        }
        assert_eq!(shown(keys.range(Bound::Included("c"), Bound::Excluded("b"))), []);
        assert_eq!(shown(keys.range(Bound::Excluded("b"), Bound::Included("b"))), []);
        assert_eq!(shown(Keys::new().range(Bound::Included("b"), Bound::Unbounded)), []);
    }

    #[test]
    fn chunks_have_little_room_to_spare_in_any_order() {
        // [F24] memory
        let mut random = fastrand::Rng::with_seed(7);
        let ascending: Vec<u32> = (0..20_000).collect();
        let descending: Vec<u32> = (0..20_000).rev().collect();
        let mut shuffled = ascending.clone();
        random.shuffle(&mut shuffled);
        for order in [ascending, descending, shuffled] {
            let mut keys = Keys::new();
            for key in &order {
                put(&mut keys, &format!("{key:08}"), 1);
            }
            let room: usize = keys.chunks.iter().map(Vec::capacity).sum();
            assert!(room < 20_000 * 5 / 4, "{room}");
            // The same when most of them are gone.
            for key in order.iter().filter(|key| *key % 16 > 0) {
                let place = keys.find(&format!("{key:08}")).unwrap();
                keys.remove(place);
            }
            let room: usize = keys.chunks.iter().map(Vec::capacity).sum();
            assert!(room < 20_000 / 16 * 4, "{room}");
            keys.check_invariants();
        }
    }
}
