//! What a program around a controller has to do, the same in several examples: name its cluster, stop on a signal, log, and
//! fail with one clear message.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use watershed::kube_client::{Client, ClientBuilder};

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// How long an example runs unless told otherwise.
const SHOW: Duration = Duration::from_secs(10);

/// The arguments that the examples share.
#[derive(clap::Args)]
pub(crate) struct Program {
    /// Run on the cluster of this kubeconfig instead of the in-memory server.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Run on the cluster of this context instead of the in-memory server; of the usual kubeconfig, unless one is given.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Go on until Ctrl-C or SIGTERM.
    #[arg(long)]
    forever: bool,
    /// Log what happens inside, twice for more. `RUST_LOG` overrides it.
    #[arg(short, action = clap::ArgAction::Count)]
    verbose: u8,
}

impl Program {
    /// Whether no cluster is named.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.kubeconfig.is_none() && self.context.is_none()
    }

    /// A client with these options for the cluster that is named.
    pub(crate) async fn connect(&self, options: ClientBuilder) -> Result<Client, Error> {
        let context = self.context.as_deref();
        let options = if let Some(file) = &self.kubeconfig {
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

    /// Waits for as long as the example is to run.
    pub(crate) async fn show(&self) {
        if self.forever {
            std::future::pending::<()>().await;
        } else {
            tokio::time::sleep(SHOW).await;
        }
    }

    /// Writes the logs of all layers, and of the example of this name, to standard error.
    pub(crate) fn log(&self, example: &str) {
        let level = match self.verbose {
            0 => "off".to_owned(),
            1 => format!("kclient=debug,kube_client=debug,{example}=debug"),
            _ => format!("kclient=trace,kube_client=trace,kube=debug,{example}=trace"),
        };
        let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_unset| level.into());
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .init();
    }
}

/// Says what went wrong, if anything did.
pub(crate) fn exit(result: Result<(), Error>) -> ExitCode {
    match result {
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

/// Ends all that was started. Returns when the last task is gone.
pub(crate) async fn finish(cluster: &Client, signals: JoinHandle<()>) {
    signals.abort();
    cluster.shutdown().await;
}

/// Cancels `stop` on Ctrl-C, and on SIGTERM, which is what a cluster sends.
pub(crate) async fn stop_on_signal(stop: CancellationToken) {
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
