//! What the storage's lock guards: the log and the resources. Commit, list and compaction are here.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use super::chain::{Chain, Version};
use super::keys::Keys;
use super::{Cursor, Entry, ListQuery, Located, Page, Range, ReadError, ResourceId, Revision, Versioned};
use crate::signal::Signal;

/// Everything behind the lock.
#[derive(Debug)]
pub(super) struct State<T> {
    pub(super) rv: Revision,
    /// The oldest readable revision. Invariant: `compacted <= rv`.
    pub(super) compacted: Revision,
    /// Invariant: ascending by revision, all above `compacted`.
    pub(super) log: VecDeque<Arc<Entry<T>>>,
    resources: Vec<Resource<T>>,
    max_log: usize,
    /// How often the state went back to an older one.
    pub(super) restores: u64,
}

/// One collection.
#[derive(Debug)]
pub(super) struct Resource<T> {
    keys: Keys<T>,
    /// Invariant: the number of chains in `keys` that are live.
    pub(super) live: usize,
    /// Invariant: exactly the entries of the log for this resource, in order.
    suffix: VecDeque<Arc<Entry<T>>>,
    /// The revision of the newest event that compaction took from `suffix`.
    pub(super) trimmed: Revision,
    /// Where the history of this resource begins.
    pub(super) created: Revision,
    /// The resource is gone; watches end once they have read all.
    pub(super) closed: bool,
    /// Watches opened under an older epoch end once they have read all.
    pub(super) epoch: u64,
    /// Watches opened under an epoch before this one end at once: what they would read next is of another history.
    pub(super) restored: u64,
    pub(super) wake: Signal,
}

impl<T> State<T> {
    pub(super) fn new(max_log: usize) -> Self {
        Self {
            rv: 0,
            compacted: 0,
            log: VecDeque::new(),
            resources: Vec::new(),
            max_log,
            restores: 0,
        }
    }

    pub(super) fn add_resource(&mut self, ancient: bool) -> ResourceId {
        let id = ResourceId(u32::try_from(self.resources.len()).unwrap_or(u32::MAX));
        self.resources.push(Resource {
            keys: Keys::new(),
            live: 0,
            suffix: VecDeque::new(),
            trimmed: 0,
            created: if ancient { 0 } else { self.rv },
            closed: false,
            epoch: 0,
            restored: 0,
            wake: Signal::default(),
        });
        id
    }

    pub(super) fn resource(&self, id: ResourceId) -> &Resource<T> {
        &self.resources[id.0 as usize]
    }

    pub(super) fn resource_mut(&mut self, id: ResourceId) -> &mut Resource<T> {
        &mut self.resources[id.0 as usize]
    }

    pub(super) fn check_readable(&self, at: Option<Revision>) -> Result<(), ReadError> {
        match at {
            Some(rv) if rv < self.compacted => Err(ReadError::Compacted { oldest: self.compacted }),
            Some(rv) if rv > self.rv => Err(ReadError::Future { current: self.rv }),
            _ => Ok(()),
        }
    }

    /// Writes `new` over `old`; none if the key is no longer what the caller saw.
    pub(super) fn commit(
        &mut self,
        id: ResourceId,
        key: &str,
        old: Option<&Versioned<T>>,
        new: Option<&Arc<T>>,
    ) -> Option<Revision> {
        let rv = self.rv + 1;
        let resource = &mut self.resources[id.0 as usize];
        let place = resource.keys.find(key);
        let seen = place.ok().and_then(|place| resource.keys.at(place).1.latest());
        if seen.as_ref().map(|version| version.rv) != old.map(|version| version.rv) {
            return None;
        }
        let version = Version {
            rv,
            object: new.cloned(),
        };
        match (old.is_some(), new.is_some()) {
            (false, true) => resource.live += 1,
            (true, false) => resource.live -= 1,
            _ => {}
        }
        let key: Arc<str> = match place {
            Ok(place) => {
                let (key, chain) = resource.keys.at_mut(place);
                chain.push(version);
                Arc::clone(key)
            }
            Err(place) => {
                let key: Arc<str> = key.into();
                resource.keys.insert(place, Arc::clone(&key), Chain::new(version));
                key
            }
        };
        let entry = Arc::new(Entry::new(
            rv,
            id,
            key,
            seen.map(|version| version.object),
            new.cloned(),
        ));
        resource.suffix.push_back(Arc::clone(&entry));
        self.log.push_back(entry);
        self.rv = rv;
        if self.log.len() > self.max_log {
            // A quarter at a time, so that the cost is spread and readers keep most of the history.
            let drop = (self.max_log / 4).max(1);
            let oldest = self.log[drop.min(self.log.len()) - 1].rv;
            self.compact(oldest);
        }
        Some(rv)
    }

