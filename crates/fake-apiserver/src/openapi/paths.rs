//! The operations of a group version: which there are, on which kind, with which parameters.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::custom;
use super::schemas::{self, DELETE_OPTIONS, Found, PATCH, STATUS, WATCH_EVENT};
use crate::kinds::{DeleteReturns, Resource, Subresource, Verb, Verbs};

/// A parameter of a query: its name and type.
type Parameter = (&'static str, &'static str);

const WRITE: [Parameter; 3] = [
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
];
const DELETE: [Parameter; 5] = [
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];
const LIST: [Parameter; 11] = [
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("shardSelector", "string"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];

/// Subresources that are connections, of which no document tells.
const CONNECTIONS: [&str; 4] = ["attach", "exec", "portforward", "proxy"];

/// The operations of the resources, whose schemas are added to those that are found.
pub(super) fn of(prefix: &str, resources: &[Arc<Resource>], found: &mut Found) -> Map<String, Value> {
    let mut paths = Map::new();
    for resource in resources {
        let place = if resource.namespaced() {
            "/namespaces/{namespace}"
        } else {
            ""
        };
        let collection = format!("/{prefix}{place}/{}", resource.plural);
        let object = format!("{collection}/{{name}}");
        let whole = Operations::new(resource, None);
        for name in whole.schema.iter().chain(&whole.list) {
            found.refer(name);
        }
        if whole.list.is_some() && !resource.custom {
            found.refer(WATCH_EVENT);
        }
        if resource.namespaced() && resource.verbs.contains(Verb::List) {
            let everywhere = Map::from_iter([("get".to_owned(), whole.list(Reach::Everywhere))]);
            paths.insert(
                format!("/{prefix}/{}", resource.plural),
                with_parameters(everywhere, &[]),
            );
        }
        let names: &[&str] = if resource.namespaced() { &["namespace"] } else { &[] };
        let operations = whole.of_collection();
        if !operations.is_empty() {
            paths.insert(collection, with_parameters(operations, names));
        }
        let names = [&["name"], names].concat();
        let operations = whole.of_object();
        if !operations.is_empty() {
            paths.insert(object.clone(), with_parameters(operations, &names));
        }
        let bodies = |sub: &&Subresource| !CONNECTIONS.contains(&&*sub.name);
        for sub in resource.subresources.iter().filter(bodies) {
            let part = Operations::new(resource, Some(sub));
            let operations = part.of_object();
            if !operations.is_empty() {
                paths.insert(format!("{object}/{}", sub.name), with_parameters(operations, &names));
            }
        }
    }
    found.refer_all(&paths);
    paths
}

/// The operations of a path with what all of them take: parts of the path, and how the answer is printed.
fn with_parameters(mut operations: Map<String, Value>, names: &[&str]) -> Value {
    let mut parameters: Vec<Value> = names
        .iter()
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "uniqueItems": true}}))
        .collect();
    parameters.extend(query(&[("pretty", "string")]));
    operations.insert("parameters".to_owned(), parameters.into());
    operations.into()
}

fn query(parameters: &[Parameter]) -> Vec<Value> {
    parameters
        .iter()
        .map(|(name, kind)| json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}}))
        .collect()
}

/// Whether a list is of one namespace.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Collection,
    Everywhere,
}

/// The operations of a resource or of a subresource.
struct Operations<'a> {
    resource: &'a Resource,
    verbs: Verbs,
    /// Follows the kind in the ids of operations.
    suffix: String,
    kind: Value,
    /// The schema of its body; none that is known of a log or a connection.
    schema: Option<String>,
    list: Option<String>,
}

