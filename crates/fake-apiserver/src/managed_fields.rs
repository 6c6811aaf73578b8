//! `metadata.managedFields`: the stage of a write that records who owns which field.
//!
//! Every write passes through [`track`] inside its transaction, after the object is final and before it is compared
//! with the stored one. Ownership is not computed yet: the stage keeps the field out of every stored object, so that
//! no-op detection does not see it.

use jiff::Timestamp;

use crate::object::Object;

/// The longest manager name that is taken from a `User-Agent`.
const MAX_MANAGER: usize = 128;

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

/// The name of the manager: the `fieldManager` parameter, or the `User-Agent` up to the first `/`, at most 128
/// characters of it, `unknown` if that is empty.
pub(crate) fn manager_name<'a>(field_manager: Option<&'a str>, user_agent: Option<&'a str>) -> &'a str {
    if let Some(name) = field_manager.filter(|name| !name.is_empty()) {
        return name;
    }
    let agent = user_agent.unwrap_or_default();
    let name = agent.split('/').next().unwrap_or_default();
    let end = name.char_indices().nth(MAX_MANAGER).map_or(name.len(), |(at, _)| at);
    if name.is_empty() { "unknown" } else { &name[..end] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manager_name_comes_from_the_parameter_or_the_user_agent() {
        // [F26]
        assert_eq!(manager_name(Some("m"), Some("kubectl/v1")), "m");
        assert_eq!(manager_name(Some(""), Some("kubectl/v1.32 (linux/amd64)")), "kubectl");
        assert_eq!(manager_name(None, Some("/x")), "unknown");
        assert_eq!(manager_name(None, None), "unknown");
        assert_eq!(manager_name(None, Some(&"é".repeat(200))).chars().count(), 128);
    }

    #[test]
    fn track_keeps_the_field_out_of_the_stored_object() {
        let mut new = Object::default();
        new.meta.managed_fields = Some(bytes::Bytes::from_static(b"[]"));
        let context = WriteContext {
            manager: "m",
            operation: Operation::Update,
            subresource: "",
            api_version: "v1",
            now: Timestamp::UNIX_EPOCH,
        };
        track(&context, None, &mut new);
        assert_eq!(new.meta.managed_fields, None);
    }
}
