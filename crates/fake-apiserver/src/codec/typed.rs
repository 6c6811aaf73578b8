//! The table-driven writer: a parsed value of a known type in, Go's canonical form out.
//!
//! # Design
//!
//! One walk does what the real server does in four steps (decode into a Go struct, convert, store as protobuf, encode):
//! fields come out in struct order; unknown ones and nulls are dropped; what Go leaves out when it is empty is left
//! out. A list that was sent empty stays one until the object is stored, as who sent it owns it; the store reads protobuf, which
//! cannot tell it from an absent one ([`EmptyLists`]). Findings are put into document order at the end, as the real decoder
//! reports them while it reads.
//!
//! The walk recurses over types, not over input: only `JSONSchemaProps` nests without end, so the depth is limited
//! far below the parser's limit.

use std::{borrow::Cow, fmt::Write as _, ops::Range};

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

use super::{
    quantity, special,
    tables::{Field, JSON_SCHEMA_PROPS, Omit, Shape, Type, TypeId},
    time,
};
use crate::gotext::go_quote;
use crate::json::{Kind, Value, canonical, write};
use crate::steps::step;
use crate::told::{Text, Told};

/// Typed nesting deeper than this is refused: schemas of schemas.
const MAX_TYPED_DEPTH: usize = 128;

/// The real server reports at most so many unknown and duplicate fields.
pub(super) const MAX_STRICT_ERRORS: usize = 100;

/// Standard base64, as lenient about trailing bits as Go.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// One step of the path to the current value.
#[derive(Debug, Clone, Copy)]
enum Step<'t> {
    /// A field of a type, after the embedded structs that it is a field of.
    Field(&'static Type, &'static str, &'static str),
    Key(Value<'t>),
    Index(usize),
}

/// A value that is not of the field's type.
#[derive(Debug)]
struct Mismatch {
    offset: u32,
    text: String,
}

/// An unknown or duplicate field.
#[derive(Debug)]
struct StrictError {
    offset: u32,
    /// `unknown` or `duplicate`.
    what: &'static str,
    path: String,
}

impl Text for StrictError {
    fn size(&self) -> usize {
        self.path.len()
    }
}

/// The path to a key of the value at the end of these steps.
fn path_to(steps: &[Step<'_>], key: Value<'_>) -> String {
    let mut path = String::new();
    for step in steps {
        let name = match step {
            Step::Field(_, _, name) => Cow::Borrowed(*name),
            Step::Key(key) => key.as_str().unwrap_or_default(),
            Step::Index(index) => {
                // Writing to a string cannot fail.
                let _ = write!(path, "[{index}]");
                continue;
            }
        };
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(&name);
    }
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(&key.as_str().unwrap_or_default());
    path
}

/// What becomes of a list without items in a field that Go always writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EmptyLists {
    /// It stays what the client sent.
    Sent,
    /// It is null, as what comes out of a store of protobuf.
    Stored,
}

/// See the module.
pub(super) struct Writer<'t> {
    pub(super) out: Vec<u8>,
    pub(super) empty_lists: EmptyLists,
    path: Vec<Step<'t>>,
    /// Unknown and duplicate fields with their place; `None` when nobody asks.
    strict: Option<Vec<StrictError>>,
    /// How much of these is told.
    told: Told,
    /// The first value of a wrong JSON type: the real decoder reads on.
    mismatch: Option<Mismatch>,
    /// The first value that its own parser refuses: the real decoder stops there.
    fatal: Option<Mismatch>,
}

impl<'t> Writer<'t> {
    pub(super) fn new(strict: bool, capacity: usize) -> Self {
        Self {
            out: Vec::with_capacity(capacity),
            empty_lists: EmptyLists::Sent,
            path: Vec::with_capacity(8),
            strict: strict.then(Vec::new),
            told: Told::default(),
            mismatch: None,
            fatal: None,
        }
    }

