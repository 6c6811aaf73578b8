//! What the schemas of custom resources do: recorded on a real server, replayed on both. [F17]
//!
//! The files of `schemas/` hold requests, each followed by the answer of the real server, two blanks further in: the code, and what
//! the answer holds beside the metadata of the object; of a refusal its text, or its causes in alphabetical order, since the
//! real server tells what it finds in a map in no order; then the warnings. What follows `…` in a recorded text is not compared.
//!
//! `=` begins again with a group of its own, which stands as `{group}` in texts. `version JSON` registers the kind `Widget` with a
//! version of these parts, `spec JSON` with a spec of them; again in the same group, it changes the definition. `DEFINE` and
//! `DEFINESPEC` only try. All other requests name an object, after its version if that is not `v1`.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::harness::{Answer, CustomKind, Namespace, Server, cases, eventually, unique};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const MERGE: &str = "application/merge-patch+json";

/// One recorded request.
struct Step<'a> {
    line: &'a str,
    expected: Vec<&'a str>,
}

fn steps(file: &str) -> Vec<Step<'_>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    for line in file.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match (line.strip_prefix("  "), steps.last_mut()) {
            (Some(expected), Some(step)) => step.expected.push(expected),
            _ => steps.push(Step {
                line,
                expected: Vec::new(),
            }),
        }
    }
    steps
}

/// One section of a file on a server.
struct Play {
    server: Server,
    namespace: Namespace,
    kind: CustomKind,
    is_defined: bool,
}

impl Play {
    async fn new(server: &Server) -> Play {
        Play {
            server: server.clone(),
            namespace: server.namespace().await,
            kind: CustomKind {
                group: format!("{}.example.com", unique()),
            },
            is_defined: false,
        }
    }

    /// The definition with these parts of its version or spec.
    fn definition(&self, of_spec: bool, parts: &str) -> Value {
        let parts: Value = serde_json::from_str(parts).unwrap_or_else(|e| panic!("{parts}: {e}"));
        let mut definition = CustomKind::definition(&self.kind.group);
        let place = if of_spec {
            &mut definition["spec"]
        } else {
            &mut definition["spec"]["versions"][0]
        };
        let parts = parts.as_object().expect("an object").clone();
        place.as_object_mut().expect("an object").extend(parts);
        definition
    }

    async fn define(&mut self, definition: &mut Value) {
        let path = format!("{DEFINITIONS}/widgets.{}", self.kind.group);
        if self.is_defined {
            let current = self.server.get(&path).await.ok();
            definition["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"].clone();
            self.server.put(&path, definition).await.ok();
        } else {
            self.server.post(DEFINITIONS, definition).await.created();
        }
        self.is_defined = true;
        self.kind.served(&self.server).await;
        eventually("the definition is established", || async {
            let conditions = self.server.get(&path).await.ok()["status"]["conditions"].clone();
            let is_true = |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
            conditions
                .as_array()
                .is_some_and(|all| all.iter().any(is_true))
                .then_some(())
        })
        .await;
    }

