//! Tests of the record of owners: the exact bytes, and what only the stage itself can show.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::codec::tests::registry;
use crate::codec::{ContentType, FieldValidation, decode};
use crate::object::Object;

fn resource(group: &str, plural: &str) -> Arc<Resource> {
    let kinds = registry().snapshot();
    Arc::clone(kinds.resource(group, "v1", plural).unwrap())
}

fn object(resource: &Resource, body: &Value) -> Object {
    let body = body.to_string();
    let decoded = decode(resource, ContentType::Json, body.as_bytes(), FieldValidation::Strict);
    decoded.unwrap().object
}

fn context<'a>(resource: &'a Resource, manager: &'a str, subresource: &'a str, second: i64) -> WriteContext<'a> {
    WriteContext {
        resource,
        manager: manager.into(),
        subresource,
        now: Timestamp::from_second(second).unwrap(),
    }
}

fn text(object: &Object) -> &str {
    object
        .meta
        .managed_fields
        .as_deref()
        .map_or("", |fields| std::str::from_utf8(fields).unwrap())
}

fn map(data: &Value) -> (Arc<Resource>, Object) {
    let resource = resource("", "configmaps");
    let object = object(&resource, &json!({"metadata": {"name": "a"}, "data": data}));
    (resource, object)
}

#[test]
fn manager_name_comes_from_the_parameter_or_the_user_agent() {
    // [F26]
    assert_eq!(manager_name(Some("m"), "kubectl/v1"), "m");
    assert_eq!(manager_name(Some(""), "kubectl/v1.32 (linux/amd64)"), "kubectl");
    assert_eq!(manager_name(None, "/x"), "unknown");
    assert_eq!(manager_name(None, ""), "unknown");
    assert_eq!(manager_name(None, "a\u{7}b/1"), "ab");
    assert_eq!(manager_name(None, &"é".repeat(200)), "é".repeat(64));
}

#[test]
fn entries_have_the_bytes_of_the_real_server() {
    // [F11] the order of the fields is that of the Go type
    let (resource, mut created) = map(&json!({"v": "1"}));
    track(&context(&resource, "m", "", 0), None, &mut created);
    assert_eq!(
        text(&created),
        r#"[{"manager":"m","operation":"Update","apiVersion":"v1","time":"1970-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:v":{}}}}]"#
    );
    let pods = self::resource("", "pods");
    let spec = json!({"containers": [{"name": "c"}]});
    let old = object(&pods, &json!({"metadata": {"name": "p"}, "spec": spec}));
    let mut tracked = old.clone();
    track(&context(&pods, "m", "", 0), None, &mut tracked);
    let mut new = tracked.clone();
    new.set_field("status", Bytes::from_static(br#"{"phase":"Running"}"#));
    new.meta.managed_fields = None;
    track(&context(&pods, "k", "status", 5), Some(&tracked), &mut new);
    assert!(
        text(&new).ends_with(
            r#"{"manager":"k","operation":"Update","apiVersion":"v1","time":"1970-01-01T00:00:05Z","fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:phase":{}}},"subresource":"status"}]"#
        ),
        "{}",
        text(&new)
    );
}

#[test]
fn a_write_that_changes_nothing_keeps_the_bytes() {
    // [F11]
    let (resource, mut old) = map(&json!({"v": "1"}));
    track(&context(&resource, "m", "", 0), None, &mut old);
    let mut same = old.clone();
    same.meta.managed_fields = None;
    track(&context(&resource, "n", "", 9), Some(&old), &mut same);
    assert_eq!(same, old);
    // A field that is changed and set back by the server has a new time at most, which is taken back.
    let mut touched = old.clone();
    let fields = text(&old).replace("1970-01-01T00:00:00Z", "1970-01-01T00:00:09Z");
    touched.meta.managed_fields = Some(Bytes::from(fields.clone()));
    let mut other = touched.clone();
    keep_times(&old, &mut touched);
    assert_eq!(touched, old);
    other.meta.generation = 5;
    keep_times(&old, &mut other);
    assert_eq!(text(&other), fields);
}

#[test]
fn managers_that_a_client_sends_are_brought_in_order() {
    // [F11] the order of the entries is the server's, so that another one is no change
    let (resource, mut old) = map(&json!({"v": "1"}));
    track(&context(&resource, "m", "", 0), None, &mut old);
    let (_, mut stored) = map(&json!({"v": "1", "w": "1"}));
    track(&context(&resource, "n", "", 0), Some(&old), &mut stored);
    let mut entries: Vec<Value> = serde_json::from_str(text(&stored)).unwrap();
    assert_eq!(
        (&entries[0]["manager"], &entries[1]["manager"]),
        (&json!("m"), &json!("n"))
    );
    entries.reverse();
    let (_, mut sent) = map(&json!({"v": "1", "w": "1"}));
    sent.meta.managed_fields = Some(Bytes::from(Value::from(entries).to_string()));
    track(&context(&resource, "o", "", 9), Some(&stored), &mut sent);
    assert_eq!(sent, stored);
}

#[test]
fn a_custom_resource_keeps_its_managers_where_one_speaks_of_no_version_of_it() {
    // [F11]
    let widgets = resource("example.com", "widgets");
    let body = |spec: &Value| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec});
    let mut old = object(&widgets, &body(&json!({"a": 1})));
    track(&context(&widgets, "m", "", 0), None, &mut old);
    let mut new = object(&widgets, &body(&json!({"a": 2})));
    let foreign =
        r#"[{"manager":"x","operation":"Update","apiVersion":"v9","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}}}]"#;
    new.meta.managed_fields = Some(Bytes::from(foreign));
    track(&context(&widgets, "m", "", 0), Some(&old), &mut new);
    assert_eq!(text(&new), text(&old));
}

