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

pub(super) const EXEMPTIONS: &[Exemption] = &[
    Exemption {
        name: "spec validation",
        reason: "the in-memory server does not validate the bodies of kinds",
        applies: |_, fake, real| {
            let (of_metadata, others) = causes(real).into_iter().partition::<Vec<_>, _>(is_of_metadata);
            let found = causes(fake);
            let names_all = of_metadata.iter().all(|cause| found.contains(cause));
            // What the storage refuses is found out last: that there is such an object, or a version of a new one.
            let stored_last = fake.body["reason"] == "AlreadyExists"
                || fake.code == 500
                    && fake.body["message"] == "resourceVersion should not be set on objects to be created";
            let valid = fake.code < 300 || stored_last && of_metadata.is_empty();
            real.code == 422 && !others.is_empty() && (valid || fake.code == 422 && names_all)
        },
    },
    Exemption {
        name: "managed fields",
        reason: "the in-memory server has none that could be moved or copied to where they are unknown",
        applies: |_, fake, real| {
            let others = |answer: &Normal| -> Vec<String> {
                let warnings = answer.warnings.iter();
                warnings
                    .filter(|text| !text.contains("managedFields"))
                    .cloned()
                    .collect()
            };
            let in_text = real.body["message"].to_string().contains("managedFields");
            fake.code == real.code && others(fake) == others(real) && (fake.body == real.body || in_text)
        },
    },
    Exemption {
        name: "broken",
        reason: "the real server's handler panics and closes the connection",
        applies: |_, _, real| real.code == Normal::BROKEN,
    },
    Exemption {
        name: "not built",
        reason: "the in-memory server says with 501 that it does not have this subresource or patch type",
        applies: |_, fake, _| fake.code == 501,
    },
    Exemption {
        name: "representation",
        reason: "the in-memory server answers in JSON only",
        applies: |probe, fake, real| {
            let accept = probe.header("accept");
            (accept.contains("yaml") || accept.contains("protobuf")) && fake.code == real.code
        },
    },
];

fn causes(answer: &Normal) -> Vec<Value> {
    let causes = answer.body.pointer("/details/causes");
    causes.and_then(Value::as_array).cloned().unwrap_or_default()
}

fn is_of_metadata(cause: &Value) -> bool {
    cause["field"]
        .as_str()
        .is_some_and(|field| field.starts_with("metadata"))
}
