//! What all writes share: reading the body, options, system fields, generation, and the answer.

use std::collections::HashSet;
use std::sync::Arc;

use super::update::Tracking;
use super::{Context, WantedView};
use crate::answer::Answer;
use crate::codec::{ContentType, DecodeError, Decoded, FieldValidation, decode};
use crate::gotext::{self, go_quote, is_printable};
use crate::json::write::quoted;
use crate::kinds::{GenerationMode, Resource};
use crate::managed_fields::{Force, MAX_MANAGER, WriteContext, manager_name, track};
use crate::object::Object;
use crate::service::BODY_LIMIT;
use crate::status::{Cause, Status, Subject};
use crate::storage::Versioned;
use crate::stored::Stored;
use crate::validation::{FieldError, tells_repeats, validate_type};

/// The media types that a body may have, as the 415 text lists them.
const READABLE: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// The options of a write.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteOptions {
    pub(super) dry_run: bool,
    pub(super) validation: FieldValidation,
    /// Of an apply.
    pub(super) force: Force,
}

/// Reads the options of a write; `kind` is the options' own kind, which error texts name.
///
/// # Errors
/// 422 for values that do not exist.
pub(super) fn options(context: Context<'_>, kind: &'static str) -> Result<WriteOptions, Status> {
    let mut causes = Vec::new();
    if kind == "PatchOptions" && context.request.query.get("force").is_some() {
        causes.push(Cause::new(
            "FieldValueForbidden",
            "Forbidden: may not be specified for non-apply patch",
            "force",
        ));
    }
    read_options(context, kind, causes)
}

/// Reads the options of an apply.
///
/// # Errors
/// 422 for values that do not exist, and without a manager.
pub(super) fn apply_options(context: Context<'_>) -> Result<WriteOptions, Status> {
    let query = &context.request.query;
    let mut causes = Vec::new();
    if query.non_empty("fieldManager").is_none() {
        causes.push(Cause::new(
            "FieldValueRequired",
            "Required value: is required for apply patch",
            "fieldManager",
        ));
    }
    let is_false = |value: &str| value == "0" || value.eq_ignore_ascii_case("false");
    let force = match query.get("force") {
        Some(value) if !is_false(value) => Force::Yes,
        _ => Force::No,
    };
    let options = read_options(context, "PatchOptions", causes)?;
    Ok(WriteOptions { force, ..options })
}

fn read_options(context: Context<'_>, kind: &'static str, mut causes: Vec<Cause>) -> Result<WriteOptions, Status> {
    let query = &context.request.query;
    causes.extend(manager_causes(query.get("fieldManager").unwrap_or_default()));
    causes.extend(dry_run_causes(query.all("dryRun")));
    let validation = match query.get("fieldValidation").unwrap_or_default() {
        "Strict" => FieldValidation::Strict,
        "" | "Warn" => FieldValidation::Warn,
        "Ignore" => FieldValidation::Ignore,
        other => {
            let text = format!(
                "Unsupported value: {}: supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
                go_quote(other)
            );
            causes.push(Cause::new("FieldValueNotSupported", text, "fieldValidation"));
            FieldValidation::Warn
        }
    };
    if causes.is_empty() {
        return Ok(WriteOptions {
            dry_run: query.non_empty("dryRun").is_some(),
            validation,
            force: Force::No,
        });
    }
    Err(Status::invalid(options_subject(kind), "", causes))
}

/// What is wrong with the name of a field manager.
fn manager_causes(manager: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    if gotext::len(manager) > MAX_MANAGER {
        let text = format!("Too long: may not be more than {MAX_MANAGER} bytes");
        causes.push(Cause::new("FieldValueTooLong", text, "fieldManager"));
    }
    let mut at = 0;
    for chunk in gotext::bytes(manager).utf8_chunks() {
        // Bytes that are no text count as characters that can be printed.
        for (offset, bad) in chunk.valid().char_indices().filter(|(_, c)| !is_printable(*c)) {
            let text = format!(
                "Invalid value: {}: invalid character U+{:04X} (at position {})",
                go_quote(manager),
                u32::from(bad),
                at + offset
            );
            causes.push(Cause::new("FieldValueInvalid", text, "fieldManager"));
        }
        at += chunk.valid().len() + chunk.invalid().len();
    }
    causes
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
    let values: Vec<&str> = values.collect();
    if values.iter().all(|value| *value == "All") {
        return Vec::new();
    }
    // One wrong value and the text lists all of them.
    let listed = values.iter().map(|value| quoted(value)).collect::<Vec<_>>().join(",");
    let text = format!("Unsupported value: [{listed}]: supported values: \"All\"");
    vec![Cause::new("FieldValueNotSupported", text, "dryRun")]
}

/// What a real server warns of about the finalizers that a write adds to a custom resource.
pub(super) fn finalizer_warnings(resource: &Resource, old: &[String], new: &[String]) -> Vec<String> {
    if !resource.custom {
        return Vec::new();
    }
    let own = |name: &str| matches!(name, "orphan" | "foregroundDeletion" | "kubernetes");
    let old: HashSet<&String> = old.iter().collect();
    let mut added: Vec<&String> = new
        .iter()
        .filter(|name| !name.contains('/') && !own(name) && !old.contains(name))
        .collect();
    added.sort();
    added.dedup();
    let warning = |name: &&String| {
        let path = if name.contains('.') {
            " including a path (/)"
        } else {
            ""
        };
        format!(
            "metadata.finalizers: {}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with \
             other finalizer writers",
            go_quote(name)
        )
    };
    added.iter().map(warning).collect()
}

