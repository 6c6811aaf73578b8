//! Changes an object in part: the patch is applied anew on each try of the transaction.

use std::collections::HashSet;

use super::Context;
use super::update::{Part, Unconditional, check_identity, transact};
use super::write;
use crate::answer::Answer;
use crate::codec::{DecodeError, FieldValidation, decode_patched, go_quote};
use crate::negotiate::{Representation, Shape};
use crate::patch::{PatchError, PatchType, apply, check_syntax, field_findings};
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
    check_syntax(&context.request.body).map_err(|error| patch_status(&error))?;
    let full = context.view_as(Representation::Full);
    let mut warnings = Vec::new();
    let findings = match options.validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Strict | FieldValidation::Warn => field_findings(patch_type, &context.request.body),
    };
    let patched = transact(context, part, options, Unconditional::Always, |old, _| {
        warnings.clear();
        let mut current = Vec::with_capacity(old.object.canonical.len() + 96);
        full.write_object(&old.object, old.rv, &mut current);
        let patched = apply(patch_type, &current, &context.request.body).map_err(|error| patch_status(&error))?;
        let decoded = decode_patched(context.resource, &patched, options.validation);
        if options.validation == FieldValidation::Strict {
            check_strict(&patched, &findings, decoded.as_ref().err())?;
        }
        let decoded = decoded.map_err(|error| not_an_object(&patched, error.cause()))?;
        let wrong_type = write::wrong_type(context.resource, &decoded);
        let mut object = decoded.object;
        warnings.clone_from(&findings);
        warnings.extend(decoded.warnings);
        check_identity(context, &mut object)?;
        Ok((object, wrong_type))
    });
    let answer = patched.and_then(|version| write::shown(&view, 200, &version));
    write::warned(answer, &warnings)
}

/// 422 for a patch with unknown or duplicate fields, in it or in its result.
fn check_strict(patched: &[u8], findings: &[String], error: Option<&DecodeError>) -> Result<(), Status> {
    let of_result = match error {
        Some(DecodeError::Strict { errors, .. }) => errors.as_slice(),
        None => &[],
        Some(_) => return Ok(()), // a worse error, which the caller reports
    };
    let mut seen = HashSet::with_capacity(findings.len() + of_result.len());
    let texts = findings.iter().chain(of_result).map(String::as_str);
    let all: Vec<&str> = texts.filter(|text| seen.insert(*text)).collect();
    if all.is_empty() {
        return Ok(());
    }
    Err(not_an_object(
        patched,
        &format!("strict decoding error: {}", all.join(", ")),
    ))
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
        PatchError::NotImplemented(_) => Status::new(501, "NotImplemented", text),
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
