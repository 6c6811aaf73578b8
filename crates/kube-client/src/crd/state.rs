//! What is known of each kind, who waits for it, and who is told: the synchronous core of the watcher.
//!
//! Everything is decided under one lock, so that "known or called back" has no gap. Calls are queued here and made by the
//! driver, one after the other, without the lock; so are subscribers woken and things of the user's dropped. `verdict` is
//! how it is decided, `topic` who follows one kind.

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

use crate::crd::definition::Definition;
use crate::crd::options::Rules;
use crate::crd::report::KindStatus;
use crate::crd::subscription::KindState;
use crate::crd::topic::{Change, Told, Topic, Verdict};
use crate::discovery::{Lookup, ServedApis};
use crate::event::Event;
use crate::informer::deferred::discard_each;
use crate::object::Scope;
use crate::sync::{Mutex, wake_all};

/// A kind whose definition went away and that discovery lists all the same after so long is served by something else.
const DISCOVERY_LAG: Duration = Duration::from_secs(30);
/// For so long after somebody asked about kinds without a definition, discovery is asked about them now and then.
const INTEREST: Duration = Duration::from_mins(2);

/// Called once, when a kind is known.
pub(super) type Callback = Box<dyn FnOnce() + Send>;

/// A call to make, without a lock.
pub(super) enum Call {
    Once(Callback),
    Change {
        kind: GroupVersionResource,
        id: u64,
        state: KindState,
        change: Change,
    },
}

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

/// What the choice of a source has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Adopted {
    pub(super) source_changed: bool,
    /// What the server serves is not what was known.
    pub(super) served_changed: bool,
}

