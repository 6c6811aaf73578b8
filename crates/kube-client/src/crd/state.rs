//! What is known of each kind, who waits for it, and who is told: the synchronous core of the watcher.
//!
//! Everything is decided under one lock, so that "known or called back" has no gap. Calls are queued here and made by the
//! driver, one after the other, without the lock; so are subscribers woken and things of the user's dropped.
//!
//! Here are the state, its questions and its followers. `knowledge` is what it learns, `verdict` how it decides, `calls` what is
//! due; `topic` is who follows one kind.

mod calls;
mod knowledge;
mod verdict;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use kube::core::GroupVersionResource;
use tokio::sync::Notify;
use tokio::time::Instant;

pub(super) use self::calls::{Call, Callback};
use self::calls::{Due, queue};
#[cfg(test)]
pub(super) use self::knowledge::Adopted;
use crate::crd::definition::Definition;
use crate::crd::options::Rules;
use crate::crd::report::KindStatus;
use crate::crd::subscription::KindState;
use crate::crd::topic::{Told, Topic, Verdict};
use crate::discovery::ServedApis;
use crate::informer::deferred::discard_each;
use crate::object::Scope;
use crate::sync::{Mutex, wake_all};

/// For so long after somebody asked about kinds without a definition, discovery is asked about them now and then.
const INTEREST: Duration = Duration::from_mins(2);

/// Where the knowledge comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// Nowhere yet.
    Starting,
    /// The definitions, and discovery for what has none.
    Definitions,
    /// Discovery alone, since the definitions cannot be read.
    Discovery,
}

pub(super) struct State {
    rules: Rules,
    inner: Mutex<Inner>,
    /// Calls are due.
    pub(super) due: Notify,
}

struct Inner {
    source: Source,
    // The number of the feed that definitions are taken from, and of the one whose first list they hold.
    feed: u64,
    adopted: u64,
    // By full name. While discovery alone decides, those of an earlier feed may be here, which are out of date.
    definitions: HashMap<Box<str>, Entry, RandomState>,
    // Kinds whose definition went away, and when. Bounded: after each attempt of discovery, those are left that the last
    // answer lists and that went away during the attempt.
    gone: HashMap<Box<str>, Instant, RandomState>,
    apis: Option<Arc<ServedApis>>,
    // By full name. Invariant: no entry is empty.
    waiting: HashMap<String, Vec<(GroupVersionResource, Callback)>, RandomState>,
    // By full name. Invariant: no entry is empty, and no topic idle.
    topics: HashMap<String, Vec<Topic>, RandomState>,
    // Bounded by the number of callbacks and handlers: each is queued at most once.
    due: VecDeque<Due>,
    // The last handler's number.
    handlers: u64,
    // When somebody asked about a kind that only discovery can tell of.
    asked: Option<Instant>,
    stopped: bool,
}

struct Entry {
    definition: Arc<Definition>,
    // Why it does not count.
    objection: Option<String>,
    feed: u64,
}

/// What a change leaves for when the lock is released.
#[derive(Default)]
#[must_use = "run it after the lock is released"]
struct Later {
    wakers: Vec<Waker>,
    calls: bool,
    // Definitions that begin not to count, why, and whether that was chosen.
    ignored: Vec<(Box<str>, String, bool)>,
}

/// The full name of a kind, as its definition has it.
pub(super) fn full_name(kind: &GroupVersionResource) -> String {
    if kind.group.is_empty() {
        kind.resource.clone()
    } else {
        format!("{}.{}", kind.resource, kind.group)
    }
}

