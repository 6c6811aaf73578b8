//! Several collections seen as one.

use std::sync::Arc;

use crate::collection::Collection;
use crate::engine::operator::join::{Combine, Join};
use crate::krt::Krt;
use crate::options::Options;
use crate::traits::Keyed;

impl Krt {
    /// All objects of several collections. Of those with one key, the one of the first collection that has any counts.
    ///
    /// # Guarantees
    ///
    /// When another collection takes a key over, or the next one falls back to it, that is an update of the key. What happens
    /// to an object that does not count is told to nobody. The join is synced once all its members are.
    ///
    /// # Panics
    ///
    /// If a collection belongs to another engine.
    pub fn join<T: Keyed + PartialEq>(
        &self,
        name: impl Into<Options>,
        members: impl IntoIterator<Item = Collection<T>>,
    ) -> Collection<T> {
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
        self.combine(name, members, Combine::Merge(Box::new(merge)))
    }

    fn combine<T: Keyed + PartialEq>(
        &self,
        name: impl Into<Options>,
        members: impl IntoIterator<Item = Collection<T>>,
        combine: Combine<T>,
    ) -> Collection<T> {
        let members: Vec<_> = members.into_iter().collect();
        for member in &members {
            self.check(member);
        }
        let sources = members.iter().map(Collection::id).collect();
        Collection::add(self.shared(), name, sources, Some(T::eq), |counters| {
            Box::new(Join::new(members, combine, T::eq, counters))
        })
    }
}
