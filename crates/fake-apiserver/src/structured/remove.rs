//! A value without some of its fields.

use super::schema::{Form, Type};
use super::{Element, Set, element_of, entries};
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

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::json::Tape;
    use crate::structured::{Schema, fields_v1};

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
}
