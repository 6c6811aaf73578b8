//! `metadata`: parsed into [`Meta`] with the same findings as any other typed value.

use bytes::Bytes;
use jiff::Timestamp;

use super::{
    tables::{Field, OBJECT_META, Shape, Type},
    time,
    typed::Writer,
};
use crate::{
    json::{Kind, Value},
    object::{Meta, OwnerReference, StringMap},
};

/// Parses `metadata`; the writer's path already leads to it. A value of another type is recorded there. Of several values,
/// each changes what the one before has made, and so do several of one field.
pub(super) fn parse<'t>(writer: &mut Writer<'t>, values: &[Value<'t>], go: &str) -> Meta {
    let mut meta = Meta::default();
    let mut objects: Vec<Value<'t>> = Vec::with_capacity(values.len());
    for value in values {
        match value.kind() {
            Kind::Object => objects.push(*value),
            Kind::Null => {}
            _ => writer.mismatch(*value, go),
        }
    }
    let ty = OBJECT_META.get();
    let slots = writer.collect(ty, &objects);
    for (at, field) in ty.fields.iter().enumerate() {
        if slots.get(at).is_none() {
            continue;
        }
        writer.enter(ty, field.name);
        for value in slots.all(at) {
            set(&mut meta, writer, field, value);
        }
        writer.leave();
    }
    meta
}

/// Sets a field.
fn set<'t>(meta: &mut Meta, writer: &mut Writer<'t>, field: &'static Field, value: Value<'t>) {
    if value.is_null() {
        // Texts and numbers stay as they are.
        match field.name {
            "creationTimestamp" => meta.creation_timestamp = None,
            "deletionTimestamp" => meta.deletion_timestamp = None,
            "deletionGracePeriodSeconds" => meta.deletion_grace_period_seconds = None,
            "labels" => meta.labels = StringMap::default(),
            "annotations" => meta.annotations = StringMap::default(),
            "ownerReferences" => meta.owner_references.clear(),
            "finalizers" => meta.finalizers.clear(),
            "managedFields" => meta.managed_fields = None,
            _ => {}
        }
        return;
    }
    match field.name {
        "name" => meta.name = text(writer, value, field.go),
        "generateName" => meta.generate_name = text(writer, value, field.go),
        "namespace" => meta.namespace = text(writer, value, field.go),
        "selfLink" => meta.self_link = text(writer, value, field.go),
        "uid" => meta.uid = text(writer, value, field.go),
        "resourceVersion" => meta.resource_version = text(writer, value, field.go),
        "generation" => meta.generation = int(writer, value).unwrap_or(0),
        "creationTimestamp" => meta.creation_timestamp = timestamp(writer, value),
        "deletionTimestamp" => meta.deletion_timestamp = timestamp(writer, value),
        "deletionGracePeriodSeconds" => meta.deletion_grace_period_seconds = int(writer, value),
        "labels" => add(&mut meta.labels, string_map(writer, value, field.go)),
        "annotations" => add(&mut meta.annotations, string_map(writer, value, field.go)),
        "ownerReferences" => meta.owner_references = owners(writer, value, field.go, field.shape),
        "finalizers" => meta.finalizers = texts(writer, value, field.go),
        "managedFields" => meta.managed_fields = Some(canonical(writer, value, field.go, field.shape)),
        _ => {}
    }
}

/// Adds what a map has to another one.
fn add(map: &mut StringMap, more: StringMap) {
    if map.is_empty() {
        *map = more;
        return;
    }
    for (key, value) in more.iter() {
        map.insert(key, value);
    }
}

fn text<'t>(writer: &mut Writer<'t>, value: Value<'t>, go: &str) -> String {
    if let Some(text) = value.as_str() {
        return text.into_owned();
    }
    if !value.is_null() {
        writer.mismatch(value, go);
    }
    String::new()
}

