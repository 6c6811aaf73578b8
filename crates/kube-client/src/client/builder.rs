//! Building a client: from a configuration, a kubeconfig file, the environment, or a connection made elsewhere.

use std::fmt;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::sync::{Arc, Once};

use http::{HeaderValue, header};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::client::Client;
use crate::client::connect::connect;
use crate::client::limit::Tune;
use crate::crd::CrdOptions;
use crate::environment::{Environment, WatchErrorHandler};
use crate::error::{ClientError, WatchError};
use crate::filter::ObjectFilter;
use crate::informer::InformerId;
use crate::informer::options::Namespaces;
use crate::informer::reflector::{Helpers, Packed};
use crate::informer::restriction::check;

/// Builds a [`Client`]; made by [`Client::builder`].
///
/// ```no_run
/// # async fn example() -> Result<(), kube_client::ClientError> {
/// use std::num::{NonZeroU32, NonZeroUsize};
/// use kube_client::Client;
///
/// let client = Client::builder()
///     .kubeconfig("/etc/cluster/kubeconfig", Some("admin@cluster"))
///     .cluster_id("cluster")
///     .user_agent("pod-controller/1.0")
///     .qps(NonZeroU32::new(50).expect("not zero"), NonZeroU32::new(100).expect("not zero"))
///     .build()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct ClientBuilder {
    source: Source,
    cluster_id: Option<String>,
    user_agent: Option<String>,
    qps: Option<(NonZeroU32, NonZeroU32)>,
    compression: Option<bool>,
    decode_threads: Option<NonZeroUsize>,
    on_watch_error: Option<WatchErrorHandler>,
    namespaces: Namespaces,
    object_filter: Option<Arc<dyn ObjectFilter>>,
    crds: CrdOptions,
}

#[derive(Default)]
enum Source {
    #[default]
    Infer,
    Config(Box<kube::Config>),
    File {
        path: PathBuf,
        context: Option<String>,
    },
}

impl ClientBuilder {
    /// Uses this configuration.
    #[must_use]
    pub fn config(mut self, config: kube::Config) -> Self {
        self.source = Source::Config(Box::new(config));
        self
    }

    /// Uses this kubeconfig file, and the named context of it or the current one.
    #[must_use]
    pub fn kubeconfig(mut self, path: impl Into<PathBuf>, context: Option<&str>) -> Self {
        self.source = Source::File {
            path: path.into(),
            context: context.map(str::to_owned),
        };
        self
    }

    /// Names the cluster in logs and metrics. Default: `default`.
    #[must_use]
    pub fn cluster_id(mut self, id: impl Into<String>) -> Self {
        self.cluster_id = Some(id.into());
        self
    }

    /// The User-Agent header of every request; the server takes the default field manager from the part up to the first
    /// slash. Default: `PROGRAM/unknown (linux/x86_64) watershed/0.1.0` with the name of the executable and the system it
    /// runs on, unless the configuration has a header of its own; none over a connection that was made elsewhere.
    #[must_use]
    pub fn user_agent(mut self, value: impl Into<String>) -> Self {
        self.user_agent = Some(value.into());
        self
    }

    /// How many threads at a time decode the lists of this client's informers: the informer's own task, and threads that the
    /// runtime keeps for [work that blocks](tokio::task::spawn_blocking). Default: 1, its own task alone; at most 8.
    ///
    /// A program starts with its largest lists, and decoding them takes longer than anything else: with two threads a list of whole
    /// pods comes in little more than half of the time. Lists of less than 64 KiB are not shared out, and events of a watch are always
    /// decoded one after the other. What objects come to, and in which order, is the same. A shutdown waits for the pieces that other
    /// threads are at: about 64 KiB of text each, or one object that is larger.
    ///
    /// The price: code of the type and of a [`Transform`](crate::Transform) runs on several threads at a time; and allocators that
    /// keep what is freed for the thread that asked for it, as glibc's does, hold on to more: after each of 20,000 pods had changed
    /// twice, about a quarter more than with one thread.
    ///
    #[must_use]
    pub fn decode_threads(mut self, threads: NonZeroUsize) -> Self {
        self.decode_threads = Some(threads);
        self
    }

