//! What only a node can answer: logs of containers, commands in them, their ports. There are no containers here, so that these
//! end with a refusal; what a real server says before it asks the node is said.

use serde_json::Value;

use super::options::number;
use super::{Context, bodies, not_implemented};
use crate::answer::Answer;
use crate::status::{Cause, Status, Subject};

/// A request for `log`, `exec`, `attach` or `portforward` of a pod.
///
/// # Errors
/// 400, 404, 422, and 501 where a real server would ask the node.
pub(super) fn stream(context: Context<'_>, name: &str) -> Result<Answer, Status> {
    let query = &context.request.query;
    if name == "log" {
        check_log_options(context)?;
    }
    let pod = context.server.storage.get(context.id, &context.key());
    let pod = pod.ok_or_else(|| context.absent())?.object.object();
    let spec = bodies::field(&pod, "spec");
    if name != "portforward" {
        check_container(context, &spec, query.get("container").unwrap_or_default())?;
    }
    let node = spec["nodeName"].as_str().unwrap_or_default();
    if node.is_empty() {
        if name == "log" {
            return Ok(Answer::nothing(204));
        }
        let text = format!("pod {} does not have a host assigned", context.name());
        return Err(Status::bad_request(text));
    }
    let kinds = context.server.registry.snapshot();
    let nodes = kinds.resource("", "v1", "nodes");
    let id = nodes.and_then(|nodes| context.server.resource_id(nodes));
    if id.and_then(|id| context.server.storage.get(id, node)).is_none() {
        // The real server takes the name of the node for one of a pod.
        return Err(Status::not_found(context.subject(), node));
    }
    Err(not_implemented(&format!("pods/{name}: its pods have no containers")))
}

fn check_log_options(context: Context<'_>) -> Result<(), Status> {
    let query = &context.request.query;
    let mut causes = Vec::new();
    let limits = [
        ("tailLines", 0, "must be greater than or equal to 0"),
        ("limitBytes", 1, "must be greater than 0"),
        ("sinceSeconds", 1, "must be greater than 0"),
    ];
    for (option, least, text) in limits {
        if let Some(value) = number(query, option)?.filter(|value| *value < least) {
            let text = format!("Invalid value: {value}: {text}");
            causes.push(Cause::new("FieldValueInvalid", text, option));
        }
    }
    if causes.is_empty() {
        return Ok(());
    }
    let subject = Subject {
        group: "",
        plural: "",
        kind: "PodLogOptions",
    };
    Err(Status::invalid(subject, context.name(), causes))
}

/// A container has to be named if there are several.
fn check_container(context: Context<'_>, spec: &Value, wanted: &str) -> Result<(), Status> {
    let names = |list: &str| -> Vec<String> {
        let containers = spec[list].as_array().into_iter().flatten();
        let names = containers.filter_map(|container| container["name"].as_str());
        names.map(str::to_owned).collect()
    };
    let (main, before, debug) = (
        names("containers"),
        names("initContainers"),
        names("ephemeralContainers"),
    );
    let pod = context.name();
    if wanted.is_empty() {
        if main.len() == 1 {
            return Ok(());
        }
        let mut text = format!(
            "a container name must be specified for pod {pod}, choose one of: [{}]",
            main.join(" ")
        );
        if !before.is_empty() {
            text += " or one of the init containers: [";
            text += &before.join(" ");
            text.push(']');
        }
        return Err(Status::bad_request(text));
    }
    if [main, before, debug].concat().iter().any(|name| name == wanted) {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "container {wanted} is not valid for pod {pod}"
    )))
}
