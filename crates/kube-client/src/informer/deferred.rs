//! What a change under the locks leaves for when they are released: wakers to call and objects of the user's to drop.
//!
//! Both run code that is not ours, that may call back into the informer, and that may panic. Objects are dropped one by
//! one, each with its panic contained: a second panic while the first unwinds would abort the process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

use crate::event::Event;
use crate::informer::backlog::Taken;
use crate::sync::wake_all;

/// Things to do without a lock.
#[must_use = "run it after the locks are released"]
pub(crate) struct Deferred<K> {
    pub(crate) wakers: Vec<Waker>,
    pub(crate) garbage: Garbage<K>,
}

/// What may hold the last reference to an object.
pub(crate) struct Garbage<K> {
    pub(crate) objects: Vec<Arc<K>>,
    pub(crate) events: Vec<Event<K>>,
    pub(crate) batches: Vec<Taken<K>>,
}

impl<K> Default for Garbage<K> {
    fn default() -> Self {
        Self {
            objects: Vec::new(),
            events: Vec::new(),
            batches: Vec::new(),
        }
    }
}

impl<K> Default for Deferred<K> {
    fn default() -> Self {
        Self {
            wakers: Vec::new(),
            garbage: Garbage::default(),
        }
    }
}

impl<K> Deferred<K> {
    pub(crate) fn merge(&mut self, other: Self) {
        append(&mut self.wakers, other.wakers);
        append(&mut self.garbage.objects, other.garbage.objects);
        append(&mut self.garbage.events, other.garbage.events);
        append(&mut self.garbage.batches, other.garbage.batches);
    }

    /// Does them; call it without a lock held.
    pub(crate) fn run(self) {
        wake_all(self.wakers);
        let Garbage {
            objects,
            events,
            batches,
        } = self.garbage;
        discard_each(objects);
        events.into_iter().for_each(discard_event);
        drop(batches); // each takes care of its own events
    }
}

/// Mostly there is one handler, and so nothing to append to: no memory is asked for then.
fn append<T>(to: &mut Vec<T>, mut more: Vec<T>) {
    if to.is_empty() {
        *to = more;
    } else {
        to.append(&mut more);
    }
}

/// Drops one thing that may be the user's or hold the last reference to an object of theirs, and contains a panic of its
/// `Drop`.
pub(crate) fn discard<T>(garbage: T) {
    if catch_unwind(AssertUnwindSafe(move || drop(garbage))).is_err() {
        tracing::error!("dropping an object or a handler's future panicked");
    }
}

/// Drops several such things, each by itself.
pub(crate) fn discard_each<T>(garbage: impl IntoIterator<Item = T>) {
    garbage.into_iter().for_each(discard);
}

/// Things that may be the user's, one after the other; those that nobody takes are dropped each by itself.
#[derive(Debug)]
pub(crate) struct Each<T>(std::vec::IntoIter<T>);

impl<T> From<Vec<T>> for Each<T> {
    fn from(all: Vec<T>) -> Self {
        Self(all.into_iter())
    }
}

impl<T> Iterator for Each<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.next()
    }
}

impl<T> Drop for Each<T> {
    fn drop(&mut self) {
        discard_each(self.0.by_ref());
    }
}

/// Drops the objects of an event, each by itself.
pub(crate) fn discard_event<K>(event: Event<K>) {
    match event {
        Event::Added { object, .. } | Event::Deleted { object, .. } => discard(object),
        Event::Updated { old, new } => {
            discard(old);
            discard(new);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    struct Bomb(Arc<AtomicUsize>);

    impl Drop for Bomb {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
            panic!("on purpose");
        }
    }

    // [I39] a second panic while the first one unwinds would abort the process
    #[test]
    fn what_nobody_takes_is_dropped_each_by_itself() {
        let dropped = Arc::default();
        let bombs: Vec<Bomb> = (0..3).map(|_| Bomb(Arc::clone(&dropped))).collect();
        let mut each = Each::from(bombs);
        let first = each.next();
        drop(each);
        assert_eq!(dropped.load(SeqCst), 2);
        discard(first);
        assert_eq!(dropped.load(SeqCst), 3);
    }
}
