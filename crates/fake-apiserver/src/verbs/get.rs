//! Reads one object.

use super::options::{Version, parse_version};
use super::{Context, WantedView};
use crate::answer::Answer;
use crate::negotiate::Shape;
use crate::status::Status;

/// `GET` of one object.
///
/// # Errors
/// 404, 406, 500 for a resourceVersion that is no number, 504 for one in the future.
pub(super) async fn get(context: Context<'_>) -> Result<Answer, Status> {
    let view = context.view(Shape::Object)?;
    let raw = context.request.query.get("resourceVersion").unwrap_or_default();
    if let Version::At(rv) = parse_version(raw).map_err(Status::untyped)? {
        context.server.wait_for_revision(rv).await?;
    }
    read(context, &view)
}

/// `GET` of one object, or of a subresource that shows the whole object.
///
/// # Errors
/// 404, 406.
pub(super) fn get_now(context: Context<'_>) -> Result<Answer, Status> {
    let view = context.view(Shape::Object)?;
    read(context, &view)
}

fn read(context: Context<'_>, view: &WantedView) -> Result<Answer, Status> {
    let stored = context.server.storage.get(context.id, &context.key());
    let stored = stored.ok_or_else(|| context.absent())?;
    Ok(Answer::json(200, view.get()?.object(&stored.object, stored.rv)))
}
