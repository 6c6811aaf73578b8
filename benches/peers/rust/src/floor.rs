//! What `serde_json` alone needs for the same events with managedFields cut out beforehand, which no client can do.

use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use k8s_openapi::api::core::v1::Pod;

use crate::outcome::Outcome;
use crate::{memory, prepare};

pub(crate) fn run(dir: &Path) -> anyhow::Result<Outcome> {
    let bytes = std::fs::read(dir.join(prepare::LEAN)).context("cannot read the events without managedFields")?;
    let lines: Vec<&[u8]> = bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .collect();
    let mut outcome = Outcome::default();
    let before = memory::requested();
    let began = Instant::now();
    for line in &lines {
        std::hint::black_box(serde_json::from_slice::<Pod>(line)?);
    }
    outcome.set("events_ns", began.elapsed().as_nanos());
    if let (Some(before), Some(after)) = (before, memory::requested()) {
        outcome.set("allocations", after.allocations - before.allocations);
    }
    Ok(outcome)
}
