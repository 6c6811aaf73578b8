//! Updates that are tried again on a conflict: read, edit, send the difference.

use std::error::Error;
use std::time::Duration;

use kube::api::{PatchParams, PostParams};
use kube_client::{Object, ObjectKey};
use serde::Serialize;
use serde_json::{Value, json};

use super::error::{Operation, WriteError};
use super::merge::merge_patch;
use super::{Outcome, Patch, Subresource};
use crate::traits::Writer;

/// How often an update is tried before the conflict is returned.
const ATTEMPTS: u32 = 5;

/// What a function that edits an object may return: nothing, or a `Result` without a value, whose error ends the update
/// before anything is written.
pub trait EditOutcome: sealed::Sealed {
    /// The error, if there is one.
    #[doc(hidden)]
    fn refused(self) -> Result<(), Box<dyn Error + Send + Sync>>;
}

impl EditOutcome for () {
    fn refused(self) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> EditOutcome for Result<(), E> {
    fn refused(self) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.map_err(Into::into)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for () {}
    impl<E> Sealed for Result<(), E> {}
}

/// Reads, edits and patches the object or its status, again on a conflict. Never [`Outcome::Created`].
pub(crate) async fn update<K, W, F, R>(
    writer: &W,
    key: &ObjectKey,
    part: Subresource,
    edit: &mut F,
) -> Result<Outcome<K>, WriteError>
where
    K: Object + Clone + Serialize,
    W: Writer<K> + ?Sized,
    F: FnMut(&mut K) -> R + Send,
    R: EditOutcome,
{
    let mut attempt = 1;
    loop {
        let read = writer.fetch(key).await?;
        let Some(patch) = difference(key, part, &read, edit)? else {
            return Ok(Outcome::Unchanged(read));
        };
        let written = writer
            .patch(key, &Patch::Merge(patch), part, &PatchParams::default())
            .await;
        match written {
            Err(error) if error.is_conflict() && attempt < ATTEMPTS => {
                // Let the other writer pass; the jitter keeps two retrying writers from meeting again.
                let pause = Duration::from_millis(10 * u64::from(attempt)).mul_f64(1.0 + fastrand::f64());
                tokio::time::sleep(pause).await;
                attempt += 1;
            }
            written => return written.map(Outcome::Updated),
        }
    }
}

/// As [`update`] of the main part, and creates the object if there is none.
pub(crate) async fn create_or_update<K, W, N, F, R>(
    writer: &W,
    key: &ObjectKey,
    initial: &mut N,
    edit: &mut F,
) -> Result<Outcome<K>, WriteError>
where
    K: Object + Clone + Serialize,
    W: Writer<K> + ?Sized,
    N: FnMut() -> K + Send,
    F: FnMut(&mut K) -> R + Send,
    R: EditOutcome,
{
    let mut attempt = 1;
    loop {
        let error = match update(writer, key, Subresource::Main, edit).await {
            Err(error) if error.is_not_found() => {
                let mut object = initial();
                apply(Operation::Create, key, key, &mut object, edit)?;
                match writer.create(&object, &PostParams::default()).await {
                    // Somebody else was faster: there is one to update now.
                    Err(error) if error.is_already_exists() => error,
                    created => return created.map(Outcome::Created),
                }
            }
            updated => return updated,
        };
        if attempt == ATTEMPTS {
            return Err(error);
        }
        attempt += 1;
    }
}

/// What `edit` changes in the part, as a merge patch that holds for this version of the object only; `None` if nothing.
fn difference<K, F, R>(key: &ObjectKey, part: Subresource, read: &K, edit: &mut F) -> Result<Option<Value>, WriteError>
where
    K: Object + Clone + Serialize,
    F: FnMut(&mut K) -> R,
    R: EditOutcome,
{
    let operation = match part {
        Subresource::Status => Operation::UpdateStatus,
        _ => Operation::Update,
    };
    let mut edited = read.clone();
    apply(operation, key, &read.metadata().key(), &mut edited, edit)?;
    let (mut before, mut after) = (to_json(operation, key, read)?, to_json(operation, key, &edited)?);
    if part == Subresource::Status {
        before = json!({"status": before["status"]});
        after = json!({"status": after["status"]});
    }
    let Some(mut patch) = merge_patch(&before, &after) else {
        return Ok(None);
    };
    let version = read.metadata().resource_version;
    if !version.is_empty() {
        // Indexing a JSON object inserts what is missing; the patch of two objects is an object.
        patch["metadata"]["resourceVersion"] = json!(version);
    }
    Ok(Some(patch))
}

/// Calls `edit`, after which the object must be the one that is meant.
fn apply<K, F, R>(
    operation: Operation,
    key: &ObjectKey,
    meant: &ObjectKey,
    object: &mut K,
    edit: &mut F,
) -> Result<(), WriteError>
where
    K: Object,
    F: FnMut(&mut K) -> R,
    R: EditOutcome,
{
    edit(object).refused().map_err(|source| WriteError::Edit {
        operation,
        key: key.clone(),
        source,
    })?;
    let named = object.metadata().key();
    if named == *meant {
        return Ok(());
    }
    Err(WriteError::Invalid {
        operation,
        kind: "object".to_owned(),
        key: key.clone(),
        reason: format!("what is to be written is named {named}"),
    })
}

/// An object, or a part of one, as JSON.
pub(crate) fn to_json<T: Serialize>(operation: Operation, key: &ObjectKey, object: &T) -> Result<Value, WriteError> {
    serde_json::to_value(object).map_err(|error| WriteError::Invalid {
        operation,
        kind: "object".to_owned(),
        key: key.clone(),
        reason: error.to_string(),
    })
}
