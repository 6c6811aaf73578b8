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

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use tokio_util::sync::CancellationToken;
use watershed::kclient::{DiscoveryNamespaces, Stopped};
use watershed::kube_client::{self, ClientBuilder, CrdOptions, SyncError, SyncOptions};

use watcher::{Report, Watcher};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// How long the example runs unless told otherwise.
const SHOW: Duration = Duration::from_secs(10);

/// Prints one configuration of services, endpoint slices, pods and route policies whenever it changes.
#[derive(Parser)]
struct Arguments {
    /// Run on the cluster of this kubeconfig instead of the in-memory server.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Run on the cluster of this context instead of the in-memory server; of the usual kubeconfig, unless one is given.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Take only namespaces with this label, or one of several. [default: all of a cluster, `mesh=on` of the in-memory server]
    #[arg(long, value_name = "LABEL=VALUE", value_parser = selector)]
    select: Vec<LabelSelector>,
    /// Leave out custom kinds: `routepolicies.mesh.example`, or `*.mesh.example`.
    #[arg(long, value_name = "PATTERN")]
    ignore_kinds: Vec<String>,
    /// Go on until Ctrl-C or SIGTERM.
    #[arg(long)]
    forever: bool,
    /// Log what happens inside, twice for more. `RUST_LOG` overrides it.
    #[arg(short, action = clap::ArgAction::Count)]
    verbose: u8,
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
    log(arguments.verbose);
    match run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", with_causes(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Error> {
    let in_memory = arguments.kubeconfig.is_none() && arguments.context.is_none();
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
        connect(&arguments, options).await?
    };
    let stop = CancellationToken::new();
    let signals = tokio::spawn(stop_on_signal(stop.clone()));
    let outcome = show(&cluster, &stop, &arguments, in_memory).await;

    // Whatever happened: end all that was started, and say what is left.
    signals.abort();
    stop.cancel();
    cluster.shutdown().await;
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
    let show = async {
        if arguments.forever {
            std::future::pending::<()>().await;
        } else {
            tokio::time::sleep(SHOW).await;
        }
    };
    let world = async {
        if in_memory {
            world::keep_changing(cluster, stop).await?;
        }
        // No step is left: what there is stays.
        std::future::pending().await
    };
    let changed: Result<(), Error> = tokio::select! {
        () = show => Ok(()),
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

/// A client for the cluster that the arguments name.
async fn connect(arguments: &Arguments, options: ClientBuilder) -> Result<kube_client::Client, Error> {
    let context = arguments.context.as_deref();
    let options = if let Some(file) = &arguments.kubeconfig {
        options.kubeconfig(file, context)
    } else {
        let of_context = kube::config::KubeConfigOptions {
            context: context.map(str::to_owned),
            ..Default::default()
        };
        options.config(kube::Config::from_kubeconfig(&of_context).await?)
    };
    Ok(options.build().await?)
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

/// Cancels `stop` on Ctrl-C, and on SIGTERM, which is what a cluster sends.
async fn stop_on_signal(stop: CancellationToken) {
    let interrupted = async {
        if let Err(error) = tokio::signal::ctrl_c().await {
            tracing::warn!(%error, "cannot listen for Ctrl-C");
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = interrupted => {}
        () = terminated() => {}
    }
    println!("\nstopping");
    stop.cancel();
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
        1 => "kclient=debug,kube_client=debug,multi_kind=debug",
        _ => "kclient=trace,kube_client=trace,kube=debug,multi_kind=trace",
    };
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_unset| level.into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .init();
}
