//! Who waits for the cache to have seen a write: the core of `Informer::caught_up`.
//!
//! Owns the goals that somebody waits for, and a short memory of what has passed. Lives under the lock of `shared`, which
//! tells it of every change of store or version; synchronous, without tokio types.
//!
//! # Design
//!
//! A write is seen when the cache's version is not older than the write's. That settles nearly everything. Three questions
//! are left, of which the version says nothing. A cache without a version, because the lists of its kind tell none: then the
//! versions of the object itself count, if they compare: those in the cache, and those that deleted objects had last. Versions
//! that do not compare: then the write is seen with that very version, or with any later event of its key. Deletions, whose version the server does not tell: then it is seen when the object of
//! that uid was there and is gone. If it is not there, it was deleted a moment ago, or the cache has not even seen it
//! created; the memory of the last deletions tells which. A list of the newest state that was begun after the question
//! answers both.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash};
use std::task::Waker;

use foldhash::fast::RandomState;

use crate::event::Event;
use crate::informer::reflector::version;
use crate::informer::store::Store;
use crate::key::ObjectKey;
use crate::object::Object;

/// How many deletions, versions that do not compare, and last versions of deleted objects are remembered.
const REMEMBERED: usize = 4096;

/// What is waited for.
#[derive(Debug, Clone)]
pub(crate) enum Goal {
    /// The cache has seen this version of the key's object.
    Written { key: ObjectKey, version: String },
    /// The cache has seen the end of the object of this uid.
    Deleted { key: ObjectKey, uid: String },
}

/// The cache as a goal sees it.
pub(crate) struct Now<'a, K> {
    pub(crate) store: &'a Store<K>,
    pub(crate) version: &'a str,
    pub(crate) filled: bool,
}

/// What changed the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Watch,
    /// A list; with the number that [`Progress::begin_list`] gave if it asked for the newest state.
    List {
        newest: Option<u64>,
        first: bool,
    },
}

/// Goals and memory.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    // Invariant: tickets are unique and at most `tickets`.
    waiting: Vec<Waiting>,
    tickets: u64,
    // How many lists were begun.
    lists: u64,
    recent: Recent,
    // Where the cache has no version that compares: the last versions of deleted objects that do, oldest first, by key.
    // Invariant: at most `REMEMBERED`.
    last_versions: VecDeque<(ObjectKey, String)>,
}

#[derive(Debug)]
struct Waiting {
    ticket: u64,
    goal: Goal,
    // The lists that had begun when it was asked.
    lists: u64,
    reached: bool,
    // `None` once it was woken.
    waker: Option<Waker>,
}

impl Progress {
    /// A list of the newest state is about to be asked for.
    pub(crate) fn begin_list(&mut self) -> u64 {
        self.lists += 1;
        self.lists
    }

    /// Whether this is seen already.
    pub(crate) fn is_reached<K: Object>(&self, goal: &Goal, now: &Now<'_, K>) -> bool {
        now.filled
            && match goal {
                Goal::Written { key, version } => version::compare(now.version, version).map_or_else(
                    || !version.is_empty() && (now.version == version || self.has_passed(key, version, now)),
                    Ordering::is_ge,
                ),
                Goal::Deleted { key, uid } if uid.is_empty() => now.store.find(key.as_ref()).is_none(),
                Goal::Deleted { uid, .. } => !goal.is_cached(now) && self.recent.contains(uid.as_str()),
            }
    }

    /// Whether the key's object has been in this version, as far as its own versions tell.
    fn has_passed<K: Object>(&self, key: &ObjectKey, version: &str, now: &Now<'_, K>) -> bool {
        let passed = |known: &str| version::compare(known, version).map_or(known == version, Ordering::is_ge);
        let cached = now.store.get(key.as_ref());
        cached.is_some_and(|object| passed(object.metadata().resource_version))
            || self.recent.contains(&(key, version))
            || self
                .last_versions
                .iter()
                .any(|(gone, last)| gone == key && passed(last))
    }

    /// Waits for it. Gives the ticket to ask with.
    pub(crate) fn wait(&mut self, goal: Goal, waker: Waker) -> u64 {
        self.tickets += 1;
        self.waiting.push(Waiting {
            ticket: self.tickets,
            goal,
            lists: self.lists,
            reached: false,
            waker: Some(waker),
        });
        self.tickets
    }

