//! The set of served resources, replaced as a whole when a custom resource definition changes.

use std::sync::{Arc, PoisonError, RwLock};

use super::{Name, Resource, Scope, TableColumn, builtin, custom};
use crate::schemas::Shape;
use crate::structured;

/// One served version of a custom resource.
#[derive(Debug, Clone)]
pub(crate) struct CustomVersion {
    pub(crate) name: String,
    pub(crate) status_subresource: bool,
    pub(crate) scale_subresource: bool,
    /// What requests for a version that is going to be removed warn of.
    pub(crate) deprecation: Option<String>,
    /// JSON paths (`.spec.color`), which are also the selector labels without the first dot.
    pub(crate) selectable_fields: Vec<String>,
    /// `additionalPrinterColumns`; empty for the default table (name and age).
    pub(crate) columns: Vec<TableColumn>,
    /// The types of its objects.
    pub(crate) structure: Arc<structured::Schema>,
    /// The form of its objects.
    pub(crate) shape: Arc<Shape>,
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
    /// The types of all versions, served or not, by `group/version`.
    pub(crate) structures: Arc<[(String, Arc<structured::Schema>)]>,
    /// The form in which objects are stored.
    pub(crate) stored: Arc<Shape>,
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

impl Group {
    /// Whether all its resources are custom ones.
    pub(crate) fn is_custom(&self) -> bool {
        let mut resources = self.versions.iter().flat_map(|version| &version.resources);
        resources.all(|resource| resource.custom)
    }
}

/// An immutable snapshot of all served resources.
#[derive(Debug)]
pub(crate) struct Kinds {
    groups: Vec<Group>,
    /// How many changes there have been.
    changes: u64,
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
    current: RwLock<Arc<Kinds>>,
}

impl Registry {
    /// The built-in kinds.
    pub(crate) fn new() -> Self {
        Self {
            current: RwLock::new(Arc::new(Kinds {
                groups: builtin::groups(),
                changes: 0,
            })),
        }
    }

    /// The resources as they are now.
    pub(crate) fn snapshot(&self) -> Arc<Kinds> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Serves a custom resource, in place of an earlier definition of the same `plural.group`.
    pub(crate) fn install(&self, custom: &CustomResource) {
        self.change(|groups, number| {
            remove(groups, &custom.group, &custom.plural);
            for version in &custom.versions {
                add(groups, Arc::new(custom::resource(custom, version, number)));
            }
        });
    }

    /// Serves a custom resource no more. Returns whether there was one. Built-in kinds stay.
    pub(crate) fn uninstall(&self, group: &str, plural: &str) -> bool {
        let mut removed = false;
        self.change(|groups, _| removed = remove(groups, group, plural));
        removed
    }

    /// Replaces the snapshot; `change` is told the number of the change. Writers are ordered by the lock, so that no
    /// change is lost.
    fn change(&self, change: impl FnOnce(&mut Vec<Group>, u64)) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let mut groups = current.groups.clone();
        let changes = current.changes + 1;
        change(&mut groups, changes);
        *current = Arc::new(Kinds { groups, changes });
    }
}

fn add(groups: &mut Vec<Group>, resource: Arc<Resource>) {
    let at = groups
        .iter()
        .position(|group| group.name == resource.group)
        .unwrap_or_else(|| {
            groups.push(Group {
                name: resource.group.clone(),
                versions: Vec::new(),
            });
            groups.len() - 1
        });
    let versions = &mut groups[at].versions;
    let at = versions
        .iter()
        .position(|version| version.version == resource.version)
        .unwrap_or_else(|| {
            versions.push(GroupVersion {
                version: resource.version.clone(),
                resources: Vec::new(),
            });
            versions.len() - 1
        });
    versions[at].resources.push(resource);
    // Groups of custom resources list their versions by priority: v2, v1, v1beta1, v1alpha1, then the others.
    if versions
        .iter()
        .flat_map(|version| &version.resources)
        .all(|resource| resource.custom)
    {
        versions.sort_by(|a, b| {
            version_priority(&b.version)
                .cmp(&version_priority(&a.version))
                .then(a.version.cmp(&b.version))
        });
    }
}

