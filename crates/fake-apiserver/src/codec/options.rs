//! Options that come as a body.

use super::{ContentType, DecodeError, foreign, proto, tables::DELETE_OPTIONS, type_meta, typed::Writer, yaml};
use crate::gotext::go_quote;
use crate::json::{Kind, Tape, Value};

/// `DeleteOptions.preconditions`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Preconditions {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
}

/// The option that removes objects which the server cannot read.
pub(crate) const IGNORE_STORE_READ_ERROR: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// The body of a delete request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) preconditions: Option<Preconditions>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) propagation_policy: Option<String>,
    pub(crate) dry_run: Vec<String>,
    /// `ignoreStoreReadErrorWithClusterBreakingPotential`.
    pub(crate) ignore_store_read_error: bool,
}

/// Decodes the body of a delete request; an empty body gives the defaults. Unknown fields are ignored, and so is the
/// group of the body: every group has these options.
///
/// # Errors
///
/// [`DecodeError`], with the server's text.
pub(crate) fn decode_delete_options(content_type: ContentType, body: &[u8]) -> Result<DeleteOptions, DecodeError> {
    let malformed = |cause: String| DecodeError::Malformed {
        message: cause.clone(),
        cause,
    };
    if body.is_empty() {
        return Ok(DeleteOptions::default());
    }
    let text = match content_type {
        ContentType::Json => body.to_vec(),
        ContentType::Yaml => yaml::to_json(body).map_err(malformed)?.0,
        ContentType::Protobuf => {
            let message = proto::open(body).map_err(malformed)?;
            check_kind(&message.api_version, &message.kind, None).map_err(malformed)?;
            proto::to_json(DELETE_OPTIONS, message.raw).map_err(malformed)?
        }
    };
    let tape = Tape::parse(&text)
        .map_err(|error| malformed(format!("couldn't get version/kind; json parse error: {error}")))?;
    let (api_version, kind) = type_meta::interpret(tape.root()).map_err(malformed)?;
    if type_meta::lacks_version(&api_version, "meta.k8s.io") {
        return Err(malformed(type_meta::missing_version(body)));
    }
    check_kind(&api_version, &kind, Some(tape.root())).map_err(malformed)?;
    // The typed writer finds values of wrong types, with the server's texts; reading them is then simple.
    let mut writer = Writer::new(false, text.len());
    if tape.root().kind() == Kind::Object {
        writer.structure(DELETE_OPTIONS, Some(tape.root()));
    }
    let (result, _, _) = writer.finish();
    result.map_err(malformed)?;
    Ok(read(tape.root()))
}

fn check_kind(api_version: &str, kind: &str, root: Option<Value<'_>>) -> Result<(), String> {
    if matches!(kind, "" | "DeleteOptions") {
        return Ok(());
    }
    let (group, version) = match type_meta::split(api_version) {
        (_, "") => ("meta.k8s.io", "v1"),
        given => given,
    };
    if let Some(foreign) = foreign::in_place_of_options(group, version, kind) {
        root.map_or(Ok(Vec::new()), |root| foreign.read(root))?;
        return Err(format!(
            "converting ({}) to (v1.DeleteOptions): unknown conversion",
            foreign.go
        ));
    }
    let full = crate::kinds::api_version(group, version);
    Err(format!(
        "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
        go_quote(kind),
        go_quote(&full)
    ))
}

fn read(root: Value<'_>) -> DeleteOptions {
    let text = |value: Value<'_>, key: &str| value.get(key).and_then(Value::as_str).map(std::borrow::Cow::into_owned);
    let present = |key: &str| root.get(key).filter(|value| !value.is_null());
    DeleteOptions {
        grace_period_seconds: present("gracePeriodSeconds").and_then(|value| value.as_number()?.parse().ok()),
        preconditions: present("preconditions").map(|value| Preconditions {
            uid: text(value, "uid"),
            resource_version: text(value, "resourceVersion"),
        }),
        orphan_dependents: present("orphanDependents").and_then(Value::as_bool),
        propagation_policy: text(root, "propagationPolicy"),
        dry_run: present("dryRun")
            .into_iter()
            .flat_map(Value::items)
            .map(|item| item.as_str().unwrap_or_default().into_owned())
            .collect(),
        ignore_store_read_error: present(IGNORE_STORE_READ_ERROR).and_then(Value::as_bool) == Some(true),
    }
}
