//! Changes an object in part: the patch is applied anew on each try of the transaction.

use super::Context;
use super::update::{Part, Unconditional, check_identity, transact};
use super::write;
use crate::answer::Answer;
use crate::codec::{ContentType, decode};
use crate::negotiate::{Representation, Shape};
use crate::patch::{PatchError, PatchType, apply};
use crate::status::{Details, Status};

/// `PATCH`.
///
/// # Errors
/// 400, 404, 406, 409, 413, 415, 422.
pub(super) fn patch(context: Context<'_>, part: Part) -> Result<Answer, Status> {
    let view = context.view(Shape::Object)?;
    let header = Some(context.request.header(http::header::CONTENT_TYPE)).filter(|header| !header.is_empty());
    let patch_type = PatchType::from_header(header, context.resource).map_err(|error| patch_status(&error))?;
    let options = write::options(context, "PatchOptions")?;
    let full = context.view_as(Representation::Full);
    let mut warnings = Vec::new();
    let version = transact(context, part, options, Unconditional::Always, |old, _| {
        let mut current = Vec::with_capacity(old.object.canonical.len() + 96);
        full.write_object(&old.object, old.rv, &mut current);
        let patched = apply(patch_type, &current, &context.request.body).map_err(|error| patch_status(&error))?;
        let decoded = decode(context.resource, ContentType::Json, &patched, options.validation)
            .map_err(|error| write::decode_status(&error))?;
        warnings = decoded.warnings;
        let mut object = decoded.object;
        check_identity(context, &mut object)?;
        Ok(object)
    })?;
    Ok(write::shown(&view, 200, &version, &warnings))
}

fn patch_status(error: &PatchError) -> Status {
    let text = error.to_string();
    match error {
        PatchError::BadRequest(_) => Status::bad_request(text),
        PatchError::Unprocessable(_) => {
            let mut status = Status::new(422, "Invalid", text);
            status.details = Some(Details::default());
            status
        }
        PatchError::TooLarge(_) => Status::new(413, "RequestEntityTooLarge", text),
        PatchError::UnsupportedMediaType(_) => Status::new(415, "UnsupportedMediaType", text),
        PatchError::Internal(_) => Status::untyped(text),
    }
}
