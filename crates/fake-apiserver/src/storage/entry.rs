//! One event of the log, with its encoded forms.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::{ResourceId, Revision};

/// Names one encoded form of an event: what the watch event says, for which API version as it was defined when the watch
/// began, in which representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Encoding {
    /// The API version of the watch.
    pub(crate) api_version: Arc<str>,
    /// Which definition of the resource the watch shows objects by.
    pub(crate) definition: u64,
    /// Event type and representation, as one number.
    pub(crate) form: u8,
    /// The second in which it is shown, where that makes a difference.
    pub(crate) at: i64,
}

impl Encoding {
    /// Whether the two are the same but for the time.
    fn is_form_of(&self, other: &Self) -> bool {
        self.form == other.form && self.definition == other.definition && self.api_version == other.api_version
    }
}

/// One commit.
#[derive(Debug)]
pub(crate) struct Entry<T> {
    /// The revision of the commit.
    pub(crate) rv: Revision,
    /// The collection that changed.
    pub(crate) resource: ResourceId,
    /// The key that changed.
    pub(crate) key: Arc<str>,
    /// The state before: a selector needs it to see what leaves.
    pub(crate) prev: Option<Arc<T>>,
    /// The state after; none for a removal.
    pub(crate) cur: Option<Arc<T>>,
    /// Invariant: at most one value per form, each what any watch of that encoding sends.
    encodings: Mutex<Vec<(Encoding, Bytes)>>,
}

impl<T> Entry<T> {
    pub(super) fn new(
        rv: Revision,
        resource: ResourceId,
        key: Arc<str>,
        prev: Option<Arc<T>>,
        cur: Option<Arc<T>>,
    ) -> Self {
        Self {
            rv,
            resource,
            key,
            prev,
            cur,
            encodings: Mutex::new(Vec::new()),
        }
    }

    /// The event in one encoding, encoded by the first watch that asks and shared with all others.
    pub(crate) fn encoded(&self, encoding: &Encoding, encode: impl FnOnce(&Self) -> Bytes) -> Bytes {
        let find = |known: &Vec<(Encoding, Bytes)>| {
            known
                .iter()
                .find(|(candidate, _)| candidate == encoding)
                .map(|(_, bytes)| bytes.clone())
        };
        if let Some(bytes) = find(&self.encodings.lock().unwrap_or_else(PoisonError::into_inner)) {
            return bytes;
        }
        // Encoded without the lock: two watches may both do it, one result stays.
        let fresh = encode(self);
        let mut known = self.encodings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = find(&known) {
            return bytes;
        }
        // What was shown at another time is of use to nobody any more.
        known.retain(|(candidate, _)| !candidate.is_form_of(encoding));
        known.push((encoding.clone(), fresh.clone()));
        fresh
    }
}
