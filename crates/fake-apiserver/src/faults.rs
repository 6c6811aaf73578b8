//! Faults: rules that make the server misbehave in one exact way, for the requests that they match.
//!
//! Owns the rules, their matching and counting. [`plan`](Faults::plan) turns a request into what has to happen to it;
//! the transport does it, before and after the verb, so that no verb knows of faults. Start at [`Rule`] and [`Fault`].

mod inject;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

pub(crate) use inject::{Chunked, FaultySource};
pub(crate) use plan::{BodyFault, Plan, Refusal};

use crate::codec::{ContentType, name_in};
use crate::request::{Request, Verb};

/// How long a test waits for what it says will come.
pub(crate) const PATIENCE: Duration = Duration::from_mins(10);

/// One way to misbehave.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The request waits that long, on tokio's clock, before the server looks at it. Several add up.
    Latency(Duration),
    /// The request is answered with an error and has no effect. Make it with [`Fault::status`].
    Status(StatusFault),
    /// The connection is refused: the service returns an error, over HTTP the connection breaks without an answer.
    /// The request has no effect.
    Refuse,
    /// The request takes effect, or is refused by the server itself, but the client sees a broken connection instead of
    /// the answer. Rules that were injected later are not asked.
    LoseResponse,
    /// The server forgets its history up to now before it looks at the request: older resourceVersions are expired.
    Compact,
    /// A watch ends cleanly after that many events; 0 ends it right after it opened. The initial events count,
    /// bookmarks do not.
    EndWatch {
        /// Events delivered before the end.
        after: usize,
    },
    /// A watch delivers an ERROR event after that many events, then ends.
    WatchError {
        /// Events delivered before the error.
        after: usize,
        /// The status inside the ERROR event.
        status: StatusFault,
    },
    /// The connection breaks after that many events of a watch, or pieces of another body.
    Reset {
        /// Events or pieces delivered whole before the break.
        after: usize,
        /// Where the break falls.
        cut: Cut,
    },
    /// After that many events of a watch, or pieces of another body, nothing comes any more, not even a bookmark, and the
    /// connection stays open: as when a firewall has forgotten it. Nothing the server does ends such a watch.
    Silence {
        /// Events or pieces delivered before the silence.
        after: usize,
    },
    /// The body comes in chunks of so many bytes, cut wherever that falls: in the middle of a line, a character, a number.
    Chunks {
        /// The length of a chunk; 0 counts as 1.
        size: usize,
    },
    /// An answer with code 200 comes packed with gzip, however short it is and whatever the client accepts, as through a proxy
    /// that packs on its own. Each event of a watch is a gzip member of its own.
    Packed,
    /// A web page answers instead of the server, as one of a proxy on the way. The request has no effect.
    Page {
        /// The HTTP code; it may be a success.
        code: u16,
        /// The page, sent as `text/html`.
        body: String,
    },
    /// A watch sends no bookmarks, but for the one that ends the initial events.
    WithholdBookmarks,
    /// A watch never sends the bookmark that ends the initial events.
    WithholdInitialEventsEnd,
}

/// Where a reset cuts the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Between two events or pieces.
    Between,
    /// In the middle of the next event, bookmark or piece: its first half is delivered.
    MidLine,
}

/// The error that a rule answers with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusFault {
    pub(crate) code: u16,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) retry_after: Option<u32>,
}

impl StatusFault {
    /// An error with this HTTP code, and the reason and text that a real server gives with it.
    ///
    /// # Panics
    /// If the code is not that of an error, 400 to 599.
    pub fn new(code: u16) -> Self {
        assert!((400..600).contains(&code), "{code} is not the code of an error");
        Self {
            code,
            reason: None,
            message: None,
            retry_after: None,
        }
    }

    /// Sets the reason.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Sets the text.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// Adds the header `Retry-After` and `details.retryAfterSeconds`.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

impl From<StatusFault> for Fault {
    fn from(status: StatusFault) -> Self {
        Self::Status(status)
    }
}

impl Fault {
    /// The error that a real server gives with this HTTP code. For more, use [`StatusFault`].
    ///
    /// # Panics
    /// As [`StatusFault::new`].
    pub fn status(code: u16) -> Self {
        Self::Status(StatusFault::new(code))
    }
}

/// Which requests meet which fault. Every condition that is not set matches everything.
///
/// # Guarantees
/// Rules are asked in the order in which they were injected. All that match apply, up to and including the first
/// that answers or refuses the request or loses its answer. Where several would end the body of one answer, the first
/// that is due does, and of those that are due at once the one that was injected first. Faults of watches leave a watch
/// alone that the server itself refuses.
///
/// The result depends only on the requests and, for [`chance`](Self::chance), on the seed of the server: the same
/// requests in the same order meet the same faults under the same rules.
///
/// # Examples
/// ```
/// use fake_apiserver::{FakeApiServer, Rule, StatusFault, Verb};
///
/// let fake = FakeApiServer::new();
/// let rule = fake.inject(
///     Rule::new(StatusFault::new(429).retry_after(1)).verb(Verb::List).resource("pods").skip(1).times(2),
/// );
/// assert_eq!(rule.fired(), 0);
/// rule.remove();
/// ```
#[derive(Clone, Debug)]
pub struct Rule {
    fault: Fault,
    user_agent: Option<String>,
    verbs: Vec<Verb>,
    resource: Option<String>,
    version: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    subresource: Option<String>,
    view: Option<String>,
    page: Option<u64>,
    skip: u64,
    times: Option<u64>,
    chance: Option<f64>,
}

impl Rule {
    /// A rule that meets every request.
    pub fn new(fault: impl Into<Fault>) -> Self {
        Self {
            fault: fault.into(),
            user_agent: None,
            verbs: Vec::new(),
            resource: None,
            version: None,
            namespace: None,
            name: None,
            subresource: None,
            view: None,
            page: None,
            skip: 0,
            times: None,
            chance: None,
        }
    }

