//! The comparisons, with the allocator that a Rust program has by default: what is timed.
#![forbid(unsafe_code)]

fn main() -> anyhow::Result<()> {
    peers::run(None)
}