impl State {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            rules,
            inner: Mutex::new(Inner {
                source: Source::Starting,
                feed: 0,
                adopted: 0,
                definitions: HashMap::default(),
                gone: HashMap::default(),
                apis: None,
                waiting: HashMap::default(),
                topics: HashMap::default(),
                due: VecDeque::new(),
                handlers: 0,
                asked: None,
                stopped: false,
            }),
            due: Notify::new(),
        }
    }

    fn finish(&self, later: Later) {
        for (name, objection, chosen) in later.ignored {
            // An expected choice is no news; a version that cannot be read or is too low is.
            if chosen {
                tracing::debug!("ignoring the definition {name}: {objection}");
            } else {
                tracing::error!("ignoring the definition {name}: {objection}");
            }
        }
        if later.calls {
            self.due.notify_one();
        }
        wake_all(later.wakers);
    }

    /// Whether the kind is known; and whether discovery is to be asked, since nobody was interested in what it says.
    pub(super) fn is_known(&self, kind: &GroupVersionResource) -> (bool, bool) {
        let mut inner = self.inner.lock();
        let known = matches!(inner.verdict(&self.rules, kind), Some(Verdict::Known(_)));
        let ask = inner.only_discovery_tells(&self.rules, &full_name(kind)) && {
            let idle = !inner.is_interesting();
            inner.asked = Some(Instant::now());
            idle
        };
        (known, ask)
    }

    pub(super) fn status(&self, kind: &GroupVersionResource) -> KindStatus {
        let inner = self.inner.lock();
        inner.status(&self.rules, kind)
    }

    /// The scope that a definition tells; unknown without one that is believed.
    pub(super) fn scope(&self, kind: &GroupVersionResource) -> Scope {
        let inner = self.inner.lock();
        let entry = inner.definitions.get(full_name(kind).as_str());
        let believed = entry.filter(|_| inner.source != Source::Discovery);
        believed.map_or(Scope::Unknown, |entry| entry.definition.scope())
    }

    /// Counts a subscriber; [`unsubscribe`](Self::unsubscribe) takes it back.
    pub(super) fn subscribe(&self, kind: &GroupVersionResource) {
        self.inner.lock().topic(&self.rules, kind).subscribers += 1;
    }

    pub(super) fn unsubscribe(&self, kind: &GroupVersionResource, ticket: Option<u64>) {
        let forgotten = {
            let mut inner = self.inner.lock();
            let topic = inner.topic(&self.rules, kind);
            topic.subscribers = topic.subscribers.saturating_sub(1);
            let forgotten = topic.waiters.forget(ticket);
            inner.drop_if_idle(kind);
            forgotten
        };
        drop(forgotten); // a waker is code of whoever polls
    }

    /// The next state for one who was told `told`; nothing once stopped.
    pub(super) fn poll_subscription(
        &self,
        kind: &GroupVersionResource,
        told: &mut Told,
        ticket: &mut Option<u64>,
        cx: &Context<'_>,
    ) -> Poll<Option<KindState>> {
        let waker = cx.waker().clone();
        let replaced = {
            let mut inner = self.inner.lock();
            let stopped = inner.stopped;
            let topic = inner.topic(&self.rules, kind);
            if let Some(state) = topic.tell(told) {
                return Poll::Ready(Some(state));
            }
            if stopped {
                return Poll::Ready(None);
            }
            topic.waiters.register(ticket, waker)
        };
        drop(replaced);
        Poll::Pending
    }

    pub(super) fn source(&self) -> Source {
        self.inner.lock().source
    }

    /// Whether another answer of discovery could matter to anybody.
    pub(super) fn needs_discovery(&self) -> bool {
        let inner = self.inner.lock();
        let mut names = inner.waiting.keys().chain(inner.topics.keys());
        inner.source == Source::Discovery
            || !inner.gone.is_empty()
            || inner.is_interesting()
            || names.any(|name| inner.only_discovery_tells(&self.rules, name))
    }

    /// Drops who waits and who is called, and ends the subscriptions.
    pub(super) fn stop(&self) {
        let (wakers, dropped) = {
            let mut inner = self.inner.lock();
            inner.stopped = true;
            let mut wakers = Vec::new();
            let mut handlers = Vec::new();
            for topic in inner.topics.values_mut().flatten() {
                wakers.append(&mut topic.waiters.take());
                handlers.append(&mut topic.handlers);
            }
            inner.topics.retain(|_, topics| {
                topics.retain(|topic| !topic.is_idle());
                !topics.is_empty()
            });
            let due = std::mem::take(&mut inner.due);
            (wakers, (handlers, std::mem::take(&mut inner.waiting), due))
        };
        // Calls are the user's: not under the lock, and each by itself.
        let (handlers, waiting, due) = dropped;
        discard_each(handlers);
        discard_each(waiting.into_values().flatten());
        discard_each(due);
        wake_all(wakers);
    }

    /// How many definitions there are, how many callbacks wait, and which definitions do not count, and why.
    pub(super) fn summary(&self) -> (usize, usize, BTreeMap<String, String>) {
        let inner = self.inner.lock();
        let waiting = inner.waiting.values().map(Vec::len).sum();
        let ignored = inner
            .definitions
            .iter()
            .filter_map(|(name, entry)| Some((name.to_string(), entry.objection.clone()?)));
        (inner.definitions.len(), waiting, ignored.collect())
    }

    /// How many topics, and kinds that went away, are kept.
    #[cfg(test)]
    pub(super) fn kept(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        (inner.topics.values().map(Vec::len).sum(), inner.gone.len())
    }
}

