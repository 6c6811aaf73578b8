//! The set of the fields that a value has.

use std::collections::BTreeMap;

use super::schema::{Form, ListType, MapType, Type};
use super::{Element, MAX_DEPTH, Set, element_of, is_empty};
use crate::json::{Kind, Value};
use crate::steps::step;

/// The fields of a value: each leaf, each item of a list that is merged, each entry of a map. Keys that the type does not
/// declare, and items that nothing tells apart, are passed over.
pub(crate) fn fields_of<'t>(of: Type<'_>, value: Value<'t>) -> Set<'t> {
    walk(of, value, 0).1
}

/// Whether the value is a leaf, and the set of what is below it.
fn walk<'t>(of: Type<'_>, value: Value<'t>, depth: usize) -> (bool, Set<'t>) {
    step();
    if depth > MAX_DEPTH {
        return (true, Set::default());
    }
    match of.form(Some(value)) {
        Some(Form::List(list)) if !list.atomic() => (false, items(list, value, depth)),
        Some(Form::Map(map)) if !map.atomic => (false, fields(map, value, depth)),
        _ => (true, Set::default()),
    }
}

fn items<'t>(list: ListType<'_>, value: Value<'t>, depth: usize) -> Set<'t> {
    // Of items that are equal, only that there are some is owned; items that nothing tells apart are passed over.
    let mut found: BTreeMap<Element<'t>, Option<Value<'t>>> = BTreeMap::new();
    for item in value.items() {
        if let Ok(element) = element_of(list, item) {
            found
                .entry(element)
                .and_modify(|item| *item = None)
                .or_insert(Some(item));
        }
    }
    let mut set = Set::default();
    for (element, item) in found {
        let below = item.map(|item| walk(list.element(), item, depth + 1).1);
        set.put(element, true, below.unwrap_or_default());
    }
    set
}

fn fields<'t>(map: MapType<'_>, value: Value<'t>, depth: usize) -> Set<'t> {
    let mut set = Set::default();
    for (key, value) in value.entries() {
        let name = key.as_str().unwrap_or_default();
        let Some((of, declared)) = map.entry(&name) else {
            continue;
        };
        let (leaf, below) = walk(of, value, depth + 1);
        let nothing = value.is_null() || value.kind() == Kind::Object && is_empty(Some(value));
        set.put(Element::Field(name), leaf || nothing || !declared, below);
    }
    set
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::json::Tape;
    use crate::structured::{Schema, fields_v1, of_definition};

    fn fields(schema: &Schema, value: &serde_json::Value) -> String {
        let text = value.to_string();
        let tape = Tape::parse(text.as_bytes()).unwrap();
        let mut out = Vec::new();
        fields_v1::encode(&fields_of(schema.root(), tape.root()), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_fields_of_built_in_kinds_are_those_of_the_real_server() {
        // [F11]
        let pod = Schema::of_kind("", "v1", "Pod");
        let value = json!({
            "metadata": {"labels": {"l": "1"}, "annotations": {}, "finalizers": ["b/b", "a/a"]},
            "spec": {
                "containers": [{"name": "a", "image": "i", "args": ["x"], "ports": [{"containerPort": 80}]}],
                "nodeSelector": {"a": "b"},
                "tolerations": [],
                "hostAliases": [],
                "securityContext": {},
            },
        });
        assert_eq!(
            fields(&pod, &value),
            r#"{"f:metadata":{"f:annotations":{},"f:finalizers":{"v:\"a/a\"":{},"v:\"b/b\"":{}},"f:labels":{"f:l":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:args":{},"f:image":{},"f:name":{},"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}}},"f:nodeSelector":{},"f:securityContext":{},"f:tolerations":{}}}"#
        );
    }

    #[test]
    fn items_that_are_equal_are_owned_as_one() {
        // [F11]
        let pod = Schema::of_kind("", "v1", "Pod");
        let env = |name: &str| json!({"name": name, "value": "v"});
        let value = json!({"spec": {"containers": [{"name": "a", "env": [env("x"), env("y"), env("x")]}]}});
        assert_eq!(
            fields(&pod, &value),
            r#"{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:env":{"k:{\"name\":\"x\"}":{},"k:{\"name\":\"y\"}":{".":{},"f:name":{},"f:value":{}}},"f:name":{}}}}}"#
        );
    }

    #[test]
    fn what_is_not_known_is_owned_entry_by_entry() {
        // [F11]
        let open = of_definition(None);
        assert_eq!(
            fields(&open, &json!({"spec": {"a": {"b": 1}, "l": [{"c": 1}], "n": null}})),
            r#"{"f:spec":{".":{},"f:a":{".":{},"f:b":{}},"f:l":{},"f:n":{}}}"#
        );
    }
}
