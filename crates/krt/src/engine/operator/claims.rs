//! Which input's value an output key has, when several inputs claim it.
//!
//! # Design
//!
//! Of the inputs that claim a key, the one with the smallest key owns it. Nearly always there is one, and then its value is only in
//! the store; all claims of a contested key are kept here. An epoch replaces the claims of all its inputs first, and only then
//! decides each key that was touched: what it was in between is nobody's business.

use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::{SmallVec, smallvec};

use super::super::by_id;
use super::super::id::id32;
use super::super::panics;
use super::super::planted::{self, Bug};
use super::super::spare;
use super::super::store::{Equal, Store};

/// The claims of one key: inputs, and what they claim it to be.
type Claimed<O> = SmallVec<[(u32, Arc<O>); 1]>;

struct Touched<O> {
    output: u32,
    /// The last turn in which it was claimed; 0 if it was only taken back.
    turn: u64,
    claims: Claimed<O>,
}

/// What is known of one output: the input that owns it; or if it is touched, by this bit, its place in `touched`. There is one for each
/// output, and fewer than 2^31 of them.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Claim(u32);

const TOUCHED: u32 = 1 << 31;

impl Claim {
    /// Nobody owns it.
    const NONE: Self = Self(TOUCHED - 1);

    fn of(owner: u32) -> Self {
        assert!(owner < Self::NONE.0, "fewer than 2^31 inputs");
        Self(owner)
    }

    fn at(place: usize) -> Self {
        Self(TOUCHED | id32(place))
    }

    fn owner(self) -> Option<u32> {
        (self.0 < Self::NONE.0).then_some(self.0)
    }

    fn place(self) -> Option<usize> {
        (self.0 & TOUCHED != 0).then_some((self.0 & !TOUCHED) as usize)
    }
}

pub(super) struct Claims<O> {
    /// By output id.
    outputs: Vec<Claim>,
    /// Invariant: exactly the outputs with more than one claim, each with all of its claims.
    contested: HashMap<u32, Claimed<O>, foldhash::fast::RandomState>,
    /// The outputs whose claims this epoch changes. Invariant: empty between epochs.
    touched: Vec<Touched<O>>,
    turn: u64,
}

impl<O: Send + Sync + 'static> Claims<O> {
    pub(super) fn new() -> Self {
        Self {
            outputs: Vec::new(),
            contested: HashMap::default(),
            touched: Vec::new(),
            turn: 0,
        }
    }

    /// Makes room for so many more outputs at once.
    pub(super) fn make_room(&mut self, more: usize) {
        by_id::make_room(&mut self.outputs, more);
        self.touched.reserve(more);
    }

    /// It is the next input's turn: it claims all its outputs, then takes back what it does not claim any more.
    pub(super) fn begin(&mut self) {
        self.turn += 1;
    }

    fn output(&mut self, output: u32) -> &mut Claim {
        let index = output as usize;
        by_id::lengthen(&mut self.outputs, index + 1, || Claim::NONE);
        &mut self.outputs[index]
    }

    /// Reads what is known of an output. See [`by_id::warm`].
    pub(super) fn peek(&self, output: u32) -> usize {
        let claim = self.outputs.get(output as usize);
        usize::from(claim.is_some_and(|claim| claim.owner().is_some()))
    }

    fn edit(&mut self, store: &Store<O>, output: u32) -> &mut Touched<O> {
        let own = *self.output(output);
        if let Some(place) = own.place() {
            return &mut self.touched[place];
        }
        let claims = self.contested.remove(&output).unwrap_or_else(|| {
            let claim = own.owner().zip(store.get(output).cloned());
            claim.into_iter().collect()
        });
        self.touch(output, claims)
    }

    /// Precondition: it is not touched yet.
    fn touch(&mut self, output: u32, claims: Claimed<O>) -> &mut Touched<O> {
        let place = self.touched.len();
        *self.output(output) = Claim::at(place);
        self.touched.push(Touched {
            output,
            turn: 0,
            claims,
        });
        &mut self.touched[place]
    }

    /// Whether nobody but this input claims an output, in this epoch as in those before.
    pub(super) fn owns(&self, output: u32, input: u32) -> bool {
        let own = self.outputs[output as usize];
        own.owner() == Some(input) && (self.contested.is_empty() || !self.contested.contains_key(&output))
    }

    /// Whether an output was claimed in this turn.
    fn is_claimed(&self, output: u32) -> bool {
        let place = self.outputs[output as usize].place();
        place.is_some_and(|place| self.touched[place].turn == self.turn)
    }

    /// Takes an input's claim back, unless it was made in this turn.
    pub(super) fn retract(&mut self, store: &Store<O>, output: u32, input: u32) {
        if self.is_claimed(output) {
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
        let turn = self.turn;
        self.output(output);
        if self.is_claimed(output) {
            panics::drop_each([value]);
            return false;
        }
        if self.owns(output, input) {
            // What it claimed before does not matter.
            self.touch(output, smallvec![(input, value)]).turn = turn;
            return true;
        }
        let touched = self.edit(store, output);
        touched.turn = turn;
        let claims = &mut touched.claims;
        match claims.iter_mut().find(|(own, _)| *own == input) {
            Some((_, own)) => panics::drop_each([std::mem::replace(own, value)]),
            None => claims.push((input, value)),
        }
        true
    }

    /// Decides each key whose claims changed. `key_of` gives an input's key. Returns how many of
    /// them are contested.
    pub(super) fn decide(
        &mut self,
        store: &mut Store<O>,
        equal: Equal<O>,
        key_of: impl Fn(u32) -> Option<Arc<str>>,
    ) -> u64 {
        let mut conflicts = 0;
        for Touched { output, mut claims, .. } in self.touched.drain(..) {
            let own = &mut self.outputs[output as usize];
            if claims.len() <= 1 {
                let (owner, value) = claims.pop().unzip();
                *own = owner.map_or(Claim::NONE, Claim::of);
                store.update(output, value, equal);
                continue;
            }
            let owner = if planted::has(Bug::FirstClaimant) {
                claims.first()
            } else {
                claims.iter().min_by_key(|(input, _)| key_of(*input))
            };
            let (owner, value) = owner.cloned().unzip();
            *own = owner.map_or(Claim::NONE, Claim::of);
            store.update(output, value, equal);
            conflicts += 1;
            self.contested.insert(output, claims);
        }
        spare::keep(&mut self.touched);
        conflicts
    }

    /// How many keys are contested.
    #[cfg(test)]
    pub(super) fn live(&self) -> usize {
        self.contested.len()
    }

    #[cfg(test)]
    pub(super) fn check_invariants(&self, store: &Store<O>, claimed: &std::collections::BTreeMap<u32, Vec<u32>>) {
        assert!(self.touched.is_empty());
        assert!(self.outputs.iter().all(|own| own.place().is_none()));
        assert_eq!(store.len(), claimed.len(), "each output is claimed, and nothing else");
        for (output, inputs) in claimed {
            let owner = self.outputs[*output as usize].owner();
            assert!(owner.is_some_and(|owner| inputs.contains(&owner)));
            let mut claims: Vec<u32> = match self.contested.get(output) {
                Some(claims) => claims.iter().map(|(input, _)| *input).collect(),
                None => owner.into_iter().collect(),
            };
            claims.sort_unstable();
            assert_eq!(&claims, inputs);
        }
        assert!(self.contested.values().all(|claims| claims.len() > 1));
    }
}
