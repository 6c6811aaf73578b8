//! Patches: from an object's JSON and a patch to the new object's JSON, which the codec then decodes.
//!
//! Each type is a module. Which types a resource takes is decided in [`PatchType::from_header`]. This module knows
//! no storage: the update transaction calls [`apply`] on each try. Server-side apply needs to know owners and is in
//! [`managed_fields`](crate::managed_fields).

mod document;
mod json;
mod merge;
mod strategic;

pub(crate) use document::Node;

use crate::{
    codec::{self, FieldValidation, GoType, TypeId},
    json::{Tape, Value},
    kinds::Resource,
};

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

/// The changed parts of a document nest at most so deep: walks over them recurse.
const MAX_DEPTH: usize = 500;

impl PatchType {
    const ALL: [Self; 4] = [Self::Json, Self::Merge, Self::Strategic, Self::Apply];

    const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }

    /// The patch type that the `Content-Type` names.
    ///
    /// # Errors
    ///
    /// [`PatchError::UnsupportedMediaType`], with the server's text: built-in kinds do not list what they take.
    pub(crate) fn from_header(content_type: Option<&str>, resource: &Resource) -> Result<Self, PatchError> {
        // Unlike other media types, these are compared as they are written.
        let given = content_type
            .unwrap_or_default()
            .split(';')
            .next()
            .unwrap_or_default()
            .trim();
        let found = Self::ALL.into_iter().find(|patch| patch.media_type() == given);
        match found {
            Some(patch) if !(patch == Self::Strategic && resource.custom) => Ok(patch),
            _ if resource.custom => Err(PatchError::UnsupportedMediaType(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
                    .to_owned(),
            )),
            _ => Err(PatchError::UnsupportedMediaType(
                "415: Unsupported Media Type".to_owned(),
            )),
        }
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

impl PatchError {
    /// A patch that is well-formed but does not fit the object. The server hides what did not fit.
    fn does_not_apply() -> Self {
        Self::Unprocessable("the server rejected our request due to an error in our request".to_owned())
    }

    /// A patch that nests so deep that it is not looked at.
    fn too_deep() -> Self {
        Self::BadRequest("error decoding patch: exceeded max depth".to_owned())
    }
}

/// Refuses a patch that is no JSON, before the object is looked for.
///
/// # Errors
///
/// [`PatchError::BadRequest`].
pub(crate) fn check_syntax(patch: &[u8]) -> Result<(), PatchError> {
    match Tape::parse(patch) {
        Ok(_) => Ok(()),
        Err(_) => Err(PatchError::BadRequest("invalid JSON patch".to_owned())),
    }
}

/// Refuses a value that nests deeper than [`MAX_DEPTH`].
fn check_depth(value: Value<'_>) -> Result<(), PatchError> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in value.raw() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth -= 1,
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(PatchError::too_deep());
        }
    }
    Ok(())
}

/// Applies a patch other than a strategic one to the JSON of the current object (with `apiVersion`, `kind` and
/// `resourceVersion`).
///
/// # Errors
///
/// [`PatchError`]; a retry helps only where the current object differs. Without field validation a patch is not looked at
/// before it is applied, which says other things about one that is none.
pub(crate) fn apply(
    patch_type: PatchType,
    current: &[u8],
    patch: &[u8],
    validation: FieldValidation,
) -> Result<Vec<u8>, PatchError> {
    let current = Tape::parse(current).map_err(|error| PatchError::Internal(error.to_string()))?;
    match patch_type {
        PatchType::Json => json::apply(&current, patch, validation),
        PatchType::Merge => merge::apply(&current, patch, validation),
        PatchType::Strategic | PatchType::Apply => Err(PatchError::UnsupportedMediaType(
            "415: Unsupported Media Type".to_owned(),
        )),
    }
}

/// Applies a strategic merge patch to the JSON of the current object, which is of this type.
///
/// # Errors
///
/// As for [`apply()`].
pub(crate) fn apply_strategic(current: &[u8], patch: &[u8], of: TypeId) -> Result<Vec<u8>, PatchError> {
    let current = Tape::parse(current).map_err(|error| PatchError::Internal(error.to_string()))?;
    strategic::apply(&current, patch, GoType::of_object(of))
}

/// What is left of a strategic merge patch that was applied, which errors about the result show.
///
/// # Errors
///
/// As for [`apply()`].
pub(crate) fn strategic_left_over(current: &[u8], patch: &[u8], of: TypeId) -> Result<String, PatchError> {
    let current = Tape::parse(current).map_err(|error| PatchError::Internal(error.to_string()))?;
    strategic::left_over(&current, patch, GoType::of_object(of))
}

/// What field validation says about the patch itself, before the unknown fields of the result: duplicate fields and, in
/// a JSON patch, unknown members of operations. A patch that is no JSON has none: [`apply`] refuses it.
pub(crate) fn field_findings(patch_type: PatchType, patch: &[u8]) -> Vec<String> {
    let Ok(tape) = Tape::parse(patch) else {
        return Vec::new();
    };
    if patch_type != PatchType::Json {
        return codec::duplicates(tape.root());
    }
    let findings = json::findings(tape.root());
    findings.into_iter().map(|text| format!("json patch {text}")).collect()
}

#[cfg(test)]
mod tests;
