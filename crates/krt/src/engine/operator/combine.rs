//! What several collections have under one key, combined: which of them have it, and what becomes of it.
//!
//! # Design
//!
//! Members are numbered by slots. For each key that the combination shows, it is known who holds it, by slot and id; and for each object
//! of a member, under which id it is shown. So a change of a member finds its place without a look into any table, a key
//! that one member alone has is that member's object, and the rest looks at the holders of the key and at no other member. Keys that
//! are held but not shown, because a merge said so, have no id: they are kept aside.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool};

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::super::panics;
use super::super::store::{Equal, Store};
use crate::key::Key;
use crate::shared::Counters;
use crate::traits::Keyed;

/// Makes one object of all those with one key, in the order of the members. `None`: there is none.
pub(crate) type Merge<T> = Box<dyn Fn(&[Arc<T>]) -> Option<T> + Send + Sync>;

/// What becomes of the objects of one key.
pub(crate) enum Combine<T> {
    /// The one of the first member that has any.
    First,
    Merge(Merge<T>),
}

/// An object of a member: its slot, and its id there.
pub(super) type Held = (u32, u32);

type Holders = SmallVec<[Held; 1]>;

/// No id.
const NONE: u32 = u32::MAX;

/// A key that is held but not shown.
struct Absent {
    hash: u64,
    holders: Holders,
}

pub(super) struct Combined<T> {
    combine: Combine<T>,
    equal: Equal<T>,
    /// Whether no two members are to have the same key.
    disjoint: Arc<AtomicBool>,
    /// By slot and id: where the object is shown.
    shown: Vec<Vec<u32>>,
    /// By the id of what is shown. Invariant: exactly those whose `shown` is this id.
    holders: Vec<Holders>,
    /// Invariant: the holders of these have no `shown`.
    absent: HashMap<Arc<str>, Absent, foldhash::fast::RandomState>,
    /// The keys that this epoch has to decide. Invariant: empty between epochs.
    touched: Vec<u32>,
    /// By the id of what is shown. Invariant: whether it is in `touched`.
    is_touched: Vec<bool>,
    counters: Arc<Counters>,
}

