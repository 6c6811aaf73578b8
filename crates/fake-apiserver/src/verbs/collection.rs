//! Removes many objects.

use super::delete::{delete_one, options, unsafe_cause, warnings};
use super::list::{narrowed, read_page};
use super::options::{ListOptions, Match, Unsettled};
use super::{Context, WantedView, write};
use crate::answer::Answer;
use crate::codec::DeleteOptions;
use crate::namespaces;
use crate::negotiate::Shape;
use crate::status::Status;
use crate::storage::Range;
use crate::stored::split_key;

/// `DELETE` of a collection: each object as if it were deleted alone, a page of them if there is a limit. The answer
/// shows the objects as they were listed.
///
/// # Errors
/// As a list and a delete; what was deleted before an error stays deleted.
pub(super) async fn delete_collection(context: Context<'_>) -> Result<Answer, Status> {
    let view = context.view(Shape::List)?;
    let list_options = ListOptions::read(&context.request.query, context.resource, false)?;
    let options = options(context)?;
    if options.ignore_store_read_error {
        let why = "is not allowed with DELETECOLLECTION, try again after removing the option";
        let subject = write::options_subject("DeleteOptions");
        return Err(Status::invalid(subject, "", vec![unsafe_cause(why)]));
    }
    let answer = delete_all(context, &view, list_options, &options).await;
    write::warned(answer, &warnings(context, &options))
}

async fn delete_all(
    context: Context<'_>,
    view: &WantedView,
    list_options: Unsettled,
    options: &DeleteOptions,
) -> Result<Answer, Status> {
    let mut list_options = list_options.settle()?;
    // The real server reads a collection in pages, and a page at a version is of exactly that one.
    let is_one = matches!(narrowed(context, &list_options.selection), Range::Key(_));
    if list_options.version_match == Match::Unset && !is_one {
        list_options.version_match = Match::Exact;
    }
    let page = read_page(context, &list_options).await?;
    // Of all namespaces, since the path names none; but none of them can be removed by it.
    if context.path.empty_namespace && (context.resource.custom || !page.items.is_empty()) {
        return Err(context.absent());
    }
    for (key, _) in &page.items {
        let (namespace, name) = split_key(key);
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        namespaces::check_delete(context.subject(), name)?;
        match delete_one(context, namespace, name, options) {
            Ok(_) => {}
            // Somebody else was faster.
            Err(status) if status.code == 404 => {}
            Err(status) => return Err(status),
        }
    }
    Ok(Answer::json(200, view.get()?.list(page)))
}
