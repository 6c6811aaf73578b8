//! Mocks of the client traits, by [`mockall`]: what takes `impl Reader<Pod>` or `&dyn Writer<Pod>` is unit-tested with them,
//! without any server.
//!
//! | | stands for |
//! | --- | --- |
//! | [`MockReader`] | the cache: [`Reader`] |
//! | [`MockInformer`] | the cache and its events: [`Informer`] |
//! | [`MockWriter`] | the API server: [`Writer`] |
//! | [`MockClient`] | all of a [`Client`](crate::Client): [`ReadWrite`](crate::ReadWrite) |
//! | [`MockHandlers`] | what was registered with a mock, for the test to tell it events |
//!
//! A mock refuses what it was not told to expect: the call panics, and names the method. What it was told to expect and was not
//! asked for fails the test when the mock is dropped. mockall's [own documentation](mockall) has the whole vocabulary:
//! `times`, `withf`, sequences.
//!
//! # A reconciler
//!
//! Write it as a function of what it needs (`&impl Reader<K>` to look, `&impl Writer<K>` to act) and give it the two mocks. Such
//! tests are for its decisions: which write follows from which state, and what becomes of each error.
//!
//! ```
//! use std::sync::Arc;
//!
//! use k8s_openapi::api::core::v1::Pod;
//! use kclient::mock::{MockReader, MockWriter};
//! use kclient::queue::{Action, ReconcileError};
//! use kclient::{ObjectKey, Patch, PatchParams, Reader, Subresource, Writer, ignore_not_found};
//! use serde_json::json;
//!
//! /// Pins every pod that is there.
//! async fn reconcile(pods: &impl Reader<Pod>, writer: &impl Writer<Pod>, key: &ObjectKey) -> Result<Action, ReconcileError> {
//!     if pods.get(key).is_some() {
//!         let patch = Patch::Merge(json!({"metadata": {"annotations": {"pinned": "yes"}}}));
//!         ignore_not_found(writer.patch(key, &patch, Subresource::Main, &PatchParams::default()).await)?;
//!     }
//!     Ok(Action::Done)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let key = ObjectKey::namespaced("shop", "web");
//! let mut pods = MockReader::<Pod>::new();
//! pods.expect_get().returning(|_key| Some(Arc::new(Pod::default())));
//! let mut writer = MockWriter::<Pod>::new();
//! writer
//!     .expect_patch()
//!     .withf(|key, patch, _, _| {
//!         key.name() == "web" && *patch == Patch::Merge(json!({"metadata": {"annotations": {"pinned": "yes"}}}))
//!     })
//!     .times(1)
//!     .returning(|_, _, _, _| Ok(Pod::default()));
//! assert_eq!(reconcile(&pods, &writer, &key).await.expect("no error"), Action::Done);
//!
//! // A pod that is gone: nothing is written. A mock without expectations panics at any call.
//! let mut pods = MockReader::<Pod>::new();
//! pods.expect_get().returning(|_key| None);
//! reconcile(&pods, &MockWriter::new(), &key).await.expect("no error");
//! # }
//! ```
//!
//! An error of the server is made by [`refused`].
//!
//! # A whole controller
//!
//! One that holds an `Arc<dyn ReadWrite<K>>` runs on a [`MockClient`], with [`MockHandlers`] for its events. That shows what it
//! registers and in which order it calls; whether it is right about the API server is for a test with
//! `testing::TestClient` (feature `testing`), which costs no more.
//!
//! What `expect_add_index` returns is made of the objects that the test wants it to find:
//!
//! ```
//! use k8s_openapi::api::core::v1::Pod;
//! use kclient::mock::MockInformer;
//! use kclient::{Index, InformerExt};
//!
//! let mut web = Pod::default();
//! web.metadata.name = Some("web".to_owned());
//! let mut pods = MockInformer::<Pod>::new();
//! pods.expect_add_index().returning(move |def| Ok(Index::detached(def, [web.clone()])));
//!
//! let by_name = pods.index("name", |pod: &Pod| pod.metadata.name.clone()).expect("the only one of its name");
//! assert_eq!(by_name.get("web").len(), 1);
//! ```

#![expect(
    clippy::ref_option_ref,
    reason = "the code that mockall generates passes every argument by reference"
)]

mod handlers;

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use kube::api::{DeleteParams, PatchParams, PostParams};
use kube::core::{Selector, Status};
use kube_client::{
    EventHandler, HandlerOptions, Index, IndexDef, Object, ObjectKey, RegisterError, Registration, Stopped,
};
use serde_json::Value;

pub use self::handlers::MockHandlers;
use crate::traits::{Informer, Reader, Writer};
use crate::write::{Deleted, Operation, Patch, Selection, Subresource, SubresourceCall, WriteError};

