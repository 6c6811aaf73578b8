//! Custom resources: what their schema knows is kept, in the form that it gives ([`crate::schemas::Shape`]), everything without one;
//! only `metadata` has a type of its own.

use std::{
    borrow::Cow,
    collections::{HashMap, hash_map::Entry},
    fmt::Write as _,
};

use bytes::Bytes;

use super::{
    DecodeError, FieldValidation, meta,
    typed::{MAX_STRICT_ERRORS, Writer},
};
use crate::steps::step;
use crate::{
    gotext::go_quote,
    json::{Entries, Items, Kind, Tape, Value, canonical},
    kinds::Resource,
    object::{FieldName, Meta, Object, write_metadata_of},
    schemas::{Nulls, Unknown, unknown_text},
    told::Told,
};

/// Decodes a custom resource, of which the body says that it is of this kind and version; returns it with its unknown and duplicate fields: first all duplicates, then the unknown
/// fields of `metadata`, as the real server finds them; those of the schema come last.
pub(super) fn object(
    resource: &Resource,
    tape: &Tape<'_>,
    body_type: (&str, &str),
    validation: FieldValidation,
    nulls: Nulls,
) -> Result<(Object, Vec<String>), DecodeError> {
    let root = tape.root();
    let malformed = |cause: String| DecodeError::malformed_as(resource, body_type, cause);
    // The whole body is decoded before anything is looked at.
    if let Some(number) = tape.too_large_number() {
        return Err(malformed(too_large(number)));
    }
    let report = validation != FieldValidation::Ignore;
    let mut findings = if report { duplicates(root) } else { Vec::new() };
    let mut out = Vec::with_capacity(root.raw().len());
    let mut ranges = Vec::with_capacity(4);
    let mut meta = Meta::default();
    let mut shaped = None;
    if let Some(shape) = resource.shape() {
        let unknown = if report { Unknown::Told } else { Unknown::Dropped };
        shaped = Some(shape.fields(root, unknown, nulls).map_err(malformed)?);
    } else {
        for (key, value) in canonical::sorted_entries(root) {
            match key.as_str().unwrap_or_default() {
                name if matches!(&*name, "apiVersion" | "kind" | "metadata") => {}
                name => {
                    let start = out.len();
                    canonical::write(&mut out, value).map_err(|range| malformed(too_large(&range.0)))?;
                    ranges.push((field_name(&name), start..out.len()));
                }
            }
        }
    }
    if let Some(value) = root.get("metadata").filter(|value| !value.is_null()) {
        let mut writer = Writer::new(report, 0);
        meta = meta::parse(&mut writer, &[value], "v1.ObjectMeta");
        let may_repeat = !report || !findings.is_empty();
        if !writer.is_clean() || may_repeat && !duplicates_below(value, String::new()).is_empty() {
            // Of a custom resource the last of duplicates is all that there is, and a number is what its value is written as.
            let mut sorted = Vec::with_capacity(value.raw().len());
            canonical::write(&mut sorted, value).map_err(|range| malformed(too_large(&range.0)))?;
            let tape = Tape::parse(&sorted).map_err(|error| malformed(error.to_string()))?;
            meta = meta::parse(&mut Writer::new(false, 0), &[tape.root()], "v1.ObjectMeta");
        }
        if !writer.is_clean() {
            let unknown = metadata_findings(value, report).map_err(malformed)?;
            let room = MAX_STRICT_ERRORS.saturating_sub(findings.len());
            findings.extend(unknown.into_iter().take(room));
        }
    }
    let fields = if let Some(shaped) = shaped {
        findings.extend(shaped.unknown.iter().map(|path| unknown_text(path)));
        findings.extend(shaped.rest.map(|rest| rest.to_string()));
        shaped.fields()
    } else {
        let out = Bytes::from(out);
        let field = |(name, range): (_, std::ops::Range<usize>)| (name, out.slice(range));
        ranges.into_iter().map(field).collect()
    };
    Ok((Object { meta, fields }, findings))
}

/// The metadata of an object inside of a custom resource.
#[derive(Debug)]
pub(crate) struct EmbeddedMetadata {
    pub(crate) meta: Meta,
    /// The canonical form.
    pub(crate) json: Vec<u8>,
    /// The paths of its unknown fields.
    pub(crate) unknown: Vec<String>,
}

