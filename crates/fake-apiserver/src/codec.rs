//! Bodies in, canonical objects out.
//!
//! [`decode`] reads JSON, YAML or protobuf into an [`Object`] in Go's canonical form, by the generated type tables:
//! YAML and protobuf become JSON text first, so that there is one canonical writer ([`typed`] for built-in kinds,
//! [`custom`] for custom resources). It checks nothing that the real server's decoder does not check: defaulting,
//! admission and validation are later steps, between this one and storage. Start at [`decode`].

mod custom;
mod error;
mod foreign;
mod media_type;
mod meta;
mod name;
mod options;
mod patch_types;
mod proto;
mod quantity;
mod special;
mod tables;
pub(crate) mod time;
mod type_meta;
mod typed;
mod unstructured;
mod yaml;

use std::borrow::Cow;
use std::collections::HashSet;

use bytes::Bytes;

pub(crate) use custom::{duplicates, duplicates_below, embedded_metadata};
pub(crate) use error::DecodeError;
pub(crate) use name::name_in;
pub(crate) use options::{DeleteOptions, IGNORE_STORE_READ_ERROR, Preconditions, decode_delete_options};
pub(crate) use patch_types::{GoType, Member};
#[cfg(any(test, fuzzing))]
pub(crate) use quantity::canonical as canonical_quantity;
pub(crate) use quantity::round_up_to_milli;
pub(crate) use tables::{Field, Shape, Strategy, TypeId, type_of};
pub(crate) use unstructured::convert;
pub(crate) use yaml::{findings as yaml_findings, to_json as yaml_to_json};

use crate::{
    json::{Tape, Value},
    kinds::{Resource, Schema},
    object::{Meta, Object},
    schemas::Nulls,
};

/// The format of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentType {
    Json,
    Yaml,
    Protobuf,
}

impl ContentType {
    /// The format that a `Content-Type` header names; absent or empty means JSON, `None` an unsupported one (415).
    pub(crate) fn from_header(value: Option<&str>) -> Option<Self> {
        let Some(value) = value.filter(|value| !value.is_empty()) else {
            return Some(Self::Json);
        };
        // What clients send is one of these names; only others are taken apart.
        Self::of_name(value).or_else(|| Self::of_name(&media_type::parse(value)?))
    }

    fn of_name(media_type: &str) -> Option<Self> {
        match media_type {
            "application/json" => Some(Self::Json),
            "application/yaml" => Some(Self::Yaml),
            "application/vnd.kubernetes.protobuf" => Some(Self::Protobuf),
            _ => None,
        }
    }
}

/// What happens to unknown and duplicate fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FieldValidation {
    Strict,
    #[default]
    Warn,
    Ignore,
}

/// Whether a text is a quantity of nothing.
pub(crate) fn is_zero_quantity(text: &str) -> bool {
    quantity::canonical(text).is_ok_and(|canonical| canonical == "0")
}

/// A decoded body.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) object: Object,
    /// As the body said, or the defaults of the resource when it said nothing.
    pub(crate) api_version: String,
    pub(crate) kind: String,
    /// For `Warning` headers: unknown and duplicate fields (under `Warn`).
    pub(crate) warnings: Vec<String>,
    /// A warning of repeated owner references, for an object that is the one of the path.
    pub(crate) repeated_owners: Option<String>,
    /// Why an object of another version than the request's is refused, with these warnings.
    pub(crate) wrong_version: Option<DecodeError>,
}

/// Where a body comes from: a patched object is checked less before it is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Request,
    Patch,
    /// Server-side apply, whose result the real server does not decode.
    Apply,
}

impl Source {
    fn is_request(self) -> bool {
        self == Self::Request
    }

    /// What becomes of a null where there must be a value.
    fn nulls(self) -> Nulls {
        match self {
            Self::Request | Self::Patch => Nulls::Dropped,
            Self::Apply => Nulls::Kept,
        }
    }
}

