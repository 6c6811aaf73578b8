//! The built-in kinds, from the generated table of discovery and behaviour facts.

use std::sync::Arc;

use super::{
    DeleteReturns, FieldSelectors, GenerationMode, Group, GroupVersion, Name, NameValidation, Policy, Propagation,
    Resource, Schema, Scope, SelectableField, StatusPolicy, StorageId, Structures, Subresource, TableColumn, Verbs,
};
use crate::codec::{TypeId, type_of};
use crate::convert::{self, Settled, StoredAs};

/// One row of the generated table.
struct BuiltIn {
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    singular: &'static str,
    kind: &'static str,
    namespaced: bool,
    verbs: &'static [&'static str],
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
    type_id: TypeId,
    /// The place among the types that structured merge knows.
    structure: Option<u16>,
    /// Name, kind, group, version, verbs.
    subresources: &'static [(
        &'static str,
        &'static str,
        &'static str,
        &'static str,
        &'static [&'static str],
    )],
    /// Absent for resources that store nothing (reviews, bindings).
    facts: Option<Facts>,
}

/// The behaviour facts of a row, in the words of the facts file.
#[expect(clippy::struct_excessive_bools, reason = "a row of the facts file")]
struct Facts {
    generation: &'static str,
    unconditional_update: bool,
    put_creates: bool,
    status_subresource: bool,
    status_kept: bool,
    status_labels: bool,
    status_annotations: bool,
    status_finalizers: bool,
    graceful: bool,
    delete_returns: &'static str,
    propagation: &'static str,
    name_validation: &'static str,
    field_selectors: &'static [&'static str],
    field_selector_error: &'static str,
    /// Name, type, format, priority.
    columns: &'static [(&'static str, &'static str, &'static str, i32)],
    finalizers: &'static [&'static str],
    etcd_prefix: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/resources.rs"));

const DEFAULT_SELECTOR_ERROR: &str = r#""X" is not a known field selector: only "metadata.name", "metadata.namespace""#;

/// All built-in groups, in discovery order.
pub(super) fn groups() -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::with_capacity(24);
    for row in BUILT_INS {
        if groups.last().is_none_or(|group| group.name != row.group) {
            groups.push(Group {
                name: row.group.into(),
                versions: Vec::with_capacity(2),
            });
        }
        let Some(group) = groups.last_mut() else { continue };
        if group
            .versions
            .last()
            .is_none_or(|version| version.version != row.version)
        {
            group.versions.push(GroupVersion {
                version: row.version.into(),
                resources: Vec::new(),
            });
        }
        if let Some(version) = group.versions.last_mut() {
            version.resources.push(Arc::new(resource(row)));
        }
    }
    groups
}

/// Whether there is a built-in resource of this kind whose objects can be listed.
pub(crate) fn is_listed_kind(group: &str, version: &str, kind: &str) -> bool {
    BUILT_INS
        .iter()
        .any(|row| (row.group, row.version, row.kind) == (group, version, kind) && row.verbs.contains(&"list"))
}

/// The resource of a kind that is the one of `of` in another version, or in another group that shares its storage.
pub(crate) fn version_of(of: &Resource, group: &str, version: &str, kind: &str) -> Option<Resource> {
    let storage = |row: &BuiltIn| row.facts.as_ref().map(|facts| facts.etcd_prefix);
    let row = BUILT_INS
        .iter()
        .find(|row| (row.group, row.version, row.kind) == (group, version, kind));
    row.filter(|row| storage(row) == Some(&*of.storage.0)).map(resource)
}

/// The built-in resource of a kind.
pub(crate) fn built_in(group: &str, version: &str, kind: &str) -> Option<Resource> {
    let row = BUILT_INS
        .iter()
        .find(|row| (row.group, row.version, row.kind) == (group, version, kind));
    row.map(resource)
}

/// What a body of this kind is read as that is posted to a subresource: the kind is served nowhere, and stores nothing.
pub(crate) fn of_body(group: &'static str, version: &'static str, kind: &'static str) -> Option<Resource> {
    let row = BuiltIn {
        group,
        version,
        plural: "",
        singular: "",
        kind,
        namespaced: true,
        verbs: &["create"],
        short_names: &[],
        categories: &[],
        type_id: type_of(group, version, kind)?,
        structure: None,
        subresources: &[],
        facts: None,
    };
    Some(resource(&row))
}

/// Whether a version of a group is one of the built-in ones.
pub(crate) fn is_built_in_version(group: &str, version: &str) -> bool {
    BUILT_INS.iter().any(|row| row.group == group && row.version == version)
}

