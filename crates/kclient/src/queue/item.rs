//! A key that was handed out.
//!
//! Owns: [`Item`], whose end is the `done` of its key.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::consumer::Consumer;
use super::core::{Finish, Handout, Take};
use super::workqueue::Shared;

/// A key that was handed out. Dropping it is `done`: the key may then be handed out again.
///
/// It dereferences to the key.
#[must_use = "dropping an item marks it as done"]
pub struct Item<T: Clone + Eq> {
    handout: Handout<T>,
    finish: Finish,
    /// Whether the queue knows already that it is done.
    finished: bool,
    shared: Arc<Shared<T>>,
}

impl<T: Clone + Eq> Item<T> {
    #[inline]
    pub(super) fn new(handout: Handout<T>, shared: Arc<Shared<T>>) -> Self {
        Self {
            handout,
            finish: Finish::default(),
            finished: false,
            shared,
        }
    }

    /// The key.
    pub fn key(&self) -> &T {
        &self.handout.key
    }

    /// The priority with which it was handed out.
    pub fn priority(&self) -> i32 {
        self.handout.priority
    }

    /// Marks the key as done, the same as dropping the item.
    pub fn done(self) {}

    /// Marks the key as done and waits for the next one: what [`WorkQueue::get`](super::WorkQueue::get) does after `done`, in
    /// one turn of the queue's lock instead of two.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// use kclient::queue::WorkQueue;
    ///
    /// let queue = WorkQueue::new("emails");
    /// queue.add(&"a@example.org");
    /// queue.add(&"b@example.org");
    /// queue.shut_down();
    ///
    /// let mut next = queue.get().await;
    /// while let Some(email) = next {
    ///     println!("to {}", *email);
    ///     next = email.next().await;
    /// }
    /// # });
    /// ```
    ///
    /// # Cancel safety
    ///
    /// The key is done in any case, and no other is lost: the next one is handed out only by the call that returns it.
    ///
    /// # Panics
    ///
    /// As [`WorkQueue::get`](super::WorkQueue::get).
    pub async fn next(mut self) -> Option<Self> {
        tokio::task::coop::consume_budget().await;
        self.finished = true;
        match self.shared.finish_and_take(self.handout.slot, self.finish) {
            Take::Item(handout) => {
                self.handout = handout;
                self.finish = Finish::default();
                self.finished = false;
                Some(self)
            }
            Take::Closed => None,
            Take::Empty => {
                let shared = Arc::clone(&self.shared);
                // Nobody holds on to a key that is done.
                drop(self);
                let handout = Consumer::new(&shared).wait().await?;
                Some(Self::new(handout, shared))
            }
        }
    }

    /// How many attempts at this key failed in a row.
    pub(super) fn failures(&self) -> u32 {
        self.handout.failures
    }

    /// The key was really handled, so once the item is done `failures` is its new count, and it is wanted again after `requeue`,
    /// with the same priority. The delay counts from now on.
    pub(super) fn handled(&mut self, failures: u32, requeue: Option<Duration>) {
        let priority = self.handout.priority;
        self.finish = Finish {
            failures,
            requeue: requeue.map(|delay| (self.shared.deadline(delay), priority)),
            handled: true,
        };
    }
}

impl<T: Clone + Eq> Drop for Item<T> {
    fn drop(&mut self) {
        if !self.finished {
            self.shared.finish(self.handout.slot, self.finish);
        }
    }
}

impl<T: Clone + Eq> Deref for Item<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.key()
    }
}

impl<T: Clone + Eq + fmt::Debug> fmt::Debug for Item<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Item").field(self.key()).finish()
    }
}
