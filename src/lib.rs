//! Watershed: the Kubernetes controller stack, in layers.
//!
//! This package only re-exports the layers, so that one dependency and one version serve a whole controller. Pick the
//! lowest layer that does the job:
//!
//! - [`kube_client`]: one client per cluster, shared informers with a single watch per kind.
//! - [`kclient`]: typed clients with cached reads and direct writes, event handlers, and a rate-limited work queue.
//! - [`krt`]: declarative collections derived from the above.
#![forbid(unsafe_code)]

pub use kclient;
pub use krt;
pub use kube_client;
