//! The schemas of the built-in kinds, and those that a document refers to.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::kinds::{Resource, api_version};

/// The schemas by name, as the data has them.
static SCHEMAS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let text = include_str!("../../data/kubernetes-1.37-schemas.json");
    serde_json::from_str(text).expect("the data is an object of schemas, which a test reads")
});

/// The names of the schemas of kinds, by `group/version` and kind.
static KINDS: LazyLock<HashMap<(String, String), &'static str>> = LazyLock::new(|| {
    let mut kinds = HashMap::new();
    for (name, schema) in &*SCHEMAS {
        for kind in schema["x-kubernetes-group-version-kind"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let text = |field: &str| kind[field].as_str().unwrap_or_default();
            let place = (api_version(text("group"), text("version")), text("kind").to_owned());
            kinds.insert(place, name.as_str());
        }
    }
    kinds
});

pub(super) const PREFIX: &str = "#/components/schemas/";
pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
pub(super) const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
pub(super) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
pub(super) const WATCH_EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";
const GROUP_VERSION_KIND: &str = "x-kubernetes-group-version-kind";

/// The name of the schema of a built-in kind.
pub(super) fn name_of(group: &str, version: &str, kind: &str) -> Option<&'static str> {
    KINDS.get(&(api_version(group, version), kind.to_owned())).copied()
}

/// The kind in the form of an extension.
pub(super) fn group_version_kind(resource: &Resource, kind: &str) -> Value {
    json!({"group": resource.group, "version": resource.version, "kind": kind})
}

/// The schemas that a document needs: those that are added, and all that these refer to.
#[derive(Debug)]
pub(super) struct Found(Map<String, Value>);

impl Found {
    pub(super) fn new() -> Self {
        Self(Map::new())
    }

    /// Adds a schema, and what it refers to.
    pub(super) fn add(&mut self, name: String, schema: Value) {
        let mut names = Vec::new();
        referred(&schema, &mut names);
        self.0.insert(name, schema);
        for name in names {
            self.refer(&name);
        }
    }

    /// Adds the schema of a built-in type, and what it refers to, unless it is there.
    pub(super) fn refer(&mut self, name: &str) {
        if !self.0.contains_key(name)
            && let Some(schema) = SCHEMAS.get(name)
        {
            self.add(name.to_owned(), schema.clone());
        }
    }

    /// Adds the schemas of built-in types that operations refer to.
    pub(super) fn refer_all(&mut self, paths: &Map<String, Value>) {
        let mut names = Vec::new();
        paths.values().for_each(|path| referred(path, &mut names));
        for name in &names {
            self.refer(name);
        }
    }

    /// The schemas of the document of a group version, which says of two types that they are kinds of it too.
    pub(super) fn into_schemas(mut self, (group, version): (&str, &str)) -> Map<String, Value> {
        for (name, kind) in [(DELETE_OPTIONS, "DeleteOptions"), (WATCH_EVENT, "WatchEvent")] {
            let Some(schema) = self.0.get_mut(name) else { continue };
            let mut kinds = vec![json!({"group": "", "version": "v1", "kind": kind})];
            if !group.is_empty() {
                kinds.push(json!({"group": group, "version": version, "kind": kind}));
            }
            schema[GROUP_VERSION_KIND] = kinds.into();
        }
        self.0
    }
}

/// Collects the names that a schema refers to.
fn referred(schema: &Value, names: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            for (field, value) in fields {
                match value.as_str().and_then(|text| text.strip_prefix(PREFIX)) {
                    Some(name) if field == "$ref" => names.push(name.to_owned()),
                    _ => referred(value, names),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| referred(item, names)),
        _ => {}
    }
}

/// A reference to a schema.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("{PREFIX}{name}")})
}
