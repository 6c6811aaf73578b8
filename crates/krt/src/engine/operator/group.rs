//! The objects of a collection by the values of an index: one group for each value that any object has.
//!
//! # Design
//!
//! The operator keeps an index of its own over the values of the user's one, which tells for each change the groups before and after.
//! All changes of a group in one epoch are one edit of its list of members; so a change costs its groups, and nothing is done for
//! others. The groups themselves are what the store has; what is kept here beside them is who has which key.

use std::sync::Arc;

use hashbrown::HashMap;

use super::super::index::{IndexKey, TypedIndex, Value, Values};
use super::super::node::{Operator, Run, Step};
use super::super::panics;
use super::super::planted::{self, Bug};
use super::super::store::{Store, StoreIndex};
use crate::collection::Collection;
use crate::group::members::{Edit, Members};
use crate::group::{Group, GroupKey};
use crate::key::{Hashing, Key, KeyRef};
use crate::shared::Counters;
use crate::traits::Keyed;

struct State<K, T> {
    /// Held for as long as there is a group, so that its id is not another value's.
    value: Arc<Value<K, T>>,
    /// `None` if the value has no text that could be a key.
    key: Option<Key>,
    /// The group in the store. `None` while another value has the key.
    output: Option<u32>,
    members: Members<T>,
    /// This epoch's changes. Invariant: empty between epochs; not empty iff the value is in `touched`.
    edits: Vec<Edit<T>>,
}

pub(crate) struct Grouping<K, T: Keyed> {
    input: Collection<T>,
    index: TypedIndex<K, T>,
    /// By value. Invariant: between epochs, exactly the values that some object has.
    groups: HashMap<u32, State<K, T>, foldhash::fast::RandomState>,
    touched: Vec<u32>,
    started: bool,
    /// The values of an object before and after a change.
    before: Vec<u32>,
    after: Vec<u32>,
    counters: Arc<Counters>,
}

impl<K: IndexKey + GroupKey, T: Keyed + PartialEq> Grouping<K, T> {
    pub(crate) fn new(input: Collection<T>, values: Arc<Values<K, T>>, counters: Arc<Counters>) -> Self {
        Self {
            input,
            index: TypedIndex::new(values),
            groups: HashMap::default(),
            touched: Vec::new(),
            started: false,
            before: Vec::new(),
            after: Vec::new(),
            counters,
        }
    }

    /// An object of the input changed.
    fn change(&mut self, id: u32, key: &Arc<str>, old: Option<&Arc<T>>, new: Option<&Arc<T>>, hashing: &Hashing) {
        let (mut before, mut after) = (std::mem::take(&mut self.before), std::mem::take(&mut self.after));
        before.clear();
        after.clear();
        self.index.replace(id, new.map(|new| &**new), &mut before, &mut after);
        for value in before.iter().filter(|value| !after.contains(value)) {
            self.edit(id, *value, key, None, hashing);
        }
        for value in &after {
            // An equal object that was set once more is no change of the group.
            if !(before.contains(value) && is_same(old, new)) {
                self.edit(id, *value, key, new.cloned(), hashing);
            }
        }
        (self.before, self.after) = (before, after);
    }

    fn edit(&mut self, id: u32, value: u32, key: &Arc<str>, object: Option<Arc<T>>, hashing: &Hashing) {
        let Self {
            groups,
            index,
            counters,
            touched,
            ..
        } = self;
        let state = match groups.entry(value) {
            hashbrown::hash_map::Entry::Occupied(found) => found.into_mut(),
            hashbrown::hash_map::Entry::Vacant(place) => {
                let Some(value) = index.value(id, value) else { return };
                place.insert(State {
                    value: Arc::clone(value),
                    key: key_of(value, hashing, counters),
                    output: None,
                    members: Members::new(),
                    edits: Vec::new(),
                })
            }
        };
        if state.edits.is_empty() {
            touched.push(value);
        }
        state.edits.push(Edit {
            key: Arc::clone(key),
            object,
        });
    }

