//! What a handler is told: one change of one object.

use std::fmt;
use std::sync::Arc;

use crate::key::ObjectKey;
use crate::object::Object;

/// One change of the cache, as a handler sees it.
///
/// # Guarantees
///
/// - Per key, events come in the order of the cache's states; folding a handler's events gives the cache.
/// - A delete followed by a create under one name (the uid differs) is `Deleted`, then `Added`, never `Updated`. (Where a
///   server gives no uids, as some aggregated ones, a delete that was not seen cannot be told from a change.)
/// - Objects are shared, never copied: the `Arc` of `Added` and `Updated` is the one that the cache holds or held. That of
///   `Deleted` is the last state that the server tells with the delete, which may be newer than what the cache held; if
///   that is not known (`stale`), it is the cache's.
///
/// Not promised: that every intermediate state is seen. The server itself skips states across a reconnect, and a
/// handler that lags far behind gets the net change per key.
pub enum Event<K> {
    /// The object is new to this handler.
    Added {
        /// The object.
        object: Arc<K>,
        /// Part of the state that the handler starts from, not a change after it: what was cached when it was registered or,
        /// if that was before the first list, what that list brings (with several namespaces, the first list of each). If
        /// the handler lags and the object changes before it is told, the newer object is told, as initial.
        initial: bool,
    },
    /// The object changed, or is told again by [a resync](crate::HandlerOptions::resync_every): then both are the same
    /// `Arc`.
    Updated {
        /// As the handler last saw it.
        old: Arc<K>,
        /// As it is now.
        new: Arc<K>,
    },
    /// The object is gone, or the selectors of the informer leave it out from now on.
    Deleted {
        /// The last known state.
        object: Arc<K>,
        /// The delete itself was not seen, only that the object is gone from a fresh list, or that another one has taken its
        /// name; or what the server told with the delete does not decode. The object may have changed after `object`.
        stale: bool,
    },
}

impl<K> Event<K> {
    /// The object that the event is about: the new state of an update, the last known state of a delete.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Event::Added { object, .. } | Event::Deleted { object, .. } | Event::Updated { new: object, .. } => object,
        }
    }

    /// The state before: what the handler was last told for `Updated`, the last known state for `Deleted`.
    pub fn old(&self) -> Option<&Arc<K>> {
        match self {
            Event::Updated { old, .. } => Some(old),
            Event::Deleted { object, .. } => Some(object),
            Event::Added { .. } => None,
        }
    }

    /// Whether this is an `Updated` that tells no change: [a resync](crate::HandlerOptions::resync_every).
    pub fn is_resync(&self) -> bool {
        matches!(self, Event::Updated { old, new } if Arc::ptr_eq(old, new))
    }

    /// Whether this is an `Added` of the initial state.
    pub fn is_initial(&self) -> bool {
        matches!(self, Event::Added { initial: true, .. })
    }
}

impl<K: Object> Event<K> {
    /// The key of the object.
    pub fn key(&self) -> ObjectKey {
        self.object().metadata().key()
    }
}

impl<K> Clone for Event<K> {
    fn clone(&self) -> Self {
        match self {
            Event::Added { object, initial } => Event::Added {
                object: Arc::clone(object),
                initial: *initial,
            },
            Event::Updated { old, new } => Event::Updated {
                old: Arc::clone(old),
                new: Arc::clone(new),
            },
            Event::Deleted { object, stale } => Event::Deleted {
                object: Arc::clone(object),
                stale: *stale,
            },
        }
    }
}

/// Prints the kind of change and the key: whole objects would drown a log.
impl<K: Object> fmt::Debug for Event<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.object().metadata().key_ref();
        match self {
            Event::Added { initial, .. } => write!(f, "Added({key}, initial: {initial})"),
            Event::Updated { .. } => write!(f, "Updated({key})"),
            Event::Deleted { stale, .. } => write!(f, "Deleted({key}, stale: {stale})"),
        }
    }
}
