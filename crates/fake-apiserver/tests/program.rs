//! The program `fake-apiserver`: its URL, its kubeconfig, its clean end, and what it says when it cannot start.
#![forbid(unsafe_code)]
#![cfg(all(feature = "http", unix))]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A running program; killed if a test fails before it ends by itself.
struct Program {
    child: Child,
    address: String,
}

impl Program {
    fn start(arguments: &[&str]) -> Self {
        let mut child = program(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program and its files answer");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("the program and its files answer"))
            .read_line(&mut line)
            .expect("the program and its files answer");
        let address = line
            .trim()
            .strip_prefix("http://")
            .expect("the first line is the URL")
            .to_owned();
        Self { child, address }
    }

    fn terminate(&mut self) -> std::process::ExitStatus {
        let sent = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status()
            .expect("the program and its files answer");
        assert!(sent.success());
        self.child.wait().expect("the program and its files answer")
    }

    /// Sends a request and reads the answer to its end.
    fn request(&self, head: &str) -> String {
        let mut stream = self.open(head);
        let mut answer = String::new();
        stream
            .read_to_string(&mut answer)
            .expect("the program and its files answer");
        answer
    }

    fn open(&self, head: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("the program and its files answer");
        stream
            .write_all(format!("{head} HTTP/1.1\r\nHost: fake\r\nConnection: close\r\n\r\n").as_bytes())
            .expect("the program and its files answer");
        stream
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Fails if the program has ended, which is what most tests want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fake-apiserver"));
    command.args(arguments);
    command
}

#[test]
fn program_serves_and_ends_on_sigterm_with_an_open_watch() {
    let mut program = Program::start(&[]);
    let answer = program.request("GET /api/v1/namespaces/default");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\"name\":\"default\""), "{answer}");
    let mut watch = BufReader::new(program.open("GET /api/v1/namespaces?watch=1"));
    let mut line = String::new();
    while !line.contains("\"type\":\"ADDED\"") {
        line.clear();
        assert_ne!(
            watch.read_line(&mut line).expect("the program and its files answer"),
            0,
            "the watch ended early"
        );
    }
    assert!(program.terminate().success());
    let mut rest = String::new();
    watch
        .read_to_string(&mut rest)
        .expect("the program and its files answer");
    assert!(rest.ends_with("0\r\n\r\n"), "the watch ends cleanly: {rest:?}");
}

#[test]
fn program_ends_although_clients_hold_their_connections() {
    let mut program = Program::start(&[]);
    let mut held = Vec::new();
    for part in [
        "",
        "GET /api/v1/names",
        "GET /healthz HTTP/1.1\r\nHost: fake\r\n",
        "POST /api/v1/namespaces HTTP/1.1\r\nHost: fake\r\nContent-Length: 100\r\n\r\n{",
    ] {
        let mut stream = TcpStream::connect(&program.address).expect("the program and its files answer");
        stream
            .write_all(part.as_bytes())
            .expect("the program and its files answer");
        held.push(stream);
    }
    // The others' answers come after the server has seen what the held connections sent.
    assert!(program.request("GET /healthz").ends_with("ok"));
    assert!(program.terminate().success());
    assert_eq!(held.len(), 4, "all are still open on the clients' side");
}

#[test]
fn program_writes_a_kubeconfig_for_its_address() {
    let path = std::env::temp_dir().join(format!("fake-apiserver-{}.kubeconfig", std::process::id()));
    let mut program = Program::start(&[
        "--kubeconfig-out",
        path.to_str().expect("the program and its files answer"),
    ]);
    let config = std::fs::read_to_string(&path).expect("the program and its files answer");
    assert!(
        config.contains(&format!("server: http://{}\n", program.address)),
        "{config}"
    );
    assert!(program.terminate().success());
    std::fs::remove_file(path).expect("the program and its files answer");
}

#[cfg(feature = "tls")]
#[test]
fn program_serves_over_tls_and_tells_whom_to_trust() {
    let folder = Folder::new("tls");
    let config = folder.0.join("kubeconfig");
    let mut child = program(&["--tls", "--kubeconfig-out", config.to_str().expect("a path of text")])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program and its files answer");
    let mut url = String::new();
    BufReader::new(child.stdout.take().expect("a pipe"))
        .read_line(&mut url)
        .expect("the program and its files answer");
    child.kill().expect("the program and its files answer");
    child.wait().expect("the program and its files answer");
    let url = url.trim();
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    let config = std::fs::read_to_string(&config).expect("the program and its files answer");
    // "-----BEGIN CERTIFICATE-----"
    let trusted = "    certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t";
    assert!(config.contains(&format!("server: {url}\n{trusted}")), "{config}");
    assert!(config.contains("user: {token: anybody}\n"), "{config}");
}

#[cfg(feature = "tls")]
#[test]
fn program_says_what_is_wrong_with_certificates() {
    let folder = Folder::new("certificates");
    folder.write("empty", "").write("text", "no certificate");
    let file = |name: &str| format!("{}/{name}", folder.path());
    let (empty, text, absent) = (file("empty"), file("text"), file("absent"));
    let with = |certificate: &str, key: &str| complaint(&["--tls-cert", certificate, "--tls-key", key]);
    for certificate in [&empty, &text] {
        assert_eq!(
            with(certificate, &empty),
            format!(
                "fake-apiserver: cannot use {certificate} and {empty}: no certificate can be read: there is none in it (PEM is \
                 expected)\n"
            )
        );
    }
    let told = with(&absent, &empty);
    assert!(
        told.starts_with(&format!("fake-apiserver: cannot read {absent}: ")),
        "{told}"
    );
    for own in ["--tls-cert", "--tls-key"] {
        // A certificate that is made has a key of its own.
        let output = program(&["--tls", own, &empty]).output();
        let output = output.expect("the program and its files answer");
        assert_eq!(output.status.code(), Some(2));
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("cannot be used with"), "{text}");
    }
    for alone in [["--tls-cert", &empty], ["--tls-key", &empty]] {
        let output = program(&alone).output().expect("the program and its files answer");
        assert_eq!(output.status.code(), Some(2), "one is of no use without the other");
    }
}

