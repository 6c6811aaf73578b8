//! The set of served resources, replaced as a whole when a custom resource definition changes.

use std::sync::Arc;

use super::{Name, Resource, Scope, TableColumn};

/// One served version of a custom resource.
#[derive(Debug, Clone)]
pub(crate) struct CustomVersion {
    pub(crate) name: String,
    pub(crate) status_subresource: bool,
    pub(crate) scale_subresource: bool,
    /// JSON paths (`.spec.color`), which are also the selector labels without the first dot.
    pub(crate) selectable_fields: Vec<String>,
    /// `additionalPrinterColumns`; empty for the default table (name and age).
    pub(crate) columns: Vec<TableColumn>,
}

/// What a custom resource definition adds to the served kinds.
#[derive(Debug, Clone)]
pub(crate) struct CustomResource {
    pub(crate) group: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) scope: Scope,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    /// The served versions only, in the order of preference.
    pub(crate) versions: Vec<CustomVersion>,
}

/// One version of a group with its resources, in discovery order.
#[derive(Debug, Clone)]
pub(crate) struct GroupVersion {
    pub(crate) version: Name,
    pub(crate) resources: Vec<Arc<Resource>>,
}

/// One API group; the first version is the preferred one.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) name: Name,
    pub(crate) versions: Vec<GroupVersion>,
}

/// An immutable snapshot of all served resources.
#[derive(Debug)]
pub(crate) struct Kinds {
    groups: Vec<Group>,
}

impl Kinds {
    /// All groups in discovery order; the core group comes first and has the empty name.
    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The group of the given name.
    pub(crate) fn group(&self, group: &str) -> Option<&Group> {
        self.groups.iter().find(|g| g.name == group)
    }

    /// The resource at `/apis/<group>/<version>/<plural>`.
    pub(crate) fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        let group = self.group(group)?;
        let version = group.versions.iter().find(|v| v.version == version)?;
        version.resources.iter().find(|r| r.plural == plural)
    }

    /// The resource of the given kind.
    pub(crate) fn resource_of_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let group = self.group(group)?;
        let version = group.versions.iter().find(|v| v.version == version)?;
        version.resources.iter().find(|r| r.kind == kind)
    }
}

/// The server-wide set of served resources.
///
/// # Guarantees
///
/// A snapshot never changes; every change of the set makes a new one. Readers never wait for writers longer than a
/// pointer swap takes.
#[derive(Debug)]
pub(crate) struct Registry {
    current: std::sync::RwLock<Arc<Kinds>>,
}

impl Registry {
    /// The built-in kinds.
    pub(crate) fn new() -> Self {
        unimplemented!()
    }

    /// The resources as they are now.
    pub(crate) fn snapshot(&self) -> Arc<Kinds> {
        self.current
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }

    /// Serves a custom resource, in place of an earlier definition of the same `plural.group`.
    pub(crate) fn install(&self, _custom: &CustomResource) {
        unimplemented!()
    }

    /// Serves a custom resource no more. Returns whether there was one.
    pub(crate) fn uninstall(&self, _group: &str, _plural: &str) -> bool {
        unimplemented!()
    }
}
