//! What all writes share: reading the body, options, system fields, generation, and the answer.

use std::sync::Arc;

use super::Context;
use crate::answer::Answer;
use crate::codec::{ContentType, DecodeError, Decoded, FieldValidation, decode};
use crate::kinds::{GenerationMode, Resource};
use crate::managed_fields::{Operation, WriteContext, manager_name, track};
use crate::object::Object;
use crate::status::{Cause, Status, Subject};
use crate::storage::Versioned;
use crate::stored::Stored;
use crate::validation::FieldError;
use crate::view::View;

/// The media types that a body may have, as the 415 text lists them.
const READABLE: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// The same for custom resources, which have no protobuf form.
const READABLE_CUSTOM: &str = "application/json, application/yaml";

/// The options of a write.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteOptions {
    pub(super) dry_run: bool,
    pub(super) validation: FieldValidation,
}

/// Reads the options of a write; `kind` is the options' own kind, which error texts name.
///
/// # Errors
/// 422 for values that do not exist.
pub(super) fn options(context: Context<'_>, kind: &'static str) -> Result<WriteOptions, Status> {
    let query = &context.request.query;
    let mut causes = dry_run_causes(query.all("dryRun"));
    let validation = match query.get("fieldValidation").unwrap_or_default() {
        "Strict" => FieldValidation::Strict,
        "" | "Warn" => FieldValidation::Warn,
        "Ignore" => FieldValidation::Ignore,
        other => {
            let text =
                format!("Unsupported value: {other:?}: supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"");
            causes.push(Cause::new("FieldValueNotSupported", text, "fieldValidation"));
            FieldValidation::Warn
        }
    };
    if causes.is_empty() {
        return Ok(WriteOptions {
            dry_run: query.non_empty("dryRun").is_some(),
            validation,
        });
    }
    Err(Status::invalid(options_subject(kind), "", causes))
}

/// What statuses about the options of a verb speak of.
pub(super) fn options_subject(kind: &'static str) -> Subject<'static> {
    Subject {
        group: "meta.k8s.io",
        plural: "",
        kind,
    }
}

/// What is wrong with the values of `dryRun`.
pub(super) fn dry_run_causes<'a>(values: impl Iterator<Item = &'a str>) -> Vec<Cause> {
    let wrong: Vec<&str> = values.filter(|value| !value.is_empty() && *value != "All").collect();
    if wrong.is_empty() {
        return Vec::new();
    }
    let listed = wrong
        .iter()
        .map(|value| format!("{value:?}"))
        .collect::<Vec<_>>()
        .join(",");
    let text = format!("Unsupported value: [{listed}]: supported values: \"All\"");
    vec![Cause::new("FieldValueNotSupported", text, "dryRun")]
}

/// The format of the request body.
///
/// # Errors
/// 415 for a format that the resource does not take.
pub(super) fn content_type(context: Context<'_>) -> Result<ContentType, Status> {
    let header = Some(context.request.header(http::header::CONTENT_TYPE)).filter(|header| !header.is_empty());
    let readable = if context.resource.custom {
        READABLE_CUSTOM
    } else {
        READABLE
    };
    ContentType::from_header(header)
        .filter(|found| !(context.resource.custom && *found == ContentType::Protobuf))
        .ok_or_else(|| Status::unsupported_media_type(readable))
}

/// Decodes the body as an object of the resource.
///
/// # Errors
/// 400 and 415.
pub(super) fn body(context: Context<'_>, options: WriteOptions) -> Result<Decoded, Status> {
    let content_type = content_type(context)?;
    decode(
        context.resource,
        content_type,
        &context.request.body,
        options.validation,
    )
    .map_err(|error| decode_status(&error))
}

/// The status for a body that is no object.
pub(super) fn decode_status(error: &DecodeError) -> Status {
    Status::bad_request(error.to_string())
}

/// Brings the namespace of a decoded object in line with the path.
///
/// # Errors
/// 400 when they differ.
pub(super) fn settle_namespace(
    resource: &Resource,
    namespace: Option<&str>,
    object: &mut Object,
) -> Result<(), Status> {
    const TEXT: &str = "the namespace of the provided object does not match the namespace sent on the request";
    let path = if resource.namespaced() {
        namespace.unwrap_or_default()
    } else {
        ""
    };
    if object.meta.namespace.is_empty() || path.is_empty() {
        path.clone_into(&mut object.meta.namespace);
    }
    if object.meta.namespace == path {
        Ok(())
    } else {
        Err(Status::bad_request(TEXT))
    }
}

/// 422 with these findings.
///
/// # Errors
/// If there are any.
pub(super) fn check(resource: &Resource, name: &str, errors: &[FieldError]) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    let mut causes: Vec<Cause> = Vec::with_capacity(errors.len());
    for error in errors {
        let cause = Cause::new(error.kind.reason(), &error.message, &error.field);
        if !causes.contains(&cause) {
            causes.push(cause);
        }
    }
    Err(Status::invalid(super::subject(resource), name, causes))
}

/// Records who wrote the object.
pub(super) fn track_fields(context: Context<'_>, old: Option<&Object>, new: &mut Object) {
    let request = context.request;
    let api_version = context.resource.api_version();
    let agent = Some(request.user_agent());
    let write = WriteContext {
        manager: manager_name(request.query.non_empty("fieldManager"), agent),
        operation: Operation::Update,
        subresource: context.path.subresource.as_deref().unwrap_or_default(),
        api_version: &api_version,
        now: context.server.clock.now(),
    };
    track(&write, old, new);
}

/// Sets the generation of an updated object.
pub(super) fn advance_generation(resource: &Resource, old: &Object, new: &mut Object) {
    let spec_changed = || {
        let counts = |name: &str| name != "status" || !resource.policy.status.subresource;
        let fields =
            |object: &Object| -> Vec<_> { object.fields.iter().filter(|(name, _)| counts(name)).cloned().collect() };
        fields(old) != fields(new)
    };
    let changed = match resource.policy.generation {
        GenerationMode::Managed | GenerationMode::ClientThenIncrement => spec_changed(),
        GenerationMode::ManagedWithAnnotations => old.meta.annotations != new.meta.annotations || spec_changed(),
        GenerationMode::Fixed | GenerationMode::Client => false,
    };
    new.meta.generation = old.meta.generation + i64::from(changed);
}

/// The answer that shows an object.
pub(super) fn shown(view: &View, code: u16, version: &Versioned<Stored>, warnings: &[String]) -> Answer {
    Answer::json(code, view.object(&version.object, version.rv)).warnings(warnings)
}

/// A version that was not stored: a dry run.
pub(super) fn unstored(object: Arc<Stored>, rv: u64) -> Versioned<Stored> {
    Versioned { rv, object }
}
