//! The concrete client of one kind.
//!
//! Owns: [`Client`], its construction, and which handlers belong to it. Reading is the shared informer's business, the
//! requests are built in [`crate::write`].

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kube::api::{DeleteParams, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta, Selector};
use kube_client::{
    EventHandler, HandlerOptions, Index, IndexDef, InformerOptions, Namespaces, Object, ObjectKey, RegisterError,
    Registration, Representation, Scope, Stopped,
};
use serde::Serialize;

use crate::traits::{Informer, Reader, Writer};
use crate::write::{Deleted, Endpoint, Operation, Patch, Subresource, WriteError, body};

/// Which objects a client sees, selected by the server.
///
/// Clients with the same filter share one informer and one watch; every other filter is a watch of its own.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Filter {
    /// Only objects with these labels.
    pub label_selector: Selector,
    /// Only objects with these field values, such as `status.phase=Running`. Which fields there are depends on the kind; a
    /// selector that the server refuses shows in the informer's status and blocks the first sync.
    pub field_selector: String,
    /// Only these namespaces. Several cost a list and a watch each. Cluster-scoped kinds ignore it.
    pub namespaces: Namespaces,
    /// Whether the kind lives in namespaces, for dynamic and metadata clients: see [`InformerOptions::scope`].
    pub scope: Scope,
}

impl Filter {
    /// Only objects with these labels.
    #[must_use]
    pub fn labels(mut self, selector: Selector) -> Self {
        self.label_selector = selector;
        self
    }

    /// Only objects with these field values.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.field_selector = selector.into();
        self
    }

    /// Only this namespace.
    #[must_use]
    pub fn namespace(self, namespace: impl AsRef<str>) -> Self {
        self.namespaces(Namespaces::one(namespace.as_ref()))
    }

    /// Only these namespaces: one cache, one sync and one order of events over all of them.
    #[must_use]
    pub fn namespaces(mut self, namespaces: Namespaces) -> Self {
        self.namespaces = namespaces;
        self
    }

    /// Whether the kind of a dynamic or metadata client lives in namespaces.
    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    fn into_options<K>(self) -> InformerOptions<K> {
        InformerOptions::default()
            .namespaces(self.namespaces)
            .scope(self.scope)
            .labels(self.label_selector)
            .fields(self.field_selector)
    }
}

/// A client of one kind: cached reads, direct writes, event handlers. Cheap to clone; clones are the same client.
///
/// Its methods are those of [`Reader`], [`Informer`] and [`Writer`], and the conveniences of
/// [`InformerExt`](crate::InformerExt) and [`WriterExt`](crate::WriterExt); bring the traits into scope.
///
/// # Guarantees
///
/// - Construction does no I/O and starts nothing: [`kube_client::Client::run_and_wait`] does.
/// - All clients of one kind and filter share one informer, so a second one costs no second watch.
/// - It does not keep the [`kube_client::Client`] alive: when that is dropped or stopped, reads show the last state, and
///   writes still work.
pub struct Client<K: Object> {
    inner: Arc<Inner<K>>,
}

struct Inner<K: Object> {
    informer: kube_client::Informer<K>,
    endpoint: Endpoint,
    /// The handlers registered through this client that were not removed.
    handlers: Mutex<Vec<Registration>>,
    /// Whether `has_synced` was true once.
    synced: AtomicBool,
}

impl<K: Object> Client<K> {
    /// A client of all objects of a kind.
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
    /// As [`new`](Self::new).
    #[track_caller]
    pub fn filtered(client: &kube_client::Client, filter: Filter) -> Result<Self, RegisterError>
    where
        K::DynamicType: Default,
    {
        Self::of(client, &K::DynamicType::default(), filter)
    }

    #[track_caller]
    fn of(client: &kube_client::Client, dynamic_type: &K::DynamicType, filter: Filter) -> Result<Self, RegisterError> {
        let informer = client.informers().of(dynamic_type, filter.into_options())?;
        let endpoint = Endpoint::new(
            client.kube().clone(),
            K::api_resource(dynamic_type),
            K::scope(dynamic_type),
        );
        let (handlers, synced) = (Mutex::default(), AtomicBool::new(false));
        Ok(Self {
            inner: Arc::new(Inner {
                informer,
                endpoint,
                handlers,
                synced,
            }),
        })
    }

    /// The shared informer behind the reads.
    pub fn informer(&self) -> &kube_client::Informer<K> {
        &self.inner.informer
    }

    fn handlers(&self) -> MutexGuard<'_, Vec<Registration>> {
        self.inner.handlers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client<DynamicObject> {
    /// A client of a kind that is known at run time only. Whether it lives in namespaces is the server's business: a write
    /// without a namespace goes to the cluster scope.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    #[track_caller]
    pub fn dynamic(
        client: &kube_client::Client,
        resource: &ApiResource,
        filter: Filter,
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
        filter: Filter,
    ) -> Result<Self, RegisterError> {
        Self::of(client, resource, filter)
    }
}

impl<K: Object> Reader<K> for Client<K> {
    fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.inner.informer.get(key)
    }

