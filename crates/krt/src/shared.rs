//! What the handles of one engine share with it: everything but the engine's own state.

use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::ingress::{Ingress, Operation};
use crate::engine::panics;
use crate::engine::pins::Pins;
use crate::engine::pool::{Job, Pool};
use crate::engine::progress::Progress;
use crate::key::Hashing;
use crate::sync::Mutex;

pub(crate) struct Shared {
    pub(crate) name: Arc<str>,
    pub(crate) hashing: Hashing,
    pub(crate) ingress: Ingress,
    pub(crate) pins: Pins,
    pub(crate) progress: Arc<Progress>,
    pub(crate) pool: Arc<Pool>,
    applied: Mutex<Applied>,
    start: Mutex<Start>,
    /// All handlers there may be.
    jobs: Mutex<Vec<Weak<dyn Job>>>,
}

/// Whether the engine has been started, and what is to be done then.
enum Start {
    Waiting(Vec<Box<dyn FnOnce() + Send>>),
    Started,
    Ended,
}

impl Default for Start {
    fn default() -> Self {
        Self::Waiting(Vec::new())
    }
}

/// How far the engine is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Applied {
    /// Everything that was written up to here is applied,
    pub(crate) written: u64,
    /// and was published with this epoch at the latest.
    pub(crate) epoch: u64,
    /// Nothing is applied any more.
    pub(crate) ended: bool,
}

impl Shared {
    pub(crate) fn new(name: Arc<str>, hashing: Hashing) -> Self {
        let progress = Arc::new(Progress::default());
        Self {
            pool: Arc::new(Pool::new(Arc::clone(&name), Arc::clone(&progress))),
            name,
            hashing,
            ingress: Ingress::default(),
            pins: Pins::default(),
            progress,
            applied: Mutex::default(),
            start: Mutex::default(),
            jobs: Mutex::default(),
        }
    }

    /// Queues an operation on the graph. After the end it is dropped.
    pub(crate) fn operate(&self, operation: Operation) {
        let refused = self.ingress.write(|state| state.push(operation));
        panics::drop_each(refused);
    }

    /// Does something once the engine is started, or at once if it has been. It is dropped if the engine ends before.
    pub(crate) fn on_start(&self, begin: Box<dyn FnOnce() + Send>) {
        let mut begin = Some(begin);
        let is_started = match &mut *self.start.lock() {
            Start::Waiting(waiting) => {
                waiting.extend(begin.take());
                false
            }
            Start::Started => true,
            Start::Ended => false,
        };
        if let Some(begin) = begin.filter(|_| is_started) {
            begin();
        }
    }

    pub(crate) fn set_started(&self) {
        let waiting = match &mut *self.start.lock() {
            Start::Started | Start::Ended => return,
            start @ Start::Waiting(_) => std::mem::replace(start, Start::Started),
        };
        if let Start::Waiting(waiting) = waiting {
            for begin in waiting {
                begin();
            }
        }
    }

    /// Nothing is begun any more.
    pub(crate) fn forget_start(&self) {
        let before = std::mem::replace(&mut *self.start.lock(), Start::Ended);
        if let Start::Waiting(waiting) = before {
            panics::drop_each(waiting);
        }
    }

    pub(crate) fn applied(&self) -> Applied {
        *self.applied.lock()
    }

    pub(crate) fn set_applied(&self, written: u64, epoch: u64) {
        {
            let mut applied = self.applied.lock();
            applied.written = written;
            applied.epoch = epoch;
        }
        self.progress.notify();
    }

    pub(crate) fn set_ended(&self) {
        self.applied.lock().ended = true;
        self.progress.notify();
    }

    pub(crate) fn add_job(&self, job: &Arc<dyn Job>) {
        let mut jobs = self.jobs.lock();
        jobs.retain(|job| job.strong_count() > 0);
        jobs.push(Arc::downgrade(job));
    }

    /// Whether all handlers have handled everything up to an epoch.
    pub(crate) fn is_settled(&self, epoch: u64) -> bool {
        let jobs = self.jobs.lock().clone();
        jobs.iter().filter_map(Weak::upgrade).all(|job| job.is_settled(epoch))
    }

    pub(crate) fn live_handlers(&self) -> usize {
        let jobs = self.jobs.lock().clone();
        jobs.iter()
            .filter_map(Weak::upgrade)
            .filter(|job| !job.has_ended())
            .count()
    }
}

/// What is counted of one collection. See [`Stats`](crate::Stats).
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) name: Arc<str>,
    pub(crate) runs: AtomicU64,
    pub(crate) superseded: AtomicU64,
    pub(crate) panics: AtomicU64,
    pub(crate) conflicts: AtomicU64,
    pub(crate) cycles: AtomicU64,
}

impl Counters {
    pub(crate) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            runs: AtomicU64::new(0),
            superseded: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            conflicts: AtomicU64::new(0),
            cycles: AtomicU64::new(0),
        }
    }

    /// Only the engine's thread counts, so there is nothing to synchronise.
    pub(crate) fn add(counter: &AtomicU64, more: u64) {
        counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }
}
