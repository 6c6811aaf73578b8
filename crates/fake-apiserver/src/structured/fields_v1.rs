//! The wire form of sets, `fieldsV1`: an object per node, whose keys are `f:` and a field's name, `k:` and the key fields,
//! `v:` and the value, `i:` and the index, or `.` for the node itself.

use super::set::Loose;
use super::{Element, Literal, Set};
use crate::json::{Kind, Tape, Value, write};
use crate::steps::step;

/// Sets nested deeper than this are refused: reading and writing recurse.
const MAX_DEPTH: usize = 512;

/// Why a text is no set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct FieldsError(String);

/// Appends the wire form of a set.
pub(crate) fn encode(set: &Set<'_>, out: &mut Vec<u8>) {
    let mut text = Vec::new();
    encode_node(set, false, &mut text, out);
}

fn encode_node(set: &Set<'_>, itself: bool, text: &mut Vec<u8>, out: &mut Vec<u8>) {
    out.push(b'{');
    if itself && !set.is_empty() {
        out.extend_from_slice(b"\".\":{}");
    }
    for (element, member, below) in set.children() {
        write::comma(out);
        if let Element::Field(name) = element {
            // The common case, which needs no text between.
            out.extend_from_slice(b"\"f:");
            write::string_body(out, name);
            out.push(b'"');
        } else {
            text.clear();
            element_text(element, text);
            write::string(out, &String::from_utf8_lossy(text));
        }
        out.push(b':');
        encode_node(below, member, text, out);
    }
    out.push(b'}');
}

fn element_text(element: &Element<'_>, out: &mut Vec<u8>) {
    match element {
        Element::Field(name) => {
            out.extend_from_slice(b"f:");
            out.extend_from_slice(name.as_bytes());
        }
        Element::Key(fields) => {
            out.extend_from_slice(b"k:{");
            for (name, value) in fields {
                write::comma(out);
                write::string(out, name);
                out.push(b':');
                value.write(out);
            }
            out.push(b'}');
        }
        Element::Value(value) => {
            out.extend_from_slice(b"v:");
            value.write(out);
        }
        Element::Index(at) => {
            out.extend_from_slice(b"i:");
            write::int(out, *at);
        }
    }
}

/// Reads the wire form of a set.
///
/// # Errors
///
/// [`FieldsError`], for what no server has written.
pub(crate) fn decode(fields: Value<'_>) -> Result<Set<'_>, FieldsError> {
    decode_node(fields, 0).map(|(set, _)| set.settle())
}

/// Reads a node: the set, and whether the node itself is a member.
fn decode_node(fields: Value<'_>, depth: usize) -> Result<(Loose<'_>, bool), FieldsError> {
    step();
    if depth > MAX_DEPTH {
        return Err(FieldsError("exceeded max depth".to_owned()));
    }
    if !matches!(fields.kind(), Kind::Object | Kind::Null) {
        return Err(FieldsError(format!(
            "ReadMapCB: expect {{ or n, but found {}",
            fields.kind().go_name()
        )));
    }
    let mut set = Loose::default();
    let mut member = false;
    for (key, below) in fields.entries() {
        if key.is(".") {
            member = true;
            continue;
        }
        let Some(element) = decode_element(key)? else {
            continue; // of a later version, which this one does not keep
        };
        let (below, is_member) = decode_node(below, depth + 1)?;
        set.push(element, is_member, below);
    }
    let member = member || set.is_empty();
    Ok((set, member))
}

/// Reads the JSON in an element.
fn literal(text: &str) -> Result<Tape<'_>, FieldsError> {
    let tape = Tape::parse(text.as_bytes()).map_err(|error| FieldsError(error.to_string()))?;
    match tape.too_large_number() {
        // It could not be written again.
        Some(number) => Err(FieldsError(format!("readFloat64: value out of range: {number}"))),
        None => Ok(tape),
    }
}

