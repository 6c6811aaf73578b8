//! Several collections seen as one: the same ones for as long as the join lives. Members that come and go are in [`crate::nested`].

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::collection::Collection;
use crate::engine::operator::combine::Combine;
use crate::engine::operator::join::Join as Operator;
use crate::krt::Krt;
use crate::options::Options;
use crate::traits::Keyed;

/// Several collections as one. It is a cheap clone, and is read as the [`Collection`] that it derefs to.
pub struct Join<T: Keyed> {
    collection: Collection<T>,
    disjoint: Arc<AtomicBool>,
}

impl Krt {
    /// All objects of several collections. Of those with one key, the one of the first collection that has any counts.
    ///
    /// # Guarantees
    ///
    /// When another collection takes a key over, or the next one falls back to it, that is an update of the key. What happens
    /// to an object that does not count is told to nobody. The join is synced once all its members are. A change costs no look into
    /// the other members.
    ///
    /// # Panics
    ///
    /// If a collection belongs to another engine.
    pub fn join<T: Keyed + PartialEq>(
        &self,
        name: impl Into<Options>,
        members: impl IntoIterator<Item = Collection<T>>,
    ) -> Join<T> {
        self.combine(name, members, Combine::First)
    }

    /// All objects of several collections, those with one key merged by a function, which gets them in the order of the
    /// collections; the key must stay the same. `None`: there is no such object.
    ///
    /// # Guarantees
    ///
    /// As [`join`](Self::join). If the function panics, or changes the key, the key keeps its last object.
    ///
    /// # Panics
    ///
    /// If a collection belongs to another engine.
    pub fn join_with_merge<T: Keyed + PartialEq>(
        &self,
        name: impl Into<Options>,
        members: impl IntoIterator<Item = Collection<T>>,
        merge: impl Fn(&[Arc<T>]) -> Option<T> + Send + Sync + 'static,
    ) -> Collection<T> {
        self.combine(name, members, Combine::Merge(Box::new(merge))).collection
    }

    fn combine<T: Keyed + PartialEq>(
        &self,
        name: impl Into<Options>,
        members: impl IntoIterator<Item = Collection<T>>,
        combine: Combine<T>,
    ) -> Join<T> {
        let members: Vec<_> = members.into_iter().collect();
        for member in &members {
            self.check(member);
        }
        let sources = members.iter().map(Collection::id).collect();
        let disjoint = Arc::new(AtomicBool::new(false));
        let is_disjoint = Arc::clone(&disjoint);
        let collection = Collection::add(self.shared(), name, sources, Some(T::eq), |counters| {
            Box::new(Operator::new(members, combine, is_disjoint, T::eq, counters))
        });
        Join { collection, disjoint }
    }
}

impl<T: Keyed> Join<T> {
    /// Says that no two members ever have the same key. If they have all the same, the first one counts, as always; each such key is
    /// logged and counted as a [conflict](crate::Stats::conflicts) whenever it changes.
    pub fn unchecked(self) -> Collection<T> {
        self.disjoint.store(true, Ordering::Relaxed);
        self.collection
    }
}

impl<T: Keyed> Deref for Join<T> {
    type Target = Collection<T>;

    fn deref(&self) -> &Collection<T> {
        &self.collection
    }
}

impl<T: Keyed> From<Join<T>> for Collection<T> {
    fn from(join: Join<T>) -> Self {
        join.collection
    }
}

impl<T: Keyed> Clone for Join<T> {
    fn clone(&self) -> Self {
        Self {
            collection: self.collection.clone(),
            disjoint: Arc::clone(&self.disjoint),
        }
    }
}

impl<T: Keyed> fmt::Debug for Join<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.collection.fmt(f)
    }
}
