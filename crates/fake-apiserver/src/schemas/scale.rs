//! Where a definition says that the numbers of replicas are, and what may be there.

use serde::Deserialize;

use super::invalid;
use crate::json::{Kind, Tape, Value, canonical, write};
use crate::object::Object;
use crate::validation::FieldError;

/// The paths that a definition gives for the subresource `scale`, as it writes them: `.spec.replicas`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct ScalePaths {
    #[serde(rename = "specReplicasPath")]
    pub(crate) wanted: String,
    #[serde(rename = "statusReplicasPath")]
    pub(crate) present: String,
    #[serde(rename = "labelSelectorPath")]
    pub(crate) selector: Option<String>,
}

impl ScalePaths {
    /// Looks at the number that is wanted.
    pub(super) fn check_spec(&self, object: Value<'_>, errors: &mut Vec<FieldError>) {
        number(&self.wanted, object, errors);
    }

    /// Looks at the number that there is, and at the selector.
    pub(super) fn check_status(&self, object: Value<'_>, errors: &mut Vec<FieldError>) {
        number(&self.present, object, errors);
        if let Some(path) = &self.selector
            && let Err(text) = text_at(object, path)
        {
            errors.push(invalid(path, "\"\"", &text));
        }
    }
}

fn number(path: &str, object: Value<'_>, errors: &mut Vec<FieldError>) {
    let why = match number_at(object, path) {
        Ok(None | Some(0..=0x7fff_ffff)) => return,
        Ok(Some(found)) if found < 0 => (found, "should be a non-negative integer".to_owned()),
        Ok(Some(found)) => (found, format!("should be less than or equal to {}", i32::MAX)),
        Err(text) => (0, text),
    };
    errors.push(invalid(path, &why.0.to_string(), &why.1));
}

/// The names of a path.
fn names(path: &str) -> Vec<&str> {
    path.strip_prefix('.').unwrap_or(path).split('.').collect()
}

/// The value at a path.
///
/// # Errors
/// The text about what is no object on the way.
fn value_at<'t>(object: Value<'t>, path: &str) -> Result<Option<Value<'t>>, String> {
    let names = names(path);
    let mut value = object;
    for (at, name) in names.iter().enumerate() {
        match value.kind() {
            Kind::Object => match value.get(name) {
                Some(found) => value = found,
                None => return Ok(None),
            },
            Kind::Null => return Ok(None),
            _ => {
                return Err(accessor(&names[..=at], value, "map[string]interface {}"));
            }
        }
    }
    Ok(Some(value))
}

/// The text about a value of another type than is read.
fn accessor(names: &[&str], value: Value<'_>, wanted: &str) -> String {
    let path = names.join(".");
    let kind = match value.as_number() {
        Some(digits) if digits.parse::<i64>().is_ok() => "int64",
        _ => crate::structured::go_type_of(value),
    };
    let shown = crate::structured::go_plain(value);
    format!(".{path} accessor error: {shown} is of the type {kind}, expected {wanted}")
}

/// The integer at a path.
///
/// # Errors
/// The text about a value of another type.
pub(crate) fn number_at(object: Value<'_>, path: &str) -> Result<Option<i64>, String> {
    let Some(value) = value_at(object, path)? else {
        return Ok(None);
    };
    match value.as_number().map(str::parse) {
        Some(Ok(number)) => Ok(Some(number)),
        _ => Err(accessor(&names(path), value, "int64")),
    }
}

/// The text at a path.
///
/// # Errors
/// The text about a value of another type.
pub(crate) fn text_at(object: Value<'_>, path: &str) -> Result<Option<String>, String> {
    let Some(value) = value_at(object, path)? else {
        return Ok(None);
    };
    match value.as_str() {
        Some(text) => Ok(Some(text.into_owned())),
        None => Err(accessor(&names(path), value, "string")),
    }
}

/// Sets the integer at a path of an object; what is missing on the way is made.
///
/// # Errors
/// The text about what is no object on the way.
pub(crate) fn set_number_at(object: &mut Object, path: &str, number: i64) -> Result<(), String> {
    let names = names(path);
    let Some((first, rest)) = names.split_first() else {
        return Ok(());
    };
    let mut out = Vec::new();
    match object.field(first) {
        Some(json) => {
            // What the server itself has written.
            let tape = Tape::parse(json).map_err(|error| error.to_string())?;
            write_with(&mut out, Some(tape.root()), rest, number)?;
        }
        None => write_with(&mut out, None, rest, number)?,
    }
    let place = object.fields.iter().position(|(name, _)| name.as_ref() >= *first);
    match place {
        Some(place) if object.fields[place].0 == *first => object.fields[place].1 = out.into(),
        Some(place) => object.fields.insert(place, ((*first).to_owned().into(), out.into())),
        None => object.fields.push(((*first).to_owned().into(), out.into())),
    }
    Ok(())
}

/// Writes a value with a number at a path below it.
fn write_with(out: &mut Vec<u8>, value: Option<Value<'_>>, path: &[&str], number: i64) -> Result<(), String> {
    let Some((first, rest)) = path.split_first() else {
        write::int(out, number);
        return Ok(());
    };
    let value = value.filter(|value| !value.is_null());
    if let Some(value) = value.filter(|value| value.kind() != Kind::Object) {
        return Err(format!(
            "value cannot be set because {} is not a map[string]interface{{}}",
            crate::structured::go_plain(value)
        ));
    }
    let mut entries: Vec<(std::borrow::Cow<'_, str>, Option<Value<'_>>)> = value
        .map(canonical::sorted_entries)
        .unwrap_or_default()
        .into_iter()
        .map(|(name, value)| (name.as_str().unwrap_or_default(), Some(value)))
        .collect();
    if let Err(place) = entries.binary_search_by(|(name, _)| name.as_ref().cmp(first)) {
        entries.insert(place, ((*first).into(), None));
    }
    out.push(b'{');
    for (name, value) in entries {
        write::comma(out);
        write::string(out, &name);
        out.push(b':');
        match value {
            value if name == *first => write_with(out, value, rest, number)?,
            // Numbers out of range are refused before.
            Some(value) => drop(canonical::write(out, value)),
            None => {}
        }
    }
    out.push(b'}');
    Ok(())
}
