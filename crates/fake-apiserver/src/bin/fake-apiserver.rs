//! The in-memory API server as a program: `fake-apiserver --port 8080`, then `kubectl -s http://127.0.0.1:8080`.
#![forbid(unsafe_code)]

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use fake_apiserver::FakeApiServer;
use tokio::net::TcpListener;

/// An in-memory Kubernetes API server on loopback, for tests and development. Nothing is kept when it ends.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// Port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Writes a kubeconfig for the server to this file.
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// Seed of uids and generated names.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start the async runtime: {error}")),
    };
    match runtime.block_on(run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => fail(&message),
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("fake-apiserver: {message}");
    ExitCode::FAILURE
}

async fn run(options: &Options) -> Result<(), String> {
    let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
    let listener = TcpListener::bind(wanted).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            format!(
                "port {} is in use by another program; choose another with --port",
                options.port
            )
        }
        _ => format!("cannot listen on {wanted}: {error}"),
    })?;
    let address = listener
        .local_addr()
        .map_err(|error| format!("cannot read the address of the listener: {error}"))?;
    let url = format!("http://{address}");
    if let Some(path) = &options.kubeconfig_out {
        write_kubeconfig(path, &url)?;
    }
    let shutdown = shutdown_signal()?;
    let server = FakeApiServer::builder()
        .seed(options.seed)
        .build()
        .map_err(|error| error.to_string())?;
    println!("{url}");
    server
        .serve(listener, shutdown)
        .await
        .map_err(|error| format!("serving {url} failed: {error}"))
}

fn write_kubeconfig(path: &Path, url: &str) -> Result<(), String> {
    let config = format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: fake\n  cluster:\n    server: {url}\nusers:\n- name: fake\n  \
         user: {{}}\ncontexts:\n- name: fake\n  context:\n    cluster: fake\n    user: fake\n    namespace: default\n\
         current-context: fake\n"
    );
    std::fs::write(path, config).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Resolves on Ctrl-C or SIGTERM.
#[cfg(unix)]
fn shutdown_signal() -> Result<impl Future<Output = ()> + Send + 'static, String> {
    use tokio::signal::unix::{SignalKind, signal};
    let listen = |kind, name| signal(kind).map_err(|error| format!("cannot listen for {name}: {error}"));
    let mut interrupt = listen(SignalKind::interrupt(), "Ctrl-C")?;
    let mut terminate = listen(SignalKind::terminate(), "SIGTERM")?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Resolves on Ctrl-C.
#[cfg(not(unix))]
fn shutdown_signal() -> Result<impl Future<Output = ()> + Send + 'static, String> {
    Ok(async {
        // Without a handler for Ctrl-C the program is ended by the system instead.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}
