//! What handlers are told.

use std::fmt;
use std::sync::Arc;

use crate::engine::panics;
use crate::engine::planted::{self, Bug};
use crate::engine::store::Equal;

/// What happened to one object.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<T> {
    /// It is new to this handler.
    Added(Arc<T>),
    /// It changed. `old` is what this handler was told last.
    Updated {
        /// The object before.
        old: Arc<T>,
        /// The object now.
        new: Arc<T>,
    },
    /// It is gone. The object is what this handler was told last.
    Deleted(Arc<T>),
}

impl<T> Event<T> {
    /// The change from one state to another; none if there is nothing in either.
    pub(crate) fn between(old: Option<Arc<T>>, new: Option<Arc<T>>) -> Option<Self> {
        Some(match (old, new) {
            (None, Some(new)) => Self::Added(new),
            (Some(old), Some(new)) => Self::Updated { old, new },
            (Some(old), None) => Self::Deleted(old),
            (None, None) => return None,
        })
    }

    /// The change from one state of a key to another, told as what happened to individuals: if `same` says that the two are not the same
    /// one, one goes and the other comes.
    pub(crate) fn apart(old: Option<Arc<T>>, new: Option<Arc<T>>, same: Equal<T>) -> impl Iterator<Item = Self> {
        let is_other = match (&old, &new) {
            (Some(old), Some(new)) if !planted::has(Bug::OneIndividual) => {
                !panics::contain(|| same(old, new)).unwrap_or(true)
            }
            _ => false,
        };
        let events = if is_other {
            [Self::between(old, None), Self::between(None, new)]
        } else {
            [Self::between(old, new), None]
        };
        events.into_iter().flatten()
    }

    /// The object as it was, if it was there.
    pub fn old(&self) -> Option<&Arc<T>> {
        match self {
            Self::Added(_) => None,
            Self::Updated { old, .. } | Self::Deleted(old) => Some(old),
        }
    }

    /// The object as it is, if it is still there.
    #[expect(clippy::new_ret_no_self, reason = "the pair of `old`, and no constructor")]
    pub fn new(&self) -> Option<&Arc<T>> {
        match self {
            Self::Added(new) | Self::Updated { new, .. } => Some(new),
            Self::Deleted(_) => None,
        }
    }

    /// The object as it is, or was if it is gone.
    pub fn latest(&self) -> &Arc<T> {
        match self {
            Self::Added(object) | Self::Updated { new: object, .. } | Self::Deleted(object) => object,
        }
    }
}

impl<T> Clone for Event<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Added(new) => Self::Added(Arc::clone(new)),
            Self::Updated { old, new } => Self::Updated {
                old: Arc::clone(old),
                new: Arc::clone(new),
            },
            Self::Deleted(old) => Self::Deleted(Arc::clone(old)),
        }
    }
}

/// The changes of one epoch, or of several that were merged because the handler is behind.
///
/// # Guarantees
///
/// One event for each key that differs between the state that the handler knew and the state of [`epoch`](Self::epoch); in a
/// collection of objects of the API server, two if another object (another uid) has taken the name: `Deleted`, then `Added`. All
/// handlers of a collection share the memory of a batch.
pub struct Batch<T> {
    pub(crate) epoch: u64,
    pub(crate) changes: Arc<Vec<Event<T>>>,
    /// Which of the changes were touches among others, when batches were merged: told even if a later change takes them back. Sorted.
    pub(crate) touched: Option<Arc<[usize]>>,
}

impl<T> Batch<T> {
    /// What happened in one epoch.
    pub(crate) fn new(epoch: u64, changes: Arc<Vec<Event<T>>>) -> Self {
        Self {
            epoch,
            changes,
            touched: None,
        }
    }

    /// The epoch whose state the handler knows after this batch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The events of each key that changed.
    pub fn events(&self) -> impl ExactSizeIterator<Item = &Event<T>> {
        self.changes.iter()
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

impl<T> Clone for Batch<T> {
    fn clone(&self) -> Self {
        Self {
            epoch: self.epoch,
            changes: Arc::clone(&self.changes),
            touched: self.touched.clone(),
        }
    }
}

/// Nothing, of no epoch.
impl<T> Default for Batch<T> {
    fn default() -> Self {
        Self {
            epoch: 0,
            changes: Arc::default(),
            touched: None,
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Batch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("epoch", &self.epoch)
            .field("events", &self.events().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
