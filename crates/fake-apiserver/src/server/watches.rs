//! The watches that are open: who holds them, what they are about, how far they have got.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::Shared;
use crate::replica::Replica;
use crate::storage::{ResourceId, Revision};
use crate::verbs::Context;

/// A watch that a client holds open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenWatch {
    /// The client's name for itself.
    pub user_agent: String,
    /// The [view](crate::FakeApiServer::view) that it was opened through; none for the server itself.
    pub view: Option<String>,
    /// `pods`, or `deployments.apps`.
    pub resource: String,
    /// The API version of its events, such as `v1`.
    pub version: String,
    /// The namespace that it is about; none if it is about all.
    pub namespace: Option<String>,
    /// The label selector, as sent; empty if there is none.
    pub label_selector: String,
    /// The field selector, as sent; empty if there is none.
    pub field_selector: String,
    /// The resourceVersion that it has got to: every event up to there that it is about was handed to the client, or to what
    /// sends it. None until it has sent its initial events.
    pub resource_version: Option<u64>,
}

/// All open watches.
#[derive(Debug)]
pub(crate) struct OpenWatches {
    inner: Mutex<Inner>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Invariant: how many of `open` are of a resource, by its qualified name.
    counts: HashMap<String, usize>,
    /// By number, that is, in the order in which they were opened.
    open: BTreeMap<u64, Arc<Open>>,
    /// The number of the next watch.
    next: u64,
}

/// What is known of one watch. No revision counts as one that is not reached.
#[derive(Debug)]
struct Open {
    about: OpenWatch,
    resource: ResourceId,
    replica: Option<Arc<Replica>>,
    reached: AtomicU64,
}

const NOWHERE: Revision = Revision::MAX;

impl OpenWatches {
    pub(crate) fn new() -> Self {
        Self {
            inner: Mutex::default(),
            changed: watch::Sender::new(()),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self, resource: &str) -> usize {
        self.inner().counts.get(resource).copied().unwrap_or_default()
    }

    pub(crate) fn total(&self) -> usize {
        self.inner().open.len()
    }

    pub(crate) fn all(&self) -> Vec<OpenWatch> {
        self.inner().open.values().map(|open| open.shown()).collect()
    }

    /// The watches that have not handed out all that they can see.
    pub(crate) fn behind(&self, server: &Shared) -> Vec<OpenWatch> {
        let open: Vec<Arc<Open>> = self.inner().open.values().cloned().collect();
        let behind = open.iter().filter(|open| open.is_behind(server));
        behind.map(|open| open.shown()).collect()
    }

    /// Tells of each watch that is opened or ends.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

impl Open {
    fn shown(&self) -> OpenWatch {
        let reached = self.reached.load(Ordering::SeqCst);
        OpenWatch {
            resource_version: Some(reached).filter(|reached| *reached != NOWHERE),
            ..self.about.clone()
        }
    }

    fn is_behind(&self, server: &Shared) -> bool {
        let reached = self.reached.load(Ordering::SeqCst);
        let seen = match &self.replica {
            Some(replica) => replica.will_see(&server.storage, self.resource),
            None => Revision::MAX,
        };
        reached == NOWHERE || reached < server.storage.last_change(self.resource, seen)
    }
}

/// Counts one open watch until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenWatchGuard {
    shared: Arc<Shared>,
    number: u64,
    open: Arc<Open>,
}

impl OpenWatchGuard {
    pub(crate) fn new(context: Context<'_>) -> Self {
        let text = |key| context.request.query.get(key).unwrap_or_default().to_owned();
        let replica = context.request.replica.as_ref();
        let about = OpenWatch {
            user_agent: context.request.user_agent().to_owned(),
            view: replica.map(|replica| replica.name().to_owned()),
            resource: context.resource.qualified_plural(),
            version: context.resource.version.to_string(),
            namespace: context.namespace().map(str::to_owned),
            label_selector: text("labelSelector"),
            field_selector: text("fieldSelector"),
            resource_version: None,
        };
        let shared = Arc::clone(context.server);
        let open = Arc::new(Open {
            about,
            resource: context.id,
            replica: replica.filter(|_| context.resource.is_cached()).cloned(),
            reached: AtomicU64::new(NOWHERE),
        });
        let number = {
            let mut inner = shared.watches.inner();
            *inner.counts.entry(open.about.resource.clone()).or_default() += 1;
            let number = inner.next;
            inner.next += 1;
            inner.open.insert(number, Arc::clone(&open));
            number
        };
        shared.watches.changed.send_replace(());
        Self { shared, number, open }
    }

    /// Notes that every event up to a revision was handed out.
    pub(crate) fn reached(&self, rv: Revision) {
        if self.open.reached.swap(rv, Ordering::SeqCst) != rv {
            self.shared.activity.notice();
        }
    }
}

impl Drop for OpenWatchGuard {
    fn drop(&mut self) {
        {
            let mut inner = self.shared.watches.inner();
            inner.open.remove(&self.number);
            if let Some(count) = inner.counts.get_mut(&self.open.about.resource) {
                *count -= 1;
            }
        }
        self.shared.watches.changed.send_replace(());
    }
}
