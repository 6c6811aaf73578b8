//! The differences that are known and meant, each with its reason. The README of the in-memory server lists them too.

use serde_json::Value;

use super::normal::Normal;
use super::probe::Probe;

/// A difference that is no finding.
pub(super) struct Exemption {
    pub(super) name: &'static str,
    /// Why the two servers differ here.
    pub(super) reason: &'static str,
    /// Whether this is it: the request, and the answers of the in-memory server and of the real one.
    pub(super) applies: fn(&Probe, &Normal, &Normal) -> bool,
}

/// The exemption that is looked at more closely, with the help of a second request (`control`).
pub(super) const SPEC: &str = "spec validation";

pub(super) const EXEMPTIONS: &[Exemption] = &[
    Exemption {
        name: SPEC,
        reason: "the in-memory server does not validate all of the specs of kinds",
        applies: |_, fake, real| {
            let (of_metadata, others) = causes(real).into_iter().partition::<Vec<_>, _>(is_of_metadata);
            let found = causes(fake);
            let about = |answer: &Normal| {
                let details = &answer.body["details"];
                (
                    details["name"].clone(),
                    details["kind"].clone(),
                    details["group"].clone(),
                )
            };
            // What the storage refuses is found out last: that there is such an object, or a version of a new one.
            let stored_last = fake.body["reason"] == "AlreadyExists"
                || fake.code == 500
                    && fake.body["message"] == "resourceVersion should not be set on objects to be created";
            let agrees = if fake.code == 422 {
                let all = causes(real);
                about(fake) == about(real)
                    && of_metadata.iter().all(|cause| found.contains(cause))
                    && found.iter().all(|cause| all.contains(cause))
            } else {
                (fake.code < 300 || stored_last) && of_metadata.is_empty()
            };
            let missing = others.iter().any(|cause| !found.contains(cause));
            let is_of_patch = others.iter().any(|cause| cause["field"] == "patch");
            real.code == 422 && fake.warnings == real.warnings && missing && agrees && !is_of_patch
        },
    },
    Exemption {
        name: "template count",
        reason: "the in-memory server keeps the count of a daemon set's templates with the metadata, and shows it there",
        applies: |probe, fake, real| {
            let of_metadata = probe.header("accept").contains("PartialObjectMetadata");
            let (mut fake, mut real) = (fake.clone(), real.clone());
            without_count(&mut fake.body);
            without_count(&mut real.body);
            probe.resource == "daemonsets" && of_metadata && fake == real
        },
    },
    Exemption {
        name: "managed fields",
        reason: "the in-memory server does not validate them: the name of a manager may become too long when bytes that are no \
                 text are replaced",
        applies: |_, fake, real| {
            let all = causes(real);
            let is_of_fields = |cause: &Value| {
                cause["field"]
                    .as_str()
                    .is_some_and(|field| field.starts_with("metadata.managedFields["))
            };
            let valid = fake.code < 300 || fake.body["reason"] == "AlreadyExists";
            real.code == 422 && valid && !all.is_empty() && all.iter().all(is_of_fields)
        },
    },
    Exemption {
        name: "broken",
        reason: "the real server panics and closes the connection: on a custom resource in protobuf, on a JSON patch that \
                 tests the whole object for no value, or replaces it by none, and on a strategic merge patch that compares lists \
                 or maps",
        applies: |probe, fake, real| {
            let form = probe.header("content-type");
            let of_protobuf = form.starts_with("application/vnd.kubernetes.protobuf")
                && probe.path.starts_with("/apis/{group}/")
                && fake.code == 415;
            let of_patch = form.starts_with("application/json-patch+json")
                && tests_nothing(&probe.body.bytes())
                && fake.code == 422;
            let of_strategic = form.starts_with("application/strategic-merge-patch+json")
                && fake.code == 500
                && fake.body["message"] == "the real server panics on this patch and breaks the connection";
            real.code == Normal::BROKEN && (of_protobuf || of_patch || of_strategic)
        },
    },
    Exemption {
        name: "not built",
        reason: "the in-memory server says with 501 that it does not have this subresource or question",
        applies: |probe, fake, _| {
            let subresources = [
                "log",
                "proxy",
                "exec",
                "attach",
                "portforward",
                "ephemeralcontainers",
                "resize",
            ];
            let is_subresource = subresources.iter().any(|name| probe.path.contains(&format!("/{name}")));
            fake.code == 501 && fake.body["reason"] == "NotImplemented" && is_subresource
        },
    },
    Exemption {
        name: "representation",
        reason: "the in-memory server answers in JSON only, and objects in protobuf are not read here",
        applies: |probe, fake, real| {
            let accept = probe.header("accept");
            accept.contains("protobuf") && fake.code == real.code && real.code < 300 && fake.warnings == real.warnings
        },
    },
];

/// Takes the count of a daemon set's templates from the metadata of an object, or of those of a list.
fn without_count(body: &mut Value) {
    for item in body
        .get_mut("items")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        without_count(item);
    }
    let Some(annotations) = body.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else {
        return;
    };
    annotations.remove("deprecated.daemonset.template.generation");
    if annotations.is_empty()
        && let Some(metadata) = body["metadata"].as_object_mut()
    {
        metadata.remove("annotations");
    }
}

/// Whether a JSON patch tests or replaces the whole object without saying for what.
fn tests_nothing(patch: &[u8]) -> bool {
    let patch: Value = serde_json::from_slice(patch).unwrap_or_default();
    let mut operations = patch.as_array().into_iter().flatten();
    operations.any(|operation| {
        matches!(operation["op"].as_str(), Some("test" | "replace"))
            && operation["path"] == ""
            && operation["value"].is_null()
    })
}

pub(super) fn causes(answer: &Normal) -> Vec<Value> {
    let causes = answer.body.pointer("/details/causes");
    causes.and_then(Value::as_array).cloned().unwrap_or_default()
}

pub(super) fn is_of_metadata(cause: &Value) -> bool {
    cause["field"]
        .as_str()
        .is_some_and(|field| field.starts_with("metadata"))
}
