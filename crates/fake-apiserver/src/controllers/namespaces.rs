//! The end of namespaces: what is in one goes when it is deleted, and then the namespace itself.
//!
//! Pods go first, and nothing else is touched while one is left. What remains, and on which finalizers it waits, is told by the
//! conditions of the namespace; it is looked at again whenever something in it goes or changes its finalizers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::queue::Queue;
use super::world::{Agent, Change, Failure, Key, World, delete_options, text};
use crate::kinds::{Resource, Verb};
use crate::object::{Meta, Object};
use crate::storage::ResourceId;

const WHO: Agent = Agent::ControllerManager;
/// The finalizer in the spec that stands for what is done here.
const FINALIZER: &str = "kubernetes";

/// The state of the namespace controller.
#[derive(Debug, Default)]
pub(super) struct Namespaces {
    /// The namespaces that are being deleted.
    terminating: BTreeSet<Arc<str>>,
    queue: Queue<Arc<str>>,
}

/// What is left of a namespace after everything was asked to go.
#[derive(Debug, Default)]
struct Remains {
    /// How many objects of a resource there are.
    objects: BTreeMap<String, usize>,
    /// On how many objects a finalizer is.
    finalizers: BTreeMap<String, usize>,
    /// What went wrong.
    errors: Vec<String>,
    /// Pods are left, so that nothing else was looked at.
    has_pods: bool,
}

impl Namespaces {
    /// Takes note of a change.
    pub(super) fn observe(&mut self, change: &Change) {
        if change.is_of("", "namespaces") {
            let name = &change.key.object;
            match &change.cur {
                Some(object) if object.meta.deletion_timestamp.is_some() => {
                    self.terminating.insert(Arc::clone(name));
                    self.queue.push(Arc::clone(name));
                }
                _ => {
                    self.terminating.remove(name);
                }
            }
            return;
        }
        let Some(namespace) = self.terminating.get(change.key.namespace()) else {
            return;
        };
        let holds = |object: &Option<Object>| object.as_ref().map(|object| object.meta.finalizers.clone());
        if change.cur.is_none() || holds(&change.prev) != holds(&change.cur) {
            self.queue.push(Arc::clone(namespace));
        }
    }

    /// Works on one namespace; false if none waits.
    pub(super) async fn work(&mut self, world: &World<'_>) -> bool {
        let Some(name) = self.queue.pop() else { return false };
        match finish(world, &name).await {
            Ok(()) => {}
            Err(failure) if failure.is_conflict() => self.queue.push(name),
            Err(failure) if failure.is_not_found() => {}
            Err(failure) => tracing::warn!(namespace = &*name, "the namespace controller was refused: {failure}"),
        }
        true
    }
}

