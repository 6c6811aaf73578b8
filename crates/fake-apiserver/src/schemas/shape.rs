//! The form in which custom resources are stored and shown: unknown fields and nulls that may not be are gone, defaults are
//! there, and the metadata of objects inside of objects is that of any object.
//!
//! # Design
//!
//! One walk over a parsed text and a schema writes the canonical form. It recurses as deep as the schema is: what lies below a
//! schema is copied, or emptied, by loops.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use bytes::Bytes;

use super::{Json, ScalePaths, ValueSchema, invalid, shown};
use crate::codec::embedded_metadata;
use crate::json::{Kind, Tape, Value, canonical, write};
use crate::object::{FieldName, Object};
use crate::steps::step;
use crate::told::{Rest, Told};

/// The schema of one version of a kind, ready to be used.
#[derive(Debug)]
pub(crate) struct Shape {
    schema: ValueSchema,
    /// What it was read from: equal texts are equal shapes.
    source: Bytes,
    scale: Option<ScalePaths>,
    /// Whether anything can be wrong with an object by it.
    says_anything: bool,
}

impl Default for Shape {
    /// The form that anything has: all is kept.
    fn default() -> Self {
        Self {
            schema: ValueSchema {
                kind: "object".to_owned(),
                preserves: Some(true),
                ..ValueSchema::default()
            },
            source: Bytes::new(),
            scale: None,
            says_anything: false,
        }
    }
}

impl Shape {
    /// Reads the schema of a version, with the paths of its scale if it has that.
    pub(crate) fn new(source: &[u8], scale: Option<ScalePaths>) -> Option<Self> {
        let schema = ValueSchema::parse(source)?;
        let trivial = schema.properties.is_empty()
            && schema.additional_properties.is_none()
            && schema.required.is_empty()
            && schema.rules.is_empty()
            && schema.max_properties.is_none()
            && schema.min_properties.is_none()
            && schema.all_of.is_empty()
            && schema.any_of.is_empty()
            && schema.one_of.is_empty()
            && schema.not.is_none();
        Some(Self {
            says_anything: !trivial || scale.is_some(),
            schema,
            source: Bytes::copy_from_slice(source),
            scale,
        })
    }

    pub(crate) fn schema(&self) -> &ValueSchema {
        &self.schema
    }

    pub(crate) fn scale(&self) -> Option<&ScalePaths> {
        self.scale.as_ref()
    }

    pub(super) fn says_anything(&self) -> bool {
        self.says_anything
    }

    /// Whether objects in the form of the other are in this one.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.source == other.source && self.scale == other.scale
    }

    /// The top-level fields of an object in this form, but for those of its type and metadata.
    ///
    /// # Errors
    /// The text about an object inside of it that is none.
    pub(crate) fn fields(&self, root: Value<'_>, unknown: Unknown, nulls: Nulls) -> Result<Shaped, String> {
        self.walk(root, unknown, Defaults::Filled, nulls)
    }

    fn walk(&self, root: Value<'_>, unknown: Unknown, defaults: Defaults, nulls: Nulls) -> Result<Shaped, String> {
        let mut walk = Walk {
            defaults,
            nulls,
            out: Vec::with_capacity(root.raw().len()),
            path: String::new(),
            unknown: (unknown == Unknown::Told).then(Vec::new),
            of_metadata: Vec::new(),
            told: Told::default(),
            filled: 0,
            wrong: None,
        };
        let mut ranges = Vec::with_capacity(4);
        for (name, value) in entries(root, &self.schema, defaults) {
            if is_of_resource(&name) {
                continue;
            }
            let start = walk.out.len();
            if walk.entry(&name, value, &self.schema, self.schema.preserves(), Name::Left) {
                ranges.push((field_name(name), start..walk.out.len()));
            }
        }
        if let Some(wrong) = walk.wrong {
            return Err(wrong);
        }
        let mut found = walk.unknown.unwrap_or_default();
        found.sort();
        found.extend(walk.of_metadata);
        Ok(Shaped {
            out: walk.out.into(),
            ranges,
            unknown: found,
            rest: walk.told.rest(),
        })
    }

    /// An object in this form, whatever was stored.
    pub(crate) fn apply(&self, object: Object, defaults: Defaults) -> Object {
        let mut json = vec![b'{'];
        for (name, value) in &object.fields {
            write::comma(&mut json);
            write::string(&mut json, name);
            json.push(b':');
            json.extend_from_slice(value);
        }
        json.push(b'}');
        // What the server itself has written is no text that cannot be read.
        let Ok(tape) = Tape::parse(&json) else { return object };
        match self.walk(tape.root(), Unknown::Dropped, defaults, Nulls::Dropped) {
            Ok(shaped) => Object {
                fields: shaped.fields(),
                ..object
            },
            Err(_) => object,
        }
    }
}

