//! The deterministic core: it is driven by steps, owns no thread, and knows neither Kubernetes nor tokio.
//!
//! Start reading at `epoch`: one step takes all pending source changes as one atomic cut and carries them through the
//! nodes in order of height.

mod deps;
mod epoch;
mod graph;
mod handler;
mod node;
mod store;
