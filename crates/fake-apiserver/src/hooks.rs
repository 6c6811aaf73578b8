//! What single kinds do beyond their policy: found by resource once per write, never asked inside a verb.

mod events;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use jiff::Timestamp;

use crate::codec::zero_field;
use crate::json::scan;
use crate::kinds::Resource;
use crate::object::Object;
use crate::validation::{ErrorKind, FieldError, Written, join, label_errors};
use crate::{crd, defaults};

/// What a kind does beyond its policy.
#[derive(Clone, Copy)]
struct Hooks {
    /// The status of a new object, which no client sets.
    initial_status: Option<fn(&Object) -> &'static str>,
    /// Changes a new object.
    on_create: fn(&Resource, &mut Object),
    /// Changes an object whose deletion begins and that stays for now.
    on_delete: fn(&Resource, &mut Object, Timestamp) -> Marked,
    /// Whether something in the body keeps a deleted object.
    keeps: fn(&Object) -> Kept,
    /// Changes an object that is written, when its name is known.
    on_name: fn(&mut Object),
    /// Whether an object that is given neither a name nor a prefix gets a name.
    names_itself: bool,
    /// A field that an update does not change.
    kept_on_update: Option<&'static str>,
    /// Changes what a client writes.
    on_write: fn(&Resource, &mut Object),
    /// Changes what replaces an object, given that one.
    on_update: fn(&Resource, &Object, &mut Object),
    /// What a delete warns of that does not say what becomes of dependents.
    delete_warning: Option<&'static str>,
    /// Whether the deletion begins by rules of its own: what becomes of dependents is settled then, and not orphaning
    /// them is waiting for them.
    own_deletion: bool,
    /// How a delete of one object is refused whose preconditions do not hold, if the kind looks at them itself.
    precondition: Option<&'static str>,
    /// Whether a write of the status leaves the owners alone, where it writes other metadata.
    keeps_owners_of_status: bool,
    /// What the creation of an object of this name warns of.
    name_warning: fn(&str) -> Option<String>,
    /// What is wrong with the body of an object.
    validate: fn(&Written<'_>) -> Vec<FieldError>,
    /// What is looked at before the metadata.
    validate_first: fn(&Written<'_>) -> Vec<FieldError>,
    /// Whether the metadata of a new object is not looked at where that has found something.
    first_alone: bool,
}

/// Whether a deleted object stays, for a reason other than its finalizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Yes,
    No,
}

/// How the deletion timestamp is set: namespaces and definitions get neither a grace period nor a new generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marked {
    Here,
    ByHook,
}

const NONE: Hooks = Hooks {
    initial_status: None,
    on_create: |_, _| {},
    on_delete: |_, _, _| Marked::Here,
    keeps: |_| Kept::No,
    on_name: |_| {},
    names_itself: false,
    kept_on_update: None,
    on_write: |_, _| {},
    on_update: |_, _, _| {},
    delete_warning: None,
    own_deletion: false,
    precondition: None,
    keeps_owners_of_status: false,
    name_warning: |_| None,
    validate: |_| Vec::new(),
    validate_first: |_| Vec::new(),
    first_alone: false,
};

const EVENT: Hooks = Hooks {
    validate_first: events::of_core,
    first_alone: true,
    ..NONE
};

const EVENT_OF_EVENTS: Hooks = Hooks {
    validate_first: events::of_events,
    validate: events::new_of_events,
    ..NONE
};

