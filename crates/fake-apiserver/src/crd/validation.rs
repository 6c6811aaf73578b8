//! What is wrong with a definition, in the order and with the texts of the real server. The certificates of webhooks are not
//! looked at.
//!
//! The real server keeps what all versions have in common beside them, and names it there. Start at [`validate`].

mod conversion;
mod parts;
mod schemas;

use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{AcceptedNames, nullable};
use crate::gotext::{self, go_quote};
use crate::json::{scan, write::quoted};
use crate::object::Object;
use crate::told::Told;
use crate::validation::{ErrorKind, FieldError, Written, label_1035_errors, subdomain_errors};

use conversion::Conversion;

/// The parts of a spec that are looked at.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec<'a> {
    group: String,
    names: AcceptedNames,
    scope: String,
    #[serde(borrow, deserialize_with = "nullable")]
    versions: Vec<Version<'a>>,
    conversion: Option<Conversion>,
    preserve_unknown_fields: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Version<'a> {
    name: String,
    served: bool,
    storage: bool,
    deprecated: bool,
    deprecation_warning: Option<String>,
    #[serde(borrow)]
    schema: Option<&'a RawValue>,
    #[serde(borrow)]
    subresources: Option<&'a RawValue>,
    #[serde(borrow)]
    additional_printer_columns: Option<&'a RawValue>,
    #[serde(borrow)]
    selectable_fields: Option<&'a RawValue>,
}

