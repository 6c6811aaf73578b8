//! From JSON of no type to an object of a kind, as the real server goes after a strategic merge patch: not by its decoder of
//! JSON but by a converter, which is laxer about numbers, knows no duplicates, and has texts of its own.
//!
//! [`convert`] checks as that one does, and writes what the decoder then takes as it is.

use std::fmt::Write as _;

use super::tables::{Shape, Type, TypeId};
use super::typed::Writer;
use crate::json::{Kind, Tape, Value, canonical, write};
use crate::steps::step;
use crate::told::Told;

/// Deeper values are refused: the walk recurses.
const MAX_DEPTH: usize = 500;

/// What a converter has made.
#[derive(Debug)]
pub(crate) struct Converted {
    /// The object as JSON, without its version and kind.
    pub(crate) json: Vec<u8>,
    /// The texts about unknown fields, in order.
    pub(crate) unknown: Vec<String>,
}

/// Converts an object.
///
/// # Errors
///
/// The text about the first value of a wrong type.
pub(crate) fn convert(id: TypeId, root: Value<'_>) -> Result<Converted, String> {
    let mut converter = Converter {
        out: Vec::with_capacity(root.raw().len()),
        path: String::new(),
        depth: 0,
        unknown: Vec::new(),
        told: Told::default(),
    };
    converter.structure(id.get(), root)?;
    let mut unknown = converter.unknown;
    unknown.sort();
    unknown.extend(converter.told.rest().map(|rest| rest.to_string()));
    Ok(Converted {
        json: converter.out,
        unknown,
    })
}

