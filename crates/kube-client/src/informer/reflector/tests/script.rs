//! A server that answers each request with the next answer of a script, and remembers what it was asked.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use tokio::sync::{Notify, mpsc};
use tower::BoxError;

use crate::sync::Mutex;

type Answer = Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError>;

/// The server. Clones are the same one.
#[derive(Clone, Default)]
pub(super) struct Script {
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    answers: Mutex<VecDeque<Answer>>,
    queries: Mutex<Vec<String>>,
    changed: Notify,
    asked: Notify,
}

/// The sending end of a body that goes on.
pub(super) struct Stream {
    chunks: mpsc::UnboundedSender<Result<Bytes, BoxError>>,
}

impl Script {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    fn push(&self, answer: Answer) {
        self.state.answers.lock().push_back(answer);
        self.state.changed.notify_waiters();
    }

    /// Next: 200 with this body.
    pub(super) fn json(&self, body: &str) {
        self.status(200, body);
    }

    /// Next: this status and body.
    pub(super) fn status(&self, code: u16, body: &str) {
        let body = Full::new(Bytes::copy_from_slice(body.as_bytes())).map_err(|never| match never {});
        self.push(Ok(Response::builder()
            .status(code)
            .body(UnsyncBoxBody::new(body))
            .unwrap()));
    }

    /// Next: this status with a Retry-After header.
    pub(super) fn retry_after(&self, code: u16, seconds: u64) {
        let body = Full::new(Bytes::new()).map_err(|never| match never {});
        let response = Response::builder().status(code).header("Retry-After", seconds);
        self.push(Ok(response.body(UnsyncBoxBody::new(body)).unwrap()));
    }

    /// Next: a success of this media type.
    pub(super) fn typed(&self, media_type: &str, body: &str) {
        let body = Full::new(Bytes::copy_from_slice(body.as_bytes())).map_err(|never| match never {});
        let response = Response::builder().header("Content-Type", media_type);
        self.push(Ok(response.body(UnsyncBoxBody::new(body)).unwrap()));
    }

    /// Next: 200 with this header and a body that the test writes bit by bit.
    pub(super) fn encoded(&self, encoding: &str) -> Stream {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let frames = futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx).map_ok(http_body::Frame::data));
        let response = Response::builder().header("Content-Encoding", encoding);
        self.push(Ok(response.body(UnsyncBoxBody::new(StreamBody::new(frames))).unwrap()));
        Stream { chunks: sender }
    }

    /// Next: this status, and a body that never comes.
    pub(super) fn stuck_status(&self, code: u16) {
        let frames = futures_util::stream::pending::<Result<http_body::Frame<Bytes>, BoxError>>();
        let response = Response::builder().status(code);
        self.push(Ok(response.body(UnsyncBoxBody::new(StreamBody::new(frames))).unwrap()));
    }

    /// Next: no connection.
    pub(super) fn refuse(&self) {
        self.push(Err("connection refused".into()));
    }

    /// Next: 200 with a body that the test writes bit by bit.
    pub(super) fn stream(&self) -> Stream {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let frames = futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx).map_ok(http_body::Frame::data));
        self.push(Ok(Response::new(UnsyncBoxBody::new(StreamBody::new(frames)))));
        Stream { chunks: sender }
    }

    pub(super) fn requests(&self) -> usize {
        self.state.queries.lock().len()
    }

    /// What request `at` asked for beyond `watch`, bookmarks and timeout; lists begin with `list`.
    pub(super) fn query(&self, at: usize) -> String {
        let query = self.state.queries.lock()[at].clone();
        let common = ["watch=true", "allowWatchBookmarks=true"];
        let rest: Vec<&str> = query
            .split('&')
            .filter(|pair| !common.contains(pair) && !pair.starts_with("timeoutSeconds="))
            .collect();
        let prefix = if query.contains("watch=true") { "" } else { "list " };
        format!("{prefix}{}", rest.join("&"))
    }

    /// Waits for the request of this number.
    pub(super) async fn requested(&self, count: usize) {
        loop {
            let asked = self.state.asked.notified();
            tokio::pin!(asked);
            asked.as_mut().enable();
            if self.requests() >= count {
                return;
            }
            asked.await;
        }
    }
}

impl Stream {
    /// Sends a line.
    pub(super) fn send(&self, line: &str) {
        self.send_raw(format!("{line}\n").as_bytes());
    }

    pub(super) fn send_raw(&self, chunk: &[u8]) {
        // The informer may have hung up already: the test sees that by other means.
        let _ = self.chunks.send(Ok(Bytes::copy_from_slice(chunk)));
    }

    /// Ends the body cleanly.
    pub(super) fn end(self) {
        drop(self);
    }

    /// Breaks the connection.
    pub(super) fn fail(self) {
        let _ = self.chunks.send(Err("connection reset".into()));
    }
}

impl tower::Service<Request<Body>> for Script {
    type Response = Response<UnsyncBoxBody<Bytes, BoxError>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let state = Arc::clone(&self.state);
        state
            .queries
            .lock()
            .push(request.uri().query().unwrap_or_default().to_owned());
        state.asked.notify_waiters();
        Box::pin(async move {
            loop {
                let changed = state.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                let answer = state.answers.lock().pop_front();
                if let Some(answer) = answer {
                    return answer;
                }
                changed.await;
            }
        })
    }
}

/// Lets the others run, and the paused clock move, until this holds; gives up after a day of virtual time.
pub(super) async fn until(holds: impl Fn() -> bool) {
    let step = std::time::Duration::from_millis(1);
    for _ in 0..86_400_000_u64 {
        if holds() {
            return;
        }
        tokio::time::sleep(step).await;
    }
    panic!("never came true");
}

pub(super) fn item_json(name: &str, uid: &str, version: u64) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"{uid}","resourceVersion":"{version}"}},"value":"{name}@{version}"}}"#
    )
}

pub(super) fn event(kind: &str, object: &str) -> String {
    format!(r#"{{"type":"{kind}","object":{object}}}"#)
}

pub(super) fn bookmark(version: &str) -> String {
    event(
        "BOOKMARK",
        &format!(r#"{{"metadata":{{"resourceVersion":"{version}"}}}}"#),
    )
}

pub(super) fn end_bookmark(version: &str) -> String {
    let annotations = r#"{"k8s.io/initial-events-end":"true"}"#;
    event(
        "BOOKMARK",
        &format!(r#"{{"metadata":{{"resourceVersion":"{version}","annotations":{annotations}}}}}"#),
    )
}

pub(super) fn error_event(code: u16, reason: &str) -> String {
    event(
        "ERROR",
        &format!(r#"{{"kind":"Status","code":{code},"reason":"{reason}","message":"text"}}"#),
    )
}
