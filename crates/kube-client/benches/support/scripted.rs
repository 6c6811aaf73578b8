//! A server for benches: one list, then one watch that says what it is told to.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{StreamBody, combinators::UnsyncBoxBody};
use tokio::sync::mpsc;

type Chunks = mpsc::UnboundedReceiver<Vec<Bytes>>;

/// Serves one list, then one watch whose chunks come from a channel.
#[derive(Clone)]
pub(crate) struct Server {
    list: Arc<Vec<Bytes>>,
    watch: Arc<std::sync::Mutex<Option<Chunks>>>,
}

impl Server {
    /// A server of this list, and where to send the chunks of its watch.
    pub(crate) fn new(list: &Arc<Vec<Bytes>>) -> (Self, mpsc::UnboundedSender<Vec<Bytes>>) {
        let (chunks, watch) = mpsc::unbounded_channel();
        let server = Self {
            list: Arc::clone(list),
            watch: Arc::new(std::sync::Mutex::new(Some(watch))),
        };
        (server, chunks)
    }
}

impl tower::Service<Request<kube::client::Body>> for Server {
    type Response = Response<UnsyncBoxBody<Bytes, Infallible>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let mut chunks = self
            .watch
            .lock()
            .ok()
            .filter(|_| is_watch)
            .and_then(|mut watch| watch.take());
        let mut ready = if is_watch {
            Vec::new().into_iter()
        } else {
            self.list.as_ref().clone().into_iter()
        };
        let frames = futures_util::stream::poll_fn(move |cx| {
            loop {
                if let Some(chunk) = ready.next() {
                    return Poll::Ready(Some(Ok(Frame::data(chunk))));
                }
                match &mut chunks {
                    None if is_watch => return Poll::Pending,
                    None => return Poll::Ready(None),
                    Some(chunks) => match chunks.poll_recv(cx) {
                        Poll::Ready(Some(more)) => ready = more.into_iter(),
                        Poll::Ready(None) => return Poll::Ready(None),
                        Poll::Pending => return Poll::Pending,
                    },
                }
            }
        });
        Box::pin(async move { Ok(Response::new(UnsyncBoxBody::new(StreamBody::new(frames)))) })
    }
}
