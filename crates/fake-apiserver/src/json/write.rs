//! The output side: strings, numbers and separators as Go's encoder writes them.

use super::{Kind, PLAIN, Value};
use crate::gotext;

/// Appends a string with its quotes. `<`, `>`, `&`, U+2028 and U+2029 are escaped, as Go does by default.
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    string_body(out, text);
    out.push(b'"');
}

/// A string with its quotes, as texts show values that are no plain strings in Go.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    string(&mut out, text);
    if gotext::len(text) < text.len() {
        // Go's encoder writes a byte that is no UTF-8 as an escape.
        return gotext::replaced(&String::from_utf8(out).unwrap_or_default(), "\\ufffd");
    }
    // Text with escapes in ASCII stays text.
    String::from_utf8(out).unwrap_or_default()
}

/// Appends the inside of a string.
pub(crate) fn string_body(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let mut done = 0;
    let mut at = 0;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        at += rest
            .iter()
            .position(|byte| !PLAIN[usize::from(*byte)])
            .unwrap_or(rest.len());
        let Some(&byte) = bytes.get(at) else { break };
        let escape: Option<&[u8]> = match byte {
            b'"' => Some(b"\\\""),
            b'\\' => Some(b"\\\\"),
            b'\n' => Some(b"\\n"),
            b'\r' => Some(b"\\r"),
            b'\t' => Some(b"\\t"),
            8 => Some(b"\\b"),
            12 => Some(b"\\f"),
            0..0x20 | b'<' | b'>' | b'&' => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.extend_from_slice(&bytes[done..at]);
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 15)]);
                at += 1;
                done = at;
                continue;
            }
            0xe2 if bytes[at..].starts_with("\u{2028}".as_bytes()) => Some(b"\\u2028"),
            0xe2 if bytes[at..].starts_with("\u{2029}".as_bytes()) => Some(b"\\u2029"),
            _ => None,
        };
        if let Some(escape) = escape {
            out.extend_from_slice(&bytes[done..at]);
            out.extend_from_slice(escape);
            at += if byte == 0xe2 { 3 } else { 1 };
            done = at;
        } else {
            at += 1;
        }
    }
    out.extend_from_slice(&bytes[done..]);
}

/// Appends a parsed string with its quotes; the common plain one is copied.
pub(crate) fn parsed_string(out: &mut Vec<u8>, value: Value<'_>) {
    if value.is_plain() {
        out.extend_from_slice(value.raw_quoted());
    } else {
        string(out, value.as_str().as_deref().unwrap_or_default());
    }
}

/// Appends an integer.
pub(crate) fn int(out: &mut Vec<u8>, value: i64) {
    use std::io::Write as _;
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{value}");
}

/// Appends a float as Go's encoder does: shortest digits, an exponent outside of 1e-6..1e21.
pub(crate) fn float(out: &mut Vec<u8>, value: f64) {
    let abs = value.abs();
    if abs != 0.0 && !(1e-6..1e21).contains(&abs) {
        let text = format!("{value:e}");
        match text.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => {
                out.extend_from_slice(digits.as_bytes());
                out.extend_from_slice(b"e+");
                out.extend_from_slice(exponent.as_bytes());
            }
            _ => out.extend_from_slice(text.as_bytes()),
        }
    } else {
        out.extend_from_slice(format!("{value}").as_bytes());
    }
}

/// Appends a number of a schemaless value: an integer if it fits 64 bits, else the nearest float.
/// Returns false, and appends nothing, if it is no finite float.
pub(crate) fn number(out: &mut Vec<u8>, digits: &str) -> bool {
    if let Ok(value) = digits.parse::<i64>() {
        int(out, value);
        return true;
    }
    // Zero has no sign: it is read as an integer, once it was written.
    if digits.parse::<f64>().is_ok_and(|value| value == 0.0) {
        int(out, 0);
        return true;
    }
    nearest_float(out, digits)
}

/// Appends the nearest float to a number. Returns false, and appends nothing, if it is no finite one.
pub(super) fn nearest_float(out: &mut Vec<u8>, digits: &str) -> bool {
    match digits.parse::<f64>() {
        Ok(value) if value.is_finite() => {
            float(out, value);
            true
        }
        _ => false,
    }
}

/// Appends a scalar of a schemaless value. Returns false for a number that `number` refuses.
pub(super) fn scalar(out: &mut Vec<u8>, value: Value<'_>, number: fn(&mut Vec<u8>, &str) -> bool) -> bool {
    match value.kind() {
        Kind::Null => out.extend_from_slice(b"null"),
        Kind::False => out.extend_from_slice(b"false"),
        Kind::True => out.extend_from_slice(b"true"),
        Kind::Number => return number(out, value.as_number().unwrap_or_default()),
        Kind::String => parsed_string(out, value),
        Kind::Array | Kind::Object => {}
    }
    true
}

/// Appends a comma unless this is the first member after an opening bracket.
pub(crate) fn comma(out: &mut Vec<u8>) {
    if !matches!(out.last(), None | Some(b'{' | b'[')) {
        out.push(b',');
    }
}

/// Appends `"name":`, with a comma if need be. The name must need no escape.
pub(crate) fn name(out: &mut Vec<u8>, name: &str) {
    comma(out);
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}