/// Decodes a body as an object of `resource`.
///
/// The kind of a custom resource is returned as the body has it: [`crate::validation::validate_type`] checks it.
///
/// # Errors
///
/// [`DecodeError`], with the server's text. None can be retried.
pub(crate) fn decode(
    resource: &Resource,
    content_type: ContentType,
    body: &[u8],
    validation: FieldValidation,
) -> Result<Decoded, DecodeError> {
    decode_from(Source::Request, resource, content_type, body, validation)
}

/// Decodes the JSON that a patch has produced. As [`decode`], but the object may be of another version of the resource, and
/// a custom resource of any version and kind: [`crate::validation::validate_type`] checks both.
///
/// # Errors
///
/// [`DecodeError`]; the server shows [`DecodeError::cause`] in a 422.
pub(crate) fn decode_patched(
    resource: &Resource,
    json: &[u8],
    validation: FieldValidation,
) -> Result<Decoded, DecodeError> {
    decode_changed(Source::Patch, resource, json, validation)
}

/// As [`decode_patched`], for what server-side apply has made: nulls of custom resources are left to their validation.
///
/// # Errors
/// As for [`decode_patched`].
pub(crate) fn decode_applied(
    resource: &Resource,
    json: &[u8],
    validation: FieldValidation,
) -> Result<Decoded, DecodeError> {
    decode_changed(Source::Apply, resource, json, validation)
}

fn decode_changed(
    source: Source,
    resource: &Resource,
    json: &[u8],
    validation: FieldValidation,
) -> Result<Decoded, DecodeError> {
    let decoded = decode_from(source, resource, ContentType::Json, json, validation);
    if matches!(
        decoded,
        Err(DecodeError::WrongType { .. } | DecodeError::OtherVersion { .. })
    ) && let Ok(tape) = Tape::parse(json)
        && let Some(other) = type_meta::other_version(resource, tape.root())
    {
        let mut decoded = decode_from(source, &other, ContentType::Json, json, validation)?;
        decoded.object = resource.to_served(other.to_stored(&decoded.object).into_owned());
        return Ok(decoded);
    }
    decoded
}

