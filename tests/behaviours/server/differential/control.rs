//! The same request without what the in-memory server does not look at, to see that nothing else was wrong.
//!
//! Where the real server refuses a spec, it does not say what it would have said of a good one. So it is asked: its answer
//! to the [`control`] must be the one that the in-memory server gave to the request itself.

use serde_json::Value;

use super::exempt::{causes, is_of_metadata};
use super::kinds::Kind;
use super::normal::Normal;
use super::probe::{Content, Probe};

/// The request with a good body of its kind around the same metadata: of an update, `stored` is the one that is there.
/// None where that is not known: of what is not JSON, and of patches that move things between the two.
pub(super) fn control(probe: &Probe, stored: Option<&Value>) -> Option<Probe> {
    let kind = Kind::of(probe.resource)?;
    let body = match &probe.body {
        Content::Json(body) => body.clone(),
        Content::Raw(bytes) => serde_json::from_slice(bytes).ok()?,
        Content::None => return None,
    };
    let body = match (probe.method, body) {
        ("POST" | "PUT", Value::Object(mut body)) => {
            let good = stored.cloned().unwrap_or_else(|| kind.object(""));
            body.retain(|key, _| is_of_all_kinds(key));
            for (key, value) in good.as_object()? {
                if !is_of_all_kinds(key) {
                    body.insert(key.clone(), value.clone());
                }
            }
            Value::Object(body)
        }
        ("PATCH", Value::Object(mut patch)) => {
            patch.retain(|key, _| is_of_all_kinds(key));
            Value::Object(patch)
        }
        ("PATCH", Value::Array(operations)) => {
            let of_all_kinds = |pointer: &str| pointer.split('/').nth(1).is_some_and(is_of_all_kinds);
            let mut kept = Vec::new();
            for operation in operations {
                let path = of_all_kinds(operation["path"].as_str()?);
                match operation["from"].as_str() {
                    Some(from) if of_all_kinds(from) != path => return None,
                    _ if path => kept.push(operation),
                    _ => {}
                }
            }
            kept.into()
        }
        _ => return None,
    };
    Some(Probe {
        body: Content::Json(body),
        ..probe.clone()
    })
}

fn is_of_all_kinds(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
}

/// Whether an answer may be that to the control as well: it says nothing of what that has not.
pub(super) fn is_about_metadata(answer: &Normal) -> bool {
    causes(answer).iter().all(is_of_metadata)
}

/// Whether an answer to a request is the one to its control. What is warned of, and whether the spec has changed, are not
/// the same.
pub(super) fn agree(answer: &Normal, of_control: &Normal) -> bool {
    if answer.code != of_control.code {
        return false;
    }
    if answer.code >= 300 {
        return answer.body == of_control.body;
    }
    let metadata = |answer: &Normal| {
        let mut metadata = answer.body["metadata"].clone();
        if let Some(members) = metadata.as_object_mut() {
            members.remove("generation");
            if let Some(managers) = members.get_mut("managedFields").and_then(Value::as_array_mut) {
                managers.retain_mut(owns_metadata);
            }
        }
        if let Some(annotations) = metadata["annotations"].as_object_mut() {
            // What counts changes of the spec.
            annotations.remove("deprecated.daemonset.template.generation");
        }
        metadata
    };
    metadata(answer) == metadata(of_control)
}

/// Leaves of what a manager owns what is of the metadata; tells whether that is anything.
fn owns_metadata(manager: &mut Value) -> bool {
    let Some(fields) = manager["fieldsV1"].as_object_mut() else {
        return true;
    };
    fields.retain(|field, _| field == "f:metadata");
    !fields.is_empty()
}
