//! Changes an object in part: the patch is applied anew on each try of the transaction.

use std::collections::HashSet;

use super::update::{Part, Tracking, check_identity, transact, undeterminable_name};
use super::write::{self, WriteOptions, WrongType};
use super::{Context, apply};
use crate::answer::Answer;
use crate::codec::{DecodeError, Decoded, FieldValidation, TypeId, convert, decode_patched};
use crate::gotext::go_quote;
use crate::json::{Kind, Tape, Value, write as json};
use crate::kinds::{Resource, Schema};
use crate::negotiate::{Representation, Shape};
use crate::patch::{
    PatchError, PatchType, apply as apply_patch, apply_strategic, check_syntax, field_findings, strategic_left_over,
};
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
    let patch = Patch::read(context, patch_type)?;
    let full = context.view_as(Representation::Full);
    let (mut warnings, mut of_finalizers) = (Vec::new(), Vec::new());
    let patched = transact(context, part, patch.options, Tracking::Due, |old, before| {
        let mut current = Vec::with_capacity(old.object.canonical.len() + 96);
        full.write_object(&old.object, old.rv, &mut current);
        let decoded = patch.apply(&current, &mut warnings)?;
        let wrong_type = WrongType::of(context.resource, &decoded);
        let mut object = decoded.object;
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
/// 415.
pub(super) fn patch_type(context: Context<'_>) -> Result<PatchType, Status> {
    let header = Some(context.request.header(http::header::CONTENT_TYPE)).filter(|header| !header.is_empty());
    PatchType::from_header(header, context.resource).map_err(|error| patch_status(&error))
}

/// A patch other than an apply, which was read and can be applied time and again.
pub(super) struct Patch<'a> {
    context: Context<'a>,
    form: PatchType,
    pub(super) options: WriteOptions,
    /// What field validation says about the patch itself.
    findings: Vec<String>,
}

impl<'a> Patch<'a> {
    /// Reads the options and the body.
    ///
    /// # Errors
    /// 400 for a body that is no JSON, 413, and 422 for options that do not exist.
    pub(super) fn read(context: Context<'a>, form: PatchType) -> Result<Self, Status> {
        write::check_size(context)?;
        let options = write::options(context, "PatchOptions")?;
        check_syntax(&context.request.body).map_err(|error| patch_status(&error))?;
        let findings = match options.validation {
            FieldValidation::Ignore => Vec::new(),
            FieldValidation::Strict | FieldValidation::Warn => field_findings(form, &context.request.body),
        };
        Ok(Self {
            context,
            form,
            options,
            findings,
        })
    }

    /// The object that the patch makes of the current one; `warnings` are then those about it.
    ///
    /// # Errors
    /// 400, 413, 422, and 500 for a strategic one that does not make sense.
    pub(super) fn apply(&self, current: &[u8], warnings: &mut Vec<String>) -> Result<Decoded, Status> {
        warnings.clear();
        let decoded = match (self.form, self.context.resource.schema) {
            (PatchType::Strategic, Schema::Typed(id)) => self.strategic(current, id)?,
            _ => self.plain(current, warnings)?,
        };
        warnings.clone_from(&self.findings);
        warnings.extend_from_slice(&decoded.warnings);
        Ok(decoded)
    }

    /// By the decoder of JSON.
    fn plain(&self, current: &[u8], warnings: &mut Vec<String>) -> Result<Decoded, Status> {
        let (context, validation) = (self.context, self.options.validation);
        let patched =
            apply_patch(self.form, current, &context.request.body, validation).map_err(|error| patch_status(&error))?;
        check_type(context, &patched, validation, warnings)?;
        let decoded = decode_patched(context.resource, &patched, validation);
        if validation == FieldValidation::Strict {
            check_strict(&patched, &self.findings, decoded.as_ref().err())?;
        }
        decoded.map_err(|error| not_an_object(&String::from_utf8_lossy(&patched), error.cause()))
    }

    /// As the real server reads what a strategic merge patch makes: an object of the resource's kind, whatever it says.
    fn strategic(&self, current: &[u8], of: TypeId) -> Result<Decoded, Status> {
        let (context, validation) = (self.context, self.options.validation);
        let body = &context.request.body;
        let patched = apply_strategic(current, body, of).map_err(|error| patch_status(&error))?;
        let refused = |why: &str| match strategic_left_over(current, body, of) {
            Ok(left) => not_an_object(&left, why),
            Err(error) => patch_status(&error),
        };
        let tape = Tape::parse(&patched).map_err(|error| Status::untyped(error.to_string()))?;
        let converted = convert(of, tape.root()).map_err(|why| refused(&why))?;
        if validation == FieldValidation::Strict {
            let all = self.findings.iter().chain(&converted.unknown);
            let all: Vec<&str> = all.map(String::as_str).collect();
            if !all.is_empty() {
                return Err(refused(&format!("strict decoding error: {}", all.join(", "))));
            }
        }
        let json = typed(context.resource, &converted.json);
        let mut decoded =
            decode_patched(context.resource, &json, FieldValidation::Ignore).map_err(|error| refused(error.cause()))?;
        if validation == FieldValidation::Warn {
            decoded.warnings = converted.unknown;
        }
        Ok(decoded)
    }
}

/// The JSON of an object that lacks its version and kind, with these.
fn typed(resource: &Resource, object: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(object.len() + 64);
    out.push(b'{');
    for (name, value) in [("apiVersion", &*resource.api_version()), ("kind", &*resource.kind)] {
        json::name(&mut out, name);
        json::string(&mut out, value);
    }
    if object.len() > b"{}".len() {
        out.push(b',');
    }
    out.extend_from_slice(&object[1..]);
    out
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
        &String::from_utf8_lossy(patched),
        &format!("strict decoding error: {}", all.join(", ")),
    ))
}

/// 422 for a patch whose result is no object of the kind.
fn not_an_object(patched: &str, why: &str) -> Status {
    let value = go_quote(patched);
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

/// The status for a patch that cannot be applied.
pub(super) fn patch_status(error: &PatchError) -> Status {
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
