//! The canonical controller, ready to run.
//!
//! - `cargo run --example pod_controller`: on an in-memory API server whose pods keep changing. It prints what it sees and
//!   ends by itself after ten seconds.
//! - `cargo run --example pod_controller -- --kubeconfig FILE`, `--context NAME` or both: the same on a real cluster. It only
//!   reads, unless a pod has the label `pod-controller.example/greet`.
//!
//! It ends after ten seconds; with `--forever`, on Ctrl-C or SIGTERM. The controller itself is in `controller.rs`: start reading there. Here is
//! what a program around it has to do: connect, start, stop, and fail with a clear message.

mod controller;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use tokio_util::sync::CancellationToken;
use watershed::kclient::{Filter, Stopped};
use watershed::kube_client::{self, SyncOptions};

use controller::{PodController, Seen};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// How long the example runs unless told otherwise.
const SHOW: Duration = Duration::from_secs(10);

/// Watches pods, prints what it sees, and greets those that ask for it.
#[derive(Parser)]
struct Arguments {
    /// Run on the cluster of this kubeconfig instead of the in-memory server.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Run on the cluster of this context instead of the in-memory server; of the usual kubeconfig, unless one is given.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Watch only this namespace.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Go on until Ctrl-C or SIGTERM.
    #[arg(long)]
    forever: bool,
    /// Log what happens inside, twice for more. `RUST_LOG` overrides it.
    #[arg(short, action = clap::ArgAction::Count)]
    verbose: u8,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    log(arguments.verbose);
    match run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", with_causes(&*error));
            ExitCode::FAILURE
        }
    }
}

/// One line with all causes: what failed, and why. Some errors repeat their cause in their own text; that part is left out.
fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
        cause = error.source();
    }
    text
}

async fn run(arguments: Arguments) -> Result<(), Error> {
    let in_memory = arguments.kubeconfig.is_none() && arguments.context.is_none();
    let cluster = if in_memory {
        world::create()?
    } else {
        connect(&arguments).await?
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

    let show = async {
        if arguments.forever {
            std::future::pending::<()>().await;
        } else {
            tokio::time::sleep(SHOW).await;
        }
    };
    let world = async {
        if in_memory {
            world::keep_changing(&cluster, &stop).await
        } else {
            std::future::pending().await
        }
    };
    let changed = tokio::select! {
        () = show => Ok(()),
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

/// A client for the cluster that the arguments name.
async fn connect(arguments: &Arguments) -> Result<kube_client::Client, Error> {
    let builder = kube_client::Client::builder().user_agent("pod-controller");
    let context = arguments.context.as_deref();
    let builder = if let Some(file) = &arguments.kubeconfig {
        builder.kubeconfig(file, context)
    } else {
        let options = kube::config::KubeConfigOptions {
            context: context.map(str::to_owned),
            ..Default::default()
        };
        builder.config(kube::Config::from_kubeconfig(&options).await?)
    };
    Ok(builder.build().await?)
}

/// Ends all that was started. Returns when the last task is gone.
async fn finish(cluster: &kube_client::Client, signals: tokio::task::JoinHandle<()>) {
    signals.abort();
    cluster.shutdown().await;
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

/// Cancels `stop` on Ctrl-C, and on SIGTERM, which is what a cluster sends.
async fn stop_on_signal(stop: CancellationToken) {
    tokio::select! {
        () = interrupted() => {}
        () = terminated() => {}
    }
    println!("\nstopping");
    stop.cancel();
}

/// Waits for Ctrl-C.
async fn interrupted() {
    if let Err(error) = tokio::signal::ctrl_c().await {
        tracing::warn!(%error, "cannot listen for Ctrl-C");
        std::future::pending::<()>().await;
    }
}

/// Waits for SIGTERM, where there is such a thing.
async fn terminated() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        match signal(SignalKind::terminate()) {
            Ok(mut terminate) => {
                if terminate.recv().await.is_some() {
                    return;
                }
            }
            Err(error) => tracing::warn!(%error, "cannot listen for SIGTERM"),
        }
    }
    std::future::pending::<()>().await;
}

/// Writes the logs of all layers to standard error.
fn log(verbose: u8) {
    let level = match verbose {
        0 => "off",
        1 => "kclient=debug,kube_client=debug,pod_controller=debug",
        _ => "kclient=trace,kube_client=trace,kube=debug,pod_controller=trace",
    };
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_unset| level.into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .init();
}
