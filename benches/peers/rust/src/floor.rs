//! What `serde_json` alone needs for the same events with managedFields cut out beforehand, which no client can do:
//! dropping each object at once, so that the next one takes its place in the processor's cache and in the allocator; and
//! keeping as many objects as there are pods, as every cache of objects has to.

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
    let kept = usize::try_from(pods)?;
    let mut outcome = Outcome::default();
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

    // As a cache does: the new object stays, the one in whose place it comes goes.
    let mut cache = Vec::with_capacity(kept);
    for line in lines.iter().cycle().take(kept) {
        cache.push(serde_json::from_slice::<Pod>(line)?);
    }
    let mut random = fastrand::Rng::with_seed(2);
    let (began, cpu) = (Instant::now(), memory::cpu()?);
    for line in &lines {
        cache[random.usize(0..kept)] = serde_json::from_slice::<Pod>(line)?;
    }
    outcome.set("kept_ns", began.elapsed().as_nanos());
    outcome.set("kept_cpu_ns", memory::cpu()? - cpu);
    Ok(outcome)
}
