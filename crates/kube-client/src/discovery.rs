//! `Discovery`: what the server serves, as a lazy RESTMapper.
//!
//! Owns when the server is asked: on first use, on a miss, and after an invalidation, one attempt at a time and paced.
//! `apis` is one answer and the lookups in it, `lookup` what can be looked up, `fetch` the requests, `document` the forms
//! in which servers answer, `error` what can go wrong.
//!
//! `kube::discovery` has the types that describe a resource, and those are used here. Its cache is not: it asks once, knows
//! no short names, and one aggregated group that fails takes the others down.
//!
//! # Design
//!
//! An attempt has a number. Whoever needs an answer needs one that was *begun* after they asked, so they remember the
//! number of the last attempt begun, queue for the right to make attempts, and make one only if nobody else has finished a
//! later one by then. So any burst of callers costs at most two attempts, and dropping a caller half-way hands the right
//! to the next.

mod apis;
mod document;
mod error;
mod fetch;
mod lookup;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

pub use self::apis::{ServedApis, ServedResource, UnavailableGroup};
pub use self::error::DiscoveryError;
use self::fetch::Fetcher;
pub use self::lookup::Lookup;
use crate::environment::Environment;
use crate::sync::Mutex;

/// A miss asks the server again, but no sooner than this after the last attempt.
const BETWEEN_MISSES: Duration = Duration::from_secs(5);
/// For so long after an invalidation the server's own answer may lag behind what changed: misses ask sooner.
const SETTLING: Duration = Duration::from_secs(10);
/// An attempt that failed, or that an invalidation asks for, is not repeated sooner than this.
const BETWEEN_ATTEMPTS: Duration = Duration::from_secs(1);

/// What the server serves: kinds to resources and back, scopes, versions, short names. Made by
/// [`Client::discovery`](crate::Client::discovery); cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = fake_apiserver::FakeApiServer::new();
/// # let client = kube_client::Client::new(kube::Client::new(server.service(), "default"))?;
/// use kube_client::{Lookup, Scope};
///
/// let discovery = client.discovery();
/// let deployments = discovery.find(Lookup::named("deploy")).await?;
/// assert_eq!(deployments.resource.api_version, "apps/v1");
/// assert_eq!(deployments.resource.kind, "Deployment");
/// assert_eq!(deployments.scope(), Scope::Namespaced);
/// assert!(deployments.subresource("scale").is_some());
///
/// let error = discovery.find(Lookup::kind("Deploymnt")).await.unwrap_err();
/// assert_eq!(error.to_string(), "the server does not serve kind Deploymnt (did you mean Deployment?)");
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// - Nothing is asked before the first lookup; afterwards lookups that hit are answered from memory.
/// - A miss asks the server again, at most once in 5 s, however many lookups miss: a kind that was just installed may be
///   reported as not served for that long, unless the CRD watcher runs, which invalidates what is remembered when a
///   definition changes; for 10 s after that a miss asks once in 1 s. [`refresh`](Self::refresh) asks at any time.
/// - There is one attempt at a time; whoever needs an answer meanwhile shares the next one.
/// - A group that cannot be asked, such as an aggregated API whose server is down, does not hide the others:
///   [`ServedApis::unavailable`] names it, and what was last known of it stays, marked as
///   [`remembered`](ServedResource::remembered). So it is if the core group, or all named groups together, may not be read
///   (403). A server that no longer has one of these two at all (404) counts as one that does not answer.
///
/// Not promised: that a resource found is still served. A kind that was removed is noticed by the next refresh.
///
/// The requests pass the client's QPS limit and carry its user agent. Servers since 1.26 answer with two requests in all
/// (aggregated discovery), which cost next to nothing if nothing changed; older ones need one for each group and version.
#[derive(Clone)]
pub struct Discovery {
    inner: Arc<Mapper>,
}

/// The state behind every [`Discovery`] of one client.
pub(crate) struct Mapper {
    state: Mutex<State>,
    // Lock order: `attempt`, then `state`.
    attempt: tokio::sync::Mutex<Attempt>,
    env: Arc<Environment>,
}

