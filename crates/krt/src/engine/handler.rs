//! One handler's queue of batches: filled by the engine, emptied by one thread at a time, merged when it is long.
//!
//! Whose thread that is, is the business of [`super::pool`].
//!
//! # Design
//!
//! A handler that lags has its whole backlog merged into one batch, which leads from the state that it knows to that of the last
//! epoch. It does so itself when it comes to it. So that a handler that never comes costs neither memory nor time without bound,
//! the engine's thread, which is the only one to add batches, does it too, but not before there is twice as much as was left
//! the last time: the cost of merging is paid by the events that came in between. No lock is held for it; the handler finds
//! nothing meanwhile, and is scheduled again afterwards.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::panics;
use super::planted::{self, Bug};
use super::pool::{Job, Pool};
use super::progress::Progress;
use super::store::Equal;
use crate::event::{Batch, Event, Told};
use crate::sync::Mutex;

/// The user's code.
pub(crate) type Call<T> = Box<dyn FnMut(&Batch<T>) + Send>;

/// A batch that waits, and what it stands for.
pub(crate) struct Waiting<T> {
    /// The first of the epochs that it stands for.
    first: u64,
    batch: Batch<T>,
    /// Whether the collection was synced with this batch's epoch.
    synced: bool,
}

impl<T> Waiting<T> {
    pub(crate) fn new(epoch: u64, changes: Arc<Vec<Told<T>>>, synced: bool) -> Self {
        let batch = Batch { epoch, changes };
        Self {
            first: epoch,
            batch,
            synced,
        }
    }

    /// What it counts in a backlog: its events, and itself, since an empty one is not free either.
    fn size(&self) -> usize {
        self.batch.len() + 1
    }
}

struct State<T> {
    waiting: VecDeque<Waiting<T>>,
    /// Invariant: how much waits.
    size: usize,
    /// More than this is merged by the engine.
    merge_over: usize,
    /// Invariant: `None` while a thread runs it, and after the end.
    call: Option<Call<T>>,
    /// Whether a thread runs it or was asked to. Invariant: true if something waits.
    scheduled: bool,
    /// The first epoch of the batch that is being handled.
    running: Option<u64>,
    /// The first epoch of the batches that are being merged.
    merging: Option<u64>,
    synced: bool,
    ended: bool,
}

/// What there is for a thread to do.
enum Next<T> {
    Nothing,
    /// The call that it brought back, which nobody needs any more.
    Ended(Call<T>),
    /// A batch, and those to merge with it.
    Batch(Call<T>, Waiting<T>, VecDeque<Waiting<T>>),
}

pub(crate) struct Handler<T> {
    name: Arc<str>,
    state: Mutex<State<T>>,
    /// `State::ended`, to be seen without the lock; perhaps a little later.
    ended: AtomicBool,
    /// More than this, in more than one batch, is merged.
    limit: usize,
    equal: Option<Equal<T>>,
    /// Tells one individual from another of its key, where that matters.
    same: Option<Equal<T>>,
    progress: Arc<Progress>,
}

impl<T: Send + Sync + 'static> Handler<T> {
    /// Without a limit, nothing is merged.
    pub(crate) fn new(
        name: Arc<str>,
        call: Call<T>,
        limit: Option<usize>,
        equal: Option<Equal<T>>,
        progress: Arc<Progress>,
    ) -> Self {
        let limit = limit.unwrap_or(usize::MAX);
        Self {
            name,
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                size: 0,
                merge_over: limit,
                call: Some(call),
                scheduled: false,
                running: None,
                merging: None,
                synced: false,
                ended: false,
            }),
            ended: AtomicBool::new(false),
            limit,
            equal,
            same: None,
            progress,
        }
    }

    /// A key whose value is not the same individual any more is told as deleted and added.
    pub(crate) fn telling_apart(mut self, same: Option<Equal<T>>) -> Self {
        self.same = same;
        self
    }

    /// Adds a batch. Only the engine's thread does.
    pub(crate) fn push(self: &Arc<Self>, batch: Waiting<T>, pool: &Arc<Pool>) {
        let (schedule, backlog) = {
            let mut state = self.state.lock();
            if state.ended {
                drop(state);
                return panics::drop_each([batch]);
            }
            state.size += batch.size();
            state.waiting.push_back(batch);
            if state.size > state.merge_over && state.waiting.len() > 1 {
                state.merging = state.waiting.front().map(|one| one.first);
                state.size = 0;
                (false, std::mem::take(&mut state.waiting))
            } else {
                (!std::mem::replace(&mut state.scheduled, true), VecDeque::new())
            }
        };
        if schedule {
            pool.schedule(Arc::clone(self) as Arc<dyn Job>);
        }
        if !backlog.is_empty() {
            let merged = merge(backlog, self.equal, self.same);
            let schedule = {
                let mut state = self.state.lock();
                state.merging = None;
                if state.ended {
                    drop(state);
                    return panics::drop_each([merged]);
                }
                state.size = merged.size();
                state.merge_over = self.limit.max(2 * merged.size());
                state.waiting.push_back(merged);
                !std::mem::replace(&mut state.scheduled, true)
            };
            if schedule {
                pool.schedule(Arc::clone(self) as Arc<dyn Job>);
            }
        }
    }

    /// Whether it has handled the initial state.
    pub(crate) fn is_synced(&self) -> bool {
        self.state.lock().synced
    }

    /// Calls it no more, but for a call that is running. What waits is dropped.
    pub(crate) fn end(&self) {
        let (waiting, call) = {
            let mut state = self.state.lock();
            state.ended = true;
            self.ended.store(true, Ordering::Release);
            (std::mem::take(&mut state.waiting), state.call.take())
        };
        panics::drop_each(waiting);
        panics::drop_each(call);
        self.progress.notify();
    }

    /// What is to be done next, after a batch was handled by the call that is brought back.
    fn next(&self, back: Option<(Call<T>, bool)>) -> Next<T> {
        let mut state = self.state.lock();
        let mut call = state.call.take();
        if let Some((back, synced)) = back {
            state.running = None;
            state.synced |= synced;
            if state.ended {
                state.scheduled = false;
                return Next::Ended(back);
            }
            call = Some(back);
        }
        let (call, next) = match (call, state.waiting.pop_front()) {
            (Some(call), Some(next)) => (call, next),
            (call, next) => {
                debug_assert!(next.is_none(), "without a call, nothing waits");
                state.call = call;
                state.scheduled = false;
                return Next::Nothing;
            }
        };
        state.running = Some(next.first);
        let more = if state.size > self.limit {
            state.size = 0;
            std::mem::take(&mut state.waiting)
        } else {
            state.size -= next.size();
            VecDeque::new()
        };
        state.merge_over = self.limit;
        Next::Batch(call, next, more)
    }

    fn call(&self, call: &mut Call<T>, batch: &Batch<T>) {
        if batch.is_empty() {
            return;
        }
        if let Err(text) = panics::contain(|| call(batch)) {
            tracing::error!(handler = %self.name, epoch = batch.epoch, panic = text, "a handler panicked");
        }
    }
}

