//! `TestWriter`: writes that fail the test by themselves.

use std::error::Error;
use std::fmt;
use std::ops::Deref;
use std::panic::Location;
use std::sync::Arc;

use kube::api::{DeleteParams, PatchParams, PostParams};
use kube_client::{Object, ObjectKey, ParseKeyError};
use serde::Serialize;
use serde_json::Value;

use crate::client::WriteClient;
use crate::ext::WriterExt;
use crate::traits::Writer;
use crate::write::{Deleted, Patch, Subresource, WriteError};

/// A writer for tests: its methods return what the server stored, and panic with the error. Over any [`Writer`], a
/// [`Client`](crate::Client) or a mock.
///
/// It dereferences to the writer below, so what a client reads is at hand as well, and a method that a test expects to fail is
/// called there: `(*pods).create(…)`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kclient::testing::{TestClient, TestWriter};
/// use serde_json::json;
///
/// let cluster = TestClient::fake();
/// let maps = TestWriter::<ConfigMap>::new(&cluster).in_namespace("default");
/// let mut settings = ConfigMap::default();
/// settings.metadata.name = Some("settings".to_owned());
///
/// let created = maps.create(&settings).await;
/// assert_eq!(created.metadata.namespace.as_deref(), Some("default"));
/// maps.merge("settings", json!({"data": {"color": "red"}})).await;
/// let edited = maps.edit("settings", |map| map.immutable = Some(true)).await;
/// assert_eq!(edited.data.expect("what was merged")["color"], "red");
/// maps.delete("settings").await;
/// # }
/// ```
///
/// # Panics
///
/// All methods, if the write fails: with the error, which names operation, kind and object, its causes, and the caller.
///
/// # Cancel safety
///
/// As [`Writer`].
pub struct TestWriter<K: Object, W = WriteClient<K>> {
    writer: W,
    default: Option<DefaultNamespace<K>>,
}

/// Where objects and keys go that do not say it.
struct DefaultNamespace<K> {
    name: Arc<str>,
    // Makes a copy of the object in the namespace.
    place: fn(&K, &str) -> K,
}

/// What names an object in a test: an [`ObjectKey`], or text as `namespace/name` or `name`.
pub trait IntoKey {
    /// The key.
    ///
    /// # Errors
    ///
    /// If the text is no key.
    fn into_key(self) -> Result<ObjectKey, ParseKeyError>;
}

impl IntoKey for &str {
    fn into_key(self) -> Result<ObjectKey, ParseKeyError> {
        self.parse()
    }
}

impl IntoKey for ObjectKey {
    fn into_key(self) -> Result<ObjectKey, ParseKeyError> {
        Ok(self)
    }
}

impl IntoKey for &ObjectKey {
    fn into_key(self) -> Result<ObjectKey, ParseKeyError> {
        Ok(self.clone())
    }
}

impl<K: Object + Serialize> TestWriter<K> {
    /// Writes to a cluster, past every cache and watch: a user of the cluster who is not the controller.
    pub fn new(cluster: &kube_client::Client) -> Self
    where
        K::DynamicType: Default,
    {
        Self::over(WriteClient::new(cluster))
    }
}

impl<K: Object, W: Writer<K>> TestWriter<K, W> {
    /// Writes by means of a client, or of anything else that writes.
    pub fn over(writer: W) -> Self {
        Self { writer, default: None }
    }

    /// Where objects and keys go that name no namespace. Not for cluster-scoped kinds: they would be refused.
    #[must_use]
    pub fn in_namespace(mut self, namespace: impl Into<Arc<str>>) -> Self
    where
        K: kube::Resource + Clone,
    {
        self.default = Some(DefaultNamespace {
            name: namespace.into(),
            place: |object, namespace| {
                let mut object = object.clone();
                object.meta_mut().namespace = Some(namespace.to_owned());
                object
            },
        });
        self
    }

    /// Creates an object.
    #[track_caller]
    pub fn create(&self, object: &K) -> impl Future<Output = K> + Send {
        let (caller, placed) = (Location::caller(), self.placed(object));
        async move {
            let object = placed.as_ref().unwrap_or(object);
            done(caller, self.writer.create(object, &PostParams::default()).await)
        }
    }

    /// Replaces an object.
    #[track_caller]
    pub fn update(&self, object: &K) -> impl Future<Output = K> + Send {
        let (caller, placed) = (Location::caller(), self.placed(object));
        async move {
            let object = placed.as_ref().unwrap_or(object);
            done(caller, self.writer.update(object, &PostParams::default()).await)
        }
    }

    /// Replaces the status of an object.
    #[track_caller]
    pub fn update_status(&self, object: &K) -> impl Future<Output = K> + Send {
        let (caller, placed) = (Location::caller(), self.placed(object));
        async move {
            let object = placed.as_ref().unwrap_or(object);
            done(caller, self.writer.update_status(object, &PostParams::default()).await)
        }
    }

    /// Creates an object, or replaces the one that is there.
    #[track_caller]
    pub fn create_or_replace(&self, object: &K) -> impl Future<Output = K> + Send {
        let (caller, placed) = (Location::caller(), self.placed(object));
        async move {
            let (object, options) = (placed.as_ref().unwrap_or(object), PostParams::default());
            match self.writer.create(object, &options).await {
                Err(error) if error.is_already_exists() => done(caller, self.writer.update(object, &options).await),
                created => done(caller, created),
            }
        }
    }

