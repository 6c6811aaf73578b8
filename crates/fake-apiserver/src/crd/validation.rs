//! What is wrong with a definition: names, scope and versions, in the order and with the texts of the real server.
//! Schemas are not looked at.

use super::{Spec, spec};
use crate::gotext::go_quote;
use crate::object::Object;
use crate::validation::{ErrorKind, FieldError};

/// What is wrong with a definition.
pub(crate) fn validate(object: &Object) -> Vec<FieldError> {
    let spec = spec(object).unwrap_or_default();
    let mut errors = Errors(Vec::new());
    let name = format!("{}.{}", spec.names.plural, spec.group);
    for (field, found) in [
        ("metadata.generateName", &object.meta.generate_name),
        ("metadata.name", &object.meta.name),
    ] {
        if !found.is_empty() && *found != name {
            errors.invalid(field, found, "must be spec.names.plural+\".\"+spec.group");
        }
    }
    if spec.group.is_empty() {
        errors.required("spec.group");
    }
    match spec.scope.as_str() {
        "" => errors.required("spec.scope"),
        "Cluster" | "Namespaced" => {}
        other => {
            let quoted = go_quote(other);
            let text = format!("Unsupported value: {quoted}: supported values: \"Cluster\", \"Namespaced\"");
            errors.add(ErrorKind::NotSupported, "spec.scope", text);
        }
    }
    versions(&spec, &mut errors);
    names(&spec, &mut errors);
    if !spec.versions.iter().any(|version| version.storage) {
        let text = "Invalid value: null: must have at least one stored version".to_owned();
        errors.add(ErrorKind::Invalid, "status.storedVersions", text);
    }
    errors.0
}

fn versions(spec: &Spec, errors: &mut Errors) {
    for (index, version) in spec.versions.iter().enumerate() {
        if !is_label(&version.name) {
            errors.invalid(&format!("spec.versions[{index}].name"), &version.name, LABEL);
            // The field of the oldest definitions, which the server fills in from the first version.
            if index == 0 {
                errors.invalid("spec.version", &version.name, LABEL);
            }
        }
        if version.schema.as_ref().is_none_or(|schema| schema.open_api.is_none()) {
            errors.required(&format!("spec.versions[{index}].schema.openAPIV3Schema"));
        }
    }
    let names: Vec<&str> = spec.versions.iter().map(|version| version.name.as_str()).collect();
    let value = if names.is_empty() {
        "null".to_owned()
    } else {
        format!("{names:?}")
    };
    let mut wrong = |what: &str| {
        errors.add(
            ErrorKind::Invalid,
            "spec.versions",
            format!("Invalid value: {value}: {what}"),
        );
    };
    if names
        .iter()
        .enumerate()
        .any(|(index, name)| names[..index].contains(name))
    {
        wrong("must contain unique version names");
    }
    if spec.versions.iter().filter(|version| version.storage).count() != 1 {
        wrong("must have exactly one version marked as storage version");
    }
}

fn names(spec: &Spec, errors: &mut Errors) {
    let names = &spec.names;
    let mut check = |field: &str, name: &str, mixed_case: bool| {
        let field = format!("spec.names.{field}");
        if name.is_empty() {
            errors.required(&field);
        } else if mixed_case && !is_label(&name.to_lowercase()) {
            errors.invalid(
                &field,
                name,
                &format!("may have mixed case, but should otherwise match: {LABEL}"),
            );
        } else if !mixed_case && !is_label(name) {
            errors.invalid(&field, name, LABEL);
        }
    };
    check("plural", &names.plural, false);
    check("singular", &names.singular, false);
    check("kind", &names.kind, true);
    check("listKind", &names.list_kind, true);
    for (index, name) in names.short_names.iter().enumerate() {
        check(&format!("shortNames[{index}]"), name, false);
    }
    for (index, name) in names.categories.iter().enumerate() {
        check(&format!("categories[{index}]"), name, false);
    }
}

const LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                     alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex \
                     used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// A DNS label that starts with a letter.
fn is_label(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    name.starts_with(|first: char| first.is_ascii_lowercase()) && !name.ends_with('-') && name.bytes().all(inner)
}

struct Errors(Vec<FieldError>);

impl Errors {
    fn add(&mut self, kind: ErrorKind, field: &str, message: String) {
        self.0.push(FieldError {
            kind,
            field: field.to_owned(),
            message,
        });
    }

    fn required(&mut self, field: &str) {
        self.add(ErrorKind::Required, field, "Required value".to_owned());
    }

    fn invalid(&mut self, field: &str, value: &str, why: &str) {
        self.add(
            ErrorKind::Invalid,
            field,
            format!("Invalid value: {}: {why}", go_quote(value)),
        );
    }
}
