//! What can go wrong with a write.

use kube::core::Status;
use kube_client::ObjectKey;

/// What was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// Reading one object past the cache.
    Fetch,
    /// Creating.
    Create,
    /// Replacing the object.
    Update,
    /// Replacing its status.
    UpdateStatus,
    /// Patching, server-side apply included.
    Patch,
    /// Deleting one object.
    Delete,
    /// Deleting many objects.
    DeleteCollection,
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Operation::Fetch => "fetch",
            Operation::Create => "create",
            Operation::Update => "update",
            Operation::UpdateStatus => "update the status of",
            Operation::Patch => "patch",
            Operation::Delete => "delete",
            Operation::DeleteCollection => "delete the collection of",
        })
    }
}

/// A write did not happen, or its outcome is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The server refused. [`is_conflict`](Self::is_conflict) and its siblings tell the common reasons apart; the status
    /// has the server's own words.
    #[error("cannot {operation} {kind} {key}: {}", .status.message)]
    Refused {
        /// What was tried.
        operation: Operation,
        /// The kind.
        kind: String,
        /// The object.
        key: ObjectKey,
        /// The server's answer.
        status: Box<Status>,
    },
    /// The request did not get through, or its answer did not come back: the server may or may not have done it.
    #[error("cannot {operation} {kind} {key}: no answer of the server")]
    Connection {
        /// What was tried.
        operation: Operation,
        /// The kind.
        kind: String,
        /// The object.
        key: ObjectKey,
        /// The failure of the connection.
        #[source]
        source: Box<kube::Error>,
    },
    /// The server did it, but its answer is not an object of the Rust type.
    #[error("cannot read the answer to: {operation} {kind} {key}")]
    Answer {
        /// What was done.
        operation: Operation,
        /// The kind.
        kind: String,
        /// The object.
        key: ObjectKey,
        /// Why it does not decode.
        #[source]
        source: serde_json::Error,
    },
    /// The request could not be built: options that contradict each other, an object that does not become JSON. No request
    /// was made.
    #[error("cannot {operation} {kind} {key}: {reason}")]
    Invalid {
        /// What was tried.
        operation: Operation,
        /// The kind.
        kind: String,
        /// The object.
        key: ObjectKey,
        /// What is wrong.
        reason: String,
    },
    /// The kind lives in namespaces and none was given. No request was made.
    #[error("cannot {operation} {kind} {name:?}: the kind lives in namespaces and no namespace was given")]
    NamespaceRequired {
        /// What was tried.
        operation: Operation,
        /// The kind.
        kind: String,
        /// The name, perhaps empty.
        name: String,
    },
    /// The kind does not live in namespaces and one was given. No request was made.
    #[error("cannot {operation} {kind} {key}: the kind is cluster-scoped and a namespace was given")]
    NamespaceNotAllowed {
        /// What was tried.
        operation: Operation,
        /// The kind.
        kind: String,
        /// The object.
        key: ObjectKey,
    },
    /// The object has no name. No request was made.
    #[error("cannot {operation} {kind}: no name was given")]
    NameRequired {
        /// What was tried.
        operation: Operation,
        /// The kind.
        kind: String,
    },
    /// The kind is not installed, as the delayed client knows. No request was made. Once it is, the same write may succeed.
    #[error("cannot {operation} {kind} {key}: the kind is not installed")]
    KindNotInstalled {
        /// What was tried.
        operation: Operation,
        /// The kind.
        kind: String,
        /// The object; only its namespace, if it was a whole collection.
        key: ObjectKey,
    },
    /// The client keeps only a part of each object (metadata, or what a transform left), and writing that back would erase
    /// the rest. No request was made. Patch, apply and delete work.
    #[error("cannot {operation} {kind} {key}: the client keeps only a part of the object, patch it instead")]
    PartialObject {
        /// What was tried.
        operation: Operation,
        /// The kind.
        kind: String,
        /// The object.
        key: ObjectKey,
    },
}

impl WriteError {
    /// The server's answer, if it gave one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            WriteError::Refused { status, .. } => Some(status),
            _ => None,
        }
    }

    fn is_status(&self, code: u16, reason: &str) -> bool {
        self.status()
            .is_some_and(|status| status.code == code && status.reason == reason)
    }

    /// Whether only the code tells: what answered was no API, but a proxy, or a path that the server does not know.
    fn is_bare(&self, code: u16) -> bool {
        self.is_status(code, "")
    }

    /// Somebody else changed the object since it was read, or owns the field that was applied: read it again, or apply with
    /// force.
    pub fn is_conflict(&self) -> bool {
        self.is_status(409, "Conflict") || self.is_bare(409)
    }

    /// The object, its namespace or the kind itself does not exist.
    pub fn is_not_found(&self) -> bool {
        let not_installed = matches!(self, WriteError::KindNotInstalled { .. });
        not_installed || self.is_status(404, "NotFound") || self.is_bare(404)
    }

    /// An object of this name exists already.
    pub fn is_already_exists(&self) -> bool {
        self.is_status(409, "AlreadyExists")
    }

    /// Whether the same write may succeed later: no answer, an overloaded or failing server. A conflict is not among
    /// these, it needs a fresh object. After a failure of the connection the write may have happened.
    pub fn is_retryable(&self) -> bool {
        match self {
            WriteError::Connection { .. } => true,
            WriteError::Refused { status, .. } => status.code == 429 || status.code >= 500,
            _ => false,
        }
    }
}

/// `Ok(None)` instead of a not-found error: for deletes of what may be gone already, and updates that do not matter then.
///
/// # Errors
///
/// Every other error.
///
/// ```
/// # use kclient::{WriteError, ignore_not_found};
/// # fn example(result: Result<u8, WriteError>) -> Result<(), WriteError> {
/// ignore_not_found(result)?;
/// # Ok(())
/// # }
/// ```
pub fn ignore_not_found<T>(result: Result<T, WriteError>) -> Result<Option<T>, WriteError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
