//! Collections whose objects are compared by a function of the user's instead of `PartialEq`.

use std::fmt;
use std::sync::Arc;

use crate::collection::Collection;
use crate::engine::store::Equal;
use crate::fetch::Context;
use crate::krt::Krt;
use crate::options::Options;
use crate::singleton::{self, Singleton};
use crate::statics::StaticCollection;
use crate::traits::Keyed;

/// Makes collections whose objects are compared by a function. Made by [`Krt::with_eq`].
pub struct WithEq<'a, T> {
    krt: &'a Krt,
    equal: Equal<T>,
}

impl Krt {
    /// Collections whose objects are equal if a function says so: for types without `PartialEq`, or where it is not what decides whether
    /// anybody has to be told. The function must not capture anything.
    ///
    /// ```
    /// use krt::testing::Stepper;
    /// use krt::{KeyRef, Keyed, Krt, Text};
    ///
    /// struct Length {
    ///     of: String,
    ///     length: usize,
    /// }
    /// impl Keyed for Length {
    ///     fn key(&self) -> KeyRef<'_> {
    ///         KeyRef::Plain(&self.of)
    ///     }
    /// }
    ///
    /// let krt = Krt::builder("test").build();
    /// let names = krt.static_collection("names", [Text::from("a")]);
    /// let same = |one: &Length, other: &Length| one.length == other.length;
    /// let lengths = krt.with_eq(same).collection("lengths", &names, |_, name| {
    ///     Some(Length { of: name.0.clone(), length: name.0.len() })
    /// });
    /// Stepper::new(&krt)?.settle();
    /// assert_eq!(lengths.get("a").unwrap().length, 1);
    /// # Ok::<_, krt::Error>(())
    /// ```
    ///
    /// # Guarantees
    ///
    /// What the function calls equal is no change: the object that is there stays, and nobody is told. If it panics, the objects
    /// count as different.
    pub fn with_eq<T: Keyed>(&self, equal: fn(&T, &T) -> bool) -> WithEq<'_, T> {
        WithEq { krt: self, equal }
    }
}

impl<O: Keyed> WithEq<'_, O> {
    /// As [`Krt::collection`].
    pub fn collection<I: Keyed>(
        &self,
        name: impl Into<Options>,
        input: &Collection<I>,
        f: impl Fn(&mut Context<'_>, &Arc<I>) -> Option<O> + Send + Sync + 'static,
    ) -> Collection<O> {
        self.many_collection(name, input, f)
    }

    /// As [`Krt::many_collection`].
    pub fn many_collection<I: Keyed, M: IntoIterator<Item = O>>(
        &self,
        name: impl Into<Options>,
        input: &Collection<I>,
        f: impl Fn(&mut Context<'_>, &Arc<I>) -> M + Send + Sync + 'static,
    ) -> Collection<O> {
        self.krt.derive_many(name, input, self.equal, f)
    }

    /// As [`Krt::singleton`].
    pub fn singleton(
        &self,
        name: impl Into<Options>,
        f: impl Fn(&mut Context<'_>) -> Option<O> + Send + Sync + 'static,
    ) -> Singleton<O> {
        Singleton::new(self.krt, name, self.equal, f)
    }

    /// As [`Krt::many_from_nothing`].
    pub fn many_from_nothing<M: IntoIterator<Item = O>>(
        &self,
        name: impl Into<Options>,
        f: impl Fn(&mut Context<'_>) -> M + Send + Sync + 'static,
    ) -> Collection<O> {
        singleton::from_nothing(self.krt, name, self.equal, f)
    }

    /// As [`Krt::static_collection`].
    ///
    /// # Panics
    ///
    /// If an item's key is empty.
    pub fn static_collection(
        &self,
        name: impl Into<Options>,
        items: impl IntoIterator<Item = O>,
    ) -> StaticCollection<O> {
        StaticCollection::new(self.krt, name, items, true, self.equal)
    }

    /// As [`Krt::unsynced_collection`].
    pub fn unsynced_collection(&self, name: impl Into<Options>) -> StaticCollection<O> {
        StaticCollection::new(self.krt, name, [], false, self.equal)
    }
}

impl<T> fmt::Debug for WithEq<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithEq").field("krt", self.krt).finish_non_exhaustive()
    }
}
