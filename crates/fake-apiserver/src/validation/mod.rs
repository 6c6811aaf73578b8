//! Validation of metadata: what a 422 says.
//!
//! Only rules that hold for every kind by its policy; validation of specs is a later step that adds to the same list
//! of [`FieldError`]s. Start at [`validate_create`].

mod field_error;

pub(crate) use field_error::{ErrorKind, FieldError, aggregate};

use crate::{kinds::Resource, object::Meta};

/// Checks the metadata of a new object (its name is set by now, generated or not).
pub(crate) fn validate_create(_resource: &Resource, _meta: &Meta) -> Vec<FieldError> {
    unimplemented!()
}

/// Checks the metadata of an update against the stored object. An absent field that the server keeps for the client
/// (uid, timestamps of creation and deletion) must have been filled in by the caller, with [`keep_system_fields`].
pub(crate) fn validate_update(_resource: &Resource, _new: &Meta, _old: &Meta) -> Vec<FieldError> {
    unimplemented!()
}

/// What an update silently takes over from the stored object before it is validated: creation time, self link,
/// deletion time and grace where the client left them out, uid where it is empty.
pub(crate) fn keep_system_fields(_new: &mut Meta, _old: &Meta) {
    unimplemented!()
}
