//! Conveniences over the traits, for every client and mock alike.
//!
//! Owns: [`InformerExt`] (closures as handlers and indexes) and [`WriterExt`] (short forms of patch and apply, retried updates).

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kube::api::{DeleteParams, PatchParams, PostParams};
use kube_client::{
    Event, HandlerOptions, Index, IndexDef, Object, ObjectKey, RegisterError, Registration, on_event, on_event_async,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::traits::{Informer, Writer};
use crate::write::{Deleted, Operation, Patch, Subresource, WriteError, merge_patch};

/// How often [`WriterExt::update_with_retry`] tries before it returns the conflict.
const UPDATE_ATTEMPTS: u32 = 5;

/// Closures as handlers and indexes. Implemented for every [`Informer`].
pub trait InformerExt<K: Object>: Informer<K> {
    /// Calls `f` for each event, in order. It must not block.
    fn on_event(&self, name: &'static str, f: impl FnMut(&Event<K>) + Send + 'static) -> Registration {
        self.add_handler(Box::new(on_event(f)), HandlerOptions::named(name))
    }

    /// Awaits `f` for each event, in order, before the next one.
    fn on_event_async<Fut>(&self, name: &'static str, f: impl FnMut(Event<K>) -> Fut + Send + 'static) -> Registration
    where
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.add_handler(Box::new(on_event_async(f)), HandlerOptions::named(name))
    }

    /// Adds a secondary index by the values that `extract` gives of an object (an `Option`, a `Vec`, any collection of text),
    /// at any time, before the start or later. Asking again at another place, or with a closure that captures something,
    /// is another definition: share an [`IndexDef`] through [`add_index`](Informer::add_index) then.
    ///
    /// ```no_run
    /// # fn example(pods: &kclient::Client<k8s_openapi::api::core::v1::Pod>) -> Result<(), kclient::RegisterError> {
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kclient::InformerExt;
    ///
    /// let by_node = pods.index("node", |pod: &Pod| pod.spec.as_ref()?.node_name.clone())?;
    /// println!("{} pods on n1", by_node.get("n1").len());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`RegisterError::IndexConflict`] if the name is taken by another definition.
    #[track_caller]
    fn index<F, V>(&self, name: &str, extract: F) -> Result<Index<K>, RegisterError>
    where
        F: Fn(&K) -> V + Send + Sync + 'static,
        V: IntoIterator<Item: Into<Arc<str>>>,
    {
        self.add_index(&IndexDef::new(name, extract))
    }
}

impl<K: Object, I: Informer<K> + ?Sized> InformerExt<K> for I {}

/// Short forms of writes. Implemented for every [`Writer`].
///
/// # Errors
///
/// All methods: [`WriteError`], as [`Writer`].
///
/// # Cancel safety
///
/// As [`Writer`].
#[async_trait]
pub trait WriterExt<K: Object>: Writer<K> {
    /// Creates with default options.
    async fn create_object(&self, object: &K) -> Result<K, WriteError> {
        self.create(object, &PostParams::default()).await
    }

    /// Replaces with default options.
    async fn update_object(&self, object: &K) -> Result<K, WriteError> {
        self.update(object, &PostParams::default()).await
    }

    /// Deletes with default options.
    async fn delete_object(&self, key: &ObjectKey) -> Result<Deleted<K>, WriteError> {
        self.delete(key, &DeleteParams::default()).await
    }

    /// Patches the status.
    async fn patch_status(&self, key: &ObjectKey, patch: &Patch, options: &PatchParams) -> Result<K, WriteError> {
        self.patch(key, patch, Subresource::Status, options).await
    }

    /// Server-side apply: `manager` wants exactly these fields of the object. `fields` needs `apiVersion` and `kind`; name and
    /// namespace are filled in from the key.
    async fn apply<F: Serialize + Sync>(&self, key: &ObjectKey, fields: &F, manager: &str) -> Result<K, WriteError> {
        let patch = Patch::Apply(applied(key, fields)?);
        self.patch(key, &patch, Subresource::Main, &PatchParams::apply(manager))
            .await
    }

