//! `CrdWatcher`: which kinds the server serves now, and who wants to be told.
//!
//! Owns the laziness and the life cycle. `state` decides and keeps who waits (synchronous, one lock), `driver` feeds it from
//! the definitions and from discovery, `definition` is what is kept of a definition, `options` which of them count,
//! `subscription` how changes are followed.

pub(crate) mod definition;
mod driver;
mod options;
mod state;
mod subscription;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use kube::core::GroupVersionResource;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::definition::Definition;
use self::driver::Driver;
pub(crate) use self::options::Rules;
pub use self::options::{CrdOptions, CrdOptionsError};
use self::state::State;
pub use self::subscription::{KindState, KindSubscription};
use crate::discovery::Mapper;
use crate::environment::Environment;
use crate::error::{Stopped, WatchError};
use crate::informer::factory::unlisted;
use crate::informer::options::InformerOptions;
use crate::informer::status::{InformerStats, Unfilled};
use crate::informer::transform::Transform;
use crate::informer::{Informer, InformerId};
use crate::sync::Mutex;

/// Which kinds the server serves now. Made by [`Client::crd_watcher`](crate::Client::crd_watcher); cheap to clone.
///
/// A kind, in one version, is *known* if its custom resource definition is established and serves the version, or if there
/// is no such definition and discovery lists it (built-in kinds, aggregated APIs). [`CrdOptions`] can leave kinds out.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = fake_apiserver::FakeApiServer::new();
/// # let client = kube_client::Client::new(kube::Client::new(server.service(), "default"))?;
/// use kube::core::GroupVersionResource;
/// use tokio_util::sync::CancellationToken;
///
/// let crds = client.crd_watcher();
/// let gateways = GroupVersionResource::gvr("gateway.networking.k8s.io", "v1", "gateways");
/// if !crds.known_or_callback(&gateways, || println!("gateways can be watched now")) {
///     println!("no gateways yet");
/// }
/// let stop = CancellationToken::new();
/// client.run_and_wait(&stop).await?;
/// crds.wait_for(&GroupVersionResource::gvr("", "v1", "pods"), &stop).await?;
/// # client.shutdown().await;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// - Lazy: nothing is asked of the server before somebody calls one of the methods that ask about a kind, so programs that
///   do not use it need no right to read definitions. From then on it is started with the client, and
///   [`run_and_wait`](crate::Client::run_and_wait) waits for it.
/// - A callback is called exactly once, or dropped uncalled when the client stops; there is no gap between "not known" and
///   the call. It is called without any lock held: it may use the watcher.
/// - [`has_synced`](Self::has_synced) turns true after the callbacks of all kinds that were there at the start have
///   returned, and never turns back.
/// - A kind is unknown again when its definition is deleted or no longer serves the version; a definition that is being
///   deleted counts until it is gone, since its objects are still served.
///
/// Not promised: that a request succeeds the moment a kind is known. A real server answers 404 or 429 for some
/// milliseconds more.
///
/// # Without the right to read definitions
///
/// If the server refuses to list definitions (403), or has none at all (404), discovery alone decides, asked every 30 s;
/// [`CrdWatcherStats::source`] says so. Kinds that need a [minimum version](CrdOptions::minimum_version) are then never
/// known. It changes back by itself when the right is given. Kinds that have no definition are looked for in discovery
/// about once a minute while somebody waits for one.
///
/// Definitions are kept without their schemas: a few hundred bytes each.
#[derive(Clone)]
pub struct CrdWatcher {
    crds: Arc<Crds>,
}

/// The watcher behind every [`CrdWatcher`] of one client.
pub(crate) struct Crds {
    env: Arc<Environment>,
    discovery: Arc<Mapper>,
    state: Arc<State>,
    status: Arc<Status>,
    // The only one that is kept of a definition's.
    annotation: String,
    launch: Mutex<Launch>,
}