#[derive(Default)]
struct State {
    known: Option<Known>,
    // The number of the last attempt begun, and of the last one finished.
    begun: u64,
    // Invariant: at most `begun`.
    finished: u64,
    last_begun: Option<Instant>,
    // How often what is known was declared out of date.
    invalidations: u64,
    last_invalidation: Option<Instant>,
    // The outcome of the last attempt, if it failed.
    failure: Option<DiscoveryError>,
}

impl State {
    fn between_misses(&self) -> Duration {
        let settling = self.last_invalidation.is_some_and(|last| last.elapsed() < SETTLING);
        if settling { BETWEEN_ATTEMPTS } else { BETWEEN_MISSES }
    }
}

/// An answer of the server.
#[derive(Clone)]
struct Known {
    apis: Arc<ServedApis>,
    // `State::invalidations` when the attempt began.
    invalidations: u64,
}

/// The right to make attempts, and what the last one finished brought.
struct Attempt {
    outcome: Option<Result<Arc<ServedApis>, DiscoveryError>>,
    fetcher: Fetcher,
}

/// Why the server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// What is known does not have it.
    Miss,
    /// The caller says so.
    Told,
}

impl Mapper {
    pub(crate) fn new(env: &Arc<Environment>) -> Self {
        Self {
            state: Mutex::new(State::default()),
            attempt: tokio::sync::Mutex::new(Attempt {
                outcome: None,
                fetcher: Fetcher::new(),
            }),
            env: Arc::clone(env),
        }
    }

    /// Declares what is known out of date: the next lookup asks the server.
    pub(crate) fn invalidate(&self) {
        let mut state = self.state.lock();
        state.invalidations += 1;
        state.last_invalidation = Some(Instant::now());
    }

    /// What is known, and whether nothing has invalidated it since.
    pub(crate) fn known(&self) -> Option<(Arc<ServedApis>, bool)> {
        let state = self.state.lock();
        let known = state.known.as_ref()?;
        Some((Arc::clone(&known.apis), known.invalidations == state.invalidations))
    }

    /// Asks the server now, sharing the attempt with others.
    pub(crate) async fn refresh(&self) -> Result<Arc<ServedApis>, DiscoveryError> {
        self.ask(Why::Told).await
    }

    async fn find(&self, lookup: &Lookup) -> Result<Arc<ServedResource>, DiscoveryError> {
        let known = self.known();
        let old = known.as_ref().and_then(|(apis, _)| apis.find(lookup).cloned());
        if let (Some(found), Some((_, true))) = (&old, &known) {
            return Ok(Arc::clone(found));
        }
        match (self.ask(Why::Miss).await, old) {
            (Ok(apis), _) => apis.find(lookup).cloned().ok_or_else(|| apis.miss(lookup)),
            (Err(error), Some(found)) => {
                tracing::warn!(cluster = %self.env.cluster, "cannot refresh what the server serves, using what is known: {error}");
                Ok(found)
            }
            (Err(error), None) => Err(error),
        }
    }

    /// An answer that was begun after now, or what is known if it is too soon to ask again.
    async fn ask(&self, why: Why) -> Result<Arc<ServedApis>, DiscoveryError> {
        let (asked, not_before) = match self.may_ask(why) {
            Ok(permit) => permit,
            Err(outcome) => return outcome,
        };
        if let Some(not_before) = not_before {
            tokio::time::sleep_until(not_before).await;
        }
        let mut attempt = self.attempt.lock().await;
        if self.state.lock().finished > asked
            && let Some(outcome) = &attempt.outcome
        {
            return outcome.clone();
        }
        let (number, invalidations, previous) = {
            let mut state = self.state.lock();
            state.begun += 1;
            state.last_begun = Some(Instant::now());
            let previous = state.known.as_ref().map(|known| Arc::clone(&known.apis));
            (state.begun, state.invalidations, previous)
        };
        let outcome = attempt.fetcher.fetch(&self.env, previous).await;
        {
            let mut state = self.state.lock();
            match &outcome {
                Ok(apis) => {
                    state.known = Some(Known {
                        apis: Arc::clone(apis),
                        invalidations,
                    });
                    state.failure = None;
                }
                Err(error) => state.failure = Some(error.clone()),
            }
            state.finished = number;
        }
        attempt.outcome = Some(outcome.clone());
        outcome
    }

