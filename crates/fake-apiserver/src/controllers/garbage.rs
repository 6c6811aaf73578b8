//! The garbage collector: objects whose owners are gone, and owners that wait for their dependents.
//!
//! # Design
//! The log tells of every object, so what is kept is small: who depends on a uid, and where the object of a uid is. Everything
//! else is read from the store when an object is looked at. An object is looked at when it appears, when its owners or the
//! state of its deletion change, and when something happens to an owner or dependent that may decide about it; what is then
//! done follows from the newest state alone, so that looking once too often does nothing.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};

use super::queue::Queue;
use super::world::{Agent, Change, Failure, Key, World, delete_options};
use crate::kinds::Resource;
use crate::object::{Meta, OwnerReference, write_owner};
use crate::storage::Versioned;
use crate::stored::{Stored, key_of};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
const WHO: Agent = Agent::ControllerManager;

/// The state of the garbage collector.
#[derive(Debug, Default)]
pub(super) struct Garbage {
    nodes: HashMap<Key, Node>,
    /// Invariant: the uids of `nodes`, each with its key.
    by_uid: HashMap<String, Key>,
    /// Invariant: has an entry for a uid iff an owner reference of a node names it.
    owners: HashMap<String, Owner>,
    queue: Queue<Key>,
    /// What has an owner of a kind that is not served: looked at again when kinds change.
    unresolved: BTreeSet<Key>,
}

/// What is known of an object.
#[derive(Debug, PartialEq, Eq)]
struct Node {
    uid: String,
    owners: Vec<OwnerReference>,
    stage: Stage,
}

/// How far an object has got on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Alive,
    /// Its dependents are to lose it as an owner first.
    Orphaning,
    /// Its dependents are to go first.
    Foreground,
    /// It goes when others let it.
    Deleting,
}

impl Stage {
    fn of(meta: &Meta) -> Self {
        let has = |wanted: &str| meta.finalizers.iter().any(|finalizer| finalizer == wanted);
        if meta.deletion_timestamp.is_none() {
            Self::Alive
        } else if has(ORPHAN) {
            Self::Orphaning
        } else if has(FOREGROUND) {
            Self::Foreground
        } else {
            Self::Deleting
        }
    }
}

impl Node {
    fn of(meta: &Meta) -> Self {
        Self {
            uid: meta.uid.clone(),
            owners: meta.owner_references.clone(),
            stage: Stage::of(meta),
        }
    }

    /// Whether the owner of this uid has to wait for the object.
    fn blocks(&self, uid: &str) -> bool {
        let blocking = |owner: &OwnerReference| owner.uid == uid && owner.block_owner_deletion == Some(true);
        self.owners.iter().any(blocking)
    }
}

/// Who depends on a uid.
#[derive(Debug, Default)]
struct Owner {
    /// The object was there and is not any more. Its kind may have gone with it.
    is_gone: bool,
    /// Invariant: not empty.
    dependents: BTreeSet<Key>,
}

/// The owner references of an object by what has become of the owners.
#[derive(Debug, Default)]
struct Classes {
    /// There is one that stays.
    has_solid: bool,
    /// Some owner waits for its dependents to go.
    has_waiting: bool,
    /// The uids of owners that do not exist.
    dangling: Vec<String>,
    /// The uids of owners that wait.
    waiting: Vec<String>,
}

/// Why the owners of an object cannot be judged.
#[derive(Debug)]
enum Unclear {
    /// Their kind is not served.
    UnknownKind,
    /// A cluster-scoped object names an owner that lives in some namespace.
    NoNamespace,
}

impl Garbage {
    /// Takes note of a change.
    pub(super) fn observe(&mut self, change: &Change) {
        // What is told of objects holds nothing up, and is not collected.
        if change.is_of("", "events") || change.is_of("events.k8s.io", "events") {
            return;
        }
        match &change.cur {
            Some(object) => self.put(&change.key, Node::of(&object.meta)),
            None => self.remove(&change.key),
        }
    }

    fn put(&mut self, key: &Key, node: Node) {
        if self.nodes.get(key).is_some_and(|old| old.uid != node.uid) {
            self.remove(key);
        }
        let old = self.nodes.get(key);
        if old == Some(&node) {
            return;
        }
        let old_owners = old.map(|old| old.owners.clone()).unwrap_or_default();
        let begins_foreground = node.stage == Stage::Foreground && old.is_none_or(|old| old.stage != node.stage);
        for owner in &old_owners {
            let is_named = node.owners.iter().any(|new| new.uid == owner.uid);
            if owner.block_owner_deletion == Some(true) && !node.blocks(&owner.uid) {
                self.look_at_uid(&owner.uid);
            }
            if !is_named {
                self.forget_dependent(&owner.uid, key);
            }
        }
        for owner in &node.owners {
            let entry = self.owners.entry(owner.uid.clone()).or_default();
            entry.dependents.insert(key.clone());
        }
        self.by_uid.insert(node.uid.clone(), key.clone());
        if begins_foreground {
            self.look_at_dependents(&node.uid);
        }
        if !node.owners.is_empty() || matches!(node.stage, Stage::Foreground | Stage::Orphaning) {
            self.queue.push(key.clone());
        }
        self.nodes.insert(key.clone(), node);
    }

