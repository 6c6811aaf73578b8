//! The rules, written naively: each epoch looks at every input of every collection, in the order of their numbers, in which each
//! comes after all that it may read. Nothing here is shared with the engine, but for the transformations.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::history::{Edit, History, Kind, Nested, Object, Recipe};
use super::program::{self, Condition, Reader};

/// What one fetch asked.
#[derive(Debug, Clone)]
struct Asked {
    target: usize,
    conditions: Vec<Condition>,
    ask: Want,
}

#[derive(Debug, Clone, Copy)]
enum Want {
    Objects,
    Exists,
    Halves,
}

/// What is known of an input since its last run.
#[derive(Debug, Default, Clone)]
struct Input {
    outputs: Vec<Object>,
    asked: Vec<Asked>,
    parked: bool,
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

pub(super) struct Model {
    pub(super) nodes: Vec<Node>,
    recipes: Vec<Recipe>,
    sources: usize,
    epoch: u64,
    /// The runs of the present epoch: (collection, input).
    pub(super) runs: Vec<(usize, String)>,
}

fn matches(condition: &Condition, object: &Object) -> bool {
    let has = |labels: &crate::Labels, wanted: &crate::Labels| {
        wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
    };
    let (namespace, name) = Object::namespace_and_name(&object.key);
    match condition {
        Condition::Key(key) => object.key == *key,
        Condition::Name(wanted) => name == wanted,
        Condition::Namespace(wanted) => namespace == wanted,
        Condition::Labels(wanted) => has(&object.labels, wanted),
        Condition::Selecting(labels) => object.selector.as_ref().is_some_and(|selector| has(labels, selector)),
        Condition::SelectingNonEmpty(labels) => object
            .selector
            .as_ref()
            .is_some_and(|selector| !selector.is_empty() && has(labels, selector)),
        Condition::Thirds(third) => object.value.rem_euclid(3) == *third,
        Condition::Where(least) | Condition::WhereWith(least) => object.value >= *least,
    }
}

impl Asked {
    fn is_match(&self, object: Option<&Object>) -> bool {
        object.is_some_and(|object| self.conditions.iter().all(|condition| matches(condition, object)))
    }

    /// Whether a change concerns who asked.
    fn is_concerned(&self, old: Option<&Object>, new: Option<&Object>) -> bool {
        let (before, after) = (self.is_match(old), self.is_match(new));
        match self.ask {
            Want::Objects => before || after,
            Want::Exists => before != after,
            Want::Halves => before != after || (before && old.map(|one| one.value / 2) != new.map(|one| one.value / 2)),
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it is one of several")]
fn first(objects: &[&Object]) -> Option<Object> {
    Some(objects[0].clone())
}

/// Reads the model, and notes what is asked.
struct Naive<'a> {
    nodes: &'a [Node],
    asked: Vec<Asked>,
    discarded: bool,
}

impl Naive<'_> {
    fn ask(&mut self, target: usize, conditions: &[Condition], ask: Want) -> Vec<Object> {
        let asked = Asked {
            target,
            conditions: conditions.to_vec(),
            ask,
        };
        let found = self.nodes[target]
            .content
            .values()
            .filter(|object| asked.is_match(Some(object)));
        let found = found.cloned().collect();
        self.asked.push(asked);
        found
    }
}

impl Reader for Naive<'_> {
    fn objects(&mut self, target: usize, conditions: &[Condition]) -> Vec<Object> {
        self.ask(target, conditions, Want::Objects)
    }

    fn exists(&mut self, target: usize, conditions: &[Condition]) -> bool {
        !self.ask(target, conditions, Want::Exists).is_empty()
    }

    fn halves(&mut self, target: usize, conditions: &[Condition]) -> Vec<i64> {
        self.ask(target, conditions, Want::Halves)
            .iter()
            .map(|one| one.value / 2)
            .collect()
    }

    fn discard(&mut self) {
        self.discarded = true;
    }
}

impl Model {
    pub(super) fn new(history: &History) -> Self {
        let mut nodes: Vec<Node> = (0..history.len()).map(|_| Node::default()).collect();
        for (node, synced) in nodes.iter_mut().zip(&history.sources) {
            node.marked = *synced;
        }
        Self {
            nodes,
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
            Edit::Step | Edit::Pin | Edit::Unpin | Edit::Handle(..) | Edit::RunHandlers => {}
        }
    }

    /// One epoch: everything that was written is taken, and all collections follow.
    pub(super) fn step(&mut self) {
        self.runs.clear();
        self.epoch += 1;
        for number in 0..self.nodes.len() {
            self.nodes[number].changes.clear();
            self.nodes[number].newly_synced = false;
            if number < self.sources {
                self.take(number);
                continue;
            }
            match self.recipes[number - self.sources].kind.clone() {
                Kind::One(input) | Kind::Many(input) => self.derive(number, Some(input)),
                Kind::Nothing => self.derive(number, None),
                Kind::Join(members, _) => self.combine(number, &members, first),
                Kind::Merge(members) => self.combine(number, &members, program::merge),
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

    /// Sets a collection's content; what is equal does not change.
    fn set(&mut self, number: usize, content: BTreeMap<String, Object>) {
        let node = &mut self.nodes[number];
        let keys: BTreeSet<_> = content.keys().chain(node.content.keys()).cloned().collect();
        for key in keys {
            let (old, new) = (node.content.get(&key).cloned(), content.get(&key).cloned());
            if old != new {
                node.changes.push((key, old, new));
            }
        }
        node.content = content;
        node.newly_synced = !node.synced;
        node.synced = true;
    }

    fn combine(&mut self, number: usize, members: &[usize], combine: fn(&[&Object]) -> Option<Object>) {
        if members.iter().all(|member| self.nodes[*member].synced) {
            self.show(number, members, combine);
        }
    }

    /// Sets a collection's content to that of several others.
    fn show(&mut self, number: usize, members: &[usize], combine: fn(&[&Object]) -> Option<Object>) {
        let mut content = BTreeMap::new();
        for key in super::history::KEYS {
            let objects: Vec<_> = members
                .iter()
                .filter_map(|member| self.nodes[*member].content.get(key))
                .collect();
            if !objects.is_empty()
                && let Some(object) = combine(&objects)
            {
                content.insert(key.to_owned(), object);
            }
        }
        self.set(number, content);
    }

    fn group(&mut self, number: usize, input: usize) {
        if !self.nodes[input].synced {
            return;
        }
        let objects = self.nodes[input].content.values();
        let groups = (0..3).filter_map(|third| {
            let members = objects.clone().filter(|object| object.value.rem_euclid(3) == third);
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
            self.show(number, &members, if nested.merges { program::merge } else { first });
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
            let is_caused = !started || changed || known.asked.iter().any(|asked| self.is_concerned(asked));
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
            asked: Vec::new(),
            discarded: false,
        };
        let result = catch_unwind(AssertUnwindSafe(|| program::transform(recipe, object, &mut reader)));
        let parked = reader.asked.iter().any(|asked| !self.nodes[asked.target].synced);
        let kept = parked || result.is_err() || (reader.discarded && !before.outputs.is_empty());
        Input {
            outputs: if kept {
                before.outputs.clone()
            } else {
                result.unwrap_or_default()
            },
            asked: reader.asked,
            parked,
            kept,
        }
    }
}
