//! The faces of a client: what a controller asks for, and what its unit tests replace.
//!
//! Owns: the object-safe traits and nothing else. [`Client`](crate::Client) implements all of them; conveniences are in
//! [`InformerExt`](crate::InformerExt) and [`WriterExt`](crate::WriterExt), so that a mock has few methods.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use kube::api::{DeleteParams, PatchParams, PostParams};
use kube::core::Selector;
use kube_client::{
    EventHandler, HandlerOptions, Index, IndexDef, Object, ObjectKey, RegisterError, Registration, Stopped,
};
use serde_json::Value;

use crate::write::{Deleted, Patch, Selection, Subresource, SubresourceCall, WriteError};

/// Reads one kind from a cache.
///
/// # Guarantees
///
/// Synchronous, without I/O. What is returned is shared, never a copy. The cache follows the server with the delay of the
/// watch: it is never ahead, and may be behind one's own writes.
pub trait Reader<K: Object>: Send + Sync {
    /// The object of this key.
    fn get(&self, key: &ObjectKey) -> Option<Arc<K>>;

    /// The objects of one namespace or all (`None`) that the selector matches, in no particular order: one consistent
    /// state. `Selector::default()` matches everything.
    fn list(&self, namespace: Option<&str>, selector: &Selector) -> Vec<Arc<K>>;
}

/// Reads one kind and tells of its changes.
pub trait Informer<K: Object>: Reader<K> {
    /// As [`list`](Reader::list), but without the filter that only this client applies, if it has one.
    fn list_unfiltered(&self, namespace: Option<&str>, selector: &Selector) -> Vec<Arc<K>>;

    /// Registers a handler: it gets the present state as `Added { initial: true }`, then every change. See
    /// [`handler`](crate::handler) for ready-made ones.
    fn add_handler(&self, handler: Box<dyn EventHandler<K>>, options: HandlerOptions) -> Registration;

    /// Adds a secondary index, or gives the one there is if it has the same definition.
    ///
    /// # Errors
    ///
    /// [`RegisterError::IndexConflict`] if the name is taken by another definition.
    fn add_index(&self, def: &IndexDef<K>) -> Result<Index<K>, RegisterError>;

    /// Whether the cache was filled and every handler registered through this client has handled its initial state. Once
    /// true it stays true, also when more handlers are registered: those have their own
    /// [`Registration::has_synced`].
    fn has_synced(&self) -> bool;

    /// Whether the cache was filled.
    fn has_synced_ignoring_handlers(&self) -> bool;

    /// Waits for [`has_synced`](Self::has_synced), as of the handlers that are registered now. Informers run once
    /// [`run_and_wait`](kube_client::Client::run_and_wait) or `start` was called: before, this waits.
    ///
    /// Resolves to [`Stopped`] if the informer was stopped before. Dropping the future loses nothing.
    fn synced(&self) -> BoxFuture<'static, Result<(), Stopped>>;

    /// Removes one handler: no call of it starts after this returned.
    ///
    /// # Errors
    ///
    /// [`RegisterError::ForeignRegistration`] if it was registered elsewhere; nothing is removed then.
    fn shutdown_handler(&self, registration: &Registration) -> Result<(), RegisterError>;

    /// Removes every handler that was registered through this client or a clone of it. Others who share the informer keep
    /// theirs.
    fn shutdown_handlers(&self);

    /// Starts the informer alone, if nobody has started it yet.
    fn start(&self);
}

/// Writes one kind to the API server.
///
/// Every method is one request, and returns what the server answered. The cache follows later, by the watch.
///
/// A request takes as long as the server does: there is no limit of time but that of the connection, if its configuration sets
/// one. In a reconciler, [`timeout`](crate::queue::QueueBuilder::timeout) is one.
///
/// # Errors
///
/// All methods: [`WriteError`]. What is wrong with a request in itself is told before it is sent: a kind that lives in namespaces
/// and a key or object without one ([`WriteError::NamespaceRequired`]; there is no default namespace), the reverse, an empty
/// name, a name that would make another path, options that contradict each other. An error tells by its methods what the
/// server meant: [`WriteError::is_conflict`] and its siblings.
///
/// # Cancel safety
///
/// Dropping a future abandons the answer, not the write: the server may or may not have done it.
#[async_trait]
pub trait Writer<K: Object>: Send + Sync {
    /// Reads one object from the server, past the cache: for the rare place that must not read an old state.
    async fn fetch(&self, key: &ObjectKey) -> Result<K, WriteError>;

    /// Creates an object.
    async fn create(&self, object: &K, options: &PostParams) -> Result<K, WriteError>;

    /// Replaces an object. If it carries a resourceVersion and the server has another, that is a conflict.
    async fn update(&self, object: &K, options: &PostParams) -> Result<K, WriteError>;

    /// Replaces the status of an object; the rest of what is sent is ignored by the server.
    async fn update_status(&self, object: &K, options: &PostParams) -> Result<K, WriteError>;

    /// Patches an object or a subresource of it. A server-side apply needs a field manager, in the options or the client's own;
    /// `force` is for applies alone.
    async fn patch(
        &self,
        key: &ObjectKey,
        patch: &Patch,
        subresource: Subresource,
        options: &PatchParams,
    ) -> Result<K, WriteError>;

    /// Deletes an object. Preconditions that do not hold are a conflict; a grace period cannot be negative, by its type.
    async fn delete(&self, key: &ObjectKey, options: &DeleteParams) -> Result<Deleted<K>, WriteError>;

    /// Deletes the selected objects of one namespace, or of a cluster-scoped kind; there is no request for all namespaces at
    /// once. Returns those that the server reports. A label selector that would read as another one once it is text is
    /// [`WriteError::Invalid`].
    async fn delete_collection<'a>(
        &self,
        namespace: Option<&'a str>,
        selection: &Selection,
        options: &DeleteParams,
    ) -> Result<Vec<K>, WriteError>;

    /// Calls a subresource whose form is not that of the object: `scale`, `eviction`, `binding`, `token`. The typed forms are
    /// in [`WriterExt`](crate::WriterExt): [`create_subresource`](crate::WriterExt::create_subresource) and its siblings.
    async fn subresource(&self, key: &ObjectKey, name: &str, call: &SubresourceCall) -> Result<Value, WriteError>;
}

/// A client that reads and writes. Implemented for everything that is an [`Informer`] and a [`Writer`].
pub trait ReadWrite<K: Object>: Informer<K> + Writer<K> {}

impl<K: Object, C: Informer<K> + Writer<K> + ?Sized> ReadWrite<K> for C {}
