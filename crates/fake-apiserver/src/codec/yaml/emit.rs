//! Values as JSON, and as texts of the real server show them.

use std::collections::BTreeMap;

use super::decode::{Value, ValueId, Values};
use super::resolve::Resolved;
use crate::gotext;
use crate::json::write;
use crate::steps::step;

/// What is to be written.
enum Task {
    Value(ValueId),
    Text(&'static str),
    Key(String),
    Comma,
}

/// The JSON text of a document, each mapping in the order of its keys.
///
/// # Errors
///
/// The real server's text, for keys and numbers that JSON does not have.
pub(super) fn json(values: &Values) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    // The real server looks at all keys before it looks at any number.
    let mut no_number = None;
    let mut tasks = vec![Task::Value(values.root)];
    while let Some(task) = tasks.pop() {
        step();
        match task {
            Task::Text(text) => out.extend_from_slice(text.as_bytes()),
            Task::Comma => write::comma(&mut out),
            Task::Key(key) => {
                write::comma(&mut out);
                write::string(&mut out, &gotext::shown(&key));
                out.push(b':');
            }
            Task::Value(id) => match &values.all[id] {
                Value::Scalar(Resolved::Float(value)) if !value.is_finite() => {
                    no_number.get_or_insert(*value);
                }
                Value::Scalar(scalar) => json_scalar(&mut out, scalar),
                Value::Sequence(items) => {
                    out.push(b'[');
                    tasks.push(Task::Text("]"));
                    tasks.extend(items.iter().rev().flat_map(|item| [Task::Value(*item), Task::Comma]));
                }
                Value::Mapping(mapping) => {
                    out.push(b'{');
                    tasks.push(Task::Text("}"));
                    let mut sorted = BTreeMap::new();
                    for (key, value) in &mapping.entries {
                        sorted.insert(key_text(values, key, *value)?, *value);
                    }
                    tasks.extend(
                        sorted
                            .into_iter()
                            .rev()
                            .flat_map(|(key, value)| [Task::Value(value), Task::Key(key)]),
                    );
                }
            },
        }
    }
    match no_number {
        Some(value) => Err(format!("json: unsupported value: {}", go_float(value))),
        None => Ok(out),
    }
}

fn json_scalar(out: &mut Vec<u8>, scalar: &Resolved) {
    match scalar {
        Resolved::Null => out.extend_from_slice(b"null"),
        Resolved::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Resolved::Int(value) => write::int(out, *value),
        Resolved::Uint(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Resolved::Float(value) => write::float(out, *value),
        Resolved::Text(text) => write::string(out, &gotext::shown(text)),
    }
}

/// A key as JSON has it.
fn key_text(values: &Values, key: &Resolved, value: ValueId) -> Result<String, String> {
    Ok(match key {
        Resolved::Text(text) => text.clone(),
        Resolved::Int(value) => value.to_string(),
        Resolved::Bool(value) => value.to_string(),
        Resolved::Float(value) if value.is_nan() => ".nan".to_owned(),
        Resolved::Float(value) => {
            // As the real server does.
            #[expect(clippy::cast_possible_truncation, reason = "numbers are shown with half the digits")]
            let short = *value as f32;
            match (short.is_infinite(), short > 0.0) {
                (true, true) => ".inf".to_owned(),
                (true, false) => "-.inf".to_owned(),
                (false, _) => general(&format!("{short:e}")),
            }
        }
        Resolved::Null | Resolved::Uint(_) => {
            let of = if *key == Resolved::Null { "%!s(<nil>)" } else { "uint64" };
            return Err(format!(
                "unsupported map key of type: {of}, key: {}, value: {}",
                go_scalar(key, "<nil>"),
                go_syntax(&values.all, value)
            ));
        }
    })
}

/// A value in the syntax of Go.
pub(super) fn go_syntax(all: &[Value], value: ValueId) -> String {
    let mut out = String::new();
    let mut tasks = vec![Task::Value(value)];
    while let Some(task) = tasks.pop() {
        match task {
            Task::Text(text) => out.push_str(text),
            Task::Comma => out.push_str(", "),
            Task::Key(key) => {
                out.push_str(&key);
                out.push(':');
            }
            Task::Value(id) => {
                let nil = if id == value { "<nil>" } else { INNER_NIL };
                match &all[id] {
                    Value::Scalar(scalar) => out.push_str(&go_scalar(scalar, nil)),
                    Value::Sequence(items) => {
                        out.push_str("[]interface {}{");
                        tasks.push(Task::Text("}"));
                        for (at, item) in items.iter().enumerate().rev() {
                            tasks.push(Task::Value(*item));
                            tasks.extend((at > 0).then_some(Task::Comma));
                        }
                    }
                    Value::Mapping(mapping) => {
                        out.push_str("map[interface {}]interface {}{");
                        tasks.push(Task::Text("}"));
                        let mut entries: Vec<_> = mapping.entries.iter().collect();
                        entries.sort_by(|(a, _), (b, _)| {
                            order(a).partial_cmp(&order(b)).unwrap_or(std::cmp::Ordering::Equal)
                        });
                        for (at, (key, value)) in entries.into_iter().enumerate().rev() {
                            tasks.push(Task::Value(*value));
                            tasks.push(Task::Key(go_scalar(key, INNER_NIL)));
                            tasks.extend((at > 0).then_some(Task::Comma));
                        }
                    }
                }
            }
        }
    }
    out
}

/// What Go shows for nothing inside of a value.
const INNER_NIL: &str = "interface {}(nil)";

/// The order in which Go shows keys: by type, and then by value.
fn order(key: &Resolved) -> (u8, f64, &str) {
    #[expect(clippy::cast_precision_loss, reason = "texts of mistakes only")]
    match key {
        Resolved::Null => (0, 0.0, ""),
        Resolved::Bool(value) => (5, f64::from(u8::from(*value)), ""),
        Resolved::Float(value) => (4, *value, ""),
        Resolved::Int(value) => (3, *value as f64, ""),
        Resolved::Text(text) => (1, 0.0, text),
        Resolved::Uint(value) => (2, *value as f64, ""),
    }
}

/// A scalar in the syntax of Go.
pub(super) fn go_scalar(scalar: &Resolved, nil: &str) -> String {
    match scalar {
        Resolved::Null => nil.to_owned(),
        Resolved::Bool(value) => value.to_string(),
        Resolved::Int(value) => value.to_string(),
        Resolved::Uint(value) => format!("{value:#x}"),
        Resolved::Float(value) => go_float(*value),
        Resolved::Text(text) => gotext::go_quote(text),
    }
}

fn go_float(value: f64) -> String {
    match value {
        _ if value.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        _ => general(&format!("{value:e}")),
    }
}

/// A number like `-1.25e7` in Go's general form: with an exponent if that is large or small.
fn general(scientific: &str) -> String {
    let (digits, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.unsigned_abs());
    }
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |rest| ("-", rest));
    let mut plain = digits.replace('.', "");
    let Ok(whole) = usize::try_from(exponent + 1) else {
        let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
        return format!("{sign}0.{zeros}{plain}");
    };
    match plain.len() {
        0 => {}
        length if length <= whole => plain.push_str(&"0".repeat(whole - length)),
        _ if whole == 0 => plain.insert_str(0, "0."),
        _ => plain.insert(whole, '.'),
    }
    format!("{sign}{plain}")
}