    /// The findings: the error that makes the body invalid, and the unknown and duplicate fields in document order.
    pub(super) fn finish(self) -> (Result<(), String>, Vec<String>, Vec<u8>) {
        let result = self.fatal.or(self.mismatch).map_or(Ok(()), |found| Err(found.text));
        let mut strict = self.strict.unwrap_or_default();
        strict.sort_by_key(|found| found.offset);
        let mut texts: Vec<String> = Vec::with_capacity(strict.len());
        for found in strict {
            let text = format!("{} field {}", found.what, go_quote(&found.path));
            if texts.len() < MAX_STRICT_ERRORS && !texts.contains(&text) {
                texts.push(text);
            }
        }
        texts.extend(self.told.rest().map(|rest| rest.to_string()));
        (result, texts, self.out)
    }

    /// Whether there are no findings.
    pub(super) fn is_clean(&self) -> bool {
        self.fatal.is_none() && self.mismatch.is_none() && self.strict.as_ref().is_none_or(Vec::is_empty)
    }

    /// The unknown fields in document order.
    pub(super) fn unknown_paths(&self) -> Vec<String> {
        let mut unknown: Vec<&StrictError> = self.strict.iter().flatten().collect();
        unknown.retain(|found| found.what == "unknown");
        unknown.sort_by_key(|found| found.offset);
        unknown.into_iter().map(|found| found.path.clone()).collect()
    }

    pub(super) fn enter(&mut self, ty: &'static Type, field: &'static str) {
        self.path.push(Step::Field(ty, "", field));
    }

    fn enter_field(&mut self, ty: &'static Type, field: &'static Field) {
        self.path.push(Step::Field(ty, field.inside, field.name));
    }

    pub(super) fn enter_index(&mut self, index: usize) {
        self.path.push(Step::Index(index));
    }

    pub(super) fn leave(&mut self) {
        self.path.pop();
    }

    /// Records an unknown or duplicate field under the current path.
    pub(super) fn strict_error(&mut self, what: &'static str, key: Value<'t>) {
        let Some(found) = &mut self.strict else { return };
        if found.len() >= MAX_STRICT_ERRORS * 16 {
            return; // more than enough to pick the first hundred distinct ones in document order
        }
        let steps = &self.path;
        let word = || StrictError {
            offset: key.offset(),
            what,
            path: path_to(steps, key),
        };
        found.extend(self.told.word(word));
    }

    /// Records a value of a wrong JSON type.
    pub(super) fn mismatch(&mut self, value: Value<'t>, go: &str) {
        self.mismatch_text(value, &described(value, go), go);
    }

    fn mismatch_text(&mut self, value: Value<'t>, what: &str, go: &str) {
        if self
            .mismatch
            .as_ref()
            .is_some_and(|found| found.offset <= value.offset())
        {
            return;
        }
        let text = self.cannot_unmarshal(what, go);
        self.mismatch = Some(Mismatch {
            offset: value.offset(),
            text,
        });
    }

    /// The text about a value that is no `go`.
    fn cannot_unmarshal(&self, what: &str, go: &str) -> String {
        let names: Vec<&str> = self
            .path
            .iter()
            .flat_map(|step| match step {
                Step::Field(_, inside, name) => [*inside, *name],
                Step::Key(_) | Step::Index(_) => [""; 2],
            })
            .filter(|name| !name.is_empty())
            .collect();
        let innermost = self.path.iter().rev().find_map(|step| {
            if let Step::Field(ty, _, _) = step {
                Some(*ty)
            } else {
                None
            }
        });
        match innermost {
            Some(ty) => {
                let name = ty.go.rsplit('.').next().unwrap_or(ty.go);
                format!(
                    "json: cannot unmarshal {what} into Go struct field {name}.{} of type {go}",
                    names.join(".")
                )
            }
            None => format!("json: cannot unmarshal {what} into Go value of type {go}"),
        }
    }

