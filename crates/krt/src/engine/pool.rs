//! Who runs the handlers: as many threads as there are handlers with something to do, or a test, step by step.
//!
//! # Design
//!
//! A handler that has something to do is put into the list once; a thread takes it out and runs it until it has nothing left. A
//! thread is started only if all are busy, and ends after it had nothing to do for a while, so there are at most as many as there
//! are handlers, and one that blocks blocks only itself.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::inside;
use super::planted::{self, Bug};
use super::progress::Progress;
use crate::sync::{Condvar, Mutex, thread};

/// A handler, with its type erased.
pub(crate) trait Job: Send + Sync {
    /// Handles what waits.
    fn run(&self);
    /// Whether it will be called no more.
    fn has_ended(&self) -> bool;
    /// Whether everything of an epoch and before it is handled.
    fn is_settled(&self, epoch: u64) -> bool;
}

/// How long a thread waits for something to do.
const IDLE: Duration = Duration::from_secs(10);

struct State {
    ready: VecDeque<Arc<dyn Job>>,
    /// Whether threads may be started; before that, jobs wait.
    started: bool,
    stopped: bool,
    /// Threads that wait for a job. Invariant: at most `threads`.
    idle: usize,
    threads: usize,
}

pub(crate) struct Pool {
    name: Arc<str>,
    state: Mutex<State>,
    wake: Condvar,
    progress: Arc<Progress>,
}

impl Pool {
    pub(crate) fn new(name: Arc<str>, progress: Arc<Progress>) -> Self {
        Self {
            name,
            state: Mutex::new(State {
                ready: VecDeque::new(),
                started: false,
                stopped: false,
                idle: 0,
                threads: 0,
            }),
            wake: Condvar::default(),
            progress,
        }
    }

    pub(crate) fn schedule(self: &Arc<Self>, job: Arc<dyn Job>) {
        let mut state = self.state.lock();
        if state.stopped {
            return;
        }
        state.ready.push_back(job);
        if !state.started {
            return;
        }
        if state.idle >= state.ready.len() {
            drop(state);
            if !planted::has(Bug::PoolNotWoken) {
                self.wake.notify_one();
            }
        } else {
            state.threads += 1;
            drop(state);
            self.spawn();
        }
    }

    /// Starts what waits, and everything from now on.
    pub(crate) fn start(self: &Arc<Self>) {
        let missing = {
            let mut state = self.state.lock();
            state.started = true;
            let missing = state.ready.len();
            state.threads += missing;
            missing
        };
        for _ in 0..missing {
            self.spawn();
        }
    }

    /// Starts a thread that was counted already. If the system has none, those that are there do the work, later; if none is there,
    /// the one that is started for the next job.
    fn spawn(self: &Arc<Self>) {
        let pool = Arc::clone(self);
        let name = format!("krt {} handler", self.name);
        if let Err(error) = thread::spawn(name, move || pool.work()) {
            tracing::error!(%error, "no thread for a handler");
            self.state.lock().threads -= 1;
        }
    }

    fn work(&self) {
        let _inside = inside::enter();
        while let Some(job) = self.next() {
            job.run();
        }
        self.progress.notify();
    }

    /// The next job of a thread; none if the thread is to end, which is counted then.
    fn next(&self) -> Option<Arc<dyn Job>> {
        let mut state = self.state.lock();
        loop {
            if state.stopped {
                break;
            }
            if let Some(job) = state.ready.pop_front() {
                return Some(job);
            }
            state.idle += 1;
            let (after, timed_out) = self.wake.wait_timeout(state, IDLE);
            state = after;
            state.idle -= 1;
            if timed_out && state.ready.is_empty() {
                break;
            }
        }
        state.threads -= 1;
        None
    }

    /// Runs what waits on the caller's thread; tells whether there was anything.
    pub(crate) fn run_waiting(&self) -> bool {
        let _inside = inside::enter();
        let mut any = false;
        loop {
            let Some(job) = self.state.lock().ready.pop_front() else {
                return any;
            };
            job.run();
            any = true;
        }
    }

    /// Starts nothing any more; threads end after what they are at.
    pub(crate) fn stop(&self) {
        let jobs = {
            let mut state = self.state.lock();
            state.stopped = true;
            std::mem::take(&mut state.ready)
        };
        drop(jobs);
        if !planted::has(Bug::StopNotTold) {
            self.wake.notify_all();
        }
    }

    pub(crate) fn threads(&self) -> usize {
        self.state.lock().threads
    }
}
