//! What tests ask a server about itself: requests, watches, objects, revisions.

use std::convert::Infallible;

use serde_json::Value;

use super::{FakeApiServer, OpenWatch};
use crate::crd;
use crate::kinds::Resource;
use crate::negotiate::Representation;
use crate::request::Verb;
use crate::request_log::RequestRecord;
use crate::storage::{Change, Outcome, Range, ResourceId};
use crate::stored::{Stored, key_of, split_key};
use crate::view::View;

/// One write, as the log has it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HistoryEntry {
    /// The resourceVersion of the write.
    pub resource_version: u64,
    /// The namespace of the object; none if it is cluster-scoped.
    pub namespace: Option<String>,
    /// The name of the object.
    pub name: String,
    /// The object as the API shows it; none if the write removed it.
    pub object: Option<Value>,
}

/// An object as the API shows it. What the server writes is JSON.
fn shown(view: &View, stored: &Stored, rv: u64) -> Option<Value> {
    let mut out = Vec::new();
    view.write_object(stored, rv, &mut out);
    serde_json::from_slice(&out).ok()
}

impl FakeApiServer {
    /// The requests so far, oldest first; the builder says how many are kept.
    pub fn requests(&self) -> Vec<RequestRecord> {
        self.shared.log.records()
    }

    /// Forgets the requests so far, and their counts.
    pub fn clear_requests(&self) {
        self.shared.log.clear();
    }

    /// How many requests with this verb there were for a resource, given as `pods` or `deployments.apps`;
    /// an empty text stands for requests that name no resource. Exact even where the log has dropped records; only of names
    /// that nobody serves, those that come after some ten thousand others are not counted.
    pub fn request_count(&self, verb: Verb, resource: &str) -> u64 {
        self.shared.log.count(verb, resource)
    }

