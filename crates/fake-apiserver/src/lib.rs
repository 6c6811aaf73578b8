//! An in-memory Kubernetes API server.
//!
//! For tests, examples and development: a service for `kube::Client` with no socket and no cluster, or (feature `http`)
//! an HTTP server on loopback for kubectl. Start at [`FakeApiServer`]; faults are [`Rule`] and [`Fault`], servers that are behind are
//! [`ServerView`].
//!
//! ```
//! use bytes::Bytes;
//! use fake_apiserver::{FakeApiServer, Verb};
//! use http_body_util::Full;
//! use tower::ServiceExt as _;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let fake = FakeApiServer::new();
//! // With the `kube` crate: `kube::Client::new(fake.service(), "default")`.
//! let request = http::Request::post("/api/v1/namespaces/default/configmaps")
//!     .body(Full::new(Bytes::from_static(br#"{"metadata": {"name": "greeting"}, "data": {"hello": "world"}}"#)))
//!     .unwrap();
//! let response = fake.service().oneshot(request).await.unwrap();
//! assert_eq!(response.status(), 201);
//!
//! let stored = fake.object("configmaps", Some("default"), "greeting").unwrap();
//! assert_eq!(stored["data"]["hello"], "world");
//! assert_eq!(fake.request_count(Verb::Create, "configmaps"), 1);
//! # }
//! ```
//!
//! # Design
//!
//! The upper half: [`storage`] is one event log with one resourceVersion and knows no HTTP; [`verbs`] turn a request
//! and the storage into an answer; [`service`] is the transport with the faults around them; [`replica`] says how much
//! of the log a view shows; [`server`] is the public handle. Response bodies are streams, and no lock is held across an await. [`controllers`] stand in for what acts on its own
//! in a cluster, on top of all that.
//!
//! The lower half of the crate knows objects and texts, and nothing of storage or HTTP:
//! [`kinds`] (which resources exist and how they behave), [`object`] (what is stored), [`codec`] (bytes in, canonical
//! bytes out), [`selector`], [`validation`], [`patch`], [`structured`] (how objects are merged, and who owns which field)
//! and [`managed_fields`]. Start reading at [`kinds`].
#![forbid(unsafe_code)]

mod answer;
mod body;
mod clock;
mod codec;
mod controllers;
mod convert;
mod crd;
mod deadline;
mod defaults;
mod digest;
mod discovery;
mod faults;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod gotext;
mod hooks;
#[cfg(feature = "http")]
mod http_server;
mod index;
mod json;
mod kinds;
mod managed_fields;
mod namespaces;
mod negotiate;
mod object;
mod openapi;
mod packed;
mod patch;
mod pretty;
mod replica;
mod request;
mod request_log;
mod route;
mod schemas;
mod selector;
mod server;
mod service;
mod services;
mod signal;
mod specs;
mod status;
mod steps;
mod storage;
mod stored;
mod structured;
mod table;
#[cfg(feature = "tls")]
mod tls;
mod told;
mod validation;
mod verbs;
mod view;

pub use body::{Body, BodyError};
pub use controllers::Controller;
pub use faults::{Cut, Fault, Rule, RuleHandle, StatusFault};
pub use replica::{HoldHandle, ServerView};
pub use request::Verb;
pub use request_log::RequestRecord;
pub use server::{BuildError, Builder, FakeApiServer, HistoryEntry, OpenWatch};
pub use service::{FakeService, ServiceError};
#[cfg(feature = "tls")]
pub use tls::{PemError, TlsError, TlsIdentity};

/// The examples of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
