//! The rules, written naively: each epoch looks at every input of every collection, in the order of their numbers, in which each
//! comes after all that it may read. Nothing here is shared with the engine, but for the transformations.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::brittle::{Break, Brittle};
use super::history::{Edit, History, Kind, Nested, Object, Recipe};
use super::matcher::{Asked, Naive};
use super::program;

/// What is known of an input since its last run.
#[derive(Debug, Default, Clone)]
struct Input {
    outputs: Vec<Object>,
    asked: Vec<Asked>,
    /// The states that it read.
    states: Vec<usize>,
    parked: bool,
    /// The result of a run was used.
    accepted: bool,
    /// The outputs are those of an earlier run.
    kept: bool,
}

/// A member of a nested join: what it shows, and, if it is a copy, the epoch that made it.
type Member = (usize, Option<u64>);

/// A lender of a nested join.
#[derive(Debug, Default)]
struct Place {
    lent: Option<(usize, Member)>,
    current: Option<Member>,
    next: Option<Member>,
    is_initial: bool,
}

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "facts of different kinds of collections")]
pub(super) struct Node {
    pub(super) content: BTreeMap<String, Object>,
    pub(super) synced: bool,
    /// For sources: what was written, which is taken at the next epoch.
    latest: BTreeMap<String, Object>,
    touched: BTreeSet<String>,
    marked: bool,
    /// For others.
    started: bool,
    inputs: BTreeMap<String, Input>,
    places: BTreeMap<String, Place>,
    /// What the present epoch changed.
    pub(super) changes: Vec<(String, Option<Object>, Option<Object>)>,
    newly_synced: bool,
}

/// State that is no collection.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(super) struct State {
    is_protected: bool,
    /// As of the present epoch, and as it was written.
    pub(super) value: i64,
    latest: i64,
    is_written: bool,
    marked: bool,
    synced: bool,
    /// The present epoch changed it, or its sync.
    is_news: bool,
}

pub(super) struct Model {
    pub(super) nodes: Vec<Node>,
    states: Vec<State>,
    /// How many objects were made.
    made: Cell<u64>,
    recipes: Vec<Recipe>,
    sources: usize,
    epoch: u64,
    /// The runs of the present epoch: (collection, input).
    pub(super) runs: Vec<(usize, String)>,
}

/// Whether an object counts as another one. The same one counts as itself, whatever its equality does.
fn differs(old: Option<&Object>, new: Option<&Object>) -> bool {
    let (Some(old), Some(new)) = (old, new) else {
        return old.is_some() != new.is_some();
    };
    let breaks = |one: &Object| one.brittle.breaks_at(Break::Equal);
    old != new || (old.brittle.made != new.brittle.made && (breaks(old) || breaks(new)))
}

/// What becomes of the objects with one key. `Err`: it panics.
type Combine = fn(&[&Object], bool) -> Result<Option<Object>, ()>;

#[expect(clippy::unnecessary_wraps, reason = "it is one of several")]
fn first(objects: &[&Object], _: bool) -> Result<Option<Object>, ()> {
    Ok(Some(objects[0].clone()))
}

fn merge(objects: &[&Object], panics: bool) -> Result<Option<Object>, ()> {
    catch_unwind(AssertUnwindSafe(|| program::merge(objects, panics))).map_err(drop)
}

impl Model {
    pub(super) fn new(history: &History) -> Self {
        let mut nodes: Vec<Node> = (0..history.len()).map(|_| Node::default()).collect();
        for (node, synced) in nodes.iter_mut().zip(&history.sources) {
            node.marked = *synced;
        }
        let states = history.states.iter().map(|is_protected| State {
            is_protected: *is_protected,
            value: 0,
            latest: 0,
            is_written: false,
            marked: *is_protected,
            synced: false,
            is_news: false,
        });
        Self {
            nodes,
            states: states.collect(),
            made: Cell::new(0),
            recipes: history.recipes.clone(),
            sources: history.sources.len(),
            epoch: 0,
            runs: Vec::new(),
        }
    }

    /// Writes to a source.
    pub(super) fn write(&mut self, edit: &Edit) {
        match edit {
            Edit::Update(source, object) => {
                let node = &mut self.nodes[*source];
                if node.latest.insert(object.key.clone(), object.clone()).is_some() {
                    node.touched.insert(object.key.clone());
                }
            }
            Edit::Conditional(source, object) => {
                self.nodes[*source].latest.insert(object.key.clone(), object.clone());
            }
            Edit::Version(source, object) => {
                let node = &mut self.nodes[*source];
                node.latest.insert(object.key.clone(), object.clone());
                node.touched.insert(object.key.clone());
            }
            Edit::Delete(source, key) => {
                self.nodes[*source].latest.remove(*key);
                self.nodes[*source].touched.remove(*key);
            }
            Edit::DeleteWhere(source, least) => {
                let node = &mut self.nodes[*source];
                node.latest.retain(|_, object| object.value < *least);
                let latest = &node.latest;
                node.touched.retain(|key| latest.contains_key(key));
            }
            Edit::Reset(source, objects) => {
                let node = &mut self.nodes[*source];
                node.touched.clear();
                node.latest = objects
                    .iter()
                    .map(|object| (object.key.clone(), object.clone()))
                    .collect();
            }
            Edit::MarkSynced(source) => self.nodes[*source].marked = true,
            Edit::Modify(state, value) => {
                let state = &mut self.states[*state];
                state.is_written = true;
                if state.is_protected {
                    state.latest = *value;
                }
            }
            Edit::MarkState(state) => self.states[*state].marked = true,
            Edit::Step | Edit::Pin | Edit::Unpin | Edit::Handle(..) | Edit::Unhandle | Edit::RunHandlers => {}
        }
    }

