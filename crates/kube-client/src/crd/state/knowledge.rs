//! What the watcher learns: definitions from a feed, answers of discovery, and which of the two is believed.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Entry, Inner, Later, Source, State};
use crate::crd::definition::Definition;
use crate::crd::options::Rules;
use crate::discovery::{Lookup, ServedApis};
use crate::event::Event;

/// A kind whose definition went away and that discovery lists all the same after so long is served by something else.
const DISCOVERY_LAG: Duration = Duration::from_secs(30);

/// What the choice of a source has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::crd) struct Adopted {
    pub(in crate::crd) source_changed: bool,
    /// What the server serves is not what was known.
    pub(in crate::crd) served_changed: bool,
}

impl State {
    /// Definitions come from a new feed from now on, which begins with all there are. Gives its number.
    pub(in crate::crd) fn begin_feed(&self) -> u64 {
        let mut inner = self.inner.lock();
        inner.feed += 1;
        inner.feed
    }

    /// Takes changes of definitions in; those of an earlier feed do not count. True if what the server serves has changed.
    pub(in crate::crd) fn apply(&self, feed: u64, events: &[Event<Definition>]) -> bool {
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
    pub(in crate::crd) fn discovered(&self, apis: Arc<ServedApis>, begun: Instant) {
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
    pub(in crate::crd) fn not_discovered(&self, begun: Instant) {
        let mut inner = self.inner.lock();
        let Inner { gone, apis, .. } = &mut *inner;
        gone.retain(|name, since| {
            let listed = |apis: &Arc<ServedApis>| apis.find(&lookup_of(name)).is_some();
            begun <= *since || apis.as_ref().is_some_and(listed)
        });
    }

    /// Changes where the knowledge comes from. If it is the definitions, those of which the current feed has not told are
    /// gone: its first list is here.
    pub(in crate::crd) fn set_source(&self, source: Source) -> Adopted {
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
}

/// What discovery is asked for by the full name of a definition.
fn lookup_of(name: &str) -> Lookup {
    let (plural, group) = name.split_once('.').unwrap_or((name, ""));
    Lookup::resource(plural).group(group)
}