impl<T: Keyed> Combined<T> {
    pub(super) fn new(
        combine: Combine<T>,
        equal: Equal<T>,
        disjoint: Arc<AtomicBool>,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            combine,
            equal,
            disjoint,
            shown: Vec::new(),
            holders: Vec::new(),
            absent: HashMap::default(),
            touched: Vec::new(),
            is_touched: Vec::new(),
            counters,
        }
    }

    fn shown(&mut self, (slot, id): Held) -> &mut u32 {
        let slot = slot as usize;
        if slot >= self.shown.len() {
            self.shown.resize_with(slot + 1, Vec::new);
        }
        let (ids, id) = (&mut self.shown[slot], id as usize);
        if id >= ids.len() {
            ids.resize(id + 1, NONE);
        }
        &mut ids[id]
    }

    /// The id under which a key is shown. If it was not until now, its holders are shown there from now on.
    fn show(&mut self, store: &mut Store<T>, key: &Key) -> u32 {
        let output = store.reserve(key);
        let index = output as usize;
        if index >= self.holders.len() {
            self.holders.resize_with(index + 1, Holders::new);
            self.is_touched.resize(index + 1, false);
        }
        if let Some(Absent { holders, .. }) = self.absent.remove(&*key.text) {
            for held in &holders {
                *self.shown(*held) = output;
            }
            self.holders[index] = holders;
        }
        output
    }

    fn touch(&mut self, output: u32) {
        if !std::mem::replace(&mut self.is_touched[output as usize], true) {
            self.touched.push(output);
        }
    }

    /// An object of a member came or changed. It has a key there until the epoch ends.
    pub(super) fn set(&mut self, store: &mut Store<T>, held: Held, member: &Store<T>) {
        if *self.shown(held) == NONE {
            let Some(key) = member.key(held.1) else { return };
            let output = self.show(store, &key);
            if *self.shown(held) == NONE {
                *self.shown(held) = output;
                self.holders[output as usize].push(held);
            }
        }
        let output = *self.shown(held);
        self.touch(output);
    }

    /// An object of a member went.
    pub(super) fn remove(&mut self, store: &mut Store<T>, held: Held, member: &Store<T>) {
        if *self.shown(held) == NONE {
            let Some(key) = member.key(held.1) else { return };
            let is_absent = self
                .absent
                .get(&*key.text)
                .is_some_and(|absent| absent.holders.contains(&held));
            if !is_absent {
                return;
            }
            self.show(store, &key);
        }
        let output = std::mem::replace(self.shown(held), NONE);
        self.holders[output as usize].retain(|own| *own != held);
        self.touch(output);
    }

    /// A member goes, with everything that it has.
    pub(super) fn remove_all(&mut self, store: &mut Store<T>, slot: u32) {
        let of_slot = |absent: &Absent| absent.holders.iter().any(|(own, _)| *own == slot);
        let absent = self.absent.iter().filter(|(_, absent)| of_slot(absent));
        let absent: Vec<_> = absent
            .map(|(text, absent)| Key {
                text: Arc::clone(text),
                hash: absent.hash,
            })
            .collect();
        for key in absent {
            self.show(store, &key);
        }
        let Some(shown) = self.shown.get_mut(slot as usize).map(std::mem::take) else {
            return;
        };
        for output in shown.into_iter().filter(|output| *output != NONE) {
            self.holders[output as usize].retain(|(own, _)| *own != slot);
            self.touch(output);
        }
    }

    /// Decides each key that was touched, once. `object` finds the objects of members, `order` tells which member comes first.
    pub(super) fn decide<'s>(
        &mut self,
        store: &mut Store<T>,
        object: impl Fn(Held) -> Option<&'s Arc<T>>,
        order: impl Fn(u32, u32) -> Ordering,
    ) {
        let mut conflicts = 0;
        for output in std::mem::take(&mut self.touched) {
            self.is_touched[output as usize] = false;
            let holders = &mut self.holders[output as usize];
            if holders.len() > 1 {
                holders.sort_unstable_by(|(one, _), (other, _)| order(*one, *other));
                conflicts += u64::from(self.disjoint.load(atomic::Ordering::Relaxed));
            }
            match self.combined(store, output, &object) {
                Ok(Some(object)) => store.update(output, Some(object), self.equal),
                Err(()) if store.get(output).is_some() => {}
                Ok(None) | Err(()) => self.hide(store, output),
            }
        }
        if conflicts > 0 {
            Counters::add(&self.counters.conflicts, conflicts);
            tracing::warn!(collection = %self.counters.name, keys = conflicts, "several members of a join that is said to be disjoint have one key");
        }
    }

    /// The object of a key. `Err`: it cannot be told, and stays what it is.
    fn combined<'s>(
        &self,
        store: &Store<T>,
        output: u32,
        object: impl Fn(Held) -> Option<&'s Arc<T>>,
    ) -> Result<Option<Arc<T>>, ()> {
        let mut objects = self.holders[output as usize].iter().filter_map(|held| object(*held));
        let merge = match &self.combine {
            Combine::First => return Ok(objects.next().cloned()),
            Combine::Merge(merge) => merge,
        };
        let objects: Vec<_> = objects.cloned().collect();
        if objects.is_empty() {
            return Ok(None);
        }
        Counters::add(&self.counters.runs, 1);
        let merged = panics::contain(|| {
            let merged = merge(&objects)?;
            assert!(
                store.has_key(output, merged.key()),
                "a merge changed the key to {}",
                merged.key()
            );
            Some(Arc::new(merged))
        });
        merged.map_err(|text| {
            Counters::add(&self.counters.panics, 1);
            let key = store.keys().text(output);
            tracing::error!(collection = %self.counters.name, key = key.as_deref(), panic = text, "a merge panicked");
        })
    }

    /// Shows a key no more. Its holders are kept aside.
    fn hide(&mut self, store: &mut Store<T>, output: u32) {
        let holders = std::mem::take(&mut self.holders[output as usize]);
        if !holders.is_empty()
            && let Some(key) = store.key(output)
        {
            for held in &holders {
                *self.shown(*held) = NONE;
            }
            let hash = key.hash;
            self.absent.insert(key.text, Absent { hash, holders });
        }
        store.put(output, None);
    }

    #[cfg(test)]
    pub(super) fn check_invariants(&self, store: &Store<T>) {
        assert!(self.touched.is_empty() && !self.is_touched.contains(&true));
        let mut held = 0;
        for (output, holders) in (0..).zip(&self.holders) {
            assert_eq!(store.get(output).is_some(), !holders.is_empty());
            for (slot, id) in holders {
                assert_eq!(self.shown[*slot as usize][*id as usize], output);
            }
            held += holders.len();
        }
        let shown = self.shown.iter().flatten();
        assert_eq!(shown.filter(|output| **output != NONE).count(), held);
        for (text, absent) in &self.absent {
            assert!(store.find(absent.hash, text).is_none() && !absent.holders.is_empty());
        }
    }
}
