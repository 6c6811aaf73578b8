//! The rules for `metadata` on create and update, in the order in which the server reports them.

use super::{
    ErrorKind, FieldError,
    names::{label_errors, label_key_errors, label_value_errors, path_segment_errors, subdomain_errors},
};
use crate::{
    codec::time,
    json::write,
    kinds::{NameValidation, Resource},
    object::{Meta, OwnerReference, StringMap},
};

/// All annotations of an object together.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// How many bytes of lists of owners the findings about them show; a larger list is shown once.
const MAX_DUMPED: usize = 1024 * 1024;

const IMMUTABLE: &str = "field is immutable";

/// What the strategy of a kind checks once more after what holds for all kinds, in its order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeats {
    /// The form of finalizers.
    Finalizers,
    /// The form of finalizers, then the prefix of generated names by the kind's own rule.
    FinalizersAndPrefix,
    /// The same, the other way round.
    PrefixAndFinalizers,
    Prefix,
    Nothing,
    /// All of the update, twice, with every finding again: kinds that are served apart from the others.
    Everything,
}

/// The kinds whose strategies do other than most. Read off a real server, kind by kind.
const REPEATS: &[(&str, Repeats, &[&str])] = &[
    (
        "",
        Repeats::FinalizersAndPrefix,
        &[
            "configmaps",
            "secrets",
            "pods",
            "serviceaccounts",
            "endpoints",
            "persistentvolumeclaims",
        ],
    ),
    ("apps", Repeats::FinalizersAndPrefix, &["controllerrevisions"]),
    (
        "networking.k8s.io",
        Repeats::FinalizersAndPrefix,
        &["ingresses", "ingressclasses"],
    ),
    (
        "",
        Repeats::PrefixAndFinalizers,
        &["limitranges", "namespaces", "nodes", "persistentvolumes"],
    ),
    ("discovery.k8s.io", Repeats::PrefixAndFinalizers, &["endpointslices"]),
    (
        "storage.k8s.io",
        Repeats::PrefixAndFinalizers,
        &[
            "storageclasses",
            "csinodes",
            "csistoragecapacities",
            "volumeattachments",
        ],
    ),
    (
        "storage.k8s.io",
        Repeats::FinalizersAndPrefix,
        &["volumeattributesclasses"],
    ),
    ("resource.k8s.io", Repeats::PrefixAndFinalizers, &["resourceclaims"]),
    ("node.k8s.io", Repeats::Prefix, &["runtimeclasses"]),
    (
        "admissionregistration.k8s.io",
        Repeats::Prefix,
        &["validatingwebhookconfigurations", "mutatingwebhookconfigurations"],
    ),
    ("apiregistration.k8s.io", Repeats::Prefix, &["apiservices"]),
    ("", Repeats::Nothing, &["events"]),
    ("coordination.k8s.io", Repeats::Nothing, &["leases"]),
    ("policy", Repeats::Nothing, &["poddisruptionbudgets"]),
    (
        "apiextensions.k8s.io",
        Repeats::Everything,
        &["customresourcedefinitions"],
    ),
];

impl Repeats {
    fn of(resource: &Resource) -> Self {
        if resource.custom {
            return Self::Everything;
        }
        let other = REPEATS
            .iter()
            .find(|(group, _, plurals)| *group == &*resource.group && plurals.contains(&&*resource.plural));
        other.map_or(Self::Finalizers, |(_, repeats, _)| *repeats)
    }

    /// The same of a write of the status or another part: most do not look at the prefix again.
    fn of_part(resource: &Resource) -> Self {
        match (&*resource.group, &*resource.plural, Self::of(resource)) {
            ("batch", "cronjobs", _) => Self::Nothing,
            ("storage.k8s.io", "volumeattachments", repeats) => repeats,
            (_, _, Self::FinalizersAndPrefix | Self::PrefixAndFinalizers) => Self::Finalizers,
            (_, _, Self::Prefix) => Self::Nothing,
            (_, _, repeats) => repeats,
        }
    }

    fn finalizers(self) -> bool {
        matches!(
            self,
            Self::Finalizers | Self::FinalizersAndPrefix | Self::PrefixAndFinalizers
        )
    }
}

/// Checks the metadata of a new object (its name is set by now, generated or not).
pub(crate) fn validate_create(resource: &Resource, meta: &Meta) -> Vec<FieldError> {
    let mut errors = Vec::new();
    generate_name(resource, meta, &mut errors);
    let name_is_last = has_unchecked_prefix(resource) && !meta.name.is_empty();
    if !name_is_last {
        name(resource, meta, &mut errors);
    }
    common(resource, meta, &mut errors);
    if Repeats::of(resource).finalizers() {
        qualified_finalizers(&meta.finalizers, &mut errors);
    }
    if name_is_last {
        name(resource, meta, &mut errors);
    }
    // What is said of all kinds comes after what the kind says, if that is nothing.
    if has_unchecked_prefix(resource) && errors.is_empty() {
        prefix_of_path(meta, &mut errors);
    }
    without_repeats(errors)
}

