//! `Client`: everything that shares one connection to one cluster.
//!
//! Owns the life cycle (construct, start, stop, drop). How it is built is in `builder`, what starting means in `run`.

mod builder;
mod connect;
#[cfg(feature = "fake")]
mod fake;
mod limit;
mod run;

use std::fmt;
use std::sync::Arc;

use kube::core::{ApiResource, DynamicObject, NamespaceResourceScope};
use serde::Serialize;

pub use self::builder::ClientBuilder;
#[cfg(feature = "fake")]
pub use self::fake::{FakeClientBuilder, FakeError};
pub(crate) use self::limit::Tune;
pub use self::run::SyncOptions;
use crate::crd::{CrdWatcher, CrdWatcherStats, Crds, Rules};
use crate::discovery::{Discovery, Mapper};
use crate::environment::Environment;
use crate::error::ClientError;
use crate::filter::ObjectFilter;
use crate::informer::InformerId;
use crate::informer::deferred::discard;
use crate::informer::dispatch::HandlerStats;
use crate::informer::factory::{Informers, Registry};
use crate::informer::options::Namespaces;
use crate::informer::status::InformerStats;

/// One connection to one cluster, and the informers that share it. Cheap to clone; make one per cluster and process.
///
/// # Guarantees
///
/// - Construction starts nothing and does no I/O beyond reading the configuration.
/// - Every task belongs to the client; [`shutdown`](Self::shutdown) waits for the last one to end.
/// - Dropping the last clone stops everything. Informers that outlive it show their last state. An event handler that
///   captures a clone keeps the client alive: then `shutdown`, or the stop token, is what ends it.
/// - The client lives in the runtime in which it was made: once it was started, it is stopped when that is shut down, and so
///   are its informers, for those, too, who wait for them elsewhere.
#[derive(Clone)]
pub struct Client {
    owner: Arc<Owner>,
}

/// What the last clone takes down with it.
struct Owner {
    core: Arc<Core>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.core.stop();
    }
}

/// The parts of a client. Tasks may hold parts of it or a `Weak`, never an `Owner`.
pub(crate) struct Core {
    kube: kube::Client,
    env: Arc<Environment>,
    registry: Arc<Registry>,
    discovery: Arc<Mapper>,
    crds: Arc<Crds>,
    object_filter: Option<Arc<dyn ObjectFilter>>,
    linked: crate::sync::Mutex<bool>,
}

/// The filter is the user's, and goes with whatever held the client last.
impl Drop for Core {
    fn drop(&mut self) {
        discard(self.object_filter.take());
    }
}

impl Core {
    /// Stops everything. Idempotent.
    fn stop(&self) {
        self.env.stop.cancel();
        self.registry.stop();
        self.crds.stop();
        self.env.changed.notify_waiters();
    }
}