/// Refuses a request whose body is too large, where the real server reads it.
///
/// # Errors
/// 413.
pub(super) fn check_size(context: Context<'_>) -> Result<(), Status> {
    if context.request.too_large {
        return Err(Status::too_large(BODY_LIMIT));
    }
    Ok(())
}

/// The format of the request body.
///
/// # Errors
/// 415 for one that cannot be read; custom resources cannot be read from protobuf.
pub(super) fn content_type(context: Context<'_>) -> Result<ContentType, Status> {
    content_type_of_options(context)
        .ok()
        .filter(|found| !(context.resource.custom && *found == ContentType::Protobuf))
        .ok_or_else(|| Status::unsupported_media_type(READABLE))
}

/// The format of a body of options, which are the same for all kinds.
///
/// # Errors
/// 415 for one that cannot be read.
pub(super) fn content_type_of_options(context: Context<'_>) -> Result<ContentType, Status> {
    ContentType::from_header(Some(context.request.header(http::header::CONTENT_TYPE)))
        .ok_or_else(|| Status::unsupported_media_type(READABLE))
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

/// Refuses an object of another version than the request's.
///
/// # Errors
/// 400.
pub(super) fn check_version(decoded: &Decoded) -> Result<(), Status> {
    decoded
        .wrong_version
        .as_ref()
        .map_or(Ok(()), |error| Err(decode_status(error)))
}

/// A custom resource of another kind or version than the path says; built-in kinds are refused when they are decoded.
#[derive(Clone, Debug)]
pub(super) struct WrongType {
    group: String,
    kind: String,
    name: String,
    errors: Vec<FieldError>,
}

impl WrongType {
    /// What is wrong with the type of the object, if anything is.
    pub(super) fn of(resource: &Resource, decoded: &Decoded) -> Option<Self> {
        let errors = validate_type(resource, &decoded.api_version, &decoded.kind);
        let group = decoded.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        (!errors.is_empty()).then(|| Self {
            group: group.to_owned(),
            kind: decoded.kind.clone(),
            name: decoded.object.meta.name.clone(),
            errors,
        })
    }

    /// 422 with these findings and those about the type, in the name of the kind that the object says.
    pub(super) fn refusal(&self, resource: &Resource, mut before: Vec<FieldError>) -> Status {
        before.extend_from_slice(&self.errors);
        let subject = Subject {
            group: &self.group,
            kind: &self.kind,
            ..super::subject(resource)
        };
        Status::invalid(subject, &self.name, causes(resource, &before))
    }
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
pub(crate) fn check(resource: &Resource, name: &str, errors: &[FieldError]) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(
        super::subject(resource),
        name,
        causes(resource, errors),
    ))
}

/// The findings as causes, equal ones once where the kind tells them once.
fn causes(resource: &Resource, errors: &[FieldError]) -> Vec<Cause> {
    let mut seen = HashSet::with_capacity(errors.len());
    let repeats = tells_repeats(resource);
    errors
        .iter()
        .map(|error| (error.kind.reason(), error.message.as_str(), error.field.as_str()))
        .filter(|cause| seen.insert(*cause) || repeats)
        .map(|(reason, message, field)| Cause::new(reason, message, field))
        .collect()
}

/// Who writes, for the record of who owns which field.
pub(super) fn context(context: Context<'_>) -> WriteContext<'_> {
    let request = context.request;
    WriteContext {
        resource: context.resource,
        manager: manager_name(request.query.non_empty("fieldManager"), request.user_agent()),
        subresource: context.path.subresource.as_deref().unwrap_or_default(),
        now: context.server.clock.now(),
    }
}

/// Records who wrote the object.
pub(super) fn track_fields(of: Context<'_>, old: Option<&Object>, new: &mut Object) {
    track(&context(of), old, new);
}

/// A written object in the version in which writes are settled, with the record of who owns it: fields are owned as the
/// version of the request shows them.
pub(super) fn settled(of: Context<'_>, tracking: Tracking, old: Option<&Object>, mut new: Object) -> Object {
    let resource = of.resource;
    let due = tracking == Tracking::Due;
    if resource.settles_as_served() {
        if due {
            track_fields(of, old, &mut new);
        }
        return new;
    }
    let mut settled = resource.to_settled(new);
    if due {
        let mut shown = resource.to_served(settled.clone());
        track_fields(of, old, &mut shown);
        settled.meta.managed_fields = shown.meta.managed_fields;
    }
    settled
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
        GenerationMode::ManagedWithLabels => old.meta.labels != new.meta.labels || spec_changed(),
        GenerationMode::ManagedWithAnnotations => old.meta.annotations != new.meta.annotations || spec_changed(),
        GenerationMode::Fixed | GenerationMode::Client => false,
    };
    new.meta.generation = old.meta.generation + i64::from(changed);
}

/// The answer that shows an object.
///
/// # Errors
/// 406 if the client wants it in a form that does not fit.
pub(super) fn shown(view: &WantedView, code: u16, version: &Versioned<Stored>) -> Result<Answer, Status> {
    Ok(Answer::json(code, view.get()?.object(&version.object, version.rv)))
}

/// Adds warnings to an answer, which may be an error: what is found in a body is said whatever becomes of it.
///
/// # Errors
/// The one given, if there are no warnings.
pub(super) fn warned(answer: Result<Answer, Status>, warnings: &[String]) -> Result<Answer, Status> {
    if warnings.is_empty() {
        return answer;
    }
    Ok(answer.unwrap_or_else(Answer::from).warnings(warnings))
}

/// A version that was not stored: a dry run.
pub(super) fn unstored(object: Arc<Stored>, rv: u64) -> Versioned<Stored> {
    Versioned { rv, object }
}
