//! Runs a history on the engine and on the model, and compares them after each epoch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::Rig;
use super::listen::{Both, Reader};
use super::model::{Content, Model, Refused, Saved};
use super::plan::{Edit, History, Kind, Plan, Thing, Write, constant};
use crate::engine::cycles::Path;
use crate::engine::id::NodeId;
use crate::sync::Mutex;
use crate::{Collection, Context, Error, Options, Query, StaticCollection, Transaction};

/// By number, the collections that somebody has a handle of.
pub(super) type Slots = Arc<Mutex<Vec<Option<Collection<Thing>>>>>;

struct Drive {
    rig: Rig,
    sources: Vec<StaticCollection<Thing>>,
    slots: Slots,
    numbers: BTreeMap<NodeId, usize>,
    runs: Arc<Mutex<Vec<(usize, String)>>>,
    model: Model,
    /// By epoch.
    saved: Vec<Saved>,
    handlers: Vec<Both>,
    readers: Vec<Reader>,
    cycles: usize,
}

/// Panics if the engine and the model disagree; tells how many cycles were refused.
pub(super) fn run(history: &History) -> usize {
    let rig = Rig::new();
    let all = history.sources.len() + history.plans.len();
    let mut drive = Drive {
        sources: Vec::new(),
        slots: Arc::new(Mutex::new(vec![None; all])),
        numbers: BTreeMap::new(),
        runs: Arc::default(),
        saved: Vec::new(),
        handlers: Vec::new(),
        readers: Vec::new(),
        model: Model::new(history),
        cycles: 0,
        rig,
    };
    drive.saved.push(drive.model.save());
    for (number, synced) in history.sources.iter().enumerate() {
        let name = format!("{number}");
        let source = if *synced {
            drive.rig.krt.static_collection(name, [])
        } else {
            drive.rig.krt.unsynced_collection(name)
        };
        drive.put(number, &source);
        drive.sources.push(source);
    }
    for edit in &history.edits {
        drive.edit(edit);
    }
    drive.step();
    drive.run_handlers();
    drive.end()
}

fn thing(key: &str, value: i64) -> Thing {
    Thing {
        key: key.into(),
        value,
        trail: String::new(),
    }
}

impl Drive {
    fn put(&mut self, number: usize, collection: &Collection<Thing>) {
        self.numbers.insert(collection.id(), number);
        self.slots.lock()[number] = Some(collection.clone());
    }

    fn edit(&mut self, edit: &Edit) {
        match edit {
            Edit::Write(write) => {
                self.model.write(write);
                self.write(write);
            }
            Edit::Together(writes) => {
                for write in writes {
                    self.model.write(write);
                }
                let krt = self.rig.krt.clone();
                krt.transaction(|t| writes.iter().for_each(|write| self.write_in(t, write)));
            }
            Edit::Make => {
                if let Some((number, plan)) = self.model.make() {
                    let collection = self.make(number, &plan);
                    self.put(number, &collection);
                }
            }
            Edit::Drop(number) => {
                if self.model.drop_handles(*number) {
                    let dropped = self.slots.lock()[*number].take();
                    self.handlers.retain(|handler| !handler.nodes.contains(number));
                    self.readers.retain(|reader| reader.node != *number);
                    drop(dropped);
                }
            }
            Edit::Stop(number) => {
                if self.model.stop(*number) {
                    let stopped = self.slots.lock()[*number].clone();
                    stopped.unwrap().stop();
                }
            }
            Edit::Follow(nodes) => {
                let handler = Both::new(&self.rig.krt, &self.slots, *nodes);
                // It is told first what is there at the next epoch, whenever that comes.
                self.step();
                self.handlers.extend(handler);
            }
            Edit::Subscribe(node) => {
                let reader = Reader::new(&self.slots, *node);
                self.step();
                self.readers.extend(reader);
            }
            Edit::RunHandlers => self.run_handlers(),
            Edit::Step => self.step(),
        }
    }

    fn write(&self, write: &Write) {
        match write {
            Write::Update(source, key, value) => self.sources[*source].update(thing(key, *value)),
            Write::Delete(source, key) => self.sources[*source].delete(*key),
            Write::DeleteWhere(source, least) => self.sources[*source].delete_where(|thing| thing.value >= *least),
            Write::Reset(source, things) => {
                self.sources[*source].reset(things.iter().map(|(key, value)| thing(key, *value)));
            }
            Write::MarkSynced(source) => self.sources[*source].mark_synced(),
        }
    }

