//! Bodies in JSON and YAML, of built-in kinds and of custom ones.

use std::sync::{Arc, LazyLock};

use super::{Target, resources};
use crate::codec::{ContentType, FieldValidation, decode, decode_delete_options};
use crate::kinds::Resource;
use crate::object::{Object, TypeMeta, write_output};

/// A letter that picks a kind, one for the format (`y` is YAML), and a body.
pub(super) const TARGET: Target = Target {
    name: "body",
    run,
    seeds: &[
        "pj{\"metadata\":{\"name\":\"a\",\"creationTimestamp\":\"2024-01-01T00:00:00+01:00\",\"ownerReferences\":[{\"uid\":\"u\"},{\"uid\":\"u\"}]},\"spec\":{\"containers\":[{\"name\":\"c\",\"resources\":{\"limits\":{\"cpu\":\"1000m\",\"memory\":\"1024Mi\"}},\"ports\":[{\"containerPort\":80}]}],\"terminationGracePeriodSeconds\":30}}",
        "py# a pod\nmetadata: &m\n  name: a\n  labels: {x: 'y', z: \"\\u00e9\"}\nspec:\n  <<: *m\n  containers:\n  - name: c\n    args: [a, |-\n      b\n    ]\n    command:\n    - >\n      folded\n      text\n---\nx: y\n",
        "wy{apiVersion: example.com/v1, kind: Widget, spec: {a: 1.0, b: [~, yes, 012, 0x1f, 1_000, .inf, 2024-01-01]}}",
        "wj{\"apiVersion\":\"example.com/v1\",\"kind\":\"Widget\",\"metadata\":{\"name\":\"\\ud800\"},\"spec\":{\"n\":1e21,\"m\":-0,\"o\":9223372036854775808,\"p\":1.0}}",
        "xj{\"metadata\":{\"name\":\"a\"},\"spec\":{\"versions\":[{\"schema\":{\"openAPIV3Schema\":{\"default\":{\"a\":[1e2]},\"items\":[{\"type\":\"a\"}]}}}]}}",
        "lj{\"spec\":{\"renewTime\":\"2024-01-01T00:00:00.123456Z\",\"leaseDurationSeconds\":15}}",
        "ej{\"firstTimestamp\":null,\"count\":1,\"involvedObject\":{}}",
    ],
    words: &[
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"\"",
        "null",
        "1e400",
        "-0",
        "\\ud800",
        "\u{feff}",
        "\n",
        "- ",
        ": ",
        "&a ",
        "*a",
        "<<: ",
        "!!binary ",
        "!!str ",
        "|",
        ">",
        "'",
        "\"",
        "#",
        "---\n",
        "...\n",
        "%YAML 1.1\n",
        "? ",
        "~",
        "\t",
        "  ",
        "\u{85}",
        "\u{2028}",
        "\u{0}",
        ".nan",
        "2024-01-01",
        "\"metadata\":{",
        "\"spec\":{",
        "\"1024Mi\"",
    ],
};

static WIDGETS: LazyLock<Arc<Resource>> = LazyLock::new(|| {
    let schema = br#"{"type":"object","x-kubernetes-preserve-unknown-fields":true}"#;
    resources::custom(schema).expect("a schema that can be read")
});

fn run(data: &[u8]) {
    let [kind, format, body @ ..] = data else { return };
    let resource = match kind {
        b'w' => &*WIDGETS,
        other => resources::picked(*other),
    };
    let format = match format {
        b'y' => ContentType::Yaml,
        _ => ContentType::Json,
    };
    let _ = decode_delete_options(format, body);
    let loose = decode(resource, format, body, FieldValidation::Ignore);
    let warned = decode(resource, format, body, FieldValidation::Warn);
    if let Ok(strict) = decode(resource, format, body, FieldValidation::Strict) {
        let warned = warned.expect("what strict validation takes, any takes");
        assert_eq!(warned.object, strict.object);
        assert!(warned.warnings.is_empty(), "{:?}", warned.warnings);
    }
    if let Ok(decoded) = loose.as_ref()
        && decoded.wrong_version.is_none()
    {
        is_canonical(resource, &decoded.object);
    }
}

/// What was decoded is written, read and decoded as the same.
pub(super) fn is_canonical(resource: &Resource, object: &Object) {
    let canonical = object.to_canonical();
    let read = Object::from_canonical(&canonical);
    assert_eq!(read.to_canonical(), canonical);
    let api_version = resource.api_version();
    let type_meta = TypeMeta {
        api_version: &api_version,
        kind: &resource.kind,
    };
    let mut text = Vec::new();
    write_output(&canonical, Some(type_meta), 0, &mut text);
    let again = decode(resource, ContentType::Json, &text, FieldValidation::Strict);
    let again = again.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&text)));
    let mut object = object.clone();
    // It is not part of what is stored.
    object.meta.resource_version.clear();
    object.meta.self_link.clear();
    let mut found = again.object;
    found.meta.self_link.clear();
    assert_eq!(
        String::from_utf8_lossy(&found.to_canonical()),
        String::from_utf8_lossy(&object.to_canonical())
    );
}