    fn list(&self, namespace: Option<&str>, selector: &Selector) -> Vec<Arc<K>> {
        self.inner.informer.list(namespace, selector)
    }
}

impl<K: Object> Informer<K> for Client<K> {
    fn list_unfiltered(&self, namespace: Option<&str>, selector: &Selector) -> Vec<Arc<K>> {
        self.inner.informer.list(namespace, selector)
    }

    fn add_handler(&self, handler: Box<dyn EventHandler<K>>, options: HandlerOptions) -> Registration {
        let registration = self.inner.informer.add_handler(handler, options);
        let mut handlers = self.handlers();
        // Whoever registers and removes again and again must not fill the memory.
        handlers.retain(|known| !known.is_stopped());
        handlers.push(registration.clone());
        registration
    }

    fn add_index(&self, def: &IndexDef<K>) -> Result<Index<K>, RegisterError> {
        self.inner.informer.add_index(def)
    }

    fn has_synced(&self) -> bool {
        if self.inner.synced.load(Ordering::Acquire) {
            return true;
        }
        // A removed handler has nothing left to handle.
        let handled = |handler: &Registration| handler.has_synced() || handler.is_stopped();
        let synced = self.inner.informer.has_synced() && self.handlers().iter().all(handled);
        if synced {
            self.inner.synced.store(true, Ordering::Release);
        }
        synced
    }

    fn has_synced_ignoring_handlers(&self) -> bool {
        self.inner.informer.has_synced()
    }

    fn synced(&self) -> BoxFuture<'static, Result<(), Stopped>> {
        let inner = Arc::clone(&self.inner);
        let handlers = self.handlers().clone();
        async move {
            inner.informer.synced().await?;
            for handler in handlers {
                // An error is a handler that was removed, unless all of the informer was stopped.
                if handler.synced().await.is_err() && inner.informer.is_stopped() {
                    return Err(Stopped);
                }
            }
            // Handlers that were registered since count for `has_synced`, though not for this wait.
            Client { inner }.has_synced();
            Ok(())
        }
        .boxed()
    }

    fn shutdown_handler(&self, registration: &Registration) -> Result<(), RegisterError> {
        self.inner.informer.remove_handler(registration)?;
        self.handlers().retain(|known| !known.is_stopped());
        Ok(())
    }

    fn shutdown_handlers(&self) {
        let handlers = std::mem::take(&mut *self.handlers());
        for handler in handlers {
            handler.remove();
        }
    }

    fn start(&self) {
        self.inner.informer.start();
    }
}

impl<K: Object + Serialize> Client<K> {
    /// The object as a request body, unless the client has only a part of it.
    fn whole(&self, operation: Operation, object: &K) -> Result<(ObjectKey, Vec<u8>), WriteError> {
        let (endpoint, key) = (&self.inner.endpoint, object.metadata().key());
        if K::representation() == Representation::Metadata {
            return Err(endpoint.partial(operation, key));
        }
        match body(object) {
            Ok(body) => Ok((key, body)),
            Err(error) => Err(endpoint.invalid(operation, key, &error)),
        }
    }
}

#[async_trait]
impl<K: Object + Serialize> Writer<K> for Client<K> {
    async fn fetch(&self, key: &ObjectKey) -> Result<K, WriteError> {
        self.inner.endpoint.fetch(key).await
    }

    async fn create(&self, object: &K, options: &PostParams) -> Result<K, WriteError> {
        let (key, body) = self.whole(Operation::Create, object)?;
        self.inner.endpoint.create(key, body, options).await
    }

    async fn update(&self, object: &K, options: &PostParams) -> Result<K, WriteError> {
        let (key, body) = self.whole(Operation::Update, object)?;
        self.inner.endpoint.replace(key, body, Subresource::Main, options).await
    }

    async fn update_status(&self, object: &K, options: &PostParams) -> Result<K, WriteError> {
        let (key, body) = self.whole(Operation::UpdateStatus, object)?;
        self.inner
            .endpoint
            .replace(key, body, Subresource::Status, options)
            .await
    }

    async fn patch(
        &self,
        key: &ObjectKey,
        patch: &Patch,
        subresource: Subresource,
        options: &PatchParams,
    ) -> Result<K, WriteError> {
        self.inner.endpoint.patch(key, patch, subresource, options).await
    }

    async fn delete(&self, key: &ObjectKey, options: &DeleteParams) -> Result<Deleted<K>, WriteError> {
        self.inner.endpoint.delete(key, options).await
    }

    async fn delete_collection<'a>(
        &self,
        namespace: Option<&'a str>,
        selector: &Selector,
        options: &DeleteParams,
    ) -> Result<Vec<K>, WriteError> {
        self.inner
            .endpoint
            .delete_collection(namespace, selector, options)
            .await
    }
}

impl<K: Object> Clone for Client<K> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<K: Object> fmt::Debug for Client<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("informer", &self.inner.informer)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
