//! What is wrong with lists whose items must differ: in their keys, or as a whole.

use std::collections::HashMap;

use super::value_schema::ValueSchema;
use super::{Found, Place, invalid, shown};
use crate::json::{Kind, Value, canonical, write};
use crate::steps::step;
use crate::validation::{ErrorKind, FieldError};

/// What is wrong with the lists of an object.
pub(super) fn validate(schema: &ValueSchema, object: Value<'_>) -> Vec<FieldError> {
    let mut found = Found::default();
    fields(schema, object, &Place::from(""), &mut found);
    found.into_errors()
}

fn fields(schema: &ValueSchema, object: Value<'_>, path: &Place<'_>, found: &mut Found) {
    for (name, value) in canonical::sorted_entries(object) {
        step();
        let name = name.as_str().unwrap_or_default();
        if let Some(of_value) = schema.value() {
            below(of_value, value, &path.entry(&name), found);
        }
        if let Some(property) = schema.properties.get(&*name) {
            below(property, value, &path.field(&name), found);
        }
    }
}

fn below(schema: &ValueSchema, value: Value<'_>, path: &Place<'_>, found: &mut Found) {
    match value.kind() {
        Kind::Object => fields(schema, value, path, found),
        Kind::Array => {
            match schema.list_type.as_deref() {
                Some("set") => repeated(path, value, found),
                Some("map") => by_keys(schema, value, path, found),
                _ => {}
            }
            if let Some(of_item) = schema.item() {
                for (index, item) in value.items().enumerate() {
                    below(of_item, item, &path.index(index), found);
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

/// Finds items that equal an earlier one, each the first time that this happens.
struct Repeats(HashMap<Vec<u8>, usize>);

impl Repeats {
    /// Whether this is the second item with these bytes.
    fn is_second(&mut self, key: Vec<u8>) -> bool {
        step();
        let times = self.0.entry(key).or_default();
        *times += 1;
        *times == 2
    }
}

fn repeated(path: &Place<'_>, list: Value<'_>, found: &mut Found) {
    let mut repeats = Repeats(HashMap::new());
    for (index, item) in list.items().enumerate() {
        if repeats.is_second(bytes(item)) {
            found.add(&path.index(index), |field| {
                FieldError::new(ErrorKind::Duplicate, field, &shown(item))
            });
        }
    }
}

/// Looks for items with the same keys. What has none of them, a null too, has the same ones.
fn by_keys(schema: &ValueSchema, list: Value<'_>, path: &Place<'_>, found: &mut Found) {
    for (index, item) in list.items().enumerate() {
        if !matches!(item.kind(), Kind::Object | Kind::Null) {
            let why = "must be an object for an array of list-type map";
            found.add(&path.index(index), |field| invalid(&field, &shown(item), why));
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
    let mut repeats = Repeats(HashMap::new());
    for (index, item) in list.items().enumerate() {
        if repeats.is_second(key(item)) {
            found.add(&path.index(index), |field| {
                FieldError::new(ErrorKind::Duplicate, field, &String::from_utf8_lossy(&key(item)))
            });
        }
    }
}
