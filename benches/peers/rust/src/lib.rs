//! The Rust side of the comparisons of informers, of work queues (`queue`) and of collections (`collections`): `prepare` makes the
//! data, `serve` hands it out over HTTP, `measure` runs one contestant in this process and prints what it saw as one line of JSON,
//! `rounds` runs them all in alternation and `report` writes the result. Start reading at [`run`].
#![forbid(unsafe_code)]

mod collection_report;
mod collections;
mod control;
mod floor;
mod graphs;
mod handlers;
mod kube_runtime_peer;
mod measure;
mod memory;
mod ours;
mod outcome;
mod prepare;
mod queue;
mod queue_report;
mod report;
mod rounds;
mod serve;
mod types;

#[path = "../../../data/pod.rs"]
mod pod;

#[path = "../../../../crates/krt/benches/scenario/pods.rs"]
mod scenario;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub use crate::memory::Counter;

#[derive(Debug, Parser)]
#[command(about = "Watershed beside the informers that a user would pick instead")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Writes a list, its watch events, and the same events without managedFields.
    Prepare {
        dir: PathBuf,
        #[arg(long)]
        pods: u64,
        #[arg(long)]
        events: u64,
    },
    /// Serves prepared data over HTTP; prints the address, runs until killed.
    Serve {
        dir: PathBuf,
        #[arg(long)]
        protobuf: bool,
    },
    /// Measures an informer of ours.
    Ours {
        #[command(flatten)]
        course: measure::Course,
        #[arg(long, value_enum)]
        of: ours::Of,
        /// Give the client a runtime of one worker.
        #[arg(long)]
        own_worker: bool,
        /// How many threads decode lists.
        #[arg(long, default_value = "1")]
        decode_threads: NonZeroUsize,
    },
    /// Measures kube-runtime's reflector.
    KubeRuntime {
        #[command(flatten)]
        course: measure::Course,
    },
    /// Measures `serde_json` alone on the events without managedFields.
    Floor {
        dir: PathBuf,
        #[arg(long)]
        pods: u64,
    },
    /// Measures the registration of many handlers on a synced informer.
    Handlers {
        server: SocketAddr,
        #[arg(long)]
        handlers: usize,
    },
    /// Measures our work queue.
    Queue {
        #[arg(long)]
        keys: usize,
        #[arg(long)]
        repeats: usize,
        #[arg(long, value_enum)]
        of: queue::Of,
    },
    /// Measures collections on static sources.
    Collections {
        #[command(flatten)]
        course: collections::Course,
        #[arg(long, value_enum)]
        of: collections::Of,
    },
    /// Runs contestants in alternation and writes the results.
    Rounds(rounds::Args),
}

/// Runs the command line; `counter` counts what is allocated, if the binary has a counting allocator.
///
/// # Errors
///
/// Whatever fails, with what was being done.
pub fn run(counter: Option<&'static Counter>) -> anyhow::Result<()> {
    memory::count_with(counter);
    match Cli::parse().command {
        Command::Prepare { dir, pods, events } => prepare::prepare(&dir, pods, events),
        Command::Serve { dir, protobuf } => serve::serve(&dir, protobuf),
        Command::Ours {
            course,
            of,
            own_worker,
            decode_threads,
        } => ours::run(course, of, own_worker, decode_threads)?.print(),
        Command::KubeRuntime { course } => kube_runtime_peer::run(course)?.print(),
        Command::Floor { dir, pods } => floor::run(&dir, pods)?.print(),
        Command::Handlers { server, handlers } => handlers::run(server, handlers)?.print(),
        Command::Queue { keys, repeats, of } => queue::run(keys, repeats, of)?.print(),
        Command::Collections { course, of } => collections::run(course, of)?.print(),
        Command::Rounds(args) => rounds::run(&args),
    }
}
