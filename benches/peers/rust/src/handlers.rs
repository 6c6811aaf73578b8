//! What it costs to register many handlers on a synced informer, the first of which never returns from its first event.
//!
//! The objects are tiny, so that what is measured is the registration and not the objects.

use std::future::pending;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kube_client::{Event, HandlerOptions, Informer, InformerOptions, Registration, on_event, on_event_async};

use crate::memory::{self, Requested};
use crate::ours;
use crate::outcome::Outcome;
use crate::types::TinyPod;

#[tokio::main]
pub(crate) async fn run(server: SocketAddr, handlers: usize) -> anyhow::Result<Outcome> {
    anyhow::ensure!(handlers > 1, "one handler is blocked, so at least two are needed");
    let client = ours::client(server, NonZeroUsize::MIN).await?;
    let informer: Informer<TinyPod> = client.informers().typed(InformerOptions::default())?;
    informer.start();
    informer.synced().await?;
    tokio::time::sleep(Duration::from_millis(500)).await;

    let mut outcome = Outcome::default();
    let before = memory::requested();
    let began = Instant::now();
    let blocked = informer.add_handler(
        on_event_async(|_: Event<TinyPod>| pending()),
        HandlerOptions::named("blocked"),
    );
    outcome.set("blocked_ns", began.elapsed().as_nanos());
    set_heap(&mut outcome, "blocked_heap", before, 1);

    memory::forget_peak()?;
    let steady = memory::resident()?;
    let before = memory::requested();
    let seen = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let mut took = Vec::with_capacity(handlers - 1);
    let mut registrations: Vec<Registration> = Vec::with_capacity(handlers - 1);
    for n in 1..handlers {
        let seen = Arc::clone(&seen);
        let handler = on_event(move |_: &Event<TinyPod>| {
            seen.fetch_add(1, Ordering::Relaxed);
        });
        let one = Instant::now();
        registrations.push(informer.add_handler(handler, HandlerOptions::named(format!("handler {n}"))));
        took.push(one.elapsed());
    }
    outcome.set("registered_ns", began.elapsed().as_nanos());
    for registration in &registrations {
        registration.synced().await?;
    }
    outcome.set("synced_ns", began.elapsed().as_nanos());
    outcome.set("peak_above_steady", memory::peak()?.saturating_sub(steady));
    set_heap(&mut outcome, "handler_heap", before, handlers as u64 - 1);
    took.sort_unstable();
    outcome.set("register_median_ns", took[took.len() / 2].as_nanos());
    outcome.set("register_worst_ns", took[took.len() - 1].as_nanos());

    let (seen, expected) = (seen.load(Ordering::Relaxed), (informer.len() * (handlers - 1)) as u64);
    anyhow::ensure!(seen == expected, "the handlers saw {seen} of {expected} events");
    anyhow::ensure!(!blocked.has_synced(), "the blocked handler is not blocked");
    client.shutdown().await;
    Ok(outcome)
}

/// Sets how many bytes more are in use than before, shared out among so many.
fn set_heap(outcome: &mut Outcome, name: &str, before: Option<Requested>, among: u64) {
    if let (Some(before), Some(after)) = (before, memory::requested()) {
        outcome.set(name, after.bytes.saturating_sub(before.bytes) / among);
    }
}
