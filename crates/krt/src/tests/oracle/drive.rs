//! Runs a history on the engine and on the model, and compares them after each epoch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::Rig;
use super::history::{Edit, History, KEYS, Kind, Nested, Object};
use super::model::Model;
use super::program::{self, Condition, Reader};
use crate::sync::Mutex;
use crate::{
    Collection, Context, Event, Index, KeyRef, Keyed, Lend, Query, Registration, Scope, Snapshot, StaticCollection,
};

/// A collection and its index by thirds.
#[derive(Clone)]
struct Node {
    collection: Collection<Object>,
    thirds: Index<i64, Object>,
}

impl Node {
    fn new(collection: Collection<Object>) -> Self {
        let thirds = collection
            .index_by("thirds", |object| object.value.rem_euclid(3))
            .unwrap();
        Self { collection, thirds }
    }
}

/// Reads through a context of the engine.
struct Real<'a, 'c> {
    nodes: &'a [Node],
    cx: &'a mut Context<'c>,
}

fn query<'q>(node: &'q Node, conditions: &'q [Condition]) -> Query<'q, Object> {
    // An index starts a query, so a condition on it comes first.
    let third = conditions.iter().find_map(|condition| match condition {
        Condition::Thirds(third) => Some(third),
        _ => None,
    });
    let start = third.map_or_else(|| node.collection.query(), |third| node.thirds.at(third));
    conditions.iter().fold(start, |query, condition| match condition {
        Condition::Key(key) => query.key(key),
        Condition::Name(name) => query.name(name),
        Condition::Namespace(namespace) => query.namespace(namespace),
        Condition::Labels(labels) => query.labels(labels),
        Condition::Selecting(labels) => query.selecting(labels),
        Condition::SelectingNonEmpty(labels) => query.selecting_non_empty(labels),
        Condition::Thirds(_) => query,
        Condition::Where(least) => {
            let least = *least;
            query.where_(move |object| object.value >= least)
        }
        Condition::WhereWith(least) => query.where_with(*least, |least, object| object.value >= *least),
    })
}

impl Reader for Real<'_, '_> {
    fn objects(&mut self, target: usize, conditions: &[Condition]) -> Vec<Object> {
        let fetched = self.cx.fetch(query(&self.nodes[target], conditions));
        fetched.iter().map(|object| (**object).clone()).collect()
    }

    fn exists(&mut self, target: usize, conditions: &[Condition]) -> bool {
        self.cx.exists(query(&self.nodes[target], conditions))
    }

    fn halves(&mut self, target: usize, conditions: &[Condition]) -> Vec<i64> {
        let halves = self
            .cx
            .fetch_map(query(&self.nodes[target], conditions), |object| object.value / 2);
        halves.iter().map(|half| **half).collect()
    }

    fn discard(&mut self) {
        self.cx.discard_result();
    }
}

/// Lends a collection.
#[derive(PartialEq)]
struct Lender {
    key: String,
    objects: Collection<Object>,
}

impl Keyed for Lender {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::Plain(&self.key)
    }
}

impl Lend<Object> for Lender {
    fn lend(&self) -> &Collection<Object> {
        &self.objects
    }
}

fn target_copy(scope: &Scope, target: &Collection<Object>) -> Collection<Object> {
    scope.collection("copy", target, |_, object| Some((**object).clone()))
}

/// What one handler was told: the epoch, and (key, old, new) of each event.
type Told = Vec<(u64, Vec<Change>)>;
type Change = (String, Option<Object>, Option<Object>);
type Content = BTreeMap<String, Object>;

/// A handler, and what it knows by what it was told.
struct Listener {
    node: usize,
    tells_apart: bool,
    keeps_all: bool,
    told: Arc<Mutex<Told>>,
    known: Content,
    /// The epoch of the last batch.
    epoch: Option<u64>,
    _registration: Registration,
}

/// What the model knew in one epoch.
struct Epoch {
    contents: Vec<Content>,
    changes: Vec<Vec<Change>>,
}

