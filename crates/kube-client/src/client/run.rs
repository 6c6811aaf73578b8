//! Starting, waiting for sync, stopping.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::time::{Instant, interval_at};
use tokio_util::sync::CancellationToken;

use crate::client::{Client, Core};
use crate::error::{BlockedInformer, Stopped, SyncError, WatchError};
use crate::informer::InformerId;
use crate::informer::factory::Control;
use crate::informer::status::Unfilled;

/// How often a wait says what it waits for.
const REMIND: Duration = Duration::from_secs(5);

/// How to wait for the first sync.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SyncOptions {
    /// Give up when an informer meets something that waiting will hardly mend. Default: go on trying.
    pub fail_fast: bool,
}

impl SyncOptions {
    /// Gives up with [`SyncError::Blocked`] on the first failure that [is blocking](WatchError::is_blocking):
    ///
    /// - 401 and other missing credentials, 403, 404;
    /// - 400 and 422, which a refused selector gets; 405, a kind that cannot be listed or watched;
    /// - a server that cannot be reached, with which TLS fails, or that is no Kubernetes API server (a proxy's web page);
    ///   one that takes the connection and never answers, after 30 s.
    ///
    /// Not on 429, 5xx, a connection that breaks while it answers, or an answer that makes no sense: those are retried.
    pub fn fail_fast() -> Self {
        Self { fail_fast: true }
    }
}

impl Client {
    /// Starts every informer, and from now on each new one as it is asked for. Returns at once; needs no runtime
    /// context.
    pub fn start(&self) {
        self.core().registry.start();
        self.core().crds.start();
    }

    /// Starts every informer and waits until each cache is filled, those that are asked for meanwhile included; and first
    /// for the [CRD watcher](Self::crd_watcher), if it is in use.
    ///
    /// Does not wait for handlers: [`Registration::synced`](crate::Registration::synced) does. The first call makes
    /// `stop` stop the client; in a later call, `stop` only bounds the wait. So give the token that ends the program to the first
    /// one, and no token that nobody keeps. Failures are logged at once and every 5 s by kind and cause, and retried for ever;
    /// but for a 405, which is final.
    ///
    /// # Errors
    ///
    /// [`SyncError::Stopped`] if `stop` was cancelled, or the client shut down, before. [`SyncError::Blocked`] if a kind cannot
    /// be listed or watched on this server (405): its cache would stay empty for ever. Everything else goes on.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the wait; what was started goes on.
    pub async fn run_and_wait(&self, stop: &CancellationToken) -> Result<(), SyncError> {
        self.run_and_wait_with(stop, SyncOptions::default()).await
    }

    /// [`run_and_wait`](Self::run_and_wait) with options.
    ///
    /// # Errors
    ///
    /// As `run_and_wait`; with [`SyncOptions::fail_fast`], [`SyncError::Blocked`] for more causes. It names each blocked kind
    /// and why. The informers go on trying, so a later call can succeed.
    ///
    /// # Cancel safety
    ///
    /// As `run_and_wait`.
    pub async fn run_and_wait_with(&self, stop: &CancellationToken, options: SyncOptions) -> Result<(), SyncError> {
        self.link(stop);
        self.start();
        self.wait_filled(stop, options).await
    }

    /// Waits until each cache is filled; `stop` ends the wait alone.
    pub(crate) async fn wait_filled(&self, stop: &CancellationToken, options: SyncOptions) -> Result<(), SyncError> {
        let mut remind = interval_at(Instant::now() + REMIND, REMIND);
        loop {
            // Listen before looking, so that no change falls in between.
            let changed = self.core().env.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if stop.is_cancelled() || self.is_stopped() {
                return Err(SyncError::Stopped);
            }
            let mut missing: Vec<Missing> = missing(&self.core().registry.all());
            if let Some((informer, unfilled)) = self.core().crds.unsynced() {
                missing.insert(0, Missing { informer, unfilled });
            }
            if missing.is_empty() {
                return Ok(());
            }
            let hopeless: fn(&WatchError) -> bool = if options.fail_fast {
                WatchError::is_blocking
            } else {
                WatchError::is_final
            };
            let informers: Vec<BlockedInformer> = missing.iter().filter_map(|one| one.blocked(hopeless)).collect();
            if !informers.is_empty() {
                return Err(SyncError::Blocked { informers });
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.core().env.stop.cancelled() => {}
                () = &mut changed => {}
                _ = remind.tick() => self.remind(&missing),
            }
        }
    }

    fn remind(&self, missing: &[Missing]) {
        for Missing { informer, unfilled } in missing {
            let cluster = self.cluster_id();
            let (namespace, error) = (unfilled.namespace.as_deref(), unfilled.error.as_ref());
            let cause = error.map_or_else(|| "no answer yet".to_owned(), ToString::to_string);
            tracing::warn!(cluster, %informer, namespace, "still waiting for the first sync: {cause}");
        }
    }