/// Checks the metadata of an update against the stored object. An absent field that the server keeps for the client
/// (uid, timestamps of creation and deletion) must have been filled in by the caller, with [`keep_system_fields`].
/// Whether a resource version must be given is the verb's business.
pub(crate) fn validate_update(resource: &Resource, new: &Meta, old: &Meta, of_part: bool) -> Vec<FieldError> {
    let mut errors = validate_update_of_any(resource, new, old);
    let repeats = if of_part {
        Repeats::of_part(resource)
    } else {
        Repeats::of(resource)
    };
    match repeats {
        Repeats::Everything => {
            changed(new, old, &mut errors);
            return errors;
        }
        Repeats::PrefixAndFinalizers | Repeats::Prefix => generate_name(resource, new, &mut errors),
        Repeats::Finalizers | Repeats::FinalizersAndPrefix | Repeats::Nothing => {}
    }
    if repeats.finalizers() {
        qualified_finalizers(&new.finalizers, &mut errors);
    }
    if repeats == Repeats::FinalizersAndPrefix {
        generate_name(resource, new, &mut errors);
    }
    without_repeats(errors)
}

/// Checks the metadata of an object inside of a custom resource, whose findings are told below `field`: names are only
/// looked at as segments of a path.
pub(crate) fn validate_embedded(meta: &Meta, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    prefix_of_path(meta, &mut errors);
    for text in path_segment_errors(&meta.name, false) {
        errors.push(FieldError::invalid("metadata.name", &meta.name, &text));
    }
    for text in label_errors(&meta.namespace) {
        if !meta.namespace.is_empty() {
            errors.push(FieldError::invalid("metadata.namespace", &meta.namespace, &text));
        }
    }
    of_any(meta, &mut errors);
    for error in &mut errors {
        if let Some(rest) = error.field.strip_prefix("metadata") {
            error.field = format!("{field}{rest}");
        }
    }
    without_repeats(errors)
}

/// The first part of [`validate_update`]: what is looked at before the kind is asked. Findings may be repeated.
pub(crate) fn validate_update_of_any(resource: &Resource, new: &Meta, old: &Meta) -> Vec<FieldError> {
    let mut errors = Vec::new();
    // At first, names are only looked at as segments of a path.
    prefix_of_path(new, &mut errors);
    common(resource, new, &mut errors);
    changed(new, old, &mut errors);
    errors
}

/// What is looked at in a change of any kind. Part of it has been looked at by [`common`]: if that found nothing, neither does this.
fn changed(new: &Meta, old: &Meta, errors: &mut Vec<FieldError>) {
    let is_clean = errors.is_empty();
    unchanged(new, old, errors);
    if is_clean {
        return;
    }
    labels(&new.labels, errors);
    annotations(&new.annotations, errors);
    owner_references(&new.owner_references, errors);
}

/// What no update may change.
fn unchanged(new: &Meta, old: &Meta, errors: &mut Vec<FieldError>) {
    if old.deletion_timestamp.is_some() {
        no_new_finalizers(new, old, errors);
    }
    let mut immutable = |field: &str, changed: bool, value: &str| {
        if changed {
            errors.push(FieldError::invalid_raw(format!("metadata.{field}"), value, IMMUTABLE));
        }
    };
    immutable("name", new.name != old.name, &quoted(&new.name));
    immutable("namespace", new.namespace != old.namespace, &quoted(&new.namespace));
    immutable("uid", new.uid != old.uid, &quoted(&new.uid));
    let changed = new.deletion_timestamp != old.deletion_timestamp;
    immutable("deletionTimestamp", changed, &time_text(new.deletion_timestamp));
    let changed = new.deletion_grace_period_seconds != old.deletion_grace_period_seconds;
    let seconds = new
        .deletion_grace_period_seconds
        .map_or_else(|| "null".to_owned(), |seconds| seconds.to_string());
    immutable("deletionGracePeriodSeconds", changed, &seconds);
}

/// Whether every finding of a resource is told, or each once.
pub(crate) fn tells_repeats(resource: &Resource) -> bool {
    Repeats::of(resource) == Repeats::Everything
}

/// Puts what a kind finds wrong with the form of the name of an object beside the other findings about that.
pub(crate) fn join(mut errors: Vec<FieldError>, of_kind: Vec<FieldError>) -> Vec<FieldError> {
    let is_name = |error: &FieldError| matches!(&*error.field, "metadata.name" | "metadata.generateName");
    for error in of_kind {
        let place = if is_name(&error) && error.kind == ErrorKind::Invalid {
            let about_name = |other: &FieldError| is_name(other) && *other.field <= *error.field;
            errors
                .iter()
                .position(|other| !about_name(other))
                .unwrap_or(errors.len())
        } else {
            errors.len()
        };
        errors.insert(place, error);
    }
    errors
}

