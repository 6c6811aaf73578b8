//! How a resource behaves where resources differ. Verbs read these values; they never match on a kind.

use super::Name;
use crate::gotext::go_quote;

/// Who sets `metadata.generation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GenerationMode {
    /// 1 on create; +1 when anything but metadata and status changes, and when deletion starts.
    Managed,
    /// As `Managed`, and +1 when annotations change.
    ManagedWithAnnotations,
    /// As `Managed`, and +1 when labels change.
    ManagedWithLabels,
    /// Always 1.
    Fixed,
    /// The value that the client sends on create is stored and never changes.
    Client,
    /// The client's value on create, +1 on a spec change.
    ClientThenIncrement,
}

/// What a delete that removes the object at once answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeleteReturns {
    Status,
    Object,
}

/// What happens to dependents when a delete says nothing about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Orphan,
    /// The resource knows no propagation policy (events).
    Unsupported,
}

/// The rule for `metadata.name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameValidation {
    /// RFC 1123 subdomain.
    Subdomain,
    /// RFC 1123 label.
    Label,
    /// Anything that can be one segment of a path.
    PathSegment,
    /// A rule that needs the body (CRDs, API services, trust bundles, IP addresses): only the segment rule here.
    Special,
}

/// The rules of the status subresource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about a resource, named at each use"
)]
pub(crate) struct StatusPolicy {
    /// There is a `/status`: the main resource ignores the status, and `/status` the rest.
    pub(crate) subresource: bool,
    /// Create keeps the client's status all the same.
    pub(crate) kept_on_create: bool,
    /// What a write to `/status` also changes in the metadata.
    pub(crate) writes_labels: bool,
    pub(crate) writes_annotations: bool,
    pub(crate) writes_finalizers: bool,
}

/// One column of the table representation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableColumn {
    pub(crate) name: Name,
    pub(crate) kind: Name,
    pub(crate) format: Name,
    /// Empty for built-in kinds.
    pub(crate) description: Name,
    pub(crate) priority: i32,
    /// For a custom resource's printer column: the JSON path of the cell.
    pub(crate) json_path: Option<Name>,
}

/// A label that a field selector may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SelectableField {
    pub(crate) label: Name,
}

/// The field selectors of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldSelectors {
    /// Always has `metadata.name`, and `metadata.namespace` where the server accepts it.
    pub(crate) fields: Vec<SelectableField>,
    /// The text for any other label, in which `X` at `error_at` stands for the label.
    pub(crate) error: Name,
}

impl FieldSelectors {
    /// Whether a selector may name this label.
    pub(crate) fn supports(&self, label: &str) -> bool {
        self.fields.iter().any(|field| field.label == label)
    }

    /// The server's text about a label that it does not know.
    pub(crate) fn unsupported(&self, label: &str) -> String {
        // The marker is the only upper-case X in every text, quoted or at the end.
        if self.error.contains("\"X\"") {
            self.error.replacen("\"X\"", &go_quote(label), 1)
        } else {
            self.error.replacen('X', label, 1)
        }
    }
}

/// How a resource behaves where resources differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) generation: GenerationMode,
    /// An update without `resourceVersion` is accepted.
    pub(crate) unconditional_update: bool,
    /// An update of an absent object creates it.
    pub(crate) put_creates: bool,
    pub(crate) status: StatusPolicy,
    /// Delete waits for a grace period (pods).
    pub(crate) graceful_deletion: bool,
    pub(crate) delete_returns: DeleteReturns,
    pub(crate) default_propagation: Propagation,
    pub(crate) name_validation: NameValidation,
    pub(crate) field_selectors: FieldSelectors,
    pub(crate) table: Vec<TableColumn>,
    /// Finalizers that create adds to `metadata.finalizers`.
    pub(crate) finalizers_on_create: Vec<Name>,
}