/// Reads an element; `None` for one of an unknown kind.
fn decode_element(key: Value<'_>) -> Result<Option<Element<'_>>, FieldsError> {
    let text = key.as_str().unwrap_or_default();
    let Some((kind, rest)) = text.split_at_checked(2) else {
        return Err(FieldsError("key must be 2 characters long:".to_owned()));
    };
    if !kind.ends_with(':') {
        return Err(FieldsError(format!("missing colon: {text}")));
    }
    Ok(Some(match kind {
        "f:" => Element::Field(match text {
            std::borrow::Cow::Borrowed(text) => text[2..].into(),
            std::borrow::Cow::Owned(text) => text[2..].to_owned().into(),
        }),
        "v:" => {
            let tape = literal(rest)?;
            Element::Value(Literal::of(tape.root()).into_owned())
        }
        "k:" => {
            let tape = literal(rest)?;
            if tape.root().kind() != Kind::Object {
                return Err(FieldsError("expect { or n".to_owned()));
            }
            let fields = tape.root().entries().map(|(name, value)| {
                let name = name.as_str().unwrap_or_default().into_owned();
                (name.into(), Literal::of(value).into_owned())
            });
            Element::of_fields(fields.collect())
        }
        "i:" => {
            let at = rest.parse();
            Element::Index(at.map_err(|_| FieldsError(format!("strconv.Atoi: parsing {rest:?}: invalid syntax")))?)
        }
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(text: &str) -> String {
        let tape = Tape::parse(text.as_bytes()).unwrap();
        let set = decode(tape.root()).unwrap();
        let mut out = Vec::new();
        encode(&set, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn sets_round_trip_in_canonical_order() {
        // [F11] the forms that a real server writes
        for text in [
            r"{}",
            r#"{"f:data":{".":{},"f:a":{},"f:b":{}},"f:metadata":{"f:labels":{"f:l":{}}}}"#,
            r#"{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:image":{},"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}}}}}"#,
            r#"{"f:metadata":{"f:finalizers":{"v:\"a/b\"":{}}}}"#,
            r#"{"f:s":{"v:1":{},"v:2.5":{},"v:\"x\"":{},"v:true":{}}}"#,
            r#"{"f:l":{"i:0":{},"i:12":{}}}"#,
            r#"{"f:data":{"f:\u003cx\u003e":{},"f:a\"b\n":{}}}"#,
        ] {
            assert_eq!(round(text), text);
        }
    }

    #[test]
    fn sets_are_read_leniently() {
        // [F11] as a client may send them: any order, repetition, a later version's elements, null
        assert_eq!(round(r#"{"f:b":{},"f:a":{}}"#), r#"{"f:a":{},"f:b":{}}"#);
        assert_eq!(
            round(r#"{"f:a":{"f:b":{}},"f:a":{"f:c":{}}}"#),
            r#"{"f:a":{"f:b":{},"f:c":{}}}"#
        );
        assert_eq!(round(r#"{"f:a":null,"x:b":{}}"#), r#"{"f:a":{}}"#);
        assert_eq!(round(r#"{"f:a":{".":{}}}"#), r#"{"f:a":{}}"#);
        assert_eq!(round(r#"{"k:{\"b\":1,\"a\":2}":{}}"#), r#"{"k:{\"a\":2,\"b\":1}":{}}"#);
        let twice = r#"{"k:{\"a\":2,\"a\":1}":{}}"#;
        assert_eq!(round(twice), twice);
    }

    #[test]
    fn what_is_no_set_is_refused() {
        // [F11]
        for text in [
            r#"{"f":{}}"#,
            r#"{"fx":{}}"#,
            r#"{"v:{":{}}"#,
            r#"{"k:1":{}}"#,
            r#"{"i:x":{}}"#,
            r#"{"f:a":1}"#,
            // [F25] once written as `inf`, which is no JSON
            r#"{"v:1e400":{}}"#,
            r#"{"k:{\"a\":1e400}":{}}"#,
            r#"{"v:[-1e400]":{}}"#,
            "[]",
        ] {
            let tape = Tape::parse(text.as_bytes()).unwrap();
            assert!(decode(tape.root()).is_err(), "{text}");
        }
        let deep = format!("{}{}{}", r#"{"f:a":"#.repeat(600), "{}", "}".repeat(600));
        let tape = Tape::parse(deep.as_bytes()).unwrap();
        assert!(decode(tape.root()).is_err());
    }
}