    /// Limits this client to so many requests per second, after a burst. Requests over the limit wait: those of informers
    /// (lists, pages and the opening of watches), of discovery, and those made through [`Client::api`] and
    /// [`Client::kube`] all count alike. Default: no limit, the server's own flow control decides.
    #[must_use]
    pub fn qps(mut self, per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        self.qps = Some((per_second, burst));
        self
    }

    /// Whether informers ask for large answers packed with gzip, as client-go does. A server packs lists and streaming
    /// lists of more than 128 KiB, to about a tenth; plain watches are never packed. It saves network and costs processor
    /// time on both sides: turn it off where the API server is near. Default: on, unless the configuration says
    /// `disable-compression`.
    ///
    /// Over a connection that was made elsewhere ([`build_with`](Self::build_with)) only paged lists are asked for so.
    #[must_use]
    pub fn compression(mut self, on: bool) -> Self {
        self.compression = Some(on);
        self
    }

    /// Called with each failure of each informer, on the informer's task: it must not block.
    #[must_use]
    pub fn watch_error_handler(mut self, handler: impl Fn(&InformerId, &WatchError) + Send + Sync + 'static) -> Self {
        self.on_watch_error = Some(Arc::new(handler));
        self
    }

    /// Restricts every informer of a namespaced kind to these namespaces: one that is asked to cover all covers these, and
    /// asking for another one is an error. For programs that may read only some namespaces. Cluster-scoped kinds are not
    /// affected, nor are single requests (`Client::api`, `Client::kube`). Default: all.
    #[must_use]
    pub fn namespaces(mut self, namespaces: Namespaces) -> Self {
        self.namespaces = namespaces;
        self
    }

    /// The filter that every [`View`](crate::View) of a kind that lives in namespaces applies, and that of the namespaces
    /// themselves. Informers are unfiltered.
    #[must_use]
    pub fn object_filter(mut self, filter: Arc<dyn ObjectFilter>) -> Self {
        self.object_filter = Some(filter);
        self
    }

    /// Which custom kinds the [CRD watcher](Client::crd_watcher) counts as known. Default: all.
    #[must_use]
    pub fn crds(mut self, options: CrdOptions) -> Self {
        self.crds = options;
        self
    }

