//! A query as it is kept in a dependency: it owns its filters, can be compared with a query that is asked again, and says
//! whether an object matches.

use std::any::{Any, TypeId};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::key::{Hashing, KeyRef};
use crate::query::{EmptySelector, Filter, Mode};
use crate::selector::{self, LabelCut, SelectorRef};
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
    Selecting(LabelCut, EmptySelector, fn(&T) -> SelectorRef<'_>),
    Index(IndexAt<T>),
    Where(Closure<T>),
}

impl<T> Clone for IndexAt<T> {
    fn clone(&self) -> Self {
        Self {
            number: self.number,
            id: self.id,
            value: Arc::clone(&self.value),
        }
    }
}

impl<T> Clone for Closure<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Unique(filter) => Self::Unique(Arc::clone(filter)),
            Self::Shared(shared) => Self::Shared(SharedClosure {
                code: shared.code,
                bound: Arc::clone(&shared.bound),
            }),
        }
    }
}

impl<T> Clone for Condition<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Keys(keys) => Self::Keys(keys.clone()),
            Self::Name(name, read) => Self::Name(name.clone(), *read),
            Self::Namespace(namespace, read) => Self::Namespace(namespace.clone(), *read),
            Self::Labels(labels, read) => Self::Labels(labels.clone(), *read),
            Self::Selecting(labels, empty, read) => Self::Selecting(labels.clone(), *empty, *read),
            Self::Index(at) => Self::Index(at.clone()),
            Self::Where(closure) => Self::Where(closure.clone()),
        }
    }
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
                empty == others && other.is(own)
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
            Self::Selecting(labels, empty, read) => Condition::Selecting(LabelCut::whole(labels), empty, read),
            Self::Index(at) => Condition::Index(at),
            Self::Where(closure) => Condition::Where(closure),
        }
    }
}

/// What a query's first selecting filter asks with, and how selectors are read. The engine cuts these labels to what
/// matters of them, and compares them itself.
pub(crate) fn selects_by<'q, T>(filters: &[Filter<'q, T>]) -> Option<(&'q Labels, ReadSelector<T>)> {
    filters.iter().find_map(|filter| match filter {
        Filter::Selecting(labels, _, read) => Some((*labels, *read)),
        _ => None,
    })
}

/// How an object lends its selector.
pub(crate) type ReadSelector<T> = fn(&T) -> SelectorRef<'_>;

/// The hash of a query, but for the labels that its first selecting filter asks with, so that equal queries have equal ones.
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
    let mut is_cut = true;
    for filter in filters {
        match filter {
            Filter::Selecting(_, empty, _) if std::mem::take(&mut is_cut) => {
                hasher.write_u8(9 + u8::from(*empty == EmptySelector::SelectsNone));
            }
            filter => filter.hash(hashing, hasher),
        }
    }
}

impl<T: 'static> Condition<T> {
    /// Whether an object matches, without the engine's knowledge of it.
    fn matches(&self, has_key: impl Fn(&[Arc<str>]) -> bool, object: &T) -> bool {
        match self {
            Self::Keys(keys) => has_key(keys),
            Self::Name(name, read) | Self::Namespace(name, read) => read(object) == &**name,
            Self::Labels(labels, read) => labels.is_empty() || selector::contains(read(object), labels),
            Self::Selecting(labels, empty, read) => {
                let selector = read(object);
                selector.admits(labels) && (*empty == EmptySelector::SelectsAll || !selector.is_empty())
            }
            Self::Index(at) => at.value.is_of(object),
            Self::Where(Closure::Unique(filter)) => filter(object),
            Self::Where(Closure::Shared(filter)) => filter.bound.matches(object),
        }
    }

    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Keys(own), Self::Keys(other)) => own == other,
            (Self::Name(own, _), Self::Name(other, _)) | (Self::Namespace(own, _), Self::Namespace(other, _)) => {
                own == other
            }
            (Self::Labels(own, _), Self::Labels(other, _)) => own == other,
            (Self::Selecting(own, empty, _), Self::Selecting(other, others, _)) => empty == others && own == other,
            (Self::Index(own), Self::Index(other)) => own.number == other.number && own.id == other.id,
            (Self::Where(Closure::Unique(own)), Self::Where(Closure::Unique(other))) => Arc::ptr_eq(own, other),
            (Self::Where(Closure::Shared(own)), Self::Where(Closure::Shared(other))) => {
                own.code == other.code && own.bound.has_environment(other.bound.environment())
            }
            _ => false,
        }
    }

    fn is_closure(&self) -> bool {
        matches!(self, Self::Where(_))
    }
}

