//! Results and refusals as a kube-apiserver 1.37.2 answered them.

use super::*;
use crate::codec::tests::resource;

const CURRENT: &str = r#"{"kind":"ConfigMap","metadata":{"name":"p","labels":{"a":"b"},"finalizers":["c","d"]},"data":{"k":"v","l":"w"}}"#;
const UNFIT: &str = "the server rejected our request due to an error in our request";

fn canonical(text: &[u8]) -> String {
    let tape = Tape::parse(text).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(text)));
    let mut out = Vec::new();
    crate::json::canonical::write(&mut out, tape.root()).unwrap();
    String::from_utf8(out).unwrap()
}

/// The whole document with other data, or other finalizers.
fn with(data: &str, finalizers: &str) -> String {
    canonical(
        CURRENT
            .replace(r#"{"k":"v","l":"w"}"#, data)
            .replace(r#"["c","d"]"#, finalizers)
            .as_bytes(),
    )
}

fn json_patch(patch: &str) -> Result<String, PatchError> {
    apply(
        PatchType::Json,
        CURRENT.as_bytes(),
        patch.as_bytes(),
        FieldValidation::Warn,
    )
    .map(|text| canonical(&text))
}

fn merge_patch(patch: &str) -> Result<String, PatchError> {
    apply(
        PatchType::Merge,
        CURRENT.as_bytes(),
        patch.as_bytes(),
        FieldValidation::Warn,
    )
    .map(|text| canonical(&text))
}

#[test]
fn json_patch_applies_with_the_leniency_of_the_server() {
    // [F10]
    let data = r#"{"k":"v","l":"w"}"#;
    let finalizers = r#"["c","d"]"#;
    for (patch, want) in [
        ("[]", with(data, finalizers)),
        ("null", with(data, finalizers)),
        (
            r#"[{"op":"test","path":"/data/k","value":"v"}]"#,
            with(data, finalizers),
        ),
        (
            r#"[{"op":"replace","path":"/data/zz","value":"1"}]"#,
            with(r#"{"k":"v","l":"w","zz":"1"}"#, finalizers),
        ),
        (
            r#"[{"op":"add","path":"/data/n"}]"#,
            with(r#"{"k":"v","l":"w","n":null}"#, finalizers),
        ),
        (
            r#"[{"op":"copy","from":"/data/nope","path":"/data/q"}]"#,
            with(r#"{"k":"v","l":"w","q":null}"#, finalizers),
        ),
        (
            r#"[{"op":"move","from":"/data/l","path":"/data/m"}]"#,
            with(r#"{"k":"v","m":"w"}"#, finalizers),
        ),
        (
            r#"[{"op":"replace","path":"/metadata/finalizers/-1","value":"e"}]"#,
            with(data, r#"["c","e"]"#),
        ),
        (
            r#"[{"op":"add","path":"/metadata/finalizers/-","value":"f"}]"#,
            with(data, r#"["c","d","f"]"#),
        ),
        (
            r#"[{"op":"remove","path":"/metadata/finalizers/-1"}]"#,
            with(data, r#"["c"]"#),
        ),
        (
            r#"[{"op":"add","path":"/metadata/finalizers/01","value":"h"}]"#,
            with(data, r#"["c","h","d"]"#),
        ),
        (
            r#"[{"op":"add","path":"/data/x~1y~0","value":"z"}]"#,
            with(r#"{"k":"v","l":"w","x/y~":"z"}"#, finalizers),
        ),
        (
            r#"[{"op":"remove","path":"/data"},{"op":"add","path":"/data","value":{}}]"#,
            with("{}", finalizers),
        ),
        (
            r#"[{"op":"test","path":"/data/none","value":null}]"#,
            with(data, finalizers),
        ),
        (
            r#"[{"op":"replace","path":"","value":{"a":1}}]"#,
            r#"{"a":1}"#.to_owned(),
        ),
    ] {
        assert_eq!(json_patch(patch).as_ref(), Ok(&want), "{patch}");
    }
    let ignored = json_patch(r#"[{"op":"add","path":"data/k","value":"1"}]"#).unwrap();
    assert!(
        ignored.contains(r#""k":"1","kind""#),
        "what stands before the first slash is ignored: {ignored}"
    );
}

#[test]
fn json_patch_that_does_not_fit_is_unprocessable() {
    // [F10]
    for patch in [
        "[null]",
        "[{}]",
        r#"[{"op":"x","path":"/data/k"}]"#,
        r#"[{"op":"test","path":"/data/k","value":"zz"}]"#,
        r#"[{"op":"remove","path":"/data/nope"}]"#,
        r#"[{"op":"move","from":"/data/nope","path":"/data/q"}]"#,
        r#"[{"op":"add","path":"/x/y/z","value":1}]"#,
        r#"[{"op":"add","path":"","value":{}}]"#,
        r#"[{"op":"add","path":"/metadata/finalizers/9","value":"g"}]"#,
        r#"[{"op":"remove","path":"/metadata/finalizers/9"}]"#,
        r#"[{"op":"test","path":"/data/k","value":null}]"#,
        r#"[{"op":"test","path":"/metadata/finalizers","value":["c"]}]"#,
        r#"[{"path":"/data/k","value":"v"}]"#,
        r#"[{"op":"replace","value":"v"}]"#,
        r#"[{"op":"remove","path":""}]"#,
    ] {
        assert_eq!(
            json_patch(patch),
            Err(PatchError::Unprocessable(UNFIT.into())),
            "{patch}"
        );
    }
}

#[test]
fn json_patch_that_is_none_is_a_bad_request() {
    // [F10]
    for (patch, want) in [
        ("{", "invalid JSON patch"),
        (
            "{}",
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (
            "5",
            "error decoding patch: json: cannot unmarshal number into Go value of type []handlers.jsonPatchOp",
        ),
        (
            "[5]",
            "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
        ),
        (
            r#"[{"op":"add","path":5}]"#,
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.path of type string",
        ),
    ] {
        assert_eq!(json_patch(patch), Err(PatchError::BadRequest(want.into())), "{patch}");
    }
    let many = format!(
        "[{}]",
        vec![r#"{"op":"test","path":"/data/k","value":"v"}"#; 10_001].join(",")
    );
    assert_eq!(
        json_patch(&many),
        Err(PatchError::TooLarge(
            "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001".into()
        ))
    );
}

#[test]
fn json_patch_cannot_grow_a_document_without_end() {
    // [F25] each copy doubles what is there
    let operations: Vec<String> = (0..64)
        .map(|at| format!(r#"{{"op":"copy","from":"","path":"/data/{at}"}}"#))
        .collect();
    assert!(json_patch(&format!("[{}]", operations.join(","))).is_err());
    let doubling: Vec<String> = (0..64)
        .map(|at| format!(r#"{{"op":"copy","from":"/data","path":"/data/{at}"}}"#))
        .collect();
    assert_eq!(
        json_patch(&format!("[{}]", doubling.join(","))),
        Err(PatchError::Unprocessable(UNFIT.into()))
    );
}

#[test]
fn json_patch_cannot_nest_a_document_without_end() {
    // [F25] each move wraps what is there once more
    let wrap = |at: usize| {
        let add = format!(r#"{{"op":"add","path":"/w{}","value":{{}}}}"#, at + 1);
        let r#move = format!(r#"{{"op":"move","from":"/w{at}","path":"/w{}/in"}}"#, at + 1);
        [add, r#move]
    };
    let mut operations = vec![r#"{"op":"add","path":"/w0","value":{}}"#.to_owned()];
    operations.extend((0..400).flat_map(wrap));
    assert!(json_patch(&format!("[{}]", operations.join(","))).is_ok());
    operations.extend((400..4_000).flat_map(wrap));
    assert_eq!(
        json_patch(&format!("[{}]", operations.join(","))),
        Err(PatchError::Unprocessable(UNFIT.into()))
    );
}

#[test]
fn merge_patch_merges_objects_and_removes_nulls() {
    // [F10]
    let finalizers = r#"["c","d"]"#;
    for (patch, want) in [
        ("{}", with(r#"{"k":"v","l":"w"}"#, finalizers)),
        (
            r#"{"data":{"a":"b","k":null,"none":null}}"#,
            with(r#"{"a":"b","l":"w"}"#, finalizers),
        ),
        (r#"{"data":5}"#, with("5", finalizers)),
        (
            r#"{"data":{"k":{"x":null,"y":1}}}"#,
            with(r#"{"k":{"y":1},"l":"w"}"#, finalizers),
        ),
        (
            r#"{"metadata":{"finalizers":["z"]}}"#,
            with(r#"{"k":"v","l":"w"}"#, r#"["z"]"#),
        ),
        (
            r#"{"data":{"k":"1","k":"2"}}"#,
            with(r#"{"k":"2","l":"w"}"#, finalizers),
        ),
    ] {
        assert_eq!(merge_patch(patch).as_ref(), Ok(&want), "{patch}");
    }
    assert_eq!(
        field_findings(PatchType::Merge, br#"{"data":{"k":"1","k":"2"}}"#),
        [r#"duplicate field "data.k""#]
    );
}

#[test]
fn merge_patch_that_is_none_is_a_bad_request() {
    // [F10]
    for (patch, want) in [
        ("{", "invalid JSON patch"),
        ("null", "Invalid JSON Patch"),
        (
            "[]",
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (
            "5",
            "error decoding patch: json: cannot unmarshal number into Go value of type map[string]interface {}",
        ),
        (
            r#"{"a":1e400}"#,
            "error decoding patch: json: cannot unmarshal number 1e400 into Go value of type float64",
        ),
    ] {
        assert_eq!(merge_patch(patch), Err(PatchError::BadRequest(want.into())), "{patch}");
    }
}

#[test]
fn field_findings_name_what_is_odd_in_a_json_patch() {
    // [F14]
    let patch = br#"[{"op":"add","path":"/data","value":{"a":"b","a":"c"},"path":"/data","foo":1}]"#;
    assert_eq!(
        field_findings(PatchType::Json, patch),
        [
            r#"json patch duplicate field "[0].value.a""#,
            r#"json patch duplicate field "[0].path""#,
            r#"json patch unknown field "[0].foo""#
        ]
    );
}

#[test]
fn patch_type_is_refused_with_the_text_of_the_kind() {
    // [F10]
    let maps = resource("", "v1", "configmaps");
    let widgets = resource("example.com", "v1", "widgets");
    assert_eq!(
        PatchType::from_header(Some("application/merge-patch+json; charset=utf-8"), &maps),
        Ok(PatchType::Merge)
    );
    assert_eq!(
        PatchType::from_header(Some("application/json-patch+json"), &widgets),
        Ok(PatchType::Json)
    );
    for content_type in [
        None,
        Some("application/json"),
        Some("text/plain"),
        Some("application/apply-patch+cbor"),
    ] {
        assert_eq!(
            PatchType::from_header(content_type, &maps),
            Err(PatchError::UnsupportedMediaType("415: Unsupported Media Type".into()))
        );
        assert_eq!(
            PatchType::from_header(content_type, &widgets),
            Err(PatchError::UnsupportedMediaType("the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml".into()))
        );
    }
}

#[test]
fn merge_patch_takes_nulls_out_of_what_is_in_lists() {
    // [F10] but not where the list replaces an object
    let list = r#"[{"a":null,"b":[null,{"c":null}]},null]"#;
    let pruned = r#"[{"b":[null,{}]},null]"#;
    for (member, want) in [
        ("finalizers", pruned),
        ("new", pruned),
        ("name", pruned),
        ("labels", list),
    ] {
        let patched = merge_patch(&format!(r#"{{"metadata":{{"{member}":{list}}}}}"#)).unwrap();
        assert!(patched.contains(&format!(r#""{member}":{want}"#)), "{patched}");
    }
    let deep = format!(r#"{{"x":{}null{}}}"#, "[".repeat(9_000), "]".repeat(9_000));
    assert_eq!(merge_patch(&deep), Err(PatchError::too_deep()));
}

#[test]
fn patches_never_panic_on_hostile_text() {
    // [F25]
    let seed = 0x5eed_0003;
    println!("seed {seed:#x}");
    let mut random = fastrand::Rng::with_seed(seed);
    let seeds = [
        r#"[{"op":"copy","from":"/data/k","path":"/metadata/finalizers/-1","value":{"a":[1,2]}},{"op":"move","from":"/data","path":"/data/x"}]"#,
        r#"{"data":{"k":null,"x":{"y":[1]}},"metadata":{"labels":{"a":"c"}}}"#,
    ];
    for _ in 0..20_000 {
        for (patch_type, seed) in [(PatchType::Json, seeds[0]), (PatchType::Merge, seeds[1])] {
            let mut patch = seed.as_bytes().to_vec();
            for _ in 0..random.usize(1..5) {
                let at = random.usize(..patch.len());
                patch[at] = *random.choice(b"{}[]\",:/-0~\\null\xff").unwrap();
            }
            if let Ok(text) = apply(patch_type, CURRENT.as_bytes(), &patch, FieldValidation::Warn) {
                Tape::parse(&text).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&patch)));
            }
            field_findings(patch_type, &patch);
        }
    }
    let deep = format!("{}1{}", r#"{"a":"#.repeat(9_000), "}".repeat(9_000));
    assert!(merge_patch(&deep).is_err());
}
