//! Bodies in, canonical objects out.
//!
//! [`decode`] reads JSON, YAML or protobuf into an [`Object`] in Go's canonical form, by the packed type tables.
//! It checks nothing that the real server's decoder does not check: defaulting, admission and validation are later
//! steps. Start at [`decode`].

use crate::{kinds::Resource, object::Object};

/// A type of the packed tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TypeId(pub(crate) u16);

/// The format of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentType {
    Json,
    Yaml,
    Protobuf,
}

impl ContentType {
    /// The format that a `Content-Type` header names; absent means JSON, `None` an unsupported one (415).
    pub(crate) fn from_header(_value: Option<&str>) -> Option<Self> {
        unimplemented!()
    }
}

/// What happens to unknown and duplicate fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FieldValidation {
    Strict,
    #[default]
    Warn,
    Ignore,
}

/// A decoded body.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) object: Object,
    /// As the body said, or the defaults of the resource when it said nothing.
    pub(crate) api_version: String,
    pub(crate) kind: String,
    /// For `Warning` headers: unknown and duplicate fields.
    pub(crate) warnings: Vec<String>,
}

/// Why a body is no object. Each is a 400 `BadRequest` whose message is the `Display` text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum DecodeError {
    /// Not parsable, or a value of the wrong type.
    #[error("{0}")]
    Malformed(String),
    /// The body is of another kind or version.
    #[error("{0}")]
    WrongType(String),
    /// Unknown or duplicate fields under strict validation. `message` is the whole text; `errors` the single ones.
    #[error("{message}")]
    Strict { message: String, errors: Vec<String> },
}

/// Decodes a body as an object of `resource`.
///
/// # Errors
///
/// [`DecodeError`], with the server's text. None can be retried.
pub(crate) fn decode(
    _resource: &Resource,
    _content_type: ContentType,
    _body: &[u8],
    _validation: FieldValidation,
) -> Result<Decoded, DecodeError> {
    unimplemented!()
}

/// `DeleteOptions.preconditions`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Preconditions {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
}

/// The body of a delete request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) preconditions: Option<Preconditions>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) propagation_policy: Option<String>,
    pub(crate) dry_run: Vec<String>,
}

/// Decodes the body of a delete request; an empty body gives the defaults.
///
/// # Errors
///
/// [`DecodeError`], with the server's text.
pub(crate) fn decode_delete_options(_content_type: ContentType, _body: &[u8]) -> Result<DeleteOptions, DecodeError> {
    unimplemented!()
}
