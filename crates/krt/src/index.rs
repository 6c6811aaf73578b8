//! Secondary indexes of a collection, and how a fetch uses one.

use std::any::Any;
use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::panic::Location;
use std::sync::Arc;

use crate::collection::Collection;
use crate::engine::index::{Extract, Sink, TypedIndex, Values};
use crate::engine::ingress::{Edit, Operation};
use crate::engine::node::Cell;
use crate::engine::published::At;
use crate::error::Error;
use crate::fetch::Fetched;
use crate::key::Hashing;
use crate::query::{Filter, Query};
use crate::spec::{IndexAt, IndexValue};
use crate::traits::Keyed;

/// A secondary index of a collection. It is a cheap clone, and keeps its collection.
pub struct Index<K, T: Keyed> {
    collection: Collection<T>,
    number: u32,
    values: Arc<Values<K, T>>,
}

/// Takes the values of an object, one by one. Lent to the function of [`Collection::index_into`].
pub struct Keys<'a, K> {
    sink: &'a mut dyn Sink<K>,
}

impl<'a, K> Keys<'a, K> {
    pub(crate) fn new(sink: &'a mut dyn Sink<K>) -> Self {
        Self { sink }
    }

    /// The object has this value.
    pub fn push(&mut self, value: K) {
        self.sink.push(value);
    }

    /// The object has this value. It is made owned only if no object has it so far.
    ///
    /// The value's `Eq` is called under a lock of the index.
    pub fn push_ref<Q>(&mut self, value: &Q)
    where
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        K: Borrow<Q>,
    {
        let hash = |hashing: &Hashing| hashing.of(value);
        if !self.sink.push_known(&hash, &|known| known.borrow() == value) {
            self.sink.push(value.to_owned());
        }
    }
}

impl<K> fmt::Debug for Keys<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

impl<K: Eq + Hash + Clone + Send + Sync + 'static, T: Keyed> Index<K, T> {
    #[track_caller]
    pub(crate) fn new(collection: &Collection<T>, name: &str, extract: Arc<Extract<K, T>>) -> Result<Self, Error> {
        let values = Arc::new(Values::new(collection.shared().hashing.clone(), extract));
        let index = Box::new(TypedIndex::new(Arc::clone(&values)));
        let add = move |number| {
            let edit = move |cell: &mut dyn Any, _: &mut Edit<'_>| {
                if let Some(cell) = cell.downcast_mut::<Cell<T>>() {
                    cell.add_index(number, index);
                }
            };
            Operation::Edit(collection.id(), Box::new(edit))
        };
        let number = collection.add_index(name, Location::caller(), add)?;
        Ok(Self {
            collection: collection.clone(),
            number,
            values,
        })
    }

    /// A query of the objects that have this value, to be narrowed further and fetched.
    ///
    /// The value's `Eq`, and `to_owned` if it is new to the index, are called under a lock of the index.
    pub fn at<Q>(&self, value: &Q) -> Query<'_, T>
    where
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        K: Borrow<Q>,
    {
        let value = self.values.intern(value);
        Query::new(&self.collection).with(Filter::Index(IndexAt {
            number: self.number,
            id: value.id,
            value: value as Arc<dyn IndexValue<T>>,
        }))
    }

    /// The objects that have this value in the newest state, in the order of their keys.
    ///
    /// Inside of a transformation, fetch [`at`](Self::at) the value instead, which is followed. For the state of an epoch that
    /// is held, there is [`Snapshot::lookup`](crate::Snapshot::lookup).
    ///
    /// The first lookup in an index looks at each object of the collection; later ones find the objects by their value.
    pub fn lookup<Q>(&self, value: &Q) -> Fetched<T>
    where
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        K: Borrow<Q>,
    {
        // That the engine knows no object with this value says nothing: it may not have the index yet, or no more.
        crate::snapshot::select(self.at(value), At::Newest)
    }

    pub(crate) fn values(&self) -> &Arc<Values<K, T>> {
        &self.values
    }

    /// The collection that is indexed.
    pub fn collection(&self) -> &Collection<T> {
        &self.collection
    }
}

impl<K, T: Keyed> Clone for Index<K, T> {
    fn clone(&self) -> Self {
        Self {
            collection: self.collection.clone(),
            number: self.number,
            values: Arc::clone(&self.values),
        }
    }
}

impl<K, T: Keyed> fmt::Debug for Index<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("collection", &self.collection.name())
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
