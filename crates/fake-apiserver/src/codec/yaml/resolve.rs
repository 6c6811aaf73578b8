//! What a scalar is, by its text and its tag, as the Go library has it.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

use super::parser::Scalar;
use crate::gotext;

/// A scalar's value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Resolved {
    Null,
    Bool(bool),
    Int(i64),
    /// One that is larger than any of `Int`.
    Uint(u64),
    Float(f64),
    /// As `gotext` has it.
    Text(String),
}

const OF_YAML: &str = "tag:yaml.org,2002:";

/// The value of a scalar.
///
/// # Errors
///
/// The real parser's text, for a text that is not what the tag says.
pub(super) fn resolve(scalar: &Scalar) -> Result<Resolved, String> {
    let text = &scalar.value;
    let tag = match scalar.tag.strip_prefix(OF_YAML) {
        Some("binary") => return binary(text),
        Some(tag @ ("bool" | "int" | "float" | "null" | "timestamp")) => tag,
        None if scalar.tag.is_empty() && scalar.is_plain => return Ok(value_of(text)),
        _ => return Ok(Resolved::Text(text.clone())),
    };
    let value = value_of(text);
    let found = match &value {
        Resolved::Null => "null",
        Resolved::Bool(_) => "bool",
        Resolved::Int(_) | Resolved::Uint(_) => "int",
        Resolved::Float(_) => "float",
        Resolved::Text(_) if tag == "timestamp" && is_timestamp(text) => "timestamp",
        Resolved::Text(_) => "str",
    };
    match value {
        _ if found == tag => Ok(value),
        #[expect(clippy::cast_precision_loss, reason = "as Go does")]
        Resolved::Int(value) if tag == "float" => Ok(Resolved::Float(value as f64)),
        _ => Err(format!("yaml: cannot decode !!{found} `{text}` as a !!{tag}")),
    }
}

/// The value of a plain scalar.
fn value_of(text: &str) -> Resolved {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Resolved::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Resolved::Bool(false);
        }
        "" | "~" | "null" | "Null" | "NULL" => return Resolved::Null,
        ".nan" | ".NaN" | ".NAN" => return Resolved::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Resolved::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Resolved::Float(f64::NEG_INFINITY),
        _ => {}
    }
    let number = match text.bytes().next() {
        Some(b'.') => float(text).map(Resolved::Float),
        Some(b'+' | b'-' | b'0'..=b'9') => {
            let digits = text.replace('_', "");
            integer(&digits).or_else(|| float(&digits).map(Resolved::Float))
        }
        _ => None,
    };
    number.unwrap_or_else(|| Resolved::Text(text.to_owned()))
}

/// An integer with or without a prefix for its base. A sign makes it one of 63 bits.
fn integer(text: &str) -> Option<Resolved> {
    let (sign, digits) = match text.as_bytes().first() {
        Some(b'-') => (Some(-1), &text[1..]),
        Some(b'+') => (Some(1), &text[1..]),
        _ => (None, text),
    };
    let prefixed = |prefixes: [&str; 2], base: u32| {
        let rest = prefixes.iter().find_map(|prefix| digits.strip_prefix(prefix));
        rest.map(|rest| (rest, base))
    };
    let (digits, base) = prefixed(["0x", "0X"], 16)
        .or_else(|| prefixed(["0b", "0B"], 2))
        .or_else(|| prefixed(["0o", "0O"], 8))
        .or_else(|| {
            digits
                .strip_prefix('0')
                .filter(|rest| !rest.is_empty())
                .map(|rest| (rest, 8))
        })
        .unwrap_or((digits, 10));
    // Rust would take another sign.
    if !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let size = u64::from_str_radix(digits, base).ok()?;
    match (i64::try_from(size), sign) {
        (Ok(value), Some(-1)) => Some(Resolved::Int(-value)),
        (Ok(value), _) => Some(Resolved::Int(value)),
        (Err(_), None) => Some(Resolved::Uint(size)),
        (Err(_), Some(-1)) if size == i64::MIN.unsigned_abs() => Some(Resolved::Int(i64::MIN)),
        (Err(_), _) => None,
    }
}

/// A decimal number. None that is too large is one.
fn float(text: &str) -> Option<f64> {
    let is_one = text
        .bytes()
        .all(|byte| matches!(byte, b'+' | b'-' | b'.' | b'0'..=b'9' | b'e' | b'E'));
    let value: f64 = text.parse().ok().filter(|_| is_one)?;
    value.is_finite().then_some(value)
}

/// Bytes, which come as text.
fn binary(text: &str) -> Result<Resolved, String> {
    const STANDARD: GeneralPurpose = GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
    );
    let clean: Cow<'_, str> = if text.contains(['\r', '\n']) {
        Cow::Owned(text.replace(['\r', '\n'], ""))
    } else {
        Cow::Borrowed(text)
    };
    match STANDARD.decode(clean.as_bytes()) {
        Ok(bytes) => Ok(Resolved::Text(gotext::decode(bytes))),
        Err(_) => Err("yaml: !!binary value contains invalid base64 data".to_owned()),
    }
}

/// Whether a text is a day, with or without a time of it.
fn is_timestamp(text: &str) -> bool {
    let Some((day, rest)) = day(text) else { return false };
    let Some(divider) = rest.chars().next() else {
        return day;
    };
    let Some(rest) = time_of_day(&rest[divider.len_utf8()..]) else {
        return false;
    };
    day && match divider {
        'T' | 't' => rest == "Z" || is_offset(rest),
        ' ' => rest.is_empty(),
        _ => false,
    }
}

/// A number of one or two digits, and what comes after it.
fn one_or_two(text: &str) -> Option<(u32, &str)> {
    let digits = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    Some((number.parse().ok()?, rest))
}

/// Reads year, month and day; says whether there is such a day.
fn day(text: &str) -> Option<(bool, &str)> {
    let (year, rest) = text.split_once('-')?;
    let year: u32 = year
        .parse()
        .ok()
        .filter(|_| year.len() == 4 && year.bytes().all(|byte| byte.is_ascii_digit()))?;
    let (month, rest) = one_or_two(rest)?;
    let (day, rest) = one_or_two(rest.strip_prefix('-')?)?;
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let last = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    Some(((1..=last).contains(&day), rest))
}

/// What comes after hours, minutes and seconds with or without a fraction.
fn time_of_day(text: &str) -> Option<&str> {
    let (hour, rest) = one_or_two(text)?;
    let (minute, rest) = one_or_two(rest.strip_prefix(':')?)?;
    let (second, mut rest) = one_or_two(rest.strip_prefix(':')?)?;
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        let after = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
        if after.len() < fraction.len() {
            rest = after;
        }
    }
    (hour < 24 && minute < 60 && second < 60).then_some(rest)
}

/// Whether a text is `+hh:mm`.
fn is_offset(text: &str) -> bool {
    let bytes = text.as_bytes();
    let two = |at: usize| std::str::from_utf8(&bytes[at..at + 2]).ok()?.parse::<u8>().ok();
    bytes.len() == 6
        && matches!(bytes[0], b'+' | b'-')
        && bytes[3] == b':'
        && [1, 2, 4, 5].iter().all(|at| bytes[*at].is_ascii_digit())
        && two(1).is_some_and(|hours| hours <= 24)
        && two(4).is_some_and(|minutes| minutes < 60)
}