    /// Reads the configuration and builds the client. The cluster is not contacted. The current runtime is [where the client
    /// runs](crate#where-it-runs).
    ///
    /// Connections have TCP keepalive of 30 s, so that a peer that is gone is noticed while a watch is quiet; through a proxy
    /// they are made by kube, without it.
    ///
    /// # Errors
    ///
    /// [`ClientError`] says what is missing or malformed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn build(mut self) -> Result<Client, ClientError> {
        // Building the HTTP client spawns on the current runtime.
        Handle::try_current().map_err(|_| ClientError::NoRuntime)?;
        let config = match std::mem::take(&mut self.source) {
            Source::Infer => kube::Config::infer().await.map_err(ClientError::Infer)?,
            Source::Config(config) => *config,
            Source::File { path, context } => {
                let failed = |source| ClientError::Kubeconfig {
                    path: path.display().to_string(),
                    source,
                };
                let file = Kubeconfig::read_from(&path).map_err(failed)?;
                let options = KubeConfigOptions {
                    context,
                    ..KubeConfigOptions::default()
                };
                kube::Config::from_custom_kubeconfig(file, &options)
                    .await
                    .map_err(failed)?
            }
        };
        if self.user_agent.is_none() && !config.headers.iter().any(|(name, _)| name == header::USER_AGENT) {
            self.user_agent = Some(default_user_agent());
        }
        let tune = self.tune()?;
        let packed = if self.compression.unwrap_or(!config.disable_compression) {
            Packed::All
        } else {
            Packed::Nothing
        };
        // Informers pace and report their own retries, so theirs is a connection that does not retry by itself. They
        // unpack by themselves, too: kube's own layer ends after the first of a streaming list's many gzip members.
        let mut quiet = config.clone();
        quiet.default_retry = false;
        quiet.disable_compression = true;
        quiet.read_timeout = None; // a watch may be silent for long; the informer knows how long
        let connect = |config| connect(config).map_err(|error| ClientError::Build(Box::new(error)));
        let kube = tune.wrap(connect(&config)?);
        let informers = tune.unlimited().wrap(connect(&quiet)?);
        self.finish(kube, informers, tune, packed)
    }

    /// Builds the client over a connection that was made elsewhere. The current runtime is [where the client
    /// runs](crate#where-it-runs); the connection may have another.
    ///
    /// # Errors
    ///
    /// [`ClientError::NoRuntime`] outside of a tokio runtime. [`ClientError::UserAgent`], [`ClientError::Crds`],
    /// [`ClientError::NoNamespaces`] and [`ClientError::InvalidNamespace`] for options that cannot mean anything.
    pub fn build_with(self, kube: kube::Client) -> Result<Client, ClientError> {
        Handle::try_current().map_err(|_| ClientError::NoRuntime)?;
        let tune = self.tune()?;
        let informers = tune.unlimited().wrap(kube.clone());
        let kube = tune.wrap(kube);
        let packed = match self.compression {
            Some(false) => Packed::Nothing,
            None | Some(true) => Packed::Lists,
        };
        self.finish(kube, informers, tune, packed)
    }

    fn tune(&self) -> Result<Tune, ClientError> {
        let invalid = |value: &String| ClientError::UserAgent { value: value.clone() };
        let user_agent = self
            .user_agent
            .as_ref()
            .map(|value| HeaderValue::from_str(value).map_err(|_| invalid(value)))
            .transpose()?;
        Ok(Tune::new(user_agent, self.qps))
    }

    fn finish(
        self,
        kube: kube::Client,
        informers: kube::Client,
        limit: Tune,
        packed: Packed,
    ) -> Result<Client, ClientError> {
        let runtime = Handle::try_current().map_err(|_| ClientError::NoRuntime)?;
        let crds = self.crds.check().map_err(ClientError::Crds)?;
        check(&self.namespaces)?;
        let env = Environment {
            kube: informers,
            limit,
            namespaces: self.namespaces,
            packed,
            cluster: Arc::from(self.cluster_id.as_deref().unwrap_or("default")),
            on_watch_error: self.on_watch_error,
            helpers: Helpers::new(self.decode_threads.unwrap_or(NonZeroUsize::MIN)),
            changed: Arc::new(Notify::new()),
            described: Once::new(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            runtime,
        };
        let client = Client::from_parts(kube, env, crds, self.object_filter);
        if let Some(filter) = client.object_filter() {
            filter.attach(&client.informers()).map_err(ClientError::ObjectFilter)?;
        }
        Ok(client)
    }
}

/// The program, the system and this crate, as client-go's programs say it: the server takes the part up to the slash as the
/// name of the field manager.
fn default_user_agent() -> String {
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(|path| path.file_stem()?.to_str());
    let plain = |c: char| if c.is_ascii_graphic() && c != '/' { c } else { '_' };
    let program: String = program.unwrap_or("unknown").chars().map(plain).collect();
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    format!(
        "{program}/unknown ({os}/{arch}) watershed/{}",
        env!("CARGO_PKG_VERSION")
    )
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("cluster_id", &self.cluster_id)
            .field("user_agent", &self.user_agent)
            .field("qps", &self.qps)
            .field("compression", &self.compression)
            .field("decode_threads", &self.decode_threads)
            .finish_non_exhaustive()
    }
}
