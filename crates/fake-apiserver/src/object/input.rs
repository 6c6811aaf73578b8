//! From stored bytes back to objects. The bytes are our own, so nothing is checked twice.

use std::borrow::Cow;

use bytes::Bytes;

use super::{FieldName, METADATA, Meta, Object, OwnerReference, StringMap};
use crate::{
    codec::time,
    json::{Tape, Value, scan},
};

/// Reads canonical bytes.
pub(super) fn read(canonical: &Bytes) -> Object {
    let metadata_end = scan::value_end(canonical, METADATA.len());
    let meta = metadata(canonical, METADATA.len()..metadata_end);
    let mut fields = Vec::with_capacity(4);
    let mut at = metadata_end;
    while canonical.get(at) == Some(&b',') {
        let name_end = scan::value_end(canonical, at + 1);
        let value_end = scan::value_end(canonical, name_end + 1);
        fields.push((
            field_name(&canonical[at + 1..name_end]),
            canonical.slice(name_end + 1..value_end),
        ));
        at = value_end;
    }
    Object { meta, fields }
}

/// The name of a top-level field, given with its quotes. Common names need no memory of their own.
fn field_name(quoted: &[u8]) -> FieldName {
    const COMMON: [&str; 9] = [
        "spec",
        "status",
        "data",
        "type",
        "binaryData",
        "immutable",
        "rules",
        "roleRef",
        "subjects",
    ];
    let raw = &quoted[1..quoted.len() - 1];
    if let Some(name) = COMMON.iter().find(|name| name.as_bytes() == raw) {
        return Cow::Borrowed(name);
    }
    let tape = Tape::parse(quoted);
    Cow::Owned(
        tape.ok()
            .and_then(|tape| tape.root().as_str().map(Cow::into_owned))
            .unwrap_or_default(),
    )
}

fn metadata(canonical: &Bytes, range: std::ops::Range<usize>) -> Meta {
    let mut meta = Meta::default();
    let start = range.start;
    let Ok(tape) = Tape::parse(&canonical[range]) else {
        debug_assert!(false, "stored metadata is JSON");
        return meta;
    };
    let text = |value: Value<'_>| value.as_str().unwrap_or_default().into_owned();
    let int = |value: Value<'_>| value.as_number().and_then(|digits| digits.parse().ok());
    for (key, value) in tape.root().entries() {
        match key.raw() {
            b"name" => meta.name = text(value),
            b"generateName" => meta.generate_name = text(value),
            b"namespace" => meta.namespace = text(value),
            b"selfLink" => meta.self_link = text(value),
            b"uid" => meta.uid = text(value),
            b"generation" => meta.generation = int(value).unwrap_or(0),
            b"creationTimestamp" => meta.creation_timestamp = time::parse(&text(value)).ok(),
            b"deletionTimestamp" => meta.deletion_timestamp = time::parse(&text(value)).ok(),
            b"deletionGracePeriodSeconds" => meta.deletion_grace_period_seconds = int(value),
            b"labels" => meta.labels = string_map(value),
            b"annotations" => meta.annotations = string_map(value),
            b"ownerReferences" => meta.owner_references = value.items().map(owner).collect(),
            b"finalizers" => meta.finalizers = value.items().map(text).collect(),
            b"managedFields" => {
                let at = start + value.offset() as usize;
                meta.managed_fields = Some(canonical.slice(at..at + value.raw().len()));
            }
            _ => {}
        }
    }
    meta
}

fn string_map(value: Value<'_>) -> StringMap {
    let text = |value: Value<'_>| value.as_str().unwrap_or_default().into_owned();
    // Stored in key order already.
    StringMap {
        entries: value.entries().map(|(key, value)| (text(key), text(value))).collect(),
    }
}

fn owner(value: Value<'_>) -> OwnerReference {
    let text = |key: &str| {
        value
            .get(key)
            .and_then(|value| value.as_str())
            .unwrap_or_default()
            .into_owned()
    };
    OwnerReference {
        api_version: text("apiVersion"),
        kind: text("kind"),
        name: text("name"),
        uid: text("uid"),
        controller: value.get("controller").and_then(|value| value.as_bool()),
        block_owner_deletion: value.get("blockOwnerDeletion").and_then(|value| value.as_bool()),
    }
}
