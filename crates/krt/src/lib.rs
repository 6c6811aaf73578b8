//! Declarative collections over Kubernetes objects: derived state that is recomputed exactly when it must be.
//!
//! A controller describes each output as a pure function of one input plus whatever it fetches; the engine records what
//! was fetched, finds who is affected by a change, recomputes only those, compares, and tells the rest.
//!
//! ```
//! use krt::{KeyRef, Keyed, Krt, Labeled, Labels, SelectorRef, Selecting};
//! use std::time::Duration;
//!
//! #[derive(PartialEq)]
//! struct Pod {
//!     name: String,
//!     namespace: String,
//!     labels: Labels,
//! }
//! #[derive(PartialEq)]
//! struct Service {
//!     name: String,
//!     namespace: String,
//!     selector: Labels,
//! }
//! #[derive(Debug, PartialEq)]
//! struct Workload {
//!     pod: String,
//!     services: Vec<String>,
//! }
//! # impl Keyed for Pod {
//! #     fn key(&self) -> KeyRef<'_> { KeyRef::namespaced(&self.namespace, &self.name) }
//! # }
//! # impl Keyed for Service {
//! #     fn key(&self) -> KeyRef<'_> { KeyRef::namespaced(&self.namespace, &self.name) }
//! # }
//! # impl Selecting for Service {
//! #     fn selector(&self) -> SelectorRef<'_> { SelectorRef::Equals(&self.selector) }
//! # }
//! # impl Keyed for Workload {
//! #     fn key(&self) -> KeyRef<'_> { KeyRef::Plain(&self.pod) }
//! # }
//! let krt = Krt::builder("mesh").build();
//! let pods = krt.static_collection::<Pod>("pods", []);
//! let services = krt.static_collection::<Service>("services", []);
//! let by_namespace = services.index_by("namespace", |service| service.namespace.clone())?;
//! let workloads = krt.collection("workloads", &pods, move |cx, pod| {
//!     let services = cx.fetch(by_namespace.at(&pod.namespace).selecting_non_empty(&pod.labels));
//!     Some(Workload {
//!         pod: pod.key().to_string(),
//!         services: services.iter().map(|service| service.name.clone()).collect(),
//!     })
//! });
//! krt.start()?;
//!
//! let labels = Labels::from([("app".into(), "web".into())]);
//! pods.update(Pod { name: "web-1".into(), namespace: "shop".into(), labels: labels.clone() });
//! services.update(Service { name: "web".into(), namespace: "shop".into(), selector: labels });
//! krt.wait_settled_blocking(Duration::from_secs(10))?;
//! assert_eq!(workloads.get("shop/web-1").unwrap().services, ["web"]);
//! # Ok::<_, krt::Error>(())
//! ```
//!
//! # Guarantees
//!
//! - *No glitch*: an output is never computed from a mix of old and new inputs; in a diamond it is computed once per epoch.
//! - *Minimal*: a transformation runs for an input only if the input or something that it fetched changed.
//! - *Gate*: an equal output is no event, and nothing downstream moves.
//! - *Consistent reads*: a [`Snapshot`] shows all collections at one epoch; plain reads show one epoch of their collection.
//! - *Handlers* get the initial state once, then the net change of each epoch, in order. A long backlog is merged by whole epochs. A slow
//!   handler blocks nobody.
//! - *Sync*: a collection is synced when its inputs and what it fetched are and its initial state is computed.
//!   [`Collection::explain_unsynced`] names what it waits for.
//! - *Teardown*: dropping or stopping frees everything.
//! - *Panics* of transformations are contained for each input, which keeps its last good output.
//! - *Cycles* are refused when they would appear, told with their path by [`Collection::errors`], allowed when they are broken, and never
//!   hang.
//!
//! Where panics abort the process (`panic = "abort"`), none of that can be contained.
//!
//! # Status
//!
//! The engine and its collections are here: sources from the API server and from files, static ones, derived ones with one or many
//! outputs for each input or with statuses, singletons, joins of fixed and of changing members, indexes and their groups, collections
//! made inside of transformations, triggers and protected state, fetches by all filters, transactions, handlers of several collections,
//! streams, and the writer that brings statuses to the API server. What is not built yet: the debugging views and metrics.
//!
//! The layers below it, [`kclient`](https://docs.rs/kclient) and [`kube-client`](https://docs.rs/kube-client), stand on their own.
//!
//! # Layout
//!
//! | module | holds |
//! | --- | --- |
//! | `engine` | the deterministic core: nodes, epochs, stores, dependencies, handlers; knows neither Kubernetes nor tokio |
//! | `krt`, `shared` | the handle of an engine, its thread and its end; what all handles share |
//! | `collection`, `singleton`, `statics`, `join`, `nested`, `status`, `index`, `group`, `trigger` | one file per kind of collection that users create |
//! | `scope` | what a transformation makes for itself |
//! | `options`, `gate` | what is said of a collection when it is made; equality that is the user's |
//! | `transaction` | writes to several sources as one |
//! | `traits`, `key`, `selector` | what a type must tell about itself |
//! | `query`, `spec`, `fetch`, `snapshot` | a query as written, as kept, inside of a transformation, outside |
//! | `event`, `handlers` | what handlers are told, and how they are registered |
//! | `epochs`, `subscription` | handlers of several collections; changes as a stream |
//! | `unsynced` | why a collection is not synced |
//! | `kube` | objects of the API server as sources, what the types of Kubernetes tell about themselves, the writer of statuses (feature `kube`) |
//! | `files` | files and folders as sources (feature `files`) |
//! | `testing` | what users need to test their transformations |
#![forbid(unsafe_code)]
#![cfg_attr(
    not(all(feature = "kube", feature = "files")),
    allow(dead_code, reason = "what only sources with an upstream use")
)]

mod collection;
mod engine;
mod epochs;
mod error;
mod event;
mod fetch;
#[cfg(feature = "files")]
pub mod files;
mod gate;
mod group;
mod handlers;
mod index;
mod join;
mod key;
mod krt;
#[cfg(feature = "kube")]
pub mod kube;
mod nested;
mod options;
mod query;
mod scope;
mod selector;
mod shared;
mod singleton;
mod snapshot;
mod spec;
mod statics;
mod status;
mod subscription;
mod sync;
pub mod testing;
#[cfg(test)]
mod tests;
mod traits;
mod transaction;
mod trigger;
mod unsynced;

pub use collection::{Collection, Stats};
pub use epochs::{Epoch, Follow, Together};
pub use error::Error;
pub use event::{Batch, Event};
pub use fetch::{Context, Fetched, Read};
#[cfg(feature = "files")]
pub use files::{FileCollection, FileSingleton};
pub use gate::WithEq;
pub use group::{Group, GroupKey, Groups};
pub use handlers::{HandlerBuilder, Registration};
pub use index::{Index, Keys};
pub use join::Join;
pub use key::KeyRef;
pub use krt::{Builder, Krt};
#[cfg(feature = "kube")]
pub use kube::{InformerCollection, StatusWriter};
pub use nested::Lend;
pub use options::Options;
pub use query::Query;
pub use scope::Scope;
pub use selector::{LabelSelector, Requirement, SelectorRef};
pub use singleton::{Singleton, StaticSingleton};
pub use snapshot::{Live, Snapshot};
pub use statics::StaticCollection;
pub use status::WithStatus;
pub use subscription::Subscription;
pub use traits::{Keyed, Labeled, Labels, Named, Namespaced, Selecting, Text};
pub use transaction::Transaction;
pub use trigger::{RecomputeProtected, Trigger};
pub use unsynced::{Unsynced, Wait};
