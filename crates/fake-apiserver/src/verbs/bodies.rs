//! Bodies that are of another kind than the resource that they are posted to, and questions that nobody stores.

use std::sync::Arc;

use serde_json::Value;

use super::Context;
use super::write::{self, WriteOptions};
use crate::kinds::{self, Resource};
use crate::namespaces;
use crate::negotiate::Shape;
use crate::object::Object;
use crate::status::Status;

/// What was posted.
#[derive(Debug)]
pub(super) struct Posted {
    pub(super) object: Object,
    pub(super) options: WriteOptions,
    pub(super) warnings: Vec<String>,
}

/// The resource that bodies of a kind are read as.
///
/// # Errors
/// 404 if the kind is not known.
pub(super) fn kind(group: &'static str, version: &'static str, kind: &'static str) -> Result<Arc<Resource>, Status> {
    kinds::of_body(group, version, kind)
        .map(Arc::new)
        .ok_or_else(Status::unknown_resource)
}

/// Reads what was posted as an object of `kind`.
///
/// # Errors
/// 400, 406, 413, 415, 422.
pub(super) fn read(context: Context<'_>, kind: &Arc<Resource>) -> Result<Posted, Status> {
    // What cannot be shown at all is refused before anything is done.
    context.view(Shape::Object)?;
    let of_kind = Context {
        resource: kind,
        ..context
    };
    write::content_type(of_kind)?;
    write::check_size(of_kind)?;
    let options = write::options(of_kind, "CreateOptions")?;
    let decoded = write::body(of_kind, options)?;
    write::check_version(&decoded)?;
    let mut object = decoded.object;
    write::settle_namespace(kind, context.namespace(), &mut object)?;
    object.meta.deletion_timestamp = None;
    object.meta.deletion_grace_period_seconds = None;
    Ok(Posted {
        object,
        options,
        warnings: decoded.warnings,
    })
}

/// Checks that something may be created in the namespace of the path.
///
/// # Errors
/// 403 and 404.
pub(super) fn check_namespace(context: Context<'_>, object: &Object) -> Result<(), Status> {
    namespaces::check_create(context.server, context.subject(), object)
}

/// A field of an object; null if it is absent. What is stored and what was decoded is JSON.
pub(super) fn field(object: &Object, name: &str) -> Value {
    let bytes = object.field(name);
    bytes
        .and_then(|bytes| serde_json::from_slice(bytes).ok())
        .unwrap_or_default()
}
