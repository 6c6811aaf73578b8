//! The concrete client of one kind.
//!
//! Owns: [`Client`] and its construction. It is two halves, each of use alone: `read` (cache, handlers, sync) and `write`.

mod read;
mod write;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use kube::api::{DeleteParams, PatchParams, PostParams, ValidationDirective};
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta, Selector};
use kube_client::{
    Activation, EventHandler, HandlerOptions, Index, IndexDef, Object, ObjectKey, RegisterError, Registration, Stopped,
    View,
};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;

pub use self::read::ReadClient;
pub use self::write::WriteClient;
use crate::filter::Filter;
use crate::traits::{Informer, Reader, Writer};
use crate::write::{Deleted, Patch, Selection, Subresource, SubresourceCall, WriteError};

/// A client of one kind: cached reads, direct writes, event handlers. Cheap to clone; clones are the same client.
///
/// Its methods are those of [`Reader`], [`Informer`] and [`Writer`], and the conveniences of
/// [`InformerExt`](crate::InformerExt) and [`WriterExt`](crate::WriterExt); bring the traits into scope.
///
/// | constructor | the kind |
/// | --- | --- |
/// | [`new`](Self::new), [`filtered`](Self::filtered) | named by the Rust type: built-in, derived, slim, tiny |
/// | [`dynamic`](Client::dynamic) | known at run time only, whole objects |
/// | [`metadata`](Client::metadata) | known at run time only, metadata alone |
/// | [`of`](Self::of) | any, with its dynamic type |
/// | [`delayed`](Self::delayed), [`delayed_of`](Self::delayed_of) | may not be installed |
/// | [`ReadClient`] | any of these, without writes |
/// | [`WriteClient`] | any of these, without cache and watch |
///
/// # Guarantees
///
/// - Construction does no I/O and starts nothing: [`kube_client::Client::run_and_wait`] does.
/// - All clients of one kind and filter share one informer, so a second one costs no second watch.
/// - Reads, indexes and handlers of one client always agree about which objects are visible: see [`View`].
/// - It does not keep the [`kube_client::Client`] alive: when that is dropped or stopped, reads show the last state, and
///   writes still work.
pub struct Client<K: Object> {
    reader: ReadClient<K>,
    writer: WriteClient<K>,
}

impl<K: Object> Client<K> {
    /// A client of all objects of a kind that the [filter of the cluster's
    /// client](kube_client::ClientBuilder::object_filter) shows, if it has one.
    ///
    /// # Errors
    ///
    /// [`RegisterError`] if the kind's informer was registered elsewhere in a way that contradicts this one.
    #[track_caller]
    pub fn new(client: &kube_client::Client) -> Result<Self, RegisterError>
    where
        K::DynamicType: Default,
    {
        Self::filtered(client, Filter::default())
    }

    /// A client of the objects that the filter selects. Reads and handlers see only those; writes are not restricted.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new); also for a namespace or a label selector that cannot be one.
    #[track_caller]
    pub fn filtered(client: &kube_client::Client, filter: Filter<K>) -> Result<Self, RegisterError>
    where
        K::DynamicType: Default,
    {
        Self::of(client, &K::DynamicType::default(), filter)
    }

    /// The general form: any [`Object`] and its dynamic type.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    #[track_caller]
    pub fn of(
        client: &kube_client::Client,
        dynamic_type: &K::DynamicType,
        filter: Filter<K>,
    ) -> Result<Self, RegisterError> {
        let (transformed, scope) = (filter.transform.is_some(), filter.scope);
        let reader = ReadClient::of(client, dynamic_type, filter)?;
        let writer = WriteClient::make(client, dynamic_type, scope, transformed, None);
        Ok(Self { reader, writer })
    }

    /// A client of a kind that may not be installed: its custom resource definition may come, go and come again, before and
    /// after the start. It is the same type with the same methods; handlers and indexes may be added at any time, and stay.
    ///
    /// # Guarantees
    ///
    /// - While the kind is absent, reads and indexes are empty, and writes give
    ///   [`WriteError::KindNotInstalled`] without a request. Nothing is asked of the server about the kind.
    /// - It has synced when the [CRD watcher](kube_client::CrdWatcher) knows that the kind is absent; or, if the kind was
    ///   there from the start, when it was listed and the handlers have handled that. It never goes back.
    /// - When the kind appears, handlers get its objects as `Added { initial: true }`. When it goes, they get
    ///   `Deleted { stale: true }` for each object that is left, and the watch ends. [`activation`](Self::activation) tells.
    /// - The kind means this version of it: while the definition does not serve it, or is
    ///   [ignored or too old](kube_client::CrdOptions), the kind is absent.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    #[track_caller]
    pub fn delayed(client: &kube_client::Client, filter: Filter<K>) -> Result<Self, RegisterError>
    where
        K::DynamicType: Default,
    {
        Self::delayed_of(client, &K::DynamicType::default(), filter)
    }

    /// [`delayed`](Self::delayed) in its general form: any [`Object`] and its dynamic type.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    #[track_caller]
    pub fn delayed_of(
        client: &kube_client::Client,
        dynamic_type: &K::DynamicType,
        filter: Filter<K>,
    ) -> Result<Self, RegisterError> {
        let (transformed, scope) = (filter.transform.is_some(), filter.scope);
        let reader = ReadClient::delayed_of(client, dynamic_type, filter)?;
        let writer = WriteClient::make(client, dynamic_type, scope, transformed, Some(reader.view().clone()));
        Ok(Self { reader, writer })
    }

