//! What is wrong with objects inside of a custom resource: they have a type, and metadata as any object.

use super::value_schema::ValueSchema;
use super::{child, invalid, shown};
use crate::codec::embedded_metadata;
use crate::json::{Kind, Value, canonical};
use crate::validation::{ErrorKind, FieldError, label_1035_errors, validate_embedded as validate_metadata};

/// What is wrong with the objects inside of a value.
pub(crate) fn validate(schema: &ValueSchema, value: Value<'_>, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, value, path, &mut errors);
    errors
}

fn walk(schema: &ValueSchema, value: Value<'_>, path: &str, errors: &mut Vec<FieldError>) {
    match value.kind() {
        Kind::Object => {
            if schema.embedded {
                resource(value, path, errors);
            }
            for (name, below) in canonical::sorted_entries(value) {
                let name = name.as_str().unwrap_or_default();
                if let Some(property) = schema.properties.get(&*name) {
                    walk(property, below, &child(path, &name), errors);
                } else if let Some(of_value) = schema.value() {
                    walk(of_value, below, &format!("{path}[{name}]"), errors);
                }
            }
        }
        Kind::Array => {
            if let Some(of_item) = schema.item() {
                for (index, item) in value.items().enumerate() {
                    walk(of_item, item, &format!("{path}[{index}]"), errors);
                }
            }
        }
        _ => {}
    }
}

fn resource(object: Value<'_>, path: &str, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        let field = child(path, name);
        let Some(value) = object.get(name) else {
            errors.push(FieldError::new(ErrorKind::Required, field, ""));
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
        errors.push(invalid(&field, &shown(value), &why));
    }
    let Some(metadata) = object.get("metadata") else { return };
    let field = child(path, "metadata");
    match embedded_metadata(metadata) {
        Ok(found) => errors.extend(validate_metadata(&found.meta, &field)),
        Err(text) => errors.push(invalid(&field, &shown(metadata), &text)),
    }
}