impl Inner {
    fn is_interesting(&self) -> bool {
        self.asked.is_some_and(|asked| asked.elapsed() < INTEREST)
    }

    /// The topic of a kind, made if there is none.
    fn topic(&mut self, rules: &Rules, kind: &GroupVersionResource) -> &mut Topic {
        let verdict = self.verdict(rules, kind);
        let topics = self.topics.entry(full_name(kind)).or_default();
        let at = topics.iter().position(|topic| topic.kind == *kind);
        let at = at.unwrap_or_else(|| {
            topics.push(Topic::new(kind, verdict));
            topics.len() - 1
        });
        &mut topics[at]
    }

    fn find_topic(&mut self, kind: &GroupVersionResource) -> Option<&mut Topic> {
        let topics = self.topics.get_mut(full_name(kind).as_str())?;
        topics.iter_mut().find(|topic| topic.kind == *kind)
    }

    /// Forgets a topic that nobody follows.
    fn drop_if_idle(&mut self, kind: &GroupVersionResource) {
        let name = full_name(kind);
        if let Some(topics) = self.topics.get_mut(name.as_str()) {
            topics.retain(|topic| topic.kind != *kind || !topic.is_idle());
            if topics.is_empty() {
                self.topics.remove(name.as_str());
            }
        }
    }

    fn evaluate_all(&mut self, rules: &Rules, later: &mut Later) {
        let mut names: Vec<String> = self.waiting.keys().chain(self.topics.keys()).cloned().collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            self.evaluate(rules, &name, later);
        }
    }

    /// Tells the followers of one name, and queues the calls that are due.
    fn evaluate(&mut self, rules: &Rules, name: &str, later: &mut Later) {
        if let Some(mut topics) = self.topics.remove(name) {
            for topic in &mut topics {
                if topic.set(self.verdict(rules, &topic.kind)) {
                    later.wakers.append(&mut topic.waiters.take());
                    queue(topic, &mut self.due, later);
                }
            }
            self.topics.insert(name.to_owned(), topics);
        }
        if let Some(waiting) = self.waiting.remove(name) {
            let (due, waiting): (Vec<_>, Vec<_>) = waiting
                .into_iter()
                .partition(|(kind, _)| matches!(self.verdict(rules, kind), Some(Verdict::Known(_))));
            if !waiting.is_empty() {
                self.waiting.insert(name.to_owned(), waiting);
            }
            later.calls |= !due.is_empty();
            self.due
                .extend(due.into_iter().map(|(_, callback)| Due::Once(callback)));
        }
    }
}
