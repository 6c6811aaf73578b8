//! The server's state and its public handle.
//!
//! [`Shared`] holds the log, the kinds, the clock, the faults and the request log; [`FakeApiServer`] is the cheap
//! handle that users clone. Requests come in through [`service`](FakeApiServer::service).

mod activity;
mod bootstrap;
mod builder;
mod introspect;
mod manifest;
mod watches;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

pub(crate) use activity::Activity;
pub(crate) use watches::{OpenWatchGuard, OpenWatches};

pub use builder::{BuildError, Builder};
pub use introspect::HistoryEntry;
pub use watches::OpenWatch;

use crate::clock::{Clock, Names};
use crate::controllers;
use crate::crd::Definitions;
use crate::faults::{Faults, Rule, RuleHandle};
use crate::kinds::{Registry, Resource, StorageId};
use crate::replica::{Replica, ServerView};
use crate::request_log::RequestLog;
use crate::service::FakeService;
use crate::services::Addresses;
use crate::status::Status;
use crate::storage::{ResourceId, Revision, Storage};
use crate::stored::Stored;

/// A Kubernetes API server in memory. Clones are handles to the same server.
///
/// # Guarantees
/// - One log with one resourceVersion orders all writes. A list shows the state at its resourceVersion; a watch from
///   there delivers every later change, in order, each once: list and watch together lose nothing.
/// - A slow watch never delays a write. It is ended, never fed with holes, when the log has been compacted past it.
/// - Time is tokio's: under a paused clock the server's time stands still too.
/// - No input of a client makes it panic.
///
/// # Examples
/// ```
/// use fake_apiserver::FakeApiServer;
///
/// let fake = FakeApiServer::new();
/// // With the `kube` crate: `kube::Client::new(fake.service(), "default")`.
/// let service = fake.service();
/// # drop(service);
/// ```
#[derive(Clone, Debug)]
pub struct FakeApiServer {
    pub(crate) shared: Arc<Shared>,
}

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) storage: Storage<Stored>,
    pub(crate) registry: Registry,
    /// Where the objects of each storage are. Invariant: has an entry for each storage of the registry's snapshot.
    resources: RwLock<HashMap<StorageId, ResourceId>>,
    /// The custom kinds that are served; held while their set changes. Lock order: before `resources`.
    pub(crate) definitions: Mutex<Definitions>,
    pub(crate) clock: Clock,
    pub(crate) names: Names,
    pub(crate) addresses: Addresses,
    pub(crate) faults: Faults,
    pub(crate) log: RequestLog,
    pub(crate) watches: OpenWatches,
    pub(crate) activity: Activity,
    /// The views that were asked for, by name.
    replicas: Mutex<BTreeMap<String, Arc<Replica>>>,
    pub(crate) options: Options,
    /// The task of the controllers, if there are any; it ends with the server.
    pub(crate) controllers: OnceLock<controllers::Running>,
}

/// How a server behaves; set by the [`Builder`].
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) bookmark_interval: Duration,
    pub(crate) max_page: Option<usize>,
}

/// How long a request waits for a resourceVersion that the server has not reached.
const FUTURE_REVISION_WAIT: Duration = Duration::from_secs(3);

impl Shared {
    /// The views that were asked for.
    fn replicas(&self) -> Vec<Arc<Replica>> {
        let replicas = self.replicas.lock().unwrap_or_else(PoisonError::into_inner);
        replicas.values().cloned().collect()
    }

    /// The collection of a storage.
    pub(crate) fn resource_id(&self, resource: &Resource) -> Option<ResourceId> {
        self.resources
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&resource.storage)
            .copied()
    }

    /// Makes an empty collection for a storage that has none.
    pub(crate) fn add_storage(&self, storage: &StorageId, ancient: bool) {
        let mut resources = self.resources.write().unwrap_or_else(PoisonError::into_inner);
        resources
            .entry(storage.clone())
            .or_insert_with(|| self.storage.add_resource(ancient));
    }

    /// Forgets the collection of a storage; the caller closes it.
    pub(crate) fn remove_storage(&self, storage: &StorageId) -> Option<ResourceId> {
        self.resources
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(storage)
    }

    /// Waits until the server has reached `rv`, for at most the time that a real server waits.
    ///
    /// # Errors
    /// 504 when it has not.
    pub(crate) async fn wait_for_revision(&self, rv: Revision) -> Result<(), Status> {
        if self.storage.current() >= rv {
            return Ok(());
        }
        tokio::time::timeout(FUTURE_REVISION_WAIT, self.storage.reached(rv))
            .await
            .map_err(|_| Status::too_large_resource_version(rv, self.storage.current()))
    }

    /// As [`wait_for_revision`](Self::wait_for_revision), for a view of a resource.
    ///
    /// # Errors
    /// 504 when it has not.
    pub(crate) async fn wait_for_view(
        &self,
        replica: &Replica,
        resource: ResourceId,
        rv: Revision,
    ) -> Result<(), Status> {
        let sees = replica.sees(&self.storage, resource, rv);
        tokio::time::timeout(FUTURE_REVISION_WAIT, sees)
            .await
            .map_err(|_| Status::too_large_resource_version(rv, replica.seen(&self.storage, resource)))
    }
}

impl FakeApiServer {
    /// A server with default options: the built-in kinds and the namespaces that every cluster has.
    pub fn new() -> Self {
        Builder::default().empty()
    }

    /// A builder for other options and for objects that exist from the start.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The server as a service, for `kube::Client::new(fake.service(), "default")` or any other HTTP client that
    /// takes a `tower::Service`.
    pub fn service(&self) -> FakeService {
        FakeService::new(Arc::clone(&self.shared))
    }

    /// One server of a cluster of several, which may be behind the others: it follows the same log until it is told to stand still.
    /// The same name gives the same view.
    pub fn view(&self, name: &str) -> ServerView {
        let mut replicas = self.shared.replicas.lock().unwrap_or_else(PoisonError::into_inner);
        let replica = replicas
            .entry(name.to_owned())
            .or_insert_with(|| Arc::new(Replica::new(name)));
        ServerView::new(Arc::clone(&self.shared), Arc::clone(replica))
    }

    /// Puts a fault rule in force.
    pub fn inject(&self, rule: Rule) -> RuleHandle {
        self.shared.faults.add(rule)
    }

    /// Removes all fault rules.
    pub fn clear_faults(&self) {
        self.shared.faults.clear();
    }
}

impl Default for FakeApiServer {
    fn default() -> Self {
        Self::new()
    }
}
