//! Declarative collections over Kubernetes objects: derived state that is recomputed exactly when it must be.
//!
//! A controller describes each output as a pure function of one input plus whatever it fetches; the engine records what
//! was fetched, finds who is affected by a change, recomputes only those, compares, and tells the rest.
//!
//! # Status
//!
//! This crate has its module tree and no operator yet: nothing in it can be used. The layers below it,
//! [`kclient`](https://docs.rs/kclient) and [`kube-client`](https://docs.rs/kube-client), stand on their own.
//!
//! # Layout
//!
//! | module | holds |
//! | --- | --- |
//! | `engine` | the deterministic core: nodes, epochs, stores, dependencies, handlers; knows neither Kubernetes nor tokio |
//! | `collection`, `singleton`, `statics`, `join`, `index`, `status` | one file per kind of collection that users create |
//! | `fetch`, `filter` | what a transformation may read, and how the reads are narrowed |
//! | `trigger`, `files` | sources other than the API server |
//! | `kube` | the bridge: a typed client as a source |
//! | `debug` | dump, graph, "why", purity guard |
//! | `testing` | what users need to test their transformations |
#![forbid(unsafe_code)]

mod collection;
mod debug;
mod engine;
mod fetch;
mod files;
mod filter;
mod index;
mod join;
mod kube;
mod singleton;
mod statics;
mod status;
mod testing;
mod trigger;
