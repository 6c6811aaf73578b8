//! Kubernetes: objects of an API server as sources, and what the types of Kubernetes tell about themselves.
//!
//! Owns everything of this crate that knows Kubernetes: the traits of [`crate::traits`] for its types (`objects`), their label
//! selectors (`selecting`), the bridge from a client of [`kclient`] to a collection (`informer`), and the way back of statuses (`writer`,
//! [`conditions`]). The engine knows none of it.
//!
//! # Types
//!
//! | trait | implemented for |
//! | --- | --- |
//! | [`Keyed`](crate::Keyed), [`Named`](crate::Named), [`Namespaced`](crate::Namespaced) | every [`Object`](kclient::Object): built-in types, derived custom resources, slim and tiny types, `DynamicObject` |
//! | [`Labeled`](crate::Labeled) | every [`kube::Resource`] among them; a tiny type implements it if it keeps its labels as a map |
//! | [`Selecting`](crate::Selecting) | the built-in kinds that select pods; see [`selector_of`] for kinds of your own |
//!
//! An object in no namespace has the empty one, and its name as its key; others have `namespace/name`.
//!
//! # Sources
//!
//! ```
//! use k8s_openapi::api::core::v1::{Pod, Service};
//! use kclient::{Client, Filter};
//! use krt::testing::Stepper;
//! use krt::{Krt, Text};
//! # use serde_json::json;
//! use tokio_util::sync::CancellationToken;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let meta = |name: &str| json!({"name": name, "namespace": "shop", "labels": {"app": name}});
//! # let cluster = kube_client::Client::fake([
//! #     json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta("web"), "spec": {"containers": [{"name": "c", "image": "i"}]}}),
//! #     json!({"apiVersion": "v1", "kind": "Service", "metadata": meta("front"), "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}),
//! # ])?;
//! let krt = Krt::builder("shop").build();
//! let pods = krt.informer(&Client::<Pod>::new(&cluster)?);
//! let services = krt.from_client::<Service>(&cluster, Filter::default())?;
//! let selected = krt.collection("selected", &pods, move |cx, pod| {
//!     let labels = pod.metadata.labels.clone().unwrap_or_default();
//!     let services = cx.fetch(services.query().selecting_non_empty(&labels));
//!     Some(Text(format!("{} in {} services", pod.metadata.name.as_deref()?, services.len())))
//! });
//! # let mut stepper = Stepper::new(&krt)?;
//! // A program calls `krt.start()?` here.
//! cluster.run_and_wait(&CancellationToken::new()).await?;
//! # while !selected.has_synced() {
//! #     tokio::task::yield_now().await;
//! #     stepper.settle();
//! # }
//! selected.synced().await;
//! assert!(selected.get("web in 1 services").is_some());
//! # cluster.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Statuses
//!
//! What a [status collection](crate::Krt::status_collection) says is written to the API server by a [`StatusWriter`].

pub mod conditions;
mod informer;
mod objects;
mod selecting;
mod writer;

pub use informer::InformerCollection;
pub use selecting::selector_of;
pub use writer::{StatusStats, StatusWriter, StatusWriterBuilder};
