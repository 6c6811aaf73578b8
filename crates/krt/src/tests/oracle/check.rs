//! What is compared after each epoch and after each call of the handlers.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use super::brittle::{Break, armed};
use super::drive::{Change, Content, Drive};
use super::history::{KEYS, Object};
use crate::Fetched;

pub(super) fn objects(found: &Fetched<Object>) -> Vec<&Object> {
    found.iter().map(|object| &**object).collect()
}

/// What is to be found in the index by thirds, in the order of keys: what breaks it is not in it.
pub(super) fn having(content: &Content, third: i64) -> Vec<&Object> {
    let is_in = |object: &&Object| object.value.rem_euclid(3) == third && !object.brittle.breaks_at(Break::Index);
    content.values().filter(is_in).collect()
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
    /// No run without a cause, no cause without a run, and only superseded ones more than once.
    pub(super) fn check_runs(&mut self) {
        let runs = std::mem::take(&mut *self.world.runs.lock());
        let (actual, caused): (BTreeSet<_>, BTreeSet<_>) = (runs.iter().collect(), self.model.runs.iter().collect());
        assert_eq!(actual, caused, "runs");
        let superseded: u64 = self
            .world
            .nodes
            .iter()
            .map(|node| node.collection.stats().superseded)
            .sum();
        let is_counted = |run: &&(usize, String)| !self.hidden[run.0];
        let again = runs.iter().filter(is_counted).count() - actual.iter().filter(|run| is_counted(run)).count();
        assert_eq!(
            again as u64,
            superseded - self.superseded,
            "runs of one input in one epoch"
        );
        self.superseded = superseded;
        let scans = self.rig.stepper.engine().deps().counters.scans;
        let unindexed = self.world.unindexed.load(Ordering::Relaxed);
        assert!(
            scans <= unindexed,
            "{scans} scans for {unindexed} fetches without an index"
        );
    }

    pub(super) fn check_pins(&self) {
        for pin in &self.pins {
            let epoch = &self.epochs[usize::try_from(pin.epoch()).unwrap()];
            for (number, (node, content)) in self.world.nodes.iter().zip(&epoch.contents).enumerate() {
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
                for third in 0..3 {
                    let found = armed(|| pin.lookup(&node.thirds, &third));
                    assert_eq!(objects(&found), having(content, third), "pinned lookup in {number}");
                }
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
    pub(super) fn check_listeners(&mut self) {
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
                    let breaks =
                        |one: &Option<Object>| one.as_ref().is_some_and(|one| one.brittle.breaks_at(Break::Equal));
                    assert!(
                        old != new || touched.contains(key) || breaks(old) || breaks(new),
                        "{key} was told without a change"
                    );
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
}