impl<T: 'static> Spec<T> {
    /// A query as it is kept: of the labels that its first selecting filter asks with, the cut.
    pub(crate) fn new(filters: SmallVec<[Filter<'_, T>; 2]>, mode: Mode<T>, cut: LabelCut) -> Self {
        let mut cut = Some(cut);
        let conditions = filters.into_iter().map(|filter| match filter {
            Filter::Selecting(labels, empty, read) => {
                let cut = cut.take().unwrap_or_else(|| LabelCut::whole(labels));
                Condition::Selecting(cut, empty, read)
            }
            other => other.into_condition(),
        });
        Self {
            conditions: conditions.collect(),
            mode,
        }
    }

    /// The same query with another cut.
    pub(crate) fn with_cut(&self, cut: LabelCut) -> Self {
        let mut cut = Some(cut);
        let conditions = self.conditions.iter().map(|condition| match condition {
            Condition::Selecting(own, empty, read) => {
                Condition::Selecting(cut.take().unwrap_or_else(|| own.clone()), *empty, *read)
            }
            other => other.clone(),
        });
        Self {
            conditions: conditions.collect(),
            mode: self.mode.clone(),
        }
    }

    /// Whether a query, asked again, is this one, but for the labels that its first selecting filter asks with.
    pub(crate) fn is(&self, filters: &[Filter<'_, T>], mode: &Mode<T>) -> bool {
        let mut is_cut = true;
        let mut same = |(filter, own): (&Filter<'_, T>, &Condition<T>)| match (filter, own) {
            (Filter::Selecting(_, empty, _), Condition::Selecting(_, other, _)) if std::mem::take(&mut is_cut) => {
                empty == other
            }
            (filter, own) => filter.is(own),
        };
        self.mode.is(mode)
            && self.conditions.len() == filters.len()
            && filters.iter().zip(&self.conditions).all(&mut same)
    }

    /// Reads something of each condition, for nothing but to have it near.
    pub(crate) fn peek(&self) -> usize {
        let peeked = self.conditions.iter().map(|condition| match condition {
            Condition::Name(text, _) | Condition::Namespace(text, _) => text.len(),
            Condition::Index(at) => at.id as usize,
            _ => 0,
        });
        peeked.fold(0, |seen, one| seen ^ one)
    }

    /// Whether another query differs at most in the cut.
    pub(crate) fn is_twin(&self, other: &Self) -> bool {
        let mut is_cut = true;
        let mut same = |(own, other): (&Condition<T>, &Condition<T>)| match (own, other) {
            (Condition::Selecting(_, own, _), Condition::Selecting(_, other, _)) if std::mem::take(&mut is_cut) => {
                own == other
            }
            (own, other) => own.is(other),
        };
        self.mode.is(&other.mode)
            && self.conditions.len() == other.conditions.len()
            && self.conditions.iter().zip(&other.conditions).all(&mut same)
    }

    /// Whether an object matches; `has_key` tells whether its key is one of some, and `has_value` whether it has a value of an index. Closures
    /// are asked last, and only about objects that everything else lets through.
    pub(crate) fn matches(
        &self,
        has_key: impl Fn(&[Arc<str>]) -> bool,
        object: &T,
        has_value: impl Fn(&IndexAt<T>) -> bool,
    ) -> bool {
        let (closures, others) = (
            self.conditions.iter().filter(|one| one.is_closure()),
            self.conditions.iter().filter(|one| !one.is_closure()),
        );
        others.chain(closures).all(|condition| match condition {
            Condition::Index(at) => has_value(at),
            other => other.matches(&has_key, object),
        })
    }
}
