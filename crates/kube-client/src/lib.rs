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

#![forbid(unsafe_code)]

mod client;
mod decode;
mod environment;
mod error;
mod event;
mod informer;
mod key;
mod object;
#[cfg(test)]
mod sample;
pub mod slim;
mod sync;
#[cfg(any(test, feature = "fake"))]
pub mod testing;

pub use crate::client::{Client, ClientBuilder, Stats, SyncOptions};
#[cfg(feature = "fake")]
pub use crate::client::{FakeClientBuilder, FakeError};
pub use crate::error::{
    BlockedInformer, CaughtUpError, ClientError, IndexConflict, RegisterError, Step, Stopped, SyncError,
    TransformConflict, WatchError, WatchErrorKind,
};
pub use crate::event::Event;
pub use crate::informer::dispatch::HandlerStats;
pub use crate::informer::factory::Informers;
pub use crate::informer::handler::{EventHandler, Handled, HandlerOptions, on_batch, on_event, on_event_async};
pub use crate::informer::index::{Index, IndexDef};
pub use crate::informer::options::{InformerOptions, InitialList, ListMode, Namespaces, OnUndecodable};
pub use crate::informer::registration::{Registration, RegistrationGuard};
pub use crate::informer::status::{InformerStats, NamespaceStats, Phase};
pub use crate::informer::stream::EventStream;
pub use crate::informer::transform::Transform;
pub use crate::informer::{Informer, InformerId};
pub use crate::key::{ObjectKey, ParseKeyError};
pub use crate::object::{Labels, Metadata, Object, Representation, Scope};
/// The in-memory API server that fake clients talk to.
#[cfg(feature = "fake")]
pub use fake_apiserver;

/// The example of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
