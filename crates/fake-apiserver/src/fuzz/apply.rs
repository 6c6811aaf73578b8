//! Server-side apply, and the record of owners that other writes leave.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use jiff::Timestamp;

use super::{Target, fields, parts, resources};
use crate::codec::{FieldValidation, decode_patched};
use crate::json::{Tape, canonical};
use crate::kinds::Resource;
use crate::managed_fields::{ApplyError, Force, Live, WriteContext, apply, track};
use crate::object::{Object, TypeMeta, write_output};
use crate::structured::fields_v1;

/// A letter that picks a kind, and what three managers apply one after the other.
pub(super) const TARGET: Target = Target {
    name: "apply",
    run,
    seeds: &[
        "p\n{\"spec\":{\"containers\":[{\"name\":\"a\",\"image\":\"i\",\"ports\":[{\"containerPort\":1}]}]},\"metadata\":{\"labels\":{\"a\":\"b\"}}}\n{\"spec\":{\"containers\":[{\"name\":\"a\",\"image\":\"j\"},{\"name\":\"b\"}]}}\n{\"metadata\":{\"labels\":{\"a\":\"c\"},\"finalizers\":[\"x/y\"]},\"spec\":{\"tolerations\":[{\"key\":\"k\"}]}}",
        "w\n{\"spec\":{\"set\":[\"a\",\"b\"],\"map\":[{\"k\":1,\"l\":\"x\",\"v\":2}],\"whole\":{\"a\":1},\"any\":{\"b\":[1]}}}\n{\"spec\":{\"set\":[\"b\",\"c\"],\"map\":[{\"k\":1,\"l\":\"x\"}]}}\n{\"spec\":{\"whole\":{\"b\":null},\"any\":null}}",
        "c\n{\"data\":{\"a\":\"b\"}}\n{\"data\":{}}\n{\"data\":{\"a\":\"c\"},\"metadata\":{\"annotations\":{}}}",
        "s\n{\"spec\":{\"ports\":[{\"port\":1},{\"port\":1,\"protocol\":\"UDP\"}]}}\n{}\n{\"spec\":{\"ports\":[{\"port\":1,\"name\":\"x\"}]}}",
    ],
    words: &[
        "\"spec\":{",
        "\"name\":\"a\"",
        "\"metadata\":{",
        "\"managedFields\":[]",
        "\"k\":1",
        "\"l\":\"x\"",
        "\"set\":[",
        "\"map\":[",
        "null",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"\"",
        "1.5",
        "\"containers\":[",
    ],
};

const SCHEMA: &str = r#"{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{
"set":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"},
"map":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k","l"],"items":{"type":"object","required":["k","l"],"properties":{"k":{"type":"integer"},"l":{"type":"string"},"v":{"type":"integer"}}}},
"whole":{"type":"object","x-kubernetes-map-type":"atomic","additionalProperties":{"type":"integer"}},
"any":{"x-kubernetes-preserve-unknown-fields":true},
"port":{"x-kubernetes-int-or-string":true}}}}}"#;

static WIDGETS: LazyLock<Arc<Resource>> =
    LazyLock::new(|| resources::custom(SCHEMA.as_bytes()).expect("a schema that can be read"));

