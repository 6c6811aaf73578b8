//! Reads one object.

use super::Context;
use super::options::{Version, parse_version};
use crate::answer::Answer;
use crate::negotiate::Shape;
use crate::status::Status;
use crate::storage::{Revision, Versioned};
use crate::stored::Stored;

/// `GET` of one object, or of a subresource that shows the whole object.
///
/// # Errors
/// 404, 406, 500 for a resourceVersion that is no number, 504 for one in the future.
pub(super) async fn get(context: Context<'_>) -> Result<Answer, Status> {
    let view = context.view(Shape::Object)?;
    let version = version(context).await?;
    Ok(Answer::json(200, view.get()?.object(&version.object, version.rv)))
}

/// The object that the path names, at least as new as the request asks for.
///
/// # Errors
/// As for [`get`], but for 406.
pub(super) async fn version(context: Context<'_>) -> Result<Versioned<Stored>, Status> {
    context.check_key(context.name())?;
    if context.request.query.flag("export") {
        let text = "the export parameter, deprecated since v1.14, is no longer supported";
        return Err(Status::bad_request(text));
    }
    let raw = context.request.query.get("resourceVersion").unwrap_or_default();
    let bad = |text: String| {
        // The store has another text than the cache.
        if !context.is_cached() {
            return Status::bad_request(format!("invalid resource version: {text}"));
        }
        Status::untyped(text)
    };
    let storage = &context.server.storage;
    let seen = match parse_version(raw).map_err(bad)? {
        Version::Unset => Revision::MAX,
        Version::Any => context.seen(),
        Version::At(rv) => {
            context.wait_for_revision(rv).await?;
            context.seen()
        }
    };
    let stored = if seen == Revision::MAX {
        storage.get(context.id, &context.key())
    } else {
        storage.get_seen(context.id, &context.key(), seen)
    };
    stored.ok_or_else(|| context.absent())
}
