//! A control plane in small: one configuration of services, endpoint slices, pods and a custom kind, printed anew whenever it
//! changes.
//!
//! - `cargo run --example multi_kind`: on an in-memory API server whose mesh keeps changing. It ends by itself after ten seconds.
//! - `cargo run --example multi_kind -- --kubeconfig FILE`, `--context NAME` or both: the same on a real cluster. It only reads.
//! - `--select mesh=on` takes only the namespaces with this label; `--ignore-kinds '*.mesh.example'` leaves custom kinds out.
//!
//! It ends after ten seconds; with `--forever`, on Ctrl-C or SIGTERM. The controller is in `watcher.rs`: start reading there. What it
//! makes of the objects is in `snapshot.rs`.

mod policy;
mod snapshot;
mod watcher;
mod world;

#[path = "../shared/program.rs"]
mod program;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Parser;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use tokio_util::sync::CancellationToken;
use watershed::kclient::{DiscoveryNamespaces, Stopped};
use watershed::kube_client::{self, CrdOptions, SyncError, SyncOptions};

use program::{Error, Program, finish, stop_on_signal};
use watcher::{Report, Watcher};

/// Prints one configuration of services, endpoint slices, pods and route policies whenever it changes.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    program: Program,
    /// Take only namespaces with this label, or one of several. [default: all of a cluster, `mesh=on` of the in-memory server]
    #[arg(long, value_name = "LABEL=VALUE", value_parser = selector)]
    select: Vec<LabelSelector>,
    /// Leave out custom kinds: `routepolicies.mesh.example`, or `*.mesh.example`.
    #[arg(long, value_name = "PATTERN")]
    ignore_kinds: Vec<String>,
}

/// `LABEL=VALUE`.
fn selector(text: &str) -> Result<LabelSelector, String> {
    let (label, value) = text.split_once('=').ok_or("expected LABEL=VALUE")?;
    Ok(LabelSelector {
        match_labels: Some([(label.to_owned(), value.to_owned())].into()),
        ..LabelSelector::default()
    })
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    arguments.program.log("multi_kind");
    program::exit(run(arguments).await)
}

async fn run(arguments: Arguments) -> Result<(), Error> {
    let in_memory = arguments.program.is_in_memory();
    let mut selectors = arguments.select.clone();
    if in_memory && selectors.is_empty() {
        selectors.push(world::in_mesh());
    }
    let discovery = DiscoveryNamespaces::new(selectors)?;
    let ignored = arguments.ignore_kinds.iter();
    let crds = ignored.fold(CrdOptions::default(), CrdOptions::ignore);
    let options = watcher::options(&discovery, crds);
    let cluster = if in_memory {
        world::create(options)?
    } else {
        arguments.program.connect(options).await?
    };
    let stop = CancellationToken::new();
    let signals = tokio::spawn(stop_on_signal(stop.clone()));
    let outcome = show(&cluster, &stop, &arguments, in_memory).await;

    // Whatever happened: end all that was started, and say what is left.
    stop.cancel();
    finish(&cluster, signals).await;
    let (versions, looks) = outcome?;
    println!(
        "\nstopped: {versions} versions of the configuration, looked at {looks} times; {} tasks left",
        cluster.stats().tasks
    );
    Ok(())
}

/// Runs the watcher for as long as it is to run. Returns how many versions there were, and how often it looked.
async fn show(
    cluster: &kube_client::Client,
    stop: &CancellationToken,
    arguments: &Arguments,
    in_memory: bool,
) -> Result<(u64, u64), Error> {
    let (report, versions) = printer();
    let watcher = Arc::new(Watcher::new(cluster, report)?);
    // A person is waiting, so a wrong address or a missing right is told at once.
    match cluster.run_and_wait_with(stop, SyncOptions::fail_fast()).await {
        Ok(()) => {}
        Err(SyncError::Stopped) => return Ok((0, 0)),
        Err(error) => return Err(error.into()),
    }
    let running = tokio::spawn({
        let (watcher, stop) = (Arc::clone(&watcher), stop.clone());
        async move { watcher.run(&stop).await }
    });
    let world = async {
        if in_memory {
            world::keep_changing(cluster, stop).await?;
        }
        // No step is left: what there is stays.
        std::future::pending().await
    };
    let changed: Result<(), Error> = tokio::select! {
        () = arguments.program.show() => Ok(()),
        () = stop.cancelled() => Ok(()),
        changed = world => changed,
    };
    stop.cancel();
    match running.await? {
        // Stopped before it had begun: as wanted.
        Ok(()) | Err(Stopped) => {}
    }
    changed?;
    let versions = *versions.borrow();
    Ok((versions, watcher.queue().metrics().succeeded_total))
}

/// Prints snapshots, with the seconds since the start, and remembers the last version.
fn printer() -> (Report, tokio::sync::watch::Receiver<u64>) {
    let start = Instant::now();
    let (last, versions) = tokio::sync::watch::channel(0);
    let report = move |snapshot: snapshot::Snapshot| {
        last.send_replace(snapshot.version);
        print!("{:>5.1} s  {snapshot}", start.elapsed().as_secs_f64());
    };
    (Arc::new(report), versions)
}
