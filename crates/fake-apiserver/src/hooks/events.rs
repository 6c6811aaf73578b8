//! What is wrong with an event. Both groups have the same kind, under other names of fields; texts have those of the first.

use serde::Deserialize;

use crate::object::Object;
use crate::validation::{ErrorKind, FieldError, Written, label_key_errors};

/// The longest texts about who reports what.
const MAX_TEXT: usize = 128;
const MAX_MESSAGE: usize = 1024;

/// The names of the fields in a group.
struct Names {
    object: &'static str,
    controller: &'static str,
    message: &'static str,
}

const CORE: Names = Names {
    object: "involvedObject",
    controller: "reportingComponent",
    message: "message",
};

const EVENTS: Names = Names {
    object: "regarding",
    controller: "reportingController",
    message: "note",
};

/// What is wrong with an event of the core group.
pub(super) fn of_core(written: &Written<'_>) -> Vec<FieldError> {
    validate(written.new, &CORE)
}

/// What is wrong with an event of the other group, in each version of it.
pub(super) fn of_events(written: &Written<'_>) -> Vec<FieldError> {
    validate(written.new, &EVENTS)
}

/// What more is wrong with a new event of the other group.
pub(super) fn new_of_events(written: &Written<'_>) -> Vec<FieldError> {
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Series {
        count: i64,
        last_observed_time: Option<String>,
    }
    let event = written.new;
    let mut errors = Vec::new();
    if written.old.is_some() {
        return errors;
    }
    let required = |field: &str| FieldError::new(ErrorKind::Required, field, "");
    if let Some(series) = part::<Option<Series>>(event, "series") {
        if series.count < 2 {
            errors.push(FieldError::invalid("series.count", "", "should be at least 2"));
        }
        if series.last_observed_time.is_none() {
            errors.push(required("series.lastObservedTime"));
        }
    }
    if !has_time(event) {
        errors.push(required("eventTime"));
    }
    let kind = text(event, "type");
    if !matches!(kind.as_str(), "Normal" | "Warning") {
        errors.push(FieldError::invalid("type", "", &format!("has invalid value: {kind}")));
    }
    for (field, name) in [
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("deprecatedSource", "source"),
    ] {
        let value = event.field(field).map(AsRef::<[u8]>::as_ref);
        if !matches!(value, None | Some(b"null" | b"0" | b"{}")) {
            errors.push(FieldError::invalid(name, "", "needs to be unset"));
        }
    }
    errors
}

fn validate(event: &Object, names: &Names) -> Vec<FieldError> {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Reference {
        namespace: String,
    }
    let mut errors = Vec::new();
    let namespace = event.meta.namespace.as_str();
    let reference: Reference = part(event, names.object);
    let of_object = reference.namespace.as_str();
    let has_time = has_time(event);
    // What is about something in no namespace has a place of its own.
    let fits = match (of_object, has_time) {
        ("", true) => matches!(namespace, "default" | "kube-system"),
        ("", false) => matches!(namespace, "" | "default"),
        (_, true) => true,
        (_, false) => namespace == of_object,
    };
    if !fits {
        let text = "does not match event.namespace";
        errors.push(FieldError::invalid("involvedObject.namespace", of_object, text));
    }
    if !has_time {
        return errors;
    }
    let controller = text(event, names.controller);
    if controller.is_empty() {
        errors.push(FieldError::new(ErrorKind::Required, names.controller, ""));
    }
    for text in label_key_errors(&controller) {
        errors.push(FieldError::invalid(names.controller, &controller, &text));
    }
    for (field, name) in [
        ("reportingInstance", "reportingInstance"),
        ("action", "action"),
        ("reason", "reason"),
    ] {
        let value = text(event, field);
        if value.is_empty() {
            errors.push(FieldError::new(ErrorKind::Required, name, ""));
        }
        too_long(&value, MAX_TEXT, name, &mut errors);
    }
    too_long(&text(event, names.message), MAX_MESSAGE, "message", &mut errors);
    errors
}

fn too_long(text: &str, most: usize, field: &str, errors: &mut Vec<FieldError>) {
    if text.len() > most {
        errors.push(FieldError::invalid(
            field,
            "",
            &format!("can have at most {most} characters"),
        ));
    }
}

fn has_time(event: &Object) -> bool {
    event.field("eventTime").is_some_and(|time| time.as_ref() != b"null")
}

fn text(event: &Object, field: &str) -> String {
    part(event, field)
}

fn part<T: serde::de::DeserializeOwned + Default>(event: &Object, field: &str) -> T {
    // Canonical bytes of a decoded object; a field that is absent gives the defaults.
    event
        .field(field)
        .and_then(|bytes| serde_json::from_slice(bytes).ok())
        .unwrap_or_default()
}
