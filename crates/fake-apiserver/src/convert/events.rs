//! Events: stored as `v1`, served as `events.k8s.io/v1` too, where the same fields have other names.

use bytes::Bytes;

use super::Converter;
use crate::object::Object;

/// The fields of `v1`, in Go's order, each with its name in `events.k8s.io/v1`.
const CORE: [(&str, &str); 14] = [
    ("involvedObject", "regarding"),
    ("reason", "reason"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("series", "series"),
    ("action", "action"),
    ("related", "related"),
    ("reportingComponent", "reportingController"),
    ("reportingInstance", "reportingInstance"),
];

/// The fields of `events.k8s.io/v1`, in Go's order.
const EVENTS: [&str; 14] = [
    "eventTime",
    "series",
    "reportingController",
    "reportingInstance",
    "action",
    "reason",
    "regarding",
    "related",
    "note",
    "type",
    "deprecatedSource",
    "deprecatedFirstTimestamp",
    "deprecatedLastTimestamp",
    "deprecatedCount",
];

/// Fields that `v1` writes when they are empty and `events.k8s.io/v1` does not, by their name in `v1`.
const WRITTEN_WHEN_EMPTY: [&str; 2] = ["reportingComponent", "reportingInstance"];

/// The empty string as JSON.
const EMPTY: Bytes = Bytes::from_static(b"\"\"");

#[derive(Debug)]
pub(super) struct Events;

impl Converter for Events {
    fn to_stored(&self, object: &Object) -> Object {
        let fields = CORE.iter().filter_map(|(core, events)| {
            let absent = WRITTEN_WHEN_EMPTY.contains(core).then_some(EMPTY);
            Some(((*core).into(), object.field(events).cloned().or(absent)?))
        });
        Object {
            meta: object.meta.clone(),
            fields: fields.collect(),
        }
    }

    fn to_served(&self, object: &Object) -> Object {
        let fields = EVENTS.iter().filter_map(|events| {
            let (core, _) = CORE.iter().find(|(_, name)| name == events)?;
            let value = object.field(core)?;
            let omitted = WRITTEN_WHEN_EMPTY.contains(core) && *value == EMPTY;
            (!omitted).then(|| ((*events).into(), value.clone()))
        });
        Object {
            meta: object.meta.clone(),
            fields: fields.collect(),
        }
    }

    fn stored_label<'l>(&self, label: &'l str) -> &'l str {
        match label {
            "regarding.kind" => "involvedObject.kind",
            "regarding.name" => "involvedObject.name",
            "reportingController" => "reportingComponent",
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{ContentType, FieldValidation, decode};
    use crate::kinds::Registry;

    #[test]
    fn every_event_comes_back_as_it_went_and_is_canonical_in_between() {
        let kinds = Registry::new().snapshot();
        let events = kinds.resource("events.k8s.io", "v1", "events").unwrap();
        let core = kinds.resource("", "v1", "events").unwrap();
        let bodies = [
            r"{}",
            r#"{"note":"n","reason":"r","reportingController":"c","reportingInstance":"i","deprecatedCount":3,"type":"Normal",
                "eventTime":"2026-01-02T03:04:05.123456Z","action":"a","regarding":{"kind":"Pod","name":"p"},
                "related":{"kind":"Node"},"series":{"count":2,"lastObservedTime":"2026-01-02T03:04:05.000001Z"},
                "deprecatedSource":{"component":"k"},"deprecatedFirstTimestamp":"2026-01-02T03:04:05Z"}"#,
        ];
        for body in bodies {
            let read = |resource, bytes: &[u8]| {
                decode(resource, ContentType::Json, bytes, FieldValidation::Strict)
                    .unwrap()
                    .object
            };
            let served = read(events, body.as_bytes());
            let stored = Events.to_stored(&served);
            assert_eq!(stored.to_canonical(), read(core, &stored.to_canonical()).to_canonical());
            assert_eq!(Events.to_served(&stored), served);
        }
    }
}
