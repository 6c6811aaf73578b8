//! The course that every informer in Rust runs: sync, rest, relist, rest, events. The Go peer runs the same.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::outcome::Outcome;
use crate::{control, memory};

/// Where and how much.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Course {
    pub(crate) server: SocketAddr,
    /// Pods in the list.
    #[arg(long)]
    pub(crate) pods: u64,
    /// Events that the server has prepared.
    #[arg(long)]
    pub(crate) events: u64,
}

/// How long an informer rests before its steady state is read.
const REST: Duration = Duration::from_millis(500);

/// Counts what a handler sees.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    count: AtomicU64,
    // What is told when the count reaches it.
    target: AtomicU64,
    reached: Notify,
}

impl Seen {
    /// For the handler: one more. `version` is what it read of the object.
    pub(crate) fn one(&self, version: &str) {
        std::hint::black_box(version.len());
        if self.count.fetch_add(1, Ordering::SeqCst) + 1 == self.target.load(Ordering::SeqCst) {
            self.reached.notify_one();
        }
    }

    fn aim(&self, target: u64) {
        self.target.store(target, Ordering::SeqCst);
    }

    async fn reached(&self) {
        while self.count.load(Ordering::SeqCst) < self.target.load(Ordering::SeqCst) {
            self.reached.notified().await;
        }
    }
}

/// Runs the course. `start` starts the informer, whose only handler counts into what it is given.
pub(crate) async fn run(
    course: Course,
    start: impl AsyncFnOnce(Arc<Seen>) -> anyhow::Result<()>,
) -> anyhow::Result<Outcome> {
    let Course { server, pods, events } = course;
    let mut outcome = Outcome::default();
    let seen = Arc::new(Seen::default());
    let before = memory::requested();
    seen.aim(pods);
    let (began, cpu) = (Instant::now(), memory::cpu()?);
    start(Arc::clone(&seen)).await?;
    seen.reached().await;
    outcome.set("sync_ns", began.elapsed().as_nanos());
    outcome.set("sync_cpu_ns", memory::cpu()? - cpu);
    outcome.set("sync_peak", memory::peak()?);

    control::watches(server, 1).await?;
    tokio::time::sleep(REST).await;
    outcome.set("steady", memory::resident()?);
    if let (Some(before), Some(after)) = (before, memory::requested()) {
        outcome.set("heap", after.bytes - before.bytes);
    }

    memory::forget_peak()?;
    control::expire(server)?;
    control::watches(server, 2).await?;
    tokio::time::sleep(REST).await;
    outcome.set("relist_peak", memory::peak()?);

    let before = memory::requested();
    // A peer that tells its handler of unchanged objects again has done so by now.
    let so_far = seen.count.load(Ordering::SeqCst);
    seen.aim(so_far + events);
    memory::forget_peak()?;
    let (began, cpu) = (Instant::now(), memory::cpu()?);
    control::flood(server)?;
    seen.reached().await;
    outcome.set("events_ns", began.elapsed().as_nanos());
    outcome.set("events_cpu_ns", memory::cpu()? - cpu);
    outcome.set("events_peak", memory::peak()?);
    if let (Some(before), Some(after)) = (before, memory::requested()) {
        outcome.set("allocations", after.allocations - before.allocations);
    }
    Ok(outcome)
}
