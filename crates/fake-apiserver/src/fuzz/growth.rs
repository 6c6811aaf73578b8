//! [F25] Twice the input takes at most twice the steps, in each parser, walk and evaluator.

use std::fmt::Write as _;

use super::resources;
use crate::codec::{ContentType, FieldValidation, convert, decode, duplicates};
use crate::json::{Tape, canonical};
use crate::kinds::Resource;
use crate::object::Object;
use crate::patch::{PatchType, apply, apply_strategic};
use crate::schemas::validate;
use crate::steps::count;
use crate::structured::{check, compare, fields_of, fields_v1, merge, remove};
use crate::validation::Written;

/// Sizes of inputs: what takes as many steps as the square of the size takes ten million of the larger one.
const SIZE: usize = 2_000;

/// Checks how the steps grow when the input doubles.
fn grows(what: &str, run: impl Fn(usize)) {
    let steps = |size| count(|| run(size)).1;
    let (once, twice) = (steps(SIZE), steps(2 * SIZE));
    assert!(once >= SIZE, "{what}: only {once} steps are counted");
    // A logarithm may be among them.
    let most = 2 * once + once / 4 + 1_000;
    assert!(twice <= most, "{what}: {once} steps, and {twice} of twice the size");
}

/// A list of what is made of each number.
fn list(size: usize, item: impl Fn(usize) -> String) -> String {
    (0..size).map(item).collect::<Vec<_>>().join(",")
}

fn object(resource: &Resource, body: &str) -> Object {
    let decoded = decode(resource, ContentType::Json, body.as_bytes(), FieldValidation::Warn);
    decoded.expect("an object").object
}