/// So many bytes of defaults are filled in: an object could otherwise become many times the size of its body and schema.
const MOST_FILLED: usize = 32 << 20;

/// Whether what is missing becomes its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Defaults {
    Filled,
    Left,
}

/// What becomes of a null of a field that has a type, may not be null, and has no default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// It is as if it was not there.
    Dropped,
    /// It stays, for the validation to refuse it.
    Kept,
}

/// Whether unknown fields are told or only dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    Told,
    Dropped,
}

/// The fields of an object in canonical form.
#[derive(Debug)]
pub(crate) struct Shaped {
    out: Bytes,
    ranges: Vec<(FieldName, Range<usize>)>,
    /// The paths of unknown fields: those of the schema in order, then those of metadata inside.
    pub(crate) unknown: Vec<String>,
    /// Those that are not told.
    pub(crate) rest: Option<Rest>,
}

impl Shaped {
    /// The fields; they share memory.
    pub(crate) fn fields(self) -> Vec<(FieldName, Bytes)> {
        let Self { out, ranges, .. } = self;
        let field = |(name, range): (FieldName, Range<usize>)| (name, out.slice(range));
        ranges.into_iter().map(field).collect()
    }
}

/// The common names need no memory of their own.
fn field_name(name: Cow<'_, str>) -> FieldName {
    match &*name {
        "spec" => Cow::Borrowed("spec"),
        "status" => Cow::Borrowed("status"),
        _ => Cow::Owned(name.into_owned()),
    }
}

/// Whether a field belongs to every resource.
fn is_of_resource(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

/// The entries of an object in order, with those that have a default and are missing.
fn entries<'t>(
    value: Value<'t>,
    schema: &'t ValueSchema,
    defaults: Defaults,
) -> Vec<(Cow<'t, str>, Option<Value<'t>>)> {
    let mut entries: Vec<_> = canonical::sorted_entries(value)
        .into_iter()
        .map(|(key, value)| (key.as_str().unwrap_or_default(), Some(value)))
        .collect();
    let there = entries.len();
    let wanted = schema.properties.iter().filter(|_| defaults == Defaults::Filled);
    for (name, property) in wanted {
        let is_there = |name: &str| {
            entries[..there]
                .binary_search_by(|(key, _)| key.as_ref().cmp(name))
                .is_ok()
        };
        if property.fallback().is_some() && !is_there(name) {
            entries.push((Cow::Borrowed(name), None));
        }
    }
    if entries.len() > there {
        entries.sort_by(|a, b| a.0.cmp(&b.0));
    }
    entries
}

/// Whether the name of an entry is written with it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Name {
    Written,
    Left,
}

struct Walk {
    defaults: Defaults,
    nulls: Nulls,
    out: Vec<u8>,
    path: String,
    /// The paths of unknown fields, if they are told.
    unknown: Option<Vec<String>>,
    /// The unknown fields of metadata.
    of_metadata: Vec<String>,
    /// How much of both is told.
    told: Told,
    /// How many bytes of defaults were filled in.
    filled: usize,
    /// The text about the first object inside that is none, or about too many defaults.
    wrong: Option<String>,
}

impl Walk {
    /// Writes an entry of an object, absent for a default; returns whether anything was written.
    fn entry(
        &mut self,
        name: &str,
        value: Option<Value<'_>>,
        schema: &ValueSchema,
        preserves: bool,
        written: Name,
    ) -> bool {
        let declared = schema.properties.get(name);
        let is_known = declared.is_some() || schema.additional_properties.is_some();
        if !is_known && !preserves {
            self.unknown_field(name);
            return false;
        }
        let below = declared.or_else(|| schema.value());
        let is_absent = value.is_none_or(Value::is_null);
        let fills = is_absent && self.defaults == Defaults::Filled;
        let default = below.and_then(ValueSchema::fallback).filter(|_| fills);
        if let (true, Some(below)) = (is_absent, below) {
            let may_be_null = value.is_some() && below.nullable;
            let is_refused = value.is_some() && self.nulls == Nulls::Kept && below.has_type();
            if !may_be_null && default.is_none() && !is_refused {
                return false;
            }
        }
        if written == Name::Written {
            write::comma(&mut self.out);
            write::string(&mut self.out, name);
            self.out.push(b':');
        }
        let depth = self.descend(name);
        match (value, below, default) {
            (Some(value), Some(below), _) if !value.is_null() || below.nullable => self.value(value, Some(below)),
            (_, Some(below), Some(default)) => self.default(default.text(), below),
            (Some(value), None, _) if is_known => self.value(value, None),
            (Some(value), ..) => self.copy(value),
            (None, ..) => {}
        }
        self.path.truncate(depth);
        true
    }

