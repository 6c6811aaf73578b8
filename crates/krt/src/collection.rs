//! The handle of a collection: reading, waiting for sync, handlers, indexes, the end.
//!
//! How a collection is computed is the business of `engine`; the constructors are in [`crate::krt`].

use std::any::Any;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::engine::backlog::Compare;
use crate::engine::id::NodeId;
use crate::engine::ingress::{Edit, NodeInfo, Operation, State};
use crate::engine::inside;
use crate::engine::key_ids::KeyIds;
use crate::engine::node::{Cell, Operator};
use crate::engine::operator::derive::{Input, Outputs};
use crate::engine::panics;
use crate::engine::published::{At, Published};
use crate::engine::status::Status;
use crate::engine::store::Equal;
use crate::error::Error;
use crate::event::{Batch, Event};
use crate::fetch::Context;
use crate::handlers::{HandlerBuilder, Registration};
use crate::index::{Index, Keys};
use crate::key::KeyRef;
use crate::options::{Metadata, Options};
use crate::query::Query;
use crate::shared::{Counters, Shared};
use crate::subscription::Subscription;
use crate::sync::Mutex;
use crate::traits::Keyed;
use crate::unsynced::{self, Unsynced};

/// A set of objects, each with its key, that the engine keeps up to date.
///
/// It is a cheap clone. Two handles are equal if they are of the same collection.
///
/// # Guarantees
///
/// Reads see the state of one epoch of this collection, never a part of one. They never wait for user code.
///
/// A collection lives as long as there is a handle of it or a collection that reads it. Dropping the last handle frees
/// everything, handlers too; a [`Registration`] counts as a handle.
pub struct Collection<T: Keyed> {
    inner: Arc<Inner<T>>,
}

pub(crate) struct Inner<T> {
    shared: Arc<Shared>,
    id: NodeId,
    status: Arc<Status>,
    metadata: Metadata,
    published: Arc<Published<T>>,
    counters: Arc<Counters>,
    equal: Option<Equal<T>>,
    /// The numbers of the indexes that something was looked up in.
    lookups: Mutex<BTreeSet<u32>>,
    same: Option<Equal<T>>,
    /// The indexes by name, and where they were made.
    indexes: Mutex<HashMap<String, &'static Location<'static>>>,
}

impl<T> Drop for Inner<T> {
    fn drop(&mut self) {
        self.shared.operate(Operation::Release(self.id));
    }
}

/// A handle that does not keep its collection.
pub(crate) struct Weak<T: Keyed>(std::sync::Weak<Inner<T>>);

impl<T: Keyed> Weak<T> {
    /// The collection, if somebody has kept it.
    pub(crate) fn upgrade(&self) -> Option<Collection<T>> {
        self.0.upgrade().map(|inner| Collection { inner })
    }
}

/// What is counted of one collection since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Runs of the transformation or merge, superseded ones included.
    pub runs: u64,
    /// Runs whose result was not used, because they were the first to fetch a collection that was not up to date yet.
    pub superseded: u64,
    /// Runs that panicked.
    pub panics: u64,
    /// Keys that several inputs claimed, counted whenever one of them changed.
    pub conflicts: u64,
    /// Runs whose fetches would have closed a cycle.
    pub cycles: u64,
}