struct Drive {
    rig: Rig,
    sources: Vec<StaticCollection<Object>>,
    /// By source, whether its handlers are told of other individuals.
    apart: Vec<bool>,
    nodes: Vec<Node>,
    runs: Arc<Mutex<Vec<(usize, String)>>>,
    superseded: u64,
    model: Model,
    /// By epoch.
    epochs: Vec<Epoch>,
    pins: Vec<Snapshot>,
    listeners: Vec<Listener>,
}

/// Panics if the engine and the model disagree.
pub(super) fn run(history: &History) {
    let mut drive = Drive::new(history);
    for edit in &history.edits {
        drive.edit(edit);
    }
    drive.edit(&Edit::Step);
    drive.edit(&Edit::RunHandlers);
    drive.end();
}

/// Makes one change of a delete and an add of another individual, which is how each such change has to be told.
fn rejoin(changes: Vec<Change>) -> Vec<Change> {
    let mut joined: Vec<Change> = Vec::new();
    for (key, old, new) in changes {
        if let (Some(old), Some(new)) = (&old, &new) {
            assert!(old.is_same(new), "an update of {key} to another individual");
        }
        match joined.last_mut() {
            Some((last, gone @ Some(_), comes @ None)) if *last == key && old.is_none() => {
                let is_same = gone
                    .as_ref()
                    .zip(new.as_ref())
                    .is_some_and(|(gone, new)| gone.is_same(new));
                assert!(!is_same, "a delete and an add of the same individual {key}");
                *comes = new;
            }
            _ => joined.push((key, old, new)),
        }
    }
    joined
}

impl Drive {
    fn new(history: &History) -> Self {
        let rig = Rig::new();
        let mut drive = Self {
            model: Model::new(history),
            sources: Vec::new(),
            apart: (0..history.sources.len())
                .map(|number| history.tells_apart(number))
                .collect(),
            nodes: Vec::new(),
            runs: Arc::default(),
            superseded: 0,
            epochs: Vec::new(),
            pins: Vec::new(),
            listeners: Vec::new(),
            rig,
        };
        for (number, synced) in history.sources.iter().enumerate() {
            let name = format!("source {number}");
            let source = if history.tells_apart(number) {
                StaticCollection::of_individuals(&drive.rig.krt, &name, *synced, Object::is_same)
            } else if *synced {
                drive.rig.krt.static_collection(&name, [])
            } else {
                drive.rig.krt.unsynced_collection(&name)
            };
            drive.nodes.push(Node::new((*source).clone()));
            drive.sources.push(source);
        }
        for number in history.sources.len()..history.len() {
            let collection = drive.derived(history, number);
            drive.nodes.push(Node::new(collection));
        }
        drive.save();
        drive
    }