fn int<'t>(writer: &mut Writer<'t>, value: Value<'t>) -> Option<i64> {
    let parsed = value.as_number().and_then(|digits| digits.parse().ok());
    if parsed.is_none() {
        writer.mismatch(value, "int64");
    }
    parsed
}

fn boolean<'t>(writer: &mut Writer<'t>, value: Value<'t>) -> Option<bool> {
    let parsed = value.as_bool();
    if parsed.is_none() {
        writer.mismatch(value, "bool");
    }
    parsed
}

fn timestamp<'t>(writer: &mut Writer<'t>, value: Value<'t>) -> Option<Timestamp> {
    let Some(text) = value.as_str() else {
        writer.fatal_mismatch(value, "string");
        return None;
    };
    match time::parse(&text) {
        Ok(parsed) if time::is_zero(parsed) => None,
        Ok(parsed) => Timestamp::from_second(parsed.as_second()).ok(),
        Err(error) => {
            writer.fatal(value, error);
            None
        }
    }
}

fn string_map<'t>(writer: &mut Writer<'t>, value: Value<'t>, go: &str) -> StringMap {
    if value.kind() != Kind::Object {
        writer.mismatch(value, go);
        return StringMap::default();
    }
    let map: StringMap = value
        .entries()
        .map(|(key, value)| {
            (
                key.as_str().unwrap_or_default().into_owned(),
                text(writer, value, "string"),
            )
        })
        .collect();
    if value.entries().count() != map.len() {
        writer.duplicate_keys(value);
    }
    map
}

fn texts<'t>(writer: &mut Writer<'t>, value: Value<'t>, go: &str) -> Vec<String> {
    if value.kind() != Kind::Array {
        writer.mismatch(value, go);
        return Vec::new();
    }
    value.items().map(|item| text(writer, item, "string")).collect()
}

fn owners<'t>(writer: &mut Writer<'t>, value: Value<'t>, go: &str, shape: Shape) -> Vec<OwnerReference> {
    let Shape::List(Shape::Struct(id)) = shape else {
        return Vec::new();
    };
    if value.kind() != Kind::Array {
        writer.mismatch(value, go);
        return Vec::new();
    }
    let ty = id.get();
    let mut owners = Vec::new();
    for (index, item) in value.items().enumerate() {
        writer.enter_index(index);
        if item.kind() == Kind::Object {
            owners.push(owner(writer, ty, item));
        } else {
            if !item.is_null() {
                writer.mismatch(item, ty.go);
            }
            owners.push(OwnerReference::default());
        }
        writer.leave();
    }
    owners
}

fn owner<'t>(writer: &mut Writer<'t>, ty: &'static Type, item: Value<'t>) -> OwnerReference {
    let mut owner = OwnerReference::default();
    let slots = writer.collect(ty, &[item]);
    for (at, field) in ty.fields.iter().enumerate() {
        if slots.get(at).is_none() {
            continue;
        }
        writer.enter(ty, field.name);
        for value in slots.all(at) {
            match field.name {
                "controller" if value.is_null() => owner.controller = None,
                "blockOwnerDeletion" if value.is_null() => owner.block_owner_deletion = None,
                _ if value.is_null() => {}
                "apiVersion" => owner.api_version = text(writer, value, field.go),
                "kind" => owner.kind = text(writer, value, field.go),
                "name" => owner.name = text(writer, value, field.go),
                "uid" => owner.uid = text(writer, value, field.go),
                "controller" => owner.controller = boolean(writer, value),
                "blockOwnerDeletion" => owner.block_owner_deletion = boolean(writer, value),
                _ => {}
            }
        }
        writer.leave();
    }
    owner
}

/// The canonical JSON of a list; an empty one is told from an absent one.
fn canonical<'t>(writer: &mut Writer<'t>, value: Value<'t>, go: &'static str, shape: Shape) -> Bytes {
    let start = writer.out.len();
    let any = writer.value(shape, go, value);
    let written = writer.out.split_off(start);
    if any {
        Bytes::from(written)
    } else {
        Bytes::from_static(b"[]")
    }
}
