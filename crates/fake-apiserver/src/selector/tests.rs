//! Texts and matches; the expected ones were printed by the selector parsers of apimachinery 0.37.2, or answered by a
//! kube-apiserver 1.37.2.

use std::borrow::Cow;

use super::*;
use crate::{
    codec::tests::resource,
    codec::{ContentType, FieldValidation, decode},
    object::{Object, StringMap},
};

fn parse_fields(text: &str, resource: &crate::kinds::Resource) -> Result<FieldSelector, SelectorError> {
    FieldSelector::parse(text)?.of_resource(resource)
}

fn labels(pairs: &[(&str, &str)]) -> StringMap {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn label_selector_matches_by_all_operators() {
    // [F3]
    let map = labels(&[("a", "b"), ("n", "5"), ("e", "")]);
    for (selector, want) in [
        ("", true),
        ("a", true),
        ("!a", false),
        ("x", false),
        ("!x", true),
        ("a=b", true),
        ("a==b", true),
        ("a!=b", false),
        ("x!=b", true),
        ("a in (b,c)", true),
        ("a in (c)", false),
        ("a notin (b)", false),
        ("x notin (b)", true),
        ("n>4", true),
        ("n>5", false),
        ("n<6", true),
        ("a>1", false),
        ("x<1", false),
        ("a in ()", false),
        ("e in ()", true),
        ("e=", true),
        ("a=,a", false),
        ("a = b , n", true),
        ("a in (x, b)", true),
        ("e in (x,,y)", true),
        ("a=b,n>9", false),
        ("in=x", false),
        ("a=in", false),
    ] {
        let label = |key: &str| map.get(key).map(Cow::Borrowed);
        assert_eq!(
            LabelSelector::parse(selector).unwrap().matches(label),
            want,
            "{selector}"
        );
    }
    assert!(LabelSelector::parse("  ").unwrap().is_everything());
    assert!(!LabelSelector::parse("a").unwrap().is_everything());
}

#[test]
fn label_selector_refuses_with_the_texts_of_the_parser() {
    // [F3]
    let key = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let value = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?'";
    let long = "b".repeat(78);
    let cases = [
        ("a>x", r#"unable to parse requirement: values[0]: Invalid value: "x": for 'Gt', 'Lt' operators, the value must be an integer"#.to_owned()),
        ("a in", "unable to parse requirement: found '' expected: '('".to_owned()),
        ("a in b", "unable to parse requirement: found 'b' expected: '('".to_owned()),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'".to_owned()),
        ("a,,b", "found ',', expected: identifier after ','".to_owned()),
        (",", "found ',', expected: !, identifier, or 'end of string'".to_owned()),
        ("a=b,", "found '', expected: identifier after ','".to_owned()),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt".to_owned()),
        ("!", "unable to parse requirement: found '', expected: identifier".to_owned()),
        ("!a=b", "found '=', expected: ',' or 'end of string'".to_owned()),
        ("a=b c", "found 'c', expected: ',' or 'end of string'".to_owned()),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'".to_owned()),
        ("a in (b))", "found ')', expected: ',' or 'end of string'".to_owned()),
        ("x in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier".to_owned()),
        ("a >", r#"unable to parse requirement: values[0]: Invalid value: "": for 'Gt', 'Lt' operators, the value must be an integer"#.to_owned()),
        ("a=(b)", "unable to parse requirement: found '(', expected: identifier".to_owned()),
        ("a===b", "unable to parse requirement: found '=', expected: identifier".to_owned()),
        ("a<>1", "unable to parse requirement: found '>', expected: identifier".to_owned()),
        ("!=a", "found '!=', expected: !, identifier, or 'end of string'".to_owned()),
        ("a!==b", "unable to parse requirement: found '=', expected: identifier".to_owned()),
        ("-a=b", format!(r#"unable to parse requirement: <nil>: Invalid value: "-a": name part {key}"#)),
        ("é=1", format!(r#"unable to parse requirement: <nil>: Invalid value: "é": name part {key}"#)),
        ("/a=b", r#"unable to parse requirement: <nil>: Invalid value: "/a": prefix part must be non-empty"#.to_owned()),
        ("a/=b", format!(r#"unable to parse requirement: <nil>: Invalid value: "a/": name part must be non-empty; name part {key}"#)),
        ("a/b/c=d", format!(r#"unable to parse requirement: <nil>: Invalid value: "a/b/c": a valid label key {key} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"#)),
        ("A_B.c/d=x", r#"unable to parse requirement: <nil>: Invalid value: "A_B.c/d": prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#.to_owned()),
        ("a=-b", format!(r#"unable to parse requirement: values[0][a]: Invalid value: "-b": {value})"#)),
    ];
    for (selector, want) in cases {
        assert_eq!(
            LabelSelector::parse(selector).unwrap_err().to_string(),
            want,
            "{selector}"
        );
    }
    assert_eq!(
        LabelSelector::parse(&format!("a={long}")).unwrap_err().to_string(),
        format!(r#"unable to parse requirement: values[0][a]: Invalid value: "{long}": must be no more than 63 bytes"#)
    );
}

fn pod() -> Object {
    let body = br#"{"metadata":{"name":"p","namespace":"n"},"spec":{"nodeName":"m\u0041","containers":[{"name":"nodeName"}],"restartPolicy":"Always"},"status":{"phase":"Running"}}"#;
    decode(
        &resource("", "v1", "pods"),
        ContentType::Json,
        body,
        FieldValidation::Warn,
    )
    .unwrap()
    .object
}

#[test]
fn field_selector_matches_the_fields_of_the_kind() {
    // [F3]
    let pods = resource("", "v1", "pods");
    let object = pod();
    let canonical = object.to_indexed();
    let fields = FieldSet::of(&pods, &object, &canonical);
    let matches = |selector: &str| {
        let selector = parse_fields(selector, &pods).unwrap();
        selector.matches("p", "n", &fields, &canonical.bytes)
    };
    for (selector, want) in [
        ("", true),
        ("metadata.name=p", true),
        ("metadata.name!=p", false),
        ("metadata.namespace==n", true),
        ("spec.nodeName=mA", true),
        ("spec.host=mA", true),
        ("spec.nodeName=", false),
        ("status.phase=Running,spec.nodeName!=x", true),
        ("status.podIP=", true),
        ("spec.hostNetwork=false", true),
        (",", true),
        ("spec.schedulerName=", true),
    ] {
        assert_eq!(matches(selector), want, "{selector}");
    }
    let exact = parse_fields("metadata.name=p,status.phase!=x", &pods).unwrap();
    assert_eq!(exact.requires_exact("metadata.name"), Some("p"));
    assert_eq!(exact.requires_exact("status.phase"), None);
    assert!(parse_fields("", &pods).unwrap().is_everything());
    let widgets = resource("example.com", "v1", "widgets");
    let body = br#"{"kind":"Widget","apiVersion":"example.com/v1","spec":{"color":"red"}}"#;
    let widget = decode(&widgets, ContentType::Json, body, FieldValidation::Warn)
        .unwrap()
        .object;
    let selector = parse_fields("spec.color=red", &widgets).unwrap();
    let canonical = widget.to_indexed();
    let fields = FieldSet::of(&widgets, &widget, &canonical);
    assert!(selector.matches("w", "n", &fields, &canonical.bytes));
}

#[test]
fn field_values_are_read_as_texts() {
    // [F3] a value that is written with escapes, a number, and one inside of an object
    let matches = |resource: &crate::kinds::Resource, body: &str, selector: &str| {
        let decoded = decode(resource, ContentType::Json, body.as_bytes(), FieldValidation::Warn);
        let object = decoded.unwrap().object;
        let canonical = object.to_indexed();
        let fields = FieldSet::of(resource, &object, &canonical);
        let selector = parse_fields(selector, resource).unwrap();
        selector.matches("n", "ns", &fields, &canonical.bytes)
    };
    let secrets = resource("", "v1", "secrets");
    let body = r#"{"data":{"type":"eA=="},"type":"a\"<b>\\é"}"#;
    assert!(matches(&secrets, body, r#"type=a"<b>\\é"#));
    assert!(!matches(&secrets, body, "type=x"));
    let controllers = resource("", "v1", "replicationcontrollers");
    for (body, selector) in [
        (
            r#"{"status":{"availableReplicas":2,"replicas":3}}"#,
            "status.replicas=3",
        ),
        (r#"{"spec":{"replicas":3}}"#, "status.replicas=0"),
    ] {
        assert!(matches(&controllers, body, selector), "{selector}");
    }
    let events = resource("", "v1", "events");
    let body = r#"{"involvedObject":{"kind":"Pod","name":"p"},"source":{"component":"c"},"reason":"R"}"#;
    for selector in [
        "involvedObject.kind=Pod,involvedObject.name=p,involvedObject.uid=",
        "reason=R",
        "source=c",
    ] {
        assert!(matches(&events, body, selector), "{selector}");
    }
}

#[test]
fn what_shares_a_storage_has_the_same_fields() {
    // What is found of an object is kept by the place of the field.
    let kinds = crate::kinds::Registry::new().snapshot();
    let mut fields = std::collections::HashMap::new();
    let versions = kinds.groups().iter().flat_map(|group| &group.versions);
    for resource in versions.flat_map(|version| &version.resources) {
        let known = fields
            .entry(resource.storage.clone())
            .or_insert_with(|| resource.stored_fields());
        assert_eq!(*known, resource.stored_fields(), "{resource:?}");
    }
    assert!(fields.len() > 50);
}

#[test]
fn field_selector_refuses_with_the_texts_of_the_server() {
    // [F3]
    let maps = resource("", "v1", "configmaps");
    let pods = resource("", "v1", "pods");
    for (resource, selector, want) in [
        (
            &maps,
            "a=b=c",
            "invalid field selector: unescaped character in value: 61",
        ),
        (&maps, "a", "invalid selector: 'a'; can't understand 'a'"),
        (&maps, "a=b\\x", "invalid field selector: invalid escape sequence: \\x"),
        (&maps, "a=b\\", "invalid field selector: invalid escape sequence: \\"),
        (
            &maps,
            "spec.x=y",
            r#""spec.x" is not a known field selector: only "metadata.name", "metadata.namespace""#,
        ),
        (
            &maps,
            "=b",
            r#""" is not a known field selector: only "metadata.name", "metadata.namespace""#,
        ),
        (&pods, "spec.x=y", "field label not supported: spec.x"),
    ] {
        assert_eq!(
            parse_fields(selector, resource).unwrap_err().to_string(),
            want,
            "{selector}"
        );
    }
}

#[test]
fn selectors_never_panic_on_hostile_text() {
    // [F25]
    let seed = 0x5eed_0002;
    println!("seed {seed:#x}");
    let mut random = fastrand::Rng::with_seed(seed);
    let pods = resource("", "v1", "pods");
    let alphabet: Vec<char> = "ab/.-_=!<>(), \\\t\0éin".chars().collect();
    for _ in 0..50_000 {
        let text: String = (0..random.usize(..24))
            .map(|_| alphabet[random.usize(..alphabet.len())])
            .collect();
        if let Ok(selector) = LabelSelector::parse(&text) {
            selector.matches(|key| (key == "a").then_some(Cow::Borrowed("b")));
        }
        let _ = parse_fields(&text, &pods);
    }
}
