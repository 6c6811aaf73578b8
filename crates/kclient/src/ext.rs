//! Conveniences over the traits, for every client and mock alike.
//!
//! Owns: [`InformerExt`] (closures as handlers and indexes) and [`WriterExt`] (short forms of patch and apply, retried updates,
//! subresources by type). How updates are retried is in [`crate::write::retry`].

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::autoscaling::v1::Scale;
use kube::api::{DeleteParams, PatchParams, PostParams};
use kube_client::{
    Event, HandlerOptions, Index, IndexDef, Object, ObjectKey, RegisterError, Registration, on_event, on_event_async,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::traits::{Informer, Writer};
use crate::write::retry::{self, EditOutcome, to_json};
use crate::write::{Absence, Deleted, Operation, Outcome, Patch, Subresource, SubresourceCall, WriteError, brief};

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

    /// Server-side apply: the field manager of the options wants exactly these fields of the object. `fields` needs `apiVersion`
    /// and `kind`, which typed objects have; name and namespace are filled in from the key.
    ///
    /// ```no_run
    /// # async fn example(maps: &kclient::Client<k8s_openapi::api::core::v1::ConfigMap>) -> Result<(), kclient::WriteError> {
    /// use kclient::{ObjectKey, PatchParams, WriterExt};
    /// use serde_json::json;
    ///
    /// let key = ObjectKey::namespaced("default", "settings");
    /// let wanted = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"colour": "blue"}});
    /// // What another manager owns is taken from it: usual for a controller, which would only ask again.
    /// maps.apply(&key, &wanted, &PatchParams::apply("painter").force()).await?;
    /// # Ok(())
    /// # }
    /// ```
    async fn apply<F: Serialize + Sync>(
        &self,
        key: &ObjectKey,
        fields: &F,
        options: &PatchParams,
    ) -> Result<K, WriteError> {
        let patch = Patch::Apply(applied(key, fields)?);
        self.patch(key, &patch, Subresource::Main, options).await
    }

    /// Server-side apply of the status.
    async fn apply_status<F: Serialize + Sync>(
        &self,
        key: &ObjectKey,
        fields: &F,
        options: &PatchParams,
    ) -> Result<K, WriteError> {
        let patch = Patch::Apply(applied(key, fields)?);
        self.patch(key, &patch, Subresource::Status, options).await
    }

    /// Reads the object from the server, lets `edit` change it, and writes the difference; on a conflict, all over again.
    ///
    /// `edit` returns nothing, or a `Result`: its error ends it all, and nothing is written.
    ///
    /// # Guarantees
    ///
    /// - No change of somebody else is overwritten: what is sent holds for the resourceVersion that was read. (Objects without
    ///   one, of some aggregated APIs or of a type that does not tell it, are written all the same.)
    /// - Fields that `K` does not know survive: what is sent is a merge patch of what `edit` changed. Merge patches replace lists
    ///   as a whole, so where `edit` changes something inside a list, the items keep only what `K` knows of them.
    /// - If `edit` changes nothing, nothing is sent.
    /// - The status is not written, for kinds that have it as a subresource: that is
    ///   [`update_status_with_retry`](Self::update_status_with_retry).
    ///
    /// # Errors
    ///
    /// The last conflict if somebody else is faster five times; any other error at once. [`WriteError::Edit`] if `edit` gives
    /// up, [`WriteError::Invalid`] if it changes the name or the namespace.
    async fn update_with_retry<F, R>(&self, key: &ObjectKey, mut edit: F) -> Result<K, WriteError>
    where
        K: Clone + Serialize,
        F: FnMut(&mut K) -> R + Send,
        R: EditOutcome,
    {
        let updated = retry::update(self, key, Subresource::Main, &mut edit).await;
        updated.map(Outcome::into_object)
    }

    /// As [`update_with_retry`](Self::update_with_retry), for the status: what else `edit` changes is not sent.
    ///
    /// # Errors
    ///
    /// As there; not found also if the kind has no status subresource.
    async fn update_status_with_retry<F, R>(&self, key: &ObjectKey, mut edit: F) -> Result<K, WriteError>
    where
        K: Clone + Serialize,
        F: FnMut(&mut K) -> R + Send,
        R: EditOutcome,
    {
        let updated = retry::update(self, key, Subresource::Status, &mut edit).await;
        updated.map(Outcome::into_object)
    }

    /// Creates the object that `initial` gives, or changes the one that there is, so that in both cases `edit` has been
    /// applied to it. What was done is the [`Outcome`].
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # async fn example(maps: &kclient::Client<ConfigMap>, team: &ConfigMap) -> Result<(), Box<dyn std::error::Error>> {
    /// use kclient::owner::Owner;
    /// use kclient::{ObjectKey, Outcome, WriterExt};
    ///
    /// let (key, owner) = (ObjectKey::namespaced("default", "settings"), Owner::new(team)?);
    /// let initial = || {
    ///     let mut settings = ConfigMap::default();
    ///     settings.metadata.name = Some("settings".to_owned());
    ///     settings.metadata.namespace = Some("default".to_owned());
    ///     settings
    /// };
    /// let outcome = maps
    ///     .create_or_update(&key, initial, |settings| {
    ///         settings.data = Some([("colour".to_owned(), "blue".to_owned())].into());
    ///         owner.controls(settings)
    ///     })
    ///     .await?;
    /// if let Outcome::Created(settings) = outcome {
    ///     println!("made {:?}", settings.metadata.uid);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Guarantees
    ///
    /// Those of [`update_with_retry`](Self::update_with_retry); and whoever else creates, changes or deletes the object at the
    /// same time is taken account of. An object that is being deleted is changed as any other, and goes.
    ///
    /// # Errors
    ///
    /// As [`update_with_retry`](Self::update_with_retry); [`WriteError::Invalid`] also if `initial` gives an object of another
    /// name or namespace than the key's.
    async fn create_or_update<N, F, R>(
        &self,
        key: &ObjectKey,
        mut initial: N,
        mut edit: F,
    ) -> Result<Outcome<K>, WriteError>
    where
        K: Clone + Serialize,
        N: FnMut() -> K + Send,
        F: FnMut(&mut K) -> R + Send,
        R: EditOutcome,
    {
        retry::create_or_update(self, key, &mut initial, &mut edit).await
    }

    /// Deletes the object if it is there. That it is not, nor its namespace or kind, is a success; so it is if the options ask
    /// for a uid by [`Preconditions`](crate::Preconditions) and the object has another: the one that was meant is gone.
    ///
    /// It does not wait: finalizers or a grace period may keep the object, and the watch tells when it is gone.
    ///
    /// # Errors
    ///
    /// Every other error; a conflict if the options ask for another resourceVersion than the object has.
    async fn ensure_absent(&self, key: &ObjectKey, options: &DeleteParams) -> Result<Absence<K>, WriteError> {
        let error = match self.delete(key, options).await {
            Ok(deleted) => return Ok(Absence::Deleted(deleted)),
            Err(error) if error.is_not_found() => return Ok(Absence::Already),
            Err(error) => error,
        };
        let wanted = options.preconditions.as_ref().and_then(|only| only.uid.as_deref());
        let (true, Some(uid)) = (error.is_conflict(), wanted) else {
            return Err(error);
        };
        // The uid or the resourceVersion did not fit. Which one, only the object tells.
        match self.fetch(key).await {
            Ok(found) if found.metadata().uid == uid => Err(error),
            Ok(_other) => Ok(Absence::Already),
            Err(error) if error.is_not_found() => Ok(Absence::Already),
            Err(error) => Err(error),
        }
    }

    /// Reads a subresource that has a form of its own, such as `scale`.
    async fn get_subresource<A: DeserializeOwned>(&self, key: &ObjectKey, name: &str) -> Result<A, WriteError> {
        let answer = self.subresource(key, name, &SubresourceCall::Get).await?;
        from_json(Operation::Fetch, key, name, answer)
    }

    /// Creates a subresource: the eviction or the binding of a pod, the token of a service account.
    ///
    /// ```no_run
    /// # async fn example(pods: &kclient::Client<k8s_openapi::api::core::v1::Pod>) -> Result<(), kclient::WriteError> {
    /// use k8s_openapi::api::policy::v1::Eviction;
    /// use kclient::{ObjectKey, PostParams, WriterExt};
    ///
    /// let key = ObjectKey::namespaced("default", "web-0");
    /// let mut eviction = Eviction::default();
    /// eviction.metadata.name = Some("web-0".to_owned());
    /// eviction.metadata.namespace = Some("default".to_owned());
    /// match pods.create_subresource::<_, kube::core::Status>(&key, "eviction", &eviction, &PostParams::default()).await {
    ///     Err(error) if error.is_too_many_requests() => println!("a disruption budget says: later"),
    ///     answer => println!("evicted: {}", answer?.is_success()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    async fn create_subresource<B: Serialize + Sync, A: DeserializeOwned>(
        &self,
        key: &ObjectKey,
        name: &str,
        body: &B,
        options: &PostParams,
    ) -> Result<A, WriteError> {
        let call = SubresourceCall::Create(to_json(Operation::Create, key, body)?, options.clone());
        let answer = self.subresource(key, name, &call).await?;
        from_json(Operation::Create, key, name, answer)
    }

    /// Replaces a subresource that has a form of its own.
    async fn replace_subresource<B: Serialize + Sync, A: DeserializeOwned>(
        &self,
        key: &ObjectKey,
        name: &str,
        body: &B,
        options: &PostParams,
    ) -> Result<A, WriteError> {
        let call = SubresourceCall::Replace(to_json(Operation::Update, key, body)?, options.clone());
        let answer = self.subresource(key, name, &call).await?;
        from_json(Operation::Update, key, name, answer)
    }

    /// Patches a subresource that has a form of its own.
    async fn patch_subresource<A: DeserializeOwned>(
        &self,
        key: &ObjectKey,
        name: &str,
        patch: &Patch,
        options: &PatchParams,
    ) -> Result<A, WriteError> {
        let call = SubresourceCall::Patch(patch.clone(), options.clone());
        let answer = self.subresource(key, name, &call).await?;
        from_json(Operation::Patch, key, name, answer)
    }

    /// How many replicas are wanted and how many there are, of a kind with the `scale` subresource.
    async fn scale(&self, key: &ObjectKey) -> Result<Scale, WriteError> {
        self.get_subresource(key, "scale").await
    }

    /// Asks for so many replicas, of a kind with the `scale` subresource. A negative number is refused by the server.
    async fn set_scale(&self, key: &ObjectKey, replicas: i32) -> Result<Scale, WriteError> {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        self.patch_subresource(key, "scale", &patch, &PatchParams::default())
            .await
    }
}

impl<K: Object, W: Writer<K> + ?Sized> WriterExt<K> for W {}

/// The fields with the identity of the object, which the server wants in the body of an apply that creates.
fn applied<F: Serialize>(key: &ObjectKey, fields: &F) -> Result<Value, WriteError> {
    let mut fields = to_json(Operation::Patch, key, fields)?;
    let Value::Object(object) = &mut fields else {
        return Err(WriteError::Invalid {
            operation: Operation::Patch,
            kind: "object".to_owned(),
            key: key.clone(),
            reason: "what is to be applied is no JSON object".to_owned(),
        });
    };
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    if let Value::Object(metadata) = metadata {
        metadata.entry("name").or_insert_with(|| json!(key.name()));
        if let Some(namespace) = key.namespace() {
            metadata.entry("namespace").or_insert_with(|| json!(namespace));
        }
    }
    Ok(fields)
}

/// The answer of a subresource as its type.
fn from_json<A: DeserializeOwned>(
    operation: Operation,
    key: &ObjectKey,
    name: &str,
    answer: Value,
) -> Result<A, WriteError> {
    serde_json::from_value(answer).map_err(|source| WriteError::Answer {
        operation,
        kind: name.to_owned(),
        key: key.clone(),
        source: brief(source),
    })
}