/// Brings the deletion of a namespace as far as it goes.
async fn finish(world: &World<'_>, name: &Arc<str>) -> Result<(), Failure> {
    let Some((resource, id)) = world.built_in("", "namespaces") else {
        return Ok(());
    };
    let key = Key {
        resource: id,
        object: Arc::clone(name),
    };
    let Some(version) = world.latest(&key) else {
        return Ok(());
    };
    let meta = version.object.object().meta;
    let Some(mut namespace) = world.show(&key).filter(|_| meta.deletion_timestamp.is_some()) else {
        return Ok(());
    };
    let finalizers = |namespace: &Value| namespace["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
    if finalizers(&namespace).is_empty() {
        return Ok(());
    }
    let remains = delete_content(world, name, &meta).await;
    if update_conditions(world, &mut namespace, &remains) {
        namespace = world.update(WHO, resource, Some("status"), &namespace).await?;
    }
    if !remains.objects.is_empty() || !remains.errors.is_empty() {
        return Ok(());
    }
    let mut kept = finalizers(&namespace);
    kept.retain(|finalizer| finalizer != FINALIZER);
    namespace["spec"]["finalizers"] = kept.into();
    world
        .update(WHO, resource, Some("finalize"), &namespace)
        .await
        .map(drop)
}

async fn delete_content(world: &World<'_>, namespace: &str, meta: &Meta) -> Remains {
    let mut remains = Remains::default();
    let is_deletable = |resource: &Resource| resource.namespaced() && resource.verbs.contains(Verb::Delete);
    let is_pods = |resource: &Resource| resource.group.is_empty() && resource.plural == "pods";
    let mut content: Vec<_> = world
        .preferred()
        .iter()
        .filter(|(found, _)| is_deletable(found))
        .collect();
    content.sort_by_key(|(resource, _)| !is_pods(resource));
    for (resource, id) in content {
        if remains.has_pods {
            break;
        }
        let grace = if is_pods(resource) {
            pods_grace(world, namespace)
        } else {
            0
        };
        if let Err(failure) = delete_all(world, resource, *id, namespace).await {
            remains.errors.push(failure.message().to_owned());
            continue;
        }
        let left = world.stored_in(*id, namespace);
        if left.is_empty() {
            continue;
        }
        let mut held = false;
        for finalizer in left
            .iter()
            .flat_map(|(_, version)| version.object.object().meta.finalizers)
        {
            held = true;
            *remains.finalizers.entry(finalizer).or_default() += 1;
        }
        let ends = meta
            .deletion_timestamp
            .and_then(|began| began.checked_add(SignedDuration::from_secs(grace)).ok());
        if !held && ends.is_none_or(|ends| ends <= world.server.clock.now()) {
            remains.errors.push(format!(
                "unexpected items still remain in namespace: {namespace} for gvr: {}/{}, Resource={}",
                resource.group, resource.version, resource.plural
            ));
        }
        let shown = format!("{}.{}", resource.plural, resource.group);
        remains.objects.insert(shown, left.len());
        remains.has_pods = is_pods(resource);
    }
    remains
}

async fn delete_all(world: &World<'_>, resource: &Resource, id: ResourceId, namespace: &str) -> Result<(), Failure> {
    let objects = world.stored_in(id, namespace);
    let options = delete_options(json!({"propagationPolicy": "Background"}));
    if objects.is_empty() {
        return Ok(());
    }
    if resource.verbs.contains(Verb::DeleteCollection) {
        let deleted = world.delete_collection(WHO, resource, namespace, &options).await;
        return deleted.map(drop);
    }
    for (object, _) in objects {
        let key = Key { resource: id, object };
        match world.delete(WHO, resource, &key, &options).await {
            Err(failure) if failure.is_not_found() => {}
            result => drop(result?),
        }
    }
    Ok(())
}

/// The longest time that a pod of the namespace may take to end, in seconds.
fn pods_grace(world: &World<'_>, namespace: &str) -> i64 {
    let pods = world.list("", "pods", namespace);
    let running = pods
        .iter()
        .filter(|pod| !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed"));
    let grace = running.filter_map(|pod| pod["spec"]["terminationGracePeriodSeconds"].as_i64());
    grace.max().unwrap_or_default().max(0)
}

/// Tells in the conditions of the namespace what remains; true if they changed.
fn update_conditions(world: &World<'_>, namespace: &mut Value, remains: &Remains) -> bool {
    let list = |of: &BTreeMap<String, usize>, word: &str| {
        let mut texts: Vec<_> = of
            .iter()
            .map(|(what, count)| format!("{what} {word} {count} resource instances"))
            .collect();
        texts.sort();
        texts.join(", ")
    };
    let mut errors = remains.errors.clone();
    errors.sort();
    // What pods leave behind is not told: they have their own time to end.
    let told = !remains.has_pods;
    let conditions = [
        (
            "NamespaceDeletionDiscoveryFailure",
            None,
            ("ResourcesDiscovered", "All resources successfully discovered"),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            None,
            ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ),
        (
            "NamespaceDeletionContentFailure",
            (!errors.is_empty()).then(|| {
                let text = format!(
                    "Failed to delete all resource types, {} remaining: {}",
                    errors.len(),
                    errors.join(", ")
                );
                ("ContentDeletionFailed", text)
            }),
            (
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
        ),
        (
            "NamespaceContentRemaining",
            (told && !remains.objects.is_empty()).then(|| {
                let text = format!("Some resources are remaining: {}", list(&remains.objects, "has"));
                ("SomeResourcesRemain", text)
            }),
            ("ContentRemoved", "All content successfully removed"),
        ),
        (
            "NamespaceFinalizersRemaining",
            (told && !remains.finalizers.is_empty()).then(|| {
                let text = format!(
                    "Some content in the namespace has finalizers remaining: {}",
                    list(&remains.finalizers, "in")
                );
                ("SomeFinalizersRemain", text)
            }),
            ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
        ),
    ];
    let mut known = namespace["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let mut changed = false;
    for (kind, trouble, (ok_reason, ok_text)) in conditions {
        let (status, reason, message) = match trouble {
            Some((reason, message)) => ("True", reason, message),
            None => ("False", ok_reason, ok_text.to_owned()),
        };
        let mut new = json!({
            "type": kind, "status": status, "lastTransitionTime": world.now(), "reason": reason, "message": message,
        });
        match known.iter_mut().find(|condition| condition["type"] == kind) {
            None => known.push(new),
            Some(old) => {
                if old["status"] == status {
                    new["lastTransitionTime"] = old["lastTransitionTime"].clone();
                }
                if *old == new {
                    continue;
                }
                *old = new;
            }
        }
        changed = true;
    }
    namespace["status"]["conditions"] = known.into();
    changed
}
