//! What `serde_json` alone needs for the same objects with managedFields cut out beforehand, which no client can do: keeping
//! as many of them as there are pods, as every cache of objects has to, at first in fresh memory, as a sync, then each in the
//! place of another, as an event; and dropping each at once, so that the next one takes its place in the processor's
//! cache and in the allocator.

use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use k8s_openapi::api::core::v1::Pod;

use crate::outcome::Outcome;
use crate::{memory, prepare};

pub(crate) fn run(dir: &Path, pods: u64) -> anyhow::Result<Outcome> {
    let bytes = std::fs::read(dir.join(prepare::LEAN)).context("cannot read the events without managedFields")?;
    let lines: Vec<&[u8]> = bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .collect();
    let mut outcome = Outcome::default();
    // First, while the process has no memory that was used before: a program that lists has none either.
    keep(&lines, usize::try_from(pods)?, &mut outcome)?;
    let before = memory::requested();
    let (began, cpu) = (Instant::now(), memory::cpu()?);
    for line in &lines {
        std::hint::black_box(serde_json::from_slice::<Pod>(line)?);
    }
    outcome.set("events_ns", began.elapsed().as_nanos());
    outcome.set("events_cpu_ns", memory::cpu()? - cpu);
    if let (Some(before), Some(after)) = (before, memory::requested()) {
        outcome.set("allocations", after.allocations - before.allocations);
    }

    Ok(outcome)
}

/// As a cache does: first every object is new, then a new one comes in the place of one that goes.
fn keep(lines: &[&[u8]], kept: usize, outcome: &mut Outcome) -> anyhow::Result<()> {
    let mut cache = Vec::with_capacity(kept);
    let (began, cpu) = (Instant::now(), memory::cpu()?);
    for line in lines.iter().cycle().take(kept) {
        cache.push(serde_json::from_slice::<Pod>(line)?);
    }
    outcome.set("sync_ns", began.elapsed().as_nanos());
    outcome.set("sync_cpu_ns", memory::cpu()? - cpu);
    let mut random = fastrand::Rng::with_seed(2);
    let (began, cpu) = (Instant::now(), memory::cpu()?);
    for line in lines {
        cache[random.usize(0..kept)] = serde_json::from_slice::<Pod>(line)?;
    }
    outcome.set("kept_ns", began.elapsed().as_nanos());
    outcome.set("kept_cpu_ns", memory::cpu()? - cpu);
    Ok(())
}
