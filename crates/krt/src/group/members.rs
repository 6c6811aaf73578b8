//! The members of a group: a list in the order of their keys that shares its memory with the lists before it.
//!
//! # Design
//!
//! Chunks of at most 64 members under a spine. A change copies the chunks that it is about and the spine, which has one pointer for
//! each chunk; the other chunks are shared with whoever still holds the list as it was. Two neighbours together have more than
//! half a chunk, so the spine stays short, whatever was deleted.

use std::sync::Arc;

/// The most members of a chunk.
const CHUNK: usize = 64;

/// Neighbours that have no more than this together become one chunk.
const FEW: usize = CHUNK / 2;

struct Member<T> {
    key: Arc<str>,
    object: Arc<T>,
}

impl<T> Clone for Member<T> {
    fn clone(&self) -> Self {
        Self {
            key: Arc::clone(&self.key),
            object: Arc::clone(&self.object),
        }
    }
}

type Chunk<T> = Arc<[Member<T>]>;

/// A list of objects in the order of their keys (by bytes). It is a cheap clone.
pub(crate) struct Members<T> {
    /// Invariant: no chunk is empty or longer than [`CHUNK`]; all keys are in order, each once; neighbours together have more than
    /// [`FEW`].
    spine: Arc<[Chunk<T>]>,
    /// Invariant: how many members there are.
    len: usize,
}

/// What becomes of one key.
pub(crate) struct Edit<T> {
    pub(crate) key: Arc<str>,
    /// `None`: it leaves.
    pub(crate) object: Option<Arc<T>>,
}

impl<T> Edit<T> {
    fn into_member(self) -> Option<Member<T>> {
        let Self { key, object } = self;
        object.map(|object| Member { key, object })
    }
}

impl<T> Members<T> {
    pub(crate) fn new() -> Self {
        Self {
            spine: Arc::new([]),
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.entries().map(|member| &member.object)
    }

    fn entries(&self) -> impl Iterator<Item = &Member<T>> {
        self.spine.iter().flat_map(|chunk| chunk.iter())
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Arc<T>> {
        let after = self.spine.partition_point(|chunk| *chunk[0].key <= *key);
        let chunk = self.spine.get(after.checked_sub(1)?)?;
        let place = chunk.binary_search_by(|member| (*member.key).cmp(key)).ok()?;
        Some(&chunk[place].object)
    }

    /// The list after these edits. Precondition: no key is in two of them.
    pub(crate) fn edited(&self, mut edits: Vec<Edit<T>>) -> Self {
        edits.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        let mut edits = edits.into_iter().peekable();
        let mut spine = Spine(Vec::with_capacity(self.spine.len() + 1));
        for (place, chunk) in self.spine.iter().enumerate() {
            // What is before the next chunk belongs to this one.
            let next = self.spine.get(place + 1).map(|next| &next[0].key);
            let is_here = |edit: &Edit<T>| next.is_none_or(|next| edit.key < *next);
            if !edits.peek().is_some_and(is_here) {
                spine.push(Arc::clone(chunk));
                continue;
            }
            let mut merged = Vec::with_capacity(chunk.len() + 1);
            let mut rest = chunk.iter().peekable();
            while let Some(edit) = edits.next_if(is_here) {
                while let Some(before) = rest.next_if(|member| member.key < edit.key) {
                    merged.push(before.clone());
                }
                rest.next_if(|member| member.key == edit.key);
                merged.extend(edit.into_member());
            }
            merged.extend(rest.cloned());
            spine.push_all(merged);
        }
        // There are none left, unless there was no chunk.
        spine.push_all(edits.filter_map(Edit::into_member).collect());
        Self {
            len: spine.0.iter().map(|chunk| chunk.len()).sum(),
            spine: spine.0.into(),
        }
    }

    #[cfg(test)]
    pub(crate) fn check_invariants(&self) {
        assert_eq!(self.len, self.entries().count());
        assert!(self.spine.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= CHUNK));
        assert!(self.spine.windows(2).all(|pair| pair[0].len() + pair[1].len() > FEW));
        let keys: Vec<_> = self.entries().map(|member| &*member.key).collect();
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]));
    }
}

/// A spine that is being built.
struct Spine<T>(Vec<Chunk<T>>);

