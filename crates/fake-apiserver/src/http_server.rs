//! The server over HTTP/1.1 on a socket, for kubectl and for clients in other processes.
//!
//! Owns the accept loop and the task of each connection: when [`serve`](FakeApiServer::serve) ends, or is dropped, none is
//! left.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};

use crate::server::FakeApiServer;

/// How long a shutdown waits for requests that are under way.
const GRACE: Duration = Duration::from_secs(2);
/// The pause after the system could not accept a connection, most likely for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// A listener that fails so often in a row does not recover.
const ACCEPT_FAILURES: u32 = 10;

impl FakeApiServer {
    /// Serves HTTP on a listener until `shutdown` resolves, then ends the open watches and finishes what is under way,
    /// for at most two seconds: a client that sends half a request or does not read its answer cannot hold it longer.
    ///
    /// There is no TLS and no authentication: use it on loopback only.
    ///
    /// # Guarantees
    /// When this returns, every connection is closed and its task has ended.
    ///
    /// # Errors
    /// When the listener fails ten times in a row; connections that break while they are accepted do not count.
    ///
    /// # Cancel safety
    /// Dropping the future stops accepting and breaks the open connections at once. The server and its objects stay.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let mut shutdown = pin!(shutdown);
        let graceful = GracefulShutdown::new();
        // Dropping the set aborts what is in it.
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(ended) = connections.join_next() => report(ended),
                accepted = accept(&listener) => {
                    let service = TowerToHyperService::new(self.service());
                    let connection = http1::Builder::new().serve_connection(TokioIo::new(accepted?), service);
                    connections.spawn(graceful.watch(connection));
                }
            }
        }
        drop(listener);
        // An open watch would hold its connection, and the shutdown, until it times out.
        self.close_all_watches();
        let finish = async {
            graceful.shutdown().await;
            while let Some(ended) = connections.join_next().await {
                report(ended);
            }
        };
        if timeout(GRACE, finish).await.is_err() {
            connections.shutdown().await;
        }
        Ok(())
    }
}

/// The next connection.
async fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    let mut failures = 0;
    loop {
        let error = match listener.accept().await {
            Ok((stream, _)) => return Ok(stream),
            Err(error) => error,
        };
        // The client has gone already: the next one may not have.
        let of_one_client = matches!(
            error.kind(),
            io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
        );
        if of_one_client {
            continue;
        }
        failures += 1;
        tracing::warn!("cannot accept a connection: {error}");
        if failures == ACCEPT_FAILURES {
            return Err(error);
        }
        sleep(ACCEPT_PAUSE).await;
    }
}

/// Logs how a connection ended. Clients that break off, and fault rules that refuse an answer, are no fault of the server.
fn report(ended: Result<Result<(), hyper::Error>, JoinError>) {
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!("a connection broke: {error}"),
        Err(error) => tracing::error!("the task of a connection failed: {error}"),
    }
}

#[cfg(test)]
mod tests;
