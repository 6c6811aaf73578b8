//! What each version may have: subresources, columns and selectable fields. What all versions have alike is looked at once,
//! and named as if it stood beside the versions.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Errors, Version, schemas};
use crate::gotext::go_quote;
use crate::json::write::quoted;
use crate::schemas::{ValueSchema, path_in};
use crate::validation::ErrorKind;

/// How many fields may be selectable.
const MAX_FIELDS: usize = 8;
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Subresources {
    status: Option<serde::de::IgnoredAny>,
    scale: Option<Scale>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Scale {
    #[serde(rename = "specReplicasPath")]
    wanted: String,
    #[serde(rename = "statusReplicasPath")]
    present: String,
    #[serde(rename = "labelSelectorPath")]
    selector: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Column {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    format: String,
    description: String,
    priority: i32,
    json_path: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Selectable {
    json_path: String,
}

/// A part of a version, in Go's form: equal parts are equal texts.
type Part = for<'v, 'a> fn(&'v Version<'a>) -> Option<&'a RawValue>;

const SCHEMA: Part = |version| version.schema;
const SUBRESOURCES: Part = |version| version.subresources;
const COLUMNS: Part = |version| version.additional_printer_columns;
const FIELDS: Part = |version| version.selectable_fields;

/// Whether all versions have the same.
fn is_common(versions: &[Version<'_>], part: Part) -> bool {
    let text = |version: &Version<'_>| part(version).map(|raw| raw.get().to_owned());
    versions.windows(2).all(|pair| text(&pair[0]) == text(&pair[1]))
}

fn read<'a, T: Deserialize<'a> + Default>(part: Option<&'a RawValue>) -> T {
    // Canonical bytes of a decoded object.
    part.and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default()
}

/// Looks at what a version has of its own.
pub(super) fn of_version(version: &Version<'_>, versions: &[Version<'_>], field: &str, errors: &mut Errors) {
    if !is_common(versions, SCHEMA)
        && let Some(schema) = version.openapi_schema()
    {
        schemas::validate(schema, has_status(version), &format!("{field}.schema"), errors);
    }
    if !is_common(versions, SUBRESOURCES) {
        subresources(version, field, errors);
    }
    if !is_common(versions, COLUMNS) {
        columns(version, field, errors);
    }
    if !is_common(versions, FIELDS) {
        let text = "may only be set when `version.schema.openAPIV3Schema` is not included";
        let has_schema = version.has_schema() && !is_common(versions, SCHEMA);
        selectable_fields(version, field, (!has_schema).then_some(text), errors);
    }
}

/// Looks at what all versions have in common.
pub(super) fn of_all_versions(versions: &[Version<'_>], errors: &mut Errors) {
    let Some(first) = versions.first() else { return };
    if is_common(versions, SCHEMA)
        && let Some(schema) = first.openapi_schema()
    {
        let with_status = versions.iter().any(has_status);
        schemas::validate(schema, with_status, "spec.validation", errors);
    }
    if is_common(versions, SUBRESOURCES) {
        subresources(first, "spec", errors);
    }
    if is_common(versions, COLUMNS) {
        columns(first, "spec", errors);
    }
    if is_common(versions, FIELDS) {
        let text = "may only be set when validations.schema is included";
        let has_schema = first.schema.is_some() && is_common(versions, SCHEMA);
        selectable_fields(first, "spec", (!has_schema).then_some(text), errors);
    }
}

/// Whether the status is written alone.
fn has_status(version: &Version<'_>) -> bool {
    let found: Subresources = read(version.subresources);
    found.status.is_some()
}

fn subresources(version: &Version<'_>, field: &str, errors: &mut Errors) {
    let found: Subresources = read(version.subresources);
    let Some(scale) = found.scale else { return };
    let field = format!("{field}.subresources.scale");
    for (name, path, below) in [
        ("specReplicasPath", &scale.wanted, ".spec"),
        ("statusReplicasPath", &scale.present, ".status"),
    ] {
        let field = format!("{field}.{name}");
        if path.is_empty() {
            errors.required(&field, "");
        } else if is_simple_path(path, &field, errors) && !path.starts_with(&format!("{below}.")) {
            errors.invalid(&field, path, format!("should be a json path under {below}"));
        }
    }
    if let Some(path) = scale.selector.filter(|path| !path.is_empty()) {
        let field = format!("{field}.labelSelectorPath");
        let is_below = path.starts_with(".spec.") || path.starts_with(".status.");
        if is_simple_path(&path, &field, errors) && !is_below {
            // A pointer to a text, which is shown as JSON.
            errors.raw(
                &field,
                quoted(&path),
                "should be a json path under either .spec or .status",
            );
        }
    }
}

/// Whether a path is one from the root of an object.
fn is_simple_path(path: &str, field: &str, errors: &mut Errors) -> bool {
    let is_simple = path.starts_with('.');
    if !is_simple {
        errors.invalid(field, path, "must be a simple json path starting with .");
    }
    is_simple
}

fn columns(version: &Version<'_>, field: &str, errors: &mut Errors) {
    let columns: Vec<Column> = read(version.additional_printer_columns);
    for (index, column) in columns.iter().enumerate() {
        let field = format!("{field}.additionalPrinterColumns[{index}]");
        if column.name.is_empty() {
            errors.required(format!("{field}.name"), "");
        }
        let types = format!("must be one of {}", COLUMN_TYPES.join(","));
        if column.kind.is_empty() {
            errors.required(format!("{field}.type"), &types);
        } else if !COLUMN_TYPES.contains(&column.kind.as_str()) {
            errors.invalid(format!("{field}.type"), &column.kind, &types);
        }
        if !column.format.is_empty() && !COLUMN_FORMATS.contains(&column.format.as_str()) {
            let formats = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.invalid(format!("{field}.format"), &column.format, &formats);
        }
        let field = format!("{field}.JSONPath");
        if column.json_path.is_empty() {
            errors.required(&field, "");
        } else {
            is_simple_path(&column.json_path, &field, errors);
        }
    }
}

fn selectable_fields(version: &Version<'_>, field: &str, no_schema: Option<&str>, errors: &mut Errors) {
    let fields: Vec<Selectable> = read(version.selectable_fields);
    if fields.is_empty() {
        return;
    }
    let field = format!("{field}.selectableFields");
    if let Some(text) = no_schema {
        return errors.invalid(&field, "", text);
    }
    // One that cannot be read is refused as such.
    let schema = version
        .openapi_schema()
        .and_then(ValueSchema::parse)
        .unwrap_or_default();
    let mut paths = std::collections::HashSet::new();
    for (index, selectable) in fields.iter().enumerate() {
        let field = format!("{field}[{index}].jsonPath");
        let path = &selectable.json_path;
        if path.is_empty() {
            errors.required(&field, "");
            continue;
        }
        let (found, of_field) = match path_in(&schema, path, false) {
            Ok(found) => found,
            Err(why) => {
                errors.invalid(&field, path, format!("is an invalid path: {why}"));
                continue;
            }
        };
        if found.split(['.', '[']).next() == Some("metadata") {
            errors.invalid(&field, path, "must not point to fields in metadata");
        }
        if !matches!(of_field.kind.as_str(), "string" | "boolean" | "integer") {
            let text = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                        formats are allowed.";
            errors.invalid(&field, path, text);
        }
        if !paths.insert(found) {
            errors.add(ErrorKind::Duplicate, &field, go_quote(path));
        }
    }
    if paths.len() > MAX_FIELDS {
        let text = format!("{}: must have at most {MAX_FIELDS} items", paths.len());
        errors.add(ErrorKind::TooMany, &field, &text);
    }
}

/// The versions as a text shows them: as Go writes what is left beside what they have in common. Schemas of their own
/// are left out.
pub(super) fn dump(versions: &[Version<'_>]) -> String {
    if versions.is_empty() {
        return "null".to_owned();
    }
    let own = |part: Part| !is_common(versions, part);
    let (subresources, columns, fields) = (own(SUBRESOURCES), own(COLUMNS), own(FIELDS));
    let shown: Vec<String> = versions
        .iter()
        .map(|version| {
            let warning = version.deprecation_warning.as_deref().map_or("null".to_owned(), quoted);
            let null = || "null".to_owned();
            format!(
                r#"{{"Name":{},"Served":{},"Storage":{},"Deprecated":{},"DeprecationWarning":{warning},"Schema":null,"Subresources":{},"AdditionalPrinterColumns":{},"SelectableFields":{}}}"#,
                quoted(&version.name),
                version.served,
                version.storage,
                version.deprecated,
                version.subresources.filter(|_| subresources).map_or_else(null, dump_subresources),
                version.additional_printer_columns.filter(|_| columns).map_or_else(null, dump_columns),
                version.selectable_fields.filter(|_| fields).map_or_else(null, dump_fields),
            )
        })
        .collect();
    format!("[{}]", shown.join(","))
}

fn dump_subresources(raw: &RawValue) -> String {
    let found: Subresources = read(Some(raw));
    let status = if found.status.is_some() { "{}" } else { "null" };
    let scale = found.scale.map_or("null".to_owned(), |scale| {
        format!(
            r#"{{"SpecReplicasPath":{},"StatusReplicasPath":{},"LabelSelectorPath":{}}}"#,
            quoted(&scale.wanted),
            quoted(&scale.present),
            scale.selector.as_deref().map_or("null".to_owned(), quoted),
        )
    });
    format!(r#"{{"Status":{status},"Scale":{scale}}}"#)
}

fn dump_columns(raw: &RawValue) -> String {
    let columns: Vec<Column> = read(Some(raw));
    let shown: Vec<String> = columns
        .iter()
        .map(|column| {
            format!(
                r#"{{"Name":{},"Type":{},"Format":{},"Description":{},"Priority":{},"JSONPath":{}}}"#,
                quoted(&column.name),
                quoted(&column.kind),
                quoted(&column.format),
                quoted(&column.description),
                column.priority,
                quoted(&column.json_path),
            )
        })
        .collect();
    format!("[{}]", shown.join(","))
}

fn dump_fields(raw: &RawValue) -> String {
    let fields: Vec<Selectable> = read(Some(raw));
    let shown: Vec<String> = fields
        .iter()
        .map(|field| format!(r#"{{"JSONPath":{}}}"#, quoted(&field.json_path)))
        .collect();
    format!("[{}]", shown.join(","))
}
