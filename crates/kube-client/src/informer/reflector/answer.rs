//! Sending a request and waiting for its answer to begin, never without a bound.
//!
//! A server may take the connection and say nothing. That must show like any other failure, within about the longest
//! back-off step, or whoever waits for the first sync would learn nothing for minutes.

use std::pin::pin;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Request, header};
use kube::client::Body;
use tokio::time::timeout;

use crate::decode::inflate::Inflate;
use crate::error::{Step, WatchError, WatchErrorKind};
use crate::informer::reflector::Reflector;
use crate::object::Object;

/// An answer that has not begun after so long shows as a failure.
pub(super) const ANSWER: Duration = Duration::from_secs(30);

impl<K: Object> Reflector<K> {
    /// Sends a request and waits for the head of its answer; any other answer than a success is an error. Gives the body,
    /// and what unpacks it.
    ///
    /// Gives up after `longest`. That may be longer than [`ANSWER`], for a server that has much to prepare; the failure
    /// shows then already.
    pub(super) async fn send(
        &self,
        step: Step,
        request: Request<Body>,
        longest: Duration,
    ) -> Result<(Body, Inflate), WatchError> {
        // The client's own limit is no silence of the server.
        self.env.limit.admit().await;
        let mut sent = pin!(self.env.kube.send(request));
        let mut answer = timeout(longest.min(ANSWER), sent.as_mut()).await;
        if answer.is_err() && longest > ANSWER {
            self.fail(self.no_answer(step, ANSWER));
            answer = timeout(longest.saturating_sub(ANSWER), sent).await;
        }
        let response = match answer {
            Err(_) => return Err(self.no_answer(step, longest)),
            Ok(Err(error)) => return Err(self.failures.transport(step, &error)),
            Ok(Ok(response)) => response,
        };
        if !response.status().is_success() {
            return Err(self.failures.refusal(step, response).await);
        }
        if let Some(media_type) = other_than_json(response.headers()) {
            let detail = format!("its answer is {media_type}, not JSON");
            return Err(self.failures.of(step, WatchErrorKind::NotKubernetes, &detail));
        }
        let inflate = match response.headers().get(header::CONTENT_ENCODING) {
            None => Inflate::plain(),
            Some(encoding) if is_one_of(encoding, &["gzip", "x-gzip"]) => Inflate::gzip(),
            Some(encoding) if is_one_of(encoding, &["identity"]) => Inflate::plain(),
            Some(other) => {
                let detail = format!("the answer is encoded as {other:?}, which nobody asked for");
                return Err(self.failures.of(step, WatchErrorKind::Protocol, &detail));
            }
        };
        Ok((response.into_body(), inflate))
    }

    fn no_answer(&self, step: Step, waited: Duration) -> WatchError {
        let detail = format!("the server has not begun to answer within {} s", waited.as_secs());
        self.failures.of(step, WatchErrorKind::NoAnswer, &detail)
    }
}

/// Whether a content coding is one of these; its case does not matter.
fn is_one_of(encoding: &HeaderValue, names: &[&str]) -> bool {
    let encoding = encoding.as_bytes().trim_ascii();
    names.iter().any(|name| encoding.eq_ignore_ascii_case(name.as_bytes()))
}

/// The media type of an answer, if it says that it is something else than JSON.
fn other_than_json(headers: &HeaderMap) -> Option<&str> {
    let media_type = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    (!media_type.to_ascii_lowercase().starts_with("application/json")).then_some(media_type)
}