fn decode_from(
    source: Source,
    resource: &Resource,
    content_type: ContentType,
    body: &[u8],
    validation: FieldValidation,
) -> Result<Decoded, DecodeError> {
    let unrecognized = |cause: String| DecodeError::unrecognized(resource, cause, body);
    let mut syntax_findings = Vec::new();
    let mut envelope = None;
    let text: Cow<'_, [u8]> = match content_type {
        ContentType::Json => Cow::Borrowed(body),
        ContentType::Yaml => {
            let (json, duplicates) = yaml::to_json(body).map_err(unrecognized)?;
            syntax_findings.extend(duplicates);
            Cow::Owned(json)
        }
        ContentType::Protobuf => {
            let message = proto::open(body).map_err(unrecognized)?;
            envelope = Some((message.api_version.clone(), message.kind.clone()));
            match resource.schema {
                // The type is checked before the message is read, as its bytes mean something to that type only.
                Schema::Typed(id) => {
                    type_meta::check_typed(resource, &message.api_version, &message.kind, None)?;
                    Cow::Owned(
                        proto::to_json(id, message.raw).map_err(|cause| DecodeError::malformed(resource, cause))?,
                    )
                }
                Schema::Schemaless => {
                    return Err(unrecognized("protobuf is not supported for custom resources".into()));
                }
            }
        }
    };
    let tape = Tape::parse(&text)
        .map_err(|error| unrecognized(format!("couldn't get version/kind; json parse error: {error}")))?;
    let (mut api_version, mut kind) = match envelope {
        Some(types) => types,
        None => type_meta::interpret(tape.root()).map_err(unrecognized)?,
    };
    let findings;
    let mut object;
    let wrong_version;
    match resource.schema {
        Schema::Typed(id) => {
            let found = typed_body(source, resource, id, (&tape, body), (&api_version, &kind), validation)?;
            (api_version, kind, object, findings, wrong_version) = found;
        }
        Schema::Schemaless => {
            (api_version, kind) = type_meta::of_custom(tape.root());
            if kind.is_empty() {
                let cause = format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(body));
                // Without field validation the real server goes another way, which knows what it expects.
                return Err(match validation {
                    FieldValidation::Ignore => DecodeError::malformed(resource, cause),
                    FieldValidation::Strict | FieldValidation::Warn => unrecognized(cause),
                });
            }
            let body_type = (kind.as_str(), type_meta::split(&api_version).1);
            if source.is_request() && tape.root().get("apiVersion").is_some_and(Value::is_null) {
                let cause = ".apiVersion accessor error: <nil> is of the type <nil>, expected string".to_owned();
                return Err(DecodeError::malformed_as(resource, body_type, cause));
            }
            (object, findings) = custom::object(resource, &tape, body_type, validation, source.nulls())?;
            wrong_version = match source {
                Source::Request => type_meta::check_custom(resource, &api_version).err(),
                Source::Patch | Source::Apply => None,
            };
        }
    }
    // The YAML parser has already spoken about duplicate keys.
    let of_yaml = content_type == ContentType::Yaml;
    syntax_findings.extend(
        findings
            .into_iter()
            .filter(|text| !of_yaml || !text.starts_with("duplicate field ")),
    );
    if validation == FieldValidation::Strict && !syntax_findings.is_empty() {
        let body_type = (kind.as_str(), type_meta::split(&api_version).1);
        return Err(DecodeError::strict(resource, body_type, syntax_findings));
    }
    let warnings = if validation == FieldValidation::Warn {
        syntax_findings.iter().flat_map(|text| yaml::findings(text)).collect()
    } else {
        Vec::new()
    };
    let repeated_owners = drop_repeated_owners(source, &mut object.meta);
    Ok(Decoded {
        object,
        api_version,
        kind,
        warnings,
        repeated_owners,
        wrong_version,
    })
}

/// What a body of a built-in kind is: its version and kind, the object, its unknown and duplicate fields, and why it is
/// refused if it is of another version.
type TypedBody = (String, String, Object, Vec<String>, Option<DecodeError>);

/// Reads a body, which was parsed, as an object of a built-in kind; it says that it is of this version and kind.
fn typed_body(
    source: Source,
    resource: &Resource,
    id: TypeId,
    (tape, body): (&Tape<'_>, &[u8]),
    (api_version, kind): (&str, &str),
    validation: FieldValidation,
) -> Result<TypedBody, DecodeError> {
    let own_kind = if kind.is_empty() { &*resource.kind } else { kind };
    if type_meta::lacks_version(api_version, &resource.group) {
        let cause = type_meta::missing_version(body);
        return Err(DecodeError::malformed_as(resource, (own_kind, ""), cause));
    }
    if !source.is_request() && type_meta::split(api_version).1.is_empty() && own_kind != &*resource.kind {
        let cause = type_meta::unfit_without_version(resource, own_kind);
        return Err(DecodeError::wrong_kind(resource, own_kind, "", cause));
    }
    match type_meta::check_typed(resource, api_version, kind, Some(tape.root())) {
        Ok((api_version, kind)) => {
            let (object, findings) = typed_object(resource, id, tape, validation)?;
            Ok((api_version, kind, object, findings, None))
        }
        Err(DecodeError::OtherVersion { message, findings }) if source.is_request() => {
            let wrong = DecodeError::wrong_version(message);
            let (api_version, kind) = (api_version.to_owned(), own_kind.to_owned());
            Ok((api_version, kind, Object::default(), findings, Some(wrong)))
        }
        Err(error) => Err(error),
    }
}

/// Drops owner references that equal an earlier one; returns the server's warning about them.
fn drop_repeated_owners(source: Source, meta: &mut Meta) -> Option<String> {
    let mut seen = HashSet::with_capacity(meta.owner_references.len());
    let mut repeated = Vec::new();
    meta.owner_references.retain(|owner| {
        let is_new = seen.insert(owner.clone());
        if !is_new {
            repeated.push(owner.uid.clone());
        }
        is_new
    });
    // The real server looks at a patched object only after admission.
    let when = if source.is_request() {
        ""
    } else {
        " after mutating admission happens"
    };
    (!repeated.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may \
             reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            repeated.join(", ")
        )
    })
}

