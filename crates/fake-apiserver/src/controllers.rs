//! Stand-ins for what acts on its own in a cluster: the controllers of the controller manager, the scheduler, the kubelets.
//!
//! Start at [`Controller`]. One task per server runs all of them ([`start`]); [`world`] is what they see and how they write, and
//! each has a file of its own: [`garbage`], [`namespaces`], [`accounts`], [`kubelet`],
//! [`deployments`], [`replica_sets`] (with [`owned`], whose pods and sets are whose, and [`owners`], which of them to look at).
//!
//! # Design
//! The task reads the server's own log, in order, and shows each write to every stand-in, which notes what it has to look at
//! ([`queue`]). Then one looks at one thing and writes what follows from the newest state, which comes back through the log. So
//! nothing polls, nothing runs beside each other, and the same requests lead to the same writes. When nothing is left to look
//! at, the task sleeps until the next write, or until a time that one of them waits for ([`timers`]). A reader that the log has lost, after a compaction or a restore, starts again from
//! all objects.
//!
//! The task holds the server weakly and the server owns the task: it ends with the last handle.

mod accounts;
mod deployments;
mod garbage;
mod kubelet;
mod namespaces;
mod owned;
mod owners;
mod queue;
mod replica_sets;
mod timers;
mod world;

use std::sync::{Arc, Weak};

use jiff::Timestamp;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::server::{FakeApiServer, Shared};
use crate::storage::{Entry, Position, Revision, Tail};
use crate::stored::Stored;

use accounts::Accounts;
use deployments::Deployments;
use garbage::Garbage;
use kubelet::Kubelet;
use namespaces::Namespaces;
use replica_sets::ReplicaSets;
use world::{Change, Key, KindTable, World};

/// What acts on its own in a cluster, and what a server can stand in for; see [`Builder::controller`](crate::Builder::controller).
///
/// # Guarantees
/// Each does what the one of Kubernetes 1.37 does, as far as its description says, by requests of its own that are validated
/// and recorded as those of any client, under the real field managers. The request log does not show them, and faults do not meet
/// them. They follow the log of the server and tokio's clock, and poll nothing: on one thread, the same requests lead to the same
/// writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Controller {
    /// Deletes objects whose owners are gone: those of another uid, kind or namespace than an owner reference says count as gone.
    /// An owner that is deleted with `Foreground` stays until the dependents that block it are gone; with `Orphan` it goes when its
    /// dependents have lost it. An object with one owner left is kept and loses the others. Events are not collected. Owners of
    /// kinds that are not served, and namespaced owners of cluster-scoped objects, are not judged, as on a cluster.
    GarbageCollector,
    /// Empties a namespace that is deleted, pods first, tells in its conditions what remains, and lets it go when nothing does. At
    /// once, not after the five seconds of a real one.
    Namespaces,
    /// Keeps the service account `default` and the config map `kube-root-ca.crt` in every namespace. The certificate in it
    /// belongs to nobody: this server speaks no TLS.
    ServiceAccounts,
    /// The scheduler and the kubelets. A pod gets the node with the fewest pods among those that its node selector and its
    /// tolerations allow; if there is no node at all, one is made, `node-1`. On a node that exists it goes from `Pending` to
    /// `Running` with all containers ready, at once, in two writes of its status, with an address from 10.244.0.1 on. It runs until
    /// it is deleted, and ends when its grace period is over, as containers do that ignore the first signal. What others write to the
    /// status of a pod is left alone. Images, probes, resources and affinities are not looked at.
    Kubelet,
    /// Makes the pods of replica sets, deletes those that are too many in the order of a cluster, takes on pods that nobody
    /// owns, and tells in the status how many are ready and available. Of pods that nothing tells apart those whose
    /// names come first are deleted.
    ReplicaSets,
    /// Makes replica sets of deployments and moves pods from one to the next: rolling updates by `maxSurge` and
    /// `maxUnavailable`, `Recreate`, sizes, pauses, revisions and their history, status and conditions, the progress deadline. The
    /// hash of a template is another one than that of a cluster.
    Deployments,
}

impl Controller {
    /// All of them. Of several that have something to do, the first one does it.
    pub const ALL: [Self; 6] = [
        Self::GarbageCollector,
        Self::Namespaces,
        Self::ServiceAccounts,
        Self::Kubelet,
        Self::ReplicaSets,
        Self::Deployments,
    ];
}

