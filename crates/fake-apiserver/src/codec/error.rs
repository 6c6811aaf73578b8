//! Why a body is no object of its resource.

use crate::gotext::go_quote;
use crate::kinds::Resource;

/// Why a body is no object. Each is a 400 `BadRequest` whose message is the `Display` text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum DecodeError {
    /// Not parsable, or a value of the wrong type.
    #[error("{message}")]
    Malformed { message: String, cause: String },
    /// The body is of another kind or version.
    #[error("{message}")]
    WrongType { message: String, cause: String },
    /// The body is of the kind in another version, read as which it has these unknown and duplicate fields.
    #[error("{message}")]
    OtherVersion { message: String, findings: Vec<String> },
    /// Unknown or duplicate fields under strict validation; `errors` are the single ones.
    #[error("{message}")]
    Strict {
        message: String,
        cause: String,
        errors: Vec<String>,
    },
}

impl DecodeError {
    /// The text of the decoder alone, without what the server says about the body.
    pub(crate) fn cause(&self) -> &str {
        match self {
            Self::Malformed { cause, .. } | Self::WrongType { cause, .. } | Self::Strict { cause, .. } => cause,
            Self::OtherVersion { message, .. } => message,
        }
    }

    /// A body whose kind is not even known.
    pub(super) fn unrecognized(resource: &Resource, cause: String, body: &[u8]) -> Self {
        let message = format!(
            "the object provided is unrecognized (must be of type {}): {cause} ({})",
            resource.kind,
            summary(body)
        );
        Self::Malformed { message, cause }
    }

    /// A body of the right kind that cannot be decoded.
    pub(super) fn malformed(resource: &Resource, cause: String) -> Self {
        Self::malformed_as(resource, (&resource.kind, &resource.version), cause)
    }

    /// A body that cannot be decoded, which says that it is of this kind and version.
    pub(super) fn malformed_as(resource: &Resource, (kind, version): (&str, &str), cause: String) -> Self {
        Self::Malformed {
            message: handled_as(resource, kind, version, &cause),
            cause,
        }
    }

    /// A body of another kind.
    pub(super) fn wrong_kind(resource: &Resource, kind: &str, version: &str, cause: String) -> Self {
        Self::WrongType {
            message: handled_as(resource, kind, version, &cause),
            cause,
        }
    }

    pub(super) fn wrong_version(message: String) -> Self {
        Self::WrongType {
            cause: message.clone(),
            message,
        }
    }

    pub(super) fn strict(resource: &Resource, (kind, version): (&str, &str), errors: Vec<String>) -> Self {
        let cause = format!("strict decoding error: {}", errors.join(", "));
        Self::Strict {
            message: handled_as(resource, kind, version, &cause),
            cause,
            errors,
        }
    }
}

fn handled_as(resource: &Resource, kind: &str, version: &str, cause: &str) -> String {
    format!(
        "{kind} in version {} cannot be handled as a {}: {cause}",
        go_quote(version),
        resource.kind
    )
}

/// The first bytes of a body: as text if it looks like JSON, else in hex.
fn summary(body: &[u8]) -> String {
    const MAX: usize = 30;
    let shown = &body[..body.len().min(MAX)];
    let more = if body.len() > MAX { " ..." } else { "" };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => {
            let hex: String = shown
                .iter()
                .flat_map(|byte| [byte >> 4, byte & 15])
                .map(|digit| char::from_digit(digit.into(), 16).unwrap_or('0'))
                .collect();
            format!("{hex}{more}")
        }
    }
}
