//! The deployment controller: a replica set per template, and the way from one to the next.
//!
//! [`rollout`] is what is done with one deployment, over [`sets`] (its replica sets, and what is written in their annotations),
//! [`sizes`] (how many pods there may be) and [`conditions`].

mod conditions;
mod rollout;
mod sets;
mod sizes;

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::owned::concerned;
use super::queue::Queue;
use super::timers::Timers;
use super::world::{Agent, Change, Failure, Key, World};
use crate::storage::ResourceId;

const WHO: Agent = Agent::ControllerManager;
const KIND: &str = "Deployment";

/// The state of the deployment controller.
#[derive(Debug, Default)]
pub(super) struct Deployments {
    queue: Queue<Key>,
    known: BTreeSet<Key>,
    /// When deployments will have made no progress for too long.
    timers: Timers<Key>,
    /// Where deployments are, once one was seen.
    resource: Option<ResourceId>,
}

impl Deployments {
    /// Takes note of a change.
    pub(super) fn observe(&mut self, change: &Change) {
        if change.is_of("apps", "deployments") {
            self.resource = Some(change.key.resource);
            if change.cur.is_some() {
                self.known.insert(change.key.clone());
                self.queue.push(change.key.clone());
            } else {
                self.known.remove(&change.key);
                self.timers.clear(&change.key);
            }
            return;
        }
        let Some(resource) = self.resource else { return };
        let namespace = change.key.namespace();
        let of_namespace = |key: &&Key| key.namespace() == namespace;
        if change.is_of("apps", "replicasets") {
            match concerned(change, KIND) {
                Some(names) => {
                    for name in names {
                        let object = format!("{namespace}/{name}").into();
                        self.queue.push(Key { resource, object });
                    }
                }
                None => self
                    .known
                    .iter()
                    .filter(of_namespace)
                    .for_each(|key| self.queue.push(key.clone())),
            }
        } else if change.is_of("", "pods") && change.cur.is_none() {
            // One that makes no new pods before the old ones are gone waits for this.
            self.known
                .iter()
                .filter(of_namespace)
                .for_each(|key| self.queue.push(key.clone()));
        }
    }

    /// When there is something to do although nothing changes.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.timers.next()
    }

    /// Works on one deployment; false if none waits.
    pub(super) async fn work(&mut self, world: &World<'_>) -> bool {
        while let Some(key) = self.timers.pop(world.server.clock.now()) {
            self.queue.push(key);
        }
        let Some(key) = self.queue.pop() else { return false };
        match rollout::sync(world, &key).await {
            Ok(Some(next)) => self.timers.set(&key, next),
            Ok(None) => self.timers.clear(&key),
            Err(failure) if failure.is_conflict() => self.queue.push(key),
            // Gone, or its namespace goes.
            Err(failure) if failure.is_not_found() || failure.is_forbidden() => {}
            Err(failure) => report(&key, &failure),
        }
        true
    }
}

fn report(key: &Key, failure: &Failure) {
    tracing::warn!(
        deployment = &*key.object,
        "the deployment controller was refused: {failure}"
    );
}
