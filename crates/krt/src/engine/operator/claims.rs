//! Which input's value an output key has, when several inputs claim it.
//!
//! # Design
//!
//! Of the inputs that claim a key, the one with the smallest key owns it. Nearly always there is one, and then its value is only in
//! the store; all claims of a contested key are kept here. An epoch replaces the claims of all its inputs first, and only then
//! decides each key that was touched: what it was in between is nobody's business.

use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::super::id::id32;
use super::super::panics;
use super::super::planted::{self, Bug};
use super::super::store::{Equal, Store};

/// No input, or no place in a list.
const NONE: u32 = u32::MAX;

/// The claims of one key: inputs, and what they claim it to be.
type Claimed<O> = SmallVec<[(u32, Arc<O>); 1]>;

struct Touched<O> {
    output: u32,
    claims: Claimed<O>,
}

pub(super) struct Claims<O> {
    /// By output id, the input that owns it.
    owners: Vec<u32>,
    /// Invariant: exactly the outputs with more than one claim, each with all of its claims.
    contested: HashMap<u32, Claimed<O>, foldhash::fast::RandomState>,
    /// The outputs whose claims this epoch changes. Invariant: empty between epochs.
    touched: Vec<Touched<O>>,
    /// By output id, its place in `touched`.
    places: Vec<u32>,
    /// By output id, the last turn in which it was claimed.
    claimed: Vec<u64>,
    turn: u64,
}

impl<O: Send + Sync + 'static> Claims<O> {
    pub(super) fn new() -> Self {
        Self {
            owners: Vec::new(),
            contested: HashMap::default(),
            touched: Vec::new(),
            places: Vec::new(),
            claimed: Vec::new(),
            turn: 0,
        }
    }

    /// It is the next input's turn: it claims all its outputs, then takes back what it does not claim any more.
    pub(super) fn begin(&mut self) {
        self.turn += 1;
    }

    fn edit(&mut self, store: &Store<O>, output: u32) -> &mut Touched<O> {
        let index = output as usize;
        if index >= self.owners.len() {
            self.owners.resize(index + 1, NONE);
            self.places.resize(index + 1, NONE);
            self.claimed.resize(index + 1, 0);
        }
        if self.places[index] == NONE {
            let claims = self.contested.remove(&output).unwrap_or_else(|| {
                let owner = self.owners[index];
                let value = store.get(output).filter(|_| owner != NONE);
                value.map(|value| (owner, Arc::clone(value))).into_iter().collect()
            });
            self.places[index] = id32(self.touched.len());
            self.touched.push(Touched { output, claims });
        }
        &mut self.touched[self.places[index] as usize]
    }

    /// Takes an input's claim back, unless it was made in this turn.
    pub(super) fn retract(&mut self, store: &Store<O>, output: u32, input: u32) {
        if self.claimed[output as usize] == self.turn {
            return;
        }
        let claims = &mut self.edit(store, output).claims;
        if let Some(at) = claims.iter().position(|(own, _)| *own == input) {
            panics::drop_each([claims.remove(at)]);
        }
    }

    /// An input claims an output, or changes what it claims it to be. What it claims twice in one turn is what it claimed first;
    /// returns whether this is the first time.
    pub(super) fn claim(&mut self, store: &Store<O>, output: u32, input: u32, value: Arc<O>) -> bool {
        self.edit(store, output);
        if std::mem::replace(&mut self.claimed[output as usize], self.turn) == self.turn {
            panics::drop_each([value]);
            return false;
        }
        let claims = &mut self.edit(store, output).claims;
        match claims.iter_mut().find(|(own, _)| *own == input) {
            Some((_, own)) => panics::drop_each([std::mem::replace(own, value)]),
            None => claims.push((input, value)),
        }
        true
    }

    /// Decides each key whose claims changed. `key_of` gives the bytes of an input's key. Returns how many of
    /// them are contested.
    pub(super) fn decide<'k>(
        &mut self,
        store: &mut Store<O>,
        equal: Equal<O>,
        key_of: impl Fn(u32) -> &'k [u8],
    ) -> u64 {
        let mut conflicts = 0;
        for Touched { output, claims } in self.touched.drain(..) {
            let index = output as usize;
            self.places[index] = NONE;
            let owner = if planted::has(Bug::FirstClaimant) {
                claims.first()
            } else {
                claims.iter().min_by_key(|(input, _)| key_of(*input))
            };
            let (owner, value) = owner.map_or((NONE, None), |(input, value)| (*input, Some(Arc::clone(value))));
            self.owners[index] = owner;
            store.update(output, value, equal);
            if claims.len() > 1 {
                conflicts += 1;
                self.contested.insert(output, claims);
            } else {
                panics::drop_each(claims);
            }
        }
        conflicts
    }

    #[cfg(test)]
    pub(super) fn check_invariants(&self, store: &Store<O>, claimed: &std::collections::BTreeMap<u32, Vec<u32>>) {
        assert!(self.touched.is_empty());
        assert!(self.places.iter().all(|place| *place == NONE));
        assert_eq!(store.len(), claimed.len(), "each output is claimed, and nothing else");
        for (output, inputs) in claimed {
            assert!(inputs.contains(&self.owners[*output as usize]));
            let mut claims: Vec<u32> = match self.contested.get(output) {
                Some(claims) => claims.iter().map(|(input, _)| *input).collect(),
                None => vec![self.owners[*output as usize]],
            };
            claims.sort_unstable();
            assert_eq!(&claims, inputs);
        }
        assert!(self.contested.values().all(|claims| claims.len() > 1));
    }
}
