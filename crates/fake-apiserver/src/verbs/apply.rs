//! Server-side apply: a patch that says what its manager wants of an object, which is created if it is not there.

use super::Context;
use super::create::create_in;
use super::update::{Part, Tracking, check_identity, transact};
use super::write::{self, WriteOptions};
use crate::answer::Answer;
use crate::codec::{FieldValidation, decode_applied, yaml_findings, yaml_to_json};
use crate::json::{Kind, Tape, canonical};
use crate::managed_fields::{ApplyError, Live, WriteContext, apply as apply_patch};
use crate::negotiate::{Representation, Shape};
use crate::object::Object;
use crate::status::{Cause, Status};
use crate::storage::Versioned;
use crate::stored::Stored;

/// How often an object is looked for again that somebody else has created meanwhile.
const ATTEMPTS: usize = 3;

/// `PATCH` of the type for apply.
///
/// # Errors
/// 400, 404, 406, 409, 413, 415, 422, and 500 for a patch that is not of the kind's type.
pub(super) fn apply(context: Context<'_>, part: Part) -> Result<Answer, Status> {
    let view = context.view(Shape::Object)?;
    write::check_size(context)?;
    let options = write::apply_options(context)?;
    let patch = Patch::read(&context.request.body)?;
    let mut warnings = Vec::new();
    let applied = write_applied(context, part, options, &patch, &mut warnings);
    let answer = applied.and_then(|(code, version)| write::shown(&view, code, &version));
    write::warned(answer, &warnings)
}

/// Applies to the object, or creates it; the code says which.
fn write_applied(
    context: Context<'_>,
    part: Part,
    options: WriteOptions,
    patch: &Patch,
    warnings: &mut Vec<String>,
) -> Result<(u16, Versioned<Stored>), Status> {
    let writer = write::context(context);
    let full = context.view_as(Representation::Full);
    let mut of_finalizers = Vec::new();
    let mut attempts = 0;
    loop {
        attempts += 1;
        let result = transact(context, part, options, Tracking::Done, |old, before| {
            warnings.clear();
            let mut json = Vec::with_capacity(old.object.canonical.len() + 96);
            full.write_object(&old.object, old.rv, &mut json);
            let live = Live {
                json: Some(&json),
                managed_fields: before.meta.managed_fields.as_ref(),
            };
            let mut object = applied_object(&writer, live, patch, options, warnings)?;
            check_identity(context, &mut object)?;
            if part == Part::Main {
                let (old, new) = (&before.meta.finalizers, &object.meta.finalizers);
                of_finalizers = write::finalizer_warnings(context.resource, old, new);
            }
            Ok((object, None))
        });
        match result {
            Err(status) if status.reason == "NotFound" && part == Part::Main => {}
            result => {
                let version = result?;
                warnings.extend(of_finalizers);
                return Ok((200, version));
            }
        }
        match create(context, &writer, options, patch, warnings) {
            Err(status) if status.reason == "AlreadyExists" && attempts < ATTEMPTS => {}
            created => return created.map(|version| (201, version)),
        }
    }
}

/// Creates the object that a patch makes out of nothing.
fn create(
    context: Context<'_>,
    writer: &WriteContext<'_>,
    options: WriteOptions,
    patch: &Patch,
    warnings: &mut Vec<String>,
) -> Result<Versioned<Stored>, Status> {
    warnings.clear();
    let nothing = Live {
        json: None,
        managed_fields: None,
    };
    let mut object = applied_object(writer, nothing, patch, options, warnings)?;
    if !object.meta.uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {}, and no existing object was found",
            object.meta.uid
        );
        return Err(Status::conflict(context.subject(), context.name(), &why));
    }
    check_identity(context, &mut object)?;
    object.meta.resource_version.clear();
    let of_finalizers = write::finalizer_warnings(context.resource, &[], &object.meta.finalizers);
    let version = create_in(context, object, options, None, Tracking::Done)?;
    warnings.extend(of_finalizers);
    Ok(version)
}

