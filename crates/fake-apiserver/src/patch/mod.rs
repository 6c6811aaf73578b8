//! Patches: from an object's JSON and a patch to the new object's JSON, which the codec then decodes.
//!
//! Each type is a module. Which types a resource takes is decided in [`PatchType::from_header`]. This module knows
//! no storage: the update transaction calls [`apply`] on each try.

mod json;
mod merge;

use crate::kinds::Resource;

/// The type of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchType {
    /// RFC 6902, `application/json-patch+json`.
    Json,
    /// RFC 7386, `application/merge-patch+json`.
    Merge,
    /// `application/strategic-merge-patch+json`; built-in kinds only.
    Strategic,
    /// Server-side apply, `application/apply-patch+yaml`.
    Apply,
}

impl PatchType {
    /// The patch type that the `Content-Type` names.
    ///
    /// # Errors
    ///
    /// [`PatchError::UnsupportedMediaType`], with the types that this resource takes.
    pub(crate) fn from_header(_content_type: Option<&str>, _resource: &Resource) -> Result<Self, PatchError> {
        unimplemented!()
    }
}

/// Why a patch is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum PatchError {
    /// 400 `BadRequest`: the patch is not what its type says.
    #[error("{0}")]
    BadRequest(String),
    /// 422 `Invalid` with empty details: the patch cannot be applied.
    #[error("{0}")]
    Unprocessable(String),
    /// 413 `RequestEntityTooLarge`.
    #[error("{0}")]
    TooLarge(String),
    /// 415 `UnsupportedMediaType`.
    #[error("{0}")]
    UnsupportedMediaType(String),
    /// 500 without reason.
    #[error("{0}")]
    Internal(String),
}

/// Applies a patch to the JSON of the current object (with `apiVersion`, `kind` and `resourceVersion`).
///
/// # Errors
///
/// [`PatchError`]; a retry helps only where the current object differs.
pub(crate) fn apply(_patch_type: PatchType, _current: &[u8], _patch: &[u8]) -> Result<Vec<u8>, PatchError> {
    unimplemented!()
}