    /// Goes on with the path into a field; returns how long it was.
    fn descend(&mut self, name: &str) -> usize {
        let depth = self.path.len();
        if depth > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        depth
    }

    fn unknown_field(&mut self, name: &str) {
        let depth = self.descend(name);
        if let Some(unknown) = &mut self.unknown {
            unknown.extend(self.told.word(|| self.path.clone()));
        }
        self.path.truncate(depth);
    }

    /// Writes a default, which may leave out what has a default of its own.
    fn default(&mut self, default: &str, schema: &ValueSchema) {
        self.filled += default.len();
        if self.filled > MOST_FILLED {
            return self.refuse(format!(
                "this server fills in no more than {MOST_FILLED} bytes of defaults"
            ));
        }
        // Read from a definition in this form.
        if let Ok(tape) = Tape::parse(default.as_bytes()) {
            self.value(tape.root(), Some(schema));
        }
    }

    /// Writes a value of a schema, or one of which nothing is known: then nothing is kept of objects.
    fn value(&mut self, value: Value<'_>, schema: Option<&ValueSchema>) {
        match schema {
            Some(schema) => self.of_schema(value, schema, schema.preserves()),
            None => self.empty(value),
        }
    }

    fn of_schema(&mut self, value: Value<'_>, schema: &ValueSchema, preserves: bool) {
        step();
        match value.kind() {
            Kind::Object => {
                self.out.push(b'{');
                for (name, value) in entries(value, schema, self.defaults) {
                    match value {
                        Some(value) if schema.embedded && is_of_resource(&name) => self.of_resource(&name, value),
                        value => drop(self.entry(&name, value, schema, preserves, Name::Written)),
                    }
                }
                self.out.push(b'}');
            }
            Kind::Array => {
                let items = schema.item();
                if items.is_none() && preserves {
                    return self.copy(value);
                }
                self.out.push(b'[');
                let depth = self.path.len();
                for (index, item) in value.items().enumerate() {
                    write::comma(&mut self.out);
                    // Writing to a string cannot fail.
                    let _ = write!(self.path, "[{index}]");
                    self.item(item, items, preserves);
                    self.path.truncate(depth);
                }
                self.out.push(b']');
            }
            _ => self.copy(value),
        }
    }

    fn item(&mut self, item: Value<'_>, schema: Option<&ValueSchema>, preserves: bool) {
        match schema {
            None => self.empty(item),
            Some(schema) if item.is_null() && !schema.nullable => match self.default_of(schema) {
                Some(default) => self.default(default.text(), schema),
                None => self.copy(item),
            },
            Some(schema) => self.of_schema(item, schema, preserves || schema.preserves()),
        }
    }

    /// The default, if those are filled in.
    fn default_of<'s>(&self, schema: &'s ValueSchema) -> Option<&'s Json> {
        schema.fallback().filter(|_| self.defaults == Defaults::Filled)
    }

    /// Copies a value.
    fn copy(&mut self, value: Value<'_>) {
        // Numbers out of range are refused before.
        let _ = canonical::write(&mut self.out, value);
    }

    /// Writes a value without the fields of its objects. Does not recurse: lists may be as deep as a body allows.
    fn empty(&mut self, value: Value<'_>) {
        let mut open = Vec::new();
        let mut next = Some(value);
        loop {
            if let Some(value) = next.take() {
                match value.kind() {
                    Kind::Array => {
                        self.out.push(b'[');
                        open.push((value.items().enumerate(), self.path.len()));
                    }
                    Kind::Object => {
                        for (name, _) in canonical::sorted_entries(value) {
                            self.unknown_field(&name.as_str().unwrap_or_default());
                        }
                        self.out.extend_from_slice(b"{}");
                    }
                    _ => self.copy(value),
                }
            }
            let Some((items, depth)) = open.last_mut() else { return };
            self.path.truncate(*depth);
            if let Some((index, item)) = items.next() {
                write::comma(&mut self.out);
                if self.unknown.is_some() {
                    let _ = write!(self.path, "[{index}]");
                }
                next = Some(item);
            } else {
                self.out.push(b']');
                open.pop();
            }
        }
    }

    /// Writes what every resource has, of an object inside of another one.
    fn of_resource(&mut self, name: &str, value: Value<'_>) {
        let path = super::child(&self.path, name);
        write::comma(&mut self.out);
        write::string(&mut self.out, name);
        self.out.push(b':');
        if name != "metadata" {
            if value.kind() != Kind::String {
                self.refuse(invalid(&path, &shown(value), "must be a string").to_string());
            }
            return self.copy(value);
        }
        match embedded_metadata(value) {
            Ok(found) => {
                if self.unknown.is_some() {
                    for field in &found.unknown {
                        let text = self.told.word(|| format!("{path}.{field}"));
                        self.of_metadata.extend(text);
                    }
                }
                self.out.extend_from_slice(&found.json);
            }
            Err(text) => {
                self.refuse(invalid(&path, &shown(value), &text).to_string());
                self.copy(value);
            }
        }
    }

    fn refuse(&mut self, text: String) {
        self.wrong.get_or_insert(text);
    }
}