    pub(super) fn compact(&mut self, oldest: Revision) {
        let oldest = oldest.min(self.rv);
        if oldest <= self.compacted {
            return;
        }
        self.compacted = oldest;
        while self.log.front().is_some_and(|entry| entry.rv <= oldest) {
            let Some(entry) = self.log.pop_front() else { break };
            let resource = &mut self.resources[entry.resource.0 as usize];
            resource.suffix.pop_front();
            give_back(&mut resource.suffix);
            resource.trimmed = entry.rv;
            resource.change(&entry.key, |chain| chain.trim(oldest));
        }
        give_back(&mut self.log);
    }

    /// Goes back to the state at `rv`, and ends every watch. False if that state is not known any more.
    pub(super) fn restore(&mut self, rv: Revision) -> bool {
        if rv < self.compacted || rv > self.rv {
            return false;
        }
        while self.log.back().is_some_and(|entry| entry.rv > rv) {
            let Some(entry) = self.log.pop_back() else { break };
            let resource = &mut self.resources[entry.resource.0 as usize];
            resource.suffix.pop_back();
            match (entry.prev.is_some(), entry.cur.is_some()) {
                (false, true) => resource.live -= 1,
                (true, false) => resource.live += 1,
                _ => {}
            }
            resource.change(&entry.key, Chain::pop);
        }
        self.rv = rv;
        self.restores += 1;
        for resource in &mut self.resources {
            resource.epoch += 1;
            resource.restored = resource.epoch;
            resource.created = resource.created.min(rv);
        }
        true
    }

    /// Every live object, ordered by resource and key.
    pub(super) fn everything(&self) -> Vec<Located<T>> {
        let mut objects = Vec::with_capacity(self.resources.iter().map(|resource| resource.live).sum());
        for (index, resource) in self.resources.iter().enumerate() {
            let id = ResourceId(u32::try_from(index).unwrap_or(u32::MAX));
            for (key, chain) in resource.keys.iter() {
                objects.extend(chain.latest().map(|version| (id, Arc::clone(key), version)));
            }
        }
        objects
    }

    /// The events of all resources after a revision, at most `max`.
    pub(super) fn after(&self, rv: Revision, max: usize) -> Vec<Arc<Entry<T>>> {
        let start = self.log.partition_point(|entry| entry.rv <= rv);
        self.log.range(start..).take(max).cloned().collect()
    }

    /// The wakers of all resources.
    pub(super) fn wakes(&self) -> Vec<Signal> {
        self.resources.iter().map(|resource| resource.wake.clone()).collect()
    }

    /// Panics if a stated invariant does not hold.
    #[cfg(test)]
    pub(super) fn check_invariants(&self) {
        assert!(self.compacted <= self.rv);
        assert!(self.log.iter().zip(self.log.iter().skip(1)).all(|(a, b)| a.rv < b.rv));
        assert!(self.log.front().is_none_or(|entry| entry.rv > self.compacted));
        for (index, resource) in self.resources.iter().enumerate() {
            assert_eq!(
                resource.live,
                resource.keys.iter().filter(|(_, chain)| chain.is_live()).count()
            );
            let from_log: Vec<_> = self
                .log
                .iter()
                .filter(|entry| entry.resource.0 as usize == index)
                .map(|entry| entry.rv)
                .collect();
            let suffix: Vec<_> = resource.suffix.iter().map(|entry| entry.rv).collect();
            assert_eq!(suffix, from_log);
            resource.keys.check_invariants();
            let versions: usize = resource.keys.iter().map(|(_, chain)| chain.len()).sum();
            assert!(
                versions <= resource.keys.iter().count() + resource.suffix.len(),
                "versions that nobody can read"
            );
            for (_, chain) in resource.keys.iter().filter(|(_, chain)| !chain.is_live()) {
                assert!(chain.at(self.compacted).is_some() || chain.len() > 1 || !resource.suffix.is_empty());
            }
        }
    }
}

