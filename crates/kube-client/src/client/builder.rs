//! Building a client: from a configuration, a kubeconfig file, the environment, or a connection made elsewhere.

use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::{Arc, Once};

use http::HeaderValue;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::client::Client;
use crate::client::limit::Tune;
use crate::environment::{Environment, WatchErrorHandler};
use crate::error::{ClientError, WatchError};
use crate::informer::InformerId;
use crate::informer::reflector::Packed;

/// Builds a [`Client`]; made by [`Client::builder`].
///
/// ```no_run
/// # async fn example() -> Result<(), kube_client::ClientError> {
/// use std::num::NonZeroU32;
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
    on_watch_error: Option<WatchErrorHandler>,
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

    /// The User-Agent header of every request; the server takes the default field manager from it.
    #[must_use]
    pub fn user_agent(mut self, value: impl Into<String>) -> Self {
        self.user_agent = Some(value.into());
        self
    }

    /// Limits this client to so many requests per second, after a burst. Requests over the limit wait. Default: no
    /// limit, the server's own flow control decides.
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

    /// Reads the configuration and builds the client. The cluster is not contacted.
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
        let tune = self.tune()?;
        let packed = match self.compression.unwrap_or(!config.disable_compression) {
            true => Packed::All,
            false => Packed::Nothing,
        };
        // Informers pace and report their own retries, so theirs is a connection that does not retry by itself. They
        // unpack by themselves, too: kube's own layer ends after the first of a streaming list's many gzip members.
        let mut quiet = config.clone();
        quiet.default_retry = false;
        quiet.disable_compression = true;
        let kube = connect(config, &tune)?;
        let informers = connect(quiet, &tune.unlimited())?;
        self.finish(kube, informers, tune, packed)
    }

    /// Builds the client over a connection that was made elsewhere.
    ///
    /// # Errors
    ///
    /// [`ClientError::NoRuntime`] outside of a tokio runtime, [`ClientError::UserAgent`].
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
        let env = Environment {
            kube: informers,
            limit,
            packed,
            cluster: Arc::from(self.cluster_id.as_deref().unwrap_or("default")),
            on_watch_error: self.on_watch_error,
            changed: Arc::new(Notify::new()),
            described: Once::new(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            runtime,
        };
        Ok(Client::from_parts(kube, env))
    }
}

fn connect(config: kube::Config, tune: &Tune) -> Result<kube::Client, ClientError> {
    let kube = kube::Client::try_from(config).map_err(|error| ClientError::Build(Box::new(error)))?;
    Ok(tune.wrap(kube))
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("cluster_id", &self.cluster_id)
            .field("user_agent", &self.user_agent)
            .field("qps", &self.qps)
            .field("compression", &self.compression)
            .finish_non_exhaustive()
    }
}
