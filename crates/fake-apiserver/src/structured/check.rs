//! What of a value is not of its type.

use std::collections::BTreeSet;

use super::schema::{Form, ListType, MapType, Scalar, Type};
use super::{Element, MAX_DEPTH, Problem, element_of, entries, gofmt};
use crate::json::{Kind, Value};

/// Finds what is not of the type: values of other kinds, fields that are not declared, items that nothing tells apart, and
/// items that are equal in what should.
pub(crate) fn check(of: Type<'_>, value: Value<'_>) -> Vec<Problem> {
    walk(of, value, 0)
}

fn walk(of: Type<'_>, value: Value<'_>, depth: usize) -> Vec<Problem> {
    if depth > MAX_DEPTH {
        return Vec::new();
    }
    match of.form(Some(value)) {
        None => Vec::new(),
        Some(Form::Scalar(kind)) => scalar(kind, value).into_iter().collect(),
        Some(Form::List(list)) => items(list, value, depth),
        Some(Form::Map(map)) => fields(map, value, depth),
    }
}

fn scalar(kind: Scalar, value: Value<'_>) -> Option<Problem> {
    let is_scalar = !matches!(value.kind(), Kind::Array | Kind::Object);
    let text = match (kind, value.kind()) {
        (_, Kind::Null)
        | (Scalar::Numeric, Kind::Number)
        | (Scalar::Text, Kind::String)
        | (Scalar::Boolean, Kind::True | Kind::False) => return None,
        (Scalar::Untyped, _) if is_scalar => return None,
        (Scalar::Numeric, _) => format!("expected numeric (int or float), got {}", gofmt::type_of(value)),
        (Scalar::Text, _) => format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            gofmt::syntax(value)
        ),
        (Scalar::Boolean, _) => format!("expected boolean, got &{{{}}}", gofmt::plain(value)),
        (Scalar::Untyped, _) => format!("expected any scalar, got &{{{}}}", gofmt::plain(value)),
    };
    Some(Problem::here(text))
}

fn items(list: ListType<'_>, value: Value<'_>, depth: usize) -> Vec<Problem> {
    match value.kind() {
        Kind::Null => return Vec::new(),
        Kind::Array => {}
        _ => {
            return vec![Problem::here(format!(
                "expected list, got &{{{}}}",
                gofmt::plain(value)
            ))];
        }
    }
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for (at, item) in value.items().enumerate() {
        let element = if list.atomic() {
            Element::Index(i64::try_from(at).unwrap_or(i64::MAX))
        } else {
            match element_of(list, item) {
                Ok(element) => element,
                Err(text) => {
                    problems.push(Problem::here(format!("element {at}: {text}")));
                    return problems;
                }
            }
        };
        if !list.atomic() && !seen.insert(element.clone()) {
            problems.push(Problem::here(format!("duplicate entries for key {element}")));
        }
        let found = walk(list.element(), item, depth + 1);
        problems.extend(Problem::below(&element, found));
    }
    problems
}

fn fields(map: MapType<'_>, value: Value<'_>, depth: usize) -> Vec<Problem> {
    match value.kind() {
        Kind::Null => return Vec::new(),
        Kind::Object => {}
        _ => return vec![Problem::here(format!("expected map, got &{{{}}}", gofmt::plain(value)))],
    }
    let mut problems = Vec::new();
    for (key, value) in entries(Some(value)) {
        let name = key.as_str().unwrap_or_default();
        let Some((of, _)) = map.entry(&name) else {
            // The real server looks no further in this map.
            let found = vec![Problem::here("field not declared in schema")];
            problems.extend(Problem::below(&Element::Field(name), found));
            break;
        };
        let found = walk(of, value, depth + 1);
        problems.extend(Problem::below(&Element::Field(name), found));
    }
    problems
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::json::Tape;
    use crate::structured::{Schema, of_definition};

    fn problems(schema: &Schema, value: &serde_json::Value) -> String {
        let text = value.to_string();
        let tape = Tape::parse(text.as_bytes()).unwrap();
        let problems = check(schema.root(), tape.root());
        if problems.is_empty() {
            return String::new();
        }
        Problem::text(&problems)
    }

    #[test]
    fn what_is_not_of_the_type_is_told_as_the_real_server_does() {
        // [F11] the texts are those of the real server
        let map = Schema::of_kind("", "v1", "ConfigMap");
        let pod = Schema::of_kind("", "v1", "Pod");
        for (schema, value, text) in [
            (&map, json!({"data": {"a": "1"}}), ""),
            (&map, json!({"data": null, "metadata": {"name": "a"}}), ""),
            (&map, json!({"foo": 1}), ".foo: field not declared in schema"),
            (&map, json!({"foo": 1, "goo": 2}), ".foo: field not declared in schema"),
            (
                &map,
                json!({"data": {"x": 1}}),
                ".data.x: expected string, got &value.valueUnstructured{Value:1}",
            ),
            (&map, json!({"data": [1]}), ".data: expected map, got &{[1]}"),
            (
                &map,
                json!({"immutable": "x"}),
                ".immutable: expected boolean, got &{x}",
            ),
            (
                &map,
                json!({"data": {"x": 1}, "foo": 1}),
                "errors:\n  .data.x: expected string, got &value.valueUnstructured{Value:1}\n  .foo: field not declared in schema",
            ),
            (
                &pod,
                json!({"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}),
                r#".spec.containers: duplicate entries for key [name="a"]"#,
            ),
            (&pod, json!({"spec": {"containers": [{"image": "a"}]}}), ""),
            (
                &pod,
                json!({"spec": {"containers": [{"image": "a"}, {"name": ""}]}}),
                r#".spec.containers: duplicate entries for key [name=""]"#,
            ),
            (
                &pod,
                json!({"spec": {"priority": "x"}}),
                ".spec.priority: expected numeric (int or float), got string",
            ),
            (
                &pod,
                json!({"metadata": {"finalizers": [null]}}),
                ".metadata.finalizers: element 0: associative list without keys has an element that's an explicit null",
            ),
        ] {
            assert_eq!(problems(schema, &value), text, "{value}");
        }
    }

    #[test]
    fn any_value_is_of_a_type_that_is_not_known() {
        // [F11]
        let open = of_definition(None);
        assert_eq!(problems(&open, &json!({"a": {"b": [1, {"c": null}]}, "d": "x"})), "");
    }

    #[test]
    fn an_item_without_any_key_field_is_refused() {
        // [F11]
        let schema = of_definition(Some(&json!({
            "type": "object",
            "properties": {"l": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"],
                "items": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}},
            }},
        })));
        assert_eq!(
            problems(&schema, &json!({"l": [{}]})),
            ".l: element 0: associative list with keys has an element that omits all key fields [\"a\" \"b\"] (and \
             doesn't have default values for any key fields)"
        );
        assert_eq!(problems(&schema, &json!({"l": [{"a": "x"}, {"a": "x", "b": 1}]})), "");
    }
}
