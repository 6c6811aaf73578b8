//! kubectl, unchanged, against both servers: the in-memory one in its HTTP form. [F19]
//!
//! The program is `KUBECTL`, or the one that is built beside the API server rig; the module `installed` has the cases with the
//! kubectl of the machine, if there is one, which is of another version.

mod alike;
mod secure;
mod shows;
mod writes;

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::harness::{CustomKind, Namespace, Server, eventually, limited, unique};
use shows::{
    api_resources_lists_the_kinds, asks_what_it_may_do, connections_are_refused, describes_with_events,
    explains_kinds_and_fields, get_watches, shows_differences, waits_for_conditions,
};
use writes::{
    applies_on_the_client, applies_on_the_server, creates_custom_resources, creates_from_flags,
    creates_gets_and_deletes_a_pod, creates_many_kinds, deletes_in_all_ways, edits_built_in_kinds,
    edits_custom_resources, labels_and_annotates, patches_applies_and_scales_workloads, replaces_and_patches,
};

/// A server with a kubectl that talks to it.
struct Kubectl {
    program: PathBuf,
    server: Server,
    /// Where kubectl keeps its caches: discovery of another server at the same address would confuse it.
    home: PathBuf,
    /// The in-memory server's URL; the real one is in `KUBECONFIG`.
    url: Option<String>,
    stop: CancellationToken,
    serving: Option<JoinHandle<std::io::Result<()>>>,
}

impl Kubectl {
    async fn fake(program: &Path) -> Kubectl {
        let server = Server::fake();
        let fake = server.in_memory().expect("the in-memory server").clone();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port on loopback");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let serving = tokio::spawn(async move { fake.serve(listener, stopped).await });
        Kubectl {
            program: program.to_owned(),
            home: home(),
            server,
            url: Some(url),
            stop,
            serving: Some(serving),
        }
    }

    async fn real(program: &Path) -> Kubectl {
        let server = Server::real().await;
        Kubectl {
            program: program.to_owned(),
            home: home(),
            server,
            url: None,
            stop: CancellationToken::new(),
            serving: None,
        }
    }

    /// Ends the in-memory server and waits for its end.
    async fn close(mut self) {
        self.stop.cancel();
        if let Some(serving) = self.serving.take() {
            let served = limited("the server's end", serving).await;
            served
                .expect("the server did not panic")
                .expect("the server ended without an error");
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("--cache-dir")
            .arg(self.home.join("cache"))
            .env("HOME", &self.home)
            .kill_on_drop(true);
        if let Some(url) = &self.url {
            command
                .args(["--server", url])
                .env("KUBECONFIG", self.home.join("none"));
        }
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs kubectl to its end.
    async fn run(&self, arguments: &[&str], input: Option<&Value>) -> Output {
        Self::run_to_end(self.command(arguments), arguments, input).await
    }

    /// Runs `kubectl edit` with a script in the place of the editor, which finds the file in `$1`: the exit code, and all
    /// that is printed.
    async fn edit(&self, script: &str, arguments: &[&str]) -> (Option<i32>, String) {
        let editor = self.home.join("editor");
        std::fs::write(&editor, script).expect("a file in our folder");
        let arguments = [&["edit"], arguments].concat();
        let mut command = self.command(&arguments);
        // What cannot be saved is kept in a file, which is to go away with ours.
        let editor = format!("sh {}", editor.display());
        command.env("KUBE_EDITOR", editor).env("TMPDIR", &self.home);
        let output = Self::run_to_end(command, &arguments, None).await;
        let printed = String::from_utf8([output.stdout, output.stderr].concat());
        (output.status.code(), printed.expect("kubectl prints text"))
    }

    async fn run_to_end(mut command: Command, arguments: &[&str], input: Option<&Value>) -> Output {
        if input.is_some() {
            command.stdin(Stdio::piped());
        }
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", command.as_std().get_program().display()));
        if let Some(input) = input {
            let mut stdin = child.stdin.take().expect("a pipe");
            stdin
                .write_all(input.to_string().as_bytes())
                .await
                .expect("kubectl reads its input");
        }
        let output = limited(&format!("kubectl {arguments:?}"), child.wait_with_output()).await;
        output.expect("kubectl can be waited for")
    }

    /// What kubectl prints when it succeeds.
    async fn ok(&self, arguments: &[&str]) -> String {
        self.ok_with(arguments, None).await
    }

    async fn ok_with(&self, arguments: &[&str], input: Option<&Value>) -> String {
        let output = self.run(arguments, input).await;
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "kubectl {arguments:?}: {}: {errors}",
            output.status
        );
        String::from_utf8(output.stdout)
            .expect("kubectl prints text")
            .trim_end()
            .to_owned()
    }

    /// What kubectl complains about when it fails.
    async fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments, None).await;
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "kubectl {arguments:?}: {printed}");
        String::from_utf8(output.stderr)
            .expect("kubectl prints text")
            .trim_end()
            .to_owned()
    }

    /// Starts a kubectl that runs until it is killed, and gives its lines.
    fn start(&self, arguments: &[&str]) -> (Child, Lines<BufReader<ChildStdout>>) {
        let mut child = self.command(arguments).spawn().expect("kubectl starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        (child, lines)
    }
}