/// What a program prints that cannot start.
fn complaint(arguments: &[&str]) -> String {
    let output = program(arguments).output().expect("the program and its files answer");
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    String::from_utf8(output.stderr).expect("the program and its files answer")
}

#[test]
fn program_says_why_it_cannot_listen() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("the program and its files answer");
    let address = taken
        .local_addr()
        .expect("the program and its files answer")
        .to_string();
    assert_eq!(
        complaint(&["--listen", &address]),
        format!("fake-apiserver: {address} is in use by another program; choose another with --listen\n")
    );
    assert_eq!(
        complaint(&["--listen", "8080"]),
        "fake-apiserver: cannot listen on 8080: not of the form HOST:PORT\n"
    );
}

#[test]
fn program_is_told_of_an_address_that_others_reach() {
    let mut child = program(&["--listen", "0.0.0.0:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program and its files answer");
    let mut url = String::new();
    BufReader::new(child.stdout.take().expect("a pipe"))
        .read_line(&mut url)
        .expect("the program and its files answer");
    child.kill().expect("the program and its files answer");
    child.wait().expect("the program and its files answer");
    let mut told = String::new();
    let mut stderr = child.stderr.take().expect("a pipe");
    stderr
        .read_to_string(&mut told)
        .expect("the program and its files answer");
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    assert!(
        told.contains("is not on loopback: there is no authentication"),
        "{told}"
    );
    let hint = format!("try `kubectl --server {} get namespaces`", url.trim_end());
    assert!(told.contains(&hint), "{told}");
}

/// A folder that goes away with its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fake-apiserver-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the program and its files answer");
        Self(path)
    }

    fn write(&self, file: &str, text: &str) -> &Self {
        std::fs::write(self.0.join(file), text).expect("the program and its files answer");
        self
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path of text")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left in the folder for temporary files harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn program_loads_the_files_of_a_folder() {
    let folder = Folder::new("load");
    folder
        .write("1.yaml", "apiVersion: x.io/v1\nkind: Widget\nmetadata: {name: w, namespace: shop}\n")
        .write(
            "2.json",
            r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.x.io"},
                "spec": {"group": "x.io", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"}, "versions": [
                    {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}"#,
        )
        .write(
            "3.yml",
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\n\
             apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\nstatus: {phase: Running}\n",
        )
        .write("notes.txt", "not read");
    let mut program = Program::start(&["--load", folder.path()]);
    let widget = program.request("GET /apis/x.io/v1/namespaces/shop/widgets/w");
    assert!(widget.starts_with("HTTP/1.1 200 OK\r\n"), "{widget}");
    let pod = program.request("GET /api/v1/namespaces/default/pods/p");
    assert!(pod.contains("\"phase\":\"Running\""), "{pod}");
    assert!(program.terminate().success());
}

#[test]
fn program_says_what_it_cannot_load() {
    let folder = Folder::new("bad");
    assert_eq!(
        complaint(&["--load", folder.path()]),
        format!(
            "fake-apiserver: cannot load {}: no file *.yaml, *.yml or *.json is in it\n",
            folder.path()
        )
    );
    let absent = complaint(&["--load", "/nonexistent/file.yaml"]);
    assert!(
        absent.starts_with("fake-apiserver: cannot load /nonexistent/file.yaml: "),
        "{absent}"
    );
    folder.write(
        "a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\nkind: ConfigMap\n",
    );
    let file = format!("{}/a.yaml", folder.path());
    assert_eq!(
        complaint(&["--load", folder.path()]),
        format!(
            "fake-apiserver: document 2 of {file} cannot be loaded: it has no apiVersion (its kind is ConfigMap)\n"
        )
    );
    folder.write("a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: A}\n");
    let refused = complaint(&["--load", &file]);
    let expected = format!(
        "fake-apiserver: document 1 of {file} cannot be loaded: the object \"A\" of kind \"ConfigMap\" is refused: ConfigMap \"A\" is invalid: "
    );
    assert!(refused.starts_with(&expected), "{refused}");
}

#[test]
fn program_says_that_it_cannot_write_the_kubeconfig() {
    let message = complaint(&["--kubeconfig-out", "/nonexistent/folder/config"]);
    assert!(
        message.starts_with("fake-apiserver: cannot write /nonexistent/folder/config: "),
        "{message}"
    );
}

// [F13]
#[test]
fn program_runs_the_controllers_that_it_is_asked_for() {
    let program = Program::start(&["--gc", "--controllers", "service-accounts,namespaces"]);
    // The account is made by the controllers, so it may take them a moment: a watch sees it in any case.
    let stream = program.open("GET /api/v1/namespaces/default/serviceaccounts?watch=1&timeoutSeconds=30");
    let found = BufReader::new(stream)
        .lines()
        .map_while(Result::ok)
        .any(|line| line.contains("\"name\":\"default\""));
    assert!(found, "there is no service account");
}
