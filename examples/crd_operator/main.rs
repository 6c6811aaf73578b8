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

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use tokio_util::sync::CancellationToken;
use watershed::kclient::{Outcome, Stopped};
use watershed::kube_client::{self, SyncOptions};

use operator::{Did, Directory, Operator};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// How long the example runs unless told otherwise.
const SHOW: Duration = Duration::from_secs(10);

/// Keeps a deployment and a directory entry for each site, and prints what it does.
#[derive(Parser)]
struct Arguments {
    /// Run on the cluster of this kubeconfig instead of the in-memory server.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Run on the cluster of this context instead of the in-memory server; of the usual kubeconfig, unless one is given.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Install the definition of the kind on that cluster.
    #[arg(long)]
    install: bool,
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
        kube_client::Client::fake_builder().build()?
    } else {
        connect(&arguments).await?
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

    let show = async {
        if arguments.forever {
            std::future::pending::<()>().await;
        } else {
            tokio::time::sleep(SHOW).await;
        }
    };
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
        () = show => Ok(()),
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

/// A client for the cluster that the arguments name.
async fn connect(arguments: &Arguments) -> Result<kube_client::Client, Error> {
    let builder = kube_client::Client::builder().user_agent(operator::NAME);
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
        1 => "kclient=debug,kube_client=debug,crd_operator=debug",
        _ => "kclient=trace,kube_client=trace,kube=debug,crd_operator=trace",
    };
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_unset| level.into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .init();
}