// mockall wants all faces of a mock in one invocation, and what it makes of them cannot see names that come out of another
// macro; so the methods of the traits are written down again for each.

mockall::mock! {
    /// A [`Reader`].
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kclient::mock::MockReader;
    /// use kclient::{ObjectKey, Reader, Selector};
    ///
    /// let web = ObjectKey::namespaced("shop", "web");
    /// let mut pods = MockReader::<Pod>::new();
    /// let wanted = web.clone();
    /// pods.expect_get().withf(move |key| *key == wanted).returning(|_| Some(Arc::new(Pod::default())));
    /// pods.expect_get().returning(|_| None); // every other key
    /// pods.expect_list().withf(|namespace, _| *namespace == Some("shop")).returning(|_, _| vec![Arc::new(Pod::default())]);
    ///
    /// assert!(pods.get(&web).is_some() && pods.get(&ObjectKey::namespaced("shop", "db")).is_none());
    /// assert_eq!(pods.list(Some("shop"), &Selector::default()).len(), 1);
    /// ```
    pub Reader<K: Object> {}

    impl<K: Object> Reader<K> for Reader<K> {
        fn get(&self, key: &ObjectKey) -> Option<Arc<K>>;
        fn list<'a>(&self, namespace: Option<&'a str>, selector: &Selector) -> Vec<Arc<K>>;
    }
}

mockall::mock! {
    /// An [`Informer`], which is a [`Reader`] too.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kclient::handler::QueueHandlers;
    /// use kclient::mock::{MockHandlers, MockInformer};
    /// use kclient::queue::{Action, Queue};
    /// use kclient::{Event, HandlerOptions, Informer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut handlers = MockHandlers::new();
    /// let mut pods = MockInformer::<Pod>::new();
    /// pods.expect_add_handler().times(1).returning(handlers.accept());
    /// pods.expect_synced().returning(|| Box::pin(async { Ok(()) }));
    ///
    /// // What a controller does at its construction …
    /// let queue = Queue::builder("pods").reconciler(|_key| async { Ok(Action::Done) }).build();
    /// pods.add_handler(queue.handler::<Pod>().boxed(), HandlerOptions::named("pods"));
    /// pods.synced().await?;
    ///
    /// // … and what follows from an event.
    /// handlers.tell(Event::Added { object: Arc::new(Pod::default()), initial: true }).await;
    /// assert_eq!(queue.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub Informer<K: Object> {}

    impl<K: Object> Reader<K> for Informer<K> {
        fn get(&self, key: &ObjectKey) -> Option<Arc<K>>;
        fn list<'a>(&self, namespace: Option<&'a str>, selector: &Selector) -> Vec<Arc<K>>;
    }

    impl<K: Object> Informer<K> for Informer<K> {
        fn list_unfiltered<'a>(&self, namespace: Option<&'a str>, selector: &Selector) -> Vec<Arc<K>>;
        fn add_handler(&self, handler: Box<dyn EventHandler<K>>, options: HandlerOptions) -> Registration;
        fn add_index(&self, def: &IndexDef<K>) -> Result<Index<K>, RegisterError>;
        fn has_synced(&self) -> bool;
        fn has_synced_ignoring_handlers(&self) -> bool;
        fn synced(&self) -> BoxFuture<'static, Result<(), Stopped>>;
        fn shutdown_handler(&self, registration: &Registration) -> Result<(), RegisterError>;
        fn shutdown_handlers(&self);
        fn start(&self);
    }
}

mockall::mock! {
    /// A [`Writer`].
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kclient::mock::{MockWriter, refused};
    /// use kclient::{ObjectKey, Operation, WriterExt};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut pods = MockWriter::<Pod>::new();
    /// pods.expect_create().withf(|pod, _| pod.metadata.name.as_deref() == Some("web")).returning(|pod, _| Ok(pod.clone()));
    /// pods.expect_delete().returning(|key, _| Err(refused(Operation::Delete, "Pod", key, 409, "Conflict")));
    ///
    /// let mut web = Pod::default();
    /// web.metadata.name = Some("web".to_owned());
    /// assert_eq!(pods.create_object(&web).await.expect("created"), web);
    /// let error = pods.delete_object(&ObjectKey::namespaced("shop", "web")).await.expect_err("refused");
    /// assert!(error.is_conflict());
    /// # }
    /// ```
    pub Writer<K: Object> {}

    #[async_trait]
    impl<K: Object> Writer<K> for Writer<K> {
        async fn fetch(&self, key: &ObjectKey) -> Result<K, WriteError>;
        async fn create(&self, object: &K, options: &PostParams) -> Result<K, WriteError>;
        async fn update(&self, object: &K, options: &PostParams) -> Result<K, WriteError>;
        async fn update_status(&self, object: &K, options: &PostParams) -> Result<K, WriteError>;
        async fn patch(
            &self,
            key: &ObjectKey,
            patch: &Patch,
            subresource: Subresource,
            options: &PatchParams,
        ) -> Result<K, WriteError>;
        async fn delete(&self, key: &ObjectKey, options: &DeleteParams) -> Result<Deleted<K>, WriteError>;
        async fn delete_collection<'a>(
            &self,
            namespace: Option<&'a str>,
            selection: &Selection,
            options: &DeleteParams,
        ) -> Result<Vec<K>, WriteError>;
        async fn subresource(&self, key: &ObjectKey, name: &str, call: &SubresourceCall) -> Result<Value, WriteError>;
    }
}

