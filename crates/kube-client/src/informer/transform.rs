//! `Transform`: a change made to each object once, before it is cached.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use crate::informer::deferred::discard;
use crate::informer::index::FnIdentity;

/// A function that changes each object once as it is received, for example to drop fields that nobody reads.
///
/// It must not change name, namespace, uid or resourceVersion: such an object is reported as undecodable. So is one on
/// which it panics.
///
/// Two transforms are the same if one is a clone of the other, or if both functions are of one type that captures
/// nothing.
pub struct Transform<K> {
    inner: Arc<Definition<K>>,
}

struct Definition<K> {
    name: String,
    at: &'static Location<'static>,
    identity: FnIdentity,
    change: Box<dyn Fn(&mut K) + Send + Sync>,
}

/// The function is the user's, and dropped among others: a panic of its drop must not reach them.
impl<K> Drop for Definition<K> {
    fn drop(&mut self) {
        discard(std::mem::replace(&mut self.change, Box::new(|_| ())));
    }
}

impl<K> Transform<K> {
    /// Defines a transform.
    #[track_caller]
    pub fn new<F>(name: impl Into<String>, change: F) -> Self
    where
        F: Fn(&mut K) + Send + Sync + 'static,
    {
        Self {
            inner: Arc::new(Definition {
                name: name.into(),
                at: Location::caller(),
                identity: FnIdentity::of::<F>(),
                change: Box::new(change),
            }),
        }
    }

    /// The name, as errors show it.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    pub(crate) fn at(&self) -> &'static Location<'static> {
        self.inner.at
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner) || self.inner.identity.same(other.inner.identity)
    }

    pub(crate) fn apply(&self, object: &mut K) {
        (self.inner.change)(object);
    }
}

impl<K> Clone for Transform<K> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<K> fmt::Debug for Transform<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transform")
            .field("name", &self.inner.name)
            .field("at", &self.inner.at)
            .finish()
    }
}
