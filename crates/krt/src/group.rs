//! Groups: the objects of a collection by the values of one of its indexes, as a collection.

mod key;
pub(crate) mod members;

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;

use crate::collection::Collection;
use crate::engine::index::Value;
use crate::engine::operator::group::Grouping;
use crate::index::Index;
use crate::key::KeyRef;
use crate::traits::Keyed;
use members::Members;

pub use key::GroupKey;

/// The objects that have one value of an index. Made by [`Index::as_collection`].
///
/// # Guarantees
///
/// There is at least one, they are in the order of their keys (by bytes), and all of them are of one epoch. A group that is held does
/// not change; the next one shares the memory of what did not change.
pub struct Group<K, T> {
    key: Arc<str>,
    value: Arc<Value<K, T>>,
    members: Members<T>,
}

impl<K, T> Group<K, T> {
    pub(crate) fn new(key: Arc<str>, value: Arc<Value<K, T>>, members: Members<T>) -> Self {
        Self { key, value, members }
    }

    /// The value that all members have.
    pub fn value(&self) -> &K {
        &self.value.key
    }

    /// The members, in the order of their keys.
    pub fn members(&self) -> impl Iterator<Item = &Arc<T>> {
        self.members.iter()
    }

    /// The member with this key.
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<&Arc<T>> {
        match key.into() {
            KeyRef::Plain(text) => self.members.get(text),
            key @ KeyRef::Namespaced { .. } => self.members.get(&key.to_string()),
        }
    }

    /// How many members there are.
    #[expect(clippy::len_without_is_empty, reason = "a group without members is not there")]
    pub fn len(&self) -> usize {
        self.members.len()
    }
}

impl<K: Send + Sync + 'static, T: Keyed> Keyed for Group<K, T> {
    /// The value's [encoding](GroupKey::encode).
    fn key(&self) -> KeyRef<'_> {
        KeyRef::Plain(&self.key)
    }
}

impl<K, T> Clone for Group<K, T> {
    fn clone(&self) -> Self {
        Self {
            key: Arc::clone(&self.key),
            value: Arc::clone(&self.value),
            members: self.members.clone(),
        }
    }
}

impl<K, T: PartialEq> PartialEq for Group<K, T> {
    fn eq(&self, other: &Self) -> bool {
        // Equal keys are those of equal values.
        self.key == other.key && self.members == other.members
    }
}

impl<K: fmt::Debug, T> fmt::Debug for Group<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("value", self.value())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// The groups of an index. It is a cheap clone, and is read as the [`Collection`] that it derefs to.
pub struct Groups<K: Send + Sync + 'static, T: Keyed> {
    collection: Collection<Group<K, T>>,
}

impl<K: Eq + Hash + Clone + GroupKey + Send + Sync + 'static, T: Keyed + PartialEq> Index<K, T> {
    /// The objects by the values of this index: one [`Group`] for each value that any object has.
    ///
    /// ```
    /// use krt::testing::Stepper;
    /// use krt::{Krt, Text};
    ///
    /// let krt = Krt::builder("test").build();
    /// let mut stepper = Stepper::new(&krt)?;
    /// let names = krt.static_collection("names", ["bert", "anna", "alex"].map(Text::from));
    /// let groups = names.index_by("initial", |name| name.0.chars().next())?.as_collection("by initial");
    /// stepper.settle();
    /// let group = groups.get_by(&Some('a')).unwrap();
    /// assert_eq!(group.members().map(|name| &*name.0).collect::<Vec<_>>(), ["alex", "anna"]);
    /// # Ok::<_, krt::Error>(())
    /// ```
    ///
    /// # Guarantees
    ///
    /// A group is `Added` with its first member, `Updated` whenever a member comes, goes or changes, and `Deleted` with its last
    /// one; an epoch tells each of these at most once for a group. Nobody is told of groups of which nothing changed. An
    /// object that has several values is in several groups.
    pub fn as_collection(&self, name: impl Into<crate::Options>) -> Groups<K, T> {
        let input = self.collection().clone();
        let values = Arc::clone(self.values());
        let shared = Arc::clone(input.shared());
        let (sources, equal) = (vec![input.id()], Group::<K, T>::eq);
        let collection = Collection::add(&shared, name, sources, Some(equal), |counters| {
            Box::new(Grouping::new(input, values, counters))
        });
        Groups { collection }
    }
}

impl<K: Send + Sync + 'static, T: Keyed> Groups<K, T> {
    /// The group of a value.
    pub fn get_by<Q: GroupKey + ?Sized>(&self, value: &Q) -> Option<Arc<Group<K, T>>>
    where
        K: Borrow<Q>,
    {
        self.collection.get(&*value.encode())
    }
}

impl<K: Send + Sync + 'static, T: Keyed> Deref for Groups<K, T> {
    type Target = Collection<Group<K, T>>;

    fn deref(&self) -> &Self::Target {
        &self.collection
    }
}

impl<K: Send + Sync + 'static, T: Keyed> Clone for Groups<K, T> {
    fn clone(&self) -> Self {
        Self {
            collection: self.collection.clone(),
        }
    }
}

impl<K: Send + Sync + 'static, T: Keyed> fmt::Debug for Groups<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.collection.fmt(f)
    }
}
