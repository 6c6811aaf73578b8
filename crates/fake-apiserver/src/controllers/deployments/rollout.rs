//! What is done with one deployment.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::WHO;
use super::conditions::{
    self, AVAILABLE, NEW_AVAILABLE, PAUSED, PROGRESSING, REPLICA_FAILURE, TIMED_OUT, condition, deadline, ends,
    is_complete, is_progress,
};
use super::sets::{self, REVISION, Set};
use super::sizes::{of_newest, proportion, replicas, surge, unavailable};
use crate::controllers::owned::{claim, controller, number};
use crate::controllers::world::{Failure, Key, World, text};
use crate::kinds::Resource;
use crate::object::Object;
use crate::storage::ResourceId;

/// A deployment with its replica sets.
struct Rollout<'a> {
    world: &'a World<'a>,
    resource: &'a Arc<Resource>,
    of_sets: (&'a Arc<Resource>, ResourceId),
    deployment: Value,
    /// Oldest first.
    sets: Vec<Set>,
}

/// Whether a replica set that is missing is made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Made,
    Left,
}

/// Brings a deployment one step nearer to what it wants; when to look at it again, if only time has to pass.
pub(super) async fn sync(world: &World<'_>, key: &Key) -> Result<Option<Timestamp>, Failure> {
    let (Some(deployment), Some(resource), Some(of_sets)) = (
        world.show(key),
        world.resource(key),
        world.built_in("apps", "replicasets"),
    ) else {
        return Ok(None);
    };
    let any = |_: &Object| true;
    let mut sets: Vec<Set> = claim(world, &deployment, of_sets, any)
        .await?
        .into_iter()
        .map(Set)
        .collect();
    sets.sort_by_key(Set::age);
    let mut rollout = Rollout {
        world,
        resource,
        of_sets,
        deployment,
        sets,
    };
    rollout.run().await?;
    let deployment = &rollout.deployment;
    let next = ends(deployment, &deployment["status"]).filter(|_| !is_complete(deployment, &deployment["status"]));
    // A second more, as times are of whole seconds. Of one that is paused the time may be over without that it ends.
    let next = next.and_then(|next| next.checked_add(jiff::SignedDuration::from_secs(1)).ok());
    Ok(next.filter(|next| *next > world.server.clock.now()))
}

