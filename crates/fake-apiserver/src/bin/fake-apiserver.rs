//! The in-memory API server as a program: `fake-apiserver --kubeconfig-out FILE`, then `kubectl --kubeconfig FILE get all`.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Parser, ValueEnum};
#[cfg(feature = "tls")]
use fake_apiserver::TlsIdentity;
use fake_apiserver::{Builder, Controller, FakeApiServer};
use tokio::net::TcpListener;

/// How long after Ctrl-C or SIGTERM the program ends, whatever it is doing: the server gives its clients two seconds.
const LAST: Duration = Duration::from_millis(2_500);

/// An in-memory Kubernetes API server, for tests and development. Nothing is kept when it ends.
///
/// The first line on standard output is the URL, once it answers. There is no authentication.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// Where to listen, HOST:PORT; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: String,
    /// Writes a kubeconfig for the server to this file.
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// Serves over TLS, with a certificate that is made at the start: its authority is in the kubeconfig.
    #[cfg(feature = "tls")]
    #[arg(long, conflicts_with_all = ["tls_cert", "tls_key"])]
    tls: bool,
    /// Serves over TLS, with the certificate of this file (PEM), after which those may stand that vouch for it.
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate of --tls-cert (PEM).
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Starts with the objects of this file, or of the files *.yaml, *.yml and *.json of this folder; may be repeated.
    ///
    /// Definitions and namespaces are loaded first; a namespace that is named only by an object in it is made. Objects keep
    /// the status that they have.
    #[arg(long, value_name = "PATH")]
    load: Vec<PathBuf>,
    /// Seed of uids and generated names.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Controllers to stand in for, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    controllers: Vec<Chosen>,
    /// Short for `--controllers gc`.
    #[arg(long)]
    gc: bool,
}

/// A controller by its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Chosen {
    /// All of them.
    All,
    /// The garbage collector.
    Gc,
    /// What empties namespaces that are deleted.
    Namespaces,
    /// What makes the service account and the certificate of each namespace.
    ServiceAccounts,
    /// Scheduler and kubelets.
    Kubelet,
    /// The controller of deployments.
    Deployments,
    /// The controller of replica sets.
    ReplicaSets,
}

impl Options {
    fn controllers(&self) -> Vec<Controller> {
        let gc = self.gc.then_some(Chosen::Gc);
        let chosen = self.controllers.iter().copied().chain(gc);
        chosen
            .flat_map(|chosen| match chosen {
                Chosen::All => Controller::ALL.to_vec(),
                Chosen::Gc => vec![Controller::GarbageCollector],
                Chosen::Namespaces => vec![Controller::Namespaces],
                Chosen::ServiceAccounts => vec![Controller::ServiceAccounts],
                Chosen::Kubelet => vec![Controller::Kubelet],
                Chosen::Deployments => vec![Controller::Deployments],
                Chosen::ReplicaSets => vec![Controller::ReplicaSets],
            })
            .collect()
    }
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
    let mut builder = FakeApiServer::builder()
        .seed(options.seed)
        .bootstrap_objects(true)
        .controllers(options.controllers());
    for path in &options.load {
        builder = load(builder, path)?;
    }
    let server = builder.build().map_err(|error| with_source(&error))?;
    let wanted = &options.listen;
    let listener = TcpListener::bind(wanted).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => format!("{wanted} is in use by another program; choose another with --listen"),
        io::ErrorKind::InvalidInput => format!("cannot listen on {wanted}: not of the form HOST:PORT"),
        _ => format!("cannot listen on {wanted}: {error}"),
    })?;
    let address = listener
        .local_addr()
        .map_err(|error| format!("cannot read the address of the listener: {error}"))?;
    let security = security(options, address)?;
    let url = format!("{}://{}", security.scheme(), reachable(address));
    if let Some(path) = &options.kubeconfig_out {
        write_kubeconfig(path, &url, security.authority())?;
    }
    let shutdown = shutdown_signal()?;
    tell(address, &url, options.kubeconfig_out.as_deref()).map_err(|error| format!("cannot print the URL: {error}"))?;
    let served = match &security {
        Security::None => server.serve(listener, shutdown).await,
        #[cfg(feature = "tls")]
        Security::Tls(identity) => server.serve_tls(listener, identity, shutdown).await,
    };
    served.map_err(|error| format!("serving {url} failed: {error}"))
}

/// What is below HTTP.
enum Security {
    None,
    #[cfg(feature = "tls")]
    Tls(TlsIdentity),
}

impl Security {
    fn scheme(&self) -> &'static str {
        match self {
            Self::None => "http",
            #[cfg(feature = "tls")]
            Self::Tls(_) => "https",
        }
    }

    /// What clients must trust, in PEM.
    fn authority(&self) -> Option<&str> {
        match self {
            Self::None => None,
            #[cfg(feature = "tls")]
            Self::Tls(identity) => Some(identity.authority()),
        }
    }
}