/// Gives memory back that a queue needed when it was much longer.
fn give_back<E>(queue: &mut VecDeque<E>) {
    if queue.capacity() > 64 && queue.capacity() / 4 > queue.len() {
        queue.shrink_to(queue.len() * 2);
    }
}

impl<T> Resource<T> {
    /// Changes the chain of a key, if there is one, and drops the key if `change` says that nothing is left.
    fn change(&mut self, key: &str, change: impl FnOnce(&mut Chain<T>) -> bool) {
        if let Ok(place) = self.keys.find(key)
            && change(&mut self.keys.at_mut(place).1)
        {
            self.keys.remove(place);
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<Versioned<T>> {
        self.keys.get(key).and_then(Chain::latest)
    }

    pub(super) fn get_at(&self, key: &str, rv: Revision) -> Option<Versioned<T>> {
        self.keys.get(key).and_then(|chain| chain.at(rv))
    }

    /// The newest event up to a revision.
    pub(super) fn last_change(&self, seen: Revision) -> Revision {
        let end = self.suffix.partition_point(|entry| entry.rv <= seen);
        let last = end.checked_sub(1).and_then(|last| self.suffix.get(last));
        last.map_or(self.trimmed, |entry| entry.rv)
    }

    /// The first event about a key after a revision.
    pub(super) fn next_change(&self, key: &str, after: Revision) -> Option<Revision> {
        let start = self.suffix.partition_point(|entry| entry.rv <= after);
        self.suffix
            .range(start..)
            .find(|entry| &*entry.key == key)
            .map(|entry| entry.rv)
    }

    pub(super) fn live_keys(&self) -> Vec<Arc<str>> {
        self.keys
            .iter()
            .filter(|(_, chain)| chain.is_live())
            .map(|(key, _)| Arc::clone(key))
            .collect()
    }

    pub(super) fn cursor(&self, resource: ResourceId, after: Revision) -> Cursor {
        Cursor {
            resource,
            after,
            epoch: self.epoch,
            wake: self.wake.subscribe(),
        }
    }

    /// The events after a revision, at most `max`.
    pub(super) fn after(&self, rv: Revision, max: usize) -> Vec<Arc<Entry<T>>> {
        let start = self.suffix.partition_point(|entry| entry.rv <= rv);
        self.suffix.range(start..).take(max).cloned().collect()
    }

    pub(super) fn list(&self, query: &ListQuery<'_, T>, current: Revision) -> Page<T> {
        let rv = query.at.unwrap_or(current);
        let version = |chain: &Chain<T>| {
            if query.at.is_some() {
                chain.at(rv)
            } else {
                chain.latest()
            }
        };
        let (low, high) = bounds(&query.range, query.after);
        let (low, high) = (low.as_ref().map(String::as_str), high.as_ref().map(String::as_str));
        let mut page = Page {
            items: Vec::new(),
            rv,
            more: false,
            remaining: 0,
        };
        if query.limit == 0 && matches!(query.range, Range::All) {
            page.items.reserve(self.live);
        }
        let mut keys = self.keys.range(low, high);
        for (key, chain) in keys.by_ref() {
            let Some(found) = version(chain) else { continue };
            if query.limit > 0 && page.items.len() == query.limit {
                // The next live key decides whether there is more; a filter may still reject it, as on a real server.
                page.more = true;
                page.remaining = 1 + keys.filter(|(_, chain)| version(chain).is_some()).count();
                break;
            }
            if (query.filter)(key, &found.object) {
                page.items.push((Arc::clone(key), found));
            }
        }
        page
    }
}

/// The keys of a range that come after `after`.
fn bounds(range: &Range, after: Option<&str>) -> (Bound<String>, Bound<String>) {
    let (mut low, high) = match range {
        Range::All => (Bound::Unbounded, Bound::Unbounded),
        // '0' is the byte after '/'.
        Range::Namespace(namespace) => (
            Bound::Included(format!("{namespace}/")),
            Bound::Excluded(format!("{namespace}0")),
        ),
        Range::Key(key) => (Bound::Included(key.clone()), Bound::Included(key.clone())),
    };
    if let Some(after) = after {
        let before_range = matches!(&low, Bound::Included(first) if after < first.as_str());
        if !before_range {
            low = Bound::Excluded(after.to_owned());
        }
    }
    (low, high)
}
