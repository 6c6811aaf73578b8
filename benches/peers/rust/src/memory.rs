//! Memory of this process: resident, as the kernel counts it, and requested, as the counting allocator does.

use std::alloc::System;
use std::sync::OnceLock;

use anyhow::Context;

/// The counting allocator.
pub type Counter = stats_alloc::StatsAlloc<System>;

static COUNTER: OnceLock<&'static Counter> = OnceLock::new();

pub(crate) fn count_with(counter: Option<&'static Counter>) {
    if let Some(counter) = counter {
        COUNTER.get_or_init(|| counter);
    }
}

/// What has been requested of the allocator so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requested {
    /// Bytes now in use.
    pub(crate) bytes: u64,
    /// Allocations and reallocations so far.
    pub(crate) allocations: u64,
}

/// `None` unless this binary counts.
pub(crate) fn requested() -> Option<Requested> {
    let stats = COUNTER.get()?.stats();
    Some(Requested {
        bytes: (stats.bytes_allocated - stats.bytes_deallocated) as u64,
        allocations: (stats.allocations + stats.reallocations) as u64,
    })
}

/// Processor time of this process so far, user and system, in nanoseconds. In steps of 10 ms.
pub(crate) fn cpu() -> anyhow::Result<u64> {
    const TICK: u64 = 10_000_000; // Linux tells times in hundredths of a second
    let stat = std::fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
    // The name of the program comes first, in brackets, and may hold anything.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let times = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
    let ticks = times.sum::<Result<u64, _>>().context("no times in /proc/self/stat")?;
    Ok(ticks * TICK)
}

/// Resident bytes now.
pub(crate) fn resident() -> anyhow::Result<u64> {
    status("VmRSS:")
}

/// The most that was resident since the start or the last [`forget_peak`].
pub(crate) fn peak() -> anyhow::Result<u64> {
    status("VmHWM:")
}

/// The peak begins anew at what is resident now.
pub(crate) fn forget_peak() -> anyhow::Result<()> {
    std::fs::write("/proc/self/clear_refs", "5").context("cannot reset the peak of memory in /proc/self/clear_refs")
}

fn status(field: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kib: u64 = kib
        .with_context(|| format!("no {field} in /proc/self/status"))?
        .parse()?;
    Ok(kib << 10)
}
