//! The task that feeds the state: from the informer of definitions, and from discovery for what has none. It makes every
//! call that the state queues, one after the other.
//!
//! # Design
//!
//! What the cache of an informer holds that has lost its rights is out of date, and may still be for a moment after it got
//! them back, since its watch goes on where it broke. So an informer that was read and is then refused is replaced by a
//! fresh one at once. Until that one's first list has passed the feed, discovery alone decides, whatever the failures are;
//! then its definitions take the place of all that were known before.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep_until};

use crate::crd::definition::Definition;
use crate::crd::launch::Status;
use crate::crd::state::{Call, Source, State};
use crate::discovery::{DiscoveryError, Mapper};
use crate::environment::Environment;
use crate::error::{Step, WatchError, WatchErrorKind, chain};
use crate::event::Event;
use crate::informer::Informer;
use crate::informer::deferred::discard;
use crate::informer::factory::unlisted;
use crate::informer::handler::{HandlerOptions, on_batch};
use crate::informer::options::{InformerOptions, InitialList};
use crate::informer::reflector::failure::Failures;
use crate::informer::registration::Registration;
use crate::informer::transform::Transform;
use crate::informer::turn::pass_turn;

/// How often discovery is asked when it alone decides.
const POLL: Duration = Duration::from_secs(30);
/// How often it is asked for kinds without a definition, while somebody is interested in one.
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
    pub(super) annotation: String,
}

/// An informer of definitions, and the handler through which they reach the state.
pub(super) struct Feed {
    informer: Informer<Definition>,
    fed: Registration,
}

/// Whether discovery can stand in for definitions that fail like this.
pub(super) fn falls_back(error: &WatchError) -> bool {
    matches!(
        error.kind,
        WatchErrorKind::Forbidden | WatchErrorKind::NotFound | WatchErrorKind::NotSupported
    )
}