#[derive(Default)]
struct Launch {
    // Somebody has asked about a kind.
    wanted: bool,
    client_started: bool,
    // Invariant: present only if both are true.
    informer: Option<Informer<Definition>>,
}

/// What the driver tells.
pub(super) struct Status {
    pub(super) synced: watch::Sender<bool>,
    // Somebody new waits for a kind.
    pub(super) wanted: tokio::sync::Notify,
    // What keeps discovery from answering.
    pub(super) discovery_error: Mutex<Option<WatchError>>,
    // Why the definitions cannot be read, if discovery alone decides.
    pub(super) refused: Mutex<Option<WatchError>>,
}

impl Crds {
    pub(crate) fn new(env: &Arc<Environment>, discovery: &Arc<Mapper>, rules: Rules) -> Self {
        Self {
            env: Arc::clone(env),
            discovery: Arc::clone(discovery),
            annotation: rules.annotation().to_owned(),
            state: Arc::new(State::new(rules)),
            status: Arc::new(Status {
                synced: watch::Sender::new(false),
                wanted: tokio::sync::Notify::new(),
                discovery_error: Mutex::new(None),
                refused: Mutex::new(None),
            }),
            launch: Mutex::new(Launch::default()),
        }
    }

    /// The client was started.
    pub(crate) fn start(&self) {
        self.launch(|launch| launch.client_started = true);
    }

    /// Somebody asks about a kind.
    fn want(&self) {
        self.launch(|launch| launch.wanted = true);
    }

    fn launch(&self, change: impl FnOnce(&mut Launch)) {
        let informer = {
            let mut launch = self.launch.lock();
            change(&mut launch);
            if !launch.wanted || !launch.client_started || launch.informer.is_some() || self.env.stop.is_cancelled() {
                return;
            }
            let key = self.annotation.clone();
            let only_the_version = Transform::new("crd-version-annotation", move |definition: &mut Definition| {
                definition.metadata.annotations.retain(|known, _| *known == key);
            });
            let options = InformerOptions::default().transform(only_the_version);
            let informer = unlisted(&self.env, &(), options);
            launch.informer = Some(informer.clone());
            informer
        };
        let driver = Driver {
            env: Arc::clone(&self.env),
            discovery: Arc::clone(&self.discovery),
            state: Arc::clone(&self.state),
            status: Arc::clone(&self.status),
            informer,
        };
        self.env.spawn(driver.run());
        self.env.changed.notify_waiters();
    }

    pub(crate) fn stop(&self) {
        self.state.stop();
        if let Some(informer) = self.informer() {
            informer.stop();
        }
    }

    fn informer(&self) -> Option<Informer<Definition>> {
        self.launch.lock().informer.clone()
    }

    /// The informer of definitions, if the first sync waits for the watcher, and the failure that it meets.
    pub(crate) fn unsynced(&self) -> Option<(InformerId, Unfilled)> {
        let informer = self.informer()?;
        if *self.status.synced.borrow() {
            return None;
        }
        // Definitions that may not be read are no failure: discovery stands in.
        let from_definitions = informer.stats().error.filter(|error| !driver::falls_back(error));
        let unfilled = Unfilled {
            namespace: None,
            error: from_definitions.or_else(|| self.status.discovery_error.lock().clone()),
        };
        Some((informer.id().clone(), unfilled))
    }

    pub(crate) fn informer_stats(&self) -> Option<InformerStats> {
        Some(self.informer()?.stats())
    }

    pub(crate) fn stats(&self) -> Option<CrdWatcherStats> {
        self.informer()?;
        let (definitions, waiting, ignored) = self.state.summary();
        Some(CrdWatcherStats {
            source: match self.state.source() {
                state::Source::Starting => CrdSource::Starting,
                state::Source::Definitions => CrdSource::Definitions,
                state::Source::Discovery => CrdSource::Discovery,
            },
            has_synced: *self.status.synced.borrow(),
            definitions,
            waiting,
            ignored,
            refused: self.status.refused.lock().clone(),
            discovery_error: self.status.discovery_error.lock().clone(),
        })
    }
}

