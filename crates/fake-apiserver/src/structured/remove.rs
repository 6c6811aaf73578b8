//! A value without some of its fields.

use super::schema::{Form, ListType, Type};
use super::{Element, MAX_DEPTH, Set, element_of, entries};
use crate::json::{Kind, Value};
use crate::patch::Node;
use crate::steps::step;

/// The value without the fields of a set and all that is below them. A list or map of which nothing stays is null.
pub(crate) fn remove<'t>(of: Type<'_>, value: Value<'t>, fields: &Set<'_>) -> Node<'t> {
    step();
    match of.form(Some(value)) {
        Some(Form::List(list)) => {
            if list.atomic() || value.kind() != Kind::Array {
                return Node::Null;
            }
            let mut kept = Vec::new();
            for item in value.items() {
                let Ok(element) = element_of(list, item) else {
                    kept.push(Node::Parsed(item));
                    continue;
                };
                kept.extend(child(list.element(), item, &element, fields));
            }
            if kept.is_empty() { Node::Null } else { Node::Array(kept) }
        }
        Some(Form::Map(map)) => {
            if map.atomic || value.kind() != Kind::Object {
                return Node::Null;
            }
            let mut kept = Vec::new();
            for (key, value) in entries(Some(value)) {
                let name = key.as_str().unwrap_or_default();
                let node = match map.entry(&name) {
                    Some((of, _)) => child(of, value, &Element::Field(name.clone()), fields),
                    None => Some(Node::Parsed(value)),
                };
                kept.extend(node.map(|node| (name, node)));
            }
            if kept.is_empty() {
                Node::Null
            } else {
                Node::Object(kept.into_iter().collect())
            }
        }
        Some(Form::Scalar(_)) | None => Node::Parsed(value),
    }
}

/// What stays of a child; `None` if it goes.
fn child<'t>(of: Type<'_>, value: Value<'t>, element: &Element<'_>, fields: &Set<'_>) -> Option<Node<'t>> {
    if fields.has(element) {
        return None;
    }
    // As deep as the set is, which its reader limits.
    Some(match fields.below(element) {
        Some(below) => remove(of, value, below),
        None => Node::Parsed(value),
    })
}

/// The value without nulls where its definition has a type that does not allow them.
pub(crate) fn prune_nulls<'t>(of: Type<'_>, value: Value<'t>) -> Node<'t> {
    prune(Some(of), value, 0)
}

fn prune<'t>(of: Option<Type<'_>>, value: Value<'t>, depth: usize) -> Node<'t> {
    let Some(of) = of.filter(|_| depth <= MAX_DEPTH) else {
        return Node::Parsed(value);
    };
    match value.kind() {
        Kind::Object => {
            let map = of.map();
            let kept = entries(Some(value)).into_iter().filter_map(|(key, value)| {
                let name = key.as_str().unwrap_or_default();
                let of = map.and_then(|map| map.entry(&name)).map(|(of, _)| of);
                let drops = value.is_null() && of.is_some_and(Type::drops_null);
                (!drops).then(|| (name, prune(of, value, depth + 1)))
            });
            Node::Object(kept.collect())
        }
        Kind::Array => {
            let element = of.list().map(ListType::element);
            Node::Array(value.items().map(|item| prune(element, item, depth + 1)).collect())
        }
        _ => Node::Parsed(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::json::Tape;
    use crate::structured::{Schema, fields_v1, of_definition};

    fn shown(node: &Node<'_>) -> Json {
        let mut out = Vec::new();
        node.write(&mut out);
        serde_json::from_slice(&out).unwrap()
    }

    fn without(schema: &Schema, value: &Json, fields: &Json) -> Json {
        let (value, fields) = (value.to_string(), fields.to_string());
        let (value, fields) = (
            Tape::parse(value.as_bytes()).unwrap(),
            Tape::parse(fields.as_bytes()).unwrap(),
        );
        shown(&remove(
            schema.root(),
            value.root(),
            &fields_v1::decode(fields.root()).unwrap(),
        ))
    }

    #[test]
    fn fields_go_and_what_is_left_empty_is_null() {
        // [F11]
        let schema = Schema::of_kind("", "v1", "Pod");
        let pod = json!({
            "metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["x/x", "y/y"]},
            "spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b"}], "nodeSelector": {"n": "1"}},
        });
        let fields = json!({
            "f:metadata": {"f:labels": {"f:a": {}}, "f:finalizers": {"v:\"y/y\"": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {"f:image": {}}, "k:{\"name\":\"b\"}": {}}},
        });
        assert_eq!(
            without(&schema, &pod, &fields),
            json!({
                "metadata": {"labels": {"b": "2"}, "finalizers": ["x/x"]},
                "spec": {"containers": [{"name": "a"}], "nodeSelector": {"n": "1"}},
            })
        );
        let all =
            json!({"f:metadata": {"f:labels": {"f:a": {}, "f:b": {}}}, "f:spec": {"f:nodeSelector": {"f:n": {}}}});
        let left = without(&schema, &pod, &all);
        assert_eq!(left["metadata"]["labels"], Json::Null);
        assert_eq!(left["spec"]["nodeSelector"], Json::Null);
    }

    #[test]
    fn nulls_go_where_the_definition_does_not_allow_them() {
        // [F11]
        let schema = of_definition(Some(&json!({
            "type": "object",
            "properties": {
                "a": {"type": "string"},
                "b": {"type": "string", "nullable": true},
                "c": {"type": "object", "properties": {"d": {"type": "integer"}}},
                "e": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            },
        })));
        let text = json!({"a": null, "b": null, "c": {"d": null}, "e": {"f": null}}).to_string();
        let tape = Tape::parse(text.as_bytes()).unwrap();
        assert_eq!(
            shown(&prune_nulls(schema.root(), tape.root())),
            json!({"b": null, "c": {}, "e": {"f": null}})
        );
    }
}