    fn remove(&mut self, key: &Key) {
        self.unresolved.remove(key);
        let Some(node) = self.nodes.remove(key) else { return };
        self.by_uid.remove(&node.uid);
        for owner in &node.owners {
            self.forget_dependent(&owner.uid, key);
            self.look_at_uid(&owner.uid);
        }
        if let Some(owner) = self.owners.get_mut(&node.uid) {
            owner.is_gone = true;
        }
        self.look_at_dependents(&node.uid);
    }

    fn forget_dependent(&mut self, uid: &str, dependent: &Key) {
        if let Some(owner) = self.owners.get_mut(uid) {
            owner.dependents.remove(dependent);
            if owner.dependents.is_empty() {
                self.owners.remove(uid);
            }
        }
    }

    fn look_at_uid(&mut self, uid: &str) {
        if let Some(key) = self.by_uid.get(uid) {
            self.queue.push(key.clone());
        }
    }

    fn look_at_dependents(&mut self, uid: &str) {
        for dependent in self.dependents(uid) {
            self.queue.push(dependent);
        }
    }

    fn dependents(&self, uid: &str) -> Vec<Key> {
        let owner = self.owners.get(uid);
        owner.map_or_else(Vec::new, |owner| owner.dependents.iter().cloned().collect())
    }

    /// There may be kinds that were not there before.
    pub(super) fn kinds_changed(&mut self) {
        for key in std::mem::take(&mut self.unresolved) {
            self.queue.push(key);
        }
    }

    /// Looks at one object; false if there is none to look at.
    pub(super) async fn work(&mut self, world: &World<'_>) -> bool {
        let Some(key) = self.queue.pop() else { return false };
        match self.look(world, &key).await {
            Ok(()) => {}
            // Somebody else was faster: it is looked at as it is now.
            Err(failure) if failure.is_conflict() => self.queue.push(key),
            // Gone meanwhile, which the log tells.
            Err(failure) if failure.is_not_found() => {}
            Err(failure) => tracing::warn!(object = %key.object, "the garbage collector was refused: {failure}"),
        }
        true
    }

    async fn look(&mut self, world: &World<'_>, key: &Key) -> Result<(), Failure> {
        let (Some(resource), Some(version)) = (world.resource(key), world.latest(key)) else {
            return Ok(());
        };
        let meta = version.object.object().meta;
        match Stage::of(&meta) {
            Stage::Orphaning => {
                for dependent in self.dependents(&meta.uid) {
                    match let_go(world, &dependent, std::slice::from_ref(&meta.uid)).await {
                        Err(failure) if failure.is_not_found() => {}
                        result => result?,
                    }
                }
                remove_finalizer(world, resource, key, &version, &meta, ORPHAN).await
            }
            Stage::Foreground => {
                let dependents = self.dependents(&meta.uid).into_iter();
                let blocking: Vec<Key> = dependents
                    .filter(|dependent| self.nodes.get(dependent).is_some_and(|node| node.blocks(&meta.uid)))
                    .collect();
                if blocking.is_empty() {
                    return remove_finalizer(world, resource, key, &version, &meta, FOREGROUND).await;
                }
                for dependent in blocking {
                    if self.stage(&dependent) != Some(Stage::Foreground) {
                        self.queue.push(dependent);
                    }
                }
                Ok(())
            }
            Stage::Deleting => Ok(()),
            Stage::Alive if meta.owner_references.is_empty() => Ok(()),
            Stage::Alive => match self.classify(world, key, &meta) {
                Ok(classes) => self.decide(world, resource, key, &version, &meta, classes).await,
                Err(Unclear::UnknownKind) => {
                    self.unresolved.insert(key.clone());
                    Ok(())
                }
                Err(Unclear::NoNamespace) => Ok(()),
            },
        }
    }

    fn stage(&self, key: &Key) -> Option<Stage> {
        self.nodes.get(key).map(|node| node.stage)
    }

