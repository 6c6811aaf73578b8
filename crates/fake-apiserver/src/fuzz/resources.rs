//! The resources that targets decode for.

use std::sync::{Arc, LazyLock};

use crate::codec::TypeId;
use crate::kinds::{CustomResource, CustomVersion, Registry, Resource, Schema, Scope};
use crate::schemas::Shape;
use crate::structured;

/// Built-in kinds of many forms: maps, lists with one key and with two, sets, unions, quantities, times, schemas.
static BUILT_IN: LazyLock<Vec<Arc<Resource>>> = LazyLock::new(|| {
    let kinds = Registry::new().snapshot();
    let versions = kinds.groups().iter().flat_map(|group| &group.versions);
    let resources = versions.flat_map(|version| &version.resources);
    resources
        .filter(|resource| matches!(resource.schema, Schema::Typed(_)))
        .cloned()
        .collect()
});

/// The built-in kind that a byte picks.
pub(super) fn any(pick: u8) -> &'static Arc<Resource> {
    &BUILT_IN[usize::from(pick) % BUILT_IN.len()]
}

/// A built-in kind, by its plural.
pub(super) fn built_in(plural: &str) -> &'static Arc<Resource> {
    let found = BUILT_IN.iter().find(|resource| resource.plural == plural);
    found.expect("a built-in kind")
}

/// The built-in kind that a letter of a seed picks, and all others those of its table.
pub(super) fn picked(pick: u8) -> &'static Arc<Resource> {
    match pick {
        b'p' => built_in("pods"),
        b'c' => built_in("configmaps"),
        b's' => built_in("services"),
        b'd' => built_in("deployments"),
        b'x' => built_in("customresourcedefinitions"),
        b'e' => built_in("events"),
        b'l' => built_in("leases"),
        b'q' => built_in("resourcequotas"),
        other => any(other),
    }
}

/// The type of a built-in kind.
pub(super) fn type_of(resource: &Resource) -> Option<TypeId> {
    match resource.schema {
        Schema::Typed(id) => Some(id),
        Schema::Schemaless => None,
    }
}

/// The kind `Widget` (`widgets.example.com`, version `v1`) with objects of this schema; none if that cannot be read.
pub(super) fn custom(schema: &[u8]) -> Option<Arc<Resource>> {
    let shape = Arc::new(Shape::new(schema, None)?);
    let structure = serde_json::from_slice(schema).ok();
    let structure = Arc::new(structured::of_definition(structure.as_ref()));
    let registry = Registry::new();
    registry.install(&CustomResource {
        group: "example.com".into(),
        plural: "widgets".into(),
        singular: "widget".into(),
        kind: "Widget".into(),
        list_kind: "WidgetList".into(),
        scope: Scope::Namespaced,
        short_names: Vec::new(),
        categories: Vec::new(),
        versions: vec![CustomVersion {
            name: "v1".into(),
            status_subresource: true,
            scale_subresource: false,
            deprecation: None,
            selectable_fields: Vec::new(),
            columns: Vec::new(),
            structure: Arc::clone(&structure),
            shape: Arc::clone(&shape),
        }],
        structures: Arc::new([("example.com/v1".to_owned(), structure)]),
        stored: shape,
    });
    let kinds = registry.snapshot();
    kinds.resource("example.com", "v1", "widgets").cloned()
}
