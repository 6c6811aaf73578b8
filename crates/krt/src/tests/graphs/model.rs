//! The rules of changing graphs, written naively. Nothing here is shared with the engine, but for the transformations.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::plan::{History, Kind, Plan, Thing, Write, constant};

pub(super) type Content = BTreeMap<String, Thing>;

/// Who was refused what: by collection and input, the ways along the cycles.
pub(super) type Refused = BTreeMap<(usize, String), Vec<Vec<usize>>>;

/// What the model knew in one epoch, by collection.
pub(super) struct Saved {
    pub(super) contents: Vec<Content>,
    /// The keys that changed.
    pub(super) changes: Vec<BTreeSet<String>>,
    pub(super) synced: Vec<bool>,
}

/// What is known of an input since its last run.
#[derive(Debug, Default, Clone)]
struct Known {
    output: Option<Thing>,
    asked: Vec<(usize, Option<String>)>,
    /// For each fetch, whether the collection was there.
    saw: Vec<bool>,
    parked: bool,
    /// The output is that of an earlier run.
    kept: bool,
}

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(super) struct Node {
    pub(super) content: Content,
    pub(super) synced: bool,
    /// Somebody may fetch it, and look at it.
    pub(super) is_held: bool,
    /// It is in the engine.
    pub(super) is_alive: bool,
    pub(super) is_stopped: bool,
    /// Nobody has a handle any more, and the engine knows.
    is_released: bool,
    handles: usize,
    plan: Option<Plan>,
    /// For sources.
    latest: Content,
    touched: BTreeSet<String>,
    marked: bool,
    /// Something was written to it since the last cut.
    is_written: bool,
    /// It was asked to stop, so nothing is written to it any more.
    is_closed: bool,
    /// For others.
    started: bool,
    inputs: BTreeMap<String, Known>,
    /// What the present epoch changed.
    changes: BTreeSet<String>,
    newly_synced: bool,
    /// How far the present epoch is: not begun, begun, done.
    stage: u8,
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    Release(usize),
    Stop(usize),
}

pub(super) struct Model {
    pub(super) nodes: Vec<Node>,
    plans: Vec<Plan>,
    sources: usize,
    next: usize,
    /// What the next cut does to the graph.
    operations: Vec<Operation>,
    /// What the epoch after the present one does: stops of sources that were written to before.
    late: Vec<Operation>,
    /// Who reads whom.
    pub(super) edges: BTreeSet<(usize, usize)>,
    /// Edges that go at the next occasion.
    loose: BTreeSet<(usize, usize)>,
    refused: Refused,
    /// Inputs that have to run because something is not refused any more.
    pub(super) freed: BTreeSet<(usize, String)>,
    /// The runs of the present epoch.
    pub(super) runs: BTreeSet<(usize, String)>,
}

impl Model {
    pub(super) fn new(history: &History) -> Self {
        let mut nodes: Vec<Node> = Vec::new();
        nodes.resize_with(history.sources.len() + history.plans.len(), Node::default);
        for (node, synced) in nodes.iter_mut().zip(&history.sources) {
            node.marked = *synced;
            node.is_held = true;
            node.is_alive = true;
            node.is_written = true;
            // The source's own handle, and the one that may be fetched.
            node.handles = 2;
        }
        Self {
            nodes,
            plans: history.plans.clone(),
            sources: history.sources.len(),
            next: history.sources.len(),
            operations: Vec::new(),
            late: Vec::new(),
            edges: BTreeSet::new(),
            loose: BTreeSet::new(),
            refused: Refused::new(),
            freed: BTreeSet::new(),
            runs: BTreeSet::new(),
        }
    }

    /// Whether nothing follows from the last epoch.
    pub(super) fn is_quiet(&self) -> bool {
        self.freed.is_empty() && self.late.is_empty()
    }

    pub(super) fn save(&self) -> Saved {
        Saved {
            contents: self.nodes.iter().map(|node| node.content.clone()).collect(),
            changes: self.nodes.iter().map(|node| node.changes.clone()).collect(),
            synced: self.nodes.iter().map(|node| node.synced).collect(),
        }
    }

    pub(super) fn write(&mut self, write: &Write) {
        let (Write::Update(source, ..)
        | Write::Delete(source, _)
        | Write::DeleteWhere(source, _)
        | Write::Reset(source, _)
        | Write::MarkSynced(source)) = write;
        let node = &mut self.nodes[*source];
        if node.is_closed {
            return;
        }
        node.is_written = true;
        let thing = |key: &str, value| Thing {
            key: key.into(),
            value,
            trail: String::new(),
        };
        match write {
            Write::Update(_, key, value) => {
                let replaced = node.latest.insert((*key).into(), thing(key, *value));
                if replaced.is_some() {
                    node.touched.insert((*key).into());
                }
            }
            Write::Delete(_, key) => drop(node.latest.remove(*key)),
            Write::DeleteWhere(_, least) => node.latest.retain(|_, thing| thing.value < *least),
            Write::Reset(_, things) => {
                node.touched.clear();
                node.latest = things
                    .iter()
                    .map(|(key, value)| ((*key).into(), thing(key, *value)))
                    .collect();
            }
            Write::MarkSynced(_) => node.marked = true,
        }
        let latest = &node.latest;
        node.touched.retain(|key| latest.contains_key(key));
    }