    fn write_in<'env>(&self, t: &mut Transaction<'env>, write: &'env Write) {
        match write {
            Write::Update(source, key, value) => t.update(&self.sources[*source], thing(key, *value)),
            Write::Delete(source, key) => t.delete(&self.sources[*source], *key),
            Write::DeleteWhere(source, least) => t.delete_where(&self.sources[*source], |thing| thing.value >= *least),
            Write::Reset(source, things) => {
                let things = things.iter().map(|(key, value)| thing(key, *value));
                t.reset(&self.sources[*source], things);
            }
            Write::MarkSynced(source) => t.mark_synced(&self.sources[*source]),
        }
    }

    fn make(&self, number: usize, plan: &Plan) -> Collection<Thing> {
        let held = |number: usize| self.slots.lock()[number].clone().unwrap();
        let mut options = Options::new(format!("{number}"));
        if let Some(other) = plan.depends_on {
            options = options.depends_on(&held(other));
        }
        let (krt, own, slots, runs) = (
            &self.rig.krt,
            plan.clone(),
            Arc::clone(&self.slots),
            Arc::clone(&self.runs),
        );
        let transform = move |cx: &mut Context<'_>, input: &Thing| {
            runs.lock().push((number, input.key.clone()));
            let fetched = own.asks(input).into_iter().map(|(target, key)| {
                let target = slots.lock()[target].clone()?;
                let query = key.iter().fold(target.query(), Query::key);
                Some(cx.fetch(query).iter().map(|thing| (**thing).clone()).collect())
            });
            let fetched: Vec<_> = fetched.collect();
            own.output(input, &fetched)
        };
        match &plan.kind {
            Kind::One(input) => krt.collection(options, &held(*input), move |cx, thing| transform(cx, thing)),
            Kind::Nothing => krt.many_from_nothing(options, move |cx| transform(cx, &constant())),
            Kind::Join(members) => (*krt.join(options, members.iter().map(|member| held(*member)))).clone(),
        }
    }

    fn run_handlers(&mut self) {
        self.rig.stepper.run_handlers();
        self.handlers
            .iter_mut()
            .for_each(|handler| handler.check(&self.saved, &self.model));
        self.readers
            .iter_mut()
            .for_each(|reader| reader.check(&self.saved, &self.model));
    }

    /// One cut, and what follows from it.
    fn step(&mut self) {
        if !self.rig.stepper.step_once() {
            return;
        }
        let mut is_cut = true;
        loop {
            let engine = self.rig.stepper.engine();
            let refused = self.refused(engine.refused().chain(engine.refused_in_vain()));
            self.cycles += refused.len();
            self.model.epoch(is_cut, refused);
            self.saved.push(self.model.save());
            self.compare();
            if self.model.is_quiet() {
                break;
            }
            assert!(self.rig.stepper.step_once());
            is_cut = false;
        }
        self.rig.stepper.engine().check_invariants();
        self.check_refused();
    }

    /// What the engine tells of refusals, in the model's terms.
    fn refused<'r>(&self, told: impl Iterator<Item = (NodeId, &'r Arc<str>, &'r Path)>) -> Refused {
        let mut refused = Refused::new();
        for (consumer, key, path) in told {
            let number = |node: &NodeId| self.numbers[node];
            // What has no input is told by its name.
            let key = if **key == *format!("{}", number(&consumer)) {
                constant().key
            } else {
                key.to_string()
            };
            let path = path.iter().map(number).collect();
            refused.entry((number(&consumer), key)).or_default().push(path);
        }
        refused
    }

    fn compare(&mut self) {
        let runs: BTreeSet<_> = std::mem::take(&mut *self.runs.lock()).into_iter().collect();
        assert_eq!(runs, self.model.runs, "runs");
        let alive = self.model.nodes.iter().filter(|node| node.is_alive).count();
        assert_eq!(self.rig.stepper.collections(), alive, "collections in the engine");
        assert_eq!(
            self.rig.stepper.engine().is_quiet(),
            self.model.is_quiet(),
            "whether something is left to do"
        );
        let slots = self.slots.lock().clone();
        for (number, (slot, model)) in slots.iter().zip(&self.model.nodes).enumerate() {
            let Some(collection) = slot else { continue };
            let listed = collection.list().into_iter();
            let content: Content = listed.map(|thing| (thing.key.clone(), (*thing).clone())).collect();
            assert_eq!(content, model.content, "content of collection {number}");
            assert_eq!(collection.has_synced(), model.synced, "sync of collection {number}");
            assert_eq!(
                collection
                    .explain_unsynced()
                    .first()
                    .is_some_and(|told| !told.is_synced),
                !model.synced,
                "explanation of collection {number}"
            );
        }
    }

    /// When nothing is left to do, each path that is refused is there, and users are told of exactly these.
    fn check_refused(&self) {
        let mut told = BTreeMap::<usize, usize>::new();
        for ((consumer, _), paths) in &self.refused(self.rig.stepper.engine().refused()) {
            for path in paths {
                let edges = path[1..].windows(2).map(|pair| (pair[0], pair[1]));
                let missing: Vec<_> = edges.filter(|edge| !self.model.edges.contains(edge)).collect();
                assert!(missing.is_empty(), "{path:?} is refused, but {missing:?} is not there");
                *told.entry(*consumer).or_default() += 1;
            }
        }
        for (number, slot) in self.slots.lock().iter().enumerate() {
            let errors = slot.as_ref().map(Collection::errors).unwrap_or_default().into_iter();
            let inputs = errors.map(|error| match error {
                Error::Cycle { inputs, .. } => inputs,
                other => panic!("{other}"),
            });
            if slot.is_some() {
                assert_eq!(
                    inputs.sum::<usize>(),
                    told.get(&number).copied().unwrap_or_default(),
                    "errors of {number}"
                );
            }
        }
    }

    /// Drops everything: nothing is left.
    fn end(self) -> usize {
        let Self {
            mut rig,
            sources,
            slots,
            handlers,
            readers,
            cycles,
            ..
        } = self;
        let dropped = std::mem::take(&mut *slots.lock());
        drop((sources, dropped, handlers, readers));
        while rig.step() {}
        assert_eq!(rig.stepper.collections(), 0);
        assert_eq!(rig.stepper.dependencies(), [0; 4]);
        assert_eq!(rig.stepper.handlers(), 0);
        cycles
    }
}