fn typed_object(
    resource: &Resource,
    id: TypeId,
    tape: &Tape<'_>,
    validation: FieldValidation,
) -> Result<(Object, Vec<String>), DecodeError> {
    let root = tape.root();
    let ty = id.get();
    let mut writer = typed::Writer::new(validation != FieldValidation::Ignore, root.raw().len() + 64);
    let slots = writer.collect(ty, &[root]);
    let mut meta = Meta::default();
    let mut ranges = Vec::with_capacity(4);
    for (at, field) in ty.fields.iter().enumerate() {
        match field.name {
            "kind" | "apiVersion" => {}
            "metadata" => {
                writer.enter(ty, "metadata");
                meta = meta::parse(&mut writer, &slots.all(at).collect::<Vec<_>>(), field.go);
                writer.leave();
            }
            _ => ranges.extend(
                writer
                    .top_field(ty, field, Some((&slots, at)))
                    .map(|range| (field.name, range)),
            ),
        }
    }
    let (result, findings, out) = writer.finish();
    result.map_err(|cause| DecodeError::malformed(resource, cause))?;
    let out = Bytes::from(out);
    let fields = ranges
        .into_iter()
        .map(|(name, range)| (Cow::Borrowed(name), out.slice(range)))
        .collect();
    Ok((Object { meta, fields }, findings))
}

/// Makes the lists that a client sent empty what they are once they are stored: null where Go writes the field always.
/// The store of definitions of custom resources keeps them, as it holds JSON.
pub(crate) fn settle_empty_lists(resource: &Resource, object: &mut Object) {
    let Schema::Typed(id) = resource.schema else { return };
    if resource.group == "apiextensions.k8s.io" {
        return;
    }
    let ty = id.get();
    for (name, bytes) in &mut object.fields {
        // Rare, and what is found in a text does no harm.
        if memchr::memmem::find(bytes, b"[]").is_none() {
            continue;
        }
        let (Some(field), Ok(tape)) = (ty.fields.iter().find(|field| field.name == *name), Tape::parse(bytes)) else {
            continue;
        };
        let mut writer = typed::Writer::new(false, bytes.len());
        writer.empty_lists = typed::EmptyLists::Stored;
        writer.value(field.shape, field.go, tape.root());
        let settled = writer.finish().2;
        drop(tape);
        *bytes = settled.into();
    }
}

/// What a top-level field is when nobody set it, if Go writes it then: `{}` for the status of a pod. A verb that drops
/// a client's status puts this in its place. `None` for custom resources and for fields that are left out.
pub(crate) fn zero_field(resource: &Resource, name: &str) -> Option<Bytes> {
    let Schema::Typed(id) = resource.schema else {
        return None;
    };
    let ty = id.get();
    let field = ty.fields.iter().find(|field| field.name == name)?;
    let mut writer = typed::Writer::new(false, 64);
    let range = writer.top_field(ty, field, None)?;
    let (_, _, out) = writer.finish();
    Some(Bytes::from(out).slice(range))
}

/// An object that nobody has set anything of, as Go writes it; of a custom resource it is empty.
pub(crate) fn zero_document(resource: &Resource) -> Vec<u8> {
    let Schema::Typed(id) = resource.schema else {
        return b"{}".to_vec();
    };
    let mut writer = typed::Writer::new(false, 128);
    writer.structure(id, None);
    writer.finish().2
}

#[cfg(test)]
pub(crate) mod tests;