    /// Brings the groups in line with this epoch's edits.
    fn apply(&mut self, store: &mut Store<Group<K, T>>) {
        let mut conflicts = 0;
        for value in std::mem::take(&mut self.touched) {
            let Some(state) = self.groups.get_mut(&value) else {
                continue;
            };
            let members = state.members.edited(std::mem::take(&mut state.edits));
            panics::drop_each([std::mem::replace(&mut state.members, members)]);
            if state.members.len() == 0 && !planted::has(Bug::EmptyGroup) {
                let state = self.groups.remove(&value);
                if let Some(output) = state.as_ref().and_then(|state| state.output) {
                    store.put(output, None);
                }
                panics::drop_each(state);
                continue;
            }
            let Some(key) = &state.key else { continue };
            if state.output.is_none() && store.find(key.hash, &key.text).is_some() {
                conflicts += 1;
                continue;
            }
            let output = *state.output.get_or_insert_with(|| store.reserve(key));
            let group = Group::new(Arc::clone(&key.text), Arc::clone(&state.value), state.members.clone());
            store.put(output, Some(Arc::new(group)));
        }
        if conflicts > 0 {
            Counters::add(&self.counters.conflicts, conflicts);
            tracing::error!(collection = %self.counters.name, groups = conflicts, "different values have the key of one group");
        }
        self.index.collect();
    }
}

fn is_same<T: PartialEq>(old: Option<&Arc<T>>, new: Option<&Arc<T>>) -> bool {
    let (Some(old), Some(new)) = (old, new) else {
        return false;
    };
    Arc::ptr_eq(old, new) || panics::contain(|| old == new).unwrap_or(false)
}

/// The key of a value's group.
fn key_of<K: GroupKey, T>(value: &Value<K, T>, hashing: &Hashing, counters: &Counters) -> Option<Key> {
    let key = panics::contain(|| {
        let text = value.key.encode();
        assert!(!text.is_empty(), "the key of a group is empty");
        hashing.keep(KeyRef::Plain(&text))
    });
    if let Err(text) = &key {
        Counters::add(&counters.panics, 1);
        tracing::error!(collection = %counters.name, panic = text, "a value has no key, and no group");
    }
    key.ok()
}

impl<K: IndexKey + GroupKey, T: Keyed + PartialEq> Operator<Group<K, T>> for Grouping<K, T> {
    fn run(&mut self, store: &mut Store<Group<K, T>>, run: &mut Run<'_>) -> Step {
        let hashing = &run.shared.hashing;
        let Some(source) = run.nodes.store::<T>(self.input.id()) else {
            return Step::Finished { synced: self.started };
        };
        if self.started {
            let keys = source.keys().texts(source.delta.iter().map(|change| change.id));
            for (key, change) in keys.iter().zip(&source.delta) {
                self.change(change.id, key, change.old.as_ref(), change.new.as_ref(), hashing);
            }
        } else if source.synced {
            self.started = true;
            for (id, object) in source.iter() {
                if let Some(key) = source.keys().text(id) {
                    self.change(id, &key, None, Some(object), hashing);
                }
            }
        }
        self.apply(store);
        Step::Finished { synced: self.started }
    }

    #[cfg(test)]
    fn check_invariants(&self, store: &Store<Group<K, T>>) {
        self.index.check_invariants();
        assert!(self.touched.is_empty());
        let mut shown = 0;
        for (id, state) in &self.groups {
            assert_eq!(*id, state.value.id);
            assert!(state.edits.is_empty() && state.members.len() > 0);
            assert_eq!(state.members.len(), self.index.ids(*id).len());
            state.members.check_invariants();
            if let Some(output) = state.output {
                shown += 1;
                let group = store.get(output).expect("a group is in the store");
                assert_eq!(group.len(), state.members.len());
            }
        }
        assert_eq!(store.len(), shown);
    }
}
