//! A query as it is kept in a dependency: it owns its filters, can be compared with a query that is asked again, and says
//! whether an object matches.

use std::any::{Any, TypeId};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::key::{Hashing, KeyRef};
use crate::query::{EmptySelector, Filter, Mode};
use crate::selector::{self, SelectorRef};
use crate::traits::Labels;

/// A value of an index, as a condition.
pub(crate) struct IndexAt<T> {
    /// Which index of its collection.
    pub(crate) number: u32,
    /// Which value of the index. The id stays this value's as long as `value` is held.
    pub(crate) id: u32,
    pub(crate) value: Arc<dyn IndexValue<T>>,
}

/// What an index tells about one of its values outside of the engine, where objects have no ids.
pub(crate) trait IndexValue<T>: Send + Sync {
    /// Whether the index has this value for this object.
    fn is_of(&self, object: &T) -> bool;
}

/// A filter in the user's words.
pub(crate) enum Closure<T> {
    /// Cannot be compared with any other.
    Unique(Arc<dyn Fn(&T) -> bool + Send + Sync>),
    Shared(SharedClosure<T>),
}

/// A closure without captures and its environment: equal types and equal environments make equal filters.
pub(crate) struct SharedClosure<T> {
    code: TypeId,
    bound: Arc<dyn Bound<T>>,
}

trait Bound<T>: Send + Sync {
    fn matches(&self, object: &T) -> bool;
    fn environment(&self) -> &dyn Any;
    fn has_environment(&self, other: &dyn Any) -> bool;
    fn hash(&self, hasher: &mut dyn Hasher);
}

struct Env<E, F>(E, F);

impl<T, E, F> Bound<T> for Env<E, F>
where
    E: Eq + Hash + Send + Sync + 'static,
    F: Fn(&E, &T) -> bool + Send + Sync,
{
    fn matches(&self, object: &T) -> bool {
        (self.1)(&self.0, object)
    }

    fn environment(&self) -> &dyn Any {
        &self.0
    }

    fn has_environment(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<E>().is_some_and(|other| *other == self.0)
    }

    fn hash(&self, mut hasher: &mut dyn Hasher) {
        self.0.hash(&mut hasher);
    }
}

impl<T: 'static> SharedClosure<T> {
    pub(crate) fn new<E, F>(env: E, code: F) -> Self
    where
        E: Eq + Hash + Send + Sync + 'static,
        F: Fn(&E, &T) -> bool + Send + Sync + 'static,
    {
        Self {
            code: TypeId::of::<F>(),
            bound: Arc::new(Env(env, code)),
        }
    }
}

/// A query that a dependency keeps.
pub(crate) struct Spec<T> {
    pub(crate) conditions: SmallVec<[Condition<T>; 2]>,
    pub(crate) mode: Mode<T>,
}

/// A filter that owns what it compares with.
pub(crate) enum Condition<T> {
    Keys(SmallVec<[Arc<str>; 1]>),
    Name(Box<str>, fn(&T) -> &str),
    Namespace(Box<str>, fn(&T) -> &str),
    Labels(Labels, fn(&T) -> &Labels),
    Selecting(Labels, EmptySelector, fn(&T) -> SelectorRef<'_>),
    Index(IndexAt<T>),
    Where(Closure<T>),
}

fn hash_labels(labels: &Labels, hasher: &mut impl Hasher) {
    hasher.write_usize(labels.len());
    for (key, value) in labels {
        key.hash(hasher);
        value.hash(hasher);
    }
}

impl<T: 'static> Filter<'_, T> {
    fn hash(&self, hashing: &Hashing, mut hasher: &mut impl Hasher) {
        match self {
            Self::Keys(keys) => {
                hasher.write_u8(0);
                for key in keys {
                    hasher.write_u64(hashing.key(*key));
                }
            }
            Self::Name(name, _) => {
                hasher.write_u8(1);
                name.hash(hasher);
            }
            Self::Namespace(namespace, _) => {
                hasher.write_u8(2);
                namespace.hash(hasher);
            }
            Self::Labels(labels, _) => {
                hasher.write_u8(3);
                hash_labels(labels, hasher);
            }
            Self::Selecting(labels, empty, _) => {
                hasher.write_u8(4 + u8::from(*empty == EmptySelector::SelectsNone));
                hash_labels(labels, hasher);
            }
            Self::Index(at) => {
                hasher.write_u8(6);
                hasher.write_u64(u64::from(at.number) << 32 | u64::from(at.id));
            }
            Self::Where(Closure::Unique(_)) => hasher.write_u8(7),
            Self::Where(Closure::Shared(shared)) => {
                hasher.write_u8(8);
                shared.code.hash(hasher);
                shared.bound.hash(&mut hasher);
            }
        }
    }

