//! The schemas of custom resources, as their definitions say, with the fields that every object has.

use serde_json::{Map, Value, json};

use super::schemas::{self, LIST_META, OBJECT_META};
use crate::kinds::Resource;

/// The name of the schema of a custom kind: `com.example.v1.Widget`.
pub(super) fn name(resource: &Resource) -> String {
    named(resource, &resource.kind)
}

/// The name of the schema of its list.
pub(super) fn list_name(resource: &Resource) -> String {
    named(resource, &resource.list_kind)
}

fn named(resource: &Resource, kind: &str) -> String {
    let group: Vec<&str> = resource.group.rsplit('.').collect();
    format!("{}.{}.{kind}", group.join("."), resource.version)
}

/// The schema of an object.
pub(super) fn object(resource: &Resource, schema: Option<Value>) -> Value {
    // Without a schema there are no properties: they would say that there are no others.
    let mut object = match schema {
        Some(Value::Object(mut fields)) => {
            adapt(&mut fields);
            add_properties(&mut fields);
            fields
        }
        _ => Map::from_iter([("type".to_owned(), "object".into())]),
    };
    let kind = schemas::group_version_kind(resource, &resource.kind);
    object.insert("x-kubernetes-group-version-kind".to_owned(), json!([kind]));
    object.into()
}

/// The fields that an object of a kind has: at the root, and in embedded objects.
fn add_properties(fields: &mut Map<String, Value>) {
    let properties = fields.entry("properties").or_insert_with(|| json!({}));
    properties["apiVersion"] = json!({"type": "string"});
    properties["kind"] = json!({"type": "string"});
    properties["metadata"] = json!({"allOf": [schemas::reference(OBJECT_META)]});
}

/// Says in plain OpenAPI what the extensions of a schema and of all below it mean.
fn adapt(fields: &mut Map<String, Value>) {
    if let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().filter_map(Value::as_object_mut).for_each(adapt);
    }
    for below in ["items", "additionalProperties"] {
        if let Some(schema) = fields.get_mut(below).and_then(Value::as_object_mut) {
            adapt(schema);
        }
    }
    let says = |fields: &Map<String, Value>, extension: &str| fields.get(extension) == Some(&Value::Bool(true));
    if says(fields, "x-kubernetes-int-or-string") && !fields.contains_key("anyOf") && !fields.contains_key("allOf") {
        fields.insert("anyOf".to_owned(), json!([{"type": "integer"}, {"type": "string"}]));
    }
    if says(fields, "x-kubernetes-embedded-resource") {
        add_properties(fields);
        let mut required: Vec<Value> = fields
            .get("required")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        for name in ["kind", "apiVersion"] {
            if !required.contains(&name.into()) {
                required.push(name.into());
            }
        }
        fields.insert("required".to_owned(), required.into());
    }
}

/// The schema of a list.
pub(super) fn list(resource: &Resource) -> Value {
    json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "items": {"type": "array", "items": schemas::reference(&name(resource))},
            "metadata": {"allOf": [schemas::reference(LIST_META)]},
        },
        "x-kubernetes-group-version-kind": [schemas::group_version_kind(resource, &resource.list_kind)],
    })
}
