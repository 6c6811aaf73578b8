//! Definitions of custom resources, and what their schemas make of objects.

use super::{Target, parts, resources};
use crate::codec::{ContentType, FieldValidation, decode};
use crate::crd;
use crate::json::Tape;
use crate::kinds::Resource;
use crate::object::Object;
use crate::schemas::{Defaults, is_too_deep, validate};
use crate::structured::{check, compare, fields_of};
use crate::validation::Written;

/// A schema, and two objects.
pub(super) const TARGET: Target = Target {
    name: "schema",
    run,
    seeds: &[
        "{\"type\":\"object\",\"properties\":{\"spec\":{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":{\"type\":\"string\",\"enum\":[\"x\",\"y\"],\"default\":\"x\"},\"n\":{\"type\":\"integer\",\"format\":\"int32\",\"minimum\":1,\"exclusiveMaximum\":true,\"maximum\":9,\"multipleOf\":2},\"l\":{\"type\":\"array\",\"maxItems\":2,\"x-kubernetes-list-type\":\"map\",\"x-kubernetes-list-map-keys\":[\"k\"],\"items\":{\"type\":\"object\",\"required\":[\"k\"],\"properties\":{\"k\":{\"type\":\"string\"}}}}}}}}\n{\"spec\":{\"a\":\"x\",\"n\":2,\"l\":[{\"k\":\"a\"},{\"k\":\"b\"}],\"z\":1}}\n{\"spec\":{\"a\":\"z\",\"n\":9}}",
        "{\"type\":\"object\",\"properties\":{\"spec\":{\"type\":\"object\",\"x-kubernetes-preserve-unknown-fields\":true,\"properties\":{\"t\":{\"type\":\"string\",\"format\":\"date-time\",\"pattern\":\"^2\",\"nullable\":true,\"maxLength\":30},\"e\":{\"type\":\"object\",\"x-kubernetes-embedded-resource\":true,\"x-kubernetes-preserve-unknown-fields\":true},\"m\":{\"type\":\"object\",\"additionalProperties\":{\"x-kubernetes-int-or-string\":true},\"x-kubernetes-map-type\":\"atomic\"}},\"oneOf\":[{\"required\":[\"t\"]},{\"required\":[\"e\"]}],\"not\":{\"required\":[\"x\"]}}}}\n{\"spec\":{\"t\":null,\"m\":{\"a\":1,\"b\":\"2\"},\"q\":[1]}}\n{\"spec\":{\"e\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"A\"}}}}",
        "{\"type\":\"object\",\"properties\":{\"spec\":{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\",\"default\":1}},\"x-kubernetes-validations\":[{\"rule\":\"self.n > 0\",\"message\":\"no\"},{\"rule\":\"self.n >= oldSelf.n\"}]}}}\n{\"spec\":{\"n\":2}}\n{\"spec\":{\"n\":1}}",
    ],
    words: &[
        "\"type\":\"object\"",
        "\"type\":\"string\"",
        "\"type\":\"integer\"",
        "\"type\":\"number\"",
        "\"type\":\"array\"",
        "\"items\":{",
        "\"properties\":{",
        "\"additionalProperties\":{",
        "\"default\":",
        "\"nullable\":true",
        "\"enum\":[",
        "\"pattern\":\"[\"",
        "\"format\":\"ipv4\"",
        "\"allOf\":[{",
        "\"not\":{",
        "\"minimum\":-1e308",
        "\"multipleOf\":0",
        "\"x-kubernetes-list-type\":\"set\"",
        "\"x-kubernetes-preserve-unknown-fields\":true",
        "\"$ref\":\"#\"",
        "\"uniqueItems\":true",
        "\"maxLength\":-1",
        "null",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"\"",
        "0",
    ],
};

fn run(data: &[u8]) {
    let Some([schema, first, second]) = parts(data) else {
        return;
    };
    let Some(findings) = definition(schema) else { return };
    // What is refused is never used; nor is what is too deep.
    if !findings || is_too_deep(schema) {
        return;
    }
    let Some(resource) = resources::custom(schema) else {
        return;
    };
    let (first, second) = (object(&resource, first), object(&resource, second));
    let mut old = None;
    for object in [&first, &second].into_iter().flatten() {
        let written = Written {
            new: object,
            old,
            of_status: false,
        };
        let _ = validate(&resource, &written, Vec::new());
        old = Some(object);
        shapes(&resource, object);
    }
    if let (Some(first), Some(second)) = (&first, &second) {
        structures(&resource, first, second);
    }
}

/// Whether a definition with this schema is good; none if it cannot be read.
fn definition(schema: &[u8]) -> Option<bool> {
    let schema = std::str::from_utf8(schema).ok()?;
    let body = format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{{"name":"widgets.example.com"}},"spec":{{"group":"example.com","scope":"Namespaced","names":{{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"}},"versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#
    );
    let definitions = resources::built_in("customresourcedefinitions");
    let decoded = decode(definitions, ContentType::Json, body.as_bytes(), FieldValidation::Warn).ok()?;
    let written = Written {
        new: &decoded.object,
        old: None,
        of_status: false,
    };
    Some(crd::validate(&written).is_empty())
}

fn object(resource: &Resource, text: &[u8]) -> Option<Object> {
    let body = text.strip_prefix(b"{")?;
    let mut typed = br#"{"apiVersion":"example.com/v1","kind":"Widget""#.to_vec();
    if body.first() != Some(&b'}') {
        typed.push(b',');
    }
    typed.extend_from_slice(body);
    let decoded = decode(resource, ContentType::Json, &typed, FieldValidation::Warn).ok()?;
    Some(decoded.object)
}

/// An object that is in its form stays as it is.
fn shapes(resource: &Resource, object: &Object) {
    let shape = resource.shape().expect("the kind has a schema");
    let once = shape.apply(object.clone(), Defaults::Filled);
    let twice = shape.apply(once.clone(), Defaults::Filled);
    assert_eq!(twice.to_canonical(), once.to_canonical());
    let canonical = once.to_canonical();
    assert_eq!(Object::from_canonical(&canonical).to_canonical(), canonical);
}

/// The walks of structured merge over such objects.
fn structures(resource: &Resource, first: &Object, second: &Object) {
    let of = resource.structures.own.root();
    let (first, second) = (first.to_canonical(), second.to_canonical());
    let (Ok(first), Ok(second)) = (Tape::parse(&first), Tape::parse(&second)) else {
        panic!("what is stored is JSON");
    };
    for value in [first.root(), second.root()] {
        let _ = fields_of(of, value);
    }
    if check(of, first.root()).is_empty() {
        let same = compare(of, first.root(), first.root());
        assert!(same.is_ok_and(|same| same.is_same()), "nothing differs from itself");
        let _ = compare(of, first.root(), second.root());
    }
}
