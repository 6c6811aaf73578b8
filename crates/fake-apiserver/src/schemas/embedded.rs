//! What is wrong with objects inside of a custom resource: they have a type, and metadata as any object.

use super::value_schema::ValueSchema;
use super::{Found, Place, child, invalid, shown};
use crate::codec::embedded_metadata;
use crate::json::{Kind, Value, canonical};
use crate::steps::step;
use crate::validation::{ErrorKind, FieldError, label_1035_errors, validate_embedded as validate_metadata};

/// What is wrong with the objects inside of a value.
pub(crate) fn validate(schema: &ValueSchema, value: Value<'_>, path: &Place<'_>) -> Vec<FieldError> {
    let mut found = Found::default();
    walk(schema, value, path, &mut found);
    found.into_errors()
}

fn walk(schema: &ValueSchema, value: Value<'_>, path: &Place<'_>, found: &mut Found) {
    step();
    match value.kind() {
        Kind::Object => {
            if schema.embedded {
                resource(value, path, found);
            }
            for (name, below) in canonical::sorted_entries(value) {
                let name = name.as_str().unwrap_or_default();
                if let Some(property) = schema.properties.get(&*name) {
                    walk(property, below, &path.field(&name), found);
                } else if let Some(of_value) = schema.value() {
                    walk(of_value, below, &path.entry(&name), found);
                }
            }
        }
        Kind::Array => {
            if let Some(of_item) = schema.item() {
                for (index, item) in value.items().enumerate() {
                    walk(of_item, item, &path.index(index), found);
                }
            }
        }
        _ => {}
    }
}

fn resource(object: Value<'_>, path: &Place<'_>, found: &mut Found) {
    for name in ["apiVersion", "kind"] {
        let at = path.field(name);
        let Some(value) = object.get(name) else {
            found.add(&at, |field| FieldError::new(ErrorKind::Required, field, ""));
            continue;
        };
        let why = match value.as_str().as_deref() {
            None => "must be a string".to_owned(),
            Some("") => "must not be empty".to_owned(),
            Some(version) if name == "apiVersion" && version.matches('/').count() > 1 => {
                format!("unexpected GroupVersion string: {version}")
            }
            Some(kind) if name == "kind" => {
                let wrong = label_1035_errors(&kind.to_lowercase());
                if wrong.is_empty() {
                    continue;
                }
                format!("may have mixed case, but should otherwise match: {}", wrong.join(","))
            }
            Some(_) => continue,
        };
        found.add(&at, |field| invalid(&field, &shown(value), &why));
    }
    let Some(metadata) = object.get("metadata") else { return };
    let at = path.field("metadata");
    match embedded_metadata(metadata) {
        Ok(of_metadata) => {
            // Short, with paths from here on.
            for error in validate_metadata(&of_metadata.meta, "metadata") {
                found.add(path, |above| {
                    if error.field.starts_with("metadata") {
                        let field = child(&above, &error.field);
                        FieldError { field, ..error }
                    } else {
                        error
                    }
                });
            }
        }
        Err(text) => found.add(&at, |field| invalid(&field, &shown(metadata), &text)),
    }
}
