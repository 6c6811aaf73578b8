//! The behaviour cases: what the layers and the in-memory API server promise, each case written once.
//!
//! Cases about an API server run on two: `fake::…` tests on the in-memory one, always; `real::…` tests, ignored by
//! default, on the kube-apiserver that `KUBECONFIG` names (`tests/apiserver` starts one). A difference between the two
//! is a bug of the in-memory server. Start with [`harness`].
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod client;
mod collections;
mod controller;
mod delayed;
mod discovery;
mod guide;
mod harness;
mod informer;
mod inventory;
mod kubectl;
mod marks;
mod mesh;
mod multi_kind;
mod operator;
mod queue;
mod runtime;
mod server;
mod service_endpoints;
mod statuses;
mod testing;
mod views;
