//! Texts as a kube-apiserver 1.37.2 answered them.

use super::*;
use crate::{
    codec::tests::resource,
    codec::{ContentType, FieldValidation, decode},
    kinds::Resource,
    object::Meta,
};

const SUBDOMAIN: &str = r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const KEY: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

fn meta(resource: &Resource, json: &str) -> Meta {
    let kind = format!(
        r#""kind":"{}","apiVersion":"{}""#,
        resource.kind,
        resource.api_version()
    );
    let body = format!(r#"{{{kind},"metadata":{json}}}"#);
    let mut meta = decode(resource, ContentType::Json, body.as_bytes(), FieldValidation::Warn)
        .unwrap()
        .object
        .meta;
    if resource.namespaced() && meta.namespace.is_empty() {
        meta.namespace = "default".into();
    }
    meta
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn validate_create_names_what_is_wrong_with_the_metadata() {
    // [F8]
    let maps = resource("", "v1", "configmaps");
    let create = |json: &str| texts(&validate_create(&maps, &meta(&maps, json)));
    let no_finalizer = "name is neither a standard finalizer name nor is it fully qualified";
    for (json, want) in [
        (r#"{"name":"a"}"#, vec![]),
        ("{}", vec!["metadata.name: Required value: name or generateName is required".to_owned()]),
        (r#"{"name":"A"}"#, vec![format!(r#"metadata.name: Invalid value: "A": {SUBDOMAIN}"#)]),
        (r#"{"name":"a..b"}"#, vec![format!(r#"metadata.name: Invalid value: "a..b": {SUBDOMAIN}"#)]),
        (r#"{"name":"A-x","generateName":"A-"}"#, vec![format!(r#"metadata.name: Invalid value: "A-x": {SUBDOMAIN}"#)]),
        (r#"{"name":"l","labels":{"a b":"c"}}"#, vec![format!(r#"metadata.labels: Invalid value: "a b": {KEY}"#)]),
        (r#"{"name":"l","annotations":{"a b":"","Exa.com/B":"x","/c":""}}"#, vec![
            r#"metadata.annotations: Invalid value: "/c": prefix part must be non-empty"#.to_owned(),
            format!(r#"metadata.annotations: Invalid value: "a b": {KEY}"#),
        ]),
        (r#"{"name":"l","finalizers":["a","b c","x/y"]}"#, vec![
            format!(r#"metadata.finalizers: Invalid value: "b c": {KEY}"#),
            format!(r#"metadata.finalizers[0]: Invalid value: "a": {no_finalizer}"#),
            format!(r#"metadata.finalizers[1]: Invalid value: "b c": {no_finalizer}"#),
        ]),
        (r#"{"name":"l","finalizers":["foregroundDeletion","orphan"]}"#, vec![
            r#"metadata.finalizers: Invalid value: ["foregroundDeletion","orphan"]: finalizer orphan and foregroundDeletion cannot be both set"#.to_owned(),
        ]),
        (r#"{"name":"l","ownerReferences":[{}]}"#, ["apiVersion", "kind", "name", "uid"].map(|field| format!("metadata.ownerReferences[0].{field}: Required value: must not be empty")).to_vec()),
        (r#"{"name":"l","ownerReferences":[{"apiVersion":"a/b/c","kind":"K","name":"n","uid":"u"}]}"#, vec![r#"metadata.ownerReferences[0].apiVersion: Invalid value: "a/b/c": must be <group>/<version> or <version>"#.to_owned()]),
        (r#"{"name":"l","ownerReferences":[{"apiVersion":"v1","kind":"Event","name":"n","uid":"u"}]}"#, vec![r#"metadata.ownerReferences[0]: Invalid value: {"apiVersion":"v1","kind":"Event","name":"n","uid":"u"}: /v1, Kind=Event is disallowed from being an owner"#.to_owned()]),
        (r#"{"name":"l","ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u","controller":true},{"apiVersion":"v1","kind":"K","name":"n2","uid":"u2","controller":true}]}"#, vec![r#"metadata.ownerReferences: Invalid value: [{"apiVersion":"v1","kind":"K","name":"n","uid":"u","controller":true},{"apiVersion":"v1","kind":"K","name":"n2","uid":"u2","controller":true}]: Only one reference can have Controller set to true. Found "true" in references for K/n and K/n2"#.to_owned()]),
        (r#"{"name":"l","generation":-1}"#, vec!["metadata.generation: Invalid value: -1: must be greater than or equal to 0".to_owned()]),
    ] {
        assert_eq!(create(json), want, "{json}");
    }
    let annotations = format!(r#"{{"name":"l","annotations":{{"a":"{}"}}}}"#, "x".repeat(262_144));
    assert_eq!(
        create(&annotations),
        ["metadata.annotations: Too long: may not be more than 262144 bytes"]
    );
    let long = "x".repeat(64);
    assert_eq!(
        create(&format!(r#"{{"name":"l","labels":{{"a":"{long}"}}}}"#)),
        [format!(
            r#"metadata.labels: Invalid value: "{long}": must be no more than 63 bytes"#
        )]
    );
}

#[test]
fn validate_create_checks_names_by_the_rule_of_the_kind() {
    // [F8]
    let create = |group: &str, plural: &str, json: &str| {
        let resource = resource(group, "v1", plural);
        texts(&validate_create(&resource, &meta(&resource, json)))
    };
    assert_eq!(
        create("", "namespaces", r#"{"name":"a.b"}"#),
        [r#"metadata.name: Invalid value: "a.b": must not contain dots"#]
    );
    assert_eq!(
        create("", "namespaces", r#"{"name":"A"}"#),
        [
            r#"metadata.name: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"#
        ]
    );
    let long = "x".repeat(64);
    assert_eq!(
        create("", "namespaces", &format!(r#"{{"name":"{long}"}}"#)),
        [format!(
            r#"metadata.name: Invalid value: "{long}": must be no more than 63 characters"#
        )]
    );
    let rbac = "rbac.authorization.k8s.io";
    assert_eq!(
        create(rbac, "clusterroles", r#"{"name":".."}"#),
        [r#"metadata.name: Invalid value: "..": may not be '..'"#]
    );
    assert_eq!(
        create(rbac, "clusterroles", r#"{"name":"a%b/c"}"#),
        [
            r#"metadata.name: Invalid value: "a%b/c": may not contain '/'"#,
            r#"metadata.name: Invalid value: "a%b/c": may not contain '%'"#
        ]
    );
    assert_eq!(
        create(rbac, "clusterroles", r#"{"name":"A:b/4tpfz","generateName":"A:b/"}"#),
        [
            r#"metadata.generateName: Invalid value: "A:b/": may not contain '/'"#,
            r#"metadata.name: Invalid value: "A:b/4tpfz": may not contain '/'"#
        ]
    );
    assert_eq!(
        create("example.com", "widgets", r#"{"name":"l","finalizers":["a"]}"#),
        Vec::<String>::new()
    );
}

#[test]
fn validate_update_refuses_changes_of_what_is_immutable() {
    // [F9]
    let maps = resource("", "v1", "configmaps");
    let update = |old: &str, new: &str| {
        let old = meta(&maps, old);
        let mut new = meta(&maps, new);
        keep_system_fields(&mut new, &old);
        texts(&validate_update(&maps, &new, &old, false))
    };
    let stored = r#"{"name":"u1","uid":"u","creationTimestamp":"2026-01-01T00:00:00Z"}"#;
    for (json, want) in [
        (r#"{"name":"u1"}"#, vec![]),
        (r#"{"name":"u1","generation":-1}"#, vec![]),
        (
            r#"{"name":"u1","creationTimestamp":"2020-01-01T00:00:00Z","selfLink":"foo"}"#,
            vec![],
        ),
        (
            r#"{"name":"u1","deletionTimestamp":"2020-01-01T00:00:00Z"}"#,
            vec![r#"metadata.deletionTimestamp: Invalid value: "2020-01-01T00:00:00Z": field is immutable"#.to_owned()],
        ),
        (
            r#"{"name":"u1","deletionGracePeriodSeconds":5}"#,
            vec!["metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable".to_owned()],
        ),
        (
            r#"{"name":"u1","uid":"q"}"#,
            vec![r#"metadata.uid: Invalid value: "q": field is immutable"#.to_owned()],
        ),
        (
            r#"{"name":"u1","generateName":"B"}"#,
            vec![format!(r#"metadata.generateName: Invalid value: "B": {SUBDOMAIN}"#)],
        ),
        (
            r#"{"name":"u1","labels":{"a b":"c"}}"#,
            vec![format!(r#"metadata.labels: Invalid value: "a b": {KEY}"#)],
        ),
    ] {
        assert_eq!(update(stored, json), want, "{json}");
    }
    let deleting = r#"{"name":"u1","deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":0,"finalizers":["a.b/c"]}"#;
    assert_eq!(
        update(deleting, r#"{"name":"u1","finalizers":["a.b/c","a.b/d","a.b/a"]}"#),
        [
            r#"metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"a.b/a", "a.b/d"}"#
        ]
    );
    assert_eq!(
        update(deleting, r#"{"name":"u1","deletionTimestamp":"2020-01-01T00:00:00Z"}"#),
        Vec::<String>::new()
    );
}

#[test]
fn validate_type_wants_the_kind_and_version_of_a_custom_resource() {
    // [F17]
    let widgets = resource("example.com", "v1", "widgets");
    assert_eq!(
        texts(&validate_type(&widgets, "example.com/v1", "Foo")),
        [r#"kind: Invalid value: "Foo": must be Widget"#]
    );
    assert_eq!(
        texts(&validate_type(&widgets, "example.com/v2", "Widget")),
        [r#"apiVersion: Invalid value: "example.com/v2": must be example.com/v1"#]
    );
    assert!(validate_type(&resource("", "v1", "pods"), "x", "y").is_empty());
}

#[test]
fn hostile_metadata_is_checked_in_time_and_space_that_grow_with_it() {
    // [F25] each was quadratic: minutes and gigabytes at these sizes
    let maps = resource("", "v1", "configmaps");
    let owner = |index| format!(r#"{{"apiVersion":"v1","kind":"Pod","name":"p{index}","uid":"u","controller":true}}"#);
    let owners: Vec<String> = (0..8_000).map(owner).collect();
    let json = format!(r#"{{"name":"a","ownerReferences":[{}]}}"#, owners.join(","));
    let found = validate_create(&maps, &meta(&maps, &json));
    assert_eq!(
        found.len(),
        1,
        "the list is larger than what is shown, so it is shown once"
    );

    let finalizers = |from: usize| {
        let names: Vec<String> = (from..from + 30_000).map(|index| format!(r#""a/{index}""#)).collect();
        format!(
            r#"{{"name":"a","uid":"u","deletionTimestamp":"2024-01-01T00:00:00Z","finalizers":[{}]}}"#,
            names.join(",")
        )
    };
    let (old, new) = (meta(&maps, &finalizers(0)), meta(&maps, &finalizers(1)));
    let found = texts(&validate_update(&maps, &new, &old, false));
    assert!(
        found.iter().any(|text| text.ends_with(r#"[]string{"a/30000"}"#)),
        "{}",
        found.len()
    );
}
