//! The schemas of custom resources: what a definition says of its objects, and what follows from it.
//!
//! [`ValueSchema`] is one as it is read from a definition. [`Shape`] is the one of a version, ready to be used: [`shape`] is the
//! form in which objects are stored and shown (unknown fields dropped, defaults filled in), [`check`] what is wrong with
//! them by the OpenAPI part, [`lists`] by the keys of lists, [`embedded`] by objects inside of objects, [`scale`] by the numbers of
//! replicas. [`regexp`] and [`formats`] are what texts are held against.
//!
//! All walks go over a parsed text and a schema side by side, and recurse no deeper than the schema does. Start at
//! [`Shape`].

mod cel;
mod check;
mod embedded;
mod formats;
mod lists;
mod path;
mod place;
mod regexp;
mod scale;
mod shape;
mod value_schema;

pub(crate) use cel::{Budget, compile as compile_rule, validate as validate_rules};
pub(crate) use check::{Correlation, check};
pub(crate) use embedded::validate as validate_embedded;
pub(crate) use path::path_in;
pub(crate) use place::Place;
#[cfg(any(test, fuzzing))]
pub(crate) use regexp::compile as compile_pattern;
pub(crate) use scale::{ScalePaths, number_at, set_number_at, text_at};
pub(crate) use shape::{Defaults, Nulls, Shape, Unknown, unknown_in, unknown_text};
pub(crate) use value_schema::{Additional, Items, Json, MAX_DEPTH, Rule, ValueSchema, is_too_deep};

use crate::json::{Tape, Value};
use crate::kinds::Resource;
use crate::object::{Object, TypeMeta, write_output};
use crate::told::Told;
use crate::validation::{ErrorKind, FieldError, Written};

/// What is wrong with a custom resource, whose metadata has these findings.
pub(crate) fn validate(resource: &Resource, written: &Written<'_>, of_metadata: Vec<FieldError>) -> Vec<FieldError> {
    let Some(shape) = resource.shape().filter(|shape| shape.says_anything()) else {
        return of_metadata;
    };
    let new = whole(resource, written.new);
    let old = written.old.map(|old| whole(resource, old));
    // What the server itself has written.
    let Ok(new) = Tape::parse(&new) else { return of_metadata };
    let old = old.as_deref().and_then(|old| Tape::parse(old).ok());
    let old = old.as_ref().map(Tape::root);
    let new = new.root();
    let mut errors = of_metadata;
    if written.of_status {
        status(shape, new, old, &mut errors);
    } else {
        object(shape, new, old, &mut errors);
    }
    let schema = shape.schema();
    let repeats = |of: Value<'_>| lists::validate(schema, of);
    let of_lists = repeats(new);
    if !of_lists.is_empty() && old.is_none_or(|old| repeats(old).is_empty()) {
        errors.extend(of_lists);
    }
    if !schema.has_rules() {
        return errors;
    }
    if errors.iter().any(blocks_rules) {
        let text = "some validation rules were not checked because the object was invalid; correct the existing errors to \
                    complete validation";
        errors.push(invalid(NOWHERE, "null", text));
        return errors;
    }
    let correlation = old.map(|old| Correlation { new, old, schema });
    let mut budget = Budget::default();
    errors.extend(validate_rules(schema, new, old, &ROOT, correlation, true, &mut budget));
    errors
}

/// Whether rules say nothing about an object with such a finding: it may not be of the types that they are about.
fn blocks_rules(error: &FieldError) -> bool {
    matches!(
        error.kind,
        ErrorKind::NotSupported
            | ErrorKind::Required
            | ErrorKind::TooLong
            | ErrorKind::TooMany
            | ErrorKind::TypeInvalid
    )
}

/// What is wrong with an object but for its status.
fn object(shape: &Shape, new: Value<'_>, old: Option<Value<'_>>, errors: &mut Vec<FieldError>) {
    let schema = shape.schema();
    let correlation = old.map(|old| Correlation { new, old, schema });
    errors.extend(check(schema, new, &ROOT, correlation));
    if let Some(paths) = shape.scale() {
        paths.check_spec(new, errors);
        paths.check_status(new, errors);
    }
    errors.extend(validate_embedded(schema, new, &ROOT));
}

/// What is wrong with a status that is written alone.
fn status(shape: &Shape, new: Value<'_>, old: Option<Value<'_>>, errors: &mut Vec<FieldError>) {
    let schema = shape.schema();
    if let (Some(of_status), Some(status)) = (schema.properties.get("status"), new.get("status")) {
        let old = old.and_then(|old| old.get("status"));
        let correlation = old.map(|old| Correlation {
            new: status,
            old,
            schema: of_status,
        });
        errors.extend(check(of_status, status, &Place::from("status"), correlation));
    }
    if let Some(paths) = shape.scale() {
        paths.check_status(new, errors);
    }
}

/// The JSON of a whole object as clients see it, without a resource version.
fn whole(resource: &Resource, object: &Object) -> Vec<u8> {
    let api_version = resource.api_version();
    let type_meta = TypeMeta {
        api_version: &api_version,
        kind: &resource.kind,
    };
    let mut out = Vec::with_capacity(512);
    write_output(&object.to_canonical(), Some(type_meta), 0, &mut out);
    out
}

/// Findings about places, as many as are told.
#[derive(Default)]
struct Found {
    errors: Vec<FieldError>,
    told: Told,
}

impl Found {
    /// Adds what is made of the path of a place.
    fn add(&mut self, at: &Place<'_>, word: impl FnOnce(String) -> FieldError) {
        self.errors.extend(self.told.word(|| word(at.to_string())));
    }

    fn into_errors(mut self) -> Vec<FieldError> {
        self.errors.extend(FieldError::rest(&self.told));
        self.errors
    }
}

/// A finding about a value of no text.
fn invalid(field: &str, value: &str, why: &str) -> FieldError {
    FieldError::new(ErrorKind::Invalid, field, &format!("{value}: {why}"))
}

/// A value as findings show it: texts in Go's quotes, all else as JSON.
fn shown(value: Value<'_>) -> String {
    use crate::json::{Kind, canonical};
    match value.kind() {
        Kind::String => crate::gotext::go_quote(&value.as_str().unwrap_or_default()),
        Kind::Number if value.as_number().is_some_and(|digits| digits.parse::<i64>().is_err()) => {
            let float = value.as_number().and_then(|digits| digits.parse().ok());
            crate::gotext::go_float(float.unwrap_or_default())
        }
        _ => {
            let mut out = Vec::with_capacity(value.raw().len());
            // Numbers out of range are refused before.
            let _ = canonical::write(&mut out, value);
            String::from_utf8(out).unwrap_or_default()
        }
    }
}

/// The path of a field: names are put together with dots.
fn child(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// Where a walk over an object begins.
const ROOT: Place<'static> = Place::from("");

/// Where nothing is named.
const NOWHERE: &str = "<nil>";