impl<'a> Operations<'a> {
    fn new(resource: &'a Resource, sub: Option<&Subresource>) -> Self {
        let (mut group, mut version) = (&*resource.group, &*resource.version);
        let mut kind = &*resource.kind;
        if let Some(sub) = sub {
            kind = &sub.kind;
            if !sub.version.is_empty() {
                (group, version) = (&sub.group, &sub.version);
            }
        }
        let own = resource.custom && kind == resource.kind;
        let schema = if own {
            Some(custom::name(resource))
        } else {
            schemas::name_of(group, version, kind).map(str::to_owned)
        };
        let list = if resource.custom {
            custom::list_name(resource)
        } else {
            format!("{}List", schema.as_deref().unwrap_or_default())
        };
        // A log is a text, and a custom resource is scaled as what it is.
        let schema = schema.filter(|_| sub.is_none_or(|sub| sub.name != "log"));
        if resource.custom {
            (group, version, kind) = (&resource.group, &resource.version, &resource.kind);
        }
        let lists = sub.is_none() && resource.verbs.contains(Verb::List);
        Self {
            resource,
            verbs: sub.map_or(resource.verbs, |sub| sub.verbs),
            suffix: sub.map_or_else(String::new, |sub| capital(&sub.name)),
            kind: json!({"group": group, "version": version, "kind": kind}),
            schema,
            list: lists.then_some(list),
        }
    }

    fn of_collection(&self) -> Map<String, Value> {
        let mut operations = Map::new();
        if self.list.is_some() {
            operations.insert("get".to_owned(), self.list(Reach::Collection));
        }
        if self.verbs.contains(Verb::Create) {
            operations.insert("post".to_owned(), self.create());
        }
        if self.verbs.contains(Verb::DeleteCollection) {
            let mut parameters = [&LIST[..], &DELETE].concat();
            parameters.retain(|(name, _)| !matches!(*name, "allowWatchBookmarks" | "watch"));
            parameters.sort_unstable();
            let operation = if self.resource.custom {
                self.operation("deletecollection", "delete", "Collection", &LIST)
            } else {
                self.operation("deletecollection", "delete", "Collection", &parameters)
                    .body(&self.bodies(DELETE_OPTIONS), false)
            };
            let operation = operation.answers(&[200], &self.contents(STATUS));
            operations.insert("delete".to_owned(), operation.0);
        }
        operations
    }

    fn of_object(&self) -> Map<String, Value> {
        let mut operations = Map::new();
        let schema = self.schema.as_deref().unwrap_or_default();
        let contents = self.contents(schema);
        if self.verbs.contains(Verb::Get) {
            let parameters: &[Parameter] = if self.resource.custom {
                &[("resourceVersion", "string")]
            } else {
                &[]
            };
            let operation = self.operation("get", "read", "", parameters);
            operations.insert("get".to_owned(), operation.answers(&[200], &contents).0);
        }
        if self.verbs.contains(Verb::Update) {
            let operation = self.operation("put", "replace", "", &WRITE);
            let operation = operation.body(&self.bodies(schema), true);
            operations.insert("put".to_owned(), operation.answers(&[200, 201], &contents).0);
        }
        // A subresource that is created is at the path of its object.
        if !self.suffix.is_empty() && self.verbs.contains(Verb::Create) {
            operations.insert("post".to_owned(), self.create());
        }
        if self.verbs.contains(Verb::Delete) {
            let operation = self.operation("delete", "delete", "", &DELETE);
            let operation = operation.body(&self.bodies(DELETE_OPTIONS), false);
            let answer = match self.resource.policy.delete_returns {
                DeleteReturns::Status => STATUS,
                DeleteReturns::Object => schema,
            };
            let operation = operation.answers(&[200, 202], &self.contents(answer));
            operations.insert("delete".to_owned(), operation.0);
        }
        if self.verbs.contains(Verb::Patch) {
            let parameters = [&WRITE[..], &[("force", "boolean")]].concat();
            let mut types = vec![
                "application/apply-patch+yaml",
                "application/json-patch+json",
                "application/merge-patch+json",
            ];
            if !self.resource.custom {
                types.push("application/strategic-merge-patch+json");
            }
            let codes: &[u16] = if self.resource.custom { &[200] } else { &[200, 201] };
            let operation = self.operation("patch", "patch", "", &parameters);
            let operation = operation.body(&content(&types, PATCH), true);
            operations.insert("patch".to_owned(), operation.answers(codes, &contents).0);
        }
        operations
    }

