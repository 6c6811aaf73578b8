//! What is posted to pods and is no pod: a binding to a node, an eviction.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::delete::{self, delete_one};
use super::update::{self, Part};
use super::write::{self, WriteOptions};
use super::{Context, bodies};
use crate::answer::Answer;
use crate::clock::time_text;
use crate::codec::{ContentType, DeleteOptions, FieldValidation, Preconditions, decode, decode_delete_options};
use crate::gotext::go_quote;
use crate::kinds::Resource;
use crate::object::{Object, TypeMeta, write_output};
use crate::request::Request;
use crate::selector::selects;
use crate::status::{Cause, Status, Subject};
use crate::storage::{Change, ListQuery, Outcome, Range, ResourceId, Versioned};
use crate::stored::{Stored, key_of, split_key};

/// What a condition of a pod is about that is written here.
#[derive(Clone, Copy)]
struct Condition {
    kind: &'static str,
    reason: &'static str,
    message: &'static str,
}

/// A pod has got a node.
const SCHEDULED: Condition = Condition {
    kind: "PodScheduled",
    reason: "",
    message: "",
};

/// A pod is being evicted.
const DISRUPTED: Condition = Condition {
    kind: "DisruptionTarget",
    reason: "EvictionByEvictionAPI",
    message: "Eviction API: evicting",
};

/// How many pods may be on their way out before a budget allows no more.
const MOST_DISRUPTED: usize = 2000;

/// `POST` to `pods/NAME/binding`, and to `bindings`, where the binding names the pod.
///
/// # Errors
/// 400, 404, 406, 409, 413, 415, 422, and 500 for a target that is no node.
pub(super) fn bind(context: Context<'_>) -> Result<Answer, Status> {
    let kinds = context.server.registry.snapshot();
    let (Some(pods), Some(binding)) = (kinds.resource("", "v1", "pods"), kinds.resource("", "v1", "bindings")) else {
        return Err(Status::unknown_resource());
    };
    let pods_id = context.server.resource_id(pods).ok_or_else(Status::unknown_resource)?;
    let body = bodies::read(context, binding)?;
    let of_pods = Context {
        resource: pods,
        id: pods_id,
        ..context
    };
    let bound = bind_as(of_pods, body.options, &body.object);
    write::warned(bound.map(|()| Status::success(201).into()), &body.warnings)
}

fn bind_as(context: Context<'_>, options: WriteOptions, binding: &Object) -> Result<(), Status> {
    let meta = &binding.meta;
    bodies::check_namespace(context, binding)?;
    if context.path.name.is_none() && meta.name.is_empty() {
        return Err(Status::bad_request("Name parameter required."));
    }
    if context.path.name.as_ref().is_some_and(|name| *name != meta.name) {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    let target = bodies::field(binding, "target");
    let node = target["name"].as_str().unwrap_or_default();
    check_target(target["kind"].as_str().unwrap_or_default(), node)?;
    let name = meta.name.as_str();
    let key = key_of(context.namespace(), name);
    let now = time_text(context.server.clock.now());
    context.server.storage.update(context.id, &key, |old| {
        let old = old.ok_or_else(|| context.absent_as(name))?;
        let mut pod = old.object.object();
        check_preconditions(context, name, binding, old, &pod)?;
        check_unbound(&pod, name)?;
        for (key, value) in meta.annotations.iter() {
            pod.meta.annotations.insert(key, value);
        }
        for (key, value) in meta.labels.iter() {
            pod.meta.labels.insert(key, value);
        }
        edit(context.resource, &mut pod, |fields| {
            if let Some(spec) = object_in(fields, "spec") {
                spec.insert("nodeName".to_owned(), node.into());
            }
            if let Some(status) = object_in(fields, "status") {
                status.remove("nominatedNodeName");
                set_condition(status, SCHEDULED, &now);
            }
        });
        Ok(if options.dry_run {
            Change::Keep
        } else {
            Change::Put(Arc::new(Stored::of(context.resource, &pod)))
        })
    })?;
    Ok(())
}

/// A binding is to a node, which needs a name. What is wrong has no type on a real server.
fn check_target(kind: &str, name: &str) -> Result<(), Status> {
    let mut errors = Vec::new();
    if !matches!(kind, "" | "Node") {
        errors.push(format!(
            "target.kind: Unsupported value: {}: supported values: \"Node\", \"<empty>\"",
            go_quote(kind)
        ));
    }
    if name.is_empty() {
        errors.push("target.name: Required value".to_owned());
    }
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(Status::untyped(one.clone())),
        many => Err(Status::untyped(format!("[{}]", many.join(", ")))),
    }
}