/// What the options ask for, at this address.
#[cfg(feature = "tls")]
fn security(options: &Options, address: SocketAddr) -> Result<Security, String> {
    let read =
        |path: &Path| std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()));
    let identity = match (&options.tls_cert, &options.tls_key) {
        (Some(certificate), Some(key)) => {
            let identity = TlsIdentity::from_pem(&read(certificate)?, &read(key)?);
            identity.map_err(|error| {
                let files = format!("{} and {}", certificate.display(), key.display());
                format!("cannot use {files}: {}", with_source(&error))
            })?
        }
        _ if options.tls => {
            let mut names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
            let host = options.listen.rsplit_once(':').map_or("", |(host, _)| host);
            names.extend([address.ip().to_string(), host.trim_matches(['[', ']']).to_owned()]);
            names.retain(|name| !name.is_empty());
            TlsIdentity::self_signed(names).map_err(|error| with_source(&error))?
        }
        _ => return Ok(Security::None),
    };
    Ok(Security::Tls(identity))
}

/// What the options ask for.
#[cfg(not(feature = "tls"))]
#[expect(clippy::unnecessary_wraps, reason = "with TLS there is what can go wrong")]
fn security(_: &Options, _: SocketAddr) -> Result<Security, String> {
    Ok(Security::None)
}

/// Adds the objects of a file, or of the files in a folder in the order of their names.
fn load(builder: Builder, path: &Path) -> Result<Builder, String> {
    let failed = |path: &Path, error: io::Error| format!("cannot load {}: {error}", path.display());
    if !path.metadata().map_err(|error| failed(path, error))?.is_dir() {
        return load_file(builder, path);
    }
    let mut files = Vec::new();
    for entry in path.read_dir().map_err(|error| failed(path, error))? {
        let file = entry.map_err(|error| failed(path, error))?.path();
        let extension = file.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("yaml" | "yml" | "json")) {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(format!(
            "cannot load {}: no file *.yaml, *.yml or *.json is in it",
            path.display()
        ));
    }
    files.sort();
    files.iter().try_fold(builder, |builder, file| load_file(builder, file))
}

fn load_file(builder: Builder, path: &Path) -> Result<Builder, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot load {}: {error}", path.display()))?;
    builder
        .manifest(&path.display().to_string(), &text)
        .map_err(|error| with_source(&error))
}

fn with_source(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", with_source(source)),
        None => error.to_string(),
    }
}

/// An address at which a program on this machine finds the listener.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

/// Prints the URL on standard output, for programs, and what to do with it on standard error, for people.
fn tell(address: SocketAddr, url: &str, kubeconfig: Option<&Path>) -> io::Result<()> {
    if !address.ip().is_loopback() {
        eprintln!(
            "fake-apiserver: {address} is not on loopback: there is no authentication, whoever reaches it may do everything"
        );
    }
    let how = kubeconfig.map_or_else(
        || {
            let insecure = if url.starts_with("https") {
                " --insecure-skip-tls-verify --token anybody"
            } else {
                ""
            };
            format!("kubectl --server {url}{insecure}")
        },
        |path| format!("kubectl --kubeconfig {}", path.display()),
    );
    eprintln!("fake-apiserver: try `{how} get namespaces`; Ctrl-C ends the server, nothing is kept");
    let mut out = io::stdout().lock();
    writeln!(out, "{url}")?;
    out.flush()
}

fn write_kubeconfig(path: &Path, url: &str, authority: Option<&str>) -> Result<(), String> {
    let trust = authority.map_or_else(String::new, |pem| {
        format!("    certificate-authority-data: {}\n", STANDARD.encode(pem))
    });
    // Over TLS kubectl asks whoever has no credentials for a name and a password.
    let user = authority.map_or("{}", |_| "{token: anybody}");
    let config = format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: fake\n  cluster:\n    server: {url}\n{trust}users:\n- name: fake\n  \
         user: {user}\ncontexts:\n- name: fake\n  context:\n    cluster: fake\n    user: fake\n    namespace: default\n\
         current-context: fake\n"
    );
    std::fs::write(path, config).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Resolves on Ctrl-C or SIGTERM. Some time after that the program ends in any case: a request that computes for long gives way to
/// nobody, so the signals are listened for, and the time is kept, by a thread of its own.
fn shutdown_signal() -> Result<impl Future<Output = ()> + Send + 'static, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the thread for signals: {error}"))?;
    let signal = {
        let _inside = runtime.enter();
        signal()?
    };
    let (tell, told) = tokio::sync::oneshot::channel();
    let listen = move || {
        runtime.block_on(async {
            signal.await;
            // The server may have ended by itself.
            let _ = tell.send(());
            tokio::time::sleep(LAST).await;
        });
        std::process::exit(0);
    };
    // Ends with the program.
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(listen)
        .map_err(|error| format!("cannot start the thread for signals: {error}"))?;
    Ok(async move {
        let _ = told.await;
    })
}

/// Resolves on Ctrl-C or SIGTERM.
#[cfg(unix)]
fn signal() -> Result<impl Future<Output = ()> + Send + 'static, String> {
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
#[expect(clippy::unnecessary_wraps, reason = "elsewhere there is what can go wrong")]
fn signal() -> Result<impl Future<Output = ()> + Send + 'static, String> {
    Ok(async {
        // Without a handler for Ctrl-C the program is ended by the system instead.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}
