//! The deployment controller: a replica set per template, and the way from one to the next.
//!
//! [`rollout`] is what is done with one deployment, over [`sets`] (its replica sets, and what is written in their annotations),
//! [`sizes`] (how many pods there may be) and [`conditions`].

mod conditions;
mod rollout;
mod sets;
mod sizes;

use jiff::Timestamp;

use super::owners::Owners;
use super::world::{Agent, Change, Failure, Key, World};

const WHO: Agent = Agent::ControllerManager;
const KIND: &str = "Deployment";

/// The state of the deployment controller: the time of a deployment is when it will have made no progress for too long.
#[derive(Debug, Default)]
pub(super) struct Deployments(Owners);

impl Deployments {
    /// Takes note of a change.
    pub(super) fn observe(&mut self, change: &Change) {
        if change.is_of("apps", "deployments") {
            self.0.observe(change);
        } else if change.is_of("apps", "replicasets") {
            self.0.observe_owned(change, KIND);
        } else if change.is_of("", "pods") && change.cur.is_none() {
            // One that makes no new pods before the old ones are gone waits for this.
            self.0.push_all(change.key.namespace());
        }
    }

    /// When there is something to do although nothing changes.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.0.due()
    }

    /// Works on one deployment; false if none waits.
    pub(super) async fn work(&mut self, world: &World<'_>) -> bool {
        let Some(key) = self.0.pop(world.server.clock.now()) else {
            return false;
        };
        match rollout::sync(world, &key).await {
            Ok(next) => self.0.set_time(&key, next),
            Err(failure) if failure.is_conflict() => self.0.push(key),
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
