//! What of a value is not of its type.

use std::collections::BTreeSet;

use super::schema::{Form, ListType, MapType, Scalar, Type};
use super::{At, Element, MAX_DEPTH, Problems, element_of, entries, gofmt};
use crate::json::{Kind, Value};
use crate::steps::step;

/// Finds what is not of the type: values of other kinds, fields that are not declared, items that nothing tells apart, and
/// items that are equal in what should.
pub(crate) fn check(of: Type<'_>, value: Value<'_>) -> Problems {
    let mut problems = Problems::default();
    walk(of, value, None, 0, &mut problems);
    problems
}

fn walk(of: Type<'_>, value: Value<'_>, at: Option<&At<'_>>, depth: usize, problems: &mut Problems) {
    step();
    if depth > MAX_DEPTH {
        return;
    }
    match of.form(Some(value)) {
        None => {}
        Some(Form::Scalar(kind)) => scalar(kind, value, at, problems),
        Some(Form::List(list)) => items(list, value, at, depth, problems),
        Some(Form::Map(map)) => fields(map, value, at, depth, problems),
    }
}

fn scalar(kind: Scalar, value: Value<'_>, at: Option<&At<'_>>, problems: &mut Problems) {
    let is_scalar = !matches!(value.kind(), Kind::Array | Kind::Object);
    let is_of_type = match (kind, value.kind()) {
        (_, Kind::Null)
        | (Scalar::Numeric, Kind::Number)
        | (Scalar::Text, Kind::String)
        | (Scalar::Boolean, Kind::True | Kind::False) => true,
        (Scalar::Untyped, _) => is_scalar,
        _ => false,
    };
    if is_of_type {
        return;
    }
    problems.add(at, || match kind {
        Scalar::Numeric => format!("expected numeric (int or float), got {}", gofmt::type_of(value)),
        Scalar::Text => format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            gofmt::syntax(value)
        ),
        Scalar::Boolean => format!("expected boolean, got &{{{}}}", gofmt::plain(value)),
        Scalar::Untyped => format!("expected any scalar, got &{{{}}}", gofmt::plain(value)),
    });
}

fn items(list: ListType<'_>, value: Value<'_>, at: Option<&At<'_>>, depth: usize, problems: &mut Problems) {
    match value.kind() {
        Kind::Null => return,
        Kind::Array => {}
        _ => return problems.add(at, || format!("expected list, got &{{{}}}", gofmt::plain(value))),
    }
    let mut seen = BTreeSet::new();
    for (index, item) in value.items().enumerate() {
        let element = if list.atomic() {
            Element::Index(i64::try_from(index).unwrap_or(i64::MAX))
        } else {
            match element_of(list, item) {
                Ok(element) => element,
                Err(text) => return problems.add(at, || format!("element {index}: {text}")),
            }
        };
        if !list.atomic() && !seen.insert(element.clone()) {
            problems.add(at, || format!("duplicate entries for key {element}"));
        }
        let below = At {
            above: at,
            element: &element,
        };
        walk(list.element(), item, Some(&below), depth + 1, problems);
    }
}

fn fields(map: MapType<'_>, value: Value<'_>, at: Option<&At<'_>>, depth: usize, problems: &mut Problems) {
    match value.kind() {
        Kind::Null => return,
        Kind::Object => {}
        _ => return problems.add(at, || format!("expected map, got &{{{}}}", gofmt::plain(value))),
    }
    for (key, value) in entries(Some(value)) {
        let name = key.as_str().unwrap_or_default();
        let element = Element::Field(name.clone());
        let below = At {
            above: at,
            element: &element,
        };
        let Some((of, _)) = map.entry(&name) else {
            // The real server looks no further in this map.
            problems.add(Some(&below), || "field not declared in schema".to_owned());
            break;
        };
        walk(of, value, Some(&below), depth + 1, problems);
    }
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
        problems.text()
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