mockall::mock! {
    /// A whole client: an [`Informer`] and a [`Writer`], and so a [`ReadWrite`](crate::ReadWrite).
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kclient::mock::MockClient;
    /// use kclient::{ObjectKey, ReadWrite, WriterExt};
    ///
    /// /// Creates the map unless the cache has it.
    /// async fn ensure(maps: Arc<dyn ReadWrite<ConfigMap>>, key: ObjectKey) {
    ///     if maps.get(&key).is_none() {
    ///         let mut map = ConfigMap::default();
    ///         map.metadata.name = Some(key.name().to_owned());
    ///         map.metadata.namespace = key.namespace().map(str::to_owned);
    ///         maps.create_object(&map).await.expect("nobody else creates it");
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut maps = MockClient::<ConfigMap>::new();
    /// maps.expect_get().returning(|_key| None);
    /// maps.expect_create().times(1).returning(|map, _| Ok(map.clone()));
    /// ensure(Arc::new(maps), ObjectKey::namespaced("shop", "settings")).await;
    /// # }
    /// ```
    pub Client<K: Object> {}

    impl<K: Object> Reader<K> for Client<K> {
        fn get(&self, key: &ObjectKey) -> Option<Arc<K>>;
        fn list<'a>(&self, namespace: Option<&'a str>, selector: &Selector) -> Vec<Arc<K>>;
    }

    impl<K: Object> Informer<K> for Client<K> {
        fn list_unfiltered<'a>(&self, namespace: Option<&'a str>, selector: &Selector) -> Vec<Arc<K>>;
        fn add_handler(&self, handler: Box<dyn EventHandler<K>>, options: HandlerOptions) -> Registration;
        fn add_index(&self, def: &IndexDef<K>) -> Result<Index<K>, RegisterError>;
        fn has_synced(&self) -> bool;
        fn has_synced_ignoring_handlers(&self) -> bool;
        fn synced(&self) -> BoxFuture<'static, Result<(), Stopped>>;
        fn shutdown_handler(&self, registration: &Registration) -> Result<(), RegisterError>;
        fn shutdown_handlers(&self);
        fn start(&self);
    }

    #[async_trait]
    impl<K: Object> Writer<K> for Client<K> {
        async fn fetch(&self, key: &ObjectKey) -> Result<K, WriteError>;
        async fn create(&self, object: &K, options: &PostParams) -> Result<K, WriteError>;
        async fn update(&self, object: &K, options: &PostParams) -> Result<K, WriteError>;
        async fn update_status(&self, object: &K, options: &PostParams) -> Result<K, WriteError>;
        async fn patch(
            &self,
            key: &ObjectKey,
            patch: &Patch,
            subresource: Subresource,
            options: &PatchParams,
        ) -> Result<K, WriteError>;
        async fn delete(&self, key: &ObjectKey, options: &DeleteParams) -> Result<Deleted<K>, WriteError>;
        async fn delete_collection<'a>(
            &self,
            namespace: Option<&'a str>,
            selection: &Selection,
            options: &DeleteParams,
        ) -> Result<Vec<K>, WriteError>;
        async fn subresource(&self, key: &ObjectKey, name: &str, call: &SubresourceCall) -> Result<Value, WriteError>;
    }
}

/// The error of a write that the server refuses, for a mock to return: 409 `Conflict`, 404 `NotFound`, 403 `Forbidden`, …
///
/// ```
/// use kclient::mock::refused;
/// use kclient::{ObjectKey, Operation};
///
/// let key = ObjectKey::namespaced("shop", "web");
/// let error = refused(Operation::Patch, "Pod", &key, 409, "Conflict");
/// assert!(error.is_conflict());
/// assert_eq!(error.to_string(), "cannot patch Pod shop/web: Conflict");
/// ```
pub fn refused(operation: Operation, kind: &str, key: &ObjectKey, code: u16, reason: &str) -> WriteError {
    let status = Status {
        code,
        reason: reason.to_owned(),
        message: reason.to_owned(),
        ..Status::default()
    };
    WriteError::Refused {
        operation,
        kind: kind.to_owned(),
        key: key.clone(),
        status: Box::new(status),
    }
}
