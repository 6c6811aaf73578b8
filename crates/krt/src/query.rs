//! A fetch as it is written down: a collection and the filters that narrow it.
//!
//! Which filters a type allows is decided when the program is compiled, by the traits of [`crate::traits`]. What a query becomes
//! once it is recorded as a dependency is the business of [`crate::spec`].

use std::any::TypeId;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use crate::collection::Collection;
use crate::key::KeyRef;
use crate::selector::SelectorRef;
use crate::spec::{Closure, IndexAt, SharedClosure};
use crate::traits::{Keyed, Labeled, Labels, Named, Namespaced, Selecting};

/// A collection narrowed by filters, to be fetched: `cx.fetch(services.query().labels(wanted))`.
///
/// Filters combine freely and all have to match. A query does nothing by itself, and costs no allocation unless it has a closure.
///
/// # What must not compile
///
/// A filter needs its trait. Here `Node` has no selector:
///
/// ```compile_fail,E0277
/// use krt::{Collection, Context, Fetched, KeyRef, Keyed, Labels};
/// struct Node(String);
/// impl Keyed for Node {
///     fn key(&self) -> KeyRef<'_> {
///         KeyRef::Plain(&self.0)
///     }
/// }
/// fn read(cx: &mut Context<'_>, nodes: &Collection<Node>, labels: &Labels) -> Fetched<Node> {
///     cx.fetch(nodes.query().selecting(labels))
/// }
/// ```
///
/// A shared closure gets what it depends on as its environment, and must not capture anything:
///
/// ```compile_fail,E0080
/// use krt::{Collection, Context, Fetched, Text};
/// fn read(cx: &mut Context<'_>, texts: &Collection<Text>, shortest: usize) -> Fetched<Text> {
///     cx.fetch(texts.query().where_with((), move |_, text| text.0.len() >= shortest))
/// }
/// fn main() {
///     let _: fn(&mut Context<'_>, &Collection<Text>, usize) -> Fetched<Text> = read;
/// }
/// ```
///
/// With the length as the environment it does compile:
///
/// ```
/// use krt::{Collection, Context, Fetched, Text};
/// fn read(cx: &mut Context<'_>, texts: &Collection<Text>, shortest: usize) -> Fetched<Text> {
///     cx.fetch(texts.query().where_with(shortest, |shortest, text| text.0.len() >= *shortest))
/// }
/// ```
#[must_use = "a query does nothing unless it is fetched"]
pub struct Query<'q, T: Keyed> {
    pub(crate) collection: &'q Collection<T>,
    pub(crate) filters: SmallVec<[Filter<'q, T>; 2]>,
}