impl<T> Spine<T> {
    fn push(&mut self, chunk: Chunk<T>) {
        match self.0.last_mut() {
            Some(last) if last.len() + chunk.len() <= FEW => {
                *last = last.iter().chain(chunk.iter()).cloned().collect();
            }
            _ => self.0.push(chunk),
        }
    }

    /// Adds members in chunks of about the same length.
    fn push_all(&mut self, members: Vec<Member<T>>) {
        let len = members.len();
        let chunks = len.div_ceil(CHUNK);
        let mut members = members.into_iter();
        for number in 0..chunks {
            let count = len * (number + 1) / chunks - len * number / chunks;
            self.push(members.by_ref().take(count).collect());
        }
    }
}

impl<T> Clone for Members<T> {
    fn clone(&self) -> Self {
        Self {
            spine: Arc::clone(&self.spine),
            len: self.len,
        }
    }
}

impl<T: PartialEq> PartialEq for Members<T> {
    fn eq(&self, other: &Self) -> bool {
        let is_same = |(one, other): (&Member<T>, &Member<T>)| {
            one.key == other.key && (Arc::ptr_eq(&one.object, &other.object) || one.object == other.object)
        };
        Arc::ptr_eq(&self.spine, &other.spine)
            || (self.len == other.len && self.entries().zip(other.entries()).all(is_same))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};

    use super::*;

    fn edit(number: u32, value: Option<u32>) -> Edit<u32> {
        Edit {
            key: format!("k{number:04}").into(),
            object: value.map(Arc::new),
        }
    }

    fn pointers(members: &Members<u32>) -> HashSet<*const Member<u32>> {
        members.spine.iter().map(|chunk| chunk.as_ptr()).collect()
    }

    // Random edits, compared with a map after each.
    #[test]
    fn a_list_is_what_a_sorted_map_would_be() {
        for seed in 0..50 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut members, mut map) = (Members::new(), BTreeMap::new());
            let keys = random.u32(1..600);
            for _ in 0..60 {
                let count = random.u32(0..=keys.min(200));
                let adds = random.u32(0..4);
                let mut edits = BTreeMap::new();
                for _ in 0..count {
                    let value = (random.u32(..4) <= adds).then(|| random.u32(..));
                    edits.insert(random.u32(..keys), value);
                }
                members = members.edited(edits.iter().map(|(key, value)| edit(*key, *value)).collect());
                for (key, value) in edits {
                    match value {
                        Some(value) => map.insert(edit(key, None).key, value),
                        None => map.remove(&edit(key, None).key),
                    };
                }
                members.check_invariants();
                assert_eq!(members.len(), map.len(), "seed {seed}");
                let listed: Vec<_> = members.iter().map(|value| **value).collect();
                assert_eq!(listed, map.values().copied().collect::<Vec<_>>(), "seed {seed}");
                for key in 0..keys {
                    let key = edit(key, None).key;
                    assert_eq!(
                        members.get(&key).map(|value| **value),
                        map.get(&key).copied(),
                        "seed {seed}"
                    );
                }
            }
        }
    }

    // [K20] one change of a large group copies one chunk
    #[test]
    fn one_edit_copies_one_chunk() {
        let members = Members::new().edited((0..10_000).map(|number| edit(number, Some(number))).collect());
        let edited = members.edited(vec![edit(5_000, Some(1))]);
        let (before, after) = (pointers(&members), pointers(&edited));
        assert_eq!(after.difference(&before).count(), 1);
        assert_eq!(
            members.get("k5000").map(|value| **value),
            Some(5_000),
            "the list before is as it was"
        );
        assert_eq!(edited.get("k5000").map(|value| **value), Some(1));
    }

    #[test]
    fn lists_are_equal_however_they_came_about() {
        let at_once = Members::new().edited((0..300).map(|number| edit(number, Some(number))).collect());
        let mut one_by_one = Members::new();
        for number in (0..400).rev() {
            one_by_one = one_by_one.edited(vec![edit(number, Some(number))]);
        }
        assert!(one_by_one != at_once);
        one_by_one = one_by_one.edited((300..400).map(|number| edit(number, None)).collect());
        assert!(one_by_one == at_once);
        assert!(one_by_one.edited(vec![edit(7, Some(8))]) != at_once);
    }
}
