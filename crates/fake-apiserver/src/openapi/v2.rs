//! The older form of the documents: one of all kinds, which says less.

use serde_json::{Map, Value, json};

use super::schemas::PREFIX;

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";

/// One document of those of all group versions.
pub(super) fn document(documents: impl Iterator<Item = Value>) -> Value {
    let mut paths = Map::new();
    let mut definitions: Map<String, Value> = Map::new();
    for mut document in documents {
        if let Value::Object(of_document) = document["paths"].take() {
            paths.extend(
                of_document
                    .into_iter()
                    .map(|(path, operations)| (path, older(operations))),
            );
        }
        let Value::Object(schemas) = document["components"]["schemas"].take() else {
            continue;
        };
        for (name, schema) in schemas {
            let schema = definition(&name, schema);
            match definitions.get_mut(&name) {
                Some(there) => add_kinds(there, &schema),
                None => {
                    definitions.insert(name, schema);
                }
            }
        }
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "1.37"},
        "paths": paths,
        "definitions": definitions,
    })
}

/// A type that is a kind of several groups is said to be of each.
fn add_kinds(there: &mut Value, other: &Value) {
    let name = "x-kubernetes-group-version-kind";
    let (Some(kinds), Some(more)) = (
        there.get_mut(name).and_then(Value::as_array_mut),
        other.get(name).and_then(Value::as_array),
    ) else {
        return;
    };
    for kind in more {
        if !kinds.contains(kind) {
            kinds.push(kind.clone());
        }
    }
}

fn definition(name: &str, schema: Value) -> Value {
    match name {
        QUANTITY => json!({"type": "string"}),
        INT_OR_STRING => json!({"type": "string", "format": "int-or-string"}),
        _ if schema["x-kubernetes-group-version-kind"].is_array()
            && schema["x-kubernetes-preserve-unknown-fields"] == true =>
        {
            // The clients of this form take properties for all that there may be.
            let kinds = &schema["x-kubernetes-group-version-kind"];
            json!({"type": "object", "x-kubernetes-group-version-kind": kinds})
        }
        _ => simplify(schema),
    }
}

/// A schema in the words of the older form, which has no `nullable`, no alternatives, and references that stand alone.
fn simplify(schema: Value) -> Value {
    let Value::Object(mut fields) = schema else {
        return schema;
    };
    if let Some(Value::Array(all)) = fields.remove("allOf")
        && let Some(Value::String(reference)) = all.first().map(|first| first["$ref"].clone())
    {
        fields.insert("$ref".to_owned(), reference.into());
    }
    for dropped in ["default", "oneOf", "anyOf", "not"] {
        fields.remove(dropped);
    }
    if let Some(Value::String(reference)) = fields.get_mut("$ref")
        && let Some(name) = reference.strip_prefix(PREFIX)
    {
        *reference = format!("#/definitions/{name}");
    }
    let nullable = fields.remove("nullable") == Some(true.into());
    let open = fields.get("x-kubernetes-preserve-unknown-fields") == Some(&true.into());
    if nullable || open {
        // Clients cannot cope with parts of what is not known whole.
        for dropped in ["items", "properties", "type"] {
            fields.remove(dropped);
        }
    }
    if fields.get("type") == Some(&"array".into()) && !fields.contains_key("items") {
        fields.remove("type");
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        for (_, property) in properties.iter_mut() {
            *property = simplify(property.take());
        }
    }
    for below in ["items", "additionalProperties"] {
        if let Some(schema) = fields.get_mut(below) {
            *schema = simplify(schema.take());
        }
    }
    fields.into()
}

/// The operations of a path.
fn older(operations: Value) -> Value {
    let Value::Object(operations) = operations else {
        return operations;
    };
    let older = operations.into_iter().map(|(method, mut operation)| {
        if method == "parameters" {
            return (method, parameters(operation.take()));
        }
        let mut taken = parameters(operation["parameters"].take());
        let types = |content: &Value| -> Vec<String> {
            content
                .as_object()
                .map(|content| content.keys().cloned().collect())
                .unwrap_or_default()
        };
        let schema = |content: &Value| {
            let first = content.as_object().and_then(|content| content.values().next());
            simplify(first.map(|content| content["schema"].clone()).unwrap_or_default())
        };
        let body = operation["requestBody"].take();
        if let (Some(content), Some(taken)) = (body.get("content"), taken.as_array_mut()) {
            let mut parameter = json!({"name": "body", "in": "body", "schema": schema(content)});
            if body["required"] == true {
                parameter["required"] = true.into();
            }
            operation["consumes"] = types(content).into();
            taken.insert(0, parameter);
        }
        if let Some(fields) = operation.as_object_mut() {
            fields.remove("requestBody");
        }
        operation["parameters"] = taken;
        operation["produces"] = types(&operation["responses"]["200"]["content"]).into();
        for answer in operation["responses"]
            .as_object_mut()
            .into_iter()
            .flat_map(Map::values_mut)
        {
            let content = answer.as_object_mut().and_then(|answer| answer.remove("content"));
            if let Some(content) = content {
                answer["schema"] = schema(&content);
            }
        }
        (method, operation)
    });
    Value::Object(older.collect())
}

/// Parameters, whose types stand in them.
fn parameters(parameters: Value) -> Value {
    let Value::Array(parameters) = parameters else {
        return json!([]);
    };
    let older = parameters.into_iter().map(|mut parameter| {
        if let (Some(Value::Object(schema)), Some(fields)) =
            (parameter.get_mut("schema").map(Value::take), parameter.as_object_mut())
        {
            fields.remove("schema");
            fields.extend(schema);
        }
        parameter
    });
    older.collect()
}
