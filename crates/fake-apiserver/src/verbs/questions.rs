//! Questions to the server that are posted like objects and stored nowhere: who one is, and what one may do. Everybody may do
//! everything here.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Context, bodies, token, write};
use crate::answer::Answer;
use crate::json::scan;
use crate::negotiate::Shape;
use crate::object::{Meta, Object, write_output};
use crate::status::{Cause, Status, Subject};
use crate::stored::Stored;

/// What statuses about access reviews speak of: the real server names no kind.
const REVIEW: Subject<'static> = Subject {
    group: "authorization.k8s.io",
    plural: "",
    kind: "",
};

/// `POST` of a question.
///
/// # Errors
/// 400, 406, 413, 415, 422, and 404 for a kind that is none.
pub(super) fn ask(context: Context<'_>) -> Result<Answer, Status> {
    let view = context.view(Shape::Object)?;
    let posted = bodies::read(context, context.resource)?;
    let answered = answer(context, posted.object).and_then(|object| {
        let stored = Arc::new(Stored::of(context.resource, &object));
        write::shown(&view, 201, &write::unstored(stored, 0))
    });
    write::warned(answered, &posted.warnings)
}

fn answer(context: Context<'_>, mut object: Object) -> Result<Object, Status> {
    object.meta.uid.clear();
    object.meta.self_link.clear();
    object.meta.creation_timestamp = None;
    let spec = bodies::field(&object, "spec");
    match &*context.resource.kind {
        "SelfSubjectReview" => {
            let meta = Meta {
                creation_timestamp: Some(context.server.clock.now()),
                ..Meta::default()
            };
            return Ok(answered(meta, None, &json!({"userInfo": user(context)})));
        }
        "SelfSubjectRulesReview" => {
            if spec["namespace"].as_str().unwrap_or_default().is_empty() {
                return Err(Status::bad_request("no namespace on request"));
            }
            let all = ["*"];
            let status = json!({
                "resourceRules": [{"verbs": all, "apiGroups": all, "resources": all}],
                "nonResourceRules": [{"verbs": all, "nonResourceURLs": all}],
                "incomplete": false,
            });
            return Ok(answered(Meta::default(), Some(json!({})), &status));
        }
        _ => {}
    }
    write::track_fields(context, None, &mut object);
    let status = match &*context.resource.kind {
        "TokenReview" => {
            let token = spec["token"].as_str().unwrap_or_default();
            if token.is_empty() {
                return Err(Status::bad_request(
                    "token is required for TokenReview in authentication",
                ));
            }
            token::review(context, token, &spec["audiences"])
        }
        "SelfSubjectAccessReview" | "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            let causes = access_causes(&context.resource.kind, &spec, &object);
            if !causes.is_empty() {
                return Err(Status::invalid(REVIEW, "", causes));
            }
            json!({"allowed": true})
        }
        _ => return Err(Status::unknown_resource()),
    };
    object.set_field("status", status.to_string().into());
    Ok(object)
}

/// An answer in Go's order of fields: these are small enough to be written as they are.
fn answered(meta: Meta, spec: Option<Value>, status: &Value) -> Object {
    let mut object = Object {
        meta,
        fields: Vec::new(),
    };
    if let Some(spec) = spec {
        object.set_field("spec", spec.to_string().into());
    }
    object.set_field("status", status.to_string().into());
    object
}

/// Who asks: the administrator, unless he speaks for somebody else.
pub(super) fn user(context: Context<'_>) -> Value {
    let header = |name: &str| {
        let values = context.request.headers.get_all(name).iter();
        values
            .filter_map(|value| value.to_str().ok())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let Some(name) = header("impersonate-user").into_iter().next() else {
        return json!({"username": "admin", "uid": "admin", "groups": ["system:masters", "system:authenticated"]});
    };
    let mut groups = header("impersonate-group");
    let known = if name == "system:anonymous" {
        "system:unauthenticated"
    } else {
        "system:authenticated"
    };
    if !groups.iter().any(|group| group == known) {
        groups.push(known.to_owned());
    }
    json!({"username": name, "groups": groups})
}

/// What is wrong with a question about access.
fn access_causes(kind: &str, spec: &Value, object: &Object) -> Vec<Cause> {
    let mut causes = attribute_causes(spec);
    let has_group = spec["groups"].as_array().is_some_and(|groups| !groups.is_empty());
    let user = spec["user"].as_str().unwrap_or_default();
    if kind != "SelfSubjectAccessReview" && user.is_empty() && !has_group {
        causes.push(Cause::new(
            "FieldValueInvalid",
            "Invalid value: \"\": at least one of user or group must be specified",
            "spec.user",
        ));
    }
    let is_local = kind == "LocalSubjectAccessReview";
    let mut rest = object.meta.clone();
    rest.managed_fields = None;
    if is_local {
        rest.namespace.clear();
    }
    if rest != Meta::default() {
        let allowed = if is_local {
            "must be empty except for namespace"
        } else {
            "must be empty"
        };
        let text = format!("Invalid value: {}: {allowed}", shown(object));
        causes.push(Cause::new("FieldValueInvalid", text, "metadata"));
    }
    if is_local {
        let wanted = spec["resourceAttributes"]["namespace"].as_str().unwrap_or_default();
        if spec["resourceAttributes"].is_object() && wanted != object.meta.namespace {
            let text = format!("Invalid value: {}: must match metadata.namespace", json!(wanted));
            causes.push(Cause::new(
                "FieldValueInvalid",
                text,
                "spec.resourceAttributes.namespace",
            ));
        }
        if spec["nonResourceAttributes"].is_object() {
            let text = format!(
                "Invalid value: {}: disallowed on this kind of request",
                path_and_verb(&spec["nonResourceAttributes"])
            );
            causes.push(Cause::new("FieldValueInvalid", text, "spec.nonResourceAttributes"));
        }
    }
    causes
}

/// What is wrong with what is asked about.
fn attribute_causes(spec: &Value) -> Vec<Cause> {
    let (of_resource, other) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    if of_resource.is_object() == other.is_object() {
        let text = format!(
            "Invalid value: {}: exactly one of nonResourceAttributes or resourceAttributes must be specified",
            path_and_verb(other)
        );
        return vec![Cause::new("FieldValueInvalid", text, "spec")];
    }
    let selectors = ["fieldSelector", "labelSelector"].into_iter().filter(|name| {
        let selector = &of_resource[*name];
        let says_nothing = |value: &Value| value.is_null() || value == "" || *value == json!([]);
        selector.is_object() && says_nothing(&selector["requirements"]) && says_nothing(&selector["rawSelector"])
    });
    let cause = |name: &str| {
        let field = format!("spec.resourceAttributes.{name}");
        let text = format!("Required value: when {field} is specified, requirements or rawSelector is required");
        Cause::new("FieldValueRequired", text, format!("{field}.requirements"))
    };
    selectors.map(cause).collect()
}

/// A path and a verb as Go shows them.
fn path_and_verb(attributes: &Value) -> String {
    if attributes.is_null() {
        return "null".to_owned();
    }
    let text = |name: &str| json!(attributes[name].as_str().unwrap_or_default());
    format!("{{\"Path\":{},\"Verb\":{}}}", text("path"), text("verb"))
}

/// The metadata of an object as JSON.
fn shown(object: &Object) -> String {
    let version = object.meta.resource_version.parse().unwrap_or_default();
    let mut out = Vec::new();
    write_output(&object.to_canonical(), None, version, &mut out);
    let metadata = scan::member(&out, "metadata").unwrap_or_default();
    String::from_utf8_lossy(metadata).into_owned()
}
