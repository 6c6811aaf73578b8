//! A set of fields in line with a schema that has changed since the set was made.

use super::schema::{MapType, Type};
use super::{Element, Set};

/// The set with each list or map as one field that is owned as a whole now. What was owned as a whole and is now merged
/// stays as it is.
pub(crate) fn reconcile<'a>(of: Type<'_>, set: &Set<'a>) -> Set<'a> {
    // An object is never owned as a whole.
    walk(of, set, false).unwrap_or_default()
}

/// What is below a value; `None` if the value is one field.
fn walk<'a>(of: Type<'_>, below: &Set<'a>, is_leaf: bool) -> Option<Set<'a>> {
    // Of types of several forms, the first one counts, as there is no value to ask.
    if let Some(map) = of.map() {
        if map.is_untyped() {
            return Some(below.clone());
        }
        if map.atomic && !is_leaf && !below.is_empty() {
            return None;
        }
        return Some(children(below, |element| in_map(map, element)));
    }
    let Some(list) = of.list() else {
        return Some(below.clone());
    };
    if list.atomic() && !is_leaf {
        return None;
    }
    Some(children(below, |_| Some(list.element())))
}

fn in_map<'s>(map: MapType<'s>, element: &Element<'_>) -> Option<Type<'s>> {
    match element {
        Element::Field(name) => map.entry(name).map(|(of, _)| of),
        _ => map.element(),
    }
}

fn children<'a, 's>(set: &Set<'a>, of: impl Fn(&Element<'a>) -> Option<Type<'s>>) -> Set<'a> {
    let mut reconciled = Set::default();
    for (element, member, below) in set.children() {
        let Some(of) = of(element) else {
            reconciled.put(element.clone(), member, below.clone());
            continue;
        };
        match walk(of, below, member && below.is_empty()) {
            Some(below) => reconciled.put(element.clone(), member, below),
            None => reconciled.put(element.clone(), true, Set::default()),
        }
    }
    reconciled
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::json::Tape;
    use crate::structured::{fields_v1, of_definition};

    #[test]
    fn what_became_atomic_is_one_field() {
        // [F11]
        let schema = of_definition(Some(&json!({
            "type": "object",
            "properties": {
                "list": {"type": "array", "items": {"type": "string"}},
                "map": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "same": {"type": "object", "properties": {"a": {"type": "string"}}},
            },
        })));
        let before =
            r#"{"f:list":{"v:\"a\"":{}},"f:map":{".":{},"f:a":{}},"f:open":{"f:a":{"f:b":{}}},"f:same":{"f:a":{}}}"#;
        let tape = Tape::parse(before.as_bytes()).unwrap();
        let set = reconcile(schema.root(), &fields_v1::decode(tape.root()).unwrap());
        let mut out = Vec::new();
        fields_v1::encode(&set, &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{"f:list":{},"f:map":{},"f:open":{"f:a":{"f:b":{}}},"f:same":{"f:a":{}}}"#
        );
        assert_eq!(reconcile(schema.root(), &set), set);
    }
}