#[test]
fn events_are_owned_in_both_groups() {
    // [F11] the same event has other fields in each of them
    let core = resource("", "events");
    let events = resource("events.k8s.io", "events");
    let body = json!({
        "metadata": {"name": "e", "namespace": "default"}, "involvedObject": {"namespace": "default"}, "message": "m",
        "reason": "r", "type": "Normal",
    });
    let mut old = object(&core, &body);
    track(&context(&core, "c", "", 0), None, &mut old);
    // As it is seen, and changed, in the other group.
    let served = events.to_served(core.to_stored(&old).into_owned());
    let mut new = served.clone();
    new.set_field("note", Bytes::from_static(br#""other""#));
    track(&context(&events, "e", "", 0), Some(&served), &mut new);
    let entries: Value = serde_json::from_str(text(&new)).unwrap();
    let fields = |manager: &str| {
        let found = entries
            .as_array()
            .unwrap()
            .iter()
            .find(|entry| entry["manager"] == manager);
        found.unwrap()["fieldsV1"].clone()
    };
    assert_eq!(fields("e"), json!({"f:note": {}}));
    assert_eq!(fields("c").get("f:message"), None, "{entries}");
    assert_eq!(fields("c")["f:reason"], json!({}));
}

#[test]
fn values_of_any_depth_are_tracked_and_applied() {
    // [F25] [F11] far down, a value is one field
    let widgets = resource("example.com", "widgets");
    let deep = |depth: usize, leaf: &str| {
        let spec = format!("{}{leaf}{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        format!(r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"name":"a"}},"spec":{spec}}}"#)
    };
    let object = |body: &str| {
        let decoded = decode(&widgets, ContentType::Json, body.as_bytes(), FieldValidation::Ignore);
        decoded.unwrap().object
    };
    let mut old = object(&deep(5_000, "1"));
    track(&context(&widgets, "m", "", 0), None, &mut old);
    let first = text(&old).to_owned();
    assert!(first.len() > 1_000 && first.len() < 10_000, "{}", first.len());
    let mut new = object(&deep(5_000, "2"));
    track(&context(&widgets, "n", "", 0), Some(&old), &mut new);
    assert!(text(&new).contains(r#""manager":"n""#));
    let live = deep(5_000, "1");
    let wanted = deep(5_000, "3");
    let attempt = |force: Force| {
        let live = Live {
            json: Some(live.as_bytes()),
            managed_fields: old.meta.managed_fields.as_ref(),
        };
        apply(&context(&widgets, "k", "", 0), live, wanted.as_bytes(), force)
    };
    assert!(matches!(attempt(Force::No), Err(ApplyError::Conflict { .. })));
    assert_eq!(attempt(Force::Yes).unwrap().json, wanted.as_bytes());
}