    /// One epoch: everything that was written is taken, and all collections follow.
    pub(super) fn step(&mut self) {
        self.runs.clear();
        self.epoch += 1;
        for state in &mut self.states {
            state.value = state.latest;
            state.is_news = std::mem::take(&mut state.is_written) || state.synced != state.marked;
            state.synced = state.marked;
        }
        for number in 0..self.nodes.len() {
            self.nodes[number].changes.clear();
            self.nodes[number].newly_synced = false;
            if number < self.sources {
                self.take(number);
                continue;
            }
            match self.recipes[number - self.sources].kind.clone() {
                Kind::One(input) | Kind::Many(input) | Kind::Status(input, _) => self.derive(number, Some(input)),
                Kind::Map(input) => self.map(number, input),
                Kind::Nothing => self.derive(number, None),
                Kind::Join(members, _) => self.combine(number, &members, first),
                Kind::Merge(members) => self.combine(number, &members, merge),
                Kind::Group(input) => self.group(number, input),
                Kind::Nested(nested) => self.nest(number, &nested),
            }
        }
    }

    fn take(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        let keys: BTreeSet<_> = node.latest.keys().chain(node.content.keys()).cloned().collect();
        for key in keys {
            let (old, new) = (node.content.get(&key).cloned(), node.latest.get(&key).cloned());
            if old != new || node.touched.contains(&key) {
                node.changes.push((key, old, new));
            }
        }
        node.touched.clear();
        node.content = node.latest.clone();
        node.newly_synced = node.marked && !node.synced;
        node.synced |= node.marked;
    }

    /// Sets a collection's content; what is equal does not change, and stays the object that it is.
    fn set(&mut self, number: usize, mut content: BTreeMap<String, Object>) {
        let node = &mut self.nodes[number];
        let keys: BTreeSet<_> = content.keys().chain(node.content.keys()).cloned().collect();
        for key in keys {
            let (old, new) = (node.content.get(&key).cloned(), content.get(&key).cloned());
            if differs(old.as_ref(), new.as_ref()) {
                node.changes.push((key, old, new));
            } else {
                content.extend(old.map(|old| (key, old)));
            }
        }
        node.content = content;
        node.newly_synced = !node.synced;
        node.synced = true;
    }

    fn map(&mut self, number: usize, input: usize) {
        if self.nodes[input].synced {
            let objects = self.nodes[input].content.iter();
            let content = objects
                .map(|(key, object)| (key.clone(), program::map(object)))
                .collect();
            self.set(number, content);
        }
    }

    fn combine(&mut self, number: usize, members: &[usize], combine: Combine) {
        if members.iter().all(|member| self.nodes[*member].synced) {
            self.show(number, members, combine, false);
        }
    }

    /// Sets a collection's content to that of several others, or of copies of them.
    fn show(&mut self, number: usize, members: &[usize], combine: Combine, copies: bool) {
        let panics = self.recipes[number - self.sources].panics;
        let mut content = BTreeMap::new();
        for key in super::history::KEYS {
            let objects = members
                .iter()
                .filter_map(|member| self.nodes[*member].content.get(key).cloned());
            let mut objects: Vec<_> = objects.collect();
            for object in objects.iter_mut().filter(|_| copies) {
                object.brittle = Brittle::default();
            }
            if objects.is_empty() {
                continue;
            }
            let object = match combine(&objects.iter().collect::<Vec<_>>(), panics) {
                Ok(object) => object,
                Err(()) => self.nodes[number].content.get(key).cloned(),
            };
            content.extend(object.map(|object| (key.to_owned(), object)));
        }
        self.set(number, content);
    }

    fn group(&mut self, number: usize, input: usize) {
        if !self.nodes[input].synced {
            return;
        }
        let objects = self.nodes[input].content.values();
        let groups = (0..3).filter_map(|third| {
            let is_in =
                |object: &&Object| object.value.rem_euclid(3) == third && !object.brittle.breaks_at(Break::Index);
            let members = objects.clone().filter(is_in);
            let members: Vec<_> = members.collect();
            let group = program::group(third, &members);
            (!members.is_empty()).then(|| (group.key.clone(), group))
        });
        let content = groups.collect();
        self.set(number, content);
    }

