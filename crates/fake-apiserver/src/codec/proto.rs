//! Protobuf bodies: the envelope, and messages by the field numbers of the type tables, turned into JSON text.
//!
//! The text is not canonical (the typed writer makes it so), and keeps what proto can tell: fields that were not on the
//! wire are left out. Unknown field numbers are skipped, as the real decoder does.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;

use super::{
    tables::{Field, JSON_SCHEMA_PROPS, Shape, Type, TypeId},
    time,
};
use crate::json::{Tape, write};
use crate::steps::step;

/// What every protobuf body starts with.
const PREFIX: &[u8] = b"k8s\0";

/// Messages nested deeper than this are refused.
const MAX_DEPTH: usize = 100;

/// `runtime.Unknown`: a message with its type.
#[derive(Debug)]
pub(super) struct Envelope<'a> {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) raw: &'a [u8],
}

/// Opens the envelope of a body.
pub(super) fn open(body: &[u8]) -> Result<Envelope<'_>, String> {
    let Some(message) = body.strip_prefix(PREFIX) else {
        if body.is_empty() {
            return Err("empty data".into());
        }
        return Err("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]".into());
    };
    if message.is_empty() {
        return Err("empty body".into());
    }
    let mut envelope = Envelope {
        api_version: String::new(),
        kind: String::new(),
        raw: &[],
    };
    for field in Reader(message) {
        match field? {
            (1, Wire::Bytes(types)) => {
                for field in Reader(types) {
                    match field? {
                        (1, Wire::Bytes(text)) => envelope.api_version = String::from_utf8_lossy(text).into_owned(),
                        (2, Wire::Bytes(text)) => envelope.kind = String::from_utf8_lossy(text).into_owned(),
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(raw)) => envelope.raw = raw,
            _ => {}
        }
    }
    Ok(envelope)
}

/// The name of the object that a message is: all kinds have their metadata in field 1, and the name in field 1 of that.
pub(super) fn name(message: &[u8]) -> Option<String> {
    let first = |message| {
        Reader(message).find_map(|field| match field {
            Ok((1, Wire::Bytes(bytes))) => Some(bytes),
            _ => None,
        })
    };
    std::str::from_utf8(first(first(message)?)?).ok().map(str::to_owned)
}

/// The JSON text of a message.
pub(super) fn to_json(id: TypeId, message: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(message.len() * 2);
    structure(&mut out, id, message, 0)?;
    Ok(out)
}

/// One value on the wire.
#[derive(Debug, Clone, Copy)]
enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    /// No type of the tables has such a field: it is skipped.
    Fixed32,
    Bytes(&'a [u8]),
}

/// The fields of a message, by number.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0_u64;
        for (at, byte) in self.0.iter().enumerate() {
            if at > 9 {
                return Err("proto: integer overflow".into());
            }
            value |= u64::from(byte & 0x7f).wrapping_shl(u32::try_from(at * 7).unwrap_or(63));
            if byte & 0x80 == 0 {
                self.0 = &self.0[at + 1..];
                return Ok(value);
            }
        }
        Err(unexpected_eof())
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], String> {
        match usize::try_from(length)
            .ok()
            .and_then(|length| self.0.split_at_checked(length))
        {
            Some((taken, rest)) => {
                self.0 = rest;
                Ok(taken)
            }
            None => Err(unexpected_eof()),
        }
    }

    fn field(&mut self) -> Result<(u64, Wire<'a>), String> {
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 {
            return Err(format!("proto: illegal tag 0 (wire type {})", tag & 7));
        }
        let wire = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(
                self.take(8)?.try_into().map_err(|_| unexpected_eof())?,
            )),
            2 => {
                let length = self.varint()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Wire::Fixed32
            }
            wire => return Err(format!("proto: illegal wireType {wire}")),
        };
        Ok((number, wire))
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<(u64, Wire<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        step();
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

fn unexpected_eof() -> String {
    "unexpected EOF".into()
}

fn wrong_wire(field: &Field) -> String {
    format!("proto: wrong wireType for field {}", field.name)
}

/// Gathers the values of a message by field position. `outer` is the path of an embedded message.
fn gather<'a>(
    ty: &'static Type,
    outer: &[u16],
    message: &'a [u8],
    found: &mut Vec<(usize, Wire<'a>)>,
) -> Result<(), String> {
    for field in Reader(message) {
        let (number, wire) = field?;
        let Ok(number) = u16::try_from(number) else { continue };
        let under = |field: &Field, length: usize| {
            field.proto.len() >= length
                && field.proto.starts_with(outer)
                && field.proto.get(outer.len()) == Some(&number)
        };
        if let Some(at) = ty
            .fields
            .iter()
            .position(|field| field.proto.len() == outer.len() + 1 && under(field, 1))
        {
            found.push((at, wire));
        } else if let Wire::Bytes(embedded) = wire
            && ty.fields.iter().any(|field| under(field, outer.len() + 2))
        {
            let path: Vec<u16> = outer.iter().copied().chain([number]).collect();
            gather(ty, &path, embedded, found)?;
        }
    }
    Ok(())
}

fn structure(out: &mut Vec<u8>, id: TypeId, message: &[u8], depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err("exceeded max depth".into());
    }
    let ty = id.get();
    let mut found = Vec::new();
    gather(ty, &[], message, &mut found)?;
    found.sort_by_key(|(at, _)| *at);
    out.push(b'{');
    for group in found.chunk_by(|a, b| a.0 == b.0) {
        let field = &ty.fields[group[0].0];
        write::name(out, field.name);
        let mut values = group.iter().map(|(_, wire)| *wire);
        match field.shape {
            Shape::List(element) => list(out, field, *element, values, depth)?,
            Shape::Map(element) => map(out, field, *element, values, depth)?,
            shape => {
                if let Some(wire) = values.next_back() {
                    value(out, field, shape, wire, depth)?;
                }
            }
        }
    }
    out.push(b'}');
    Ok(())
}

