//! Writes: the requests, what the server answers, and what can go wrong.
//!
//! Owns: the vocabulary of [`Writer`](crate::Writer). The requests are made in `request`, one by one in `attempt`; the errors
//! are in `error`; `retry` tries updates again, by the patch between two states of an object, which `merge` computes.

mod attempt;
mod error;
mod merge;
mod request;
pub(crate) mod retry;

use kube::api::{PatchParams, PostParams};
use kube::core::Selector;
use serde_json::Value;

pub(crate) use attempt::{body, brief};
pub use error::{Operation, WriteError, ignore_not_found};
pub(crate) use request::Endpoint;
pub use retry::EditOutcome;

/// A change to an object, in one of the four languages that the API server speaks: [`kube`'s](kube::api::Patch), over JSON.
///
/// | variant | what it holds |
/// | --- | --- |
/// | `Json` | JSON patch (RFC 6902): a list of operations, of the crate `json-patch`, or read from JSON as below |
/// | `Merge` | JSON merge patch (RFC 7396): the fields to change, `null` to remove one; lists are replaced as a whole |
/// | `Strategic` | Kubernetes' own: as a merge patch, but lists merge by key; built-in kinds only |
/// | `Apply` | server-side apply: the fields that this field manager wants, and nothing else of the object |
///
/// ```
/// use kclient::Patch;
/// use serde_json::json;
///
/// let label = Patch::Merge(json!({"metadata": {"labels": {"tier": "web"}}}));
/// // Operations that make no sense are refused here, before any request.
/// let first = Patch::Json(serde_json::from_value(json!([
///     {"op": "test", "path": "/spec/replicas", "value": 1},
///     {"op": "replace", "path": "/spec/replicas", "value": 2},
/// ]))?);
/// # let _ = (label, first);
/// # Ok::<(), serde_json::Error>(())
/// ```
pub type Patch = kube::api::Patch<Value>;

/// Which part of an object is written, where what is sent and answered is the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Subresource {
    /// The object itself, `spec` above all.
    #[default]
    Main,
    /// The `/status` subresource.
    Status,
    /// Another one of this name, such as `resize` and `ephemeralcontainers` of pods, or `approval` of certificate signing
    /// requests. What is sent in another form, as `scale` and `eviction` are, is for
    /// [`Writer::subresource`](crate::Writer::subresource).
    Named(&'static str),
}

impl Subresource {
    pub(crate) fn path(self) -> Option<&'static str> {
        match self {
            Subresource::Main => None,
            Subresource::Status => Some("status"),
            Subresource::Named(name) => Some(name),
        }
    }
}

/// What is done to a subresource that has a form of its own; see [`Writer::subresource`](crate::Writer::subresource).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum SubresourceCall {
    /// Reads it.
    Get,
    /// Creates it, as an `eviction`, a `binding` or a `token` is made.
    Create(Value, PostParams),
    /// Replaces it.
    Replace(Value, PostParams),
    /// Patches it.
    Patch(Patch, PatchParams),
}

impl SubresourceCall {
    pub(crate) fn operation(&self) -> Operation {
        match self {
            SubresourceCall::Get => Operation::Fetch,
            SubresourceCall::Create(..) => Operation::Create,
            SubresourceCall::Replace(..) => Operation::Update,
            SubresourceCall::Patch(..) => Operation::Patch,
        }
    }
}

/// Which objects of a collection: those that meet both selectors. The default is all of them.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Selection {
    /// By labels.
    pub labels: Selector,
    /// By fields, as the server reads them, such as `status.phase=Failed`; empty for all. Each kind has its own fields.
    pub fields: String,
}

impl Selection {
    /// Narrows it to what meets this field selector as well, in place of an earlier one.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = selector.into();
        self
    }
}

impl From<Selector> for Selection {
    fn from(labels: Selector) -> Self {
        Self {
            labels,
            fields: String::new(),
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

/// What [`ensure_absent`](crate::WriterExt::ensure_absent) found.
#[derive(Debug, Clone, PartialEq)]
pub enum Absence<K> {
    /// There was no such object.
    Already,
    /// There was one, and it is deleted now; finalizers or a grace period may still keep it for a while.
    Deleted(Deleted<K>),
}

impl<K> Absence<K> {
    /// Whether there was an object to delete.
    pub fn was_there(&self) -> bool {
        matches!(self, Absence::Deleted(_))
    }
}

/// What [`create_or_update`](crate::WriterExt::create_or_update) did. Holds the object as the server answered it.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome<K> {
    /// There was none, and it was created.
    Created(K),
    /// It was there and was changed.
    Updated(K),
    /// It was there and as it should be: nothing was sent.
    Unchanged(K),
}

impl<K> Outcome<K> {
    /// The object.
    pub fn object(&self) -> &K {
        match self {
            Outcome::Created(object) | Outcome::Updated(object) | Outcome::Unchanged(object) => object,
        }
    }

    /// The object, owned.
    pub fn into_object(self) -> K {
        match self {
            Outcome::Created(object) | Outcome::Updated(object) | Outcome::Unchanged(object) => object,
        }
    }
}
