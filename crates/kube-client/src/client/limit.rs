//! A tower layer around the connection: the QPS limit and the User-Agent header.

use std::fmt;
use std::future::Future;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use governor::clock::{Clock, Reference};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use http::{HeaderValue, Request, header};
use kube::client::Body;
use tokio::time::Instant;
use tower::{Layer, Service, ServiceExt};

/// What every request of a client passes through.
#[derive(Clone)]
pub(crate) struct Tune {
    user_agent: Option<HeaderValue>,
    limiter: Option<Arc<Limiter>>,
}

type Limiter = RateLimiter<NotKeyed, InMemoryState, TokioClock, NoOpMiddleware<TokioInstant>>;

/// governor's clock on tokio's time, so that a paused clock works.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokioClock;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TokioInstant(Instant);

impl Clock for TokioClock {
    type Instant = TokioInstant;

    fn now(&self) -> TokioInstant {
        TokioInstant(Instant::now())
    }
}

impl Reference for TokioInstant {
    fn duration_since(&self, earlier: Self) -> Nanos {
        self.0.saturating_duration_since(earlier.0).into()
    }

    fn saturating_sub(&self, duration: Nanos) -> Self {
        Self(self.0.checked_sub(duration.into()).unwrap_or(self.0))
    }
}

impl std::ops::Add<Nanos> for TokioInstant {
    type Output = Self;

    fn add(self, duration: Nanos) -> Self {
        Self(self.0 + Duration::from(duration))
    }
}

impl Tune {
    pub(crate) fn new(user_agent: Option<HeaderValue>, qps: Option<(NonZeroU32, NonZeroU32)>) -> Self {
        let limiter = qps.map(|(per_second, burst)| {
            let quota = Quota::per_second(per_second).allow_burst(burst);
            Arc::new(RateLimiter::direct_with_clock(quota, TokioClock))
        });
        Self { user_agent, limiter }
    }

    /// The same without the limit, for those who wait for it by themselves.
    pub(crate) fn unlimited(&self) -> Self {
        Self {
            user_agent: self.user_agent.clone(),
            limiter: None,
        }
    }

    /// The same connection behind this layer, or the connection itself if there is nothing to do.
    pub(crate) fn wrap(&self, kube: kube::Client) -> kube::Client {
        if self.user_agent.is_none() && self.limiter.is_none() {
            return kube;
        }
        let namespace = kube.default_namespace().to_owned();
        let valid_until = *kube.valid_until();
        let send = tower::service_fn(move |request: Request<Body>| {
            let kube = kube.clone();
            async move { kube.send(request).await }
        });
        kube::Client::new(TuneLayer(self.clone()).layer(send), namespace).with_valid_until(valid_until)
    }

    /// Waits until the limit lets one more request pass.
    pub(crate) async fn admit(&self) {
        let Some(limiter) = &self.limiter else { return };
        while let Err(refused) = limiter.check() {
            tokio::time::sleep(refused.wait_time_from(TokioClock.now())).await;
        }
    }
}

impl fmt::Debug for Tune {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tune")
            .field("user_agent", &self.user_agent)
            .finish_non_exhaustive()
    }
}

/// Puts [`Tune`] around a service.
#[derive(Debug, Clone)]
pub(crate) struct TuneLayer(pub(crate) Tune);

impl<S> Layer<S> for TuneLayer {
    type Service = Tuned<S>;

    fn layer(&self, inner: S) -> Tuned<S> {
        Tuned {
            tune: self.0.clone(),
            inner,
        }
    }
}

/// A service behind [`Tune`]. Each call waits for the limit on its own; `S` is a cheap handle.
#[derive(Debug, Clone)]
pub(crate) struct Tuned<S> {
    tune: Tune,
    inner: S,
}

impl<S> Service<Request<Body>> for Tuned<S>
where
    S: Service<Request<Body>> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    /// Always ready: readiness of the inner service is awaited inside the call, after the limit.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let Self { tune, inner } = self.clone();
        Box::pin(async move {
            tune.admit().await;
            if let Some(user_agent) = tune.user_agent {
                request.headers_mut().insert(header::USER_AGENT, user_agent);
            }
            inner.oneshot(request).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn answer(request: &Request<Body>) -> http::Response<Body> {
        let agent = request.headers()[header::USER_AGENT].as_bytes().to_vec();
        http::Response::new(Body::from(agent))
    }

    #[tokio::test(start_paused = true)]
    async fn limit_delays_calls_beyond_the_burst() {
        let qps = (NonZeroU32::new(10).unwrap(), NonZeroU32::new(2).unwrap());
        let tune = Tune::new(Some(HeaderValue::from_static("test/1")), Some(qps));
        let service = TuneLayer(tune).layer(tower::service_fn(|request| async move {
            Ok::<_, Infallible>(answer(&request))
        }));
        let start = Instant::now();
        let mut passed = Vec::new();
        for _ in 0..4 {
            let response = service.clone().oneshot(Request::new(Body::empty())).await.unwrap();
            assert_eq!(response.into_body().collect_bytes().await.unwrap(), "test/1");
            passed.push(start.elapsed().as_millis());
        }
        // tokio's timer has a resolution of one millisecond
        assert_eq!(passed[..2], [0, 0]);
        assert!((100..=101).contains(&passed[2]), "{passed:?}");
        assert!((200..=202).contains(&passed[3]), "{passed:?}");
    }
}