    /// The number of the collection that is made next, if there is one whose inputs can still be named. It is made.
    pub(super) fn make(&mut self) -> Option<(usize, Plan)> {
        let number = self.next;
        let plan = self.plans.get(number - self.sources)?.clone();
        self.next += 1;
        if !plan.sources().iter().all(|source| self.nodes[*source].is_held) {
            return None;
        }
        for held in plan.held() {
            self.nodes[held].handles += 1;
        }
        let node = &mut self.nodes[number];
        node.is_held = true;
        node.is_alive = true;
        node.handles = 1;
        node.plan = Some(plan.clone());
        self.edges
            .extend(plan.sources().into_iter().map(|source| (number, source)));
        Some((number, plan))
    }

    /// Whether there is anything to drop or stop. It is dropped.
    pub(super) fn drop_handles(&mut self, number: usize) -> bool {
        if number < self.sources || !std::mem::take(&mut self.nodes[number].is_held) {
            return false;
        }
        self.give_back(number);
        true
    }

    fn give_back(&mut self, number: usize) {
        self.nodes[number].handles -= 1;
        if self.nodes[number].handles == 0 {
            self.operations.push(Operation::Release(number));
        }
    }

    pub(super) fn stop(&mut self, number: usize) -> bool {
        let is_held = self.nodes[number].is_held;
        if is_held {
            self.nodes[number].is_closed = true;
            self.operations.push(Operation::Stop(number));
        }
        is_held
    }

    /// One epoch: a cut, or what follows from the one before without anything new. `refused` is who is refused what after it.
    pub(super) fn epoch(&mut self, is_cut: bool, refused: Refused) {
        self.runs.clear();
        for node in &mut self.nodes {
            node.changes.clear();
            node.newly_synced = false;
            node.stage = 0;
        }
        let operations = if is_cut {
            std::mem::take(&mut self.operations)
        } else {
            std::mem::take(&mut self.late)
        };
        for operation in operations {
            match operation {
                Operation::Release(number) => {
                    self.nodes[number].is_released = true;
                    self.remove_if_unused(number);
                }
                Operation::Stop(number) if is_cut && self.nodes[number].is_written => self.late.push(operation),
                Operation::Stop(number) => self.freeze(number),
            }
        }
        for node in self.nodes.iter_mut().filter(|_| is_cut) {
            node.is_written = false;
        }
        let freed = std::mem::take(&mut self.freed);
        self.refused = refused;
        for number in 0..self.nodes.len() {
            self.compute(number, is_cut, &freed);
        }
        let mut edges = BTreeSet::new();
        for (number, node) in self.nodes.iter().enumerate() {
            if let Some(plan) = node.plan.as_ref().filter(|_| node.is_alive && !node.is_stopped) {
                edges.extend(plan.sources().into_iter().map(|source| (number, source)));
                let asked = node.inputs.values().flat_map(|known| &known.asked);
                edges.extend(asked.map(|(target, _)| (number, *target)));
            }
        }
        self.loose.extend(self.edges.difference(&edges).copied());
        self.edges.extend(edges);
        self.retire();
    }

    /// A stopped collection gives back what it holds.
    fn freeze(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        if std::mem::replace(&mut node.is_stopped, true) {
            return;
        }
        node.newly_synced = !std::mem::replace(&mut node.synced, true);
        node.inputs.clear();
        self.refused.retain(|(consumer, _), _| *consumer != number);
        self.freed.retain(|(consumer, _)| *consumer != number);
        self.loose
            .extend(self.edges.iter().filter(|(consumer, _)| *consumer == number));
        let held = self.nodes[number].plan.as_ref().map(Plan::held).unwrap_or_default();
        for held in held {
            self.give_back(held);
        }
    }

    /// Removes the loose edges, frees who was refused because of them, and removes what nobody reads any more.
    fn retire(&mut self) {
        let removed = std::mem::take(&mut self.loose);
        for edge in &removed {
            self.edges.remove(edge);
            for (input, paths) in &self.refused {
                if paths
                    .iter()
                    .any(|path| path.windows(2).any(|pair| (pair[0], pair[1]) == *edge))
                {
                    self.freed.insert(input.clone());
                }
            }
        }
        for (_, source) in removed {
            self.remove_if_unused(source);
        }
    }

    fn remove_if_unused(&mut self, number: usize) {
        let node = &self.nodes[number];
        let is_read = self.edges.iter().any(|(_, source)| *source == number);
        if !node.is_alive || !node.is_released || is_read {
            return;
        }
        self.nodes[number].is_alive = false;
        self.freeze(number);
        self.retire();
    }