    fn create(&self) -> Value {
        let schema = self.schema.as_deref().unwrap_or_default();
        let operation = self.operation("post", "create", "", &WRITE);
        let operation = operation.body(&self.bodies(schema), true);
        operation.answers(&[200, 201, 202], &self.contents(schema)).0
    }

    fn list(&self, reach: Reach) -> Value {
        let list = self.list.as_deref().unwrap_or_default();
        let types: &[&str] = if self.resource.custom {
            &["application/json", "application/yaml"]
        } else {
            &[
                "application/json",
                "application/json;stream=watch",
                "application/vnd.kubernetes.protobuf",
                "application/vnd.kubernetes.protobuf;stream=watch",
                "application/yaml",
            ]
        };
        let mut operation = self.operation("list", "list", "", &LIST);
        if reach == Reach::Everywhere {
            let id = format!("list{}{}ForAllNamespaces", self.group_version(), self.resource.kind);
            operation.0["operationId"] = id.into();
        }
        operation.answers(&[200], &content(types, list)).0
    }

    fn operation(&self, action: &str, verb: &str, what: &str, parameters: &[Parameter]) -> Operation {
        let resource = self.resource;
        let scope = if resource.namespaced() { "Namespaced" } else { "" };
        let id = format!(
            "{verb}{}{what}{scope}{}{}",
            self.group_version(),
            resource.kind,
            self.suffix
        );
        let mut operation = json!({
            "tags": [format!("{}_{}", group_id(&resource.group), resource.version)],
            "operationId": id,
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": self.kind,
        });
        if !parameters.is_empty() {
            operation["parameters"] = query(parameters).into();
        }
        Operation(operation)
    }

    fn group_version(&self) -> String {
        let group = capital(&group_id(&self.resource.group));
        format!("{group}{}", capital(&self.resource.version))
    }

    /// What a request may have as its body.
    fn bodies(&self, schema: &str) -> Value {
        if self.resource.custom {
            content(&["application/json", "application/yaml"], schema)
        } else {
            content(&["*/*"], schema)
        }
    }

    /// What an answer may be.
    fn contents(&self, schema: &str) -> Value {
        if self.resource.custom {
            content(&["application/json", "application/yaml"], schema)
        } else {
            let protobuf = "application/vnd.kubernetes.protobuf";
            content(&["application/json", protobuf, "application/yaml"], schema)
        }
    }
}

/// An operation in the making.
struct Operation(Value);

impl Operation {
    fn body(mut self, content: &Value, required: bool) -> Self {
        let mut body = json!({"content": content});
        if required {
            body["required"] = true.into();
        }
        self.0["requestBody"] = body;
        self
    }

    fn answers(mut self, codes: &[u16], content: &Value) -> Self {
        let mut answers = Map::new();
        for code in codes {
            let what = if *code == 200 {
                "OK"
            } else if *code == 201 {
                "Created"
            } else {
                "Accepted"
            };
            answers.insert(code.to_string(), json!({"description": what, "content": content}));
        }
        answers.insert("401".to_owned(), json!({"description": "Unauthorized"}));
        self.0["responses"] = answers.into();
        self
    }
}

/// A schema in each of the types; a text where none is known.
fn content(types: &[&str], schema: &str) -> Value {
    let schema = if schema.is_empty() {
        json!({"type": "string"})
    } else {
        schemas::reference(schema)
    };
    let of = |media_type: &&str| ((*media_type).to_owned(), json!({"schema": schema}));
    Value::Object(types.iter().map(of).collect())
}

/// The name of a group in ids: `core`, `apps`, `rbacAuthorization`, `shopExampleCom`.
fn group_id(group: &str) -> String {
    if group.is_empty() {
        return "core".to_owned();
    }
    let short = group.strip_suffix(".k8s.io").unwrap_or(group);
    let mut parts = short.split('.');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |id, part| id + &capital(part))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + letters.as_str()
    })
}