impl<T: Send + Sync + 'static> Job for Handler<T> {
    /// Handles batch by batch, each merged from all that waits if that is too much.
    fn run(&self) {
        let mut next = self.next(None);
        loop {
            match next {
                Next::Nothing => return,
                Next::Ended(call) => {
                    panics::drop_each([call]);
                    return;
                }
                Next::Batch(mut call, one, more) => {
                    let one = if more.is_empty() {
                        one
                    } else {
                        merge(std::iter::once(one).chain(more), self.equal, self.same)
                    };
                    self.call(&mut call, &one.batch);
                    next = self.next(Some((call, one.synced)));
                    panics::drop_each([one]);
                    self.progress.notify();
                }
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    fn is_settled(&self, epoch: u64) -> bool {
        let state = self.state.lock();
        let first = state.waiting.front().map(|one| one.first);
        [state.running, state.merging, first]
            .iter()
            .flatten()
            .all(|first| *first > epoch)
    }
}

/// What happened to one key over the epochs that are merged.
struct Net<T> {
    key: Arc<str>,
    /// As the handler knows it.
    old: Option<Arc<T>>,
    new: Option<Arc<T>>,
    /// Whether it was touched: told though nothing had changed.
    touched: bool,
}

/// One batch that leads to the same state, with the same start. Precondition: there is at least one.
fn merge<T>(
    backlog: impl IntoIterator<Item = Waiting<T>>,
    equal: Option<Equal<T>>,
    same: Option<Equal<T>>,
) -> Waiting<T> {
    let is_same = |old: &Arc<T>, new: &Arc<T>| {
        Arc::ptr_eq(old, new) || equal.is_some_and(|equal| panics::contain(|| equal(old, new)).unwrap_or(false))
    };
    let is_touch = |event: &Event<T>| matches!(event, Event::Updated { old, new } if is_same(old, new));
    let (mut first, mut epoch, mut synced) = (u64::MAX, 0, false);
    let mut nets: Vec<Net<T>> = Vec::new();
    let mut places: HashMap<Arc<str>, usize> = HashMap::new();
    for waiting in backlog {
        first = first.min(waiting.first);
        epoch = waiting.batch.epoch;
        synced |= waiting.synced;
        for Told { key, event } in &*waiting.batch.changes {
            let new = event.new().cloned();
            if let Some(place) = places.get(key) {
                let net = &mut nets[*place];
                panics::drop_each(std::mem::replace(&mut net.new, new));
                if planted::has(Bug::MergedOld) {
                    net.old = event.old().cloned();
                }
                net.touched |= is_touch(event);
            } else {
                places.insert(Arc::clone(key), nets.len());
                nets.push(Net {
                    key: Arc::clone(key),
                    old: event.old().cloned(),
                    new,
                    touched: is_touch(event),
                });
            }
        }
        panics::drop_each([waiting]);
    }
    let told = nets.into_iter().flat_map(|net| {
        if let (Some(old), Some(new)) = (&net.old, &net.new)
            && !net.touched
            && is_same(old, new)
        {
            panics::drop_each([net]);
            return None.into_iter().chain(None);
        }
        let mut events = Told::between(net.key, net.old, net.new, same.unwrap_or(|_, _| true));
        events.next().into_iter().chain(events.next())
    });
    let batch = Batch {
        epoch,
        changes: Arc::new(told.collect()),
    };
    Waiting { first, batch, synced }
}
