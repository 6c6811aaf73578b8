//! A resource in the versions in which the managers of its objects speak of them.

use std::sync::Arc;

use crate::kinds::{Resource, version_of};
use crate::object::{Object, write_unmanaged};
use crate::structured::Schema;

/// One version of a resource.
pub(super) struct Version {
    pub(super) schema: Arc<Schema>,
    /// The resource in that version, if its objects look different there.
    other: Option<Resource>,
}

impl Version {
    /// The version that a manager names; `None` if there is none, so that what it says means nothing.
    pub(super) fn find(of: &Resource, api_version: &str) -> Option<Self> {
        if of.custom {
            let found = of.structures.versions.iter().find(|(name, _)| name == api_version);
            return found.map(|(_, schema)| Self {
                schema: Arc::clone(schema),
                other: None,
            });
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        // Both groups of events have a kind of the same name, as have all versions of any other.
        let other = version_of(of, group, version, &of.kind)?;
        Some(Self {
            schema: Arc::clone(&other.structures.own),
            other: Some(other),
        })
    }

    /// An object of the resource as a document of this version.
    pub(super) fn document(&self, of: &Resource, object: &Object) -> Vec<u8> {
        let mut out = Vec::new();
        match &self.other {
            Some(other) => write_unmanaged(&other.to_served(of.to_stored(object).into_owned()), &mut out),
            None => write_unmanaged(object, &mut out),
        }
        out
    }
}
