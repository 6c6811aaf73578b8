//! A tool on `kube-client` alone: informers, no typed clients, no queue. It counts the pods of every object of a kind that is
//! named when it runs, and says so again whenever that changes.
//!
//! - `cargo run --example inventory`: on an in-memory API server whose pods keep changing. It ends by itself after ten seconds.
//! - `cargo run --example inventory -- --kubeconfig FILE`, `--context NAME` or both: the same on a real cluster. It only reads.
//! - `--kind NAME` is the kind, named as for kubectl: `deploy`, `jobs.batch`, one of a custom definition.
//!
//! It ends after ten seconds; with `--forever`, on Ctrl-C or SIGTERM. The tool itself is in `inventory.rs`: start reading there.
//! What is the same in every example is in `examples/shared/program.rs`.

mod inventory;
mod world;

#[path = "../shared/program.rs"]
mod program;

use std::cell::Cell;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use kube_client::fake_apiserver::FakeApiServer;
use kube_client::{Client, Namespaces, SyncError, SyncOptions};
use tokio_util::sync::CancellationToken;

use inventory::{Inventory, Line};
use program::{Error, Program, finish, stop_on_signal};

/// Counts the pods of every object of a kind.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    program: Program,
    /// The kind, named as for kubectl: `deploy`, `jobs.batch`.
    #[arg(long, value_name = "NAME", default_value = "replicasets")]
    kind: String,
    /// Look into this namespace alone.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
}

/// How long the in-memory world rests between two changes.
const PACE: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    arguments.program.log("inventory");
    program::exit(run(arguments).await)
}

async fn run(arguments: Arguments) -> Result<(), Error> {
    let in_memory = arguments.program.is_in_memory();
    let cluster = if in_memory {
        world::create(&FakeApiServer::new())?
    } else {
        let named = Client::builder().user_agent("inventory");
        arguments.program.connect(named).await?
    };
    let stop = CancellationToken::new();
    let signals = tokio::spawn(stop_on_signal(stop.clone()));
    let lines = Cell::new(0_u64);
    let outcome = tokio::select! {
        outcome = show(&cluster, &arguments, &stop, &lines) => outcome,
        // Also while the server is asked for the kind.
        () = stop.cancelled() => Ok(()),
        () = arguments.program.show() => Ok(()),
        changed = keep_changing(&cluster), if in_memory => changed,
    };
    // Whatever happened: end all that was started, and say what is left.
    stop.cancel();
    finish(&cluster, signals).await;
    outcome?;
    println!("\nstopped: {} lines, {} tasks left", lines.get(), cluster.stats().tasks);
    Ok(())
}

/// Prints the inventory and its changes until `stop` is cancelled.
async fn show(
    cluster: &Client,
    arguments: &Arguments,
    stop: &CancellationToken,
    lines: &Cell<u64>,
) -> Result<(), Error> {
    let namespaces = arguments.namespace.as_deref().map_or(Namespaces::All, Namespaces::one);
    let inventory = Inventory::new(cluster, &arguments.kind, namespaces).await?;
    // Starts the informers and waits for the caches. `fail_fast`: a person is waiting, so a wrong address or a missing right is told
    // at once. An agent in a cluster would rather go on trying.
    let synced = async {
        cluster.run_and_wait_with(stop, SyncOptions::fail_fast()).await?;
        inventory.synced(cluster, stop).await
    };
    match synced.await {
        Ok(()) => {}
        Err(SyncError::Stopped) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    println!("pods by {}", inventory.kind());
    let start = Instant::now();
    let print = |line: Line| {
        lines.set(lines.get() + 1);
        println!("{:>5.1} s  {line}", start.elapsed().as_secs_f64());
    };
    inventory.run(print, stop).await;
    Ok(())
}

/// Changes the in-memory world, one step after the other.
async fn keep_changing(cluster: &Client) -> Result<(), Error> {
    for number in 0..world::STEPS {
        tokio::time::sleep(PACE).await;
        world::step(cluster, number).await?;
    }
    // No step is left: what there is stays.
    std::future::pending().await
}
