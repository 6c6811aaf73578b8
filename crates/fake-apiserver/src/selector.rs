//! Label and field selectors: parsing with the server's texts, and matching.
//!
//! [`LabelSelector`] matches `metadata.labels`; [`FieldSelector`] matches a [`FieldSet`], the selectable fields that
//! are taken from an object once per stored version. Which fields a kind has is its policy. Selectors inside of objects are
//! for [`selects`].

mod field;
mod label;
mod structured;

pub(crate) use field::{FieldSelector, FieldSet};
pub(crate) use label::LabelSelector;
pub(crate) use structured::selects;

/// Why a selector is refused: a 400 `BadRequest` with this text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct SelectorError(pub(crate) String);

#[cfg(test)]
mod tests;