impl CrdWatcher {
    pub(crate) fn new(crds: Arc<Crds>) -> Self {
        Self { crds }
    }

    /// Whether the kind is known now. False for everything before the watcher has heard of it, and so before the start.
    pub fn known(&self, kind: &GroupVersionResource) -> bool {
        self.crds.want();
        self.crds.state.is_known(kind)
    }

    /// True if the kind is known now, and then `callback` is dropped. Otherwise false, and `callback` is called once when
    /// the kind is known.
    ///
    /// The callback runs on a task of the watcher, with no lock held: it must not block, since other callbacks wait behind
    /// it. A panic in it is contained and logged. If the client stops first, it is dropped without being called.
    pub fn known_or_callback(&self, kind: &GroupVersionResource, callback: impl FnOnce() + Send + 'static) -> bool {
        self.crds.want();
        let known = self.crds.state.known_or_callback(kind, Box::new(callback));
        if !known {
            self.crds.status.wanted.notify_one();
        }
        known
    }

    /// Waits until the kind is known. The client has to be started for that to happen.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if `stop` was cancelled, or the client stopped, before.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn wait_for(&self, kind: &GroupVersionResource, stop: &CancellationToken) -> Result<(), Stopped> {
        let mut states = self.subscribe(kind);
        loop {
            let next = tokio::select! {
                biased;
                () = stop.cancelled() => return Err(Stopped),
                next = states.next() => next,
            };
            match next {
                Some(KindState::Known) => return Ok(()),
                Some(KindState::Unknown) => {}
                None => return Err(Stopped),
            }
        }
    }

    /// Follows whether the kind is known.
    pub fn subscribe(&self, kind: &GroupVersionResource) -> KindSubscription {
        self.crds.want();
        let receiver = self.crds.state.subscribe(kind);
        self.crds.status.wanted.notify_one();
        KindSubscription::new(receiver)
    }

    /// Whether the definitions, or discovery in their place, were read, and every callback that was due then has returned.
    /// Never goes back to false.
    pub fn has_synced(&self) -> bool {
        *self.crds.status.synced.borrow()
    }

    /// Waits for [`has_synced`](Self::has_synced).
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the client was stopped before.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub fn synced(&self) -> impl Future<Output = Result<(), Stopped>> + Send + use<> {
        self.crds.want();
        let mut synced = self.crds.status.synced.subscribe();
        let stop = self.crds.env.stop.clone();
        async move {
            tokio::select! {
                biased;
                synced = synced.wait_for(|synced| *synced) => synced.map(|_| ()).map_err(|_| Stopped),
                () = stop.cancelled() => Err(Stopped),
            }
        }
    }
}

impl fmt::Debug for CrdWatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrdWatcher")
            .field("has_synced", &self.has_synced())
            .field("stats", &self.crds.stats())
            .finish()
    }
}

/// Where a [`CrdWatcher`] has its knowledge from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CrdSource {
    /// Nothing has answered yet.
    Starting,
    /// The definitions, and discovery for kinds that have none.
    Definitions,
    /// Discovery alone: the definitions cannot be read.
    Discovery,
}

/// The state of the CRD watcher; part of [`Stats`](crate::Stats).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CrdWatcherStats {
    /// Where the knowledge comes from.
    pub source: CrdSource,
    /// As [`CrdWatcher::has_synced`].
    pub has_synced: bool,
    /// Definitions in the cache.
    pub definitions: usize,
    /// Callbacks that wait for a kind.
    pub waiting: usize,
    /// The definitions that do not count, by name, and why.
    pub ignored: BTreeMap<String, String>,
    /// Why the definitions cannot be read, while discovery alone decides.
    pub refused: Option<WatchError>,
    /// What keeps discovery from answering now.
    pub discovery_error: Option<WatchError>,
}