    /// Records a value that its parser refuses.
    pub(super) fn fatal(&mut self, value: Value<'t>, text: impl Into<String>) {
        if self.fatal.as_ref().is_none_or(|found| found.offset > value.offset()) {
            self.fatal = Some(Mismatch {
                offset: value.offset(),
                text: text.into(),
            });
        }
    }

    /// Records a value of a wrong JSON type whose type reads it with a parser of its own.
    pub(super) fn fatal_mismatch(&mut self, value: Value<'t>, go: &str) {
        let text = self.cannot_unmarshal(&described(value, go), go);
        self.fatal(value, text);
    }

    /// Sorts the entries of objects to the fields of a type.
    pub(super) fn collect(&mut self, ty: &'static Type, values: &[Value<'t>]) -> Slots<'t> {
        let mut slots = Slots::new(ty.fields.len());
        for (at, value) in values.iter().enumerate() {
            // Of one object, a field that others have, too, is no duplicate.
            let mut seen = (at > 0).then(|| vec![false; ty.fields.len()]);
            self.collect_one(ty, *value, &mut slots, seen.as_deref_mut());
        }
        slots
    }

    fn collect_one(
        &mut self,
        ty: &'static Type,
        value: Value<'t>,
        slots: &mut Slots<'t>,
        mut seen: Option<&mut [bool]>,
    ) {
        let mut guess = 0;
        for (key, value) in value.entries() {
            let name = if key.is_plain() {
                Cow::Borrowed(key.raw())
            } else {
                key.as_str().map_or_else(Cow::default, cow_bytes)
            };
            let Some(at) = ty.position(&name, guess) else {
                self.strict_error("unknown", key);
                continue;
            };
            guess = at + 1;
            let was_set = slots.set(at, value);
            let is_duplicate = match &mut seen {
                Some(seen) => std::mem::replace(&mut seen[at], true),
                None => was_set,
            };
            if is_duplicate {
                self.strict_error("duplicate", key);
            }
        }
    }

    /// Writes a struct, the zero one for `None`.
    pub(super) fn structure(&mut self, id: TypeId, value: Option<Value<'t>>) {
        self.structure_of(id, value.as_slice());
    }

    /// Writes the struct that several objects make, one after the other.
    fn structure_of(&mut self, id: TypeId, values: &[Value<'t>]) {
        let ty = id.get();
        if self.path.len() > MAX_TYPED_DEPTH {
            if let Some(value) = values.first() {
                self.fatal(*value, "exceeded max depth");
            }
            self.out.extend_from_slice(b"{}");
            return;
        }
        self.out.push(b'{');
        if values.is_empty() {
            for field in ty.fields.iter().filter(|field| field.omit != Omit::Zero) {
                self.field(ty, field, None);
            }
        } else {
            let slots = self.collect(ty, values);
            for (at, field) in ty.fields.iter().enumerate() {
                self.slot(ty, field, &slots, at);
            }
        }
        self.out.push(b'}');
    }

    /// Writes a field of which there may be several values.
    fn slot(&mut self, ty: &'static Type, field: &'static Field, slots: &Slots<'t>, at: usize) {
        if slots.earlier.is_empty() {
            return self.field(ty, field, slots.get(at));
        }
        let all: Vec<_> = slots.all(at).collect();
        if all.len() < 2 {
            return self.field(ty, field, slots.get(at));
        }
        let set = self.effective(ty, field, &all);
        self.field_of(ty, field, &set);
    }

    /// What is left of several values of one field, which the real decoder reads into the same place: objects come
    /// together, all else replaces what was there, and so does null where it can. Mistakes in the others are told.
    fn effective(&mut self, ty: &'static Type, field: &'static Field, all: &[Value<'t>]) -> Vec<Value<'t>> {
        let comes_together = matches!(field.shape, Shape::Struct(_) | Shape::Map(_));
        let can_be_null = field.pointer || matches!(field.shape, Shape::Map(_) | Shape::List(_) | Shape::Bytes);
        let mut set = Vec::new();
        for &value in all {
            if value.is_null() {
                if can_be_null {
                    set.clear();
                }
                continue;
            }
            let fits = !comes_together || value.kind() == Kind::Object;
            if !fits || !comes_together && !set.is_empty() {
                let told = if fits { set.pop() } else { Some(value) };
                if let Some(told) = told {
                    self.tell(ty, field, told);
                }
            }
            if fits {
                set.push(value);
            }
        }
        set
    }

    /// Finds what is wrong with a value that does not count.
    fn tell(&mut self, ty: &'static Type, field: &'static Field, value: Value<'t>) {
        let start = self.out.len();
        self.enter_field(ty, field);
        self.value(field.shape, field.go.trim_start_matches('*'), value);
        self.leave();
        self.out.truncate(start);
    }

    /// Writes a field with its name, unless Go leaves it out.
    fn field(&mut self, ty: &'static Type, field: &'static Field, value: Option<Value<'t>>) {
        self.field_of(ty, field, value.filter(|value| !value.is_null()).as_slice());
    }

    /// The same of objects that come together.
    fn field_of(&mut self, ty: &'static Type, field: &'static Field, values: &[Value<'t>]) {
        let struct_like = matches!(
            field.shape,
            Shape::Struct(_)
                | Shape::Time
                | Shape::MicroTime
                | Shape::Quantity
                | Shape::IntOrString
                | Shape::Raw
                | Shape::Json
                | Shape::FieldsV1
                | Shape::SchemaOrArray
                | Shape::SchemaOrBool
                | Shape::SchemaOrStrings
        );
        if values.is_empty()
            && (field.omit == Omit::Zero || field.omit == Omit::Empty && (field.pointer || !struct_like))
        {
            return;
        }
        let start = self.out.len();
        write::name(&mut self.out, field.name);
        let Some((value, others)) = values.split_last() else {
            if field.pointer {
                self.out.extend_from_slice(b"null");
            } else {
                self.zero(field.shape);
            }
            return;
        };
        self.enter_field(ty, field);
        let go = field.go.trim_start_matches('*');
        let something = match field.shape {
            _ if others.is_empty() => self.value(field.shape, go, *value),
            Shape::Map(element) => self.map(*element, go, values),
            Shape::Struct(id) => {
                self.structure_of(id, values);
                true
            }
            _ => self.value(field.shape, go, *value),
        };
        self.leave();
        let keep = something || field.pointer || field.omit == Omit::Never || struct_like && field.omit == Omit::Empty;
        if !keep {
            self.out.truncate(start);
        }
    }

    /// Writes a field without its name and returns where, or `None` if Go leaves it out.
    pub(super) fn top_field(
        &mut self,
        ty: &'static Type,
        field: &'static Field,
        slots: Option<(&Slots<'t>, usize)>,
    ) -> Option<Range<usize>> {
        self.out.push(b'{'); // so that the name gets no comma
        let before = self.out.len();
        match slots {
            Some((slots, at)) => self.slot(ty, field, slots, at),
            None => self.field(ty, field, None),
        }
        let start = before + field.name.len() + 3;
        (self.out.len() > before).then_some(start..self.out.len())
    }

    /// Writes the zero value of a shape.
    fn zero(&mut self, shape: Shape) {
        let zero: &[u8] = match shape {
            Shape::Str => b"\"\"",
            Shape::Bool | Shape::SchemaOrBool => b"false",
            Shape::Int32 | Shape::Int64 | Shape::Float64 | Shape::IntOrString => b"0",
            Shape::Quantity => b"\"0\"",
            Shape::Struct(id) => return self.structure(id, None),
            Shape::Bytes
            | Shape::Time
            | Shape::MicroTime
            | Shape::Raw
            | Shape::FieldsV1
            | Shape::Json
            | Shape::SchemaOrArray
            | Shape::SchemaOrStrings
            | Shape::List(_)
            | Shape::Map(_) => b"null",
        };
        self.out.extend_from_slice(zero);
    }

    /// Writes a value; returns whether it is anything but what `omitempty` leaves out.
    pub(super) fn value(&mut self, shape: Shape, go: &'static str, value: Value<'t>) -> bool {
        step();
        if value.is_null() {
            self.zero(shape);
            return false;
        }
        match shape {
            Shape::Str => {
                if value.kind() == Kind::String {
                    write::parsed_string(&mut self.out, value);
                    return !value.raw().is_empty();
                }
                self.mismatch(value, go);
                self.zero(shape);
                false
            }
            Shape::Bool => {
                if let Some(set) = value.as_bool() {
                    self.out.extend_from_slice(if set { b"true" } else { b"false" });
                    return set;
                }
                self.mismatch(value, go);
                self.zero(shape);
                false
            }
            Shape::Int32 | Shape::Int64 => self.int(shape, go, value),
            Shape::Float64 => match value.as_number().map(str::parse::<f64>) {
                Some(Ok(number)) if number.is_finite() => {
                    write::float(&mut self.out, number);
                    number != 0.0
                }
                _ => {
                    self.mismatch(value, go);
                    self.zero(shape);
                    false
                }
            },
            Shape::Bytes => self.bytes(value, go),
            Shape::Time | Shape::MicroTime => self.time(shape, value),
            Shape::Quantity => {
                self.quantity(value);
                true
            }
            Shape::IntOrString => {
                let is_int = |digits: &str| digits.parse::<i32>().is_ok();
                if value.kind() == Kind::String {
                    write::parsed_string(&mut self.out, value);
                } else if value.as_number().is_some_and(is_int) {
                    self.int(Shape::Int32, "int32", value);
                } else {
                    self.fatal_mismatch(value, "int32");
                    self.out.push(b'0');
                }
                true
            }
            Shape::Raw | Shape::FieldsV1 => {
                special::compact(&mut self.out, value);
                true
            }
            Shape::Json => {
                if let Err(range) = canonical::write(&mut self.out, value) {
                    self.fatal(
                        value,
                        format!(
                            "json: cannot unmarshal number {} into Go value of type float64",
                            range.0
                        ),
                    );
                }
                true
            }
            Shape::SchemaOrBool | Shape::SchemaOrArray | Shape::SchemaOrStrings => {
                self.schema_or(shape, value);
                true
            }
            Shape::List(element) => self.list(*element, go, value),
            Shape::Map(element) => self.map(*element, go, &[value]),
            Shape::Struct(id) => {
                if value.kind() == Kind::Object {
                    self.structure(id, Some(value));
                } else {
                    self.mismatch(value, go);
                    self.structure(id, None);
                }
                true
            }
        }
    }

    fn int(&mut self, shape: Shape, go: &str, value: Value<'t>) -> bool {
        let parsed = value.as_number().and_then(|digits| match shape {
            Shape::Int32 => digits.parse::<i32>().ok().map(i64::from),
            _ => digits.parse::<i64>().ok(),
        });
        if let Some(number) = parsed {
            write::int(&mut self.out, number);
            return number != 0;
        }
        // The number is part of the text only if it is one.
        let what = value.as_number().map_or_else(
            || value.kind().go_name().to_owned(),
            |digits| format!("number {digits}"),
        );
        self.mismatch_text(value, &what, go);
        self.out.push(b'0');
        false
    }

    fn bytes(&mut self, value: Value<'t>, go: &str) -> bool {
        if value.kind() == Kind::Array {
            return self.byte_list(value);
        }
        let Some(text) = value.as_str() else {
            self.mismatch(value, go);
            self.out.extend_from_slice(b"null");
            return false;
        };
        let clean: Cow<'_, str> = if text.contains(['\r', '\n']) {
            Cow::Owned(text.replace(['\r', '\n'], ""))
        } else {
            text.clone()
        };
        match BASE64.decode(clean.as_bytes()) {
            Ok(bytes) => {
                self.out.push(b'"');
                self.out.extend_from_slice(BASE64.encode(&bytes).as_bytes());
                self.out.push(b'"');
                !bytes.is_empty()
            }
            Err(error) => {
                let text = format!(
                    "illegal base64 data at input byte {}",
                    special::base64_error_at(&clean, &error)
                );
                if self.mismatch.as_ref().is_none_or(|found| found.offset > value.offset()) {
                    self.mismatch = Some(Mismatch {
                        offset: value.offset(),
                        text,
                    });
                }
                self.out.extend_from_slice(b"null");
                false
            }
        }
    }

    /// Writes bytes that come as a list of numbers.
    fn byte_list(&mut self, value: Value<'t>) -> bool {
        let mut bytes = Vec::new();
        for item in value.items() {
            let byte = item.as_number().and_then(|digits| digits.parse::<u8>().ok());
            if byte.is_none() && !item.is_null() {
                self.mismatch(item, "uint8");
            }
            bytes.push(byte.unwrap_or_default());
        }
        self.out.push(b'"');
        self.out.extend_from_slice(BASE64.encode(&bytes).as_bytes());
        self.out.push(b'"');
        !bytes.is_empty()
    }

    fn time(&mut self, shape: Shape, value: Value<'t>) -> bool {
        let Some(text) = value.as_str() else {
            self.fatal_mismatch(value, "string");
            self.out.extend_from_slice(b"null");
            return false;
        };
        let parsed = if matches!(shape, Shape::MicroTime) {
            time::parse_micro(&text)
        } else {
            time::parse(&text)
        };
        match parsed {
            Ok(parsed) => {
                if matches!(shape, Shape::MicroTime) {
                    time::write_micro(&mut self.out, parsed);
                } else {
                    time::write(&mut self.out, parsed);
                }
                !time::is_zero(parsed)
            }
            Err(error) => {
                self.fatal(value, error);
                self.out.extend_from_slice(b"null");
                false
            }
        }
    }

    fn quantity(&mut self, value: Value<'t>) {
        // The real parser takes the raw text between the quotes, or any other value as it is.
        let raw = String::from_utf8_lossy(value.raw());
        match quantity::canonical(raw.trim()) {
            Ok(text) => write::string(&mut self.out, &text),
            Err(error) => {
                self.fatal(value, error);
                self.out.extend_from_slice(b"\"0\"");
            }
        }
    }

    fn schema_or(&mut self, shape: Shape, value: Value<'t>) {
        match (shape, value.kind()) {
            (_, Kind::Object) => self.structure(JSON_SCHEMA_PROPS, Some(value)),
            (Shape::SchemaOrBool, Kind::True) => self.out.extend_from_slice(b"true"),
            (Shape::SchemaOrBool, Kind::False) => self.out.extend_from_slice(b"false"),
            (Shape::SchemaOrBool, _) => {
                self.fatal(value, "boolean or JSON schema expected");
                self.out.extend_from_slice(b"false");
            }
            (Shape::SchemaOrArray, Kind::Array) => {
                self.list(Shape::Struct(JSON_SCHEMA_PROPS), "[]v1.JSONSchemaProps", value);
            }
            (_, Kind::Array) => {
                self.list(Shape::Str, "[]string", value);
            }
            _ => self.out.extend_from_slice(b"null"),
        }
    }

    fn list(&mut self, element: Shape, go: &'static str, value: Value<'t>) -> bool {
        if value.kind() != Kind::Array {
            self.mismatch(value, go);
            self.out.extend_from_slice(b"null");
            return false;
        }
        let mut items = value.items().enumerate().peekable();
        if items.peek().is_none() {
            self.out.extend_from_slice(match self.empty_lists {
                EmptyLists::Sent => b"[]",
                EmptyLists::Stored => b"null",
            });
            return false;
        }
        let go = go.strip_prefix("[]").unwrap_or("string");
        self.out.push(b'[');
        for (index, item) in items {
            write::comma(&mut self.out);
            self.enter_index(index);
            self.value(element, go, item);
            self.leave();
        }
        self.out.push(b']');
        true
    }

    /// Writes the map that several objects make, one after the other.
    fn map(&mut self, element: Shape, go: &'static str, values: &[Value<'t>]) -> bool {
        if let [value] = values
            && value.kind() != Kind::Object
        {
            self.mismatch(*value, go);
            self.out.extend_from_slice(b"null");
            return false;
        }
        let (entries, others) = canonical::merged_entries(values);
        if entries.is_empty() {
            self.out.extend_from_slice(b"null");
            return false;
        }
        let go = go.split_once(']').map_or("string", |(_, element)| element);
        if !others.is_empty() {
            for value in values {
                self.duplicate_keys(*value);
            }
            // The real decoder reads these, too.
            let start = self.out.len();
            for (key, value) in others {
                self.path.push(Step::Key(key));
                self.value(element, go, value);
                self.leave();
                self.out.truncate(start);
            }
        }
        self.out.push(b'{');
        for (key, value) in entries {
            write::comma(&mut self.out);
            write::parsed_string(&mut self.out, key);
            self.out.push(b':');
            self.path.push(Step::Key(key));
            // A null entry is the empty value, and an empty byte string stays one.
            if matches!(element, Shape::Bytes) && (value.is_null() || value.raw().is_empty()) {
                self.out.extend_from_slice(b"\"\"");
            } else {
                self.value(element, go, value);
            }
            self.leave();
        }
        self.out.push(b'}');
        true
    }

    /// Reports every key of an object that an earlier one equals.
    pub(super) fn duplicate_keys(&mut self, object: Value<'t>) {
        let mut seen = std::collections::HashSet::new();
        for (key, _) in object.entries() {
            if !seen.insert(key.as_str()) {
                self.strict_error("duplicate", key);
            }
        }
    }
}

/// What a value is, in a text about its type; a number is told where a number is wanted.
fn described(value: Value<'_>, go: &str) -> String {
    let kind = value.kind().go_name();
    let digits = value
        .as_number()
        .filter(|_| matches!(go, "int32" | "int64" | "float64" | "uint8"));
    digits.map_or_else(|| kind.to_owned(), |digits| format!("{kind} {digits}"))
}

fn cow_bytes(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

/// The values of a struct's fields, by position.
pub(super) struct Slots<'t> {
    inline: [Option<Value<'t>>; 16],
    more: Vec<Option<Value<'t>>>,
    /// What was set before by another value of the same field, in the order of the text.
    earlier: Vec<(usize, Value<'t>)>,
}

impl<'t> Slots<'t> {
    fn new(len: usize) -> Self {
        Self {
            inline: [None; 16],
            more: vec![None; len.saturating_sub(16)],
            earlier: Vec::new(),
        }
    }

    /// All values of a field, in the order of the text.
    pub(super) fn all(&self, at: usize) -> impl Iterator<Item = Value<'t>> {
        let earlier = self.earlier.iter().filter(move |(place, _)| *place == at);
        earlier.map(|(_, value)| *value).chain(self.get(at))
    }

    /// Sets a value; returns whether there was one.
    fn set(&mut self, at: usize, value: Value<'t>) -> bool {
        let slot = if at < 16 {
            &mut self.inline[at]
        } else {
            &mut self.more[at - 16]
        };
        let before = slot.replace(value);
        self.earlier.extend(before.map(|before| (at, before)));
        before.is_some()
    }

    pub(super) fn get(&self, at: usize) -> Option<Value<'t>> {
        if at < 16 { self.inline[at] } else { self.more[at - 16] }
    }
}