fn remove(groups: &mut Vec<Group>, group: &str, plural: &str) -> bool {
    let Some(at) = groups.iter().position(|g| g.name == group) else {
        return false;
    };
    let mut removed = false;
    for version in &mut groups[at].versions {
        version.resources.retain(|resource| {
            let gone = resource.custom && resource.plural == plural;
            removed |= gone;
            !gone
        });
    }
    groups[at].versions.retain(|version| !version.resources.is_empty());
    if groups[at].versions.is_empty() {
        groups.remove(at);
    }
    removed
}

/// The rank of a version name: stability (2 stable, 1 beta, 0 alpha), major, minor; `None` for other names.
fn version_priority(version: &str) -> Option<(u8, u32, u32)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let major = rest[..digits].parse().ok()?;
    let rest = &rest[digits..];
    if rest.is_empty() {
        return Some((2, major, 0));
    }
    let (stability, minor) = rest
        .strip_prefix("beta")
        .map(|minor| (1, minor))
        .or_else(|| rest.strip_prefix("alpha").map(|minor| (0, minor)))?;
    Some((stability, major, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{DeleteReturns, GenerationMode, Propagation, StorageId, Verb};
    use crate::negotiate::Representation;
    use crate::view::{EventType, View};

    fn widgets(versions: &[&str]) -> CustomResource {
        CustomResource {
            group: "example.com".into(),
            plural: "widgets".into(),
            singular: "widget".into(),
            kind: "Widget".into(),
            list_kind: "WidgetList".into(),
            scope: Scope::Namespaced,
            short_names: vec!["wg".into()],
            categories: vec!["all".into()],
            versions: versions
                .iter()
                .map(|name| CustomVersion {
                    name: (*name).into(),
                    status_subresource: true,
                    scale_subresource: false,
                    deprecation: None,
                    selectable_fields: vec![".spec.color".into()],
                    columns: Vec::new(),
                    structure: Arc::new(structured::Schema::deduced()),
                    shape: Arc::default(),
                })
                .collect(),
            structures: Arc::new([]),
            stored: Arc::default(),
        }
    }

    #[test]
    fn registry_has_the_built_in_kinds_with_their_facts() {
        let kinds = Registry::new().snapshot();
        let pods = kinds.resource("", "v1", "pods").unwrap();
        assert_eq!(
            (&*pods.kind, &*pods.list_kind, pods.namespaced()),
            ("Pod", "PodList", true)
        );
        assert!(pods.policy.graceful_deletion);
        assert_eq!(pods.policy.delete_returns, DeleteReturns::Object);
        assert!(pods.policy.field_selectors.supports("spec.nodeName"));
        assert_eq!(
            pods.policy.field_selectors.unsupported("spec.x"),
            "field label not supported: spec.x"
        );
        assert_eq!(
            pods.subresource("log").unwrap().verbs.iter().collect::<Vec<_>>(),
            [Verb::Get]
        );
        let maps = kinds.resource("", "v1", "configmaps").unwrap();
        assert_eq!(
            maps.policy.field_selectors.unsupported("spec.x"),
            r#""spec.x" is not a known field selector: only "metadata.name", "metadata.namespace""#
        );
        let deployments = kinds.resource_of_kind("apps", "v1", "Deployment").unwrap();
        assert_eq!(deployments.policy.generation, GenerationMode::ManagedWithAnnotations);
        assert_eq!(deployments.qualified_plural(), "deployments.apps");
        let jobs = kinds.resource("batch", "v1", "jobs").unwrap();
        assert_eq!(jobs.policy.default_propagation, Propagation::Orphan);
        assert_eq!(
            jobs.policy.field_selectors.unsupported("a"),
            r#"field label "a" not supported for Job"#
        );
        // Events of both groups, and both versions of autoscalers, share their storage.
        let storage =
            |group: &str, version: &str, plural: &str| kinds.resource(group, version, plural).unwrap().storage.clone();
        assert_eq!(storage("", "v1", "events"), storage("events.k8s.io", "v1", "events"));
        assert_eq!(
            storage("", "v1", "services"),
            StorageId("/registry/services/specs".into())
        );
        assert!(
            kinds
                .resource("", "v1", "namespaces")
                .unwrap()
                .policy
                .finalizers_on_create
                .is_empty()
        );
        assert_eq!(
            kinds
                .resource("", "v1", "persistentvolumeclaims")
                .unwrap()
                .policy
                .finalizers_on_create,
            ["kubernetes.io/pvc-protection"]
        );
    }

    #[test]
    fn registry_gives_each_change_of_a_definition_encoded_events_of_its_own() {
        let registry = Registry::new();
        let view = || {
            let resource = registry.snapshot().resource("example.com", "v1", "widgets").cloned();
            View::new(resource.unwrap(), Representation::Full, jiff::Timestamp::UNIX_EPOCH)
        };
        registry.install(&widgets(&["v1"]));
        let first = view();
        let encoding = |view: &View| view.encoding(EventType::Added, false);
        // What happens to others does not matter to watches of this one: they share what is encoded.
        let mut other = widgets(&["v1"]);
        other.plural = "gizmos".into();
        registry.install(&other);
        registry.uninstall("example.com", "gizmos");
        assert_eq!(encoding(&view()), encoding(&first));
        // The same version by another schema may prune and default differently.
        registry.install(&widgets(&["v1"]));
        let second = view();
        assert_ne!(encoding(&second), encoding(&first));
        registry.uninstall("example.com", "widgets");
        registry.install(&widgets(&["v1"]));
        assert_ne!(encoding(&view()), encoding(&first));
        assert_ne!(encoding(&view()), encoding(&second));
    }

    #[test]
    fn registry_serves_a_custom_resource_until_it_is_uninstalled() {
        let registry = Registry::new();
        let before = registry.snapshot();
        registry.install(&widgets(&["v1alpha1", "v1", "v2", "v1beta1"]));
        let after = registry.snapshot();
        assert!(
            before.resource("example.com", "v1", "widgets").is_none(),
            "a snapshot never changes"
        );
        let widget = after.resource("example.com", "v2", "widgets").unwrap();
        assert!(widget.policy.field_selectors.supports("spec.color"));
        assert_eq!(
            widget.policy.field_selectors.unsupported("a"),
            "field label not supported: a"
        );
        assert!(widget.policy.field_selectors.supports("metadata.namespace"));
        let mut cluster = widgets(&["v1"]);
        cluster.plural = "gizmos".into();
        cluster.scope = Scope::Cluster;
        registry.install(&cluster);
        let gizmo = registry.snapshot();
        let selectors = &gizmo
            .resource("example.com", "v1", "gizmos")
            .unwrap()
            .policy
            .field_selectors;
        assert!(selectors.supports("metadata.name") && !selectors.supports("metadata.namespace"));
        assert!(registry.uninstall("example.com", "gizmos"));
        let versions: Vec<_> = after
            .group("example.com")
            .unwrap()
            .versions
            .iter()
            .map(|v| v.version.to_string())
            .collect();
        assert_eq!(versions, ["v2", "v1", "v1beta1", "v1alpha1"]);
        registry.install(&widgets(&["v1"]));
        assert!(registry.snapshot().resource("example.com", "v2", "widgets").is_none());
        assert!(registry.uninstall("example.com", "widgets"));
        assert!(!registry.uninstall("example.com", "widgets"));
        assert!(!registry.uninstall("", "pods"));
        assert!(registry.snapshot().group("example.com").is_none());
    }
}
