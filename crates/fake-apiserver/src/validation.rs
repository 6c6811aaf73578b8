//! Validation of metadata: what a 422 says.
//!
//! Only rules that hold for every kind by its policy; validation of specs is a later step that adds to the same list
//! of [`FieldError`]s. Start at [`validate_create`].

mod field_error;
mod meta;
mod names;

pub(crate) use field_error::{ErrorKind, FieldError};
pub(crate) use meta::{
    join, keep_system_fields, tells_repeats, validate_create, validate_embedded, validate_update,
    validate_update_of_any,
};
pub(crate) use names::{label_1035_errors, label_errors, label_key_errors, label_value_errors, subdomain_errors};

use crate::kinds::Resource;
use crate::object::Object;

/// What is written, for the rules of its kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written<'a> {
    pub(crate) new: &'a Object,
    /// What it replaces; nothing if it is new.
    pub(crate) old: Option<&'a Object>,
    /// Only the status is written.
    pub(crate) of_status: bool,
}

/// Checks `apiVersion` and `kind` of a custom resource, which its decoder lets through.
pub(crate) fn validate_type(resource: &Resource, api_version: &str, kind: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !resource.custom {
        return errors;
    }
    if kind != resource.kind {
        errors.push(FieldError::invalid("kind", kind, &format!("must be {}", resource.kind)));
    }
    let own = resource.api_version();
    if api_version != own {
        errors.push(FieldError::invalid(
            "apiVersion",
            api_version,
            &format!("must be {own}"),
        ));
    }
    errors
}

#[cfg(test)]
mod tests;
