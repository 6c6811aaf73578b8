//! The canonical controller, ready to run.
//!
//! - `cargo run --example pod_controller`: on an in-memory API server whose pods keep changing. It prints what it sees and
//!   ends by itself after ten seconds.
//! - `cargo run --example pod_controller -- --kubeconfig FILE`, `--context NAME` or both: the same on a real cluster. It only
//!   reads, unless a pod has the label `pod-controller.example/greet`.
//!
//! It ends after ten seconds; with `--forever`, on Ctrl-C or SIGTERM. The controller itself is in `controller.rs`: start reading
//! there. Here is how a program starts and ends it; what is the same in every example, from the arguments to the exit code, is in
//! `examples/shared/program.rs`.

mod controller;
mod world;

#[path = "../shared/program.rs"]
mod program;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Parser;
use tokio_util::sync::CancellationToken;
use watershed::kclient::{Filter, Stopped};
use watershed::kube_client::{self, SyncOptions};

use controller::{PodController, Seen};
use program::{Error, Program, finish, stop_on_signal};

/// Watches pods, prints what it sees, and greets those that ask for it.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    program: Program,
    /// Watch only this namespace.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    arguments.program.log("pod_controller");
    program::exit(run(arguments).await)
}

async fn run(arguments: Arguments) -> Result<(), Error> {
    let in_memory = arguments.program.is_in_memory();
    let cluster = if in_memory {
        world::create()?
    } else {
        let named = kube_client::Client::builder().user_agent("pod-controller");
        arguments.program.connect(named).await?
    };
    // One token stops everything: the controllers, then what they stand on.
    let stop = CancellationToken::new();
    let signals = tokio::spawn(stop_on_signal(stop.clone()));

    // Build everything before starting anything: a handler that is registered before the start misses nothing and costs no
    // second pass over the cache.
    let filter = match arguments.namespace {
        Some(namespace) => Filter::default().namespace(namespace),
        None => Filter::default(),
    };
    let controller = Arc::new(PodController::new(&cluster, filter, timeline())?);

    // Starts the informers and waits for their caches. `fail_fast`: a person is waiting, so a wrong address or a missing
    // right is told at once. A controller in a cluster would rather go on trying.
    match cluster.run_and_wait_with(&stop, SyncOptions::fail_fast()).await {
        Ok(()) => {}
        Err(kube_client::SyncError::Stopped) => {
            finish(&cluster, signals).await;
            return Ok(());
        }
        Err(error) => {
            // The informers go on trying in the background; this program does not.
            finish(&cluster, signals).await;
            return Err(error.into());
        }
    }
    let running = tokio::spawn({
        let (controller, stop) = (Arc::clone(&controller), stop.clone());
        async move { controller.run(&stop).await }
    });

    let world = async {
        if in_memory {
            world::keep_changing(&cluster, &stop).await
        } else {
            std::future::pending().await
        }
    };
    let changed = tokio::select! {
        () = arguments.program.show() => Ok(()),
        () = stop.cancelled() => Ok(()),
        changed = world => changed,
    };

    // The clean end: stop, wait for the controller, then for everything below it.
    stop.cancel();
    match running.await? {
        // Stopped before it had begun: as wanted.
        Ok(()) | Err(Stopped) => {}
    }
    finish(&cluster, signals).await;
    let metrics = controller.queue().metrics();
    println!(
        "\nstopped: {} reconciles succeeded, {} failed; {}, {} tasks left",
        metrics.succeeded_total,
        metrics.errors_total,
        if controller.has_synced() {
            "had synced"
        } else {
            "had not synced yet"
        },
        cluster.stats().tasks,
    );
    Ok(changed?)
}

/// Prints one line for everything that a reconcile reports, with the seconds since the start.
fn timeline() -> controller::Report {
    let start = Instant::now();
    Arc::new(move |seen| {
        let (key, what) = match seen {
            Seen::Present(key, phase) => (key, phase),
            Seen::Gone(key) => (key, "gone".to_owned()),
            Seen::Greeted(key) => (key, "greeted, as it asked to be".to_owned()),
        };
        println!(
            "{:>5.1} s  {:<24} {what}",
            start.elapsed().as_secs_f64(),
            key.to_string()
        );
    })
}