impl<T: Keyed> Collection<T> {
    /// Makes a collection and queues its node, over the nodes that it reads.
    ///
    /// # Panics
    ///
    /// If it is to depend on another engine's.
    pub(crate) fn add(
        shared: &Arc<Shared>,
        options: impl Into<Options>,
        sources: Vec<NodeId>,
        equal: Option<Equal<T>>,
        operator: impl FnOnce(Arc<Counters>) -> Box<dyn Operator<T>>,
    ) -> Self {
        let Options {
            name,
            metadata,
            declared,
        } = options.into();
        assert!(
            declared.iter().all(|other| Arc::ptr_eq(&other.shared, shared)),
            "collection {name} would depend on one of another Krt"
        );
        let counters = Arc::new(Counters::new(Arc::clone(&name)));
        let operator = operator(Arc::clone(&counters));
        let same = operator.same();
        let keys = operator.keys().cloned();
        let keys = keys.unwrap_or_else(|| Arc::new(KeyIds::new(&shared.hashing)));
        let published = Arc::new(Published::new(Arc::clone(&keys)));
        let node = Cell::new(keys, Arc::clone(&published), operator);
        let (id, uid) = shared.ingress.write(State::new_node);
        let status = Arc::new(Status::new(name, uid));
        let info = NodeInfo {
            status: Arc::clone(&status),
            sources,
            declared: declared.iter().map(|other| other.node).collect(),
        };
        shared.operate(Operation::Add(id, Box::new(node), info));
        Self {
            inner: Arc::new(Inner {
                shared: Arc::clone(shared),
                id,
                status,
                metadata,
                published,
                counters,
                equal,
                lookups: Mutex::default(),
                same,
                indexes: Mutex::default(),
            }),
        }
    }

    /// The collection's name.
    pub fn name(&self) -> &str {
        &self.inner.status.name
    }