impl Version<'_> {
    fn has_schema(&self) -> bool {
        self.openapi_schema().is_some()
    }

    /// The canonical bytes of the schema.
    fn openapi_schema(&self) -> Option<&[u8]> {
        self.schema
            .and_then(|schema| scan::member(schema.get().as_bytes(), "openAPIV3Schema"))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DefinitionStatus {
    accepted_names: AcceptedNames,
    #[serde(deserialize_with = "nullable")]
    stored_versions: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<Condition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

/// A field of a definition; one that is absent, or that a test has put there in another form, is as if it were empty.
fn part<'o, T: Deserialize<'o> + Default>(object: &'o Object, name: &str) -> T {
    object
        .field(name)
        .and_then(|bytes| serde_json::from_slice(bytes).ok())
        .unwrap_or_default()
}

/// What is wrong with a definition.
pub(crate) fn validate(written: &Written<'_>) -> Vec<FieldError> {
    let status: DefinitionStatus = part(written.new, "status");
    let mut errors = Errors::default();
    if written.of_status {
        names(&status.accepted_names, "status.acceptedNames", &mut errors);
        return errors.into_errors();
    }
    let spec: Spec<'_> = part(written.new, "spec");
    let meta = &written.new.meta;
    let name = format!("{}.{}", spec.names.plural, spec.group);
    for (field, found) in [
        ("metadata.generateName", &meta.generate_name),
        ("metadata.name", &meta.name),
    ] {
        if !found.is_empty() && *found != name {
            errors.invalid(field, found, "must be spec.names.plural+\".\"+spec.group");
        }
    }
    validate_spec(&spec, &mut errors);
    if let Some(old) = written.old {
        unchanged(&spec, old, &mut errors);
    }
    names(&status.accepted_names, "status.acceptedNames", &mut errors);
    stored_versions(&status.stored_versions, &spec.versions, &mut errors);
    approval(&spec.group, written, &mut errors);
    let kept = written
        .old
        .is_some_and(|old| part::<Spec<'_>>(old, "spec").preserve_unknown_fields);
    if spec.preserve_unknown_fields && !kept {
        let text =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.raw("spec.preserveUnknownFields", "true", text);
    }
    errors.into_errors()
}

fn validate_spec(spec: &Spec<'_>, errors: &mut Errors) {
    let wrong = subdomain_errors(&spec.group);
    if spec.group.is_empty() {
        errors.required("spec.group", "");
    } else if !wrong.is_empty() {
        errors.invalid("spec.group", &spec.group, wrong.join(","));
    } else if !spec.group.contains('.') {
        errors.invalid("spec.group", &spec.group, "should be a domain with at least one dot");
    }
    errors.one_of("spec.scope", &spec.scope, ["Cluster", "Namespaced"]);
    for (index, version) in spec.versions.iter().enumerate() {
        if !version.has_schema() {
            errors.required(format!("spec.versions[{index}].schema.openAPIV3Schema"), "");
        }
    }
    versions(spec, errors);
    for (field, name) in [
        ("plural", &spec.names.plural),
        ("singular", &spec.names.singular),
        ("kind", &spec.names.kind),
        ("listKind", &spec.names.list_kind),
    ] {
        if name.is_empty() {
            errors.required(format!("spec.names.{field}"), "");
        }
    }
    names(&spec.names, "spec.names", errors);
    parts::of_all_versions(&spec.versions, errors);
    conversion::validate(spec.conversion.as_ref(), spec.preserve_unknown_fields, errors);
}

fn versions(spec: &Spec<'_>, errors: &mut Errors) {
    let versions = &spec.versions;
    for (index, version) in versions.iter().enumerate() {
        let field = format!("spec.versions[{index}]");
        errors.label(format!("{field}.name"), &version.name);
        deprecation(version, &format!("{field}.deprecationWarning"), errors);
        parts::of_version(version, versions, &field, errors);
    }
    let mut wrong = |what: &str| errors.raw("spec.versions", parts::dump(versions), what);
    let mut seen = HashSet::new();
    if !versions.iter().all(|version| seen.insert(&version.name)) {
        wrong("must contain unique version names");
    }
    if versions.iter().filter(|version| version.storage).count() != 1 {
        wrong("must have exactly one version marked as storage version");
    }
    // The field of the oldest definitions, which the server fills in from the first version; empty ones are not looked at.
    if let Some(first) = versions.first().filter(|first| !first.name.is_empty()) {
        errors.label("spec.version", &first.name);
    }
}

/// What is wrong with the warning of a version that is going to be removed.
fn deprecation(version: &Version<'_>, field: &str, errors: &mut Errors) {
    let Some(warning) = &version.deprecation_warning else {
        return;
    };
    // A pointer to a text, which is shown as JSON.
    let value = quoted(warning);
    if !version.deprecated {
        return errors.raw(field, &value, "can only be set for deprecated versions");
    }
    if warning.len() > 256 {
        errors.raw(field, &value, "must be <= 256 characters long");
    }
    if warning.is_empty() {
        errors.raw(field, &value, "must not be an empty string");
    }
    if let Some((at, _)) = warning.char_indices().find(|(_, c)| !gotext::is_printable(*c)) {
        let text = "must only contain printable UTF-8 characters; non-printable character found at index";
        errors.raw(field, &value, format!("{text} {at}"));
    }
}

fn names(names: &AcceptedNames, field: &str, errors: &mut Errors) {
    for (part, name) in [("plural", &names.plural), ("singular", &names.singular)] {
        if !name.is_empty() {
            errors.label(format!("{field}.{part}"), name);
        }
    }
    for (part, name) in [("kind", &names.kind), ("listKind", &names.list_kind)] {
        let wrong = label_1035_errors(&name.to_lowercase());
        if !name.is_empty() && !wrong.is_empty() {
            let text = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
            errors.invalid(format!("{field}.{part}"), name, &text);
        }
    }
    for (index, name) in names.short_names.iter().enumerate() {
        errors.label(format!("{field}.shortNames[{index}]"), name);
    }
    if !names.kind.is_empty() && names.kind == names.list_kind {
        let field = format!("{field}.listKind");
        errors.invalid(&field, &names.list_kind, "kind and listKind may not be the same");
    }
    for (index, name) in names.categories.iter().enumerate() {
        errors.label(format!("{field}.categories[{index}]"), name);
    }
}

/// What no update may change: what the names of objects in the store are made of, and what clients know of a kind that is
/// served.
fn unchanged(spec: &Spec<'_>, old: &Object, errors: &mut Errors) {
    let status: DefinitionStatus = part(old, "status");
    let old: Spec<'_> = part(old, "spec");
    let established = status
        .conditions
        .iter()
        .any(|condition| condition.kind == "Established" && condition.status == "True");
    for (field, new, old, counts) in [
        ("scope", &spec.scope, &old.scope, established),
        ("names.kind", &spec.names.kind, &old.names.kind, established),
        ("group", &spec.group, &old.group, true),
        ("names.plural", &spec.names.plural, &old.names.plural, true),
    ] {
        if counts && new != old {
            errors.invalid(format!("spec.{field}"), new, "field is immutable");
        }
    }
}

/// The versions that are in the store must stay.
fn stored_versions(stored: &[String], versions: &[Version<'_>], errors: &mut Errors) {
    const FIELD: &str = "status.storedVersions";
    if stored.is_empty() {
        return errors.raw(FIELD, "null", "must have at least one stored version");
    }
    let all: Vec<String> = stored.iter().map(|name| quoted(name)).collect();
    let all = format!("[{}]", all.join(","));
    let has: HashSet<&String> = stored.iter().collect();
    let served: HashSet<&String> = versions.iter().map(|version| &version.name).collect();
    for version in versions
        .iter()
        .filter(|version| version.storage && !has.contains(&version.name))
    {
        errors.raw(
            FIELD,
            &all,
            format_args!("must have the storage version {}", version.name),
        );
    }
    for (index, name) in stored.iter().enumerate() {
        if !served.contains(name) {
            let text = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until \
                 a storage migration ensures no data remains persisted in {name} and removes {name} from \
                 status.storedVersions"
            );
            errors.invalid(format!("{FIELD}[{index}]"), name, &text);
        }
    }
}

const APPROVED: &str = "api-approved.kubernetes.io";

/// What the annotation says that names of Kubernetes' own groups need.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Approval {
    Missing,
    Invalid,
    Bypassed,
    Approved,
}

fn approval_of(object: &Object) -> Approval {
    let text = object.meta.annotations.get(APPROVED).unwrap_or_default();
    let is_url = |text: &str| {
        text.split_once("://").is_some_and(|(scheme, rest)| {
            let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
            let good = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
            scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.bytes().all(good) && !host.is_empty()
        })
    };
    match text {
        "" => Approval::Missing,
        text if text.starts_with("unapproved") => Approval::Bypassed,
        text if is_url(text) => Approval::Approved,
        _ => Approval::Invalid,
    }
}

fn approval(group: &str, written: &Written<'_>, errors: &mut Errors) {
    let is_protected = ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        group
            .strip_suffix(domain)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    });
    let approval = approval_of(written.new);
    if !is_protected || written.old.is_some_and(|old| approval_of(old) == approval) {
        return;
    }
    let field = format!("metadata.annotations[{APPROVED}]");
    let must = format!("protected groups must have approval annotation \"{APPROVED}\"");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    match approval {
        Approval::Missing => errors.required(&field, format!("{must}, {see}")),
        Approval::Invalid => {
            let found = written.new.meta.annotations.get(APPROVED).unwrap_or_default();
            let text = format!("{must} with either a URL or a reason starting with \"unapproved\", {see}");
            errors.invalid(&field, found, &text);
        }
        Approval::Bypassed | Approval::Approved => {}
    }
}