impl Client {
    /// A client for the cluster that the environment names: `KUBECONFIG`, `~/.kube/config`, or the service account
    /// of the pod.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if there is no usable configuration or no runtime. The cluster is not contacted.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn try_default() -> Result<Self, ClientError> {
        Self::builder().build().await
    }

    /// A client over a connection that was made elsewhere. Informers then see whatever retries it does by itself.
    ///
    /// # Errors
    ///
    /// [`ClientError::NoRuntime`] outside of a tokio runtime.
    pub fn new(kube: kube::Client) -> Result<Self, ClientError> {
        Self::builder().build_with(kube)
    }

    /// Builds a client with other than the default choices.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    fn from_parts(
        kube: kube::Client,
        env: Environment,
        crds: Rules,
        object_filter: Option<Arc<dyn ObjectFilter>>,
    ) -> Self {
        let env = Arc::new(env);
        let discovery = Arc::new(Mapper::new(&env));
        let core = Core {
            kube,
            registry: Arc::new(Registry::new()),
            crds: Arc::new(Crds::new(&env, &discovery, crds)),
            discovery,
            object_filter,
            env,
            linked: crate::sync::Mutex::new(false),
        };
        Self {
            owner: Arc::new(Owner { core: Arc::new(core) }),
        }
    }

    fn core(&self) -> &Arc<Core> {
        &self.owner.core
    }

    #[cfg(test)]
    pub(crate) fn env(&self) -> &Arc<Environment> {
        &self.core().env
    }

    /// The raw connection, for requests that no layer covers. Like [`api`](Self::api), [`dynamic`](Self::dynamic) and their forms
    /// for one namespace it is not bound by [`namespaces`](Self::namespaces): what single requests may do is for the server to
    /// decide.
    pub fn kube(&self) -> &kube::Client {
        &self.core().kube
    }

    /// Typed access without a cache, all namespaces.
    pub fn api<K>(&self) -> kube::Api<K>
    where
        K: kube::Resource<DynamicType: Default>,
    {
        kube::Api::all(self.kube().clone())
    }

    /// Typed access without a cache to one namespace: what a namespaced kind is written through.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = fake_apiserver::FakeApiServer::new();
    /// # let client = kube_client::Client::new(kube::Client::new(server.service(), "default"))?;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube::api::PostParams;
    ///
    /// let mut settings = ConfigMap::default();
    /// settings.metadata.name = Some("settings".to_owned());
    /// let maps = client.api_in::<ConfigMap>("default");
    /// let made = maps.create(&PostParams::default(), &settings).await?;
    /// assert_eq!(made.metadata.namespace.as_deref(), Some("default"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn api_in<K>(&self, namespace: &str) -> kube::Api<K>
    where
        K: kube::Resource<DynamicType: Default, Scope = NamespaceResourceScope>,
    {
        kube::Api::namespaced(self.kube().clone(), namespace)
    }

    /// Access without a cache to one namespace of a kind that is known at run time only. For a kind that does not live in
    /// namespaces, take [`dynamic`](Self::dynamic).
    pub fn dynamic_in(&self, resource: &ApiResource, namespace: &str) -> kube::Api<DynamicObject> {
        kube::Api::namespaced_with(self.kube().clone(), namespace, resource)
    }

    /// Access without a cache to a kind that is known at run time only, all namespaces.
    pub fn dynamic(&self, resource: &ApiResource) -> kube::Api<DynamicObject> {
        kube::Api::all_with(self.kube().clone(), resource)
    }

    /// The informer factory.
    pub fn informers(&self) -> Informers {
        let core = self.core();
        Informers::new(
            Arc::clone(&core.env),
            Arc::clone(&core.registry),
            Arc::clone(&core.discovery),
            Arc::clone(&core.crds),
            core.object_filter.clone(),
        )
    }

    /// What the server serves: kinds, resources, scopes, versions. Asks nothing before it is used.
    pub fn discovery(&self) -> Discovery {
        Discovery::new(Arc::clone(&self.core().discovery))
    }

    /// Which kinds the server serves now, and who wants to be told. Starts nothing before it is used.
    pub fn crd_watcher(&self) -> CrdWatcher {
        CrdWatcher::new(Arc::clone(&self.core().crds))
    }

    /// The filter that was given to [`ClientBuilder::object_filter`]. Informers do not apply it; a [`View`](crate::View) does.
    pub fn object_filter(&self) -> Option<Arc<dyn ObjectFilter>> {
        self.core().object_filter.clone()
    }

    /// The namespaces that informers of namespaced kinds may cover: [`ClientBuilder::namespaces`].
    pub fn namespaces(&self) -> &Namespaces {
        &self.core().env.namespaces
    }

    /// The name given to this cluster, for logs and metrics of programs that talk to several.
    pub fn cluster_id(&self) -> &str {
        &self.core().env.cluster
    }

    /// The server's version.
    ///
    /// # Errors
    ///
    /// [`kube::Error`] if the server cannot be reached or refuses; a retry can help.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future abandons the request, which changes nothing.
    pub async fn server_version(&self) -> Result<k8s_openapi::apimachinery::pkg::version::Info, kube::Error> {
        self.kube().apiserver_version().await
    }

    /// Whether the client was stopped.
    pub fn is_stopped(&self) -> bool {
        self.core().is_stopped()
    }

    /// What is left of the client once it is dropped; does not keep it alive.
    #[cfg(any(test, feature = "fake"))]
    pub(crate) fn downgrade(&self) -> Arc<Core> {
        Arc::clone(self.core())
    }

    /// The state of every informer, and what is running.
    pub fn stats(&self) -> Stats {
        self.core().stats()
    }
}

