//! One Kubernetes client per process: shared informers with a single watch per kind.
//!
//! [`Client`] bundles what shares one connection to one cluster. Its informer factory gives an [`Informer`] per kind:
//! a cache that is kept current by one list and watch, read synchronously, with secondary [`Index`]es and any number of
//! event handlers. However many parts of a program ask for a kind, the server sees one watch.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use k8s_openapi::api::core::v1::Node;
//! use kube_client::{Client, Event, HandlerOptions, InformerOptions, SyncOptions, on_event};
//! use tokio_util::sync::CancellationToken;
//!
//! // `Client::try_default().await?` takes kubeconfig or service account; this one is in memory.
//! let server = fake_apiserver::FakeApiServer::new();
//! server.load(&serde_json::json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}))?;
//! let client = Client::new(kube::Client::new(server.service(), "default"))?;
//!
//! // Construction starts nothing.
//! let nodes = client.informers().typed::<Node>(InformerOptions::default())?;
//! let watching = nodes.add_handler(
//!     on_event(|event: &Event<Node>| println!("{event:?}")),
//!     HandlerOptions::named("print"),
//! );
//!
//! // Start, wait for the caches, then for the handler to have seen the initial state.
//! let stop = CancellationToken::new();
//! client.run_and_wait_with(&stop, SyncOptions::fail_fast()).await?;
//! watching.synced().await?;
//! assert_eq!(nodes.get(&"n1".parse()?).and_then(|node| node.metadata.name.clone()).as_deref(), Some("n1"));
//!
//! // Every task has ended when this returns.
//! client.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! The layers above, `kclient` and `krt`, are what most controllers use.
//!
//! # What a program can rely on
//!
//! Three tables say what happens, case by case: [what a handler sees](EventHandler#what-a-handler-sees), [how an informer goes
//! on](recovery#what-follows-what) after each answer of the server, and [which kinds are known](#what-the-server-serves).
//! [`Informer`] says what its reads promise, and how long it lives.
//!
//! # What the server serves
//!
//! [`Client::discovery`] maps kinds to resources and back, by as much as is known of them: [`Lookup`] takes a kind, a plural or
//! any name that people type, with or without group and version. It asks the server on first use, remembers the answer, and
//! asks again on a miss, at most once in 5 s however many lookups miss. A group that does not answer is named and hides no
//! other.
//!
//! [`Client::crd_watcher`] follows which kinds are there *now*. It keeps one slim informer of custom resource definitions,
//! from the moment that somebody asks about a kind. What a program sees:
//!
//! | what happens | `known` | a callback that waits | a subscriber, a call on changes |
//! | --- | --- | --- | --- |
//! | nothing has been read yet | false | waits | nothing |
//! | definition created, not established | false | waits | nothing: `Unknown` as before |
//! | established, and the version is served | true | called once | `Known` |
//! | definition changed, version still served | true | | nothing |
//! | version no longer served | false | | `Unknown` |
//! | served again before the subscriber looked | true | | `Unknown`, then `Known` |
//! | definition being deleted, objects still served | true | | nothing |
//! | definition gone | false | | `Unknown` |
//! | another definition of the name, seen late | true | | `Unknown`, then `Known` |
//! | definition ignored, or below its minimum version | false | waits | `Unknown` if it was known |
//! | no definition, but discovery lists the kind (built-in, aggregated) | true | called once | `Known` |
//! | the kind's group cannot be asked (aggregated API that is down) | as it was | waits | nothing |
//! | definitions cannot be read (403) | as discovery says, asked every 30 s | called once it lists the kind | likewise |
//! | and then other failures of theirs | likewise, until all were read anew | | |
//! | the client stops | as before | dropped uncalled | ends |
//!
//! # Which namespaces and objects a program sees
//!
//! [`ClientBuilder::namespaces`] restricts every informer of a namespaced kind, for programs that may read only some
//! namespaces: one that covers all then covers these, another namespace is an error at registration, cluster-scoped kinds
//! are not affected. Of a dynamic kind the scope has to be [said](InformerOptions::scope), or known from the server, where
//! namespaces matter. [`ObjectFilter`] decides per object and can change its mind; it applies to what is asked for as a
//! [`View`], the informer below shows everything.
//!
//! # Memory
//!
//! A cache costs what its type keeps: a whole `Pod` some 20 KB, a *slim* type (a struct of your own over
//! [`slim::metadata`]) between 1 and 2 KB, a *tiny* one (a direct implementation of [`Object`]) about 500 bytes. The module [`slim`]
//! shows how such types are written, `docs/memory.md` in the repository which one to take.
//!
//! # Where it runs
//!
//! Everything of a client, its connections, reflectors and handlers (but a [`BlockingHandler`]'s thread), runs on the tokio
//! runtime in which it was built. Most programs need not care. In one that follows floods of changes (thousands a second)
//! and has little else to do, events wander between idle workers, and what one worker's cache holds the next one has to fetch; a
//! runtime of one worker for the client alone then takes a third less processor time for each event:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = fake_apiserver::FakeApiServer::new();
//! # let kube_config = || kube::Client::new(server.service(), "default");
//! // Shut the client down before this runtime is dropped.
//! let informers = tokio::runtime::Builder::new_multi_thread()
//!     .worker_threads(1)
//!     .thread_name("informers")
//!     .enable_all()
//!     .build()?;
//! let client = informers.block_on(async { kube_client::Client::new(kube_config()) })?;
//!
//! // Used from anywhere, as any other client.
//! let nodes = client.informers().typed::<k8s_openapi::api::core::v1::Node>(Default::default())?;
//! let main = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! main.block_on(async {
//!     client.run_and_wait(&tokio_util::sync::CancellationToken::new()).await?;
//!     assert_eq!(nodes.len(), 0);
//!     client.shutdown().await;
//!     Ok(())
//! })
//! # }
//! ```
//!
//! A program that starts with large lists and has processors to spare gets them sooner with
//! [`ClientBuilder::decode_threads`]: threads of the runtime's for blocking work then decode them too.
//!
//! # What it tells of itself
//!
//! [`Client::stats`] is the state of every informer and handler. The same goes to whatever recorder of the `metrics` facade the
//! program installs before its client, under names that `docs/metrics.md` lists. Logs are `tracing` events in spans with
//! the fields `gvr`, `informer` and `cluster`; handlers run inside such a span too. Each failure also goes to
//! [`ClientBuilder::watch_error_handler`].
//!
//! # Tests
//!
//! Feature `fake` brings `Client::fake`, this client over an in-memory API server, and the module `testing`: a client that
//! asserts that it leaves nothing behind, faults, a log of events, `assert_eventually`.

