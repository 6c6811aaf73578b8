//! `fieldSelector=`.

use super::SelectorError;
use crate::{
    kinds::{Name, Resource},
    object::Object,
};

/// The values of an object's selectable fields; a missing one is the empty string, as on the real server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FieldSet {
    /// Only non-empty values, without `metadata.name` and `metadata.namespace`.
    values: Vec<(Name, String)>,
}

impl FieldSet {
    /// Takes the selectable fields of `resource` from an object.
    pub(crate) fn of(_resource: &Resource, _object: &Object) -> Self {
        unimplemented!()
    }
}

/// A parsed field selector: all terms must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FieldSelector {}

impl FieldSelector {
    /// Parses the query parameter for a resource; the empty text selects everything.
    ///
    /// # Errors
    ///
    /// The parser's text, or the resource's text about a label that it does not know.
    pub(crate) fn parse(_text: &str, _resource: &Resource) -> Result<Self, SelectorError> {
        unimplemented!()
    }

    /// Whether every object matches.
    pub(crate) fn is_everything(&self) -> bool {
        unimplemented!()
    }

    /// The value that `label` must have, if the selector says so with `=`.
    pub(crate) fn requires_exact(&self, _label: &str) -> Option<&str> {
        unimplemented!()
    }

    /// Whether an object of this name, namespace and these fields matches.
    pub(crate) fn matches(&self, _name: &str, _namespace: &str, _fields: &FieldSet) -> bool {
        unimplemented!()
    }
}