/// The task of a server that runs its stand-ins.
#[derive(Debug)]
pub(crate) struct Running {
    /// Up to where the log has been seen, with nothing left to do.
    settled: watch::Receiver<Revision>,
    _task: AbortOnDropHandle<()>,
}

/// How many events are read from the log at once.
const BATCH: usize = 256;

/// Not the revision of any write.
const NEVER: Revision = Revision::MAX;

/// Starts the stand-ins of a server on a runtime.
pub(crate) fn start(server: &Arc<Shared>, which: &[Controller], runtime: &Handle) -> Running {
    let (told, settled) = watch::channel(NEVER);
    let manager = Manager {
        kinds: KindTable::default(),
        position: None,
        parts: which.iter().copied().map(Part::new).collect(),
    };
    let commits = server.storage.commits();
    let task = runtime.spawn(run(Arc::downgrade(server), commits, manager, told));
    Running {
        settled,
        _task: AbortOnDropHandle::new(task),
    }
}

/// Lets the stand-ins work until the server is gone.
async fn run(
    server: Weak<Shared>,
    mut commits: watch::Receiver<Revision>,
    mut manager: Manager,
    settled: watch::Sender<Revision>,
) {
    loop {
        // Marked before looking, so that a write during the work wakes the task again.
        commits.mark_unchanged();
        let due = loop {
            // Held for one piece of work only, so that the server can go.
            let Some(server) = server.upgrade() else { return };
            if !manager.step(&server).await {
                break manager.due().map(|due| server.clock.instant_of(due));
            }
            drop(server);
            // Others see the world between two writes, as they would in a cluster.
            tokio::task::yield_now().await;
        };
        settled.send_replace(manager.position.map_or(NEVER, Position::revision));
        tokio::select! {
            changed = commits.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = async { tokio::time::sleep_until(due.unwrap_or_else(Instant::now)).await }, if due.is_some() => {}
        }
    }
}

/// All stand-ins of one server.
#[derive(Debug)]
struct Manager {
    kinds: KindTable,
    /// Up to where the log has been read; none before the first time.
    position: Option<Position>,
    parts: Vec<Part>,
}

impl Manager {
    /// Reads what is new in the log and does one piece of work; false if there is none.
    async fn step(&mut self, server: &Arc<Shared>) -> bool {
        self.catch_up(server);
        let world = World {
            server,
            kinds: &self.kinds,
        };
        for part in &mut self.parts {
            if part.work(&world).await {
                return true;
            }
        }
        false
    }

    /// When there is something to do although nothing is written.
    fn due(&self) -> Option<Timestamp> {
        self.parts.iter().filter_map(Part::due).min()
    }

    fn catch_up(&mut self, server: &Arc<Shared>) {
        if self.kinds.refresh(server) {
            self.parts.iter_mut().for_each(Part::kinds_changed);
        }
        loop {
            let tail = match &mut self.position {
                Some(position) => server.storage.read_log(position, BATCH),
                None => Tail::Lost,
            };
            match tail {
                Tail::Events(entries) => {
                    for entry in entries {
                        // A definition is written before its kind is served, and served before anything of it is written.
                        if self.kinds.refresh(server) {
                            self.parts.iter_mut().for_each(Part::kinds_changed);
                        }
                        self.observe(self.change(&entry));
                    }
                }
                Tail::Idle => return,
                Tail::Lost => self.start_again(server),
            }
        }
    }

    fn change(&self, entry: &Entry<Stored>) -> Change {
        let object = |stored: &Option<Arc<Stored>>| stored.as_ref().map(|stored| stored.object());
        Change {
            resource: self.kinds.resource(entry.resource).cloned(),
            key: Key {
                resource: entry.resource,
                object: Arc::clone(&entry.key),
            },
            prev: object(&entry.prev),
            cur: object(&entry.cur),
        }
    }

    fn start_again(&mut self, server: &Shared) {
        let (objects, position) = server.storage.everything();
        self.position = Some(position);
        self.parts.iter_mut().for_each(Part::start_again);
        for (resource, object, version) in objects {
            self.observe(Change {
                resource: self.kinds.resource(resource).cloned(),
                key: Key { resource, object },
                prev: None,
                cur: Some(version.object.object()),
            });
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "the change ends here")]
    fn observe(&mut self, change: Change) {
        for part in &mut self.parts {
            part.observe(&change);
        }
    }
}

