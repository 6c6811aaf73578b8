//! An operator of a custom kind, ready to run.
//!
//! - `cargo run --example crd_operator`: on an in-memory API server. The operator starts while its kind is not installed; then the
//!   definition comes, and people make, change and delete sites. It prints what it does and ends by itself after ten seconds.
//! - `cargo run --example crd_operator -- --kubeconfig FILE`, `--context NAME` or both: the same on a real cluster, for the sites
//!   that are there. With `--install` it installs the definition of `sites.crd-operator.example`, and leaves it there; without, it
//!   waits until somebody does.
//!
//! It ends after ten seconds; with `--forever`, on Ctrl-C or SIGTERM. A site that it has seen is deleted only while it runs: that is
//! what its finalizer is for. The operator itself is in `operator.rs`, its kind in `site.rs`. The program around it is that of
//! `examples/pod_controller`, which says why each line is there.

mod operator;
mod site;
mod world;

#[path = "../shared/program.rs"]
mod program;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Parser;
use tokio_util::sync::CancellationToken;
use watershed::kclient::{Outcome, Stopped};
use watershed::kube_client::{self, SyncOptions};

use operator::{Did, Directory, Operator};
use program::{Error, Program, finish, stop_on_signal};

/// Keeps a deployment and a directory entry for each site, and prints what it does.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    program: Program,
    /// Install the definition of the kind on that cluster.
    #[arg(long)]
    install: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    arguments.program.log("crd_operator");
    program::exit(run(arguments).await)
}

async fn run(arguments: Arguments) -> Result<(), Error> {
    let in_memory = arguments.program.is_in_memory();
    let cluster = if in_memory {
        kube_client::Client::fake_builder().build()?
    } else {
        let named = kube_client::Client::builder().user_agent(operator::NAME);
        arguments.program.connect(named).await?
    };
    let stop = CancellationToken::new();
    let signals = tokio::spawn(stop_on_signal(stop.clone()));
    let directory = Directory::default();
    let operator = Arc::new(Operator::new(&cluster, directory.clone(), timeline())?);

    match cluster.run_and_wait_with(&stop, SyncOptions::fail_fast()).await {
        Ok(()) => {}
        Err(kube_client::SyncError::Stopped) => {
            finish(&cluster, signals).await;
            return Ok(());
        }
        Err(error) => {
            finish(&cluster, signals).await;
            return Err(error.into());
        }
    }
    let running = tokio::spawn({
        let (operator, stop) = (Arc::clone(&operator), stop.clone());
        async move { operator.run(&stop).await }
    });
    println!("the kind is {:?}", *operator.sites().activation().borrow());

    let world = async {
        if in_memory {
            return world::keep_changing(&cluster, &stop).await;
        }
        if arguments.install {
            let done = match site::install(&cluster).await? {
                Outcome::Created(_) => "installed",
                Outcome::Updated(_) | Outcome::Unchanged(_) => "there already",
            };
            println!("the definition is {done}");
        }
        std::future::pending().await
    };
    let changed = tokio::select! {
        () = arguments.program.show() => Ok(()),
        () = stop.cancelled() => Ok(()),
        changed = world => changed,
    };

    stop.cancel();
    match running.await? {
        // Stopped before it had begun: as wanted.
        Ok(()) | Err(Stopped) => {}
    }
    finish(&cluster, signals).await;
    let metrics = operator.queue().metrics();
    println!(
        "\nstopped: {} reconciles succeeded, {} failed; in the directory: {}; {} tasks left",
        metrics.succeeded_total,
        metrics.errors_total,
        if directory.hosts().is_empty() {
            "nothing".to_owned()
        } else {
            directory.hosts().join(", ")
        },
        cluster.stats().tasks,
    );
    Ok(changed?)
}

/// Prints one line for everything that a reconcile did, with the seconds since the start.
fn timeline() -> operator::Report {
    let start = Instant::now();
    Arc::new(move |did| {
        let (key, what) = match did {
            Did::Created(key) => (key, "made its deployment".to_owned()),
            Did::Updated(key) => (key, "changed its deployment".to_owned()),
            Did::Told(key, reason) => (key, format!("status: {reason}")),
            Did::CleanedUp(key) => (key, "took it out of the directory".to_owned()),
            Did::Gone(key) => (key, "gone".to_owned()),
        };
        println!(
            "{:>5.1} s  {:<24} {what}",
            start.elapsed().as_secs_f64(),
            key.to_string()
        );
    })
}
