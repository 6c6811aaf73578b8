//! Finalizers: an object stays until what belongs to it is cleaned up.
//!
//! Owns: [`finalizer`], for use in a reconciler. It has the shape and the promise of `kube`'s `runtime::finalizer`, and writes
//! through a [`Writer`], so that it works with mocks, delayed clients and typed errors.

use std::future::Future;
use std::sync::Arc;

use kube::api::PatchParams;
use kube_client::{Object, ObjectKey};
use serde_json::{Value, json};

use crate::queue::{Action, ReconcileError};
use crate::traits::Writer;
use crate::write::{Operation, Patch, Subresource, WriteError};

/// How often a write is decided anew because the object had changed.
const ATTEMPTS: u32 = 5;

/// What is to be done for an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<K> {
    /// Bring the world in line with the object. Called for every change and after every error, so it must be idempotent.
    Apply(Arc<K>),
    /// The object is being deleted: remove what belongs to it. Called until it succeeds, perhaps more than once, also if nothing
    /// was ever applied.
    Cleanup(Arc<K>),
}

/// Reconciles an object that must be cleaned up after: puts the finalizer `name` on it before the first
/// [`Event::Apply`], and takes it away after [`Event::Cleanup`]. To be called with each object that is reconciled, as the only
/// thing that the reconciler does.
///
/// ```
/// use std::sync::Arc;
///
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kclient::finalizer::{Event, finalizer};
/// use kclient::queue::{Action, ReconcileError};
/// use kclient::{ObjectKey, Reader, Writer};
///
/// async fn reconcile(
///     maps: &(impl Reader<ConfigMap> + Writer<ConfigMap>),
///     key: &ObjectKey,
/// ) -> Result<Action, ReconcileError> {
///     let Some(map) = maps.get(key) else {
///         return Ok(Action::Done); // gone, and cleaned up after
///     };
///     finalizer(maps, "example.com/bucket", map, |event| async move {
///         match event {
///             Event::Apply(map) => println!("make a bucket for {:?}", map.metadata.name),
///             Event::Cleanup(map) => println!("remove the bucket of {:?}", map.metadata.name),
///         }
///         Ok(Action::Done)
///     })
///     .await
/// }
/// ```
///
/// # Guarantees
///
/// - Once an `Apply` has begun, the object is not gone before a `Cleanup` has succeeded (unless somebody else takes the finalizer
///   away).
/// - A `Cleanup` that returns [`Action::RequeueAfter`] has not succeeded yet: the finalizer stays, and the key comes again.
/// - `Apply` gets the object with its finalizer. The first one is called at once, with what the server answered, so a handler that
///   does not tell of the finalizer's arrival, as those that look at the spec alone, loses nothing.
/// - The object that is given may be old, as what a cache holds. The finalizers of others are never touched: what is written
///   holds for the finalizers of this very object, as they are; if they have changed, the object is read and it is decided anew.
/// - An object that is being deleted and does not have the finalizer, or is gone, is done with.
///
/// # Errors
///
/// Those of `reconcile` as they are, terminal ones included; a failed `Cleanup` keeps the finalizer. [`WriteError`] if the finalizer
/// cannot be put on or taken away; terminal if the name is empty.
///
/// # Cancel safety
///
/// Dropped at any point, it can be called again: at worst something is applied or cleaned up a second time.
pub async fn finalizer<K, W, F, Fut>(
    writer: &W,
    name: &str,
    object: Arc<K>,
    reconcile: F,
) -> Result<Action, ReconcileError>
where
    K: Object + kube::Resource,
    W: Writer<K> + ?Sized,
    F: FnOnce(Event<K>) -> Fut,
    Fut: Future<Output = Result<Action, ReconcileError>>,
{
    if name.is_empty() {
        let error = WriteError::Invalid {
            operation: Operation::Patch,
            kind: "object".to_owned(),
            key: object.metadata().key(),
            reason: "a finalizer without a name".to_owned(),
        };
        return Err(ReconcileError::from(error).terminal());
    }
    let deleting = object.metadata().deleting;
    match (position(&*object, name), deleting) {
        (Some(_), false) => reconcile(Event::Apply(object)).await,
        (Some(_), true) => {
            let action = reconcile(Event::Cleanup(Arc::clone(&object))).await?;
            if action == Action::Done {
                remove(writer, name, object).await?;
            }
            Ok(action)
        }
        (None, false) => match add(writer, name, object).await? {
            Some(object) => reconcile(Event::Apply(object)).await,
            None => Ok(Action::Done),
        },
        (None, true) => Ok(Action::Done),
    }
}

