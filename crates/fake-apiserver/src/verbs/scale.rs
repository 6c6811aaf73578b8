//! The scale of a workload: its number of replicas as an object of another kind.
//!
//! A write works on the scale that the stored workload has, and changes the workload by what becomes of it: the number,
//! the resourceVersion that it is meant for, and who owns the number. All else of the scale is dropped.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;

use super::apply::{self, applied_object};
use super::patch::{Patch, patch_type};
use super::update::{Part, Tracking, check_identity, other_uid, transact};
use super::write::{self, WriteOptions};
use super::{Context, WantedView, get};
use crate::answer::Answer;
use crate::codec::{FieldValidation, decode_patched};
use crate::json::{Kind, Tape, Value, write as json};
use crate::kinds::{self, Resource};
use crate::managed_fields::{Live, to_scale, to_workload};
use crate::negotiate::{Representation, Shape};
use crate::object::{Meta, Object, StringMap};
use crate::patch::{Node, PatchType};
use crate::request::Verb;
use crate::status::{Status, Subject};
use crate::storage::{Revision, Versioned};
use crate::stored::Stored;
use crate::validation::FieldError;

static SCALE: LazyLock<Arc<Resource>> = LazyLock::new(|| Arc::new(kinds::scale()));

/// Runs the verb that a request to a scale asks for.
///
/// # Errors
/// Those of the verb.
pub(super) async fn run(context: Context<'_>) -> Result<Answer, Status> {
    let scale = Scale {
        workload: context,
        own: Context {
            resource: &SCALE,
            ..context
        },
    };
    match context.request.verb {
        Verb::Get => scale.get().await,
        Verb::Update => scale.update(),
        Verb::Patch => scale.patch(),
        _ => Err(Status::method_not_allowed()),
    }
}

/// A request to a scale: as one to the workload, which is stored, and as one to the scale, which is sent and shown.
#[derive(Clone, Copy)]
struct Scale<'a> {
    workload: Context<'a>,
    own: Context<'a>,
}

