//! A collection that is computed from another one, input by input; or from nothing, as if there were one input.
//!
//! # Design
//!
//! An input runs if it changed or if a change concerns one of its dependencies. A run gives outputs, or keeps what the input gave
//! before: because it asked for that, panicked, fetched what is not synced yet, or closed a cycle. Results are staged and applied when
//! all dirty inputs have run; before the first sync they stay staged until the initial state is complete, so that it appears
//! whole. A run that fetched what is not final leaves only its new edges behind: the node goes up and goes on from
//! that input.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::super::by_id;
use super::super::cycles::Path;
use super::super::deps::{self, Deps, NO_LINK};
use super::super::graph::Graph;
use super::super::id::id32;
use super::super::node::{Awaited, Operator, Run, Step};
use super::super::panics;
use super::super::planted::{self, Bug};
use super::super::spare;
use super::super::store::{Equal, Store};
use super::children::{Children, Use};
use super::claims::Claims;
use super::parked::Parked;
use crate::collection::Collection;
use crate::fetch::{Context, Scratch};
use crate::key::Key;
use crate::shared::Counters;
use crate::traits::Keyed;

/// What one run of a transformation gives.
pub(crate) type Outputs<O> = SmallVec<[Arc<O>; 1]>;

/// The user's code.
pub(crate) type Transform<I, O> = Box<dyn Fn(&mut Context<'_>, &Arc<I>, &mut Outputs<O>) + Send + Sync>;

/// Where the inputs come from.
pub(crate) enum Input<I: Keyed> {
    Collection(Collection<I>),
    /// There is one input, always the same.
    Constant(Arc<I>),
}

/// How many inputs are [looked ahead](Derive::warm) at.
const WARMED: usize = 32;

/// Of fewer inputs, all that is known is taken to be near already.
const FEW: usize = 4_096;

const NO_OUTPUT: u32 = u32::MAX;

/// What is known of an input. There is one for each, so it is small: what few inputs have is elsewhere.
struct State {
    /// The first one of its outputs, as applied, or `NO_OUTPUT`. The others are in `others`.
    first: u32,
    /// Its dependencies: see [`Deps::commit`].
    chain: u32,
    due: Due,
}

impl State {
    fn new() -> Self {
        Self {
            first: NO_OUTPUT,
            chain: NO_LINK,
            due: Due::NOTHING,
        }
    }
}

/// What an epoch has yet to do for an input, as one number.
#[derive(Clone, Copy)]
struct Due(u32);

impl Due {
    /// Nothing is staged, and it need not run.
    const NOTHING: Self = Self(Self::PLACE);
    /// Invariant: set iff it is in `dirty`.
    const DIRTY: u32 = 1 << 31;
    /// The place in `staged`; all ones for none.
    const PLACE: u32 = Self::DIRTY - 1;

    fn is_dirty(self) -> bool {
        self.0 & Self::DIRTY != 0
    }

    /// Returns whether it was dirty before.
    fn set_dirty(&mut self, dirty: bool) -> bool {
        let before = self.is_dirty();
        self.0 = self.0 & Self::PLACE | if dirty { Self::DIRTY } else { 0 };
        before
    }

    fn place(self) -> Option<usize> {
        let place = self.0 & Self::PLACE;
        (place != Self::PLACE).then_some(place as usize)
    }

    /// # Panics
    ///
    /// If two billion inputs have results at once, which do not fit into memory.
    fn set_place(&mut self, place: Option<usize>) {
        let place = place.map_or(Self::PLACE, id32);
        assert!(place <= Self::PLACE, "too many inputs");
        self.0 = self.0 & Self::DIRTY | place;
    }
}

/// The outputs of those inputs that have more than one, but for the first one. Invariant: no list is empty.
type Others = HashMap<u32, Vec<u32>, foldhash::fast::RandomState>;

/// The key of an output: compared with the previous one at the same place before anything is hashed.
enum OutputKey {
    Same(u32),
    New(Key),
}

/// What an input is to have from this epoch on.
type Staged<O> = SmallVec<[(OutputKey, Arc<O>); 1]>;

pub(crate) struct Derive<I: Keyed, O> {
    input: Input<I>,
    transform: Transform<I, O>,
    equal: Equal<O>,
    /// By the input's id.
    states: Vec<State>,
    others: Others,
    /// The inputs to which a cycle was refused.
    refused: BTreeSet<u32>,
    dirty: Vec<u32>,
    staged: Vec<(u32, Staged<O>)>,
    claims: Claims<O>,
    /// The inputs that fetched what is not synced, and run once that is.
    parked: Parked,
    /// Whether the inputs were synced, so that they are followed.
    started: bool,
    synced: bool,
    /// The last epoch whose changes of the input were taken.
    taken: u64,
    children: Children,
    scratch: Scratch,
    counters: Arc<Counters>,
}

/// How a run of one input ended.
enum Outcome<O> {
    Outputs(Staged<O>),
    Kept,
    Superseded,
}

impl<O> Outcome<O> {
    fn used(&self) -> Use {
        match self {
            Self::Outputs(_) => Use::Outputs,
            Self::Kept => Use::Kept,
            Self::Superseded => Use::Superseded,
        }
    }
}

/// The input waits for no node that is not added yet.
fn forget_awaited(input: u32, run: &mut Run<'_>) {
    let node = run.node;
    run.awaited.retain(|one| (one.consumer, one.input) != (node, input));
}

impl<I: Keyed, O: Keyed> Derive<I, O> {
    pub(crate) fn new(input: Input<I>, transform: Transform<I, O>, equal: Equal<O>, counters: Arc<Counters>) -> Self {
        Self {
            input,
            transform,
            equal,
            states: Vec::new(),
            others: Others::default(),
            refused: BTreeSet::new(),
            dirty: Vec::new(),
            staged: Vec::new(),
            claims: Claims::new(),
            parked: Parked::default(),
            started: false,
            synced: false,
            taken: 0,
            children: Children::default(),
            scratch: Scratch::default(),
            counters,
        }
    }

    fn state(&mut self, input: u32) -> &mut State {
        let index = input as usize;
        by_id::lengthen(&mut self.states, index + 1, State::new);
        &mut self.states[index]
    }

    fn mark_dirty(&mut self, input: u32) {
        if !self.state(input).due.set_dirty(true) {
            self.dirty.push(input);
        }
    }

    /// Takes this epoch's changes of the input; tells whether the inputs are synced.
    fn take_input(&mut self, source: Option<&Store<I>>, run: &Run<'_>) -> bool {
        if !self.started {
            if source.is_some_and(|source| !source.synced) {
                return false;
            }
            self.started = true;
            match source {
                Some(source) => {
                    by_id::lengthen(&mut self.states, source.ids(), State::new);
                    self.dirty.reserve(source.ids());
                    source.iter().for_each(|(id, _)| self.mark_dirty(id));
                }
                None => self.mark_dirty(0),
            }
        } else if self.taken != run.epoch
            && let Some(source) = source
        {
            source.delta.iter().for_each(|change| self.mark_dirty(change.id));
        }
        self.taken = run.epoch;
        true
    }

    /// Runs one input. What the engine knows of it afterwards is complete, but for its outputs.
    fn run_input(&mut self, asked: Asked<'_, I>, store: &Store<O>, run: &mut Run<'_>) -> Outcome<O> {
        let Asked {
            id: input,
            source,
            object,
        } = asked;
        let index = input as usize;
        let Some(object) = object else {
            self.parked.remove(input);
            self.allow(input, run);
            self.children.forget(input);
            forget_awaited(input, run);
            let chain = &mut self.states[index].chain;
            run.deps.commit(run.graph, input, chain, &[]);
            return Outcome::Outputs(Staged::new());
        };
        self.scratch.clear();
        self.scratch.children = self.children.lend(input);
        run.deps.begin_run();
        let shared = run.shared;
        let mut context = Context::new(run, &mut self.scratch, self.states[index].chain);
        let first = self.states[index].first;
        let others = if self.others.is_empty() {
            None
        } else {
            self.others.get(&input)
        };
        let previous = |place: usize| match place.checked_sub(1) {
            None => (first != NO_OUTPUT).then_some(first),
            Some(place) => others?.get(place).copied(),
        };
        let transform = &self.transform;
        let hashing = &shared.hashing;
        let result = panics::contain(|| {
            let mut outputs = Outputs::new();
            transform(&mut context, object, &mut outputs);
            let mut keyed = Staged::<O>::new();
            for (place, output) in outputs.into_iter().enumerate() {
                let key = output.key();
                assert!(!key.is_empty(), "the key of an output is empty");
                let key = match previous(place) {
                    // The output before is compared next anyway, its key's text is elsewhere.
                    Some(id) if store.get(id).is_some_and(|old| old.key() == key) => OutputKey::Same(id),
                    // Mostly an output has the key of its input, and then shares it.
                    _ => {
                        let shared = source.and_then(|source| source.keys().share(input, key));
                        OutputKey::New(shared.unwrap_or_else(|| hashing.keep(key)))
                    }
                };
                keyed.push((key, output));
            }
            keyed
        });
        Counters::add(&self.counters.runs, 1);
        if let Some(outcome) = self.unused(asked, run) {
            panics::drop_each(result.into_iter().flatten());
            return outcome;
        }
        match result {
            Err(text) => {
                Counters::add(&self.counters.panics, 1);
                tracing::error!(collection = %self.counters.name, input = %self.key_of(asked), panic = text, "a transformation panicked");
                Outcome::Kept
            }
            Ok(keyed) if self.scratch.discarded && self.has_outputs(input) => {
                panics::drop_each(keyed);
                Outcome::Kept
            }
            Ok(keyed) => Outcome::Outputs(keyed),
        }
    }

    /// Takes over the edges and dependencies of a run; tells what becomes of it if its result is not to be used.
    fn unused(&mut self, asked: Asked<'_, I>, run: &mut Run<'_>) -> Option<Outcome<O>> {
        let input = asked.id;
        let Ok(cycles) = self.take_edges(run) else {
            Counters::add(&self.counters.superseded, 1);
            if !planted::has(Bug::SupersededMemo) {
                run.deps.drop_fresh();
            }
            return Some(Outcome::Superseded);
        };
        if planted::has(Bug::DiscardedDependencies) && self.scratch.discarded {
            self.scratch.fetched.clear();
        }
        let state = &mut self.states[input as usize];
        run.deps
            .commit(run.graph, input, &mut state.chain, &self.scratch.fetched);
        if self.scratch.unsynced.is_empty() {
            self.parked.remove(input);
        } else {
            let key = self.key_of(asked);
            self.parked.set(input, key, &self.scratch.unsynced);
        }
        forget_awaited(input, run);
        let consumer = run.node;
        let awaited = self.scratch.awaited.drain(..).map(|source| Awaited {
            source,
            consumer,
            input,
        });
        run.awaited.extend(awaited);
        self.allow(input, run);
        if !cycles.is_empty() {
            self.refused.insert(input);
            Counters::add(&self.counters.cycles, 1);
            let key = self.key_of(asked);
            for path in &cycles {
                let names = super::super::names(run.meta, path).join(" -> ");
                tracing::error!(collection = %self.counters.name, input = %key, path = names, "a fetch would close a cycle");
            }
            run.cycles.refuse(run.node, input, &key, cycles);
            return Some(Outcome::Kept);
        }
        (!self.scratch.unsynced.is_empty()).then_some(Outcome::Kept)
    }

    /// Whether the input's last accepted run gave anything.
    fn has_outputs(&self, input: u32) -> bool {
        let state = &self.states[input as usize];
        match state.due.place() {
            Some(place) => !self.staged[place].1.is_empty(),
            None => state.first != NO_OUTPUT,
        }
    }

    /// Adds the edges that the run asked for; those that would close a cycle are refused, and the dependencies on
    /// their sources with them: what is not synced there is not waited for. Tells the way along each of these cycles.
    fn take_edges(&mut self, run: &mut Run<'_>) -> Result<Vec<Path>, Superseded> {
        let mut cycles = Vec::new();
        let mut superseded = false;
        for (source, is_final) in self.scratch.edges.drain(..) {
            if let Some(mut path) = run.graph.path(source, run.node) {
                self.scratch
                    .fetched
                    .retain(|asked| run.deps.source(asked.dep) != source || planted::has(Bug::RefusedDependency));
                self.scratch
                    .unsynced
                    .retain(|unsynced| *unsynced != source || planted::has(Bug::ParkedOnRefused));
                path.insert(0, run.node);
                cycles.push(path);
                continue;
            }
            let raised = run.graph.add_edge(run.node, source);
            run.schedule.follow(&raised);
            superseded |= !is_final;
        }
        if superseded { Err(Superseded) } else { Ok(cycles) }
    }

    /// The key of an input, as users are told.
    fn key_of(&self, asked: Asked<'_, I>) -> Arc<str> {
        let key = asked.source.and_then(|source| source.keys().text(asked.id));
        key.unwrap_or_else(|| Arc::clone(&self.counters.name))
    }

    /// Forgets that a cycle was refused to an input.
    fn allow(&mut self, input: u32, run: &mut Run<'_>) {
        if self.refused.remove(&input) {
            run.cycles.allow(run.node, input);
        }
    }

    /// Has what the next inputs need near, one reference after the other of all of them.
    fn warm(&self, next: usize, source: Option<&Store<I>>, store: &Store<O>, deps: &Deps) {
        let inputs = self.dirty[next..].iter().take(WARMED);
        let states = || inputs.clone().map(|input| &self.states[*input as usize]);
        let objects = || inputs.clone().filter_map(|input| source?.get(*input));
        let outputs = || states().filter_map(|own| store.get(own.first));
        if let Some(source) = source {
            by_id::warm(inputs.clone().map(|input| source.peek(*input)));
        }
        by_id::warm(states().map(|own| {
            let output = own.first;
            store.peek(output) ^ self.claims.peek(output) ^ deps.peek(own.chain, 0)
        }));
        by_id::warm(outputs().map(Arc::strong_count));
        // It is users who say what the key of an object is. If that panics, it will for the input, too.
        let keys = panics::contain(|| {
            by_id::warm(objects().map(|object| object.key().peek()));
            by_id::warm(outputs().map(|output| output.key().peek()));
        });
        drop(keys);
        for depth in 1..=deps::DEPTH {
            by_id::warm(states().map(|own| deps.peek(own.chain, depth)));
        }
    }

    fn stage(&mut self, input: u32, outputs: Staged<O>) {
        let due = &mut self.states[input as usize].due;
        if let Some(place) = due.place() {
            panics::drop_each([std::mem::replace(&mut self.staged[place].1, outputs)]);
        } else {
            due.set_place(Some(self.staged.len()));
            self.staged.push((input, outputs));
        }
    }

    /// Replaces the claims of all staged inputs, then decides each key. Nearly all inputs claim what they claimed before, which is left
    /// for last: if nobody else claims it either, there is nothing to decide.
    fn apply(&mut self, store: &mut Store<O>, source: Option<&Store<I>>) {
        if !self.synced {
            let staged = self.staged.iter().flat_map(|(_, staged)| staged);
            let new = staged.filter(|(key, _)| matches!(key, OutputKey::New(_))).count();
            store.expect(new);
            self.claims.make_room(new);
        }
        let key_of = |input| source.and_then(|source| source.keys().text(input));
        for (input, staged) in &mut self.staged {
            let input = *input;
            let state = &mut self.states[input as usize];
            state.due.set_place(None);
            let before = if self.others.is_empty() {
                None
            } else {
                self.others.remove(&input)
            };
            let before = before.unwrap_or_default();
            if is_usual(staged, state.first, &before) {
                continue;
            }
            let staged = std::mem::take(staged);
            let first = std::mem::replace(&mut state.first, NO_OUTPUT);
            let mut others = Vec::new();
            self.claims.begin();
            for (key, value) in staged {
                let output = match key {
                    OutputKey::Same(output) => output,
                    OutputKey::New(key) => store.reserve(&key),
                };
                if !self.claims.claim(store, output, input, value) {
                    continue;
                }
                if state.first == NO_OUTPUT {
                    state.first = output;
                } else {
                    others.push(output);
                }
            }
            for output in outputs_of(first, &before) {
                self.claims.retract(store, output, input);
            }
            if !others.is_empty() {
                self.others.insert(input, others);
            }
            if planted::has(Bug::ClaimsOneByOne) {
                self.claims.decide(store, self.equal, key_of);
            }
        }
        for (input, staged) in self.staged.drain(..) {
            for (key, value) in staged {
                let OutputKey::Same(output) = key else { continue };
                if self.claims.owns(output, input) {
                    store.update(output, Some(value), self.equal);
                } else {
                    self.claims.begin();
                    self.claims.claim(store, output, input, value);
                }
            }
        }
        spare::keep(&mut self.staged);
        let conflicts = self.claims.decide(store, self.equal, key_of);
        if conflicts > 0 {
            Counters::add(&self.counters.conflicts, conflicts);
            tracing::warn!(collection = %self.counters.name, keys = conflicts, "several inputs claim one key");
        }
    }
}

/// The outputs of an input.
fn outputs_of(first: u32, others: &[u32]) -> impl Iterator<Item = u32> {
    let first = (first != NO_OUTPUT).then_some(first);
    first.into_iter().chain(others.iter().copied())
}

/// Whether an input has the one output that it had before.
fn is_usual<O>(staged: &Staged<O>, first: u32, others: &[u32]) -> bool {
    matches!(&staged[..], [(OutputKey::Same(output), _)] if *output == first && others.is_empty())
}

/// An input that is to run.
struct Asked<'a, I> {
    id: u32,
    /// `None` if the collection has no inputs.
    source: Option<&'a Store<I>>,
    /// `None` once it is gone.
    object: Option<&'a Arc<I>>,
}