    /// The number that an attempt has to exceed, and when it may begin; or the outcome, if it is too soon to ask.
    fn may_ask(&self, why: Why) -> Result<(u64, Option<Instant>), Result<Arc<ServedApis>, DiscoveryError>> {
        let state = self.state.lock();
        if why == Why::Told {
            return Ok((state.begun, None));
        }
        let since = state.last_begun.map(|begun| begun.elapsed());
        match (&state.known, &state.failure) {
            // The first answer is under way: nobody needs a later one.
            (None, None) => return Ok((state.begun.saturating_sub(1), None)),
            (_, Some(failure)) if since.is_some_and(|since| since < BETWEEN_ATTEMPTS) => {
                return Err(Err(failure.clone()));
            }
            (Some(known), None)
                if known.invalidations == state.invalidations
                    && since.is_some_and(|since| since < state.between_misses()) =>
            {
                return Err(Ok(Arc::clone(&known.apis)));
            }
            _ => {}
        }
        Ok((state.begun, state.last_begun.map(|begun| begun + BETWEEN_ATTEMPTS)))
    }
}

impl Discovery {
    pub(crate) fn new(inner: Arc<Mapper>) -> Self {
        Self { inner }
    }

    /// The resource that fits best: the server's order of groups and versions decides, the core group first.
    ///
    /// # Errors
    ///
    /// [`DiscoveryError::NotServed`] if no resource fits, [`DiscoveryError::Unavailable`] if the group asked for cannot be
    /// asked now, [`DiscoveryError::Request`] if the server cannot be reached or refuses and nothing is known yet.
    /// [`DiscoveryError::is_retryable`] tells whether a retry can help.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing; others that wait for the same answer go on.
    pub async fn find(&self, lookup: impl Into<Lookup>) -> Result<Arc<ServedResource>, DiscoveryError> {
        self.inner.find(&lookup.into()).await
    }

    /// Everything that the server serves: what is known, or the answer to the first question.
    ///
    /// # Errors
    ///
    /// [`DiscoveryError::Request`] if nothing is known yet and the server cannot be reached or refuses.
    ///
    /// # Cancel safety
    ///
    /// As [`find`](Self::find).
    pub async fn served(&self) -> Result<Arc<ServedApis>, DiscoveryError> {
        match self.inner.known() {
            Some((apis, true)) => Ok(apis),
            known => match (self.inner.ask(Why::Miss).await, known) {
                (Err(error), Some((apis, _))) => {
                    tracing::warn!("cannot refresh what the server serves, using what is known: {error}");
                    Ok(apis)
                }
                (outcome, _) => outcome,
            },
        }
    }

    /// What is known now, without asking; `None` before the first answer.
    pub fn cached(&self) -> Option<Arc<ServedApis>> {
        self.inner.known().map(|(apis, _)| apis)
    }

    /// Asks the server now, whatever is known.
    ///
    /// # Errors
    ///
    /// [`DiscoveryError::Request`] if the server cannot be reached or refuses; what was known stays.
    ///
    /// # Cancel safety
    ///
    /// As [`find`](Self::find).
    pub async fn refresh(&self) -> Result<Arc<ServedApis>, DiscoveryError> {
        self.inner.refresh().await
    }

    /// Declares what is known out of date: the next lookup asks the server, and falls back to what was known if that
    /// fails. Asks nothing by itself.
    pub fn invalidate(&self) {
        self.inner.invalidate();
    }
}

impl fmt::Debug for Discovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.inner.known();
        f.debug_struct("Discovery")
            .field("resources", &known.as_ref().map_or(0, |(apis, _)| apis.len()))
            .field("fresh", &known.is_some_and(|(_, fresh)| fresh))
            .finish_non_exhaustive()
    }
}
