//! Removes many objects.

use super::Context;
use super::delete::{delete_one, options};
use super::list::read_page;
use super::options::ListOptions;
use crate::answer::Answer;
use crate::namespaces;
use crate::negotiate::Shape;
use crate::status::Status;
use crate::stored::split_key;

/// `DELETE` of a collection: each object as if it were deleted alone, a page of them if there is a limit. The answer
/// shows the objects as they were listed.
///
/// # Errors
/// As a list and a delete; what was deleted before an error stays deleted.
pub(super) async fn delete_collection(context: Context<'_>) -> Result<Answer, Status> {
    let view = context.view(Shape::List)?;
    let list_options = ListOptions::parse(&context.request.query, context.resource, false)?;
    let options = options(context)?;
    if context.path.empty_namespace {
        return Err(context.absent());
    }
    let page = read_page(context, &list_options).await?;
    for (key, _) in &page.items {
        let (namespace, name) = split_key(key);
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        namespaces::check_delete(context.subject(), name)?;
        match delete_one(context, namespace, name, &options) {
            Ok(_) => {}
            // Somebody else was faster.
            Err(status) if status.code == 404 => {}
            Err(status) => return Err(status),
        }
    }
    Ok(Answer::json(200, view.get()?.list(page)))
}