/// What an update silently takes over from the stored object before it is validated: creation time and generation,
/// an empty uid, and the deletion time, which no update can remove or change.
pub(crate) fn keep_system_fields(new: &mut Meta, old: &Meta) {
    new.generation = old.generation;
    new.creation_timestamp = old.creation_timestamp;
    if new.uid.is_empty() {
        new.uid.clone_from(&old.uid);
    }
    if old.deletion_timestamp.is_some() {
        new.deletion_timestamp = old.deletion_timestamp;
    }
    if new.deletion_grace_period_seconds.is_none() {
        new.deletion_grace_period_seconds = old.deletion_grace_period_seconds;
    }
}

/// The server names each finding once.
fn without_repeats(mut errors: Vec<FieldError>) -> Vec<FieldError> {
    let mut seen = std::collections::HashSet::with_capacity(errors.len());
    errors.retain(|error| seen.insert(error.to_string()));
    errors
}

fn quoted(text: &str) -> String {
    crate::gotext::go_quote(text)
}

fn time_text(time: Option<jiff::Timestamp>) -> String {
    let mut out = Vec::new();
    match time {
        Some(time) => time::write(&mut out, time),
        None => out.extend_from_slice(b"null"),
    }
    String::from_utf8(out).unwrap_or_default()
}

fn name_errors(resource: &Resource, name: &str, is_prefix: bool) -> Vec<String> {
    // A prefix may end in a dash, as more follows: like the real server, do not look at the character before it.
    let masked;
    let mut rest = name.chars();
    let checked = match (rest.next_back(), rest.next_back()) {
        (Some('-'), Some(_)) if is_prefix => {
            masked = format!("{}a", rest.as_str());
            &masked
        }
        _ => name,
    };
    match resource.policy.name_validation {
        NameValidation::Subdomain => subdomain_errors(checked),
        NameValidation::Label => label_errors(checked),
        NameValidation::PathSegment | NameValidation::Special => path_segment_errors(name, is_prefix),
    }
}

/// Whether the name that is made is looked at, after all else, and the prefix only as a segment of a path.
fn has_unchecked_prefix(resource: &Resource) -> bool {
    matches!(
        (&*resource.group, &*resource.plural),
        ("", "replicationcontrollers") | ("resource.k8s.io", "deviceclasses")
    )
}

/// The prefix of a generated name as a segment of a path.
fn prefix_of_path(meta: &Meta, errors: &mut Vec<FieldError>) {
    for text in path_segment_errors(&meta.generate_name, true) {
        errors.push(FieldError::invalid("metadata.generateName", &meta.generate_name, &text));
    }
}

/// The prefix of a generated name as the kind sees it, if it looks.
fn generate_name(resource: &Resource, meta: &Meta, errors: &mut Vec<FieldError>) {
    if meta.generate_name.is_empty() || has_unchecked_prefix(resource) {
        return;
    }
    for text in name_errors(resource, &meta.generate_name, true) {
        errors.push(FieldError::invalid("metadata.generateName", &meta.generate_name, &text));
    }
}

fn name(resource: &Resource, meta: &Meta, errors: &mut Vec<FieldError>) {
    if meta.name.is_empty() {
        errors.push(FieldError::new(
            ErrorKind::Required,
            "metadata.name",
            "name or generateName is required",
        ));
    } else {
        for text in name_errors(resource, &meta.name, false) {
            errors.push(FieldError::invalid("metadata.name", &meta.name, &text));
        }
    }
}

fn common(resource: &Resource, meta: &Meta, errors: &mut Vec<FieldError>) {
    namespace(resource, meta, errors);
    of_any(meta, errors);
}

/// What is looked at wherever there is metadata.
fn of_any(meta: &Meta, errors: &mut Vec<FieldError>) {
    if meta.generation < 0 {
        let value = meta.generation.to_string();
        errors.push(FieldError::invalid_raw(
            "metadata.generation",
            &value,
            "must be greater than or equal to 0",
        ));
    }
    labels(&meta.labels, errors);
    annotations(&meta.annotations, errors);
    owner_references(&meta.owner_references, errors);
    finalizers(&meta.finalizers, errors);
}

fn namespace(resource: &Resource, meta: &Meta, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "metadata.namespace";
    if !resource.namespaced() {
        if !meta.namespace.is_empty() {
            errors.push(FieldError::new(ErrorKind::Forbidden, FIELD, "not allowed on this type"));
        }
    } else if meta.namespace.is_empty() {
        errors.push(FieldError::new(ErrorKind::Required, FIELD, ""));
    } else {
        for text in label_errors(&meta.namespace) {
            errors.push(FieldError::invalid(FIELD, &meta.namespace, &text));
        }
    }
}

