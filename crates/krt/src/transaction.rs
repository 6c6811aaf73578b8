//! Writes to several sources as one: gathered while the user's code runs, and handed to the engine together.
//!
//! # Design
//!
//! No lock is held while the program says what it wants to write. What is to be deleted by a condition is only known from the
//! content, so the condition is asked about the content as it was at some moment, with the transaction's own earlier writes, also
//! without a lock; the writes are made only if nobody else wrote to that source since, and else it is asked again.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::engine::id::NodeId;
use crate::engine::ingress::State;
use crate::engine::operator::source::{SourceBuffer, Touch};
use crate::engine::panics;
use crate::engine::planted::{self, Bug};
use crate::key::{Key, KeyRef};
use crate::krt::Krt;
use crate::shared::Shared;
use crate::singleton::StaticSingleton;
use crate::statics::StaticCollection;
use crate::traits::{Keyed, Text};
use crate::trigger::Trigger;

/// What is to be written to several sources at once. Made by [`Krt::transaction`].
pub struct Transaction<'env> {
    shared: Arc<Shared>,
    writes: Vec<Box<dyn Pending + 'env>>,
}

impl Krt {
    /// Writes to several sources at once: what the function asks for takes effect when it has returned, as a whole.
    ///
    /// ```
    /// use krt::testing::Stepper;
    /// use krt::{Krt, Text};
    ///
    /// let krt = Krt::builder("test").build();
    /// let mut stepper = Stepper::new(&krt)?;
    /// let left = krt.static_collection("left", [Text::from("a")]);
    /// let right = krt.static_collection::<Text>("right", []);
    /// stepper.settle();
    ///
    /// // Nobody ever sees `a` on both sides, or on none.
    /// krt.transaction(|t| {
    ///     t.delete(&left, "a");
    ///     t.update(&right, Text::from("a"));
    /// });
    /// stepper.settle();
    /// assert!(left.is_empty() && right.get("a").is_some());
    /// # Ok::<_, krt::Error>(())
    /// ```
    ///
    /// # Guarantees
    ///
    /// All writes are of one epoch: no handler, snapshot or transformation sees some of them without the others. They take effect in
    /// the order in which they were asked for, and together come before or after each other write of the program. The function runs
    /// without locks, so it may write outside of the transaction as well; what it reads from collections does not show its writes.
    ///
    /// # Panics
    ///
    /// If the function panics, or a collection belongs to another engine, or a key is empty. Then nothing is written.
    pub fn transaction<'env, R>(&self, f: impl FnOnce(&mut Transaction<'env>) -> R) -> R {
        let mut transaction = Transaction {
            shared: Arc::clone(self.shared()),
            writes: Vec::new(),
        };
        let result = f(&mut transaction);
        commit(self.shared(), transaction.writes);
        result
    }
}

impl<'env> Transaction<'env> {
    fn add<T: Keyed>(&mut self, source: &StaticCollection<T>, write: Write<'env, T>) {
        assert!(
            source.is_of(&self.shared),
            "collection {} belongs to another Krt than this transaction",
            source.name()
        );
        self.writes.push(Box::new(Writing::new(source, write)));
    }

    /// Sets an object, as [`StaticCollection::update`].
    ///
    /// # Panics
    ///
    /// If the key is empty.
    pub fn update<T: Keyed>(&mut self, source: &StaticCollection<T>, item: impl Into<Arc<T>>) {
        self.set_item(source, item.into(), Touch::Always);
    }

    /// Sets an object, as [`StaticCollection::conditional_update`].
    ///
    /// # Panics
    ///
    /// If the key is empty.
    pub fn conditional_update<T: Keyed>(&mut self, source: &StaticCollection<T>, item: impl Into<Arc<T>>) {
        self.set_item(source, item.into(), Touch::IfDifferent);
    }

    fn set_item<T: Keyed>(&mut self, source: &StaticCollection<T>, item: Arc<T>, touch: Touch) {
        let key = source.key(&item);
        self.add(source, Write::Set(key, Some(item), touch));
    }