    /// Patches an object, in any of the four languages. An apply is made under the field manager `test`.
    #[track_caller]
    pub fn patch(&self, key: impl IntoKey, patch: Patch) -> impl Future<Output = K> + Send {
        self.patch_at(Location::caller(), key, patch, Subresource::Main)
    }

    /// Patches the status of an object. An apply is made under the field manager `test`.
    #[track_caller]
    pub fn patch_status(&self, key: impl IntoKey, patch: Patch) -> impl Future<Output = K> + Send {
        self.patch_at(Location::caller(), key, patch, Subresource::Status)
    }

    /// Changes these fields of an object, by a merge patch.
    #[track_caller]
    pub fn merge(&self, key: impl IntoKey, fields: Value) -> impl Future<Output = K> + Send {
        self.patch_at(Location::caller(), key, Patch::Merge(fields), Subresource::Main)
    }

    /// Changes these fields of an object in its status, by a merge patch: `json!({"status": {…}})`.
    #[track_caller]
    pub fn merge_status(&self, key: impl IntoKey, fields: Value) -> impl Future<Output = K> + Send {
        self.patch_at(Location::caller(), key, Patch::Merge(fields), Subresource::Status)
    }

    /// Reads the object from the server, changes it, and writes what changed: see
    /// [`update_with_retry`](WriterExt::update_with_retry).
    #[track_caller]
    pub fn edit(&self, key: impl IntoKey, edit: impl FnMut(&mut K) + Send) -> impl Future<Output = K> + Send
    where
        K: Clone + Serialize,
    {
        let (caller, key) = (Location::caller(), self.key(Location::caller(), key));
        async move { done(caller, self.writer.update_with_retry(&key, edit).await) }
    }

    /// Reads the object from the server, past the cache.
    #[track_caller]
    pub fn fetch(&self, key: impl IntoKey) -> impl Future<Output = K> + Send {
        let (caller, key) = (Location::caller(), self.key(Location::caller(), key));
        async move { done(caller, self.writer.fetch(&key).await) }
    }

    /// Deletes an object.
    #[track_caller]
    pub fn delete(&self, key: impl IntoKey) -> impl Future<Output = Deleted<K>> + Send {
        self.delete_at(Location::caller(), key, DeleteParams::default())
    }

    /// Deletes an object without the grace period that pods on a real cluster have. Finalizers still hold it.
    #[track_caller]
    pub fn delete_now(&self, key: impl IntoKey) -> impl Future<Output = Deleted<K>> + Send {
        self.delete_at(Location::caller(), key, DeleteParams::default().grace_period(0))
    }

    fn patch_at(
        &self,
        caller: &'static Location<'static>,
        key: impl IntoKey,
        patch: Patch,
        subresource: Subresource,
    ) -> impl Future<Output = K> + Send {
        let key = self.key(caller, key);
        let options = match &patch {
            Patch::Apply(_) => PatchParams::apply("test"),
            _ => PatchParams::default(),
        };
        async move { done(caller, self.writer.patch(&key, &patch, subresource, &options).await) }
    }

    fn delete_at(
        &self,
        caller: &'static Location<'static>,
        key: impl IntoKey,
        options: DeleteParams,
    ) -> impl Future<Output = Deleted<K>> + Send {
        let key = self.key(caller, key);
        async move { done(caller, self.writer.delete(&key, &options).await) }
    }

    /// The object in the default namespace, if it needs one.
    fn placed(&self, object: &K) -> Option<K> {
        let default = self.default.as_ref()?;
        let nowhere = object.metadata().namespace.is_none_or(str::is_empty);
        nowhere.then(|| (default.place)(object, &default.name))
    }

    fn key(&self, caller: &Location<'_>, key: impl IntoKey) -> ObjectKey {
        let mut key = match key.into_key() {
            Ok(key) => key,
            Err(error) => panic!("{error} (at {caller})"),
        };
        if let (None, Some(default)) = (&key.namespace, &self.default) {
            key.namespace = Some(Arc::clone(&default.name));
        }
        key
    }
}

fn done<T>(caller: &Location<'_>, outcome: Result<T, WriteError>) -> T {
    match outcome {
        Ok(value) => value,
        Err(error) => panic!("{} (at {caller})", with_causes(&error)),
    }
}

/// The error and its causes in one line. Some repeat their cause in their own text; that is left out.
fn with_causes(error: &dyn Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
        cause = error.source();
    }
    text
}

impl<K: Object, W> Deref for TestWriter<K, W> {
    type Target = W;

    fn deref(&self) -> &W {
        &self.writer
    }
}

impl<K: Object, W: Clone> Clone for TestWriter<K, W> {
    fn clone(&self) -> Self {
        Self {
            writer: self.writer.clone(),
            default: self.default.as_ref().map(|default| DefaultNamespace {
                name: Arc::clone(&default.name),
                place: default.place,
            }),
        }
    }
}

impl<K: Object, W: fmt::Debug> fmt::Debug for TestWriter<K, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestWriter")
            .field("writer", &self.writer)
            .field("namespace", &self.default.as_ref().map(|default| &default.name))
            .finish()
    }
}
