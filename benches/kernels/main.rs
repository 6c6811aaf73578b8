//! The hot paths of all layers as programs that do the same work each time, so that their instructions can be counted:
//! `benches/instructions` runs each under callgrind and compares with what is stored. A time says what a user gets, and wanders with
//! the machine; a count says whether a change made a path longer, and a hundredth shows.
//!
//! `kernels` lists them; `kernels NAME` runs one. What is counted is what [`counted`] runs, all of it on one thread; the
//! rest prepares. A name is that of the part, the path, and what one unit of it is.
#![forbid(unsafe_code)]
#![allow(
    clippy::duplicate_mod,
    reason = "the scenarios of two layers are about the same pod, which each includes"
)]

#[path = "collections.rs"]
mod collections;
#[path = "informers.rs"]
mod informers;
#[path = "queues.rs"]
mod queues;
#[path = "servers.rs"]
mod servers;

use std::process::ExitCode;

/// Does its work once, for so many units.
type Run = fn();

/// A path whose instructions are counted.
struct Kernel {
    name: &'static str,
    /// How many units one run has: the count is told for one of them.
    units: u32,
    run: Run,
}

/// What runs in here is counted: callgrind is told to by this function's name.
#[inline(never)]
fn counted<T>(work: impl FnOnce() -> T) -> T {
    // The call must not be the last thing, or it could become a jump, after which callgrind would see no return.
    let result = work();
    std::hint::black_box(&result);
    result
}

fn main() -> ExitCode {
    let kernels: Vec<&Kernel> = [
        informers::KERNELS,
        queues::KERNELS,
        collections::KERNELS,
        servers::KERNELS,
    ]
    .into_iter()
    .flatten()
    .collect();
    // `cargo bench` adds `--bench`; whoever runs all benches gets a list.
    let asked = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let Some(asked) = asked else {
        for kernel in kernels {
            println!("{} {}", kernel.name, kernel.units);
        }
        return ExitCode::SUCCESS;
    };
    let Some(kernel) = kernels.into_iter().find(|kernel| kernel.name == asked) else {
        eprintln!("no kernel is called {asked}");
        return ExitCode::FAILURE;
    };
    (kernel.run)();
    ExitCode::SUCCESS
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime with a clock")
}
