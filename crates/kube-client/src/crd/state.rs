//! What is known of each kind, who waits for it, and who is told: the synchronous core of the watcher.
//!
//! Everything is decided under one lock, so that "known or called back" has no gap; callbacks are handed out to be called
//! after it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use kube::core::GroupVersionResource;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::crd::definition::Definition;
use crate::crd::options::Rules;
use crate::discovery::{Lookup, ServedApis};
use crate::event::Event;
use crate::sync::Mutex;

/// A kind whose definition went away and that discovery lists all the same after so long is served by something else.
const DISCOVERY_LAG: Duration = Duration::from_secs(30);

/// Called once, when a kind is known.
pub(super) type Callback = Box<dyn FnOnce() + Send>;

/// What is known of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is served; by the definition with this uid, or by something else.
    Known(Option<Box<str>>),
    Unknown,
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
}

struct Inner {
    source: Source,
    definitions: HashMap<Box<str>, Entry, RandomState>,
    // Kinds whose definition went away while discovery listed them, and when. Bounded: emptied by later answers.
    gone: HashMap<Box<str>, Instant, RandomState>,
    apis: Option<Arc<ServedApis>>,
    // By full name. Invariant: no entry is empty.
    waiting: HashMap<String, Vec<(GroupVersionResource, Callback)>, RandomState>,
    topics: HashMap<String, Vec<Topic>, RandomState>,
    stopped: bool,
}

struct Entry {
    definition: Arc<Definition>,
    // Why it does not count.
    objection: Option<String>,
}

/// The subscribers of one kind.
struct Topic {
    kind: GroupVersionResource,
    // `None` until it is known whether the kind is known.
    state: watch::Sender<Option<Verdict>>,
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
                definitions: HashMap::default(),
                gone: HashMap::default(),
                apis: None,
                waiting: HashMap::default(),
                topics: HashMap::default(),
                stopped: false,
            }),
        }
    }

    pub(super) fn is_known(&self, kind: &GroupVersionResource) -> bool {
        let verdict = self.inner.lock().verdict(&self.rules, kind);
        matches!(verdict, Some(Verdict::Known(_)))
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

    pub(super) fn subscribe(&self, kind: &GroupVersionResource) -> watch::Receiver<Option<Verdict>> {
        let mut inner = self.inner.lock();
        inner.sweep();
        let verdict = inner.verdict(&self.rules, kind);
        if inner.stopped {
            return watch::channel(verdict).1; // its sender is gone: the subscription ends after this state
        }
        let topics = inner.topics.entry(full_name(kind)).or_default();
        if let Some(topic) = topics.iter().find(|topic| topic.kind == *kind) {
            return topic.state.subscribe();
        }
        let (state, receiver) = watch::channel(verdict);
        topics.push(Topic {
            kind: kind.clone(),
            state,
        });
        receiver
    }

    /// Takes changes of definitions in. Gives the callbacks to call, and whether what the server serves has changed.
    pub(super) fn apply(&self, events: &[Event<Definition>]) -> (Vec<Callback>, bool) {
        let mut inner = self.inner.lock();
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
                changed |= inner.set(&self.rules, definition);
            }
        }
        names.sort_unstable();
        names.dedup();
        let mut callbacks = Vec::new();
        for name in &names {
            callbacks.append(&mut inner.evaluate(&self.rules, name));
        }
        (callbacks, changed)
    }

    /// Takes an answer of discovery in that was begun at `begun`, or another source. Gives the callbacks to call.
    pub(super) fn discovered(&self, apis: Arc<ServedApis>, begun: Instant) -> Vec<Callback> {
        let mut inner = self.inner.lock();
        inner.gone.retain(|name, since| {
            let (plural, group) = name.split_once('.').unwrap_or((name, ""));
            let listed = apis.find(&Lookup::resource(plural).group(group)).is_some();
            begun <= *since || listed && begun.duration_since(*since) < DISCOVERY_LAG
        });
        inner.apis = Some(apis);
        inner.evaluate_all(&self.rules)
    }

    /// Changes where the knowledge comes from. Gives the callbacks to call.
    pub(super) fn set_source(&self, source: Source) -> Vec<Callback> {
        let mut inner = self.inner.lock();
        if inner.source == source {
            return Vec::new();
        }
        inner.source = source;
        inner.evaluate_all(&self.rules)
    }

    pub(super) fn source(&self) -> Source {
        self.inner.lock().source
    }

    /// Whether another answer of discovery could matter to anybody.
    pub(super) fn needs_discovery(&self) -> bool {
        let mut inner = self.inner.lock();
        inner.sweep();
        let inner = &*inner;
        let names = inner.waiting.keys().chain(inner.topics.keys());
        let undecided = |name: &String| {
            !inner.definitions.contains_key(name.as_str()) && !self.rules.ignores(name) && !self.rules.has_minimum(name)
        };
        inner.source == Source::Discovery || !inner.gone.is_empty() || names.into_iter().any(undecided)
    }

    /// Drops who waits and ends the subscriptions.
    pub(super) fn stop(&self) {
        let dropped = {
            let mut inner = self.inner.lock();
            inner.stopped = true;
            (std::mem::take(&mut inner.waiting), std::mem::take(&mut inner.topics))
        };
        drop(dropped); // callbacks are the user's: not under the lock
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
}

