//! A stream of batches: filled by the engine, emptied by whoever polls it.

use std::sync::Arc;
use std::task::{Poll, Waker};

use super::backlog::{Backlog, Compare, Load, Waiting};
use super::panics;
use super::planted::{self, Bug};
use super::sink::{Delivery, Sink};
use crate::event::Batch;
use crate::sync::Mutex;
use crate::traits::Keyed;

pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    equal: Compare<T>,
}

struct State<T> {
    backlog: Backlog<Batch<T>>,
    /// Who waits for something to come. Invariant: `None` if something is there, or if nothing will come.
    waker: Option<Waker>,
    /// Nothing more will come.
    ended: bool,
    /// Nobody polls any more.
    closed: bool,
}

impl<T: Keyed> Queue<T> {
    pub(crate) fn new(limit: Option<usize>, equal: Compare<T>) -> Self {
        Self {
            state: Mutex::new(State {
                backlog: Backlog::new(limit),
                waker: None,
                ended: false,
                closed: false,
            }),
            equal,
        }
    }

    /// The next batch; `None` at the end, after everything that had been told before it.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Option<Batch<T>>> {
        let mut own = Some(waker.clone());
        loop {
            let (popped, ended, replaced) = {
                let mut state = self.state.lock();
                match state.backlog.pop() {
                    Some(popped) => (Some(popped), false, None),
                    None if state.ended => (None, true, None),
                    None => (None, false, std::mem::replace(&mut state.waker, own.take())),
                }
            };
            panics::drop_each(replaced);
            let Some((next, more)) = popped else {
                panics::drop_each(own);
                return if ended { Poll::Ready(None) } else { Poll::Pending };
            };
            let next = if more.is_empty() {
                next
            } else {
                Waiting::merge(std::iter::once(next).chain(more), self.equal)
            };
            if next.load.is_told() {
                panics::drop_each(own);
                return Poll::Ready(Some(next.load));
            }
            panics::drop_each([next.load]);
        }
    }

    /// Nobody polls any more.
    pub(crate) fn close(&self) {
        let (waiting, waker) = {
            let mut state = self.state.lock();
            state.closed = true;
            (state.backlog.clear(), state.waker.take())
        };
        panics::drop_each(waiting.into_iter().map(|waiting| waiting.load));
        panics::drop_each(waker);
    }

    fn push(&self, batch: Waiting<Batch<T>>) {
        let backlog = {
            let mut state = self.state.lock();
            if state.closed {
                drop(state);
                return panics::drop_each([batch.load]);
            }
            state.backlog.push(batch)
        };
        if !backlog.is_empty() {
            let merged = Waiting::merge(backlog, self.equal);
            let mut state = self.state.lock();
            if state.closed {
                drop(state);
                return panics::drop_each([merged.load]);
            }
            state.backlog.put_merged(merged);
        }
        if !planted::has(Bug::StreamNotWoken) {
            self.wake(|_| {});
        }
    }

    /// Changes something that whoever waits is told.
    fn wake(&self, change: impl FnOnce(&mut State<T>)) {
        let waker = {
            let mut state = self.state.lock();
            change(&mut state);
            state.waker.take()
        };
        if let Some(waker) = waker
            && let Err(text) = panics::contain(|| waker.wake())
        {
            tracing::error!(panic = text, "a waker panicked");
        }
    }
}

/// The engine's end of a stream, which ends with it.
pub(crate) struct Feed<T: Keyed>(Arc<Queue<T>>);

impl<T: Keyed> Feed<T> {
    pub(crate) fn new(queue: &Arc<Queue<T>>) -> Self {
        Self(Arc::clone(queue))
    }
}

impl<T: Keyed> Sink<T> for Feed<T> {
    fn push(&self, batch: Waiting<Batch<T>>, _: &mut Delivery<'_>) {
        self.0.push(batch);
    }

    fn has_ended(&self) -> bool {
        self.0.state.lock().closed
    }

    fn end(&self) {
        self.0.wake(|state| state.ended = true);
    }
}

impl<T: Keyed> Drop for Feed<T> {
    fn drop(&mut self) {
        self.end();
    }
}
