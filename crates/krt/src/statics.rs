//! Collections whose content the program sets itself.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::collection::Collection;
use crate::engine::operator::source::{Source, SourceBuffer, Touch};
use crate::engine::panics;
use crate::engine::store::Equal;
use crate::key::{Hashing, Key, KeyRef};
use crate::krt::Krt;
use crate::options::Options;
use crate::traits::Keyed;
use crate::transaction::{self, Write, Writing};

/// A collection whose content the program sets. It is a cheap clone, and is read as the [`Collection`] that it derefs to.
///
/// # Guarantees
///
/// Writes take effect in the order in which they are made, also across collections. What is written to a key between two epochs is
/// coalesced to the last value. A call of a method is never seen half done; [`Krt::transaction`] makes one of several.
///
/// Written inside of a transformation, a value is applied in the next epoch; transformations should not write. Writes to a collection
/// that was stopped, or whose engine has ended, do nothing.
pub struct StaticCollection<T: Keyed> {
    collection: Collection<T>,
}

impl Krt {
    /// A collection that the program sets, with what it has from the start.
    ///
    /// # Panics
    ///
    /// If an item's key is empty.
    pub fn static_collection<T: Keyed + PartialEq>(
        &self,
        name: impl Into<Options>,
        items: impl IntoIterator<Item = T>,
    ) -> StaticCollection<T> {
        StaticCollection::new(self, name, items, true, T::eq)
    }

    /// A collection that the program sets, and that is not synced before [`mark_synced`](StaticCollection::mark_synced).
    pub fn unsynced_collection<T: Keyed + PartialEq>(&self, name: impl Into<Options>) -> StaticCollection<T> {
        StaticCollection::new(self, name, [], false, T::eq)
    }
}

impl<T: Keyed> StaticCollection<T> {
    pub(crate) fn new(
        krt: &Krt,
        name: impl Into<Options>,
        items: impl IntoIterator<Item = T>,
        synced: bool,
        equal: Equal<T>,
    ) -> Self {
        let (shared, options) = (krt.shared(), name.into());
        let mut buffer = SourceBuffer::new(&shared.hashing, synced);
        for item in items {
            let item = Arc::new(item);
            let key = key_of(&*item, &options.name, &shared.hashing);
            buffer.set(&key, item, Touch::IfDifferent);
        }
        let source = Source::new(&buffer, Some(equal));
        Self::add(krt, options, buffer, source, equal)
    }

    fn add(krt: &Krt, options: Options, buffer: SourceBuffer<T>, source: Source<T>, equal: Equal<T>) -> Self {
        let shared = krt.shared();
        let collection = Collection::add(shared, options, Vec::new(), Some(equal), |_| Box::new(source));
        let refused = shared
            .ingress
            .write(|state| state.add_source(collection.id(), Box::new(buffer)));
        panics::drop_each(refused);
        Self { collection }
    }

    /// A source as those of an API server are: whose objects are individuals.
    #[cfg(test)]
    pub(crate) fn of_individuals(krt: &Krt, name: &str, synced: bool, same: fn(&T, &T) -> bool) -> Self
    where
        T: PartialEq,
    {
        let buffer = SourceBuffer::new(&krt.shared().hashing, synced);
        let source = Source::new(&buffer, Some(T::eq)).telling_apart(same);
        Self::add(krt, name.into(), buffer, source, T::eq)
    }

    /// Sets another version of an object, which may be equal.
    #[cfg(test)]
    pub(crate) fn set_version(&self, item: T) {
        self.set(Arc::new(item), Touch::IfOther);
    }

    pub(crate) fn key(&self, item: &T) -> Key {
        key_of(item, self.name(), &self.shared().hashing)
    }

    /// Changes the buffer; does nothing once there is none. Neither what is returned nor what the change would have written is
    /// dropped under the lock.
    pub(crate) fn write<R>(&self, write: impl FnOnce(&mut SourceBuffer<T>) -> R) -> Option<R> {
        let id = self.collection.id();
        let mut write = Some(write);
        let written = self.shared().ingress.write(|state| {
            let buffer = state.source::<SourceBuffer<T>>(id)?;
            write.take().map(|write| write(buffer))
        });
        panics::drop_each(write);
        written
    }

    /// Sets an object. If the collection has it already, dependants and handlers are told even if it is equal.
    ///
    /// # Panics
    ///
    /// If the key is empty.
    pub fn update(&self, item: impl Into<Arc<T>>) {
        self.set(item.into(), Touch::Always);
    }

    /// Sets an object. If the collection has an equal one already, nothing happens.
    ///
    /// # Panics
    ///
    /// If the key is empty.
    pub fn conditional_update(&self, item: impl Into<Arc<T>>) {
        self.set(item.into(), Touch::IfDifferent);
    }

    fn set(&self, item: Arc<T>, touch: Touch) {
        let lender = Arc::clone(&item);
        let key = lender.key();
        assert!(!key.is_empty(), "an item of {} has an empty key", self.name());
        let hash = self.shared().hashing.key(key);
        panics::drop_each(self.write(move |buffer| buffer.set_lent(hash, key, item, touch)));
        panics::drop_each([lender]);
    }

    /// Deletes the object with this key.
    pub fn delete<'k>(&self, key: impl Into<KeyRef<'k>>) {
        let key = key.into();
        let hash = self.shared().hashing.key(key);
        panics::drop_each(self.write(|buffer| buffer.delete(hash, key)));
    }

    /// Deletes the objects for which the function says so, all at once. The function is called without locks, and again for all
    /// objects if the collection is written to meanwhile.
    pub fn delete_where(&self, matches: impl Fn(&T) -> bool) {
        let write = Writing::new(self, Write::delete_where(matches));
        transaction::commit(self.shared(), vec![Box::new(write)]);
    }

    /// Makes the content exactly this. Dependants and handlers are told the difference.
    ///
    /// # Panics
    ///
    /// If a key is empty; then nothing is changed.
    pub fn reset(&self, items: impl IntoIterator<Item = T>) {
        let items = items.into_iter().map(|item| (self.key(&item), Arc::new(item)));
        let items: Vec<_> = items.collect();
        let replaced = self.write(move |buffer| {
            let mut replaced = buffer.clear();
            replaced.extend(
                items
                    .into_iter()
                    .filter_map(|(key, item)| buffer.set(&key, item, Touch::IfDifferent)),
            );
            replaced
        });
        panics::drop_each(replaced.into_iter().flatten());
    }

    /// The initial content is complete. What was written before belongs to it.
    pub fn mark_synced(&self) {
        self.write(SourceBuffer::mark_synced);
    }
}

/// The key that an item is kept under.
///
/// # Panics
///
/// If it is empty.
fn key_of(item: &impl Keyed, collection: &str, hashing: &Hashing) -> Key {
    let key = item.key();
    assert!(!key.is_empty(), "an item of {collection} has an empty key");
    hashing.keep(key)
}

impl<T: Keyed> Deref for StaticCollection<T> {
    type Target = Collection<T>;

    fn deref(&self) -> &Collection<T> {
        &self.collection
    }
}

impl<T: Keyed> Clone for StaticCollection<T> {
    fn clone(&self) -> Self {
        Self {
            collection: self.collection.clone(),
        }
    }
}

impl<T: Keyed> fmt::Debug for StaticCollection<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.collection.fmt(f)
    }
}