    fn compute(&mut self, number: usize, is_cut: bool, freed: &BTreeSet<(usize, String)>) {
        match self.nodes[number].stage {
            2 => return,
            1 => panic!("a cycle through collection {number} was let through"),
            _ => self.nodes[number].stage = 1,
        }
        let node = &self.nodes[number];
        if node.is_alive && !node.is_stopped {
            match node.plan.clone() {
                None => {
                    if is_cut {
                        self.take(number);
                    }
                }
                Some(plan) => self.derive(number, &plan, is_cut, freed),
            }
        }
        self.nodes[number].stage = 2;
    }

    fn take(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        let touched = std::mem::take(&mut node.touched);
        let latest = node.latest.clone();
        node.changes
            .extend(touched.into_iter().filter(|key| node.content.contains_key(key)));
        let marked = node.marked;
        self.set(number, latest, marked);
    }

    /// Sets a collection's content; what is equal does not change.
    fn set(&mut self, number: usize, content: Content, synced: bool) {
        let node = &mut self.nodes[number];
        let keys: BTreeSet<_> = content.keys().chain(node.content.keys()).cloned().collect();
        let differs = |key: &String| content.get(key) != node.content.get(key);
        node.changes.extend(keys.into_iter().filter(differs));
        node.content = content;
        node.newly_synced = synced && !node.synced;
        node.synced |= synced;
    }

    fn derive(&mut self, number: usize, plan: &Plan, is_cut: bool, freed: &BTreeSet<(usize, String)>) {
        for source in plan.sources() {
            self.compute(source, is_cut, freed);
        }
        let (started, synced) = (self.nodes[number].started, self.nodes[number].synced);
        let waits = |source: &usize| !self.nodes[*source].synced;
        if (!synced && plan.depends_on.iter().any(waits)) || (!started && plan.held().iter().any(waits)) {
            return;
        }
        let things = match &plan.kind {
            Kind::One(input) => self.nodes[*input].content.clone(),
            Kind::Nothing => BTreeMap::from([("n".to_owned(), constant())]),
            Kind::Join(members) => {
                let mut content = Content::new();
                for member in members.iter().rev() {
                    content.extend(self.nodes[*member].content.clone());
                }
                self.nodes[number].started = true;
                return self.set(number, content, true);
            }
        };
        self.nodes[number].started = true;
        let mut inputs = std::mem::take(&mut self.nodes[number].inputs);
        inputs.retain(|key, _| things.contains_key(key));
        for (key, thing) in &things {
            let changed = matches!(plan.kind, Kind::One(input) if self.nodes[input].changes.contains(key));
            let own = (number, key.clone());
            let known = inputs.entry(key.clone()).or_default();
            let mut is_caused = !started || changed || freed.contains(&own);
            if !is_caused {
                for (target, by) in known.asked.clone() {
                    self.compute(target, is_cut, freed);
                    let node = &self.nodes[target];
                    is_caused |=
                        node.newly_synced || node.changes.iter().any(|key| by.as_ref().is_none_or(|by| by == key));
                }
            }
            let asks = plan.asks(thing);
            let saw: Vec<_> = asks.iter().map(|(target, _)| self.nodes[*target].is_held).collect();
            if !is_caused && (known.kept || saw != known.saw) {
                continue;
            }
            let before = known.clone();
            let run = self.run(&own, plan, thing, before.output.clone(), &asks, is_cut, freed);
            if is_caused {
                self.runs.insert(own);
                inputs.insert(key.clone(), Known { saw, ..run });
            } else {
                assert_eq!(
                    run.output, before.output,
                    "the model itself: a result changed without a cause"
                );
            }
        }
        if synced || inputs.values().all(|known| !known.parked) {
            let outputs = inputs
                .iter()
                .filter_map(|(key, known)| Some((key.clone(), known.output.clone()?)));
            self.set(number, outputs.collect(), true);
        }
        self.nodes[number].inputs = inputs;
    }

    #[expect(clippy::too_many_arguments, reason = "everything that a run depends on")]
    fn run(
        &mut self,
        own: &(usize, String),
        plan: &Plan,
        thing: &Thing,
        before: Option<Thing>,
        asks: &[(usize, Option<String>)],
        is_cut: bool,
        freed: &BTreeSet<(usize, String)>,
    ) -> Known {
        let paths = self.refused.get(own).cloned().unwrap_or_default();
        let is_refused = |target: &usize| paths.iter().any(|path| path[1] == *target);
        let mut known = Known::default();
        let mut fetched = Vec::new();
        for (target, by) in asks {
            if !self.nodes[*target].is_held {
                fetched.push(None);
                continue;
            }
            if is_refused(target) {
                // Whatever it saw, the result is not used.
                fetched.push(None);
                continue;
            }
            self.compute(*target, is_cut, freed);
            let node = &self.nodes[*target];
            let things = node
                .content
                .values()
                .filter(|thing| by.as_ref().is_none_or(|by| *by == thing.key));
            fetched.push(Some(things.cloned().collect()));
            known.parked |= !node.synced;
            known.asked.push((*target, by.clone()));
        }
        let result = catch_unwind(AssertUnwindSafe(|| plan.output(thing, &fetched)));
        known.kept = known.parked || !paths.is_empty() || result.is_err();
        known.output = if known.kept { before } else { result.unwrap_or_default() };
        known
    }
}