    /// Whether what is waited for was reached; if not, this waker is the one that is told. Gives the one it replaces, to be
    /// dropped once the lock is released.
    pub(crate) fn poll(&mut self, ticket: u64, waker: Waker) -> (bool, Option<Waker>) {
        let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.ticket == ticket) else {
            return (false, Some(waker));
        };
        (waiting.reached, waiting.waker.replace(waker))
    }

    /// Nobody waits for it any more. Gives its waker, to be dropped once the lock is released.
    #[must_use = "drop it after the lock is released"]
    pub(crate) fn forget(&mut self, ticket: u64) -> Option<Waker> {
        let at = self.waiting.iter().position(|waiting| waiting.ticket == ticket)?;
        self.waiting.swap_remove(at).waker
    }

    /// Who is to be woken when the informer stops.
    pub(crate) fn take_wakers(&mut self) -> Vec<Waker> {
        self.waiting
            .iter_mut()
            .filter_map(|waiting| waiting.waker.take())
            .collect()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// An object of this uid is gone that never was in the store.
    pub(crate) fn note_gone(&mut self, uid: &str) {
        self.recent.insert(uid);
    }

    /// The cache has changed by these events. Gives who is to be woken once the lock is released.
    pub(crate) fn advance<K: Object>(&mut self, events: &[Event<K>], source: Source, now: &Now<'_, K>) -> Vec<Waker> {
        for event in events {
            let meta = event.object().metadata();
            let is_deletion = matches!(event, Event::Deleted { .. });
            if is_deletion && !meta.uid.is_empty() {
                self.recent.insert(meta.uid);
            }
            if version::is_comparable(meta.resource_version) {
                if is_deletion && !version::is_comparable(now.version) {
                    let last = (event.key(), meta.resource_version.to_owned());
                    push_bounded(&mut self.last_versions, last);
                }
            } else if !meta.resource_version.is_empty() {
                self.recent.insert(&(&event.key(), meta.resource_version));
            }
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut wakers = Vec::new();
        for one in waiting.iter_mut().filter(|one| !one.reached) {
            if self.is_reached(&one.goal, now) || one.is_shown(events, source, now) {
                one.reached = true;
                wakers.extend(one.waker.take());
            }
        }
        self.waiting = waiting;
        wakers
    }
}

impl Waiting {
    /// Whether what came after the question was asked answers it.
    fn is_shown<K: Object>(&self, events: &[Event<K>], source: Source, now: &Now<'_, K>) -> bool {
        let listed_since = matches!(source, Source::List { newest: Some(list), .. } if list > self.lists);
        match &self.goal {
            Goal::Written { key, version } => {
                // An event of an older version, of which only the object itself tells, is one that was on its way before.
                let shows_it = |event: &Event<K>| {
                    let meta = event.object().metadata();
                    let compared = version::compare(meta.resource_version, version);
                    meta.key_ref() == key.as_ref() && compared.is_none_or(Ordering::is_ge)
                };
                now.filled
                    && version::compare(now.version, version).is_none()
                    && (listed_since || events.iter().any(shows_it))
            }
            Goal::Deleted { .. } => {
                let filled_since = matches!(source, Source::List { first: true, .. });
                now.filled && (listed_since || filled_since) && !self.goal.is_cached(now)
            }
        }
    }
}

impl Goal {
    pub(crate) fn key(&self) -> &ObjectKey {
        match self {
            Goal::Written { key, .. } | Goal::Deleted { key, .. } => key,
        }
    }

    /// Whether the object of this uid is in the store.
    fn is_cached<K: Object>(&self, now: &Now<'_, K>) -> bool {
        let Goal::Deleted { key, uid } = self else {
            return false;
        };
        let cached = now.store.get(key.as_ref());
        cached.is_some_and(|object| object.metadata().uid == uid)
    }
}

/// The last things that passed, by hash.
#[derive(Debug, Default)]
struct Recent {
    // Invariant: at most `REMEMBERED`, oldest first.
    hashes: VecDeque<u64>,
    hasher: RandomState,
}

impl Recent {
    fn insert(&mut self, what: &(impl Hash + ?Sized)) {
        push_bounded(&mut self.hashes, self.hasher.hash_one(what));
    }

    fn contains(&self, what: &(impl Hash + ?Sized)) -> bool {
        self.hashes.contains(&self.hasher.hash_one(what))
    }
}

fn push_bounded<T>(remembered: &mut VecDeque<T>, what: T) {
    if remembered.len() == REMEMBERED {
        remembered.pop_front();
    }
    remembered.push_back(what);
}

#[cfg(test)]
mod tests;
