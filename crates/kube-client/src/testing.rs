//! What tests of code that uses informers need: a client that asserts that it leaves nothing, faults, a record of events,
//! and a way to await facts that have no event of their own.
//!
//! | | |
//! | --- | --- |
//! | [`TestClient`] | a client, usually over an in-memory server; its [`end`](TestClient::end) asserts that no task, watch or handler is left |
//! | [`FakeApiServer`], [`ServerExt`] | the server itself: requests, open watches, objects, faults |
//! | [`Rule`], [`Fault`] | one exact misbehaviour of the server |
//! | [`EventLog`] | a handler that writes down what it is told |
//! | [`assert_eventually`] | awaits a fact, and on failure says what was seen last |
//!
//! Everything works on a paused clock (`#[tokio::test(start_paused = true)]`), and is fastest there: waits cost no time. A
//! program's `[dev-dependencies]` need feature `fake` of this crate, and `test-util` of `tokio` for the clock.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube_client::testing::{EventLog, Fault, ServerExt, TestClient, Verb, assert_eventually};
//! use kube_client::{InformerOptions, WatchErrorKind};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::time::pause();
//! let client = TestClient::fake();
//! let maps = client.informers().typed::<ConfigMap>(InformerOptions::default())?;
//! let log = EventLog::new();
//! log.register(&maps);
//!
//! // The first two requests for config maps are refused.
//! let forbidden = client.server().fault_on::<ConfigMap>(Fault::status(403));
//! client.start();
//! forbidden.wait_fired(2).await;
//! assert_eq!(maps.stats().error.map(|error| error.kind), Some(WatchErrorKind::Forbidden));
//! forbidden.remove();
//!
//! client.sync().await;
//! assert_eq!(client.server().watches_of::<ConfigMap>(), 1);
//! let metadata = json!({"name": "settings", "namespace": "default"});
//! client.server().load(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))?;
//! assert_eq!(log.wait_for(1).await[0].key().to_string(), "default/settings");
//! assert_eventually("the map", async || maps.len(), |len| *len == 1).await;
//!
//! // No task, no watch, no handler is left.
//! client.end().await;
//! # Ok(())
//! # }
//! ```

mod client;
mod event_log;
mod eventually;
mod server;

pub use fake_apiserver::{
    Controller, Cut, FakeApiServer, Fault, HoldHandle, OpenWatch, RequestRecord, Rule, RuleHandle, ServerView,
    StatusFault, Verb,
};

pub use self::client::{TestClient, assert_no_watches};
pub use self::event_log::EventLog;
pub use self::eventually::{assert_eventually, assert_eventually_within};
pub use self::server::ServerExt;
// The unit tests of this crate find their tiny kind here as well.
#[cfg(test)]
pub(crate) use crate::sample::{Item, fold, item};

#[cfg(test)]
mod tests;