fn check_preconditions(
    context: Context<'_>,
    name: &str,
    binding: &Object,
    old: &Versioned<Stored>,
    pod: &Object,
) -> Result<(), Status> {
    let (uid, version) = (&binding.meta.uid, &binding.meta.resource_version);
    let actual = old.rv.to_string();
    let what = if !uid.is_empty() && *uid != pod.meta.uid {
        format!("UID in precondition: {uid}, UID in object meta: {}", pod.meta.uid)
    } else if !version.is_empty() && *version != actual {
        format!("ResourceVersion in precondition: {version}, ResourceVersion in object meta: {actual}")
    } else {
        return Ok(());
    };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {}/{}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what}",
        context.resource.storage.0,
        key_of(context.namespace(), name),
    );
    Err(Status::conflict(context.subject(), name, &why))
}

/// A pod gets a node once, while it lives and nothing holds it back.
fn check_unbound(pod: &Object, name: &str) -> Result<(), Status> {
    let spec = bodies::field(pod, "spec");
    let node = spec["nodeName"].as_str().unwrap_or_default();
    let why = if pod.meta.deletion_timestamp.is_some() {
        format!("pod {name} is being deleted, cannot be assigned to a host")
    } else if !node.is_empty() {
        format!("pod {name} is already assigned to node {}", go_quote(node))
    } else if spec["schedulingGates"]
        .as_array()
        .is_some_and(|gates| !gates.is_empty())
    {
        format!("pod {name} has non-empty .spec.schedulingGates")
    } else {
        return Ok(());
    };
    let bindings = Subject {
        group: "",
        plural: "pods/binding",
        kind: "Binding",
    };
    Err(Status::conflict(bindings, name, &why))
}

/// `POST` to `pods/NAME/eviction`.
///
/// # Errors
/// 400, 404, 406, 409, 413, 415, 422; 429 if a disruption budget does not allow it, 500 if there are several.
pub(super) fn evict(context: Context<'_>) -> Result<Answer, Status> {
    let eviction = bodies::kind("policy", "v1", "Eviction")?;
    let body = bodies::read(context, &eviction)?;
    let evicted = evict_as(context, body.options, &body.object);
    write::warned(evicted.map(|()| Status::success(201).into()), &body.warnings)
}

fn evict_as(context: Context<'_>, options: WriteOptions, eviction: &Object) -> Result<(), Status> {
    bodies::check_namespace(context, eviction)?;
    let name = context.name();
    if eviction.meta.name != name {
        return Err(Status::bad_request(
            "name in URL does not match name in Eviction object",
        ));
    }
    let mut delete = match eviction.field("deleteOptions") {
        Some(bytes) => decode_delete_options(ContentType::Json, bytes).map_err(|error| write::decode_status(&error))?,
        None => DeleteOptions::default(),
    };
    if options.dry_run && delete.dry_run.is_empty() {
        delete.dry_run = vec!["All".to_owned()];
    }
    let pod = context.server.storage.get(context.id, &context.key());
    let pod = pod.ok_or_else(|| context.absent())?;
    let object = pod.object.object();
    if !ignores_budgets(&object) {
        spend_budget(context, &object, !delete.dry_run.is_empty())?;
    }
    condemn_and_delete(context, delete)
}

/// Whether nothing that a budget protects is lost with the pod.
fn ignores_budgets(pod: &Object) -> bool {
    let status = bodies::field(pod, "status");
    let phase = status["phase"].as_str().unwrap_or_default();
    pod.meta.deletion_timestamp.is_some() || matches!(phase, "Succeeded" | "Failed" | "Pending")
}

