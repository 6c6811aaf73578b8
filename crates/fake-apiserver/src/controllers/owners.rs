//! The objects of one kind that own others, as a controller goes from one to the next.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::owned::concerned;
use super::queue::Queue;
use super::timers::Timers;
use super::world::{Change, Key};
use crate::storage::ResourceId;

/// Which owners there are, and which are to be looked at.
#[derive(Debug, Default)]
pub(super) struct Owners {
    queue: Queue<Key>,
    known: BTreeSet<Key>,
    /// When there will be something to do although nothing changes.
    timers: Timers<Key>,
    /// Where they are, once one was seen.
    resource: Option<ResourceId>,
}

impl Owners {
    /// Takes note of a change of one of them.
    pub(super) fn observe(&mut self, change: &Change) {
        self.resource = Some(change.key.resource);
        if change.cur.is_some() {
            self.known.insert(change.key.clone());
            self.queue.push(change.key.clone());
        } else {
            self.known.remove(&change.key);
            self.timers.clear(&change.key);
        }
    }

    /// Takes note of a change of what may belong to them, which are of this kind.
    pub(super) fn observe_owned(&mut self, change: &Change, kind: &str) {
        let Some(resource) = self.resource else { return };
        let namespace = change.key.namespace();
        let Some(names) = concerned(change, kind) else {
            return self.push_all(namespace);
        };
        for name in names {
            let object = format!("{namespace}/{name}").into();
            self.queue.push(Key { resource, object });
        }
    }

    /// All of a namespace are to be looked at.
    pub(super) fn push_all(&mut self, namespace: &str) {
        let known = self.known.iter().filter(|key| key.namespace() == namespace);
        known.for_each(|key| self.queue.push(key.clone()));
    }

    /// One is to be looked at again.
    pub(super) fn push(&mut self, key: Key) {
        self.queue.push(key);
    }

    /// The next one to be looked at.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<Key> {
        while let Some(key) = self.timers.pop(now) {
            self.queue.push(key);
        }
        self.queue.pop()
    }

    /// One was looked at, and is to be again when this time has come, if any.
    pub(super) fn set_time(&mut self, key: &Key, time: Option<Timestamp>) {
        match time {
            Some(time) => self.timers.set(key, time),
            None => self.timers.clear(key),
        }
    }

    /// When there is something to do although nothing changes.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.timers.next()
    }
}
