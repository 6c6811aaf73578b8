//! From the schema of a custom resource definition to the types of its objects.

use serde_json::Value;

use super::{Atom, DEDUCED, Field, List, Map, OBJECT_META, Ref, Scalar, Schema, TEXT, UNTYPED, built_in};
use crate::structured::Literal;

/// Schemas nested deeper than this are taken as types that are not known: reading recurses.
const MAX_DEPTH: usize = 128;

/// The types of one version, from its `openAPIV3Schema` if it has one.
pub(crate) fn of_definition(schema: Option<&Value>) -> Schema {
    let Some(schema) = schema.filter(|schema| schema.is_object()) else {
        return Schema::deduced();
    };
    let mut reader = Reader { atoms: Vec::new() };
    let root = reader.read(schema, false, Some(Embedded::Root), 0);
    Schema {
        atoms: reader.atoms,
        root,
    }
}

/// Whether a value is an object with type and metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Embedded {
    Root,
    Inside,
}

struct Reader {
    atoms: Vec<Atom>,
}

impl Reader {
    fn read(&mut self, schema: &Value, preserves: bool, embedded: Option<Embedded>, depth: usize) -> Ref {
        if depth > MAX_DEPTH {
            return built_in(DEDUCED);
        }
        let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or(false);
        let preserves = preserves || flag("x-kubernetes-preserve-unknown-fields");
        let embedded = embedded.or_else(|| flag("x-kubernetes-embedded-resource").then_some(Embedded::Inside));
        let scalar = |scalar: Scalar| Atom {
            scalar: Some(scalar),
            ..Atom::default()
        };
        let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
        let atom = match schema.get("type").and_then(Value::as_str).unwrap_or_default() {
            "object" => Atom {
                map: Some(self.map(schema, preserves, embedded, depth)),
                ..Atom::default()
            },
            "array" => Atom {
                list: Some(self.list(schema, preserves, depth)),
                ..Atom::default()
            },
            "integer" | "number" => scalar(Scalar::Numeric),
            "boolean" => scalar(Scalar::Boolean),
            "string" if matches!(format, "" | "byte") => scalar(Scalar::Text),
            "string" => scalar(Scalar::Untyped),
            // Any value: what preserves unknown fields, and integers or strings.
            _ => Atom {
                scalar: Some(Scalar::Untyped),
                list: Some(self.list(schema, preserves, depth)),
                map: Some(self.map(schema, preserves, embedded, depth)),
            },
        };
        self.add(atom)
    }

    fn add(&mut self, atom: Atom) -> Ref {
        let at = u32::try_from(self.atoms.len()).unwrap_or(u32::MAX);
        self.atoms.push(atom);
        Ref {
            place: super::Place::Own(at),
            atomic: None,
        }
    }

    fn map(&mut self, schema: &Value, preserves: bool, embedded: Option<Embedded>, depth: usize) -> Map {
        let mut fields: Vec<Field> = Vec::new();
        for (name, property) in schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let of = self.read(property, preserves, None, depth + 1);
            let default = property.get("default").and_then(literal);
            fields.push(Field {
                name: name.clone().into(),
                of,
                default,
            });
        }
        if embedded.is_some() {
            for (name, of) in [("apiVersion", TEXT), ("kind", TEXT), ("metadata", OBJECT_META)] {
                fields.retain(|field| field.name != name);
                fields.push(Field {
                    name: name.into(),
                    of: built_in(of),
                    default: None,
                });
            }
        }
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        let element = match schema.get("additionalProperties") {
            Some(Value::Bool(true)) => Some(built_in(DEDUCED)),
            Some(values @ Value::Object(_)) => Some(self.read(values, preserves, None, depth + 1)),
            Some(Value::Bool(false)) => None,
            // A struct allows what it declares, an object without declarations all.
            _ => (preserves || fields.is_empty()).then(|| built_in(DEDUCED)),
        };
        Map {
            atomic: schema.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic"),
            fields: fields.into(),
            element,
        }
    }

    fn list(&mut self, schema: &Value, preserves: bool, depth: usize) -> List {
        let element = match schema.get("items").filter(|items| items.is_object()) {
            Some(items) => self.read(items, preserves, None, depth + 1),
            None => built_in(UNTYPED),
        };
        let keys = || -> Vec<_> {
            let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            let keys = keys.into_iter().flatten().filter_map(Value::as_str);
            keys.map(|key| key.to_owned().into()).collect()
        };
        let (atomic, keys) = match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
            Some("set") => (false, Vec::new()),
            Some("map") => (false, keys()),
            _ => (true, Vec::new()),
        };
        List {
            atomic,
            keys: keys.into(),
            element,
        }
    }
}

/// A default of a key field; others are not asked for.
fn literal(value: &Value) -> Option<Literal<'static>> {
    Some(match value {
        Value::Bool(value) => Literal::Bool(*value),
        Value::String(text) => Literal::Text(text.clone().into()),
        Value::Number(number) => match number.as_i64() {
            Some(value) => Literal::Int(value),
            None => Literal::Float(number.as_f64()?),
        },
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_says_how_lists_and_maps_are_owned() {
        // [F11]
        let schema = of_definition(Some(&json!({
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "atomic": {"type": "object", "x-kubernetes-map-type": "atomic"},
                        "list": {"type": "array", "items": {"type": "string"}},
                        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                        "map": {
                            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                            "items": {"type": "object", "properties": {"k": {"type": "string", "default": "d"}}},
                        },
                        "port": {"x-kubernetes-int-or-string": true},
                        "object": {"type": "object", "x-kubernetes-embedded-resource": true,
                                   "x-kubernetes-preserve-unknown-fields": true},
                    },
                },
            },
        })));
        let root = schema.root().map().unwrap();
        assert!(
            root.declared("metadata")
                .unwrap()
                .map()
                .unwrap()
                .declared("labels")
                .is_some()
        );
        assert!(root.entry("other").is_none());
        let spec = root.declared("spec").unwrap().map().unwrap();
        let list = |name: &str| spec.declared(name).unwrap().list().unwrap();
        assert!(spec.declared("atomic").unwrap().map().unwrap().atomic);
        assert!(list("list").atomic());
        assert!(!list("set").atomic() && list("set").keys().is_empty());
        assert_eq!(list("map").keys(), ["k"]);
        assert_eq!(list("map").default_of("k"), Some(&Literal::Text("d".into())));
        assert!(spec.declared("port").unwrap().atom.scalar == Some(Scalar::Untyped));
        let object = spec.declared("object").unwrap().map().unwrap();
        assert!(object.declared("metadata").is_some() && object.entry("any").is_some());
    }

    #[test]
    fn a_version_without_a_schema_is_deduced() {
        // [F11]
        assert!(of_definition(None).root().map().unwrap().is_untyped());
        assert!(
            of_definition(Some(&json!({"type": "object"})))
                .root()
                .map()
                .unwrap()
                .entry("x")
                .is_none()
        );
        let open = of_definition(Some(
            &json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        ));
        assert!(open.root().map().unwrap().entry("x").is_some());
    }
}