    fn nest(&mut self, number: usize, nested: &Nested) {
        if !self.nodes[nested.input].synced {
            return;
        }
        let lenders = self.nodes[nested.input].content.clone();
        let mut places = std::mem::take(&mut self.nodes[number].places);
        let is_first = !std::mem::replace(&mut self.nodes[number].started, true);
        places.retain(|key, _| lenders.contains_key(key));
        for (key, lender) in &lenders {
            let choice = nested.choice(lender);
            let place = places.entry(key.clone()).or_insert_with(|| Place {
                is_initial: is_first,
                ..Place::default()
            });
            // Another choice is another member, and so is another copy of the same one.
            let member = match place.lent {
                Some((before, member)) if before == choice => member,
                _ => (nested.targets[choice], nested.copies.then_some(self.epoch)),
            };
            place.lent = Some((choice, member));
            place.next = (place.current != Some(member)).then_some(member);
        }
        // A copy is there from the epoch after.
        let is_ready = |member: &Member| {
            let (target, made) = *member;
            self.nodes[target].synced && made.is_none_or(|made| made < self.epoch)
        };
        let is_complete = |place: &Place| !place.is_initial || place.next.as_ref().is_none_or(is_ready);
        if self.nodes[number].synced || places.values().all(is_complete) {
            for place in places.values_mut() {
                if let Some(next) = place.next.take_if(|next| is_ready(next)) {
                    place.current = Some(next);
                }
            }
            let members: Vec<_> = places.values().filter_map(|place| Some(place.current?.0)).collect();
            self.show(
                number,
                &members,
                if nested.merges { merge } else { first },
                nested.copies,
            );
        }
        self.nodes[number].places = places;
    }

    fn derive(&mut self, number: usize, input: Option<usize>) {
        if input.is_some_and(|input| !self.nodes[input].synced) {
            return;
        }
        let objects = match input {
            Some(input) => self.nodes[input].content.clone(),
            None => BTreeMap::from([(String::new(), program::constant())]),
        };
        let mut inputs = std::mem::take(&mut self.nodes[number].inputs);
        let started = std::mem::replace(&mut self.nodes[number].started, true);
        inputs.retain(|key, _| objects.contains_key(key));
        for (key, object) in &objects {
            let known = inputs.entry(key.clone()).or_default();
            let changed = input.is_some_and(|input| self.nodes[input].changes.iter().any(|(own, ..)| own == key));
            let is_caused = !started
                || changed
                || known.asked.iter().any(|asked| self.is_concerned(asked))
                || known.states.iter().any(|state| self.states[*state].is_news);
            let run = self.run(number, object, &known.clone());
            if is_caused {
                self.runs.push((number, key.clone()));
                *known = run;
            } else if !known.kept {
                assert_eq!(
                    run.outputs, known.outputs,
                    "the model itself: a result changed without a cause"
                );
            }
        }
        let is_complete = self.nodes[number].synced || inputs.values().all(|input| !input.parked);
        if is_complete {
            let mut content = BTreeMap::new();
            // The smallest key comes first, and of one input's the first.
            for output in inputs.values().flat_map(|input| &input.outputs) {
                content.entry(output.key.clone()).or_insert_with(|| output.clone());
            }
            self.set(number, content);
        }
        self.nodes[number].inputs = inputs;
    }

    fn is_concerned(&self, asked: &Asked) -> bool {
        let target = &self.nodes[asked.target];
        let changes = &target.changes;
        target.newly_synced
            || changes
                .iter()
                .any(|(_, old, new)| asked.is_concerned(old.as_ref(), new.as_ref()))
    }

    fn run(&self, number: usize, object: &Object, before: &Input) -> Input {
        let recipe = &self.recipes[number - self.sources];
        let mut reader = Naive {
            nodes: &self.nodes,
            all: &self.states,
            asked: Vec::new(),
            states: Vec::new(),
            discarded: false,
        };
        let result = catch_unwind(AssertUnwindSafe(|| {
            let outputs = program::transform(recipe, object, &mut reader);
            let breaks = outputs.iter().any(|one| one.brittle.breaks_at(Break::Key));
            assert!(!breaks, "the key of an output panics");
            outputs
        }));
        let parked = reader.asked.iter().any(|asked| !self.nodes[asked.target].synced)
            || reader.states.iter().any(|state| !self.states[*state].synced);
        // A status is something, whatever is beside it.
        let (has_last, shows_status) = match recipe.kind {
            Kind::Status(_, shows_status) => (before.accepted, shows_status),
            _ => (!before.outputs.is_empty(), false),
        };
        let kept = parked || result.is_err() || (reader.discarded && has_last);
        let mut outputs = result.unwrap_or_default();
        if shows_status {
            let status = program::status(&outputs);
            outputs = status
                .map(|status| program::shown(object, status))
                .into_iter()
                .collect();
        }
        for output in &mut outputs {
            self.made.set(self.made.get() + 1);
            output.brittle.made = self.made.get();
        }
        Input {
            outputs: if kept { before.outputs.clone() } else { outputs },
            asked: reader.asked,
            states: reader.states,
            parked,
            accepted: before.accepted || !kept,
            kept,
        }
    }
}