impl Drop for Kubectl {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.home) {
            eprintln!("{} cannot be removed: {error}", self.home.display());
        }
    }
}

fn program() -> PathBuf {
    std::env::var_os("KUBECTL").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/apiserver/bin/kubectl"),
        PathBuf::from,
    )
}

/// The kubectl that is installed on this machine, if it is another one.
fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut programs = std::env::split_paths(&path).map(|folder| folder.join("kubectl"));
    let installed = programs.find(|program| program.is_file())?.canonicalize().ok()?;
    let is_other = program().canonicalize().ok().as_ref() != Some(&installed);
    is_other.then_some(installed)
}

fn home() -> PathBuf {
    let home = std::env::temp_dir().join(format!("watershed-kubectl-{}", unique()));
    std::fs::create_dir_all(&home).expect("a folder for kubectl");
    home
}

/// The columns of a line of a table.
fn columns(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

macro_rules! both {
    ($($name:ident),+ $(,)?) => {
        mod fake {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                #[ignore = "needs kubectl"]
                async fn $name() {
                    let kubectl = super::Kubectl::fake(&super::program()).await;
                    let namespace = kubectl.server.namespace().await;
                    super::$name(&kubectl, &namespace).await;
                    kubectl.close().await;
                }
            )+
        }
        mod installed {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                #[ignore = "needs an installed kubectl"]
                async fn $name() {
                    let Some(program) = super::installed() else {
                        eprintln!("no kubectl is installed: nothing to try");
                        return;
                    };
                    let kubectl = super::Kubectl::fake(&program).await;
                    let namespace = kubectl.server.namespace().await;
                    super::$name(&kubectl, &namespace).await;
                    kubectl.close().await;
                }
            )+
        }
        mod real {
            $(
                #[tokio::test]
                #[ignore = "needs kubectl and the API server rig"]
                async fn $name() {
                    let kubectl = super::Kubectl::real(&super::program()).await;
                    let namespace = kubectl.server.namespace().await;
                    super::$name(&kubectl, &namespace).await;
                    kubectl.close().await;
                }
            )+
        }
    };
}

both![
    api_resources_lists_the_kinds,
    creates_from_flags,
    creates_gets_and_deletes_a_pod,
    get_watches,
    creates_custom_resources,
    edits_custom_resources,
    edits_built_in_kinds,
    patches_applies_and_scales_workloads,
    applies_on_the_server,
    explains_kinds_and_fields,
    applies_on_the_client,
    shows_differences,
    labels_and_annotates,
    waits_for_conditions,
    deletes_in_all_ways,
    describes_with_events,
    creates_many_kinds,
    replaces_and_patches,
    connections_are_refused,
    asks_what_it_may_do,
];