    /// Server-side apply of the status.
    async fn apply_status<F: Serialize + Sync>(
        &self,
        key: &ObjectKey,
        fields: &F,
        manager: &str,
    ) -> Result<K, WriteError> {
        let patch = Patch::Apply(applied(key, fields)?);
        self.patch(key, &patch, Subresource::Status, &PatchParams::apply(manager))
            .await
    }

    /// Reads the object from the server, lets `edit` change it, and writes the difference; on a conflict, all over again.
    ///
    /// What is sent is a merge patch of what `edit` changed, with the resourceVersion that was read. So fields that `K` does
    /// not know survive, and no change of somebody else is overwritten. If `edit` changes nothing, nothing is sent.
    ///
    /// # Errors
    ///
    /// The last conflict if somebody else is faster five times; any other error at once.
    async fn update_with_retry<F>(&self, key: &ObjectKey, mut edit: F) -> Result<K, WriteError>
    where
        K: Clone + Serialize,
        F: FnMut(&mut K) + Send,
    {
        let mut attempt = 1;
        loop {
            let read = self.fetch(key).await?;
            let mut edited = read.clone();
            edit(&mut edited);
            let (before, after) = (
                to_json(Operation::Update, key, &read)?,
                to_json(Operation::Update, key, &edited)?,
            );
            let Some(mut patch) = merge_patch(&before, &after) else {
                return Ok(read);
            };
            let version = read.metadata().resource_version;
            if !version.is_empty() {
                // Indexing a JSON object inserts what is missing; the patch of two objects is an object.
                patch["metadata"]["resourceVersion"] = json!(version);
            }
            let written = self
                .patch(key, &Patch::Merge(patch), Subresource::Main, &PatchParams::default())
                .await;
            match written {
                Err(error) if error.is_conflict() && attempt < UPDATE_ATTEMPTS => {
                    // Let the other writer pass; the jitter keeps two retrying writers from meeting again.
                    tokio::time::sleep(Duration::from_millis(10 * u64::from(attempt)).mul_f64(1.0 + fastrand::f64()))
                        .await;
                    attempt += 1;
                }
                written => return written,
            }
        }
    }

    /// Creates the object that `initial` gives, or changes the one that there is, so that in both cases `edit` has been
    /// applied to it. As [`update_with_retry`](Self::update_with_retry) in all else: fields that `K` does not know survive,
    /// and whoever else creates or changes the object at the same time is taken account of.
    ///
    /// # Errors
    ///
    /// The last conflict if somebody else is faster five times; any other error at once.
    async fn create_or_update<N, F>(&self, key: &ObjectKey, mut initial: N, mut edit: F) -> Result<K, WriteError>
    where
        K: Clone + Serialize,
        N: FnMut() -> K + Send,
        F: FnMut(&mut K) + Send,
    {
        let mut attempt = 1;
        loop {
            let error = match self.update_with_retry(key, &mut edit).await {
                Err(error) if error.is_not_found() => {
                    let mut object = initial();
                    edit(&mut object);
                    match self.create(&object, &PostParams::default()).await {
                        // Somebody else was faster: there is one to update now.
                        Err(error) if error.is_already_exists() => error,
                        created => return created,
                    }
                }
                updated => return updated,
            };
            if attempt == UPDATE_ATTEMPTS {
                return Err(error);
            }
            attempt += 1;
        }
    }
}

impl<K: Object, W: Writer<K> + ?Sized> WriterExt<K> for W {}

/// The fields with the identity of the object, which the server wants in the body of an apply that creates.
fn applied<F: Serialize>(key: &ObjectKey, fields: &F) -> Result<Value, WriteError> {
    let mut fields = to_json(Operation::Patch, key, fields)?;
    if let Value::Object(object) = &mut fields {
        let metadata = object.entry("metadata").or_insert_with(|| json!({}));
        if let Value::Object(metadata) = metadata {
            metadata.entry("name").or_insert_with(|| json!(key.name()));
            if let Some(namespace) = key.namespace() {
                metadata.entry("namespace").or_insert_with(|| json!(namespace));
            }
        }
    }
    Ok(fields)
}

fn to_json<T: Serialize>(operation: Operation, key: &ObjectKey, object: &T) -> Result<Value, WriteError> {
    serde_json::to_value(object).map_err(|error| WriteError::Invalid {
        operation,
        kind: "object".to_owned(),
        key: key.clone(),
        reason: error.to_string(),
    })
}
