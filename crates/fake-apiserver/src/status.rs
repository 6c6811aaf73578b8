//! The `Status` answers of the API: codes, reasons, texts and details as the real server writes them.
//!
//! The builder knows when `details.kind` is the plural, the Kind or absent. Start at [`Status`].

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::Serialize;

use crate::gotext::{self, go_quote};
use crate::told::{Text, Told};

/// The resource that a status speaks of: `pods`, or `deployments` in group `apps`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    /// API group; empty for the core group.
    pub(crate) group: &'a str,
    /// Plural name.
    pub(crate) plural: &'a str,
    /// Kind.
    pub(crate) kind: &'a str,
}

impl Subject<'_> {
    /// `pods` or `deployments.apps`.
    fn resource(&self) -> String {
        qualified(self.plural, self.group)
    }

    /// `Pod` or `Deployment.apps`.
    fn kind(&self) -> String {
        qualified(self.kind, self.group_of_kind())
    }

    /// The group where the kind is named: both groups have the same events, and the first one counts.
    fn group_of_kind(&self) -> &str {
        match (self.group, self.kind) {
            ("events.k8s.io", "Event") => "",
            (group, _) => group,
        }
    }
}

fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}

/// One detailed cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Cause {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) field: String,
}

impl Cause {
    /// A cause with all three parts.
    pub(crate) fn new(reason: &str, message: impl Into<String>, field: impl Into<String>) -> Self {
        Self {
            reason: reason.to_owned(),
            message: message.into(),
            field: field.into(),
        }
    }
}

/// The `details` of a status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Details {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) causes: Vec<Cause>,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) retry_after_seconds: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(value: &u32) -> bool {
    *value == 0
}

/// A `Status` object, success or failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    /// HTTP status code.
    pub(crate) code: u16,
    /// Machine-readable reason; empty for none.
    pub(crate) reason: String,
    /// Text for people.
    pub(crate) message: String,
    /// Details, if any.
    pub(crate) details: Option<Box<Details>>,
    /// `metadata.continue`: how an expired list can go on.
    continue_token: Option<String>,
}

