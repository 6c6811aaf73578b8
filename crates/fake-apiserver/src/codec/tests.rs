//! The canonical form, the texts and the robustness of the decoder. Expected values come from a real kube-apiserver
//! 1.37.2, or from the Go types of the same version.

use super::options::Preconditions;
use super::*;
use crate::kinds::{CustomResource, CustomVersion, Registry, Scope};
use std::sync::Arc;

pub(crate) fn resource(group: &str, version: &str, plural: &str) -> Arc<Resource> {
    Arc::clone(registry().snapshot().resource(group, version, plural).unwrap())
}

pub(crate) fn registry() -> Registry {
    let registry = Registry::new();
    registry.install(&CustomResource {
        group: "example.com".into(),
        plural: "widgets".into(),
        singular: "widget".into(),
        kind: "Widget".into(),
        list_kind: "WidgetList".into(),
        scope: Scope::Namespaced,
        short_names: Vec::new(),
        categories: Vec::new(),
        versions: vec![CustomVersion {
            name: "v1".into(),
            status_subresource: true,
            scale_subresource: false,
            deprecation: None,
            selectable_fields: vec![".spec.color".into()],
            columns: Vec::new(),
            structure: Arc::new(crate::structured::Schema::deduced()),
            shape: Arc::default(),
        }],
        structures: Arc::new([]),
        stored: Arc::default(),
    });
    registry
}

fn json(resource: &Resource, body: &str) -> Result<Decoded, DecodeError> {
    decode(resource, ContentType::Json, body.as_bytes(), FieldValidation::Warn)
}

fn canonical(resource: &Resource, body: &str) -> String {
    let decoded = json(resource, body).unwrap_or_else(|error| panic!("{body}: {error}"));
    String::from_utf8(decoded.object.to_canonical().to_vec()).unwrap()
}

fn refusal(resource: &Resource, body: &str) -> String {
    match json(resource, body) {
        Err(error) => error.to_string(),
        Ok(decoded) => decoded.wrong_version.expect(body).to_string(),
    }
}

