//! Handlers of two collections and streams of one, and what they must be told.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_core::Stream;

use super::drive::Slots;
use super::model::{Content, Model, Saved};
use super::plan::Thing;
use crate::sync::Mutex;
use crate::{Batch, Collection, Krt, Registration, Subscription};

/// Key, before, after.
type Change = (String, Option<Thing>, Option<Thing>);

fn changes(batch: &Batch<Thing>) -> Vec<Change> {
    let object = |one: Option<&Arc<Thing>>| one.map(|one| (**one).clone());
    let changes = batch
        .events()
        .map(|event| (event.latest().key.clone(), object(event.old()), object(event.new())));
    changes.collect()
}

/// Applies changes to what somebody knows.
fn apply(known: &mut Content, changes: Vec<Change>) {
    for (key, old, new) in changes {
        assert_eq!(known.get(&key), old.as_ref(), "what is known of {key}");
        match new {
            Some(new) => known.insert(key, new),
            None => known.remove(&key),
        };
    }
}

/// One call of a handler of two collections.
struct Call {
    epoch: u64,
    changes: [Vec<Change>; 2],
    shown: [Option<Content>; 2],
    is_synced: bool,
}

pub(super) struct Both {
    pub(super) nodes: [usize; 2],
    calls: Arc<Mutex<Vec<Call>>>,
    known: [Content; 2],
    last: Option<u64>,
    was_synced: bool,
    _registration: Registration,
}

impl Both {
    pub(super) fn new(krt: &Krt, slots: &Slots, nodes: [usize; 2]) -> Option<Self> {
        let [one, two] = nodes.map(|node| slots.lock()[node].clone());
        let calls: Arc<Mutex<Vec<Call>>> = Arc::default();
        let (tell, slots) = (Arc::clone(&calls), Arc::clone(slots));
        let registration = krt.on_epoch((&one?, &two?), move |epoch| {
            let shown = nodes.map(|node| {
                let collection: Collection<Thing> = slots.lock()[node].clone()?;
                let listed = epoch.snapshot().list(&collection);
                Some(
                    listed
                        .iter()
                        .map(|thing| (thing.key.clone(), (**thing).clone()))
                        .collect(),
                )
            });
            let (one, two) = epoch.changes();
            tell.lock().push(Call {
                epoch: epoch.epoch(),
                changes: [one, two].map(changes),
                shown,
                is_synced: epoch.is_synced(),
            });
        });
        Some(Self {
            nodes,
            calls,
            known: Default::default(),
            last: None,
            was_synced: false,
            _registration: registration,
        })
    }

    /// Each call is about exactly one epoch, and no epoch in between had anything to tell.
    pub(super) fn check(&mut self, saved: &[Saved], model: &Model) {
        for call in std::mem::take(&mut *self.calls.lock()) {
            let at = usize::try_from(call.epoch).unwrap();
            let is_first = self.last.is_none();
            if let Some(last) = self.last {
                let between = &saved[usize::try_from(last).unwrap() + 1..at];
                let is_silent = |saved: &Saved| self.nodes.iter().all(|node| saved.changes[*node].is_empty());
                assert!(
                    between.iter().all(is_silent),
                    "an epoch between {last} and {at} was not told"
                );
            }
            let is_empty = call.changes.iter().all(Vec::is_empty);
            assert!(
                !is_empty || (call.is_synced && !self.was_synced),
                "epoch {at} told nothing"
            );
            for (number, changes) in call.changes.into_iter().enumerate() {
                let node = self.nodes[number];
                if !is_first {
                    let mut keys: Vec<_> = changes.iter().map(|(key, ..)| key).collect();
                    keys.sort();
                    assert_eq!(
                        keys,
                        saved[at].changes[node].iter().collect::<Vec<_>>(),
                        "epoch {at} of {node}"
                    );
                }
                apply(&mut self.known[number], changes);
                assert_eq!(
                    self.known[number], saved[at].contents[node],
                    "collection {node} after {at}"
                );
                if let Some(shown) = &call.shown[number] {
                    assert_eq!(*shown, self.known[number], "what the snapshot of {at} shows of {node}");
                }
            }
            let is_synced = self.nodes.iter().all(|node| saved[at].synced[*node]);
            assert_eq!(call.is_synced, is_synced, "sync in epoch {at}");
            (self.last, self.was_synced) = (Some(call.epoch), is_synced);
        }
        if self.nodes.iter().all(|node| model.nodes[*node].is_stopped) {
            // The handler has ended, and what waited for it was dropped.
            return;
        }
        let last = saved.last().unwrap();
        for (known, node) in self.known.iter().zip(self.nodes) {
            assert_eq!(*known, last.contents[node], "a handler of {node} that has caught up");
        }
        let is_synced = self.nodes.iter().all(|node| last.synced[*node]);
        assert_eq!(self.was_synced, is_synced, "the last one to be synced is told");
    }
}

pub(super) struct Reader {
    pub(super) node: usize,
    stream: Subscription<Thing>,
    known: Content,
}

impl Reader {
    pub(super) fn new(slots: &Slots, node: usize) -> Option<Self> {
        let collection = slots.lock()[node].clone()?;
        Some(Self {
            node,
            stream: collection.handler().merge_over(3).subscribe(),
            known: Content::new(),
        })
    }

    /// Reads everything that is there, and the end if the collection is stopped.
    pub(super) fn check(&mut self, saved: &[Saved], model: &Model) {
        loop {
            let next = Pin::new(&mut self.stream).poll_next(&mut Context::from_waker(Waker::noop()));
            let is_over = match next {
                Poll::Ready(Some(batch)) => {
                    let at = usize::try_from(batch.epoch()).unwrap();
                    assert!(!batch.is_empty());
                    apply(&mut self.known, changes(&batch));
                    assert_eq!(
                        self.known, saved[at].contents[self.node],
                        "a stream of {} at {at}",
                        self.node
                    );
                    continue;
                }
                Poll::Ready(None) => true,
                Poll::Pending => false,
            };
            assert_eq!(
                is_over, model.nodes[self.node].is_stopped,
                "the end of a stream of {}",
                self.node
            );
            break;
        }
        assert_eq!(
            self.known,
            saved.last().unwrap().contents[self.node],
            "a stream of {}",
            self.node
        );
    }
}
