//! The versions of one key, newest apart: nearly every key has one.

use std::sync::Arc;

use super::{Revision, Versioned};

/// One version; no object means that the key was removed at that revision.
#[derive(Debug)]
pub(super) struct Version<T> {
    pub(super) rv: Revision,
    pub(super) object: Option<Arc<T>>,
}

impl<T> Version<T> {
    fn versioned(&self) -> Option<Versioned<T>> {
        self.object.as_ref().map(|object| Versioned {
            rv: self.rv,
            object: Arc::clone(object),
        })
    }
}

/// The versions of one key.
#[derive(Debug)]
pub(super) struct Chain<T> {
    newest: Version<T>,
    /// Invariant: ascending by revision, all below `newest.rv`.
    older: Vec<Version<T>>,
}

impl<T> Chain<T> {
    pub(super) fn new(version: Version<T>) -> Self {
        Self {
            newest: version,
            older: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, version: Version<T>) {
        self.older.push(std::mem::replace(&mut self.newest, version));
    }

    pub(super) fn latest(&self) -> Option<Versioned<T>> {
        self.newest.versioned()
    }

    pub(super) fn is_live(&self) -> bool {
        self.newest.object.is_some()
    }

    /// The version that a reader at `rv` sees.
    pub(super) fn at(&self, rv: Revision) -> Option<Versioned<T>> {
        if self.newest.rv <= rv {
            return self.newest.versioned();
        }
        let end = self.older.partition_point(|version| version.rv <= rv);
        end.checked_sub(1).and_then(|last| self.older[last].versioned())
    }

    /// Drops what no reader at `oldest` or later sees. True if nothing is left.
    pub(super) fn trim(&mut self, oldest: Revision) -> bool {
        if self.newest.rv <= oldest {
            self.older = Vec::new();
            return self.newest.object.is_none();
        }
        let end = self.older.partition_point(|version| version.rv <= oldest);
        let mut drop = end.saturating_sub(1);
        // A removal that everybody sees as "not there" needs no record.
        if end > 0 && self.older[end - 1].object.is_none() {
            drop = end;
        }
        self.older.drain(..drop);
        false
    }

    /// Forgets the newest version. True if nothing is left.
    pub(super) fn pop(&mut self) -> bool {
        match self.older.pop() {
            Some(before) => {
                self.newest = before;
                false
            }
            None => true,
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.older.len() + 1
    }
}
