//! Orders to the server, from the process that is measured.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use anyhow::Context;

/// Sends one order and waits for its answer. Blocks; the answers come at once, except that of `watches/N`.
fn order(server: SocketAddr, what: &str) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(server).context("cannot reach the server")?;
    write!(stream, "GET /control/{what} HTTP/1.1\r\nHost: {server}\r\n\r\n")?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.lines().next().unwrap_or_default();
    anyhow::ensure!(status == "HTTP/1.1 200 OK", "the server refused {what}: {status:?}");
    Ok(())
}

/// Lets the open watch send every event.
pub(crate) fn flood(server: SocketAddr) -> anyhow::Result<()> {
    order(server, "flood")
}

/// Ends the open watch with a 410.
pub(crate) fn expire(server: SocketAddr) -> anyhow::Result<()> {
    order(server, "expire")
}

/// Waits until so many watches have been opened.
pub(crate) async fn watches(server: SocketAddr, count: u64) -> anyhow::Result<()> {
    tokio::task::spawn_blocking(move || order(server, &format!("watches/{count}"))).await?
}
