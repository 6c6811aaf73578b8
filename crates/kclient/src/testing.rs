//! What tests of a controller need: a cluster in memory, writes that fail the test by themselves, and a record of events.
//!
//! | | |
//! | --- | --- |
//! | [`TestClient`] | the cluster's client, usually over an in-memory server, [with objects](TestClient::with_objects) from the start; its [`end`](TestClient::end) asserts that nothing is left |
//! | [`TestWriter`] | a writer whose methods panic with the error, so that a test reads `pods.create(&pod).await` |
//! | [`EventTracker`] | awaits events by short names, in order or not: `tracker.wait_ordered(["add/web", "delete/web"]).await` |
//! | [`EventLog`] | writes down whole events of one kind, old and new objects included |
//! | [`assert_eventually`] | awaits a fact that has no event of its own, and on failure says what was seen last |
//! | [`ServerExt`], [`Rule`], [`Fault`] | what the in-memory server was asked, and how it misbehaves |
//!
//! [`kube_client::testing`] has more of the last three. Everything works on a paused clock
//! (`#[tokio::test(start_paused = true)]`), and is fastest there: back-off and waits cost no time. A reconciler alone is tested
//! with mocks (module and feature `mock`), without any server.
//!
//! A controller against the in-memory server, whole:
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kclient::handler::QueueHandlers;
//! use kclient::queue::{Action, Queue};
//! use kclient::testing::{EventTracker, TestClient, TestWriter};
//! use kclient::{Client, HandlerOptions, Informer, Reader};
//! use serde_json::json;
//! use tokio_util::sync::CancellationToken;
//!
//! fn map(name: &str) -> ConfigMap {
//!     serde_json::from_value(json!({"metadata": {"name": name, "namespace": "shop"}})).expect("a config map")
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::time::pause();
//! // What there is before the controller comes.
//! let (cluster, stop) = (TestClient::with_objects([map("old")]), CancellationToken::new());
//!
//! // The controller, which reports what it does.
//! let (maps, tracker) = (Client::<ConfigMap>::new(&cluster)?, EventTracker::new());
//! let queue = Queue::builder("maps")
//!     .reconciler({
//!         let (maps, tracker) = (maps.clone(), tracker.clone());
//!         move |key| {
//!             let seen = if maps.get(&key).is_some() { "present" } else { "gone" };
//!             tracker.record(format!("{seen}/{}", key.name));
//!             async { Ok(Action::Done) }
//!         }
//!     })
//!     .build();
//! maps.add_handler(queue.handler::<ConfigMap>().boxed(), HandlerOptions::named("maps"));
//!
//! // It runs; others change the world; it notices.
//! cluster.sync().await;
//! maps.synced().await?;
//! let running = tokio::spawn({
//!     let (queue, stop) = (queue.clone(), stop.clone());
//!     async move { queue.run(&stop).await }
//! });
//! tracker.wait_ordered(["present/old"]).await;
//! let users = TestWriter::<ConfigMap>::new(&cluster).in_namespace("shop");
//! users.create(&map("new")).await;
//! users.delete("old").await;
//! tracker.wait_ordered(["present/new", "gone/old"]).await;
//!
//! // It ends, and nothing is left.
//! stop.cancel();
//! running.await??;
//! tracker.empty().await;
//! cluster.end().await;
//! # Ok(())
//! # }
//! ```

mod tracker;
mod writer;

pub use kube_client::testing::{
    Controller, Cut, EventLog, FakeApiServer, Fault, HoldHandle, OpenWatch, RequestRecord, Rule, RuleHandle, ServerExt,
    ServerView, StatusFault, TestClient, Verb, assert_eventually, assert_eventually_within, assert_no_watches,
};

pub use self::tracker::EventTracker;
pub use self::writer::{IntoKey, TestWriter};

#[cfg(test)]
mod tests;