/// The object with the finalizer; `None` if it is gone or going.
async fn add<K, W>(writer: &W, name: &str, object: Arc<K>) -> Result<Option<Arc<K>>, WriteError>
where
    K: Object + kube::Resource,
    W: Writer<K> + ?Sized,
{
    let key = object.metadata().key();
    let (mut object, mut attempt) = (object, 1);
    loop {
        let error = match patch(writer, &key, addition(&*object, name)).await {
            Ok(patched) => return Ok(Some(Arc::new(patched))),
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => error,
        };
        let Some(fresh) = changed(writer, &key, &*object, error, attempt).await? else {
            return Ok(None);
        };
        if fresh.metadata().deleting {
            // Whoever put our finalizer on it in the meantime told the watch, too.
            return Ok(None);
        }
        if position(&fresh, name).is_some() {
            return Ok(Some(Arc::new(fresh)));
        }
        object = Arc::new(fresh);
        attempt += 1;
    }
}

async fn remove<K, W>(writer: &W, name: &str, object: Arc<K>) -> Result<(), WriteError>
where
    K: Object + kube::Resource,
    W: Writer<K> + ?Sized,
{
    let key = object.metadata().key();
    let uid = object.metadata().uid.to_owned();
    let (mut object, mut attempt) = (object, 1);
    while let Some(at) = position(&*object, name) {
        let error = match patch(writer, &key, removal(&*object, at, name)).await {
            Ok(_patched) => return Ok(()),
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => error,
        };
        match changed(writer, &key, &*object, error, attempt).await? {
            // Not another object of the same name: that one was not cleaned up after.
            Some(fresh) if fresh.metadata().uid == uid => object = Arc::new(fresh),
            _ => return Ok(()),
        }
        attempt += 1;
    }
    Ok(())
}

/// After a write was refused: the object as it is on the server, if that explains the refusal; `None` if it is gone.
async fn changed<K, W>(
    writer: &W,
    key: &ObjectKey,
    seen: &K,
    error: WriteError,
    attempt: u32,
) -> Result<Option<K>, WriteError>
where
    K: Object + kube::Resource,
    W: Writer<K> + ?Sized,
{
    // A test that fails is an object that is invalid, to the server.
    if attempt == ATTEMPTS || !(error.is_invalid() || error.is_conflict()) {
        return Err(error);
    }
    let fresh = match writer.fetch(key).await {
        Ok(fresh) => fresh,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    let (now, then) = (fresh.metadata(), seen.metadata());
    if now.uid == then.uid && now.deleting == then.deleting && finalizers(&fresh) == finalizers(seen) {
        return Err(error);
    }
    Ok(Some(fresh))
}

async fn patch<K, W>(writer: &W, key: &ObjectKey, operations: Vec<Value>) -> Result<K, WriteError>
where
    K: Object,
    W: Writer<K> + ?Sized,
{
    let operations = serde_json::from_value(Value::Array(operations)).map_err(|error| WriteError::Invalid {
        operation: Operation::Patch,
        kind: "object".to_owned(),
        key: key.clone(),
        reason: error.to_string(),
    })?;
    writer
        .patch(
            key,
            &Patch::Json(operations),
            Subresource::Main,
            &PatchParams::default(),
        )
        .await
}

/// The operations that hold for this object only. Empty lists are missing ones, to the server.
fn addition<K: Object + kube::Resource>(object: &K, name: &str) -> Vec<Value> {
    let mut operations = same_object(object);
    let known = finalizers(object);
    if known.is_empty() {
        operations.push(json!({"op": "test", "path": "/metadata/finalizers", "value": null}));
        operations.push(json!({"op": "add", "path": "/metadata/finalizers", "value": [name]}));
    } else {
        operations.push(json!({"op": "test", "path": "/metadata/finalizers", "value": known}));
        operations.push(json!({"op": "add", "path": "/metadata/finalizers/-", "value": name}));
    }
    operations
}

fn removal<K: Object + kube::Resource>(object: &K, at: usize, name: &str) -> Vec<Value> {
    let path = format!("/metadata/finalizers/{at}");
    let mut operations = same_object(object);
    operations.push(json!({"op": "test", "path": path, "value": name}));
    operations.push(json!({"op": "remove", "path": path}));
    operations
}

/// A test that nobody has replaced the object by another of its name.
fn same_object<K: Object>(object: &K) -> Vec<Value> {
    match object.metadata().uid {
        "" => Vec::new(),
        uid => vec![json!({"op": "test", "path": "/metadata/uid", "value": uid})],
    }
}

fn finalizers<K: kube::Resource>(object: &K) -> &[String] {
    object.meta().finalizers.as_deref().unwrap_or_default()
}

fn position<K: kube::Resource>(object: &K, name: &str) -> Option<usize> {
    finalizers(object).iter().position(|finalizer| finalizer == name)
}
