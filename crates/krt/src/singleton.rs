//! Collections without an input: one value, or many values, computed from what they fetch; and one value that the program sets.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::collection::Collection;
use crate::engine::operator::derive::{Input, Outputs};
use crate::engine::store::Equal;
use crate::fetch::Context;
use crate::krt::Krt;
use crate::options::Options;
use crate::statics::StaticCollection;
use crate::traits::{Keyed, Text};

/// A collection of at most one object. It is a cheap clone, and is read as the [`Collection`] that it derefs to.
pub struct Singleton<T: Keyed> {
    collection: Collection<T>,
}

/// A value that the program sets, or takes away. It is a cheap clone, and is read as the [`Collection`] that it derefs to.
pub struct StaticSingleton<T: Keyed> {
    source: StaticCollection<T>,
}

impl Krt {
    /// One value that is computed from what it fetches; or none.
    ///
    /// # Guarantees
    ///
    /// As [`collection`](Self::collection).
    pub fn singleton<T: Keyed + PartialEq>(
        &self,
        name: impl Into<Options>,
        f: impl Fn(&mut Context<'_>) -> Option<T> + Send + Sync + 'static,
    ) -> Singleton<T> {
        Singleton::new(self, name, T::eq, f)
    }

    /// Any number of objects that are computed from what they fetch, all by one function.
    ///
    /// # Guarantees
    ///
    /// As [`many_collection`](Self::many_collection).
    pub fn many_from_nothing<T: Keyed + PartialEq, M: IntoIterator<Item = T>>(
        &self,
        name: impl Into<Options>,
        f: impl Fn(&mut Context<'_>) -> M + Send + Sync + 'static,
    ) -> Collection<T> {
        from_nothing(self, name, T::eq, f)
    }

    /// One value that the program sets.
    ///
    /// # Panics
    ///
    /// If the value's key is empty.
    pub fn static_singleton<T: Keyed + PartialEq>(
        &self,
        name: impl Into<Options>,
        value: Option<T>,
    ) -> StaticSingleton<T> {
        StaticSingleton {
            source: self.static_collection(name, value),
        }
    }
}

/// Objects that are computed from what they fetch.
pub(crate) fn from_nothing<T: Keyed, M: IntoIterator<Item = T>>(
    krt: &Krt,
    name: impl Into<Options>,
    equal: Equal<T>,
    f: impl Fn(&mut Context<'_>) -> M + Send + Sync + 'static,
) -> Collection<T> {
    let options = name.into();
    let input = Input::Constant(Arc::new(Text(options.name.to_string())));
    let f = move |cx: &mut Context<'_>, _: &Arc<Text>, outputs: &mut Outputs<T>| {
        outputs.extend(f(cx).into_iter().map(Arc::new));
    };
    krt.derive(options, input, equal, f)
}

impl<T: Keyed> Singleton<T> {
    pub(crate) fn new(
        krt: &Krt,
        name: impl Into<Options>,
        equal: Equal<T>,
        f: impl Fn(&mut Context<'_>) -> Option<T> + Send + Sync + 'static,
    ) -> Self {
        let collection = from_nothing(krt, name, equal, f);
        Self { collection }
    }

    /// The value.
    pub fn get(&self) -> Option<Arc<T>> {
        self.collection.list().pop()
    }
}

impl<T: Keyed> StaticSingleton<T> {
    pub(crate) fn source(&self) -> &StaticCollection<T> {
        &self.source
    }

    /// Sets the value. If its key is another one, the old value is deleted.
    ///
    /// # Panics
    ///
    /// If the key is empty; then nothing is changed.
    pub fn set(&self, value: impl Into<Option<T>>) {
        self.source.reset(value.into());
    }

    /// The value, as published.
    pub fn get(&self) -> Option<Arc<T>> {
        self.source.list().pop()
    }
}

impl<T: Keyed> Deref for Singleton<T> {
    type Target = Collection<T>;

    fn deref(&self) -> &Collection<T> {
        &self.collection
    }
}

impl<T: Keyed> Deref for StaticSingleton<T> {
    type Target = Collection<T>;

    fn deref(&self) -> &Collection<T> {
        &self.source
    }
}

impl<T: Keyed> Clone for Singleton<T> {
    fn clone(&self) -> Self {
        Self {
            collection: self.collection.clone(),
        }
    }
}

impl<T: Keyed> Clone for StaticSingleton<T> {
    fn clone(&self) -> Self {
        Self {
            source: self.source.clone(),
        }
    }
}

impl<T: Keyed> fmt::Debug for Singleton<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.collection.fmt(f)
    }
}

impl<T: Keyed> fmt::Debug for StaticSingleton<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}
