//! The server over HTTP/1.1 on a socket, for kubectl and for clients in other processes.
//!
//! Owns the accept loop and the task of each connection: when [`serve`](FakeApiServer::serve) ends, or is dropped, none is
//! left. What a client may hold is bounded, whatever it does: there are [`MAX_CONNECTIONS`], each with at most hyper's buffer
//! for a head and [`BODY_LIMIT`](crate::service::BODY_LIMIT) of a body, and who is slow to send them is cut off
//! ([`HEAD_TIME`], [`patience`]).

mod patience;

use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::replica::ServerView;
use crate::server::FakeApiServer;
use crate::service::FakeService;
use patience::Impatient;

/// How long a shutdown waits for requests that are under way.
const GRACE: Duration = Duration::from_secs(2);
/// The pause after the system could not accept a connection, most likely for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// How long a client may take to send the head of a request, or to send nothing. As long as the real server waits for a head; it
/// lets a connection that was used rest for 90 seconds.
const HEAD_TIME: Duration = Duration::from_secs(32);
/// So many connections are open at once; more wait until one ends, as they do in the backlog of the system.
const MAX_CONNECTIONS: usize = if cfg!(test) { 8 } else { 4096 };
/// A listener that fails so often in a row does not recover.
const ACCEPT_FAILURES: u32 = 10;

impl FakeApiServer {
    /// Serves HTTP on a listener until `shutdown` resolves, then ends the watches that were opened through it and finishes what is
    /// under way, for at most two seconds: a client that sends half a request or does not read its answer cannot hold it longer.
    ///
    /// There is no authentication: use it on loopback only. The same over TLS is `serve_tls` (feature `tls`).
    ///
    /// # Guarantees
    /// When this returns, every connection is closed and its task has ended.
    ///
    /// What clients can make it hold is bounded: 4,096 connections are open at once, a head has at most 400 KiB and 32 seconds
    /// to come, a body 3 MiB and a minute.
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
        serve(self.service(), listener, shutdown, |stream| async { Ok(stream) }).await
    }
}

impl ServerView {
    /// As [`FakeApiServer::serve`], for clients that happen to be sent to this server of the cluster.
    ///
    /// # Guarantees
    /// As for [`FakeApiServer::serve`]. Views on sockets of their own end each by itself: only the watches of this view are ended.
    ///
    /// # Errors
    /// As for [`FakeApiServer::serve`].
    ///
    /// # Cancel safety
    /// As for [`FakeApiServer::serve`].
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        serve(self.service(), listener, shutdown, |stream| async { Ok(stream) }).await
    }
}

/// Serves connections that `secure` makes of those that are accepted.
pub(crate) async fn serve<I, F>(
    service: FakeService,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
    secure: impl Fn(TcpStream) -> F,
) -> io::Result<()>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = io::Result<I>> + Send + 'static,
{
    let mut shutdown = pin!(shutdown);
    let graceful = GracefulShutdown::new();
    // An open watch would hold its connection, and the shutdown, until it times out.
    let end_of_watches = CancellationToken::new();
    let service = service.ending_watches(end_of_watches.clone());
    // Dropping the set aborts what is in it.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            Some(ended) = connections.join_next() => report(ended),
            accepted = accept(&listener), if connections.len() < MAX_CONNECTIONS => {
                connections.spawn(connection(secure(accepted?), service.clone(), graceful.watcher()));
            }
        }
    }
    drop(listener);
    end_of_watches.cancel();
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

/// Serves one connection to its end.
async fn connection<I>(
    secured: impl Future<Output = io::Result<I>>,
    service: FakeService,
    watcher: Watcher,
) -> Result<(), hyper::Error>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = match timeout(HEAD_TIME, secured).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!("a connection could not be made secure: {error}");
            return Ok(());
        }
        Err(_) => {
            tracing::debug!("a connection was not made secure in time");
            return Ok(());
        }
    };
    let service = service.map_request(|request: http::Request<hyper::body::Incoming>| request.map(Impatient::new));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    watcher.watch(connection).await
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
