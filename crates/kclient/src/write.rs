//! Writes: the requests, what the server answers, and what can go wrong.
//!
//! Owns: the vocabulary of [`Writer`](crate::Writer). The requests themselves are built in `request`, the errors are in
//! `error`, and `merge` computes the patch between two states of an object.

mod error;
mod merge;
mod request;

use serde_json::Value;

pub use error::{Operation, WriteError, ignore_not_found};
pub(crate) use merge::merge_patch;
pub(crate) use request::{Endpoint, body};

/// A change to an object, in one of the four languages that the API server speaks.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Patch {
    /// JSON Patch (RFC 6902): an array of operations.
    Json(Value),
    /// JSON Merge Patch (RFC 7396): the fields to change, `null` to remove one. Lists are replaced as a whole.
    Merge(Value),
    /// Kubernetes' strategic merge patch: like a merge patch, but lists merge by key. Built-in kinds only.
    Strategic(Value),
    /// Server-side apply: the fields that this field manager wants, and nothing else of the object.
    Apply(Value),
}

/// Which part of an object is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Subresource {
    /// The object itself, `spec` above all.
    #[default]
    Main,
    /// The `/status` subresource.
    Status,
}

impl Subresource {
    pub(crate) fn path(self) -> Option<&'static str> {
        match self {
            Subresource::Main => None,
            Subresource::Status => Some("status"),
        }
    }
}

/// What the server answers to a delete.
#[derive(Debug, Clone, PartialEq)]
pub enum Deleted<K> {
    /// The object is gone. (Some kinds answer with the object all the same, see the other variant.)
    Status(Box<kube::core::Status>),
    /// The object as it was when it was deleted, or as it is while finalizers or a grace period keep it. Its
    /// deletionTimestamp tells which; the watch tells when it is gone.
    Object(Box<K>),
}