impl<I> Clone for Asked<'_, I> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I> Copy for Asked<'_, I> {}

/// A run fetched what is not final yet.
struct Superseded;

impl<I: Keyed, O: Keyed> Operator<O> for Derive<I, O> {
    fn mark(&mut self, input: u32) {
        self.mark_dirty(input);
    }

    fn run(&mut self, store: &mut Store<O>, run: &mut Run<'_>) -> Step {
        let nodes = run.nodes;
        let source = match &self.input {
            Input::Collection(collection) => match nodes.store::<I>(collection.id()) {
                Some(source) => Some(source),
                None => return Step::Finished { synced: self.synced },
            },
            Input::Constant(_) => None,
        };
        if !self.take_input(source, run) {
            return Step::Finished { synced: self.synced };
        }
        let constant = match &self.input {
            Input::Constant(object) => Some(Arc::clone(object)),
            Input::Collection(_) => None,
        };
        self.staged.reserve(self.dirty.len());
        let mut next = 0;
        while let Some(input) = self.dirty.get(next).copied() {
            if next % WARMED == 0 && self.states.len() >= FEW {
                self.warm(next, source, store, run.deps);
            }
            let object = match source {
                Some(source) => source.get(input),
                None => constant.as_ref(),
            };
            let asked = Asked {
                id: input,
                source,
                object,
            };
            let outcome = self.run_input(asked, store, run);
            let children = std::mem::take(&mut self.scratch.children);
            self.children.take_back(input, children, outcome.used());
            match outcome {
                Outcome::Superseded => {
                    self.dirty.drain(..next);
                    return Step::Superseded;
                }
                Outcome::Outputs(outputs) => self.stage(input, outputs),
                Outcome::Kept => {}
            }
            self.states[input as usize].due.set_dirty(false);
            next += 1;
        }
        self.dirty.clear();
        spare::keep(&mut self.dirty);
        if self.synced || self.parked.is_empty() || planted::has(Bug::SyncEarly) {
            self.apply(store, source);
            self.synced = true;
        }
        Step::Finished { synced: self.synced }
    }

