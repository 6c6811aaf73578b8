//! Server-side apply. [F11]
//!
//! `managedFields` are compared with [`owners`], which leaves out their order and times: the order depends on the second in
//! which an entry was written.

mod built_in;
mod custom;
mod migration;
mod options;
mod ownership;
mod status;
mod updates;

use serde_json::{Map, Value, json};

use crate::harness::{Answer, Server};

const TYPE: &str = "application/apply-patch+yaml";

/// Applies as a manager.
pub(super) async fn apply(server: &Server, path: &str, manager: &str, body: &Value) -> Answer {
    apply_with(server, path, manager, "", body).await
}

/// Applies as a manager, with more parameters (`&force=true`).
pub(super) async fn apply_with(server: &Server, path: &str, manager: &str, more: &str, body: &Value) -> Answer {
    server
        .patch(TYPE, &format!("{path}?fieldManager={manager}{more}"), body)
        .await
}

/// A config map as a manager wants it.
fn map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// The fields of each manager, by operation, manager, version and subresource.
#[track_caller]
pub(super) fn owners(object: &Value) -> Value {
    let entries = object["metadata"]["managedFields"].as_array();
    let mut owners = Map::new();
    for entry in entries.into_iter().flatten() {
        assert_eq!(entry["fieldsType"], "FieldsV1", "{entry}");
        let text = |name: &str| entry[name].as_str().unwrap_or_default();
        let key = ["operation", "manager", "apiVersion", "subresource"]
            .map(text)
            .join(" ");
        let fields = entry["fieldsV1"].clone();
        assert!(owners.insert(key.trim_end().to_owned(), fields).is_none(), "{object}");
    }
    Value::Object(owners)
}

/// Asserts the 409 about these conflicts: manager as the text names it, and path.
#[track_caller]
pub(super) fn conflicts(answer: &Answer, conflicts: &[(&str, &str)]) {
    let message = if let [(manager, path)] = conflicts {
        format!("Apply failed with 1 conflict: conflict with {manager}: {path}")
    } else {
        let mut text = format!("Apply failed with {} conflicts: ", conflicts.len());
        let mut lines = Vec::new();
        for (at, (manager, path)) in conflicts.iter().enumerate() {
            if at == 0 || conflicts[at - 1].0 != *manager {
                lines.push(format!("conflicts with {manager}:"));
            }
            lines.push(format!("- {path}"));
        }
        text += &lines.join("\n");
        text
    };
    let causes: Vec<Value> = conflicts
        .iter()
        .map(|(manager, path)| {
            json!({"reason": "FieldManagerConflict", "message": format!("conflict with {manager}"), "field": path})
        })
        .collect();
    answer.is(409, "Conflict", &message, json!({"causes": causes}));
}