    /// Deletes the object with this key.
    pub fn delete<'k, T: Keyed>(&mut self, source: &StaticCollection<T>, key: impl Into<KeyRef<'k>>) {
        let key = self.shared.hashing.keep(key.into());
        self.add(source, Write::Delete(key));
    }

    /// Deletes the objects for which the function says so. It is asked when the transaction is complete, about everything that was written
    /// before, in this transaction too; and again if the source is written to meanwhile.
    pub fn delete_where<T: Keyed>(&mut self, source: &StaticCollection<T>, matches: impl Fn(&T) -> bool + 'env) {
        self.add(source, Write::delete_where(matches));
    }

    /// Makes the content exactly this, as [`StaticCollection::reset`].
    ///
    /// # Panics
    ///
    /// If a key is empty.
    pub fn reset<T: Keyed>(&mut self, source: &StaticCollection<T>, items: impl IntoIterator<Item = T>) {
        let items = items.into_iter().map(|item| (source.key(&item), Arc::new(item)));
        self.add(source, Write::Reset(items.collect()));
    }

    /// Sets a value, as [`StaticSingleton::set`].
    ///
    /// # Panics
    ///
    /// If the key is empty.
    pub fn set<T: Keyed>(&mut self, singleton: &StaticSingleton<T>, value: impl Into<Option<T>>) {
        self.reset(singleton.source(), value.into());
    }

    /// Has the dependants of a trigger run again, as [`Trigger::fire`].
    pub fn fire(&mut self, trigger: &Trigger) {
        let source = trigger.source();
        self.update(source, Text::from(source.name()));
    }

    /// The initial content of a source is complete, as [`StaticCollection::mark_synced`].
    pub fn mark_synced<T: Keyed>(&mut self, source: &StaticCollection<T>) {
        self.add(source, Write::MarkSynced);
    }
}

/// One write to one source.
pub(crate) enum Write<'env, T> {
    /// Invariant: `Some` until it is applied.
    Set(Key, Option<Arc<T>>, Touch),
    Delete(Key),
    DeleteWhere {
        matches: Box<dyn Fn(&T) -> bool + 'env>,
        /// What was found to match.
        found: Vec<Key>,
        /// The last write that was there when the content was read. `None` if it was read for an earlier write.
        version: Option<u64>,
    },
    Reset(Vec<(Key, Arc<T>)>),
    MarkSynced,
}

impl<'env, T> Write<'env, T> {
    pub(crate) fn delete_where(matches: impl Fn(&T) -> bool + 'env) -> Self {
        Self::DeleteWhere {
            matches: Box::new(matches),
            found: Vec::new(),
            version: None,
        }
    }
}

/// A write with its type erased.
pub(crate) trait Pending {
    fn source(&self) -> NodeId;
    /// The latest content of the source, if this is a write that has to know it.
    fn read(&mut self) -> Option<Box<dyn Any>>;
    /// Does to the content what it will do to the source. The user's code is called for that.
    fn preview(&mut self, content: &mut dyn Any);
    /// Whether the content is still what was read.
    fn is_current(&self, state: &mut State) -> bool;
    /// Writes. The ingress is locked, so nothing of the user's is dropped.
    fn apply(&mut self, state: &mut State);
    /// Drops what is left, each value by itself.
    fn discard(self: Box<Self>);
}

/// The content of a source while writes are tried out.
type Content<T> = BTreeMap<Arc<str>, (Key, Arc<T>)>;

pub(crate) struct Writing<'env, T: Keyed> {
    source: StaticCollection<T>,
    write: Write<'env, T>,
    replaced: Vec<Arc<T>>,
}

impl<'env, T: Keyed> Writing<'env, T> {
    pub(crate) fn new(source: &StaticCollection<T>, write: Write<'env, T>) -> Self {
        Self {
            source: source.clone(),
            write,
            replaced: Vec::new(),
        }
    }
}