fn list<'a>(
    out: &mut Vec<u8>,
    field: &'static Field,
    element: Shape,
    values: impl Iterator<Item = Wire<'a>>,
    depth: usize,
) -> Result<(), String> {
    out.push(b'[');
    for wire in values {
        // Numbers may be packed.
        if let (Shape::Int32 | Shape::Int64 | Shape::Bool, Wire::Bytes(packed)) = (element, wire) {
            let mut reader = Reader(packed);
            while !reader.0.is_empty() {
                let number = reader.varint()?;
                write::comma(out);
                value(out, field, element, Wire::Varint(number), depth)?;
            }
        } else {
            write::comma(out);
            value(out, field, element, wire, depth)?;
        }
    }
    out.push(b']');
    Ok(())
}

fn map<'a>(
    out: &mut Vec<u8>,
    field: &'static Field,
    element: Shape,
    values: impl Iterator<Item = Wire<'a>>,
    depth: usize,
) -> Result<(), String> {
    out.push(b'{');
    for wire in values {
        let Wire::Bytes(entry) = wire else {
            return Err(wrong_wire(field));
        };
        let (mut key, mut content) = (Cow::Borrowed(""), None);
        for part in Reader(entry) {
            match part? {
                (1, Wire::Bytes(text)) => key = String::from_utf8_lossy(text),
                (2, wire) => content = Some(wire),
                _ => {}
            }
        }
        write::comma(out);
        write::string(out, &key);
        out.push(b':');
        match (element, content) {
            (_, None) => out.extend_from_slice(b"null"),
            // A list as the value of a map is a message with the items in field 1.
            (Shape::List(element), Some(Wire::Bytes(message))) => {
                let items: Result<Vec<_>, String> = Reader(message).collect();
                list(
                    out,
                    field,
                    *element,
                    items?
                        .into_iter()
                        .filter(|(number, _)| *number == 1)
                        .map(|(_, wire)| wire),
                    depth,
                )?;
            }
            (shape, Some(wire)) => value(out, field, shape, wire, depth)?,
        }
    }
    out.push(b'}');
    Ok(())
}

