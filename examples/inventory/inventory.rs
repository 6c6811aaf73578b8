//! What there is of a kind, and how many pods each has: the inside of a tool that stands on `kube-client` alone.
//!
//! Two informers, one of a type that was compiled in and one of a kind that is named when the program runs; an index and a
//! handler on each; and one loop that looks at what the handlers noted. It only reads. Start at [`Inventory::new`]; its test is
//! `tests/behaviours/inventory.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use k8s_openapi::api::core::v1::Pod;
use kube::core::{ApiResource, DynamicObject};
use kube_client::{
    Client, Event, HandlerOptions, Index, IndexDef, InformerOptions, Lookup, Namespaces, Object, ObjectKey,
    Registration, SyncError, on_event,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::program::Error;

/// What is to be said of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) key: ObjectKey,
    pub(crate) is: Is,
}

/// How it is with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Is {
    /// It exists and controls so many pods, of which so many are ready.
    There { pods: usize, ready: usize },
    /// It was deleted.
    Gone,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.to_string();
        match self.is {
            Is::There { pods, ready } => write!(f, "{key:<24} {pods} pods, {ready} ready"),
            Is::Gone => write!(f, "{key:<24} gone"),
        }
    }
}

/// The objects of one kind, and their pods.
pub(crate) struct Inventory {
    resource: ApiResource,
    // By their uid.
    owners: Index<DynamicObject>,
    // By the uid of the object that controls them.
    pods: Index<Pod>,
    noted: Arc<Noted>,
    handlers: [(&'static str, Registration); 2],
}

impl Inventory {
    /// Looks the kind up, as people name it (`rs`, `deployments.apps`, `Job`), and registers everything. No informer runs yet.
    pub(crate) async fn new(cluster: &Client, kind: &str, namespaces: Namespaces) -> Result<Self, Error> {
        // Every text is a lookup; what the server does not serve is an error here, which says what comes near.
        let Ok(lookup) = kind.parse::<Lookup>();
        let found = cluster.discovery().find(lookup).await?;
        // The same informers as everybody in this process gets who asks for these kinds: one watch each.
        let owners = cluster.informers().dynamic(
            &found.resource,
            InformerOptions::default().namespaces(namespaces.clone()),
        )?;
        let pods = cluster
            .informers()
            .typed::<Pod>(InformerOptions::default().namespaces(namespaces))?;

        // A handler runs on the tasks of the client and must not take long: these note what to look at. They are told of
        // everything that exists already as well, so the loop needs no other beginning. Registered before the start, they miss
        // nothing.
        let noted = Arc::new(Noted::default());
        let note_owner = {
            let noted = Arc::clone(&noted);
            on_event(move |event: &Event<DynamicObject>| noted.add(uid(event.object())))
        };
        let note_pod = {
            let noted = Arc::clone(&noted);
            on_event(move |event: &Event<Pod>| {
                // A pod may have another owner than before.
                noted.add(controller(event.object()));
                noted.add(event.old().and_then(|old| controller(old)));
            })
        };
        Ok(Self {
            resource: found.resource.clone(),
            // An index is current before any handler is told.
            owners: owners.add_index(&IndexDef::new("uid", uid))?,
            pods: pods.add_index(&IndexDef::new("controller", controller))?,
            noted,
            handlers: [
                (
                    "owners",
                    owners.add_handler(note_owner, HandlerOptions::named("inventory")),
                ),
                ("pods", pods.add_handler(note_pod, HandlerOptions::named("inventory"))),
            ],
        })
    }

    /// The kind, as the server names it.
    pub(crate) fn kind(&self) -> &str {
        &self.resource.kind
    }

    /// Waits until the handlers have been told of everything that exists. Only from then on does "no pods" mean that there are
    /// none. The client must have been started.
    pub(crate) async fn synced(&self, cluster: &Client, stop: &CancellationToken) -> Result<(), SyncError> {
        let waits = self.handlers.iter();
        let waits = waits.map(|(name, handler)| (*name, handler.synced().boxed()));
        cluster.wait_for_cache_sync("inventory", stop, waits).await
    }

    /// Reports a line for each object, and another one whenever that is no longer true, until `stop` is cancelled.
    pub(crate) async fn run(&self, report: impl Fn(Line), stop: &CancellationToken) {
        let mut shown: BTreeMap<String, Line> = BTreeMap::new();
        loop {
            for line in self.look(&mut shown) {
                report(line);
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.noted.more.notified() => {}
            }
        }
    }

    /// Looks at what was noted. The lines that are new, by key; `shown` has the last one of each object, by uid.
    fn look(&self, shown: &mut BTreeMap<String, Line>) -> Vec<Line> {
        let mut lines = Vec::new();
        for uid in self.noted.take() {
            // Reads are answered by the caches, in memory, so there is no need to keep anything that they know.
            let line = match (self.owners.get(&uid).first(), shown.get(&uid)) {
                (Some(owner), _) => Line {
                    key: owner.metadata().key(),
                    is: self.count(&uid),
                },
                (None, Some(last)) => Line {
                    key: last.key.clone(),
                    is: Is::Gone,
                },
                (None, None) => continue, // the owner of a pod, but of another kind
            };
            if shown.get(&uid) != Some(&line) {
                lines.push(line.clone());
            }
            if line.is == Is::Gone {
                shown.remove(&uid);
            } else {
                shown.insert(uid, line);
            }
        }
        lines.sort_by(|one, other| one.key.cmp(&other.key));
        lines
    }

    fn count(&self, uid: &str) -> Is {
        let pods = self.pods.get(uid);
        Is::There {
            pods: pods.len(),
            ready: pods.iter().filter(|pod| is_ready(pod)).count(),
        }
    }
}

/// The uids to look at again. However many events come, each waits here once.
#[derive(Default)]
struct Noted {
    uids: Mutex<BTreeSet<String>>,
    more: Notify,
}

impl Noted {
    fn add(&self, uid: Option<String>) {
        let Some(uid) = uid else { return };
        self.uids.lock().unwrap_or_else(PoisonError::into_inner).insert(uid);
        self.more.notify_one();
    }

    fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.uids.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn uid(object: &DynamicObject) -> Option<String> {
    object.metadata.uid.clone()
}

/// The uid of what controls the pod.
fn controller(pod: &Pod) -> Option<String> {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    Some(owner.uid.clone())
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut ready = conditions.filter(|condition| condition.type_ == "Ready");
    ready.any(|condition| condition.status == "True")
}