enum Due {
    Once(Callback),
    Change { kind: GroupVersionResource, id: u64 },
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

/// What discovery is asked for by the full name of a definition.
fn lookup_of(name: &str) -> Lookup {
    let (plural, group) = name.split_once('.').unwrap_or((name, ""));
    Lookup::resource(plural).group(group)
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

    /// True if the kind is known; otherwise `callback` is kept for the moment when it is. After a stop it is dropped.
    pub(super) fn known_or_callback(&self, kind: &GroupVersionResource, callback: Callback) -> bool {
        let mut inner = self.inner.lock();
        if matches!(inner.verdict(&self.rules, kind), Some(Verdict::Known(_))) {
            drop(inner); // the callback is dropped after the lock: what it captures is the user's
            return true;
        }
        if !inner.stopped {
            let waiting = inner.waiting.entry(full_name(kind)).or_default();
            waiting.push((kind.clone(), callback));
        }
        false
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

    /// Has `change` called with the state of the kind, and with each change; gives its number. After a stop it is dropped.
    pub(super) fn add_handler(&self, kind: &GroupVersionResource, change: Change) -> u64 {
        let mut later = Later::default();
        let (id, refused) = {
            let mut inner = self.inner.lock();
            inner.handlers += 1;
            let id = inner.handlers;
            if inner.stopped {
                (id, Some(change))
            } else {
                inner.topic(&self.rules, kind).add_handler(id, change);
                inner.queue_handlers(kind, &mut later);
                (id, None)
            }
        };
        drop(refused); // what it captures is the user's
        self.finish(later);
        id
    }

    pub(super) fn remove_handler(&self, kind: &GroupVersionResource, id: u64) {
        let removed = {
            let mut inner = self.inner.lock();
            let removed = inner.find_topic(kind).and_then(|topic| topic.remove_handler(id));
            inner.drop_if_idle(kind);
            removed
        };
        drop(removed); // what it captures is the user's
    }

    /// How many calls are queued.
    pub(super) fn calls_due(&self) -> usize {
        self.inner.lock().due.len()
    }

    /// The next call to make. A `Change` has to be [given back](Self::put_back) afterwards.
    pub(super) fn next_call(&self) -> Option<Call> {
        let mut inner = self.inner.lock();
        loop {
            match inner.due.pop_front()? {
                Due::Once(callback) => return Some(Call::Once(callback)),
                Due::Change { kind, id } => {
                    let call = inner.find_topic(&kind).and_then(|topic| topic.take_call(id));
                    if let Some((state, change)) = call {
                        return Some(Call::Change {
                            kind,
                            id,
                            state,
                            change,
                        });
                    }
                }
            }
        }
    }

    /// A handler was called. Gives what is to be dropped, if it was removed meanwhile.
    pub(super) fn put_back(&self, kind: &GroupVersionResource, id: u64, change: Change) -> Option<Change> {
        let mut later = Later::default();
        let removed = {
            let mut inner = self.inner.lock();
            let removed = match inner.find_topic(kind) {
                Some(topic) => topic.put_back(id, change),
                None => Some(change),
            };
            inner.queue_handlers(kind, &mut later);
            removed
        };
        self.finish(later);
        removed
    }

    /// Definitions come from a new feed from now on, which begins with all there are. Gives its number.
    pub(super) fn begin_feed(&self) -> u64 {
        let mut inner = self.inner.lock();
        inner.feed += 1;
        inner.feed
    }

    /// Takes changes of definitions in; those of an earlier feed do not count. True if what the server serves has changed.
    pub(super) fn apply(&self, feed: u64, events: &[Event<Definition>]) -> bool {
        let mut later = Later::default();
        let changed = {
            let mut inner = self.inner.lock();
            if feed != inner.feed {
                return false;
            }
            let mut changed = false;
            let mut names: Vec<Box<str>> = Vec::with_capacity(events.len());
            for event in events {
                let definition = event.object();
                names.push(definition.name().into());
                if let Event::Deleted { .. } = event {
                    changed = true;
                    inner.definitions.remove(definition.name());
                    inner.gone.insert(definition.name().into(), Instant::now());
                } else {
                    changed |= inner.set(&self.rules, definition, &mut later);
                }
            }
            names.sort_unstable();
            names.dedup();
            for name in &names {
                inner.evaluate(&self.rules, name, &mut later);
            }
            changed
        };
        self.finish(later);
        changed
    }

    /// Takes an answer of discovery in that was begun at `begun`.
    pub(super) fn discovered(&self, apis: Arc<ServedApis>, begun: Instant) {
        let mut later = Later::default();
        {
            let mut inner = self.inner.lock();
            inner.gone.retain(|name, since| {
                let listed = apis.find_all(&lookup_of(name));
                // What is remembered of a group that cannot be asked is no proof that something else serves it.
                let proves_nothing = begun.saturating_duration_since(*since) < DISCOVERY_LAG
                    || listed.iter().all(|listed| listed.remembered);
                begun <= *since || (!listed.is_empty() && proves_nothing)
            });
            inner.apis = Some(apis);
            inner.evaluate_all(&self.rules, &mut later);
        }
        self.finish(later);
    }

    /// Discovery, asked at `begun`, did not answer.
    pub(super) fn not_discovered(&self, begun: Instant) {
        let mut inner = self.inner.lock();
        let Inner { gone, apis, .. } = &mut *inner;
        gone.retain(|name, since| {
            let listed = |apis: &Arc<ServedApis>| apis.find(&lookup_of(name)).is_some();
            begun <= *since || apis.as_ref().is_some_and(listed)
        });
    }

    /// Changes where the knowledge comes from. If it is the definitions, those of which the current feed has not told are
    /// gone: its first list is here.
    pub(super) fn set_source(&self, source: Source) -> Adopted {
        let mut later = Later::default();
        let adopted = {
            let mut inner = self.inner.lock();
            let lists = source == Source::Definitions && inner.adopted != inner.feed;
            let adopted = Adopted {
                source_changed: inner.source != source,
                served_changed: lists && inner.forget_earlier_feeds(),
            };
            inner.source = source;
            if adopted.source_changed || adopted.served_changed {
                inner.evaluate_all(&self.rules, &mut later);
            }
            adopted
        };
        self.finish(later);
        adopted
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
    /// Keeps a definition. True if what it says of what is served is new.
    fn set(&mut self, rules: &Rules, definition: &Arc<Definition>, later: &mut Later) -> bool {
        let name = definition.name();
        self.gone.remove(name);
        let annotation = definition.metadata.annotations.get(rules.annotation());
        let objection = rules.objection(name, annotation.map(String::as_str));
        let before = self.definitions.get(name);
        if let Some(objection) = &objection
            && before.is_none_or(|before| before.objection.as_ref() != Some(objection))
        {
            later
                .ignored
                .push((name.into(), objection.clone(), rules.ignores(name)));
        }
        let changed = before.is_none_or(|before| !before.definition.serves_the_same(definition));
        let entry = Entry {
            definition: Arc::clone(definition),
            objection,
            feed: self.feed,
        };
        self.definitions.insert(name.into(), entry);
        changed
    }

    /// Takes definitions for gone that the current feed has not told of. True if there were any.
    fn forget_earlier_feeds(&mut self) -> bool {
        let (feed, now) = (self.feed, Instant::now());
        let forgotten: Vec<Box<str>> = self
            .definitions
            .extract_if(|_, entry| entry.feed != feed)
            .map(|(name, _)| name)
            .collect();
        self.adopted = feed;
        let any = !forgotten.is_empty();
        self.gone.extend(forgotten.into_iter().map(|name| (name, now)));
        any
    }

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

    /// Queues the handlers of a kind that have something to be told.
    fn queue_handlers(&mut self, kind: &GroupVersionResource, later: &mut Later) {
        let name = full_name(kind);
        let topics = self.topics.get_mut(name.as_str());
        if let Some(topic) = topics.and_then(|topics| topics.iter_mut().find(|topic| topic.kind == *kind)) {
            queue(topic, &mut self.due, later);
        }
    }
}

fn queue(topic: &mut Topic, due: &mut VecDeque<Due>, later: &mut Later) {
    let kind = topic.kind.clone();
    for id in topic.queue_handlers() {
        due.push_back(Due::Change { kind: kind.clone(), id });
        later.calls = true;
    }
}