fn labels(labels: &StringMap, errors: &mut Vec<FieldError>) {
    for (key, value) in labels.iter() {
        for text in label_key_errors(key) {
            errors.push(FieldError::invalid("metadata.labels", key, &text));
        }
        for text in label_value_errors(value) {
            errors.push(FieldError::invalid("metadata.labels", value, &text));
        }
    }
}

fn annotations(annotations: &StringMap, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "metadata.annotations";
    let mut size = 0;
    for (key, value) in annotations.iter() {
        size += key.len() + value.len();
        for text in label_key_errors(&key.to_lowercase()) {
            errors.push(FieldError::invalid(FIELD, key, &text));
        }
    }
    if size > MAX_ANNOTATIONS {
        let text = format!("may not be more than {MAX_ANNOTATIONS} bytes");
        errors.push(FieldError::new(ErrorKind::TooLong, FIELD, &text));
    }
}

fn owner_references(owners: &[OwnerReference], errors: &mut Vec<FieldError>) {
    let mut first_controller: Option<String> = None;
    let mut list: Option<String> = None;
    let mut dumped = 0;
    for (index, owner) in owners.iter().enumerate() {
        let path = format!("metadata.ownerReferences[{index}]");
        let version = owner.api_version.rsplit('/').next().unwrap_or_default();
        let required =
            |field: &str| FieldError::new(ErrorKind::Required, format!("{path}.{field}"), "must not be empty");
        if owner.api_version.is_empty() {
            errors.push(required("apiVersion"));
        } else if owner.api_version.matches('/').count() > 1 || version.is_empty() {
            let text = "must be <group>/<version> or <version>";
            errors.push(FieldError::invalid(
                format!("{path}.apiVersion"),
                &owner.api_version,
                text,
            ));
        }
        for (field, value) in [("kind", &owner.kind), ("name", &owner.name), ("uid", &owner.uid)] {
            if value.is_empty() {
                errors.push(required(field));
            }
        }
        if matches!(owner.api_version.as_str(), "v1" | "/v1") && owner.kind == "Event" {
            let text = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid_raw(&path, &owner_json(owner), text));
        }
        if owner.controller == Some(true) {
            let name = format!("{}/{}", owner.kind, owner.name);
            if let Some(first) = &first_controller {
                let list = list.get_or_insert_with(|| {
                    let all: Vec<String> = owners.iter().map(owner_json).collect();
                    format!("[{}]", all.join(","))
                });
                // Each finding shows the whole list: a hostile one must not fill the memory.
                dumped += list.len();
                if dumped > MAX_DUMPED && dumped > list.len() {
                    continue;
                }
                let text = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
                );
                errors.push(FieldError::invalid_raw("metadata.ownerReferences", list, &text));
            } else {
                first_controller = Some(name);
            }
        }
    }
}

fn owner_json(owner: &OwnerReference) -> String {
    let mut out = Vec::new();
    crate::object::write_owner(owner, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

fn finalizers(finalizers: &[String], errors: &mut Vec<FieldError>) {
    const FIELD: &str = "metadata.finalizers";
    for finalizer in finalizers {
        for text in label_key_errors(finalizer) {
            errors.push(FieldError::invalid(FIELD, finalizer, &text));
        }
    }
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        let mut list = vec![b'['];
        for finalizer in finalizers {
            write::comma(&mut list);
            write::string(&mut list, finalizer);
        }
        list.push(b']');
        let text = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid_raw(FIELD, &String::from_utf8_lossy(&list), text));
    }
}

/// Refuses finalizers without a domain, but for the server's own.
fn qualified_finalizers(finalizers: &[String], errors: &mut Vec<FieldError>) {
    for (index, finalizer) in finalizers.iter().enumerate() {
        if !finalizer.contains('/') && !matches!(finalizer.as_str(), "orphan" | "foregroundDeletion" | "kubernetes") {
            let text = "name is neither a standard finalizer name nor is it fully qualified";
            let field = format!("metadata.finalizers[{index}]");
            errors.push(FieldError::invalid(field, finalizer, text));
        }
    }
}

fn no_new_finalizers(new: &Meta, old: &Meta, errors: &mut Vec<FieldError>) {
    let present: std::collections::HashSet<&String> = old.finalizers.iter().collect();
    let mut added: Vec<&String> = new.finalizers.iter().filter(|name| !present.contains(name)).collect();
    if added.is_empty() {
        return;
    }
    added.sort();
    added.dedup();
    let names: Vec<String> = added.iter().map(|name| quoted(name)).collect();
    let text = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        names.join(", ")
    );
    errors.push(FieldError::new(ErrorKind::Forbidden, "metadata.finalizers", &text));
}
