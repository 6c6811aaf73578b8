//! Sets of labels and their parts, each kept once: what inputs select by, and what selectors look at.
//!
//! # Design
//!
//! A set is a list of pairs, a pair has a key, and each knows where it is used: from a pair one finds the sets that have it, and from
//! a set the links that asked with it. So whoever learns that a pair matters finds those for whom it does.

use smallvec::SmallVec;

use super::super::by_id;
use super::super::id::id32;
use super::interned::Interned;
use crate::key::Hashing;
use crate::selector::{CutLabel, LabelCut};
use crate::traits::Labels;

/// The number of a set of labels.
pub(crate) type SetId = u32;

/// No set: the query does not select.
pub(crate) const NO_SET: SetId = u32::MAX;

/// Something that a selector may look at in labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Atom {
    /// A key with its value.
    Pair(u32),
    /// Whether a key is there.
    Key(u32),
}

impl Atom {
    /// The atom as a number that is not zero.
    pub(super) fn number(self) -> u64 {
        match self {
            Self::Pair(id) => u64::from(id) * 2 + 1,
            Self::Key(id) => u64::from(id) * 2 + 2,
        }
    }
}

/// What of a set of labels matters, in the order of the labels. Sets with equal ones cannot be told from each other.
pub(super) type Cut = SmallVec<[Atom; 2]>;

struct Key {
    text: Box<str>,
    /// Invariant: the pairs with this key.
    pairs: Vec<u32>,
}

struct Pair {
    key: u32,
    /// Its place in the key's list.
    place: u32,
    value: Box<str>,
    /// Invariant: the sets that have it.
    sets: SmallVec<[SetId; 4]>,
}

struct Set {
    /// The pairs in the order of their keys, and the place in each one's list.
    pairs: SmallVec<[(u32, u32); 2]>,
    /// Invariant: the links that asked with it.
    links: SmallVec<[u32; 4]>,
}

/// All sets, pairs and keys that are in use.
pub(super) struct LabelSets {
    hashing: Hashing,
    keys: Interned<Key>,
    pairs: Interned<Pair>,
    sets: Interned<Set>,
}

impl LabelSets {
    pub(super) fn new(hashing: Hashing) -> Self {
        Self {
            hashing,
            keys: Interned::default(),
            pairs: Interned::default(),
            sets: Interned::default(),
        }
    }

    /// How many sets, pairs and keys there are.
    pub(super) fn len(&self) -> usize {
        self.sets.len() + self.pairs.len() + self.keys.len()
    }

    fn find_key(&self, key: &str) -> Option<u32> {
        self.keys.find(self.hashing.of(key), |own| *own.text == *key)
    }

    fn pair_hash(&self, key: u32, value: &str) -> u64 {
        self.hashing.of(&(key, value))
    }

    fn find_pair(&self, key: &str, value: &str) -> Option<u32> {
        let key = self.find_key(key)?;
        let is = |own: &Pair| own.key == key && *own.value == *value;
        self.pairs.find(self.pair_hash(key, value), is)
    }

    /// An atom that somebody holds.
    pub(super) fn find(&self, key: &str, value: Option<&str>) -> Option<Atom> {
        match value {
            Some(value) => self.find_pair(key, value).map(Atom::Pair),
            None => self.find_key(key).map(Atom::Key),
        }
    }

    fn hold_key(&mut self, key: &str) -> u32 {
        if let Some(id) = self.find_key(key) {
            self.keys.hold(id);
            return id;
        }
        let new = Key {
            text: key.into(),
            pairs: Vec::new(),
        };
        self.keys.insert(self.hashing.of(key), new)
    }

    fn hold_pair(&mut self, key: &str, value: &str) -> u32 {
        if let Some(id) = self.find_pair(key, value) {
            self.pairs.hold(id);
            return id;
        }
        let key = self.hold_key(key);
        let new = Pair {
            key,
            place: id32(self.keys.get(key).pairs.len()),
            value: value.into(),
            sets: SmallVec::new(),
        };
        let id = self.pairs.insert(self.pair_hash(key, value), new);
        self.keys.get_mut(key).pairs.push(id);
        id
    }

    /// The atom, which the caller holds from now on.
    pub(super) fn hold(&mut self, key: &str, value: Option<&str>) -> Atom {
        match value {
            Some(value) => Atom::Pair(self.hold_pair(key, value)),
            None => Atom::Key(self.hold_key(key)),
        }
    }