    /// Only clients whose `User-Agent` contains this text.
    #[must_use]
    pub fn user_agent(mut self, part: impl Into<String>) -> Self {
        self.user_agent = Some(part.into());
        self
    }

    /// Only this verb; call it again for more verbs.
    #[must_use]
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verbs.push(verb);
        self
    }

    /// Only this resource: `pods`, or `deployments.apps` with its group.
    #[must_use]
    pub fn resource(mut self, resource: impl Into<String>) -> Self {
        self.resource = Some(resource.into());
        self
    }

    /// Only this API version, such as `v1`.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Only requests to this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only requests about the object of this name: those that have it in the path, and creates that have it in the body.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Only requests to this subresource, such as `status`; an empty text stands for the main resource.
    #[must_use]
    pub fn subresource(mut self, subresource: impl Into<String>) -> Self {
        self.subresource = Some(subresource.into());
        self
    }

    /// Only requests to the [view](crate::FakeApiServer::view) of this name.
    #[must_use]
    pub fn view(mut self, name: impl Into<String>) -> Self {
        self.view = Some(name.into());
        self
    }

    /// Only page `page` of a paged list, counted from 1. Pages are counted by this rule, over the requests that meet
    /// its other conditions: a list without a continue token is page 1, each one with a token is the next page.
    #[must_use]
    pub fn page(mut self, page: u64) -> Self {
        self.page = Some(page);
        self
    }

    /// Lets the first `requests` that match pass: with [`times`](Self::times), the n-th one alone has `skip(n - 1).times(1)`.
    #[must_use]
    pub fn skip(mut self, requests: u64) -> Self {
        self.skip = requests;
        self
    }

    /// Fires at most that often.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Fires for this share of the requests that match, drawn from the server's seed: 0.0 never, 1.0 always.
    #[must_use]
    pub fn chance(mut self, chance: f64) -> Self {
        self.chance = Some(chance);
        self
    }

    /// The fault that requests meet.
    #[cfg(test)]
    pub(crate) fn fault(&self) -> &Fault {
        &self.fault
    }

    fn matches(&self, request: &Request) -> bool {
        let path = request.path.as_ref();
        let resource_matches = |wanted: &String| {
            path.is_some_and(|path| *wanted == crate::request_log::qualified(&path.resource, &path.group))
        };
        let same =
            |wanted: &Option<String>, found: Option<&str>| wanted.as_deref().is_none_or(|wanted| found == Some(wanted));
        (self.verbs.is_empty() || self.verbs.contains(&request.verb))
            && self
                .user_agent
                .as_ref()
                .is_none_or(|part| request.user_agent().contains(part.as_str()))
            && self.resource.as_ref().is_none_or(resource_matches)
            && same(&self.version, path.map(|path| path.version.as_str()))
            && same(&self.namespace, path.and_then(|path| path.namespace.as_deref()))
            && self.name.as_ref().is_none_or(|wanted| names(request, wanted))
            && same(&self.view, request.replica.as_ref().map(|replica| replica.name()))
            && self.subresource.as_ref().is_none_or(|wanted| {
                path.is_some_and(|path| path.subresource.as_deref().unwrap_or_default() == wanted.as_str())
            })
            && (request.verb == Verb::Watch || !self.fault.only_for_watches())
    }
}

/// Whether a request is about the object of a name.
fn names(request: &Request, wanted: &str) -> bool {
    if let Some(name) = request.path.as_ref().and_then(|path| path.name.as_deref()) {
        return name == wanted;
    }
    let header = request.header(http::header::CONTENT_TYPE);
    let content_type = ContentType::from_header(Some(header)).filter(|_| request.verb == Verb::Create);
    let name = content_type.and_then(|content_type| name_in(content_type, &request.body));
    name.as_deref() == Some(wanted)
}

impl Fault {
    fn only_for_watches(&self) -> bool {
        matches!(
            self,
            Self::EndWatch { .. } | Self::WatchError { .. } | Self::WithholdBookmarks | Self::WithholdInitialEventsEnd
        )
    }
}