#![forbid(unsafe_code)]

mod client;
mod crd;
mod decode;
mod discovery;
mod environment;
mod error;
mod event;
mod filter;
mod informer;
mod key;
mod object;
pub mod recovery;
#[cfg(test)]
mod sample;
mod selector;
mod serialize;
pub mod slim;
mod sync;
#[cfg(any(test, feature = "fake"))]
pub mod testing;

pub use crate::client::{Client, ClientBuilder, Stats, SyncOptions};
#[cfg(feature = "fake")]
pub use crate::client::{FakeClientBuilder, FakeError};
pub use crate::crd::{
    CrdOptions, CrdOptionsError, CrdSource, CrdWatcher, CrdWatcherStats, KindGuard, KindState, KindStatus,
    KindSubscription,
};
pub use crate::discovery::{Discovery, DiscoveryError, Lookup, ServedApis, ServedResource, UnavailableGroup};
pub use crate::error::{
    BlockedInformer, CaughtUpError, ClientError, IndexConflict, RegisterError, Step, Stopped, SyncError,
    TransformConflict, WatchError, WatchErrorKind,
};
pub use crate::event::Event;
pub use crate::filter::{
    FilterChange, FilterSubscriber, FilterSubscribers, FilterSubscription, NamespaceFilter, ObjectFilter,
};
pub use crate::informer::dispatch::HandlerStats;
pub use crate::informer::factory::Informers;
pub use crate::informer::handler::{
    BlockingHandler, EventHandler, Handled, HandlerOptions, RunsOn, Steps, on_batch, on_batch_async, on_event,
    on_event_async,
};
pub use crate::informer::index::{Index, IndexDef};
pub use crate::informer::options::{InformerOptions, InitialList, ListMode, Namespaces, OnUndecodable};
pub use crate::informer::presence::Activation;
pub use crate::informer::registration::{Registration, RegistrationGuard};
pub use crate::informer::status::{InformerStats, NamespaceStats, Phase};
pub use crate::informer::stream::EventStream;
pub use crate::informer::transform::Transform;
pub use crate::informer::view::{View, ViewOptions};
pub use crate::informer::{Informer, InformerId};
pub use crate::key::{ObjectKey, ParseKeyError};
pub use crate::object::{Labels, Metadata, Object, Representation, Scope};
pub use crate::selector::{LabelSelectorError, check_labels};
/// The in-memory API server that fake clients talk to.
#[cfg(feature = "fake")]
pub use fake_apiserver;

/// The example of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
