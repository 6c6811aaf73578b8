//! Hostile input, on both servers: bodies, numbers, depths, types and addresses that only mean harm. What happens on a socket,
//! with heads and bodies that do not come, is in the tests of `fake-apiserver`'s HTTP form; random input is in [`fuzz`](super::fuzz)
//! and in the fuzz targets of `fake-apiserver`.

use std::fmt::Write as _;
use std::io::Write as _;

use serde_json::{Value, json};

use super::texts::UNKNOWN_FORMAT;
use crate::harness::{Answer, CustomKind, Namespace, Server, cases};

/// Posts the bytes of a config map.
async fn post(server: &Server, namespace: &Namespace, content_type: &str, body: impl Into<Vec<u8>>) -> Answer {
    server
        .request("POST", &namespace.at("configmaps"))
        .body(content_type, body)
        .send()
        .await
}

/// Applies these bytes to a config map.
async fn apply(server: &Server, namespace: &Namespace, body: impl Into<Vec<u8>>) -> Answer {
    server
        .request("PATCH", &namespace.at("configmaps/bomb?fieldManager=m"))
        .body("application/apply-patch+yaml", body)
        .send()
        .await
}

const UNRECOGNIZED: &str = "the object provided is unrecognized (must be of type ConfigMap): ";
const NO_JSON: &str = "couldn't get version/kind; json parse error: ";

// [F25] bytes that are no JSON, or that no text should have
async fn odd_bytes_are_refused_or_replaced(server: Server) {
    let namespace = server.namespace().await;
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(&b" ".repeat(100_000)).expect("a buffer takes all");
    let packed = packed.finish().expect("a buffer takes all");
    let utf16: Vec<u8> = "\u{feff}{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (body, why) in [
        (
            &b"\x00{}"[..],
            r"invalid character '\x00' looking for beginning of value (…",
        ),
        (
            b"{\"data\":{\"a\":\"\x00\"}}",
            r"invalid character '\x00' in string literal (…",
        ),
        (
            b"\xef\xbb\xbf{}",
            "invalid character '\u{ef}' looking for beginning of value (…",
        ),
        (&utf16, "invalid character '\u{ff}' looking for beginning of value (…"),
        (&packed, r"invalid character '\x1f' looking for beginning of value (…"),
        (b"{}{}", "invalid character '{' after top-level value (…"),
        (b"", "unexpected end of JSON input (<empty>)"),
        (&[b' '; 1000], "unexpected end of JSON input (…"),
        (
            b"{\"a\":\"\\ud8\"}",
            "invalid character '\"' in \\u hexadecimal character escape (…",
        ),
    ] {
        let answer = post(&server, &namespace, "application/json", body).await;
        answer.is(400, "BadRequest", &format!("{UNRECOGNIZED}{NO_JSON}{why}"), Value::Null);
    }
    // Nothing unpacks a body, whatever it says to be.
    let answer = server
        .request("POST", &namespace.at("configmaps"))
        .header("content-encoding", "gzip")
        .body("application/json", packed)
        .send()
        .await;
    assert_eq!(answer.code, 400, "{answer}");
    for (name, data) in [
        ("lone", &br"\ud800x\udc00"[..]),
        ("swapped", br"\udc00\ud800"),
        ("bytes", b"\xff\xfe"),
        ("overlong", b"\xc0\x80\xed\xa0\x80"),
        ("nul", br"\u0000"),
    ] {
        let mut body = format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"k":""#).into_bytes();
        body.extend_from_slice(data);
        body.extend_from_slice(br#""}}"#);
        let stored = post(&server, &namespace, "application/json", body).await.created();
        let wanted = match name {
            "lone" => "\u{fffd}x\u{fffd}",
            "swapped" | "bytes" => "\u{fffd}\u{fffd}",
            "overlong" => "\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}",
            _ => "\u{0}",
        };
        assert_eq!(stored["data"]["k"], wanted, "{name}");
    }
    let bad_name = post(
        &server,
        &namespace,
        "application/json",
        r#"{"metadata":{"name":"a\u0000"}}"#,
    )
    .await;
    assert_eq!(bad_name.expect(422)["details"]["name"], "a\u{0}");
}