impl Inner {
    /// Keeps a definition. True if what it says of what is served is new.
    fn set(&mut self, rules: &Rules, definition: &Arc<Definition>) -> bool {
        let name = definition.name();
        self.gone.remove(name);
        let annotation = definition.metadata.annotations.get(rules.annotation());
        let objection = rules.objection(name, annotation.map(String::as_str));
        let before = self.definitions.get(name);
        if let Some(objection) = &objection
            && before.is_none_or(|before| before.objection.as_ref() != Some(objection))
        {
            // An expected choice is no news; a version that cannot be read or is too low is.
            if rules.ignores(name) {
                tracing::debug!("ignoring the definition {name}: {objection}");
            } else {
                tracing::error!("ignoring the definition {name}: {objection}");
            }
        }
        let changed = before.is_none_or(|before| !before.definition.serves_the_same(definition));
        let entry = Entry {
            definition: Arc::clone(definition),
            objection,
        };
        self.definitions.insert(name.into(), entry);
        changed
    }

    /// Whether the kind is known; `None` if that cannot be said yet.
    fn verdict(&self, rules: &Rules, kind: &GroupVersionResource) -> Option<Verdict> {
        let name = full_name(kind);
        if rules.ignores(&name) {
            return Some(Verdict::Unknown);
        }
        let entry = self.definitions.get(name.as_str());
        if entry.is_some_and(|entry| entry.objection.is_some()) {
            return Some(Verdict::Unknown);
        }
        if let Some(entry) = entry
            && self.source != Source::Discovery
        {
            return Some(if entry.definition.serves(&kind.version) {
                Verdict::Known(Some(entry.definition.metadata.uid.clone()))
            } else {
                Verdict::Unknown
            });
        }
        if self.source == Source::Starting {
            return None;
        }
        // Discovery does not tell versions of bundles, and it lags behind a definition that went away.
        let cannot_tell = entry.is_none() && (rules.has_minimum(&name) || self.gone.contains_key(name.as_str()));
        let listed = self.apis.as_ref()?.find(&Lookup::from(kind)).is_some();
        Some(if listed && !cannot_tell {
            Verdict::Known(entry.map(|entry| entry.definition.metadata.uid.clone()))
        } else {
            Verdict::Unknown
        })
    }

    fn evaluate_all(&mut self, rules: &Rules) -> Vec<Callback> {
        let mut names: Vec<String> = self.waiting.keys().chain(self.topics.keys()).cloned().collect();
        names.sort_unstable();
        names.dedup();
        let mut callbacks = Vec::new();
        for name in names {
            callbacks.append(&mut self.evaluate(rules, &name));
        }
        callbacks
    }

    /// Tells the subscribers of one name, and takes out the callbacks that are due.
    fn evaluate(&mut self, rules: &Rules, name: &str) -> Vec<Callback> {
        if let Some(topics) = self.topics.get(name) {
            for topic in topics {
                let verdict = self.verdict(rules, &topic.kind);
                topic.state.send_if_modified(|state| {
                    // What was known once is not taken back to "cannot be said".
                    let changed = verdict.is_some() && *state != verdict;
                    if changed {
                        state.clone_from(&verdict);
                    }
                    changed
                });
            }
        }
        let Some(waiting) = self.waiting.remove(name) else {
            return Vec::new();
        };
        let (due, waiting): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .partition(|(kind, _)| matches!(self.verdict(rules, kind), Some(Verdict::Known(_))));
        if !waiting.is_empty() {
            self.waiting.insert(name.to_owned(), waiting);
        }
        due.into_iter().map(|(_, callback)| callback).collect()
    }

    /// Forgets topics that nobody listens to.
    fn sweep(&mut self) {
        self.topics.retain(|_, topics| {
            topics.retain(|topic| topic.state.receiver_count() > 0);
            !topics.is_empty()
        });
    }
}
