//! The program `fake-apiserver`: its URL, its kubeconfig, its clean end, and what it says when it cannot start.
#![forbid(unsafe_code)]
#![cfg(all(feature = "http", unix))]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
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

#[test]
fn program_says_that_its_port_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("the program and its files answer");
    let port = taken
        .local_addr()
        .expect("the program and its files answer")
        .port()
        .to_string();
    let output = program(&["--port", &port])
        .output()
        .expect("the program and its files answer");
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).expect("the program and its files answer");
    assert_eq!(
        message,
        format!("fake-apiserver: port {port} is in use by another program; choose another with --port\n")
    );
}

#[test]
fn program_says_that_it_cannot_write_the_kubeconfig() {
    let output = program(&["--kubeconfig-out", "/nonexistent/folder/config"])
        .output()
        .expect("the program and its files answer");
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).expect("the program and its files answer");
    assert!(
        message.starts_with("fake-apiserver: cannot write /nonexistent/folder/config: "),
        "{message}"
    );
}