    /// How far a delayed client is, as a channel that holds the newest state. A client that is not delayed is
    /// [`Active`](Activation::Active) from the start.
    pub fn activation(&self) -> watch::Receiver<Activation> {
        self.reader.activation()
    }

    /// The same client, whose writes are by this field manager; see [`WriteClient::with_field_manager`].
    #[must_use]
    pub fn with_field_manager(&self, name: impl Into<String>) -> Self {
        Self {
            reader: self.reader.clone(),
            writer: self.writer.with_field_manager(name),
        }
    }

    /// The same client, whose writes are validated this way; see [`WriteClient::with_field_validation`].
    #[must_use]
    pub fn with_field_validation(&self, validation: ValidationDirective) -> Self {
        Self {
            reader: self.reader.clone(),
            writer: self.writer.with_field_validation(validation),
        }
    }

    /// The half that reads. It is this client, for all that concerns handlers and sync.
    pub fn reader(&self) -> &ReadClient<K> {
        &self.reader
    }

    /// The half that writes.
    pub fn writer(&self) -> &WriteClient<K> {
        &self.writer
    }

    /// The informer as this client's filters show it.
    pub fn view(&self) -> &View<K> {
        self.reader.view()
    }

    /// The shared informer behind the reads: it shows everything.
    pub fn informer(&self) -> &kube_client::Informer<K> {
        self.reader.informer()
    }
}

impl Client<DynamicObject> {
    /// A client of a kind that is known at run time only. Unless [`Filter::scope`] says whether it lives in namespaces, that is the
    /// server's business: a write without a namespace goes to the cluster scope, where no object of a kind with namespaces is
    /// found.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    #[track_caller]
    pub fn dynamic(
        client: &kube_client::Client,
        resource: &ApiResource,
        filter: Filter<DynamicObject>,
    ) -> Result<Self, RegisterError> {
        Self::of(client, resource, filter)
    }
}

impl Client<PartialObjectMeta<DynamicObject>> {
    /// A client that fetches and keeps only the metadata of a kind. Patch, apply and delete work; `update` is refused with
    /// [`WriteError::PartialObject`].
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    #[track_caller]
    pub fn metadata(
        client: &kube_client::Client,
        resource: &ApiResource,
        filter: Filter<PartialObjectMeta<DynamicObject>>,
    ) -> Result<Self, RegisterError> {
        Self::of(client, resource, filter)
    }
}

impl<K: Object> Reader<K> for Client<K> {
    fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.reader.get(key)
    }

    fn list(&self, namespace: Option<&str>, selector: &Selector) -> Vec<Arc<K>> {
        self.reader.list(namespace, selector)
    }
}

impl<K: Object> Informer<K> for Client<K> {
    fn list_unfiltered(&self, namespace: Option<&str>, selector: &Selector) -> Vec<Arc<K>> {
        self.reader.list_unfiltered(namespace, selector)
    }

    fn add_handler(&self, handler: Box<dyn EventHandler<K>>, options: HandlerOptions) -> Registration {
        self.reader.add_handler(handler, options)
    }

    fn add_index(&self, def: &IndexDef<K>) -> Result<Index<K>, RegisterError> {
        self.reader.add_index(def)
    }

    fn has_synced(&self) -> bool {
        self.reader.has_synced()
    }

    fn has_synced_ignoring_handlers(&self) -> bool {
        self.reader.has_synced_ignoring_handlers()
    }

    fn synced(&self) -> BoxFuture<'static, Result<(), Stopped>> {
        self.reader.synced()
    }

    fn shutdown_handler(&self, registration: &Registration) -> Result<(), RegisterError> {
        self.reader.shutdown_handler(registration)
    }

    fn shutdown_handlers(&self) {
        self.reader.shutdown_handlers();
    }

    fn start(&self) {
        self.reader.start();
    }
}

#[async_trait]
impl<K: Object + Serialize> Writer<K> for Client<K> {
    async fn fetch(&self, key: &ObjectKey) -> Result<K, WriteError> {
        self.writer.fetch(key).await
    }

    async fn create(&self, object: &K, options: &PostParams) -> Result<K, WriteError> {
        self.writer.create(object, options).await
    }

    async fn update(&self, object: &K, options: &PostParams) -> Result<K, WriteError> {
        self.writer.update(object, options).await
    }

    async fn update_status(&self, object: &K, options: &PostParams) -> Result<K, WriteError> {
        self.writer.update_status(object, options).await
    }

    async fn patch(
        &self,
        key: &ObjectKey,
        patch: &Patch,
        subresource: Subresource,
        options: &PatchParams,
    ) -> Result<K, WriteError> {
        self.writer.patch(key, patch, subresource, options).await
    }

    async fn delete(&self, key: &ObjectKey, options: &DeleteParams) -> Result<Deleted<K>, WriteError> {
        self.writer.delete(key, options).await
    }

    async fn delete_collection<'a>(
        &self,
        namespace: Option<&'a str>,
        selection: &Selection,
        options: &DeleteParams,
    ) -> Result<Vec<K>, WriteError> {
        self.writer.delete_collection(namespace, selection, options).await
    }

    async fn subresource(&self, key: &ObjectKey, name: &str, call: &SubresourceCall) -> Result<Value, WriteError> {
        self.writer.subresource(key, name, call).await
    }
}

impl<K: Object> Clone for Client<K> {
    fn clone(&self) -> Self {
        Self {
            reader: self.reader.clone(),
            writer: self.writer.clone(),
        }
    }
}

impl<K: Object> fmt::Debug for Client<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("view", self.view())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
