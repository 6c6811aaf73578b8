//! Collections in small: services and pods become the endpoints of each service, printed whenever they change.
//!
//! - `cargo run --example service_endpoints`: on an in-memory API server that keeps changing. It ends by itself after ten seconds.
//! - `cargo run --example service_endpoints -- --kubeconfig FILE`, `--context NAME` or both: the same on a real cluster. It only
//!   reads.
//! - `--namespace NAME`, as often as wanted, looks at these namespaces alone.
//!
//! It ends after ten seconds; with `--forever`, on Ctrl-C or SIGTERM. What is derived of what is in `endpoints.rs`: start reading
//! there.

mod endpoints;
mod world;

#[path = "../shared/program.rs"]
mod program;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use tokio_util::sync::CancellationToken;
use watershed::krt::Krt;
use watershed::kube_client::{Client, Namespaces, SyncError, SyncOptions};

use endpoints::{endpoints, line};
use program::{Error, Program, finish, stop_on_signal};

/// How long the world rests between two steps.
const PACE: Duration = Duration::from_millis(800);

/// Prints the endpoints of each service whenever they change.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    program: Program,
    /// Look at this namespace alone, or at several.
    #[arg(long, value_name = "NAME")]
    namespace: Vec<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    arguments.program.log("service_endpoints");
    program::exit(run(arguments).await)
}

async fn run(arguments: Arguments) -> Result<(), Error> {
    let options = Client::builder().user_agent("service-endpoints");
    let cluster = if arguments.program.is_in_memory() {
        world::create(options)?
    } else {
        arguments.program.connect(options).await?
    };
    let stop = CancellationToken::new();
    let signals = tokio::spawn(stop_on_signal(stop.clone()));
    let outcome = show(&cluster, &stop, &arguments).await;

    // Whatever happened: end all that was started, and say what is left.
    stop.cancel();
    finish(&cluster, signals).await;
    let runs = outcome?;
    println!(
        "\nstopped: endpoints were computed {runs} times; {} tasks left",
        cluster.stats().tasks
    );
    Ok(())
}

/// Prints for as long as it is to run. Returns how often endpoints were computed.
async fn show(cluster: &Client, stop: &CancellationToken, arguments: &Arguments) -> Result<u64, Error> {
    let namespaces = match &*arguments.namespace {
        [] => Namespaces::All,
        names => Namespaces::many(names),
    };
    let krt = Krt::builder("endpoints").build();
    let endpoints = endpoints(&krt, cluster, &namespaces)?;
    let start = Instant::now();
    let handler =
        endpoints.on_change(move |event| println!("{:>5.1} s  {}", start.elapsed().as_secs_f64(), line(event)));
    krt.start()?;
    // A person is waiting, so a wrong address or a missing right is told at once.
    match cluster.run_and_wait_with(stop, SyncOptions::fail_fast()).await {
        Ok(()) => {}
        Err(SyncError::Stopped) => return Ok(0),
        Err(error) => return Err(error.into()),
    }
    let world = async {
        if arguments.program.is_in_memory() {
            let users = world::Users::new(cluster, "shop");
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
    Ok(endpoints.stats().runs)
}
