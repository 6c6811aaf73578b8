//! A small control plane of a service mesh: pods, services, namespaces, a policy of a kind of its own and a file become the
//! configuration of each node's proxy, with a version, published whenever it changes; and policies are told how they fare.
//!
//! - `cargo run --example mesh`: on an in-memory API server that keeps changing. It ends by itself after ten seconds.
//! - `cargo run --example mesh -- --kubeconfig FILE`, `--context NAME` or both: the same on a real cluster. It only reads, unless
//!   `--write-status` is given.
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
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use tokio_util::sync::CancellationToken;
use watershed::krt::Krt;
use watershed::kube_client::{Client, SyncError, SyncOptions};

use mesh::Mesh;
use program::{Error, Program, finish, stop_on_signal};
use publisher::{Publisher, news};

/// How long the world rests between two steps.
const PACE: Duration = Duration::from_millis(850);

/// Prints the configuration of each node whenever it changes.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    program: Program,
    /// The configuration of the mesh: YAML with `trustDomain`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Write the status of policies on that cluster.
    #[arg(long)]
    write_status: bool,
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
        Client::fake_builder().client(options).build()?
    } else {
        arguments.program.connect(options).await?
    };
    let own = tempfile::tempdir()?;
    let config = match &arguments.config {
        Some(config) => config.clone(),
        None => own.path().join("mesh.yaml"),
    };
    let stop = CancellationToken::new();
    let signals = tokio::spawn(stop_on_signal(stop.clone()));
    let outcome = show(&cluster, &stop, &config, &arguments).await;

    // Whatever happened: end all that was started, and say what is left.
    stop.cancel();
    finish(&cluster, signals).await;
    outcome?;
    println!("{} tasks left", cluster.stats().tasks);
    Ok(())
}

/// Publishes for as long as it is to run.
async fn show(cluster: &Client, stop: &CancellationToken, config: &Path, arguments: &Arguments) -> Result<(), Error> {
    let in_memory = arguments.program.is_in_memory();
    let users = world::Users::new(cluster, config, "");
    if in_memory {
        users.prepare().await?;
    } else if arguments.config.is_none() {
        world::write_config(config, "trustDomain: cluster.local")?;
    }

    let krt = Krt::builder("mesh").build();
    let mesh = Mesh::new(&krt, cluster, config)?;
    let start = Instant::now();
    let print: Arc<dyn Fn(String) + Send + Sync> =
        Arc::new(move |text| println!("{:>5.1} s  {text}", start.elapsed().as_secs_f64()));
    let mut publisher = Publisher::new(Arc::clone(&print));
    let handlers = [
        mesh.configs.on_batch(move |batch| publisher.take(batch)),
        mesh.policies.on_change({
            let print = Arc::clone(&print);
            move |event| news(event).into_iter().for_each(&*print)
        }),
    ];
    krt.start()?;
    // A person is waiting, so a wrong address or a missing right is told at once.
    match cluster.run_and_wait_with(stop, SyncOptions::fail_fast()).await {
        Ok(()) => {}
        Err(SyncError::Stopped) => return Ok(()),
        Err(error) => return Err(error.into()),
    }

    // There is one of this program. Where there are several, whoever leads writes, until it leads no more.
    let writer = policy::writer(cluster, &mesh.statuses);
    let leading = stop.child_token();
    let writing = async {
        if in_memory || arguments.write_status {
            writer.run(&leading).await;
        }
    };
    let showing = async {
        let world = async {
            for (number, happens) in world::STEPS.iter().enumerate().filter(|_| in_memory) {
                tokio::time::sleep(PACE).await;
                println!();
                print(format!("> {happens}"));
                users.step(number).await?;
            }
            // No step is left: what there is stays.
            std::future::pending().await
        };
        let changed: Result<(), Error> = tokio::select! {
            () = arguments.program.show() => Ok(()),
            () = stop.cancelled() => Ok(()),
            changed = world => changed,
        };
        leading.cancel();
        changed
    };
    let ((), changed) = tokio::join!(writing, showing);
    krt.shutdown().await?;
    drop(handlers);
    changed?;

    if let Some(error) = mesh.config.error() {
        println!("\nthe configuration that holds is an older one: {error}");
    }
    let (computed, written) = (mesh.configs.stats().runs, writer.stats().written);
    print!("\nstopped: {computed} configurations were computed, {written} statuses written; ");
    Ok(())
}
