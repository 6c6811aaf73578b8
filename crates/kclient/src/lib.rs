//! Typed Kubernetes clients, event handlers and a rate-limited work queue.
#![forbid(unsafe_code)]

pub mod queue;
