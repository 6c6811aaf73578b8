//! The server as a `tower::Service`: reads the body, applies the faults, runs the request, keeps the log.

#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::answer::Answer;
use crate::body::{Body, BodyError, Part, Source};
use crate::faults::{BodyFault, Chunked, FaultySource, Refusal};
use crate::packed;
use crate::replica::Replica;
use crate::request::{Request, Verb};
use crate::route;
use crate::server::Shared;
use crate::status::Status;

/// The largest body that the server reads.
pub(crate) const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// A server as a service; a cheap clone. Made by [`FakeApiServer::service`](crate::FakeApiServer::service).
///
/// # Guarantees
/// Always ready. A request whose future is dropped before it resolves has either had no effect or its whole effect.
#[derive(Clone, Debug)]
pub struct FakeService {
    shared: Arc<Shared>,
    /// The view that is asked; none for the log itself.
    replica: Option<Arc<Replica>>,
    /// Ends the watches that are opened through this service, cleanly.
    end_of_watches: Option<CancellationToken>,
}

/// The client got no answer. Only fault rules cause it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The request had no effect; it can be sent again.
    #[error("connection refused")]
    Refused,
    /// The request had its effect, but the answer was lost.
    #[error("connection reset by peer")]
    Reset,
}

impl FakeService {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            replica: None,
            end_of_watches: None,
        }
    }

    /// A service that asks a view.
    pub(crate) fn through(shared: Arc<Shared>, replica: Arc<Replica>) -> Self {
        Self {
            shared,
            replica: Some(replica),
            end_of_watches: None,
        }
    }

    /// The same service, whose watches end when the token says so, after what has happened so far.
    #[cfg(feature = "http")]
    pub(crate) fn ending_watches(self, end: CancellationToken) -> Self {
        Self {
            end_of_watches: Some(end),
            ..self
        }
    }
}

impl<B> tower::Service<http::Request<B>> for FakeService
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = http::Response<Body>;
    type Error = ServiceError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ServiceError>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let shared = Arc::clone(&self.shared);
        let (replica, end_of_watches) = (self.replica.clone(), self.end_of_watches.clone());
        Box::pin(async move {
            let _busy = shared.activity.request();
            let (parts, body) = request.into_parts();
            let mut request = Request::new(parts.method, parts.uri, parts.headers, Bytes::new());
            request.replica = replica;
            match read_body(body).await {
                Ok(bytes) => {
                    request.too_large = bytes.is_none();
                    request.body = bytes.unwrap_or_default();
                    handle(&shared, &request, end_of_watches).await
                }
                Err(status) => {
                    shared.log.push(&request, Some(status.code));
                    Ok(Answer::from(status).into_response())
                }
            }
        })
    }
}

/// A watch that ends when it has nothing to say and its server shuts down.
struct Ending {
    source: Box<dyn Source>,
    end: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Source for Ending {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Part, BodyError>>> {
        match self.source.poll_part(cx) {
            Poll::Pending => self.end.as_mut().poll(cx).map(|()| None),
            ready @ Poll::Ready(_) => ready,
        }
    }
}

/// Reads a body; nothing if it is too large.
async fn read_body<B>(body: B) -> Result<Option<Bytes>, Status>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(collected) => Ok(Some(collected.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => Ok(None),
        Err(error) => Err(Status::bad_request(format!(
            "the body of the request could not be read: {error}"
        ))),
    }
}

async fn handle(
    shared: &Arc<Shared>,
    request: &Request,
    end_of_watches: Option<CancellationToken>,
) -> Result<http::Response<Body>, ServiceError> {
    let plan = shared.faults.plan(request);
    if !plan.latency.is_zero() {
        tokio::time::sleep(plan.latency).await;
    }
    if plan.compact {
        shared.storage.compact(shared.storage.current());
    }
    let mut answer = match plan.refusal {
        Some(Refusal::Connection) => {
            shared.log.push(request, None);
            return Err(ServiceError::Refused);
        }
        Some(Refusal::Status(status)) => Answer::from(*status),
        Some(Refusal::Page { code, body }) => Answer {
            body: body.into_bytes().into(),
            ..Answer::nothing(code)
        }
        .content_type("text/html; charset=utf-8"),
        None => route::route(shared, request).await,
    };
    if plan.lose_response {
        shared.log.push(request, None);
        return Err(ServiceError::Reset);
    }
    if let Some(end) = end_of_watches
        && request.verb == Verb::Watch
        && answer.body.known_length().is_none()
    {
        answer.body = Body::stream(Ending {
            source: answer.body.into_source(),
            end: Box::pin(end.cancelled_owned()),
        });
    }
    let mut spoils = plan.body;
    if answer.code != 200 {
        spoils.retain(BodyFault::meets_errors);
    }
    if !spoils.is_empty() {
        answer.body = Body::stream(FaultySource::new(answer.body.into_source(), spoils));
    }
    let mut answer = if plan.packed && answer.code == 200 {
        packed::pack(request, answer).await
    } else {
        packed::pack_large(request, answer).await
    };
    if let Some(size) = plan.chunks {
        answer.body = Body::stream(Chunked::new(answer.body.into_source(), size));
    }
    shared.log.push(request, Some(answer.code));
    Ok(answer.into_response())
}