#[test]
fn decode_gives_the_canonical_form_of_a_config_map() {
    // [F26]
    let maps = resource("", "v1", "configmaps");
    for (body, want) in [
        (
            r#"{"data":{"b":null,"a":"x"},"metadata":{"name":"n"}}"#,
            r#"{"metadata":{"name":"n"},"data":{"a":"x","b":""}}"#,
        ),
        (
            r#"{"data":{},"immutable":false,"binaryData":null}"#,
            r#"{"metadata":{},"immutable":false}"#,
        ),
        ("null", r#"{"metadata":{}}"#),
        (
            r#"{"binaryData":{"a":"aGk=","b":""}}"#,
            r#"{"metadata":{},"binaryData":{"a":"aGk=","b":""}}"#,
        ),
        (
            r#"{"data":{"a":"<&>\u2028\ud800x"}}"#,
            r#"{"metadata":{},"data":{"a":"\u003c\u0026\u003e\u2028�x"}}"#,
        ),
    ] {
        assert_eq!(canonical(&maps, body), want, "{body}");
    }
    let invalid = decode(
        &maps,
        ContentType::Json,
        b"{\"data\":{\"a\":\"\xff\xc0x\"}}",
        FieldValidation::Warn,
    )
    .unwrap();
    assert_eq!(
        &**invalid.object.field("data").unwrap(),
        "{\"a\":\"\u{fffd}\u{fffd}x\"}".as_bytes()
    );
}

#[test]
fn decode_gives_the_canonical_form_of_a_pod() {
    // [F26]
    let pods = resource("", "v1", "pods");
    for (body, want) in [
        ("{}", r#"{"metadata":{},"spec":{"containers":null},"status":{}}"#),
        (
            r#"{"spec":{"containers":[null],"volumes":[{"emptyDir":{},"name":"x","hostPath":null}],"hostNetwork":false,"terminationGracePeriodSeconds":0,"tolerations":[]}}"#,
            r#"{"metadata":{},"spec":{"volumes":[{"name":"x","emptyDir":{}}],"containers":[{"name":"","resources":{}}],"terminationGracePeriodSeconds":0},"status":{}}"#,
        ),
        (
            r#"{"spec":{"containers":[{"resources":{"limits":{"memory":1000,"cpu":1.5}},"name":"a"}]}}"#,
            r#"{"metadata":{},"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"1500m","memory":"1k"}}}]},"status":{}}"#,
        ),
        (
            r#"{"status":{"startTime":"2024-01-01T00:00:00.9+01:00"}}"#,
            r#"{"metadata":{},"spec":{"containers":null},"status":{"startTime":"2023-12-31T23:00:00Z"}}"#,
        ),
        (
            r#"{"spec":{"containers":[{"name":"a","livenessProbe":{"httpGet":{"port":"http"},"periodSeconds":0}}]}}"#,
            r#"{"metadata":{},"spec":{"containers":[{"name":"a","resources":{},"livenessProbe":{"httpGet":{"port":"http"}}}]},"status":{}}"#,
        ),
    ] {
        assert_eq!(canonical(&pods, body), want, "{body}");
    }
    let leases = resource("coordination.k8s.io", "v1", "leases");
    assert_eq!(
        canonical(
            &leases,
            r#"{"spec":{"renewTime":"2024-01-01T00:00:00.000000Z","holderIdentity":""}}"#
        ),
        r#"{"metadata":{},"spec":{"holderIdentity":"","renewTime":"2024-01-01T00:00:00.000000Z"}}"#
    );
}

#[test]
fn decode_parses_all_of_the_metadata() {
    let maps = resource("", "v1", "configmaps");
    let body = r#"{"metadata":{"name":"n","generateName":"g","namespace":"s","selfLink":"l","uid":"u","resourceVersion":"7",
        "generation":3,"creationTimestamp":"2024-01-01T00:00:00Z","deletionTimestamp":"2024-01-02T00:00:00Z",
        "deletionGracePeriodSeconds":0,"labels":{"b":"2","a":"1"},"annotations":{"x":"<"},
        "ownerReferences":[{"uid":"o","apiVersion":"v1","kind":"K","name":"n","controller":true}],"finalizers":["f/x"],
        "managedFields":[{"manager":"m","fieldsV1":{"b":1.0, "a":[]},"time":"2020-01-01T00:00:00.5Z"}]}}"#;
    let decoded = json(&maps, body).unwrap();
    assert_eq!(decoded.warnings, Vec::<String>::new());
    assert_eq!(decoded.object.meta.resource_version, "7");
    let canonical = decoded.object.to_canonical();
    assert_eq!(
        std::str::from_utf8(&canonical).unwrap(),
        r#"{"metadata":{"name":"n","generateName":"g","namespace":"s","selfLink":"l","uid":"u","generation":3,"creationTimestamp":"2024-01-01T00:00:00Z","deletionTimestamp":"2024-01-02T00:00:00Z","deletionGracePeriodSeconds":0,"labels":{"a":"1","b":"2"},"annotations":{"x":"\u003c"},"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"o","controller":true}],"finalizers":["f/x"],"managedFields":[{"manager":"m","time":"2020-01-01T00:00:00Z","fieldsV1":{"b":1.0,"a":[]}}]}}"#
    );
    let mut read = Object::from_canonical(&canonical);
    read.meta.resource_version = "7".into();
    assert_eq!(read, decoded.object);
}

