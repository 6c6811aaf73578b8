//! From a child to its owner: the keys that owner references name.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ApiResource;
use kube_client::{Event, EventHandler, Handled, Object, ObjectKey, Scope};

use super::queued::{LOW_PRIORITY, add_each, priority};
use crate::queue::{AddOptions, Queue};

/// Adds to `queue` the keys of the owners of kind `P` of every object that is added, changed or deleted: how a controller of
/// deployments hears of their replica sets.
///
/// # Guarantees
///
/// - An owner matches by group and kind, in any version.
/// - Its key has the owner's name and the object's namespace; no namespace if `P` is cluster-scoped.
/// - For an update, the owners of the old and of the new state, each once.
/// - A malformed reference is logged and skipped; the others count. So is one from an object without a namespace to a kind that
///   lives in namespaces: nobody could say which of them is meant.
pub fn enqueue_for_parent<P: Object<DynamicType: Default>>(queue: &Queue<ObjectKey>) -> ParentHandler {
    let dynamic_type = P::DynamicType::default();
    enqueue_for_parent_kind(queue, &P::api_resource(&dynamic_type), P::scope(&dynamic_type))
}

/// As [`enqueue_for_parent`], for a parent kind that is known at run time only. Of [`Scope::Unknown`], a key has the object's
/// namespace, if that has one.
pub fn enqueue_for_parent_kind(queue: &Queue<ObjectKey>, parent: &ApiResource, scope: Scope) -> ParentHandler {
    ParentHandler {
        queue: queue.clone(),
        group: parent.group.clone(),
        kind: parent.kind.clone(),
        scope,
        controller_only: false,
    }
}

/// See [`enqueue_for_parent`].
pub struct ParentHandler {
    queue: Queue<ObjectKey>,
    group: String,
    kind: String,
    scope: Scope,
    controller_only: bool,
}

impl ParentHandler {
    /// Only the owner that is the managing controller (`controller: true`), of which an object has at most one.
    #[must_use]
    pub fn controller_only(mut self) -> Self {
        self.controller_only = true;
        self
    }

    /// In the form that [`Informer::add_handler`](crate::Informer::add_handler) takes.
    pub fn boxed<K: Object>(self) -> Box<dyn EventHandler<K>> {
        Box::new(self)
    }

    /// Adds the keys of one object's owners.
    fn collect<K: Object>(&self, object: &K, keys: &mut Vec<ObjectKey>) {
        let metadata = object.metadata();
        for owner in metadata.owners {
            let skip = |problem: &str| {
                let child = metadata.key();
                tracing::warn!(%child, ?owner, problem, "skipping a malformed owner reference");
            };
            if let Err(problem) = well_formed(owner) {
                skip(problem);
                continue;
            }
            let controls = owner.controller == Some(true);
            if group(&owner.api_version) != self.group || owner.kind != self.kind || (self.controller_only && !controls)
            {
                continue;
            }
            let namespace = metadata.namespace.filter(|namespace| !namespace.is_empty());
            let key = match (self.scope, namespace) {
                (Scope::Cluster, _) => ObjectKey::cluster(&owner.name),
                (Scope::Namespaced, None) => {
                    skip("the owner lives in a namespace and the object does not");
                    continue;
                }
                (Scope::Namespaced | Scope::Unknown, namespace) => ObjectKey::new(namespace, &owner.name),
            };
            keys.push(key);
        }
    }
}

/// The group of `group/version`; the core group, which is empty, has only a version.
pub(crate) fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _version)| group)
}

fn well_formed(owner: &OwnerReference) -> Result<(), &'static str> {
    let parts: Vec<&str> = owner.api_version.split('/').collect();
    if parts.len() > 2 || parts.iter().any(|part| part.is_empty()) {
        return Err("apiVersion is not `version` or `group/version`");
    }
    if owner.kind.is_empty() {
        return Err("kind is empty");
    }
    if owner.name.is_empty() {
        return Err("name is empty");
    }
    Ok(())
}

impl<K: Object> EventHandler<K> for ParentHandler {
    fn handle<'a>(&'a mut self, events: &'a [Event<K>]) -> Handled<'a> {
        for event in events {
            let mut keys = Vec::new();
            if let Event::Updated { old, .. } = event {
                self.collect(&**old, &mut keys);
            }
            self.collect(&**event.object(), &mut keys);
            add_each(&self.queue, &keys, AddOptions::priority(priority(event, LOW_PRIORITY)));
        }
        Handled::Done
    }

    fn batch_size(&self) -> usize {
        256
    }
}

impl fmt::Debug for ParentHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParentHandler")
            .field("queue", &self.queue)
            .field("parent", &self.kind)
            .finish_non_exhaustive()
    }
}