/// The object that a patch makes of the live one, with its managed fields.
///
/// # Errors
/// 400, 409, and 500 for a patch that is not of the kind's type.
pub(super) fn applied_object(
    writer: &WriteContext<'_>,
    live: Live<'_>,
    patch: &Patch,
    options: WriteOptions,
    warnings: &mut Vec<String>,
) -> Result<Object, Status> {
    let json = patch.object()?;
    let applied = apply_patch(writer, live, json, options.force).map_err(apply_status)?;
    let decoded = decode_applied(writer.resource, &applied.json, FieldValidation::Ignore).map_err(|error| {
        Status::untyped(format!(
            "failed to convert new object to proper version: {}",
            error.cause()
        ))
    })?;
    if let Some(text) = &patch.duplicates {
        match options.validation {
            FieldValidation::Strict => {
                let text = format!("error strict decoding patch: error converting YAML to JSON: {text}");
                return Err(Status::bad_request(text));
            }
            FieldValidation::Warn => warnings.extend(yaml_findings(text)),
            FieldValidation::Ignore => {}
        }
    }
    warnings.extend(decoded.repeated_owners);
    let mut object = decoded.object;
    object.meta.managed_fields = applied.managed_fields;
    Ok(object)
}

fn apply_status(error: ApplyError) -> Status {
    match error {
        ApplyError::BadRequest(text) => Status::bad_request(text),
        ApplyError::Internal(text) => Status::untyped(text),
        ApplyError::Conflict { message, causes } => {
            let status = Status::new(409, "Conflict", message);
            let cause = |(message, path): (String, String)| Cause::new("FieldManagerConflict", message, path);
            causes.into_iter().map(cause).fold(status, Status::cause)
        }
    }
}

/// The body of an apply.
pub(super) struct Patch {
    /// The object in canonical form, or why the body holds none: said only of an object that is there.
    object: Result<Vec<u8>, String>,
    /// What is wrong with keys that repeat.
    duplicates: Option<String>,
}

impl Patch {
    /// Reads a body, which is YAML.
    ///
    /// # Errors
    /// 400 for what is neither JSON nor YAML.
    pub(super) fn read(body: &[u8]) -> Result<Self, Status> {
        let (json, duplicates) = match yaml_to_json(body) {
            Ok(read) => read,
            // What looks like JSON is taken for it at first.
            Err(error) if body.trim_ascii_start().starts_with(b"{") => {
                return Ok(Self {
                    object: Err(format!("error converting YAML to JSON: {error}")),
                    duplicates: None,
                });
            }
            Err(error) => return Err(Status::bad_request(format!("error encoding patch: {error}"))),
        };
        Ok(Self {
            object: object(&json).map_err(|error| format!("error unmarshaling JSON: while decoding JSON: {error}")),
            duplicates,
        })
    }

    fn object(&self) -> Result<&[u8], Status> {
        match &self.object {
            Ok(json) => Ok(json),
            Err(error) => Err(Status::bad_request(format!("error decoding patch: {error}"))),
        }
    }
}

/// The object of a text in canonical form.
fn object(json: &[u8]) -> Result<Vec<u8>, String> {
    let tape = Tape::parse(json).map_err(|error| error.to_string())?;
    match tape.root().kind() {
        Kind::Object => {}
        Kind::Null => return Ok(b"{}".to_vec()),
        other => {
            return Err(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                other.go_name()
            ));
        }
    }
    let mut out = Vec::with_capacity(json.len());
    canonical::write_floats(&mut out, tape.root()).map_err(|range| {
        format!(
            "json: cannot unmarshal number {} into Go value of type float64",
            range.0
        )
    })?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> String {
        let patch = Patch::read(body.as_bytes()).unwrap();
        String::from_utf8(patch.object.unwrap()).unwrap()
    }

    #[test]
    fn bodies_are_yaml_or_json_and_numbers_are_floats() {
        // [F11]
        assert_eq!(read("b: 1\na: {c: x}\n"), r#"{"a":{"c":"x"},"b":1}"#);
        assert_eq!(
            read(r#"{"n":9007199254740993,"s":"1\"2","f":1.50,"i":-3}"#),
            r#"{"f":1.5,"i":-3,"n":9007199254740992,"s":"1\"2"}"#
        );
        assert_eq!(read(""), "{}");
    }

    #[test]
    fn bodies_that_hold_no_object_are_refused() {
        // [F11] the texts are those of the real server
        for (body, text) in [
            (
                "[]",
                "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type \
                 map[string]interface {}",
            ),
            (
                "{",
                "error converting YAML to JSON: yaml: line 1: did not find expected node content",
            ),
        ] {
            assert_eq!(Patch::read(body.as_bytes()).unwrap().object.unwrap_err(), text);
        }
        let status = Patch::read(b"a: b: c").err().unwrap();
        assert_eq!(
            (status.code, &*status.message),
            (
                400,
                "error encoding patch: yaml: mapping values are not allowed in this context"
            )
        );
    }
}
