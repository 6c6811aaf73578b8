//! Answers of the real server in forms that the in-memory one does not have, as the JSON that they stand for.

use serde_json::{Value, json};

use crate::harness::Answer;

/// The JSON of an answer. Nothing for an object in protobuf, of which the types are not known here.
pub(super) fn json_of(answer: &Answer) -> Option<Value> {
    match answer.header("content-type").split(';').next().unwrap_or_default() {
        "application/yaml" => serde_saphyr::from_slice(&answer.body).ok(),
        "application/vnd.kubernetes.protobuf" => status(&answer.body),
        _ => serde_json::from_slice(&answer.body).ok(),
    }
}

/// A field of a message: its number and its content, a number or bytes.
enum Content<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, in order; fewer if it is damaged.
fn fields(mut rest: &[u8]) -> Vec<(u64, Content<'_>)> {
    let mut all = Vec::new();
    while let Some(key) = number(&mut rest) {
        let content = match key & 7 {
            0 => number(&mut rest).map(Content::Number),
            2 => number(&mut rest).and_then(|length| {
                let (bytes, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                rest = after;
                Some(Content::Bytes(bytes))
            }),
            _ => None,
        };
        let Some(content) = content else { break };
        all.push((key >> 3, content));
    }
    all
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// A message as an object: the names of its fields by their number; what is empty is left out.
fn object(message: &[u8], names: &[(u64, &str)]) -> Value {
    let mut object = json!({});
    for (number, content) in fields(message) {
        let Some((_, name)) = names.iter().find(|(known, _)| *known == number) else {
            continue;
        };
        match content {
            Content::Number(0) | Content::Bytes([]) => {}
            Content::Number(value) => object[*name] = value.into(),
            Content::Bytes(text) => object[*name] = String::from_utf8_lossy(text).into(),
        }
    }
    object
}

/// A `Status`, if that is what an envelope holds.
fn status(envelope: &[u8]) -> Option<Value> {
    let envelope = fields(envelope.strip_prefix(b"k8s\0")?);
    let part = |wanted: u64| {
        envelope.iter().find_map(|(number, content)| match content {
            Content::Bytes(bytes) if *number == wanted => Some(*bytes),
            _ => None,
        })
    };
    let types = object(part(1)?, &[(1, "apiVersion"), (2, "kind")]);
    if types["kind"] != "Status" {
        return None;
    }
    let raw = part(2)?;
    let mut status = object(raw, &[(2, "status"), (3, "message"), (4, "reason"), (6, "code")]);
    status["kind"] = types["kind"].clone();
    status["apiVersion"] = types["apiVersion"].clone();
    status["metadata"] = json!({});
    for (number, content) in fields(raw) {
        let (5, Content::Bytes(raw)) = (number, content) else {
            continue;
        };
        let names = [
            (1, "name"),
            (2, "group"),
            (3, "kind"),
            (5, "retryAfterSeconds"),
            (6, "uid"),
        ];
        let mut details = object(raw, &names);
        let causes: Vec<Value> = fields(raw)
            .into_iter()
            .filter_map(|(number, content)| match content {
                Content::Bytes(raw) if number == 4 => Some(object(raw, &[(1, "reason"), (2, "message"), (3, "field")])),
                _ => None,
            })
            .collect();
        if !causes.is_empty() {
            details["causes"] = causes.into();
        }
        status["details"] = details;
    }
    Some(status)
}