impl Status {
    /// A failure with no details.
    pub(crate) fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.to_owned(),
            message: message.into(),
            details: None,
            continue_token: None,
        }
    }

    fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// Adds `metadata.continue`.
    pub(crate) fn continue_token(mut self, token: String) -> Self {
        self.continue_token = Some(token);
        self
    }

    /// Adds one cause.
    pub(crate) fn cause(mut self, cause: Cause) -> Self {
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// Adds `details.retryAfterSeconds`, which also becomes the `Retry-After` header.
    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    /// Seconds for the `Retry-After` header, if any.
    pub(crate) fn retry_after_seconds(&self) -> Option<u32> {
        self.details
            .as_ref()
            .map(|details| details.retry_after_seconds)
            .filter(|seconds| *seconds > 0)
    }

    /// The object was removed: status "Success", the details name it. `details.kind` is the plural.
    pub(crate) fn deleted(subject: Subject<'_>, name: &str, uid: &str) -> Self {
        Self::new(200, "", "").with_details(Details {
            uid: uid.to_owned(),
            ..plural_details(subject, name)
        })
    }

    /// Something was done of which there is nothing to show.
    pub(crate) fn success(code: u16) -> Self {
        Self::new(code, "", "")
    }

    /// 404 for an object. `details.kind` is the plural.
    pub(crate) fn not_found(subject: Subject<'_>, name: &str) -> Self {
        Self::new(
            404,
            "NotFound",
            format!("{} {} not found", subject.resource(), go_quote(name)),
        )
        .with_details(plural_details(subject, name))
    }

    /// 404 for a path below a known group version.
    pub(crate) fn unknown_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource").with_details(Details::default())
    }

    /// 409 on create. `details.kind` is the plural.
    pub(crate) fn already_exists(subject: Subject<'_>, name: &str) -> Self {
        Self::new(
            409,
            "AlreadyExists",
            format!("{} {} already exists", subject.resource(), go_quote(name)),
        )
        .with_details(plural_details(subject, name))
    }

    /// 409 on create over an object that is going away.
    pub(crate) fn being_deleted(subject: Subject<'_>, name: &str) -> Self {
        let message = format!(
            "object is being deleted: {} {} already exists",
            subject.resource(),
            go_quote(name)
        );
        Self::new(409, "AlreadyExists", message).with_details(plural_details(subject, name))
    }

    /// 409 with a cause in words. `details.kind` is the plural.
    pub(crate) fn conflict(subject: Subject<'_>, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {}: {why}",
            subject.resource(),
            go_quote(name)
        );
        Self::new(409, "Conflict", message).with_details(plural_details(subject, name))
    }

    /// 409 for a failed precondition of a delete. `details.kind` and the text name the Kind.
    pub(crate) fn precondition(subject: Subject<'_>, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {}: {why}",
            subject.kind(),
            go_quote(name)
        );
        Self::new(409, "Conflict", message).with_details(kind_details(subject, name))
    }

    /// 409 for a stale resourceVersion.
    pub(crate) fn stale(subject: Subject<'_>, name: &str) -> Self {
        const TEXT: &str =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(subject, name, TEXT)
    }

    /// 403. `details.kind` is the plural.
    pub(crate) fn forbidden(subject: Subject<'_>, name: &str, why: &str) -> Self {
        let message = format!("{} {} is forbidden: {why}", subject.resource(), go_quote(name));
        Self::new(403, "Forbidden", message).with_details(plural_details(subject, name))
    }

    /// 422. The text and `details.kind` name the Kind; `why` is the list of errors as one text.
    pub(crate) fn invalid(subject: Subject<'_>, name: &str, causes: Vec<Cause>) -> Self {
        let causes = bounded(causes);
        let mut seen = HashSet::with_capacity(causes.len());
        let texts: Vec<String> = causes
            .iter()
            .map(|cause| match cause.field.as_str() {
                "" => cause.message.clone(),
                field => format!("{field}: {}", cause.message),
            })
            // The text says each once, whatever the causes do.
            .filter(|text| seen.insert(text.clone()))
            .collect();
        let why = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} {} is invalid: {why}", subject.kind(), go_quote(name));
        Self::new(422, "Invalid", message).with_details(Details {
            causes,
            ..kind_details(subject, name)
        })
    }

    /// 400.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 500 that has no reason: an error of the server that nobody gave a type.
    pub(crate) fn untyped(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// 405 for a verb that the resource does not have. `details.kind` is the plural.
    pub(crate) fn method_not_supported(subject: Subject<'_>, verb: &str) -> Self {
        let message = format!(
            "{verb} is not supported on resources of kind \"{}\"",
            subject.resource()
        );
        Self::new(405, "MethodNotAllowed", message).with_details(Details {
            group: subject.group.to_owned(),
            kind: subject.plural.to_owned(),
            ..Details::default()
        })
    }

    /// 405 for an HTTP method that no route has.
    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .with_details(Details::default())
    }

    /// 406 with the list of what can be had.
    pub(crate) fn not_acceptable(accepted: &str) -> Self {
        Self::new(
            406,
            "NotAcceptable",
            format!("only the following media types are accepted: {accepted}"),
        )
    }

    /// 413.
    pub(crate) fn too_large(limit: usize) -> Self {
        Self::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {limit}"),
        )
    }

    /// 415 with the list of what can be read.
    pub(crate) fn unsupported_media_type(accepted: &str) -> Self {
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 410 with the given text.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 504 for a revision that the server has not reached.
    pub(crate) fn too_large_resource_version(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        Self::new(504, "Timeout", message)
            .with_details(Details::default())
            .cause(Cause::new("ResourceVersionTooLarge", "Too large resource version", ""))
            .retry_after(1)
    }

    /// The status as JSON, without a line end.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            kind: &'static str,
            api_version: &'static str,
            metadata: Metadata<'a>,
            status: &'static str,
            #[serde(skip_serializing_if = "str::is_empty")]
            message: &'a str,
            #[serde(skip_serializing_if = "str::is_empty")]
            reason: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            details: Option<&'a Details>,
            #[serde(skip_serializing_if = "Option::is_none")]
            code: Option<u16>,
        }
        #[derive(Serialize)]
        struct Metadata<'a> {
            #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
            continue_token: Option<&'a str>,
        }
        let success = self.code < 300;
        let wire = Wire {
            kind: "Status",
            api_version: "v1",
            metadata: Metadata {
                continue_token: self.continue_token.as_deref(),
            },
            status: if success { "Success" } else { "Failure" },
            message: &self.message,
            reason: &self.reason,
            details: self.details.as_deref(),
            // Go writes it where the answer is no plain 200.
            code: (self.code != 200).then_some(self.code),
        };
        // Strings and numbers only: writing to memory cannot fail.
        let json = serde_json::to_string(&wire).unwrap_or_default();
        match gotext::shown(&json) {
            Cow::Borrowed(_) => json.into_bytes(),
            Cow::Owned(shown) => shown.into_bytes(),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.code, self.reason, self.message)
    }
}

impl std::error::Error for Status {}

/// As many causes as are told of one body.
fn bounded(causes: Vec<Cause>) -> Vec<Cause> {
    let mut told = Told::default();
    let mut kept: Vec<Cause> = causes.into_iter().filter_map(|cause| told.word(|| cause)).collect();
    if let Some(rest) = told.rest() {
        kept.push(Cause::new(
            "FieldValueInvalid",
            format!("Invalid value: {rest}"),
            "<nil>",
        ));
    }
    kept
}

impl Text for Cause {
    fn size(&self) -> usize {
        self.message.len() + self.field.len()
    }
}

fn plural_details(subject: Subject<'_>, name: &str) -> Details {
    Details {
        name: name.to_owned(),
        group: subject.group.to_owned(),
        kind: subject.plural.to_owned(),
        ..Details::default()
    }
}

fn kind_details(subject: Subject<'_>, name: &str) -> Details {
    Details {
        kind: subject.kind.to_owned(),
        group: subject.group_of_kind().to_owned(),
        ..plural_details(subject, name)
    }
}