    /// Precondition: the caller holds it.
    pub(super) fn release(&mut self, atom: Atom) {
        match atom {
            Atom::Pair(id) => self.release_pair(id),
            Atom::Key(id) => {
                self.keys.release(id);
            }
        }
    }

    fn release_pair(&mut self, id: u32) {
        let Some(pair) = self.pairs.release(id) else { return };
        debug_assert!(pair.sets.is_empty(), "a set holds its pairs");
        let siblings = &mut self.keys.get_mut(pair.key).pairs;
        siblings.swap_remove(pair.place as usize);
        if let Some(moved) = siblings.get(pair.place as usize).copied() {
            self.pairs.get_mut(moved).place = pair.place;
        }
        self.keys.release(pair.key);
    }

    /// The set of these labels, which the caller holds from now on.
    pub(super) fn hold_set(&mut self, labels: &Labels) -> SetId {
        let pairs: SmallVec<[u32; 8]> = labels.iter().map(|(key, value)| self.hold_pair(key, value)).collect();
        let hash = self.hashing.of(&pairs[..]);
        let is = |set: &Set| set.pairs.iter().map(|(pair, _)| pair).eq(&pairs);
        if let Some(id) = self.sets.find(hash, is) {
            self.sets.hold(id);
            for pair in pairs {
                self.release_pair(pair);
            }
            return id;
        }
        let places = pairs.iter().map(|pair| (*pair, id32(self.pairs.get(*pair).sets.len())));
        let new = Set {
            pairs: places.collect(),
            links: SmallVec::new(),
        };
        let id = self.sets.insert(hash, new);
        for pair in pairs {
            self.pairs.get_mut(pair).sets.push(id);
        }
        id
    }

    /// Precondition: the caller holds it.
    pub(super) fn release_set(&mut self, id: SetId) {
        let Some(set) = self.sets.release(id) else { return };
        debug_assert!(set.links.is_empty(), "a link holds its set");
        for (pair, place) in set.pairs {
            let others = &mut self.pairs.get_mut(pair).sets;
            others.swap_remove(place as usize);
            if let Some(moved) = others.get(place as usize).copied() {
                let own = self.sets.get_mut(moved).pairs.iter_mut();
                for (_, own) in own.filter(|(own, _)| *own == pair) {
                    *own = place;
                }
            }
            self.release_pair(pair);
        }
    }

    /// A link asks with a set, and holds it; returns its place there.
    pub(super) fn link(&mut self, set: SetId, link: u32) -> u32 {
        self.sets.hold(set);
        let links = &mut self.sets.get_mut(set).links;
        if links.len() == links.capacity() {
            links.reserve_exact(by_id::growth(links.len()));
        }
        links.push(link);
        id32(links.len() - 1)
    }

    /// A link goes from its place; returns the one that has the place now.
    pub(super) fn unlink(&mut self, set: SetId, place: u32) -> Option<u32> {
        let links = &mut self.sets.get_mut(set).links;
        links.swap_remove(place as usize);
        let moved = links.get(place as usize).copied();
        self.release_set(set);
        moved
    }

    /// Reads of a set what [`is_set`](Self::is_set) needs: the set, its pairs, their texts, by how many references are followed.
    pub(super) fn peek(&self, set: SetId, depth: usize) -> usize {
        let set = self.sets.get(set);
        let first = |text: &str| text.as_bytes().first().map_or(0, |byte| usize::from(*byte));
        let pairs = set.pairs.iter().take(2).map(|(pair, _)| match depth {
            0 => *pair as usize,
            1 => self.pairs.get(*pair).key as usize,
            _ => {
                let pair = self.pairs.get(*pair);
                first(&pair.value) ^ first(&self.keys.get(pair.key).text)
            }
        });
        pairs.fold(0, |seen, one| seen ^ one)
    }

    /// Whether a set is of exactly these labels.
    pub(super) fn is_set(&self, set: SetId, labels: &Labels) -> bool {
        let pairs = &self.sets.get(set).pairs;
        pairs.len() == labels.len()
            && pairs.iter().zip(labels).all(|((pair, _), (key, value))| {
                let pair = self.pairs.get(*pair);
                *pair.value == **value && *self.keys.get(pair.key).text == **key
            })
    }

