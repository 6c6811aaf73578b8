//! `metadata.managedFields`: the stage of a write that records who owns which field.
//!
//! Every write passes through [`track`] inside its transaction, after the object is final and before it is compared
//! with the stored one. Ownership is not computed yet: the stage keeps the field out of every stored object, so that
//! no-op detection does not see it.

use jiff::Timestamp;

use crate::object::Object;

/// How a manager wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Apply,
    Update,
}

/// Who writes, how and when.
#[derive(Debug, Clone)]
pub(crate) struct WriteContext<'a> {
    pub(crate) manager: &'a str,
    pub(crate) operation: Operation,
    /// `status`, `scale` …; empty for the main resource.
    pub(crate) subresource: &'a str,
    /// The version of the request.
    pub(crate) api_version: &'a str,
    pub(crate) now: Timestamp,
}

/// Records the write in `new`. `old` is the stored object, `None` on create.
pub(crate) fn track(_context: &WriteContext<'_>, _old: Option<&Object>, new: &mut Object) {
    new.meta.managed_fields = None;
}

/// The name of the manager: the `fieldManager` parameter, or the `User-Agent` up to the first `/`, at most 128 bytes,
/// `unknown` if that is empty.
pub(crate) fn manager_name<'a>(_field_manager: Option<&'a str>, _user_agent: Option<&'a str>) -> &'a str {
    unimplemented!()
}