impl<T: Keyed> Pending for Writing<'_, T> {
    fn source(&self) -> NodeId {
        self.source.id()
    }

    fn read(&mut self) -> Option<Box<dyn Any>> {
        let Write::DeleteWhere { version, .. } = &mut self.write else {
            return None;
        };
        let id = self.source.id();
        let latest = self.source.shared().ingress.look(|state| {
            let buffer = state.buffer::<SourceBuffer<T>>(id)?;
            Some((buffer.version(), buffer.latest()))
        });
        let (read, items) = latest?;
        *version = Some(read);
        let content: Content<T> = items
            .into_iter()
            .map(|(key, item)| (Arc::clone(&key.text), (key, item)))
            .collect();
        Some(Box::new(content))
    }

    fn preview(&mut self, content: &mut dyn Any) {
        let Some(content) = content.downcast_mut::<Content<T>>() else {
            return;
        };
        let set = |content: &mut Content<T>, key: &Key, item: &Arc<T>| {
            content.insert(Arc::clone(&key.text), (key.clone(), Arc::clone(item)));
        };
        if planted::has(Bug::SplitTransaction) && !matches!(self.write, Write::DeleteWhere { .. }) {
            return;
        }
        match &mut self.write {
            Write::Set(key, item, _) => item.iter().for_each(|item| set(content, key, item)),
            Write::Delete(key) => {
                content.remove(&key.text);
            }
            Write::DeleteWhere { matches, found, .. } => {
                found.clear();
                found.extend(
                    content
                        .values()
                        .filter(|(_, item)| matches(item))
                        .map(|(key, _)| key.clone()),
                );
                for key in found {
                    content.remove(&key.text);
                }
            }
            Write::Reset(items) => {
                content.clear();
                for (key, item) in &*items {
                    set(content, key, item);
                }
            }
            Write::MarkSynced => {}
        }
    }

    fn is_current(&self, state: &mut State) -> bool {
        match &self.write {
            Write::DeleteWhere {
                version: Some(version), ..
            } => {
                let buffer = state.buffer::<SourceBuffer<T>>(self.source.id());
                buffer.is_none_or(|buffer| buffer.version() == *version)
            }
            _ => true,
        }
    }

    fn apply(&mut self, state: &mut State) {
        let Some(buffer) = state.source::<SourceBuffer<T>>(self.source.id()) else {
            return;
        };
        let replaced = &mut self.replaced;
        match &mut self.write {
            Write::Set(key, item, touch) => {
                if let Some(item) = item.take() {
                    replaced.extend(buffer.set(key, item, *touch));
                }
            }
            Write::Delete(key) => replaced.extend(buffer.delete(key.hash, KeyRef::Plain(&key.text))),
            Write::DeleteWhere { found, .. } => {
                replaced.extend(
                    found
                        .iter()
                        .filter_map(|key| buffer.delete(key.hash, KeyRef::Plain(&key.text))),
                );
            }
            Write::Reset(items) => {
                replaced.extend(buffer.clear());
                let items = items.drain(..);
                replaced.extend(items.filter_map(|(key, item)| buffer.set(&key, item, Touch::IfDifferent)));
            }
            Write::MarkSynced => buffer.mark_synced(),
        }
    }

    fn discard(self: Box<Self>) {
        let Self {
            source,
            write,
            replaced,
        } = *self;
        panics::drop_each(replaced);
        match write {
            Write::Set(_, item, _) => panics::drop_each(item),
            Write::Reset(items) => panics::drop_each(items),
            Write::DeleteWhere { matches, .. } => panics::drop_each([matches]),
            Write::Delete(_) | Write::MarkSynced => {}
        }
        drop(source);
    }
}

/// Makes all writes under one lock.
pub(crate) fn commit(shared: &Shared, mut writes: Vec<Box<dyn Pending + '_>>) {
    let mut written = writes.is_empty();
    while !written {
        let mut contents: BTreeMap<NodeId, Box<dyn Any>> = BTreeMap::new();
        for write in &mut writes {
            if !contents.contains_key(&write.source())
                && let Some(content) = write.read()
            {
                contents.insert(write.source(), content);
            }
        }
        for write in &mut writes {
            if let Some(content) = contents.get_mut(&write.source()) {
                write.preview(&mut **content);
            }
        }
        written = shared.ingress.write(|state| {
            let is_current = writes.iter().all(|write| write.is_current(state));
            if is_current {
                for write in &mut writes {
                    write.apply(state);
                }
            }
            is_current
        });
        panics::drop_each(contents.into_values());
    }
    writes.into_iter().for_each(Pending::discard);
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("engine", &self.shared.name)
            .field("writes", &self.writes.len())
            .finish_non_exhaustive()
    }
}