fn run(data: &[u8]) {
    let Some([kind, first, second, third]) = parts(data) else {
        return;
    };
    let resource = match kind.first() {
        Some(b'w') => &*WIDGETS,
        other => resources::picked(other.copied().unwrap_or_default()),
    };
    let mut live: Option<(Vec<u8>, Option<Bytes>)> = None;
    for (at, patch) in [first, second, third].into_iter().enumerate() {
        let Some(patch) = whole(resource, patch) else { continue };
        let manager = if at == 0 { "first" } else { "other" };
        for force in [Force::No, Force::Yes] {
            let Ok((json, owners)) = attempt(resource, manager, live.as_ref(), &patch, force) else {
                continue;
            };
            check_owners(owners.as_ref());
            let now = (json, owners);
            if shown(&now).1.contains("}\":{}") {
                // An item without anything but defaults for its keys comes and goes, on the real server too.
                live = Some(now);
                break;
            }
            // The same once more changes nothing.
            match attempt(resource, manager, Some(&now), &patch, Force::No) {
                Ok(again) => assert_eq!(shown(&again), shown(&now), "applied again: {}", shown_text(&patch)),
                Err(error) => panic!("applied again: {error}: {}", shown_text(&patch)),
            }
            live = Some(now);
            break;
        }
    }
    let (Some((json, owners)), Some(update)) = (live, whole(resource, third)) else {
        return;
    };
    // An update by somebody else takes what it changes.
    let (Some(mut old), Some(mut new)) = (object(resource, &json), object(resource, &update)) else {
        return;
    };
    old.meta.managed_fields = owners;
    new.meta.managed_fields = None;
    track(&context(resource, "updater"), Some(&old), &mut new);
    check_owners(new.meta.managed_fields.as_ref());
}

/// The objects and owners of an attempt.
fn attempt(
    resource: &Resource,
    manager: &str,
    live: Option<&(Vec<u8>, Option<Bytes>)>,
    patch: &[u8],
    force: Force,
) -> Result<(Vec<u8>, Option<Bytes>), ApplyError> {
    let live = Live {
        json: live.map(|(json, _)| json.as_slice()),
        managed_fields: live.and_then(|(_, owners)| owners.as_ref()),
    };
    let applied = apply(&context(resource, manager), live, patch, force)?;
    // As it is stored and read again.
    let object = object(resource, &applied.json).ok_or(ApplyError::Internal("cannot be read".to_owned()))?;
    Ok((written(resource, &object), applied.managed_fields))
}

fn context<'a>(resource: &'a Resource, manager: &'a str) -> WriteContext<'a> {
    WriteContext {
        resource,
        manager: manager.into(),
        subresource: "",
        now: Timestamp::UNIX_EPOCH,
    }
}

/// What a client sends, with the type that it must have, as canonical JSON.
fn whole(resource: &Resource, text: &[u8]) -> Option<Vec<u8>> {
    let body = text.strip_prefix(b"{")?;
    let mut typed = format!(
        r#"{{"apiVersion":"{}","kind":"{}""#,
        resource.api_version(),
        resource.kind
    )
    .into_bytes();
    if body.first() != Some(&b'}') {
        typed.push(b',');
    }
    typed.extend_from_slice(body);
    let tape = Tape::parse(&typed).ok()?;
    let mut canonical = Vec::with_capacity(typed.len());
    canonical::write_floats(&mut canonical, tape.root()).ok()?;
    Some(canonical)
}

fn object(resource: &Resource, json: &[u8]) -> Option<Object> {
    let decoded = decode_patched(resource, json, FieldValidation::Ignore).ok()?;
    Some(decoded.object)
}

fn written(resource: &Resource, object: &Object) -> Vec<u8> {
    let api_version = resource.api_version();
    let type_meta = TypeMeta {
        api_version: &api_version,
        kind: &resource.kind,
    };
    let mut object = object.clone();
    object.meta.managed_fields = None;
    let mut out = Vec::new();
    write_output(&object.to_canonical(), Some(type_meta), 0, &mut out);
    out
}

/// Every entry reads back as what it is.
fn check_owners(owners: Option<&Bytes>) {
    let Some(owners) = owners else { return };
    let tape = Tape::parse(owners).unwrap_or_else(|error| panic!("{}: {error}", shown_text(owners)));
    for entry in tape.root().items() {
        let fields = entry.get("fieldsV1").expect("every entry has its fields");
        let set = fields_v1::decode(fields).unwrap_or_else(|error| panic!("{}: {error}", shown_text(owners)));
        assert!(!set.is_empty(), "an entry of nothing: {}", shown_text(owners));
        fields::round_trip(&set);
    }
}

fn shown((json, owners): &(Vec<u8>, Option<Bytes>)) -> (String, String) {
    (
        shown_text(json),
        owners.as_ref().map_or_else(String::new, |owners| shown_text(owners)),
    )
}

fn shown_text(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}