    fn derived(&self, history: &History, number: usize) -> Collection<Object> {
        let (krt, name) = (&self.rig.krt, format!("derived {number}"));
        let recipe = history.recipes[number - history.sources.len()].clone();
        let kind = recipe.kind.clone();
        let (nodes, runs) = (self.nodes.clone(), Arc::clone(&self.runs));
        let transform = move |cx: &mut Context<'_>, key: &str, input: &Object| {
            runs.lock().push((number, key.to_owned()));
            program::transform(&recipe, input, &mut Real { nodes: &nodes, cx })
        };
        let member = |members: &[usize]| -> Vec<_> {
            members
                .iter()
                .map(|member| self.nodes[*member].collection.clone())
                .collect()
        };
        match kind {
            Kind::One(input) => krt.collection(&name, &self.nodes[input].collection, move |cx, input| {
                transform(cx, &input.key, input).pop()
            }),
            Kind::Many(input) => krt.many_collection(&name, &self.nodes[input].collection, move |cx, input| {
                transform(cx, &input.key, input)
            }),
            Kind::Nothing => krt.many_from_nothing(&name, move |cx| transform(cx, "", &program::constant())),
            Kind::Join(members, false) => krt.join(&name, member(&members)).into(),
            Kind::Join(members, true) => krt.join(&name, member(&members)).unchecked(),
            Kind::Group(input) => {
                let groups = self.nodes[input].thirds.as_collection("groups");
                krt.collection(&name, &groups, |_, group| {
                    let members: Vec<_> = group.members().map(|object| &**object).collect();
                    Some(program::group(*group.value(), &members))
                })
            }
            Kind::Nested(nested) => self.nested(&name, nested),
            Kind::Merge(members) => krt.join_with_merge(&name, member(&members), |objects| {
                program::merge(&objects.iter().map(|object| &**object).collect::<Vec<_>>())
            }),
        }
    }

    fn nested(&self, name: &str, nested: Nested) -> Collection<Object> {
        let krt = &self.rig.krt;
        let targets = nested
            .targets
            .iter()
            .map(|target| self.nodes[*target].collection.clone());
        let targets: Vec<_> = targets.collect();
        let (input, merges) = (&self.nodes[nested.input].collection, nested.merges);
        let lenders = krt.collection("lenders", input, move |cx, object| {
            let choice = nested.choice(object);
            let target = &targets[choice];
            let objects = if nested.copies {
                cx.scoped(&choice.to_string(), |scope| target_copy(scope, target))
            } else {
                target.clone()
            };
            let key = object.key.clone();
            Some(Lender { key, objects })
        });
        if merges {
            krt.nested_join_with_merge(name, &lenders, |objects| {
                program::merge(&objects.iter().map(|object| &**object).collect::<Vec<_>>())
            })
        } else {
            krt.nested_join(name, &lenders)
        }
    }

    fn save(&mut self) {
        let nodes = &self.model.nodes;
        self.epochs.push(Epoch {
            contents: nodes.iter().map(|node| node.content.clone()).collect(),
            changes: nodes.iter().map(|node| node.changes.clone()).collect(),
        });
    }

    fn edit(&mut self, edit: &Edit) {
        self.model.write(edit);
        match edit {
            Edit::Update(source, object) => self.sources[*source].update(object.clone()),
            Edit::Conditional(source, object) => self.sources[*source].conditional_update(object.clone()),
            Edit::Version(source, object) => self.sources[*source].set_version(object.clone()),
            Edit::Delete(source, key) => self.sources[*source].delete(*key),
            Edit::DeleteWhere(source, least) => self.sources[*source].delete_where(|object| object.value >= *least),
            Edit::Reset(source, objects) => self.sources[*source].reset(objects.iter().cloned()),
            Edit::MarkSynced(source) => self.sources[*source].mark_synced(),
            Edit::Step => self.step(),
            Edit::Pin => self.pins.push(self.rig.krt.snapshot()),
            Edit::Unpin => {
                if !self.pins.is_empty() {
                    self.pins.remove(0);
                }
            }
            Edit::Handle(node, keeps_all) if *node < self.nodes.len() => {
                self.listen(*node, *keeps_all, self.apart.get(*node) == Some(&true));
            }
            Edit::Handle(..) => {}
            Edit::RunHandlers => {
                self.rig.stepper.run_handlers();
                self.check_listeners();
            }
        }
    }

    fn listen(&mut self, node: usize, keeps_all: bool, tells_apart: bool) {
        let told: Arc<Mutex<Told>> = Arc::default();
        let tell = Arc::clone(&told);
        let handler = self.nodes[node].collection.handler();
        let handler = if keeps_all {
            handler.keep_all()
        } else {
            handler.merge_over(3)
        };
        let registration = handler.on_batch(move |batch| {
            let changes = batch.events().map(|event: &Event<Object>| {
                let object = |one: Option<&Arc<Object>>| one.map(|one| (**one).clone());
                (event.latest().key.clone(), object(event.old()), object(event.new()))
            });
            tell.lock().push((batch.epoch(), changes.collect()));
        });
        self.listeners.push(Listener {
            node,
            tells_apart,
            keeps_all,
            told,
            known: Content::new(),
            epoch: None,
            _registration: registration,
        });
    }

    fn step(&mut self) {
        if !self.rig.step() {
            return;
        }
        self.model.step();
        self.save();
        for (number, (node, model)) in self.nodes.iter().zip(&self.model.nodes).enumerate() {
            let listed = node.collection.list();
            let content: Content = listed
                .iter()
                .map(|object| (object.key.clone(), (**object).clone()))
                .collect();
            assert_eq!(listed.len(), content.len(), "a key twice in collection {number}");
            assert_eq!(content, model.content, "content of collection {number}");
            assert_eq!(
                node.collection.has_synced(),
                model.synced,
                "sync of collection {number}"
            );
        }
        self.check_runs();
        self.check_pins();
    }

    /// No run without a cause, no cause without a run, and only superseded ones more than once.
    fn check_runs(&mut self) {
        let runs = std::mem::take(&mut *self.runs.lock());
        let (actual, caused): (BTreeSet<_>, BTreeSet<_>) = (runs.iter().collect(), self.model.runs.iter().collect());
        assert_eq!(actual, caused, "runs");
        let superseded: u64 = self.nodes.iter().map(|node| node.collection.stats().superseded).sum();
        let again = runs.len() - actual.len();
        assert_eq!(
            again as u64,
            superseded - self.superseded,
            "runs of one input in one epoch"
        );
        self.superseded = superseded;
    }

    fn check_pins(&self) {
        for pin in &self.pins {
            let epoch = &self.epochs[usize::try_from(pin.epoch()).unwrap()];
            for (number, (node, content)) in self.nodes.iter().zip(&epoch.contents).enumerate() {
                let listed = pin.list(&node.collection);
                let seen: Content = listed
                    .iter()
                    .map(|object| (object.key.clone(), (**object).clone()))
                    .collect();
                assert_eq!(
                    (&seen, listed.len()),
                    (content, content.len()),
                    "pinned collection {number}"
                );
                for key in KEYS {
                    let got = pin.get(&node.collection, key);
                    assert_eq!(
                        got.as_deref(),
                        content.get(key),
                        "pinned key {key} of collection {number}"
                    );
                }
            }
        }
    }

    /// Each batch is the difference of exactly its epochs.
    fn check_listeners(&mut self) {
        for listener in &mut self.listeners {
            for (epoch, changes) in std::mem::take(&mut *listener.told.lock()) {
                let at = usize::try_from(epoch).unwrap();
                let after = &self.epochs[at].contents[listener.node];
                let first = listener.epoch.map_or(at, |last| usize::try_from(last).unwrap() + 1);
                let between = self.epochs[first..=at]
                    .iter()
                    .flat_map(|epoch| &epoch.changes[listener.node]);
                let touched: BTreeSet<_> = between
                    .filter(|(_, old, new)| old == new)
                    .map(|(key, ..)| key)
                    .collect();
                let changes = if listener.tells_apart { rejoin(changes) } else { changes };
                let keys: BTreeSet<_> = changes.iter().map(|(key, ..)| key).collect();
                assert_eq!(keys.len(), changes.len(), "a key is told twice in one batch");
                for (key, old, new) in &changes {
                    assert_eq!(listener.known.get(key), old.as_ref(), "what a handler knows of {key}");
                    assert!(old != new || touched.contains(key), "{key} was told without a change");
                    match new {
                        Some(new) => listener.known.insert(key.clone(), new.clone()),
                        None => listener.known.remove(key),
                    };
                }
                assert_eq!(&listener.known, after, "what a handler knows after epoch {epoch}");
                if listener.keeps_all && listener.epoch.is_some() {
                    let mut exact = self.epochs[at].changes[listener.node].clone();
                    let mut told = changes;
                    exact.sort_by(|one, other| one.0.cmp(&other.0));
                    told.sort_by(|one, other| one.0.cmp(&other.0));
                    assert_eq!(told, exact, "a batch of epoch {epoch}");
                }
                listener.epoch = Some(epoch);
            }
            if let (Some(_), Some(last)) = (listener.epoch, self.epochs.last()) {
                assert_eq!(
                    listener.known, last.contents[listener.node],
                    "a handler that has caught up"
                );
            }
        }
    }

    /// Drops everything: nothing is left.
    fn end(self) {
        let Self {
            mut rig,
            sources,
            nodes,
            pins,
            listeners,
            ..
        } = self;
        drop((sources, nodes, pins, listeners));
        while rig.step() {}
        assert_eq!(rig.stepper.collections(), 0);
        assert_eq!(rig.stepper.handlers(), 0);
        assert_eq!(rig.stepper.dependencies(), [0; 4]);
    }
}