/// One condition of a query, borrowed from where it was written.
pub(crate) enum Filter<'q, T> {
    Keys(SmallVec<[KeyRef<'q>; 1]>),
    Name(&'q str, fn(&T) -> &str),
    Namespace(&'q str, fn(&T) -> &str),
    Labels(&'q Labels, fn(&T) -> &Labels),
    Selecting(&'q Labels, EmptySelector, fn(&T) -> SelectorRef<'_>),
    Index(IndexAt<T>),
    Where(Closure<T>),
}

/// What an object with an empty selector is to a `selecting` filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EmptySelector {
    SelectsAll,
    SelectsNone,
}

impl<'q, T: Keyed> Query<'q, T> {
    pub(crate) fn new(collection: &'q Collection<T>) -> Self {
        Self {
            collection,
            filters: SmallVec::new(),
        }
    }

    pub(crate) fn with(mut self, filter: Filter<'q, T>) -> Self {
        self.filters.push(filter);
        self
    }

    /// Only the object with this key.
    pub fn key(self, key: impl Into<KeyRef<'q>>) -> Self {
        self.with(Filter::Keys(smallvec![key.into()]))
    }

    /// Only the objects with one of these keys.
    pub fn keys<K: Into<KeyRef<'q>>>(self, keys: impl IntoIterator<Item = K>) -> Self {
        let mut keys: SmallVec<[_; 1]> = keys.into_iter().map(Into::into).collect();
        keys.sort_unstable();
        keys.dedup();
        self.with(Filter::Keys(keys))
    }

    /// Only the objects with this name, in whichever namespace.
    pub fn name(self, name: &'q str) -> Self
    where
        T: Named,
    {
        self.with(Filter::Name(name, T::name))
    }

    /// Only the objects in this namespace.
    pub fn namespace(self, namespace: &'q str) -> Self
    where
        T: Namespaced,
    {
        self.with(Filter::Namespace(namespace, T::namespace))
    }

    /// Only the objects that have all of these labels; no labels are no condition.
    pub fn labels(self, labels: &'q Labels) -> Self
    where
        T: Labeled,
    {
        self.with(Filter::Labels(labels, T::labels))
    }

    /// Only the objects whose selector matches these labels. An empty selector matches all.
    pub fn selecting(self, labels: &'q Labels) -> Self
    where
        T: Selecting,
    {
        self.with(Filter::Selecting(labels, EmptySelector::SelectsAll, T::selector))
    }

    /// Only the objects whose selector has a condition and matches these labels: an empty selector matches nothing, as in services.
    pub fn selecting_non_empty(self, labels: &'q Labels) -> Self
    where
        T: Selecting,
    {
        self.with(Filter::Selecting(labels, EmptySelector::SelectsNone, T::selector))
    }

    /// Only the objects for which the closure says so, which must depend on nothing but the object and what it captures.
    ///
    /// Each input that fetches so has a dependency of its own, which is asked for each change that the other filters let
    /// through. Prefer the other filters, and [`where_with`](Self::where_with).
    pub fn where_(self, filter: impl Fn(&T) -> bool + Send + Sync + 'static) -> Self {
        self.with(Filter::Where(Closure::Unique(Arc::new(filter))))
    }

    /// Like [`where_`](Self::where_), but inputs that fetch with the same closure and equal environments share one
    /// dependency. The closure must not capture anything, which is checked when the program is compiled.
    pub fn where_with<E, F>(self, env: E, filter: F) -> Self
    where
        E: Eq + Hash + Send + Sync + 'static,
        F: Fn(&E, &T) -> bool + Copy + Send + Sync + 'static,
    {
        const {
            assert!(
                size_of::<F>() == 0,
                "a closure that captures something cannot be shared: move it into the environment"
            );
        }
        self.with(Filter::Where(Closure::Shared(SharedClosure::new(env, filter))))
    }
}

impl<T: Keyed> fmt::Debug for Query<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Query");
        shown.field("collection", &self.collection.name());
        for filter in &self.filters {
            match filter {
                Filter::Keys(keys) => shown.field("keys", keys),
                Filter::Name(name, _) => shown.field("name", name),
                Filter::Namespace(namespace, _) => shown.field("namespace", namespace),
                Filter::Labels(labels, _) => shown.field("labels", labels),
                Filter::Selecting(labels, EmptySelector::SelectsAll, _) => shown.field("selecting", labels),
                Filter::Selecting(labels, EmptySelector::SelectsNone, _) => shown.field("selecting_non_empty", labels),
                Filter::Index(at) => shown.field("index", &at.number),
                Filter::Where(_) => shown.field("where", &"closure"),
            };
        }
        shown.finish()
    }
}

/// What of the matching objects is asked for: what may change without anybody being told.
pub(crate) enum Mode<T> {
    /// The objects themselves.
    Objects,
    /// Whether there is any.
    Exists,
    /// A part of each object: the type that names the projection, and whether two objects differ in it.
    Projection(TypeId, Box<dyn Differ<T>>),
}

/// Whether two objects differ in what is asked for.
pub(crate) trait Differ<T>: Send + Sync {
    fn differ(&self, old: &T, new: &T) -> bool;
    fn boxed(&self) -> Box<dyn Differ<T>>;
}

impl<T, F: Fn(&T, &T) -> bool + Copy + Send + Sync + 'static> Differ<T> for F {
    fn differ(&self, old: &T, new: &T) -> bool {
        self(old, new)
    }

    fn boxed(&self) -> Box<dyn Differ<T>> {
        Box::new(*self)
    }
}

impl<T> Mode<T> {
    /// Whether the same is asked for.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Objects, Self::Objects) | (Self::Exists, Self::Exists) => true,
            (Self::Projection(own, _), Self::Projection(other, _)) => own == other,
            _ => false,
        }
    }
}

impl<T> Clone for Mode<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Objects => Self::Objects,
            Self::Exists => Self::Exists,
            Self::Projection(code, differ) => Self::Projection(*code, differ.boxed()),
        }
    }
}
