//! Decoding the pieces of a list on other processors too, in order.
//!
//! A large list is what a program starts with, and decoding it takes much longer than receiving it. So while the reflector receives
//! and decodes, threads of the runtime that are there for work that blocks take pieces of it, as many at a time as the client allows
//! ([`Helpers`]). Whatever no helper has begun as its turn comes, the reflector does itself: it never waits for a thread to get
//! started. What comes out is in the order of what went in.

use std::collections::VecDeque;
use std::future::pending;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use tokio::task::JoinHandle;

use crate::environment::Environment;
use crate::sync::Mutex;

/// How many threads at a time the informers of one client have decode for them, besides their own tasks.
#[derive(Debug)]
pub(crate) struct Helpers {
    most: usize,
    busy: AtomicUsize,
}

/// More threads than this are no faster: the reflector that hands out pieces is what they wait for.
const MOST: usize = 7;

impl Helpers {
    /// `threads` counts that of the informer's task.
    pub(crate) fn new(threads: NonZeroUsize) -> Self {
        Self {
            most: (threads.get() - 1).min(MOST),
            busy: AtomicUsize::new(0),
        }
    }

    /// One more at work, if there may be.
    fn begin(env: &Arc<Environment>) -> Option<Place> {
        let most = env.helpers.most;
        let one_more = |busy: usize| (busy < most).then_some(busy + 1);
        let busy = &env.helpers.busy;
        busy.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(Place(Arc::clone(env)))
    }
}

/// One helper's place, given back as it is dropped.
struct Place(Arc<Environment>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.helpers.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The pieces of one list. What no helper has begun yet is given up as this is dropped.
pub(crate) struct Crew<T> {
    env: Arc<Environment>,
    jobs: VecDeque<Job<T>>,
}

type Work<T> = Box<dyn FnOnce() -> T + Send>;

enum Job<T> {
    Done(T),
    /// Whoever takes the work does it.
    Shared(Arc<Mutex<Option<Work<T>>>>, JoinHandle<Option<T>>),
}

impl<T: Send + 'static> Crew<T> {
    pub(crate) fn new(env: &Arc<Environment>) -> Self {
        Self {
            env: Arc::clone(env),
            jobs: VecDeque::new(),
        }
    }

    /// Has a helper do it, or does it at once if all are at work.
    pub(crate) fn push(&mut self, work: impl FnOnce() -> T + Send + 'static) {
        let Some(place) = Helpers::begin(&self.env) else {
            self.jobs.push_back(Job::Done(work()));
            return;
        };
        let work: Work<T> = Box::new(work);
        let work = Arc::new(Mutex::new(Some(work)));
        let (shared, span) = (Arc::clone(&work), tracing::Span::current());
        let help = move || {
            let begun = {
                let mut work = shared.lock();
                // A stop waits for what is begun. The runtime may never have a thread for what is not.
                work.take().map(|work| (work, place.0.tasks.token()))
            };
            let done = begun.map(|(work, _counted)| span.in_scope(work));
            drop(place);
            done
        };
        let helper = self.env.runtime.spawn_blocking(help);
        self.jobs.push_back(Job::Shared(work, helper));
    }

    /// Whether nothing is left to take.
    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// The next in order, if it is done.
    pub(crate) fn take_done(&mut self) -> Option<T> {
        if let Some(Job::Shared(work, helper)) = self.jobs.front_mut() {
            if !helper.is_finished() {
                return None;
            }
            // A runtime that is shutting down begins nothing any more.
            let ours = work.lock().take();
            let done = match ours {
                Some(work) => work(),
                None => joined(helper).now_or_never()?,
            };
            self.jobs[0] = Job::Done(done);
        }
        self.pop()
    }

    /// The next in order: waits for the helper that is at it, or does it. `None` if there is none.
    ///
    /// Cancel safe: what was to come comes at the next call.
    pub(crate) async fn next(&mut self) -> Option<T> {
        if let Some(Job::Shared(work, helper)) = self.jobs.front_mut() {
            let ours = work.lock().take();
            let done = match ours {
                Some(work) => work(),
                None => joined(helper).await,
            };
            self.jobs[0] = Job::Done(done);
        }
        self.pop()
    }

    fn pop(&mut self) -> Option<T> {
        match self.jobs.pop_front()? {
            Job::Done(done) => Some(done),
            shared @ Job::Shared(..) => {
                self.jobs.push_front(shared);
                None
            }
        }
    }
}

/// What a helper that has begun comes to. A panic of it goes on here.
async fn joined<T>(helper: &mut JoinHandle<Option<T>>) -> T {
    match helper.await {
        Ok(done) => done.expect("who takes the work does it"),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime is shutting down, and with it whoever waits here.
            Err(_) => pending().await,
        },
    }
}

impl<T> Drop for Crew<T> {
    fn drop(&mut self) {
        for job in &self.jobs {
            if let Job::Shared(work, helper) = job {
                let unbegun = work.lock().take();
                drop(unbegun); // not under the lock
                helper.abort();
            }
        }
    }
}