/// Asks the budget of a pod, if it has one, and counts the disruption.
fn spend_budget(context: Context<'_>, pod: &Object, dry_run: bool) -> Result<(), Status> {
    let kinds = context.server.registry.snapshot();
    let Some(resource) = kinds.resource("policy", "v1", "poddisruptionbudgets") else {
        return Ok(());
    };
    let id = context
        .server
        .resource_id(resource)
        .ok_or_else(Status::unknown_resource)?;
    // A budget that changes meanwhile is asked again.
    loop {
        let query = ListQuery {
            range: Range::Namespace(pod.meta.namespace.clone()),
            after: None,
            at: None,
            limit: 0,
            filter: &|_, stored: &Stored| {
                let spec = bodies::field(&stored.object(), "spec");
                selects(&spec["selector"], |key| pod.meta.labels.get(key))
            },
        };
        let (page, _) = context.server.storage.snapshot(id, &query);
        let (key, version) = match page.items.as_slice() {
            [] => return Ok(()),
            [one] => one,
            _ => {
                return Err(Status::untyped(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
        };
        let budget = version.object.object();
        let status = bodies::field(&budget, "status");
        if !is_ready(pod) && may_lose_unready(&bodies::field(&budget, "spec"), &status) {
            return Ok(());
        }
        check_budget(&budget, &status)?;
        if dry_run {
            return Ok(());
        }
        let changed = disrupted(context, resource, version, &pod.meta.name);
        let (namespace, name) = split_key(key);
        let path = format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/{name}/status");
        match put_status(context, resource, id, &path, &changed) {
            Err(status) if status.reason == "Conflict" => {}
            result => return result,
        }
    }
}

fn is_ready(pod: &Object) -> bool {
    let status = bodies::field(pod, "status");
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Whether a pod that is not ready may go without being counted.
fn may_lose_unready(spec: &Value, status: &Value) -> bool {
    let desired = status["desiredHealthy"].as_i64().unwrap_or_default();
    spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        || desired > 0 && status["currentHealthy"].as_i64().unwrap_or_default() >= desired
}

/// Refuses a disruption that a budget does not allow.
fn check_budget(budget: &Object, status: &Value) -> Result<(), Status> {
    let name = &budget.meta.name;
    let number = |field: &str| status[field].as_i64().unwrap_or_default();
    let refused = |message: String, seconds: u32| {
        let text = "Cannot evict pod as it would violate the pod's disruption budget.";
        let cause = Cause::new("DisruptionBudget", message, "");
        Err(Status::new(429, "TooManyRequests", text)
            .cause(cause)
            .retry_after(seconds))
    };
    let forbidden = |why: &str, told: &str| {
        let subject = Subject {
            group: "policy",
            plural: "poddisruptionbudget",
            kind: "PodDisruptionBudget",
        };
        let message = format!("The disruption budget {name} does not allow evicting pods currently: {told}");
        Err(Status::forbidden(subject, name, why).cause(Cause::new("DisruptionBudget", message, "")))
    };
    if number("observedGeneration") < budget.meta.generation {
        let message = format!("The disruption budget {name} is still being processed by the server.");
        return refused(message, 10);
    }
    let allowed = number("disruptionsAllowed");
    if allowed < 0 {
        let why = "pdb disruptions allowed is negative";
        return forbidden(why, why);
    }
    if status["disruptedPods"].as_object().map_or(0, Map::len) > MOST_DISRUPTED {
        return forbidden(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            "too many pending evictions not confirmed by PDB controller",
        );
    }
    if allowed > 0 {
        return Ok(());
    }
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let condition = conditions.find(|condition| condition["type"] == "DisruptionAllowed");
    let text = |field: &str| {
        condition
            .and_then(|condition| condition[field].as_str())
            .unwrap_or_default()
    };
    let says_no = text("status") == "False" && !text("message").is_empty();
    let (healthy, desired) = (number("currentHealthy"), number("desiredHealthy"));
    let message = if says_no && text("reason") == "SyncFailed" {
        format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {}",
            text("message")
        )
    } else if healthy <= desired {
        format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
    } else if says_no {
        format!(
            "The disruption budget {name} does not allow evicting pods currently ({}): {}",
            text("reason"),
            text("message")
        )
    } else {
        format!("The disruption budget {name} does not allow evicting pods currently")
    };
    refused(message, 0)
}

/// The budget with one disruption less to spend.
fn disrupted(context: Context<'_>, resource: &Resource, version: &Versioned<Stored>, pod: &str) -> Value {
    let mut out = Vec::new();
    let api_version = resource.api_version();
    let types = TypeMeta {
        kind: &resource.kind,
        api_version: &api_version,
    };
    write_output(&version.object.canonical, Some(types), version.rv, &mut out);
    // What the server has stored is JSON.
    let mut budget: Value = serde_json::from_slice(&out).unwrap_or_default();
    let generation = budget["metadata"]["generation"].clone();
    let now = time_text(context.server.clock.now());
    let status = &mut budget["status"];
    let allowed = status["disruptionsAllowed"].as_i64().unwrap_or_default() - 1;
    status["disruptionsAllowed"] = allowed.into();
    status["disruptedPods"][pod] = now.clone().into();
    if allowed == 0 {
        let condition = json!({
            "type": "DisruptionAllowed", "status": "False", "observedGeneration": generation,
            "lastTransitionTime": now, "reason": "InsufficientPods", "message": "",
        });
        replace_condition(status, condition);
    }
    budget
}

/// Replaces a condition, or adds it; its time changes with its status only.
fn replace_condition(status: &mut Value, mut condition: Value) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else {
        return;
    };
    match conditions.iter_mut().find(|old| old["type"] == condition["type"]) {
        Some(old) => {
            if old["status"] == condition["status"] {
                condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = condition;
        }
        None => conditions.push(condition),
    }
}

/// Writes a status as the server itself does.
fn put_status(
    context: Context<'_>,
    resource: &Arc<Resource>,
    id: ResourceId,
    path: &str,
    object: &Value,
) -> Result<(), Status> {
    let uri = path
        .parse()
        .map_err(|_| Status::untyped(format!("{path} is no path")))?;
    let mut headers = http::HeaderMap::new();
    headers.insert(
        http::header::USER_AGENT,
        http::HeaderValue::from_static("apiserver/v1.37.2"),
    );
    let request = Request::new(http::Method::PUT, uri, headers, object.to_string().into());
    let path = request.path.as_ref().ok_or_else(Status::unknown_resource)?;
    let context = Context {
        server: context.server,
        request: &request,
        path,
        resource,
        id,
    };
    update::update(context, Part::Status).map(drop)
}

/// Says in a condition of the pod why it goes, and deletes it.
fn condemn_and_delete(context: Context<'_>, mut options: DeleteOptions) -> Result<(), Status> {
    let now = time_text(context.server.clock.now());
    if options.dry_run.is_empty() {
        let written = context.server.storage.update(context.id, &context.key(), |old| {
            let old = old.ok_or_else(|| context.absent())?;
            let mut pod = old.object.object();
            delete::check_preconditions(context, context.name(), &options, old, &pod)?;
            edit(context.resource, &mut pod, |fields| {
                if let Some(status) = object_in(fields, "status") {
                    set_condition(status, DISRUPTED, &now);
                }
            });
            let stored = Stored::of(context.resource, &pod);
            Ok::<_, Status>(if stored.canonical == old.object.canonical {
                Change::Keep
            } else {
                Change::Put(Arc::new(stored))
            })
        })?;
        if let Outcome::Written(version) = written
            && let Some(Preconditions {
                resource_version: Some(wanted),
                ..
            }) = &mut options.preconditions
        {
            // It was the version before this one.
            *wanted = version.rv.to_string();
        }
    }
    delete::check_options(&options)?;
    delete_one(context, context.namespace(), context.name(), &options).map(drop)
}

/// Changes the body of an object as JSON, and puts it back in Go's form.
fn edit(resource: &Resource, object: &mut Object, change: impl FnOnce(&mut Map<String, Value>)) {
    let mut fields: Map<String, Value> = ["spec", "status"]
        .into_iter()
        .map(|name| (name.to_owned(), bodies::field(object, name)))
        .collect();
    change(&mut fields);
    let body = Value::Object(fields).to_string();
    // A stored object with more fields of its kind can be decoded.
    if let Ok(decoded) = decode(resource, ContentType::Json, body.as_bytes(), FieldValidation::Ignore) {
        for (name, value) in decoded.object.fields {
            object.set_field(name, value);
        }
    }
}

/// The object in a field, made if it is absent.
fn object_in<'a>(fields: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Map<String, Value>> {
    let value = fields.entry(name).or_insert_with(|| json!({}));
    if value.is_null() {
        *value = json!({});
    }
    value.as_object_mut()
}

fn set_condition(status: &mut Map<String, Value>, condition: Condition, now: &str) {
    let mut new = json!({"type": condition.kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
    for (field, text) in [("reason", condition.reason), ("message", condition.message)] {
        if !text.is_empty() {
            new[field] = text.into();
        }
    }
    let mut whole = Value::Object(std::mem::take(status));
    replace_condition(&mut whole, new);
    if let Value::Object(whole) = whole {
        *status = whole;
    }
}
