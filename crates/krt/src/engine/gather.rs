//! One handler of several nodes: what each of them tells in an epoch is gathered, and goes on as one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::backlog::{Load, Waiting};
use super::handler::Handler;
use super::panics;
use super::sink::{Delivery, Gather, Sink};
use crate::epochs::Epoch;
use crate::event::Batch;
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use crate::sync::{AtomicBool, Mutex};
use crate::traits::Keyed;

/// A batch of each node.
pub(crate) trait Batches: Load + Sync + Default {
    /// All of them lead to the state of this epoch.
    fn set_epoch(&mut self, epoch: u64);
}

pub(crate) struct Gathered<B: Batches> {
    handler: Arc<Handler<Epoch<B>>>,
    state: Mutex<State<B>>,
}

struct State<B> {
    batches: B,
    /// Whether anything was told since the last flush.
    touched: bool,
    /// How many nodes are not synced.
    unsynced: usize,
    /// Whether the handler was told that all are.
    told_synced: bool,
    /// How many nodes may tell something.
    live: usize,
}

impl<B: Batches> Gathered<B> {
    pub(crate) fn new(handler: Arc<Handler<Epoch<B>>>, members: usize) -> Self {
        Self {
            handler,
            state: Mutex::new(State {
                batches: B::default(),
                touched: false,
                unsynced: members,
                told_synced: false,
                live: members,
            }),
        }
    }
}

impl<B: Batches> Gather for Gathered<B> {
    fn flush(&self, epoch: u64, shared: &Arc<Shared>) {
        let (mut changes, synced, completes) = {
            let mut state = self.state.lock();
            state.touched = false;
            let synced = state.unsynced == 0;
            let completes = synced && !std::mem::replace(&mut state.told_synced, synced);
            (std::mem::take(&mut state.batches), synced, completes)
        };
        changes.set_epoch(epoch);
        let snapshot = Snapshot::new(Arc::clone(shared));
        debug_assert_eq!(snapshot.epoch(), epoch, "it is told right after it was published");
        let epoch_told = Epoch::new(changes, snapshot, synced, completes);
        self.handler.push(Waiting::new(epoch, epoch_told, synced), &shared.pool);
    }
}

/// One node's end.
pub(crate) struct Member<T, B: Batches> {
    gathered: Arc<Gathered<B>>,
    /// Where the node's batch is among all.
    place: fn(&mut B) -> &mut Batch<T>,
    synced: AtomicBool,
}

impl<T, B: Batches> Member<T, B> {
    pub(crate) fn new(gathered: &Arc<Gathered<B>>, place: fn(&mut B) -> &mut Batch<T>) -> Self {
        Self {
            gathered: Arc::clone(gathered),
            place,
            synced: AtomicBool::new(false),
        }
    }
}

impl<T: Keyed, B: Batches> Sink<T> for Member<T, B> {
    fn push(&self, batch: Waiting<Batch<T>>, to: &mut Delivery<'_>) {
        let mut state = self.gathered.state.lock();
        if batch.synced && !self.synced.swap(true, Ordering::Relaxed) {
            state.unsynced -= 1;
        }
        let replaced = std::mem::replace((self.place)(&mut state.batches), batch.load);
        let first = !std::mem::replace(&mut state.touched, true);
        drop(state);
        debug_assert!(replaced.is_empty(), "a node tells once between two flushes");
        panics::drop_each([replaced]);
        if first {
            to.gathers.push(Arc::clone(&self.gathered) as Arc<dyn Gather>);
        }
    }

    fn has_ended(&self) -> bool {
        self.gathered.handler.has_ended()
    }

    fn end(&self) {
        let was_last = {
            let mut state = self.gathered.state.lock();
            state.live -= 1;
            state.live == 0
        };
        if was_last {
            self.gathered.handler.end();
        }
    }
}
