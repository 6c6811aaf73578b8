//! Label and field selectors: parsing with the server's texts, and matching.
//!
//! [`LabelSelector`] matches `metadata.labels`; [`FieldSelector`] matches a [`FieldSet`], the selectable fields that
//! are taken from an object once per stored version. Which fields a kind has is its policy.

mod field;
mod label;

pub(crate) use field::{FieldSelector, FieldSet};
pub(crate) use label::LabelSelector;

/// Why a selector is refused: a 400 `BadRequest` with this text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct SelectorError(pub(crate) String);

#[cfg(test)]
mod tests;