/// One stand-in.
#[derive(Debug)]
enum Part {
    Garbage(Garbage),
    Namespaces(Namespaces),
    Accounts(Accounts),
    Kubelet(Kubelet),
    Deployments(Deployments),
    ReplicaSets(ReplicaSets),
}

impl Part {
    fn new(which: Controller) -> Self {
        match which {
            Controller::GarbageCollector => Self::Garbage(Garbage::default()),
            Controller::Namespaces => Self::Namespaces(Namespaces::default()),
            Controller::ServiceAccounts => Self::Accounts(Accounts::default()),
            Controller::Kubelet => Self::Kubelet(Kubelet::default()),
            Controller::Deployments => Self::Deployments(Deployments::default()),
            Controller::ReplicaSets => Self::ReplicaSets(ReplicaSets::default()),
        }
    }

    /// Forgets what was learnt from the log.
    fn start_again(&mut self) {
        *self = match self {
            Self::Garbage(_) => Self::Garbage(Garbage::default()),
            Self::Namespaces(_) => Self::Namespaces(Namespaces::default()),
            Self::Accounts(_) => Self::Accounts(Accounts::default()),
            Self::Kubelet(_) => Self::Kubelet(Kubelet::default()),
            Self::Deployments(_) => Self::Deployments(Deployments::default()),
            Self::ReplicaSets(_) => Self::ReplicaSets(ReplicaSets::default()),
        };
    }

    /// Takes note of a change.
    fn observe(&mut self, change: &Change) {
        match self {
            Self::Garbage(part) => part.observe(change),
            Self::Namespaces(part) => part.observe(change),
            Self::Accounts(part) => part.observe(change),
            Self::Kubelet(part) => part.observe(change),
            Self::Deployments(part) => part.observe(change),
            Self::ReplicaSets(part) => part.observe(change),
        }
    }

    /// There may be kinds that were not there before.
    fn kinds_changed(&mut self) {
        match self {
            Self::Garbage(part) => part.kinds_changed(),
            Self::Namespaces(_)
            | Self::Accounts(_)
            | Self::Kubelet(_)
            | Self::Deployments(_)
            | Self::ReplicaSets(_) => {}
        }
    }

    /// When there is something to do although nothing is written.
    fn due(&self) -> Option<Timestamp> {
        match self {
            Self::Kubelet(part) => part.due(),
            Self::Deployments(part) => part.due(),
            Self::ReplicaSets(part) => part.due(),
            Self::Garbage(_) | Self::Namespaces(_) | Self::Accounts(_) => None,
        }
    }

    /// Does one piece of work; false if there is none.
    async fn work(&mut self, world: &World<'_>) -> bool {
        match self {
            Self::Garbage(part) => part.work(world).await,
            Self::Namespaces(part) => part.work(world).await,
            Self::Accounts(part) => part.work(world).await,
            Self::Kubelet(part) => part.work(world).await,
            Self::Deployments(part) => part.work(world).await,
            Self::ReplicaSets(part) => part.work(world).await,
        }
    }
}

impl Shared {
    /// Tells up to which revision the controllers have done what there was to do; none if there are none.
    pub(crate) fn controllers_settled(&self) -> Option<watch::Receiver<Revision>> {
        self.controllers.get().map(|running| running.settled.clone())
    }

    /// Whether the controllers have nothing to do, or are none any more.
    pub(crate) fn controllers_are_settled(&self) -> bool {
        self.controllers_settled()
            .is_none_or(|settled| settled.has_changed().is_err() || *settled.borrow() == self.storage.current())
    }
}

impl FakeApiServer {
    /// Waits until the [controllers](crate::Builder::controller) of the server have seen every write and have nothing to do
    /// but wait for a time to come or for another write. At once if there are none, or if the runtime that they ran on has ended.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn wait_for_controllers(&self) {
        let Some(mut settled) = self.shared.controllers_settled() else {
            return;
        };
        // An error says that the task is gone, as documented.
        let _ = settled
            .wait_for(|settled| *settled == self.shared.storage.current())
            .await;
    }
}