    /// The value of this type that was [attached](Options::metadata) to the collection when it was made.
    pub fn metadata<M: Send + Sync + 'static>(&self) -> Option<&M> {
        self.inner.metadata.get()
    }

    /// The object with this key.
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>> {
        self.get_at(key.into(), At::Newest)
    }

    pub(crate) fn get_at(&self, key: KeyRef<'_>, at: At) -> Option<Arc<T>> {
        let hash = self.inner.shared.hashing.key(key);
        self.inner.published.get(hash, key, at)
    }

    /// All objects, in no order.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.inner.published.values()
    }

    pub(crate) fn list_at(&self, at: At) -> Vec<(Arc<str>, Arc<T>)> {
        self.inner.published.list(at)
    }

    /// Objects with their keys, all those that have a value of an index among them. `None` if the index is not kept for lookups yet, which
    /// it is from the next epoch on.
    pub(crate) fn lookup_at(&self, index: u32, value: u32, at: At) -> Option<Vec<(Arc<str>, Arc<T>)>> {
        let found = self.inner.published.lookup(index, value, at);
        if found.is_none() && self.inner.lookups.lock().insert(index) {
            let edit = move |cell: &mut dyn Any, _: &mut Edit<'_>| {
                if let Some(cell) = cell.downcast_mut::<Cell<T>>() {
                    cell.add_lookup(index);
                }
            };
            self.inner
                .shared
                .operate(Operation::Edit(self.inner.id, Box::new(edit)));
        }
        found
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.inner.published.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the initial state is there: that of the sources, and of everything that is computed from it. Once true, it stays
    /// so. A collection that was stopped before counts as synced with what it has.
    pub fn has_synced(&self) -> bool {
        self.inner.published.is_synced()
    }

    /// Waits for [`has_synced`](Self::has_synced); for ever, if the engine ends before.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when it is dropped.
    pub fn synced(&self) -> impl Future<Output = ()> + Send + Unpin + use<T> {
        let published = Arc::clone(&self.inner.published);
        Arc::clone(&self.inner.shared.progress).until(move || published.is_synced())
    }

    /// Blocks until [`synced`](Self::synced), for programs without an async runtime.
    ///
    /// # Errors
    ///
    /// [`Error::InsideEngine`] in a transformation or handler, which would wait for itself; [`Error::NotSynced`], with what it waits for, if
    /// the time is up or the engine has ended.
    pub fn wait_synced_blocking(&self, timeout: Duration) -> Result<(), Error> {
        if inside::is_inside() {
            return Err(Error::InsideEngine);
        }
        let shared = self.shared();
        let is_over = || self.has_synced() || shared.applied().ended;
        shared.progress.block_until(timeout, is_over);
        if self.has_synced() {
            return Ok(());
        }
        Err(Error::NotSynced {
            collection: self.name().to_owned(),
            timeout,
            waits: self.explain_unsynced(),
        })
    }

    /// What this collection waits for, first itself, then everything that it waits for and why that waits, each once. Empty if it
    /// is synced and none of its inputs waits. It is as of the end of the last epoch, and does not wait for the engine.
    pub fn explain_unsynced(&self) -> Vec<Unsynced> {
        unsynced::explain(&self.inner.status, self.shared().applied().ended)
    }

    /// What is wrong with this collection at present: an [`Error::Cycle`] for each cycle that fetches of its inputs would close.
    ///
    /// # Guarantees
    ///
    /// An error is there from the epoch on in which it came about, until the one in which it is no more. [`Krt::settled`](crate::Krt::settled)
    /// waits for either.
    pub fn errors(&self) -> Vec<Error> {
        self.inner.status.errors()
    }

    /// A query of all objects, to be narrowed and fetched.
    pub fn query(&self) -> Query<'_, T> {
        Query::new(self)
    }

    /// A collection with a projection of each object, under the same key. It is [`Krt::collection`](crate::Krt::collection)
    /// for functions that fetch nothing.
    ///
    /// # Guarantees
    ///
    /// An object whose projection is equal to the one before is no change. If the function panics, or its result has another key,
    /// the last projection stays.
    #[expect(clippy::missing_panics_doc, reason = "the panic is the engine's to contain")]
    pub fn map<O: Keyed + PartialEq>(
        &self,
        name: impl Into<Options>,
        f: impl Fn(&T) -> O + Send + Sync + 'static,
    ) -> Collection<O> {
        let f = move |_: &mut Context<'_>, input: &Arc<T>, outputs: &mut Outputs<O>| {
            let output = f(input);
            assert!(
                output.key() == input.key(),
                "a projection changed the key to {}",
                output.key()
            );
            outputs.push(Arc::new(output));
        };
        crate::krt::derive(self.shared(), name, Input::Collection(self.clone()), O::eq, f)
    }

    /// Calls a function with each change, the present state first: every object is `Added` then.
    ///
    /// # Guarantees
    ///
    /// As [`on_batch`](Self::on_batch); the events of a batch come in no order.
    pub fn on_change(&self, call: impl FnMut(&Event<T>) + Send + 'static) -> Registration {
        self.handler().on_change(call)
    }

    /// Calls a function with the changes of each epoch, the present state first.
    ///
    /// # Guarantees
    ///
    /// Batches come one at a time and in order. Each event's old object is the one that this handler was told last for its key. A
    /// handler that lags gets several epochs as one batch, which leads to the same state. It delays nobody else. A panic is
    /// logged, and the batch counts as handled.
    pub fn on_batch(&self, call: impl FnMut(&Batch<T>) + Send + 'static) -> Registration {
        self.handler().on_batch(call)
    }

    /// The changes of each epoch as a stream, the present state first.
    ///
    /// # Guarantees
    ///
    /// See [`Subscription`]. [`Krt::settled`](crate::Krt::settled) waits until everything is in the stream, and not for whoever polls it.
    pub fn subscribe(&self) -> Subscription<T> {
        self.handler().subscribe()
    }

    /// A handler with options.
    pub fn handler(&self) -> HandlerBuilder<T> {
        HandlerBuilder::new(self)
    }

    /// An index by the values that a function names for an object.
    ///
    /// # Errors
    ///
    /// [`Error::IndexExists`] if there is one of this name.
    #[track_caller]
    pub fn index<K, V>(
        &self,
        name: &str,
        values: impl Fn(&T) -> V + Send + Sync + 'static,
    ) -> Result<Index<K, T>, Error>
    where
        K: Eq + Hash + Clone + Send + Sync + 'static,
        V: IntoIterator<Item = K>,
    {
        self.index_into(name, move |object, keys| {
            values(object).into_iter().for_each(|value| keys.push(value));
        })
    }

    /// An index by the one value that a function names for an object.
    ///
    /// # Errors
    ///
    /// [`Error::IndexExists`] if there is one of this name.
    #[track_caller]
    pub fn index_by<K>(&self, name: &str, value: impl Fn(&T) -> K + Send + Sync + 'static) -> Result<Index<K, T>, Error>
    where
        K: Eq + Hash + Clone + Send + Sync + 'static,
    {
        self.index_into(name, move |object, keys| keys.push(value(object)))
    }

    /// An index by the values that a function hands over one by one; those that it only has borrowed cost no allocation, unless they
    /// are new to the index.
    ///
    /// ```
    /// # use krt::{Krt, Text};
    /// # let krt = Krt::builder("test").build();
    /// let texts = krt.static_collection("texts", [Text::from("two words")]);
    /// let by_word = texts.index_into::<String>("words", |text, keys| {
    ///     text.0.split(' ').for_each(|word| keys.push_ref(word));
    /// })?;
    /// # Ok::<_, krt::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::IndexExists`] if there is one of this name.
    #[track_caller]
    pub fn index_into<K>(
        &self,
        name: &str,
        values: impl Fn(&T, &mut Keys<'_, K>) + Send + Sync + 'static,
    ) -> Result<Index<K, T>, Error>
    where
        K: Eq + Hash + Clone + Send + Sync + 'static,
    {
        Index::new(self, name, Arc::new(values))
    }

    /// Reserves a name; the operation that adds the index gets its number.
    pub(crate) fn add_index(
        &self,
        name: &str,
        place: &'static Location<'static>,
        add: impl FnOnce(u32) -> Operation,
    ) -> Result<u32, Error> {
        let number = {
            let mut indexes = self.inner.indexes.lock();
            if let Some(first) = indexes.get(name) {
                return Err(Error::IndexExists {
                    collection: self.name().to_owned(),
                    index: name.to_owned(),
                    first,
                    second: place,
                });
            }
            let number = crate::engine::id::id32(indexes.len());
            indexes.insert(name.to_owned(), place);
            number
        };
        self.inner.shared.operate(add(number));
        Ok(number)
    }

    /// Freezes the collection: its inputs, indexes and handlers are freed, what it has stays readable while there is a handle. Nobody is
    /// told that anything was deleted. What was written to a source before still counts.
    pub fn stop(&self) {
        let stopped = self.inner.shared.ingress.write(|state| state.stop(self.inner.id));
        panics::drop_each([stopped]);
    }

    /// Whether the collection was [stopped](Self::stop). If it was not synced then, it has only what had come until then.
    pub fn is_stopped(&self) -> bool {
        self.inner.status.is_stopped()
    }

    /// What is counted of this collection.
    pub fn stats(&self) -> Stats {
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.inner.counters;
        Stats {
            runs: read(&counters.runs),
            superseded: read(&counters.superseded),
            panics: read(&counters.panics),
            conflicts: read(&counters.conflicts),
            cycles: read(&counters.cycles),
        }
    }

    pub(crate) fn id(&self) -> NodeId {
        self.inner.id
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    /// How its values are compared for those who are told of them.
    pub(crate) fn compare(&self) -> Compare<T> {
        Compare {
            equal: self.inner.equal,
            same: self.inner.same,
        }
    }

    /// A handle that keeps nothing alive.
    pub(crate) fn downgrade(&self) -> Weak<T> {
        Weak(Arc::downgrade(&self.inner))
    }

    pub(crate) fn is_of(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.inner.shared, shared)
    }

    /// How many old versions are kept for pins.
    #[cfg(test)]
    pub(crate) fn retained(&self) -> usize {
        self.inner.published.retained()
    }

    /// Of how many values it is known for pins since when they are there.
    #[cfg(test)]
    pub(crate) fn dated(&self) -> usize {
        self.inner.published.dated()
    }
}

impl<T: Keyed> Clone for Collection<T> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<T: Keyed> PartialEq for Collection<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl<T: Keyed> Eq for Collection<T> {}

impl<T: Keyed> fmt::Debug for Collection<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collection")
            .field("name", &self.inner.status.name)
            .field("uid", &self.inner.status.uid)
            .field("len", &self.len())
            .field("synced", &self.has_synced())
            .finish_non_exhaustive()
    }
}
