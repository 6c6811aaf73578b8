//! The subresource `scale` of custom resources: the numbers of replicas, wherever the definition says that they are, as an
//! object of `autoscaling/v1`.

use serde::Deserialize;
use serde_json::{Value, json};

use super::update::{Part, Tracking, transact};
use super::write::{self, WriteOptions};
use super::{Context, patch};
use crate::answer::Answer;
use crate::clock::time_text;
use crate::codec::{ContentType, FieldValidation, yaml_to_json};
use crate::gotext::go_quote;
use crate::json::{Tape, write::quoted};
use crate::negotiate::{Representation, Shape};
use crate::object::Object;
use crate::request::Verb;
use crate::schemas::{ScalePaths, number_at, set_number_at, text_at};
use crate::status::{Cause, Status, Subject};
use crate::storage::Versioned;
use crate::stored::Stored;

/// What stands for a number that the object does not have: nobody wants so few.
const MISSING: i64 = i32::MIN as i64;

/// A scale that a client sends.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Scale {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    namespace: String,
    resource_version: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    replicas: Option<i64>,
}

/// A request to the scale of an object.
///
/// # Errors
/// 400, 404, 406, 409, 415, 422, and 500 without a number of replicas.
pub(super) async fn run(context: Context<'_>) -> Result<Answer, Status> {
    let paths = context.resource.shape().and_then(|shape| shape.scale());
    // What has the subresource has its paths.
    let paths = paths.ok_or_else(Status::unknown_resource)?;
    match context.request.verb {
        Verb::Get => {
            // The same refusals as of the object.
            super::get::get(context).await?;
            let stored = context.server.storage.get(context.id, &context.key());
            let stored = stored.ok_or_else(|| context.absent())?;
            let scale = of_object(context, paths, &stored)?;
            if scale["spec"]["replicas"] == MISSING {
                let why = format!("the spec replicas field {} does not exist", go_quote(&paths.wanted));
                let status = Status::new(500, "InternalError", format!("Internal error occurred: {why}"));
                return Err(status.cause(Cause::new("", why, "")));
            }
            Ok(shown(200, scale))
        }
        Verb::Update => put(context, paths),
        Verb::Patch => change(context, paths),
        _ => Err(Status::method_not_allowed()),
    }
}

fn put(context: Context<'_>, paths: &ScalePaths) -> Result<Answer, Status> {
    context.view(Shape::Object)?;
    write::check_size(context)?;
    let options = write::options(context, "UpdateOptions")?;
    let json = match write::content_type_of_options(context)? {
        ContentType::Json => context.request.body.to_vec(),
        ContentType::Yaml => {
            yaml_to_json(&context.request.body)
                .map_err(|error| unreadable(&error))?
                .0
        }
        ContentType::Protobuf => return Err(super::not_implemented("scales in protobuf")),
    };
    let scale = read(&json).map_err(|error| unreadable(&error))?;
    if scale.kind != "Scale" && !scale.kind.is_empty() || !matches!(&*scale.api_version, "" | "autoscaling/v1") {
        return Err(unreadable(&format!(
            "no kind {} is registered for version {}",
            go_quote(&scale.kind),
            go_quote(&scale.api_version)
        )));
    }
    check_identity(context, &scale)?;
    write_scale(context, paths, options, |_| Ok(scale_of(&scale)))
}

fn change(context: Context<'_>, paths: &ScalePaths) -> Result<Answer, Status> {
    let patch_type = patch::patch_type(context)?;
    if patch_type == crate::patch::PatchType::Apply {
        return Err(super::not_implemented("server-side apply to a scale"));
    }
    context.view(Shape::Object)?;
    write::check_size(context)?;
    let options = write::options(context, "PatchOptions")?;
    let body = &context.request.body;
    crate::patch::check_syntax(body).map_err(|error| patch::patch_status(&error))?;
    write_scale(context, paths, options, |current| {
        let current = current.to_string();
        let patched = crate::patch::apply(patch_type, current.as_bytes(), body, options.validation)
            .map_err(|error| patch::patch_status(&error))?;
        let refused = |why: &str| {
            let value = go_quote(&String::from_utf8_lossy(&patched));
            let cause = Cause::new("FieldValueInvalid", format!("Invalid value: {value}: {why}"), "patch");
            let nobody = Subject {
                group: "",
                plural: "",
                kind: "",
            };
            Status::invalid(nobody, "", vec![cause])
        };
        let scale = read(&patched).map_err(|error| refused(&error))?;
        if options.validation == FieldValidation::Strict {
            let unknown = unknown_fields(&patched);
            if !unknown.is_empty() {
                return Err(refused(&format!("strict decoding error: {}", unknown.join(", "))));
            }
        }
        check_identity(context, &scale)?;
        Ok(scale_of(&scale))
    })
}

/// What a write wants: the number, and the version that it is meant for.
fn scale_of(scale: &Scale) -> (i64, String) {
    (
        scale.spec.replicas.unwrap_or_default(),
        scale.metadata.resource_version.clone(),
    )
}