/// Reads the metadata of an object inside of a custom resource.
///
/// # Errors
/// The text about a value that is no metadata.
pub(crate) fn embedded_metadata(metadata: Value<'_>) -> Result<EmbeddedMetadata, String> {
    let mut sorted = Vec::with_capacity(metadata.raw().len());
    canonical::write(&mut sorted, metadata).map_err(|range| too_large(&range.0))?;
    let tape = Tape::parse(&sorted).map_err(|error| error.to_string())?;
    let mut writer = Writer::new(true, 0);
    let meta = meta::parse(&mut writer, &[tape.root()], "v1.ObjectMeta");
    let unknown = writer.unknown_paths();
    writer.finish().0?;
    let mut written = Vec::with_capacity(sorted.len());
    write_metadata_of(&meta, &mut written);
    // Go has it as a map, whose keys are sorted.
    let tape = Tape::parse(&written).map_err(|error| error.to_string())?;
    let mut json = Vec::with_capacity(written.len());
    canonical::write(&mut json, tape.root()).map_err(|range| too_large(&range.0))?;
    Ok(EmbeddedMetadata { meta, json, unknown })
}

fn too_large(number: &str) -> String {
    format!("json: cannot unmarshal number {number} into Go value of type float64")
}

/// What is wrong with metadata: the real server has sorted its fields before it reads them, so that the first finding is
/// the first of those. Returns the unknown fields; duplicate ones are gone by then.
///
/// # Errors
/// The text about a value of a wrong type.
fn metadata_findings(metadata: Value<'_>, report: bool) -> Result<Vec<String>, String> {
    let mut sorted = Vec::with_capacity(metadata.raw().len());
    canonical::write(&mut sorted, metadata).map_err(|range| too_large(&range.0))?;
    let tape = Tape::parse(&sorted).map_err(|error| error.to_string())?;
    let mut writer = Writer::new(report, 0);
    meta::parse(&mut writer, &[tape.root()], "v1.ObjectMeta");
    let unknown = writer.unknown_paths();
    writer.finish().0?;
    // Unlike elsewhere, the path stands in the quotes as it is.
    let texts = unknown.iter().map(|path| format!("unknown field \"metadata.{path}\""));
    Ok(texts.collect())
}

/// The common names need no memory of their own.
fn field_name(name: &str) -> FieldName {
    match name {
        "spec" => Cow::Borrowed("spec"),
        "status" => Cow::Borrowed("status"),
        _ => Cow::Owned(name.to_owned()),
    }
}

/// An open container of the walk of [`duplicates`].
struct Frame<'t> {
    /// The length of the path to this container.
    path: usize,
    members: Members<'t>,
}

enum Members<'t> {
    Array(std::iter::Enumerate<Items<'t>>),
    /// With the keys that were seen, and of each whether it is known to be there twice: a path is put together for the first time only.
    Object(Entries<'t>, HashMap<Cow<'t, str>, bool>),
}

fn frame(value: Value<'_>, path: usize) -> Option<Frame<'_>> {
    let members = match value.kind() {
        Kind::Array => Members::Array(value.items().enumerate()),
        Kind::Object => Members::Object(value.entries(), HashMap::new()),
        _ => return None,
    };
    Some(Frame { path, members })
}

/// The duplicate fields of a whole value in document order, each path once.
pub(crate) fn duplicates(root: Value<'_>) -> Vec<String> {
    duplicates_below(root, String::new())
}

/// The duplicate fields of the value at a path.
pub(crate) fn duplicates_below(root: Value<'_>, mut path: String) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut told = Told::default();
    let mut stack: Vec<Frame<'_>> = frame(root, path.len()).into_iter().collect();
    while let Some(top) = stack.last_mut() {
        step();
        path.truncate(top.path);
        let value = match &mut top.members {
            Members::Array(items) => items.next().map(|(index, value)| {
                // Writing to a string cannot fail.
                let _ = write!(path, "[{index}]");
                value
            }),
            Members::Object(entries, seen) => entries.next().map(|(key, value)| {
                let key = key.as_str().unwrap_or_default();
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(&key);
                let is_news = match seen.entry(key) {
                    Entry::Vacant(place) => {
                        place.insert(false);
                        false
                    }
                    Entry::Occupied(mut known) => !known.insert(true),
                };
                if is_news && found.len() < MAX_STRICT_ERRORS {
                    let text = told.word(|| format!("duplicate field {}", go_quote(&path)));
                    found.extend(text.filter(|text| !found.contains(text)));
                }
                value
            }),
        };
        match value {
            None => {
                stack.pop();
            }
            Some(value) => {
                let depth = path.len();
                stack.extend(frame(value, depth));
            }
        }
    }
    found.extend(told.rest().map(|rest| rest.to_string()));
    found
}
