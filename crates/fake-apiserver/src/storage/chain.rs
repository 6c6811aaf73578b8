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
    /// Absent for most keys, and then of the size of a pointer.
    older: Option<Box<Older<T>>>,
}

/// The versions before the newest.
#[derive(Debug)]
struct Older<T> {
    /// Invariant: ascending by revision, all below that of the newest version; not empty.
    versions: Vec<Version<T>>,
}

impl<T> Chain<T> {
    pub(super) fn new(version: Version<T>) -> Self {
        Self {
            newest: version,
            older: None,
        }
    }

    pub(super) fn push(&mut self, version: Version<T>) {
        let before = std::mem::replace(&mut self.newest, version);
        match &mut self.older {
            Some(older) => older.versions.push(before),
            None => self.older = Some(Box::new(Older { versions: vec![before] })),
        }
    }

    fn older(&self) -> &[Version<T>] {
        self.older.as_ref().map_or(&[], |older| &older.versions)
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
        let older = self.older();
        let end = older.partition_point(|version| version.rv <= rv);
        end.checked_sub(1).and_then(|last| older[last].versioned())
    }

    /// Drops what no reader at `oldest` or later sees. True if nothing is left.
    pub(super) fn trim(&mut self, oldest: Revision) -> bool {
        if self.newest.rv <= oldest {
            self.older = None;
            return self.newest.object.is_none();
        }
        let Some(older) = &mut self.older else { return false };
        let versions = &mut older.versions;
        let end = versions.partition_point(|version| version.rv <= oldest);
        let mut drop = end.saturating_sub(1);
        // A removal that everybody sees as "not there" needs no record.
        if end > 0 && versions[end - 1].object.is_none() {
            drop = end;
        }
        versions.drain(..drop);
        if versions.is_empty() {
            self.older = None;
        }
        false
    }

    /// Forgets the newest version. True if nothing is left.
    pub(super) fn pop(&mut self) -> bool {
        let Some(older) = &mut self.older else { return true };
        if let Some(before) = older.versions.pop() {
            self.newest = before;
        }
        if older.versions.is_empty() {
            self.older = None;
        }
        false
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.older().len() + 1
    }
}