/// Changes the number of replicas; `make` gives it from the scale as it is.
fn write_scale(
    context: Context<'_>,
    paths: &ScalePaths,
    options: WriteOptions,
    mut make: impl FnMut(&Value) -> Result<(i64, String), Status>,
) -> Result<Answer, Status> {
    let version = transact(context, Part::Main, options, Tracking::Due, |old, current| {
        let scale = of_object(context, paths, old)?;
        let (replicas, version) = make(&scale)?;
        if replicas == MISSING {
            let text = format!("the spec replicas field {} cannot be empty", go_quote(&paths.wanted));
            return Err(Status::bad_request(text));
        }
        let mut wanted: Object = current.clone();
        set_number_at(&mut wanted, &paths.wanted, replicas).map_err(Status::untyped)?;
        wanted.meta.resource_version = if version.is_empty() {
            old.rv.to_string()
        } else {
            version
        };
        Ok((wanted, None))
    })?;
    let mut scale = of_object(context, paths, &version)?;
    if scale["spec"]["replicas"] == MISSING {
        scale["spec"]["replicas"] = 0.into();
    }
    Ok(shown(200, scale))
}

/// The scale of an object; without a number of replicas it has [`MISSING`].
fn of_object(context: Context<'_>, paths: &ScalePaths, stored: &Versioned<Stored>) -> Result<Value, Status> {
    let mut json = Vec::with_capacity(stored.object.canonical.len() + 96);
    context
        .view_as(Representation::Full)
        .write_object(&stored.object, stored.rv, &mut json);
    // What the server itself has written.
    let tape = Tape::parse(&json).map_err(|error| Status::untyped(error.to_string()))?;
    let root = tape.root();
    let wanted = number_at(root, &paths.wanted).map_err(Status::untyped)?;
    let present = number_at(root, &paths.present).map_err(Status::untyped)?;
    let selector = match &paths.selector {
        Some(path) if !path.is_empty() => text_at(root, path).map_err(Status::untyped)?,
        _ => None,
    };
    let meta = stored.object.object().meta;
    let mut scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {"name": meta.name, "uid": meta.uid},
        "spec": {"replicas": wanted.unwrap_or(MISSING)},
        "status": {"replicas": present.unwrap_or_default()},
    });
    if !meta.namespace.is_empty() {
        scale["metadata"]["namespace"] = meta.namespace.into();
    }
    if stored.rv > 0 {
        scale["metadata"]["resourceVersion"] = stored.rv.to_string().into();
    }
    if let Some(created) = meta.creation_timestamp {
        scale["metadata"]["creationTimestamp"] = time_text(created).into();
    }
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        scale["status"]["selector"] = selector.into();
    }
    Ok(scale)
}

/// A scale as an answer: Go leaves a wanted number of zero out.
fn shown(code: u16, mut scale: Value) -> Answer {
    if scale["spec"]["replicas"] == 0
        && let Some(spec) = scale["spec"].as_object_mut()
    {
        spec.clear();
    }
    let mut body = scale.to_string().into_bytes();
    body.push(b'\n');
    Answer::json(code, body)
}

/// Reads a scale.
///
/// # Errors
/// The text about what is none.
fn read(json: &[u8]) -> Result<Scale, String> {
    let tape = Tape::parse(json).map_err(|error| error.to_string())?;
    let replicas = tape.root().get("spec").and_then(|spec| spec.get("replicas"));
    if let Some(replicas) = replicas.filter(|replicas| !replicas.is_null()) {
        let fits = replicas.as_number().is_some_and(|digits| digits.parse::<i32>().is_ok());
        if !fits {
            let digits = replicas
                .as_number()
                .map(|digits| format!(" {digits}"))
                .unwrap_or_default();
            return Err(format!(
                "json: cannot unmarshal {}{digits} into Go struct field ScaleSpec.spec.replicas of type int32",
                replicas.kind().go_name()
            ));
        }
    }
    serde_json::from_slice(json).map_err(|error| error.to_string())
}

/// What a scale has that is no field of one; of its metadata nothing is told.
fn unknown_fields(json: &[u8]) -> Vec<String> {
    const FIELDS: [(&str, &[&str]); 3] = [
        ("", &["kind", "apiVersion", "metadata", "spec", "status"]),
        ("spec", &["replicas"]),
        ("status", &["replicas", "selector"]),
    ];
    let Ok(value) = serde_json::from_slice::<Value>(json) else {
        return Vec::new();
    };
    let mut unknown = Vec::new();
    for (part, fields) in FIELDS {
        let (of, prefix) = if part.is_empty() {
            (&value, String::new())
        } else {
            (&value[part], format!("{part}."))
        };
        let names = of.as_object().into_iter().flatten().map(|(name, _)| name);
        let others = names.filter(|name| !fields.contains(&name.as_str()));
        unknown.extend(others.map(|name| format!("unknown field {}", quoted(&format!("{prefix}{name}")))));
    }
    unknown
}

/// Checks that a scale is about the object that the path names.
fn check_identity(context: Context<'_>, scale: &Scale) -> Result<(), Status> {
    let mut object = Object::default();
    object.meta.name.clone_from(&scale.metadata.name);
    object.meta.namespace.clone_from(&scale.metadata.namespace);
    super::update::check_identity(context, &mut object)
}

fn unreadable(cause: &str) -> Status {
    Status::bad_request(format!("Scale in version \"v1\" cannot be handled as a Scale: {cause}"))
}