    /// Whether this filter is the condition. The functions that read the object come with its type, so they need no look.
    fn is(&self, condition: &Condition<T>) -> bool {
        match (self, condition) {
            (Self::Keys(own), Condition::Keys(other)) => {
                own.len() == other.len() && own.iter().zip(other).all(|(own, other)| own.is(other))
            }
            (Self::Name(own, _), Condition::Name(other, _))
            | (Self::Namespace(own, _), Condition::Namespace(other, _)) => **own == **other,
            (Self::Labels(own, _), Condition::Labels(other, _)) => *own == other,
            (Self::Selecting(own, empty, _), Condition::Selecting(other, others, _)) => {
                empty == others && *own == other
            }
            (Self::Index(own), Condition::Index(other)) => own.number == other.number && own.id == other.id,
            (Self::Where(Closure::Shared(own)), Condition::Where(Closure::Shared(other))) => {
                own.code == other.code && own.bound.has_environment(other.bound.environment())
            }
            _ => false,
        }
    }

    pub(crate) fn into_condition(self) -> Condition<T> {
        match self {
            Self::Keys(keys) => Condition::Keys(keys.into_iter().map(KeyRef::to_arc).collect()),
            Self::Name(name, read) => Condition::Name(name.into(), read),
            Self::Namespace(namespace, read) => Condition::Namespace(namespace.into(), read),
            Self::Labels(labels, read) => Condition::Labels(labels.clone(), read),
            Self::Selecting(labels, empty, read) => Condition::Selecting(labels.clone(), empty, read),
            Self::Index(at) => Condition::Index(at),
            Self::Where(closure) => Condition::Where(closure),
        }
    }
}

/// The hash of a query, so that equal queries have equal ones.
pub(crate) fn hash_query<T: 'static>(
    filters: &[Filter<'_, T>],
    mode: &Mode<T>,
    hashing: &Hashing,
    hasher: &mut impl Hasher,
) {
    match mode {
        Mode::Objects => hasher.write_u8(0),
        Mode::Exists => hasher.write_u8(1),
        Mode::Projection(code, _) => {
            hasher.write_u8(2);
            code.hash(hasher);
        }
    }
    for filter in filters {
        filter.hash(hashing, hasher);
    }
}

impl<T: 'static> Condition<T> {
    /// Whether an object matches, without the engine's knowledge of it.
    fn matches(&self, key: &str, object: &T) -> bool {
        match self {
            Self::Keys(keys) => keys.iter().any(|one| **one == *key),
            Self::Name(name, read) | Self::Namespace(name, read) => read(object) == &**name,
            Self::Labels(labels, read) => labels.is_empty() || selector::contains(read(object), labels),
            Self::Selecting(labels, empty, read) => {
                let selector = read(object);
                selector.matches(labels) && (*empty == EmptySelector::SelectsAll || !selector.is_empty())
            }
            Self::Index(at) => at.value.is_of(object),
            Self::Where(Closure::Unique(filter)) => filter(object),
            Self::Where(Closure::Shared(filter)) => filter.bound.matches(object),
        }
    }

    fn is_closure(&self) -> bool {
        matches!(self, Self::Where(_))
    }
}

impl<T: 'static> Spec<T> {
    /// Whether a query, asked again, is this one.
    pub(crate) fn is(&self, filters: &[Filter<'_, T>], mode: &Mode<T>) -> bool {
        let same_mode = match (&self.mode, mode) {
            (Mode::Objects, Mode::Objects) | (Mode::Exists, Mode::Exists) => true,
            (Mode::Projection(own, _), Mode::Projection(other, _)) => own == other,
            _ => false,
        };
        same_mode
            && self.conditions.len() == filters.len()
            && filters.iter().zip(&self.conditions).all(|(filter, own)| filter.is(own))
    }

    /// Whether an object matches; `has_value` tells whether it has a value of an index. Closures are asked last, and only about objects that
    /// everything else lets through.
    pub(crate) fn matches(&self, key: &str, object: &T, has_value: impl Fn(&IndexAt<T>) -> bool) -> bool {
        let (closures, others) = (
            self.conditions.iter().filter(|one| one.is_closure()),
            self.conditions.iter().filter(|one| !one.is_closure()),
        );
        others.chain(closures).all(|condition| match condition {
            Condition::Index(at) => has_value(at),
            other => other.matches(key, object),
        })
    }
}
