//! Runs a history on the engine and on the model, and compares them after each epoch.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::Rig;
use super::brittle::armed;
use super::build::{self, Node, State, World};
use super::check::{having, objects};
use super::history::{Edit, Handling, History, Kind, Object};
use super::model::Model;
use crate::sync::Mutex;
use crate::{Event, Registration, Snapshot, StaticCollection};

/// What one handler was told: the epoch, and (key, old, new) of each event.
type Told = Vec<(u64, Vec<Change>)>;
pub(super) type Change = (String, Option<Object>, Option<Object>);
pub(super) type Content = BTreeMap<String, Object>;

/// A handler, and what it knows by what it was told.
pub(super) struct Listener {
    pub(super) node: usize,
    pub(super) tells_apart: bool,
    pub(super) keeps_all: bool,
    pub(super) told: Arc<Mutex<Told>>,
    pub(super) known: Content,
    /// The epoch of the last batch.
    pub(super) epoch: Option<u64>,
    _registration: Registration,
}

/// What the model knew in one epoch.
pub(super) struct Epoch {
    pub(super) contents: Vec<Content>,
    pub(super) changes: Vec<Vec<Change>>,
}

pub(super) struct Drive {
    pub(super) rig: Rig,
    sources: Vec<StaticCollection<Object>>,
    /// By source, whether its handlers are told of other individuals.
    apart: Vec<bool>,
    /// The collections whose transformation runs below another one, which counts its runs.
    pub(super) hidden: Vec<bool>,
    pub(super) world: World,
    pub(super) superseded: u64,
    pub(super) model: Model,
    /// By epoch.
    pub(super) epochs: Vec<Epoch>,
    pub(super) pins: Vec<Snapshot>,
    pub(super) listeners: Vec<Listener>,
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

impl Drive {
    fn new(history: &History) -> Self {
        let rig = Rig::new();
        let krt = &rig.krt;
        let (mut sources, mut world) = (Vec::new(), World::default());
        for (number, synced) in history.sources.iter().enumerate() {
            let name = format!("source {number}");
            let source = if history.tells_apart(number) {
                StaticCollection::of_individuals(krt, &name, *synced, Object::is_same)
            } else if *synced {
                krt.static_collection(&name, [])
            } else {
                krt.unsynced_collection(&name)
            };
            world.nodes.push(Node::new((*source).clone()));
            sources.push(source);
        }
        let states = history.states.iter().enumerate();
        world.states = states
            .map(|(number, is_protected)| State::new(krt, number, *is_protected))
            .collect();
        for (recipe, number) in history.recipes.iter().zip(sources.len()..) {
            let collection = build::derived(krt, &world, number, recipe);
            world.nodes.push(Node::new(collection));
        }
        let hidden = history
            .recipes
            .iter()
            .map(|recipe| matches!(recipe.kind, Kind::Status(..)));
        let mut drive = Self {
            model: Model::new(history),
            apart: (0..sources.len()).map(|number| history.tells_apart(number)).collect(),
            hidden: sources.iter().map(|_| false).chain(hidden).collect(),
            sources,
            world,
            superseded: 0,
            epochs: Vec::new(),
            pins: Vec::new(),
            listeners: Vec::new(),
            rig,
        };
        drive.save();
        drive
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
            Edit::Modify(state, value) => self.world.states[*state].modify(*value),
            Edit::MarkState(state) => self.world.states[*state].mark_synced(),
            Edit::Step => self.step(),
            Edit::Pin => self.pins.push(self.rig.krt.snapshot()),
            Edit::Unpin => {
                if !self.pins.is_empty() {
                    self.pins.remove(0);
                }
            }
            Edit::Handle(node, handling) if *node < self.world.nodes.len() => {
                self.listen(*node, *handling, self.apart.get(*node) == Some(&true));
            }
            Edit::Handle(..) => {}
            Edit::Unhandle => {
                if !self.listeners.is_empty() {
                    self.listeners.remove(0);
                }
            }
            Edit::RunHandlers => {
                armed(|| self.rig.stepper.run_handlers());
                self.check_listeners();
            }
        }
    }

    fn listen(&mut self, node: usize, handling: Handling, tells_apart: bool) {
        let told: Arc<Mutex<Told>> = Arc::default();
        let tell = Arc::clone(&told);
        let handler = self.world.nodes[node].collection.handler();
        let handler = if handling.keeps_all {
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
            // It counts as handled all the same.
            assert!(!handling.panics || batch.epoch() % 3 != 0, "the history says so");
        });
        self.listeners.push(Listener {
            node,
            tells_apart,
            keeps_all: handling.keeps_all,
            told,
            known: Content::new(),
            epoch: None,
            _registration: registration,
        });
    }

    fn step(&mut self) {
        if !armed(|| self.rig.stepper.step()) {
            return;
        }
        self.rig.stepper.engine().check_invariants();
        self.model.step();
        self.save();
        for (number, (node, model)) in self.world.nodes.iter().zip(&self.model.nodes).enumerate() {
            let listed = node.collection.list();
            let content: Content = listed
                .iter()
                .map(|object| (object.key.clone(), (**object).clone()))
                .collect();
            assert_eq!(listed.len(), content.len(), "a key twice in collection {number}");
            assert_eq!(content, model.content, "content of collection {number}");
            for third in 0..3 {
                let found = armed(|| node.thirds.lookup(&third));
                let having = having(&model.content, third);
                assert_eq!(objects(&found), having, "lookup in collection {number}");
            }
            assert_eq!(
                node.collection.has_synced(),
                model.synced,
                "sync of collection {number}"
            );
        }
        self.check_runs();
        self.check_pins();
    }

    /// Drops everything: nothing is left.
    fn end(self) {
        let Self {
            mut rig,
            sources,
            world,
            pins,
            listeners,
            ..
        } = self;
        drop((sources, world, pins, listeners));
        while armed(|| rig.stepper.step()) {
            rig.stepper.engine().check_invariants();
        }
        assert_eq!(rig.stepper.collections(), 0);
        assert_eq!(rig.stepper.handlers(), 0);
        assert_eq!(rig.stepper.dependencies(), [0; 4]);
    }
}