fn value(out: &mut Vec<u8>, field: &'static Field, shape: Shape, wire: Wire<'_>, depth: usize) -> Result<(), String> {
    match (shape, wire) {
        (Shape::Str, Wire::Bytes(text)) => write::string(out, &String::from_utf8_lossy(text)),
        (Shape::Bool, Wire::Varint(number)) => out.extend_from_slice(if number == 0 { b"false" } else { b"true" }),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "protobuf sign-extends an int32 to 64 bits; the rest is cut as in Go"
        )]
        (Shape::Int32, Wire::Varint(number)) => write::int(out, i64::from(number as i32)),
        (Shape::Int64, Wire::Varint(number)) => write::int(out, number.cast_signed()),
        (Shape::Float64, Wire::Fixed64(bits)) => {
            let number = f64::from_bits(bits);
            if !number.is_finite() {
                return Err(format!("json: unsupported value: {number}"));
            }
            write::float(out, number);
        }
        (Shape::Bytes, Wire::Bytes(bytes)) => write::string(out, &STANDARD.encode(bytes)),
        (Shape::Struct(id), Wire::Bytes(message)) => structure(out, id, message, depth + 1)?,
        (Shape::Time | Shape::MicroTime, Wire::Bytes(message)) => timestamp(out, message)?,
        (Shape::Quantity, Wire::Bytes(message)) => {
            let text = last_bytes(message, 1)?.unwrap_or(b"0");
            write::string(out, &String::from_utf8_lossy(text));
        }
        (Shape::IntOrString, Wire::Bytes(message)) => int_or_string(out, message)?,
        (Shape::Raw | Shape::FieldsV1 | Shape::Json, Wire::Bytes(message)) => match last_bytes(message, 1)? {
            Some(raw) if !raw.is_empty() => {
                Tape::parse(raw).map_err(|error| error.to_string())?;
                out.extend_from_slice(raw);
            }
            _ => out.extend_from_slice(b"null"),
        },
        (Shape::SchemaOrBool | Shape::SchemaOrArray | Shape::SchemaOrStrings, Wire::Bytes(message)) => {
            schema_or(out, field, shape, message, depth)?;
        }
        _ => return Err(wrong_wire(field)),
    }
    Ok(())
}

/// The last value of a bytes field.
fn last_bytes(message: &[u8], wanted: u64) -> Result<Option<&[u8]>, String> {
    let mut last = None;
    for field in Reader(message) {
        if let (number, Wire::Bytes(bytes)) = field?
            && number == wanted
        {
            last = Some(bytes);
        }
    }
    Ok(last)
}

fn timestamp(out: &mut Vec<u8>, message: &[u8]) -> Result<(), String> {
    if message.is_empty() {
        out.extend_from_slice(b"null");
        return Ok(());
    }
    let (mut seconds, mut nanos) = (0_i64, 0_i64);
    for field in Reader(message) {
        match field? {
            (1, Wire::Varint(number)) => seconds = number.cast_signed(),
            (2, Wire::Varint(number)) => nanos = number.cast_signed(),
            _ => {}
        }
    }
    let nanos = i32::try_from(nanos.rem_euclid(1_000_000_000)).unwrap_or(0);
    let time = Timestamp::new(seconds, nanos).map_err(|_| "year outside of range [0,9999]".to_owned())?;
    if !(-62_167_219_200..=253_402_300_799).contains(&seconds) {
        return Err("year outside of range [0,9999]".into());
    }
    time::write_micro(out, time);
    Ok(())
}

fn int_or_string(out: &mut Vec<u8>, message: &[u8]) -> Result<(), String> {
    let (mut is_text, mut number, mut text) = (false, 0_u64, &b""[..]);
    for field in Reader(message) {
        match field? {
            (1, Wire::Varint(kind)) => is_text = kind == 1,
            (2, Wire::Varint(value)) => number = value,
            (3, Wire::Bytes(value)) => text = value,
            _ => {}
        }
    }
    if is_text {
        write::string(out, &String::from_utf8_lossy(text));
    } else {
        #[expect(clippy::cast_possible_truncation, reason = "an int32 on the wire")]
        write::int(out, i64::from(number as i32));
    }
    Ok(())
}

fn schema_or(
    out: &mut Vec<u8>,
    field: &'static Field,
    shape: Shape,
    message: &[u8],
    depth: usize,
) -> Result<(), String> {
    let is_bool = matches!(shape, Shape::SchemaOrBool);
    let (mut allows, mut schema, mut many) = (false, None, Vec::new());
    for field in Reader(message) {
        match field? {
            (1, Wire::Varint(value)) => allows = value != 0,
            (1, Wire::Bytes(message)) => schema = Some(message),
            (2, Wire::Bytes(message)) if is_bool => schema = Some(message),
            (2, wire) => many.push(wire),
            _ => {}
        }
    }
    if let Some(message) = schema.filter(|_| many.is_empty()) {
        return structure(out, JSON_SCHEMA_PROPS, message, depth + 1);
    }
    if many.is_empty() {
        let unset: &[u8] = match (is_bool, allows) {
            (true, true) => b"true",
            (true, false) => b"false",
            (false, _) => b"null",
        };
        out.extend_from_slice(unset);
        return Ok(());
    }
    let element = if matches!(shape, Shape::SchemaOrArray) {
        Shape::Struct(JSON_SCHEMA_PROPS)
    } else {
        Shape::Str
    };
    list(out, field, element, many.into_iter(), depth + 1)
}