    /// Runs a line; what is answered, as it is recorded.
    async fn run(&mut self, line: &str) -> Vec<String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (command, query) = word.split_once('?').unwrap_or((word, ""));
        match command {
            "=" => Vec::new(),
            "version" | "spec" => {
                let mut definition = self.definition(command == "spec", rest);
                self.define(&mut definition).await;
                Vec::new()
            }
            "DEFINE" | "DEFINESPEC" => {
                let definition = self.definition(command == "DEFINESPEC", rest);
                let answer = self
                    .server
                    .post(&format!("{DEFINITIONS}?dryRun=All"), &definition)
                    .await;
                if answer.code < 300 {
                    return vec![answer.code.to_string()];
                }
                self.shown(&answer)
            }
            _ => self.request(command, query, rest).await,
        }
    }

    /// Sends a request about an object; what it answers, as it is recorded.
    async fn request(&self, command: &str, query: &str, rest: &str) -> Vec<String> {
        let (object, body) = rest.split_once(' ').unwrap_or((rest, ""));
        let (version, name) = object.split_once(':').unwrap_or(("v1", object));
        let version = format!("{}/{version}", self.kind.group);
        let at = |rest: &str| self.namespace.of(&version, &format!("widgets{rest}"));
        let query = if query.is_empty() {
            String::new()
        } else {
            format!("?{query}")
        };
        let whole = |resource_version: &Value| {
            let mut object: Value = serde_json::from_str(body).unwrap_or_else(|e| panic!("{rest}: {e}"));
            object["apiVersion"] = version.clone().into();
            object["kind"] = "Widget".into();
            object["metadata"]["name"] = name.into();
            if !resource_version.is_null() {
                object["metadata"]["resourceVersion"] = resource_version.clone();
            }
            object
        };
        let patch = async |content_type: &str, path: String| {
            let request = self.server.request("PATCH", &path);
            request.body(content_type, body).send().await
        };
        let answer = match command {
            "GET" => self.server.get(&at(&format!("/{name}"))).await,
            "POST" => self.server.post(&at(&query), &whole(&Value::Null)).await,
            "PUT" | "STATUS" => {
                let part = if command == "PUT" { "" } else { "/status" };
                let current = self.server.get(&at(&format!("/{name}"))).await.json();
                let object = whole(&current["metadata"]["resourceVersion"]);
                self.server.put(&at(&format!("/{name}{part}{query}")), &object).await
            }
            "MERGE" => patch(MERGE, at(&format!("/{name}{query}"))).await,
            "STATUSMERGE" => patch(MERGE, at(&format!("/{name}/status{query}"))).await,
            "JSON" => patch("application/json-patch+json", at(&format!("/{name}{query}"))).await,
            "APPLY" => {
                let more = if query.is_empty() {
                    "?".to_owned()
                } else {
                    format!("{query}&")
                };
                let path = at(&format!("/{name}{more}fieldManager=m&force=1"));
                let request = self.server.request("PATCH", &path);
                let body = whole(&Value::Null).to_string();
                request.body("application/apply-patch+yaml", body).send().await
            }
            "SCALE" => self.server.get(&at(&format!("/{name}/scale"))).await,
            "SCALEPUT" => {
                let mut scale: Value = serde_json::from_str(body).unwrap_or_else(|e| panic!("{rest}: {e}"));
                scale["apiVersion"] = "autoscaling/v1".into();
                scale["kind"] = "Scale".into();
                scale["metadata"] = json!({"name": name, "namespace": self.namespace.name()});
                self.server.put(&at(&format!("/{name}/scale{query}")), &scale).await
            }
            "SCALEMERGE" => patch(MERGE, at(&format!("/{name}/scale{query}"))).await,
            "DELETE" => self.server.delete(&at(&format!("/{name}{query}"))).await,
            "LIST" => {
                // A real server reads its storage anew when a definition changes, and says 429 meanwhile.
                let path = at(&format!("?{name}"));
                let answer = eventually("the list is served", || async {
                    let answer = self.server.get(&path).await;
                    (answer.code != 429).then_some(answer)
                })
                .await;
                if answer.code == 200 {
                    return vec![format!("200 {}", super::list_version::names(&answer.json()))];
                }
                answer
            }
            "TABLE" => return self.table(&at(&format!("/{name}"))).await,
            other => panic!("there is no request {other}"),
        };
        self.shown(&answer)
    }

    async fn table(&self, path: &str) -> Vec<String> {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let table = self
            .server
            .request("GET", path)
            .header("accept", accept)
            .send()
            .await
            .ok();
        let columns: Vec<Value> = table["columnDefinitions"]
            .as_array()
            .expect("columns")
            .iter()
            .map(|column| {
                ["name", "type", "format", "priority"]
                    .map(|part| column[part].clone())
                    .into()
            })
            .collect();
        vec![
            format!("200 {}", Value::from(columns)),
            format!("  {}", table["rows"][0]["cells"]),
        ]
    }

    /// An answer as it is recorded.
    fn shown(&self, answer: &Answer) -> Vec<String> {
        let mut shown = Vec::new();
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_else(|_| json!({"message": answer.text()}));
        let code = answer.code;
        let causes = body.pointer("/details/causes").and_then(Value::as_array);
        match causes {
            _ if code < 300 => {
                let mut object = body.as_object().cloned().unwrap_or_default();
                object.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
                shown.push(format!("{code} {}", Value::Object(object)));
            }
            Some(causes) if code == 422 => {
                shown.push("422".to_owned());
                let text = |cause: &Value, name: &str| cause[name].as_str().unwrap_or_default().to_owned();
                let mut causes: Vec<[String; 3]> = causes
                    .iter()
                    .map(|cause| ["reason", "field", "message"].map(|name| text(cause, name)))
                    .collect();
                causes.sort();
                shown.extend(causes.iter().map(|cause| format!("  {}", cause.join(" | "))));
            }
            _ => shown.push(format!("{code} {}", body["message"].as_str().unwrap_or_default())),
        }
        for warning in answer.headers.get_all("warning") {
            let text = warning.to_str().expect("a header of ASCII text");
            let inner = text.strip_prefix("299 - \"").and_then(|rest| rest.strip_suffix('"'));
            let inner = inner.unwrap_or(text).replace("\\\"", "\"").replace("\\\\", "\\");
            shown.push(format!("  warning: {inner}"));
        }
        let own = |line: &String| {
            let line = line
                .replace(&self.kind.group, "{group}")
                .replace(self.namespace.name(), "{ns}");
            line.replace('\n', "\\n")
        };
        shown.iter().map(own).collect()
    }
}

