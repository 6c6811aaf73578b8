//! What a queue holds, for a debug page or a log line.
//!
//! Owns: the plain values that `snapshot` returns. How they are gathered is the business of [`super::core`].

use std::time::Duration;

/// What a queue held at one instant: some keys of each kind, and how many there are.
///
/// Made by [`WorkQueue::snapshot`](super::WorkQueue::snapshot) and [`Queue::snapshot`](super::Queue::snapshot). It costs as much
/// as the keys that it shows, however many the queue holds (and a little for each that is in process).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot<T> {
    /// Keys that are ready to be handed out: the highest priority first, the oldest first inside a priority.
    pub queued: Vec<QueuedKey<T>>,
    /// How many there are in all.
    pub queued_total: usize,
    /// Keys that are handed out, the longest-running first. (Without [`Timings`](super::Timings), in no order.)
    pub processing: Vec<ProcessingKey<T>>,
    /// How many there are in all.
    pub processing_total: usize,
    /// Keys that wait for their time: a delay, a requeue, or the back-off of a retry. The next one first.
    pub delayed: Vec<DelayedKey<T>>,
    /// How many there are in all.
    pub delayed_total: usize,
    /// Whether the queue refuses new keys.
    pub shutting_down: bool,
}

/// A key that is ready to be handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuedKey<T> {
    /// The key.
    pub key: T,
    /// Higher is handed out first.
    pub priority: i32,
    /// How many attempts at it failed in a row, as far as a [`Queue`](super::Queue) counted.
    pub failures: u32,
    /// For how long it has been ready; `None` without [`Timings`](super::Timings).
    pub waited: Option<Duration>,
}

/// A key that is handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessingKey<T> {
    /// The key.
    pub key: T,
    /// How many attempts at it had failed in a row before this one, as far as a [`Queue`](super::Queue) counted.
    pub failures: u32,
    /// For how long it has been handed out; `None` without [`Timings`](super::Timings).
    pub running: Option<Duration>,
    /// In how long it is wanted again, if it was added meanwhile: zero is as soon as it is done.
    pub again_in: Option<Duration>,
}

/// A key that waits for its time.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DelayedKey<T> {
    /// The key.
    pub key: T,
    /// The priority that it will have.
    pub priority: i32,
    /// How many attempts at it failed in a row, as far as a [`Queue`](super::Queue) counted.
    pub failures: u32,
    /// In how long it is ready.
    pub ready_in: Duration,
}