/// Findings, as many as are told.
#[derive(Default)]
struct Errors {
    found: Vec<FieldError>,
    told: Told,
}

impl Errors {
    fn into_errors(mut self) -> Vec<FieldError> {
        self.found.extend(FieldError::rest(&self.told));
        self.found
    }

    /// How many there are.
    fn count(&self) -> usize {
        self.found.len() + self.told.left_out()
    }

    fn extend(&mut self, more: impl IntoIterator<Item = FieldError>) {
        let told = more.into_iter().filter_map(|error| self.told.word(|| error));
        self.found.extend(told);
    }

    fn add(&mut self, kind: ErrorKind, field: impl fmt::Display, detail: impl fmt::Display) {
        let word = || FieldError::new(kind, field.to_string(), &detail.to_string());
        self.found.extend(self.told.word(word));
    }

    fn required(&mut self, field: impl fmt::Display, why: impl fmt::Display) {
        self.add(ErrorKind::Required, field, why);
    }

    fn forbidden(&mut self, field: impl fmt::Display, why: impl fmt::Display) {
        self.add(ErrorKind::Forbidden, field, why);
    }

    fn invalid(&mut self, field: impl fmt::Display, value: &str, why: impl fmt::Display) {
        self.raw(field, go_quote(value), why);
    }

    /// As `invalid`, for a value that is shown as it is.
    fn raw(&mut self, field: impl fmt::Display, value: impl fmt::Display, why: impl fmt::Display) {
        self.add(ErrorKind::Invalid, field, format_args!("{value}: {why}"));
    }

    /// Refuses what is no DNS label that starts with a letter, all that is wrong with it in one text.
    fn label(&mut self, field: impl fmt::Display, name: &str) {
        let wrong = label_1035_errors(name);
        if !wrong.is_empty() {
            self.invalid(field, name, wrong.join(","));
        }
    }

    /// Refuses a value that is none of these.
    fn not_supported(&mut self, field: impl fmt::Display, value: &str, known: &[&str]) {
        let known: Vec<String> = known.iter().map(|known| go_quote(known)).collect();
        let text = format!("{}: supported values: {}", go_quote(value), known.join(", "));
        self.add(ErrorKind::NotSupported, field, text);
    }

    /// Refuses all but these values.
    fn one_of(&mut self, field: impl fmt::Display, value: &str, known: [&str; 2]) {
        if value.is_empty() {
            self.required(field, "");
        } else if !known.contains(&value) {
            self.not_supported(field, value, &known);
        }
    }
}
