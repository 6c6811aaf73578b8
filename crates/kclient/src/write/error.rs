//! What can go wrong with a write.

use std::time::Duration;

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
    /// The request could not be built: options that contradict each other, a name that cannot be one, a selector that is
    /// none, an object that does not become JSON. No request was made.
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
    /// The function that edits the object gave up; its error is the source. Nothing was written.
    #[error("cannot {operation} {key}: it could not be edited")]
    Edit {
        /// What was tried.
        operation: Operation,
        /// The object.
        key: ObjectKey,
        /// The error of the function.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl WriteError {
    /// The server's answer, if it gave one. Where only the `Retry-After` header said when to come again, the details say so.
    pub fn status(&self) -> Option<&Status> {
        match self {
            WriteError::Refused { status, .. } => Some(status),
            _ => None,
        }
    }

    /// Whether the server's answer has this code and reason; or this code alone, where it says no more, as a proxy may, and as
    /// the server does of a path that it does not know. What a web page says with a 404 is not believed.
    fn is(&self, code: u16, reason: &str) -> bool {
        self.status()
            .is_some_and(|status| status.code == code && (status.reason == reason || status.reason.is_empty()))
    }

    /// Somebody else changed the object since it was read, or owns the field that was applied: read it again, or apply with
    /// force. Also a precondition that does not hold.
    pub fn is_conflict(&self) -> bool {
        self.is(409, "Conflict")
    }

    /// The object, its namespace or the kind itself does not exist. Only the server says so: a proxy whose web page has this
    /// code is none, and its answer has the reason `NotKubernetes`.
    pub fn is_not_found(&self) -> bool {
        matches!(self, WriteError::KindNotInstalled { .. }) || self.is(404, "NotFound")
    }

    /// An object of this name exists already. Only the server says so: a bare 409 is a [conflict](Self::is_conflict).
    pub fn is_already_exists(&self) -> bool {
        self.status()
            .is_some_and(|status| status.code == 409 && status.reason == "AlreadyExists")
    }

    /// The server understood and refuses: a right is missing, an admission plugin says no, the namespace is being deleted.
    pub fn is_forbidden(&self) -> bool {
        self.is(403, "Forbidden")
    }

    /// The server does not know who asks: credentials are missing, wrong or have expired.
    pub fn is_unauthorized(&self) -> bool {
        self.is(401, "Unauthorized")
    }

    /// What was sent is wrong, and will be the next time: the server found the object invalid, a JSON patch does not apply, or
    /// it could not be sent at all ([`Invalid`](Self::Invalid), [`NameRequired`](Self::NameRequired),
    /// [`NamespaceRequired`](Self::NamespaceRequired), [`NamespaceNotAllowed`](Self::NamespaceNotAllowed),
    /// [`PartialObject`](Self::PartialObject)). A reconciler may well end with a
    /// [terminal](crate::queue::ReconcileError::terminal) error then.
    pub fn is_invalid(&self) -> bool {
        match self {
            WriteError::Invalid { .. }
            | WriteError::NameRequired { .. }
            | WriteError::NamespaceRequired { .. }
            | WriteError::NamespaceNotAllowed { .. }
            | WriteError::PartialObject { .. } => true,
            _ => self.is(422, "Invalid"),
        }
    }

    /// The server could not make sense of the request: a field it does not know under strict validation, a selector or patch
    /// that is none.
    pub fn is_bad_request(&self) -> bool {
        self.is(400, "BadRequest")
    }

    /// The server did not finish in time; the write may have happened. A connection that broke, or was too slow, is
    /// [`Connection`](Self::Connection) instead.
    pub fn is_timeout(&self) -> bool {
        self.is(504, "Timeout") || self.status().is_some_and(|status| status.reason == "ServerTimeout")
    }

    /// The server has too much to do, or, of an eviction, a disruption budget does not allow it now.
    pub fn is_too_many_requests(&self) -> bool {
        self.is(429, "TooManyRequests")
    }

    /// How long the server asks to wait before the same is tried again, as it says in the answer's details or in the header
    /// `Retry-After`. It may be any time.
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self.status()?.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// Whether the same write may succeed later: no answer, an overloaded or failing server. A conflict is not among
    /// these, it needs a fresh object; nor is what a server does not implement. After a failure of the connection the write may
    /// have happened.
    pub fn is_retryable(&self) -> bool {
        match self {
            WriteError::Connection { .. } => true,
            WriteError::Refused { status, .. } => status.code == 429 || (status.code >= 500 && status.code != 501),
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
