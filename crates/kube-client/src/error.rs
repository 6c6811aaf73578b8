//! The error types of the public surface: building a client, waiting for sync, registering, and what list and watch
//! meet.

use std::error::Error as StdError;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::informer::InformerId;
use crate::informer::options::Namespaces;
use crate::selector::LabelSelectorError;
use crate::serialize::optional_text;

/// A client could not be built. A retry cannot help before the environment or the configuration changes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// There is no tokio runtime here. Build the client inside `#[tokio::main]`, `Runtime::block_on` or
    /// `Runtime::enter`.
    #[error("a client must be built inside a tokio runtime")]
    NoRuntime,
    /// Neither a kubeconfig nor an in-cluster environment could be read.
    #[error("cannot find out how to reach the cluster (kubeconfig or in-cluster environment)")]
    Infer(#[source] kube::config::InferConfigError),
    /// The kubeconfig that was named could not be read, or has no such context.
    #[error("cannot use kubeconfig {path}")]
    Kubeconfig {
        /// The file.
        path: String,
        /// What is wrong with it.
        #[source]
        source: kube::config::KubeconfigError,
    },
    /// The configuration was read, but no HTTP client can be made of it (certificates, credentials, proxy).
    #[error("cannot connect with this configuration")]
    Build(#[source] Box<kube::Error>),
    /// The options of the CRD watcher cannot mean anything.
    #[error("cannot use the options of the CRD watcher")]
    Crds(#[source] crate::crd::CrdOptionsError),
    /// The object filter could not register what it has to learn from.
    #[error("cannot use the object filter")]
    ObjectFilter(#[source] RegisterError),
    /// The client is restricted to an empty set of namespaces. (Leave the restriction out for all of them.)
    #[error("cannot restrict the client to an empty set of namespaces")]
    NoNamespaces,
    /// The client is restricted to a namespace that cannot exist. (Empty is not "all": leave the restriction out for that.)
    #[error("cannot restrict the client to namespace {namespace:?}: no namespace can have this name")]
    InvalidNamespace {
        /// What was given.
        namespace: String,
    },
    /// The user agent has characters that no HTTP header may carry.
    #[error("not a valid user agent: {value:?}")]
    UserAgent {
        /// What was given.
        value: String,
    },
}

/// The client or informer was stopped. Final: a stopped client never starts again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stopped")]
pub struct Stopped;

/// The cache has not been seen to catch up with a write. The write itself is not affected.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CaughtUpError {
    /// The time was up. Waiting again may help: the informer may be disconnected, which its status tells, or the server may
    /// be slow. Of an object that its selectors leave out, only a bookmark tells it, about one a minute.
    #[error("{informer} has not seen {what} within {waited:?}, it is at resource version {version:?}")]
    TimedOut {
        /// Which informer.
        informer: Box<InformerId>,
        /// What was waited for.
        what: String,
        /// How long.
        waited: Duration,
        /// How far the cache is; empty if it is not filled.
        version: String,
    },
    /// The informer was stopped before. Final.
    #[error("{informer} was stopped before it had caught up")]
    Stopped {
        /// Which informer.
        informer: Box<InformerId>,
    },
}

/// The caches did not fill.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// The stop token was cancelled, or the client was shut down, before every cache was filled.
    #[error("stopped before every cache was filled")]
    Stopped,
    /// One of the caches that [`wait_for_cache_sync`](crate::Client::wait_for_cache_sync) waits for was stopped before it was
    /// filled, while the client goes on: its informer or handler was removed. A retry cannot help.
    #[error("{wait}: {cache} was stopped before it had synced")]
    CacheStopped {
        /// The name of the wait.
        wait: String,
        /// The name of the cache.
        cache: String,
    },
    /// Something that waiting will hardly mend keeps caches empty. The informers go on trying in the background, so
    /// a later call may succeed. Only returned on request: [`SyncOptions::fail_fast`](crate::SyncOptions::fail_fast); and
    /// without it for kinds that the server has but cannot list or watch
    /// ([`NotSupported`](WatchErrorKind::NotSupported)), which is final.
    #[error("{}", blocked_text(.informers))]
    Blocked {
        /// Each informer that is blocked, and why. One over several namespaces stands here once for each of them
        /// that is blocked; [`WatchError::namespace`] is its name.
        informers: Vec<BlockedInformer>,
    },
}

fn blocked_text(informers: &[BlockedInformer]) -> String {
    let causes: Vec<String> = informers.iter().map(ToString::to_string).collect();
    format!("cannot fill the cache: {}", causes.join("; "))
}

/// An informer that cannot fill its cache, and why.
#[derive(Debug, Clone)]
pub struct BlockedInformer {
    /// Which informer.
    pub informer: InformerId,
    /// Its last failure.
    pub error: WatchError,
}

impl fmt::Display for BlockedInformer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.informer, self.error)
    }
}