/// Whether an answer is the recorded one. Objects are compared as values, texts up to `…`.
fn agrees(found: &[String], expected: &[&str]) -> bool {
    let same = |(found, expected): (&String, &&str)| {
        if let Some((head, _)) = expected.split_once('…') {
            return found.starts_with(head);
        }
        let value = |line: &str| -> Option<(String, Value)> {
            let (code, json) = line.split_once(' ')?;
            Some((code.to_owned(), serde_json::from_str(json).ok()?))
        };
        found == expected || value(found).is_some() && value(found) == value(expected)
    };
    found.len() == expected.len() && found.iter().zip(expected).all(same)
}

async fn replay(server: Server, file: &str) {
    let steps = steps(file);
    assert!(steps.len() > 5, "a file without requests");
    let mut play = Play::new(&server).await;
    let (mut failed, mut shown) = (0, String::new());
    let mut section = "";
    for step in &steps {
        if step.line.starts_with("= ") {
            play = Play::new(&server).await;
            section = step.line;
        }
        let found = play.run(step.line).await;
        if !agrees(&found, &step.expected) {
            failed += 1;
            let indented = |lines: &[String]| lines.iter().flat_map(|line| ["      ", line, "\n"]).collect::<String>();
            let expected: Vec<String> = step.expected.iter().map(|line| (*line).to_owned()).collect();
            // To a string.
            let _ = write!(
                shown,
                "{section}\n  {}\n    expected\n{}    found\n{}",
                step.line,
                indented(&expected),
                indented(&found)
            );
        }
    }
    assert_eq!(failed, 0, "{failed} of {} answers differ:\n{shown}", steps.len());
}

// [F17] [F14] pruning, defaulting and validation of objects, whatever writes them
async fn objects_are_held_against_their_schema(server: Server) {
    replay(server, include_str!("schemas/objects.txt")).await;
}

// [F17] schemas that are no structural ones, and what else a schema may not be
async fn schemas_are_held_against_their_rules(server: Server) {
    replay(server, include_str!("schemas/definitions.txt")).await;
}

// [F17] [F3] [F4] scale, selectable fields, printer columns, versions, and definitions that change
async fn the_parts_of_definitions_work(server: Server) {
    replay(server, include_str!("schemas/parts.txt")).await;
}

// [F17] rules in the expression language
async fn rules_are_evaluated(server: Server) {
    replay(server, include_str!("schemas/rules.txt")).await;
}

cases![
    rules_are_evaluated,
    objects_are_held_against_their_schema,
    schemas_are_held_against_their_rules,
    the_parts_of_definitions_work,
];