    /// Waits until all of these have synced: [`Informer::synced`](crate::Informer::synced),
    /// [`Registration::synced`](crate::Registration::synced), or anything else with a name. Says every 5 s, under
    /// `name`, which ones it waits for. Several may have the same name.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = fake_apiserver::FakeApiServer::new();
    /// # let client = kube_client::Client::new(kube::Client::new(server.service(), "default"))?;
    /// use futures_util::FutureExt;
    /// use k8s_openapi::api::core::v1::{Node, Pod};
    /// use kube_client::{Event, HandlerOptions, InformerOptions, on_event};
    /// use tokio_util::sync::CancellationToken;
    ///
    /// let nodes = client.informers().typed::<Node>(InformerOptions::default())?;
    /// let pods = client.informers().typed::<Pod>(InformerOptions::default())?;
    /// let counting = pods.add_handler(on_event(|event: &Event<Pod>| println!("{event:?}")), HandlerOptions::named("count"));
    ///
    /// let stop = CancellationToken::new();
    /// client.start();
    /// // The cache of nodes, and that of pods with everything in it handled once.
    /// let caches = [("nodes", nodes.synced().boxed()), ("counted pods", counting.synced().boxed())];
    /// client.wait_for_cache_sync("scheduler", &stop, caches).await?;
    /// assert!(nodes.has_synced() && counting.has_synced());
    /// # client.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It starts nothing: informers sync once the client was started, by [`start`](Self::start) or
    /// [`run_and_wait`](Self::run_and_wait), or they were themselves. Before that, this waits for ever.
    ///
    /// # Errors
    ///
    /// [`SyncError::Stopped`] if `stop` was cancelled, or the client shut down, before; [`SyncError::CacheStopped`], with
    /// its name, if one of them was stopped before while the client goes on.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the wait.
    pub async fn wait_for_cache_sync<'a>(
        &self,
        name: &str,
        stop: &CancellationToken,
        caches: impl IntoIterator<Item = (&'a str, BoxFuture<'a, Result<(), Stopped>>)>,
    ) -> Result<(), SyncError> {
        // Sorted by number, so that they are named in the order in which they were given.
        let mut missing: BTreeMap<usize, &str> = BTreeMap::new();
        let mut waits = FuturesUnordered::new();
        for (number, (cache, synced)) in caches.into_iter().enumerate() {
            missing.insert(number, cache);
            waits.push(synced.map(move |result| (number, cache, result)));
        }
        let mut remind = interval_at(Instant::now() + REMIND, REMIND);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Err(SyncError::Stopped),
                () = self.core().env.stop.cancelled() => return Err(SyncError::Stopped),
                next = waits.next() => match next {
                    None => return Ok(()),
                    Some((number, _, Ok(()))) => _ = missing.remove(&number),
                    // The client's own stop ends its caches first.
                    Some((_, _, Err(Stopped))) if stop.is_cancelled() || self.is_stopped() => return Err(SyncError::Stopped),
                    Some((_, cache, Err(Stopped))) => return Err(SyncError::CacheStopped {
                        wait: name.to_owned(),
                        cache: cache.to_owned(),
                    }),
                },
                _ = remind.tick() => {
                    let missing: Vec<&str> = missing.values().copied().collect();
                    tracing::warn!(cluster = self.cluster_id(), "{name}: still waiting for {}", missing.join(", "));
                }
            }
        }
    }

    /// The first token given becomes the one that stops the client.
    fn link(&self, stop: &CancellationToken) {
        if std::mem::replace(&mut *self.core().linked.lock(), true) {
            return;
        }
        let own = self.core().env.stop.clone();
        let core = Arc::downgrade(self.core());
        let stop = stop.clone();
        self.core().env.spawn(async move {
            tokio::select! {
                () = own.cancelled() => {}
                () = stop.cancelled() => {
                    if let Some(core) = core.upgrade() {
                        Core::stop(&core);
                    }
                }
            }
        });
    }

    /// Stops every informer and handler at once; the future waits until the last task has ended. Idempotent. Do not await
    /// it inside an event handler: it would wait for itself.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the wait; the stop goes on.
    pub fn shutdown(&self) -> impl Future<Output = ()> + Send + use<> {
        let core = Arc::clone(self.core());
        core.stop();
        async move {
            core.env.tasks.close();
            core.env.tasks.wait().await;
        }
    }
}

/// A cache that is not filled, or a namespace of it.
struct Missing {
    informer: InformerId,
    unfilled: Unfilled,
}

fn missing(informers: &[Arc<dyn Control>]) -> Vec<Missing> {
    let of_one = |informer: &Arc<dyn Control>| {
        let id = informer.id().clone();
        informer.unfilled().into_iter().map(move |unfilled| Missing {
            informer: id.clone(),
            unfilled,
        })
    };
    informers.iter().flat_map(of_one).collect()
}

impl Missing {
    /// If it meets something of which there is no hope.
    fn blocked(&self, hopeless: fn(&WatchError) -> bool) -> Option<BlockedInformer> {
        let error = self.unfilled.error.clone().filter(hopeless)?;
        Some(BlockedInformer {
            informer: self.informer.clone(),
            error,
        })
    }
}
