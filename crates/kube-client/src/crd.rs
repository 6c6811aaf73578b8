//! `CrdWatcher`: which kinds the server serves now, and who wants to be told.
//!
//! Owns the public face. `launch` is when it runs; `state` decides and keeps who waits (synchronous, one lock), with `topic`
//! for those who follow one kind; `driver` feeds it from the definitions and from discovery, and makes the calls; `definition`
//! is what is kept of a definition, `options` which of them count, `subscription` how changes are followed, `report` what is
//! told of it all.

pub(crate) mod definition;
mod driver;
mod launch;
mod options;
mod report;
mod state;
mod subscription;
#[cfg(test)]
mod tests;
mod topic;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use kube::core::GroupVersionResource;
use tokio_util::sync::CancellationToken;

pub(crate) use self::launch::Crds;
pub(crate) use self::options::Rules;
pub use self::options::{CrdOptions, CrdOptionsError};
pub use self::report::{CrdSource, CrdWatcherStats, KindStatus};
pub use self::subscription::{KindGuard, KindState, KindSubscription};
use crate::error::Stopped;

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
///   the call. Calls are made one after the other on a task of the watcher, without any lock held: they may use the watcher.
/// - [`has_synced`](Self::has_synced) turns true after the calls of all kinds that were there at the start have returned, and
///   never turns back.
/// - A kind is unknown again when its definition is deleted or no longer serves the version; a definition that is being
///   deleted counts until it is gone, since its objects are still served.
///
/// Not promised: that a request succeeds the moment a kind is known. A real server answers 404 or 429 for some
/// milliseconds more.
///
/// # Kinds that have no definition
///
/// Built-in kinds and those of aggregated APIs are looked for in discovery: once at the start, and about once a minute while
/// somebody waits for or follows one, or has asked [`known`](Self::known) for one within the last two minutes. While the
/// group of such a kind cannot be asked (an aggregated API whose server is down), what was last known of it holds; if it
/// was never seen, neither "known" nor "unknown" is said, and whoever waits goes on waiting.
///
/// # Without the right to read definitions
///
/// If the server refuses to list definitions (403), or has none at all (404, 405), discovery alone decides, asked every
/// 30 s; [`CrdWatcherStats::source`] says so. So it stays whatever goes wrong meanwhile, until every definition was read
/// anew: what was read before the right was lost is not believed again. A 405 is final. Kinds that need a
/// [minimum version](CrdOptions::minimum_version) are then never known, unless their definition was read before.
///
/// Definitions are kept without their schemas: a few hundred bytes each.
#[derive(Clone)]
pub struct CrdWatcher {
    crds: Arc<Crds>,
}

impl CrdWatcher {
    pub(crate) fn new(crds: Arc<Crds>) -> Self {
        Self { crds }
    }

    /// Whether the kind is known now. False for everything before the watcher has heard of it, and so before the start.
    ///
    /// Of a kind that has a definition, the answer follows the definition within the delay of a watch. Of any other it is that of
    /// discovery: at most about a minute old, if this is asked at least once in two minutes. The first call after a longer
    /// pause answers from what was known before, and has discovery asked at once.
    pub fn known(&self, kind: &GroupVersionResource) -> bool {
        self.crds.want();
        let (known, ask) = self.crds.state().is_known(kind);
        if ask {
            self.crds.hurry();
        }
        known
    }

    /// Whether the kind is known now, in which scope, and why or why not: for messages, and where "not yet" must be told from
    /// "no". What it says is as old as what [`known`](Self::known) says.
    pub fn status(&self, kind: &GroupVersionResource) -> KindStatus {
        self.known(kind);
        self.crds.state().status(kind)
    }

    /// True if the kind is known now, and then `callback` is dropped. Otherwise false, and `callback` is called once when
    /// the kind is known.
    ///
    /// The callback runs on a task of the watcher, with no lock held: it must not block, since other callbacks wait behind
    /// it. A panic in it is contained and logged. If the client stops first, it is dropped without being called. One that
    /// captures a clone of the client keeps the client alive.
    pub fn known_or_callback(&self, kind: &GroupVersionResource, callback: impl FnOnce() + Send + 'static) -> bool {
        self.crds.want();
        let known = self.crds.state().known_or_callback(kind, Box::new(callback));
        if !known {
            self.crds.hurry();
        }
        known
    }

    /// Has `change` called with the state of the kind as soon as that can be said, and then with each change, until the
    /// guard is dropped or the client stops. This is what clients of kinds that come and go stand on: one registration,
    /// and no state in between.
    ///
    /// It runs as a [callback](Self::known_or_callback) does: on a task of the watcher, one call after the other, with no lock
    /// held, never inside of this method; it must not block; a panic is contained and logged, and it is called again all the
    /// same. It may use the watcher and the client, drop its own guard, and register others.
    ///
    /// # Guarantees
    ///
    /// - Those of a [`KindSubscription`]: `Known` and `Unknown` alternate, what lies between two calls shows as its net
    ///   effect, and the end of a kind that was told as `Known` always shows.
    /// - If it was registered before the start, its first call has returned when [`has_synced`](Self::has_synced) turns
    ///   true, and so when [`run_and_wait`](crate::Client::run_and_wait) returns; unless nothing can be said of the kind yet,
    ///   see [`CrdWatcher`]. Informers that it asks for are waited for too.
    pub fn on_change(&self, kind: &GroupVersionResource, change: impl FnMut(KindState) + Send + 'static) -> KindGuard {
        self.crds.want();
        let id = self.crds.state().add_handler(kind, Box::new(change));
        self.crds.hurry();
        KindGuard::new(self.crds.state(), kind, id)
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
        self.crds.state().subscribe(kind);
        let subscription = KindSubscription::new(self.crds.state(), kind);
        self.crds.hurry();
        subscription
    }

    /// Whether the definitions, or discovery in their place, were read, and every callback that was due then has returned.
    /// Never goes back to false.
    pub fn has_synced(&self) -> bool {
        *self.crds.synced().borrow()
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
        let mut synced = self.crds.synced().subscribe();
        let stop = self.crds.stop_token().clone();
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