impl Rollout<'_> {
    async fn run(&mut self) -> Result<(), Failure> {
        if self.deployment["metadata"]["deletionTimestamp"].is_string() {
            let newest = self.newest(Missing::Left).await?;
            return self.update_status(newest, Self::status).await;
        }
        self.tell_paused().await?;
        if self.deployment["spec"]["paused"] == true {
            return self.resize().await;
        }
        let _ = self.newest(Missing::Left).await?;
        let wanted = replicas(&self.deployment);
        let is_resized = |set: &Set| set.replicas() > 0 && set.desired().is_some_and(|desired| desired != wanted);
        if self.sets.iter().any(is_resized) {
            return self.resize().await;
        }
        match text(&self.deployment, "/spec/strategy/type") {
            "Recreate" => self.recreate().await,
            _ => self.roll().await,
        }
    }

    /// Step by step from the old replica sets to the newest.
    async fn roll(&mut self) -> Result<(), Failure> {
        let newest = self.newest(Missing::Made).await?;
        let grown = match newest {
            Some(at) => self.grow(at).await?,
            None => false,
        };
        if !grown && !self.shrink_old(newest).await? && is_complete(&self.deployment, &self.deployment["status"]) {
            self.clean_up(newest).await?;
        }
        self.update_status(newest, Self::status_of_rollout).await
    }

    /// The old pods go before the new ones come.
    async fn recreate(&mut self) -> Result<(), Failure> {
        let mut newest = self.newest(Missing::Left).await?;
        let mut shrunk = false;
        for at in self.old(newest) {
            shrunk |= self.scale(at, 0).await?;
        }
        if !shrunk && !self.has_old_pods(newest) {
            if newest.is_none() {
                newest = self.newest(Missing::Made).await?;
            }
            if let Some(at) = newest {
                self.scale(at, replicas(&self.deployment)).await?;
            }
            if is_complete(&self.deployment, &self.deployment["status"]) {
                self.clean_up(newest).await?;
            }
        }
        self.update_status(newest, Self::status_of_rollout).await
    }

    /// Another number of pods is wanted, or nothing else may happen.
    async fn resize(&mut self) -> Result<(), Failure> {
        let newest = self.newest(Missing::Left).await?;
        self.spread(newest).await?;
        if self.deployment["spec"]["paused"] == true {
            self.clean_up(newest).await?;
        }
        self.update_status(newest, Self::status).await
    }

    /// The places of all but the newest replica set, oldest first.
    fn old(&self, newest: Option<usize>) -> Vec<usize> {
        (0..self.sets.len()).filter(|at| Some(*at) != newest).collect()
    }

    fn total(&self) -> i64 {
        self.sets.iter().map(Set::replicas).sum()
    }

    fn sum(&self, field: &str) -> i64 {
        self.sets.iter().map(|set| set.count(field)).sum()
    }

    /// The place of the replica set of the template, which is told about the deployment, or made.
    async fn newest(&mut self, missing: Missing) -> Result<Option<usize>, Failure> {
        let found = self.sets.iter().position(|set| set.is_of(&self.deployment));
        let old = self.old(found).into_iter().map(|at| self.sets[at].revision());
        let revision = old.max().unwrap_or_default() + 1;
        match found {
            Some(at) => self.tell_newest(at, revision).await.map(|()| Some(at)),
            None if missing == Missing::Made => self.make_newest(revision).await,
            None => Ok(None),
        }
    }

    async fn tell_newest(&mut self, at: usize, revision: i64) -> Result<(), Failure> {
        let mut set = self.sets[at].clone();
        let mut changed = set.annotate_revision(&self.deployment, revision);
        let seconds = number(&self.deployment, "/spec/minReadySeconds");
        if number(&set.0, "/spec/minReadySeconds") != seconds {
            set.0["spec"]["minReadySeconds"] = seconds.into();
            changed = true;
        }
        if changed {
            self.sets[at] = Set(self.world.update(WHO, self.of_sets.0, None, &set.0).await?);
        }
        let mut deployment = self.deployment.clone();
        let told = set_revision(&mut deployment, &self.sets[at].revision_text());
        let is_unknown = conditions::find(&deployment["status"], PROGRESSING).is_none();
        if deadline(&deployment).is_some() && is_unknown {
            let message = format!("Found new replica set {:?}", self.sets[at].name());
            let found = condition(&self.world.now(), PROGRESSING, "True", "FoundNewReplicaSet", &message);
            conditions::set(&mut deployment["status"], found);
        } else if !told {
            return Ok(());
        }
        self.write(&deployment).await
    }

    async fn make_newest(&mut self, revision: i64) -> Result<Option<usize>, Failure> {
        let mut set = sets::new(&self.deployment);
        set.0["spec"]["replicas"] = of_newest(&self.deployment, self.total(), 0).into();
        set.annotate_revision(&self.deployment, revision);
        set.annotate_sizes(&self.deployment);
        let mut deployment = self.deployment.clone();
        let made = match self.world.create(WHO, self.of_sets.0, &set.0).await {
            Ok(made) => made,
            Err(failure) if failure.is_already_exists() => {
                // Another template has the same hash: the next one will differ.
                let collisions = number(&deployment, "/status/collisionCount");
                deployment["status"]["collisionCount"] = (collisions + 1).into();
                self.write(&deployment).await?;
                return Ok(None);
            }
            Err(failure) if failure.is_forbidden() || failure.is_not_found() => return Err(failure),
            Err(failure) => {
                if deadline(&deployment).is_some() {
                    let message = format!(
                        "Failed to create new replica set {:?}: {}",
                        set.name(),
                        failure.message()
                    );
                    let failed = condition(
                        &self.world.now(),
                        PROGRESSING,
                        "False",
                        "ReplicaSetCreateError",
                        &message,
                    );
                    conditions::set(&mut deployment["status"], failed);
                    self.write(&deployment).await?;
                }
                return Err(failure);
            }
        };
        self.sets.push(Set(made));
        let told = set_revision(&mut deployment, &revision.to_string());
        if deadline(&deployment).is_some() {
            let message = format!("Created new replica set {:?}", set.name());
            let created = condition(&self.world.now(), PROGRESSING, "True", "NewReplicaSetCreated", &message);
            conditions::set(&mut deployment["status"], created);
            self.write(&deployment).await?;
        } else if told {
            self.write(&deployment).await?;
        }
        Ok(Some(self.sets.len() - 1))
    }

    /// Writes the status of the deployment, and the annotations with it.
    async fn write(&mut self, deployment: &Value) -> Result<(), Failure> {
        self.deployment = self
            .world
            .update(WHO, self.resource, Some("status"), deployment)
            .await?;
        Ok(())
    }

    /// Tells when a deployment is paused or resumed, so that the time between does not count.
    async fn tell_paused(&mut self) -> Result<(), Failure> {
        if deadline(&self.deployment).is_none() {
            return Ok(());
        }
        let found = conditions::find(&self.deployment["status"], PROGRESSING);
        let reason = found.map_or("", |found| text(found, "/reason"));
        let is_paused = self.deployment["spec"]["paused"] == true;
        if reason == TIMED_OUT || is_paused == (reason == PAUSED) {
            return Ok(());
        }
        let (reason, message) = if is_paused {
            (PAUSED, "Deployment is paused")
        } else {
            ("DeploymentResumed", "Deployment is resumed")
        };
        let mut deployment = self.deployment.clone();
        let told = condition(&self.world.now(), PROGRESSING, "Unknown", reason, message);
        conditions::set(&mut deployment["status"], told);
        self.write(&deployment).await
    }

    /// Gives a replica set a size; true if it had another one.
    async fn scale(&mut self, at: usize, size: i64) -> Result<bool, Failure> {
        if self.sets[at].replicas() == size {
            return Ok(false);
        }
        self.force_scale(at, size).await
    }

    /// As [`scale`](Self::scale), and notes the size of the deployment even where the size stays.
    async fn force_scale(&mut self, at: usize, size: i64) -> Result<bool, Failure> {
        let mut set = self.sets[at].clone();
        let is_resized = set.replicas() != size;
        set.0["spec"]["replicas"] = size.into();
        if set.annotate_sizes(&self.deployment) || is_resized {
            self.sets[at] = Set(self.world.update(WHO, self.of_sets.0, None, &set.0).await?);
        }
        Ok(is_resized)
    }

    /// Lets the newest replica set have as many pods as it may now.
    async fn grow(&mut self, newest: usize) -> Result<bool, Failure> {
        let wanted = replicas(&self.deployment);
        let size = self.sets[newest].replicas();
        let new = if size > wanted {
            wanted
        } else {
            of_newest(&self.deployment, self.total(), size)
        };
        self.scale(newest, new).await
    }

    /// Takes pods from the old replica sets, as many as may go now: first those that are of no use.
    async fn shrink_old(&mut self, newest: Option<usize>) -> Result<bool, Failure> {
        let old = self.old(newest);
        let total_old: i64 = old.iter().map(|at| self.sets[*at].replicas()).sum();
        let least = replicas(&self.deployment) - unavailable(&self.deployment);
        let not_ready = newest.map_or(0, |at| {
            self.sets[at].replicas() - self.sets[at].count("availableReplicas")
        });
        let mut may_go = self.total() - least - not_ready;
        if total_old == 0 || may_go <= 0 {
            return Ok(false);
        }
        let mut shrunk = false;
        for at in &old {
            let size = self.sets[*at].replicas();
            let useless = (size - self.sets[*at].count("availableReplicas")).clamp(0, may_go);
            if useless > 0 {
                shrunk |= self.scale(*at, size - useless).await?;
                may_go -= useless;
            }
        }
        let mut may_go = self.sum("availableReplicas") - least;
        for at in &old {
            let size = self.sets[*at].replicas();
            let going = size.min(may_go);
            if going > 0 {
                shrunk |= self.scale(*at, size - going).await?;
                may_go -= going;
            }
        }
        Ok(shrunk)
    }

    /// Brings the replica sets to another size of the deployment, each by its share.
    async fn spread(&mut self, newest: Option<usize>) -> Result<(), Failure> {
        let wanted = replicas(&self.deployment);
        let mut active: Vec<usize> = (0..self.sets.len())
            .filter(|at| self.sets[*at].replicas() > 0)
            .collect();
        let only = match active.as_slice() {
            [] => newest.or(self.sets.len().checked_sub(1)),
            [one] => Some(*one),
            _ => None,
        };
        if let Some(at) = only {
            return self.scale(at, wanted).await.map(drop);
        }
        if active.is_empty() {
            return Ok(());
        }
        if newest.is_some_and(|at| self.is_saturated(at)) {
            for at in self.old(newest) {
                self.scale(at, 0).await?;
            }
            return Ok(());
        }
        if text(&self.deployment, "/spec/strategy/type") != "RollingUpdate" {
            return Ok(());
        }
        let allowed = if wanted > 0 {
            wanted + surge(&self.deployment)
        } else {
            0
        };
        let to_add = allowed - self.total();
        // The largest first; of those of one size the newest when pods come, the oldest when they go.
        active.sort_by_key(|at| (-self.sets[*at].replicas(), self.sets[*at].age()));
        if to_add > 0 {
            active.sort_by(|a, b| {
                let size = |at: &usize| self.sets[*at].replicas();
                size(b)
                    .cmp(&size(a))
                    .then_with(|| self.sets[*b].age().cmp(&self.sets[*a].age()))
            });
        }
        let mut added = 0;
        let mut sizes = Vec::with_capacity(active.len());
        for at in &active {
            let share = proportion(&self.deployment, &self.sets[*at], to_add, added);
            sizes.push(self.sets[*at].replicas() + share);
            added += share;
        }
        if let Some(first) = sizes.first_mut() {
            *first = (*first + to_add - added).max(0);
        }
        for (at, size) in active.into_iter().zip(sizes) {
            self.force_scale(at, size).await?;
        }
        Ok(())
    }

    /// Whether a replica set has all the pods of the deployment.
    fn is_saturated(&self, at: usize) -> bool {
        let wanted = replicas(&self.deployment);
        let set = &self.sets[at];
        set.replicas() == wanted && set.desired() == Some(wanted) && set.count("availableReplicas") == wanted
    }

    /// Whether a pod of an old replica set is left, also one that is on its way out.
    fn has_old_pods(&self, newest: Option<usize>) -> bool {
        let old = self.old(newest);
        if old.iter().any(|at| self.sets[*at].count("replicas") > 0) {
            return true;
        }
        let Some((_, id)) = self.world.built_in("", "pods") else {
            return false;
        };
        let pods = self.world.stored_in(id, text(&self.deployment, "/metadata/namespace"));
        pods.iter().any(|(_, version)| {
            let pod = version.object.object();
            let status: Value = pod
                .field("status")
                .and_then(|status| serde_json::from_slice(status).ok())
                .unwrap_or_default();
            let of_old = |uid: &str| old.iter().any(|at| self.sets[*at].uid() == uid);
            !matches!(text(&status, "/phase"), "Succeeded" | "Failed")
                && controller(&pod.meta).is_some_and(|owner| of_old(&owner.uid))
        })
    }

    /// Forgets old replica sets beyond those that are to be remembered.
    async fn clean_up(&mut self, newest: Option<usize>) -> Result<(), Failure> {
        let Some(limit) = self.deployment["spec"]["revisionHistoryLimit"].as_i64() else {
            return Ok(());
        };
        let mut old = self.old(newest);
        old.retain(|at| self.sets[*at].0["metadata"].get("deletionTimestamp").is_none());
        let too_many = usize::try_from(i64::try_from(old.len()).unwrap_or(i64::MAX) - limit).unwrap_or_default();
        old.sort_by_key(|at| (self.sets[*at].revision(), self.sets[*at].age()));
        for at in old.into_iter().take(too_many) {
            let set = &self.sets[at];
            let is_seen = number(&set.0, "/metadata/generation") <= set.count("observedGeneration");
            if set.count("replicas") != 0 || set.replicas() != 0 || !is_seen {
                continue;
            }
            let key = Key {
                resource: self.of_sets.1,
                object: format!("{}/{}", text(&set.0, "/metadata/namespace"), set.name()).into(),
            };
            match self.world.delete(WHO, self.of_sets.0, &key, &json!({})).await {
                Err(failure) if !failure.is_not_found() => return Err(failure),
                _ => {}
            }
        }
        Ok(())
    }

    async fn update_status(
        &mut self,
        newest: Option<usize>,
        status: impl Fn(&Self, Option<usize>) -> Value,
    ) -> Result<(), Failure> {
        let status = status(self, newest);
        let mut deployment = self.deployment.clone();
        deployment["status"] = status;
        // One that says nothing new is no write, and wakes nobody.
        self.write(&deployment).await
    }

    /// What there is of a deployment.
    fn status(&self, newest: Option<usize>) -> Value {
        let deployment = &self.deployment;
        let available = self.sum("availableReplicas");
        let mut status = json!({
            "observedGeneration": deployment["metadata"]["generation"],
            "replicas": self.sum("replicas"),
            "updatedReplicas": newest.map_or(0, |at| self.sets[at].count("replicas")),
            "readyReplicas": self.sum("readyReplicas"),
            "availableReplicas": available,
            "unavailableReplicas": (self.total() - available).max(0),
            "terminatingReplicas": self.sum("terminatingReplicas"),
            "conditions": deployment["status"]["conditions"].as_array().cloned().unwrap_or_default(),
        });
        if let Some(collisions) = deployment["status"].get("collisionCount") {
            status["collisionCount"] = collisions.clone();
        }
        let told = if available >= replicas(deployment) - unavailable(deployment) {
            (
                "True",
                "MinimumReplicasAvailable",
                "Deployment has minimum availability.",
            )
        } else {
            (
                "False",
                "MinimumReplicasUnavailable",
                "Deployment does not have minimum availability.",
            )
        };
        let told = condition(&self.world.now(), AVAILABLE, told.0, told.1, told.2);
        conditions::set(&mut status, told);
        status
    }

    /// The same, with how far the rollout has got.
    fn status_of_rollout(&self, newest: Option<usize>) -> Value {
        let deployment = &self.deployment;
        let mut status = self.status(newest);
        let who = newest.map_or_else(
            || format!("Deployment {:?}", text(deployment, "/metadata/name")),
            |at| format!("ReplicaSet {:?}", self.sets[at].name()),
        );
        let now = self.world.now();
        let current = conditions::find(&deployment["status"], PROGRESSING);
        let was_complete = status["replicas"] == status["updatedReplicas"]
            && current.is_some_and(|current| text(current, "/reason") == NEW_AVAILABLE);
        if deadline(deployment).is_none() {
            conditions::remove(&mut status, PROGRESSING);
        } else if was_complete {
            // Pods that come and go later are no rollout.
        } else if is_complete(deployment, &status) {
            let message = format!("{who} has successfully progressed.");
            conditions::set(
                &mut status,
                condition(&now, PROGRESSING, "True", NEW_AVAILABLE, &message),
            );
        } else if is_progress(&deployment["status"], &status) {
            let message = format!("{who} is progressing.");
            let mut told = condition(&now, PROGRESSING, "True", "ReplicaSetUpdated", &message);
            if let Some(current) = current {
                if current["status"] == "True" {
                    told["lastTransitionTime"] = current["lastTransitionTime"].clone();
                }
                // Each progress counts, also one with the same reason.
                conditions::remove(&mut status, PROGRESSING);
            }
            conditions::set(&mut status, told);
        } else if ends(deployment, &status).is_some_and(|end| end < self.world.server.clock.now()) {
            let message = format!("{who} has timed out progressing.");
            conditions::set(&mut status, condition(&now, PROGRESSING, "False", TIMED_OUT, &message));
        }
        match self.failure(newest) {
            Some(failure) => conditions::set(&mut status, failure),
            None => conditions::remove(&mut status, REPLICA_FAILURE),
        }
        status
    }

    /// Why pods cannot be made, of the newest replica set first.
    fn failure(&self, newest: Option<usize>) -> Option<Value> {
        let order = newest.into_iter().chain(self.old(newest));
        let mut failures = order.filter_map(|at| conditions::find(&self.sets[at].0["status"], REPLICA_FAILURE));
        let mut failure = failures.next()?.clone();
        failure["lastUpdateTime"] = failure["lastTransitionTime"].clone();
        Some(failure)
    }
}

/// Notes the revision of a deployment; true if it had another one.
fn set_revision(deployment: &mut Value, revision: &str) -> bool {
    let annotations = &mut deployment["metadata"]["annotations"];
    if annotations[REVISION] == revision {
        return false;
    }
    annotations[REVISION] = revision.into();
    true
}