/// The unknown fields of a value of a schema.
///
/// # Errors
/// The text about an object inside of it that is none.
pub(crate) fn unknown_in(schema: &ValueSchema, value: Value<'_>) -> Result<Vec<String>, String> {
    let mut walk = Walk {
        nulls: Nulls::Dropped,
        defaults: Defaults::Left,
        out: Vec::with_capacity(value.raw().len()),
        path: String::new(),
        unknown: Some(Vec::new()),
        of_metadata: Vec::new(),
        told: Told::default(),
        filled: 0,
        wrong: None,
    };
    walk.of_schema(value, schema, schema.preserves());
    match walk.wrong {
        Some(wrong) => Err(wrong),
        None => Ok(walk.unknown.unwrap_or_default()),
    }
}

/// The text about an unknown field.
pub(crate) fn unknown_text(path: &str) -> String {
    // The path stands in the quotes as it is.
    format!("unknown field \"{path}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shaped(schema: &str, body: &str) -> (String, Vec<String>) {
        let shape = Shape::new(schema.as_bytes(), None).unwrap();
        let tape = Tape::parse(body.as_bytes()).unwrap();
        let shaped = shape.fields(tape.root(), Unknown::Told, Nulls::Dropped).unwrap();
        let unknown = shaped.unknown.clone();
        let fields = shaped.fields().into_iter();
        let text = |(name, value): (FieldName, Bytes)| format!("{name}={}", String::from_utf8_lossy(&value));
        (fields.map(text).collect::<Vec<_>>().join(" "), unknown)
    }

    #[test]
    fn unknown_fields_go_and_defaults_come() {
        // [F17]
        let schema = r#"{"type":"object","properties":{"spec":{"type":"object","default":{},"properties":{
            "a":{"type":"integer","default":1},"b":{"type":"string","nullable":true,"default":"x"},
            "list":{"type":"array","items":{"type":"object","properties":{"c":{"type":"string"}}}}}}}}"#;
        let unknown = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        for (body, found, paths) in [
            (r"{}", r#"spec={"a":1,"b":"x"}"#, unknown(&[])),
            (
                r#"{"spec":{"a":null,"b":null}}"#,
                r#"spec={"a":1,"b":null}"#,
                unknown(&[]),
            ),
            (
                r#"{"z":1,"spec":{"y":{},"list":[{"c":"d","e":1},null]}}"#,
                r#"spec={"a":1,"b":"x","list":[{"c":"d"},null]}"#,
                unknown(&["spec.list[0].e", "spec.y", "z"]),
            ),
        ] {
            assert_eq!(shaped(schema, body), (found.to_owned(), paths), "{body}");
        }
    }

    #[test]
    fn values_of_which_nothing_is_known_may_be_as_deep_as_a_body() {
        // [F25] [F17]
        let schema = r#"{"type":"object","properties":{"free":{"type":"object","additionalProperties":true},
            "any":{"x-kubernetes-preserve-unknown-fields":true}}}"#;
        let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(9_000), "]".repeat(9_000));
        let body = format!(
            r#"{{"any":{},"free":{{"a":{}}}}}"#,
            deep(r#"{"x":1}"#),
            deep(r#"{"x":1}"#)
        );
        let (found, unknown) = shaped(schema, &body);
        assert_eq!(
            found,
            format!(r#"any={} free={{"a":{}}}"#, deep(r#"{"x":1}"#), deep("{}"))
        );
        assert_eq!(unknown.len(), 1);
    }
}