impl Core {
    pub(crate) fn is_stopped(&self) -> bool {
        self.env.stop.is_cancelled()
    }

    pub(crate) fn stats(&self) -> Stats {
        let informers = self.registry.all();
        let mut informers: Vec<InformerStats> = informers
            .iter()
            .map(|informer| informer.stats())
            .chain(self.crds.informer_stats())
            .collect();
        informers.sort_by_cached_key(|stats| (stats.informer.to_string(), stats.informer.representation as u8));
        let mut watched_twice: Vec<String> = informers
            .iter()
            .enumerate()
            .filter(|(at, one)| {
                informers[at + 1..]
                    .iter()
                    .any(|other| one.informer.overlaps(&other.informer))
            })
            .map(|(_, one)| one.informer.resource.clone())
            .collect();
        watched_twice.dedup();
        Stats {
            informers,
            tasks: self.env.tasks.len(),
            watched_twice,
            crd_watcher: self.crds.stats(),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("cluster_id", &self.cluster_id())
            .field("stopped", &self.is_stopped())
            .field("informers", &self.informers())
            .finish_non_exhaustive()
    }
}

/// A snapshot of a client's inside; made by [`Client::stats`].
///
/// For a debug page of the program it serializes, as all of its parts do: under the names of the fields, durations in seconds,
/// what is one of several in `snake_case`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = fake_apiserver::FakeApiServer::new();
/// # let client = kube_client::Client::new(kube::Client::new(server.service(), "default"))?;
/// # use k8s_openapi::api::core::v1::Node;
/// let _nodes = client.informers().typed::<Node>(Default::default())?;
/// let page = serde_json::to_value(client.stats())?;
/// assert_eq!(page["informers"][0]["informer"]["resource"], "nodes/v1");
/// assert_eq!(page["informers"][0]["phase"], "idle");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// Each informer, sorted by name.
    pub informers: Vec<InformerStats>,
    /// Tasks of this client that run now.
    pub tasks: usize,
    /// Resources that more than one informer watches, by different types, selectors or representations, but for namespaces
    /// watched one by one. Each costs a watch and a cache of its own: worth a look. Logged as well, when the second informer
    /// is asked for.
    pub watched_twice: Vec<String>,
    /// The CRD watcher, if it is in use and was started.
    pub crd_watcher: Option<CrdWatcherStats>,
}

impl Stats {
    /// The first informer of a resource, such as `pods/v1`.
    pub fn informer(&self, resource: &str) -> Option<&InformerStats> {
        self.informers.iter().find(|stats| stats.informer.resource == resource)
    }

    /// Watches open now.
    pub fn watches_open(&self) -> usize {
        self.informers.iter().map(|stats| stats.watches_open).sum()
    }

    /// Event handlers registered now.
    pub fn handlers(&self) -> usize {
        self.informers.iter().map(|stats| stats.handlers.len()).sum()
    }

    /// The handler whose call has been running longest, and its informer; `None` if no handler is being called. One that is stuck
    /// stays here, and [`running_for`](HandlerStats::running_for) grows.
    pub fn longest_running(&self) -> Option<(&InformerId, &HandlerStats)> {
        let handlers = self
            .informers
            .iter()
            .flat_map(|stats| stats.handlers.iter().map(|handler| (&stats.informer, handler)));
        handlers
            .filter(|(_, handler)| handler.running_for.is_some())
            .max_by_key(|(_, handler)| handler.running_for)
    }

    /// The informers that meet a failure now.
    pub fn failing(&self) -> impl Iterator<Item = &InformerId> {
        self.informers
            .iter()
            .filter(|stats| stats.error.is_some())
            .map(|stats| &stats.informer)
    }
}

#[cfg(test)]
mod tests;