impl Scale<'_> {
    async fn get(self) -> Result<Answer, Status> {
        let view = self.own.view(Shape::Object)?;
        let version = get::version(self.workload).await?;
        self.shown(&view, &version)
    }

    fn update(self) -> Result<Answer, Status> {
        let view = self.own.view(Shape::Object)?;
        write::check_size(self.own)?;
        let options = write::options(self.own, "UpdateOptions")?;
        let mut decoded = write::body(self.own, options)?;
        let is_of_path = write::check_version(&decoded).and_then(|()| check_identity(self.own, &mut decoded.object));
        let mut warnings = decoded.warnings;
        warnings.extend(decoded.repeated_owners.filter(|_| is_of_path.is_ok()));
        let wanted = decoded.object;
        let written = is_of_path.and_then(|()| {
            self.write(options, |old, _| {
                let (given, actual) = (&wanted.meta.uid, &old.meta.uid);
                if !given.is_empty() && given != actual {
                    return Err(other_uid(self.workload, options, given, actual));
                }
                let mut new = wanted.clone();
                write::track_fields(self.own, Some(old), &mut new);
                Ok(new)
            })
        });
        let answer = written.and_then(|version| self.shown(&view, &version));
        write::warned(answer, &warnings)
    }

    fn patch(self) -> Result<Answer, Status> {
        let patch_type = patch_type(self.own)?;
        let view = self.own.view(Shape::Object)?;
        let mut warnings = Vec::new();
        let written = if patch_type == PatchType::Apply {
            self.apply(&mut warnings)?
        } else {
            let patch = Patch::read(self.own, patch_type)?;
            self.write(patch.options, |old, rv| {
                let decoded = patch.apply(&self.document(old, rv), &mut warnings)?;
                let mut new = decoded.object;
                check_identity(self.own, &mut new)?;
                warnings.extend(decoded.repeated_owners);
                write::track_fields(self.own, Some(old), &mut new);
                Ok(new)
            })
        };
        let answer = written.and_then(|version| self.shown(&view, &version));
        write::warned(answer, &warnings)
    }

    /// Server-side apply: what goes wrong with the request itself, and then what becomes of the write.
    fn apply(self, warnings: &mut Vec<String>) -> Result<Result<Versioned<Stored>, Status>, Status> {
        write::check_size(self.own)?;
        let options = write::apply_options(self.own)?;
        let patch = apply::Patch::read(&self.own.request.body)?;
        let writer = write::context(self.own);
        Ok(self.write(options, |old, rv| {
            warnings.clear();
            let json = self.document(old, rv);
            let live = Live {
                json: Some(&json),
                managed_fields: old.meta.managed_fields.as_ref(),
            };
            let mut new = applied_object(&writer, live, &patch, options, warnings)?;
            check_identity(self.own, &mut new)?;
            Ok(new)
        }))
    }

    /// The scale as clients see it.
    fn document(self, scale: &Object, rv: Revision) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        let full = self.own.view_as(Representation::Full);
        full.write_object(&Stored::of(&SCALE, scale), rv, &mut out);
        out
    }

    fn shown(self, view: &WantedView, version: &Versioned<Stored>) -> Result<Answer, Status> {
        let scale = scale_of(&version.object.object_as(self.workload.resource))?;
        Ok(Answer::json(
            200,
            view.get()?.object(&Stored::of(&SCALE, &scale), version.rv),
        ))
    }

    /// Changes the workload: `make` gives the wanted scale from the current one.
    fn write(
        self,
        options: WriteOptions,
        mut make: impl FnMut(&Object, Revision) -> Result<Object, Status>,
    ) -> Result<Versioned<Stored>, Status> {
        let context = self.workload;
        let subject = context.subject();
        let plural = format!("{}/scale", subject.plural);
        let subject = Subject {
            plural: &plural,
            ..subject
        };
        transact(context, Part::Main, options, Tracking::Done, |old, workload| {
            let fields = workload.meta.managed_fields.as_ref();
            let mut before = scale_of(workload)?;
            before.meta.managed_fields = to_scale(context.resource, &SCALE, fields).map_err(Status::untyped)?;
            let new = make(&before, old.rv)?;
            let replicas = number(new.field("spec"), "replicas")?.unwrap_or_default();
            if replicas < 0 {
                let text = "must be greater than or equal to 0";
                let error = FieldError::invalid_raw("spec.replicas", &replicas.to_string(), text);
                write::check(&SCALE, context.name(), &[error])?;
            }
            let (given, actual) = (&new.meta.uid, &workload.meta.uid);
            if !given.is_empty() && given != actual {
                let why = format!("Precondition failed: UID in precondition: {given}, UID in object meta: {actual}");
                return Err(Status::conflict(subject, context.name(), &why));
            }
            let mut wanted = self.with_replicas(old, replicas)?;
            wanted.meta.resource_version = new.meta.resource_version;
            wanted.meta.managed_fields =
                to_workload(context.resource, fields, new.meta.managed_fields.as_ref()).map_err(Status::untyped)?;
            Ok((wanted, None))
        })
    }

    /// The workload with another number of replicas.
    fn with_replicas(self, old: &Versioned<Stored>, replicas: i64) -> Result<Object, Status> {
        let resource = self.workload.resource;
        let mut current = Vec::with_capacity(old.object.canonical.len() + 96);
        let full = self.workload.view_as(Representation::Full);
        full.write_object(&old.object, old.rv, &mut current);
        let number = replicas.to_string();
        let (tape, number) = (parse(&current)?, parse(number.as_bytes())?);
        let mut document = Node::Parsed(tape.root());
        if let Some(spec) = document.member("spec") {
            spec.set_member("replicas", Node::Parsed(number.root()));
        }
        let mut changed = Vec::with_capacity(current.len() + 16);
        document.write(&mut changed);
        let decoded = decode_patched(resource, &changed, FieldValidation::Ignore);
        decoded
            .map(|decoded| decoded.object)
            .map_err(|error| Status::untyped(error.to_string()))
    }
}

