//! Mocks of the client traits, by [`mockall`]: a controller that takes `impl Reader<Pod>` or `&dyn Writer<Pod>` is unit-tested
//! with them, without any server.
//!
//! ```
//! use k8s_openapi::api::core::v1::Pod;
//! use kclient::mock::MockReader;
//! use kclient::{ObjectKey, Reader};
//!
//! let mut pods = MockReader::<Pod>::new();
//! pods.expect_get().returning(|_key| None);
//! assert!(pods.get(&ObjectKey::namespaced("default", "web")).is_none());
//! ```
//!
//! What only an informer can make, a [`Registration`] or an [`Index`], comes from one of `kube_client::Client::fake`; mostly it
//! is better to give the part of the controller that registers handlers such a client, and mocks to its reconciler.

#![expect(
    clippy::ref_option_ref,
    reason = "the code that mockall generates passes every argument by reference"
)]

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use kube::api::{DeleteParams, PatchParams, PostParams};
use kube::core::Selector;
use kube_client::{
    EventHandler, HandlerOptions, Index, IndexDef, Object, ObjectKey, RegisterError, Registration, Stopped,
};
use serde_json::Value;

use crate::traits::{Informer, Reader, Writer};
use crate::write::{Deleted, Patch, Selection, Subresource, SubresourceCall, WriteError};

mockall::mock! {
    /// A [`Reader`].
    pub Reader<K: Object> {}

    impl<K: Object> Reader<K> for Reader<K> {
        fn get(&self, key: &ObjectKey) -> Option<Arc<K>>;
        fn list<'a>(&self, namespace: Option<&'a str>, selector: &Selector) -> Vec<Arc<K>>;
    }
}

mockall::mock! {
    /// An [`Informer`], which is a [`Reader`] too.
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