/// A rule that is in force.
#[derive(Debug)]
struct Active {
    rule: Rule,
    shared: Arc<Counter>,
    matched: u64,
    page: u64,
}

#[derive(Debug)]
struct Counter {
    fired: AtomicU64,
    /// How often it may fire.
    allowed: u64,
    removed: AtomicBool,
    changed: watch::Sender<()>,
}

impl Counter {
    fn remove(&self) {
        self.removed.store(true, Ordering::SeqCst);
        self.changed.send_replace(());
    }

    fn is_removed(&self) -> bool {
        self.removed.load(Ordering::SeqCst)
    }
}

/// An injected rule: says how often it fired and removes it. Dropping the handle leaves the rule in force.
#[derive(Clone, Debug)]
pub struct RuleHandle(Arc<Counter>);

impl RuleHandle {
    /// How often the rule has fired: how many requests it was applied to, whether or not a fault of their bodies has come
    /// about yet.
    pub fn fired(&self) -> u64 {
        self.0.fired.load(Ordering::SeqCst)
    }

    /// Takes the rule out of force. A request that has met the fault keeps it: a watch, or one that waits out a latency.
    pub fn remove(&self) {
        self.0.remove();
    }

    /// Waits until the rule has fired at least `times` times.
    ///
    /// # Panics
    /// If that cannot come any more, since the rule was removed or may fire [`times`](Rule::times) fewer, and if it does not fire
    /// at all for ten minutes on tokio's clock: a test would wait for ever.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn wait_fired(&self, times: u64) {
        let allowed = self.0.allowed;
        assert!(times <= allowed, "the rule fires at most {allowed} times, not {times}");
        let mut changed = self.0.changed.subscribe();
        let done = || self.fired() >= times;
        while !done() && !self.0.is_removed() {
            // The sender lives in the counter that this handle owns, so waiting itself cannot fail.
            assert!(
                timeout(PATIENCE, changed.changed()).await.is_ok(),
                "the rule has fired {} times and not again within {PATIENCE:?}, {times} are awaited: was anything asked that it \
                 matches, by verb, resource (with its group, as in `deployments.apps`), namespace and name?",
                self.fired()
            );
        }
        assert!(
            done(),
            "the rule was removed when it had fired {} times, not {times}",
            self.fired()
        );
    }
}

/// The rules of a server.
#[derive(Debug)]
pub(crate) struct Faults {
    inner: Mutex<Inner>,
    /// True if there may be rules: keeps the lock off the path of servers without faults.
    any: AtomicBool,
}

#[derive(Debug)]
struct Inner {
    rules: Vec<Active>,
    random: fastrand::Rng,
}

impl Faults {
    pub(crate) fn seeded(seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self {
            inner: Mutex::new(Inner {
                rules: Vec::new(),
                random,
            }),
            any: AtomicBool::new(false),
        }
    }

    pub(crate) fn add(&self, rule: Rule) -> RuleHandle {
        let shared = Arc::new(Counter {
            fired: AtomicU64::new(0),
            allowed: rule.times.unwrap_or(u64::MAX),
            removed: AtomicBool::new(false),
            changed: watch::Sender::new(()),
        });
        let active = Active {
            rule,
            shared: Arc::clone(&shared),
            matched: 0,
            page: 0,
        };
        self.inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .rules
            .push(active);
        self.any.store(true, Ordering::SeqCst);
        RuleHandle(shared)
    }

    pub(crate) fn clear(&self) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        for active in inner.rules.drain(..) {
            active.shared.remove();
        }
        self.any.store(false, Ordering::SeqCst);
    }

    /// What has to happen to a request; counts the rules that fire.
    pub(crate) fn plan(&self, request: &Request) -> Plan {
        let mut plan = Plan::default();
        if !self.any.load(Ordering::SeqCst) {
            return plan;
        }
        let mut fired = Vec::new();
        {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            let Inner { rules, random } = &mut *inner;
            rules.retain(|active| !active.shared.is_removed());
            for active in rules.iter_mut() {
                if active.fires(request, random) {
                    active.shared.fired.fetch_add(1, Ordering::SeqCst);
                    fired.push(Arc::clone(&active.shared));
                    plan.add(&active.rule.fault, request);
                    if plan.refusal.is_some() || plan.lose_response {
                        break;
                    }
                }
            }
        }
        for counter in fired {
            counter.changed.send_replace(());
        }
        plan
    }
}

impl Active {
    fn fires(&mut self, request: &Request, random: &mut fastrand::Rng) -> bool {
        if !self.rule.matches(request) {
            return false;
        }
        if let Some(page) = self.rule.page {
            if request.verb != Verb::List {
                return false;
            }
            self.page = if request.query.non_empty("continue").is_some() {
                self.page + 1
            } else {
                1
            };
            if self.page != page {
                return false;
            }
        }
        self.matched += 1;
        let fired = self.shared.fired.load(Ordering::SeqCst);
        self.matched > self.rule.skip
            && self.rule.times.is_none_or(|times| fired < times)
            && self.rule.chance.is_none_or(|chance| random.f64() < chance)
    }
}
