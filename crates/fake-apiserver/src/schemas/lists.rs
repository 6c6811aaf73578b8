//! What is wrong with lists whose items must differ: in their keys, or as a whole.

use std::collections::HashMap;

use super::value_schema::ValueSchema;
use super::{child, invalid, shown};
use crate::json::{Kind, Value, canonical, write};
use crate::validation::{ErrorKind, FieldError};

/// What is wrong with the lists of an object.
pub(super) fn validate(schema: &ValueSchema, object: Value<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    fields(schema, object, "", &mut errors);
    errors
}

fn fields(schema: &ValueSchema, object: Value<'_>, path: &str, errors: &mut Vec<FieldError>) {
    for (name, value) in canonical::sorted_entries(object) {
        let name = name.as_str().unwrap_or_default();
        if let Some(of_value) = schema.value() {
            below(of_value, value, &format!("{path}[{name}]"), errors);
        }
        if let Some(property) = schema.properties.get(&*name) {
            below(property, value, &child(path, &name), errors);
        }
    }
}

fn below(schema: &ValueSchema, value: Value<'_>, path: &str, errors: &mut Vec<FieldError>) {
    match value.kind() {
        Kind::Object => fields(schema, value, path, errors),
        Kind::Array => {
            match schema.list_type.as_deref() {
                Some("set") => repeated(value.items().map(bytes), path, value, errors),
                Some("map") => by_keys(schema, value, path, errors),
                _ => {}
            }
            if let Some(of_item) = schema.item() {
                for (index, item) in value.items().enumerate() {
                    below(of_item, item, &format!("{path}[{index}]"), errors);
                }
            }
        }
        _ => {}
    }
}

fn bytes(value: Value<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.raw().len());
    // Numbers out of range are refused before.
    let _ = canonical::write(&mut out, value);
    out
}

/// The places of items that equal an earlier one, each the first time that this happens.
fn repeats(keys: impl Iterator<Item = Vec<u8>>) -> Vec<usize> {
    let mut seen: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut found = Vec::new();
    for (index, key) in keys.enumerate() {
        let times = seen.entry(key).or_default();
        *times += 1;
        if *times == 2 {
            found.push(index);
        }
    }
    found
}

fn repeated(keys: impl Iterator<Item = Vec<u8>>, path: &str, list: Value<'_>, errors: &mut Vec<FieldError>) {
    for index in repeats(keys) {
        let value = list.items().nth(index).map_or_else(String::new, shown);
        errors.push(FieldError::new(
            ErrorKind::Duplicate,
            format!("{path}[{index}]"),
            &value,
        ));
    }
}

/// Looks for items with the same keys. What has none of them, a null too, has the same ones.
fn by_keys(schema: &ValueSchema, list: Value<'_>, path: &str, errors: &mut Vec<FieldError>) {
    for (index, item) in list.items().enumerate() {
        if !matches!(item.kind(), Kind::Object | Kind::Null) {
            let why = "must be an object for an array of list-type map";
            errors.push(invalid(&format!("{path}[{index}]"), &shown(item), why));
            return;
        }
    }
    let mut names: Vec<&String> = schema.list_keys.iter().collect();
    names.sort();
    names.dedup();
    let key = |item: Value<'_>| {
        let mut out = vec![b'{'];
        for name in &names {
            if let Some(value) = item.get(name) {
                write::comma(&mut out);
                write::string(&mut out, name);
                out.push(b':');
                out.extend(bytes(value));
            }
        }
        out.push(b'}');
        out
    };
    let keys: Vec<Vec<u8>> = list.items().map(key).collect();
    for index in repeats(keys.iter().cloned()) {
        let key = String::from_utf8_lossy(&keys[index]).into_owned();
        errors.push(FieldError::new(ErrorKind::Duplicate, format!("{path}[{index}]"), &key));
    }
}
