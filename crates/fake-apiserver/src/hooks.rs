//! Hooks: what single kinds do beyond their policy. They are found by resource; no verb asks for a kind.

mod data;
mod events;
mod namespace;
mod pods;
mod signing;

use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::json;

use crate::codec::zero_field;
use crate::convert::autoscaling::drop_annotations;
use crate::json::scan;
use crate::kinds::Resource;
use crate::object::Object;
use crate::server::Shared;
use crate::status::Status;
use crate::storage::ResourceId;
use crate::validation::{ErrorKind, FieldError, Written, join, label_errors};
use crate::{crd, defaults, schemas, services, specs};

use data::{bare_references, config_keys, data_size, encode_string_data, too_long};

/// What a kind does beyond its policy.
struct Hooks {
    /// The status of a new object, which no client sets.
    initial_status: Option<fn(&Object) -> String>,
    /// Changes a new object.
    on_create: fn(&Resource, &mut Object),
    /// Changes a new object whose name is settled.
    on_new_name: fn(&Resource, &mut Object),
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
    /// Changes what a client writes, beyond the defaults that [`defaults`] has: the client owns it.
    on_write: fn(&Resource, &mut Object),
    /// Changes what is stored: what a real server fills in when it reads it, after it was valid.
    on_store: fn(&Resource, &mut Object),
    /// Changes what a client writes: what admission adds, which nobody owns.
    on_admit: fn(&Resource, &mut Object),
    /// Changes what replaces an object, given that one.
    on_update: fn(&Resource, &Object, &mut Object),
    /// What a delete warns of that does not say what becomes of dependents.
    delete_warning: Option<&'static str>,
    /// Whether the deletion begins by rules of its own: what becomes of dependents is settled then, and not orphaning
    /// them is waiting for them.
    own_deletion: bool,
    /// How a delete of one object is refused whose preconditions do not hold, if the kind looks at them itself.
    precondition: Option<&'static str>,
    /// What a write of the status leaves alone beyond the policy.
    kept_by_status: KeptByStatus,
    /// Changes what a write of the status makes of an object, given that one.
    on_status: fn(&Resource, &Object, &mut Object, Timestamp),
    /// Writes who asks into a new object, where that is part of it.
    on_asked: Option<fn(&mut Object, &serde_json::Value)>,
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

/// What a write of the status leaves alone, where it writes other metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptByStatus {
    Nothing,
    /// Owners, and the time of the deletion.
    Owners,
    /// All metadata.
    Metadata,
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
    on_new_name: |_, _| {},
    on_delete: |_, _, _| Marked::Here,
    keeps: |_| Kept::No,
    on_name: |_| {},
    names_itself: false,
    kept_on_update: None,
    on_write: |_, _| {},
    on_store: |_, _| {},
    on_admit: |_, _| {},
    on_update: |_, _, _| {},
    delete_warning: None,
    own_deletion: false,
    precondition: None,
    kept_by_status: KeptByStatus::Nothing,
    on_status: |_, _, _, _| {},
    on_asked: None,
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
    initial_status: Some(|_| r#"{"phase":"Active"}"#.to_owned()),
    on_name: |object| {
        let name = object.meta.name.clone();
        object.meta.labels.insert("kubernetes.io/metadata.name", name);
    },
    on_create: |_, object| {
        object.set_field("spec", Bytes::from_static(br#"{"finalizers":["kubernetes"]}"#));
    },
    validate: namespace::validate,
    on_delete: |_, object, _| {
        object.set_field("status", Bytes::from_static(br#"{"phase":"Terminating"}"#));
        Marked::ByHook
    },
    keeps: namespace::spec_finalizers,
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
    initial_status: Some(pods::initial_status),
    on_admit: defaults::admit_pod,
    on_update: pods::keep_resources,
    on_status: |resource, old, new, _| pods::keep_in_status(resource, old, new),
    kept_by_status: KeptByStatus::Owners,
    name_warning: |name| not_a_label(name, "the Pod's hostname"),
    ..NONE
};

/// Warns of a name that makes odd names of hosts.
fn not_a_label(name: &str, used: &str) -> Option<String> {
    let problems = label_errors(name);
    let text = format!(
        "metadata.name: this is used in {used}, which can result in surprising behavior; a DNS label is recommended"
    );
    (!problems.is_empty()).then(|| format!("{text}: [{}]", problems.join(" ")))
}

/// Kinds of whose names those of pods are made.
const OF_PODS: Hooks = Hooks {
    name_warning: |name| not_a_label(name, "Pod names and hostnames"),
    ..NONE
};

/// The labels of the pods that an object makes.
fn template_labels(object: &Object) -> BTreeMap<String, String> {
    let template = object.field("spec").and_then(|spec| scan::member(spec, "template"));
    let labels = template
        .and_then(|template| scan::member(template, "metadata"))
        .and_then(|metadata| scan::member(metadata, "labels"));
    labels
        .and_then(|labels| serde_json::from_slice(labels).ok())
        .unwrap_or_default()
}

/// An object without labels has those of the pods that it makes.
fn labels_of_template(object: &mut Object) {
    if object.meta.labels.iter().next().is_none() {
        for (key, value) in template_labels(object) {
            object.meta.labels.insert(&key, value);
        }
    }
}

const REPLICATION_CONTROLLER: Hooks = Hooks {
    on_write: |_, object| labels_of_template(object),
    ..OF_PODS
};

/// How often the template of a daemon set has changed, and once more: old versions have a field for it.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn template_generation(object: &Object) -> i64 {
    let text = object.meta.annotations.get(TEMPLATE_GENERATION);
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

const DAEMON_SET: Hooks = Hooks {
    on_write: |_, object| {
        if object.meta.annotations.get(TEMPLATE_GENERATION).is_none() {
            object.meta.annotations.insert(TEMPLATE_GENERATION, "0");
        }
    },
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

const CONFIG_MAP: Hooks = Hooks {
    validate: |Written { new: object, .. }| {
        let mut errors = config_keys(object, &["data", "binaryData"]);
        errors.extend(too_long(data_size(object, "data", "binaryData"), "[]"));
        errors
    },
    ..NONE
};

const SECRET: Hooks = Hooks {
    on_write: |_, object| encode_string_data(object),
    validate: |Written { new: object, .. }| {
        let mut errors = config_keys(object, &["data"]);
        errors.extend(too_long(data_size(object, "", "data"), "data"));
        errors
    },
    ..NONE
};

const SERVICE_ACCOUNT: Hooks = Hooks {
    on_admit: |_, object| bare_references(object, "secrets"),
    ..NONE
};

const JOB: Hooks = Hooks {
    delete_warning: Some(
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or \
         set propagationPolicy=Orphan to suppress this warning",
    ),
    on_write: |_, object| labels_of_template(object),
    on_new_name: select_own_pods,
    // What is read from the store is filled in once more.
    on_store: |_, object| labels_of_template(object),
    ..OF_PODS
};

/// The pods of a new job have its name and its uid as labels, by which it finds them, unless it says how it does.
fn select_own_pods(resource: &Resource, job: &mut Object) {
    const LABELS: [&str; 3] = ["template", "metadata", "labels"];
    let (name, uid) = (job.meta.name.clone(), job.meta.uid.clone());
    defaults::change(resource, job, |fields| {
        let Some(spec) = fields.get_mut("spec") else { return };
        if spec["manualSelector"] == true {
            return;
        }
        let mut label = |place: [&str; 3], key: &str, value: &str| {
            let mut labels = &mut *spec;
            for name in place.into_iter().filter(|name| !name.is_empty()) {
                labels = &mut labels[name];
            }
            if labels[key].is_null() {
                labels[key] = value.into();
            }
        };
        for key in ["job-name", "batch.kubernetes.io/job-name"] {
            label(LABELS, key, &name);
        }
        for key in ["controller-uid", "batch.kubernetes.io/controller-uid"] {
            label(LABELS, key, &uid);
        }
        label(
            ["selector", "matchLabels", ""],
            "batch.kubernetes.io/controller-uid",
            &uid,
        );
    });
}

/// The names of the jobs of a cron job are longer by a time.
const CRON_JOB: Hooks = Hooks {
    validate: |Written { new, old, .. }| {
        const FIELD: &str = "metadata.name";
        let is_long = old.is_none() && new.meta.name.len() > 52;
        let error = || FieldError::invalid(FIELD, &new.meta.name, "must be no more than 52 characters");
        is_long.then(error).into_iter().collect()
    },
    ..OF_PODS
};

const PRIORITY_CLASS: Hooks = Hooks {
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

/// A node takes no pods until it is known to be well.
const NODE: Hooks = Hooks {
    on_create: |resource, node| {
        defaults::change(resource, node, |fields| {
            let taints = &mut fields.entry("spec").or_insert_with(|| json!({}))["taints"];
            let key = "node.kubernetes.io/not-ready";
            let mut all = taints.as_array().cloned().unwrap_or_default();
            if !all
                .iter()
                .any(|taint| taint["key"] == key && taint["effect"] == "NoSchedule")
            {
                all.push(json!({"key": key, "effect": "NoSchedule"}));
                *taints = all.into();
            }
        });
    },
    ..NONE
};

const CLAIM: Hooks = Hooks {
    initial_status: Some(|_| r#"{"phase":"Pending"}"#.to_owned()),
    ..NONE
};

/// Says since when a volume is in its phase, unless the client does.
fn date_phase(resource: &Resource, old: &Object, new: &mut Object, now: Timestamp) {
    const SINCE: &str = "lastPhaseTransitionTime";
    let before = specs::body(old)["status"].take();
    defaults::change(resource, new, |fields| {
        let status = fields.entry("status").or_insert_with(|| json!({}));
        let is_changed = status["phase"] != before["phase"];
        if !is_changed && status[SINCE].is_null() {
            status[SINCE] = before[SINCE].clone();
        } else if is_changed && (status[SINCE].is_null() || status[SINCE] == before[SINCE]) {
            status[SINCE] = crate::clock::time_text(now).into();
        }
    });
}

const VOLUME: Hooks = Hooks {
    initial_status: Some(|volume| {
        let since = volume
            .meta
            .creation_timestamp
            .map(crate::clock::time_text)
            .unwrap_or_default();
        format!(r#"{{"phase":"Pending","lastPhaseTransitionTime":"{since}"}}"#)
    }),
    on_status: date_phase,
    ..NONE
};

const AUTOSCALER: Hooks = Hooks {
    on_write: |_, object| drop_annotations(&mut object.meta),
    // Written through the older version, it has not been filled in yet.
    on_store: |resource, object| {
        drop_annotations(&mut object.meta);
        defaults::fill_in(resource, object);
    },
    ..NONE
};

const SIGNING_REQUEST: Hooks = Hooks {
    on_asked: Some(signing::asked_by),
    on_status: |_, old, new, now| signing::keep_decisions(old, new, now),
    kept_on_update: Some("spec"),
    validate: signing::validate,
    ..NONE
};

const LIMIT_RANGE: Hooks = Hooks {
    names_itself: true,
    ..NONE
};

const FLOW_CONTROL: Hooks = Hooks {
    kept_by_status: KeptByStatus::Metadata,
    ..NONE
};

/// The hooks of a resource.
fn hooks(resource: &Resource) -> &'static Hooks {
    match (resource.group.as_ref(), resource.plural.as_ref()) {
        ("", "namespaces") => &NAMESPACE,
        ("", "pods") => &POD,
        ("", "configmaps") => &CONFIG_MAP,
        ("", "secrets") => &SECRET,
        ("", "limitranges") => &LIMIT_RANGE,
        ("", "serviceaccounts") => &SERVICE_ACCOUNT,
        ("", "nodes") => &NODE,
        ("", "persistentvolumeclaims") => &CLAIM,
        ("", "persistentvolumes") => &VOLUME,
        ("", "events") => &EVENT,
        ("events.k8s.io", "events") => &EVENT_OF_EVENTS,
        ("flowcontrol.apiserver.k8s.io", _) => &FLOW_CONTROL,
        ("certificates.k8s.io", "certificatesigningrequests") => &SIGNING_REQUEST,
        ("scheduling.k8s.io", "priorityclasses") => &PRIORITY_CLASS,
        ("apps", "daemonsets") => &DAEMON_SET,
        ("apps", "deployments" | "replicasets") => &OF_PODS,
        ("autoscaling", "horizontalpodautoscalers") if resource.version != "v1" => &AUTOSCALER,
        ("batch", "jobs") => &JOB,
        ("", "replicationcontrollers") => &REPLICATION_CONTROLLER,
        ("batch", "cronjobs") => &CRON_JOB,
        ("apiextensions.k8s.io", "customresourcedefinitions") => &DEFINITION,
        _ => &NONE,
    }
}

/// Replaces the status that the client sent with the one that a new object has.
pub(crate) fn reset_status(resource: &Resource, object: &mut Object) {
    match hooks(resource).initial_status {
        Some(status) => object.set_field("status", status(object).into()),
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

/// Changes a new object whose name is settled.
pub(crate) fn name_settled(resource: &Resource, object: &mut Object) {
    (hooks(resource).on_new_name)(resource, object);
}

/// Gives an object that is written what the server hands out, which is kept for it until it is stored.
///
/// # Errors
/// 422 for what it asks for and cannot have, 500 if there is nothing left.
pub(crate) fn allocate<'a>(
    server: &'a Shared,
    resource: &Resource,
    id: ResourceId,
    old: Option<&Object>,
    new: &mut Object,
) -> Result<Option<services::Held<'a>>, Status> {
    if resource.group.is_empty() && resource.plural == "services" {
        return services::allocate(server, resource, id, old, new).map(Some);
    }
    Ok(None)
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
    defaults::fill_in(resource, object);
    (hooks(resource).on_write)(resource, object);
}

/// Changes a valid object on its way to the store.
pub(crate) fn before_store(resource: &Resource, object: &mut Object) {
    (hooks(resource).on_store)(resource, object);
}

/// Changes what a client writes, when it is settled what of it the client owns.
pub(crate) fn admit(resource: &Resource, object: &mut Object) {
    (hooks(resource).on_admit)(resource, object);
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

/// What a write of the status leaves alone beyond the policy.
pub(crate) fn kept_by_status(resource: &Resource) -> KeptByStatus {
    hooks(resource).kept_by_status
}

/// Changes what a write of the status makes of an object, before it is validated.
pub(crate) fn on_status(resource: &Resource, old: &Object, new: &mut Object, now: Timestamp) {
    (hooks(resource).on_status)(resource, old, new, now);
}

/// What an approval makes of a request for a certificate, given that one.
pub(crate) fn approve(old: &Object, new: &mut Object, now: Timestamp) {
    signing::approve(old, new, now);
}

/// How who asks is written into a new object, where that is part of it.
pub(crate) fn on_asked(resource: &Resource) -> Option<fn(&mut Object, &serde_json::Value)> {
    hooks(resource).on_asked
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
    if resource.custom {
        return schemas::validate(resource, &written, of_metadata);
    }
    let mut errors = (hooks.validate_first)(&written);
    if hooks.first_alone && !errors.is_empty() {
        return errors;
    }
    errors.extend(join(of_metadata, (hooks.validate)(&written)));
    errors.extend(specs::validate(resource, &written));
    errors
}

/// What is wrong with an object that replaces another one, whose metadata has these findings. Its name cannot change, so
/// that no rule of a kind speaks of it.
pub(crate) fn validate_changed(
    resource: &Resource,
    written: &Written<'_>,
    mut of_metadata: Vec<FieldError>,
) -> Vec<FieldError> {
    if resource.custom {
        return schemas::validate(resource, written, of_metadata);
    }
    let hooks = hooks(resource);
    of_metadata.extend((hooks.validate_first)(written));
    let of_kind = (hooks.validate)(written).into_iter();
    of_metadata.extend(of_kind.filter(|error| !matches!(&*error.field, "metadata.name" | "metadata.generateName")));
    of_metadata.extend(specs::validate(resource, written));
    of_metadata
}
