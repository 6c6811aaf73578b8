//! Work queues: distinct keys, delays, rate-limited retries, priorities; and a runner that reconciles keys.
//!
//! Owns everything about "do this key again, later, but not twice at once". It knows nothing of Kubernetes: the element may
//! be any `Clone + Eq + Hash` value, and only the default element, [`ObjectKey`], is a Kubernetes object's name.
//!
//! Two layers; take the upper one unless you have a loop of your own:
//!
//! - [`Queue`] runs a reconciler over keys: retries with back-off, concurrency, clean stop.
//! - [`WorkQueue`] is the data structure below: `add`, `get`, `done`, with client-go's semantics.
//!
//! [`RateLimiter`] and its implementations decide how long a failed key waits. All time is tokio's clock, so tests can
//! pause it.
//!
//! Start reading with `workqueue.rs`; the rules are in `core.rs`, the runner in `runner.rs`.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use kclient::queue::{Action, Queue};
//! use tokio_util::sync::CancellationToken;
//!
//! let stop = CancellationToken::new();
//! let queue = Queue::builder("greetings")
//!     .reconciler(|name: String| async move {
//!         println!("hello {name}");
//!         Ok(Action::Done)
//!     })
//!     .max_attempts(5)
//!     .build();
//! queue.add(&"world".to_owned());
//!
//! let running = tokio::spawn({ let (queue, stop) = (queue.clone(), stop.clone()); async move { queue.run(&stop).await } });
//! queue.synced().await.unwrap();
//! stop.cancel();
//! running.await.unwrap().unwrap();
//! # }
//! ```

mod builder;
mod consumer;
mod core;
mod delay;
mod error;
mod export;
#[cfg(test)]
mod histories;
mod item;
mod limiter;
mod metrics;
#[cfg(test)]
mod model;
#[cfg(test)]
mod oracle;
mod outcomes;
mod ready;
mod runner;
mod slots;
mod snapshot;
mod time;
mod waiters;
mod workqueue;

pub use builder::{NoReconciler, QueueBuilder};
/// The name of a Kubernetes object: the default key of a [`Queue`].
#[cfg(feature = "client")]
pub use kube_client::ObjectKey;

pub use error::{LimiterError, NotClosed, QueueClosed, ReconcileError, RunError};
pub use item::Item;
pub use limiter::{
    ExponentialFailure, FastSlow, MaxOf, RateLimiter, TokenBucket, WithJitter, WithMaxWait, controller_default,
};
pub use metrics::{Histogram, QueueMetrics, Timings, WorkQueueMetrics};
pub use runner::{Action, Queue};
pub use snapshot::{DelayedKey, ProcessingKey, QueuedKey, Snapshot};
pub use workqueue::{AddOptions, WorkQueue, WorkQueueBuilder};