/// What Go calls the kind of a value.
fn kind_of(value: Value<'_>) -> &'static str {
    match value.kind() {
        Kind::Null => "invalid",
        Kind::False | Kind::True => "bool",
        Kind::Number if int(value).is_some() => "int64",
        Kind::Number => "float64",
        Kind::String => "string",
        Kind::Array => "slice",
        Kind::Object => "map",
    }
}

fn int(value: Value<'_>) -> Option<i64> {
    value.as_number()?.parse().ok()
}

fn float(value: Value<'_>) -> Option<f64> {
    value.as_number()?.parse().ok()
}

struct Converter {
    out: Vec<u8>,
    /// The path to the current value; keys of maps are no part of it.
    path: String,
    depth: usize,
    unknown: Vec<String>,
    told: Told,
}

impl Converter {
    fn structure(&mut self, ty: &'static Type, value: Value<'_>) -> Result<(), String> {
        if value.kind() != Kind::Object {
            return Err(format!("cannot restore struct from: {}", kind_of(value)));
        }
        let mut slots = vec![None; ty.fields.len()];
        let length = self.path.len();
        let mut guess = 0;
        for (key, member) in canonical::sorted_entries(value) {
            let name = key.as_str().unwrap_or_default();
            if let Some(at) = ty.position(name.as_bytes(), guess) {
                slots[at] = Some(member);
                guess = at + 1;
            } else {
                self.enter(&name);
                let path = &self.path;
                let text = self.told.word(|| format!("unknown field \"{path}\""));
                self.unknown.extend(text);
                self.path.truncate(length);
            }
        }
        let is_root = self.depth == 0;
        self.out.push(b'{');
        for (field, member) in ty.fields.iter().zip(slots) {
            let Some(member) = member.filter(|member| !member.is_null()) else {
                continue;
            };
            let start = self.out.len();
            write::name(&mut self.out, field.name);
            self.enter(field.name);
            self.value(field.shape, field.go, member)?;
            self.path.truncate(length);
            if is_root && matches!(field.name, "apiVersion" | "kind") {
                self.out.truncate(start);
            }
        }
        self.out.push(b'}');
        Ok(())
    }

    fn enter(&mut self, name: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(name);
    }

    fn value(&mut self, shape: Shape, go: &'static str, value: Value<'_>) -> Result<(), String> {
        step();
        if value.is_null() {
            self.out.extend_from_slice(b"null");
            return Ok(());
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        let go = go.strip_prefix('*').unwrap_or(go);
        match shape {
            Shape::Str | Shape::Bool | Shape::Int32 | Shape::Int64 | Shape::Float64 => {
                self.scalar(shape, go, value)?;
            }
            Shape::Bytes => self.bytes(value)?,
            Shape::List(element) => {
                if value.kind() != Kind::Array {
                    return Err(format!("cannot restore slice from {}", kind_of(value)));
                }
                let go = go.strip_prefix("[]").unwrap_or("string");
                self.out.push(b'[');
                let length = self.path.len();
                for (at, item) in value.items().enumerate() {
                    write::comma(&mut self.out);
                    // Writing to a string cannot fail.
                    let _ = write!(self.path, "[{at}]");
                    self.value(*element, go, item)?;
                    self.path.truncate(length);
                }
                self.out.push(b']');
            }
            Shape::Map(element) => {
                if value.kind() != Kind::Object {
                    return Err(format!("cannot restore map from {}", kind_of(value)));
                }
                let go = go.split_once(']').map_or("string", |(_, element)| element);
                self.out.push(b'{');
                for (key, item) in canonical::sorted_entries(value) {
                    write::comma(&mut self.out);
                    write::parsed_string(&mut self.out, key);
                    self.out.push(b':');
                    self.value(*element, go, item)?;
                }
                self.out.push(b'}');
            }
            Shape::Struct(id) => self.structure(id.get(), value)?,
            Shape::Time
            | Shape::MicroTime
            | Shape::Quantity
            | Shape::IntOrString
            | Shape::Raw
            | Shape::FieldsV1
            | Shape::Json
            | Shape::SchemaOrBool
            | Shape::SchemaOrArray
            | Shape::SchemaOrStrings => self.decoded(shape, go, value)?,
        }
        self.depth -= 1;
        Ok(())
    }

    fn scalar(&mut self, shape: Shape, go: &str, value: Value<'_>) -> Result<(), String> {
        let from = kind_of(value);
        let cannot_convert = || Err(format!("cannot convert {from} to {go}"));
        match (shape, from) {
            (Shape::Str, "string") => write::parsed_string(&mut self.out, value),
            (Shape::Bool, "bool") | (Shape::Float64, "int64" | "float64") => self.out.extend_from_slice(value.raw()),
            (Shape::Int32 | Shape::Int64, "int64" | "float64") => {
                let number = match (int(value), float(value)) {
                    (Some(number), _) => number,
                    (None, Some(number)) if number.fract() == 0.0 => whole(number),
                    _ => return cannot_convert(),
                };
                write::int(&mut self.out, narrowed(shape, number));
            }
            // To Go a number can become a string: a character.
            (Shape::Str, "int64") => return cannot_convert(),
            _ => {
                let of = match shape {
                    Shape::Str => "string",
                    Shape::Bool => "bool",
                    Shape::Int32 => "int32",
                    Shape::Int64 => "int64",
                    _ => "float64",
                };
                return Err(format!("unrecognized type: {of}"));
            }
        }
        Ok(())
    }

    fn bytes(&mut self, value: Value<'_>) -> Result<(), String> {
        match value.kind() {
            Kind::String => {
                let mut writer = Writer::new(false, value.raw().len());
                writer.value(Shape::Bytes, "[]uint8", value);
                writer
                    .finish()
                    .0
                    .map_err(|error| format!("error decoding from json: {error}"))?;
                write::parsed_string(&mut self.out, value);
            }
            Kind::Array => {
                self.out.push(b'[');
                for item in value.items() {
                    write::comma(&mut self.out);
                    let byte = match (int(item), float(item)) {
                        _ if item.is_null() => 0,
                        (Some(number), _) => number,
                        (None, Some(number)) if number.fract() == 0.0 => whole(number),
                        (None, Some(_)) => return Err("cannot convert float64 to uint8".to_owned()),
                        (None, None) => return Err("unrecognized type: uint8".to_owned()),
                    };
                    write::int(&mut self.out, byte & 0xff);
                }
                self.out.push(b']');
            }
            _ => return Err(format!("cannot restore slice from {}", kind_of(value))),
        }
        Ok(())
    }

    /// A value whose type has a decoder of its own, which is given the value written anew.
    fn decoded(&mut self, shape: Shape, go: &'static str, value: Value<'_>) -> Result<(), String> {
        let mut text = Vec::with_capacity(value.raw().len());
        canonical::write(&mut text, value).map_err(|range| range.0)?;
        let tape = Tape::parse(&text).map_err(|error| error.to_string())?;
        let mut writer = Writer::new(false, text.len());
        writer.value(shape, go, tape.root());
        writer.finish().0?;
        self.out.extend_from_slice(&text);
        Ok(())
    }
}

/// The integer of a whole float, the least one if it is out of range, as the processor has it.
#[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
fn whole(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) {
        number as i64
    } else {
        i64::MIN
    }
}

/// Go cuts off what a smaller type has no room for.
#[expect(clippy::cast_possible_truncation, reason = "that is what is meant")]
fn narrowed(shape: Shape, number: i64) -> i64 {
    match shape {
        Shape::Int32 => i64::from(number as i32),
        _ => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::tests::resource;
    use crate::kinds::Schema;

    fn converted(text: &str) -> Result<(String, Vec<String>), String> {
        let Schema::Typed(id) = resource("apps", "v1", "deployments").schema else {
            panic!("a built-in kind");
        };
        let tape = Tape::parse(text.as_bytes()).unwrap();
        let converted = convert(id, tape.root())?;
        Ok((String::from_utf8(converted.json).unwrap(), converted.unknown))
    }

    #[test]
    fn numbers_are_brought_to_their_type() {
        // [F10]
        for (text, json) in [
            (r#"{"spec":{"replicas":2.0}}"#, r#"{"spec":{"replicas":2}}"#),
            (r#"{"spec":{"replicas":4294967297}}"#, r#"{"spec":{"replicas":1}}"#),
            (
                r#"{"kind":"Pod","apiVersion":null,"spec":{"replicas":null}}"#,
                r#"{"spec":{}}"#,
            ),
            (
                r#"{"spec":{"strategy":{"rollingUpdate":{"maxSurge":5.0}}}}"#,
                r#"{"spec":{"strategy":{"rollingUpdate":{"maxSurge":5}}}}"#,
            ),
        ] {
            assert_eq!(converted(text), Ok((json.to_owned(), Vec::new())), "{text}");
        }
    }

    #[test]
    fn wrong_types_have_the_texts_of_the_converter() {
        // [F10] as a kube-apiserver 1.37.2 answered
        for (text, error) in [
            (r#"{"kind":5}"#, "cannot convert int64 to string"),
            (r#"{"spec":5}"#, "cannot restore struct from: int64"),
            (r#"{"spec":{"replicas":"x"}}"#, "unrecognized type: int32"),
            (r#"{"spec":{"replicas":1.5}}"#, "cannot convert float64 to int32"),
            (r#"{"spec":{"paused":1}}"#, "unrecognized type: bool"),
            (r#"{"metadata":{"labels":[]}}"#, "cannot restore map from slice"),
            (r#"{"metadata":{"finalizers":{}}}"#, "cannot restore slice from map"),
            (
                r#"{"metadata":{"creationTimestamp":5}}"#,
                "json: cannot unmarshal number into Go value of type string",
            ),
        ] {
            assert_eq!(converted(text).unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn unknown_fields_are_told_in_order() {
        // [F14] keys of maps are no part of a path
        let text = r#"{"z":1,"spec":{"template":{"spec":{"containers":[{"name":"a"},{"x\"y":1}]}}},"a":{"b":1}}"#;
        let unknown = [
            "unknown field \"a\"",
            "unknown field \"spec.template.spec.containers[1].x\"y\"",
            "unknown field \"z\"",
        ];
        assert_eq!(converted(text).unwrap().1, unknown);
    }
}