    fn parked(&self) -> Option<&Parked> {
        Some(&self.parked)
    }

    fn end(&mut self, deps: &mut Deps, graph: &mut Graph) {
        for (input, state) in (0..).zip(&mut self.states) {
            deps.commit(graph, input, &mut state.chain, &[]);
        }
    }

    #[cfg(test)]
    fn live(&self) -> Vec<usize> {
        let used = self.states.iter().filter(|state| state.chain != NO_LINK);
        let first = self.states.iter().filter(|state| state.first != NO_OUTPUT).count();
        let others = self.others.values().map(Vec::len).sum::<usize>();
        vec![
            used.count(),
            first + others,
            self.staged.len(),
            self.refused.len(),
            self.claims.live(),
        ]
    }

    #[cfg(test)]
    fn check_invariants(&self, store: &Store<O>) {
        let mut claimed = std::collections::BTreeMap::<u32, Vec<u32>>::new();
        for (input, state) in (0..).zip(&self.states) {
            let others = self.others.get(&input).map_or(&[][..], Vec::as_slice);
            assert!(others.is_empty() || state.first != NO_OUTPUT);
            for output in outputs_of(state.first, others) {
                claimed.entry(output).or_default().push(input);
            }
            assert_eq!(state.due.is_dirty(), self.dirty.contains(&input));
            if let Some(place) = state.due.place() {
                assert_eq!(self.staged[place].0, input);
            }
        }
        assert!(self.others.values().all(|others| !others.is_empty()));
        self.claims.check_invariants(store, &claimed);
        self.parked.check_invariants();
        assert!(
            self.staged.is_empty() || !self.synced,
            "results are kept back only before the first sync"
        );
        assert!(self.dirty.is_empty());
    }
}
