//! From objects to bytes: the metadata in Go's order, and stored bytes as answers.

use std::ops::Range;

use super::{METADATA, Meta, OwnerReference, StringMap};
use crate::{codec::time, json::scan, json::write};

/// `apiVersion` and `kind` as they appear in an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TypeMeta<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
}

/// Appends the metadata without `resourceVersion`; returns where the labels are in `out`.
pub(super) fn metadata(meta: &Meta, out: &mut Vec<u8>) -> Range<usize> {
    let labels = unmanaged(meta, out);
    if let Some(fields) = meta.managed_fields.as_deref().filter(|fields| *fields != b"[]") {
        out.pop();
        write::name(out, "managedFields");
        out.extend_from_slice(fields);
        out.push(b'}');
    }
    labels
}

/// Appends all metadata.
pub(crate) fn write_metadata_of(meta: &Meta, out: &mut Vec<u8>) {
    metadata(meta, out);
    if !meta.resource_version.is_empty() {
        out.pop();
        text(out, "resourceVersion", &meta.resource_version);
        out.push(b'}');
    }
}

/// Appends the metadata without `resourceVersion` and `managedFields`; returns where the labels are in `out`.
pub(super) fn unmanaged(meta: &Meta, out: &mut Vec<u8>) -> Range<usize> {
    out.push(b'{');
    for (name, value) in [
        ("name", &meta.name),
        ("generateName", &meta.generate_name),
        ("namespace", &meta.namespace),
        ("selfLink", &meta.self_link),
        ("uid", &meta.uid),
    ] {
        text(out, name, value);
    }
    if meta.generation != 0 {
        write::name(out, "generation");
        write::int(out, meta.generation);
    }
    for (name, value) in [
        ("creationTimestamp", meta.creation_timestamp),
        ("deletionTimestamp", meta.deletion_timestamp),
    ] {
        if let Some(value) = value {
            write::name(out, name);
            time::write(out, value);
        }
    }
    if let Some(seconds) = meta.deletion_grace_period_seconds {
        write::name(out, "deletionGracePeriodSeconds");
        write::int(out, seconds);
    }
    let labels = string_map(out, "labels", &meta.labels);
    string_map(out, "annotations", &meta.annotations);
    owner_references(out, meta);
    if !meta.finalizers.is_empty() {
        write::name(out, "finalizers");
        out.push(b'[');
        for finalizer in &meta.finalizers {
            write::comma(out);
            write::string(out, finalizer);
        }
        out.push(b']');
    }
    out.push(b'}');
    labels
}

fn text(out: &mut Vec<u8>, name: &str, value: &str) {
    if !value.is_empty() {
        write::name(out, name);
        write::string(out, value);
    }
}

/// Returns where the map is in `out`.
fn string_map(out: &mut Vec<u8>, name: &str, map: &StringMap) -> Range<usize> {
    if map.is_empty() {
        return 0..0;
    }
    write::name(out, name);
    let start = out.len();
    out.push(b'{');
    for (key, value) in map.iter() {
        write::comma(out);
        write::string(out, key);
        out.push(b':');
        write::string(out, value);
    }
    out.push(b'}');
    start..out.len()
}

fn owner_references(out: &mut Vec<u8>, meta: &Meta) {
    if meta.owner_references.is_empty() {
        return;
    }
    write::name(out, "ownerReferences");
    out.push(b'[');
    for owner in &meta.owner_references {
        write::comma(out);
        owner_reference(owner, out);
    }
    out.push(b']');
}

/// Appends one owner reference.
pub(crate) fn owner_reference(owner: &OwnerReference, out: &mut Vec<u8>) {
    out.push(b'{');
    // These four are written even when they are empty.
    for (name, value) in [
        ("apiVersion", &owner.api_version),
        ("kind", &owner.kind),
        ("name", &owner.name),
        ("uid", &owner.uid),
    ] {
        write::name(out, name);
        write::string(out, value);
    }
    for (name, value) in [
        ("controller", owner.controller),
        ("blockOwnerDeletion", owner.block_owner_deletion),
    ] {
        if let Some(value) = value {
            write::name(out, name);
            out.extend_from_slice(if value { b"true" } else { b"false" });
        }
    }
    out.push(b'}');
}

/// Where the resource version belongs in canonical bytes: after the last of the fields that Go writes before it.
fn resource_version_at(canonical: &[u8]) -> usize {
    let mut at = METADATA.len() + 1;
    for name in ["name", "generateName", "namespace", "selfLink", "uid"] {
        let start = at + usize::from(canonical.get(at) == Some(&b','));
        let is_field = canonical.get(start..).is_some_and(|rest| {
            rest.starts_with(b"\"")
                && rest[1..].starts_with(name.as_bytes())
                && rest[1 + name.len()..].starts_with(b"\":")
        });
        if is_field {
            at = scan::value_end(canonical, start + name.len() + 3);
        }
    }
    at
}

/// Appends `{"kind":…,"apiVersion":…,"metadata":…` up to the end of the metadata (`metadata_end` in `canonical`).
fn head(
    canonical: &[u8],
    metadata_end: usize,
    type_meta: Option<TypeMeta<'_>>,
    resource_version: u64,
    out: &mut Vec<u8>,
) {
    out.push(b'{');
    if let Some(types) = type_meta {
        write::name(out, "kind");
        write::string(out, types.kind);
        write::name(out, "apiVersion");
        write::string(out, types.api_version);
        out.push(b',');
    }
    if resource_version == 0 {
        out.extend_from_slice(&canonical[1..metadata_end]);
        return;
    }
    let at = resource_version_at(canonical);
    out.extend_from_slice(&canonical[1..at]);
    write::name(out, "resourceVersion");
    out.push(b'"');
    // Writing to a Vec cannot fail.
    let _ = std::io::Write::write_fmt(out, format_args!("{resource_version}"));
    out.push(b'"');
    if !matches!(canonical.get(at), Some(b',' | b'}')) {
        out.push(b',');
    }
    out.extend_from_slice(&canonical[at..metadata_end]);
}

/// Appends stored bytes as an answer: with the type (unless the caller leaves it out, as in built-in lists) and the
/// resource version (unless it is 0: a dry run has none).
pub(crate) fn write_output(
    canonical: &[u8],
    type_meta: Option<TypeMeta<'_>>,
    resource_version: u64,
    out: &mut Vec<u8>,
) {
    out.reserve(canonical.len() + 128);
    head(canonical, canonical.len(), type_meta, resource_version, out);
}

/// Appends only the metadata of stored bytes, as `PartialObjectMetadata` shows it.
pub(crate) fn write_metadata(
    canonical: &[u8],
    type_meta: Option<TypeMeta<'_>>,
    resource_version: u64,
    out: &mut Vec<u8>,
) {
    head(
        canonical,
        scan::value_end(canonical, METADATA.len()),
        type_meta,
        resource_version,
        out,
    );
    out.push(b'}');
}
