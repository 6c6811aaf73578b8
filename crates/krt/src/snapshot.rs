//! Reads outside of transformations: of one epoch that is held, or of the newest state.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use crate::collection::Collection;
use crate::engine::published::At;
use crate::fetch::{Fetched, Read};
use crate::index::Index;
use crate::key::KeyRef;
use crate::query::{Filter, Mode, Query};
use crate::shared::Shared;
use crate::spec::Spec;
use crate::traits::Keyed;

/// All collections of one engine as of one epoch. Made by [`Krt::snapshot`](crate::Krt::snapshot).
///
/// # Guarantees
///
/// What it shows is of one epoch, in all collections, and stays the same for as long as it is held. It costs the memory
/// of the versions that were replaced since.
pub struct Snapshot {
    shared: Arc<Shared>,
    epoch: u64,
}

impl Snapshot {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let epoch = shared.pins.pin();
        Self { shared, epoch }
    }

    /// The epoch that this shows.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The object with this key.
    ///
    /// # Panics
    ///
    /// If the collection belongs to another engine.
    pub fn get<'k, T: Keyed>(&self, collection: &Collection<T>, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>> {
        self.check(collection);
        collection.get_at(key.into(), At::Epoch(self.epoch))
    }

    /// All objects, in no order.
    ///
    /// # Panics
    ///
    /// If the collection belongs to another engine.
    pub fn list<T: Keyed>(&self, collection: &Collection<T>) -> Vec<Arc<T>> {
        self.check(collection);
        let all = collection.list_at(At::Epoch(self.epoch));
        all.into_iter().map(|(_, object)| object).collect()
    }

    /// The objects that have this value of an index, in the order of their keys: [`Index::lookup`] as of this epoch.
    ///
    /// # Panics
    ///
    /// If the index is of another engine's collection.
    pub fn lookup<K, Q, T>(&self, index: &Index<K, T>, value: &Q) -> Fetched<T>
    where
        K: Eq + Hash + Clone + Send + Sync + 'static + Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        T: Keyed,
    {
        self.check(index.collection());
        select(index.at(value), At::Epoch(self.epoch))
    }

    fn check<T: Keyed>(&self, collection: &Collection<T>) {
        assert!(
            collection.is_of(&self.shared),
            "collection {} belongs to another Krt than this snapshot",
            collection.name()
        );
    }
}

impl Read for Snapshot {
    fn fetch<T: Keyed>(&mut self, query: Query<'_, T>) -> Fetched<T> {
        self.check(query.collection);
        select(query, At::Epoch(self.epoch))
    }
}

impl Read for &Snapshot {
    fn fetch<T: Keyed>(&mut self, query: Query<'_, T>) -> Fetched<T> {
        self.check(query.collection);
        select(query, At::Epoch(self.epoch))
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if self.shared.pins.unpin(self.epoch) {
            self.shared.ingress.write(|state| state.unpinned = true);
        }
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

/// Reads the newest state of each collection; two reads may be of different epochs. Made by [`Krt::live`](crate::Krt::live).
#[derive(Debug)]
pub struct Live(());

impl Live {
    pub(crate) fn new() -> Self {
        Self(())
    }
}

impl Read for Live {
    fn fetch<T: Keyed>(&mut self, query: Query<'_, T>) -> Fetched<T> {
        select(query, At::Newest)
    }
}

/// The objects that match, in the order of their keys. User code runs without any lock.
pub(crate) fn select<T: Keyed>(query: Query<'_, T>, at: At) -> Fetched<T> {
    let collection = query.collection;
    let keys = query.filters.iter().find_map(|filter| match filter {
        Filter::Keys(keys) => Some(keys.clone()),
        _ => None,
    });
    let mut objects: Vec<(Arc<str>, Arc<T>)> = if let Some(keys) = keys {
        let found = keys
            .into_iter()
            .filter_map(|key| Some((key.to_arc(), collection.get_at(key, at)?)));
        found.collect()
    } else {
        let indexed = query.filters.iter().find_map(|filter| match filter {
            Filter::Index(value) => collection.lookup_at(value.number, value.id, at),
            _ => None,
        });
        indexed.unwrap_or_else(|| collection.list_at(at))
    };
    let conditions = query.filters.into_iter().map(Filter::into_condition);
    let spec = Spec {
        conditions: conditions.collect(),
        mode: Mode::Objects,
    };
    objects.retain(|(key, object)| spec.matches(|keys| keys.contains(key), object, |at| at.value.is_of(object)));
    objects.sort_unstable_by(|(one, _), (other, _)| one.as_bytes().cmp(other.as_bytes()));
    Fetched::new(objects.into_iter().map(|(_, object)| object))
}
