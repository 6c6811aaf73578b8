//! `metadata.managedFields`: who owns which field of an object.
//!
//! [`track`] is the stage that each write passes through once its defaults are filled in and before the server's own
//! changes, which nobody owns: it gives what changed to the writer. [`apply`](apply::apply) is server-side apply: it merges
//! what a manager wants into the object, by [`structured`](crate::structured), and settles what it owns from then on.
//! Between writes the field is canonical bytes; [`entries`] reads them, one entry per manager, operation, version and
//! subresource. Fields that a write cannot change ([`reset`]) are never given to its manager.

mod apply;
mod entries;
mod last_applied;
mod reset;
mod scale;
mod update;
mod versions;

use std::borrow::Cow;

use jiff::Timestamp;

pub(crate) use apply::{ApplyError, Force, Live, apply};
pub(crate) use scale::{to_scale, to_workload};
pub(crate) use update::{keep_times, track};

use crate::gotext::{self, is_printable};
use crate::kinds::Resource;

/// The longest name of a manager, in bytes.
pub(crate) const MAX_MANAGER: usize = 128;

/// Who writes, what and when.
#[derive(Debug, Clone)]
pub(crate) struct WriteContext<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) manager: Cow<'a, str>,
    /// `status` …; empty for the main resource.
    pub(crate) subresource: &'a str,
    pub(crate) now: Timestamp,
}

/// The name of the manager: the `fieldManager` parameter, or what of the `User-Agent` up to the first `/` can be printed,
/// at most [`MAX_MANAGER`] bytes of it, `unknown` if that is empty.
pub(crate) fn manager_name<'a>(field_manager: Option<&'a str>, user_agent: &'a str) -> Cow<'a, str> {
    if let Some(name) = field_manager.filter(|name| !name.is_empty()) {
        return gotext::shown(name);
    }
    let prefix = user_agent.split('/').next().unwrap_or_default();
    let mut name = String::new();
    for char in prefix.chars().filter(|char| is_printable(*char)) {
        if name.len() + char.len_utf8() > MAX_MANAGER {
            break;
        }
        name.push(char);
    }
    match name.as_str() {
        "" => Cow::Borrowed("unknown"),
        same if same == prefix => Cow::Borrowed(prefix),
        _ => Cow::Owned(name),
    }
}

#[cfg(test)]
mod tests;