const NAMESPACE: Hooks = Hooks {
    initial_status: Some(|_| r#"{"phase":"Active"}"#),
    on_name: |object| {
        let name = object.meta.name.clone();
        object.meta.labels.insert("kubernetes.io/metadata.name", name);
    },
    on_create: |_, object| {
        object.set_field("spec", Bytes::from_static(br#"{"finalizers":["kubernetes"]}"#));
    },
    on_write: |_, object| default_phase(object),
    on_delete: |_, object, _| {
        object.set_field("status", Bytes::from_static(br#"{"phase":"Terminating"}"#));
        Marked::ByHook
    },
    keeps: spec_finalizers,
    own_deletion: true,
    precondition: Some("Precondition failed"),
    // Its finalizers, which have a subresource.
    kept_on_update: Some("spec"),
    ..NONE
};

const DEFINITION: Hooks = Hooks {
    on_create: crd::on_create,
    on_write: crd::on_write,
    on_update: crd::on_update,
    on_delete: |resource, object, now| {
        crd::on_delete(resource, object, now);
        Marked::ByHook
    },
    // A definition goes when the server has removed its objects, never at once.
    keeps: |object| {
        if object.meta.deletion_timestamp.is_some() {
            Kept::No
        } else {
            Kept::Yes
        }
    },
    validate: crd::validate,
    precondition: Some("precondition failed"),
    ..NONE
};

const POD: Hooks = Hooks {
    initial_status: Some(|_| r#"{"phase":"Pending","qosClass":"BestEffort"}"#),
    on_write: defaults::pod,
    keeps_owners_of_status: true,
    name_warning: |name| {
        let problems = label_errors(name);
        let text = "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is \
                    recommended";
        (!problems.is_empty()).then(|| format!("{text}: [{}]", problems.join(" ")))
    },
    ..NONE
};

const DEPLOYMENT: Hooks = Hooks {
    on_write: defaults::deployment,
    ..NONE
};

/// How often the template of a daemon set has changed, and once more: old versions have a field for it.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn template_generation(object: &Object) -> i64 {
    let text = object.meta.annotations.get(TEMPLATE_GENERATION);
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

const DAEMON_SET: Hooks = Hooks {
    on_create: |_, object| {
        let generation = template_generation(object).max(1);
        object
            .meta
            .annotations
            .insert(TEMPLATE_GENERATION, generation.to_string());
    },
    on_update: |_, old, new| {
        fn template(object: &Object) -> Option<&[u8]> {
            object.field("spec").and_then(|spec| scan::member(spec, "template"))
        }
        let generation = template_generation(old) + i64::from(template(old) != template(new));
        new.meta.annotations.insert(TEMPLATE_GENERATION, generation.to_string());
    },
    ..NONE
};

const REPLICA_SET: Hooks = Hooks {
    on_write: defaults::replica_set,
    ..NONE
};

const CONFIG_MAP: Hooks = Hooks {
    validate: |Written { new: object, .. }| {
        let mut errors = config_keys(object, &["data", "binaryData"]);
        errors.extend(too_long(data_size(object, "data", "binaryData"), "[]"));
        errors
    },
    ..NONE
};

const SECRET: Hooks = Hooks {
    on_write: |_, object| {
        encode_string_data(object);
        if object.field("type").is_none_or(|value| value.as_ref() == b"\"\"") {
            object.set_field("type", Bytes::from_static(br#""Opaque""#));
        }
    },
    validate: |Written { new: object, .. }| {
        let mut errors = config_keys(object, &["data"]);
        errors.extend(too_long(data_size(object, "", "data"), "data"));
        errors
    },
    ..NONE
};

const JOB: Hooks = Hooks {
    delete_warning: Some(
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or \
         set propagationPolicy=Orphan to suppress this warning",
    ),
    ..NONE
};

const NETWORK_POLICY: Hooks = Hooks {
    on_write: defaults::network_policy,
    ..NONE
};

const PRIORITY_CLASS: Hooks = Hooks {
    on_write: |_, object| {
        if object.field("preemptionPolicy").is_none() {
            object.set_field("preemptionPolicy", Bytes::from_static(br#""PreemptLowerPriority""#));
        }
    },
    validate: system_priority,
    ..NONE
};

/// Refuses names that are for the classes of the system itself.
fn system_priority(written: &Written<'_>) -> Vec<FieldError> {
    const KNOWN: [(&str, &str); 2] = [
        ("system-node-critical", "2000001000"),
        ("system-cluster-critical", "2000000000"),
    ];
    let name = &written.new.meta.name;
    if !name.starts_with("system-") || written.old.is_some() {
        return Vec::new();
    }
    let field = |field: &str, default: &'static [u8]| {
        let value = written.new.field(field).map_or(default, |value| value.as_ref());
        String::from_utf8_lossy(value).into_owned()
    };
    let why = match KNOWN.iter().find(|(known, _)| known == name) {
        None => format!("{name} is not a known system priority class"),
        Some((_, value)) if field("value", b"0") != *value => format!("value of {name} PriorityClass must be {value}"),
        Some(_) if field("globalDefault", b"false") != "false" => {
            format!("globalDefault of {name} PriorityClass must be false")
        }
        Some(_) => return Vec::new(),
    };
    let text = format!("priority class names with 'system-' prefix are reserved for system use only. error: {why}");
    vec![FieldError::new(ErrorKind::Forbidden, "metadata.name", &text)]
}

const LIMIT_RANGE: Hooks = Hooks {
    names_itself: true,
    ..NONE
};

fn hooks(resource: &Resource) -> Hooks {
    match (resource.group.as_ref(), resource.plural.as_ref()) {
        ("", "namespaces") => NAMESPACE,
        ("", "pods") => POD,
        ("", "configmaps") => CONFIG_MAP,
        ("", "secrets") => SECRET,
        ("", "limitranges") => LIMIT_RANGE,
        ("", "events") => EVENT,
        ("events.k8s.io", "events") => EVENT_OF_EVENTS,
        ("networking.k8s.io", "networkpolicies") => NETWORK_POLICY,
        ("scheduling.k8s.io", "priorityclasses") => PRIORITY_CLASS,
        ("apps", "daemonsets") => DAEMON_SET,
        ("apps", "deployments") => DEPLOYMENT,
        ("apps", "replicasets") => REPLICA_SET,
        ("batch", "jobs") => JOB,
        ("apiextensions.k8s.io", "customresourcedefinitions") => DEFINITION,
        _ => NONE,
    }
}

#[expect(
    clippy::zero_sized_map_values,
    reason = "what serde reads as a map, of which the keys matter"
)]
type Keys = BTreeMap<String, serde::de::IgnoredAny>;

/// What is wrong with the keys of these maps, which are names of files when they are mounted. A key may be in one only.
#[expect(
    clippy::zero_sized_map_values,
    reason = "what serde reads as a map, of which the keys matter"
)]
fn config_keys(object: &Object, fields: &[&str]) -> Vec<FieldError> {
    const WORDS: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
                         'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
    let keys = |field: &str| -> Keys {
        // Canonical bytes of a decoded object; a field that is absent has no keys.
        object
            .field(field)
            .and_then(|bytes| serde_json::from_slice(bytes).ok())
            .unwrap_or_default()
    };
    let mut errors = Vec::new();
    let mut seen: Vec<(&str, Keys)> = Vec::new();
    for field in fields.iter().rev() {
        let keys = keys(field);
        let mut found = Vec::new();
        for key in keys.keys() {
            let mut add = |text: &str| found.push(FieldError::invalid(format!("{field}[{key}]"), key, text));
            if key.len() > 253 {
                add("must be no more than 253 characters");
            }
            let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            if key.is_empty() || !key.bytes().all(good) {
                add(WORDS);
            }
            match key.as_str() {
                "." | ".." => add(&format!("must not be '{key}'")),
                key if key.starts_with("..") => add("must not start with '..'"),
                _ => {}
            }
            if let Some((other, _)) = seen.iter().find(|(_, keys)| keys.contains_key(key)) {
                add(&format!("duplicate of key present in {other}"));
            }
        }
        errors.splice(0..0, found);
        seen.push((field, keys));
    }
    errors
}

type Texts = BTreeMap<String, String>;

fn texts(object: &Object, field: &str) -> Texts {
    // Canonical bytes of a decoded object; a field that is absent has no texts.
    object
        .field(field)
        .and_then(|bytes| serde_json::from_slice(bytes).ok())
        .unwrap_or_default()
}

/// How many bytes the texts of one field and the decoded base64 of another have.
fn data_size(object: &Object, plain: &str, base64: &str) -> usize {
    let raw = |field: &str| object.field(field).map_or(0, Bytes::len);
    // Small objects, which are nearly all, need not be read.
    if raw(plain) + raw(base64) <= MAX_DATA {
        return 0;
    }
    let padding = |text: &str| text.bytes().rev().take_while(|byte| *byte == b'=').count();
    let decoded = |text: &String| text.len() / 4 * 3 - padding(text).min(2);
    texts(object, plain).values().map(String::len).sum::<usize>()
        + texts(object, base64).values().map(decoded).sum::<usize>()
}

/// How much data a config map or a secret holds at most.
const MAX_DATA: usize = 1024 * 1024;

fn too_long(size: usize, field: &str) -> Vec<FieldError> {
    if size <= MAX_DATA {
        return Vec::new();
    }
    let message = format!("Too long: may not be more than {MAX_DATA} bytes");
    vec![FieldError {
        kind: ErrorKind::TooLong,
        field: field.to_owned(),
        message,
    }]
}

/// Moves what a client writes as text to where it is stored as base64.
fn encode_string_data(object: &mut Object) {
    if object.field("stringData").is_none() {
        return;
    }
    let mut data = texts(object, "data");
    data.extend(
        texts(object, "stringData")
            .into_iter()
            .map(|(key, text)| (key, STANDARD.encode(text))),
    );
    object.remove_field("stringData");
    // Texts always become JSON, in the order of the keys, as Go writes maps.
    let data = serde_json::to_vec(&data).unwrap_or_default().into();
    if object.field("data").is_some() {
        object.set_field("data", data);
    } else {
        object.fields.insert(0, ("data".into(), data));
    }
}

/// Gives a namespace the phase that it has if nobody says otherwise.
fn default_phase(object: &mut Object) {
    #[derive(serde::Deserialize, Default)]
    #[serde(default)]
    struct NamespaceStatus {
        phase: String,
    }
    let status = object.field("status");
    // Canonical bytes of a decoded object.
    let found: NamespaceStatus = status
        .and_then(|bytes| serde_json::from_slice(bytes).ok())
        .unwrap_or_default();
    if !found.phase.is_empty() {
        return;
    }
    // It is the first field, and left out when it is empty.
    let rest = status.map_or(&b""[..], |bytes| {
        bytes.get(1..bytes.len().saturating_sub(1)).unwrap_or_default()
    });
    let mut with_phase = br#"{"phase":"Active""#.to_vec();
    if !rest.is_empty() {
        with_phase.push(b',');
        with_phase.extend_from_slice(rest);
    }
    with_phase.push(b'}');
    object.set_field("status", with_phase.into());
}

/// A namespace stays until its `spec.finalizers` are empty.
fn spec_finalizers(object: &Object) -> Kept {
    #[derive(serde::Deserialize)]
    struct Spec {
        #[serde(default)]
        finalizers: Vec<String>,
    }
    let spec = object
        .field("spec")
        .and_then(|spec| serde_json::from_slice::<Spec>(spec).ok());
    if spec.is_some_and(|spec| !spec.finalizers.is_empty()) {
        Kept::Yes
    } else {
        Kept::No
    }
}

/// Replaces the status that the client sent with the one that a new object has.
pub(crate) fn reset_status(resource: &Resource, object: &mut Object) {
    match hooks(resource).initial_status {
        Some(status) => object.set_field("status", Bytes::from_static(status(object).as_bytes())),
        // As Go writes the status of an empty object; custom resources have none.
        None => match zero_field(resource, "status") {
            Some(status) => object.set_field("status", status),
            None => {
                object.remove_field("status");
            }
        },
    }
}

/// Changes a new object before it is validated and stored.
pub(crate) fn before_create(resource: &Resource, object: &mut Object) {
    (hooks(resource).on_create)(resource, object);
}

/// Changes an object whose deletion begins and that stays for now.
pub(crate) fn on_delete(resource: &Resource, object: &mut Object, now: Timestamp) -> Marked {
    (hooks(resource).on_delete)(resource, object, now)
}

/// Whether something in the body keeps a deleted object.
pub(crate) fn keeps(resource: &Resource, object: &Object) -> Kept {
    (hooks(resource).keeps)(object)
}

/// Whether an object of the resource that is given neither a name nor a prefix gets a name.
pub(crate) fn names_itself(resource: &Resource) -> bool {
    hooks(resource).names_itself
}

/// Changes an object that is written, when its name is known.
pub(crate) fn named(resource: &Resource, object: &mut Object) {
    (hooks(resource).on_name)(object);
}

/// The field that an update of the resource does not change.
pub(crate) fn kept_on_update(resource: &Resource) -> Option<&'static str> {
    hooks(resource).kept_on_update
}

/// Changes what a client writes, before it is compared with what is stored.
pub(crate) fn before_write(resource: &Resource, object: &mut Object) {
    (hooks(resource).on_write)(resource, object);
}

/// Changes what replaces an object, before it is compared with that.
pub(crate) fn on_update(resource: &Resource, old: &Object, new: &mut Object) {
    (hooks(resource).on_update)(resource, old, new);
}

/// What a delete warns of that does not say what becomes of dependents.
pub(crate) fn delete_warning(resource: &Resource) -> Option<&'static str> {
    hooks(resource).delete_warning
}

/// Whether the deletion of an object begins by rules of its own.
pub(crate) fn own_deletion(resource: &Resource) -> bool {
    hooks(resource).own_deletion
}

/// How a delete of one object is refused whose preconditions do not hold, if the kind looks at them itself.
pub(crate) fn precondition(resource: &Resource) -> Option<&'static str> {
    hooks(resource).precondition
}

/// Whether a write of the status leaves the owners alone, where it writes other metadata.
pub(crate) fn keeps_owners_of_status(resource: &Resource) -> bool {
    hooks(resource).keeps_owners_of_status
}

/// What the creation of an object warns of because of its name.
pub(crate) fn name_warning(resource: &Resource, object: &Object) -> Option<String> {
    let meta = &object.meta;
    let warning = hooks(resource).name_warning;
    if meta.name.is_empty() && !meta.generate_name.is_empty() {
        // What will follow the prefix is as good in a name as a letter.
        return warning(&format!("{}aaaaa", meta.generate_name));
    }
    warning(&meta.name)
}

/// What is wrong with a new object, whose metadata has these findings.
pub(crate) fn validate_new(resource: &Resource, object: &Object, of_metadata: Vec<FieldError>) -> Vec<FieldError> {
    let hooks = hooks(resource);
    let written = Written {
        new: object,
        old: None,
        of_status: false,
    };
    let mut errors = (hooks.validate_first)(&written);
    if hooks.first_alone && !errors.is_empty() {
        return errors;
    }
    errors.extend(join(of_metadata, (hooks.validate)(&written)));
    errors
}

/// What is wrong with an object that replaces another one, whose metadata has these findings. Its name cannot change, so
/// that no rule of a kind speaks of it.
pub(crate) fn validate_changed(
    resource: &Resource,
    written: &Written<'_>,
    mut of_metadata: Vec<FieldError>,
) -> Vec<FieldError> {
    let hooks = hooks(resource);
    of_metadata.extend((hooks.validate_first)(written));
    let of_kind = (hooks.validate)(written).into_iter();
    of_metadata.extend(of_kind.filter(|error| !matches!(&*error.field, "metadata.name" | "metadata.generateName")));
    of_metadata
}
