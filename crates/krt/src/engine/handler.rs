//! One handler's queue of batches: filled by the engine, emptied by one thread at a time, merged when it is long.
//!
//! Whose thread that is, is the business of [`super::pool`]; how a queue is merged, that of [`super::backlog`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::backlog::{Backlog, Load, Waiting};
use super::panics;
use super::pool::{Job, Pool};
use super::progress::Progress;
use super::sink::{Delivery, Sink};
use crate::event::Batch;
use crate::sync::{AtomicBool, Mutex, thread};
use crate::traits::Keyed;

/// The user's code.
pub(crate) type Call<L> = Box<dyn FnMut(&L) + Send>;

struct State<L> {
    backlog: Backlog<L>,
    /// Invariant: `None` while a thread runs it, and after the end.
    call: Option<Call<L>>,
    /// Whether a thread runs it or was asked to. Invariant: true if something waits.
    scheduled: bool,
    /// The first epoch of the batch that is being handled.
    running: Option<u64>,
    synced: bool,
    ended: bool,
}

/// What there is for a thread to do.
enum Next<L> {
    Nothing,
    /// The call that it brought back, which nobody needs any more.
    Ended(Call<L>),
    /// A batch, and those to merge with it.
    Batch(Call<L>, Waiting<L>, VecDeque<Waiting<L>>),
}

pub(crate) struct Handler<L: Load> {
    name: Arc<str>,
    state: Mutex<State<L>>,
    /// `State::ended`, to be seen without the lock; perhaps a little later.
    ended: AtomicBool,
    equal: L::Equal,
    progress: Arc<Progress>,
}

impl<L: Load> Handler<L> {
    /// Without a limit, nothing is merged.
    pub(crate) fn new(
        name: Arc<str>,
        call: Call<L>,
        limit: Option<usize>,
        equal: L::Equal,
        progress: Arc<Progress>,
    ) -> Self {
        Self {
            name,
            state: Mutex::new(State {
                backlog: Backlog::new(limit),
                call: Some(call),
                scheduled: false,
                running: None,
                synced: false,
                ended: false,
            }),
            ended: AtomicBool::new(false),
            equal,
            progress,
        }
    }

    /// Adds a batch. Only the engine's thread does.
    pub(crate) fn push(self: &Arc<Self>, batch: Waiting<L>, pool: &Arc<Pool>) {
        let (schedule, backlog) = {
            let mut state = self.state.lock();
            if state.ended {
                drop(state);
                return panics::drop_each([batch.load]);
            }
            let backlog = state.backlog.push(batch);
            let schedule = backlog.is_empty() && !std::mem::replace(&mut state.scheduled, true);
            (schedule, backlog)
        };
        if schedule {
            pool.schedule(Arc::clone(self) as Arc<dyn Job>);
        }
        if !backlog.is_empty() {
            let merged = Waiting::merge(backlog, self.equal);
            let schedule = {
                let mut state = self.state.lock();
                if state.ended {
                    drop(state);
                    return panics::drop_each([merged.load]);
                }
                state.backlog.put_merged(merged);
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

    /// Whether it will be called no more.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Calls it no more, but for a call that is running. What waits is dropped.
    pub(crate) fn end(&self) {
        let (waiting, call) = {
            let mut state = self.state.lock();
            state.ended = true;
            self.ended.store(true, Ordering::Release);
            (state.backlog.clear(), state.call.take())
        };
        panics::drop_each(waiting.into_iter().map(|waiting| waiting.load));
        panics::drop_each(call);
        self.progress.notify();
    }

    /// What is to be done next, after a batch was handled by the call that is brought back.
    fn next(&self, back: Option<(Call<L>, bool)>) -> Next<L> {
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
        let next = if call.is_some() { state.backlog.pop() } else { None };
        match (call, next) {
            (Some(call), Some((next, more))) => {
                state.running = Some(next.first);
                Next::Batch(call, next, more)
            }
            (call, _) => {
                state.call = call;
                state.scheduled = false;
                Next::Nothing
            }
        }
    }

    fn call(&self, call: &mut Call<L>, load: &L) {
        if load.is_told()
            && let Err(text) = panics::contain(|| call(load))
        {
            tracing::error!(handler = %self.name, panic = text, "a handler panicked");
        }
    }
}

impl<L: Load> Job for Handler<L> {
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
                        Waiting::merge(std::iter::once(one).chain(more), self.equal)
                    };
                    let Waiting { load, synced, .. } = one;
                    self.call(&mut call, &load);
                    next = self.next(Some((call, synced)));
                    self.progress.notify();
                    // Nobody waits for what the batch held last, objects that were replaced; who waits for the call may be on this processor.
                    thread::yield_now();
                    panics::drop_each([load]);
                }
            }
        }
    }

    fn has_ended(&self) -> bool {
        Self::has_ended(self)
    }

    fn is_settled(&self, epoch: u64) -> bool {
        let state = self.state.lock();
        let waiting = state.running.into_iter().chain(state.backlog.first());
        waiting.into_iter().all(|first| first > epoch)
    }
}

impl<T: Keyed> Sink<T> for Arc<Handler<Batch<T>>> {
    fn push(&self, batch: Waiting<Batch<T>>, to: &mut Delivery<'_>) {
        Handler::push(self, batch, to.pool);
    }

    fn push_last(&self, batch: Waiting<Batch<T>>, _: &mut Delivery<'_>) {
        Handler::end(self);
        panics::drop_each([batch.load]);
    }

    fn has_ended(&self) -> bool {
        Handler::has_ended(self)
    }

    fn end(&self) {
        Handler::end(self);
    }
}
