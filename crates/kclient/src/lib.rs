//! Typed Kubernetes clients, event handlers and a rate-limited work queue: what a controller is made of.
//!
//! - [`Client`] reads one kind from the shared informer, synchronously, and writes to the API server. Its faces are the
//!   object-safe traits [`Reader`], [`Informer`] and [`Writer`]; code that takes `impl Reader<Pod>` or `&dyn Writer<Pod>`
//!   is tested without a server, with the mocks of feature `mock`.
//! - [`Filter`] says what a client shows: selectors of the server, and object filters that may change their mind at run time,
//!   such as [`DiscoveryNamespaces`]. [`Client::delayed`] is a client of a kind that may not be installed.
//! - [`WriterExt`] has what controllers write by: updates that are tried again, create or update, ensure that it is absent, apply.
//!   [`finalizer`] holds objects back until they are cleaned up after, [`owner`] says whose an object is.
//! - [`handler`] turns events into keys in a queue.
//! - [`queue`] reconciles keys: retries with back-off, priorities, clean stop. It knows nothing of Kubernetes, and with
//!   `default-features = false, features = ["queue"]` it is all there is in this crate.
//! - `testing` (feature `testing`) has what tests of a controller need, on an API server in memory.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use k8s_openapi::api::core::v1::Pod;
//! use kclient::handler::QueueHandlers;
//! use kclient::queue::{Action, Queue};
//! use kclient::{Client, HandlerOptions, Informer, Reader};
//! use tokio_util::sync::CancellationToken;
//!
//! let (cluster, stop) = (kube_client::Client::try_default().await?, CancellationToken::new());
//! let pods = Client::<Pod>::new(&cluster)?;
//! let queue = Queue::builder("pods")
//!     .reconciler({
//!         let pods = pods.clone();
//!         move |key| {
//!             let pod = pods.get(&key);
//!             async move {
//!                 println!("{key} is {}", if pod.is_some() { "there" } else { "gone" });
//!                 Ok(Action::Done)
//!             }
//!         }
//!     })
//!     .build();
//! pods.add_handler(queue.handler::<Pod>().boxed(), HandlerOptions::named("pods"));
//!
//! cluster.run_and_wait(&stop).await?; // the cache is filled
//! pods.synced().await?; // and the queue knows every object
//! queue.run(&stop).await?;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "client"),
    allow(
        rustdoc::broken_intra_doc_links,
        reason = "links to what is not there without the clients"
    )
)]

#[cfg(feature = "client")]
mod client;
#[cfg(feature = "client")]
mod ext;
#[cfg(feature = "client")]
mod filter;
#[cfg(feature = "client")]
pub mod finalizer;
#[cfg(feature = "client")]
pub mod handler;
#[cfg(feature = "mock")]
pub mod mock;
#[cfg(feature = "client")]
mod namespaces;
#[cfg(feature = "client")]
pub mod owner;
#[cfg(feature = "queue")]
pub mod queue;
#[cfg(feature = "queue")]
mod sync;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "client")]
mod traits;
#[cfg(feature = "client")]
mod write;

#[cfg(feature = "client")]
pub use client::{Client, ReadClient, WriteClient};
#[cfg(feature = "client")]
pub use ext::{InformerExt, WriterExt};
#[cfg(feature = "client")]
pub use filter::Filter;
#[cfg(feature = "client")]
pub use kube::api::{DeleteParams, PatchParams, PostParams, Preconditions, PropagationPolicy, ValidationDirective};
/// Which objects a list or an informer covers, by their labels.
#[cfg(feature = "client")]
pub use kube::core::Selector;
#[cfg(feature = "client")]
pub use kube_client::{
    Activation, BlockingHandler, Event, EventHandler, HandlerOptions, Index, IndexDef, Namespaces, Object, ObjectKey,
    RegisterError, Registration, Scope, Stopped, Transform, View,
};
#[cfg(feature = "client")]
pub use namespaces::{DiscoveryNamespaces, SelectorError};
#[cfg(feature = "client")]
pub use traits::{Informer, ReadWrite, Reader, Writer};
#[cfg(feature = "client")]
pub use write::{
    Absence, Deleted, EditOutcome, Operation, Outcome, Patch, Selection, Subresource, SubresourceCall, WriteError,
    ignore_not_found,
};

/// The example of the README, compiled.
#[cfg(all(doctest, feature = "queue"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// The examples of the guide, compiled.
#[cfg(all(doctest, feature = "queue"))]
#[doc = include_str!("../../../docs/work-queue.md")]
struct Guide;
