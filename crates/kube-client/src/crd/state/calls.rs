//! The calls that are due: callbacks that waited for a kind, and handlers of changes. They are queued under the lock and made by
//! the driver, one after the other, without it.

use std::collections::VecDeque;

use kube::core::GroupVersionResource;

use super::{Inner, Later, State, full_name};
use crate::crd::subscription::KindState;
use crate::crd::topic::{Change, Topic, Verdict};

/// Called once, when a kind is known.
pub(in crate::crd) type Callback = Box<dyn FnOnce() + Send>;

/// A call to make, without a lock.
pub(in crate::crd) enum Call {
    Once(Callback),
    Change {
        kind: GroupVersionResource,
        id: u64,
        state: KindState,
        change: Change,
    },
}

pub(super) enum Due {
    Once(Callback),
    Change { kind: GroupVersionResource, id: u64 },
}

impl State {
    /// True if the kind is known; otherwise `callback` is kept for the moment when it is. After a stop it is dropped.
    pub(in crate::crd) fn known_or_callback(&self, kind: &GroupVersionResource, callback: Callback) -> bool {
        let mut inner = self.inner.lock();
        if matches!(inner.verdict(&self.rules, kind), Some(Verdict::Known(_))) {
            drop(inner); // the callback is dropped after the lock: what it captures is the user's
            return true;
        }
        if !inner.stopped {
            let waiting = inner.waiting.entry(full_name(kind)).or_default();
            waiting.push((kind.clone(), callback));
        }
        false
    }

    /// Has `change` called with the state of the kind, and with each change; gives its number. After a stop it is dropped.
    pub(in crate::crd) fn add_handler(&self, kind: &GroupVersionResource, change: Change) -> u64 {
        let mut later = Later::default();
        let (id, refused) = {
            let mut inner = self.inner.lock();
            inner.handlers += 1;
            let id = inner.handlers;
            if inner.stopped {
                (id, Some(change))
            } else {
                inner.topic(&self.rules, kind).add_handler(id, change);
                inner.queue_handlers(kind, &mut later);
                (id, None)
            }
        };
        drop(refused); // what it captures is the user's
        self.finish(later);
        id
    }

    pub(in crate::crd) fn remove_handler(&self, kind: &GroupVersionResource, id: u64) {
        let removed = {
            let mut inner = self.inner.lock();
            let removed = inner.find_topic(kind).and_then(|topic| topic.remove_handler(id));
            inner.drop_if_idle(kind);
            removed
        };
        drop(removed); // what it captures is the user's
    }

    /// How many calls are queued.
    pub(in crate::crd) fn calls_due(&self) -> usize {
        self.inner.lock().due.len()
    }

    /// The next call to make. A `Change` has to be [given back](Self::put_back) afterwards.
    pub(in crate::crd) fn next_call(&self) -> Option<Call> {
        let mut inner = self.inner.lock();
        loop {
            match inner.due.pop_front()? {
                Due::Once(callback) => return Some(Call::Once(callback)),
                Due::Change { kind, id } => {
                    let call = inner.find_topic(&kind).and_then(|topic| topic.take_call(id));
                    if let Some((state, change)) = call {
                        return Some(Call::Change {
                            kind,
                            id,
                            state,
                            change,
                        });
                    }
                }
            }
        }
    }

    /// A handler was called. Gives what is to be dropped, if it was removed meanwhile.
    pub(in crate::crd) fn put_back(&self, kind: &GroupVersionResource, id: u64, change: Change) -> Option<Change> {
        let mut later = Later::default();
        let removed = {
            let mut inner = self.inner.lock();
            let removed = match inner.find_topic(kind) {
                Some(topic) => topic.put_back(id, change),
                None => Some(change),
            };
            inner.queue_handlers(kind, &mut later);
            removed
        };
        self.finish(later);
        removed
    }
}

impl Inner {
    /// Queues the handlers of a kind that have something to be told.
    fn queue_handlers(&mut self, kind: &GroupVersionResource, later: &mut Later) {
        let name = full_name(kind);
        let topics = self.topics.get_mut(name.as_str());
        if let Some(topic) = topics.and_then(|topics| topics.iter_mut().find(|topic| topic.kind == *kind)) {
            queue(topic, &mut self.due, later);
        }
    }
}

pub(super) fn queue(topic: &mut Topic, due: &mut VecDeque<Due>, later: &mut Later) {
    let kind = topic.kind.clone();
    for id in topic.queue_handlers() {
        due.push_back(Due::Change { kind: kind.clone(), id });
        later.calls = true;
    }
}
