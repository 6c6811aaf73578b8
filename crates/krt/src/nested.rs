//! The objects of all collections that a collection lends: members come and go while the program runs.

use std::sync::Arc;

use crate::collection::Collection;
use crate::engine::operator::combine::Combine;
use crate::engine::operator::nested::Nested;
use crate::krt::Krt;
use crate::options::Options;
use crate::traits::Keyed;

/// An object that has a collection, and lends it to [`Krt::nested_join`]: a cluster and its pods, say.
///
/// It has a key of its own. An object may lend collections of several types.
///
/// # Contract
///
/// An object always lends the same collection, one of the same engine. A collection of another engine is refused, which is logged. That
/// an object lends another one later cannot be noticed.
pub trait Lend<T: Keyed>: Keyed {
    /// The collection.
    fn lend(&self) -> &Collection<T>;
}

impl Krt {
    /// All objects of all collections that the objects of a collection lend. Of those with one key, the one of the first member that has any
    /// counts, in the order of the lenders' keys (by bytes).
    ///
    /// ```
    /// use krt::testing::Stepper;
    /// use krt::{Collection, KeyRef, Keyed, Krt, Lend, Text};
    ///
    /// #[derive(PartialEq)]
    /// struct Cluster {
    ///     name: String,
    ///     pods: Collection<Text>,
    /// }
    /// impl Keyed for Cluster {
    ///     fn key(&self) -> KeyRef<'_> {
    ///         KeyRef::Plain(&self.name)
    ///     }
    /// }
    /// impl Lend<Text> for Cluster {
    ///     fn lend(&self) -> &Collection<Text> {
    ///         &self.pods
    ///     }
    /// }
    ///
    /// let krt = Krt::builder("test").build();
    /// let mut stepper = Stepper::new(&krt)?;
    /// let pods = krt.static_collection("pods of east", [Text::from("web-1")]);
    /// let east = Cluster { name: "east".into(), pods: (*pods).clone() };
    /// let clusters = krt.static_collection("clusters", [east]);
    /// let all = krt.nested_join("all pods", &clusters);
    /// stepper.settle();
    /// assert!(all.get("web-1").is_some());
    /// clusters.delete("east");
    /// stepper.settle();
    /// assert!(all.is_empty());
    /// # Ok::<_, krt::Error>(())
    /// ```
    ///
    /// # Guarantees
    ///
    /// As [`join`](Self::join), and:
    ///
    /// - A new member contributes nothing before it is synced. If an object lends another collection than before, the old one
    ///   stays until the new one is synced; then they are exchanged in one epoch.
    /// - The join is synced once all members are that were there when the lenders were synced, or that took their places.
    /// - A member that reads the join, directly or not, is refused, which is logged with the path and counted as a
    ///   [cycle](crate::Stats::cycles). What its lender had before stays. It is tried again when the path is broken.
    ///
    /// # Panics
    ///
    /// If the collection belongs to another engine.
    pub fn nested_join<C: Lend<T>, T: Keyed + PartialEq>(
        &self,
        name: impl Into<Options>,
        lenders: &Collection<C>,
    ) -> Collection<T> {
        self.nested(name, lenders, Combine::First)
    }

    /// As [`nested_join`](Self::nested_join), objects with one key merged as by [`join_with_merge`](Self::join_with_merge): the
    /// function gets them in the order of the lenders' keys.
    ///
    /// # Guarantees
    ///
    /// As [`nested_join`](Self::nested_join). If the function panics, or changes the key, the key keeps its last object.
    ///
    /// # Panics
    ///
    /// If the collection belongs to another engine.
    pub fn nested_join_with_merge<C: Lend<T>, T: Keyed + PartialEq>(
        &self,
        name: impl Into<Options>,
        lenders: &Collection<C>,
        merge: impl Fn(&[Arc<T>]) -> Option<T> + Send + Sync + 'static,
    ) -> Collection<T> {
        self.nested(name, lenders, Combine::Merge(Box::new(merge)))
    }

    fn nested<C: Lend<T>, T: Keyed + PartialEq>(
        &self,
        name: impl Into<Options>,
        lenders: &Collection<C>,
        combine: Combine<T>,
    ) -> Collection<T> {
        self.check(lenders);
        let members = lenders.clone();
        Collection::add(self.shared(), name, vec![lenders.id()], Some(T::eq), |counters| {
            Box::new(Nested::new(members, <C as Lend<T>>::lend, combine, T::eq, counters))
        })
    }
}
