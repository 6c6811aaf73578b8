//! Behaviours of the engine through the public API, driven step by step. The invariants of every part are checked after each step.

mod churn;
mod conformance;
mod cycles;
mod derived;
mod epochs;
mod fetches;
#[cfg(feature = "files")]
mod files;
mod filters;
mod graphs;
mod groups;
mod handlers;
#[cfg(feature = "kube")]
mod informers;
mod joins;
mod lifecycle;
mod models;
mod nested;
mod postings;
mod quiet;
mod reads;
mod selectors;
mod sources;
mod statuses;
mod teardown;
mod threads;
mod transactions;
mod unsynced;

mod oracle;

use std::sync::Arc;

use crate::sync::Mutex;
use crate::testing::Stepper;
use crate::{
    Collection, Event, KeyRef, Keyed, Krt, Labeled, Labels, Named, Namespaced, Selecting, SelectorRef, StaticCollection,
};

/// An engine with hashes of two bits, so that everything collides.
struct Rig {
    krt: Krt,
    stepper: Stepper,
}

impl Rig {
    fn new() -> Self {
        let krt = Krt::builder("test").weak_hashes().build();
        let stepper = Stepper::new(&krt).unwrap();
        Self { krt, stepper }
    }

    /// With the hashes that users have: for tests of sizes, which would take ages otherwise.
    fn with_strong_hashes() -> Self {
        let krt = Krt::builder("test").build();
        let stepper = Stepper::new(&krt).unwrap();
        Self { krt, stepper }
    }

    fn step(&mut self) -> bool {
        let stepped = self.stepper.step();
        self.stepper.engine().check_invariants();
        stepped
    }

    /// Steps and calls handlers until there is nothing to do.
    fn settle(&mut self) {
        while self.step() | self.stepper.run_handlers() {}
    }

    /// Settles until something is true, which another thread may have to write first.
    fn settle_until(&mut self, is_true: impl Fn() -> bool) {
        self.drive_until(Self::settle, is_true);
    }

    /// The same, without calling handlers.
    fn step_until(&mut self, is_true: impl Fn() -> bool) {
        let step = |rig: &mut Self| while rig.step() {};
        self.drive_until(step, is_true);
    }

    fn drive_until(&mut self, drive: fn(&mut Self), is_true: impl Fn() -> bool) {
        loop {
            drive(self);
            if is_true() {
                return;
            }
            assert!(self.stepper.wait(threads::LONG), "nothing comes any more");
        }
    }
}

/// Something with everything that a filter can look at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Item {
    ns: String,
    name: String,
    labels: Labels,
    /// What it selects; nothing if absent.
    selector: Option<Labels>,
    value: i64,
}

impl Item {
    /// `name` or `namespace/name`.
    fn new(key: &str, value: i64) -> Self {
        let (ns, name) = key.split_once('/').unwrap_or(("", key));
        Self {
            ns: ns.into(),
            name: name.into(),
            value,
            ..Self::default()
        }
    }

    fn labels(mut self, pairs: &[(&str, &str)]) -> Self {
        self.labels = labels(pairs);
        self
    }

    fn selecting(mut self, pairs: &[(&str, &str)]) -> Self {
        self.selector = Some(labels(pairs));
        self
    }
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    let owned = pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    owned.collect()
}

impl Keyed for Item {
    fn key(&self) -> KeyRef<'_> {
        KeyRef::namespaced(&self.ns, &self.name)
    }
}

impl Named for Item {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Namespaced for Item {
    fn namespace(&self) -> &str {
        &self.ns
    }
}

impl Labeled for Item {
    fn labels(&self) -> &Labels {
        &self.labels
    }
}

impl Selecting for Item {
    fn selector(&self) -> SelectorRef<'_> {
        self.selector.as_ref().map_or(SelectorRef::Nothing, SelectorRef::Equals)
    }
}

impl Collection<Item> {
    /// The same once more, one level higher.
    fn collection_of(&self, krt: &Krt, name: &str) -> Self {
        krt.collection(name, self, |_, item| Some((**item).clone()))
    }
}

/// A line for each event: `+a=1`, `a=1>2`, `-a=2`.
fn line(event: &Event<Item>) -> String {
    let key = event.latest().key();
    match event {
        Event::Added(new) => format!("+{key}={}", new.value),
        Event::Updated { old, new } => format!("{key}={}>{}", old.value, new.value),
        Event::Deleted(old) => format!("-{key}={}", old.value),
    }
}

/// What a handler was told, and what transformations did.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, line: impl Into<String>) {
        self.0.lock().push(line.into());
    }

    /// The lines since the last time, sorted.
    fn take(&self) -> Vec<String> {
        let mut lines = std::mem::take(&mut *self.0.lock());
        lines.sort();
        lines
    }

    /// Logs the events of a collection.
    fn follow(&self, collection: &Collection<Item>) -> crate::Registration {
        let log = self.clone();
        collection.on_change(move |event| log.add(line(event)))
    }
}

/// The content as `key=value`, sorted.
fn content(collection: &Collection<Item>) -> Vec<String> {
    let mut lines: Vec<_> = collection
        .list()
        .iter()
        .map(|item| format!("{}={}", item.key(), item.value))
        .collect();
    lines.sort();
    lines
}

fn items(rig: &Rig, name: &str, items: &[(&str, i64)]) -> StaticCollection<Item> {
    let items = items.iter().map(|(key, value)| Item::new(key, *value));
    rig.krt.static_collection(name, items)
}