// [F25] numbers that do not fit where they stand
async fn numbers_out_of_range_are_refused(server: Server) {
    let namespace = server.namespace().await;
    let generation = |number: &str| format!(r#"{{"metadata":{{"name":"n","generation":{number}}}}}"#);
    for number in [
        "1e400",
        "-1e400",
        "1.0",
        "1.5",
        "1e2",
        "1e-400",
        "12345678901234567890",
        "9223372036854775808",
    ] {
        let text = format!(
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number {number} into Go struct \
             field ObjectMeta.metadata.generation of type int64"
        );
        let answer = post(&server, &namespace, "application/json", generation(number)).await;
        answer.is(400, "BadRequest", &text, Value::Null);
    }
    post(&server, &namespace, "application/json", generation("-0"))
        .await
        .created();
    let kind = CustomKind::register(&server, |_| {}).await;
    let spec = async |name: &str, number: &str| {
        let group = &kind.group;
        let body = format!(
            r#"{{"apiVersion":"{group}/v1","kind":"Widget","metadata":{{"name":"{name}"}},"spec":{{"n":{number}}}}}"#
        );
        let request = server.request("POST", &kind.at(&namespace, ""));
        request.body("application/json", body).send().await
    };
    for number in ["1e400", "-1e400", "1e99999999999"] {
        assert_eq!(spec("a", number).await.code, 400, "{number}");
    }
    for (at, (number, stored)) in [
        ("-0", "0"),
        ("1e-400", "0"),
        ("1.0", "1"),
        ("9223372036854775807", "9223372036854775807"),
        ("9223372036854775808", "9223372036854776000"),
        ("12345678901234567890", "12345678901234567000"),
        ("1e21", "1e+21"),
        ("5e-324", "5e-324"),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = spec(&format!("n{at}"), number).await;
        answer.created();
        let wanted = format!(r#""spec":{{"n":{stored}}}"#);
        assert!(answer.text().contains(&wanted), "{number}: {answer}");
    }
    // Owners of what could not be written again.
    let fields = r#"[{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"v:1e400":{}}}}]"#;
    let body = format!(r#"{{"metadata":{{"name":"owned","managedFields":{fields}}},"data":{{"a":"b"}}}}"#);
    let stored = post(&server, &namespace, "application/json", body).await.created();
    assert!(
        !stored["metadata"]["managedFields"].to_string().contains("v:"),
        "{stored}"
    );
    server.get(&namespace.at("configmaps/owned")).await.ok();
}

// [F25] depth just up to the limit, and beyond
async fn nesting_has_a_limit(server: Server) {
    let namespace = server.namespace().await;
    let deep = |open: &str, close: &str, depth: usize| {
        format!(
            r#"{{"metadata":{{"name":"deep"}},"unknown":{}{}}}"#,
            open.repeat(depth),
            close.repeat(depth)
        )
    };
    let at_the_limit = post(&server, &namespace, "application/json", deep("[", "]", 9_999)).await;
    at_the_limit.created();
    let beyond = post(&server, &namespace, "application/json", deep("[", "]", 10_000)).await;
    let why = "invalid character '[' exceeded max depth (…";
    beyond.is(400, "BadRequest", &format!("{UNRECOGNIZED}{NO_JSON}{why}"), Value::Null);
    let unclosed = post(&server, &namespace, "application/json", "[".repeat(100_000)).await;
    unclosed.is(400, "BadRequest", &format!("{UNRECOGNIZED}{NO_JSON}{why}"), Value::Null);
    let patch = async |content_type: &str, body: String| {
        let request = server.request("PATCH", &namespace.at("configmaps/deep"));
        request.body(content_type, body).send().await
    };
    for content_type in [
        "application/merge-patch+json",
        "application/json-patch+json",
        "application/strategic-merge-patch+json",
    ] {
        let answer = patch(content_type, format!("{}{}", "[".repeat(10_001), "]".repeat(10_001))).await;
        assert_eq!(answer.code, 400, "{answer}");
    }
}

// [F25] YAML that unfolds into more than it is
async fn yaml_bombs_are_refused(server: Server) {
    let namespace = server.namespace().await;
    let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (before, next) in "abcdefgh".chars().zip("bcdefghi".chars()) {
        let all = vec![format!("*{before}"); 9].join(",");
        let _ = writeln!(bomb, "{next}: &{next} [{all}]");
    }
    for (body, why) in [
        (bomb.clone(), "yaml: document contains excessive aliasing"),
        ("a: &a [*a]\n".to_owned(), "yaml: anchor 'a' value contains itself"),
        (
            format!("{}{}", "[".repeat(10_001), "]".repeat(10_001)),
            "yaml: exceeded max depth of 10000",
        ),
    ] {
        let answer = apply(&server, &namespace, body).await;
        answer.is(400, "BadRequest", &format!("error encoding patch: {why}"), Value::Null);
    }
    let list = apply(
        &server,
        &namespace,
        format!("{}{}", "[".repeat(9_999), "]".repeat(9_999)),
    )
    .await;
    let why = "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type \
               map[string]interface {}";
    // The real server looks for the object first.
    assert_eq!(list.code, 400, "{list}");
    assert_eq!(list.json()["message"], why);
    let posted = post(&server, &namespace, "application/yaml", bomb).await;
    let why = format!("{UNRECOGNIZED}yaml: document contains excessive aliasing (…");
    posted.is(400, "BadRequest", &why, Value::Null);
}

// [F25] protobuf that ends too early, or says to be longer than it is
async fn protobuf_garbage_is_refused(server: Server) {
    let namespace = server.namespace().await;
    let envelope = b"k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap";
    let with = |rest: &[u8]| [&envelope[..], rest].concat();
    for (body, why) in [
        (
            b"k8s\x00\xff\xff\xff\xff".to_vec(),
            format!("{UNRECOGNIZED}unexpected EOF (…"),
        ),
        (
            with(b"\x12\xff\xff\xff\xff\x7f"),
            format!("{UNRECOGNIZED}unexpected EOF (…"),
        ),
        (
            with(b"\x12\x05\xff\xff\xff\xff\xff"),
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: unexpected EOF".to_owned(),
        ),
    ] {
        let answer = post(&server, &namespace, "application/vnd.kubernetes.protobuf", body).await;
        answer.is(400, "BadRequest", &why, Value::Null);
    }
}

// [F25] types that nobody has, or that are no types
async fn content_types_are_known_or_refused(server: Server) {
    let namespace = server.namespace().await;
    let body = r#"{"metadata":{"name":"typed"}}"#;
    for content_type in [
        "application/json;;",
        "text/json",
        "application/json, text/plain",
        "*/*",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        ";",
        "application/json; q=\"",
    ] {
        let answer = post(&server, &namespace, content_type, body).await;
        answer.is(415, "UnsupportedMediaType", UNKNOWN_FORMAT, Value::Null);
    }
    post(&server, &namespace, "application/json; charset=utf-16", body)
        .await
        .created();
    let again = post(&server, &namespace, "APPLICATION/JSON", body).await;
    assert_eq!(again.code, 409, "{again}");
}

// [F25] addresses: bytes that are no text, escapes that are none, and much of all
async fn addresses_are_read_as_they_are(server: Server) {
    let namespace = server.namespace().await;
    for name in ["%zz", "%"] {
        let answer = server.get(&namespace.at(&format!("pods/{name}"))).await;
        assert_eq!((answer.code, answer.text()), (400, "400 Bad Request"), "{name}");
    }
    for (escaped, shown) in [("%00", r"\x00"), ("a%0ab", r"a\nb"), ("%ff%fe", r"\xff\xfe")] {
        let answer = server.get(&namespace.at(&format!("pods/{escaped}"))).await;
        let text = format!("pods \"{shown}\" not found");
        assert_eq!(
            (answer.code, &answer.json()["message"]),
            (404, &json!(text)),
            "{answer}"
        );
    }
    let many: Vec<String> = (0..6_000).map(|at| format!("a{at}=1")).collect();
    for query in [
        "labelSelector=%".to_owned(),
        "limit=%zz".to_owned(),
        many.join("&"),
        format!("labelSelector={}a", "a%3Db,".repeat(9_000)),
        format!("fieldSelector={}", "metadata.name!%3Dx,".repeat(3_000)),
    ] {
        let answer = server.get(&namespace.at(&format!("pods?{query}"))).await;
        assert_eq!(answer.ok()["kind"], "PodList");
    }
    let long = server
        .get(&namespace.at(&format!("pods?labelSelector={}", "a".repeat(60_000))))
        .await;
    assert_eq!(long.code, 400);
    assert_eq!(server.get(&format!("/{}", "a/".repeat(20_000))).await.code, 404);
    assert_eq!(
        server
            .get(&namespace.at(&format!("pods/{}", "a".repeat(5_000))))
            .await
            .code,
        404
    );
}

cases!(
    odd_bytes_are_refused_or_replaced,
    numbers_out_of_range_are_refused,
    nesting_has_a_limit,
    yaml_bombs_are_refused,
    protobuf_garbage_is_refused,
    content_types_are_known_or_refused,
    addresses_are_read_as_they_are,
);