/// What an informer was asked for contradicts what it already is. A retry cannot help; the program has to change.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// One informer cannot have two transforms: its cache is shared by everyone who asks for it.
    #[error("{0}")]
    TransformConflict(Box<TransformConflict>),
    /// The informer already has another index of this name.
    #[error("{0}")]
    IndexConflict(Box<IndexConflict>),
    /// No namespace can have this name. (Empty is not "all": leave the namespace out for that.)
    #[error("cannot watch {resource}: no namespace can be named {namespace:?}")]
    InvalidNamespace {
        /// The resource that was asked for.
        resource: String,
        /// What was given.
        namespace: String,
    },
    /// The client is restricted to other namespaces: [`ClientBuilder::namespaces`](crate::ClientBuilder::namespaces).
    #[error("cannot watch {resource}{namespaces}: the client is restricted to what is{allowed}")]
    OutsideNamespaces {
        /// The resource that was asked for.
        resource: String,
        /// The namespaces that were asked for.
        namespaces: Namespaces,
        /// Those that the client may watch.
        allowed: Namespaces,
    },
    /// Some namespaces are to be covered, and it is not known whether the kind lives in namespaces at all: its Rust type does
    /// not tell. Say it with [`InformerOptions::scope`](crate::InformerOptions::scope), or look the kind up with
    /// [`Client::discovery`](crate::Client::discovery) before.
    #[error(
        "cannot watch {resource}{namespaces}: it is not known yet whether this kind lives in namespaces (say it in the \
         options, or look it up by discovery before)"
    )]
    UnknownScope {
        /// The resource that was asked for.
        resource: String,
        /// The namespaces that are to be covered: those asked for, or those that the client is restricted to.
        namespaces: Namespaces,
    },
    /// The set of namespaces is empty, so there is nothing to watch. (Leave the namespaces out for all of them.)
    #[error("cannot watch {resource}: the set of namespaces is empty")]
    NoNamespaces {
        /// The resource that was asked for.
        resource: String,
    },
    /// The label selector is none that a server accepts, or would select something else once it is text.
    #[error("cannot watch {resource}: {labels}")]
    InvalidLabels {
        /// The resource that was asked for.
        resource: String,
        /// What is wrong with the selector.
        labels: LabelSelectorError,
    },
    /// The object filter learns what it has to know from another client. Make one for each.
    #[error("the object filter is that of another client: it learns from there what it hides, and not from {informer}")]
    ForeignFilter {
        /// The informer that it does not learn from.
        informer: Box<InformerId>,
    },
    /// The registration was made on another informer, or through another client.
    #[error("the handler was registered elsewhere than on this one of {informer}")]
    ForeignRegistration {
        /// The informer that was asked to remove it.
        informer: Box<InformerId>,
    },
}

/// Two transforms for one informer.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "conflicting transforms for {informer}: {} asked for at {first_at}, {} at {second_at}{}",
    transform_text(.first.as_deref()),
    transform_text(.second.as_deref()),
    made_twice(first_at, second_at)
)]
#[non_exhaustive]
pub struct TransformConflict {
    /// Which informer.
    pub informer: InformerId,
    /// The name of the transform it has, if any.
    pub first: Option<String>,
    /// Where that was asked for.
    pub first_at: &'static Location<'static>,
    /// The name of the transform now asked for, if any.
    pub second: Option<String>,
    /// Where that was asked for.
    pub second_at: &'static Location<'static>,
}

/// Two definitions of one index.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "conflicting definitions of index {name:?} on {informer}: defined at {first_at} and at {second_at}{}",
    made_twice(first_at, second_at)
)]
#[non_exhaustive]
pub struct IndexConflict {
    /// Which informer.
    pub informer: InformerId,
    /// The name of the index.
    pub name: String,
    /// Where the first definition was made.
    pub first_at: &'static Location<'static>,
    /// Where the second definition was made.
    pub second_at: &'static Location<'static>,
}

/// What is to be done where a definition conflicts with itself.
fn made_twice(first_at: &Location<'_>, second_at: &Location<'_>) -> &'static str {
    if first_at == second_at {
        " (what captures something is the same only as a clone: make it once and clone it)"
    } else {
        ""
    }
}

fn transform_text(name: Option<&str>) -> String {
    name.map_or_else(|| "no transform".to_owned(), |name| format!("transform {name:?}"))
}

/// The step in which an informer failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Step {
    /// The list, paged or streaming.
    List,
    /// The watch after it.
    Watch,
    /// An object came that is not one of the Rust type.
    Decode,
    /// What the server serves was asked for.
    Discover,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::List => "list",
            Step::Watch => "watch",
            Step::Decode => "decode",
            Step::Discover => "discover",
        })
    }
}