fn parse(text: &[u8]) -> Result<Tape<'_>, Status> {
    Tape::parse(text).map_err(|error| Status::untyped(error.to_string()))
}

/// The number of that name in a part of an object.
fn number(part: Option<&Bytes>, name: &str) -> Result<Option<i64>, Status> {
    let Some(part) = part else { return Ok(None) };
    let tape = parse(part)?;
    let number = tape.root().get(name).and_then(Value::as_number);
    Ok(number.and_then(|digits| digits.parse().ok()))
}

/// The scale of a workload, of which nobody owns anything.
fn scale_of(workload: &Object) -> Result<Object, Status> {
    let (spec, status) = (workload.field("spec"), workload.field("status"));
    // Where nobody says how many, there is one.
    let wanted = number(spec, "replicas")?.unwrap_or(1);
    let actual = number(status, "replicas")?.unwrap_or_default();
    let mut out = Vec::with_capacity(128);
    out.extend_from_slice(b"{\"apiVersion\":\"autoscaling/v1\",\"kind\":\"Scale\",\"spec\":{\"replicas\":");
    json::int(&mut out, wanted);
    out.extend_from_slice(b"},\"status\":{\"replicas\":");
    json::int(&mut out, actual);
    json::name(&mut out, "selector");
    json::string(&mut out, &selector(spec)?);
    out.extend_from_slice(b"}}");
    let decoded = decode_patched(&SCALE, &out, FieldValidation::Ignore);
    let mut scale = decoded.map_err(|error| Status::untyped(error.to_string()))?.object;
    scale.meta = Meta {
        name: workload.meta.name.clone(),
        namespace: workload.meta.namespace.clone(),
        uid: workload.meta.uid.clone(),
        creation_timestamp: workload.meta.creation_timestamp,
        ..Meta::default()
    };
    Ok(scale)
}

/// The selector of a workload as a text: of labels, or of labels and expressions.
///
/// # Errors
/// 400 for an operator that does not exist.
fn selector(spec: Option<&Bytes>) -> Result<String, Status> {
    let Some(spec) = spec else { return Ok(String::new()) };
    let tape = parse(spec)?;
    let Some(selector) = tape.root().get("selector").filter(|value| value.kind() == Kind::Object) else {
        return Ok(String::new());
    };
    let of_object = ["matchLabels", "matchExpressions"].map(|part| selector.get(part));
    let is_object = of_object.iter().flatten().any(|part| part.kind() != Kind::String);
    let labels = if is_object { of_object[0] } else { Some(selector) };
    let text = |value: Value<'_>| value.as_str().unwrap_or_default().into_owned();
    let labels: StringMap = labels
        .into_iter()
        .flat_map(Value::entries)
        .map(|(key, value)| (text(key), text(value)))
        .collect();
    let mut requirements: Vec<(String, String)> = labels
        .iter()
        .map(|(key, value)| (key.to_owned(), format!("{key}={value}")))
        .collect();
    let expressions = of_object[1].filter(|_| is_object);
    for expression in expressions.into_iter().flat_map(Value::items) {
        let member = |name: &str| expression.get(name).map(text).unwrap_or_default();
        let (key, operator) = (member("key"), member("operator"));
        let mut values: Vec<String> = expression
            .get("values")
            .into_iter()
            .flat_map(Value::items)
            .map(text)
            .collect();
        values.sort();
        let values = values.join(",");
        let requirement = match operator.as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.clone(),
            "DoesNotExist" => format!("!{key}"),
            other => {
                let other = crate::gotext::go_quote(other);
                return Err(Status::bad_request(format!(
                    "{other} is not a valid label selector operator"
                )));
            }
        };
        requirements.push((key, requirement));
    }
    requirements.sort_by(|(a, _), (b, _)| a.cmp(b));
    let texts: Vec<String> = requirements.into_iter().map(|(_, text)| text).collect();
    Ok(texts.join(","))
}
