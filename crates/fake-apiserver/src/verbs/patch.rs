//! Changes an object in part: the patch is applied anew on each try of the transaction.

use std::collections::HashSet;

use super::update::{Part, Tracking, check_identity, transact, undeterminable_name};
use super::write::{self, WrongType};
use super::{Context, apply};
use crate::answer::Answer;
use crate::codec::{DecodeError, FieldValidation, decode_patched};
use crate::gotext::go_quote;
use crate::json::{Kind, Tape, Value};
use crate::negotiate::{Representation, Shape};
use crate::patch::{PatchError, PatchType, apply as apply_patch, check_syntax, field_findings};
use crate::status::{Cause, Status, Subject};

/// `PATCH`.
///
/// # Errors
/// 400, 404, 406, 409, 413, 415, 422.
pub(super) fn patch(context: Context<'_>, part: Part) -> Result<Answer, Status> {
    let patch_type = patch_type(context)?;
    if patch_type == PatchType::Apply {
        return apply::apply(context, part);
    }
    let view = context.view(Shape::Object)?;
    write::check_size(context)?;
    let options = write::options(context, "PatchOptions")?;
    check_syntax(&context.request.body).map_err(|error| patch_status(&error))?;
    let full = context.view_as(Representation::Full);
    let (mut warnings, mut of_finalizers) = (Vec::new(), Vec::new());
    let findings = match options.validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Strict | FieldValidation::Warn => field_findings(patch_type, &context.request.body),
    };
    let patched = transact(context, part, options, Tracking::Due, |old, before| {
        warnings.clear();
        let mut current = Vec::with_capacity(old.object.canonical.len() + 96);
        full.write_object(&old.object, old.rv, &mut current);
        let patched = apply_patch(patch_type, &current, &context.request.body, options.validation)
            .map_err(|error| patch_status(&error))?;
        check_type(context, &patched, options.validation, &mut warnings)?;
        let decoded = decode_patched(context.resource, &patched, options.validation);
        if options.validation == FieldValidation::Strict {
            check_strict(&patched, &findings, decoded.as_ref().err())?;
        }
        let decoded = decoded.map_err(|error| not_an_object(&patched, error.cause()))?;
        let wrong_type = WrongType::of(context.resource, &decoded);
        let mut object = decoded.object;
        warnings.clone_from(&findings);
        warnings.extend(decoded.warnings);
        check_identity(context, &mut object)?;
        warnings.extend(decoded.repeated_owners);
        if part == Part::Main {
            let (old, new) = (&before.meta.finalizers, &object.meta.finalizers);
            of_finalizers = write::finalizer_warnings(context.resource, old, new);
        }
        Ok((object, wrong_type))
    });
    if patched.is_ok() {
        warnings.extend(of_finalizers);
    }
    let answer = patched.and_then(|version| write::shown(&view, 200, &version));
    write::warned(answer, &warnings)
}

/// The type of the patch.
///
/// # Errors
/// 415, and 501 for a type that is not built.
pub(super) fn patch_type(context: Context<'_>) -> Result<PatchType, Status> {
    let header = Some(context.request.header(http::header::CONTENT_TYPE)).filter(|header| !header.is_empty());
    PatchType::from_header(header, context.resource).map_err(|error| patch_status(&error))
}

/// Refuses a patch that takes the API version away: the real server then reads an object of no type, in which it knows
/// no field and finds no name.
///
/// # Errors
/// 400, and 500 for a custom resource.
fn check_type(
    context: Context<'_>,
    patched: &[u8],
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    let Ok(tape) = Tape::parse(patched) else {
        return Ok(()); // which the decoder reports
    };
    let root = tape.root();
    let is_empty = |key: &str| {
        root.get(key)
            .is_none_or(|value| value.is_null() || value.as_str().is_some_and(|text| text.is_empty()))
    };
    if root.kind() != Kind::Object || !is_empty("apiVersion") || validation == FieldValidation::Strict {
        return Ok(());
    }
    let is_own = || {
        root.get("kind")
            .and_then(Value::as_str)
            .is_some_and(|kind| kind == *context.resource.kind)
    };
    if !context.resource.custom && !is_empty("kind") && !is_own() {
        return Ok(()); // which the decoder refuses
    }
    if context.resource.custom {
        // Without a kind the decoder refuses it.
        let why = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
        let status = Status::new(500, "InternalError", format!("Internal error occurred: {why}"));
        return if is_empty("kind") {
            Ok(())
        } else {
            Err(status.cause(Cause::new("", why, "")))
        };
    }
    if validation == FieldValidation::Warn {
        let keys = root.entries().filter_map(|(key, _)| key.as_str());
        let unknown = keys.filter(|key| !matches!(&**key, "apiVersion" | "kind"));
        warnings.extend(unknown.map(|key| format!("unknown field {}", go_quote(&key))));
    }
    Err(undeterminable_name(context))
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