#[test]
fn decode_refuses_a_wrong_body_with_the_texts_of_the_server() {
    // [F18] [F25]
    let maps = resource("", "v1", "configmaps");
    for (body, want) in [
        (
            r#"{"a"#,
            r#"the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: unexpected end of JSON input ({"a)"#,
        ),
        (
            "[]",
            r#"the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" } (5b5d)"#,
        ),
        (
            "",
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)",
        ),
        (
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}"#,
            r#"Pod in version "v1" cannot be handled as a ConfigMap: converting (v1.Pod) to (core.ConfigMap): unknown conversion"#,
        ),
        (
            r#"{"KIND":"Pod"}"#,
            r#"Pod in version "v1" cannot be handled as a ConfigMap: converting (v1.Pod) to (core.ConfigMap): unknown conversion"#,
        ),
        (
            r#"{"kind":"Deployment","apiVersion":"apps/v1"}"#,
            r#"Deployment in version "v1" cannot be handled as a ConfigMap: converting (v1.Deployment) to (core.ConfigMap): unknown conversion"#,
        ),
        (
            r#"{"kind":"Foo","apiVersion":"v1"}"#,
            r#"Foo in version "v1" cannot be handled as a ConfigMap: no kind "Foo" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111""#,
        ),
        (
            r#"{"kind":"ConfigMap","apiVersion":"v2"}"#,
            r#"ConfigMap in version "v2" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered for version "v2" in scheme "pkg/runtime/scheme.go:111""#,
        ),
        (
            r#"{"kind":"ConfigMap","apiVersion":"a/b/c"}"#,
            r#"the object provided is unrecognized (must be of type ConfigMap): unexpected GroupVersion string: a/b/c ({"kind":"ConfigMap","apiVersio ...)"#,
        ),
        (
            r#"{"kind":5}"#,
            r#"the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of type string ({"kind":5})"#,
        ),
    ] {
        assert_eq!(refusal(&maps, body), want, "{body}");
    }
    assert!(json(&maps, r#"{"kind":"ConfigMap","apiVersion":"/v1"}"#).is_ok());
}

#[test]
fn decode_names_the_first_value_of_a_wrong_type() {
    // [F25]
    let maps = resource("", "v1", "configmaps");
    let pods = resource("", "v1", "pods");
    let handled = |kind: &str, cause: &str| format!(r#"{kind} in version "v1" cannot be handled as a {kind}: {cause}"#);
    for (body, cause) in [
        (
            r#"{"data":1}"#,
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            r#"{"data":{"a":1},"metadata":{"labels":3}}"#,
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            r#"{"metadata":{"creationTimestamp":5}}"#,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        (
            r#"{"metadata":{"creationTimestamp":"x"}}"#,
            r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#,
        ),
        (
            r#"{"metadata":{"generation":1.5}}"#,
            "json: cannot unmarshal number 1.5 into Go struct field ObjectMeta.metadata.generation of type int64",
        ),
        (
            r#"{"metadata":{"generation":"1"}}"#,
            "json: cannot unmarshal string into Go struct field ObjectMeta.metadata.generation of type int64",
        ),
        (
            r#"{"metadata":[]}"#,
            "json: cannot unmarshal array into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
        ),
        (r#"{"binaryData":{"a":"!!"}}"#, "illegal base64 data at input byte 0"),
        (
            r#"{"binaryData":{"a":5}}"#,
            "json: cannot unmarshal number into Go struct field ConfigMap.binaryData of type []uint8",
        ),
        (
            r#"{"immutable":"x"}"#,
            "json: cannot unmarshal string into Go struct field ConfigMap.immutable of type bool",
        ),
        (
            r#"{"metadata":{"ownerReferences":[{"foo":1},{"uid":5}]}}"#,
            "json: cannot unmarshal number into Go struct field OwnerReference.metadata.ownerReferences.uid of type types.UID",
        ),
        (
            r#"{"metadata":{"ownerReferences":{"a":1}}}"#,
            "json: cannot unmarshal object into Go struct field ObjectMeta.metadata.ownerReferences of type []v1.OwnerReference",
        ),
    ] {
        assert_eq!(refusal(&maps, body), handled("ConfigMap", cause), "{body}");
    }
    let quantity = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    for (body, cause) in [
        (
            r#"{"spec":{"containers":[{"resources":{"limits":{"cpu":true}}}]}}"#,
            quantity,
        ),
        (
            r#"{"spec":{"containers":[{"resources":{"limits":{"cpu":""}}}]}}"#,
            quantity,
        ),
        (
            r#"{"spec":{"containers":[{"ports":[{"containerPort":"x","protocol":1}]}]}}"#,
            "json: cannot unmarshal string into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            r#"{"spec":{"containers":{}}}"#,
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            r#"{"spec":{"restartPolicy":5}}"#,
            "json: cannot unmarshal number into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy",
        ),
        (
            r#"{"spec":{"activeDeadlineSeconds":1e3}}"#,
            "json: cannot unmarshal number 1e3 into Go struct field PodSpec.spec.activeDeadlineSeconds of type int64",
        ),
    ] {
        assert_eq!(refusal(&pods, body), handled("Pod", cause), "{body}");
    }
}

#[test]
fn decode_reports_unknown_and_duplicate_fields_in_document_order() {
    // [F14]
    let maps = resource("", "v1", "configmaps");
    let body = r#"{"metadata":{"name":"a","name":"b","foo":1},"foo":{"x":1},"data":{"a":"b","a":"c"},"Data":{}}"#;
    let findings = [
        r#"duplicate field "metadata.name""#,
        r#"unknown field "metadata.foo""#,
        r#"unknown field "foo""#,
        r#"duplicate field "data.a""#,
        r#"unknown field "Data""#,
    ];
    let warned = json(&maps, body).unwrap();
    assert_eq!(warned.warnings, findings);
    assert_eq!(
        &*warned.object.to_canonical(),
        br#"{"metadata":{"name":"b"},"data":{"a":"c"}}"#
    );
    let strict = decode(&maps, ContentType::Json, body.as_bytes(), FieldValidation::Strict).unwrap_err();
    assert_eq!(
        strict.to_string(),
        format!(
            r#"ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: {}"#,
            findings.join(", ")
        )
    );
    let ignored = decode(&maps, ContentType::Json, body.as_bytes(), FieldValidation::Ignore).unwrap();
    assert_eq!(ignored.warnings, Vec::<String>::new());
    let pods = resource("", "v1", "pods");
    let nested = json(
        &pods,
        r#"{"spec":{"containers":[{},{"foo":1}],"nodeSelector":{"a":"1","a":"2"}}}"#,
    )
    .unwrap();
    assert_eq!(
        nested.warnings,
        [
            r#"unknown field "spec.containers[1].foo""#,
            r#"duplicate field "spec.nodeSelector.a""#
        ]
    );
}

#[test]
fn decode_drops_repeated_owner_references_with_a_warning() {
    // [F8]
    let maps = resource("", "v1", "configmaps");
    let owner = r#"{"apiVersion":"v1","kind":"K","name":"n","uid":"u"}"#;
    let other = owner.replace("\"n\"", "\"m\"");
    let body = format!(r#"{{"metadata":{{"name":"own1","ownerReferences":[{owner},{other},{owner}]}}}}"#);
    let decoded = decode(&maps, ContentType::Json, body.as_bytes(), FieldValidation::Ignore).unwrap();
    assert_eq!(decoded.object.meta.owner_references.len(), 2);
    assert_eq!(
        decoded.repeated_owners.as_deref(),
        Some(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: u"
        )
    );
}

#[test]
fn decode_keeps_everything_of_a_custom_resource() {
    // [F25]
    let widgets = resource("example.com", "v1", "widgets");
    let with =
        |rest: &str| format!(r#"{{"kind":"Widget","apiVersion":"example.com/v1","metadata":{{"name":"p"}},{rest}}}"#);
    for (rest, want) in [
        (
            r#""spec":{"n":null,"a":[1.0,{"z":null}],"big":12345678901234567890},"xx":null"#,
            r#""spec":{"a":[1,{"z":null}],"big":12345678901234567000,"n":null},"xx":null"#,
        ),
        (
            r#""spec":{"a":1.0,"b":1e2,"c":9223372036854775808,"d":-0,"e":-0.0,"f":1e21,"g":1e-7,"h":0.1,"i":123456789.123,"k":100000000000000000000,"l":1.5e300}"#,
            r#""spec":{"a":1,"b":100,"c":9223372036854776000,"d":0,"e":0,"f":1e+21,"g":1e-7,"h":0.1,"i":123456789.123,"k":100000000000000000000,"l":1.5e+300}"#,
        ),
        (r#""spec":{"b":1,"b":2}"#, r#""spec":{"b":2}"#),
    ] {
        assert_eq!(
            canonical(&widgets, &with(rest)),
            format!(r#"{{"metadata":{{"name":"p"}},{want}}}"#)
        );
    }
}

#[test]
fn decode_refuses_a_wrong_custom_resource_with_the_texts_of_the_server() {
    // [F17] [F25]
    let widgets = resource("example.com", "v1", "widgets");
    for (body, want) in [
        (
            "null",
            "the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in 'null' (6e756c6c)",
        ),
        (
            "{}",
            "the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in '{}' ({})",
        ),
        (
            r#"{"kind":"Widget"}"#,
            "the API version in the data () does not match the expected API version (example.com/v1)",
        ),
        (
            r#"{"kind":"Pod","apiVersion":"v1"}"#,
            "the API version in the data (v1) does not match the expected API version (example.com/v1)",
        ),
        (
            r#"{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":5}}"#,
            r#"Widget in version "v1" cannot be handled as a Widget: json: cannot unmarshal number into Go struct field ObjectMeta.name of type string"#,
        ),
        (
            r#"{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"labels":{"a":1}}}"#,
            r#"Widget in version "v1" cannot be handled as a Widget: json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"#,
        ),
        (
            r#"{"kind":"Widget","apiVersion":"example.com/v1","metadata":5}"#,
            r#"Widget in version "v1" cannot be handled as a Widget: json: cannot unmarshal number into Go value of type v1.ObjectMeta"#,
        ),
        (
            r#"{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"generation":"x"},"spec":1e400}"#,
            r#"Widget in version "v1" cannot be handled as a Widget: json: cannot unmarshal number 1e400 into Go value of type float64"#,
        ),
    ] {
        assert_eq!(refusal(&widgets, body), want, "{body}");
    }
    let other = json(&widgets, r#"{"kind":"Foo","apiVersion":"example.com/v1"}"#).unwrap();
    assert_eq!(other.kind, "Foo");
    let strict = r#"{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"f","foo":1,"name":"f","labels":{"a":"b","a":"c"}},"spec":{"a":1,"a":2}}"#;
    let strict = decode(&widgets, ContentType::Json, strict.as_bytes(), FieldValidation::Strict).unwrap_err();
    assert_eq!(
        strict.cause(),
        r#"strict decoding error: duplicate field "metadata.name", duplicate field "metadata.labels.a", duplicate field "spec.a", unknown field "metadata.foo""#
    );
}

#[test]
fn decode_patched_leaves_the_type_of_a_custom_resource_to_validation() {
    let widgets = resource("example.com", "v1", "widgets");
    let decoded = decode_patched(
        &widgets,
        br#"{"kind":"Foo","apiVersion":"example.com/v2"}"#,
        FieldValidation::Warn,
    )
    .unwrap();
    assert_eq!(
        (decoded.kind.as_str(), decoded.api_version.as_str()),
        ("Foo", "example.com/v2")
    );
}

#[test]
fn decode_reads_yaml_as_the_server_does() {
    // [F11] bodies that the real server was asked about
    let maps = resource("", "v1", "configmaps");
    let yaml = |body: &str, validation| decode(&maps, ContentType::Yaml, body.as_bytes(), validation);
    let object = yaml(
        "metadata:\n  name: y2\ndata:\n  \"on\": \"1\"\n  b: |\n    x\n---\nfoo: bar\n",
        FieldValidation::Warn,
    )
    .unwrap();
    assert_eq!(
        &*object.object.to_canonical(),
        br#"{"metadata":{"name":"y2"},"data":{"b":"x\n","on":"1"}}"#
    );
    let number = yaml("data:\n  a: 1\n", FieldValidation::Warn).unwrap_err();
    assert_eq!(
        number.cause(),
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
    );
    let yes = yaml("data:\n  a: yes\n", FieldValidation::Warn).unwrap_err();
    assert_eq!(
        yes.cause(),
        "json: cannot unmarshal bool into Go struct field ConfigMap.data of type string"
    );
    let strict = yaml("metadata:\n  name: y\n  name: z\nfoo: 1\n", FieldValidation::Strict).unwrap_err();
    assert_eq!(
        strict.cause(),
        "strict decoding error: yaml: unmarshal errors:\n  line 3: key \"name\" already set in map, unknown field \"foo\""
    );
    let list = yaml("- a\n- b", FieldValidation::Warn).unwrap_err().to_string();
    assert!(list.ends_with(" } (2d20610a2d2062)"), "{list}");
    let malformed = yaml("a: b: c", FieldValidation::Warn).unwrap_err().to_string();
    assert!(
        malformed.starts_with("the object provided is unrecognized (must be of type ConfigMap): yaml: "),
        "{malformed}"
    );
    let deep = format!("a: {}", "[".repeat(5000));
    assert!(yaml(&deep, FieldValidation::Warn).is_err());
}

/// A field of a protobuf message.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = content.len();
    while length > 0x7f {
        out.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    out.push(u8::try_from(length).unwrap());
    out.extend_from_slice(content);
    out
}

fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let types = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &types), field(2, message)].concat()
}

fn proto_pod() -> Vec<u8> {
    let entry = |key: &str, value: &str| [field(1, key.as_bytes()), field(2, value.as_bytes())].concat();
    let quantity = [field(1, b"cpu"), field(2, &field(1, b"1000m"))].concat();
    let probe = [
        field(
            1,
            &field(
                2,
                &[
                    vec![],
                    field(1, b"/"),
                    field(2, &[1 << 3, 1, 3 << 3 | 2, 4, b'h', b't', b't', b'p']),
                ]
                .concat(),
            ),
        ),
        vec![2 << 3, 5],
    ]
    .concat();
    let container = [
        field(1, b"c"),
        field(8, &field(1, &quantity)),
        field(10, &probe),
        field(6, &[3 << 3, 80]),
        vec![0x80, 1, 0],
    ]
    .concat();
    let volume = [field(1, b"v"), field(2, &field(2, &[]))].concat();
    let spec = [
        field(1, &volume),
        field(2, &container),
        field(7, &entry("k", "v")),
        vec![4 << 3, 0],
    ]
    .concat();
    let meta = [
        field(1, b"p"),
        field(11, &entry("a", "b")),
        field(8, &[1 << 3, 0x80, 0xa0, 0xc8, 0xac, 0x06, 2 << 3, 5]),
    ]
    .concat();
    envelope("v1", "Pod", &[field(1, &meta), field(2, &spec), field(3, &[])].concat())
}

#[test]
fn decode_reads_protobuf_into_the_same_form() {
    // [F19]
    let pods = resource("", "v1", "pods");
    let decoded = decode(&pods, ContentType::Protobuf, &proto_pod(), FieldValidation::Strict).unwrap();
    assert_eq!(
        std::str::from_utf8(&decoded.object.to_canonical()).unwrap(),
        r#"{"metadata":{"name":"p","creationTimestamp":"2024-01-01T01:06:08Z","labels":{"a":"b"}},"spec":{"volumes":[{"name":"v","emptyDir":{}}],"containers":[{"name":"c","ports":[{"containerPort":80}],"resources":{"limits":{"cpu":"1"}},"livenessProbe":{"httpGet":{"path":"/","port":"http"},"initialDelaySeconds":5}}],"terminationGracePeriodSeconds":0,"nodeSelector":{"k":"v"}},"status":{}}"#
    );
    let maps = resource("", "v1", "configmaps");
    for (body, cause) in [
        (
            &b"x"[..],
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
        ),
        (b"k8s\0", "empty body"),
        (b"k8s\0\n", "unexpected EOF"),
    ] {
        assert_eq!(
            decode(&maps, ContentType::Protobuf, body, FieldValidation::Warn)
                .unwrap_err()
                .cause(),
            cause
        );
    }
}

#[test]
fn delete_options_are_read_from_json_yaml_and_protobuf() {
    // [F12]
    let options = |body: &str| decode_delete_options(ContentType::Json, body.as_bytes());
    let full = options(
        r#"{"kind":"DeleteOptions","apiVersion":"apps/v1","gracePeriodSeconds":0,"preconditions":{"uid":"x"},"orphanDependents":false,"propagationPolicy":"Orphan","dryRun":["All"],"foo":1}"#,
    )
    .unwrap();
    let want = DeleteOptions {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions {
            uid: Some("x".into()),
            resource_version: None,
        }),
        orphan_dependents: Some(false),
        propagation_policy: Some("Orphan".into()),
        dry_run: vec!["All".into()],
        ignore_store_read_error: false,
    };
    assert_eq!(full, want);
    let message = [
        vec![1 << 3, 0],
        field(2, &field(1, b"x")),
        vec![3 << 3, 0],
        field(4, b"Orphan"),
        field(5, b"All"),
    ]
    .concat();
    let proto = envelope("v1", "DeleteOptions", &message);
    assert_eq!(decode_delete_options(ContentType::Protobuf, &proto).unwrap(), want);
    assert_eq!(options("null").unwrap(), DeleteOptions::default());
    assert_eq!(options("").unwrap(), DeleteOptions::default());
    assert_eq!(
        options(r#"{"gracePeriodSeconds":"x"}"#).unwrap_err().to_string(),
        "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64"
    );
    assert_eq!(
        options(r#"{"kind":"Foo"}"#).unwrap_err().to_string(),
        r#"no kind "Foo" is registered for version "meta.k8s.io/v1" in scheme "pkg/runtime/scheme.go:111""#
    );
    assert_eq!(
        options(r#"{"a"#).unwrap_err().to_string(),
        "couldn't get version/kind; json parse error: unexpected end of JSON input"
    );
}

#[test]
fn body_that_ends_too_early_is_refused_as_if_a_space_came() {
    // [F18] Go's scanner ends a text by giving itself a space
    let maps = resource("", "v1", "configmaps");
    for (body, want) in [
        ("n", "invalid character ' ' in literal null (expecting 'u')"),
        (r#"{"a":tru"#, "invalid character ' ' in literal true (expecting 'e')"),
        (r#"{"a":-"#, "invalid character ' ' in numeric literal"),
        (
            r#"{"a":1."#,
            "invalid character ' ' after decimal point in numeric literal",
        ),
        (r#"{"a":2e+"#, "invalid character ' ' in exponent of numeric literal"),
        (r#"{"a":"b\"#, "invalid character ' ' in string escape code"),
        (
            r#"{"a":"\u12"#,
            r"invalid character ' ' in \u hexadecimal character escape",
        ),
        (r#"{"a":"b"#, "unexpected end of JSON input"),
        (r#"{"a":1"#, "unexpected end of JSON input"),
        (r#"{"a""#, "unexpected end of JSON input"),
        (r#"["a","#, "unexpected end of JSON input"),
    ] {
        let refusal = refusal(&maps, body);
        assert!(
            refusal.contains(&format!("json parse error: {want} (")),
            "{body}: {refusal}"
        );
    }
}

#[test]
fn zero_field_is_what_go_writes_for_an_unset_field() {
    let zero = |group: &str, version: &str, plural: &str| {
        zero_field(&resource(group, version, plural), "status").map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
    };
    assert_eq!(zero("", "v1", "pods").as_deref(), Some("{}"));
    assert_eq!(zero("", "v1", "services").as_deref(), Some(r#"{"loadBalancer":{}}"#));
    assert_eq!(zero("", "v1", "configmaps"), None);
    assert_eq!(zero("example.com", "v1", "widgets"), None);
}

/// Runs `test` on the small stack of a runtime worker.
fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(test)
        .unwrap()
        .join()
        .unwrap();
}

#[test]
fn deep_nesting_is_refused_or_kept_without_a_stack_overflow() {
    // [F25]
    on_a_small_stack(|| {
        let widgets = resource("example.com", "v1", "widgets");
        let nested = |depth: usize| {
            let (open, close) = ("[".repeat(depth), "]".repeat(depth));
            format!(r#"{{"kind":"Widget","apiVersion":"example.com/v1","spec":{open}{close}}}"#)
        };
        assert!(json(&widgets, &nested(9_999)).is_ok());
        assert!(
            refusal(&widgets, &nested(10_000)).contains("json parse error: invalid character '[' exceeded max depth (")
        );
        let definitions = resource("apiextensions.k8s.io", "v1", "customresourcedefinitions");
        let (open, close) = (r#"{"items":"#.repeat(4_000), "}".repeat(4_000));
        let schema = format!(r#"{{"spec":{{"versions":[{{"schema":{{"openAPIV3Schema":{open}{{}}{close}}}}}]}}}}"#);
        assert!(refusal(&definitions, &schema).ends_with("exceeded max depth"));
        let pods = resource("", "v1", "pods");
        let yaml = format!("a: {}", "{a: ".repeat(3_000));
        assert!(decode(&pods, ContentType::Yaml, yaml.as_bytes(), FieldValidation::Warn).is_err());
    });
}

/// Changes a few bytes of `seed`.
fn mutate(random: &mut fastrand::Rng, seed: &[u8]) -> Vec<u8> {
    let mut body = seed.to_vec();
    for _ in 0..random.usize(1..6) {
        if body.is_empty() {
            break;
        }
        let at = random.usize(..body.len());
        match random.u8(..4) {
            0 => body[at] = random.u8(..),
            1 => {
                body.remove(at);
            }
            2 => body.insert(at, *random.choice(b"{}[]\",:0-e.\\nt\xff").unwrap_or(&0)),
            _ => body.truncate(at),
        }
    }
    body
}

#[test]
fn hostile_bodies_never_panic_and_accepted_ones_are_stable() {
    // [F25]
    let seed = 0x5eed_0001;
    println!("seed {seed:#x}");
    let mut random = fastrand::Rng::with_seed(seed);
    let pods = resource("", "v1", "pods");
    let widgets = resource("example.com", "v1", "widgets");
    let definitions = resource("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let text = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","labels":{"x":"y"},"ownerReferences":[{"uid":"u"}],"creationTimestamp":"2024-01-01T00:00:00Z","managedFields":[{}]},"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1.5","memory":"1Gi"}},"ports":[{"containerPort":1}],"livenessProbe":{"httpGet":{"port":"x"}}}],"volumes":[{"secret":{"items":[]}}]}}"#;
    let custom = text.replace("Pod", "Widget").replace("\"v1\"", "\"example.com/v1\"");
    let crd = r#"{"spec":{"group":"g","versions":[{"schema":{"openAPIV3Schema":{"properties":{"a":{"items":[{"default":[1,{"b":2}]}],"additionalProperties":true,"dependencies":{"x":["y"]}}}}}}]}}"#;
    let yaml =
        "kind: Pod\nmetadata:\n  name: &a x\n  labels: {k: *a, 1: 2}\nspec:\n  containers:\n  - name: |\n      x\n";
    let proto = proto_pod();
    for _ in 0..4_000 {
        for (resource, content, seed) in [
            (&pods, ContentType::Json, text.as_bytes()),
            (&widgets, ContentType::Json, custom.as_bytes()),
            (&definitions, ContentType::Json, crd.as_bytes()),
            (&pods, ContentType::Yaml, yaml.as_bytes()),
            (&pods, ContentType::Protobuf, &proto),
        ] {
            let body = mutate(&mut random, seed);
            let _ = decode_delete_options(content, &body);
            if let Ok(decoded) = decode(resource, content, &body, FieldValidation::Strict) {
                // What was accepted survives a round trip through storage.
                let stored = decoded.object.to_canonical();
                let mut read = Object::from_canonical(&stored);
                read.meta
                    .resource_version
                    .clone_from(&decoded.object.meta.resource_version);
                assert_eq!(read.to_canonical(), stored, "{}", String::from_utf8_lossy(&body));
                // And its output decodes to itself.
                let mut output = Vec::new();
                let types = crate::object::TypeMeta {
                    api_version: &decoded.api_version,
                    kind: &decoded.kind,
                };
                crate::object::write_output(&stored, Some(types), 7, &mut output);
                let again = decode(resource, ContentType::Json, &output, FieldValidation::Strict)
                    .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output)));
                assert_eq!(again.object.meta.resource_version, "7");
                assert_eq!(
                    again.object.to_canonical(),
                    stored,
                    "{}",
                    String::from_utf8_lossy(&body)
                );
            }
        }
        let noise: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..)).collect();
        for content in [ContentType::Json, ContentType::Yaml, ContentType::Protobuf] {
            let _ = decode(&pods, content, &noise, FieldValidation::Warn);
        }
        let framed = envelope("v1", "Pod", &noise);
        let _ = decode(&pods, ContentType::Protobuf, &framed, FieldValidation::Warn);
    }
}

// [F8] [F18] what is there twice is read into the same place, as Go does: objects come together, null is nothing to a text,
// and a value of a wrong type is one wherever it stands
#[test]
fn repeated_fields_come_together() {
    let maps = resource("", "v1", "configmaps");
    let canonical = |body: &str| {
        let decoded = decode(&maps, ContentType::Json, body.as_bytes(), FieldValidation::Warn).unwrap();
        String::from_utf8(decoded.object.to_canonical().to_vec()).unwrap()
    };
    for (body, object) in [
        (
            r#"{"data":{"a":"1","b":"2"},"data":{"b":"3","c":"4"}}"#,
            r#"{"metadata":{},"data":{"a":"1","b":"3","c":"4"}}"#,
        ),
        (
            r#"{"data":{"a":"1"},"data":null,"data":{"c":"4"}}"#,
            r#"{"metadata":{},"data":{"c":"4"}}"#,
        ),
        (
            r#"{"metadata":{"name":"a","labels":{"a":"b"}},"metadata":{"name":null,"labels":{"c":"d"}},"metadata":null}"#,
            r#"{"metadata":{"name":"a","labels":{"a":"b","c":"d"}}}"#,
        ),
        (
            r#"{"metadata":{"labels":{"a":"b"},"labels":null,"generation":5,"generation":null}}"#,
            r#"{"metadata":{"generation":5}}"#,
        ),
        (r#"{"immutable":true,"immutable":null}"#, r#"{"metadata":{}}"#),
    ] {
        assert_eq!(canonical(body), object, "{body}");
    }
    let refusal = |resource: &Resource, body: &str| {
        let refused = decode(resource, ContentType::Json, body.as_bytes(), FieldValidation::Warn).unwrap_err();
        refused.cause().to_owned()
    };
    assert_eq!(
        refusal(&maps, r#"{"data":{"a":{},"a":"b"}}"#),
        "json: cannot unmarshal object into Go struct field ConfigMap.data of type string"
    );
    assert_eq!(
        refusal(&maps, r#"{"metadata":5,"metadata":{}}"#),
        "json: cannot unmarshal number into Go struct field ConfigMap.metadata of type v1.ObjectMeta"
    );
    // Of a custom resource the last is all that there is, at any depth.
    let widgets = resource("example.com", "v1", "widgets");
    let owner = r#"{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u","name":null}"#;
    let body = format!(
        r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"ownerReferences":[{owner}]}},"spec":{{"a":1}},"spec":{{"b":2}}}}"#
    );
    for validation in [FieldValidation::Ignore, FieldValidation::Warn] {
        let decoded = decode(&widgets, ContentType::Json, body.as_bytes(), validation).unwrap();
        assert_eq!(decoded.object.meta.owner_references[0].name, "", "{validation:?}");
        assert_eq!(&*decoded.object.fields[0].1, br#"{"b":2}"#);
    }
    let pods = resource("", "v1", "pods");
    assert_eq!(
        refusal(&pods, r#"{"spec":{"nodeName":5},"spec":{"nodeName":"n"}}"#),
        "json: cannot unmarshal number into Go struct field PodSpec.spec.nodeName of type string"
    );
}
