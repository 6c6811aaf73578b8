//! A small control plane: pods, services, namespaces, a policy of a kind of its own and a file become the configuration of each node's
//! proxy, with a version, published whenever it changes.
//!
//! - `cargo run --example mesh`: on an in-memory API server that keeps changing. It ends by itself after ten seconds.
//! - `cargo run --example mesh -- --kubeconfig FILE`, `--context NAME` or both: the same on a real cluster. It only reads.
//! - `--config FILE` is the mesh's configuration; without it there is one in a folder of its own, which is removed at the end.
//!
//! It ends after ten seconds; with `--forever`, on Ctrl-C or SIGTERM. The collections are in `mesh.rs`: start reading there.

mod mesh;
mod policy;
mod publisher;
mod world;

#[path = "../shared/program.rs"]
mod program;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use tokio_util::sync::CancellationToken;
use watershed::krt::Krt;
use watershed::kube_client::{Client, SyncError, SyncOptions};

use mesh::Mesh;
use program::{Error, Program, finish, stop_on_signal};
use publisher::Publisher;

/// How long the world rests between two steps.
const PACE: Duration = Duration::from_millis(800);

/// Prints the configuration of each node whenever it changes.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    program: Program,
    /// The configuration of the mesh: YAML with `trustDomain`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    arguments.program.log("mesh");
    program::exit(run(arguments).await)
}

async fn run(arguments: Arguments) -> Result<(), Error> {
    let options = Client::builder().user_agent("mesh");
    let cluster = if arguments.program.is_in_memory() {
        world::create(options)?
    } else {
        arguments.program.connect(options).await?
    };
    let own = tempfile::tempdir()?;
    let config = if let Some(config) = &arguments.config {
        config.clone()
    } else {
        let config = own.path().join("mesh.yaml");
        world::write_config(&config, "trustDomain: cluster.local")?;
        config
    };
    let stop = CancellationToken::new();
    let signals = tokio::spawn(stop_on_signal(stop.clone()));
    let outcome = show(&cluster, &stop, &config, &arguments).await;

    // Whatever happened: end all that was started, and say what is left.
    stop.cancel();
    finish(&cluster, signals).await;
    let runs = outcome?;
    println!(
        "\nstopped: configurations were computed {runs} times; {} tasks left",
        cluster.stats().tasks
    );
    Ok(())
}

/// Publishes for as long as it is to run. Returns how often configurations were computed.
async fn show(cluster: &Client, stop: &CancellationToken, config: &Path, arguments: &Arguments) -> Result<u64, Error> {
    let krt = Krt::builder("mesh").build();
    let mesh = Mesh::new(&krt, cluster, config)?;
    let start = Instant::now();
    let print = move |text: String| println!("{:>5.1} s  {text}", start.elapsed().as_secs_f64());
    let mut publisher = Publisher::new(print);
    let handler = mesh.configs.on_batch(move |batch| publisher.take(batch));
    krt.start()?;
    // A person is waiting, so a wrong address or a missing right is told at once.
    match cluster.run_and_wait_with(stop, SyncOptions::fail_fast()).await {
        Ok(()) => {}
        Err(SyncError::Stopped) => return Ok(0),
        Err(error) => return Err(error.into()),
    }
    let world = async {
        if arguments.program.is_in_memory() {
            let users = world::Users::new(cluster, config);
            for number in 0..world::STEPS {
                tokio::time::sleep(PACE).await;
                users.step(number).await?;
            }
        }
        // No step is left: what there is stays.
        std::future::pending().await
    };
    let changed: Result<(), Error> = tokio::select! {
        () = arguments.program.show() => Ok(()),
        () = stop.cancelled() => Ok(()),
        changed = world => changed,
    };
    krt.shutdown().await?;
    drop(handler);
    changed?;
    if let Some(error) = mesh.config.error() {
        println!("\nthe configuration that holds is an older one: {error}");
    }
    Ok(mesh.configs.stats().runs)
}
