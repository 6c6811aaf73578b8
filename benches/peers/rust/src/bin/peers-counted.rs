//! The comparisons with a counting allocator: requested bytes and allocations; its times say nothing.
#![forbid(unsafe_code)]

#[global_allocator]
static COUNTER: &peers::Counter = &stats_alloc::INSTRUMENTED_SYSTEM;

fn main() -> anyhow::Result<()> {
    peers::run(Some(COUNTER))
}
