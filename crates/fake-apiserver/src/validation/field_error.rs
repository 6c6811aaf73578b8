//! One finding about one field, with the server's texts.

use std::fmt;

use crate::gotext::go_quote;
use crate::told::{Text, Told};

/// The type of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    Required,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    Duplicate,
    /// Of another type than the schema says.
    TypeInvalid,
    NotFound,
}

impl ErrorKind {
    /// `reason` of the cause in a Status.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Duplicate => "FieldValueDuplicate",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotFound => "FieldValueNotFound",
        }
    }

    /// The words that open the text.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Duplicate => "Duplicate value",
            Self::NotFound => "Not found",
        }
    }
}

/// One finding: becomes a cause `{reason, message, field}` of a 422 Status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldError {
    pub(crate) kind: ErrorKind,
    /// Path of the field, `metadata.labels` or `<nil>`.
    pub(crate) field: String,
    /// The text after the field: `Invalid value: "x": must be …`.
    pub(crate) message: String,
    /// It was so before the write, which is warned of it and not refused.
    pub(crate) spared: bool,
}

impl FieldError {
    /// A finding with a text after the words of its kind; `detail` may be empty.
    pub(crate) fn new(kind: ErrorKind, field: impl Into<String>, detail: &str) -> Self {
        let message = if detail.is_empty() {
            kind.text().to_owned()
        } else {
            format!("{}: {detail}", kind.text())
        };
        Self {
            kind,
            field: field.into(),
            message,
            spared: false,
        }
    }

    /// What stands for the findings that are not told.
    pub(crate) fn rest(told: &Told) -> Option<Self> {
        let rest = told.rest()?;
        Some(Self::new(ErrorKind::Invalid, "<nil>", &rest.to_string()))
    }

    /// `Invalid value: "value": detail`.
    pub(crate) fn invalid(field: impl Into<String>, value: &str, detail: &str) -> Self {
        Self::invalid_raw(field, &go_quote(value), detail)
    }

    /// `Invalid value: value: detail`, for a value that is no string.
    pub(crate) fn invalid_raw(field: impl Into<String>, value: &str, detail: &str) -> Self {
        Self::new(ErrorKind::Invalid, field, &format!("{value}: {detail}"))
    }
}

impl Text for FieldError {
    fn size(&self) -> usize {
        self.field.len() + self.message.len()
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}
