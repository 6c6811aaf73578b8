//! What a custom resource definition makes of a [`Resource`]: the behaviour that all custom resources share.

use std::sync::Arc;

use super::{
    CustomResource, CustomVersion, Defined, DeleteReturns, FieldSelectors, GenerationMode, Name, NameValidation,
    Policy, Propagation, Resource, Schema, Scope, SelectableField, StatusPolicy, StorageId, Structures, Subresource,
    TableColumn, Verb, Verbs,
};

/// The resource of one version; `number` is that of the definition.
pub(super) fn resource(custom: &CustomResource, version: &CustomVersion, number: u64) -> Resource {
    let owned = |names: &[String]| names.iter().cloned().map(Name::Owned).collect();
    let mut subresources = Vec::new();
    let verbs = Verbs::of(&[Verb::Get, Verb::Patch, Verb::Update]);
    if version.status_subresource {
        subresources.push(Subresource {
            name: "status".into(),
            kind: custom.kind.clone().into(),
            group: Name::default(),
            version: Name::default(),
            verbs,
        });
    }
    if version.scale_subresource {
        subresources.push(Subresource {
            name: "scale".into(),
            kind: "Scale".into(),
            group: "autoscaling".into(),
            version: "v1".into(),
            verbs,
        });
    }
    Resource {
        group: custom.group.clone().into(),
        version: version.name.clone().into(),
        plural: custom.plural.clone().into(),
        singular: custom.singular.clone().into(),
        kind: custom.kind.clone().into(),
        list_kind: custom.list_kind.clone().into(),
        scope: custom.scope,
        verbs: Verbs::ALL,
        short_names: owned(&custom.short_names),
        categories: owned(&custom.categories),
        subresources,
        storage: StorageId(Name::Owned(format!("/registry/{}/{}", custom.group, custom.plural))),
        stored_as: None,
        policy: policy(version, custom.scope),
        deprecation: version.deprecation.clone().map(Name::Owned),
        schema: Schema::Schemaless,
        defined: Some(Arc::new(Defined {
            number,
            shape: Arc::clone(&version.shape),
            stored: Arc::clone(&custom.stored),
            shows_stored: version.shape.is_same(&custom.stored),
            selectable: selectable(custom),
        })),
        structures: Structures {
            own: Arc::clone(&version.structure),
            versions: custom.structures.clone(),
        },
        custom: true,
    }
}

/// The selectable fields of all versions: what is stored is selected from by any of them.
fn selectable(custom: &CustomResource) -> Arc<[SelectableField]> {
    let mut labels: Vec<&str> = custom
        .versions
        .iter()
        .flat_map(|version| &version.selectable_fields)
        .map(|path| path.trim_start_matches('.'))
        .collect();
    labels.sort_unstable();
    labels.dedup();
    let field = |label: &str| SelectableField {
        label: Name::Owned(label.to_owned()),
    };
    labels.into_iter().map(field).collect()
}

fn policy(version: &CustomVersion, scope: Scope) -> Policy {
    let namespace = (scope == Scope::Namespaced).then_some("metadata.namespace");
    let standard = std::iter::once("metadata.name").chain(namespace);
    let standard = standard.map(|label| SelectableField { label: label.into() });
    let selectable = version.selectable_fields.iter().map(|path| SelectableField {
        label: Name::Owned(path.trim_start_matches('.').to_owned()),
    });
    Policy {
        generation: GenerationMode::Managed,
        unconditional_update: false,
        put_creates: false,
        status: StatusPolicy {
            subresource: version.status_subresource,
            ..StatusPolicy::default()
        },
        graceful_deletion: false,
        delete_returns: DeleteReturns::Status,
        default_propagation: Propagation::Background,
        name_validation: NameValidation::Subdomain,
        field_selectors: FieldSelectors {
            fields: standard.chain(selectable).collect(),
            error: "field label not supported: X".into(),
        },
        table: table(version),
        finalizers_on_create: Vec::new(),
    }
}

/// The name, then the definition's columns, or the age when it has none.
fn table(version: &CustomVersion) -> Vec<TableColumn> {
    let column =
        |name: &'static str, kind: &'static str, format: &'static str, path: Option<&'static str>| TableColumn {
            name: name.into(),
            kind: kind.into(),
            format: format.into(),
            description: "".into(),
            priority: 0,
            json_path: path.map(Name::Borrowed),
        };
    let mut columns = vec![column("Name", "string", "name", None)];
    if version.columns.is_empty() {
        columns.push(column("Age", "date", "", Some(".metadata.creationTimestamp")));
    } else {
        columns.extend(version.columns.iter().cloned());
    }
    columns
}