/// An informer of definitions, of whose annotations only this one is kept.
pub(super) fn definitions(env: &Arc<Environment>, annotation: &str) -> Informer<Definition> {
    let key = annotation.to_owned();
    let only_the_version = Transform::new("crd-version-annotation", move |definition: &mut Definition| {
        definition.metadata.annotations.retain(|known, _| *known == key);
    });
    // The newest: what discovery has told in the meantime must not be taken back.
    let options = InformerOptions::default().initial_list(InitialList::Consistent);
    unlisted(env, &(), options.transform(only_the_version))
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

/// However it ends, be it with its runtime: nobody is told anything any more.
impl Drop for Driver {
    fn drop(&mut self) {
        self.state.stop();
    }
}

impl Driver {
    pub(super) async fn run(self, feed: Feed) {
        let stop = self.env.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.drive(feed) => {}
            () = self.make_calls() => {}
        }
    }

    /// Feeds the state until it is dropped, or the informer stops.
    async fn drive(&self, mut feed: Feed) {
        feed.informer.start();
        let mut pace = Pace::new();
        // Since when the definitions are refused. Discovery takes over with an answer that is newer than that.
        let mut refused_since = None;
        let mut asking: Option<BoxFuture<'_, bool>> = None;
        loop {
            // Listen before looking, so that no change falls in between.
            let changed = self.env.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let error = feed.informer.stats().error;
            let refused = error.as_ref().is_some_and(falls_back);
            if refused && feed.fed.has_synced() {
                feed = self.renew(&feed);
            }
            if refused {
                refused_since.get_or_insert_with(Instant::now);
            } else if feed.fed.has_synced() {
                refused_since = None;
            }
            if refused_since.is_none() {
                *self.status.refused.lock() = None;
            } else if error.is_some() {
                *self.status.refused.lock() = error;
            }
            match (refused_since, pace.answered) {
                (None, Some(_)) if feed.fed.has_synced() => self.adopt(Source::Definitions).await,
                (Some(since), answered) if self.state.source() != Source::Discovery => {
                    if answered.is_some_and(|answered| answered >= since) {
                        self.adopt(Source::Discovery).await;
                    } else {
                        pace.due = since;
                    }
                }
                _ => {}
            }
            let alone = refused_since.is_some();
            if alone {
                pace.no_later_than(POLL);
            }
            // A question that failed is asked again: what keeps it from being answered has to end some day in the status.
            let failed = self.status.discovery_error.lock().is_some();
            let wanted = pace.answered.is_none() || alone || failed || self.state.needs_discovery();
            tokio::select! {
                () = changed => {}
                synced = feed.fed.synced(), if !feed.fed.has_synced() => {
                    if synced.is_err() {
                        return;
                    }
                }
                () = self.status.wanted.notified() => pace.no_later_than(POLL_NEW),
                answered = answer(&mut asking), if asking.is_some() => {
                    asking = None;
                    match (answered, pace.asked) {
                        (true, Some(begun)) => pace.succeeded(begun),
                        _ => pace.failed(),
                    }
                }
                () = sleep_until(pace.next()), if wanted && asking.is_none() => {
                    let begun = Instant::now();
                    pace.asked = Some(begun);
                    asking = Some(self.discover(begun).boxed());
                }
            }
        }
    }

    /// Lets every definition of this informer reach the state.
    pub(super) fn feed(&self, informer: Informer<Definition>) -> Feed {
        let number = self.state.begin_feed();
        let (state, discovery, env) = (
            Arc::clone(&self.state),
            Arc::clone(&self.discovery),
            Arc::clone(&self.env),
        );
        let take = on_batch(move |events: &[Event<Definition>]| {
            if state.apply(number, events) {
                discovery.invalidate();
                env.changed.notify_waiters();
            }
        });
        let fed = informer.add_handler(take, HandlerOptions::named("crd-watcher"));
        if self.env.stop.is_cancelled() {
            informer.stop(); // who stops the client may have looked before it was there
        }
        Feed { informer, fed }
    }

    /// Puts a fresh informer in the place of one whose cache can no longer be trusted, and starts it.
    fn renew(&self, old: &Feed) -> Feed {
        let informer = definitions(&self.env, &self.annotation);
        *self.status.informer.lock() = Some(informer.clone());
        let fresh = self.feed(informer);
        fresh.informer.start();
        old.informer.stop();
        fresh
    }

    /// Takes the knowledge from there from now on. What has waited for it is called before the watcher counts as synced.
    async fn adopt(&self, source: Source) {
        let adopted = self.state.set_source(source);
        if adopted.source_changed {
            if source == Source::Discovery {
                let cluster = &self.env.cluster;
                tracing::warn!(%cluster, "cannot read custom resource definitions, discovery alone decides which kinds are known");
            }
            self.env.changed.notify_waiters();
        }
        if adopted.served_changed {
            self.discovery.invalidate();
        }
        if !*self.status.synced.borrow() {
            self.make_due_calls().await;
            self.status.synced.send_replace(true);
            self.env.changed.notify_waiters();
        }
    }

    /// Asks discovery. False if there was no answer.
    async fn discover(&self, begun: Instant) -> bool {
        let failure = match self.discovery.refresh().await {
            Ok(apis) => {
                self.state.discovered(apis, begun);
                None
            }
            Err(error) => {
                tracing::warn!(cluster = %self.env.cluster, "the CRD watcher cannot ask discovery: {}", chain(&error));
                self.state.not_discovered(begun);
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

    /// Makes calls as they fall due, for ever.
    async fn make_calls(&self) {
        loop {
            self.state.due.notified().await;
            while self.make_one_call() {
                // A call may lead to others, without an end: a stop has to get its turn.
                pass_turn().await;
            }
        }
    }

    /// Makes the calls that are due now.
    async fn make_due_calls(&self) {
        for _ in 0..self.state.calls_due() {
            if !self.make_one_call() {
                return;
            }
            pass_turn().await;
        }
    }

    /// Makes the next call, panics contained. No lock is held. False if none is due.
    fn make_one_call(&self) -> bool {
        let failed = |call: &str| tracing::error!(cluster = %self.env.cluster, "{call} of the CRD watcher panicked");
        match self.state.next_call() {
            None => return false,
            Some(Call::Once(callback)) => {
                if catch_unwind(AssertUnwindSafe(callback)).is_err() {
                    failed("a callback");
                }
            }
            Some(Call::Change {
                kind,
                id,
                state,
                mut change,
            }) => {
                if catch_unwind(AssertUnwindSafe(|| change(state))).is_err() {
                    failed("a call on a change");
                }
                discard(self.state.put_back(&kind, id, change));
            }
        }
        true
    }
}

/// The end of a question, if one was asked.
async fn answer(asking: &mut Option<BoxFuture<'_, bool>>) -> bool {
    match asking {
        Some(asking) => asking.await,
        None => std::future::pending().await,
    }
}