    /// Waits until there were at least `count` requests with this verb for a resource.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn wait_for_requests(&self, verb: Verb, resource: &str, count: u64) {
        let mut changed = self.shared.log.subscribe();
        // The sender lives as long as the server, which `self` keeps.
        let _ = changed.wait_for(|()| self.request_count(verb, resource) >= count).await;
    }

    /// How many watches of a resource are open: opened and neither ended nor dropped by the client.
    pub fn open_watches(&self, resource: &str) -> usize {
        self.shared.watches.count(resource)
    }

    /// How many watches are open in all.
    pub fn open_watches_total(&self) -> usize {
        self.shared.watches.total()
    }

    /// The watches that are open, oldest first, and how far each has got.
    pub fn watches(&self) -> Vec<OpenWatch> {
        self.shared.watches.all()
    }

    /// Waits until exactly `count` watches of a resource are open.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn wait_for_watches(&self, resource: &str, count: usize) {
        let mut changed = self.shared.watches.subscribe();
        let _ = changed.wait_for(|()| self.open_watches(resource) == count).await;
    }

    /// Waits until no watch is open.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn wait_for_no_watches(&self) {
        let mut changed = self.shared.watches.subscribe();
        let _ = changed.wait_for(|()| self.open_watches_total() == 0).await;
    }

    /// Ends the open watches of a resource cleanly, after they have delivered what has happened so far, as a restart
    /// of the server does. Unknown resources have none.
    pub fn close_watches(&self, resource: &str) {
        for found in self.resources() {
            if found.qualified_plural() == resource
                && let Some(id) = self.shared.resource_id(&found)
            {
                self.shared.storage.end_watches(id);
            }
        }
    }

    /// Ends all open watches cleanly, after they have delivered what has happened so far.
    pub fn close_all_watches(&self) {
        for found in self.resources() {
            if let Some(id) = self.shared.resource_id(&found) {
                self.shared.storage.end_watches(id);
            }
        }
    }

    /// The resourceVersion of the last write.
    pub fn resource_version(&self) -> u64 {
        self.shared.storage.current()
    }

    /// The oldest resourceVersion that can be read or watched from.
    pub fn oldest_resource_version(&self) -> u64 {
        self.shared.storage.oldest()
    }

    /// How many events the log holds.
    pub fn log_len(&self) -> usize {
        self.shared.storage.log_len()
    }

    /// Waits until the server has reached a resourceVersion.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn wait_for_resource_version(&self, resource_version: u64) {
        self.shared.storage.reached(resource_version).await;
    }

    /// Forgets all history before `resource_version`: reads at older ones and watches from them are then expired.
    /// Open watches go on unless they had not been read that far; those end.
    pub fn compact(&self, resource_version: u64) {
        self.shared.storage.compact(resource_version);
    }

    /// Goes back to the state at an older resourceVersion, as after a restore of the store from a backup: what was written
    /// later is gone, its resourceVersions will be given out again, and all watches end. False, and nothing happens, if that
    /// version is not remembered any more, or is yet to come.
    ///
    /// The kinds that are served stay as they are: do not go back beyond the creation of a custom resource definition.
    pub fn restore(&self, resource_version: u64) -> bool {
        let restored = self.shared.storage.restore(resource_version);
        if restored {
            if let Some((_, services)) = self.find("services") {
                let all = self.shared.storage.all(services, Range::All);
                self.shared.addresses.restored(all);
            }
            for replica in self.shared.replicas() {
                replica.restored(resource_version);
            }
        }
        restored
    }

    /// Lets the next write have a resourceVersion that is higher by `versions`, and forgets all history before now: what
    /// `etcdutl snapshot restore --bump-revision --mark-compacted` does after a [`restore`](Self::restore).
    pub fn skip_versions(&self, versions: u64) {
        self.shared.storage.skip(versions);
    }

    /// The writes to a resource after a resourceVersion, oldest first, as far as they are remembered.
    pub fn history(&self, resource: &str, after: u64) -> Vec<HistoryEntry> {
        let Some((found, id)) = self.find(resource) else {
            return Vec::new();
        };
        let view = self.form(&found);
        let entries = self.shared.storage.events_after(id, after);
        entries
            .iter()
            .map(|entry| {
                let (namespace, name) = split_key(&entry.key);
                HistoryEntry {
                    resource_version: entry.rv,
                    namespace: Some(namespace).filter(|text| !text.is_empty()).map(str::to_owned),
                    name: name.to_owned(),
                    object: entry.cur.as_ref().and_then(|stored| shown(&view, stored, entry.rv)),
                }
            })
            .collect()
    }

    /// Every object of a resource as the API shows it, ordered by key; one state.
    pub fn objects(&self, resource: &str) -> Vec<Value> {
        self.find(resource)
            .map_or_else(Vec::new, |(found, id)| self.all_of(&found, id))
    }

    fn all_of(&self, resource: &std::sync::Arc<Resource>, id: ResourceId) -> Vec<Value> {
        let all = self.shared.storage.all(id, Range::All);
        let view = self.form(resource);
        all.iter()
            .filter_map(|(_, item)| shown(&view, &item.object, item.rv))
            .collect()
    }

    pub(crate) fn find(&self, resource: &str) -> Option<(std::sync::Arc<Resource>, ResourceId)> {
        let all = self.resources();
        let found = all.into_iter().find(|found| found.qualified_plural() == resource)?;
        let id = self.shared.resource_id(&found)?;
        Some((found, id))
    }

    /// Forgets all history up to now.
    pub fn compact_now(&self) {
        self.compact(self.resource_version());
    }

    /// How many objects of a resource exist; 0 if there is no such resource.
    pub fn object_count(&self, resource: &str) -> usize {
        let found = self
            .resources()
            .into_iter()
            .find(|found| found.qualified_plural() == resource);
        let id = found.and_then(|found| self.shared.resource_id(&found));
        id.map_or(0, |id| self.shared.storage.count(id))
    }

    /// One object as the API shows it, in the preferred version; none if it does not exist.
    /// Cluster-scoped objects have no namespace. The request log does not see it.
    pub fn object(&self, resource: &str, namespace: Option<&str>, name: &str) -> Option<Value> {
        let found = self
            .resources()
            .into_iter()
            .find(|found| found.qualified_plural() == resource)?;
        let id = self.shared.resource_id(&found)?;
        let stored = self.shared.storage.get(id, &key_of(namespace, name))?;
        let mut out = Vec::new();
        self.form(&found).write_object(&stored.object, stored.rv, &mut out);
        serde_json::from_slice(&out).ok()
    }

    /// Removes an object without a request, at once, finalizers or not; watches see the delete. False if it does not exist.
    /// Cluster-scoped objects have no namespace. A definition that is removed so takes its kind along, but the objects of a
    /// namespace stay.
    pub fn remove(&self, resource: &str, namespace: Option<&str>, name: &str) -> bool {
        let Some((found, id)) = self.find(resource) else {
            return false;
        };
        let removed = self
            .shared
            .storage
            .update::<Infallible>(id, &key_of(namespace, name), |_| Ok(Change::Delete));
        crd::after_write(&self.shared, &found);
        matches!(removed, Ok(Outcome::Deleted { .. }))
    }

    /// Every object as the API shows it, in the preferred version of its group, ordered by resource and key.
    /// Not one snapshot: objects of different resources may be of different resourceVersions.
    pub fn dump(&self) -> Vec<Value> {
        let mut seen = Vec::new();
        let mut objects = Vec::new();
        for resource in self.resources() {
            let Some(id) = self.shared.resource_id(&resource) else {
                continue;
            };
            if seen.contains(&id) {
                continue;
            }
            seen.push(id);
            objects.extend(self.all_of(&resource, id));
        }
        objects
    }

    /// Every served resource, in discovery order.
    fn resources(&self) -> Vec<std::sync::Arc<Resource>> {
        let kinds = self.shared.registry.snapshot();
        let versions = kinds.groups().iter().flat_map(|group| &group.versions);
        versions.flat_map(|version| version.resources.iter().cloned()).collect()
    }

    fn form(&self, resource: &std::sync::Arc<Resource>) -> View {
        View::new(
            std::sync::Arc::clone(resource),
            Representation::Full,
            self.shared.clock.now(),
        )
    }
}