    /// What of a set matters.
    pub(super) fn cut(&self, set: SetId, matters: impl Fn(Atom) -> bool) -> Cut {
        let mut cut = Cut::new();
        for (pair, _) in &self.sets.get(set).pairs {
            let atoms = [Atom::Pair(*pair), Atom::Key(self.pairs.get(*pair).key)];
            cut.extend(atoms.into_iter().filter(|atom| matters(*atom)));
        }
        cut
    }

    /// A cut with the texts of its parts.
    pub(super) fn texts(&self, cut: &[Atom]) -> LabelCut {
        let mut texts: Vec<CutLabel> = Vec::with_capacity(cut.len());
        for atom in cut {
            let (key, value) = match atom {
                Atom::Pair(pair) => {
                    let pair = self.pairs.get(*pair);
                    (pair.key, Some(pair.value.clone()))
                }
                Atom::Key(key) => (*key, None),
            };
            let key = &self.keys.get(key).text;
            // A pair comes before its key, and says all that the key would.
            if texts.last().is_none_or(|(last, _)| last != key) {
                texts.push((key.clone(), value));
            }
        }
        LabelCut(texts.into())
    }

    /// The links that asked with a set that has one of these atoms, each once.
    pub(super) fn links_with(&self, atoms: &[Atom]) -> Vec<u32> {
        let mut sets: Vec<SetId> = Vec::new();
        for atom in atoms {
            match atom {
                Atom::Pair(pair) => sets.extend(&self.pairs.get(*pair).sets),
                Atom::Key(key) => {
                    let pairs = self.keys.get(*key).pairs.iter();
                    sets.extend(pairs.flat_map(|pair| &self.pairs.get(*pair).sets));
                }
            }
        }
        sets.sort_unstable();
        sets.dedup();
        let links = sets.iter().flat_map(|set| &self.sets.get(*set).links);
        links.copied().collect()
    }

    /// `held` tells how often atoms are held by others than sets, and `links` which link asked with which set.
    #[cfg(test)]
    pub(super) fn check_invariants(&self, held: impl Fn(Atom) -> u32, links: impl Fn(u32) -> (SetId, u32)) {
        self.sets.check_invariants();
        self.pairs.check_invariants();
        self.keys.check_invariants();
        let counts = [
            self.sets.iter().count(),
            self.pairs.iter().count(),
            self.keys.iter().count(),
        ];
        assert_eq!(self.len(), counts.iter().sum::<usize>());
        for (id, set, holders) in self.sets.iter() {
            assert_eq!(set.links.len(), holders as usize, "a set is held by its links alone");
            for (place, link) in (0..).zip(&set.links) {
                assert_eq!(links(*link), (id, place));
            }
            for (pair, place) in &set.pairs {
                assert_eq!(self.pairs.get(*pair).sets[*place as usize], id);
            }
        }
        for (id, pair, holders) in self.pairs.iter() {
            assert_eq!(holders, id32(pair.sets.len()) + held(Atom::Pair(id)));
            assert_eq!(self.keys.get(pair.key).pairs[pair.place as usize], id);
        }
        for (id, key, holders) in self.keys.iter() {
            assert_eq!(holders, id32(key.pairs.len()) + held(Atom::Key(id)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::super::postings::EVERYBODY;
    use super::*;

    // Equal numbers do no harm but to make somebody look in vain; that of everybody would make each selector looked at.
    #[test]
    fn each_atom_has_a_number_of_its_own() {
        let atoms = (0..50).flat_map(|id| [Atom::Pair(id), Atom::Key(id)]);
        let numbers: BTreeSet<u64> = atoms.map(Atom::number).collect();
        assert_eq!(numbers.len(), 100);
        assert!(!numbers.contains(&EVERYBODY));
    }

    #[test]
    fn pairs_are_told_apart_before_their_texts_are_compared() {
        let labels = LabelSets::new(Hashing::new());
        let hashes = [(0, "a"), (0, "b"), (1, "a"), (1, "b")].map(|(key, value)| labels.pair_hash(key, value));
        assert_eq!(BTreeSet::from(hashes).len(), 4);
        assert_eq!(labels.pair_hash(1, "b"), hashes[3]);
    }
}