#[test]
fn texts_that_are_read() {
    grows("JSON", |size| {
        let text = format!(
            "[{}{}]",
            list(size, |at| format!(r#"{{"{at}":[{at}]}}"#)),
            ",[".repeat(0)
        );
        let tape = Tape::parse(text.as_bytes()).unwrap();
        canonical::write(&mut Vec::new(), tape.root()).unwrap();
        duplicates(tape.root());
    });
    grows("deep JSON", |size| {
        let text = format!("{}1{}", r#"{"a":["#.repeat(size), "]}".repeat(size));
        let tape = Tape::parse(text.as_bytes()).unwrap();
        canonical::write(&mut Vec::new(), tape.root()).unwrap();
        duplicates(tape.root());
    });
    let maps = resources::built_in("configmaps");
    let yaml = |body: &str| decode(maps, ContentType::Yaml, body.as_bytes(), FieldValidation::Warn);
    grows("YAML", |size| {
        let mut body = "data:\n".to_owned();
        for at in 0..size {
            let _ = writeln!(body, "  k{at}: &a{at} \"{at}\" # {at}");
        }
        yaml(&body).unwrap();
    });
    grows("deep YAML", |size| {
        drop(yaml(&format!("{}{}", "[".repeat(size), "]".repeat(size))));
    });
    grows("aliases of YAML", |size| {
        let aliases = list(size, |_| "*a".to_owned());
        drop(yaml(&format!("a: &a [x, y]\nb: [{aliases}]\n")));
    });
    grows("merges of YAML", |size| {
        let mut body = "a: &a {x: y}\n".to_owned();
        for at in 0..size {
            let _ = writeln!(body, "b{at}: {{<<: *a, c: d}}");
        }
        drop(yaml(&body));
    });
    grows("protobuf", |size| {
        let mut message = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12".to_vec();
        let mut map = Vec::new();
        for at in 0..size {
            let key = format!("{at:05}");
            map.extend(b"\x12\x0a\x0a\x05");
            map.extend(key.bytes());
            map.extend(b"\x12\x01x");
        }
        let mut length = map.len();
        while length >= 0x80 {
            message.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
            length >>= 7;
        }
        message.push(u8::try_from(length).unwrap());
        message.extend(map);
        let decoded = decode(maps, ContentType::Protobuf, &message, FieldValidation::Strict);
        decoded.unwrap();
    });
    grows("a built-in kind", |size| {
        let containers = list(size, |at| {
            format!(r#"{{"name":"c{at}","nope":1,"ports":[{{"containerPort":1}}]}}"#)
        });
        object(
            resources::built_in("pods"),
            &format!(r#"{{"spec":{{"containers":[{containers}]}}}}"#),
        );
    });
    grows("a label selector", |size| {
        let text = list(size, |at| format!("a{at} in (b, c)"));
        drop(crate::selector::LabelSelector::parse(&text));
    });
}

#[test]
fn patches_that_are_applied() {
    let data =
        |size: usize, value: &str| format!(r#"{{"data":{{{}}}}}"#, list(size, |at| format!(r#""{at}":{value}"#)));
    grows("a merge patch", |size| {
        let patch = format!(
            r#"{{"data":{{{}}}}}"#,
            list(size, |at| format!(r#""{at}x":1,"{at}":null"#))
        );
        let current = data(size, "\"x\"");
        apply(
            PatchType::Merge,
            current.as_bytes(),
            patch.as_bytes(),
            FieldValidation::Warn,
        )
        .unwrap();
    });
    grows("a JSON patch", |size| {
        let patch = list(size, |at| {
            format!(r#"{{"op":"replace","path":"/data/{at}","value":"y"}}"#)
        });
        let (current, patch) = (data(size, "\"x\""), format!("[{patch}]"));
        apply(
            PatchType::Json,
            current.as_bytes(),
            patch.as_bytes(),
            FieldValidation::Warn,
        )
        .unwrap();
    });
    grows("a strategic merge patch", |size| {
        let id = resources::type_of(resources::built_in("pods")).unwrap();
        let containers = |from: usize| {
            let containers = list(size, |at| format!(r#"{{"name":"c{}","image":"i{from}"}}"#, at + from));
            let order = list(size, |at| format!(r#"{{"name":"c{}"}}"#, at + from));
            let order = if from > 0 {
                format!(r#""$setElementOrder/containers":[{order}],"#)
            } else {
                String::new()
            };
            format!(r#"{{"spec":{{{order}"containers":[{containers}]}}}}"#)
        };
        let patched = apply_strategic(containers(0).as_bytes(), containers(1).as_bytes(), id).unwrap();
        let tape = Tape::parse(&patched).unwrap();
        convert(id, tape.root()).unwrap();
    });
}

#[test]
fn operations_of_a_json_patch_that_look_at_much() {
    let apply = |current: &str, operations: String| {
        let patch = format!("[{operations}]");
        apply(
            PatchType::Json,
            current.as_bytes(),
            patch.as_bytes(),
            FieldValidation::Warn,
        )
        .is_ok()
    };
    let numbers = format!(r#"{{"l":[{}]}}"#, list(1_000_000, |_| "1".to_owned()));
    let add = |_| r#"{"op":"add","path":"/l/0","value":1}"#.to_owned();
    assert!(apply(&numbers, list(100, add)));
    assert!(!apply(&numbers, list(10_000, add)), "each moves all of the list");
    let test = |_| r#"{"op":"test","path":"","value":{}}"#.to_owned();
    assert!(!apply(&numbers, list(10_000, test)));
    let text = format!(r#"{{"a":"{}"}}"#, "x".repeat(600_000));
    let copy = |_| r#"{"op":"copy","from":"/a","path":"/b"}"#.to_owned();
    assert!(apply(&text, list(5, copy)));
    assert!(!apply(&text, list(6, copy)), "3 MiB may be copied");
}

#[test]
fn fields_and_their_owners() {
    let pods = resources::built_in("pods").structures.own.root();
    let pod = |size: usize, image: &str| {
        let containers = list(size, |at| format!(r#"{{"name":"c{at:05}","image":"{image}"}}"#));
        format!(r#"{{"spec":{{"containers":[{containers}]}}}}"#)
    };
    grows("structured merge", |size| {
        let (old, new) = (pod(size, "a"), pod(size, "b"));
        let (old, new) = (
            Tape::parse(old.as_bytes()).unwrap(),
            Tape::parse(new.as_bytes()).unwrap(),
        );
        assert!(check(pods, new.root()).is_empty());
        let found = compare(pods, old.root(), new.root()).unwrap();
        let set = fields_of(pods, new.root());
        let mut encoded = Vec::new();
        fields_v1::encode(&set, &mut encoded);
        let encoded = Tape::parse(&encoded).unwrap();
        fields_v1::decode(encoded.root()).unwrap();
        merge(pods, old.root(), new.root()).unwrap();
        remove(pods, new.root(), &found.modified);
        remove(pods, new.root(), &set);
    });
}

#[test]
fn custom_resources_that_are_validated() {
    let item = r#"{"type":"object","required":["k"],"properties":{"k":{"type":"integer"},"v":{"type":"integer","maximum":5},
        "any":{"anyOf":[{"required":["v"]},{"required":["w"]}],"type":"object","properties":{"v":{"type":"integer"},"w":{"type":"string"}}}},
        "x-kubernetes-validations":[{"rule":"self.v >= 0 && self.k >= 0"},{"rule":"self.v >= oldSelf.v - 100"}]}"#;
    let schema = format!(
        r#"{{"type":"object","properties":{{"spec":{{"type":"object","properties":{{
        "l":{{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{item}}},
        "m":{{"type":"object","additionalProperties":{{"type":"string","maxLength":2}}}},
        "set":{{"type":"array","x-kubernetes-list-type":"set","items":{{"type":"string"}}}}}},
        "x-kubernetes-validations":[{{"rule":"self.l.all(x, x.v < 1000)"}},{{"rule":"self.l.map(x, x.v).filter(x, x > 0).size() >= 0"}}]}}}}}}"#
    );
    let widgets = resources::custom(schema.as_bytes()).expect("a schema");
    let widget = |size: usize, value: usize, text: &str| {
        let items = list(size, |at| format!(r#"{{"k":{at},"v":{value},"any":{{"w":"x"}}}}"#));
        let members = list(size, |at| format!(r#""m{at}":"{text}""#));
        let set = list(size, |at| format!(r#""{at}","{at}""#));
        object(
            &widgets,
            &format!(
                r#"{{"apiVersion":"example.com/v1","kind":"Widget","spec":{{"l":[{items}],"m":{{{members}}},"set":[{set}]}}}}"#
            ),
        )
    };
    // The constant is what the rules cost for the whole list.
    for (what, value, text, mistakes) in [("good objects", 4, "x", 1), ("bad objects", 9, "xxx", 3)] {
        grows(what, |size| {
            let (old, new) = (widget(size, 3, "y"), widget(size, value, text));
            let written = Written {
                new: &new,
                old: Some(&old),
                of_status: false,
            };
            let found = validate(&widgets, &written, Vec::new()).len();
            assert!(found < mistakes * size, "{found}");
            assert_eq!(found > 0, text.len() > 1);
            let written = Written { old: None, ..written };
            assert!(
                validate(&widgets, &written, Vec::new()).len() >= size,
                "the items of the set"
            );
        });
    }
}
