//! `WriteClient`: the half of a client that writes.
//!
//! Owns: what may be written by whom. The requests are built in [`crate::write`].

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use kube::api::{DeleteParams, PatchParams, PostParams, ValidationDirective};
use kube_client::{Object, ObjectKey, Representation, Scope, View};
use serde::Serialize;
use serde_json::Value;

use crate::traits::Writer;
use crate::write::{Deleted, Endpoint, Operation, Patch, Selection, Subresource, SubresourceCall, WriteError, body};

/// A client that only writes: no cache, no watch. Cheap to clone.
///
/// For code that writes a kind and never reads it, such as events, reviews, or what somebody else looks at.
///
/// # Guarantees
///
/// Construction does no I/O, and neither lists nor watches the kind, now or later.
pub struct WriteClient<K: Object> {
    inner: Arc<Inner<K>>,
}

struct Inner<K: Object> {
    endpoint: Endpoint,
    // Its objects are parts of those on the server.
    partial: bool,
    // Knows whether the kind is installed, if it may not be.
    delayed: Option<View<K>>,
}

impl<K: Object> WriteClient<K> {
    /// A client that writes a kind.
    pub fn new(client: &kube_client::Client) -> Self
    where
        K::DynamicType: Default,
    {
        Self::of(client, &K::DynamicType::default())
    }

    /// The general form: any [`Object`] and its dynamic type, such as `DynamicObject` and an `ApiResource`.
    pub fn of(client: &kube_client::Client, dynamic_type: &K::DynamicType) -> Self {
        Self::make(client, dynamic_type, Scope::Unknown, false, None)
    }

    /// `said` is the scope if the type does not tell it; `transformed`, that the objects lose something before they are cached.
    pub(super) fn make(
        client: &kube_client::Client,
        dynamic_type: &K::DynamicType,
        said: Scope,
        transformed: bool,
        delayed: Option<View<K>>,
    ) -> Self {
        let scope = match K::scope(dynamic_type) {
            Scope::Unknown => said,
            known => known,
        };
        let endpoint = Endpoint::new(client.kube().clone(), K::api_resource(dynamic_type), scope);
        Self {
            inner: Arc::new(Inner {
                endpoint,
                partial: transformed || K::representation() == Representation::Metadata,
                delayed,
            }),
        }
    }

    /// The same client, whose writes are by this field manager unless their options name another. Otherwise the server takes the
    /// name of the program from the user agent.
    #[must_use]
    pub fn with_field_manager(&self, name: impl Into<String>) -> Self {
        self.with(|endpoint| endpoint.field_manager = Some(name.into()))
    }

    /// The same client, whose creates, updates and patches are validated this way unless their options say otherwise:
    /// [`Strict`](ValidationDirective::Strict) makes a field that the server does not know an error. Servers warn by default.
    #[must_use]
    pub fn with_field_validation(&self, validation: ValidationDirective) -> Self {
        self.with(|endpoint| endpoint.field_validation = Some(validation))
    }

    fn with(&self, change: impl FnOnce(&mut Endpoint)) -> Self {
        let mut endpoint = self.endpoint().clone();
        change(&mut endpoint);
        Self {
            inner: Arc::new(Inner {
                endpoint,
                partial: self.inner.partial,
                delayed: self.inner.delayed.clone(),
            }),
        }
    }

    fn endpoint(&self) -> &Endpoint {
        &self.inner.endpoint
    }

    /// Refuses what would be done to a kind that is known to be absent.
    fn check_installed(&self, operation: Operation, key: impl FnOnce() -> ObjectKey) -> Result<(), WriteError> {
        match &self.inner.delayed {
            Some(view) if view.is_absent() => Err(self.endpoint().not_installed(operation, key())),
            _ => Ok(()),
        }
    }
}

impl<K: Object + Serialize> WriteClient<K> {
    /// The object as a request body, unless the client has only a part of it.
    fn whole(&self, operation: Operation, object: &K) -> Result<(ObjectKey, Vec<u8>), WriteError> {
        let key = object.metadata().key();
        if self.inner.partial {
            return Err(self.endpoint().partial(operation, key));
        }
        self.body(operation, key, object)
    }

    fn body(&self, operation: Operation, key: ObjectKey, object: &K) -> Result<(ObjectKey, Vec<u8>), WriteError> {
        match body(object) {
            Ok(body) => Ok((key, body)),
            Err(error) => Err(self.endpoint().invalid(operation, key, &error)),
        }
    }
}

#[async_trait]
impl<K: Object + Serialize> Writer<K> for WriteClient<K> {
    async fn fetch(&self, key: &ObjectKey) -> Result<K, WriteError> {
        self.check_installed(Operation::Fetch, || key.clone())?;
        self.endpoint().fetch(key).await
    }

    async fn create(&self, object: &K, options: &PostParams) -> Result<K, WriteError> {
        let (key, body) = if K::representation() == Representation::Metadata {
            self.whole(Operation::Create, object)?
        } else {
            // What does not exist yet has nothing that a transform could have taken away.
            self.body(Operation::Create, object.metadata().key(), object)?
        };
        self.check_installed(Operation::Create, || key.clone())?;
        self.endpoint().create(key, body, options).await
    }

    async fn update(&self, object: &K, options: &PostParams) -> Result<K, WriteError> {
        let (key, body) = self.whole(Operation::Update, object)?;
        self.check_installed(Operation::Update, || key.clone())?;
        self.endpoint().replace(Operation::Update, key, body, options).await
    }

    async fn update_status(&self, object: &K, options: &PostParams) -> Result<K, WriteError> {
        let (key, body) = self.whole(Operation::UpdateStatus, object)?;
        self.check_installed(Operation::UpdateStatus, || key.clone())?;
        self.endpoint()
            .replace(Operation::UpdateStatus, key, body, options)
            .await
    }

    async fn patch(
        &self,
        key: &ObjectKey,
        patch: &Patch,
        subresource: Subresource,
        options: &PatchParams,
    ) -> Result<K, WriteError> {
        self.check_installed(Operation::Patch, || key.clone())?;
        self.endpoint().patch(key, patch, subresource, options).await
    }

    async fn delete(&self, key: &ObjectKey, options: &DeleteParams) -> Result<Deleted<K>, WriteError> {
        self.check_installed(Operation::Delete, || key.clone())?;
        self.endpoint().delete(key, options).await
    }

    async fn delete_collection<'a>(
        &self,
        namespace: Option<&'a str>,
        selection: &Selection,
        options: &DeleteParams,
    ) -> Result<Vec<K>, WriteError> {
        self.check_installed(Operation::DeleteCollection, || ObjectKey::new(namespace, ""))?;
        self.endpoint().delete_collection(namespace, selection, options).await
    }

    async fn subresource(&self, key: &ObjectKey, name: &str, call: &SubresourceCall) -> Result<Value, WriteError> {
        self.check_installed(call.operation(), || key.clone())?;
        self.endpoint().subresource(key, name, call).await
    }
}

impl<K: Object> Clone for WriteClient<K> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<K: Object> fmt::Debug for WriteClient<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteClient")
            .field("kind", &self.endpoint().kind())
            .field("partial", &self.inner.partial)
            .finish_non_exhaustive()
    }
}