    fn classify(&self, world: &World<'_>, key: &Key, meta: &Meta) -> Result<Classes, Unclear> {
        let mut classes = Classes::default();
        for owner in &meta.owner_references {
            if self.owners.get(&owner.uid).is_some_and(|known| known.is_gone) {
                classes.dangling.push(owner.uid.clone());
                continue;
            }
            let found = world.resource_of_kind(&owner.api_version, &owner.kind);
            let (resource, id) = found.ok_or(Unclear::UnknownKind)?;
            if resource.namespaced() && key.namespace().is_empty() {
                return Err(Unclear::NoNamespace);
            }
            // An owner is looked for in the namespace of the object: one in another is none.
            let namespace = Some(key.namespace()).filter(|_| resource.namespaced());
            let found = world.server.storage.get(id, &key_of(namespace, &owner.name));
            let found = found.map(|version| version.object.object().meta);
            match found.filter(|found| found.uid == owner.uid) {
                None => classes.dangling.push(owner.uid.clone()),
                Some(found) if is_waiting(&found) => {
                    classes.has_waiting = true;
                    classes.waiting.push(owner.uid.clone());
                }
                Some(_) => classes.has_solid = true,
            }
        }
        Ok(classes)
    }

    /// What becomes of an object that is not being deleted and has owners.
    async fn decide(
        &self,
        world: &World<'_>,
        resource: &Resource,
        key: &Key,
        version: &Versioned<Stored>,
        meta: &Meta,
        classes: Classes,
    ) -> Result<(), Failure> {
        if classes.has_solid {
            let mut lost = classes.dangling;
            lost.extend(classes.waiting);
            if !lost.is_empty() {
                let_go(world, key, &lost).await?;
            }
            return Ok(());
        }
        let dependents = self.dependents(&meta.uid);
        let mut preconditions = json!({"uid": meta.uid, "resourceVersion": version.rv.to_string()});
        let policy = if classes.has_waiting && !dependents.is_empty() {
            // Two objects that wait for each other would wait for ever.
            let is_circle = |dependent: &Key| self.stage(dependent) == Some(Stage::Foreground);
            if dependents.iter().any(is_circle) && meta.owner_references.iter().any(blocks) {
                unblock(world, resource, key, version, meta).await?;
                // The version that was read is not the newest any more; the uid is enough.
                preconditions = json!({"uid": meta.uid});
            }
            "Foreground"
        } else {
            let has = |wanted: &str| meta.finalizers.iter().any(|finalizer| finalizer == wanted);
            match (has(ORPHAN), has(FOREGROUND)) {
                (true, _) => "Orphan",
                (false, true) => "Foreground",
                (false, false) => "Background",
            }
        };
        let options = delete_options(json!({"preconditions": preconditions, "propagationPolicy": policy}));
        world.delete(WHO, resource, key, &options).await.map(drop)
    }
}

fn blocks(owner: &OwnerReference) -> bool {
    owner.block_owner_deletion == Some(true)
}

/// Whether an owner is only there until its dependents are gone.
fn is_waiting(owner: &Meta) -> bool {
    owner.deletion_timestamp.is_some() && owner.finalizers.iter().any(|finalizer| finalizer == FOREGROUND)
}

/// Takes owners from an object.
async fn let_go(world: &World<'_>, key: &Key, uids: &[String]) -> Result<(), Failure> {
    let (Some(resource), Some(version)) = (world.resource(key), world.latest(key)) else {
        return Ok(());
    };
    let meta = version.object.object().meta;
    let owners = meta.owner_references.iter();
    let kept: Vec<&OwnerReference> = owners.filter(|owner| !uids.contains(&owner.uid)).collect();
    if kept.len() == meta.owner_references.len() {
        return Ok(());
    }
    let kept = kept.into_iter().map(written).collect();
    world.set_owners(WHO, resource, key, &version, &kept).await.map(drop)
}

/// Lets the owners of an object go before it.
async fn unblock(
    world: &World<'_>,
    resource: &Resource,
    key: &Key,
    version: &Versioned<Stored>,
    meta: &Meta,
) -> Result<(), Failure> {
    let owners = meta.owner_references.iter().map(|owner| {
        written(&OwnerReference {
            block_owner_deletion: Some(false),
            ..owner.clone()
        })
    });
    world
        .set_owners(WHO, resource, key, version, &owners.collect())
        .await
        .map(drop)
}

async fn remove_finalizer(
    world: &World<'_>,
    resource: &Resource,
    key: &Key,
    version: &Versioned<Stored>,
    meta: &Meta,
    finalizer: &str,
) -> Result<(), Failure> {
    let kept: Vec<&String> = meta.finalizers.iter().filter(|name| *name != finalizer).collect();
    let patch = json!({"metadata": {"resourceVersion": version.rv.to_string(), "finalizers": kept}});
    world.merge(WHO, resource, key, None, &patch).await.map(drop)
}

/// An owner reference as JSON.
fn written(owner: &OwnerReference) -> Value {
    let mut out = Vec::new();
    write_owner(owner, &mut out);
    serde_json::from_slice(&out).unwrap_or(Value::Null)
}
