//! What config maps and secrets hold: the rules of their keys and their size, and text that becomes base64.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use crate::json::{Tape, scan, write};
use crate::object::Object;
use crate::validation::{ErrorKind, FieldError};

/// The keys of a map of the object, in order; none of a field that is absent.
fn keys<'o>(object: &'o Object, field: &str) -> Vec<Cow<'o, str>> {
    let map = object.field(field).map_or(&[][..], |bytes| bytes);
    let text = |(key, start, _): (&'o [u8], usize, _)| {
        if !key.contains(&b'\\') {
            return std::str::from_utf8(key).ok().map(Cow::Borrowed);
        }
        // Canonical bytes of a decoded object: a name with its quotes and a colon before the value.
        serde_json::from_slice(&map[start - key.len() - 3..start - 1])
            .ok()
            .map(Cow::Owned)
    };
    let mut keys: Vec<_> = scan::members(map).filter_map(text).collect();
    if !keys.is_sorted() {
        keys.sort();
    }
    keys
}

/// What is wrong with the keys of these maps, which are names of files when they are mounted. A key may be in one only.
pub(super) fn config_keys(object: &Object, fields: &[&str]) -> Vec<FieldError> {
    const WORDS: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
                         'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
    let mut errors = Vec::new();
    let mut seen: Vec<(&str, Vec<Cow<'_, str>>)> = Vec::new();
    for field in fields.iter().rev() {
        let keys = keys(object, field);
        let mut found = Vec::new();
        for key in &keys {
            let mut add = |text: &str| found.push(FieldError::invalid(format!("{field}[{key}]"), key, text));
            if key.len() > 253 {
                add("must be no more than 253 characters");
            }
            let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            if key.is_empty() || !key.bytes().all(good) {
                add(WORDS);
            }
            match &**key {
                "." | ".." => add(&format!("must not be '{key}'")),
                key if key.starts_with("..") => add("must not start with '..'"),
                _ => {}
            }
            if let Some((other, _)) = seen.iter().find(|(_, keys)| keys.binary_search(key).is_ok()) {
                add(&format!("duplicate of key present in {other}"));
            }
        }
        errors.splice(0..0, found);
        seen.push((field, keys));
    }
    errors
}

type Texts = BTreeMap<String, String>;

fn texts(object: &Object, field: &str) -> Texts {
    // Canonical bytes of a decoded object; a field that is absent has no texts.
    object
        .field(field)
        .and_then(|bytes| serde_json::from_slice(bytes).ok())
        .unwrap_or_default()
}

/// How many bytes the texts of one field and the decoded base64 of another have.
pub(super) fn data_size(object: &Object, plain: &str, base64: &str) -> usize {
    let raw = |field: &str| object.field(field).map_or(0, Bytes::len);
    // Small objects, which are nearly all, need not be read.
    if raw(plain) + raw(base64) <= MAX_DATA {
        return 0;
    }
    let padding = |text: &str| text.bytes().rev().take_while(|byte| *byte == b'=').count();
    let decoded = |text: &String| text.len() / 4 * 3 - padding(text).min(2);
    texts(object, plain).values().map(String::len).sum::<usize>()
        + texts(object, base64).values().map(decoded).sum::<usize>()
}

/// How much data a config map or a secret holds at most.
const MAX_DATA: usize = 1024 * 1024;

pub(super) fn too_long(size: usize, field: &str) -> Vec<FieldError> {
    if size <= MAX_DATA {
        return Vec::new();
    }
    let detail = format!("may not be more than {MAX_DATA} bytes");
    vec![FieldError::new(ErrorKind::TooLong, field, &detail)]
}

/// Moves what a client writes as text to where it is stored as base64.
pub(super) fn encode_string_data(object: &mut Object) {
    if object.field("stringData").is_none() {
        return;
    }
    let mut data = texts(object, "data");
    data.extend(
        texts(object, "stringData")
            .into_iter()
            .map(|(key, text)| (key, STANDARD.encode(text))),
    );
    object.remove_field("stringData");
    // Texts always become JSON, in the order of the keys, as Go writes maps.
    let data = serde_json::to_vec(&data).unwrap_or_default().into();
    if object.field("data").is_some() {
        object.set_field("data", data);
    } else {
        object.fields.insert(0, ("data".into(), data));
    }
}

/// Leaves nothing but the names of the objects that a list refers to.
pub(super) fn bare_references(object: &mut Object, field: &'static str) {
    let Some(list) = object.field(field) else { return };
    // Canonical bytes of a decoded object.
    let Ok(tape) = Tape::parse(list) else { return };
    let mut out = Vec::with_capacity(list.len());
    out.push(b'[');
    for item in tape.root().items() {
        write::comma(&mut out);
        out.push(b'{');
        if let Some(name) = item.get("name") {
            write::name(&mut out, "name");
            out.extend_from_slice(name.raw_quoted());
        }
        out.push(b'}');
    }
    out.push(b']');
    object.set_field(field, out.into());
}