/// Why a list or watch failed, in the classes that a program can act on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchErrorKind {
    /// 401: the credentials are missing or not accepted.
    Unauthorized,
    /// 403: the credentials may not list or watch this kind here.
    Forbidden,
    /// 404: the server does not know this kind (its CRD is not installed, or not in this version).
    NotFound,
    /// 400 or 422: the server refuses the request itself, for example a field selector it does not know.
    Refused,
    /// 405: the server has this kind but cannot list or watch it. Final.
    NotSupported,
    /// 410: the resource version is too old; the informer lists again.
    Expired,
    /// 504 with cause `ResourceVersionTooLarge`: this server has not seen that resource version yet.
    VersionTooLarge,
    /// 429: the server asks to come back later.
    TooManyRequests {
        /// After this long, if it said. The informer waits no longer than 5 min, and backs off as usual if it is zero.
        retry_after: Option<Duration>,
    },
    /// Another status of the server.
    Server {
        /// The HTTP status, or the code of an ERROR event.
        code: u16,
    },
    /// No connection: refused, name not resolved, reset, timed out.
    Unreachable,
    /// The connection stands but TLS failed: an unknown authority, a wrong name, an expired certificate.
    Tls,
    /// What came is not a list or a watch stream.
    Protocol,
    /// The answer is no JSON at all, such as a web page: something else than a Kubernetes API server is there.
    NotKubernetes,
    /// Nothing came within the bounds of the protocol: a silent connection.
    Silent,
    /// A list without an end. A streaming list that goes on and on without its end bookmark: the informer lists again, the
    /// second time in pages, if it may ([`ListMode::Auto`](crate::ListMode::Auto)). Or a page that trickles without anything new,
    /// pages that lead to themselves or to ever more, a list that takes more than half an hour: it lists again after a pause.
    Unfinished,
    /// The server does not begin to answer a request: it hangs, or something else listens there.
    NoAnswer,
    /// An object is not one of the Rust type; the others are not affected.
    Undecodable,
    /// The resource version went backwards: the server's storage was restored from a backup. The cache is rebuilt.
    VersionWentBack,
}

impl WatchErrorKind {
    /// The class in a word or two, as metrics and statistics name it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::Refused => "refused",
            Self::NotSupported => "not_supported",
            Self::Expired => "expired",
            Self::VersionTooLarge => "version_too_large",
            Self::TooManyRequests { .. } => "too_many_requests",
            Self::Server { .. } => "server_error",
            Self::Unreachable => "unreachable",
            Self::Tls => "tls",
            Self::Protocol => "protocol",
            Self::NotKubernetes => "not_kubernetes",
            Self::Silent => "silent",
            Self::Unfinished => "unfinished",
            Self::NoAnswer => "no_answer",
            Self::Undecodable => "undecodable",
            Self::VersionWentBack => "version_went_back",
        }
    }
}

/// One failure of one informer: shown in its status, given to the watch-error handler and logged.
#[derive(Debug, Clone, thiserror::Error, Serialize)]
#[error("{}", .message)]
#[non_exhaustive]
pub struct WatchError {
    /// Which step failed.
    pub step: Step,
    /// The class of the failure.
    pub kind: WatchErrorKind,
    /// The namespace that was listed or watched; `None` if it was all of them.
    #[serde(serialize_with = "optional_text")]
    pub namespace: Option<Arc<str>>,
    /// One readable sentence with kind and cause, for example `forbidden: cannot list pods: …`.
    pub message: String,
}

impl WatchError {
    /// Whether nothing can mend it: the informer has given up.
    pub(crate) fn is_final(&self) -> bool {
        self.kind == WatchErrorKind::NotSupported
    }

    /// Whether waiting will hardly mend it: bad credentials, missing rights, a missing kind, a refused request, a
    /// server that cannot be reached or does not answer. Everything is retried with back-off all the same, but for a kind
    /// that the server cannot watch (405): that is final, as [`Phase::WatchNotSupported`](crate::Phase) says.
    pub fn is_blocking(&self) -> bool {
        matches!(
            self.kind,
            WatchErrorKind::Unauthorized
                | WatchErrorKind::Forbidden
                | WatchErrorKind::NotFound
                | WatchErrorKind::Refused
                | WatchErrorKind::NotSupported
                | WatchErrorKind::Unreachable
                | WatchErrorKind::Tls
                | WatchErrorKind::NotKubernetes
                | WatchErrorKind::NoAnswer
        )
    }
}

/// The error and all its sources in one line, skipping texts that repeat what was said.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let part = source.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        next = source.source();
    }
    text
}