fn names(names: &[&'static str]) -> Vec<Name> {
    names.iter().map(|name| Name::Borrowed(name)).collect()
}

fn resource(row: &BuiltIn) -> Resource {
    let storage = row.facts.as_ref().map_or_else(
        || Name::Owned(format!("/registry/{}/{}", row.group, row.plural)),
        |facts| Name::Borrowed(facts.etcd_prefix),
    );
    Resource {
        group: row.group.into(),
        version: row.version.into(),
        plural: row.plural.into(),
        singular: row.singular.into(),
        kind: row.kind.into(),
        list_kind: Name::Owned(format!("{}List", row.kind)),
        scope: if row.namespaced {
            Scope::Namespaced
        } else {
            Scope::Cluster
        },
        verbs: Verbs::from_names(row.verbs.iter().copied()),
        short_names: names(row.short_names),
        categories: names(row.categories),
        subresources: row
            .subresources
            .iter()
            .map(|&(name, kind, group, version, verbs)| Subresource {
                name: name.into(),
                kind: kind.into(),
                group: group.into(),
                version: version.into(),
                verbs: Verbs::from_names(verbs.iter().copied()),
            })
            .collect(),
        stored_as: stored_as(row, &storage),
        storage: StorageId(storage),
        policy: policy_of(row),
        deprecation: deprecation(row).map(Name::Borrowed),
        schema: Schema::Typed(row.type_id),
        structures: Structures::of_built_in(row.structure),
        defined: None,
        custom: false,
    }
}

/// The scale of a workload as a resource of its own: a kind of another group, which the workload's path serves.
pub(crate) fn scale() -> Resource {
    let (type_id, structure) = SCALE;
    Resource {
        group: "autoscaling".into(),
        version: "v1".into(),
        plural: "scales".into(),
        singular: "scale".into(),
        kind: "Scale".into(),
        list_kind: "ScaleList".into(),
        scope: Scope::Namespaced,
        verbs: Verbs::default(),
        short_names: Vec::new(),
        categories: Vec::new(),
        subresources: Vec::new(),
        storage: StorageId("".into()),
        stored_as: None,
        policy: Policy {
            table: [
                ("Name", "string"),
                ("Desired", "integer"),
                ("Available", "integer"),
                ("Age", "string"),
            ]
            .map(|(name, kind)| TableColumn {
                name: name.into(),
                kind: kind.into(),
                format: "".into(),
                description: "".into(),
                priority: 0,
                json_path: None,
            })
            .into(),
            ..stateless_policy()
        },
        deprecation: None,
        schema: Schema::Typed(type_id),
        structures: Structures::of_built_in(Some(structure)),
        defined: None,
        custom: false,
    }
}

fn policy_of(row: &BuiltIn) -> Policy {
    let mut policy = row.facts.as_ref().map_or_else(stateless_policy, policy);
    if (row.group, row.plural) == ("discovery.k8s.io", "endpointslices") {
        policy.generation = GenerationMode::ManagedWithLabels;
    }
    policy
}

/// What every request for an old kind warns of.
fn deprecation(row: &BuiltIn) -> Option<&'static str> {
    match (row.group, row.plural) {
        ("", "endpoints") => Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
        ("", "componentstatuses") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        _ => None,
    }
}

/// How a resource is stored whose objects another one stores: the first row with that storage is the stored version.
fn stored_as(row: &BuiltIn, storage: &str) -> Option<StoredAs> {
    let (converter, settled) = convert::built_in(row.group, row.version, row.plural)?;
    let mut stored = BUILT_INS.iter().filter_map(|row| Some((row, row.facts.as_ref()?)));
    let (row, facts) = stored.find(|(_, facts)| facts.etcd_prefix == storage)?;
    Some(StoredAs {
        converter,
        fields: policy(facts).field_selectors.fields,
        settled_in: (settled == Settled::Stored).then(|| Box::new(resource(row))),
    })
}

/// The policy of a resource that stores nothing.
fn stateless_policy() -> Policy {
    Policy {
        generation: GenerationMode::Client,
        unconditional_update: false,
        put_creates: false,
        status: StatusPolicy {
            kept_on_create: true,
            ..StatusPolicy::default()
        },
        graceful_deletion: false,
        delete_returns: DeleteReturns::Status,
        default_propagation: Propagation::Unsupported,
        name_validation: NameValidation::PathSegment,
        field_selectors: FieldSelectors {
            fields: Vec::new(),
            error: DEFAULT_SELECTOR_ERROR.into(),
        },
        table: Vec::new(),
        finalizers_on_create: Vec::new(),
    }
}

fn policy(facts: &Facts) -> Policy {
    Policy {
        generation: match facts.generation {
            "managed" => GenerationMode::Managed,
            "managed+annotations" => GenerationMode::ManagedWithAnnotations,
            "fixed1" => GenerationMode::Fixed,
            "clientThenIncrement" => GenerationMode::ClientThenIncrement,
            _ => GenerationMode::Client,
        },
        unconditional_update: facts.unconditional_update,
        put_creates: facts.put_creates,
        status: StatusPolicy {
            subresource: facts.status_subresource,
            kept_on_create: facts.status_kept,
            writes_labels: facts.status_labels,
            writes_annotations: facts.status_annotations,
            writes_finalizers: facts.status_finalizers,
        },
        graceful_deletion: facts.graceful,
        delete_returns: if facts.delete_returns == "Status" {
            DeleteReturns::Status
        } else {
            DeleteReturns::Object
        },
        default_propagation: match facts.propagation {
            "orphan" => Propagation::Orphan,
            "unsupported" => Propagation::Unsupported,
            _ => Propagation::Background,
        },
        name_validation: match facts.name_validation {
            "label1123" => NameValidation::Label,
            "pathSegment" => NameValidation::PathSegment,
            // What is shorter is so by a rule of its kind.
            "subdomain" | "subdomain, max 52" => NameValidation::Subdomain,
            // The kind adds a rule of its own.
            special if special.contains("spec.names.plural") => NameValidation::Subdomain,
            _ => NameValidation::Special,
        },
        field_selectors: FieldSelectors {
            fields: facts
                .field_selectors
                .iter()
                .map(|label| SelectableField { label: (*label).into() })
                .collect(),
            error: facts.field_selector_error.into(),
        },
        table: facts
            .columns
            .iter()
            .map(|&(name, kind, format, priority)| TableColumn {
                name: name.into(),
                kind: kind.into(),
                format: format.into(),
                description: "".into(),
                priority,
                json_path: None,
            })
            .collect(),
        finalizers_on_create: names(facts.finalizers),
    }
}
