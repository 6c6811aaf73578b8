//! The server over HTTP/1.1 on a socket, for kubectl and for clients in other processes.

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::future::{Future, IntoFuture as _};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::net::TcpListener;
use tower::Service;

use crate::server::FakeApiServer;
use crate::service::{FakeService, ServiceError};

/// How long a shutdown waits for requests that are under way.
const GRACE: Duration = Duration::from_secs(2);

impl FakeApiServer {
    /// Serves HTTP on a listener until `shutdown` resolves, then ends the open watches and finishes what is under way,
    /// for at most two seconds: a client that sends half a request or does not read its answer cannot hold it longer.
    ///
    /// There is no TLS and no authentication: use it on loopback only.
    ///
    /// # Errors
    /// When the listener fails.
    ///
    /// # Cancel safety
    /// Dropping the future stops accepting at once; open connections last until their clients or the runtime end them.
    /// The server and its objects stay.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let server = self.clone();
        let router = axum::Router::new().fallback_service(AxumService(self.service()));
        let (stopping, stopped) = tokio::sync::oneshot::channel();
        let shutdown = async move {
            shutdown.await;
            // An open watch would hold its connection, and the shutdown, until it times out.
            server.close_all_watches();
            // Fails if nobody waits any more: then there is nothing to hurry.
            let _ = stopping.send(());
        };
        let grace_is_over = async move {
            match stopped.await {
                Ok(()) => tokio::time::sleep(GRACE).await,
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            served = axum::serve(listener, router).with_graceful_shutdown(shutdown).into_future() => served,
            () = grace_is_over => Ok(()),
        }
    }
}

/// The service in the form that axum asks for: an error becomes a connection that breaks without an answer.
#[derive(Clone)]
struct AxumService(FakeService);

impl Service<axum::extract::Request> for AxumService {
    type Response = axum::response::Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: axum::extract::Request) -> Self::Future {
        let answer = self.0.call(request);
        Box::pin(async move {
            Ok(match answer.await {
                Ok(response) => response.map(axum::body::Body::new),
                // A body that fails before its first byte closes the connection before the head is sent.
                Err(error) => axum::response::Response::new(axum::body::Body::new(Broken(Some(error)))),
            })
        })
    }
}

/// A body that fails at once.
struct Broken(Option<ServiceError>);

impl http_body::Body for Broken {
    type Data = Bytes;
    type Error = ServiceError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, ServiceError>>> {
        Poll::Ready(self.0.take().map(Err))
    }
}
