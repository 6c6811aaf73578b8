//! The task that feeds the state: from the informer of definitions, and from discovery for what has none.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::crd::Status;
use crate::crd::definition::Definition;
use crate::crd::state::{Callback, Source, State};
use crate::discovery::{DiscoveryError, Mapper};
use crate::environment::Environment;
use crate::error::{Step, WatchError, WatchErrorKind, chain};
use crate::event::Event;
use crate::informer::Informer;
use crate::informer::handler::{HandlerOptions, on_batch};
use crate::informer::reflector::failure::Failures;
use crate::informer::registration::Registration;

/// How often discovery is asked when it alone decides.
const POLL: Duration = Duration::from_secs(30);
/// How often it is asked for kinds without a definition, while somebody waits for one.
const POLL_REST: Duration = Duration::from_mins(1);
/// Somebody who begins to wait does not have it asked again sooner than this.
const POLL_NEW: Duration = Duration::from_secs(5);
/// How long to wait after a failure, at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

pub(super) struct Driver {
    pub(super) env: Arc<Environment>,
    pub(super) discovery: Arc<Mapper>,
    pub(super) state: Arc<State>,
    pub(super) status: Arc<Status>,
    pub(super) informer: Informer<Definition>,
}

/// Whether discovery can stand in for definitions that fail like this.
pub(super) fn falls_back(error: &WatchError) -> bool {
    matches!(
        error.kind,
        WatchErrorKind::Forbidden | WatchErrorKind::NotFound | WatchErrorKind::NotSupported
    )
}

/// When discovery is asked.
struct Pace {
    // The last question, and the last one that was answered.
    asked: Option<Instant>,
    answered: Option<Instant>,
    due: Instant,
    // After a failure: not before this, whatever is due.
    not_before: Instant,
    retry: Duration,
}

impl Pace {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            asked: None,
            answered: None,
            due: now,
            not_before: now,
            retry: RETRY.0,
        }
    }

    fn next(&self) -> Instant {
        self.due.max(self.not_before)
    }

    fn succeeded(&mut self, begun: Instant) {
        self.answered = Some(begun);
        self.retry = RETRY.0;
        self.due = begun + POLL_REST;
    }

    fn failed(&mut self) {
        self.not_before = Instant::now() + self.retry;
        self.due = self.not_before;
        self.retry = (self.retry * 2).min(RETRY.1);
    }

    /// Asks no later than so long after the last time.
    fn no_later_than(&mut self, pause: Duration) {
        if let Some(asked) = self.asked {
            self.due = self.due.min(asked + pause);
        }
    }
}

impl Driver {
    pub(super) async fn run(self) {
        let stop = self.env.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.drive() => {}
        }
        self.state.stop();
    }

    /// Feeds the state until it is dropped, or the informer stops.
    async fn drive(&self) {
        let fed = self.feed();
        self.informer.start();
        let mut pace = Pace::new();
        // When the definitions began to be refused. Discovery takes over with an answer that is newer than that.
        let mut refused_since = None;
        loop {
            // Listen before looking, so that no change falls in between.
            let changed = self.env.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let source = self.source(fed.has_synced());
            if source == Some(Source::Discovery) && self.state.source() != Source::Discovery {
                let since = *refused_since.get_or_insert_with(Instant::now);
                if pace.answered.is_some_and(|answered| answered >= since) {
                    self.adopt(Source::Discovery);
                } else {
                    pace.due = since;
                }
            } else {
                refused_since = None;
                if let Some(source) = source.filter(|_| pace.answered.is_some()) {
                    self.adopt(source);
                }
            }
            let alone = source == Some(Source::Discovery);
            if alone {
                pace.no_later_than(POLL);
            }
            let wanted = pace.answered.is_none() || alone || self.state.needs_discovery();
            tokio::select! {
                () = changed => {}
                synced = fed.synced(), if !fed.has_synced() => {
                    if synced.is_err() {
                        return;
                    }
                }
                () = self.status.wanted.notified() => pace.no_later_than(POLL_NEW),
                () = sleep_until(pace.next()), if wanted => {
                    let begun = Instant::now();
                    pace.asked = Some(begun);
                    if self.discover(begun).await {
                        pace.succeeded(begun);
                    } else {
                        pace.failed();
                    }
                }
            }
        }
    }

    /// Lets every change of a definition reach the state, and what waits for it.
    fn feed(&self) -> Registration {
        let (state, discovery, env) = (
            Arc::clone(&self.state),
            Arc::clone(&self.discovery),
            Arc::clone(&self.env),
        );
        let feed = on_batch(move |events: &[Event<Definition>]| {
            let (callbacks, changed) = state.apply(events);
            if changed {
                discovery.invalidate();
                env.changed.notify_waiters();
            }
            call(callbacks);
        });
        self.informer.add_handler(feed, HandlerOptions::named("crd-watcher"))
    }

    /// Where the knowledge should come from; `None` while that is open.
    fn source(&self, fed: bool) -> Option<Source> {
        let refused = self.informer.stats().error.filter(falls_back);
        let source = match (&refused, fed) {
            (Some(_), _) => Some(Source::Discovery),
            (None, true) => Some(Source::Definitions),
            (None, false) => None,
        };
        *self.status.refused.lock() = refused;
        source
    }

    /// Takes the knowledge from there from now on. What has waited for it is called before the watcher counts as synced.
    fn adopt(&self, source: Source) {
        if self.state.source() != source {
            if source == Source::Discovery {
                let cluster = &self.env.cluster;
                tracing::warn!(%cluster, "cannot read custom resource definitions, discovery alone decides which kinds are known");
            }
            call(self.state.set_source(source));
        }
        if !self.status.synced.send_replace(true) {
            self.env.changed.notify_waiters();
        }
    }

    /// Asks discovery. False if there was no answer.
    async fn discover(&self, begun: Instant) -> bool {
        let failure = match self.discovery.refresh().await {
            Ok(apis) => {
                call(self.state.discovered(apis, begun));
                None
            }
            Err(error) => {
                tracing::warn!(cluster = %self.env.cluster, "the CRD watcher cannot ask discovery: {}", chain(&error));
                Some(match error {
                    DiscoveryError::Request(error) => error,
                    other => {
                        Failures::named("API groups").of(Step::Discover, WatchErrorKind::Protocol, &other.to_string())
                    }
                })
            }
        };
        let answered = failure.is_none();
        *self.status.discovery_error.lock() = failure;
        self.env.changed.notify_waiters();
        answered
    }
}

/// Calls each, panics contained. No lock is held.
fn call(callbacks: Vec<Callback>) {
    for callback in callbacks {
        if catch_unwind(AssertUnwindSafe(callback)).is_err() {
            tracing::error!("a callback of the CRD watcher panicked");
        }
    }
}
