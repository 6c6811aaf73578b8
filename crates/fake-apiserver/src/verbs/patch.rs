//! Changes an object in part: the patch is applied anew on each try of the transaction.

use super::Context;
use super::update::{Part, Unconditional, check_identity, transact};
use super::write;
use crate::answer::Answer;
use crate::codec::{DecodeError, FieldValidation, decode_patched, go_quote};
use crate::negotiate::{Representation, Shape};
use crate::patch::{PatchError, PatchType, apply, duplicate_fields};
use crate::status::{Cause, Status, Subject};

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
    let findings = findings(patch_type, options.validation, &context.request.body);
    let mut warnings = Vec::new();
    let version = transact(context, part, options, Unconditional::Always, |old, _| {
        let mut current = Vec::with_capacity(old.object.canonical.len() + 96);
        full.write_object(&old.object, old.rv, &mut current);
        let patched = apply(patch_type, &current, &context.request.body).map_err(|error| patch_status(&error))?;
        let decoded = decode_patched(context.resource, &patched, options.validation);
        if options.validation == FieldValidation::Strict && !findings.is_empty() {
            let unknown = match &decoded {
                Err(DecodeError::Strict { errors, .. }) => errors.as_slice(),
                _ => &[],
            };
            let all = [findings.as_slice(), unknown].concat().join(", ");
            return Err(not_an_object(&patched, &format!("strict decoding error: {all}")));
        }
        let decoded = decoded.map_err(|error| not_an_object(&patched, error.cause()))?;
        let wrong_type = write::wrong_type(context.resource, &decoded);
        warnings.clone_from(&findings);
        warnings.extend(decoded.warnings);
        let mut object = decoded.object;
        check_identity(context, &mut object)?;
        Ok((object, wrong_type))
    })?;
    Ok(write::shown(&view, 200, &version, &warnings))
}

/// The duplicate fields of the patch itself, as warnings and strict errors name them.
fn findings(patch_type: PatchType, validation: FieldValidation, patch: &[u8]) -> Vec<String> {
    if validation == FieldValidation::Ignore {
        return Vec::new();
    }
    let prefix = if patch_type == PatchType::Json {
        "json patch "
    } else {
        ""
    };
    duplicate_fields(patch)
        .into_iter()
        .map(|found| format!("{prefix}{found}"))
        .collect()
}

/// 422 for a patch whose result is no object of the kind.
fn not_an_object(patched: &[u8], why: &str) -> Status {
    let value = go_quote(&String::from_utf8_lossy(patched));
    let cause = Cause::new("FieldValueInvalid", format!("Invalid value: {value}: {why}"), "patch");
    Status::invalid(
        Subject {
            group: "",
            plural: "",
            kind: "",
        },
        "",
        vec![cause],
    )
}

fn patch_status(error: &PatchError) -> Status {
    let text = error.to_string();
    match error {
        PatchError::BadRequest(_) => Status::bad_request(text),
        PatchError::Unprocessable(_) => {
            let mut status = Status::new(422, "Invalid", text);
            status.details = Some(Box::default());
            status
        }
        PatchError::TooLarge(_) => Status::new(413, "RequestEntityTooLarge", text),
        PatchError::UnsupportedMediaType(_) => {
            // The text of the router comes with empty details, the one of the handler with none.
            let details = text.starts_with("415").then(Box::default);
            let mut status = Status::new(415, "UnsupportedMediaType", text);
            status.details = details;
            status
        }
        PatchError::Internal(_) => Status::untyped(text),
    }
}
